//! `explain` over calls of `tx_thread_resume` that come before their thread is suspended, from a trace made by hand.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{FOREVER, IMAGE, MUTEX_GET, MUTEX_PUT, SCAN, Story};
use super::support::builder::Entry;

/// The kernel's number of the event.
const RESUME_CALL: u64 = 111;

/// "Nothing wrong found": the interrupt's resume came between a thread's test and its suspension, and was lost.
#[test]
fn a_resume_that_came_before_the_suspension_was_not_named() {
    const SUSPENDED: u64 = 3;
    let story = |is_lost: bool, long: u64| {
        let mut story = Story::default();
        for _ in 0..5 {
            story.blocks(SCAN, SUSPENDED, 0);
            story.goes_on(1);
            story.at += 100;
            story.events.push(Entry::isr(0, RESUME_CALL, story.at, [SCAN, SUSPENDED, 0, 0]));
            story.wakes(SCAN, SUSPENDED);
            story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
        }
        if is_lost {
            story.at += 100;
            story.events.push(Entry::isr(SCAN, RESUME_CALL, story.at, [SCAN, 0, 0, 0]));
        }
        story.blocks(SCAN, SUSPENDED, 0);
        story.goes_on(long);
        story.findings("resume-lost")
    };
    let is_it = |finding: &Value| finding["claim"].as_str().unwrap().contains("Scan is suspended and is not resumed");
    let found = story(true, 40);
    let first = found.first().expect("a finding");
    assert!(is_it(first) && first["confidence"] == "hint", "{found:?}");
    assert!(first["claim"].as_str().unwrap().contains("an interrupt called tx_thread_resume"), "{first}");
    // It was not called; it is suspended no longer than before.
    for (is_lost, long) in [(false, 40), (true, 1)] {
        let found = story(is_lost, long);
        assert!(!found.iter().any(is_it), "{found:?}");
    }
}
