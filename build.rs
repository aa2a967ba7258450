//! Tells the program which commit and target it was built from, for `--version`.
#![allow(missing_docs, clippy::print_stdout, reason = "this is how a build script speaks to cargo")]

use std::path::Path;
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TX_TRACE_TARGET={}", variable("TARGET"));
    // A build for development would be repeated after every commit.
    let commit = match variable("PROFILE").as_str() {
        "release" => of_package().or_else(of_tree).unwrap_or_else(|| "unknown".to_owned()),
        _ => "not looked up: a build for development".to_owned(),
    };
    println!("cargo::rustc-env=TX_TRACE_COMMIT={commit}");
}

/// The commit that a package of this crate was made from, which `cargo package` writes into it.
fn of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash: String = text.split_once("\"sha1\"")?.1.chars().filter(char::is_ascii_hexdigit).take(40).collect();
    let changed = if text.contains("\"dirty\": true") { CHANGED } else { "" };
    (hash.len() == 40).then(|| format!("{hash}{changed}"))
}

/// Said of sources that are not those of the commit.
const CHANGED: &str = " with changes";

/// The commit of the tree that these sources are, and not of one that they happen to be in.
fn of_tree() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = std::fs::canonicalize(".").ok()?;
    if std::fs::canonicalize(top).ok()? != here {
        return None;
    }
    let head = git(&["rev-parse", "HEAD"])?;
    for path in ["HEAD", "index", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", path])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in ["src", "docs", "gdb", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let changes = git(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"])?;
    Some(format!("{head}{}", if changes.is_empty() { "" } else { CHANGED }))
}

/// What git prints, without the end of the line.
fn git(words: &[&str]) -> Option<String> {
    let out = Command::new("git").args(words).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}
