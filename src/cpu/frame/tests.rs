//! The frames that threads save.

use super::super::notes::from_prstatus;
use super::super::tests::*;
use super::super::*;
use crate::abi::{Addr, Endian};
use crate::mem::Memory;

/// A frame of a program whose code may be anywhere.
fn anywhere(
    architecture: Architecture,
    endian: Endian,
    memory: &mut dyn Memory,
    at: Addr,
) -> Result<Saved, SavedError> {
    Frames::new(architecture, endian).read(memory, at, &CodeRanges::default())
}

#[test]
fn cortex_m_without_floats() {
    let saved = read(Architecture::CortexM, words32(&cortex_m(0xFFFF_FFFD, 0x6100_0000), Endian::Little)).unwrap();
    let r = &saved.registers;
    assert_eq!(saved.kind, SavedKind::Switched);
    assert_eq!((r.pc(), r.sp(), r.lr()), (Some(0x8200), Some(STACK + 68), Some(0x8101)));
    assert_eq!(values(r, &["r4", "r7", "r11", "r0", "r3", "r12"]), some(&[4, 7, 11, 0xA0, 0xA3, 0xAC]));
    assert_eq!((r.get("xpsr"), r.get("d0"), r.get("d8"), r.get("msp")), (Some(0x6100_0000), None, None, None));
}

#[test]
fn cortex_m_whose_stack_was_aligned() {
    let saved = read(Architecture::CortexM, words32(&cortex_m(0xFFFF_FFFD, 0x0100_0200), Endian::Little)).unwrap();
    assert_eq!((saved.registers.sp(), saved.registers.get("xpsr")), (Some(STACK + 72), Some(0x0100_0000)));
}

#[test]
fn cortex_m_with_floats() {
    let plain = cortex_m(0xFFFF_FFED, 0x0100_0000);
    let mut words = vec![plain[0]];
    words.extend(0x1600..0x1610); // s16-s31
    words.extend(&plain[1..]);
    words.extend(0x0500..0x0510); // s0-s15
    words.extend([0x0300_0000, 0xDEAD_BEEF]); // fpscr, unused
    assert_eq!(words.len() * 4, 204);
    let saved = read(Architecture::CortexM, words32(&words, Endian::Little)).unwrap();
    let r = &saved.registers;
    assert_eq!((r.pc(), r.sp()), (Some(0x8200), Some(STACK + 204)));
    assert_eq!(values(r, &["r4", "r11", "r0"]), some(&[4, 11, 0xA0]));
    let doubles = [0x0501_0000_0500, 0x050F_0000_050E, 0x1601_0000_1600, 0x160F_0000_160E];
    assert_eq!(values(r, &["d0", "d7", "d8", "d15"]), some(&doubles));
    assert_eq!(r.get("fpscr"), Some(0x0300_0000));
    let short = words32(&words[..50], Endian::Little);
    assert!(matches!(read(Architecture::CortexM, short), Err(SavedError::Unreadable { at: STACK, .. })));
}

#[test]
fn cortex_m0_saves_the_high_registers_first() {
    let mut memory = stacked(words32(&cortex_m(0xFFFF_FFBC, 0x0100_0000), Endian::Little));
    let frames = Frames { baseline: true, ..Frames::new(Architecture::CortexM, Endian::Little) };
    let r = frames.read(&mut memory, STACK, &CodeRanges::default()).unwrap().registers;
    assert_eq!(values(&r, &["r8", "r11", "r4", "r7", "r0"]), some(&[4, 7, 8, 11, 0xA0]));
}

#[test]
fn cortex_m_that_never_ran() {
    let mut words = vec![0xFFFF_FFFD];
    words.extend([0; 13]);
    words.extend([0xFFFF_FFFF, 0x8000, 0x0100_0000]);
    let saved = read(Architecture::CortexM, words32(&words, Endian::Little)).unwrap();
    assert_eq!((saved.kind, saved.registers.pc()), (SavedKind::NeverRan, Some(0x8000)));
}

/// What `_tx_thread_stack_build` stores is the address of a function, with the Thumb bit: it was called no frame.
#[test]
fn cortex_m_that_never_ran_has_the_thumb_bit_in_its_pc() {
    let mut words = vec![0xFFFF_FFFD];
    words.extend([0; 13]);
    words.extend([0xFFFF_FFFF, 0x8001, 0x0100_0000]);
    let never = (SavedKind::NeverRan, Some(0x8000), Some(STACK + 68));
    let read = |words: &[u32]| read(Architecture::CortexM, words32(words, Endian::Little));
    let of = |saved: Saved| (saved.kind, saved.registers.pc(), saved.registers.sp());
    assert_eq!(of(read(&words).unwrap()), never);
    // A module's thread begins with its data in r9, and arguments in r0 and r1.
    (words[6], words[9], words[10]) = (0x2000_4000, 0x2000_0100, 0x0800_0200);
    assert_eq!(of(read(&words).unwrap()), never);
    // With another link register it is no frame.
    words[14] = 0x8101;
    assert!(read(&words).unwrap_err().to_string().contains("is odd"));
}

#[test]
fn what_is_no_frame_of_cortex_m_says_why() {
    let why = |words: &[u32]| read(Architecture::CortexM, words32(words, Endian::Little)).unwrap_err().to_string();
    let mut odd = cortex_m(0xFFFF_FFFD, 0x0100_0000);
    odd[15] = 0x8201;
    for (words, text) in [
        (
            cortex_m(0x2000_0000, 0x0100_0000),
            "no saved frame at 0x20001000: 0x20000000 is not an EXC_RETURN to a thread",
        ),
        (
            cortex_m(0xFFFF_FFF1, 0x0100_0000),
            "no saved frame at 0x20001000: 0xfffffff1 is not an EXC_RETURN to a thread",
        ),
        (
            cortex_m(0xFFFF_FFFD, 0x0100_000B),
            "0x0100000b is not the xPSR of a thread: one has the Thumb bit, and no exception number",
        ),
        (
            cortex_m(0xFFFF_FFFD, 0x6000_0000),
            "0x60000000 is not the xPSR of a thread: one has the Thumb bit, and no exception number",
        ),
        (odd, "the pc 0x00008201 is odd"),
        (vec![], "the frame at 0x20001000 cannot be read: no memory at 0x20001000 (4 bytes)"),
    ] {
        assert!(why(&words).ends_with(text), "{}", why(&words));
    }
}

/// Type 1, CPSR, r0-r12, lr, pc, in either byte order and with or without d0-d31 and fpscr.
fn arm_interrupt(floats: bool) -> Vec<u32> {
    let mut words = vec![1, 0x6000_0013];
    if floats {
        words.extend((0..64).map(|i| 0xF000_0000 + i));
        words.push(0x10);
    }
    words.extend(0x100..0x10D);
    words.extend([0x8100, 0x8200]);
    words
}

#[test]
fn arm_switched_out_by_an_interrupt() {
    for floats in [false, true] {
        for endian in [Endian::Little, Endian::Big] {
            let words = arm_interrupt(floats);
            let mut memory = stacked(words32(&words, endian));
            let saved = Frames::new(Architecture::Arm, endian).read(&mut memory, STACK, &code()).unwrap();
            let r = &saved.registers;
            let remark = if floats { "assumed to hold floating" } else { "assumed to hold no floating" };
            assert_eq!(saved.kind, SavedKind::Interrupted);
            assert!(saved.remark.as_deref().unwrap().starts_with(remark), "{:?}", saved.remark);
            assert_eq!((r.pc(), r.lr(), r.sp()), (Some(0x8200), Some(0x8100), Some(STACK + words.len() as u64 * 4)));
            assert_eq!(values(r, &["r0", "r12", "cpsr"]), some(&[0x100, 0x10C, 0x6000_0013]));
            assert_eq!(r.get("fpscr"), floats.then_some(0x10));
            assert_eq!(r.get("d31").is_some(), floats);
            if floats && endian == Endian::Little {
                assert_eq!(values(r, &["d0", "d31"]), some(&[0xF000_0001_F000_0000, 0xF000_003F_F000_003E]));
            }
        }
    }
}

/// Type 0, CPSR, [d8-d31, fpscr], r4-r11, lr.
#[test]
fn arm_switched_out_in_a_kernel_call() {
    for floats in [false, true] {
        let mut words = vec![0, 0x0000_0013];
        if floats {
            words.extend((0..48).map(|i| 0xF000_0000 + i));
            words.push(0x10);
        }
        words.extend(4..12);
        words.push(0x8301);
        let saved = read(Architecture::Arm, words32(&words, Endian::Little)).unwrap();
        let r = &saved.registers;
        assert_eq!(saved.kind, SavedKind::Solicited);
        assert_eq!((r.pc(), r.get("cpsr")), (Some(0x8300), Some(0x33)), "Thumb as the address says");
        assert_eq!((r.sp(), r.get("r0")), (Some(STACK + words.len() as u64 * 4), None));
        assert_eq!(values(r, &["r4", "r11"]), some(&[4, 11]));
        assert_eq!((r.get("d8"), r.get("d7")), (floats.then_some(0xF000_0001_F000_0000), None));
    }
}

/// Without its code a frame was taken for one of the two kinds, and its pc was the address of a variable.
#[test]
fn arm_whose_frame_is_one_of_two_kinds_is_none_where_nothing_decides() {
    let mut memory = stacked(words32(&arm_interrupt(false), Endian::Little));
    let why = anywhere(Architecture::Arm, Endian::Little, &mut memory, STACK).unwrap_err().to_string();
    assert!(why.ends_with("holds floating-point registers is not known, nor where code is (0x8200, 0x0)"), "{why}");
    // Who knows is believed.
    let frames = Frames { floats: Some(false), ..Frames::new(Architecture::Arm, Endian::Little) };
    let saved = frames.read(&mut memory, STACK, &CodeRanges::default()).unwrap();
    assert_eq!((saved.remark, saved.registers.pc()), (None, Some(0x8200)));
    // Where code is decides; and that a pc is none.
    let open = Frames { floats: None, ..frames };
    let saved = open.read(&mut memory, STACK, &code()).unwrap();
    assert_eq!((saved.remark.is_some(), saved.registers.pc()), (true, Some(0x8200)));
}

/// It was taken for no frame at all, and nothing of it was shown.
#[test]
fn a_saved_pc_outside_of_the_code_is_a_remark() {
    let mut memory = stacked(words32(&arm_interrupt(false), Endian::Little));
    let frames = Frames { floats: Some(false), ..Frames::new(Architecture::Arm, Endian::Little) };
    let saved = frames.read(&mut memory, STACK, &CodeRanges::from_text("9000-9fff")).unwrap();
    assert_eq!(saved.registers.pc(), Some(0x8200));
    assert_eq!(saved.remark.unwrap(), "its pc 0x8200 is not in the code of the program");
}

#[test]
fn arm_that_never_ran_and_what_is_no_frame() {
    let mut words = vec![1, 0x13];
    words.extend([0; 15]);
    (words[12], words[15], words[16]) = (0x2000_0800, 0x8400, 0x8500);
    words.push(0);
    let saved = read(Architecture::Arm, words32(&words, Endian::Little)).unwrap();
    assert_eq!((saved.kind, saved.registers.pc()), (SavedKind::NeverRan, Some(0x8500)));
    for (index, word, text) in [(0, 2, "neither 0 (kernel) nor 1 (interrupt)"), (1, 0x0E, "is not a CPSR")] {
        let mut wrong = words.clone();
        wrong[index] = word;
        let why = read(Architecture::Arm, words32(&wrong, Endian::Little)).unwrap_err().to_string();
        assert!(why.contains(text), "{why}");
    }
}

/// The order of an interrupt's frame after SPSR and ELR: x28 and nothing, pairs down to x0 x1, then x29 x30.
fn aarch64_interrupt(floats: bool) -> Vec<u64> {
    let mut words = vec![0x3C5, 0x8200];
    if floats {
        words.extend([0, 0]);
        words.extend([0xFFFF_0000_0000_0001; 64]);
    }
    words.extend([28, 0x99]);
    words.extend((0..14).rev().flat_map(|pair| [pair * 2, pair * 2 + 1]));
    words.extend([29, 0x8100]);
    // x27 shares its pair with x26; x28 has one of its own.
    assert_eq!(words.len(), if floats { 100 } else { 34 });
    words
}

#[test]
fn aarch64_switched_out_by_an_interrupt() {
    for floats in [false, true] {
        let words = aarch64_interrupt(floats);
        let saved = read(Architecture::Aarch64, words64(&words)).unwrap();
        let r = &saved.registers;
        assert_eq!(saved.kind, SavedKind::Interrupted);
        assert_eq!((r.pc(), r.lr(), r.get("cpsr")), (Some(0x8200), Some(0x8100), Some(0x3C5)));
        assert_eq!(r.sp(), Some(STACK + words.len() as u64 * 8));
        for n in 0..30 {
            assert_eq!(r.get(&format!("x{n}")), Some(n), "x{n}");
        }
    }
}

#[test]
fn aarch64_switched_out_in_a_kernel_call() {
    for floats in [false, true] {
        let mut words = vec![0x140, 0];
        if floats {
            words.extend([0, 0]);
            words.extend([0xFFFF_0000_0000_0001; 16]);
        }
        words.extend([27, 28, 25, 26, 23, 24, 21, 22, 19, 20, 29, 0x8300]);
        let saved = read(Architecture::Aarch64, words64(&words)).unwrap();
        let r = &saved.registers;
        assert_eq!((saved.kind, r.pc(), r.get("x0"), r.get("cpsr")), (SavedKind::Solicited, Some(0x8300), None, None));
        assert_eq!(r.sp(), Some(STACK + words.len() as u64 * 8));
        for n in 19..30 {
            assert_eq!(r.get(&format!("x{n}")), Some(n), "x{n}");
        }
    }
}

#[test]
fn aarch64_that_never_ran_and_what_is_no_frame() {
    let mut words = vec![4, 0x8000];
    words.extend([0; 34]);
    let saved = read(Architecture::Aarch64, words64(&words)).unwrap();
    assert_eq!((saved.kind, saved.registers.sp()), (SavedKind::NeverRan, Some(STACK + 34 * 8)));
    for (status, elr, text) in
        [(0x13, 0x8000, "0x13 is not an SPSR"), (0x1140, 0, "0x1140 is not a DAIF"), (4, 0x8002, "is not aligned")]
    {
        (words[0], words[1]) = (status, elr);
        let why = read(Architecture::Aarch64, words64(&words)).unwrap_err().to_string();
        assert!(why.contains(text), "{why}");
    }
}

/// 1, s11..s0, t6..t0, a7..a0, ra, reserved, mepc, and a word unused.
fn riscv_interrupt() -> Vec<u64> {
    let mut words = vec![1];
    words.extend((0..12).rev().map(|n| 0x50 + n));
    words.extend((0..7).rev().map(|n| 0x70 + n));
    words.extend((0..8).rev().map(|n| 0xA0 + n));
    words.extend([0x8100, 0xDEAD, 0x8200, 0]);
    assert_eq!(words.len(), 32);
    words
}

fn riscv_bytes(words: &[u64], wide: bool) -> Vec<u8> {
    if wide { words64(words) } else { words32(&words.iter().map(|w| *w as u32).collect::<Vec<_>>(), Endian::Little) }
}

#[test]
fn riscv_switched_out_by_an_interrupt() {
    for (architecture, wide) in [(Architecture::Riscv32, false), (Architecture::Riscv64, true)] {
        let bytes = riscv_bytes(&riscv_interrupt(), wide);
        let plain = Frames { floats: Some(false), ..Frames::new(architecture, Endian::Little) };
        let saved = plain.read(&mut stacked(bytes.clone()), STACK, &CodeRanges::default()).unwrap();
        let r = &saved.registers;
        let size = if wide { 8 } else { 4 };
        assert_eq!((saved.kind, saved.remark), (SavedKind::Interrupted, None));
        assert_eq!((r.pc(), r.lr(), r.sp()), (Some(0x8200), Some(0x8100), Some(STACK + 32 * size)));
        let names = ["s0", "x9", "s2", "s11", "t0", "x7", "t3", "t6", "a0", "x17", "x8", "x0"];
        assert_eq!(values(r, &names), some(&[0x50, 0x51, 0x52, 0x5B, 0x70, 0x72, 0x73, 0x76, 0xA0, 0xA7, 0x50, 0]));
        assert_eq!((r.get("gp"), r.get("tp"), r.get("x32")), (None, None, None));
        let floats = Frames { floats: Some(true), ..plain };
        // 65 words, and what it takes to the next 16 bytes.
        let end = if wide { STACK + 528 } else { STACK + 272 };
        assert_eq!(
            floats.read(&mut stacked(bytes.clone()), STACK, &CodeRanges::default()).unwrap().registers.sp(),
            Some(end)
        );
        let unknown = read(architecture, bytes).unwrap();
        assert_eq!((unknown.registers.sp(), unknown.remark.is_some()), (None, true));
    }
}

/// What a trap stores is no frame yet: its first word is whatever was there.
#[test]
fn registers_of_a_thread_that_a_trap_interrupted() {
    let mut words = riscv_interrupt();
    words[0] = 0xEFEF_EFEF;
    let expected = read(Architecture::Riscv32, riscv_bytes(&riscv_interrupt(), false)).unwrap().registers;
    let of = |floats, architecture| {
        let frames = Frames { floats, ..Frames::new(architecture, Endian::Little) };
        frames.trapped(&mut stacked(riscv_bytes(&words, false)), STACK, &CodeRanges::default())
    };
    let found = of(Some(false), Architecture::Riscv32).unwrap();
    let names = ["pc", "ra", "fp", "a0", "t6"];
    assert_eq!(values(&found, &names), values(&expected, &names));
    assert_eq!((found.sp(), found.get("s1"), found.get("s11")), (Some(STACK + 128), None, None));
    assert_eq!((of(None, Architecture::Riscv32), of(Some(false), Architecture::CortexM)), (None, None));
}

#[test]
fn riscv_switched_out_in_a_kernel_call() {
    for (architecture, wide) in [(Architecture::Riscv32, false), (Architecture::Riscv64, true)] {
        for (mstatus, words32, words64) in [(0x1880, 64, 128), (0x7880, 128, 240)] {
            let mut words = vec![0];
            words.extend((0..12).rev().map(|n| 0x50 + n));
            words.extend([0x8300, mstatus, 0]);
            let saved = read(architecture, riscv_bytes(&words, wide)).unwrap();
            let r = &saved.registers;
            assert_eq!((saved.kind, r.pc(), r.get("a0")), (SavedKind::Solicited, Some(0x8300), None));
            assert_eq!(values(r, &["s0", "s11", "ra"]), some(&[0x50, 0x5B, 0x8300]));
            assert_eq!(r.sp(), Some(STACK + if wide { words64 } else { words32 }));
        }
    }
}

#[test]
fn riscv_that_never_ran_and_what_is_no_frame() {
    let mut words = vec![0; 32];
    (words[0], words[30]) = (1, 0x8000);
    assert_eq!(read(Architecture::Riscv64, words64(&words)).unwrap().kind, SavedKind::NeverRan);
    for (index, word, text) in [(0, 7, "neither 0"), (30, 0, "the pc 0x0 is zero"), (30, 0x8001, "is odd")] {
        let mut wrong = words.clone();
        wrong[index] = word;
        assert!(read(Architecture::Riscv64, words64(&wrong)).unwrap_err().to_string().contains(text));
    }
}

#[test]
fn x86_has_no_saved_frames() {
    let why = read(Architecture::X86_64, vec![0; 256]).unwrap_err().to_string();
    assert_eq!(why, "where ThreadX saves a thread's registers on x86-64 is not known");
}

/// Any bytes at all: an answer or an error, no panic.
#[test]
fn garbage_is_refused_or_read_and_never_panics() {
    let mut seed = 0x1234_5678_9ABC_DEFFu64;
    for _ in 0..2000 {
        let mut bytes = Vec::new();
        for _ in 0..110 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend((seed >> 40).to_le_bytes());
        }
        bytes.truncate((seed >> 32) as usize % 880);
        if let Some(first) = bytes.first_mut() {
            *first &= 1;
        }
        for architecture in Architecture::ALL {
            let _ = read(architecture, bytes.clone());
            let _ = stub(architecture, Endian::Big, &bytes);
            let _ = from_prstatus(architecture, Endian::Little, &bytes);
            let mut memory = stacked(bytes.clone());
            let _ = anywhere(architecture, Endian::Big, &mut memory, u64::MAX - 3);
        }
    }
}
