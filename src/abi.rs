//! What a number means on the target: its address space, byte order and word width.

/// An address on the target. 64 bits hold those of every target; a 32-bit one leaves the upper half zero.
pub type Addr = u64;

/// The last address of `len` bytes, `addr` itself for none; `None` where they pass the end of the address space.
pub fn last_address(addr: Addr, len: usize) -> Option<Addr> {
    Region { start: addr, len: len.max(1) as u64 }.last()
}

/// A range of addresses. Its length is from outside: each method says what it gives for a range that is empty or passes
/// the end of the address space, and none of them wraps or cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: Addr,
    /// Number of bytes.
    pub len: u64,
}

impl Region {
    /// From one address to another, both included; `None` for all of the address space, and where `last` is lower.
    pub fn between(start: Addr, last: Addr) -> Option<Self> {
        Some(Self { start, len: last.checked_sub(start)?.checked_add(1)? })
    }

    /// The last address; `None` for an empty range, and for one that passes the end of the address space.
    pub fn last(self) -> Option<Addr> {
        self.start.checked_add(self.len.checked_sub(1)?)
    }

    /// How far after the start an address is; `None` outside.
    pub fn offset_of(self, address: Addr) -> Option<u64> {
        address.checked_sub(self.start).filter(|offset| *offset < self.len)
    }

    /// True where an address is in it.
    pub fn contains(self, address: Addr) -> bool {
        self.offset_of(address).is_some()
    }

    /// True where two ranges share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.len > 0 && other.contains(self.start) || other.len > 0 && self.contains(other.start)
    }

    /// True where all of it is in another range; an empty one may also be at its end.
    pub fn is_within(self, outer: Self) -> bool {
        let offset = self.start.checked_sub(outer.start);
        offset.and_then(|offset| outer.len.checked_sub(offset)).is_some_and(|room| self.len <= room)
    }
}

/// First and last address, for messages.
/// Joins sorted ranges, of first and last address, that touch or overlap.
pub fn join(spans: impl IntoIterator<Item = (Addr, Addr)>) -> Vec<(Addr, Addr)> {
    let mut joined: Vec<(Addr, Addr)> = Vec::new();
    for (start, last) in spans {
        match joined.last_mut() {
            Some(before) if start.checked_sub(1).is_none_or(|behind| behind <= before.1) => {
                before.1 = before.1.max(last);
            }
            _ => joined.push((start, last)),
        }
    }
    joined
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.last() {
            Some(last) => write!(f, "{:#x} to {last:#x}", self.start),
            None => write!(f, "{} bytes from {:#x} on", self.len, self.start),
        }
    }
}

/// The target's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Size of a word (ThreadX `ULONG`, or a pointer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Four bytes.
    W4,
    /// Eight bytes.
    W8,
}

impl Width {
    /// The width of `bytes` bytes; `None` for anything but 4 and 8.
    pub const fn from_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            4 => Some(Self::W4),
            8 => Some(Self::W8),
            _ => None,
        }
    }

    /// Number of bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::W4 => 4,
            Self::W8 => 8,
        }
    }

    /// Number of bytes, as a distance between addresses.
    pub const fn size(self) -> u64 {
        self.bytes() as u64
    }

    /// The largest value that fits.
    pub const fn max(self) -> u64 {
        match self {
            Self::W4 => 0xFFFF_FFFF,
            Self::W8 => u64::MAX,
        }
    }
}

impl Width {
    /// The address `by` above another, in an address space of this width. It wraps: a program may be loaded below its own
    /// addresses.
    pub const fn moved(self, address: Addr, by: u64) -> Addr {
        address.wrapping_add(by) & self.max()
    }

    /// The reverse of [`Width::moved`].
    pub const fn moved_back(self, address: Addr, by: u64) -> Addr {
        address.wrapping_sub(by) & self.max()
    }
}

impl Endian {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
        }
    }

    /// Two bytes at `offset`; `None` past the end.
    pub fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let end = offset.checked_add(2)?;
        let b: [u8; 2] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        })
    }

    /// Four bytes at `offset`; `None` past the end.
    pub fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let end = offset.checked_add(4)?;
        let b: [u8; 4] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        })
    }

    /// Eight bytes at `offset`; `None` past the end.
    pub fn u64(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        let b: [u8; 8] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        })
    }

    /// The bytes of a word; what does not fit into `width` is cut off.
    pub fn bytes(self, width: Width, word: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = word.to_le_bytes().into_iter().take(width.bytes()).collect();
        if self == Self::Big {
            bytes.reverse();
        }
        bytes
    }

    /// One word of `width` at `offset`, zero-extended; `None` past the end.
    pub fn word(self, width: Width, bytes: &[u8], offset: usize) -> Option<u64> {
        match width {
            Width::W4 => self.u32(bytes, offset).map(u64::from),
            Width::W8 => self.u64(bytes, offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_both_orders_and_widths() {
        let b = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Endian::Little.word(Width::W4, &b, 0), Some(0x0403_0201));
        assert_eq!(Endian::Big.word(Width::W4, &b, 4), Some(0x0506_0708));
        assert_eq!(Endian::Big.word(Width::W8, &b, 0), Some(0x0102_0304_0506_0708));
        assert_eq!(Endian::Little.u16(&b, 6), Some(0x0807));
    }

    #[test]
    fn regions_at_the_end_of_the_address_space() {
        let region = |start, len| Region { start, len };
        let top = region(Addr::MAX - 3, 4);
        assert_eq!((top.last(), top.offset_of(Addr::MAX)), (Some(Addr::MAX), Some(3)));
        assert_eq!((region(0, 0).last(), region(Addr::MAX, 2).last()), (None, None));
        assert!(top.overlaps(region(Addr::MAX, 1)) && !top.overlaps(region(Addr::MAX - 5, 2)));
        assert!(region(8, 4).overlaps(region(0, 16)) && !region(8, 0).overlaps(region(0, 16)));
        assert!(region(Addr::MAX, 1).is_within(top) && !region(Addr::MAX, 2).is_within(top));
        assert!(region(8, 4).is_within(region(8, 4)) && !region(7, 1).is_within(region(8, 4)));
        assert_eq!(Region::between(Addr::MAX - 3, Addr::MAX), Some(top));
        assert_eq!([Region::between(0, Addr::MAX), Region::between(2, 1)], [None; 2]);
        assert_eq!(top.to_string(), "0xfffffffffffffffc to 0xffffffffffffffff");
    }

    #[test]
    fn past_the_end_is_none_not_a_panic() {
        assert_eq!(Endian::Little.u64(&[0; 8], 1), None);
        assert_eq!(Endian::Big.u16(&[0; 1], usize::MAX), None);
    }
}
