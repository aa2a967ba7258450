//! What `-o FILE` does to a file that is there, and what it leaves behind when it fails or is ended.
#![cfg(all(feature = "cli", unix))]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::builder::{Buffer, Entry};
use crate::support::machine::{Scratch, fixture, gdbserver_at_the_end, installed, said, text, tx_trace, wait_for};

const OLD: &str = "what was here before";

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(line.split(' ')).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
    command.stdin(Stdio::null());
    command
}

/// Names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Something is written in an unfinished file.
fn has_begun(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().map(Result::unwrap).any(|entry| {
        entry.file_name().to_string_lossy().contains(".part") && entry.metadata().is_ok_and(|file| file.len() > 0)
    })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// `--format json` put its `error` line in the place of the old file.
#[test]
fn an_old_file_was_replaced_by_the_line_of_an_error() {
    let scratch = Scratch::new("error-line");
    let trace = fixture("cm3.trx");
    for line in ["list --thread nobody", "list --event no_such_event", "report --thread nobody"] {
        for format in ["json", "table"] {
            let (old, new) = (scratch.path("old"), scratch.path("new"));
            fs::write(&old, OLD).unwrap();
            for file in [&old, &new] {
                let out = command(line).args(["--format", format]).arg(&trace).arg("-o").arg(file).output().unwrap();
                assert!(matches!(out.status.code(), Some(1 | 2)), "{line}: {}", said(&out));
                assert!(said(&out).contains("error: "), "{line}: the reason goes to stderr");
                assert!(out.stdout.is_empty(), "{line}");
                assert_eq!(said(&out).contains("old is left as it was"), *file == old, "{line}: {}", said(&out));
            }
            assert_eq!(fs::read_to_string(&old).unwrap(), OLD, "{line} {format}");
            assert_eq!(names(&scratch.path(".")), ["old"], "{line} {format}");
        }
    }
    let old = scratch.path("old");
    for line in ["list /no/such/file", "list", "threads --core /no/such/file"] {
        let out = command(line).args(["--format", "json", "-o"]).arg(&old).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}: {}", said(&out));
        assert_eq!(fs::read_to_string(&old).unwrap(), OLD, "{line}");
    }
}

/// A file may be no larger than 4 KiB: the disk is full, for this program.
#[test]
fn a_full_disk_replaced_the_old_file_by_the_line_of_an_error() {
    let scratch = Scratch::new("full-disk");
    let old = scratch.path("old.json");
    fs::write(&old, OLD).unwrap();
    for trap in ["", "trap '' XFSZ; "] {
        let limited = format!("ulimit -f 8; {trap}exec {} \"$@\"", env!("CARGO_BIN_EXE_tx-trace"));
        let mut sh = Command::new("sh");
        sh.args(["-c", &limited, "sh", "list", "--format", "json"]).arg(fixture("cm3.trx")).arg("-o").arg(&old);
        let out = sh.output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{trap}: {}", said(&out));
        assert!(said(&out).contains("old.json: file too large"), "{trap}: {}", said(&out));
        assert!(said(&out).contains("is left as it was"), "{trap}: {}", said(&out));
        assert_eq!(fs::read_to_string(&old).unwrap(), OLD, "{trap}");
        assert_eq!(names(&scratch.path(".")), ["old.json"], "{trap}");
    }
}

/// A file of mode 0600 came back readable by everybody.
#[test]
fn the_mode_of_an_old_file_was_lost() {
    let scratch = Scratch::new("mode");
    let (old, new) = (scratch.path("old"), scratch.path("new"));
    let run = |umask: &str, file: &Path| {
        let line = format!("umask {umask}; exec {} list \"$@\"", env!("CARGO_BIN_EXE_tx-trace"));
        let out = Command::new("sh").args(["-c", &line, "sh"]).arg(fixture("cm3.trx")).arg("-o").arg(file).output();
        assert!(out.as_ref().unwrap().status.success(), "{}", said(&out.unwrap()));
    };
    for wanted in [0o600, 0o640, 0o666, 0o444] {
        fs::write(&old, OLD).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(wanted)).unwrap();
        run("022", &old);
        assert_eq!(mode(&old), wanted, "{wanted:o}");
        assert!(fs::read_to_string(&old).unwrap().starts_with("seq"));
        fs::remove_file(&old).unwrap();
    }
    for (umask, wanted) in [("022", 0o644), ("077", 0o600)] {
        run(umask, &new);
        assert_eq!(mode(&new), wanted);
        fs::remove_file(&new).unwrap();
    }
    // Root can give it back to its owner.
    fs::write(&old, OLD).unwrap();
    if std::os::unix::fs::chown(&old, Some(12), Some(34)).is_ok() {
        run("022", &old);
        let there = fs::metadata(&old).unwrap();
        assert_eq!((there.uid(), there.gid()), (12, 34));
    }
}

/// A link to a file that did not exist yet became a file.
#[test]
fn a_symbolic_link_stays_a_link() {
    let scratch = Scratch::new("links");
    fs::create_dir(scratch.path("sub")).unwrap();
    symlink("sub/target", scratch.path("first")).unwrap();
    symlink("first", scratch.path("second")).unwrap();
    // Once there is nothing at its end, once there is.
    for _ in 0..2 {
        let out = command("list").arg(fixture("cm3.trx")).arg("-o").arg(scratch.path("second")).output().unwrap();
        assert!(out.status.success(), "{}", said(&out));
        for link in ["first", "second"] {
            assert!(fs::symlink_metadata(scratch.path(link)).unwrap().is_symlink());
        }
        assert!(fs::read_to_string(scratch.path("sub/target")).unwrap().starts_with("seq"));
        assert_eq!(names(&scratch.path("sub")), ["target"]);
    }
    symlink("round", scratch.path("round")).unwrap();
    let out = command("list").arg(fixture("cm3.trx")).arg("-o").arg(scratch.path("round")).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("too many symbolic links"), "{}", said(&out));
}

/// Starts it with SIGINT blocked, as the GDB plug-in does.
fn block_interrupt(command: &mut Command) {
    // SAFETY: both calls are safe after a fork; the set lives as long as they run.
    #[allow(unsafe_code, reason = "std has no signal masks")]
    unsafe {
        command.pre_exec(|| {
            let mut interrupt: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut interrupt, libc::SIGINT);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const interrupt, std::ptr::null_mut());
            Ok(())
        });
    }
}

/// `NAME.partPID` stayed when a signal ended a command on files.
#[test]
fn a_signal_left_half_a_file() {
    let scratch = Scratch::new("half");
    let trace = scratch.path("trace.trx");
    let events: Vec<Entry> = (0..400_000).map(|i| Entry::init(100, i, [i, 0, 0, 0])).collect();
    fs::write(&trace, Buffer::new(0x2000_0000).record(events.len(), &events).bytes()).unwrap();
    let dir = scratch.path("out");
    fs::create_dir(&dir).unwrap();
    let old = dir.join("old");
    // Under `nohup` the program ignores SIGHUP as well, and SIGINT in the background of a shell.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let is_ignored = |signal: i32| ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1);
    let all = [("INT", 2), ("TERM", 15), ("HUP", 1)];
    for (name, signal) in all.into_iter().filter(|(_, signal)| !is_ignored(*signal)) {
        fs::write(&old, OLD).unwrap();
        let mut run = command("list --format json");
        block_interrupt(&mut run);
        let mut child = run.arg(&trace).arg("-o").arg(&old).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the unfinished file", || has_begun(&dir));
        assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal), "{name}: {status}");
        assert_eq!(names(&dir), ["old"], "{name}");
        assert_eq!(fs::read_to_string(&old).unwrap(), OLD, "{name}");
    }
    // What `nohup` makes harmless stays harmless.
    let line = format!("trap '' HUP; exec {} list \"$@\"", env!("CARGO_BIN_EXE_tx-trace"));
    let mut run = Command::new("sh");
    let mut child = run.args(["-c", &line, "sh"]).arg(&trace).arg("-o").arg(&old).spawn().unwrap();
    wait_for("the unfinished file", || has_begun(&dir));
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(&dir), ["old"]);
}

/// A name that a killed process of the same number has left is no reason to fail, and is not touched.
#[test]
fn an_unfinished_file_of_another_process_is_in_nobodys_way() {
    let scratch = Scratch::new("other-part");
    let file = scratch.path("table");
    let line = format!("echo kept >\"$2.part$$\"; exec {} list \"$1\" -o \"$2\"", env!("CARGO_BIN_EXE_tx-trace"));
    let out = Command::new("sh").args(["-c", &line, "sh"]).arg(fixture("cm3.trx")).arg(&file).output().unwrap();
    assert!(out.status.success(), "{}", said(&out));
    assert!(fs::read_to_string(&file).unwrap().starts_with("seq"));
    assert_eq!(names(&scratch.path(".")).len(), 2);
}

/// The first signal ends `follow` in order; what it has printed is a complete file.
#[test]
fn a_signal_to_follow_completes_its_file() {
    if !installed("gdbserver") || cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return;
    }
    let scratch = Scratch::new("follow-file");
    let server = gdbserver_at_the_end(&fixture("host.elf"));
    let file = scratch.path("events.json");
    fs::write(&file, OLD).unwrap();
    let mut run = command("follow --from-start --format json");
    run.arg("--elf").arg(fixture("host.elf")).arg("--remote").arg(server.remote());
    let child = run.arg("-o").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the unfinished file", || has_begun(&scratch.path(".")));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(names(&scratch.path(".")), ["events.json"]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().last().unwrap().starts_with(r#"{"type":"end""#), "{text}");
}

/// `list crash.trx -o crash.trx` left a table where the only record of the crash had been.
#[test]
fn output_over_the_input_destroyed_it() {
    let scratch = Scratch::new("over-input");
    let whole = std::fs::read(fixture("cm3.trx")).unwrap();
    let (trace, link) = (scratch.path("crash.trx"), scratch.path("link"));
    std::fs::write(&trace, &whole).unwrap();
    std::os::unix::fs::symlink(&trace, &link).unwrap();
    let trace = trace.to_str().unwrap();
    for output in [trace, link.to_str().unwrap()] {
        for words in
            [&["list"][..], &["last", "5"], &["show", "1"], &["info"], &["objects"], &["list", "--format", "json"]]
        {
            let out = tx_trace(&[words, &[trace, "-o", output][..]].concat());
            assert_eq!(out.status.code(), Some(2), "{words:?}");
            assert!(text(&out.stderr).contains("which is an input"), "{}", text(&out.stderr));
            assert!(std::fs::read(trace).unwrap() == whole, "{words:?}");
        }
    }
    // Nor is a file of names overwritten, or a link that leads to somewhere else replaced.
    let names = scratch.path("names.tsv");
    std::fs::write(&names, "id\tname\n4096\tboot\n").unwrap();
    let names = names.to_str().unwrap();
    let out = tx_trace(&["events", "--events", names, "-o", names]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(std::fs::read_to_string(names).unwrap().contains("boot"));
    let (table, other) = (scratch.path("table"), scratch.path("other"));
    std::fs::write(&table, "old").unwrap();
    std::os::unix::fs::symlink(&table, &other).unwrap();
    assert!(tx_trace(&["list", trace, "-o", other.to_str().unwrap()]).status.success());
    assert!(std::fs::symlink_metadata(&other).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&table).unwrap().contains("seq"));
}

/// `-o /dev/full`, run by root, put a plain file in the place of the device, and succeeded.
#[test]
fn a_device_as_output_was_replaced_by_a_file() {
    use std::os::unix::fs::FileTypeExt as _;
    let scratch = Scratch::new("device");
    // Whoever runs this: a FIFO of our own first, so that nothing of the machine is broken where this fails.
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || Command::new("head").args(["-n", "1"]).arg(fifo).output().unwrap())
    };
    let trace = fixture("cm3.trx");
    let out = tx_trace(&["list", trace.to_str().unwrap(), "-o", fifo.to_str().unwrap()]);
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo(), "{}", text(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&reader.join().unwrap().stdout).starts_with("seq"));
    let out = tx_trace(&["list", trace.to_str().unwrap(), "-o", "/dev/full"]);
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    assert_eq!(out.status.code(), Some(2));
    let out = tx_trace(&["list", trace.to_str().unwrap(), "-o", scratch.path("").to_str().unwrap()]);
    assert!(out.status.code() == Some(2) && text(&out.stderr).contains("directory"), "{}", text(&out.stderr));
}
