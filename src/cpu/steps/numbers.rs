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
