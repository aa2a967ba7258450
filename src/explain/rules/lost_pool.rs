//! A pool of blocks that is used up, though nobody waits for it for ever: interrupts and threads that do not wait, or wait for some
//! time, ask for a block and get nothing. That no pointer to its blocks is left in memory shows that they are lost; a path on which one who gets such a block
//! returns without releasing it, who loses them. Without a trace nobody is seen to ask, and it is a hint.
//!
//! Against it: a device may have the addresses, or the program keeps an index in place of a pointer. A pool of which all blocks were
//! given to a device at the start looks the same, but nobody asks for more. Who allocates and keeps it may have passed it to a
//! device: only a function that gets a block and releases it on another path makes it likely.

use super::super::graph::Graph;
use super::super::state::Task;
use super::super::usage::{Leak, LostWhenFull, Usage, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::lost_blocks;
use super::pools::{NO_POINTER, NOT_IN_MEMORY};
use super::words::{function_at, place_at, waiting};
use crate::abi::Addr;
use crate::kernel::api::Act;
use crate::kernel::{Kind, Object};

/// What speaks against a path.
pub(super) const AGAINST: &str = "which path was taken is inferred from the program's code";
/// So often somebody has to ask.
const OFTEN: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let is_used_up = |object: &&Object| object.kind == Kind::BlockPool && object.get("available") == Some(0);
    // Who waits for memory for ever is the other rules' matter.
    let is_forever = |task: &Task| task.wait.is_some_and(|wait| wait.forever);
    let is_unwaited = |pool: &&Object| !graph.tasks.waiting(pool.address).any(is_forever);
    objects.filter(is_used_up).filter(is_unwaited).filter_map(|pool| finding(pool, case, graph)).collect()
}

/// A thread that waits for a block for some time.
fn waits(pool: &Object, case: &Case<'_>, graph: &Graph) -> Option<Asked> {
    let task = graph.tasks.waiting(pool.address).next()?;
    Some(Asked {
        words: format!("{} waits for a block", case.label(task.address)),
        evidence: waiting(task.address, pool.address, case, graph),
        is_interrupt: false,
    })
}

fn finding(pool: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let asked = asked(pool, case).or_else(|| waits(pool, case, graph));
    let lost = lost_blocks::of(pool, case)?;
    let only = Dropped::of(pool, case);
    let claimed = match (&asked, &only) {
        (Some(_), Some(only)) if only.is_sure => Confidence::Likely,
        (Some(_), Some(_)) => Confidence::Hint,
        // A thread that gets nothing may do without.
        (Some(asked), None) if asked.is_interrupt => Confidence::Hint,
        // Without a trace it is not known whether anybody asks for more.
        (None, Some(_)) if case.events.is_none() => Confidence::Hint,
        _ => return None,
    };
    let label = case.object(pool.address);
    let state = pool.state(&|at| case.label(at));
    let path = only.as_ref().map_or_else(String::new, |only| format!("; {}", only.words));
    let words = asked.as_ref().map_or_else(String::new, |asked| format!(", {},", asked.words));
    let thread = only.as_ref().and_then(|only| if let User::Thread(at) = only.user { Some(at) } else { None });
    Some(
        Finding::new(
            Code::PoolLeak,
            case.cap(claimed),
            format!("{label} is used up ({state}){words} and {}{path}", lost.words),
        )
        .against([NOT_IN_MEMORY])
        .against(only.is_some().then_some(AGAINST))
        .evidence([Evidence::memory(pool.address, label)])
        .evidence(asked.map(|asked| asked.evidence))
        .evidence(lost.evidence)
        .evidence(only.as_ref().map(|only| only.evidence.clone()))
        .next(only.map_or_else(|| NO_POINTER.to_owned(), |only| only.next))
        .threads(thread)
        .affected([pool.address]),
    )
}

/// The only one who gets memory of a pool, and has a path on which it does not release it.
pub(super) struct Dropped {
    user: User,
    /// `forward, which router calls, may return without releasing the block that it got`.
    pub words: String,
    pub evidence: Evidence,
    pub next: String,
    /// False where others may release it.
    is_sure: bool,
}

impl Dropped {
    /// `None` where there are several, or none.
    pub fn of(pool: &Object, case: &Case<'_>) -> Option<Self> {
        let all = drops(pool, case.usage()?);
        if all.is_empty() {
            return Self::when_full(pool, case).or_else(|| Self::kept(pool, case));
        }
        let [drop] = all.as_slice() else { return None };
        Some(Self::said(drop, case))
    }

    /// The same of those of one thread, where the events show that it is this one.
    pub fn of_thread(thread: Addr, pool: &Object, case: &Case<'_>) -> Option<Self> {
        let all = drops(pool, case.usage()?);
        let mut own = all.iter().filter(|(user, ..)| *user == User::Thread(thread));
        match (own.next(), own.next()) {
            (Some(drop), None) => Some(Self::said(drop, case)),
            _ => Self::of(pool, case).filter(|dropped| dropped.is_by(thread)),
        }
    }

    fn said((user, leak, way): &(User, Leak, Way), case: &Case<'_>) -> Self {
        let (who, function) = (user_name(*user, case), function_at(leak.function, case));
        let (words, text, next) = match way {
            Way::Returns => (
                format!("{function}, which {who} calls, may return without releasing the block that it got"),
                "a path of it returns without releasing the block that it got",
                format!("look for a path of {function} that returns without a release"),
            ),
            Way::LeadsOn => (
                format!("{who} has a path in {function} on which it does not release the block that it got"),
                "it gets a block here, and a path leads on from here on which it does not release it",
                format!("look for the path of {function} on which a block is not released"),
            ),
        };
        Self {
            user: *user,
            words,
            evidence: Evidence::symbol(leak.at, &place_at(leak.at, case), text.to_owned()),
            next,
            is_sure: true,
        }
    }

    /// The only one who does not release it where a queue is full.
    fn when_full(pool: &Object, case: &Case<'_>) -> Option<Self> {
        let usage = case.usage()?;
        let users = usage.who(Act::Takes, Some(pool.kind), pool.address, None)?;
        let lost = |user: &User| Some((*user, usage.lost_when_full(*user, pool.kind, pool.address)?));
        let all: Vec<(User, LostWhenFull)> = users.iter().filter_map(lost).collect();
        let [(user, lost)] = all.as_slice() else { return None };
        let (who, function, queue) =
            (user_name(*user, case), function_at(lost.function, case), case.object(lost.queue));
        Some(Self {
            user: *user,
            words: format!(
                "where {queue} is full, {who} does not release the block that it could not send, in {function}"
            ),
            evidence: Evidence::symbol(
                lost.at,
                &place_at(lost.at, case),
                format!("{who} sends a block to {queue} here; if that fails, one path does not release the block"),
            ),
            next: format!("release the block in {function} where tx_queue_send fails"),
            is_sure: false,
        })
    }

    /// The only one who keeps the address of its block in a variable: where another one was kept there, that block is lost.
    fn kept(pool: &Object, case: &Case<'_>) -> Option<Self> {
        let usage = case.usage()?;
        let users = usage.who(Act::Takes, Some(pool.kind), pool.address, None)?;
        let kept = |user: &User| Some((*user, usage.stores_memory(*user, pool.kind, pool.address)?));
        let all: Vec<(User, Leak)> = users.iter().filter_map(kept).collect();
        let [(user, leak)] = all.as_slice() else { return None };
        let (who, place) = (user_name(*user, case), place_at(leak.at, case));
        Some(Self {
            user: *user,
            words: format!(
                "{who} alone keeps the address of its block in a variable, in {place}: if one was there before that is not released, its block is lost"
            ),
            evidence: Evidence::symbol(leak.at, &place, "the address of a block is stored here".to_owned()),
            next: format!(
                "look whether {} releases the block whose address it writes over",
                function_at(leak.function, case)
            ),
            is_sure: false,
        })
    }

    /// True where it is this thread.
    fn is_by(&self, thread: Addr) -> bool {
        self.user == User::Thread(thread)
    }
}

/// Who asks for a block and gets none.
struct Asked {
    words: String,
    evidence: Evidence,
    is_interrupt: bool,
}

/// Who was refused most often; `None` where nobody was again and again.
fn asked(pool: &Object, case: &Case<'_>) -> Option<Asked> {
    let one = &case.events?.object(pool.address)?.pool;
    let threads = one.refused.iter().map(|(thread, refused)| (case.label(*thread), *refused, false));
    let interrupts = one.refused_interrupts.iter().map(|(number, refused)| (case.interrupt(*number), *refused, true));
    let all = threads.chain(interrupts).filter(|(_, refused, _)| refused.times >= OFTEN);
    let (who, refused, is_interrupt) = all.max_by_key(|(_, refused, _)| refused.times)?;
    let words = format!("{who} asked {} times in a row for a block and got none", refused.times);
    let text = format!("{who} asks for a block and gets none; again up to event {}", refused.last);
    Some(Asked { words, evidence: Evidence::event(refused.first.0, text), is_interrupt })
}

/// How a block is lost.
#[derive(Clone, Copy)]
enum Way {
    /// A function to which it is passed returns.
    Returns,
    /// The function that gets it returns, or gets the next one.
    LeadsOn,
}

/// Those who get memory of the pool, also as a message, with the function in which they lose it.
fn drops(pool: &Object, usage: &Usage<'_>) -> Vec<(User, Leak, Way)> {
    let queues = usage.queues_of(pool.address).into_iter().map(|queue| (Kind::Queue, queue));
    let sources: Vec<(Kind, Addr)> = std::iter::once((pool.kind, pool.address)).chain(queues).collect();
    let takers = |(kind, object): &(Kind, Addr)| usage.who(Act::Takes, Some(*kind), *object, None);
    let mut users: Vec<User> = sources.iter().filter_map(takers).flatten().collect();
    users.sort_unstable();
    users.dedup();
    let drop = |user: &User| {
        let passed = || sources.iter().find_map(|(kind, object)| usage.drops(*user, *kind, *object));
        let own = || sources.iter().find_map(|(kind, object)| usage.leak(*user, *kind, *object));
        let found = passed().map(|leak| (leak, Way::Returns)).or_else(|| own().map(|leak| (leak, Way::LeadsOn)));
        found.map(|(leak, way)| (*user, leak, way))
    };
    users.iter().filter_map(drop).collect()
}
