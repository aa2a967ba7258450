//! `explain`: the likely cause of a failure, with its evidence.

use std::io::Write;

use super::commands::Row;
use super::diagnostics::Diagnostics;
use super::monitor::Program;
use super::names::SymbolNames;
use super::read::Ask;
use super::request::{self, Output, Request, Task};
use super::sink::Sink;
use super::{Outcome, live, options, print as printing, threads};
use crate::abi::Width;
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::Machine;
use crate::error::Error;
use crate::explain::{CHECKS, Case, Confidence, Events, Evidence, Explanation, Finding, Source, Trust};
use crate::format::{DecodeOptions, Extent};
use crate::kernel::Kernel;
use crate::output::{Part, Reader, ReportWriter, View, report_writer, write_line};
use crate::session::{CodeMatch, Inputs, Loaded, Target};
use crate::trace::Issue;

/// Findings that are printed without `--all`: what fits a screen.
const MOST: usize = 3;

/// What `explain` is asked.
#[derive(Default)]
pub struct ExplainTask {
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// Hints, and what was checked, too.
    pub all: bool,
    /// A finding that is at least so sure makes the command fail.
    pub fail_on: Option<Confidence>,
}

/// What was read.
struct Found {
    explanation: Explanation,
    loaded: Option<Loaded>,
    issues: Vec<Issue>,
}

/// Of what was typed.
pub fn request(row: &Row, typed: options::Explain) -> Result<Request, Error> {
    let options::Explain { words, all, fail_on, source, output } = typed;
    let inputs = request::inputs(source, request::take_words("explain", &mut Ask::Info, false, words)?)?;
    Ok(Request::new(ExplainTask { inputs, all, fail_on }, Output::of(row, output)?))
}

impl Task for ExplainTask {
    fn inputs(&self) -> Option<&Inputs> {
        Some(&self.inputs)
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let Self { inputs, all, fail_on } = *self;
        live::run(inputs, diagnostics, read, |found, target, client| {
            let sink = Sink::open(output, client)?;
            print(&found, target, (all, fail_on), output, sink, diagnostics)
        })
    }

    fn answer(
        self: Box<Self>,
        _: &Program,
        mut target: Target<'_>,
        output: &Output,
        out: &mut dyn Write,
        diagnostics: &Diagnostics,
    ) -> Result<Outcome, Error> {
        let found = read(&mut target).inspect_err(|_| diagnostics.issues_of_failure(target.issues()))?;
        print(&found, &target, (self.all, self.fail_on), output, Sink::over(out), diagnostics)
    }
}

/// Reads the trace and the kernel, whichever are there, and applies the rules.
fn read(target: &mut Target<'_>) -> Result<Found, Error> {
    let (mut loaded, failed) = match target.load(Extent::All, Names::default(), &DecodeOptions::default()) {
        Ok(loaded) => (Some(loaded), None),
        Err(error) if matches!(error.code, Code::SourceFailed | Code::CoreMismatch) => return Err(error),
        Err(error) => (None, Some(error)),
    };
    let kernel = match &mut loaded {
        Some(loaded) => threads::beside(target, &mut loaded.trace)?,
        None => match target.kernel(None) {
            Ok(kernel) => Some(kernel),
            Err(error) if error.code == Code::SourceFailed => return Err(error),
            // Neither a trace nor a kernel.
            Err(error) => return Err(failed.unwrap_or(error)),
        },
    };
    let events = loaded.as_ref().map(|loaded| Events::of(&loaded.trace, &loaded.catalogue));
    let case = Case { kernel: kernel.as_ref(), events: events.as_ref(), trust: trust(target, kernel.as_ref()) };
    let explanation = Explanation::of(&case);
    let issues = match (&loaded, &kernel) {
        (Some(loaded), _) => loaded.trace.issues.clone(),
        (None, Some(kernel)) => target.issues().iter().chain(&kernel.issues).cloned().collect(),
        (None, None) => Vec::new(),
    };
    Ok(Found { explanation, loaded, issues })
}

fn trust(target: &mut Target<'_>, kernel: Option<&Kernel>) -> Trust {
    Trust {
        was_running: target.read_while_running().is_some(),
        other_build: kernel.is_some_and(|kernel| kernel.other_build)
            || target.code_match().is_some_and(CodeMatch::is_another),
    }
}

fn print(
    found: &Found,
    target: &Target<'_>,
    (all, fail_on): (bool, Option<Confidence>),
    output: &Output,
    mut sink: Sink<'_>,
    diagnostics: &Diagnostics,
) -> Result<Outcome, Error> {
    let format = output.format;
    let findings = &found.explanation.findings;
    let options = sink.table_options(output);
    if format.reader() == Reader::Program {
        for (rank, finding) in (1u64..).zip(findings) {
            write_line(&mut sink, &finding.row(rank))?;
        }
    } else {
        let arm = target.elf().is_some_and(|elf| elf.machine() == Machine::ARM);
        let names = SymbolNames::whole(target, arm);
        let mut writer = report_writer(format, &mut sink, &options, Width::W4, &names);
        if let Some(loaded) = &found.loaded {
            let view =
                View { trace: &loaded.trace, catalogue: &loaded.catalogue, names: &names, source: target.name() };
            writer.begin(&view)?;
        }
        document(&found.explanation, all, &mut *writer)?;
        writer.finish(&[])?;
    }
    sink.finish()?;
    if all {
        diagnostics.issues_of_result(&found.issues);
    }
    let met = fail_on.is_some_and(|least| findings.iter().any(|finding| finding.confidence >= least));
    Ok(printing::outcome(if met { Outcome::NotFound } else { Outcome::Done }, &found.issues, output))
}

fn document(explanation: &Explanation, all: bool, out: &mut dyn ReportWriter) -> Result<(), Error> {
    let shown = |(rank, finding): &(usize, &Finding)| all || finding.confidence > Confidence::Hint || *rank == 1;
    let findings: Vec<(usize, &Finding)> = (1..).zip(&explanation.findings).filter(shown).collect();
    out.part(&Part::Title(&headline(findings.first().map(|(_, finding)| *finding))))?;
    for (rank, finding) in findings.iter().take(if all { usize::MAX } else { MOST }) {
        section(*rank, finding, out)?;
    }
    if all {
        let checks: Vec<String> = CHECKS.iter().map(|check| check.what.to_owned()).collect();
        out.part(&Part::Section("Checked"))?;
        out.part(&Part::Sentences(&checks))?;
    }
    let printed = if all { findings.len() } else { findings.len().min(MOST) };
    let more = explanation.findings.len().saturating_sub(printed);
    let mut last: Vec<String> = explanation.not_checked.iter().map(|what| format!("Not checked: {what}.")).collect();
    if more > 0 {
        last.push(format!("{more} more {}: --all", if more == 1 { "finding or hint" } else { "findings and hints" }));
    }
    if !last.is_empty() {
        out.part(&Part::Section("Not shown"))?;
        out.part(&Part::Sentences(&last))?;
    }
    out.part(&Part::End)?;
    Ok(())
}

/// The first line.
fn headline(first: Option<&Finding>) -> String {
    match first {
        Some(finding) if finding.confidence == Confidence::Hint => {
            format!("No failure is certain; a hint: {}", finding.claim)
        }
        Some(finding) => format!("{}: {}", finding.code.name(), finding.claim),
        None => "Nothing wrong found".to_owned(),
    }
}

fn section(rank: usize, finding: &Finding, out: &mut dyn ReportWriter) -> Result<(), Error> {
    out.part(&Part::Section(&format!("{rank}. {} ({})", finding.code.name(), finding.confidence.name())))?;
    let mut lines = vec![format!("{}.", finding.claim)];
    lines.extend(finding.detractors.iter().map(|against| format!("Against it: {against}.")));
    lines.extend(finding.evidence.iter().map(evidence));
    if !finding.explains.is_empty() {
        lines.push(format!("It explains: {}.", finding.explains.join("; ")));
    }
    lines.push(format!("Next: {}.", finding.next));
    out.part(&Part::Sentences(&lines))?;
    Ok(())
}

fn evidence(evidence: &Evidence) -> String {
    let Evidence { kind, seq, address, text } = evidence;
    let place = match (kind, seq, address) {
        (Source::Event, Some(seq), _) => format!("event {seq}"),
        (_, _, Some(address)) => format!("{address:#x}"),
        _ => "it".to_owned(),
    };
    format!("{place}: {text}")
}
