//! `control`: how the trace stands, and the few writes to it: announced, confirmed, read back.

use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::args;
use super::command::format_of;
use super::dump::range;
use super::message;
use super::plan::{Output, number};
use super::sink::Sink;
use super::{Outcome, live};
use crate::abi::Width;
use crate::catalogue::mask_names;
use crate::code::Code;
use crate::control::{self, Action, Change, Checked, State};
use crate::error::Error;
use crate::mem::Region;
use crate::output::{self, NoNames, TableOptions};
use crate::report::{Cell, Column, Kind, Report};
use crate::rsp::Endpoint;
use crate::rsp::transport::{self, deadline_in};
use crate::session::{INTERRUPT, Inputs, Session, SourceSpec};
use crate::trace::Issue;

/// What to do, and to which target.
pub struct ControlTask {
    /// Where the memory is.
    pub inputs: Inputs,
    verb: Verb,
    /// Nobody is asked.
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

/// The word by which the GDB command asks whether it may call the kernel's own function.
const CHECK_CALL: &str = "check-call";

/// The least id of the application's events.
const FIRST_USER: u64 = 4096;

impl ControlTask {
    /// Understands the words behind `control`; what is no word of the action is given back as a file.
    pub fn parse(words: Vec<String>, yes: bool, ranges: &[String]) -> Result<(Self, Vec<String>), Error> {
        let wrong = |message: String| Error::usage(Code::Usage, message);
        let mut words = words.into_iter();
        let verb = words.next().unwrap_or_else(|| "show".to_owned());
        let mut rest: Vec<String> = words.collect();
        let ranges = ranges.iter().map(|r| range(r)).collect::<Result<_, _>>()?;
        let what = match verb.as_str() {
            "show" => Verb::Show,
            "on" | "unfilter" => Verb::Write(Action::On(classes(&verb, &rest)?)),
            "off" | "filter" => Verb::Write(Action::Off(classes(&verb, &rest)?)),
            "only" => Verb::Write(Action::Only(classes(&verb, &rest)?)),
            "pause" => Verb::Write(Action::Pause),
            "resume" => Verb::Write(Action::Resume),
            "mark" => Verb::Write(mark(&rest)?),
            // From the GDB command, before it calls the kernel.
            CHECK_CALL => Verb::CheckCall(buffer(&rest)?),
            "enable" | "disable" => {
                return Err(wrong(format!(
                    "control {verb} calls the kernel's own function, which needs a debugger: in GDB `tx-trace control \
                     {verb}`; pause and resume need none"
                )));
            }
            other => {
                return Err(wrong(format!(
                    "control {other}: show, on, off, only, pause, resume or mark (in GDB also enable and disable)"
                )));
            }
        };
        if !matches!(what, Verb::Show | Verb::Write(Action::Pause | Action::Resume)) {
            rest.clear();
        }
        // What lies beside it: a core, an ELF. A word that is none is more likely a slip than a name.
        let is_there = |word: &str| std::path::Path::new(word).exists();
        let is_file =
            |word: &str| word == "-" || is_there(word) || word.rsplit_once('@').is_some_and(|(file, _)| is_there(file));
        if let Some(word) = rest.iter().find(|w| !is_file(w)) {
            return Err(wrong(format!(
                "control {verb}: unexpected argument '{word}': it takes no word but a FILE (an ELF, a core, a dump as FILE@ADDR), and there is none of that name"
            )));
        }
        Ok((Self { inputs: Inputs::default(), verb: what, yes, ranges }, rest))
    }
}

/// The buffer that is to be given to the kernel: its address and its size in bytes.
fn buffer(words: &[String]) -> Result<Option<Region>, Error> {
    let [start, len] = words else { return Ok(None) };
    Ok(Some(Region { start: number("BUFFER", start)?, len: number("SIZE", len)? }))
}

fn classes(verb: &str, words: &[String]) -> Result<u64, Error> {
    let mut bits = 0;
    for name in words.iter().flat_map(|w| w.split(',')).filter(|n| !n.is_empty()) {
        bits |= control::bits_of(name).map_err(|e| Error::usage(Code::Usage, e))?;
    }
    if bits == 0 {
        return Err(Error::usage(
            Code::Usage,
            format!("control {verb} what? Classes of events: queue, mutex, user, all"),
        ));
    }
    Ok(bits)
}

fn mark(words: &[String]) -> Result<Action, Error> {
    let mut numbers = [0; 5];
    if words.is_empty() || words.len() > numbers.len() {
        return Err(Error::usage(
            Code::Usage,
            "control mark ID [I1 [I2 [I3 [I4]]]]: the number of a user event, and its words",
        ));
    }
    for (number, word) in numbers.iter_mut().zip(words) {
        let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        *number = parsed
            .map_err(|_| Error::usage(Code::Number, format!("control mark {word}: a number such as 4096 or 0x1000")))?;
    }
    let [id, info @ ..] = numbers;
    if id < FIRST_USER {
        return Err(Error::usage(
            Code::Usage,
            format!("control mark {id}: the application's events begin at {FIRST_USER}; below are the kernel's own"),
        ));
    }
    Ok(Action::Mark { id, info })
}

/// Looks, writes where it is told to, and lets the target go.
pub fn run(task: ControlTask, output: &Output) -> Result<Outcome, Error> {
    let ControlTask { inputs, verb, yes, ranges } = task;
    let stdio = inputs.is_stdio();
    if matches!(verb, Verb::Write(_))
        && let Some(failure) = only_reads(&inputs)
    {
        return Err(failure);
    }
    live::run(
        inputs,
        |session| match verb {
            Verb::Show => show(session),
            Verb::Write(action) => work(session, action, &ranges, yes, stdio),
            Verb::CheckCall(buffer) => checked_call(session, buffer, &ranges),
        },
        |done, _, client| print(&done, output, Sink::open(output, client)?),
    )
}

/// Why nothing can be written through a door that reads memory alone.
fn only_reads(inputs: &Inputs) -> Option<Error> {
    let SourceSpec::Remote(remote) = &inputs.source else { return None };
    let hint = match remote.endpoint {
        Endpoint::OpenOcd { .. } => "give the GDB port of the same OpenOCD, usually 3333: --remote HOST:3333",
        Endpoint::QmpTcp { .. } | Endpoint::QmpUnix(_) => {
            "give QEMU's GDB stub (start it with -gdb tcp::1234): --remote HOST:1234"
        }
        _ => return None,
    };
    Some(Error::failed(
        Code::NotWritten,
        format!("{} only reads memory: nothing can be written through it", remote.endpoint),
        hint,
    ))
}

/// What was found, or done.
struct Done {
    report: Report,
    outcome: Outcome,
    /// For people the talk has said it.
    data: bool,
    /// What was noticed while opening and looking.
    issues: Vec<Issue>,
}

fn show(session: &mut Session<'_>) -> Result<Done, Error> {
    let state = State::read(session)?;
    let outcome = if state.layout.is_some() { Outcome::Done } else { Outcome::No };
    let issues = session.issues().to_vec();
    Ok(Done { report: shown(&state), outcome, data: true, issues })
}

fn checked_call(session: &mut Session<'_>, buffer: Option<Region>, ranges: &[Region]) -> Result<Done, Error> {
    control::check_call(session, buffer, ranges)?;
    let issues = session.issues().to_vec();
    Ok(Done { report: written(&[]), outcome: Outcome::Done, data: false, issues })
}

fn work(session: &mut Session<'_>, action: Action, ranges: &[Region], yes: bool, stdio: bool) -> Result<Done, Error> {
    let state = State::read(session)?;
    let of_pointer = matches!(action, Action::Pause | Action::Resume | Action::Mark { .. });
    let anywhere = session.remote_mut().is_some_and(|r| r.client_mut().found_running());
    let mut plan = control::plan(session, &state, action)?;
    if plan.changes.iter().any(control::Change::is_new) && session.writable().is_none() {
        return Err(Error::failed(
            Code::NotWritten,
            format!("{} is no live target: nothing is written to it", session.name()),
            "give --remote, or use it in GDB",
        ));
    }
    let notes = std::mem::take(&mut plan.notes);
    let checked = control::check(session, &state, plan, ranges)?;
    let changes = checked.changes();
    for change in changes {
        message::say(&format!("tx-trace: to write: {change}"));
    }
    for note in notes {
        message::say(&format!("tx-trace: {note}"));
    }
    if of_pointer && anywhere && !changes.is_empty() {
        // Seen: halted between the loads of the pointer, a kernel went on from 0 and wrote over its vectors.
        message::say(
            "tx-trace: the target ran, and was halted wherever it was: in the middle of an insertion this may break it; halt it first, at a breakpoint in a thread's own code",
        );
    }
    if !changes.is_empty() {
        if !yes {
            confirm(session, stdio)?;
        }
        write(session, &checked)?;
        message::say("tx-trace: written, and read back");
    }
    let issues = session.issues().to_vec();
    Ok(Done { report: written(changes), outcome: Outcome::Done, data: false, issues })
}

/// Writes. Where that fails half-way and cannot be undone, the target is left halted.
fn write(session: &mut Session<'_>, checked: &Checked) -> Result<(), Error> {
    may_go_on(session)?;
    let Some(memory) = session.writable() else {
        return Err(Error::failed(Code::NotWritten, format!("{} cannot be written", session.name()), ""));
    };
    memory.inner_mut().client_mut().hold_interrupt(true);
    let result = control::apply(memory, checked);
    let client = memory.inner_mut().client_mut();
    client.hold_interrupt(false);
    result.map_err(|failed| {
        if !failed.undone {
            client.leave_halted();
        }
        Error::from(failed.why)
    })
}

/// Says no after Ctrl-C, and where the target was halted for as long as it may be.
fn may_go_on(session: &mut Session<'_>) -> Result<(), Error> {
    match session.remote_mut().map(|remote| remote.client_mut().may_go_on()) {
        Some(Err(e)) => Err(Error::failed(e.code(), format!("nothing is written: {e}"), "")),
        _ => Ok(()),
    }
}

/// Asks whoever sits at the terminal, for no longer than the target may be halted.
fn confirm(session: &mut Session<'_>, stdio: bool) -> Result<(), Error> {
    if stdio || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::failed(Code::NotConfirmed, "nothing is written: there is nobody to ask", "add --yes"));
    }
    message::ask("tx-trace: write this? (y or n) ");
    let no = || Error::not_found(Code::NotConfirmed, "nothing is written", "");
    // By its deadline a read of the terminal hears Ctrl-C too, and the target is left in order.
    let mut input = transport::open(&Endpoint::Stdio, Duration::ZERO).map_err(|_| no())?;
    let mut answer = Vec::new();
    let mut bytes = [0; 64];
    while !answer.contains(&b'\n') && answer.len() < bytes.len() {
        if INTERRUPT.load(Ordering::Relaxed) {
            return Err(no());
        }
        may_go_on(session)?;
        match input.receive(&mut bytes, deadline_in(Duration::from_millis(200))) {
            Ok(count) => answer.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(transport::TransportError::Timeout) => {}
            Err(_) => return Err(no()),
        }
    }
    let answer = answer.trim_ascii();
    if answer.eq_ignore_ascii_case(b"y") || answer.eq_ignore_ascii_case(b"yes") { Ok(()) } else { Err(no()) }
}

fn written(changes: &[Change]) -> Report {
    let row =
        |c: &Change| vec![Cell::Address(c.address), Cell::Count(c.bytes.len() as u64), Cell::Text(c.what.clone())];
    Report {
        name: "control",
        columns: vec![
            Column { name: "address", kind: Kind::Address },
            Column { name: "bytes", kind: Kind::Count },
            Column { name: "what", kind: Kind::Text },
        ],
        rows: changes.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// How the trace stands, as rows of name and value.
fn shown(state: &State) -> Report {
    let column = |name| Column { name, kind: Kind::Text };
    let rows = facts(state).into_iter().map(|(what, value)| vec![Cell::Text(what.to_owned()), Cell::Text(value)]);
    Report { name: "control", columns: vec![column("what"), column("value")], rows: rows.collect(), notes: Vec::new() }
}

fn facts(state: &State) -> Vec<(&'static str, String)> {
    let mut rows = vec![("compiled in", compiled_in(state))];
    let said = |yes: bool| if yes { "yes" } else { "no" };
    if state.unnamed.is_some() || state.layout.is_some() && state.sound().is_none() {
        rows.extend([("enabled", "not known"), ("paused", "not known")].map(|(what, v)| (what, v.to_owned())));
    } else if !state.found.is_empty() {
        let enabled = match (&state.layout, state.registry_start) {
            (None, _) if state.wrong.is_none() => "no: never since the last start".to_owned(),
            (Some(_), Some(0)) if !state.is_enabled() => "no: disabled by tx_trace_disable".to_owned(),
            _ => said(state.layout.is_some()).to_owned(),
        };
        rows.push(("enabled", enabled));
        rows.push(("paused", said(state.is_paused()).to_owned()));
    }
    rows.extend(state.version.as_ref().map(|v| ("kernel", v.clone())));
    rows.extend(state.unnamed.map(|_| ("event mask", "not known".to_owned())));
    rows.extend(state.mask.map(|m| ("event mask", format!("{:#010x} ({})", m.value, mask(m.value)))));
    if let Some(layout) = &state.layout {
        let sound = state.wrong.clone().unwrap_or_else(|| "sound".to_owned());
        rows.push(("header", format!("{:#x}: {sound}", layout.header)));
        if state.sound().is_some() {
            rows.push(("capacity", format!("{} events", layout.capacity)));
            rows.extend(state.used.map(|used| ("used", format!("{used} slots"))));
            let copy = layout.place(layout.fields.current);
            let slot = layout.slot_at(copy).map_or("no slot".to_owned(), |s| format!("slot {s}"));
            rows.push(("next event", format!("{slot}, at {copy:#x}")));
            if let Some((current, copy)) = state.inserting() {
                rows.push((
                    "insertion",
                    format!(
                        "one is being made, or was cut off by a crash: the kernel's pointer is {current:#x}, the header's {copy:#x}"
                    ),
                ));
            }
        }
    } else {
        rows.extend(state.wrong.as_ref().map(|why| ("header", why.clone())));
    }
    if let Some((total, free)) = state.registry {
        let counted = state.available.filter(|n| *n != free);
        let counted = counted.map_or(String::new(), |n| format!(" (the kernel counts {n})"));
        rows.push(("registry free", format!("{free} of {total}{counted}")));
    }
    rows
}

fn compiled_in(state: &State) -> String {
    if let Some(why) = state.unnamed {
        return format!("not known: {why}");
    }
    match (state.found.as_slice(), state.missing.as_slice()) {
        ([], _) => "no: the program has none of the kernel's variables of the trace".to_owned(),
        (found, []) => format!("yes: {}", found.join(", ")),
        (found, missing) => format!("yes: {}; without {}", found.join(", "), missing.join(", ")),
    }
}

fn mask(bits: u64) -> String {
    let off = mask_names(!bits & 0xFFFF_FFFF);
    match (off.as_slice(), mask_names(bits)) {
        ([], _) => "everything".to_owned(),
        (_, on) if on.is_empty() => "nothing".to_owned(),
        (off, on) if off.len() < on.len() => format!("all but {}", off.join(", ")),
        (_, on) => on.join(", "),
    }
}

fn print(done: &Done, output: &Output, mut sink: Sink<'_>) -> Result<Outcome, Error> {
    if done.data || output.format != args::Format::Table {
        let options = TableOptions { width: sink.width(output), paint: sink.paint(output), ..TableOptions::default() };
        let mut writer = output::report_writer(format_of(output.format), &mut sink, &options, Width::W4, &NoNames);
        writer.report(&done.report)?;
        writer.finish(&done.issues)?;
    }
    sink.finish()?;
    if output.format != args::Format::Json {
        message::issues(&done.issues);
    }
    Ok(done.outcome)
}
