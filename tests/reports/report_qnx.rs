//! Reports of a QNX kernel's ring, built so that every number is known: larger priorities are the more urgent ones, free
//! locks are taken without an event, and threads belong to processes.

#![cfg(feature = "cli")]

use crate::support;

use std::path::PathBuf;
use std::process::Command;

use crate::support::qnx::{Kernel, text};
use serde_json::{Value, json};

const DRIVER: u32 = 4099;
const SHELL: u32 = 8196;
const LOCK: u32 = 0x0806_0040;
const HIGH: [u32; 4] = [DRIVER, 1, 40, 1];
const MID: [u32; 4] = [DRIVER, 2, 20, 1];
const LOW: [u32; 4] = [SHELL, 1, 10, 1];
/// Numbers of thread states.
const DEAD: u16 = 0;
const RUNNING: u16 = 1;
const READY: u16 = 2;
const RECEIVE: u16 = 5;
const NANOSLEEP: u16 = 12;
const MUTEX: u16 = 13;

struct Ring {
    kernel: Kernel,
    wide: bool,
}

impl Ring {
    /// A ring whose processes have their names.
    fn new(wide: bool, big: bool) -> Self {
        let mut kernel = Kernel::new(2, 700);
        kernel.big = big;
        for (pid, path) in [(DRIVER, "sbin/devb-eide"), (SHELL, "bin/esh")] {
            kernel.event(0, 10_000, 4, 192, &[&[1, pid][..], &text(path, big)].concat());
        }
        Self { kernel, wide }
    }

    fn thread(&mut self, at: u64, who: [u32; 4], state: u16) {
        self.on(0, at, who, state);
    }

    fn on(&mut self, cpu: u8, at: u64, who: [u32; 4], state: u16) {
        let words = if self.wide { &who[..] } else { &who[..2] };
        self.kernel.event(cpu, at, 4, state, words);
    }

    fn lock(&mut self, at: u64) {
        self.kernel.event(0, at, 2, 80, &[LOCK, 0x8000_0001]);
    }

    fn unlock(&mut self, at: u64) {
        self.kernel.event(0, at, 2, 81, &[LOCK, 0x8000_0001]);
    }

    /// The rows of the reports of a command.
    fn rows(&self, name: &str, line: &str) -> Vec<Value> {
        let place = format!("tx-trace-report-qnx-{}-{name}.bin", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(place);
        std::fs::write(&path, self.kernel.bytes()).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
            .args(line.split_whitespace())
            .args(["--format", "json"])
            .arg(&path)
            .output()
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        let lines = String::from_utf8(out.stdout).unwrap();
        let all = lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        all.filter(|l| l["type"] == "row").collect()
    }
}

/// The driver's urgent thread waits for a lock that the shell has, while the driver's other thread has the processor.
fn story(wide: bool, big: bool) -> Ring {
    let mut r = Ring::new(wide, big);
    r.thread(10_000, LOW, RUNNING);
    r.lock(11_000);
    r.thread(11_100, LOW, MUTEX);
    r.thread(11_100, MID, RUNNING);
    r.thread(12_000, HIGH, READY);
    r.thread(12_100, HIGH, RUNNING);
    r.lock(13_000);
    // Whose lock it is no event has reported: MID took it while it was free.
    r.thread(13_100, HIGH, MUTEX);
    r.thread(13_100, MID, RUNNING);
    r.unlock(14_000);
    // From here the shell has it, as the driver waits still.
    r.thread(14_100, LOW, READY);
    r.thread(16_000, MID, RECEIVE);
    r.thread(16_000, LOW, RUNNING);
    r.unlock(17_000);
    r.thread(17_100, HIGH, READY);
    r.thread(17_100, HIGH, RUNNING);
    // Nobody waits any more: who has the lock is not reported.
    r.thread(18_000, HIGH, NANOSLEEP);
    r.thread(18_000, LOW, RUNNING);
    r.kernel.event(0, 19_000, 3, 1, &[14, 0xF00A_1000]);
    r.kernel.event(0, 19_100, 3, 2, &[14, 1]);
    r.kernel.event(0, 20_000, 2, 14, &[3, 1]);
    r
}

fn of<'r>(rows: &'r [Value], report: &str) -> Vec<&'r Value> {
    rows.iter().filter(|r| r["report"] == report).collect()
}

fn pairs(rows: &[&Value], name: &str, columns: &[&str]) -> Vec<(String, Vec<Value>)> {
    let one = |r: &&Value| {
        let who = r[name]["name"].as_str().unwrap_or("").to_owned();
        (who, columns.iter().map(|c| r[*c].clone()).collect())
    };
    rows.iter().map(one).collect()
}

#[test]
fn the_time_of_processes_is_that_of_their_threads() {
    for (wide, big) in [(true, false), (false, true)] {
        let rows = story(wide, big).rows(&format!("profile-{wide}"), "profile");
        let whole = |ticks: i64| json!(ticks);
        assert_eq!(
            pairs(&of(&rows, "profile"), "who", &["ticks"]),
            [("esh:1", 4100), ("devb-eide:2", 3900), ("devb-eide:1", 1900), ("isr", 100)]
                .map(|(who, ticks)| (who.to_owned(), vec![whole(ticks)]))
        );
        assert_eq!(
            pairs(&of(&rows, "profile_processes"), "process", &["kind", "threads", "ticks", "share"]),
            [
                ("devb-eide".to_owned(), vec![json!("process"), json!(2), json!(5800), json!(58)]),
                ("esh".to_owned(), vec![json!("process"), json!(1), json!(4100), json!(41)]),
                ("isr".to_owned(), vec![json!("isr"), Value::Null, json!(100), json!(1)]),
            ]
        );
    }
}

#[test]
fn processes_are_reported_by_core() {
    let mut r = story(true, false);
    r.on(1, 10_000, [1, 2, 0, 1], RUNNING);
    r.on(1, 14_000, [DRIVER, 3, 15, 1], RUNNING);
    r.kernel.event(1, 20_000, 2, 14, &[3, 1]);
    let rows = r.rows("smp", "profile");
    let of_core = |report: &str, core: u64| -> Vec<i64> {
        of(&rows, report).iter().filter(|r| r["core"] == core).map(|r| r["ticks"].as_i64().unwrap()).collect()
    };
    assert_eq!(of_core("profile_processes", 0), [5800, 4100, 100]);
    assert_eq!(of_core("profile_processes", 1), [6000, 4000]);
    for core in [0, 1] {
        let sum = |report| of_core(report, core).iter().sum::<i64>();
        assert_eq!((sum("profile"), sum("profile_processes")), (10_000, 10_000), "core {core}");
    }
}

#[test]
fn larger_priorities_are_the_more_urgent() {
    let rows = story(true, false).rows("inversions", "inversions");
    let columns =
        ["ticks", "ended", "deterministic", "waiter_priority", "owner_priority", "owner_ticks", "culprit_ticks"];
    let values = vec![json!(2900), json!("released"), json!(false), json!(40), json!(10), json!(1000), json!(1900)];
    assert_eq!(pairs(&of(&rows, "inversions"), "waiter", &columns), [("devb-eide:1".to_owned(), values)]);
    assert_eq!(rows[0]["owner"]["name"], "esh:1");
    assert_eq!(rows[0]["culprit"]["name"], "devb-eide:2");
    let rows = story(true, false).rows("preemptions", "stats");
    let counter = |name: &str| rows.iter().find(|r| r["counter"] == name).unwrap()["value"].clone();
    assert_eq!(counter("preemptions"), 2);
    for unknown in ["time_slices", "time_slice_events", "yields", "idle_entries", "context_switches_from_idle"] {
        assert_eq!(counter(unknown), Value::Null, "{unknown}: no event of this system tells it");
    }
    // Without priorities nothing is judged, and nothing is zero.
    let rows = story(false, false).rows("fast", "stats");
    let counter = |name: &str| rows.iter().find(|r| r["counter"] == name).unwrap()["value"].clone();
    assert_eq!((counter("preemptions"), counter("switches_unexplained")), (Value::Null, json!(2)));
    assert_eq!(story(false, false).rows("fast-inversions", "inversions").len(), 0);
}

/// Who was given a lock gives it back without an event where nobody waits, and anybody takes it so.
#[test]
fn an_owner_that_may_have_given_the_lock_back_is_not_blamed() {
    let mut r = Ring::new(true, false);
    r.thread(10_000, LOW, RUNNING);
    r.lock(11_000);
    r.thread(11_100, LOW, MUTEX);
    r.thread(11_100, MID, RUNNING);
    r.unlock(12_000);
    r.thread(12_100, LOW, READY);
    r.thread(13_000, MID, RECEIVE);
    r.thread(13_000, LOW, RUNNING);
    r.thread(14_000, LOW, RECEIVE);
    r.thread(14_000, HIGH, RUNNING);
    r.lock(15_000);
    r.thread(15_100, HIGH, MUTEX);
    r.thread(15_100, MID, RUNNING);
    r.thread(19_000, MID, DEAD);
    assert_eq!(r.rows("quiet", "inversions"), Vec::<Value>::new());
}

#[test]
fn waits_and_latencies() {
    let ring = story(true, false);
    let rows = ring.rows("blocked", "blocked");
    let all: Vec<Value> = rows
        .iter()
        .map(|r| {
            json!([r["thread"]["name"], r["object"]["name"], r["open"], r["count"], r["total"], r["woken_by"]["name"]])
        })
        .collect();
    let object = Value::Null;
    assert_eq!(
        all,
        [
            json!(["devb-eide:2", "thread_receive", 4000, 0, null, null]),
            json!(["devb-eide:1", "thread_nanosleep", 2000, 0, null, null]),
            json!(["devb-eide:1", object, null, 1, 4000, "esh:1"]),
            json!(["esh:1", object, null, 1, 3000, "devb-eide:2"]),
        ]
    );
    let rows = ring.rows("latency", "latency");
    let threads = pairs(&of(&rows, "latency_threads"), "thread", &["count", "min", "max"]);
    assert_eq!(
        threads,
        [
            ("esh:1".to_owned(), vec![json!(1), json!(1900), json!(1900)]),
            ("devb-eide:1".to_owned(), vec![json!(2), json!(0), json!(100)]),
        ]
    );
    let interrupts = of(&rows, "latency_interrupts");
    assert_eq!((&interrupts[0]["interrupt"], &interrupts[0]["max"]), (&json!(14), &json!(100)));
}

/// On rings of real kernels the parts add up to the whole, and processes to their threads.
#[test]
fn real_rings_add_up() {
    let Some(dir) = support::real_traces() else { return };
    for name in ["qnx641-fast-all-ring4.bin", "qnx641-wide-all-ring4.bin"] {
        let out = Command::new(env!("CARGO_BIN_EXE_tx-trace"))
            .args(["profile", "--format", "json"])
            .arg(dir.join("qnx").join(name))
            .output()
            .unwrap();
        let lines = String::from_utf8(out.stdout).unwrap();
        let rows: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let sum = |report| of(&rows, report).iter().map(|r| r["ticks"].as_i64().unwrap()).sum::<i64>();
        assert!(sum("profile") > 0, "{name}");
        assert_eq!(sum("profile"), sum("profile_processes"), "{name}");
        let shares: f64 = of(&rows, "profile_processes").iter().map(|r| r["share"].as_f64().unwrap()).sum();
        assert!((shares - 100.0).abs() < 0.01, "{name}: {shares}");
    }
}
