//! `follow`: new events as they come, or reports over intervals of them.

mod intervals;
mod printer;

use std::time::{Duration, Instant};

use super::args;
use super::message;
use super::plan::{self, Ask, ClockPlan, Output, Plan, Task};
use super::sink::Sink;
use super::{Outcome, interrupt, live};
use crate::analysis::Wish;
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::follow::{self, First, Follower, Halts, How, News, Saved, interrupted, pause};
use crate::format::DecodeOptions;
use crate::output::escape;
use crate::query::{Amount, Filters, Key};
use crate::rsp::Stop;
use crate::session::{Inputs, Session};

use printer::Printer;

/// How often a target is looked for that is not there.
const AGAIN: Duration = Duration::from_millis(250);
/// In front of the place that a debugger's command keeps.
const PLACE: &str = "tx-trace-place: ";

/// What to follow, and how.
pub struct FollowTask {
    /// Where the bytes come from.
    pub inputs: Inputs,
    filters: Filters,
    /// What ends it: the filters, and these events.
    until: Option<Filters>,
    clock: ClockPlan,
    names: Names,
    first: First,
    how: How,
    wait: bool,
    limit: Option<Duration>,
    reports: Option<(Wish, Duration)>,
    /// In a debugger: one look, from where the one before ended; `None` in it begins now.
    once: Option<Option<Saved>>,
}

/// Resolves what was typed.
pub fn plan(f: args::Follow) -> Result<Plan, Error> {
    let args::Follow { read, from_start, halt_every, wait, until, limit, report, every, after } = f;
    let mut ask = Ask::Last(Amount::Events(0));
    let mut read = read;
    let files = plan::words(&mut ask, std::mem::take(&mut read.words))?;
    let first = match ask {
        Ask::Last(Amount::Events(n)) if n > 0 && !from_start => First::Newest(n),
        Ask::Last(Amount::Events(0)) => {
            if from_start {
                First::All
            } else {
                First::Now
            }
        }
        Ask::Last(Amount::Events(_)) => {
            return Err(Error::usage(Code::Usage, "N and --from-start both say where to begin: give one"));
        }
        _ => return Err(Error::usage(Code::Usage, "follow begins with a number of events: `follow 20`")),
    };
    if read.filters.from.is_some() || read.filters.to.is_some() || read.filters.around.is_some() {
        return Err(Error::usage(
            Code::Usage,
            "--from, --to and --around are places in a trace that stands still; follow begins now, with N, or --from-start",
        ));
    }
    let output = plan::output(read.output)?;
    if read.source.previous {
        return Err(Error::usage(Code::Usage, "--previous goes with last, list and show"));
    }
    let reports = intervals::wish(&report, every.as_deref())?;
    if output.format == args::Format::Md && reports.is_none() {
        return Err(Error::usage(Code::Usage, "--format md is for reports; events come as table, json or csv"));
    }
    let filters = plan::filters(read.filters)?;
    let mut ends = filters.clone();
    (ends.events, ends.classes) = (Vec::new(), Vec::new());
    for event in &until {
        ends.add(Key::Event, event).map_err(|e| Error::usage(Code::Filter, e.to_string()))?;
    }
    let mut inputs = plan::inputs(read.source, files)?;
    inputs.events = std::mem::take(&mut read.clock.user.events);
    inputs.event_enums = plan::enum_names(&read.clock.user.event_enum);
    let once = match after.as_deref() {
        None => None,
        Some("now") => Some(None),
        Some(text) => Some(Some(
            Saved::parse(text)
                .ok_or_else(|| Error::usage(Code::Usage, format!("--after {text}: no place that follow gave")))?,
        )),
    };
    if inputs.is_stdio() && once.is_none() {
        return Err(Error::usage(
            Code::Usage,
            "in GDB the target stands while a command runs: `tx-trace follow on` prints at every stop what is new since the last one",
        ));
    }
    let task = FollowTask {
        inputs,
        filters,
        until: (!until.is_empty()).then_some(ends),
        names: plan::names(&read.clock.netx)?,
        clock: plan::clock(read.clock)?,
        first,
        how: match halt_every {
            Some(text) => How::Halting(plan::time("--halt-every", &text)?),
            None => How::Running,
        },
        wait,
        limit: limit.map(|text| plan::time("--for", &text)).transpose()?,
        reports,
        once,
    };
    Ok(Plan { task: Task::Follow(Box::new(task)), output })
}

/// Trouble that may pass: nobody there yet, or a trace that is not enabled yet.
fn may_pass(error: &Error) -> bool {
    !matches!(
        error.code,
        Code::Usage
            | Code::CannotFollow
            | Code::TargetHalted
            | Code::WouldReset
            | Code::HaltedTooLong
            | Code::BadEndpoint
            | Code::NoSuchSymbol
            | Code::NoSuchEnum
            | Code::Interrupted
            | Code::NotElf
            | Code::File
    ) && !matches!(error.code, Code::NoTraceSymbol | Code::TraceNotBuiltIn | Code::EventsFile | Code::CoreMismatch)
}

/// True where the link itself is gone, and not what lies behind it.
fn is_link(error: &Error) -> bool {
    !error.is_not_found() && !matches!(error.code, Code::Unreadable | Code::HeaderOutsideMemory | Code::HeaderDamaged)
}

/// Runs it.
pub fn run(task: FollowTask, output: &Output) -> Result<Outcome, Error> {
    if task.once.is_some() {
        return once(task, output);
    }
    // Before the target is reached: opening a FIFO waits for its reader.
    let mut sink = Sink::open(output, None)?;
    let guard = interrupt::Guard::arm();
    let end = task.limit.and_then(|limit| Instant::now().checked_add(limit));
    let time_up = || interrupted() || end.is_some_and(|end| Instant::now() >= end);
    let unseen = if task.until.is_some() { Outcome::No } else { Outcome::Done };
    let mut told = false;
    let mut kept = None;
    let mut halts = Halts::default();
    let (mut follower, news) = loop {
        match begin(&task, kept.take()) {
            Ok(begun) => break begun,
            Err((_, error)) if !(interrupted() || task.wait && may_pass(&error)) => return Err(error.into()),
            Err((session, error)) => {
                if !interrupted() && !std::mem::replace(&mut told, true) {
                    message::say(&format!("tx-trace: {}; waiting (--wait)", escape(&error.message)));
                }
                kept = session;
                // A target that stood when we came runs as long as its trace is waited for: it would never enable it.
                match &mut kept {
                    Some(session) if !interrupted() => {
                        if follow::let_run(session, task.how, AGAIN, &mut halts).is_err()
                            && let Some(session) = kept.take()
                        {
                            say_left(*session);
                        }
                    }
                    _ => pause(AGAIN),
                }
                if time_up() {
                    if let Some(session) = kept {
                        say_left(*session);
                    }
                    return Ok(unseen);
                }
            }
        }
    };
    follower.add_to(halts);
    let mut printer = Printer::new(&task, output, &sink);
    let mut result = printer.start(&follower, &news, &mut sink).and_then(|()| printer.news(&follower, news, &mut sink));
    let mut on = true;
    while on && matches!(result, Ok(false)) && !time_up() {
        let step = step(&task, &mut follower, &mut printer, &mut sink, &time_up);
        on = matches!(step, Ok(Step::On));
        result = step.map(|step| step == Step::Seen);
    }
    if matches!(result, Ok(false))
        && let Some(news) = follower.rest()
    {
        result = printer.news(&follower, news, &mut sink);
    }
    let mut halts = *follower.halts();
    let left = follower.release().map(|mut client| {
        // The last look ends when the target is left.
        let since = client.halted_by_us().filter(|_| matches!(task.how, How::Halting(_)));
        let left = client.leave();
        halts.end(since);
        left
    });
    let result = match result {
        Ok(seen) => printer.finish(&follower, &mut sink).map(|()| seen),
        Err(failure) => {
            // What was read before is shown.
            drop(printer.write_out(&mut sink));
            Err(failure)
        }
    };
    if let Some(left) = left {
        live::say_left(&left);
    }
    if halts.count > 0 {
        message::say(&format!(
            "tx-trace: the target was halted {}, {:.1} ms at the longest, {:.1} ms in all",
            if halts.count == 1 { "once".to_owned() } else { format!("{} times", halts.count) },
            halts.longest.as_secs_f64() * 1e3,
            halts.total.as_secs_f64() * 1e3
        ));
    }
    drop(guard);
    let seen = result?;
    sink.finish()?;
    if output.strict && printer.has_lost() {
        return Ok(Outcome::Failed);
    }
    Ok(if seen { Outcome::Done } else { unseen })
}

/// How a look ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Another one may follow.
    On,
    /// The event was seen that was waited for.
    Seen,
    /// The target does not run any more.
    Over,
}

/// Writes out what the look before found, waits, looks, and prints. The target runs while it is written out: whoever reads
/// may take long.
fn step(
    task: &FollowTask,
    follower: &mut Follower,
    printer: &mut Printer<'_>,
    sink: &mut Sink<'_>,
    time_up: &dyn Fn() -> bool,
) -> Result<Step, Error> {
    let runs = follower.let_run();
    printer.write_out(sink)?;
    let looked = runs.and_then(|()| follower.wait()).and_then(|stop| Ok((stop, follower.poll()?)));
    let (stop, mut news) = match looked {
        Ok(looked) => looked,
        Err(_) if interrupted() => return Ok(Step::On),
        Err(error) => match recover(task, follower, error, time_up)? {
            Some(news) => (None, news),
            None => return Ok(Step::On),
        },
    };
    loop {
        let more = news.more;
        if printer.news(follower, news, sink)? {
            return Ok(Step::Seen);
        }
        if !more || time_up() {
            break;
        }
        news = match follower.poll() {
            Ok(news) => news,
            Err(_) if interrupted() => return Ok(Step::On),
            Err(error) => match recover(task, follower, error, time_up)? {
                Some(news) => news,
                None => return Ok(Step::On),
            },
        };
    }
    printer.tick(follower, sink)?;
    if let Some(stop) = stop {
        message::say(&match stop {
            Stop::Ended(how) => format!("tx-trace: the program has ended ({how})"),
            Stop::Itself(signal, how) => format!("tx-trace: the target stopped by itself, signal {signal} ({how})"),
            Stop::Asked => "tx-trace: the target was stopped".to_owned(),
        });
        return Ok(Step::Over);
    }
    Ok(Step::On)
}

/// A target that is gone, or whose trace is another one now: with `--wait` it is waited for. `None` where the time is up.
fn recover(
    task: &FollowTask,
    follower: &mut Follower,
    error: Error,
    time_up: &dyn Fn() -> bool,
) -> Result<Option<News>, Error> {
    // A trace that was enabled elsewhere, or larger, needs no waiting for.
    if error.code == Code::TraceChanged
        && let Ok(news) = follower.restart()
    {
        return Ok(Some(news));
    }
    if !task.wait || !may_pass(&error) {
        return Err(error.into());
    }
    message::say(&format!("tx-trace: {}; waiting (--wait)", escape(&error.message)));
    let mut linked = !is_link(&error);
    loop {
        // A target that is halted for each look would never enable its trace again.
        match linked.then(|| follower.run_for(AGAIN)) {
            None => pause(AGAIN),
            Some(Ok(())) => {}
            Some(Err(_)) if interrupted() => return Ok(None),
            Some(Err(error)) if is_link(&error) && may_pass(&error) => linked = false,
            Some(Err(error)) => return Err(error.into()),
        }
        if time_up() {
            return Ok(None);
        }
        if !linked {
            match follower.reconnect() {
                Ok(()) => {}
                Err(error) if may_pass(&error) => continue,
                // It is reached, and is not to be set running: nothing changes by trying again.
                Err(error) => return Err(error.into()),
            }
        }
        match follower.again() {
            Ok(news) => {
                message::say("tx-trace: the trace is there again");
                return Ok(Some(news));
            }
            Err(error) => linked = !is_link(&error),
        }
    }
}

/// A session in which there is nothing to follow yet, and what is wrong.
type NotYet = (Option<Box<Session<'static>>>, Error);

/// Opens the source, or takes the one that was opened, and begins. Where that fails, a target that was reached is kept if
/// its trace may still come, else left in order.
fn begin(task: &FollowTask, kept: Option<Box<Session<'static>>>) -> Result<(Follower, News), NotYet> {
    let keep = |session: Box<Session<'static>>, error: Error| {
        if task.wait && may_pass(&error) && !is_link(&error) {
            return (Some(session), error);
        }
        (None, leave(*session, error))
    };
    let mut session = match kept {
        Some(session) => session,
        None => {
            let mut session = Session::open(task.inputs.clone()).map_err(|error| (None, error))?;
            session.ask_events(asked(task));
            Box::new(session)
        }
    };
    let options = match options(task, &mut session) {
        Ok(options) => options,
        Err(error) => return Err(keep(session, error)),
    };
    Follower::begin(*session, task.how, task.names, options, task.first)
        .map_err(|(session, error)| keep(session, error))
}

/// Names that the filters ask for.
fn asked(task: &FollowTask) -> Vec<String> {
    let until = task.until.iter().flat_map(|f| &f.events);
    task.filters.events.iter().chain(until).map(|t| t.text.clone()).collect()
}

fn options(task: &FollowTask, session: &mut Session<'static>) -> Result<DecodeOptions, Error> {
    let mut options = task.clock.options;
    if let Some(symbol) = &task.clock.hz_symbol {
        #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
        let hz = session.variable(symbol)? as f64;
        options.hz = Some(hz).filter(|hz| *hz > 0.0);
    }
    Ok(options)
}

fn leave(session: Session<'static>, error: Error) -> Error {
    say_left(session);
    error
}

/// Leaves the target before anything was followed, and says how.
fn say_left(mut session: Session<'static>) {
    if let Some(client) = session.disconnect() {
        live::leave(client);
    }
}

/// One look at a target that a debugger holds: what is new since a place, and the place where it ends.
fn once(task: FollowTask, output: &Output) -> Result<Outcome, Error> {
    let mut session = Session::open(task.inputs.clone())?;
    session.ask_events(asked(&task));
    let options = options(&task, &mut session)?;
    let begun = match &task.once {
        Some(Some(saved)) => Follower::resume(session, task.names, options, saved),
        _ => Follower::begin(session, How::Held, task.names, options, task.first),
    };
    let (mut follower, first) = begun.map_err(|(_, error)| error)?;
    let mut all = vec![first];
    if matches!(task.once, Some(Some(_))) {
        loop {
            let news = follower.again()?;
            let more = news.more;
            all.push(news);
            if !more {
                break;
            }
        }
    }
    let place = follower.save();
    let mut client = follower.release();
    let mut sink = Sink::open(output, client.as_mut())?;
    let mut printer = Printer::new(&task, output, &sink);
    let shown = all.iter().any(|news| !news.events.is_empty() || news.gap.is_some());
    if shown {
        for news in all {
            printer.begin_with(&follower, &news, &mut sink)?;
            printer.news(&follower, news, &mut sink)?;
        }
        printer.finish(&follower, &mut sink)?;
    }
    sink.finish()?;
    if let Some(client) = client {
        drop(client.leave());
    }
    message::say(&format!("{PLACE}{place}"));
    Ok(Outcome::Done)
}
