//! A queue that is emptied though its messages hold memory of a pool: `tx_queue_flush` releases nothing, and no pointer to
//! these blocks is left.
//!
//! Against it: the queue may be empty each time, and who flushes it may have taken the messages before.

use super::super::usage::User;
use super::super::{Case, Evidence};
use super::words::place_at;
use crate::abi::Addr;

/// The service that empties a queue.
const FLUSH: &str = "tx_queue_flush";

/// What speaks against it.
pub(super) const AGAINST: &str = "whether the queue had messages then is not known";
/// What to do about it.
pub(super) const NEXT: &str = "instead of tx_queue_flush, receive the messages and release their blocks";

/// The only call of a thread that empties a queue through which memory of a pool goes, in words.
pub(super) fn of(pool: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let queues = usage.queues_of(pool);
    let threads = case.kernel?.threads.iter().filter(|_| !queues.is_empty());
    let calls = threads.flat_map(|thread| {
        let all = usage.calls_of(User::Thread(thread.address)).into_iter();
        all.filter(|call| call.service().as_deref() == Some(FLUSH)).map(move |call| (thread, call))
    });
    let mut flushes =
        calls.filter_map(|(thread, call)| Some((thread, call.at, call.object.filter(|at| queues.contains(at))?)));
    let (thread, at, queue) = flushes.next()?;
    if flushes.any(|(_, other, _)| other != at) {
        return None;
    }
    let (place, label) = (place_at(at, case), case.object(queue));
    let words =
        format!("by its code, {} empties {label}, to which such blocks are sent, in {place} ({FLUSH})", thread.label());
    Some((words, Evidence::symbol(at, &place, format!("{FLUSH} of {label} releases no block"))))
}
