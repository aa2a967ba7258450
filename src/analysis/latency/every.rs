//! Period and jitter of repeating events: `--every`.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::{BTreeMap, HashMap};

use super::timing::{Timing, notes, timing_columns};
use crate::analysis::many;
use crate::analysis::scope::Scope;
use crate::analysis::tracker::System;
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::query::EventSet;
use crate::report::{Cell, Column, Kind, Report, Rows};
use crate::trace::Event;

/// Ids without a definition that are counted apart: a damaged trace may hold any number of them.
const MAX_IDS: usize = 4096;

#[derive(Debug, Clone, Default)]
struct One {
    timing: Timing,
    last: Option<i64>,
}

impl One {
    fn event(&mut self, event: &Event) {
        if let Some(from) = self.last.replace(event.ticks) {
            self.timing.add(from, event.ticks, event.seq);
        }
    }
}

fn first_of_name(catalogue: &Catalogue) -> Vec<usize> {
    let mut names = HashMap::new();
    catalogue.iter().enumerate().map(|(i, def)| *names.entry(def.name.as_str()).or_insert(i)).collect()
}

#[derive(Debug)]
pub(super) struct Every {
    asked: Vec<(String, EventSet, bool)>,
    /// For each definition the first of its name: a system may have several for one event.
    first: Vec<usize>,
    /// By definition.
    defs: Vec<One>,
    /// Events without one, by id.
    unknown: BTreeMap<u32, One>,
    beyond: u64,
}

impl Every {
    pub fn new(asked: &[String], catalogue: &Catalogue) -> Result<Option<Self>, Error> {
        if asked.is_empty() {
            return Ok(None);
        }
        let one = |text: &String| Ok((text.clone(), EventSet::compile(text, catalogue)?, false));
        Ok(Some(Self {
            asked: asked.iter().map(one).collect::<Result<_, Error>>()?,
            first: first_of_name(catalogue),
            defs: vec![One::default(); catalogue.iter().count()],
            unknown: BTreeMap::new(),
            beyond: 0,
        }))
    }

    /// No period reaches over missing events.
    pub fn gap(&mut self) {
        self.defs.iter_mut().chain(self.unknown.values_mut()).for_each(|one| one.last = None);
    }

    pub fn event(&mut self, event: &Event) {
        let mut wanted = false;
        for (_, set, met) in &mut self.asked {
            let has = set.has(event);
            *met |= has;
            wanted |= has;
        }
        if !wanted {
            return;
        }
        if let Some(index) = event.def.map(|def| def.index()) {
            let place = self.first.get(index).and_then(|first| self.defs.get_mut(*first));
            place.into_iter().for_each(|one| one.event(event));
        } else if self.unknown.len() < MAX_IDS || self.unknown.contains_key(&event.id) {
            self.unknown.entry(event.id).or_default().event(event);
        } else {
            self.beyond += 1;
        }
    }

    pub fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let catalogue = system.catalogue;
        let defs = catalogue.iter().zip(&self.defs).map(|(d, one)| (d.name.clone(), one));
        let all = defs.chain(self.unknown.iter().map(|(id, one)| (catalogue.made_up_name(*id), one)));
        let columns = timing_columns(Column::new("event", Kind::Event), &[Column::new("jitter", Kind::Ticks)]);
        let (mut rows, mut backwards) = (Rows::default(), 0u64);
        for (name, one) in all.filter(|(_, one)| one.last.is_some()) {
            rows.push([Cell::Text(name)].into_iter().chain(one.timing.cells()).chain([one.timing.jitter()]));
            backwards += one.timing.backwards;
        }
        let mut notes = notes(scope, backwards);
        for (text, ..) in self.asked.iter().filter(|(.., met)| !met) {
            notes.push(format!("--every {text}: no such event among those that were looked at"));
        }
        if self.beyond > 0 {
            notes.push(format!(
                "more than {MAX_IDS} ids without a name: {} left out",
                many(self.beyond, "event of another is", "events of others are")
            ));
        }
        let nothing = "none of these events came".to_owned();
        Report { rows, nothing, notes, ..Report::new("latency_every", "Events: from one to the next", columns) }
    }
}
