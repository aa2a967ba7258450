//! What the handler of a fault or a trap left: where it stored the registers that say what happened, and which registers of what it
//! interrupted it has used or kept.

use super::Target;
use super::cpu_state::Place;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{
    Architecture, Code, InstructionSet, Level, Origin, POLLING, Registers, is_fault, saved_fault, saved_trap,
};
use crate::kernel::{Kernel, Stop, Thread};
use crate::unwind::{self, Backtrace};

/// The registers of a Cortex-M that a call keeps (Procedure Call Standard for the Arm Architecture, 6.1.1).
const KEPT: std::ops::RangeInclusive<u16> = 4..=11;
/// The most functions of a handler whose code is looked at.
const HANDLER: usize = 4;
/// The bytes of the stack of a RISC-V's handler that are looked at.
const SYSTEM_STACK: u64 = 1024;
/// `mcause`: the last number of an exception (The RISC-V Instruction Set Manual, volume II, 3.1.15).
const LAST_CAUSE: u64 = 63;
/// So far behind an instruction its constants may be (LDR, literal).
const LITERALS: Addr = 4096;
/// Where a Cortex-M has RAM (Armv7-M Architecture Reference Manual, B3.1).
const SRAM: std::ops::Range<Addr> = 0x2000_0000..0x4000_0000;

impl Target<'_> {
    /// Where the functions of a handler have stored the fault registers, where the source lacks them: a core file, also in a
    /// debugger. A live target has the registers.
    pub(super) fn stored_faults(&mut self, registers: &Registers, backtrace: &Backtrace) -> Vec<(&'static str, Addr)> {
        let is_fault = matches!(registers.level(), Level::Exception(number) if is_fault(number));
        // Code is always little-endian. Where data is not, this is not looked for.
        if !is_fault || registers.get("cfsr").is_some() || self.machine().0 == Some(Endian::Big) {
            return Vec::new();
        }
        let own = backtrace.frames.iter().take_while(|frame| frame.origin != unwind::Origin::Exception);
        let pcs: Vec<Addr> = own.take(HANDLER).map(|frame| frame.pc & !1).collect();
        let mut found: Vec<(&'static str, Addr)> = Vec::new();
        for pc in pcs {
            let start = self.symbols().function(pc).map(|function| function.address & !1);
            let near = start.filter(|start| pc.checked_sub(*start).is_some_and(|len| len <= POLLING));
            let Some(start) = near else { continue };
            let code = start..pc.saturating_add(LITERALS);
            let mut word = |at: Addr| if code.contains(&at) || self.is_memory(at) { self.word(at) } else { None };
            found.extend(saved_fault(start, pc, &mut word));
        }
        found.retain(|(_, at)| self.is_memory(*at) && self.word(*at).is_some());
        // A handler that stores them stores the one that says which fault it is: where that is 0, it has not come there.
        let cfsr = found.iter().rev().find(|(name, _)| *name == "cfsr").map(|(_, at)| *at);
        let has_cfsr = cfsr.and_then(|at| self.word(at)).is_some_and(|cfsr| cfsr != 0);
        if has_cfsr { found } else { Vec::new() }
    }

    /// The same of the handler of a RISC-V's traps, where it has ended in a loop: what says that the last trap was an exception, at the
    /// place that was stored of the thread, where that is known.
    pub(super) fn stored_trap(
        &mut self,
        registers: &Registers,
        kernel: Option<&Kernel>,
        thread: Option<&Thread>,
        stop: &Stop,
    ) -> Vec<(&'static str, Addr)> {
        let of = registers.architecture();
        let set = InstructionSet::of(of).filter(|_| matches!(of, Architecture::Riscv32 | Architecture::Riscv64));
        let in_loop = registers.pc().and_then(|pc| self.loop_at(of, pc)).is_some();
        let is_live = self.is_live() || registers.get("mcause").is_some();
        let Some(set) = set.filter(|_| in_loop && !is_live && self.machine().0 != Some(Endian::Big)) else {
            return Vec::new();
        };
        // It runs on a stack of its own, of which the first frames are enough.
        let stack = registers.sp().map(|sp| Region { start: sp, len: SYSTEM_STACK });
        let backtrace =
            self.with_unwinder(kernel, |unwinder, memory, _| unwinder.backtrace(registers, stack.as_slice(), memory));
        let pcs: Vec<Addr> = backtrace.frames.iter().take(HANDLER).map(|frame| frame.pc).collect();
        let start = |pc: &Addr| {
            let function = self.symbols().function(pc.saturating_sub(1)).map(|function| function.address);
            function.filter(|start| pc.checked_sub(*start).is_some_and(|len| len <= POLLING)).map(|start| (start, *pc))
        };
        let functions: Vec<(Addr, Addr)> = pcs.iter().map_while(start).collect();
        let functions: Vec<(Addr, Addr)> = functions.into_iter().rev().collect();
        let gp = registers.get("gp").and_then(|gp| u32::try_from(gp).ok());
        let mut found = saved_trap(set, &functions, gp, &mut |at| self.word(at));
        let value = |name: &str, found: &[(&str, Addr)], this: &mut Self| {
            let at = found.iter().rev().find(|(of, _)| *of == name)?.1;
            this.register_at(of, at).filter(|_| this.is_memory(at))
        };
        // The highest bit is that of interrupts. An older trap was at another place.
        let is_exception = value("mcause", &found, self).is_some_and(|cause| cause <= LAST_CAUSE);
        let trapped =
            kernel.zip(thread).and_then(|(kernel, thread)| self.stored_alone(registers, kernel, thread, stop));
        let place = trapped.and_then(|(_, trapped)| trapped.pc());
        let epc = value("mepc", &found, self);
        let is_it = is_exception && place.is_none_or(|place| epc.is_none_or(|epc| epc == place));
        found.retain(|(_, at)| is_it && self.is_memory(*at));
        found
    }

    /// True for an address in the RAM of a Cortex-M, or one that the program has a name for: reading others may change a device of a live
    /// target.
    fn is_memory(&self, at: Addr) -> bool {
        SRAM.contains(&at) || self.symbols().function(at).is_some() || self.symbols().variable(at).is_some()
    }

    /// A register of this architecture that is stored in memory, little-endian.
    fn register_at(&mut self, of: Architecture, at: Addr) -> Option<u64> {
        let low = u64::from(self.word(at)?);
        if of != Architecture::Riscv64 {
            return Some(low);
        }
        Some(u64::from(self.word(at.checked_add(4)?)?) << 32 | low)
    }

    /// The registers with those that a handler has stored.
    pub(super) fn with_stored(&mut self, registers: &Registers, stored: &[(&'static str, Addr)]) -> Registers {
        let mut registers = registers.clone();
        for (name, at) in stored {
            self.register_at(registers.architecture(), *at)
                .map(|value| registers.set_from(Origin::Inferred, name, value));
        }
        registers
    }

    /// The registers that a call keeps, and that the functions of a handler use. A function that never returns does not store what was
    /// in them, and unwind information does not say so.
    pub(super) fn used_by_handler(&mut self, registers: &Registers, backtrace: &Backtrace) -> Vec<u16> {
        if registers.architecture() != Architecture::CortexM {
            return Vec::new();
        }
        let own = backtrace.frames.iter().take_while(|frame| frame.origin != unwind::Origin::Exception);
        let pcs: Vec<Addr> = own.take(HANDLER).map(|frame| frame.address() & !1).collect();
        let mut used: Vec<u16> = Vec::new();
        for pc in pcs {
            let Some((from, code)) = self.code_around(pc) else { continue };
            let none = |_: Addr| None;
            let code = Code { at: pc, registers, from, code: &code, stack: None, word: &none };
            used.extend(code.written().into_iter().filter(|register| KEPT.contains(register)));
        }
        used
    }

    /// Forgets those of a place that are the CPU's own.
    pub(super) fn forget_used(&mut self, place: &mut Place, cpu: &Registers, used: &[u16], stop: &Stop) {
        let names = used.iter().map(|register| format!("r{register}"));
        let own: Vec<String> = names
            .filter(|name| place.registers.get(name).is_some() && place.registers.get(name) == cpu.get(name))
            .collect();
        if own.is_empty() {
            return;
        }
        own.iter().for_each(|name| place.registers.forget(name));
        let registers = place.registers.clone();
        let functions = std::mem::take(&mut place.functions);
        let mut callers = std::mem::take(&mut place.callers);
        // Those that the functions between have not kept on the stack.
        for caller in &mut callers {
            let is_own = |name: &&String| caller.get(name).is_some() && caller.get(name) == cpu.get(name);
            let lost: Vec<&String> = own.iter().filter(is_own).collect();
            lost.into_iter().for_each(|name| caller.forget(name));
        }
        *place = Place { callers, ..self.place(place.frame, &registers, place.within.take(), functions, stop) };
    }
}
