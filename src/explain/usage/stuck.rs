//! Which threads cannot go on, by the code: each waits for ever for what only threads that cannot go on either can give. A thread
//! whose waits for the same thing end by a time-out again and again does not get it either, but it goes on, and may help others.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Case;
use super::super::events::TimeOuts;
use super::super::graph::Graph;
use super::super::rules::callback::is_timer_task;
use super::super::rules::disabled_interrupt;
use super::super::state::{Does, Task, Wait};
use super::{Usage, User};
use crate::abi::Addr;
use crate::kernel::api::{self, Act};
use crate::kernel::{Kind, Object, Thread};

/// So many waits in a row that end by a time-out are a long wait.
const AGAIN: u64 = 4;

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
    all: Vec<Halt>,
}

/// What a user cannot go on without. One that waits for several event flags at once has several.
#[derive(Debug)]
struct Halt {
    user: User,
    /// `None` for one that has ended or is off.
    need: Option<Need>,
    /// Those who could give that.
    helpers: Vec<User>,
    /// True where a time-out ends its waits, so that it may help others.
    goes_on: bool,
}

impl Stuck {
    /// Of the threads and timers of a case.
    pub fn of(case: &Case<'_>, graph: &Graph, usage: &Usage<'_>) -> Self {
        Self::with(case, graph, usage, &|need| usage.who(need.act, Some(need.kind), need.object, need.wanted))
    }

    /// The same, where objects may be given through pointers: who may do so counts as one who could help.
    pub fn through_pointers(case: &Case<'_>, graph: &Graph, usage: &Usage<'_>) -> Self {
        Self::with(case, graph, usage, &|need| usage.may(need.act, Some(need.kind), need.object, need.wanted))
    }

    /// The same, where nobody gives one thing that is needed.
    pub fn without_givers(case: &Case<'_>, graph: &Graph, usage: &Usage<'_>, of: &Need) -> Self {
        let is_it = |need: &Need| (need.act, need.object, need.wanted) == (of.act, of.object, of.wanted);
        Self::with(case, graph, usage, &|need| match is_it(need) {
            true => Some(Vec::new()),
            false => usage.who(need.act, Some(need.kind), need.object, need.wanted),
        })
    }

    fn with(case: &Case<'_>, graph: &Graph, usage: &Usage<'_>, givers: &dyn Fn(&Need) -> Option<Vec<User>>) -> Self {
        let mut all = Vec::new();
        for task in &graph.tasks.list {
            let user = User::Thread(task.address);
            let needs = needs(task, case, usage);
            let gone = task.does.gone().filter(|_| needs.is_empty());
            let starters = gone.and_then(|_| usage.who(Act::Starts, None, task.address, None));
            all.extend(starters.map(|helpers| Halt { user, need: None, helpers, goes_on: false }));
            let goes_on = task.wait.is_some_and(|wait| !wait.forever);
            let halt = |need: Need| {
                Some(Halt { user, need: Some(need), helpers: helpers(task, &need, usage, givers)?, goes_on })
            };
            all.extend(needs.into_iter().filter_map(halt));
        }
        let timers = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
        // While callbacks run, the timer whose callback it is may be off already.
        let is_idle = |task: &Task| is_timer_task(task, case) && task.does == Does::Suspended;
        let may_be_off = graph.tasks.list.iter().any(is_idle);
        for timer in timers.filter(|timer| may_be_off && timer.active() == Some(false)) {
            let (user, starters) =
                (User::Callback(timer.address), usage.who(Act::Starts, Some(Kind::Timer), timer.address, None));
            all.extend(starters.map(|helpers| Halt { user, need: None, helpers, goes_on: false }));
        }
        let disabled = disabled_interrupt::all(case);
        Self::settle(all, &disabled, &|thread, object| case.events.is_some_and(|events| events.is_long(thread, object)))
    }

    /// Of these, those who cannot go on.
    fn settle(mut all: Vec<Halt>, disabled: &[u64], is_long: &dyn Fn(Addr, Addr) -> bool) -> Self {
        without(&mut all, disabled, is_long);
        keep_stuck(&mut all);
        let wait = |halt: &Halt| match (halt.user, halt.need) {
            (User::Thread(thread), Some(need)) => Some((thread, need)),
            _ => None,
        };
        // The first of several needs of a thread.
        let waits = all.iter().rev().filter_map(wait).collect();
        Self { waits, all }
    }

    /// Those who could end the wait of a thread, if they went on: without itself.
    pub fn helpers(&self, thread: Addr) -> &[User] {
        let of = self.all.iter().find(|halt| halt.user == User::Thread(thread));
        of.map(|halt| halt.helpers.as_slice()).unwrap_or_default()
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

/// A handler whose interrupt is disabled helps nobody. A driver may disable its interrupt while it works on what came before: so
/// all who need it must have waited for long.
fn without(all: &mut Vec<Halt>, disabled: &[u64], is_long: &dyn Fn(Addr, Addr) -> bool) {
    for handler in disabled.iter().filter_map(|number| u32::try_from(*number).ok()).map(User::Handler) {
        let is_late = |halt: &Halt| match (halt.user, halt.need) {
            (User::Thread(thread), Some(need)) => is_long(thread, need.object),
            _ => true,
        };
        if all.iter().filter(|halt| halt.helpers.contains(&handler)).all(is_late) {
            all.push(Halt { user: handler, need: None, helpers: Vec::new(), goes_on: false });
        }
    }
}

/// Takes out who can be helped by one who goes on, until nobody can.
fn keep_stuck(all: &mut Vec<Halt>) {
    loop {
        let known: BTreeSet<User> = all.iter().filter(|halt| !halt.goes_on).map(|halt| halt.user).collect();
        let count = all.len();
        all.retain(|halt| halt.helpers.iter().all(|helper| known.contains(helper)));
        if all.len() == count {
            break;
        }
    }
}

/// Who could end a wait: the owner of a mutex; for other objects all whose code does it.
fn helpers(
    task: &Task,
    need: &Need,
    usage: &Usage<'_>,
    givers: &dyn Fn(&Need) -> Option<Vec<User>>,
) -> Option<Vec<User>> {
    let mut all = match need.kind {
        Kind::Mutex => vec![User::Thread(task.wait?.owner?)],
        _ => givers(need)?,
    };
    all.extend(usage.who(Act::Aborts, None, task.address, None)?);
    all.retain(|user| *user != User::Thread(task.address));
    Some(all)
}

/// What a thread cannot go on without: of several event flags that it needs at once, each that is missing.
fn needs(task: &Task, case: &Case<'_>, usage: &Usage<'_>) -> Vec<Need> {
    let Some(need) = need(task, case, usage) else { return Vec::new() };
    let wanted = task.wait.and_then(|wait| wait.wanted).filter(|wanted| wanted.all);
    let set = case.kernel.and_then(|kernel| kernel.object(need.object)?.get("current"));
    let Some((wanted, set)) = wanted.zip(set) else { return vec![need] };
    let bits = (0..u32::BITS).map(|n| 1 << n).filter(|bit| wanted.flags & !set & bit != 0);
    bits.map(|bit| Need { wanted: Some(bit), ..need }).collect()
}

/// What a thread waits for without a time-out, or again and again; `None` where its control block, its code and the object do not
/// agree.
pub fn need(task: &Task, case: &Case<'_>, usage: &Usage<'_>) -> Option<Need> {
    task.wait.filter(|wait| lasts(wait, case, usage)).and_then(|_| need_now(task, case, usage))
}

/// The same of any wait, also one that a time-out may end.
pub fn need_now(task: &Task, case: &Case<'_>, usage: &Usage<'_>) -> Option<Need> {
    let wait = task.wait.filter(|_| task.does == Does::Waits)?;
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

/// True for a wait without a time-out, and for one after others for the same that ended by a time-out, while nothing was given.
/// A lock may be put by one who does not need it now.
fn lasts(wait: &Wait, case: &Case<'_>, usage: &Usage<'_>) -> bool {
    let is_lock = || wait.kind == Kind::Semaphore && usage.is_lock(wait.object);
    wait.forever || time_outs(wait.object, case).is_some() && !is_lock()
}

/// Many waits for an object that ended by a time-out, while nothing was given.
pub fn time_outs(object: Addr, case: &Case<'_>) -> Option<TimeOuts> {
    case.events?.object(object)?.time_outs.filter(|all| all.times >= AGAIN)
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

    const NEED: Need = Need { act: Act::Gives, kind: Kind::Semaphore, object: 0x100, wanted: None };

    fn halt(thread: Addr, helpers: &[User]) -> Halt {
        Halt { user: User::Thread(thread), need: Some(NEED), helpers: helpers.to_vec(), goes_on: false }
    }

    fn stuck(all: &[(Addr, &[User])]) -> Stuck {
        let all = all.iter().map(|(thread, helpers)| halt(*thread, helpers)).collect();
        Stuck::settle(all, &[], &|_, _| false)
    }

    #[test]
    fn a_handler_whose_interrupt_is_disabled_was_taken_for_one_that_helps() {
        let handler = User::Handler(36);
        let of = |disabled: &[u64], is_long: bool| {
            Stuck::settle(vec![halt(1, &[handler])], disabled, &|_, _| is_long).waits.len()
        };
        assert_eq!((of(&[], true), of(&[36], true)), (0, 1));
        assert_eq!(of(&[36], false), 0, "a driver works on what came before");
    }

    /// Of two event flags that a thread needs at once, who sets the one was taken for one who ends the wait.
    #[test]
    fn one_of_several_event_flags_was_enough() {
        let of = User::Thread;
        let found = stuck(&[(1, &[User::Handler(16)]), (1, &[of(2)]), (2, &[of(1)])]);
        assert_eq!((found.waits.len(), found.helpers(1)), (2, [of(2)].as_slice()));
        assert!(stuck(&[(1, &[User::Handler(16)]), (1, &[of(3)]), (2, &[of(1)])]).waits.is_empty());
    }

    /// A thread whose waits end by a time-out goes on, and gives others what they need; it does not get its own.
    #[test]
    fn waits_with_a_time_out_that_end_in_vain_were_not_looked_at() {
        let of = User::Thread;
        let timed = || Halt { goes_on: true, ..halt(2, &[of(3)]) };
        let gone = || Halt { user: of(3), need: None, helpers: Vec::new(), goes_on: false };
        let found = Stuck::settle(vec![halt(1, &[of(2)]), timed(), gone()], &[], &|_, _| false);
        assert_eq!(found.waits.keys().copied().collect::<Vec<_>>(), [2], "it may help the first");
        assert_eq!(Stuck::settle(vec![timed(), halt(3, &[of(2)])], &[], &|_, _| false).waits.len(), 0);
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
