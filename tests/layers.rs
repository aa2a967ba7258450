//! The order of the modules in `src/`, read from what each file names: an arrow against it fails here.
#![allow(missing_docs, clippy::restriction, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Who may name whom: a module may name those to the left of it, here or through other lines. Commas part equals,
/// which may not name each other.
const ORDER: &[&str] = &[
    "code < error < mem, query, rsp, control, cli",
    "near < query, session, cli",
    "abi, bytes, code < report, trace < catalogue < query < analysis < output",
    "error < query, output, kernel, format, catalogue",
    "abi, bytes, sys < rsp < mem",
    "abi, bytes < elf < mem < sym < cpu < unwind < kernel < session",
    "report, trace < kernel",
    "catalogue, sym < format < session < follow, control",
    "analysis, kernel, session < explain < timeline < output",
    "output, explain < debugger < serve, bridge < cli < main",
    "follow, control < cli",
    "analysis, session < library",
    "catalogue, format < setup < cli",
];

/// Crates that one module hides from all others.
const HOMES: &[(&str, &[&str])] = &[
    ("goblin", &["elf"]),
    ("gimli", &["sym/dwarf"]),
    ("addr2line", &["sym/dwarf"]),
    ("gdbstub", &["serve"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("owo_colors", &["cli", "output"]),
    ("libc", &["sys"]),
    ("rustix", &["sys"]),
    ("memmap2", &["sys"]),
    ("signal_hook", &["sys"]),
    ("terminal_size", &["sys"]),
    ("windows_sys", &["sys/windows"]),
    ("strsim", &["near"]),
];

/// What only `sys` asks: which system this is, and what it alone has.
const SYSTEMS: &[&str] =
    &["cfg(unix", "cfg(windows", "target_os", "target_family", "cfg!(unix", "cfg!(windows", "std::os::"];

/// Modules that name no other crate at all.
const STD_ONLY: &[&str] = &["abi", "code", "error", "trace", "report"];

/// The most lines of a file, its tests not counted.
const LINES: usize = 600;

/// What bytes from outside could turn into a panic: allowed in tests alone.
const PANICS: &[&str] =
    &["unwrap_used", "expect_used", "panic", "indexing_slicing", "arithmetic_side_effects", "todo", "restriction"];

/// The one of these that code which only counts may allow, with the reason why no sum can overflow.
const WITH_REASON: &str = "arithmetic_side_effects";

/// The modules with those that each may name.
fn allowed(order: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in order {
        let steps: Vec<Vec<&str>> = line.split('<').map(|s| s.split(',').map(str::trim).collect()).collect();
        for module in steps.iter().flatten() {
            below.entry((*module).to_owned()).or_default();
        }
        for pair in steps.windows(2) {
            for upper in &pair[1] {
                below.get_mut(*upper).unwrap().extend(pair[0].iter().map(|s| (*s).to_owned()));
            }
        }
    }
    loop {
        let grown: BTreeMap<_, BTreeSet<_>> = below
            .iter()
            .map(|(module, direct)| {
                (module.clone(), direct.iter().flat_map(|d| &below[d]).chain(direct).cloned().collect())
            })
            .collect();
        if grown == below {
            return below;
        }
        below = grown;
    }
}

/// What a file names outside its tests.
#[derive(Default)]
struct Named {
    /// Modules, with the line.
    modules: Vec<(String, usize)>,
    /// The first part of each path, with the line: crates are among them.
    heads: Vec<(String, usize)>,
    /// Lints that are allowed, with the line.
    lints: Vec<(String, usize)>,
    /// First and last line of each test.
    tests: Vec<(usize, usize)>,
    /// Modules in files of their own that are tests.
    test_files: Vec<String>,
}

/// Walks the tokens of one file: comments and strings are none, so that only code counts.
impl Named {
    fn of(file: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{file} is no Rust: {e}"));
        let mut named = Self::default();
        named.walk(&list(tokens), depth(file));
        named
    }

    /// `depth` is the number of modules around these tokens: so many `super` lead to the crate's root.
    fn walk(&mut self, tokens: &[TokenTree], depth: usize) {
        let mut at = 0;
        while at < tokens.len() {
            let from = at;
            let (mut bodies, mut whole) = (Vec::new(), false);
            while let Some((body, len)) = attribute(&tokens[at..]) {
                whole |= len == 3 && is_test(&body);
                bodies.push(body);
                at += len;
            }
            if bodies.iter().any(|b| is_test(b)) {
                // `#![cfg(test)]` speaks of all that follows.
                let item = (at..tokens.len()).find(|&i| !whole && is_end(&tokens[i]));
                let end = item.unwrap_or(tokens.len() - 1);
                self.tests.push((line(&tokens[from]), line_end(&tokens[end])));
                if let Some(name) = (at..end).find(|&i| word(&tokens[i]) == "mod").and_then(|i| tokens.get(i + 1)) {
                    self.test_files.push(word(name));
                }
                at = end + 1;
                continue;
            }
            for body in &bodies {
                self.lints_of(body);
                self.walk(body, depth);
            }
            if at < tokens.len() {
                at += self.step(tokens, at, depth);
            }
        }
    }

    /// Takes what begins at `at`; returns how many tokens that is.
    fn step(&mut self, tokens: &[TokenTree], at: usize, depth: usize) -> usize {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inside = list(group.stream());
                let module = at >= 2 && word(&tokens[at - 2]) == "mod" && group.delimiter() == Delimiter::Brace;
                self.walk(&inside, depth + usize::from(module));
                1
            }
            TokenTree::Ident(_) if !follows_path(tokens, at) => {
                let name = word(&tokens[at]);
                let used = at > 0 && (word(&tokens[at - 1]) == "use" || word(&tokens[at - 1]) == "crate");
                if is_path(tokens, at + 1) || used {
                    self.heads.push((name.clone(), line(&tokens[at])));
                }
                match name.as_str() {
                    "crate" | "tx_trace" if is_path(tokens, at + 1) => self.rooted(&tokens[at + 3..]),
                    "super" | "self" if is_path(tokens, at + 1) => self.climb(&tokens[at..], depth),
                    _ => {}
                }
                1
            }
            _ => 1,
        }
    }

    /// A path, or a group of paths, that begins at the crate's root.
    fn rooted(&mut self, tokens: &[TokenTree]) {
        for path in alternatives(tokens) {
            match path.first() {
                Some(t) if word(t) == "self" => self.modules.push(("the whole crate".into(), line(t))),
                Some(t) => self.modules.push((word(t), line(t))),
                None => {}
            }
        }
    }

    /// A path that begins with `super` or `self`: it may lead to the root.
    fn climb(&mut self, tokens: &[TokenTree], depth: usize) {
        for path in alternatives(tokens) {
            match path.first().map(word).as_deref() {
                Some("self") if is_path(&path, 1) => self.climb(&path[3..], depth),
                Some("super") if is_path(&path, 1) && depth == 1 => self.rooted(&path[3..]),
                Some("super") if is_path(&path, 1) => self.climb(&path[3..], depth.saturating_sub(1)),
                _ => {}
            }
        }
    }

    /// `allow(..)` and `expect(..)`, anywhere in an attribute.
    fn lints_of(&mut self, body: &[TokenTree]) {
        if body.first().is_some_and(|t| word(t) == "cfg_attr") && is_test(&[ident("cfg"), body[1].clone()]) {
            return;
        }
        for (i, token) in body.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let inside = list(group.stream());
            if i > 0 && matches!(word(&body[i - 1]).as_str(), "allow" | "expect") {
                let reason = inside.iter().any(|t| word(t) == "reason");
                let lints = inside.iter().filter(|t| matches!(t, TokenTree::Ident(_)));
                let lints = lints.map(|t| (word(t), line(t)));
                self.lints.extend(lints.filter(|(lint, _)| !(reason && lint == WITH_REASON)));
            }
            self.lints_of(&inside);
        }
    }
}

fn ident(name: &str) -> TokenTree {
    proc_macro2::Ident::new(name, proc_macro2::Span::call_site()).into()
}

fn list(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

/// The text of a word or sign, and nothing for a group.
fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(_) => String::new(),
        other => other.to_string(),
    }
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

fn line_end(token: &TokenTree) -> usize {
    token.span().end().line
}

/// `::` at this place.
fn is_path(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |i: usize| tokens.get(i).is_some_and(|t| word(t) == ":");
    colon(at) && colon(at + 1)
}

/// True behind `::`, unless that begins the path (`use ::goblin`).
fn follows_path(tokens: &[TokenTree], at: usize) -> bool {
    let within = |t: &TokenTree| matches!(t, TokenTree::Ident(_)) && word(t) != "use" || word(t) == ">";
    at >= 3 && is_path(tokens, at - 2) && within(&tokens[at - 3])
}

/// The end of an item: its body, or a semicolon.
fn is_end(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace) || word(token) == ";"
}

/// The paths that begin here: those of a group in braces, else one.
fn alternatives(tokens: &[TokenTree]) -> Vec<Vec<TokenTree>> {
    match tokens.first() {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => {
            list(g.stream()).split(|t| word(t) == ",").map(<[TokenTree]>::to_vec).collect()
        }
        _ => vec![tokens.to_vec()],
    }
}

/// The inside of an attribute that begins here, and its number of tokens: 3 for one of the whole file.
fn attribute(tokens: &[TokenTree]) -> Option<(Vec<TokenTree>, usize)> {
    if tokens.first().map(word).as_deref() != Some("#") {
        return None;
    }
    let len = if tokens.get(1).map(word).as_deref() == Some("!") { 3 } else { 2 };
    match tokens.get(len - 1) {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Bracket => Some((list(g.stream()), len)),
        _ => None,
    }
}

/// `cfg(test)` or `cfg(all(test, ..))`.
fn is_test(body: &[TokenTree]) -> bool {
    let (Some(head), Some(TokenTree::Group(group))) = (body.first(), body.get(1)) else { return false };
    if !matches!(word(head).as_str(), "cfg" | "all") {
        return false;
    }
    let inside = list(group.stream());
    match inside.first().map(word).as_deref() {
        Some("test") => true,
        Some("all") => is_test(&inside),
        _ => false,
    }
}

/// Number of modules around the content of a file of `src/`.
fn depth(file: &str) -> usize {
    let parts = file.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count();
    if matches!(file, "lib.rs" | "main.rs") { 0 } else { parts }
}

/// The module of a file of `src/`.
fn module(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// True for the file or folder of this name, and what is in the folder.
fn lies_in(file: &str, place: &str) -> bool {
    file.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// What breaks a rule, one line each, in files of `src/` with their text; and the arrows that were looked at.
fn check(files: &[(String, String)], crates: &[String]) -> (Vec<String>, BTreeSet<(String, String)>) {
    let modules = allowed(ORDER);
    let named: Vec<(&str, &str, Named)> =
        files.iter().map(|(f, t)| (f.as_str(), t.as_str(), Named::of(f, t))).collect();
    let is_test_file = |file: &str| {
        named.iter().any(|(of, _, n)| {
            let folder = of.trim_end_matches("mod.rs").trim_end_matches(".rs").trim_end_matches('/');
            let folder = if *of == "lib.rs" { String::new() } else { format!("{folder}/") };
            n.test_files.iter().any(|m| lies_in(file, &format!("{folder}{m}")))
        })
    };
    let (mut wrong, mut arrows) = (Vec::new(), BTreeSet::new());
    for (file, text, named) in &named {
        let file = *file;
        if file == "lib.rs" || is_test_file(file) {
            continue;
        }
        let from = module(file);
        let Some(may) = modules.get(from) else {
            wrong.push(format!("src/{file}: the order does not know the module {from}"));
            continue;
        };
        for (to, line) in &named.modules {
            if to != from {
                arrows.insert((from.to_owned(), to.clone()));
                if !may.contains(to) {
                    wrong.push(format!("src/{file}:{line}: {from} names {to}, which does not stand below it"));
                }
            }
        }
        for (head, line) in &named.heads {
            let home = HOMES.iter().find(|(c, _)| c == head);
            if let Some((_, homes)) = home.filter(|(_, homes)| !homes.iter().any(|h| lies_in(file, h))) {
                wrong.push(format!("src/{file}:{line}: names {head}, which is for {} alone", homes.join(" and ")));
            }
            if STD_ONLY.contains(&from) && crates.contains(head) {
                wrong.push(format!("src/{file}:{line}: names {head}; {from} is std only"));
            }
        }
        for (lint, line) in named.lints.iter().filter(|(l, _)| PANICS.contains(&l.as_str())) {
            wrong.push(format!("src/{file}:{line}: allows {lint} outside tests"));
        }
        let tests: BTreeSet<usize> = named.tests.iter().flat_map(|(first, last)| *first..=*last).collect();
        let asks = |line: &str| SYSTEMS.iter().any(|asked| line.contains(asked));
        for (at, _) in text.lines().enumerate().filter(|(at, l)| from != "sys" && !tests.contains(&(at + 1)) && asks(l))
        {
            wrong.push(format!("src/{file}:{}: asks which system it runs on, which is for sys alone", at + 1));
        }
        let lines = text.lines().count() - tests.len();
        if lines > LINES {
            wrong.push(format!("src/{file}: {lines} lines without tests; the most is {LINES}"));
        }
    }
    (wrong, arrows)
}

fn source() -> Vec<(String, String)> {
    fn walk(root: &Path, folder: &Path, out: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                out.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut out = Vec::new();
    walk(&root, &root, &mut out);
    out.sort();
    out
}

/// The crates that the package depends on, as code names them.
fn crates() -> Vec<String> {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let table = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    table.lines().filter_map(|l| l.split_once('=')).map(|(name, _)| name.trim().replace('-', "_")).collect()
}

#[test]
fn the_source_keeps_the_order_of_its_modules() {
    let (wrong, arrows) = check(&source(), &crates());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    // What is certainly there was seen.
    for (from, to) in
        [("cli", "session"), ("library", "analysis"), ("session", "format"), ("format", "mem"), ("mem", "rsp")]
    {
        assert!(arrows.contains(&(from.into(), to.into())), "{from} -> {to} was overlooked");
    }
    assert!(crates().contains(&"goblin".to_owned()));
}

#[test]
fn each_crate_with_a_home_is_seen_there() {
    let files = source();
    for (name, homes) in HOMES {
        for home in *homes {
            let of_home = files.iter().filter(|(f, _)| lies_in(f, home));
            let mut heads = of_home.flat_map(|(f, t)| Named::of(f, t).heads);
            // Colours are mixed in one of their two homes today.
            assert!(heads.any(|(h, _)| h == *name) || *name == "owo_colors", "{name} is not in {home}");
        }
    }
}

fn wrong(file: &str, text: &str) -> Vec<String> {
    check(&[(file.to_owned(), text.to_owned())], &["nom".into(), "goblin".into()]).0
}

#[test]
fn an_arrow_against_the_order_is_found_however_it_is_written() {
    for text in [
        "use crate::session::Target;",
        "use crate::{abi, session::Target};",
        "use crate::{\n    abi::Addr,\n    session,\n};",
        "fn f() { crate::session::open() }",
        "fn f() { println!(\"{}\", crate::session::NAME) }",
        "use tx_trace::session;",
        "use super::super::session;",
        "use super::{packet, super::session};",
        "use self::super::super::session;",
        "mod inner { use super::super::super::session; }",
        "#[cfg(any(test, unix))] use crate::session;",
        "#[cfg(not(test))] mod m { use crate::session; }",
        "#[cfg(test)] mod tests { fn f() {} } use crate::session;",
        "use crate::*;",
        "use crate::{self};",
        "pub(crate) use crate::session::Target as S;",
        "#[derive(crate::session::Derive)] struct S;",
    ] {
        assert_eq!(wrong("rsp/client.rs", text).len(), 1, "{text}: {:?}", wrong("rsp/client.rs", text));
    }
    let reported = wrong("mem/core.rs", "use crate::abi;\nuse crate::sym::Symbols;\n");
    assert_eq!(reported, ["src/mem/core.rs:2: mem names sym, which does not stand below it"]);
    assert_eq!(wrong("elf.rs", "use super::rsp;").len(), 1, "neither stands below the other");
    assert_eq!(wrong("bytes.rs", "use crate::abi;").len(), 1);
    assert_eq!(wrong("new.rs", ""), ["src/new.rs: the order does not know the module new"]);
}

#[test]
fn what_is_no_arrow_against_the_order_is_let_be() {
    for text in [
        "// use crate::session;\n/* crate::session */",
        "//! See [`crate::session`].\nconst A: &str = \"crate::session\";",
        "#[cfg(test)]\nmod tests {\n    use crate::session;\n}",
        "#[cfg(all(test, unix))]\nfn f() { crate::session::open() }",
        "#[cfg(test)]\n#[allow(clippy::panic)]\nuse crate::session;",
        "#![cfg(test)]\nuse crate::session;",
        "use super::session;\nuse crate::rsp::session;\npub(crate) fn session() {}",
        "use crate::abi::{Addr, Endian};\nuse self::packet::Kind;",
        "fn f(x: Vec<u8>) -> usize { x.iter().map(super::session::count).sum() }",
    ] {
        assert_eq!(wrong("rsp/client.rs", text), Vec::<String>::new(), "{text}");
    }
    let elf = "#[cfg(test)] mod tests; #[cfg(test)] pub(crate) mod writer;".to_owned();
    let test = "use crate::session;".to_owned();
    let files = [("elf.rs".into(), elf), ("elf/tests.rs".into(), test.clone()), ("elf/writer.rs".into(), test.clone())];
    assert_eq!(check(&files, &[]).0, Vec::<String>::new());
    assert_eq!(check(&[files[0].clone(), ("elf/notes.rs".into(), test)], &[]).0.len(), 1);
}

#[test]
fn a_crate_outside_its_home_is_found() {
    for text in
        ["use goblin::elf::Elf;", "use goblin;", "use ::goblin::elf;", "use {goblin::elf};", "fn f(e: goblin::E) {}"]
    {
        assert_eq!(wrong("mem/core.rs", text), ["src/mem/core.rs:1: names goblin, which is for elf alone"], "{text}");
    }
    assert_eq!(wrong("elf/symbols.rs", "use goblin::elf::Elf;"), Vec::<String>::new());
    assert_eq!(wrong("sym/elf_table.rs", "type A = gimli::Dwarf<u8>;").len(), 1);
    assert_eq!(wrong("sym/dwarf/die.rs", "type A = gimli::Dwarf<u8>;"), Vec::<String>::new());
    assert_eq!(wrong("output/row.rs", "use owo_colors::Style;"), Vec::<String>::new());
    assert_eq!(wrong("cli/args.rs", "#[derive(clap::Parser)] struct A;"), Vec::<String>::new());
    assert_eq!(wrong("query/mod.rs", "#[derive(clap::ValueEnum)] enum A {}").len(), 1);
    assert_eq!(wrong("trace/mod.rs", "use nom::IResult;"), ["src/trace/mod.rs:1: names nom; trace is std only"]);
}

#[test]
fn a_question_which_system_it_is_outside_sys_is_found() {
    for text in ["#[cfg(unix)] fn f() {}", "#[cfg(target_os = \"linux\")] fn f() {}", "use std::os::fd::AsFd;"] {
        let wrong = |file| wrong(file, text);
        assert_eq!(
            wrong("rsp/client.rs"),
            ["src/rsp/client.rs:1: asks which system it runs on, which is for sys alone"]
        );
        assert_eq!(wrong("sys/wait.rs"), Vec::<String>::new());
    }
    assert_eq!(wrong("mem/map.rs", "#[cfg(test)]\nmod tests {\n    use std::os::fd::AsFd;\n}"), Vec::<String>::new());
}

#[test]
fn a_panic_that_is_allowed_is_found() {
    for text in [
        "#[allow(clippy::unwrap_used)] fn f() {}",
        "#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, reason = \"why\")]",
        "fn f() { #[expect(clippy::unwrap_used)] let a = b.unwrap(); }",
        "#[cfg_attr(unix, allow(clippy::unwrap_used))] fn f() {}",
        "#[cfg(not(test))] #[allow(clippy::unwrap_used)] fn f() {}",
        "#![allow(clippy::arithmetic_side_effects, clippy::unwrap_used, reason = \"why\")]",
    ] {
        assert_eq!(wrong("abi.rs", text), ["src/abi.rs:1: allows unwrap_used outside tests"], "{text}");
    }
    for text in [
        "#[cfg(test)]\n#[allow(clippy::unwrap_used)]\nmod tests {}",
        "#[allow(clippy::unwrap_used)]\n#[cfg(test)]\nmod tests {}",
        "#[cfg(test)]\nmod tests { #[allow(clippy::unwrap_used)] fn f() {} }",
        "#[cfg_attr(test, allow(clippy::unwrap_used))] fn f() {}",
        "#[allow(unsafe_code, reason = \"no other way\")] fn f() {}",
        "#![expect(clippy::arithmetic_side_effects, reason = \"counts what it holds\")]",
    ] {
        assert_eq!(wrong("abi.rs", text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn arithmetic_is_allowed_only_with_a_reason() {
    let text = "#![allow(clippy::arithmetic_side_effects)]";
    assert_eq!(wrong("abi.rs", text), ["src/abi.rs:1: allows arithmetic_side_effects outside tests"]);
}

#[test]
fn a_long_file_is_found_and_its_tests_are_not_counted() {
    let code = "fn f() {}\n".repeat(LINES);
    assert_eq!(wrong("abi.rs", &code), Vec::<String>::new());
    assert_eq!(wrong("abi.rs", &format!("{code}{code}")), ["src/abi.rs: 1200 lines without tests; the most is 600"]);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
    assert_eq!(wrong("abi.rs", &format!("{code}{tests}")), Vec::<String>::new());
}

#[test]
fn the_order_is_one() {
    let modules = allowed(ORDER);
    for (module, may) in &modules {
        assert!(!may.contains(module), "{module} stands below itself");
    }
    assert!(modules["main"].contains("abi") && modules["format"].contains("rsp") && !modules["elf"].contains("rsp"));
    for (file, _) in source() {
        assert!(file == "lib.rs" || modules.contains_key(module(&file)), "{file}");
    }
}
