//! `services`: how often each event was inserted, in the whole and by whom.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::scope::Scope;
use super::tracker::System;
use super::{Making, Needs, Of, share_cell};
use crate::catalogue::{Catalogue, Role};
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextId, ContextKind, DefId, Event, Interner, Trace};

/// The most ids without a definition that are counted apart, by context: a damaged trace may hold any number.
const MAX_UNKNOWN: usize = 1 << 14;

/// Counts by the names of events.
type ByName = BTreeMap<String, u64>;

/// What distinguishes those who inserted events: name, address, and whether it is a thread.
type Key = (String, u64, bool);

/// Counts events by context and definition.
#[derive(Debug)]
pub(super) struct Services {
    /// How many contexts there are, and one for events of no context.
    contexts: usize,
    /// How many definitions there are.
    defs: usize,
    known: Known,
    /// By context and id: what the catalogue does not know.
    unknown: Pairs,
    left_out: u64,
}

/// Counts of the catalogue's events.
#[derive(Debug)]
enum Known {
    /// By context, and in it by definition.
    Table(Vec<u64>),
    /// By context and definition, where a table would take too much room.
    Pairs(Pairs),
}

/// The most counts of a table.
const MAX_TABLE: usize = 1 << 20;

/// Counts by two numbers.
#[derive(Debug, Default)]
struct Pairs {
    /// The first in the upper half of a word, the second in the lower.
    numbers: Interner,
    counts: Vec<u64>,
}

impl Pairs {
    const fn word(first: u32, second: u32) -> u64 {
        (first as u64) << 32 | second as u64
    }

    fn has(&self, first: u32, second: u32) -> bool {
        self.numbers.find(Self::word(first, second)).is_some()
    }

    fn bump(&mut self, first: u32, second: u32) {
        let at = usize::try_from(self.numbers.intern(Self::word(first, second))).unwrap_or(usize::MAX);
        match self.counts.get_mut(at) {
            Some(n) => *n += 1,
            None => self.counts.push(1),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        self.numbers.words().iter().zip(&self.counts).map(move |(word, n)| (half(word >> 32), half(*word), *n))
    }
}

/// The contexts with their events, the most first; those with as many in the order of their names.
fn groups(by: BTreeMap<Key, (Cell, ByName)>) -> Vec<(u64, Cell, ByName)> {
    let total = |own: &ByName| own.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
    let mut groups: Vec<_> = by.into_values().map(|(cell, own)| (total(&own), cell, own)).collect();
    groups.sort_by_key(|(total, ..)| Reverse(*total));
    groups
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
    Cell::named(
        context.address,
        context.name.as_deref().map(str::to_owned).or_else(registered).filter(|n| !n.is_empty()),
    )
}

/// What a context is sorted by: those with a name, by their name, and several of one name by address. What is no thread
/// is one, whatever its address.
fn context_key(id: ContextId, system: &System<'_>) -> (String, u64) {
    match context_cell(id, system) {
        Cell::Named(address, name) => (name.map(|name| name.0).unwrap_or_default(), address),
        Cell::Text(word) => (word, 0),
        _ => (String::new(), 0),
    }
}

impl Making for Services {
    /// It counts events alone.
    const NEEDS: Needs = Needs::NOTHING;

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Services::new(of.trace, of.catalogue))
    }

    fn looks_at(&self, _: Option<DefId>, _: Option<&Role>) -> bool {
        true
    }

    fn event(&mut self, event: &Event, _: &System<'_>) {
        self.count(event);
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        self.report(scope, system)
    }
}

impl Services {
    fn new(trace: &Trace, catalogue: &Catalogue) -> Self {
        let (contexts, defs) = (trace.contexts.len().saturating_add(1), catalogue.iter().count());
        let known = match contexts.saturating_mul(defs) {
            counts @ 0..=MAX_TABLE => Known::Table(vec![0; counts]),
            _ => Known::Pairs(Pairs::default()),
        };
        Self { contexts, defs, known, unknown: Pairs::default(), left_out: 0 }
    }

    fn count(&mut self, event: &Event) {
        let Some(def) = event.def else { return self.unknown(event) };
        let unknown = self.contexts.saturating_sub(1);
        let index = usize::try_from(event.context.0).map_or(unknown, |i| i.min(unknown));
        match &mut self.known {
            Known::Table(counts) => {
                let def = def.index();
                if let Some(n) = counts.get_mut(index.saturating_mul(self.defs).saturating_add(def)) {
                    *n += 1;
                }
            }
            Known::Pairs(pairs) => {
                pairs.bump(u32::try_from(index).unwrap_or(u32::MAX), def.number());
            }
        }
    }

    #[cold]
    fn unknown(&mut self, event: &Event) {
        let (context, id) = (event.context.0, event.id);
        if self.unknown.counts.len() >= MAX_UNKNOWN && !self.unknown.has(context, id) {
            self.left_out += 1;
            return;
        }
        self.unknown.bump(context, id);
    }

    /// Calls `each` with every context, the name of an event, and how often it was inserted there.
    fn visit<'s>(&'s self, system: &'s System<'_>, mut each: impl FnMut(ContextId, Cow<'s, str>, u64)) {
        // Several definitions may share a name: the same event as several releases or modes record it.
        let mut known = |id: u32, def: DefId, n| each(ContextId(id), Cow::Borrowed(&system.catalogue[def].name), n);
        match &self.known {
            Known::Table(counts) => {
                for (id, own) in (0u32..).zip(counts.chunks_exact(self.defs.max(1))) {
                    let used = (0u32..).map(DefId::new).zip(own).filter(|(_, n)| **n > 0);
                    used.for_each(|(def, n)| known(id, def, *n));
                }
            }
            Known::Pairs(pairs) => pairs.iter().for_each(|(context, def, n)| known(context, DefId::new(def), n)),
        }
        let unknown =
            |(context, id, n): (u32, u32, u64)| each(ContextId(context), system.catalogue.made_up_name(id).into(), n);
        self.unknown.iter().for_each(unknown);
    }

    /// True for contexts whose rows are asked for: all that are no threads, and the threads with the most events, by name
    /// where these are equal.
    fn wanted(&self, most: usize, system: &System<'_>) -> Vec<bool> {
        let is_thread = |id| system.trace.contexts.get(id).is_some_and(|c| c.kind == ContextKind::Thread);
        let mut totals = vec![0u64; self.contexts];
        self.visit(system, |id, _, n| {
            if let Some(total) = usize::try_from(id.0).ok().and_then(|at| totals.get_mut(at)) {
                *total = total.saturating_add(n);
            }
        });
        let mut first: BTreeSet<(Reverse<u64>, (String, u64), u32)> = BTreeSet::new();
        let ids = || (0u32..).map(ContextId);
        for (id, total) in ids().zip(&totals).filter(|(id, total)| **total > 0 && is_thread(*id)) {
            if first.len() < most || first.last().is_some_and(|last| *total >= last.0.0) {
                first.insert((Reverse(*total), context_key(id, system), id.0));
            }
            if first.len() > most {
                first.pop_last();
            }
        }
        let first: BTreeSet<u32> = first.into_iter().map(|(.., id)| id).collect();
        ids().zip(&totals).map(|(id, _)| !is_thread(id) || first.contains(&id.0)).collect()
    }

    fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut all = ByName::new();
        let mut by: BTreeMap<Key, (Cell, ByName)> = BTreeMap::new();
        let wanted = (scope.most < self.contexts).then(|| self.wanted(scope.most, system));
        let is_wanted = |id: ContextId| {
            let at = usize::try_from(id.0).unwrap_or(usize::MAX);
            wanted.as_ref().is_none_or(|wanted| wanted.get(at).copied().unwrap_or(true))
        };
        let mut more = 0;
        self.visit(system, |id, name, n| {
            let add = |counts: &mut ByName| match counts.get_mut(name.as_ref()) {
                Some(sum) => *sum = sum.saturating_add(n),
                None => drop(counts.insert(name.clone().into_owned(), n)),
            };
            add(&mut all);
            if !is_wanted(id) {
                more += 1;
                return;
            }
            let (word, address) = context_key(id, system);
            let cell = context_cell(id, system);
            let key = (word, address, matches!(cell, Cell::Named(..)));
            let (_, own) = by.entry(key).or_insert_with(|| (cell, ByName::new()));
            add(own);
        });
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
            scope.push(&mut services, || vec![Cell::Text(name), Cell::Count(n), ratio(n, scope.kept)]);
        }
        let mut threads = report("services_threads", "Events by thread", by_thread);
        for (total, cell, own) in groups(by) {
            for (name, n) in sorted(own) {
                scope.push(&mut threads, || vec![cell.clone(), Cell::Text(name), Cell::Count(n), ratio(n, total)]);
            }
        }
        threads.more += more;
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
