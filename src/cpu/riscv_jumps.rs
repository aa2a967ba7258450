//! Where direct jumps of RISC-V code lead (The RISC-V Instruction Set Manual, volume I, 2.5; "C", 16.4).

use super::InstructionSet;
use crate::abi::Addr;

/// An instruction of 32 bits by its halves.
pub(super) const fn word(first: u16, second: u16) -> u32 {
    (second as u32) << 16 | first as u32
}

/// A number of so many bits with a sign.
pub fn signed(value: u32, bits: u32) -> i64 {
    let value = i64::from(value);
    if value >> bits.saturating_sub(1) & 1 == 1 { value.wrapping_sub(1 << bits) } else { value }
}

/// How far JAL, or C.J, goes. `link`: the register that gets the return address.
pub fn riscv_jump(first: u16, second: u16, link: u32) -> Option<i64> {
    let word = word(first, second);
    if link == 0 && first & 0xE003 == 0xA001 {
        return Some(compressed(first));
    }
    (word & 0xFFF == link << 7 | 0x6F).then(|| far(word))
}

/// The offset of JAL.
pub(super) fn far(word: u32) -> i64 {
    let imm = (word >> 31 & 1) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1;
    signed(imm, 21)
}

/// The offset of a branch.
pub(super) fn branch(word: u32) -> i64 {
    let imm = (word >> 31 & 1) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 0x3F) << 5 | (word >> 8 & 0xF) << 1;
    signed(imm, 13)
}

/// The offset of C.J and C.JAL.
pub fn compressed(half: u16) -> i64 {
    signed(gathered(half, 12, &[11, 4, 9, 8, 10, 6, 7, 3, 2, 1, 5]), 12)
}

/// A number whose bits an instruction has from this one down, by their places in the number.
pub(super) fn gathered(half: u16, from: u32, places: &[u32]) -> u32 {
    let bits = places.iter().zip((0..=from).rev());
    bits.map(|(to, from)| u32::from(half >> from & 1) << to).fold(0, |all, bit| all | bit)
}

/// How far AUIPC and JALR, one behind the other, go from the first of them.
pub fn riscv_pair(upper: u32, jump: u32) -> Option<i64> {
    let register = jump >> 15 & 0x1F;
    let is_pair = upper & 0x7F == 0x17 && upper >> 7 & 0x1F == register && jump & 0x707F == 0x67;
    let top = i64::from((upper & 0xFFFF_F000).cast_signed());
    is_pair.then(|| top.wrapping_add(i64::from(jump.cast_signed() >> 20)))
}

/// Where a direct jump, a call or a branch leads. `before`: the word in front of it.
pub fn riscv_direct(set: InstructionSet, at: Addr, first: u16, second: u16, before: Option<u32>) -> Option<Addr> {
    let word = word(first, second);
    let to = |offset: i64| Some(at.wrapping_add_signed(offset));
    match (word & 0x7F, first & 0xE003) {
        (0x6F, _) => to(far(word)),
        (0x63, _) => to(branch(word)),
        // Near address 0.
        (0x67, _) if word & 0xF_F000 == 0 => Some(Addr::from(word >> 20 & !1)).filter(|to| *to < 0x800),
        (0x67, _) => Some(at.wrapping_sub(4).wrapping_add_signed(riscv_pair(before?, word)?) & !1),
        (_, 0xA001) => to(compressed(first)),
        (_, 0x2001) if set == InstructionSet::Riscv32 => to(compressed(first)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use InstructionSet::{Riscv32, Riscv64};

    #[test]
    fn where_direct_jumps_lead() {
        let of = |set, first, second, before| riscv_direct(set, 0x8000_0100, first, second, before);
        assert_eq!(of(Riscv64, 0x00EF, 0x0100, None), Some(0x8000_0110), "jal ra,.+16");
        assert_eq!(of(Riscv64, 0xF06F, 0xFFDF, None), Some(0x8000_00FC), "jal zero,.-4");
        assert_eq!(of(Riscv64, 0x0463, 0x00F5, None), Some(0x8000_0108), "beq a0,a5,.+8");
        assert_eq!(of(Riscv32, 0xB015, 0, None), Some(0x7FFF_F924), "c.j .-2012");
        assert_eq!(of(Riscv32, 0x2101, 0, None), Some(0x8000_0500), "c.jal .+1024");
        assert_eq!(of(Riscv64, 0x2101, 0, None), None, "c.addiw");
        assert_eq!(of(Riscv64, 0x80E7, 0x0100, Some(0x0000_1097)), Some(0x8000_110C), "auipc ra,1; jalr ra,16(ra)");
        assert_eq!(of(Riscv64, 0x80E7, 0x0007, Some(0x0000_1097)), None, "jalr ra,0(a5)");
        assert_eq!(of(Riscv64, 0x00E7, 0x1000, None), Some(0x100), "jalr ra,256(zero)");
    }
}
