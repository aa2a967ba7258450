//! `stats`: counters of the scope, of each core, of each thread, of each interrupt, and who resumed whom. FileX's and
//! NetX's counters where such events are there.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

mod can;
mod components;
mod interrupts;
mod threads;

use self::can::Can;
use self::components::Components;
use self::interrupts::{Interrupts, number_cell};
use self::threads::Threads;
use super::scope::Scope;
use super::tracker::{Change, Span, Step, System, ThreadNo, Who, place};
use super::{Changes, Making, Needs, Of, many};
use crate::catalogue::Role;
use crate::error::Error;
use crate::report::{Cell, Column, Kind, Report, Term};
use crate::trace::{DefId, Event};

/// Why a thread that could go on lost its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// To a more urgent one.
    Preempted,
    /// Its time slice was over.
    Sliced,
    /// It let go: the other is not more urgent, and no time slice was over.
    Yielded,
    /// A priority is not known.
    Unexplained,
}

/// What is counted for each core; their sum is the scope.
#[derive(Debug, Clone, Default)]
struct Counts {
    switches: u64,
    from_idle: u64,
    idle: u64,
    preemptions: u64,
    slices: u64,
    slice_events: u64,
    yields: u64,
    unexplained: u64,
    suspended_self: u64,
    suspended_by_others: u64,
    suspended: u64,
    resumed_by_threads: u64,
    resumed_by_interrupts: u64,
    resumed: u64,
    announced: u64,
    unannounced: u64,
    nested: u64,
    depth: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let all = [
            (&mut self.switches, other.switches),
            (&mut self.from_idle, other.from_idle),
            (&mut self.idle, other.idle),
            (&mut self.preemptions, other.preemptions),
            (&mut self.slices, other.slices),
            (&mut self.slice_events, other.slice_events),
            (&mut self.yields, other.yields),
            (&mut self.unexplained, other.unexplained),
            (&mut self.suspended_self, other.suspended_self),
            (&mut self.suspended_by_others, other.suspended_by_others),
            (&mut self.suspended, other.suspended),
            (&mut self.resumed_by_threads, other.resumed_by_threads),
            (&mut self.resumed_by_interrupts, other.resumed_by_interrupts),
            (&mut self.resumed, other.resumed),
            (&mut self.announced, other.announced),
            (&mut self.unannounced, other.unannounced),
            (&mut self.nested, other.nested),
        ];
        all.into_iter().for_each(|(sum, n)| *sum = sum.saturating_add(n));
        self.depth = self.depth.max(other.depth);
    }
}

/// One core as it is counted.
#[derive(Debug, Clone, Default)]
struct Core {
    counts: Counts,
    /// Who takes the core because a time slice is over.
    slice_to: Option<ThreadNo>,
    /// True where the interrupt that is at work unannounced has been counted.
    counted: bool,
}

/// Counts.
#[derive(Debug)]
pub(super) struct Stats {
    cores: Vec<Core>,
    spare: Core,
    threads: Threads,
    interrupts: Interrupts,
    components: Components,
}

/// One more.
fn bump(n: &mut u64) {
    *n += 1;
}

impl Stats {
    fn new(of: &Of<'_>) -> Self {
        Self {
            cores: Vec::new(),
            spare: Core::default(),
            threads: Threads::new(of.by_thread()),
            interrupts: Interrupts::default(),
            components: Components::new(of.catalogue),
        }
    }

    fn core(&mut self, core: u16) -> &mut Core {
        // The list grows to hold it; the spare core is never used.
        place(&mut self.cores, usize::from(core)).unwrap_or(&mut self.spare)
    }

    fn lost(&mut self, event: &Event, thread: ThreadNo, by: ThreadNo, system: &System<'_>) {
        let slice = self.core(event.core).slice_to.take();
        let priority = |no| system.thread(no).and_then(|t| t.priority);
        let loss = match (priority(thread), priority(by)) {
            // The end of a time slice also names the more urgent thread that the same interrupt made ready.
            (Some(own), Some(other)) if system.catalogue.is_more_urgent(other, own) => Loss::Preempted,
            _ if slice == Some(by) => Loss::Sliced,
            (Some(_), Some(_)) => Loss::Yielded,
            _ => Loss::Unexplained,
        };
        let counts = &mut self.core(event.core).counts;
        bump(match loss {
            Loss::Preempted => &mut counts.preemptions,
            Loss::Sliced => &mut counts.slices,
            Loss::Yielded => &mut counts.yields,
            Loss::Unexplained => &mut counts.unexplained,
        });
        let row = self.threads.row(thread);
        match loss {
            Loss::Preempted => bump(&mut row.preempted),
            Loss::Sliced => bump(&mut row.sliced),
            Loss::Yielded => bump(&mut row.yielded),
            Loss::Unexplained => bump(&mut row.unexplained),
        }
    }

    fn suspended(&mut self, event: &Event, thread: ThreadNo, by: Who) {
        let counts = &mut self.core(event.core).counts;
        bump(&mut counts.suspended);
        let own = by == Who::Thread(thread);
        match by {
            _ if own => bump(&mut counts.suspended_self),
            Who::Thread(_) | Who::Isr => bump(&mut counts.suspended_by_others),
            _ => {}
        }
        let row = self.threads.row(thread);
        bump(if own { &mut row.blocked } else { &mut row.stopped });
    }

    fn resumed(&mut self, event: &Event, thread: ThreadNo, by: Who) {
        bump(&mut self.threads.row(thread).woken);
        let counts = &mut self.core(event.core).counts;
        bump(&mut counts.resumed);
        match by {
            Who::Thread(_) => bump(&mut counts.resumed_by_threads),
            Who::Isr => bump(&mut counts.resumed_by_interrupts),
            _ => {}
        }
    }
}

impl Making for Stats {
    /// It counts changes, and resets a count where another has the core.
    const NEEDS: Needs = Needs { spans: true, changes: Changes::Kept, calls: false };

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Stats::new(of))
    }

    fn span(&mut self, span: &Span, _: &System<'_>) {
        // Somebody else had the core: the next interrupt is another one.
        if !matches!(span.who, Who::Isr | Who::Unknown) {
            self.core(span.core).counted = false;
        }
    }

    fn changes(&mut self, step: &Step<'_>, _: &Scope<'_>, system: &System<'_>) {
        step.changes.iter().for_each(|change| self.change(step.event, change, system));
    }

    fn gap(&mut self) {
        self.cores.iter_mut().for_each(|core| core.slice_to = None);
    }

    fn looks_at(&self, def: Option<DefId>, _: Option<&Role>) -> bool {
        def.is_some_and(|def| self.components.has(def))
    }

    fn event(&mut self, event: &Event, system: &System<'_>) {
        self.components.event(event, system);
    }

    fn finish(self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        let mut all = Counts::default();
        self.cores.iter().for_each(|c| all.add(&c.counts));
        let blind = is_blind(&all, scope);
        let mut reports = vec![whole(&all, blind, scope, system)];
        if scope.cores > 1 {
            reports.push(self.by_core(blind, Can::of(system), scope));
        }
        reports.extend(self.threads.report(blind, Can::of(system), scope, system));
        reports.extend(self.threads.wakeups(&self.interrupts, scope, system));
        reports.extend(self.interrupts.report(all.unannounced, scope, system));
        reports.extend(self.components.reports(scope));
        reports
    }
}

impl Stats {
    fn change(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        match *change {
            Change::Switch { from, to } => {
                let core = self.core(event.core);
                if to == Who::Idle {
                    bump(&mut core.counts.idle);
                }
                if matches!(to, Who::Thread(_)) && from == Who::Idle {
                    bump(&mut core.counts.from_idle);
                }
                if core.slice_to.map(Who::Thread) != Some(to) {
                    core.slice_to = None;
                }
            }
            Change::Dispatched { thread, .. } => {
                let core = self.core(event.core);
                bump(&mut core.counts.switches);
                core.slice_to = None;
                bump(&mut self.threads.row(thread).runs);
            }
            Change::Preempted { thread, by } => self.lost(event, thread, by, system),
            Change::Sliced { from, to } => {
                let core = self.core(event.core);
                bump(&mut core.counts.slice_events);
                core.slice_to = match to {
                    Who::Thread(no) if to != from => Some(no),
                    _ => None,
                };
            }
            Change::Blocked { thread, by, .. } => {
                self.suspended(event, thread, by);
                if by != Who::Thread(thread) {
                    self.threads.did(thread, false, by, self.interrupts.open(event, system));
                }
            }
            Change::Readied { thread, by, .. } => {
                self.resumed(event, thread, by);
                self.threads.did(thread, true, by, self.interrupts.open(event, system));
            }
            Change::Entered { number, depth } => {
                let counts = &mut self.core(event.core).counts;
                bump(&mut counts.announced);
                if depth > 0 {
                    bump(&mut counts.nested);
                }
                counts.depth = counts.depth.max(u64::try_from(depth).unwrap_or(u64::MAX).saturating_add(1));
                self.interrupts.entered(event, number, system);
            }
            Change::Exited { frame } => self.interrupts.exited(event, &frame, system),
            Change::Unannounced => {
                let core = self.core(event.core);
                if !std::mem::replace(&mut core.counted, true) {
                    bump(&mut core.counts.unannounced);
                    core.counts.depth = core.counts.depth.max(1);
                }
            }
            _ => {}
        }
    }
}

/// True where the trace holds switches, but nothing of the scheduler that would explain them.
const fn is_blind(all: &Counts, scope: &Scope<'_>) -> bool {
    !scope.filtered && all.suspended == 0 && all.resumed == 0 && all.preemptions.saturating_add(all.yields) > 0
}

/// The count of something that priorities decide; empty where it can be none of the switches and all of them.
fn known(n: u64, unexplained: u64, blind: bool) -> Cell {
    if blind || (n == 0 && unexplained > 0) { Cell::Empty } else { Cell::Count(n) }
}

/// The columns of counters.
const COUNTER: [Column; 2] = [Column::new("counter", Kind::Text), Column::new("value", Kind::Counter)];

/// What follows from counts where the cause of a switch is not known.
const BLIND: &str = "preemptions, yields: not recorded; the trace has switches, but no suspensions or resumptions";

/// The counters of the scope.
fn whole(all: &Counts, blind: bool, scope: &Scope<'_>, system: &System<'_>) -> Report {
    let can = Can::of(system);
    let rows = [
        ("events", "Events", Cell::Count(scope.kept)),
        ("context_switches", "Context switches", Cell::Count(all.switches)),
        ("context_switches_from_idle", "Context switches from idle", can.idle(all.from_idle)),
        ("idle_entries", "Idle entries", can.idle(all.idle)),
        ("preemptions", "Preemptions", known(all.preemptions, all.unexplained, blind)),
        ("time_slices", "Time slices", can.slice(all.slices)),
        ("time_slice_events", "Time slice events", can.slice(all.slice_events)),
        ("yields", "Yields", if can.slices { known(all.yields, all.unexplained, blind) } else { Cell::Empty }),
        ("switches_unexplained", "Switches, unexplained", Cell::Count(all.unexplained)),
        ("suspensions", "Suspensions", Cell::Count(all.suspended)),
        ("suspensions_by_itself", "Suspensions by the thread itself", Cell::Count(all.suspended_self)),
        ("suspensions_by_others", "Suspensions by others", Cell::Count(all.suspended_by_others)),
        ("resumptions", "Resumptions", Cell::Count(all.resumed)),
        ("resumptions_by_threads", "Resumptions by threads", Cell::Count(all.resumed_by_threads)),
        ("resumptions_by_interrupts", "Resumptions by interrupts", Cell::Count(all.resumed_by_interrupts)),
        ("interrupts", "Interrupts", can.interrupt(all.announced + all.unannounced)),
        ("interrupts_announced", "Interrupts, announced", can.interrupt(all.announced)),
        ("interrupts_unannounced", "Interrupts, not announced", Cell::Count(all.unannounced)),
        ("interrupts_nested", "Interrupts, nested", can.interrupt(all.nested)),
        ("interrupt_depth", "Interrupt depth, maximum", can.interrupt(all.depth)),
    ];
    let rows = rows.into_iter().map(|(name, title, cell)| [Cell::term(Term::new(name, title)), cell]).collect();
    let notes = notes(all, blind, scope, system);
    Report { rows, notes, ..Report::new("stats", "Counters", COUNTER) }
}

/// What the counters of the scope leave out.
fn notes(all: &Counts, blind: bool, scope: &Scope<'_>, system: &System<'_>) -> Vec<String> {
    let (can, mut notes) = (Can::of(system), scope.notes());
    if blind {
        notes.push(BLIND.to_owned());
    }
    if all.unexplained > 0 {
        notes.push(format!(
            "unexplained: {} a thread that could go on lost its core, and a priority is not known",
            many(all.unexplained, "time", "times")
        ));
    }
    can.say(all, &mut notes);
    let unknown = [
        ("suspensions", all.suspended - all.suspended_self - all.suspended_by_others),
        ("resumptions", all.resumed - all.resumed_by_threads - all.resumed_by_interrupts),
    ];
    for (what, n) in unknown.iter().filter(|(_, n)| *n > 0) {
        notes.push(format!("{what}: of {n} no event shows by whom, or it was before the scheduler ran"));
    }
    notes
}

impl Stats {
    fn by_core(&self, blind: bool, can: Can, scope: &Scope<'_>) -> Report {
        let count = |name| Column::new(name, Kind::Count);
        let columns = [
            count("core"),
            count("switches"),
            count("idle_entries").titled("idle entries"),
            count("preemptions"),
            count("time_slices").titled("time slices"),
            count("interrupts"),
            count("nested"),
        ];
        let mut report = Report::new("stats_cores", "Counters by core", columns);
        report.notes = scope.notes();
        for (number, Core { counts: c, .. }) in self.cores.iter().enumerate() {
            report.rows.push(vec![
                Cell::Count(u64::try_from(number).unwrap_or(u64::MAX)),
                Cell::Count(c.switches),
                can.idle(c.idle),
                known(c.preemptions, c.unexplained, blind),
                can.slice(c.slices),
                can.interrupt(c.announced.saturating_add(c.unannounced)),
                can.interrupt(c.nested),
            ]);
        }
        report
    }
}
