//! The frame of a function of a Cortex-M by its own code, where no call frame information describes it: how far the stack pointer is
//! below where the function got it, and where it saved registers.
//!
//! All paths from the start of the function are followed, instruction by instruction. Where two of them come to an instruction with
//! different frames, or the code does with the stack pointer what is not known here, nothing is said.

use std::collections::BTreeMap;

use super::super::polling::Walk;
use super::super::values::expanded;
use super::{bit, thumb};
use crate::abi::Addr;

/// The stack pointer, and the frame pointer of GCC.
const SP: u16 = 13;
const FP: u16 = 7;
/// The most bytes of a function whose instructions are followed.
const LONGEST: u64 = 1 << 14;
/// The largest frame.
const LARGEST: u32 = 1 << 20;

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeFrame {
    /// So many bytes the stack pointer is below where the function got it.
    pub height: u32,
    /// So many bytes below that place each register was saved; 0 where it was not. The caller's registers are those of this moment.
    saved: [u32; 16],
    /// So many bytes the frame pointer (r7) is below that place, where it was set.
    pub pointer: Option<u32>,
}

impl CodeFrame {
    const START: Self = Self { height: 0, saved: [0; 16], pointer: None };

    /// So many bytes below the place where the function got its stack pointer a register was saved; `None` where it was not.
    #[must_use]
    pub fn saved(&self, register: u16) -> Option<u32> {
        self.saved.get(usize::from(register)).copied().filter(|below| *below > 0)
    }

    /// The frame in front of the instruction at an address. `code`: that of the function from its start on, up to the instruction at
    /// least. `None` where no path that is known leads there, or the frame is not known.
    #[must_use]
    pub fn of(from: Addr, code: &[u8], at: Addr) -> Option<Self> {
        let len = u64::try_from(code.len()).ok()?.min(LONGEST);
        let walk = Walk { at: from, end: from.checked_add(len)?, from, code };
        let lines: BTreeMap<Addr, Line> = lines(walk).collect();
        let mut known: BTreeMap<Addr, Option<Self>> = BTreeMap::new();
        let mut todo = vec![(from, Some(Self::START))];
        while let Some((next, frame)) = todo.pop() {
            let both = match known.get(&next) {
                Some(before) => before.zip(frame).and_then(|(before, frame)| before.and(frame)),
                None => frame,
            };
            // What is not known stays so: an instruction is looked at three times at most.
            if known.insert(next, both) == Some(both) {
                continue;
            }
            let frame = both;
            let Some(line) = lines.get(&next) else { continue };
            let after = frame.and_then(|frame| frame.after(line));
            if let Some(to) = thumb::target(line.first, line.second, next) {
                todo.push((to, after));
            }
            if line.goes_on() {
                // What leaves the function on a condition has changed nothing where it does not.
                let stays = line.is_conditional && thumb::leaves(line.first, line.second);
                todo.push((next.checked_add(line.len())?, if stays { frame } else { after }));
            }
        }
        known.get(&at).copied().flatten()
    }

    /// What is true of both; `None` where their places on the stack differ.
    fn and(self, other: Self) -> Option<Self> {
        let pointer = self.pointer.filter(|_| self.pointer == other.pointer);
        ((self.height, self.saved) == (other.height, other.saved)).then_some(Self { pointer, ..self })
    }

    /// After an instruction; `None` where that is not known.
    fn after(mut self, line: &Line) -> Option<Self> {
        let (first, second) = (line.first, line.second);
        match step(first, second) {
            Step::Pushes(list, bytes) => self.push(list, bytes)?,
            Step::Pops(list, bytes) => {
                self.forget(list);
                self.height = self.height.checked_sub(bytes)?;
            }
            Step::SetsPointer(above) => self.pointer = Some(self.height.checked_sub(above)?),
            Step::MovesPointer(up) => self.pointer = self.pointer.and_then(|pointer| pointer.checked_sub(up)),
            Step::ByPointer => self.height = self.pointer?,
            Step::Other => {
                if thumb::does(first, second, line.at, FP).written() & bit(FP) != 0 {
                    self.pointer = None;
                }
                return (!writes_sp(first, second)).then_some(self);
            }
        }
        // Whether it was carried out is not known.
        (!line.is_conditional || thumb::leaves(first, second)).then_some(self)
    }

    /// Registers are stored one above the other, that of the lowest number at the new stack pointer, so many bytes further down.
    fn push(&mut self, list: u16, bytes: u32) -> Option<()> {
        self.height = self.height.checked_add(bytes).filter(|height| *height <= LARGEST)?;
        let registers = (0..16).filter(|register| u32::from(list) & bit(*register) != 0);
        for (register, above) in registers.zip((0..).step_by(4)) {
            let below = self.height.checked_sub(above)?;
            let place = self.saved.get_mut(usize::from(register))?;
            // r0 to r3 are pushed to have room, and what is saved once more is not the caller's.
            if register > 3 && *place == 0 {
                *place = below;
            }
        }
        Some(())
    }

    /// Registers hold the caller's values again.
    fn forget(&mut self, list: u16) {
        let registers = (0..).zip(&mut self.saved).filter(|(register, _)| u32::from(list) & bit(*register) != 0);
        registers.for_each(|(_, place)| *place = 0);
    }
}

/// An instruction of the function.
struct Line {
    at: Addr,
    first: u16,
    second: u16,
    /// In an IT block.
    is_conditional: bool,
}

impl Line {
    const fn len(&self) -> u64 {
        if self.first >> 11 >= 0b11101 { 4 } else { 2 }
    }

    /// True where the next instruction may be carried out after it.
    const fn goes_on(&self) -> bool {
        self.is_conditional || !(thumb::leaves(self.first, self.second) || thumb::is_table(self.first, self.second))
    }
}

fn lines(walk: Walk<'_>) -> impl Iterator<Item = (Addr, Line)> {
    let mut block = 0_u32;
    walk.map(move |(at, first, second)| {
        let is_conditional = block > 0;
        block = block.saturating_sub(1);
        if thumb::is_it(first) {
            block = thumb::length_of_block(first);
        }
        (at, Line { at, first, second, is_conditional })
    })
}

/// What an instruction does with the stack pointer.
enum Step {
    /// It moves the stack pointer down by so many bytes, and stores these registers there.
    Pushes(u16, u32),
    /// It reads these registers, and moves the stack pointer up by so many bytes.
    Pops(u16, u32),
    /// It sets the frame pointer so many bytes above the stack pointer.
    SetsPointer(u32),
    /// It moves the frame pointer up by so many bytes.
    MovesPointer(u32),
    /// It sets the stack pointer to the frame pointer.
    ByPointer,
    /// Something else.
    Other,
}

/// By the encodings of the Armv7-M Architecture Reference Manual, A5.2, A5.3 and A7.7.
fn step(first: u16, second: u16) -> Step {
    let (seven, eight) = (u32::from(first & 0x7F) << 2, u32::from(second & 0xFF));
    let to = second >> 8 & 0xF;
    let plain = || u32::from(first >> 10 & 1) << 11 | u32::from(second >> 12 & 7) << 8 | eight;
    let all = |list: u16| (list, list.count_ones().saturating_mul(4));
    let pushes = |(list, bytes)| Step::Pushes(list, bytes);
    let pops = |(list, bytes)| Step::Pops(list, bytes);
    let (one, two) = (1 << (second >> 12), 1 << (second >> 12) | 1 << to);
    match first {
        0xB400..=0xB5FF => pushes(all(first & 0xFF | (first & 0x100) << 6)),
        0xBC00..=0xBDFF => pops(all(first & 0xFF | (first & 0x100) << 7)),
        0xE92D => pushes(all(second)),
        0xE8BD => pops(all(second)),
        // STR and LDR of one register.
        0xF84D if second & 0xF00 == 0xD00 => pushes((one, eight)),
        0xF85D if second & 0xF00 == 0xB00 => pops((one, eight)),
        // STRD and LDRD of two, the lower number first.
        0xE96D if second >> 12 < to => pushes((two, eight << 2)),
        0xE8FD => pops((two, eight << 2)),
        // VPUSH and VPOP.
        0xED2D | 0xED6D if second & 0xE00 == 0xA00 => pushes((0, eight << 2)),
        0xECBD | 0xECFD if second & 0xE00 == 0xA00 => pops((0, eight << 2)),
        // ADD and SUB of a constant.
        0xB000..=0xB07F => pops((0, seven)),
        0xB080..=0xB0FF => pushes((0, seven)),
        0xF1AD | 0xF5AD if to == SP => pushes((0, expanded(first, second))),
        0xF10D | 0xF50D if to == SP => pops((0, expanded(first, second))),
        0xF2AD | 0xF6AD if to == SP => pushes((0, plain())),
        0xF20D | 0xF60D if to == SP => pops((0, plain())),
        // The frame pointer.
        0xAF00..=0xAFFF => Step::SetsPointer(u32::from(first & 0xFF) << 2),
        0x466F => Step::SetsPointer(0),
        0xF10D | 0xF50D if to == FP => Step::SetsPointer(expanded(first, second)),
        0xF20D | 0xF60D if to == FP => Step::SetsPointer(plain()),
        0x3700..=0x37FF => Step::MovesPointer(u32::from(first & 0xFF)),
        0xF107 | 0xF507 if to == FP => Step::MovesPointer(expanded(first, second)),
        0xF207 | 0xF607 if to == FP => Step::MovesPointer(plain()),
        0x46BD => Step::ByPointer,
        _ => Step::Other,
    }
}

/// True for what else writes the stack pointer: as its result, or as an address that is moved.
const fn writes_sp(first: u16, second: u16) -> bool {
    let is_moved = first & 0xF == SP && first & 0x20 != 0;
    match first {
        _ if first & 0xFF87 == 0x4685 || first & 0xFF87 == 0x4485 => true,
        _ if first >> 11 < 0b11101 => false,
        // Results of arithmetic with registers and with constants.
        _ if first & 0xFE00 == 0xEA00 || first & 0xFF00 == 0xFA00 => second >> 8 & 0xF == SP,
        _ if first & 0xF800 == 0xF000 => second & 0x8000 == 0 && second >> 8 & 0xF == SP,
        // Loads and stores of one register, of two, and of several.
        _ if first & 0xFE00 == 0xF800 => {
            let is_loaded = first & 0x10 != 0 && second >> 12 == SP;
            is_loaded || first & 0xF == SP && first & 0x80 == 0 && second & 0x900 == 0x900
        }
        _ => (first & 0xFE00 == 0xE800 || first & 0xFE00 == 0xEC00) && is_moved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(code: &[u16], into: u64) -> Option<CodeFrame> {
        let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
        CodeFrame::of(0x1000, &bytes, 0x1000_u64.checked_add(into)?)
    }

    fn link(code: &[u16], into: u64) -> Option<(u32, Option<u32>)> {
        frame(code, into).map(|frame| (frame.height, frame.saved(14)))
    }

    #[test]
    fn a_frame_without_call_frame_information() {
        // push {r4, r7, lr}; sub sp, #12; add r7, sp, #0; bl; adds r7, #12; mov sp, r7; pop {r4, r7, pc}
        let code = [0xB590, 0xB083, 0xAF00, 0xF000, 0xF800, 0x370C, 0x46BD, 0xBD90];
        assert_eq!(link(&code, 0), Some((0, None)));
        assert_eq!(link(&code, 2), Some((12, Some(4))));
        assert_eq!(link(&code, 10), Some((24, Some(4))), "after the call");
        assert_eq!(frame(&code, 10).and_then(|frame| frame.saved(4)), Some(12));
        assert_eq!(frame(&code, 10).and_then(|frame| frame.saved(5)), None);
        assert_eq!(link(&code, 14), Some((12, Some(4))), "the stack pointer by the frame pointer");
        assert_eq!(link(&code, 16), None, "behind the return");
        // stmdb sp!, {r4-r8, lr}; vpush {d8}; sub.w sp, sp, #512; bl
        let code = [0xE92D, 0x41F0, 0xED2D, 0x8B02, 0xF5AD, 0x7D00, 0xF000, 0xF800, 0xBF00];
        assert_eq!(link(&code, 16), Some((24 + 8 + 512, Some(4))));
        // str.w lr, [sp, #-4]!; sub sp, #4; bl; add sp, #4; ldr.w pc, [sp], #4
        let code = [0xF84D, 0xED04, 0xB081, 0xF000, 0xF800, 0xB001, 0xF85D, 0xFB04];
        assert_eq!(link(&code, 10), Some((8, Some(4))));
        assert_eq!(link(&code, 12), Some((4, Some(4))));
        // str.w lr, [sp, #-8]!; bl; ldr.w lr, [sp], #8; bx lr: with room for alignment.
        let code = [0xF84D, 0xED08, 0xF000, 0xF800, 0xF85D, 0xEB08, 0x4770];
        assert_eq!((link(&code, 8), link(&code, 12)), (Some((8, Some(8))), Some((0, None))));
        // strd r4, lr, [sp, #-16]!; bl; ldrd r4, lr, [sp], #16
        let code = [0xE96D, 0x4E04, 0xF000, 0xF800, 0xE8FD, 0x4E04, 0x4770];
        assert_eq!((link(&code, 8), link(&code, 12)), (Some((16, Some(12))), Some((0, None))));
        // strd lr, r4, [sp, #-8]!: what is where is not looked at.
        assert_eq!(link(&[0xE96D, 0xE402, 0xBF00], 4), None);
    }

    /// GCC pushes only on the path that needs it.
    #[test]
    fn paths_with_different_frames() {
        // cbz r0, +6 (to bx lr); push {r3, lr}; bl; pop {r3, pc}; bx lr
        let code = [0xB118, 0xB508, 0xF000, 0xF800, 0xBD08, 0x4770];
        assert_eq!(link(&code, 8), Some((8, Some(4))));
        assert_eq!(link(&code, 10), Some((0, None)), "the path without a frame");
        // cbz r0, +2 (to the nop); push {r4, lr}; nop
        let code = [0xB108, 0xB510, 0xBF00, 0xBF00];
        assert_eq!(link(&code, 6), None, "one path has pushed, the other has not");
        // it eq; popeq {r4, pc}: the one that stays has its frame.
        let code = [0xB510, 0xBF08, 0xBD10, 0xF000, 0xF800, 0xBD10];
        assert_eq!(link(&code, 10), Some((8, Some(4))));
        // sub.w sp, sp, r3: a variable array.
        assert_eq!(link(&[0xB510, 0xEBAD, 0x0D03, 0xBF00], 6), None);
        // mrs r2, ipsr; rbit r3, r2; msr primask, r9; cmp.w r3, #0xf0f0f0f0: none of them moves it.
        let code = [0xB510, 0xF3EF, 0x8205, 0xFA92, 0xF3A2, 0xF389, 0x8810, 0xF1B3, 0x3FF0, 0xBF00];
        assert_eq!(link(&code, 18), Some((8, Some(4))));
        // mov sp, r3; ldr.w sp, [r0]; ldmdb sp!, {r0, r1}.
        for code in [[0xB510, 0x469D, 0xBF00], [0xB510, 0xF8D0, 0xD000], [0xB510, 0xE93D, 0x0003]] {
            assert_eq!(link(&[code[0], code[1], code[2], 0xBF00], if code[1] == 0x469D { 4 } else { 6 }), None);
        }
        // r7 is a register as any other: push {r4, lr}; adds r7, #1; movs r7, #0
        assert_eq!(link(&[0xB510, 0x3701, 0x2700, 0xBF00], 6), Some((8, Some(4))));
        // A branch to itself, and to what is not code.
        assert_eq!(link(&[0xB510, 0xE7FE], 2), Some((8, Some(4))));
        assert_eq!(link(&[0xB510, 0xE000], 4), None);
        assert_eq!(link(&[], 0), Some((0, None)));
    }
}
