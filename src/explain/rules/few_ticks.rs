//! The tick has stopped, in a kernel that has no thread for its timers (`TX_TIMER_PROCESS_IN_ISR`): nothing shows when it looked at them
//! last. The kernel has counted far fewer ticks than the periods of SysTick that have passed since the start, and no thread that waits for
//! a time to pass went on in the whole trace, while others did.
//!
//! How long a period is follows from SysTick's reload value, or from the code that sets it. The trace's clock is no faster than the CPU's,
//! so no fewer have passed. It is a hint: another clock than the CPU's may count SysTick.
//!
//! Against it: a program that stops its tick on purpose, and a stamp of the trace that has not begun at the start: how often a thread
//! has run must agree.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::silence;
use super::timers_still::{self, NEXT, READIED, armed, is_tickless, waits};

/// So many times the kernel's count have to have passed.
const TIMES: u64 = 2;
/// The trace has to be a part of the time since the start, and to have so many periods.
const PART: u64 = 8;
const PERIODS: u64 = 256;
/// The fewest ticks that the kernel has counted.
const FEWEST: u64 = 100;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events.filter(|events| events.has_clock && events.cores <= 1)?);
    let has_thread = kernel.threads.iter().any(|thread| is_timer_thread(thread, case));
    if has_thread || is_tickless(case) || timers_still::sets_time(case)? || events.without_timers.readied < READIED {
        return None;
    }
    // All who wait for a time have waited since before the trace began.
    let mut timed = kernel.threads.iter().filter(|thread| timers_still::is_timed(thread)).peekable();
    timed.peek()?;
    if timed.any(|thread| events.lasts(thread.address) < events.length()) {
        return None;
    }
    let cycles = timers_still::period_of_systick(case)?;
    let counted = silence::system_clock(case).filter(|ticks| *ticks >= FEWEST && !events.sleeps.is_time_set)?;
    let since_start = timers_still::least_since_start(case, events)?;
    // A short trace shows little of threads that wait for long.
    let length = u64::try_from(events.length()).ok()?;
    if length < since_start / PART || length.checked_div(cycles)? < PERIODS {
        return None;
    }
    let passed = since_start.checked_div(cycles).filter(|passed| *passed / TIMES >= counted)?;
    let left = timers_still::stopped(case);
    let armed = armed(kernel);
    let claim = format!(
        "the tick does not come, or does not reach the kernel: {} for a time to pass; the kernel has counted {counted} ticks, and at least \
         {passed} periods of SysTick have passed since the start{}",
        waits(&armed),
        left.as_ref().map_or_else(String::new, |left| format!(": {}", left.words))
    );
    let text = format!(
        "in the whole trace, of {} of its ticks, none of the threads that wait for a time went on; others were made ready {} times",
        events.length(),
        events.without_timers.readied
    );
    let oldest = events.newest.saturating_add(1).saturating_sub(events.count);
    let (evidence, next) = left.map(|left| (left.evidence, left.next)).unzip();
    Some(
        Finding::new(Code::NoTick, case.cap(Confidence::Hint), claim)
            .against([
                "it is inferred from the reload value of SysTick, which another clock than that of the CPU may count",
            ])
            .against(["the program may have stopped its tick on purpose"])
            .evidence([Evidence::event(oldest, text)])
            .evidence(evidence)
            .next(next.unwrap_or_else(|| NEXT.to_owned()))
            .affected(
                kernel.threads.iter().filter(|thread| timers_still::is_timed(thread)).map(|thread| thread.address),
            ),
    )
}
