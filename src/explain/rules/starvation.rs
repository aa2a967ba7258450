//! A thread that could run and does not, for most of the trace, because one thread that it cannot preempt has the processor and
//! never blocks: a more urgent one, one of the same priority that has no time slice, or one whose preemption-threshold keeps
//! it off. Where that one leaves no events, as it computes or its calls are rejected, the kernel's own count of ticks shows for how
//! long nothing else ran. A system that is loaded by several threads, a long computation of the least urgent thread, and a thread that
//! computes once at the start are healthy: the one that runs must be the same all the time, must not have run so long before,
//! and who waits must have run before.

use std::cmp::Ordering;

use super::super::cpus::thread_of;
use super::super::events::{Activity, Events, Over};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::heap::Suspect;
use super::loop_calls::{self, NoWait};
use super::silence::Silence;
use super::words::{in_kernel_ticks, place_at, priority, shows, trace_ticks};
use super::{interrupts, left_running, level_flags, no_switch, place, retries, shared, silence, threshold};
use crate::abi::Addr;
use crate::cpu::Value;
use crate::session::CpuState;
use crate::trace::many;

/// The fewest events of the trace from which it is claimed.
const FEWEST: u64 = 32;
/// A thread that was woken waits no longer than a few ticks of the kernel for others in a healthy system, as rounds of work are
/// some milliseconds long.
const TICKS: i64 = 6;
/// So many ticks of the kernel without an event are more than a computation of a usual length.
const MANY: u64 = 100;
/// The same of a thread of which the trace has no whole round.
const AT_START: u64 = 1000;
/// So many rounds of a thread show how long it runs, and one that is so many times as long is none of them.
const ROUNDS: u64 = 4;
const MANY_TIMES: i64 = 16;
const MANY_TICKS: i64 = 50;
/// A thread whose rounds are longer than the trace looks as if it did not block.
pub(super) const NO_ROUND: &str =
    "the trace is too short to show how long it runs otherwise: it needs a larger trace buffer";

/// So many sleeps that were over are a habit.
const SLEEPS: u64 = 3;
/// So often a thread gets the processor that has it in turn with another one.
const TURNS: u64 = 16;
/// So many mutexes are got in many rounds of a loop.
const OFTEN: u64 = 64;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;
/// The functions of the kernel that let a thread sleep, and give way to others of its priority.
const SLEEP: &str = "_tx_thread_sleep";
const RELINQUISH: [&str; 2] = ["_tx_thread_relinquish", "_txe_thread_relinquish"];

/// True for events that can show it.
pub(super) const fn is_enough(events: &Events) -> bool {
    events.has_clock && events.cores <= 1 && events.count >= FEWEST
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events.filter(|events| is_enough(events)) else { return Vec::new() };
    let hogs = graph.tasks.list.iter().filter(|task| matches!(task.does, Does::Runs | Does::Ready));
    let silence = silence::of(case, events);
    let find = |hog| finding(hog, events, case, graph).or_else(|| silent(hog, silence.as_ref()?, events, case, graph));
    let runs = |hog: &&Task| !is_kept_back(hog, events, case);
    hogs.filter(runs).filter_map(find).collect()
}

/// True for the current thread where interrupts keep the kernel from switching to a more urgent one: it does not run.
fn is_kept_back(hog: &Task, events: &Events, case: &Case<'_>) -> bool {
    let Some((cpus, kernel)) = case.cpus.zip(case.kernel) else { return false };
    let is_current = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|of| of.address == hog.address);
    let waits = |cpu: &CpuState| no_switch::next_waits(cpu, kernel, events, case).is_some();
    hog.does == Does::Runs && cpus.all.iter().find(is_current).is_some_and(waits)
}

/// The CPU that runs a thread, outside of interrupts.
fn cpu_of<'c>(hog: &Task, case: &Case<'c>) -> Option<&'c CpuState> {
    let is_in = |cpu: &&CpuState| {
        let thread = thread_of(cpu, case.kernel).filter(|_| cpu.exception.is_none());
        thread.is_some_and(|thread| thread.address == hog.address)
    };
    case.cpus?.all.iter().find(is_in)
}

/// ` in flash_wait (flash.c:4)`: where it is, if that is known, and what shows it where no register does.
fn within(hog: &Task, case: &Case<'_>, graph: &Graph) -> Option<(String, Option<Evidence>)> {
    let cpu = case.cpus.and_then(|cpus| {
        let is_in = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|thread| thread.address == hog.address);
        cpus.all.iter().find(is_in)
    });
    let at = cpu.filter(|_| hog.does == Does::Runs).and_then(place::of_thread);
    if let Some(at) = at {
        let polled = cpu.filter(|cpu| cpu.exception.is_none()).and_then(|cpu| interrupts::polled(case, cpu));
        let waits = polled.map_or_else(String::new, |what| format!(", where it waits for {what} to change,"));
        return Some((format!("{at}{waits}"), None));
    }
    let (at, shown) = left_running::place_of(hog.address, case, graph).filter(|_| hog.does == Does::Runs)?;
    Some((at, Some(shown)))
}

/// Ticks since a thread last blocked, and how long it had the processor in them.
fn busy(activity: &Activity, events: &Events) -> (i64, i64) {
    match activity.blocked {
        Some((at, _, ran)) => (events.span.1.saturating_sub(at), activity.ran.saturating_sub(ran)),
        None => (events.length(), activity.ran),
    }
}

/// Ticks since a thread last blocked, and how long it had the processor in them, where it keeps the processor.
pub(super) fn keeps(hog: &Task, events: &Events) -> Option<(i64, i64)> {
    let activity = events.activity(hog.address)?;
    let (since, ran) = busy(activity, events);
    // A thread that blocks now and then runs no longer than it did before.
    let is_long = since >= events.length() / 2 && ran / 3 >= activity.longest;
    // Where it did so several times, less of the trace is enough, if that is many ticks of the kernel.
    let period = events.sleeps.period().or_else(|| events.interrupts.tick().map(|tick| tick.period));
    let is_many = period.is_some_and(|period| since / MANY_TICKS >= period);
    let is_part = activity.blocks >= ROUNDS && since >= events.length() / 8;
    let is_unusual = is_many && is_part && ran / MANY_TIMES >= activity.longest;
    (ran / 2 >= since / 4 && (is_long || is_unusual)).then_some((since, ran))
}

/// True where a thread has the processor for long, by the events.
pub(super) fn goes_on(hog: &Task, events: &Events) -> bool {
    is_enough(events) && keeps(hog, events).or_else(|| is_ready_throughout(hog, events)).is_some()
}

/// All of the trace, of a thread that runs where no thread has an event: only interrupts came above it.
fn keeps_alone(hog: &Task, events: &Events) -> Option<(i64, i64)> {
    let has_none = events.activity(hog.address).is_none_or(|activity| activity.ran == 0);
    let is_alone = hog.does == Does::Runs && has_none && events.last_of_threads.is_none();
    is_alone.then_some((events.length(), events.length()))
}

/// All of the trace, of a thread that runs and that no event blocked or made ready: it was ready all the time, and what it does not
/// let run did not run, whoever had the processor where the events do not show that.
fn is_ready_throughout(hog: &Task, events: &Events) -> Option<(i64, i64)> {
    let activity = events.activity(hog.address)?;
    let is_so = activity.blocks == 0 && activity.suspended == 0 && activity.woken.is_none();
    (hog.does == Does::Runs && is_so).then(|| (events.length(), activity.ran))
}

/// Why a thread that is ready does not preempt the one that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    /// It is less urgent.
    Priority,
    /// It has the same priority, and the one that runs no time slice.
    NoTimeSlice,
    /// The preemption-threshold of the one that runs.
    Threshold(u32),
}

impl Off {
    fn of(task: &Task, hog: &Task) -> Option<Self> {
        let (priority, urgent) = task.priority.zip(hog.priority)?;
        match priority.cmp(&urgent) {
            Ordering::Greater => Some(Self::Priority),
            Ordering::Equal => (hog.time_slice == Some(0)).then_some(Self::NoTimeSlice),
            Ordering::Less => hog.threshold.filter(|threshold| *threshold <= priority).map(Self::Threshold),
        }
    }

    /// After the priority of the one that runs.
    fn words(self) -> Option<String> {
        match self {
            Self::Priority => None,
            Self::NoTimeSlice => Some("without a time slice".to_owned()),
            Self::Threshold(threshold) => Some(format!("preemption-threshold {threshold}")),
        }
    }
}

/// True for a thread that was given the processor before.
fn has_run(task: &Task, events: &Events) -> bool {
    match task.runs {
        Some(runs) => runs > 0,
        None => events.activity(task.address).is_some_and(|a| a.since.is_some()),
    }
}

/// True for a thread that is ready and does not preempt the one that runs.
pub(super) fn is_kept_off(task: &Task, hog: &Task) -> bool {
    task.does == Does::Ready && task.address != hog.address && Off::of(task, hog).is_some()
}

/// True for a thread that the preemption-threshold of the one that runs keeps off.
pub(super) fn is_behind_threshold(task: &Task, hog: &Task) -> bool {
    matches!(Off::of(task, hog), Some(Off::Threshold(_)))
}

/// True for a thread that is ready and has not run, for as long as one that does not block keeps the processor.
pub(super) fn starves(task: &Task, hog: &Task, since: i64, events: &Events) -> bool {
    let lasts = events.lasts(task.address);
    // Or nearly since that one began.
    let is_long = lasts >= events.length() / 2 || lasts >= since.saturating_sub(since / 16);
    is_kept_off(task, hog) && has_run(task, events) && is_long && lasts <= since
}

/// ` (priority 16, without a time slice)`: what keeps the others off.
pub(super) fn rank(hog: &Task, starved: &[&Task]) -> String {
    let mut all: Vec<String> = hog.priority.map(|priority| format!("priority {priority}")).into_iter().collect();
    for why in starved.iter().filter_map(|task| Off::of(task, hog)?.words()) {
        if !all.contains(&why) {
            all.push(why);
        }
    }
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// True where the trace shows more than a round of work that is longer than itself: a whole round of the thread that runs, all
/// events since the start, or a thread that was woken to do something and has waited for many ticks of the kernel. One that was
/// preempted may be what fills the idle time. A trace that one thread fills with its own calls may be a millisecond long.
pub(super) fn is_shown(hog: Addr, starved: &[Addr], events: &Events) -> bool {
    let has_round = events.activity(hog).is_some_and(|activity| activity.blocks >= 2);
    let many_ticks = events.interrupts.tick().map(|tick| tick.period.saturating_mul(TICKS));
    let is_woken = |thread: &Addr| {
        let activity = events.activity(*thread);
        let is_woken = activity.is_some_and(|a| a.woken.is_some() && a.woken == a.since.map(|(_, seq)| seq));
        is_woken && many_ticks.is_some_and(|many| events.lasts(*thread) >= many)
    };
    events.is_whole || has_round || starved.iter().any(is_woken)
}

fn finding(hog: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    // Where events of threads are not inserted, that none comes shows nothing.
    let alone = || keeps_alone(hog, events).filter(|_| silence::inserts_all(case) == Some(true));
    let (since, ran) = keeps(hog, events).or_else(alone).or_else(|| is_ready_throughout(hog, events))?;
    let starved: Vec<&Task> = graph.tasks.list.iter().filter(|task| starves(task, hog, since, events)).collect();
    starved.first()?;
    let (mut confidence, mut detractors) = case.by_events();
    // It goes through its loop again and again, and through the call in it.
    let is_round = events.activity(hog.address).is_some_and(|activity| activity.acquired >= OFTEN);
    let is_loop = is_round && sleep(hog, case).is_some() && comes_to_sleep(hog, case);
    let level = level_flags::of(hog, &starved, case).filter(|level| level.is_sure);
    let calls = loop_calls::of(hog, case).or_else(|| retries::no_wait(hog, case)).filter(|_| level.is_none());
    let is_loop = is_loop || calls.is_some();
    let against = match (&level, &calls, is_loop) {
        (Some(_), _, _) => "who else clears these flags is inferred from the program's code",
        (None, Some(calls), _) => calls.against,
        (None, None, true) => "that it comes to that call is inferred from its code",
        (None, None, false) => "a long computation that ends looks the same",
    };
    detractors.push(against.to_owned());
    let addresses: Vec<Addr> = starved.iter().map(|task| task.address).collect();
    if level.is_none() && !is_loop && !is_shown(hog.address, &addresses, events) {
        confidence = confidence.min(Confidence::Hint);
        detractors.push(NO_ROUND.to_owned());
    }
    let name = case.label(hog.address);
    let kernel_ticks = in_kernel_ticks(&[since, ran], case);
    let text =
        format!("{name} has not blocked for {since} ticks of the trace, and ran for {ran} of them{kernel_ticks}");
    let evidence = std::iter::once(shows(hog.address, text, graph));
    let evidence = evidence.chain(starved.iter().take(3).map(|task| waits(task, 0, events, case, graph))).collect();
    // With memory, its code shows whether it comes to a sleep.
    let slept = if is_round && case.kernel.is_none() { slept(hog, since, events) } else { None };
    let finding = claim(hog, &starved, (confidence, detractors), evidence, calls, case, graph);
    Some(match slept {
        Some(over) => without_sleep(finding, &name, over),
        None => finding,
    })
}

/// The sleeps of a thread that goes on without one, where it has not blocked since the last: a sleep for 0 ticks returns at once, and
/// leaves no event (`tx_thread_sleep`).
fn slept(hog: &Task, since: i64, events: &Events) -> Option<Over> {
    let over = events.sleeps.over_of(events.stored(hog.address)).filter(|over| over.times >= SLEEPS)?;
    (over.at >= events.span.1.saturating_sub(since)).then_some(over)
}

fn without_sleep(finding: Finding, name: &str, over: Over) -> Finding {
    let times = many(over.times, "time", "times");
    let claim = format!(
        "{}; it slept {times} before, and perhaps sleeps for 0 ticks now, which returns at once",
        finding.claim
    );
    let text = format!("the last sleep of {name}, for {}", many(over.last.ticks, "tick", "ticks"));
    Finding { claim, ..finding }
        .evidence([Evidence::event(over.last.seq, text)])
        .next(format!("look for what {name} passes to tx_thread_sleep: 0 ticks leave no event"))
}

/// A thread that has had the processor for many ticks of the kernel since the newest event, while others were ready.
fn silent(hog: &Task, silence: &Silence, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let by_trace = |address| events.tasks().iter().find(|task| events.is(address, task.address)).map(|task| task.does);
    // The trace has to end as memory is: nothing was left out since.
    if hog.does != Does::Runs || by_trace(hog.address) != Some(Does::Runs) {
        return None;
    }
    let is_kept_off = |task: &&Task| {
        let is_ready = task.does == Does::Ready && by_trace(task.address) == Some(Does::Ready);
        is_ready && Off::of(task, hog).is_some() && has_run(task, events)
    };
    let starved: Vec<&Task> = graph.tasks.list.iter().filter(is_kept_off).collect();
    starved.first()?;
    let activity = events.activity(hog.address).copied().unwrap_or_default();
    // A thread of which the trace has no whole round may compute for long at the start.
    let least = if activity.blocks >= 2 { 0 } else { AT_START };
    if silence.lasts() / 3 < activity.longest || silence.ticks < least {
        return None;
    }
    let (mut confidence, mut detractors) = case.by_events();
    detractors.push("a long computation that ends looks the same".to_owned());
    if silence.ticks < MANY || activity.blocks < 2 {
        confidence = confidence.min(Confidence::Hint);
    }
    let shown = starved.iter().take(3).map(|task| waits(task, silence.lasts(), events, case, graph));
    let evidence = silence.evidence.iter().cloned().chain(shown).collect();
    // It has taken nothing since.
    let calls = loop_calls::missing(hog, case);
    Some(claim(hog, &starved, (confidence, detractors), evidence, calls, case, graph))
}

/// How long a thread has been ready; `more`: ticks since the newest event.
fn waits(task: &Task, more: i64, events: &Events, case: &Case<'_>, graph: &Graph) -> Evidence {
    let text = format!(
        "{}{} is ready and has not run for {}",
        case.label(task.address),
        priority(task.address, graph),
        trace_ticks(events.lasts(task.address).saturating_add(more), case)
    );
    match events.activity(task.address).and_then(|activity| activity.since) {
        Some((_, seq)) => Evidence::event(seq, text),
        None => shows(task.address, text, graph),
    }
}

fn claim(
    hog: &Task,
    starved: &[&Task],
    cap: (Confidence, Vec<String>),
    evidence: Vec<Evidence>,
    calls: Option<NoWait>,
    case: &Case<'_>,
    graph: &Graph,
) -> Finding {
    let name = case.label(hog.address);
    let (at, shown) = within(hog, case, graph).unwrap_or_default();
    let all: Vec<String> = starved.iter().map(|task| case.label(task.address)).collect();
    let sleeps = sleep(hog, case);
    let acquired = case.events.and_then(|events| events.activity(hog.address)).map_or(0, |one| one.acquired);
    // It would let those of its own priority run.
    let are_lower = starved.iter().all(|task| Off::of(task, hog) == Some(Off::Priority));
    let relinquishes = relinquish(hog, case).filter(|_| are_lower);
    let how = match (&sleeps, &relinquishes) {
        // It may not have come to that call yet.
        (Some(_), _) if cap.0 == Confidence::Hint || acquired >= OFTEN && comes_to_sleep(hog, case) => {
            ", though its code calls tx_thread_sleep (of 0 ticks, that returns at once)"
        }
        (None, Some(_)) => {
            ", though its code calls tx_thread_relinquish (that gives way to no thread of a lower priority)"
        }
        _ => "",
    };
    let (level, gets) = level_flags::of(hog, starved, case).map(|level| (level.words, level.evidence)).unzip();
    let calls = calls.filter(|_| level.is_none());
    let words = level.map(|words| format!(", {words}")).or_else(|| calls.as_ref().map(|calls| calls.words.clone()));
    let how = words.unwrap_or_else(|| how.to_owned());
    let cpu = cpu_of(hog, case);
    let others: Vec<Addr> = starved.iter().map(|task| task.address).collect();
    // A loop that calls these is none that looks at a variable.
    let waits_in_loop = sleeps.is_none() && relinquishes.is_none() && gets.is_none() && calls.is_none();
    let awaited = cpu.filter(|_| waits_in_loop).and_then(|cpu| {
        let set = shared::set_by_waiting(cpu, &others, case);
        set.or_else(|| shared::awaited(&cpu.functions, &others, case))
    });
    let (waits, used) = awaited.unzip();
    let by_threshold = starved.iter().any(|task| is_behind_threshold(task, hog));
    let left = if by_threshold { threshold::left(hog.address, case) } else { None };
    let (left, at_code) = left.unzip();
    let (turn, turns) = case.events.and_then(|events| in_turn(hog, events, case, graph)).unzip();
    let claim = format!(
        "{name}{} runs{at} and does not block{how}{}: {} {} ready and cannot run{}{}",
        rank(hog, starved),
        turn.unwrap_or_default(),
        all.join(", "),
        if starved.len() == 1 { "is" } else { "are" },
        left.unwrap_or_default(),
        waits.map_or_else(String::new, |waits| format!("; {waits}: {name} may wait in a loop for what changes there"))
    );
    Finding::new(Code::Starvation, cap, claim)
        .evidence(evidence.into_iter().chain(shown))
        .evidence(cpu.and_then(|cpu| place::callers(&cpu.functions, CALLERS)))
        .evidence(turns)
        .evidence(used)
        .evidence(gets)
        .evidence(calls.iter().flat_map(|calls| calls.evidence.clone()))
        .evidence(at_code)
        .next(match (&sleeps, calls) {
            (_, Some(calls)) => calls.next,
            (Some(_), None) => {
                format!("look at the loop in which {name} runs, and at how it computes the ticks that it sleeps for")
            }
            (None, None) => format!("look at the loop in which {name} runs, and for what it should wait"),
        })
        .evidence(sleeps)
        .evidence(relinquishes)
        .with_heap(cpu.filter(|_| waits_in_loop).map_or(&[], |cpu| &cpu.functions), Suspect::Place, case)
        .threads([hog.address])
        .affected(starved.iter().map(|task| task.address))
}

/// The more urgent thread that has the processor in turn with one that does not block, for much of the trace: the two may wake each other
/// without end.
fn in_turn(hog: &Task, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    // The hog keeps the processor for so much of the trace that what is before cannot be all of it.
    let before = events.length().saturating_sub(busy(events.activity(hog.address)?, events).0);
    let is_urgent = |task: &&Task| {
        task.address != hog.address && task.priority.zip(hog.priority).is_some_and(|(other, own)| other <= own)
    };
    let is_in_turn = |(_, activity): &(&Task, &Activity)| {
        let meanwhile = activity.ran.saturating_sub(before);
        let is_recent = activity.last >= events.newest.saturating_sub(events.count / 16);
        activity.dispatched >= TURNS && is_recent && meanwhile > 0 && meanwhile >= events.length() / 4
    };
    let others = graph.tasks.list.iter().filter(is_urgent);
    let others = others.filter_map(|task| Some((task, events.activity(task.address)?)));
    let (other, activity) = others.filter(is_in_turn).max_by_key(|(_, activity)| activity.ran)?;
    let name = format!("{}{}", case.label(other.address), priority(other.address, graph));
    let text = format!(
        "{name} had the processor {} times in the trace, for {} of its {} ticks",
        activity.dispatched,
        activity.ran,
        events.length()
    );
    Some((format!(", in turn with {name}"), shows(other.address, text, graph)))
}

/// Where a thread that does not block calls `tx_thread_sleep` again and again, by its code: with 0 ticks that call does nothing, and
/// leaves no event.
fn sleep(hog: &Task, case: &Case<'_>) -> Option<Evidence> {
    let blocks = case.events?.activity(hog.address).map_or(0, |activity| activity.blocks);
    let function = case.look.symbol(SLEEP).filter(|_| blocks == 0)?.address & !1;
    let may_be_0 = |ticks| matches!(ticks, Value::Unknown | Value::Is(0));
    let at = case.usage()?.calls_again(User::Thread(hog.address), &[function], may_be_0)?;
    let text = format!(
        "{} calls tx_thread_sleep here, and the trace has no sleep of it: one of 0 ticks leaves no event",
        case.label(hog.address)
    );
    Some(Evidence::symbol(at, &place_at(at, case), text))
}

/// True where, by its code, a thread calls `tx_thread_sleep` between two mutexes that it takes: it comes to that call in each round.
fn comes_to_sleep(hog: &Task, case: &Case<'_>) -> bool {
    let sleep = case.look.symbol(SLEEP);
    sleep
        .zip(case.usage())
        .is_some_and(|(sleep, usage)| usage.calls_between_takes(User::Thread(hog.address), sleep.address))
}

/// Where a thread that does not block calls `tx_thread_relinquish` again and again, by its code.
fn relinquish(hog: &Task, case: &Case<'_>) -> Option<Evidence> {
    let blocks = case.events?.activity(hog.address).map_or(0, |activity| activity.blocks);
    let functions: Vec<Addr> = RELINQUISH
        .iter()
        .filter_map(|name| Some(case.look.symbol(name)?.address & !1))
        .filter(|_| blocks == 0)
        .collect();
    functions.first()?;
    let at = case.usage()?.calls_again(User::Thread(hog.address), &functions, |_| true)?;
    let text = format!("{} calls tx_thread_relinquish here, again and again", case.label(hog.address));
    Some(Evidence::symbol(at, &place_at(at, case), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Addr = 0x100;
    const SERVE: Addr = 0x200;

    fn task(address: Addr, does: Does, priority: u32) -> Task {
        Task {
            address,
            does,
            priority: Some(priority),
            threshold: Some(priority),
            time_slice: Some(0),
            wait: None,
            runs: Some(9),
            seq: None,
        }
    }

    /// `poll` ran for 990 of a thousand ticks without a wait.
    fn is_starved(serve: &Task, poll: &Task) -> bool {
        let activity = Activity { ran: 990, ..Activity::default() };
        let events = Events::of_activity(POLL, activity, 1000);
        keeps(poll, &events).is_some_and(|(since, _)| starves(serve, poll, since, &events))
    }

    #[test]
    fn a_thread_of_the_same_priority_starves_where_there_is_no_time_slice() {
        let (serve, poll) = (task(SERVE, Does::Ready, 16), task(POLL, Does::Runs, 16));
        assert!(is_starved(&serve, &poll));
        assert_eq!(rank(&poll, &[&serve]), " (priority 16, without a time slice)");
        assert!(!is_starved(&serve, &Task { time_slice: Some(5), ..poll.clone() }), "its turn ends");
        assert!(!is_starved(&serve, &Task { time_slice: None, ..poll.clone() }), "not known");
        assert!(!is_starved(&Task { does: Does::Waits, ..serve }, &poll));
        assert!(!is_starved(&poll, &poll), "itself");
    }

    /// "Nothing wrong found" of a thread that computes for ever under interrupts that put a semaphore.
    #[test]
    fn a_thread_without_an_event_that_runs_in_all_of_the_trace_was_not_seen() {
        let (serve, solve) = (task(SERVE, Does::Ready, 16), task(POLL, Does::Runs, 2));
        let mut events = Events::of_activity(SERVE, Activity::default(), 1000);
        assert!(keeps_alone(&solve, &events).is_some_and(|(since, _)| starves(&serve, &solve, since, &events)));
        assert!(keeps_alone(&Task { does: Does::Ready, ..solve.clone() }, &events).is_none());
        events.last_of_threads = Some(7);
        assert!(keeps_alone(&solve, &events).is_none(), "another thread ran");
    }

    /// "Nothing wrong found" where the oldest events are of interrupts, and do not show which thread they interrupted.
    #[test]
    fn a_thread_that_was_ready_all_the_time_was_not_seen_where_it_is_unknown_who_ran() {
        let poll = task(POLL, Does::Runs, 8);
        let of = |activity| is_ready_throughout(&poll, &Events::of_activity(POLL, activity, 1000));
        let little = Activity { ran: 160, ..Activity::default() };
        assert_eq!(of(little), Some((1000, 160)));
        assert_eq!(of(Activity { woken: Some(7), ..little }), None, "it was not ready before");
        assert_eq!(of(Activity { blocks: 1, ..little }), None);
    }

    #[test]
    fn a_more_urgent_thread_starves_behind_a_preemption_threshold() {
        let (rpc, index) = (task(SERVE, Does::Ready, 6), task(POLL, Does::Runs, 20));
        let keeps_off = |threshold| Task { threshold: Some(threshold), ..index.clone() };
        assert!(is_starved(&rpc, &keeps_off(2)));
        assert_eq!(rank(&keeps_off(2), &[&rpc]), " (priority 20, preemption-threshold 2)");
        assert!(is_starved(&rpc, &keeps_off(6)), "a threshold keeps off its own priority");
        assert!(!is_starved(&rpc, &keeps_off(7)), "it preempts, as soon as the kernel is left");
        assert!(!is_starved(&rpc, &keeps_off(20)));
    }

    #[test]
    fn a_round_of_work_that_is_longer_than_the_trace_is_not_shown_to_be_starvation() {
        let (worker, background) = (0x100, 0x200);
        let of_worker = |blocks| Events::of_activity(worker, Activity { blocks, ..Activity::default() }, 1000);
        assert!(!is_shown(worker, &[background], &of_worker(1)), "no whole round, and nobody woke the other");
        assert!(is_shown(worker, &[background], &of_worker(2)));
        let mut whole = of_worker(0);
        whole.is_whole = true;
        assert!(is_shown(worker, &[background], &whole));
        let woken = |woken| {
            let activity = Activity { since: Some((10, 7)), woken: Some(woken), ..Activity::default() };
            Events::of_activity(background, activity, 1000)
        };
        let ticks = |woken_by, period| {
            let mut events = woken(woken_by);
            for at in 0..20_i64 {
                events.interrupts.enter(15, 0, at * period);
                events.interrupts.wakes_timers(15);
                events.interrupts.exit(at * period);
            }
            events
        };
        assert!(is_shown(worker, &[background], &ticks(7, 100)), "more than 6 ticks");
        assert!(!is_shown(worker, &[background], &ticks(7, 500)), "less than 2 ticks");
        assert!(!is_shown(worker, &[background], &ticks(3, 100)), "it was preempted since");
        assert!(!is_shown(worker, &[background], &woken(7)), "the length of a tick is not known");
    }
}
