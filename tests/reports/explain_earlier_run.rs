//! `explain` over a trace whose buffer still has events of the run before a reset.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_circles::MUTEX_GET;
use super::explain_failures::explain;
use super::support::builder::{Buffer, Entry, Registered};
use super::support::machine::Scratch;
use super::support::threadx::{BASE, thread};

const PUMP: u64 = 0x2000_1000;
const LEVEL: u64 = 0x2000_2000;
const VALVE: u64 = 0x2000_3000;
// The kernel's numbers of events.
const RUNNING: u64 = 6;

/// A run of 64 slots, over which another one begins in `kept` as many slots: with two events that `begins` makes.
fn findings(name: &str, kept: usize, begins: fn(u64) -> Entry) -> Vec<Value> {
    let objects = vec![thread(PUMP, "pump", 5), thread(LEVEL, "level", 9), Registered::new(5, VALVE, "valve")];
    let mut stamp = 90_000;
    let old: Vec<Entry> = (0..100u64)
        .map(|i| {
            stamp += 100;
            let (who, priority) = if i % 3 == 0 { (PUMP, 5) } else { (LEVEL, 9) };
            Entry::thread(who, priority, MUTEX_GET, stamp, [VALVE, 0, 0, 0])
        })
        .collect();
    let mut buffer = Buffer { objects, ..Buffer::new(BASE) }.record(64, &old);
    buffer.slots.iter_mut().for_each(|slot| slot.context = 0);
    buffer.slots.iter_mut().take(2).zip([10, 20]).for_each(|(slot, stamp)| *slot = begins(stamp));
    buffer.slots.iter_mut().skip(2 + kept).for_each(|slot| *slot = Entry::UNUSED);
    buffer.current = 2;
    let scratch = Scratch::new(name);
    let path = scratch.path("ram.bin");
    std::fs::write(&path, buffer.bytes()).unwrap();
    explain(&["--all", "--image", &format!("{}@{BASE:#x}", path.display())])
}

fn is_reset(finding: &Value) -> bool {
    finding["code"] == "reset"
}

/// "Nothing wrong found": the board had been reset, and all that was left of what went wrong were slots of the ring that the new run had
/// not written.
#[test]
fn a_reset_that_is_over_was_not_seen() {
    let initialisation = |stamp| Entry::init(RUNNING, stamp, [0; 4]);
    let all = findings("earlier-run", 62, initialisation);
    let reset = all.iter().find(|finding| is_reset(finding)).expect("a finding");
    assert_eq!(reset["confidence"], "hint");
    let claim = reset["claim"].as_str().unwrap();
    assert!(claim.contains("still has 62 events of that run"), "{claim}");
    assert!(claim.contains("tx_mutex_get mutex=valve, perhaps by pump?"), "{claim}");
    assert!(!findings("earlier-run-few", 8, initialisation).iter().any(is_reset), "few may be of anything");
    let by_thread = |stamp| Entry::thread(LEVEL, 9, RUNNING, stamp, [0; 4]);
    assert!(!findings("earlier-run-thread", 62, by_thread).iter().any(is_reset), "a thread may enable it again");
}
