//! Pools of memory that only drain. `pool-leak`: blocks of one allocator are kept far longer than any that was released, while
//! blocks of two later rounds of that thread were released, so they are neither buffers that are kept on purpose from the start
//! nor a burst that is still in use. Of a thread of which no block was released that is not known: where the pool is used up,
//! it is a hint.
//! `pool-empty`: a thread waits for memory of a pool, for long, or asks again and again without a wait and gets none; who has
//! the memory is not known from the kernel. A byte pool may have enough bytes free, in pieces that are all too small: its
//! chain of blocks in memory shows the largest.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::super::events::{Block, Events, Giver, One, Refused};
use super::super::graph::Graph;
use super::super::state::Task;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::blocks;
use super::flushed;
use super::lost_blocks::{self, Lost};
use super::lost_pool::{self, Dropped};
use super::not_sent_on::{self, NotSentOn};
use super::released_alone;
use super::waiting_blocks;
use super::words::{waiting, waits};
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// Blocks that are kept.
const FEWEST: usize = 2;
/// What speaks against a leak.
const KEPT: &str = "blocks that are kept on purpose look the same";
const IN_USE: &str = "they may be in use: no block of that thread was released in the trace";
/// So many blocks of one size in use are a sign of a leak; a block has fewer bytes more than were asked for.
const ALIKE: usize = 8;
const ROUNDED: u64 = 24;
/// What speaks against what is said of a pool that is used up.
const NOT_KNOWN: &str = "a pool may be used up for a moment; who has its memory is not known from the kernel";
pub(super) const NOT_IN_MEMORY: &str =
    "a device may have these addresses, or the program keeps an index in place of a pointer";
/// What to do about blocks to which no pointer is left.
pub(super) const NO_POINTER: &str = "look for a path that drops a pointer to a block without its release: in those who allocate, and who read the \
queues that blocks go through";
/// A byte pool of which less than one part in so many is free is used up, also where that is more than was asked for.
const LITTLE: u64 = 8;
/// So often in a row a thread gets nothing.
const OFTEN: u64 = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return empty(case, graph) };
    let leaks = events.objects().filter_map(|(pool, one)| leak(pool, one, events, case, graph));
    let mut found: Vec<Finding> = leaks.chain(empty(case, graph)).collect();
    found.extend(events.objects().filter_map(|(pool, one)| refused(pool, one, events, case, graph)));
    found.extend(events.objects().filter_map(|(pool, one)| refused_interrupt(pool, one, events, case)));
    found
}

/// By the thread that allocated them, the most first.
fn worst(kept: &[Block]) -> Option<(Addr, Vec<Block>)> {
    let mut by: BTreeMap<Addr, Vec<Block>> = BTreeMap::new();
    kept.iter().for_each(|block| by.entry(block.thread).or_default().push(*block));
    by.into_iter().max_by_key(|(_, blocks)| blocks.len())
}

/// Blocks that are kept one after the other from some moment on are a store that was filled, unless somebody waits for memory.
fn is_spread(blocks: &[Block]) -> bool {
    let numbers = blocks.first().zip(blocks.last()).map(|(first, last)| last.number.saturating_sub(first.number));
    numbers.is_some_and(|numbers| numbers >= blocks.len() as u64)
}

fn leak(pool: Addr, one: &One, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let object = in_memory(pool, events, case);
    let without: Vec<Addr> = asking(one, events).map(|(thread, _)| full(thread, case, graph)).collect();
    let is_used_up =
        graph.tasks.waiting(object).any(|task| events.is_long(task.address, object)) || !without.is_empty();
    // What waits in a queue is in use: its reader has to release it.
    let of_memory = || case.kernel.and_then(|kernel| kernel.object(object));
    let in_queues = || of_memory().map(|pool| waiting_blocks::of_pool(pool, case)).unwrap_or_default();
    // And a thread uses what is on its stack.
    let on_stacks = || of_memory().map(|pool| lost_blocks::on_stacks(pool, case)).unwrap_or_default();
    let find = || {
        let queued = in_queues();
        let all = queued.iter().flat_map(|w| w.blocks.keys().copied()).chain(on_stacks());
        all.map(|start| events.stored(start)).collect::<BTreeSet<Addr>>()
    };
    let in_use = OnceCell::new();
    let kept = |mut blocks: Vec<Block>| {
        blocks.retain(|block| !in_use.get_or_init(find).contains(&block.start));
        worst(&blocks)
    };
    let left = kept(one.pool.left_behind()).filter(|(_, blocks)| is_spread(blocks) || is_used_up);
    let is_sure = left.is_some();
    let never = || kept(one.pool.never_released()).filter(|_| is_used_up);
    let (thread, blocks) = left.or_else(never)?;
    if blocks.len() < FEWEST {
        return None;
    }
    let count = blocks.len();
    let (by, label) = (case.label(full(thread, case, graph)), case.object(object));
    let releasers: Vec<String> = one.pool.released.keys().map(|by| giver(*by, case, graph)).collect();
    let released: u64 = one.pool.released.values().sum();
    let others = match releasers.as_slice() {
        [] => "none was released".to_owned(),
        all => format!("{released} others were released, by {}", all.join(", ")),
    };
    let (confidence, mut detractors) = case.by_events();
    // Who opens several things and closes them later looks the same: a pool with room for more may not drain at all.
    let state = case.kernel.and_then(|kernel| kernel.object(object));
    let has_room = !is_used_up && state.is_some_and(is_half_free);
    let queued = may_be_queued(thread, count, events, case);
    let is_sure = is_sure && queued.is_none();
    let confidence = if is_sure && !has_room { confidence } else { confidence.min(Confidence::Hint) };
    detractors.push(queued.unwrap_or_else(|| if is_sure { KEPT } else { IN_USE }.to_owned()));
    let taken = |block: &Block| Evidence::event(block.seq, format!("{by} allocates a block that is not released"));
    let mut behind: Vec<Addr> = graph.tasks.waiting(object).map(|task| task.address).collect();
    behind.extend(without);
    let dropped = state.and_then(|pool| Dropped::of_thread(full(thread, case, graph), pool, case));
    // A trace may lack the events of threads that block.
    let is_still = |(thread, seq): &(Addr, u64)| {
        let waits = graph.tasks.waiting(object).any(|task| events.is(task.address, *thread));
        waits || events.activity(*thread).is_some_and(|activity| activity.last == *seq)
    };
    let waiting = one.pool.waits.filter(is_still).filter(|_| case.kernel.is_none());
    let waiting = waiting.map(|(thread, seq)| (case.label(thread), seq));
    let waits_for_it = waiting.as_ref().map_or_else(String::new, |(waiter, _)| format!(", and {waiter} waits for it"));
    let not_sent = || NotSentOn::of(one.pool.released.keys(), (thread, count), events, case, graph);
    let not_sent = if dropped.is_none() { not_sent() } else { None };
    let behind_it = dropped.as_ref().map(|dropped| &dropped.words).or(not_sent.as_ref().map(|one| &one.words));
    let claim = format!(
        "{label} drains{waits_for_it}: of {} blocks that were allocated in the trace, {count} of {by}{} were not released; {others}{}",
        one.pool.allocated,
        same_length(&blocks),
        behind_it.map_or_else(String::new, |words| format!("; {words}")),
    );
    // Who allocates passes each block on.
    let is_passed_on = !releasers.is_empty() && !one.pool.released.contains_key(&Giver::Thread(thread));
    let path = if is_passed_on {
        format!("look for a path on which neither {by} nor {} releases a block of {by}", releasers.join(" or "))
    } else {
        format!("look for a path of {by} that does not release its block")
    };
    let next = dropped.as_ref().map(|dropped| &dropped.next).or(not_sent.as_ref().map(|one| &one.next)).cloned();
    Some(
        Finding::new(Code::PoolLeak, (confidence, detractors), claim)
            .evidence(state.map(|object| {
                Evidence::memory(object.address, format!("{label}: {}", object.state(&|_| String::new())))
            }))
            .evidence(blocks.iter().take(3).map(taken))
            .against(dropped.as_ref().map(|_| lost_pool::AGAINST))
            .evidence(dropped.map(|dropped| dropped.evidence))
            .against(not_sent.as_ref().map(|_| not_sent_on::AGAINST))
            .evidence(not_sent.and_then(|one| one.evidence))
            .evidence(waiting.map(|(waiter, seq)| {
                Evidence::event(
                    seq,
                    format!("{waiter} asks for a block, finds none and waits; no event behind it releases one"),
                )
            }))
            .next(next.unwrap_or(path))
            .explains(graph.tasks.waiting(object).filter_map(|task| waits(task.address, case, graph)))
            .affected(behind),
    )
}

/// ` (of 200 bytes each)`, where all were asked for so.
fn same_length(blocks: &[Block]) -> String {
    let first = blocks.first().and_then(|block| block.len);
    first
        .filter(|_| blocks.iter().all(|block| block.len == first))
        .map_or_else(String::new, |len| format!(" (of {len} bytes each)"))
}

/// The queues with messages of a thread that nobody has taken, where memory does not show what is in them: as many as blocks that
/// are not released, but for one that the reader has and one that the thread is about to send.
fn may_be_queued(thread: Addr, blocks: usize, events: &Events, case: &Case<'_>) -> Option<String> {
    if case.kernel.is_some() {
        return None;
    }
    let left = |(queue, one): (Addr, &One)| {
        let untaken = one.untaken.filter(|_| one.givers.contains_key(&Giver::Thread(thread)))?;
        (events.kind(queue) == Some(Kind::Queue)).then_some((queue, untaken.held.1))
    };
    let queues: Vec<(Addr, u64)> = events.objects().filter_map(left).collect();
    let messages = queues.iter().map(|(_, messages)| *messages).fold(2, u64::saturating_add);
    let names: Vec<String> = queues.iter().map(|(queue, _)| case.object(*queue)).collect();
    let is_enough = !queues.is_empty() && u64::try_from(blocks).is_ok_and(|blocks| blocks <= messages);
    is_enough.then(|| format!("they may be in messages that wait in {}: the RAM shows that", names.join(", ")))
}

fn is_half_free(pool: &Object) -> bool {
    let all = pool.get(if pool.kind == Kind::BytePool { "size" } else { "total" });
    pool.get("available").zip(all).is_some_and(|(free, all)| free >= all / 2)
}

/// The whole address of a thread that the trace may have cut.
fn full(stored: Addr, case: &Case<'_>, graph: &Graph) -> Addr {
    graph.stored(case, stored).map_or(stored, |task| task.address)
}

/// The whole address of an object that the trace may have cut.
fn in_memory(stored: Addr, events: &Events, case: &Case<'_>) -> Addr {
    let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
    objects.iter().map(|object| object.address).find(|address| events.is(*address, stored)).unwrap_or(stored)
}

/// What a pool in memory can give.
struct Room {
    /// In words.
    text: String,
    /// The most bytes at once.
    largest: Option<u64>,
    /// All bytes of free blocks.
    free: u64,
    /// All bytes of the pool.
    all: u64,
    /// The bytes of each block of a byte pool that is in use.
    used: Vec<u64>,
}

impl Room {
    fn of(pool: Addr, case: &Case<'_>) -> Option<Self> {
        let object = case.kernel?.object(pool)?;
        let free = object.get("available")?;
        let chain = (object.kind == Kind::BytePool).then(|| blocks(object, case)).flatten();
        let chain = chain.filter(|chain| chain.damage.is_none());
        let largest = match object.kind {
            Kind::BytePool => chain.as_ref().map(|chain| chain.largest()),
            _ => Some(if free == 0 { 0 } else { object.get("block_size")? }),
        };
        let pieces = chain.as_ref().map(|chain| chain.all.iter().filter(|block| block.is_free).count());
        let text = text(object.state(&|_| String::new()), object.kind, free, largest.zip(pieces));
        let used = chain.iter().flat_map(|chain| &chain.all).filter(|block| !block.is_free).map(|block| block.len);
        let all = object.get("size").unwrap_or(free);
        Some(Self { text, largest, free, all, used: used.collect() })
    }

    /// Of the blocks in use, those of the size that is asked for, where most are: who asks has them, and does not release them.
    /// The kernel makes a block a little larger, not to leave a piece that is too small.
    fn alike(&self, asked: u64) -> Option<String> {
        let is_alike = |len: &&u64| (asked..asked.saturating_add(ROUNDED)).contains(*len);
        let (alike, all) = (self.used.iter().filter(is_alike).count(), self.used.len());
        (alike >= ALIKE && alike >= all.saturating_sub(all / 4))
            .then(|| format!("{alike} of the {all} blocks in use have this size"))
    }

    /// True where it has enough bytes, not as the little rest of a pool that is used up, and no piece has.
    fn is_fragmented(&self, asked: u64) -> bool {
        self.free >= asked.max(self.all / LITTLE) && self.is_short(asked) == Some(true)
    }

    /// True where it cannot give so many bytes; `None` where that is not known.
    fn is_short(&self, asked: u64) -> Option<bool> {
        match self.largest {
            Some(largest) => Some(largest < asked),
            None => (self.free < asked).then_some(true),
        }
    }
}

/// What a pool has: ` (96 of 12288 bytes free, in 2 pieces; the largest can give 48)`, and whether that is too small for what was asked
/// of a byte pool.
pub(super) fn room(pool: Addr, asked: u64, case: &Case<'_>) -> String {
    match Room::of(pool, case) {
        Some(room) if room.largest.is_some() && room.is_fragmented(asked) => {
            format!(", which is fragmented ({})", room.text)
        }
        Some(room) => format!(" ({})", room.text),
        None => String::new(),
    }
}

/// What a pool has, in words. `pieces`: the bytes that the largest can give, which has words of the kernel as well, and how many
/// there are.
fn text(state: String, kind: Kind, free: u64, pieces: Option<(u64, usize)>) -> String {
    match pieces {
        _ if kind == Kind::BytePool && free == 0 => "no byte free".to_owned(),
        Some((largest, 1)) => format!("{state}, in 1 piece, which can give {largest}"),
        Some((largest, pieces)) if pieces > 0 => {
            format!("{state}, in {pieces} pieces; the largest can give {largest}")
        }
        _ => state,
    }
}

fn empty(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_pool = |kind| matches!(kind, Kind::BlockPool | Kind::BytePool);
    // Whose memory waits in a queue is a rule of its own.
    let queued = waiting_blocks::find(case, graph);
    let is_queued = |pool: Addr| queued.iter().any(|finding| finding.affected.contains(&pool));
    let mut found: Vec<Finding> = Vec::new();
    for task in &graph.tasks.list {
        let Some(wait) = task.wait.filter(|wait| is_pool(wait.kind) && wait.forever) else { continue };
        if !is_queued(wait.object) && !found.iter().any(|f| f.affected.contains(&task.address)) {
            found.push(waits_for_memory(task, wait.object, case, graph));
        }
    }
    found
}

fn waits_for_memory(task: &Task, pool: Addr, case: &Case<'_>, graph: &Graph) -> Finding {
    let released = case.events.and_then(|events| events.object(pool)).is_some_and(|one| !one.givers.is_empty());
    let long = case.events.is_some_and(|events| events.is_long(task.address, pool));
    let asked = case.thread(task.address).and_then(crate::kernel::Thread::asks_bytes);
    let room = Room::of(pool, case);
    let lost = lost(pool, case).filter(|_| long);
    let fragmented = asked.zip(room.as_ref()).is_some_and(|(asked, room)| room.is_fragmented(asked));
    // That nothing is released rests on what the trace does not show; who asks may wait on purpose until others are done.
    let claimed = if long && fragmented { Confidence::Likely } else { Confidence::Hint };
    let (name, label) = (case.label(task.address), case.object(pool));
    let state = room.as_ref().map_or_else(String::new, |room| format!(" ({})", room.text));
    let what = asked.map_or_else(|| "memory".to_owned(), |asked| format!("{asked} bytes"));
    let alike = asked.zip(room.as_ref()).filter(|_| long && !released).and_then(|(asked, room)| room.alike(asked));
    let leak = alike.filter(|_| lost.is_none());
    let leak =
        leak.map_or_else(String::new, |alike| format!("; {alike}, and none is released, which looks like a leak"));
    let claim = if fragmented {
        format!("{name} waits for {what} of {label}, which is fragmented{state}")
    } else {
        format!("{name} waits for {what} of {label}{state}{leak}")
    };
    let next = if fragmented {
        "give blocks of this size a block pool of their own, or allocate what is kept for long first".to_owned()
    } else {
        next(pool, case.events)
    };
    let mut behind: Vec<Addr> = graph.tasks.waiting(pool).map(|task| task.address).collect();
    behind.extend(graph.waiters(&behind));
    let others: Vec<Addr> = behind.iter().copied().filter(|other| *other != task.address).collect();
    let flushed = lost.as_ref().and_then(|_| flushed::of(pool, case));
    let alone = lost.as_ref().and_then(|_| released_alone::of(pool, case)).filter(|_| flushed.is_none());
    let object = || case.kernel?.object(pool);
    let dropped = || Dropped::of(object()?, case);
    let dropped = if flushed.is_none() && alone.is_none() { dropped() } else { None };
    // Fewer that are lost are a sign only where there is a path for it.
    let lost = lost.or_else(|| lost_blocks::half(object().filter(|_| dropped.is_some())?, case));
    let dropped = dropped.filter(|_| lost.is_some());
    let path = dropped.as_ref().map_or_else(String::new, |dropped| format!("; {}", dropped.words));
    let (code, claimed, claim, next) = match (&lost, &flushed, &alone) {
        (Some(lost), _, Some(alone)) => {
            let claim = format!("{claim}: {}; {}", lost.words, alone.words);
            (Code::PoolLeak, Confidence::Hint, claim, alone.next.clone())
        }
        (Some(lost), Some((words, _)), None) => {
            (Code::PoolLeak, Confidence::Hint, format!("{claim}: {}; {words}", lost.words), flushed::NEXT.to_owned())
        }
        (Some(lost), None, None) => {
            let claim = format!("{claim}: {}{path}", lost.words);
            let next = dropped.as_ref().map_or_else(|| NO_POINTER.to_owned(), |dropped| dropped.next.clone());
            (Code::PoolLeak, Confidence::Hint, claim, next)
        }
        (None, ..) => (Code::PoolEmpty, claimed, claim, next),
    };
    let is_lost = lost.is_some();
    let few = object().filter(|_| !is_lost && !fragmented && long);
    let few = few.and_then(|pool| lost_blocks::quarter(pool, case));
    let is_few = few.is_some();
    let (code, claim, next) = match &few {
        Some(few) => (Code::PoolLeak, format!("{claim}; {}", few.words), NO_POINTER.to_owned()),
        None => (code, claim, next),
    };
    let finding = Finding::new(code, case.cap(claimed), claim)
        .against(few.as_ref().map(|_| NOT_IN_MEMORY))
        .against([match &lost {
            Some(_) => NOT_IN_MEMORY,
            None if fragmented => "pieces that are released later may join to a larger one",
            None => NOT_KNOWN,
        }])
        .evidence([waiting(task.address, pool, case, graph), Evidence::memory(pool, label)])
        .evidence(lost.or(few).into_iter().flat_map(|lost| lost.evidence))
        .against(dropped.as_ref().map(|_| lost_pool::AGAINST))
        .evidence(dropped.map(|dropped| dropped.evidence))
        .against(flushed.as_ref().map(|_| flushed::AGAINST))
        .evidence(flushed.map(|(_, evidence)| evidence))
        .against(alone.as_ref().map(|_| released_alone::AGAINST))
        .evidence(alone.map(|alone| alone.evidence))
        .explains(others.into_iter().filter_map(|other| waits(other, case, graph)))
        .next(next)
        .threads([task.address])
        .affected(behind)
        // Memory comes back, and is soon used again.
        .usual(claimed == Confidence::Hint && released && !is_lost && !is_few);
    if is_lost { finding } else { finding.with_holder(pool, case) }
}

fn lost(pool: Addr, case: &Case<'_>) -> Option<Lost> {
    lost_blocks::of(case.kernel?.object(pool)?, case)
}

/// The command has the pool's address: a name comes from the target, and is not for a shell.
fn next(pool: Addr, events: Option<&Events>) -> String {
    if events.is_some_and(|events| events.object(pool).is_some()) {
        format!("`list --object {pool:#x}` shows who allocates and who releases")
    } else {
        "look at the code that allocates from it; a larger trace buffer can show who has its memory".to_owned()
    }
}

/// The threads that ask without a wait, and have got nothing for long.
fn asking<'o>(one: &'o One, events: &'o Events) -> impl Iterator<Item = (Addr, Refused)> + 'o {
    let recent = events.recent();
    let is_long = move |from: i64| events.span.1.saturating_sub(from) >= events.length() / 4;
    let all = one.pool.refused.iter();
    all.filter(move |(_, refused)| refused.times >= OFTEN && refused.last >= recent && is_long(refused.first.1))
        .map(|(thread, refused)| (*thread, *refused))
}

fn refused(stored: Addr, one: &One, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let pool = in_memory(stored, events, case);
    let room = Room::of(pool, case);
    let is_short = |len: Option<u64>| room.as_ref().is_none_or(|room| room.is_short(len.unwrap_or(1)) == Some(true));
    let all: Vec<_> = asking(one, events).filter(|(_, refused)| is_short(refused.len)).collect();
    let (_, first) = all.iter().max_by_key(|(_, refused)| refused.times)?;
    let label = case.object(pool);
    let name = |thread: Addr| case.label(full(thread, case, graph));
    let asks = |(thread, refused): &(Addr, Refused)| {
        let what = refused.len.map_or_else(|| "a block".to_owned(), |len| format!("{len} bytes"));
        format!("{} asked {} times in a row for {what}", name(*thread), refused.times)
    };
    let asked: Vec<String> = all.iter().map(asks).collect();
    // A store that is full on purpose refuses as well.
    let claimed = Confidence::Hint;
    // What others release may be of any thread.
    let alike = first.len.zip(room.as_ref()).filter(|_| one.pool.released.is_empty());
    let alike = alike.and_then(|(len, room)| room.alike(len));
    let fragmented = first.len.zip(room.as_ref()).is_some_and(|(len, room)| room.is_fragmented(len));
    let state = room.map_or_else(String::new, |room| format!(" ({})", room.text));
    let state = if fragmented { format!(", which is fragmented{state}") } else { state };
    let lost = lost(pool, case);
    let dropped = case.kernel.filter(|_| lost.is_some()).and_then(|kernel| Dropped::of(kernel.object(pool)?, case));
    let path = dropped.as_ref().map_or_else(String::new, |dropped| format!("; {}", dropped.words));
    let (code, why, against, next) = match &lost {
        Some(lost) => {
            let next = dropped.as_ref().map_or_else(|| NO_POINTER.to_owned(), |dropped| dropped.next.clone());
            (Code::PoolLeak, format!("; {}{path}", lost.words), NOT_IN_MEMORY, next)
        }
        None => {
            let why = alike
                .as_ref()
                .map_or_else(String::new, |alike| format!("; {alike}, and none is released, which looks like a leak"));
            (
                Code::PoolEmpty,
                why,
                "a thread may do without that memory; who has it is not known from the kernel",
                next(pool, Some(events)),
            )
        }
    };
    let events_of = |(thread, refused): &(Addr, Refused)| {
        let text = format!("{} asks and gets no memory; again up to event {}", name(*thread), refused.last);
        Evidence::event(refused.first.0, text)
    };
    let threads: Vec<Addr> = all.iter().map(|(thread, _)| full(*thread, case, graph)).collect();
    Some(
        Finding::new(
            code,
            case.cap(claimed),
            format!("{} of {label}{state} without a wait, and got nothing{why}", asked.join("; ")),
        )
        .against([against])
        .evidence(all.iter().map(events_of))
        .evidence(lost.into_iter().flat_map(|lost| lost.evidence))
        .against(dropped.as_ref().map(|_| lost_pool::AGAINST))
        .evidence(dropped.map(|dropped| dropped.evidence))
        .next(next)
        .affected(graph.waiters(&threads))
        .threads(threads)
        .with_holder(pool, case),
    )
}

/// An interrupt gets no memory, which it cannot wait for: what it was to pass on is lost.
fn refused_interrupt(stored: Addr, one: &One, events: &Events, case: &Case<'_>) -> Option<Finding> {
    let recent = events.recent();
    let all =
        one.pool.refused_interrupts.iter().filter(|(_, refused)| refused.times >= OFTEN && refused.last >= recent);
    let (number, refused) = all.max_by_key(|(_, refused)| refused.times)?;
    let pool = in_memory(stored, events, case);
    // Memory has to show that it cannot give any; without it, that nothing is released either.
    let room = Room::of(pool, case);
    let is_short = |room: &Room| room.is_short(refused.len.unwrap_or(1)) == Some(true);
    if !room.as_ref().map_or(case.kernel.is_none(), is_short) {
        return None;
    }
    let (label, who) = (case.object(pool), case.interrupt(*number));
    let times = refused.times;
    let state = room.as_ref().map_or_else(String::new, |room| format!(" ({})", room.text));
    let text = format!("{who} asks and gets no memory; {times} times, up to event {}", refused.last);
    Some(
        Finding::new(
            Code::PoolEmpty,
            case.cap(if room.is_some() { Confidence::Likely } else { Confidence::Hint }),
            format!("{label} is used up{state}: {who} asked {times} times in a row, and got nothing"),
        )
        .against(["who has the memory is not known from the kernel"])
        .evidence([Evidence::event(refused.first.0, text)])
        .evidence(room.map(|room| Evidence::memory(pool, format!("{label}: {}", room.text))))
        .next(next(pool, Some(events)))
        .with_holder(pool, case),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_used_up_had_0_bytes_in_0_pieces() {
        let of = |state: &str, free, pieces| text(state.to_owned(), Kind::BytePool, free, pieces);
        assert_eq!(of("0 of 12288 bytes free", 0, Some((0, 0))), "no byte free");
        let said = of("96 of 12288 bytes free", 96, Some((48, 2)));
        assert_eq!(said, "96 of 12288 bytes free, in 2 pieces; the largest can give 48");
        let said = of("72 of 6144 bytes free", 72, Some((64, 1)));
        assert_eq!(
            said, "72 of 6144 bytes free, in 1 piece, which can give 64",
            "it was said to have fewer bytes than are free"
        );
        assert_eq!(text("0 of 8 blocks free".to_owned(), Kind::BlockPool, 0, None), "0 of 8 blocks free");
    }
}
