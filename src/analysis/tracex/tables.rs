//! The viewer's numbers as reports, with its own names, so that they can be compared line by line.

use super::counts::{FILEX, NETX};
use super::{Name, Numbers, Thread, raw};
use crate::analysis::times::why;
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::report::{Cell, Column, Kind, Report, Term};
use crate::trace::Trace;

const COUNTER: [Column; 2] = [Column::new("counter", Kind::Text), Column::new("value", Kind::Counter)];

/// The reports of these names; where several are wanted those that TraceX does not have are left out, and that is said.
pub(super) fn all(trace: &Trace, catalogue: &Catalogue, numbers: &Numbers, names: &[Name]) -> Vec<Report> {
    let mut reports = Vec::new();
    for name in names {
        match name {
            Name::Stats => stats(numbers, &mut reports),
            Name::Profile => reports.push(profile(numbers)),
            Name::Services => reports.push(services(catalogue, numbers)),
            Name::Stack => reports.push(stack(numbers)),
            Name::Inversions => reports.push(inversions(numbers)),
            // Asked for alone they are refused.
            _ => {}
        }
    }
    if let Some(first) = reports.first_mut() {
        let mut notes =
            vec!["TraceX's numbers, by its own definitions: `tx-trace help reports` says where they differ".to_owned()];
        if names.iter().any(|n| matches!(n, Name::Blocked | Name::Latency)) {
            notes.push("TraceX has no reports of waits and latency".to_owned());
        }
        notes.extend(cautions(trace, numbers));
        first.notes.splice(..0, notes);
    }
    reports
}

/// What makes this program read another trace than TraceX would.
fn cautions(trace: &Trace, numbers: &Numbers) -> Vec<String> {
    let mut notes: Vec<String> = why(trace.clock.counts).map(str::to_owned).into_iter().collect();
    let has = |code: Code| trace.issues.iter().any(|i| i.code == code);
    if raw::has_gap(trace) {
        notes.push(
            "TraceX expects the events directly after the registry: it reads none of this trace, or wrong ones"
                .to_owned(),
        );
    } else if numbers.unread_events > 0 {
        notes.push(format!("TraceX stops at the first unused slot and does not read {} events", numbers.unread_events));
    }
    let differs = |what: &str| format!("{what}: TraceX reads them as they are, so its numbers differ from these");
    if has(Code::InsertionInProgress) || has(Code::Torn) {
        notes.push(differs("slots that were being written are left out"));
    }
    if has(Code::SlotOverwritten) {
        notes.push(differs("slots that were overwritten are left out"));
    }
    if has(Code::CurrentMisplaced) {
        notes.push(differs("events were put in order, against the current pointer"));
    }
    if trace.about.facts.iter().any(|(label, _)| *label == "joined") {
        notes.push("several buffers were joined: TraceX gives numbers for each alone".to_owned());
    }
    if trace.about.cores > 1 {
        notes.push(
            "TraceX treats all cores as one: it counts threads that run at the same time as context switches"
                .to_owned(),
        );
    }
    // By its ceiling of events, which its own size of a buffer gives.
    if trace.about.capacity > 4_194_303 {
        notes.push("TraceX refuses buffers of more than 4,194,303 events".to_owned());
    }
    notes
}

fn stats(numbers: &Numbers, reports: &mut Vec<Report>) {
    let p = &numbers.performance;
    let rows = [
        ("total_threads", "Threads", numbers.total_threads),
        ("total_objects", "Objects", numbers.total_objects),
        ("total_events_incl_synth", "Events, those that TraceX inserts included", numbers.total_events),
        ("synth_running_events", "RUNNING events that TraceX inserts", numbers.inserted_events),
        ("max_relative_ticks", "Ticks from the first event to the last", numbers.max_relative_ticks),
        ("context_switches", "Context switches", p.context_switches),
        ("thread_preemptions", "Thread preemptions", p.thread_preemptions),
        ("time_slices", "Time slices", p.time_slices),
        ("thread_suspensions", "Thread suspensions", p.thread_suspensions),
        ("thread_resumptions", "Thread resumptions", p.thread_resumptions),
        ("interrupts", "Interrupts", p.interrupts),
        ("nested_interrupts", "Nested interrupts", p.nested_interrupts),
        ("deterministic_priority_inversions", "Deterministic priority inversions", numbers.inversions),
        ("undeterministic_priority_inversions", "Undeterministic priority inversions", numbers.bad_inversions),
    ];
    let rows = rows.into_iter().map(|(name, title, value)| (Term::new(name, title), value));
    reports.push(counters(Term::new("stats_tracex", "Counters of TraceX"), rows));
    reports.push(threads(numbers));
    middleware(Term::new("filex_tracex", "FileX, as in TraceX"), &FILEX, &numbers.filex, reports);
    middleware(Term::new("netx_tracex", "NetX, as in TraceX"), &NETX, &numbers.netx, reports);
}

fn threads(numbers: &Numbers) -> Report {
    let columns = [
        Column::new("thread", Kind::Thread),
        Column::new("events", Kind::Count),
        Column::new("suspensions", Kind::Count),
        Column::new("resumptions", Kind::Count),
        Column::new("lowprio", Kind::Count).titled("lowest priority"),
        Column::new("highprio", Kind::Count).titled("highest priority"),
        Column::new("lowpt", Kind::Count).titled("lowest threshold"),
        Column::new("highpt", Kind::Count).titled("highest threshold"),
        Column::new("copies", Kind::Count),
    ];
    let mut threads = Report::new("threads_tracex", "Threads of TraceX", columns);
    let number = |n: Option<u32>| n.map_or(Cell::Empty, |n| Cell::Count(u64::from(n)));
    for t in &numbers.threads {
        threads.rows.push(vec![
            thread(t),
            Cell::Count(t.events),
            Cell::Count(t.suspensions),
            Cell::Count(t.resumptions),
            number(t.priorities.map(|(low, _)| low)),
            number(t.priorities.map(|(_, high)| high)),
            number(t.low_threshold.filter(|_| t.registered)),
            number(t.high_threshold.filter(|_| t.registered)),
            Cell::Count(t.copies),
        ]);
    }
    if numbers.threads.iter().all(|t| t.copies == 1) {
        threads.truncate_columns(columns.len().saturating_sub(1));
    }
    threads
}

/// Counters of FileX and NetX, where any of them counts.
fn middleware(of: Term, terms: &[Term], values: &[u32], reports: &mut Vec<Report>) {
    if values.iter().any(|v| *v > 0) {
        reports.push(counters(of, terms.iter().copied().zip(values.iter().map(|v| u64::from(*v)))));
    }
}

fn counters(of: Term, rows: impl Iterator<Item = (Term, u64)>) -> Report {
    let rows = rows.map(|(term, value)| [Cell::term(term), Cell::Count(value)]).collect();
    Report { rows, ..Report::new(of.name, of.title, COUNTER) }
}

fn thread(thread: &Thread) -> Cell {
    Cell::named(thread.address, Some(thread.name.clone()))
}

fn percent(part: u64, whole: u64) -> Cell {
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with two decimals")]
    if whole > 0 { Cell::Real(part as f64 * 100.0 / whole as f64) } else { Cell::Empty }
}

fn profile(numbers: &Numbers) -> Report {
    let columns = [
        Column::new("who", Kind::Thread),
        Column::new("ticks", Kind::Ticks).titled("time"),
        Column::new("share", Kind::Percent(2)),
    ];
    let mut report = Report::new("profile_tracex", "Processor time, as in TraceX", columns);
    let mut rest = i128::from(numbers.max_relative_ticks);
    let mut add = |who: Cell, ticks: u64, copies: u64| {
        rest = rest.saturating_sub(i128::from(ticks).saturating_mul(i128::from(copies)));
        let share = percent(ticks, numbers.max_relative_ticks);
        report.rows.push(vec![who, Cell::Ticks(i64::try_from(ticks).unwrap_or(i64::MAX)), share]);
    };
    add(Cell::Text("interrupt".to_owned()), numbers.interrupt, 1);
    add(Cell::Text("idle".to_owned()), numbers.idle, 1);
    for t in &numbers.threads {
        add(thread(t), t.ticks, t.copies);
    }
    let rest = i64::try_from(rest).unwrap_or(i64::MIN);
    report.rows.push([Cell::term(INITIALIZE), Cell::Ticks(rest), Cell::Empty]);
    report
}

/// What is missing to all of the time; TraceX itself shows 0 for it.
const INITIALIZE: Term = Term::new("initialize_by_difference", "initialization (the rest)");

fn services(catalogue: &Catalogue, numbers: &Numbers) -> Report {
    let columns = [
        Column::new("thread", Kind::Thread),
        Column::new("id", Kind::Count),
        Column::new("event", Kind::Event),
        Column::new("count", Kind::Count),
        Column::new("share", Kind::Percent(2)),
    ];
    let mut report = Report::new("services_tracex", "Events, as in TraceX", columns);
    let mut add = |who: &Cell, list: &[(u32, u64)]| {
        for (id, count) in list {
            let name = catalogue.find(*id).and_then(|d| catalogue.def(d)).map(|d| d.name.clone());
            report.rows.push(vec![
                who.clone(),
                Cell::Count(u64::from(*id)),
                Cell::Text(name.unwrap_or_else(|| catalogue.made_up_name(*id))),
                Cell::Count(*count),
                percent(*count, numbers.total_events),
            ]);
        }
    };
    add(&Cell::Empty, &numbers.services);
    for t in &numbers.threads {
        add(&thread(t), &t.services);
    }
    report
}

fn stack(numbers: &Numbers) -> Report {
    let columns = [
        Column::new("thread", Kind::Thread),
        Column::new("stack_size", Kind::Count).titled("stack size"),
        Column::new("min_available", Kind::Count).titled("least free"),
        Column::new("min_event", Kind::Count).titled("at TraceX event"),
        Column::new("seq", Kind::Seq).titled("at event"),
    ];
    let mut report = Report::new("stack_tracex", "Stack, as in TraceX", columns);
    for t in &numbers.threads {
        report.rows.push(vec![
            thread(t),
            Cell::Count(u64::from(t.stack_size)),
            Cell::Count(u64::from(t.min_available)),
            Cell::Count(t.min_event),
            t.min_seq.map_or(Cell::Empty, Cell::Count),
        ]);
    }
    report
}

fn inversions(numbers: &Numbers) -> Report {
    let columns = [
        Column::new("start", Kind::Count).titled("from TraceX event"),
        Column::new("end", Kind::Count).titled("to TraceX event"),
        Column::new("bad_end", Kind::Count).titled("to TraceX event, undeterministic"),
        Column::new("start_seq", Kind::Seq).titled("from event"),
    ];
    let mut report = Report::new("inversions_tracex", "Priority inversions, as in TraceX", columns);
    report.nothing = "TraceX finds no priority inversion".to_owned();
    for range in &numbers.inversion_ranges {
        let counts = [range.start, range.end, range.bad_end, range.start_seq];
        report.rows.push(counts.map(Cell::Count));
    }
    let all = numbers.inversions.saturating_add(numbers.bad_inversions);
    if all > 0 {
        report.notes.push(format!("{} deterministic, {} undeterministic", numbers.inversions, numbers.bad_inversions));
    }
    report
}
