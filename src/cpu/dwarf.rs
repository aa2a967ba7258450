//! The numbers that debug information has for registers, and which of them a call keeps.
//!
//! From the ABI of each architecture: AADWARF32, AADWARF64, the RISC-V ELF psABI, and the System V psABI for i386 and x86-64.

use super::Architecture;
use super::table::words;

/// The registers by number, from 0 on, and those that a function must give back to its caller as they were.
struct Numbers {
    names: &'static str,
    kept: &'static str,
}

const ARM: Numbers =
    Numbers { names: "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 sp lr pc", kept: "r4 r5 r6 r7 r8 r9 r10 r11" };
const AARCH64: Numbers = Numbers {
    names: "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 \
            x29 x30 sp",
    kept: "x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29",
};
const RISCV: Numbers = Numbers {
    names: "zero ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6",
    kept: "zero gp tp fp s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11",
};
const X86: Numbers = Numbers { names: "eax ecx edx ebx esp ebp esi edi eip", kept: "ebx ebp esi edi" };
const X86_64: Numbers = Numbers {
    names: "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip",
    kept: "rbx rbp r12 r13 r14 r15",
};

impl Architecture {
    const fn numbers(self) -> &'static Numbers {
        match self {
            Self::CortexM | Self::Arm => &ARM,
            Self::Aarch64 => &AARCH64,
            Self::Riscv32 | Self::Riscv64 => &RISCV,
            Self::X86 => &X86,
            Self::X86_64 => &X86_64,
        }
    }

    /// The registers that debug information numbers, with their numbers.
    pub fn dwarf_registers(self) -> impl Iterator<Item = (u16, &'static str)> {
        (0..).zip(words(self.numbers().names).flatten())
    }

    /// Debug information's number of a register, by the name in [`Architecture::registers`] or another usual one.
    pub fn dwarf_number(self, name: &str) -> Option<u16> {
        let wanted = self.index(name)?;
        self.dwarf_registers().find(|(_, name)| self.index(name) == Some(wanted)).map(|(number, _)| number)
    }

    /// The number of the register that a call leaves its return address in; `None` where it is on the stack.
    pub fn link_register(self) -> Option<u16> {
        self.dwarf_number("lr")
    }

    /// True for a register, by debug information's number, that a function gives back to its caller as it was.
    pub fn is_kept(self, number: u16) -> bool {
        let name = self.dwarf_registers().find(|(n, _)| *n == number).map(|(_, name)| name);
        name.is_some_and(|name| words(self.numbers().kept).flatten().any(|kept| kept == name))
    }
}
