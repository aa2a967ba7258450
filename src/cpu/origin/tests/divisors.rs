//! Where divisors were read from, and what a caller passed.

use super::*;

/// A fault at a division by a register that is not known had no cause.
#[test]
fn the_divisor_of_a_division_by_zero_was_not_followed() {
    let of = |code: &[u16], at: Addr, word: u32| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("pc", at), ("r4", 0x2000_0200), ("r2", 0x4C), ("r10", 0x2000_0100)] {
            assert!(registers.set(name, value));
        }
        let places = [0x2000_014C, 0x2000_0206, 0x2000_0203];
        let word = |at: Addr| places.contains(&at).then_some(u64::from(word));
        Code { at, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
            .zero_divisor()
            .map(|read| read.place)
    };
    // ldr.w r6, [r10, r2]; mul.w r3, r3, r8; udiv r6, r3, r6
    let words = [0xF85A, 0x6002, 0xFB03, 0xF308, 0xFBB3, 0xF6F6];
    assert_eq!(of(&words, 0x108, 0), Some(0x2000_014C));
    assert_eq!(of(&words, 0x108, 5), None, "it was written since, or was not it");
    // ldrh r3, [r4, #6]; sdiv r0, r0, r3
    assert_eq!(of(&[0x88E3, 0xFB90, 0xF0F3], 0x102, 0xFFFF_0000), Some(0x2000_0206), "what is behind it is not read");
    assert_eq!(of(&[0x88E3, 0xFB90, 0xF0F3], 0x102, 0x100), None);
    // ldrb.w r3, [r4, #3]; sdiv r0, r0, r3
    assert_eq!(of(&[0xF894, 0x3003, 0xFB90, 0xF0F3], 0x104, 0x100), Some(0x2000_0203));
    assert_eq!(of(&[0xF894, 0x3003, 0x6818], 0x104, 0x100), None, "no division");
    // ldr.w r6, [r10, r2]; mul.w r6, r3, r6; udiv r6, r3, r6: a factor that is 0.
    let words = [0xF85A, 0x6002, 0xFB03, 0xF606, 0xFBB3, 0xF6F6];
    assert_eq!(of(&words, 0x108, 0), Some(0x2000_014C));
    assert_eq!(of(&words, 0x108, 5), None, "the other factor was 0");
    // ldrh r3, [r4, #6]; muls r3, r5; sdiv r0, r0, r3
    assert_eq!(of(&[0x88E3, 0x436B, 0xFB90, 0xF0F3], 0x104, 0), Some(0x2000_0206));
    // ldr.w r6, [r10, r2]; mla r6, r3, r6, r5; udiv r6, r3, r6
    let words = [0xF85A, 0x6002, 0xFB03, 0x5606, 0xFBB3, 0xF6F6];
    assert_eq!(of(&words, 0x108, 0), None, "with something added");
}

/// QEMU gives a division by zero the registers from in front of the load of the divisor: it was taken for a division by an address.
#[test]
fn a_divisor_that_is_not_loaded_yet_is_zero() {
    let of = |code: &[u16], r0: u64, word: u32| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("pc", 0x102), ("r0", r0)] {
            assert!(registers.set(name, value));
        }
        let word = |at: Addr| (at == r0 + 8).then_some(u64::from(word));
        Code { at: 0x102, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
            .zero_divisor()
            .map(|read| read.place)
    };
    // ldr r0, [r0, #8]; udiv r0, r3, r0
    let words = [0x6880, 0xFBB3, 0xF0F0];
    assert_eq!(of(&words, 0x2000_0090, 0), Some(0x2000_0098));
    assert_eq!(of(&words, 0x2000_0090, 7), None, "it was not 0");
    assert_eq!(of(&words, 5, 0), None, "what was loaded");
    // ldrh r0, [r0, #8]; udiv r0, r3, r0
    assert_eq!(of(&[0x8900, 0xFBB3, 0xF0F0], 0x2000_0090, 0x7_0000), Some(0x2000_0098), "half of the word");
    // ldr r0, [r1, #8]; udiv r0, r3, r0
    assert_eq!(of(&[0x6888, 0xFBB3, 0xF0F0], 0x2000_0090, 0), None, "the address of another register");
}

/// The division behind a loop, to which only the branch out of the loop leads, had no cause.
#[test]
fn a_divisor_that_was_read_before_the_only_branch_was_not_followed() {
    let of = |code: &[u16], at: Addr| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("pc", at), ("r0", 0x2000_0200), ("r2", 4)] {
            assert!(registers.set(name, value));
        }
        let word = |at: Addr| (at == 0x2000_0206).then_some(0);
        Code { at, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
            .zero_divisor()
            .map(|read| read.place)
    };
    // adds r2, #1; ldrh r1, [r0, #6]; cmp r1, r2; bls.n 0x10c; add ip, r2; b.n 0x100; udiv r0, ip, r1
    let words = [0x3201, 0x88C1, 0x4291, 0xD901, 0x4494, 0xE7F9, 0xFBBC, 0xF0F1];
    assert_eq!(of(&words, 0x10C), Some(0x2000_0206));
    // The same, where a second branch leads there: cbz r2, 0x10c in place of cmp.
    let words = [0x3201, 0x88C1, 0xB112, 0xD901, 0x4494, 0xE7F9, 0xFBBC, 0xF0F1];
    assert_eq!(of(&words, 0x10C), Some(0x2000_0206), "either branch may have been taken, behind the load");
    // cbz r2, 0x10c in front of the load: adds r2, #1; cbz r2; ldrh r1, [r0, #6]; bls.n 0x10c; ...
    let words = [0x3201, 0xB11A, 0x88C1, 0xD901, 0x4494, 0xE7F9, 0xFBBC, 0xF0F1];
    assert_eq!(of(&words, 0x10C), None, "the load may have been skipped");
}

/// The divisor that a function passed to another was followed no further. In front of the call, a critical section takes it over from a
/// variable that is 0 again since, and another register has a copy of the pointer.
#[test]
fn an_argument_that_was_read_in_front_of_a_call_was_not_followed() {
    let of = |code: &[u16], value: u64| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("pc", 0x120), ("sp", 0x2000_1000), ("r4", 0x2000_1010)] {
            assert!(registers.set(name, value));
        }
        let words = [(0x124, 0x2000_0054), (0x2000_0054, 0), (0x2000_1014, 0), (0x2000_1018, 7)];
        let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| u64::from(*word as u32));
        let stack = Some(Region { start: 0x2000_0F00, len: 0x200 });
        Code { at: 0x11C, registers: &registers, from: 0x100, code: &bytes, stack, word: &word }
            .argument(0x120, 1, value)
            .map(|read| read.place)
    };
    // push {r4, lr}; mov r4, r0; mrs r2, primask; cpsid i; ldr r3, =0x20000054; ldr r1, [r3]; str r1, [r0, #4]; movs r1, #0;
    // str r1, [r3]; msr primask, r2; ldr r1, [r0, #4]; movs r0, #1; bl; pop {r4, pc}; nop; its address
    let code = [
        0xB510, 0x4604, 0xF3EF, 0x8210, 0xB672, 0x4B06, 0x6819, 0x6041, 0x2100, 0x6019, 0xF382, 0x8810, 0x6841, 0x2001,
        0xF7FF, 0xFFE4, 0xBD10, 0xBF00,
    ];
    assert_eq!(of(&code, 0), Some(0x2000_0054), "from where the local variable was set");
    assert_eq!(of(&code, 7), None, "it is not there");
    let mut other = code;
    // ldr r1, [r0, #8]
    other[12] = 0x6881;
    assert_eq!(of(&other, 7), Some(0x2000_1018));
    // mov r4, r1: no register has a copy of the argument.
    other[1] = 0x460C;
    assert_eq!(of(&other, 7), None);
}

/// A divisor that the function computed from its argument was taken for what the caller passed.
#[test]
fn an_argument_that_was_changed_was_taken_for_that_of_the_caller() {
    let of = |code: &[u16], at: Addr, register: u16| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let registers = Registers::new(Architecture::CortexM);
        let word = |_: Addr| None;
        Code { at, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
            .unchanged_argument(register)
    };
    // udiv r0, r0, r1
    assert_eq!(of(&[0xFBB0, 0xF0F1], 0x100, 1), Some(1));
    // push {r7}; mov r3, r1; udiv r0, r0, r3
    assert_eq!(of(&[0xB480, 0x460B, 0xFBB0, 0xF0F3], 0x104, 3), Some(1));
    // subs r1, #1; udiv r0, r0, r1
    assert_eq!(of(&[0x3901, 0xFBB0, 0xF0F1], 0x102, 1), None, "it is one less");
    // str r0, [r3]; udiv r0, r0, r1
    assert_eq!(of(&[0x6018, 0xFBB0, 0xF0F1], 0x102, 1), None, "what the caller read may have been written");
    // udiv r0, r0, r4
    assert_eq!(of(&[0xFBB0, 0xF0F4], 0x100, 4), None, "no argument");
}
