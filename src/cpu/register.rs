//! The values of the registers of one stopped CPU or thread, each with where it is from.

use super::{Architecture, Group, Level, Place, Register, cortex_m, riscv};
use crate::abi::{Addr, Endian};
use crate::mem::Memory;

/// Where a value is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A stub or a debugger gave it, or it was read from memory where the processor maps it.
    Read,
    /// A core's notes.
    Core,
    /// The frame on a thread's stack that it saved, or that an exception pushed.
    Frame,
    /// Someone gave it: `--reg`.
    Given,
    /// It follows from others.
    Inferred,
}

/// The registers of one stopped CPU, or of one thread. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    architecture: Architecture,
    /// Where the values are from that are set without another origin.
    origin: Origin,
    values: Vec<Option<(u64, Origin)>>,
    /// The thread of an operating system whose registers these are.
    lwp: Option<u32>,
    /// Where its thread-local storage begins, where no register holds that.
    tls: Option<Addr>,
}

impl Registers {
    /// All unknown; values that are set are [`Origin::Given`].
    pub fn new(architecture: Architecture) -> Self {
        Self::of(architecture, Origin::Given)
    }

    /// All unknown; values that are set are from `origin`.
    pub fn of(architecture: Architecture, origin: Origin) -> Self {
        Self { architecture, origin, values: vec![None; architecture.registers().len()], lwp: None, tls: None }
    }

    /// The processor.
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// These are the registers of a thread of an operating system: its number, and where its thread-local storage
    /// begins where that is known beside the registers.
    pub(super) fn belong_to(&mut self, lwp: u32, tls: Option<Addr>) {
        (self.lwp, self.tls) = (Some(lwp), tls);
    }

    /// The number of the operating system's thread whose registers these are.
    pub const fn lwp(&self) -> Option<u32> {
        self.lwp
    }

    /// Where the thread-local storage of an operating system's thread begins: on Linux for x86 its `pthread_t`.
    pub fn thread_pointer(&self) -> Option<Addr> {
        let register = (self.architecture == Architecture::X86_64).then(|| self.get("fs_base")).flatten();
        register.or(self.tls).filter(|at| *at != 0)
    }

    /// The value of a register by GDB's name or another usual one (`r13`, `x1`, `s0`, `pc`).
    pub fn get(&self, name: &str) -> Option<u64> {
        self.value(name).map(|(value, _)| value)
    }

    /// The value of a register, and where it is from.
    pub fn value(&self, name: &str) -> Option<(u64, Origin)> {
        self.values.get(self.architecture.index(name)?).copied().flatten()
    }

    /// Sets a register; false where there is none of that name, or the value is too large for it.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        self.set_from(self.origin, name, value)
    }

    /// The same, with where the value is from.
    pub fn set_from(&mut self, origin: Origin, name: &str, value: u64) -> bool {
        let Some(index) = self.architecture.index(name) else { return false };
        let small = self.architecture.registers().get(index).is_some_and(|r| r.bits <= 64 && value <= r.max());
        match self.values.get_mut(index) {
            Some(slot) if small => {
                *slot = Some((value, origin));
                true
            }
            _ => false,
        }
    }

    /// Sets a register from a wider field: what is too much is cut off.
    pub(super) fn put(&mut self, name: &str, value: u64) {
        let register = self.architecture.index(name).and_then(|i| self.architecture.registers().get(i));
        self.set(name, value & register.map_or(0, Register::max));
    }

    /// Makes a register unknown.
    pub fn forget(&mut self, name: &str) {
        if let Some(slot) = self.architecture.index(name).and_then(|i| self.values.get_mut(i)) {
            *slot = None;
        }
    }

    /// Those of an ARM, where it turns out to be a Cortex-M: what is no xPSR is not taken for one.
    pub fn as_cortex_m(&self) -> Self {
        let mut registers = Self::of(Architecture::CortexM, self.origin);
        for (register, (value, origin)) in self.known().filter(|(register, _)| register.group == Group::General) {
            let name = if register.name == "cpsr" { "xpsr" } else { register.name };
            registers.set_from(origin, name, value);
        }
        if registers.level() == Level::Unknown {
            registers.forget("xpsr");
        }
        registers.complete();
        registers
    }

    /// Every register that is known, in the order of [`Architecture::registers`], with its value and where that is from.
    pub(super) fn known(&self) -> impl Iterator<Item = (&'static Register, (u64, Origin))> + '_ {
        let all = self.architecture.registers().iter().zip(&self.values);
        all.filter_map(|(register, value)| Some((register, (*value)?)))
    }

    /// A register as `g` and `p` packets have it; a byte that is not known is `None`.
    pub fn encode(&self, register: &Register, endian: Endian) -> Vec<Option<u8>> {
        let Some(value) = self.get(register.name).filter(|_| register.bits <= 64) else {
            return vec![None; register.bytes()];
        };
        let mut bytes: Vec<Option<u8>> = value.to_le_bytes().into_iter().take(register.bytes()).map(Some).collect();
        if endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    }

    /// Reads the registers that the processor maps into memory, as far as they can be read and are not known: a Cortex-M's
    /// System Control Block, in one flight. What is there where no such processor is, is not taken.
    pub fn read_mapped(&mut self, memory: &mut dyn Memory) {
        let runs = self.architecture.mapped();
        let mut found = Self::of(self.architecture, Origin::Read);
        for (run, bytes) in runs.iter().zip(memory.read_batch(runs)) {
            let Ok(bytes) = bytes else { continue };
            for register in self.architecture.registers() {
                let Place::Memory(at) = register.place else { continue };
                let offset = at.checked_sub(run.0).and_then(|offset| usize::try_from(offset).ok());
                // The System Control Space is little-endian whatever the processor's data are.
                let value = offset.and_then(|offset| Endian::Little.u32(bytes.as_slice(), offset));
                value.map(|value| found.set(register.name, value.into()));
            }
        }
        found.complete_mapped(self);
        for (register, (value, origin)) in found.known() {
            if self.get(register.name).is_none() {
                self.set_from(origin, register.name, value);
            }
        }
    }

    /// Drops what this processor does not have. `known`: what was known before.
    fn complete_mapped(&mut self, known: &Self) {
        if self.architecture == Architecture::CortexM {
            cortex_m::complete_mapped(self, known.get("cpuid"));
        }
    }

    /// Fills in what follows from the others.
    pub fn complete(&mut self) {
        if self.architecture == Architecture::CortexM {
            cortex_m::complete(self);
        }
    }

    /// The registers beyond the general ones without which it is not known where the running thread is.
    pub fn needed(&self) -> &'static [&'static str] {
        match self.architecture {
            Architecture::CortexM => cortex_m::needed(self),
            _ => &[],
        }
    }

    /// Fills in, for a thread that does not run, what the CPU that stopped shows of it.
    pub fn complete_thread(&mut self, cpu: &Self) {
        if self.architecture == Architecture::CortexM && cpu.architecture == self.architecture {
            cortex_m::complete_thread(self, cpu);
        }
    }

    /// True where all registers hold what a reset leaves in them, of a processor of which that is known: it has run nothing
    /// since.
    pub fn is_at_reset(&self) -> bool {
        match self.architecture {
            Architecture::Riscv32 | Architecture::Riscv64 => riscv::is_at_reset(self),
            _ => false,
        }
    }

    /// True where no register is known.
    pub fn is_unknown(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    /// True where a general register or a stack pointer is known.
    pub fn is_placed(&self) -> bool {
        self.known().any(|(r, _)| r.group == Group::General || matches!(r.name, "psp" | "msp"))
    }

    /// The program counter.
    pub fn pc(&self) -> Option<Addr> {
        self.get("pc")
    }

    /// The stack pointer.
    pub fn sp(&self) -> Option<Addr> {
        self.get("sp")
    }

    /// The link register; `None` too where the architecture has none.
    pub fn lr(&self) -> Option<Addr> {
        self.get("lr")
    }
}
