//! SysTick comes so often that its handler takes all of the time: it is pending again while its handler runs. As a rule its reload
//! value was computed from a wrong clock.
//!
//! A second sign makes it likely: a reload value that is shorter than any handler of a tick, or events in which the tick wakes
//! the thread that runs the kernel's timers again and again, and no thread goes on.
//!
//! Where SysTick is not pending again, but an interrupt of a device is, and no thread goes on from tick to tick, it is that one which comes
//! again and again.
//!
//! Against it: after interrupts were disabled for a whole period one tick may be taken just before the next. Where SysTick counts a
//! slow reference clock, a small reload value is healthy, but then it is not pending again so soon.

use super::super::events::{Events, TimerWork};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::interrupts::{self, FIRST, Mask, PENDSTSET, SYSTICK};
use super::no_tick::RELOAD;
use super::{place, unacknowledged, words};
use crate::abi::Endian;
use crate::cpu::Level;
use crate::kernel::State;
use crate::session::CpuState;

/// So many cycles the kernel's part of a tick takes at least, with the entry and exit of its exception.
const HANDLER: u64 = 256;
/// So often in a row the tick comes and no thread goes on.
const ROW: u64 = 16;
/// What speaks against an interrupt that is pending.
const MASKED: &str =
    "PRIMASK and BASEPRI are not known (--reg primask=N --reg basepri=N): what they mask looks the same";
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// What shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signs {
    is_pending: bool,
    is_short: bool,
    is_in_row: bool,
}

impl Signs {
    fn confidence(self) -> Option<Confidence> {
        match (self.is_pending, self.is_short, self.is_in_row) {
            (true, true, _) | (true, _, true) | (_, true, true) => Some(Confidence::Likely),
            (_, _, true) => Some(Confidence::Hint),
            // One that was taken late is healthy.
            _ => None,
        }
    }
}

/// Cycles from one tick to the next; `None` where that is not known, or SysTick does not count.
fn cycles(case: &Case<'_>) -> Option<u64> {
    let reload = Endian::Little.u32(&case.look.bytes(RELOAD, 4)?, 0)?;
    (reload != 0).then(|| u64::from(reload).saturating_add(1))
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    // A handler that does not return is another rule.
    let is_stuck = cpu.in_loop.is_some() || cpu.polling.is_some();
    if is_stuck || !matches!(cpu.registers.level(), Level::Exception(number) if u64::from(number) == SYSTICK) {
        return None;
    }
    let pending = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSTSET != 0);
    let cycles = cycles(case);
    let work = case.events.map(|events| (events, events.timers));
    let row = work.filter(|(events, work)| events.cores <= 1 && work.row >= ROW);
    let signs = Signs {
        is_pending: pending.is_some(),
        is_short: cycles.is_some_and(|cycles| cycles <= HANDLER),
        is_in_row: row.is_some(),
    };
    let claimed = signs.confidence()?;
    let (ticks, shown) = row.and_then(|(events, work)| in_row(events, work, case)).unzip();
    // It would come as soon as this handler ends: the tick leaves it time.
    let other = pending_below(cpu.registers.get("icsr")).filter(|_| !signs.is_short);
    // What is masked is pending, and no thread is switched to either.
    let other = other.filter(|_| Mask::of(&cpu.registers).is_none());
    if let Some((number, shown)) = other.zip(shown.clone()) {
        return Some(below(cpu, number, ticks.unwrap_or_default(), shown, case));
    }
    let mut evidence = Vec::new();
    evidence.extend(
        pending
            .map(|icsr| Evidence::register("icsr", icsr, "SysTick is pending again, and its handler runs".to_owned())),
    );
    evidence.extend(
        cycles.map(|cycles| Evidence::memory(RELOAD, format!("SysTick's reload value: a tick every {cycles} cycles"))),
    );
    evidence.extend(shown);
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    let waits = |thread: &&crate::kernel::Thread| {
        thread.state == Some(State::READY) && thread.core.is_none() && is_timer_thread(thread, case)
    };
    let timers = case.kernel.and_then(|kernel| kernel.threads.iter().find(waits)).map(|thread| thread.label());
    let kept = timers.map_or_else(String::new, |name| format!("; {name} is ready and does not run"));
    let every = cycles.filter(|_| signs.is_short).map_or_else(String::new, |n| format!(" (every {n} cycles)"));
    let why = if signs.is_pending { "is pending again before its handler has ended" } else { "comes again and again" };
    let (confidence, mut detractors) = case.cap_of_registers(claimed);
    if claimed == Confidence::Hint {
        detractors.push("an interrupt below it that does not end looks the same".to_owned());
    }
    Some(
        Finding::new(
            Code::IsrStorm,
            (confidence, detractors),
            format!("SysTick {why}: it comes too often{every} for anything else to run{kept}"),
        )
        .evidence(evidence)
        .next("look at who sets the reload value of SysTick (SYST_RVR), and from which clock it is computed"),
    )
}

/// The interrupt of a device that waits for the end of the handler of SysTick, where SysTick itself is not pending again (ICSR.VECTPENDING:
/// Armv7-M Architecture Reference Manual, B3.2.4).
fn pending_below(icsr: Option<u64>) -> Option<u64> {
    let icsr = icsr.filter(|icsr| icsr & PENDSTSET == 0)?;
    Some(icsr >> 12 & 0x1FF).filter(|number| *number >= FIRST)
}

/// How often in a row the tick woke the thread of the timers and no thread went on, and that as evidence.
fn in_row(events: &Events, work: TimerWork, case: &Case<'_>) -> Option<(u64, Evidence)> {
    let (seq, since) = work.row_from?;
    let every = events.span.1.saturating_sub(since).checked_div(i64::try_from(work.row).ok()?)?;
    let text = format!(
        "from here on the tick woke {} {} times, every {every} ticks of the trace, and no thread went on",
        case.label(work.thread?),
        work.row
    );
    Some((work.row, Evidence::event(seq, text)))
}

/// An interrupt of a device that is pending below the tick, while no thread goes on from tick to tick.
fn below(cpu: &CpuState, number: u64, ticks: u64, shown: Evidence, case: &Case<'_>) -> Finding {
    let name = interrupts::name(case, number);
    let path = unacknowledged::path(number, true, case);
    let why = path.as_ref().map_or_else(String::new, |path| format!("; {}", path.words));
    let claimed = if path.is_some() { Confidence::Likely } else { Confidence::Hint };
    let icsr = cpu.registers.get("icsr").unwrap_or_default();
    Finding::new(
        Code::IsrStorm,
        case.cap_of_registers(claimed),
        format!(
            "{name} comes again and again, or does not end: it is pending below the handler of SysTick, and in {ticks} ticks no thread \
             went on{why}"
        ),
    )
    .evidence([Evidence::register("icsr", icsr, format!("{name} is pending, and SysTick is not")), shown])
    .against((!interrupts::knows_masks(cpu)).then_some(MASKED))
    .against(path.as_ref().and_then(|path| path.against))
    .evidence(path.into_iter().flat_map(|path| path.evidence))
    .next(words::acknowledge(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SysTick was blamed, which was the only interrupt that still came: one below it was never acknowledged.
    #[test]
    fn an_interrupt_that_is_pending_below_the_tick_was_not_named() {
        assert_eq!(pending_below(Some(0x1041_900F)), Some(25));
        assert_eq!(pending_below(Some(0x0441_900F)), None, "the tick is pending, too");
        assert_eq!(pending_below(Some(0x1000_E00F)), None, "PendSV is none of a device");
        assert_eq!(pending_below(None), None);
    }

    #[test]
    fn a_tick_that_is_pending_again_needs_a_second_sign() {
        let of = |is_pending, is_short, is_in_row| Signs { is_pending, is_short, is_in_row }.confidence();
        assert_eq!(of(true, true, false), Some(Confidence::Likely));
        assert_eq!(of(true, false, true), Some(Confidence::Likely));
        assert_eq!(of(true, false, false), None, "one that was taken late");
        assert_eq!(of(false, false, true), Some(Confidence::Hint));
        assert_eq!(of(false, true, false), None, "a slow reference clock");
        assert_eq!(of(false, false, false), None);
    }
}
