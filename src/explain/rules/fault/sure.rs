//! Whether a CPU is in the handler of a fault, and how that is known.

use super::riscv;
use crate::cpu::{Architecture, Fault, Level, Origin, is_fault};
use crate::session::CpuState;

/// How it is known that a fault goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    /// The status register says so.
    Runs,
    /// The CPU is in code that only the vector of a fault leads to.
    Handler,
    /// Its registers record one, and nothing shows whether its handler still runs.
    Recorded,
    /// No register records it; what the handler stored of the thread shows it.
    Stored,
}

/// Whether a CPU is in the handler of a fault, as far as its registers show it.
pub(super) fn sure(cpu: &CpuState, fault: Option<&Fault>) -> Option<Sure> {
    let number = cpu.interrupted.as_ref().and_then(|found| found.exception);
    let runs = match cpu.registers.level() {
        Level::Exception(number) => is_fault(number),
        Level::Mode(mode) => matches!(mode, "abort" | "undefined"),
        Level::Thread | Level::Unknown => false,
    };
    if runs && cpu.registers.has_inferred_exception() {
        return Some(Sure::Handler);
    }
    if runs || number.is_some_and(is_fault) || fault.is_some_and(|fault| fault.current == Some(true)) {
        return Some(Sure::Runs);
    }
    if riscv::is_stored_fault(cpu) {
        return Some(Sure::Stored);
    }
    let fault = fault.filter(|fault| fault.current.is_none())?;
    let given = |name| cpu.registers.value(name).is_some_and(|(_, origin)| origin == Origin::Given);
    let is_typed = fault.registers.iter().any(|(name, _)| given(name));
    // Of other processors no register shows that the handler runs. A loop that nothing leaves is what handlers end in; a RISC-V
    // that is in some handler is in that of the last trap, which mcause records: interrupts are recorded there too.
    let is_m_profile = cpu.registers.architecture() == Architecture::CortexM;
    let is_riscv = cpu.registers.get("mcause").is_some();
    if is_riscv && cpu.exception.is_some() && cpu.in_loop.is_some() {
        return Some(Sure::Runs);
    }
    let in_handler = !is_m_profile && cpu.in_loop.is_some() || is_riscv && cpu.exception.is_some();
    (is_typed || in_handler).then_some(Sure::Recorded)
}

/// True where the fault of a CPU is a finding of this rule: the loop in which its handler ends explains nothing then.
pub(in super::super) fn is_in(cpu: &CpuState) -> bool {
    sure(cpu, cpu.registers.fault().as_ref()).is_some()
}
