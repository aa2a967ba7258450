//! A clock of the trace that a program makes of its count of ticks and of the counter of the tick's timer. The counter starts
//! over before the handler of the tick has counted it: the clock falls back by a tick where that handler begins, and goes
//! forward by one as soon as the tick is counted.

use super::entry::{Entry, id, kind_of};
use super::steps::{View, range};
use crate::trace::ContextKind;

/// So many falls at the beginning of one interrupt are no chance.
const FEWEST: usize = 4;
/// One fall in so many may be elsewhere: at what runs between the end of a tick and its handler.
const OTHERS: usize = 8;

/// Where the clock falls back, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TickClock {
    /// The number of the interrupt.
    pub interrupt: u64,
    /// Ticks of the trace's clock in one of the kernel, about.
    pub tick: u64,
}

/// What is seen of it, event by event.
#[derive(Debug, Default)]
struct Falls {
    /// All steps back.
    count: usize,
    /// The interrupts at whose beginning they are, with the step that follows each.
    after: Vec<(u64, u64)>,
    before: Option<u64>,
    /// The interrupt at whose beginning the clock has just fallen back.
    fell: Option<u64>,
}

/// Whether the clock of these events is one.
pub(super) fn find(view: View<'_>) -> Option<TickClock> {
    let mut falls = Falls::default();
    for place in view.ring.blocks() {
        view.events(place, |_, entry| falls.add(entry, |from, to| view.clock.step(from, to), range(view.clock)));
    }
    falls.clock()
}

impl Falls {
    fn add(&mut self, entry: &Entry, step: impl Fn(u64, u64) -> u64, range: u64) {
        let Some(before) = self.before.replace(entry.stamp) else { return };
        let step = step(before, entry.stamp);
        let is_back = step > range >> 1;
        if let Some(interrupt) = self.fell.take().filter(|_| !is_back) {
            self.after.push((interrupt, step));
        }
        if is_back {
            self.count = self.count.saturating_add(1);
            let begins = entry.id == id::ISR_ENTER && kind_of(entry.context) == ContextKind::Isr;
            self.fell = begins.then_some(entry.info[1]);
        }
    }

    /// What goes forward after each is a tick, of about the same length each time.
    fn clock(&self) -> Option<TickClock> {
        let (interrupt, _) = *self.after.first()?;
        let mut ticks: Vec<u64> = self.after.iter().filter(|(at, _)| *at == interrupt).map(|(_, step)| *step).collect();
        ticks.sort_unstable();
        let others = self.count.checked_sub(ticks.len())?;
        let (few, last) = (ticks.len() / OTHERS, ticks.len().checked_sub(1)?);
        let (least, most) = (*ticks.get(few)?, *ticks.get(last.checked_sub(few)?)?);
        let is_steady = most.saturating_sub(least) <= most / 8;
        // The newest event may be the one that fell.
        (ticks.len() >= FEWEST && others <= few.saturating_add(1) && is_steady)
            .then_some(TickClock { interrupt, tick: least })
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::CONTEXT_ISR;
    use super::*;

    const TICK: u64 = 25_000;

    /// The falls of a run of ticks at which an interrupt begins, and of so many other falls.
    fn run(number: impl Fn(u64) -> u64, counted: impl Fn(u64) -> u64, others: u64) -> Option<TickClock> {
        let mut falls = Falls::default();
        let step = |from: u64, to: u64| to.wrapping_sub(from) & 0xFFFF_FFFF;
        let mut add = |context, id, stamp, number| {
            falls.add(&Entry { context, id, stamp, info: [0, number, 0, 0], ..Entry::default() }, step, 1 << 32);
        };
        for tick in 10_u64..40 {
            let at = |tick: u64, more: u64| tick.saturating_mul(TICK).saturating_add(more);
            add(CONTEXT_ISR, id::ISR_ENTER, at(counted(tick), 12), number(tick));
            add(CONTEXT_ISR, 4, at(tick, (tick % 7).saturating_add(180)), number(tick));
            add(0x2000_1000, 83, at(tick, (tick % 5).saturating_mul(31).saturating_add(9_000)), 0);
            if tick < others.saturating_add(10) {
                add(0x2000_1000, 83, at(tick, 400), 0);
            }
        }
        falls.clock()
    }

    /// "The stamps were damaged, or the clock was set back a little", at each tick.
    #[test]
    fn a_clock_of_ticks_and_a_counter_was_called_set_back() {
        let found = run(|_| 15, |tick| tick - 1, 0);
        assert!(found.is_some_and(|clock| clock.interrupt == 15 && clock.tick.abs_diff(TICK) < TICK / 50), "{found:?}");
        assert_eq!(run(|_| 15, |tick| tick - 1, 3), found, "an event before the handler");
    }

    #[test]
    fn other_steps_back_are_no_clock_of_ticks() {
        assert_eq!(run(|_| 15, |tick| tick, 0), None, "it never falls");
        assert_eq!(run(|tick| 15 + tick % 2, |tick| tick - 1, 0), None, "not one interrupt");
        assert_eq!(run(|_| 15, |tick| tick - 1, 20), None, "elsewhere as well");
        assert_eq!(run(|_| 15, |tick| tick - 1 - tick % 3, 0), None, "by other lengths");
    }
}
