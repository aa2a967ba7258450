//! What can be read of a range that cannot be read whole.

use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::mem::Memory;

/// The longest part of a range that begins at its start and can be read. Its end is taken from the source's own list of
/// regions, or found by halving.
///
/// # Errors
/// Where the source itself fails. `what` is the range, for a message.
pub fn prefix(memory: &mut dyn Memory, start: Addr, len: usize, what: &str) -> Result<Bytes, Error> {
    let read = |memory: &mut dyn Memory, len| match memory.read_bytes(start, len) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_fatal() => Err(e.explain(what)),
        Err(_) => Ok(None),
    };
    if let Some(bytes) = read(memory, len)? {
        return Ok(bytes);
    }
    if let Some(regions) = memory.regions() {
        // Bytes from the start on, over all regions that follow each other without a gap.
        let readable = regions.iter().fold(0u64, |readable, r| {
            let next = start.checked_add(readable).and_then(|end| end.checked_sub(r.start));
            next.and_then(|inside| r.len.checked_sub(inside))
                .and_then(|more| readable.checked_add(more))
                .unwrap_or(readable)
        });
        let there = usize::try_from(readable).map_or(len, |there| there.min(len));
        if let Some(bytes) = read(memory, there)? {
            return Ok(bytes);
        }
    }
    let (mut best, mut low, mut high) = (Bytes::from(Vec::new()), 0, len);
    loop {
        let middle = usize::midpoint(low, high);
        if middle == low {
            return Ok(best);
        }
        match read(memory, middle)? {
            Some(bytes) => (low, best) = (middle, bytes),
            None => high = middle,
        }
    }
}
