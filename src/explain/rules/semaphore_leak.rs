//! A semaphore that is used as a lock, and was not given back by a path of a thread that goes on: it waits for the semaphore
//! again itself, or has blocked many times since it took it while others wait. Semaphores that are given by interrupts, or by
//! threads that do not take them, are no locks.
//!
//! A semaphore that counts credits is the same several times: either who takes gives back, and one thread has taken more than
//! it gave; or another thread gives back, and waits for work of the one that waits for a credit: then none is under way, and
//! that thread did not give back all. A semaphore that was created with a count of 0 is a signal, and has no credits.

use super::super::graph::{Edge, Graph};
use super::super::state::{Task, Wait};
use super::super::usage::{Leak, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{NO_OWNER, function_at, place_at, waiting};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::trace::many;

/// A holder that blocked so often since it took the semaphore has gone on without it.
const OFTEN: u64 = 4;
/// The most threads through which work comes from the one that waits for a credit.
const LONGEST: usize = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !edge.is_timed) {
        if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
            found.extend(finding(edge, case, graph));
        }
    }
    let waits = |task: &Task| task.wait.filter(|wait| wait.kind == Kind::Semaphore && wait.forever);
    for task in &graph.tasks.list {
        let Some(wait) = waits(task).filter(|_| graph.wait(task.address).is_none()) else { continue };
        if !found.iter().any(|f| f.threads.contains(&task.address) || f.affected.contains(&task.address)) {
            let credits = kept(task, &wait, case, graph).or_else(|| not_returned(task, &wait, case, graph));
            found.extend(credits);
        }
    }
    found
}

/// A thread takes and gives back, and has taken several times more than it gave.
fn kept(task: &Task, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let one = events.object(wait.object)?;
    let lasts = graph.is_still || events.is_long(task.address, wait.object);
    let (thread, taken) = one.hoard().filter(|_| lasts)?;
    let holder = graph.stored(case, thread)?;
    let first = *taken.first()?;
    let blocks = events.activity(holder.address)?.blocks;
    let waits_too = holder.wait.is_some_and(|wait_of| wait_of.object == wait.object);
    // What it took last it may still use.
    let old = taken.iter().filter(|taken| waits_too || blocks.saturating_sub(taken.blocks) >= OFTEN).count();
    let is_gone = holder.does.gone();
    if old < 2 && is_gone.is_none() {
        return None;
    }
    let (object, name, waiter) = (case.object(wait.object), case.label(holder.address), case.label(task.address));
    let state = is_gone.map_or_else(String::new, |gone| format!("; {name} {gone}"));
    let who = if waits_too && task.address == holder.address { "it".to_owned() } else { name.clone() };
    let mut waiters: Vec<Addr> = graph.tasks.waiting(wait.object).map(|task| task.address).collect();
    waiters.extend(graph.waiters(&[task.address, holder.address]));
    Some(
        Finding::new(
            if is_gone.is_some() { Code::LockOwnerGone } else { Code::SemaphoreLeak },
            case.cap(Confidence::Likely),
            format!(
                "{waiter} waits for {object}, of which {who} took {} and did not give them back{state}",
                taken.len()
            ),
        )
        .against([NO_OWNER])
        .evidence([
            Evidence::event(first.seq, format!("{name} takes {object} for the first time without giving it back")),
            waiting(task.address, wait.object, case, graph),
        ])
        .waiters(waiters, task.address, case, graph)
        .next(format!("look for a path of {name} that returns without tx_semaphore_put"))
        .threads([holder.address, task.address]),
    )
}

/// The only thread that gives back waits for work that comes from the one that waits for a credit, and from nobody else: from that one
/// itself, or from others that wait for it in turn.
fn not_returned(task: &Task, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let initial = events.initial(wait.object).filter(|initial| *initial > 0)?;
    let gives = |waiter: Addr| graph.gives.iter().find(|(of, _)| *of == waiter).map(|(_, giver)| *giver);
    // The one that gives back, and those from whom its work comes, one after the other.
    let chain: Vec<Addr> =
        std::iter::successors(gives(task.address), |of| gives(*of).filter(|next| *next != task.address))
            .take(LONGEST)
            .collect();
    chain.last().filter(|last| gives(**last) == Some(task.address))?;
    let work = |of: &Addr| graph.tasks.at(*of)?.wait.filter(|wait| wait.forever && !wait.sends);
    let works: Vec<Wait> = chain.iter().map(work).collect::<Option<_>>()?;
    if !works.iter().all(|work| matches!(work.kind, Kind::Queue | Kind::Semaphore)) {
        return None;
    }
    let is_long = events.is_long(task.address, wait.object)
        && chain.iter().zip(&works).all(|(of, work)| events.is_long(*of, work.object));
    let given = events.object(wait.object)?.givers.values().next().filter(|_| is_long || graph.is_still)?;
    let giver = *chain.first()?;
    let (waiter, name) = (case.label(task.address), case.label(giver));
    let object = case.object(wait.object);
    let from = chain.iter().skip(1).copied().chain([task.address]);
    let waits = chain.iter().zip(works.iter().zip(from)).map(|(of, (work, from))| {
        let (which, gives) = if work.kind == Kind::Queue { ("to which", "sends") } else { ("which", "puts") };
        let who = if *of == giver { String::new() } else { format!("{} ", case.label(*of)) };
        format!("{who}waits for {}, {which} only {} {gives}", case.object(work.object), case.label(from))
    });
    let claim = format!(
        "{waiter} waits for {object}: of {initial} it has none left, and {name}, which gives it back, {}",
        waits.collect::<Vec<_>>().join("; ")
    );
    // One of those between may also have kept work for itself.
    let between: Vec<String> = chain.iter().skip(1).map(|of| case.label(*of)).collect();
    let is_direct = between.is_empty();
    let between = between.join(", ");
    let kept = (!is_direct).then(|| format!("{between} may not pass on all work, or need several messages for one"));
    let next = format!("look for a path of {name} that returns without tx_semaphore_put");
    let next = if is_direct { next } else { format!("{next}, and for work that {between} did not pass on") };
    let mut threads = chain.clone();
    threads.push(task.address);
    Some(
        Finding::new(
            Code::SemaphoreLeak,
            case.cap(if is_direct { Confidence::Likely } else { Confidence::Hint }),
            claim,
        )
        .against([format!("that only {name} gives {object} back is inferred from events")])
        .against(kept)
        .evidence([waiting(task.address, wait.object, case, graph)])
        .evidence(chain.iter().zip(&works).map(|(of, work)| waiting(*of, work.object, case, graph)))
        .evidence([Evidence::event(
            given.seq,
            format!("{name} puts {object} for the last time; {} in the trace", many(given.times, "time", "times")),
        )])
        .next(next)
        .affected(graph.waiters(&threads))
        .threads(threads),
    )
}

/// The only function of these users that takes a semaphore and has a path on which it does not put it, by the code, and as evidence.
pub(super) fn keeper(users: &[User], semaphore: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let mut all: Vec<Leak> = users.iter().flat_map(|user| usage.keeps(*user, semaphore)).collect();
    all.sort_unstable_by_key(|leak| (leak.function, leak.at));
    all.dedup();
    let [leak] = all.as_slice() else { return None };
    let (function, object) = (function_at(leak.function, case), case.object(semaphore));
    let text = format!("by the code, {function} takes {object} here, and has a path on which it does not put it");
    Some((function, Evidence::symbol(leak.at, &place_at(leak.at, case), text)))
}

fn finding(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let one = events.object(edge.object)?;
    let taken = *one.held.iter().find(|taken| Some(taken.seq) == edge.seq)?;
    let (object, holder) = (case.object(edge.object), case.label(edge.holder));
    let activity = events.activity(edge.holder)?;
    let since = activity.blocks.saturating_sub(taken.blocks);
    let held = events.span.1.saturating_sub(taken.at);
    let itself = edge.waiter == edge.holder;
    if !itself {
        let gone = graph.tasks.at(edge.holder).is_none_or(|task| task.does.gone().is_some());
        if gone || since < OFTEN || held / 8 < one.longest_hold {
            return None;
        }
    }
    let waiter = case.label(edge.waiter);
    // A thread that was terminated gives nothing back, also where it was started again.
    let ended = events.terminated(edge.holder).filter(|(_, seq)| *seq > taken.seq);
    let by = ended
        .map(|(by, _)| graph.stored(case, by).map_or_else(|| "another thread".to_owned(), |by| case.label(by.address)));
    let claim = if let Some(by) = &by {
        format!("{waiter} waits for {object}, which {holder} took; {by} terminated {holder} meanwhile")
    } else if itself {
        format!("{holder} waits for {object}, which it took itself and did not give back")
    } else {
        format!("{waiter} waits for {object}, which {holder} took and did not give back; {holder} has gone on since")
    };
    let mut evidence = vec![Evidence::event(taken.seq, format!("{holder} takes {object}, and no event gives it back"))];
    if !itself {
        evidence.push(Evidence::event(taken.seq, format!("{holder} has blocked {since} times since")));
    }
    evidence.push(waiting(edge.waiter, edge.object, case, graph));
    let kept = by.is_none().then(|| keeper(&[User::Thread(edge.holder)], edge.object, case)).flatten();
    let next = match (&by, &kept) {
        (Some(by), _) => format!("let {by} not terminate {holder} while it may have {object}, or let it put that then"),
        (None, Some((function, _))) => {
            format!("look for the path of {function} on which it does not put {object}")
        }
        (None, None) => format!("look for a path of {holder} that returns without tx_semaphore_put"),
    };
    evidence.extend(kept.map(|(_, evidence)| evidence));
    let code = if by.is_some() { Code::LockOwnerGone } else { Code::SemaphoreLeak };
    evidence.extend(ended.zip(by).map(|((_, seq), by)| Evidence::event(seq, format!("{by} terminates {holder}"))));
    Some(
        Finding::new(code, case.cap(Confidence::Likely), claim)
            .against([NO_OWNER])
            .evidence(evidence)
            .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
            .next(next)
            .threads([edge.holder, edge.waiter]),
    )
}
