//! Dumps of digits and nothing else, as `xxd -p` prints them: recognized by their form, read as raw images are.
#![cfg(feature = "cli")]

use std::fmt::Write as _;

use crate::support::builder::Buffer;
use crate::support::dice::Dice;
use crate::support::machine::{Scratch, tx_trace};
use crate::support::threadx::{BASE, steady, two_threads};
use tx_trace::mem::image::text::{Kind, Wrong, read, sniff};

/// What `xxd -p -c COLUMNS` prints.
fn xxd(bytes: &[u8], columns: usize) -> String {
    bytes.chunks(columns).fold(String::new(), |mut text, line| {
        line.iter().for_each(|b| write!(text, "{b:02x}").unwrap());
        text + "\n"
    })
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice::of(seed);
    (0..len).map(|_| dice.next() as u8).collect()
}

#[test]
fn what_xxd_prints_without_addresses_was_taken_for_the_memory_itself() {
    for len in [31, 60, 90, 1000, 5001, 200_000] {
        let bytes = noise(len as u64, len);
        for text in [xxd(&bytes, 30), xxd(&bytes, 30).to_uppercase(), xxd(&bytes, 30).replace('\n', "\r\n")] {
            assert_eq!(sniff(text.as_bytes()), Some(Kind::Plain), "{len}");
            let dump = read(Kind::Plain, text.as_bytes(), None);
            let [(0, block)] = dump.blocks.as_slice() else { panic!("{len}: {:?}", dump.blocks.len()) };
            assert!(block.as_slice() == bytes && dump.flaws.is_empty(), "{len}");
        }
    }
    // Other widths, and all in a line.
    let bytes = noise(7, 5000);
    for columns in [17, 24, 32, 64, 100, 256, 5000] {
        assert_eq!(sniff(xxd(&bytes, columns).as_bytes()), Some(Kind::Plain), "{columns}");
        assert_eq!(read(Kind::Plain, xxd(&bytes, columns).as_bytes(), None).blocks[0].1.as_slice(), bytes);
    }
}

#[test]
fn digits_that_are_no_dump_stay_what_they_are() {
    let lines = |of: &[usize]| of.iter().map(|n| "3f".repeat(n / 2) + &"3"[..n % 2] + "\n").collect::<String>();
    for (what, text) in [
        ("a checksum", lines(&[64])),
        ("a list of checksums", lines(&[64; 20])),
        ("one of SHA-1", lines(&[40; 20])),
        ("words", lines(&[8; 500])),
        ("addresses", lines(&[16; 500])),
        ("lines of any length", lines(&[60, 58, 62, 44, 60, 60])),
        ("odd lines", lines(&[61, 61, 61, 30])),
        ("a last line that is longer", lines(&[60, 60, 62])),
        ("a last line of half a byte", lines(&[60, 60, 31])),
        ("one short line", lines(&[60])),
        ("letters", lines(&[60; 5]).replace("3f", "3g")),
        ("nothing", String::new()),
        ("blanks", lines(&[60; 5]).replace("3f3f", "3f3 ")),
    ] {
        assert_eq!(sniff(text.as_bytes()), None, "{what}");
    }
    // Others keep their own reading.
    assert_eq!(sniff(b":10000000000102030405060708090A0B0C0D0E0F78\n:00000001FF\n"), Some(Kind::IntelHex));
    assert_eq!(sniff(b"S1130000000102030405060708090A0B0C0D0E0F74\n"), Some(Kind::SRecord));
    let numbered = "00000000: 4254 5854 ffff ffff 0040 0020 3040 0020  BTXT....0@. 0@. \n";
    assert_eq!(sniff(numbered.as_bytes()), Some(Kind::HexDump));
}

#[test]
fn a_damaged_line_leaves_a_gap_and_moves_nothing() {
    let bytes = noise(3, 3000);
    for (damage, from) in [("zz", 600), ("", 600), ("0", 600)] {
        let mut text: Vec<String> = xxd(&bytes, 30).lines().map(str::to_owned).collect();
        let line = &text[from / 30];
        text[from / 30] = format!("{damage}{}", &line[2..]);
        let dump = read(Kind::Plain, text.join("\n").as_bytes(), None);
        assert_eq!(sniff(text.join("\n").as_bytes()), Some(Kind::Plain));
        let [(0, before), (630, behind)] = dump.blocks.as_slice() else { panic!("{:?}", dump.blocks.len()) };
        assert!(before.as_slice() == &bytes[..600] && behind.as_slice() == &bytes[630..]);
        assert!(dump.flaws.len() == 1 && dump.flaws[0].wrong == Wrong::Line && dump.flaws[0].lines == [21]);
    }
}

#[test]
fn plain_digits_go_in_as_raw_images_do() {
    let folder = Scratch::new("plain-hex");
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let trace = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 50, 37));
    let mut memory = noise(1, 0x900);
    memory.extend(trace.bytes());
    memory.extend(noise(2, 1001));
    let (raw, text) = (path("ram.bin"), path("ram.txt"));
    std::fs::write(&raw, &memory).unwrap();
    std::fs::write(&text, xxd(&memory, 30)).unwrap();
    let list = |words: &[&str]| {
        let out = tx_trace(&[&["list", "--format", "csv"], words].concat());
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let at = format!("@{:#x}", BASE - 0x900);
    let want = list(&[&raw]);
    assert_eq!(want.lines().count(), 65);
    for words in [vec![text.clone()], vec!["--image".to_owned(), format!("{text}{at}")]] {
        assert_eq!(list(&words.iter().map(String::as_str).collect::<Vec<_>>()), want, "{words:?}");
    }
    // A trace file in digits, as TraceX reads it too.
    let trx = path("trace.txt");
    std::fs::write(&trx, xxd(&trace.bytes(), 30)).unwrap();
    assert_eq!(list(&[&trx]), want);
    // Damaged in front of the trace: it is where it was.
    let mut lines: Vec<String> = xxd(&memory, 30).lines().map(str::to_owned).collect();
    lines[5].truncate(40);
    std::fs::write(&text, lines.join("\n")).unwrap();
    for words in [vec![text.clone()], vec!["--image".to_owned(), format!("{text}{at}")]] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(list(&words), want, "{words:?}");
        let out = tx_trace(&[&["info"], &words[..]].concat());
        assert!(String::from_utf8(out.stderr).unwrap().contains("(line 6)"), "{words:?}");
    }
}
