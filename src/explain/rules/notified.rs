//! Who writes to a control block: a function whose address the control block holds, as that which `tx_queue_send_notify` sets. The
//! kernel calls it with the address of the object, and one that was written for another structure writes over the kernel's members.
//!
//! Against it: by the code it may write there; whether it was called, memory does not show.

use super::super::{Case, Evidence};
use super::words::{function_at, place_at};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object};

/// So many pointers behind the members that are read of an object, a control block may end.
const BEHIND: u64 = 4;

/// Such a function of the control block that an address is in, with the first places in which it writes: `link_kick, which the kernel calls with its address
/// (tx_queue_send_notify), writes to it`.
pub(super) fn writer(at: Addr, case: &Case<'_>) -> Option<(String, Vec<Evidence>)> {
    let (kernel, usage) = (case.kernel?, case.usage()?);
    let memory = |object: &Object| Some(Region { start: object.address, len: kernel.layout.object(object.kind)?.len });
    let object = kernel.objects.iter().find(|object| memory(object).is_some_and(|memory| memory.contains(at)))?;
    let service = match object.kind {
        Kind::Queue => "tx_queue_send_notify",
        Kind::Semaphore => "tx_semaphore_put_notify",
        Kind::EventFlags => "tx_event_flags_set_notify",
        _ => return None,
    };
    let memory = memory(object)?;
    // The function is a member behind those that are read of an object.
    let len = memory.len.checked_add(case.width().checked_mul(BEHIND)?)?;
    let words = case.words(&case.look.bytes(memory.start, len)?, true);
    let functions = words.into_iter().filter_map(|word| usage.begins_at(u32::try_from(word).ok()?));
    let (function, stores) = functions
        .map(|function| (function, usage.stores_to_argument(function, memory)))
        .find(|(_, stores)| !stores.is_empty())?;
    let name = function_at(function, case);
    let evidence = stores.into_iter().map(|store| {
        let place = place_at(store.at, case);
        Evidence::symbol(
            store.at,
            &place,
            format!("called with the address of {}, {name} writes to it here", object.label()),
        )
    });
    let words = format!("{name}, which the kernel calls with its address ({service}), writes to it");
    Some((words, evidence.collect()))
}
