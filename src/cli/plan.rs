//! What was typed, resolved into what is to be done. Still nothing is opened.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::args::{self, Command};
use super::bridge::BridgeTask;
use super::control::ControlTask;
use super::dump::DumpTask;
use super::serve::ServeTask;
use super::threads::ThreadsTask;
use crate::abi::Addr;
use crate::analysis::{Name, Wish};
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::format::{self, DecodeOptions};
use crate::query::{Amount, Filters, Key, Position};
use crate::rsp::Endpoint;
use crate::session::{GivenRegisters, Image, Inputs, SourceSpec, TraceInput};
use crate::trace::Direction;

mod remote;

pub use remote::time;

/// One run.
pub struct Plan {
    /// What to do.
    pub task: Task,
    /// How to print it.
    pub output: Output,
}

/// What to do.
pub enum Task {
    /// Read a target, and answer a question about its trace.
    Read(Box<Question>),
    /// List the catalogue.
    Events(EventsTask),
    /// Write the trace's bytes to a file.
    Dump(Box<DumpTask>),
    /// New events as they come.
    Follow(Box<super::follow::FollowTask>),
    /// The kernel's objects as they stand in memory.
    Threads(Box<ThreadsTask>),
    /// Look at how the trace stands, or change that.
    Control(Box<ControlTask>),
    /// Stand between a debugger and a stub.
    Bridge(Box<BridgeTask>),
    /// Be the target of a debugger.
    Serve(Box<ServeTask>),
    /// The built-in dead target.
    Demo,
    /// The GDB command.
    Gdb { no_python: bool, install: bool },
}

/// A question about a target's trace.
pub struct Question {
    /// What is asked.
    pub ask: Ask,
    /// Where the bytes come from.
    pub inputs: Inputs,
    /// Which events.
    pub filters: Filters,
    /// What stamps mean.
    pub clock: ClockPlan,
    /// Whose names.
    pub names: Names,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// The newest events.
    Last(Amount),
    /// All events.
    List,
    /// These events in full.
    Show(Vec<Position>),
    /// What is known of the source and the trace.
    Info,
    /// The registry.
    Objects,
    /// Reports.
    Reports(Wish),
}

/// What options say of the clock; the rate may be a symbol.
#[derive(Debug, Default, Clone)]
pub struct ClockPlan {
    /// Direction, period, and the rate where it was given as a number.
    pub options: DecodeOptions,
    /// A variable that holds the rate.
    pub hz_symbol: Option<String>,
}

impl ClockPlan {
    /// Takes what this one does not say from another.
    pub fn or(&mut self, other: &Self) {
        let (own, given) = (&mut self.options, &other.options);
        own.direction = own.direction.or(given.direction);
        own.period = own.period.or(given.period);
        own.release = own.release.or(given.release);
        if own.hz.is_none() && self.hz_symbol.is_none() {
            own.hz = given.hz;
            self.hz_symbol.clone_from(&other.hz_symbol);
        }
    }
}

/// What `events` lists.
pub struct EventsTask {
    /// Names, globs, ids, ranges.
    pub words: Vec<String>,
    /// Classes.
    pub class: Vec<String>,
    /// Which catalogue.
    pub format: &'static dyn format::Format,
    /// Whose names.
    pub names: Names,
    /// Only those of the application.
    pub user: bool,
    /// The program that has names for them.
    pub elf: Option<PathBuf>,
    /// Files that say what they mean.
    pub files: Vec<PathBuf>,
    /// Enumerations that name them.
    pub enums: Vec<String>,
    /// Written as what `--events` reads, not as a report.
    pub text: Option<EventsText>,
}

/// Texts that name the application's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsText {
    /// Our own table.
    Tsv,
    /// TraceX's custom events.
    Trxc,
}

/// How to print.
#[derive(Debug, Clone)]
pub struct Output {
    /// In which format.
    pub format: args::Format,
    /// Where to; standard output without it.
    pub path: Option<PathBuf>,
    /// With colour?
    pub color: args::Color,
    /// Columns of a table.
    pub width: Option<usize>,
    /// Lost data is a failure.
    pub strict: bool,
}

/// Resolves what was typed.
pub fn plan(args: args::Args) -> Result<Plan, Error> {
    let (mut ask, mut read) = match args.command {
        Command::Last(read) => (Ask::Last(Amount::Events(20)), read),
        Command::List(read) => (Ask::List, read),
        Command::Show(read) => (Ask::Show(Vec::new()), read),
        Command::Info(read) => (Ask::Info, read),
        Command::Objects(o) if o.usage => (Ask::Reports(Wish { names: vec![Name::Use], ..Wish::default() }), o.read),
        Command::Objects(o) => (Ask::Objects, o.read),
        Command::Profile(r) => reports(&[Name::Profile], r),
        Command::Stats(r) => reports(&[Name::Stats], r),
        Command::Services(r) => reports(&[Name::Services], r),
        Command::Stack(r) => reports(&[Name::Stack], r),
        Command::Inversions(r) => reports(&[Name::Inversions], r),
        Command::Blocked(r) => reports(&[Name::Blocked], r),
        Command::Latency(r) => reports(&[Name::Latency], r),
        Command::Report(r) => reports(&Name::ALL, r),
        Command::Events(e) => {
            let format = format_named(e.format_in.as_deref())?.or_else(|| format::ALL.first().copied());
            let format = format.ok_or_else(|| Error::usage(Code::FormatIn, "no format is built in"))?;
            let names = names(&e.netx)?;
            let (kind, text) = match e.format {
                args::EventsFormat::Table => (args::Format::Table, None),
                args::EventsFormat::Json => (args::Format::Json, None),
                args::EventsFormat::Csv => (args::Format::Csv, None),
                args::EventsFormat::Md => (args::Format::Md, None),
                args::EventsFormat::Tsv => (args::Format::Table, Some(EventsText::Tsv)),
                args::EventsFormat::Trxc => (args::Format::Table, Some(EventsText::Trxc)),
            };
            if text.is_some() && !e.user {
                return Err(Error::usage(
                    Code::Usage,
                    "--format tsv and trxc are of the application's events: add --user",
                ));
            }
            let output = output(args::Output {
                format: kind,
                output: e.output,
                color: e.color,
                width: e.width,
                strict: e.strict,
            })?;
            let environment = || std::env::var_os("TX_TRACE_ELF").filter(|e| !e.is_empty()).map(PathBuf::from);
            let elf = if e.user { e.elf.or_else(environment) } else { e.elf };
            return Ok(Plan {
                task: Task::Events(EventsTask {
                    words: e.words,
                    class: e.class,
                    format,
                    names,
                    user: e.user,
                    elf,
                    files: e.names.events,
                    enums: enum_names(&e.names.event_enum),
                    text,
                }),
                output,
            });
        }
        Command::Dump(d) => {
            let inputs = inputs(d.source, words(&mut Ask::Info, d.words)?)?;
            let task = Task::Dump(Box::new(DumpTask::new(inputs, d.output, &d.range)?));
            return Ok(Plan { task, output: output(args::Output::default())? });
        }
        Command::Follow(f) => return super::follow::plan(f),
        Command::Threads(t) => {
            let inputs = inputs(t.source, words(&mut Ask::Info, t.words)?)?;
            let task = ThreadsTask { inputs, all: t.all };
            return Ok(Plan { task: Task::Threads(Box::new(task)), output: output(t.output)? });
        }
        Command::Control(c) => {
            let (mut task, files) = ControlTask::parse(c.words, c.yes, &c.range)?;
            task.inputs = inputs(c.source, files.into_iter().map(PathBuf::from).collect())?;
            return Ok(Plan { task: Task::Control(Box::new(task)), output: output(c.output)? });
        }
        Command::Bridge(b) => {
            if b.source.leave.is_some() {
                return Err(Error::usage(
                    Code::Usage,
                    "--leave: through a bridge the debugger decides how the target is left",
                ));
            }
            let mut clock_typed = b.clock;
            let inputs = Inputs {
                events: std::mem::take(&mut clock_typed.user.events),
                event_enums: enum_names(&clock_typed.user.event_enum),
                ..inputs(b.source, Vec::new())?
            };
            let names = names(&clock_typed.netx)?;
            let task = BridgeTask::new(&b.listen, b.once, inputs, clock(clock_typed)?, names)?;
            return Ok(Plan { task: Task::Bridge(Box::new(task)), output: output(args::Output::default())? });
        }
        Command::Serve(s) => {
            let mut clock_typed = s.clock;
            let inputs = Inputs {
                events: std::mem::take(&mut clock_typed.user.events),
                event_enums: enum_names(&clock_typed.user.event_enum),
                ..inputs(s.source, words(&mut Ask::Info, s.words)?)?
            };
            let names = names(&clock_typed.netx)?;
            let at = (!s.stdio).then_some(s.listen.as_str());
            let task = ServeTask::new(at, s.once, inputs, clock(clock_typed)?, names)?;
            return Ok(Plan { task: Task::Serve(Box::new(task)), output: output(args::Output::default())? });
        }
        Command::Demo(d) => return Ok(Plan { task: Task::Demo, output: output(d.output)? }),
        Command::Gdb(g) => {
            let task = Task::Gdb { no_python: g.no_python, install: g.install };
            return Ok(Plan { task, output: output(args::Output::default())? });
        }
    };
    let files = words(&mut ask, read.words)?;
    if let Ask::Show(positions) = &ask
        && positions.is_empty()
    {
        return Err(Error::usage(
            Code::Usage,
            "show which event? Give its sequence number: `tx-trace show 42`, -1 is the newest",
        ));
    }
    if let Ask::Reports(wish) = &ask
        && !wish.names.contains(&Name::Latency)
        && !(wish.every.is_empty() && wish.spans.is_empty())
    {
        return Err(Error::usage(Code::Usage, "--every and --span go with latency and report"));
    }
    let output = output(read.output)?;
    if output.format == args::Format::Md && !matches!(ask, Ask::Info | Ask::Objects | Ask::Reports(_)) {
        return Err(Error::usage(Code::Usage, "--format md is for reports; events come as table, json or csv"));
    }
    let previous = read.source.previous;
    if previous && !matches!(ask, Ask::Last(_) | Ask::List | Ask::Show(_)) {
        return Err(Error::usage(Code::Usage, "--previous goes with last, list and show"));
    }
    let mut question = Question {
        ask,
        inputs: Inputs {
            events: std::mem::take(&mut read.clock.user.events),
            event_enums: enum_names(&read.clock.user.event_enum),
            ..inputs(read.source, files)?
        },
        filters: filters(read.filters)?,
        names: names(&read.clock.netx)?,
        clock: clock(read.clock)?,
    };
    question.clock.options.previous = previous;
    Ok(Plan { task: Task::Read(Box::new(question)), output })
}

/// What a report command asks for, and its other options.
fn reports(names: &[Name], r: args::Reports) -> (Ask, args::Read) {
    let wish = Wish { names: names.to_vec(), tracex: r.tracex, every: r.every, spans: r.span };
    (Ask::Reports(wish), r.read)
}

/// `--event-enum A,B`, and twice.
pub(super) fn enum_names(options: &[String]) -> Vec<String> {
    options.iter().flat_map(|o| o.split(',')).map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
}

/// Takes N or SEQ out of the words; the rest are files.
pub(super) fn words(ask: &mut Ask, words: Vec<OsString>) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut counted = false;
    for word in words {
        // A name of a file need not be text; a number is.
        let word = match word.into_string() {
            Ok(word) => word,
            Err(word) => {
                files.push(PathBuf::from(word));
                continue;
            }
        };
        let digits = word.strip_prefix('-').unwrap_or(&word);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let starts_as_number = digits.bytes().next().is_some_and(|b| b.is_ascii_digit());
        match ask {
            Ask::Show(positions) if is_number => {
                positions.push(Position::parse(&word).map_err(|e| Error::usage(Code::Position, e.to_string()))?);
            }
            Ask::Last(amount) if starts_as_number && !counted && (is_number || Amount::parse(&word).is_ok()) => {
                *amount = Amount::parse(&word).map_err(|e| Error::usage(Code::Position, e.to_string()))?;
                counted = true;
            }
            _ if is_number => {
                return Err(Error::usage(
                    Code::Usage,
                    format!(
                        "what does {word} mean here? A file of that name is ./{word}; `last {word}` and `show {word}` take numbers"
                    ),
                ));
            }
            _ => files.push(PathBuf::from(word)),
        }
    }
    Ok(files)
}

fn format_named(name: Option<&str>) -> Result<Option<&'static dyn format::Format>, Error> {
    let Some(name) = name else { return Ok(None) };
    let found = format::ALL.iter().find(|f| f.name() == name).copied();
    found.map(Some).ok_or_else(|| {
        let all: Vec<&str> = format::ALL.iter().map(|f| f.name()).collect();
        Error::usage(Code::FormatIn, format!("--format-in {name}: formats are {}", all.join(", ")))
    })
}

pub(super) fn names(netx: &str) -> Result<Names, Error> {
    match netx {
        "duo" => Ok(Names::Duo),
        "classic" => Ok(Names::Classic),
        other => Err(Error::usage(Code::Netx, format!("--netx {other}: duo or classic"))),
    }
}

pub fn number(option: &str, text: &str) -> Result<u64, Error> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| {
        Error::usage(Code::Number, format!("{option} {text}: a number such as 4096 or 0x20000000 is wanted"))
    })
}

/// The entry point of the debugger that holds the other end of stdin and stdout: in another source the program may lie
/// elsewhere. The debugger says it in the environment, where every command takes it.
fn entry(typed: Option<String>, held: bool) -> Result<Option<Addr>, Error> {
    let told = || std::env::var("TX_TRACE_ENTRY").ok().filter(|e| held && !e.is_empty());
    typed.or_else(told).map(|e| number("--entry", &e)).transpose()
}

/// An offset may be negative: a dump linked high and loaded low.
fn offset(option: &str, text: &str) -> Result<u64, Error> {
    match text.strip_prefix('-') {
        Some(rest) => Ok(number(option, rest)?.wrapping_neg()),
        None => number(option, text),
    }
}

pub(super) fn inputs(s: args::Source, files: Vec<PathBuf>) -> Result<Inputs, Error> {
    let mut kinds = Vec::new();
    kinds.extend(s.remote.is_some().then_some("--remote"));
    kinds.extend(s.core.is_some().then_some("--core"));
    kinds.extend((!s.image.is_empty()).then_some("--image"));
    kinds.extend((!s.trace.is_empty()).then_some("--trace"));
    if kinds.len() > 1 {
        return Err(Error::usage(Code::Usage, format!("{} name different sources: give one", kinds.join(" and "))));
    }
    // Wrong is wrong, also where nothing is waited for.
    remote::timeout(&s.timeout)?;
    let typed = !kinds.is_empty() || !files.is_empty();
    let endpoint = match s.remote.clone() {
        Some(endpoint) => Some(endpoint),
        None if !typed => std::env::var("TX_TRACE_REMOTE").ok().filter(|r| !r.is_empty()),
        None => None,
    };
    let source = if let Some(endpoint) = endpoint {
        SourceSpec::Remote(remote::input(&endpoint, &s)?)
    } else if let Some(core) = s.core {
        SourceSpec::Core(core)
    } else if !s.image.is_empty() {
        SourceSpec::Images(s.image.iter().map(|i| image(i)).collect::<Result<_, _>>()?)
    } else if !s.trace.is_empty() {
        let input = |p: PathBuf| if p.as_os_str() == "-" { TraceInput::Stdin } else { TraceInput::File(p) };
        SourceSpec::Traces(s.trace.into_iter().map(input).collect())
    } else {
        SourceSpec::Files
    };
    let held = matches!(&source, SourceSpec::Remote(r) if r.endpoint == Endpoint::Stdio);
    let symbols = pairs("--symbol", "NAME=ADDR", &s.symbol)?;
    let registers = GivenRegisters {
        typed: pairs("--reg", "NAME=VALUE", &s.reg)?,
        shown: pairs("--debugger-reg", "NAME=VALUE", &s.debugger_reg)?,
    };
    let elf_from_environment = || std::env::var_os("TX_TRACE_ELF").filter(|e| !e.is_empty()).map(PathBuf::from);
    Ok(Inputs {
        elf_built_in: None,
        elf: s.elf,
        elf_default: elf_from_environment(),
        source,
        files,
        symbols,
        registers,
        header: s.header.as_deref().map(|h| number("--header", h)).transpose()?,
        scan: s.scan,
        load_offset: s.load_offset.as_deref().map(|o| offset("--load-offset", o)).transpose()?,
        events: Vec::new(),
        event_enums: Vec::new(),
        entry: entry(s.entry, held)?,
        format: format_named(s.format_in.as_deref())?,
    })
}

/// Names with numbers, one a word.
fn pairs(option: &str, wanted: &str, words: &[String]) -> Result<Vec<(String, u64)>, Error> {
    let pair = |word: &String| {
        let (name, value) = word
            .split_once('=')
            .filter(|(n, _)| !n.is_empty())
            .ok_or_else(|| Error::usage(Code::Symbol, format!("{option} {word}: {wanted} is wanted")))?;
        let number = number(option, value).map_err(|_| {
            Error::usage(
                Code::Number,
                format!("{option} {word}: {wanted} is wanted, with a number such as 4096 or 0x20000000"),
            )
        })?;
        Ok((name.to_owned(), number))
    };
    words.iter().map(pair).collect()
}

/// `FILE@ADDR`: the last `@` with a number behind it; a path may hold others.
fn image(text: &OsStr) -> Result<Image, Error> {
    let whole = || Image { path: PathBuf::from(text), address: None };
    let Some((path, address)) = text.to_str().and_then(|t| t.rsplit_once('@')) else { return Ok(whole()) };
    if path.is_empty() || !address.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(whole());
    }
    let address: Addr = number("--image FILE@ADDR:", address)?;
    Ok(Image { path: PathBuf::from(OsString::from(path)), address: Some(address) })
}

pub(super) fn filters(f: args::Filters) -> Result<Filters, Error> {
    let mut all = Filters::default();
    for (key, values) in [
        (Key::Thread, f.thread),
        (Key::Event, f.event),
        (Key::Class, f.class),
        (Key::Object, f.object),
        (Key::Context, f.context),
        (Key::Core, f.core_id),
        (Key::Arg, f.arg),
    ] {
        for value in values {
            all.add(key, &value)?;
        }
    }
    all.from = f.from.as_deref().map(Position::parse).transpose()?;
    all.to = f.to.as_deref().map(Position::parse).transpose()?;
    if let Some(around) = &f.around {
        all.add_around(around)?;
    }
    Ok(all)
}

pub(super) fn clock(c: args::Clock) -> Result<ClockPlan, Error> {
    let direction = match c.direction.as_deref() {
        None => None,
        Some("up") => Some(Direction::Up),
        Some("down") => Some(Direction::Down),
        Some(other) => return Err(Error::usage(Code::Clock, format!("--direction {other}: up or down"))),
    };
    let period = c.period.as_deref().map(|p| number("--period", p)).transpose()?;
    if period == Some(0) {
        return Err(Error::usage(Code::Clock, "--period 0: a clock starts over after at least one tick"));
    }
    let release = c.qnx_version.as_deref().map(release).transpose()?;
    let mut plan = ClockPlan {
        options: DecodeOptions { direction, period, release, ..DecodeOptions::default() },
        hz_symbol: None,
    };
    if let Some(text) = c.hz {
        match rate(&text) {
            Some(hz) if hz > 0.0 && hz.is_finite() => plan.options.hz = Some(hz),
            Some(_) => {
                return Err(Error::usage(Code::Clock, format!("--hz {text}: ticks in a second, more than none")));
            }
            None if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') => {
                return Err(Error::usage(
                    Code::Clock,
                    format!("--hz {text}: a rate is 72000000, 72M, 32.768k, or a symbol that holds it"),
                ));
            }
            None => plan.hz_symbol = Some(text),
        }
    }
    Ok(plan)
}

/// `6.4`, `7.1`, `8.0`, also with a third number: the first two as one number.
fn release(text: &str) -> Result<u16, Error> {
    let mut parts = text.split('.');
    let mut next = |default| parts.next().map_or(Some(default), |p| p.parse::<u16>().ok().filter(|n| *n < 10));
    let (major, minor, patch) = (next(0), next(0), next(0));
    major
        .zip(minor)
        .zip(patch)
        .filter(|_| parts.next().is_none())
        .map(|((major, minor), _)| major.saturating_mul(10).saturating_add(minor))
        .filter(|r| (60..90).contains(r))
        .ok_or_else(|| Error::usage(Code::Usage, format!("--qnx-version {text}: a release such as 6.4, 7.1 or 8.0")))
}

/// `72000000`, `72M`, `32.768k`.
fn rate(text: &str) -> Option<f64> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(t) => (t, 1e3),
        None => match text.strip_suffix('M') {
            Some(t) => (t, 1e6),
            None => text.strip_suffix('G').map_or((text, 1.0), |t| (t, 1e9)),
        },
    };
    digits.parse::<f64>().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit())).map(|n| n * factor)
}

pub(super) fn output(o: args::Output) -> Result<Output, Error> {
    let width = match o.width.as_deref() {
        None => None,
        Some(text) => Some(
            text.parse::<usize>()
                .ok()
                .filter(|w| (20..=10_000).contains(w))
                .ok_or_else(|| Error::usage(Code::Usage, format!("--width {text}: columns, from 20 to 10000")))?,
        ),
    };
    let path = o.output.filter(|p| p.as_os_str() != "-");
    // A debugger that prints for us knows its terminal; a typed option wins.
    let color = match (o.color, std::env::var("TX_TRACE_COLOR").as_deref()) {
        (args::Color::Auto, Ok("always")) if path.is_none() => args::Color::Always,
        (args::Color::Auto, Ok("never")) => args::Color::Never,
        (typed, _) => typed,
    };
    Ok(Output { format: o.format, path, color, width, strict: o.strict })
}
