//! `control`: the state of the trace, and the few writes to it: announced, confirmed, read back.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task, inputs};
use super::sink::Sink;
use super::{Outcome, live, options, values};
use crate::abi::Width;
use crate::code::Code;
use crate::control::{self, Action, Change, Checked, State};
use crate::error::Error;
use crate::mem::Region;
use crate::output::{self, NoNames, Reader};
use crate::report::Report;
use crate::rsp::Endpoint;
use crate::rsp::transport::{self, deadline_in};
use crate::session::{INTERRUPT, Inputs, SourceSpec, Target};
use crate::trace::Issue;

/// What to do, and to which target.
struct Control {
    inputs: Inputs,
    verb: Verb,
    /// Write without asking.
    yes: bool,
    /// Memory that the user calls RAM.
    ranges: Vec<Region>,
}

/// What to do.
#[derive(Clone, Copy)]
enum Verb {
    /// Show the state of the trace.
    Show,
    /// Write to the target.
    Write(Action),
    /// Check what the debugger that started this is to call: `enable` with this buffer, or `disable`.
    CheckCall(Option<Region>),
}

fn usage(message: impl Into<String>) -> Error {
    Error::usage(Code::Usage, message)
}

/// Of what was typed.
pub(super) fn request(typed: options::Control) -> Result<Request, Error> {
    let options::Control { words, yes, range: ranges, source, output } = typed;
    let (verb, files) = parse(words)?;
    let inputs = inputs(source, files)?;
    let output = Output::new(output.format, output.printing);
    Ok(Request::new(Control { inputs, verb, yes, ranges }, output))
}

/// Understands the words after `control`; what is no word of the action is a file.
fn parse(words: Vec<String>) -> Result<(Verb, Vec<PathBuf>), Error> {
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_else(|| "show".to_owned());
    let rest: Vec<String> = words.collect();
    let verb = match name.as_str() {
        "show" => return Ok((Verb::Show, files(&name, &rest)?)),
        "pause" => return Ok((Verb::Write(Action::Pause), files(&name, &rest)?)),
        "resume" => return Ok((Verb::Write(Action::Resume), files(&name, &rest)?)),
        "on" | "unfilter" => Verb::Write(Action::On(classes(&name, &rest)?)),
        "off" | "filter" => Verb::Write(Action::Off(classes(&name, &rest)?)),
        "only" => Verb::Write(Action::Only(classes(&name, &rest)?)),
        "mark" => Verb::Write(mark(&rest)?),
        // From the GDB command, before it calls the kernel's own function.
        "check-call" => Verb::CheckCall(buffer(&rest)?),
        "enable" | "disable" => {
            return Err(usage(format!(
                "control {name} calls the kernel's own function, which needs a debugger: in GDB `tx-trace control \
                 {name}`; pause and resume need none"
            )));
        }
        other => {
            return Err(usage(format!(
                "control {other}: show, on, off, only, pause, resume or mark (in GDB also enable and disable)"
            )));
        }
    };
    Ok((verb, Vec::new()))
}

/// The files after an action that takes no words. A word that is no file is more likely a slip than a name.
fn files(verb: &str, words: &[String]) -> Result<Vec<PathBuf>, Error> {
    let exists = |word: &str| Path::new(word).exists();
    let is_file =
        |word: &str| word == "-" || exists(word) || word.rsplit_once('@').is_some_and(|(file, _)| exists(file));
    match words.iter().find(|w| !is_file(w)) {
        None => Ok(words.iter().map(PathBuf::from).collect()),
        Some(word) => Err(usage(format!(
            "control {verb}: unexpected argument '{word}': it takes only a FILE (an ELF, a core, a dump as FILE@ADDR), and there is none of that name"
        ))),
    }
}

/// A number among the words of an action.
fn number(what: &str, text: &str) -> Result<u64, Error> {
    values::number(text).map_err(|e| Error::usage(e.code, format!("{what} {text}: {e}")))
}

/// The buffer that is to be given to the kernel: its address and its size in bytes.
fn buffer(words: &[String]) -> Result<Option<Region>, Error> {
    let [start, len] = words else { return Ok(None) };
    Ok(Some(Region { start: number("BUFFER", start)?, len: number("SIZE", len)? }))
}

fn classes(verb: &str, words: &[String]) -> Result<u64, Error> {
    let mut bits = 0;
    for name in words.iter().flat_map(|w| w.split(',')).filter(|n| !n.is_empty()) {
        bits |= control::bits_of(name).map_err(usage)?;
    }
    if bits == 0 {
        return Err(usage(format!("control {verb} needs classes of events: queue, mutex, user, all")));
    }
    Ok(bits)
}

fn mark(words: &[String]) -> Result<Action, Error> {
    let mut numbers = [0; 5];
    if words.is_empty() || words.len() > numbers.len() {
        return Err(usage("control mark ID [I1 [I2 [I3 [I4]]]]: the number of a user event, and its words"));
    }
    for (place, word) in numbers.iter_mut().zip(words) {
        *place = number("control mark", word)?;
    }
    let [id, info @ ..] = numbers;
    if id < control::FIRST_USER_ID {
        return Err(usage(format!(
            "control mark {id}: the application's events begin at {}; below are the kernel's own",
            control::FIRST_USER_ID
        )));
    }
    Ok(Action::Mark { id, info })
}

/// What was found, or done.
struct Done {
    report: Report,
    outcome: Outcome,
    /// Print it as a table too: otherwise the diagnostics have said it.
    as_table: bool,
    issues: Vec<Issue>,
}

impl Task for Control {
    fn inputs(&self) -> Option<&Inputs> {
        Some(&self.inputs)
    }

    /// Reads, writes what is asked for, and lets the target go.
    fn run(mut self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let inputs = std::mem::take(&mut self.inputs);
        let stdio = inputs.is_stdio();
        if let (Verb::Write(_), Some(error)) = (self.verb, only_reads(&inputs)) {
            return Err(error);
        }
        let read = |target: &mut Target<'static>| {
            let (report, outcome, as_table) = match self.verb {
                Verb::Show => {
                    let state = State::read(target)?;
                    let outcome = if state.layout.is_some() { Outcome::Done } else { Outcome::NotFound };
                    (state.report(), outcome, true)
                }
                Verb::Write(action) => {
                    let changes = self.write(target, action, stdio, diagnostics)?;
                    (control::written(&changes), Outcome::Done, false)
                }
                Verb::CheckCall(buffer) => {
                    control::check_call(target, buffer, &self.ranges)?;
                    (control::written(&[]), Outcome::Done, false)
                }
            };
            Ok(Done { report, outcome, as_table, issues: target.issues().to_vec() })
        };
        live::run(inputs, diagnostics, read, |done, _, client| {
            print(&done, output, Sink::open(output, client)?, diagnostics)
        })
    }
}

/// Why nothing can be written through an endpoint that only reads memory.
fn only_reads(inputs: &Inputs) -> Option<Error> {
    let SourceSpec::Remote(remote) = &inputs.source else { return None };
    let hint = match remote.endpoint {
        Endpoint::OpenOcd { .. } => "give the GDB port of the same OpenOCD, usually 3333: --remote HOST:3333",
        Endpoint::QmpTcp { .. } | Endpoint::QmpUnix(_) => {
            "give QEMU's GDB stub (start it with -gdb tcp::1234): --remote HOST:1234"
        }
        _ => return None,
    };
    let message = format!("{} only reads memory: nothing can be written through it", remote.endpoint);
    Some(Error::failed(Code::NotWritten, message, hint))
}

impl Control {
    /// Announces, asks and writes.
    fn write(
        &self,
        target: &mut Target<'_>,
        action: Action,
        stdio: bool,
        diagnostics: &Diagnostics,
    ) -> Result<Vec<Change>, Error> {
        let state = State::read(target)?;
        let moves_pointer = matches!(action, Action::Pause | Action::Resume | Action::Mark { .. });
        let anywhere = target.remote_mut().is_some_and(|r| r.client_mut().found_running());
        let mut plan = control::plan(target, &state, action)?;
        if plan.changes.iter().any(Change::is_new) && target.writable().is_none() {
            return Err(Error::failed(
                Code::NotWritten,
                format!("{} is not a live target: nothing is written to it", target.name()),
                "give --remote, or use it in GDB",
            ));
        }
        let notes = std::mem::take(&mut plan.notes);
        let checked = control::check(target, &state, plan, &self.ranges)?;
        let changes = checked.changes();
        for change in changes {
            diagnostics.say(format_args!("to write: {change}"));
        }
        for note in notes {
            diagnostics.say(note);
        }
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        if moves_pointer && anywhere {
            // Observed: halted between the loads of the pointer, a kernel went on from 0 and overwrote its vectors.
            diagnostics.say(
                "the target ran, and was halted at an arbitrary place: if an event was being inserted, this write may break it; halt it first, at a breakpoint in a thread's own code",
            );
        }
        if !self.yes {
            confirm(target, stdio, diagnostics)?;
        }
        write(target, &checked)?;
        diagnostics.say("written, and read back");
        Ok(changes.to_vec())
    }
}

/// Writes. Where that fails half-way and cannot be undone, the target is left halted.
fn write(target: &mut Target<'_>, checked: &Checked) -> Result<(), Error> {
    may_go_on(target)?;
    let Some(memory) = target.writable() else {
        return Err(Error::failed(Code::NotWritten, format!("{} cannot be written", target.name()), ""));
    };
    memory.inner_mut().client_mut().hold_interrupt(true);
    let result = control::apply(memory, checked);
    let client = memory.inner_mut().client_mut();
    client.hold_interrupt(false);
    result.map_err(|failed| {
        if !failed.undone {
            client.leave_halted();
        }
        failed.why
    })
}

/// Fails after Ctrl-C, and where the target was halted for as long as it may be.
fn may_go_on(target: &mut Target<'_>) -> Result<(), Error> {
    match target.remote_mut().map(|remote| remote.client_mut().may_go_on()) {
        Some(Err(e)) => Err(Error::failed(e.code(), format!("nothing is written: {e}"), "")),
        _ => Ok(()),
    }
}

/// Asks at the terminal, for no longer than the target may be halted.
fn confirm(target: &mut Target<'_>, stdio: bool, diagnostics: &Diagnostics) -> Result<(), Error> {
    if stdio || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::failed(Code::NotConfirmed, "nothing is written: not a terminal", "use --yes"));
    }
    diagnostics.ask("tx-trace: write this? (y or n) ");
    let no = || Error::not_found(Code::NotConfirmed, "nothing is written", "");
    // Its deadline lets a read of the terminal see Ctrl-C too, and the target is left in order.
    let mut input = transport::open(&Endpoint::Stdio, Duration::ZERO).map_err(|_| no())?;
    let mut answer = Vec::new();
    let mut bytes = [0; 64];
    while !answer.contains(&b'\n') && answer.len() < bytes.len() {
        if INTERRUPT.load(Ordering::Relaxed) {
            return Err(no());
        }
        may_go_on(target)?;
        match input.receive(&mut bytes, deadline_in(Duration::from_millis(200))) {
            Ok(count) => answer.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(transport::TransportError::Timeout) => {}
            Err(_) => return Err(no()),
        }
    }
    let answer = answer.trim_ascii();
    if answer.eq_ignore_ascii_case(b"y") || answer.eq_ignore_ascii_case(b"yes") { Ok(()) } else { Err(no()) }
}

fn print(done: &Done, output: &Output, mut sink: Sink<'_>, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
    if done.as_table || output.format.reader() != Reader::Terminal {
        let options = sink.table_options(output);
        let mut writer = output::report_writer(output.format, &mut sink, &options, Width::W4, &NoNames);
        writer.report(&done.report)?;
        writer.finish(&done.issues)?;
    }
    sink.finish()?;
    if !output.format.has_issues() {
        diagnostics.issues_of_result(&done.issues);
    }
    Ok(done.outcome)
}
