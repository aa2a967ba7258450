//! The frame of an exception whose handler has not changed r0 to r3 and r12, as one that is a loop by itself: what the
//! processor pushed of these registers is still in them. (The architecture leaves their values open as an exception is taken,
//! Armv7-M Architecture Reference Manual, B1.5.6: a frame that is not found so may be there nevertheless.)

use super::{BASIC, FoundBy, Interruption, Look};
use crate::abi::{Addr, Region};
use crate::cpu::{Architecture, Pushed, Registers};
use crate::mem::Memory;
use crate::unwind::Exit;

/// The most bytes of a stack that are looked at, from its end down.
const MAX_BYTES: u64 = 64 << 10;
/// Bytes of the floating-point registers in a frame.
const FLOATS: u64 = 72;
/// So many different values that are not 0.
const DISTINCT: usize = 3;

impl Look<'_> {
    /// The only frame on the stacks of the thread that has the CPU's own values.
    pub(super) fn kept(&self, exit: Option<&Exit>, memory: &mut dyn Memory) -> Option<Interruption> {
        let mut found = self.stacks.iter().flat_map(|stack| self.kept_on(*stack, memory));
        let (at, pushed) = found.next()?;
        if found.next().is_some() {
            return None;
        }
        drop(found);
        let kept = exit.map_or_else(|| Registers::new(Architecture::CortexM), |exit| exit.registers.clone());
        let size = if exit.is_some_and(Exit::has_floats) { BASIC.saturating_add(FLOATS) } else { BASIC };
        let registers = pushed.registers(&kept, at.checked_add(size));
        Some(self.place(at, FoundBy::Search, registers, memory))
    }

    fn kept_on(&self, stack: Region, memory: &mut dyn Memory) -> Vec<(Addr, Pushed)> {
        let end = stack.start.saturating_add(stack.len);
        let start = stack.start.max(end.saturating_sub(MAX_BYTES)).saturating_add(7) & !7;
        let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok()).unwrap_or_default();
        let Ok(bytes) = memory.read_bytes(start, len) else { return Vec::new() };
        let frames = (start..end).step_by(8).zip((0..bytes.len()).step_by(8)).filter_map(|(at, offset)| {
            let pushed = Pushed::of(bytes.get(offset..)?, self.unwinder.endian)?;
            self.is_kept(&pushed).then_some((at, pushed))
        });
        frames.collect()
    }

    /// True for words that are the CPU's registers, of a thread that was in the program's code, or had come from there, or where
    /// that they are the same is no chance: a range of zeros is the same as registers that are 0.
    fn is_kept(&self, pushed: &Pushed) -> bool {
        let in_code = |at: Addr| self.unwinder.code.holds(at) == Some(true);
        let came_from = pushed.lr & 1 == 1 && in_code(pushed.lr & !1);
        let is_of_thread = pushed.is_of_thread() || pushed.has_lost_thumb();
        let is_no_chance = || pushed.distinct() >= DISTINCT;
        is_of_thread && pushed.are_in(self.registers) && (in_code(pushed.pc) || came_from || is_no_chance())
    }
}
