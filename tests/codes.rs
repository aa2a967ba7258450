//! Every code that the program can say, read from its source: each is in `docs/issues.md` with the severity or exit
//! code that it has, the document lists no other, and each is provoked by a test.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Functions that take a code first, and what each makes of it: an exit code, or nothing where a severity follows.
const CONSTRUCTORS: &[(&[&str], &str, &str)] = &[
    (&["Issue"], "new", ""),
    (&["Absence", "Self"], "none", "1"),
    (&["Absence", "Self"], "broken", "2"),
    (&["Failure", "Self"], "no", "1"),
    (&["Failure", "Self"], "failed", "2"),
    (&["Failure", "Self"], "usage", "2"),
];

/// What may stand in a constructor in place of a code: each is filled from codes that are found elsewhere, in a `fn
/// code` or beside a severity.
const PASSED_ON: &[&str] = &["code", "e.code()", "flaw.wrong.code()"];

/// Codes with a meaning that nothing says today.
const UNREACHED: &[&str] = &["error-reply"];

/// A reader that has seen enough: nothing is said, and the exit code is 0 whatever the constructor is.
const SILENT: &str = "broken-pipe";

/// Each code with its severities and exit codes, as far as they are written beside it.
type Codes = BTreeMap<String, BTreeSet<String>>;

fn list(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

/// The text of a word or sign, and nothing for a group.
fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Group(_)) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn words(tokens: &[TokenTree]) -> String {
    let text: String = tokens.iter().map(ToString::to_string).collect();
    text.replace(' ', "")
}

/// A string that has the form of a code.
fn code(token: Option<&TokenTree>) -> Option<String> {
    let text = word(token);
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_code = !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    is_code.then(|| text.to_owned())
}

fn is_path(tokens: &[TokenTree], at: usize) -> bool {
    word(tokens.get(at)) == ":" && word(tokens.get(at + 1)) == ":"
}

/// Tokens without what is compiled for tests alone, at any depth.
fn without_tests(tokens: Vec<TokenTree>) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = word(tokens.get(at)) == "#"
            && matches!(tokens.get(at + 1), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Bracket
                && words(&list(g.stream())).starts_with("cfg(test)"));
        if is_attribute {
            let is_end = |t: &TokenTree| match t {
                TokenTree::Group(g) => g.delimiter() == Delimiter::Brace,
                other => other.to_string() == ";",
            };
            at = (at..tokens.len()).find(|&i| is_end(&tokens[i])).map_or(tokens.len(), |i| i + 1);
            continue;
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// Strings that have a name: `const NAME: &str = "code"`.
fn constants(tokens: &[TokenTree], all: &mut BTreeMap<String, String>) {
    for at in 0..tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            constants(&list(group.stream()), all);
        }
        if word(tokens.get(at)) == "const"
            && let Some(is) = (at..tokens.len().min(at + 9)).find(|&i| word(tokens.get(i)) == "=")
            && let Some(code) = code(tokens.get(is + 1))
        {
            all.insert(word(tokens.get(at + 1)), code);
        }
    }
}

/// Takes the codes out of code; what cannot be followed is a sentence in `wrong`.
fn codes_in(
    file: &str,
    tokens: Vec<TokenTree>,
    names: &BTreeMap<String, String>,
    codes: &mut Codes,
    wrong: &mut Vec<String>,
) {
    let tokens = without_tests(tokens);
    let mut add = |code: String, what: &str| {
        let all = codes.entry(code).or_default();
        all.extend((!what.is_empty()).then(|| what.to_owned()));
    };
    for at in 0..tokens.len() {
        // `"code", Severity::Note`
        if let Some(code) = code(tokens.get(at))
            && word(tokens.get(at + 1)) == ","
            && word(tokens.get(at + 2)) == "Severity"
            && is_path(&tokens, at + 3)
        {
            add(code, &word(tokens.get(at + 5)).to_lowercase());
        }
        // `code: "code"` and `x.code = "code"`
        if word(tokens.get(at)) == "code"
            && matches!(word(tokens.get(at + 1)).as_str(), ":" | "=")
            && let Some(code) = code(tokens.get(at + 2))
        {
            add(code, "");
        }
        // `fn code(&self) -> &'static str { .. }`
        if word(tokens.get(at)) == "fn" && word(tokens.get(at + 1)) == "code" {
            let body =
                tokens[at..].iter().position(|t| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace));
            if let Some(body) = body.filter(|b| words(&tokens[at..at + b]).contains("&'staticstr"))
                && let TokenTree::Group(body) = &tokens[at + body]
            {
                strings(&list(body.stream()), &mut |code| add(code, ""));
            }
        }
        for (types, function, exit) in CONSTRUCTORS {
            let Some(TokenTree::Group(arguments)) = tokens.get(at + 4) else { continue };
            if !types.contains(&word(tokens.get(at)).as_str())
                || !is_path(&tokens, at + 1)
                || word(tokens.get(at + 3)) != *function
            {
                continue;
            }
            let inside = list(arguments.stream());
            let first: Vec<TokenTree> = inside.iter().take_while(|t| word(Some(t)) != ",").cloned().collect();
            let named = names.get(&words(&first)).cloned();
            let is_severity = word(inside.get(first.len() + 1)) == "Severity";
            let severity = word(inside.get(first.len() + 4)).to_lowercase();
            match code(first.first()).or(named) {
                Some(code) => add(code, if is_severity { &severity } else { exit }),
                None if PASSED_ON.contains(&words(&first).as_str()) => {}
                None => {
                    wrong.push(format!("src/{file}: {function}({}, ..): write the code itself there", words(&first)))
                }
            }
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            codes_in(file, list(group.stream()), names, codes, wrong);
        }
    }
}

fn strings(tokens: &[TokenTree], add: &mut impl FnMut(String)) {
    for token in tokens {
        if let TokenTree::Group(g) = token {
            strings(&list(g.stream()), add);
        }
        if let Some(code) = code(Some(token)) {
            add(code);
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

fn sources() -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(&root().join("src"), &mut all);
    all.retain(|p| p.extension().is_some_and(|e| e == "rs"));
    all.sort();
    let name = |p: &Path| p.strip_prefix(root().join("src")).unwrap().display().to_string();
    all.iter().map(|p| (name(p), std::fs::read_to_string(p).unwrap())).collect()
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// All codes of the source.
fn codes() -> (Codes, Vec<String>) {
    let (mut codes, mut wrong) = (Codes::new(), Vec::new());
    for (name, text) in sources() {
        if !is_test_file(&name) {
            let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{name} is no Rust: {e}"));
            let tokens = list(tokens);
            let mut names = BTreeMap::new();
            constants(&tokens, &mut names);
            codes_in(&name, tokens, &names, &mut codes, &mut wrong);
        }
    }
    (codes, wrong)
}

/// The rows of `docs/issues.md`: code, and what its second column says.
fn documented() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("docs/issues.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    text.lines()
        .filter_map(|l| l.strip_prefix("| `"))
        .map(|l| (l.split('`').next().unwrap().to_owned(), cells(l)[1].clone()))
        .collect()
}

#[test]
fn every_code_is_documented_and_every_documented_code_is_there() {
    let (codes, mut wrong) = codes();
    // What is certainly there was seen, by each way of saying it.
    for sure in ["torn", "no-source", "filter", "gzip-cut", "chatter", "bad-endpoint", "sequence-gap", "orphan-parts"] {
        assert!(codes.contains_key(sure), "{sure} was overlooked");
    }
    let documented = documented();
    for (code, kinds) in &codes {
        let rows: Vec<&String> = documented.iter().filter(|(c, _)| c == code).map(|(_, kind)| kind).collect();
        let [row] = rows.as_slice() else {
            wrong.push(format!("{code} has {} rows in docs/issues.md", rows.len()));
            continue;
        };
        let stated: BTreeSet<String> = row.split(',').map(|k| k.trim().to_owned()).collect();
        if code != SILENT && !kinds.is_subset(&stated) {
            wrong.push(format!("{code}: docs/issues.md says {row}, the source {kinds:?}"));
        }
    }
    for (code, _) in &documented {
        if !codes.contains_key(code) {
            wrong.push(format!("{code} is in docs/issues.md, and nothing says it"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// What tests say: string literals of code, and the codes in goldens.
fn provoked() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut paths = Vec::new();
    files(&root().join("tests"), &mut paths);
    for path in paths {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.contains("fixtures") || name == "tests/codes.rs" {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if name.ends_with(".rs") {
            let tokens: TokenStream = text.parse().unwrap();
            strings(&list(tokens), &mut |code| {
                all.insert(code);
            });
        }
        let said = text.split("\"code\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        all.extend(said.map(str::to_owned));
    }
    for (name, text) in sources() {
        let tokens = list(text.parse::<TokenStream>().unwrap());
        if is_test_file(&name) {
            strings(&tokens, &mut |code| {
                all.insert(code);
            });
        } else {
            // What is left out as a test.
            let (mut with, mut without) = (Vec::new(), Vec::new());
            strings(&tokens, &mut |code| with.push(code));
            strings(&without_tests(tokens), &mut |code| without.push(code));
            for code in with {
                match without.iter().position(|c| *c == code) {
                    Some(at) => {
                        without.remove(at);
                    }
                    None => {
                        all.insert(code);
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_code_is_provoked_by_a_test() {
    let provoked = provoked();
    let (codes, _) = codes();
    let missing: Vec<&String> =
        codes.keys().filter(|c| !provoked.contains(*c) && !UNREACHED.contains(&c.as_str())).collect();
    assert!(missing.is_empty(), "no test provokes {missing:?}: tests/program/issue_codes.rs is the place for one");
    for code in UNREACHED {
        assert!(codes.contains_key(*code) && !provoked.contains(*code), "{code} is not UNREACHED any more");
    }
}

#[test]
fn codes_are_found_however_they_are_written() {
    let found = |text: &str| {
        let (mut codes, mut wrong) = (Codes::new(), Vec::new());
        let tokens = list(text.parse().unwrap());
        let mut names = BTreeMap::new();
        constants(&tokens, &mut names);
        codes_in("x.rs", tokens, &names, &mut codes, &mut wrong);
        (codes.into_keys().collect::<Vec<_>>().join(" "), wrong.len())
    };
    for text in [
        "fn f() { v.push(Issue::new(\"a-b\", Severity::Lost, \"words\")) }",
        "fn f() { g(Absence::none(\n\"a-b\", x, y)) }",
        "impl From<E> for Failure { fn f() { Self::failed(\"a-b\", x, \"\") } }",
        "fn f() { let (code, severity) = (\"a-b\", Severity::Note); Issue::new(code, severity, \"\") }",
        "impl E { const fn code(self) -> &'static str { match self { Self::A => \"a-b\" } } }",
        "fn f() { absence.code = \"a-b\"; }",
        "fn f() { Issue::new(SEVERAL, Severity::Note, m) } const SEVERAL: &str = \"a-b\";",
        "fn f() { ErrorLine { code: \"a-b\", message } }",
        "fn f() { Issue::new(\"a-b\", s, m) } #[cfg(test)] mod tests { fn f() { Issue::new(\"b-c\", s, m) } }",
    ] {
        assert_eq!(found(text), ("a-b".to_owned(), 0), "{text}");
    }
    assert_eq!(found("fn f() { Issue::new(what(), Severity::Note, m) }").1, 1);
    assert_eq!(found("fn code(&self) -> Option<String> { \"a-b\" }").0, "");
}
