//! A thread's stack: where it is, how much of it is in use, and how much ever was.

use crate::abi::Addr;
use crate::mem::{Memory, Region};

/// The byte that the kernel fills a stack with before its thread runs.
pub(super) const FILL: u8 = 0xEF;
/// The size of the largest stack that is measured.
pub(super) const MAX: u64 = 16 << 20;
/// Bytes that are read first; each further step reads twice as many.
pub(super) const STEP: u64 = 256;

/// What is known of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stack {
    /// Its lowest address.
    pub start: Option<Addr>,
    /// Bytes.
    pub size: Option<u64>,
    /// The stack pointer: saved, or of the registers of a thread that runs.
    pub pointer: Option<Addr>,
    /// Bytes in use now.
    pub used: Option<u64>,
    /// The most bytes that were ever in use.
    pub high: High,
}

/// The high-water mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum High {
    /// Not known: not filled, or not in this memory.
    #[default]
    Unknown,
    /// So many bytes, by the fill that is left.
    Bytes(u64),
    /// Its lowest bytes are no fill any more.
    Full,
}

impl High {
    /// Bytes, where they are known; a full stack has used all of them.
    pub const fn bytes(self, size: Option<u64>) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Bytes(n) => Some(n),
            Self::Full => size,
        }
    }
}

impl Stack {
    /// Where it is.
    pub fn region(&self) -> Option<Region> {
        Some(Region { start: self.start?, len: self.size? })
    }

    /// The address above it.
    pub fn end(&self) -> Option<Addr> {
        self.start?.checked_add(self.size?)
    }

    /// True where an address is in it, or just above it: an empty stack.
    pub fn holds(&self, address: Addr) -> bool {
        self.region().is_some_and(|stack| stack.contains(address)) || self.end() == Some(address)
    }

    /// Takes `pointer` for the stack pointer.
    pub(super) fn set_pointer(&mut self, pointer: Option<Addr>) {
        self.pointer = pointer;
        self.used = pointer.filter(|p| self.holds(*p)).and_then(|p| self.end()?.checked_sub(p));
    }

    /// Looks for the lowest byte that is no fill.
    pub(super) fn measure(&mut self, memory: &mut dyn Memory) {
        let Some(stack) = self.region().filter(|stack| (1..=MAX).contains(&stack.len)) else { return };
        let (mut filled, mut step) = (0, STEP);
        while let Some(rest) = stack.len.checked_sub(filled).filter(|rest| *rest > 0) {
            let len = step.min(rest);
            let at = stack.start.checked_add(filled).zip(usize::try_from(len).ok());
            let Some(bytes) = at.and_then(|(at, len)| memory.read_bytes(at, len).ok()) else { return };
            let part = bytes.iter().take_while(|b| **b == FILL).count() as u64;
            // Both are at most the size of the stack.
            filled = filled.saturating_add(part);
            if part < len {
                // A word of fill at the lowest end: a byte or two may be chance.
                self.high = if filled < 4 { High::Full } else { High::Bytes(stack.len.saturating_sub(filled)) };
                return;
            }
            step <<= 1;
        }
        self.high = High::Bytes(0);
    }
}
