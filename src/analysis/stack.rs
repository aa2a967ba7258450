//! `stack`: how low the stack pointers went that events carry.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::scope::Scope;
use super::services::context_cell;
use super::tracker::System;
use super::{Making, Needs, Of, share_cell};
use crate::abi::Addr;
use crate::catalogue::{Role, Word, registered_stack};
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextId, ContextKind, DefId, Event};

/// What the events of one context show.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Where the registered stack lies.
    stack: Option<(Addr, u64)>,
    /// True once that was looked up.
    known: bool,
    /// Stack pointers in it.
    inside: u64,
    /// Stack pointers elsewhere, and the first event with one.
    outside: u64,
    first_outside: u64,
    /// The lowest in it as bytes above its start, and its event.
    lowest: Option<(u64, u64)>,
}

/// Follows the stack pointers of threads.
#[derive(Debug, Default)]
pub(super) struct Stack {
    by: Vec<Seen>,
}

/// Where a thread's stack lies: only the registration of a thread at its address counts. The entry of something else
/// that was there before says nothing.
fn stack_at(address: Addr, system: &System<'_>) -> Option<(Addr, u64)> {
    registered_stack(system.trace.objects.at(address)?)
}

impl Making for Stack {
    /// It looks at events alone.
    const NEEDS: Needs = Needs::NOTHING;

    fn make(_: &Of<'_>) -> Result<Self, Error> {
        Ok(Stack::default())
    }

    fn looks_at(&self, _: Option<DefId>, role: Option<&Role>) -> bool {
        role.is_some_and(|r| r.stack.is_some())
    }

    #[inline]
    fn event(&mut self, event: &Event, system: &System<'_>) {
        if let Some(role) = system.role(event).filter(|r| r.stack.is_some()) {
            self.pointer(event, role.stack, system);
        }
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        vec![self.report(scope, system)]
    }
}

impl Stack {
    fn pointer(&mut self, event: &Event, word: Word, system: &System<'_>) {
        let Some(pointer) = word.of(system.trace.words(event)) else { return };
        let Ok(index) = usize::try_from(event.context.0) else { return };
        if index >= self.by.len() {
            self.by.resize(index + 1, Seen::default());
        }
        let Some(seen) = self.by.get_mut(index) else { return };
        if !seen.known {
            let Some(context) = system.trace.contexts.get(event.context).filter(|c| c.kind == ContextKind::Thread)
            else {
                return;
            };
            (seen.known, seen.stack) = (true, stack_at(context.address, system));
        }
        let Some((start, size)) = seen.stack else { return };
        // An empty stack's pointer stands just above it.
        match pointer.checked_sub(start).filter(|free| *free <= size) {
            Some(free) => {
                seen.inside += 1;
                if seen.lowest.is_none_or(|(least, _)| free < least) {
                    seen.lowest = Some((free, event.seq));
                }
            }
            None => {
                if seen.outside == 0 {
                    seen.first_outside = event.seq;
                }
                seen.outside += 1;
            }
        }
    }

    fn report(&self, scope: &Scope<'_>, system: &System<'_>) -> Report {
        let columns = [
            Column::new("thread", Kind::Thread),
            Column::new("size", Kind::Count),
            Column::new("available", Kind::Count).titled("least free"),
            Column::new("used", Kind::Percent(1)).titled("most used"),
            Column::new("seq", Kind::Seq).titled("at event"),
            Column::new("pointers", Kind::Count).titled("pointers seen"),
            Column::new("remark", Kind::Text),
        ];
        let mut report = Report { notes: scope.notes(), ..Report::new("stack", "Stack", columns) };
        let mut rows = self.rows(system);
        rows.sort_by(|a, b| a.key().cmp(&b.key()));
        rows.iter().for_each(|row| scope.push(&mut report, || row.cells()));
        report.nothing = "neither stacks nor stack pointers are recorded in this trace".to_owned();
        report
    }
}

/// A thread and its stack.
struct Row {
    cell: Cell,
    name: String,
    stack: Option<(Addr, u64)>,
    seen: Seen,
}

impl Stack {
    /// The registered threads, and those that events alone know.
    fn rows(&self, system: &System<'_>) -> Vec<Row> {
        let contexts = &system.trace.contexts;
        let seen = |id: Option<ContextId>| {
            let index = id.and_then(|i| usize::try_from(i.0).ok());
            index.and_then(|i| self.by.get(i)).copied().unwrap_or_default()
        };
        let mut rows = Vec::new();
        for object in system.trace.objects.iter().filter(|o| o.is_thread) {
            // Of two entries of one address the table gives one: the other is of a thread that was there before.
            if !system.trace.objects.at(object.address).is_some_and(|o| std::ptr::eq(o, object)) {
                continue;
            }
            let stack = registered_stack(object);
            let seen = seen(contexts.find(ContextKind::Thread, object.address));
            // A thread that was deleted, and did nothing in what the trace still holds.
            if stack.is_none() || (object.deleted && seen.inside.saturating_add(seen.outside) == 0) {
                continue;
            }
            let name = (!object.name.is_empty()).then(|| object.name.clone());
            rows.push(Row { name: object.name.clone(), cell: Cell::Named(object.address, name), stack, seen });
        }
        for ((id, _), seen) in contexts.iter().zip(&self.by) {
            if seen.known && seen.stack.is_none() {
                let cell = context_cell(id, system);
                rows.push(Row { cell, name: String::new(), stack: None, seen: *seen });
            }
        }
        rows
    }
}

impl Row {
    /// The fullest first, then what cannot be measured, then those without any event.
    fn key(&self) -> (u8, u64, &str) {
        let size = self.stack.map_or(0, |(_, size)| size);
        match (self.seen.lowest, self.seen.outside) {
            // A thousandth of a stack is exact enough for an order.
            (Some((free, _)), _) => (0, free.saturating_mul(1000).checked_div(size).unwrap_or(0), &self.name),
            (None, 1..) => (1, 0, &self.name),
            _ if self.seen.known => (2, 0, &self.name),
            _ => (3, 0, &self.name),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let Self { seen, stack, .. } = self;
        let signed = |n| i64::try_from(n).unwrap_or(i64::MAX);
        let size = stack.map(|(_, size)| size);
        let used = seen
            .lowest
            .zip(size)
            .map_or(Cell::Empty, |((free, _), size)| share_cell(signed(size.saturating_sub(free)), signed(size)));
        let remark = match (stack, seen.inside, seen.outside) {
            (None, ..) => "no stack is registered".to_owned(),
            (_, 0, 0) => String::new(),
            (_, 0, _) => "not measurable here".to_owned(),
            (_, _, 0) => String::new(),
            (_, _, n) => format!("{n} outside of the stack, first at {}", seen.first_outside),
        };
        vec![
            self.cell.clone(),
            size.map_or(Cell::Empty, Cell::Count),
            seen.lowest.map_or(Cell::Empty, |(free, _)| Cell::Count(free)),
            used,
            seen.lowest.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
            // Without a stack they are not looked at.
            stack.map_or(Cell::Empty, |_| Cell::Count(seen.inside.saturating_add(seen.outside))),
            if remark.is_empty() { Cell::Empty } else { Cell::Text(remark) },
        ]
    }
}
