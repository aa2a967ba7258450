//! Reports as Markdown, for issues and chats: text of the target does nothing there.
//!
//! A word that Markdown, or GitHub behind it, could take for its own (`@name`, `#12`, a URL, HTML, an emphasis) goes into
//! a code span. Backslashes would not do: GitHub finds names and numbers of issues in the text that is left of them.

use std::io::{self, Write};

use super::report::Words;
use super::{Out, ReportWriter, Resolve, View, escape};
use crate::abi::Width;
use crate::report::Report;
use crate::trace::Issue;

/// Writes reports as Markdown.
pub struct MdReports<'w, W> {
    out: Out<W>,
    words: Words<'w>,
    any: bool,
}

impl<'w, W: Write> MdReports<'w, W> {
    /// Markdown that is written to `out`.
    pub fn new(out: W, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: Out::new(out), words: Words::new(word, names), any: false }
    }
}

impl<W: Write> ReportWriter for MdReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.words.measure(report);
        let out = &mut self.out.buf;
        if self.any {
            out.push(b'\n');
        }
        self.any = true;
        out.extend_from_slice(b"## ");
        inline(out, report.name);
        out.extend_from_slice(b"\n\n|");
        for column in &report.columns {
            out.push(b' ');
            inline(out, &self.words.head(column));
            out.extend_from_slice(b" |");
        }
        out.extend_from_slice(b"\n|");
        for column in &report.columns {
            out.extend_from_slice(if column.kind.is_right() { b"---:|" } else { b"---|" });
        }
        out.push(b'\n');
        for row in &report.rows {
            let out = &mut self.out.buf;
            out.push(b'|');
            for (column, cell) in report.columns.iter().zip(row) {
                out.push(b' ');
                inline(out, &self.words.text(column, cell));
                out.extend_from_slice(b" |");
            }
            out.push(b'\n');
            self.out.row()?;
        }
        for note in &report.notes {
            self.out.buf.push(b'\n');
            inline(&mut self.out.buf, &escape(note));
            self.out.buf.push(b'\n');
        }
        self.out.row()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

/// Adds text; words that are not plain go into code spans.
fn inline(out: &mut Vec<u8>, text: &str) {
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        if word.is_empty() || is_inert(word, i == 0) {
            out.extend_from_slice(word.as_bytes());
        } else {
            code(out, word);
        }
    }
}

/// True for a word that is nothing but text, in Markdown and on GitHub.
fn is_inert(word: &str, first: bool) -> bool {
    let core = word.trim_start_matches('(').trim_end_matches(['.', ',', ':', ';', ')', '?', '!']);
    let is_plain = |c: char| c.is_alphanumeric() || !c.is_ascii() || "_-./%+='\",()?!".contains(c);
    // An underscore is emphasis unless it is within a name.
    let within = |name: &str| !name.starts_with('_') && !name.ends_with('_');
    let mut names = core.split(|c: char| !c.is_alphanumeric() && c != '_');
    // `1.` begins a list.
    let counts = first && core.len() < word.len() && core.bytes().all(|b| b.is_ascii_digit());
    core.chars().all(is_plain)
        && core.chars().any(|c| c.is_alphanumeric() || !c.is_ascii())
        && names.all(within)
        && !counts
        && !is_reference(&core.to_ascii_lowercase())
}

/// True for what becomes a link without any mark around it: `www.`, `GH-12`, the number of a commit.
fn is_reference(word: &str) -> bool {
    let is_commit = |name: &str| {
        (7..=40).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_hexdigit())
            && name.bytes().any(|b| b.is_ascii_alphabetic())
    };
    word.contains("www.") || word.contains("gh-") || word.split(|c: char| !c.is_alphanumeric()).any(is_commit)
}

/// Adds a word as a code span. A bar would end the cell of a table, there as well.
fn code(out: &mut Vec<u8>, word: &str) {
    let longest = word.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1));
    let room = if longest > 0 { " " } else { "" };
    let word = word.replace('|', "\\x7c");
    out.extend_from_slice(format!("{fence}{room}{word}{room}{fence}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        inline(&mut out, text);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Names of threads were links, mentions of people and references to issues.
    #[test]
    fn names_of_the_target_were_alive_in_markdown() {
        for live in [
            "@octocat",
            "x@octocat.example",
            "#123",
            "owner/repo#123",
            "GH-123",
            "http://evil.example",
            "//evil.example:80",
            "www.evil.example",
            "(www.evil.example)",
            "<b>",
            "<!--",
            "&copy;",
            "![x](y)",
            "[x]:",
            "**bold**",
            "_slanted_",
            "\"_slanted_\"",
            "~gone~",
            "$x$",
            ":tada:",
            "a\\",
            "---",
            "-",
            "1.",
            "deadbeef",
        ] {
            assert_eq!(shown(live), format!("`{live}`"));
        }
        assert_eq!(shown("a|b"), "`a\\x7cb`");
        assert_eq!(shown("a`b``c"), "``` a`b``c ```");
        assert_eq!(shown("hi @you <now>"), "hi `@you` `<now>`");
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for plain in [
            "tx_queue_send",
            "System Timer Thread",
            "-12.5%",
            "0x20000410",
            "semaphore rx_ready: (3 of 4), at 12.",
            "W\u{e4}chter",
            "isr SysTick+0x4",
            "180/8192",
            "",
        ] {
            assert_eq!(shown(plain), plain);
        }
    }
}
