//! Lines of an address and what is there, as GDB (`x/64xb`, `x/64xw`), OpenOCD (`mdw`), J-Link (`mem32`), U-Boot
//! (`md`), LLDB, `xxd` and `hexdump -C` print them. Other lines, of the session around them, are passed over.
//!
//! ```text
//! 0x20000000 <buf>:    0x54585442  0xffffffff                   GDB
//! 0x20000000: 54585442 ffffffff                                 OpenOCD
//! 20000000 = 42 54 58 54 FF FF FF FF                            J-Link
//! 20000000: 54585442 ffffffff    BTXT....                       U-Boot
//! 00000000: 4254 5854 ffff ffff  BTXT....                       xxd
//! 00000000  42 54 58 54 ff ff ff ff  00 00 00 00  |BTXT........|   hexdump -C
//! ```
//!
//! Two digits are a byte. More are a word, whose byte order the characters beside it show where there are any: they
//! are in the order of memory. Without them it is the target's; only `xxd`'s own groups of bytes are in the order of memory too.

use super::collect::Collector;
use super::text::{OrderKnown, Words, Wrong, lines, nibble};
use crate::abi::{Addr, Endian, Region};

/// The most bytes of one line: `xxd -c 256`.
const MAX_BYTES: usize = 256;
/// The most bytes that repeated lines (`*`) make of one file: far more than a microcontroller has.
const MAX_REPEATED: u64 = 64 << 20;

/// What a line says.
struct Line<'a> {
    address: Addr,
    /// In the order of the digits.
    bytes: &'a [u8],
    /// Bytes of a group; the last one may be shorter.
    unit: u8,
    /// What is after the groups, blanks and all.
    text: &'a [u8],
    /// Written with `0x`, or with `=`: by a debugger, so that groups are words.
    debugger: bool,
}

/// Takes digits from the front: their value, their number, and the rest.
fn digits(text: &[u8]) -> (u64, usize, &[u8]) {
    let count = text.iter().position(|c| nibble(*c).is_none()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(count).unwrap_or((text, &[]));
    (digits.iter().filter_map(|d| nibble(*d)).fold(0, |value, d| value << 4 | u64::from(d)), count, rest)
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|c| !matches!(c, b' ' | b'\t')).unwrap_or(text.len());
    text.get(start..).unwrap_or(&[])
}

/// `None` for what has no address in front; `Some(None)` where something else is after it.
fn parse<'a>(line: &'a [u8], buffer: &'a mut [u8; MAX_BYTES]) -> Option<Option<Line<'a>>> {
    let mut line = line;
    // What GDB writes when its commands come from a pipe.
    while let Some(rest) = line.strip_prefix(b"(gdb) ") {
        line = rest;
    }
    let marked = line.strip_prefix(b"0x").or_else(|| line.strip_prefix(b"0X"));
    let (address, count, rest) = digits(marked.unwrap_or(line));
    // Without 0x a few digits are a time of day, or a list.
    if count > 16 || count < if marked.is_some() { 1 } else { 6 } {
        return None;
    }
    let (rest, debugger) = behind_address(rest, marked.is_some(), count)?;
    let mut line = Line { address, bytes: &[], unit: 0, text: &[], debugger };
    let held = groups(rest, &mut line, buffer).and_then(|held| buffer.get(..held));
    Some(held.map(|bytes| Line { bytes, ..line }))
}

/// Passes over what parts the address from the groups: `<symbol+4>:`, `:`, `=`, or two blanks (`hexdump -C`).
fn behind_address(rest: &[u8], marked: bool, count: usize) -> Option<(&[u8], bool)> {
    let blank = |c: Option<&u8>| matches!(c, None | Some(b' ' | b'\t'));
    let plain = rest.strip_prefix(b"  ").filter(|r| !marked && count >= 8 && !blank(r.first()));
    if let Some(groups) = plain.filter(|r| r.first().is_some_and(|c| nibble(*c).is_some())) {
        return Some((groups, false));
    }
    let mut rest = without_blanks(rest);
    if rest.first() == Some(&b'<') {
        // A C++ name holds `>` itself; the last one before a colon ends it.
        let end = rest.windows(2).rposition(|w| w == b">:")?;
        (_, rest) = rest.get(end..)?.split_first()?;
    }
    let (first, rest) = rest.split_first()?;
    let equals = *first == b'=';
    ((*first == b':' || equals) && blank(rest.first())).then_some((without_blanks(rest), marked || equals))
}

/// The groups, in the order of their digits, and what is after them; how many bytes they are. `None` where what begins as
/// a group is none, or has another width than the first.
#[allow(clippy::arithmetic_side_effects, reason = "counts bytes and groups of one line; a unit has 8 bytes at most")]
fn groups<'a>(text: &'a [u8], line: &mut Line<'a>, buffer: &mut [u8; MAX_BYTES]) -> Option<usize> {
    let (mut rest, mut held, mut count) = (text, 0, 0_usize);
    loop {
        let marked = rest.strip_prefix(b"0x");
        let (value, digits, behind) = digits(marked.unwrap_or(rest));
        let unit = u8::try_from(digits / 2).ok()?;
        let ends = behind.iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
        let whole = matches!(digits, 2 | 4 | 8 | 16) && (ends > 0 || behind.is_empty());
        // The last bytes of `xxd`. A line that is cut short has no characters after it.
        let last = count > 0 && unit < line.unit && !line.debugger && ends > 1 && ends < behind.len();
        if !whole || !(count == 0 || unit == line.unit || last) {
            return None;
        }
        if count == 0 {
            line.unit = unit;
        }
        let bytes = value.to_be_bytes();
        let bytes = bytes.get(bytes.len() - usize::from(unit)..)?;
        buffer.get_mut(held..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        held += bytes.len();
        count += 1;
        rest = behind.get(ends..)?;
        // `hexdump -C` leaves two blanks after eight bytes; any other wide gap ends the groups.
        let middle = ends == 2 && line.unit == 1 && count.is_multiple_of(8) && count < 16 && {
            let next = rest.first_chunk::<3>();
            next.is_some_and(|[a, b, c]| nibble(*a).is_some() && nibble(*b).is_some() && *c == b' ')
        };
        let tabbed = behind.first() == Some(&b'\t');
        if rest.is_empty() || last || !(ends == 1 || tabbed || middle || marked.is_some()) {
            line.text = behind;
            return Some(held);
        }
        // One blank and no digit: the text of LLDB and others, or the session's own words.
        if marked.is_none() && nibble(*rest.first()?).is_none() {
            line.text = behind;
            return Some(held);
        }
    }
}

/// True for a line of a dump.
pub(super) fn is_line(line: &[u8]) -> bool {
    matches!(parse(line, &mut [0; MAX_BYTES]), Some(Some(_)))
}

/// What the characters beside the words say of their order.
#[derive(Default)]
struct Votes {
    /// Digits are in the order of memory.
    in_order: u64,
    /// The bytes of each word are the other way round.
    reversed: u64,
    /// Lines as only `xxd` writes them, and as boot loaders do.
    xxd: u64,
    boards: u64,
    /// Lines with words.
    words: u64,
}

impl Votes {
    #[allow(clippy::arithmetic_side_effects, reason = "counts words of a file that is held in memory")]
    /// `open`: nothing but the end of the file ends the line, so that its characters may be cut.
    fn count(&mut self, line: &Line<'_>, open: bool) {
        if line.unit < 2 {
            return;
        }
        self.words += 1;
        // Two blanks (U-Boot: four), and characters that may be blank themselves. A short line has more in front.
        let (text, apart) = match line.text.strip_prefix(b"    ") {
            Some(text) => (text, 4),
            None => (line.text.strip_prefix(b"  ").unwrap_or(line.text), 2),
        };
        self.xxd += u64::from(!line.debugger && line.unit == 2 && apart == 2 && text.len() > 1);
        self.boards += u64::from(apart == 4 && !text.starts_with(b" "));
        let bare = without_blanks(text);
        // How many of the blanks in front are characters is not known then.
        if open && bare.len() < line.bytes.len() {
            return;
        }
        let text = if bare.len() == line.bytes.len() { bare } else { text.strip_prefix(b"|").unwrap_or(text) };
        let shown = |byte: u8| if (0x20..0x7F).contains(&byte) { byte } else { b'.' };
        let unit = usize::from(line.unit);
        for (word, chars) in line.bytes.chunks_exact(unit).zip(text.chunks_exact(unit)) {
            let in_order = word.iter().map(|b| shown(*b)).eq(chars.iter().copied());
            let reversed = word.iter().rev().map(|b| shown(*b)).eq(chars.iter().copied());
            match (in_order, reversed) {
                (true, false) => self.in_order += 1,
                (false, true) => self.reversed += 1,
                _ => {}
            }
        }
    }

    fn decide(&self, given: Option<Endian>) -> Option<Words> {
        if self.words == 0 {
            return None;
        }
        let (order, known) = if self.in_order != self.reversed {
            let in_order = self.in_order > self.reversed;
            (if in_order { Endian::Big } else { Endian::Little }, OrderKnown::Text)
        } else if self.xxd > 0 && self.boards == 0 {
            (Endian::Big, OrderKnown::Text)
        } else {
            given.map_or((Endian::Little, OrderKnown::Assumed), |order| (order, OrderKnown::Given))
        };
        Some(Words { order, known })
    }
}

/// Reads all lines; how words became bytes. `given` is the target's byte order, where it is known.
pub(super) fn read(bytes: &[u8], given: Option<Endian>, memory: &mut Collector) -> Option<Words> {
    let mut buffer = [0; MAX_BYTES];
    let mut votes = Votes::default();
    let mut repeat = Repeat::default();
    for (number, text) in lines(bytes) {
        if text == b"*" {
            repeat.begin(number, memory);
            continue;
        }
        // Nothing but the end of the file ends this line: its last word may be half a one.
        let open = text.as_ptr_range().end == bytes.as_ptr_range().end;
        let line = match parse(text, &mut buffer) {
            Some(Some(line)) if !(open && repeat.unit > line.unit) => line,
            Some(_) => {
                memory.flaws.add(Wrong::Line, number);
                continue;
            }
            None => {
                // `hexdump` ends with the address after its last byte.
                let (address, count, rest) = digits(text);
                if rest.is_empty() && (7..=16).contains(&count) {
                    repeat.until(address, memory);
                }
                continue;
            }
        };
        repeat.until(line.address, memory);
        votes.count(&line, open);
        let words = line.bytes.chunks_exact(usize::from(line.unit).max(1));
        let rest = words.remainder();
        let whole = line.bytes.strip_suffix(rest).unwrap_or(line.bytes);
        memory.push(line.address, whole, line.unit, number);
        if let Some(behind) = line.address.checked_add(whole.len() as u64) {
            memory.push(behind, rest, u8::try_from(rest.len()).unwrap_or(1), number);
        }
        repeat.last.clear();
        repeat.last.extend_from_slice(line.bytes);
        repeat.unit = line.unit;
        repeat.behind = line.address.checked_add(line.bytes.len() as u64);
    }
    repeat.give_up(memory);
    let words = votes.decide(given);
    if words.is_some_and(|w| w.order == Endian::Little) {
        memory.swap_words();
    }
    words
}

/// `*`: the line before it, again and again, up to the next address.
#[derive(Default)]
struct Repeat {
    last: Vec<u8>,
    /// Bytes of its groups.
    unit: u8,
    /// The address after the last line; `None` at the end of the address space.
    behind: Option<Addr>,
    /// Line of the `*` that waits for its end.
    pending: Option<u64>,
    made: u64,
}

impl Repeat {
    fn begin(&mut self, line: u64, memory: &mut Collector) {
        if self.last.is_empty() || self.pending.is_some() {
            memory.flaws.add(Wrong::Repeat, line);
        } else {
            self.pending = Some(line);
        }
    }

    fn until(&mut self, address: Addr, memory: &mut Collector) {
        let Some(line) = self.pending.take() else { return };
        let size = self.last.len();
        let region = self.behind.and_then(|start| Some(Region { start, len: address.checked_sub(start)? }));
        let sound = |r: &Region| r.len.is_multiple_of(size as u64) && r.len <= MAX_REPEATED.saturating_sub(self.made);
        let Some(region) = region.filter(sound) else {
            return memory.flaws.add(Wrong::Repeat, line);
        };
        // At most `MAX_REPEATED`.
        self.made = self.made.saturating_add(region.len);
        for at in (region.start..address).step_by(size.max(1)) {
            memory.push(at, &self.last, self.unit, line);
        }
    }

    fn give_up(&mut self, memory: &mut Collector) {
        if let Some(line) = self.pending.take() {
            memory.flaws.add(Wrong::Repeat, line);
        }
    }
}
