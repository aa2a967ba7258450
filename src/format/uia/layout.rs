//! The layouts of UIA: records, packet headers, and the structures that describe a logger on a 32-bit target.
//!
//! Facts are those of `docs/formats/uia.md`. Offsets are in bytes.
//!
//! ```text
//! record     word0 [stamp: 4 or 8 bytes] event << 16 | module, arguments
//! word0      type 31-27, length 26-16; types 0-7: sequence 15-0; types 8-12: previous length 15-5, sequence 4-0
//! packet     always most significant byte first: type 31-28, length 26-0 and three words (16 bytes),
//!            or type 31-28, length 15-0 alone (4 bytes)
//! ```

/// Bytes of the state of the module LoggerMin.
pub const MIN_SIZE: usize = 32;
/// Bytes of a LoggerStopMode object.
pub const STOP_SIZE: usize = 52;
/// Bytes of a queue descriptor of UIA 2: twelve words.
pub const QUEUE_SIZE: usize = 48;
/// Bytes of a queue descriptor of UIA 1, which has no live write pointer.
pub const QUEUE_SIZE_1: usize = 44;
/// Bytes of the header of an event packet.
pub const PACKET: usize = 16;
/// Bytes of the header of a minimal event packet.
pub const PACKET_MIN: usize = 4;
/// The largest buffer that a logger can plausibly have.
pub const MAX_BUFFER: u64 = 256 << 20;

/// Packet type of an event packet, in its upper four bits.
pub const PACKET_EVENT: u32 = 10;
/// Packet type of a minimal event packet.
pub const PACKET_EVENT_MIN: u32 = 3;

/// Queue types of a queue descriptor that hold events.
pub mod queue {
    /// Events in one circular buffer.
    pub const CIRCULAR: u32 = 3;
    /// The same, for what did not fit elsewhere.
    pub const OVERFLOW: u32 = 4;
    /// An array of packets, sent to the host while the target runs.
    pub const RUN_MODE: u32 = 7;
    /// One packet that is overwritten and read when the target is halted.
    pub const STOP_MODE: u32 = 8;
}

/// The parts of a record that its header type determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderType {
    /// Bytes of its stamp; `None` where the record's layout is not public.
    pub stamp: Option<usize>,
    /// True where the event id is followed by a snapshot's six words and its data.
    pub snapshot: bool,
    /// True where the header holds the length of the record before it, and five bits of sequence number.
    pub chained: bool,
}

/// Names of the header types in TI's enumeration; those after are reserved.
static NAMES: [&str; 13] = [
    "Event",
    "EventWithTimestamp",
    "EventWithSnapshotId",
    "EventWithSnapshotIdAndTimestamp",
    "EventWith32bTimestamp",
    "EventWithTimestampAndEndpointId",
    "EventWithSnapshotIdAnd32bTimestamp",
    "EventWithSnapshotIdAndTimestampAndEndpointId",
    "EventWithPrevLenWithNoTimestamp",
    "EventWithPrevLenWith32bTimestamp",
    "EventWithPrevLenWith64bTimestamp",
    "SnapshotEventWithPrevLen",
    "SnapshotEventWithPrevLenAnd64bTimestamp",
];

/// The name of a header type (five bits: 0 to 31).
pub fn header_name(number: u8) -> String {
    NAMES.get(usize::from(number)).map_or_else(|| format!("Reserved{number}"), |name| (*name).to_owned())
}

/// What is known of a header type (five bits: 0 to 31).
pub const fn header_type(number: u8) -> HeaderType {
    let stamp = match number {
        0 | 2 | 8 | 11 => Some(0),
        9 => Some(4),
        1 | 3 | 10 | 12 => Some(8),
        _ => None,
    };
    HeaderType { stamp, snapshot: matches!(number, 2 | 3 | 11 | 12), chained: matches!(number, 8..=12) }
}

impl HeaderType {
    /// Bytes of a record before its arguments: word0, stamp, event and module.
    pub const fn head(&self) -> usize {
        match self.stamp {
            Some(8) => 16,
            Some(4) => 12,
            Some(_) => 8,
            None => 4,
        }
    }
}
