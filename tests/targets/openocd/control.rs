//! `control` over OpenOCD's GDB port: what it does to a program that traces while it runs, asked of the chip.

use super::*;

/// A board that writes 1000 events a second into a ring of 256.
struct Board {
    chip: CortexM,
    openocd: OpenOcd,
}

impl Board {
    fn start() -> Option<Self> {
        let (chip, openocd) = start(Setup { rate: 1000, ring: Some(256), ..Setup::default() })?;
        wait_for("a full ring", || chip.stats().events > 300);
        Some(Self { chip, openocd })
    }

    /// Runs `control`, which succeeds, and gives what it says and what it wrote. The target runs on.
    fn control(&self, words: &[&str]) -> (String, Vec<Write>) {
        self.chip.clear_stats();
        let words = [&["control"], words, &["--yes", "--leave", "running"]].concat();
        let output = run(&self.chip, &self.openocd.gdb(), &words);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}{}", self.openocd.log());
        let stats = self.chip.stats();
        assert_eq!((self.chip.state(), stats.halts, stats.resets), (State::Running, 1, 0), "{words:?}: {said}");
        (said, stats.writes)
    }

    fn symbol(&self, name: &str) -> u32 {
        symbol(self.chip.elf(), name) as u32
    }

    /// From now on events come only when they are asked for: no halt comes in the middle of one.
    fn settle(&self) {
        self.chip.set_rate(0);
        self.calls(1);
    }

    /// Lets the firmware make so many calls more, and gives how many of them it traced, masked, and left out as paused.
    fn calls(&self, count: u32) -> [u32; 3] {
        let before = self.chip.stats();
        self.chip.burst(count);
        wait_for("the calls", || self.chip.stats().next >= before.next + count);
        let after = self.chip.stats();
        [after.events - before.events, after.masked - before.masked, after.paused - before.paused]
    }
}

#[test]
fn control_show_writes_nothing() {
    let Some(board) = Board::start() else { return };
    let (said, writes) = board.control(&["show"]);
    assert!(said.contains("256 events") && said.contains("0xffffffff"), "{said}");
    assert_eq!(writes, []);
}

#[test]
fn control_off_and_on_change_what_the_running_program_traces() {
    let Some(board) = Board::start() else { return };
    let mask = board.symbol("_tx_trace_event_enable_bits");
    let (said, writes) = board.control(&["off", "user"]);
    assert!(writes.iter().all(|w| w.address == mask) && !writes.is_empty(), "{writes:x?} {said}");
    assert_eq!(board.chip.peek(mask), 0x7FFF_FFFF);
    // Seven calls of eight are user events.
    let [traced, masked, _] = board.calls(80);
    assert!(masked >= 70 && traced >= 10, "{traced} {masked}");
    let (_, writes) = board.control(&["on", "all"]);
    assert!(writes.iter().all(|w| w.address == mask) && !writes.is_empty(), "{writes:x?}");
    assert_eq!(board.chip.peek(mask), 0xFFFF_FFFF);
    let [traced, masked, _] = board.calls(80);
    assert!(traced >= 80 && masked == 0, "{traced} {masked}");
}

#[test]
fn control_pause_and_resume_stop_and_start_the_trace_of_the_running_program() {
    let Some(board) = Board::start() else { return };
    board.settle();
    let current = board.symbol("_tx_trace_buffer_current_ptr");
    let header = board.chip.peek(board.symbol("_tx_trace_header_ptr"));
    let (said, writes) = board.control(&["pause"]);
    assert!(writes.iter().all(|w| w.address == current) && !writes.is_empty(), "{writes:x?} {said}");
    assert_eq!(board.chip.peek(current), 0);
    let at = board.chip.peek(header + 32);
    let [traced, _, paused] = board.calls(80);
    assert!(traced == 0 && paused >= 80, "{traced} {paused}");
    let (said, writes) = board.control(&["resume"]);
    assert!(writes.iter().all(|w| w.address == current && w.value == at), "{writes:x?} {said}");
    let [traced, _, paused] = board.calls(80);
    assert!(traced >= 80 && paused == 0, "{traced} {paused}");
}

#[test]
fn control_mark_inserts_one_event_before_the_next_of_the_program() {
    let Some(board) = Board::start() else { return };
    board.settle();
    let current = board.symbol("_tx_trace_buffer_current_ptr");
    let header = board.chip.peek(board.symbol("_tx_trace_header_ptr"));
    let slot = board.chip.peek(current);
    let (said, writes) = board.control(&["mark", "5001", "7", "8"]);
    let places = [slot..slot + 32, current..current + 4, header + 32..header + 36];
    assert!(writes.iter().all(|w| places.iter().any(|p| p.contains(&w.address))), "{writes:x?} {said}");
    assert_eq!([slot + 8, slot + 16, slot + 20].map(|at| board.chip.peek(at)), [5001, 7, 8]);
    assert_eq!(board.chip.peek(current), board.chip.peek(header + 32));
    board.calls(1);
    let list = run(&board.chip, &board.openocd.openocd(), &["last", "2", "--format", "json"]);
    let ids: Vec<_> = events(&list.stdout).iter().map(|e| e["id"].as_u64().unwrap()).collect();
    assert!(ids[0] == 5001 && ids[1] != 5001, "{ids:?}");
}
