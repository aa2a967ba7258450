//! Who waits for whom.

use super::Case;
use super::events::Giver;
use super::state::{Task, Tasks, Wait};
use crate::abi::Addr;
use crate::kernel::Kind;

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
    /// The event flags that it waits for, and that the holder alone was seen to set.
    pub flags: Option<u64>,
}

/// The threads of one moment, and their waits: at most one for each.
#[derive(Debug, Default)]
pub struct Graph {
    /// The threads.
    pub tasks: Tasks,
    /// Waits for what one known thread has.
    pub edges: Vec<Edge>,
    /// Waits for event flags that one known thread alone was seen to set, for long.
    pub sets: Vec<Edge>,
    /// Waits for what one thread alone was seen to give: waiter and giver.
    pub gives: Vec<(Addr, Addr)>,
}

impl Graph {
    /// The waits whose holder is known.
    pub fn of(case: &Case<'_>) -> Self {
        let tasks = Tasks::of(case.kernel, case.events);
        let waits = || tasks.list.iter().filter_map(|task| Some((task, task.wait.as_ref()?)));
        let edges = waits().filter_map(|(task, wait)| edge(task, wait, &tasks, case)).collect();
        let gives = waits().filter_map(|(task, wait)| Some((task.address, giver(task, wait, &tasks, case)?))).collect();
        let sets = waits().filter_map(|(task, wait)| set_by_one(task, wait, &tasks, case)).collect();
        Self { edges, sets, gives, tasks }
    }

    /// The wait of a thread.
    pub fn wait(&self, thread: Addr) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.waiter == thread)
    }

    /// The threads that wait for these, for those that do, and so on; also for what one of them alone gives.
    pub fn behind(&self, of: &[Addr]) -> Vec<Addr> {
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

    /// The wait of a thread, also for event flags that one thread alone sets.
    fn known(&self, thread: Addr) -> Option<&Edge> {
        self.wait(thread).or_else(|| self.sets.iter().find(|edge| edge.waiter == thread))
    }

    /// Circles of waits of several threads, each once.
    pub fn circles(&self) -> Vec<Vec<Edge>> {
        let mut circles: Vec<Vec<Edge>> = Vec::new();
        for start in self.edges.iter().chain(&self.sets) {
            let mut path = vec![*start];
            while let Some(next) = path.last().and_then(|edge| self.known(edge.holder)) {
                if next.waiter == start.waiter {
                    // The circle is counted at its lowest address.
                    if path.len() > 1 && path.iter().all(|edge| edge.waiter >= start.waiter) {
                        circles.push(path);
                    }
                    break;
                }
                if path.iter().any(|edge| edge.waiter == next.waiter) {
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

fn stored(tasks: &Tasks, case: &Case<'_>, stored: Addr) -> Option<Addr> {
    let is = |task: &&Task| case.events.is_some_and(|events| events.is(task.address, stored));
    tasks.list.iter().find(is).map(|task| task.address)
}

fn edge(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let edge = |holder, seq| Edge {
        waiter: task.address,
        object: wait.object,
        holder,
        seq,
        is_timed: !wait.forever,
        flags: None,
    };
    match wait.kind {
        Kind::Mutex => wait.owner.map(|owner| edge(owner, task.seq)),
        Kind::Semaphore => {
            let events = case.events?;
            let taken = events.object(wait.object)?.holder()?;
            Some(edge(stored(tasks, case, taken.thread)?, Some(taken.seq)))
        }
        _ => None,
    }
}

/// A wait for event flags, all of which one thread alone was seen to set: for long, as others may set them later.
fn set_by_one(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Edge> {
    let events = case.events?;
    let wanted = wait.wanted.filter(|_| wait.kind == Kind::EventFlags)?.flags;
    let mut setters = events.object(wait.object)?.givers.iter().filter(|(_, given)| given.flags & wanted != 0);
    let (Some((Giver::Thread(setter), given)), None) = (setters.next(), setters.next()) else { return None };
    let holder = stored(tasks, case, *setter).filter(|holder| *holder != task.address)?;
    // Waits of others for other flags of the group say nothing of this one.
    let is_so = given.flags & wanted == wanted && events.lasts_long(task.address);
    is_so.then_some(Edge {
        waiter: task.address,
        object: wait.object,
        holder,
        seq: Some(given.seq),
        is_timed: !wait.forever,
        flags: Some(wanted),
    })
}

/// The only thread that was seen to give what a thread waits for: messages, or room for some.
fn giver(task: &Task, wait: &Wait, tasks: &Tasks, case: &Case<'_>) -> Option<Addr> {
    let one = case.events?.object(wait.object)?;
    let only = if wait.sends {
        let mut takers = one.takers.iter();
        let first = *takers.next()?;
        takers.next().is_none().then_some(first)?
    } else {
        match one.givers.keys().collect::<Vec<_>>().as_slice() {
            [Giver::Thread(thread)] => *thread,
            _ => return None,
        }
    };
    stored(tasks, case, only).filter(|giver| *giver != task.address)
}
