//! Whether ELF and memory match: what can be compared, and what cannot.

#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};

use crate::support::machine::{Qemu, Scratch, fixture, installed, symbol, tx_trace};
use serde_json::Value;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

/// The sections of a 32-bit little-endian ELF: where the header is, type, flags, offset and size.
fn sections(elf: &[u8]) -> Vec<(usize, usize, usize, usize, usize)> {
    let (table, count) = (word(elf, 32), half(elf, 48));
    let at = |i: usize| table + 40 * i;
    let of = |i| {
        let [kind, flags, offset, size] = [4, 8, 16, 20].map(|field| word(elf, at(i) + field));
        (at(i), kind, flags, offset, size)
    };
    (0..count).map(of).collect()
}

/// What `objcopy --only-keep-debug` leaves: sections of the program without bytes (but notes), program headers as before,
/// and other bytes where they point to.
fn debug_only(mut elf: Vec<u8>) -> Vec<u8> {
    for (header, kind, flags, offset, size) in sections(&elf) {
        if flags & 2 != 0 && kind == 1 {
            elf[header + 4] = 8;
            elf[offset..offset + size].fill(0x41);
        }
    }
    elf
}

/// The program of another build with the same names of threads: other code, and no build id.
fn other_code(mut elf: Vec<u8>) -> Vec<u8> {
    for (_, kind, flags, offset, size) in sections(&elf) {
        if flags & 4 != 0 {
            let text = &mut elf[offset..offset + size];
            // Constants follow the code; the first of them is a name.
            let names = text.windows(8).position(|w| w == b"watchdog").unwrap().min(0x1800);
            for (i, byte) in text[..names].iter_mut().enumerate() {
                *byte = byte.wrapping_mul(7).wrapping_add((i / 3) as u8);
            }
        } else if kind == 7 {
            elf[offset..offset + size].fill(0);
        }
    }
    elf
}

fn put(files: &Scratch, name: &str, bytes: Vec<u8>) -> PathBuf {
    let path = files.path(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// What a command prints as JSON.
fn json(command: &str, elf: &Path, source: &[&str]) -> Vec<Value> {
    let mut words = vec![command, "--format", "json", "--elf", elf.to_str().unwrap()];
    words.extend(source);
    let out = tx_trace(&words);
    assert_eq!(out.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn mismatches(lines: &[Value]) -> Vec<String> {
    let issues = lines.iter().filter(|l| l["type"] == "issue" && l["code"] == "elf-mismatch");
    issues.map(|l| l["message"].as_str().unwrap().to_owned()).collect()
}

/// What `info` says of ELF and memory.
fn belonging(lines: &[Value]) -> String {
    let row = lines.iter().find(|l| l["what"] == "ELF and memory").unwrap();
    row["value"].as_str().unwrap().to_owned()
}

/// "0 of 10 thread names agree: this ELF is of another build", though its strings were not there to be compared.
#[test]
fn an_elf_of_debug_information_alone_was_of_another_build() {
    let files = Scratch::new("debug-only");
    let elf = put(&files, "cm3.debug", debug_only(std::fs::read(fixture("cm3.elf")).unwrap()));
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    let ram = ["--image", image.as_str()];
    for command in ["last", "info", "threads"] {
        assert_eq!(mismatches(&json(command, &elf, &ram)), Vec::<String>::new(), "{command}");
    }
    let info = json("info", &elf, &ram);
    // Its symbols are left: they show where functions begin.
    assert_eq!(
        belonging(&info),
        "match: 10 of 10 thread entries begin a function, 3 of 3 pointers of the kernel point to a thread"
    );
    // Its segments' bytes are no code and no names: threads are named by the registry.
    let threads = json("threads", &elf, &ram);
    let names = threads.iter().filter(|l| l["report"] == "threads").map(|l| l["thread"]["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"watchdog") && names.contains(&"low_task"), "{names:?}");
    // A core has the code; the build id in it is the ELF's.
    let core = fixture("cm3.core");
    let info = json("info", &elf, &["--core", core.to_str().unwrap()]);
    assert_eq!(
        belonging(&info),
        "match: 10 of 10 thread entries begin a function, the build id is the same, 3 of 3 pointers of the kernel point to a thread"
    );
    // Of another build it is not called the same.
    let other = fixture("cm3-never.elf");
    let info = json("info", &other, &ram);
    assert_eq!(
        belonging(&info),
        "mismatch: 0 of 10 thread names agree, 1 of 10 thread entries begin a function, 3 of 3 pointers of the kernel point to a thread: this ELF is of another build"
    );
}

/// Names of threads agreed, and the code was never looked at.
#[test]
fn an_elf_of_another_build_with_the_same_names_was_accepted() {
    let files = Scratch::new("other-code");
    let other = put(&files, "other.elf", other_code(std::fs::read(fixture("cm3.elf")).unwrap()));
    let core = fixture("cm3.core");
    let source = ["--core", core.to_str().unwrap()];
    for command in ["last", "list", "info", "threads", "objects"] {
        let said = mismatches(&json(command, &other, &source));
        assert_eq!(said.len(), 1, "{command}: {said:?}");
        assert!(
            said[0].contains(" of 8 samples of code agree (the first that differs is at 0x"),
            "{command}: {said:?}"
        );
    }
    let said = belonging(&json("info", &other, &source));
    assert!(said.starts_with("mismatch: 10 of 10 thread names agree, ") && said.contains("another build"), "{said}");
    // A dump of RAM has no code: only names can be compared.
    let image = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    let info = json("info", &other, &["--image", &image]);
    assert_eq!(
        (mismatches(&info).len(), belonging(&info)),
        (0, "match: 10 of 10 thread names agree, 10 of 10 thread entries begin a function, 3 of 3 pointers of the kernel point to a thread".into())
    );
    // Each program with its own memory.
    for (elf, core) in
        [("cm3.elf", "cm3.core"), ("host.elf", "host.core"), ("be.elf", "be.core"), ("smp.elf", "smp.core")]
    {
        let core = fixture(core);
        let info = json("info", &fixture(elf), &["--core", core.to_str().unwrap()]);
        assert_eq!(mismatches(&info), Vec::<String>::new(), "{elf}");
        assert!(belonging(&info).starts_with("match: "), "{elf}: {}", belonging(&info));
    }
}

/// Gives symbols of an ELF of `cm3.elf`'s kind other addresses: `to` says which, by name, type and address.
fn moved(mut elf: Vec<u8>, to: impl Fn(&str, u8, usize) -> usize) -> Vec<u8> {
    let all = sections(&elf);
    let (header, .., offset, size) = *all.iter().find(|(_, kind, ..)| *kind == 2).unwrap();
    let (.., names, _) = all[word(&elf, header + 24)];
    for at in (offset..offset + size).step_by(16) {
        let name = &elf[names + word(&elf, at)..];
        let name = String::from_utf8(name[..name.iter().position(|b| *b == 0).unwrap()].to_vec()).unwrap();
        let address = to(&name, elf[at + 12] & 15, word(&elf, at + 4)) as u32;
        elf[at + 4..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    elf
}

/// The dump of RAM that belongs to `cm3.elf`.
fn ram() -> String {
    format!("{}@0x20000000", fixture("cm3.ram.bin").display())
}

/// A dump of RAM holds no code, and all names of threads agreed: an ELF whose functions are elsewhere was a match, and
/// threads had the entries of others.
#[test]
fn thread_entries_within_functions_were_a_match() {
    const FUNCTION: u8 = 2;
    let files = Scratch::new("entries");
    let own = std::fs::read(fixture("cm3.elf")).unwrap();
    let later = moved(own.clone(), |_, kind, at| if kind == FUNCTION { at - 8 } else { at });
    let later = put(&files, "later.elf", later);
    let (image, core) = (ram(), fixture("cm3.core"));
    let source = ["--image", image.as_str()];
    let info = json("info", &later, &source);
    let text = "mismatch: 10 of 10 thread names agree, 0 of 10 thread entries begin a function, 3 of 3 pointers of the kernel point to a thread: this ELF is of another build";
    assert_eq!((belonging(&info).as_str(), mismatches(&info).len()), (text, 1));
    let threads = json("threads", &later, &source);
    let said = mismatches(&threads);
    assert!(said.len() == 1 && said[0].contains("0 of 10 thread entries begin a function"), "{said:?}");
    assert!(said[0].contains("+0x8)") && said[0].contains("this ELF is of another build"), "{said:?}");
    // Its variables are where this ELF does not say.
    let rows = |lines: &[Value]| lines.iter().filter(|l| l["report"] == "threads").cloned().collect::<Vec<_>>();
    assert!(rows(&threads).iter().all(|l| l["running"].is_null()), "{threads:?}");
    // One that differs may be a control block that was overwritten.
    let one = put(&files, "one.elf", moved(own, |name, _, at| if name == "watchdog_entry" { at - 8 } else { at }));
    let threads = json("threads", &one, &source);
    let said = mismatches(&threads);
    assert!(
        said.len() == 1 && said[0].contains("9 of 10 thread entries") && said[0].contains("may be wrong"),
        "{said:?}"
    );
    assert!(rows(&threads).iter().any(|l| l["running"] == true));
    // Where code is there it decides: by the build id these are one program.
    let info = json("info", &later, &["--core", core.to_str().unwrap()]);
    assert_eq!(mismatches(&info), Vec::<String>::new());
    for command in ["info", "threads"] {
        assert_eq!(mismatches(&json(command, &fixture("cm3.elf"), &source)), Vec::<String>::new(), "{command}");
    }
}

/// An ELF of another build, by the names in it; its variables are where this memory is 0.
fn elsewhere() -> Vec<u8> {
    let dump = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let zeros = 0x2000_0000 + 64 * dump.chunks(64).position(|c| c.iter().all(|b| *b == 0)).unwrap();
    let kernel = ["_tx_trace_header_ptr", "_tx_thread_current_ptr", "_tx_thread_execute_ptr"];
    let mut elf = moved(
        std::fs::read(fixture("cm3.elf")).unwrap(),
        |name, _, at| if kernel.contains(&name) { zeros } else { at },
    );
    for name in [
        "System Timer Thread",
        "watchdog",
        "startup",
        "control",
        "sensor",
        "comms",
        "filter",
        "updater",
        "logger",
        "low_task",
    ] {
        let text = [name.as_bytes(), b"\0"].concat();
        let found: Vec<usize> = (0..elf.len() - text.len()).filter(|at| elf[*at..].starts_with(&text)).collect();
        found.into_iter().for_each(|at| elf[at] = b'~');
    }
    elf
}

/// "The trace was not enabled since the last start", "no thread runs (idle)": both from variables that are elsewhere.
#[test]
fn under_another_build_the_trace_was_left_over_and_the_kernel_idle() {
    let files = Scratch::new("elsewhere");
    let other = put(&files, "other.elf", elsewhere());
    let image = ram();
    let source = ["--image", image.as_str()];
    for command in ["last", "info", "threads", "stats"] {
        let lines = json(command, &other, &source);
        assert_eq!(mismatches(&lines).len(), 1, "{command}");
        let issue = |code: &str| lines.iter().find(|l| l["type"] == "issue" && l["code"] == code).cloned();
        assert_eq!(issue("left-over"), None, "{command}");
        let found = issue("found-by-search").unwrap();
        assert!(found["message"].as_str().unwrap().starts_with("the ELF does not match this memory"), "{found}");
        assert!(found["where"]["address"].is_string(), "{found}");
    }
    let lines = json("threads", &other, &source);
    let rows: Vec<_> = lines.iter().filter(|l| l["report"] == "threads").collect();
    assert!(rows.len() == 10 && rows.iter().all(|l| l["running"].is_null()), "{rows:?}");
    assert!(lines.iter().all(|l| l["report"] != "cpus"), "what the CPU does is not known");
    let unknown =
        lines.iter().any(|l| l["message"].as_str().is_some_and(|m| m.contains("does not show which thread runs")));
    assert!(unknown, "{lines:?}");
    let table = tx_trace(&["threads", other.to_str().unwrap(), "--image", &image]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(!table.contains("no thread runs") && !table.contains("\n* "), "{table}");
    // The program's own ELF knows: it was enabled, and watchdog runs.
    let own = json("threads", &fixture("cm3.elf"), &source);
    let runs = own.iter().find(|l| l["running"] == true).unwrap();
    assert_eq!(runs["thread"]["name"], "watchdog");
}

/// "The trace was not enabled", "the kernel has no threads": of a memory whose code is not this ELF's nothing is said.
#[test]
fn under_another_build_there_was_no_trace_and_no_thread() {
    let files = Scratch::new("nothing");
    let never = std::fs::read(fixture("cm3-never.elf")).unwrap();
    let (_, _, _, offset, size) = *sections(&never).iter().find(|(.., flags, _, _)| *flags & 4 != 0).unwrap();
    let address = sections(&never).iter().find(|(.., flags, _, _)| *flags & 4 != 0).map(|s| word(&never, s.0 + 12));
    let code = put(&files, "code.bin", never[offset..offset + size].to_vec());
    let empty = put(&files, "empty.bin", vec![0; 0x8000]);
    let other = put(&files, "other.elf", other_code(never));
    let code = format!("{}@{:#x}", code.display(), address.unwrap());
    let empty = format!("{}@0x20000000", empty.display());
    let run = |command: &str, elf: &Path| {
        let out = tx_trace(&[command, "--elf", elf.to_str().unwrap(), "--image", &code, "--image", &empty]);
        (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    for (command, own, what) in [
        ("last", "was not enabled since the last start", "where a trace would be"),
        ("threads", "the kernel has no threads", "where threads would be"),
    ] {
        let (status, said) = run(command, &fixture("cm3-never.elf"));
        assert!(status == 1 && said.contains(own), "{command}: {status} {said}");
        let (status, said) = run(command, &other);
        assert!(status == 2 && said.contains("this ELF is of another build") && said.contains(what), "{said}");
        assert!(!said.contains(own), "{said}");
    }
}

/// Over a link it costs reads: `info` and `threads` compare, `last` does not.
#[test]
fn code_of_a_live_target_is_compared_by_info_and_threads() {
    require!(installed("qemu-system-arm"));
    let files = Scratch::new("live-code");
    let own = fixture("cm3.elf");
    let other = put(&files, "other.elf", other_code(std::fs::read(&own).unwrap()));
    let qemu = Qemu::dead(&own);
    let remote = qemu.remote();
    let source = ["--remote", remote.as_str(), "--leave", "halted"];
    let info = json("info", &own, &source);
    assert!(
        belonging(&info).contains("the build id is the same, 8 of 8 samples of code agree, 3 of 3 pointers"),
        "{}",
        belonging(&info)
    );
    for (command, said) in [("info", 1), ("threads", 1), ("last", 0)] {
        assert_eq!(mismatches(&json(command, &own, &source)), Vec::<String>::new(), "{command}");
        assert_eq!(mismatches(&json(command, &other, &source)).len(), said, "{command}");
    }
}

/// `threads` showed what is held or waited for; a pool that is used up was not there.
#[test]
fn objects_without_waiting_threads_were_left_out() {
    let (elf, core) = (fixture("cm3.elf"), fixture("cm3.core"));
    let names = |more: &[&str]| {
        let mut words = vec!["threads", elf.to_str().unwrap(), core.to_str().unwrap()];
        words.extend(more);
        let text = String::from_utf8(tx_trace(&words).stdout).unwrap();
        let below = text.split_once("\nobject ").unwrap().1.to_owned();
        let all = [
            "bus_mutex",
            "log_mutex",
            "samples",
            "log_queue",
            "rx_ready",
            "alive",
            "sample_pool",
            "scratch",
            "heartbeat",
        ];
        all.into_iter().filter(|n| below.contains(&format!(" {n} "))).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["bus_mutex", "samples", "log_queue", "rx_ready", "sample_pool"]);
    assert_eq!(names(&["--all"]).len(), 9);
}

/// `threads` on a stripped program ended with an error: an ARM of little, a PowerPC of big-endian order.
#[test]
fn threads_of_a_stripped_program() {
    for source in [["--elf", "cm3.stripped.elf", "--core", "cm3.core"].as_slice(), &["be.core"]] {
        let files: Vec<PathBuf> = source.iter().map(|w| fixture(w)).collect();
        let words = source.iter().zip(&files).map(|(w, f)| if w.starts_with("--") { *w } else { f.to_str().unwrap() });
        let words: Vec<&str> = ["threads", "--format", "json"].into_iter().chain(words).collect();
        let out = tx_trace(&words);
        assert_eq!(out.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let of = |report: &str| lines.iter().filter(|l| l["report"] == report).collect::<Vec<_>>();
        assert_eq!(of("threads").len(), 10, "{words:?}");
        assert!(of("threads").iter().all(|t| t["running"].is_null()), "{words:?}");
        let counts = ["mutexes", "queues", "semaphores", "event_flags", "block_pools", "byte_pools", "timers"];
        assert_eq!(counts.map(|r| of(r).len()), [2, 2, 1, 1, 1, 1, 1], "{words:?}");
        let control = of("threads").into_iter().find(|t| t["thread"]["name"] == "control").unwrap().clone();
        assert_eq!(control["doing"], "mutex bus_mutex (low_task)", "{words:?}");
        let issues: Vec<&str> = lines.iter().filter_map(|l| l["code"].as_str()).collect();
        assert!(issues.contains(&"no-kernel-symbol") && issues.contains(&"kernel-layout"), "{words:?}: {issues:?}");
    }
}

/// What `threads` and `report` print of a core with the ELF of another build: seven broken lists came first, and the cause
/// of them was somewhere below.
#[test]
fn broken_lists_came_before_the_other_build_that_broke_them() {
    let (elf, core) = (fixture("cm3-unwrapped.elf"), fixture("cm3.core"));
    let run = |command: &str| {
        let out = tx_trace(&[command, elf.to_str().unwrap(), core.to_str().unwrap()]);
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (_, said) = run("threads");
    assert!(said.starts_with("inferred: 0 of 10 thread names agree, 7 of 8 samples of code agree"), "{said}");
    assert!(said.contains("this ELF is of another build; names and lines from it are wrong"), "{said}");
    let lists: Vec<&str> = said.lines().filter(|line| line.contains("list")).collect();
    assert!(!said.contains("is broken"), "{said}");
    let lost: Vec<&&str> = lists.iter().filter(|line| line.starts_with("lost: ")).collect();
    assert!(lost.len() == 1 && lost[0].contains("does not show where the kernel's lists are"), "{said}");
    let (report, _) = run("report");
    let verdict = report.split_once("At the end\n").unwrap().1;
    assert!(verdict.starts_with("- Doubtful: 0 of 10 thread names agree, 7 of 8"), "{verdict}");
    let notes = report.split_once("\nNotes\n").unwrap().1;
    assert!(notes.starts_with("- inferred: 0 of 10 thread names agree, 7 of 8"), "{notes}");
    assert!(!report.contains("is broken"), "{report}");
    // `last` says one thing too, and its search is no damage of its own.
    let (_, said) = run("last");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.lines().nth(1).unwrap().contains("does not show where the trace is"), "{said}");
}

/// `info` said "not compared" of the ELF of another program for another board, and `last` nothing.
#[test]
fn a_foreign_elf_of_the_same_machine_was_not_compared() {
    let image = ram();
    let core = fixture("cm3.core");
    for (elf, source, shown) in [
        ("smp.elf", ["--core", core.to_str().unwrap()], "the core is of a Cortex-M, the ELF for another ARM"),
        ("smp.elf", ["--image", &image], "the control blocks of 10 threads point to nothing in this ELF"),
        ("uia-stop.elf", ["--image", &image], "the control blocks of 10 threads point to nothing in this ELF"),
        ("cm3.elf", ["--core", fixture("smp.core").to_str().unwrap()], "the control blocks of 10 threads point"),
        ("cm3-stream.elf", ["--core", core.to_str().unwrap()], "1 of 8 samples of code agree"),
    ] {
        for command in ["last", "list", "info", "report"] {
            let said = mismatches(&json(command, &fixture(elf), &source));
            assert!(said.len() == 1 && said[0].starts_with(shown), "{command} {elf}: {said:?}");
            assert!(said[0].contains("this ELF is of another build"), "{command} {elf}: {said:?}");
        }
        // Its address of the list of threads leads nowhere.
        let out = tx_trace(&[&["threads", "--elf", fixture(elf).to_str().unwrap()], &source[..]].concat());
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains("this ELF is of another build"), "{elf}: {said}");
        assert!(out.status.success() || said.starts_with("error: ELF and memory do not match: "), "{elf}: {said}");
        let said = belonging(&json("info", &fixture(elf), &source));
        assert!(said.starts_with("mismatch: "), "{elf}: {said}");
    }
}

/// The ELF of the program itself is never called another.
#[test]
fn no_fixture_mismatches_its_own_elf() {
    let core = |name: &str| ["--core".to_owned(), fixture(name).display().to_string()];
    let image = |name: &str| ["--image".to_owned(), format!("{}@0x20000000", fixture(name).display())];
    for (elf, source) in [
        ("cm3.elf", core("cm3.core")),
        ("cm3.stripped.elf", core("cm3.core")),
        ("be.elf", core("be.core")),
        ("host.elf", core("host.core")),
        ("smp.elf", core("smp.core")),
        ("cm3.elf", image("cm3.ram.bin")),
        ("cm3.stripped.elf", image("cm3.ram.bin")),
        ("cm3-disabled.elf", image("cm3-disabled.ram.bin")),
        ("cm3-straddle.elf", image("cm3-straddle.ram.bin")),
        ("cm3-unwrapped.elf", image("cm3-unwrapped.ram.bin")),
    ] {
        let source: Vec<&str> = source.iter().map(String::as_str).collect();
        for command in ["last", "info", "threads"] {
            let lines = json(command, &fixture(elf), &source);
            assert_eq!(mismatches(&lines), Vec::<String>::new(), "{command} {elf} {source:?}");
        }
        let said = belonging(&json("info", &fixture(elf), &source));
        assert!(said.starts_with("match: "), "{elf} {source:?}: {said}");
    }
}

/// Variables of the ELF of another build were heads of lists that something had overwritten, in a healthy system.
#[test]
fn variables_of_another_build_were_overwritten_heads_of_lists() {
    let files = Scratch::new("explain-other-build");
    let own = std::fs::read(fixture("cm3-notrace.elf")).unwrap();
    let (header, _, _, offset, size) = *sections(&own).iter().find(|(.., flags, _, _)| *flags & 4 != 0).unwrap();
    let code = put(&files, "code.bin", own[offset..offset + size].to_vec());
    let code = format!("{}@{:#x}", code.display(), word(&own, header + 12));
    let ram = format!("{}@0x20000000", fixture("cm3-notrace.ram.bin").display());
    for other in ["cm3.elf", "failure.elf", "resource.elf"] {
        let elf = fixture(other).display().to_string();
        let out = tx_trace(&["explain", "--elf", &elf, "--image", &code, "--image", &ram]);
        let (text, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(
            text.starts_with("Nothing wrong found, but threads, waits and stacks were not checked\n\nDoubtful: ")
                && text.contains("of another build"),
            "{text}"
        );
        assert!(said.contains("error: ") && out.status.code() == Some(1), "{said}");
    }
}

/// Where a pointer of a list was written over, what it leads to now was called a mutex, or a semaphore, that was overwritten.
#[test]
fn what_a_wrong_pointer_leads_to_was_an_overwritten_control_block() {
    let files = Scratch::new("wrong-pointer");
    let elf = fixture("cm3.elf");
    let elsewhere = u32::try_from(symbol(&elf, "heartbeats")).unwrap();
    // `tx_mutex_created_next` is the ninth word of its control block.
    let next = symbol(&elf, "bus_mutex") + 4 * 8;
    for (at, sure, claim) in [
        (
            next,
            "likely",
            format!(
                "mutex bus_mutex was overwritten: its pointer to the next mutex points to {elsewhere:#x}, where no mutex is"
            ),
        ),
        (
            symbol(&elf, "_tx_semaphore_created_ptr"),
            "hint",
            format!(
                "_tx_semaphore_created_ptr was overwritten: the head of the list of semaphore objects points to {elsewhere:#x}, where no semaphore is"
            ),
        ),
    ] {
        let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
        let offset = usize::try_from(at - 0x2000_0000).unwrap();
        ram[offset..offset + 4].copy_from_slice(&elsewhere.to_le_bytes());
        let ram = put(&files, "ram.bin", ram);
        let lines = json("explain", &elf, &["--image", &format!("{}@0x20000000", ram.display())]);
        let finding = lines.iter().find(|line| line["code"] == "corrupt-control-block").unwrap();
        assert_eq!(
            (finding["claim"].as_str(), finding["confidence"].as_str()),
            (Some(claim.as_str()), Some(sure)),
            "{finding}"
        );
    }
}

/// A semaphore that was deleted twice was blamed on a write past the end of what is in front of the kernel's counter.
#[test]
fn an_object_that_was_deleted_twice_was_blamed_on_a_neighbour() {
    let files = Scratch::new("deleted-twice");
    let at = symbol(&fixture("cm3.elf"), "_tx_semaphore_created_count");
    let mut ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let offset = usize::try_from(at - 0x2000_0000).unwrap();
    ram[offset..offset + 4].fill(0xFF);
    let ram = put(&files, "ram.bin", ram);
    let elf = fixture("cm3.elf").display().to_string();
    let lines = json("explain", Path::new(&elf), &["--image", &format!("{}@0x20000000", ram.display())]);
    let finding = lines.iter().find(|line| line["code"] == "corrupt-control-block").unwrap();
    assert!(finding["claim"].as_str().unwrap().ends_with("more were deleted than were created"), "{finding}");
    assert_eq!(finding["evidence"][0]["address"], format!("{at:#010x}"), "{finding}");
    assert!(finding["next"].as_str().unwrap().starts_with("find what is deleted twice"), "{finding}");
}

/// `explain` gave names of threads from the ELF of another build, and said nothing of it. What registers show was a hint.
#[test]
fn explain_says_first_that_the_elf_is_of_another_build() {
    let other = fixture("failure.elf").display().to_string();
    let core = fixture("cm3.core").display().to_string();
    let text = String::from_utf8(tx_trace(&["explain", &other, &core]).stdout).unwrap();
    let mut lines = text.lines().filter(|line| !line.is_empty());
    assert!(lines.next().is_some_and(|line| line.starts_with("fault: HardFault")), "{text}");
    assert!(
        lines.next().is_some_and(|line| line.starts_with("Doubtful: ") && text.contains("another build")),
        "{text}"
    );
    assert!(text.contains("fault (likely)"), "{text}");
    let registers = ["--reg", "psp=0x20002f00", "--reg", "cfsr=0x8200", "--reg", "bfar=0xe0200000"];
    let text = String::from_utf8(tx_trace(&[&["explain", &other, &core], &registers[..]].concat()).stdout).unwrap();
    assert!(text.contains("0xe0200000") && !text.contains("failures.c") && !text.contains("net_entry"), "{text}");
    let other = fixture("cm3-unwrapped.elf").display().to_string();
    let ram = format!("{}@0x20000000", fixture("cm3.ram.bin").display());
    let text = String::from_utf8(tx_trace(&["explain", "--all", &other, &ram]).stdout).unwrap();
    assert!(text.contains("logger (priority 16)") && !text.contains(" er (priority"), "{text}");
}
