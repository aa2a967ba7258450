//! Files that describe the events of an application: names, arguments, words and sentences.
//!
//! Three kinds of text are read, recognized by their content: our own table (`tsv`), TraceX's custom events (`trxc`),
//! and C headers ([`header`]).

pub mod expr;
pub mod header;
mod template;
mod trxc;
mod tsv;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use template::{Part, Template};

use super::{ArgKind, Enumeration, FieldDef};

/// The most events or words that one file may give: as many as there are ids.
pub const MOST: usize = 1 << 16;

/// One event of the application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserEvent {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Another name for the same id; empty where there is none.
    pub alias: String,
    /// Its payload, word by word; `None` where nothing was said.
    pub fields: Vec<Option<FieldDef>>,
    /// A sentence with the arguments in it, as [`Template`] reads it; empty where there is none.
    pub template: String,
}

/// The application's events as a file describes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserEvents {
    /// The events, in the order of the file.
    pub events: Vec<UserEvent>,
    /// Words for numbers, in the order of the file.
    pub enumerations: Vec<Arc<Enumeration>>,
}

/// What was read from a text.
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// What it says.
    pub user: UserEvents,
    /// Which kind of text it is.
    pub kind: Option<Kind>,
    /// For each event its line, from 1.
    pub lines: Vec<usize>,
    /// What was passed over, with its line.
    pub notes: Vec<(usize, String)>,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Our own table.
    Tsv,
    /// TraceX's custom events.
    Trxc,
    /// A C header.
    Header,
}

/// What is wrong with a file, and in which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Number of the line, from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Wrong {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 { write!(f, "{}: {}", self.line, self.message) } else { write!(f, " {}", self.message) }
    }
}

impl std::error::Error for Wrong {}

/// Reads a file of any of the three kinds. Of a header only what is in `ids` is taken: it was not written for us.
///
/// # Errors
/// [`Wrong`] where it is none of them, says nothing, or contradicts itself.
pub fn parse(text: &str, ids: &RangeInclusive<u32>) -> Result<Parsed, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let kind = kind(text);
    let mut parsed = match kind {
        Some(Kind::Tsv) => tsv::parse(text),
        Some(Kind::Trxc) => trxc::parse(text),
        Some(Kind::Header) => header::parse(text, ids),
        None => Err(Wrong::at(
            0,
            "is neither a table of events (tab-separated), nor a .trxc file (Start, End), nor a C header",
        )),
    }?;
    parsed.kind = kind;
    Ok(parsed)
}

/// What a text is.
fn kind(text: &str) -> Option<Kind> {
    for line in text.lines().take(MOST) {
        let start = line.trim_start();
        if line.trim().is_empty() {
            continue;
        }
        let word = start.trim_start_matches('#').trim_start();
        let directive = ["define", "ifndef", "ifdef", "if ", "include", "pragma", "undef"];
        if start.starts_with('#') && directive.iter().any(|d| word.starts_with(d)) {
            return Some(Kind::Header);
        }
        if start.starts_with('#') {
            continue;
        }
        if trxc::is_start(line) {
            return Some(Kind::Trxc);
        }
        if start.starts_with("//") {
            // Both TraceX and C have these; the first other line decides.
            continue;
        }
        if start.starts_with("/*") || start.starts_with('*') {
            return Some(Kind::Header);
        }
        if tsv::is_row(line) {
            return Some(Kind::Tsv);
        }
        let c = ["enum", "typedef", "extern", "static", "const", "struct", "namespace"];
        return c.iter().any(|w| start.starts_with(w)).then_some(Kind::Header);
    }
    None
}

/// Why a text cannot be the name of an event; `None` where it can.
fn bad_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("an event needs a name");
    }
    if name.chars().any(char::is_control) {
        return Some("a name is printable text");
    }
    name.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '!' | '-' | '+'))
        .then_some("a name begins with a letter: a number would be taken for an id")
}

/// The kind of a word by its name, where its definition gives none.
fn kind_of(name: &str) -> ArgKind {
    let low = name.to_ascii_lowercase();
    let ends = |all: &[&str]| all.iter().any(|w| low == *w || low.ends_with(&format!("_{w}")));
    if ends(&["ptr", "pointer"]) {
        ArgKind::Ptr
    } else if ends(&["addr", "address", "pc", "lr", "sp"]) {
        ArgKind::Addr
    } else if ends(&["flags", "mask", "bits", "status", "hex", "crc", "checksum", "reg"]) {
        ArgKind::Hex
    } else {
        ArgKind::Dec
    }
}

/// Several names of one id: a name that marks where a range begins or ends is not what its event is called.
fn is_marker(name: &str) -> bool {
    let low = name.to_ascii_lowercase();
    ["base", "first", "start", "begin", "min", "last", "end", "max", "count", "offset", "num", "total"]
        .iter()
        .any(|w| low == *w || low.strip_suffix(w).is_some_and(|rest| rest.ends_with('_')))
}

/// Events of names with ids, one for each id: the first name that is no marker, another one as its alias.
pub fn named(pairs: impl IntoIterator<Item = (u32, String)>) -> Vec<UserEvent> {
    let mut list: Vec<UserEvent> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for (id, name) in pairs {
        let place = *at.entry(id).or_insert(list.len());
        match list.get_mut(place) {
            None => list.push(UserEvent { id, name, ..UserEvent::default() }),
            Some(known) if known.name == name => {}
            Some(known) if is_marker(&known.name) && !is_marker(&name) => {
                known.alias = std::mem::replace(&mut known.name, name);
            }
            Some(known) if known.alias.is_empty() => known.alias = name,
            Some(_) => {}
        }
    }
    list
}

impl UserEvents {
    /// Our own table: what [`parse`] reads back as the same.
    pub fn to_tsv(&self) -> String {
        tsv::write(self)
    }

    /// TraceX's custom events. Kinds, words and sentences have no place there, nor have commas.
    pub fn to_trxc(&self) -> String {
        trxc::write(self)
    }
}

#[cfg(test)]
mod tests;
