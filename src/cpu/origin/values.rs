//! What registers held, and where loads read, by the instructions in front of a place.

use super::{Does, Held, SMALL, Way};
use crate::abi::Addr;

impl Way<'_, '_> {
    /// What a register held in front of the instruction at a place.
    pub(super) fn value(&self, register: u16, at: usize, deep: u8) -> Option<u64> {
        let deep = deep.checked_sub(1)?;
        if let Some(now) = self.unchanged(register, at) {
            return Some(now);
        }
        let Some((writer, does)) = self.writer(register, at) else { return self.copied(register, at) };
        match does {
            Does::Loads { .. } => {
                let place = self.place(&does, writer, deep)?;
                let word = (self.code.word)(place)?;
                // What was written since is not what it read. Where a store through this register leads follows from what it read.
                let read = Held { register, writer, value: word };
                (!self.may_change(place, &read)).then_some(word)
            }
            Does::Moves { from, plus, .. } => Some(self.cut(self.value(from, writer, deep)?.wrapping_add_signed(plus))),
            Does::Literal { .. } | Does::Sets { .. } => self.plain(register, at, deep),
            Does::Adds { base, index, shift, .. } => {
                let index = self.value(index, writer, deep)?.checked_shl(shift.into())?;
                Some(self.cut(self.value(base, writer, deep)?.wrapping_add(index)))
            }
            Does::LoadsPart { .. } | Does::Moving { .. } | Does::Multiplies { .. } | Does::Writes(_) => None,
        }
    }

    /// The register of the argument of which a register is a copy, in front of the instruction at a place.
    pub(super) fn argument(&self, register: u16, at: usize, deep: u8) -> Option<u16> {
        let deep = deep.checked_sub(1)?;
        match self.writer(register, at) {
            None => self.code.is_of_argument(register).then_some(register),
            Some((writer, Does::Moves { from, plus: 0, .. })) => self.argument(from, writer, deep),
            Some(_) => None,
        }
    }

    /// What an argument of the function held in its register, in front of the instruction at a place, where another register still has a
    /// copy of it.
    fn copied(&self, register: u16, at: usize) -> Option<u64> {
        let front = self.before.get(..at).filter(|_| self.code.is_of_argument(register))?.iter().enumerate();
        front.into_iter().find_map(|(place, line)| match line.does(register) {
            Does::Moves { to, from, plus } if from == register && to != register => {
                Some(self.cut(self.unchanged(to, place.checked_add(1)?)?.wrapping_sub(plus.cast_unsigned())))
            }
            _ => None,
        })
    }

    /// What a register held in front of the instruction at a place, where no word that the program writes was read for it.
    pub(super) fn plain(&self, register: u16, at: usize, deep: u8) -> Option<u64> {
        let deep = deep.checked_sub(1)?;
        if let Some(now) = self.unchanged(register, at) {
            return Some(now);
        }
        let Some((writer, does)) = self.writer(register, at) else { return self.copied(register, at) };
        match does {
            Does::Literal { place, .. } => (self.code.word)(place),
            Does::Sets { value, is_top: false, .. } => Some(value),
            Does::Sets { value, .. } => Some(value << 16 | self.plain(register, writer, deep)? & 0xFFFF),
            Does::Moves { from, plus, .. } => Some(self.cut(self.plain(from, writer, deep)?.wrapping_add_signed(plus))),
            Does::Loads { .. }
            | Does::LoadsPart { .. }
            | Does::Moving { .. }
            | Does::Multiplies { .. }
            | Does::Adds { .. }
            | Does::Writes(_) => None,
        }
    }

    /// Where a load would read with an index of 0, where it has one, or the address that it reads from is a sum of two registers. Of
    /// the two, the index is a small number, or multiplied.
    pub(super) fn first(&self, load: &Does, at: usize, deep: u8) -> Option<Addr> {
        let deep = deep.checked_sub(1)?;
        let (Does::Loads { base, plus, index, .. } | Does::LoadsPart { base, plus, index, .. }) = load else {
            return None;
        };
        let (base, index, shift, at) = match (index, self.writer(*base, at)) {
            (Some((index, shift)), _) => (*base, *index, *shift, at),
            (None, Some((writer, Does::Adds { base, index, shift, .. }))) => (base, index, shift, writer),
            (None, _) => return None,
        };
        let is_index = |register: u16| self.value(register, at, deep).is_some_and(|index| index < SMALL);
        let (base, index) = match shift {
            0 if !is_index(index) && is_index(base) => (index, base),
            _ => (base, index),
        };
        // The compiler may have added the place of the array in its variable to the index.
        if matches!(self.writer(index, at), Some((_, Does::Moves { plus, .. })) if plus != 0) {
            return None;
        }
        Some(self.cut(self.value(base, at, deep)?.wrapping_add_signed(*plus)))
    }

    /// Where a load reads.
    pub(super) fn place(&self, load: &Does, at: usize, deep: u8) -> Option<Addr> {
        let (Does::Loads { base, plus, index, .. } | Does::LoadsPart { base, plus, index, .. }) = load else {
            return None;
        };
        let base = self.value(*base, at, deep)?.wrapping_add_signed(*plus);
        let index = match index {
            Some((register, shift)) => self.value(*register, at, deep)? << (shift & 3),
            None => 0,
        };
        Some(self.cut(base.wrapping_add(index)))
    }
}
