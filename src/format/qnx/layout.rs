//! The structures of a QNX trace ring, in the shapes of its releases.
//!
//! ```text
//!             6.x, 32 bits                7.x, 64 bits (inferred)     8.0 (from its header file)
//! buffer      16384 bytes, page aligned, one after the other
//! header      160                         184                         208
//!             0 base of buffer 0          0                           0, 8 reserved
//!             4 next, in a circle         8
//!             8 flags                     16                          16
//!             12 number of events         20                          20
//!             16 sequence number          24                          24
//!             20 index << 13              28
//!             28 first event              40
//!             32 after the last event    48
//! events      16 bytes each: header word, low word of the clock, two words
//! capacity    1014                        1012                        1011
//! ```
//!
//! 6.x is verified with rings of a real 6.4.1 kernel; the others are not.

use crate::abi::{Addr, Width};

/// Bytes of a buffer.
pub const BUFFER: usize = 16384;
/// Bytes of an event element.
pub const ELEMENT: usize = 16;
/// The most buffers of a ring: 1 GiB.
pub const MAX_BUFFERS: u64 = 65_536;
/// Flag of the buffer that is being written.
pub const BEING_WRITTEN: u32 = 0x2_0000;
/// The flags that are known.
pub const FLAGS: u32 = 0x7_0000;
/// Both words of the event that ends a buffer of 8.0.
pub const COOKIE: u64 = 0xE6E6_E6E6;
/// What a file of the trace logger begins with.
pub const KEV_MAGIC: &[u8] = b"TRACE_HEADER_BEGIN::";

/// Class of control events.
pub const CONTROL: u16 = 1;
/// Class of kernel calls.
pub const KERNEL_CALL: u16 = 2;
/// Class of interrupts.
pub const INTERRUPT: u16 = 3;
/// Class of processes and threads.
pub const PROCESS_THREAD: u16 = 4;
/// Classes that any release knows are below this.
pub const CLASSES: u16 = 12;

/// Control event: the high word of the clock.
pub const TIME: u16 = 1;
/// Control event: a buffer begins.
pub const BUFFER_BEGINS: u16 = 2;
/// Control event of 8.0: a buffer ends.
pub const BUFFER_ENDS: u16 = 4;

/// A release's shape of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// 6.x with 32-bit pointers, and what kept that shape.
    Narrow,
    /// 7.x with 64-bit pointers.
    Wide,
    /// 8.0: no links.
    Unlinked,
}

impl Shape {
    /// All of them, the certain one first.
    pub const ALL: [Self; 3] = [Self::Narrow, Self::Wide, Self::Unlinked];

    /// Bytes of the buffer's header.
    pub const fn header(self) -> usize {
        match self {
            Self::Narrow => 160,
            Self::Wide => 184,
            Self::Unlinked => 208,
        }
    }

    /// Number of elements that a buffer has room for.
    pub const fn capacity(self) -> u64 {
        match self {
            Self::Narrow => 1014,
            Self::Wide => 1012,
            Self::Unlinked => 1011,
        }
    }

    /// Width of a pointer.
    pub const fn pointer(self) -> Width {
        match self {
            Self::Narrow => Width::W4,
            Self::Wide | Self::Unlinked => Width::W8,
        }
    }

    /// The release whose numbers the events have unless an option gives another: 64 is 6.4.
    pub const fn release(self) -> u16 {
        match self {
            Self::Narrow => 64,
            Self::Wide => 71,
            Self::Unlinked => 80,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Narrow => "6.x, 32-bit",
            Self::Wide => "7.x, 64-bit",
            Self::Unlinked => "8.0",
        }
    }
}

/// Bytes from the start of a ring to a buffer of it.
pub const fn behind(index: u64) -> u64 {
    index.wrapping_mul(BUFFER as u64)
}

/// The address of a buffer of a ring that begins at `start`.
pub const fn buffer_at(start: Addr, index: u64) -> Addr {
    start.wrapping_add(behind(index))
}
