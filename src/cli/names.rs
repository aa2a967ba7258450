//! Names from symbols, for what the trace itself does not name.

use crate::abi::{Addr, Width};
use crate::elf::{Elf, Machine, PT_LOAD};
use crate::output::Resolve;
use crate::session::Target;
use crate::sym::{Symbol, Symbols};
use crate::trace::Trace;

/// The symbols of a target, asked by the addresses of its trace.
pub struct SymbolNames<'a> {
    symbols: &'a dyn Symbols,
    /// What the upper half of an address can be, where the trace cuts addresses to their low 32 bits; else just 0.
    highs: Vec<u64>,
    /// The bit of a pointer to a function that is no part of its address.
    thumb: u64,
}

impl<'a> SymbolNames<'a> {
    /// Over the symbols of `target`.
    pub fn new(target: &'a Target, trace: &Trace) -> Self {
        let cut = trace.about.word == Width::W4 && trace.about.pointer == Some(Width::W8);
        let mut highs = vec![0];
        if cut {
            highs = vec![trace.about.base.unwrap_or(0) & !Width::W4.max()];
            highs.extend(target.elf().into_iter().flat_map(|elf| upper_halves(elf, target.load_offset().value)));
            highs.sort_unstable();
            highs.dedup();
        }
        let thumb = u64::from(target.elf().is_some_and(|elf| elf.machine() == Machine::ARM));
        Self { symbols: target.symbols(), highs, thumb }
    }

    /// Over the symbols of `target`, for addresses as memory has them: whole. `arm`: those of functions carry the Thumb bit.
    pub fn whole(target: &'a Target<'_>, arm: bool) -> Self {
        let thumb = u64::from(arm);
        Self { symbols: target.symbols(), highs: vec![0], thumb }
    }

    const fn cuts(&self) -> bool {
        !matches!(self.highs.as_slice(), [0])
    }

    /// The one symbol that an address of the trace can mean. Two that differ only in what was cut are none.
    fn one(&self, address: Addr, find: impl Fn(Addr) -> Option<Symbol>) -> Option<(Symbol, u64)> {
        let mut found = self.highs.iter().filter_map(|high| {
            let address = address | high;
            let symbol = find(address)?;
            let offset = address.checked_sub(symbol.address)?;
            Some((symbol, offset))
        });
        found.next().filter(|_| found.next().is_none())
    }
}

/// The upper halves of the addresses at which a program is.
fn upper_halves(elf: &Elf, load_offset: u64) -> impl Iterator<Item = u64> {
    let ends = |s: crate::elf::Segment| [s.vaddr, s.vaddr.saturating_add(s.memsz.saturating_sub(1))];
    let loads = elf.segments().filter(|s| s.kind == PT_LOAD && s.memsz > 0);
    loads.flat_map(ends).map(move |a| a.wrapping_add(load_offset) & !Width::W4.max())
}

fn with_offset(mut name: String, offset: u64) -> String {
    if offset != 0 {
        name.push_str(&format!("+{offset:#x}"));
    }
    name
}

impl SymbolNames<'_> {
    /// The address of a name as it is printed (`&queues+0x48`) or as the linker has it, as the trace stores addresses.
    pub(super) fn address_of(&self, name: &str) -> Option<Addr> {
        let name = name.strip_prefix('&').unwrap_or(name);
        let address = match self.symbols.lookup(name) {
            Some(symbol) => symbol.address,
            None => {
                let (name, offset) = name.rsplit_once("+0x")?;
                let offset = u64::from_str_radix(offset, 16).ok()?;
                self.symbols.lookup(name)?.address.checked_add(offset)?
            }
        };
        Some(if self.cuts() { address & Width::W4.max() } else { address })
    }
}

impl Resolve for SymbolNames<'_> {
    fn object(&self, address: Addr) -> Option<String> {
        let (symbol, offset) = self.one(address, |a| self.symbols.variable(a)).filter(|_| address != 0)?;
        Some(format!("&{}", with_offset(symbol.name, offset)))
    }

    fn code(&self, address: Addr) -> Option<String> {
        let (symbol, offset) =
            self.one(address & !self.thumb, |a| self.symbols.function(a)).filter(|_| address != 0)?;
        Some(with_offset(symbol.name, offset))
    }

    fn exception(&self, number: u32) -> Option<String> {
        self.symbols.exception(number)
    }
}
