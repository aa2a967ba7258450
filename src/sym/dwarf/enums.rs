//! Enumerators and macros whose values are in a range: the program's names of the events that it inserts.
//!
//! This reads all of the debug information, so it is only done where a name is missing. Most units are skipped by
//! their abbreviations, which show whether an enumerator of the unit can have a value that is large enough.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use gimli::{
    Abbreviation, Abbreviations, AttributeValue, DebugAbbrevOffset, DebugMacroOffset, DwForm, EntriesRaw, MacroEntry,
    MacroIter, Unit, UnitHeader, UnitRef, constants as dw,
};

use super::budget::{self, Budget};
use super::{Dwarf, Slice, View};

/// The most entries that one walk looks at.
const MAX_ENTRIES: usize = 50_000_000;
/// The most macros that one walk looks at.
const MAX_MACROS: usize = 20_000_000;
/// The most names that one walk keeps. Those of a header count in each unit that includes it.
const MAX_NAMES: usize = 1 << 20;
/// How deep macro units may import each other.
const MAX_IMPORTS: u32 = 32;

/// The most bytes of names that one walk keeps.
const MAX_BYTES: usize = 16 << 20;

/// An enumeration of the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EnumNames {
    /// Its tag, its typedef, or its first enumerator. Hostile text.
    pub name: String,
    /// Source file and line where the compiler gives them, else the unit. Hostile text.
    pub place: String,
    /// Its enumerators in the range, in the order of the source. Hostile text.
    pub words: Vec<(u32, String)>,
}

/// A macro without parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MacroText {
    /// Its name. Hostile text.
    pub name: String,
    /// Its replacement text.
    pub body: String,
    /// The file that defines it; `None` where the compiler itself, or its command line, does.
    pub file: Option<String>,
}

/// The result of a walk.
#[derive(Debug, Clone)]
pub struct Found<T> {
    /// In the order of the debug information, each once.
    pub all: Vec<T>,
    /// True where the debug information is damaged, or too large for a walk.
    pub partial: bool,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { all: Vec::new(), partial: false }
    }
}

impl Dwarf {
    /// Every enumeration with an enumerator in `range`.
    pub fn enums(&self, range: &RangeInclusive<u32>) -> Found<EnumNames> {
        if self.unavailable().is_some() {
            return Found::default();
        }
        let view = self.view();
        let mut walk = Walk {
            view: &view,
            range,
            left: MAX_ENTRIES,
            names: MAX_NAMES,
            seen: HashSet::new(),
            without: HashSet::new(),
            table: None,
            bytes: MAX_BYTES,
            budget: Budget::new(self.elf.bytes().len(), Duration::ZERO),
            found: Found::default(),
        };
        let (mut units, mut old) = (view.units(), view.type_units());
        loop {
            match units.next() {
                Ok(Some(header)) if walk.budget.check().is_some() => walk.unit(header),
                Ok(None) => break,
                Ok(_) | Err(_) => {
                    walk.found.partial = true;
                    break;
                }
            }
        }
        while let Ok(Some(header)) = old.next() {
            walk.unit(header);
        }
        walk.found
    }

    /// True where the compiler recorded macros (`-g3`).
    fn has_macros(&self) -> bool {
        [".debug_macro", ".debug_macinfo"].into_iter().any(|s| self.elf.section(s).is_some())
    }

    /// Every macro without parameters, each name once: where files differ, the first.
    pub fn macros(&self) -> Found<MacroText> {
        if self.unavailable().is_some() || !self.has_macros() {
            return Found::default();
        }
        let view = self.view();
        let mut walk = MacroWalk {
            left: MAX_MACROS,
            bytes: MAX_BYTES,
            budget: Budget::new(self.elf.bytes().len(), Duration::ZERO),
            names: HashSet::new(),
            imported: HashSet::new(),
            files: Vec::new(),
            by_file: HashMap::new(),
            found: Found::default(),
        };
        let mut units = view.units();
        while let Ok(Some(header)) = units.next() {
            if walk.budget.check().is_none() {
                walk.found.partial = true;
                break;
            }
            let Ok(unit) = view.unit(header) else { continue };
            walk.unit(&view, &unit);
        }
        walk.found
    }
}

/// The walk for enumerations.
struct Walk<'a, 'v> {
    view: &'v View<'a>,
    range: &'v RangeInclusive<u32>,
    left: usize,
    names: usize,
    /// What was found before: a header that ten files include is found ten times.
    seen: HashSet<(String, Vec<(u32, String)>)>,
    /// Tables of abbreviations without an enumerator that matters.
    without: HashSet<DebugAbbrevOffset>,
    /// The last other one: units that follow each other often share it.
    table: Option<(DebugAbbrevOffset, Rc<Abbreviations>)>,
    bytes: usize,
    budget: Budget,
    found: Found<EnumNames>,
}

/// An enumeration that is being read: its texts are looked up only if it has names in the range.
struct Open<'a> {
    depth: isize,
    offset: usize,
    name: Option<Value<'a>>,
    file: Option<u64>,
    line: Option<u64>,
    first: Option<Value<'a>>,
    words: Vec<(u32, Value<'a>)>,
}

type Value<'a> = AttributeValue<Slice<'a>>;

impl<'a> Walk<'a, '_> {
    fn unit(&mut self, header: UnitHeader<Slice<'a>>) {
        let offset = header.debug_abbrev_offset();
        if self.without.contains(&offset) {
            return;
        }
        let known = self.table.as_ref().filter(|(at, _)| *at == offset).map(|(_, table)| Rc::clone(table));
        let abbreviations = match known {
            Some(table) => table,
            None => {
                let Some(table) =
                    header.abbreviations(&self.view.debug_abbrev).ok().filter(|_| self.budget.check().is_some())
                else {
                    self.found.partial = true;
                    return;
                };
                if !may_hold(&table, self.range) {
                    self.without.insert(offset);
                    return;
                }
                let table = Rc::new(table);
                self.table = Some((offset, Rc::clone(&table)));
                table
            }
        };
        let mut done = Vec::new();
        if self.entries(&header, &abbreviations, &mut done).is_none() {
            self.found.partial = true;
        }
        if done.is_empty() || self.budget.check().is_none() {
            return;
        }
        // Not before: it reads the head of the line table.
        let Ok(unit) = self.view.unit(header) else { return };
        let unit = UnitRef::new(self.view, &unit);
        for open in done {
            if self.keep(unit, open).is_none() {
                self.found.partial = true;
                return;
            }
        }
    }

    /// Looks up the texts of an enumeration. `None` where there is no time or no room left for it.
    #[expect(clippy::arithmetic_side_effects, reason = "sizes of names in memory")]
    fn keep(&mut self, unit: UnitRef<'_, Slice<'a>>, open: Open<'a>) -> Option<()> {
        let Open { offset, name, file, line, first, words, .. } = open;
        let name = name.and_then(|n| text(unit, n)).or_else(|| self.typedef(unit, offset));
        let name = name.or_else(|| first.and_then(|n| text(unit, n))).unwrap_or_default();
        let mut all: Vec<(u32, String)> = Vec::with_capacity(words.len());
        let mut bytes = name.len();
        for (id, n) in words {
            // A name without an end is as long as its section.
            self.budget.check()?;
            let Some(word) = text(unit, n) else { continue };
            bytes += word.len() + size_of::<(u32, String)>();
            all.push((id, word));
        }
        if self.seen.insert((name.clone(), all.clone())) {
            self.bytes = self.bytes.checked_sub(bytes)?;
            self.found.all.push(EnumNames { name, place: place(unit, file, line), words: all });
        }
        Some(())
    }

    /// Walks the entries of a unit. `None` where they end in damage, or there are too many.
    fn entries(
        &mut self,
        header: &UnitHeader<Slice<'a>>,
        abbreviations: &Abbreviations,
        done: &mut Vec<Open<'a>>,
    ) -> Option<()> {
        let mut raw = header.entries_raw(abbreviations, None).ok()?;
        let mut open: Option<Open<'a>> = None;
        while !raw.is_empty() {
            self.left = self.left.checked_sub(1)?;
            self.budget.step()?;
            let (offset, depth) = (raw.next_offset(), raw.next_depth());
            if let Some(own) = open.take_if(|o| depth <= o.depth)
                && !own.words.is_empty()
            {
                done.push(own);
            }
            let Some(abbreviation) = raw.read_abbreviation().ok()? else { continue };
            match abbreviation.tag() {
                dw::DW_TAG_enumeration_type => open = Some(head(&mut raw, abbreviation, offset.0, depth)?),
                dw::DW_TAG_enumerator => {
                    let (name, value) = enumerator(&mut raw, abbreviation)?;
                    let Some((open, name)) = open.as_mut().zip(name) else { continue };
                    if open.first.is_none() {
                        open.first = Some(name);
                    }
                    if let Some(id) = value.and_then(|v| u32::try_from(v).ok()).filter(|v| self.range.contains(v)) {
                        self.names = self.names.checked_sub(1)?;
                        open.words.push((id, name));
                    }
                }
                _ => raw.skip_attributes(abbreviation.attributes()).ok()?,
            }
        }
        done.extend(open.filter(|o| !o.words.is_empty()));
        Some(())
    }

    /// The typedef of an enumeration that has no tag.
    fn typedef(&mut self, unit: UnitRef<'_, Slice<'a>>, offset: usize) -> Option<String> {
        let mut tree = unit.entries_tree(None).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            self.left = self.left.checked_sub(1)?;
            self.budget.step()?;
            let entry = child.entry();
            if entry.tag() == dw::DW_TAG_typedef
                && matches!(entry.attr_value(dw::DW_AT_type), Some(AttributeValue::UnitRef(to)) if to.0 == offset)
            {
                return text(unit, entry.attr_value(dw::DW_AT_name)?);
            }
        }
        None
    }
}

fn text<'a>(unit: UnitRef<'_, Slice<'a>>, value: Value<'a>) -> Option<String> {
    let slice = unit.attr_string(value).ok()?;
    Some(budget::name(slice.slice()))
}

fn head<'a>(
    raw: &mut EntriesRaw<'_, Slice<'a>>,
    abbreviation: &Abbreviation,
    offset: usize,
    depth: isize,
) -> Option<Open<'a>> {
    let mut own = Open { depth, offset, name: None, file: None, line: None, first: None, words: Vec::new() };
    for spec in abbreviation.attributes() {
        let attribute = raw.read_attribute(*spec).ok()?;
        match attribute.name() {
            dw::DW_AT_name => own.name = Some(attribute.value()),
            dw::DW_AT_decl_line => own.line = attribute.udata_value(),
            dw::DW_AT_decl_file => {
                own.file = match attribute.value() {
                    AttributeValue::FileIndex(n) => Some(n),
                    other => other.udata_value(),
                }
            }
            _ => {}
        }
    }
    Some(own)
}

fn enumerator<'a>(
    raw: &mut EntriesRaw<'_, Slice<'a>>,
    abbreviation: &Abbreviation,
) -> Option<(Option<Value<'a>>, Option<i64>)> {
    let (mut name, mut value) = (None, None);
    for spec in abbreviation.attributes() {
        let attribute = raw.read_attribute(*spec).ok()?;
        match attribute.name() {
            dw::DW_AT_name => name = Some(attribute.value()),
            dw::DW_AT_const_value => value = number(&attribute.value()),
            _ => {}
        }
    }
    Some((name, value))
}

fn number(value: &AttributeValue<Slice<'_>>) -> Option<i64> {
    // A form of fixed width does not say whether it is signed; the ids that are searched for are positive.
    value.udata_value().and_then(|v| i64::try_from(v).ok()).or_else(|| value.sdata_value())
}

/// Whether an enumerator of these abbreviations can have a value in the range.
fn may_hold(abbreviations: &Abbreviations, range: &RangeInclusive<u32>) -> bool {
    let large = |form: DwForm, constant: Option<i64>| match form {
        dw::DW_FORM_data1 | dw::DW_FORM_flag | dw::DW_FORM_flag_present => *range.start() <= 0xFF,
        dw::DW_FORM_implicit_const => constant.and_then(|c| u32::try_from(c).ok()).is_some_and(|c| range.contains(&c)),
        _ => true,
    };
    // Every compiler numbers them from 1 without a gap; where there is no number 1, nothing is ruled out.
    let mut all = (1..).map_while(|code| abbreviations.get(code)).peekable();
    all.peek().is_none()
        || all.any(|abbreviation| {
            abbreviation.tag() == dw::DW_TAG_enumerator
                && abbreviation
                    .attributes()
                    .iter()
                    .any(|a| a.name() == dw::DW_AT_const_value && large(a.form(), a.implicit_const_value()))
        })
}

/// `app.c:14`, or the unit's name.
fn place(unit: UnitRef<'_, Slice<'_>>, file: Option<u64>, line: Option<u64>) -> String {
    let name = file.and_then(|n| file_name(unit, n)).or_else(|| {
        let name = unit.name?;
        Some(budget::name(name.slice()))
    });
    let name = name.unwrap_or_default();
    line.map_or_else(|| name.clone(), |line| format!("{name}:{line}"))
}

/// A file of the unit's line table.
fn file_name(unit: UnitRef<'_, Slice<'_>>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let name = unit.attr_string(file.path_name()).ok()?;
    let name = budget::name(name.slice());
    let dir = file.directory(header).and_then(|d| unit.attr_string(d).ok());
    let dir = dir.map(|d| budget::name(d.slice()));
    // Readers do not need the directory of the compilation.
    Some(match dir.filter(|_| file.directory_index() != 0 && !name.starts_with('/')) {
        Some(dir) if !dir.is_empty() && dir != "." => format!("{dir}/{name}"),
        _ => name,
    })
}

/// The walk for macros.
struct MacroWalk<'a> {
    left: usize,
    bytes: usize,
    budget: Budget,
    /// Names that were found: the first definition counts.
    names: HashSet<&'a [u8]>,
    imported: HashSet<usize>,
    files: Vec<Option<usize>>,
    by_file: HashMap<usize, String>,
    found: Found<MacroText>,
}

impl<'a> MacroWalk<'a> {
    fn unit(&mut self, view: &View<'a>, unit: &Unit<Slice<'a>>) {
        let Ok(root) = unit.entry(unit.header.root_offset()) else { return };
        let unit = UnitRef::new(view, unit);
        self.files.clear();
        self.by_file.clear();
        for at in [dw::DW_AT_macros, dw::DW_AT_GNU_macros, dw::DW_AT_macro_info] {
            let value = match root.attr_value(at) {
                // GNU's form of what DWARF 5 has since.
                Some(AttributeValue::SecOffset(offset)) if at == dw::DW_AT_GNU_macros => {
                    Some(AttributeValue::DebugMacroRef(DebugMacroOffset(offset)))
                }
                other => other,
            };
            let entries = match value {
                Some(AttributeValue::DebugMacroRef(offset)) => {
                    // Each offset is read once: hostile units may all have the same.
                    if !self.imported.insert(offset.0) {
                        continue;
                    }
                    view.macros(offset)
                }
                Some(AttributeValue::DebugMacinfoRef(offset)) => {
                    if !self.imported.insert(!offset.0) {
                        continue;
                    }
                    view.macinfo(offset)
                }
                _ => continue,
            };
            if entries.ok().and_then(|e| self.entries(unit, e, 0)).is_none() {
                self.found.partial = true;
            }
        }
    }

    fn entries(&mut self, unit: UnitRef<'_, Slice<'a>>, mut entries: MacroIter<Slice<'a>>, depth: u32) -> Option<()> {
        while let Some(entry) = entries.next().ok()? {
            self.left = self.left.checked_sub(1)?;
            self.budget.check()?;
            match entry {
                MacroEntry::Define { text, .. } => {
                    let Ok(text) = text.string(unit) else { continue };
                    self.define(unit, text.slice())?;
                }
                MacroEntry::StartFile { file, .. } => {
                    // Files include each other; a chain that never ends is damage.
                    if self.files.len() > 1000 {
                        return None;
                    }
                    self.files.push(usize::try_from(file).ok());
                }
                MacroEntry::EndFile => drop(self.files.pop()),
                MacroEntry::Import { offset } if self.imported.insert(offset.0) => {
                    if depth >= MAX_IMPORTS {
                        return None;
                    }
                    let inner = unit.macros(offset).ok()?;
                    self.entries(unit, inner, depth.saturating_add(1))?;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// `None` where there is no room left for it.
    fn define(&mut self, unit: UnitRef<'_, Slice<'a>>, text: &'a [u8]) -> Option<()> {
        let end = text.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(text.len());
        // Macros with parameters and empty ones have no value.
        let (Some(name), Some(body)) = (text.get(..end), text.get(end..).and_then(|b| b.strip_prefix(b" "))) else {
            return Some(());
        };
        if body.is_empty() || body.len() > 256 || name.len() > 256 || self.names.len() >= MAX_NAMES {
            return Some(());
        }
        if !self.names.insert(name) {
            return Some(());
        }
        self.bytes = [name.len(), body.len(), size_of::<MacroText>()]
            .iter()
            .try_fold(self.bytes, |left, n| left.checked_sub(*n))?;
        let file = self.files.last().copied().flatten().map(|index| {
            let known = || file_name(unit, u64::try_from(index).unwrap_or(u64::MAX)).unwrap_or_default();
            self.by_file.entry(index).or_insert_with(known).clone()
        });
        self.found.all.push(MacroText {
            name: String::from_utf8_lossy(name).into_owned(),
            body: String::from_utf8_lossy(body).into_owned(),
            file,
        });
        Some(())
    }
}
