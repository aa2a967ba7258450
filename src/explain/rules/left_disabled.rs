//! A function of the thread that runs may return without restoring the interrupts that it disabled.
//!
//! There are three signs of it where the registers do not show whether interrupts are disabled:
//!
//! - The kernel's time stands still: the thread calls `tx_time_get` again and again, and gets the same time.
//! - By the trace, all last calls of `tx_interrupt_control` by the thread leave interrupts disabled, though it blocked meanwhile. Where
//!   its code has no function that leaves them disabled, this is a hint: instructions may enable them, or calls that leave no event.
//! - Without registers: the newest event of the trace is its only call of `tx_interrupt_control`. That is a hint: the program may have
//!   stopped itself so.
//!
//! Where the registers show the mask, other rules look at it. Only a call of the kernel, which disables interrupts for a moment
//! itself, is looked at here.
//!
//! Against it: the function may not have been called on that path, and a loop that asks for the time until the next tick looks the
//! same.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::state::Does;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::Mask;
use super::masking_code::{self, Left};
use super::{callback, interrupts, masked, masked_riscv, place};
use crate::cpu::{Architecture, Level, Registers};
use crate::kernel::{Above, Thread};
use crate::session::{CpuState, Function};

/// `TX_INT_DISABLE` in tx_port.h of Cortex-M, and of Cortex-A and Cortex-R without and with fast interrupts.
const DISABLE: [u64; 3] = [0x1, 0x80, 0xC0];
/// The fewest events of a trace in which one call is rare.
const MANY: u64 = 100;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    let found: Vec<Finding> = cpus.filter_map(|cpu| by_calls(cpu, case).or_else(|| finding(cpu, case))).collect();
    let by_one_call = || by_the_last_call(case, graph).or_else(|| by_the_only_call(case, graph));
    if found.is_empty() { by_one_call().into_iter().collect() } else { found }
}

/// By the trace: the newest event is the only call of `tx_interrupt_control`. Code that stops the system after a check that failed
/// disables interrupts first.
fn by_the_only_call(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events.filter(|events| events.cores <= 1 && events.count >= MANY)?;
    let only = events.postures.only().filter(|only| DISABLE.contains(&only.value));
    let only = only.filter(|_| case.cpus.is_none_or(|cpus| cpus.all.is_empty()))?;
    let task = graph.stored(case, only.thread).filter(|task| matches!(task.does, Does::Runs | Does::Ready))?;
    let (name, value) = (case.label(task.address), only.value);
    let claim = format!(
        "{name} calls tx_interrupt_control({value:#x}) in the newest event, for the first time in the trace: it may have disabled \
         interrupts to stop the system itself, as after a check that failed"
    );
    let text = format!("{name} calls tx_interrupt_control({value:#x}) here, and no event comes after it");
    Some(
        Finding::new(Code::InterruptsMasked, case.cap(Confidence::Hint), claim)
            .against(["the trace may have been read just after that call", "what the value means depends on the port"])
            .evidence([Evidence::event(only.seq, text)])
            .next(format!(
                "look at the events of {name} before it (`last`), and find where its code calls tx_interrupt_control"
            ))
            .threads([task.address]),
    )
}

/// By the trace: the last call of `tx_interrupt_control` disables interrupts, the thread has gone on, and nothing else has come. Before it
/// has enabled them each time by its next call.
fn by_the_last_call(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let left = case.events.filter(|events| events.cores <= 1)?.postures.left()?;
    let task = graph.stored(case, left.thread).filter(|task| matches!(task.does, Does::Runs | Does::Ready))?;
    let mut cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    if cpus.any(shows_mask) {
        return None;
    }
    let name = case.label(task.address);
    let by = masking_code::left_by(task.address, case);
    let most = if by.is_some() { Confidence::Likely } else { Confidence::Hint };
    let words = by.as_ref().map_or_else(String::new, |by| format!("; {}", by.words));
    let claim = format!(
        "{name} disabled interrupts and went on without enabling them, which it did each of the {} times before; no event of an \
         interrupt or another thread has come since{words}",
        left.times
    );
    let text = format!("{name} calls tx_interrupt_control({:#x}) here for the last time", left.value);
    Some(
        Finding::new(Code::InterruptsMasked, case.cap(most), claim)
            .against(["no register says whether interrupts are disabled (--reg primask=N)"])
            .against(["instructions may have enabled them, which leave no event"])
            .evidence([Evidence::event(left.seq, text)])
            .evidence(by.as_ref().map(|by| by.evidence.clone()))
            .next(by.map_or_else(
                || format!("look for a path of {name} behind that call that does not restore interrupts"),
                |by| by.next,
            ))
            .threads([task.address]),
    )
}

/// True where the registers show whether interrupts are disabled.
fn shows_mask(cpu: &CpuState) -> bool {
    let is_cortex_m = cpu.registers.architecture() == Architecture::CortexM;
    if is_cortex_m { interrupts::knows_masks(cpu) } else { cpu.registers.get("mstatus").is_some() }
}

/// Which register says it, as an option.
fn asked(registers: &Registers) -> &'static str {
    if registers.architecture() == Architecture::CortexM { "--reg primask=N" } else { "--reg mstatus=N" }
}

/// The thread that a CPU runs, outside of interrupts.
fn running<'c>(cpu: &CpuState, case: &Case<'c>) -> Option<&'c Thread> {
    let above = &case.kernel?.cpus.get(cpu.core)?.above;
    let is_in_thread = cpu.registers.level() == Level::Thread || *above == Above::Nothing;
    thread_of(cpu, case.kernel).filter(|_| is_in_thread && cpu.exception.is_none() && !cpu.is_outside_code)
}

/// So many calls in a row that leave interrupts disabled are more than some that lie within each other.
const OFTEN: u64 = 6;

/// By the trace: all of the last calls of `tx_interrupt_control` of the thread leave interrupts disabled, and it has blocked since the
/// first, where a thread that does so on purpose has enabled them.
fn by_calls(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = running(cpu, case).filter(|_| !shows_mask(cpu))?;
    let events = case.events?;
    let activity = events.activity(thread.address)?;
    let posture = activity.posture.filter(|posture| posture.times >= OFTEN && posture.blocks < activity.blocks)?;
    // TX_INT_DISABLE in tx_port.h of the two: PRIMASK, and `mstatus` without MIE.
    let is_disabled = match cpu.registers.architecture() {
        Architecture::CortexM => posture.value & 1 == 1,
        Architecture::Riscv32 | Architecture::Riscv64 => posture.value & masked_riscv::MIE == 0,
        _ => false,
    };
    if !is_disabled || posture.gaps != events.gaps() {
        return None;
    }
    let name = thread.label();
    let left = masking_code::left_by(thread.address, case);
    let words = left.as_ref().map_or_else(String::new, |left| format!("; {}", left.words));
    let at = place::of_thread(cpu).unwrap_or_default();
    let text = format!(
        "from here on all {} calls of tx_interrupt_control by {name} leave interrupts disabled ({:#x})",
        posture.times, posture.value
    );
    // Without such a function they may be enabled by instructions, or by a call that leaves no event.
    let most = if left.is_some() { Confidence::Likely } else { Confidence::Hint };
    let (confidence, mut detractors) = case.by_events();
    let (confidence, against) = case.cap_of_registers(confidence.min(most));
    detractors.extend(against);
    let claim = format!(
        "thread {name} runs{at} with interrupts disabled: it disables them and does not enable them again{words}"
    );
    Some(
        Finding::new(Code::InterruptsMasked, (confidence, detractors), claim)
            .against([format!("no register says whether interrupts are disabled ({})", asked(&cpu.registers))])
            .evidence([Evidence::event(posture.from, text)])
            .evidence(left.as_ref().map(|left| left.evidence.clone()))
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(
                left.map_or_else(
                    || "look at what the thread calls just before that event".to_owned(),
                    |left| left.next,
                ),
            )
            .threads([thread.address]),
    )
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = running(cpu, case).filter(|_| cpu.in_loop.is_none())?;
    let mask = Mask::of(&cpu.registers).filter(|_| interrupts::is_in_kernel(cpu));
    if shows_mask(cpu) && (mask.is_none() || masked::finding(cpu, case).is_some()) {
        return None;
    }
    // Without the period of a tick no one knows whether one is due.
    let still = interrupts::still(case).filter(|still| still.period.is_none() || still.may_be_over())?;
    let Left { start, words, evidence, next } = masking_code::left_by(thread.address, case)?;
    // The CPU has come through that function, and is still in it.
    let is_there =
        |function: &Function| case.look.function(function.pc & !1).is_some_and(|at| at.address & !1 == start);
    let is_within = cpu.functions.iter().any(|function| !function.is_inferred() && is_there(function));
    // The kernel disables them where the CPU is: the register alone shows nothing.
    let is_sure = still.may_be_over() || is_within;
    let most = if is_sure { Confidence::Likely } else { Confidence::Hint };
    let (confidence, mut detractors) = case.by_events();
    let (confidence, against) = case.cap_of_registers(confidence.min(most));
    detractors.extend(against);
    let at = place::of_thread(cpu).unwrap_or_default();
    let callback = callback::of(&cpu.functions, Some(thread), case);
    let by = mask.map_or_else(String::new, |mask| format!(" with interrupts disabled ({})", mask.words()));
    let claim = format!("thread {} runs{at}{callback}{by} and no tick comes: {words}", thread.label());
    let unknown = match mask {
        Some(_) => "the kernel disables them itself where the CPU is".to_owned(),
        None => format!("it is inferred: no register says whether interrupts are disabled ({})", asked(&cpu.registers)),
    };
    Some(
        Finding::new(Code::InterruptsMasked, (confidence, detractors), claim)
            .against([
                unknown,
                "a loop that asks for the time until the next tick looks the same".to_owned(),
                "a function may leave them disabled on purpose".to_owned(),
            ])
            .evidence(
                mask.map(Mask::register)
                    .map(|(name, value)| Evidence::register(name, value, "interrupts are disabled".to_owned())),
            )
            .evidence([still.shows(), evidence])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(next)
            .threads([thread.address]),
    )
}
