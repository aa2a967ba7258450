//! Dumps that are text: which kind a file is, and what all kinds share.
//!
//! A record with a wrong checksum, a line that is none, a missing address: none of them is used. Their
//! addresses are a gap, and a [`Flaw`] says in which lines.

use crate::code::Code;
use std::fmt;

use super::collect::Collector;
use super::{hexdump, ihex, plain, srec};
use crate::abi::{Addr, Endian, Width, last_address};
use crate::bytes::Bytes;

/// How much of a file is read to find what it is.
const SNIFFED: usize = 64 << 10;
/// How many line numbers a flaw keeps.
const MAX_LINES: usize = 4;

/// Text that holds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Intel HEX, with 16-bit, segment or linear addresses.
    IntelHex,
    /// Motorola S-records, with 16, 24 or 32-bit addresses.
    SRecord,
    /// Lines of an address and bytes or words, as debuggers, boot loaders and `xxd` print them.
    HexDump,
    /// Bytes as digits and nothing else, as `xxd -p` prints them.
    Plain,
}

impl Kind {
    /// Its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IntelHex => "Intel HEX",
            Self::SRecord => "S-record",
            Self::HexDump => "hex dump",
            Self::Plain => "plain hex",
        }
    }
}

/// What a text file holds.
#[derive(Debug, Clone)]
pub struct Dump {
    /// What the file is.
    pub kind: Kind,
    /// Its bytes: sorted, without overlap, and no two of them touch.
    pub blocks: Vec<(Addr, Bytes)>,
    /// How words became bytes, where it holds words.
    pub words: Option<Words>,
    /// What could not be used.
    pub flaws: Vec<Flaw>,
}

/// How words became bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The byte order that was taken.
    pub order: Endian,
    /// How it is known.
    pub known: OrderKnown,
}

/// How the byte order of words is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderKnown {
    /// The characters beside the words show it.
    Text,
    /// It was given: by an ELF file of the target.
    Given,
    /// Nothing shows it.
    Assumed,
}

/// What was wrong with a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The checksum of a record.
    Checksum,
    /// A line that is no record, or not all of one.
    Line,
    /// A record of a type that does not exist.
    Type,
    /// Data after an address record that could not be used.
    Base,
    /// Data after the end record.
    AfterEnd,
    /// No end record.
    NoEnd,
    /// Fewer records than the file says it has; counted in records.
    Count,
    /// Bytes that are given twice, and differ; counted in bytes.
    Overlap,
    /// Bytes past the last address there is.
    PastEnd,
    /// More pieces than any memory is in.
    Pieces,
    /// Repeated lines (`*`) that repeat nothing, do not end, or make more bytes than are believed.
    Repeat,
}

/// One kind of flaw, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong.
    pub wrong: Wrong,
    /// How often.
    pub count: u64,
    /// The first lines in which it is, counted from 1; none where it is in no line.
    pub lines: Vec<u64>,
    /// The first address, where that says more than a line.
    pub address: Option<Addr>,
}

impl Wrong {
    /// Stable name.
    pub const fn code(self) -> Code {
        match self {
            Self::Checksum => Code::DumpChecksum,
            Self::Overlap => Code::DumpOverlap,
            Self::NoEnd | Self::Count => Code::DumpCut,
            Self::AfterEnd => Code::DumpAfterEnd,
            Self::Line | Self::Type | Self::Base | Self::PastEnd | Self::Pieces | Self::Repeat => Code::DumpDamaged,
        }
    }

    /// True where bytes are missing for it.
    pub const fn loses(self) -> bool {
        !matches!(self, Self::Overlap | Self::NoEnd | Self::AfterEnd)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.count;
        let s = if n == 1 { "" } else { "s" };
        match self.wrong {
            Wrong::Checksum => write!(f, "wrong checksum in {n} record{s}")?,
            Wrong::Line => write!(f, "{n} line{s} that no record can be read from")?,
            Wrong::Type => write!(f, "{n} record{s} of a type that does not exist")?,
            Wrong::Base => write!(f, "{n} record{s} after an address record that is damaged")?,
            Wrong::AfterEnd => write!(f, "{n} record{s} after the end record")?,
            Wrong::NoEnd => return f.write_str("it has no end record: it may be cut short"),
            Wrong::Count => return write!(f, "{n} record{s} fewer than it says it has: these are missing"),
            Wrong::Overlap => write!(f, "{n} byte{s} given twice, and differently")?,
            Wrong::PastEnd => write!(f, "{n} record{s} that pass the last address there is")?,
            Wrong::Pieces => write!(f, "{n} record{s} too many: memory is not in so many pieces")?,
            Wrong::Repeat => write!(f, "{n} repetition{s} (*) without a plausible end")?,
        }
        if let Some(address) = self.address {
            write!(f, ", from {address:#x} on")?;
        }
        for (i, line) in self.lines.iter().enumerate() {
            let lead = match i {
                0 if self.lines.len() == 1 => " (line ",
                0 => " (lines ",
                _ => ", ",
            };
            write!(f, "{lead}{line}")?;
        }
        if !self.lines.is_empty() {
            let more = n.saturating_sub(self.lines.len() as u64);
            if more > 0 {
                write!(f, " and {more} more")?;
            }
            f.write_str(")")?;
        }
        f.write_str(match self.wrong {
            Wrong::Overlap => ": the later ones are used",
            _ => ": not used",
        })
    }
}

/// The flaws of one file: one entry a kind.
#[derive(Debug, Default)]
pub(super) struct Flaws(Vec<Flaw>);

#[allow(clippy::arithmetic_side_effects, reason = "counts records and bytes of a file that is held in memory")]
impl Flaws {
    pub fn add(&mut self, wrong: Wrong, line: u64) {
        self.note(wrong, |flaw| {
            flaw.count += 1;
            if flaw.lines.len() < MAX_LINES {
                flaw.lines.push(line);
            }
        });
    }

    pub(super) fn add_at(&mut self, wrong: Wrong, count: u64, address: Option<Addr>) {
        self.note(wrong, |flaw| {
            flaw.count += count;
            flaw.address = flaw.address.or(address);
        });
    }

    fn note(&mut self, wrong: Wrong, count: impl FnOnce(&mut Flaw)) {
        if let Some(flaw) = self.0.iter_mut().find(|f| f.wrong == wrong) {
            return count(flaw);
        }
        let mut flaw = Flaw { wrong, count: 0, lines: Vec::new(), address: None };
        count(&mut flaw);
        self.0.push(flaw);
    }

    fn into_list(self) -> Vec<Flaw> {
        self.0
    }
}

/// What text is, by its first lines; `None` for what holds no memory, and for what is no text.
pub fn sniff(bytes: &[u8]) -> Option<Kind> {
    let head = bytes.get(..SNIFFED).unwrap_or(bytes);
    let control = |b: u8| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0C | 0x1A);
    if head.iter().any(|b| control(*b) || *b == 0x7F) {
        return None;
    }
    // The last line may be cut at the end of what is read; a record of it may then be no record.
    for (_, line) in lines(head) {
        if ihex::is_record(line) {
            return Some(Kind::IntelHex);
        }
        if srec::is_record(line) {
            return Some(Kind::SRecord);
        }
        if hexdump::is_line(line) {
            return Some(Kind::HexDump);
        }
    }
    plain::is_dump(head, head.len() < bytes.len()).then_some(Kind::Plain)
}

/// Reads a text file of a kind. `order` is the byte order of the target, where that is known: for words. Takes time
/// and memory in proportion to the text.
pub fn read(kind: Kind, bytes: &[u8], order: Option<Endian>) -> Dump {
    let mut memory = Collector::default();
    let mut words = None;
    match kind {
        Kind::IntelHex => ihex::read(bytes, &mut memory),
        Kind::SRecord => srec::read(bytes, &mut memory),
        Kind::HexDump => words = hexdump::read(bytes, order, &mut memory),
        Kind::Plain => plain::read(bytes, &mut memory),
    }
    let (blocks, flaws) = memory.finish();
    Dump { kind, blocks, words, flaws: flaws.into_list() }
}

/// The lines that are not blank, with their numbers.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // 0x1A ended text files in DOS.
    let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x1A;
    text.split(|b| *b == b'\n').zip(1u64..).filter_map(move |(line, number)| {
        let start = line.iter().position(|b| !blank(b))?;
        let last = line.iter().rposition(|b| !blank(b))?;
        Some((number, line.get(start..=last)?))
    })
}

/// True where data is in a 32-bit address space.
pub(super) fn is_32_bit(start: Addr, data: &[u8]) -> bool {
    last_address(start, data.len()).is_some_and(|last| last <= Width::W4.max())
}

/// The value of a hexadecimal digit.
#[allow(clippy::arithmetic_side_effects, reason = "each arm bounds its digit")]
pub(super) const fn nibble(digit: u8) -> Option<u8> {
    Some(match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => return None,
    })
}

/// Pairs of digits as bytes into `out`; `None` where a character is no digit, one is left over, or `out` is full.
pub(super) fn unhex<'a>(digits: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let out = out.get_mut(..pairs.len()).filter(|_| rest.is_empty())?;
    for (byte, &[high, low]) in out.iter_mut().zip(pairs) {
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(out)
}
