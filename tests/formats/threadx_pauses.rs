//! Sound captures whose pauses are about as long as the clock's range: their stamps fall back anywhere, and no issue may
//! say that they were damaged.

use crate::support::builder::{Buffer, Entry};
use crate::support::threadx::*;
use std::collections::BTreeMap;
use std::ops::Range;
use tx_trace::trace::Trace;

/// A clock, and the steps of the system that reads it, in its ticks.
struct Shape {
    period: u64,
    mask: u64,
    step: Range<u64>,
    pause: Range<u64>,
}

/// Nanoseconds that restart each second, and pauses of 0.6 to 3 s.
const SECOND: Shape =
    Shape { period: 1_000_000_000, mask: 0xFFFF_FFFF, step: 500..300_000, pause: 600_000_000..3_000_000_000 };
/// 16 bits at 1 MHz, and pauses of 30 to 150 ms.
const BITS_16: Shape = Shape { period: 1 << 16, mask: 0xFFFF, step: 5..900, pause: 30_000..150_000 };

struct Numbers(u64);

impl Numbers {
    fn within(&mut self, range: &Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        range.start + (mixed ^ mixed >> 31) % (range.end - range.start)
    }
}

/// Bursts of events with a pause behind each.
fn buffer(shape: &Shape, seed: u64) -> Buffer {
    let mut numbers = Numbers(seed << 32);
    let (mut now, mut list) = (numbers.within(&(0..shape.period)), Vec::new());
    while list.len() < 400 {
        for n in 0..numbers.within(&(4..60)) {
            now += numbers.within(&shape.step);
            let stamp = now % shape.period;
            list.push(match n {
                0 => Entry::isr(0, 3, stamp, [0x2000_7F00, 15, 15, 0]),
                1 => Entry::isr(0, 4, stamp, [0x2000_7F00, 15, 15, 0]),
                _ => Entry::thread(ALPHA, 5, 5000 + n % 7, stamp, [n, 0, 0, 0]),
            });
        }
        now += numbers.within(&shape.pause);
    }
    Buffer { objects: two_threads(), mask: shape.mask, ..Buffer::new(BASE) }.record(256, &list)
}

/// How often each issue is reported in so many captures.
fn reported(shape: &Shape, captures: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for seed in 0..captures {
        let trace: Trace = decode(&buffer(shape, seed));
        for code in codes(&trace) {
            *counts.entry(code.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn pauses_as_long_as_the_clocks_range_were_taken_for_damage() {
    for (name, shape) in [("nanoseconds of a second", SECOND), ("16 bits", BITS_16)] {
        let counts = reported(&shape, 300);
        let of = |code: &str| counts.get(code).copied().unwrap_or(0);
        let false_ones = of("slots-incoherent") + of("period-inferred") + of("current-misplaced");
        assert!(false_ones <= 6, "{name}: {counts:?}");
    }
}
