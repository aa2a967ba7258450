//! The tally at the end: what went wrong, one line each. Talk, not data.

use std::io::{self, Write};

use super::escape::escape;
use super::line::wrap;
use super::styles::{Style, Styles};
use crate::trace::{Issue, Place, Severity};

/// Writes one sentence an issue, the cause of others and what matters most first: `lost: 3 slots were torn (3 times, first at
/// event 17)`. No line has more than `width` columns, as far as words allow.
///
/// # Errors
/// Where the writer fails.
pub fn write_issues(out: &mut dyn Write, issues: &[Issue], styles: &Styles, width: usize) -> io::Result<()> {
    for issue in by_weight(issues) {
        let style = match issue.severity {
            Severity::Lost => Style::Error,
            Severity::Inferred => Style::Block,
            Severity::Note => Style::Dim,
        };
        out.write_all(sentence((issue.severity.name(), style), &issue_text(issue), styles, width).as_bytes())?;
    }
    Ok(())
}

/// Issues in the order in which people read them: what causes others first, then the worst.
pub fn by_weight(issues: &[Issue]) -> Vec<&Issue> {
    let mut all: Vec<&Issue> = issues.iter().collect();
    all.sort_by_key(|issue| (!issue.is_cause(), std::cmp::Reverse(issue.severity)));
    all
}

/// `error: no such thing` in lines of at most `width` columns: the text, escaped, is broken between words, and its further
/// lines begin below its first word. A word that is wider has a line of its own.
pub fn sentence((head, style): (&str, Style), text: &str, styles: &Styles, width: usize) -> String {
    let indent = head.len().saturating_add(": ".len());
    let lines = wrap(&escape(text), width.saturating_sub(indent).max(1), 0);
    let text = lines.join(&format!("\n{:indent$}", ""));
    format!("{}: {text}\n", styles.text(style, head))
}

/// An issue in a sentence, with how often and where. Hostile: escape before printing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words_and_indented() {
        let printed =
            |width| sentence(("error", Style::Error), "app.core does not\u{1b}exist", &Styles::default(), width);
        assert_eq!(printed(usize::MAX), "error: app.core does not\\x1bexist\n");
        assert_eq!(printed(20), "error: app.core does\n       not\\x1bexist\n");
        assert_eq!(printed(5), "error: app.core\n       does\n       not\\x1bexist\n");
        let coloured = sentence(("lost", Style::Error), "3 slots were torn", &Styles::new(true), 14);
        assert!(coloured.ends_with(": 3 slots\n      were\n      torn\n"), "{coloured:?}");
    }
}
