//! What a switched-out thread left on its stack: found through the saved stack pointer in its control block.

use super::table::words;
use super::{Architecture, CodeRanges, Registers, aarch64, arm, cortex_m, riscv};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::elf::Elf;
use crate::mem::{Memory, ReadError};

/// The registers that a thread goes on with when it is next switched to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Registers; those that the frame does not hold are unknown.
    pub registers: Registers,
    /// How it was switched out.
    pub kind: SavedKind,
    /// What had to be assumed, or is doubtful, in words.
    pub remark: Option<String>,
}

/// How a thread was switched out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SavedKind {
    /// By the exception that switches threads, whatever the reason: Cortex-M's only way.
    Switched,
    /// An interrupt took the processor away.
    Interrupted,
    /// It gave the processor up in a call of the kernel.
    Solicited,
    /// It was never switched to: the frame is the one that was built for its start.
    NeverRan,
}

impl SavedKind {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switched => "switched out",
            Self::Interrupted => "switched out by an interrupt",
            Self::Solicited => "switched out in a kernel call",
            Self::NeverRan => "never ran",
        }
    }
}

/// Why there is no saved frame.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SavedError {
    /// Its memory is not there.
    #[error("the frame at {at:#x} cannot be read: {why}")]
    Unreadable {
        /// The saved stack pointer.
        at: Addr,
        /// What the memory said.
        why: ReadError,
    },
    /// What is there is no frame.
    #[error("no saved frame at {at:#x}: {why}")]
    NotAFrame {
        /// The saved stack pointer.
        at: Addr,
        /// What is wrong with it.
        why: String,
    },
    /// No port of ThreadX saves frames there, or it is not known how.
    #[error("where ThreadX saves a thread's registers on {0} is not known")]
    NoLayout(&'static str),
}

/// How a program's frames are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    /// The processor.
    pub architecture: Architecture,
    /// Its byte order.
    pub endian: Endian,
    /// Whether a frame holds floating-point registers, where the frame itself does not say; `None` is not known.
    pub floats: Option<bool>,
    /// A Cortex-M of the small instruction set (ARMv6-M, ARMv8-M baseline), which saves the high registers first.
    pub baseline: bool,
}

impl Frames {
    /// With nothing known but the processor.
    pub const fn new(architecture: Architecture, endian: Endian) -> Self {
        Self { architecture, endian, floats: None, baseline: false }
    }

    /// As the program says that it was built; `None` for processors that are not known here.
    pub fn of(elf: &Elf) -> Option<Self> {
        let architecture = Architecture::of(elf)?;
        let floats = match architecture {
            Architecture::Riscv32 | Architecture::Riscv64 => Some(riscv::float_bits(elf.flags()) > 0),
            _ => None,
        };
        let baseline = architecture == Architecture::CortexM && elf.is_arm_baseline();
        Some(Self { architecture, endian: elf.endian(), floats, baseline })
    }

    /// The registers that a thread left at its saved stack pointer. `code` is where the program's code is.
    ///
    /// # Errors
    /// Where the memory is not there, or what is there does not look like a frame.
    pub fn read(&self, memory: &mut dyn Memory, stack_pointer: Addr, code: &CodeRanges) -> Result<Saved, SavedError> {
        let bytes = Vec::new().into();
        let mut stack = Stack { memory, endian: self.endian, at: stack_pointer, offset: 0, bytes, code };
        let mut saved = self.saved(&mut stack)?;
        if let Some(pc) = saved.registers.pc().filter(|pc| code.holds(*pc) == Some(false)) {
            let doubt = format!("its pc {pc:#x} is not in the code of the program");
            saved.remark = Some(saved.remark.map_or_else(|| doubt.clone(), |remark| format!("{remark}; {doubt}")));
        }
        Ok(saved)
    }

    /// The registers of a thread that a trap of a RISC-V interrupted, as the kernel's code at the start of its handler stored them;
    /// `None` of other processors, and where the memory is not there.
    pub fn trapped(&self, memory: &mut dyn Memory, stack_pointer: Addr, code: &CodeRanges) -> Option<Registers> {
        if !matches!(self.architecture, Architecture::Riscv32 | Architecture::Riscv64) {
            return None;
        }
        let bytes = Vec::new().into();
        let mut stack = Stack { memory, endian: self.endian, at: stack_pointer, offset: 0, bytes, code };
        riscv::trapped(&mut stack, self.architecture, self.floats?).ok()
    }

    fn saved(&self, stack: &mut Stack<'_>) -> Result<Saved, SavedError> {
        match self.architecture {
            Architecture::CortexM => cortex_m::saved(stack, self.baseline),
            Architecture::Arm => arm::saved(stack, self.floats),
            Architecture::Aarch64 => aarch64::saved(stack, self.floats),
            Architecture::Riscv32 | Architecture::Riscv64 => riscv::saved(stack, self.architecture, self.floats),
            Architecture::X86 | Architecture::X86_64 => Err(SavedError::NoLayout(self.architecture.name())),
        }
    }
}

/// A stack from a saved pointer upwards, read word by word.
pub(super) struct Stack<'m> {
    memory: &'m mut dyn Memory,
    endian: Endian,
    at: Addr,
    /// Of the next word.
    offset: usize,
    bytes: Bytes,
    code: &'m CodeRanges,
}

impl Stack<'_> {
    /// The first `len` bytes are to be there.
    pub(super) fn need(&mut self, len: usize) -> Result<(), SavedError> {
        if self.bytes.len() < len {
            let unreadable = |why| SavedError::Unreadable { at: self.at, why };
            self.bytes = self.memory.read_bytes(self.at, len).map_err(unreadable)?;
        }
        Ok(())
    }

    /// The word so many bytes after the next.
    #[allow(clippy::arithmetic_side_effects, reason = "offsets in a frame, by the tables of each architecture")]
    pub(super) fn peek(&mut self, width: Width, behind: usize) -> Result<u64, SavedError> {
        let offset = self.offset + behind;
        self.need(offset + width.bytes())?;
        self.endian.word(width, &self.bytes, offset).ok_or_else(|| self.no_frame("it is cut short".to_owned()))
    }

    /// The next word.
    pub(super) fn next(&mut self, width: Width) -> Result<u64, SavedError> {
        let word = self.peek(width, 0)?;
        self.skip(width.bytes());
        Ok(word)
    }

    /// Leaves out so many bytes.
    #[allow(clippy::arithmetic_side_effects, reason = "offsets in a frame, by the tables of each architecture")]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.offset += bytes;
    }

    /// The next words, into the registers of these names.
    pub(super) fn take(&mut self, width: Width, names: &'static str, to: &mut Registers) -> Result<(), SavedError> {
        for name in words(names) {
            let word = self.next(width)?;
            if let Some(name) = name {
                to.put(name, word);
            }
        }
        Ok(())
    }

    /// The address of the next word.
    pub(super) fn pointer(&self) -> Addr {
        self.above(self.offset)
    }

    /// The address so far above the saved stack pointer.
    pub(super) fn above(&self, offset: usize) -> Addr {
        self.at.wrapping_add(offset as u64)
    }

    /// An error that says what is wrong here.
    pub(super) fn no_frame(&self, why: String) -> SavedError {
        SavedError::NotAFrame { at: self.at, why }
    }

    /// How many bytes of floating-point registers are next: `size` where the frame has them. Where nothing says so, the
    /// return address does, which is `after` bytes after them: the one of the two that is code, where it is known
    /// where code is. The remark is what had to be assumed.
    ///
    /// # Errors
    /// Where nothing says so, and the return address leaves it open.
    #[allow(clippy::arithmetic_side_effects, reason = "sizes of frames, by the tables of each architecture")]
    pub(super) fn float_bytes(
        &mut self,
        floats: Option<bool>,
        size: usize,
        width: Width,
        behind: usize,
    ) -> Result<(usize, Option<String>), SavedError> {
        if let Some(floats) = floats {
            return Ok((if floats { size } else { 0 }, None));
        }
        let plain = self.peek(width, behind)?;
        let with = self.peek(width, size + behind).unwrap_or_default();
        let taken = |what: &str| Some(format!("assumed to hold {what} registers: then its return address is code"));
        let why = match (self.code.holds(plain), self.code.holds(with)) {
            (Some(true), Some(false)) => return Ok((0, taken("no floating-point"))),
            (Some(false), Some(true)) => return Ok((size, taken("floating-point"))),
            (None, _) => "nor where code is",
            (Some(true), _) => "and its return address would be in code either way",
            (Some(false), _) => "and its return address would not be in code either way",
        };
        Err(self
            .no_frame(format!("whether it holds floating-point registers is not known, {why} ({plain:#x}, {with:#x})")))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "tests say what they expect by failing")]
mod tests;
