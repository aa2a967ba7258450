//! Bytes with an owner: what a read hands out, and what a trace keeps.

use std::fmt;
use std::sync::Arc;

/// Bytes that were read: owned, or a window into a map that is kept alive. Cheap to clone and to cut.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    end: usize,
}

impl Bytes {
    /// A window over the whole of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let end = (*owner).as_ref().len();
        Self { owner, start: 0, end }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        (*self.owner).as_ref().get(self.start..self.end).unwrap_or(&[])
    }

    /// A part of this window; `None` where it would pass the end.
    pub fn cut(&self, offset: usize, len: usize) -> Option<Self> {
        let start = self.start.checked_add(offset)?;
        let end = start.checked_add(len)?;
        (end <= self.end).then(|| Self { owner: Arc::clone(&self.owner), start, end })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(v: Vec<u8>) -> Self {
        Self::new(Arc::new(v))
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.as_slice().len())
    }
}

/// Lower-case hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
