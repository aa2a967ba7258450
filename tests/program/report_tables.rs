//! Every command that prints a report, as people see it: at 80 and 120 columns, and into a pipe.

#![cfg(feature = "cli")]

use crate::support::golden::{check, run, stdout};

/// What prints reports.
const COMMANDS: [&str; 12] = [
    "info",
    "objects",
    "objects --use",
    "threads",
    "threads --all",
    "profile",
    "stats",
    "services",
    "stack",
    "inversions",
    "blocked",
    "latency --every tx_queue_send --span tx_queue_send..tx_queue_receive:queue_ptr",
];

/// Those of a system without control blocks in memory, and without these events.
const OTHERS: [&str; 9] =
    ["info", "objects", "objects --use", "profile", "stats", "stack", "inversions", "blocked", "latency"];

const WIDTHS: [&str; 3] = ["--width 80", "--width 120", ""];

/// The commands at these widths, each on its own line.
fn lines(commands: &[&str], source: &str) -> Vec<String> {
    let with = |command: &&str, width: &str| {
        let line = format!("{command} {width} {source}");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    WIDTHS.iter().flat_map(|width| commands.iter().map(|command| with(command, width))).collect()
}

#[test]
fn every_report_at_every_width() {
    check("reports-cm3", &lines(&COMMANDS, "cm3.elf cm3.core"));
    check("reports-smp", &lines(&COMMANDS, "smp.elf smp.core"));
    check("reports-host", &lines(&["threads", "objects", "stack", "profile"], "host.elf host.core"));
    check("reports-be", &lines(&["threads", "objects", "stack", "profile"], "be.trx"));
    check("reports-uia", &lines(&OTHERS, "--elf uia-stop.elf --image uia-stop.ram.bin@0x20000000"));
    check("reports-qnx", &lines(&OTHERS, "qnx.kev"));
    check(
        "reports-tracex",
        &lines(
            &["stats", "profile", "stack", "inversions"]
                .map(|c| format!("{c} --tracex"))
                .each_ref()
                .map(String::as_str),
            "cm3.trx",
        ),
    );
}

/// A row of 80 columns is folded at words, or a record: no cell ends in a mark that something is missing.
#[test]
fn no_cell_is_cut_and_no_line_is_too_long() {
    for width in [60, 80, 100] {
        for command in COMMANDS {
            let text = stdout(&format!("{command} --width {width} cm3.elf cm3.core"));
            for line in text.lines().skip(1) {
                assert!(!line.contains('~') && line.chars().count() <= width, "{command}: {line}");
            }
        }
    }
}

/// Names with underscores are for programs: heads and titles are words.
#[test]
fn heads_and_titles_had_names_of_programs() {
    for command in COMMANDS.iter().filter(|c| **c != "info") {
        let text = stdout(&format!("{command} --format md cm3.elf cm3.core"));
        let lines: Vec<&str> = text.lines().collect();
        let heads = lines.windows(2).filter(|pair| pair[1].starts_with("|---") || pair[1].starts_with("| ---"));
        let heads: Vec<&str> = heads.map(|pair| pair[0]).collect();
        assert!(!heads.is_empty(), "{text}");
        let titles = lines.iter().copied().filter(|line| line.starts_with('#'));
        for head in heads.into_iter().chain(titles) {
            assert!(!head.contains('_'), "{command}: {head}");
        }
    }
}

/// 53 lines of notes, nearly all of them definitions.
#[test]
fn notes_were_longer_than_the_reports() {
    let text = run("stats --width 200 cm3.elf cm3.core");
    assert!(text.lines().filter(|line| line.starts_with("note:")).count() <= 2, "{text}");
    for command in COMMANDS {
        let text = run(&format!("{command} --width 200 cm3.elf cm3.core"));
        let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("note:")).collect();
        assert!(notes.len() <= 4, "{notes:?}");
        assert!(notes.iter().all(|note| note.len() <= 120), "{notes:?}");
    }
}

/// That segments of a core overlap changes nothing of a report.
#[test]
fn notes_about_files_were_below_every_result() {
    let about_files = "segments of the core overlap";
    for command in ["profile", "threads", "objects", "last 1"] {
        let text = run(&format!("{command} cm3.elf cm3.core"));
        assert!(!text.contains(about_files), "{text}");
    }
    assert!(run("info cm3.elf cm3.core").contains(about_files));
    assert!(run("profile --format json cm3.elf cm3.core").contains(r#""code":"core""#));
}
