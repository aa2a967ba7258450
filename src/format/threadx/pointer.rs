//! Whether the current pointer points to where the stamps say that the oldest event is.

use super::super::{DecodeOptions, Extent};
use super::capture::Capture;
use super::clock;
use super::coherence::EventRanges;
use super::entry::Codec;
use super::ids::Ids;
use super::layout::TraceLayout;
use super::order::{Ring, Slots, rough_clock};
use super::prescan::{PreScan, Rules};
use super::steps::{Steps, View};
use crate::code::Code;
use crate::trace::{Clock, Direction, Issue, Place};

/// The order of the slots that were read, and what they say together.
pub(super) struct Ordered {
    pub ring: Ring,
    pub scan: PreScan,
    /// The trace cut where its time is out of the ordinary, where that was asked.
    pub ranges: Option<EventRanges>,
}

/// What is needed to judge an order.
pub(super) struct Judge<'a> {
    pub slots: &'a Slots<'a>,
    pub g: &'a TraceLayout,
    pub codec: Codec,
    pub ids: &'a Ids,
    pub options: &'a DecodeOptions,
}

impl Judge<'_> {
    /// What the slots in this order say together. Where no stamp goes back, and where each core has a clock of its own,
    /// time does not say whether the order is right.
    fn look(&self, ring: Ring) -> Ordered {
        let scan = PreScan::of(&ring, self.rules(), &[]);
        let clock = self.clock(&scan);
        let says = scan.backward(clock.direction).0 > 0 && !clock::is_per_core(&scan, clock.direction);
        let ranges = says.then(|| {
            let view = View { ring: &ring, codec: self.codec, ids: self.ids, clock: &clock, core: None };
            EventRanges::of(view, &scan.steps.by(&clock).unwrap_or_else(|| Steps::of(view)))
        });
        Ordered { ring, scan, ranges }
    }

    fn rules(&self) -> Rules<'_> {
        Rules { codec: self.codec, direction: self.direction(), ids: self.ids, previous: false }
    }

    fn direction(&self) -> Direction {
        self.options.direction.unwrap_or_else(|| self.slots.direction())
    }

    /// What the slots say together without stamps that do not match: one damaged stamp would hide a clock's period.
    fn without_outliers(&self, mut ordered: Ordered) -> Ordered {
        let clock = self.clock(&ordered.scan);
        let outliers = ordered.ranges.as_ref().map(|s| s.sort(&clock).ranges()).unwrap_or_default();
        if !outliers.is_empty() {
            ordered.scan = PreScan::of(&ordered.ring, self.rules(), &outliers);
        }
        ordered
    }

    /// A clock by which long steps differ from short ones.
    fn clock(&self, scan: &PreScan) -> Clock {
        let direction = self.options.direction.unwrap_or_else(|| scan.votes().direction().0);
        let period = self.options.period.or_else(|| clock::shown_period(scan, self.codec, direction));
        Clock { period, ..rough_clock(self.codec.mask, direction) }
    }

    /// The slot that is the oldest by the stamps, where this order begins elsewhere.
    fn oldest(&self, ordered: &Ordered) -> Option<u64> {
        let ring = &ordered.ring;
        if !ring.complete || !ring.wrapped {
            return None;
        }
        let seq = ordered.ranges.as_ref()?.oldest(&self.clock(&ordered.scan))?;
        Some(self.g.after(ring.runs.first()?.first_slot, seq))
    }

    /// The kernel's pointer and the header's copy of it, where they differ by more than the slot that is being written:
    /// one of them is overwritten.
    fn settle(&self, issues: &mut Vec<Issue>) -> Option<u64> {
        let (kernel, header) = self.g.differing()?;
        // After the newest event: there is an event before the slot, and time does not go on with the slot.
        let ends = |slot: u64| self.slots.is_used(self.g.before(slot, 1)) && !self.slots.goes_on(slot);
        let taken = if ends(header) && !ends(kernel) { header } else { kernel };
        issues.push(
            Issue::new(
                Code::CurrentDiffers, format!(
                    "the kernel's current pointer points to slot {kernel}, and the header's copy of it to slot {header}: one of them was overwritten; by the time stamps slot {taken} is used"
                ),
            )
            .at(Place::address(self.g.address(taken))),
        );
        Some(taken)
    }

    /// The slots in the order in which they were written, as the pointers say where the stamps do not say otherwise.
    pub fn order(&self, capture: &Capture, torn: &[std::ops::Range<u64>], issues: &mut Vec<Issue>) -> Ordered {
        let settled = if capture.torn.is_none() { self.settle(issues) } else { None };
        let g = TraceLayout { current: settled.or(self.g.current), ..*self.g };
        // By the stamps alone: they show the user that --direction is wrong.
        let ring = Ring::order(self.slots, &g, torn, self.slots.direction(), issues);
        let mut ordered = self.look(ring);
        if let Some(slot) = self.oldest(&ordered) {
            // A clock that reloads below its mask falls back anywhere.
            let reloads = ordered.ranges.as_ref().is_none_or(EventRanges::reaches_zero);
            let wide = ordered.scan.steps.most >= self.codec.mask >> 2;
            let certain = wide && !reloads || settled.is_some() || self.slots.never_wrapped();
            issues.push(misplaced(self.g, slot, certain));
            if certain {
                ordered = self.look(Ring::at(self.slots, slot, true, &[]));
            }
        }
        if capture.extent != Extent::All {
            ordered = self.look(ordered.ring.newest(capture.extent));
        }
        self.without_outliers(ordered)
    }
}

fn misplaced(g: &TraceLayout, slot: u64, certain: bool) -> Issue {
    let issue = if certain {
        Issue::new(
            Code::CurrentMisplaced,
            "the current pointer points into the middle of the events; order is recovered from the time stamps",
        )
    } else {
        Issue::new(
            Code::CurrentDoubtful,
            "time falls back once, within the events: the clock was set back there, or the current pointer was overwritten and the events before it are the newest",
        )
    };
    issue.at(Place::address(g.address(slot)))
}
