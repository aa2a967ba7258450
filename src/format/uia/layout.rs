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
/// The largest buffer that is believed.
pub const MAX_BUFFER: u64 = 256 << 20;

/// Packet type of an event packet, in its upper four bits.
pub const PACKET_EVENT: u8 = 10;
/// Packet type of a minimal event packet.
pub const PACKET_EVENT_MIN: u8 = 3;

/// Queue types of a queue descriptor that hold events.
pub mod queue {
    /// Events in one circular buffer.
    pub const CIRCULAR: u64 = 3;
    /// The same, for what did not fit elsewhere.
    pub const OVERFLOW: u64 = 4;
    /// An array of packets, sent to the host while the target runs.
    pub const RUN_MODE: u64 = 7;
    /// One packet that is overwritten and read when the target stands.
    pub const STOP_MODE: u64 = 8;
}

/// What a header type says of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderType {
    /// Its name in TI's enumeration.
    pub name: &'static str,
    /// Bytes of its stamp; `None` where the record's layout is not public.
    pub stamp: Option<usize>,
    /// True where the event id is followed by a snapshot's six words and its data.
    pub snapshot: bool,
    /// True where the header holds the length of the record before it, and five bits of sequence number.
    pub chained: bool,
}

/// Names of the header types without a public layout, behind the known ones.
static UNKNOWN: [&str; 4] = [
    "EventWith32bTimestamp",
    "EventWithTimestampAndEndpointId",
    "EventWithSnapshotIdAnd32bTimestamp",
    "EventWithSnapshotIdAndTimestampAndEndpointId",
];

static RESERVED: [&str; 19] = [
    "Reserved13",
    "Reserved14",
    "Reserved15",
    "Reserved16",
    "Reserved17",
    "Reserved18",
    "Reserved19",
    "Reserved20",
    "Reserved21",
    "Reserved22",
    "Reserved23",
    "Reserved24",
    "Reserved25",
    "Reserved26",
    "Reserved27",
    "Reserved28",
    "Reserved29",
    "Reserved30",
    "Reserved31",
];

/// What is known of a header type (five bits: 0 to 31).
#[must_use]
pub fn header_type(number: u8) -> HeaderType {
    let event = |name, stamp, snapshot, chained| HeaderType { name, stamp: Some(stamp), snapshot, chained };
    match number {
        0 => event("Event", 0, false, false),
        1 => event("EventWithTimestamp", 8, false, false),
        2 => event("EventWithSnapshotId", 0, true, false),
        3 => event("EventWithSnapshotIdAndTimestamp", 8, true, false),
        8 => event("EventWithPrevLenWithNoTimestamp", 0, false, true),
        9 => event("EventWithPrevLenWith32bTimestamp", 4, false, true),
        10 => event("EventWithPrevLenWith64bTimestamp", 8, false, true),
        11 => event("SnapshotEventWithPrevLen", 0, true, true),
        12 => event("SnapshotEventWithPrevLenAnd64bTimestamp", 8, true, true),
        other => {
            let index = usize::from(other);
            let name =
                if other < 8 { UNKNOWN.get(index.wrapping_sub(4)) } else { RESERVED.get(index.wrapping_sub(13)) };
            HeaderType { name: name.copied().unwrap_or("Reserved"), stamp: None, snapshot: false, chained: false }
        }
    }
}

impl HeaderType {
    /// Bytes of a record before its arguments: word0, stamp, event and module.
    #[must_use]
    pub fn head(&self) -> usize {
        self.stamp.map_or(4, |s| s.saturating_add(8))
    }
}
