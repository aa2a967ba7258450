//! `.kev` files of the trace logger: a text header, the system page, and elements without buffer headers.

use super::layout::{ELEMENT, KEV_MAGIC};
use super::parse;
use crate::abi::{Addr, Endian};
use crate::mem::Memory;

/// The key after which the system page is.
const HEADER_END: &[u8] = b"TRACE_HEADER_END::";
/// The longest text header.
const MAX_HEADER: usize = 1 << 16;
/// Bytes in which its first keys are.
const HEAD: usize = 1024;
/// So many elements in a row are no coincidence.
const ROW: usize = 8;
/// Elements whose offsets decide where all of them are: as many as the longest text header and system page are long, and as
/// many again.
const VOTERS: usize = 2 * MAX_HEADER / ELEMENT;

/// What the text header says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kev {
    /// Byte order.
    pub big: bool,
    /// Ticks in a second.
    pub cycles: Option<u64>,
    /// Number of processors.
    pub cpus: Option<u64>,
    /// Release: 64 is 6.4.
    pub release: Option<u16>,
    /// The release as it is written.
    pub release_text: String,
    /// The machine.
    pub machine: String,
    /// When it was logged.
    pub date: String,
    /// Where the system page begins.
    pub syspage: usize,
    /// Where the elements begin.
    pub events: usize,
    /// True where the text does not give the place of the elements, or gives another one than they show.
    pub repaired: bool,
}

impl Kev {
    /// Byte order.
    pub const fn endian(&self) -> Endian {
        if self.big { Endian::Big } else { Endian::Little }
    }
}

/// True where bytes begin as a file does: with its first words or, where these are damaged, with a good part of them
/// and several keys after them.
pub fn is_file(bytes: &[u8]) -> bool {
    if bytes.starts_with(KEV_MAGIC) {
        return true;
    }
    let alike = bytes.iter().zip(KEV_MAGIC).filter(|(a, b)| a == b).count();
    let head = bytes.get(..bytes.len().min(HEAD)).unwrap_or_default();
    let keys = (0..head.len()).filter(|at| head.get(*at) == Some(&b'T') && key_at(head, *at).is_some());
    alike >= KEV_MAGIC.len() / 4 && keys.take(4).count() > 2
}

/// True where a file of the trace logger is at an address.
pub(super) fn lies_at(memory: &mut dyn Memory, address: Addr) -> bool {
    let mut lens = [HEAD, 256, KEV_MAGIC.len()].into_iter();
    lens.find_map(|len| memory.read_bytes(address, len).ok()).is_some_and(|bytes| is_file(&bytes))
}

/// Reads the header of a file; `None` where it is no such file, or its header has no end.
#[expect(clippy::arithmetic_side_effects, reason = "the elements are a part of the file")]
pub fn parse(bytes: &[u8]) -> Option<Kev> {
    if !is_file(bytes) {
        return None;
    }
    let head = bytes.get(..bytes.len().min(MAX_HEADER))?;
    let mut kev = Kev::default();
    let mut syspage_len = 0usize;
    // Whether the system page's length was given, and could be read.
    let (mut order_given, mut length_given) = (false, None);
    let mut at = KEV_MAGIC.len();
    loop {
        // A key that is damaged is passed over.
        let Some((key, value)) = key_at(head, at).or_else(|| key_at(head, next_key(head, at)?)) else {
            return elements_from(bytes, None, at, order_given, kev);
        };
        if key == b"HEADER_END" {
            kev.syspage = value;
            let there = value.checked_add(syspage_len).and_then(|at| bytes.get(at..));
            // A page that ends after the file has a wrong length, or the file was cut.
            kev.events = bytes.len() - there.map_or(0, <[u8]>::len);
            let is_likely = there.is_some_and(|there| is_likely(there, kev.endian()));
            let sound = order_given && length_given == Some(true) && is_likely;
            return if sound {
                let first = first_control(bytes, value, &kev);
                (kev.repaired, kev.events) = (first != kev.events, first);
                Some(kev)
            } else {
                elements_from(bytes, None, value, order_given, kev.clone())
                    .or((length_given != Some(false)).then_some(kev))
            };
        }
        let Some(end) = next_key(head, value) else {
            // The page's length is the last key but the end, which has a length of its own.
            let rest = (key == b"SYSPAGE_LEN").then(|| head.get(value..)).flatten();
            let given = rest.and_then(page_end).and_then(|end| value.checked_add(end));
            return elements_from(bytes, given, value, order_given, kev);
        };
        let text = String::from_utf8_lossy(head.get(value..end)?).trim().to_owned();
        match key {
            b"BIG_ENDIAN" if text == "TRUE" || text == "FALSE" => (kev.big, order_given) = (text == "TRUE", true),
            b"LITTLE_ENDIAN" if text == "TRUE" => (kev.big, order_given) = (false, true),
            b"CYCLES_PER_SEC" => kev.cycles = text.parse().ok().filter(|n| *n > 0),
            b"CPU_NUM" => kev.cpus = text.parse().ok(),
            b"SYS_RELEASE" => {
                kev.release = release(&text);
                kev.release_text = text;
            }
            b"MACHINE" => kev.machine = text,
            b"DATE" => kev.date = text,
            b"SYSPAGE_LEN" => match text.parse() {
                Ok(len) => (syspage_len, length_given) = (len, Some(true)),
                Err(_) => length_given = Some(false),
            },
            _ => {}
        }
        at = end;
    }
}

/// How many elements in a row can be at the start of a trace: the first is a control event.
fn begins(bytes: &[u8], endian: Endian) -> usize {
    let control = parse::element(bytes, endian).is_ok_and(|(_, e)| e.class == 1 && matches!(e.event, 1 | 2));
    if control { row(bytes, endian) } else { 0 }
}

/// How many elements in a row make sense, up to [`ROW`].
fn row(bytes: &[u8], endian: Endian) -> usize {
    bytes.chunks_exact(ELEMENT).take(ROW).take_while(|part| is_element(part, endian)).count()
}

/// True for an element that makes sense and is not empty.
fn is_element(part: &[u8], endian: Endian) -> bool {
    parse::element(part, endian).is_ok_and(|(_, e)| e.is_sound() && !e.is_empty())
}

/// True for an element that makes sense and has a class: data that is no element mostly has none, small as its words are.
fn is_classed(part: &[u8], endian: Endian) -> bool {
    parse::element(part, endian).is_ok_and(|(_, e)| e.is_sound() && e.class != 0)
}

/// True for a row of elements that needs no control event before it.
fn is_row(bytes: &[u8], endian: Endian) -> bool {
    let parts = bytes.chunks_exact(ELEMENT).take(ROW);
    parts.take_while(|part| is_classed(part, endian)).count() == ROW
}

/// True where most of the first elements make sense, or there are none: some may be damaged.
fn is_likely(bytes: &[u8], endian: Endian) -> bool {
    let all = bytes.chunks_exact(ELEMENT).take(4 * ROW);
    let good = all.clone().filter(|part| is_element(part, endian)).count();
    good >= all.len().div_ceil(2)
}

/// Where the elements begin after the value of the system page's length, where no key can be read after it: the key that
/// ends the header follows, and the page.
fn page_end(value: &[u8]) -> Option<usize> {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let len = std::str::from_utf8(value.get(..digits)?).ok()?.parse::<usize>().ok()?;
    digits.checked_add(HEADER_END.len())?.checked_add(len)
}

/// Where the elements begin, and their byte order, where the text does not give both for certain: they show it themselves. A
/// given place is taken where it matches.
fn elements_from(bytes: &[u8], given: Option<usize>, from: usize, order_given: bool, mut kev: Kev) -> Option<Kev> {
    let last = bytes.len().min(MAX_HEADER);
    let first = |alignment: Alignment, fits: &dyn Fn(&[u8], Endian) -> bool| {
        (from..last)
            .filter(|at| at % ELEMENT == alignment.phase)
            .find(|at| bytes.get(*at..).is_some_and(|rest| fits(rest, alignment.endian)))
    };
    let enough = |rest: &[u8]| ROW.min(rest.len() / ELEMENT).max(2);
    let (at, endian) =
        alignments(bytes, from, given, order_given.then(|| kev.endian())).into_iter().find_map(|alignment| {
            // Without the control event that they begin with, damage took it.
            let found = first(alignment, &|rest, endian| begins(rest, endian) >= enough(rest))
                .or_else(|| first(alignment, &is_row))?;
            let given = given.filter(|given| *given <= found && given % ELEMENT == alignment.phase);
            Some((given.unwrap_or(found), alignment.endian))
        })?;
    (kev.syspage, kev.events, kev.big, kev.repaired) = (at, at, endian == Endian::Big, true);
    Some(kev)
}

/// Where the elements begin that the header says begin at `kev.events`, at an alignment at which there are elements: a file begins with a
/// control event. Before it no element makes sense; what is between the header's end, at `from`, and there is the page. Where
/// there is none near, damage took it, and the header is right.
fn first_control(bytes: &[u8], from: usize, kev: &Kev) -> usize {
    let endian = kev.endian();
    let is_first = |at: &usize| bytes.get(*at..).is_some_and(|rest| begins(rest, endian) == ROW);
    let is_page = |part: &[u8]| !is_classed(part, endian);
    // As far before as elements go without a gap, and as far after as there are none.
    let back = std::iter::successors(kev.events.checked_sub(ELEMENT), |at| at.checked_sub(ELEMENT));
    let back = back.take_while(|at| *at >= from && bytes.get(*at..).is_some_and(|part| !is_page(part)));
    // The place itself is the first of these.
    let ahead = (kev.events..bytes.len().min(MAX_HEADER)).step_by(ELEMENT);
    let mut ahead = ahead.take_while(|at| is_first(at) || bytes.get(*at..).is_some_and(is_page));
    // One element that makes no sense is a damaged one.
    let ahead = ahead.find(is_first).filter(|at| at.checked_sub(kev.events) != Some(ELEMENT));
    back.filter(|at| is_first(at)).last().or(ahead).unwrap_or(kev.events)
}

/// Where elements can be: they follow each other without a gap up to the end of the file.
#[derive(Clone, Copy)]
struct Alignment {
    /// The first byte, modulo the length of an element.
    phase: usize,
    endian: Endian,
}

/// All alignments, that at which most elements make sense first: damage can bring a few elements of another file that are elsewhere.
/// A place that is given counts twice, as payloads can look like elements too.
#[expect(clippy::arithmetic_side_effects, reason = "counts elements")]
fn alignments(bytes: &[u8], from: usize, given: Option<usize>, order: Option<Endian>) -> Vec<Alignment> {
    let votes = |alignment: &Alignment| {
        let skip = alignment.phase.wrapping_sub(from) % ELEMENT;
        let there = bytes.get(from..).and_then(|there| there.get(skip..)).unwrap_or_default();
        let votes = there.chunks_exact(ELEMENT).take(VOTERS).filter(|part| is_classed(part, alignment.endian)).count();
        if given.is_some_and(|given| given % ELEMENT == alignment.phase) { 2 * votes } else { votes }
    };
    let orders = [Endian::Little, Endian::Big].into_iter().filter(|endian| order.is_none_or(|order| order == *endian));
    let mut all: Vec<Alignment> =
        orders.flat_map(|endian| (0..ELEMENT).map(move |phase| Alignment { phase, endian })).collect();
    all.sort_by_cached_key(|alignment| std::cmp::Reverse(votes(alignment)));
    all
}

/// `6.4.1` is 64.
#[expect(clippy::arithmetic_side_effects, reason = "both numbers are small")]
fn release(text: &str) -> Option<u16> {
    let mut parts = text.split('.').map(|p| p.parse::<u16>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    (major < 100 && minor < 10).then_some(major * 10 + minor)
}

/// The key at `at`, and where its value begins.
#[expect(clippy::arithmetic_side_effects, reason = "the value is a part of the head")]
fn key_at(head: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = head.get(at..)?.strip_prefix(b"TRACE_")?;
    let len = rest.iter().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b'_').count();
    let (key, value) = rest.split_at_checked(len)?;
    let value = value.strip_prefix(b"::").filter(|_| len > 0)?;
    Some((key, head.len() - value.len()))
}

/// Where the next key begins: keys follow values without anything between.
fn next_key(head: &[u8], from: usize) -> Option<usize> {
    (from..head.len()).find(|at| head.get(*at) == Some(&b'T') && key_at(head, *at).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_without_separators() {
        let text = b"TRACE_HEADER_BEGIN::TRACE_FILE_NAME::/tmp/TRACE_xTRACE_DATE:: Mon\nTRACE_BIG_ENDIAN::TRUE\
                     TRACE_CYCLES_PER_SEC::2300571400TRACE_CPU_NUM::2TRACE_SYS_RELEASE::6.4.1TRACE_MACHINE::x86pc\
                     TRACE_SYSPAGE_LEN::16TRACE_HEADER_END::0123456789abcdefEVENTS";
        let kev = parse(text).unwrap();
        assert_eq!((kev.big, kev.cycles, kev.cpus), (true, Some(2_300_571_400), Some(2)));
        assert_eq!((kev.release, kev.release_text.as_str(), kev.date.as_str()), (Some(64), "6.4.1", "Mon"));
        assert_eq!(&text[kev.events..], b"EVENTS");
    }

    #[test]
    fn a_header_without_an_end_is_none() {
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::TRACE_DATE::x"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::rubbish"), None);
        assert_eq!(parse(b"TRACE_HEADER_BEGIN::TRACE_SYSPAGE_LEN::-4TRACE_HEADER_END::"), None);
    }

    /// Two control events, as a buffer begins, and elements of another class.
    fn elements(count: u32) -> Vec<u8> {
        let headers = (0..count).map(|i| [0x402, 0x401].get(i as usize).copied().unwrap_or(0x1403));
        headers
            .zip(100..)
            .flat_map(|(header, stamp)| [header, stamp, 0x0010_0007, 9])
            .flat_map(u32::to_le_bytes)
            .collect()
    }

    const TEXT: &[u8] =
        b"TRACE_HEADER_BEGIN::TRACE_DATE:: MonTRACE_CPU_NUM::2TRACE_LITTLE_ENDIAN::TRUETRACE_SYSPAGE_LEN::24T";

    /// A few elements of another file at the end of the header were taken for the first, and all were read at the wrong offset.
    #[test]
    fn elements_written_over_the_end_of_the_header_were_taken_for_the_first() {
        let mut file = [TEXT, &[b'x'; 17], &[0; 24], &elements(200)].concat();
        let start = TEXT.len() + 17 + 24;
        // Over the page and the first three elements, at an alignment of their own.
        let alien = elements(9);
        let alien = &alien[..start + 40 - (TEXT.len() + 3)];
        file[TEXT.len() + 3..start + 40].copy_from_slice(alien);
        assert_eq!(parse(&file).unwrap().events, start);
    }

    /// Nothing was read where the end of the header and the first element were lost.
    #[test]
    fn a_lost_end_of_the_header_and_first_element_hid_the_rest() {
        let text = &TEXT[..TEXT.len() - 4];
        let file = [text, &[0xEE; 70], &elements(200)[16..]].concat();
        assert_eq!(parse(&file).unwrap().events, text.len() + 70);
    }

    /// One wrong digit in the length of the system page took the first elements away, or made some of the page's bytes.
    #[test]
    fn a_wrong_length_of_the_system_page_was_believed() {
        let text = [&TEXT[..TEXT.len() - 3], b"160TRACE_HEADER_END::"].concat();
        let file = [&text[..], &[0; 160], &elements(200)].concat();
        let start = text.len() + 160;
        for (given, repaired) in
            [("160", false), ("176", true), ("192", true), ("480", true), ("128", true), ("112", true)]
        {
            let wrong = String::from_utf8_lossy(&text).replace("160", given).into_bytes();
            let kev = parse(&[&wrong[..], &file[text.len()..]].concat()).unwrap();
            assert_eq!((kev.events, kev.repaired), (start, repaired), "{given}");
        }
        // The first element is damaged: the header is right.
        let mut bytes = file.clone();
        bytes[start..start + 16].fill(0xEE);
        assert_eq!(parse(&bytes).map(|kev| kev.events), Some(start));
    }

    #[test]
    fn a_system_page_longer_than_the_file_hid_all_elements() {
        for len in ["99999", "18446744073709551615"] {
            let text = [&TEXT[..TEXT.len() - 3], len.as_bytes(), b"TRACE_HEADER_END::"].concat();
            let kev = parse(&[&text[..], &[0; 160], &elements(200)].concat()).unwrap();
            assert_eq!((kev.events, kev.repaired), (text.len() + 160, true), "{len}");
        }
    }
}
