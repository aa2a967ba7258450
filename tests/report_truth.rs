//! The reports against a simulated kernel's own account of hundreds of runs: what is reported is true, and what the events do
//! not tell is `unknown`.

#![allow(missing_docs, clippy::restriction, reason = "a test")]

mod support;

use std::collections::BTreeMap;

use support::builder::{Buffer, Entry, Registered};
use support::decode::text;
use support::simulated::{Kernel, Loss, Outcome, STACK_SIZE, Setup, Who, stack};
use support::threadx::{ALPHA, BASE, decode, decode_bytes};
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::format::{DecodeOptions, Extent};
use tx_trace::query::{Filters, Query};
use tx_trace::report::{Cell, Report};

const RUNS: u64 = 400;

/// A run, from the event on that is the oldest in the ring.
struct Run {
    kernel: Kernel,
    first: usize,
    reports: Vec<Report>,
}

fn setup(seed: u64) -> Setup {
    Setup {
        seed,
        threads: 3 + (seed % 5) as usize,
        announced: seed % 4 != 3,
        inheritance: seed.is_multiple_of(3),
        timers_in_isr: seed.is_multiple_of(5),
        interrupts_in_calls: seed.is_multiple_of(2),
        events: 300,
    }
}

fn run(seed: u64) -> Run {
    let kernel = Kernel::run(setup(seed));
    // The ring holds all events, or the beginning is overwritten.
    let oldest = if seed % 3 == 1 { 80 } else { 0 };
    let begins = |i: &usize| kernel.events[*i].context != 0xFFFF_FFFF && kernel.events[*i].id != 2;
    let first = (oldest..).find(begins).unwrap();
    let objects = kernel.threads.iter().enumerate().map(|(i, t)| Registered {
        priority: Some(t.own as u16),
        params: [stack(i), STACK_SIZE],
        ..Registered::new(1, t.address, &format!("t{i}"))
    });
    let events = &kernel.events[first..];
    let buffer = Buffer { objects: objects.collect(), ..Buffer::new(BASE) }.record(events.len() + 1, events);
    let trace = decode(&buffer);
    assert_eq!(trace.len() as usize, events.len());
    let catalogue = Catalogue::threadx(Names::Duo);
    let query = Query::compile(&Filters::default(), &trace, &catalogue).unwrap();
    let names = vec![Name::Profile, Name::Stats, Name::Blocked, Name::Latency, Name::Stack, Name::Inversions];
    let reports = reports(&trace, &catalogue, &query, &ReportRequest { names, ..ReportRequest::default() }).unwrap();
    Run { kernel, first, reports }
}

fn number(cell: &Cell) -> i64 {
    match cell {
        Cell::Count(n) => *n as i64,
        Cell::Ticks(n) => *n,
        Cell::Empty => 0,
        other => panic!("no number: {other:?}"),
    }
}

impl Run {
    fn report(&self, name: &str) -> &Report {
        self.reports.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no report {name}"))
    }
    fn column(&self, report: &str, name: &str) -> usize {
        self.report(report).columns.iter().position(|c| c.name == name).unwrap()
    }
    /// Ticks of the first event and of the last.
    fn window(&self) -> (u64, u64) {
        (self.kernel.events[self.first].stamp, self.kernel.events.last().unwrap().stamp)
    }
    fn name(who: Who) -> String {
        match who {
            Who::Thread(i) => format!("t{i}"),
            Who::Isr => "isr".to_owned(),
            Who::Idle => "idle".to_owned(),
        }
    }
    fn stat(&self, counter: &str) -> i64 {
        let row = self.report("stats").rows.iter().find(|r| text(&r[0]) == counter).unwrap();
        number(&row[1])
    }
    /// Who had the processor for how long between two moments.
    fn shares(&self, from: u64, to: u64) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        for s in &self.kernel.account.segments {
            let (a, z) = (s.from.max(from), s.to.min(to));
            if a < z {
                *sums.entry(Self::name(s.who)).or_default() += (z - a) as i64;
            }
        }
        sums
    }
    /// True where the events tell everything.
    fn tells_all(&self) -> bool {
        self.kernel.setup.announced && self.kernel.account.doubts == 0
    }
}

/// Runs a check over all seeds and tells the first few that fail, and how many do.
fn over_all(check: impl Fn(&Run) -> Result<(), String>) {
    let mut failed = Vec::new();
    for seed in 0..RUNS {
        if let Err(why) = check(&run(seed)) {
            failed.push(format!("seed {seed}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{} of {RUNS} runs:\n{}", failed.len(), failed[..failed.len().min(12)].join("\n"));
}

#[test]
fn profile_is_the_kernels_account() {
    over_all(|run| {
        let (from, to) = run.window();
        let reported: BTreeMap<String, i64> =
            run.report("profile").rows.iter().map(|r| (text(&r[0]), number(&r[2]))).collect();
        let unknown = reported.get("unknown").copied().unwrap_or(0);
        if run.tells_all() && unknown > 0 {
            return Err(format!("unknown {unknown} although the events tell"));
        }
        let truth = run.shares(from, to);
        for who in reported.keys().chain(truth.keys()).filter(|w| *w != "unknown") {
            let (is, reported) = (truth.get(who).copied().unwrap_or(0), reported.get(who).copied().unwrap_or(0));
            if !(reported..=reported + unknown).contains(&is) {
                return Err(format!("{who}: reported {reported}, unknown {unknown}, is {is}"));
            }
        }
        Ok(())
    });
}

#[test]
fn stats_are_the_kernels_account() {
    over_all(|run| {
        // A switch that the oldest event itself causes is in the trace.
        let switches = run.kernel.account.switches.iter().filter(|s| s.after > run.first);
        let count =
            |pick: &dyn Fn(&support::simulated::Switch) -> bool| switches.clone().filter(|s| pick(s)).count() as i64;
        let thread = |w| matches!(w, Who::Thread(_));
        let truths = [
            ("context_switches", count(&|s| thread(s.to))),
            ("context_switches_from_idle", count(&|s| s.from == Who::Idle)),
            ("idle_entries", count(&|s| s.to == Who::Idle)),
            ("time_slices", count(&|s| s.loss == Some(Loss::Sliced))),
            ("preemptions", count(&|s| s.loss == Some(Loss::Preempted))),
            ("yields", count(&|s| s.loss == Some(Loss::Yielded))),
            ("switches_unexplained", 0),
        ];
        // A priority that is lent shows with the owner's next event: whether the other is more urgent, is not reported before.
        let lent = run.kernel.setup.inheritance;
        let sum = run.stat("preemptions") + run.stat("yields");
        if lent && sum != truths[4].1 + truths[5].1 {
            return Err(format!("preemptions and yields: reported {sum}, are {truths:?}"));
        }
        let truths = truths.into_iter().filter(|(name, _)| !lent || !["preemptions", "yields"].contains(name));
        let truths: Vec<_> = truths.collect();
        let wrong: Vec<String> = truths
            .iter()
            .filter(|(name, is)| run.stat(name) != *is)
            .map(|(name, is)| format!("{name}: reported {}, is {is}", run.stat(name)))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    });
}

/// Number, sum, shortest, longest, time-outs, and the one that goes on.
type Waits = (i64, i64, i64, i64, i64, i64);

#[test]
fn blocked_is_the_kernels_account() {
    over_all(|run| {
        let (_, end) = run.window();
        let mut truth: BTreeMap<(String, String), Waits> = BTreeMap::new();
        for wait in run.kernel.account.waits.iter().filter(|w| w.event >= run.first) {
            let what = match (wait.object, wait.state) {
                (0, 3) => "suspended".to_owned(),
                (0, 4) => "sleep".to_owned(),
                (0, 14) => "priority_change".to_owned(),
                (object, _) => format!("{object:#x}"),
            };
            let row = truth.entry((format!("t{}", wait.thread), what)).or_default();
            match wait.to {
                Some((to, _, how)) => {
                    let ticks = (to - wait.from) as i64;
                    row.2 = if row.0 == 0 { ticks } else { row.2.min(ticks) };
                    (row.0, row.1, row.3) = (row.0 + 1, row.1 + ticks, row.3.max(ticks));
                    row.4 += i64::from(how == Outcome::TimedOut && wait.object != 0);
                }
                None => row.5 = (end - wait.from) as i64,
            }
        }
        let at = |name| run.column("blocked", name);
        let mut reported: BTreeMap<(String, String), Waits> = BTreeMap::new();
        for r in &run.report("blocked").rows {
            let n = |name| number(&r[at(name)]);
            let row = reported.entry((text(&r[at("thread")]), text(&r[at("object")]))).or_default();
            // Sending and receiving wait for the same queue, in a row each.
            row.2 = match (row.0, n("count")) {
                (0, _) => n("min"),
                (_, 0) => row.2,
                _ => row.2.min(n("min")),
            };
            (row.0, row.1, row.3) = (row.0 + n("count"), row.1 + n("total"), row.3.max(n("max")));
            (row.4, row.5) = (row.4 + n("timeouts"), row.5 + n("open"));
        }
        // Calls of an interrupt that does not say when it ends may be of the next one: fewer time-outs are proven.
        if !run.kernel.setup.announced {
            for (key, row) in &mut truth {
                row.4 = reported.get(key).map_or(row.4, |reported| row.4.min(reported.4));
            }
        }
        for key in truth.keys().chain(reported.keys()) {
            if truth.get(key) != reported.get(key) {
                return Err(format!("{key:?}: reported {:?}, is {:?}", reported.get(key), truth.get(key)));
            }
        }
        Ok(())
    });
}

#[test]
fn latency_is_the_kernels_account() {
    over_all(|run| {
        if !run.tells_all() {
            return Ok(());
        }
        let mut truth: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
        for s in run.kernel.account.switches.iter().filter(|s| s.after > run.first) {
            let Some((since, event)) = s.readied.filter(|(_, event)| *event >= run.first) else { continue };
            let _ = event;
            let ticks = (s.at - since) as i64;
            let row = truth.entry(Run::name(s.to)).or_insert((0, i64::MAX, 0));
            *row = (row.0 + 1, row.1.min(ticks), row.2.max(ticks));
        }
        let at = |name| run.column("latency_threads", name);
        let rows = run.report("latency_threads").rows.iter();
        let reported: BTreeMap<String, (i64, i64, i64)> = rows
            .map(|r| (text(&r[at("thread")]), (number(&r[at("count")]), number(&r[at("min")]), number(&r[at("max")]))))
            .filter(|(_, row)| row.0 > 0)
            .collect();
        for key in truth.keys().chain(reported.keys()) {
            if truth.get(key) != reported.get(key) {
                return Err(format!("{key}: reported {:?}, is {:?}", reported.get(key), truth.get(key)));
            }
        }
        Ok(())
    });
}

#[test]
fn stacks_are_the_kernels_account() {
    over_all(|run| {
        for (i, _) in run.kernel.threads.iter().enumerate() {
            let own = run.kernel.account.stacks.iter().filter(|(t, event, _)| *t == i && *event >= run.first);
            let least = own.map(|(_, _, sp)| sp - stack(i)).min();
            let (thread, available) = (run.column("stack", "thread"), run.column("stack", "available"));
            let row = run.report("stack").rows.iter().find(|r| text(&r[thread]) == format!("t{i}")).unwrap();
            let reported = if row[available] == Cell::Empty { None } else { Some(number(&row[available]) as u64) };
            if reported != least {
                return Err(format!("t{i}: reported {reported:?}, is {least:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn inversions_are_the_kernels_account() {
    let judged = std::cell::Cell::new(0);
    over_all(|run| {
        let (_, end) = run.window();
        let at = |name| run.column("inversions", name);
        let mut rows: Vec<&[Cell]> = run.report("inversions").rows.iter().collect();
        // Those that began before the oldest event have no start.
        rows.retain(|r| r[at("from")] != Cell::Empty);
        let truth = run.kernel.account.inversions.iter().filter(|v| v.event > run.first);
        let truth: Vec<_> = truth.filter(|v| v.to != Some(v.from)).collect();
        rows.retain(|r| number(&r[at("ticks")]) > 0 || text(&r[at("ended")]) == "open");
        if rows.len() != truth.len() {
            return Err(format!("reported {} inversions, are {}", rows.len(), truth.len()));
        }
        judged.set(judged.get() + truth.len());
        for v in truth {
            let from = v.from as i64 - run.window().0 as i64;
            let is = |r: &&&[Cell]| {
                number(&r[at("from_ticks")]) == from && text(&r[at("waiter")]) == format!("t{}", v.waiter)
            };
            let Some(row) = rows.iter().find(is) else { return Err(format!("not reported: {v:?}")) };
            let ticks = (v.to.unwrap_or(end) - v.from) as i64;
            if (text(&row[at("owner")]), number(&row[at("ticks")])) != (format!("t{}", v.owner), ticks) {
                return Err(format!("reported {row:?}, is {v:?}"));
            }
            let shares = run.kernel.shares_of(v, end);
            let culprits = match &row[at("culprits")] {
                Cell::ThreadTimes(all) => &**all,
                _ => &[],
            };
            let each = culprits.iter().filter_map(|c| c.ticks);
            let reported = [number(&row[at("owner_ticks")]), number(&row[at("isr_ticks")]), each.clone().sum()];
            if number(&row[at("culprit_ticks")]) != each.max().unwrap_or(0) {
                return Err(format!("culprit_ticks is not that of the longest: {row:?}"));
            }
            let unknown = number(&row[at("unknown_ticks")]);
            if reported.iter().zip(shares).any(|(reported, is)| !(*reported..=reported + unknown).contains(&is)) {
                return Err(format!("{v:?}: reported {reported:?}, unknown {unknown}, is {shares:?}"));
            }
            if run.tells_all() && unknown > 0 {
                return Err(format!("{v:?}: unknown {unknown} although the events tell"));
            }
        }
        Ok(())
    });
    assert!(judged.get() > 100, "only {} inversions in all runs", judged.get());
}

// ---- A bug each ----

/// Reports of events by hand, of threads t0 at 0x20001000, t1 at 0x20001100 and so on.
fn of(events: &[Entry]) -> Vec<Report> {
    let objects = (0..4).map(|i| Registered {
        priority: Some(4 + i),
        ..Registered::new(1, ALPHA + u64::from(i) * 0x100, &format!("t{i}"))
    });
    let buffer = Buffer { objects: objects.collect(), ..Buffer::new(BASE) }.record(events.len() + 1, events);
    let (trace, catalogue) = (decode(&buffer), Catalogue::threadx(Names::Duo));
    let query = Query::compile(&Filters::default(), &trace, &catalogue).unwrap();
    reports(
        &trace,
        &catalogue,
        &query,
        &ReportRequest { names: vec![Name::Profile, Name::Stats], ..ReportRequest::default() },
    )
    .unwrap()
}

fn ticks(reports: &[Report], who: &str) -> i64 {
    reports[0].rows.iter().filter(|r| text(&r[0]) == who).map(|r| number(&r[2])).sum()
}

fn switches(reports: &[Report]) -> i64 {
    number(&reports[1].rows.iter().find(|r| text(&r[0]) == "context_switches").unwrap()[1])
}

const BETA: u64 = ALPHA + 0x100;

#[test]
fn a_thread_that_an_interrupt_leaves_running_keeps_its_time() {
    let mut list = vec![Entry::thread(ALPHA, 4, 5000, 0, [0; 4])];
    for at in [1000, 2000, 3000] {
        list.push(Entry::isr(ALPHA, 3, at, [0, 15, 1, 0]));
        list.push(Entry::isr(ALPHA, 1, at + 3, [BETA, 4, 0, ALPHA]));
        list.push(Entry::isr(ALPHA, 5, at + 6, [ALPHA, 1, 0, 0]));
        list.push(Entry::isr(ALPHA, 4, at + 10, [0, 15, 1, 0]));
    }
    list.push(Entry::thread(ALPHA, 4, 5000, 4000, [0; 4]));
    let r = of(&list);
    assert_eq!((ticks(&r, "t0"), ticks(&r, "isr"), ticks(&r, "unknown"), switches(&r)), (3970, 30, 0, 0));
}

#[test]
fn who_names_itself_as_the_next_runs_already() {
    for own in [Entry::thread(BETA, 5, 1, 100, [ALPHA, 4, 0, BETA]), Entry::thread(BETA, 5, 109, 100, [0, BETA, 0, 0])]
    {
        // Nothing tells how t1 got the processor from t0: the time is nobody's that is known.
        let r = of(&[Entry::thread(ALPHA, 4, 5000, 0, [0; 4]), own]);
        assert_eq!((ticks(&r, "t0"), ticks(&r, "unknown")), (0, 100), "{own:?}");
        // And as the first event it is no switch.
        let r = of(&[own, Entry::thread(BETA, 5, 5000, 200, [0; 4])]);
        assert_eq!((ticks(&r, "t1"), switches(&r)), (100, 0), "{own:?}");
    }
}

#[test]
fn nothing_is_switched_before_the_first_event() {
    let running = Entry::thread(ALPHA, 4, 6, 0, [0; 4]);
    let r = of(&[running, running, Entry::thread(ALPHA, 4, 5000, 50, [0; 4])]);
    assert_eq!((switches(&r), ticks(&r, "t0")), (0, 50));
}

#[test]
fn the_time_before_an_interrupt_that_finds_a_switch_undone_is_unknown() {
    let list = [
        Entry::thread(ALPHA, 6, 5000, 0, [0; 4]),
        Entry::isr(ALPHA, 3, 100, [0, 15, 1, 0]),
        Entry::isr(ALPHA, 1, 110, [BETA, 4, 0, BETA]),
        Entry::isr(ALPHA, 4, 120, [0, 15, 1, 0]),
        Entry::isr(ALPHA, 3, 220, [0, 16, 1, 0]),
        Entry::isr(ALPHA, 4, 230, [0, 16, 1, 0]),
        Entry::thread(BETA, 5, 5000, 300, [0; 4]),
    ];
    let r = of(&list);
    assert_eq!((ticks(&r, "t0"), ticks(&r, "isr"), ticks(&r, "unknown"), ticks(&r, "t1")), (100, 30, 100, 70));
}

/// What the profile says of interrupts and of unknown time.
fn said(events: &[Entry]) -> String {
    of(events)[0].notes.join("\n")
}

#[test]
fn the_note_on_unknown_time_named_one_cause_of_three() {
    let first = Entry::thread(ALPHA, 4, 5000, 0, [0; 4]);
    let undone = [
        first,
        Entry::isr(ALPHA, 3, 100, [0, 15, 1, 0]),
        Entry::isr(ALPHA, 1, 110, [BETA, 4, 0, BETA]),
        Entry::isr(ALPHA, 4, 120, [0, 15, 1, 0]),
        Entry::isr(ALPHA, 3, 220, [0, 16, 1, 0]),
        Entry::isr(ALPHA, 4, 230, [0, 16, 1, 0]),
        Entry::thread(BETA, 5, 5000, 300, [0; 4]),
    ];
    let bare = [first, Entry::isr(ALPHA, 5000, 100, [0; 4]), Entry::isr(ALPHA, 5000, 150, [0; 4])];
    let unstarted = [first, Entry::thread(BETA, 5, 5000, 300, [0; 4])];
    for list in [&undone[..], &bare, &unstarted] {
        assert!(ticks(&of(list), "unknown") > 0);
    }
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reports.md")).unwrap();
    let docs = docs.split_whitespace().collect::<Vec<_>>().join(" ");
    for cause in ["still finds the old thread below it", "without enter and exit events", "that no event made run"] {
        assert!(docs.contains(cause), "{cause}");
    }
}

#[test]
fn the_time_of_an_interrupt_that_no_event_announces_was_the_threads_without_a_word() {
    let thread = |at| Entry::thread(ALPHA, 4, 5000, at, [0; 4]);
    let wakes = |at| Entry::isr(ALPHA, 1, at, [BETA, 4, 0, BETA]);
    let woken = |at| Entry::thread(BETA, 5, 2, at, [BETA, 4, 0, ALPHA]);
    let enter = |at| Entry::isr(ALPHA, 3, at, [0, 15, 1, 0]);
    let exit = |at| Entry::isr(ALPHA, 4, at, [0, 15, 1, 0]);
    let whose = "their time counts as that of the thread that they interrupt or wake";

    let never = said(&[thread(0), wakes(100), woken(150), thread(200)]);
    assert!(never.contains("\ninterrupts are not announced") || never.starts_with("interrupts are not"));
    assert!(never.contains(whose), "{never}");
    // Nor are those that insert nothing.
    assert!(said(&[thread(0), thread(100)]).contains(whose));

    let some = said(&[thread(0), enter(50), exit(60), wakes(100), woken(150), thread(200)]);
    assert!(some.contains("some interrupts are not announced") && some.contains(whose), "{some}");

    let all = [thread(0), enter(90), wakes(100), exit(110), woken(150), thread(200)];
    assert!(!said(&all).contains("announced"), "{}", said(&all));
    // The beginning of the oldest interrupt is overwritten: it was announced as all others are.
    let cut = [wakes(100), exit(110), woken(150), thread(200), enter(250), exit(260), thread(300)];
    assert!(!said(&cut).contains("announced"), "{}", said(&cut));
}

#[test]
fn a_thread_that_wakes_two_runs_until_the_second() {
    let gamma = BETA + 0x100;
    let list = [
        Entry::thread(gamma, 6, 36, 0, [0x2000_B000, 3, 0, 2]),
        Entry::thread(gamma, 6, 1, 10, [BETA, 7, 0, BETA]),
        Entry::thread(gamma, 6, 1, 40, [ALPHA, 7, 0, ALPHA]),
        Entry::thread(ALPHA, 4, 5000, 100, [0; 4]),
    ];
    let r = of(&list);
    assert_eq!((ticks(&r, "t2"), ticks(&r, "t1"), ticks(&r, "t0"), switches(&r)), (40, 0, 60, 1));
}

#[test]
fn interrupt_time_of_the_real_linux_kernel() {
    let Some(dir) = support::real_traces() else { return };
    let Ok(file) = tx_trace_of(&dir.join("threadx/real_linux64.trx")) else {
        eprintln!("SKIPPED: no real_linux64.trx");
        return;
    };
    let isr = file.rows.iter().find(|r| text(&r[0]) == "isr").unwrap();
    // Between the events of each interrupt's beginning and end: 94,283 of 417 million ticks.
    assert_eq!(number(&isr[2]), 94_283);
    assert!(!file.rows.iter().any(|r| text(&r[0]) == "unknown"));
}

/// The profile of a file.
fn tx_trace_of(path: &std::path::Path) -> std::io::Result<Report> {
    let bytes = std::fs::read(path)?;
    let header = u64::from(u32::from_le_bytes(bytes[8..12].try_into().unwrap()));
    let trace = decode_bytes(&Buffer::new(header), bytes, &[], Extent::All, &DecodeOptions::default());
    let (trace, catalogue) = (trace.unwrap(), Catalogue::threadx(Names::Duo));
    let query = Query::compile(&Filters::default(), &trace, &catalogue).unwrap();
    let wish = ReportRequest { names: vec![Name::Profile], ..ReportRequest::default() };
    Ok(reports(&trace, &catalogue, &query, &wish).unwrap().remove(0))
}
