//! What is counted in one pass is what several passes count: on recorded traces, repeated and damaged ones, and traces that
//! no kernel writes.

use super::{ALPHA, BASE, BETA, GAMMA, GET, ISR_ENTER, ISR_EXIT, MUTEX, OTHER, PUT, RESUME, SUSPEND, TIME_SLICE, USER};
use super::{load, registry};
use crate::support::builder::{Buffer, Entry};
use crate::support::decode::{Source, fixture, open};
use crate::support::dice::Dice;
use tx_trace::analysis::tracex::numbers_both_ways;
use tx_trace::format::Extent;
use tx_trace::trace::Trace;

/// Compares both ways; true where one pass is enough.
fn compare(trace: &Trace, of: &str) -> bool {
    let Ok((one, several)) = numbers_both_ways(trace, true) else { return false };
    let Some(one) = one else { return false };
    assert_eq!(one, several, "{of}");
    true
}

fn word(bytes: &[u8], at: usize, big: bool) -> u32 {
    let word = bytes[at..at + 4].try_into().unwrap();
    if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

/// The trace of a file with 32-bit words.
fn recorded(bytes: &[u8], big: bool) -> Option<Trace> {
    let buffer = Buffer { big, ..Buffer::new(u64::from(word(bytes, 8, big))) };
    open(&buffer, bytes, Source::Header, Extent::All).ok()
}

const FILES: [(&str, bool); 3] = [("cm3.trx", false), ("smp.trx", false), ("be.trx", true)];

/// The events of a little-endian file so often, each time later.
fn repeated(bytes: &[u8], times: u32) -> Vec<u8> {
    let base = word(bytes, 8, false);
    let [ring, end, current] = [24, 28, 32].map(|at| (word(bytes, at, false) - base) as usize);
    let order = [&bytes[current..end], &bytes[ring..current]].concat();
    let stamp = |slot: &[u8]| word(slot, 12, false);
    let span = stamp(&order[order.len() - 32..]).wrapping_sub(stamp(&order)).wrapping_add(1000);
    let mut all = bytes[..ring].to_vec();
    for round in 0..times {
        for slot in order.chunks(32) {
            let start = all.len();
            all.extend(slot);
            let later = stamp(slot).wrapping_add(span.wrapping_mul(round));
            all[start + 12..start + 16].copy_from_slice(&later.to_le_bytes());
        }
    }
    let end = base + all.len() as u32;
    all[28..32].copy_from_slice(&end.to_le_bytes());
    all[32..36].copy_from_slice(&(base + ring as u32).to_le_bytes());
    all
}

#[test]
fn of_recorded_traces() {
    let mut in_one = 0;
    for (name, big) in FILES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        in_one += u32::from(compare(&recorded(&bytes, big).unwrap(), name));
    }
    assert!(in_one > 0);
    let long = repeated(&std::fs::read(fixture("cm3.trx")).unwrap(), 9);
    assert!(compare(&recorded(&long, false).unwrap(), "cm3.trx nine times"), "it needs one pass");
}

#[test]
fn of_damaged_traces() {
    let (mut in_one, mut all) = (0, 0);
    for (number, (name, big)) in (0u64..).zip(FILES) {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let bytes = if big { bytes } else { repeated(&bytes, 2) };
        for round in 0..150 {
            let mut dice = Dice::of(round * 10 + number);
            let mut bytes = bytes.clone();
            for _ in 0..=dice.below(20) {
                let at = dice.below(bytes.len() - 4) & !3;
                match dice.below(3) {
                    0 => bytes[at] ^= 1 << dice.below(8),
                    1 => bytes[at..at + 4].fill(0),
                    _ => {
                        let from = dice.below(bytes.len() - 4) & !3;
                        bytes.copy_within(from..from + 4, at);
                    }
                }
            }
            let Some(trace) = recorded(&bytes, big) else { continue };
            all += 1;
            in_one += u32::from(compare(&trace, &format!("{name}, round {round}")));
        }
    }
    assert!(in_one * 4 > all, "{in_one} of {all}");
}

/// Who runs next is random, mutexes are asked for and have owners, and some threads come late or are not registered.
#[test]
fn of_traces_that_no_kernel_writes() {
    const LATE: u64 = 0x2000_9000;
    let mut in_one = 0;
    for round in 0..2000 {
        let mut dice = Dice::of(round);
        let threads = [ALPHA, BETA, GAMMA, LATE, OTHER];
        let ids = [RESUME, SUSPEND, ISR_ENTER, ISR_EXIT, TIME_SLICE, GET, PUT, 100, 109, USER, 6];
        let count = 3 + dice.below(60);
        // In some rounds no event leaves open who runs next.
        let leaves_open = dice.once_in(3);
        let mut stamp = 1000u64;
        let events: Vec<Entry> = (0..count)
            .map(|n| {
                let known = if n < count / 2 { 3 } else { 5 };
                let mut word = || {
                    let any = [threads[dice.below(known)], MUTEX, 1, 0, 0x2001_0100];
                    any[dice.below(5)]
                };
                let mut info = [word(), word(), word(), word()];
                if !leaves_open {
                    (info[1], info[3]) = (info[1].max(1), info[3].max(ALPHA));
                }
                let (id, own) = (ids[dice.below(ids.len())], threads[dice.below(known)]);
                stamp = if dice.once_in(12) { stamp.saturating_sub(40) } else { stamp + dice.below(90) as u64 };
                match dice.below(8) {
                    0 => Entry::init(id, stamp, info),
                    1 | 2 => Entry::isr(if dice.once_in(3) { 0 } else { own }, id, stamp, info),
                    _ => Entry::thread(own, dice.below(32) as u64, id, stamp, info),
                }
            })
            .collect();
        let capacity = if dice.once_in(2) { events.len() + 2 } else { events.len().max(8) - 2 };
        let buffer = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(capacity, &events);
        in_one += u32::from(compare(&load(&buffer), &format!("round {round}")));
    }
    assert!(in_one > 400, "{in_one}");
}
