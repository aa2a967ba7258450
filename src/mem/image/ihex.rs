//! Intel HEX: `:LLAAAATT`, the data, and a checksum, all in hexadecimal digits.

use super::collect::Collector;
use super::text::{Wrong, is_32_bit, lines, unhex};
use crate::abi::Addr;

/// Length, address (2), type, data (255), checksum.
const LONGEST: usize = 260;

struct Record<'a> {
    kind: u8,
    offset: u16,
    data: &'a [u8],
}

/// One line, into `buffer`.
fn record<'a>(line: &[u8], buffer: &'a mut [u8; LONGEST]) -> Result<Record<'a>, Wrong> {
    let digits = line.strip_prefix(b":").ok_or(Wrong::Line)?;
    let bytes = unhex(digits, buffer).ok_or(Wrong::Line)?;
    let [len, high, low, kind, rest @ ..] = bytes else { return Err(Wrong::Line) };
    let (_, data) = rest.split_last().filter(|(_, data)| data.len() == usize::from(*len)).ok_or(Wrong::Line)?;
    if bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) != 0 {
        return Err(Wrong::Checksum);
    }
    Ok(Record { kind: *kind, offset: u16::from_be_bytes([*high, *low]), data })
}

/// True for a line that is a sound record.
pub(super) fn is_record(line: &[u8]) -> bool {
    record(line, &mut [0; LONGEST]).is_ok()
}

/// What a record's 16-bit offset is added to.
#[derive(Clone, Copy)]
enum Base {
    /// A segment: the offset wraps within its 64 KiB.
    Segment(Addr),
    /// The upper half of the address.
    Linear(Addr),
    /// The record that gave it is damaged.
    Lost,
}

/// Reads all records.
pub(super) fn read(bytes: &[u8], memory: &mut Collector) {
    let mut buffer = [0; LONGEST];
    let mut base = Base::Linear(0);
    let mut ended = false;
    for (number, line) in lines(bytes) {
        if ended {
            memory.flaws.add(Wrong::AfterEnd, number);
            continue;
        }
        let Record { kind, offset, data } = match record(line, &mut buffer) {
            Ok(record) => record,
            Err(wrong) => {
                memory.flaws.add(wrong, number);
                if may_be_base(line) {
                    base = Base::Lost;
                }
                continue;
            }
        };
        match (kind, data) {
            (0, data) => place(memory, base, offset, data, number),
            (1, []) => ended = true,
            (2, [high, low]) => base = Base::Segment(Addr::from(u16::from_be_bytes([*high, *low])) << 4),
            (4, [high, low]) => base = Base::Linear(Addr::from(u16::from_be_bytes([*high, *low])) << 16),
            // The start address: CS:IP, or EIP.
            (3 | 5, [_, _, _, _]) => {}
            _ => {
                memory.flaws.add(if kind <= 5 { Wrong::Line } else { Wrong::Type }, number);
                if matches!(kind, 2 | 4) {
                    base = Base::Lost;
                }
            }
        }
    }
    if !ended {
        memory.flaws.add_at(Wrong::NoEnd, 1, None);
    }
}

/// A damaged line that may have held the address of all data after it: by its type, or where that cannot be read by
/// its length.
fn may_be_base(line: &[u8]) -> bool {
    match line.get(7..9) {
        Some(b"02" | b"04") => true,
        Some(b"00" | b"01" | b"03" | b"05") => false,
        _ => (9..=15).contains(&line.len()),
    }
}

/// A base has 32 bits, and an offset 16.
#[allow(clippy::arithmetic_side_effects, reason = "a sum of 33 bits")]
fn above(base: Addr, offset: u16) -> Addr {
    base + Addr::from(offset)
}

fn place(memory: &mut Collector, base: Base, offset: u16, data: &[u8], line: u64) {
    match base {
        Base::Lost => memory.flaws.add(Wrong::Base, line),
        Base::Segment(base) => {
            let room = 0x1_0000usize.saturating_sub(usize::from(offset));
            let (here, wrapped) = data.split_at_checked(room).unwrap_or((data, &[]));
            memory.push(above(base, offset), here, 1, line);
            memory.push(base, wrapped, 1, line);
        }
        Base::Linear(base) => {
            let at = above(base, offset);
            if !is_32_bit(at, data) {
                return memory.flaws.add(Wrong::PastEnd, line);
            }
            memory.push(at, data, 1, line);
        }
    }
}
