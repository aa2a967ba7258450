//! What single instructions of Thumb code do to values that are known.

use super::super::instruction_set::InstructionSet;
use super::*;

/// Which of the registers are not known any more after an instruction of the floating-point unit.
fn lost(first: u16, second: u16) -> Vec<u16> {
    let mut state = State::new(InstructionSet::Thumb, [Value::Unknown; 4]);
    (0..13).for_each(|n| state.set(n, number(n)));
    float(first, second, &mut state);
    (0..13).filter(|n| state.get(*n) != number(*n)).collect()
}

/// An object in r7 was not known any more after a calculation in s14 or s15.
#[test]
fn arithmetic_of_the_floating_point_unit_wrote_registers_of_the_same_number() {
    let none: [u16; 0] = [];
    assert_eq!(lost(0xEE77, 0x7AC7), none, "vsub.f32 s15, s15, s14");
    assert_eq!(lost(0xEEF8, 0x7AE7), none, "vcvt.f32.s32 s15, s15");
    assert_eq!(lost(0xED95, 0x7A00), none, "vldr s14, [r5]");
    assert_eq!(lost(0xEDC6, 0x7A00), none, "vstr s15, [r6]");
    assert_eq!(lost(0xEE07, 0x0A90), none, "vmov s15, r0");
    assert_eq!(lost(0xEC40, 0x1B17), none, "vmov d7, r0, r1");
    assert_eq!(lost(0xEE17, 0x3A90), [3], "vmov r3, s15");
    assert_eq!(lost(0xEC51, 0x0B17), [0, 1], "vmov r0, r1, d7");
    assert_eq!(lost(0xECF4, 0x7A01), [4], "vldmia r4!, {{s15}}");
    assert_eq!(lost(0xEE11, 0x3F10), [1, 3], "mrc p15, 0, r3, c1, c0, 0");
}

/// What an exclusive store changed was taken for unchanged.
#[test]
fn an_exclusive_store_was_no_store() {
    let stored = |first: u16, second: u16| {
        let mut state = State::new(InstructionSet::Thumb, [Value::Is(0x2000_0000); 4]);
        state.stores = Some(Vec::new());
        pair(first, second, &mut state, &NoMemory);
        state.stores.unwrap().into_iter().map(|stored| stored.place).collect::<Vec<_>>()
    };
    assert_eq!(stored(0xE841, 0x2300), [Value::Is(0x2000_0000)], "strex r3, r2, [r1]");
    assert_eq!(stored(0xE841, 0x2302), [Value::Is(0x2000_0008)], "strex r3, r2, [r1, #8]");
    assert_eq!(stored(0xE8C1, 0x2F43), [Value::Is(0x2000_0000)], "strexb r3, r2, [r1]");
    assert_eq!(stored(0xE8C1, 0x2FAF), [Value::Is(0x2000_0000)], "stl r2, [r1]");
    assert_eq!(stored(0xE851, 0x2F00), [], "ldrex r2, [r1]");
    assert_eq!(stored(0xE841, 0xF200), [], "tt r2, r1");
}

/// No code, and no constants.
struct NoMemory;

impl Program for NoMemory {
    fn instructions(&self) -> InstructionSet {
        InstructionSet::Thumb
    }

    fn code(&self, _: Addr) -> Option<u16> {
        None
    }

    fn constant(&self, _: Addr) -> Option<u32> {
        None
    }
}
