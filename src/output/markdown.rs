//! Reports as Markdown, for issues and chats: text of the target does nothing there.
//!
//! A word that Markdown, or GitHub behind it, could take for its own (`@name`, `#12`, a URL, HTML, an emphasis) goes into
//! a code span. Backslashes would not do: GitHub finds names and numbers of issues in the text that is left of them.

use std::io::{self, BufWriter, Write};

use super::report::Words;
use super::{ReportWriter, Resolve, View, escape};
use crate::abi::Width;
use crate::report::Report;
use crate::trace::Issue;

/// Writes reports as Markdown.
pub(super) struct MdReports<'w, W: Write> {
    out: BufWriter<W>,
    words: Words<'w>,
    any: bool,
}

impl<'w, W: Write> MdReports<'w, W> {
    /// Markdown that is written to `out`.
    pub(super) fn new(out: W, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), words: Words::new(word, names), any: false }
    }
}

impl<W: Write> ReportWriter for MdReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.words.measure(report);
        let Self { out, words, any } = self;
        if std::mem::replace(any, true) {
            writeln!(out)?;
        }
        writeln!(out, "## {}\n", inline(report.title))?;
        if report.rows.is_empty() {
            writeln!(out, "{}", inline(&escape(&report.nothing)))?;
            return self.notes(&report.notes);
        }
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        writeln!(out, "{}", line(report.columns.iter().map(|c| inline(&words.head(c))).collect()))?;
        let rules = report.columns.iter().map(|c| if c.kind.is_right() { "---:|" } else { "---|" });
        writeln!(out, "|{}", rules.collect::<String>())?;
        for row in &report.rows {
            let cells = report.columns.iter().zip(row).map(|(column, cell)| inline(&words.text(column, cell)));
            writeln!(out, "{}", line(cells.collect()))?;
        }
        self.notes(&report.notes)
    }

    fn notes(&mut self, notes: &[String]) -> io::Result<()> {
        notes.iter().try_for_each(|note| writeln!(self.out, "\n{}", inline(&escape(note))))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

/// Text; words that are not plain are in code spans.
fn inline(text: &str) -> String {
    let word = |(i, word): (usize, &str)| {
        if word.is_empty() || is_inert(word, i == 0) { word.to_owned() } else { code(word) }
    };
    let words: Vec<String> = text.split(' ').enumerate().map(word).collect();
    words.join(" ")
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

/// A word as a code span. A bar would end the cell of a table, there as well.
fn code(word: &str) -> String {
    let longest = word.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1));
    let room = if longest > 0 { " " } else { "" };
    let word = word.replace('|', "\\x7c");
    format!("{fence}{room}{word}{room}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        inline(text)
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
