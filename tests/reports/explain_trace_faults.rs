//! `explain` over faults, and interrupts that do not end, that only a trace shows, from traces made by hand.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{BEAT, FOREVER, LINES, PRINT, QUEUE_RECEIVE, RESUME, SLEEPS, Story, TIMERS, first};
use super::support::builder::Entry;

// The kernel's numbers of events.
const ISR_ENTER: u64 = 3;
const ISR_EXIT: u64 = 4;
/// Of the application.
const CRASH: u64 = 4200;

const SP: u64 = 0x2003_FFA4;

fn enter(story: &mut Story, interrupted: u64, number: u64) {
    story.at += 100;
    story.events.push(Entry::isr(interrupted, ISR_ENTER, story.at, [SP, number, number, 0]));
}

fn exit(story: &mut Story, interrupted: u64, number: u64) {
    story.at += 100;
    story.events.push(Entry::isr(interrupted, ISR_EXIT, story.at, [SP, number, number, 0]));
}

/// An interrupt of the chip comes a few times; then one of another number comes over Print.
fn story(chip: u64, last: u64) -> Story {
    let mut story = Story::default();
    for _ in 0..6 {
        story.goes_on(1);
        enter(&mut story, 0, chip);
        exit(&mut story, 0, chip);
    }
    story.wakes(PRINT, SLEEPS);
    story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
    enter(&mut story, PRINT, last);
    story
}

fn keeps(story: &mut Story, words: [u64; 4]) {
    story.at += 100;
    story.events.push(Entry::isr(PRINT, CRASH, story.at, words));
}

fn is_fault(finding: &Value) -> bool {
    ["usage-fault", "bus-fault", "mem-fault", "fault"].iter().any(|code| finding["code"] == *code)
}

/// "Nothing wrong found": the newest events were the beginning of the handler of UsageFault and what it kept.
#[test]
fn a_fault_that_only_the_trace_shows_was_not_seen() {
    let mut divided = story(24, 6);
    keeps(&mut divided, [0x226, 0x200_0000, 0x20F, 0x2000_9278]);
    let (code, confidence, claim) = first(&divided.findings("trace-fault-divide"));
    assert_eq!((code.as_str(), confidence.as_str()), ("usage-fault", "likely"), "{claim}");
    assert!(claim.starts_with("UsageFault, in Print: a division by zero (DIVBYZERO)"), "{claim}");
    let mut forced = story(24, 3);
    keeps(&mut forced, [0x226, 0x8200, 0x4000_0000, 0x2000_9278]);
    let (code, _, claim) = first(&forced.findings("trace-fault-hard"));
    assert_eq!(code, "bus-fault", "{claim}");
    assert!(claim.starts_with("HardFault, in Print: a bus error at a data access (PRECISERR)"), "{claim}");
    // Without its registers it may be another interrupt.
    let (code, confidence, claim) = first(&story(24, 5).findings("trace-fault-alone"));
    assert_eq!((code.as_str(), confidence.as_str()), ("bus-fault", "hint"), "{claim}");
}

/// A program may count from the first interrupt of the chip, and a trace may end in any handler.
#[test]
fn an_interrupt_of_a_small_number_is_no_fault() {
    let other_small = story(2, 6);
    let mut ends = story(24, 6);
    exit(&mut ends, PRINT, 6);
    let mut goes_on = story(24, 6);
    goes_on.goes_on(1);
    let none = [
        other_small.findings("trace-fault-chip"),
        ends.findings("trace-fault-ends"),
        goes_on.findings("trace-fault-goes-on"),
        story(24, 16).findings("trace-fault-none"),
    ];
    for findings in none {
        assert!(!findings.iter().any(is_fault), "{findings:?}");
    }
    let mut late = story(24, 6);
    late.by(BEAT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
    assert!(!late.findings("trace-fault-late").iter().any(is_fault));
}

fn claims(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["claim"].as_str().unwrap()).collect()
}

/// An interrupt of this number comes often, and the trace ends in it.
fn ends_in(number: u64) -> Story {
    let mut story = Story::default();
    for _ in 0..20 {
        story.goes_on(6);
        enter(&mut story, 0, number);
        exit(&mut story, 0, number);
    }
    enter(&mut story, 0, number);
    story
}

/// "Nothing wrong found": the handler of an interrupt called through a null pointer, and the trace ended in it.
#[test]
fn a_trace_that_ends_in_an_interrupt_was_healthy() {
    let all = ends_in(40).findings("ends-in-interrupt");
    let first = all.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"isr-never-ends".into(), &"hint".into()), "{first}");
    assert!(first["claim"].as_str().unwrap().starts_with("the trace ends in interrupt 40, whose handler"), "{first}");
    let mut ended = ends_in(40);
    exit(&mut ended, 0, 40);
    assert_eq!(ended.findings("ended-interrupt"), [] as [Value; 0]);
}

/// "exception 25 (IRQ 9, timer1_isr)": the program gives interrupts the numbers of the chip, and 25 was another one.
#[test]
fn a_number_of_the_chip_was_taken_for_that_of_an_exception() {
    let of = |number, name| claims(&ends_in(number).findings_with("fault.elf", name)).join("; ");
    // The only interrupts with handlers of their own are 5 and 6 of the chip.
    assert!(of(5, "counts-chip").contains("exception 21 (IRQ 5, UART_Handler)"));
    assert!(of(21, "counts-exceptions").contains("exception 21 (IRQ 5, UART_Handler)"));
    let unknown = of(9, "counts-unknown");
    assert!(unknown.contains("the trace ends in interrupt 9,"), "{unknown}");
}

/// "Nothing wrong found": an interrupt came back at once for a quarter of a second, until the program's own watchdog stopped it.
#[test]
fn a_thread_for_timers_that_an_interrupt_keeps_back_was_healthy() {
    // What the kernel will run next, as the tick sees it, and how often the interrupt comes for each tick.
    let found = |name: &str, next: u64, times: u64| {
        let mut story = Story::default();
        for _ in 0..6 {
            story.goes_on(2);
            enter(&mut story, 0, 40);
            exit(&mut story, 0, 40);
        }
        story.wakes(PRINT, SLEEPS);
        story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
        for tick in 0..20 {
            story.at += 5000;
            let was = if tick == 0 { 3 } else { 0 };
            story.events.push(Entry::isr(PRINT, RESUME, story.at, [TIMERS, was, 0, next]));
            for _ in 0..times {
                enter(&mut story, PRINT, 40);
                exit(&mut story, PRINT, 40);
            }
        }
        story.findings(name)
    };
    let storm = first(&found("kept-by-storm", TIMERS, 4));
    assert_eq!((&*storm.0, &*storm.1), ("isr-storm", "likely"), "{storm:?}");
    assert!(storm.2.starts_with("interrupt 40 comes again and again: System Timer Thread has been ready for "));
    let unknown = first(&found("kept-by-unknown", TIMERS, 0));
    assert_eq!((&*unknown.0, &*unknown.1), ("isr-storm", "hint"), "{unknown:?}");
    assert!(unknown.2.starts_with("an interrupt comes again and again, or does not end: "), "{unknown:?}");
    // Where the kernel has chosen another thread, that one may go on by right: it has a threshold.
    let by_right = found("kept-by-threshold", PRINT, 0);
    assert!(!claims(&by_right).iter().any(|claim| claim.contains("has been ready for")), "{by_right:?}");
}
