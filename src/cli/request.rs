//! From what was typed to what runs: the options of a command become a [`Task`] and its [`Output`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::commands::Row;
use super::diagnostics::Diagnostics;
use super::options::{self, Color};
use super::read::{Ask, Question};
use super::sink::{self, Sink};
use super::values::{self, Rate};
use super::{Outcome, inputs_kept};
use crate::analysis::{Name, ReportRequest};
use crate::code::Code;
use crate::error::Error;
use crate::format::DecodeOptions;
use crate::output::{ExtraColumn, Format};
use crate::query::{Amount, Filters, Key, Position};
use crate::rsp::{Endpoint, Leave};
use crate::session::{GivenRegisters, Inputs, RemoteInput, SourceSpec, Target, TraceInput};

pub use super::task::{Reads, Task, With};

/// How to print.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// In which format.
    pub format: Format,
    /// Where to; standard output without it.
    pub path: Option<PathBuf>,
    /// With colour?
    pub color: Color,
    /// Columns of a table.
    pub width: Option<usize>,
    /// Lost data is an error.
    pub strict: bool,
    /// Columns of the table of events beside those that it always has.
    pub columns: Vec<ExtraColumn>,
}

/// One run.
pub struct Request {
    /// What to do.
    pub task: Box<dyn Task>,
    /// How to print it.
    pub output: Output,
}

impl Request {
    /// A task that prints by the options of its own.
    pub fn new(task: impl Task + 'static, output: Output) -> Self {
        Self { task: Box::new(task), output }
    }

    /// The same with these columns in the table of events.
    fn with(self, columns: options::ExtraColumns) -> Self {
        Self { output: self.output.with(columns), ..self }
    }

    /// Runs it. `option_files` were read for its options.
    pub(super) fn run(self, option_files: &[PathBuf], diagnostics: &Diagnostics) -> Outcome {
        let Self { task, output } = self;
        diagnostics.set_color(output.color);
        if let Some(path) = &output.path
            && let Err(error) = inputs_kept::check(&[&task.files(), option_files].concat(), path)
        {
            return output.report(&error, diagnostics);
        }
        task.run(&output, diagnostics).unwrap_or_else(|error| {
            let outcome = output.report(&error, diagnostics);
            if let Some(path) = output.path.as_ref().filter(|path| path.is_file()) {
                diagnostics.say(format_args!("{} is left as it was", path.display()));
            }
            outcome
        })
    }
}

impl Output {
    /// Of the options; `-` is standard output.
    pub fn new(format: Format, printing: options::Printing) -> Self {
        let options::Printing { output, color, width, strict } = printing;
        let path = output.filter(|p| p.as_os_str() != "-");
        // A debugger that prints for us knows its terminal; a typed option wins.
        let color = match (color, std::env::var("TX_TRACE_COLOR").as_deref()) {
            (Color::Auto, Ok("always")) if path.is_none() => Color::Always,
            (Color::Auto, Ok("never")) => Color::Never,
            (typed, _) => typed,
        };
        Self { format, path, color, width, strict, columns: Vec::new() }
    }

    /// Of the options of a command, in a format that it has.
    pub fn of(row: &Row, typed: options::Output) -> Result<Self, Error> {
        if !row.formats.has(typed.format) {
            return Err(only_reports(typed.format));
        }
        Ok(Self::new(typed.format, typed.printing))
    }

    /// The same with these columns in the table of events.
    pub(super) fn with(self, typed: options::ExtraColumns) -> Self {
        let columns = if typed.wide { ExtraColumn::ALL.to_vec() } else { typed.columns };
        Self { columns, ..self }
    }

    /// Prints an error as the format has it: JSON gets its `error` line as well. A file stays as it was.
    fn report(&self, error: &Error, diagnostics: &Diagnostics) -> Outcome {
        if error.code == Code::BrokenPipe {
            return Outcome::Done;
        }
        let with_data = self.format.has_issues() && self.path.as_deref().is_none_or(sink::is_device);
        // In a debugger's own session there is nowhere to print to but stderr.
        if with_data && let Ok(mut out) = Sink::open(self, None) {
            drop(self.format.write_error(&mut out, error).map(|()| out.finish()));
        }
        diagnostics.error(error)
    }
}

/// The refusal of a format that has no events.
pub(super) fn only_reports(format: Format) -> Error {
    let others = one_of(Format::ALL.into_iter().filter(|f| f.has_events()));
    Error::usage(Code::Usage, format!("--format {} is for reports; events come as {others}", format.name()))
}

/// `table, json or csv`
pub(super) fn one_of(formats: impl Iterator<Item = Format>) -> String {
    let names: Vec<&str> = formats.map(Format::name).collect();
    match names.split_last() {
        Some((last, [first, others @ ..])) => {
            let others: String = others.iter().map(|name| format!(", {name}")).collect();
            format!("{first}{others} or {last}")
        }
        _ => names.concat(),
    }
}

/// What the options say of the clock; the rate may be a symbol.
#[derive(Debug, Default, Clone)]
pub struct Clock {
    /// Direction, period, and the rate where it was given as a number.
    pub options: DecodeOptions,
    hz_symbol: Option<String>,
}

impl Clock {
    /// Takes what this one does not say from another.
    pub(super) fn or(&mut self, other: &Self) {
        let (own, given) = (&mut self.options, &other.options);
        own.direction = own.direction.or(given.direction);
        own.period = own.period.or(given.period);
        own.release = own.release.or(given.release);
        if own.hz.is_none() && self.hz_symbol.is_none() {
            own.hz = given.hz;
            self.hz_symbol.clone_from(&other.hz_symbol);
        }
    }

    /// With the rate, which may have to be read from the target.
    pub fn options(&self, target: &mut Target<'_>) -> Result<DecodeOptions, Error> {
        let mut options = self.options;
        if let Some(symbol) = &self.hz_symbol {
            #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
            let hz = target.variable(symbol).map_err(|e| no_rate(symbol, e))? as f64;
            options.hz = Some(hz).filter(|hz| *hz > 0.0);
        }
        Ok(options)
    }
}

/// `--hz` with a word that is no symbol.
fn no_rate(symbol: &str, error: Error) -> Error {
    if error.code != Code::NoSuchSymbol {
        return error;
    }
    Error::failed(
        Code::NoSuchSymbol,
        format!("--hz {symbol}: neither a rate nor a symbol of this program"),
        "a rate is 72000000, 72M or 32.768k ticks a second; a symbol is a variable that holds it: SystemCoreClock",
    )
}

impl From<options::Clock> for Clock {
    fn from(typed: options::Clock) -> Self {
        let (hz, hz_symbol) = match typed.hz {
            Some(Rate::Hz(hz)) => (Some(hz), None),
            Some(Rate::Symbol(name)) => (None, Some(name)),
            None => (None, None),
        };
        let (direction, period, release) = (typed.direction, typed.period, typed.qnx_version);
        Self { options: DecodeOptions { direction, period, release, hz, ..DecodeOptions::default() }, hz_symbol }
    }
}

/// The newest events that `last` prints without N.
const LAST: Amount = Amount::Events(20);

/// `last`
pub(super) fn last(row: &Row, typed: options::Last) -> Result<Request, Error> {
    let options::Last { count, read: options, columns } = typed;
    let request = match count {
        Some(amount) => question(row, options, Ask::Last(amount), true),
        None => question(row, options, Ask::Last(LAST), false),
    };
    Ok(request?.with(columns))
}

/// `list`
pub(super) fn list(row: &Row, typed: options::List) -> Result<Request, Error> {
    Ok(read(row, typed.read, Ask::List { most: typed.count })?.with(typed.columns))
}

/// The commands that take no filters.
pub(super) fn unfiltered(row: &Row, typed: options::Unfiltered, ask: Ask) -> Result<Request, Error> {
    let options::Unfiltered { words, source, clock, output } = typed;
    let filters = options::Filters::default();
    read(row, options::Read { words, source, filters, clock, output }, ask)
}

/// A question of the commands that read.
fn read(row: &Row, typed: options::Read, ask: Ask) -> Result<Request, Error> {
    question(row, typed, ask, false)
}

/// The same; `counted`: N was given by `-n`.
fn question(row: &Row, typed: options::Read, mut ask: Ask, counted: bool) -> Result<Request, Error> {
    let options::Read { words, source, filters: which, mut clock, output } = typed;
    let files = take_words(row.name, &mut ask, counted, words)?;
    if let (Ask::Show(_), Some(range)) = (&ask, files.iter().find(|file| is_range(file))) {
        let why = format!("show {}: not the sequence number of an event", range.display());
        return Err(Error::usage(Code::Position, why).hint("give each: show 1 2 3; or a range: list --from 1 --to 3"));
    }
    if ask == Ask::Last(Amount::Events(0)) {
        return Err(Error::usage(Code::Usage, "`last 0` prints no event").hint("N is 1 or more: last 50"));
    }
    if ask == Ask::Show(Vec::new()) {
        return Err(Error::usage(Code::Usage, "show needs the sequence number of an event")
            .hint("tx-trace show 42; -1 is the newest event, and `list` prints the numbers"));
    }
    let output = Output::of(row, output)?;
    let previous = source.previous;
    if previous && !matches!(ask, Ask::Last(_) | Ask::List { .. } | Ask::Show(_)) {
        return Err(previous_refused());
    }
    let names = clock.netx;
    let inputs = with_names(inputs(source, files)?, &mut clock);
    let mut question = Question { ask, inputs, filters: filters(which)?, names, clock: clock.into() };
    question.clock.options.previous = previous;
    Ok(Request::new(question, output))
}

/// `--previous` where it means nothing.
pub(super) fn previous_refused() -> Error {
    Error::usage(Code::Usage, "--previous is an option of last, list and show")
}

/// `objects`, and with `--use` a report.
///
/// # Errors
/// Where filters are typed for the list of all objects.
pub fn objects(row: &Row, typed: options::Objects) -> Result<Request, Error> {
    if !typed.usage && typed.read.filters != options::Filters::default() {
        let why = "objects lists all that the trace registered: filters choose events, and need --use";
        return Err(Error::usage(Code::Usage, why).hint("objects --use --object NAME; list --object NAME"));
    }
    let ask = match typed.usage {
        true => Ask::Reports(ReportRequest { names: row.reports.to_vec(), ..ReportRequest::default() }),
        false => Ask::Objects,
    };
    read(row, typed.read, ask)
}

/// The commands that print reports.
pub fn reports(row: &Row, typed: options::Reports) -> Result<Request, Error> {
    let options::Reports { read: options, tracex, every, span: spans } = typed;
    let measures = !every.is_empty() || !spans.is_empty();
    if measures && !row.reports.contains(&Name::Latency) {
        return Err(Error::usage(Code::Usage, "--every and --span are options of latency and report"));
    }
    let is_document = row.reports == Name::ALL && !tracex;
    let request = ReportRequest { names: row.reports.to_vec(), tracex, every, spans, last: 0 };
    read(row, options, if is_document { Ask::Document(request) } else { Ask::Reports(request) })
}

/// Takes N or SEQ out of the words of this command; the rest are files. `counted`: N was given already.
pub(super) fn take_words(
    name: &str,
    ask: &mut Ask,
    mut counted: bool,
    words: Vec<OsString>,
) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for word in words {
        let is_number = values::is_number(&word);
        // A name of a file need not be text; a number is.
        match (&mut *ask, word.to_str()) {
            (Ask::Show(positions), Some(text)) if is_number => {
                positions.push(Position::parse(text).map_err(|e| of_word(name, text, e))?);
            }
            (Ask::Last(amount), Some(text)) if !counted && (is_number || is_amount(text)) => {
                *amount = Amount::parse(text).map_err(|e| of_word(name, text, e))?;
                counted = true;
            }
            (_, Some(text)) if is_number => return Err(stray_number(name, ask, text)),
            _ => files.push(PathBuf::from(word)),
        }
    }
    Ok(files)
}

/// `1-3`, `1..3`, `1,3`: no file of that name is there, and more than one number is meant.
fn is_range(word: &Path) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let text = word.to_str().unwrap_or_default();
    let parts = ["..", "-", ","].iter().find_map(|between| text.split_once(between));
    parts.is_some_and(|(first, last)| is_digits(first) && is_digits(last)) && !word.exists()
}

/// `5ms`, `1200t`
fn is_amount(text: &str) -> bool {
    text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) && Amount::parse(text).is_ok()
}

/// An error with the word of the command line in front.
fn of_word(name: &str, text: &str, error: Error) -> Error {
    let hint = match text.strip_prefix('-').filter(|n| Amount::parse(n).is_ok()) {
        Some(n) if name != "show" => format!("did you mean `{name} {n}`?"),
        _ => error.hint,
    };
    Error::usage(Code::Position, format!("{name} {text}: {}", error.message)).hint(hint)
}

/// Fails for a word of `last` that is no file, and could be meant as N: `5min`, `five`.
pub(super) fn refuse_neither(files: &[PathBuf]) -> Result<(), Error> {
    let is_digit_first = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let like_n = |text: &str| {
        let number = is_digit_first(text);
        text.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || number && matches!(c, '.' | ','))
    };
    let Some(file) = files.iter().find(|file| file.to_str().is_some_and(like_n) && !file.exists()) else {
        return Ok(());
    };
    let word = file.display();
    let (code, of_a_thread) = match file.to_str().is_some_and(is_digit_first) {
        true => (Code::Position, String::new()),
        false => (Code::File, format!("; events of a thread: last --thread {word}")),
    };
    Err(Error::usage(code, format!("last {word}: neither a number of events nor a time, and not a file"))
        .hint(format!("N is 50 (events), 1200t (ticks) or 5ms (time in ns, us, ms, s){of_a_thread}")))
}

/// A number that the command does not take.
fn stray_number(name: &str, ask: &Ask, text: &str) -> Error {
    if matches!(ask, Ask::Last(_)) {
        return Error::usage(Code::Usage, format!("{name} takes one N, and {text} is a second one"))
            .hint(format!("a file of this name is ./{text}"));
    }
    let n = text.trim_start_matches('-');
    let meant = if name == "list" { format!("`list -n {n}` or `last {n}`") } else { format!("`last {n}`") };
    Error::usage(Code::Usage, format!("{name} takes no number: {text}"))
        .hint(format!("did you mean {meant}? One event is `show {text}`, a file of this name is ./{text}"))
}

/// A variable of the environment that is set and not empty.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The source. What is typed wins over the environment.
pub fn inputs(s: options::Source, files: Vec<PathBuf>) -> Result<Inputs, Error> {
    let kinds = [
        (s.remote.is_some(), "--remote"),
        (s.core.is_some(), "--core"),
        (!s.image.is_empty(), "--image"),
        (!s.trace.is_empty(), "--trace"),
    ];
    let kinds: Vec<&str> = kinds.into_iter().filter(|(typed, _)| *typed).map(|(_, name)| name).collect();
    if kinds.len() > 1 {
        return Err(Error::usage(Code::Usage, format!("{} name different sources: give one", kinds.join(" and "))));
    }
    let from_environment =
        || variable("TX_TRACE_REMOTE").filter(|_| kinds.is_empty() && files.is_empty())?.into_string().ok();
    let source = if let Some(endpoint) = s.remote.or_else(from_environment) {
        SourceSpec::Remote(remote(&endpoint, s.timeout, s.leave, s.max_halt)?)
    } else if let Some(core) = s.core {
        SourceSpec::Core(core)
    } else if !s.image.is_empty() {
        SourceSpec::Images(s.image)
    } else if !s.trace.is_empty() {
        let input = |p: PathBuf| if p.as_os_str() == "-" { TraceInput::Stdin } else { TraceInput::File(p) };
        SourceSpec::Traces(s.trace.into_iter().map(input).collect())
    } else {
        SourceSpec::Files
    };
    let stdio = matches!(&source, SourceSpec::Remote(r) if r.endpoint == Endpoint::Stdio);
    Ok(Inputs {
        elf: s.elf,
        elf_default: variable("TX_TRACE_ELF").map(PathBuf::from),
        source,
        files,
        symbols: s.symbol,
        registers: GivenRegisters { typed: s.reg, shown: s.debugger_reg },
        header: s.header,
        scan: s.scan,
        load_offset: s.load_offset,
        entry: entry(s.entry, stdio)?,
        format: s.format_in,
        ..Inputs::default()
    })
}

/// The entry point of the debugger at the other end of stdin and stdout: in another source the program may be
/// elsewhere. The debugger puts it into the environment, which every command takes.
fn entry(typed: Option<u64>, stdio: bool) -> Result<Option<u64>, Error> {
    let text = variable("TX_TRACE_ENTRY").filter(|_| stdio && typed.is_none());
    let Some(text) = text.and_then(|text| text.into_string().ok()) else { return Ok(typed) };
    let entry = values::number(&text).map_err(|e| Error::usage(e.code, format!("--entry {text}: {e}")))?;
    Ok(Some(entry))
}

/// A live target.
fn remote(
    endpoint: &str,
    timeout: std::time::Duration,
    leave: Option<Leave>,
    max_halt: Option<std::time::Duration>,
) -> Result<RemoteInput, Error> {
    let endpoint =
        Endpoint::parse(endpoint).map_err(|e| Error::from(e).hint("`tx-trace help endpoints` lists the forms"))?;
    let leave = match leave {
        // Where memory is read without a halt there is nothing to leave.
        Some(Leave::Running | Leave::Halted) if !endpoint.is_rsp() => {
            return Err(Error::usage(
                Code::Usage,
                format!("--leave: {endpoint} only reads memory, it neither halts nor resumes"),
            ));
        }
        Some(typed) => typed,
        None => match std::env::var("TX_TRACE_LEAVE").ok().filter(|value| !value.is_empty()) {
            Some(value) => Leave::from_str(&value, false).map_err(|_| {
                Error::usage(Code::Usage, format!("TX_TRACE_LEAVE={value}: not one of as-found, running, halted"))
            })?,
            None => Leave::AsFound,
        },
    };
    Ok(RemoteInput { endpoint, timeout, leave, max_halt })
}

/// The inputs with what names the application's events.
pub(super) fn with_names(inputs: Inputs, clock: &mut options::Clock) -> Inputs {
    let (events, event_enums) = (std::mem::take(&mut clock.user.events), enum_names(&clock.user.event_enum));
    Inputs { events, event_enums, ..inputs }
}

/// `--event-enum A,B`, and twice.
pub(super) fn enum_names(options: &[String]) -> Vec<String> {
    options.iter().flat_map(|o| o.split(',')).map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
}

/// An error of an option's value, with both in front.
fn of_option(option: &str, value: &str, error: Error) -> Error {
    Error::usage(Code::Filter, format!("{option} {value}: {}", error.message)).hint(error.hint)
}

/// Which events.
pub(super) fn filters(f: options::Filters) -> Result<Filters, Error> {
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
            all.add(key, &value).map_err(|e| of_option(key.option(), &value, e))?;
        }
    }
    let position = |option: &str, text: &Option<String>| match text {
        Some(text) => Position::parse(text).map(Some).map_err(|e| of_option(option, text, e)),
        None => Ok(None),
    };
    (all.from, all.to) = (position("--from", &f.from)?, position("--to", &f.to)?);
    if let (Some(from), Some(to)) = (&f.from, &f.to)
        && all.from.zip(all.to).is_some_and(|(first, last)| first.is_after(last))
    {
        return Err(Error::usage(Code::Filter, format!("--from {from} is after --to {to}: no event is between them"))
            .hint(format!("did you mean --from {to} --to {from}?")));
    }
    if let Some(around) = &f.around {
        all.add_around(around).map_err(|e| of_option("--around", around, e))?;
    }
    Ok(all)
}
