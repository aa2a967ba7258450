//! Markdown as a renderer reads it: names of the target are text and nothing else, and tables keep their shape.

#![cfg(feature = "cli")]

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::support::machine::{Scratch, fixture, tx_trace};

/// Names of at most 31 bytes, one for each object of the fixture.
const HOSTILE: [&str; 20] = [
    "a|b",
    "a\\|b",
    "``x` y```",
    "<script>alert(1)</script>",
    "</details> <!-- x",
    "@octocat",
    "http://evil.example/x",
    "www.evil.example",
    "#1 GH-1 a/b#1",
    "**bold** __bold__ *x* _x_",
    "~~gone~~",
    "tail\\",
    "two\nlines\n# head\n- item",
    "```\n```",
    "[x](http://a.b) ![i](j)",
    "[^1] $x$ :tada:",
    "&lt; &#64;octocat",
    "1. one",
    "    indented  ",
    "deadbeefdeadbeef",
];

/// The fixture with these names for its objects.
fn hostile(scratch: &Scratch) -> String {
    let mut bytes = std::fs::read(fixture("cm3.trx")).unwrap();
    // A header of 48 bytes, and entries of 48 with the name in the last 32.
    for (entry, name) in HOSTILE.iter().enumerate() {
        let at = 48 + entry * 48 + 16;
        bytes[at..at + 32].fill(0);
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    let trace = scratch.path("hostile.trx");
    std::fs::write(&trace, &bytes).unwrap();
    trace.to_str().unwrap().to_owned()
}

/// Text outside code and fences, the cells of each row of tables, and the text of fenced blocks.
#[derive(Default)]
struct Read {
    text: String,
    rows: Vec<Vec<String>>,
    fenced: String,
}

fn read(markdown: &str) -> Read {
    let mut read = Read::default();
    let mut cell = None::<String>;
    let mut is_fenced = false;
    for event in Parser::new_ext(markdown, Options::all() - Options::ENABLE_SMART_PUNCTUATION) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => is_fenced = true,
            Event::End(TagEnd::CodeBlock) => is_fenced = false,
            Event::Start(Tag::TableRow | Tag::TableHead) => read.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => read.rows.last_mut().unwrap().push(cell.take().unwrap()),
            Event::Text(text) if is_fenced => read.fenced.push_str(&text),
            Event::Text(text) => {
                read.text.push_str(&text);
                cell.iter_mut().for_each(|cell| cell.push_str(&text));
            }
            Event::Code(code) => {
                read.text.push(' ');
                cell.iter_mut().for_each(|cell| cell.push_str(&code));
            }
            Event::SoftBreak => read.text.push('\n'),
            Event::Html(html) | Event::InlineHtml(html) => {
                let ours = html.starts_with("<details><summary>") || html.as_ref() == "</details>\n";
                assert!(ours, "{html}: {markdown}");
            }
            Event::Start(
                Tag::Heading { .. } | Tag::Paragraph | Tag::List(None) | Tag::Item | Tag::Table(_) | Tag::HtmlBlock,
            )
            | Event::End(_) => {}
            other => panic!("{other:?}: {markdown}"),
        }
    }
    read
}

/// Names were links, mentions, markup and ends of cells.
#[test]
fn no_name_of_the_target_is_markup_in_a_rendered_page() {
    let scratch = Scratch::new("markdown");
    let trace = hostile(&scratch);
    for command in ["report", "report --tracex", "objects", "objects --use", "blocked", "info", "stats"] {
        let words = command.split(' ').chain(["--format", "md", &trace]);
        let out = tx_trace(&words.collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(0), "{command}");
        let markdown = String::from_utf8(out.stdout).unwrap();
        let read = read(&markdown);
        for live in ["@", "#1", "://", "www.", "GH-", "deadbeef", "<", "`", "~~", "**"] {
            assert!(!read.text.replace("< 0", "").contains(live), "{command}: {live} in {}", read.text);
        }
        if command == "objects" {
            let names: Vec<&String> = read.rows[1..].iter().map(|row| &row[2]).collect();
            for name in HOSTILE {
                let shown = name.replace('\n', "\\n");
                let shown = shown.trim_matches(' ').replace("\\|", "\\\\x7c");
                assert!(names.contains(&&shown), "{shown}: {names:?}");
            }
        }
    }
}

/// A table row with another number of cells than its head is not what was written.
#[test]
fn each_row_of_a_table_has_the_cells_of_its_head() {
    let scratch = Scratch::new("cells");
    let trace = hostile(&scratch);
    let out = tx_trace(&["report", "--format", "md", &trace]);
    let markdown = String::from_utf8(out.stdout).unwrap();
    // Bars between cells: not those that are escaped.
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut head = None;
    let mut fenced = false;
    for line in markdown.lines() {
        fenced ^= line.starts_with("```");
        match head {
            _ if fenced || !line.starts_with('|') => head = None,
            None => head = Some(bars(line)),
            Some(head) => assert_eq!(bars(line), head, "{line}"),
        }
    }
    let read = read(&markdown);
    assert!(read.fenced.lines().count() >= 20 && read.fenced.contains("octocat"), "{}", read.fenced);
}
