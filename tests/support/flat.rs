//! One range of memory, and the count of what was read from it.

use tx_trace::mem::{Memory, ReadError};

/// Bytes at an address.
pub struct Flat {
    pub base: u64,
    pub bytes: Vec<u8>,
    /// Address and length of every read.
    pub reads: Vec<(u64, usize)>,
}

impl Flat {
    pub fn new(base: u64, bytes: Vec<u8>) -> Self {
        Self { base, bytes, reads: Vec::new() }
    }
}

impl Memory for Flat {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.push((addr, buf.len()));
        let error = ReadError::unmapped(addr, buf.len());
        let start = addr.checked_sub(self.base).ok_or_else(|| error.clone())? as usize;
        let end = start.checked_add(buf.len()).ok_or_else(|| error.clone())?;
        buf.copy_from_slice(self.bytes.get(start..end).ok_or(error)?);
        Ok(())
    }
}
