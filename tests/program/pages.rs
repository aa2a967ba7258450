//! README.md and docs/: links lead somewhere, the book lists every page, each command line runs, and what is written for
//! other tools (CI jobs, settings of editors) is of their form.

#![cfg(all(feature = "cli", feature = "serve", unix))]

mod ci;
mod commands;
mod links;

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the book, by their paths from the root.
fn book() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["docs", "docs/formats"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|e| e == "md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// The book, and the pages beside it.
fn pages() -> Vec<String> {
    let beside =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "scripts/examples/README.md", "tests/firmware/README.md"];
    let beside = beside.into_iter().filter(|page| root().join(page).exists()).map(str::to_owned);
    book().into_iter().chain(beside).collect()
}

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Code blocks with their language: fenced ones, and indented ones with an empty language.
fn code(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut within = false;
    for event in parse(text) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                blocks.push((language, String::new()));
                within = true;
            }
            Event::End(TagEnd::CodeBlock) => within = false,
            Event::Text(part) if within => blocks.last_mut().unwrap().1.push_str(&part),
            _ => {}
        }
    }
    blocks
}

/// Each code block of a page in that language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    code(&text(page)).into_iter().filter(|(l, _)| l == language).map(|(_, code)| code).collect()
}

/// Where a link of a page leads: its file, and the part behind `#`.
fn target(page: &str, link: &str) -> (PathBuf, Option<String>) {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(f, a)| (f, Some(a.to_owned())));
    let from = root().join(page);
    (if file.is_empty() { from } else { from.with_file_name("").join(file) }, anchor)
}
