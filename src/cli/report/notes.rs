//! The notes of all tables, each once.

use crate::output::by_weight;
use crate::report::Report;
use crate::trace::{Issue, Severity};

/// Notes, with the tables that have them.
#[derive(Default)]
pub struct Notes(Vec<(String, Vec<&'static str>)>);

impl Notes {
    /// Takes those of a table.
    pub fn add(&mut self, report: &Report) {
        for note in &report.notes {
            match self.0.iter_mut().find(|(known, _)| known == note) {
                Some((_, tables)) => tables.push(report.title),
                None => self.0.push((note.clone(), vec![report.title])),
            }
        }
    }

    /// What is wrong with the trace, the worst first, then the notes: `Waits: ...`.
    pub(super) fn sentences(self, issues: &[Issue]) -> Vec<String> {
        let issues = by_weight(issues).into_iter().filter(|issue| issue.severity != Severity::Note);
        let issues = issues.map(|issue| format!("{}: {}", issue.severity.name(), issue.message));
        // What several tables have is about the trace, not about one of them.
        let note = |(note, tables): (String, Vec<&str>)| match tables.as_slice() {
            [table] => format!("{table}: {note}"),
            _ => note,
        };
        issues.chain(self.0.into_iter().map(note)).collect()
    }
}
