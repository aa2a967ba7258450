//! Whether an index cannot be below 0, by the instructions in front of an access. Of Thumb code.

use super::super::polling::Walk;
use super::super::values::expanded;
use super::Does;
use super::bit;
use super::thumb::{addressing, does};
use crate::abi::{Addr, Endian};

/// The most instructions in front of an access that are looked at.
const NEAR: usize = 16;
/// An index is less than so many.
const SMALL: u32 = 0x1_0000;

/// One instruction: where it is, and its halves.
type Line = (Addr, u16, u16);

/// True where an instruction accesses memory at an index that one of those in front of it makes a number from 0 on: it keeps some bits
/// of it, loads it without a sign, or subtracts what was found by a division without a sign, as `%` does. `front`: the code of
/// a function that begins at `from`, up to the access; `access`: the rest.
#[must_use]
pub fn is_index_masked(from: Addr, front: &[u8], access: &[u8]) -> bool {
    let Some(end) = u64::try_from(front.len()).ok().and_then(|len| from.checked_add(len)) else { return false };
    let before: Vec<Line> = Walk { at: from, end, from, code: front }.collect();
    let half = |at| Endian::Little.u16(access, at).unwrap_or_default();
    let Some((base, index)) = addressing(half(0), half(2)) else { return false };
    let before = before.get(before.len().saturating_sub(NEAR)..).unwrap_or(&before);
    let mut wanted = bit(base) | index.map_or(0, bit);
    for (place, (at, first, second)) in before.iter().enumerate().rev() {
        let writes = |register: &u16| wanted & bit(*register) & does(*first, *second, *at, *register).written() != 0;
        let Some(to) = (0..13).find(writes) else { continue };
        let divides = || before.iter().take(place).any(|(_, first, second)| divides(*first, *second));
        if masks(*first, *second) || subtracts(*first, *second) && divides() {
            return true;
        }
        wanted &= !bit(to);
        wanted |= match does(*first, *second, *at, to) {
            Does::Adds { base, index, .. } => bit(base) | bit(index),
            Does::Multiplies { one, other, .. } => bit(one) | bit(other),
            Does::Moves { from, plus: 0.., .. } => bit(from),
            _ => shifted(*first, *second).map_or(0, bit),
        };
    }
    false
}

/// True for AND with a small constant, UBFX, UXTB, UXTH, LDRB and LDRH (Armv7-M Architecture Reference Manual, A5.2 and A5.3).
fn masks(first: u16, second: u16) -> bool {
    match first {
        0x7800..=0x7FFF | 0x8800..=0x8FFF | 0x5A00..=0x5DFF | 0xB280..=0xB2FF => true,
        0xFA1F | 0xFA5F => second & 0xF080 == 0xF080,
        _ if first & 0xFBE0 == 0xF000 && second & 0x8000 == 0 => expanded(first, second) < SMALL,
        _ if first & 0xFFF0 == 0xF3C0 => second & 0x8000 == 0,
        // Of 8 and of 16 bits; LDRSB and LDRSH have bit 8 set.
        _ => first & 0xFF50 == 0xF810,
    }
}

/// True for SUB of two registers, and MLS.
const fn subtracts(first: u16, second: u16) -> bool {
    first & 0xFE00 == 0x1A00 || first & 0xFFE0 == 0xEBA0 || first & 0xFFF0 == 0xFB00 && second & 0xF0 == 0x10
}

/// True for UDIV, and for UMULL, by which compilers divide by a constant.
const fn divides(first: u16, second: u16) -> bool {
    first & 0xFFF0 == 0xFBB0 || first & 0xFFF0 == 0xFBA0 && second & 0xF0 == 0
}

/// The register that LSL by a constant shifts.
const fn shifted(first: u16, second: u16) -> Option<u16> {
    match first {
        0x0040..=0x07FF => Some(first >> 3 & 7),
        _ if first & 0xFFEF == 0xEA4F && second & 0x30 == 0 => Some(second & 0xF),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_masked(code: &[u16]) -> bool {
        let bytes = |code: &[u16]| code.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
        // The last instruction, of one half or of two.
        let is_wide = code.iter().rev().nth(1).is_some_and(|half| half >> 11 >= 0b11101);
        let (front, access) = code.split_at(code.len().saturating_sub(if is_wide { 2 } else { 1 }));
        is_index_masked(0x1000, &bytes(front), &bytes(access))
    }

    /// `history[n++ & 7] = command`: an index below 0 was named for a pointer that another store had overwritten.
    #[test]
    fn an_index_that_was_masked_is_not_below_0() {
        let ring = [0xF003, 0x0207, 0x4B09, 0xEB03, 0x03C2, 0xE894, 0x0003, 0xE883, 0x0003];
        assert!(is_masked(&ring), "and r2, r3, #7; ldr r3, =history; add r3, r3, r2, lsl #3; stmia r3, {{r0, r1}}");
        assert!(is_masked(&[0x7823, 0xF842, 0x1023]), "ldrb r3, [r4]; str r1, [r2, r3, lsl #2]");
        assert!(is_masked(&[0xB2DB, 0x009B, 0x50D1]), "uxtb r3, r3; lsls r3, r3, #2; str r1, [r2, r3]");
        assert!(is_masked(&[0xF3C3, 0x0383, 0x54D1]), "ubfx r3, r3, #2, #4; strb r1, [r2, r3]");
        let modulo = [0xFBB3, 0xF0F5, 0xFB00, 0x3315, 0x54D1];
        assert!(is_masked(&modulo), "udiv r0, r3, r5; mls r3, r0, r5, r3; strb r1, [r2, r3]");
        assert!(!is_masked(&modulo[2..]), "no division is seen");
        assert!(!is_masked(&[0x6823, 0xF842, 0x1023]), "ldr r3, [r4]; str r1, [r2, r3, lsl #2]");
        assert!(!is_masked(&[0xF994, 0x3000, 0xF842, 0x1023]), "ldrsb r3, [r4]");
        assert!(!is_masked(&[0x7823, 0x3B01, 0xF842, 0x1023]), "ldrb r3, [r4]; subs r3, #1");
        assert!(!is_masked(&[0xF003, 0x0507, 0xF842, 0x1023]), "another register");
        assert!(!is_masked(&[0xF842, 0x1023]) && !is_masked(&[0x4770]) && !is_masked(&[]));
    }
}
