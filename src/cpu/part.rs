//! Bytes and halves of words, as loads of less than a register read them.

/// How much a load reads, or a store writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// 8, 16 or 32.
    pub bits: u32,
    pub is_signed: bool,
}

impl Part {
    pub const WORD: Self = Self { bits: 32, is_signed: false };

    /// Of an instruction whose size is 0 for a byte, 1 for a half and 2 for a word.
    pub const fn of(size: u16, is_signed: bool) -> Self {
        let bits = match size {
            0 => 8,
            1 => 16,
            _ => 32,
        };
        Self { bits, is_signed }
    }

    /// The lowest bits of a number, with their sign or with zeros above them.
    pub fn extended(self, number: u32) -> u32 {
        let unused = u32::BITS.saturating_sub(self.bits);
        let top = number.checked_shl(unused).unwrap_or_default();
        if self.is_signed {
            top.cast_signed().checked_shr(unused).unwrap_or_default().cast_unsigned()
        } else {
            top.checked_shr(unused).unwrap_or_default()
        }
    }

    /// What is read at an address out of the word in which it is; `None` where it goes on in the next word.
    pub fn within(self, word: u32, at: u32) -> Option<u32> {
        let into = (at & 3) << 3;
        let is_whole = into.checked_add(self.bits)? <= u32::BITS;
        Some(self.extended(word.checked_shr(into)?)).filter(|_| is_whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_halves_with_their_sign_and_without() {
        let of = |size, is_signed, at| Part::of(size, is_signed).within(0x8070_F0FF, at);
        assert_eq!([of(0, false, 0), of(0, true, 0), of(0, true, 2)], [Some(0xFF), Some(u32::MAX), Some(0x70)]);
        assert_eq!([of(1, false, 2), of(1, true, 2)], [Some(0x8070), Some(0xFFFF_8070)]);
        assert_eq!(of(1, false, 3), None, "it goes on in the next word");
        assert_eq!((of(2, false, 0), of(2, false, 1)), (Some(0x8070_F0FF), None));
    }
}
