//! The tally at the end: what went wrong, one line each. Talk, not data.

use std::io::{self, Write};

use super::escape::escape;
use super::styles::{Style, Styles};
use crate::trace::{Issue, Place, Severity};

/// Writes one line an issue, the cause of others and what matters most first: `lost: 3 slots were torn (3 times, first at event 17)`.
///
/// # Errors
/// Where the writer fails.
pub fn write_issues(out: &mut dyn Write, issues: &[Issue], styles: &Styles) -> io::Result<()> {
    for issue in by_weight(issues) {
        let style = match issue.severity {
            Severity::Lost => Style::Error,
            Severity::Inferred => Style::Block,
            Severity::Note => Style::Dim,
        };
        let head = styles.text(style, issue.severity.name());
        writeln!(out, "{head}: {}", escape(&issue_text(issue)))?;
    }
    Ok(())
}

/// Issues in the order in which people read them: what causes others first, then the worst.
#[must_use]
pub fn by_weight(issues: &[Issue]) -> Vec<&Issue> {
    let mut all: Vec<&Issue> = issues.iter().collect();
    all.sort_by_key(|issue| (!issue.is_cause(), std::cmp::Reverse(issue.severity)));
    all
}

/// An issue in a sentence, with how often and where. Hostile: escape before printing.
#[must_use]
pub fn issue_text(issue: &Issue) -> String {
    format!("{}{}", issue.message, aside(issue))
}

/// How often and where, in brackets.
fn aside(issue: &Issue) -> String {
    let mut parts = Vec::new();
    // The sentence often has it already.
    let count = issue.count.to_string();
    let counted = issue.message.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == count);
    if issue.count > 1 && !counted {
        parts.push(format!("{count} times"));
    }
    let first = if issue.count > 1 { "first at" } else { "at" };
    let Place { address, offset, seq } = issue.place;
    let places = [
        seq.map(|n| format!("event {n}")),
        address.map(|a| format!("{a:#x}")).filter(|a| !issue.message.contains(a)),
        offset.map(|o| format!("offset {o:#x}")),
    ];
    let places: Vec<String> = places.into_iter().flatten().collect();
    if !places.is_empty() {
        parts.push(format!("{first} {}", places.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}
