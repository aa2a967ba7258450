//! A thread's stack: where it lies, how much of it is in use, and how much ever was.

use crate::abi::Addr;
use crate::mem::Memory;

/// The byte that the kernel fills a stack with before its thread runs.
pub const FILL: u8 = 0xEF;
/// The most bytes of a stack that are looked at.
pub const MOST: u64 = 16 << 20;
/// Bytes that are looked at first; each further step looks at twice as many.
pub const STEP: u64 = 256;

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
    /// Nothing tells: not filled, or not in this memory.
    #[default]
    Unknown,
    /// So many bytes, by the fill that is left.
    Bytes(u64),
    /// Its lowest bytes are no fill any more.
    Full,
}

impl High {
    /// Bytes, where they are known; a full stack has used all of them.
    #[must_use]
    pub const fn bytes(self, size: Option<u64>) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Bytes(n) => Some(n),
            Self::Full => size,
        }
    }
}

impl Stack {
    /// The address above it.
    #[must_use]
    pub fn end(&self) -> Option<Addr> {
        self.start?.checked_add(self.size?)
    }

    /// True where an address lies in it, or just above it: an empty stack.
    #[must_use]
    pub fn holds(&self, address: Addr) -> bool {
        self.start.zip(self.end()).is_some_and(|(start, end)| (start..=end).contains(&address))
    }

    /// Takes `pointer` for the stack pointer.
    pub fn set_pointer(&mut self, pointer: Option<Addr>) {
        self.pointer = pointer;
        self.used = pointer.filter(|p| self.holds(*p)).and_then(|p| self.end()?.checked_sub(p));
    }

    /// Looks for the lowest byte that is no fill.
    pub fn measure(&mut self, memory: &mut dyn Memory) {
        let Some((start, size)) = self.start.zip(self.size).filter(|(_, size)| *size > 0 && *size <= MOST) else {
            return;
        };
        let (mut at, mut step) = (0, STEP);
        while let Some(rest) = size.checked_sub(at).filter(|rest| *rest > 0) {
            let len = step.min(rest);
            let Some(bytes) = start
                .checked_add(at)
                .zip(usize::try_from(len).ok())
                .and_then(|(from, len)| memory.read_bytes(from, len).ok())
            else {
                return;
            };
            if let Some(n) = bytes.iter().position(|b| *b != FILL).and_then(|n| u64::try_from(n).ok()) {
                let free = at.saturating_add(n);
                // A word of fill at the lowest end: a byte or two may be chance.
                self.high = if free < 4 { High::Full } else { High::Bytes(size.saturating_sub(free)) };
                return;
            }
            at = at.saturating_add(len);
            step = step.saturating_mul(2);
        }
        self.high = High::Bytes(0);
    }
}
