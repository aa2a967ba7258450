//! The entry of a variable or a function in the debug information. Its address decides which one it is: names are not unique, as each source
//! file may have a static variable of the same name.
//!
//! Only units are read in whose bytes the address is, or, as DWARF 5 allows, in whose part of `.debug_addr` it is.

use std::sync::Arc;

use gimli::{
    AttributeValue, DebugInfoOffset, EndianSlice, Operation, Reader, RunTimeEndian, Section, Unit, UnitHeader,
    UnitOffset, constants as dw,
};

use super::budget::Budget;
use super::{Place, Slice, View, follow, places};
use crate::abi::Addr;

/// How often an entry may refer to another one: a definition to its declaration.
const MAX_ORIGINS: usize = 4;
/// Where an address is in `.debug_addr` more often than this, every unit that uses it is read.
const MAX_INDEXED: usize = 1024;

/// Where the entry is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    unit: DebugInfoOffset,
    entry: UnitOffset,
}

impl Found {
    /// The entry, with its unit read again.
    pub fn place<'a>(self, view: &View<'a>) -> Option<Place<'a>> {
        let unit = view.unit(view.unit_header(self.unit).ok()?).ok()?;
        Some(Place { unit: Arc::new(unit), entry: self.entry })
    }
}

/// The search for the variable or the function of a symbol.
pub(super) struct Finder<'a, 'v> {
    /// `DW_TAG_variable` or `DW_TAG_subprogram`.
    pub tag: gimli::DwTag,
    pub view: &'v View<'a>,
    pub budget: &'v Budget,
    /// The name of the symbol.
    pub name: &'v str,
    /// Its address, as it was linked.
    pub address: Addr,
}

impl<'a> Finder<'a, '_> {
    /// The first entry that has the address and the name.
    pub fn run(&self) -> Option<Found> {
        // Linkers set the address of what they threw away to 0.
        if self.address == 0 {
            return None;
        }
        let indexed = self.indexed();
        let mut units = self.view.units();
        while let Ok(Some(header)) = units.next() {
            self.budget.check()?;
            let may_index = header.version() >= 5 && indexed.as_ref().is_none_or(|all| !all.is_empty());
            let has_address = self.has_address(&header);
            if !has_address && !may_index {
                continue;
            }
            let Ok(unit) = self.view.unit(header) else { continue };
            if !has_address && !indexed.as_ref().is_none_or(|all| self.is_indexed(&unit, all)) {
                continue;
            }
            if let Some(entry) = self.in_unit(&header, Arc::new(unit)) {
                return Some(Found { unit: header.debug_info_offset()?, entry });
            }
        }
        None
    }

    /// The address as the target writes it.
    fn needle(&self, size: u8) -> Option<Vec<u8>> {
        let size = usize::from(size);
        let bytes = match self.view.debug_info.reader().endian() {
            RunTimeEndian::Big => self.address.to_be_bytes().get(8usize.checked_sub(size)?..)?.to_vec(),
            RunTimeEndian::Little => self.address.to_le_bytes().get(..size)?.to_vec(),
        };
        (size >= 2).then_some(bytes)
    }

    fn has_address(&self, header: &UnitHeader<Slice<'a>>) -> bool {
        let bytes = header.range_from(header.root_offset()..);
        let found = bytes.ok().zip(self.needle(header.address_size()));
        found.is_some_and(|(bytes, needle)| places(bytes.slice(), &needle).next().is_some())
    }

    /// Where `.debug_addr` has the address; `None` where it has it too often.
    fn indexed(&self) -> Option<Vec<usize>> {
        let all = self.view.debug_addr.reader().slice();
        let size = self.view.units().next().ok().flatten().map_or(4, |header| header.address_size());
        let needle = self.needle(size)?;
        let found: Vec<usize> = places(all, &needle).take(MAX_INDEXED).collect();
        (found.len() < MAX_INDEXED).then_some(found)
    }

    /// True where one of these places is in the unit's part of `.debug_addr` (DWARF 5, section 7.27: its length is in front of
    /// the version, and two bytes behind that its addresses begin).
    fn is_indexed(&self, unit: &Unit<Slice<'a>>, all: &[usize]) -> bool {
        let begin = unit.addr_base.0;
        let part = || {
            let at = begin.checked_sub(8)?;
            let bytes = self.view.debug_addr.reader().slice().get(at..at.checked_add(4)?)?;
            let length = EndianSlice::new(bytes, self.view.debug_info.reader().endian()).read_u32().ok()?;
            let end = at.checked_add(4)?.checked_add(usize::try_from(length).ok()?)?;
            Some(begin..end)
        };
        if unit.encoding().format == gimli::Format::Dwarf64 {
            return true;
        }
        part().is_none_or(|part| all.iter().any(|at| part.contains(at)))
    }

    /// The entry of this name at the address, in functions too.
    fn in_unit(&self, header: &UnitHeader<Slice<'a>>, unit: Arc<Unit<Slice<'a>>>) -> Option<UnitOffset> {
        let mut raw = header.entries_raw(&unit.abbreviations, None).ok()?;
        while !raw.is_empty() {
            self.budget.step()?;
            let entry = raw.next_offset();
            let Some(abbreviation) = raw.read_abbreviation().ok()? else { continue };
            if abbreviation.tag() != self.tag {
                raw.skip_attributes(abbreviation.attributes()).ok()?;
                continue;
            }
            let mut is_here = false;
            for spec in abbreviation.attributes() {
                let attribute = raw.read_attribute(*spec).ok()?;
                is_here |= match attribute.name() {
                    dw::DW_AT_location => self.is_at(&unit, attribute.value()),
                    dw::DW_AT_low_pc => self.begins_at(&unit, attribute.value()),
                    _ => false,
                };
            }
            if is_here && self.is_named(Place { unit: Arc::clone(&unit), entry }) {
                return Some(entry);
            }
        }
        None
    }

    /// True for a location that is the address, and nothing else.
    fn is_at(&self, unit: &Unit<Slice<'a>>, location: AttributeValue<Slice<'a>>) -> bool {
        let AttributeValue::Exprloc(expression) = location else { return false };
        let mut operations = expression.operations(unit.encoding());
        let at = match operations.next() {
            Ok(Some(Operation::Address { address })) => Some(address),
            Ok(Some(Operation::AddressIndex { index })) => self.view.address(unit, index).ok(),
            _ => None,
        };
        at == Some(self.address) && matches!(operations.next(), Ok(None))
    }

    /// The same of the address where a function begins.
    fn begins_at(&self, unit: &Unit<Slice<'a>>, low: AttributeValue<Slice<'a>>) -> bool {
        let at = match low {
            AttributeValue::Addr(address) => Some(address),
            AttributeValue::DebugAddrIndex(index) => self.view.address(unit, index).ok(),
            _ => None,
        };
        at == Some(self.address)
    }

    fn is_named(&self, place: Place<'a>) -> bool {
        let is_it = |place: &Place<'a>| {
            let Ok(entry) = place.unit.entry(place.entry) else { return false };
            let names = [dw::DW_AT_name, dw::DW_AT_linkage_name, dw::DW_AT_MIPS_linkage_name];
            let mut texts = names.into_iter().filter_map(|name| entry.attr_value(name));
            texts.any(|text| {
                self.view.attr_string(&place.unit, text).is_ok_and(|text| is_name_of(self.name, text.slice()))
            })
        };
        origins(self.view, self.budget, place).any(|place| is_it(&place))
    }
}

/// An entry and those that it refers to: the declaration of what it defines.
pub(super) fn origins<'a, 'v>(
    view: &'v View<'a>,
    budget: &'v Budget,
    place: Place<'a>,
) -> impl Iterator<Item = Place<'a>> + use<'a, 'v> {
    let next = move |place: &Place<'a>| {
        let entry = place.unit.entry(place.entry).ok()?;
        let to = entry.attr_value(dw::DW_AT_specification).or_else(|| entry.attr_value(dw::DW_AT_abstract_origin))?;
        follow(view, budget, &place.unit, to)
    };
    std::iter::successors(Some(place), next).take(MAX_ORIGINS)
}

/// True where a symbol is that of a variable or a function of this name. For functions that it changed GCC appends what it did
/// (`raise.constprop.0`); for static variables within functions GCC appends a number
/// (`count.0`), and clang puts the function's name in front (`poll.count`).
fn is_name_of(symbol: &str, name: &[u8]) -> bool {
    !name.is_empty() && (symbol.as_bytes() == name || symbol.split('.').any(|part| part.as_bytes() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_of_a_static_variable_in_a_function_has_more_than_its_name() {
        assert!(is_name_of("count", b"count"));
        assert!(is_name_of("count.0", b"count"), "GCC");
        assert!(is_name_of("poll.count", b"count"), "clang");
        assert!(is_name_of("poll.count.3", b"count"), "clang, of two functions");
        assert!(!is_name_of("counter", b"count"));
        assert!(!is_name_of("count", b""));
    }
}
