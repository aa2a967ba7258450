//! The caller of a function of a Cortex-M that has no call frame information, by its code: of programs without debug information,
//! and of libraries that were built without it.

use std::collections::BTreeMap;

use super::{End, Walk};
use crate::abi::Addr;
use crate::cpu::{Architecture, CodeFrame};
use crate::sym::dwarf::{Caller, CallerValue, CfiError};

/// The number of the link register, for debug information as for instructions.
const LINK: u16 = 14;
/// The registers that a function must leave as they were.
const KEPT: std::ops::RangeInclusive<u16> = 4..=11;
/// The most bytes of a function that are read.
const LONGEST: u64 = 1 << 14;

impl Walk<'_, '_> {
    /// The caller of the function at an address, for which there is no call frame information (`end`).
    pub(super) fn caller_by_code(&mut self, address: Addr, end: &End) -> Option<Caller> {
        let is_missing = matches!(end, End::Cfi(CfiError::Missing(_)));
        if self.unwinder.architecture != Architecture::CortexM || !is_missing || self.lost_thumb {
            return None;
        }
        let function = self.unwinder.symbols.function(address)?;
        let from = function.address & !1;
        // A path may lead through code behind the place; assembler code often has a symbol without a size.
        let len = self.pc.checked_sub(from)?.max(function.size).min(LONGEST);
        let code = self.memory.read_bytes(from, usize::try_from(len).ok()?).ok()?;
        let frame = CodeFrame::of(from, &code, self.pc)?;
        let cfa = self.stack_pointer()?.checked_add(frame.height.into())?;
        let mut registers = BTreeMap::new();
        for register in KEPT.chain([LINK]) {
            let Some(below) = frame.saved(register) else { continue };
            let at = cfa.checked_sub(below.into())?;
            registers.insert(register, self.word(at).map_or(CallerValue::Unreadable(at), CallerValue::Known));
        }
        Some(Caller { cfa, registers, return_register: LINK, is_signal: false })
    }

    /// A word of a stack.
    fn word(&mut self, at: Addr) -> Option<u64> {
        self.main.iter().chain(self.stacks).any(|stack| stack.contains(at)).then_some(())?;
        let width = self.unwinder.architecture.width();
        let bytes = self.memory.read_bytes(at, width.bytes()).ok()?;
        self.unwinder.endian.word(width, &bytes, 0)
    }
}
