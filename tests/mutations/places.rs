//! Where in a capture's bytes everything is: stated from the layouts, and not by the program.

use std::ops::Range;

use crate::captures::Kind;
use crate::listing::Shown;

/// Where an event is, and in it its stamp.
#[derive(Clone, Debug)]
pub struct Place {
    pub bytes: Range<usize>,
    pub stamp: Range<usize>,
}

/// Where everything is.
pub struct Places {
    /// The events of the undamaged listing, in its order.
    pub events: Vec<Place>,
    /// Bytes that decide where the events are: headers, registry.
    pub dear: Vec<Range<usize>>,
    /// All slots, used or not.
    pub ring: Range<usize>,
    /// Bytes of a slot.
    pub step: usize,
    pub big: bool,
    /// Words that lead to the next slot to be written: in the header, and the kernel's own.
    pub current: Vec<Range<usize>>,
    /// Words that hold the clock's mask.
    pub mask: Vec<Range<usize>>,
    /// Words that lead to the end of the ring.
    pub end: Vec<Range<usize>>,
}

impl Places {
    pub fn word(&self, bytes: &[u8], at: &Range<usize>) -> u64 {
        let word = bytes[at.clone()].iter();
        let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
        if self.big { word.fold(0, fold) } else { word.rev().fold(0, fold) }
    }

    pub fn store(&self, bytes: &mut [u8], at: &Range<usize>, value: u64) {
        let len = at.len();
        let place = &mut bytes[at.clone()];
        if self.big {
            place.copy_from_slice(&value.to_be_bytes()[8 - len..]);
        } else {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }
}

pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// Words of a listing's event, and bytes of its stamp.
fn sizes(shown: &Shown) -> (usize, usize) {
    let stamp = shown.own.split(' ').next().unwrap().len() / 2 - 2;
    (shown.own.matches("0x").count() - 1, stamp)
}

pub fn places(kind: Kind, bytes: &[u8], want: &[Shown]) -> Places {
    match kind {
        Kind::ThreadX => threadx(bytes, want),
        Kind::Uia { base } => uia(bytes, want, base),
        Kind::QnxRing => {
            let heads = [0, 16384, 32768];
            let element = |s: &Shown| s.slot as usize / 1014 * 16384 + 0xA0 + s.slot as usize % 1014 * 16;
            Places {
                // Others may be between its elements, and its rest in the next buffer.
                events: want.iter().map(|s| qnx(s, element(s), usize::MAX)).collect(),
                dear: heads.iter().map(|at| *at..at + 0xA0).collect(),
                ring: 0xA0..bytes.len(),
                step: 16,
                big: false,
                current: vec![],
                mask: vec![],
                // The count of elements, and the pointer behind the last.
                end: heads.iter().flat_map(|at| [at + 0x0C..at + 0x10, at + 0x20..at + 0x24]).collect(),
            }
        }
        Kind::QnxFile => {
            // The stamp of the first element, behind its header.
            let start = find(bytes, &0xFFFF_5794u32.to_le_bytes()).unwrap() - 4;
            let event = |s: &Shown| {
                let at = start + s.slot as usize * 16;
                qnx(s, at, at + 16 * (sizes(s).0.div_ceil(2) + 4))
            };
            Places {
                events: want.iter().map(event).collect(),
                dear: vec![0..start],
                ring: start..bytes.len(),
                step: 16,
                big: false,
                current: vec![],
                mask: vec![],
                end: vec![],
            }
        }
        Kind::Program => Places {
            events: want.iter().map(|_| Place { bytes: usize::MAX - 1..usize::MAX, stamp: 0..0 }).collect(),
            dear: vec![0..0x100],
            ring: 0..bytes.len(),
            step: 16,
            big: false,
            current: vec![],
            mask: vec![],
            end: vec![],
        },
    }
}

/// An event of one element is in it, one of several up to `end`.
fn qnx(shown: &Shown, at: usize, end: usize) -> Place {
    let end = if sizes(shown).0 > 2 { end } else { at + 16 };
    Place { bytes: at..end, stamp: at + 4..at + 8 }
}

fn uia(bytes: &[u8], want: &[Shown], base: usize) -> Places {
    let event = |s: &Shown| {
        let (words, stamp) = sizes(s);
        let at = base + s.slot as usize * 4;
        // A snapshot's words can be in several records, each behind a head of its own, which the first shows.
        let (mut end, mut left, mut head) = (at, words, 8 + stamp);
        while left > 0 || end == at {
            let word0 = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
            let len = (word0 >> 16 & 0x7FF) as usize;
            left = left.checked_sub((len - head) / 4).unwrap();
            (end, head) = (end + len, 8 + stamp + 24);
        }
        Place { bytes: at..end, stamp: at + 4..at + 4 + stamp }
    };
    // What describes the logger holds pointers into its buffer: to its end, and to where it writes.
    let inside = |w: &Range<usize>| {
        let value = u32::from_le_bytes(bytes[w.clone()].try_into().unwrap()).wrapping_sub(0x2000_0000) as usize;
        value > base && value < bytes.len()
    };
    let current = (0..base).step_by(4).map(|at| at..at + 4).filter(inside).collect();
    // The packet's length is its end once it was filled.
    let end = vec![if base == 0x20 { base + 2..base + 4 } else { base + 1..base + 4 }];
    Places {
        events: want.iter().map(event).collect(),
        dear: vec![0..base],
        ring: base..bytes.len(),
        step: 24,
        big: false,
        current,
        mask: vec![],
        end,
    }
}

fn threadx(bytes: &[u8], want: &[Shown]) -> Places {
    let little = find(bytes, b"BTXT\xFF\xFF\xFF\xFF");
    let wide = find(bytes, b"BTXT\0\0\0\0");
    let (at, big, width) = match (little, wide) {
        (Some(at), _) => (at, false, 4),
        (None, Some(at)) => (at, false, 8),
        (None, None) => (find(bytes, b"TXTB\xFF\xFF\xFF\xFF").unwrap(), true, 4),
    };
    let mut places = Places {
        events: vec![],
        dear: vec![],
        ring: 0..0,
        step: 8 * width,
        big,
        current: vec![],
        mask: vec![],
        end: vec![],
    };
    // In words; the two halves behind the fourth fill one.
    let field = |n: usize| at + n * width..at + (n + 1) * width;
    let word = |n: usize| places.word(bytes, &field(n));
    let (base, start, end, current) = (word(2), word(6), word(7), word(8));
    let offset = |pointer: u64| at + (pointer.wrapping_sub(base) & 0xFFFF_FFFF) as usize;
    let ring = offset(start)..offset(end);
    // The kernel's own pointers hold the same in another place.
    let copies = |value: u64, n: usize| {
        let all = (0..bytes.len().saturating_sub(width)).step_by(4).map(|i| i..i + width);
        let outside = all.filter(|w| w.end <= at || w.start >= ring.end);
        let own = outside.filter(|w| places.word(bytes, w) == value);
        std::iter::once(field(n)).chain(own.take(1)).collect::<Vec<_>>()
    };
    (places.current, places.end) = (copies(current, 8), copies(end, 7));
    places.mask = vec![field(1)];
    places.dear = vec![at..at + 12 * width, at..ring.start];
    places.dear.extend(places.current[1..].iter().cloned());
    places.events = want
        .iter()
        .map(|s| {
            let slot = ring.start + s.slot as usize * 8 * width;
            Place { bytes: slot..slot + 8 * width, stamp: slot + 3 * width..slot + 4 * width }
        })
        .collect();
    places.ring = ring;
    places
}
