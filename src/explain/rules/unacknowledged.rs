//! The CPU is in the handler of an interrupt that, with memory as it is, comes to its end without access to a register of a device. A
//! device that asks for an interrupt until it is acknowledged asks again at once, and nothing below it runs. As a rule a path of the
//! handler leaves before the acknowledgement: where a ring is full, or no memory is left.
//!
//! Against it: an interrupt that comes as a pulse, or that software sets pending, has nothing to be acknowledged. So it is a hint.

use super::super::{Case, Confidence, Evidence};
use super::interrupts::FIRST;
use super::no_switch::Kept;
use super::rounds::word;
use super::shared;
use super::words::function_at;
use crate::abi::Addr;
use crate::cpu::{Run, run};
use crate::session::{CpuState, is_of_kernel};

/// The most variables that are named.
const VARIABLES: usize = 4;
/// The last lines that are shown.
const LINES: usize = 10;

pub(super) fn kept(cpu: &CpuState, number: u64, case: &Case<'_>) -> Option<Kept> {
    let (_, handler) = case.look.handlers().into_iter().find(|(of, _)| u64::from(*of) == number)?;
    // Another one may have interrupted it, and functions of the kernel may come between.
    let begins = |pc: Addr| case.look.function(pc & !1).map(|function| function.address & !1) == Some(handler & !1);
    if !cpu.functions.iter().any(|function| begins(function.pc)) {
        return None;
    }
    path(number, false, case)
}

/// The same of the handler in which the CPU is known to be. `reads_too`: also where it reads one register of a device, which may
/// acknowledge its interrupt, as that of a UART.
pub(super) fn path(number: u64, reads_too: bool, case: &Case<'_>) -> Option<Kept> {
    let exception = u32::try_from(number).ok().filter(|_| number >= FIRST)?;
    let (_, handler) = case.look.handlers().into_iter().find(|(of, _)| *of == exception)?;
    if case.trust.was_running {
        return None;
    }
    let is_kernel = |at: Addr| case.look.function(at).is_some_and(|function| is_of_kernel(&function.name));
    let found = run(handler, exception, &|at| word(at, case), &is_kernel)?;
    if found.endless.is_some() {
        return None;
    }
    if !found.devices_written.is_empty() || found.devices.len() > usize::from(reads_too) {
        return None;
    }
    let name = function_at(handler, case);
    let read = found
        .devices
        .first()
        .map(|at| format!(": it reads {at:#x} alone, which acknowledges the interrupts of some devices"));
    let access = if read.is_none() { "access" } else { "a write" };
    let read = read.unwrap_or_default();
    let text = format!(
        "simulated from its beginning, it ends after {} instructions and {} no device{}",
        found.steps,
        if found.devices.is_empty() { "accesses" } else { "writes to" },
        lines(&found, case)
    );
    Some(Kept {
        confidence: Confidence::Hint,
        against: Some(
            "what comes as a pulse, or is set pending by software, has nothing to be acknowledged; and the handler may have changed what it reads",
        ),
        words: format!(
            "with memory as it is{}, {name} returns without {access} to a register of a device{read}",
            variables(&found, case)
        ),
        evidence: vec![Evidence::symbol(handler & !1, &name, text)],
    })
}

/// ` (gate.state is 0)`: the variables that it reads, where they are few.
fn variables(found: &Run, case: &Case<'_>) -> String {
    let is_data = |at: Addr| case.look.variable(at).is_some_and(|variable| shared::is_data(&variable, case));
    let named = |at: Addr| case.look.holds(at, word(at & !3, case)?);
    let all: Vec<String> = found.accessed.iter().copied().filter(|at| is_data(*at)).filter_map(named).collect();
    if (1..=VARIABLES).contains(&all.len()) { format!(" ({})", all.join(", ")) } else { String::new() }
}

/// `: flow.c:12, 15, 16`: the last lines that it runs.
fn lines(found: &Run, case: &Case<'_>) -> String {
    let mut all: Vec<String> = found.own.iter().filter_map(|at| case.look.line(*at)).collect();
    all.dedup();
    let from = all.len().saturating_sub(LINES);
    let mut words = if from > 0 { ": ...".to_owned() } else { String::new() };
    let mut file = "";
    for line in all.iter().skip(from) {
        let (of, number) = line.rsplit_once(':').unwrap_or((line, ""));
        let shown = if of == file { number } else { line };
        words.push_str(if words.is_empty() { ": " } else { ", " });
        words.push_str(shown);
        file = of;
    }
    words
}
