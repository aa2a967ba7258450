//! Which bits of a stamp the clock counts in: those that the header's mask says, unless the stamps contradict it.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events")]

use super::entry::Codec;
use super::order::{Slots, Votes, rough_clock};
use crate::code::Code;
use crate::trace::{Clock, Direction, Issue, Place};

/// One step in so many may be out of the ordinary.
const EXCEPTIONS: u64 = 16;

/// What the whole words of the stamps say, once under the header's mask and once under a wider one.
#[derive(Default)]
struct Seen {
    events: u64,
    /// Steps that the wider clock calls long.
    long: u64,
    /// Short steps of the wider clock that are others under the mask.
    differ: u64,
}

/// The mask to read the stamps by.
pub(super) fn believed(slots: &Slots<'_>, codec: Codec, issues: &mut Vec<Issue>) -> u64 {
    let said = codec.mask;
    let whole = Codec { mask: codec.word.max(), ..codec };
    if said >= whole.mask {
        return said;
    }
    let stamps = || slots.iter().map(|(_, slot)| whole.read(slot)).filter(|e| e.context != 0).map(|e| e.stamp);
    let (mut all, mut above, mut votes, mut before) = (0u64, 0u64, Votes::default(), None);
    for stamp in stamps() {
        if stamp & !said != 0 {
            above += 1;
            all |= stamp;
        }
        if let Some(before) = before.replace(stamp) {
            votes.count(before, stamp);
        }
    }
    // One or two such stamps are more likely damaged.
    if above < 3 {
        return said;
    }
    let wide = if all <= u64::from(u32::MAX) { u64::from(u32::MAX) } else { u64::MAX };
    let seen = look(stamps(), said, wide, votes.direction().0);
    let (usual, coherent) = (is_usual(said), seen.long <= (seen.events / EXCEPTIONS).max(2));
    // Kernels store the whole word. A mask of 16 or 24 bits may be meant, as long as few steps are too long for it (a damaged
    // stamp makes one such step, and one back); or what is above it is no part of the count.
    if usual && (!coherent || seen.differ <= seen.long.max(2)) {
        return said;
    }
    let taken = if coherent { wide } else { said };
    issues.push(
        Issue::new(
            Code::MaskContradicted, format!(
                "the header's time mask {said:#x} leaves out bits that {above} of {} stamps have set; {taken:#x} is used",
                seen.events
            ),
        )
        .times(above)
        .at(Place::address(slots.header())),
    );
    taken
}

/// A mask that is usual for a clock: whole bytes.
const fn is_usual(mask: u64) -> bool {
    mask == 0xFFFF || mask == 0xFF_FFFF || mask == 0xFFFF_FFFF
}

fn look(stamps: impl Iterator<Item = u64>, said: u64, wide: u64, direction: Direction) -> Seen {
    let (narrow, whole): (Clock, Clock) = (rough_clock(said, direction), rough_clock(wide, direction));
    let (mut seen, mut before) = (Seen::default(), None);
    for stamp in stamps {
        seen.events += 1;
        let Some(before) = before.replace(stamp) else { continue };
        let step = whole.step(before, stamp);
        if step > wide >> 3 {
            seen.long += 1;
        } else if step != narrow.step(before & said, stamp & said) {
            seen.differ += 1;
        }
    }
    seen
}
