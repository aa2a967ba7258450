//! Memory of a live target of which only named parts are read: a wild pointer in a control block must not reach the register of
//! a device, or a bus that never answers.

use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::cpu::Architecture;
use crate::mem::{Memory, ReadError, Region};

/// A region of a memory map that is larger is a stub's word for "all the rest": OpenOCD fills every gap between banks of flash
/// with RAM, in bytes.
const LARGEST: u64 = 0x1000_0000;
/// The largest stack that a control block is taken to name, in bytes.
const LARGEST_STACK: u64 = 16 << 20;
/// Registers of devices and of the processor in a Cortex-M's address space (Armv7-M Architecture Reference Manual, B3.1).
const DEVICES: [(Addr, Addr); 2] = [(0x4000_0000, 0x5FFF_FFFF), (0xE000_0000, 0xFFFF_FFFF)];
/// The most ranges that are remembered for the next stop.
const MAX_RANGES: usize = 1024;
/// Ranges that are at most so many bytes apart are one read: bytes cost less than packets.
const GAP: u64 = 512;
/// The most bytes of such a read.
const MAX_READ: u64 = 32 << 10;

/// What may be read.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// First and last address of each, sorted, none touching another.
    parts: Vec<(Addr, Addr)>,
    devices: bool,
}

impl Allowed {
    /// The sections of a program, the stub's map, and what was typed.
    pub fn new(architecture: Architecture, sections: &[Region], map: &[Region], typed: &[Region]) -> Self {
        let mut allowed = Self { parts: Vec::new(), devices: architecture == Architecture::CortexM };
        let map = map.iter().filter(|region| region.len < LARGEST);
        for region in sections.iter().chain(map) {
            allowed.add(*region);
        }
        // What the user names may be anything.
        for region in typed {
            allowed.put(region.start, region.last());
        }
        allowed
    }

    /// Adds a stack that a sound control block names.
    pub(super) fn add_stack(&mut self, stack: Region) {
        if stack.len <= LARGEST_STACK {
            self.add(stack);
        }
    }

    fn add(&mut self, region: Region) {
        let Some(last) = region.last() else { return };
        let touches = |(from, to): &(Addr, Addr)| region.start <= *to && last >= *from;
        if !(self.devices && DEVICES.iter().any(touches)) {
            self.put(region.start, Some(last));
        }
    }

    fn put(&mut self, start: Addr, last: Option<Addr>) {
        let Some(last) = last else { return };
        self.parts.push((start, last));
        self.parts.sort_unstable();
        let mut merged: Vec<(Addr, Addr)> = Vec::with_capacity(self.parts.len());
        for (start, last) in self.parts.drain(..) {
            match merged.last_mut() {
                Some((_, before)) if start <= before.saturating_add(1) => *before = last.max(*before),
                _ => merged.push((start, last)),
            }
        }
        self.parts = merged;
    }

    /// True where all of these bytes may be read.
    pub fn holds(&self, start: Addr, len: usize) -> bool {
        let Some(last) = (Region { start, len: len as u64 }).last() else { return false };
        let before = self.parts.partition_point(|(from, _)| *from <= start);
        before.checked_sub(1).and_then(|index| self.parts.get(index)).is_some_and(|(_, to)| last <= *to)
    }
}

/// A memory behind [`Allowed`], which remembers what was read.
pub struct Guarded<'m> {
    memory: &'m mut dyn Memory,
    pub allowed: Allowed,
    read: Vec<(Addr, usize)>,
}

impl<'m> Guarded<'m> {
    pub fn new(memory: &'m mut dyn Memory, allowed: Allowed) -> Self {
        Self { memory, allowed, read: Vec::new() }
    }

    /// What was read, neighbours as one: to be read together at the next stop.
    pub fn ranges(&self) -> Vec<(Addr, usize)> {
        let mut read = self.read.clone();
        read.sort_unstable();
        let mut all: Vec<(Addr, Addr)> = Vec::new();
        for (start, len) in read {
            let Some(last) = (Region { start, len: len as u64 }).last() else { continue };
            let whole = |first: Addr| {
                let len = usize::try_from(last.abs_diff(first).saturating_add(1)).unwrap_or(usize::MAX);
                last.abs_diff(first) < MAX_READ && self.allowed.holds(first, len)
            };
            match all.last_mut() {
                Some((first, before)) if start.saturating_sub(*before) <= GAP && whole(*first) => {
                    *before = last.max(*before);
                }
                _ => all.push((start, last)),
            }
        }
        let range = |(start, last)| Some((start, usize::try_from(Region::between(start, last)?.len).ok()?));
        all.into_iter().filter_map(range).take(MAX_RANGES).collect()
    }
}

impl Memory for Guarded<'_> {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        if !self.allowed.holds(addr, buf.len()) {
            return Err(ReadError::unmapped(addr, buf.len()));
        }
        self.memory.read(addr, buf)?;
        self.read.push((addr, buf.len()));
        Ok(())
    }

    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        let is_allowed = |(addr, len): &(Addr, usize)| self.allowed.holds(*addr, *len);
        let asked: Vec<(Addr, usize)> = wanted.iter().filter(|range| is_allowed(range)).copied().collect();
        let mut got = if asked.is_empty() { Vec::new() } else { self.memory.read_batch(&asked) }.into_iter();
        let answers = wanted.iter().map(|&(addr, len)| {
            let answer = if self.allowed.holds(addr, len) { got.next() } else { None };
            answer.unwrap_or_else(|| Err(ReadError::unmapped(addr, len)))
        });
        let answers: Vec<Result<Bytes, ReadError>> = answers.collect();
        self.read.extend(wanted.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(range, _)| *range));
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: Addr, len: u64) -> Region {
        Region { start, len }
    }

    #[test]
    fn nothing_is_read_that_nobody_names() {
        let sections = [region(0, 0x4000), region(0x2000_0000, 0x100), region(0x2000_0100, 0x100)];
        // OpenOCD's map: all that is no flash is RAM. A section over a device is no memory either.
        let map = [region(0x800_0000, 0x1000), region(0x801_0000, 0xF000_0000)];
        let odd = [&sections[..], &[region(0x4000_1000, 0x10)]].concat();
        let mut allowed = Allowed::new(Architecture::CortexM, &odd, &map, &[region(0x5000_0000, 4)]);
        for (start, len, may) in [
            (0, 0x4000, true),
            (0x3FFF, 2, false),
            (0x2000_00F0, 0x20, true),
            (0x2000_0200, 1, false),
            (0x800_0FFC, 4, true),
            (0x801_0000, 4, false),
            (0x4000_1000, 4, false),
            (0x5000_0000, 4, true),
            (0xE000_ED28, 4, false),
            (u64::MAX, 4, false),
            (0x2000_0000, 0, false),
        ] {
            assert_eq!(allowed.holds(start, len), may, "{start:#x} {len}");
        }
        allowed.add_stack(region(0x1000_0000, 0x400));
        allowed.add_stack(region(0x6000_0000, 0x4000_0000));
        allowed.add_stack(region(0x4002_0000, 0x400));
        assert!(allowed.holds(0x1000_03FC, 4) && !allowed.holds(0x6000_0000, 4) && !allowed.holds(0x4002_0000, 4));
    }

    #[test]
    fn what_was_read_is_read_together_the_next_time_and_no_more() {
        struct Zeros(Vec<(Addr, usize)>);
        impl Memory for Zeros {
            fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
                self.0.push((addr, buf.len()));
                buf.fill(0);
                Ok(())
            }
        }
        let mut zeros = Zeros(Vec::new());
        let allowed = Allowed::new(Architecture::Riscv32, &[region(0x1000, 0x200), region(0x1210, 0x100)], &[], &[]);
        let mut guarded = Guarded::new(&mut zeros, allowed);
        let answers = guarded.read_batch(&[(0x1000, 4), (0x1205, 1), (0x1010, 8), (0x1220, 4)]);
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!(guarded.ranges(), [(0x1000, 24), (0x1220, 4)]);
        assert_eq!(zeros.0, [(0x1000, 4), (0x1010, 8), (0x1220, 4)]);
    }
}
