//! The parts of the document of `report` that are no tables, and how a terminal shows them.

#![allow(clippy::arithmetic_side_effects, reason = "columns of a line")]

use std::io::{self, Write};

use super::line::{width_of, wrap};
use super::styles::Style;
use super::{TableOptions, escape};

/// A part of a document for people. Text is hostile and is escaped here, unless a part says otherwise.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// The first line.
    Title(&'a str),
    /// The head of a section.
    Section(&'a str),
    /// The head of a section that a page may fold: long, or not what is read first. It ends at the next section.
    Folded(&'a str),
    /// Names and values.
    Facts(&'a [(&'static str, String)]),
    /// Sentences, one below the other.
    Sentences(&'a [String]),
    /// A paragraph of its own.
    Paragraph(&'a str),
    /// Lines as a terminal shows them, escaped already.
    Lines(&'a str),
    /// So many rows of the table above are left out, and the command that prints them all.
    More(u64, &'a str),
    /// Nothing follows.
    End,
}

/// Spaces between the columns of facts.
const GAP: usize = 2;

/// Writes a part as text. `any`: something is above, and a blank line is due.
pub(super) fn text(part: &Part<'_>, options: &TableOptions, any: &mut bool, out: &mut dyn Write) -> io::Result<()> {
    let heads = |text: &str, out: &mut dyn Write| {
        let lines = wrap(&escape(text), options.width, 0);
        lines.iter().try_for_each(|line| writeln!(out, "{}", options.styles.text(Style::Bold, line)))
    };
    match part {
        Part::Title(title) => {
            *any = true;
            heads(title, out)
        }
        Part::Section(title) | Part::Folded(title) => {
            if std::mem::replace(any, false) {
                writeln!(out)?;
            }
            heads(title, out)
        }
        Part::Facts(facts) => {
            if std::mem::replace(any, true) {
                writeln!(out)?;
            }
            let left = facts.iter().map(|(what, _)| width_of(what)).max().unwrap_or(0) + GAP;
            let room = options.width.saturating_sub(left).max(1);
            for (what, value) in *facts {
                for (i, line) in wrap(&escape(value), room, 0).iter().enumerate() {
                    let what = if i == 0 { what } else { "" };
                    writeln!(out, "{what:left$}{line}")?;
                }
            }
            Ok(())
        }
        Part::Sentences(sentences) => {
            *any = true;
            for sentence in *sentences {
                for (i, line) in wrap(&escape(sentence), options.width.saturating_sub(GAP).max(1), 0).iter().enumerate()
                {
                    writeln!(out, "{}{line}", if i == 0 { "- " } else { "  " })?;
                }
            }
            Ok(())
        }
        Part::Paragraph(paragraph) => {
            if std::mem::replace(any, true) {
                writeln!(out)?;
            }
            wrap(&escape(paragraph), options.width, 0).iter().try_for_each(|line| writeln!(out, "{line}"))
        }
        Part::Lines(lines) => {
            *any = true;
            out.write_all(lines.as_bytes())
        }
        Part::More(rows, command) => {
            *any = true;
            writeln!(out, "... and {rows} more: tx-trace {command}")
        }
        Part::End => Ok(()),
    }
}
