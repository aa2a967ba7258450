//! The numbers that TraceX gives, by its own definitions, so that who compares finds out why they differ.
//!
//! They are made of the words in the buffer, not of this program's ticks and contexts: TraceX has its own order, its own
//! time and its own opinion of who runs after an event, and it inserts events where that would not show.
//!
//! Cost: one pass over the events, which begins once each thread has had an event; another pass looks for these. Where the
//! viewer's order is not that of the trace, or something asks for what only later events show (who runs next), there is
//! one pass for the order and for who there is, one for what is asked, and one that counts; what was counted in one pass
//! until that showed is then dropped. Where mutexes are looked at there is one more, mostly cut short: the first priority
//! of the threads that have them.
//! Nothing is kept for an event but where an ISR resumes a thread and does not say who runs next: then four bytes, 40 MB
//! for ten million events, and four more for each thread's event of that kind.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

mod contexts;
mod counts;
mod inversions;
mod next;
mod raw;
mod tables;
mod threads;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use self::contexts::Contexts;
use self::raw::Order;
use super::Name;
use crate::abi::Width;
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::query::{Query, wrong_filter};
use crate::report::Report;
use crate::trace::Trace;

pub use counts::{FILEX, NETX, Performance};
pub use inversions::Inversion;
pub use threads::Thread;

/// Everything that the viewer counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Threads, those that it makes up included.
    pub total_threads: u64,
    /// Objects, the same.
    pub total_objects: u64,
    /// Events of its list, with those that it inserts.
    pub total_events: u64,
    /// How many it inserts.
    pub inserted_events: u64,
    /// Ticks from the first event to the last; 1 where there are none.
    pub max_relative_ticks: u64,
    /// Events after an unused slot, which it does not read.
    pub unread_events: u64,
    /// Performance statistics.
    pub performance: Performance,
    /// Deterministic priority inversions.
    pub inversions: u64,
    /// Those that a third thread makes worse.
    pub bad_inversions: u64,
    /// Ranges of events that it marks.
    pub inversion_ranges: Vec<Inversion>,
    /// Ticks in interrupts.
    pub interrupt: u64,
    /// Ticks without a thread.
    pub idle: u64,
    /// Ids and how often, the most frequent first.
    pub services: Vec<(u32, u64)>,
    /// Threads in its order.
    pub threads: Vec<Thread>,
    /// FileX counters, by [`FILEX`].
    pub filex: [u32; FILEX.len()],
    /// NetX counters, by [`NETX`].
    pub netx: [u32; NETX.len()],
}

/// Counts everything. `states` also lists the states of threads over time, which takes room for each suspension and
/// resumption.
///
/// # Errors
/// Where the trace is not one that the viewer reads.
pub fn numbers(trace: &Trace, states: bool) -> Result<Numbers, Error> {
    count(trace, states, &Name::ALL)
}

/// What [`numbers`] counts in one pass, where that can be, and what it counts in several: a test compares them.
///
/// # Errors
/// As [`numbers`].
pub fn numbers_both_ways(trace: &Trace, states: bool) -> Result<(Option<Numbers>, Numbers), Error> {
    readable(trace)?;
    Ok((in_one_pass(trace, states, &Name::ALL), in_passes(trace, states, &Name::ALL)))
}

/// Counts what these reports show.
fn count(trace: &Trace, states: bool, names: &[Name]) -> Result<Numbers, Error> {
    readable(trace)?;
    Ok(in_one_pass(trace, states, names).unwrap_or_else(|| in_passes(trace, states, names)))
}

/// Counts in one pass, once each thread has had an event; `None` where the viewer's order is another, or later events
/// decide what earlier ones mean.
fn in_one_pass(trace: &Trace, states: bool, names: &[Name]) -> Option<Numbers> {
    let order = Order::assumed(trace)?;
    let mut contexts = Contexts::of(trace);
    let mut missing = contexts.seen();
    order.visit(trace, |raw| {
        contexts.look(raw);
        if let Some(who) = contexts.who(raw) {
            missing.remove(&who);
        }
        if missing.is_empty() || contexts.needs.later() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if contexts.needs.later() {
        return None;
    }
    let of_mutexes = detects(names).then(|| contexts.seen_objects());
    let (mut all, mut votes) = (Contexts::of(trace), raw::Votes::default());
    let added = Added::of((trace, &order, &contexts), states, names, of_mutexes, |raw| {
        votes.add(raw.slot, raw.stamp);
        all.look(raw);
        if all.needs.later() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let holds = votes.up() == order.up && !all.needs.later() && contexts.is_settled(&all);
    holds.then(|| added.finish(trace, all))
}

/// Looks for the order, for who there is and for what later events decide before it counts.
fn in_passes(trace: &Trace, states: bool, names: &[Name]) -> Numbers {
    let mut contexts = Contexts::of(trace);
    let (order, looked) = Order::of(trace, |raw| contexts.look(raw));
    if !looked {
        order.visit(trace, |raw| {
            contexts.look(raw);
            ControlFlow::Continue(())
        });
    }
    let of_mutexes = (contexts.needs.owners && detects(names)).then(|| contexts.owners());
    let added = Added::of((trace, &order, &contexts), states, names, of_mutexes, |_| ControlFlow::Continue(()));
    added.finish(trace, contexts)
}

/// True where a report shows inversions.
fn detects(names: &[Name]) -> bool {
    names.contains(&Name::Inversions) || names.contains(&Name::Stats)
}

/// What one pass adds up.
struct Added {
    numbers: Numbers,
    adding: threads::Adding,
    ids: threads::Ids,
}

impl Added {
    /// Goes through the events in the viewer's order, shows each that is in the buffer to `also`, and ends where that
    /// breaks. `of_mutexes`: the objects whose priority is asked for, where inversions are.
    fn of(
        (trace, order, contexts): (&Trace, &Order, &Contexts),
        states: bool,
        names: &[Name],
        of_mutexes: Option<BTreeSet<usize>>,
        mut also: impl FnMut(&raw::Raw) -> ControlFlow<()>,
    ) -> Self {
        let ahead = next::Ahead::of(trace, order, contexts);
        let mut detector = of_mutexes.map(|asked| {
            let mut first = inversions::First::new(contexts, asked);
            next::walk(trace, order, contexts, &ahead, |step| first.step(step));
            inversions::Detector::new(contexts, first)
        });
        let mut counting = names.contains(&Name::Stats).then(counts::Counting::default);
        let mut middleware = counts::Middleware::default();
        let mut ids = threads::Ids::default();
        let mut totals = Vec::new();
        let mut adding = threads::Adding::new(trace, contexts, states);
        let mut numbers = Numbers { unread_events: order.beyond, ..Numbers::default() };
        next::walk(trace, order, contexts, &ahead, |step| {
            numbers.total_events += 1;
            numbers.inserted_events += u64::from(step.inserted);
            numbers.max_relative_ticks = step.ticks;
            let number = ids.of(step.raw.id);
            if step.raw.id != raw::id::RUNNING {
                threads::count(&mut totals, number);
            }
            if let Some(counting) = &mut counting {
                counting.step(step);
                middleware.step(step);
            }
            adding.step(step, contexts, number);
            if let Some(detector) = &mut detector {
                detector.step(step);
            }
            if step.inserted { ControlFlow::Continue(()) } else { also(&step.raw) }
        });
        numbers.max_relative_ticks = numbers.max_relative_ticks.max(1);
        numbers.performance = counting.map(counts::Counting::finish).unwrap_or_default();
        if let Some(detector) = detector {
            (numbers.inversions, numbers.bad_inversions) = (detector.found, detector.bad);
            numbers.inversion_ranges = detector.finish();
        }
        (numbers.filex, numbers.netx) = (middleware.filex, middleware.netx);
        (numbers.interrupt, numbers.idle) = (adding.interrupt, adding.idle);
        numbers.services = ids.sorted(&totals);
        Self { numbers, adding, ids }
    }

    /// The numbers, once all events were looked at.
    fn finish(self, trace: &Trace, mut contexts: Contexts) -> Numbers {
        let Self { mut numbers, adding, ids } = self;
        numbers.threads = adding.finish(trace, &mut contexts, &ids);
        numbers.total_threads = numbers.threads.iter().fold(0, |n, t| n.saturating_add(t.copies));
        let made_up = numbers.threads.iter().filter(|t| !t.registered).fold(0u64, |n, t| n.saturating_add(t.copies));
        numbers.total_objects = u64::try_from(trace.objects.len()).unwrap_or(u64::MAX).saturating_add(made_up);
        numbers
    }
}

/// Says where TraceX could not have read the trace.
fn readable(trace: &Trace) -> Result<(), Error> {
    let cannot = |why: String| {
        Err(wrong_filter(format!("TraceX cannot read this trace: {why}"))
            .hint("leave --tracex out: the reports of this program read it"))
    };
    if trace.about.format != "threadx" {
        return cannot(format!("it is of {}, and TraceX reads ThreadX only", trace.about.format.to_uppercase()));
    }
    if trace.about.word != Width::W4 {
        return cannot("its words (ULONG) have 8 bytes, and TraceX reads 4".to_owned());
    }
    Ok(())
}

/// Makes the reports.
///
/// # Errors
/// Where the trace is not of a system that the viewer reads, where it has no such report, or where filters are given,
/// which it does not have.
pub fn reports(trace: &Trace, catalogue: &Catalogue, query: &Query<'_>, names: &[Name]) -> Result<Vec<Report>, Error> {
    if let [Name::Blocked | Name::Latency] = names {
        return Err(wrong_filter("TraceX has no such report").hint(
            "--tracex is an option of stats, profile, services, stack, inversions and report; leave it out for blocked and latency",
        ));
    }
    readable(trace)?;
    if !query.keeps_all() {
        return Err(wrong_filter("--tracex takes no filters: TraceX's numbers are always of the whole trace")
            .hint("leave the filters out, or --tracex"));
    }
    let numbers = count(trace, false, names)?;
    Ok(tables::all(trace, catalogue, &numbers, names))
}
