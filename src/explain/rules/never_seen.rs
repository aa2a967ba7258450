//! A thread waits for ever for what was never given, by a trace that holds every event since the start. It rests on what is
//! absent, and most threads that wait for a rare event look like this: a hint behind all others. An interrupt that comes and
//! does nothing of the kernel may be the one whose call is refused.

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::never_given::gone_user;
use super::silence;
use super::words::{gives, waiting};
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// The fewest events from which something is absent.
const FEWEST: u64 = 64;
/// Kernel ticks after which most of what a system does has been done once.
const SHORT: u64 = 512;
/// The fewest times that an interrupt came.
const TIMES: u64 = 3;

/// So many threads wait for flags of a group of which none was ever set.
const WAITERS: usize = 2;

/// All who wait for flags of a group are in their first wait, none of its flags is set, and no event sets any. One such thread is
/// healthy; several wait for each other, or for what sets the first flag.
pub(super) fn flags(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let (Some(kernel), Some(events)) = (case.kernel, case.events.filter(|events| events.count >= FEWEST)) else {
        return Vec::new();
    };
    let groups =
        kernel.objects.iter().filter(|object| object.kind == Kind::EventFlags && object.get("current") == Some(0));
    let of = |group: &Object| {
        let waiters: Vec<&Task> = graph.tasks.waiting(group.address).collect();
        let is_first = |task: &&Task| task.runs == Some(1) && task.wait.is_some_and(|wait| wait.forever);
        let is_given = events.object(group.address).is_some_and(|one| !one.givers.is_empty());
        let is_so = waiters.len() >= WAITERS && waiters.iter().all(is_first) && !is_given;
        is_so.then(|| of_group(group.address, &waiters, case, graph))
    };
    groups.filter_map(of).collect()
}

fn of_group(group: Addr, waiters: &[&Task], case: &Case<'_>, graph: &Graph) -> Finding {
    let object = case.object(group);
    let wants = |task: &&Task| {
        let wanted =
            task.wait.and_then(|wait| wait.wanted).map_or_else(String::new, |w| format!(" for {:#x}", w.flags));
        format!("{} waits{wanted}", case.label(task.address))
    };
    let all: Vec<String> = waiters.iter().map(wants).collect();
    let threads: Vec<Addr> = waiters.iter().map(|task| task.address).collect();
    Finding::new(
        Code::EventNeverSet,
        case.cap(Confidence::Hint),
        format!("no flag of {object} was ever seen to be set: {}, each for the first time", all.join(", ")),
    )
    .against(["what they wait for may be rare: it rests on what the trace does not show"])
    .evidence([Evidence::memory(group, format!("{object}: no flag is set")).holds(0)])
    .evidence(threads.iter().map(|thread| waiting(*thread, group, case, graph)))
    .next(format!("find out who was to set the first flag of {object}: an interrupt that is not enabled?"))
    .affected(graph.waiters(&threads))
    .threads(threads)
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.count >= FEWEST && !case.trust.has_wrapped) else {
        return Vec::new();
    };
    // Shortly after the start, nearly nothing has been given yet.
    if silence::system_clock(case).is_some_and(|ticks| ticks < SHORT) {
        return Vec::new();
    }
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
    let silent = (!silent.is_empty()).then(|| format!("{} and called nothing of the kernel", silent.join(", ")));
    Finding::new(
        Code::EventNeverSet,
        case.cap(Confidence::Hint),
        format!(
            "{name} waits for {wants}{object}, and no event since the start {verb} it{}",
            gone_user(task, wait.object, case, graph)
        ),
    )
    .against(["what it waits for may be rare: it rests on what the trace does not show"])
    .evidence([waiting(task.address, wait.object, case, graph)])
    .evidence(silent.iter().map(|text| Evidence::memory(wait.object, text.clone())))
    .next(if silent.is_some() {
        "check what the kernel's calls return in that interrupt: one that is refused leaves no event".to_owned()
    } else {
        format!("find out who was to {} {object}, and check what its calls return", gives(wait.kind))
    })
    .threads([task.address])
    .affected(graph.waiters(&[task.address]))
}
