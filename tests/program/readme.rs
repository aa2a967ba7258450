//! What README.md, docs/threads.md, docs/tutorial.md and docs/examples.md say is run: each `$ tx-trace ...` line of its ```console blocks, among files of the names used there.
//! Output that is shown must be what comes (`...` stands for any lines), and `# exit N` at the end of a line tells the
//! exit code where it is not 0. `UPDATE_GOLDEN=1 cargo test --test program readme` writes what comes into them.

#![cfg(all(feature = "cli", feature = "serve", unix))]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::machine::{Scratch, fixture, installed};
use tx_trace::bytes::Bytes;
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::Server;

const RAM: u64 = 0x2000_0000;

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// Events of one thread, numbered from `first`, in a ring with room for more.
fn part(first: u64) -> Vec<u8> {
    let event = |i: u64| Entry::thread(0x2000_9000, 5, 4096, 1000 + 100 * i, [i, 0, 0, 0]);
    let mut buffer = Buffer::new(RAM).record(32, &(first..first + 20).map(event).collect::<Vec<_>>());
    buffer.objects = vec![Registered::new(1, 0x2000_9000, "worker")];
    buffer.bytes()
}

/// The trace buffer after a start that has written six events: the kernel clears the first word of each slot.
fn after_reset() -> Vec<u8> {
    let mut trace = bytes("cm3.trx");
    let word = |trace: &[u8], at: usize| u32::from_le_bytes(trace[at..at + 4].try_into().unwrap());
    let (base, ring, end) = (word(&trace, 8), word(&trace, 24), word(&trace, 28));
    for slot in (ring + 6 * 32..end).step_by(32) {
        let at = (slot - base) as usize;
        trace[at..at + 4].fill(0);
    }
    trace[32..36].copy_from_slice(&(ring + 6 * 32).to_le_bytes());
    trace
}

/// The files that the README speaks of.
pub(super) fn files(scratch: &Scratch) {
    let ram = bytes("cm3.ram.bin");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&ram).unwrap();
    let log = ram.chunks(16).enumerate().fold("> mdw 0x20000000 0x2000\n".to_owned(), |text, (i, line)| {
        let words: Vec<String> =
            line.chunks(4).map(|w| format!("{:08x}", u32::from_le_bytes(w.try_into().unwrap()))).collect();
        text + &format!("{:#010x}: {}\n", RAM + 16 * i as u64, words.join(" "))
    });
    for (name, bytes) in [
        ("app.elf", bytes("cm3.elf")),
        ("app.core", bytes("cm3.core")),
        ("trace.trx", bytes("cm3.trx")),
        ("old.trx", part(0)),
        ("new.trx", part(20)),
        ("reset.trx", after_reset()),
        ("openocd.log", log.into_bytes()),
        ("ram.bin.gz", packed.finish().unwrap()),
        // It ends within the ring.
        ("cut.bin", ram[..0x6000].to_vec()),
        ("ram.bin", ram),
    ] {
        std::fs::write(scratch.path(name), bytes).unwrap();
        // A report says when a file was last written.
        let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_769_860_800);
        std::fs::File::options().write(true).open(scratch.path(name)).unwrap().set_modified(written).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tx-trace"), scratch.path("tx-trace")).unwrap();
}

/// Serves the fixture's RAM once.
pub(super) fn serve() -> String {
    let server = Server::on_loopback().unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || {
        let mut memory = Segments::new(vec![Block::whole(RAM, Bytes::from(bytes("cm3.ram.bin")))]);
        let _ = server.serve_one(&mut memory);
    });
    address.to_string()
}

/// Runs a line in the shell; its output, and the exit code of all of it, or of the program before a pipe.
pub(super) fn run(line: &str, scratch: &Scratch, columns: Option<usize>) -> (String, i32, String) {
    let here = scratch.path("");
    let path = format!("{}:{}", here.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(&here).env("PATH", path).env("HOME", &here);
    for variable in ["TX_TRACE_ELF", "TX_TRACE_REMOTE", "COLUMNS", "XDG_DATA_HOME", "NO_COLOR"] {
        shell.env_remove(variable);
    }
    // As inside a debugger, whose terminal has so many.
    shell.env("TX_TRACE_COLOR", "never").env("COLUMNS", columns.unwrap_or(80).to_string());
    let out = shell.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out.stdout), out.status.code().unwrap(), text(out.stderr))
}

/// True where `shown`, in which `...` stands for any lines, is what came.
fn is_shown(shown: &[&str], came: &[&str]) -> bool {
    match shown.split_first() {
        None => came.is_empty(),
        Some((&"...", rest)) => (0..=came.len()).any(|at| is_shown(rest, &came[at..])),
        Some((line, rest)) => came.first() == Some(line) && is_shown(rest, &came[1..]),
    }
}

#[test]
fn what_the_readme_says_is_so() {
    says_what_is_so(&readme(), "readme", 15, None);
}

#[test]
fn what_the_page_on_threads_says_is_so() {
    says_what_is_so(&readme().with_file_name("docs/threads.md"), "page-threads", 6, None);
}

#[test]
fn what_the_tutorial_says_is_so() {
    says_what_is_so(&readme().with_file_name("docs/tutorial.md"), "page-tutorial", 4, None);
}

/// `tx-trace help COMMAND` prints them, behind two blanks.
#[test]
fn what_the_examples_say_is_so() {
    says_what_is_so(&readme().with_file_name("docs/examples.md"), "page-examples", 18, Some(EXAMPLE));
}

/// Columns and lines of an example.
const EXAMPLE: (usize, usize) = (76, 9);

/// `size`: columns of the terminal, and the most lines that are shown of an output.
fn says_what_is_so(page: &Path, name: &str, least: usize, size: Option<(usize, usize)>) {
    let text = std::fs::read_to_string(page).unwrap();
    let scratch = Scratch::new(name);
    files(&scratch);
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut ran, mut wrong, mut new) = (0, 0, Vec::new(), Vec::new());
    let mut in_block = false;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        new.push(line.to_owned());
        if line.starts_with("```") {
            in_block = line == "```console";
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) else { continue };
        let end = (at..lines.len()).find(|&i| lines[i].starts_with("$ ") || lines[i].starts_with("```")).unwrap();
        let shown = &lines[at..end];
        at = end;
        if let Some(file) = command.strip_prefix("cat ") {
            // What is shown of a file is what is in it.
            let content = shown.join("\n").replace(":3333", &serve());
            std::fs::write(scratch.path(file), content).unwrap();
            new.extend(shown.iter().map(|l| (*l).to_owned()));
            continue;
        }
        if command.contains("| jq ") && !installed("jq") {
            new.extend(shown.iter().map(|l| (*l).to_owned()));
            continue;
        }
        assert!(command.contains("tx-trace "), "a command that is not ours: {command}");
        let exit = command.split("# exit ").nth(1).map_or(0, |code| code.trim().parse().unwrap());
        let actual = if command.contains(":3333") { command.replace(":3333", &serve()) } else { command.to_owned() };
        let (out, code, talk) = run(&actual, &scratch, size.map(|(columns, _)| columns));
        ran += 1;
        if code != exit {
            wrong.push(format!("{command}\n  exit {code}, not {exit}: {talk}"));
        }
        let came: Vec<&str> = out.lines().collect();
        if shown.is_empty() {
            continue;
        }
        if is_shown(shown, &came) {
            new.extend(shown.iter().map(|l| (*l).to_owned()));
        } else {
            wrong.push(format!("{command}\n  prints now:\n{out}"));
            let most = size.map_or(came.len(), |(_, lines)| lines);
            new.extend(came.iter().take(most).map(|l| (*l).to_owned()));
            new.extend((came.len() > most).then(|| "...".to_owned()));
        }
    }
    assert!(ran >= least, "only {ran} commands were found");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page, new.join("\n") + "\n").unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{} is wrong (UPDATE_GOLDEN=1 writes what comes):\n{}", page.display(), wrong.join("\n"));
}

#[test]
fn the_readme_is_short_enough_to_be_read() {
    let lines = std::fs::read_to_string(readme()).unwrap().lines().count();
    assert!(lines <= 275, "{lines} lines: nobody reads more");
}

/// What `demo --export` writes are the files that the README's lines are tried with.
#[test]
fn the_demo_writes_the_files_of_the_readme() {
    let (scratch, exported) = (Scratch::new("readme-files"), Scratch::new("exported"));
    files(&scratch);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for name in ["old.trx", "new.trx", "reset.trx"] {
            let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/demo").join(name);
            std::fs::copy(scratch.path(name), to).unwrap();
        }
    }
    let dir = exported.path("a/new directory");
    let line = format!("tx-trace demo --export '{}'", dir.display());
    for _ in 0..2 {
        let (out, code, err) = run(&line, &scratch, None);
        assert_eq!((out.as_str(), code), ("", 0), "{err}");
        assert!(
            err.contains("holds a Cortex-M3 that died") && err.contains("tx-trace last 20 app.elf app.core"),
            "{err}"
        );
    }
    let mut names: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = [
        "app.core",
        "app.elf",
        "board.source",
        "cut.bin",
        "new.trx",
        "old.trx",
        "openocd.log",
        "ram.bin",
        "ram.bin.gz",
        "reset.trx",
        "trace.trx",
    ];
    assert_eq!(names, expected);
    for name in names.iter().filter(|name| *name != "board.source") {
        let [own, want] = [dir.join(name), scratch.path(name)].map(|path| std::fs::read(path).unwrap());
        if name == "ram.bin.gz" {
            let mut unpacked = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&own[..]), &mut unpacked).unwrap();
            assert_eq!(unpacked, bytes("cm3.ram.bin"));
        } else {
            assert!(own == want, "{name}");
        }
    }
    // `board.source` is what the README shows of it.
    let shown = std::fs::read_to_string(readme()).unwrap();
    let board = std::fs::read_to_string(dir.join("board.source")).unwrap();
    assert!(shown.contains(&format!("$ cat board.source\n{board}")), "{board}");
    // A file of the user's is never replaced, and nothing is written beside it.
    let own = exported.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("ram.bin"), "mine").unwrap();
    let (_, code, err) = run(&format!("tx-trace demo --export '{}'", own.display()), &scratch, None);
    assert!(code == 2 && err.contains("ram.bin exists, and is a different file"), "{err}");
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 1);
}
