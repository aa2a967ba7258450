//! Bytes as hexadecimal digits and nothing else, as `xxd -p` prints them: lines of one length, of which only the last is
//! shorter, or a single line. They hold no address.

use super::collect::Collector;
use super::text::{Wrong, lines, nibble, unhex};

/// The digits of a line that `xxd -p` prints unasked.
const USUAL: usize = 60;
/// The shortest and the longest line of several: words and addresses are shorter, and `xxd -c 256` prints no longer.
const WIDTHS: std::ops::RangeInclusive<usize> = 32..=512;
/// Digits of checksums, which are kept in lists.
const CHECKSUMS: [usize; 6] = [32, 40, 56, 64, 96, 128];
/// So many lines are no list of checksums.
const NO_LIST: usize = 64;
/// A single line is a dump from so many digits on.
const SINGLE: usize = 192;
/// One line in so many may be damaged.
const TOLERANCE: usize = 16;

/// True for pairs of digits and nothing else.
fn is_digits(line: &[u8]) -> bool {
    line.len().is_multiple_of(2) && line.iter().all(|c| nibble(*c).is_some())
}

/// True for text that is such a dump. `cut` is true where it ends within a line.
pub(super) fn is_dump(text: &[u8], cut: bool) -> bool {
    let all: Vec<&[u8]> = lines(text).map(|(_, line)| line).collect();
    let Some((last, before)) = all.split_last() else { return false };
    let Some(first) = before.first().filter(|line| is_digits(line)) else {
        let even = last.get(..last.len() & !1).filter(|_| cut).unwrap_or(last);
        return before.is_empty() && even.len() >= SINGLE && is_digits(even);
    };
    let width = first.len();
    let list = CHECKSUMS.contains(&width) && all.len() < NO_LIST;
    let usual = width == USUAL || (WIDTHS.contains(&width) && !list);
    let damaged = before.iter().filter(|line| line.len() != width || !is_digits(line)).count();
    let ends = cut || (last.len() <= width && is_digits(last));
    usual && ends && damaged <= all.len() / TOLERANCE
}

/// Reads all lines. A line that is damaged leaves a gap of its length.
pub(super) fn read(text: &[u8], memory: &mut Collector) {
    let mut all = lines(text).peekable();
    let width = all.peek().map_or(0, |(_, line)| line.len());
    let mut bytes = Vec::new();
    let mut addresses = (0..).step_by((width / 2).max(1));
    while let Some(((number, line), at)) = all.next().and_then(|line| Some((line, addresses.next()?))) {
        let is_last = all.peek().is_none();
        if is_digits(line) && (line.len() == width || is_last && line.len() < width) {
            bytes.resize(line.len() / 2, 0);
            memory.push(at, unhex(line, &mut bytes).unwrap_or_default(), 1, number);
        } else {
            memory.flaws.add(Wrong::Line, number);
        }
    }
}
