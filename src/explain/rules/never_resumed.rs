//! A thread is suspended by a call, for all of the trace, though it often ran before: who resumes it does so no more, or its
//! call came before the thread had suspended itself and was refused.
//!
//! Or an event shows such a call before it was suspended, and it is suspended for far longer than ever before.
//!
//! It rests on what is absent, and a thread may be suspended on purpose: a hint.

use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_task;
use super::words::trace_ticks;
use super::wrong_mask::giver;
use super::{never_given, silence};
use crate::kernel::Thread;

/// So often calls found it suspended: that is how it gets its work.
const OFTEN: u64 = 3;
/// It is suspended for so many times the longest before.
const LONGER: i64 = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = graph.tasks.list.iter().filter(|task| task.does == Does::Suspended && !is_timer_task(task, case));
    all.filter_map(|task| lost(task, case, graph).or_else(|| finding(task, case, graph))).collect()
}

/// The call that was to resume it came before it was suspended.
fn lost(task: &Task, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.has_clock)?;
    let resumes = events.resumes(task.address).filter(|resumes| resumes.found >= OFTEN)?;
    let (lost, by) = resumes.in_vain?;
    let (_, since) = events.activity(task.address)?.since.filter(|(_, since)| *since > lost)?;
    let is_by_other_thread = events.suspended(task.address).is_some();
    if is_by_other_thread || events.lasts(task.address) / LONGER <= resumes.longest {
        return None;
    }
    let (name, by) = (case.label(task.address), giver(by, case, graph));
    let lasts = trace_ticks(events.lasts(task.address), case);
    let claim = format!(
        "{name} is suspended and is not resumed: {by} called tx_thread_resume before that, while {name} was not suspended yet, and \
         such a call does nothing"
    );
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against([format!("{name} may have seen what it was to be resumed for before it was suspended")])
            .evidence([
                Evidence::event(lost, format!("{by} calls tx_thread_resume; {name} is ready (TX_RESUME_ERROR)")),
                Evidence::event(since, format!("{name} is suspended, for {lasts} up to the newest event")),
            ])
            .evidence([Evidence::event(
                lost,
                format!(
                    "{} calls before found it suspended, each after at most {}",
                    resumes.found,
                    trace_ticks(resumes.longest, case)
                ),
            )])
            .waiters(graph.waiters(&[task.address]), task.address, case, graph)
            .next(format!(
                "let {name} wait for a semaphore or event flags, which remember that they were given, in place of tx_thread_suspend"
            ))
            .threads([task.address]),
    )
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
