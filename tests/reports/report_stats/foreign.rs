//! A catalogue that is not that of ThreadX.

use super::*;
use tx_trace::catalogue::Ways;

const LARGER_IS_URGENT: Ways = Ways { larger_is_urgent: true, quiet_locks: false, idle_is_thread: false };

/// A system whose events have other names, ids and words: all that reports may ask is what they do.
#[test]
fn a_catalogue_that_is_nobodys() {
    let def = |id, name: &str, fields: &[(&str, ArgKind)], effects| EventDef {
        fields: fields.iter().map(|(n, k)| Some(FieldDef::new(n, *k, None))).collect(),
        effects: Effects::parse(effects).unwrap(),
        ..EventDef::new(id, name.to_owned(), Product::Kernel, "k".to_owned())
    };
    let task = ("task", ArgKind::ThreadPtr);
    let catalogue = Catalogue::new(
        vec![
            def(70, "go", &[("why", ArgKind::Dec), task], "run:2"),
            def(71, "wake", &[task], "ready:1"),
            def(72, "wait", &[task, ("sp", ArgKind::StackPtr)], "block:1"),
            def(73, "irq", &[("gate", ArgKind::Ptr)], "isr_enter:1"),
            def(74, "iret", &[("gate", ArgKind::Ptr)], "isr_exit:1"),
            def(75, "turn", &[task], "slice run:1"),
        ],
        Vec::new(),
    );
    assert!(catalogue.iter().any(|d| d.effects.has(Effect::Run)));
    let gate = 0x2000_7700;
    let by = |id, e: Entry, info| Entry { id, info, ..e };
    let e = [
        by(70, at(BETA, 100), [0, BETA, 0, 0]),
        by(73, in_isr(BETA, 200), [gate, 0, 0, 0]),
        by(71, in_isr(BETA, 210), [ALPHA, 0, 0, 0]),
        by(70, in_isr(BETA, 220), [0, ALPHA, 0, 0]),
        by(74, in_isr(BETA, 230), [gate, 0, 0, 0]),
        by(72, at(ALPHA, 300), [ALPHA, ALPHA + 0x1_0200, 0, 0]),
        // It says itself to whom it gives the core it waits without: that is no preemption of it.
        by(70, at(ALPHA, 310), [0, BETA, 0, 0]),
        by(70, at(BETA, 400), [0, BETA, 0, 0]),
    ];
    let b = Buffer { objects: people(), ..Buffer::new(BASE) }.record(16, &e);
    let trace = decode(&b, &catalogue, 1);
    let r = all_reports(&trace, &catalogue, &Filters::default());
    // Three: the first event says that beta is given the core.
    assert_eq!((count(&r, "context_switches"), count(&r, "preemptions"), count(&r, "yields")), (3, 1, 0));
    assert_eq!(rows(&r, "stats_threads"), ["beta 2 1 0 0 0 0 0", "alpha 1 0 0 0 1 0 1"]);
    assert_eq!(rows(&r, "stats_wakeups"), ["alpha resumed isr 0x20007700 1"]);
    assert_eq!(rows(&r, "stats_interrupts"), ["0x20007700 true 1 1 30 30 4"]);
    assert_eq!(rows(&r, "services")[0], "go 4 50.00");
    assert_eq!(rows(&r, "stack")[0], "alpha 1024 512 50.00 5 1 ");
    // The same where a larger number is more urgent: who took the core is less so.
    let other = catalogue.with_ways(LARGER_IS_URGENT);
    let r = all_reports(&trace, &other, &Filters::default());
    assert_eq!((count(&r, "preemptions"), count(&r, "yields")), (0, 1));
    // A system of which no event says that a time slice is over: a yield and a time slice look alike.
    let known: Vec<EventDef> = other.iter().filter(|d| d.name != "turn").cloned().collect();
    let silent = Catalogue::new(known, Vec::new()).with_ways(LARGER_IS_URGENT);
    let r = all_reports(&trace, &silent, &Filters::default());
    let counters = counters(&r, "stats");
    for name in ["yields", "time_slices", "time_slice_events"] {
        assert_eq!(counters[name], "", "{name}");
    }
    let said = get(&r, "stats").notes.join("\n");
    assert!(said.contains("time slices, yields: not recorded; 1 switches were one or the other"), "{said}");
}
