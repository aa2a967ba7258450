//! The table of events: what a terminal gets, and what a pipe and a file get.

#![cfg(all(feature = "cli", target_os = "linux"))]
#![allow(clippy::string_slice)]

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::support::builder::Buffer;
use crate::support::machine::Scratch;
use crate::support::threadx::steady;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const PROGRAM: &str = env!("CARGO_BIN_EXE_tx-trace");

fn command(program: &str, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).current_dir(FIXTURES).stdin(Stdio::null());
    for variable in ["TX_TRACE_ELF", "TX_TRACE_REMOTE", "TX_TRACE_COLOR", "COLUMNS", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

fn stdout(words: &str) -> String {
    String::from_utf8(command(PROGRAM, words).output().unwrap().stdout).unwrap()
}

/// What a command prints on a terminal of so many columns, without the ends of its lines.
fn on_terminal(columns: usize, words: &str) -> String {
    let line = format!("stty rows 40 cols {columns}; exec {PROGRAM} {words}");
    let mut script = command("script", "--quiet --return --command");
    let out = script.arg(line).arg("/dev/null").env("TERM", "xterm").env("SHELL", "/bin/sh").output().unwrap();
    String::from_utf8(out.stdout).unwrap().replace("\r\n", "\n")
}

/// Without sequences that change colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').unwrap().1)
}

const SOURCES: [&str; 7] = [
    "cm3.elf cm3.core",
    "smp.elf smp.core",
    "host.elf host.core",
    "be.trx",
    "qnx.kev",
    "qnx-ring.bin",
    "uia-stop.elf uia-stop.ram.bin",
];

#[test]
fn a_pipe_and_a_file_get_what_an_unlimited_terminal_gets() {
    let file = std::env::temp_dir().join(format!("tx-trace-list-{}", std::process::id()));
    for source in SOURCES {
        let pipe = stdout(&format!("list {source}"));
        assert!(pipe.lines().count() > 3, "{source}: {pipe}");
        assert_eq!(pipe, stdout(&format!("list --width 10000 {source}")), "{source}");
        assert!(!pipe.lines().any(|line| line.ends_with('~')), "{source}");
        // The variable is for terminals that do not say how wide they are.
        let narrow = command(PROGRAM, &format!("list {source}")).env("COLUMNS", "40").output().unwrap();
        assert_eq!(pipe, String::from_utf8(narrow.stdout).unwrap(), "{source}");
        assert_eq!(stdout(&format!("list {source} -o {}", file.display())), "");
        assert_eq!(pipe, std::fs::read_to_string(&file).unwrap(), "{source}");
        std::fs::remove_file(&file).unwrap();
    }
}

/// The columns of a line that is not empty: where each word of the head begins, or ends where numbers stand below it.
fn column(text: &str, name: &str) -> usize {
    text.lines().next().unwrap().find(name).unwrap()
}

#[test]
fn columns_come_in_the_same_order_at_every_width() {
    for source in SOURCES {
        for (width, all) in [("--width 80", ""), ("--width 120", "--wide"), ("--width 200", "--wide"), ("", "--wide")] {
            for more in ["", all] {
                let text = stdout(&format!("last 4 {width} {more} {source}"));
                let order = ["seq", "delta", "who", "event", "arguments"].map(|name| column(&text, name));
                assert!(order.is_sorted(), "{text}");
                let heads = text.lines().next().unwrap();
                assert_eq!(heads.contains(" stamp ") && heads.contains(" pri "), !more.is_empty(), "{text}");
            }
        }
    }
}

#[test]
fn names_that_are_cut_paste_into_filters() {
    let text = stdout("list --width 80 cm3.elf cm3.core");
    for (ends, name) in [("_resume", "internal_thread_resume"), ("suspend", "internal_thread_suspend")] {
        let short = text
            .split_whitespace()
            .find(|w| w.starts_with("internal_") && w.contains('~') && w.ends_with(ends))
            .unwrap();
        let whole = stdout(&format!("list --event {name} cm3.elf cm3.core"));
        assert_eq!(stdout(&format!("list --event {short} cm3.elf cm3.core")), whole);
    }
}

#[test]
fn arguments_have_most_of_a_narrow_line_and_no_word_is_broken() {
    let whole = stdout("list cm3.elf cm3.core");
    let narrow = stdout("list --width 80 cm3.elf cm3.core");
    let (from, to) = (column(&whole, "arguments"), column(&narrow, "arguments"));
    assert!(to <= 50, "{narrow}");
    for (whole, narrow) in whole.lines().zip(narrow.lines()).skip(1) {
        assert!(narrow.len() <= 80, "{narrow}");
        let (whole, narrow) = (whole.get(from..).unwrap_or_default(), narrow.get(to..).unwrap_or_default());
        let shown = narrow.strip_suffix('~').unwrap_or(narrow);
        // The outcome of a call has shorter words.
        if !shown.contains('(') {
            assert!(whole.starts_with(shown), "{whole}\n{narrow}");
            assert!(whole[shown.len()..].is_empty() || narrow.ends_with(" ~") || narrow == "~", "{narrow}");
        }
    }
}

#[test]
fn what_became_of_a_call_comes_before_its_words() {
    let text = stdout("last 15 cm3.elf cm3.core");
    let outcome = "semaphore=rx_ready (blocks, still waiting after 499349 ticks) wait=forever count=0 ";
    assert!(text.contains(outcome), "{text}");
}

#[test]
fn only_a_terminal_gets_the_legend() {
    let wide = plain(&on_terminal(120, "last 12 cm3.elf cm3.core"));
    let (table, below) = wide.split_once("\n* ").unwrap();
    assert!(below.starts_with("the context changes; SysTick<filter: SysTick interrupted filter\nnow: "), "{below}");
    assert_eq!(format!("{table}\n"), stdout("last 12 --width 120 cm3.elf cm3.core").split("now:").next().unwrap());
    // Nothing is explained that was not printed.
    let narrow = plain(&on_terminal(80, "last 12 cm3.elf cm3.core"));
    assert!(narrow.contains("\n* the context changes\nnow: "), "{narrow}");
    assert!(narrow.lines().all(|line| line.len() <= 80), "{narrow}");
    let one = plain(&on_terminal(80, "last 1 cm3.elf cm3.core"));
    assert!(!one.contains("context changes"), "{one}");
}

/// `last 1` had read one event, and said that no event shows the state of the running thread.
#[test]
fn the_line_now_depended_on_how_many_events_were_read() {
    for source in ["cm3.elf cm3.core", "smp.elf smp.core", "host.elf host.core", "be.elf be.core"] {
        let now = |n: u32| {
            let text = stdout(&format!("last {n} {source}"));
            text.lines().filter(|line| line.starts_with("now")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(!now(1).is_empty(), "{source}");
        assert!([2, 8, 50, 100_000].into_iter().all(|n| now(n) == now(1)), "{source}: {:?}", now(1));
    }
}

fn exit_of(line: &str) -> (Option<i32>, String) {
    let out = command("sh", "-c").arg(line).output().unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

/// The standard library opens /dev/null in place of a closed standard output: the list went nowhere, with exit 0.
#[test]
fn a_closed_standard_output_was_no_error() {
    let file = std::env::temp_dir().join(format!("tx-trace-closed-{}", std::process::id()));
    for words in ["list cm3.trx", "list cm3.trx --format json", "info cm3.trx", "events"] {
        let (code, stderr) = exit_of(&format!("{PROGRAM} {words} >&-"));
        assert_eq!(code, Some(2), "{words}: {stderr}");
        assert!(stderr.contains("standard output is closed"), "{words}: {stderr}");
        assert_eq!(exit_of(&format!("{PROGRAM} {words} >/dev/null")).0, Some(0), "{words}");
    }
    assert_eq!(exit_of(&format!("{PROGRAM} list cm3.trx -o {} >&-", file.display())).0, Some(0));
    std::fs::remove_file(&file).unwrap();
    // A reader that has seen enough is none either.
    let (_, stderr) = exit_of(&format!("{{ {PROGRAM} list cm3.trx; echo $? >&2; }} | true"));
    assert!(stderr.lines().any(|line| line == "0"), "{stderr}");
}

/// A list that was interrupted left the terminal in the colour of what it had last printed.
#[test]
fn a_signal_left_the_terminal_coloured() {
    let scratch = Scratch::new("coloured");
    let (trace, pid) = (scratch.path("long.trx"), scratch.path("pid"));
    std::fs::write(&trace, Buffer::new(0x2000_0000).record(200_000, &steady(200_000, 0, 10)).bytes()).unwrap();
    let line = format!("echo $$ > {}; exec {PROGRAM} list {}", pid.display(), trace.display());
    let mut script = command("script", "--quiet --return --command");
    script.arg(line).arg("/dev/null").env("TERM", "xterm").env("SHELL", "/bin/sh").stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut text = vec![0; 20_000];
    out.read_exact(&mut text).unwrap();
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    out.read_to_end(&mut text).unwrap();
    child.wait().unwrap();
    let text = String::from_utf8_lossy(&text);
    let end: String = text.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
    assert!(!text.contains(" 199999 ") && text.ends_with("\x1b[0m"), "{end:?}");
}

/// The beginning of a ring whose newest slots were not dumped: its end was shown as the end of the trace, and a wait that
/// memory shows had the time of another.
#[test]
fn events_before_the_lost_newest_ones_were_shown_as_the_end() {
    let scratch = Scratch::new("lost-end");
    let cut = |name: &str, len: usize| {
        let path = scratch.path(name);
        let whole =
            std::fs::read(format!("{FIXTURES}/{}", if name.ends_with("trx") { "cm3.trx" } else { "cm3.ram.bin" }))
                .unwrap();
        std::fs::write(&path, &whole[..len]).unwrap();
        path.display().to_string()
    };
    let ram = format!("cm3.elf {}@0x20000000", cut("ram.bin", 22000));
    let text = stdout(&format!("report {ram}"));
    assert!(
        text.contains("The newest 179 slots cannot be read: events show the state at event 76, not at the end."),
        "{text}"
    );
    assert!(
        text.contains("control waits for mutex bus_mutex, which low_task owns; since when, no event shows."),
        "{text}"
    );
    assert!(text.contains("243 of them cannot be read") && !text.contains("(blocks, still waiting"), "{text}");
    assert!(text.contains("the newest 179 slots cannot be read: what is open here may have ended"), "{text}");
    assert!(stdout(&format!("last 3 {ram}")).ends_with("now: watchdog is the running thread\n"));
    let text = stdout(&format!("list {}", cut("cut.trx", 4000)));
    assert!(text.contains("blocks for more than 231917 ticks") && !text.contains("still waiting"), "{text}");
}

/// `objects --use --object samples` had no wait, because the event that ends a wait is not about the object.
#[test]
fn waits_for_an_object_were_not_counted_where_filters_choose_it() {
    let text = stdout("objects --use --object samples --format csv cm3.elf cm3.core");
    let all = stdout("objects --use --format csv cm3.elf cm3.core");
    let row = |text: &str| text.lines().find(|line| line.contains("samples")).map(str::to_owned);
    assert!(row(&text).is_some() && row(&text) == row(&all), "{text}");
}

/// The first event of `last` had no delta, and in `list` the same event had one.
#[test]
fn the_first_event_of_last_had_no_delta() {
    // Without the columns that say more of a longer trace: sequence number and delta.
    let rows = |words: &str| -> Vec<(String, String)> {
        let csv = stdout(&format!("{words} --format csv"));
        let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[at("seq")].to_owned(), cells[at("delta")].to_owned())
        };
        csv.lines().skip(1).map(row).collect()
    };
    for source in SOURCES {
        let list = rows(&format!("list {source}"));
        for n in [1, 2, 7, list.len() - 1, list.len(), list.len() + 9] {
            let last = rows(&format!("last {n} {source}"));
            assert_eq!(last, list[list.len().saturating_sub(n)..], "last {n} {source}");
        }
    }
    // With filters too: the event before the first is one that they leave out.
    let list = rows("list --thread filter cm3.elf cm3.core");
    let last = rows("last 2 --thread filter cm3.elf cm3.core");
    assert_eq!(last, list[list.len() - 2..]);
}

#[test]
fn the_line_now_names_the_function_that_runs() {
    let now = |registers: &str| {
        let text = stdout(&format!("last 2 cm3.elf cm3.core {registers}"));
        text.lines().last().unwrap().to_owned()
    };
    let thread = "--reg xpsr=0x01000000 --reg pc=0x1d74";
    assert_eq!(
        now(thread),
        "now: watchdog runs in record_write (app.c:282)",
        "the interrupt of the newest event is over"
    );
    let interrupt = "--reg xpsr=0x0100000f --reg psp=0x20002f00";
    let interrupted = "now: in an interrupt; watchdog is the running thread, interrupted in record_write (app.c:282)";
    assert_eq!(now(interrupt), interrupted);
    // A fault may have left no frame; a stack pointer may lead to a device; and a pc may be none of the program's.
    for other in [
        "--reg xpsr=0x01000003 --reg psp=0x20002f00",
        "--reg xpsr=0x0100000f --reg psp=0x40002f00",
        "--reg xpsr=0x0100000f",
        "--reg xpsr=0x01000000 --reg pc=0x20000000",
    ] {
        assert!(now(other).ends_with("watchdog is the running thread"), "{other}: {}", now(other));
    }
}

/// `ticks=7` beside "blocked for 1749464 ticks": two clocks had one name.
#[test]
fn the_kernels_ticks_had_the_name_of_the_traces() {
    let of = |name: &str| stdout(&format!("list --arg {name}=7 cm3.elf cm3.core"));
    let text = of("kernel_ticks");
    assert!(text.contains(" ticks, woken by") && text.contains(" kernel_ticks=7 "), "{text}");
    assert_eq!(of("sleep_value"), text, "the name of the field");
    assert_eq!(of("ticks"), text, "as it was called");
}
