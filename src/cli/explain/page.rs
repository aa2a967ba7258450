//! How `explain` prints what it found.

use crate::abi::Width;
use crate::error::Error;
use crate::explain::{Checked, Confidence, Evidence, Explanation, Finding, Source};
use crate::output::{Part, ReportWriter, write_line};
use crate::report::{Cell, Column, Kind, Report};

/// Without `--all`: pieces of evidence, symptoms, further findings. With these the answer fits a screen.
const EVIDENCE: usize = 8;
const SYMPTOMS: usize = 3;
const FURTHER: usize = 3;

/// The findings as lines of JSON.
pub fn lines(explanation: &Explanation, word: Width, out: &mut dyn std::io::Write) -> Result<(), Error> {
    for (rank, finding) in (1u64..).zip(&explanation.findings) {
        write_line(out, &finding.row(rank, word))?;
    }
    Ok(())
}

/// The findings as rows of a table, for programs.
pub fn table(explanation: &Explanation) -> Report {
    let text = |text: &str| Cell::some_text(Some(text));
    let all = |finding: &Finding| finding.evidence.iter().map(evidence).collect::<Vec<_>>().join("; ");
    Report::table(
        "finding",
        "Findings",
        (1u64..).zip(&explanation.findings),
        &[
            (Column::new("rank", Kind::Count), &|(rank, _)| Cell::Count(*rank)),
            (Column::new("code", Kind::Text), &|(_, finding)| text(finding.code.name())),
            (Column::new("claim", Kind::Text), &|(_, finding)| text(&finding.claim)),
            (Column::new("confidence", Kind::Text), &|(_, finding)| text(finding.confidence.name())),
            (Column::new("detractors", Kind::Text), &|(_, finding)| text(&finding.detractors.join("; "))),
            (Column::new("evidence", Kind::Text), &|(_, finding)| text(&all(finding))),
            (Column::new("explains", Kind::Text), &|(_, finding)| text(&finding.explains.join("; "))),
            (Column::new("next", Kind::Text), &|(_, finding)| text(&finding.next)),
        ],
    )
}

/// The answer for people: the headline, what makes all of it doubtful, what it rests on, with a finding that it names, further
/// findings in a line each.
/// `all`: every finding in full, and what was checked.
pub(super) fn document(
    explanation: &Explanation,
    doubts: &[&str],
    all: bool,
    out: &mut dyn ReportWriter,
) -> Result<(), Error> {
    let findings = &explanation.findings;
    out.part(&Part::Title(&headline(explanation)))?;
    if !doubts.is_empty() {
        out.part(&Part::Paragraph(&format!("Doubtful: {}.", doubts.join("; "))))?;
    }
    let named = if findings.get(1).is_some_and(|second| second.is_reason) { 2 } else { 1 };
    let in_full = if all { findings.len() } else { findings.len().min(named) };
    let (first, rest) = findings.split_at_checked(in_full).unwrap_or_default();
    for (rank, finding) in first.iter().enumerate() {
        let claim = if rank == 0 { String::new() } else { format!(": {}", finding.claim) };
        out.part(&Part::Section(&format!("{} ({}){claim}", finding.code.name(), finding.confidence.name())))?;
        out.part(&Part::Sentences(&sentences(finding, all)))?;
    }
    let shown: Vec<String> = rest
        .iter()
        .filter(|finding| finding.confidence > Confidence::Hint)
        .take(FURTHER)
        .map(|finding| format!("{} ({}): {}.", finding.code.name(), finding.confidence.name(), finding.claim))
        .collect();
    if findings.is_empty() && !explanation.state.is_empty() {
        out.part(&Part::Section("The system at this moment"))?;
        out.part(&Part::Sentences(&explanation.state))?;
    }
    if !shown.is_empty() {
        out.part(&Part::Section("Also"))?;
        out.part(&Part::Sentences(&shown))?;
    }
    if all {
        let checks: Vec<String> = explanation.checked.iter().map(checked).collect();
        out.part(&Part::Section("Checked, in this order, with what was found"))?;
        out.part(&Part::Sentences(&checks))?;
    }
    let more = rest.len().saturating_sub(shown.len());
    let mut last = Vec::new();
    if more > 0 {
        last.push(hidden(rest, more));
    }
    if !explanation.not_checked.is_empty() {
        last.push(format!("Not checked: {}.", explanation.not_checked.join("; ")));
    }
    if !last.is_empty() {
        out.part(&Part::Paragraph(&last.join(" ")))?;
    }
    out.part(&Part::End)?;
    Ok(())
}

/// `faults: bus-fault`.
fn checked(check: &Checked) -> String {
    let found = check.found.iter().map(|code| code.name().to_owned());
    let symptoms = check.symptoms.iter().map(|code| format!("{} (a symptom of another finding)", code.name()));
    let found: Vec<String> = found.chain(symptoms).collect();
    let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
    format!("{}{found}", check.what)
}

/// What only `--all` shows. A fault that may have come is named: it would be the cause of all else.
fn hidden(rest: &[Finding], more: usize) -> String {
    let fault = rest.iter().find(|finding| finding.confidence == Confidence::Hint && finding.code.is_fault());
    let what = if more == 1 { "finding or hint" } else { "findings and hints" };
    match fault {
        Some(fault) => {
            let others = more.saturating_sub(1);
            let others = if others == 0 { String::new() } else { format!(", and {others} more") };
            format!("Hint: {}: {}{others}: --all.", fault.code.name(), fault.claim)
        }
        None => format!("{more} more {what}: --all."),
    }
}

/// The first line.
pub fn headline(explanation: &Explanation) -> String {
    match explanation.findings.first() {
        Some(finding) if finding.confidence == Confidence::Hint => {
            format!("Possible cause, not certain: {}: {}", finding.code.name(), finding.claim)
        }
        Some(finding) => format!("{}: {}", finding.code.name(), finding.claim),
        None if explanation.has_kernel => "Nothing wrong found".to_owned(),
        None => "Nothing wrong found, but threads, waits and stacks were not checked".to_owned(),
    }
}

/// What speaks for it and against it, and what to do next. The evidence may be long: without `all` its beginning.
fn sentences(finding: &Finding, all: bool) -> Vec<String> {
    let [pieces, symptoms] = if all { [usize::MAX; 2] } else { [EVIDENCE, SYMPTOMS] };
    let more = |of: usize, most: usize| match of.saturating_sub(most) {
        0 => String::new(),
        more => format!(" ({more} more: --all)"),
    };
    let mut lines: Vec<String> = finding.evidence.iter().take(pieces).map(evidence).collect();
    if let Some(last) = lines.last_mut() {
        last.push_str(&more(finding.evidence.len(), pieces));
    }
    if !finding.explains.is_empty() {
        let some: Vec<&str> = finding.explains.iter().take(symptoms).map(String::as_str).collect();
        lines.push(format!("It explains: {}{}.", some.join("; "), more(finding.explains.len(), symptoms)));
    }
    if !finding.detractors.is_empty() {
        lines.push(format!("Against it: {}.", finding.detractors.join("; ")));
    }
    lines.push(format!("Next: {}.", finding.next));
    lines
}

/// `event 12: ...`, `0x20001234 (bus_mutex): ...`, `cfsr 0x8200: ...`.
fn evidence(evidence: &Evidence) -> String {
    let Evidence { kind, seq, address, symbol, value, text } = evidence;
    let name = symbol.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
    match (kind, seq, address, symbol) {
        (Source::Event, Some(seq), _, _) => format!("event {seq}: {text}"),
        (Source::Register, _, _, Some(register)) => match value {
            Some(value) => format!("{register} {value:#x}: {text}"),
            None => format!("{register}: {text}"),
        },
        (_, _, Some(address), _) => format!("{address:#x}{name}: {text}"),
        _ => text.clone(),
    }
}
