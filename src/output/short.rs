//! Short forms of names that are longer than their column: each form is of one name only.

use std::collections::{HashMap, HashSet};

use super::View;
use super::escape::{columns, escape};
use super::layout::UNLIMITED;
use super::line::width_of;
use super::row::{Rows, place};
use super::window::Inserter;
use crate::trace::Event;

/// The most names that get a short form; the names after them are shown whole.
const MOST: usize = 1 << 12;

/// What a table shows for events: each name is joined, escaped and shortened once.
#[derive(Debug, Default)]
pub(super) struct EventNames {
    short: ShortNames,
    /// By the number of the definition.
    defined: Vec<Option<Box<str>>>,
    /// Of events without a definition, by their id.
    made_up: HashMap<u32, Box<str>>,
}

impl EventNames {
    /// With these short forms.
    pub(super) fn new(short: ShortNames) -> Self {
        Self { short, ..Self::default() }
    }

    /// The definitions may have changed.
    pub(super) fn renew(&mut self) {
        self.defined.clear();
        self.made_up.clear();
    }

    /// What is shown for an event.
    pub(super) fn of(&mut self, view: &View<'_>, event: &Event) -> &str {
        let Self { short, defined, made_up } = self;
        let shown = || Box::from(short.of(&escape(&Rows::event(view, event))));
        if let Some(known) = event.def.and_then(|def| place(defined, def.number(), view.catalogue.iter().len())) {
            return known.get_or_insert_with(shown);
        }
        if made_up.len() >= MOST {
            made_up.clear();
        }
        made_up.entry(event.id).or_insert_with(shown)
    }
}

/// What a table shows for who inserted an event.
#[derive(Debug, Default)]
pub(super) struct InserterNames {
    short: ShortNames,
    /// Who inserted the event of the row before, and what is shown for it: mostly it is the same again.
    last: Option<Inserter>,
    name: String,
    shown: String,
}

impl InserterNames {
    /// With these short forms.
    pub(super) fn new(short: ShortNames) -> Self {
        Self { short, ..Self::default() }
    }

    /// Names may have changed.
    pub(super) fn renew(&mut self) {
        self.last = None;
    }

    /// What is shown for it; with `behind` also whom it interrupted.
    pub(super) fn of(&mut self, view: &View<'_>, rows: &mut Rows, inserter: Inserter, behind: bool) -> &str {
        if self.last != Some(inserter) {
            self.last = Some(inserter);
            self.name.clear();
            rows.add_who(view, inserter, behind, &mut self.name);
            self.shown.clear();
            self.shown.push_str(self.short.of(&self.name));
        }
        &self.shown
    }
}

/// Names in a column of so many columns. All names are escaped.
#[derive(Debug, Default)]
pub(super) struct ShortNames {
    width: usize,
    /// The beginning alone is tried first, else beginning and end.
    by_head: bool,
    /// The short form of each name that is too long.
    forms: HashMap<Box<str>, Box<str>>,
    /// How many names each text could be of: names that fit, and every form of those that do not.
    meanings: HashMap<String, u32>,
}

impl ShortNames {
    /// For these names, and for others that come later.
    pub(super) fn new(width: usize, by_head: bool, known: impl Iterator<Item = String>) -> Self {
        let mut names = Self { width, by_head, ..Self::default() };
        if width == UNLIMITED {
            return names;
        }
        let (long, short): (HashSet<String>, HashSet<String>) = known.partition(|name| width_of(name) > width);
        if long.is_empty() {
            return names;
        }
        let long: Vec<String> = long.into_iter().take(MOST).collect();
        short.into_iter().take(MOST).for_each(|name| names.count(name));
        for name in &long {
            candidates(name, width, by_head).for_each(|form| names.count(form));
        }
        for name in long {
            names.choose(&name, 1);
        }
        names
    }

    /// What is shown for a name.
    pub(super) fn of<'s>(&'s mut self, name: &'s str) -> &'s str {
        // A text has at least as many bytes as columns.
        if name.len() <= self.width || width_of(name) <= self.width {
            return name;
        }
        if !self.forms.contains_key(name) && self.forms.len() < MOST {
            self.choose(name, 0);
            candidates(name, self.width, self.by_head).for_each(|form| self.count(form));
        }
        self.forms.get(name).map_or(name, |form| form)
    }

    fn count(&mut self, text: String) {
        let count = self.meanings.entry(text).or_default();
        *count = count.saturating_add(1);
    }

    /// Takes the first form that so many names have, and the whole name where there is none.
    fn choose(&mut self, name: &str, own: u32) {
        let mut forms = candidates(name, self.width, self.by_head);
        let form = forms.find(|form| self.meanings.get(form.as_str()).copied().unwrap_or(0) == own);
        self.forms.insert(name.into(), form.map_or_else(|| name.into(), String::into_boxed_str));
    }
}

/// The forms of a name in so many columns: its beginning, its last words, and as much of its end as of its beginning; then
/// with less and with more of its end.
fn candidates(name: &str, width: usize, by_head: bool) -> impl Iterator<Item = String> + use<'_> {
    let half = width.saturating_sub(1) / 2;
    let words = last_words(name, half);
    let first = if by_head { [0, words, half] } else { [words, half, 0] };
    let mut ends: Vec<usize> = Vec::new();
    // Each form once: those that several names have are found by counting.
    for end in first.into_iter().chain(2..width.saturating_sub(1)) {
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    // Columns are looked up once for each character.
    let chars: Vec<(char, usize)> = name.chars().map(|c| (c, columns(c))).collect();
    ends.into_iter().map(move |end| {
        let (head, tail) = (width.saturating_sub(end).saturating_sub(1), end);
        let (head, tail) = (fitting(chars.iter(), head), fitting(chars.iter().rev(), tail));
        let mut form = String::with_capacity(name.len());
        form.extend(chars.iter().take(head).map(|(c, _)| c));
        form.push('~');
        form.extend(chars.iter().skip(chars.len().saturating_sub(tail)).map(|(c, _)| c));
        form
    })
}

/// Columns of the words at the end of a name, with the `_` before them, that fit into so many.
fn last_words(name: &str, most: usize) -> usize {
    let chars: Vec<(char, usize)> = name.chars().rev().map(|c| (c, columns(c))).collect();
    let tail = chars.get(..fitting(chars.iter(), most)).unwrap_or_default();
    let first = tail.iter().rposition(|(c, _)| *c == '_');
    first.map_or(most, |at| tail.iter().take(at.saturating_add(1)).map(|(_, columns)| columns).sum())
}

/// How many characters fit into so many columns.
fn fitting<'c>(chars: impl Iterator<Item = &'c (char, usize)>, most: usize) -> usize {
    let mut left = most;
    let fits = |(_, columns): &&(char, usize)| {
        let rest = left.checked_sub(*columns);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    chars.take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(width: usize, names: &[&str]) -> Vec<String> {
        let mut short = ShortNames::new(width, true, names.iter().map(|name| (*name).to_owned()));
        names.iter().map(|name| short.of(name).to_owned()).collect()
    }

    #[test]
    fn no_two_names_look_alike() {
        assert_eq!(forms(10, &["comms", "System Timer Thread"]), ["comms", "System Ti~"]);
        let mut events = ShortNames::new(16, false, ["internal_thread_resume".to_owned()].into_iter());
        assert_eq!(events.of("internal_thread_resume"), "internal~_resume");
        assert_eq!(events.of("internal_thread_suspend"), "internal~suspend");
        let mut events = ShortNames::new(18, false, ["internal_thread_resume".to_owned()].into_iter());
        assert_eq!(
            events.of("internal_thread_resume"),
            "internal_t~_resume",
            "no word is cut where that can be avoided"
        );
        assert_eq!(forms(8, &["worker_thread_1", "worker_thread_2"]), ["worke~_1", "worke~_2"]);
        assert_eq!(forms(6, &["\u{6e29}\u{5ea6}\u{6e29}\u{5ea6}", "abcdefg"]), ["\u{6e29}\u{5ea6}~", "abcde~"]);
        // They differ in the middle, which no form of this width shows.
        let alike = ["a_worker_1_thread", "a_worker_2_thread"];
        assert_eq!(forms(8, &alike), alike);
    }

    #[test]
    fn a_name_that_comes_later_has_a_form_of_its_own() {
        let mut short = ShortNames::new(8, true, ["worker_thread_1".to_owned()].into_iter());
        assert_eq!(short.of("worker_thread_1"), "worker_~");
        assert_eq!(short.of("worker_thread_2"), "worke~_2");
        assert_eq!(short.of("worker_thread_1"), "worker_~");
    }
}
