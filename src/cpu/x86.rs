//! x86, 32 and 64 bits: from cores alone. ThreadX's ports there run on a host's threads, whose registers the core has.

use super::notes::{HEAD_32, HEAD_64, Prstatus};
use super::{Group, Kind, Register, Registers};
use crate::abi::{Addr, Endian, Width};

/// Those of `org.gnu.gdb.i386.core` in 32 bits.
#[rustfmt::skip]
pub(super) const REGISTERS_32: &[Register] = &[
    Register::general("eax", 0, 32, Kind::Int),
    Register::general("ecx", 1, 32, Kind::Int),
    Register::general("edx", 2, 32, Kind::Int),
    Register::general("ebx", 3, 32, Kind::Int),
    Register::general("esp", 4, 32, Kind::Data),
    Register::general("ebp", 5, 32, Kind::Data),
    Register::general("esi", 6, 32, Kind::Int),
    Register::general("edi", 7, 32, Kind::Int),
    Register::general("eip", 8, 32, Kind::Code),
    Register::general("eflags", 9, 32, Kind::Int),
    Register::general("cs", 10, 32, Kind::Int),
    Register::general("ss", 11, 32, Kind::Int),
    Register::general("ds", 12, 32, Kind::Int),
    Register::general("es", 13, 32, Kind::Int),
    Register::general("fs", 14, 32, Kind::Int),
    Register::general("gs", 15, 32, Kind::Int),
    Register::general("st0", 16, 80, Kind::X87),
    Register::general("st1", 17, 80, Kind::X87),
    Register::general("st2", 18, 80, Kind::X87),
    Register::general("st3", 19, 80, Kind::X87),
    Register::general("st4", 20, 80, Kind::X87),
    Register::general("st5", 21, 80, Kind::X87),
    Register::general("st6", 22, 80, Kind::X87),
    Register::general("st7", 23, 80, Kind::X87),
    Register::general("fctrl", 24, 32, Kind::Int),
    Register::general("fstat", 25, 32, Kind::Int),
    Register::general("ftag", 26, 32, Kind::Int),
    Register::general("fiseg", 27, 32, Kind::Int),
    Register::general("fioff", 28, 32, Kind::Int),
    Register::general("foseg", 29, 32, Kind::Int),
    Register::general("fooff", 30, 32, Kind::Int),
    Register::general("fop", 31, 32, Kind::Int),
];

/// Those of `org.gnu.gdb.i386.core` in 64 bits, and of `org.gnu.gdb.i386.segments`.
#[rustfmt::skip]
pub(super) const REGISTERS_64: &[Register] = &[
    Register::general("rax", 0, 64, Kind::Int),
    Register::general("rbx", 1, 64, Kind::Int),
    Register::general("rcx", 2, 64, Kind::Int),
    Register::general("rdx", 3, 64, Kind::Int),
    Register::general("rsi", 4, 64, Kind::Int),
    Register::general("rdi", 5, 64, Kind::Int),
    Register::general("rbp", 6, 64, Kind::Data),
    Register::general("rsp", 7, 64, Kind::Data),
    Register::general("r8", 8, 64, Kind::Int),
    Register::general("r9", 9, 64, Kind::Int),
    Register::general("r10", 10, 64, Kind::Int),
    Register::general("r11", 11, 64, Kind::Int),
    Register::general("r12", 12, 64, Kind::Int),
    Register::general("r13", 13, 64, Kind::Int),
    Register::general("r14", 14, 64, Kind::Int),
    Register::general("r15", 15, 64, Kind::Int),
    Register::general("rip", 16, 64, Kind::Code),
    Register::general("eflags", 17, 32, Kind::Int),
    Register::general("cs", 18, 32, Kind::Int),
    Register::general("ss", 19, 32, Kind::Int),
    Register::general("ds", 20, 32, Kind::Int),
    Register::general("es", 21, 32, Kind::Int),
    Register::general("fs", 22, 32, Kind::Int),
    Register::general("gs", 23, 32, Kind::Int),
    Register::general("st0", 24, 80, Kind::X87),
    Register::general("st1", 25, 80, Kind::X87),
    Register::general("st2", 26, 80, Kind::X87),
    Register::general("st3", 27, 80, Kind::X87),
    Register::general("st4", 28, 80, Kind::X87),
    Register::general("st5", 29, 80, Kind::X87),
    Register::general("st6", 30, 80, Kind::X87),
    Register::general("st7", 31, 80, Kind::X87),
    Register::general("fctrl", 32, 32, Kind::Int),
    Register::general("fstat", 33, 32, Kind::Int),
    Register::general("ftag", 34, 32, Kind::Int),
    Register::general("fiseg", 35, 32, Kind::Int),
    Register::general("fioff", 36, 32, Kind::Int),
    Register::general("foseg", 37, 32, Kind::Int),
    Register::general("fooff", 38, 32, Kind::Int),
    Register::general("fop", 39, 32, Kind::Int),
    Register::of(Group::System, "fs_base", 40, 64, Kind::Int),
    Register::of(Group::System, "gs_base", 41, 64, Kind::Int),
];

/// The base of the segment that `gs` selects, by a `NT_386_TLS` note: `struct user_desc`, one for each entry.
pub(super) fn segment(note: &[u8], endian: Endian, registers: &Registers) -> Option<Addr> {
    let selected = registers.get("gs")? >> 3;
    let entries = note.chunks_exact(16);
    let mut bases = entries.filter_map(|e| Some((endian.u32(e, 0)?, endian.u32(e, 4)?)));
    bases.find(|(number, _)| u64::from(*number) == selected).map(|(_, base)| base.into())
}

/// Such a note of one entry.
pub(super) fn segment_note(registers: &Registers, endian: Endian) -> Option<Vec<u8>> {
    /// A present segment of data, in pages, with the limit of everything.
    const LIMIT_AND_FLAGS: [u32; 2] = [0xF_FFFF, 0x51];
    let number = u32::try_from(registers.get("gs")? >> 3).ok()?;
    let base = u32::try_from(registers.thread_pointer()?).ok()?;
    let words = [number, base].into_iter().chain(LIMIT_AND_FLAGS);
    let bytes = |word: u32| match endian {
        Endian::Little => word.to_le_bytes(),
        Endian::Big => word.to_be_bytes(),
    };
    Some(words.flat_map(bytes).collect())
}

/// `struct user_regs_struct` of 32 bits.
pub(super) const PRSTATUS_32: Prstatus = Prstatus {
    pid: HEAD_32.0,
    registers: HEAD_32.1,
    word: Width::W4,
    order: &[
        "ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "", "eip", "cs", "eflags", "esp", "ss",
    ],
};

/// `struct user_regs_struct` of 64 bits.
pub(super) const PRSTATUS_64: Prstatus = Prstatus {
    pid: HEAD_64.0,
    registers: HEAD_64.1,
    word: Width::W8,
    order: &[
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "",
        "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
    ],
};
