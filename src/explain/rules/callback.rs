//! The timer whose callback runs in the kernel's timer thread.

use super::super::Case;
use super::super::events::TIMER_THREAD;
use super::super::state::Task;
use super::jump;
use crate::abi::{Addr, Endian};
use crate::kernel::{Kind, Object, Thread};
use crate::session::{Function, is_of_kernel};

/// The member of a timer that is its callback.
const FUNCTION: &str = "tx_timer_internal_timeout_function";
/// The function of the kernel that calls callbacks.
const TIMER_ENTRY: &str = "_tx_timer_thread_entry";
/// The most bytes of a callback that are looked at.
const MOST: u64 = 1024;

/// The timer whose callback is among these functions of the kernel's timer thread: `, in the callback of timer heartbeat`.
pub(super) fn of(functions: &[Function], thread: Option<&Thread>, case: &Case<'_>) -> String {
    let timers = timers(functions, thread, case);
    if timers.is_empty() { String::new() } else { format!(", in the callback of {}", timers.join(" or ")) }
}

fn timers(functions: &[Function], thread: Option<&Thread>, case: &Case<'_>) -> Vec<String> {
    let Some((kernel, thread)) = case.kernel.zip(thread.filter(|thread| is_timer_thread(thread, case))) else {
        return Vec::new();
    };
    let starts = functions.iter().filter_map(|function| case.look.function(function.pc & !1));
    let starts: Vec<Addr> = starts.map(|function| function.address & !1).collect();
    let of_timer = |timer: &&&Object| timer.get(FUNCTION).is_some_and(|function| starts.contains(&(function & !1)));
    let all_timers: Vec<&Object> = kernel.objects.iter().filter(|object| object.kind == Kind::Timer).collect();
    let mut all: Vec<&Object> = all_timers.iter().filter(of_timer).copied().collect();
    let is_own = |function: &&Function| function.name.as_deref().is_some_and(|name| !is_of_kernel(name));
    if all.is_empty() {
        let own = functions.iter().filter(is_own).filter_map(|function| case.look.function(function.pc & !1));
        let own: Vec<Addr> = own.map(|function| function.address & !1).collect();
        all = all_timers.iter().filter(|timer| jumps_on(timer, &own, case)).copied().collect();
    }
    // While the kernel calls its function, a periodic timer is in a list on the stack of the thread; then all that it has to
    // wait is in front of it.
    let in_stack = |timer: &&&Object| timer.get("tx_timer_internal_list_head").is_some_and(|list| thread.holds(list));
    let is_periodic =
        |timer: &&Object| timer.get("tx_timer_internal_re_initialize_ticks").is_some_and(|ticks| ticks > 0);
    let name = |at: usize| functions.get(at).map(|function| function.name.as_deref());
    if all.is_empty() && name(0) == Some(None) && name(1) == Some(Some(TIMER_ENTRY)) {
        // The callback has jumped on through a wrong pointer.
        let on_stack: Vec<&Object> = all_timers.iter().filter(in_stack).copied().collect();
        all = if all_timers.iter().all(is_periodic) && on_stack.len() == 1 { on_stack } else { Vec::new() };
    }
    let begins = |timer: &&&Object| {
        let of = |name| timer.get(name);
        of("tx_timer_internal_remaining_ticks") == of("tx_timer_internal_re_initialize_ticks")
    };
    let mut surer: Vec<&Object> = all.iter().filter(in_stack).copied().collect();
    if surer.is_empty() {
        surer = all.iter().filter(begins).copied().collect();
    }
    let named = if surer.is_empty() { all } else { surer };
    named.iter().take(3).map(|timer| format!("timer {}", timer.label())).collect()
}

/// True where the callback of a timer jumps to one of these functions, or calls it: a callback that jumps on at its end is none of
/// the callers.
fn jumps_on(timer: &Object, starts: &[Addr], case: &Case<'_>) -> bool {
    let targets = || {
        let start = timer.get(FUNCTION)? & !1;
        let size = case.look.function(start)?.size.min(MOST);
        let code = case.look.bytes(start, size)?;
        let halves = (0..code.len()).step_by(2).filter_map(|at| {
            let (first, second) = (Endian::Little.u16(&code, at)?, Endian::Little.u16(&code, at.checked_add(2)?)?);
            jump::target(first, second, start.checked_add(u64::try_from(at).ok()?)?.checked_add(4)?)
        });
        Some(halves.collect::<Vec<_>>())
    };
    targets().is_some_and(|targets| targets.iter().any(|to| starts.contains(&(to & !1))))
}

/// True for the thread in which the kernel runs its timers.
pub(super) fn is_timer_thread(thread: &Thread, case: &Case<'_>) -> bool {
    let symbol = case.look.symbol("_tx_timer_thread").map(|symbol| symbol.address);
    symbol.map_or_else(|| thread.label() == TIMER_THREAD, |address| address == thread.address)
}

/// The same for a thread that may be known from events alone.
pub(in super::super) fn is_timer_task(task: &Task, case: &Case<'_>) -> bool {
    case.thread(task.address)
        .map_or_else(|| case.label(task.address) == TIMER_THREAD, |thread| is_timer_thread(thread, case))
}
