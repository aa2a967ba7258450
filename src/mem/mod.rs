//! Where bytes come from: one narrow trait over every source of target memory.
//!
//! A source fills a buffer from an address or says why it cannot. It never makes bytes up: a gap in a
//! dump, an address outside a core, a refused packet are errors, not zeros.

pub mod backend;
pub mod cache;
pub mod core;
pub mod gzip;
pub mod image;
pub mod map;
pub mod overlay;
pub mod segments;

use std::fmt;

use crate::abi::Addr;
pub use crate::abi::Region;
use crate::bytes::Bytes;
use crate::code::Code;
use crate::error::Error;

pub mod remote;
pub mod store;

/// Reads target memory. Read-only by design: writes, registers and run control are traits of their own.
pub trait Memory {
    /// Fills the whole of `buf` from `addr`.
    ///
    /// # Errors
    /// When any byte of the range cannot be read; `buf` is then unspecified.
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError>;

    /// Several reads that do not depend on each other. A source with latency (a stub behind a probe)
    /// keeps them in flight together; the answer is the same as reading one by one.
    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        wanted.iter().map(|&(addr, len)| self.read_bytes(addr, len)).collect()
    }

    /// One read into new bytes; a source that maps a file returns a window into the map instead.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
        if len > MAX_READ {
            return Err(ReadError::new(addr, len, ReadErrorKind::TooLong));
        }
        let mut buf = vec![0; len];
        self.read(addr, &mut buf)?;
        Ok(Bytes::from(buf))
    }

    /// True where the bytes change while they are read: a target that is not halted.
    fn changes(&self) -> bool {
        false
    }

    /// Forgets what was cached: the next read goes to the target again.
    fn refresh(&mut self) {}

    /// What is mapped, where the source knows: sorted, no overlap. `None` where it does not (most stubs).
    fn regions(&mut self) -> Option<Vec<Region>> {
        None
    }

    /// What of this was ever written: not the holes of a sparse file, which read as zeros.
    fn written(&mut self) -> Option<Vec<Region>> {
        self.regions()
    }

    /// What of this has to be searched: what was written, and bytes that a file has once and memory at many
    /// addresses only at the first of them.
    fn searchable(&mut self) -> Option<Vec<Region>> {
        self.written()
    }
}

/// A source behind a pointer is that source.
macro_rules! forwarded {
    ($($of:ty),*) => {
        $(
            impl<M: Memory + ?Sized> Memory for $of {
                fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
                    (**self).read(addr, buf)
                }

                fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
                    (**self).read_batch(wanted)
                }

                fn read_bytes(&mut self, addr: Addr, len: usize) -> Result<Bytes, ReadError> {
                    (**self).read_bytes(addr, len)
                }

                fn changes(&self) -> bool {
                    (**self).changes()
                }

                fn refresh(&mut self) {
                    (**self).refresh();
                }

                fn regions(&mut self) -> Option<Vec<Region>> {
                    (**self).regions()
                }

                fn written(&mut self) -> Option<Vec<Region>> {
                    (**self).written()
                }

                fn searchable(&mut self) -> Option<Vec<Region>> {
                    (**self).searchable()
                }
            }
        )*
    };
}

forwarded!(&mut M, Box<M>);

/// The most bytes one read may ask a source without a map for. A trace buffer of 10 million events is 320 MB.
pub const MAX_READ: usize = 1 << 30;

/// Why memory could not be read.
#[derive(Debug, Clone)]
pub struct ReadError {
    /// First address that was asked for (or the first that failed, where the source gives that).
    pub addr: Addr,
    /// Number of bytes that were asked for.
    pub len: usize,
    /// What happened.
    pub kind: ReadErrorKind,
}

/// What kept a read from its bytes.
#[derive(Debug, Clone)]
pub enum ReadErrorKind {
    /// The source answers, and has no such bytes: a gap in a dump, outside a core, `E14` from a stub.
    Unmapped,
    /// The range is larger than any sane request.
    TooLong,
    /// The stub refuses these bytes, and says why in its own words.
    Refused(String),
    /// We stopped reading: Ctrl-C, or the target was halted for as long as it may be.
    Ended {
        /// The stable code of the reason.
        code: Code,
        /// The reason, in one sentence.
        why: String,
    },
    /// The source itself failed: the link broke, the file could not be read. One sentence.
    Source(String),
}

impl ReadError {
    /// A failed read of `len` bytes at `addr`.
    pub const fn new(addr: Addr, len: usize, kind: ReadErrorKind) -> Self {
        Self { addr, len, kind }
    }

    /// The usual one: nothing is there.
    pub const fn unmapped(addr: Addr, len: usize) -> Self {
        Self::new(addr, len, ReadErrorKind::Unmapped)
    }

    /// The error of a command that needs these bytes for `what`.
    pub fn explain(&self, what: &str) -> Error {
        let error = match &self.kind {
            ReadErrorKind::Ended { code, why } => Error::failed(*code, why.clone(), ""),
            ReadErrorKind::Source(_) => Error::failed(Code::SourceFailed, format!("{what}: {self}"), ""),
            ReadErrorKind::Refused(_) => Error::failed(
                Code::Unreadable,
                format!("{what}: {self}"),
                "is this memory there, with power and clock? An ELF of another build gives wrong addresses",
            ),
            ReadErrorKind::Unmapped | ReadErrorKind::TooLong => Error::failed(
                Code::Unreadable,
                format!("{what}: {self}"),
                "check that the ELF belongs to this memory, and that the dump covers the RAM",
            ),
        };
        error.caused_by(self.clone())
    }

    /// True where the source is broken, not merely without these bytes: trying elsewhere is pointless.
    pub const fn is_fatal(&self) -> bool {
        matches!(self.kind, ReadErrorKind::Source(_) | ReadErrorKind::Ended { .. })
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReadErrorKind::Unmapped => write!(f, "no memory at {:#x} ({} bytes)", self.addr, self.len),
            ReadErrorKind::TooLong => write!(f, "a read of {} bytes at {:#x} is too large", self.len, self.addr),
            ReadErrorKind::Refused(why) => {
                write!(f, "no memory at {:#x} ({} bytes): the stub says `{why}`", self.addr, self.len)
            }
            ReadErrorKind::Ended { why, .. } => f.write_str(why),
            ReadErrorKind::Source(why) => write!(f, "reading {} bytes at {:#x}: {why}", self.len, self.addr),
        }
    }
}

impl std::error::Error for ReadError {}
