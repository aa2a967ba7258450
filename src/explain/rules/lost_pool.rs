//! A pool of blocks that is used up, though nobody waits for it: interrupts and threads that do not wait get nothing more. That no
//! pointer to its blocks is left in memory shows that they are lost; a path on which one who gets such a block returns without
//! releasing it, who loses them.
//!
//! Against it: a device may have the addresses, or the program keeps an index in place of a pointer.

use super::super::graph::Graph;
use super::super::usage::{Leak, Usage, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::lost_blocks;
use super::pools::{NO_POINTER, NOT_IN_MEMORY};
use super::words::{function_at, place_at};
use crate::kernel::api::Act;
use crate::kernel::{Kind, Object};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let is_used_up = |object: &&Object| object.kind == Kind::BlockPool && object.get("available") == Some(0);
    // Who waits for memory is the other rules' matter.
    let is_unwaited = |pool: &&Object| graph.tasks.waiting(pool.address).next().is_none();
    objects.filter(is_used_up).filter(is_unwaited).filter_map(|pool| finding(pool, case)).collect()
}

fn finding(pool: &Object, case: &Case<'_>) -> Option<Finding> {
    let lost = lost_blocks::of(pool, case)?;
    let usage = Usage::of(case);
    let leaks = usage.as_ref().map(|usage| leaks(pool, usage)).unwrap_or_default();
    let only = if let [only] = leaks.as_slice() { Some(*only) } else { None };
    let claimed = if only.is_some() { Confidence::Likely } else { Confidence::Hint };
    let label = case.object(pool.address);
    let state = pool.state(&|at| case.label(at));
    let path = only.map_or_else(String::new, |(user, leak)| {
        let (who, function) = (user_name(user, case), function_at(leak.function, case));
        format!("; {function}, which {who} calls, has a path on which it does not release its memory")
    });
    let at = |(_, leak): (User, Leak)| {
        let text = "a path of it returns and does not release the memory that it got".to_owned();
        Evidence::symbol(leak.at, &place_at(leak.at, case), text)
    };
    let thread = only.and_then(|(user, _)| if let User::Thread(at) = user { Some(at) } else { None });
    Some(
        Finding::new(
            Code::PoolLeak,
            case.cap(claimed),
            format!("{label} is used up ({state}), and {}{path}", lost.words),
        )
        .against([NOT_IN_MEMORY])
        .against(only.is_some().then_some("which path was taken is inferred from the program's code"))
        .evidence([Evidence::memory(pool.address, label)])
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

/// Those who get memory of the pool, also as a message, and have a path on which they lose it.
fn leaks(pool: &Object, usage: &Usage<'_>) -> Vec<(User, Leak)> {
    let queues = usage.queues_of(pool.address);
    let sources: Vec<(Kind, u64)> = std::iter::once((pool.kind, pool.address))
        .chain(queues.into_iter().map(|queue| (Kind::Queue, queue)))
        .collect();
    let takers = |(kind, object): &(Kind, u64)| usage.who(Act::Takes, Some(*kind), *object, None);
    let mut users: Vec<User> = sources.iter().filter_map(takers).flatten().collect();
    users.sort_unstable();
    users.dedup();
    let leak = |user: &User| {
        let of = |(kind, object): &(Kind, u64)| {
            usage.leak(*user, *kind, *object).or_else(|| usage.drops(*user, *kind, *object))
        };
        Some((*user, sources.iter().find_map(of)?))
    };
    users.iter().filter_map(leak).collect()
}
