#[test]
fn loads_and_stores_of_a_riscv() {
    use super::*;
    let of = |halves: [u16; 2]| {
        let mut registers = Registers::new(Architecture::Riscv32);
        assert!(registers.set("a0", 0) && registers.set("a5", 0x2000_0100) && registers.set("sp", 0x8000_0000));
        Effect::of(&registers, &halves.map(u16::to_le_bytes).concat())
    };
    assert_eq!(of([0x0023, 0x00B5]), Some(Effect::Write(0, Size::any(1))), "sb a1, 0(a0)");
    assert_eq!(of([0xA583, 0x0047]), Some(Effect::Read(0x2000_0104, Size::any(4))), "lw a1, 4(a5)");
    assert_eq!(of([0xD583, 0xFFE7]), Some(Effect::Read(0x2000_00FE, Size::any(2))), "lhu a1, -2(a5)");
    assert_eq!(of([0xC388, 0]), Some(Effect::Write(0x2000_0100, Size::any(4))), "c.sw a0, 0(a5)");
    assert_eq!(of([0x4512, 0]), Some(Effect::Read(0x8000_0004, Size::any(4))), "c.lwsp a0, 4");
    assert_eq!(of([0x8023, 0x00B5]), None, "sb a1, 0(a1): a1 is not known");
    assert_eq!(of([0xA407, 0x0047]), Some(Effect::Read(0x2000_0104, Size::any(4))), "flw fs0, 4(a5)");
    assert_eq!(of([0xE407, 0x0207]), None, "vle32.v v8, (a5)");
    assert_eq!(of([0x0513, 0x0010]), None, "li a0, 1");
}

/// A check that failed on a RISC-V, and disabled interrupts for its loop, was called a loop that may be idle.
#[test]
fn a_riscv_that_stopped_itself_was_idle() {
    use super::*;
    let of = |words: &[u32]| {
        let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let pc = 0x100 + code.len() as u64;
        code.extend(0xA001_u16.to_le_bytes());
        code.extend([0; 2]);
        endless_loop(Architecture::Riscv32, pc, 0x100, &code).map(|found| found.is_masked)
    };
    // csrci mstatus, 8; addi sp, sp, -16
    assert_eq!(of(&[0x3004_7073, 0xFF01_0113]), Some(true));
    assert_eq!(of(&[0x3004_7073, 0x3004_6073]), Some(false), "csrsi mstatus, 8");
    assert_eq!(of(&[0xFF01_0113]), Some(false));
    assert_eq!(of(&[0x3044_7073]), Some(false), "mie");
}

use super::*;

fn registers(values: &[(&str, u64)]) -> Registers {
    let mut registers = Registers::new(Architecture::CortexM);
    values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
    registers
}

/// Encodings as GNU as writes them.
#[test]
fn what_an_instruction_accesses() {
    let all = registers(&[("r1", 0x1000), ("r2", 0x20), ("r3", 0), ("sp", 0x2000_0100)]);
    let of = |code: &[u16]| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        Effect::of(&all, &bytes)
    };
    assert_eq!(of(&[0x600A]), Some(Effect::Write(0x1000, Size::any(4))), "str r2, [r1]");
    assert_eq!(of(&[0x6848]), Some(Effect::Read(0x1004, Size::any(4))), "ldr r0, [r1, #4]");
    assert_eq!(of(&[0x7848]), Some(Effect::Read(0x1001, Size::any(1))), "ldrb r0, [r1, #1]");
    assert_eq!(of(&[0x8848]), Some(Effect::Read(0x1002, Size::any(2))), "ldrh r0, [r1, #2]");
    assert_eq!(of(&[0x5088]), Some(Effect::Write(0x1020, Size::any(4))), "str r0, [r1, r2]");
    assert_eq!(of(&[0x9001]), Some(Effect::Write(0x2000_0104, Size::any(4))), "str r0, [sp, #4]");
    assert_eq!(of(&[0xB510]), Some(Effect::Write(0x2000_00F8, Size::aligned(4))), "push {{r4, lr}}");
    assert_eq!(of(&[0xB0A9]), Some(Effect::Lower(0x2000_005C)), "sub sp, #164");
    assert_eq!(of(&[0xF5AD, 0x7D00]), Some(Effect::Lower(0x1FFF_FF00)), "sub.w sp, sp, #512");
    assert_eq!(of(&[0xF6AD, 0x0D04]), Some(Effect::Lower(0x1FFF_F8FC)), "subw sp, sp, #2052");
    assert_eq!(of(&[0xEBAD, 0x0D02]), Some(Effect::Lower(0x2000_00E0)), "sub.w sp, sp, r2");
    assert_eq!(of(&[0xB029]), None, "add sp, #164");
    assert_eq!(of(&[0xBD10]), Some(Effect::Read(0x2000_0100, Size::aligned(4))), "pop {{r4, pc}}");
    assert_eq!(of(&[0xC90C]), Some(Effect::Read(0x1000, Size::aligned(4))), "ldmia r1, {{r2, r3}}");
    assert_eq!(of(&[0x4798]), Some(Effect::Jump(0)), "blx r3");
    assert_eq!(of(&[0xBE00]), Some(Effect::Breakpoint), "bkpt");
    assert_eq!(of(&[0xDE00]), Some(Effect::Undefined), "udf");
    assert_eq!(of(&[0xF8C1, 0x0FFC]), Some(Effect::Write(0x1FFC, Size::any(4))), "str.w r0, [r1, #0xffc]");
    assert_eq!(of(&[0xF851, 0x0C04]), Some(Effect::Read(0xFFC, Size::any(4))), "ldr r0, [r1, #-4]");
    assert_eq!(of(&[0xF851, 0x0B04]), Some(Effect::Read(0x1000, Size::any(4))), "ldr r0, [r1], #4");
    assert_eq!(of(&[0xF851, 0x0022]), Some(Effect::Read(0x1080, Size::any(4))), "ldr r0, [r1, r2, lsl #2]");
    assert_eq!(of(&[0xE9D1, 0x0102]), Some(Effect::Read(0x1008, Size::aligned(8))), "ldrd r0, r1, [r1, #8]");
    assert_eq!(of(&[0xE92D, 0x4FF0]), Some(Effect::Write(0x2000_00DC, Size::aligned(4))), "push {{r4-r11, lr}}");
    assert_eq!(of(&[0xEDD1, 0x6A00]), Some(Effect::Read(0x1000, Size::aligned(4))), "vldr s13, [r1]");
    assert_eq!(of(&[0xECB1, 0x7A01]), Some(Effect::Read(0x1000, Size::aligned(4))), "vldmia r1!, {{s14}}");
    assert_eq!(of(&[0xED2D, 0x8B02]), Some(Effect::Write(0x2000_00F8, Size::aligned(4))), "vpush {{d8}}");
    assert_eq!(of(&[0xFBB0, 0xF0F3]), Some(Effect::DivideByZero), "udiv r0, r0, r3");
    assert_eq!(of(&[0xFB90, 0xF0F2]), Some(Effect::Divide(Some(0x20))), "sdiv r0, r0, r2");
    assert_eq!(of(&[0xFB90, 0xF0F4]), Some(Effect::Divide(None)), "sdiv r0, r0, r4");
    assert_eq!(of(&[0x680C, 0]).map(Effect::address), Some(Some(0x1000)), "ldr r4, [r1]");
    assert_eq!(of(&[0x6822]), None, "ldr r2, [r4], and r4 is not known");
    assert_eq!(of(&[0x4608]), None, "mov r0, r1");
}

#[test]
fn a_wait_for_an_interrupt() {
    let of = |pc, code: &[u16]| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        waiting(Architecture::CortexM, pc, 0x100, &bytes)
    };
    let masked = |at| Some(Waiting { at, is_masked: true });
    assert_eq!(of(0x104, &[0xB672, 0xBF30, 0xBF00]), masked(0x102), "cpsid i, wfi: the CPU is behind it");
    assert_eq!(of(0x102, &[0xB672, 0xBF30, 0xBF00]), masked(0x102), "or at it");
    assert_eq!(of(0x106, &[0xB672, 0xF3BF, 0x8F4F, 0xBF20]), masked(0x106), "a barrier, wfe");
    let idle = Some(Waiting { at: 0x104, is_masked: false });
    assert_eq!(of(0x106, &[0xB672, 0xB662, 0xBF30, 0xBF00]), idle, "cpsie i, wfi");
    assert_eq!(of(0x106, &[0xB672, 0xBF30, 0xBF00, 0xBF00]), None, "it has gone on");
}

fn looped(pc: u64, code: &[u16]) -> Option<Loop> {
    let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
    endless_loop(Architecture::CortexM, pc, 0x100, &bytes)
}

#[test]
fn loops_without_an_exit() {
    let plain = |start| Some(Loop { start, is_masked: false });
    assert_eq!(looped(0x100, &[0xE7FE]), plain(0x100), "b .");
    assert_eq!(looped(0x102, &[0xBF00, 0xBF00, 0xE7FD]), plain(0x102), "nop, b");
    assert_eq!(looped(0x102, &[0xB672, 0xE7FE]), Some(Loop { start: 0x102, is_masked: true }), "cpsid i, b .");
    assert_eq!(
        looped(0x102, &[0xB672, 0xBF30, 0xB662, 0xB672, 0xE7FB]),
        None,
        "cpsid i, wfi, cpsie i, cpsid i, b 0x102"
    );
    assert_eq!(looped(0x104, &[0xB672, 0xB662, 0xE7FE]), plain(0x104), "cpsid i, cpsie i, b .");
    assert_eq!(looped(0x100, &[0xF7FF, 0xBFFE]), plain(0x100), "b.w .");
    assert_eq!(looped(0x100, &[0x6803, 0x2B00, 0xD0FC]), None, "it waits for a flag");
    assert_eq!(looped(0x100, &[0x4770, 0xE7FD]), None, "bx lr");
    assert_eq!(looped(0x100, &[0xF000, 0xF800, 0xE7FC]), None, "it calls");
    assert_eq!(looped(0x100, &[0xE000, 0xBF00, 0xE7FE]), None, "it jumps forward");
    assert_eq!(looped(0x100, &[0xBF00, 0xBF00]), None, "its end is not known");
}

#[test]
fn loops_of_other_processors() {
    for (architecture, word) in
        [(Architecture::Arm, 0xEAFF_FFFE_u32), (Architecture::Aarch64, 0x1400_0000), (Architecture::Riscv32, 0x6F)]
    {
        assert!(endless_loop(architecture, 0x80, 0x80, &word.to_le_bytes()).is_some());
        assert!(endless_loop(architecture, 0x80, 0x80, &0xE320_F003_u32.to_le_bytes()).is_none());
    }
}

/// The handler of a fault had used the register with the address: what the instruction did was not known.
#[test]
fn the_address_that_failed_shows_the_register_that_its_handler_has_used() {
    use super::*;
    let of = |code: &[u16], known: &[(&str, u64)], failed| {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut registers = Registers::new(Architecture::CortexM);
        known.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let (registers, effect) = Effect::of_failed(&registers, &bytes, failed)?;
        Some((registers.value("r4"), effect))
    };
    // strb r3, [r4]
    let write = Effect::Write(0x1000_565E, Size::any(1));
    assert_eq!(of(&[0x7023], &[], 0x1000_565E), Some((Some((0x1000_565E, Origin::Inferred)), write)));
    // ldr.w r0, [r4, #272], over the end of the addresses
    let read = Effect::Read(0x10, Size::any(4));
    assert_eq!(of(&[0xF8D4, 0x0110], &[], 0x10), Some((Some((0xFFFF_FF00, Origin::Inferred)), read)));
    assert_eq!(of(&[0x7023], &[("r4", 8)], 0x1000_565E), None, "it is known");
    assert_eq!(of(&[0x5D63], &[], 0x1000_565E), None, "ldrb r3, [r4, r5]: either of two");
    assert_eq!(of(&[0xBF00], &[], 0x1000_565E), None, "nop");
}
