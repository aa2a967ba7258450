//! A call through a pointer by the kernel: of the function that a control block has for a notification, a time-out or the end of a wait.
//! A control block that holds the address shows which. The application sets few of them, and the kernel the others: a wrong one was
//! overwritten.

use super::super::{Case, Evidence};
use super::set_by;
use crate::abi::Addr;

/// The most bytes of a control block whose size is not known.
const BLOCK: u64 = 0xB0;

/// A pointer of the kernel.
pub(super) struct KernelPointer {
    /// `the pointer is perhaps net.reports.tx_queue_send_notify (0x20001234), in the control block of queue reports`.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What to look at.
    pub next: String,
}

/// The control block that holds an address to which the kernel jumped; `None` where several do, or that is not at hand.
pub(super) fn of(pc: Addr, case: &Case<'_>) -> Option<KernelPointer> {
    if pc & !1 == 0 || !case.look.is_stored() || case.trust.other_build {
        return None;
    }
    let kernel = case.kernel?;
    let threads = kernel.threads.iter().map(|thread| (thread.address, format!("thread {}", thread.label())));
    let objects = kernel.objects.iter().map(|object| (object.address, case.object(object.address)));
    let mut found =
        threads.chain(objects).filter_map(|(block, label)| Some((place_in(block, pc, case)?, block, label)));
    let (at, block, label) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let place = case.look.place(at).map_or_else(|| format!("{at:#x}"), |place| format!("{place} ({at:#x})"));
    let end = block.saturating_add(size(block, case).unwrap_or_default());
    let behind =
        case.look.place(end).filter(|_| end > at).map_or_else(String::new, |next| format!("; {next} is behind it"));
    let writers = set_by::writers_behind(end, case).filter(|_| end > at);
    let (writes, written) = writers.unzip();
    let writes = writes.map_or_else(String::new, |writes| format!("; {writes}"));
    let holds = Evidence::memory(at, format!("{label}: this member holds the address")).holds(pc);
    Some(KernelPointer {
        words: format!(
            "the pointer is perhaps {place}, in the control block of {label}, which holds that address{writes}"
        ),
        evidence: std::iter::once(holds).chain(written).collect(),
        next: format!(
            "if the program does not set this member: look for a write with a wrong index, or past an end, next to {label}{behind}"
        ),
    })
}

/// The size of a control block, where debug information or symbols show it.
fn size(block: Addr, case: &Case<'_>) -> Option<u64> {
    let most = BLOCK.saturating_mul(2);
    let place = case.look.place(block)?;
    let Some((own, _)) = place.rsplit_once(".tx_") else {
        let variable = case.look.variable(block).filter(|variable| variable.address == block)?;
        return Some(variable.size).filter(|size| (1..=most).contains(size));
    };
    let is_behind = |at: &Addr| {
        let rest = case.look.place(*at).and_then(|place| place.strip_prefix(own).map(str::to_owned));
        rest.is_none_or(|rest| !rest.starts_with('.'))
    };
    let end = (block.checked_add(4)?..=block.checked_add(most)?).step_by(4).find(is_behind)?;
    end.checked_sub(block)
}

/// Where a control block holds an address.
fn place_in(block: Addr, pc: Addr, case: &Case<'_>) -> Option<Addr> {
    let bytes = [BLOCK.saturating_mul(2), BLOCK, BLOCK / 2].into_iter().find_map(|len| case.look.bytes(block, len))?;
    let words = case.words(&bytes, true);
    let index = words.iter().position(|word| word & !1 == pc & !1)?;
    let offset = u64::try_from(index).ok()?.checked_mul(case.width())?;
    // Which of what follows is a part of it is looked up only where it may be.
    (offset < size(block, case).unwrap_or(BLOCK)).then(|| block.checked_add(offset))?
}
