//! A thread waits for ever for an event flag that another one takes: both ask for the same flag of a group, and who gets it clears
//! it. The kernel gives a flag to all who wait at that moment, and to none that asks later: where one of the two is elsewhere
//! when the flag is set, the other one takes it, and the first waits for the next. It is a race, and it rests on what may still
//! come: a hint.
//!
//! A thread that needs several flags together, of which some are set, has lost the others: they do not come by themselves where it
//! asked for them once.
//!
//! Against it: both may be woken together each time, and wait for a rare event. So the flag may not have been set since the wait
//! began, by a trace in which the wait is long, and the one must have been woken more than twice as often as the other. Without a trace
//! it is said where some of several flags have come that are needed together.

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::flags_cleared;
use super::words::{few, place_at, waiting};
use crate::abi::Addr;
use crate::kernel::{Kind, Wanted};

/// So much more often the one was woken.
const MORE: u64 = 2;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let found = graph.tasks.list.iter().filter_map(|task| {
        let wait = task.wait.filter(|wait| wait.kind == Kind::EventFlags && wait.forever)?;
        let lacks = Lacks::of(task, case)?;
        let Some(events) = case.events else {
            // Memory alone shows a loss where others of its flags have come.
            let taker = taker(task, lacks, case, graph).filter(|_| lacks.set != 0)?;
            return Some(finding(task, lacks, taker, case, graph));
        };
        let is_quiet = events.is_long(task.address, wait.object) && !is_given(wait.object, lacks.flags, task, events);
        match taker(task, lacks, case, graph).filter(|_| is_quiet) {
            Some(taker) => Some(finding(task, lacks, taker, case, graph)),
            None if is_quiet => by_clearing_get(task, &wait, lacks, case, graph)
                .or_else(|| (lacks.set != 0).then(|| part(task, &wait, lacks, case, graph))),
            None => None,
        }
    });
    let mut all: Vec<Finding> = Vec::new();
    // Who waits behind one of them is said there.
    for finding in found {
        let is_said = |before: &Finding| {
            let is_behind = finding.threads.iter().all(|thread| before.affected.contains(thread));
            is_behind && before.confidence >= finding.confidence
        };
        if !all.iter().any(is_said) {
            all.push(finding);
        }
    }
    all
}

/// By the code, where no event shows it: another thread gets one of these flags and clears it, and none of those who set it does so
/// for each.
fn by_clearing_get(task: &Task, wait: &Wait, lacks: Lacks, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (usage, group) = (case.usage()?, lacks.group);
    let has_run = |at: Addr| graph.tasks.at(at).is_some_and(|other| other.runs.is_some_and(|runs| runs > 0));
    let takes = |(user, at): (User, Addr)| match user {
        User::Thread(other) if other != task.address && has_run(other) => Some((other, at)),
        _ => None,
    };
    let (other, at) = usage.clears_by_get(group, lacks.flags).into_iter().find_map(takes)?;
    let givers =
        by_code::givers(&Wait { wanted: Some(Wanted { flags: lacks.flags, ..lacks.wanted }), ..*wait }, case, graph)?;
    let by = few(Some(&givers))?;
    let (name, object, label, place) =
        (case.label(task.address), case.object(group), case.label(other), place_at(at, case));
    let claim = format!(
        "{name} waits for {:#x} of {object}, which by the code only {by} sets, and {label} clears when it gets it, in {place}",
        lacks.flags
    );
    let wants = |other: &&Task| {
        let wanted = other.wait.and_then(|wait| wait.wanted);
        other.address != task.address && wanted.is_some_and(|wanted| wanted.flags & lacks.flags != 0)
    };
    let mut behind: Vec<Addr> = graph.tasks.waiting(group).filter(wants).map(|task| task.address).collect();
    behind.extend(senders(task.address, case, graph));
    let all = [&[task.address][..], &behind].concat();
    behind.extend(graph.waiters(&all));
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against(["the flag may be that of a rare event, which comes later"])
            .evidence([waiting(task.address, group, case, graph)])
            .evidence([Evidence::symbol(at, &place, format!("{label} gets it here, with a clear option"))])
            .evidence(givers.evidence)
            .waiters(behind, task.address, case, graph)
            .next(format!(
                "where the flag says that something is so, get it without a clear option; else give {name} a flag of its own"
            ))
            .threads([task.address]),
    )
}

/// Threads that wait for room in a queue which a thread alone reads.
fn senders(reader: Addr, case: &Case<'_>, graph: &Graph) -> Vec<Addr> {
    let sends =
        graph.tasks.list.iter().filter_map(|task| Some((task.address, task.wait.filter(|wait| wait.sends)?.object)));
    sends.filter(|(_, queue)| by_code::only_reader(*queue, case) == Some(reader)).map(|(thread, _)| thread).collect()
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lacks {
    pub group: Addr,
    pub wanted: Wanted,
    /// The flags that it needs and that are not set.
    pub flags: u64,
    /// Those that are set and are not enough.
    pub set: u64,
}

impl Lacks {
    pub fn of(task: &Task, case: &Case<'_>) -> Option<Self> {
        let wait = task.wait.filter(|wait| wait.kind == Kind::EventFlags)?;
        let current = case.kernel?.object(wait.object)?.get("current")?;
        Some(Self::from(wait.object, wait.wanted?, current))
    }

    const fn from(group: Addr, wanted: Wanted, current: u64) -> Self {
        let set = if wanted.all { wanted.flags & current } else { 0 };
        Self { group, wanted, flags: wanted.flags & !set, set }
    }
}

/// True where somebody set one of these flags since the wait began.
fn is_given(group: Addr, flags: u64, task: &Task, events: &Events) -> bool {
    let since = events.activity(task.address).and_then(|activity| activity.since).map_or(0, |(_, seq)| seq);
    let Some(one) = events.object(group) else { return false };
    one.givers.values().any(|given| given.seq > since && given.flags & flags != 0)
}

/// The thread that takes the same flags and clears them: more often, where none of them is set. One that lacks a part of what it
/// needs itself is no such thread.
fn taker<'g>(task: &Task, lacks: Lacks, case: &Case<'_>, graph: &'g Graph) -> Option<(&'g Task, u64)> {
    let group = lacks.group;
    let asks = |other: &'g Task| {
        let waits = other.wait.filter(|wait| wait.object == group).and_then(|wait| wait.wanted);
        let asked = || {
            let events = case.events?;
            events.object(group)?.wanted.get(&events.stored(other.address)).copied()
        };
        let both = waits.or_else(asked).filter(|asked| asked.clears)?.flags & lacks.flags;
        let is_ahead = other.runs.zip(task.runs).is_some_and(|(other, own)| is_ahead(other, own));
        let has_part = Lacks::of(other, case).is_some_and(|own| own.group == group && own.set != 0);
        let has_run = other.runs.is_some_and(|runs| runs > 0);
        let is_taker = both != 0 && (is_ahead || lacks.set != 0 && has_run) && !has_part;
        (is_taker && other.address != task.address).then_some((other, both))
    };
    graph.tasks.list.iter().filter_map(asks).max_by_key(|(other, _)| other.runs)
}

/// True for a thread that was woken so much more often that it is no chance.
const fn is_ahead(other: u64, own: u64) -> bool {
    other > own.saturating_mul(MORE) && other > MORE
}

fn finding(task: &Task, lacks: Lacks, (taker, both): (&Task, u64), case: &Case<'_>, graph: &Graph) -> Finding {
    let Lacks { group, wanted, set, .. } = lacks;
    let (name, other, object) = (case.label(task.address), case.label(taker.address), case.object(group));
    let runs = taker.runs.zip(task.runs);
    let runs = runs.map_or_else(String::new, |(taker, own)| format!("; it ran {taker} times, {name} {own}"));
    let claim = if set == 0 {
        format!(
            "{name} waits for {:#x} of {object}, which {other} takes too: {other} clears {both:#x} when it gets it, and one \
             that is set while {name} is elsewhere is lost for {name}",
            wanted.flags
        )
    } else {
        format!(
            "{name} waits for all of {:#x} of {object}, and only {set:#x} is set: {other} takes {both:#x} too, and clears it \
             when it gets it, so that {name} may not get it",
            wanted.flags
        )
    };
    Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
        .against(["the flag may be that of a rare event, which comes later"])
        .evidence([
            waiting(task.address, group, case, graph),
            Evidence::memory(taker.address, format!("{other} asks for {both:#x} of {object} with CLEAR{runs}")),
        ])
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(format!("give {name} a flag of its own, or let one thread alone take {both:#x}"))
        .threads([task.address])
}

/// Some of the flags that a thread needs together are set, and the others are not, for long.
fn part(task: &Task, wait: &Wait, lacks: Lacks, case: &Case<'_>, graph: &Graph) -> Finding {
    let Lacks { group, wanted, set, flags } = lacks;
    let (name, object) = (case.label(task.address), case.object(group));
    let of_rest = Wait { wanted: Some(Wanted { flags, ..wanted }), ..*wait };
    let by_code = by_code::givers(&of_rest, case, graph).map(|givers| givers.evidence);
    let (clears, _) = flags_cleared::by_get(task, wait, case).unzip();
    let clears = clears.map_or_else(String::new, |clears| format!("; {clears}"));
    let claim = format!(
        "{name} waits for all of {:#x} of {object}, and only {set:#x} is set: {flags:#x} has not come for long{clears}",
        wanted.flags
    );
    Finding::new(Code::WrongEventMask, case.cap(Confidence::Hint), claim)
        .against(["the rest may be that of a rare event, which comes later"])
        .evidence([
            waiting(task.address, group, case, graph),
            Evidence::memory(group, format!("{object}: {set:#x} of {:#x} is set", wanted.flags)),
        ])
        .evidence(by_code.into_iter().flatten())
        .waiters(graph.waiters(&[task.address]), task.address, case, graph)
        .next(format!(
            "where one of these flags is enough, wait for any of them (TX_OR); else find out who sets {flags:#x}, and who takes it before"
        ))
        .threads([task.address])
        .usual(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_threads_are_woken_together_in_a_healthy_system() {
        assert!(is_ahead(7, 2));
        assert!(!is_ahead(7, 7));
        assert!(!is_ahead(7, 4), "the one began later");
        assert!(!is_ahead(2, 0));
    }

    /// `car panel`, which asks for one flag, took the one that `door` waits for together with another: `door` was blamed.
    #[test]
    fn the_thread_with_a_part_of_its_flags_was_taken_for_the_one_that_takes_them() {
        let of = |flags, all, current| Lacks::from(0x100, Wanted { flags, all, clears: true }, current);
        assert_eq!((of(3, true, 1).flags, of(3, true, 1).set), (2, 1));
        assert_eq!((of(2, false, 1).flags, of(2, false, 1).set), (2, 0));
        assert_eq!((of(3, true, 4).flags, of(3, true, 4).set), (3, 0));
    }
}
