//! Links of the pages, and the list of the book's pages.

use std::collections::HashSet;
use std::path::Path;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{book, pages, parse, root, target, text};

fn links(text: &str) -> Vec<String> {
    parse(text)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
            _ => None,
        })
        .collect()
}

/// The anchors of headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> HashSet<String> {
    let (mut anchors, mut heading) = (HashSet::new(), None::<String>);
    for event in parse(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let words = heading.take().unwrap().to_lowercase();
                let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
            }
            _ => {}
        }
    }
    anchors
}

#[test]
fn links_lead_to_pages_and_headings() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        for link in links(&text(&page)) {
            seen += 1;
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = target(&page, &link);
            if !file.exists() {
                wrong.push(format!("{page}: {link}: no such file"));
            } else if let Some(anchor) = anchor {
                let there = anchors(&std::fs::read_to_string(&file).unwrap());
                if !there.contains(&anchor) {
                    wrong.push(format!("{page}: {link}: no such heading"));
                }
            }
            // The book has the pages of docs and nothing else.
            if page.starts_with("docs/") && link.contains("../") {
                let (file, docs) =
                    (file.canonicalize().unwrap_or_default(), root().join("docs").canonicalize().unwrap());
                if !file.starts_with(docs) {
                    wrong.push(format!("{page}: {link}: leads out of the book"));
                }
            }
        }
    }
    assert!(seen > 100, "{seen} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_book_lists_every_page_once() {
    let listed: Vec<String> = links(&text("docs/SUMMARY.md")).into_iter().map(|link| format!("docs/{link}")).collect();
    let mut sorted = listed.clone();
    sorted.sort();
    let all: Vec<String> = book().into_iter().filter(|page| page != "docs/SUMMARY.md").collect();
    assert_eq!(sorted, all);
    // Whoever reads the files begins with the introduction, which leads to all but the formats.
    let introduced: HashSet<String> = links(&text("docs/introduction.md")).into_iter().collect();
    let missing: Vec<&String> = listed
        .iter()
        .filter(|page| !page.contains("/formats/") && *page != "docs/introduction.md")
        .filter(|page| !introduced.contains(Path::new(page).file_name().unwrap().to_str().unwrap()))
        .collect();
    assert!(missing.is_empty(), "docs/introduction.md does not lead to {missing:?}");
}
