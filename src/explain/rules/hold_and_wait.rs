//! Threads that have memory of a pool and wait for more of it, while nobody else has any: each waits for what the others have. The
//! kernel does not keep who has a block. It is known here by the addresses in the stacks of the threads that wait: the words
//! above a stack pointer, with the registers that were saved there.
//!
//! Where one variable leads to all blocks that are in use, and all whose code has its address are threads that wait for more, it is the
//! same: channels that collect blocks in an array, say.
//!
//! Against it: a word may be left over from a call that has ended. So no other word in memory may lead to these blocks: no
//! message, no variable, no other stack; where the stack of a thread that waits for something else has the address of one too, it
//! is a hint. All blocks of a block pool have to be so. A byte pool has memory that is kept on purpose: what the threads have of
//! it has to be enough for one of their waits, and it is a hint.

use std::collections::{BTreeMap, BTreeSet};

use super::super::graph::Graph;
use super::super::state::Task;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::blocks_in_use;
use super::held_blocks::{self, Holder};
use super::lost_blocks::{each_pointer, holding, in_registers, is_old, old};
use super::static_pointers::kernel_memory;
use super::words::{function_at, waiting};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object, PoolBlock};
use crate::trace::many;

/// The most threads that wait for one pool, and the most pools.
const MOST: usize = 32;
const POOLS: usize = 8;
/// The most functions that are named.
const NAMED: usize = 4;
/// What to look at.
const NEXT: &str = "let each thread allocate all that it needs at once, or release what it has where it gets no more (TX_NO_WAIT); where the pool was to be enough for all at once, make it larger";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    if !case.look.is_stored() || case.trust.other_build {
        return Vec::new();
    }
    let objects = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let pools = objects.filter(|object| matches!(object.kind, Kind::BlockPool | Kind::BytePool));
    let pools = pools.filter(|pool| is_short(pool, graph)).take(POOLS);
    pools.filter_map(|pool| finding(pool, case, graph).or_else(|| in_variable(pool, case, graph))).collect()
}

/// Threads that wait for more, and alone use the variable that leads to all blocks.
fn in_variable(pool: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let waiting_for_ever = |task: &Task| task.wait.is_some_and(|wait| wait.forever).then_some(task.address);
    let waiters: Option<Vec<Addr>> = graph.tasks.waiting(pool.address).map(waiting_for_ever).collect();
    let waiters = waiters.filter(|all| pool.kind == Kind::BlockPool && (2..=MOST).contains(&all.len()))?;
    let Holder { variable, counts: (held, used), first } =
        held_blocks::holder(pool.address, case).filter(|holder| holder.counts.0 == holder.counts.1)?;
    let memory = Region { start: variable.address, len: variable.size.max(1) };
    let usage = case.usage()?;
    let functions = case.functions_with(memory);
    let users: BTreeSet<User> = functions.iter().flat_map(|at| usage.all_callers_of(*at)).collect();
    let threads: Option<Vec<Addr>> = users
        .iter()
        .map(|user| match user {
            User::Thread(at) if waiters.contains(at) => Some(*at),
            _ => None,
        })
        .collect();
    let threads = threads.filter(|all| all.len() > 1)?;
    if is_elsewhere(pool, memory, &waiters, case)? {
        return None;
    }
    let label = case.object(pool.address);
    let names: Vec<String> = threads.iter().map(|thread| case.label(*thread)).collect();
    let how = held_blocks::how(&variable, first, case);
    let others: Vec<Addr> = waiters.iter().copied().filter(|waiter| !threads.contains(waiter)).collect();
    let behind = graph.waiters(&waiters);
    let named: Vec<String> = functions.iter().take(NAMED).map(|at| function_at(*at, case)).collect();
    let text = format!(
        "by the code, those that have its address are {}: {} alone call them",
        named.join(", "),
        names.join(", ")
    );
    Some(
        Finding::new(
            Code::Deadlock,
            case.cap(Confidence::Likely),
            format!(
                "{} wait for more memory of {label}, and have all of it: {how} {held} of its {used} blocks in use, and they alone use that",
                names.join(", ")
            ),
        )
        .against(["who uses the variable is inferred from the program's code; others may release its blocks through a pointer"])
        .evidence(threads.iter().map(|thread| waiting(*thread, pool.address, case, graph)))
        .evidence([
            Evidence::memory(variable.address, text),
            Evidence::memory(pool.address, format!("{label}: {}", pool.state(&|_| String::new()))),
        ])
        .next(NEXT)
        .explains(others.iter().chain(&behind).filter_map(|thread| super::words::waits(*thread, case, graph)))
        .affected([pool.address])
        .affected(others)
        .affected(behind)
        .threads(threads),
    )
}

/// True where a word of other memory than a variable and the stacks of some threads, as a message, has the address of a block.
fn is_elsewhere(pool: &Object, variable: Region, threads: &[Addr], case: &Case<'_>) -> Option<bool> {
    let used = blocks_in_use(pool, case)?;
    let memory = Region { start: pool.get("start")?, len: pool.get("size")? };
    let (old, kernel) = (old(case)?, kernel_memory(case));
    let holds = |at: Addr| threads.iter().any(|thread| case.thread(*thread).is_some_and(|thread| thread.holds(at)));
    // What a CPU has in its registers, it can release.
    let mut found = registers(case).any(|word| holding(word, &used).is_some());
    each_pointer(&used, case, &mut |at, _| {
        let is_own = variable.contains(at) || memory.contains(at) || holds(at);
        found |= !is_own && !is_old(at, &old) && !kernel.iter().any(|region| region.contains(at));
    })?;
    Some(found)
}

/// True where threads wait for a pool that may have nothing left.
fn is_short(pool: &Object, graph: &Graph) -> bool {
    let waiters = graph.tasks.waiting(pool.address).count();
    match pool.kind {
        Kind::BlockPool => waiters > 0 && pool.get("available") == Some(0),
        _ => waiters > 1,
    }
}

/// Where the address of a block is.
struct Held {
    /// A word of the stack of its thread.
    at: Addr,
    block: PoolBlock,
}

/// The threads that wait for a pool for ever, and where their stacks are in use.
fn waiters(pool: Addr, case: &Case<'_>, graph: &Graph) -> Option<Vec<(Addr, Region)>> {
    let all = graph.tasks.waiting(pool);
    let stack = |task: &Task| used_stack(task, case).filter(|_| task.wait.is_some_and(|wait| wait.forever));
    // One that a time-out wakes may release what it has.
    all.map(stack).collect()
}

/// What the CPUs have in their registers, also where an exception came.
fn registers<'c>(case: &'c Case<'_>) -> impl Iterator<Item = u64> + 'c {
    let cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    cpus.flat_map(|cpu| {
        let places = cpu.interrupted.iter().flat_map(|found| &found.all).map(|place| &place.registers);
        std::iter::once(&cpu.registers).chain(places).flat_map(in_registers)
    })
}

/// What has the address of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    /// The stack of this thread, which waits for the pool.
    Waiter(Addr),
    /// The stack of this thread, which waits for something else without a time-out.
    Other(Addr),
    /// A register, or another word of memory.
    Else,
}

/// Who has the blocks of a pool.
struct Holders {
    /// What each of the threads that wait has.
    all: BTreeMap<Addr, Vec<Held>>,
    /// Threads whose stacks have the address of one of these blocks, too.
    others: BTreeSet<Addr>,
}

/// The threads that wait for something else for ever, and where their stacks are in use.
fn others(pool: Addr, case: &Case<'_>, graph: &Graph) -> Vec<(Addr, Region)> {
    let waits = |task: &&Task| task.wait.is_some_and(|wait| wait.forever && wait.object != pool);
    graph.tasks.list.iter().filter(waits).filter_map(|task| used_stack(task, case)).collect()
}

/// A thread, and where its stack is in use.
fn used_stack(task: &Task, case: &Case<'_>) -> Option<(Addr, Region)> {
    let stack = case.thread(task.address)?.stack;
    let (sp, end) = (stack.pointer.filter(|sp| stack.holds(*sp))?, stack.end()?);
    Some((task.address, Region { start: sp, len: end.checked_sub(sp)? }))
}

/// Who has them; `None` where that is not known.
fn held(pool: &Object, used: &[PoolBlock], case: &Case<'_>, graph: &Graph) -> Option<Holders> {
    let waiters = waiters(pool.address, case, graph).filter(|all| (1..=MOST).contains(&all.len()))?;
    let others = others(pool.address, case, graph);
    let memory = Region { start: pool.get("start")?, len: pool.get("size")? };
    let old = old(case)?;
    let mut by: BTreeMap<usize, (BTreeSet<Whose>, Addr)> = BTreeMap::new();
    // What a CPU has in its registers, it can release.
    for block in registers(case).filter_map(|word| holding(word, used)) {
        by.entry(block).or_insert_with(|| (BTreeSet::new(), 0)).0.insert(Whose::Else);
    }
    each_pointer(used, case, &mut |at, block| {
        if memory.contains(at) || is_old(at, &old) {
            return;
        }
        let within =
            |all: &[(Addr, Region)]| all.iter().find(|(_, stack)| stack.contains(at)).map(|(thread, _)| *thread);
        let other = || within(&others).map_or(Whose::Else, Whose::Other);
        let whose = within(&waiters).map_or_else(other, Whose::Waiter);
        let (all, first) = by.entry(block).or_insert_with(|| (BTreeSet::new(), at));
        if matches!(whose, Whose::Waiter(_)) && !all.iter().any(|whose| matches!(whose, Whose::Waiter(_))) {
            *first = at;
        }
        all.insert(whose);
    })?;
    let mut holders = Holders { all: BTreeMap::new(), others: BTreeSet::new() };
    for (block, (whose, at)) in by {
        let Some(block) = used.get(block) else { continue };
        if let Some((thread, others)) = only_waiter(&whose) {
            holders.all.entry(thread).or_default().push(Held { at, block: *block });
            holders.others.extend(others);
        }
    }
    Some(holders)
}

/// The only thread that waits and has the address of a block, with the other threads that have it; `None` where something else
/// has it.
fn only_waiter(whose: &BTreeSet<Whose>) -> Option<(Addr, Vec<Addr>)> {
    let mut waiter = None;
    let mut others = Vec::new();
    for one in whose {
        match one {
            Whose::Waiter(thread) if waiter.is_none() => waiter = Some(*thread),
            Whose::Other(thread) => others.push(*thread),
            _ => return None,
        }
    }
    Some((waiter?, others))
}

fn finding(pool: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let used = blocks_in_use(pool, case)?;
    let Holders { all: held, others: doubts } = held(pool, &used, case, graph)?;
    let count: usize = held.values().map(Vec::len).sum();
    let claimed = match pool.kind {
        Kind::BlockPool if count != used.len() => return None,
        // A device may have the only block.
        Kind::BlockPool if count > 1 && doubts.is_empty() => Confidence::Likely,
        Kind::BlockPool => Confidence::Hint,
        _ if !doubts.is_empty() => return None,
        _ => (held.len() > 1 && would_do(&held, case)).then_some(Confidence::Hint)?,
    };
    let label = case.object(pool.address);
    let threads: Vec<Addr> = held.keys().copied().collect();
    let has = |(thread, all): (&Addr, &Vec<Held>)| format!("{} ({})", case.label(*thread), size(pool.kind, all));
    let each: Vec<String> = held.iter().map(has).collect();
    let (code, all, wait) = match (threads.len(), pool.kind) {
        (1, _) => (Code::PoolEmpty, "has all memory", "it waits for more"),
        (_, Kind::BlockPool) => (Code::Deadlock, "have all memory", "each of them waits for more"),
        _ => (Code::Deadlock, "have memory", "each of them waits for more"),
    };
    let claim = format!("{} {all} of {label}, and {wait}", each.join(", "));
    let waiters: Vec<Addr> = graph.tasks.waiting(pool.address).map(|task| task.address).collect();
    let others: Vec<Addr> = waiters.iter().copied().filter(|waiter| !threads.contains(waiter)).collect();
    let behind = graph.waiters(&waiters);
    let word = |(thread, all): (&Addr, &Vec<Held>)| {
        let text =
            |held: &Held| format!("in the stack of {}: its block at {:#x}", case.label(*thread), held.block.start);
        all.first().map(|held| Evidence::stack(held.at, text(held)).holds(held.block.start))
    };
    let doubts: Vec<String> = doubts.iter().map(|thread| case.label(*thread)).collect();
    let left_over = format!(
        "the address of one is in the stack of {} as well: it is left over there, or there alone",
        doubts.join(" and ")
    );
    Some(
        Finding::new(code, case.cap(claimed), claim)
            .against((!doubts.is_empty()).then_some(left_over))
            .against(["who has a block is inferred from the addresses in the stacks; a device may have one (DMA), or the program keeps an index"])
            .evidence(threads.iter().map(|thread| waiting(*thread, pool.address, case, graph)))
            .evidence(held.iter().filter_map(word))
            .evidence([Evidence::memory(pool.address, format!("{label}: {}", pool.state(&|_| String::new())))])
            .next(NEXT)
            .explains(others.iter().chain(&behind).filter_map(|thread| super::words::waits(*thread, case, graph)))
            .affected([pool.address])
            .affected(others)
            .affected(behind)
            .threads(threads),
    )
}

/// True where what the threads have would be enough for the smallest of their waits.
fn would_do(held: &BTreeMap<Addr, Vec<Held>>, case: &Case<'_>) -> bool {
    let asked = held.keys().filter_map(|thread| case.thread(*thread)?.asks_bytes()).min();
    let bytes = held.values().flatten().map(|held| held.block.len).fold(0, u64::saturating_add);
    asked.is_some_and(|asked| bytes >= asked)
}

/// `2 blocks`, or `480 bytes`.
fn size(kind: Kind, all: &[Held]) -> String {
    match kind {
        Kind::BlockPool => many(u64::try_from(all.len()).unwrap_or(u64::MAX), "block", "blocks"),
        _ => many(all.iter().map(|held| held.block.len).fold(0, u64::saturating_add), "byte", "bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader of a queue still had the address of a block that it had released, and nobody was said to have the block.
    #[test]
    fn an_address_that_was_left_over_hid_who_has_a_block() {
        let of = |all: &[Whose]| only_waiter(&all.iter().copied().collect());
        assert_eq!(of(&[Whose::Waiter(1)]), Some((1, vec![])));
        assert_eq!(of(&[Whose::Waiter(1), Whose::Other(7)]), Some((1, vec![7])));
        assert_eq!(of(&[Whose::Waiter(1), Whose::Waiter(2)]), None);
        assert_eq!(of(&[Whose::Waiter(1), Whose::Else]), None);
        assert_eq!(of(&[Whose::Other(7)]), None);
    }
}
