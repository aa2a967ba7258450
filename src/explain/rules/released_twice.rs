//! A block of a pool that was released twice. The kernel takes the word in front of a block for the address of its pool. That of a
//! free block is the link to the next one, which the second release changes as if it were a pool; the link becomes what is there.
//! The list of free blocks then ends early, or points back to itself, or to a block that is allocated, and is shorter than the
//! count: the pool seems to have blocks and gives none, or two threads get the same memory. Where the kernel checks parameters it
//! refuses the second release, and no event shows it.
//!
//! The first of two releases by the events may be a right one: of a block that was allocated again while another thread still had it, in
//! a message that its first owner had sent before it released the block. Where the queue of that message has the block's address among
//! its messages, new or old, that release is named.
//!
//! Memory shows the list and its count, events show who released the block. Against memory: a write to the first word of a
//! block that is free does the same. In the middle of a call that changes the pool the list may be anything: a hint.

use super::super::events::{Giver, SentAndFreed, Twice};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::corrupt_pool::{blocks, changing};
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::{FreeList, Kind, Object};

/// The most bytes of a queue that are looked at.
const MOST: u64 = 64 << 10;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let pools = case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let of_list = |pool: &Object| {
        let free = blocks(pool, case)?.free.filter(|free| !free.is_whole())?;
        Some(by_list(pool, free, case, graph))
    };
    let mut found: Vec<Finding> = pools.filter(|pool| pool.kind == Kind::BlockPool).filter_map(of_list).collect();
    for (stored, twice) in released(case) {
        if !found.iter().any(|finding| finding.threads.iter().any(|pool| case.stored(*pool) == stored)) {
            found.push(by_events(stored, &twice, case, graph));
        }
    }
    found
}

/// Pools of which events show a block that was released twice, as the trace stores their addresses.
fn released(case: &Case<'_>) -> Vec<(Addr, Twice)> {
    let all = case.events.into_iter().flat_map(super::super::events::Events::objects);
    all.filter_map(|(pool, one)| Some((pool, one.pool.twice?))).collect()
}

fn by_list(pool: &Object, free: FreeList, case: &Case<'_>, graph: &Graph) -> Finding {
    let label = case.object(pool.address);
    let FreeList { listed, counted, leads_to } = free;
    let (mut confidence, mut detractors) = case.cap(Confidence::Likely);
    if let Some(function) = changing(case) {
        confidence = confidence.min(Confidence::Hint);
        detractors.push(format!("the CPU is in {function}, which may be about to change it"));
    }
    let end = match leads_to {
        None => String::new(),
        Some(block) if block.is_free => format!(", and then points back to the block at {:#x}", block.start),
        Some(block) => format!(", and then points to the block at {:#x}, which is allocated", block.start),
    };
    let text = format!("{label}: its list of free blocks has {listed}{end}; it counts {counted}");
    let twice = released(case).into_iter().find(|(stored, _)| *stored == case.stored(pool.address));
    let who = twice.as_ref().map(|(_, twice)| events_of(twice, case, graph));
    if who.is_none() {
        detractors.push("a write to a block after its release does the same".to_owned());
    }
    let why = match &twice {
        Some((_, twice)) => format!("{} released one of them twice", names(twice, case, graph)),
        None => "a block was released twice, or was written to after its release".to_owned(),
    };
    Finding::new(
        Code::CorruptPool,
        (confidence, detractors),
        format!("the list of free blocks of {label} has {listed}{end}, and it counts {counted}: {why}"),
    )
    .evidence([Evidence::memory(pool.address, text)])
    .evidence(who.into_iter().flatten())
    .next(format!("look for a path that calls tx_block_release twice for one block of {label}"))
    .threads([pool.address])
    .affected(graph.tasks.waiting(pool.address).map(|task| task.address))
}

fn by_events(stored: Addr, twice: &Twice, case: &Case<'_>, graph: &Graph) -> Finding {
    let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
    let pool = objects.iter().map(|object| object.address).find(|at| case.stored(*at) == stored).unwrap_or(stored);
    let label = case.object(pool);
    let sent = sent(stored, twice, case);
    let why = match &sent {
        Some((queue, sent)) => format!(
            "{} released it after it had sent it to {}, and {} released it again",
            giver(sent.freed.by, case, graph),
            case.object(*queue),
            giver(twice.by, case, graph)
        ),
        None => format!("{} released it", names(twice, case, graph)),
    };
    let by_sender = sent.map(|(queue, sent)| events_of_sender(queue, &sent, twice.start, case, graph));
    Finding::new(
        Code::CorruptPool,
        case.by_events(),
        format!("the block at {:#x} of {label} was released twice: {why}", twice.start),
    )
    .against(by_sender.is_some().then_some("that the message was this block is inferred: the queue had its address"))
    .evidence(by_sender.into_iter().flatten())
    .evidence(events_of(twice, case, graph))
    .next(format!("look for a path that releases one block of {label} twice"))
    .threads([pool])
}

/// The release by a thread that had sent the block to a queue, and the queue: the newest one.
fn sent(pool: Addr, twice: &Twice, case: &Case<'_>) -> Option<(Addr, SentAndFreed)> {
    let (events, kernel) = (case.events?, case.kernel?);
    let all = events.object(pool)?.pool.sent.get(&twice.start)?;
    all.iter().rev().find_map(|one| {
        let queues = kernel.objects.iter().filter(|object| object.kind == Kind::Queue);
        let queue = queues.into_iter().find(|queue| events.is(queue.address, one.sent.queue))?;
        let is_accepted = queue.get("capacity").is_some_and(|capacity| one.sent.held < capacity);
        (is_accepted && has_message(queue, twice.start, case)).then_some((queue.address, *one))
    })
}

/// True where the storage of a queue has an address among its words.
pub(super) fn has_message(queue: &Object, block: Addr, case: &Case<'_>) -> bool {
    let storage = || {
        let start = queue.get("start")?;
        let len = queue.get("end")?.checked_sub(start).filter(|len| *len <= MOST)?;
        Some(case.words(&case.look.bytes(start, len)?, true))
    };
    storage().is_some_and(|words| words.iter().any(|word| case.stored(*word) == block))
}

fn events_of_sender(
    queue: Addr,
    SentAndFreed { sent, freed }: &SentAndFreed,
    start: Addr,
    case: &Case<'_>,
    graph: &Graph,
) -> Vec<Evidence> {
    let (name, label) = (giver(freed.by, case, graph), case.object(queue));
    vec![
        Evidence::event(freed.block.seq, format!("{name} allocates the block at {start:#x}")),
        Evidence::event(sent.seq, format!("{name} sends a message to {label}, which has had this address")),
        Evidence::event(freed.seq, format!("{name} releases the block")),
    ]
}

/// `radio and then packer`, or one name.
fn names(twice: &Twice, case: &Case<'_>, graph: &Graph) -> String {
    let name = |by: Giver| giver(by, case, graph);
    let (first, again) = (name(twice.first.by), name(twice.by));
    if first == again { first } else { format!("{first} and then {again}") }
}

fn events_of(twice: &Twice, case: &Case<'_>, graph: &Graph) -> Vec<Evidence> {
    let name = |by: Giver| giver(by, case, graph);
    let Twice { start, first, by, seq } = *twice;
    let owner = name(Giver::Thread(first.block.thread));
    vec![
        Evidence::event(first.block.seq, format!("{owner} allocates the block at {start:#x}")),
        Evidence::event(first.seq, format!("{} releases it", name(first.by))),
        Evidence::event(seq, format!("{} releases it again; no event allocates it between", name(by))),
    ]
}
