//! The trace's bytes, read from memory and not decoded.

use super::Target;
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::format::Extent;
use crate::mem::{Memory, Region};
use crate::trace::Issue;

/// The bytes of a trace: every one of them was read.
#[derive(Debug)]
pub struct Raw {
    /// Name of its format.
    pub format: &'static str,
    /// Address of the first byte.
    pub address: Addr,
    /// The bytes, in one piece.
    pub bytes: Bytes,
    /// What was noticed on the way.
    pub issues: Vec<Issue>,
}

impl Target<'_> {
    /// Reads the whole trace without decoding it.
    ///
    /// # Errors
    /// [`Error`] when there is no trace, when it is not in one piece, or when any byte of it cannot be read:
    /// a dump with holes would have to make bytes up.
    pub fn raw(&mut self) -> Result<Raw, Error> {
        if self.info.buffers.len() > 1 {
            return Err(Error::failed(
                Code::Usage,
                format!("{} buffers of one run are read here: a .trx holds one", self.info.buffers.len()),
                "give one --trace",
            ));
        }
        let (format, capture) = self.capture(Extent::All)?;
        let ranges = capture.ranges();
        let [range] = ranges.as_slice() else {
            return Err(Error::failed(
                Code::InPieces,
                format!("this trace is in {} pieces: a .trx holds one", ranges.len()),
                "dump the memory that holds them all, and read that with --image FILE@ADDR",
            ));
        };
        let memory = self.memory.memory();
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        let bytes = memory.read_bytes(range.start, len).map_err(|e| {
            if e.is_fatal() {
                return e.explain("the trace");
            }
            let gap = first_gap(memory, range).map_or_else(|| format!("{:#x}", e.addr), |gap| gap.to_string());
            Error::failed(
                Code::Unreadable,
                format!("the trace is at {range}, and {gap} cannot be read: a .trx would have to make these bytes up"),
                "`list` shows what is there",
            )
        })?;
        let mut issues = self.issues.clone();
        issues.extend_from_slice(capture.issues());
        Ok(Raw { format: format.name(), address: range.start, bytes, issues })
    }
}

/// The first part of a range that memory does not have, where it lists what it has.
fn first_gap(memory: &mut dyn Memory, range: &Region) -> Option<Region> {
    let last = range.last()?;
    let mut at = range.start;
    for region in memory.regions()? {
        if region.start > at {
            return Region::between(at, last.min(region.start.checked_sub(1)?));
        }
        if let Some(end) = region.last().filter(|end| *end >= at) {
            at = end.checked_add(1)?;
        }
    }
    Region::between(at, last)
}
