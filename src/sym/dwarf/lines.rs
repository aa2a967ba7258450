//! Functions and source lines of addresses, with the functions that the compiler inlined there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use gimli::{AttributeValue, LineRow, UnitOffset, UnitRef, constants as dw};

use super::budget::Budget;
use super::{Dwarf, Slice};
use crate::abi::Addr;

/// The longest chain of inlined functions that is read.
const MAX_INLINED: usize = 64;
/// The longest path of a file.
const MAX_PATH: usize = 4096;

/// A function at an address, and the line of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its name as in the source. Hostile text: escape before printing.
    pub function: Option<String>,
    /// The source file as the compiler recorded it. Hostile text.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl SourceFrame {
    /// `pump.c:12`. Hostile text.
    pub fn place(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(format!("{}:{}", file.rsplit(['/', '\\']).next().unwrap_or(file), self.line?))
    }
}

/// The unit that an address was compiled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceUnit {
    /// Distinguishes it from other units of the same program.
    pub id: usize,
    /// Its source file, with its directory as the compiler recorded it. Hostile text.
    pub path: String,
    /// It defines a variable whose name begins with the prefix that was asked for.
    pub defines: bool,
}

/// The functions and lines of one program, at the addresses it is linked to. Reads the head of each unit at once, and of a
/// unit all else when an address in it is asked for.
pub struct Lines<'a> {
    context: Option<addr2line::Context<Slice<'a>>>,
    budget: Budget,
}

impl Dwarf {
    /// The functions and source lines of addresses. Where there is no debug information, it knows none.
    pub fn lines(&self) -> Lines<'_> {
        let context = self.unavailable().is_none().then(|| addr2line::Context::from_dwarf(self.view()).ok()).flatten();
        Lines { context, budget: Budget::new(self.elf.bytes().len(), Duration::ZERO) }
    }
}

impl<'a> Lines<'a> {
    /// The functions at each of `addresses`, the innermost first: inlined ones, and at last the one that was called. Empty
    /// where debug information has nothing of an address.
    pub fn frames(&self, addresses: &[Addr]) -> Vec<Vec<SourceFrame>> {
        let statements = self.statements(addresses);
        let of = |address: &Addr| {
            let mut frames = self.functions(*address);
            if let (Some(first), Some(statement)) = (frames.first_mut(), statements.get(address)) {
                first.line = statement.line;
                first.file.clone_from(&statement.file);
            }
            frames
        };
        addresses.iter().map(of).collect()
    }

    /// The units of each of `addresses`, and whether they define a variable whose name begins with `prefix`.
    pub fn units(&self, addresses: &[Addr], prefix: &str) -> Vec<Option<SourceUnit>> {
        let mut known: HashMap<usize, SourceUnit> = HashMap::new();
        let mut of = |address: &Addr| {
            let unit = self.unit(*address)?;
            let id = offset(&unit);
            let found = known.entry(id).or_insert_with(|| SourceUnit {
                id,
                path: path_of(&unit),
                defines: self.defines(&unit, prefix.as_bytes()).unwrap_or_default(),
            });
            Some(found.clone())
        };
        addresses.iter().map(&mut of).collect()
    }

    fn unit(&self, address: Addr) -> Option<UnitRef<'_, Slice<'a>>> {
        // addr2line adds 1 to it.
        let context = self.context.as_ref().filter(|_| address != Addr::MAX)?;
        context.find_dwarf_and_unit(address).skip_all_loads()
    }

    fn functions(&self, address: Addr) -> Vec<SourceFrame> {
        let mut found = Vec::new();
        let Some(context) = self.context.as_ref().filter(|_| address != Addr::MAX) else { return found };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let name =
                frame.function.as_ref().and_then(|f| f.raw_name().ok()).map(|n| super::budget::name(n.as_bytes()));
            let location = frame.location.as_ref();
            found.push(SourceFrame {
                function: name,
                file: location.and_then(|l| l.file).map(|f| super::budget::name(f.as_bytes())),
                line: location.and_then(|l| l.line),
            });
            if found.len() >= MAX_INLINED {
                break;
            }
        }
        found
    }

    /// The statements at addresses. Several lines may begin at one address; a debugger shows the last statement there, as is
    /// done here.
    fn statements(&self, addresses: &[Addr]) -> HashMap<Addr, Statement> {
        let mut by_unit: BTreeMap<usize, (UnitRef<'_, Slice<'a>>, Vec<Addr>)> = BTreeMap::new();
        for address in addresses {
            let Some(unit) = self.unit(*address) else { continue };
            by_unit.entry(offset(&unit)).or_insert_with(|| (unit, Vec::new())).1.push(*address);
        }
        let mut found = HashMap::new();
        for (unit, mut wanted) in by_unit.into_values() {
            wanted.sort_unstable();
            wanted.dedup();
            // What was found before damage, or before time ran out, holds.
            let _ = self.statements_of(&unit, &wanted, &mut found);
        }
        found
    }

    /// Reads the line table of one unit; `wanted` are addresses in order.
    fn statements_of(
        &self,
        unit: &UnitRef<'_, Slice<'a>>,
        wanted: &[Addr],
        found: &mut HashMap<Addr, Statement>,
    ) -> Option<()> {
        let mut rows = unit.line_program.clone()?.rows();
        let mut run: Option<Run> = None;
        let mut sequence = None;
        while let Ok(Some((header, row))) = rows.next_row() {
            self.budget.step()?;
            let starts = *sequence.get_or_insert(row.address());
            // Code of no line goes on with the line before, as in GDB.
            if row.line().is_none() && !row.end_sequence() {
                continue;
            }
            if let Some(run) = run.as_mut().filter(|run| run.address == row.address() && !row.end_sequence()) {
                run.add(row);
                continue;
            }
            for address in run.iter().flat_map(|run| within(wanted, run.address, row.address())) {
                let Some(run) = &run else { continue };
                // The linker leaves the lines of functions that it threw away at low addresses.
                if found.get(address).is_none_or(|before| before.sequence < starts) {
                    let file = file_of(unit, header, run.file);
                    found.insert(*address, Statement { file, line: run.line, sequence: starts });
                }
            }
            run = (!row.end_sequence()).then(|| Run::new(row));
            sequence = sequence.filter(|_| !row.end_sequence());
        }
        Some(())
    }

    /// True where a unit defines a variable whose name begins with `prefix`; `None` where time ran out or it is damaged.
    fn defines(&self, unit: &UnitRef<'_, Slice<'a>>, prefix: &[u8]) -> Option<bool> {
        let mut tree = unit.entries_tree(None).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            self.budget.step()?;
            let entry = child.entry();
            if entry.tag() != dw::DW_TAG_variable || !entry.has_attr(dw::DW_AT_location) {
                continue;
            }
            // A variable that was declared before has its name there.
            let name = match (entry.attr_value(dw::DW_AT_name), entry.attr_value(dw::DW_AT_specification)) {
                (Some(name), _) => Some(name),
                (None, Some(AttributeValue::UnitRef(at))) => self.name_at(unit, at),
                _ => None,
            };
            if name.is_some_and(|n| unit.attr_string(n).is_ok_and(|n| n.slice().starts_with(prefix))) {
                return Some(true);
            }
        }
        Some(false)
    }

    fn name_at(&self, unit: &UnitRef<'_, Slice<'a>>, at: UnitOffset) -> Option<AttributeValue<Slice<'a>>> {
        unit.entry(at).ok()?.attr_value(dw::DW_AT_name)
    }
}

/// The line of an address.
struct Statement {
    file: Option<String>,
    line: Option<u32>,
    /// Where its sequence of lines begins.
    sequence: Addr,
}

/// The rows of a line table at one address.
struct Run {
    address: Addr,
    file: u64,
    line: Option<u32>,
    is_statement: bool,
}

impl Run {
    fn new(row: &LineRow) -> Self {
        Self { address: row.address(), file: row.file_index(), line: line_of(row), is_statement: row.is_stmt() }
    }

    /// The last statement counts, and where there is none the last row: as in GDB. A row of another file that is no
    /// statement does not count after one that is.
    fn add(&mut self, row: &LineRow) {
        if row.is_stmt() || !self.is_statement {
            *self = Self::new(row);
        }
    }
}

fn line_of(row: &LineRow) -> Option<u32> {
    row.line().and_then(|line| u32::try_from(line.get()).ok())
}

/// The addresses from `first` on that are before `after`.
fn within(wanted: &[Addr], first: Addr, behind: Addr) -> &[Addr] {
    let from = wanted.partition_point(|at| *at < first);
    let to = wanted.partition_point(|at| *at < behind);
    wanted.get(from..to).unwrap_or_default()
}

fn offset(unit: &UnitRef<'_, Slice<'_>>) -> usize {
    unit.header.debug_info_offset().map_or(usize::MAX, |offset| offset.0)
}

/// The source file of a unit.
fn path_of(unit: &UnitRef<'_, Slice<'_>>) -> String {
    let mut path = String::new();
    for part in [unit.comp_dir, unit.name].into_iter().flatten() {
        join(&mut path, part.slice());
    }
    path
}

/// A file of a line table.
fn file_of<'a>(
    unit: &UnitRef<'_, Slice<'a>>,
    header: &gimli::LineProgramHeader<Slice<'a>>,
    index: u64,
) -> Option<String> {
    let file = header.file(index)?;
    let mut path = String::new();
    if let Some(directory) = unit.comp_dir {
        join(&mut path, directory.slice());
    }
    if let Some(directory) = file.directory(header).filter(|_| file.directory_index() != 0) {
        join(&mut path, unit.attr_string(directory).ok()?.slice());
    }
    join(&mut path, unit.attr_string(file.path_name()).ok()?.slice());
    Some(path)
}

/// Adds a part to a path, or replaces the path by it where it begins at a root.
fn join(path: &mut String, part: &[u8]) {
    let part = super::budget::name(part);
    let is_dos = |text: &str| text.starts_with('\\') || text.get(1..3) == Some(":\\");
    if part.starts_with('/') || part.get(1..3) == Some(":/") || is_dos(&part) {
        *path = part;
        return;
    }
    let separator = if is_dos(path) { '\\' } else { '/' };
    if !path.is_empty() && !path.ends_with(separator) {
        path.push(separator);
    }
    if path.len() < MAX_PATH {
        path.push_str(&part);
    }
}
