//! A system that is not ThreadX.

use super::*;
use tx_trace::catalogue::Ways;

const LARGER_IS_URGENT: Ways = Ways { larger_is_urgent: true, quiet_locks: false, idle_is_thread: false };

/// A system with locks, whose words and states are its own.
fn foreign() -> Catalogue {
    let field = |name: &str, kind| Some(FieldDef::new(name, kind, None));
    let def = |id, name: &str, fields: Vec<Option<FieldDef>>, effects: &str| EventDef {
        fields,
        effects: Effects::parse(effects).unwrap(),
        ..EventDef::new(id, name.to_owned(), Product::Kernel, "kernel".to_owned())
    };
    Catalogue::new(
        vec![
            def(
                9001,
                "park",
                vec![field("who", ArgKind::ThreadPtr), field("then", ArgKind::ThreadPtr)],
                "block:1 run:2",
            ),
            def(
                9002,
                "unpark",
                vec![field("who", ArgKind::ThreadPtr), field("then", ArgKind::ThreadPtr)],
                "ready:1 run:2",
            ),
            def(9003, "lock", vec![field("latch", ArgKind::Ptr)], "acquire:1"),
            def(9004, "unlock", vec![field("latch", ArgKind::Ptr)], "release:1"),
        ],
        Vec::new(),
    )
}

#[test]
fn a_system_that_is_not_threadx() {
    let list = [
        Entry::thread(LOW, 20, 9003, 100, [M1, 0, 0, 0]),
        Entry::thread(LOW, 20, 9002, 200, [HIGH, HIGH, 0, 0]),
        Entry::thread(HIGH, 4, 9003, 300, [M1, 0, 0, 0]),
        Entry::thread(HIGH, 4, 9001, 310, [HIGH, MID, 0, 0]),
        Entry::thread(MID, 10, 9001, 900, [MID, LOW, 0, 0]),
        Entry::thread(LOW, 20, 9004, 1000, [M1, 0, 0, 0]),
        Entry::thread(LOW, 20, 9002, 1010, [HIGH, HIGH, 0, 0]),
        Entry::thread(HIGH, 4, 9001, 1100, [HIGH, LOW, 0, 0]),
        Entry::thread(LOW, 20, 9003, 1200, [M2, 0, 0, 0]),
    ];
    let buffer = Buffer { objects: registry(), ..Buffer::new(BASE) }.record(16, &list);
    let mut memory = Segments::new(vec![Block::whole(buffer.base, buffer.bytes().into())]);
    let capture = capture_of(&mut memory, &buffer, &[], Extent::All);
    let catalogue = foreign();
    let made = (capture.decode(&catalogue, &DecodeOptions::default()).unwrap(), catalogue);
    let r = report_with(&made, Name::Inversions, &Filters::default());
    assert_eq!(r.rows.len(), 1, "{r:?}");
    assert_eq!(row(&r, 0, WHAT), "high low m1 released 690 3 5 false");
    assert_eq!(row(&r, 0, SHARES), "100 590 0 0");
    // Where a larger number is more urgent, the owner of 20 is more so than the waiter of 4: nothing is inverted.
    let (trace, catalogue) = made;
    let other = (trace, catalogue.with_ways(LARGER_IS_URGENT));
    let r = report_with(&other, Name::Inversions, &Filters::default());
    assert_eq!(r.rows.len(), 0, "{r:?}");
    assert!(notes(&r).contains("no inversion is seen in 1 wait for a lock"), "{}", notes(&r));
    let made = other;
    let r = report_with(&made, Name::Blocked, &Filters::default());
    let all: Vec<String> = (0..r.rows.len()).map(|i| row(&r, i, "thread object open count total call")).collect();
    assert_eq!(
        all,
        ["mid park 300 0 - -", "high park 100 0 - -", "high m1 - 1 700 lock"],
        "nothing but the last call tells why"
    );
}

/// UIA's events tell no lock and no limit of a wait: that is said, and not shown as zero.
#[cfg(feature = "cli")]
#[test]
fn what_uia_cannot_tell_is_said() {
    use support::golden::stdout;
    let source = "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000";
    let said = stdout(&format!("inversions --width 200 {source}"));
    assert!(said.contains("inversions: not recorded"), "{said}");
    let said = stdout(&format!("blocked --width 200 {source}"));
    assert!(said.contains("timeouts: not recorded"), "{said}");
    let row: Vec<&str> = said.lines().nth(2).unwrap().split_whitespace().collect();
    // Two waits of 4092 ticks for the semaphore that the interrupt posts, as the builder's program makes them.
    assert_eq!(
        row,
        ["&controlTask", "&tankFull", "Semaphore.LM_pend", "2", "8184", "isr", "&levelHwi", "4092", "7", "4092", "2"]
    );
}
