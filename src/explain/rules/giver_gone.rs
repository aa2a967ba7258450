//! A thread waits for ever for what one thread alone gave, which has ended or is suspended since: a server that returned from its
//! function while its clients wait for replies. A start-up thread that gave something and completed is healthy, so it is likely
//! only where something is left that the thread alone would take: a message that is not read, or what was given to it after its
//! end. Without that it is a hint, and only where it gave often.

use super::super::events::{Events, Giver, One};
use super::super::graph::Graph;
use super::super::state::{Does, Task, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_task;
use super::words::{shows, waiting};
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// Who gave so often was to go on.
const OFTEN: u64 = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let mut found: Vec<Finding> = Vec::new();
    for task in &graph.tasks.list {
        let wait = task.wait.filter(|wait| is_for_gift(wait) && graph.wait(task.address).is_none());
        let Some((wait, giver)) = wait.and_then(|wait| Some((wait, gone(&wait, events, case, graph)?))) else {
            continue;
        };
        if !found.iter().any(|f| f.threads.first() == Some(&giver.0.address)) {
            found.extend(finding(task, &wait, giver, events, case, graph));
        }
    }
    found
}

fn is_for_gift(wait: &Wait) -> bool {
    wait.forever && !wait.sends && matches!(wait.kind, Kind::EventFlags | Kind::Semaphore | Kind::Queue)
}

/// The only thread that gave it, where it cannot go on, and how often.
fn gone<'g>(wait: &Wait, events: &Events, case: &Case<'_>, graph: &'g Graph) -> Option<(&'g Task, u64)> {
    let wanted = wait.wanted.filter(|_| wait.kind == Kind::EventFlags).map(|wanted| wanted.flags);
    let gives = |flags: u64| wanted.is_none_or(|wanted| flags & wanted != 0);
    let mut givers = events.object(wait.object)?.givers.iter().filter(|(_, given)| gives(given.flags));
    let (Some((Giver::Thread(thread), given)), None) = (givers.next(), givers.next()) else { return None };
    // The kernel suspends the thread of its timers while none expires.
    let is_gone = |task: &&Task| task.does.gone().is_some() && !is_timer_task(task, case);
    let task = graph.stored(case, *thread).filter(is_gone)?;
    Some((task, given.times))
}

/// What is left for a thread that is gone: it alone took it, and some is there, or was given since.
struct Left {
    object: Addr,
    evidence: Evidence,
}

fn left(thread: &Task, events: &Events, case: &Case<'_>) -> Option<Left> {
    let is_alone = |one: &One| {
        let mut takers = one.takers.iter();
        takers.next().is_some_and(|taker| events.is(thread.address, *taker)) && takers.next().is_none()
    };
    let since = events.activity(thread.address).and_then(|activity| activity.since).map(|(_, seq)| seq);
    let of = |(stored, one): (Addr, &One)| {
        let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
        let object = objects.iter().find(|object| events.is(object.address, stored));
        if let Some(object) = object.filter(|object| has_some(object)) {
            let text = format!("{}: {}", case.object(object.address), object.state(&|owner| case.label(owner)));
            return Some(Left { object: object.address, evidence: Evidence::memory(object.address, text) });
        }
        let newest = one.givers.values().map(|given| given.seq).max()?;
        let is_later = case.kernel.is_none() && since.is_some_and(|since| newest > since);
        let text = format!("{} was given to since", case.object(stored));
        is_later.then(|| Left { object: stored, evidence: Evidence::event(newest, text) })
    };
    events.objects().filter(|(_, one)| is_alone(one)).find_map(of)
}

fn has_some(object: &Object) -> bool {
    let count = match object.kind {
        Kind::Queue => object.get("enqueued"),
        Kind::Semaphore => object.get("count"),
        _ => None,
    };
    count.is_some_and(|count| count > 0)
}

fn finding(
    task: &Task,
    wait: &Wait,
    (giver, times): (&Task, u64),
    events: &Events,
    case: &Case<'_>,
    graph: &Graph,
) -> Option<Finding> {
    let left = left(giver, events, case);
    if left.is_none() && times < OFTEN {
        return None;
    }
    let lasts = graph.is_still || events.is_long(task.address, wait.object);
    let is_over = giver.does != Does::Suspended;
    let claimed = if left.is_some() && lasts && is_over { Confidence::Likely } else { Confidence::Hint };
    let (name, other, object) = (case.label(task.address), case.label(giver.address), case.object(wait.object));
    let is = giver.does.gone()?;
    let verb = match wait.kind {
        Kind::EventFlags => "sets",
        Kind::Queue => "sends to",
        _ => "puts",
    };
    let unread = left
        .as_ref()
        .map_or_else(String::new, |left| format!("; no other thread takes from {}", case.object(left.object)));
    Some(
        Finding::new(
            Code::EventNeverSet,
            case.cap(claimed),
            format!("{name} waits for {object}, and {other}, which alone {verb} it, {is}{unread}"),
        )
        .against([if is_over {
            format!("others may give {object}: the trace shows only {other}")
        } else {
            format!("{other} may be resumed")
        }])
        .evidence([
            waiting(task.address, wait.object, case, graph),
            shows(giver.address, format!("{other}: {is}; it {verb} {object} {times} times in the trace"), graph),
        ])
        .evidence(left.map(|left| left.evidence))
        .waiters(graph.waiters(&[giver.address, task.address]), task.address, case, graph)
        .next(format!("find out why {other} {is}: look at the paths on which its function returns or is stopped"))
        .threads([giver.address, task.address]),
    )
}
