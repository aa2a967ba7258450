//! The CPU is in the callback of a timer, in a loop that calls `tx_thread_sleep`. The kernel's timer thread must not sleep: the call
//! returns at once (`TX_CALLER_ERROR`), and leaves no event. The loop goes on until something else ends it, above all threads that are
//! less urgent than the timer thread, as all are by default.
//!
//! Against it: the loop may end by a count.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{function_at, place_at, priority};
use super::{callback, place, shared};
use crate::abi::Addr;
use crate::kernel::{Kind, Object};
use crate::session::CpuState;

/// The function of the kernel.
const SLEEP: &str = "_tx_thread_sleep";
/// The member of a timer that is its callback.
const FUNCTION: &str = "tx_timer_internal_timeout_function";
/// The threads that are named.
const NAMED: usize = 3;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case, graph)).collect()
}

/// The timer in whose callback a CPU is.
fn timer<'c>(cpu: &CpuState, case: &Case<'c>) -> Option<&'c Object> {
    let functions = cpu.functions.iter().filter(|function| !function.is_inferred());
    let starts = functions.filter_map(|function| Some(case.look.function(function.pc & !1)?.address & !1));
    let starts: Vec<Addr> = starts.collect();
    let is_it = |object: &&Object| {
        object.kind == Kind::Timer && object.get(FUNCTION).is_some_and(|at| starts.contains(&(at & !1)))
    };
    case.kernel?.objects.iter().find(is_it)
}

fn finding(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|thread| callback::is_timer_thread(thread, case))?;
    let timer = timer(cpu, case).filter(|_| cpu.exception.is_none())?;
    let sleep = case.look.symbol(SLEEP)?.address & !1;
    let at = case.usage()?.calls_again(User::Callback(timer.address), &[sleep], |_| true)?;
    let caller = case.look.function(at)?.address & !1;
    // It is in that loop.
    let is_there = |pc: Addr| case.look.function(pc & !1).is_some_and(|function| function.address & !1 == caller);
    if !cpu.functions.iter().any(|function| !function.is_inferred() && is_there(function.pc)) {
        return None;
    }
    let ready = graph.tasks.list.iter().filter(|task| task.does == Does::Ready && task.address != thread.address);
    let ready: Vec<Addr> = ready.map(|task| task.address).collect();
    let names: Vec<String> = ready.iter().take(NAMED).map(|at| case.label(*at)).collect();
    let behind = match names.as_slice() {
        [] => String::new(),
        [one] => format!(": {one} is ready and cannot run"),
        all => format!(": {} are ready and cannot run", all.join(", ")),
    };
    let (waits, used) = shared::awaited(&cpu.functions, &ready, case).unzip();
    let waits = waits.map_or_else(String::new, |waits| format!("; {waits}"));
    let claim = format!(
        "the callback of {} is in {}, where tx_thread_sleep is called in a loop: in a callback it returns at once (TX_CALLER_ERROR){behind}{waits}",
        case.object(timer.address),
        place::in_application(&cpu.functions).unwrap_or_else(|| function_at(at, case))
    );
    let rank = priority(thread.address, graph);
    Some(
        Finding::new(Code::WrongContext, case.cap(Confidence::Likely), claim)
            .against(["the loop may end by a count"])
            .evidence([
                Evidence::memory(
                    thread.address,
                    format!("{}{rank}, which runs the callbacks, does not block", thread.label()),
                ),
                Evidence::symbol(at, &place_at(at, case), "tx_thread_sleep is called again and again here".to_owned()),
            ])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .evidence(used)
            .next("let the callback give a semaphore or set event flags, and let a thread do the rest")
            .threads([thread.address])
            .affected(ready),
    )
}
