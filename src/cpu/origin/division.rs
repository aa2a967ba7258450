//! Where the divisor of a division by zero was read from.

use super::{Code, DEEP, Does, END, Found, Read, SMALL, Way};

impl Code<'_> {
    /// The word of memory that the divisor of the instruction was read from, or a factor of it, where that is 0 now. Of a Cortex-M.
    #[must_use]
    pub fn zero_divisor(&self) -> Option<Read> {
        let all = self.lines()?;
        let line = all.iter().find(|line| line.at == self.at)?;
        let read = |way: &Way<'_, '_>| {
            let divisor = line.divisor()?;
            let read = |found: Found| Read { place: found.place, value: 0, base: None, first: None };
            way.origin(divisor, END, 0, DEEP).map(read).or_else(|| way.not_loaded_yet(divisor))
        };
        self.on_all_ways(&all, read)
    }

    /// The register by which the instruction divides. Of a Cortex-M.
    #[must_use]
    pub fn divisor(&self) -> Option<u16> {
        self.lines()?.iter().find(|line| line.at == self.at)?.divisor()
    }
}

impl Way<'_, '_> {
    /// The word that is 0 and that the last load reads into the register of its own address, where the register still has that address:
    /// QEMU's division (`helper_udiv`) fails with the registers as they were in front of the last access to memory.
    fn not_loaded_yet(&self, register: u16) -> Option<Read> {
        let (_, does) = self.writer(register, END)?;
        let (base, plus, bits) = match does {
            Does::Loads { base, plus, index: None, .. } => (base, plus, 32),
            Does::LoadsPart { base, plus, index: None, bytes, .. } => (base, plus, 8_u32.saturating_mul(bytes.into())),
            _ => return None,
        };
        let at = self.now(register).filter(|at| base == register && *at >= SMALL)?;
        let place = self.cut(at.wrapping_add_signed(plus));
        ((self.code.word)(place)?.trailing_zeros() >= bits).then_some(Read { place, value: 0, base: None, first: None })
    }
}
