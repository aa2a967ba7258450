//! `inversions` and `blocked`: traces made by hand whose truth is known, the fixture firmware's planted inversion, and a
//! real kernel's.

mod blocked;
mod chains;
mod cores;
mod foreign;
mod kernels;
mod open;

use crate::support;
use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::decode::{scanned, text};
use crate::support::threadx::capture_of;
use tx_trace::analysis::{Name, ReportRequest, reports};
use tx_trace::catalogue::{ArgKind, Catalogue, Effects, EventDef, FieldDef, Names, Product};
use tx_trace::format::threadx::ThreadX;
use tx_trace::format::{DecodeOptions, Extent, Format};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::query::{Filters, Key, Position, Query};
use tx_trace::report::Report;
use tx_trace::trace::Trace;

const BASE: u64 = 0x2000_4000;
const HIGH: u64 = 0x2000_1000;
const MID: u64 = 0x2000_1100;
const LOW: u64 = 0x2000_1200;
const TIMER: u64 = 0x2000_1300;
const M1: u64 = 0x2000_2000;
const M2: u64 = 0x2000_2100;
const QUEUE: u64 = 0x2000_2200;
const FOREVER: u64 = 0xFFFF_FFFF;
const MUTEX_SUSP: u64 = 13;

// ---- What a kernel inserts ----

fn resume(by: (u64, u64), at: u64, thread: u64, was: u64, next: u64) -> Entry {
    Entry::thread(by.0, by.1, 1, at, [thread, was, 0, next])
}
fn suspend(who: (u64, u64), at: u64, state: u64, next: u64) -> Entry {
    Entry::thread(who.0, who.1, 2, at, [who.0, state, 0, next])
}
fn get(who: (u64, u64), at: u64, mutex: u64, wait: u64, owner: u64) -> Entry {
    Entry::thread(who.0, who.1, 52, at, [mutex, wait, owner, u64::from(owner != 0)])
}
fn put(who: (u64, u64), at: u64, mutex: u64) -> Entry {
    Entry::thread(who.0, who.1, 57, at, [mutex, who.0, 1, 0])
}
fn works(who: (u64, u64), at: u64) -> Entry {
    Entry::thread(who.0, who.1, 5000, at, [0; 4])
}

const H: (u64, u64) = (HIGH, 4);
const M: (u64, u64) = (MID, 10);
const L: (u64, u64) = (LOW, 20);
const T: (u64, u64) = (TIMER, 0);

fn thread(pointer: u64, name: &str, priority: Option<u16>) -> Registered {
    Registered { priority, ..Registered::new(1, pointer, name) }
}

fn registry() -> Vec<Registered> {
    vec![
        thread(HIGH, "high", Some(4)),
        thread(MID, "mid", Some(10)),
        thread(LOW, "low", Some(20)),
        thread(TIMER, "System Timer Thread", Some(0)),
        Registered::new(5, M1, "m1"),
        Registered::new(5, M2, "m2"),
        Registered::new(3, QUEUE, "queue"),
    ]
}

fn decode(buffer: &Buffer, known: &[(&'static str, u64)]) -> (Trace, Catalogue) {
    let mut memory = Segments::new(vec![Block::whole(buffer.base, buffer.bytes().into())]);
    let capture = capture_of(&mut memory, buffer, known, Extent::All);
    let catalogue = ThreadX.catalogue(Names::default());
    let trace = capture.decode(&catalogue, &DecodeOptions::default()).unwrap();
    (trace, catalogue)
}

fn trace_of(events: &[Entry]) -> (Trace, Catalogue) {
    decode(&Buffer { objects: registry(), ..Buffer::new(BASE) }.record(events.len() + 1, events), &[])
}

fn report_with(made: &(Trace, Catalogue), name: Name, filters: &Filters) -> Report {
    let query = Query::compile(filters, &made.0, &made.1).unwrap();
    let wish = ReportRequest { names: vec![name], ..ReportRequest::default() };
    let mut all = reports(&made.0, &made.1, &query, &wish).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn inversions(events: &[Entry]) -> Report {
    report_with(&trace_of(events), Name::Inversions, &Filters::default())
}

fn blocked(events: &[Entry]) -> Report {
    report_with(&trace_of(events), Name::Blocked, &Filters::default())
}

/// A cell as a short text: names without addresses, nothing as `-`.
fn cell(report: &Report, row: usize, name: &str) -> String {
    let at = report.columns.iter().position(|c| c.name == name).unwrap_or_else(|| panic!("no column {name}"));
    assert_eq!(report.rows[row].len(), report.columns.len());
    text(&report.rows[row][at])
}

fn row(report: &Report, row: usize, names: &str) -> String {
    names.split_whitespace().map(|n| cell(report, row, n)).collect::<Vec<_>>().join(" ")
}

/// What people read below the rows, or in place of them.
fn notes(report: &Report) -> String {
    let nothing = Some(&report.nothing).filter(|_| report.rows.is_empty());
    nothing.into_iter().chain(&report.notes).map(String::as_str).collect::<Vec<_>>().join("\n")
}

const WHAT: &str = "waiter owner mutex ended ticks from to deterministic";
const SHARES: &str = "owner_ticks culprit_ticks isr_ticks other_ticks";

// ---- Inversions ----

/// low takes m1, high preempts it, asks for m1 and waits.
fn start() -> Vec<Entry> {
    vec![
        get(L, 100, M1, FOREVER, 0),
        Entry::isr(LOW, 3, 200, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 210, [HIGH, 4, 0, HIGH]),
        Entry::isr(LOW, 4, 220, [0, 15, 0, 0]),
        get(H, 300, M1, FOREVER, LOW),
        suspend(H, 310, MUTEX_SUSP, LOW),
    ]
}

#[test]
fn an_inversion_in_which_only_the_owner_runs_is_deterministic() {
    let mut list = start();
    list.extend([
        works(L, 400),
        Entry::isr(LOW, 3, 500, [0, 15, 0, 0]),
        Entry::isr(LOW, 4, 530, [0, 15, 0, 0]),
        put(L, 610, M1),
        resume(L, 620, HIGH, MUTEX_SUSP, HIGH),
        works(H, 700),
    ]);
    let r = inversions(&list);
    assert_eq!(r.rows.len(), 1, "{r:?}");
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 300 5 9 true");
    assert_eq!(row(&r, 0, "waiter_priority owner_priority from_ticks to_ticks inherited"), "4 20 210 510 false");
    assert_eq!(row(&r, 0, SHARES), "270 0 30 0", "interrupts are nobody's fault, but their time is reported");
    assert_eq!(row(&r, 0, "culprit culprits"), "- none");
    assert!(notes(&r).contains("1 inversion in 1 wait for a lock, 300 ticks in all: 1 deterministic, 0 with"));
    let b = blocked(&list);
    assert_eq!(
        row(&b, 0, "thread object count total min max max_seq woken_by call"),
        "high m1 1 310 310 310 5 low tx_mutex_get"
    );
    assert_eq!(row(&b, 0, "open timeouts"), "- 0");
}

/// mid runs for a while instead of low.
fn culprit(from: u64, to: u64) -> Vec<Entry> {
    vec![
        Entry::isr(LOW, 3, from - 20, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, from - 10, [MID, 4, 0, MID]),
        Entry::isr(LOW, 4, from, [0, 15, 0, 0]),
        suspend(M, to, 4, LOW),
    ]
}

#[test]
fn a_third_less_urgent_thread_is_the_culprit() {
    let mut list = start();
    list.extend(culprit(400, 9000));
    list.extend([put(L, 9100, M1), resume(L, 9110, HIGH, MUTEX_SUSP, HIGH), works(H, 9200)]);
    let r = inversions(&list);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 8790 5 10 false");
    assert_eq!(row(&r, 0, "culprit culprit_ticks culprits"), "mid 8600 mid 8600");
    assert_eq!(row(&r, 0, SHARES), "170 8600 20 0");
    assert!(
        notes(&r).contains("high (4) waited 8790 ticks for m1, which low (20) had; mid (10) ran 8600 of it"),
        "{}",
        notes(&r)
    );
}

#[test]
fn threads_as_urgent_as_the_waiter_are_no_culprits() {
    let equal = (MID, 4);
    let mut list = start();
    list.extend([
        Entry::isr(LOW, 3, 380, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 390, [MID, 4, 0, MID]),
        Entry::isr(LOW, 4, 400, [0, 15, 0, 0]),
        suspend(equal, 1000, 4, LOW),
        put(L, 1100, M1),
    ]);
    let r = inversions(&list);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 790 5 10 true");
    assert_eq!(row(&r, 0, SHARES), "170 0 20 600");
}

#[test]
fn an_inversion_that_goes_on_is_open() {
    let mut list = start();
    list.extend(culprit(400, 9000)[..3].to_vec());
    list.push(works(M, 5310));
    let made = trace_of(&list);
    let r = report_with(&made, Name::Inversions, &Filters::default());
    assert_eq!(row(&r, 0, WHAT), "high low m1 open 5000 5 - false");
    assert!(notes(&r).contains("1 still open") && notes(&r).contains("high (4) has waited 5000 ticks for m1"));
    let b = report_with(&made, Name::Blocked, &Filters::default());
    assert_eq!(row(&b, 0, "thread object open since count total max woken_by"), "high m1 5000 5 0 - - -");
    // By a window that begins after it, the same with the shares that are seen.
    let filters = Filters { from: Some(Position::Seq(7)), ..Filters::default() };
    let r = report_with(&made, Name::Inversions, &filters);
    assert_eq!(row(&r, 0, WHAT), "high low m1 open 5000 5 - false");
    assert_eq!(row(&r, 0, "culprit_ticks"), "4910");
    assert!(notes(&r).contains("filters keep"), "{}", notes(&r));
    let b = report_with(&made, Name::Blocked, &filters);
    assert_eq!(row(&b, 0, "thread object open since"), "high m1 5000 5");
}

#[test]
fn two_inversions_overlap() {
    // low has both; high waits for m1, mid for m2; m2 is given back first.
    let mut list = vec![get(L, 50, M2, FOREVER, 0)];
    list.extend(start());
    list.extend([
        Entry::isr(LOW, 3, 380, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 390, [MID, 4, 0, MID]),
        Entry::isr(LOW, 4, 400, [0, 15, 0, 0]),
        get(M, 450, M2, FOREVER, LOW),
        suspend(M, 460, MUTEX_SUSP, LOW),
        put(L, 700, M2),
        resume(L, 710, MID, MUTEX_SUSP, MID),
        suspend(M, 800, 4, LOW),
        put(L, 900, M1),
        resume(L, 910, HIGH, MUTEX_SUSP, HIGH),
        works(H, 1000),
    ]);
    let r = inversions(&list);
    assert_eq!(r.rows.len(), 2);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 590 6 15 false");
    assert_eq!(row(&r, 0, "culprits"), "mid 150");
    assert_eq!(row(&r, 1, WHAT), "mid low m2 released 240 11 12 true");
    assert!(
        notes(&r).contains("2 inversions in 2 waits for locks, 830 ticks in all: 1 deterministic, 1 with"),
        "{}",
        notes(&r)
    );
}

#[test]
fn a_chain_of_owners_is_no_culprit() {
    // low has m1; mid has m2 and waits for m1; high waits for m2: low works for mid, and so for high.
    let list = [
        get(L, 100, M1, FOREVER, 0),
        Entry::isr(LOW, 3, 180, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 190, [MID, 4, 0, MID]),
        Entry::isr(LOW, 4, 200, [0, 15, 0, 0]),
        get(M, 210, M2, FOREVER, 0),
        get(M, 220, M1, FOREVER, LOW),
        suspend(M, 230, MUTEX_SUSP, LOW),
        Entry::isr(LOW, 3, 280, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 290, [HIGH, 4, 0, HIGH]),
        Entry::isr(LOW, 4, 300, [0, 15, 0, 0]),
        get(H, 310, M2, FOREVER, MID),
        suspend(H, 320, MUTEX_SUSP, LOW),
        put(L, 500, M1),
        resume(L, 510, MID, MUTEX_SUSP, MID),
        put(M, 600, M2),
        resume(M, 610, HIGH, MUTEX_SUSP, HIGH),
        works(H, 700),
    ];
    let r = inversions(&list);
    assert_eq!(row(&r, 0, WHAT), "mid low m1 released 270 6 12 true");
    assert_eq!(row(&r, 1, WHAT), "high mid m2 released 280 11 14 true");
    assert_eq!(row(&r, 1, "owner_waits owner_ticks"), "m1 280");
    assert_eq!(row(&r, 0, "other_ticks"), "20", "what high ran");
}

#[test]
fn an_inversion_ends_by_timeout() {
    let mut list = start();
    list[4] = get(H, 300, M1, 5, LOW);
    list.extend([
        Entry::isr(LOW, 3, 1300, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 1310, [TIMER, 3, 0, TIMER]),
        Entry::isr(LOW, 4, 1320, [0, 15, 0, 0]),
        resume(T, 1330, HIGH, MUTEX_SUSP, 0),
        suspend(T, 1340, 3, HIGH),
        works(H, 1400),
        suspend(H, 1410, 4, LOW),
        put(L, 2000, M1),
    ]);
    let r = inversions(&list);
    assert_eq!(r.rows.len(), 1);
    assert_eq!(row(&r, 0, WHAT), "high low m1 timeout 1020 5 9 true");
    let b = blocked(&list);
    let at = (0..b.rows.len()).find(|i| row(&b, *i, "thread object") == "high m1").unwrap();
    assert_eq!(row(&b, at, "count total timeouts woken_by"), "1 1020 1 System Timer Thread");
    // After a wait without end, the same events prove nothing.
    list[4] = get(H, 300, M1, FOREVER, LOW);
    assert_eq!(row(&inversions(&list), 0, "ended"), "given_up");
    assert!((0..b.rows.len()).all(|i| cell(&blocked(&list), i, "timeouts") == "0"));
}

#[test]
fn an_inversion_ends_by_deletion_abort_or_termination() {
    let by = |what: Entry, woken: bool| {
        let mut list = start();
        list.extend(culprit(400, 9000)[..3].to_vec());
        list.push(what);
        if woken {
            list.push(resume(M, 520, HIGH, MUTEX_SUSP, HIGH));
        }
        list.push(works(M, 10_000));
        list
    };
    let delete = by(Entry::thread(MID, 10, 51, 510, [M1, 0, 0, 0]), true);
    assert_eq!(row(&inversions(&delete), 0, WHAT), "high low m1 deleted 200 5 9 false");
    let abort = by(Entry::thread(MID, 10, 117, 510, [HIGH, MUTEX_SUSP, 0, 0]), true);
    assert_eq!(row(&inversions(&abort), 0, WHAT), "high low m1 aborted 210 5 10 false");
    let kill = by(Entry::thread(MID, 10, 115, 510, [HIGH, MUTEX_SUSP, 0, 0]), false);
    assert_eq!(row(&inversions(&kill), 0, WHAT), "high low m1 terminated 200 5 9 false");
    let b = blocked(&kill);
    assert_eq!(row(&b, 0, "thread object open count total woken_by"), "high m1 - 1 200 -", "the dead wait for nothing");
    let b = blocked(&abort);
    assert_eq!(row(&b, 0, "thread count timeouts"), "high 1 0", "an aborted wait did not time out");
}

#[test]
fn a_raised_owner_is_reported() {
    let raised = (LOW, 4);
    let mut list = start();
    // The kernel moves the owner in its list: it suspends and resumes it in the name of the waiter.
    list.splice(
        5..5,
        [Entry::thread(HIGH, 4, 2, 303, [LOW, 14, 0, HIGH]), Entry::thread(HIGH, 4, 1, 305, [LOW, 14, 0, HIGH])],
    );
    list.extend([works(raised, 400), put(raised, 600, M1), resume(raised, 610, HIGH, MUTEX_SUSP, HIGH), works(H, 700)]);
    let r = inversions(&list);
    assert_eq!(r.rows.len(), 1);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 290 7 9 true");
    assert_eq!(row(&r, 0, "inherited owner_priority owner_ticks"), "true 20 290");
}

#[test]
fn a_lock_that_goes_from_one_waiter_to_the_next_has_another_owner() {
    // mid waits first and gets it; high waits on, now for mid.
    let list = [
        get(L, 100, M1, FOREVER, 0),
        Entry::isr(LOW, 3, 180, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 190, [MID, 4, 0, MID]),
        Entry::isr(LOW, 4, 200, [0, 15, 0, 0]),
        get(M, 220, M1, FOREVER, LOW),
        suspend(M, 230, MUTEX_SUSP, LOW),
        Entry::isr(LOW, 3, 280, [0, 15, 0, 0]),
        Entry::isr(LOW, 1, 290, [HIGH, 4, 0, HIGH]),
        Entry::isr(LOW, 4, 300, [0, 15, 0, 0]),
        get(H, 310, M1, FOREVER, LOW),
        suspend(H, 320, MUTEX_SUSP, LOW),
        put(L, 500, M1),
        resume(L, 510, MID, MUTEX_SUSP, MID),
        put(M, 700, M1),
        resume(M, 710, HIGH, MUTEX_SUSP, HIGH),
        works(H, 800),
    ];
    let r = inversions(&list);
    let all: Vec<String> = (0..r.rows.len()).map(|i| row(&r, i, WHAT)).collect();
    assert_eq!(
        all,
        [
            "mid low m1 released 270 5 11 true",
            "high low m1 released 180 10 11 true",
            "high mid m1 released 190 12 13 true"
        ]
    );
}

#[test]
fn only_the_owner_gives_a_lock_back() {
    let mut list = start();
    list.extend(culprit(400, 9000)[..3].to_vec());
    // The kernel refuses it: the owner is low.
    list.push(Entry::thread(MID, 10, 57, 500, [M1, LOW, 1, 0]));
    list.push(works(M, 1310));
    assert_eq!(row(&inversions(&list), 0, WHAT), "high low m1 open 1000 5 - false");
    // What a dead thread has, the kernel gives back in the name of who killed it.
    list[9] = Entry::thread(MID, 10, 2, 490, [LOW, 2, 0, MID]);
    list[10] = Entry::thread(MID, 10, 57, 500, [M1, LOW, 1, 0]);
    list.push(resume(M, 510, HIGH, MUTEX_SUSP, HIGH));
    assert_eq!(row(&inversions(&list), 0, WHAT), "high low m1 released 190 5 10 false");
}

#[test]
fn what_does_not_wait_is_not_inverted() {
    let mut list = start();
    list[4] = get(H, 300, M1, 0, LOW);
    list[5] = suspend(H, 310, 4, LOW);
    list.push(works(L, 1000));
    let r = inversions(&list);
    assert!(r.rows.is_empty(), "{r:?}");
    assert!(notes(&r).contains("no inversion is seen in 0 waits"));
    assert!(notes(&inversions(&[works(L, 1), works(L, 2)])).contains("no event asks for a lock"));
}

#[test]
fn unknown_priorities_are_said_and_not_guessed() {
    // The owner's priority is in no event and not in the registry.
    let list = [get(H, 300, M1, FOREVER, LOW), suspend(H, 310, MUTEX_SUSP, MID), works(M, 400)];
    let objects = vec![thread(HIGH, "high", Some(4)), thread(MID, "mid", Some(10)), thread(LOW, "low", None)];
    let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(8, &list);
    let r = report_with(&decode(&buffer, &[]), Name::Inversions, &Filters::default());
    assert!(r.rows.is_empty());
    assert!(notes(&r).contains("1 wait for a lock is not judged: the priority of waiter or owner is not known"));
    assert!(!notes(&r).contains("no inversion is seen"), "nothing was judged: {}", notes(&r));
    // Its own event tells it later.
    let mut list = list.to_vec();
    list.extend([suspend(M, 500, 4, LOW), works(L, 600)]);
    let objects = vec![thread(HIGH, "high", Some(4)), thread(MID, "mid", Some(10)), thread(LOW, "low", None)];
    let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(8, &list);
    let r = report_with(&decode(&buffer, &[]), Name::Inversions, &Filters::default());
    assert_eq!(row(&r, 0, WHAT), "high low 0x20002000 open 290 1 - false");
}

#[test]
fn an_inversion_from_before_the_trace() {
    let list = [works(L, 100), put(L, 200, M1), resume(L, 210, HIGH, MUTEX_SUSP, HIGH), works(H, 300)];
    let r = inversions(&list);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released - - 2 -");
    assert_eq!(row(&r, 0, SHARES), "- - - -");
    assert!(notes(&r).contains("1 began before the first event"), "{}", notes(&r));
    let b = blocked(&list);
    assert!(b.rows.is_empty(), "how long it waited is not known");
    assert!(notes(&b).contains("1 thread was made ready by its first event"), "{}", notes(&b));
}

/// The same events with every thread moved.
fn moved(list: &[Entry], by: u64) -> Vec<Entry> {
    let known = [HIGH, MID, LOW, TIMER];
    let go = |w: u64| if known.contains(&w) { w + by } else { w };
    list.iter()
        .map(|e| Entry {
            context: go(e.context),
            priority: if e.context == 0xFFFF_FFFF { go(e.priority) } else { e.priority },
            info: e.info.map(go),
            ..*e
        })
        .collect()
}

#[test]
fn threads_above_the_init_mark_are_threads() {
    let mut list = start();
    list.extend(culprit(400, 9000));
    list.extend([put(L, 9100, M1), resume(L, 9110, HIGH, MUTEX_SUSP, HIGH), works(H, 9200)]);
    let by = 0xFFF8_0000 - 0x2000_0000;
    let mut objects = registry();
    objects.iter_mut().take(4).for_each(|o| o.pointer += by);
    let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(32, &moved(&list, by));
    let r = report_with(&decode(&buffer, &[]), Name::Inversions, &Filters::default());
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 8790 5 10 false");
    assert_eq!(row(&r, 0, "culprits"), "mid 8600");
}

#[test]
fn a_stale_object_at_a_threads_address_is_no_thread() {
    let mut list = start();
    list.extend(culprit(400, 9000));
    list.extend([put(L, 9100, M1), resume(L, 9110, HIGH, MUTEX_SUSP, HIGH), works(H, 9200)]);
    let mut objects = registry();
    // A deleted queue was once where mid is, and mid is not registered.
    objects[1] = Registered { available: 1, ..Registered::new(3, MID, "old queue") };
    let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(32, &list);
    let made = decode(&buffer, &[]);
    let r = report_with(&made, Name::Inversions, &Filters::default());
    assert_eq!(r.rows.len(), 1);
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 8790 5 10 false");
    assert!(row(&r, 0, "culprits").ends_with(" 8600"), "{}", row(&r, 0, "culprits"));
}

// ---- Cycles and long chains ----

/// `high` has m1 and waits for m2, `low` has m2 and waits for m1; then `mid` runs.
fn cycle() -> Vec<Entry> {
    let mut list = start();
    list.insert(0, get(H, 20, M2, FOREVER, 0));
    list.insert(1, suspend(H, 30, 4, LOW));
    list.extend([get(L, 400, M2, FOREVER, HIGH), suspend(L, 410, MUTEX_SUSP, MID), works(M, 5000)]);
    list
}

#[test]
fn a_cycle_of_locks_is_named_and_has_no_culprit() {
    let r = inversions(&cycle());
    assert_eq!(row(&r, 0, "waiter owner mutex ended culprit culprit_ticks cycle"), "high low m1 open - 0 true");
    assert_eq!(row(&r, 0, "deterministic"), "-");
    let said = "low waits for m2, which high has; high waits for m1, which low has; none of them can go on";
    assert!(notes(&r).contains(said), "{}", notes(&r));
}

#[test]
fn a_chain_of_more_than_sixteen_locks_is_followed_to_its_end() {
    // Thread n has lock n and waits for lock n + 1; the last one works. Thread 0 is the most urgent.
    const LONG: u64 = 40;
    let who = |n: u64| (0x2010_0000 + n * 0x100, 4 + n);
    let lock = |n: u64| 0x2020_0000 + n * 0x100;
    let mut list = Vec::new();
    let mut at = 100;
    for n in (0..LONG).rev() {
        list.push(get(who(n), at, lock(n), FOREVER, 0));
        if n + 1 < LONG {
            list.push(get(who(n), at + 10, lock(n + 1), FOREVER, who(n + 1).0));
        }
        let next = if n == 0 { LONG - 1 } else { n - 1 };
        let state = if n + 1 < LONG { MUTEX_SUSP } else { 4 };
        list.push(suspend(who(n), at + 20, state, who(next).0));
        at += 100;
    }
    list.push(works(who(LONG - 1), at + 1000));
    let r = inversions(&list);
    let first = (0..r.rows.len()).find(|i| cell(&r, *i, "waiter_priority") == "4").unwrap();
    assert_eq!(row(&r, first, "culprit culprit_ticks deterministic cycle"), "- 0 true false");
}
