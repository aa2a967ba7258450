//! `services`: how often each event was inserted, in the whole and by whom.

use std::collections::BTreeMap;

use super::addresses::ByAddress;
use super::{Tracker, Visitor, Whole, share};
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextId, ContextKind, DefId, Event};

/// Definitions to a page.
const PAGE: usize = 16;

/// The most ids without a definition that are told apart, by context: a damaged trace may hold any number.
const MOST_UNKNOWN: usize = 1 << 14;

/// The events of one context, by definition: pages of counts, and only those that are used.
#[derive(Debug, Clone, Default)]
struct Pages(Vec<Option<Box<[u64; PAGE]>>>);

impl Pages {
    #[inline]
    fn bump(&mut self, def: DefId) {
        let Ok(index) = usize::try_from(def.0) else { return };
        let (page, place) = (index / PAGE, index % PAGE);
        if page >= self.0.len() {
            self.0.resize(page.saturating_add(1), None);
        }
        let Some(slot) = self.0.get_mut(page) else { return };
        let page = slot.get_or_insert_with(|| Box::new([0; PAGE]));
        if let Some(n) = page.get_mut(place) {
            *n = n.saturating_add(1);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (DefId, u64)> {
        let pages = self.0.iter().enumerate().filter_map(|(i, page)| Some((i, page.as_ref()?)));
        let counts = pages.flat_map(|(i, page)| {
            page.iter().enumerate().map(move |(j, n)| (i.saturating_mul(PAGE).saturating_add(j), *n))
        });
        counts.filter(|(_, n)| *n > 0).filter_map(|(i, n)| Some((DefId(u32::try_from(i).ok()?), n)))
    }
}

/// Counts by the names of events.
type ByName = BTreeMap<String, u64>;

/// What tells those apart who inserted events: name, address, and whether it is a thread.
type Key = (String, u64, bool);

/// Counts events by context and definition.
#[derive(Debug, Default)]
pub struct Services {
    contexts: Vec<Pages>,
    /// Events whose ids the catalogue does not know, by context in the upper half of the key and id in the lower.
    unknown: ByAddress<u64>,
    left_out: u64,
}

/// Most first, then by name.
fn sorted(counts: ByName) -> Vec<(String, u64)> {
    let mut list: Vec<(String, u64)> = counts.into_iter().collect();
    list.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    list
}

fn ratio(part: u64, whole: u64) -> Cell {
    let signed = |n| i64::try_from(n).unwrap_or(i64::MAX);
    Cell::Real(share(signed(part), signed(whole)))
}

/// Who a context is.
fn context_cell(id: ContextId, tracker: &Tracker<'_>) -> Cell {
    let Some(context) = tracker.trace.contexts.get(id) else { return Cell::Text("unknown".to_owned()) };
    if context.kind != ContextKind::Thread {
        return Cell::Text(context.kind.name().to_owned());
    }
    let registered = || tracker.trace.objects.at(context.address).filter(|o| o.is_thread).map(|o| o.name.clone());
    Cell::Named(context.address, context.name.clone().or_else(registered).filter(|n| !n.is_empty()))
}

/// What a context is sorted by: those with a name, by their name, and several of one name by address. What is no thread
/// is one, whatever its address.
fn context_key(id: ContextId, tracker: &Tracker<'_>) -> (String, u64) {
    match context_cell(id, tracker) {
        Cell::Named(address, name) => (name.unwrap_or_default(), address),
        Cell::Text(word) => (word, 0),
        _ => (String::new(), 0),
    }
}

impl Visitor for Services {
    fn event(&mut self, event: &Event, tracker: &Tracker<'_>) {
        let Some(def) = event.def else {
            let key = u64::from(event.context.0) << 32 | u64::from(event.id);
            if let Some(n) = self.unknown.get_mut(&key) {
                *n = n.saturating_add(1);
            } else if self.unknown.len() < MOST_UNKNOWN {
                self.unknown.insert(key, 1);
            } else {
                self.left_out = self.left_out.saturating_add(1);
            }
            return;
        };
        // Behind all contexts there is one for events of nobody known.
        let nobody = tracker.trace.contexts.len();
        let index = usize::try_from(event.context.0).map_or(nobody, |i| i.min(nobody));
        if index >= self.contexts.len() {
            self.contexts.resize(index.saturating_add(1), Pages::default());
        }
        if let Some(pages) = self.contexts.get_mut(index) {
            pages.bump(def);
        }
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        let mut all = ByName::new();
        let mut by: BTreeMap<Key, (Cell, ByName)> = BTreeMap::new();
        let mut take = |id: ContextId, name: String, n: u64| {
            let (word, address) = context_key(id, tracker);
            let cell = context_cell(id, tracker);
            let key = (word, address, matches!(cell, Cell::Named(..)));
            let (_, own) = by.entry(key).or_insert_with(|| (cell, ByName::new()));
            for counts in [own, &mut all] {
                let sum = counts.entry(name.clone()).or_default();
                *sum = sum.saturating_add(n);
            }
        };
        for (index, pages) in self.contexts.iter().enumerate() {
            let id = ContextId(u32::try_from(index).unwrap_or(u32::MAX));
            // Several definitions may share a name: the same event as several releases or modes record it.
            pages.iter().for_each(|(def, n)| take(id, tracker.catalogue[def].name.clone(), n));
        }
        for (key, n) in &self.unknown {
            let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            take(ContextId(half(key >> 32)), tracker.catalogue.made_up_name(half(*key)), *n);
        }
        let numbers = [Column { name: "count", kind: Kind::Count }, Column { name: "share", kind: Kind::Real(2) }];
        let event = Column { name: "event", kind: Kind::Event };
        let mut services = Report { name: "services", columns: vec![event], notes: whole.notes(), ..Report::default() };
        services.columns.extend(numbers);
        for (name, n) in sorted(all) {
            services.rows.push(vec![Cell::Text(name), Cell::Count(n), ratio(n, whole.kept)]);
        }
        let mut threads = Report {
            name: "services_threads",
            columns: vec![Column { name: "thread", kind: Kind::Thread }, event],
            notes: whole.notes(),
            ..Report::default()
        };
        threads.columns.extend(numbers);
        let mut groups: Vec<(u64, Cell, ByName)> =
            by.into_values().map(|(cell, own)| (own.values().fold(0, |s, n| n.saturating_add(s)), cell, own)).collect();
        // The map was in order of names: those with as many events stay so.
        groups.sort_by_key(|(total, ..)| std::cmp::Reverse(*total));
        for (total, cell, own) in groups {
            for (name, n) in sorted(own) {
                threads.rows.push(vec![cell.clone(), Cell::Text(name), Cell::Count(n), ratio(n, total)]);
            }
        }
        threads.notes.push("share: of the events of that thread".to_owned());
        if self.left_out > 0 {
            let note = format!(
                "events with ids that no definition has, left out as there are too many ids: {}",
                self.left_out
            );
            services.notes.push(note.clone());
            threads.notes.push(note);
        }
        vec![services, threads]
    }
}
