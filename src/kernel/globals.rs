//! The kernel's own variables.

use super::layout::Shape;
use crate::abi::{Addr, Width};
use crate::mem::Memory;
use crate::sym::{Symbol, Symbols};

/// The most cores whose running threads are read.
const CORES: u64 = 64;

/// The addresses of an array that has a word for each core.
pub(super) fn each_core(symbol: &Symbol, width: Width) -> impl Iterator<Item = Addr> + use<> {
    let (start, step) = (symbol.address, width.size());
    let cores = symbol.size.checked_div(step).unwrap_or(1).clamp(1, CORES);
    (0..cores).map_while(move |core| start.checked_add(core.checked_mul(step)?))
}

/// Reads variables by name.
pub struct Globals<'a> {
    symbols: &'a dyn Symbols,
}

impl<'a> Globals<'a> {
    /// Over the names of a program.
    pub const fn new(symbols: &'a dyn Symbols) -> Self {
        Self { symbols }
    }

    /// A variable of this width; `None` where it has no name or cannot be read.
    pub fn word(&self, memory: &mut dyn Memory, shape: Shape, name: &str, width: Width) -> Option<u64> {
        let symbol = self.symbols.lookup(name)?;
        let bytes = memory.read_bytes(symbol.address, width.bytes()).ok()?;
        shape.endian.word(width, &bytes, 0)
    }

    /// Head and length of a created list: the variables `STEM_ptr` and `STEM_count`.
    ///
    /// # Errors
    /// A sentence where the head has no name or cannot be read.
    pub(super) fn list(
        &self,
        memory: &mut dyn Memory,
        shape: Shape,
        stem: &str,
    ) -> Result<(Addr, Option<u64>), String> {
        let name = format!("{stem}_ptr");
        let symbol = self.symbols.lookup(&name).ok_or_else(|| format!("no symbol {name}"))?;
        let width = shape.pointer;
        let bytes = memory.read_bytes(symbol.address, width.bytes()).map_err(|e| format!("{name}: {e}"))?;
        let head = shape.endian.word(width, &bytes, 0).ok_or_else(|| format!("{name} cannot be read"))?;
        Ok((head, self.word(memory, shape, &format!("{stem}_count"), shape.word)))
    }

    /// A pointer for each core.
    pub(super) fn each_core(&self, memory: &mut dyn Memory, shape: Shape, name: &str, width: Width) -> Vec<u64> {
        let Some(symbol) = self.symbols.lookup(name) else { return Vec::new() };
        let one = |at| shape.endian.word(width, &memory.read_bytes(at, width.bytes()).ok()?, 0);
        each_core(&symbol, width).map_while(one).collect()
    }
}
