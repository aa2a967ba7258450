//! `blocked`.

use super::*;

#[test]
fn waits_are_added_up_by_thread_and_object() {
    let receive = |at, wait| Entry::thread(HIGH, 4, 68, at, [QUEUE, 0, wait, 0]);
    let send = |at| Entry::thread(LOW, 20, 69, at, [QUEUE, 0, FOREVER, 0]);
    let list = [
        receive(100, FOREVER),
        suspend(H, 110, 5, LOW),
        send(200),
        resume(L, 210, HIGH, 5, HIGH),
        receive(300, FOREVER),
        suspend(H, 310, 5, LOW),
        send(1000),
        resume(L, 1010, HIGH, 5, HIGH),
        receive(1100, 3),
        suspend(H, 1110, 5, 0),
        Entry::isr(0, 3, 1400, [0, 15, 0, 0]),
        Entry::isr(0, 1, 1410, [HIGH, 5, 0, HIGH]),
        Entry::isr(0, 4, 1420, [0, 15, 0, 0]),
        Entry::thread(HIGH, 4, 112, 1500, [2, 0, 0, 0]),
        suspend(H, 1510, 4, LOW),
        works(L, 2010),
    ];
    let r = blocked(&list);
    assert_eq!(r.rows.len(), 2, "{r:?}");
    assert_eq!(row(&r, 0, "thread object open since count call"), "high sleep 500 14 0 tx_thread_sleep");
    assert_eq!(
        row(&r, 1, "thread object open count total min max max_seq woken_by woken timeouts call"),
        "high queue - 3 1100 100 700 5 low 2 1 tx_queue_receive"
    );
    // A put in the interrupt is no timeout.
    let mut list = list.to_vec();
    list.insert(11, Entry::isr(0, 69, 1405, [QUEUE, 0, 0, 0]));
    assert_eq!(row(&blocked(&list), 1, "object timeouts"), "queue 0");
}

#[test]
fn what_a_thread_called_before_a_mark_is_not_why_it_waits() {
    // The timer thread's function sends without waiting; then the thread waits for its next turn.
    let list = [
        Entry::thread(TIMER, 0, 69, 100, [QUEUE, 0, 0, 0]),
        suspend(T, 110, 3, LOW),
        Entry::isr(LOW, 1, 210, [TIMER, 3, 0, TIMER]),
        Entry::thread(TIMER, 0, 68, 300, [QUEUE, 0, FOREVER, 0]),
        works(T, 310),
        suspend(T, 320, 3, LOW),
        works(L, 400),
    ];
    let r = blocked(&list);
    assert_eq!(r.rows.len(), 1, "{r:?}");
    assert_eq!(row(&r, 0, "object open count total call woken_by"), "suspended 80 1 100 - isr");
}

#[test]
fn filters_choose_waits_by_the_events_that_begin_and_end_them() {
    let mut list = start();
    list.extend([
        put(L, 610, M1),
        resume(L, 620, HIGH, MUTEX_SUSP, HIGH),
        works(H, 700),
        suspend(H, 800, 4, LOW),
        works(L, 900),
    ]);
    let made = trace_of(&list);
    let with = |key, text: &str, name| {
        let mut filters = Filters::default();
        filters.add(key, text).unwrap();
        report_with(&made, name, &filters)
    };
    assert_eq!(with(Key::Thread, "high", Name::Inversions).rows.len(), 1);
    assert_eq!(with(Key::Object, "m1", Name::Inversions).rows.len(), 1);
    assert_eq!(with(Key::Object, "m2", Name::Inversions).rows.len(), 0);
    assert_eq!(row(&with(Key::Thread, "high", Name::Inversions), 0, "ended ticks"), "released 300");
    assert_eq!(with(Key::Thread, "high", Name::Blocked).rows.len(), 2);
    let r = with(Key::Object, "m1", Name::Blocked);
    assert_eq!((r.rows.len(), row(&r, 0, "object count total")), (1, "m1 1 310".to_owned()));
    assert!(notes(&r).contains("filters keep 3 of"), "{}", notes(&r));
    let filters = Filters { to: Some(Position::Seq(6)), ..Filters::default() };
    let r = report_with(&made, Name::Blocked, &filters);
    assert_eq!(row(&r, 0, "object open count"), "m1 300 0", "a window ends where it ends");
}
