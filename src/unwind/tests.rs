//! Exceptions of a Cortex-M, and code without call frame information. Backtraces of real programs are compared with GDB's in
//! `tests/targets/serve/backtraces.rs`.

use super::*;
use crate::elf::Elf;
use crate::elf::writer::{Writer, sect};
use crate::mem::segments::{Block, Segments};

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
            cfi: None,
            load_offset: 0,
            code: &self.code,
            entry: None,
        };
        let Backtrace { frames, end } = unwinder.backtrace(&known, &[STACK], &mut memory);
        (frames.into_iter().map(|f| (f.pc, f.origin)).collect(), end)
    }
}

/// r0 to r3, r12, lr, pc, xpsr.
fn pushed(lr: u32, pc: u32, xpsr: u32) -> [u32; 8] {
    [0, 1, 2, 3, 12, lr, pc, xpsr]
}

fn in_handler(lr: u64, psp: u64) -> [(&'static str, u64); 4] {
    [("pc", HANDLER), ("sp", MAIN + 0x100), ("lr", lr), ("psp", psp)]
}

#[test]
fn a_handler_leads_to_the_thread_that_it_interrupted() {
    let mut board = Board::new();
    let psp = STACK.start + 0x100;
    board.put(psp, &pushed(0x1235, 0x1800, 0x0100_0000));
    // A return address behind the frame, and one in it, which is none of the thread's stack any more.
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
    assert_eq!(board.backtrace(&in_handler(0xFFFF_FFFD, 0x1000_0000)).1, End::Unreadable(0x1000_0000));
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
