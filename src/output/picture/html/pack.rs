//! Numbers as bytes: seven bits a byte, the lowest first; and bytes as base64.

#![allow(clippy::arithmetic_side_effects, reason = "bits of one number, and bytes in memory")]

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::output::picture::proto::varint;

/// How hard the data is packed: the next levels take twice as long for a hundredth.
const LEVEL: u32 = 6;

/// A list of numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Column(Vec<u8>);

impl Column {
    /// Adds a number.
    pub fn number(&mut self, value: u64) {
        varint(&mut self.0, value);
    }

    /// Adds a number with a sign, so that those near to zero are short: 0, -1, 1, -2, 2.
    pub(super) fn signed(&mut self, value: i64) {
        self.number((value << 1).cast_unsigned() ^ (value >> 63).cast_unsigned());
    }

    /// Adds the difference of two numbers: it may turn around.
    pub(super) fn step(&mut self, from: i64, to: i64) {
        self.signed(to.wrapping_sub(from));
    }

    /// Adds bytes, their number first.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a column, its length first.
    pub(super) fn column(&mut self, column: &Self) {
        self.bytes(&column.0);
    }

    /// The bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The same bytes, packed.
pub(super) fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(LEVEL));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Writes bytes as base64.
pub(super) fn base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut line = Vec::with_capacity(4096);
    for chunk in bytes.chunks(3072) {
        line.clear();
        chunk.chunks(3).for_each(|three| line.extend(four(three)));
        out.write_all(&line)?;
    }
    Ok(())
}

/// Four letters for up to three bytes.
fn four(bytes: &[u8]) -> [u8; 4] {
    let at = |i: usize| u32::from(bytes.get(i).copied().unwrap_or(0));
    let bits = at(0) << 16 | at(1) << 8 | at(2);
    let [a, b, c, d] = [18u32, 12, 6, 0].map(|shift| letter(bits >> shift & 0x3F));
    match bytes.len() {
        1 => [a, b, b'=', b'='],
        2 => [a, b, c, b'='],
        _ => [a, b, c, d],
    }
}

fn letter(value: u32) -> u8 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    usize::try_from(value).ok().and_then(|i| LETTERS.get(i).copied()).unwrap_or(b'A')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        base64(&mut out, bytes).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_is_as_the_standard_has_it() {
        let all = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (n, expected) in all.iter().enumerate() {
            assert_eq!(text(&b"foobar"[..n]), *expected);
        }
        assert_eq!(text(&[0xFB, 0xFF, 0xFE]), "+//+");
    }

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        let mut column = Column::default();
        for n in [0, 127, 128, u64::MAX] {
            column.number(n);
        }
        for n in [0, -1, 1, i64::MIN] {
            column.signed(n);
        }
        let max = [0xFF; 9];
        let expected = [&[0, 127, 0x80, 1][..], &max, &[1], &[0, 1, 2], &max, &[1]].concat();
        assert_eq!(column.as_bytes(), expected);
    }
}
