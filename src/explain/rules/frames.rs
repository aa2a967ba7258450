//! How far down the frame of a function reaches, by the instructions with which it begins. A return address in the lowest words
//! of a stack was pushed by the function that was called there: where its frame goes on below the stack, the stack overflowed,
//! also where the words in between still hold fill.

use super::super::{Case, Evidence};
use super::{jump, through, words};
use crate::abi::{Addr, Region};
use crate::cpu::Architecture;
use crate::kernel::{High, Thread};

/// Bytes at the bottom of a stack that hold the words of an overflow.
const BOTTOM: u64 = 512;
/// So far below a stack a frame is believed to reach.
const FARTHEST: u64 = 4096;
/// The instructions with which a function makes its frame are among so many.
const FIRST: usize = 24;
/// `xpsr`: Thumb state, and bits that are always 0 (Armv7-M Architecture Reference Manual, B1.4.2).
const THUMB: u64 = 1 << 24;
const ZERO: u64 = 0xF << 20;

/// That a frame of the thread reaches below the start of its stack.
pub(super) fn below(thread: &Thread, start: Addr, size: u64, case: &Case<'_>) -> Option<Evidence> {
    let kernel = case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    // Where the kernel does not fill stacks, what is there may be older than the thread.
    if !kernel.threads.iter().any(|thread| matches!(thread.stack.high, High::Bytes(_))) {
        return None;
    }
    of_stack(Region { start, len: size }, &format!("of {} ", thread.label()), case)
}

/// That a frame of what was called on a stack reaches below its start. `of`: `of pump `.
pub(super) fn of_stack(stack: Region, of: &str, case: &Case<'_>) -> Option<Evidence> {
    case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    let words = case.words(&case.look.bytes(stack.start, BOTTOM.min(stack.len))?, true);
    words.iter().enumerate().find_map(|(index, word)| {
        // A pointer to a function may be behind the call with which another one ends.
        let begins = case.look.function(word & !1).is_some_and(|function| function.address & !1 == word & !1);
        let called =
            jump::called_in_front_of(*word, case).filter(|_| word & 1 == 1 && !begins && !is_pushed(&words, index))?;
        let at = stack.start.checked_add(u64::try_from(index.checked_mul(4)?).ok()?)?;
        let (first, code) = through::code(called, case)?;
        let lowest = at.checked_add(4)?.checked_sub(frame(first, &code)?)?;
        let under = stack.start.checked_sub(lowest).filter(|under| (1..=FARTHEST).contains(under))?;
        let function = words::function_at(called, case);
        let text = format!("{function} {of}was called here: its frame reaches {under} bytes below the stack");
        Some(Evidence::stack(at, text).holds(*word))
    })
}

/// Bytes of the frame that a function of a Cortex-M makes, by its first instructions.
pub(super) fn of_function(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    let (first, code) = through::code(at, case)?;
    frame(first, &code)
}

/// The same of any function: also of one that calls nothing, and saves no return address.
pub(super) fn of_any(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    let (first, code) = through::code(at, case)?;
    frame(first, &code).or_else(|| frame_from(first, &code, Some(0)))
}

/// Bytes of the registers that a function of a Cortex-M saves for its caller, with its return address: by the first instruction that pushes
/// lr. What it pushes of r0 to r3 is room for local variables.
pub(super) fn saved(at: Addr, case: &Case<'_>) -> Option<u64> {
    case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    let (first, code) = through::code(at, case)?;
    let kept = |list: u16| u64::from((list & !0xF).count_ones()).saturating_mul(4);
    through::instructions(first, &code, Architecture::CortexM).take(FIRST).find_map(|(_, first, second)| match first {
        _ if first & 0xFF00 == 0xB500 => Some(kept(first & 0x1FF)),
        0xE92D if second & 0x4000 != 0 => Some(kept(second)),
        _ => None,
    })
}

/// True where a word is the lr that an exception pushed: pc and xpsr are behind it.
pub(super) fn is_pushed(words: &[u64], index: usize) -> bool {
    let behind = |n: usize| words.get(index.saturating_add(n)).copied().unwrap_or_default();
    behind(1) & 1 == 0 && behind(2) & (THUMB | ZERO) == THUMB
}

/// Bytes from behind the return address that a function pushes down to the end of its frame; `None` where it pushes none.
fn frame(start: Addr, code: &[u8]) -> Option<u64> {
    frame_from(start, code, None)
}

/// The same; with bytes at the start all that it pushes counts.
fn frame_from(start: Addr, code: &[u8], mut bytes: Option<u64>) -> Option<u64> {
    let mut is_second = false;
    for (_, first, second) in through::instructions(start, code, Architecture::CortexM).take(FIRST) {
        // Of an instruction of two halves the second one is none.
        if std::mem::take(&mut is_second) {
            continue;
        }
        is_second = first >> 11 >= 0b11101;
        let more = pushes(first, second, bytes.is_some());
        let more = more.or_else(|| bytes.and_then(|_| lowers(first, second)));
        bytes = more.map(|more| bytes.unwrap_or(0).saturating_add(more)).or(bytes);
        let returns = first == 0x4770 || first & 0xFF00 == 0xBD00;
        let leaves = returns
            || first & 0xF000 == 0xD000
            || first & 0xF800 == 0xE000
            || first & 0xF800 == 0xF000 && second >> 15 == 1;
        if bytes.is_some() && leaves {
            break;
        }
    }
    bytes
}

/// Bytes that an instruction pushes: the first that counts is that which pushes lr (Armv7-M Architecture Reference Manual,
/// A7.7.99 and A7.7.248).
fn pushes(first: u16, second: u16, is_begun: bool) -> Option<u64> {
    let words = |list: u16| u64::from(list.count_ones()).saturating_mul(4);
    match first {
        _ if first & 0xFE00 == 0xB400 && (is_begun || first & 0x100 != 0) => Some(words(first & 0x1FF)),
        0xE92D if is_begun || second & 0x4000 != 0 => Some(words(second)),
        // STR lr, [sp, #-4]!
        0xF84D if second == 0xED04 => Some(4),
        0xED2D if is_begun && second & 0xE00 == 0xA00 => Some(u64::from(second & 0xFF).saturating_mul(4)),
        _ => None,
    }
}

/// Bytes of local variables, for which SUB lowers sp (A7.7.176).
fn lowers(first: u16, second: u16) -> Option<u64> {
    match first {
        _ if first & 0xFF80 == 0xB080 => Some(u64::from(first & 0x7F) << 2),
        // SUBW: 12 bits as they are.
        0xF2AD | 0xF6AD if second & 0x8F00 == 0x0D00 => {
            Some(u64::from(first >> 10 & 1) << 11 | u64::from(second >> 12 & 7) << 8 | u64::from(second & 0xFF))
        }
        // SUB.W: 8 bits that are moved (A5.3.2).
        0xF1AD | 0xF5AD if second & 0x8F00 == 0x0D00 => {
            let code = (first >> 10 & 1) << 4 | (second >> 12 & 7) << 1 | second >> 7 & 1;
            let value = u32::from(second & 0x7F | 0x80);
            if code < 8 { None } else { Some(u64::from(value.rotate_right(code.into()))) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(halves: &[u16]) -> Option<u64> {
        let code: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        frame(0x180, &code)
    }

    /// A stack whose lowest words are a hole in a frame that goes on below it was only called nearly full.
    #[test]
    fn a_frame_that_reaches_below_its_stack_was_a_stack_that_is_nearly_full() {
        // push {r4-r7, lr}; mov r7, r0; sub sp, #52
        assert_eq!(of(&[0xB5F0, 0x4607, 0xB08D]), Some(20 + 52));
        // stmdb sp!, {r4-r8, lr}; sub sp, #24
        assert_eq!(of(&[0xE92D, 0x41F0, 0xB086]), Some(24 + 24));
        // push {r4, lr}; sub.w sp, sp, #512; bl: what is behind it is another's
        assert_eq!(of(&[0xB510, 0xF5AD, 0x7D00, 0xF000, 0xF802, 0xB082]), Some(8 + 512));
        // push {r4, lr}; subw sp, sp, #1028
        assert_eq!(of(&[0xB510, 0xF2AD, 0x4D04]), Some(8 + 1028));
        // push {r0-r3}: variable arguments; push {lr}; sub sp, #12
        assert_eq!(of(&[0xB40F, 0xB500, 0xB083]), Some(4 + 12));
        // cbz r0; push {r4, lr}; vpush {d8}
        assert_eq!(of(&[0xB108, 0xB510, 0xED2D, 0x8B02]), Some(8 + 8));
        assert_eq!(of(&[0x6802, 0x4710]), None, "it pushes no return address");
    }

    #[test]
    fn what_an_exception_pushed_is_no_frame_of_a_function() {
        assert!(is_pushed(&[5, 0x19F, 0x1A2, 0x6100_0000], 1));
        assert!(!is_pushed(&[5, 0x19F, 0, 0x48], 1));
        assert!(!is_pushed(&[5, 0x19F], 1), "the last word");
    }
}
