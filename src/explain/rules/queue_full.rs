//! A queue that is full, with senders that wait, while the only thread that takes from it waits for something else, is
//! suspended, or has ended. Where it is known who has what that thread waits for, the cause is there. A queue is often full
//! for a moment: it is likely only where the trace shows that both waits last far longer than usual. Senders that do not wait
//! lose their messages: then it is a hint, as the reader may be suspended on purpose, or wait for a slow device. Where the trace shows no reader, the
//! program does: the thread that uses the queue and does not send to it.

use super::super::events::{Events, Giver, Refusals, TimeOuts, Untaken};
use super::super::graph::Graph;
use super::super::state::{Does, Task, Wait};
use super::super::usage::time_outs;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::flags_cleared;
use super::not_given::NotGiven;
use super::owner_gone::LONG_WAIT;
use super::users::uses;
use super::words::{few, gives, shows, suspended_by, third, waiting, wanted};
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::{Kind, Object};
use crate::trace::many;

/// So often a thread sends to a queue that nobody reads.
const OFTEN: u64 = 8;
/// So often a slow reader finds the queue full.
const SLOW: u64 = 3;
/// The fewest messages that a full queue refuses while its reader waits for something else.
const REFUSED: u64 = 2;
/// Why a reader is inferred.
pub(super) const BY_EVENTS: &str = "that no other thread reads the queue is inferred from events";
const BY_PROGRAM: &str =
    "that it reads the queue is inferred from its code or its stack, which hold the queue's address";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let more = |queue| {
        refused(queue, case, graph).or_else(|| slow(queue, case, graph)).or_else(|| elsewhere(queue, case, graph))
    };
    let of = |queue: &Addr| finding(*queue, case, graph).or_else(|| more(*queue));
    let full = full(case, graph);
    let mut found: Vec<Finding> = full.iter().filter_map(of).collect();
    // From a trace alone, a queue without threads that wait for room.
    let has_refused = case.events.filter(|_| case.kernel.is_none()).into_iter().flat_map(Events::objects);
    let has_refused = has_refused.filter(|(queue, one)| one.refusals.is_some() && !full.contains(queue));
    found.extend(has_refused.filter_map(|(queue, _)| refused(queue, case, graph)));
    let queues = case.kernel.into_iter().flat_map(|kernel| &kernel.objects).filter(|object| object.kind == Kind::Queue);
    found.extend(queues.filter_map(|queue| left(queue, case, graph)));
    found
}

/// Without a trace: nobody waits for room in a full queue, and its only reader waits for something else without a time-out. Senders that do
/// not wait lose their messages.
fn elsewhere(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let reader = reader(queue, case, graph).filter(|_| case.events.is_none())?;
    let (task, object) = (reader.task, case.kernel?.object(queue)?);
    let wait = task.wait.filter(|wait| wait.forever && wait.object != queue && graph.wait(task.address).is_none())?;
    if graph.tasks.waiting(queue).next().is_some() {
        return None;
    }
    let givers = by_code::givers(&wait, case, graph);
    let (what, by) = (wanted(&wait, givers.as_ref(), case), few(givers.as_ref()));
    let by_get = flags_cleared::by_get(task, &wait, case);
    let code = if by_get.is_some() { Code::WrongEventMask } else { Code::EventNeverSet };
    let (lost, clears) = flags_cleared::by_itself(task, &wait, case).or(by_get).unzip();
    let lost = lost.map_or_else(String::new, |lost| format!("; {lost}"));
    let (name, label) = (case.label(task.address), case.object(queue));
    let claim =
        format!("{name} waits for {what}{lost}; meanwhile {label}, which it reads, is full, and nobody waits for room");
    let next = match by {
        Some(by) => conditions(&by, &wait, case),
        None => format!("find out who was to {} {}", gives(wait.kind), case.object(wait.object)),
    };
    Some(
        Finding::new(code, case.cap(Confidence::Hint), claim)
            .against([BY_PROGRAM, "what it waits for may be slow"])
            .evidence([waiting(task.address, wait.object, case, graph)])
            .evidence([Evidence::memory(queue, format!("{label}: {}", object.state(&|_| String::new())))])
            .evidence(clears)
            .evidence(givers.into_iter().flat_map(|givers| givers.evidence))
            .next(next)
            .affected(graph.waiters(&[task.address]))
            .threads([task.address]),
    )
}

/// A queue that is nearly full, and that refused messages, while its only reader waits for something else, and not for its messages:
/// it may take fewer than come each time that it is woken.
fn left(queue: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (held, room) = (queue.get("enqueued")?, queue.get("available_storage").filter(|room| *room > 0)?);
    let capacity = held.checked_add(room).filter(|capacity| held >= capacity.saturating_sub(capacity / 4))?;
    let refused = case.events?.object(queue.address)?.fullest.filter(|most| most.held >= capacity)?;
    let reader = reader(queue.address, case, graph).filter(|reader| !reader.is_inferred)?;
    let is_other = |wait: &Wait| wait.object != queue.address;
    let wait = reader.task.wait.filter(is_other).filter(|_| graph.wait(reader.task.address).is_none())?;
    if graph.tasks.waiting(queue.address).next().is_some() {
        return None;
    }
    let (name, label) = (case.label(reader.task.address), case.object(queue.address));
    let claim = format!(
        "{name} waits for {}, though {held} of {capacity} messages are left in {label}, which it alone reads and which refused {}",
        wanted(&wait, None, case),
        many(refused.times, "message", "messages"),
    );
    Some(
        Finding::new(Code::QueueFull, case.cap(Confidence::Hint), claim)
            .against([BY_EVENTS, "it may be woken for the rest of the messages soon"])
            .evidence([waiting(reader.task.address, wait.object, case, graph)])
            .evidence([Evidence::memory(queue.address, format!("{label}: {}", queue.state(&|_| String::new())))])
            .evidence([Evidence::event(refused.seq, format!("a message is sent to {label}, which is full"))])
            .next(format!("let {name} read all messages each time that it is woken, until the queue is empty"))
            .usual(true)
            .threads([reader.task.address]),
    )
}

/// A full queue refuses messages, as the only thread that reads it waits for something else without a time-out: that wait is what
/// does not end.
fn refused(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (events, reader) = (case.events?, reader(queue, case, graph)?);
    let task = reader.task;
    let wait = task.wait.filter(|wait| wait.forever && wait.object != queue && graph.wait(task.address).is_none())?;
    let one = events.object(queue)?;
    let untaken = one.untaken.filter(Untaken::is_refused).map(|untaken| (untaken.puts, untaken.first.0));
    // Where there is memory, more is known of a queue that filled up within the trace.
    // What another thread has flushed since is not full at the next message.
    let is_full = |refused: &Refusals| one.untaken.is_some_and(|untaken| untaken.held.1 >= refused.capacity);
    let refusals = || one.refusals.filter(|refused| case.kernel.is_none() && is_full(refused));
    let refusals = || refusals().map(|refused| (refused.times, refused.first.1));
    let (refused, first) = untaken.or_else(refusals).filter(|(times, _)| *times >= REFUSED)?;
    let since = events.activity(task.address).and_then(|activity| activity.since).map_or(0, |(_, seq)| seq);
    if first < since || !events.is_long(task.address, wait.object) {
        return None;
    }
    let (name, object, label) = (case.label(task.address), case.object(wait.object), case.object(queue));
    let givers = by_code::givers(&wait, case, graph);
    let (what, by) = (wanted(&wait, givers.as_ref(), case), few(givers.as_ref()));
    let times = many(refused, "message", "messages");
    let claim = format!("{name} waits for {what}; meanwhile {label}, which it reads, is full, and refused {times}");
    let next = match by {
        Some(by) => conditions(&by, &wait, case),
        None => format!("find out who was to {} {object}", gives(wait.kind)),
    };
    let first = Evidence::event(first, format!("a message is sent to {label}, which is full"));
    let gave = if givers.is_none() { last_gift(&wait, case, graph) } else { None };
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against([if reader.is_inferred { BY_PROGRAM } else { BY_EVENTS }, "what it waits for may be slow"])
            .evidence([waiting(task.address, wait.object, case, graph), first])
            .evidence(givers.into_iter().flat_map(|givers| givers.evidence))
            .evidence(gave)
            .next(next)
            .affected(graph.waiters(&[task.address]))
            .threads([task.address]),
    )
}

/// Who gave last what a thread waits for, where one alone did in the trace.
fn last_gift(wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let mut givers = case.events?.object(wait.object)?.givers.iter();
    let (Some((by, given)), None) = (givers.next(), givers.next()) else { return None };
    // It may set other flags of the group.
    if wait.wanted.is_some_and(|wanted| wanted.flags & given.flags == 0) {
        return None;
    }
    let (who, does, object) = (giver(*by, case, graph), third(wait.kind), case.object(wait.object));
    let times = many(given.times, "time", "times");
    let text =
        format!("{who} {does} {object} here for the last time, {times} in the trace; no other does in this trace");
    Some(Evidence::event(given.seq, text))
}

/// Messages come faster than the only reader takes them: each time that it asks for one, the queue is full, and others wait for room.
fn slow(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (events, reader) = (case.events?, reader(queue, case, graph)?);
    let (task, object) = (reader.task, case.kernel?.object(queue)?);
    let capacity = object.get("capacity").filter(|capacity| *capacity > 0)?;
    let found = events.object(queue)?.found.filter(|found| found.times >= SLOW && found.fewest >= capacity)?;
    let is_sender = |sender: &&Task| sender.wait.is_some_and(|wait| wait.forever) && sender.address != task.address;
    let senders: Vec<Addr> = graph.tasks.waiting(queue).filter(is_sender).map(|task| task.address).collect();
    if senders.is_empty() || reader.is_inferred || task.does.gone().is_some() {
        return None;
    }
    let (name, label) = (case.label(task.address), case.object(queue));
    let names: Vec<String> = senders.iter().map(|sender| case.label(*sender)).collect();
    let does = match (task.does, task.wait) {
        (Does::Sleeps, _) => "; it sleeps now".to_owned(),
        (Does::Waits, Some(wait)) => format!("; it waits for {} now", case.object(wait.object)),
        _ => String::new(),
    };
    let claim = format!(
        "{label} is full ({capacity} messages), and messages come faster than {name} reads them: each of the {} times that it \
         read one, the queue was full{does}; {} {} for room",
        found.times,
        names.join(", "),
        if names.len() == 1 { "waits" } else { "wait" },
    );
    let read = |seq: u64| Evidence::event(seq, format!("{name} takes a message from {label}, which is full"));
    let (first, last) = found.seqs;
    Some(
        Finding::new(Code::QueueFull, case.cap(Confidence::Hint), claim)
            .against([BY_EVENTS, "a burst of messages looks the same while it lasts"])
            .evidence([Evidence::memory(queue, format!("{label}: {}", object.state(&|_| String::new())))])
            .evidence([read(first), read(last)])
            .evidence(senders.first().map(|sender| waiting(*sender, queue, case, graph)))
            .explains(senders.iter().map(|sender| format!("{} waits for room in {label}", case.label(*sender))))
            .next(format!(
                "let {name} do less work for each message, send fewer, or send with TX_NO_WAIT where a message may be lost"
            ))
            .usual(true)
            .affected(graph.waiters(&senders).into_iter().chain(senders))
            .threads([task.address]),
    )
}

/// Queues of which no reader is known: after the waits that may keep it from reading.
pub(super) fn unread(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = full(case, graph);
    let unknown: Vec<Addr> = all.into_iter().filter(|queue| finding(*queue, case, graph).is_none()).collect();
    let found: Vec<Finding> = unknown.iter().filter_map(|queue| nobody(*queue, case, graph)).collect();
    if found.is_empty() { crossed(&unknown, case, graph).into_iter().collect() } else { found }
}

/// Several queues are full, and all who send to them wait for ever: each may be the reader of another.
fn crossed(queues: &[Addr], case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let known = |queue: &Addr| case.events.is_some_and(|events| !events.takers(*queue).is_empty());
    let queues: Vec<Addr> =
        queues.iter().copied().filter(|queue| graph.tasks.waiting(*queue).next().is_some()).collect();
    if queues.len() < 2 || queues.iter().any(known) {
        return None;
    }
    let senders: Vec<&Task> = queues.iter().flat_map(|queue| graph.tasks.waiting(*queue)).collect();
    if !senders.iter().all(|task| task.wait.is_some_and(|wait| wait.forever)) {
        return None;
    }
    let pairs = || senders.iter().filter_map(|task| Some((task.address, task.wait?.object)));
    let waits = pairs().map(|(at, queue)| format!("{} waits for room in {}", case.label(at), case.object(queue)));
    let threads: Vec<Addr> = senders.iter().map(|task| task.address).collect();
    let waits: Vec<String> = waits.collect();
    Some(
        Finding::new(
            Code::QueueFull,
            case.cap(Confidence::Hint),
            format!("{}: no thread is seen that would read", waits.join("; ")),
        )
        .against(["one moment does not show how long it lasts, nor who reads these queues"])
        .evidence(pairs().map(|(at, queue)| waiting(at, queue, case, graph)))
        .next("check whether each of them is the reader of the other's queue")
        .affected(graph.waiters(&threads))
        .threads(threads),
    )
}

/// Queues into which a thread waits to put a message, and those that memory shows to be full.
fn full(case: &Case<'_>, graph: &Graph) -> Vec<Addr> {
    let waited = graph.tasks.list.iter().filter_map(|task| task.wait.filter(|wait| wait.sends)).map(|wait| wait.object);
    let objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let in_memory = objects.filter(|object| {
        let is_full = object.get("available_storage") == Some(0) && object.get("enqueued").is_some_and(|n| n > 0);
        object.kind == Kind::Queue && is_full
    });
    let mut queues: Vec<Addr> = waited.chain(in_memory.map(|queue| queue.address)).collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// The trace shows no thread that takes from it, for long.
fn nobody(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.takers(queue).is_empty())?;
    // Who reads it is known, and what keeps it from that is another finding.
    if by_code::only_reader(queue, case).is_some() {
        return None;
    }
    let sender = graph.tasks.waiting(queue).find(|task| task.wait.is_some_and(|wait| wait.forever));
    let label = case.object(queue);
    let (what, evidence) = match sender {
        Some(sender) if events.is_long(sender.address, queue) => {
            let evidence = waiting(sender.address, queue, case, graph);
            (format!("{} waits for room", case.label(sender.address)), evidence)
        }
        Some(_) => return None,
        None => {
            let givers = &events.object(queue)?.givers;
            let (by, given) = givers.iter().max_by_key(|(_, given)| given.times)?;
            let text = format!("{} sends to it {} times", giver(*by, case, graph), given.times);
            (given.times >= OFTEN).then_some(())?;
            (text, Evidence::event(given.seq, format!("{} sends to {label}, which is full", giver(*by, case, graph))))
        }
    };
    let threads = vec![sender.map_or(queue, |sender| sender.address)];
    Some(
        Finding::new(
            Code::QueueFull,
            case.cap(Confidence::Hint),
            format!("{label} is full: {what}, and no event takes from it"),
        )
        .against(["it rests on what the trace does not show"])
        .evidence([evidence])
        .next(format!("find out which thread reads {label}, and what it waits for (`threads --bt`)"))
        .affected(graph.waiters(&threads))
        .threads(threads),
    )
}

/// A thread that takes from a queue, and why it is taken for the only one.
pub(super) struct Reader<'g> {
    pub task: &'g Task,
    /// No event shows it.
    pub is_inferred: bool,
}

/// The only thread that was seen to take from a queue; without one the only thread whose code does, or that uses it and does not
/// send to it.
pub(super) fn reader<'g>(queue: Addr, case: &Case<'_>, graph: &'g Graph) -> Option<Reader<'g>> {
    let events = case.events;
    let takers = events.map(|events| events.takers(queue)).unwrap_or_default();
    if let Some(only) = takers.first() {
        let task = graph.stored(case, *only).filter(|_| takers.len() == 1)?;
        return Some(Reader { task, is_inferred: false });
    }
    if let Some(task) = by_code::only_reader(queue, case).and_then(|only| graph.tasks.at(only)) {
        return Some(Reader { task, is_inferred: true });
    }
    let givers = || events.and_then(|events| events.object(queue)).into_iter().flat_map(|one| one.givers.keys());
    let sends = |task: &Task| {
        let waits = task.wait.is_some_and(|wait| wait.object == queue);
        waits || givers().any(|by| matches!(by, Giver::Thread(at) if events.is_some_and(|e| e.is(task.address, *at))))
    };
    let mut users = graph.tasks.list.iter().filter(|task| !sends(task) && uses(task, queue, case));
    let (Some(task), None) = (users.next(), users.next()) else { return None };
    Some(Reader { task, is_inferred: true })
}

/// What to look at where it is known who gives what a thread waits for.
fn conditions(by: &str, wait: &Wait, case: &Case<'_>) -> String {
    let (gives, object) = (gives(wait.kind), case.object(wait.object));
    format!("look for a condition under which {by} does not {gives} {object}, though it was needed")
}

/// Why a reader does not read, what shows that, how sure it is, and what to do.
type Why = (String, Vec<Evidence>, Confidence, String);

fn why(queue: Addr, reader: &Reader<'_>, senders: &[Addr], case: &Case<'_>, graph: &Graph) -> Option<Why> {
    let (task, called) = (reader.task, case.label(reader.task.address));
    let is_long = |thread: Addr, object: Addr| case.events.is_some_and(|events| events.is_long(thread, object));
    let sure = |is_so: bool| if is_so && !reader.is_inferred { Confidence::Likely } else { Confidence::Hint };
    match (task.wait.filter(|wait| wait.object != queue), task.does.gone()) {
        (Some(wait), _) if wait.forever && graph.wait(task.address).is_none() && !senders.is_empty() => {
            // It waits as it did before.
            if case.events.is_some_and(|events| events.is_usual(task.address, wait.object)) {
                return None;
            }
            let long = is_long(task.address, wait.object) && senders.iter().any(|sender| is_long(*sender, queue));
            let givers = by_code::givers(&wait, case, graph);
            let what = wanted(&wait, givers.as_ref(), case);
            let next = match few(givers.as_ref()) {
                Some(by) => conditions(&by, &wait, case),
                None => format!("find out who was to wake {called}"),
            };
            let without = NotGiven::of(wait.object, wait.kind, givers.as_ref(), case);
            let words = without.as_ref().map_or("", |without| &without.words);
            let why = format!("waits for {what}{words}");
            let proof = std::iter::once(waiting(task.address, wait.object, case, graph));
            let proof = proof.chain(without.map(|without| without.evidence));
            let proof = proof.chain(givers.into_iter().flat_map(|givers| givers.evidence)).collect();
            Some((why, proof, sure(long), next))
        }
        // Where the program has stopped itself, what was late then counts; else a time-out that is over in a long time only.
        (Some(wait), _) if !wait.forever && !senders.is_empty() => {
            let left = case.thread(task.address).and_then(|thread| thread.ticks_left);
            let is_late = left.is_some_and(|left| left >= LONG_WAIT) || has_stopped(case);
            if !is_late || case.events.is_some_and(|events| events.is_usual(task.address, wait.object)) {
                return None;
            }
            let left = left.map_or_else(String::new, |left| format!(" for at most {left} more kernel ticks"));
            let place = case.cpus.and_then(|cpus| cpus.call(task.address)).map(|call| format!(", in {}", call.label()));
            let proof = vec![waiting(task.address, wait.object, case, graph)];
            let next = format!("find out what {called} waits for there, and in which unit its time-out is computed");
            let why = format!("waits for {}{left}{}", case.object(wait.object), place.unwrap_or_default());
            Some((why, proof, Confidence::Hint, next))
        }
        (None, Some(gone)) => {
            let proof = vec![shows(task.address, format!("{called}: {gone}"), graph)];
            // Who is suspended may be resumed soon.
            let is_over = task.does != Does::Suspended || is_long(task.address, queue);
            let next = if task.does == Does::Suspended { "is not resumed" } else { gone };
            let next = format!("find out why {called} {next}");
            let (by, shown) = suspended_by(task.address, case, graph).filter(|_| task.does == Does::Suspended).unzip();
            let why = by.map_or_else(|| gone.to_owned(), |by| format!("{gone} ({by})"));
            let proof = proof.into_iter().chain(shown).collect();
            Some((why, proof, sure(is_over && !senders.is_empty()), next))
        }
        _ => None,
    }
}

/// Between two messages the reader waits for something again and again, and each wait ends by a time-out: each message takes that long.
fn in_vain(reader: &Reader<'_>, senders: &[Addr], case: &Case<'_>, graph: &Graph) -> Option<Why> {
    let (events, task) = (case.events?, reader.task);
    let lasts = |thread: Addr| graph.tasks.at(thread).and_then(|task| task.wait).is_some_and(|wait| wait.forever);
    let goes_on = task.does == Does::Sleeps || task.wait.is_some_and(|wait| !wait.forever);
    if !goes_on || !senders.iter().any(|sender| lasts(*sender)) {
        return None;
    }
    let is_its = |all: &TimeOuts| all.thread.is_some_and(|thread| events.is(task.address, thread));
    let kernel = case.kernel?;
    let objects = kernel.objects.iter().filter_map(|object| Some((object, time_outs(object.address, case)?)));
    let (object, all) = objects.filter(|(_, all)| is_its(all)).max_by_key(|(_, all)| all.times)?;
    let wait =
        Wait { kind: object.kind, object: object.address, owner: None, forever: false, wanted: None, sends: false };
    let givers = by_code::givers(&wait, case, graph);
    let (name, what) = (case.label(task.address), wanted(&wait, givers.as_ref(), case));
    let times = many(all.times, "wait", "waits");
    let now = if task.does == Does::Sleeps { "; it sleeps now" } else { "" };
    let why = format!("waits again and again in vain for {what}: {times} ended by a time-out{now}");
    let next = match few(givers.as_ref()) {
        Some(by) => conditions(&by, &wait, case),
        None => format!("find out who was to {} {}", gives(wait.kind), case.object(object.address)),
    };
    let next = format!(
        "{next}; and let the senders go on without {name}: with a time-out, or TX_NO_WAIT where a message may be lost"
    );
    let first = Evidence::event(
        all.seq,
        format!("{name}: the first of {times} that ended by a time-out, with nothing given since"),
    );
    let proof = std::iter::once(first).chain(givers.into_iter().flat_map(|givers| givers.evidence)).collect();
    Some((why, proof, Confidence::Hint, next))
}

/// True where the CPU is in a loop without an exit.
fn has_stopped(case: &Case<'_>) -> bool {
    case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.in_loop.is_some()))
}

fn finding(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let reader = reader(queue, case, graph)?;
    let name = reader.task.address;
    let senders: Vec<Addr> = graph.tasks.waiting(queue).map(|task| task.address).filter(|at| *at != name).collect();
    let why = why(queue, &reader, &senders, case, graph).or_else(|| in_vain(&reader, &senders, case, graph));
    let (why, proof, claimed, next) = why?;
    let label = case.object(queue);
    let waits = |sender: &Addr| format!("{} waits for room in {label}", case.label(*sender));
    let full = case
        .kernel
        .and_then(|kernel| kernel.object(queue))
        .map(|object| Evidence::memory(queue, format!("{label}: {}", object.state(&|_| String::new()))));
    let mut threads = vec![name];
    threads.extend(&senders);
    let behind = graph.waiters(&[name]);
    let evidence = full.into_iter().chain(proof);
    let evidence = evidence.chain(senders.first().map(|s| waiting(*s, queue, case, graph)));
    Some(
        Finding::new(
            Code::QueueFull,
            case.cap(claimed),
            format!("{label} is full: {}, which reads it, {why}", case.label(name)),
        )
        .against([if reader.is_inferred { BY_PROGRAM } else { BY_EVENTS }])
        .evidence(evidence.chain(sends(queue, case, graph)))
        .explains(senders.iter().map(waits))
        .next(next)
        .affected(behind)
        .threads(threads),
    )
}

/// Who sends to a queue most often.
fn sends(queue: Addr, case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let givers = &case.events?.object(queue)?.givers;
    let (by, given) = givers.iter().max_by_key(|(_, given)| given.times)?;
    let times = many(given.times, "time", "times");
    let text = format!("{} sends to {}, {times} in the trace", giver(*by, case, graph), case.object(queue));
    Some(Evidence::event(given.seq, text))
}
