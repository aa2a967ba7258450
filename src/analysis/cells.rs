//! Cells and columns that reports share.

use super::tracker::{ObjectNo, System, ThreadNo, Who};
use crate::abi::Addr;
use crate::report::Cell;
pub(super) use crate::trace::many;

/// Part of a whole in percent; `None` of nothing.
pub fn share(part: i64, whole: i64) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with two decimals")]
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

/// The same as a cell.
pub(super) fn share_cell(part: i64, whole: i64) -> Cell {
    share(part, whole).map_or(Cell::Empty, Cell::Real)
}

/// A thread as a cell.
pub(super) fn thread_cell(no: ThreadNo, system: &System<'_>) -> Cell {
    let Some(thread) = system.thread(no) else { return Cell::Empty };
    Cell::named(thread.address, system.name(no).map(str::to_owned))
}

/// An object as a cell.
pub(super) fn object_cell(object: ObjectNo, system: &System<'_>) -> Cell {
    address_cell(system.address(object), system)
}

/// The object at an address as a cell.
pub(super) fn address_cell(address: Addr, system: &System<'_>) -> Cell {
    let name = system.trace.objects.at(address).map(|o| o.name.clone()).filter(|n| !n.is_empty());
    Cell::named(address, name)
}

/// A word for who has a core.
pub(super) const fn word(who: Who) -> &'static str {
    match who {
        Who::Thread(_) => "thread",
        Who::Isr => "isr",
        Who::Idle => "idle",
        Who::Init => "init",
        Who::Unknown => "unknown",
    }
}

/// Who had a core, as a cell: a thread by name, the others by their word.
pub(super) fn who_cell(who: Who, system: &System<'_>) -> Cell {
    match who {
        Who::Thread(no) => thread_cell(no, system),
        other => Cell::Word(word(other)),
    }
}
