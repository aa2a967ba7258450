//! A thread sleeps, or waits with a time-out, for a number of ticks that is negative as a signed number: a period of which it was
//! late (`next - tx_time_get()`). The kernel's times have no sign, so at 1000 ticks a second it sleeps for more than three weeks.
//!
//! Against it: a program may sleep nearly for ever on purpose, with one less than `TX_WAIT_FOREVER` (that itself starts no timer), or
//! a round number. The kernel subtracts the length of its timer wheel in each turn, so what is left shows which of these it can have
//! been: then it is a hint. Nothing is said while the thread of the kernel's timers is ready: it still has to look at those that are over.

use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::words::behind;
use crate::abi::Addr;
use crate::kernel::{State, Thread};

/// The array that the kernel's timer wheel is.
const WHEEL: &str = "_tx_timer_list";
/// The most entries of a wheel.
const MOST: u64 = 1024;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    // It has not looked yet at the times that are over: what is left of them may have passed 0.
    let is_behind = |thread: &&Thread| is_timer_thread(thread, case) && thread.state == Some(State::READY);
    if kernel.threads.iter().any(|thread| is_behind(&thread)) {
        return Vec::new();
    }
    let of = |thread: &Thread| finding(thread, thread.negative?, case, graph);
    kernel.threads.iter().filter_map(of).collect()
}

/// The entries of the timer wheel.
fn entries(case: &Case<'_>) -> Option<u64> {
    case.look.symbol(WHEEL)?.size.checked_div(case.width()).filter(|entries| (1..=MOST).contains(entries))
}

/// True where a time that a program may give on purpose leaves this: -2, or a number that ends in zeros.
fn may_be_meant(left: i64, entries: Option<u64>) -> bool {
    let Some(entries) = entries.and_then(|entries| i64::try_from(entries).ok()) else { return true };
    let was = |begin: i64| begin.saturating_sub(left).checked_rem(entries) == Some(0);
    [-2, 0].into_iter().any(was)
}

fn finding(thread: &Thread, (left, signed): (u64, i64), case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let task: &Task = graph.tasks.at(thread.address)?;
    let name = thread.label();
    let does = match task.does {
        Does::Sleeps => format!("{name} sleeps"),
        Does::Waits => {
            let object = task.wait.map_or_else(String::new, |wait| format!(" for {}", case.object(wait.object)));
            format!("{name} waits{object} with a time-out")
        }
        _ => return None,
    };
    let is_meant = may_be_meant(signed, entries(case));
    let (confidence, mut detractors) = case.cap(if is_meant { Confidence::Hint } else { Confidence::Likely });
    if is_meant {
        detractors.push("the time may be nearly TX_WAIT_FOREVER, or a round number, on purpose".to_owned());
    }
    let others: Vec<Addr> = graph.behind(&[thread.address]);
    let text = format!("{name}: {left:#x} ticks of its timer are left at its last turn of the kernel's timer wheel");
    let evidence = vec![Evidence::memory(thread.address, text).holds(left)];
    Some(Finding {
        code: Code::EventNeverSet,
        claim: format!("{does}, and {left} ticks of that are left, a negative number ({signed})"),
        confidence,
        detractors,
        evidence,
        explains: behind(&others, thread.address, case, graph),
        next: format!(
            "look for a difference that {name} gives as a time (such as next - tx_time_get()): it is negative where the thread is late"
        ),
        threads: vec![thread.address],
        behind: others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_for_ever_is_no_difference_below_zero() {
        assert!(!may_be_meant(-68, Some(32)), "-4, two turns ago");
        assert!(!may_be_meant(-1, Some(32)), "TX_WAIT_FOREVER starts no timer, so it was -33 before");
        assert!(may_be_meant(-66, Some(32)), "one less than TX_WAIT_FOREVER, two turns ago");
        assert!(may_be_meant(-0x8000_0000, Some(32)), "a round number");
        assert!(may_be_meant(-68, None), "the wheel is not known");
    }
}
