//! `explain` over waits in a circle that goes over a full queue, from a trace made by hand: who reads the queue is known by
//! the events alone.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::explain;
use super::support::builder::{Buffer, Entry, Registered};
use super::support::machine::Scratch;
use super::support::threadx::{BASE, thread};

const SCAN: u64 = 0x2000_1000;
const PRINT: u64 = 0x2000_1100;
const BEAT: u64 = 0x2000_1200;
const IMAGE: u64 = 0x2000_2000;
const LINES: u64 = 0x2000_2200;
const FOREVER: u64 = 0xFFFF_FFFF;

// The kernel's numbers of states.
const SLEEPS: u64 = 4;
const QUEUE: u64 = 5;
const MUTEX: u64 = 13;
const PRIORITY_CHANGE: u64 = 14;

// The kernel's numbers of events.
const RESUME: u64 = 1;
const SUSPEND: u64 = 2;
const MUTEX_GET: u64 = 52;
const MUTEX_PUT: u64 = 57;
const QUEUE_RECEIVE: u64 = 68;
const QUEUE_SEND: u64 = 69;
const SLEEP: u64 = 112;

/// Events one after the other.
#[derive(Default)]
struct Story {
    at: u64,
    events: Vec<Entry>,
}

impl Story {
    fn by(&mut self, who: u64, id: u64, info: [u64; 4]) {
        self.at += 100;
        self.events.push(Entry::thread(who, 8, id, self.at, info));
    }

    fn blocks(&mut self, who: u64, state: u64, next: u64) {
        self.by(who, SUSPEND, [who, state, 0, next]);
    }

    fn wakes(&mut self, who: u64, was: u64) {
        self.at += 1000;
        self.events.push(Entry::isr(0, RESUME, self.at, [who, was, 0, who]));
    }

    /// Scan sends a line with the mutex in hand, a reader takes it and uses the mutex.
    fn prints(&mut self, reader: u64) {
        self.wakes(SCAN, SLEEPS);
        self.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        self.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
        self.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
        self.by(SCAN, SLEEP, [10, 0, 0, 0]);
        self.blocks(SCAN, SLEEPS, reader);
        self.by(reader, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
        self.by(reader, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        self.by(reader, MUTEX_PUT, [IMAGE, reader, 1, 0]);
        self.by(reader, SLEEP, [1, 0, 0, 0]);
        self.blocks(reader, SLEEPS, 0);
        self.wakes(reader, SLEEPS);
        self.by(reader, SLEEP, [1, 0, 0, 0]);
        self.blocks(reader, SLEEPS, 0);
    }

    /// Scan waits for room in the queue with the mutex in hand, and Print, which reads it, for the mutex.
    fn jams(&mut self) {
        self.wakes(SCAN, SLEEPS);
        self.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        self.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 4]);
        self.blocks(SCAN, QUEUE, 0);
        self.wakes(PRINT, SLEEPS);
        self.by(PRINT, MUTEX_GET, [IMAGE, FOREVER, SCAN, 1]);
        self.blocks(PRINT, MUTEX, 0);
    }

    /// Another thread goes on.
    fn goes_on(&mut self, times: u64) {
        for _ in 0..times {
            self.wakes(BEAT, SLEEPS);
            self.by(BEAT, SLEEP, [15, 0, 0, 0]);
            self.blocks(BEAT, SLEEPS, 0);
        }
    }

    fn findings(&self, name: &str) -> Vec<Value> {
        let objects = vec![
            thread(SCAN, "Scan", 8),
            thread(PRINT, "Print", 8),
            thread(BEAT, "Beat", 8),
            Registered::new(5, IMAGE, "image"),
            Registered::new(3, LINES, "lines"),
        ];
        let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(self.events.len() + 1, &self.events);
        let scratch = Scratch::new(name);
        let path = scratch.path("ram.bin");
        std::fs::write(&path, buffer.bytes()).unwrap();
        explain(&["--image", &format!("{}@{BASE:#x}", path.display())])
    }
}

#[test]
fn a_sender_that_has_what_the_reader_of_its_full_queue_waits_for() {
    let mut story = Story::default();
    (0..4).for_each(|_| story.prints(PRINT));
    story.jams();
    story.goes_on(20);
    let findings = story.findings("circle-queue");
    let first = findings.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"deadlock".into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("Print waits for mutex image, which Scan holds"), "{claim}");
    assert!(claim.contains("Scan waits for room in queue lines, which only Print reads"), "{claim}");
}

#[test]
fn a_full_queue_that_another_thread_reads_too_is_no_circle() {
    let mut story = Story::default();
    (0..4).for_each(|_| story.prints(PRINT));
    story.prints(BEAT);
    story.jams();
    story.goes_on(20);
    let findings = story.findings("circle-readers");
    assert!(findings.iter().all(|finding| finding["confidence"] == "hint"), "{findings:?}");
}

#[test]
fn a_queue_that_is_full_for_a_moment_is_no_circle() {
    let mut story = Story::default();
    (0..8).for_each(|_| story.prints(PRINT));
    story.jams();
    let findings = story.findings("circle-moment");
    assert!(findings.iter().all(|finding| finding["confidence"] == "hint"), "{findings:?}");
}

/// Scan goes on at priority 3 from when Beat is ready, and in each of its rounds the kernel suspends and resumes it.
fn goes_on_in_rounds(story: &mut Story, state: u64) {
    story.wakes(BEAT, SLEEPS);
    for _ in 0..40 {
        story.at += 900;
        story.events.push(Entry::thread(SCAN, 3, SUSPEND, story.at, [SCAN, state, 0, BEAT]));
        story.at += 100;
        story.events.push(Entry::thread(SCAN, 3, RESUME, story.at, [SCAN, state, 0, SCAN]));
    }
}

#[test]
fn a_thread_that_changes_its_priority_was_taken_to_block() {
    let findings = |state, name| {
        let mut story = Story::default();
        (0..3).for_each(|_| story.prints(PRINT));
        story.wakes(SCAN, SLEEPS);
        goes_on_in_rounds(&mut story, state);
        story.findings(name)
    };
    let found = findings(PRIORITY_CHANGE, "priority-rounds");
    let first = found.first().expect("a finding");
    assert_eq!(first["code"], "starvation", "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("Scan (priority 3)") && claim.contains("Beat is ready"), "{claim}");
    let blocked = findings(MUTEX, "mutex-rounds");
    assert!(blocked.iter().all(|finding| finding["code"] != "starvation"), "{blocked:?}");
}
