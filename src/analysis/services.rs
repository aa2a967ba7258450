//! `services`: how often each event was inserted, in the whole and by whom.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::BTreeMap;

use super::scope::Scope;
use super::tracker::System;
use super::{Making, Needs, Of, share_cell};
use crate::catalogue::Role;
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextId, ContextKind, DefId, Event, Interner, Trace};

/// Definitions to a page.
const PAGE: usize = 16;

/// The most ids without a definition that are counted apart, by context: a damaged trace may hold any number.
const MAX_UNKNOWN: usize = 1 << 14;

/// The events of one context, by definition: pages of counts, and only those that are used.
#[derive(Debug, Clone, Default)]
struct Pages(Vec<Option<Box<[u64; PAGE]>>>);

impl Pages {
    #[inline]
    fn bump(&mut self, def: DefId) {
        let Ok(index) = usize::try_from(def.0) else { return };
        let (page, place) = (index / PAGE, index % PAGE);
        if page >= self.0.len() {
            self.0.resize(page + 1, None);
        }
        let Some(slot) = self.0.get_mut(page) else { return };
        let page = slot.get_or_insert_with(|| Box::new([0; PAGE]));
        if let Some(n) = page.get_mut(place) {
            *n += 1;
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

/// What distinguishes those who inserted events: name, address, and whether it is a thread.
type Key = (String, u64, bool);

/// Counts events by context and definition.
#[derive(Debug)]
pub(super) struct Services {
    /// By context; the last one is for events of an unknown context.
    contexts: Vec<Pages>,
    /// Numbers of what the catalogue does not know: context in the upper half of the word, id in the lower.
    unknown: Interner,
    unknown_counts: Vec<u64>,
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
    share_cell(signed(part), signed(whole))
}

/// Who a context is.
pub(super) fn context_cell(id: ContextId, system: &System<'_>) -> Cell {
    let Some(context) = system.trace.contexts.get(id) else { return Cell::Text("unknown".to_owned()) };
    if context.kind != ContextKind::Thread {
        return Cell::Text(context.kind.name().to_owned());
    }
    let registered = || system.trace.objects.at(context.address).filter(|o| o.is_thread).map(|o| o.name.clone());
    Cell::Named(context.address, context.name.clone().or_else(registered).filter(|n| !n.is_empty()))
}

/// What a context is sorted by: those with a name, by their name, and several of one name by address. What is no thread
/// is one, whatever its address.
fn context_key(id: ContextId, system: &System<'_>) -> (String, u64) {
    match context_cell(id, system) {
        Cell::Named(address, name) => (name.unwrap_or_default(), address),
        Cell::Text(word) => (word, 0),
        _ => (String::new(), 0),
    }
}

impl Making for Services {
    /// It counts events alone.
    const NEEDS: Needs = Needs::NOTHING;

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Services::new(of.trace))
    }

    fn looks_at(&self, _: Option<DefId>, _: Option<&Role>) -> bool {
        true
    }

    #[inline]
    fn event(&mut self, event: &Event, _: &System<'_>) {
        self.count(event);
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        self.report(scope, system)
    }
}

impl Services {
    fn new(trace: &Trace) -> Self {
        Self {
            contexts: vec![Pages::default(); trace.contexts.len().saturating_add(1)],
            unknown: Interner::default(),
            unknown_counts: Vec::new(),
            left_out: 0,
        }
    }

    fn count(&mut self, event: &Event) {
        let Some(def) = event.def else { return self.unknown(event) };
        let unknown = self.contexts.len().saturating_sub(1);
        let index = usize::try_from(event.context.0).map_or(unknown, |i| i.min(unknown));
        if let Some(pages) = self.contexts.get_mut(index) {
            pages.bump(def);
        }
    }

    #[cold]
    fn unknown(&mut self, event: &Event) {
        let key = u64::from(event.context.0) << 32 | u64::from(event.id);
        if self.unknown_counts.len() >= MAX_UNKNOWN && self.unknown.find(key).is_none() {
            self.left_out += 1;
            return;
        }
        let at = usize::try_from(self.unknown.intern(key)).unwrap_or(usize::MAX);
        match self.unknown_counts.get_mut(at) {
            Some(n) => *n += 1,
            None => self.unknown_counts.push(1),
        }
    }

    fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut all = ByName::new();
        let mut by: BTreeMap<Key, (Cell, ByName)> = BTreeMap::new();
        let mut take = |id: ContextId, name: String, n: u64| {
            let (word, address) = context_key(id, system);
            let cell = context_cell(id, system);
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
            pages.iter().for_each(|(def, n)| take(id, system.catalogue[def].name.clone(), n));
        }
        for (key, n) in self.unknown.words().iter().zip(&self.unknown_counts) {
            let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            take(ContextId(half(key >> 32)), system.catalogue.made_up_name(half(*key)), *n);
        }
        let numbers = [
            Column::new("event", Kind::Event),
            Column::new("count", Kind::Count),
            Column::new("share", Kind::Percent(2)),
        ];
        let by_thread: Vec<_> = [Column::new("thread", Kind::Thread)].into_iter().chain(numbers).collect();
        let report = |name, title, columns: Vec<Column>| Report {
            notes: scope.notes(),
            nothing: "no events".to_owned(),
            ..Report::new(name, title, columns)
        };
        let mut services = report("services", "Events", numbers.into());
        for (name, n) in sorted(all) {
            services.rows.push(vec![Cell::Text(name), Cell::Count(n), ratio(n, scope.kept)]);
        }
        let mut threads = report("services_threads", "Events by thread", by_thread);
        let mut groups: Vec<(u64, Cell, ByName)> =
            by.into_values().map(|(cell, own)| (own.values().fold(0, |s, n| n.saturating_add(s)), cell, own)).collect();
        // The map was in order of names: those with as many events stay so.
        groups.sort_by_key(|(total, ..)| std::cmp::Reverse(*total));
        for (total, cell, own) in groups {
            for (name, n) in sorted(own) {
                threads.rows.push(vec![cell.clone(), Cell::Text(name), Cell::Count(n), ratio(n, total)]);
            }
        }
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
