//! Which interrupt an event belongs to: found from the events that begin and end interrupts, in one pass.

#![expect(clippy::arithmetic_side_effects, reason = "numbers of open interrupts, and of cores")]

use super::{ContextId, DefId, Event};

/// An event that begins or ends an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Its definition.
    pub def: DefId,
    /// True where an interrupt begins.
    pub enters: bool,
    /// The payload word that numbers the interrupt.
    pub number: Number,
}

/// Which payload word holds the number of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// In this word, as the application chose it.
    Chosen(usize),
    /// In the low nine bits of this word, as the processor numbers it (IPSR of ARM's M profile); other bits, or a number
    /// that no exception has, mean that the processor was not asked.
    Processor(usize),
}

impl Number {
    pub(super) fn of(self, words: &[u64]) -> Option<u32> {
        match self {
            Self::Chosen(at) => u32::try_from(*words.get(at)?).ok(),
            // 0 is no exception, 1 is reset: the kernel's own count of nested interrupts looks so.
            Self::Processor(at) => words.get(at).filter(|w| (2..512).contains(*w)).and_then(|w| u32::try_from(*w).ok()),
        }
    }
}

/// The events of a trace that begin and end interrupts; empty where there are none.
pub type Interrupts = Vec<Mark>;

/// The same for a walk, which asks each event.
pub(super) struct Marks<'m> {
    all: &'m [Mark],
    /// The lowest and the highest number of their definitions: most events have none between them.
    ends: (u32, u32),
}

impl<'m> Marks<'m> {
    pub fn of(all: &'m [Mark]) -> Self {
        let ends = all.iter().fold((u32::MAX, 0), |(low, high), m| (low.min(m.def.number()), high.max(m.def.number())));
        Self { all, ends }
    }

    #[inline]
    fn has(&self, def: DefId) -> bool {
        (self.ends.0..=self.ends.1).contains(&def.number()) && self.all.iter().any(|m| m.def == def)
    }
}

/// The interrupts that are open, by core, as a walk goes through a trace.
#[derive(Debug, Default)]
pub(super) struct Nest {
    cores: Vec<Frames>,
    /// Open interrupts on all cores: where there are none, most events cost nothing.
    open: usize,
    last: u64,
}

/// The open interrupts of a core, the innermost last; `None` for one that has no number.
#[derive(Debug, Default)]
struct Frames {
    stack: Vec<Option<u32>>,
    interrupted: Option<ContextId>,
}

/// What the events to come show of a core's open interrupts.
#[derive(Debug, Default)]
struct Ahead {
    /// Ended, and not seen to begin; the innermost first.
    begun: Vec<Option<u32>>,
    /// Seen to begin, and not ended yet.
    entered: Vec<Option<u32>>,
    interrupted: Option<Option<ContextId>>,
    /// A thread ran, or another was interrupted: what comes now is of other interrupts.
    over: bool,
}

/// Deeper nesting than any processor has priorities: the exits are missing.
const DEEPEST: usize = 256;

impl Nest {
    /// The interrupts that were open when a walk that begins with these events began: those whose ends come, and whose
    /// beginnings do not. So an event has the same number whatever was read before it.
    pub fn begun(
        events: &[Event],
        marks: &[Mark],
        is_isr: impl Fn(&Event) -> bool,
        words: impl Fn(&Event, Number) -> Option<u32>,
    ) -> Self {
        let mut nest = Self::default();
        if marks.is_empty() {
            return nest;
        }
        let mut cores: Vec<Ahead> = Vec::new();
        let mut seq = events.first().map_or(0, |e| e.seq);
        nest.last = seq.wrapping_sub(1);
        for event in events {
            if event.seq != seq {
                break;
            }
            seq = seq.wrapping_add(1);
            let core = usize::from(event.core);
            if core >= cores.len() {
                cores.resize_with(core + 1, Ahead::default);
            }
            let Some(ahead) = cores.get_mut(core).filter(|a| !a.over) else { continue };
            ahead.over = !is_isr(event) || *ahead.interrupted.get_or_insert(event.interrupted) != event.interrupted;
            let mark = marks.iter().find(|m| Some(m.def) == event.def);
            let Some(mark) = mark.filter(|_| !ahead.over) else { continue };
            let number = words(event, mark.number);
            if mark.enters {
                ahead.entered.push(number);
            } else if let Some(at) = ahead.entered.iter().rposition(|n| *n == number) {
                ahead.entered.truncate(at);
            } else if ahead.entered.is_empty() {
                ahead.begun.push(number);
            } else {
                ahead.over = true;
            }
            ahead.over |= ahead.entered.len().max(ahead.begun.len()) >= DEEPEST;
        }
        for ahead in cores {
            nest.open += ahead.begun.len();
            let stack = ahead.begun.into_iter().rev().collect();
            nest.cores.push(Frames { stack, interrupted: ahead.interrupted.flatten() });
        }
        nest
    }

    /// False for events that [`Nest::step`] need not see: nearly all of them.
    #[inline]
    pub fn concerns(&self, event: &Event, marks: &Marks<'_>) -> bool {
        self.open > 0 || event.def.is_some_and(|def| marks.has(def))
    }

    /// Events are missing, and an exit may be among them.
    pub fn forget(&mut self) {
        self.cores.iter_mut().for_each(|f| f.stack.clear());
        self.open = 0;
    }

    /// The number of the interrupt that inserted `event`. Events must come in the order of the trace. What the events
    /// do not show is not known: an interrupt that began before the walk, or one whose beginning was not recorded.
    pub fn step(&mut self, event: &Event, is_isr: bool, marks: &[Mark], words: &[u64]) -> Option<u32> {
        let mark = marks.iter().find(|m| Some(m.def) == event.def);
        if self.open > 0 && event.seq != self.last.wrapping_add(1) {
            self.forget();
        }
        self.last = event.seq;
        let core = usize::from(event.core);
        if core >= self.cores.len() {
            self.cores.resize_with(core + 1, Frames::default);
        }
        let frames = self.cores.get_mut(core)?;
        let before = frames.stack.len();
        // An interrupt ends before a thread runs on; and nested ones interrupt the same thread.
        if !is_isr || frames.interrupted != event.interrupted || before >= DEEPEST {
            frames.stack.clear();
        }
        let number = match mark.filter(|_| is_isr) {
            None => frames.stack.last().copied().flatten(),
            Some(mark) => {
                let number = mark.number.of(words);
                if mark.enters {
                    frames.stack.push(number);
                    frames.interrupted = event.interrupted;
                } else {
                    // An end without its beginning: what it was nested in began before, and is not known.
                    let at = frames.stack.iter().rposition(|n| *n == number).unwrap_or(0);
                    frames.stack.truncate(at);
                }
                number
            }
        };
        self.open = self.open - before + frames.stack.len();
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTER: DefId = DefId::new(3);
    const EXIT: DefId = DefId::new(4);
    const OTHER: DefId = DefId::new(9);

    fn run(number: Number, events: &[(u16, Option<u32>, DefId, u64)]) -> Vec<Option<u32>> {
        let marks = [Mark { def: ENTER, enters: true, number }, Mark { def: EXIT, enters: false, number }];
        run_from(Nest::default(), &marks, events)
    }

    /// As a walk does it that begins with these events.
    fn walk(number: Number, events: &[(u16, Option<u32>, DefId, u64)]) -> Vec<Option<u32>> {
        let marks = [Mark { def: ENTER, enters: true, number }, Mark { def: EXIT, enters: false, number }];
        let of = |i: usize| {
            let (core, isr, def, _) = events[i];
            let seq = 11 + u64::try_from(i).unwrap();
            Event { seq, core, def: Some(def), interrupted: isr.map(ContextId), ..Event::default() }
        };
        let all: Vec<Event> = (0..events.len()).map(of).collect();
        let word = |e: &Event, n: Number| n.of(&[events[usize::try_from(e.seq - 11).unwrap()].3]);
        run_from(Nest::begun(&all, &marks, |e| e.interrupted.is_some(), word), &marks, events)
    }

    fn run_from(mut nest: Nest, marks: &[Mark], events: &[(u16, Option<u32>, DefId, u64)]) -> Vec<Option<u32>> {
        let mut seq = 10;
        let one = |&(core, isr, def, word): &(u16, Option<u32>, DefId, u64)| {
            seq += 1;
            let interrupted = isr.map(ContextId);
            let event = Event { seq, core, def: Some(def), interrupted, ..Event::default() };
            nest.step(&event, isr.is_some(), marks, &[word])
        };
        events.iter().map(one).collect()
    }

    #[test]
    fn interrupts_nest() {
        let own = run(
            Number::Chosen(0),
            &[
                (0, Some(1), OTHER, 0),
                (0, Some(1), ENTER, 15),
                (0, Some(1), OTHER, 0),
                (0, Some(1), ENTER, 21),
                (0, Some(1), OTHER, 0),
                (0, Some(1), EXIT, 21),
                (0, Some(1), OTHER, 0),
                (0, Some(1), EXIT, 15),
                (0, Some(1), OTHER, 0),
                (0, None, OTHER, 0),
            ],
        );
        let s = Some;
        assert_eq!(own, [None, s(15), s(15), s(21), s(21), s(21), s(15), s(15), None, None]);
    }

    #[test]
    fn a_thread_ends_what_no_event_ended() {
        let events = [
            (0, Some(1), ENTER, 15),
            (0, None, OTHER, 0),
            (0, Some(1), OTHER, 0),
            // Another thread was interrupted: it ran in between.
            (0, Some(1), ENTER, 15),
            (0, Some(2), OTHER, 0),
        ];
        assert_eq!(run(Number::Chosen(0), &events), [Some(15), None, None, Some(15), None]);
    }

    #[test]
    fn an_end_without_a_beginning_leaves_nothing_known() {
        let events = [(0, Some(1), EXIT, 21), (0, Some(1), OTHER, 0), (0, Some(1), EXIT, 15), (0, Some(1), OTHER, 0)];
        assert_eq!(run(Number::Chosen(0), &events), [Some(21), None, Some(15), None]);
        let events = [(0, Some(1), ENTER, 15), (0, Some(1), EXIT, 21), (0, Some(1), OTHER, 0)];
        assert_eq!(run(Number::Chosen(0), &events), [Some(15), Some(21), None]);
    }

    #[test]
    fn an_interrupt_that_began_before_the_walk_is_known_by_its_end() {
        let s = Some;
        let all = [
            (0, s(1), ENTER, 15),
            (0, s(1), OTHER, 0),
            (1, s(2), OTHER, 0),
            (0, s(1), ENTER, 21),
            (0, s(1), OTHER, 0),
            (0, s(1), EXIT, 21),
            (0, s(1), OTHER, 0),
            (0, s(1), EXIT, 15),
            (0, None, OTHER, 0),
            (0, s(3), OTHER, 0),
            (0, s(3), EXIT, 30),
        ];
        let whole = walk(Number::Chosen(0), &all);
        for from in 0..9 {
            assert_eq!(walk(Number::Chosen(0), &all[from..]), whole[from..], "from {from}");
        }
        // A thread ran in between: the end is of another interrupt.
        assert_eq!(whole[9..], [None, s(30)]);
        assert_eq!(walk(Number::Chosen(0), &all[9..]), [s(30), s(30)]);
    }

    #[test]
    fn cores_have_interrupts_of_their_own() {
        let events = [
            (0, Some(1), ENTER, 15),
            (1, Some(2), OTHER, 0),
            (1, Some(2), ENTER, 30),
            (0, Some(1), OTHER, 0),
            (0, Some(1), EXIT, 15),
            (1, Some(2), OTHER, 0),
        ];
        assert_eq!(run(Number::Chosen(0), &events), [Some(15), None, Some(30), Some(15), Some(15), Some(30)]);
    }

    #[test]
    fn missing_events_may_hold_an_end() {
        let marks = [Mark { def: ENTER, enters: true, number: Number::Chosen(0) }];
        let event = |seq, def| Event { seq, def: Some(def), interrupted: Some(ContextId(1)), ..Event::default() };
        let mut nest = Nest::default();
        assert_eq!(nest.step(&event(5, ENTER), true, &marks, &[15]), Some(15));
        assert_eq!(nest.step(&event(6, OTHER), true, &marks, &[0]), Some(15));
        assert_eq!(nest.step(&event(8, OTHER), true, &marks, &[0]), None);
    }

    #[test]
    fn beginnings_without_ends_take_no_memory() {
        let events = vec![(0, Some(1), ENTER, 15); 3 * DEEPEST];
        assert!(run(Number::Chosen(0), &events).iter().all(|n| *n == Some(15)));
    }

    #[test]
    fn a_count_of_nested_interrupts_is_no_exception() {
        let events = [(0, Some(1), ENTER, 1), (0, Some(1), ENTER, 0x8000_000F), (0, Some(1), ENTER, 16)];
        assert_eq!(run(Number::Processor(0), &events), [None, None, Some(16)]);
    }
}
