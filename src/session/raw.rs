//! The trace's bytes as they lie in memory.

use super::Target;
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;
use crate::format::Extent;
use crate::mem::{Memory, Region};
use crate::trace::Issue;

/// A trace as it lies in memory: every byte of it was read.
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
    /// [`Error`] when there is no trace, when it does not lie in one piece, or when any byte of it cannot be read:
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
                format!("this trace lies in {} pieces: a .trx holds one", ranges.len()),
                "dump the memory that holds them all, and read that with --image FILE@ADDR",
            ));
        };
        let memory = self.memory.memory();
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        let bytes = memory.read_bytes(range.start, len).map_err(|e| {
            if e.is_fatal() {
                return e.explain("the trace");
            }
            let end = range.start.saturating_add(range.len);
            let gap = match first_gap(memory, range) {
                Some(gap) => format!("{:#x} to {:#x}", gap.start, gap.start.saturating_add(gap.len).saturating_sub(1)),
                None => format!("{:#x}", e.addr),
            };
            Error::failed(
                Code::Unreadable,
                format!(
                    "the trace lies at {:#x} to {:#x}, and {gap} cannot be read: a .trx would have to make these bytes up",
                    range.start,
                    end.saturating_sub(1)
                ),
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
    let end = range.start.saturating_add(range.len);
    let mut at = range.start;
    for region in memory.regions()? {
        if region.start > at {
            let len = region.start.min(end).checked_sub(at)?;
            return (len > 0).then_some(Region { start: at, len });
        }
        at = at.max(region.start.saturating_add(region.len));
    }
    let len = end.checked_sub(at)?;
    (len > 0).then_some(Region { start: at, len })
}
