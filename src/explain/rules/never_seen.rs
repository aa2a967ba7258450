//! A thread waits for ever for what nobody ever gave, by a trace that holds every event since the start. It rests on what is
//! absent, and most threads that wait for a rare event look like this: a hint behind all others. An interrupt that comes and
//! does nothing of the kernel may be the one whose call is refused.

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::waiting;
use crate::kernel::Kind;

/// The fewest events from which something is absent.
const FEWEST: u64 = 64;
/// The fewest times that an interrupt came.
const TIMES: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.count >= FEWEST && !case.trust.has_wrapped) else {
        return Vec::new();
    };
    let waits = |task: &Task| task.wait.filter(|wait| is_for_gift(wait) && graph.wait(task.address).is_none());
    let tasks = graph.tasks.list.iter().filter_map(|task| Some((task, waits(task)?)));
    let never = tasks.filter(|(task, wait)| !is_given(wait, events) && events.is_long(task.address, wait.object));
    never.map(|(task, wait)| finding(task, &wait, events, case, graph)).collect()
}

fn is_for_gift(wait: &Wait) -> bool {
    wait.forever && !wait.sends && matches!(wait.kind, Kind::EventFlags | Kind::Semaphore | Kind::Queue)
}

fn is_given(wait: &Wait, events: &Events) -> bool {
    let wanted = wait.wanted.map_or(u64::MAX, |wanted| wanted.flags);
    let is_flags = wait.kind == Kind::EventFlags;
    let Some(one) = events.object(wait.object) else { return false };
    one.givers.values().any(|given| !is_flags || given.flags & wanted != 0)
}

fn finding(task: &Task, wait: &Wait, events: &Events, case: &Case<'_>, graph: &Graph) -> Finding {
    let (name, object) = (case.label(task.address), case.object(wait.object));
    let (verb, wants) = match (wait.kind, wait.wanted) {
        (Kind::EventFlags, Some(wanted)) => ("sets", format!("{:#x} of ", wanted.flags)),
        (Kind::Queue, _) => ("sends to", String::new()),
        _ => ("gives", String::new()),
    };
    let silent = events.interrupts.by_number.iter().filter(|(_, one)| one.acts == 0 && one.times >= TIMES);
    let silent: Vec<String> =
        silent.map(|(number, one)| format!("{} came {} times", case.interrupt(Some(*number)), one.times)).collect();
    let (confidence, mut detractors) = case.cap(Confidence::Hint);
    detractors.push("what it waits for may be rare: it rests on what the trace does not show".to_owned());
    let mut evidence = vec![waiting(task.address, wait.object, case, graph)];
    let silent = (!silent.is_empty()).then(|| format!("{} and called nothing of the kernel", silent.join(", ")));
    evidence.extend(silent.iter().map(|text| Evidence::memory(wait.object, text.clone())));
    Finding {
        code: Code::EventNeverSet,
        claim: format!("{name} waits for {wants}{object}, and no event since the start {verb} it"),
        confidence,
        detractors,
        evidence,
        explains: Vec::new(),
        next: if silent.is_some() {
            "check what the kernel's calls return in that interrupt: one that is refused leaves no event".to_owned()
        } else {
            format!("find out who was to give {object}, and check what its calls return")
        },
        threads: vec![task.address],
        behind: graph.behind(&[task.address]),
    }
}
