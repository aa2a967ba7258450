//! Code of which the pointer is known.

use super::*;

mod divisors;

/// The pointer of the last instruction.
fn pointer_of(code: &[u16], values: &[(&str, u64)], words: &[(Addr, u32)]) -> Option<(Addr, u64)> {
    let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
    let mut registers = Registers::new(Architecture::CortexM);
    values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
    let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| u64::from(*word));
    Code { at: registers.pc()?, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
        .pointer()
        .map(|read| (read.place, read.value))
}

#[test]
fn a_pointer_that_was_read_from_a_member() {
    // ldr r3, [r0, #8]; movs r2, #1; str r2, [r3]
    let code = [0x6883, 0x2201, 0x601A];
    let values = [("pc", 0x104), ("r0", 0x2000_0100), ("r3", 0xDEAD_0000)];
    let of = |word| pointer_of(&code, &values, &[(0x2000_0108, word)]);
    assert_eq!(of(0xDEAD_0000), Some((0x2000_0108, 0xDEAD_0000)));
    assert_eq!(of(0xDEAD_0004), None, "it was changed since");
}

/// `*x->rx++ = c`: the word is one more when the write fails.
#[test]
fn a_pointer_that_was_moved_on_was_not_known() {
    let of = |code: &[u16], at: Addr| {
        let values = [("pc", at), ("r0", 0x4638_6001), ("r1", 0x4638_6000), ("r3", 0x47), ("r4", 0x2000_9938)];
        pointer_of(code, &values, &[(0x2000_993C, 0x4638_6001)])
    };
    // ldr r1, [r4, #4]; adds r0, r1, #1; str r0, [r4, #4]; strb r3, [r1]
    assert_eq!(of(&[0x6861, 0x1C48, 0x6060, 0x700B], 0x106), Some((0x2000_993C, 0x4638_6000)));
    assert_eq!(of(&[0x6861, 0x1C48, 0x60A0, 0x700B], 0x106), None, "another member is written");
    assert_eq!(of(&[0x6861, 0x1C48, 0x700B], 0x104), None, "nothing is written");
}

/// A pointer that somebody had counted up was followed to no variable, because an index was added to it.
#[test]
fn a_pointer_to_which_an_index_was_added_was_not_followed() {
    // ldr r2, [r4, #4]; adds r1, r3, #2; add.w r1, r2, r1, lsl #2; ldr r0, [r1, #4]
    let code = [0x6862, 0x1C99, 0xEB02, 0x0181, 0x6848];
    let of = |pointer: u32, r3: u64| {
        let r1 = u64::from(pointer) + (r3 << 2) + 8;
        let values = [("pc", 0x108), ("r1", r1), ("r3", r3), ("r4", 0x2000_0100)];
        pointer_of(&code, &values, &[(0x2000_0104, pointer), (0x2000_0200, 7)]).map(|(place, _)| place)
    };
    assert_eq!(of(0x51D3, 2), Some(0x2000_0104), "it is not aligned");
    assert_eq!(of(0xDEAD_0000, 2), Some(0x2000_0104), "it is no address");
    assert_eq!(of(0x2000_0200, 2), None, "it is one");
    assert_eq!(of(0xDEAD_0000, 0x1_0000), None, "the index is large");
}

/// In code without optimisation each pointer came from a local variable, and nothing was said of where that had it from.
#[test]
fn a_local_variable_was_where_a_pointer_came_from() {
    // ldr r3, [r7, #8]; ldr r3, [r3, #16]; str r3, [r7, #12]; movs r2, #1; ldr r3, [r7, #12]; str r2, [r3]
    let code = [0x68BB, 0x691B, 0x60FB, 0x2201, 0x68FB, 0x601A];
    let of = |block: u32, local: u32| {
        let bytes: Vec<u8> = code.iter().flat_map(|half: &u16| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("pc", 0x10A), ("r7", 0x2000_1000), ("r3", u64::from(local))] {
            assert!(registers.set(name, value));
        }
        let words = [(0x2000_1008, 0x2000_0400), (0x2000_100C, local), (0x2000_0410, block)];
        let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| u64::from(*word));
        let stack = Some(Region { start: 0x2000_0F00, len: 0x200 });
        let of = Code { at: 0x10A, registers: &registers, from: 0x100, code: &bytes, stack, word: &word };
        of.pointer().map(|read| read.place)
    };
    assert_eq!(of(0x0B5D_0B6A, 0x0B5D_0B6A), Some(0x2000_0410));
    assert_eq!(of(7, 0x0B5D_0B6A), Some(0x2000_100C), "it was changed since");
}

#[test]
fn a_pointer_that_was_read_through_a_global_one() {
    // ldr r3, [pc, #8]; ldr r3, [r3]; ldr r3, [r3, #4]; ldr r0, [r3, #12]; bx lr; then the constant
    let code = [0x4B02, 0x681B, 0x685B, 0x68D8, 0x4770, 0xBF00, 0x0040, 0x2000];
    let words = [(0x10C, 0x2000_0040), (0x2000_0040, 0x2000_0500), (0x2000_0504, 0xFFFF_0000)];
    let found = pointer_of(&code, &[("pc", 0x106), ("r3", 0xFFFF_0000)], &words);
    assert_eq!(found, Some((0x2000_0504, 0xFFFF_0000)));
}

#[test]
fn a_function_that_was_called_through_a_member() {
    // mov r4, r0; ldr r3, [r4, #16]; mov r0, r4; blx r3
    let code = [0x4604, 0x6923, 0x4620, 0x4798];
    let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r3", 0x1235)];
    assert_eq!(pointer_of(&code, &values, &[(0x2000_0210, 0x1235)]), Some((0x2000_0210, 0x1235)));
}

#[test]
fn pointers_that_were_read_with_others() {
    // ldrd r1, r0, [r4, #12]; adds r0, #1; blx r1
    let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r1", 0x1235)];
    assert_eq!(
        pointer_of(&[0xE9D4, 0x1003, 0x3001, 0x4788], &values, &[(0x2000_020C, 0x1235)]).map(|p| p.0),
        Some(0x2000_020C)
    );
    // ldmia r4, {r1, r3}; blx r3
    let values = [("pc", 0x102), ("r4", 0x2000_0200), ("r3", 0x1235)];
    assert_eq!(pointer_of(&[0xCC0A, 0x4798], &values, &[(0x2000_0204, 0x1235)]), None, "it changes its base");
    // ldmia.w r4, {r1, r3}; blx r3
    let values = [("pc", 0x104), ("r4", 0x2000_0200), ("r3", 0x1235)];
    let found = pointer_of(&[0xE894, 0x000A, 0x4798], &values, &[(0x2000_0204, 0x1235)]);
    assert_eq!(found.map(|p| p.0), Some(0x2000_0204));
}

/// A branch from behind, a return between the two, and IT blocks.
#[test]
fn the_load_of_another_path_was_taken() {
    let words = [(0x2000_0000, 0), (0x2000_0004, 0), (0x2000_0100, 0), (0x2000_0104, 0)];
    let of = |code: &[u16], at: Addr| {
        let values = [("pc", at), ("r0", 0x2000_0000), ("r1", 0x2000_0100), ("r2", 1), ("r3", 0)];
        pointer_of(code, &values, &words).map(|p| p.0)
    };
    // ldr r3, [r0]; cbz r1, to the last; ldr r3, [r0, #4]; str r1, [r3]
    assert_eq!(of(&[0x6803, 0xB101, 0x6843, 0x6019], 0x106), None);
    assert_eq!(of(&[0x6803, 0xBF00, 0x6843, 0x6019], 0x106), Some(0x2000_0004));
    // cbz r2, L; ldr r3, [r0, #4]; X: str r2, [r3]; bx lr; L: ldr r3, [r1, #4]; b X
    assert_eq!(of(&[0xB112, 0x6843, 0x601A, 0x4770, 0x684B, 0xE7FB], 0x104), None);
    // ldr r3, [r0]; bx lr; X: str r2, [r3]; b X
    assert_eq!(of(&[0x6803, 0x4770, 0x601A, 0xE7FD], 0x104), None);
    // ldr r3, [r0]; bx lr; str r2, [r3]
    assert_eq!(of(&[0x6803, 0x4770, 0x601A], 0x104), None);
    // ite ne; ldrne r3, [r0]; ldreq r3, [r1]; str r2, [r3]
    assert_eq!(of(&[0xBF14, 0x6803, 0x680B, 0x601A], 0x106), None);
    // cbz r2, behind; ldr r3, [r0]; str r2, [r3]; nop
    assert_eq!(of(&[0xB10A, 0x6803, 0x601A, 0xBF00], 0x104), Some(0x2000_0000), "it was not taken");
}

#[test]
fn jumps_through_tables_lead_anywhere() {
    let words = [(0x2000_0000, 0)];
    let of = |code: &[u16], at: Addr| {
        let values = [("pc", at), ("r0", 0x2000_0000), ("r2", 1), ("r3", 0)];
        pointer_of(code, &values, &words).map(|p| p.0)
    };
    // mov pc, r3, or ldr.w pc, [r2, r1, lsl #2]; ldr r3, [r0]; str r2, [r3]
    assert_eq!(of(&[0x469F, 0x6803, 0x601A], 0x104), None);
    assert_eq!(of(&[0xF852, 0xF021, 0x6803, 0x601A], 0x106), None);
    // ldr.w pc, [sp], #4 is a return.
    assert_eq!(of(&[0xF85D, 0xFB04, 0x6803, 0x601A], 0x106), Some(0x2000_0000));
    assert_eq!(of(&[0x6803, 0xF85D, 0xFB04, 0x601A], 0x106), None);
}

#[test]
fn an_index_that_was_too_large_was_the_fault_of_its_base() {
    // ldr r3, [r0]; str.w r1, [r3, r2, lsl #2]; the same with 16 bits
    let values = [("pc", 0x102), ("r0", 0x2000_0000), ("r2", 0x40000), ("r3", 0x2000_0100)];
    let words = [(0x2000_0000, 0x2000_0100)];
    assert_eq!(pointer_of(&[0x6803, 0xF843, 0x1022], &values, &words), None);
    assert_eq!(pointer_of(&[0x6803, 0x5099], &values, &words), None);
}

/// The first node was taken off a list: what leads to the pointer is another one now.
#[test]
fn a_word_that_was_written_since_was_taken_for_what_was_read() {
    // ldr r3, [r4]; ldr r2, [r3]; str r2, [r4]; ldr r3, [r3, #4]; str r0, [r3]
    let code = [0x6823, 0x681A, 0x6022, 0x685B, 0x6018];
    let values = [("pc", 0x108), ("r4", 0x2000_0000), ("r2", 0x2000_0200), ("r3", 0)];
    let words = [(0x2000_0000, 0x2000_0200), (0x2000_0204, 0), (0x2000_0104, 0)];
    assert_eq!(pointer_of(&code, &values, &words), None);
    // ldr r3, [r4]; str r2, [r5]; ldr r3, [r3, #4]; str r0, [r3]
    let code = [0x6823, 0x602A, 0x685B, 0x6018];
    let of = |r5| {
        let values = [("pc", 0x106), ("r4", 0x2000_0000), ("r5", r5), ("r3", 0)];
        pointer_of(&code, &values, &words).map(|p| p.0)
    };
    assert_eq!(of(0x2000_0800), Some(0x2000_0204), "a store elsewhere");
    assert_eq!(of(0x2000_0000), None);
}

#[test]
fn the_structure_of_another_register_was_named() {
    let base = |code: &[u16], at: Addr, words: &[(Addr, u32)]| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        let values = [("r0", 0x2000_0100), ("r3", 0xDEAD_0000), ("r4", 0xDEAD_0000)];
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| u64::from(*word));
        let read = Code { at, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }.pointer()?;
        Some((read.place, read.base))
    };
    // ldr r4, [r5]; ldr r3, [r0, #8]; mov r4, r3; str r1, [r4]
    let words = [(0x2000_0108, 0xDEAD_0000)];
    assert_eq!(base(&[0x682C, 0x6883, 0x461C, 0x6021], 0x106, &words), Some((0x2000_0108, None)));
    // ldr r3, [pc, #8]; ldr r3, [r3]; ldr r3, [r3, #4]; str r0, [r3]; bx lr; then the constant
    let code = [0x4B02, 0x681B, 0x685B, 0x6018, 0x4770, 0xBF00, 0x0040, 0x2000];
    let words = [(0x10C, 0x2000_0040), (0x2000_0040, 0x2000_0500), (0x2000_0504, 0xDEAD_0000)];
    assert_eq!(base(&code, 0x106, &words), Some((0x2000_0504, Some(0x2000_0040))));
}

#[test]
fn a_stack_pointer_that_was_moved_was_taken_for_the_one_of_the_load() {
    // ldr r3, [sp, #4]; pop {r4}; bx r3
    let values = [("pc", 0x104), ("sp", 0x2000_1004), ("r3", 0)];
    assert_eq!(pointer_of(&[0x9B01, 0xBC10, 0x4718], &values, &[(0x2000_1008, 0), (0x2000_1004, 0)]), None);
}

#[test]
fn what_a_call_returned_was_read_from_nowhere_that_is_known() {
    // ldr r0, [r4]; bl; str r1, [r0]
    let code = [0x6820, 0xF000, 0xF800, 0x6001];
    let values = [("pc", 0x106), ("r4", 0x2000_0200), ("r0", 7)];
    assert_eq!(pointer_of(&code, &values, &[(0x2000_0200, 7)]), None);
}

/// The pointer of the last instruction of RISC-V code. Registers: by their numbers.
fn pointer_of_riscv(code: &[u32], values: &[(u16, u64)], words: &[(Addr, u64)]) -> Option<(Addr, Option<Addr>)> {
    let short = |word: &u32| if word & 3 == 3 { 4 } else { 2 };
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes().into_iter().take(short(word))).collect();
    let mut registers = Registers::new(Architecture::Riscv32);
    values.iter().for_each(|(number, value)| assert!(registers.set(&format!("x{number}"), *value)));
    let word = |at: Addr| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word);
    let at = 0x100 | code.iter().rev().skip(1).map(|word| short(word) as u64).sum::<u64>();
    let read = Code { at, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }.pointer()?;
    Some((read.place, read.base))
}

#[test]
fn pointers_of_riscv_code() {
    // lw a5, 8(a0); sw a1, 0(a5)
    let values = [(10, 0x8000_0100), (15, 0xDEAD_0000)];
    let code = [0x0085_2783, 0x00B7_A023];
    assert_eq!(pointer_of_riscv(&code, &values, &[(0x8000_0108, 0xDEAD_0000)]), Some((0x8000_0108, None)));
    assert_eq!(pointer_of_riscv(&code, &values, &[(0x8000_0108, 0xDEAD_0004)]), None, "it was changed since");
    // c.lw a5, 8(a0); c.mv a4, a5; c.jalr a4
    let values = [(10, 0x8000_0100), (14, 0x55), (15, 0x55)];
    let code = [0x451C, 0x873E, 0x9702];
    assert_eq!(pointer_of_riscv(&code, &values, &[(0x8000_0108, 0x55)]), Some((0x8000_0108, None)));
    // lui a5, 0x80000; lw a4, 64(a5); lw a4, 4(a4); lbu a3, 0(a4)
    let code = [0x8000_07B7, 0x0407_A703, 0x0047_2703, 0x0007_4683];
    let words = [(0x8000_0040, 0x8000_0500), (0x8000_0504, 0xFFFF_0000)];
    let values = [(14, 0xFFFF_0000), (15, 0x8000_0000)];
    assert_eq!(pointer_of_riscv(&code, &values, &words), Some((0x8000_0504, Some(0x8000_0040))));
}

/// `sw ra, 12(sp)` behind the load: where the stack pointer is not known it may have been stored over the word.
#[test]
fn the_prologue_of_a_function_hid_where_its_pointer_was_read() {
    // lw a5, 0(a0); lw a5, 4(a5); sw ra, 12(sp); jalr a5
    let bytes: Vec<u8> =
        [0x0005_2783_u32, 0x0047_A783, 0x0011_2623, 0x0007_80E7].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut registers = Registers::new(Architecture::Riscv32);
    assert!(registers.set("a0", 0x8000_0100) && registers.set("a5", 0));
    let word = |at: Addr| Some(if at == 0x8000_0100 { 0x8000_0200 } else { 0 });
    let of = |stack: Option<Region>| {
        let code = Code { at: 0x10C, registers: &registers, from: 0x100, code: &bytes, stack, word: &word };
        code.pointer().map(|read| read.place)
    };
    assert_eq!(of(None), None);
    assert_eq!(of(Some(Region { start: 0x8000_0800, len: 0x400 })), Some(0x8000_0204));
    assert_eq!(of(Some(Region { start: 0x8000_0000, len: 0x400 })), None, "the word is in the same stack");
}

#[test]
fn a_push_hid_where_a_pointer_of_a_cortex_m_was_read() {
    // ldr r3, [r0]; ldr r3, [r3, #4]; push {r4, lr}; sub sp, #8; str r1, [sp, #4]; blx r3
    let code: Vec<u8> =
        [0x6803_u16, 0x685B, 0xB510, 0xB082, 0x9101, 0x4798].iter().flat_map(|half| half.to_le_bytes()).collect();
    let mut registers = Registers::new(Architecture::CortexM);
    assert!(registers.set("r0", 0x2000_0100) && registers.set("r3", 0));
    let stack = Some(Region { start: 0x2000_0800, len: 0x400 });
    let word = |at: Addr| Some(if at == 0x2000_0100 { 0x2000_0200 } else { 0 });
    let code = Code { at: 0x10A, registers: &registers, from: 0x100, code: &code, stack, word: &word };
    assert_eq!(code.pointer().map(|read| read.place), Some(0x2000_0204));
}

/// A load, then what may have written the register or the word, then a store through the register.
#[test]
fn pointers_of_riscv_code_that_are_not_known() {
    let load = 0x0005_2783; // lw a5, 0(a0)
    let store = 0x00B7_A023; // sw a1, 0(a5)
    let of = |between: u32| {
        let values = [(8, 0x8000_0800), (10, 0x8000_0100), (15, 0)];
        pointer_of_riscv(&[load, between, store], &values, &[(0x8000_0100, 0)]).map(|found| found.0)
    };
    assert_eq!(of(0x0000_0013), Some(0x8000_0100), "nop");
    assert_eq!(of(0x00A0_8463), Some(0x8000_0100), "beq ra, a0, behind it");
    assert_eq!(of(0x00C5_8263), Some(0x8000_0100), "beq a1, a2, to the store: the same on both ways");
    assert_eq!(of(0x0100_00EF), None, "jal ra");
    assert_eq!(of(0x0000_8067), None, "ret");
    assert_eq!(of(0x0007_0067), None, "jr a4: through a table");
    assert_eq!(of(0x0107_8793), None, "addi a5, a5, 16: the word is another");
    assert_eq!(of(0x00B6_07B3), None, "add a5, a2, a1");
    assert_eq!(of(0x3004_27F3), None, "csrrs a5, mstatus, s0");
    assert_eq!(of(0x0004_2787), Some(0x8000_0100), "flw fa5, 0(s0)");
    assert_eq!(of(0xFFFF_FFFF), None, "no instruction that is known");
}

#[test]
fn of_two_registers_that_nearer_to_the_address_is_the_pointer() {
    let base = |code: &[u16], values: &[(&str, u64)], failed: Addr| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let word = |_: Addr| None;
        let code = Code { at: 0x100, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word };
        code.base(Some(failed))
    };
    // strb r2, [r0, r3]; strb.w r2, [r0, r3]
    for code in [&[0x54C2][..], &[0xF800, 0x2003]] {
        let of = |r0, r3| base(code, &[("r0", r0), ("r3", r3)], 0x2000_0104);
        assert_eq!(of(0x2000_0100, 4), Some((0, Some(0x2000_0100))));
        assert_eq!(of(4, 0x2000_0100), Some((3, Some(0x2000_0100))));
        assert_eq!(base(code, &[("r0", 0x2000_0100)], 0x2000_0104), None, "one of them is not known");
    }
    assert_eq!(base(&[0x6042], &[], 0x2000_0104), Some((0, None)), "str r2, [r0, #4]");
    assert_eq!(base(&[0x4718], &[("r3", 0)], 0), None, "bx r3");
}

/// `capture.cur->x[n] = v`: of a base and an index the pointer was not followed.
#[test]
fn a_null_pointer_with_an_index_was_not_followed() {
    // ldr r4, [r0]; movs r3, #4; strh.w r2, [r4, r3, lsl #1]
    let code = [0x6804, 0x2304, 0xF824, 0x2013];
    let of = |r4: u64, r3: u64| {
        let values = [("pc", 0x104), ("r0", 0x2000_00F4), ("r3", r3), ("r4", r4)];
        let word = u32::try_from(r4).unwrap();
        pointer_of(&code, &values, &[(0x2000_00F4, word), (0x2000_1000, 0)])
    };
    assert_eq!(of(0, 4), Some((0x2000_00F4, 0)));
    assert_eq!(of(0x2000_1000, 4), None, "there is memory: the index, or what is there, is wrong");
    assert_eq!(of(0, 0x2000_0000), None, "the index is no small number");
}

/// A loop checks a function pointer, calls another function, reads it again and jumps back: two loads of the same word lead to the call,
/// one of them from behind.
#[test]
fn a_call_through_a_member_that_two_ways_lead_to_had_no_pointer() {
    // push {r4, lr}; b S; X: ldr r0, [r4, #8]; C: blx r3; adds r4, #16; S: ldr r3, [r4, #4]; cmp r1, #0; bne X; ldr r3, [r4, #4]; b X
    let code = [0xB510, 0xE002, 0x68A0, 0x4798, 0x3410, 0x6863, 0x2900, 0xD1F9, 0x6863, 0xE7F7];
    let values = [("pc", 0x106), ("r4", 0x2000_0280), ("r3", 0)];
    assert_eq!(pointer_of(&code, &values, &[(0x2000_0284, 0)]).map(|found| found.0), Some(0x2000_0284));
    // The second load is of another word: ldr r3, [r4, #12].
    let code = [0xB510, 0xE002, 0x68A0, 0x4798, 0x3410, 0x6863, 0x2900, 0xD1F9, 0x68E3, 0xE7F7];
    let words = [(0x2000_0284, 0), (0x2000_028C, 0)];
    assert_eq!(pointer_of(&code, &values, &words), None);
}

#[test]
fn any_code_is_survived() {
    let mut state = 11_u32;
    for _ in 0..2000 {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as u16
        };
        let code: Vec<u16> = (0..32).map(|_| next()).collect();
        let pc = 0x100 + u64::from(next() >> 10) * 2;
        let _ = pointer_of(&code, &[("pc", pc), ("r0", 0), ("r1", 0xFFFF_FFFF), ("r3", 4)], &[(4, 4), (0, 0)]);
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        for architecture in [Architecture::Riscv32, Architecture::Riscv64] {
            let mut registers = Registers::new(architecture);
            (8..18).for_each(|number| assert!(registers.set(&format!("x{number}"), u64::from(next()))));
            let word = |at: Addr| Some(at & 0xFF);
            let _ = Code { at: pc, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }
                .base(Some(0));
            let _ =
                Code { at: pc, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word }.pointer();
        }
    }
}

/// A loop over pointers with a `switch` in it: a load that moves its base, and a table of jumps behind it.
#[test]
fn a_switch_hid_where_a_pointer_was_read() {
    // L: ldr.w r5, [r6, #4]!; S: ldrb r3, [r5]; cmp r3, #1; bhi.n E; tbb [pc, r3]; (1, 2); A: movs r0, #0; B: movs r0, #1; E: cmp r4, #8;
    // bne.n L; bx lr
    let code = [0xF856, 0x5F04, 0x782B, 0x2B01, 0xD804, 0xE8DF, 0xF003, 0x0201, 0x2000, 0x2001, 0x2C08, 0xD1F3, 0x4770];
    let values = [("pc", 0x104), ("r5", 0xEFEF_EFEF), ("r6", 0x2000_1310)];
    let words = [(0x2000_1310, 0xEFEF_EFEF)];
    assert_eq!(pointer_of(&code, &values, &words), Some((0x2000_1310, 0xEFEF_EFEF)));
    // Behind the switch: either of its ways led to E, and before it the load.
    let after =
        [0xF856, 0x5F04, 0x782B, 0x2B01, 0xD804, 0xE8DF, 0xF003, 0x0201, 0x2000, 0x2001, 0x782C, 0xD1F3, 0x4770];
    let values = [("pc", 0x114), ("r5", 0xEFEF_EFEF), ("r6", 0x2000_1310)];
    assert_eq!(pointer_of(&after, &values, &words).map(|found| found.0), Some(0x2000_1310));
    // ldr.w r5, [r6], #4; ldrb r3, [r5]: the base has been moved on
    let values = [("pc", 0x104), ("r5", 0xEFEF_EFEF), ("r6", 0x2000_1314)];
    assert_eq!(pointer_of(&[0xF856, 0x5B04, 0x782B], &values, &words).map(|found| found.0), Some(0x2000_1310));
    // A comparison that is not that of the table: its length is not known.
    let unknown = [0xF856, 0x5F04, 0x782B, 0x2C01, 0xD804, 0xE8DF, 0xF003, 0x0201, 0x2000, 0x2001, 0x2C08, 0xD1F3];
    let values = [("pc", 0x104), ("r5", 0xEFEF_EFEF), ("r6", 0x2000_1310)];
    assert_eq!(pointer_of(&unknown, &values, &words), None);
}

/// `map[255]` of a driver whose caller passed the answer -1 of a search, kept in 8 bits.
#[test]
fn an_index_that_a_caller_passed() {
    // caller, at 0x100: ldrb r0, [r4, #4]; ldrb r1, [r4, #5]; bl read
    // read, at 0x200: lsls r0, r0, #20; add.w r0, r0, #0x21000000; ldr.w r0, [r0, r1, lsl #2]; bx lr
    let (caller, read) = ([0x7920_u16, 0x7961, 0xF000, 0xF87C], [0x0500_u16, 0xF100, 0x5004, 0xF850, 0x0021, 0x4770]);
    let bytes = |code: &[u16]| code.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
    let (outer, inner) = (bytes(&caller), bytes(&read));
    let of = |failed, r4: Option<u64>, slot: u32| {
        let word = |at: Addr| {
            let of = |start: Addr, code: &[u8]| {
                let at = usize::try_from(at.checked_sub(start)?).ok()?;
                code.get(at..at + 4).map(|four| u64::from(u32::from_le_bytes(four.try_into().unwrap())))
            };
            let memory = (at == 0x2000_0004).then(|| 0x100 | u64::from(slot));
            memory.or_else(|| of(0x100, &outer)).or_else(|| of(0x200, &inner))
        };
        let (mut below, mut above) = (Registers::new(Architecture::CortexM), Registers::new(Architecture::CortexM));
        assert!(below.set("pc", 0x206) && above.set("pc", 0x108));
        r4.into_iter().for_each(|r4| assert!(above.set("r4", r4)));
        let frames = [
            Code { at: 0x206, registers: &below, from: 0x200, code: &inner, stack: None, word: &word },
            Code { at: 0x108, registers: &above, from: 0x100, code: &outer, stack: None, word: &word },
        ];
        computed(&frames, failed)
    };
    let input = |place, value| Input { place, value, bytes: 1, is_pointer: false };
    assert_eq!(of(0x30F0_0004, Some(0x2000_0000), 0xFF), [input(0x2000_0004, 255), input(0x2000_0005, 1)]);
    assert_eq!(of(0x30F0_0008, Some(0x2000_0000), 0xFF), [], "another address failed");
    assert_eq!(of(0x30F0_0004, Some(0x2000_0000), 5), [], "it was changed since");
    assert_eq!(of(0x30F0_0004, None, 0xFF), [], "where it was read is not known");
}

/// The pointer in a structure to which a local variable leads, which the code had moved on, had no place.
#[test]
fn a_pointer_that_is_moved_on_through_a_local_variable() {
    // ldr r3, [sp, #4]; ldr r2, [r3]; adds r1, r2, #4; str r1, [r3]; movs r3, #0; str r3, [r2]
    let code = [0x9B01, 0x681A, 0x1D11, 0x6019, 0x2300, 0x6013];
    let values = [("pc", 0x10A), ("r1", 0x3630_305F), ("r2", 0x3630_305B), ("r3", 0), ("sp", 0x2000_1000)];
    let words = [(0x2000_1004, 0x2000_2000), (0x2000_2000, 0x3630_305F)];
    assert_eq!(pointer_of(&code, &values, &words).map(|found| found.0), Some(0x2000_2000));
    // What the variable holds now was stored there: it is not what led to the pointer.
    let values = [("pc", 0x10A), ("r1", 0x2000_1004), ("r2", 0x2000_1000), ("r3", 0), ("sp", 0x2000_1000)];
    assert_eq!(pointer_of(&code, &values, &[(0x2000_1004, 0x2000_1004)]), None);
}

/// A code that is no number of a table's entry was taken for one: the pointer is what is behind the table.
#[test]
fn a_pointer_from_a_table_has_the_place_of_its_first_element() {
    let of = |code: &[u16], values: &[(&str, u64)]| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let word = |at: Addr| match at {
            0x2000_0124 => Some(0x7A12_0000),
            0x110 => Some(0x2000_0100),
            _ => None,
        };
        let pc = registers.pc()?;
        let of = Code { at: pc, registers: &registers, from: 0x100, code: &bytes, stack: None, word: &word };
        of.pointer().map(|read| (read.place, read.first))
    };
    let found = Some((0x2000_0124, Some(0x2000_0100)));
    // ldr r3, [pc, #12]; ldr.w r5, [r3, r2, lsl #2]; ldr r3, [r5, #4]
    let scaled = [0x4B03, 0xF853, 0x5022, 0x686B];
    assert_eq!(of(&scaled, &[("pc", 0x106), ("r2", 9), ("r3", 0x2000_0100), ("r5", 0x7A12_0000)]), found);
    // ldr r3, [pc, #12]; ldr r3, [r2, r3]; ldr r3, [r3, #4]: the index is the first register, and has been multiplied
    let unscaled = [0x4B03, 0x58D3, 0x685B];
    assert_eq!(of(&unscaled, &[("pc", 0x104), ("r2", 0x24), ("r3", 0x7A12_0000)]), found);
    // ldr r3, [pc, #12]; add.w r3, r3, r2, lsl #2; ldr r3, [r3, #0]; ldr r3, [r3, #4]
    let added = [0x4B03, 0xEB03, 0x0382, 0x681B, 0x685B];
    assert_eq!(of(&added, &[("pc", 0x108), ("r2", 9), ("r3", 0x7A12_0000)]), found);
    // adds r2, #3; ldr.w r5, [r3, r2, lsl #2]; ldr r3, [r5, #4]: the place of the table in its variable may be in the index
    let biased = [0x3203, 0xF853, 0x5022, 0x686B];
    let values = [("pc", 0x106), ("r2", 9), ("r3", 0x2000_0100), ("r5", 0x7A12_0000)];
    assert_eq!(of(&biased, &values), Some((0x2000_0124, None)));
    // ldr r3, [r0, #0x24]; ldr r3, [r3, #4]: a member
    assert_eq!(
        of(&[0x6A43, 0x685B], &[("pc", 0x102), ("r0", 0x2000_0100), ("r3", 0x7A12_0000)]),
        Some((0x2000_0124, None))
    );
}

/// `ops->relieve(lock)`: the structure was known only by its members.
#[test]
fn the_member_that_was_called_is_in_front_of_the_call() {
    let of = |code: &[u16]| called_member(&code.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>());
    assert_eq!(of(&[0x4620, 0x691B, 0x4798]), Some(16), "ldr r3, [r3, #16]; blx r3");
    assert_eq!(of(&[0xF8D5, 0x3104, 0x4798]), Some(0x104), "ldr.w r3, [r5, #260]; blx r3");
    assert_eq!(of(&[0x691A, 0x4798]), None, "another register");
    assert_eq!(of(&[0x689B, 0x4620, 0x4798]), Some(8), "ldr r3, [r3, #8]; mov r0, r4; blx r3");
    assert_eq!(of(&[0x689B, 0x4623, 0x4798]), None, "mov r3, r4 is between");
    assert_eq!(of(&[0x689B, 0x3301, 0x4798]), None, "adds r3, #1 is between");
    assert_eq!(of(&[0x4798]), None);
}
