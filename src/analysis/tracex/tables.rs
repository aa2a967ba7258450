//! The viewer's numbers as reports, with its own names, so that they can be compared line by line.

use super::counts::{FILEX, NETX};
use super::{Name, Numbers, Thread, raw};
use crate::analysis::times::why;
use crate::catalogue::Catalogue;
use crate::code::Code;
use crate::report::{Cell, Column, Kind, Report};
use crate::trace::Trace;

const COUNTER: [Column; 2] =
    [Column { name: "counter", kind: Kind::Text }, Column { name: "value", kind: Kind::Count }];

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
            vec!["TraceX's numbers by its own definitions; docs/reports.md says where they differ".to_owned()];
        if names.iter().any(|n| matches!(n, Name::Blocked | Name::Latency)) {
            notes.push("TraceX has no report on waiting and on latency".to_owned());
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
            "TraceX looks for events right behind the registry, and these begin further on: it reads none where the bytes in \
             between are 0, and nonsense where they are not"
                .to_owned(),
        );
    } else if numbers.unread_events > 0 {
        notes.push(format!("TraceX stops at the first unused slot and does not read {} events", numbers.unread_events));
    }
    let differs =
        |what: &str| format!("{what}: TraceX reads them as they stand, and its numbers will differ from these");
    if has(Code::InsertionInProgress) || has(Code::Torn) {
        notes.push(differs("slots that were being written are left out"));
    }
    if has(Code::SlotOverwritten) {
        notes.push(differs("slots that were written over are left out"));
    }
    if has(Code::CurrentMisplaced) {
        notes.push(differs("the current pointer was not believed and events were put in order"));
    }
    if trace.about.facts.iter().any(|(label, _)| *label == "joined") {
        notes.push("several buffers were joined, which TraceX cannot do: it gives numbers for each alone".to_owned());
    }
    if trace.about.cores > 1 {
        notes.push("TraceX takes all cores for one: what runs side by side is a context switch to it".to_owned());
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
        ("total_threads", numbers.total_threads),
        ("total_objects", numbers.total_objects),
        ("total_events_incl_synth", numbers.total_events),
        ("synth_running_events", numbers.inserted_events),
        ("max_relative_ticks", numbers.max_relative_ticks),
        ("context_switches", p.context_switches),
        ("thread_preemptions", p.thread_preemptions),
        ("time_slices", p.time_slices),
        ("thread_suspensions", p.thread_suspensions),
        ("thread_resumptions", p.thread_resumptions),
        ("interrupts", p.interrupts),
        ("nested_interrupts", p.nested_interrupts),
        ("deterministic_priority_inversions", numbers.inversions),
        ("undeterministic_priority_inversions", numbers.bad_inversions),
    ];
    reports.push(counters("stats_tracex", rows.into_iter()));
    let columns = [
        ("thread", Kind::Thread),
        ("events", Kind::Count),
        ("suspensions", Kind::Count),
        ("resumptions", Kind::Count),
        ("lowprio", Kind::Count),
        ("highprio", Kind::Count),
        ("lowpt", Kind::Count),
        ("highpt", Kind::Count),
        ("copies", Kind::Count),
    ];
    let mut threads = report("threads_tracex", &columns);
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
    threads
        .notes
        .push("suspensions and resumptions are those that the thread caused, not those that it met".to_owned());
    if numbers.threads.iter().all(|t| t.copies == 1) {
        threads.truncate_columns(columns.len().saturating_sub(1));
    } else {
        threads.notes.push(
            "copies: another object lies at the thread's address, and TraceX adds a thread for each event of it"
                .to_owned(),
        );
    }
    reports.push(threads);
    middleware("filex_tracex", &FILEX, &numbers.filex, reports);
    middleware("netx_tracex", &NETX, &numbers.netx, reports);
}

/// Counters of FileX and NetX, where any of them counts.
fn middleware(name: &'static str, names: &[&'static str], values: &[u32], reports: &mut Vec<Report>) {
    if values.iter().any(|v| *v > 0) {
        reports.push(counters(name, names.iter().copied().zip(values.iter().map(|v| u64::from(*v)))));
    }
}

fn counters(name: &'static str, rows: impl Iterator<Item = (&'static str, u64)>) -> Report {
    let rows = rows.map(|(name, value)| vec![Cell::Text(name.to_owned()), Cell::Count(value)]).collect();
    Report { name, columns: COUNTER.to_vec(), rows, notes: Vec::new() }
}

fn report(name: &'static str, columns: &[(&'static str, Kind)]) -> Report {
    let columns = columns.iter().map(|(name, kind)| Column { name, kind: *kind }).collect();
    Report { name, columns, ..Report::default() }
}

fn thread(thread: &Thread) -> Cell {
    Cell::Named(thread.address, Some(thread.name.clone()))
}

fn percent(part: u64, whole: u64) -> Cell {
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with two decimals")]
    if whole > 0 { Cell::Real(part as f64 * 100.0 / whole as f64) } else { Cell::Empty }
}

fn profile(numbers: &Numbers) -> Report {
    let mut report =
        report("profile_tracex", &[("who", Kind::Thread), ("ticks", Kind::Ticks), ("share", Kind::Real(2))]);
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
    report.rows.push(vec![Cell::Text("initialize_by_difference".to_owned()), Cell::Ticks(rest), Cell::Empty]);
    report.notes.push(
        "initialize_by_difference is what is missing to all: TraceX itself shows 0 for initialization".to_owned(),
    );
    report
}

fn services(catalogue: &Catalogue, numbers: &Numbers) -> Report {
    let columns = [
        ("thread", Kind::Thread),
        ("id", Kind::Count),
        ("event", Kind::Event),
        ("count", Kind::Count),
        ("share", Kind::Real(2)),
    ];
    let mut report = report("services_tracex", &columns);
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
    report.notes.push(
        "rows without a thread are of the system; shares are of all events, those that TraceX inserts included"
            .to_owned(),
    );
    report
}

fn stack(numbers: &Numbers) -> Report {
    let columns = [
        ("thread", Kind::Thread),
        ("stack_size", Kind::Count),
        ("min_available", Kind::Count),
        ("min_event", Kind::Count),
        ("seq", Kind::Seq),
    ];
    let mut report = report("stack_tracex", &columns);
    for t in &numbers.threads {
        report.rows.push(vec![
            thread(t),
            Cell::Count(u64::from(t.stack_size)),
            Cell::Count(u64::from(t.min_available)),
            Cell::Count(t.min_event),
            t.min_seq.map_or(Cell::Empty, Cell::Count),
        ]);
    }
    report.notes.push(numbering("min_event"));
    report
}

fn inversions(numbers: &Numbers) -> Report {
    let columns = [("start", Kind::Count), ("end", Kind::Count), ("bad_end", Kind::Count), ("start_seq", Kind::Seq)];
    let mut report = report("inversions_tracex", &columns);
    for range in &numbers.inversion_ranges {
        let counts = [range.start, range.end, range.bad_end, range.start_seq];
        report.rows.push(counts.into_iter().map(Cell::Count).collect());
    }
    report.notes.push(format!(
        "{} deterministic, {} undeterministic; ranges that overlap lose their start",
        numbers.inversions, numbers.bad_inversions
    ));
    report.notes.push(numbering("start, end and bad_end"));
    report
}

fn numbering(what: &str) -> String {
    format!("{what} count TraceX's own list from 0, with the events that it inserts; 0 is none, seq is this program's")
}
