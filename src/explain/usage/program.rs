//! The code of a program, as its memory has it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Case;
use crate::abi::{Addr, Endian};
use crate::kernel::api::{self, Action};
use crate::sym::Symbol;

/// The most bytes of code that are read.
const MOST: u64 = 4 << 20;
/// Bytes that are read at once.
const PIECE: u64 = 1024;
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
        if known.is_empty() || all > MOST {
            return None;
        }
        let regions: Option<Vec<(Addr, Vec<u8>)>> =
            known.iter().map(|region| Some((region.start, bytes(case, region.start, region.len)?))).collect();
        let action = |name: String| Some((case.look.symbol(&name)?.address & !1, api::action(&name)?));
        let actions = api::names().filter_map(action).collect();
        Some(Self {
            symbol: Box::new(|at| case.look.function(at)),
            is_read_only: Box::new(|at| cpus.is_read_only(at)),
            regions: regions?,
            actions,
        })
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
    pub fn sites(&self) -> Vec<(Addr, Action)> {
        let site = |at: Addr| {
            let (first, second) = (self.half(at)?, self.half(at.checked_add(2)?)?);
            let to = super::super::rules::target(first, second, at.checked_add(4)?)?;
            let action = self.action(to)?;
            let is_kernel = self.function(at).is_some_and(|function| function.is_kernel);
            (!is_kernel).then_some((at, action))
        };
        self.regions.iter().flat_map(|(start, bytes)| places(*start, bytes, 2)).filter_map(site).collect()
    }

    /// Those of these functions whose address is a word in the code or beside it.
    pub fn pointed_to(&self, functions: &BTreeSet<Addr>) -> BTreeSet<Addr> {
        if functions.is_empty() {
            return BTreeSet::new();
        }
        let words = self.regions.iter().flat_map(|(start, bytes)| places(*start, bytes, 4));
        let functions_at = |at| self.word(at).filter(|word| word & 1 == 1).map(|word| Addr::from(word & !1));
        words.filter_map(functions_at).filter(|at| functions.contains(at)).collect()
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
