//! The memory of a pool, of which the words of the kernel in front of a block were overwritten. Most often somebody wrote past
//! the end of the block in front of it; or through a pointer to memory that was released, and that holds other blocks now.
//! The trace knows whose these blocks are. The next search of the pool follows what was written there, and faults: that fault
//! is listed under this.
//!
//! Against it: a stack that is in such a block overflows into the words in front of it. In the middle of a call that changes
//! the pool they may be anything: then it is a hint.

use super::super::cpus::{first_place, thread_of};
use super::super::events::{Freed, Giver};
use super::super::graph::Graph;
use super::super::usage::{Use, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::lost_blocks::{each_pointer, is_old, old};
use super::main_stack;
use super::static_pointers::{self, StaticPointer};
use super::words::text;
use super::wrong_index::{self, WrongIndex};
use super::wrong_mask::giver;
use crate::abi::{Addr, Region};
use crate::cpu::Effect;
use crate::kernel::api::Act;
use crate::kernel::{High, Kernel, Kind, Object, PoolBlock, PoolBlocks, Thread};
use crate::session::CpuState;

/// So near to an address that was written there is what a search reads that follows it.
const NEAR: u64 = 64;
/// What the names of functions begin with that change the memory of pools.
const CHANGE: [&str; 4] = ["_tx_byte_", "_tx_block_", "_txe_byte_", "_txe_block_"];
/// Addresses of one kind of memory on a CPU of 32 bits.
const BANK: u32 = 28;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let of = |pool: &Object| {
        let found = blocks(pool, case)?;
        let damage = match (found.damage, found.astray) {
            (Some(damage), _) => Damaged { at: Some(damage.at), words: damage.words.clone(), front: damage.front },
            (None, Some(astray)) => Damaged { at: None, words: vec![astray], front: None },
            (None, None) => return None,
        };
        Some(finding(pool, &damage, kernel, case, graph))
    };
    kernel.objects.iter().filter_map(of).collect()
}

/// The blocks of a pool that are in use, by their addresses; `None` where they cannot be read, or the words between them are damaged.
pub(super) fn blocks_in_use(pool: &Object, case: &Case<'_>) -> Option<Vec<PoolBlock>> {
    let mut all = blocks(pool, case).filter(|all| all.damage.is_none())?.all;
    all.retain(|block| !block.is_free);
    all.sort_unstable_by_key(|block| block.start);
    Some(all)
}

/// The blocks of a pool; `None` where they cannot be read, or must not be.
pub(super) fn blocks(pool: &Object, case: &Case<'_>) -> Option<PoolBlocks> {
    let shape = case.kernel?.layout.shape;
    let (start, len) = (pool.get("start")?, pool.get("size")?);
    let range = Region { start, len };
    if !case.look.is_stored() && !is_beside(start, case) {
        return None;
    }
    let width = shape.pointer.bytes();
    let mut read = |at: Addr, words: usize| {
        let bytes = case.look.within(range, at, words.checked_mul(width)?)?;
        Some(case.words(&bytes, true)).filter(|all| all.len() == words)
    };
    PoolBlocks::of(pool, shape, &mut read)
}

/// True for an address in such memory as control blocks and stacks are in: a start that was overwritten may be that of a
/// device, which must not be read.
pub(super) fn is_beside(start: Addr, case: &Case<'_>) -> bool {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let mut known = threads.flat_map(|thread| [Some(thread.address), thread.stack.start]).flatten();
    known.any(|at| at >> BANK == start >> BANK)
}

/// What is not whole.
struct Damaged {
    /// Where, in the pool's memory; `None` for the pointer to its first free block.
    at: Option<Addr>,
    words: Vec<u64>,
    front: Option<PoolBlock>,
}

fn finding(pool: &Object, damage: &Damaged, kernel: &Kernel, case: &Case<'_>, graph: &Graph) -> Finding {
    let name = format!("{} {}", pool.kind.name(), pool.label());
    let around = Around::of(pool, damage, case, graph);
    let (mut confidence, mut detractors) = case.cap(Confidence::Likely);
    // A call that changes the list of free blocks never has it point elsewhere.
    if let Some(function) = changing(case).filter(|_| damage.at.is_some()) {
        confidence = confidence.min(Confidence::Hint);
        detractors.push(format!("the CPU is in {function}, which may be about to change it"));
    }
    let stack = damage.at.and_then(|at| stack_behind(at, pool, kernel));
    detractors.extend(around.doubt());
    let reads = damage.words.first().copied().unwrap_or_default();
    let reads = format!("{reads:#x}{}", text(reads, case).map_or_else(String::new, |text| format!(" (\"{text}\")")));
    let counted = counted(pool, damage);
    let more = counted.as_deref().unwrap_or_default();
    let what = match damage.at {
        Some(at) => format!("at {at:#x}, where a block begins, it holds {reads}{more}"),
        None => format!("its list of free blocks points to {reads}, where none of its blocks begins"),
    };
    // The pointer to the first free block is in the control block, which others may write to; who has the block in front of the last one is
    // nearer.
    let is_head = damage.at.is_none() && around.front.is_none_or(|front| front.is_free);
    let below = is_head.then(|| head(pool, damage, case)).flatten();
    let below = below.map(|at| WrongIndex::below(at, case)).unwrap_or_default();
    let front = match stack {
        _ if !below.is_empty() => String::new(),
        Some(thread) => format!("; this is below the stack of {}, which was used to its end", thread.label()),
        None => around.in_front().map_or_else(String::new, |front| format!("; in front of it is {front}")),
    };
    // Where something else explains it, who points to the block in front says nothing.
    let is_explained = stack.is_some() || counted.is_some();
    let is_free = around.front.is_some_and(|front| front.is_free);
    let kept = if is_explained && !is_free { Vec::new() } else { around.pointers(damage.at, case) };
    let (one, several) = match is_free {
        true => ("still points to that free memory", "still point to that free memory"),
        false => ("points into that block", "point into that block"),
    };
    // One of them may be of a block that was there before.
    let is_shared = kept.len() > 1 && !is_free;
    let still = static_pointers::said("", &kept, one, several);
    let writer = if is_explained || around.is_known() || !below.is_empty() { None } else { allocator(pool, case) };
    let (by, who) = writer.map(|(by, who)| (format!("; {by}"), who)).unzip();
    let by = by.unwrap_or_default();
    let main = stack.is_none() && main_stack::is_above(pool, case);
    let above = if main { ", and above it the main stack, which grows down to it" } else { "" };
    let place = damage.at.and_then(|at| Some((at, case.look.raw(at)?)));
    let mut behind: Vec<Addr> = graph.tasks.waiting(pool.address).map(|task| task.address).collect();
    behind.extend(followers(&damage.words, case));
    behind.extend(searchers(case));
    let finding = Finding::new(
        Code::CorruptPool,
        (confidence, detractors),
        format!("the memory of {name} was overwritten: {what}{front}{above}{still}{by}"),
    )
    .evidence([words(pool, damage, &name)])
    .evidence(who)
    .evidence(kept.into_iter().map(|kept| kept.evidence))
    .evidence(around.evidence())
    .evidence(place.map(|(at, place)| Evidence::symbol(at, &place, format!("that is in {place}"))))
    .next(match stack {
        Some(thread) => format!("make the stack of {} larger", thread.label()),
        None if main => format!("{}; or make the main stack larger, on which interrupts run", around.next()),
        None if counted.is_some() => {
            format!("check the range of the indices of those who get blocks of this pool; or {}", around.next())
        }
        None if is_shared => format!(
            "{}; or find out which of the variables that point into it was set before the block was allocated",
            around.next()
        ),
        None => around.next(),
    })
    .threads([stack.map_or(pool.address, |thread| thread.address)])
    .affected(behind);
    wrong_index::may_be(below, finding)
}

/// Where the control block of a pool has the pointer to its first free block.
fn head(pool: &Object, damage: &Damaged, case: &Case<'_>) -> Option<Addr> {
    /// Words of a control block.
    const WORDS: u64 = 12;
    let words = case.words(&case.look.bytes(pool.address, case.width().checked_mul(WORDS)?)?, true);
    let mut all = (0..).zip(&words).filter(|(_, word)| Some(*word) == damage.words.first());
    // A small number may be the value of another member, too.
    let (Some((index, _)), None) = (all.next(), all.next()) else { return None };
    pool.address.checked_add(case.width().checked_mul(index)?)
}

/// The only thread that allocates blocks of a pool, by the code: others get them from it at most.
fn allocator(pool: &Object, case: &Case<'_>) -> Option<(String, Evidence)> {
    let all = case.usage()?.who(Act::Takes, Some(pool.kind), pool.address, None)?;
    let [User::Thread(only)] = all.as_slice() else { return None };
    // What is allocated before the kernel starts may be anybody's.
    let takes = |one: &Use| one.action.act == Act::Takes && one.object == Some(pool.address);
    if case.usage()?.uses_of(User::Start).iter().any(takes) {
        return None;
    }
    let name = case.label(*only);
    let text = format!("by the code, only {name} allocates blocks of this pool");
    Some((format!("only {name} allocates blocks of this pool"), Evidence::memory(pool.address, text)))
}

/// That the address of a block pool, which is in front of each block in use, was counted up: code used that word as a part of the block.
fn counted(pool: &Object, damage: &Damaged) -> Option<String> {
    /// The most by which it was.
    const MOST: u64 = 16;
    let by = damage.words.first()?.checked_sub(pool.address).filter(|by| (1..=MOST).contains(by))?;
    let of_block = pool.kind == Kind::BlockPool && damage.at.is_some();
    of_block.then(|| {
        format!(", {by} more than the address of the pool: code that counts at index -1 of the block that begins there has this effect")
    })
}

/// What is there, and what should be.
fn words(pool: &Object, damage: &Damaged, name: &str) -> Evidence {
    let all: Vec<String> = damage.words.iter().map(|word| format!("{word:#x}")).collect();
    let all = all.join(" ");
    let first = damage.words.first().copied().unwrap_or_default();
    let text = match (damage.at, pool.kind) {
        (None, _) => format!("{name}: its first free block is {all}"),
        (_, Kind::BytePool) => format!(
            "{all}: a block begins with the address of the next one, and with 0xffffeeee (free) or {:#x} (the pool)",
            pool.address
        ),
        _ => format!(
            "{all}: a block begins with the address of the next free one, or with {:#x} (the pool)",
            pool.address
        ),
    };
    Evidence::memory(damage.at.unwrap_or(pool.address), text).holds(first)
}

/// The only thread that was switched out and whose stack has an address in a block, and where: what is below its stack pointer does not
/// count.
fn on_stack(block: PoolBlock, case: &Case<'_>) -> Option<(String, Addr)> {
    if !case.look.is_stored() || case.trust.other_build {
        return None;
    }
    let old = old(case)?;
    let mut found: Vec<(Addr, &Thread)> = Vec::new();
    each_pointer(&[block], case, &mut |at, _| {
        // Where the stack pointer is not known, a word may be one that is over.
        let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
        let thread = threads.filter(|thread| thread.stack.pointer.is_some()).find(|thread| thread.stack.holds(at));
        let is_new = |thread: &Thread| !found.iter().any(|(_, other)| other.address == thread.address);
        if let Some(thread) = thread.filter(|thread| is_new(thread) && !is_old(at, &old)) {
            found.push((at, thread));
        }
    })?;
    if let [(at, thread)] = found.as_slice() { Some((thread.label(), *at)) } else { None }
}

/// Who had the memory around a damaged place.
struct Around {
    front: Option<PoolBlock>,
    /// Its first byte, who allocated it, in words, and the event.
    owner: Option<(String, u64)>,
    /// A block that was there before: its first byte, its owner, who released it, and it.
    freed: Option<(Addr, String, String, Freed)>,
    /// The only thread whose stack has the address of the block, and where; looked for where no event shows the owner.
    on_stack: Option<(String, Addr)>,
    /// The variable in front of the pool.
    before: Option<String>,
    kind: Kind,
}

impl Around {
    fn of(pool: &Object, damage: &Damaged, case: &Case<'_>, graph: &Graph) -> Self {
        let memory = case.events.and_then(|events| events.object(pool.address)).map(|one| &one.pool);
        let who = |thread: Addr| giver(Giver::Thread(thread), case, graph);
        // A list of free blocks that leads astray was written in the block that was allocated last.
        let word = pool.get("block_size").and_then(|len| len.checked_add(case.width()));
        let last = memory.filter(|_| damage.at.is_none()).and_then(|memory| memory.newest());
        let before_last = last.zip(word).and_then(|((start, _), step)| {
            let start =
                start.checked_sub(step).filter(|start| pool.get("start").is_some_and(|first| *start > first))?;
            let at = start.checked_sub(case.width())?;
            let is_free = memory.is_some_and(|memory| !memory.live.contains_key(&start));
            Some(PoolBlock { at, start, len: pool.get("block_size")?, is_free })
        });
        let front = damage.front.or(before_last);
        let live = front.and_then(|front| memory?.live.get(&case.stored(front.start)).copied());
        let front_before = front.filter(|front| front.is_free).and_then(|front| {
            let start = case.stored(front.start);
            Some((start, memory?.freed(start)?))
        });
        let freed = damage.at.and_then(|at| memory?.held(case.stored(at))).or(front_before);
        let before = damage.at.filter(|_| front.is_none()).and_then(|at| at.checked_sub(1));
        Self {
            front,
            owner: live.map(|block| (who(block.thread), block.seq)),
            on_stack: front.filter(|front| live.is_none() && !front.is_free).and_then(|front| on_stack(front, case)),
            freed: freed.map(|(at, old)| (at, who(old.block.thread), giver(old.by, case, graph), old)),
            before: before.and_then(|at| case.look.variable(at)).map(|symbol| symbol.name),
            kind: pool.kind,
        }
    }

    /// True where who had the memory is known.
    const fn is_known(&self) -> bool {
        self.owner.is_some() || self.freed.is_some() || self.on_stack.is_some()
    }

    /// Variables that point to the block in front: as far as the damage, where it is free.
    fn pointers(&self, damaged: Option<Addr>, case: &Case<'_>) -> Vec<StaticPointer> {
        let memory = self.front.zip(damaged).and_then(|(front, at)| {
            let end = if front.is_free {
                at.checked_add(case.width().checked_mul(2)?)?
            } else {
                front.start.checked_add(front.len)?
            };
            Some(Region { start: front.start, len: end.checked_sub(front.start)? })
        });
        memory.map(|memory| static_pointers::into(memory, case)).unwrap_or_default()
    }

    fn in_front(&self) -> Option<String> {
        let Some(front) = self.front else { return self.before.clone() };
        let which = format!("the block of {} bytes at {:#x}", front.len, front.start);
        Some(match (&self.owner, front.is_free) {
            (_, true) => match self.freed.as_ref().filter(|(start, ..)| *start == front.start) {
                Some((_, owner, by, _)) => format!("{which}, which is free: {owner} had it, and {by} released it"),
                None => format!("{which}, which is free"),
            },
            (Some((owner, _)), false) => format!("{which}, which {owner} allocated"),
            (None, false) => match &self.on_stack {
                Some((thread, _)) => {
                    format!("{which}, which is allocated: an address in it is on the stack of {thread}")
                }
                None => format!("{which}, which is allocated"),
            },
        })
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mut all = Vec::new();
        if let Some((front, (owner, seq))) = self.front.zip(self.owner.as_ref()) {
            all.push(Evidence::event(*seq, format!("{owner} allocates the block at {:#x}", front.start)));
        }
        all.extend(
            self.on_stack.as_ref().map(|(thread, at)| {
                Evidence::stack(*at, format!("the stack of {thread} has an address in that block"))
            }),
        );
        if let Some((start, owner, by, old)) = &self.freed {
            let len = old.block.len.map_or_else(String::new, |len| format!(" of {len} bytes"));
            all.push(Evidence::event(old.block.seq, format!("{owner} allocates a block{len} at {start:#x}")));
            all.push(Evidence::event(old.seq, format!("{by} releases it")));
        }
        all
    }

    fn doubt(&self) -> Option<String> {
        let (start, owner, ..) = self.freed.as_ref()?;
        let is_front = self.front.is_some_and(|front| front.start == *start);
        (!is_front).then(|| {
            format!("either block may be the one: that in front of it, or that which {owner} had there before")
        })
    }

    fn next(&self) -> String {
        let release = if self.kind == Kind::BytePool { "tx_byte_release" } else { "tx_block_release" };
        let past = match (&self.front, &self.owner, &self.before) {
            (Some(front), Some((owner, _)), _) if !front.is_free => {
                format!("look for a write of {owner} past the end of the block at {:#x}", front.start)
            }
            (Some(front), _, _) if front.is_free => format!(
                "look for a write past the end of the block at {:#x}, or through a pointer to it after its {release}",
                front.start
            ),
            (Some(front), ..) => format!("look for a write past the end of the block at {:#x}", front.start),
            (None, _, Some(before)) => format!("look for a write past the end of {before}"),
            (None, ..) => "look for a write past the end of what is in front of it".to_owned(),
        };
        match &self.freed {
            Some((start, _, by, _)) if self.front.is_none_or(|front| front.start != *start) || self.owner.is_some() => {
                format!("{past}, or for a pointer that is used after {by} called {release}")
            }
            _ => past,
        }
    }
}

/// The thread whose stack begins directly after the damaged words, and was used to its end.
fn stack_behind<'k>(at: Addr, pool: &Object, kernel: &'k Kernel) -> Option<&'k Thread> {
    let words = if pool.kind == Kind::BytePool { 2 } else { 1 };
    let start = at.checked_add((kernel.layout.shape.pointer.bytes() as u64).checked_mul(words)?)?;
    let is_behind = |thread: &&Thread| {
        let gap = thread.stack.start.and_then(|stack| stack.checked_sub(start));
        gap.is_some_and(|gap| gap < 16)
    };
    let is_full = |thread: &Thread| {
        thread.stack.high == High::Full || thread.saved.zip(thread.stack.start).is_some_and(|(sp, start)| sp < start)
    };
    kernel.threads.iter().find(is_behind).filter(|thread| is_full(thread))
}

/// The function of the kernel in which a CPU is, which may be changing a pool.
pub(super) fn changing(case: &Case<'_>) -> Option<String> {
    within(case, &|name| CHANGE.iter().any(|begin| name.starts_with(begin)))
}

/// The function in which a CPU is, or was when an interrupt came, where its name is one of these. A CPU in a fault is in none:
/// what it had begun it does not end.
pub(super) fn within(case: &Case<'_>, is: &dyn Fn(&str) -> bool) -> Option<String> {
    let names = |cpu: &CpuState| {
        let interrupted =
            first_place(cpu).filter(|_| cpu.registers.fault().is_none_or(|fault| fault.current != Some(true)));
        let places = interrupted.and_then(|place| place.functions.first()).into_iter();
        let all = cpu.functions.first().into_iter().chain(places);
        all.filter_map(|function| function.name.clone()).find(|name| is(name))
    };
    case.cpus?.all.iter().filter(|cpu| !in_fault(cpu)).find_map(names)
}

/// True for a CPU in a fault.
pub(super) fn in_fault(cpu: &CpuState) -> bool {
    let number = cpu.interrupted.as_ref().and_then(|found| found.exception);
    number.is_some_and(crate::cpu::is_fault) || cpu.registers.fault().is_some_and(|f| f.current == Some(true))
}

/// Threads that fault because they follow these words, which were written where the kernel had its own.
pub(super) fn followers(words: &[u64], case: &Case<'_>) -> Vec<Addr> {
    let follows = |at: Addr| words.iter().any(|word| *word >= NEAR && word.abs_diff(at) < NEAR);
    let of = |cpu: &CpuState| {
        let place = first_place(cpu);
        let effect = |effect: Option<Effect>| effect.and_then(|effect| effect.address());
        let fault = cpu.registers.fault().and_then(|fault| fault.address).map(|(at, _)| at);
        let mut all = [effect(cpu.effect), place.and_then(|place| effect(place.effect)), fault].into_iter().flatten();
        thread_of(cpu, case.kernel).filter(|_| all.any(follows)).map(|thread| thread.address)
    };
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(of).collect()
}

/// Threads that stop in a function that searches pools.
pub(super) fn searchers(case: &Case<'_>) -> Vec<Addr> {
    let of = |cpu: &CpuState| {
        let function = first_place(cpu).and_then(|place| place.functions.first()?.name.clone()).unwrap_or_default();
        let is_of_pools = CHANGE.iter().any(|begin| function.starts_with(begin));
        thread_of(cpu, case.kernel).filter(|_| is_of_pools).map(|thread| thread.address)
    };
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(of).collect()
}
