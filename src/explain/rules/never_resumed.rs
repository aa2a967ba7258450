//! A thread is suspended by a call, for all of the trace, though it often ran before: who resumes it does so no more, or its
//! call came before the thread had suspended itself and was refused.
//!
//! It rests on what is absent, and a thread may be suspended on purpose: a hint.

use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_task;
use super::{never_given, silence};
use crate::kernel::Thread;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = graph.tasks.list.iter().filter(|task| task.does == Does::Suspended && !is_timer_task(task, case));
    all.filter_map(|task| finding(task, case, graph)).collect()
}

fn finding(task: &Task, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    silence::inserts_all(case).filter(|all| *all)?;
    let (expected, ran) = never_given::runs(task, case)?;
    // Where an event shows that it was suspended, another rule or the reader knows who did it.
    let from_before = events.activity(task.address).is_none_or(|activity| activity.since.is_none());
    let is_reset = case.thread(task.address).is_some_and(Thread::is_reset);
    if expected < never_given::FEWEST || ran > 0 || !from_before || is_reset || !events.has_clock {
        return None;
    }
    let (name, runs) = (case.label(task.address), task.runs?);
    Some(
        Finding::new(
            Code::EventNeverSet,
            case.cap(Confidence::Hint),
            format!(
                "{name} is suspended in the whole trace, and no event resumes it, though it ran {runs} times before"
            ),
        )
        .against(["it may be suspended on purpose: it rests on what the trace does not show"])
        .evidence([Evidence::memory(
            task.address,
            format!("{name}: suspended; by its {runs} runs it should have run {expected} times within the trace"),
        )])
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(format!(
            "find out who resumes {name}: tx_thread_resume does nothing where the thread has not suspended itself yet"
        ))
        .threads([task.address]),
    )
}
