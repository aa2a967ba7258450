//! Numbers to text by hand: rows are built without a format machine.

/// All numbers of two digits.
const TWO: [[u8; 2]; 100] = {
    let mut all = [[b'0'; 2]; 100];
    let (mut tens, mut ones) = (b'0', b'0');
    let mut rest: &mut [[u8; 2]] = &mut all;
    while let [first, more @ ..] = rest {
        *first = [tens, ones];
        (tens, ones) = if ones == b'9' { (tens.wrapping_add(1), b'0') } else { (tens, ones.wrapping_add(1)) };
        rest = more;
    }
    all
};

/// The last two digits of a number: two at a time, as a division takes longer than all else here.
#[inline]
fn two_of(n: u64) -> [u8; 2] {
    usize::try_from(n % 100).ok().and_then(|i| TWO.get(i)).copied().unwrap_or([b'0'; 2])
}

/// A number in decimal, at the end of `room`.
#[inline]
pub(super) fn digits(mut n: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut from = room.len();
    let mut tens = b'0';
    for pair in room.as_chunks_mut::<2>().0.iter_mut().rev() {
        *pair = two_of(n);
        [tens, _] = *pair;
        n /= 100;
        from = from.wrapping_sub(2);
        if n == 0 {
            break;
        }
    }
    room.get(from.wrapping_add(usize::from(tens == b'0'))..).unwrap_or(&[])
}

/// Writes a number in decimal at the end of a field of spaces; false, and nothing that means anything there, where it is
/// too long.
#[inline]
pub(super) fn right(mut n: u64, field: &mut [u8]) -> bool {
    let (head, pairs) = field.as_rchunks_mut::<2>();
    for pair in pairs.iter_mut().rev() {
        let two = two_of(n);
        n /= 100;
        *pair = two;
        if n == 0 {
            if let [tens @ b'0', _] = pair {
                *tens = b' ';
            }
            return true;
        }
    }
    match (head, u8::try_from(n)) {
        ([one], Ok(n @ 0..10)) => {
            *one = b'0'.wrapping_add(n);
            true
        }
        _ => false,
    }
}

/// Adds a number in decimal.
#[inline]
pub(super) fn dec(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(digits(n, &mut [0; 20]));
}

/// Adds a number with its sign.
pub(super) fn signed(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    dec(out, n.unsigned_abs());
}

/// Adds a number of so many decimals, given as a whole number of its last one.
pub(super) fn fixed(out: &mut Vec<u8>, n: i64, decimals: u32) {
    if n < 0 {
        out.push(b'-');
    }
    let n = n.unsigned_abs();
    let one = 10u64.checked_pow(decimals).unwrap_or(1).max(1);
    dec(out, n.checked_div(one).unwrap_or(0));
    if decimals > 0 {
        out.push(b'.');
        let mut rest = n.checked_rem(one).unwrap_or(0);
        let mut place = one / 10;
        while place > 0 {
            out.push(digit(rest.checked_div(place).unwrap_or(0)));
            rest = rest.checked_rem(place).unwrap_or(0);
            place /= 10;
        }
    }
}

/// Adds `0x` and a number, at least so many digits long.
#[inline]
pub(super) fn hex(out: &mut Vec<u8>, n: u64, least: u32) {
    let used = 16u32.saturating_sub(n.leading_zeros() / 4).max(least).clamp(1, 16);
    let mut text = [b'0'; 18];
    let (mut from, mut rest) = (text.len(), n);
    for (at, place) in text.iter_mut().enumerate().rev().take(usize::try_from(used).unwrap_or(16)) {
        *place = match rest & 0xF {
            d @ 0..=9 => digit(d),
            d => b'a'.wrapping_add(u8::try_from(d).unwrap_or(10).wrapping_sub(10)),
        };
        from = at;
        rest >>= 4;
    }
    let from = from.saturating_sub(1);
    if let Some(x) = text.get_mut(from) {
        *x = b'x';
    }
    out.extend_from_slice(text.get(from.saturating_sub(1)..).unwrap_or(&[]));
}

/// The character of a digit.
#[inline]
fn digit(d: u64) -> u8 {
    b'0'.wrapping_add(u8::try_from(d).unwrap_or(0))
}

/// How many characters a number takes in decimal.
pub(super) fn dec_len(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |l| usize::try_from(l).unwrap_or(0).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written() {
        for n in [0, 1, 9, 10, 99, 100, 12345, u64::MAX] {
            assert_eq!(text(|o| dec(o, n)), n.to_string());
            assert_eq!(dec_len(n), n.to_string().len());
            assert_eq!(text(|o| hex(o, n, 1)), format!("{n:#x}"));
            assert_eq!(text(|o| hex(o, n, 8)), format!("{n:#010x}"));
        }
        for (n, width) in
            [(0u64, 1), (0, 2), (7, 3), (10, 2), (123, 3), (123, 4), (1234, 5), (u64::MAX, 20), (u64::MAX, 21)]
        {
            let mut field = vec![b' '; width];
            assert!(right(n, &mut field));
            assert_eq!(String::from_utf8(field).unwrap(), format!("{n:>width$}"));
        }
        for n in 0..=1000u64 {
            assert_eq!(text(|o| dec(o, n)), n.to_string());
        }
        for (n, width) in [(0u64, 0), (10, 1), (100, 2), (1000, 3), (u64::MAX, 19)] {
            assert!(!right(n, &mut vec![b' '; width]));
        }
        assert_eq!(text(|o| signed(o, i64::MIN)), i64::MIN.to_string());
        assert_eq!(text(|o| fixed(o, -1_234_567, 3)), "-1234.567");
        assert_eq!(text(|o| fixed(o, 7, 3)), "0.007");
        assert_eq!(text(|o| fixed(o, -7, 0)), "-7");
    }
}
