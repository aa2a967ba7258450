//! Reports as Markdown, for issues and chats: text of the target does nothing there.
//!
//! A word that Markdown, or GitHub behind it, could take for its own (`@name`, `#12`, a URL, HTML, an emphasis) goes into
//! a code span. Backslashes would not do: GitHub finds names and numbers of issues in the text that is left of them.

use std::io::{self, BufWriter, Write};

use super::report::Words;
use super::{Part, ReportWriter, Resolve, View, escape};
use crate::abi::Width;
use crate::report::Report;
use crate::trace::Issue;

/// Writes reports as Markdown.
pub(super) struct MdReports<'w, W: Write> {
    out: BufWriter<W>,
    words: Words<'w>,
    any: bool,
    /// The report that follows has a head already.
    has_head: bool,
    /// `<details>` is open.
    is_folded: bool,
}

impl<'w, W: Write> MdReports<'w, W> {
    /// Markdown that is written to `out`.
    pub(super) fn new(out: W, word: Width, names: &'w dyn Resolve) -> Self {
        Self { out: BufWriter::new(out), words: Words::new(word, names), any: false, has_head: false, is_folded: false }
    }

    /// A blank line before all but the first.
    fn begin_block(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) { writeln!(self.out) } else { Ok(()) }
    }

    /// Ends what is folded.
    fn unfold(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_folded, false) {
            self.begin_block()?;
            writeln!(self.out, "</details>")?;
        }
        Ok(())
    }
}

/// A row of a table.
fn row(cells: impl Iterator<Item = String>) -> String {
    cells.fold("|".to_owned(), |line, cell| line + " " + &cell + " |")
}

impl<W: Write> ReportWriter for MdReports<'_, W> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn heading(&mut self, name: &str) -> io::Result<()> {
        self.begin_block()?;
        self.has_head = true;
        let mark = if self.is_folded { "####" } else { "##" };
        writeln!(self.out, "{mark} {}", inline(&escape(name), Place::Line))
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        if let Part::Section(_) | Part::Folded(_) | Part::End = part {
            self.unfold()?;
        }
        if !matches!(part, Part::End) {
            self.begin_block()?;
        }
        let out = &mut self.out;
        let line = |text: &str| inline(&escape(text), Place::Line);
        match part {
            Part::Title(title) => writeln!(out, "## {}", line(title)),
            Part::Section(title) => {
                self.has_head = true;
                writeln!(out, "### {}", line(title))
            }
            Part::Folded(title) => {
                (self.is_folded, self.has_head) = (true, true);
                writeln!(out, "<details><summary>{}</summary>", html(&escape(title)))
            }
            Part::Facts(facts) => {
                writeln!(out, "| what | value |\n|---|---|")?;
                let mut all = facts.iter().map(|(what, value)| [what, value.as_str()]);
                all.try_for_each(|fact| {
                    writeln!(out, "{}", row(fact.iter().map(|text| inline(&escape(text), Place::Cell))))
                })
            }
            Part::Sentences(sentences) => {
                sentences.iter().try_for_each(|sentence| writeln!(out, "- {}", line(sentence)))
            }
            Part::Paragraph(paragraph) => writeln!(out, "{}", line(paragraph)),
            Part::Lines(lines) => {
                let fence = fence(lines, 3);
                writeln!(out, "{fence}text\n{lines}{fence}")
            }
            Part::More(rows, command) => writeln!(out, "... and {rows} more: `tx-trace {command}`"),
            Part::End => Ok(()),
        }
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_head, false) {
            self.heading(report.title)?;
            self.has_head = false;
        }
        self.words.measure(report);
        let Self { out, words, .. } = self;
        if report.rows.is_empty() {
            writeln!(out, "\n{}", inline(&escape(report.nothing()), Place::Line))?;
        } else {
            let heads = report.columns.iter().map(|column| inline(&words.head(column), Place::Cell));
            writeln!(out, "\n{}", row(heads))?;
            let rules = report.columns.iter().map(|c| if c.kind.is_right() { "---:|" } else { "---|" });
            writeln!(out, "|{}", rules.collect::<String>())?;
        }
        for cells in &report.rows {
            let cells = report.columns.iter().zip(cells);
            writeln!(out, "{}", row(cells.map(|(column, cell)| inline(&words.text(column, cell), Place::Cell))))?;
        }
        self.any = true;
        self.notes(&report.notes)
    }

    fn notes(&mut self, notes: &[String]) -> io::Result<()> {
        notes.iter().try_for_each(|note| writeln!(self.out, "\n{}", inline(&escape(note), Place::Line)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.out.flush()
    }
}

/// A fence of backticks that is longer than any in the text, and at least so long.
fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.saturating_add(1).max(least))
}

/// Text within HTML, where Markdown does not look.
fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Where text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A line of its own, or the rest of one.
    Line,
    /// A cell of a table, which a bar ends.
    Cell,
}

/// Text; words that are not plain are in code spans. Space at both ends would be an indented block, or a break.
fn inline(text: &str, place: Place) -> String {
    let word = |(i, word): (usize, &str)| {
        let begins = i == 0 && place == Place::Line;
        if word.is_empty() || is_inert(word, begins) { word.to_owned() } else { code(word, place) }
    };
    let words: Vec<String> = text.trim_matches(' ').split(' ').enumerate().map(word).collect();
    words.join(" ")
}

/// True for a word that is nothing but text, in Markdown and on GitHub. `begins`: it begins a line, where it could make a
/// list, a quotation or a rule.
fn is_inert(word: &str, begins: bool) -> bool {
    // Between spaces these mark nothing.
    if !begins && matches!(word, "*" | "<" | ">" | "=" | "+" | "-" | "&" | "/" | "->") {
        return true;
    }
    let core = word.trim_start_matches('(').trim_end_matches(['.', ',', ':', ';', ')', '?', '!']);
    if core == "%" {
        return true;
    }
    let is_plain = |c: char| c.is_alphanumeric() || !c.is_ascii() || "_-./%+='\",()?!:".contains(c);
    // An underscore is emphasis unless it is within a name.
    let within = |name: &str| !name.starts_with('_') && !name.ends_with('_');
    let mut names = core.split(|c: char| !c.is_alphanumeric() && c != '_');
    // `1.` begins a list.
    let counts = begins && core.len() < word.len() && core.bytes().all(|b| b.is_ascii_digit());
    core.chars().all(is_plain)
        && core.chars().any(|c| c.is_alphanumeric() || !c.is_ascii())
        && names.all(within)
        && !counts
        && !is_emoji(word)
        && !is_reference(&core.to_ascii_lowercase())
}

/// True for what becomes a link without any mark around it: `www.`, `GH-12`, the number of a commit.
fn is_reference(word: &str) -> bool {
    let is_commit = |name: &str| {
        (7..=40).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_hexdigit())
            && name.bytes().any(|b| b.is_ascii_alphabetic())
    };
    word.contains("www.")
        || word.contains("gh-")
        || word.contains("//")
        || word.split(|c: char| !c.is_alphanumeric()).any(is_commit)
}

/// True where a name between two colons could be a picture. A time of day has two digits there.
fn is_emoji(word: &str) -> bool {
    let is_time = || word.split(':').all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()));
    word.bytes().filter(|b| *b == b':').count() > 1 && !is_time()
}

/// A word as a code span. A bar would end the cell of a table, there as well; after a backslash it cannot be escaped.
fn code(word: &str, place: Place) -> String {
    let fence = fence(word, 1);
    let room = if fence.len() > 1 { " " } else { "" };
    let word = match place {
        Place::Line => word.to_owned(),
        Place::Cell => word.replace("\\|", "\\\\x7c").replace('|', "\\|"),
    };
    format!("{fence}{room}{word}{room}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        inline(text, Place::Cell)
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
            "x:100:y",
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
            "deadbeef",
        ] {
            assert_eq!(shown(live), format!("`{live}`"));
        }
        for begins in ["-", "*", "+", "1.", "1)", ">"] {
            assert_eq!(inline(begins, Place::Line), format!("`{begins}`"));
            assert_eq!(shown(begins), begins);
        }
        assert_eq!(shown("a|b"), "`a\\|b`");
        assert_eq!(inline("a|b", Place::Line), "`a|b`");
        // A backslash in front of the bar would take away the one that we put there.
        assert_eq!(shown("a\\|b"), "`a\\\\x7cb`");
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
            "2026-01-31 12:00:00 UTC",
            "8196:1",
            "67.6 %",
            "at most (33 %).",
            "",
        ] {
            assert_eq!(shown(plain), plain);
        }
    }
}
