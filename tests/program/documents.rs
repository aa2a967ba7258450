//! Completions and manual pages, tried by the shells and `man` themselves; and what `--version` says.

#![cfg(all(feature = "cli", unix))]

use std::process::Command;

use crate::support::machine::{Scratch, installed, tx_trace};

fn stdout(words: &[&str]) -> String {
    let out = tx_trace(words);
    assert_eq!(out.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Runs a shell; what it prints.
fn shell(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.is_empty(), "{program} {words:?}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn shells_read_their_completions() {
    let scratch = Scratch::new("completions");
    for (name, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let file = scratch.path(name);
        std::fs::write(&file, stdout(&["completions", name])).unwrap();
        if installed(name) {
            shell(name, &[check, file.to_str().unwrap()]);
        }
    }
    let (bash, fish) = (scratch.path("bash"), scratch.path("fish"));
    if installed("bash") {
        let complete = |line: &str| {
            let script = format!(
                "source {}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
                 _tx__trace tx-trace \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
                 echo \"${{COMPREPLY[@]}}\"",
                bash.display()
            );
            shell("bash", &["-c", &script])
        };
        assert_eq!(complete("tx-trace la"), "last latency\n");
        assert_eq!(complete("tx-trace last --thr"), "--thread\n");
        // Events are no Markdown.
        assert_eq!(complete("tx-trace last --format ''"), "table json csv\n");
        assert_eq!(complete("tx-trace info --format ''"), "table json csv md\n");
        assert_eq!(complete("tx-trace info --prev"), "\n", "info refuses --previous");
    }
    if installed("fish") {
        let complete = |line: &str| shell("fish", &["-c", &format!("source {}; complete -C'{line}'", fish.display())]);
        assert!(complete("tx-trace explai").starts_with("explain\t"), "{}", complete("tx-trace explai"));
        assert!(complete("tx-trace last --thr").starts_with("--thread\t"));
    }
}

#[test]
fn man_reads_every_page() {
    let scratch = Scratch::new("man");
    let dir = scratch.path("man1");
    stdout(&["man", "--dir", dir.to_str().unwrap()]);
    let commands = stdout(&["gdb", "--commands"]);
    let names: Vec<&str> =
        commands.lines().filter(|l| l.matches('\t').count() == 1).filter_map(|l| l.split('\t').next()).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in std::iter::once("tx-trace".to_owned()).chain(names.iter().map(|name| format!("tx-trace-{name}"))) {
        let path = dir.join(format!("{name}.1"));
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH EXAMPLE") || name == "tx-trace", "{name}");
        let only = name.strip_prefix("tx-trace-");
        assert_eq!(page, stdout(&only.map_or(vec!["man"], |name| vec!["man", name])), "{name}");
        if installed("groff") {
            let text = shell("groff", &["-man", "-Tutf8", "-P-c", "-ww", path.to_str().unwrap()]);
            assert!(text.contains("tx"), "{name}: {text}");
        }
    }
    let out = tx_trace(&["man", "lats"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("did you mean last?"), "{out:?}");
}

#[test]
fn the_version_has_commit_target_and_schema() {
    assert_eq!(stdout(&["-V"]), concat!("tx-trace ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = stdout(&["--version"]);
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], concat!("tx-trace ", env!("CARGO_PKG_VERSION")));
    let commit = lines[1].strip_prefix("commit: ").unwrap();
    let commit = commit.strip_suffix(" with changes").unwrap_or(commit);
    let is_hash = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_hash || ["unknown", "not looked up: a build for development"].contains(&commit), "{long}");
    assert!(lines[2].strip_prefix("target: ").unwrap().contains('-'), "{long}");
    assert_eq!(lines[3..], ["JSON schema: 1"]);
    let schema = stdout(&["help", "json-schema"]);
    assert!(schema.contains("\"schema\": {\"const\": 1,"));
}

/// Who has installed the program alone has no docs/, no README and no scripts.
#[test]
fn no_text_points_at_a_file_that_is_not_installed() {
    let list = stdout(&["help"]);
    let topics = list.split_once("help TOPIC`:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let topics: Vec<&str> = topics
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(topics.len() > 10, "{topics:?}");
    let commands = stdout(&["gdb", "--commands"]);
    let commands = commands.lines().filter(|l| l.matches('\t').count() == 1).filter_map(|l| l.split('\t').next());
    let pages = topics.into_iter().chain(commands).map(|name| (name.to_owned(), stdout(&["help", name])));
    let own =
        ["gdb", "completions zsh", "man"].map(|line| (line.to_owned(), stdout(&line.split(' ').collect::<Vec<_>>())));
    let mut wrong = Vec::new();
    for (name, text) in pages.chain(own) {
        let bad =
            |line: &&str| ["docs/", "README", "scripts/", "CONTRIBUTING", "]("].iter().any(|file| line.contains(file));
        wrong.extend(text.lines().filter(bad).map(|line| format!("{name}: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// JSON's page refers to this topic for the effects, and the topic did not name one of them.
#[test]
fn the_topic_on_user_events_explains_the_columns_of_the_catalogue() {
    let topic = stdout(&["help", "user-events"]);
    let mut missing = std::collections::BTreeSet::new();
    let mut want = |word: &str| {
        if !topic.contains(&format!("`{word}`")) {
            missing.insert(word.to_owned());
        }
    };
    ["class", "product", "effects", "mark:0"].into_iter().for_each(&mut want);
    let list = stdout(&["events", "--format", "json"]);
    let rows = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let effects: Vec<String> = rows.filter_map(|row| Some(row["effects"].as_str()?.to_owned())).collect();
    assert!(effects.len() > 10, "{effects:?}");
    for effect in effects.iter().flat_map(|text| text.split_whitespace()) {
        want(effect.split(':').next().unwrap());
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// The messages, in the sources: what is no comment, no test and no name of a file that is built in.
#[test]
fn no_message_points_at_a_file_that_is_not_installed() {
    fn walk(dir: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, files) } else { files.push(path) }
        }
    }
    let mut files = Vec::new();
    for dir in ["src", "gdb"] {
        walk(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut files);
    }
    let is_text = |path: &&std::path::PathBuf| {
        let of_tests = path.components().any(|c| c.as_os_str() == "tests" || c.as_os_str() == "tests.rs");
        !of_tests && path.extension().is_some_and(|e| e != "trx")
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in files.iter().filter(is_text) {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        count += 1;
        for line in text.split("#[cfg(test)]").next().unwrap().lines() {
            let line = line.trim();
            let is_comment = line.starts_with("//") || line.starts_with('#') || line.contains("include_str!");
            if !is_comment && ["docs/", "README.md", "scripts/"].iter().any(|file| line.contains(file)) {
                wrong.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(count > 300, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
