//! What can be read of a range that cannot be read whole.

use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::mem::Memory;

/// The bytes of a range from its start on, as far as they can be read: by the source's own list of regions, or by
/// halving.
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
        let end = regions.iter().fold(start, |end, r| {
            let behind = r.start.saturating_add(r.len);
            if r.start <= end && end < behind { behind } else { end }
        });
        let there = usize::try_from(end.saturating_sub(start)).map_or(len, |there| there.min(len));
        if let Some(bytes) = read(memory, there)? {
            return Ok(bytes);
        }
    }
    let (mut best, mut low, mut high) = (Bytes::from(Vec::new()), 0, len);
    while high.saturating_sub(low) > 1 {
        let middle = usize::midpoint(low, high);
        match read(memory, middle)? {
            Some(bytes) => (low, best) = (middle, bytes),
            None => high = middle,
        }
    }
    Ok(best)
}
