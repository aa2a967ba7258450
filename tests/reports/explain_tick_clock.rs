//! `explain` over a trace whose clock is made of a count of ticks and of the value of SysTick: `ticks * reload + (reload - VAL)`. The
//! handler of SysTick advances the count, so that the clock steps back by a period between the interrupt and its handler.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::explain;
use super::support::builder::{Buffer, Entry, Registered};
use super::support::machine::Scratch;
use super::support::threadx::{BASE, thread};

const WORKER: u64 = 0x2000_1000;
const FLAGS: u64 = 0x2000_2000;
/// Cycles from one tick to the next.
const RELOAD: u64 = 25_000;

// The kernel's numbers of events.
const ISR_ENTER: u64 = 3;
const ISR_EXIT: u64 = 4;
const SEMAPHORE_PUT: u64 = 83;

/// A run of so many ticks; `work`: calls of a thread in each.
struct Run {
    ticks: u64,
    work: u64,
    /// The handler takes so many cycles, and what is announced is true.
    handler: u64,
    is_by_ticks: bool,
}

impl Run {
    fn events(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        for tick in 1000..1000 + self.ticks {
            // Before its handler has counted it, a tick looks as the one before.
            let counted = if self.is_by_ticks { tick - 1 } else { tick };
            let late = 12 + tick % 3;
            all.push(Entry::isr(0, ISR_ENTER, counted * RELOAD + late, [0x2000_8000, 15, 0, 0]));
            all.push(Entry::isr(0, ISR_EXIT, tick * RELOAD + late + self.handler, [0x2000_8000, 15, 0, 0]));
            for n in 0..self.work {
                let at = tick * RELOAD + 400 + self.handler + 700 * n;
                all.push(Entry::thread(WORKER, 8, SEMAPHORE_PUT, at, [FLAGS, n, 0, 0]));
            }
        }
        all
    }

    fn findings(&self, name: &str) -> Vec<Value> {
        let events = self.events();
        let objects = vec![thread(WORKER, "Worker", 8), Registered::new(4, FLAGS, "done")];
        let buffer = Buffer { objects, ..Buffer::new(BASE) }.record(events.len() + 1, &events);
        let path = Scratch::new(name);
        let image = path.path("ram.bin");
        std::fs::write(&image, buffer.bytes()).unwrap();
        explain(&["--image", &format!("{}@{BASE:#x}", image.display())])
    }
}

/// SysTick "comes again as soon as it ends: 99 times in a row, and takes 100 % of the time".
#[test]
fn a_healthy_tick_that_advances_the_clock_was_called_a_storm() {
    for (work, name) in [(0, "tick-clock-idle"), (1, "tick-clock-call"), (9, "tick-clock-calls")] {
        let found = Run { ticks: 100, work, handler: 180, is_by_ticks: true }.findings(name);
        let wrong = |finding: &&Value| finding["code"] == "isr-storm" || finding["confidence"] != "hint";
        assert!(found.iter().find(wrong).is_none(), "{name}: {found:?}");
    }
}

/// With a clock of its own the same times are those of a storm.
#[test]
fn a_tick_that_takes_its_whole_period_is_a_storm() {
    let found = Run { ticks: 100, work: 0, handler: RELOAD - 200, is_by_ticks: false }.findings("tick-clock-storm");
    let first = found.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"isr-storm".into(), &"likely".into()), "{first}");
    let next = first["next"].as_str().unwrap();
    assert!(!next.contains("in its device") && next.contains("SYST_RVR"), "{next}");
}
