//! Messages name the cause that was found, and no other.

#![cfg(all(feature = "cli", feature = "serve", unix))]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use crate::support::machine::{Scratch, fixture};

/// Runs a line among the fixtures; a word in it cannot have a space.
fn run(line: &str) -> Output {
    run_with(line, &[])
}

/// The same, with words that have spaces behind it.
fn run_with(line: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.current_dir(fixture("")).stdin(Stdio::null());
    for variable in ["TX_TRACE_ELF", "TX_TRACE_REMOTE", "TX_TRACE_ENTRY", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.args(line.split_whitespace()).args(words).output().unwrap()
}

fn talk(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

fn data(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

#[test]
fn last_does_not_deny_a_thread_that_ran_before_the_newest_stretch() {
    let events = |line: &str| data(&run(line)).lines().count();
    assert!(events("list --thread control --format csv cm3.elf cm3.core") > 1, "it is in the trace");
    for terms in ["control,sensor", "sensor,control", "sensor,!control"] {
        let out = run(&format!("last 2 --thread {terms} cm3.elf cm3.core"));
        assert!(out.status.success() && !talk(&out).contains("control"), "{terms}: {}", talk(&out));
    }
    // Of a name that the registry has not either, no more is said than is known.
    for (option, what) in [("thread", "thread"), ("object", "object")] {
        let known = if option == "thread" { "sensor" } else { "samples" };
        let line = |command: &str| format!("{command} --{option} {known},nowhere cm3.elf cm3.core");
        let said = talk(&run(&line("last 2")));
        let wanted = format!("no {what} 'nowhere' in the registry or among the ");
        assert!(said.contains(&wanted) && said.contains(" events that were read of "), "{said}");
        let said = talk(&run(&line("list")));
        assert!(said.contains(&format!("no {what} 'nowhere' in this trace")), "{said}");
    }
    // Alone, it is looked for in all of the ring.
    let said = talk(&run("last 2 --thread nowhere cm3.elf cm3.core"));
    assert!(said.contains("there is no thread 'nowhere' in this trace"), "{said}");
    let said = talk(&run("last 40t --thread nowhere cm3.elf cm3.core"));
    assert!(said.contains("no thread 'nowhere' in "), "{said}");
    let out = run("last 3 --thread control cm3.elf cm3.core --format csv");
    assert_eq!(data(&out).lines().count(), 4, "{}", talk(&out));
    // Kinds of context and classes have no names that could be missing.
    for filter in ["--context isr,thread", "--class queue,semaphore", "--event tx_queue_send,isr_enter"] {
        let out = run(&format!("last 2 {filter} cm3.elf cm3.core"));
        assert!(!talk(&out).contains("no ") && out.status.success(), "{filter}: {}", talk(&out));
    }
}

/// The core of the fixture, in which nothing begins as a thread does: only symbols lead to what is left of them.
fn without_threads(scratch: &Scratch) -> std::path::PathBuf {
    let mut core = std::fs::read(fixture("cm3.core")).unwrap();
    while let Some(at) = core.windows(4).position(|w| w == b"DRHT") {
        core[at] = 0;
    }
    let path = scratch.path("without.core");
    std::fs::write(&path, core).unwrap();
    path
}

#[test]
fn an_elf_that_is_cut_short_is_reported_and_nobody_is_blamed() {
    let scratch = Scratch::new("truthful-cut");
    let whole = std::fs::read(fixture("cm3.elf")).unwrap();
    let without = without_threads(&scratch);
    // Without the section headers at its end, and within the first segment.
    for (len, sentence) in [(80_000, "section headers"), (5_000, "section headers")] {
        let path = scratch.path("cut.elf");
        std::fs::write(&path, &whole[..len]).unwrap();
        let elf = path.display();
        for command in ["info", "last 2"] {
            let out = run(&format!("{command} --format json {elf} cm3.core"));
            let reported: Vec<String> =
                data(&out).lines().filter(|l| l.contains("elf-truncated")).map(str::to_owned).collect();
            assert!(
                reported.len() == 1 && reported[0].contains(sentence) && reported[0].contains("note"),
                "{command}: {reported:?}"
            );
            assert!(!data(&out).contains("built without -g"), "{command}: {}", data(&out));
        }
        let said = talk(&run(&format!("threads {elf} {}", without.display())));
        assert!(said.contains("cut short") && said.contains("copy the ELF again"), "{said}");
        assert!(!said.contains("give the ELF"), "{said}");
        let said = talk(&run(&format!("events --user --elf {elf}")));
        assert!(said.contains("cut short") && !said.contains("built without -g"), "{said}");
    }
    // One that is whole and has no symbols is distinguished from none at all.
    let said = talk(&run(&format!("threads cm3.stripped.elf {}", without.display())));
    assert!(said.contains("has no symbols: give the unstripped one"), "{said}");
    assert!(talk(&run(&format!("threads {}", without.display()))).contains("give the ELF (--elf)"));
    for elf in ["cm3.elf", "cm3.stripped.elf", "be.elf", "host.elf", "smp.elf"] {
        let core = if elf.starts_with("cm3") { "cm3.core".to_owned() } else { elf.replace(".elf", ".core") };
        let out = run(&format!("last 1 --format json {elf} {core}"));
        assert!(!data(&out).contains("elf-truncated"), "{elf}: {}", data(&out));
    }
}

#[test]
fn control_show_without_a_program_tells_what_the_header_tells() {
    let scratch = Scratch::new("truthful-control");
    let zeros = scratch.path("zeros.bin");
    std::fs::write(&zeros, [0; 4096]).unwrap();
    for (source, capacity) in [
        ("cm3.trx", "256 events"),
        ("cm3.ram.bin", "256 events"),
        ("be.trx", " events"),
        ("host-ulong64.trx", " events"),
        ("cm3.core", "256 events"),
        ("cm3.stripped.elf cm3.core", "256 events"),
    ] {
        let out = run(&format!("control show --format csv {source}"));
        let said = data(&out);
        assert_eq!(out.status.code(), Some(0), "{source}: {said} {}", talk(&out));
        let row = |name: &str| {
            let prefix = format!("{name},");
            said.lines().find_map(|l| l.strip_prefix(prefix.as_str())).map(|v| v.trim_matches('"').to_owned())
        };
        assert!(row("compiled in").unwrap().starts_with("not known: "), "{source}: {said}");
        assert_eq!(row("enabled").as_deref(), Some("not known"), "{source}");
        assert_eq!(row("event mask").as_deref(), Some("not known"), "{source}");
        assert!(row("header").unwrap().ends_with(": sound"), "{source}: {said}");
        assert!(row("capacity").unwrap().ends_with(capacity), "{source}: {said}");
        assert!(row("registry free").unwrap().contains(" of "), "{source}: {said}");
    }
    // The same numbers as with the program.
    let with = data(&run("control show --format csv cm3.elf cm3.core"));
    let without = data(&run("control show --format csv cm3.core"));
    for name in ["header,", "capacity,", "used,", "next event,"] {
        let row = |text: &str| text.lines().find(|l| l.starts_with(name)).map(str::to_owned);
        assert!(row(&with).is_some() && row(&with) == row(&without), "{name} {with} {without}");
    }
    // No trace is still a no, and a program without one is reported as before.
    let out = run(&format!("control show --header 0x20000000 {}@0x20000000", zeros.display()));
    assert_eq!(out.status.code(), Some(1), "{} {}", data(&out), talk(&out));
    let out = run("control show cm3-notrace.elf cm3-notrace.ram.bin@0x20000000");
    assert!(data(&out).contains("no: the program has none"), "{} {}", data(&out), talk(&out));
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn control_show_takes_a_file_at_an_address() {
    let out = run("control show cm3.elf cm3.ram.bin@0x20000000");
    assert!(out.status.success() && data(&out).contains("256 events"), "{} {}", data(&out), talk(&out));
    let out = run("control show cm3.elf nowhere.bin@0x20000000");
    assert!(out.status.code() == Some(2) && talk(&out).contains("unexpected argument 'nowhere.bin@"), "{}", talk(&out));
}

#[test]
fn a_refused_write_is_not_reported_as_half_done() {
    let serve = format!("|{} serve --stdio cm3.elf cm3.core", env!("CARGO_BIN_EXE_tx-trace"));
    let out = run_with("control pause --yes --timeout 20 --elf cm3.elf --remote", &[&serve]);
    let said = talk(&out);
    assert!(said.contains("nothing is written") && said.contains("a dump behind `serve` cannot be written"), "{said}");
    assert!(!said.contains("could not be restored") && out.status.code() == Some(2), "{said}");
}

#[test]
fn an_echo_is_called_one() {
    let said = talk(&run_with("info --timeout 500ms --elf cm3.elf --remote", &["|cat"]));
    assert!(said.contains("only echoes") && said.contains("is it a serial line with echo on"), "{said}");
}

#[test]
fn a_server_of_something_else_that_closes_is_quoted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        // All that it asks is read first: a close with bytes unread would be a reset.
        let mut asked = Vec::new();
        let mut byte = [0];
        while asked.iter().rev().nth(2) != Some(&b'#') && client.read(&mut byte).unwrap() > 0 {
            asked.push(byte[0]);
        }
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>\x1b[31mno</html>").unwrap();
    });
    let said = talk(&run(&format!("info --timeout 20 --elf cm3.elf --remote 127.0.0.1:{port}")));
    server.join().unwrap();
    assert!(said.contains("it sent `HTTP/1.1 400 Bad Request\\r\\n"), "{said}");
    assert!(said.contains("is this its GDB port?") && !said.contains('\x1b'), "{said}");
}

#[test]
fn a_file_that_is_no_socket_is_reported() {
    let said = talk(&run("info --elf cm3.elf --remote unix:cm3.core"));
    assert!(said.contains("unix:cm3.core: cannot open it: it is not a socket"), "{said}");
}

#[test]
fn a_timeout_is_taken_with_its_unit() {
    for timeout in ["2", "0.5", "9s", "500ms"] {
        let out = run(&format!("last 1 --timeout {timeout} cm3.elf cm3.core"));
        assert!(out.status.success(), "{timeout}: {}", talk(&out));
    }
    for timeout in ["0", "2t", "4000s", "1us", "-1", "nan", "s", "5000"] {
        let out = run(&format!("last 1 --timeout={timeout} cm3.elf cm3.core"));
        assert_eq!(out.status.code(), Some(2), "{timeout}");
        assert!(talk(&out).contains("not a time: 2 (seconds), 2s or 500ms"), "{timeout}: {}", talk(&out));
    }
}

#[test]
fn a_cut_elf_is_known_by_its_sections_and_without_any_by_its_segments() {
    let whole = std::fs::read(fixture("cm3.elf")).unwrap();
    let cut = |bytes: Vec<u8>| tx_trace::elf::Elf::open(bytes).unwrap().cut_short();
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
    assert_eq!(cut(whole.clone()), None);
    // The section headers stand at 0x20 of the header, each of 40 bytes; its size is at 20. The first behind the empty
    // one now reaches past the end.
    let mut far = whole.clone();
    let first = word(0x20) as usize + 40;
    far[first + 20..first + 24].copy_from_slice(&0x00FF_FFFFu32.to_le_bytes());
    assert!(cut(far).unwrap().contains("1 of its sections reach up to"));
    // Without section headers the segments tell: the second ends at 0x4410.
    let mut bare = whole.clone();
    bare[0x20..0x24].fill(0);
    bare[0x30..0x34].fill(0);
    assert_eq!(cut(bare.clone()), None);
    assert_eq!(cut(bare[..0x4410].to_vec()), None);
    assert!(cut(bare[..0x440F].to_vec()).unwrap().contains("its segments reach up to 17424"));
}

/// "Events may be missing between two of the joined buffers, 4286966556 ticks apart": they were of two boards.
#[test]
fn traces_of_two_boards_were_joined_with_a_time_between_them() {
    let out = run("list --trace smp.trx --trace cm3.trx");
    assert!(out.status.success());
    assert!(
        talk(&out).starts_with("lost: the joined buffers are of different programs: no thread of one is in the other")
    );
    assert!(!talk(&out).contains("missing between") && !talk(&out).contains("fall back"), "{}", talk(&out));
    let first = data(&out).lines().find(|line| line.starts_with("256 ")).unwrap().to_owned();
    assert_eq!(first.split_whitespace().nth(1), Some("0"), "{first}");
    assert_eq!(run("list --strict --trace smp.trx --trace cm3.trx").status.code(), Some(2));
    let report = data(&run("report --trace smp.trx --trace cm3.trx"));
    let verdict = report.split_once("At the end\n").unwrap().1;
    assert!(verdict.starts_with("- Doubtful: the joined buffers are of different programs"), "{verdict}");
    // The buffers of one run have threads in common.
    let out = run("list --trace cm3.trx --trace cm3.trx");
    assert!(!talk(&out).contains("different programs"), "{}", talk(&out));
}

/// The wrong address and the lost slots were shown by `last` alone, and `--strict` failed without a word.
#[test]
fn explain_was_silent_about_its_source() {
    let out = run("explain cm3.elf cm3.ram.bin@0x20001000");
    assert!(talk(&out).contains("the address of the dump is 0x1000 too high, or this"), "{}", talk(&out));
    let scratch = Scratch::new("explain-cut");
    let cut = scratch.path("cut.bin");
    let whole = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    std::fs::write(&cut, &whole[..24_576]).unwrap();
    let out = run(&format!("explain --strict cm3.elf {}@0x20000000", cut.display()));
    assert_eq!(out.status.code(), Some(2), "{}", data(&out));
    assert!(talk(&out).contains("lost: "), "{}", talk(&out));
}

/// A picture showed findings in the names of another program without a word.
#[test]
fn pictures_say_first_that_the_elf_is_of_another_build() {
    let out = run("timeline failure.elf cm3.core");
    assert!(data(&out).starts_with("doubtful: "), "{}{}", data(&out), talk(&out));
    let out = run("explain failure.elf cm3.core");
    assert!(data(&out).contains("\nDoubtful: ") && !talk(&out).contains("samples of code agree"), "{}", talk(&out));
    let scratch = Scratch::new("doubtful-page");
    let path = scratch.path("page.html");
    let out = run(&format!("export --to html -o {} failure.elf cm3.core", path.display()));
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", talk(&out)));
    assert!(page.contains("\"headline\":\"Doubtful: "), "the page's headline");
}

/// A firmware that had lost its trace passed.
#[test]
fn explain_passed_where_there_is_no_trace() {
    for name in ["cm3-notrace", "cm3-never"] {
        let line = format!("{name}.elf {name}.ram.bin@0x20000000");
        let out = run(&format!("explain --fail-on proven {line}"));
        assert_eq!(out.status.code(), run(&format!("last {line}")).status.code(), "{}", talk(&out));
        assert_eq!(out.status.code(), Some(1), "{}", talk(&out));
        let said = data(&out);
        // Without call frame information the callers are known by the code of functions.
        assert!(
            said.starts_with("bus-fault: a write of 4 bytes to 0xe0200000 in record_write, called by watchdog_"),
            "{said}"
        );
        assert!(talk(&out).contains("error: "), "{}", talk(&out));
    }
}

/// A program that was built without a trace ended with an error, though there was nothing wrong with it.
#[test]
fn explain_failed_where_no_trace_was_built_in() {
    let out = run("explain cm3-notrace.elf cm3-notrace.ram.bin@0x20000000");
    assert_eq!((out.status.code(), talk(&out).contains("error: ")), (Some(0), false), "{}", talk(&out));
}

/// What kind of fault it is needed the unwind information, and nothing said so.
#[test]
fn explain_names_what_the_elf_lacks() {
    let next = "Next: give the ELF with debug information, or ";
    let out = data(&run("explain cm3.core"));
    assert!(out.contains(next) && out.contains("source lines: they need the ELF"), "{out}");
    let out = data(&run("explain cm3.stripped.elf cm3.core"));
    assert!(out.contains(next) && out.contains("source lines: the ELF has no debug information"), "{out}");
    assert!(!data(&run("explain cm3.elf cm3.core")).contains("debug information"));
}

/// It was one of "7 more findings and hints", and the cause of all else.
#[test]
fn a_fault_that_may_have_come_is_named() {
    let out = data(&run("explain cm3.elf cm3.ram.bin@0x20000000"));
    assert!(out.starts_with("bus-fault: ") && out.contains("in record_write"), "{out}");
}

/// The command to type next had a name of the target in it, which a shell would have split or run.
#[test]
fn the_next_command_of_a_pool_has_its_address() {
    let pair = "resource.elf resource-no_wait_fails.core.gz";
    let out = data(&run(&format!("explain --all {pair}")));
    let (_, address) = out.split_once("`list --object ").unwrap_or_else(|| panic!("{out}"));
    let address = address.split('`').next().unwrap();
    let listed = data(&run(&format!("list --object {address} {pair}")));
    assert!(listed.contains("tx_block_allocate"), "{address}: {listed}");
    // No event of this pool is in the trace any more.
    let out = data(&run("explain resource.elf resource-pool_empty.core.gz"));
    assert!(out.contains("pool-empty") && !out.contains("list --object"), "{out}");
}

/// A dump that ends in front of the ring: "0 ticks from the oldest to the newest", and a report in which no thread waits.
#[test]
fn a_trace_of_which_no_event_can_be_read_lasted_0_ticks() {
    let scratch = Scratch::new("no-event");
    let trace = std::fs::read(fixture("cm3.trx")).unwrap();
    // The header and the registry.
    std::fs::write(scratch.path("head.bin"), &trace[..1200]).unwrap();
    let line = format!("--image {}@0x20004f8c", scratch.path("head.bin").display());
    let out = data(&run(&format!("info {line}")));
    assert!(out.contains("256 of them cannot be read)\n") && !out.contains("from the oldest"), "{out}");
    let out = data(&run(&format!("report {line}")));
    assert!(!out.contains("No thread waits") && out.contains("256 of 256 event slots cannot be read"), "{out}");
}
