//! Parses headers and registry entries as they are stored, with nom. Other modules decide what they mean.

use nom::bytes::complete::take;
use nom::number::Endianness;
use nom::number::complete::{u8 as byte, u16, u32, u64};
use nom::{IResult, Parser};

use super::layout::{self, MAGIC};
use crate::abi::{Endian, Width};

/// The header as it is stored: pointers are of the stored width, and cut to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `TXTB` in a sound header.
    pub id: u64,
    /// Valid bits of a time stamp.
    pub time_mask: u64,
    /// The header's own address.
    pub base: u64,
    /// First registry entry.
    pub registry_start: u64,
    /// Bytes of an object's name.
    pub name_size: u16,
    /// One past the last registry entry.
    pub registry_end: u64,
    /// First trace entry.
    pub buffer_start: u64,
    /// One past the last trace entry.
    pub buffer_end: u64,
    /// Where the next event goes.
    pub current: u64,
    /// True where the three words after the pointers are those that the kernel puts there.
    pub marked: bool,
}

/// One registry entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEntry<'a> {
    /// 1 where the slot is free: never used, or its object was unregistered.
    pub available: u8,
    /// Object type, 0 where never used.
    pub kind: u8,
    /// 0x80 and the high bits of a thread's priority.
    pub reserved1: u8,
    /// The low bits of a thread's priority.
    pub reserved2: u8,
    /// The object's control block.
    pub pointer: u64,
    /// First parameter.
    pub param1: u64,
    /// Second parameter.
    pub param2: u64,
    /// The name's bytes, terminator and stale tail included.
    pub name: &'a [u8],
}

const fn order(endian: Endian) -> Endianness {
    match endian {
        Endian::Little => Endianness::Little,
        Endian::Big => Endianness::Big,
    }
}

fn word(endian: Endian, width: Width) -> impl Fn(&[u8]) -> IResult<&[u8], u64> {
    move |i| match width {
        Width::W4 => u32(order(endian)).map(u64::from).parse(i),
        Width::W8 => u64(order(endian)).parse(i),
    }
}

/// The header; any bytes of its size parse.
///
/// # Errors
/// Fewer bytes than a header has.
pub fn parse(i: &[u8], endian: Endian, width: Width) -> IResult<&[u8], Header> {
    let w = word(endian, width);
    let (i, (id, time_mask, base, registry_start)) = (&w, &w, &w, &w).parse(i)?;
    let (i, (_reserved1, name_size)) = (u16(order(endian)), u16(order(endian))).parse(i)?;
    let (i, _padding) = take(width.bytes().saturating_sub(4)).parse(i)?;
    let (i, (registry_end, buffer_start, buffer_end, current)) = (&w, &w, &w, &w).parse(i)?;
    let (i, marks) = (&w, &w, &w).parse(i)?;
    let marked = marks == layout::MARKS;
    Ok((
        i,
        Header {
            id,
            time_mask,
            base,
            registry_start,
            name_size,
            registry_end,
            buffer_start,
            buffer_end,
            current,
            marked,
        },
    ))
}

/// One registry entry with a name of `name_size` bytes, and the padding after it.
///
/// # Errors
/// Fewer bytes than an entry has.
pub fn entry(i: &[u8], endian: Endian, width: Width, name_size: u16) -> IResult<&[u8], RegistryEntry<'_>> {
    let w = word(endian, width);
    let (i, (available, kind, reserved1, reserved2)) = (byte, byte, byte, byte).parse(i)?;
    let (i, _padding) = take(width.bytes().saturating_sub(4)).parse(i)?;
    let (i, (pointer, param1, param2)) = (&w, &w, &w).parse(i)?;
    let (i, name) = take(usize::from(name_size)).parse(i)?;
    let padding = layout::object_size(width, name_size)
        .saturating_sub(layout::object_head(width).saturating_add(usize::from(name_size)));
    let (i, _padding) = take(padding).parse(i)?;
    Ok((i, RegistryEntry { available, kind, reserved1, reserved2, pointer, param1, param2, name }))
}

impl Header {
    /// Bytes from the header's start to where this pointer leads. Pointers are used only as differences: on a 64-bit
    /// target with a 32-bit `ULONG` they are low halves.
    pub const fn offset(&self, pointer: u64, width: Width) -> u64 {
        pointer.wrapping_sub(self.base) & width.max()
    }

    /// True where the fields agree with each other: the magic, the header's size between base and registry, and a
    /// registry and a ring that directly follow each other, the ring of whole entries.
    pub fn is_sound(&self, width: Width) -> bool {
        let (registry, registry_end) = (self.offset(self.registry_start, width), self.offset(self.registry_end, width));
        let (start, end) = (self.offset(self.buffer_start, width), self.offset(self.buffer_end, width));
        self.id == u64::from(MAGIC)
            && registry == layout::header_size(width) as u64
            && registry <= registry_end
            && registry_end == start
            && start < end
            && end <= MAX_BUFFER
            && end.wrapping_sub(start).is_multiple_of(layout::entry_size(width) as u64)
    }

    /// True where the time mask is one of a clock: that of every port has all bits below its highest.
    pub const fn has_clock(&self) -> bool {
        self.time_mask != 0 && self.time_mask & self.time_mask.wrapping_add(1) == 0
    }

    /// True where all but the current pointer is as in another header: it is that of the same trace.
    pub fn is_of_trace(&self, other: &Self) -> bool {
        let Self { current, marked, .. } = *other;
        Self { current, marked, ..*self } == *other
    }

    /// True where the registry directly follows the header, as it does.
    pub(super) fn leads_to_registry(&self, width: Width) -> bool {
        self.offset(self.registry_start, width) == layout::header_size(width) as u64
    }

    /// How much of what the kernel always writes is there: 13 in a whole header, of which the first word is 4. 0 where
    /// neither that, nor the marks, nor the registry after the header show one.
    pub(super) fn evidence(&self, width: Width) -> u32 {
        let named = self.id == u64::from(MAGIC);
        let behind = self.leads_to_registry(width);
        let adjoin = self.registry_end == self.buffer_start && self.buffer_start != 0;
        let ring = self.buffer_end.checked_sub(self.buffer_start).filter(|len| (1..=MAX_BUFFER).contains(len));
        let whole = ring.is_some_and(|len| len.is_multiple_of(layout::entry_size(width) as u64));
        let inside = self.buffer_start <= self.current && self.current < self.buffer_end;
        let names = (1..=layout::MAX_NAME).contains(&self.name_size);
        let signs = [(named, 4), (self.marked, 2), (behind, 2), (adjoin, 2), (whole, 1), (inside, 1), (names, 1)];
        let sum = signs.iter().filter(|(is_so, _)| *is_so).map(|(_, weight)| weight).sum();
        if named || self.marked || behind { sum } else { 0 }
    }
}

/// The largest buffer that is believed: 4 GiB hold 134 million events.
pub const MAX_BUFFER: u64 = 1 << 32;

/// So much evidence makes a header: the first word and one thing more, or two others and what follows from them.
const ENOUGH: u32 = 5;

/// The header that `bytes` begin with, in the byte order and width in which it is sound, or else in which most of it is
/// there.
pub fn detect(bytes: &[u8]) -> Option<(Endian, Width, Header)> {
    let mut best = None;
    for width in [Width::W4, Width::W8] {
        for endian in [Endian::Little, Endian::Big] {
            let Ok((_, header)) = parse(bytes, endian, width) else { continue };
            if header.is_sound(width) {
                return Some((endian, width, header));
            }
            // Partly overwritten.
            let evidence = header.evidence(width);
            if evidence >= ENOUGH && best.as_ref().is_none_or(|(most, _)| evidence > *most) {
                best = Some((evidence, (endian, width, header)));
            }
        }
    }
    best.map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header stated byte by byte, as the reference gives it.
    fn bytes32(be: bool) -> Vec<u8> {
        let mut b = Vec::new();
        let mut w = |v: u32| b.extend(if be { v.to_be_bytes() } else { v.to_le_bytes() });
        for v in [0x5458_5442, 0xFFFF, 0x2000_0100, 0x2000_0130] {
            w(v);
        }
        w(if be { 0x0000_0020 } else { 0x0020_0000 });
        for v in [0x2000_0160, 0x2000_0160, 0x2000_01A0, 0x2000_0180, 0xAAAA_AAAA, 0xBBBB_BBBB, 0xCCCC_CCCC] {
            w(v);
        }
        b
    }

    #[test]
    fn detects_both_orders_of_the_narrow_header() {
        for be in [false, true] {
            let (endian, width, raw) = detect(&bytes32(be)).unwrap();
            assert_eq!((endian == Endian::Big, width), (be, Width::W4));
            assert_eq!((raw.name_size, raw.time_mask), (32, 0xFFFF));
            assert!(raw.is_sound(width));
        }
    }

    #[test]
    fn detects_both_orders_of_the_wide_header() {
        for be in [false, true] {
            let mut b = Vec::new();
            let mut w = |v: u64| b.extend(if be { v.to_be_bytes() } else { v.to_le_bytes() });
            for v in [0x5458_5442, 0xFFFF_FFFF, 0x8000_1000, 0x8000_1060] {
                w(v);
            }
            w(if be { 0x0000_0020_0000_0000 } else { 0x0020_0000 });
            for v in [0x8000_10A0, 0x8000_10A0, 0x8000_1120, 0x8000_10E0, 1, 2, 3] {
                w(v);
            }
            assert_eq!(b.len(), 96);
            let (endian, width, raw) = detect(&b).unwrap();
            assert_eq!((endian == Endian::Big, width, raw.name_size), (be, Width::W8, 32));
        }
    }

    #[test]
    fn rubbish_is_no_header() {
        assert!(detect(&[0; 96]).is_none());
        assert!(detect(b"BTXT").is_none());
        assert!(detect(&[0xFF; 96]).is_none());
    }
}
