//! Looks at the target again and again, and waits for one that is not there.

use std::time::Duration;

use super::super::diagnostics::Diagnostics;
use super::super::live;
use super::super::sink::Sink;
use super::printer::Printer;
use super::{Deadline, Follow};
use crate::code::Code;
use crate::error::Error;
use crate::follow::{self, Follower, Halts, Update, Waited, interrupted, pause};
use crate::rsp::Stop;
use crate::session::Target;

/// How often a target that is not there is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// A target on which there is nothing to follow yet, and what is wrong.
type NotYet = (Option<Box<Target<'static>>>, Error);

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

/// Trouble that may pass: no target yet, or a trace that is not enabled yet.
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
            | Code::NoTraceSymbol
            | Code::TraceNotBuiltIn
            | Code::EventsFile
            | Code::CoreMismatch
    )
}

/// True where the link itself is gone, and not what follows it.
fn is_link(error: &Error) -> bool {
    !error.is_not_found() && !matches!(error.code, Code::Unreadable | Code::HeaderOutsideMemory | Code::HeaderDamaged)
}

pub(super) struct Poller<'t> {
    task: &'t Follow,
    deadline: Deadline,
    diagnostics: &'t Diagnostics,
}

impl<'t> Poller<'t> {
    /// The time of `--for` begins now.
    pub(super) fn new(task: &'t Follow, diagnostics: &'t Diagnostics) -> Self {
        Self { task, deadline: Deadline::new(task.limit), diagnostics }
    }

    /// Begins to follow; with `--wait` as soon as there is a trace. `None` where the time is up before.
    pub(super) fn begin(&self) -> Result<Option<(Follower, Update)>, Error> {
        let mut reported = false;
        let mut kept = None;
        let mut halts = Halts::default();
        loop {
            let (target, error) = match self.try_begin(kept.take()) {
                Ok((mut follower, batch)) => {
                    follower.add_to(halts);
                    return Ok(Some((follower, batch)));
                }
                Err(not_yet) => not_yet,
            };
            if !interrupted() {
                if !self.task.wait || !may_pass(&error) {
                    return Err(error);
                }
                if !std::mem::replace(&mut reported, true) {
                    self.say_waiting(&error);
                }
            }
            kept = self.pause(target, &mut halts);
            if self.deadline.is_over() {
                kept.into_iter().for_each(|target| self.leave(*target));
                return Ok(None);
            }
        }
    }

    /// Opens the source, or takes the one that is open, and begins. Where that fails, a target that was reached is kept
    /// if its trace may still come, else left in order.
    fn try_begin(&self, kept: Option<Box<Target<'static>>>) -> Result<(Follower, Update), NotYet> {
        let keep = |target: Box<Target<'static>>, error: Error| {
            if self.task.wait && may_pass(&error) && !is_link(&error) {
                return (Some(target), error);
            }
            self.leave(*target);
            (None, error)
        };
        let mut target = match kept {
            Some(target) => target,
            None => Box::new(self.task.open().map_err(|error| (None, error))?),
        };
        let options = match self.task.clock.options(&mut target) {
            Ok(options) => options,
            Err(error) => return Err(keep(target, error)),
        };
        Follower::begin(*target, self.task.how, self.task.names, options, self.task.first)
            .map_err(|(target, error)| keep(target, error))
    }

    /// Waits. A target that was halted when we came runs meanwhile: it would never enable its trace.
    fn pause(&self, target: Option<Box<Target<'static>>>, halts: &mut Halts) -> Option<Box<Target<'static>>> {
        match target {
            Some(mut target) if !interrupted() => {
                if follow::let_run(&mut target, self.task.how, RETRY, halts).is_ok() {
                    return Some(target);
                }
                self.leave(*target);
                None
            }
            target => {
                pause(RETRY);
                target
            }
        }
    }

    /// Leaves the target before anything was followed, and says how.
    fn leave(&self, mut target: Target<'static>) {
        if let Some(client) = target.disconnect() {
            live::leave(client, self.diagnostics);
        }
    }

    fn say_waiting(&self, error: &Error) {
        self.diagnostics.say(format_args!("{}; waiting (--wait)", error.message));
    }

    /// Looks until the time is up; true where the event was seen that ends it.
    pub(super) fn follow(
        &self,
        follower: &mut Follower,
        batch: Update,
        printer: &mut Printer<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Error> {
        printer.start(follower, &batch, sink)?;
        let mut seen = printer.print(follower, batch, sink)?;
        while !seen && !self.deadline.is_over() {
            match self.step(follower, printer, sink)? {
                Step::On => {}
                Step::Seen => seen = true,
                Step::Over => break,
            }
        }
        match follower.rest().filter(|_| !seen) {
            Some(rest) => printer.print(follower, rest, sink),
            None => Ok(seen),
        }
    }

    /// Writes out what the poll before found, waits, polls, and prints. The target runs while it is written out: the
    /// reader may take long.
    fn step(&self, follower: &mut Follower, printer: &mut Printer<'_>, sink: &mut Sink<'_>) -> Result<Step, Error> {
        let runs = follower.let_run();
        printer.write_out(sink)?;
        let waited = match runs.and_then(|()| follower.wait(printer.next_tick())) {
            Ok(Waited::Early) => {
                printer.tick(follower, sink)?;
                return Ok(Step::On);
            }
            waited => waited,
        };
        let (stop, mut polled) = match waited {
            Ok(Waited::Stopped(stop)) => (Some(stop), follower.poll()),
            Ok(_) => (None, follower.poll()),
            Err(error) => (None, Err(error)),
        };
        loop {
            let batch = match polled {
                Ok(batch) => batch,
                Err(_) if interrupted() => return Ok(Step::On),
                Err(error) => match self.recover(follower, error, printer, sink)? {
                    Some(batch) => batch,
                    None => return Ok(Step::On),
                },
            };
            let more = batch.more;
            if printer.print(follower, batch, sink)? {
                return Ok(Step::Seen);
            }
            printer.tick(follower, sink)?;
            if !more || self.deadline.is_over() {
                break;
            }
            polled = follower.poll();
        }
        let Some(stop) = stop else { return Ok(Step::On) };
        match stop {
            Stop::Ended(how) => self.diagnostics.say(format_args!("the program has ended ({how})")),
            Stop::Itself(signal, how) => {
                self.diagnostics.say(format_args!("the target stopped by itself, signal {signal} ({how})"));
            }
            Stop::Asked => self.diagnostics.say("the target was stopped"),
        }
        Ok(Step::Over)
    }

    /// A target that is gone, or whose trace is another one now: with `--wait` it is waited for. `None` where the time is
    /// up.
    fn recover(
        &self,
        follower: &mut Follower,
        error: Error,
        printer: &mut Printer<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Update>, Error> {
        // A trace that was enabled elsewhere, or larger, needs no waiting for.
        if error.code == Code::TraceChanged
            && let Ok(batch) = follower.restart()
        {
            return Ok(Some(batch));
        }
        if !self.task.wait || !may_pass(&error) {
            return Err(error);
        }
        self.say_waiting(&error);
        let mut linked = !is_link(&error);
        loop {
            printer.tick(follower, sink)?;
            // A target that is halted for each look would never enable its trace again.
            match linked.then(|| follower.run_for(RETRY)) {
                None => pause(RETRY),
                Some(Ok(())) => {}
                Some(Err(_)) if interrupted() => return Ok(None),
                Some(Err(error)) if is_link(&error) && may_pass(&error) => linked = false,
                Some(Err(error)) => return Err(error),
            }
            if self.deadline.is_over() {
                return Ok(None);
            }
            if !linked {
                match follower.reconnect() {
                    Ok(()) => {}
                    Err(error) if may_pass(&error) => continue,
                    // It is reached, and is not to be set running: nothing changes by trying again.
                    Err(error) => return Err(error),
                }
            }
            match follower.again() {
                Ok(batch) => {
                    self.diagnostics.say("the trace is there again");
                    return Ok(Some(batch));
                }
                Err(error) => linked = !is_link(&error),
            }
        }
    }
}
