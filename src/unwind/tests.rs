//! Exceptions of a Cortex-M, and code without call frame information. Backtraces of real programs are compared with GDB's in
//! `tests/targets/serve/backtraces.rs`.

use std::sync::Arc;

use super::*;
use crate::elf::Elf;
use crate::elf::tests::writer::{Writer, sect};
use crate::mem::segments::{Block, Segments};
use crate::sym::NoSymbols;
use crate::sym::dwarf::Dwarf;

const STACK: Region = Region { start: 0x2000_0000, len: 0x400 };
const MAIN: Addr = 0x2000_8000;
const HANDLER: u64 = 0x1000;
const CALL: u64 = 0x1104;

/// Code in 0x1000 to 0x1fff, with `bl` before [`CALL`]; a thread's stack and the main stack.
struct Board {
    code: CodeRanges,
    stack: Vec<u8>,
    main: Vec<u8>,
}

impl Board {
    fn new() -> Self {
        let mut w = Writer::new(false, false, 2, 40);
        w.sects = vec![sect(".text", 1, 6, 0x1000, vec![0; 0x1000])];
        let code = CodeRanges::of(&Elf::open(w.build()).unwrap(), 0);
        Self { code, stack: vec![0; 0x400], main: vec![0; 0x400] }
    }

    /// Puts words at an address.
    fn put(&mut self, at: Addr, words: &[u32]) {
        let (bytes, base) = if at < MAIN { (&mut self.stack, STACK.start) } else { (&mut self.main, MAIN) };
        let from = usize::try_from(at - base).unwrap();
        for (place, word) in bytes[from..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn backtrace(&self, registers: &[(&str, u64)]) -> (Vec<(u64, Origin)>, End) {
        let Backtrace { frames, end, .. } = self.unwind(registers, None, &[]);
        (frames.into_iter().map(|f| (f.pc, f.origin)).collect(), end)
    }

    fn unwind(&self, registers: &[(&str, u64)], cfi: Option<&Cfi<'_>>, entries: &[Region]) -> Backtrace {
        let mut code = vec![0; 0x1000];
        code[0x100..0x104].copy_from_slice(&[0x00, 0xF0, 0x00, 0xF8]);
        let blocks = [(0x1000, code), (STACK.start, self.stack.clone()), (MAIN, self.main.clone())];
        let mut memory = Segments::new(blocks.into_iter().map(|(at, b)| Block::whole(at, b.into())).collect());
        let mut known = Registers::new(Architecture::CortexM);
        for (name, value) in registers {
            assert!(known.set(name, *value), "{name}");
        }
        let unwinder = Unwinder {
            architecture: Architecture::CortexM,
            endian: Endian::Little,
            cfi,
            load_offset: 0,
            code: &self.code,
            entries,
            symbols: &NoSymbols,
        };
        unwinder.backtrace(&known, &[STACK], &mut memory)
    }
}

/// r0 to r3, r12, lr, pc, xpsr.
fn pushed(lr: u32, pc: u32, xpsr: u32) -> [u32; 8] {
    [0, 1, 2, 3, 12, lr, pc, xpsr]
}

fn in_handler(lr: u64, psp: u64) -> [(&'static str, u64); 4] {
    [("pc", HANDLER), ("sp", MAIN + 0x100), ("lr", lr), ("psp", psp)]
}

/// Every function in 0x1000 to 0x1fff has 16 bytes of stack, with the return address in the highest word. `undefined`: it has
/// none.
fn with_frames_of_16_bytes(undefined: bool) -> Dwarf {
    // Version 1, no augmentation, code by 2, data by -4, the return address in r14; the CFA is r13 + 16.
    let mut cie = vec![0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 2, 0x7C, 14, 0x0C, 13, 16];
    cie.extend(if undefined { [0x07, 14] } else { [0x80 | 14, 1] });
    cie.resize(20, 0);
    let fde: Vec<u8> = [0_u32, 0x1000, 0x1000].into_iter().flat_map(u32::to_le_bytes).collect();
    let sized = |entry: &[u8]| [&(entry.len() as u32).to_le_bytes(), entry].concat();
    let mut w = Writer::new(false, false, 2, 40);
    w.sects = vec![sect(".debug_frame", 1, 0, 0, [sized(&cie), sized(&fde)].concat())];
    Dwarf::new(Arc::new(Elf::open(w.build()).unwrap()))
}

/// Registers of a thread without an exception.
fn in_thread(sp: u64) -> [(&'static str, u64); 4] {
    [("pc", 0x1800), ("sp", sp), ("lr", 0), ("xpsr", 0x0100_0000)]
}

#[test]
fn a_stack_pointer_that_left_the_stack_was_followed() {
    let mut board = Board::new();
    let dwarf = with_frames_of_16_bytes(false);
    let cfi = dwarf.cfi();
    // The thread ran down into the main stack, where a return address is.
    board.put(MAIN + 0x10C, &[CALL as u32 | 1]);
    let outside = board.unwind(&in_thread(MAIN + 0x100), Some(&cfi), &[]);
    assert_eq!((outside.frames.len(), outside.end), (1, End::OutsideStack(MAIN + 0x100)));
    // In an exception that is the right stack.
    let handler = [("pc", 0x1800), ("sp", MAIN + 0x100), ("lr", 0), ("xpsr", 0x0100_0003)];
    assert_eq!(board.unwind(&handler, Some(&cfi), &[]).frames[1].pc, CALL);
    // What is read for it is memory: reading devices may change them.
    let device = [("pc", 0x1800), ("sp", 0x4000_1000), ("lr", 0), ("xpsr", 0x0100_0003)];
    assert_eq!(board.unwind(&device, Some(&cfi), &[]).end, End::OutsideStack(0x4000_1000));
    // The caller's frame would be outside.
    let last = board.unwind(&in_thread(STACK.start + STACK.len - 8), Some(&cfi), &[]);
    assert_eq!(last.end, End::OutsideStack(STACK.start + STACK.len + 8));
    let psp = in_handler(0xFFFF_FFFD, STACK.start - 32);
    assert_eq!(board.backtrace(&psp).1, End::OutsideStack(STACK.start - 32));
}

#[test]
fn a_return_address_that_was_overwritten_by_zero_was_shown_as_the_end() {
    let mut board = Board::new();
    let dwarf = with_frames_of_16_bytes(false);
    let cfi = dwarf.cfi();
    let sp = STACK.start + 0x100;
    board.put(sp + 12, &[CALL as u32 | 1, 0, 0, 0, 0]);
    let all = board.unwind(&in_thread(sp), Some(&cfi), &[]);
    assert_eq!((all.frames.len(), &all.end, all.is_complete()), (2, &End::NoCaller(0), false));
    // In a function that nothing calls it is right.
    let first = Region { start: CALL - 4, len: 8 };
    let all = board.unwind(&in_thread(sp), Some(&cfi), &[first]);
    assert_eq!((all.frames.len(), &all.end, all.is_complete()), (2, &End::Entry, true));
    // A call may be the last instruction of a function: the return address is that of the next.
    let behind = Region { start: CALL, len: 8 };
    assert_eq!(board.unwind(&in_thread(sp), Some(&cfi), &[behind]).end, End::NoCaller(0));
    let dwarf = with_frames_of_16_bytes(true);
    let all = board.unwind(&in_thread(sp), Some(&dwarf.cfi()), &[]);
    assert_eq!((all.frames.len(), &all.end, all.is_complete()), (1, &End::Outermost, true));
}

#[test]
fn a_return_address_that_could_not_be_read_was_taken_for_none() {
    let dwarf = with_frames_of_16_bytes(false);
    let cfi = dwarf.cfi();
    let board = Board { stack: vec![0; 0x104], ..Board::new() };
    let all = board.unwind(&in_thread(STACK.start + 0x100), Some(&cfi), &[]);
    assert_eq!(all.end, End::Cfi(CfiError::Unreadable(STACK.start + 0x10C)));
}

#[test]
fn a_backtrace_with_an_inferred_frame_is_not_complete() {
    let mut board = Board::new();
    let psp = STACK.start + 0x100;
    board.put(psp, &pushed(CALL as u32 | 1, 0xDEAD_BEE0, 0x0100_0000));
    let all = board.unwind(&in_handler(0xFFFF_FFFD, psp), None, &[Region { start: CALL - 4, len: 8 }]);
    assert_eq!((&all.end, all.is_complete()), (&End::Entry, false), "it was found by the link register");
}

#[test]
fn a_handler_leads_to_the_thread_that_it_interrupted() {
    let mut board = Board::new();
    let psp = STACK.start + 0x100;
    board.put(psp, &pushed(0x1235, 0x1800, 0x0100_0000));
    // A return address after the frame, and one in it, which is none of the thread's stack any more.
    board.put(psp + 32, &[CALL as u32 | 1, 0x1801]);
    board.put(psp - 8, &[CALL as u32 | 1]);
    let (frames, end) = board.backtrace(&in_handler(0xFFFF_FFFD, psp));
    let found = (CALL, Origin::Found);
    assert_eq!(frames, [(HANDLER, Origin::Registers), (0x1800, Origin::Exception), found]);
    assert_eq!(end, End::Cfi(CfiError::Missing(0x1800)));
    // Floating-point registers are above the others, and a word that aligns the stack above these.
    let mut board = Board::new();
    board.put(psp, &pushed(0x1235, 0x1800, 0x0100_0200));
    board.put(psp + 32, &[CALL as u32 | 1; 19]);
    board.put(psp + 32 + 72 + 4, &[CALL as u32 | 1]);
    assert_eq!(board.backtrace(&in_handler(0xFFFF_FFED, psp)).0[2..], [found]);
    assert_eq!(board.backtrace(&in_handler(0xFFFF_FFFD, psp)).0[2..], [found; 8], "at most eight");
}

#[test]
fn a_secure_exception_pushes_more() {
    let mut board = Board::new();
    let psp = STACK.start + 0x100;
    board.put(psp, &[0xFEFA_125B, 0, 4, 5, 6, 7, 8, 9, 10, 11]);
    board.put(psp + 40, &pushed(0x1235, 0x1800, 0x0100_0000));
    let (frames, _) = board.backtrace(&in_handler(0xFFFF_FFDD, psp));
    assert_eq!(frames[1], (0x1800, Origin::Exception));
    board.put(psp, &[0]);
    let (frames, end) = board.backtrace(&in_handler(0xFFFF_FFDD, psp));
    assert_eq!((frames.len(), end), (1, End::NoExceptionFrame(psp)), "its signature is missing");
}

#[test]
fn what_is_no_frame_of_an_exception_is_none() {
    let psp = STACK.start + 0x100;
    for (what, words) in [
        ("not in Thumb state", pushed(0x1235, 0x1800, 0)),
        ("an exception within one, and a return to a thread", pushed(0x1235, 0x1800, 0x0100_000B)),
        ("an odd pc", pushed(0x1235, 0x1801, 0x0100_0000)),
    ] {
        let mut board = Board::new();
        board.put(psp, &words);
        let (frames, end) = board.backtrace(&in_handler(0xFFFF_FFFD, psp));
        assert_eq!((frames.len(), end), (1, End::NoExceptionFrame(psp)), "{what}");
    }
    let board = Board::new();
    let outside = board.backtrace(&in_handler(0xFFFF_FFFD, 0x1000_0000)).1;
    assert_eq!(outside, End::OutsideStack(0x1000_0000));
    let board = Board { stack: vec![0; 0x110], ..board };
    assert_eq!(board.backtrace(&in_handler(0xFFFF_FFFD, psp)).1, End::Unreadable(psp + 16));
    let without = &in_handler(0xFFFF_FFFD, psp)[..3];
    assert_eq!(board.backtrace(without).1, End::StackPointer("psp"));
    // An exception within an exception: where on the main stack its frame begins is not known without unwind information.
    assert_eq!(board.backtrace(&in_handler(0xFFFF_FFF1, psp)).1, End::Cfi(CfiError::Missing(HANDLER)));
}

#[test]
fn a_call_of_a_wrong_address_leads_back_by_the_link_register() {
    let mut board = Board::new();
    let psp = STACK.start + 0x100;
    board.put(psp, &pushed(CALL as u32 | 1, 0xDEAD_BEE0, 0x0100_0000));
    let (frames, _) = board.backtrace(&in_handler(0xFFFF_FFFD, psp));
    assert_eq!(frames[1..], [(0xDEAD_BEE0, Origin::Exception), (CALL, Origin::Found)]);
}

#[test]
fn without_a_program_counter_there_is_no_backtrace() {
    assert_eq!(Board::new().backtrace(&[("sp", STACK.start)]), (Vec::new(), End::NoRegisters));
}

/// In front of a device's registers, bytes after the end of the stack were read up to a fixed number: reading may change them.
#[test]
fn registers_of_devices_were_read_behind_the_main_stack() {
    let len = |sp| main_stack_at(sp).map(|stack| stack.len);
    assert_eq!((len(0x3FFF_FFC0), len(0x4000_0000), len(0xE000_ED00)), (Some(0x40), None, None));
    assert_eq!(len(0x2000_7F00), Some(64 << 10));
}

/// A CIE with `augmentation`, whose data is `encodings`, and one function with `own` augmentation data; its frame has 16 bytes.
fn with_augmentation(augmentation: &[u8], encodings: &[u8], own: &[u8]) -> Dwarf {
    const AT: u64 = 0x4000;
    let sized = |entry: &[u8]| {
        let mut entry = entry.to_vec();
        entry.resize(entry.len().next_multiple_of(4), 0);
        [&(entry.len() as u32).to_le_bytes()[..], &entry].concat()
    };
    let rules = [0x0C, 13, 16, 0x80 | 14, 1];
    let cie = sized(&[&[0, 0, 0, 0, 1][..], augmentation, &[0, 2, 0x7C, 14], encodings, &rules].concat());
    // The distance back to the CIE, and where the function is.
    let fde = [&(cie.len() as u32 + 4).to_le_bytes()[..], &0x1000_u32.to_le_bytes(), &0x1000_u32.to_le_bytes(), own];
    let mut w = Writer::new(false, false, 2, 40);
    w.sects = vec![sect(".eh_frame", 1, 2, AT, [cie, sized(&fde.concat()), vec![0; 4]].concat())];
    Dwarf::new(Arc::new(Elf::open(w.build()).unwrap()))
}

#[test]
fn unwind_information_with_language_data_is_used_and_a_hostile_one_is_survived() {
    let mut board = Board::new();
    board.put(STACK.start + 0x10C, &[CALL as u32 | 1]);
    let unwind = |dwarf: &Dwarf| {
        let backtrace = board.unwind(&in_thread(STACK.start + 0x100), Some(&dwarf.cfi()), &[]);
        assert!(backtrace.frames.len() <= MAX_FRAMES && !backtrace.end.to_string().is_empty());
        backtrace.frames.iter().any(|frame| frame.pc == CALL && frame.origin == Origin::Cfi)
    };
    // Absolute addresses: of a personality routine, of language data, and of code.
    assert!(unwind(&with_augmentation(b"zR", &[1, 0], &[0])));
    assert!(unwind(&with_augmentation(b"zPLR", &[7, 0, 0xEF, 0xBE, 0xAD, 0xDE, 0, 0], &[4, 0xFF, 0xFF, 0xFF, 0xFF])));
    // Every encoding of language data, in entries that are too short for it; lengths beyond the entry; unknown letters.
    for encoding in 0..=255 {
        unwind(&with_augmentation(b"zLR", &[2, encoding, 0], &[1, 0xFF]));
        unwind(&with_augmentation(b"zR", &[1, encoding], &[0]));
        unwind(&with_augmentation(b"zPR", &[2, encoding, 0], &[0]));
        unwind(&with_augmentation(&[b'z', encoding], &[1, 0], &[encoding]));
    }
    for length in [&[0x7F][..], &[0xFF; 10], &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]] {
        unwind(&with_augmentation(b"zR", length, &[0]));
        unwind(&with_augmentation(b"zLR", &[2, 0, 0], length));
    }
    for letters in [&b"eh"[..], b"z", b"zzzz", b"zS", b"zB", b"R", b"armcc+", &[b'P'; 300]] {
        unwind(&with_augmentation(letters, &[0; 8], &[0; 8]));
    }
}

/// Each return address points to code that has frames, and each frame is empty or leads back.
#[test]
fn a_cyclic_stack_ends() {
    let mut board = Board::new();
    let dwarf = with_frames_of_16_bytes(false);
    let cfi = dwarf.cfi();
    let words: Vec<u32> =
        (0..STACK.len as u32 / 4).map(|n| if n % 4 == 3 { 0x1801 } else { STACK.start as u32 }).collect();
    board.put(STACK.start, &words);
    let backtrace = board.unwind(&in_thread(STACK.start), Some(&cfi), &[]);
    assert!(backtrace.frames.len() as u64 <= STACK.len / 16 + 1, "{}", backtrace.frames.len());
    assert!(matches!(backtrace.end, End::OutsideStack(_) | End::TooMany), "{:?}", backtrace.end);
}
