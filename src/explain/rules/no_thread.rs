//! The kernel runs, and no thread of the application exists: the calls that create them were refused, or never made. The kernel
//! refuses a control block of another size than its library was built with, a stack that is too small or null, and a priority
//! that it does not have; a program that does not look at what `tx_thread_create` returns goes on, and the CPU stays idle.
//!
//! Against it: threads that have ended may have been deleted, so it is a hint. A program that does all in callbacks of timers needs no thread.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let kernel = case.kernel.filter(|kernel| !kernel.other_build && kernel.start_up.is_none())?;
    let is_started = !kernel.system_state.is_empty() && !kernel.is_initializing();
    let is_whole = kernel.overwritten.is_empty() && kernel.issues.is_empty();
    let has_timers = kernel.objects.iter().any(|object| object.kind == Kind::Timer && object.active() != Some(false));
    let [thread] = kernel.threads.as_slice() else { return None };
    if !is_started || !is_whole || has_timers || !is_timer_thread(thread, case) {
        return None;
    }
    let name = thread.label();
    Some(
        Finding::new(
            Code::Hang,
            case.cap(Confidence::Hint),
            format!("the kernel runs, and no thread of the application exists: {name} is the only one"),
        )
        .against(["threads that have ended may have been deleted"])
        .evidence([Evidence::memory(thread.address, format!("{name}: the list of threads has no other"))])
        .next(
            "look at what tx_thread_create returns: it refuses a control block of another size than that of the library, a \
             stack that is null or too small, and a wrong priority",
        ),
    )
}
