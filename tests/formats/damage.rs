//! Damaged traces: bytes are changed at random. The decoder never panics, and what was not touched comes out as it was.

use std::collections::HashMap;

use crate::support::decode::{Seen, Source, open, seen};
use crate::support::generate::{Story, plain_clock, story};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand_like::Dice;
use tx_trace::format::Extent;
use tx_trace::trace::Trace;

/// Few lines instead of a package: where to damage, and with what.
mod rand_like {
    pub struct Dice(pub u64);
    impl Dice {
        pub fn roll(&mut self, below: usize) -> usize {
            // xorshift64*
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % below.max(1)
        }
    }
}

const SOURCES: [Source; 4] =
    [Source::Header, Source::Symbols { order_known: true }, Source::Symbols { order_known: false }, Source::Disabled];

/// The same traces in every run.
fn stories(most_slots: usize, how_many: usize) -> impl Iterator<Item = Story> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    // Where the registry is hit too, nobody may be left to vouch for an odd id.
    let strategy = story(most_slots, false, plain_clock());
    (0..how_many).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

/// Uses all of a trace, as the printing of it does.
fn use_all(trace: &Trace) -> Vec<Seen> {
    for o in trace.objects.iter() {
        let _ = (o.name.len(), trace.objects.at(o.address));
    }
    let _ = (format!("{:?} {:?} {:?}", trace.issues, trace.about, trace.clock), trace.newest());
    seen(trace)
}

/// Where the parts of a buffer are in its bytes.
fn parts(story: &Story) -> (usize, usize, usize) {
    let b = &story.buffer;
    (b.header_size() as usize, (b.ring() - b.base) as usize, (b.end() - b.base) as usize)
}

#[test]
fn nothing_panics_whatever_is_damaged() {
    let mut dice = Dice(0x5EED);
    let (mut read, mut refused) = (0u32, 0u32);
    for (i, story) in stories(24, 1500).enumerate() {
        let (header, ring, end) = parts(&story);
        let mut bytes = story.bytes();
        for _ in 0..=dice.roll(8) {
            // The header decides most: it is hit as often as all the rest.
            let at = match dice.roll(4) {
                0 | 1 => dice.roll(header),
                2 => header + dice.roll(ring - header),
                _ => ring + dice.roll(end - ring),
            };
            bytes[at] = match dice.roll(4) {
                0 => 0,
                1 => 0xFF,
                2 => bytes[at] ^ (1 << dice.roll(8)),
                _ => dice.roll(256) as u8,
            };
        }
        // A dump that ends too early, now and then.
        if dice.roll(8) == 0 {
            bytes.truncate(dice.roll(bytes.len()));
        }
        let source = SOURCES[i % SOURCES.len()];
        for extent in [Extent::All, Extent::Nothing, Extent::Newest(dice.roll(30) as u64), Extent::Newest(u64::MAX)] {
            match open(&story.buffer, &bytes, source, extent) {
                Ok(trace) => {
                    let events = use_all(&trace);
                    // Damage makes no events: one for each slot at most, each slot once, in order.
                    assert!(events.len() <= story.capacity || trace.about.capacity > story.capacity as u64, "case {i}");
                    assert!(events.is_sorted_by(|a, b| a.seq < b.seq), "case {i}: seq grows");
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.message.is_empty());
                    refused += 1;
                }
            }
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 1000 && refused > 200, "both are tried: {read} read, {refused} refused");
}

/// What an event is, without its number and without what other events tell of it.
fn own(e: &Seen) -> impl PartialEq + std::fmt::Debug + use<> {
    (e.slot, e.core, e.kind, e.address, e.priority, e.threshold, e.id, e.stamp, e.words.clone())
}

fn survivors(only_ring: bool) -> (u64, u64, Vec<String>) {
    let mut dice = Dice(0xD1CE);
    let (mut untouched, mut same, mut wrong) = (0u64, 0u64, Vec::new());
    for (i, story) in stories(150, 500).enumerate() {
        let (header, ring, end) = parts(&story);
        let entry = story.buffer.entry_size() as usize;
        let mut bytes = story.bytes();
        let mut hit = vec![false; story.capacity];
        for _ in 0..=dice.roll(6) {
            let at = if only_ring || header == ring || dice.roll(2) == 0 {
                let at = ring + dice.roll(end - ring);
                hit[(at - ring) / entry] = true;
                at
            } else {
                header + dice.roll(ring - header)
            };
            bytes[at] = dice.roll(256) as u8;
        }
        let source = SOURCES[i % SOURCES.len()];
        let got = match open(&story.buffer, &bytes, source, Extent::All) {
            Ok(trace) => use_all(&trace),
            Err(a) => panic!("case {i}: the header is whole, and still: {} {a}", a.code),
        };
        let by_slot: HashMap<u64, &Seen> = got.iter().map(|e| (e.slot, e)).collect();
        for e in story.kept().iter().filter(|e| !hit[e.slot as usize]) {
            untouched += 1;
            if by_slot.get(&e.slot).is_some_and(|g| own(g) == own(e)) {
                same += 1;
            } else {
                wrong.push(format!("case {i} {source:?} slot {}: {e:?}", e.slot));
            }
        }
    }
    (untouched, same, wrong)
}

#[test]
fn events_beside_the_damage_survive_it() {
    for only_ring in [true, false] {
        let (untouched, same, wrong) = survivors(only_ring);
        println!("{same} of {untouched}");
        assert!(untouched > 10_000);
        let lost = untouched - same;
        assert!(
            lost * 100 <= untouched,
            "{lost} of {untouched} are lost or changed, such as\n{}",
            wrong[..3.min(wrong.len())].join("\n")
        );
    }
}

/// The header says most things twice, and the kernel's pointers say them once more: one bad word need not cost the trace.
fn not_repaired(source: Source, words: &[usize]) -> Vec<String> {
    let mut dice = Dice(7);
    let mut wrong = Vec::new();
    for (i, story) in stories(24, 120).enumerate() {
        let width = if story.buffer.wide { 8 } else { 4 };
        let clean = seen(&open(&story.buffer, &story.bytes(), source, Extent::All).unwrap());
        for &word in words {
            let mut bytes = story.bytes();
            // Words before the two 16-bit numbers are at their number, those behind them likewise.
            let at = word * width + dice.roll(width);
            bytes[at] ^= 1 + dice.roll(255) as u8;
            match open(&story.buffer, &bytes, source, Extent::All) {
                Ok(trace) if seen(&trace) == clean => {}
                Ok(_) => wrong.push(format!("case {i} word {word}: other events")),
                Err(a) => wrong.push(format!("case {i} word {word}: {} {a}", a.code)),
            }
        }
    }
    wrong
}

/// Words of the header: 0 id, 1 mask, 2 base, 3 registry start, 4 name size, 5 registry end, 6 ring start, 7 ring end,
/// 8 current, 9 to 11 marks.
#[test]
fn marks_and_the_current_pointer_are_not_needed_where_the_kernel_tells() {
    for source in [Source::Header, Source::Symbols { order_known: true }, Source::Disabled] {
        let wrong = not_repaired(source, &[9, 10, 11]);
        assert!(wrong.is_empty(), "{source:?}: {}: {}", wrong.len(), wrong[0]);
    }
    let wrong = not_repaired(Source::Symbols { order_known: true }, &[8, 9, 10, 11]);
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[0]);
}

#[test]
fn one_bad_header_word_is_repaired_by_the_kernels_pointers() {
    let wrong = not_repaired(Source::Symbols { order_known: true }, &[0, 2, 3, 5, 6, 7]);
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[0]);
}

#[test]
fn one_bad_header_word_is_repaired_by_the_others() {
    // The header's own address is known, the registry begins behind it, and ends where the ring begins.
    let wrong = not_repaired(Source::Header, &[2, 3, 5, 6]);
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[0]);
}
