//! For how long no event has come, by the kernel's own count of ticks: a thread that computes, or whose calls are rejected, leaves
//! no events, and the trace ends long before the stop.
//!
//! A trace that begins with the kernel's initialisation shows how many ticks had come at its newest event; of any other, the time that
//! a sleeping thread has left does. Both are a little less than the truth.
//!
//! Nothing is known where events are not inserted, or some are filtered out, and where the program sets the kernel's time.

use super::super::events::Events;
use super::super::{Case, Evidence};
use crate::kernel::State;

/// The kernel's count of ticks.
const CLOCK: &str = "_tx_timer_system_clock";
/// Where the next event goes; 0 where none is inserted.
const CURRENT: &str = "_tx_trace_buffer_current_ptr";
/// The events that are inserted.
const ENABLED: &str = "_tx_trace_event_enable_bits";
/// All events of the kernel but those of enabling interrupts.
const ALL: u64 = 0x7EF;
/// The fewest ticks without an event.
const FEWEST: u64 = 20;
/// The kernel's state of a thread that sleeps.
const SLEEPS: State = State(4);

/// No event for so long.
pub(super) struct Silence {
    /// Ticks of the kernel.
    pub ticks: u64,
    /// Ticks of the trace for one of them.
    pub period: i64,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

impl Silence {
    /// In ticks of the trace.
    pub fn lasts(&self) -> i64 {
        i64::try_from(self.ticks).unwrap_or(i64::MAX).saturating_mul(self.period)
    }
}

/// Where that is known.
pub(super) fn of(case: &Case<'_>, events: &Events) -> Option<Silence> {
    let period = events.sleeps.period()?;
    inserts_all(case).filter(|all| *all)?;
    let all = by_clock(case, events, period).into_iter().chain(by_sleepers(case, events, period));
    all.max_by_key(|silence| silence.ticks).filter(|silence| silence.ticks >= FEWEST)
}

/// True where all events are inserted; `None` where that is not known.
pub(super) fn inserts_all(case: &Case<'_>) -> Option<bool> {
    Some(word(CURRENT, case)?.1 != 0 && word(ENABLED, case)?.1 & ALL == ALL)
}

/// The kernel's own count of ticks.
pub(super) fn system_clock(case: &Case<'_>) -> Option<u64> {
    word(CLOCK, case).map(|(_, ticks)| ticks)
}

fn word(name: &str, case: &Case<'_>) -> Option<(u64, u64)> {
    let symbol = case.look.symbol(name)?;
    let bytes = case.look.bytes(symbol.address, case.kernel?.layout.shape.word.bytes() as u64)?;
    Some((symbol.address, *case.words(&bytes, false).first()?))
}

/// Ticks of the kernel in so many of the trace, and one more: both ends are somewhere within a tick.
fn ticks(of: i64, period: i64) -> Option<u64> {
    u64::try_from(of.checked_div(period)?).ok()?.checked_add(1)
}

fn by_clock(case: &Case<'_>, events: &Events, period: i64) -> Option<Silence> {
    if !events.is_whole || !events.sleeps.from_start || events.sleeps.is_time_set {
        return None;
    }
    let (address, clock) = word(CLOCK, case)?;
    let newest = ticks(events.length(), period)?;
    let ticks = clock.checked_sub(newest)?;
    let text = format!(
        "the kernel has counted {clock} ticks, and the newest event came at the latest at tick {newest}: no event for {ticks} ticks"
    );
    Some(Silence { ticks, period, evidence: vec![Evidence::memory(address, text).holds(clock).named(CLOCK)] })
}

fn by_sleepers(case: &Case<'_>, events: &Events, period: i64) -> Option<Silence> {
    let of = |thread: &crate::kernel::Thread| {
        let asked = events.sleeps.of(events.stored(thread.address))?;
        let left = thread.ticks_left.filter(|_| thread.timed == Some(true) && thread.state == Some(SLEEPS))?;
        // The kernel counts this down only now and then: no more is left.
        let slept = asked.ticks.checked_sub(left)?;
        let ticks = slept.checked_sub(ticks(events.span.1.saturating_sub(asked.at), period)?)?;
        let text = format!(
            "{} asked for a sleep of {} ticks of the kernel, of which at most {left} are left: no event for the last {ticks}",
            thread.label(),
            asked.ticks
        );
        Some(Silence { ticks, period, evidence: vec![Evidence::event(asked.seq, text)] })
    };
    case.kernel?.threads.iter().filter_map(of).max_by_key(|silence| silence.ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_event_is_at_most_one_tick_later_than_the_trace_is_long() {
        assert_eq!(ticks(999, 100), Some(10));
        assert_eq!(ticks(0, 100), Some(1));
        assert_eq!(ticks(-5, 100), Some(1), "within a tick");
        assert_eq!(ticks(-500, 100), None);
        assert_eq!(ticks(100, 0), None);
    }
}
