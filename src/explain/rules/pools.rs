//! Pools of memory that only drain. `pool-leak`: blocks of one allocator are kept far longer than any that was released, and
//! such blocks are between others that were released, so they are not buffers that are kept on purpose from the start.
//! `pool-empty`: a thread waits for memory of a pool, for long; who has the memory is not known from the kernel.

use std::collections::BTreeMap;

use super::super::events::{Block, Events, Giver, One};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{waiting, waits};
use crate::abi::Addr;
use crate::kernel::Kind;

/// Blocks that are kept.
const FEWEST: usize = 2;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(events) = case.events else { return empty(case, graph) };
    let leaks = events.objects().filter_map(|(pool, one)| leak(pool, one, events, case, graph));
    leaks.chain(empty(case, graph)).collect()
}

/// By the thread that allocated them, the most first.
fn worst(kept: &[Block]) -> Option<(Addr, Vec<Block>)> {
    let mut by: BTreeMap<Addr, Vec<Block>> = BTreeMap::new();
    kept.iter().for_each(|block| by.entry(block.thread).or_default().push(*block));
    by.into_iter().max_by_key(|(_, blocks)| blocks.len())
}

fn leak(pool: Addr, one: &One, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let object = in_memory(pool, events, case);
    let is_used_up = graph.tasks.waiting(object).any(|task| events.is_long(task.address, object));
    let (thread, blocks) = worst(&one.pool.kept(is_used_up))?;
    let (first, last) = (blocks.first()?, blocks.last()?);
    let count = u64::try_from(blocks.len()).ok()?;
    // Kept one after the other from some moment on, they are a store that was filled, unless somebody waits for memory since.
    let spread = last.number.saturating_sub(first.number) >= count;
    if blocks.len() < FEWEST || !(spread || is_used_up) {
        return None;
    }
    let full = |stored: Addr| graph.stored(case, stored).map_or(stored, |task| task.address);
    let (by, label) = (case.label(full(thread)), case.object(object));
    let who = |giver: &Giver| match giver {
        Giver::Thread(thread) => case.label(full(*thread)),
        Giver::Interrupt(number) => case.interrupt(*number),
        Giver::Other => "another context".to_owned(),
    };
    let releasers: Vec<String> = one.pool.released.keys().map(who).collect();
    let releasers = if releasers.is_empty() { "nobody".to_owned() } else { releasers.join(", ") };
    let released: u64 = one.pool.released.values().sum();
    let (confidence, mut detractors) = case.by_events();
    detractors.push("blocks that are kept on purpose look the same".to_owned());
    let state = case.kernel.and_then(|kernel| kernel.object(object));
    let mut evidence: Vec<Evidence> = state
        .map(|object| Evidence::memory(object.address, format!("{label}: {}", object.state(&|_| None))))
        .into_iter()
        .collect();
    let taken = |block: &Block| Evidence::event(block.seq, format!("{by} allocates a block that is not released"));
    evidence.extend(blocks.iter().take(3).map(taken));
    Some(Finding {
        code: Code::PoolLeak,
        claim: format!(
            "{label} drains: of {} blocks that were allocated in the trace, {count} of {by} were not released; {releasers} releases others",
            one.pool.allocated,
        ),
        confidence,
        detractors,
        evidence,
        next: format!("look for a path that does not release its block ({released} were released, by {releasers})"),
        threads: Vec::new(),
        explains: graph.tasks.waiting(object).filter_map(|task| waits(task.address, case, graph)).collect(),
        behind: graph.tasks.waiting(object).map(|task| task.address).collect(),
    })
}

/// The whole address of an object that the trace may have cut.
fn in_memory(stored: Addr, events: &Events, case: &Case<'_>) -> Addr {
    let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
    objects.iter().map(|object| object.address).find(|address| events.is(*address, stored)).unwrap_or(stored)
}

fn empty(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_pool = |kind| matches!(kind, Kind::BlockPool | Kind::BytePool);
    let mut found: Vec<Finding> = Vec::new();
    for task in &graph.tasks.list {
        let Some(wait) = task.wait.filter(|wait| is_pool(wait.kind) && wait.forever) else { continue };
        if found.iter().any(|f| f.evidence.iter().any(|e| e.address == Some(wait.object))) {
            continue;
        }
        let released =
            case.events.and_then(|events| events.object(wait.object)).is_some_and(|one| !one.givers.is_empty());
        let long = case.events.is_some_and(|events| events.is_long(task.address, wait.object)) && !released;
        let (confidence, mut detractors) = case.cap(if long { Confidence::Likely } else { Confidence::Hint });
        detractors
            .push("a pool may be used up for a moment; who has its memory is not known from the kernel".to_owned());
        let (name, label) = (case.label(task.address), case.object(wait.object));
        let state = case.kernel.and_then(|kernel| kernel.object(wait.object)).map(|o| o.state(&|_| None));
        let state = state.map_or_else(String::new, |state| format!(" ({state})"));
        found.push(Finding {
            code: Code::PoolEmpty,
            claim: format!("{name} waits for memory of {label}{state}"),
            confidence,
            detractors,
            evidence: vec![
                waiting(task.address, wait.object, case, graph),
                Evidence::memory(wait.object, label.clone()),
            ],
            explains: Vec::new(),
            next: format!(
                "`list --object {}` shows who allocates and who releases",
                case.events.and_then(|e| e.name(wait.object)).unwrap_or("NAME")
            ),
            threads: vec![task.address],
            behind: graph.behind(&[task.address]),
        });
    }
    found
}
