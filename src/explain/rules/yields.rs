//! A thread calls `tx_thread_relinquish` in a loop: that lets other threads of its priority run, and no less urgent one. Where it waits so
//! for what a less urgent thread does, neither goes on.
//!
//! Against it: the loop may be about to end, as what it waits for may come from an interrupt, or from a more urgent thread. So it is a
//! hint.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{inversion, place, retries, shared};
use crate::abi::Addr;
use crate::kernel::{State, Thread};
use crate::session::{CpuState, Function, is_of_kernel};

/// The service.
const YIELD: [&str; 2] = ["_tx_thread_relinquish", "_txe_thread_relinquish"];
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case, graph)).collect()
}

/// The same of one CPU, or of one that may be there.
pub(super) fn finding(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.exception.is_none())?;
    let own = thread.priority?;
    let ready = |other: &&Thread| other.state == Some(State::READY) && other.address != thread.address;
    let others: Vec<(&Thread, u32)> =
        case.kernel?.threads.iter().filter(ready).filter_map(|other| Some((other, other.priority?))).collect();
    // It gives way to another one of its priority.
    let behind: Vec<&Thread> = others.iter().filter(|(_, priority)| *priority > own).map(|(other, _)| *other).collect();
    if behind.is_empty() || behind.len() < others.len() {
        return None;
    }
    // What it tries again and again there is the cause.
    looping(&cpu.functions, case).filter(|function| !retries::is_in(*function, thread.address, case))?;
    let addresses: Vec<Addr> = behind.iter().map(|other| other.address).collect();
    let at = place::of_thread(cpu).unwrap_or_default();
    let labels: Vec<String> = behind.iter().map(|other| other.label()).collect();
    let (name, labels) = (thread.label(), labels.join(", "));
    let (awaited, evidence) = shared::awaited(&cpu.functions, &addresses, case).unzip();
    // A long computation that keeps the owner of a lock off is the inversion.
    if awaited.is_none() && inversion::keeps_owner(thread.address, graph) {
        return None;
    }
    let awaited = awaited.map_or_else(String::new, |words: String| format!("; {words}"));
    // A mutex that it owns may have made it more urgent than those that it waits for.
    let inherits = thread.inherits().and(thread.own_priority);
    let inherits = inherits
        .map_or_else(String::new, |base| format!(", inherited through a mutex that it owns; its own is {base}"));
    let claim = format!(
        "{name} (priority {own}{inherits}) calls tx_thread_relinquish in a loop{at}, which lets no less urgent thread run: {labels} {} ready{awaited}",
        if behind.len() == 1 { "is" } else { "are" }
    );
    Some(
        Finding::new(Code::Starvation, case.cap_of_registers(Confidence::Hint), claim)
            .against(["what the loop waits for may be about to come"])
            .evidence(behind.iter().map(|other| {
                let text = format!("{} (priority {}) is ready", other.label(), other.priority.unwrap_or_default());
                Evidence::memory(other.address, text)
            }))
            .evidence(evidence)
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(format!("let {name} wait for an object of the kernel that is given when it may go on"))
            .affected(addresses)
            .threads([thread.address]),
    )
}

/// True where a function calls the service again and again.
pub(super) fn repeats(function: Addr, case: &Case<'_>) -> bool {
    let service: Vec<Addr> =
        YIELD.into_iter().filter_map(|name| case.look.symbol(name)).map(|symbol| symbol.address & !1).collect();
    !service.is_empty() && case.usage().is_some_and(|usage| usage.repeats_call(function, &service))
}

/// Where the application's function begins that the CPU is in, or that called the service, where it calls the service again and again.
fn looping(functions: &[Function], case: &Case<'_>) -> Option<Addr> {
    let is_kernel = |function: &Function| function.name.as_deref().is_some_and(is_of_kernel);
    let within = functions.iter().take_while(|function| is_kernel(function));
    let is_other = within.clone().any(|function| function.name.as_deref().is_some_and(|name| !YIELD.contains(&name)));
    let own = functions.get(within.count()).and_then(|function| case.look.function(function.pc.saturating_sub(1) & !1));
    own.map(|own| own.address).filter(|own| !is_other && repeats(*own, case))
}
