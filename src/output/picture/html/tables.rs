//! The reports of a page.

use std::io;

use serde::Serialize;

use crate::abi::Width;
use crate::output::report::Words;
use crate::output::{Part, ReportWriter, Resolve, View, escape};
use crate::report::{Cell, Kind, Report};
use crate::trace::Issue;

/// A part of the reports with a title. Its text is escaped.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Document {
    title: String,
    sentences: Vec<String>,
    lines: String,
    tables: Vec<Table>,
}

/// A table.
#[derive(Debug, Clone, Default, Serialize)]
struct Table {
    title: String,
    columns: Vec<Head>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Serialize)]
struct Head {
    title: String,
    /// Aligned to the right.
    right: bool,
    /// Its cells are numbers of events.
    seq: bool,
}

/// Takes reports for a page.
pub struct Tables<'w> {
    words: Words<'w>,
    documents: &'w mut Vec<Document>,
    /// The one that is being filled.
    document: Document,
    title: String,
}

impl<'w> Tables<'w> {
    /// Adds to `documents`. `word` gives addresses their width, `names` are those of functions and variables.
    pub fn new(documents: &'w mut Vec<Document>, word: Width, names: &'w dyn Resolve) -> Self {
        Self { words: Words::new(word, names), documents, document: Document::default(), title: String::new() }
    }

    fn begin_document(&mut self, title: &str) {
        let next = Document { title: escape(title), ..Document::default() };
        let done = std::mem::replace(&mut self.document, next);
        if !(done.sentences.is_empty() && done.lines.is_empty() && done.tables.is_empty()) {
            self.documents.push(done);
        }
    }
}

impl ReportWriter for Tables<'_> {
    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.words.begin(&view.trace.clock);
        Ok(())
    }

    fn heading(&mut self, title: &str) -> io::Result<()> {
        self.title = escape(title);
        Ok(())
    }

    fn notes(&mut self, notes: &[String]) -> io::Result<()> {
        let notes = notes.iter().map(|note| escape(note));
        self.document.sentences.extend(notes);
        Ok(())
    }

    fn part(&mut self, part: &Part<'_>) -> io::Result<()> {
        match part {
            Part::Title(_) | Part::End => {}
            Part::Section(title) | Part::Folded(title) => self.begin_document(title),
            Part::Facts(facts) => {
                let rows = facts.iter().map(|(name, value)| vec![escape(name), escape(value)]).collect();
                let head = || Head { title: String::new(), right: false, seq: false };
                self.document.tables.push(Table { columns: vec![head(), head()], rows, ..Table::default() });
            }
            Part::Sentences(sentences) => {
                let sentences = sentences.iter().map(|sentence| escape(sentence));
                self.document.sentences.extend(sentences);
            }
            Part::Paragraph(text) => self.document.sentences.push(escape(text)),
            Part::Lines(lines) => self.document.lines.push_str(lines),
            Part::More(n, command) => {
                let note = format!("{n} more: tx-trace {command}");
                if let Some(table) = self.document.tables.last_mut() {
                    table.notes.push(note);
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.words.measure(report);
        let head = |column: &crate::report::Column| Head {
            title: self.words.head(column),
            right: column.kind.is_right(),
            seq: column.kind == Kind::Seq,
        };
        let columns = report.columns.iter().map(head).collect();
        let row = |row: &[Cell]| row.iter().zip(&report.columns).map(|(cell, c)| self.words.text(c, cell)).collect();
        let rows = report.rows.iter().map(row).collect();
        let notes = report.notes.iter().map(|note| escape(note)).collect();
        let title = std::mem::take(&mut self.title);
        self.document.tables.push(Table { title, columns, rows, notes });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: &[Issue]) -> io::Result<()> {
        self.begin_document("");
        Ok(())
    }
}
