//! Syntax: bytes to raw buffer headers and event elements, on nom. What they mean is decided elsewhere.

use nom::bytes::complete::take;
use nom::number::complete::{u32, u64};
use nom::{IResult, Parser};

use super::super::nom_order;
use super::layout::{
    self, BEING_WRITTEN, BUFFER, BUFFER_BEGINS, BUFFER_ENDS, CONTROL, COOKIE, ELEMENT, FLAGS, MAX_BUFFERS, Shape, TIME,
};
use crate::abi::{Endian, Width};

/// The header of a buffer as it is in memory. Addresses are the kernel's, and of its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawBuffer {
    /// Buffer 0 of the ring; 0 where the shape has no links.
    pub base: u64,
    /// The next buffer; 0 where the shape has no links.
    pub next: u64,
    /// Ring mode, being written, to be flushed.
    pub flags: u32,
    /// Number of elements.
    pub events: u32,
    /// Number of the buffer in the order in which buffers were begun.
    pub sequence: u32,
    /// Its place in the ring, above 13 bits that are zero.
    pub place: u32,
    /// The first element.
    pub begin: u64,
    /// After the last element.
    pub tail: u64,
}

/// Which part of an event an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole event.
    Simple,
    /// The first of several elements.
    Begin,
    /// One in the middle.
    Continue,
    /// The last.
    End,
}

/// One element of 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawElement {
    /// Which part of an event it is.
    pub part: Part,
    /// The processor that recorded it, of six bits.
    pub cpu: u8,
    /// Bits 23 to 15 of its header: zero, but for one that 8.0 uses.
    pub reserved: u16,
    /// The class, as the kernel numbers them.
    pub class: u16,
    /// The event in its class.
    pub event: u16,
    /// The low word of the clock.
    pub stamp: u32,
    /// The payload.
    pub words: [u32; 2],
}

impl RawElement {
    /// True where nothing was ever written.
    pub const fn is_empty(&self) -> bool {
        self.class == 0 && self.event == 0 && matches!(self.part, Part::Simple)
    }

    /// True where the bits that mean nothing are zero.
    pub const fn is_sound(&self) -> bool {
        // Bit 16 of the header, the second from below here, is 8.0's mark of an event that a process inserted.
        self.reserved & !0b10 == 0 && self.class < layout::CLASSES
    }
}

fn pointer(endian: Endian, width: Width) -> impl Fn(&[u8]) -> IResult<&[u8], u64> {
    move |i| match width {
        Width::W4 => u32(nom_order(endian)).map(u64::from).parse(i),
        Width::W8 => u64(nom_order(endian)).parse(i),
    }
}

/// The header of a buffer; any bytes of its size parse.
///
/// # Errors
/// Fewer bytes than a header has.
pub fn buffer(i: &[u8], endian: Endian, shape: Shape) -> IResult<&[u8], RawBuffer> {
    let (rest, i) = take(shape.header()).parse(i)?;
    let p = pointer(endian, shape.pointer());
    let w = || u32(nom_order(endian));
    let (i, (base, next)) = (&p, &p).parse(i)?;
    let (i, (flags, events, sequence)) = (w(), w(), w()).parse(i)?;
    if shape == Shape::Unlinked {
        return Ok((rest, RawBuffer { flags, events, sequence, ..RawBuffer::default() }));
    }
    let (i, (place, _spin)) = (w(), w()).parse(i)?;
    // Pointers of 8 bytes are aligned.
    let (i, _padding) = take(if shape == Shape::Wide { 4usize } else { 0 }).parse(i)?;
    let (_, (begin, tail)) = (&p, &p).parse(i)?;
    Ok((rest, RawBuffer { base, next, flags, events, sequence, place, begin, tail }))
}

/// One element; any 16 bytes parse.
///
/// # Errors
/// Fewer bytes than an element has.
pub fn element(i: &[u8], endian: Endian) -> IResult<&[u8], RawElement> {
    let w = || u32(nom_order(endian));
    let (i, (header, stamp, first, second)) = (w(), w(), w(), w()).parse(i)?;
    let part = match header >> 30 {
        0 => Part::Simple,
        1 => Part::Begin,
        2 => Part::Continue,
        _ => Part::End,
    };
    // Part 31-30, processor 29-24, reserved 23-15, class 14-10, event 9-0.
    let [high, a, b, low] = header.to_be_bytes();
    let raw = RawElement {
        part,
        cpu: high & 0x3F,
        reserved: u16::from_be_bytes([a, b]) >> 7,
        class: u16::from(b >> 2 & 0x1F),
        event: u16::from_be_bytes([b & 3, low]),
        stamp,
        words: [first, second],
    };
    Ok((i, raw))
}

impl RawBuffer {
    /// The address that the buffer gives for itself; 0 where its shape has none.
    pub const fn own(&self, shape: Shape) -> u64 {
        match shape {
            Shape::Unlinked => 0,
            _ => self.begin.wrapping_sub(shape.header() as u64) & shape.pointer().max(),
        }
    }

    /// Its place in the ring.
    pub const fn index(&self) -> u64 {
        (self.place >> 13) as u64
    }

    /// Number of elements by the pointers to the first and after the last; `None` where there cannot be so many.
    #[expect(clippy::arithmetic_side_effects, reason = "divides by a constant")]
    fn count_by_end(&self, shape: Shape) -> Option<u64> {
        let used = self.tail.wrapping_sub(self.begin) & shape.pointer().max();
        let count = used / ELEMENT as u64;
        (used.is_multiple_of(ELEMENT as u64) && count <= shape.capacity()).then_some(count)
    }

    /// Number of elements, and the most that there can be: count and end must agree, or one of them make no sense. A
    /// kernel that was stopped between writing the two leaves them one apart. `None` where the elements themselves must
    /// show how many they are.
    pub fn count(&self, shape: Shape) -> (Option<u64>, u64) {
        let most = shape.capacity();
        let by_count = Some(u64::from(self.events)).filter(|n| *n <= most);
        if shape == Shape::Unlinked {
            return (by_count, most);
        }
        match (by_count, self.count_by_end(shape)) {
            (Some(a), Some(b)) if a.abs_diff(b) <= 1 => (Some(a.min(b)), most),
            (Some(a), Some(b)) => (None, a.max(b)),
            (one, other) => (one.or(other), most),
        }
    }

    /// True for the last buffer of a ring: the next one is the first.
    pub const fn is_last(&self) -> bool {
        self.next == self.base
    }

    /// True where the fields of a linked buffer agree with each other.
    pub fn is_sound(&self, shape: Shape) -> bool {
        self.is_placed(shape) && self.count_by_end(shape) == Some(self.events.into())
    }

    /// True where the header gives a possible place in the ring, whatever its counts are.
    pub fn is_placed(&self, shape: Shape) -> bool {
        let within = |pointer: u64| pointer.wrapping_sub(self.base) & shape.pointer().max();
        let own = self.own(shape);
        shape != Shape::Unlinked
            && own.trailing_zeros() >= 12
            && self.place.trailing_zeros() >= 13
            && self.index() < MAX_BUFFERS
            && within(own) == layout::behind(self.index())
            && (self.is_last() || within(self.next) == layout::behind(self.index().wrapping_add(1)))
    }
}

/// The shape and byte order of a buffer that gives a possible place in a ring, whatever its counts are: for an address
/// that the user gave.
pub fn placed(bytes: &[u8]) -> Option<(Shape, Endian, RawBuffer)> {
    let all = [Shape::Narrow, Shape::Wide].into_iter().flat_map(|s| [(s, Endian::Little), (s, Endian::Big)]);
    let mut read = all.filter_map(|(shape, endian)| Some((shape, endian, buffer(bytes, endian, shape).ok()?.1)));
    read.find(|(shape, _, raw)| raw.is_placed(*shape))
}

/// The shape and byte order in which `bytes` begin with a buffer that is consistent with itself, with its header.
pub fn detect(bytes: &[u8]) -> Option<(Shape, Endian, RawBuffer)> {
    for shape in Shape::ALL {
        for endian in [Endian::Little, Endian::Big] {
            let Ok((events, raw)) = buffer(bytes, endian, shape) else { continue };
            let sound = match shape {
                Shape::Unlinked => is_unlinked(&raw, events, endian),
                _ => raw.is_placed(shape) && raw.count(shape).0.is_some() && begins_well(&raw, events, endian),
            };
            if sound {
                return Some((shape, endian, raw));
            }
        }
    }
    None
}

/// True where the first element can be the first of a buffer: of a known class, with no stray bits. True also where no
/// bytes follow the header.
fn begins_well(raw: &RawBuffer, events: &[u8], endian: Endian) -> bool {
    raw.events == 0
        || element(events, endian).is_ok_and(|(_, e)| e.is_sound() && !e.is_empty())
        || events.len() < ELEMENT
}

/// A buffer without links is known by its first and its last event.
fn is_unlinked(raw: &RawBuffer, events: &[u8], endian: Endian) -> bool {
    let count = u64::from(raw.events);
    if count == 0 || count > Shape::Unlinked.capacity() || raw.flags & !FLAGS != 0 {
        return false;
    }
    let Ok((_, first)) = element(events, endian) else { return false };
    let control = |e: &RawElement| e.part == Part::Simple && e.class == CONTROL && e.reserved == 0;
    if !control(&first) || !(first.event == TIME || first.event == BUFFER_BEGINS) {
        return false;
    }
    let last = (raw.events as usize).checked_sub(1).and_then(|n| events.chunks_exact(ELEMENT).nth(n));
    let Some(Ok((_, last))) = last.map(|bytes| element(bytes, endian)) else {
        // The bytes end before the buffer does.
        return events.len() < BUFFER && raw.flags & BEING_WRITTEN != 0;
    };
    let ends = control(&last) && last.event == BUFFER_ENDS && last.words.iter().all(|w| u64::from(*w) == COOKIE);
    ends || (raw.flags & BEING_WRITTEN != 0 && last.is_sound() && !last.is_empty())
}

/// True where a header at the start of `bytes` may be one: a look at two words, before all of it is parsed.
pub fn may_be_buffer(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<48>() else { return false };
    // The pointer to the first event ends in the size of the header, as buffers are page aligned.
    let ends = |low: u8, high: u8, size: u8| low == size && high & 0xF == 0;
    if ends(head[28], head[29], 0xA0)
        || ends(head[31], head[30], 0xA0)
        || ends(head[40], head[41], 0xB8)
        || ends(head[47], head[46], 0xB8)
    {
        return true;
    }
    // The first event is a control event.
    let Some(first) = bytes.get(208..212) else { return false };
    matches!(first, [1 | 2, 4, 0, cpu] | [cpu, 0, 4, 1 | 2] if cpu & 0xC0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u32], big: bool) -> Vec<u8> {
        values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
    }

    /// A header as the reference gives it, in numbers.
    fn narrow(big: bool) -> Vec<u8> {
        let mut b = words(&[0xE7DF_7000, 0xE7DF_B000, 0x1_0000, 2, 1, 0, 0, 0xE7DF_70A0, 0xE7DF_70C0], big);
        b.resize(160, 0);
        b.extend(words(&[0x402, 1, 1, 0, 0x401, 1, 10, 0], big));
        b
    }

    #[test]
    fn detects_both_byte_orders() {
        for big in [false, true] {
            let (shape, endian, raw) = detect(&narrow(big)).unwrap();
            assert_eq!((shape, endian == Endian::Big), (Shape::Narrow, big));
            assert_eq!((raw.events, raw.sequence, raw.index(), raw.own(shape)), (2, 1, 0, 0xE7DF_7000));
            assert!(may_be_buffer(&narrow(big)));
        }
    }

    #[test]
    fn a_count_that_disagrees_is_no_header_but_keeps_its_place() {
        let mut b = narrow(false);
        b[12] = 9;
        assert!(detect(&b).is_none() && placed(&b).is_some());
        let (_, raw) = buffer(&b, Endian::Little, Shape::Narrow).unwrap();
        assert!(raw.is_placed(Shape::Narrow) && !raw.is_sound(Shape::Narrow));
    }

    #[test]
    fn rubbish_is_no_header() {
        for byte in [0u8, 0xFF, 0xA0, 0x5A] {
            assert!(detect(&[byte; 512]).is_none(), "{byte:#x}");
        }
        assert!(detect(&[]).is_none());
    }

    #[test]
    fn an_element_is_four_words() {
        let (_, e) = element(&words(&[0xC500_10C0, 7, 8, 9], false), Endian::Little).unwrap();
        assert_eq!((e.part, e.cpu, e.class, e.event, e.stamp, e.words), (Part::End, 5, 4, 192, 7, [8, 9]));
        assert!(e.is_sound());
        let (_, e) = element(&words(&[0x0002_0402, 0, 0, 0], true), Endian::Big).unwrap();
        assert!(!e.is_sound());
    }
}
