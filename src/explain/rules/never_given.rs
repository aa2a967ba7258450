//! A wait that no known thread can end: none was seen to set, put or send since it began. That is how most threads of a
//! healthy system look, so it counts only for a thread that used to be woken: its run count and those of others say how often
//! it should have run within the trace. It rests on what is absent: a hint. It is likely where the trace shows why: interrupts
//! set other event flags of the same group, which no thread waits for (`wrong-event-mask`), or the only thread that gave cannot
//! go on.
//!
//! A run count has each preemption, too: of a thread that computes while more urgent ones run it says nothing of how often the
//! thread was woken. Where a thread that has not ended gives what it waits for, that it did not in a short trace is no sign then:
//! what that one waits for may be.

use super::super::events::{Events, Giver, Interrupt, One};
use super::super::graph::Graph;
use super::super::state::{Task, Tasks, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_task;
use super::disabled_interrupt::{self, Disabled};
use super::not_given::NotGiven;
use super::users::{callback_uses, uses};
use super::words::{few, gives, waiting};
use super::{by_code, flags_cleared, without_lock};
use crate::abi::Addr;
use crate::kernel::{Kernel, Kind, State, Thread};
use crate::trace::many;

/// How often a thread should have run within the trace.
pub(super) const FEWEST: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return Vec::new() };
    let mut found = Vec::new();
    for task in &graph.tasks.list {
        let Some(wait) = task.wait.filter(|wait| is_for_gift(wait) && graph.wait(task.address).is_none()) else {
            continue;
        };
        let Some((expected, ran)) = runs(task, case) else { continue };
        if expected >= FEWEST && ran <= expected / 3 && events.is_long(task.address, wait.object) {
            found.extend(finding(task, &wait, events, case, graph));
        }
    }
    found
}

/// How often a thread should have run within the trace, by its run count and those of others, and how often it did.
pub(super) fn runs(task: &Task, case: &Case<'_>) -> Option<(u64, u64)> {
    let events = case.events?;
    let expected = task.runs?.saturating_mul(100).checked_div(uptime(case.kernel?, events)?)?;
    Some((expected, events.activity(task.address).map_or(0, |activity| activity.dispatched)))
}

fn is_for_gift(wait: &Wait) -> bool {
    let kind = matches!(wait.kind, Kind::EventFlags | Kind::Semaphore | Kind::Queue);
    kind && wait.forever && !wait.sends
}

/// How much longer the system ran than the trace is, in parts of a hundred: by the run counts of threads that run in it.
fn uptime(kernel: &Kernel, events: &Events) -> Option<u64> {
    let ratio = |thread: &crate::kernel::Thread| {
        let ran = events.activity(thread.address)?.dispatched;
        let all = thread.run_count.filter(|all| ran >= 3 && *all >= ran)?;
        all.saturating_mul(100).checked_div(ran)
    };
    let mut all: Vec<u64> = kernel.threads.iter().filter_map(ratio).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

fn finding(task: &Task, wait: &Wait, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let nothing = One::default();
    let one = events.object(wait.object).unwrap_or(&nothing);
    // Where it is not known which flags it waits for, any may be one of them.
    let wanted = wait.wanted.filter(|_| wait.kind == Kind::EventFlags).map(|wanted| wanted.flags);
    let is_flags = wait.kind == Kind::EventFlags;
    let since = events.activity(task.address).and_then(|activity| activity.since).map_or(0, |(_, seq)| seq);
    let comes =
        one.givers.values().any(|given| given.seq > since && wanted.is_none_or(|wanted| given.flags & wanted != 0));
    if comes {
        return None;
    }
    let mask = if is_flags { wrong_mask(task, wait, one, case, graph) } else { None };
    mask.or_else(|| never(task, wait, events, case, graph))
}

/// Interrupts set other flags of the group, which nobody waits for.
fn wrong_mask(task: &Task, wait: &Wait, one: &One, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wanted = wait.wanted?;
    let waiting_for =
        graph.tasks.waiting(wait.object).filter_map(|task| task.wait?.wanted).fold(0, |all, w| all | w.flags);
    let missed = |flags: u64| flags & !(one.asked | waiting_for);
    let misses = |by: &Giver, flags: u64| matches!(by, Giver::Interrupt(_)) && missed(flags) != 0;
    let (by, given) = one.givers.iter().filter(|(by, given)| misses(by, given.flags)).max_by_key(|(_, g)| g.times)?;
    let Giver::Interrupt(number) = by else { return None };
    let (name, object, who) = (case.label(task.address), case.object(wait.object), case.interrupt(*number));
    let set = by_code::not_got(missed(given.flags), wait.object, case);
    if set == 0 {
        return None;
    }
    Some(
        Finding::new(
            Code::WrongEventMask,
            case.cap(Confidence::Likely),
            format!(
                "{name} waits for {:#x} of {object}, and {who} sets {set:#x}, which no thread waits for",
                wanted.flags
            ),
        )
        .against(["the flags that no thread waits for may be read without a wait"])
        .evidence([
            waiting(task.address, wait.object, case, graph),
            Evidence::event(
                given.seq,
                format!("{who} sets {set:#x}, {} in the trace", many(given.times, "time", "times")),
            ),
        ])
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(format!("compare the flags that {who} sets with those that {name} waits for"))
        .threads([task.address]),
    )
}

fn never(task: &Task, wait: &Wait, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (name, object) = (case.label(task.address), case.object(wait.object));
    let runs = task.runs.unwrap_or(0);
    let ran = events.activity(task.address).map_or(0, |activity| activity.dispatched);
    let wants = wait.wanted.map_or_else(String::new, |wanted| format!(" (it wants {:#x})", wanted.flags));
    let verb = match wait.kind {
        Kind::EventFlags => "sets them",
        Kind::Queue => "sends to it",
        _ => "puts it",
    };
    let mut evidence = vec![
        waiting(task.address, wait.object, case, graph),
        Evidence::memory(
            task.address,
            format!(
                "{name} was given the processor {runs} times since it began, and {ran} times within the trace{}",
                length(events)
            ),
        ),
    ];
    let is_seen = events.activity(task.address).is_some_and(|activity| activity.since.is_some());
    let silent = silent(events, case);
    if let Some(first) = graph.tasks.list.first() {
        evidence
            .extend(silent.iter().map(|text| Evidence { seq: None, ..Evidence::memory(first.address, text.clone()) }));
    }
    let gone = gone_giver(wait, case, graph);
    // It is named already.
    let is_gone_known = gone.is_some();
    let disabled = disabled_interrupt::of(wait.object, case).filter(|_| gone.is_none());
    let is_known = gone.is_some() || disabled.as_ref().is_some_and(|interrupt| interrupt.is_user);
    let without_lock = if is_known { None } else { without_lock::of(task, wait, events, case) };
    let is_likely = is_known || without_lock.is_some();
    let (confidence, mut detractors) = case.cap(if is_likely { Confidence::Likely } else { Confidence::Hint });
    evidence.extend(disabled.as_ref().map(|interrupt| interrupt.evidence.clone()));
    detractors.extend((!is_known).then(|| "it rests on what the trace does not show".to_owned()));
    let why = match (gone, &disabled) {
        (Some(gone), _) => gone,
        (None, Some(interrupt)) if interrupt.is_user => interrupt.why.clone(),
        (None, _) if is_seen => format!("no event in the trace {verb} after the wait began"),
        (None, _) => format!("no event in the trace {verb}"),
    };
    let also = disabled.as_ref().filter(|interrupt| !interrupt.is_user);
    let also = also.map_or_else(String::new, |interrupt| format!("; {}", interrupt.why));
    let user = if is_gone_known { String::new() } else { gone_user(task, wait.object, case, graph) };
    let givers = if is_known { None } else { by_code::givers(wait, case, graph) };
    // What gives it is about to, as it has just begun; or it may do so only now and then. Who has a lock meanwhile does not wait so
    // long for what is rare.
    let is_preempted = is_preempted(task, &graph.tasks, events) && held_mutex(task, case).is_none();
    let is_gone = |thread: &Addr| graph.tasks.at(*thread).is_none_or(|giver| giver.does.gone().is_some());
    let gives = |thread: &Addr| has_begun(*thread, events, case) || is_preempted && !is_gone(thread);
    if givers.as_ref().is_some_and(|givers| givers.threads.iter().any(gives)) {
        return None;
    }
    evidence.extend(givers.iter().flat_map(|givers| givers.evidence.iter().cloned()));
    let names = givers.as_ref().map(|givers| givers.names.as_slice()).unwrap_or_default();
    let next = match &without_lock {
        Some(_) => format!("check in {name} what tx_mutex_get returns: it must not go on without the mutex"),
        None => next(wait, disabled.as_ref(), &silent, names, &object),
    };
    let by = few(givers.as_ref()).map_or_else(String::new, |by| format!("; by the code only {by} {verb}"));
    let without_it = NotGiven::of(wait.object, wait.kind, givers.as_ref(), case);
    let by = format!("{by}{}", without_it.as_ref().map_or("", |without| &without.words));
    evidence.extend(without_it.map(|without| without.evidence));
    let (lost, clears) = flags_cleared::by_itself(task, wait, case).filter(|_| !is_known).unzip();
    let lost = lost.map_or_else(String::new, |lost| format!("; {lost}"));
    evidence.extend(clears);
    let (without, refused) = without_lock.unzip();
    evidence.extend(refused);
    let with = held_mutex(task, case).map_or_else(String::new, |at| format!(" while it owns {}", case.object(at)));
    Some(
        Finding::new(
            Code::EventNeverSet,
            (confidence, detractors),
            match without {
                Some(without) => format!("{name} waits for {object}{wants}{with}; {without}"),
                None => format!(
                    "{name} waits for {object}{wants}{with}, and {why}, though {name} ran {runs} times before{by}{user}{lost}{also}"
                ),
            },
        )
        .evidence(evidence)
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(next)
        .threads([task.address]),
    )
}

/// Interrupts that come and seem to do nothing: a call that the kernel refuses leaves no event.
fn silent(events: &Events, case: &Case<'_>) -> Vec<String> {
    let all = events.interrupts.by_number.iter().filter(|(_, one)| one.acts == 0 && one.times >= 3);
    let said = |(number, one): (&u64, &Interrupt)| {
        format!("{} came {} times and did nothing of the kernel", case.interrupt(Some(*number)), one.times)
    };
    all.map(said).collect()
}

/// What to look at next. `silent`: interrupts that seem to do nothing. `givers`: who gives it by the code.
fn next(wait: &Wait, disabled: Option<&Disabled>, silent: &[String], givers: &[String], object: &str) -> String {
    let gives = gives(wait.kind);
    match (disabled, silent, givers) {
        (Some(Disabled { name, .. }), ..) => {
            format!("find out who disables {name} (NVIC_ICER), and who should enable it again")
        }
        (None, [], []) => format!("find out who was to {gives} {object}"),
        (None, [], names) => format!(
            "look for a condition under which {} does not {gives} {object}, though it was needed",
            names.join(" or ")
        ),
        (None, silent, _) => format!("check what the kernel's calls return: {}", silent.join("; ")),
    }
}

/// True for a thread that is ready, or runs, after the trace has shown less than a few of its rounds.
fn has_begun(thread: Addr, events: &Events, case: &Case<'_>) -> bool {
    let is_ready = case.thread(thread).is_some_and(|thread| thread.state == Some(State::READY));
    is_ready && events.activity(thread).is_none_or(|activity| activity.dispatched < FEWEST)
}

/// True where a more urgent thread runs in the trace: what a thread computes has several runs then, so that its run count is
/// larger than the number of its waits that ended.
fn is_preempted(task: &Task, all: &Tasks, events: &Events) -> bool {
    let is_urgent = |other: &&Task| other.priority.zip(task.priority).is_none_or(|(other, own)| other < own);
    let runs = |other: &Task| events.activity(other.address).is_some_and(|activity| activity.dispatched > 0);
    all.list.iter().filter(is_urgent).any(runs)
}

/// A mutex that a thread owns.
fn held_mutex(task: &Task, case: &Case<'_>) -> Option<Addr> {
    let mutexes = case.kernel?.objects.iter().filter(|object| object.kind == Kind::Mutex);
    let mut owned = mutexes.filter(|mutex| mutex.owner() == Some(task.address));
    owned.next().map(|mutex| mutex.address)
}

/// How long a trace is: `, of 450 events in about 312 kernel ticks`.
fn length(events: &Events) -> String {
    let ticks = events.sleeps.period().and_then(|period| events.length().checked_div(period));
    let ticks = ticks.map_or_else(String::new, |ticks| format!(" in about {ticks} kernel ticks"));
    format!(", of {}{ticks}", many(events.count, "event", "events"))
}

/// The only thread that gave, where it cannot go on.
fn gone_giver(wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<String> {
    let one = case.events?.object(wait.object)?;
    let mut givers = one.givers.keys();
    let (Some(Giver::Thread(thread)), None) = (givers.next(), givers.next()) else { return None };
    let giver = graph.stored(case, *thread).filter(|giver| !is_timer_task(giver, case))?;
    giver.does.gone().map(|gone| format!("{}, which alone gave it, {gone}", case.label(giver.address)))
}

/// A thread whose code uses the object, and that cannot go on, or a timer that is off: it may be the one that gave. Behind what
/// nobody gives.
pub(super) fn gone_user(waiter: &Task, object: Addr, case: &Case<'_>, graph: &Graph) -> String {
    let is_gone =
        |task: &&Task| task.address != waiter.address && task.does.gone().is_some() && !is_timer_task(task, case);
    let all = graph.tasks.list.iter().filter(is_gone).filter(|task| uses(task, object, case));
    let words = all.filter_map(|task| {
        // It ran before, and is at its beginning again.
        let is_reset = case.thread(task.address).is_some_and(Thread::is_reset);
        let why = if is_reset { "was reset and not resumed" } else { task.does.gone()? };
        Some(format!("; {}, whose code uses it, {why}", case.label(task.address)))
    });
    let timers = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let off = timers.filter(|timer| timer.active() == Some(false) && callback_uses(timer, object, case));
    let off = off.map(|timer| format!("; timer {}, whose callback uses it, is off", timer.label()));
    words.chain(off).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::events::Activity;
    use super::super::super::state::Does;
    use super::*;

    fn task(address: Addr, priority: u32) -> Task {
        Task {
            address,
            does: Does::Waits,
            priority: Some(priority),
            threshold: None,
            time_slice: None,
            wait: None,
            runs: Some(2890),
            seq: None,
        }
    }

    /// A thread that computes for seconds between two rare events, and is preempted all the time, was said to be woken often.
    #[test]
    fn each_preemption_was_counted_as_a_wait_that_ended() {
        let tasks = Tasks { list: vec![task(0x100, 10), task(0x200, 4), task(0x300, 14)] };
        let runs = |thread: Addr| {
            let events = Events::of_activity(thread, Activity { dispatched: 7, ..Activity::default() }, 100);
            is_preempted(&task(0x100, 10), &tasks, &events)
        };
        assert!(runs(0x200));
        assert!(!runs(0x300), "it is less urgent");
        assert!(!runs(0x100), "it is the thread itself");
    }
}
