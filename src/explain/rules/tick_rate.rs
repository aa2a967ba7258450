//! The tick comes, and more slowly than it did: sleeps of the same number of kernel ticks last many times as long at the end of the
//! trace as before, or SysTick's reload value is now many times what a kernel tick lasted in the trace.
//!
//! The second needs care: the trace's clock may count more slowly than SysTick. It does not where two events in a row of one thread
//! would then be farther apart than any call of the kernel takes.
//!
//! Against it: a program that stops its tick while it is idle may set SysTick to a longer time for that; so both are hints, and where
//! the program has the kernel's calls for that, nothing is said.

use super::super::events::{Events, Slept};
use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::SYSTICK;
use super::no_tick::RELOAD;
use super::timers_still::is_tickless;
use super::writers;
use crate::abi::{Addr, Endian};

/// The kernel's function that the handler of the tick calls.
const TICK: &str = "_tx_timer_interrupt";
/// So many times as long.
const TIMES: i64 = 4;
/// So many sleeps at the end have to last that long.
const LAST: usize = 3;
/// No call of the kernel takes so many cycles.
const CALL: i64 = 20_000;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock && events.cores <= 1) else { return Vec::new() };
    if is_tickless(case) {
        return Vec::new();
    }
    in_trace(events, case).or_else(|| since(events, case)).into_iter().collect()
}

/// How long a tick was before, and what it is from a sleep on.
fn changed(over: &[Slept]) -> Option<(i64, i64, u64)> {
    let (before, last) = over.split_at_checked(over.len().checked_sub(LAST)?)?;
    let mut before: Vec<i64> = before.iter().map(|slept| slept.period).collect();
    before.sort_unstable();
    let usual = *before.get(before.len() / 2).filter(|usual| **usual > 0 && before.len() >= LAST)?;
    // Where sleeps differ among themselves, something else delays them.
    let is_steady = before.first().is_some_and(|least| *least >= usual / 2) && before.last()? / 2 <= usual;
    let least = last.iter().map(|slept| slept.period).min().filter(|_| is_steady)?;
    (least.checked_div(usual)? >= TIMES).then_some((usual, least, last.first()?.seq))
}

fn in_trace(events: &Events, case: &Case<'_>) -> Option<Finding> {
    let over: Vec<Slept> = events.sleeps.over.iter().copied().collect();
    let (usual, now, seq) = changed(&over)?;
    let text =
        format!("from this sleep on a tick of the kernel lasts {now} ticks of the trace at least; before it {usual}");
    let times = now.checked_div(usual)?;
    Some(finding(times, vec![Evidence::event(seq, text)], case))
}

/// How many times as long a tick is now as in the trace; `shortest`: of two events in a row of one thread.
fn slower(period: i64, cycles: i64, shortest: i64) -> Option<i64> {
    let times = cycles.checked_div(period).filter(|times| *times >= TIMES)?;
    (shortest.saturating_mul(times) >= CALL).then_some(times)
}

fn since(events: &Events, case: &Case<'_>) -> Option<Finding> {
    let (period, shortest) = (events.sleeps.period()?, events.sleeps.shortest?);
    let reload = Endian::Little.u32(&case.look.bytes(RELOAD, 4)?, 0)?;
    let cycles = i64::from(reload).saturating_add(1);
    let times = slower(period, cycles, shortest).filter(|_| reload != 0)?;
    if !is_by_systick(case) {
        return None;
    }
    let evidence = vec![
        Evidence::memory(RELOAD, format!("SysTick's reload value: a tick every {cycles} cycles"))
            .holds(u64::from(reload))
            .named("SYST_RVR"),
        Evidence::event(
            events.sleeps.over.back()?.seq,
            format!(
                "up to this event sleeps show {period} ticks of the trace for a tick of the kernel; its clock counts no more \
                 slowly than SysTick, as calls are {shortest} of its ticks apart"
            ),
        ),
    ];
    Some(finding(times, evidence, case))
}

/// True where the handler of SysTick gives the kernel its tick: a program may use SysTick for something else. Where the vectors are is in a
/// register (VTOR), which a dump may lack: then the program's file shows which handlers there are.
pub(super) fn is_by_systick(case: &Case<'_>) -> bool {
    let handler = || Some(case.usage()?.functions_of(User::Handler(u32::try_from(SYSTICK).ok()?)));
    let by_file =
        |tick: Addr| handler().is_some_and(|all| all.iter().any(|at| writers::calls(*at, &[tick & !1], case)));
    let by_vector = |tick: Addr| writers::handler_calls(SYSTICK, tick, case);
    case.look.symbol(TICK).is_some_and(|tick| by_vector(tick.address) || by_file(tick.address))
}

fn finding(times: i64, evidence: Vec<Evidence>, case: &Case<'_>) -> Finding {
    let claim = format!("the tick is about {times} times as slow as it was: all time-outs end that much later");
    Finding::new(Code::NoTick, case.cap_of_registers(Confidence::Hint), claim)
        .against(["the program may slow its tick on purpose while it is idle"])
        .evidence(evidence)
        .next("look at who sets SysTick's reload value (SYST_RVR), or the clock that the tick is made of")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_that_last_many_times_as_long_at_the_end_were_not_seen() {
        let of = |periods: &[i64]| {
            let over: Vec<Slept> =
                (0..).zip(periods).map(|(seq, period)| Slept { seq, period: *period, ticks: 2 }).collect();
            changed(&over)
        };
        assert_eq!(of(&[100, 99, 100, 101, 900, 900, 901]), Some((100, 900, 4)));
        assert_eq!(of(&[100, 99, 100, 101, 900, 100, 901]), None, "one was woken late");
        assert_eq!(of(&[100, 99, 100, 300, 300, 300]), None, "not many times");
        assert_eq!(of(&[100, 20, 100, 800, 900, 900, 901]), None, "they differ among themselves");
        assert_eq!(of(&[900, 900, 900]), None, "nothing before");
    }

    #[test]
    fn a_clock_that_counts_more_slowly_than_systick_is_no_slow_tick() {
        assert_eq!(slower(25_000, 16_000_000, 155), Some(640));
        assert_eq!(slower(1000, 168_000, 1), None, "a clock of 1 MHz beside a CPU of 168 MHz");
        assert_eq!(slower(1000, 168_000, 0), None);
        assert_eq!(slower(250_000, 1_000_000, 155), None, "a fourth of the CPU's clock");
        assert_eq!(slower(25_000, 25_000, 155), None);
    }
}
