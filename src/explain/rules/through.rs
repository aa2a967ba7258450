//! Where code jumps on through a register: a function that calls another at its very end jumps to it, and a table of labels is
//! jumped through. Neither leaves a return address: that of the last call leads to the function that was called, or to where it
//! was called. The register that was jumped through still has the address to which the CPU came.

use super::super::Case;
use super::jump;
use crate::abi::{Addr, Endian};
use crate::cpu::{Architecture, compressed, riscv_jump, riscv_pair, signed};

/// The most bytes of a function that are looked at, and those that are read at once.
const MOST: u64 = 8192;
const PIECE: u64 = 1024;
/// So many functions that jump on to each other are followed.
const FUNCTIONS: usize = 8;

/// A jump through a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    pub at: Addr,
    pub register: u16,
    /// What is added to the register.
    offset: i64,
}

/// A value of a register by its number.
pub(super) type Values<'v> = &'v dyn Fn(u16) -> Option<u64>;

/// The jump of a function, or of one to which it jumps on, by which the CPU came to `pc`.
pub(super) fn tail(function: Addr, pc: Addr, values: Values<'_>, of: Architecture, case: &Case<'_>) -> Option<Site> {
    let mut all = vec![function & !1];
    let mut next = 0;
    while let Some(at) = all.get(next).copied() {
        next = next.saturating_add(1);
        let Some((start, code)) = code(at, case) else { continue };
        if let Some(site) = site(start, &code, pc, values, of) {
            return Some(site);
        }
        let end = start.saturating_add(code.len() as u64);
        let leaves = |to: &Addr| !(start..end).contains(to) && !all.contains(to);
        let more: Vec<Addr> = jumps(start, &code, of).filter(leaves).collect();
        all.extend(more.into_iter().take(FUNCTIONS.saturating_sub(all.len())));
    }
    None
}

/// The jump within the function at an address by which the CPU came to `pc`.
pub(super) fn within(at: Addr, pc: Addr, values: Values<'_>, of: Architecture, case: &Case<'_>) -> Option<Site> {
    let (start, code) = code(at, case)?;
    site(start, &code, pc, values, of)
}

fn site(start: Addr, code: &[u8], pc: Addr, values: Values<'_>, of: Architecture) -> Option<Site> {
    let leads =
        |site: &Site| values(site.register).is_some_and(|value| value.wrapping_add_signed(site.offset) & !1 == pc & !1);
    instructions(start, code, of).filter_map(|(at, first, second)| through(at, first, second, of)).find(leads)
}

/// The jump that an instruction is, if it goes through a register and is no return.
fn through(at: Addr, first: u16, second: u16, of: Architecture) -> Option<Site> {
    let jump = |register, offset| Some(Site { at, register, offset });
    if of == Architecture::CortexM {
        // BX, and MOV to pc (Armv7-M Architecture Reference Manual, A7.7.20 and A7.7.77).
        let is_jump = matches!(first & 0xFF87, 0x4700 | 0x4687);
        return jump(first >> 3 & 0xF, 0).filter(|site| is_jump && site.register < 13);
    }
    // C.JR, and JALR without a link (The RISC-V Instruction Set Manual, volume I, 2.5 and 16.4).
    let word = word(first, second);
    if first & 0xF07F == 0x8002 {
        return jump(first >> 7 & 0x1F, 0).filter(|site| site.register > 1);
    }
    let register = u16::try_from(word >> 15 & 0x1F).ok()?;
    jump(register, i64::from(word.cast_signed() >> 20)).filter(|_| word & 0x7FFF == 0x67 && register > 1)
}

const fn word(first: u16, second: u16) -> u32 {
    (second as u32) << 16 | first as u32
}

/// Where jumps of a function that are no calls go to, whichever function that is in.
fn jumps(start: Addr, code: &[u8], of: Architecture) -> impl Iterator<Item = Addr> {
    instructions(start, code, of).filter_map(move |(at, first, second)| match of {
        Architecture::CortexM if first & 0xF800 == 0xE000 => {
            Some(at.wrapping_add(4).wrapping_add_signed(signed(u32::from(first & 0x7FF), 11) << 1))
        }
        Architecture::CortexM => jump::target(first, second, at.checked_add(4)?).filter(|_| second & 0xD000 == 0x9000),
        _ => Some(at.wrapping_add_signed(riscv_jump(first, second, 0)?)),
    })
}

/// The call in front of a return address of a RISC-V.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Through a register.
    Register { at: Addr },
    /// Of a function.
    Function { at: Addr, to: Addr },
}

/// The call that ends in front of an address, in the code of a RISC-V. `None` where none does, or that is not known.
pub(super) fn riscv_call(ra: Addr, of: Architecture, case: &Case<'_>) -> Option<Call> {
    let (start, code) = code(ra.checked_sub(2)?, case)?;
    call_in(start, &code, ra, of)
}

fn call_in(start: Addr, code: &[u8], ra: Addr, of: Architecture) -> Option<Call> {
    let mut before = None;
    for (at, first, second) in instructions(start, code, of) {
        let len = if first & 3 == 3 { 4 } else { 2 };
        if at.checked_add(len)? != ra {
            before = Some((at, word(first, second)));
            continue;
        }
        let word = word(first, second);
        let to = |offset: i64| Some(Call::Function { at, to: at.wrapping_add_signed(offset) });
        // C.JALR; JALR to ra.
        if first & 0xF07F == 0x9002 && first >> 7 & 0x1F != 0 {
            return Some(Call::Register { at });
        }
        if word & 0x7FFF == 0xE7 {
            // AUIPC of the same register in front of it: a function that is far.
            let far = before.and_then(|(base, upper)| Some((base, riscv_pair(upper, word)?)));
            return Some(match far {
                Some((base, offset)) => Call::Function { at, to: base.wrapping_add_signed(offset) },
                None => Call::Register { at },
            });
        }
        // C.JAL, which 64 bits do not have.
        if of == Architecture::Riscv32 && first & 0xE003 == 0x2001 {
            return to(compressed(first));
        }
        return to(riscv_jump(first, second, 1)?);
    }
    None
}

/// The code of the function at an address, from its start.
pub(super) fn code(at: Addr, case: &Case<'_>) -> Option<(Addr, Vec<u8>)> {
    let function = case.look.function(at & !1)?;
    let (start, size) = (function.address & !1, function.size.clamp(2, MOST));
    let mut code = Vec::new();
    let mut from = 0;
    while from < size {
        let len = PIECE.min(size.saturating_sub(from));
        code.extend(case.look.bytes(start.checked_add(from)?, len)?);
        from = from.saturating_add(len);
    }
    Some((start, code))
}

/// Instructions one after the other: address and halves; the second half of a short one is that of the next. Of a Cortex-M each
/// half is taken for the first one: constants among the code hide where the next begins.
pub(super) fn instructions(start: Addr, code: &[u8], of: Architecture) -> impl Iterator<Item = (Addr, u16, u16)> {
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        let first = Endian::Little.u16(code, at)?;
        let second = Endian::Little.u16(code, at.checked_add(2)?).unwrap_or_default();
        let place = start.checked_add(u64::try_from(at).ok()?)?;
        at = at.checked_add(if of != Architecture::CortexM && first & 3 == 3 { 4 } else { 2 })?;
        Some((place, first, second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Architecture::{CortexM, Riscv32, Riscv64};

    fn bytes(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_le_bytes()).collect()
    }

    /// `ldr r2, [r0]; ldr r2, [r2, #12]; bx r2` with r2 = 0 was called a damaged return address.
    #[test]
    fn a_tail_call_through_an_empty_slot_is_found_by_its_register() {
        let code = bytes(&[0x6802, 0x68D2, 0x4710]);
        let r2 = |value| move |number: u16| (number == 2).then_some(value);
        let found = site(0xD4, &code, 0, &r2(0), CortexM);
        assert_eq!(found, Some(Site { at: 0xD8, register: 2, offset: 0 }));
        assert_eq!(site(0xD4, &code, 0x2000_0100, &r2(0x2000_0101), CortexM).map(|site| site.at), Some(0xD8));
        assert_eq!(site(0xD4, &code, 0, &r2(0x101), CortexM), None, "it led elsewhere");
        assert_eq!(site(0xD4, &code, 0, &|_| None, CortexM), None, "not known");
        assert_eq!(site(0, &bytes(&[0x4770]), 0, &|_| Some(0), CortexM), None, "bx lr: a return");
    }

    #[test]
    fn jumps_of_a_riscv_through_a_register() {
        let a5 = |number: u16| (number == 15).then_some(0);
        assert_eq!(site(0x100, &bytes(&[0x439C, 0x8782]), 0, &a5, Riscv32).map(|site| site.at), Some(0x102));
        // jalr x0, 0(a5)
        assert_eq!(site(0x100, &bytes(&[0x8067, 0x0007]), 0, &a5, Riscv64).map(|site| site.register), Some(15));
        assert_eq!(site(0x100, &bytes(&[0x8082]), 0, &|_| Some(0), Riscv32), None, "ret");
    }

    /// A jump through a table of labels after a call was said to be a call through a pointer.
    #[test]
    fn a_direct_call_in_front_of_ra_was_taken_for_one_through_a_pointer() {
        let of = |halves: &[u16], ra, arch| call_in(0x8000_0100, &bytes(halves), ra, arch);
        // jal ra, .+0x10; c.jalr a5; c.jal .+0x400 (32 bits)
        let code = [0x00EF, 0x0100, 0x9782, 0x2101];
        assert_eq!(of(&code, 0x8000_0104, Riscv32), Some(Call::Function { at: 0x8000_0100, to: 0x8000_0110 }));
        assert_eq!(of(&code, 0x8000_0106, Riscv32), Some(Call::Register { at: 0x8000_0104 }));
        assert_eq!(of(&code, 0x8000_0108, Riscv32), Some(Call::Function { at: 0x8000_0106, to: 0x8000_0506 }));
        assert_eq!(of(&code, 0x8000_0108, Riscv64), None, "c.addiw");
        // auipc ra, 1; jalr ra, 16(ra)
        let far = [0x1097, 0x0000, 0x80E7, 0x0100];
        assert_eq!(of(&far, 0x8000_0108, Riscv64), Some(Call::Function { at: 0x8000_0104, to: 0x8000_1110 }));
        // lw ra, 0(a5); jalr ra, 0(ra)
        let near = [0xA083, 0x0007, 0x80E7, 0x0000];
        assert_eq!(of(&near, 0x8000_0108, Riscv64), Some(Call::Register { at: 0x8000_0104 }));
    }

    #[test]
    fn jumps_out_of_a_function_are_followed() {
        let to = |halves: &[u16], of| jumps(0x1000, &bytes(halves), of).collect::<Vec<_>>();
        assert_eq!(to(&[0xE7FE], CortexM), [0x1000], "b .");
        assert_eq!(to(&[0xF000, 0xB802], CortexM), [0x1008], "b.w");
        assert!(to(&[0xF000, 0xF802], CortexM).is_empty(), "bl");
        assert_eq!(to(&[0xB78D], Riscv32), [0x0F62], "c.j");
        assert_eq!(to(&[0x006F, 0x0100], Riscv64), [0x1010], "jal zero");
    }
}
