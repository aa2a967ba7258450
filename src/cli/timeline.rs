//! `timeline`: who ran when, drawn in the terminal.

use std::io::Write;

use super::commands::Row;
use super::diagnostics::Diagnostics;
use super::monitor::Program;
use super::names::SymbolNames;
use super::progress::Progress;
use super::read::Ask;
use super::request::{self, Clock, Output, Reads, Request, With};
use super::sink::Sink;
use super::{Outcome, explain, options, print};
use crate::catalogue::Names;
use crate::error::Error;
use crate::explain::Explanation;
use crate::format::Extent;
use crate::mem::remote::Remote;
use crate::output::picture::terminal::{Drawing, Terminal};
use crate::output::{Format, Style, UNLIMITED, View, sentence};
use crate::query::{Filters, Position, Query};
use crate::rsp::Before;
use crate::session::{Inputs, Loaded, Target};
use crate::timeline::{Noted, Plan};

/// Columns where nothing limits them.
const WIDE: usize = 120;
/// So many of the newest events are drawn, where no range was typed.
const SHOWN: u64 = 100;
/// So many are read for that: what threads wait for began with an earlier one.
const READ: u64 = 4096;

/// Whether a picture has what `explain` finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Findings {
    /// No.
    None,
    /// Where no target that ran has to be kept halted for it.
    Free,
    /// In any case.
    All,
}

impl Findings {
    /// In any case where a debugger keeps the target halted.
    pub(super) const fn held(is_held: bool) -> Self {
        if is_held { Self::All } else { Self::Free }
    }
}

/// Which trace a picture is of.
pub struct Subject {
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// Which events.
    pub filters: Filters,
    /// What stamps mean.
    pub clock: Clock,
    /// Whose names.
    pub names: Names,
}

impl Subject {
    /// Of what was typed.
    pub fn of(name: &str, typed: options::Picture) -> Result<Self, Error> {
        let options::Picture { words, source, filters, mut clock } = typed;
        if source.previous {
            return Err(request::previous_refused());
        }
        let files = request::take_words(name, &mut Ask::Info, false, words)?;
        let names = clock.netx;
        let inputs = request::with_names(request::inputs(source, files)?, &mut clock);
        Ok(Self { inputs, filters: request::filters(filters)?, clock: clock.into(), names })
    }

    /// Reads the trace, and what `explain` finds in it, where that is wanted; says where it is left out.
    pub fn read(
        &self,
        target: &mut Target<'_>,
        extent: Extent,
        findings: Findings,
        diagnostics: &Diagnostics,
    ) -> Result<(Loaded, Option<Explanation>), Error> {
        target.ask_events(self.filters.events.iter().map(|t| t.text.clone()).collect());
        let options = self.clock.options(target)?;
        let mut loaded = target.load(extent, self.names, &options)?;
        let is_wanted = match findings {
            Findings::None => false,
            Findings::Free => is_at_rest(target),
            Findings::All => true,
        };
        if !is_wanted && findings != Findings::None {
            diagnostics.say(NOT_MARKED);
        }
        let found = if is_wanted { Some(explain::of_trace(target, &mut loaded)?) } else { None };
        Ok((loaded, found))
    }

    /// True where a range of events was typed.
    fn has_range(&self) -> bool {
        let Filters { from, to, around, .. } = &self.filters;
        from.is_some() || to.is_some() || !around.is_empty()
    }
}

/// Where a target ran until we came, and is to run on.
const NOT_MARKED: &str = "what `explain` finds is not marked: the target ran, and would be halted for longer (`tx-trace explain` reads it, and so does a page: export -o FILE.html)";

/// True where reading more keeps no target from running.
fn is_at_rest(target: &mut Target<'_>) -> bool {
    let is_live = target.is_live();
    let Some(client) = target.remote_mut().map(Remote::client_mut) else { return !is_live };
    !client.runs_while_read() && client.before() != Before::Running
}

/// What `timeline` is asked.
struct TimelineTask {
    subject: Subject,
    ascii: bool,
}

/// Of what was typed.
pub(super) fn request(_: &Row, typed: options::Timeline) -> Result<Request, Error> {
    let options::Timeline { ascii, picture, printing } = typed;
    let subject = Subject::of("timeline", picture)?;
    Ok(Request::new(TimelineTask { subject, ascii }, Output::new(Format::default(), printing)))
}

impl Reads for TimelineTask {
    type Found = (Loaded, Vec<Noted>);

    fn inputs(&self) -> &Inputs {
        &self.subject.inputs
    }

    fn adopt(&mut self, program: &Program) {
        program.adopted(&mut self.subject.clock, &mut self.subject.names);
    }

    fn read(&self, target: &mut Target<'_>, with: With<'_>) -> Result<Self::Found, Error> {
        let extent = if self.subject.filters.is_empty() { Extent::Newest(READ) } else { Extent::All };
        let (loaded, found) = self.subject.read(target, extent, Findings::held(with.is_held), with.diagnostics)?;
        let noted = found.map_or_else(Vec::new, |found| explain::noted(&found, &loaded));
        Ok((loaded, noted))
    }

    fn print(
        &self,
        (loaded, noted): Self::Found,
        target: &Target<'_>,
        mut sink: Sink<'_>,
        With { output, diagnostics, .. }: With<'_>,
    ) -> Result<Outcome, Error> {
        let (Loaded { trace, catalogue, .. }, noted) = (&loaded, &noted);
        let names = SymbolNames::new(target, trace);
        let view = View { trace, catalogue, names: &names, source: target.name() };
        let compile =
            |filters: &Filters| Query::compile_with(filters, trace, catalogue, &|name| names.address_of(name));
        let mut progress = Progress::new("timeline", trace.len().saturating_mul(2));
        let all = compile(&self.subject.filters)?;
        all.notes().iter().for_each(|note| diagnostics.say(note));
        let whole = Plan::of(trace, catalogue, &all, noted, &mut |done| progress.at(done))?;
        let newest = (!self.subject.has_range()).then(|| first_shown(&whole)).flatten();
        let filters =
            Filters { from: newest.map(Position::Seq).or(self.subject.filters.from), ..self.subject.filters.clone() };
        let query = compile(&filters)?;
        let plan = if newest.is_some() { Plan::of(trace, catalogue, &query, noted, &mut |_| {})? } else { whole };
        let is_found = plan.scene().events.is_some();
        if is_found {
            let options = sink.table_options(output);
            let width = if options.width == UNLIMITED { WIDE } else { options.width };
            let drawing = Drawing { width, ascii: self.ascii, styles: options.styles, back: !self.subject.has_range() };
            let done = trace.len();
            if let Some(doubt) = explain::doubt(&trace.issues) {
                writeln!(sink, "{}", sentence(("doubtful", Style::Error), doubt, &drawing.styles, width))?;
            }
            plan.play(&mut Terminal::new(&mut sink, view, drawing), &mut |n| progress.at(done.saturating_add(n)))?;
        } else {
            diagnostics.failed(if trace.is_empty() { "the trace holds no event" } else { "no event is in this range" });
        }
        drop(progress);
        sink.finish()?;
        diagnostics.issues_of_result(&trace.issues);
        let outcome = if is_found { Outcome::Done } else { Outcome::NotFound };
        Ok(print::outcome(outcome, &trace.issues, output))
    }
}

/// The first event that is drawn where no range was typed: the newest events, and the beginning of what goes on at the end.
fn first_shown(plan: &Plan<'_>) -> Option<u64> {
    let scene = plan.scene();
    let (first, last) = scene.events?;
    let open = scene.marks.iter().filter(|m| m.to_seq.is_none() && m.from < m.to).filter_map(|m| m.seq).min();
    let newest = last.saturating_sub(SHOWN);
    let from = open.map_or(newest, |seq| seq.saturating_sub(SHOWN / 4).min(newest));
    Some(from.max(first))
}
