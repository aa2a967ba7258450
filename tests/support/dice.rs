//! Chance that is the same on every machine, and damage done by it.

#![allow(dead_code, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ops::Range;

/// Xorshift, from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        let mut dice = Self((seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // The first throws of neighbouring seeds are alike.
        for _ in 0..3 {
            dice.next();
        }
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// 0 to `n` - 1; 0 where there is no choice.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 11) % n.max(1) as u64) as usize
    }

    /// True once in `n` throws.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What was done to a capture.
#[derive(Clone, Debug)]
pub struct Damage {
    /// In words, for the message of a test that fails.
    pub what: String,
    /// Bytes of the whole capture that are not what and where they were.
    pub touched: Vec<Range<usize>>,
}

impl Damage {
    pub fn hits(&self, bytes: &Range<usize>) -> bool {
        self.touched.iter().any(|t| t.start < bytes.end && bytes.start < t.end)
    }
}

/// Numbers that counts and sizes should not be.
const HUGE: [u64; 12] = [
    0,
    1,
    0x7F,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0xFFFF_FFF0,
    0x1000_0000,
    u64::MAX,
    u64::MAX - 7,
    1 << 40,
];

/// Damages a capture: truncate, flip, splice, huge counts, one to three of them. `dear` are the places that decide
/// most (headers, tables): one in three goes there.
pub fn damage(data: &mut Vec<u8>, others: &[&[u8]], dear: &[Range<usize>], dice: &mut Dice) -> Damage {
    let mut damage = Damage { what: String::new(), touched: Vec::new() };
    for _ in 0..=dice.below(3) {
        let len = data.len();
        if len == 0 {
            break;
        }
        let at = if !dear.is_empty() && dice.once_in(3) {
            let place = &dear[dice.below(dear.len())];
            (place.start + dice.below(place.len())).min(len - 1)
        } else {
            dice.below(len)
        };
        let (what, touched) = match dice.below(8) {
            0 => {
                // Into a header nothing is left to be judged: most dumps are cut somewhere in their second half.
                let at = if dice.once_in(4) { at } else { len - dice.below(len / 2) };
                data.truncate(at);
                (format!("cut at {at:#x}"), at..usize::MAX)
            }
            1..=3 => {
                let bit = dice.below(8);
                data[at] ^= 1 << bit;
                (format!("bit {bit} of {at:#x} flipped"), at..at + 1)
            }
            4 | 5 => {
                let (word, width) = (HUGE[dice.below(HUGE.len())], [2, 4, 8][dice.below(3)]);
                let at = at & !(width - 1);
                let end = (at + width).min(len);
                let bytes = if dice.once_in(2) { word.to_le_bytes() } else { (word << (64 - 8 * width)).to_be_bytes() };
                data[at..end].copy_from_slice(&bytes[..end - at]);
                (format!("{word:#x} in {width} bytes at {at:#x}"), at..end)
            }
            _ => {
                let other = others[dice.below(others.len())];
                let from = dice.below(other.len());
                let part = &other[from..other.len().min(from + 1 + dice.below(200))];
                let over = if dice.once_in(4) { 0 } else { part.len() };
                let end = len.min(at + over);
                data.splice(at..end, part.iter().copied());
                let moved = data.len() != len;
                (
                    format!("{} bytes in place of {} at {at:#x}", part.len(), end - at),
                    at..if moved { usize::MAX } else { end },
                )
            }
        };
        damage.what.push_str(&format!("{}{what}", if damage.what.is_empty() { "" } else { ", " }));
        damage.touched.push(touched);
    }
    damage
}
