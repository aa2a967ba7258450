//! The search for headers in memory, without any symbol.

use super::after_header::AfterHeader;
use super::header;
use super::layout::{MAGIC, TraceLayout};
use super::{Found, Haystack, repair};

/// Damaged headers that are examined closely: memory that is full of their marks would take hours.
const TRIES: u32 = 1024;

/// Every sound header, at most `most`. Where there is none: damaged ones of which enough is left to say where the ring is.
pub(super) fn scan(hay: &Haystack<'_>, most: usize) -> Vec<Found> {
    let bytes = hay.bytes();
    let (mut found, mut damaged): (Vec<Found>, Vec<Found>) = (Vec::new(), Vec::new());
    let (mut at, mut tries) = (hay.next(0), TRIES);
    // Every offset is tried: a dump may begin anywhere.
    while let Some(window) = bytes.get(at..).filter(|w| w.len() >= 4 && found.len() < most) {
        let starts = starts(window, at);
        let candidates = starts.into_iter().flatten().filter_map(|start| candidate(bytes, start, &mut tries));
        // A header that is read four bytes off still looks like one in part.
        if starts != [None; 2]
            && let Some((is_sound, _, header)) = candidates.max_by_key(|(is_sound, evidence, _)| (*is_sound, *evidence))
        {
            let list = if is_sound { &mut found } else { &mut damaged };
            // Its first word and its marks may both have been found.
            if list.len() < most && !list.iter().any(|f| f.offset == header.offset) {
                list.push(header);
            }
        }
        at = hay.next(at.saturating_add(1));
    }
    if found.is_empty() { damaged } else { found }
}

/// The header at `start`: whether it is sound, how much of one is there, and where its ring is. So many `tries` are left for
/// damaged ones.
fn candidate(bytes: &[u8], start: usize, tries: &mut u32) -> Option<(bool, u32, Found)> {
    let rest = bytes.get(start..)?;
    let (endian, word, stored) = header::detect(rest)?;
    let (is_sound, evidence) = (stored.is_sound(word), stored.evidence(word));
    if !is_sound {
        *tries = tries.checked_sub(1)?;
    }
    let behind = AfterHeader { bytes: rest, endian, word };
    let fields = if is_sound { stored } else { repair::guess(stored, &behind)? };
    let capacity = TraceLayout::new(0, (endian, word), fields, None).capacity;
    Some((is_sound, evidence, Found { offset: start, base: fields.base, capacity, endian, word, events: None }))
}

/// Where a header may begin whose first word, or whose marks, are at `at`.
fn starts(window: &[u8], at: usize) -> [Option<usize>; 2] {
    let Some(head) = window.first_chunk::<4>() else { return [None; 2] };
    if *head == MAGIC.to_le_bytes() {
        [Some(at), None]
    } else if *head == MAGIC.to_be_bytes() {
        // A wide big-endian header has four zero bytes before it.
        [Some(at), at.checked_sub(4)]
    } else if *head == [0xAA; 4] {
        // All bytes of a mark are the same: they look alike in either order.
        const NARROW: usize = 36;
        const WIDE: usize = 72;
        match window.get(4..12) {
            Some([0xBB, 0xBB, 0xBB, 0xBB, ..]) => [at.checked_sub(NARROW), None],
            Some([0, 0, 0, 0, 0xBB, ..]) => [at.checked_sub(WIDE), at.checked_sub(WIDE + 4)],
            _ => [None; 2],
        }
    } else {
        [None; 2]
    }
}
