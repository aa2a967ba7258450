//! An object that was created again while it lived: a function that starts something runs a second time. The kernel clears the
//! control block, and puts it into the list of created ones again. Two entries of the list then lead to it, or it leads back to
//! itself, and the kernel counts one more than there are. What the object was for is lost: the threads that waited for it wait
//! for ever, a thread runs twice on one stack.
//!
//! Against it: no moment of a call leaves such pointers. A write over the pointers of a block would have to hit two of them.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::abi::Addr;
use crate::kernel::Kind;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = case.kernel.into_iter().flat_map(|kernel| &kernel.created_twice);
    all.map(|(kind, address)| finding(*kind, *address, case, graph)).collect()
}

fn finding(kind: Option<Kind>, address: Addr, case: &Case<'_>, graph: &Graph) -> Finding {
    let label = match kind {
        None => format!("thread {}", case.label(address)),
        Some(_) => case.object(address),
    };
    let text = format!("{label}: the list of its kind contains it twice");
    let events = case.events.and_then(|events| events.created(address));
    let waits: Vec<Addr> = graph.tasks.waiting(address).map(|task| task.address).collect();
    let is_lost = match kind {
        None => "what it did before, and what it held, is lost".to_owned(),
        Some(_) => "what it held, and who waited for it, is lost".to_owned(),
    };
    let call = kind.map_or_else(|| "tx_thread_create".to_owned(), |kind| create(kind).to_owned());
    Finding::new(
        Code::CorruptControlBlock,
        case.cap(Confidence::Likely),
        format!("{label} was created again while it lived: {is_lost}"),
    )
    .evidence([Evidence::memory(address, text)])
    .evidence(events.map(|seq| Evidence::event(seq, format!("{label} is created"))))
    .next(format!("look for a second call of {call} for it: a restart has to terminate and delete it first"))
    .threads([address])
    .affected(waits)
}

/// The call that creates it.
const fn create(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "tx_mutex_create",
        Kind::Queue => "tx_queue_create",
        Kind::Semaphore => "tx_semaphore_create",
        Kind::EventFlags => "tx_event_flags_create",
        Kind::BlockPool => "tx_block_pool_create",
        Kind::BytePool => "tx_byte_pool_create",
        Kind::Timer => "tx_timer_create",
    }
}
