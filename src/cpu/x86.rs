//! x86, 32 and 64 bits: from cores alone. ThreadX's ports there run on a host's threads, whose registers the core has.

use super::Registers;
use super::table::{Group, Kind, Model, Place, bank, general};
use crate::abi::{Addr, Endian, Width};
use crate::elf::Machine;

const X87: &str = "st0 st1 st2 st3 st4 st5 st6 st7";
const X87_STATE: &str = "fctrl fstat ftag fiseg fioff foseg fooff fop";

/// Registers of `org.gnu.gdb.i386.core`; the note is `struct user_regs_struct` of 32 bits.
pub(super) const MODEL_32: Model = Model {
    name: "i386",
    names: &["i386", "x86"],
    machine: Machine(3),
    width: Width::W4,
    registers: &[
        general(Kind::Int, 0, "eax ecx edx ebx"),
        general(Kind::Data, 4, "esp ebp"),
        general(Kind::Int, 6, "esi edi"),
        general(Kind::Code, 8, "eip"),
        general(Kind::Int, 9, "eflags cs ss ds es fs gs"),
        bank(Group::General, Kind::X87, 80, Place::Number(16), X87),
        general(Kind::Int, 24, X87_STATE),
    ],
    roles: [Some("eip"), Some("esp"), None],
    aliases: &[],
    note: "ebx ecx edx esi edi ebp eax ds es fs gs - eip cs eflags esp ss",
    gdb: "i386",
    features: ["org.gnu.gdb.i386.core", "", ""],
    triple: "i386-unknown-unknown",
};

/// Registers of `org.gnu.gdb.i386.core` in 64 bits, and of `org.gnu.gdb.i386.segments`; the note is `struct
/// user_regs_struct` of 64 bits.
pub(super) const MODEL_64: Model = Model {
    name: "x86-64",
    names: &["x86-64", "x86_64", "amd64"],
    machine: Machine::X86_64,
    width: Width::W8,
    registers: &[
        general(Kind::Int, 0, "rax rbx rcx rdx rsi rdi"),
        general(Kind::Data, 6, "rbp rsp"),
        general(Kind::Int, 8, "r8 r9 r10 r11 r12 r13 r14 r15"),
        general(Kind::Code, 16, "rip"),
        bank(Group::General, Kind::Int, 32, Place::Number(17), "eflags cs ss ds es fs gs"),
        bank(Group::General, Kind::X87, 80, Place::Number(24), X87),
        bank(Group::General, Kind::Int, 32, Place::Number(32), X87_STATE),
        bank(Group::System, Kind::Int, 64, Place::Number(40), "fs_base gs_base"),
    ],
    roles: [Some("rip"), Some("rsp"), None],
    aliases: &[],
    note: "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi - rip cs eflags rsp ss fs_base gs_base ds es fs gs",
    gdb: "i386:x86-64",
    features: ["org.gnu.gdb.i386.core", "", "org.gnu.gdb.i386.segments"],
    triple: "x86_64-unknown-unknown",
};

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
