//! How long interrupts take, by number.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::BTreeMap;

use super::timing::{Timing, notes, timing_columns};
use crate::analysis::many;
use crate::analysis::scope::{Scope, interrupted_time};
use crate::analysis::tracker::{Change, System};
use crate::catalogue::ArgKind;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Event;

/// Real interrupts are few; a damaged trace may name any number.
const MAX_NUMBERS: usize = 4096;

#[derive(Debug, Default)]
struct One {
    timing: Timing,
    begun: u64,
    ended: u64,
    /// True where the number is an address.
    is_address: bool,
}

#[derive(Debug, Default)]
pub(super) struct Interrupts {
    all: BTreeMap<Option<u64>, One>,
    /// Those of more numbers than are counted apart.
    beyond: u64,
    unannounced: u64,
}

impl Interrupts {
    fn at(&mut self, number: Option<u64>) -> Option<&mut One> {
        if self.all.len() >= MAX_NUMBERS && !self.all.contains_key(&number) {
            self.beyond += 1;
            return None;
        }
        Some(self.all.entry(number).or_default())
    }

    pub fn change(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        match *change {
            Change::Entered { number, .. } => {
                let Some(one) = self.at(system.interrupt_number(event, number)) else { return };
                one.begun += 1;
                if one.begun == 1 {
                    let word = system.role(event).and_then(|r| r.isr_number.index());
                    let field = event.def.zip(word).and_then(|(def, word)| system.catalogue[def].field(word));
                    let kinds = [ArgKind::Ptr, ArgKind::Addr, ArgKind::Code, ArgKind::Str];
                    one.is_address = field.is_some_and(|f| kinds.contains(&f.kind));
                }
            }
            Change::Exited { frame } => {
                if let Some(one) = self.at(system.interrupt_number(event, frame.number)) {
                    one.ended += 1;
                    one.timing.add(frame.since, event.ticks, event.seq);
                }
            }
            Change::Unannounced => self.unannounced += 1,
            _ => {}
        }
    }

    pub fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let unended = Column::new("unended", Kind::Count).titled("not ended");
        let columns = timing_columns(Column::new("interrupt", Kind::Interrupt), &[unended]);
        let mut rows = Vec::new();
        let (mut never, mut backwards) = (true, 0u64);
        for (number, one) in &self.all {
            let open = one.begun.saturating_sub(one.ended);
            never &= one.ended == 0;
            backwards += one.timing.backwards;
            let mut row = vec![match number {
                Some(n) if one.is_address => Cell::Address(*n),
                Some(n) => Cell::Count(*n),
                None => Cell::Empty,
            }];
            row.extend(one.timing.cells());
            row.push(Cell::Count(open));
            rows.push((one.timing.max(), row));
        }
        rows.sort_by_key(|(longest, _)| std::cmp::Reverse(*longest));
        let mut notes = notes(scope, backwards);
        if never && !rows.is_empty() {
            notes.push("no event reports that an interrupt ends: their durations are not known".to_owned());
        }
        if self.unannounced > 0 {
            notes.extend(interrupted_time(system));
        }
        if self.beyond > 0 {
            notes.push(format!(
                "more than {MAX_NUMBERS} numbers of interrupts: {} left out",
                many(self.beyond, "event of others is", "events of others are")
            ));
        }
        Report {
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            nothing: "no event reports that an interrupt begins".to_owned(),
            notes,
            ..Report::new("latency_interrupts", "Interrupts: from beginning to end", columns)
        }
    }
}
