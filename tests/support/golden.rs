//! Runs the program as people do, and compares what it prints with a committed file. `UPDATE_GOLDEN=1` writes the files
//! anew; read the difference before it is committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// True where files are written instead of compared.
pub fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn output(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tx-trace"))
        .args(line.split_whitespace())
        .current_dir(root().join("tests/fixtures"))
        .env_remove("TX_TRACE_ELF")
        .env_remove("TX_TRACE_REMOTE")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Text without what differs from one checkout or version to the next: when files were written, and our version.
fn anywhere(text: &str) -> String {
    let text = text.replace(concat!("tx-trace ", env!("CARGO_PKG_VERSION")), "tx-trace VERSION");
    let time = "2026-01-31 12:00:00";
    let mut parts = text.split(" UTC").map(str::to_owned).collect::<Vec<_>>();
    let last = parts.len() - 1;
    for part in &mut parts[..last] {
        let at = part.len() - time.len();
        let is_time = part[at..].bytes().zip(time.bytes()).all(|(b, like)| b.is_ascii_digit() == like.is_ascii_digit());
        assert!(is_time, "{part} UTC");
        part.replace_range(at.., time);
    }
    parts.join(" UTC")
}

/// A command in the folder of the fixtures, with all that it prints and its exit status.
pub fn run(line: &str) -> String {
    let out = output(line);
    let mut text = format!("$ tx-trace {line}\n");
    text.push_str(&anywhere(std::str::from_utf8(&out.stdout).expect("stdout is UTF-8")));
    assert!(text.ends_with('\n'), "the last line has an end: {text}");
    for said in std::str::from_utf8(&out.stderr).expect("stderr is UTF-8").lines() {
        writeln!(text, "[stderr] {said}").unwrap();
    }
    writeln!(text, "[exit {}]", out.status.code().unwrap()).unwrap();
    assert!(!text.bytes().any(|b| b == 0x1B), "no escape sequence without a terminal: {text}");
    text
}

/// The same of a command that must succeed, without its talk.
pub fn stdout(line: &str) -> String {
    let out = output(line);
    assert_eq!(out.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    format!("$ tx-trace {line}\n{}\n", String::from_utf8(out.stdout).unwrap())
}

/// What a command prints on stdout, whatever its exit status.
pub fn data(line: &str) -> String {
    String::from_utf8(output(line).stdout).unwrap()
}

/// Runs the lines and compares what they print with `tests/golden/cli/NAME.txt`.
pub fn check<L: AsRef<str>>(name: &str, lines: &[L]) {
    let got: String = lines.iter().map(|l| run(l.as_ref()) + "\n").collect();
    compare(&format!("cli/{name}.txt"), &got);
}

/// Compares a text with a file in `tests/golden`.
pub fn compare(name: &str, got: &str) {
    let path = Path::new(&root()).join("tests/golden").join(name);
    if updating() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = got.lines().zip(want.lines()).position(|(a, b)| a != b);
    let differs = differs.unwrap_or_else(|| got.lines().count().min(want.lines().count()));
    assert!(
        got == want,
        "{name}: line {} differs\n  got:  {:?}\n  want: {:?}\n(UPDATE_GOLDEN=1 takes the new one)",
        differs + 1,
        got.lines().nth(differs),
        want.lines().nth(differs)
    );
}
