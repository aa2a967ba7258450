//! What a number means on the target: its address space, byte order and word width.

/// An address on the target. 64 bits hold those of every target; a 32-bit one leaves the upper half zero.
pub type Addr = u64;

/// The last address of `len` bytes, `addr` itself for none; `None` where they pass the end of the address space.
#[must_use]
pub fn last_address(addr: Addr, len: usize) -> Option<Addr> {
    addr.checked_add(u64::try_from(len.saturating_sub(1)).ok()?)
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
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            4 => Some(Self::W4),
            8 => Some(Self::W8),
            _ => None,
        }
    }

    /// Number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::W4 => 4,
            Self::W8 => 8,
        }
    }

    /// The largest value that fits.
    #[must_use]
    pub const fn max(self) -> u64 {
        match self {
            Self::W4 => 0xFFFF_FFFF,
            Self::W8 => u64::MAX,
        }
    }
}

impl Endian {
    /// The name that JSON and people use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
        }
    }

    /// Two bytes at `offset`; `None` past the end.
    #[must_use]
    pub fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let end = offset.checked_add(2)?;
        let b: [u8; 2] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        })
    }

    /// Four bytes at `offset`; `None` past the end.
    #[must_use]
    pub fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let end = offset.checked_add(4)?;
        let b: [u8; 4] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        })
    }

    /// Eight bytes at `offset`; `None` past the end.
    #[must_use]
    pub fn u64(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        let b: [u8; 8] = bytes.get(offset..end)?.try_into().ok()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        })
    }

    /// One word of `width` at `offset`, zero-extended; `None` past the end.
    #[must_use]
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
    fn past_the_end_is_none_not_a_panic() {
        assert_eq!(Endian::Little.u64(&[0; 8], 1), None);
        assert_eq!(Endian::Big.u16(&[0; 1], usize::MAX), None);
    }
}
