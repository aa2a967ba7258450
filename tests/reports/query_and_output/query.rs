use tx_trace::error::Error;
use tx_trace::error::ErrorKind;
use tx_trace::query::{Filters, Key, Position, Query};

use super::fixture::{Made, story};

fn pick(made: &Made, options: &[(Key, &str)]) -> Result<Vec<u64>, Error> {
    let mut filters = Filters::default();
    for (key, text) in options {
        filters.add(*key, text)?;
    }
    picked(made, &filters)
}

fn picked(made: &Made, filters: &Filters) -> Result<Vec<u64>, Error> {
    let query = Query::compile(filters, &made.trace, &made.catalogue)?;
    Ok(made.trace.events().filter(|e| query.keeps(e)).map(|e| e.seq).collect())
}

fn one(key: Key, text: &str) -> Vec<u64> {
    pick(&story(Some(72e6)), &[(key, text)]).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn fails(key: Key, text: &str) -> Error {
    pick(&story(None), &[(key, text)]).expect_err(text)
}

#[test]
fn no_filter_keeps_everything() {
    assert_eq!(pick(&story(None), &[]).unwrap().len(), 16);
    assert!(Filters::default().is_empty());
}

#[test]
fn threads_by_name_pattern_and_address() {
    assert_eq!(one(Key::Thread, "sensor"), [4, 5, 6, 10, 11]);
    assert_eq!(one(Key::Thread, "logger task"), [2, 3]);
    assert_eq!(one(Key::Thread, "logger*,sen?or"), [2, 3, 4, 5, 6, 10, 11]);
    assert_eq!(one(Key::Thread, "0x20000300"), [13, 14, 15]);
    assert_eq!(one(Key::Thread, "*"), [2, 3, 4, 5, 6, 10, 11], "a pattern means threads with a name");
    assert_eq!(one(Key::Thread, "!sensor"), [0, 1, 2, 3, 7, 8, 9, 12, 13, 14, 15]);
    assert_eq!(one(Key::Thread, "ISR"), [7, 8, 9, 12], "what stands in the table can be typed");
}

#[test]
fn events_by_every_name_they_have() {
    assert_eq!(one(Key::Event, "tx_queue_send"), [5]);
    assert_eq!(one(Key::Event, "TX_TRACE_QUEUE_SEND"), [5]);
    assert_eq!(one(Key::Event, "tx_queue_*"), [2, 5]);
    assert_eq!(one(Key::Event, "internal_thread_suspend,69"), [3, 5, 11]);
    assert_eq!(one(Key::Event, "Internal Thread Suspend"), [3, 11]);
    assert_eq!(one(Key::Event, "60-70"), [2, 5]);
    assert_eq!(one(Key::Event, "60..70"), [2, 5]);
    assert_eq!(one(Key::Event, "!1-4096"), [13]);
    assert_eq!(one(Key::Event, "user_4097"), [13]);
    assert_eq!(one(Key::Event, "event_3000"), [14]);
    assert_eq!(one(Key::Event, "user_*"), [13]);
    assert_eq!(one(Key::Event, "isr_*,!isr_exit"), [7, 12]);
}

#[test]
fn classes_long_short_and_by_product() {
    assert_eq!(one(Key::Class, "TX_TRACE_QUEUE_EVENTS"), [2, 5]);
    assert_eq!(one(Key::Class, "queue"), [2, 5]);
    assert_eq!(one(Key::Class, "tx_queue"), [2, 5]);
    assert_eq!(one(Key::Class, "nx"), [15]);
    assert_eq!(one(Key::Class, "user"), [13]);
    assert_eq!(one(Key::Class, "tx,!internal"), [1, 2, 4, 5, 8, 10]);
}

#[test]
fn objects_that_an_argument_points_to() {
    assert_eq!(one(Key::Object, "samples"), [2, 5, 13]);
    assert_eq!(one(Key::Object, "0x20001000"), [2, 5, 13]);
    assert_eq!(one(Key::Object, "log*"), [3, 4, 6], "a thread and a mutex");
    assert_eq!(one(Key::Object, "0x20005020"), [5], "an address that was typed is met in any address");
    assert_eq!(one(Key::Object, "0x20001200"), [8], "no object of that address is known, but an argument is it");
    assert_eq!(one(Key::Object, "!samples").len(), 13);
}

#[test]
fn contexts_and_cores() {
    assert_eq!(one(Key::Context, "isr"), [7, 8, 9, 12]);
    assert_eq!(one(Key::Context, "init,isr"), [0, 1, 7, 8, 9, 12]);
    assert_eq!(one(Key::Core, "0").len(), 16);
    assert_eq!(one(Key::Core, "1"), [] as [u64; 0]);
}

#[test]
fn arguments_by_field_label_number_and_word() {
    assert_eq!(one(Key::Arg, "wait=forever"), [2]);
    assert_eq!(one(Key::Arg, "wait_option=0xFFFFFFFF"), [2]);
    assert_eq!(one(Key::Arg, "wait!=forever"), [4, 5, 15], "an event without the field is not met");
    assert_eq!(one(Key::Arg, "!wait=forever").len(), 15, "but stays when the rest is excluded");
    assert_eq!(one(Key::Arg, "wait<100"), [4, 5]);
    assert_eq!(one(Key::Arg, "wait>=50,new_state=sleep"), [2, 5, 11, 15]);
    assert_eq!(one(Key::Arg, "new_state=queue_susp"), [3]);
    assert_eq!(one(Key::Arg, "queue=samples"), [2, 5]);
    assert_eq!(one(Key::Arg, "next=idle"), [11]);
    assert_eq!(one(Key::Arg, "i1=0x2a"), [13]);
    assert_eq!(one(Key::Arg, "i2=samples"), [13]);
    assert_eq!(one(Key::Arg, "i4=0x4021"), [15]);
}

#[test]
fn different_filters_are_and() {
    let made = story(None);
    assert_eq!(pick(&made, &[(Key::Thread, "sensor"), (Key::Class, "queue")]).unwrap(), [5]);
    assert_eq!(pick(&made, &[(Key::Event, "tx_queue_send"), (Key::Event, "tx_queue_receive")]).unwrap(), [2, 5]);
}

#[test]
fn mistakes_and_answers_are_two_things() {
    for (key, text) in [
        (Key::Event, "tx_queue_sned"),
        (Key::Event, "zz*"),
        (Key::Event, "99999999999"),
        (Key::Class, "quue"),
        (Key::Context, "irq"),
        (Key::Core, "x"),
        (Key::Arg, "wait"),
        (Key::Arg, "=3"),
        (Key::Arg, "wiat=3"),
        (Key::Arg, "wait=forevre"),
        (Key::Thread, "sensor,"),
    ] {
        assert_eq!(fails(key, text).kind, ErrorKind::Failed, "{text}");
    }
    for (key, text) in
        [(Key::Thread, "sensr"), (Key::Thread, "0x20009999"), (Key::Object, "sampels"), (Key::Arg, "queue=sampels")]
    {
        assert_eq!(fails(key, text).kind, ErrorKind::NotFound, "{text}");
    }
    assert_eq!(fails(Key::Event, "tx_queue_sned").hint, "did you mean tx_queue_send?");
    assert!(fails(Key::Thread, "x").hint.contains("sensor, logger task, 0x20000300"));
}

#[test]
fn a_term_that_meets_nothing_beside_others_is_a_note() {
    let made = story(None);
    let mut filters = Filters::default();
    filters.add(Key::Thread, "sensor,nobody").unwrap();
    let query = Query::compile(&filters, &made.trace, &made.catalogue).unwrap();
    assert_eq!(query.notes(), ["no thread 'nobody' in this trace"]);
}

#[test]
fn ranges_hold_both_ends() {
    let made = story(Some(72e6));
    let range = |from: &str, to: &str| {
        let at = |t: &str| (!t.is_empty()).then(|| Position::parse(t).unwrap());
        picked(&made, &Filters { from: at(from), to: at(to), ..Filters::default() }).unwrap()
    };
    assert_eq!(range("3", "5"), [3, 4, 5]);
    assert_eq!(range("-2", ""), [14, 15]);
    assert_eq!(range("", "792t"), [0, 1, 2, 3]);
    assert_eq!(range("10us", "11us"), [2, 3]);
    assert_eq!(range("-603t", ""), [13, 14, 15]);
    assert_eq!(range("-5us", ""), [14, 15]);
    assert_eq!(range("-100", "0"), [0], "more than there is begins at the oldest");
    let mut filters = Filters { reach: Some(1), ..Filters::default() };
    filters.add_around("3,-1").unwrap();
    assert_eq!(picked(&made, &filters).unwrap(), [2, 3, 4, 14, 15]);
}

#[test]
fn time_needs_a_rate() {
    let filters = Filters { from: Some(Position::parse("1ms").unwrap()), ..Filters::default() };
    let error = picked(&story(None), &filters).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(error.hint.contains("--hz"));
}

#[test]
fn commas_and_marks_can_belong_to_a_name() {
    let mut filters = Filters::default();
    filters.add(Key::Object, r"a\,b,\!c,!d").unwrap();
    let shown: Vec<(bool, &str)> = filters.objects.iter().map(|t| (t.exclude, t.text.as_str())).collect();
    assert_eq!(shown, [(false, "a,b"), (false, "!c"), (true, "d")]);
}
