//! Interrupts that events announce: how many, how long.

use std::collections::BTreeMap;

use super::bump;
use crate::analysis::scope::Scope;
use crate::analysis::tracker::{Frame, System};
use crate::analysis::{address_cell, many};
use crate::catalogue::ArgKind;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Event;

/// The most numbers that are counted apart: a damaged trace may name any.
const MAX_NUMBERS: usize = 1 << 12;

/// One interrupt.
#[derive(Debug, Clone, Default)]
struct Row {
    count: u64,
    ended: u64,
    ticks: i64,
    /// The longest, and the event that ends it.
    max: Option<(i64, u64)>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub struct Interrupts {
    rows: BTreeMap<Option<u64>, Row>,
    /// True where the numbers are addresses of objects.
    objects: bool,
    left_out: u64,
}

/// The number of an interrupt as a cell.
pub fn number_cell(number: Option<u64>, kind: Kind, system: &System<'_>) -> Cell {
    match number {
        None => Cell::Empty,
        Some(address) if kind == Kind::Object => address_cell(address, system),
        Some(number) => Cell::Count(number),
    }
}

impl Interrupts {
    /// How a column of numbers reads.
    pub const fn kind(&self) -> Kind {
        if self.objects { Kind::Object } else { Kind::Interrupt }
    }

    /// The number of the interrupt that an event is in.
    pub fn open(&self, event: &Event, system: &System<'_>) -> Option<u64> {
        system.interrupt_number(event, system.frames(event.core).last().and_then(|f| f.number))
    }

    fn row(&mut self, number: Option<u64>) -> Option<&mut Row> {
        if self.rows.len() >= MAX_NUMBERS && !self.rows.contains_key(&number) {
            bump(&mut self.left_out);
            return None;
        }
        Some(self.rows.entry(number).or_default())
    }

    /// One begins.
    pub fn entered(&mut self, event: &Event, own: Option<u64>, system: &System<'_>) {
        let Some(row) = self.row(system.interrupt_number(event, own)) else { return };
        bump(&mut row.count);
        if row.count == 1 {
            let word = system.role(event).and_then(|r| r.isr_number.index());
            let field = event.def.zip(word).and_then(|(def, word)| system.catalogue[def].field(word));
            self.objects |= field.is_some_and(|f| matches!(f.kind, ArgKind::Ptr | ArgKind::ThreadPtr | ArgKind::Addr));
        }
    }

    /// One ends.
    pub fn exited(&mut self, event: &Event, frame: &Frame, system: &System<'_>) {
        let Some(row) = self.row(system.interrupt_number(event, frame.number)) else { return };
        let ticks = event.ticks.saturating_sub(frame.since);
        bump(&mut row.ended);
        row.ticks = row.ticks.saturating_add(ticks);
        if row.max.is_none_or(|(most, _)| ticks > most) {
            row.max = Some((ticks, event.seq));
        }
    }

    /// `stats_interrupts`, the most time first; none where there were none.
    pub fn report(&self, unannounced: u64, scope: &Scope<'_>, system: &System<'_>) -> Option<Report> {
        if self.rows.is_empty() && unannounced == 0 {
            return None;
        }
        let columns = [
            Column::new("interrupt", self.kind()),
            Column::new("announced", Kind::Flag),
            Column::new("count", Kind::Count),
            Column::new("ended", Kind::Count),
            Column::new("ticks", Kind::Ticks).titled("time"),
            Column::new("max", Kind::Ticks),
            Column::new("max_seq", Kind::Seq).titled("max at event"),
        ];
        let mut report = Report { notes: scope.notes(), ..Report::new("stats_interrupts", "Interrupts", columns) };
        let mut rows: Vec<(&Option<u64>, &Row)> = self.rows.iter().collect();
        rows.sort_by_key(|(number, row)| (std::cmp::Reverse(row.ticks), **number));
        for (number, row) in rows {
            report.rows.push(vec![
                number_cell(*number, self.kind(), system),
                Cell::Flag(true),
                Cell::Count(row.count),
                Cell::Count(row.ended),
                if row.ended > 0 { Cell::Ticks(row.ticks) } else { Cell::Empty },
                row.max.map_or(Cell::Empty, |(ticks, _)| Cell::Ticks(ticks)),
                row.max.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
            ]);
        }
        if unannounced > 0 {
            let mut row = vec![Cell::Empty; report.columns.len()];
            if let [_, announced, count, ..] = row.as_mut_slice() {
                (*announced, *count) = (Cell::Flag(false), Cell::Count(unannounced));
            }
            report.rows.push(row);
        }
        if self.left_out > 0 {
            let events = many(self.left_out, "event is of a number", "events are of numbers");
            report.notes.push(format!("{events} for which there is no room here"));
        }
        Some(report)
    }
}
