//! Addresses that are wrong: a wrong ELF, a wrong `--symbol`. Each was written to, "written, and read back", exit 0.

use tx_trace::control::{Destination, check_call};
use tx_trace::error::Error;
use tx_trace::mem::Region;

use super::*;

const MASK: &str = "_tx_trace_event_enable_bits";
const CURRENT: &str = "_tx_trace_buffer_current_ptr";

/// A 32-bit little-endian ELF whose symbol table can be changed.
struct Program(Vec<u8>);

impl Program {
    fn cm3() -> Self {
        Self(std::fs::read(fixture("cm3.elf")).unwrap())
    }

    fn word(&self, at: usize) -> usize {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap()) as usize
    }

    fn half(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    /// The header of section number `index`.
    fn section(&self, index: usize) -> usize {
        self.word(32) + index * self.half(46)
    }

    /// Where the entry of a symbol is: its name, value and size are its first three words.
    fn entry(&self, name: &str) -> usize {
        let table = (0..self.half(48)).map(|i| self.section(i)).find(|s| self.word(s + 4) == 2).unwrap();
        let strings = self.word(self.section(self.word(table + 24)) + 16);
        let mut entries = (self.word(table + 16)..).step_by(16).take(self.word(table + 20) / 16);
        let named = format!("{name}\0");
        entries.find(|e| self.0[strings + self.word(*e)..].starts_with(named.as_bytes())).unwrap()
    }

    fn put(mut self, at: usize, value: u64) -> Self {
        self.0[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
        self
    }

    fn at(self, name: &str, address: u64) -> Self {
        let entry = self.entry(name);
        self.put(entry + 4, address)
    }

    fn sized(self, name: &str, size: u64) -> Self {
        let entry = self.entry(name);
        self.put(entry + 8, size)
    }

    /// Replaces the first word of this value in a function's literals. The code is at 0x1000 in the file.
    fn literal(self, function: &str, from: u64, to: u64) -> Self {
        let begin = 0x1000 + (self.word(self.entry(function) + 4) & !1);
        let from = (from as u32).to_le_bytes();
        let at = (begin..self.0.len()).step_by(4).find(|at| self.0[*at..*at + 4] == from).unwrap();
        self.put(at, to)
    }

    fn write(&self, scratch: &tools::Scratch) -> PathBuf {
        let path = PathBuf::from(scratch.path("program.elf"));
        std::fs::write(&path, &self.0).unwrap();
        path
    }
}

/// Plans an action and checks it, with a program and symbols as given.
fn checked(
    target: &Target,
    elf: Option<&Program>,
    symbols: &[(&str, u64)],
    ranges: &[Region],
    action: Action,
) -> Result<usize, Error> {
    let scratch = tools::Scratch::new();
    let symbols = symbols.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
    let inputs = Inputs { elf: elf.map(|elf| elf.write(&scratch)), symbols, ..Inputs::default() };
    let mut memory = target.memory();
    let mut session = inputs.over("ram", &mut memory).unwrap();
    let state = State::read(&mut session)?;
    let plan = plan(&mut session, &state, action)?;
    check(&mut session, &state, plan, ranges).map(|checked| checked.changes().len())
}

const OFF: Action = Action::Off(0x40);

#[track_caller]
fn is_refused(result: Result<usize, Error>, code: &str, words: &[&str]) {
    let error = result.unwrap_err();
    let said = format!("{error} {}", error.hint);
    assert!(error.code.name() == code && !error.is_not_found(), "{error:?}");
    assert!(!error.message.contains('\n') && !error.hint.is_empty(), "{error:?}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn every_action_passes_its_checks_where_nothing_is_wrong() {
    let target = Target::new();
    let paused = target.clone().set(CURRENT, 0);
    let simulated = target.clone().set("_tx_trace_simulated_time", target.slot(1)[3]);
    for (target, action, writes) in [
        (&target, OFF, 1),
        (&target, Action::On(1), 0),
        (&target, Action::Only(0x67), 1),
        (&target, Action::Pause, 1),
        (&paused, Action::Resume, 1),
        (&target, MARK, 3),
        (&simulated, MARK, 4),
    ] {
        assert_eq!(checked(target, Some(&Program::cm3()), &[], &[], action).unwrap(), writes, "{action:?}");
    }
    // Without section headers there are no symbols either, and segments tell what the program writes.
    let cut = Program::cm3().put(32, 0);
    let names = ["_tx_trace_header_ptr", CURRENT, MASK].map(|name| (name, Target::at(name)));
    assert_eq!(checked(&target, Some(&cut), &names, &[], OFF).unwrap(), 1);
}

#[test]
fn a_wrong_event_mask_address_overwrote_a_thread_block() {
    let target = Target::new();
    let (header, watchdog) = (Target::at("trace_buffer"), Target::at("watchdog"));
    let ring = u64::from(target.word(header + 24));
    for (address, said) in [
        (watchdog, "watchdog"),
        (watchdog + 8, "watchdog"),
        (header, "trace"),
        (header + 32, "trace"),
        (header + 48, "registry"),
        (ring + 64, "ring"),
        (Target::at("_tx_thread_current_ptr"), "_tx_thread_current_ptr"),
        (Target::at(CURRENT), CURRENT),
        (Target::at(MASK) + 2, "not aligned"),
        (Target::at("log_queue") + 4, "log_queue"),
        (Target::at("stacks") + 64, "stack"),
        (0x100, ""),
        (Target::at("fw_counters") + 4, "fw_counters"),
    ] {
        // A program with a wrong symbol; what is there is memory of something else.
        let program = Program::cm3().at(MASK, address);
        // The code is in no RAM image: the word there is given.
        let there = if address == 0x100 { target.clone().with(address, 0x40) } else { target.clone() };
        is_refused(checked(&there, Some(&program), &[], &[], Action::Only(0x1234)), "wrong-address", &[MASK, said]);
        // A typed address beside a program that knows better.
        let typed = [(MASK, address)];
        let said = if said == "not aligned" { said } else { "not where the ELF has it" };
        let result = checked(&there, Some(&Program::cm3()), &typed, &[], Action::Only(0x1234));
        is_refused(result, "wrong-address", &[MASK, said, &format!("{address:#x}")]);
    }
}

/// The current pointer was taken for a mask without these bits: "the mask is 0x20006c3c already", exit 0.
#[test]
fn a_wrong_event_mask_address_was_called_done_already() {
    let target = Target::new();
    let at = Target::at(CURRENT);
    assert_eq!(target.word(at) & 0x40, 0);
    let result = checked(&target, Some(&Program::cm3()), &[(MASK, at)], &[], OFF);
    is_refused(result, "wrong-address", &[MASK, "not where the ELF has it"]);
    let right = target.clone().with(Target::at(MASK), 0xFFFF_FFBF);
    assert_eq!(checked(&right, Some(&Program::cm3()), &[], &[], OFF).unwrap(), 0);
}

/// Without a program the kernel's lists and the trace itself tell what must not be written.
#[test]
fn a_typed_address_overwrote_a_control_block() {
    let target = Target::new();
    let names = |more: &[&'static str], mask: u64| -> Vec<(&'static str, u64)> {
        let usual = ["_tx_trace_header_ptr", CURRENT, "_tx_trace_buffer_start_ptr", "_tx_trace_buffer_end_ptr"];
        let known = usual.iter().chain(more).map(|name| (*name, Target::at(name)));
        known.chain([(MASK, mask)]).collect()
    };
    let lists =
        ["_tx_thread_created_ptr", "_tx_thread_created_count", "_tx_queue_created_ptr", "_tx_queue_created_count"];
    let ram = [Region { start: RAM, len: 0x8000 }];
    let header = Target::at("trace_buffer");
    for (address, said) in [
        (Target::at("watchdog"), "control block"),
        (Target::at("log_queue") + 4, "control block"),
        (Target::at("_tx_timer_thread") + 8, "control block"),
        (header + 4, "header"),
        (header + 32, "header"),
        (header + 64, "registry"),
        (header + 0x24a0, "ring"),
        (Target::at(MASK) + 1, "not aligned"),
    ] {
        // With the kernel's lists, and with the registry alone.
        for more in [&lists[..], &[]] {
            let result = checked(&target, None, &names(more, address), &ram, Action::Only(0x1234));
            is_refused(result, "wrong-address", &[MASK, said]);
        }
    }
    // Another variable of the kernel: one that was typed too, and pointers that nobody named.
    let current = names(&[], Target::at(CURRENT));
    is_refused(checked(&target, None, &current, &[], Action::Only(1)), "wrong-address", &[CURRENT]);
    for name in ["_tx_thread_current_ptr", "_tx_thread_execute_ptr", "_tx_trace_registry_start_ptr"] {
        let result = checked(&target, None, &names(&[], Target::at(name)), &[], Action::Only(1));
        is_refused(result, "wrong-address", &[MASK, "a pointer of the kernel"]);
    }
    // Beside a control block it is RAM; elsewhere it is not known to be, until it is named.
    let right = Target::at(MASK);
    assert_eq!(checked(&target, None, &names(&[], right), &[], OFF).unwrap(), 1);
    let apart = names(&[], 0x2000_7804);
    is_refused(checked(&target, None, &apart, &[], Action::Only(1)), "not-ram", &[MASK, "--range"]);
    let half = [Region { start: RAM, len: 0x7806 }];
    is_refused(checked(&target, None, &apart, &half, Action::Only(1)), "not-ram", &[MASK]);
    assert_eq!(checked(&target, None, &apart, &ram, Action::Only(1)).unwrap(), 1);
}

/// One that was unregistered, or created while the registry was full, is found by its first word and its link.
#[test]
fn a_control_block_that_the_registry_does_not_name() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let names: Vec<_> = ["_tx_trace_header_ptr", CURRENT].map(|name| (name, Target::at(name))).into();
    let ram = [Region { start: RAM, len: 0x8000 }];
    let at = |address: u64| [&names[..], &[(MASK, address)]].concat();
    for block in ["watchdog", "log_queue", "bus_mutex"] {
        let address = Target::at(block);
        let registry = u64::from(target.word(header + 12));
        let entry = (registry..).step_by(48).find(|e| u64::from(target.word(*e + 4)) == address).unwrap();
        let gone = target.clone().with(entry, target.word(entry) | 1);
        for inside in [address, address + 8, address + 32] {
            let result = checked(&gone, None, &at(inside), &ram, Action::Only(0x1234));
            is_refused(result, "wrong-address", &["control block", &format!("{address:#x}")]);
        }
    }
    // A word that only looks like one, as code that creates threads has it.
    let literal = target.with(0x2000_7780, 0x5448_5244);
    assert_eq!(checked(&literal, None, &at(0x2000_7784), &ram, Action::Only(1)).unwrap(), 1);
}

#[test]
fn a_symbol_of_another_size_wrote_over_its_neighbour() {
    let target = Target::new();
    for size in [2, 8, 12] {
        let program = Program::cm3().sized(MASK, size);
        is_refused(checked(&target, Some(&program), &[], &[], OFF), "wrong-address", &[MASK, "bytes in the ELF"]);
    }
    // One without a size is the variable that it names; a neighbour without one reaches to the next symbol.
    assert_eq!(checked(&target, Some(&Program::cm3().sized(MASK, 0)), &[], &[], OFF).unwrap(), 1);
    let neighbour = Program::cm3().sized("_tx_trace_simulated_time", 0);
    assert_eq!(checked(&target, Some(&neighbour), &[], &[], OFF).unwrap(), 1);
    let over = Program::cm3().sized("_tx_trace_simulated_time", 8);
    is_refused(checked(&target, Some(&over), &[], &[], OFF), "wrong-address", &["_tx_trace_simulated_time"]);
    let over = Program::cm3().sized("_tx_trace_simulated_time", 0).at("_tx_trace_simulated_time", Target::at(MASK));
    is_refused(checked(&target, Some(&over), &[], &[], OFF), "wrong-address", &["_tx_trace_simulated_time"]);
}

/// A program that hides whose memory it is.
#[test]
fn a_thread_block_without_a_symbol_was_written_over() {
    let target = Target::new();
    let program = Program::cm3();
    let section = program.entry("watchdog") + 12;
    let absolute = program.word(section) as u64 & 0xFFFF | 0xFFF1_0000;
    let hidden = program.put(section, absolute);
    for offset in [0, 4, 44] {
        let program = Program(hidden.0.clone()).at(MASK, Target::at("watchdog") + offset);
        let result = checked(&target, Some(&program), &[], &[], Action::Only(0x1234));
        is_refused(result, "wrong-address", &[MASK, "control block"]);
    }
}

#[test]
fn a_variable_in_memory_that_the_program_does_not_write() {
    let target = Target::new();
    // The same program, whose .bss nobody may write.
    let program = Program::cm3();
    let bss = (0..program.half(48))
        .map(|i| program.section(i))
        .find(|s| program.word(s + 4) == 8 && program.word(s + 12) as u64 <= Target::at(MASK));
    let read_only = program.put(bss.unwrap() + 8, 2);
    is_refused(checked(&target, Some(&read_only), &[], &[], OFF), "not-ram", &["does not write"]);
    let all = [Region { start: 0, len: u64::MAX }];
    is_refused(checked(&target, Some(&read_only), &[], &all, OFF), "not-ram", &["does not write"]);
}

/// An ELF of another build, by its build id and by its version string in memory.
#[test]
fn the_elf_of_another_build_was_written_by() {
    let target = Target::new();
    let program = Program::cm3();
    let note = 0x28b4;
    let there: Vec<u64> = (0..9).map(|i| program.word(0x38b4 + 4 * i) as u64).collect();
    let loaded = |words: &[u64]| {
        let each = words.iter().enumerate();
        each.fold(target.clone(), |t, (i, word)| t.with(note + 4 * i as u64, *word as u32))
    };
    assert_eq!(checked(&loaded(&there), Some(&program), &[], &[], OFF).unwrap(), 1);
    let mut other = there.clone();
    other[8] ^= 1;
    let code = "elf-mismatch";
    is_refused(checked(&loaded(&other), Some(&program), &[], &[], OFF), code, &["build id", "of another build"]);
    // Where nothing was loaded, nothing is reported.
    assert_eq!(checked(&loaded(&[0; 9]), Some(&program), &[], &[], OFF).unwrap(), 1);
    for action in [Action::Pause, MARK, Action::Only(1)] {
        is_refused(checked(&loaded(&other), Some(&program), &[], &[], action), code, &["nothing is written"]);
    }
}

/// What `resume` writes is a slot of the ring, or it is not written.
#[test]
fn a_pointer_that_leads_to_no_slot() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let (start, end) = (u64::from(target.word(header + 24)), u64::from(target.word(header + 28)));
    target.ask(|session| {
        let state = State::read(session).unwrap();
        for (value, right) in [
            (0, true),
            (start, true),
            (end - 32, true),
            (end, false),
            (start - 32, false),
            (start + 4, false),
            (1, false),
        ] {
            let bytes = (value as u32).to_le_bytes().to_vec();
            let at = Target::at(CURRENT);
            let change = Change {
                destination: Destination::Variable(CURRENT),
                address: at,
                bytes,
                before: vec![0; 4],
                what: String::new(),
            };
            let slot =
                Change { destination: Destination::Slot, address: start + 4, bytes: vec![0; 32], ..change.clone() };
            let plan = |change| Plan { changes: vec![change], notes: Vec::new() };
            let result = check(session, &state, plan(change), &[]);
            assert_eq!(result.is_ok(), right, "{value:#x}: {result:?}");
            let result = check(session, &state, plan(slot), &[]).unwrap_err();
            assert!(result.message.contains("not where the kernel inserts"), "{result}");
        }
    });
}

/// What GDB is to give to the kernel's own function.
#[test]
fn a_buffer_that_is_not_free() {
    let target = Target::new();
    let buffer = Region { start: Target::at("trace_buffer"), len: 0x24c0 };
    for (region, ranges, said) in [
        (buffer, &[][..], ""),
        (Region { len: 0x24c1, ..buffer }, &[], "trace_buffer"),
        (Region { start: buffer.start + 2, len: 64 }, &[], "not aligned"),
        (Region { start: Target::at("watchdog"), len: 0x1000 }, &[], "trace_buffer"),
        (Region { start: Target::at("watchdog"), len: 64 }, &[], "control block"),
        (Region { start: Target::at("stacks"), len: 1024 }, &[], "stack"),
        (Region { start: 0x2001_0000, len: 1024 }, &[], "--range"),
        (Region { start: 0x2001_0000, len: 1024 }, &[Region { start: 0x2001_0000, len: 1024 }], ""),
        (Region { start: 0x100, len: 64 }, &[], ""),
    ] {
        let result = target.ask(|session| check_call(session, Some(region), ranges));
        let right = region == buffer || !ranges.is_empty();
        match result {
            Ok(()) => assert!(right, "{region:?}"),
            Err(error) => {
                let text = format!("{error} {}", error.hint);
                assert!(!right && text.contains(said), "{region:?}: {text}");
            }
        }
    }
    assert!(target.ask(|session| check_call(session, None, &[])).is_ok());
}

const ICSR_OF_DWT: [(u64, u32); 2] = [(0xE000_EDFC, 1 << 24), (0xE000_1000, 0x4000_0001)];

/// The fixture's clock is its own; a cycle counter that counts beside it was taken for it, by chance.
#[test]
fn a_mark_took_the_cycle_counter_of_a_trace_with_another_clock() {
    let target = ICSR_OF_DWT.into_iter().fold(Target::new(), |t, (at, value)| t.with(at, value));
    let stamp = target.slot(1)[3];
    let marked = |target: &Target, program: &Program| {
        let scratch = tools::Scratch::new();
        let inputs = Inputs { elf: Some(program.write(&scratch)), ..Inputs::default() };
        let mut memory = target.memory();
        let mut session = inputs.over("ram", &mut memory).unwrap();
        let state = State::read(&mut session).unwrap();
        let plan = plan(&mut session, &state, MARK).unwrap();
        (target.after(&plan.changes).slot(1)[3], plan.notes.join("; "))
    };
    let counts = target.clone().with(0xE000_1004, stamp.wrapping_add(77));
    let (there, notes) = marked(&counts, &Program::cm3());
    assert_eq!(there, stamp);
    assert!(notes.contains("of the event before it, because nothing shows which clock"), "{notes}");
    // Code that inserts events and holds the counter's address, as GCC has it (the unit's own) and as others do.
    for literal in [0xE000_1000, 0xE000_1004] {
        let reads = Program::cm3().literal("mk_trace", Target::at("fw_counters"), literal);
        let (there, notes) = marked(&counts, &reads);
        assert!(there == stamp.wrapping_add(77) && notes.contains("CYCCNT"), "{there:#x} {notes}");
        for (target, said) in [
            (target.clone().with(0xE000_1004, stamp), "is not later than"),
            (target.clone().with(0xE000_1004, stamp.wrapping_sub(1)), "is not later than"),
            (target.clone(), "cannot be read"),
            (Target::new().with(0xE000_1004, stamp.wrapping_add(77)), "is off"),
        ] {
            let (there, notes) = marked(&target, &reads);
            assert!(there == stamp && notes.contains(said), "{said}: {notes}");
        }
    }
}

/// A variable that nobody counts is 0, and so is a stamp of a clock that stands still.
#[test]
fn a_mark_set_a_simulated_time_going() {
    let target = Target::new();
    let header = Target::at("trace_buffer");
    let newest = u64::from(target.word(header + 32) - 32);
    let still = target.with(newest + 12, 0).set("_tx_trace_simulated_time", 0);
    let plan = still.plan(MARK).unwrap();
    assert_eq!((plan.changes.len(), still.after(&plan.changes).slot(1)[3]), (3, 0));
}

fn over(target: Target, writes: usize, words: &[&str]) -> (Option<i32>, String, stub::Log) {
    let (port, serving) = stub::start(target, writes);
    let (elf, remote) = (fixture("cm3.elf").display().to_string(), format!(":{port}"));
    let done = tx_trace(&[&["control"], words, &["--yes", "--elf", &elf, "--remote", &remote]].concat());
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (done.status.code(), text, serving.join().unwrap())
}

/// It said so, and let the target run.
#[test]
fn a_target_with_a_half_written_event_ran_on() {
    let mark = ["mark", "5001", "1"];
    let lets_run = |log: &stub::Log| log.requests.iter().any(|r| r.starts_with('D') || r.starts_with("vCont;c"));
    let (status, text, log) = over(Target::new(), 1, &[&mark[..], &["--format", "json"]].concat());
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("\"code\":\"half-written\"") && text.contains("not resumed"), "{text}");
    assert!(!lets_run(&log), "{:?}", log.requests);
    // Where it can be taken back, or all is written, the target goes on as it was found.
    for writes in [0, usize::MAX] {
        let (status, text, log) = over(Target::new(), writes, &mark);
        assert_eq!(status, Some(if writes == 0 { 2 } else { 0 }), "{text}");
        assert!(lets_run(&log), "{text}");
    }
}

/// The whole way: nothing of the target is changed.
#[test]
fn a_refused_write_sent_no_byte() {
    let target = Target::new();
    let ram = target.ram.clone();
    for (at, code) in [(Target::at("watchdog"), "wrong-address"), (Target::at(MASK) + 1, "wrong-address")] {
        let typed = format!("{MASK}={at:#x}");
        let (status, text, log) =
            over(target.clone(), usize::MAX, &["only", "user", "--symbol", &typed, "--format", "json"]);
        assert!(status == Some(2) && text.contains(code) && text.contains(&format!("{at:#x}")), "{text}");
        assert!(!text.contains("to write") && log.requests.iter().all(|r| !r.starts_with('M')), "{text}");
        assert!(log.target.ram == ram);
    }
    let (status, text, log) = over(target, usize::MAX, &["only", "user"]);
    assert!(status == Some(0) && log.target.ram != ram, "{text}");
    assert!(log.requests.len() < 100, "{:?}", log.requests);
}
