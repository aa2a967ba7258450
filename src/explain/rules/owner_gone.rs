//! A lock whose holder cannot give it back: the owner of a mutex is suspended, or the thread that took a semaphore, used as a
//! lock, is suspended or has ended. A thread that ends gives its mutexes back (the kernel does that), so only a suspended
//! owner of a mutex is looked for. An owner that waits for ever itself is a cause only where that wait is far longer than
//! usual: to wait for a device with a lock in hand is a habit of healthy systems. An owner that goes on has lost count: it took
//! the mutex more often than it gave it back, and each of its puts leaves the mutex with it.
//!
//! The thread of the kernel's timers is suspended while none expires: where it owns a mutex, a callback of a timer has not
//! given it back, which is a rule of its own.

use super::super::events::{Events, Inversion};
use super::super::graph::{Edge, Graph, How};
use super::super::state::{Does, Wait};
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::{givers, user_name};
use super::callback::is_timer_task;
use super::starvation::{self, is_kept_off};
use super::words::{gives, holds, no_owner, place_at, priority, shows, suspended_by, waiting};
use crate::abi::{Addr, Width};
use crate::kernel::Kind;
use crate::kernel::api::Act;
use crate::trace::many;

/// Puts in a row that leave a mutex with its owner.
const OFTEN: u64 = 8;
/// What speaks against who resumes a thread.
const BY_CODE: &str = "who resumes it is inferred from the program's code";
/// So often the owner of a mutex blocks and goes on in a trace in which another waits for it all the time.
const AGAIN: u64 = 4;
/// The same where the other waits with a time-out, as is usual for a lock that is kept for long.
const VERY_OFTEN: u64 = 64;
/// So many kernel ticks of a sleep with a mutex are long: seconds, where there are 100 to 1000 in one.
const LONG: u64 = 1000;
/// The same of a wait with a time-out, as that for an answer of a device.
pub(super) const LONG_WAIT: u64 = 4000;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let edges =
        |is_timed| graph.edges.iter().filter(move |edge| edge.waiter != edge.holder && edge.is_timed == is_timed);
    for edge in edges(false).chain(edges(true)) {
        if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
            let other = || {
                let goes_on = || keeps(edge, case, graph).or_else(|| blocks_on(edge, case, graph));
                waits_itself(edge, case, graph).or_else(|| stays_long(edge, case, graph)).or_else(goes_on)
            };
            // A wait with a time-out ends by itself: the owner is known to keep the mutex only where it goes on without putting it.
            found.extend(match edge.is_timed {
                false => gone(edge, case, graph).or_else(other),
                true => blocks_on(edge, case, graph),
            });
        }
    }
    found
}

fn is_mutex(edge: &Edge, graph: &Graph) -> bool {
    graph.tasks.at(edge.waiter).and_then(|task| task.wait).is_some_and(|wait| wait.kind == Kind::Mutex)
}

/// How sure it is that a holder does not come back. `again`: how often it came back before.
const fn sure(is_mutex: bool, is_long: bool, again: u64) -> Confidence {
    match (is_mutex, is_long) {
        (true, true) => Confidence::Proven,
        (true, false) if again > 0 => Confidence::Hint,
        _ => Confidence::Likely,
    }
}

/// The holder is suspended, or has ended.
fn gone(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let does = graph.tasks.at(edge.holder)?.does;
    let is = does.gone()?;
    let is_mutex = is_mutex(edge, graph);
    let is_idle = graph.tasks.at(edge.holder).is_some_and(|task| is_timer_task(task, case));
    if is_mutex && does != Does::Suspended || is_idle {
        return None;
    }
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    // Who is suspended again and again is resumed as often: such a wait is proven to last by nothing but its length.
    let again = case.events.and_then(|events| events.activity(edge.holder)).map_or(0, |one| one.suspended);
    let again = again.saturating_sub(1);
    // Without a clock events show that it is long, and prove nothing.
    let is_long = case.events.is_some_and(|events| events.has_clock && events.is_long(edge.waiter, edge.object));
    let by_event = suspended_by(edge.holder, case, graph).filter(|_| does == Does::Suspended);
    let resumed = || resumed_by_waiters(edge, case, graph).filter(|_| does == Does::Suspended);
    let resumed = if by_event.is_none() { resumed() } else { None };
    let known = if resumed.is_some() { Confidence::Likely } else { Confidence::Proven };
    let (confidence, mut detractors) = case.cap(sure(is_mutex, is_long, again).min(known));
    detractors.extend((!is_mutex).then(|| no_owner(edge).to_owned()));
    if resumed.is_some() {
        detractors.push(BY_CODE.to_owned());
    } else if again > 0 {
        detractors.push(format!("{holder} was suspended and resumed {again} times before"));
    } else if is_mutex && !is_long {
        detractors.push(format!("{holder} may be resumed soon: one moment does not show how long it is suspended"));
    }
    let by_events = ended_by(edge.holder, case, graph).filter(|_| does != Does::Suspended);
    let is = if by_events.is_some() { "was terminated" } else { is };
    let ended = by_events.or_else(|| ended_in_code(edge.holder, case).filter(|_| does == Does::Terminated));
    let (by, shown) = by_event.or(resumed).unzip();
    let in_code = || suspended_in_code(edge.holder, case).filter(|_| does == Does::Suspended);
    let (said, in_code) = if by.is_none() { in_code() } else { None }.unzip();
    let next = match (does, &by, &in_code) {
        (Does::Suspended, None, None) => "find out who suspends it (tx_thread_suspend), and why it is not resumed",
        (Does::Suspended, ..) => "let it put the lock before it is suspended, or resume it before the lock is needed",
        _ if is == "was terminated" => {
            "let it put the semaphore before it is terminated, or ask it to end instead (tx_thread_terminate gives no semaphore back)"
        }
        _ => "give the semaphore back on every path of this thread",
    };
    let (ended, terminates) = ended.unzip();
    let by = by.or(said).map_or_else(|| ended.unwrap_or_default(), |by| format!(": {by}"));
    Some(
        Finding::new(
            Code::LockOwnerGone,
            (confidence, detractors),
            format!("{waiter} waits for {object}, which {holder} holds; {holder} {is}{by}"),
        )
        .evidence([
            waiting(edge.waiter, edge.object, case, graph),
            holds(edge, case),
            shows(edge.holder, format!("{holder}: {is}"), graph),
        ])
        .evidence(shown)
        .evidence(in_code)
        .evidence(terminates)
        .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
        .next(next)
        .threads([edge.holder, edge.waiter]),
    )
}

/// Who terminated a thread, by the events: ` by keeper`; and as evidence.
fn ended_by(thread: Addr, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let (by, seq) = case.events?.terminated(thread)?;
    let by = case.label(graph.stored(case, by).map_or(by, |task| task.address));
    let text = format!("{by} terminates {} (tx_thread_terminate)", case.label(thread));
    Some((format!(" by {by}"), Evidence::event(seq, text)))
}

/// The only other one that terminates a thread, by the code: `: by the code only keypad terminates it, in export_cancel (main.c:137)`;
/// and as evidence.
fn ended_in_code(thread: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let all = usage.who(Act::Ends, None, thread, None)?;
    let [by] = all.as_slice() else { return None };
    let by = Some(*by).filter(|by| *by != User::Thread(thread))?;
    let at = usage.site(by, |one| one.action.act == Act::Ends && one.object == Some(thread))?;
    let (name, place) = (user_name(by, case), place_at(at, case));
    let text =
        format!("by the code, {name} terminates {} here (tx_thread_terminate), and no other does", case.label(thread));
    Some((format!(": by the code only {name} terminates it, in {place}"), Evidence::symbol(at, &place, text)))
}

/// The only other one that suspends a thread, by the code: `by the code only monitor suspends it`; and as evidence.
fn suspended_in_code(thread: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let all = usage.who(Act::Suspends, None, thread, None)?;
    let mut others = all.into_iter().filter(|user| *user != User::Thread(thread));
    let by = others.next().filter(|_| others.next().is_none())?;
    let at = usage.site(by, |one| one.action.act == Act::Suspends && one.object == Some(thread))?;
    let name = user_name(by, case);
    let text =
        format!("by the code, {name} suspends {} here (tx_thread_suspend), and no other does", case.label(thread));
    Some((format!("by the code only {name} suspends it"), Evidence::symbol(at, &place_at(at, case), text)))
}

/// All that resume the holder, by the code, wait for the lock themselves: a circle. `reference, which by the code alone resumes it,
/// waits for mutex bus itself`; and as evidence.
fn resumed_by_waiters(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let users = case.usage()?.who(Act::Starts, None, edge.holder, None)?;
    let waits = |at: &Addr| {
        let wait = graph.tasks.at(*at).and_then(|task| task.wait);
        wait.is_some_and(|wait| wait.forever && wait.object == edge.object)
    };
    let thread = |user: &User| if let User::Thread(at) = user { Some(*at).filter(waits) } else { None };
    let all: Vec<String> = users.iter().map(|user| Some(case.label(thread(user)?))).collect::<Option<_>>()?;
    let object = case.object(edge.object);
    let (words, names) = match all.as_slice() {
        [] => return None,
        [only] => (format!("{only}, which by the code alone resumes it, waits for {object} itself"), only.clone()),
        [rest @ .., last] => {
            let names = format!("{} and {last}", rest.join(", "));
            (format!("{names}, which by the code alone resume it, wait for {object} themselves"), names)
        }
    };
    let text = format!("by the code, {} is resumed by {names}, and by no other", case.label(edge.holder));
    Some((words, Evidence::memory(edge.holder, text)))
}

/// The holder waits for ever for what no known thread gives.
fn waits_itself(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wait = graph.tasks.at(edge.holder)?.wait.filter(|wait| wait.forever)?;
    let is_known = graph.wait(edge.holder).is_some() || wait.object == edge.object;
    if is_known || wait.sends || matches!(wait.kind, Kind::BlockPool | Kind::BytePool) {
        return None;
    }
    let is_long =
        |events: &Events| events.is_long(edge.holder, wait.object) && events.is_long(edge.waiter, edge.object);
    let lasts = case.events.is_some_and(is_long);
    // Where all stop at once, no event shows how long that lasts.
    let nobody_runs = graph.tasks.list.iter().all(|task| !matches!(task.does, Does::Runs | Does::Ready));
    let all_stopped = nobody_runs && case.kernel.is_some() && is_mutex(edge, graph);
    let is_usual = case.events.is_some_and(|events| events.is_usual(edge.holder, wait.object));
    if !lasts && (!all_stopped || is_usual) {
        return None;
    }
    let (waiter, holder) = (case.label(edge.waiter), case.label(edge.holder));
    let (object, other) = (case.object(edge.object), case.object(wait.object));
    let kept_off = kept_off(&wait, case, graph).filter(|_| lasts);
    let next = match &kept_off {
        Some(KeptOff { runs, giver, .. }) => format!(
            "let {holder} not wait for {other} while it holds the lock, or make {giver} more urgent than {runs}: a mutex raises the priority of \
             its owner alone"
        ),
        None => format!("find out who was to {} {other}; do not wait for it while holding the lock", gives(wait.kind)),
    };
    let (by, kept) = kept_off.map(|kept| (kept.words, kept.evidence)).unzip();
    Some(
        Finding::new(
            if by.is_some() { Code::PriorityInversion } else { Code::LockOwnerGone },
            case.cap(if lasts { Confidence::Likely } else { Confidence::Hint }),
            format!(
                "{waiter} waits for {object}; {holder}, which holds it, waits for {other}{}",
                by.unwrap_or_default()
            ),
        )
        .against([if lasts {
            format!("{other} may still be given: the trace shows only that it was not, for long")
        } else {
            format!("{other} may still be given: one moment does not show how long it lasts")
        }])
        .evidence([
            waiting(edge.waiter, edge.object, case, graph),
            holds(edge, case),
            waiting(edge.holder, wait.object, case, graph),
        ])
        .evidence(kept.into_iter().flatten())
        .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
        .next(next)
        .threads([edge.holder, edge.waiter]),
    )
}

/// The only thread that gives what is waited for is ready, and another one keeps it from running.
struct KeptOff {
    /// `, which by the code only storage gives; storage is ready and does not run, because planner (priority 12) runs`.
    words: String,
    giver: String,
    runs: String,
    evidence: Vec<Evidence>,
}

fn kept_off(wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<KeptOff> {
    let events = case.events?;
    let all = givers(wait, case, graph)?;
    let [giver] = all.threads.as_slice() else { return None };
    let giver = graph.tasks.at(*giver).filter(|_| all.names.len() == 1)?;
    let runs = graph.tasks.list.iter().find(|task| task.does == Does::Runs && is_kept_off(giver, task))?;
    if !starvation::goes_on(runs, events) {
        return None;
    }
    let (name, hog) = (case.label(giver.address), case.label(runs.address));
    let (below, above) = (priority(giver.address, graph), priority(runs.address, graph));
    let mut evidence = all.evidence;
    evidence.push(shows(giver.address, format!("{name}{below} is ready and does not run"), graph));
    evidence.push(shows(runs.address, format!("{hog}{above} runs, and has not blocked for long"), graph));
    let does = if wait.kind == Kind::EventFlags { "sets" } else { "gives" };
    Some(KeptOff {
        words: format!(
            ", which by the code only {name}{below} {does}; {name} is ready and does not run, because {hog}{above} runs"
        ),
        giver: name,
        runs: hog,
        evidence,
    })
}

/// True for a holder that goes on, also one that waits for its next work: nothing that others have keeps it.
fn goes_on(edge: &Edge, graph: &Graph) -> bool {
    let Some(task) = graph.tasks.at(edge.holder) else { return false };
    let waits_for_work = task.does == Does::Waits && graph.wait(edge.holder).is_none();
    matches!(task.does, Does::Runs | Does::Ready | Does::Sleeps) || waits_for_work
}

/// The owner of a mutex goes on with it: it took the mutex more often than it gave it back, and takes it again and again.
fn keeps(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    if !goes_on(edge, graph) || edge.how != How::Owns || !events.is_long(edge.waiter, edge.object) {
        return None;
    }
    // An owner that others keep from running does not go on.
    let is_inverted = |one: &Inversion| events.is(edge.holder, one.owner) && events.is(edge.waiter, one.waiter);
    if events.inversions.iter().any(|one| is_inverted(one) && one.ran >= one.waited / 8) {
        return None;
    }
    let kept = events.object(edge.object)?.kept.filter(|kept| events.is(edge.holder, kept.thread))?;
    if kept.puts < OFTEN {
        return None;
    }
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let more = if kept.raises > 0 { ", more and more often" } else { "" };
    let puts = format!(
        "{holder} puts {object} and still owns it, {} in a row; after the last one it owns it {}",
        many(kept.puts, "time", "times"),
        many(kept.level, "time", "times")
    );
    let claim = format!(
        "{waiter} waits for {object}, which {holder} took {} times more than it gave it back{more}; {holder} goes on and keeps it",
        kept.level
    );
    Some(
        Finding::new(
            Code::LockOwnerGone,
            case.cap(if kept.raises > 0 { Confidence::Likely } else { Confidence::Hint }),
            claim,
        )
        .against(
            (kept.raises == 0).then(|| format!("{holder} may have {object} on purpose for as long as its work takes")),
        )
        .evidence([waiting(edge.waiter, edge.object, case, graph), holds(edge, case), Evidence::event(kept.seq, puts)])
        .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
        .next(format!("look for a path of {holder} that returns without tx_mutex_put"))
        .threads([edge.holder, edge.waiter]),
    )
}

/// The owner of a mutex sleeps with it, or waits for something else with a time-out, for long.
fn stays_long(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let owner = case.thread(edge.holder).filter(|_| edge.how == How::Owns && !edge.is_timed)?;
    let task = graph.tasks.at(edge.holder)?;
    let wait = task.wait.filter(|wait| !wait.forever && task.does == Does::Waits);
    let stays = task.does == Does::Sleeps || wait.is_some();
    let least = if wait.is_some() { LONG_WAIT } else { LONG };
    let left = owner.ticks_left.filter(|left| stays && *left >= least)?;
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let (does, why, next) = match wait {
        Some(wait) => (
            format!("waits for {}", case.object(wait.object)),
            format!("{holder} may wait with {object} on purpose: its time-out ends it"),
            format!("check the time-out of {holder}, in kernel ticks; do not wait for so long while holding a lock"),
        ),
        None => (
            "sleeps".to_owned(),
            format!("{holder} may sleep with {object} on purpose: it wakes up by itself"),
            format!("find out why {holder} sleeps with {object}, and for whom; put it before a long sleep"),
        ),
    };
    let place = case.cpus.and_then(|cpus| cpus.call(edge.holder)).map(|call| format!(", in {}", call.label()));
    let word = case.kernel.map_or(Width::W4, |kernel| kernel.layout.shape.word);
    let left = match negative(left, word) {
        Some(below) => format!("{left} (-{below} as a signed number, as if a time-out had been negative)"),
        None => left.to_string(),
    };
    let claim = format!(
        "{waiter} waits for {object}; {holder}, which owns it, {does} for at most {left} more kernel ticks{}",
        place.unwrap_or_default()
    );
    Some(
        Finding::new(Code::LockOwnerGone, case.cap(Confidence::Hint), claim)
            .against([why])
            .evidence([
                waiting(edge.waiter, edge.object, case, graph),
                holds(edge, case),
                Evidence::memory(edge.holder, format!("{holder}: {does}, and at most {left} kernel ticks are left")),
            ])
            .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
            .next(next)
            .threads([edge.holder, edge.waiter]),
    )
}

/// How far below 0 a number of kernel ticks is, a `ULONG`, where it is less than a day at 1000 ticks a second: a difference that was
/// computed the wrong way round.
fn negative(ticks: u64, word: Width) -> Option<u64> {
    const DAY: u64 = 86_400_000;
    let below = word.max().checked_sub(ticks)?.checked_add(1)?;
    (1..=DAY).contains(&below).then_some(below)
}

/// The owner of a mutex blocks and goes on again and again in the trace, all of which the other has waited for: it waits for
/// something else with the mutex, or retries.
fn blocks_on(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    // What shows no change of the waiter's state began before the first event.
    let from_before = events.activity(edge.waiter).is_none_or(|waiter| waiter.since.is_none());
    let usual = events.object(edge.object).map_or(0, |one| one.longest_wait);
    if !goes_on(edge, graph) || edge.how != How::Owns || !from_before || events.length() / 4 < usual {
        return None;
    }
    let holds_on = events.activity(edge.holder)?;
    // A trace may lack the events of the scheduler.
    let times = holds_on.blocks.max(holds_on.slept);
    if times < if edge.is_timed { VERY_OFTEN } else { AGAIN } {
        return None;
    }
    let times = many(times, "time", "times");
    let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
    let sleeps = holds_on.sleeps.map(|(ticks, seq)| {
        Evidence::event(
            seq,
            format!("{holder} asks for its last sleep, of {}", many(ticks, "kernel tick", "kernel ticks")),
        )
    });
    // A mutex that its owner took more often than it put stays its own.
    let kept = events.object(edge.object).and_then(|one| one.kept).filter(|kept| events.is(edge.holder, kept.thread));
    let how = match kept.filter(|kept| kept.puts > 0) {
        Some(kept) => format!("puts it {} in that time and still owns it", many(kept.puts, "time", "times")),
        None => format!("owns it, and has waited or slept {times} in it"),
    };
    let place = case.cpus.and_then(|cpus| cpus.call(edge.holder)).map(|call| format!(", now in {}", call.label()));
    let place = place.unwrap_or_default();
    let claim = format!("{waiter} waits for {object} in the whole trace; {holder} {how}{place}");
    Some(
        Finding::new(Code::LockOwnerGone, case.cap(Confidence::Hint), claim)
            .against([format!("{holder} may have {object} on purpose for as long as its work takes")])
            .evidence([waiting(edge.waiter, edge.object, case, graph), holds(edge, case)])
            .evidence(sleeps)
            .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
            .next(format!("find out what {holder} waits for with {object}, and give that wait an end"))
            .threads([edge.holder, edge.waiter]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait of what is left of a budget that was used up.
    #[test]
    fn a_time_out_that_was_negative_was_a_large_number() {
        let of = |ticks| negative(ticks, Width::W4);
        assert_eq!([of(4_294_950_270), of(0xFFFF_FFFF)], [Some(17_026), Some(1)]);
        assert_eq!([of(5000), of(0x8000_0000), of(1 << 32), of(u64::MAX)], [None; 4]);
        let wide = |ticks| negative(ticks, Width::W8);
        assert_eq!([wide(u64::MAX), wide(u64::MAX - 4), wide(0xFFFF_FFFF), wide(0)], [Some(1), Some(5), None, None]);
    }

    #[test]
    fn an_owner_that_is_suspended_again_and_again_is_not_gone() {
        assert_eq!(sure(true, true, 0), Confidence::Proven);
        assert_eq!(sure(true, false, 0), Confidence::Likely, "one moment");
        assert_eq!(sure(true, false, 5), Confidence::Hint);
        assert_eq!(sure(true, true, 5), Confidence::Proven, "far longer than before");
        assert_eq!(sure(false, true, 0), Confidence::Likely, "who holds a semaphore is inferred");
    }
}
