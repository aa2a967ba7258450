//! Registers: their names and places, and the values of one stopped CPU or thread.

use super::{Architecture, Level, cortex_m};
use crate::abi::Addr;

/// What a register holds, in the words of GDB's target descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Int,
    /// An address of data.
    Data,
    /// An address of code.
    Code,
    /// A floating-point number of 64 bits; where a program's calls use others, of so many.
    Double,
    /// An x87 number of 80 bits.
    X87,
}

/// Which part of the processor a register belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What every processor of the kind has.
    General,
    /// The floating-point unit, where there is one.
    Float,
    /// Stack pointers and masks beside the general ones.
    System,
}

/// One register of an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// GDB's name.
    pub name: &'static str,
    /// GDB's number.
    pub number: u16,
    /// Size. Those of more than 64 bits are named, so that a `g` packet has their place; their values are not kept.
    pub bits: u16,
    /// What it holds.
    pub kind: Kind,
    /// Where it belongs.
    pub group: Group,
}

impl Register {
    /// A general register.
    pub(super) const fn general(name: &'static str, number: u16, bits: u16, kind: Kind) -> Self {
        Self { name, number, bits, kind, group: Group::General }
    }

    /// One of another group.
    pub(super) const fn of(group: Group, name: &'static str, number: u16, bits: u16, kind: Kind) -> Self {
        Self { name, number, bits, kind, group }
    }

    /// The same with this size.
    #[must_use]
    pub const fn sized(self, bits: u16) -> Self {
        Self { bits, ..self }
    }

    /// Number of bytes in a `g` packet.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        (self.bits >> 3) as usize
    }

    /// The largest value it holds.
    const fn max(&self) -> u64 {
        match self.bits {
            32 => 0xFFFF_FFFF,
            _ => u64::MAX,
        }
    }
}

/// The registers of one stopped CPU, or of one thread. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    architecture: Architecture,
    values: Vec<Option<u64>>,
    /// The thread of an operating system whose registers these are.
    lwp: Option<u32>,
    /// Where its thread-local storage begins, where no register holds that.
    tls: Option<Addr>,
}

impl Registers {
    /// All unknown.
    #[must_use]
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture, values: vec![None; architecture.registers().len()], lwp: None, tls: None }
    }

    /// Whose registers these are.
    #[must_use]
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// These are the registers of a thread of an operating system: its number, and where its thread-local storage
    /// begins where that is known beside the registers.
    pub fn belong_to(&mut self, lwp: u32, tls: Option<Addr>) {
        (self.lwp, self.tls) = (Some(lwp), tls);
    }

    /// The number of the operating system's thread whose registers these are.
    #[must_use]
    pub const fn lwp(&self) -> Option<u32> {
        self.lwp
    }

    /// Where the thread-local storage of an operating system's thread begins: on Linux for x86 its `pthread_t`.
    #[must_use]
    pub fn thread_pointer(&self) -> Option<Addr> {
        let register = (self.architecture == Architecture::X86_64).then(|| self.get("fs_base")).flatten();
        register.or(self.tls).filter(|at| *at != 0)
    }

    fn index(&self, name: &str) -> Option<usize> {
        let name = self.architecture.canonical(name)?;
        self.architecture.registers().iter().position(|r| r.name == name)
    }

    /// The value of a register by GDB's name or another usual one (`r13`, `x1`, `s0`, `pc`).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(self.index(name)?).copied().flatten()
    }

    /// Sets a register; false where there is none of that name, or the value does not fit.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let Some(index) = self.index(name) else { return false };
        let fits = self.architecture.registers().get(index).is_some_and(|r| r.bits <= 64 && value <= r.max());
        match self.values.get_mut(index) {
            Some(slot) if fits => {
                *slot = Some(value);
                true
            }
            _ => false,
        }
    }

    /// Sets a register from a wider field: what does not fit is cut off.
    pub(super) fn put(&mut self, name: &str, value: u64) {
        let registers = self.architecture.registers();
        let max = self.index(name).and_then(|i| registers.get(i)).map_or(0, Register::max);
        self.set(name, value & max);
    }

    /// Makes a register unknown.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(slot) = self.index(name).and_then(|i| self.values.get_mut(i)) {
            *slot = None;
        }
    }

    /// Those of an ARM, where it turns out to be a Cortex-M: what is no xPSR is not taken for one.
    #[must_use]
    pub fn as_cortex_m(&self) -> Self {
        let mut registers = Self::new(Architecture::CortexM);
        for (register, value) in self.iter().filter(|(register, _)| register.group == Group::General) {
            let name = if register.name == "cpsr" { "xpsr" } else { register.name };
            value.map(|value| registers.set(name, value));
        }
        if registers.level() == Level::Unknown {
            registers.forget("xpsr");
        }
        registers.complete();
        registers
    }

    /// Every register in the order of [`Architecture::registers`], with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Register, Option<u64>)> + '_ {
        self.architecture.registers().iter().zip(self.values.iter().copied())
    }

    /// Fills in what follows from the others.
    pub fn complete(&mut self) {
        if self.architecture == Architecture::CortexM {
            cortex_m::complete(self);
        }
    }

    /// The registers beyond the general ones that tell where the running thread stands, in this state of the CPU.
    #[must_use]
    pub fn needed(&self) -> &'static [&'static str] {
        match self.architecture {
            Architecture::CortexM => cortex_m::needed(self),
            _ => &[],
        }
    }

    /// Fills in, for a thread that does not run, what the CPU that stopped tells of it.
    pub fn complete_thread(&mut self, cpu: &Self) {
        if self.architecture == Architecture::CortexM && cpu.architecture == self.architecture {
            cortex_m::complete_thread(self, cpu);
        }
    }

    /// True where no register is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    /// The program counter.
    #[must_use]
    pub fn pc(&self) -> Option<Addr> {
        let [pc, ..] = self.architecture.roles();
        self.get(pc?)
    }

    /// The stack pointer.
    #[must_use]
    pub fn sp(&self) -> Option<Addr> {
        let [_, sp, _] = self.architecture.roles();
        self.get(sp?)
    }

    /// The link register; `None` too where the architecture has none.
    #[must_use]
    pub fn lr(&self) -> Option<Addr> {
        let [_, _, lr] = self.architecture.roles();
        self.get(lr?)
    }
}
