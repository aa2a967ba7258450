//! What one instruction does with memory, as far as it explains a fault; and whether a CPU can leave the code that it is in.
//!
//! Thumb encodings are those of the Armv7-M Architecture Reference Manual (A5, A7).

use super::origin::addressing;
use super::{Architecture, Origin, Registers, riscv_steps};
use crate::abi::{Addr, Endian};

/// How much an instruction accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// So many bytes; of several registers those of one.
    pub bytes: u8,
    /// True where the address has to be a multiple of 4 on each Cortex-M: accesses of several registers, and of those of the FPU
    /// (Armv7-M Architecture Reference Manual, A3.2.1).
    pub is_aligned: bool,
}

impl Size {
    /// An access that may be unaligned where the processor takes that.
    pub const fn any(bytes: u8) -> Self {
        Self { bytes, is_aligned: false }
    }

    /// One that has to be aligned.
    pub const fn aligned(bytes: u8) -> Self {
        Self { bytes, is_aligned: true }
    }

    /// `1 byte`, `4 bytes`.
    fn words(self) -> String {
        format!("{} {}", self.bytes, if self.bytes == 1 { "byte" } else { "bytes" })
    }
}

/// What the instruction at a program counter is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A read at an address.
    Read(Addr, Size),
    /// A write to an address.
    Write(Addr, Size),
    /// A division whose divisor is 0.
    DivideByZero,
    /// A division by another number, or by one that is not known.
    Divide(Option<u64>),
    /// A breakpoint.
    Breakpoint,
    /// An instruction that is undefined for ever.
    Undefined,
    /// A jump or a call to an address in a register.
    Jump(Addr),
    /// The stack pointer comes to this address, below where it was: room for local variables.
    Lower(Addr),
}

impl Effect {
    /// Of the instruction at the program counter; `None` for any other. `code`: its bytes.
    pub fn of(registers: &Registers, code: &[u8]) -> Option<Self> {
        // Code of a Cortex-M and of a RISC-V is little-endian.
        let first = half(code, 0)?;
        match registers.architecture() {
            Architecture::CortexM => {}
            of @ (Architecture::Riscv32 | Architecture::Riscv64) => {
                return riscv(registers, first, half(code, 2).unwrap_or_default(), of == Architecture::Riscv64);
            }
            _ => return None,
        }
        let value = |number: u16| general(registers, number);
        if is_wide(first) { wide(first, half(code, 2)?, &value) } else { narrow(first, &value) }
    }

    /// The same of the instruction whose access to an address failed: with the register that it makes the address of, where that alone is
    /// not known. Of a Cortex-M.
    pub fn of_failed(registers: &Registers, code: &[u8], failed: Addr) -> Option<(Registers, Self)> {
        let (base, None) = addressing(half(code, 0)?, half(code, 2).unwrap_or_default())? else { return None };
        let name = format!("r{base}");
        if registers.architecture() != Architecture::CortexM || general(registers, base).is_some() {
            return None;
        }
        let mut known = registers.clone();
        known.set_from(Origin::Inferred, &name, 0);
        let offset = Self::of(&known, code)?.address()?;
        known.set_from(Origin::Inferred, &name, failed.wrapping_sub(offset) & MASK);
        let effect = Self::of(&known, code).filter(|effect| effect.address() == Some(failed))?;
        // Of several words, or one that is not aligned, a later part may have failed.
        let (Self::Read(_, size) | Self::Write(_, size)) = effect else { return None };
        if size.is_aligned || !failed.is_multiple_of(size.bytes.into()) {
            return None;
        }
        Some((known, effect))
    }

    /// The address that it reads or writes.
    pub const fn address(self) -> Option<Addr> {
        match self {
            Self::Read(at, _) | Self::Write(at, _) => Some(at),
            _ => None,
        }
    }

    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Read(at, size) => format!("a read of {} at {at:#x}", size.words()),
            Self::Write(at, size) => format!("a write of {} to {at:#x}", size.words()),
            Self::DivideByZero => "a division by zero".to_owned(),
            Self::Divide(_) => "a division".to_owned(),
            Self::Breakpoint => "a breakpoint instruction".to_owned(),
            Self::Undefined => "an undefined instruction".to_owned(),
            Self::Jump(at) => format!("a jump to {at:#x}"),
            Self::Lower(at) => format!("the stack pointer is lowered to {at:#x}"),
        }
    }
}

/// What a load or a store of a RISC-V does (The RISC-V Instruction Set Manual, volume I, 2.6).
fn riscv(registers: &Registers, first: u16, second: u16, is_64: bool) -> Option<Effect> {
    let value = |number: u16| if number == 0 { Some(0) } else { registers.get(&format!("x{number}")) };
    let (is_read, kind, at) = riscv_steps::access(first, second, is_64, &value)?;
    let at = if is_64 { at } else { at & MASK };
    let size = Size::any(1 << (kind & 3));
    Some(if is_read { Effect::Read(at, size) } else { Effect::Write(at, size) })
}

/// The address that an instruction of Thumb code accesses, with these values of registers.
pub(super) fn accessed(first: u16, second: u16, value: &dyn Fn(u16) -> Option<Addr>) -> Option<Addr> {
    let effect = if is_wide(first) { wide(first, second, value) } else { narrow(first, value) };
    effect.and_then(Effect::address)
}

fn half(code: &[u8], at: usize) -> Option<u16> {
    Endian::Little.u16(code, at)
}

const fn is_wide(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// The value of r0 to r14; `None` where it is not known.
fn general(registers: &Registers, number: u16) -> Option<Addr> {
    match number {
        13 => registers.sp(),
        14 => registers.lr(),
        15 => None,
        _ => registers.get(&format!("r{number}")),
    }
}

type Value<'a> = &'a dyn Fn(u16) -> Option<Addr>;

/// Bits of an address.
const MASK: Addr = 0xFFFF_FFFF;

fn access(is_read: bool, at: Addr, size: Size) -> Effect {
    if is_read { Effect::Read(at & MASK, size) } else { Effect::Write(at & MASK, size) }
}

/// An instruction of 16 bits.
fn narrow(word: u16, value: Value<'_>) -> Option<Effect> {
    let register = |shift: u16| value(word >> shift & 7);
    let immediate = u64::from(word >> 6 & 0x1F);
    Some(match word >> 11 {
        0b01000 if word & 0xFF00 == 0x4700 => Effect::Jump(value(word >> 3 & 0xF)?),
        0b01010 | 0b01011 => {
            let (is_read, size) = match word >> 9 & 7 {
                0b000 => (false, 4),
                0b001 => (false, 2),
                0b010 => (false, 1),
                0b011 | 0b110 => (true, 1),
                0b100 => (true, 4),
                _ => (true, 2),
            };
            access(is_read, register(3)?.wrapping_add(register(6)?), Size::any(size))
        }
        0b01100 | 0b01101 => access(word & 1 << 11 != 0, register(3)?.wrapping_add(immediate << 2), Size::any(4)),
        0b01110 | 0b01111 => access(word & 1 << 11 != 0, register(3)?.wrapping_add(immediate), Size::any(1)),
        0b10000 | 0b10001 => access(word & 1 << 11 != 0, register(3)?.wrapping_add(immediate << 1), Size::any(2)),
        0b10010 | 0b10011 => {
            access(word & 1 << 11 != 0, value(13)?.wrapping_add(u64::from(word & 0xFF) << 2), Size::any(4))
        }
        0b11000 | 0b11001 => access(word & 1 << 11 != 0, register(8)?, Size::aligned(4)),
        0b10110 if word & 0xFF80 == 0xB080 => lower(value, u64::from(word & 0x7F) << 2)?,
        0b01000 if word & 0xFF87 == 0x4485 => lower(value, value(word >> 3 & 0xF)?.wrapping_neg() & MASK)?,
        0b10110 if word & 0xFE00 == 0xB400 => {
            Effect::Write(value(13)?.wrapping_sub(pushed(word)) & MASK, Size::aligned(4))
        }
        0b10111 if word & 0xFE00 == 0xBC00 => Effect::Read(value(13)? & MASK, Size::aligned(4)),
        0b10111 if word & 0xFF00 == 0xBE00 => Effect::Breakpoint,
        0b11011 if word & 0xFF00 == 0xDE00 => Effect::Undefined,
        _ => return None,
    })
}

/// The stack pointer without so many bytes; `None` where it does not get lower.
fn lower(value: Value<'_>, bytes: u64) -> Option<Effect> {
    let to = value(13)?.checked_sub(bytes).filter(|_| bytes != 0)?;
    Some(Effect::Lower(to))
}

/// The constant of 12 bits in an instruction of 32 bits (`ThumbExpandImm`).
fn expanded(word: u64) -> Option<u64> {
    let byte = word & 0xFF;
    Some(match word >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => u64::from(u32::try_from(byte | 0x80).ok()?.rotate_right(u32::try_from(word >> 7).ok()?)),
    })
}

/// SUB of 32 bits from the stack pointer.
fn sub_sp(first: u16, second: u16, value: Value<'_>) -> Option<Effect> {
    let constant = u64::from(first >> 10 & 1) << 11 | u64::from(second >> 12 & 7) << 8 | u64::from(second & 0xFF);
    match (first & 0xFBFF, second & 0x8F00) {
        (0xF1AD, 0x0D00) => lower(value, expanded(constant)?),
        (0xF2AD, 0x0D00) => lower(value, constant),
        (0xEBAD, _) if second & 0xFFF0 == 0x0D00 => lower(value, value(second & 0xF)?),
        _ => None,
    }
}

/// Bytes that PUSH writes: eight registers and the link register.
fn pushed(word: u16) -> u64 {
    u64::from((word & 0x1FF).count_ones()) << 2
}

/// An instruction of 32 bits.
fn wide(first: u16, second: u16, value: Value<'_>) -> Option<Effect> {
    let base = || value(first & 0xF);
    if let Some(effect) = sub_sp(first, second, value) {
        return Some(effect);
    }
    if first & 0xFE00 == 0xF800 && first & 0xF != 15 {
        return single(first, second, value);
    }
    if first & 0xFFD0 == 0xFB90 && second & 0xF0F0 == 0xF0F0 {
        let divisor = value(second & 0xF);
        return Some(if divisor == Some(0) { Effect::DivideByZero } else { Effect::Divide(divisor) });
    }
    if first & 0xFFF0 == 0xF7F0 && second & 0xF000 == 0xA000 {
        return Some(Effect::Undefined);
    }
    let is_read = first & 1 << 4 != 0;
    let (adds, indexed, writes_back) = (first & 1 << 7 != 0, first & 1 << 8 != 0, first & 1 << 5 != 0);
    let offset = u64::from(second & 0xFF) << 2;
    let moved = || Some(if adds { base()?.wrapping_add(offset) } else { base()?.wrapping_sub(offset) });
    if first & 0xFE40 == 0xE800 {
        // LDM and STM: upwards from the base, or down from below it.
        let count = u64::from(second.count_ones()) << 2;
        return Some(access(is_read, if indexed { base()?.wrapping_sub(count) } else { base()? }, Size::aligned(4)));
    }
    if first & 0xFE40 == 0xE840 && (indexed || writes_back) && first & 0xF != 15 {
        // LDRD and STRD.
        return Some(access(is_read, if indexed { moved()? } else { base()? }, Size::aligned(8)));
    }
    if first & 0xFF20 == 0xED00 && second & 0xE00 == 0xA00 && first & 0xF != 15 {
        // VLDR and VSTR.
        return Some(access(is_read, moved()?, Size::aligned(if second & 1 << 8 == 0 { 4 } else { 8 })));
    }
    if first & 0xFE00 == 0xEC00 && second & 0xE00 == 0xA00 && (adds != indexed) && (adds || writes_back) {
        // VLDM and VSTM, VPOP and VPUSH: upwards from the base, or down from below it.
        return Some(access(is_read, if indexed { moved()? } else { base()? }, Size::aligned(4)));
    }
    None
}

/// A load or store of one register.
fn single(first: u16, second: u16, value: Value<'_>) -> Option<Effect> {
    let size = match first >> 5 & 3 {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return None,
    };
    let (is_read, base) = (first & 1 << 4 != 0, value(first & 0xF)?);
    let low = u64::from(second & 0xFF);
    let at = if first & 1 << 7 != 0 {
        base.wrapping_add(u64::from(second & 0xFFF))
    } else if second & 1 << 11 != 0 {
        match (second & 1 << 10 != 0, second & 1 << 9 != 0) {
            (true, true) => base.wrapping_add(low),
            (true, false) => base.wrapping_sub(low),
            (false, _) => base,
        }
    } else if second & 0xFC0 == 0 {
        base.wrapping_add(value(second & 0xF)? << (second >> 4 & 3))
    } else {
        return None;
    };
    Some(access(is_read, at, Size::any(size)))
}

/// True for an instruction of Thumb code that accesses no memory and jumps to no address of a register: it gives no fault itself
/// (Armv7-M Architecture Reference Manual, A5.2 and A5.3).
pub const fn cannot_fail(first: u16, second: u16) -> bool {
    match first >> 11 {
        // Shifts, additions, comparisons; additions to pc and sp; branches.
        0..=7 | 0b1_0100 | 0b1_0101 | 0b1_1100 => true,
        // Conditional branches, but for UDF and SVC.
        0b1_1010 | 0b1_1011 => first >> 8 & 0xF < 0xE,
        // Data processing, and what has high registers: not of pc or sp.
        0b0_1000 => first >> 10 & 1 == 0 || first >> 8 & 3 != 3 && !matches!(first & 0x87, 0x85 | 0x87),
        // Additions to sp, extensions, compare-and-branch, CPS.
        0b1_0110 => {
            first & 0xFF80 == 0xB000
                || first & 0xFD00 == 0xB100
                || first & 0xFF00 == 0xB200
                || matches!(first, 0xB661..=0xB663 | 0xB671..=0xB673)
        }
        // Compare-and-branch, reversals of bytes, hints and IT.
        0b1_0111 => {
            first & 0xFD00 == 0xB900 || first & 0xFF00 == 0xBA00 && first >> 6 & 3 != 2 || first & 0xFF00 == 0xBF00
        }
        // MRS, MSR of other registers than those of stacks, barriers; a direct call.
        0b1_1110 => {
            matches!(first, 0xF3EF | 0xF3BF)
                || first & 0xFFF0 == 0xF380 && second >> 14 == 2 && matches!(second & 0xFF, 16..=19)
                || second & 0xD000 == 0xD000
        }
        _ => false,
    }
}

/// Where BL or B.W goes to, with its signed offset of 25 bits from after it (Armv7-M Architecture Reference Manual, A7.7.12 and
/// A7.7.18).
#[must_use]
pub fn long_branch(first: u16, second: u16, behind: Addr) -> Option<Addr> {
    if first & 0xF800 != 0xF000 || second & 0x9000 != 0x9000 {
        return None;
    }
    let sign = i64::from(first >> 10 & 1);
    let one = |shift: u16| i64::from(second >> shift & 1) ^ sign ^ 1;
    let low = i64::from(first & 0x3FF) << 12 | i64::from(second & 0x7FF) << 1;
    let offset = (one(13) << 23 | one(11) << 22 | low).wrapping_sub(sign << 24);
    Some(behind.wrapping_add_signed(offset) & 0xFFFF_FFFF)
}

/// The most bytes of a loop that are looked at.
pub const LOOP: u64 = 64;

/// A loop that its own code never leaves, and that lets no interrupt come which was disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// Its first instruction.
    pub start: Addr,
    /// The code in front of it disables interrupts: a CPSID, or a write to PRIMASK, BASEPRI or FAULTMASK; of a RISC-V, it clears
    /// `mstatus.MIE`.
    pub is_masked: bool,
}

/// The loop without an exit that the CPU is in; `None` where the code is not known or may leave it. `from`: the first address
/// of `code`, where an instruction begins.
pub fn endless_loop(architecture: Architecture, pc: Addr, from: Addr, code: &[u8]) -> Option<Loop> {
    match architecture {
        Architecture::CortexM => thumb_loop(pc & !1, from, code),
        Architecture::Arm | Architecture::Aarch64 | Architecture::Riscv32 | Architecture::Riscv64 => {
            let at = usize::try_from(pc.checked_sub(from)?).ok()?;
            let word = Endian::Little.u32(code, at)?;
            let itself = match architecture {
                Architecture::Arm => word == 0xEAFF_FFFE,
                Architecture::Aarch64 => word == 0x1400_0000,
                _ => word == 0x6F || word & 0xFFFF == 0xA001,
            };
            let is_riscv = matches!(architecture, Architecture::Riscv32 | Architecture::Riscv64);
            let is_masked = is_riscv && code.get(..at).is_some_and(riscv_masks);
            itself.then_some(Loop { start: pc, is_masked })
        }
        Architecture::X86 | Architecture::X86_64 => None,
    }
}

/// True where the last instruction that changes `mstatus.MIE` disables interrupts: CSRC, CSRCI and CSRW of 0 (The RISC-V
/// Instruction Set Manual, volume I, "Zicsr"; volume II, 3.1.6).
fn riscv_masks(code: &[u8]) -> bool {
    let (mut at, mut is_masked) = (0_usize, false);
    while let Some(first) = Endian::Little.u16(code, at) {
        let is_long = first & 3 == 3;
        let word = Endian::Little.u32(code, at).filter(|_| is_long).unwrap_or_default();
        let source = word >> 15 & 0x1F;
        if word & 0xFFF0_007F == 0x3000_0073 {
            is_masked = match word >> 12 & 7 {
                1 | 5 => source == 0,
                2 if source != 0 => false,
                6 if source & 8 != 0 => false,
                3 if source != 0 => true,
                7 if source & 8 != 0 => true,
                _ => is_masked,
            };
        }
        let Some(next) = at.checked_add(if is_long { 4 } else { 2 }) else { break };
        at = next;
    }
    is_masked
}

/// An instruction that waits for an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Where it is.
    pub at: Addr,
    /// The code in front of it disables interrupts.
    pub is_masked: bool,
}

/// The WFI or WFE at the program counter or directly in front of it, where the CPU stops. `from`: the first address of `code`,
/// where an instruction begins.
pub fn waiting(architecture: Architecture, pc: Addr, from: Addr, code: &[u8]) -> Option<Waiting> {
    if architecture != Architecture::CortexM {
        return None;
    }
    let (pc, mut at, mut is_masked) = (pc & !1, from, false);
    loop {
        let offset = usize::try_from(at.checked_sub(from)?).ok()?;
        let first = half(code, offset)?;
        let second = if is_wide(first) { half(code, offset.checked_add(2)?)? } else { 0 };
        let next = at.checked_add(if is_wide(first) { 4 } else { 2 })?;
        let waits = matches!((first, second), (0xBF20 | 0xBF30, _) | (0xF3AF, 0x8002 | 0x8003));
        match flow(first, second, at) {
            _ if waits && (at == pc || next == pc) => return Some(Waiting { at, is_masked }),
            _ if at >= pc => return None,
            Flow::Masks => is_masked = true,
            Flow::Unmasks => is_masked = false,
            _ => {}
        }
        at = next;
    }
}

/// A step of Thumb code.
enum Flow {
    Next,
    To(Addr),
    Masks,
    Unmasks,
    /// It may leave the code that is looked at.
    Leaves,
}

fn thumb_loop(pc: Addr, from: Addr, code: &[u8]) -> Option<Loop> {
    let (mut at, mut masked, mut unmasked, mut starts) = (from, false, None, Vec::new());
    let mut flows: Vec<(Addr, bool)> = Vec::new();
    loop {
        let offset = usize::try_from(at.checked_sub(from)?).ok()?;
        let first = half(code, offset)?;
        let second = if is_wide(first) { half(code, offset.checked_add(2)?)? } else { 0 };
        let next = at.checked_add(if is_wide(first) { 4 } else { 2 })?;
        starts.push(at);
        match flow(first, second, at) {
            Flow::Next => flows.push((at, true)),
            Flow::Masks => {
                masked = true;
                flows.push((at, true));
            }
            Flow::Unmasks => {
                (masked, unmasked) = (false, Some(at));
                flows.push((at, true));
            }
            // It lets interrupts come on its way round, and waits for them.
            Flow::To(to) if at >= pc && unmasked.is_some_and(|place| place >= to) => return None,
            Flow::To(to) if at >= pc && to <= pc && starts.contains(&to) => {
                // Every instruction on the way round goes on to the next.
                let inside = flows.iter().filter(|(place, _)| *place >= to);
                return inside
                    .into_iter()
                    .all(|(_, goes_on)| *goes_on)
                    .then_some(Loop { start: to, is_masked: masked });
            }
            Flow::To(_) | Flow::Leaves if at >= pc => return None,
            Flow::To(_) | Flow::Leaves => flows.push((at, false)),
        }
        at = next;
    }
}

/// Where an instruction goes on.
fn flow(first: u16, second: u16, at: Addr) -> Flow {
    let jump = |offset: i64| Flow::To(at.wrapping_add(4).wrapping_add_signed(offset) & MASK);
    if is_wide(first) {
        // B.W with its signed offset of 25 bits.
        if first & 0xF800 == 0xF000 && second & 0xD000 == 0x9000 {
            let sign = i64::from(first >> 10 & 1);
            let one = |shift: u16| i64::from(second >> shift & 1) ^ sign ^ 1;
            let low = i64::from(first & 0x3FF) << 12 | i64::from(second & 0x7FF) << 1;
            return jump((one(13) << 23 | one(11) << 22 | low).wrapping_sub(sign << 24));
        }
        return match first {
            0xF380..=0xF38F if second & 0xFF00 == 0x8800 => match second & 0xFF {
                // PRIMASK, BASEPRI, BASEPRI_MAX, FAULTMASK: what is written is not known, and mostly masks.
                16..=19 => Flow::Masks,
                _ => Flow::Next,
            },
            // WFI, WFE, NOP, barriers and other hints of 32 bits; MRS.
            0xF3AF | 0xF3BF | 0xF3EF => Flow::Next,
            // Branches and calls; what may write pc.
            _ if first & 0xF800 == 0xF000 && second & 0x8000 != 0 => Flow::Leaves,
            _ if first & 0xFE40 == 0xE800 && second & 1 << 15 != 0 => Flow::Leaves,
            _ if first & 0xFFF0 == 0xE8D0 || first & 0xFE70 == 0xF850 && second >> 12 == 15 => Flow::Leaves,
            _ => Flow::Next,
        };
    }
    match first {
        0xB671..=0xB673 => Flow::Masks,
        0xB661..=0xB663 => Flow::Unmasks,
        0xE000..=0xE7FF => {
            let offset = i64::from(first & 0x7FF) << 1;
            jump(if offset & 0x800 != 0 { offset.wrapping_sub(0x1000) } else { offset })
        }
        // Conditional branches, IT blocks, calls of a register, pops of pc, writes of pc, supervisor calls.
        0xD000..=0xDFFF | 0xBF01..=0xBFFF if first & 0xFF0F != 0xBF00 => Flow::Leaves,
        0x4700..=0x47FF | 0xBD00..=0xBDFF => Flow::Leaves,
        0xB100..=0xB1FF | 0xB300..=0xB3FF | 0xB900..=0xB9FF | 0xBB00..=0xBBFF => Flow::Leaves,
        0x4487 | 0x4687 => Flow::Leaves,
        _ if first & 0xFD87 == 0x4487 => Flow::Leaves,
        _ => Flow::Next,
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
