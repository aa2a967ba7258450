//! Priority inversion: a thread waits for a mutex, or a semaphore that is used as a lock, whose owner is ready and does not
//! run, because another thread runs that is more urgent than the owner and less urgent than the waiter. One moment does not
//! show how long that lasts, and short ones are healthy, so memory alone gives a hint. Where the trace shows that the wait was
//! on at its end, that threads in between ran for most of it (a hint where for some of it no event shows who ran), and that it
//! was far longer than the owner's own work, it is likely; so it is where memory shows the wait and the owner, and the trace
//! that the thread in between keeps the processor and the owner does not run: that is the symptom.

use super::super::cpus::thread_of;
use super::super::events::{Events, Inversion};
use super::super::graph::{Edge, Graph};
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::polls;
use super::loop_calls;
use super::starvation::{NO_ROUND, is_enough, is_shown, keeps, starves};
use super::words::{holds, in_kernel_ticks, no_owner, priority, shows, waiting};
use crate::abi::Addr;
use crate::kernel::{Kernel, Kind, State, Thread};
use crate::session::CpuState;

/// The threads in between that are named.
const NAMED: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found = now(case, graph);
    let past = past(case, graph);
    // One that is on is the one to look at.
    found.extend(past.filter(|past| !found.iter().any(|f| f.threads.iter().any(|at| past.threads.contains(at)))));
    found
}

/// Those that are on.
fn now(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found = by_events(case, graph);
    let Some(kernel) = case.kernel else { return found };
    for edge in &graph.edges {
        let is_known = found.iter().any(|f| f.threads.contains(&edge.holder));
        let Some(culprit) = culprit(edge, kernel).or_else(|| hog(edge, kernel, case, graph)) else {
            found.extend(behind_stop(edge, kernel, case, graph).filter(|_| !is_known));
            continue;
        };
        let Some(bound) = cores(edge.holder, culprit.address, case) else { continue };
        if !found.iter().any(|f| f.threads.contains(&edge.holder)) {
            found.push(in_memory(edge, culprit, bound, case, graph));
        }
    }
    found
}

/// A part of the trace that a wait which is over has to last.
const PART: i64 = 8;

/// The longest that is over: what noticed it may have gone wrong since. One that is short beside the trace is healthy.
fn past(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1)?;
    let is_long = |past: &&Inversion| {
        let perhaps = past.ran.saturating_add(past.unknown);
        past.waited >= events.length() / PART && perhaps >= past.waited / 2 && past.ran >= past.waited / PART
    };
    let past = events.past_inversion.as_ref().filter(is_long)?;
    let full = |stored: Addr| graph.stored(case, stored).map(|task| task.address);
    let [waiter, owner, culprit] = [full(past.waiter)?, full(past.owner)?, full(past.culprit)?];
    let [w, o, c] = [waiter, owner, culprit].map(|thread| case.label(thread));
    let mut objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects).map(|object| object.address);
    let lock = case.object(objects.find(|address| events.is(*address, past.lock)).unwrap_or(past.lock));
    let claim = format!(
        "{w} (priority {}) waited {} ticks of the trace for {lock}, which {o} (priority {}) had; {c}{} ran for {} of them; that wait is over",
        past.priorities.0,
        past.waited,
        past.priorities.1,
        priority(culprit, graph),
        past.ran
    );
    Some(
        Finding::new(Code::PriorityInversion, case.cap(Confidence::Hint), claim)
            .against(["the wait may have been short enough for what the thread has to do"])
            .against(
                (past.unknown > past.waited / 4)
                    .then(|| format!("for {} ticks of the wait no event shows who ran", past.unknown)),
            )
            .evidence([Evidence::event(past.from, format!("{w} waits for {lock} from here on"))])
            .evidence(past.to.map(|to| Evidence::event(to, format!("{w} gets it here"))))
            .next("create the mutex with TX_INHERIT, or make what runs in between shorter")
            .usual(true)
            .threads([waiter, owner]),
    )
}

/// Those that the trace shows to be on at its end.
fn by_events(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| events.has_clock) else { return Vec::new() };
    let is_long = |inversion: &&Inversion| {
        let usual = events.object(inversion.lock).map_or(0, |one| one.longest_wait);
        let perhaps = inversion.ran.saturating_add(inversion.unknown);
        perhaps >= inversion.waited / 2 && inversion.ran >= inversion.waited / 8 && inversion.waited / 4 >= usual
    };
    events.inversions.iter().filter(is_long).filter_map(|inversion| lasting(inversion, case, graph)).collect()
}

fn lasting(inversion: &Inversion, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let full = |stored: Addr| graph.stored(case, stored).map(|task| task.address);
    let (waiter, owner, culprit) = (full(inversion.waiter)?, full(inversion.owner)?, full(inversion.culprit)?);
    let edge = graph.wait(waiter).filter(|edge| edge.holder == owner)?;
    // The owner could go on: it is neither suspended nor does it wait.
    let events = case.events?;
    let does = graph.tasks.at(owner)?.does;
    if !matches!(does, Does::Ready | Does::Runs) {
        return None;
    }
    let bound = cores(owner, culprit, case)?;
    let is_long = inversion.waited >= events.length() / 20;
    let is_shown = is_failure(edge, culprit, events, graph);
    let is_most = inversion.ran >= inversion.waited / 2;
    let is_sure = is_long && is_shown && is_most && bound.is_none();
    let object = case.object(edge.object);
    let [w, o, c] = [waiter, owner, culprit].map(|thread| case.label(thread));
    Some(
        Finding::new(
            Code::PriorityInversion,
            case.cap(if is_sure { Confidence::Likely } else { Confidence::Hint }),
            format!(
                "{w} (priority {}) waits for {object}, which {o} (priority {}) owns; {c}{} keeps {o} from running",
                inversion.priorities.0,
                inversion.priorities.1,
                priority(culprit, graph)
            ),
        )
        .against((!is_shown).then_some(NO_ROUND))
        .against(bound)
        .against((!is_most).then(|| format!("for {} ticks of the wait no event shows who ran", inversion.unknown)))
        .evidence([
            Evidence::event(
                inversion.from,
                format!(
                    "{w} waits for {object} from here on, for {} ticks of the trace; {c} ran for {} of them{}",
                    inversion.waited,
                    inversion.ran,
                    in_kernel_ticks(&[inversion.waited, inversion.ran], case)
                ),
            ),
            holds(edge, case),
            waiting(waiter, edge.object, case, graph),
        ])
        .waiters(graph.waiters(&[owner]), waiter, case, graph)
        .next("create the mutex with TX_INHERIT, or make what runs in between shorter")
        .threads([waiter, owner])
        // That others do not run either is the work of the same thread.
        .affected([culprit]),
    )
}

/// True where the trace shows more than one round of work of the thread in between that is longer than itself: such a round of
/// it, threads that were woken and cannot run either, or that the one that waits used to come far more often.
fn is_failure(edge: &Edge, culprit: Addr, events: &Events, graph: &Graph) -> bool {
    let hog = graph.tasks.at(culprit);
    let starved = hog.zip(hog.and_then(|hog| keeps(hog, events))).map(|(hog, (since, _))| {
        let all = graph.tasks.list.iter().filter(|task| starves(task, hog, since, events));
        all.map(|task| task.address).collect::<Vec<Addr>>()
    });
    is_shown(culprit, &starved.unwrap_or_default(), events) || is_late(edge.waiter, events)
}

/// True for a thread that waits far longer than it took from one time that it ran to the next.
fn is_late(waiter: Addr, events: &Events) -> bool {
    let times = events.activity(waiter).map_or(0, |activity| activity.dispatched);
    let (waited, times) = (events.lasts(waiter), i64::try_from(times).unwrap_or(i64::MAX));
    let before = events.length().saturating_sub(waited);
    times >= 3 && before.checked_div(times).is_some_and(|usual| waited / 4 >= usual)
}

/// What speaks against it on several cores, where one may be free on which the owner must not run; `None` where it can run.
fn cores(owner: Addr, culprit: Addr, case: &Case<'_>) -> Option<Option<String>> {
    let count = case.kernel.map_or_else(|| case.events.map_or(1, |e| usize::from(e.cores)), |k| k.current.len());
    if count <= 1 {
        return Some(None);
    }
    let Some((kernel, thread, excluded)) =
        case.kernel.zip(case.thread(owner)).and_then(|(k, thread)| Some((k, thread, thread.excluded?)))
    else {
        let why =
            "there are several cores, and which of them may run a thread (tx_thread_smp_core_exclude) is not known";
        return Some(Some(why.to_owned()));
    };
    let running: Vec<Option<u32>> = kernel.current.iter().map(|at| kernel.thread(*at)?.priority).collect();
    let is_there = case.thread(culprit)?.core.is_none_or(|core| allows(excluded, core));
    (is_there && is_kept_off(&running, thread.priority?, excluded)).then_some(None)
}

fn allows(excluded: u64, core: usize) -> bool {
    u32::try_from(core).ok().and_then(|core| excluded.checked_shr(core)).is_some_and(|bits| bits & 1 == 0)
}

/// True where each core that may run a thread runs one that is no less urgent. `running`: priorities by core, of threads
/// that run.
fn is_kept_off(running: &[Option<u32>], priority: u32, excluded: u64) -> bool {
    let mut allowed = running.iter().enumerate().filter(|(core, _)| allows(excluded, *core));
    allowed.all(|(_, other)| other.is_some_and(|other| other <= priority))
}

/// True for a thread that runs between one that waits for a lock and the owner, which is ready.
pub(super) fn keeps_owner(thread: Addr, graph: &Graph) -> bool {
    let priority = |at: Addr| graph.tasks.at(at).and_then(|task| task.priority);
    let Some(own) = priority(thread) else { return false };
    graph.edges.iter().any(|edge| {
        let is_ready = graph.tasks.at(edge.holder).is_some_and(|owner| owner.does == Does::Ready);
        is_ready && priority(edge.waiter).is_some_and(|p| p < own) && priority(edge.holder).is_some_and(|p| p > own)
    })
}

/// What the loop reads in which a thread waits for a word to change.
fn loop_of(thread: &Thread, case: &Case<'_>) -> Option<Evidence> {
    let is_in = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|of| of.address == thread.address);
    polls(case, case.cpus?.all.iter().find(is_in)?)
}

/// The thread that keeps the owner from running.
fn culprit<'k>(edge: &Edge, kernel: &'k Kernel) -> Option<&'k Thread> {
    let (waiter, owner) = (kernel.thread(edge.waiter)?, kernel.thread(edge.holder)?);
    let (urgent, lazy) = (waiter.priority?, owner.priority?);
    if owner.state != Some(State::READY) || owner.core.is_some() || lazy <= urgent {
        return None;
    }
    let between = |thread: &&Thread| thread.priority.is_some_and(|p| urgent < p && p < lazy);
    kernel.threads.iter().filter(|thread| thread.core.is_some()).find(between)
}

/// The thread that kept the owner from running up to the end of the trace, where another has the processor for a moment.
fn hog<'k>(edge: &Edge, kernel: &'k Kernel, case: &Case<'_>, graph: &Graph) -> Option<&'k Thread> {
    let events = case.events.filter(|events| is_enough(events))?;
    let (urgent, lazy) = (kernel.thread(edge.waiter)?.priority?, kernel.thread(edge.holder)?.priority?);
    let between = |thread: &&Thread| thread.priority.is_some_and(|p| urgent < p && p < lazy);
    let ready = kernel.threads.iter().filter(|thread| thread.state == Some(State::READY)).filter(between);
    ready.into_iter().find(|thread| kept(edge, thread.address, events, graph).is_some())
}

/// Where the program has stopped itself in a more urgent thread: those in between that are ready. Which of them ran is not known.
fn behind_stop(edge: &Edge, kernel: &Kernel, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    // On several cores the owner could run on another one.
    if kernel.current.len() > 1 {
        return None;
    }
    let cpu = case.cpus?.all.iter().find(|cpu| cpu.in_loop.is_some())?;
    let stopped = thread_of(cpu, case.kernel)?.priority?;
    let (urgent, owner) = (kernel.thread(edge.waiter)?.priority?, kernel.thread(edge.holder)?);
    let lazy =
        owner.priority.filter(|lazy| owner.state == Some(State::READY) && *lazy > urgent && stopped <= urgent)?;
    let is_between = |thread: &&Thread| {
        let is_ready = thread.state == Some(State::READY) && thread.core.is_none();
        is_ready && thread.priority.is_some_and(|own| urgent < own && own < lazy)
    };
    let between: Vec<&Thread> = kernel.threads.iter().filter(is_between).collect();
    let names: Vec<String> = between
        .iter()
        .take(NAMED)
        .map(|thread| format!("{}{}", thread.label(), priority(thread.address, graph)))
        .collect();
    let (waiter, owner) = (case.label(edge.waiter), case.label(edge.holder));
    let is = match names.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    let claim = format!(
        "{waiter}{} waits for {}, which {owner}{} owns; {} {is} ready, and more urgent than {owner}",
        priority(edge.waiter, graph),
        case.object(edge.object),
        priority(edge.holder, graph),
        names.join(" and ")
    );
    Some(
        Finding::new(Code::PriorityInversion, case.cap(Confidence::Hint), claim)
            .against(["which of them ran, and for how long, is not known"])
            .evidence([holds(edge, case), shows(edge.holder, format!("{owner}: ready, and does not run"), graph)])
            .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
            .next("create the mutex with TX_INHERIT, or make what runs in between shorter")
            .threads([edge.waiter, edge.holder]),
    )
}

/// For how long the thread in between has not blocked, and ran, while the owner was ready and the other one waited.
fn kept(edge: &Edge, culprit: Addr, events: &Events, graph: &Graph) -> Option<(i64, i64)> {
    let (hog, owner) = (graph.tasks.at(culprit)?, graph.tasks.at(edge.holder)?);
    let (since, ran) = keeps(hog, events)?;
    let is_so = starves(owner, hog, since, events) && events.lasts(edge.waiter) >= events.length() / 4;
    is_so.then_some((since, ran))
}

fn in_memory(edge: &Edge, culprit: &Thread, bound: Option<String>, case: &Case<'_>, graph: &Graph) -> Finding {
    let (waiter, owner, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let events = case.events.filter(|events| is_enough(events));
    let kept = events.and_then(|events| kept(edge, culprit.address, events, graph));
    // It goes through its loop again and again.
    let calls = graph.tasks.at(culprit.address).filter(|_| kept.is_some()).and_then(|hog| loop_calls::of(hog, case));
    let is_failure = || events.is_some_and(|events| is_failure(edge, culprit.address, events, graph));
    let is_shown = calls.is_some() || is_failure();
    let is_sure = kept.is_some() && is_shown && bound.is_none();
    let name = culprit.label();
    let lasts = kept.map_or_else(String::new, |(since, ran)| {
        let kernel_ticks = in_kernel_ticks(&[since, ran], case);
        format!(" and has not blocked for {since} ticks of the trace, and ran for {ran} of them{kernel_ticks}")
    });
    // A more urgent one may have just begun.
    let is_running = graph.tasks.at(culprit.address).is_none_or(|task| task.does == Does::Runs);
    let (does, runs) = if is_running { ("runs", "runs and keeps") } else { ("ran", "ran and kept") };
    let is_mutex = case.kernel.and_then(|kernel| kernel.object(edge.object)).is_some_and(|o| o.kind == Kind::Mutex);
    let (owns, next) = if is_mutex {
        ("owns", "create the mutex with TX_INHERIT, or make what runs in between shorter")
    } else {
        (
            "took",
            "use a mutex with TX_INHERIT for it (a semaphore has no priority inheritance), or make what runs in between shorter",
        )
    };
    Finding::new(
        Code::PriorityInversion,
        case.cap(if is_sure { Confidence::Likely } else { Confidence::Hint }),
        format!(
            "{waiter}{} waits for {object}, which {owner}{} {owns}; {name}{} {runs} {owner} from running{}",
            priority(edge.waiter, graph),
            priority(edge.holder, graph),
            priority(culprit.address, graph),
            calls.as_ref().map_or("", |calls| calls.words.as_str())
        ),
    )
    .against(bound)
    .against((kept.is_some() && !is_shown).then_some(NO_ROUND))
    .against([match (kept, &calls) {
        (_, Some(calls)) => calls.against,
        (Some(_), None) => "a long computation that ends looks the same",
        (None, None) => "one moment does not show how long it lasts: `inversions` has what the events show",
    }])
    .against((!is_mutex).then(|| no_owner(edge)))
    .evidence([
        holds(edge, case),
        shows(edge.holder, format!("{owner}: ready, and does not run"), graph),
        shows(culprit.address, format!("{name}: {does}{lasts}"), graph),
    ])
    .evidence(loop_of(culprit, case))
    .evidence(calls.into_iter().flat_map(|calls| calls.evidence))
    .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
    .next(next)
    .threads([edge.waiter, edge.holder])
    // That others do not run either is the work of the same thread.
    .affected(kept.map(|_| culprit.address))
}

#[cfg(test)]
mod tests {
    use super::super::super::events::Activity;
    use super::super::super::graph::How;
    use super::super::super::state::{Task, Tasks, Wait};
    use super::*;

    const MOTOR: Addr = 0x100;
    const VISION: Addr = 0x200;
    const TELEMETRY: Addr = 0x300;
    const I2C: Addr = 0x400;

    fn task(address: Addr, does: Does, priority: u32, wait: Option<Wait>) -> Task {
        Task {
            address,
            does,
            priority: Some(priority),
            threshold: None,
            time_slice: None,
            wait,
            runs: Some(9),
            seq: None,
        }
    }

    /// `vision` ran for `ran` of a thousand ticks, and blocked at `blocked` for the last time.
    fn of_trace(ran: i64, blocked: Option<(i64, u64, i64)>) -> Option<(i64, i64)> {
        let wait =
            Wait { kind: Kind::Mutex, object: I2C, owner: Some(TELEMETRY), forever: true, wanted: None, sends: false };
        let list = vec![
            task(MOTOR, Does::Waits, 3, Some(wait)),
            task(VISION, Does::Runs, 9, None),
            task(TELEMETRY, Does::Ready, 15, None),
        ];
        let edge = Edge { waiter: MOTOR, object: I2C, holder: TELEMETRY, seq: None, is_timed: false, how: How::Owns };
        let graph = Graph { tasks: Tasks { list }, edges: vec![edge], ..Graph::default() };
        let activity = Activity { ran, blocked, ..Activity::default() };
        kept(&edge, VISION, &Events::of_activity(VISION, activity, 1000), &graph)
    }

    /// `vision` spins: the inversion says more than its loop.
    #[test]
    fn who_keeps_the_owner_of_a_lock_from_running() {
        let edge = Edge { waiter: MOTOR, object: I2C, holder: TELEMETRY, seq: None, is_timed: false, how: How::Owns };
        let of = |vision, owner| {
            let list = vec![
                task(MOTOR, Does::Waits, 3, None),
                task(VISION, Does::Runs, vision, None),
                task(TELEMETRY, owner, 15, None),
            ];
            keeps_owner(VISION, &Graph { tasks: Tasks { list }, edges: vec![edge], ..Graph::default() })
        };
        assert!(of(9, Does::Ready));
        assert!(!of(2, Does::Ready), "it is more urgent than the one that waits");
        assert!(!of(9, Does::Sleeps));
    }

    #[test]
    fn one_round_of_work_that_is_longer_than_the_trace_is_no_proof_of_an_inversion() {
        // `motor` waits since tick 200 of a thousand.
        let motor = |dispatched| {
            let activity = Activity { dispatched, since: Some((200, 7)), ..Activity::default() };
            is_late(MOTOR, &Events::of_activity(MOTOR, activity, 1000))
        };
        assert!(motor(4), "it came every 50 ticks");
        assert!(!motor(1), "how often it comes is not known");
        let slow = Activity { dispatched: 3, since: Some((900, 7)), ..Activity::default() };
        assert!(!is_late(MOTOR, &Events::of_activity(MOTOR, slow, 1000)), "it comes every 300 ticks");
    }

    /// `telemetry` has priority 15, and runs on core 1 only.
    #[test]
    fn a_core_that_idles_and_may_run_the_owner_is_no_inversion() {
        let bound = 0b01;
        assert!(is_kept_off(&[None, Some(9)], 15, bound), "core 0 must not run it");
        assert!(!is_kept_off(&[None, Some(9)], 15, 0), "core 0 idles");
        assert!(is_kept_off(&[Some(3), Some(9)], 15, 0));
        assert!(!is_kept_off(&[Some(3), Some(20)], 15, 0), "core 1 is about to switch");
    }

    /// The trace has wrapped over the wait and the taking of the mutex: memory has both, and the trace who ran.
    #[test]
    fn an_inversion_whose_beginning_was_overwritten_is_known_by_who_runs() {
        assert_eq!(of_trace(990, None), Some((1000, 990)));
        assert_eq!(of_trace(100, None), None, "the thread in between hardly ran");
        assert_eq!(of_trace(990, Some((900, 7, 890))), None, "it blocks now and then");
    }
}
