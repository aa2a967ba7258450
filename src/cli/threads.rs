//! `threads`: the kernel's objects, read from memory.

use super::Outcome;
use super::backtraces::{Stacks, Wanted};
use super::commands::Row;
use super::crash::Places;
use super::names::SymbolNames;
use super::read::Ask;
use super::request::{self, Output, Reads, Request, With};
use super::sink::Sink;
use super::{options, print as printing};
use crate::catalogue::Names;
use crate::code::Code;
use crate::cpu::Architecture;
use crate::elf::Machine;
use crate::error::Error;
use crate::format::{DecodeOptions, Extent};
use crate::kernel::{self, Detail, Kernel};
use crate::output::{InMemory, Reader, View, report_writer};
use crate::session::{CodeMatch, Inputs, Loaded, Target};
use crate::trace::{Issue, Trace};

/// The format of traces of the one kernel whose threads are read.
const THREADX: &str = "threadx";

/// What `threads` is asked.
#[derive(Default)]
pub struct ThreadsTask {
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// All objects below the threads, not just those that matter.
    pub all: bool,
    /// Which backtraces.
    pub backtraces: Wanted,
}

/// A kernel, with the trace beside it where there is one.
pub struct Found {
    /// The kernel.
    pub kernel: Kernel,
    loaded: Option<Loaded>,
    /// What went wrong on the way.
    pub issues: Vec<Issue>,
}

/// Of what was typed.
pub(super) fn request(row: &Row, typed: options::Threads) -> Result<Request, Error> {
    let options::Threads { words, all, bt, source, output } = typed;
    let inputs = request::inputs(source, request::take_words("threads", &mut Ask::Info, false, words)?)?;
    Ok(Request::new(ThreadsTask { inputs, all, backtraces: Wanted::of(bt) }, Output::of(row, output)?))
}

impl Reads for ThreadsTask {
    type Found = (Found, Option<Stacks>);

    fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Reads the kernel and the stacks of its threads.
    fn read(&self, target: &mut Target<'_>, _: With<'_>) -> Result<Self::Found, Error> {
        let found = find(target)?;
        let stacks = Stacks::read(&found.kernel, target, &self.backtraces)?;
        Ok((found, stacks))
    }

    fn print(
        &self,
        (mut found, stacks): Self::Found,
        target: &Target<'_>,
        mut sink: Sink<'_>,
        With { output, diagnostics, .. }: With<'_>,
    ) -> Result<Outcome, Error> {
        let arm = target.elf().map(|e| e.machine()).or(found.kernel.processor.map(Architecture::machine));
        let arm = arm == Some(Machine::ARM);
        let names = SymbolNames::whole(target, arm);
        let options = sink.table_options(output);
        let format = output.format;
        let detail = match format.reader() {
            Reader::Terminal => Detail::Summary { width: options.width, all: self.all },
            Reader::Page => Detail::Summary { width: usize::MAX, all: self.all },
            Reader::Program => Detail::Full,
        };
        let named = stacks.as_ref().map(|stacks| stacks.name(&mut found.kernel, target));
        let mut reports = kernel::reports(&found.kernel, detail);
        reports.splice(1..1, Places::of(&found.kernel, target).reports(&found.kernel, format.reader()));
        reports.extend(named.and_then(|named| named.report(&found.kernel, format.reader())));
        let word = found.kernel.layout.shape.pointer;
        let mut writer = report_writer(format, &mut sink, &options, word, &names);
        if let Some(loaded) = &found.loaded {
            let view =
                View { trace: &loaded.trace, catalogue: &loaded.catalogue, names: &names, source: target.name() };
            writer.begin(&view)?;
        }
        for report in &reports {
            writer.report(report)?;
        }
        writer.finish(&found.issues)?;
        drop(writer);
        sink.finish()?;
        if !format.has_issues() {
            diagnostics.issues_of_result(&found.issues);
        }
        Ok(printing::outcome(Outcome::Done, &found.issues, output))
    }
}

/// Reads the kernel, and what of a trace names its objects.
pub(super) fn find(target: &mut Target<'_>) -> Result<Found, Error> {
    // The registry has names that memory may lack: a dump of RAM is without the constants in flash.
    let loaded = match target.load(Extent::Nothing, Names::default(), &DecodeOptions::default()) {
        Ok(loaded) => Some(loaded),
        Err(error) if matches!(error.code, Code::SourceFailed | Code::CoreMismatch) => return Err(error),
        Err(_) => None,
    };
    let trace = loaded.as_ref().map(|loaded| &loaded.trace);
    let kernel = target.kernel(trace).map_err(|error| of_another_kernel(error, trace))?;
    let mut issues = match &loaded {
        Some(loaded) => loaded.trace.issues.clone(),
        None => target.issues().to_vec(),
    };
    issues.extend(target.read_while_running().filter(|_| loaded.is_none()));
    let live = target.is_live();
    issues.extend(target.code_match().filter(|_| live).and_then(CodeMatch::issue));
    issues.extend(kernel.issues.iter().cloned());
    Ok(Found { kernel, loaded, issues })
}

/// An error about a kernel that is not found, where the trace shows that it is not ThreadX.
fn of_another_kernel(error: Error, trace: Option<&Trace>) -> Error {
    match trace.map(|trace| trace.about.format) {
        Some(format) if format != THREADX && error.code == Code::NoKernelSymbol => Error::failed(
            error.code,
            format!("the trace is of {}, and only ThreadX's threads are read from memory", format.to_uppercase()),
            "`profile`, `blocked` and `latency` show the threads by their events",
        ),
        _ => error,
    }
}

/// The kernel in memory, beside a trace that was read; what went wrong there is added to the trace's issues. `None` where
/// no kernel can be read.
pub(super) fn beside(target: &mut Target<'_>, trace: &mut Trace) -> Result<Option<Kernel>, Error> {
    match try_beside(target, trace) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(error) if error.code == Code::SourceFailed => Err(error),
        Err(_) => Ok(None),
    }
}

/// The same, or why no kernel can be read.
pub(super) fn try_beside(target: &mut Target<'_>, trace: &mut Trace) -> Result<Kernel, Error> {
    let kernel = target.kernel(Some(trace))?;
    let live = target.is_live();
    trace.issues.extend(target.code_match().filter(|_| live).and_then(CodeMatch::issue));
    trace.issues.extend(kernel.issues.iter().cloned());
    Ok(kernel)
}

/// The state of the kernel's objects in memory, to be put beside the registry; nothing where no kernel can be read.
pub(super) fn in_memory(target: &mut Target<'_>, trace: &mut Trace) -> Result<Vec<InMemory>, Error> {
    let kernel = match target.objects(trace) {
        Ok(kernel) => kernel,
        Err(error) if error.code == Code::SourceFailed => return Err(error),
        Err(_) => return Ok(Vec::new()),
    };
    trace.issues.extend(kernel.issues.iter().filter(|i| i.code.name().starts_with("kernel-")).cloned());
    let mask = trace.about.word.max();
    let threads = kernel.threads.iter().map(|t| InMemory {
        address: t.address & mask,
        object_type: "thread".to_owned(),
        name: t.name.clone(),
        state: kernel.doing(t),
    });
    let others = kernel.objects.iter().map(|o| InMemory {
        address: o.address & mask,
        object_type: o.kind.name().replace(' ', "_"),
        name: o.name.clone(),
        state: kernel.state(o),
    });
    Ok(threads.chain(others).collect())
}
