//! What `cargo package` puts into the crate: all that the program is built from, and no more; and what the packages of a
//! release have beside the program.
#![allow(missing_docs, clippy::restriction, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};
use pulldown_cmark::{Event, Parser, Tag};

/// The bytes that the files of the package may have, unpacked. Compressed they are about a quarter of it.
const MOST: u64 = 7_400_000;

/// Written into the package by Cargo: not files of this tree.
const WRITTEN: &[&str] = &[".cargo_vcs_info.json", "Cargo.toml.orig"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of the package, by their paths from its root.
fn packaged() -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["package", "--list", "--locked", "--allow-dirty"];
    let done = Command::new(cargo).args(words).current_dir(root()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let list = String::from_utf8(done.stdout).unwrap();
    list.lines().map(|line| line.replace('\\', "/")).filter(|line| !WRITTEN.contains(&line.as_str())).collect()
}

/// The paths that a source includes, as they are written in it.
fn includes(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(includes(group.stream())),
            TokenTree::Ident(name) if ["include_str", "include_bytes", "include"].iter().any(|n| name == n) => {
                let behind = (tokens.get(at + 1).map(ToString::to_string), tokens.get(at + 2));
                if let (Some("!"), Some(TokenTree::Group(group))) = (behind.0.as_deref(), behind.1) {
                    let path = group.stream().to_string();
                    let text = path.trim_end_matches([',', ' ']).strip_prefix('"').and_then(|t| t.strip_suffix('"'));
                    found.push(text.unwrap_or_else(|| panic!("{name}!({path}): not a plain string")).to_owned());
                }
            }
            _ => {}
        }
    }
    found
}

/// `path`, written in the file `from`, as a path from the root.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in Path::new(from).parent().unwrap().join(path).components() {
        match part {
            Component::ParentDir => assert!(parts.pop().is_some(), "{from}: {path} is outside the repository"),
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    parts.join("/")
}

/// What the packaged sources include, with the file that includes it.
fn included(files: &BTreeSet<String>) -> BTreeSet<(String, String)> {
    let sources = files.iter().filter(|file| file.ends_with(".rs"));
    let read = |file: &String| {
        let tokens = std::fs::read_to_string(root().join(file)).unwrap().parse().unwrap();
        includes(tokens).into_iter().map(|path| (resolve(file, &path), file.clone())).collect::<Vec<_>>()
    };
    sources.flat_map(read).collect()
}

#[test]
fn the_package_has_every_file_that_its_sources_include() {
    let files = packaged();
    let included = included(&files);
    assert!(included.iter().any(|(path, _)| path == "tests/fixtures/cm3.elf"), "demo's program: {included:?}");
    let missing: Vec<_> = included.iter().filter(|(path, _)| !files.contains(path)).collect();
    assert!(missing.is_empty(), "add them to `include` in Cargo.toml: {missing:?}");
    for needed in ["build.rs", "Cargo.lock", "src/main.rs", "src/lib.rs", "LICENSE-MIT", "LICENSE-APACHE", "README.md"]
    {
        assert!(files.contains(needed), "{needed} is not in the package");
    }
}

#[test]
fn the_package_has_no_tests_and_is_small() {
    let files = packaged();
    let included: BTreeSet<String> = included(&files).into_iter().map(|(path, _)| path).collect();
    let folders = ["src/", "examples/", "gdb/", "docs/", "scripts/examples/"];
    let stray = |file: &&String| {
        file.contains('/') && !folders.iter().any(|r| file.starts_with(r)) && !included.contains(*file)
    };
    let stray: Vec<_> = files.iter().filter(stray).collect();
    assert!(stray.is_empty(), "nothing includes them: {stray:?}");
    let size: u64 = files.iter().map(|file| std::fs::metadata(root().join(file)).unwrap().len()).sum();
    assert!(size < MOST, "{size} bytes in {} files; MOST are {MOST}", files.len());
}

/// The files to which README has links, without the pictures.
fn links_of_readme() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let link = |event| match event {
        Event::Start(Tag::Link { dest_url, .. }) if !dest_url.contains("://") => {
            dest_url.split('#').next().filter(|file| !file.is_empty()).map(str::to_owned)
        }
        _ => None,
    };
    Parser::new(&text).filter_map(link).collect()
}

#[test]
fn every_package_has_the_files_to_which_readme_links() {
    let files = packaged();
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (manifest, release) = (read("Cargo.toml"), read("scripts/release"));
    let copied = release.lines().find(|line| line.trim_start().starts_with("cp \"$program\"")).unwrap();
    let links = links_of_readme();
    assert!(links.contains("LICENSE-MIT") && links.contains("docs/install.md"), "{links:?}");
    for link in links {
        assert!(files.contains(&link), "{link} is not in the crate");
        // Both have all of docs/.
        if !link.starts_with("docs/") {
            assert!(
                manifest.contains(&format!("[\"{link}\", \"usr/share/doc/tx-trace/\"")),
                "{link} is not in the .deb"
            );
            assert!(copied.split(' ').any(|word| word == link), "{link} is not in the archives of scripts/release");
        }
    }
}

#[test]
fn an_include_is_found_wherever_it_is() {
    let text = "static A: &[u8] = include_bytes!(\"../a.bin\"); fn f() { g([std::include_str!(\n\"b/c.txt\",)]) } fn include() {}";
    assert_eq!(includes(text.parse().unwrap()), ["../a.bin", "b/c.txt"]);
    assert_eq!(resolve("src/cli/demo.rs", "../../tests/a.bin"), "tests/a.bin");
}
