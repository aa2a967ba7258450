//! What is at an address within a variable: `cal.gain[0]` of a struct, and the array that ends in front of it.
//!
//! A wrong name is worse than none. Where the members of a union share memory, nothing shows which of them is in use: the name
//! ends at the union. It also ends where no member is (between two of them), and where the debug information is not of one
//! mind: a member that is not within its struct, a type that is larger than its symbol.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use gimli::{AttributeValue, DebuggingInformationEntry, Reader, RunTimeEndian, Section, UnitOffset, constants as dw};

use super::budget::{self, Budget};
use super::variables::{Finder, Found, origins};
use super::{Dwarf, MAX_MEMBERS, MAX_TYPEDEFS, Place, Slice, View, follow, member_place};
use crate::abi::Addr;
use crate::sym::Symbol;

/// How deep structs and arrays within each other are followed.
const MAX_LEVELS: usize = 32;
/// The most dimensions of an array.
const MAX_DIMENSIONS: usize = 8;

/// What is at an address within a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The innermost member: `metering.cal.gain[0]`. Hostile text: escape before printing.
    pub path: String,
    /// Bytes from its beginning.
    pub offset: u64,
    /// The outermost member that begins at the address: `metering.cal`. Hostile text.
    pub whole: Option<String>,
    /// Its length in bytes.
    pub size: u64,
    /// True for a pointer.
    pub is_pointer: bool,
    /// The struct that a pointer points to, and those at the beginning of that, by the names of their types: `hoop_t`, `hoop`. Hostile text.
    /// Empty for a pointer to anything else, and where a union or a struct without a name is at the beginning.
    pub points_to: Vec<String>,
}

/// An array within a variable, or the variable itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayMember {
    /// `metering.window`. Hostile text: escape before printing.
    pub name: String,
    /// Its number of elements; of each dimension, the outermost first.
    pub lengths: Vec<u64>,
}

/// An array, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayPlace {
    /// Which one.
    pub array: ArrayMember,
    /// The address of its first element.
    pub address: Addr,
    /// Bytes of an element.
    pub element: u64,
}

impl ArrayPlace {
    /// Its length in bytes; `None` where no memory has so many.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.array.lengths.iter().copied().try_fold(self.element, u64::checked_mul)
    }

    /// The address behind its last element.
    #[must_use]
    pub fn end(&self) -> Option<Addr> {
        self.address.checked_add(self.bytes()?)
    }
}

impl std::fmt::Display for ArrayMember {
    /// As it is declared: `metering.window[16]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.lengths.iter().try_for_each(|length| write!(f, "[{length}]"))
    }
}

/// The variables that were searched for, and the time of all searches.
#[derive(Default)]
pub(super) struct Variables {
    found: HashMap<(Addr, String), Option<Found>>,
    spent: Duration,
}

impl Dwarf {
    /// What is so many bytes within the variable of a symbol; its address is that of the linked program.
    pub fn member(&self, variable: &Symbol, offset: u64) -> Option<Member> {
        let levels = self.levels(variable, offset)?;
        let last = levels.last()?;
        let whole = levels.iter().find(|level| level.begin == offset);
        Some(Member {
            path: last.path.clone(),
            offset: offset.saturating_sub(last.begin),
            whole: whole.map(|level| level.path.clone()),
            size: last.size,
            is_pointer: last.is_pointer,
            points_to: last.points_to.clone(),
        })
    }

    /// The arrays that end so many bytes within the variable of a symbol, or at its end: the outermost first.
    pub fn arrays_ending(&self, variable: &Symbol, end: u64) -> Vec<ArrayMember> {
        let levels = end.checked_sub(1).and_then(|last| self.levels(variable, last));
        let ends = |level: &Level| !level.lengths.is_empty() && level.begin.checked_add(level.size) == Some(end);
        let ending = levels.into_iter().flatten().filter(ends);
        ending.map(|level| ArrayMember { name: level.path, lengths: level.lengths }).collect()
    }

    /// The arrays that an address in the variable of a symbol is in, as far as its elements have a size: the outermost first. Their
    /// addresses are those of the linked program.
    pub fn arrays_at(&self, variable: &Symbol, offset: u64) -> Vec<ArrayPlace> {
        let place = |level: Level| {
            let elements = level.lengths.iter().copied().try_fold(1u64, u64::checked_mul)?;
            let element = level.size.checked_div(elements).filter(|size| *size > 0 && !level.lengths.is_empty())?;
            let address = variable.address.checked_add(level.begin)?;
            Some(ArrayPlace { array: ArrayMember { name: level.path, lengths: level.lengths }, address, element })
        };
        self.levels(variable, offset).into_iter().flatten().filter_map(place).collect()
    }

    /// The array that begins where a structure ends, in the same variable; `offset`: where the structure begins in it.
    pub fn array_behind(&self, variable: &Symbol, offset: u64) -> Option<ArrayMember> {
        let own = self.levels(variable, offset)?;
        // The last is the first member of the structure.
        let whole = own.iter().rev().nth(1).filter(|level| level.begin == offset)?;
        let end = whole.begin.checked_add(whole.size)?;
        let begins = |level: &Level| !level.lengths.is_empty() && level.begin == end;
        let array = self.levels(variable, end)?.into_iter().find(begins)?;
        Some(ArrayMember { name: array.path, lengths: array.lengths })
    }

    /// True for the symbol of a function that returns nothing.
    pub fn returns_nothing(&self, function: &Symbol) -> bool {
        let returns = |view: &View<'_>, budget: &Budget, found: Found| {
            let has_type = |place: Place<'_>| {
                place.unit.entry(place.entry).map_or(true, |entry| entry.attr_value(dw::DW_AT_type).is_some())
            };
            found.place(view).is_none_or(|place| origins(view, budget, place).any(has_type))
        };
        let found = |view: &View<'_>, budget: &Budget, found| Some(returns(view, budget, found));
        self.find(dw::DW_TAG_subprogram, function, found) == Some(false)
    }

    /// The variable, the member of it at an offset, the member of that, and so on.
    fn levels(&self, variable: &Symbol, at: u64) -> Option<Vec<Level>> {
        let levels = |view: &View<'_>, budget: &Budget, found: Found| {
            Walk { view, budget }.levels(found.place(view)?, variable, at)
        };
        self.find(dw::DW_TAG_variable, variable, levels)
    }

    /// What the entry of a symbol says.
    fn find<T>(
        &self,
        tag: gimli::DwTag,
        symbol: &Symbol,
        says: impl FnOnce(&View<'_>, &Budget, Found) -> Option<T>,
    ) -> Option<T> {
        if self.unavailable().is_some() {
            return None;
        }
        let mut known = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let budget = Budget::new(self.elf.bytes().len(), known.spent);
        let view = self.view();
        let key = (symbol.address, symbol.name.clone());
        let search = || Finder { tag, view: &view, budget: &budget, name: &symbol.name, address: symbol.address }.run();
        let found = *known.found.entry(key).or_insert_with(search);
        let said = found.and_then(|found| says(&view, &budget, found));
        known.spent = known.spent.saturating_add(began.elapsed());
        said
    }
}

/// A member on the way to an address, or the variable.
struct Level {
    path: String,
    /// Bytes from the beginning of the variable.
    begin: u64,
    size: u64,
    /// Of an array.
    lengths: Vec<u64>,
    is_pointer: bool,
    points_to: Vec<String>,
}

/// A member of a struct.
struct Part<'a> {
    /// `None` for an unnamed struct or union in it, and for a base class.
    name: Option<String>,
    /// Bytes from the beginning of the struct.
    begin: u64,
    /// `None` for a bit-field.
    of: Option<Place<'a>>,
    size: u64,
}

/// An array: the lengths of its dimensions, and the type of its elements.
struct Elements<'a> {
    lengths: Vec<u64>,
    of: Place<'a>,
    size: u64,
}

/// Follows types from a variable to an address in it.
struct Walk<'a, 'v> {
    view: &'v View<'a>,
    budget: &'v Budget,
}

type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

impl<'a> Walk<'a, '_> {
    fn levels(&self, variable: Place<'a>, symbol: &Symbol, at: u64) -> Option<Vec<Level>> {
        let mut of = self.type_of(variable)?;
        let mut size = self.size(of.clone())?;
        // An array without a length at the end of a struct makes its symbol larger than its type, nothing makes it smaller.
        if symbol.size != 0 && size > symbol.size {
            return None;
        }
        let (mut path, mut begin, mut is_named) = (symbol.name.clone(), 0u64, true);
        let mut levels: Vec<Level> = Vec::new();
        for _ in 0..MAX_LEVELS {
            self.budget.step()?;
            let into = at.checked_sub(begin).filter(|into| *into < size)?;
            of = self.stripped(of)?;
            let elements = self.elements(&of);
            let lengths = elements.as_ref().map_or_else(Vec::new, |elements| elements.lengths.clone());
            if is_named {
                let is_pointer = is_pointer(&of);
                let points_to = if is_pointer { self.structs(&of) } else { Vec::new() };
                levels.push(Level { path: path.clone(), begin, size, lengths, is_pointer, points_to });
            }
            if let Some(elements) = elements {
                let index = into.checked_div(elements.size)?;
                subscript(&mut path, index, &elements.lengths)?;
                begin = begin.checked_add(index.checked_mul(elements.size)?)?;
                (of, size, is_named) = (elements.of, elements.size, true);
                continue;
            }
            let Some(part) = self.part(&of, into) else { return Some(levels) };
            let end = part.begin.checked_add(part.size)?;
            if into >= end || end > size {
                return Some(levels);
            }
            begin = begin.checked_add(part.begin)?;
            is_named = part.name.is_some();
            path.extend(part.name.iter().flat_map(|name| [".", name]));
            let Some(next) = part.of else {
                let (lengths, points_to) = (Vec::new(), Vec::new());
                levels.push(Level { path, begin: at, size: 1, lengths, is_pointer: false, points_to });
                return Some(levels);
            };
            (of, size) = (next, part.size);
        }
        None
    }

    /// The type of a variable, which only its declaration may have.
    fn type_of(&self, variable: Place<'a>) -> Option<Place<'a>> {
        origins(self.view, self.budget, variable).find_map(|place| self.of(&place))
    }

    /// The type that an entry refers to.
    fn of(&self, place: &Place<'a>) -> Option<Place<'a>> {
        let to = place.unit.entry(place.entry).ok()?.attr_value(dw::DW_AT_type)?;
        follow(self.view, self.budget, &place.unit, to)
    }

    /// A type without its typedefs and qualifiers.
    fn stripped(&self, from: Place<'a>) -> Option<Place<'a>> {
        let mut at = from;
        for _ in 0..MAX_TYPEDEFS {
            self.budget.step()?;
            let entry = at.unit.entry(at.entry).ok()?;
            let to = match entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => entry.attr_value(dw::DW_AT_type)?,
                // The body may be in a type unit.
                _ if entry.has_attr(dw::DW_AT_declaration) => entry.attr_value(dw::DW_AT_signature)?,
                _ => return Some(at),
            };
            at = follow(self.view, self.budget, &at.unit, to)?;
        }
        None
    }

    /// The names of the struct that a pointer points to, and of those at the beginning of that.
    fn structs(&self, pointer: &Place<'a>) -> Vec<String> {
        let mut all = Vec::new();
        let mut next = self.of(pointer);
        while let Some(at) = next.take().filter(|_| all.len() < MAX_LEVELS) {
            let typedef = self.typedef(at.clone());
            let Some(of) = self.stripped(at) else { return Vec::new() };
            match tag(&of) {
                Some(dw::DW_TAG_structure_type | dw::DW_TAG_class_type) => {}
                Some(dw::DW_TAG_union_type) | None => return Vec::new(),
                // Of an array the first element is there.
                Some(dw::DW_TAG_array_type) => {
                    let Some(elements) = self.elements(&of) else { return Vec::new() };
                    next = Some(elements.of);
                    continue;
                }
                _ => break,
            }
            let own = self.name(&of);
            if typedef.is_none() && own.is_none() {
                return Vec::new();
            }
            all.extend(typedef.into_iter().chain(own));
            next = self.part(&of, 0).and_then(|part| part.of);
        }
        all
    }

    /// The name of a typedef, whose qualifiers have none.
    fn typedef(&self, from: Place<'a>) -> Option<String> {
        let mut at = from;
        while matches!(tag(&at), Some(dw::DW_TAG_const_type | dw::DW_TAG_volatile_type)) {
            self.budget.step()?;
            at = self.of(&at)?;
        }
        if tag(&at) == Some(dw::DW_TAG_typedef) { self.name(&at) } else { None }
    }

    fn name(&self, at: &Place<'a>) -> Option<String> {
        let name = at.unit.entry(at.entry).ok()?.attr_value(dw::DW_AT_name)?;
        Some(budget::name(self.view.attr_string(&at.unit, name).ok()?.slice()))
    }

    /// The size of a type in bytes.
    fn size(&self, of: Place<'a>) -> Option<u64> {
        let (mut at, mut times) = (of, 1u64);
        for _ in 0..MAX_TYPEDEFS {
            at = self.stripped(at)?;
            let entry = at.unit.entry(at.entry).ok()?;
            if let Some(size) = number(&entry, dw::DW_AT_byte_size) {
                return times.checked_mul(size);
            }
            match entry.tag() {
                dw::DW_TAG_array_type => {
                    let all = self.lengths(&at)?.into_iter().try_fold(1u64, u64::checked_mul)?;
                    times = times.checked_mul(all)?;
                    at = self.of(&at)?;
                }
                dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type => {
                    return times.checked_mul(u64::from(at.unit.encoding().address_size));
                }
                _ => return None,
            }
        }
        None
    }

    /// The elements of an array; `None` for other types, and for arrays whose elements are not one after the other.
    fn elements(&self, place: &Place<'a>) -> Option<Elements<'a>> {
        let entry = place.unit.entry(place.entry).ok()?;
        let is_strange = [dw::DW_AT_ordering, dw::DW_AT_byte_stride, dw::DW_AT_bit_stride, dw::DW_AT_GNU_vector];
        if entry.tag() != dw::DW_TAG_array_type || is_strange.into_iter().any(|at| entry.has_attr(at)) {
            return None;
        }
        let (lengths, of) = (self.lengths(place)?, self.of(place)?);
        let size = self.size(of.clone()).filter(|size| *size > 0)?;
        Some(Elements { lengths, of, size })
    }

    /// The lengths of an array's dimensions. An array without a length has none.
    fn lengths(&self, place: &Place<'a>) -> Option<Vec<u64>> {
        let mut lengths = Vec::new();
        let mut tree = place.unit.entries_tree(Some(place.entry)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            self.budget.step()?;
            let entry = child.entry();
            match entry.tag() {
                dw::DW_TAG_subrange_type if lengths.len() < MAX_DIMENSIONS => lengths.push(length(entry)?),
                // The range of an enumeration, or too many.
                dw::DW_TAG_subrange_type | dw::DW_TAG_enumeration_type => return None,
                _ => {}
            }
        }
        (!lengths.is_empty()).then_some(lengths)
    }

    /// The member of a struct that is at an offset or begins in front of it, the nearest. `None` for unions, too.
    fn part(&self, place: &Place<'a>, into: u64) -> Option<Part<'a>> {
        if !matches!(place.unit.entry(place.entry).ok()?.tag(), dw::DW_TAG_structure_type | dw::DW_TAG_class_type) {
            return None;
        }
        let mut best: Option<(u64, UnitOffset)> = None;
        let mut tree = place.unit.entries_tree(Some(place.entry)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut left = MAX_MEMBERS;
        while let Some(child) = children.next().ok()? {
            self.budget.step()?;
            left = left.checked_sub(1)?;
            let entry = child.entry();
            let is_part = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            // A static member of a class is elsewhere.
            if !is_part || entry.has_attr(dw::DW_AT_declaration) || entry.has_attr(dw::DW_AT_external) {
                continue;
            }
            let begin = match entry.has_attr(dw::DW_AT_bit_size) {
                true => self.bits(place, entry).filter(|(_, end)| into < *end).map(|(begin, _)| begin),
                false => member_place(&place.unit, |at| entry.attr_value(at)),
            };
            let Some(begin) = begin.filter(|begin| *begin <= into) else { continue };
            // Bit-fields that share a byte are all at its address: the first of them is named.
            let is_better = |best: u64| begin > best || begin == best && !entry.has_attr(dw::DW_AT_bit_size);
            if best.is_none_or(|(best, _)| is_better(best)) {
                best = Some((begin, entry.offset()));
            }
        }
        self.read_part(place, best?)
    }

    fn read_part(&self, within: &Place<'a>, (begin, at): (u64, UnitOffset)) -> Option<Part<'a>> {
        let place = Place { unit: within.unit.clone(), entry: at };
        let entry = place.unit.entry(at).ok()?;
        let name = match entry.attr_value(dw::DW_AT_name).filter(|_| entry.tag() == dw::DW_TAG_member) {
            Some(name) => Some(budget::name(self.view.attr_string(&place.unit, name).ok()?.slice())),
            None => None,
        };
        if entry.has_attr(dw::DW_AT_bit_size) {
            let (_, end) = self.bits(within, &entry)?;
            return Some(Part { name: Some(name?), begin, of: None, size: end.checked_sub(begin)? });
        }
        let of = self.of(&place)?;
        let size = self.size(of.clone())?;
        Some(Part { name, begin, of: Some(of), size })
    }

    /// The bytes in which a bit-field is: the first, and the one behind the last. DWARF 2 and 3 count the bits of a storage
    /// unit from its most significant one (DWARF 3, section 5.6.6).
    fn bits(&self, within: &Place<'a>, entry: &Entry<'a>) -> Option<(u64, u64)> {
        let bits = number(entry, dw::DW_AT_bit_size)?;
        let first = match (number(entry, dw::DW_AT_data_bit_offset), number(entry, dw::DW_AT_bit_offset)) {
            (Some(first), _) => first,
            (None, Some(from_top)) => {
                let storage = member_place(&within.unit, |at| entry.attr_value(at))?.checked_mul(8)?;
                let own = Place { unit: within.unit.clone(), entry: entry.offset() };
                let size = number(entry, dw::DW_AT_byte_size).or_else(|| self.size(self.of(&own)?))?.checked_mul(8)?;
                let is_big = matches!(self.view.debug_info.reader().endian(), RunTimeEndian::Big);
                let into = if is_big { from_top } else { size.checked_sub(from_top)?.checked_sub(bits)? };
                storage.checked_add(into)?
            }
            (None, None) => member_place(&within.unit, |at| entry.attr_value(at))?.checked_mul(8)?,
        };
        Some((first / 8, first.checked_add(bits)?.div_ceil(8)))
    }
}

fn tag(of: &Place<'_>) -> Option<gimli::DwTag> {
    of.unit.entry(of.entry).ok().map(|entry| entry.tag())
}

fn is_pointer(of: &Place<'_>) -> bool {
    matches!(tag(of), Some(dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type))
}

fn number(entry: &Entry<'_>, at: gimli::DwAt) -> Option<u64> {
    entry.attr_value(at)?.udata_value()
}

/// The length of a dimension that is counted from 0.
fn length(range: &Entry<'_>) -> Option<u64> {
    if range.attr_value(dw::DW_AT_lower_bound).is_some_and(|from| from.udata_value() != Some(0)) {
        return None;
    }
    match (number(range, dw::DW_AT_count), range.attr_value(dw::DW_AT_upper_bound)) {
        (Some(count), _) => Some(count),
        // -1 is what GCC writes for no element at all.
        (None, Some(AttributeValue::Sdata(last))) => u64::try_from(last.checked_add(1)?).ok(),
        (None, Some(last)) => last.udata_value()?.checked_add(1),
        (None, None) => None,
    }
}

/// Appends the subscripts of an element: `[1][3]`.
fn subscript(path: &mut String, index: u64, lengths: &[u64]) -> Option<()> {
    let mut rest = index;
    let mut subscripts = Vec::new();
    for length in lengths.iter().rev() {
        subscripts.push(rest.checked_rem(*length)?);
        rest = rest.checked_div(*length)?;
    }
    subscripts.iter().rev().try_for_each(|subscript| write!(path, "[{subscript}]").ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::elf::Elf;
    use crate::elf::tests::writer::{Writer, sect};

    /// Where the entries below are in their unit.
    const STRUCT: u8 = 28;
    const TYPEDEF: u8 = 41;
    const POINTER: u8 = 46;

    /// The variable `ring` of such a type, beside a struct that is its own member and a typedef of itself.
    fn dwarf(of: u8) -> Dwarf {
        // Unit; variable: name, type, location; struct: size; member: name, type, place; typedef: type.
        let abbreviations = [
            &[1, 0x11, 1, 0, 0][..],
            &[2, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0],
            &[3, 0x13, 1, 0x0B, 0x0B, 0, 0],
            &[4, 0x0D, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0B, 0, 0],
            &[5, 0x16, 0, 0x49, 0x13, 0, 0],
            &[6, 0x0F, 0, 0x0B, 0x0B, 0, 0, 0],
        ];
        let entries = [
            &[4, 0, 0, 0, 0, 0, 4, 1][..],
            &[2, b'r', b'i', b'n', b'g', 0, of, 0, 0, 0, 5, 0x03, 0x10, 0x20, 0, 0],
            &[3, 4, 4, b'o', b'w', b'n', 0, STRUCT, 0, 0, 0, 0, 0],
            &[5, TYPEDEF, 0, 0, 0],
            &[6, 4, 0],
        ];
        let mut info = u32::try_from(entries.concat().len()).unwrap().to_le_bytes().to_vec();
        info.extend(entries.concat());
        let mut w = Writer::new(false, false, 2, 40);
        w.sects = vec![
            sect(".debug_info", 1, 0, 0, info),
            sect(".debug_abbrev", 1, 0, 0, abbreviations.concat()),
            sect(".debug_str", 1, 0, 0, vec![0]),
        ];
        Dwarf::new(Arc::new(Elf::open(w.build()).unwrap()))
    }

    #[test]
    fn types_that_contain_themselves_end_somewhere() {
        let ring = |size| Symbol { name: "ring".to_owned(), address: 0x2010, size };
        for (of, what) in [(STRUCT, "a struct"), (TYPEDEF, "a typedef")] {
            let dwarf = dwarf(of);
            assert_eq!(dwarf.unavailable(), None);
            assert_eq!(dwarf.member(&ring(4), 0), None, "{what}");
            assert_eq!(dwarf.arrays_ending(&ring(4), 4), [], "{what}");
        }
        // The entries are read as they are meant.
        assert!(dwarf(STRUCT).levels(&ring(2), 0).is_none(), "the type is larger than the symbol");
        assert!(dwarf(STRUCT).variables.lock().unwrap().found.values().all(Option::is_some), "the variable is found");
    }

    /// A handler of faults that stores the address that failed had it in a variable that was said to be the pointer.
    #[test]
    fn a_number_was_taken_for_a_pointer() {
        let ring = Symbol { name: "ring".to_owned(), address: 0x2010, size: 4 };
        let of = |of| dwarf(of).member(&ring, 0).map(|member| member.is_pointer);
        assert_eq!((of(POINTER), of(STRUCT)), (Some(true), None));
        assert_eq!(dwarf(POINTER).member(&ring, 2).map(|member| (member.is_pointer, member.offset)), Some((true, 2)));
    }

    #[test]
    fn subscripts_of_an_element() {
        let of = |index, lengths: &[u64]| {
            let mut path = "a".to_owned();
            subscript(&mut path, index, lengths).map(|()| path)
        };
        assert_eq!(of(5, &[2, 3]).as_deref(), Some("a[1][2]"));
        assert_eq!(of(7, &[16]).as_deref(), Some("a[7]"));
        assert_eq!(of(0, &[0]), None, "no element");
    }
}
