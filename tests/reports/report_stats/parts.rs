//! `services`, `stack`, and the counters of FileX and NetX.

use super::*;

// ---- Services ----

#[test]
fn services_by_count_then_name() {
    let send = |e: Entry| Entry { id: 69, ..e };
    let sleep = |e: Entry| Entry { id: 112, ..e };
    let e = [
        sleep(at(BETA, 1)),
        send(at(BETA, 2)),
        send(at(ALPHA, 3)),
        sleep(at(BETA, 4)),
        at(ALPHA, 5),
        in_isr(ALPHA, 6),
        at(0x2000_9000, 7),
        Entry { id: 4000, ..at(ALPHA, 8) },
    ];
    let r = of(&e);
    assert_eq!(
        rows(&r, "services"),
        ["user_5000 3 37.50", "tx_queue_send 2 25.00", "tx_thread_sleep 2 25.00", "event_4000 1 12.50"]
    );
    assert_eq!(
        rows(&r, "services_threads"),
        [
            "alpha event_4000 1 33.33",
            "alpha tx_queue_send 1 33.33",
            "alpha user_5000 1 33.33",
            "beta tx_thread_sleep 2 66.67",
            "beta tx_queue_send 1 33.33",
            "0x20009000 user_5000 1 100.00",
            "isr user_5000 1 100.00",
        ]
    );
}

// ---- Stacks ----

#[test]
fn stacks() {
    let sleep = |thread, sp, stamp| Entry { id: 112, info: [1, 0, sp, 0], ..at(thread, stamp) };
    let stack = |thread: u64, free: u64| thread + 0x1_0000 + free;
    let gone = 0x2000_5000;
    let mut objects = people();
    objects.push(thread(0x2000_6000, "silent", 3));
    objects.push(Registered::new(3, gone, "a queue at the address of a thread"));
    let e = [
        sleep(ALPHA, stack(ALPHA, 0x300), 1),
        sleep(ALPHA, stack(ALPHA, 0x80), 2),
        sleep(ALPHA, stack(ALPHA, 0x80), 3),
        sleep(ALPHA, stack(ALPHA, 0x400), 4),
        // A pointer of the interrupt's own stack says nothing of the thread's.
        Entry::isr(ALPHA, 3, 5, [stack(ALPHA, 4), 15, 0, 0]),
        exit(ALPHA, 15, 6),
        sleep(BETA, 0x7FFF_0000, 7),
        sleep(BETA, stack(BETA, 0x401), 8),
        sleep(TIMER, stack(TIMER, 0x100), 9),
        sleep(TIMER, stack(TIMER, 0) - 4, 10),
        sleep(gone, 0x2001_5000, 11),
    ];
    let r = of_cores(1, objects, &e);
    assert_eq!(
        rows(&r, "stack"),
        [
            "alpha 1024 128 87.50 1 4 ",
            "timer 1024 256 75.00 8 2 1 outside of the stack, first at 9",
            "beta 1024    2 not measurable here",
            "0x20005000      no stack is registered",
            "silent 1024    0 ",
        ]
    );
}

// ---- FileX and NetX ----

#[test]
fn components_count() {
    let by = |id, info, stamp| Entry { id, info, ..at(ALPHA, stamp) };
    let e = [
        by(261, [1, 2, 3, 4], 1),
        by(247, [1, 2, 3, 4], 2),
        by(248, [2, 0, 512, 100], 3),
        by(206, [1, 7, 3, 0], 4),
        by(206, [1, 9, 5, 0], 5),
        by(386, [1, 2, 0, 0], 6),
        by(386, [1, 2, 0, 4], 7),
        by(394, [2, 0xAAAA_AAAA, 5, 0], 8),
        by(394, [2, 0xBBBB_BBBB, 5, 0], 9),
        by(309, [1, 2, 3, 60], 10),
        by(421, [1, 2, 33, 0], 11),
        by(5000, [0; 4], 12),
    ];
    let r = of(&e);
    let want = |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let filex: BTreeMap<String, String> =
        want(&[("media_opens", "1"), ("file_opens", "1"), ("file_bytes_read", "100"), ("sectors_read", "8")]);
    assert_eq!(counters(&r, "filex"), filex);
    let netx: BTreeMap<String, String> = want(&[
        ("packet_allocations", "2"),
        ("packet_allocations_empty", "1"),
        ("packet_releases", "2"),
        ("packet_releases_invalid", "1"),
        ("ip_packets_sent", "1"),
        ("ip_bytes_sent", "60"),
        ("tcp_packets_sent", "1"),
        ("tcp_bytes_sent", "33"),
    ]);
    assert_eq!(counters(&r, "netx"), netx);
    assert_eq!((get(&r, "filex").rows.len(), get(&r, "netx").rows.len()), (14, 24));
    assert!(of(&e[11..]).iter().all(|r| r.name != "filex" && r.name != "netx"), "only where such events are there");
}
