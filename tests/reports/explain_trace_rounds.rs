//! `explain` over threads that go through the same rounds, and then do not, in traces made by hand: blocks that are not sent on, a sleep that
//! is left out, and flags that are waited for by their numbers.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{BEAT, BYTE_ALLOCATE, FLAGS, FLAGS_GET, FLAGS_SET, FOREVER, IMAGE, LINES, MUTEX_GET};
use super::explain_circles::{MUTEX_PUT, PRINT, QUEUE, QUEUE_RECEIVE, QUEUE_SEND, REPLIES, RESUME, SCAN, SLEEP};
use super::explain_circles::{SLEEPS, SUSPEND, Story, TIMERS};
use super::support::builder::Entry;

// The kernel's numbers of events, and states of threads.
const BYTE_RELEASE: u64 = 27;
const MEMORY: u64 = 9;
/// Of the application.
const WEIGHED: u64 = 4101;
const COMMAND: u64 = 4100;
const SUSPENDED: u64 = 3;

const POOL: u64 = 0x2000_5000;
const GROUP: u64 = 0x2000_5400;

fn claims(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["claim"].as_str().unwrap()).collect()
}

/// "look for a path on which arrival does not release a block": the thread in front of it did not send some blocks on.
#[test]
fn who_does_not_send_a_block_on_was_not_named() {
    let mut story = Story::default();
    for round in 0..20 {
        let block = 0x2000_6000 + 0x80 * round;
        story.wakes(SCAN, SLEEPS);
        story.by(SCAN, BYTE_ALLOCATE, [POOL, block, 100, 0]);
        story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
        story.by(SCAN, SLEEP, [4, 0, 0, 0]);
        story.blocks(SCAN, SLEEPS, PRINT);
        story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
        // Those that it does not send on it writes down.
        let is_kept = round % 4 == 3;
        story.by(PRINT, QUEUE_SEND, [if is_kept { 0x2000_5800 } else { REPLIES }, 0, FOREVER, 0]);
        story.blocks(PRINT, QUEUE, BEAT);
        if !is_kept {
            story.by(BEAT, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 0]);
            story.by(BEAT, BYTE_RELEASE, [POOL, block, 0, 0]);
            story.blocks(BEAT, QUEUE, 0);
        }
    }
    story.wakes(SCAN, SLEEPS);
    story.by(SCAN, BYTE_ALLOCATE, [POOL, 0, 100, FOREVER]);
    story.blocks(SCAN, MEMORY, 0);
    let all = story.findings("not-sent-on");
    let leak = all.iter().find(|finding| finding["code"] == "pool-leak").unwrap_or_else(|| panic!("{all:?}"));
    let claim = leak["claim"].as_str().unwrap();
    assert!(claim.contains("; Print sent nothing to queue replies, which Beat reads, after "), "{claim}");
    assert!(leak["next"].as_str().unwrap().starts_with("look for a path of Print that neither sends"), "{leak}");
}

/// "Nothing wrong found" of a trace alone: a thread waited for 6 where 0x40 was meant.
#[test]
fn a_number_of_a_flag_that_is_waited_for_was_not_seen_in_a_trace() {
    let found = |name: &str, wanted: u64| {
        let mut story = Story::default();
        for _ in 0..6 {
            story.by(SCAN, FLAGS_GET, [GROUP, 0x42, 0, 2]);
            story.blocks(SCAN, FLAGS, PRINT);
            story.by(PRINT, FLAGS_SET, [GROUP, 0x42, 0, 1]);
            story.wakes(SCAN, FLAGS);
        }
        story.by(SCAN, FLAGS_GET, [GROUP, wanted, 0x2, 2]);
        story.blocks(SCAN, FLAGS, PRINT);
        for _ in 0..30 {
            story.by(PRINT, FLAGS_SET, [GROUP, 0x40, 0, 1]);
            story.goes_on(1);
        }
        story.findings(name)
    };
    let all = found("number-wanted", 6);
    let first = all.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"wrong-event-mask".into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(
        claim.contains("and nobody in the trace sets 0x4; 6 is the number of the flag 0x40, which Print"),
        "{claim}"
    );
    let other = found("mask-wanted", 0x5);
    assert!(!claims(&other).iter().any(|claim| claim.contains("is the number of the flag")), "{other:?}");
}

/// A thread that slept in each round went on without a sleep: a period in milliseconds was less than a tick.
#[test]
fn a_sleep_of_no_ticks_was_not_thought_of() {
    let found = |name: &str, sleeps: u64| {
        let mut story = Story::default();
        let by = |story: &mut Story, (who, priority): (u64, u64), id: u64, info: [u64; 4]| {
            story.at += 100;
            story.events.push(Entry::thread(who, priority, id, story.at, info));
        };
        let (hog, other) = ((PRINT, 6), (BEAT, 20));
        for round in 0..8 {
            by(&mut story, hog, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            by(&mut story, hog, MUTEX_PUT, [IMAGE, PRINT, 1, 0]);
            if round < sleeps {
                by(&mut story, hog, SLEEP, [4, 0, 0, 0]);
            }
            by(&mut story, hog, SUSPEND, [PRINT, if round < sleeps { SLEEPS } else { QUEUE }, 0, BEAT]);
            by(&mut story, other, SLEEP, [2, 0, 0, 0]);
            by(&mut story, other, SUSPEND, [BEAT, SLEEPS, 0, 0]);
            story.wakes(TIMERS, SUSPENDED);
            by(&mut story, (TIMERS, 0), RESUME, [PRINT, if round < sleeps { SLEEPS } else { QUEUE }, 0, PRINT]);
            by(&mut story, (TIMERS, 0), RESUME, [BEAT, SLEEPS, 0, PRINT]);
            by(&mut story, (TIMERS, 0), SUSPEND, [TIMERS, SUSPENDED, 0, PRINT]);
        }
        for _ in 0..300 {
            by(&mut story, hog, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            by(&mut story, hog, MUTEX_PUT, [IMAGE, PRINT, 1, 0]);
        }
        story.findings(name)
    };
    let all = found("sleep-of-none", 8);
    let first = all.iter().find(|finding| finding["code"] == "starvation").unwrap_or_else(|| panic!("{all:?}"));
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.ends_with("; it slept 8 times before, and perhaps sleeps for 0 ticks now, which returns at once"));
    let other = found("sleep-of-other", 1);
    assert!(!claims(&other).iter().any(|claim| claim.contains("it slept")), "it waited for a queue: {other:?}");
}

/// "look at what lies in front of the control block": the number that was stored there had been inserted two events before.
#[test]
fn a_number_that_was_inserted_and_became_a_count_was_not_seen() {
    let found = |name: &str, inserted: u64| {
        // Four messages of one word.
        let mut story = Story { stacks: vec![(LINES, [16, 1])], ..Story::default() };
        for (round, count) in [0, 0, 0, 1214, 1213].into_iter().enumerate() {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, WEIGHED, [round as u64, if count == 1214 { inserted } else { 740 }, 0, 0]);
            story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, count]);
            story.by(SCAN, SLEEP, [10, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, PRINT);
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, count]);
            story.by(PRINT, SLEEP, [1, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, 0);
            story.wakes(PRINT, SLEEPS);
        }
        let all = story.findings(name);
        let first = all.iter().find(|finding| finding["code"] == "corrupt-control-block");
        first.unwrap_or_else(|| panic!("{all:?}"))["claim"].as_str().unwrap().to_owned()
    };
    let claim = found("inserted-number", 1214);
    assert!(claim.contains("; Scan recorded 1214 in event "), "{claim}");
    assert!(claim.ends_with(", and may have written this value there"), "{claim}");
    assert!(!found("inserted-other", 1200).contains("recorded"));
}

/// "Nothing wrong found": the trace ended where a thread had inserted a command, for which a table of functions had no entry.
#[test]
fn a_table_of_functions_without_an_entry_for_the_last_command_was_not_seen() {
    let found = |name: &str, command: u64, goes_on: bool| {
        let mut story = Story::default();
        story.goes_on(4);
        story.wakes(SCAN, SLEEPS);
        story.by(SCAN, COMMAND, [command, 7, 0, 0]);
        story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        if goes_on {
            story.wakes(BEAT, SLEEPS);
        }
        story.findings_with("stall.elf", name)
    };
    let all = found("entry-missing", 3, false);
    let first = all.iter().find(|finding| finding["code"] == "null-call").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(first["confidence"], "hint", "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(
        claim.contains(", in which Scan recorded 3: the index of commands[3], a null pointer in a table"),
        "{claim}"
    );
    for all in [found("entry-there", 2, false), found("entry-later", 3, true)] {
        assert!(!all.iter().any(|finding| finding["code"] == "null-call"), "{all:?}");
    }
}
