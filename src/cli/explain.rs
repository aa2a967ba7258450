//! `explain`: the likely cause of a failure, with its evidence.

pub mod page;

pub use page::headline;

use super::commands::Row;
use super::names::SymbolNames;
use super::read::Ask;
use super::request::{self, Output, Reads, Request, With};
use super::sink::Sink;
use super::{Outcome, options, print as printing, threads};
use crate::abi::Width;
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::Machine;
use crate::error::Error;
use crate::explain::{Before, Case, Confidence, Cpus, Events, Explanation, Look, Trust};
use crate::format::{DecodeOptions, Extent};
use crate::kernel::Kernel;
use crate::output::{Reader, View, report_writer};
use crate::session::{CodeMatch, Inputs, Loaded, Target};
use crate::timeline::Noted;
use crate::trace::{Issue, Severity};

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
pub struct Found {
    explanation: Explanation,
    loaded: Option<Loaded>,
    /// Width of an address.
    word: Width,
    issues: Vec<Issue>,
    /// Why there is no trace.
    no_trace: Option<Error>,
    /// Why the kernel could not be read, where it should be in this memory.
    no_kernel: Option<Error>,
}

/// Of what was typed.
pub(super) fn request(row: &Row, typed: options::Explain) -> Result<Request, Error> {
    let options::Explain { words, all, fail_on, source, output } = typed;
    let inputs = request::inputs(source, request::take_words("explain", &mut Ask::Info, false, words)?)?;
    Ok(Request::new(ExplainTask { inputs, all, fail_on }, Output::of(row, output)?))
}

impl Reads for ExplainTask {
    type Found = Found;

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    fn read(&self, target: &mut Target<'_>, _: With<'_>) -> Result<Found, Error> {
        read(target)
    }

    fn print(&self, found: Found, target: &Target<'_>, sink: Sink<'_>, with: With<'_>) -> Result<Outcome, Error> {
        print(&found, target, self, sink, with)
    }
}

/// Reads the trace and the kernel, whichever are there, and applies the rules.
fn read(target: &mut Target<'_>) -> Result<Found, Error> {
    let (mut loaded, failed) = match target.load(Extent::All, Names::default(), &DecodeOptions::default()) {
        Ok(loaded) => (Some(loaded), None),
        Err(error) if matches!(error.code, Code::SourceFailed | Code::CoreMismatch) => return Err(error),
        Err(error) => (None, Some(error)),
    };
    let read = match &mut loaded {
        Some(loaded) => threads::try_beside(target, &mut loaded.trace),
        None => target.kernel(None),
    };
    let (kernel, no_kernel) = match read {
        Ok(kernel) => (Some(kernel), None),
        Err(error) if error.code == Code::SourceFailed => return Err(error),
        // A trace alone, or a program that has no kernel or no names: nothing is missing.
        Err(error) => (None, Some(error).filter(|error| error.code != Code::NoKernelSymbol)),
    };
    let explanation = explanation(target, loaded.as_ref(), kernel.as_ref())?;
    // Neither a trace nor a kernel: a fault before the kernel starts is shown by registers alone.
    let no_trace = match failed {
        Some(error) if kernel.is_none() && explanation.findings.is_empty() => {
            let has_no_trace = error.code == Code::TraceNotBuiltIn;
            return Err(no_kernel.filter(|_| has_no_trace).unwrap_or(error));
        }
        failed => failed,
    };
    let issues = match (&loaded, &kernel) {
        (Some(loaded), _) => loaded.trace.issues.clone(),
        (None, Some(kernel)) => {
            let other = target.code_match().filter(|code| code.is_another()).and_then(CodeMatch::issue);
            other.into_iter().chain(target.issues().iter().chain(&kernel.issues).cloned()).collect()
        }
        (None, None) => Vec::new(),
    };
    let word = match (&kernel, &loaded) {
        (Some(kernel), _) => kernel.layout.shape.pointer,
        (None, Some(loaded)) => loaded.trace.about.word,
        (None, None) => Width::W4,
    };
    Ok(Found { explanation, loaded, word, issues, no_trace, no_kernel })
}

/// Applies the rules to what was read.
pub(super) fn explanation(
    target: &mut Target<'_>,
    loaded: Option<&Loaded>,
    kernel: Option<&Kernel>,
) -> Result<Explanation, Error> {
    let events = loaded.map(|loaded| Events::of(&loaded.trace, &loaded.catalogue)).transpose()?;
    with_events(target, loaded, kernel, events.as_ref())
}

/// The same where somebody has looked at the events.
pub(super) fn with_events(
    target: &mut Target<'_>,
    loaded: Option<&Loaded>,
    kernel: Option<&Kernel>,
    events: Option<&Events>,
) -> Result<Explanation, Error> {
    let before = before(target, loaded);
    let cpus = Cpus::read(target, kernel)?;
    let trust = trust(target, kernel, loaded);
    let cpus = if trust.other_build { cpus.without_program() } else { cpus };
    let (memory, symbols) = target.parts();
    let look = Look::new(memory, symbols);
    Ok(Explanation::of(&Case::new(kernel, Some(&cpus), events, trust, &look).after(before.as_ref())))
}

/// What the buffer of the trace still has of the run before. A target that runs writes over it.
fn before(target: &mut Target<'_>, loaded: Option<&Loaded>) -> Option<Before> {
    let may_be = loaded.is_some_and(|loaded| Before::may_be_in(&loaded.trace)) && target.read_while_running().is_none();
    if !may_be {
        return None;
    }
    let options = DecodeOptions { previous: true, ..DecodeOptions::default() };
    let loaded = target.load(Extent::All, Names::default(), &options).ok()?;
    Before::of(&loaded.trace, &loaded.catalogue)
}

/// What the rules find in a trace and the kernel beside it. The trace's issues stay as they are.
pub(super) fn of_trace(target: &mut Target<'_>, loaded: &mut Loaded) -> Result<Explanation, Error> {
    let issues = loaded.trace.issues.clone();
    let kernel = threads::beside(target, &mut loaded.trace)?;
    loaded.trace.issues = issues;
    explanation(target, Some(loaded), kernel.as_ref())
}

/// What makes all of an explanation doubtful: names and places are those of another program.
pub(super) fn doubt(issues: &[Issue]) -> Option<&str> {
    issues.iter().find(|issue| issue.code == Code::ElfMismatch).map(|issue| issue.message.as_str())
}

impl Found {
    /// The same, and that the kernel is not where the ELF says.
    fn doubts(&self) -> Vec<&str> {
        let of_another = doubt(&self.issues);
        // That the ELF does not match is said once.
        let of_kernel =
            self.no_kernel.as_ref().filter(|error| of_another.is_none_or(|said| !error.message.contains(said)));
        of_another.into_iter().chain(of_kernel.map(|error| error.message.as_str())).collect()
    }
}

/// What a picture marks: the findings that are more than hints.
pub fn noted(explanation: &Explanation, loaded: &Loaded) -> Vec<Noted> {
    let mask = loaded.trace.about.word.max();
    let sure = explanation.findings.iter().filter(|finding| finding.confidence > Confidence::Hint);
    sure.map(|finding| Noted {
        code: finding.code,
        claim: finding.claim.clone(),
        events: finding.evidence.iter().filter_map(|evidence| evidence.seq).collect(),
        threads: finding.threads.iter().map(|thread| thread & mask).collect(),
    })
    .collect()
}

fn trust(target: &mut Target<'_>, kernel: Option<&Kernel>, loaded: Option<&Loaded>) -> Trust {
    Trust {
        without_lines: target.without_lines(),
        has_callers: target.has_unwind_information(),
        has_wrapped: loaded.is_some_and(|loaded| loaded.trace.about.wrapped),
        was_running: target.read_while_running().is_some(),
        misplaced: kernel.is_none() && target.is_trace_elsewhere(),
        other_build: kernel.is_some_and(|kernel| kernel.other_build)
            || target.code_match().is_some_and(CodeMatch::is_another),
    }
}

fn print(
    found: &Found,
    target: &Target<'_>,
    &ExplainTask { all, fail_on, .. }: &ExplainTask,
    mut sink: Sink<'_>,
    With { output, diagnostics, .. }: With<'_>,
) -> Result<Outcome, Error> {
    let format = output.format;
    let options = sink.table_options(output);
    let arm = target.elf().is_some_and(|elf| elf.machine() == Machine::ARM);
    let names = SymbolNames::whole(target, arm);
    let view = found.loaded.as_ref().map(|loaded| View {
        trace: &loaded.trace,
        catalogue: &loaded.catalogue,
        names: &names,
        source: target.name(),
    });
    let mut out = report_writer(format, &mut sink, &options, found.word, &names);
    view.iter().try_for_each(|view| out.begin(view))?;
    if format.has_issues() {
        // Its lines of findings are not those of a report.
        out.flush()?;
        drop(out);
        page::lines(&found.explanation, found.word, &mut sink)?;
        out = report_writer(format, &mut sink, &options, found.word, &names);
    } else if format.reader() == Reader::Program {
        out.report(&page::table(&found.explanation))?;
    } else {
        page::document(&found.explanation, &found.doubts(), all, &mut *out)?;
    }
    let mut issues = found.issues.clone();
    if format.reader() == Reader::Program {
        issues.extend(found.no_kernel.as_ref().map(|error| {
            Issue::new(Code::KernelUnreadable, format!("threads, waits and stacks were not checked: {}", error.message))
        }));
    }
    out.finish(&issues)?;
    drop(out);
    sink.finish()?;
    if !format.has_issues() {
        // The page begins with the doubt; notes change nothing of what was found.
        let is_new = |issue: &&Issue| {
            let is_said = issue.code == Code::ElfMismatch && format.reader() != Reader::Program;
            !is_said && (all || issue.severity != Severity::Note)
        };
        diagnostics.issues_of_result(&issues.iter().filter(is_new).cloned().collect::<Vec<_>>());
    }
    let is_met = |least| found.explanation.findings.iter().any(|finding| finding.confidence >= least);
    // A program that was built without a trace has none to lose: the page says what could not be checked. A script that asks for a
    // failure is to know of it.
    let is_lost = |error: &Error| error.code != Code::TraceNotBuiltIn || fail_on.is_some();
    let outcome = match found.no_kernel.as_ref().or(found.no_trace.as_ref()) {
        // That nothing was found says little where half of what it rests on is missing.
        Some(error) if is_lost(error) && !is_met(fail_on.unwrap_or(Confidence::Hint)) => diagnostics.error(error),
        _ if fail_on.is_some_and(is_met) => Outcome::NotFound,
        // Nor where all of it is doubtful.
        _ if found.explanation.findings.is_empty() && doubt(&found.issues).is_some() => Outcome::NotFound,
        _ => Outcome::Done,
    };
    Ok(printing::outcome(outcome, &issues, output))
}
