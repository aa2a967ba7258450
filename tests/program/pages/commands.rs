//! Every command line of the pages is run, in a directory with the files of `demo --export`; or it is on a list with the reason.

use std::collections::BTreeMap;

use super::{code, pages, text};
use crate::readme::{files, run, serve};
use crate::support::machine::{Scratch, fixture};
use crate::support::programs::installed;
use crate::support::tools;

/// Beginnings of commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 11] = [
    ("tx-trace serve", "it serves until Ctrl-C: tests/targets/serve"),
    ("tx-trace bridge", "it serves until Ctrl-C: tests/targets/live_docs.rs"),
    ("tx-trace follow", "a target that runs: tests/targets/follow.rs and follow_openocd.rs"),
    ("tx-trace control resume", "it writes to a live target: tests/targets/live_docs.rs"),
    ("tx-trace control only", "it writes to a live target: tests/targets/live_docs.rs"),
    ("tx-trace control show --format json", "after the two above: tests/targets/live_docs.rs"),
    ("tx-trace control off", "it writes to a live target: tests/targets/live_docs.rs"),
    ("tx-trace control mark", "it writes to a live target: tests/targets/live_docs.rs"),
    ("tx-trace control pause", "it writes to a live target: tests/targets/live_docs.rs"),
    ("tx-trace control disable", "it calls the target's function: tests/targets/live_docs.rs"),
    ("tx-trace last 50 --elf app --remote \"|gdbserver", "a process of ThreadX's Linux port: tests/targets"),
];

/// Parts of commands that are not run here, and why.
const NEEDS: [(&str, &str); 5] = [
    ("openocd::6666", "OpenOCD: tests/targets/follow_openocd.rs and the others with its Tcl port"),
    ("qmp:", "QEMU's machine protocol: tests/targets/follow.rs"),
    ("0xe7df7000", "an address of somebody's kernel"),
    ("0x81234000", "an address of somebody's kernel"),
    (" ... ", "dots are a placeholder"),
];

/// A command line, and where it is typed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Shell(String),
    Gdb(String),
    Monitor(String),
}

/// The command of a line in a code block: without the prompt, and without what is said about it.
fn command(line: &str) -> Option<(Line, i32)> {
    let line = line.trim();
    let exit = line.split("# exit ").nth(1).map_or(0, |code| code.trim().parse().unwrap());
    // Beside the command, behind two blanks or a `#`, is what it does.
    let bare = |text: &str| {
        let end = text.find("  ").unwrap_or(text.len());
        text[..end].split(" # ").next().unwrap().trim().to_owned()
    };
    let line = if let Some(gdb) = line.strip_prefix("(gdb) ") {
        match gdb.strip_prefix("monitor ") {
            Some(monitor) if monitor.starts_with("tx-trace ") => Line::Monitor(bare(monitor)),
            None if gdb.starts_with("tx-trace ") => Line::Gdb(bare(gdb)),
            _ => return None,
        }
    } else {
        let shell = line.strip_prefix("$ ").unwrap_or(line);
        if !(shell.starts_with("tx-trace ") || shell.starts_with("gzip ") && shell.contains("| tx-trace ")) {
            return None;
        }
        Line::Shell(bare(shell))
    };
    Some((line, exit))
}

/// What all pages say, each command once.
fn lines() -> BTreeMap<Line, (String, i32)> {
    let mut lines = BTreeMap::new();
    for page in pages() {
        for (language, block) in code(&text(&page)) {
            if ["yaml", "json", "c"].contains(&language.as_str()) {
                continue;
            }
            for (line, exit) in block.lines().filter_map(command) {
                lines.entry(line).or_insert((page.clone(), exit));
            }
        }
    }
    lines
}

fn reason(command: &str) -> Option<&'static str> {
    let begins = NOT_RUN.iter().find(|(begin, _)| command.starts_with(begin)).map(|(_, why)| *why);
    begins.or_else(|| NEEDS.iter().find(|(part, _)| command.contains(part)).map(|(_, why)| *why))
}

/// The port of a live target is that of a server of the same memory.
fn with_a_target(command: &str) -> String {
    let Some(at) = command.find("--remote :") else { return command.replace(":3333", &serve()) };
    let port = &command[at + "--remote ".len()..];
    let end = port.find(' ').unwrap_or(port.len());
    format!("{}--remote {}{}", &command[..at], serve(), &port[end..])
}

/// A directory with the files that the pages name.
fn place() -> Scratch {
    let scratch = Scratch::new("pages");
    files(&scratch);
    for (name, from) in [("ring.bin", "qnx-ring.bin"), ("tracebuffer.kev", "qnx.kev"), ("evidence.core", "cm3.core")] {
        std::fs::copy(fixture(from), scratch.path(name)).unwrap();
    }
    scratch
}

#[test]
fn every_shell_command_of_the_pages_runs() {
    let scratch = place();
    let (mut ran, mut wrong) = (0, Vec::new());
    for (line, (page, exit)) in lines() {
        let Line::Shell(command) = line else { continue };
        if reason(&command).is_some() || command.contains("| jq ") && !installed("jq") {
            continue;
        }
        // Each finds the files as the page before it has left them; only what it reads is there.
        std::fs::write(scratch.path("board.source"), format!("--elf app.elf\n--remote {}\n", serve())).unwrap();
        let (out, code, err) = run(&with_a_target(&command), &scratch, None);
        ran += 1;
        if code != exit {
            wrong.push(format!("{page}: {command}\n  exit {code}, not {exit}: {err}{out}"));
        }
    }
    assert!(ran > 60, "{ran} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the commands one after the other in a GDB; of each what it printed.
fn in_gdb(scratch: &Scratch, begin: &[String], commands: &[String]) -> Vec<String> {
    let mut gdb = tools::gdb("gdb-multiarch");
    gdb.current_dir(scratch.path("")).args(["-batch", "-ex", &format!("source {}", tools::script())]);
    for command in begin {
        gdb.args(["-ex", command]);
    }
    for command in commands {
        gdb.args(["-ex", "echo <command>\\n", "-ex", command]);
    }
    // GDB prints the output of monitor lines on stderr.
    let done = tools::run(
        std::process::Command::new("sh")
            .args(["-c", "exec \"$@\" 2>&1", "sh"])
            .args(std::iter::once(gdb.get_program()).chain(gdb.get_args()))
            .current_dir(scratch.path(""))
            .env("TX_TRACE_BIN", tools::binary()),
    );
    done.out.split("<command>\n").skip(1).map(str::to_owned).collect()
}

#[test]
fn every_gdb_command_of_the_pages_runs() {
    require!(installed("gdb-multiarch"));
    let scratch = place();
    let core = ["file app.elf".to_owned(), "core-file app.core".to_owned()];
    let served =
        ["file app.elf".to_owned(), format!("target remote | {} serve --stdio app.elf ram.bin", tools::binary())];
    let (mut gdb, mut monitor) = (Vec::new(), Vec::new());
    for (line, (page, _)) in lines() {
        match line {
            Line::Gdb(command) if reason(&command).is_none() => gdb.push((page, command)),
            Line::Monitor(command) => monitor.push((page, format!("monitor {command}"))),
            _ => {}
        }
    }
    for (begin, least, commands) in [(core, 5, gdb), (served, 4, monitor)] {
        let said = in_gdb(&scratch, &begin, &commands.iter().map(|(_, c)| c.clone()).collect::<Vec<_>>());
        assert_eq!(said.len(), commands.len(), "{said:?}");
        assert!(commands.len() >= least, "{commands:?}");
        for ((page, command), said) in commands.iter().zip(said) {
            let failed = said.contains("error: ") || said.contains("Undefined") || said.trim().is_empty();
            assert!(!failed, "{page}: {command}\n{said}");
        }
    }
}

/// A reason that no command needs any more goes.
#[test]
fn the_list_of_commands_that_are_not_run_is_short() {
    let lines = lines();
    let all: Vec<&String> = lines
        .keys()
        .map(|line| match line {
            Line::Shell(c) | Line::Gdb(c) | Line::Monitor(c) => c,
        })
        .collect();
    for (begin, _) in NOT_RUN {
        assert!(all.iter().any(|c| c.starts_with(begin)), "no page says {begin:?}");
    }
    for (part, _) in NEEDS {
        assert!(all.iter().any(|c| c.contains(part)), "no page says {part:?}");
    }
}
