//! Who writes to a control block: a function whose address the control block holds, as that which `tx_queue_send_notify` sets. The
//! kernel calls it with the address of the object, and one that was written for another structure writes over the kernel's members.
//!
//! Against it: by the code it may write there; whether it was called, memory does not show.

use super::super::usage::Store;
use super::super::{Case, Evidence};
use super::words::{function_at, place_at};
use crate::abi::{Addr, Region};
use crate::kernel::{Kind, Object};

/// The most stores that are shown.
const MOST: usize = 3;
/// So many pointers behind the members that are read of an object, a control block may end.
const BEHIND: u64 = 4;

/// Such a function of the control block that an address is in, with the first places in which it writes to it:
/// `link_kick, which the kernel calls with its address (tx_queue_send_notify), writes to it`.
pub(super) fn writer(at: Addr, case: &Case<'_>) -> Option<(String, Vec<Evidence>)> {
    let (kernel, usage) = (case.kernel?, case.usage()?);
    let memory = |object: &Object| Some(Region { start: object.address, len: kernel.layout.object(object.kind)?.len });
    let object = kernel.objects.iter().find(|object| memory(object).is_some_and(|memory| memory.contains(at)))?;
    let (member, service) = match object.kind {
        Kind::Queue => ("tx_queue_send_notify", "tx_queue_send_notify"),
        Kind::Semaphore => ("tx_semaphore_put_notify", "tx_semaphore_put_notify"),
        Kind::EventFlags => ("tx_event_flags_group_set_notify", "tx_event_flags_set_notify"),
        _ => return None,
    };
    let memory = memory(object)?;
    // The function is a member behind those that are read of an object. Debug information says which one.
    let end = memory.start.checked_add(memory.len)?;
    let is_member = |at: &Addr| case.look.place(*at).is_some_and(|name| name.ends_with(member));
    let width = case.width();
    let place = (0..BEHIND).filter_map(|n| end.checked_add(n.checked_mul(width)?)).find(is_member)?;
    let pointer = case.words(&case.look.bytes(place, width)?, true).first().copied()?;
    let function = usage.begins_at(u32::try_from(pointer).ok()?)?;
    // Whatever it writes there, it writes over members of the kernel.
    let stores = usage.stores_to_argument(function, memory);
    if stores.is_empty() {
        return None;
    }
    let name = function_at(function, case);
    let text = format!("called with the address of {}, {name} writes to it here", object.label());
    let shown = |store: &Store| Evidence::symbol(store.at, &place_at(store.at, case), text.clone());
    let shown = stores.iter().take(MOST).map(shown).collect();
    let words = format!("{name}, which the kernel calls with its address ({service}), writes to it");
    Some((words, shown))
}
