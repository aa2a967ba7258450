//! A thread goes on though it waits, sleeps or is suspended: the kernel has taken it from its ready threads, and the exception
//! in which the next one is switched to does not come (PendSV on a Cortex-M). It comes as soon as the kernel is left, unless
//! PRIMASK or BASEPRI keeps it back: some path sets one of them and does not restore it. Calls that wait return at once then.
//!
//! Against it: between the moment in which the kernel stores the state and the switch a thread is in the kernel. So either its
//! code outside of the kernel runs while PendSV is pending, or its own events show that it blocked several times and nothing made it ready,
//! or the object that it waits for counts more waits than threads wait.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, Mask};
use super::{masking_code, place};
use crate::cpu::{Architecture, Level};
use crate::kernel::{Kernel, State, Thread};
use crate::session::{CpuState, is_of_kernel};
use crate::trace::many;

/// ICSR: PendSV is pending (Armv7-M Architecture Reference Manual, B3.2.4).
const PENDSVSET: u64 = 1 << 28;
/// The function of the kernel that stores such a state.
const SUSPEND: &str = "_tx_thread_system_suspend";
/// So often in a row it has to block and go on.
const TIMES: u64 = 4;
/// The same where no register shows that interrupts are disabled.
const MANY: u64 = 32;
/// More are no count.
const MOST: u64 = 1 << 24;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let cpus = case.cpus.map_or(&[][..], |cpus| &cpus.all);
    let [cpu] = cpus else { return Vec::new() };
    finding(cpu, case).into_iter().collect()
}

/// True where a thread goes on though it waits.
pub(super) fn is_so(cpu: &CpuState, case: &Case<'_>) -> bool {
    finding(cpu, case).is_some()
}

/// What a thread does that is not ready, in words.
fn waits(thread: &Thread) -> Option<&'static str> {
    match thread.state? {
        State(4) => Some("it sleeps"),
        State(3) => Some("it is suspended"),
        State(5..=9 | 13) => Some("it waits"),
        _ => None,
    }
}

/// True where neither the CPU is in a function of the kernel, nor one called it, but that in which threads begin; only of a program
/// in which the kernel's functions have their names.
fn is_outside_kernel(cpu: &CpuState, case: &Case<'_>) -> bool {
    if case.look.symbol(SUSPEND).is_none() {
        return false;
    }
    let own = cpu.registers.pc().and_then(|pc| case.look.function(pc & !1)).is_some_and(|f| !is_of_kernel(&f.name));
    let begins = |name: &str| matches!(name, "_tx_thread_shell_entry" | "_tx_timer_thread_entry");
    let mut names = cpu.functions.iter().filter_map(|function| function.name.as_deref());
    own && !names.any(|name| is_of_kernel(name) && !begins(name))
}

/// The object that a thread waits for, where it counts several waits of that thread more than threads wait: each adds one, and only
/// what ends a wait takes one away.
fn counted(thread: &Thread, kernel: &Kernel, fewest: u64, case: &Case<'_>) -> Option<Evidence> {
    // Where the list of threads is not whole, some that wait are not known.
    let object = kernel.object(thread.suspended_on()?.1).filter(|_| kernel.overwritten.is_empty())?;
    let (count, waiting) = (object.get("suspended_count")?, object.waiting.len() as u64);
    let more = count
        .checked_sub(waiting)
        .filter(|more| (fewest..MOST).contains(more) && object.waiting.contains(&thread.address))?;
    let text = format!(
        "{} counts {count} waits, and {}: {} waited {more} times more, and went on each time",
        case.object(object.address),
        many(waiting, "thread waits", "threads wait"),
        thread.label()
    );
    Some(Evidence::memory(kernel.member_at(object, "suspended_count"), text).holds(count))
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let is_m_profile = cpu.registers.architecture() == Architecture::CortexM;
    // Without registers the kernel says which thread runs. A debugger that steps keeps interrupts back as well, for a few rounds.
    let (may_be, fewest) = match cpu.registers.level() {
        Level::Thread => (true, TIMES),
        Level::Unknown => (cpu.registers.pc().is_none(), MANY),
        Level::Exception(_) | Level::Mode(_) => (false, TIMES),
    };
    let thread = thread_of(cpu, case.kernel).filter(|_| is_m_profile && may_be)?;
    let (kernel, why) = (case.kernel?, waits(thread)?);
    let in_call = thread.delayed_suspend || kernel.preempt_disable.is_some_and(|n| n != 0);
    let mask = Mask::of(&cpu.registers);
    if kernel.execute.contains(&thread.address) || mask.is_none() && interrupts::knows_masks(cpu) {
        return None;
    }
    let pending = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSVSET != 0);
    let is_outside = !in_call && pending.is_some() && is_outside_kernel(cpu, case);
    let again = case.events.and_then(|events| events.blocks_on);
    let again = again.filter(|(of, times, _)| *of == case.stored(thread.address) && *times >= fewest);
    let counted = if in_call { None } else { counted(thread, kernel, fewest, case) };
    if !is_outside && again.is_none() && counted.is_none() {
        return None;
    }
    let name = thread.label();
    let mut evidence = vec![Evidence::memory(thread.address, format!("{name} is the current thread, and {why}"))];
    evidence.extend(
        pending.map(|icsr| Evidence::register("icsr", icsr, "PendSV is pending: the switch does not come".to_owned())),
    );
    evidence.extend(mask.map(|mask| {
        let (name, value) = mask.register();
        Evidence::register(name, value, "interrupts are disabled".to_owned())
    }));
    evidence.extend(counted);
    evidence.extend(again.map(|(_, times, from)| {
        Evidence::event(from, format!("{name} blocked {times} times since, and nothing made it ready"))
    }));
    evidence.extend(
        masking_code::of(case, cpu)
            .map(|code| Evidence::symbol(code.at, &code.words, "the code here disables interrupts".to_owned())),
    );
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    let left = masking_code::left_by(thread.address, case);
    evidence.extend(left.as_ref().map(|left| left.evidence.clone()));
    let (confidence, mut detractors) = case.cap(Confidence::Likely);
    detractors
        .extend(left.as_ref().map(|_| "which function disabled them is inferred from the program's code".to_owned()));
    if mask.is_none() {
        let why = "it is inferred: which register disables them is not known (--reg primask=N --reg basepri=N)";
        detractors.push(why.to_owned());
    }
    let at = place::of(&cpu.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let by = mask.map_or_else(String::new, |mask| format!(" ({})", mask.words()));
    let path = left.as_ref().map_or_else(String::new, |left| format!("; {}", left.words));
    let claim = format!(
        "thread {name} runs on{at} though {why}: interrupts stay disabled{by}, and the switch to another thread does not come{path}"
    );
    let register = mask.map_or_else(|| "PRIMASK or BASEPRI".to_owned(), |mask| mask.register().0.to_uppercase());
    let path =
        left.map_or_else(|| format!("find the path that sets {register} and does not restore it"), |left| left.next);
    Some(
        Finding::new(Code::InterruptsMasked, (confidence, detractors), claim)
            .evidence(evidence)
            .next(format!("{path}; calls that wait return at once"))
            .threads([thread.address]),
    )
}
