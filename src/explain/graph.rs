//! Who waits for whom.

use std::collections::{BTreeMap, BTreeSet};

use super::Case;
use super::events::Giver;
use super::state::{Does, Task, Tasks, Wait};
use super::usage::{Stack, User};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// A thread that waits for what another has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Who waits.
    pub waiter: Addr,
    /// For what.
    pub object: Addr,
    /// Who has it, or has to act on it.
    pub holder: Addr,
    /// The event that shows that; `None` where memory does.
    pub seq: Option<u64>,
    /// It waits for a time at most, or that is not known.
    pub is_timed: bool,
    /// Why the holder has to act.
    pub how: How,
}

/// Why a thread waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It owns the mutex.
    Owns,
    /// It took the semaphore.
    Took,
    /// It alone may have taken the semaphore, by its stack and the program's code.
    MayHold,
    /// It alone was seen to set these event flags.
    Sets(u64),
    /// It alone was seen to take from the queue, which is full.
    Reads,
    /// It alone was seen to send to the queue, which is empty.
    Sends,
    /// It alone was seen to put the semaphore, of which none is left.
    Puts,
    /// It allocated all blocks of the pool, and released none of them.
    HasAll,
}

impl How {
    /// True where it rests on what no other thread was seen to do.
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Sets(_) | Self::Reads | Self::Sends | Self::Puts)
    }
}

/// The threads of one moment, and their waits: at most one for each.
#[derive(Debug, Default)]
pub struct Graph {
    /// The threads.
    pub tasks: Tasks,
    /// Waits for what one known thread has.
    pub edges: Vec<Edge>,
    /// Waits for what one known thread alone can give, by events: for long, except for messages, semaphores, and room in a queue
    /// that the thread reads itself.
    pub inferred: Vec<Edge>,
    /// Waits for what one thread alone was seen to give: waiter and giver.
    pub gives: Vec<(Addr, Addr)>,
    /// True where memory shows that no thread goes on by itself: all wait for ever, are suspended or have ended, and no timer
    /// runs. Only an interrupt can end a wait then.
    pub is_still: bool,
}

impl Graph {
    /// The waits whose holder is known.
    pub fn of(case: &Case<'_>) -> Self {
        let tasks = Tasks::of(case.kernel, case.events);
        let waits = || tasks.list.iter().filter_map(|task| Some((task, task.wait.as_ref()?)));
        let mut holders = BTreeMap::new();
        let edges = waits().filter_map(|(task, wait)| edge(task, wait, &tasks, &mut holders, case)).collect();
        // A wait with a time-out for the next message or signal is one for work.
        let lasts = |(_, wait): &(&Task, &Wait)| wait.forever || case.kernel.is_none();
        let gives =
            waits().filter(lasts).filter_map(|(task, wait)| Some((task.address, giver(task, wait, &tasks, case)?)));
        let gives = gives.collect();
        let is_still = is_still(&tasks, case);
        let by_one = |task: &Task, wait| {
            let lasts = is_still || case.events.is_some_and(|events| events.lasts_long(task.address));
            let set = set_by_one(task, wait, &tasks, case).filter(|_| lasts);
            let read = || read_by_one(task, wait, &tasks, case).filter(|edge| lasts || edge.holder == edge.waiter);
            let given = || given_by_one(task, wait, &tasks, case);
            set.or_else(read).or_else(given).or_else(|| kept_by_one(task, wait, &tasks, case))
        };
        let inferred = waits().filter_map(|(task, wait)| by_one(task, wait)).collect();
        Self { edges, inferred, gives, tasks, is_still }
    }

    /// The wait of a thread.
    pub fn wait(&self, thread: Addr) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.waiter == thread)
    }

    /// The threads that wait for these, for those that do, and so on; also for what one of them alone gives.
    pub fn waiters(&self, of: &[Addr]) -> Vec<Addr> {
        let mut found: Vec<Addr> = of.to_vec();
        let mut at = 0usize;
        while let Some(holder) = found.get(at).copied() {
            at = at.saturating_add(1);
            let held = self.edges.iter().filter(|edge| edge.holder == holder).map(|edge| edge.waiter);
            let given = self.gives.iter().filter(|(_, giver)| *giver == holder).map(|(waiter, _)| *waiter);
            for waiter in held.chain(given) {
                if !found.contains(&waiter) {
                    found.push(waiter);
                }
            }
        }
        found.split_off(of.len().min(found.len()))
    }

    /// Circles of waits, each once: of several threads, or of one that waits for room in the queue that it reads itself. Who took
    /// a semaphore twice itself is no circle here.
    pub fn circles(&self) -> Vec<Vec<Edge>> {
        // The wait of each thread, also for what one thread alone can give.
        let mut known: BTreeMap<Addr, &Edge> = BTreeMap::new();
        for edge in self.edges.iter().chain(&self.inferred) {
            known.entry(edge.waiter).or_insert(edge);
        }
        let mut circles: Vec<Vec<Edge>> = Vec::new();
        for start in known.values().copied() {
            let (mut path, mut met) = (vec![*start], BTreeSet::new());
            // The circle is counted at its lowest address.
            let next = |edge: &Edge| known.get(&edge.holder).copied().filter(|next| next.waiter >= start.waiter);
            while let Some(next) = path.last().and_then(next) {
                if next.waiter == start.waiter {
                    if path.len() > 1 || start.how == How::Reads {
                        circles.push(path);
                    }
                    break;
                }
                if !met.insert(next.waiter) {
                    break;
                }
                path.push(*next);
            }
        }
        circles
    }

    /// The thread whose address the trace stores so.
    pub fn stored(&self, case: &Case<'_>, stored: Addr) -> Option<&Task> {
        self.tasks.list.iter().find(|task| case.events.is_some_and(|events| events.is(task.address, stored)))
    }
}

fn is_still(tasks: &Tasks, case: &Case<'_>) -> bool {
    let Some(kernel) = case.kernel.filter(|kernel| !kernel.is_initializing()) else { return false };
    let is_off = |task: &Task| match task.does {
        Does::Waits => task.wait.is_some_and(|wait| wait.forever),
        does => does.gone().is_some(),
    };
    let mut timers = kernel.objects.iter().filter(|object| object.kind == Kind::Timer);
    let runs_timer = timers.any(|timer| timer.get("tx_timer_internal_list_head").is_some_and(|list| list != 0));
    !runs_timer && tasks.list.iter().any(|task| task.does == Does::Waits) && tasks.list.iter().all(is_off)
}

fn stored(tasks: &Tasks, case: &Case<'_>, stored: Addr) -> Option<Addr> {
    let is = |task: &&Task| case.events.is_some_and(|events| events.is(task.address, stored));
    tasks.list.iter().find(is).map(|task| task.address)
}

/// `holders`: of semaphores, those that stacks show.
fn edge(
    task: &Task,
    wait: &Wait,
    tasks: &Tasks,
    holders: &mut BTreeMap<Addr, Option<Addr>>,
    case: &Case<'_>,
) -> Option<Edge> {
    let edge = |holder, seq, how| edge_to(holder, seq, how, task, wait);
    match wait.kind {
        Kind::Mutex => wait.owner.map(|owner| edge(owner, task.seq, How::Owns)),
        Kind::Semaphore => {
            let by_events = || {
                let taken = case.events?.object(wait.object)?.holder()?;
                Some(edge(stored(tasks, case, taken.thread)?, Some(taken.seq), How::Took))
            };
            by_events().or_else(|| {
                let holder = *holders.entry(wait.object).or_insert_with(|| holder_by_stack(wait.object, tasks, case));
                Some(edge(holder.filter(|_| wait.forever)?, None, How::MayHold))
            })
        }
        _ => None,
    }
}

/// The only thread that may have a semaphore of which none is left, and which all of its users put where they take it: its stack shows
/// that it is between the two.
fn holder_by_stack(semaphore: Addr, tasks: &Tasks, case: &Case<'_>) -> Option<Addr> {
    let none_left = case.kernel?.object(semaphore)?.get("count") == Some(0);
    let usage = case.usage().filter(|_| none_left)?;
    let users = usage.who(Act::Gives, Some(Kind::Semaphore), semaphore, None)?;
    if !usage.is_lock(semaphore) || !usage.is_put_where_taken(&users, Kind::Semaphore, semaphore) {
        return None;
    }
    let mut holders = Vec::new();
    for user in users {
        let User::Thread(thread) = user else { return None };
        // Who waits for it does not have it.
        if tasks.at(thread)?.wait.is_none_or(|own| own.object != semaphore) {
            let has_completed = tasks.at(thread)?.does == Does::Completed;
            let holds = if has_completed {
                // It has returned from all of its functions.
                (!usage.may_keep(user, semaphore)).then_some(false)
            } else {
                let stack = case.cpus?.callers(thread).map(Stack::of_call).or_else(|| interrupted(thread, case))?;
                usage.holds(user, semaphore, stack)
            };
            holders.extend((holds != Some(false)).then_some((thread, holds == Some(true))));
        }
    }
    if let [(only, true)] = holders.as_slice() { Some(*only) } else { None }
}

/// Where a thread is that was interrupted, where its functions are known up to the one that it began with.
fn interrupted<'c>(thread: Addr, case: &Case<'c>) -> Option<Stack<'c>> {
    let entry = case.look.function(case.thread(thread)?.entry? & !1)?;
    let entry = Region { start: entry.address & !1, len: entry.size };
    let frames = case.cpus?.frames(thread)?;
    let (at, callers) = frames.split_first()?;
    let is_whole = entry.contains(*at) || callers.iter().any(|pc| entry.contains(pc.saturating_sub(1)));
    is_whole.then_some(Stack { at: Some(*at), callers })
}

/// A wait for event flags, all of which one thread alone was seen to set: for long, as others may set them later.
fn set_by_one(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let events = case.events?;
    let wanted = wait.wanted.filter(|_| wait.kind == Kind::EventFlags)?.flags;
    let mut setters = events.object(wait.object)?.givers.iter().filter(|(_, given)| given.flags & wanted != 0);
    let (Some((Giver::Thread(setter), given)), None) = (setters.next(), setters.next()) else { return None };
    let holder = stored(tasks, case, *setter).filter(|holder| *holder != task.address)?;
    // Waits of others for other flags of the group say nothing of this one.
    let is_so = given.flags & wanted == wanted;
    is_so.then(|| edge_to(holder, Some(given.seq), How::Sets(wanted), task, wait))
}

/// A wait for room in a full queue from which one thread alone was seen to take, which may be the one that waits.
fn read_by_one(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let holder = only(wait, tasks, case).filter(|_| wait.sends)?;
    Some(edge_to(holder, None, How::Reads, task, wait))
}

/// A wait for a message, or for a semaphore, which one other thread alone was seen to give. A thread that gives to itself waits
/// for others, too.
fn given_by_one(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let (how, count) = match wait.kind {
        Kind::Queue if !wait.sends => (How::Sends, "enqueued"),
        Kind::Semaphore => (How::Puts, "count"),
        _ => return None,
    };
    // Memory has to show that nothing is there.
    if case.kernel.is_some_and(|kernel| kernel.object(wait.object).and_then(|object| object.get(count)) != Some(0)) {
        return None;
    }
    let holder = giver(task, wait, tasks, case)?;
    let seq = case.events?.object(wait.object)?.givers.values().next()?.seq;
    Some(edge_to(holder, Some(seq), how, task, wait))
}

/// A wait for a block of a pool all of whose blocks one thread allocated.
fn kept_by_one(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let pool = case.kernel?.object(wait.object).filter(|pool| pool.kind == Kind::BlockPool)?;
    let total = pool.get("total").filter(|_| pool.get("available") == Some(0))?;
    let newest = case.events?.object(wait.object)?.pool.only(total)?;
    let holder = stored(tasks, case, newest.thread).filter(|holder| *holder != task.address)?;
    Some(edge_to(holder, Some(newest.seq), How::HasAll, task, wait))
}

const fn edge_to(holder: Addr, seq: Option<u64>, how: How, task: &Task, wait: &Wait) -> Edge {
    Edge { waiter: task.address, object: wait.object, holder, seq, is_timed: !wait.forever, how }
}

/// The only other thread that was seen to give what a thread waits for: messages, or room for some.
fn giver(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Addr> {
    only(wait, tasks, case).filter(|giver| *giver != task.address)
}

/// The only one of all that was seen to give what is waited for.
fn only(wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Addr> {
    let one = case.events?.object(wait.object)?;
    let only = if wait.sends {
        if one.is_taken_elsewhere {
            return None;
        }
        let mut takers = one.takers.iter();
        let first = *takers.next()?;
        takers.next().is_none().then_some(first)?
    } else {
        match one.givers.keys().collect::<Vec<_>>().as_slice() {
            [Giver::Thread(thread)] => *thread,
            _ => return None,
        }
    };
    stored(tasks, case, only)
}
