//! Refusals in one clean line, the status, help and completion, width and colour.

use super::tools::*;

fn on_core(commands: &[&str]) -> Option<Done> {
    let files = [&*fixture("cm3.elf"), &fixture("cm3.core")];
    installed(&["gdb-multiarch"]).then(|| batch("gdb-multiarch", &files, commands))
}

/// Lines on stderr that are ours.
fn ours(done: &Done) -> Vec<&str> {
    done.err
        .lines()
        .filter(|l| {
            l.starts_with("error: ") || l.starts_with("tx-trace: ") || l.contains("Traceback") || l.contains("Error")
        })
        .collect()
}

#[test]
fn without_a_process_it_says_so() {
    require!(installed(&["gdb-multiarch"]));
    let commands = ["tx-trace last 5", "p $_tx_trace_exit", "tx-trace events tx_time_get", "p $_tx_trace_exit"];
    let done = batch("gdb-multiarch", &[&fixture("cm3.elf")], &commands);
    let lines = ours(&done);
    assert_eq!(lines.len(), 1, "{}", done.err);
    assert!(lines[0].starts_with("error: there is no process, core or remote target to read"), "{}", lines[0]);
    assert!(done.out.starts_with("$1 = 2\n") && done.out.contains("tx_time_get"), "{}", done.out);
    assert!(done.out.ends_with("$2 = 0\n"), "{}", done.out);
}

#[test]
fn running_target_is_left_alone() {
    require!(installed(&["gdb"]) && runs_host_fixture());
    for mode in ["off", "on"] {
        let mode = format!("set non-stop {mode}");
        let commands = [&*mode, "run 60 &", "tx-trace last 5", "p $_tx_trace_exit", "set confirm off", "kill"];
        let done = batch("gdb", &["/bin/sleep"], &commands);
        assert_eq!(ours(&done), ["error: the target is running: interrupt it first"], "{}", done.err);
        assert!(done.out.contains("$1 = 2\n"), "{}", done.out);
    }
}

#[test]
fn status_and_failures() {
    let commands = [
        "tx-trace last 1",
        "p $_tx_trace_exit",
        "tx-trace show 9999",
        "p $_tx_trace_exit",
        "tx-trace lats 5",
        "p $_tx_trace_exit",
        "tx-trace last --width none",
        "p $_tx_trace_exit",
        "tx-trace list --core /nowhere/x.core",
    ];
    let Some(done) = on_core(&commands) else { return };
    for status in ["$1 = 0", "$2 = 1", "$3 = 2", "$4 = 2"] {
        assert!(done.out.contains(status), "{status}: {}\n{}", done.out, done.err);
    }
    let lines = ours(&done);
    assert_eq!(lines.len(), 4, "{}", done.err);
    assert!(lines[0].starts_with("error: there is no event 9999"));
    assert_eq!(lines[1], "error: `lats` is not a command");
    assert!(lines[2].starts_with("error: --width none"));
    assert!(lines[3].contains("/nowhere/x.core"));
    assert!(!done.err.contains("Traceback") && !done.err.contains("Python Exception"), "{}", done.err);
}

#[test]
fn json_has_its_error_line() {
    require!(installed(&["gdb-multiarch", "qemu-system-arm"]));
    let elf = fixture("cm3-never.elf");
    let (_qemu, port) = qemu(&elf);
    let connect = connect(port);
    let commands = [
        "set tcp connect-timeout 20",
        &connect,
        "echo <json\\n",
        "tx-trace last --format json",
        "echo json>\\n",
        "p $_tx_trace_exit",
        "kill",
    ];
    let done = batch("gdb-multiarch", &[&elf], &commands);
    let line: serde_json::Value = serde_json::from_str(done.part("json")).unwrap();
    assert_eq!((&line["type"], &line["code"]), (&"error".into(), &"never-enabled".into()));
    assert!(done.out.contains("$1 = 1") && done.err.contains("error: "), "{}", done.err);
}

#[test]
fn completion() {
    let commands = [
        "complete tx-trace las",
        "complete tx-trace last 5 --cl",
        "complete tx-trace last --class tx_q",
        "complete tx-trace list --event=tx_queue_send",
        "complete tx-trace last --leave run",
    ];
    let Some(done) = on_core(&commands) else { return };
    let text = done.out.split_once("fault_spin").unwrap().1.split_once('\n').unwrap().1;
    let expected = [
        "tx-trace last",
        "tx-trace last 5 --class",
        "tx-trace last --class tx_queue",
        "tx-trace list --event=tx_queue_send",
        "tx-trace list --event=tx_queue_send_notify",
        "tx-trace last --leave running",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

/// GDB completes the commands and options of the program's table, and no others.
#[test]
fn completion_is_the_table() {
    let table = shell(&["gdb", "--commands"]).out;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
    let commands = rows.iter().filter(|r| r.len() == 2).map(|r| format!("tx-trace {}", r[0]));
    let options =
        rows.iter().filter(|r| r.len() == 3 && r[0] == "control").map(|r| format!("tx-trace control {}", r[1]));
    let mut expected: Vec<String> = commands.chain(options).collect();
    let Some(done) = on_core(&["complete tx-trace ", "complete tx-trace control --"]) else { return };
    let mut listed: Vec<&str> = done.out.lines().filter(|l| l.starts_with("tx-trace ")).collect();
    expected.sort();
    listed.sort_unstable();
    assert!(expected.len() > 40, "{table}");
    assert_eq!(listed, expected);
}

/// Every command that the program lists has its help in GDB.
#[test]
fn help() {
    let listed = shell(&["gdb", "--commands"]).out;
    let mut names: Vec<&str> = listed.lines().filter_map(|l| l.split('\t').next()).collect();
    names.dedup();
    assert!(names.contains(&"last") && names.len() >= 8, "{names:?}");
    let Some(done) = on_core(&["help tx-trace", "help tx-trace last", "help set tx-trace binary"]) else { return };
    for name in names {
        assert!(done.out.contains(&format!("\ntx-trace {name} -- ")), "{name} in {}", done.out);
    }
    assert!(done.out.contains("The newest N events, oldest first.\n\nUsage: tx-trace last "), "{}", done.out);
    assert!(done.out.contains("Set the program that the command tx-trace runs."));
}

#[test]
fn width_is_gdbs_and_a_script_gets_no_colour() {
    let commands = [
        "set width 60",
        "echo <narrow\\n",
        "tx-trace last 50",
        "echo narrow>\\n",
        "set width 0",
        "echo <all\\n",
        "tx-trace last 50",
        "echo all>\\n",
        "set style enabled on",
        "python print(repr(gdb.execute('tx-trace last 5', False, True)))",
    ];
    let Some(done) = on_core(&commands) else { return };
    assert!(done.part("narrow").lines().filter(|l| !l.starts_with("now:")).all(|l| l.chars().count() <= 60));
    assert!(done.part("narrow").contains('~') && !done.part("all").contains('~'));
    assert!(!done.out.contains('\x1b') && !done.out.contains("x1b"), "{}", done.out);
}

#[test]
fn program_that_is_not_there() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    let silent = scratch.program("silent", "#!/bin/sh\nexit 7\n");
    let killed = scratch.program("killed", "#!/bin/sh\nkill -9 $$\n");
    let commands = [
        "set tx-trace binary /nowhere/tx-trace".to_owned(),
        "tx-trace last".to_owned(),
        "show tx-trace binary".to_owned(),
        format!("set tx-trace binary {silent}"),
        "tx-trace last".to_owned(),
        "p $_tx_trace_exit".to_owned(),
        format!("set tx-trace binary {killed}"),
        "tx-trace last".to_owned(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let done = batch("gdb-multiarch", &[], &commands);
    let lines = ours(&done);
    assert_eq!(lines.len(), 3, "{}", done.err);
    assert_eq!(lines[0], "error: /nowhere/tx-trace (`set tx-trace binary`) is not a program that can be run");
    assert!(lines[1].contains("ended with 7"), "{}", lines[1]);
    assert!(lines[2].contains("ended by signal 9"), "{}", lines[2]);
    assert!(done.out.contains("$1 = 7"));
}

/// The file is for Python 3.6 and later.
#[test]
fn python_3_6_syntax() {
    require!(installed(&["python3"]));
    let check = "import ast, sys\nif sys.version_info < (3, 8): sys.exit('SKIPPED: an old Python cannot check')\n\
                 ast.parse(open(sys.argv[1]).read(), feature_version=(3, 6))";
    let done = run(std::process::Command::new("python3").args(["-c", check, &script()]));
    if done.err.contains("SKIPPED") {
        eprintln!("{}", done.err);
        return;
    }
    assert_eq!(done.status, Some(0), "{}", done.err);
}

/// A debugger with a slow probe takes longer over a read than a stub on the network may.
#[test]
fn slow_debugger_is_waited_for() {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut command = std::process::Command::new(binary());
    command.args(["info", "--timeout", "0.2", "--header", "0x1000"]).env("TX_TRACE_REMOTE", "stdio:");
    let piped = std::process::Stdio::piped;
    let mut child = Server(command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap());
    let mut to = child.0.stdin.take().unwrap();
    let mut from = BufReader::new(child.0.stdout.take().unwrap());
    let mut packet = || {
        let (mut skipped, mut body, mut sum) = (Vec::new(), Vec::new(), [0; 2]);
        from.read_until(b'$', &mut skipped).unwrap();
        from.read_until(b'#', &mut body).unwrap();
        from.read_exact(&mut sum).unwrap_or_default();
        String::from_utf8(body).unwrap()
    };
    let mut reply = |text: &str| {
        let sum = text.bytes().fold(0u8, u8::wrapping_add);
        to.write_all(format!("+${text}#{sum:02x}").as_bytes()).unwrap();
    };
    assert!(packet().starts_with("qSupported"));
    reply("PacketSize=2004");
    assert_eq!(packet(), "?#");
    // Slower than the time-out: the slowness itself, and not a wait for something.
    std::thread::sleep(std::time::Duration::from_millis(700));
    reply("S05");
    assert!(packet().starts_with("m1000,"), "it neither gave up nor asked again");
}

/// The picture in GDB is that of the shell: what `explain` finds as well, since a debugger keeps the target where it is.
#[test]
fn timeline_is_that_of_the_shell() {
    let lines = ["timeline --width 80", "timeline --width 80 --around 110", "timeline --width 80 --ascii --from -40"];
    let commands: Vec<String> =
        lines.iter().flat_map(|l| ["echo <part\\n".into(), format!("tx-trace {l}"), "echo part>\\n".into()]).collect();
    let Some(done) = on_core(&commands.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let parts: Vec<&str> = done.out.split("<part\n").skip(1).map(|p| p.split("part>\n").next().unwrap()).collect();
    for (line, part) in lines.iter().zip(&parts) {
        let words: Vec<&str> = line.split(' ').collect();
        let wanted = shell(&[&words[..], &[&fixture("cm3.elf"), &fixture("cm3.core")]].concat());
        assert_eq!(*part, wanted.out, "{line}: {}", done.err);
        assert!(part.contains("low_task"), "{part}");
    }
    assert!(parts[0].contains("bus-fault: HardFault"), "{}", parts[0]);
    let refused = on_core(&["tx-trace timeline --from 9999", "p $_tx_trace_exit"]).unwrap();
    assert_eq!(ours(&refused), ["error: no event is in this range"]);
    assert!(refused.out.contains("$1 = 1"), "{}", refused.out);
}
