//! Debug information: types with the places of their members, enums, and (in `cfi`, `lines` and `members`) unwind tables,
//! source lines, and what is at an address within a variable.
//!
//! The only room that uses gimli and addr2line. A C type is directly below the root of its unit, so only those entries are read; and
//! only in units whose bytes contain the offset of the name in `.debug_str`, or the name itself. DWARF 2 to 5; nothing is
//! indexed ahead.

mod budget;
mod cfi;
mod enums;
mod lines;
mod members;
mod variables;

pub use cfi::{Caller, CallerValue, Cfi, CfiError, Values};
pub use enums::{EnumNames, Found, MacroText};
pub use lines::{Lines, SourceFrame, SourceUnit};
pub use members::{ArrayMember, ArrayPlace, Member};

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gimli::{
    AttributeValue, DwAt, DwTag, DwarfSections, EndianSlice, Operation, Reader, RunTimeEndian, Section, Unit,
    UnitHeader, UnitOffset, UnitType, constants as dw,
};

use crate::abi::Endian;
use crate::bytes::Bytes;
use crate::elf::{Elf, ElfKind, SHF_COMPRESSED};
use budget::Budget;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type View<'a> = gimli::Dwarf<Slice<'a>>;

/// The most typedefs that are followed one after the other.
const MAX_TYPEDEFS: usize = 32;
/// How deep unnamed structs within structs are read.
const MAX_DEPTH: usize = 8;
/// The most members of one type: structs within structs multiply.
const MAX_MEMBERS: usize = 1 << 16;
/// Where a name is in `.debug_str` more often than this, every unit is read.
const MAX_PLACES: usize = 32;

/// A type's size, and its members where it is a struct or a union.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeLayout {
    /// Bytes; `None` where the compiler gives no size.
    pub size: Option<u64>,
    /// Name and offset in bytes, in the order of the source. Members of unnamed inner structs are among them.
    pub members: Vec<(String, u64)>,
}

/// The debug information of one program. Reads nothing until a type is asked for, and keeps what it found.
pub struct Dwarf {
    elf: Arc<Elf>,
    sections: OnceLock<DwarfSections<Bytes>>,
    known: Mutex<Known>,
    variables: Mutex<members::Variables>,
    unavailable: OnceLock<Option<String>>,
    /// A search ran out of time: all later ones would too.
    timed_out: AtomicBool,
}

/// The types that were searched for, and the time of all searches.
#[derive(Default)]
struct Known {
    types: HashMap<String, Option<Arc<TypeLayout>>>,
    spent: Duration,
}

impl Dwarf {
    /// Over the debug sections of `elf`.
    pub fn new(elf: Arc<Elf>) -> Self {
        Self {
            elf,
            sections: OnceLock::new(),
            known: Mutex::default(),
            variables: Mutex::default(),
            unavailable: OnceLock::new(),
            timed_out: AtomicBool::new(false),
        }
    }

    /// Why no types can be read, in words; `None` where they can.
    pub fn unavailable(&self) -> Option<String> {
        if self.timed_out.load(Ordering::Relaxed) {
            return Some("the ELF's debug information takes too long to read: it is damaged".to_owned());
        }
        self.unavailable.get_or_init(|| self.why_unavailable()).clone()
    }

    fn why_unavailable(&self) -> Option<String> {
        if self.elf.kind() == ElfKind::Object {
            return Some("the ELF is not linked: types of object files are not read".to_owned());
        }
        if self.elf.section(".debug_info").is_none()
            && let Some(lost) = self.elf.cut_short()
        {
            return Some(format!("no debug information can be found in the ELF: {lost}"));
        }
        let compressed = |name: &str| self.elf.section(name).is_some_and(|s| s.flags & SHF_COMPRESSED != 0);
        if [".debug_info", ".debug_abbrev", ".debug_str"].into_iter().any(compressed)
            || self.elf.section(".zdebug_info").is_some()
        {
            let how = "objcopy --decompress-debug-sections IN OUT undoes it";
            return Some(format!("the ELF's debug information is compressed, which is not read: {how}"));
        }
        match self.elf.section(".debug_info") {
            None => Some("the ELF has no debug information (built without -g, or stripped)".to_owned()),
            Some(_) if self.is_split() => {
                Some("the ELF's debug information is in .dwo files (-gsplit-dwarf), which are not read".to_owned())
            }
            Some(_) => None,
        }
    }

    /// True where the first unit is only a stub for a `.dwo` file.
    fn is_split(&self) -> bool {
        let view = self.view();
        let first = view.units().next().ok().flatten();
        first.and_then(|h| view.unit(h).ok()).is_some_and(|unit| {
            matches!(unit.header.type_(), UnitType::Skeleton(_)) || unit.dwo_name().is_ok_and(|n| n.is_some())
        })
    }

    /// The layout of a type: the name of a typedef, a struct, a union or a basic type.
    pub fn layout(&self, type_name: &str) -> Option<Arc<TypeLayout>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.types.get(type_name) {
            return found.clone();
        }
        let usable = !type_name.is_empty() && self.elf.section(".debug_info").is_some() && self.unavailable().is_none();
        let began = Instant::now();
        let budget = Budget::new(self.elf.bytes().len(), known.spent);
        let found = if usable { Search::new(&self.view(), type_name, &budget).run().map(Arc::new) } else { None };
        if usable && budget.check().is_none() {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        known.spent = known.spent.saturating_add(began.elapsed());
        known.types.insert(type_name.to_owned(), found.clone());
        found
    }

    /// Offset of a member in bytes.
    pub fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        let layout = self.layout(type_name)?;
        layout.members.iter().find(|(name, _)| name == member).map(|(_, offset)| *offset)
    }

    /// Size of a type in bytes.
    pub fn type_size(&self, type_name: &str) -> Option<u64> {
        self.layout(type_name)?.size
    }

    /// The rules by which callers are found. Reads the headers of all of their entries.
    pub fn cfi(&self) -> Cfi<'_> {
        let bytes = |name| {
            let section = self.elf.section(name).filter(|s| s.flags & SHF_COMPRESSED == 0);
            section.map_or(&[][..], |s| self.elf.section_slice(&s))
        };
        Cfi::new(&self.elf, bytes(".debug_frame"), bytes(".eh_frame"))
    }

    /// True where there are such rules. An empty `.eh_frame` is a word of zeros.
    pub fn has_cfi(&self) -> bool {
        let size = |name| self.elf.section(name).map_or(0, |section| section.size);
        size(".debug_frame") > 0 || size(".eh_frame") > 8
    }

    fn view(&self) -> View<'_> {
        let sections = self.sections.get_or_init(|| {
            let load = |id: gimli::SectionId| {
                let section = self.elf.section(id.name());
                let bytes = section.map_or_else(|| Bytes::from(Vec::new()), |s| self.elf.section_bytes(&s));
                Ok::<_, std::convert::Infallible>(bytes)
            };
            match DwarfSections::load(load) {
                Ok(sections) => sections,
                Err(never) => match never {},
            }
        });
        let endian = match self.elf.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        sections.borrow(|bytes| EndianSlice::new(bytes, endian))
    }
}

/// One search for one type.
struct Search<'a, 'v> {
    view: &'v View<'a>,
    name: &'v [u8],
    /// Where `.debug_str` has the name; `None` where it has it too often.
    places: Option<Vec<u64>>,
    budget: &'v Budget,
}

/// An entry of debug information.
#[derive(Clone)]
struct Place<'a> {
    unit: Arc<Unit<Slice<'a>>>,
    entry: UnitOffset,
}

impl<'a, 'v> Search<'a, 'v> {
    fn new(view: &'v View<'a>, name: &'v str, budget: &'v Budget) -> Self {
        let strings = view.debug_str.reader().slice();
        let mut needle = name.as_bytes().to_vec();
        needle.push(0);
        // The linker merges strings that end alike, so the name may begin within another.
        let found: Vec<u64> = places(strings, &needle).take(MAX_PLACES).filter_map(|n| u64::try_from(n).ok()).collect();
        let places = (found.len() < MAX_PLACES).then_some(found);
        Self { view, name: name.as_bytes(), places, budget }
    }

    fn run(&self) -> Option<TypeLayout> {
        for header in headers(self.view) {
            self.budget.check()?;
            if self.may_name(&header)
                && let Ok(unit) = self.view.unit(header)
                && let Some(found) = self.in_unit(Arc::new(unit))
            {
                return Some(found);
            }
        }
        None
    }

    /// Whether the bytes of a unit can hold the name.
    fn may_name(&self, header: &UnitHeader<Slice<'a>>) -> bool {
        // Names by index (DW_FORM_strx) are in a table of offsets, not in the unit.
        let indexed = header.version() >= 5 && !self.view.debug_str_offsets.reader().slice().is_empty();
        let Some(places_of_name) = self.places.as_ref().filter(|_| !indexed) else { return true };
        let Ok(bytes) = header.range_from(header.root_offset()..) else { return false };
        let (bytes, big) = (bytes.slice(), matches!(self.view.debug_info.reader().endian(), RunTimeEndian::Big));
        let wide = header.format() == gimli::Format::Dwarf64;
        let by_offset = places_of_name.iter().any(|place| {
            let (le, be) = (place.to_le_bytes(), place.to_be_bytes());
            let needle = match (wide, big) {
                (true, true) => be.get(..),
                (true, false) => le.get(..),
                (false, true) => be.get(4..),
                (false, false) => le.get(..4),
            };
            needle.is_some_and(|needle| places(bytes, needle).next().is_some())
        });
        by_offset || places(bytes, self.name).next().is_some()
    }

    /// The first complete type of this name below the unit's root.
    fn in_unit(&self, unit: Arc<Unit<Slice<'a>>>) -> Option<TypeLayout> {
        let mut named = Vec::new();
        let mut tree = unit.entries_tree(None).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            self.budget.step()?;
            let entry = child.entry();
            if is_type(entry.tag())
                && let Some(name) = entry.attr_value(dw::DW_AT_name)
                && self.view.attr_string(&unit, name).is_ok_and(|n| n.slice() == self.name)
            {
                named.push(entry.offset());
            }
        }
        let layouts = named.into_iter().filter_map(|entry| self.resolve(Place { unit: Arc::clone(&unit), entry }, 0));
        layouts.into_iter().next()
    }

    /// Follows typedefs to a type with a size. Declarations without a body are not found.
    fn resolve(&self, from: Place<'a>, depth: usize) -> Option<TypeLayout> {
        let mut at = from;
        for _ in 0..MAX_TYPEDEFS {
            self.budget.step()?;
            let (unit, offset) = (Arc::clone(&at.unit), at.entry);
            let entry = unit.entry(offset).ok()?;
            let size = entry.attr_value(dw::DW_AT_byte_size).and_then(|v| v.udata_value());
            match entry.tag() {
                dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type | dw::DW_TAG_atomic_type => {
                    at = follow(self.view, self.budget, &unit, entry.attr_value(dw::DW_AT_type)?)?;
                }
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                    if entry.has_attr(dw::DW_AT_declaration) {
                        // The body may be in a type unit.
                        at = follow(self.view, self.budget, &unit, entry.attr_value(dw::DW_AT_signature)?)?;
                        continue;
                    }
                    return Some(TypeLayout { size, members: self.members(&unit, offset, depth)? });
                }
                dw::DW_TAG_pointer_type => {
                    let size = size.or(Some(u64::from(unit.encoding().address_size)));
                    return Some(TypeLayout { size, members: Vec::new() });
                }
                _ => return Some(TypeLayout { size, members: Vec::new() }),
            }
        }
        None
    }

    fn members(&self, unit: &Arc<Unit<Slice<'a>>>, of: UnitOffset, depth: usize) -> Option<Vec<(String, u64)>> {
        let mut members = Vec::new();
        let mut unnamed = Vec::new();
        let mut tree = unit.entries_tree(Some(of)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            self.budget.step()?;
            if members.len() >= MAX_MEMBERS {
                return None;
            }
            let entry = child.entry();
            if entry.tag() != dw::DW_TAG_member {
                continue;
            }
            let Some(offset) = member_place(unit, |at| entry.attr_value(at)) else { continue };
            match entry.attr_value(dw::DW_AT_name) {
                Some(name) => {
                    let name = self.view.attr_string(unit, name).ok()?;
                    members.push((budget::name(name.slice()), offset));
                }
                None => unnamed.extend(entry.attr_value(dw::DW_AT_type).map(|of| (of, offset))),
            }
        }
        for (of, base) in unnamed {
            let inner = follow(self.view, self.budget, unit, of).filter(|_| depth < MAX_DEPTH);
            let inner = inner.and_then(|place| self.resolve(place, depth.saturating_add(1)));
            let moved = |(name, offset): (String, u64)| Some((name, base.checked_add(offset)?));
            members.extend(inner.into_iter().flat_map(|i| i.members).filter_map(moved));
            if members.len() > MAX_MEMBERS {
                return None;
            }
        }
        Some(members)
    }
}

/// The entry that an attribute refers to: in this unit, in another, or by signature.
fn follow<'a>(
    view: &View<'a>,
    budget: &Budget,
    unit: &Arc<Unit<Slice<'a>>>,
    value: AttributeValue<Slice<'a>>,
) -> Option<Place<'a>> {
    match value {
        AttributeValue::UnitRef(entry) => Some(Place { unit: Arc::clone(unit), entry }),
        AttributeValue::DebugInfoRef(offset) => {
            let mut units = view.units();
            while let Ok(Some(header)) = units.next() {
                budget.step()?;
                if let Some(entry) = offset.to_unit_offset(&header) {
                    return Some(Place { unit: Arc::new(view.unit(header).ok()?), entry });
                }
            }
            None
        }
        AttributeValue::DebugTypesRef(wanted) => {
            for header in headers(view) {
                budget.step()?;
                if let UnitType::Type { type_signature, type_offset } = header.type_()
                    && type_signature == wanted
                {
                    return Some(Place { unit: Arc::new(view.unit(header).ok()?), entry: type_offset });
                }
            }
            None
        }
        _ => None,
    }
}

/// The offset of a member in bytes. A union's members, which need no offset, are at 0; a bit-field that does not
/// begin a byte has none.
fn member_place<'a>(unit: &Unit<Slice<'a>>, attr: impl Fn(DwAt) -> Option<AttributeValue<Slice<'a>>>) -> Option<u64> {
    if let Some(bits) = attr(dw::DW_AT_data_bit_offset) {
        let bits = bits.udata_value()?;
        return bits.is_multiple_of(8).then_some(bits / 8);
    }
    match attr(dw::DW_AT_data_member_location) {
        None => Some(0),
        // DWARF 2 wrote an expression: add a constant to the address of the whole.
        Some(AttributeValue::Exprloc(expression)) => match expression.operations(unit.encoding()).next() {
            Ok(Some(Operation::PlusConstant { value })) => Some(value),
            _ => None,
        },
        Some(value) => value.udata_value(),
    }
}

const fn is_type(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_typedef
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_base_type
            | dw::DW_TAG_enumeration_type
    )
}

/// The headers of all units: those of `.debug_info`, then DWARF 4's type units. Ends at damage.
fn headers<'a>(view: &View<'a>) -> impl Iterator<Item = UnitHeader<Slice<'a>>> {
    let (mut units, mut types) = (view.units(), view.type_units());
    std::iter::from_fn(move || units.next().ok().flatten().or_else(|| types.next().ok().flatten()))
}

/// Every place where `needle` begins in `bytes`.
fn places<'b>(bytes: &'b [u8], needle: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    let first = needle.first().copied();
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let first = first?;
        loop {
            let rest = bytes.get(at..)?;
            let here = at.checked_add(rest.iter().position(|b| *b == first)?)?;
            at = here.checked_add(1)?;
            if bytes.get(here..)?.starts_with(needle) {
                return Some(here);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_needle() {
        assert_eq!(places(b"abababx", b"abab").collect::<Vec<_>>(), [0, 2]);
        assert_eq!(places(b"", b"a").count(), 0);
        assert_eq!(places(b"aaa", b"").count(), 0);
        assert_eq!(places(b"xxa", b"ab").count(), 0);
    }
}
