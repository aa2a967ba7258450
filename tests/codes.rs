//! Every code is in `docs/issues.md`, in the section and with the severities and exit codes that it has, is made
//! somewhere in `src/`, and is provoked by a test.
#![allow(missing_docs, clippy::restriction, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use tx_trace::code::{Code, Kind};

/// Functions that take a code first, with the kinds of codes that each may take.
const CONSTRUCTORS: &[(&str, &str, &[Kind])] = &[
    ("Issue", "new", &[Kind::Note, Kind::Inferred, Kind::Lost]),
    ("Error", "not_found", &[Kind::NotFound]),
    ("Error", "failed", &[Kind::Failed, Kind::Silent]),
    ("Error", "usage", &[Kind::Failed]),
    ("Error", "because", &[Kind::Failed]),
];

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

/// The code that `Code::Name` at this place names.
fn code_at(tokens: &[TokenTree], at: usize) -> Option<Code> {
    let is_path = word(tokens.get(at)) == "Code" && word(tokens.get(at + 1)) == ":" && word(tokens.get(at + 2)) == ":";
    let name = is_path.then(|| word(tokens.get(at + 3)))?;
    Code::ALL.iter().copied().find(|c| format!("{c:?}") == name)
}

/// Tokens without what is compiled for tests alone, at any depth.
fn without_tests(tokens: Vec<TokenTree>) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_test = word(tokens.get(at)) == "#"
            && matches!(tokens.get(at + 1), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Bracket
                && g.stream().to_string().replace(' ', "").starts_with("cfg(test)"));
        if is_test {
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

/// The codes that are named, and what is wrong with how they are used.
#[derive(Default)]
struct Named {
    codes: BTreeSet<Code>,
    wrong: Vec<String>,
}

impl Named {
    fn take(&mut self, file: &str, tokens: Vec<TokenTree>, tests: bool) {
        let tokens = if tests { tokens } else { without_tests(tokens) };
        for at in 0..tokens.len() {
            self.codes.extend(code_at(&tokens, at));
            for (of, function, kinds) in CONSTRUCTORS {
                let Some(TokenTree::Group(arguments)) = tokens.get(at + 4) else { continue };
                if word(tokens.get(at)) != *of || word(tokens.get(at + 3)) != *function {
                    continue;
                }
                let Some(code) = code_at(&list(arguments.stream()), 0) else { continue };
                if !code.kinds().iter().any(|k| kinds.contains(k)) {
                    self.wrong.push(format!("{file}: {of}::{function}({code}): it is {:?}", code.kinds()));
                }
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.take(file, list(group.stream()), tests);
            }
        }
    }
}

fn strings(tokens: &[TokenTree], add: &mut impl FnMut(String)) {
    for token in tokens {
        match token {
            TokenTree::Group(g) => strings(&list(g.stream()), add),
            TokenTree::Literal(l) => add(l.to_string().trim_matches('"').to_owned()),
            _ => {}
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

fn texts(folder: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(&root().join(folder), &mut all);
    all.sort();
    let name = |p: &Path| p.strip_prefix(root()).unwrap().display().to_string();
    all.iter().filter_map(|p| Some((name(p), std::fs::read_to_string(p).ok()?))).collect()
}

fn tokens(name: &str, text: &str) -> Vec<TokenTree> {
    list(text.parse().unwrap_or_else(|e| panic!("{name} is no Rust: {e}")))
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// The rows of `docs/issues.md` by code: the anchor of the section, and what the second column says.
fn documented() -> BTreeMap<String, Vec<(String, BTreeSet<String>)>> {
    let text = std::fs::read_to_string(root().join("docs/issues.md")).unwrap();
    let mut rows: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_lowercase().replace(' ', "-").replace('\'', "");
        }
        if let Some(row) = line.strip_prefix("| `") {
            let kinds = line.split('|').nth(2).unwrap().split(',').map(|k| k.trim().to_owned()).collect();
            rows.entry(row.split('`').next().unwrap().to_owned()).or_default().push((section.clone(), kinds));
        }
    }
    rows
}

#[test]
fn every_code_is_documented_and_every_documented_code_is_there() {
    let documented = documented();
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let kinds = code.kinds().iter().map(|k| k.name().to_owned()).collect();
        let row = vec![(code.anchor().to_owned(), kinds)];
        if documented.get(code.name()) != Some(&row) {
            wrong.push(format!("{code}: docs/issues.md has {:?}, the code {row:?}", documented.get(code.name())));
        }
    }
    let names: BTreeSet<&str> = Code::ALL.iter().map(|c| c.name()).collect();
    wrong.extend(documented.keys().filter(|n| !names.contains(n.as_str())).map(|n| format!("{n} is no code")));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_code_is_made_where_it_may_be() {
    let mut named = Named::default();
    for (name, text) in texts("src").iter().filter(|(n, _)| n.ends_with(".rs") && !is_test_file(n)) {
        if name != "src/code.rs" {
            named.take(name, tokens(name, text), false);
        }
    }
    assert!(named.wrong.is_empty(), "\n{}\n", named.wrong.join("\n"));
    let unused: Vec<&Code> = Code::ALL.iter().filter(|c| !named.codes.contains(c)).collect();
    assert!(unused.is_empty(), "nothing makes {unused:?}");
}

/// The codes in tests: as `Code::Name`, as strings, and in goldens.
fn provoked() -> BTreeSet<Code> {
    let mut named = Named::default();
    let mut words = BTreeSet::new();
    for (name, text) in texts("tests") {
        if name.contains("fixtures") || name == "tests/codes.rs" {
            continue;
        }
        if name.ends_with(".rs") {
            let tokens = tokens(&name, &text);
            strings(&tokens, &mut |word| words.extend([word]));
            named.take(&name, tokens, true);
        }
        words.extend(text.split("\"code\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    for (name, text) in texts("src").iter().filter(|(n, _)| n.ends_with(".rs")) {
        let all = tokens(name, text);
        if is_test_file(name) {
            strings(&all, &mut |word| words.extend([word]));
            named.take(name, all, true);
            continue;
        }
        // What `#[cfg(test)]` holds: all without the rest.
        let test_modules = text.split("#[cfg(test)]").skip(1);
        for module in test_modules {
            for code in Code::ALL {
                if module.contains(&format!("\"{}\"", code.name())) || module.contains(&format!("Code::{code:?}")) {
                    named.codes.insert(*code);
                }
            }
        }
    }
    named.codes.extend(Code::ALL.iter().filter(|c| words.contains(c.name())));
    named.codes
}

#[test]
fn every_code_is_provoked_by_a_test() {
    let provoked = provoked();
    let missing: Vec<&Code> = Code::ALL.iter().filter(|c| !provoked.contains(c)).collect();
    assert!(missing.is_empty(), "no test provokes {missing:?}: tests/program/issue_codes.rs is the place for one");
}

#[test]
fn a_code_that_is_used_as_what_it_is_not_is_found() {
    let wrong = |text: &str| {
        let mut named = Named::default();
        named.take("x.rs", tokens("x.rs", text), false);
        named.wrong.len()
    };
    assert_eq!(wrong("fn f() { Issue::new(Code::Torn, m); Error::failed(Code::Usage, m, h) }"), 0);
    assert_eq!(wrong("fn f() { v.push(Issue::new(Code::Usage, m)); Error::not_found(Code::Torn, m, h) }"), 2);
    assert_eq!(wrong("#[cfg(test)] mod tests { fn f() { Issue::new(Code::Usage, m) } }"), 0);
}
