//! `explain` over waits in a circle that goes over full or empty queues, from a trace made by hand: who reads a queue or sends
//! to it is known by the events alone.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::explain;
use super::support::builder::{Buffer, Entry, Registered};
use super::support::machine::{Scratch, fixture};
use super::support::threadx::{BASE, decode, thread};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::explain::Events;

pub(super) const SCAN: u64 = 0x2000_1000;
pub(super) const PRINT: u64 = 0x2000_1100;
pub(super) const BEAT: u64 = 0x2000_1200;
pub(super) const TIMERS: u64 = 0x2000_1300;
pub(super) const IMAGE: u64 = 0x2000_2000;
pub(super) const LINES: u64 = 0x2000_2200;
pub(super) const REPLIES: u64 = 0x2000_2400;
pub(super) const FOREVER: u64 = 0xFFFF_FFFF;

// The kernel's numbers of states.
pub(super) const SLEEPS: u64 = 4;
pub(super) const QUEUE: u64 = 5;
pub(super) const MUTEX: u64 = 13;
pub(super) const FLAGS: u64 = 7;
const PRIORITY_CHANGE: u64 = 14;

// The kernel's numbers of events.
pub(super) const RESUME: u64 = 1;
pub(super) const SUSPEND: u64 = 2;
pub(super) const MUTEX_GET: u64 = 52;
pub(super) const MUTEX_PUT: u64 = 57;
pub(super) const QUEUE_RECEIVE: u64 = 68;
pub(super) const QUEUE_SEND: u64 = 69;
pub(super) const BYTE_ALLOCATE: u64 = 20;
const THREAD_CREATE: u64 = 100;
pub(super) const SLEEP: u64 = 112;
pub(super) const SEMAPHORE_GET: u64 = 83;
pub(super) const SEMAPHORE_PUT: u64 = 88;
pub(super) const FLAGS_GET: u64 = 32;
pub(super) const FLAGS_SET: u64 = 36;

/// Events one after the other.
#[derive(Default)]
pub(super) struct Story {
    pub(super) at: u64,
    pub(super) events: Vec<Entry>,
    /// Where the stack of a thread begins, and its size.
    pub(super) stacks: Vec<(u64, [u64; 2])>,
    /// A semaphore, and what it was created with.
    pub(super) semaphore: Option<(u64, u64)>,
}

impl Story {
    pub(super) fn by(&mut self, who: u64, id: u64, info: [u64; 4]) {
        self.at += 100;
        self.events.push(Entry::thread(who, 8, id, self.at, info));
    }

    pub(super) fn blocks(&mut self, who: u64, state: u64, next: u64) {
        self.by(who, SUSPEND, [who, state, 0, next]);
    }

    pub(super) fn wakes(&mut self, who: u64, was: u64) {
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
    pub(super) fn goes_on(&mut self, times: u64) {
        for _ in 0..times {
            self.wakes(BEAT, SLEEPS);
            self.by(BEAT, SLEEP, [15, 0, 0, 0]);
            self.blocks(BEAT, SLEEPS, 0);
        }
    }

    pub(super) fn findings(&self, name: &str) -> Vec<Value> {
        self.findings_in(self.events.len() + 1, name, None)
    }

    /// The same with the program of a fixture.
    pub(super) fn findings_with(&self, elf: &str, name: &str) -> Vec<Value> {
        self.findings_in(self.events.len() + 1, name, Some(elf))
    }

    /// The same from a ring of so many events.
    fn findings_in(&self, capacity: usize, name: &str, elf: Option<&str>) -> Vec<Value> {
        let mut objects = vec![
            thread(SCAN, "Scan", 8),
            thread(PRINT, "Print", 8),
            thread(BEAT, "Beat", 8),
            thread(TIMERS, "System Timer Thread", 0),
            Registered::new(5, IMAGE, "image"),
            Registered::new(3, LINES, "lines"),
            Registered::new(3, REPLIES, "replies"),
        ];
        objects.extend(
            self.semaphore
                .map(|(address, count)| Registered { params: [count, 0], ..Registered::new(4, address, "trays") }),
        );
        for object in &mut objects {
            let stack = self.stacks.iter().find(|(thread, _)| *thread == object.pointer);
            object.params = stack.map_or(object.params, |(_, stack)| *stack);
        }
        let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(capacity, &self.events);
        let scratch = Scratch::new(name);
        let path = scratch.path("ram.bin");
        std::fs::write(&path, buffer.bytes()).unwrap();
        let image = format!("{}@{BASE:#x}", path.display());
        match elf {
            Some(elf) => explain(&[&fixture(elf).display().to_string(), &image]),
            None => explain(&["--image", &image]),
        }
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

fn claims(findings: &[Value], confidence: &str) -> Vec<String> {
    let is_so = |finding: &&Value| finding["code"] == "deadlock" && finding["confidence"] == confidence;
    findings.iter().filter(is_so).map(|finding| finding["claim"].as_str().unwrap().to_owned()).collect()
}

impl Story {
    /// Scan sends to the queue that it reads itself, as another thread does.
    fn posts(&mut self, times: u64) {
        for _ in 0..times {
            self.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
            self.by(SCAN, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
        }
        self.by(BEAT, QUEUE_SEND, [LINES, 0, FOREVER, 3]);
    }

    /// Scan asks Print, which answers.
    fn asks(&mut self, times: u64) {
        for _ in 0..times {
            self.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
            self.by(SCAN, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 0]);
            self.blocks(SCAN, QUEUE, PRINT);
            self.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
            self.by(PRINT, QUEUE_SEND, [REPLIES, 0, FOREVER, 0]);
            self.by(PRINT, RESUME, [SCAN, QUEUE, 0, SCAN]);
        }
    }

    /// Scan waits for a reply for so long, and Print for the next request.
    fn loses_one(&mut self, wait: u64) {
        self.by(SCAN, QUEUE_RECEIVE, [REPLIES, 0, wait, 0]);
        self.blocks(SCAN, QUEUE, PRINT);
        self.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
        self.blocks(PRINT, QUEUE, 0);
    }
}

#[test]
fn a_thread_that_waits_for_room_in_the_queue_that_it_alone_reads() {
    let jam = |times: u64, wait: u64, other: u64, name: &str| {
        let mut story = Story::default();
        story.posts(times);
        story.by(other, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
        story.by(SCAN, QUEUE_SEND, [LINES, 0, wait, 4]);
        story.blocks(SCAN, QUEUE, BEAT);
        story.goes_on(1);
        story.findings(name)
    };
    let found = claims(&jam(12, FOREVER, SCAN, "own-queue"), "likely");
    assert_eq!(found, ["Scan waits for room in queue lines, which is full and which it alone reads"]);
    let few = jam(3, FOREVER, SCAN, "own-queue-few");
    assert!(claims(&few, "likely").is_empty() && claims(&few, "hint").len() == 1, "{few:?}");
    for (wait, other, name) in [(50, SCAN, "own-queue-timed"), (FOREVER, PRINT, "own-queue-readers")] {
        let found = jam(12, wait, other, name);
        assert!(found.iter().all(|finding| finding["code"] != "deadlock"), "{name}: {found:?}");
    }
    let mut story = Story::default();
    story.posts(12);
    story.events.push(Entry::isr(0, QUEUE_RECEIVE, story.at + 10, [LINES, 0, 0, 1]));
    story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 4]);
    story.blocks(SCAN, QUEUE, BEAT);
    let found = story.findings("own-queue-interrupt");
    assert!(found.iter().all(|finding| finding["code"] != "deadlock"), "an interrupt reads it: {found:?}");
}

#[test]
fn two_threads_that_wait_for_a_message_of_each_other() {
    let lost = |times: u64, wait: u64, beats: u64, name: &str| {
        let mut story = Story::default();
        story.asks(times);
        story.loses_one(wait);
        story.goes_on(beats);
        story.findings(name)
    };
    let found = claims(&lost(12, FOREVER, 40, "lost-message"), "likely");
    let [claim] = found.as_slice() else { panic!("{found:?}") };
    assert!(claim.contains("Scan waits for a message in queue replies, to which only Print sends"), "{claim}");
    assert!(claim.contains("Print waits for a message in queue lines, to which only Scan sends"), "{claim}");
    let few = lost(4, FOREVER, 40, "lost-message-few");
    assert!(claims(&few, "likely").is_empty() && claims(&few, "hint").len() == 1, "{few:?}");
    for (wait, beats, name) in [(900, 40, "lost-message-timed"), (FOREVER, 2, "lost-message-short")] {
        let found = lost(12, wait, beats, name);
        assert!(found.iter().all(|finding| finding["code"] != "deadlock"), "{name}: {found:?}");
    }
}

/// What the device sent before is not in the ring any more.
#[test]
fn messages_that_may_come_from_a_third_are_a_hint_where_old_events_are_missing() {
    let mut story = Story::default();
    story.asks(14);
    story.loses_one(FOREVER);
    story.goes_on(40);
    let found = story.findings_in(story.events.len() - 6, "lost-message-ring", None);
    assert!(claims(&found, "likely").is_empty() && claims(&found, "hint").len() == 1, "{found:?}");
}

/// Scan waits for a reply with the mutex in hand that Print waits for: likely also where the ring has lost old events.
#[test]
fn a_lock_is_held_while_its_owner_waits_for_a_message_of_the_one_who_waits_for_it() {
    let mut story = Story::default();
    story.asks(14);
    story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
    story.by(SCAN, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 0]);
    story.blocks(SCAN, QUEUE, PRINT);
    story.by(PRINT, MUTEX_GET, [IMAGE, FOREVER, SCAN, 1]);
    story.blocks(PRINT, MUTEX, 0);
    story.goes_on(40);
    let found = claims(&story.findings_in(story.events.len() - 6, "lock-and-message", None), "likely");
    let [claim] = found.as_slice() else { panic!("{found:?}") };
    assert!(claim.contains("Scan waits for a message in queue replies, to which only Print sends"), "{claim}");
    assert!(claim.contains("Print waits for mutex image, which Scan holds"), "{claim}");
}

/// The server waits for the message of its device, and the reply comes after that.
#[test]
fn a_client_waits_while_the_server_waits_for_its_device() {
    for (by_interrupt, name) in [(true, "device-interrupt"), (false, "device-thread")] {
        let mut story = Story::default();
        story.asks(12);
        let (at, info) = (story.at + 10, [LINES, 0, 0, 0]);
        let send = if by_interrupt {
            Entry::isr(0, QUEUE_SEND, at, info)
        } else {
            Entry::thread(BEAT, 8, QUEUE_SEND, at, info)
        };
        story.events.push(send);
        story.loses_one(FOREVER);
        story.goes_on(40);
        let found = story.findings(name);
        assert!(found.iter().all(|finding| finding["code"] != "deadlock"), "{name}: {found:?}");
    }
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

/// A thread ran, was deleted, and was created again on a stack that was allocated anew: that stack seemed to be released.
#[test]
fn the_event_that_creates_a_thread_was_not_looked_at() {
    const POOL: u64 = 0x2000_3000;
    const STACK: u64 = 0x2000_3008;
    let mut story = Story::default();
    story.prints(PRINT);
    story.by(SCAN, BYTE_ALLOCATE, [POOL, STACK, 800, 0]);
    story.by(SCAN, THREAD_CREATE, [PRINT, 8, STACK, 800]);
    let buffer = Buffer::new(BASE).record(story.events.len() + 1, &story.events);
    let events = Events::of(&decode(&buffer), &Catalogue::threadx(Names::default())).unwrap();
    let allocated = events.object(POOL).and_then(|one| one.pool.live.get(&STACK)).expect("the block").seq;
    assert_eq!(events.created(PRINT), Some(allocated + 1));
    assert_eq!(events.created(SCAN), None);
}

/// Only the trace is known: Print, which is not more urgent, has no event while Scan runs.
#[test]
fn a_thread_that_never_blocks_and_one_without_an_event() {
    let findings = |blocks: bool, name| {
        let mut story = Story::default();
        for _ in 0..60 {
            story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, 0]);
            if blocks {
                story.by(SCAN, SLEEP, [1, 0, 0, 0]);
                story.blocks(SCAN, SLEEPS, 0);
                story.wakes(SCAN, SLEEPS);
            }
        }
        story.findings(name)
    };
    let found = findings(false, "unseen");
    let first = found.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"starvation".into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("Scan (priority 8)") && claim.contains("Print, Beat have no event"), "{claim}");
    let found = findings(true, "unseen-blocks");
    assert!(found.iter().all(|finding| finding["code"] != "starvation"), "{found:?}");
}

/// Scan leaves the mutex without a put in each second round. Puts of a thread that does not own it are refused.
#[test]
fn a_mutex_that_is_never_free_in_a_trace() {
    let findings = |by: u64, name| {
        let mut story = Story::default();
        for had in 2..12 {
            story.by(by, MUTEX_PUT, [IMAGE, SCAN, had, 0]);
            story.by(by, SLEEP, [1, 0, 0, 0]);
            story.blocks(by, SLEEPS, 0);
            story.wakes(by, SLEEPS);
        }
        story.findings(name)
    };
    let found = findings(SCAN, "never-free");
    let first = found.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"lock-owner-gone".into(), &"hint".into()), "{first}");
    assert!(first["claim"].as_str().unwrap().contains("has it 10 times after its last put"), "{first}");
    let found = findings(PRINT, "never-free-refused");
    assert!(found.iter().all(|finding| finding["code"] != "lock-owner-gone"), "{found:?}");
}

/// Print gives back a mutex that Scan has, and later one that it has itself.
#[test]
fn a_put_that_the_kernel_refuses_is_seen() {
    let mut story = Story::default();
    story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
    story.by(PRINT, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
    let events = |story: &Story| {
        let buffer = Buffer::new(BASE).record(story.events.len() + 1, &story.events);
        Events::of(&decode(&buffer), &Catalogue::threadx(Names::default())).unwrap()
    };
    let found = events(&story).tries.not_owned(PRINT).expect("the put");
    assert_eq!((found.lock, found.put, found.failed), (IMAGE, 1, None));
    story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
    story.by(PRINT, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
    story.by(PRINT, MUTEX_PUT, [IMAGE, PRINT, 1, 0]);
    let events = events(&story);
    assert_eq!([PRINT, SCAN].map(|thread| events.tries.not_owned(thread)), [None; 2]);
}

/// Scan has the mutex and waits for a flag that only Print sets, which waits for the mutex. No event says for how long a thread
/// waits for event flags.
#[test]
fn a_circle_over_event_flags_in_a_trace_is_a_hint() {
    let findings = |beats: u64, name| {
        let mut story = Story::default();
        for _ in 0..9 {
            story.by(PRINT, FLAGS_SET, [REPLIES, 4, 0, 0]);
            story.by(SCAN, FLAGS_GET, [REPLIES, 4, 4, 1]);
        }
        story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        story.by(SCAN, FLAGS_GET, [REPLIES, 4, 0, 1]);
        story.blocks(SCAN, FLAGS, PRINT);
        story.by(PRINT, MUTEX_GET, [IMAGE, FOREVER, SCAN, 1]);
        story.blocks(PRINT, MUTEX, 0);
        story.goes_on(beats);
        story.findings(name)
    };
    let found = findings(40, "circle-flags");
    assert!(claims(&found, "likely").is_empty() && claims(&found, "hint").len() == 1, "{found:?}");
    assert_eq!(found.first().map(|first| &first["code"]), Some(&"deadlock".into()));
    let found = findings(2, "circle-flags-short");
    assert!(found.iter().all(|finding| finding["code"] != "deadlock"), "{found:?}");
}

/// Scan does this again and again, and sleeps in between; the others have no event.
fn alone(name: &str, mut does: impl FnMut(&mut Story, u64)) -> Vec<Value> {
    let mut story = Story::default();
    for round in 0..20 {
        does(&mut story, round);
        story.by(SCAN, SLEEP, [1, 0, 0, 0]);
        story.blocks(SCAN, SLEEPS, 0);
        story.wakes(SCAN, SLEEPS);
    }
    story.findings(name)
}

/// The code, the confidence and the claim of the first finding.
pub(super) fn first(findings: &[Value]) -> (String, String, String) {
    let first = findings.first().expect("a finding");
    let of = |key: &str| first[key].as_str().unwrap().to_owned();
    (of("code"), of("confidence"), of("claim"))
}

#[test]
fn a_queue_that_is_full_and_that_no_event_reads() {
    let sends = |name: &str, held: fn(u64) -> u64| {
        alone(name, |story, round| story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, held(round)]))
    };
    let (code, confidence, claim) = first(&sends("left-full", |_| 4));
    assert_eq!((code.as_str(), confidence.as_str()), ("queue-full", "hint"));
    assert!(claim.contains("Scan sent to it 20 times") && claim.contains("Print, Beat have no event"), "{claim}");
    let (code, _, claim) = first(&sends("left-fills", |round| round));
    assert!(code == "queue-full" && claim.contains("only fills: 20 messages"), "{claim}");
    assert!(sends("left-taken", |_| 0).is_empty(), "a thread that waits has each message at once");
    let reads = alone("left-read", |story, _| {
        story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, 4]);
        story.by(SCAN, QUEUE_RECEIVE, [LINES, 0, 0, 5]);
    });
    assert!(reads.is_empty(), "{reads:?}");
}

#[test]
fn a_mutex_that_a_thread_without_an_event_has_all_the_time() {
    let asks = |name: &str, owner_goes_on: bool| {
        alone(name, |story, _| {
            story.by(SCAN, MUTEX_GET, [IMAGE, 3, PRINT, 1]);
            story.blocks(SCAN, MUTEX, 0);
            story.wakes(SCAN, MUTEX);
            if owner_goes_on {
                story.by(PRINT, QUEUE_SEND, [REPLIES, 0, 0, 0]);
            }
        })
    };
    let (code, confidence, claim) = first(&asks("kept", false));
    assert_eq!((code.as_str(), confidence.as_str()), ("lock-owner-gone", "hint"));
    assert!(claim.contains("Scan asked 20 times for mutex") && claim.contains("Print has it all the time"), "{claim}");
    let found = asks("kept-on", true);
    assert!(found.iter().all(|finding| finding["code"] != "lock-owner-gone"), "{found:?}");
}

#[test]
fn memory_that_is_released_and_does_not_help_who_waits() {
    const BYTE_RELEASE: u64 = 27;
    let releases = |name: &str, waiting: u64| {
        alone(name, |story, _| story.by(SCAN, BYTE_RELEASE, [IMAGE, 0x2000_3000, waiting, 6172]))
    };
    let (code, confidence, claim) = first(&releases("short", 1));
    assert_eq!((code.as_str(), confidence.as_str()), ("pool-empty", "hint"));
    assert!(claim.contains("20 releases in a row") && claim.contains("6172 bytes are free"), "{claim}");
    assert!(releases("short-none", 0).is_empty());
}

#[test]
fn flags_that_are_set_and_do_not_wake_who_waits_for_others() {
    let sets = |name: &str, waiting: u64, wakes: bool| {
        alone(name, |story, _| {
            story.by(SCAN, FLAGS_SET, [REPLIES, 0x40, 0, waiting]);
            if wakes {
                story.by(SCAN, RESUME, [PRINT, FLAGS, 0, SCAN]);
            }
        })
    };
    let (code, confidence, claim) = first(&sets("unmet", 1, false));
    assert_eq!((code.as_str(), confidence.as_str()), ("wrong-event-mask", "hint"));
    assert!(
        claim.contains("20 sets in a row") && claim.contains("Scan sets 0x40; Print, Beat have no event"),
        "{claim}"
    );
    assert!(sets("unmet-none", 0, false).is_empty());
    let woken = sets("met", 1, true);
    assert!(woken.iter().all(|finding| finding["code"] != "wrong-event-mask"), "{woken:?}");
}

#[test]
fn an_interrupt_that_gets_no_block_in_a_trace_alone() {
    const BLOCK_ALLOCATE: u64 = 10;
    let asks = |name: &str, memory: u64| {
        alone(name, |story, _| story.events.push(Entry::isr(0, BLOCK_ALLOCATE, story.at + 1, [LINES, memory, 0, 0])))
    };
    let (code, confidence, claim) = first(&asks("refused", 0));
    assert!((code.as_str(), confidence.as_str()) == ("pool-empty", "hint") && claim.contains("20 times"), "{claim}");
    let found = asks("given", 0x2000_3000);
    assert!(found.iter().all(|finding| finding["code"] != "pool-empty"), "{found:?}");
}

#[test]
fn a_thread_that_went_to_sleep_for_a_negative_number_of_ticks() {
    let sleeps = |name: &str, ticks: u64| {
        let mut story = Story::default();
        story.by(PRINT, SLEEP, [ticks, 0, 0, 0]);
        story.blocks(PRINT, SLEEPS, 0);
        story.goes_on(20);
        story.findings(name)
    };
    let (code, confidence, claim) = first(&sleeps("negative", 0xFFFF_FFF9));
    assert_eq!((code.as_str(), confidence.as_str()), ("event-never-set", "hint"));
    assert!(claim.contains("Print sleeps for 4294967289 ticks"), "{claim}");
    assert!(sleeps("a-day", 86_400_000).is_empty());
}

/// A fault in the list of timers had no cause: the timer had been deleted, and its memory was another block's.
#[test]
fn a_timer_that_was_activated_after_its_delete_was_no_finding() {
    const ACTIVATE: u64 = 122;
    const CREATE: u64 = 124;
    const DELETE: u64 = 126;
    const INFO_GET: u64 = 127;
    const TIMER: u64 = 0x2000_4400;
    let asks = |name: &str, events: &[u64]| {
        let mut story = Story::default();
        for id in events {
            story.by(PRINT, *id, [TIMER, 0, 0, 0]);
        }
        story.goes_on(20);
        story.findings(name)
    };
    let (code, confidence, claim) = first(&asks("after-delete", &[CREATE, ACTIVATE, DELETE, ACTIVATE]));
    assert_eq!((code.as_str(), confidence.as_str()), ("corrupt-control-block", "likely"), "{claim}");
    assert!(
        claim.contains("Print calls tx_timer_activate for") && claim.contains("deleted before by Print"),
        "{claim}"
    );
    let (.., claim) = first(&asks("deleted-twice", &[CREATE, DELETE, DELETE]));
    assert!(claim.contains("Print calls tx_timer_delete for"), "{claim}");
    assert!(asks("created-between", &[CREATE, DELETE, CREATE, ACTIVATE]).is_empty());
    assert!(asks("only-read", &[CREATE, DELETE, INFO_GET]).is_empty());
}
