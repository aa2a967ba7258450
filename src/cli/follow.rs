//! `follow`: new events as they come, or reports over intervals of them.

mod intervals;
mod look;
mod losses;
mod printer;

use std::time::{Duration, Instant};

use super::diagnostics::Diagnostics;
use super::options;
use super::read::Ask;
use super::request::{self, Clock, Output, Request, Task};
use super::sink::Sink;
use super::values::Place;
use super::{Outcome, interrupt, live};
use crate::analysis::ReportRequest;
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::follow::{First, Follower, Halts, How, interrupted};
use crate::query::{Amount, Filters, Key};
use crate::session::{Inputs, Target};

use look::Poller;
use printer::Printer;

/// In front of the place that a debugger's command keeps.
const PLACE: &str = "tx-trace-place: ";

/// What to follow, and how.
struct Follow {
    inputs: Inputs,
    filters: Filters,
    /// What ends it: the filters, and these events.
    until: Option<Filters>,
    clock: Clock,
    names: Names,
    first: First,
    how: How,
    wait: bool,
    limit: Option<Duration>,
    reports: Option<(ReportRequest, Duration)>,
    /// In a debugger: one look, and where it begins.
    once: Option<Place>,
}

fn usage(message: &str) -> Error {
    Error::usage(Code::Usage, message)
}

/// Of what was typed.
pub(super) fn request(typed: options::Follow) -> Result<Request, Error> {
    let options::Follow { count, mut read, columns, from_start, halt_every, wait, until, limit, report, every, after } =
        typed;
    let (first, files) = first(count, std::mem::take(&mut read.words), from_start)?;
    let options::Read { source, filters: which, mut clock, output, .. } = read;
    if which.from.is_some() || which.to.is_some() || which.around.is_some() {
        return Err(usage(
            "--from, --to and --around are positions in a trace that does not change; follow begins now, with N, or --from-start",
        ));
    }
    if source.previous {
        return Err(request::previous_refused());
    }
    if every.is_some() && report.is_empty() {
        return Err(usage("--every needs --report"));
    }
    if !output.format.has_events() && report.is_empty() {
        return Err(request::only_reports(output.format));
    }
    let filters = request::filters(which)?;
    let until = (!until.is_empty()).then(|| ends(&filters, &until)).transpose()?;
    let inputs = request::with_names(request::inputs(source, files)?, &mut clock);
    if inputs.is_stdio() && after.is_none() {
        return Err(usage(
            "in GDB the target is halted while a command runs: `tx-trace follow on` prints at every stop what is new since the last one",
        ));
    }
    let interval = every.unwrap_or(Duration::from_secs(1));
    let follow = Follow {
        inputs,
        filters,
        until,
        names: clock.netx,
        clock: clock.into(),
        first,
        how: halt_every.map_or(How::Running, How::Halting),
        wait,
        limit,
        reports: (!report.is_empty()).then(|| (ReportRequest { names: report, ..ReportRequest::default() }, interval)),
        once: after,
    };
    Ok(Request::new(follow, Output::new(output.format, output.printing).with(columns)))
}

/// What to begin with, by N and `--from-start`; and the files among the words.
fn first(
    count: Option<u64>,
    words: Vec<std::ffi::OsString>,
    from_start: bool,
) -> Result<(First, Vec<std::path::PathBuf>), Error> {
    let mut ask = Ask::Last(Amount::Events(count.unwrap_or(0)));
    let files = request::take_words("follow", &mut ask, count.is_some(), words)?;
    let first = match (ask, from_start) {
        (Ask::Last(Amount::Events(0)), true) => First::All,
        (Ask::Last(Amount::Events(0)), false) => First::Now,
        (Ask::Last(Amount::Events(n)), false) => First::Newest(n),
        (Ask::Last(Amount::Events(_)), true) => {
            return Err(usage("N and --from-start both say where to begin: give one"));
        }
        _ => return Err(usage("follow begins with a number of events: follow 20")),
    };
    Ok((first, files))
}

/// The filters, with these events in place of theirs.
fn ends(filters: &Filters, until: &[String]) -> Result<Filters, Error> {
    let mut ends = Filters { events: Vec::new(), classes: Vec::new(), ..filters.clone() };
    for event in until {
        ends.add(Key::Event, event).map_err(|e| Error::usage(Code::Filter, e.to_string()))?;
    }
    Ok(ends)
}

impl Task for Follow {
    fn inputs(&self) -> Option<&Inputs> {
        Some(&self.inputs)
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        if let Some(place) = &self.once {
            return self.once(place, output, diagnostics);
        }
        // Before the target is reached: opening a FIFO waits for its reader.
        let mut sink = Sink::open(output, None)?;
        let guard = interrupt::Guard::arm();
        let unseen = if self.until.is_some() { Outcome::NotFound } else { Outcome::Done };
        let looker = Poller::new(&self, diagnostics);
        let Some((mut follower, batch)) = looker.begin()? else {
            // There was no trace in time.
            return Ok(if crate::follow::interrupted() { unseen } else { Outcome::NotFound });
        };
        let mut printer = Printer::new(&self, output, &sink, diagnostics);
        let result = looker.follow(&mut follower, batch, &mut printer, &mut sink);
        let (halts, left) = self.release(&mut follower);
        let result = match result {
            Ok(seen) => printer.finish(&follower, &mut sink).map(|()| seen),
            Err(error) => {
                // What was read before is shown.
                drop(printer.write_out(&mut sink));
                Err(error)
            }
        };
        if let Some(left) = left {
            live::say_left(&left, diagnostics);
        }
        say_halts(&halts, diagnostics);
        drop(guard);
        let seen = result?;
        sink.finish()?;
        if output.strict && printer.has_lost() {
            return Ok(Outcome::Failed);
        }
        Ok(if seen { Outcome::Done } else { unseen })
    }
}

impl Follow {
    /// Leaves the target. The last look ends when it is left.
    fn release(&self, follower: &mut Follower) -> (Halts, Option<crate::rsp::LeaveOutcome>) {
        let mut halts = *follower.halts();
        let left = follower.release().map(|mut client| {
            let since = client.halted_by_us().filter(|_| matches!(self.how, How::Halting(_)));
            let left = client.leave();
            halts.end(since);
            left
        });
        (halts, left)
    }

    fn open(&self) -> Result<Target<'static>, Error> {
        let mut target = Target::open(self.inputs.clone())?;
        let until = self.until.iter().flat_map(|f| &f.events);
        target.ask_events(self.filters.events.iter().chain(until).map(|t| t.text.clone()).collect());
        Ok(target)
    }

    /// One look at a target that a debugger holds: what is new since a place, and the place where it ends.
    fn once(&self, place: &Place, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let mut target = self.open()?;
        let options = self.clock.options(&mut target)?;
        let begun = match place {
            Place::Saved(saved) => Follower::resume(target, self.names, options, saved),
            Place::Now => Follower::begin(target, How::Held, self.names, options, self.first),
        };
        let (mut follower, first) = begun.map_err(|(_, error)| error)?;
        let mut more = matches!(place, Place::Saved(_));
        let mut batches = vec![first];
        while more {
            let batch = follower.again()?;
            more = batch.more;
            batches.push(batch);
        }
        let end = follower.save();
        let mut client = follower.release();
        let mut sink = Sink::open(output, client.as_mut())?;
        let mut printer = Printer::new(self, output, &sink, diagnostics);
        if batches.iter().any(|batch| !batch.events.is_empty() || batch.gap.is_some()) {
            for batch in batches {
                printer.begin(&follower, &batch, &mut sink)?;
                printer.print(&follower, batch, &mut sink)?;
            }
            printer.finish(&follower, &mut sink)?;
        }
        sink.finish()?;
        if let Some(client) = client {
            drop(client.leave());
        }
        diagnostics.line(format_args!("{PLACE}{end}"));
        Ok(Outcome::Done)
    }
}

fn say_halts(halts: &Halts, diagnostics: &Diagnostics) {
    if halts.count > 0 {
        diagnostics.say(format_args!(
            "the target was halted {}, {:.1} ms at the longest, {:.1} ms in all",
            if halts.count == 1 { "once".to_owned() } else { format!("{} times", halts.count) },
            halts.longest.as_secs_f64() * 1e3,
            halts.total.as_secs_f64() * 1e3
        ));
    }
}

/// When `--for` ends it.
struct Deadline(Option<Instant>);

impl Deadline {
    fn new(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Also after Ctrl-C.
    fn is_over(&self) -> bool {
        interrupted() || self.0.is_some_and(|end| Instant::now() >= end)
    }
}
