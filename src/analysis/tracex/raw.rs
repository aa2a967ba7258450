//! The events as the viewer reads them: 32-bit words, sixteen bits of an id, and its own order and time.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::ops::ControlFlow;

use crate::code::Code;
use crate::trace::{ContextId, ContextKind, Direction, Event, Trace};

/// Context word of an interrupt service routine.
pub(super) const ISR: u32 = 0xFFFF_FFFF;
/// Context word before the scheduler runs. Addresses from here on are no threads to some of the viewer's rules.
pub(super) const INIT: u32 = 0xF0F0_F0F0;

/// Ids that its rules ask for.
pub(super) mod id {
    pub const RESUME: u32 = 1;
    pub const SUSPEND: u32 = 2;
    pub const ISR_ENTER: u32 = 3;
    pub const ISR_EXIT: u32 = 4;
    pub const TIME_SLICE: u32 = 5;
    pub const RUNNING: u32 = 6;
    pub const MUTEX_GET: u32 = 52;
    pub const MUTEX_PUT: u32 = 57;
    pub const THREAD_CREATE: u32 = 100;
    pub const RELINQUISH: u32 = 109;
}

/// True for context words that mean a thread, idle included.
pub(super) const fn is_thread(context: u32) -> bool {
    context != ISR && context != INIT
}

/// An entry's words.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raw {
    pub context: u32,
    /// The dense number of the context.
    pub number: usize,
    /// The second word: in a thread its priority, in an ISR the thread that it interrupted.
    pub second: u32,
    pub threshold: Option<u32>,
    pub id: u32,
    pub stamp: u64,
    pub info: [u32; 4],
    pub seq: u64,
    pub slot: u64,
}

/// A context as the viewer has it.
#[derive(Debug, Clone, Copy)]
struct Word {
    address: u32,
    is_isr: bool,
}

/// The low half of a word.
pub(super) fn low(word: u64) -> u32 {
    u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0)
}

impl Raw {
    fn of(words: &[Word], event: &Event) -> Self {
        let word = |id: ContextId| words.get(usize::try_from(id.0).ok()?).copied();
        let context = word(event.context);
        Self {
            context: context.map_or(0, |c| c.address),
            number: usize::try_from(event.context.0).unwrap_or(usize::MAX),
            second: if context.is_some_and(|c| c.is_isr) {
                event.interrupted.and_then(word).map_or(0, |c| c.address)
            } else {
                event.priority.map_or(0, u32::from)
            },
            threshold: event.threshold.map(u32::from),
            id: event.id & 0xFFFF,
            stamp: event.stamp.unwrap_or(0),
            info: event.words.padded().map(low),
            seq: event.seq,
            slot: event.slot,
        }
    }
}

/// Which way the stamps go, as the viewer counts it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Votes {
    rises: u64,
    falls: u64,
    /// Slot and stamp of the event before.
    before: Option<(u64, u64)>,
    /// How many events of this part of the ring came before.
    place: usize,
}

impl Votes {
    /// Takes the next event of the buffer; true where it starts over.
    pub fn add(&mut self, slot: u64, stamp: u64) -> bool {
        let mut starts_over = false;
        if let Some((before, earlier)) = self.before {
            starts_over = slot < before;
            if starts_over {
                self.place = 0;
            }
            // The first pair of each of the ring's two parts has no vote.
            if self.place > 1 {
                self.rises += u64::from(stamp > earlier);
                self.falls += u64::from(stamp < earlier);
            }
        }
        self.before = Some((slot, stamp));
        self.place += 1;
        starts_over
    }

    /// True where more stamps rise than fall.
    pub const fn up(&self) -> bool {
        self.rises > self.falls
    }
}

/// Which entries the viewer reads, and in which order.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    /// The first unused slot of the buffer: nothing from there on is read.
    stop: Option<u64>,
    /// Events after which the buffer starts over, where a pointer that leads nowhere keeps the viewer from turning it.
    turn: Option<usize>,
    /// True where more stamps rise than fall.
    pub up: bool,
    /// Number of events that are not read.
    pub beyond: u64,
    mask: u64,
    /// By the trace's number of a context.
    words: Vec<Word>,
}

impl Order {
    /// With the clock and the words of a trace.
    fn new(trace: &Trace) -> Self {
        let word = |c: &crate::trace::Context| Word { address: low(c.address), is_isr: c.kind == ContextKind::Isr };
        let words = trace.contexts.iter().map(|(_, c)| word(c)).collect();
        Self { mask: trace.clock.mask, words, ..Self::default() }
    }

    /// The order of a trace that the viewer reads as it is, with the clock's direction as this program found it: who goes
    /// through the events in it counts the [`Votes`]. `None` where the viewer's order is another.
    pub fn assumed(trace: &Trace) -> Option<Self> {
        let plain = !is_unturned(trace) && !has(trace, Code::UnusedSlot) && !has_gap(trace);
        plain.then(|| Self { up: trace.clock.direction == Direction::Up, ..Self::new(trace) })
    }

    /// Looks at every event once, and shows each that is read, unless the viewer's order is another: then `false` is given
    /// back beside the order.
    pub fn of(trace: &Trace, mut look: impl FnMut(&Raw)) -> (Self, bool) {
        let mut order = Self::new(trace);
        if has(trace, Code::UnusedSlot) && !is_joined(trace) {
            order.stop = first_unused(trace);
        }
        // The viewer reads events right after the registry: zeros are an unused slot.
        if has_gap(trace) {
            order.stop = Some(0);
        }
        let unturned = is_unturned(trace);
        let (mut votes, mut index) = (Votes::default(), 0usize);
        trace.visit_unnumbered(|event| {
            if order.stop.is_some_and(|s| event.slot >= s) {
                order.beyond += 1;
                return ControlFlow::Continue(());
            }
            if votes.add(event.slot, event.stamp.unwrap_or(0)) && unturned {
                order.turn = Some(index);
            }
            index += 1;
            if !unturned {
                look(&Raw::of(&order.words, event));
            }
            ControlFlow::Continue(())
        });
        order.up = if order.turn.is_some() { order.votes_unturned(trace).up() } else { votes.up() };
        (order, !unturned)
    }

    /// Votes in the order of the slots, all of one part.
    fn votes_unturned(&self, trace: &Trace) -> Votes {
        let mut votes = Votes::default();
        self.visit(trace, |raw| {
            votes.add(0, raw.stamp);
            ControlFlow::Continue(())
        });
        votes
    }

    /// Shows the entries in the viewer's order, until `each` breaks.
    pub fn visit(&self, trace: &Trace, mut each: impl FnMut(&Raw) -> ControlFlow<()>) {
        let stop = self.stop.unwrap_or(u64::MAX);
        let turn = self.turn.unwrap_or(0);
        // First what follows the turn, then what is before it.
        let mut broken = false;
        for first_part in [false, true] {
            let mut index = 0usize;
            if first_part && (turn == 0 || broken) {
                return;
            }
            trace.visit_unnumbered(|event| {
                if event.slot >= stop {
                    return ControlFlow::Continue(());
                }
                index += 1;
                if (index <= turn) != first_part {
                    return ControlFlow::Continue(());
                }
                let flow = each(&Raw::of(&self.words, event));
                broken |= flow.is_break();
                flow
            });
        }
    }

    /// Ticks from one stamp to the next: the clock starts over at its mask, and at nothing else.
    pub const fn step(&self, before: u64, now: u64) -> u64 {
        let (low, high) = if self.up { (before, now) } else { (now, before) };
        if high >= low {
            high.wrapping_sub(low)
        } else {
            self.mask.wrapping_sub(low).wrapping_add(high).wrapping_add(1)
        }
    }
}

fn has(trace: &Trace, code: Code) -> bool {
    trace.issues.iter().any(|i| i.code == code)
}

fn is_joined(trace: &Trace) -> bool {
    trace.about.facts.iter().any(|(label, _)| *label == "joined")
}

/// True where a pointer that leads nowhere keeps the viewer from turning the buffer.
fn is_unturned(trace: &Trace) -> bool {
    !is_joined(trace) && (has(trace, Code::CurrentPointer) || has(trace, Code::CurrentUnaligned))
}

/// True where the events do not begin where the viewer looks for them.
pub(super) fn has_gap(trace: &Trace) -> bool {
    trace.about.facts.iter().any(|(label, _)| *label == "gap")
}

/// The lowest slot that holds no event: found by the gaps between those that do.
fn first_unused(trace: &Trace) -> Option<u64> {
    let capacity = trace.about.capacity;
    let mut lowest = None;
    let mut gap = |missing: u64, behind: u64| {
        if missing > 0 {
            // A gap across the end of the buffer holds its first slot; one at its end does not.
            let start = if behind == 0 { capacity } else { behind }.saturating_sub(missing);
            lowest = Some(lowest.map_or(start, |l: u64| l.min(start)));
        }
    };
    let (mut expected, mut next) = (0u64, 0u64);
    for event in trace.events() {
        gap(event.seq.saturating_sub(expected), event.slot);
        expected = event.seq.saturating_add(1);
        next = event.slot.saturating_add(1);
    }
    let missing = trace.about.held.saturating_sub(expected);
    let end = next.saturating_add(missing);
    // After the last slot comes the first, and a gap that holds both begins with the first.
    gap(missing, if end > capacity { missing } else { end });
    lowest
}
