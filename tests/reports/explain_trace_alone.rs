//! `explain` over what only a trace shows, from traces made by hand.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::{
    BEAT, FLAGS, FLAGS_GET, FLAGS_SET, FOREVER, IMAGE, LINES, MUTEX, MUTEX_GET, MUTEX_PUT, PRINT, QUEUE, QUEUE_RECEIVE,
    QUEUE_SEND, REPLIES, RESUME, SCAN, SEMAPHORE_GET, SEMAPHORE_PUT, SLEEP, SLEEPS, SUSPEND, Story, TIMERS, first,
};
use super::support::builder::Entry;

// The kernel's numbers of events.
const INTERRUPT_CONTROL: u64 = 40;
const TIME_GET: u64 = 120;
const BLOCK_ALLOCATE: u64 = 10;
const BLOCK_RELEASE: u64 = 17;
// A state of a thread.
const SUSPENDED: u64 = 3;

fn of_code<'f>(findings: &'f [Value], code: &str) -> Option<&'f Value> {
    findings.iter().find(|finding| finding["code"] == code)
}

/// "Nothing wrong found": a path of an error did not restore the interrupts, and no event came after the next call.
#[test]
fn interrupts_that_were_not_enabled_by_the_next_call_were_not_seen() {
    let found = |name: &str, does: &dyn Fn(&mut Story)| {
        let mut story = Story::default();
        for round in 0..7 {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            story.by(SCAN, INTERRUPT_CONTROL, [1, 0, 0, 0]);
            if round == 6 {
                does(&mut story);
                return story.findings(name);
            }
            story.by(SCAN, INTERRUPT_CONTROL, [0, 0, 0, 0]);
            story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, BEAT);
        }
        Vec::new()
    };
    let puts = |story: &mut Story| story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
    let left = found("posture-left", &puts);
    let first = of_code(&left, "interrupts-masked").unwrap_or_else(|| panic!("{left:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.starts_with("Scan disabled interrupts and went on without enabling them"), "{claim}");
    // It was about to enable them, did so, or something came.
    let newest = found("posture-newest", &|_| ());
    let set_back = found("posture-set-back", &|story| story.by(SCAN, INTERRUPT_CONTROL, [0, 0, 0, 0]));
    let goes_on = found("posture-goes-on", &|story| {
        puts(story);
        story.goes_on(1);
    });
    for all in [newest, set_back, goes_on] {
        assert!(of_code(&all, "interrupts-masked").is_none(), "{all:?}");
    }
}

/// A flag that a thread sets which a callback kept from running was the headline: the callback of a timer took 45 ticks.
#[test]
fn a_callback_that_took_long_was_not_seen() {
    const READY: u64 = 0;
    let found = |name: &str, ticks: u64, times: u64, runs: u64| {
        let mut story = Story::default();
        for _ in 0..times {
            story.goes_on(3);
            story.wakes(TIMERS, SUSPENDED);
            for _ in 0..ticks {
                story.at += 1000;
                story.events.push(Entry::isr(runs, RESUME, story.at, [TIMERS, READY, 0, TIMERS]));
            }
            story.blocks(TIMERS, SUSPENDED, 0);
        }
        story.goes_on(3);
        story.findings(name)
    };
    let long = found("callback-long", 30, 2, TIMERS);
    let first = of_code(&long, "starvation").unwrap_or_else(|| panic!("{long:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("worked for about 30 kernel ticks without a break"), "{claim}");
    for all in [found("callback-once", 30, 1, TIMERS), found("callback-ten", 10, 3, TIMERS)] {
        let first = of_code(&all, "starvation").unwrap_or_else(|| panic!("{all:?}"));
        assert_eq!(first["confidence"], "hint", "{first}");
    }
    // It is short, or something else has the processor.
    for all in [found("callback-short", 7, 6, TIMERS), found("callback-kept-off", 30, 2, BEAT)] {
        assert!(all.iter().all(|one| !one.to_string().contains("take long")), "{all:?}");
    }
}

/// "Nothing wrong found": a stack pointer was below the stack of its thread, by the registry of the trace.
#[test]
fn a_stack_pointer_below_the_stack_of_the_registry_was_not_looked_at() {
    const STACK: u64 = 0x2000_3500;
    let found = |name: &str, pointers: [u64; 2]| {
        let stacks = vec![(SCAN, [STACK, 0x1A0]), (PRINT, [STACK - 0x208, 0x200])];
        let mut story = Story { stacks, ..Story::default() };
        for sp in pointers {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            story.by(SCAN, MUTEX_PUT, [IMAGE, SCAN, 1, sp]);
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, BEAT);
        }
        story.findings(name)
    };
    let all = found("trace-stack", [STACK + 0x80, STACK - 4]);
    let first = of_code(&all, "stack-overflow").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"likely".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert_eq!(claim, "the stack of Scan (416 bytes) overflowed, by 4 bytes or more; the stack of Print is below it");
    for (name, pointers) in
        [("trace-stack-whole", [STACK + 0x80, STACK]), ("trace-stack-other", [STACK - 0x800, STACK - 0x900])]
    {
        let all = found(name, pointers);
        assert!(of_code(&all, "stack-overflow").is_none(), "{name}: {all:?}");
    }
}

/// "Nothing wrong found": a queue refused messages while its reader waited for a lock whose owner slept, and all went on. A thread
/// that had slept was taken for another reader, as the one that woke it had sent a message before.
#[test]
fn messages_that_a_queue_had_refused_were_not_seen() {
    let found = |name: &str, most: u64| {
        let mut story = Story { stacks: vec![(LINES, [16, 1])], ..Story::default() };
        story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, 0]);
        story.by(SCAN, RESUME, [BEAT, SLEEPS, 0, 0]);
        for _ in 0..4 {
            story.wakes(PRINT, SLEEPS);
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
            story.by(PRINT, SLEEP, [1, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, SCAN);
            story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, 0]);
            story.goes_on(1);
        }
        story.wakes(BEAT, SLEEPS);
        story.by(BEAT, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        story.by(BEAT, SLEEP, [9, 0, 0, 0]);
        story.blocks(BEAT, SLEEPS, PRINT);
        story.wakes(PRINT, SLEEPS);
        story.by(PRINT, MUTEX_GET, [IMAGE, FOREVER, BEAT, 1]);
        story.blocks(PRINT, MUTEX, SCAN);
        (1..=most + 1).for_each(|n| story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, n.min(most)]));
        story.wakes(BEAT, SLEEPS);
        story.by(BEAT, MUTEX_PUT, [IMAGE, BEAT, 1, 0]);
        story.by(BEAT, RESUME, [PRINT, MUTEX, 0, PRINT]);
        for left in (1..=most).rev() {
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, left]);
        }
        story.by(PRINT, SLEEP, [1, 0, 0, 0]);
        story.blocks(PRINT, SLEEPS, BEAT);
        story.findings(name)
    };
    let all = found("refused", 4);
    let first = of_code(&all, "queue-full").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(first["confidence"], "hint", "{first}");
    assert_eq!(
        first["claim"],
        "queue lines was full (4 messages) and refused 2 messages, the first of Scan; Print, which alone reads it, waited for mutex image, \
         which Beat had, and which slept then"
    );
    let room = found("not-refused", 3);
    assert!(of_code(&room, "queue-full").is_none(), "{room:?}");
}

/// "Nothing wrong found": two threads built their messages in one static variable, and one of them sent while the other was preparing.
#[test]
fn messages_from_the_same_memory_were_not_seen() {
    let found = |name: &str, [own, other]: [u64; 2]| {
        let mut story = Story::default();
        let ask = |story: &mut Story, buffer: u64| {
            story.by(SCAN, QUEUE_SEND, [LINES, buffer, FOREVER, 0]);
            story.by(SCAN, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 0]);
            story.blocks(SCAN, QUEUE, BEAT);
        };
        for _ in 0..4 {
            ask(&mut story, own);
            story.by(BEAT, QUEUE_SEND, [REPLIES, 0, FOREVER, 0]);
            story.by(BEAT, RESUME, [SCAN, QUEUE, 0, SCAN]);
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, BEAT);
            story.wakes(SCAN, SLEEPS);
        }
        story.wakes(PRINT, SLEEPS);
        story.by(PRINT, QUEUE_SEND, [LINES, other, FOREVER, 0]);
        story.by(PRINT, SLEEP, [4, 0, 0, 0]);
        story.blocks(PRINT, SLEEPS, SCAN);
        ask(&mut story, own);
        story.goes_on(40);
        story.findings(name)
    };
    let all = found("same-memory", [0x2000_5000, 0x2000_5000]);
    let claim = |finding: &Value| finding["claim"].as_str().unwrap_or_default().to_owned();
    let first = all.iter().find(|finding| claim(finding).contains("0x20005000")).unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"hint".into()), "{first}");
    assert_eq!(
        first["claim"],
        "Scan waits for queue replies since it sent a message to queue lines from 0x20005000; Print sent one from the same \
         memory while Scan was ready: what Scan sent may be the message of Print"
    );
    let own = found("own-memory", [0x2000_5000, 0x2000_5100]);
    assert!(!own.iter().any(|finding| claim(finding).contains("same memory")), "{own:?}");
}

/// Who allocates was to release, though others release all of its blocks, and that it waits for one was not said.
#[test]
fn who_releases_the_blocks_of_another_thread_was_not_looked_at() {
    const POOL: u64 = 0x2000_2600;
    let mut story = Story::default();
    let mut block = 0x2000_6000;
    for round in 0..24 {
        story.wakes(SCAN, SLEEPS);
        story.by(SCAN, BLOCK_ALLOCATE, [POOL, block, FOREVER, 5]);
        story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
        story.by(SCAN, SLEEP, [4, 0, 0, 0]);
        story.blocks(SCAN, SLEEPS, PRINT);
        story.wakes(PRINT, QUEUE);
        if round % 6 == 3 {
            block += 0x40;
        } else {
            story.by(PRINT, BLOCK_RELEASE, [POOL, block, 0, 0]);
        }
        story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
        story.blocks(PRINT, QUEUE, 0);
    }
    story.wakes(SCAN, SLEEPS);
    story.by(SCAN, BLOCK_ALLOCATE, [POOL, 0, FOREVER, 0]);
    story.goes_on(20);
    let all = story.findings("released-by-another");
    let first = of_code(&all, "pool-leak").unwrap_or_else(|| panic!("{all:?}"));
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("drains, and Scan waits for it: "), "{claim}");
    assert_eq!(first["next"], "look for a path on which neither Scan nor Print releases a block of Scan", "{first}");
}

/// "Nothing wrong found": a thread had waited for a third of the trace for a lock whose owner was kept from running, and went on.
#[test]
fn an_inversion_that_was_over_was_not_seen() {
    let found = |name: &str, ran: u64| {
        let mut story = Story::default();
        let by = |story: &mut Story, (who, priority): (u64, u64), id: u64, info: [u64; 4]| {
            story.at += 100;
            story.events.push(Entry::thread(who, priority, id, story.at, info));
        };
        let (high, middle, low) = ((SCAN, 4), (PRINT, 12), (BEAT, 20));
        for _ in 0..4 {
            by(&mut story, low, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            by(&mut story, low, MUTEX_PUT, [IMAGE, BEAT, 1, 0]);
        }
        by(&mut story, low, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
        story.wakes(SCAN, SLEEPS);
        by(&mut story, high, MUTEX_GET, [IMAGE, FOREVER, BEAT, 1]);
        by(&mut story, high, SUSPEND, [SCAN, MUTEX, 0, BEAT]);
        story.wakes(PRINT, SLEEPS);
        by(&mut story, middle, SLEEP, [0, 0, 0, 0]);
        story.at += ran;
        by(&mut story, middle, SLEEP, [9, 0, 0, 0]);
        by(&mut story, middle, SUSPEND, [PRINT, SLEEPS, 0, BEAT]);
        by(&mut story, low, MUTEX_PUT, [IMAGE, BEAT, 1, 0]);
        by(&mut story, low, RESUME, [SCAN, MUTEX, 0, SCAN]);
        by(&mut story, high, MUTEX_PUT, [IMAGE, SCAN, 1, 0]);
        by(&mut story, high, SLEEP, [9, 0, 0, 0]);
        by(&mut story, high, SUSPEND, [SCAN, SLEEPS, 0, BEAT]);
        for _ in 0..80 {
            by(&mut story, low, MUTEX_GET, [IMAGE, FOREVER, 0, 0]);
            by(&mut story, low, MUTEX_PUT, [IMAGE, BEAT, 1, 0]);
        }
        story.findings(name)
    };
    let all = found("inversion-over", 20_000);
    let first = of_code(&all, "priority-inversion").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(first["confidence"], "hint", "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.starts_with("Scan (priority 4) waited 2"), "{claim}");
    assert!(claim.contains("for mutex image, which Beat (priority 20) had; Print (priority 12) ran for 2"), "{claim}");
    assert!(claim.ends_with("; that wait is over"), "{claim}");
    let short = found("inversion-short", 100);
    assert!(of_code(&short, "priority-inversion").is_none(), "{short:?}");
}

/// Whoever takes a tray gives it to the next, over two queues, and the last one puts it back. Where it does not, all of them wait in the
/// end; the one who waits for a tray got no work of the last one itself, and nothing was found.
#[test]
fn a_credit_that_comes_back_over_several_threads_was_not_missed() {
    const TRAYS: u64 = 0x2000_2600;
    const SEMAPHORE: u64 = 6;
    let found = |name: &str, count: u64, lost: u64| {
        let mut story = Story { semaphore: Some((TRAYS, count)), ..Story::default() };
        let passes = |story: &mut Story, is_lost: bool| {
            story.by(SCAN, SEMAPHORE_GET, [TRAYS, FOREVER, 1, 0]);
            story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
            story.by(PRINT, QUEUE_SEND, [REPLIES, 0, FOREVER, 0]);
            story.by(BEAT, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 1]);
            if !is_lost {
                story.by(BEAT, SEMAPHORE_PUT, [TRAYS, 0, 0, 0]);
            }
        };
        (0..12).for_each(|n| passes(&mut story, n % 4 == 3 && n / 4 < lost));
        story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
        story.blocks(PRINT, QUEUE, BEAT);
        story.by(BEAT, QUEUE_RECEIVE, [REPLIES, 0, FOREVER, 0]);
        story.blocks(BEAT, QUEUE, SCAN);
        story.by(SCAN, SEMAPHORE_GET, [TRAYS, FOREVER, 0, 0]);
        story.blocks(SCAN, SEMAPHORE, 0);
        for _ in 0..30 {
            story.wakes(TIMERS, 3);
            story.blocks(TIMERS, 3, 0);
        }
        let all = story.findings(name);
        let text = |first: &Value| ["code", "confidence", "claim"].map(|name| first[name].as_str().unwrap().to_owned());
        all.first().map(text)
    };
    let claim = "Scan waits for semaphore trays: of 3 it has none left, and Beat, which gives it back, waits for queue replies, to which only \
                 Print sends; Print waits for queue lines, to which only Scan sends";
    assert_eq!(found("trays-lost", 3, 3), Some(["semaphore-leak", "hint", claim].map(str::to_owned)));
    let signal = found("trays-signal", 0, 3);
    assert!(signal.is_none_or(|[code, ..]| code != "semaphore-leak"), "a signal has no credits");
}

/// Print is less urgent than Beat, for which a semaphore is put and never taken.
#[test]
fn a_threshold_keeps_off_a_thread_without_an_event() {
    let puts = |name: &str, grows: bool| {
        let mut story = Story::default();
        story.events.push(Entry::thread(PRINT, 20, QUEUE_SEND, 1, [LINES, 0, 0, 0]));
        for round in 0..20 {
            story.at += 10_000;
            story.events.push(Entry::isr(PRINT, RESUME, story.at, [SCAN, SLEEPS, 0, SCAN]));
            story.by(SCAN, SEMAPHORE_PUT, [REPLIES, if grows { round } else { 0 }, 0, 0]);
            story.by(SCAN, SLEEP, [1, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, PRINT);
        }
        story.findings(name)
    };
    let (code, confidence, claim) = first(&puts("threshold", true));
    assert_eq!((code.as_str(), confidence.as_str()), ("starvation", "hint"), "{claim}");
    assert!(claim.contains("Print (priority 20)") && claim.contains("was put 20 times and not taken"), "{claim}");
    let found = puts("threshold-taken", false);
    assert!(found.iter().all(|finding| finding["code"] != "starvation"), "{found:?}");
}

/// "Nothing wrong found": the reader of a queue waited for a semaphore, and the queue filled up and refused messages.
#[test]
fn a_full_queue_whose_reader_waits_for_a_semaphore_was_not_seen_in_a_trace_that_shows_how_it_filled() {
    const TRAYS: u64 = 0x2000_2600;
    const SEMAPHORE: u64 = 6;
    let found = |name: &str, sent: u64, is_flushed: bool| {
        let (stacks, semaphore) = (vec![(LINES, [16, 1])], Some((TRAYS, 1)));
        let mut story = Story { stacks, semaphore, ..Story::default() };
        let sends = |story: &mut Story, held: u64| {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, held]);
            story.by(SCAN, SLEEP, [10, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, 0);
        };
        for _ in 0..3 {
            story.by(BEAT, SEMAPHORE_PUT, [TRAYS, 0, 0, 0]);
            sends(&mut story, 0);
            story.wakes(PRINT, QUEUE);
            story.by(PRINT, SEMAPHORE_GET, [TRAYS, FOREVER, 1, 0]);
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
            story.blocks(PRINT, QUEUE, BEAT);
            story.goes_on(2);
        }
        sends(&mut story, 0);
        story.wakes(PRINT, QUEUE);
        story.by(PRINT, SEMAPHORE_GET, [TRAYS, FOREVER, 0, 0]);
        story.blocks(PRINT, SEMAPHORE, BEAT);
        for held in 0..sent {
            sends(&mut story, held.min(4));
            story.goes_on(2);
        }
        if is_flushed {
            sends(&mut story, 0);
        }
        story.findings(name)
    };
    let (code, confidence, claim) = first(&found("fills", 8, false));
    assert_eq!((code.as_str(), confidence.as_str()), ("event-never-set", "hint"), "{claim}");
    assert_eq!(
        claim,
        "Print waits for semaphore trays; meanwhile queue lines, which it reads, is full, and refused 4 messages"
    );
    let all = found("fills", 8, false);
    assert!(
        all[0].to_string().contains("Beat puts semaphore trays here for the last time, 3 times in the trace"),
        "{all:?}"
    );
    for all in [found("fills-room", 4, false), found("fills-flushed", 8, true)] {
        assert!(all.iter().all(|one| !one.to_string().contains("refused")), "{all:?}");
    }
}

/// "Nothing wrong found": a check of the program had failed, and it had disabled interrupts and stopped with the newest event.
#[test]
fn a_stop_by_the_only_call_that_disables_interrupts_was_not_seen() {
    let found = |name: &str, before: bool, behind: bool| {
        let mut story = Story::default();
        if before {
            story.by(BEAT, INTERRUPT_CONTROL, [1, 0, 0, 0]);
            story.by(BEAT, INTERRUPT_CONTROL, [0, 0, 0, 0]);
        }
        story.goes_on(40);
        story.wakes(SCAN, SLEEPS);
        story.by(SCAN, INTERRUPT_CONTROL, [1, 0, 0, 0]);
        if behind {
            story.goes_on(1);
        }
        story.findings(name)
    };
    let all = found("stops", false, false);
    let first = of_code(&all, "interrupts-masked").unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!((&first["rank"], &first["confidence"]), (&1.into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(
        claim.starts_with("Scan calls tx_interrupt_control(0x1) in the newest event, for the first time"),
        "{claim}"
    );
    for all in [found("stops-often", true, false), found("stops-not", false, true)] {
        assert!(of_code(&all, "interrupts-masked").is_none(), "{all:?}");
    }
}

/// "Nothing wrong found" in the trace of a queue in whose count a thread had stored a time, past the end of an array.
#[test]
fn a_queue_that_counted_more_than_it_has_room_for_was_not_seen() {
    // Four messages of one word.
    let found = |name: &str, counts: &[u64], room: u64| {
        let mut story = Story { stacks: vec![(LINES, [4 * room, 1])], ..Story::default() };
        story.goes_on(4);
        for count in counts {
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, TIME_GET, [2820, 0, 0, 0]);
            story.by(SCAN, QUEUE_SEND, [LINES, 0, 0, *count]);
            story.by(SCAN, SLEEP, [10, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, PRINT);
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, *count]);
            story.by(PRINT, SLEEP, [1, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, 0);
            story.wakes(PRINT, SLEEPS);
        }
        story.findings(name)
    };
    let all = found("overcount", &[0, 4, 2820, 2819], 4);
    let finding = all.first().expect("a finding");
    assert_eq!(
        (&finding["code"], &finding["confidence"]),
        (&"corrupt-control-block".into(), &"likely".into()),
        "{finding}"
    );
    let claim = finding["claim"].as_str().unwrap();
    assert!(claim.contains("counts 2820 messages and has room for 4"), "{claim}");
    assert!(claim.contains("2820 is the time that Scan reads in event"), "{claim}");
    // The queue is full, or has as much room.
    for all in [found("overcount-full", &[3, 4, 4, 4], 4), found("overcount-large", &[0, 4, 2820, 2819], 4000)] {
        assert!(of_code(&all, "corrupt-control-block").is_none(), "{all:?}");
    }
}

/// "Nothing wrong found": the wait was not four times as long as others, and 4 is a flag of its own, which no thread asks for.
#[test]
fn a_number_of_a_bit_that_is_a_flag_was_not_seen() {
    let found = |name: &str, last: u64, asks: u64, beats: u64| {
        let mut story = Story::default();
        // `flags`: what Print sets. Scan waits for 0x10.
        let round = |story: &mut Story, flags: u64, waits: u64| {
            story.by(SCAN, FLAGS_GET, [REPLIES, 0x10, 0, 1]);
            story.blocks(SCAN, FLAGS, BEAT);
            story.by(BEAT, FLAGS_GET, [REPLIES, 0x1 | asks, 0x1, 1]);
            story.goes_on(waits);
            story.wakes(PRINT, SLEEPS);
            story.by(PRINT, FLAGS_SET, [REPLIES, flags, 0, 1]);
            if flags == 0x10 {
                story.by(PRINT, RESUME, [SCAN, FLAGS, 0, SCAN]);
            }
            story.by(PRINT, SLEEP, [10, 0, 0, 0]);
            story.blocks(PRINT, SLEEPS, BEAT);
        };
        (0..5).for_each(|_| round(&mut story, 0x10, 12));
        round(&mut story, last, 6);
        story.goes_on(beats);
        story.findings(name)
    };
    let (code, confidence, claim) = first(&found("bit-number", 4, 0, 10));
    assert_eq!((code.as_str(), confidence.as_str()), ("wrong-event-mask", "likely"), "{claim}");
    let said = "Scan waits for 0x10 of queue replies, and Print has set 0x4 of it since: that is the number of the bit";
    assert!(claim.starts_with(said), "{claim}");
    let sure = |findings: Vec<Value>| {
        let found = of_code(&findings, "wrong-event-mask");
        found.is_some_and(|finding| finding["confidence"] == "likely")
    };
    assert!(!sure(found("bit-number-asked", 4, 4, 10)), "a thread asks for it");
    assert!(!sure(found("bit-number-soon", 4, 0, 0)), "a wait as long as others");
    assert!(!sure(found("bit-number-other", 8, 0, 10)), "another number");
}

/// The thread that waits for memory was the answer: who reads the queue that the blocks go through had not passed some of them on.
#[test]
fn a_reader_that_did_not_pass_its_blocks_on_was_not_seen() {
    const POOL: u64 = IMAGE;
    const MEMORY: u64 = 8;
    // `keeps`: in this round Print drops its message. `keeps_block`: in this one Scan keeps a block for itself.
    let found = |name: &str, keeps: &[u64], keeps_block: Option<u64>| {
        let mut story = Story::default();
        for round in 0..9 {
            let block = 0x2000_3000 + 0x40 * round;
            story.wakes(SCAN, SLEEPS);
            story.by(SCAN, BLOCK_ALLOCATE, [POOL, block, FOREVER, 9 - round]);
            if keeps_block == Some(round) {
                story.by(SCAN, SLEEP, [4, 0, 0, 0]);
                story.blocks(SCAN, SLEEPS, 0);
                continue;
            }
            story.by(SCAN, QUEUE_SEND, [LINES, 0, FOREVER, 0]);
            if round > 0 {
                story.by(SCAN, RESUME, [PRINT, QUEUE, 0, PRINT]);
            }
            story.by(SCAN, SLEEP, [4, 0, 0, 0]);
            story.blocks(SCAN, SLEEPS, PRINT);
            if round == 0 {
                story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 1]);
            }
            if keeps.contains(&round) {
                story.by(PRINT, FLAGS_SET, [BEAT, 0x100, 0, 0]);
            } else {
                story.by(PRINT, BLOCK_RELEASE, [POOL, block, 0, 0]);
            }
            story.by(PRINT, QUEUE_RECEIVE, [LINES, 0, FOREVER, 0]);
            story.blocks(PRINT, QUEUE, 0);
            story.goes_on(1);
        }
        story.wakes(SCAN, SLEEPS);
        story.by(SCAN, BLOCK_ALLOCATE, [POOL, 0, FOREVER, 0]);
        story.blocks(SCAN, MEMORY, 0);
        story.goes_on(30);
        story.findings(name)
    };
    let is_it = |finding: &Value| {
        let claim = finding["claim"].as_str().unwrap();
        finding["code"] == "pool-leak" && claim.contains("passed nothing on")
    };
    let leaks = found("not-passed-on", &[3, 6], None);
    let first = leaks.first().filter(|first| is_it(first)).unwrap_or_else(|| panic!("{leaks:?}"));
    let claim = first["claim"].as_str().unwrap();
    assert!(
        claim.contains("Scan waits for it: Print passed nothing on") && claim.contains("after 2 of 9 messages"),
        "{claim}"
    );
    assert_eq!(first["confidence"], "likely", "{claim}");
    let none = [
        found("not-passed-on-none", &[], None),
        found("not-passed-on-other", &[3], Some(6)),
        found("not-passed-on-most", &[1, 2, 3, 5, 6, 7], None),
    ];
    assert!(none.iter().flatten().all(|finding| !is_it(finding)), "{none:?}");
}

/// "Scan has ended", and the advice to put the semaphore on every path of it: another thread had terminated it.
#[test]
fn who_terminated_the_holder_of_a_semaphore_was_not_named() {
    const TRAYS: u64 = 0x2000_2600;
    const SEMAPHORE: u64 = 6;
    const TERMINATE: u64 = 115;
    let mut story = Story { semaphore: Some((TRAYS, 1)), ..Story::default() };
    for thread in [SCAN, PRINT, SCAN, PRINT, SCAN, PRINT] {
        story.wakes(thread, SLEEPS);
        story.by(thread, SEMAPHORE_GET, [TRAYS, FOREVER, 1, 0]);
        story.by(thread, SEMAPHORE_PUT, [TRAYS, 0, 0, 0]);
        story.by(thread, SLEEP, [4, 0, 0, 0]);
        story.blocks(thread, SLEEPS, 0);
    }
    story.wakes(SCAN, SLEEPS);
    story.by(SCAN, SEMAPHORE_GET, [TRAYS, FOREVER, 1, 0]);
    story.by(SCAN, SLEEP, [90, 0, 0, 0]);
    story.blocks(SCAN, SLEEPS, 0);
    story.wakes(BEAT, SLEEPS);
    story.by(BEAT, TERMINATE, [SCAN, SLEEPS, 0, 0]);
    story.by(BEAT, SLEEP, [15, 0, 0, 0]);
    story.blocks(BEAT, SLEEPS, 0);
    story.wakes(PRINT, SLEEPS);
    story.by(PRINT, SEMAPHORE_GET, [TRAYS, FOREVER, 0, 0]);
    story.blocks(PRINT, SEMAPHORE, 0);
    story.goes_on(30);
    let (code, confidence, claim) = first(&story.findings("holder-terminated"));
    let said = "Print waits for semaphore trays, which Scan holds; Scan was terminated by Beat";
    assert_eq!((code.as_str(), confidence.as_str(), claim.as_str()), ("lock-owner-gone", "likely", said));
}
