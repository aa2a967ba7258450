//! Motorola S-records: `S`, a digit for the type, and in hexadecimal digits count, address, data, checksum.

use super::collect::Collector;
use super::text::{Wrong, is_32_bit, lines, unhex};
use crate::abi::Addr;

/// Count, and as many bytes as a count can say.
const LONGEST: usize = 256;

struct Record<'a> {
    kind: u8,
    address: Addr,
    data: &'a [u8],
}

/// One line, into `buffer`.
fn record<'a>(line: &[u8], buffer: &'a mut [u8; LONGEST]) -> Result<Record<'a>, Wrong> {
    let [b'S' | b's', kind @ b'0'..=b'9', digits @ ..] = line else { return Err(Wrong::Line) };
    let bytes = unhex(digits, buffer).ok_or(Wrong::Line)?;
    let (count, rest) = bytes.split_first().ok_or(Wrong::Line)?;
    if rest.len() != usize::from(*count) {
        return Err(Wrong::Line);
    }
    let (_, body) = rest.split_last().ok_or(Wrong::Line)?;
    if bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) != 0xFF {
        return Err(Wrong::Checksum);
    }
    let width = match kind {
        b'2' | b'6' | b'8' => 3,
        b'3' | b'7' => 4,
        _ => 2,
    };
    let (address, data) = body.split_at_checked(width).ok_or(Wrong::Line)?;
    let address = address.iter().fold(0, |a, b| a << 8 | Addr::from(*b));
    Ok(Record { kind: *kind, address, data })
}

/// True for a line that is a sound record.
pub(super) fn is_record(line: &[u8]) -> bool {
    record(line, &mut [0; LONGEST]).is_ok()
}

/// Reads all records.
#[allow(clippy::arithmetic_side_effects, reason = "counts lines that are held in memory")]
pub(super) fn read(bytes: &[u8], memory: &mut Collector) {
    let mut buffer = [0; LONGEST];
    let mut ended = false;
    // Damaged ones too.
    let mut held = 0u64;
    for (number, line) in lines(bytes) {
        if ended {
            memory.flaws.add(Wrong::AfterEnd, number);
            continue;
        }
        let Record { kind, address, data } = match record(line, &mut buffer) {
            Ok(record) => record,
            Err(wrong) => {
                memory.flaws.add(wrong, number);
                held += u64::from(!matches!(line.get(1), Some(b'0' | b'4'..=b'9')));
                continue;
            }
        };
        match kind {
            b'0' => {}
            b'1'..=b'3' => {
                held += 1;
                if !is_32_bit(address, data) {
                    memory.flaws.add(Wrong::PastEnd, number);
                } else {
                    memory.push(address, data, 1, number);
                }
            }
            // How many data records there are, of which the address field holds the lower bits.
            b'5' | b'6' => {
                let bits = if kind == b'5' { 0xFFFF } else { 0xFF_FFFF };
                let missing = address.wrapping_sub(held) & bits;
                if missing > 0 && missing <= bits / 2 {
                    memory.flaws.add_at(Wrong::Count, missing, None);
                }
            }
            // With the start address.
            b'7'..=b'9' => ended = true,
            _ => memory.flaws.add(Wrong::Type, number),
        }
    }
    if !ended {
        memory.flaws.add_at(Wrong::NoEnd, 1, None);
    }
}
