//! The kernel's own variables.

use super::layout::Shape;
use crate::abi::{Addr, Width};
use crate::mem::Memory;
use crate::sym::Symbols;

/// The most cores whose running threads are read.
pub const CORES: u64 = 64;

/// Reads variables by name.
pub struct Globals<'a> {
    symbols: &'a dyn Symbols,
}

impl<'a> Globals<'a> {
    /// Over the names of a program.
    #[must_use]
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
    pub fn list(&self, memory: &mut dyn Memory, shape: Shape, stem: &str) -> Result<(Addr, Option<u64>), String> {
        let name = format!("{stem}_ptr");
        let symbol = self.symbols.lookup(&name).ok_or_else(|| format!("no symbol {name}"))?;
        let width = shape.pointer;
        let head = match memory.read_bytes(symbol.address, width.bytes()) {
            Ok(bytes) => shape.endian.word(width, &bytes, 0).unwrap_or(0),
            Err(e) => return Err(format!("{name}: {e}")),
        };
        Ok((head, self.word(memory, shape, &format!("{stem}_count"), shape.word)))
    }

    /// A pointer for each core.
    pub fn each_core(&self, memory: &mut dyn Memory, shape: Shape, name: &str, width: Width) -> Vec<u64> {
        let Some(symbol) = self.symbols.lookup(name) else { return Vec::new() };
        let step = u64::try_from(width.bytes()).unwrap_or(8);
        let cores = symbol.size.checked_div(step).unwrap_or(1).clamp(1, CORES);
        let one = |core: u64| {
            let at = symbol.address.checked_add(core.checked_mul(step)?)?;
            let bytes = memory.read_bytes(at, width.bytes()).ok()?;
            shape.endian.word(width, &bytes, 0)
        };
        (0..cores).map_while(one).collect()
    }
}
