//! A thread that goes on with a priority which its own code sets, in a function that returns on one of its paths without changing it
//! back: what it does with that priority keeps less urgent threads from running.
//!
//! Against it: that work may be meant to have this priority, and what is ready may run soon. So it is a hint.

use super::super::graph::Graph;
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::place_at;
use crate::abi::Addr;
use crate::kernel::{State, Thread};

/// The functions of the kernel that change a priority, without and with a check of the arguments.
const CHANGE: [&str; 2] = ["_tx_thread_priority_change", "_txe_thread_priority_change"];

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let functions: Vec<Addr> = CHANGE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let goes_on = |thread: &&Thread| {
        graph.tasks.at(thread.address).is_some_and(|task| matches!(task.does, Does::Runs | Does::Ready))
    };
    let all = kernel.threads.iter().filter(|_| !functions.is_empty()).filter(goes_on);
    all.filter_map(|thread| finding(thread, &functions, case)).collect()
}

fn finding(thread: &Thread, functions: &[Addr], case: &Case<'_>) -> Option<Finding> {
    // What it has from a mutex it gives back with that.
    let own = thread.priority.filter(|_| thread.inherits().is_none())?;
    let is_behind =
        |other: &&Thread| other.state == Some(State::READY) && other.priority.is_some_and(|priority| priority > own);
    let behind: Vec<&Thread> = case.kernel?.threads.iter().filter(is_behind).collect();
    let leak =
        case.usage()
            .filter(|_| !behind.is_empty())?
            .not_undone(User::Thread(thread.address), functions, &|to| to == own)?;
    let (name, place) = (thread.label(), place_at(leak.at, case));
    let labels: Vec<String> = behind.iter().map(|other| other.label()).collect();
    let are = if labels.len() == 1 { "is" } else { "are" };
    let claim = format!(
        "{name} goes on with priority {own}, and {} {are} ready; {place} changes the priority of a thread to {own}, and may return without changing it back",
        labels.join(", ")
    );
    let text = "it changes a priority here, and a path leads from here to its end without changing it back";
    let of = |other: &&Thread| {
        let text = format!("{} (priority {}) is ready", other.label(), other.priority.unwrap_or_default());
        Evidence::memory(other.address, text)
    };
    Some(
        Finding::new(Code::Starvation, case.cap(Confidence::Hint), claim)
            .against(["what it does with this priority may still be going on"])
            .evidence([Evidence::symbol(leak.at, &place, text.to_owned())])
            .evidence(behind.iter().map(of))
            .next(format!("look at the paths behind {place} that do not change the priority back"))
            .affected(behind.iter().map(|other| other.address))
            .threads([thread.address]),
    )
}
