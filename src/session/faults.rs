//! The fault and system registers of a stopped CPU, read where they change nothing by being read.

use std::collections::BTreeSet;

use super::{Target, stub};
use crate::abi::Addr;
use crate::cpu::{Architecture, INTERRUPT_STATE, Origin, Registers, branches_to, is_fault};
use crate::error::Error;
use crate::kernel::{self, Stop};
use crate::mem::{Memory as _, Region};

/// The bits of VTOR that are an address (Armv7-M Architecture Reference Manual, B3.2.5).
const VTOR_ADDRESS: Addr = !0x7F;
/// The Interrupt Controller Type Register: one less than how many times 32 interrupts there are (B4.2.2).
const ICTR: Addr = 0xE000_E004;
const ICTR_LINES: u32 = 0xF;
/// The vectors before the first interrupt's, the initial stack pointer with them; and how many interrupts an Armv7-M has at most.
const SYSTEM_EXCEPTIONS: u64 = 16;
const MOST_INTERRUPTS: u64 = 240;
/// The most handlers of others that are looked at, and bytes of each.
const MOST_HANDLERS: usize = 256;
const SMALL: u64 = 256;

impl Target<'_> {
    /// Reads what shows a fault. Of a Cortex-M that is one flight of reads; of others the stub is asked for each register
    /// that it describes. A register that cannot be read stays unknown.
    ///
    /// # Errors
    /// Where the link fails.
    pub(super) fn read_fault_registers(&mut self, stop: &mut Stop) -> Result<(), Error> {
        let Some(frames) = stop.frames else { return Ok(()) };
        if frames.architecture == Architecture::CortexM {
            self.read_mapped(stop);
            let mut cpus = std::mem::take(&mut stop.cpus);
            cpus.iter_mut().for_each(|cpu| self.infer_exception(cpu));
            stop.cpus = cpus;
            return Ok(());
        }
        let Some((remote, cpu)) = self.remote_mut().zip(stop.cpus.first_mut()) else { return Ok(()) };
        let names = cpu.fault_names();
        stub::ask(remote.client_mut(), frames.endian, cpu, names).map_err(Error::from)
    }

    /// By the vectors of the program, where a file has no status register of a Cortex-M: QEMU writes another one into its cores. The code
    /// that runs is a handler, or a function that is none and that the handler of a fault alone jumps to. Of a live target nothing is read
    /// for it.
    fn infer_exception(&mut self, cpu: &mut Registers) {
        let pc = cpu.pc().filter(|_| !self.is_live() && cpu.may_infer_exception());
        let start = |at: Addr| self.symbols().function(at).map(|function| function.address & !1);
        let Some(own) = pc.and_then(start) else { return };
        let handlers = self.symbols().handlers();
        let is_of_fault = |at: Addr| handlers.iter().any(|(number, of)| is_fault(*number) && of & !1 == at);
        let all: BTreeSet<Addr> = handlers.iter().map(|(_, at)| at & !1).collect();
        let others: Vec<Addr> = all.iter().filter(|at| **at != own).copied().collect();
        if others.len() > MOST_HANDLERS {
            return;
        }
        let mut leading = others.into_iter().filter(|at| self.may_jump_to(*at, own));
        match (all.contains(&own), leading.next(), leading.next()) {
            (true, None, _) => cpu.infer_exception(&handlers, own),
            // Drivers share functions that several handlers may come to in ways that are not seen here.
            (false, Some(only), None) if is_of_fault(only) => cpu.infer_exception(&handlers, only),
            _ => {}
        }
    }

    /// True also where its code is not known.
    fn may_jump_to(&mut self, handler: Addr, to: Addr) -> bool {
        // The size of a function in assembly is often not known.
        let size = self.symbols().function(handler).map_or(0, |function| function.size);
        let len = if size == 0 { SMALL } else { size.min(SMALL) };
        let bytes = usize::try_from(len).ok().and_then(|len| self.memory.memory().read_bytes(handler, len).ok());
        bytes.is_none_or(|bytes| branches_to(&bytes, handler, to))
    }

    /// The System Control Block of a Cortex-M. Only of a target that does not run, and where the program shows that it is one:
    /// of another processor there may be anything at these addresses.
    fn read_mapped(&mut self, stop: &mut Stop) {
        let live = self.is_live();
        if live && !self.is_m_profile() || self.memory.memory().changes() || stop.cpus.len() > 1 {
            return;
        }
        let mut only = Registers::of(Architecture::CortexM, Origin::Read);
        let cpu = stop.cpus.first_mut().unwrap_or(&mut only);
        cpu.read_mapped(self.memory.memory());
        if stop.cpus.is_empty() && !only.is_unknown() {
            stop.cpus.push(only);
        }
    }

    /// The ranges of a live Cortex-M that show its interrupts and SysTick, with those of its fault registers, read in one
    /// flight; and its vectors. Empty for other targets.
    pub(super) fn interrupt_state(&mut self, stop: &Stop) -> Vec<Region> {
        let known = stop.cpus.first().is_some_and(|cpu| cpu.get("cpuid").is_some());
        if !self.is_live() || !known || stop.cpus.len() > 1 {
            return Vec::new();
        }
        let mapped = Architecture::CortexM.mapped().iter().chain(&INTERRUPT_STATE).copied().collect::<Vec<_>>();
        let read = self.memory.memory().read_batch(&mapped);
        let there = mapped.iter().zip(read).filter(|(_, bytes)| bytes.is_ok());
        let there = there.map(|((start, len), _)| Region { start: *start, len: *len as u64 });
        there.chain(self.vector_table(stop)).collect()
    }

    /// The vectors that a Cortex-M uses: the program may have put them into RAM, and it may have written over them.
    fn vector_table(&mut self, stop: &Stop) -> Option<Region> {
        let start = stop.cpus.first()?.get("vtor")? & VTOR_ADDRESS;
        let mut ictr = [0; 4];
        // Armv6-M has no ICTR, and 32 interrupts at most.
        let blocks = match self.memory.memory().read(ICTR, &mut ictr) {
            Ok(()) => u64::from(u32::from_le_bytes(ictr) & ICTR_LINES).saturating_add(1),
            Err(_) => 1,
        };
        let vectors = blocks.saturating_mul(32).min(MOST_INTERRUPTS).saturating_add(SYSTEM_EXCEPTIONS);
        Some(Region { start, len: vectors.saturating_mul(4) })
    }

    /// What the fault registers record, one line for each CPU; empty where they record nothing, or are not known.
    ///
    /// # Errors
    /// Where the link fails, or a register that was typed does not exist.
    pub fn faults(&mut self) -> Result<Vec<String>, Error> {
        let mut stop = self.stop(&mut Vec::new())?;
        self.read_fault_registers(&mut stop)?;
        Ok(kernel::fault_lines(&stop.cpus))
    }
}
