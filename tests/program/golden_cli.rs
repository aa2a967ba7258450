//! Every command on every capture, compared with a golden: what people and scripts see does not change by accident.
//! `UPDATE_GOLDEN=1 cargo test --test program golden_cli` writes them anew; read the difference before it is committed.

#![cfg(feature = "cli")]

use std::path::PathBuf;

use crate::support::golden::{check, compare, run, stdout};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|l| (*l).to_owned()).collect()
}

/// Every fixture, from every source that it has.
pub const SOURCES: [(&str, &str); 16] = [
    ("cm3-image", "--elf cm3.elf --image cm3.ram.bin@0x20000000"),
    ("cm3-image-unplaced", "cm3.elf cm3.ram.bin"),
    ("cm3-core", "cm3.elf cm3.core"),
    ("cm3-stripped", "--elf cm3.stripped.elf --core cm3.core"),
    ("cm3-symbol", "--symbol _tx_trace_header_ptr=0x200029b8 --image cm3.ram.bin@0x20000000"),
    ("cm3-trace", "--trace cm3.trx"),
    ("cm3-disabled", "cm3-disabled.elf cm3-disabled.ram.bin@0x20000000"),
    ("cm3-unwrapped", "cm3-unwrapped.elf cm3-unwrapped.ram.bin@0x20000000"),
    ("cm3-straddle", "cm3-straddle.elf cm3-straddle.ram.bin@0x20000000"),
    ("cm3-never", "cm3-never.elf cm3-never.ram.bin@0x20000000"),
    ("cm3-notrace", "cm3-notrace.elf cm3-notrace.ram.bin@0x20000000"),
    ("host-core", "host.elf host.core"),
    ("host-ulong64", "host-ulong64.trx"),
    ("be-core", "be.elf be.core"),
    ("be-trace", "--trace be.trx"),
    ("smp-core", "smp.elf smp.core"),
];

#[test]
fn every_command_on_every_fixture() {
    for (name, source) in SOURCES {
        check(
            name,
            &[
                format!("last 10 {source}"),
                format!("last 10 --width 80 {source}"),
                format!("last 10 --width 120 {source}"),
                format!("last 10 --width 200 {source}"),
                format!("last 3 --format json {source}"),
                format!("list --to 8 {source}"),
                format!("list --to 3 --format csv {source}"),
                format!("show 0 -2 {source}"),
                format!("info {source}"),
                format!("objects {source}"),
                format!("threads {source}"),
                format!("threads --width 120 {source}"),
            ],
        );
    }
}

#[test]
fn the_report() {
    for (name, source) in [
        ("cm3-core", "cm3.elf cm3.core"),
        ("cm3-trace", "cm3.trx"),
        ("host-core", "host.elf host.core"),
        ("smp-core", "smp.elf smp.core"),
        ("uia-stop", "uia-stop.elf uia-stop.ram.bin"),
        ("qnx-kev", "qnx.kev"),
    ] {
        let widths = [" --width 80", " --width 120", ""].map(|width| format!("report {source}{width}"));
        let filtered = format!("report {source} --from -5 --to -2 --width 80");
        let page = format!("report {source} --format md");
        check(&format!("report-{name}"), &[&widths[..], &[filtered, page]].concat());
    }
}

#[test]
fn whole_list() {
    check("list-80", &lines(&["list cm3.elf cm3.core --width 80"]));
    check("list-120", &lines(&["list cm3.elf cm3.core --width 120"]));
    check("list-200", &lines(&["list cm3.elf cm3.core --width 200"]));
    check("list", &lines(&["list cm3.elf cm3.core"]));
    check("list-wide", &lines(&["list cm3.elf cm3.core --wide"]));
    check("list-json", &lines(&["list cm3.elf cm3.core --format json"]));
    check("list-csv", &lines(&["list cm3.elf cm3.core --format csv"]));
}

#[test]
fn filters_and_positions() {
    let s = "cm3.elf cm3.core";
    let mut all = Vec::new();
    for filter in [
        "last 5 --thread watchdog",
        "last 5 --thread !watchdog --context thread",
        "last 5 --event tx_queue_*",
        "last 5 --event isr_enter,isr_exit",
        "last 5 --event 4096-4105",
        "last 5 --event user_4105",
        "last 5 --class user",
        "last 5 --class TX_TRACE_MUTEX_EVENTS",
        "last 5 --object bus_mutex",
        "last 5 --context isr --event !isr_*",
        "last 5 --arg wait=forever",
        "last 5 --arg i1>0x1000 --class user",
        "list --from 250",
        "list --from -3 --to -1",
        "list --around 247",
        "list --from 4500000t",
        "last 100t",
        "last 1ms --hz 25000000",
        "last 1ms --hz SystemCoreClock",
        "last 1ms --hz 25M --width 120",
        "last 1ms --hz 25M --columns time,priority",
        "last 4 --columns stamp,threshold --width 80",
        "last 4 --wide --width 80",
        "last 4 --columns when",
        "last 2 --direction down",
        "last 5 --thread nobody",
        "last 5 --event no_such_event",
        "last 5 --class nonsense",
        "last 5 --arg nonsense",
        "last 0",
        "show 999 -1",
        "show -1 --format json",
        "list --thread startup",
        "objects --format json",
        "objects --format csv",
        "info --format json",
        "last 5 --format md",
        "list --netx classic --to 1",
    ] {
        all.push(format!("{filter} {s}"));
    }
    check("filters", &all);
}

#[test]
fn the_catalogue() {
    check(
        "events",
        &lines(&[
            "events tx_mutex_*",
            "events 20-25 --width 120",
            "events tx_semaphore_get --width 200",
            "events --class TX_TRACE_TIMER_EVENTS --format json",
            "events 4096",
            "events no_such_thing",
        ]),
    );
    check("events-all", &lines(&["events --format csv"]));
}

#[test]
fn threads_for_programs() {
    let mut all = Vec::new();
    for source in ["cm3.elf cm3.core", "host.elf host.core", "be.elf be.core", "smp.elf smp.core"] {
        for format in ["json", "csv", "md"] {
            all.push(format!("threads --format {format} {source}"));
        }
    }
    check("threads", &all);
}

/// Commands that print tables, with what they need; those that have goldens of their own at every width are not here.
const TABLES: [&str; 22] = [
    "show -1",
    "info",
    "objects",
    "objects --use",
    "threads",
    "threads --all",
    "threads --bt=control",
    "explain",
    "explain --all",
    "stats",
    "profile",
    "services",
    "stack",
    "inversions",
    "blocked",
    "latency",
    "latency --every * --span isr_enter..isr_exit",
    "report --tracex",
    "events tx_mutex_*",
    "control show",
    "last 3 --wide",
    "last 3 --columns time,priority",
];

/// Commands whose goldens are elsewhere, or that print no tables.
const NO_TABLES: [&str; 15] = [
    "last",
    "list",
    "report",
    "follow",
    "demo",
    "dump",
    "serve",
    "bridge",
    "gdb",
    "help",
    "timeline",
    "export",
    "setup",
    "completions",
    "man",
];

#[test]
fn every_table_at_every_width() {
    let commands = stdout("gdb --commands");
    let names = commands.lines().skip(1).filter_map(|line| line.split('\t').next()).filter(|name| !name.is_empty());
    for name in names {
        let is_here = TABLES.iter().any(|line| line.split(' ').next() == Some(name));
        assert!(is_here || NO_TABLES.contains(&name), "{name}: no golden at every width");
    }
    let mut all = String::new();
    for line in TABLES {
        let source = if line.starts_with("events") { "" } else { " cm3.elf cm3.core" };
        let in_a_pipe = run(&format!("{line}{source}"));
        all += &format!("{in_a_pipe}\n");
        let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_owned());
        for width in [200, 120, 80] {
            let at_width = run(&format!("{line}{source} --width {width}"));
            let is_same = body(&at_width) == body(&in_a_pipe);
            let head = at_width.lines().next().unwrap();
            all += &if is_same { format!("{head}\n(as in a pipe)\n\n") } else { format!("{at_width}\n") };
        }
    }
    compare("cli/widths.txt", &all);
}

/// `follow` on a target that stops by itself at once, so that it prints the same each time.
#[test]
#[cfg(feature = "serve")]
fn follow_at_every_width() {
    let program = env!("CARGO_BIN_EXE_tx-trace");
    let remote = format!("|{program} serve --stdio cm3.elf cm3.core 2>/dev/null");
    let mut all = String::new();
    for more in [
        "",
        "--width 200",
        "--width 120",
        "--width 80",
        "--wide",
        "--event APP_*",
        "--report profile --width 80",
        "--format csv",
        "--format json",
    ] {
        let out = std::process::Command::new(program)
            .args("follow 12 --leave running --halt-every 20ms --elf cm3.elf --remote".split(' '))
            .arg(&remote)
            .args(more.split_whitespace())
            .current_dir(root().join("tests/fixtures"))
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(0), "{more}: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap().replace(&remote, "|serve");
        all += &format!("$ tx-trace follow 12 {more}\n{text}\n");
    }
    compare("cli/follow.txt", &all);
}

#[test]
fn explanations() {
    let deadlock = "explain failure.elf failure-deadlock.core.gz";
    let mut all: Vec<String> = ["", " --width 200", " --width 120", " --width 80", " --all --width 80"]
        .map(|more| format!("{deadlock}{more}"))
        .to_vec();
    all.extend(["json", "csv", "md"].map(|format| format!("{deadlock} --format {format}")));
    all.extend(["likely", "proven --format json", "sure"].map(|least| format!("{deadlock} --fail-on {least}")));
    for source in [
        "failure.elf failure-healthy.core.gz --fail-on hint",
        "failure.elf failure-healthy.core.gz --format json",
        "failure.elf failure-cycle.core.gz --width 80",
        "failure.elf failure-quiet_overflow.core.gz --width 80",
        "failure-other.elf failure-deadlock.core.gz",
        "failure-deadlock.core.gz",
        "cm3.ram.bin",
        "cm3.trx",
        "uia-stop.elf uia-stop.ram.bin",
        "qnx.kev --format json",
        "smp.elf smp.core",
        "host.elf host.core",
        "no-such-file",
    ] {
        all.push(format!("explain {source}"));
    }
    check("explain", &all);
}

#[test]
fn backtraces() {
    let core = "cm3.elf cm3.core";
    check(
        "backtraces",
        &lines(&[
            &format!("threads --bt {core}"),
            &format!("threads --bt=control,watchdog --width 80 {core}"),
            &format!("threads --bt=control --format json {core}"),
            &format!("threads --bt=control --format csv {core}"),
            &format!("threads --bt=control,sensor --format md {core}"),
            &format!("threads --bt=contrl {core}"),
            &format!("threads --bt=0x20004d70,nobody {core}"),
            "threads --bt=watchdog cm3.stripped.elf cm3.core",
            "threads --bt=watchdog smp.elf smp.core",
            "threads --bt=control cm3.ram.bin@0x20000000",
        ]),
    );
}

#[test]
fn what_people_get_wrong() {
    check(
        "mistakes",
        &lines(&[
            "last",
            "last cm3.elf",
            "last nofile.bin",
            "last --elf nofile.elf --core cm3.core",
            "last --elf cm3.ram.bin --core cm3.core",
            "last --core cm3.elf --elf cm3.elf",
            "last --core ..",
            "last --elf cm3.elf --core host.core",
            "last --elf host.elf --image cm3.ram.bin@0x20000000",
            "last 3 --elf cm3-never.elf --image cm3.ram.bin@0x20000000",
            "last cm3.elf host.elf",
            "last cm3.core cm3.ram.bin",
            "last cm3.truth.tsv",
            "last --trace cm3.ram.bin",
            "last --elf cm3.elf --image cm3.ram.bin@0x20000000 --image cm3.ram.bin@0x20001000",
            "last --elf cm3.elf --image cm3.ram.bin@0xffffffff00000000",
            "last --elf cm3.elf --image cm3.ram.bin@zero",
            "last --elf cm3.elf --image cm3.ram.bin@0x20000000 --header 0x20000000",
            "last --elf cm3.elf --image cm3.ram.bin@0x20000000 --header 0x10",
            "last --symbol _tx_trace_header_ptr=0x20000000 --image cm3.ram.bin@0x20000000",
            "last --symbol nonsense --image cm3.ram.bin@0x20000000",
            "last 5ms cm3.elf cm3.core",
            "last 5parsec cm3.elf cm3.core",
            "last --hz SystemCoreClok cm3.elf cm3.core",
            "last --hz fast cm3.elf cm3.core",
            "last --remote 127.0.0.1:1",
            "last --remote nonsense",
            "last --timeout 0 --remote :1",
            "last --format xml cm3.trx",
            "last --format-in ctf cm3.trx",
            "last --format json --elf nofile.elf --core cm3.core",
            "last -o no/such/dir/x cm3.trx",
            "last @nofile",
            "lasst",
        ]),
    );
}

/// What a word was taken for, and what is typed instead.
#[test]
fn words_that_are_not_what_was_meant() {
    let s = "cm3.elf cm3.core";
    let mut all = lines(&[
        "last five",
        "last 1.5min cm3.trx",
        "last 5 6 cm3.trx",
        "last -n x cm3.trx",
        "last -n 0 cm3.trx",
        "list 50 cm3.trx",
        "list -20 cm3.trx",
        "info 20 cm3.trx",
        "last watchdog cm3.trx",
        "threads comms cm3.elf cm3.core",
        "last /dev/zero",
        "last -f json cm3.trx",
        "report --json cm3.trx",
        "last --header 20004f8c cm3.elf cm3.core",
        "last cm3-never.elf cm3-never.ram.bin",
        "threads uia-stop.elf uia-stop.ram.bin",
        "threads qnx.kev",
        "events --events nofile",
        "show cm3.trx",
        "last cm3.ram.bin:0x20000000",
        "last cm3.ram.bin:0x2..",
        "last cm3.elf cm3.ram.bin@20000000",
        "last cm3.elf cm3.ram.bin@0x20001000 --from -1",
        "last nodump.bin@0x20000000",
        "last app.core",
        "last cm3.cor",
        "last --image - --image -",
        "last --image -",
        "last be.elf cm3.ram.bin@0x20000000",
        "threads be.elf cm3.trx",
        "threads host.elf cm3.ram.bin@0x20000000",
        "list --to 0 --trace cm3.trx --trace cm3.trx",
        "last --remote openocd:3333",
        "last --remote openocd:4444",
        "last --remote openocd:6666",
        "last --hz 0 cm3.trx",
        "list --from 100 --to 50 cm3.trx",
        "list --from -1 --to -5 cm3.trx",
        "list --from soon cm3.trx",
        "list --around x cm3.trx",
        "last --thred x cm3.trx",
        "last --use cm3.trx",
        "--thread x last cm3.trx",
        "last --thread",
        "last --scan=yes cm3.trx",
        "last --elf a --elf b",
        "serve --stdio --listen :1 cm3.trx",
        "dump cm3.trx",
        "info --thread x cm3.trx",
        "bridge cm3.trx",
        "cm3.core",
        "help filtrs",
        "help zebra",
        "",
    ]);
    for filter in [
        "--context irq",
        "--context task",
        "--context x",
        "--arg i1~3",
        "--arg wiat=1",
        "--arg wait=foreverr",
        "--thread Watchdog",
        "--thread watchdgo",
        "--thread nobody",
        "--object bus_mutx",
        "--object nothing",
        "--event tx_queue_sned",
        "--event zebra",
        "--class mutx",
        "--core-id x",
        "--thread a,,b",
    ] {
        all.push(format!("last 1 {filter} {s}"));
    }
    check("words", &all);
}

#[test]
fn help_of_commands_and_topics() {
    let commands = stdout("gdb --commands");
    let mut names: Vec<&str> = commands.lines().skip(1).filter_map(|line| line.split('\t').next()).collect();
    names.dedup();
    let topics = ["sources", "endpoints", "filters", "exit-codes"];
    // The examples are held against what comes in `readme.rs`.
    let page = |name: &str| stdout(&format!("help {name}")).split("\nExample:\n").next().unwrap().to_owned() + "\n";
    let pages = names.iter().filter(|name| !name.is_empty()).chain(&topics).chain(&[""]);
    compare("cli/help.txt", &pages.map(|name| page(name)).collect::<String>());
    for name in names.iter().filter(|name| !name.is_empty() && **name != "events") {
        let [help, option] = [format!("help {name}"), format!("{name} --help")].map(|line| stdout(&line));
        assert_eq!(help.lines().skip(1).collect::<Vec<_>>(), option.lines().skip(1).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_path_from_elsewhere_reads_the_same() {
    let dir = std::env::temp_dir().join(format!("tx-trace-golden-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let source = dir.join("board.source");
    let fixtures = root().join("tests/fixtures");
    std::os::unix::fs::symlink(&fixtures, dir.join("fixtures")).unwrap();
    std::fs::write(&source, "# what the board left\n--elf fixtures/cm3.elf\n--image fixtures/cm3.ram.bin@0x20000000\n")
        .unwrap();
    let of = |line: &str| run(line).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(&format!("last 9 @{}", source.display())), of("last 9 cm3.elf cm3.ram.bin@0x20000000"));
    std::fs::remove_dir_all(&dir).unwrap();
}
