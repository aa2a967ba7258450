//! Numbers as text, in the forms that every output shares.

use std::fmt::{Display, Write};

/// Adds what a value shows. A `String` takes all of it.
pub(super) fn add(out: &mut String, value: impl Display) {
    let _ = write!(out, "{value}");
}

/// Adds a number in decimal.
#[inline]
pub(super) fn add_decimal(out: &mut String, n: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(n));
}

/// Adds `0x` and a number in hexadecimal, at least so many digits long.
#[inline]
pub(super) fn add_hex(out: &mut String, n: u64, digits: usize) {
    out.push_str(HexBuffer::default().format(n, digits));
}

/// `0x` and a number in hexadecimal, at least so many digits long.
pub(super) fn hex(n: u64, digits: usize) -> String {
    HexBuffer::default().format(n, digits).to_owned()
}

/// Room for a number in hexadecimal.
#[derive(Default)]
pub(super) struct HexBuffer([u8; 24]);

impl HexBuffer {
    /// `0x` and the number, at least so many digits long, at most 16.
    #[inline]
    pub(super) fn format(&mut self, n: u64, digits: usize) -> &str {
        std::str::from_utf8(self.bytes(n, digits)).unwrap_or_default()
    }

    /// The same as bytes.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "there are 1 to 16 digits")]
    pub(super) fn bytes(&mut self, n: u64, digits: usize) -> &[u8] {
        let needed = 16 - n.leading_zeros() as usize / 4;
        let start = 22 - digits.clamp(1, 16).max(needed);
        if let ([_, high, low], _) = self.0.as_chunks_mut() {
            (*high, *low) = (hex_digits(n >> 32), hex_digits(n & 0xFFFF_FFFF));
        }
        if let Some(prefix) = self.0.get_mut(start..start + 2) {
            prefix.copy_from_slice(b"0x");
        }
        self.0.get(start..).unwrap_or_default()
    }
}

/// The eight digits of a number of 32 bits.
#[inline]
const fn hex_digits(n: u64) -> [u8; 8] {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // A byte for each digit.
    let n = (n | n << 16) & 0x0000_FFFF_0000_FFFF;
    let n = (n | n << 8) & 0x00FF_00FF_00FF_00FF;
    let n = (n | n << 4) & (ONES * 0xF);
    // 1 for each digit that is a letter. No byte carries into its neighbour.
    let letters = (n.wrapping_add(ONES * 6) >> 4) & ONES;
    n.wrapping_add(ONES * b'0' as u64).wrapping_add(letters.wrapping_mul((b'a' - b'0' - 10) as u64)).to_be_bytes()
}

/// Adds a number of so many decimals, given as a whole number of its last one.
pub(super) fn add_fixed(out: &mut String, n: i64, decimals: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(n.unsigned_abs());
    if n < 0 {
        out.push('-');
    }
    let point = digits.len().saturating_sub(decimals);
    let (whole, rest) = digits.split_at_checked(point).unwrap_or((digits, ""));
    out.push_str(if whole.is_empty() { "0" } else { whole });
    if decimals > 0 {
        out.push('.');
        (rest.len()..decimals).for_each(|_| out.push('0'));
        out.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(n: i64, decimals: usize) -> String {
        let mut out = String::new();
        add_fixed(&mut out, n, decimals);
        out
    }

    #[test]
    fn numbers_are_written() {
        for n in [0, 1, 0xF, 0x10, 0x1f, 0xdead_beef, u64::from(u32::MAX), 1 << 60, u64::MAX] {
            for digits in 1..=16 {
                let width = digits + 2;
                assert_eq!(hex(n, digits), format!("{n:#0width$x}"));
            }
        }
        assert_eq!(
            (fixed(-1_234_567, 3), fixed(7, 3), fixed(-7, 0), fixed(0, 0), fixed(1000, 3), fixed(-45, 1)),
            ("-1234.567".into(), "0.007".into(), "-7".into(), "0".into(), "1.000".into(), "-4.5".into())
        );
        assert_eq!(fixed(i64::MIN, 1), "-922337203685477580.8");
    }
}
