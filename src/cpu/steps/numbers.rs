//! Products, quotients, shifts by a register, and parts of a register, of Thumb code (Armv7-M Architecture Reference Manual, A5.3.12,
//! A5.3.15 to A5.3.17).

use super::super::values::{Flags, State, Value};

/// What a shift of the kinds LSL, LSR, ASR and ROR gives, by the lowest byte of a register.
pub(super) const fn shift(kind: u16, value: u32, by: u32) -> u32 {
    let by = by & 0xFF;
    match kind & 3 {
        0 => {
            if by < 32 {
                value << by
            } else {
                0
            }
        }
        1 => {
            if by < 32 {
                value >> by
            } else {
                0
            }
        }
        2 => (value.cast_signed() >> if by < 32 { by } else { 31 }).cast_unsigned(),
        _ => value.rotate_right(by & 31),
    }
}

/// The same of two values.
pub(super) fn shifted(kind: u16, of: Value, by: Value) -> Value {
    both(of, by, |of, by| shift(kind, of, by))
}

/// Of two numbers that are known.
fn both(a: Value, b: Value, of: impl Fn(u32, u32) -> u32) -> Value {
    a.known().zip(b.known()).map_or(Value::Unknown, |(a, b)| Value::Is(of(a, b)))
}

/// MUL, MLA, MLS, SDIV, UDIV, SMULL and UMULL; what the others give is not known.
pub(super) fn product(first: u16, second: u16, state: &mut State) {
    let (a, b) = (state.get(first & 0xF), state.get(second & 0xF));
    // The register with what is added, or that of the lower half of a long product.
    let (other, to) = (second >> 12, second >> 8 & 0xF);
    let long = |of: fn(u32, u32) -> u64| a.known().zip(b.known()).map(|(a, b)| of(a, b));
    let parts = |value: Option<u64>| {
        let part = |by: u32| value.and_then(|value| u32::try_from(value >> by & 0xFFFF_FFFF).ok());
        [0, 32].map(|by| part(by).map_or(Value::Unknown, Value::Is))
    };
    let value = match (first & 0xFFF0, second & 0xF0) {
        (0xFB00, 0) if other == 15 => a.with(b, u32::wrapping_mul),
        (0xFB00, 0) => both(a, b, u32::wrapping_mul).plus(state.get(other)),
        (0xFB00, 0x10) => state.get(other).minus(both(a, b, u32::wrapping_mul)),
        // A division by 0 gives 0, or is a fault.
        (0xFB90 | 0xFBB0, 0xF0) if b.known() == Some(0) => Value::Unknown,
        (0xFB90, 0xF0) => both(a, b, |a, b| a.cast_signed().checked_div(b.cast_signed()).map_or(a, i32::cast_unsigned)),
        (0xFBB0, 0xF0) => both(a, b, |a, b| a.checked_div(b).unwrap_or(0)),
        (0xFB80 | 0xFBA0, 0) => {
            let signed =
                |a: u32, b: u32| i64::from(a.cast_signed()).wrapping_mul(b.cast_signed().into()).cast_unsigned();
            let unsigned = |a: u32, b: u32| u64::from(a).wrapping_mul(b.into());
            let [low, upper] = parts(long(if first & 0xFFF0 == 0xFB80 { signed } else { unsigned }));
            state.set(other, low);
            return state.set(to, upper);
        }
        _ => Value::Unknown,
    };
    if first & 0x80 != 0 && second & 0xF0 != 0xF0 {
        state.set(other, Value::Unknown);
    }
    state.set(to, value);
}

/// Shifts by a register, and SXTH, UXTH, SXTB and UXTB.
pub(super) fn moved(first: u16, second: u16, state: &mut State) {
    let (to, of, from) = (second >> 8 & 0xF, state.get(first & 0xF), state.get(second & 0xF));
    let turned = || from.map(|value| value.rotate_right(u32::from(second >> 4 & 3) << 3));
    let value = match (first, second & 0xF0C0) {
        (0xFA0F, 0xF080) => turned().map(|value| (value << 16).cast_signed().wrapping_shr(16).cast_unsigned()),
        (0xFA1F, 0xF080) => turned().map(|value| value & 0xFFFF),
        (0xFA4F, 0xF080) => turned().map(|value| (value << 24).cast_signed().wrapping_shr(24).cast_unsigned()),
        (0xFA5F, 0xF080) => turned().map(|value| value & 0xFF),
        _ if first & 0xFF80 == 0xFA00 && second & 0xF0F0 == 0xF000 => shifted(first >> 5, of, from),
        _ => Value::Unknown,
    };
    state.set(to, value);
    if first & 1 << 4 != 0 && second & 0x80 == 0 {
        state.flags = Flags::Unknown;
    }
}

/// UBFX and SBFX, BFI and BFC. `of`: the register that they read; `before`: that which they write.
pub(super) fn bits(first: u16, second: u16, of: Value, before: Value) -> Value {
    let (low, last) = (u32::from(second >> 12 & 7) << 2 | u32::from(second >> 6 & 3), u32::from(second & 0x1F));
    let mask = |bits: u32| 1_u32.checked_shl(bits).map_or(u32::MAX, |bit| bit.wrapping_sub(1));
    match first & 0xFBF0 {
        0xF3C0 => of.map(|value| value.checked_shr(low).unwrap_or(0) & mask(last.saturating_add(1))),
        0xF340 => {
            let unused = 31_u32.saturating_sub(last);
            of.map(|value| {
                let up = value.checked_shr(low).unwrap_or(0).checked_shl(unused).unwrap_or(0);
                up.cast_signed().wrapping_shr(unused).cast_unsigned()
            })
        }
        0xF360 => {
            let field = mask(last.wrapping_sub(low).wrapping_add(1).min(32)).checked_shl(low).unwrap_or(0);
            let of = if first & 0xF == 15 { Value::Is(0) } else { of };
            both(of, before, |of, before| before & !field | of.checked_shl(low).unwrap_or(0) & field)
        }
        _ => Value::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::instruction_set::InstructionSet;
    use super::*;

    /// What registers 3 and 4 have after an instruction of r1 and r2, with 100 in r4. The encodings are those of GNU as.
    fn after(step: fn(u16, u16, &mut State), [first, second]: [u16; 2], (a, b): (u32, u32)) -> [Option<u32>; 2] {
        let mut state = State::new(InstructionSet::Thumb, [Value::Unknown; 4]);
        [(1, a), (2, b), (4, 100)].into_iter().for_each(|(register, value)| state.set(register, Value::Is(value)));
        step(first, second, &mut state);
        [3, 4].map(|register| state.get(register).known())
    }

    #[test]
    fn products_and_quotients() {
        let of = |code, numbers| after(product, code, numbers)[0];
        let minus = u32::MAX;
        assert_eq!(of([0xFB01, 0xF302], (0x1_0001, 0x1_0001)), Some(0x2_0001), "mul r3, r1, r2");
        assert_eq!(of([0xFB01, 0x4302], (7, 6)), Some(142), "mla r3, r1, r2, r4");
        assert_eq!(of([0xFB01, 0x4312], (7, 6)), Some(58), "mls r3, r1, r2, r4");
        assert_eq!(of([0xFB91, 0xF3F2], (minus - 6, 2)), Some(minus - 2), "sdiv: -7 / 2 is -3");
        assert_eq!(of([0xFB91, 0xF3F2], (0x8000_0000, minus)), Some(0x8000_0000), "sdiv: the least number by -1");
        assert_eq!(of([0xFBB1, 0xF3F2], (0x8000_0000, 2)), Some(0x4000_0000), "udiv");
        assert_eq!(of([0xFB91, 0xF3F2], (1, 0)), None, "sdiv by 0 is 0, or a fault");
        assert_eq!(of([0xFBB1, 0xF3F2], (1, 0)), None, "udiv by 0");
    }

    #[test]
    fn long_products() {
        let signed = after(product, [0xFB81, 0x3402], (u32::MAX, 3));
        assert_eq!(signed, [Some(0xFFFF_FFFD), Some(u32::MAX)], "smull r3, r4, r1, r2: -1 * 3");
        let unsigned = after(product, [0xFBA1, 0x3402], (u32::MAX, 3));
        assert_eq!(unsigned, [Some(0xFFFF_FFFD), Some(2)], "umull r3, r4, r1, r2");
        assert_eq!(after(product, [0xFBC1, 0x3402], (2, 3)), [None, None], "smlal is not carried out");
    }

    #[test]
    fn shifts_by_a_register() {
        let of = |code, numbers| after(moved, code, numbers)[0];
        assert_eq!(of([0xFA01, 0xF302], (3, 4)), Some(48), "lsl.w r3, r1, r2");
        assert_eq!(of([0xFA01, 0xF302], (3, 32)), Some(0), "lsl.w by 32");
        assert_eq!(of([0xFA01, 0xF302], (3, 0x104)), Some(48), "the lowest byte counts");
        assert_eq!(of([0xFA21, 0xF302], (0x8000_0000, 31)), Some(1), "lsr.w");
        assert_eq!(of([0xFA41, 0xF302], (0x8000_0000, 40)), Some(u32::MAX), "asr.w");
        assert_eq!(of([0xFA61, 0xF302], (0x8000_0001, 33)), Some(0xC000_0000), "ror.w");
        assert_eq!([shift(0, 1, 32), shift(1, 1, 0), shift(2, 4, 1), shift(3, 1, 32)], [0, 1, 2, 1], "narrow ones");
    }

    #[test]
    fn extensions_of_a_part() {
        let of = |code, value| after(moved, code, (0, value))[0];
        assert_eq!(of([0xFA0F, 0xF382], 0x1_8001), Some(0xFFFF_8001), "sxth.w r3, r2");
        assert_eq!(of([0xFA1F, 0xF382], 0x1_8001), Some(0x8001), "uxth.w r3, r2");
        assert_eq!(of([0xFA4F, 0xF392], 0x1234_8056), Some(0xFFFF_FF80), "sxtb.w r3, r2, ror #8");
        assert_eq!(of([0xFA5F, 0xF3A2], 0x1234_8056), Some(0x34), "uxtb.w r3, r2, ror #16");
    }

    #[test]
    fn fields_of_a_register() {
        let of = |[first, second]: [u16; 2], of, before| bits(first, second, Value::Is(of), Value::Is(before)).known();
        assert_eq!(of([0xF3C1, 0x1307], 0x1234, 0), Some(0x23), "ubfx r3, r1, #4, #8");
        assert_eq!(of([0xF3C1, 0x031F], 0x8000_1234, 0), Some(0x8000_1234), "ubfx r3, r1, #0, #32");
        assert_eq!(of([0xF341, 0x1307], 0x0F80, 0), Some(0xFFFF_FFF8), "sbfx r3, r1, #4, #8");
        assert_eq!(of([0xF361, 0x230B], 0xAB, 0x1111_1111), Some(0x1111_1B11), "bfi r3, r1, #8, #4");
        assert_eq!(of([0xF36F, 0x230B], 0xAB, 0x1111_1111), Some(0x1111_1011), "bfc r3, #8, #4");
    }
}
