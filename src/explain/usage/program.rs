//! The code of a program, as its memory has it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Case;
use crate::abi::{Addr, Endian, Region};
use crate::kernel::api::{self, Action};
use crate::sym::Symbol;

/// The most bytes of code that are read.
const MOST: u64 = 4 << 20;
/// Bytes that are read at once.
const PIECE: u64 = 1024;
/// The most regions of code.
const REGIONS: usize = 64;
/// The most bytes of memory that are searched for addresses of functions.
const MEMORY: u64 = 16 << 20;
/// So many halves of instructions behind the lower half of a constant its upper half is looked for.
const APART: usize = 12;
/// What only the kernel calls: a function of the application that calls these has a part of the kernel in it, put there by the
/// linker's optimizer.
const INSIDE: [&str; 4] = [
    "_tx_thread_system_resume",
    "_tx_thread_system_ni_resume",
    "_tx_thread_system_suspend",
    "_tx_thread_system_ni_suspend",
];
/// What the names of the kernel's functions begin with.
const KERNEL: &str = "_tx";

/// It, and what of it is the kernel's.
pub(super) struct Code<'c> {
    symbol: Box<dyn Fn(Addr) -> Option<Symbol> + 'c>,
    is_read_only: Box<dyn Fn(Addr) -> bool + 'c>,
    /// Address and bytes of each region.
    regions: Vec<(Addr, Vec<u8>)>,
    /// The functions of the kernel that do something with objects.
    actions: BTreeMap<Addr, Action>,
    /// The direct calls of those outside of the kernel.
    sites: Vec<(Addr, Action)>,
    /// Addresses of functions that are words in memory, or constants of the code.
    pointed: BTreeSet<Addr>,
}

/// A function.
pub(super) struct Function {
    pub first: Addr,
    pub last: Addr,
    pub is_kernel: bool,
}

/// The most bytes of a function whose size is not known.
const UNSIZED: u64 = 256;

impl<'c> Code<'c> {
    /// `None` where it is not known, or too much.
    pub fn read(case: &'c Case<'_>) -> Option<Self> {
        let cpus = case.cpus?;
        let known = &cpus.code;
        let all = known.iter().fold(0u64, |sum, region| sum.saturating_add(region.len));
        if known.is_empty() || all > MOST || known.len() > REGIONS {
            return None;
        }
        let regions: Option<Vec<(Addr, Vec<u8>)>> =
            known.iter().map(|region| Some((region.start, bytes(case, region.start, region.len)?))).collect();
        let action = |name: String| Some((case.look.symbol(&name)?.address & !1, api::action(&name)?));
        let actions = api::names().filter_map(action).collect();
        let mut code = Self {
            symbol: Box::new(|at| case.look.function(at)),
            is_read_only: Box::new(|at| cpus.is_read_only(at)),
            regions: regions?,
            actions,
            sites: Vec::new(),
            pointed: BTreeSet::new(),
        };
        let inside: Vec<Addr> = INSIDE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
        code.sites = code.calls(&inside)?;
        code.pointed = code.constants();
        code.pointed.extend(code.in_memory(&cpus.written()?, case)?);
        Some(code)
    }

    /// The direct calls of functions that do something with objects, outside of the kernel; `None` where a function that is not
    /// of the kernel calls what only the kernel does.
    fn calls(&self, inside: &[Addr]) -> Option<Vec<(Addr, Action)>> {
        let mut all = Vec::new();
        for at in self.places(2) {
            let call = || {
                let (first, second) = (self.half(at)?, self.half(at.checked_add(2)?)?);
                let to = super::super::rules::target(first, second, at.checked_add(4)?)?;
                let is_inside = inside.contains(&to);
                let action = self.action(to).filter(|_| !is_inside);
                (is_inside || action.is_some()).then_some(action)
            };
            let Some(action) = call() else { continue };
            if self.function(at).is_some_and(|function| function.is_kernel) {
                continue;
            }
            all.push((at, action?));
        }
        Some(all)
    }

    /// Addresses of functions among the constants of the code: words, but for those of the kernel's own functions, and pairs of
    /// MOVW and MOVT (Armv7-M Architecture Reference Manual, A7.7.76 and A7.7.79).
    fn constants(&self) -> BTreeSet<Addr> {
        let is_kernel = |at| self.function(at).is_some_and(|function| function.is_kernel);
        let word = |at: Addr| self.pointer(self.word(at)?).filter(|_| !is_kernel(at));
        let built = |at: Addr| self.pointer(self.built(at)?).filter(|_| !is_kernel(at));
        self.places(4).filter_map(word).chain(self.places(2).filter_map(built)).collect()
    }

    /// The constant of which MOVW at an address sets the lower half.
    fn built(&self, at: Addr) -> Option<u32> {
        let parts = |at: Addr, wanted: u16| {
            let first = self.half(at).filter(|first| first & 0xFBF0 == wanted)?;
            let second = self.half(at.checked_add(2)?).filter(|second| second >> 15 == 0)?;
            let low = u32::from(first & 0xF) << 12 | u32::from(first >> 10 & 1) << 11;
            Some((second >> 8, low | u32::from(second >> 12 & 7) << 8 | u32::from(second & 0xFF)))
        };
        let (register, low) = parts(at, 0xF240).map(|(register, low)| (register & 0xF, low))?;
        let upper = (2..APART).filter_map(|n| parts(at.checked_add(u64::try_from(n).ok()? << 1)?, 0xF2C0));
        let (_, high) = upper.map(|(register, high)| (register & 0xF, high)).find(|(other, _)| *other == register)?;
        Some(high << 16 | low)
    }

    /// Addresses of functions in the memory that the program writes; `None` where it cannot be read, or is too large.
    fn in_memory(&self, written: &[Region], case: &Case<'_>) -> Option<BTreeSet<Addr>> {
        if written.iter().fold(0u64, |sum, region| sum.saturating_add(region.len)) > MEMORY {
            return None;
        }
        let mut all = BTreeSet::new();
        for region in written {
            for piece in 0..region.len.div_ceil(PIECE) {
                let into = piece.checked_mul(PIECE)?;
                let bytes = case.look.bytes(region.start.checked_add(into)?, PIECE.min(region.len.checked_sub(into)?));
                let words = case.words(&bytes?, true).into_iter().filter_map(|word| u32::try_from(word).ok());
                all.extend(words.filter_map(|word| self.pointer(word)));
            }
        }
        Some(all)
    }

    /// The address in the code that a pointer to a function has.
    fn pointer(&self, word: u32) -> Option<Addr> {
        let at = Addr::from(word & !1);
        (word & 1 == 1 && self.find(at).is_some()).then_some(at)
    }

    fn places(&self, step: u64) -> impl Iterator<Item = Addr> + '_ {
        self.regions.iter().flat_map(move |(start, bytes)| places(*start, bytes, step))
    }

    /// True where a function that is not of the kernel begins.
    pub fn begins(&self, at: Addr) -> bool {
        self.function(at).is_some_and(|function| function.first == at && !function.is_kernel)
    }

    /// What the function does of which the one at an address is a part, or a copy for some arguments, that the compiler made:
    /// `_tx_semaphore_put.part.0`. Its arguments may be others.
    pub fn part_of_action(&self, at: Addr) -> Option<Action> {
        api::action((self.symbol)(at)?.name.split_once('.')?.0)
    }

    pub fn action(&self, at: Addr) -> Option<Action> {
        self.actions.get(&at).copied()
    }

    pub fn function(&self, at: Addr) -> Option<Function> {
        let symbol = (self.symbol)(at)?;
        let first = symbol.address & !1;
        let len = if symbol.size == 0 { UNSIZED } else { symbol.size };
        let last = first.checked_add(len.checked_sub(1)?)?;
        Some(Function { first, last: last.max(at), is_kernel: symbol.name.starts_with(KERNEL) })
    }

    pub fn half(&self, at: Addr) -> Option<u16> {
        let (bytes, into) = self.find(at)?;
        Endian::Little.u16(bytes, into)
    }

    /// The word at an address that the program does not write: within a function, or where its file says so.
    pub fn constant(&self, at: Addr) -> Option<u32> {
        let is_so = (self.is_read_only)(at) || self.function(at).is_some();
        if is_so { self.word(at) } else { None }
    }

    fn word(&self, at: Addr) -> Option<u32> {
        let (bytes, into) = self.find(at)?;
        Endian::Little.u32(bytes, into)
    }

    fn find(&self, at: Addr) -> Option<(&[u8], usize)> {
        self.regions.iter().find_map(|(start, bytes)| {
            let into = usize::try_from(at.checked_sub(*start)?).ok()?;
            (into < bytes.len()).then_some((bytes.as_slice(), into))
        })
    }

    /// The direct calls of functions that do something with objects, outside of the kernel: where they are, and what they do.
    pub fn sites(&self) -> &[(Addr, Action)] {
        &self.sites
    }

    /// Addresses that pointers to functions may have.
    pub const fn pointed(&self) -> &BTreeSet<Addr> {
        &self.pointed
    }
}

fn places(start: Addr, bytes: &[u8], step: u64) -> impl Iterator<Item = Addr> {
    let first = start.next_multiple_of(step);
    let count = (bytes.len() as u64).checked_div(step).unwrap_or_default();
    (0..count).map(move |n| first.wrapping_add(n.wrapping_mul(step)))
}

fn bytes(case: &Case<'_>, start: Addr, len: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for piece in 0..len.div_ceil(PIECE) {
        let into = piece.checked_mul(PIECE)?;
        all.extend(case.look.bytes(start.checked_add(into)?, PIECE.min(len.checked_sub(into)?))?);
    }
    Some(all)
}
