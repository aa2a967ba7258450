//! Functions and source lines of addresses, with the functions that the compiler inlined there.

use super::Dwarf;
use crate::abi::Addr;

/// The longest chain of inlined functions that is read.
const MAX_INLINED: usize = 64;

/// A function at an address, and the line of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its name as in the source. Hostile text: escape before printing.
    pub function: Option<String>,
    /// The source file as the compiler recorded it. Hostile text.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl Dwarf {
    /// The functions at each of `addresses` (as linked), the innermost first: inlined ones, and at last the one that was
    /// called. Empty where debug information has nothing of an address.
    #[must_use]
    pub fn source_frames(&self, addresses: &[Addr]) -> Vec<Vec<SourceFrame>> {
        let context = self.unavailable().is_none().then(|| addr2line::Context::from_dwarf(self.view()).ok()).flatten();
        let of = |address: &Addr| context.as_ref().map(|context| frames(context, *address)).unwrap_or_default();
        addresses.iter().map(of).collect()
    }
}

fn frames(context: &addr2line::Context<super::Slice<'_>>, address: Addr) -> Vec<SourceFrame> {
    let mut found = Vec::new();
    // addr2line adds 1 to it.
    if address == Addr::MAX {
        return found;
    }
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return found };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|f| f.raw_name().ok()).map(|n| super::budget::name(n.as_bytes()));
        let location = frame.location.as_ref();
        found.push(SourceFrame {
            function: name,
            file: location.and_then(|l| l.file).map(|f| super::budget::name(f.as_bytes())),
            line: location.and_then(|l| l.line),
        });
        if found.len() >= MAX_INLINED {
            break;
        }
    }
    found
}
