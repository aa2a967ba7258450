//! A pool of blocks that is used up, though nobody waits for it: interrupts and threads that do not wait ask for a block and get
//! nothing. That no pointer to its blocks is left in memory shows that they are lost; a path on which one who gets such a block
//! returns without releasing it, who loses them.
//!
//! Against it: a device may have the addresses, or the program keeps an index in place of a pointer. A pool of which all blocks were
//! given to a device at the start looks the same, but nobody asks for more. Who allocates and keeps it may have passed it to a
//! device: only a function that gets a block and releases it on another path makes it likely.

use super::super::graph::Graph;
use super::super::usage::{Leak, Usage, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::lost_blocks;
use super::pools::{NO_POINTER, NOT_IN_MEMORY};
use super::words::{function_at, place_at};
use crate::abi::Addr;
use crate::kernel::api::Act;
use crate::kernel::{Kind, Object};

/// So often somebody has to ask.
const OFTEN: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let is_used_up = |object: &&Object| object.kind == Kind::BlockPool && object.get("available") == Some(0);
    // Who waits for memory is the other rules' matter.
    let is_unwaited = |pool: &&Object| graph.tasks.waiting(pool.address).next().is_none();
    objects.filter(is_used_up).filter(is_unwaited).filter_map(|pool| finding(pool, case)).collect()
}

fn finding(pool: &Object, case: &Case<'_>) -> Option<Finding> {
    let asked = asked(pool, case)?;
    let lost = lost_blocks::of(pool, case)?;
    let usage = case.usage();
    let drops = usage.map(|usage| drops(pool, usage)).unwrap_or_default();
    let only = if let [only] = drops.as_slice() { Some(*only) } else { None };
    // A thread that gets nothing may do without.
    if only.is_none() && !asked.is_interrupt {
        return None;
    }
    let claimed = if only.is_some() { Confidence::Likely } else { Confidence::Hint };
    let label = case.object(pool.address);
    let state = pool.state(&|at| case.label(at));
    let path = only.map_or_else(String::new, |(user, leak)| {
        let (who, function) = (user_name(user, case), function_at(leak.function, case));
        format!("; {function}, which {who} calls, may return without releasing the block that it got")
    });
    let at = |(_, leak): (User, Leak)| {
        let text = "a path of it returns without releasing the block that it got".to_owned();
        Evidence::symbol(leak.at, &place_at(leak.at, case), text)
    };
    let thread = only.and_then(|(user, _)| if let User::Thread(at) = user { Some(at) } else { None });
    Some(
        Finding::new(
            Code::PoolLeak,
            case.cap(claimed),
            format!("{label} is used up ({state}), {}, and {}{path}", asked.words, lost.words),
        )
        .against([NOT_IN_MEMORY])
        .against(only.is_some().then_some("which path was taken is inferred from the program's code"))
        .evidence([Evidence::memory(pool.address, label), asked.evidence])
        .evidence(lost.evidence)
        .evidence(only.map(at))
        .next(match only {
            Some((_, leak)) => {
                format!("look for a path of {} that returns without a release", function_at(leak.function, case))
            }
            None => NO_POINTER.to_owned(),
        })
        .threads(thread)
        .affected([pool.address]),
    )
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

/// Those who get memory of the pool, also as a message, with the function in which they lose it.
fn drops(pool: &Object, usage: &Usage<'_>) -> Vec<(User, Leak)> {
    let queues = usage.queues_of(pool.address).into_iter().map(|queue| (Kind::Queue, queue));
    let sources: Vec<(Kind, Addr)> = std::iter::once((pool.kind, pool.address)).chain(queues).collect();
    let takers = |(kind, object): &(Kind, Addr)| usage.who(Act::Takes, Some(*kind), *object, None);
    let mut users: Vec<User> = sources.iter().filter_map(takers).flatten().collect();
    users.sort_unstable();
    users.dedup();
    let drop = |user: &User| {
        let of = |(kind, object): &(Kind, Addr)| usage.drops(*user, *kind, *object);
        Some((*user, sources.iter().find_map(of)?))
    };
    users.iter().filter_map(drop).collect()
}
