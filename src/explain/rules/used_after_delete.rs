//! A timer is activated after its delete, or an object is deleted twice: the program kept a pointer to it, in a message, say. Where
//! the kernel checks the arguments, it refuses the call, and no event is left; with `TX_DISABLE_ERROR_CHECKING` the call goes on with
//! what lies in that memory. A timer that is activated so is linked into the kernel's list of timers, which leads into memory that is
//! somebody else's by then.
//!
//! Against it: a damaged event looks the same, and so does an object whose creation was filtered out. Nothing is said behind a gap, nor
//! where memory or the registry has an object there. Of other services nothing is said: most do nothing with what a delete leaves.

use super::super::events::AfterDelete;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use crate::abi::Addr;
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    // The last of them is nearest to what failed.
    let last = events.deleted.used.last().filter(|last| !is_there(last, case));
    last.map(|last| finding(last, events.deleted.times, case)).into_iter().collect()
}

/// True where memory has an object there, or, where only the trace is known, its registry: it was created by a call whose event is not
/// in the trace, as it was filtered out, or created again later.
fn is_there(last: &AfterDelete, case: &Case<'_>) -> bool {
    let Some(kernel) = case.kernel else {
        return case.events.is_some_and(|events| events.name(last.object).is_some());
    };
    let objects = kernel.objects.iter().map(|object| object.address);
    let threads = kernel.threads.iter().map(|thread| thread.address);
    objects.chain(threads).any(|at| case.stored(at) == last.object)
}

fn finding(last: &AfterDelete, times: u64, case: &Case<'_>) -> Finding {
    let object = format!("{} at {:#x}", noun(&last.call), last.object);
    let who = match last.thread {
        Some(thread) => case.label(thread),
        None if last.in_interrupt => case.interrupt(last.interrupt.map(u64::from)),
        None => "the program".to_owned(),
    };
    let by = last.by.map_or_else(String::new, |by| format!(" by {}", case.label(by)));
    let claim = format!("{who} calls {} for {object}, which was deleted before{by}", last.call);
    let (confidence, against) = case.by_events();
    let more = times.saturating_sub(1);
    let others = (more > 0).then(|| format!("{more} more such {}", if more == 1 { "call" } else { "calls" }));
    Finding::new(Code::CorruptControlBlock, (confidence.min(Confidence::Likely), against), claim)
        .against([
            "a damaged event looks the same, and one that created it again may have been filtered out of the trace",
        ])
        .evidence([
            Evidence::event(last.deleted, format!("{object} ({:#x}) is deleted{by}", last.object)),
            Evidence::event(last.seq, format!("{who} calls {} for it; no event between creates it", last.call)),
        ])
        .evidence(others.map(|text| Evidence::event(last.seq, text)))
        .next(format!("find out where {who} keeps a pointer to {object}, and drop it when that is deleted"))
        .affected(timer_thread(last, case))
}

/// What the object of a service is called: `timer` of `tx_timer_activate`.
fn noun(call: &str) -> &'static str {
    let rest = call.trim_start_matches("tx_");
    let of = |kind: &&Kind| rest.starts_with(&kind.name().replace(' ', "_"));
    Kind::ALL.iter().find(of).map_or("object", |kind| kind.name())
}

/// The thread that runs the timers, where the object is one: it follows the list.
fn timer_thread(last: &AfterDelete, case: &Case<'_>) -> Option<Addr> {
    let threads = case.kernel.filter(|_| noun(&last.call) == Kind::Timer.name())?.threads.iter();
    threads.into_iter().find(|thread| is_timer_thread(thread, case)).map(|thread| thread.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_acts_on() {
        assert_eq!(noun("tx_timer_activate"), "timer");
        assert_eq!(noun("tx_event_flags_set"), "event flags");
        assert_eq!(noun("tx_block_release"), "object");
    }
}
