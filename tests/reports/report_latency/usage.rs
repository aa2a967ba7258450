//! `objects --use`: queues, locks, semaphores and pools by what is done to them.

use super::*;

#[test]
fn objects_are_counted_by_what_is_done_to_them() {
    let mut queue = Registered::new(3, QUEUE, "line");
    queue.params = [32, 2];
    let mut pool = Registered::new(7, POOL, "blocks");
    pool.params = [96, 10];
    let t = record(
        &[
            queue,
            pool,
            Registered::new(5, MUTEX, "bus"),
            // What was a thread once is a semaphore now.
            thread(SEMAPHORE, "gone", 3),
        ],
        &[
            alpha(69, 1000, [QUEUE, 0, 0, 2]),
            alpha(63, 1010, [QUEUE, 0, 0, 3]),
            alpha(52, 1020, [MUTEX, 0, 0, 0]),
            beta(52, 1100, [MUTEX, 0xFFFF_FFFF, ALPHA, 1]),
            beta(2, 1110, [BETA, 13, 0, ALPHA]),
            alpha(57, 1200, [MUTEX, ALPHA, 1, 0]),
            alpha(1, 1210, [BETA, 13, 0, ALPHA]),
            alpha(10, 1300, [POOL, 0x2000_9000, 0, 4]),
            alpha(10, 1310, [POOL, 0x2000_9010, 0, 3]),
            alpha(17, 1320, [POOL, 0x2000_9010, 0, 0]),
            alpha(83, 1400, [SEMAPHORE, 0xFFFF_FFFF, 0, 0]),
            alpha(2, 1410, [ALPHA, 6, 0, BETA]),
            beta(68, 1500, [QUEUE, 0, 0, 4]),
            Entry::isr(BETA, 88, 1600, [SEMAPHORE, 7, 0, 0]),
            beta(5000, 1700, [0; 4]),
        ],
    );
    let report = usage(&t, &Catalogue::threadx(Names::Duo));
    assert_eq!(report.name, "use");
    assert_eq!(
        lines(&report),
        [
            // alpha waits to the end, 1410 to 1700; an interrupt is no thread.
            format!("{SEMAPHORE:#x} semaphore 1 1 1 290 1 7 - 1 -"),
            // 96 bytes are six blocks of ten, each with its pointer: 10 becomes 12.
            "blocks block_pool 1 2 0 0 0 3 6 1 -".to_owned(),
            "bus mutex 1 2 1 100 0 - - 2 1".to_owned(),
            // 32 bytes are four messages of two words.
            "line queue 2 1 0 0 0 4 4 2 -".to_owned(),
        ]
    );
}

#[test]
fn nothing_used_is_said() {
    let t = record(&[], &[alpha(5000, 1000, [0; 4])]);
    let report = usage(&t, &Catalogue::threadx(Names::Duo));
    assert!(report.rows.is_empty() && noted(&report, "no event puts anything"));
}

#[test]
fn a_window_is_said_to_be_one() {
    let list: Vec<Entry> = (0..10).map(|i| alpha(69, 1000 + i * 100, [QUEUE, 0, 0, i])).collect();
    let t = record(&[], &list);
    let catalogue = Catalogue::threadx(Names::Duo);
    let mut filters = Filters::default();
    filters.add(Key::Arg, "enqueued<4").unwrap();
    let query = Query::compile(&filters, &t, &catalogue).unwrap();
    let wish = ReportRequest {
        names: vec![Name::Latency, Name::Use],
        every: vec!["tx_queue_send".to_owned()],
        ..ReportRequest::default()
    };
    let all = reports(&t, &catalogue, &query, &wish).unwrap();
    assert!(all.iter().all(|r| noted(r, "filters keep 4 of 10 events")));
    assert_eq!(lines(&all[2]), ["tx_queue_send 3 100 100 100 100 1 0"]);
    assert_eq!(lines(&all[3]), [format!("{QUEUE:#x} queue 4 0 0 0 0 3 - 1 -")]);
}
