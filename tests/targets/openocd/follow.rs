//! `follow` over OpenOCD's Tcl port: every event once or in a count of lost ones, and nothing happens to the target.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::support::schema::Schema;

use super::*;

const RING: u32 = 256;
/// The id of the event that a test waits for.
const LAST: u32 = 4097;
const UNTIL_LAST: [&str; 4] = ["--until", "4097", "--for", "120s"];

/// A board whose program traces, and OpenOCD on it.
struct Board {
    chip: CortexM,
    openocd: OpenOcd,
}

/// A run of `follow`, read while it goes on.
struct Following {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
    reader: JoinHandle<()>,
}

impl Following {
    /// What it has shown so far.
    fn reported(&self) -> Reported {
        Reported::of(&self.lines.lock().unwrap())
    }

    /// Waits until it has shown this event or a later one.
    fn wait_for(&self, number: u32) {
        wait_for("the event", || self.reported().numbers.last() >= Some(&number));
    }

    /// Its exit code, all that it has shown, and its messages.
    fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        self.reader.join().unwrap();
        let mut messages = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, std::mem::take(&mut self.lines.lock().unwrap()), messages)
    }
}

impl Board {
    fn start() -> Option<Self> {
        Self::with_ring(RING)
    }

    fn with_ring(events: u32) -> Option<Self> {
        let (chip, openocd) = start(Setup { ring: Some(events), ..Setup::default() })?;
        Some(Self { chip, openocd })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
        command.arg("follow").args(words).args(["--format", "json", "--timeout", "20", "--elf"]).arg(self.chip.elf());
        command.args(["--remote", &self.openocd.openocd()]);
        command.env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Follows it from now on.
    fn follow(&self, words: &[&str]) -> Following {
        let mut child = self.command(words).spawn().unwrap();
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (output, shared) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
        let reader = std::thread::spawn(move || {
            let schema = Schema::new();
            for line in output.lines().map(Result::unwrap) {
                schema.check(&line).unwrap_or_else(|e| panic!("{e}"));
                shared.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let following = Following { child, lines, reader };
        // Its first line comes after its first look; a report has none.
        let report = words.contains(&"--report");
        wait_for("the first line", || report || !following.lines.lock().unwrap().is_empty());
        following
    }

    fn burst(&self, events: u32) {
        let before = self.chip.stats().next;
        self.chip.burst(events);
        wait_for("the burst", || self.chip.stats().next >= before + events);
    }

    /// An event in the kernel's order of stores, while the program has none of its own.
    fn insert(&self, id: u32, words: [u32; 4]) -> u32 {
        let at = |name| symbol(self.chip.elf(), name) as u32;
        let (current, header) = (at("_tx_trace_buffer_current_ptr"), self.chip.peek(at("_tx_trace_header_ptr")));
        let slot = self.chip.peek(current);
        let thread = self.chip.peek(at("_tx_thread_current_ptr"));
        let stamp = self.chip.peek(slot.checked_sub(20).unwrap()).wrapping_add(10);
        let words = [thread, 0x8005_0005, id, stamp, words[0], words[1], words[2], words[3]];
        for (i, word) in (0..).zip(words) {
            self.chip.poke(slot + 4 * i, word);
        }
        let next = slot + 32;
        let next = if next == self.chip.peek(header + 28) { self.chip.peek(header + 24) } else { next };
        self.chip.poke(current, next);
        self.chip.poke(header + 32, next);
        slot
    }

    /// Ends the events with the one that is waited for, and gives what was shown.
    fn end(&self, following: Following) -> Reported {
        self.chip.set_rate(0);
        // After this one none is under way.
        self.burst(1);
        following.wait_for(self.chip.stats().next - 1);
        self.insert(LAST, [0; 4]);
        let (code, lines, messages) = following.end();
        assert_eq!(code, Some(0), "{messages}");
        Reported::of(&lines)
    }

    /// What following does to a target: nothing.
    fn assert_untouched(&self) {
        let stats = self.chip.stats();
        assert_eq!(
            (self.chip.state(), stats.halts, stats.resets, stats.writes, stats.debug_enabled),
            (State::Running, 0, 0, vec![], true)
        );
    }
}

/// What was shown: each event is held against what the program wrote, and each gap against what is missing there.
#[derive(Debug, Default)]
struct Reported {
    numbers: Vec<u32>,
    gaps: Vec<u32>,
    restarts: usize,
}

impl Reported {
    fn of(lines: &[Value]) -> Self {
        let mut reported = Self::default();
        let mut lost: Option<(u32, bool)> = None;
        let mut restarted = false;
        for line in lines {
            if line["code"] == "events-lost" {
                let (count, at_least) = lost.unwrap_or((0, false));
                let more = line["message"].as_str().unwrap().starts_with("at least");
                lost = Some((count + line["count"].as_u64().unwrap() as u32, at_least || more));
            }
            if line["code"] == "trace-restarted" {
                (reported.restarts, restarted) = (reported.restarts + 1, true);
            }
            if line["type"] != "event" || line["id"] == LAST {
                continue;
            }
            let words: Vec<u32> = line["words"].as_array().unwrap().iter().map(number).collect();
            let n = if line["id"] == 4096 { words[0] } else { words[3] };
            let wanted = if n % 8 == 7 {
                [0x2000_1000, 0x2000_1100, u32::MAX, n]
            } else {
                [n, !n, n.wrapping_mul(2_654_435_761), 0x5354_524D]
            };
            assert_eq!(words, wanted, "torn: {line}");
            if let Some(last) = reported.numbers.last().filter(|_| !restarted) {
                let missing = n.checked_sub(last + 1).unwrap_or_else(|| panic!("shown twice: {line}"));
                let (count, at_least) = lost.unwrap_or((0, false));
                assert!(missing == count || at_least && missing > count, "{count} of {missing} were lost: {line}");
                reported.gaps.extend(lost.map(|_| missing));
            }
            (lost, restarted) = (None, false);
            reported.numbers.push(n);
        }
        reported
    }
}

fn number(word: &Value) -> u32 {
    u32::from_str_radix(word.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn follow_shows_every_event_of_a_running_program_once() {
    // It goes around in four seconds: time enough to be read on a busy machine.
    let Some(board) = Board::with_ring(2048) else { return };
    board.chip.set_rate(500);
    let following = board.follow(&UNTIL_LAST);
    wait_for("events", || following.reported().numbers.len() > 900);
    let reported = board.end(following);
    assert!(reported.gaps.is_empty(), "{reported:?}");
    board.assert_untouched();
}

#[test]
fn follow_counts_what_a_ring_loses_that_goes_around_between_two_looks() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&UNTIL_LAST);
    for laps in 1..6 {
        board.burst(20);
        following.wait_for(board.chip.stats().next - 1);
        // More than the ring holds, during one look or between two.
        board.chip.set_latency(Duration::from_millis(100));
        board.burst(RING * laps / 2 + 150);
        board.chip.set_latency(Duration::ZERO);
        let after = board.chip.stats().next;
        wait_for("an event after the gap", || {
            board.burst(1);
            following.reported().numbers.last() >= Some(&after)
        });
    }
    let reported = board.end(following);
    assert!(!reported.gaps.is_empty(), "{reported:?}");
    board.assert_untouched();
}

#[test]
fn follow_goes_on_after_openocd_was_started_anew() {
    let Some(mut board) = Board::start() else { return };
    let following = board.follow(&[&["--wait"], &UNTIL_LAST[..]].concat());
    board.burst(20);
    following.wait_for(19);
    board.openocd.restart();
    board.burst(30);
    following.wait_for(49);
    let reported = board.end(following);
    assert!(reported.gaps.is_empty() && reported.numbers.len() == 51, "{reported:?}");
    board.assert_untouched();
    // Without --wait the end of the link is the end.
    let following = board.follow(&["--for", "120s"]);
    board.openocd.restart();
    assert_eq!(following.end().0, Some(2));
}

#[test]
fn follow_waits_while_memory_has_no_power() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&[&["--wait"], &UNTIL_LAST[..]].concat());
    board.burst(20);
    following.wait_for(19);
    let off = || {
        let faults = board.chip.stats().faults;
        board.chip.fault(cortex_m::RING..cortex_m::RING + 0x1_0000);
        wait_for("a failed look", || board.chip.stats().faults > faults);
    };
    off();
    board.burst(30);
    board.chip.heal();
    following.wait_for(49);
    let reported = board.end(following);
    assert!(reported.gaps.is_empty() && reported.numbers.len() == 51, "{reported:?}");
    // Without --wait that is the end.
    let following = board.follow(&["--for", "120s"]);
    off();
    assert_eq!(following.end().0, Some(2));
    board.assert_untouched();
}

#[test]
fn follow_shows_no_event_of_which_only_a_part_is_stored() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&UNTIL_LAST);
    // Each look finds another part of an event.
    board.chip.stall(Duration::from_millis(3));
    board.burst(40);
    board.chip.stall(Duration::ZERO);
    let reported = board.end(following);
    assert!(reported.gaps.is_empty() && reported.numbers.len() == 41, "{reported:?}");
}

#[test]
fn follow_says_that_the_trace_began_anew_after_a_reset() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&[&["--wait"], &UNTIL_LAST[..]].concat());
    board.burst(20);
    following.wait_for(19);
    board.chip.reset();
    board.burst(10);
    wait_for("events after the reset", || {
        let reported = following.reported();
        reported.restarts > 0 && reported.numbers.last() >= Some(&9)
    });
    let reported = board.end(following);
    assert_eq!((reported.restarts, reported.numbers), (1, [Vec::from_iter(0..20), Vec::from_iter(0..11)].concat()));
    assert_eq!((board.chip.state(), board.chip.stats().halts), (State::Running, 0));
}

#[test]
fn follow_waits_for_words_that_the_kernel_fills_in_late() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&["--until", "1", "--for", "120s"]);
    board.burst(10);
    following.wait_for(9);
    // A thread becomes ready: who runs next is not filled in yet.
    let slot = board.insert(1, [0x2000_4ED8, 3, 0, 0]);
    let reads = board.chip.stats().reads;
    wait_for("a look at the event", || board.chip.stats().reads > reads + 16);
    board.chip.poke(slot + 28, 0x2000_9000);
    let (_, lines, messages) = following.end();
    let last = lines.iter().rfind(|l| l["type"] == "event").unwrap();
    assert_eq!((&last["id"], &last["words"][3]), (&1.into(), &"0x20009000".into()), "{last} {messages}");
}

#[test]
fn follow_ends_where_the_header_is_written_over() {
    let Some(board) = Board::start() else { return };
    let following = board.follow(&["--for", "120s"]);
    board.chip.poke(cortex_m::RING, 0x1234_5678);
    let (code, lines, messages) = following.end();
    assert_eq!((code, &lines.last().unwrap()["code"]), (Some(1), &"trace-changed".into()), "{messages}");
}

#[test]
fn follow_ends_in_order_at_ctrl_c_and_at_a_closed_pipe() {
    let Some(board) = Board::start() else { return };
    board.chip.set_rate(100);
    let mut child = board.command(&[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"trace\""));
    assert!(lines.next().unwrap().unwrap().contains("\"event\""));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(lines.last().unwrap().unwrap().contains("\"end\""));
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let mut child = board.command(&[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).contains("nobody reads")), (Some(0), false));
    board.assert_untouched();
}

/// The rows of `interval` among the lines.
fn intervals(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|r| r["report"] == "interval").collect()
}

/// Each interval counts its own events and no other.
fn assert_counts(lines: &[Value]) {
    for interval in intervals(lines) {
        let own = lines.iter().filter(|r| r["report"] == "services" && r["interval"] == interval["interval"]);
        let counted: u64 = own.map(|r| r["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(counted), interval["events"].as_u64(), "{interval}");
    }
}

#[test]
fn follow_reports_each_interval_and_counts_nothing_across_a_gap() {
    let Some(board) = Board::start() else { return };
    let words = ["--report", "services", "--every", "200ms"];
    let following = board.follow(&[&words, &UNTIL_LAST[..]].concat());
    let any = |which: fn(&Value) -> bool| intervals(&following.lines.lock().unwrap()).into_iter().any(which);
    wait_for("an interval with events", || {
        board.burst(1);
        any(|i| i["events"].as_u64() > Some(0))
    });
    // More than the ring holds, during one look or between two.
    board.chip.set_latency(Duration::from_millis(100));
    board.burst(RING + 150);
    board.chip.set_latency(Duration::ZERO);
    let has_lost = |i: &Value| i["lost_before"].as_u64() > Some(0) || i["lost_within"].as_u64() > Some(0);
    wait_for("an interval with a gap", || {
        board.burst(1);
        any(has_lost)
    });
    wait_for("the end", || {
        board.insert(LAST, [0; 4]);
        following.reader.is_finished()
    });
    let (code, lines, messages) = following.end();
    assert_eq!(code, Some(0), "{messages}");
    assert_counts(&lines);
    let is_part = |i: &Value| i["seen"].as_f64().is_some_and(|seen| seen < 100.0);
    assert!(intervals(&lines).iter().any(|i| has_lost(i) && is_part(i)), "{lines:?}");
}

/// Without events no interval was printed, and each gap printed one at once.
#[test]
fn intervals_came_with_events_and_gaps_and_not_with_time() {
    let Some(board) = Board::start() else { return };
    let quiet = board.follow(&["--report", "services", "--every", "250ms", "--for", "2600ms"]);
    let (code, lines, messages) = quiet.end();
    assert_eq!(code, Some(0), "{messages}");
    let rows = intervals(&lines);
    assert!((8..=11).contains(&rows.len()) && rows.iter().all(|i| i["events"] == 0), "{lines:?}");
    // Overrun at every look.
    board.chip.set_rate(20_000);
    board.chip.set_bandwidth(50_000);
    let (_, lines, _) = board.follow(&["--report", "services", "--every", "500ms", "--for", "3s"]).end();
    assert!((2..=7).contains(&intervals(&lines).len()), "{lines:?}");
    let messages = text(&run(&board.chip, &board.openocd.openocd(), &["follow", "--for", "3s"]).stderr);
    let reports = messages.lines().filter(|line| line.contains("overwritten")).count();
    assert!((1..=5).contains(&reports), "{messages}");
}

/// Where the ring went around at every look, no interval was ever printed.
#[test]
fn intervals_in_which_all_was_lost_were_not_printed() {
    let Some(board) = Board::start() else { return };
    // A look takes longer than the ring needs to go around.
    board.chip.set_rate(20_000);
    board.chip.set_bandwidth(50_000);
    let following = board.follow(&["--report", "services", "--every", "100ms", "--for", "3s", "--strict"]);
    let (code, lines, messages) = following.end();
    assert_eq!(code, Some(2), "{messages}");
    assert_counts(&lines);
    assert!(!intervals(&lines).is_empty(), "{lines:?}");
    for interval in intervals(&lines).iter().filter(|i| i["events"] == 0) {
        // No stamp shows how long it was.
        assert!(["from", "to", "ticks", "seen"].iter().all(|of| interval[of].is_null()), "{interval}");
    }
    let lost = |i: &Value| i["lost_before"].as_u64().unwrap() + i["lost_within"].as_u64().unwrap();
    let lost: u64 = intervals(&lines).iter().map(|i| lost(i)).sum();
    assert!(lost > u64::from(RING), "{lines:?}");
    assert!(messages.contains("at least"), "{messages}");
}

/// The head of the table stood above the error.
#[test]
fn an_event_that_does_not_exist_is_an_error_before_anything_is_printed() {
    let Some(board) = Board::start() else { return };
    for option in ["--until", "--event"] {
        let output = run(&board.chip, &board.openocd.openocd(), &["follow", option, "nosuch"]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("nosuch"), "{}", text(&output.stderr));
    }
}
