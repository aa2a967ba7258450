//! Writes, for the few who may: apart from [`Memory`], which only reads.

use super::Memory;
use super::cache::Cache;
use super::remote::Remote;
use crate::abi::Addr;

/// Why bytes were not written, in one sentence that names the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("writing {len} bytes at {addr:#x}: {why}")]
pub struct StoreError {
    /// First address.
    pub addr: Addr,
    /// Number of bytes.
    pub len: usize,
    /// What happened.
    pub why: String,
}

/// Writes target memory.
pub trait Store {
    /// Writes all of `bytes` from `addr` on.
    ///
    /// # Errors
    /// When any byte could not be written; some may have been.
    fn store(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), StoreError>;
}

impl Store for Remote {
    fn store(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.client_mut().write_memory(addr, bytes);
        written.map_err(|e| StoreError { addr, len: bytes.len(), why: e.to_string() })
    }
}

/// What was remembered is not what is there any more.
impl<M: Memory + Store> Store for Cache<M> {
    fn store(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.inner_mut().store(addr, bytes);
        self.forget();
        written
    }
}
