//! `stack`: how low the stack pointers went that events carry.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::scope::Scope;
use super::services::context_cell;
use super::tracker::{System, place};
use super::{Making, Needs, Of, share_cell};
use crate::abi::Addr;
use crate::catalogue::{Role, Word, registered_stack};
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::{ContextId, ContextKind, DefId, Event, Object};

const COLUMNS: [Column; 7] = [
    Column::new("thread", Kind::Thread),
    Column::new("size", Kind::Count),
    Column::new("available", Kind::Count).titled("least free"),
    Column::new("used", Kind::Percent(1)).titled("most used"),
    Column::new("seq", Kind::Seq).titled("at event"),
    Column::new("pointers", Kind::Count).titled("pointers seen"),
    Column::new("remark", Kind::Text),
];

/// What the events of one context show.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Where the registered stack is, and how large it is.
    stack: (Addr, u64),
    /// Stack pointers in it.
    inside: u64,
    /// Stack pointers elsewhere, and the first event with one.
    outside: u64,
    first_outside: u64,
    /// The lowest in it as bytes above its start, and its event.
    lowest: Option<(u64, u64)>,
}

/// What is known of the stack of a context.
#[derive(Debug, Clone, Copy, Default)]
enum Known {
    /// It was not looked up: no event has a stack pointer.
    #[default]
    Nothing,
    /// A thread without a registered stack.
    Unregistered,
    /// The place of what its events show.
    Seen(u32),
}

/// Follows the stack pointers of threads.
#[derive(Debug, Default)]
pub(super) struct Stack {
    by: Vec<Known>,
    /// Of threads with a registered stack.
    seen: Vec<Seen>,
}

/// Where a thread's stack is: only the registration of a thread at its address counts. The entry of something else
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
    /// What the events of a context show, where its stack is registered.
    fn seen_of(&mut self, id: ContextId, system: &System<'_>) -> Option<&mut Seen> {
        let known = place(&mut self.by, usize::try_from(id.0).ok()?)?;
        if let Known::Nothing = known {
            let context = system.trace.contexts.get(id).filter(|c| c.kind == ContextKind::Thread)?;
            *known = match stack_at(context.address, system) {
                None => Known::Unregistered,
                Some(stack) => {
                    self.seen.push(Seen { stack, ..Seen::default() });
                    Known::Seen(u32::try_from(self.seen.len() - 1).unwrap_or(u32::MAX))
                }
            };
        }
        match *known {
            Known::Seen(at) => self.seen.get_mut(usize::try_from(at).ok()?),
            Known::Nothing | Known::Unregistered => None,
        }
    }

    fn pointer(&mut self, event: &Event, word: Word, system: &System<'_>) {
        let Some(pointer) = word.of(system.trace.words(event)) else { return };
        let Some(seen) = self.seen_of(event.context, system) else { return };
        let (start, size) = seen.stack;
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
        let mut report = Report { notes: scope.notes(), ..Report::new("stack", "Stack", COLUMNS) };
        let mut rows = self.rows(system);
        rows.sort_by(|a, b| a.key().cmp(&b.key()));
        let measured = rows.partition_point(|row| row.seen.is_some());
        let (measured, silent) = rows.split_at_checked(measured).unwrap_or_default();
        measured.iter().for_each(|row| scope.push(&mut report, || row.cells()));
        for ((id, _), _) in system.trace.contexts.iter().zip(&self.by).filter(|(_, k)| matches!(k, Known::Unregistered))
        {
            scope.push(&mut report, || unregistered(id, system));
        }
        silent.iter().for_each(|row| scope.push(&mut report, || row.cells()));
        report.nothing = "neither stacks nor stack pointers are recorded in this trace".to_owned();
        report
    }
}

/// A registered thread and its stack.
struct Row<'s> {
    thread: &'s Object,
    size: u64,
    /// What its events show; `None` where no event of it has a stack pointer.
    seen: Option<&'s Seen>,
}

impl Stack {
    /// The registered threads.
    fn rows<'s>(&'s self, system: &System<'s>) -> Vec<Row<'s>> {
        let contexts = &system.trace.contexts;
        let seen = |id: ContextId| match self.by.get(usize::try_from(id.0).ok()?)? {
            Known::Seen(at) => self.seen.get(usize::try_from(*at).ok()?),
            Known::Nothing | Known::Unregistered => None,
        };
        let mut rows = Vec::new();
        for thread in system.trace.objects.iter().filter(|o| o.is_thread) {
            // Of two entries of one address the table gives one: the other is of a thread that was there before.
            if !system.trace.objects.at(thread.address).is_some_and(|o| std::ptr::eq(o, thread)) {
                continue;
            }
            let Some((_, size)) = registered_stack(thread) else { continue };
            let seen = contexts.find(ContextKind::Thread, thread.address).and_then(seen);
            // A thread that was deleted, and did nothing in what the trace still holds.
            if thread.deleted && seen.is_none() {
                continue;
            }
            rows.push(Row { thread, size, seen });
        }
        rows
    }
}

/// The cells of a thread that is in events and has no registered stack: its stack pointers are not looked at.
fn unregistered(id: ContextId, system: &System<'_>) -> Vec<Cell> {
    let mut cells = vec![Cell::Empty; COLUMNS.len()];
    if let [thread, .., remark] = cells.as_mut_slice() {
        (*thread, *remark) = (context_cell(id, system), Cell::Word("no stack is registered"));
    }
    cells
}

impl Row<'_> {
    /// The fullest first, then what cannot be measured; those without any event come last.
    fn key(&self) -> (u8, u64, &str) {
        let name = self.thread.name.as_str();
        match self.seen.map(|seen| seen.lowest) {
            // A thousandth of a stack is exact enough for an order.
            Some(Some((free, _))) => (0, free.saturating_mul(1000).checked_div(self.size).unwrap_or(0), name),
            Some(None) => (1, 0, name),
            None => (2, 0, name),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let signed = |n| i64::try_from(n).unwrap_or(i64::MAX);
        let Seen { inside, outside, first_outside, lowest, .. } = self.seen.copied().unwrap_or_default();
        let used = lowest
            .map_or(Cell::Empty, |(free, _)| share_cell(signed(self.size.saturating_sub(free)), signed(self.size)));
        let remark = match (inside, outside) {
            (_, 0) => Cell::Empty,
            (0, _) => Cell::Text("not measurable here".to_owned()),
            (_, n) => Cell::Text(format!("{n} outside of the stack, first at {first_outside}")),
        };
        let name = (!self.thread.name.is_empty()).then(|| self.thread.name.clone());
        vec![
            Cell::named(self.thread.address, name),
            Cell::Count(self.size),
            lowest.map_or(Cell::Empty, |(free, _)| Cell::Count(free)),
            used,
            lowest.map_or(Cell::Empty, |(_, seq)| Cell::Count(seq)),
            Cell::Count(inside.saturating_add(outside)),
            remark,
        ]
    }
}
