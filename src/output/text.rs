//! Numbers as text, in the forms that every output shares.

use std::fmt::{Display, Write};

/// Adds what a value shows. A `String` takes all of it.
pub(super) fn add(out: &mut String, value: impl Display) {
    let _ = write!(out, "{value}");
}

/// Adds a number in decimal.
pub(super) fn add_decimal(out: &mut String, n: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(n));
}

/// Adds `0x` and a number in hexadecimal, at least so many digits long.
pub(super) fn add_hex(out: &mut String, n: u64, digits: usize) {
    out.push_str(HexBuffer::default().format(n, digits));
}

/// `0x` and a number in hexadecimal, at least so many digits long.
pub(super) fn hex(n: u64, digits: usize) -> String {
    HexBuffer::default().format(n, digits).to_owned()
}

/// Room for a number in hexadecimal.
#[derive(Default)]
pub(super) struct HexBuffer([u8; 18]);

impl HexBuffer {
    /// `0x` and the number, at least so many digits long, at most 16.
    pub(super) fn format(&mut self, n: u64, digits: usize) -> &str {
        std::str::from_utf8(self.bytes(n, digits)).unwrap_or_default()
    }

    /// The same as bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "there are 1 to 16 digits")]
    pub(super) fn bytes(&mut self, n: u64, digits: usize) -> &[u8] {
        let needed = 16 - n.leading_zeros() as usize / 4;
        let digits = digits.clamp(1, 16).max(needed);
        let mut rest = n;
        for place in self.0.iter_mut().rev().take(digits) {
            *place = match (rest & 0xF) as u8 {
                digit @ 0..10 => b'0' + digit,
                letter => b'a' + letter - 10,
            };
            rest >>= 4;
        }
        let start = self.0.len() - digits - 2;
        if let Some(prefix) = self.0.get_mut(start..start + 2) {
            prefix.copy_from_slice(b"0x");
        }
        self.0.get(start..).unwrap_or_default()
    }
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
