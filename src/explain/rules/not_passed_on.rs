//! A pool that is used up, by the trace alone: its blocks go through a queue as messages, and the reader of the queue otherwise sends or
//! releases something after each message. The times that it did neither are those after which a block was not released.
//!
//! Events do not show what messages hold. So each such block must be allocated in one of these rounds, and each of these rounds must have
//! such a block.
//!
//! Against it: another thread may keep these blocks.

use super::super::events::{Block, Events, Messages, NotPassedOn};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::Addr;
use crate::trace::many;

/// The fewest times that the reader passed a message on, and that it did not, for more than a hint.
const FEWEST_PASSED: u64 = 3;
const FEWEST: usize = 2;
/// The rounds that are shown.
const SHOWN: usize = 2;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    // Memory shows more.
    let Some(events) = case.events.filter(|_| case.kernel.is_none()) else { return Vec::new() };
    events.objects().filter_map(|(pool, _)| finding(pool, events, case, graph)).collect()
}

/// Each block with the round in which it was allocated, where all rounds have one.
fn matched(blocks: &[Block], rounds: &[NotPassedOn]) -> Option<Vec<(Block, NotPassedOn)>> {
    if blocks.is_empty() || blocks.len() != rounds.len() {
        return None;
    }
    let is_of = |(block, round): &(&Block, &NotPassedOn)| (round.from..round.to).contains(&block.seq);
    let all = || blocks.iter().zip(rounds);
    all().all(|pair| is_of(&pair)).then(|| all().map(|(block, round)| (*block, *round)).collect())
}

fn finding(pool: Addr, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let waiters: Vec<Addr> = graph.tasks.waiting(pool).map(|task| task.address).collect();
    let waiter = *waiters.first()?;
    let mut blocks: Vec<Block> = events.object(pool)?.pool.live.values().filter(|b| !b.is_doubtful).copied().collect();
    blocks.sort_unstable_by_key(|block| block.seq);
    let of = |(reader, messages): (Addr, &Messages)| {
        let is_other = blocks.iter().all(|block| block.thread != reader);
        let is_it = is_other && !messages.is_cut && messages.passed > messages.others.len() as u64;
        let known = blocks.partition_point(|block| block.seq < messages.begun);
        let matched = matched(blocks.get(known..)?, &messages.others).filter(|_| is_it)?;
        Some((reader, messages.clone(), matched))
    };
    let mut all = events.readers.all().filter_map(of);
    let (Some((reader, messages, matched)), None) = (all.next(), all.next()) else { return None };
    let name = |at: Addr| case.label(thread_of(at, case, graph));
    let (by, label, queue) = (name(reader), case.object(pool), case.object(messages.queue));
    let (not, times) = (matched.len(), messages.passed.saturating_add(matched.len() as u64));
    let goes = messages.passed_to.map_or_else(String::new, |to| format!(" to {}", case.object(to)));
    let is_long = events.is_long(waiter, pool);
    let is_sure = not >= FEWEST && messages.passed >= FEWEST_PASSED && is_long;
    let (confidence, mut detractors) = case.by_events();
    detractors
        .push(format!("that the messages of {queue} are these blocks is inferred, and another thread may keep them"));
    let confidence = if is_sure { confidence } else { confidence.min(Confidence::Hint) };
    let what = many(not as u64, "block that was allocated for it", "blocks that were allocated for these");
    let was = if not == 1 { "was" } else { "were" };
    let shown = matched.iter().take(SHOWN).flat_map(|(block, round)| {
        let taken = format!("{} allocates a block that is not released", name(block.thread));
        let instead = round.instead.map(|(seq, object)| {
            Evidence::event(
                seq,
                format!("{by}, which has that message, calls the kernel for {} instead", case.object(object)),
            )
        });
        let next = Evidence::event(round.to, format!("{by} asks for its next message"));
        [Some(Evidence::event(block.seq, taken)), instead, Some(next)].into_iter().flatten()
    });
    Some(
        Finding::new(
            Code::PoolLeak,
            (confidence, detractors),
            format!(
                "{label} drains, and {} waits for it: {by} passed nothing on{goes} and released nothing after {not} of {times} messages of \
                 {queue}, and the {what} {was} not released",
                case.label(waiter)
            ),
        )
        .evidence(shown.collect::<Vec<_>>())
        .next(format!("look for a path of {by} that neither passes its message on nor releases it"))
        .threads([thread_of(reader, case, graph)])
        .affected(waiters),
    )
}

/// The address of a thread, as all others have it.
fn thread_of(stored: Addr, case: &Case<'_>, graph: &Graph) -> Addr {
    graph.stored(case, stored).map_or(stored, |task| task.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_its_round() {
        let block = |seq| Block { start: seq, thread: 1, seq, number: 0, round: 0, is_doubtful: false, len: None };
        let round = |from, to| NotPassedOn { from, to, instead: None };
        assert!(matched(&[block(15), block(35)], &[round(10, 20), round(30, 40)]).is_some());
        assert!(matched(&[block(15)], &[round(10, 20), round(30, 40)]).is_none(), "a round without a block");
        assert!(matched(&[block(15), block(25)], &[round(10, 20), round(30, 40)]).is_none(), "in another round");
        assert!(matched(&[], &[]).is_none());
    }
}
