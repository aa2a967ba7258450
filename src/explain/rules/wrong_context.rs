//! A call that may wait, or a mutex, in an interrupt: the kernel has no thread there to suspend. Where parameters are checked
//! such a call is refused and leaves no event, so this sees only kernels that were built without the checks.

use super::super::graph::Graph;
use super::super::{Case, Code, Evidence, Finding};

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let Some(first) = events.wrong.first() else { return Vec::new() };
    let (confidence, mut detractors) = case.by_events();
    detractors.push("a damaged event looks the same".to_owned());
    let who = case.interrupt(first.interrupt.map(u64::from));
    let on = first.object.map_or_else(String::new, |object| format!(" ({})", case.object(object)));
    let calls =
        |call: &super::super::events::WrongCall| Evidence::event(call.seq, format!("{} in an interrupt", call.call));
    vec![Finding {
        code: Code::WrongContext,
        claim: format!("{who} calls {}{on}: an interrupt cannot wait and cannot own a mutex", first.call),
        confidence,
        detractors,
        evidence: events.wrong.iter().take(3).map(calls).collect(),
        explains: Vec::new(),
        next: "give a semaphore or set event flags in the interrupt, and let a thread do the rest".to_owned(),
        threads: Vec::new(),
        behind: Vec::new(),
    }]
}
