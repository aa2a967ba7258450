//! Who does not send a block on, by the trace alone: the thread that releases the blocks of a pool reads them from a queue, and another
//! thread, which reads messages of its own, otherwise sends to that queue after each of them. A block that it does not send on is lost.
//!
//! Against it: a message may be no block of that pool, or need nothing of the thread that releases. Events do not show what messages hold.

use super::super::events::{Events, Giver, Messages};
use super::super::graph::Graph;
use super::super::{Case, Evidence};
use crate::abi::Addr;

/// The fewest messages that were sent on.
const FEWEST: u64 = 3;
/// So many blocks may be on their way, or be lost before the trace begins.
const OPEN: u64 = 2;
/// What speaks against it.
pub(super) const AGAINST: &str = "a message that was not sent on may have needed nothing there";

/// Such a thread.
pub(super) struct NotSentOn {
    /// `router sent nothing to queue arrivals, which arrival reads, after 7 of 22 messages of queue routes`.
    pub words: String,
    pub next: String,
    pub evidence: Option<Evidence>,
}

impl NotSentOn {
    /// `releasers`: those who released blocks. `allocator`: the thread that allocated those that were not, as the trace stores its address,
    /// and how many these are.
    pub fn of<'g>(
        releasers: impl Iterator<Item = &'g Giver>,
        (allocator, lost): (Addr, usize),
        events: &Events,
        case: &Case<'_>,
        graph: &Graph,
    ) -> Option<Self> {
        let all: Vec<&Giver> = releasers.collect();
        let [Giver::Thread(releaser)] = all.as_slice() else { return None };
        let releaser = *releaser;
        // A call that got no message is a round, too: then there are more of them than blocks that were lost.
        let lost = u64::try_from(lost).unwrap_or(u64::MAX);
        let is_count = |without: u64| without > 0 && without.abs_diff(lost) <= OPEN;
        let own = events.readers.of(releaser)?.queue;
        let of = |(reader, messages): (Addr, &Messages)| {
            let is_other = releaser != allocator && reader != releaser && reader != allocator;
            let sent = *messages.sent.iter().find(|sent| sent.object == own).filter(|_| is_other)?;
            (sent.rounds >= FEWEST && is_count(sent.without)).then_some((reader, messages.queue, sent))
        };
        let mut all = events.readers.all().filter_map(of);
        let (Some((reader, queue, sent)), None) = (all.next(), all.next()) else { return None };
        let label = |stored: Addr| case.label(graph.stored(case, stored).map_or(stored, |task| task.address));
        let (by, to, from) = (label(reader), case.object(own), case.object(queue));
        let (without, all) = (sent.without, sent.without.saturating_add(sent.rounds));
        let evidence = sent.last_without.map(|last| {
            Evidence::event(last.from, format!("{by} asks for a message of {from}, and sends nothing to {to} for it"))
        });
        Some(Self {
            words: format!(
                "{by} sent nothing to {to}, which {} reads, after {without} of {all} messages of {from}",
                label(releaser)
            ),
            next: format!("look for a path of {by} that neither sends its message on to {to} nor releases it"),
            evidence,
        })
    }
}
