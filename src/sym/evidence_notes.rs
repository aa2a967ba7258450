//! Names that an evidence core holds in notes: what was known of the program when the core was written.
//!
//! Four notes of text, so that any tool shows them: facts (`key: value`), symbols (`address size kind name`, in
//! hexadecimal), members (`struct member offset`; `exception number name`) and the application's events (the table that
//! `--events` reads).

use std::collections::HashMap;

use super::{Symbol, Symbols};
use crate::abi::Addr;
use crate::elf::Elf;

/// The owner of the notes.
pub const OWNER: &str = "TX-TRACE";
/// Types are counted from here: GDB takes small ones for the system's notes, whatever the owner.
const TYPES: u32 = 0x5458_0000;
/// Type of the note of facts.
pub const FACTS: u32 = TYPES + 1;
/// Type of the note of symbols.
pub const SYMBOLS: u32 = TYPES + 2;
/// Type of the note of members of structs.
pub const MEMBERS: u32 = TYPES + 3;
/// Type of the note of the application's events.
pub const EVENTS: u32 = TYPES + 4;

/// The most lines of one note that are read.
const MAX_LINES: usize = 1 << 16;
/// The most bytes of a note of events.
const MAX_EVENTS: usize = 4 << 20;

/// The contents of the notes.
#[derive(Debug, Clone, Default)]
pub struct EvidenceNotes {
    facts: Vec<(String, String)>,
    /// By address; functions apart from variables.
    symbols: Vec<(Symbol, bool)>,
    by_name: HashMap<String, usize>,
    members: HashMap<(String, String), u64>,
    exceptions: HashMap<u32, String>,
    events: String,
}

impl EvidenceNotes {
    /// The notes of a core; `None` where it has none of ours.
    pub fn of(core: &Elf) -> Option<Self> {
        let mut notes = Self::default();
        let mut any = false;
        for note in core.notes().filter_map(Result::ok).filter(|n| n.name == OWNER.as_bytes()) {
            any = true;
            if note.kind == EVENTS {
                // A longer one is damaged, or was not written by this program.
                let text = note.desc.get(..MAX_EVENTS.min(note.desc.len())).unwrap_or_default();
                notes.events = String::from_utf8_lossy(text).into_owned();
                continue;
            }
            let text = String::from_utf8_lossy(note.desc);
            for line in text.lines().take(MAX_LINES) {
                // A damaged line is left out.
                let _ = notes.line(note.kind, line);
            }
        }
        notes.symbols.sort_by_key(|(s, _)| s.address);
        let names = notes.symbols.iter().enumerate().map(|(i, (s, _))| (s.name.clone(), i));
        notes.by_name = names.collect();
        any.then_some(notes)
    }

    fn line(&mut self, kind: u32, line: &str) -> Option<()> {
        match kind {
            FACTS => {
                let (key, value) = line.split_once(": ")?;
                self.facts.push((key.to_owned(), value.to_owned()));
            }
            SYMBOLS => {
                let mut parts = line.splitn(4, ' ');
                let number = |text: &str| u64::from_str_radix(text, 16).ok();
                let (address, size) = (number(parts.next()?)?, number(parts.next()?)?);
                let function = parts.next()? == "F";
                self.symbols.push((Symbol { name: parts.next()?.to_owned(), address, size }, function));
            }
            MEMBERS => {
                let mut parts = line.splitn(3, ' ');
                let (of, name, value) = (parts.next()?, parts.next()?, parts.next()?);
                match of {
                    "exception" => drop(self.exceptions.insert(name.parse().ok()?, value.to_owned())),
                    of => drop(self.members.insert((of.to_owned(), name.to_owned()), value.parse().ok()?)),
                }
            }
            _ => {}
        }
        Some(())
    }

    /// A fact by its key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The application's events, as the table that `--events` reads; empty where there are none. Hostile text.
    pub fn events(&self) -> &str {
        &self.events
    }

    /// Every symbol by address, with whether it is a function.
    pub fn all(&self) -> &[(Symbol, bool)] {
        &self.symbols
    }

    fn at(&self, address: Addr, is_function: bool) -> Option<Symbol> {
        let upto = self.symbols.partition_point(|(s, _)| s.address <= address);
        let before = self.symbols.get(..upto)?;
        let covers = |s: &Symbol| address.checked_sub(s.address).is_some_and(|into| into < s.size.max(1));
        before.iter().rev().take(64).find(|(s, function)| *function == is_function && covers(s)).map(|(s, _)| s.clone())
    }
}

impl Symbols for EvidenceNotes {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.by_name.get(name).and_then(|i| self.symbols.get(*i)).map(|(s, _)| s.clone())
    }

    fn variable(&self, address: Addr) -> Option<Symbol> {
        self.at(address, false)
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        self.at(address, true)
    }

    fn exception(&self, number: u32) -> Option<String> {
        self.exceptions.get(&number).cloned()
    }

    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        self.members.get(&(type_name.to_owned(), member.to_owned())).copied()
    }
}

/// The text of a note of facts. Ends of lines in values become spaces.
pub fn facts(list: &[(&str, String)]) -> Vec<u8> {
    let line = |(key, value): &(&str, String)| format!("{key}: {}\n", value.replace(['\n', '\r'], " "));
    list.iter().map(line).collect::<String>().into_bytes()
}

/// The text of a note of symbols: each with whether it is a function.
pub fn symbols(list: &[(Symbol, bool)]) -> Vec<u8> {
    let line = |(s, function): &(Symbol, bool)| {
        let kind = if *function { "F" } else { "V" };
        format!("{:x} {:x} {kind} {}\n", s.address, s.size, s.name.replace(['\n', '\r'], " "))
    };
    list.iter().take(MAX_LINES).map(line).collect::<String>().into_bytes()
}

/// The text of a note of events: whole lines of a table, as many as are read back.
pub fn events(table: &str) -> Vec<u8> {
    let mut end = 0usize;
    for line in table.split_inclusive('\n').take(MAX_LINES) {
        let next = end.saturating_add(line.len());
        if next > MAX_EVENTS {
            break;
        }
        end = next;
    }
    table.as_bytes().get(..end).unwrap_or_default().to_vec()
}

/// The text of a note of members and exceptions.
pub fn members(members: &[(String, String, u64)], exceptions: &[(u32, String)]) -> Vec<u8> {
    let mut text: String = members.iter().map(|(of, name, offset)| format!("{of} {name} {offset}\n")).collect();
    text.extend(exceptions.iter().map(|(n, name)| format!("exception {n} {}\n", name.replace(['\n', '\r'], " "))));
    text.into_bytes()
}
