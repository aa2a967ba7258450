//! Damaged copies of captures of all systems: cut, bits turned over, words that are no counts, zeros. The same on every
//! machine.

use super::dice::Dice;
use super::tools::{Scratch, fixture};

/// The file that is damaged, and the words that name the source; `{}` is the damaged file.
const CAPTURES: [(&str, &str); 11] = [
    ("cm3.trx", "{}"),
    ("be.trx", "{}"),
    ("host-ulong64.trx", "{}"),
    ("smp.trx", "{}"),
    ("cm3.core", "--elf cm3.elf {}"),
    ("smp.core", "--elf smp.elf {}"),
    ("be.core", "--scan {}"),
    ("uia-stop.ram.bin", "--elf uia-stop.elf {}@0x20000000"),
    ("uia-min.ram.bin", "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 {}@0x20000000"),
    ("qnx-ring.bin", "{}"),
    ("qnx.kev", "{}"),
];

/// Damaged captures: a name, and the words of the command line.
pub fn captures(scratch: &Scratch, rounds: u64) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for round in 0..rounds {
        for (number, (file, words)) in (0u64..).zip(CAPTURES) {
            let mut dice = Dice::of(round * 100 + number);
            let mut bytes = std::fs::read(fixture(file)).unwrap();
            let kind = damage(&mut bytes, (round + number) % 4, &mut dice);
            let path = scratch.path(&format!("{round}-{file}"));
            std::fs::write(&path, bytes).unwrap();
            all.push((format!("{file}, {kind}, round {round}"), words.replace("{}", &path)));
        }
    }
    all
}

fn damage(bytes: &mut Vec<u8>, kind: u64, dice: &mut Dice) -> &'static str {
    let len = bytes.len();
    match kind {
        0 => {
            bytes.truncate(len - dice.below(len / 2));
            "cut"
        }
        1 => {
            for _ in 0..dice.below(60) + 1 {
                bytes[dice.below(len)] ^= 1 << dice.below(8);
            }
            "bits"
        }
        2 => {
            for _ in 0..dice.below(8) + 1 {
                let at = dice.below(len - 4) & !3;
                let word = [0, u32::MAX, 0x7FFF_FFFF, 0x8000_0000][dice.below(4)];
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            "words"
        }
        _ => {
            let at = dice.below(len - 200);
            bytes[at..at + 200].fill(0);
            "zeros"
        }
    }
}
