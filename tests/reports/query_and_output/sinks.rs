use proptest::prelude::*;
use serde_json::{Value, json};
use tx_trace::abi::Width;
use tx_trace::catalogue::Catalogue;
use tx_trace::code::Code;
use tx_trace::error::Error;
use tx_trace::output::{
    Csv, EventSink, ExtraColumn, Format, Json, NoNames, Resolve, Show, Styles, Table, TableOptions, TimeFrom, View,
    Window, catalogue, objects, report_writer, write_error, write_issues,
};
use tx_trace::report::{Cell, Column, Kind, Report};
use tx_trace::trace::{ContextKind, Issue, Place};

use super::fixture::{Build, LOGGER, Made, QUEUE, story};

/// Compares with the file of that name; `UPDATE_GOLDEN=1` writes it instead.
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/output_{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        return std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(wanted == text, "{name} differs; wanted:\n{wanted}\ngot:\n{text}");
}

fn format(name: &str) -> Format {
    Format::parse(name).unwrap()
}

fn run(mut sink: impl EventSink, view: &View<'_>) {
    sink.begin(view, &Window::of(view.trace.events())).unwrap();
    for event in view.trace.events() {
        sink.event(view, &event).unwrap();
    }
    sink.finish(view, &view.trace.issues).unwrap();
}

fn table_of(view: &View<'_>, width: usize, time: TimeFrom, colour: bool) -> String {
    let mut out = Vec::new();
    run(
        Table::new(&mut out, TableOptions { width, styles: Styles::new(colour), time, ..TableOptions::default() }),
        view,
    );
    String::from_utf8(out).unwrap()
}

fn table(made: &Made, width: usize) -> String {
    table_of(&made.view(), width, TimeFrom::Newest(made.trace.newest().unwrap().ticks), false)
}

fn json(made: &Made) -> Vec<Value> {
    let mut out = Vec::new();
    run(Json::new(&mut out), &made.view());
    lines(&out)
}

fn lines(out: &[u8]) -> Vec<Value> {
    String::from_utf8(out.to_vec()).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn tables_at_each_width() {
    let made = story(Some(72e6));
    for width in [80, 120, 200] {
        golden(&format!("table_{width}.txt"), &table(&made, width));
    }
    golden("table_ticks.txt", &table_of(&story(None).view(), 80, TimeFrom::Origin, false));
}

#[test]
fn no_line_is_wider_than_asked() {
    let made = story(Some(72e6));
    for width in 1..260 {
        for line in table(&made, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
            assert!(!line.ends_with(' '), "{width}: {line:?}");
        }
    }
}

#[cfg(feature = "cli")]
#[test]
fn colours_change_nothing_but_colour() {
    let made = story(Some(72e6));
    for width in [40, 80, 120, 200] {
        let mut plain = String::new();
        let coloured = table_of(&made.view(), width, TimeFrom::Origin, true);
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, table_of(&made.view(), width, TimeFrom::Origin, false));
        // Each line closes what it opens.
        for line in coloured.lines().filter(|l| l.contains('\x1b')) {
            let last = line.rsplit_once('\x1b').unwrap().1;
            assert!(last.starts_with("[0m"), "{line:?}");
        }
    }
}

#[test]
fn a_clock_that_stands_still_takes_its_columns_away() {
    let mut b = Build::new(None);
    b.clock.counts = tx_trace::trace::Counts::Nothing;
    let thread = b.context(ContextKind::Thread, 0x10);
    b.event(0, thread, 6, [0; 4]);
    let made = b.make(Vec::new());
    let mut out = Vec::new();
    let columns = ExtraColumn::ALL.to_vec();
    run(Table::new(&mut out, TableOptions { columns, ..TableOptions::default() }), &made.view());
    let head = String::from_utf8(out).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["seq", "pri", "thr", "who", "event", "arguments"]);
}

#[test]
fn two_cores_have_a_column_and_their_own_changes() {
    let mut b = Build::new(None);
    b.about.cores = 2;
    let (one, two) = (b.context(ContextKind::Thread, 0x10), b.context(ContextKind::Thread, 0x20));
    for (core, thread) in [(0, one), (1, two), (0, one), (1, two), (0, two)] {
        b.event(1, thread, 6, [0; 4]).core = core;
    }
    let text = table(&b.make(Vec::new()), 80);
    assert!(text.lines().next().unwrap().contains("core"));
    let marks: Vec<bool> = text.lines().skip(1).map(|l| l.contains('*')).collect();
    assert_eq!(marks, [false, false, false, false, true]);
}

#[test]
fn json_has_every_key_of_the_contract() {
    let made = story(Some(72e6));
    let lines = json(&made);
    assert_eq!(lines.len(), 18);
    assert_eq!(
        lines[0],
        json!({"type": "trace", "schema": 1, "format": "threadx", "source": "a trace built by hand",
            "byte_order": "little", "ulong": 4, "base": "0x20008000", "capacity": 64, "events": 16, "wrapped": false,
            "time_mask": "0xffffffff", "direction": "up", "period": null, "hz": 72_000_000, "origin": 0, "objects": 4})
    );
    assert_eq!(
        lines[4],
        json!({"type": "event", "seq": 3, "slot": 3, "ticks": 792, "delta": 72, "stamp": "0x00001318", "core": 0,
            "context": {"kind": "thread", "address": "0x20000200", "name": "logger task"},
            "priority": 10, "threshold": 10, "interrupted": null,
            "id": 2, "name": "internal_thread_suspend", "macro": "TX_TRACE_THREAD_SUSPEND",
            "args": [
                {"name": "thread_ptr", "kind": "thread_ptr", "value": "0x20000200", "text": "logger task"},
                {"name": "new_state", "kind": "state", "value": 5, "text": "queue_susp"},
                {"name": "stack_ptr", "kind": "stack_ptr", "value": "0x20004f80", "text": "0x20004f80"},
                {"name": "next_thread", "kind": "thread_ptr", "value": "0x20000100", "text": "sensor"}],
            "words": ["0x20000200", "0x00000005", "0x20004f80", "0x20000100"]})
    );
    assert_eq!(lines[1]["delta"], Value::Null);
    assert_eq!(lines[1]["context"], json!({"kind": "init", "address": "0xf0f0f0f0", "name": null}));
    assert_eq!(lines[13]["interrupted"], json!({"address": "0x00000000", "name": "idle"}));
    assert_eq!(lines[13]["threshold"], Value::Null);
    assert_eq!((&lines[14]["name"], &lines[14]["macro"]), (&Value::Null, &Value::Null));
    // Words that nothing describes, as in the table.
    let raw = json!([
        {"name": "i1", "kind": "hex", "value": "0x0000002a", "text": "0x2a"},
        {"name": "i2", "kind": "ptr", "value": "0x20001000", "text": "samples"}]);
    assert_eq!(lines[14]["args"], raw);
    assert_eq!(lines[14]["words"][0], "0x0000002a");
    assert_eq!(lines[17], json!({"type": "end", "events": 16, "issues": 0}));
    let mut out = Vec::new();
    run(Json::new(&mut out), &made.view());
    golden("events.jsonl", &String::from_utf8(out).unwrap());
}

#[test]
fn words_of_eight_bytes_are_sixteen_digits() {
    let mut b = Build::new(None);
    b.about.word = Width::W8;
    let idle = b.context(ContextKind::Idle, 0);
    let isr = b.context(ContextKind::Isr, 0xFFFF_FFFF);
    b.event(0, isr, 3, [1, 2, 3, 4]).interrupted = Some(idle);
    let lines = json(&b.make(Vec::new()));
    assert_eq!(lines[0]["ulong"], 8);
    assert_eq!(lines[1]["context"]["address"], "0x00000000ffffffff");
    assert_eq!(lines[1]["interrupted"]["address"], "0x0000000000000000");
    assert_eq!(lines[1]["words"][3], "0x0000000000000004");
}

#[test]
fn issues_stand_beside_the_result() {
    let torn = Issue::new(Code::Torn, "slots were written while they were read").times(3);
    let note = Issue::new(Code::DirectionUnknown, "too few events to tell the direction").at(Place::seq(7));
    let made = Build::new(None).make(vec![note, torn.at(Place { address: Some(0x20), offset: Some(64), seq: None })]);
    let lines = json(&made);
    assert_eq!(
        lines[1],
        json!({"type": "issue", "code": "direction-unknown", "severity": "inferred", "count": 1,
            "message": "too few events to tell the direction", "where": {"seq": 7}})
    );
    assert_eq!(lines[2]["where"], json!({"address": "0x00000020", "offset": 64}));
    assert_eq!(lines[3], json!({"type": "end", "events": 0, "issues": 2}));
    let mut out = Vec::new();
    write_issues(&mut out, &made.trace.issues, &Styles::default(), usize::MAX).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "lost: slots were written while they were read (3 times, first at 0x20, offset 0x40)\n\
         inferred: too few events to tell the direction (at event 7)\n"
    );
}

#[test]
fn errors_are_a_line() {
    let mut out = Vec::new();
    let tried = vec!["a".to_owned(), "b\"".to_owned()];
    let error = Error::not_found(Code::NoTrace, "no trace here", "").tried(tried);
    write_error(&mut out, &error).unwrap();
    let wanted =
        json!({"type": "error", "code": "no-trace", "message": "no trace here", "tried": ["a", "b\""], "hint": null});
    assert_eq!(lines(&out), [wanted]);
}

#[test]
fn csv_and_show() {
    let made = story(Some(72e6));
    let mut out = Vec::new();
    run(Csv::new(&mut out), &made.view());
    golden("events.csv", &String::from_utf8(out).unwrap());
    let mut out = Vec::new();
    run(Show::new(&mut out, Styles::default(), Some(made.trace.newest().unwrap().ticks)), &made.view());
    golden("show.txt", &String::from_utf8(out).unwrap());
}

#[test]
fn csv_quotes_what_needs_it() {
    let mut b = Build::new(None);
    b.object(LOGGER, "thread", "a,\"b\"\n", false);
    let thread = b.context(ContextKind::Thread, LOGGER);
    b.event(0, thread, 6, [0; 4]);
    let made = b.make(Vec::new());
    let mut out = Vec::new();
    run(Csv::new(&mut out), &made.view());
    assert!(String::from_utf8(out).unwrap().contains(",\"a,\"\"b\"\"\\n\","));
}

struct Elf;

impl Resolve for Elf {
    fn object(&self, address: u64) -> Option<String> {
        (address == 0x2000_1200).then(|| "ready_semaphore".to_owned())
    }

    fn code(&self, address: u64) -> Option<String> {
        (address == 0x800).then(|| "main+0x4".to_owned())
    }
}

/// The distance of two times can be larger than what holds it: then it is not known.
#[test]
fn a_time_that_does_not_fit_was_printed_as_the_largest_that_does() {
    let made = story(None);
    let view = made.view();
    let mut event = made.trace.newest().unwrap();
    event.ticks = i64::MIN;
    let mut out = Vec::new();
    let (width, time, columns) = (120, TimeFrom::Newest(1), vec![ExtraColumn::Time]);
    let options = TableOptions { width, time, columns, ..TableOptions::default() };
    let mut sink = Table::new(&mut out, options);
    sink.begin(&view, &Window::of(made.trace.events())).unwrap();
    sink.event(&view, &event).unwrap();
    sink.finish(&view, &[]).unwrap();
    drop(sink);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().nth(1).unwrap().split_whitespace().nth(2), Some("-"), "{text}");
}

#[test]
fn names_from_elsewhere_fill_the_gaps() {
    let made = story(None);
    assert!(table_of(&made.view_with(&Elf), 120, TimeFrom::Origin, false).contains("semaphore=ready_semaphore"));
}

#[test]
fn the_registry_is_listed() {
    let made = story(None);
    let mut out = Vec::new();
    objects(format("json"), &mut out, &made.view(), &TableOptions::default(), &[], &[]).unwrap();
    let all = lines(&out);
    assert_eq!(
        all[4],
        json!({"type": "object", "address": "0x20001100", "object_type": "mutex", "name": "log lock", "deleted": true,
            "priority": null, "param1": "0x00000100", "param2": "0x00000004", "now": null})
    );
    assert_eq!(all[1]["priority"], 10);
    let mut out = Vec::new();
    objects(format("table"), &mut out, &made.view(), &TableOptions::default(), &[], &[]).unwrap();
    golden("objects.txt", &String::from_utf8(out).unwrap());
}

fn sample_report() -> Report {
    let columns = [
        Column::new("thread", Kind::Thread),
        Column::new("events", Kind::Count),
        Column::new("share", Kind::Percent(1)),
        Column::new("entry", Kind::Code),
        Column::new("is_stuck", Kind::Flag).titled("stuck"),
        Column::new("never", Kind::Count),
        Column::new("why", Kind::Text),
    ];
    Report {
        rows: [
            [
                Cell::named(0x10, Some("sensor|a".into())),
                Cell::Count(12),
                Cell::Real(99.25),
                Cell::Address(0x800),
                Cell::Flag(true),
                Cell::Empty,
                Cell::Text("waits for a queue that nobody fills, and has done so from the start of the trace".into()),
            ],
            [
                Cell::Named(0x20, None),
                Cell::Count(3),
                Cell::Empty,
                Cell::Address(0x900),
                Cell::Flag(false),
                Cell::Empty,
                Cell::Empty,
            ],
        ]
        .into_iter()
        .collect(),
        notes: vec![
            "A note that is long enough to be wrapped where a terminal of eighty columns ends its line.".into(),
        ],
        ..Report::new("sample", "A sample", columns)
    }
}

#[test]
fn reports_in_every_format() {
    let made = story(None);
    for format in Format::ALL {
        let mut out = Vec::new();
        let options = TableOptions::default();
        let mut writer = report_writer(format, &mut out, &options, Width::W4, &Elf);
        writer.begin(&made.view()).unwrap();
        writer.report(&sample_report()).unwrap();
        writer.finish(&[]).unwrap();
        drop(writer);
        let text = String::from_utf8(out).unwrap();
        assert!(format.name() != "table" || text.lines().all(|l| l.chars().count() <= 80), "{text}");
        golden(&format!("report.{}", format.name()), &text);
    }
}

#[test]
fn the_catalogue_is_a_report() {
    let made = story(None);
    let report = catalogue(&made.catalogue);
    assert_eq!(report.rows.len(), made.catalogue.iter().count());
    assert!(report.rows.iter().all(|r| r.len() == report.columns.len()));
    let mut out = Vec::new();
    let mut writer = report_writer(format("table"), &mut out, &TableOptions::default(), Width::W4, &NoNames);
    writer.report(&report).unwrap();
    writer.finish(&[]).unwrap();
    drop(writer);
    assert!(String::from_utf8(out).unwrap().lines().all(|l| l.chars().count() <= 80));
}

#[test]
fn another_system_has_no_range_of_user_events() {
    let mut b = Build::new(None);
    let thread = b.context(ContextKind::Thread, 0x10);
    b.event(0, thread, 5000, [0; 4]);
    let mut made = b.make(Vec::new());
    made.catalogue = Catalogue::new(Vec::new(), Vec::new());
    assert!(table(&made, 80).contains(" event_5000"));
}

#[test]
fn a_long_name_is_cut_and_said_to_be() {
    let made = named("a thread with a name that is far too long for any column");
    assert!(table(&made, 80).contains("  a thread ~  tx_queue_send  "), "{}", table(&made, 80));
}

fn named(name: &str) -> Made {
    let mut b = Build::new(Some(1e6));
    b.object(LOGGER, "thread", name, false);
    b.object(QUEUE, "queue", name, true);
    let thread = b.context(ContextKind::Thread, LOGGER);
    let isr = b.context(ContextKind::Isr, 0xFFFF_FFFF);
    b.event(0, thread, 69, [QUEUE, 1, 2, 3]);
    b.event(5, isr, 1, [LOGGER, 4, 0, LOGGER]).interrupted = Some(thread);
    b.make(vec![Issue::new(Code::ClockStopped, name)])
}

fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_names_no_line_obeys_them(name in any::<String>(), bytes in any::<Vec<u8>>(), width in 1usize..240) {
        for name in [name, String::from_utf8_lossy(&bytes).into_owned()] {
            let made = named(&name);
            let text = table(&made, width);
            prop_assert_eq!(text.lines().count(), 3);
            prop_assert!(text.lines().all(|l| l.chars().count() <= width), "{}", text);
            let mut all = text.into_bytes();
            run(Csv::new(&mut all), &made.view());
            run(Show::new(&mut all, Styles::default(), None), &made.view());
            run(Json::new(&mut all), &made.view());
            objects(format("table"), &mut all, &made.view(), &TableOptions::default(), &[], &[]).unwrap();
            objects(format("md"), &mut all, &made.view(), &TableOptions::default(), &[], &[]).unwrap();
            write_issues(&mut all, &made.trace.issues, &Styles::default(), usize::MAX).unwrap();
            let all = String::from_utf8(all).unwrap();
            prop_assert!(!all.contains(is_hostile), "{:?}", all);
            let lines = json(&made);
            if !name.is_empty() {
                prop_assert_eq!(lines[1]["context"]["name"].as_str(), Some(name.as_str()));
            }
        }
    }
}

#[test]
#[ignore = "a measurement, not a test"]
fn rows_a_second() {
    let mut b = Build::new(Some(72e6));
    b.object(LOGGER, "thread", "logger task", false);
    b.object(QUEUE, "queue", "samples", false);
    let thread = b.context(ContextKind::Thread, LOGGER);
    let isr = b.context(ContextKind::Isr, 0xFFFF_FFFF);
    for i in 0..500_000 {
        b.event(72, thread, 69, [QUEUE, 0x2000_5020, 0xFFFF_FFFF, i & 7]);
        b.event(72, isr, 1, [LOGGER, 5, 0x2000_4f00, LOGGER]).interrupted = Some(thread);
    }
    let made = b.make(Vec::new());
    let view = made.view();
    let measure = |name: &str, sink: &mut dyn EventSink| {
        let start = std::time::Instant::now();
        sink.begin(&view, &Window::of(view.trace.events())).unwrap();
        for event in view.trace.events() {
            sink.event(&view, &event).unwrap();
        }
        sink.finish(&view, &[]).unwrap();
        println!("{name}: {:.2} million rows a second", 1.0 / start.elapsed().as_secs_f64());
    };
    measure("table 80", &mut Table::new(std::io::sink(), TableOptions::default()));
    measure("table 200", &mut Table::new(std::io::sink(), TableOptions { width: 200, ..TableOptions::default() }));
    measure("json", &mut Json::new(std::io::sink()));
    measure("csv", &mut Csv::new(std::io::sink()));
    let mut filters = tx_trace::query::Filters::default();
    filters.add(tx_trace::query::Key::Class, "queue").unwrap();
    filters.add(tx_trace::query::Key::Arg, "wait=forever").unwrap();
    filters.add(tx_trace::query::Key::Object, "samples").unwrap();
    let query = tx_trace::query::Query::compile(&filters, &made.trace, &made.catalogue).unwrap();
    let start = std::time::Instant::now();
    let n = made.trace.events().filter(|e| query.keeps(e)).count();
    println!("query: {:.2} million events a second ({n} kept)", 1.0 / start.elapsed().as_secs_f64());
}
