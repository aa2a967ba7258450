//! Events by name, and one field of theirs: what reports ask for beside the filters.

use super::arg::{fields, is_named, word_number};
use super::wrong_filter;
use super::{Dense, Filters, Key, select};
use crate::abi::Endian;
use crate::catalogue::{Catalogue, Takes};
use crate::error::Error;
use crate::trace::Event;

/// The events that one option names as `--event` does, compiled against a catalogue.
#[derive(Debug, Clone)]
pub struct EventSet {
    text: String,
    defs: Dense,
    ids: select::Ids,
}

impl EventSet {
    /// Looks names, patterns and ids up.
    ///
    /// # Errors
    /// Where there is no such event.
    pub fn compile(text: &str, catalogue: &Catalogue) -> Result<Self, Error> {
        let mut filters = Filters::default();
        filters.add(Key::Event, text)?;
        let ids = select::ids(&filters.events, &filters.classes, catalogue)?;
        let keep = catalogue.numbered().map(|(n, d)| ids.keeps_def(n, d)).collect();
        Ok(Self { text: text.to_owned(), defs: Dense { keep }, ids })
    }

    /// True where the event is one of these.
    pub fn has(&self, event: &Event) -> bool {
        event.def.and_then(|d| self.defs.has(d.number())).unwrap_or_else(|| self.ids.keeps_unknown(event.id))
    }
}

/// A field that several events have, each in its own place.
#[derive(Debug, Clone)]
pub struct EventField {
    /// By definition.
    defs: Vec<Option<(usize, Takes)>>,
    /// In events without one, where the field is called by its number.
    unknown: Option<usize>,
}

impl EventField {
    /// Looks a field of these events up: by its name, its short name, or as i1, i2 and so on.
    ///
    /// # Errors
    /// Where none of the events has it.
    pub fn compile(name: &str, set: &EventSet, catalogue: &Catalogue) -> Result<Self, Error> {
        let number = word_number(name);
        let mut defs = Vec::new();
        for (n, def) in catalogue.numbered() {
            let own = fields(def).find(|(word, f)| number.map_or_else(|| is_named(f, name), |w| w == *word));
            let place = own.map(|(word, f)| (word, f.takes)).or(number.map(|w| (w, Takes::One)));
            defs.push(place.filter(|_| set.defs.has(n.number()).unwrap_or(false)));
        }
        if number.is_none() && defs.iter().all(Option::is_none) {
            let mut names: Vec<&str> = catalogue
                .numbered()
                .filter(|(n, _)| set.defs.has(n.number()).unwrap_or(false))
                .flat_map(|(_, def)| fields(def))
                .map(|(_, f)| f.name.as_str())
                .collect();
            names.sort_unstable();
            names.dedup();
            names.truncate(12);
            let hint = if names.is_empty() {
                "it has none with a name; i1, i2 and so on are its words".to_owned()
            } else {
                format!("{}; or i1, i2 and so on for its words", names.join(", "))
            };
            return Err(wrong_filter(format!("'{}' has no field '{name}'", set.text)).hint(hint));
        }
        Ok(Self { defs, unknown: number })
    }

    /// The value in an event; `None` where it has none that can be relied on.
    pub fn value(&self, event: &Event, words: &[u64], endian: Endian) -> Option<u64> {
        let (word, takes) = match event.def {
            Some(def) => (*self.defs.get(def.index())?)?,
            None => (self.unknown?, Takes::One),
        };
        let bit = u32::try_from(word).ok().and_then(|w| 1u8.checked_shl(w)).unwrap_or(0);
        if event.doubtful & bit != 0 { None } else { takes.value(words, word, endian) }
    }
}
