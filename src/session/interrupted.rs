//! Where the running thread is: the line `now` below the newest events.

use super::{Function, Loaded, Target};
use crate::abi::{Addr, Region};
use crate::cpu::{self, Architecture, CodeRanges, Frames, Level, Origin, Pushed, Registers};
use crate::error::Error;
use crate::sym::Symbols as _;
use crate::unwind;

/// What the registers of the CPU show of the thread that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// The function that it is in, with its source line.
    pub function: Function,
    /// An interrupt has interrupted it.
    pub in_interrupt: bool,
    /// It is start-up code: no thread runs, and what memory shows is of the run before.
    pub in_start_up: bool,
}

/// From this number on exceptions of a Cortex-M are no faults. After a fault it has to be judged whether its frame was
/// written.
const NO_FAULT: u32 = 11;
/// Where a Cortex-M has RAM (Armv7-M Architecture Reference Manual, B3.1): what is elsewhere is not read, as it may be of
/// devices.
const RAM: [Region; 2] =
    [Region { start: 0x1000_0000, len: 0x3000_0000 }, Region { start: 0x6000_0000, len: 0x4000_0000 }];

/// True where a stub that numbers threads by their control blocks means this one: `serve` takes the lower 31 bits, and OpenOCD the
/// whole address.
pub(super) const fn is_number_of(id: u64, address: Addr) -> bool {
    id == address || id == address & 0x7FFF_FFFF
}

impl Target<'_> {
    /// Prepares [`Target::interrupted_as_read`]: the registers of a live Cortex-M come with the memory that is read next.
    pub fn want_interrupted(&mut self) {
        let is_known = self.is_m_profile() && self.info.elf().is_some() && !self.is_running();
        if let Some(remote) = self.remote_mut().filter(|_| is_known) {
            remote.client_mut().want_registers();
        }
    }

    /// As [`Target::interrupted`], without a further round trip to a stub: of a CPU in an interrupt, whose thread's stack
    /// pointer would have to be asked for, and of a stub that takes one request at a time it is not known.
    ///
    /// # Errors
    /// As [`Target::interrupted`].
    pub fn interrupted_as_read(&mut self, loaded: &Loaded) -> Result<Option<Interrupted>, Error> {
        if !self.is_live() {
            return self.interrupted(loaded);
        }
        let Some(remote) = self.remote_mut() else { return Ok(None) };
        if remote.client_mut().is_held() {
            return self.interrupted(loaded);
        }
        let Some(bytes) = remote.client_mut().registers_seen() else { return Ok(None) };
        if !self.runs_one_thread(loaded) {
            return Ok(None);
        }
        let Some(frames) = self.info.elf().and_then(Frames::of) else { return Ok(None) };
        let mut cpu = cpu::from_stub(frames.architecture, frames.endian, &bytes);
        for (name, value) in &self.info.registers.typed {
            cpu.set_from(Origin::Given, name, *value);
        }
        let code = self.info.elf().map(|elf| CodeRanges::of(elf, self.load_offset().value)).unwrap_or_default();
        let pc = cpu.pc().filter(|pc| cpu.level() == Level::Thread && code.holds(*pc) == Some(true));
        let in_start_up = pc.is_some_and(|pc| self.is_first(&cpu, pc));
        Ok(pc.map(|pc| Interrupted { function: self.function_at(pc), in_interrupt: false, in_start_up }))
    }

    /// Where the running thread of a Cortex-M is: at the program counter, or where an interrupt stopped it. `None` where the
    /// source has no registers of it, the CPU is in a fault, or no thread runs.
    ///
    /// # Errors
    /// Where the link fails, or a register that was typed does not exist.
    pub fn interrupted(&mut self, loaded: &Loaded) -> Result<Option<Interrupted>, Error> {
        if !self.runs_one_thread(loaded) || !self.is_m_profile() || self.info.elf().is_none() {
            return Ok(None);
        }
        let stop = self.stop(&mut Vec::new())?;
        let Some(cpu) = stop.cpus.first().filter(|cpu| cpu.architecture() == Architecture::CortexM) else {
            return Ok(None);
        };
        let (pc, in_interrupt) = match cpu.level() {
            Level::Thread => (cpu.pc(), false),
            Level::Exception(NO_FAULT..) => (self.pushed_pc(cpu), true),
            _ => (None, false),
        };
        if let Some(function) = self.start_up(None, &stop) {
            return Ok(Some(Interrupted { function, in_interrupt: false, in_start_up: true }));
        }
        let pc = pc.filter(|pc| stop.code.holds(*pc) == Some(true));
        Ok(pc.map(|pc| Interrupted { function: self.function_at(pc), in_interrupt, in_start_up: false }))
    }

    /// True where one thread runs, is stopped, and the registers are its own. A target that runs is elsewhere by now.
    fn runs_one_thread(&mut self, loaded: &Loaded) -> bool {
        let [running] = *loaded.running.as_slice() else { return false };
        let is_thread = |id| loaded.trace.objects.iter().any(|o| o.is_thread && is_number_of(id, o.address));
        let other = self.selected_thread().is_some_and(|id| !is_number_of(id, running) && is_thread(id));
        running != 0 && !other && !self.is_running()
    }

    /// The thread of which a stub gives the registers, by its own number.
    pub(super) fn selected_thread(&mut self) -> Option<u64> {
        self.remote_mut()?.client_mut().selected_thread()
    }

    /// The program counter that an interrupt pushed onto the stack of the thread.
    fn pushed_pc(&mut self, cpu: &Registers) -> Option<Addr> {
        let psp = cpu.get("psp").filter(|psp| psp & 3 == 0 && RAM.iter().any(|ram| ram.contains(*psp)))?;
        let endian = self.info.elf()?.endian();
        Pushed::read(self.memory.memory(), psp, endian).filter(Pushed::is_of_thread).map(|pushed| pushed.pc)
    }

    /// The function at an address where the CPU goes on.
    pub(super) fn function_at(&self, pc: Addr) -> Function {
        let symbol = self.info.symbols.function(pc);
        let program = self.info.program.as_ref();
        let linked = program.map(|p| p.elf().width().moved_back(pc, p.load_offset()));
        let lines = program.zip(linked).and_then(|(p, at)| p.dwarf().lines().frames(&[at]).pop());
        let source = lines.and_then(|frames| frames.into_iter().next()).unwrap_or_default();
        let offset = symbol.as_ref().filter(|_| source.function.is_none()).and_then(|s| pc.checked_sub(s.address & !1));
        Function {
            pc,
            name: source.function.or_else(|| symbol.map(|s| s.name)),
            offset,
            file: source.file,
            line: source.line,
            is_inlined: false,
            origin: unwind::Origin::Registers,
        }
    }
}
