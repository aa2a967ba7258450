//! What docs/bridge.md and docs/control.md show is run, on QEMU: `(gdb)` lines in one GDB a block, `$` lines in a shell.
//! Lines that are shown must come (`...` stands for any text), and `# exit N` tells an exit code that is not 0.
#![cfg(all(unix, feature = "cli"))]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::tools::*;

/// One block: commands, and what is shown below each.
struct Block {
    in_gdb: bool,
    commands: Vec<(String, Vec<String>)>,
}

fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page)).unwrap();
    let mut blocks = Vec::new();
    for block in text.split("```console\n").skip(1) {
        let body = block.split("```").next().unwrap();
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        for line in body.lines() {
            match line.strip_prefix("(gdb) ").or_else(|| line.strip_prefix("$ ")) {
                Some(command) => commands.push((command.to_owned(), Vec::new())),
                None => commands.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
        blocks.push(Block { in_gdb: body.starts_with("(gdb)"), commands });
    }
    blocks
}

/// True where `...` in a line stands for what is there.
fn line_fits(shown: &str, came: &str) -> bool {
    let Some((head, tail)) = shown.split_once("...") else { return shown == came };
    came.strip_prefix(head).is_some_and(|rest| rest.ends_with(tail))
}

fn fits(shown: &[String], came: &[&str]) -> bool {
    match shown.split_first() {
        None => came.is_empty(),
        Some((line, rest)) if line == "..." => (0..=came.len()).any(|at| fits(rest, &came[at..])),
        Some((line, rest)) => came.first().is_some_and(|c| line_fits(line, c)) && fits(rest, &came[1..]),
    }
}

#[track_caller]
fn check(command: &str, shown: &[String], came: &str) {
    let lines: Vec<&str> = came.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    assert!(shown.is_empty() || fits(shown, &lines), "{command}\n  prints now:\n{came}");
}

/// Runs one block in one GDB, stdout and stderr as they come.
fn in_gdb(block: &Block, elf: &str, first: &[String], last: &[&str], port: &str) {
    let mut command = gdb("gdb-multiarch");
    command.args(["-batch", "-ex", &format!("source {}", script())]);
    for c in first {
        command.args(["-ex", c]);
    }
    let mark = |text: &str| format!("python gdb.flush(); gdb.write('{text}\\n', gdb.STDERR)");
    for (i, (line, _)) in block.commands.iter().enumerate() {
        command.args(["-ex", &mark(&format!("<{i}"))]);
        // All output by one pipe, in its order.
        command.args(["-ex", &line.replace(":3334", port), "-ex", &mark(&format!("{i}>"))]);
    }
    for c in last {
        command.args(["-ex", c]);
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(command.get_program()).args(command.get_args()).arg(elf);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let done = run(&mut shell);
    for (i, (line, shown)) in block.commands.iter().enumerate() {
        check(line, shown, done.part(&i.to_string()));
    }
}

fn wait_for(port: u16) {
    let wanted = format!(":{port:04X}");
    let listens = || {
        ["tcp", "tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
            text.lines().any(|l| {
                let words: Vec<&str> = l.split_whitespace().collect();
                words.len() > 3 && words[1].ends_with(&wanted) && words[3] == "0A"
            })
        })
    };
    let began = std::time::Instant::now();
    while !listens() {
        assert!(began.elapsed() < TIME_LIMIT, "nobody listens at {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_the_page_of_the_bridge_shows() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let page = blocks("bridge.md");
    let [start, session] = page.as_slice() else { panic!("two blocks") };
    let elf = fixture("cm3.elf");
    let (_qemu, port) = qemu(&elf);
    wait_for(port);
    // It stands at its fault before the debugger of the page comes.
    let fault = ["hbreak fault_spin", "continue", "disconnect"];
    batch("gdb-multiarch", &[&elf], &[&[&*connect(port)], &fault[..]].concat());
    let listen = free_port();
    let (line, shown) = &start.commands[0];
    let words =
        line.replace(":3333", &format!(":{port}")).replace(":3334", &format!(":{listen}")).replace("app.elf", &elf);
    let mut command = Command::new(binary());
    command.args(words.split(' ').skip(1)).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut bridge = Server(command.env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE").spawn().unwrap());
    wait_for(listen);
    in_gdb(session, &elf, &[], &["kill"], &format!(":{listen}"));
    bridge.0.kill().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut bridge.0.stderr.take().unwrap(), &mut said).unwrap();
    let expected = shown[0].replace(":3333", &format!(":{port}")).replace(":3334", &format!(":{listen}"));
    assert_eq!(said.lines().next(), Some(expected.as_str()));
}

#[test]
fn what_the_page_of_control_shows() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm", "arm-none-eabi-gcc"]));
    let scratch = Scratch::new();
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware/build.sh");
    assert!(Command::new("sh").arg(build).arg(&scratch.0).arg("live").output().unwrap().status.success());
    let elf = scratch.path("cm3-live.elf");
    let page = blocks("control.md");
    let [session, shell_lines] = page.as_slice() else { panic!("two blocks") };
    let (_qemu, port) = qemu(&elf);
    let first: Vec<String> = [
        "set tcp connect-timeout 20",
        &connect(port),
        "set width 80",
        "hbreak __wrap_mk_thread_sleep",
        "continue",
        "ignore 1 200",
        "continue",
    ]
    .map(str::to_owned)
    .to_vec();
    assert!(session.in_gdb && !shell_lines.in_gdb);
    in_gdb(session, &elf, &first, &["disconnect"], "");
    for (line, shown) in &shell_lines.commands {
        let exit = line.split("# exit ").nth(1).map_or(0, |code| code.trim().parse().unwrap());
        let words = line.split(" #").next().unwrap().replace(":3333", &format!(":{port}")).replace("app.elf", &elf);
        let done = shell(&words.split_whitespace().skip(1).collect::<Vec<_>>());
        assert_eq!(done.status, Some(exit), "{line}: {}", done.err);
        check(line, shown, &format!("{}{}", done.out, done.err));
    }
}
