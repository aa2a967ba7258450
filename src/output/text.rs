//! Numbers as text, in the forms that every output shares.

use std::fmt::{Display, Write};

/// Adds what a value shows. A `String` takes all of it.
pub(super) fn add(out: &mut String, value: impl Display) {
    let _ = write!(out, "{value}");
}

/// Adds `0x` and a number in hexadecimal, at least so many digits long.
pub(super) fn add_hex(out: &mut String, n: u64, digits: usize) {
    let width = digits.saturating_add(2);
    let _ = write!(out, "{n:#0width$x}");
}

/// `0x` and a number in hexadecimal, at least so many digits long.
pub(super) fn hex(n: u64, digits: usize) -> String {
    let mut out = String::new();
    add_hex(&mut out, n, digits);
    out
}

/// A number of so many decimals, given as a whole number of its last one.
pub(super) fn fixed(n: i64, decimals: u32) -> String {
    let decimals = usize::try_from(decimals).unwrap_or(0);
    let least = decimals.saturating_add(1);
    let sign = if n < 0 { "-" } else { "" };
    let mut text = format!("{sign}{:0>least$}", n.unsigned_abs());
    if decimals > 0 {
        text.insert(text.len().saturating_sub(decimals), '.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written() {
        assert_eq!(
            (hex(0, 1), hex(0x1f, 8), hex(u64::MAX, 8)),
            ("0x0".into(), "0x0000001f".into(), format!("{:#x}", u64::MAX))
        );
        assert_eq!(
            (fixed(-1_234_567, 3), fixed(7, 3), fixed(-7, 0)),
            ("-1234.567".into(), "0.007".into(), "-7".into())
        );
    }
}
