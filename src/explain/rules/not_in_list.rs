//! A thread that is ready by its state, and is in no list of ready threads: it never runs again. Or it is in one, and the kernel has no
//! thread to run. The kernel does all of that in one critical section, so something came in between: an interrupt that the kernel does not
//! keep back and that calls it, or a write over the control block or the list. Where a handler gives what the thread waited for last, it
//! is the interrupt that may have done so.
//!
//! Against it: a dump that was taken in the middle of a call of the kernel looks the same.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::control_blocks::is_within_call;
use super::priority_by_code::{Set, urgent};
use super::{fault, irq_priority};
use crate::abi::Addr;
use crate::kernel::api::Act;
use crate::kernel::{Kernel, State, Thread, Under};

/// The lists of ready threads, by priority.
const LISTS: &str = "_tx_thread_priority_list";
/// The thread that the kernel runs next.
const NEXT: &str = "_tx_thread_execute_ptr";
/// A bit for each priority of which a thread is ready: each ULONG has those of so many priorities, also where it is wider.
const MAPS: &str = "_tx_thread_priority_maps";
const BITS: u64 = 32;
/// Priorities that a kernel has at least, and at most (`TX_MAX_PRIORITIES`).
const LEAST_LISTS: u64 = 32;
const MOST_LISTS: u64 = 1024;
/// The most handlers that are named.
const NAMED: usize = 2;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel.filter(|kernel| kernel.current.len() == 1 && !kernel.is_initializing()) else {
        return Vec::new();
    };
    // What runs or is to run next is in a list, and a damaged list is said as such.
    let is_known = kernel.issues.iter().all(|issue| issue.code != crate::code::Code::KernelDamaged);
    // A fault may have come in the middle of a call.
    let is_in_fault = case.cpus.is_some_and(|cpus| cpus.all.iter().any(fault::is_in));
    if is_in_fault || is_within_call(case) || case.trust.was_running || case.trust.other_build || !is_known {
        return Vec::new();
    }
    let lost = |thread: &Thread| {
        let may_run = kernel.current.contains(&thread.address) || kernel.execute.contains(&thread.address);
        if thread.state != Some(State::READY) || may_run {
            return None;
        }
        match is_in_list(thread, kernel, case)? {
            false => Some(Lost::List),
            true if is_idle(kernel, case) => Some(Lost::Next),
            true => None,
        }
    };
    let all: Vec<(&Thread, Lost)> = kernel
        .threads
        .iter()
        .filter(|thread| thread.priority.is_some())
        .filter_map(|thread| Some((thread, lost(thread)?)))
        .collect();
    // The others wait for the most urgent one.
    let is_next = |(_, lost): &&(&Thread, Lost)| *lost == Lost::Next;
    let first = all.iter().filter(is_next).min_by_key(|(thread, _)| thread.priority);
    let all = all.iter().filter(|one| !is_next(one)).chain(first);
    all.filter_map(|(thread, lost)| finding(thread, *lost, kernel, case)).collect()
}

/// What the kernel lacks of a thread that is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// It is in no list.
    List,
    /// No thread is the next one to run.
    Next,
}

/// True where the kernel runs no thread and has none to run, and the CPU waits in its scheduler, and not in a handler that may have come
/// in the middle of a call.
fn is_idle(kernel: &Kernel, case: &Case<'_>) -> bool {
    let is_none = |all: &[Addr]| all.iter().all(|at| *at == 0);
    let cpus = case.cpus.map_or(&[][..], |cpus| &cpus.all);
    let is_idle = !cpus.is_empty() && cpus.iter().all(|cpu| cpu.under == Some(Under::Idle) && cpu.exception.is_none());
    is_none(&kernel.current) && is_none(&kernel.execute) && is_idle
}

/// Whether a list of ready threads has a thread, that of its priority or another one; `None` where that cannot be read.
fn is_in_list(thread: &Thread, kernel: &Kernel, case: &Case<'_>) -> Option<bool> {
    let lists = case.look.symbol(LISTS)?;
    let next = kernel.layout.thread.offset("tx_thread_ready_next")?;
    let count = lists.size.checked_div(case.width()).filter(|count| *count > 0).unwrap_or(LEAST_LISTS);
    for n in 0..count.min(MOST_LISTS) {
        let first = word(lists.address.checked_add(n.checked_mul(case.width())?)?, case)?;
        let mut at = first;
        for _ in 0..=kernel.threads.len() {
            if at == thread.address {
                return Some(true);
            }
            if at == 0 {
                break;
            }
            at = word(at.checked_add(next)?, case)?;
            if at == first {
                break;
            }
        }
        // A list that does not close is another matter.
        if at != first && at != 0 {
            return None;
        }
    }
    Some(false)
}

/// Where the list of its priority begins, and the first thread in it.
fn head(thread: &Thread, case: &Case<'_>) -> Option<(Addr, Addr)> {
    let lists = case.look.symbol(LISTS)?;
    let into = u64::from(thread.priority?).checked_mul(case.width())?;
    let at = lists.address.checked_add(into).filter(|_| lists.size == 0 || into < lists.size)?;
    Some((at, word(at, case)?))
}

fn word(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.words(&case.look.bytes(at, case.width())?, true).first().copied()
}

/// The word in which the kernel notes that a thread of its priority is ready, with its address, and whether it does.
fn map(thread: &Thread, case: &Case<'_>) -> Option<((Addr, u64), bool)> {
    let maps = case.look.symbol(MAPS)?;
    let priority = u64::from(thread.priority?);
    let shape = case.kernel?.layout.shape;
    let len = u64::try_from(shape.word.bytes()).ok()?;
    let into = (priority / BITS).checked_mul(len)?;
    let at = maps.address.checked_add(into).filter(|_| maps.size == 0 || into < maps.size)?;
    let word = shape.endian.word(shape.word, &case.look.bytes(at, len)?, 0)?;
    Some(((at, word), word >> (priority % BITS) & 1 == 1))
}

fn bit(((at, word), is_set): ((Addr, u64), bool)) -> Evidence {
    let text = if is_set { "the bit of its priority is set" } else { "the bit of its priority is not set" };
    Evidence::memory(at, format!("{MAPS}: {text}")).holds(word)
}

fn finding(thread: &Thread, lost: Lost, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let name = thread.label();
    let (list, first) = head(thread, case)?;
    let last = thread.suspended_last().and_then(|at| kernel.object(at));
    let givers = last.and_then(|object| case.usage()?.who(Act::Gives, Some(object.kind), object.address, None));
    let number = |user: User| if let User::Handler(number) = user { Some(number) } else { None };
    let handlers: Vec<u32> = givers.into_iter().flatten().filter_map(number).take(NAMED).collect();
    let claim = match lost {
        Lost::List => format!("{name} is ready, and is in no list of ready threads: it never runs again"),
        Lost::Next => {
            format!("{name} is ready, and the kernel has no thread to run ({NEXT} is 0): it does not run")
        }
    };
    let shown = [
        Evidence::memory(thread.address, format!("{name}: its state is ready")),
        Evidence::memory(list, format!("{LISTS}[{}]: the list of its priority", thread.priority.unwrap_or_default()))
            .holds(first),
    ];
    let next = || case.look.symbol(NEXT).map(|next| Evidence::memory(next.address, format!("{NEXT}: no thread")));
    let shown: Vec<Evidence> = shown.into_iter().chain(next().filter(|_| lost == Lost::Next)).collect();
    // Where its bit is set, the kernel finds it as soon as it looks for the next thread.
    let is_sure = lost == Lost::List || map(thread, case).is_some_and(|(_, is_set)| !is_set);
    let shown: Vec<Evidence> =
        shown.into_iter().chain(map(thread, case).filter(|_| lost == Lost::Next).map(bit)).collect();
    let of = |code, claim: String, claimed: Confidence| {
        let claimed = if is_sure { claimed } else { Confidence::Hint };
        Finding::new(code, case.cap(claimed), claim).evidence(shown.clone())
    };
    let lists = match lost {
        Lost::List => format!("{name}, or over {LISTS}"),
        Lost::Next => format!("{MAPS} or {NEXT}"),
    };
    let Some(object) = last.filter(|_| !handlers.is_empty()) else {
        return Some(
            of(Code::CorruptControlBlock, claim, Confidence::Likely)
                .next(format!("look for interrupts that the kernel does not keep back, and for a write over {lists}"))
                .threads([thread.address]),
        );
    };
    let names: Vec<String> = handlers.iter().map(|number| user_name(User::Handler(*number), case)).collect();
    let (by, object) = (names.join(" or "), case.object(object.address));
    let level = irq_priority::level(case);
    // A kernel that disables all interrupts is not interrupted: then it is the write over the control block that is left.
    let all: Vec<(Option<bool>, Option<Set>)> = handlers.iter().map(|number| urgent(*number, case)).collect();
    let is_shown = all.iter().any(|(is_urgent, _)| *is_urgent == Some(true));
    if level.is_none() || all.iter().all(|(is_urgent, _)| *is_urgent == Some(false)) {
        return Some(
            of(Code::CorruptControlBlock, claim, Confidence::Likely)
                .next(format!("look for a write over {lists}"))
                .threads([thread.address]),
        );
    }
    let set = all.into_iter().filter(|(is_urgent, _)| *is_urgent == Some(true)).find_map(|(_, set)| set);
    let set_words = set.as_ref().map_or_else(String::new, |set| format!("; {}", set.words));
    let base = level.map_or_else(String::new, |level| format!(" (BASEPRI {level:#x})"));
    let claim = format!(
        "{claim}; the handler of {by} gives {object}, for which it waited last: it may have come in the middle of a call that the kernel \
         protects{base}{set_words}"
    );
    Some(
        of(Code::IrqPriority, claim, if is_shown { Confidence::Likely } else { Confidence::Hint })
            .against(["a write over the control block or the list may have done the same"])
            .evidence(set.map(|set| set.evidence))
            .next(format!("compare the priority of {by} with the BASEPRI that the kernel uses: a priority is in the upper bits of its byte"))
            .threads([thread.address]),
    )
}
