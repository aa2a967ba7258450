//! Which threads cannot go on, by the code: each waits for ever for what only threads that cannot go on either can give.

use std::collections::BTreeMap;

use super::super::Case;
use super::super::graph::Graph;
use super::super::rules::callback::is_timer_task;
use super::super::rules::disabled_interrupt;
use super::super::state::{Does, Task};
use super::{Usage, User};
use crate::abi::Addr;
use crate::kernel::api::{self, Act};
use crate::kernel::{Kind, Object, Thread};

/// What a thread waits for, as its own control block, its code and the object agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What somebody has to do.
    pub act: Act,
    /// With an object of this kind.
    pub kind: Kind,
    /// This one.
    pub object: Addr,
    /// Event flags of which one has to be set.
    pub wanted: Option<u64>,
}

/// Those who cannot go on, each with those who could help it.
#[derive(Debug, Default)]
pub struct Stuck {
    /// Threads that wait, with what for.
    pub waits: BTreeMap<Addr, Need>,
    helpers: BTreeMap<User, Vec<User>>,
}

impl Stuck {
    /// Of the threads and timers of a case.
    pub fn of(case: &Case<'_>, graph: &Graph, usage: &Usage<'_>) -> Self {
        let mut all = Self::default();
        for task in &graph.tasks.list {
            let user = User::Thread(task.address);
            if let Some(need) = need(task, case, usage) {
                if let Some(helpers) = helpers(task, &need, usage) {
                    all.helpers.insert(user, helpers);
                    all.waits.insert(task.address, need);
                }
            } else if let Some(starters) =
                task.does.gone().and_then(|_| usage.who(Act::Starts, None, task.address, None))
            {
                all.helpers.insert(user, starters);
            }
        }
        let timers = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
        // While callbacks run, the timer whose callback it is may be off already.
        let is_idle = |task: &Task| is_timer_task(task, case) && task.does == Does::Suspended;
        let may_be_off = graph.tasks.list.iter().any(is_idle);
        for timer in timers.filter(|timer| may_be_off && timer.active() == Some(false)) {
            if let Some(starters) = usage.who(Act::Starts, Some(Kind::Timer), timer.address, None) {
                all.helpers.insert(User::Callback(timer.address), starters);
            }
        }
        all.without(&disabled_interrupt::all(case), &|thread, object| {
            case.events.is_some_and(|events| events.is_long(thread, object))
        });
        all.keep_stuck();
        all
    }

    /// A handler whose interrupt is disabled helps nobody. A driver may disable its interrupt while it works on what came
    /// before: so all who need it must have waited for long.
    fn without(&mut self, disabled: &[u64], is_long: &dyn Fn(Addr, Addr) -> bool) {
        let handlers = disabled.iter().filter_map(|number| u32::try_from(*number).ok()).map(User::Handler);
        for handler in handlers {
            let needs = |(thread, _): &(&Addr, &Need)| self.helpers(**thread).contains(&handler);
            if self.waits.iter().filter(needs).all(|(thread, need)| is_long(*thread, need.object)) {
                self.helpers.insert(handler, Vec::new());
            }
        }
    }

    /// Takes out who can be helped by one who goes on, until nobody can.
    fn keep_stuck(&mut self) {
        loop {
            let known: Vec<User> = self.helpers.keys().copied().collect();
            self.helpers.retain(|_, helpers| helpers.iter().all(|helper| known.contains(helper)));
            if self.helpers.len() == known.len() {
                break;
            }
        }
        let helpers = &self.helpers;
        self.waits.retain(|thread, _| helpers.contains_key(&User::Thread(*thread)));
    }

    /// Those who could end the wait of a thread, if they went on: without itself.
    pub fn helpers(&self, thread: Addr) -> &[User] {
        self.helpers.get(&User::Thread(thread)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Threads that wait, and that cannot go on before one of these does, and so on.
    pub fn behind(&self, first: &[Addr]) -> Vec<Addr> {
        let mut all: Vec<Addr> = Vec::new();
        loop {
            let is_of = |user: &User| matches!(user, User::Thread(at) if first.contains(at) || all.contains(at));
            let waits = |at: &&Addr| {
                let helpers = self.helpers(**at);
                !first.contains(at) && !all.contains(at) && !helpers.is_empty() && helpers.iter().all(is_of)
            };
            let more: Vec<Addr> = self.waits.keys().filter(waits).copied().collect();
            if more.is_empty() {
                return all;
            }
            all.extend(more);
        }
    }
}

/// Who could end a wait: the owner of a mutex; for other objects all whose code does it.
fn helpers(task: &Task, need: &Need, usage: &Usage<'_>) -> Option<Vec<User>> {
    let mut all = match need.kind {
        Kind::Mutex => vec![User::Thread(task.wait?.owner?)],
        kind => usage.who(need.act, Some(kind), need.object, need.wanted)?,
    };
    all.extend(usage.who(Act::Aborts, None, task.address, None)?);
    all.retain(|user| *user != User::Thread(task.address));
    Some(all)
}

/// What a thread waits for without a time-out; `None` where its control block, its code and the object do not agree.
fn need(task: &Task, case: &Case<'_>, usage: &Usage<'_>) -> Option<Need> {
    let wait = task.wait.filter(|wait| wait.forever && task.does == Does::Waits)?;
    let (thread, object) = (case.thread(task.address)?, case.kernel?.object(wait.object)?);
    if !ends_by(thread, wait.kind, case) {
        return None;
    }
    let (act, is_so) = match wait.kind {
        Kind::Queue if sends(thread, object, usage)? => (Act::Takes, object.get("available_storage") == Some(0)),
        Kind::Queue => (Act::Gives, object.get("enqueued") == Some(0)),
        Kind::Semaphore => (Act::Gives, object.get("count") == Some(0)),
        Kind::EventFlags => (Act::Gives, wait.wanted.is_some()),
        Kind::BlockPool => (Act::Gives, object.get("available") == Some(0)),
        Kind::Mutex => (Act::Gives, true),
        Kind::BytePool => {
            let is_short = thread.asks_bytes().zip(object.get("available")).is_some_and(|(asked, free)| free < asked);
            (Act::Gives, is_short)
        }
        Kind::Timer => return None,
    };
    let wanted = wait.wanted.map(|wanted| wanted.flags);
    is_so.then_some(Need { act, kind: wait.kind, object: wait.object, wanted })
}

/// True where the function that would end a thread's wait is that for objects of this kind.
fn ends_by(thread: &Thread, kind: Kind, case: &Case<'_>) -> bool {
    let function = api::cleanup(kind).and_then(|name| case.look.symbol(name));
    function.is_some_and(|function| thread.cleanup.is_some_and(|at| at & !1 == function.address & !1))
}

/// Whether a thread that waits for a queue waits for room: by its code, and where that does both, by the queue.
fn sends(thread: &Thread, queue: &Object, usage: &Usage<'_>) -> Option<bool> {
    let user = User::Thread(thread.address);
    let does = |act| usage.does(user, act, Kind::Queue, queue.address);
    match (does(Act::Takes), does(Act::Gives)) {
        (true, false) => Some(false),
        (false, true) => Some(true),
        (true, true) => match (queue.get("enqueued")?, queue.get("available_storage")?) {
            (0, room) if room > 0 => Some(false),
            (held, 0) if held > 0 => Some(true),
            _ => None,
        },
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck(all: &[(Addr, &[User])]) -> Stuck {
        let need = |object| Need { act: Act::Gives, kind: Kind::Semaphore, object, wanted: None };
        let mut stuck = Stuck {
            waits: all.iter().map(|(thread, _)| (*thread, need(0x100))).collect(),
            helpers: all.iter().map(|(thread, helpers)| (User::Thread(*thread), helpers.to_vec())).collect(),
        };
        stuck.keep_stuck();
        stuck
    }

    #[test]
    fn a_handler_whose_interrupt_is_disabled_was_taken_for_one_that_helps() {
        let handler = User::Handler(36);
        let need = Need { act: Act::Gives, kind: Kind::Semaphore, object: 0x100, wanted: None };
        let of = |disabled: &[u64], is_long: bool| {
            let helpers = [(User::Thread(1), vec![handler])].into();
            let mut stuck = Stuck { waits: [(1, need)].into(), helpers };
            stuck.without(disabled, &|_, _| is_long);
            stuck.keep_stuck();
            stuck.waits.len()
        };
        assert_eq!((of(&[], true), of(&[36], true)), (0, 1));
        assert_eq!(of(&[36], false), 0, "a driver works on what came before");
    }

    #[test]
    fn who_can_be_helped_is_not_stuck() {
        let of = User::Thread;
        let found = stuck(&[(1, &[of(2)]), (2, &[of(1)]), (3, &[of(1)]), (4, &[of(1), User::Handler(16)])]);
        assert_eq!(found.waits.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(found.behind(&[1, 2]), [3]);
        // The handler helps the fourth, which helps the others.
        assert!(stuck(&[(1, &[of(2), of(4)]), (2, &[of(1)]), (4, &[User::Handler(16)])]).waits.is_empty());
        // Who sleeps or runs is none of those that wait.
        assert!(stuck(&[(1, &[of(9)])]).waits.is_empty());
    }
}
