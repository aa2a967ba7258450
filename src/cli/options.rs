//! The options, in groups that commands share. Each value is parsed here, once, into the type that the program uses.

mod pictures;
mod setup;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValue, TypedValueParser};
use clap::{Args, ValueEnum};
pub use pictures::{Export, ExportFormat, Picture, Timeline};
pub use setup::Setup;

use super::events;
use super::values::{self, Place, Rate};
use crate::analysis::Name;
use crate::bridge::Mode;
use crate::catalogue::Names;
use crate::explain::Confidence;
use crate::format::Format as TraceFormat;
use crate::mem::Region;
use crate::output::{ExtraColumn, Format};
use crate::query::Amount;
use crate::rsp::Leave;
use crate::session::Image;
use crate::trace::Direction;

/// The group of the options that say where in memory the trace is.
const PLACE: &str = "Where the trace is";
/// The group of the options for live targets.
const LIVE: &str = "Live target";

/// Options of the commands that read a target.
#[derive(Args)]
pub struct Read {
    /// N, SEQ and FILEs
    #[arg(value_name = "N|SEQ|FILE", allow_negative_numbers = true)]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub filters: Filters,
    #[command(flatten)]
    pub clock: Clock,
    #[command(flatten)]
    pub output: Output,
}

/// Options of `last`.
#[derive(Args)]
pub struct Last {
    /// How many, or how long: the same as the argument N
    #[arg(short = 'n', value_name = "N", value_parser = values::amount, allow_hyphen_values = true)]
    pub count: Option<Amount>,
    #[command(flatten)]
    pub read: Read,
    #[command(flatten)]
    pub columns: ExtraColumns,
}

/// Options of `list`.
#[derive(Args)]
pub struct List {
    /// At most N events: the first that the filters keep (`last` prints the newest)
    #[arg(short = 'n', value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    pub count: Option<u64>,
    #[command(flatten)]
    pub read: Read,
    #[command(flatten)]
    pub columns: ExtraColumns,
}

/// Which columns the table of events has.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct ExtraColumns {
    /// More columns in the table of events: time, stamp, priority, threshold
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::column)]
    pub columns: Vec<ExtraColumn>,
    /// All columns in the table of events
    #[arg(long)]
    pub wide: bool,
}

/// Options of the commands that take no filters.
#[derive(Args)]
pub struct Unfiltered {
    /// SEQ and FILEs
    #[arg(value_name = "SEQ|FILE", allow_negative_numbers = true)]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub clock: Clock,
    #[command(flatten)]
    pub output: Output,
}

/// Options of `help`.
#[derive(Args)]
pub struct Help {
    /// A command or a topic
    #[arg(value_name = "COMMAND|TOPIC")]
    pub word: Option<String>,
}

/// Options of `objects`.
#[derive(Args)]
pub struct Objects {
    /// How each queue, lock, semaphore and pool was used, and its high-water mark as far as the trace shows
    #[arg(long = "use")]
    pub usage: bool,
    #[command(flatten)]
    pub read: Read,
}

/// Options of `threads`.
#[derive(Args)]
pub struct Threads {
    /// FILEs
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    /// All objects after the threads, not only those that are held, waited for, full or used up
    #[arg(long)]
    pub all: bool,
    /// Backtraces too: of all threads, or of those of these names
    #[arg(
        long,
        value_name = "THREAD,...",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = ""
    )]
    pub bt: Option<Vec<String>>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

/// Options of `explain`.
#[derive(Args)]
pub struct Explain {
    /// FILEs
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    /// Hints too, what was checked, and what is wrong with the source
    #[arg(long)]
    pub all: bool,
    /// Exit with 1 if a finding is at least this certain: proven, likely or hint
    #[arg(long, value_name = "HOW", value_parser = confidence)]
    pub fail_on: Option<Confidence>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let all = [Confidence::Proven, Confidence::Likely, Confidence::Hint];
    let found = all.into_iter().find(|confidence| confidence.name() == text);
    found.ok_or_else(|| "it is proven, likely or hint".to_owned())
}

/// Options of the reports.
#[derive(Args)]
pub struct Reports {
    /// The numbers that TraceX gives, by its own definitions
    #[arg(long)]
    pub tracex: bool,
    /// Period and jitter of a repeating event (latency; repeatable)
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true)]
    pub every: Vec<String>,
    /// Time from an event to the next of another: A..B, or A..B:FIELD where a field must be the same (latency;
    /// repeatable)
    #[arg(long, value_name = "A..B[:FIELD]", allow_hyphen_values = true)]
    pub span: Vec<String>,
    #[command(flatten)]
    pub read: Read,
}

/// Where the bytes come from.
#[derive(Args)]
#[command(next_help_heading = "Source")]
pub struct Source {
    /// The program's ELF file: where the trace is, and names
    #[arg(long, value_name = "FILE")]
    pub elf: Option<PathBuf>,
    /// A live target: its GDB server, also called stub (:3333, host:port, /dev/ttyX[@baud], unix:PATH, |COMMAND, stdio:), or memory alone
    /// without a halt (openocd:HOST:PORT, qmp:HOST:PORT, qmp:PATH)
    #[arg(long, value_name = "ENDPOINT", allow_hyphen_values = true)]
    pub remote: Option<String>,
    /// An ELF core file
    #[arg(long, value_name = "FILE")]
    pub core: Option<PathBuf>,
    /// A memory dump, and the address of its first byte; - for standard input (repeatable)
    #[arg(long, value_name = "FILE[@ADDR]", allow_hyphen_values = true, value_parser = OsStringValueParser::new().try_map(values::image))]
    pub image: Vec<Image>,
    /// A trace buffer alone; - for standard input (repeatable: buffers of one run, oldest first)
    #[arg(long, value_name = "FILE|-", allow_hyphen_values = true)]
    pub trace: Vec<PathBuf>,
    /// The address of a symbol that the ELF does not have (repeatable)
    #[arg(long, value_name = "NAME=ADDR", value_parser = values::symbol, help_heading = PLACE)]
    pub symbol: Vec<(String, u64)>,
    /// A register of the CPU that stopped, as the crash log printed it: pc=0x8001234 (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::register, help_heading = PLACE)]
    pub reg: Vec<(String, u64)>,
    /// A register as the debugger shows it; one that is not known here is left out
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::register, hide = true)]
    pub debugger_reg: Vec<(String, u64)>,
    /// Where the trace begins or is described: ThreadX header, UIA logger, any buffer of a QNX ring
    #[arg(long, value_name = "ADDR", value_parser = values::number, help_heading = PLACE)]
    pub header: Option<u64>,
    /// Search all memory for a trace, and ignore the symbols
    #[arg(long, help_heading = PLACE)]
    pub scan: bool,
    /// The run before the last start, as far as this run has not overwritten it
    #[arg(long, help_heading = PLACE)]
    pub previous: bool,
    /// Load address minus link address of a position-independent ELF
    #[arg(long, value_name = "N", value_parser = values::offset, help_heading = PLACE)]
    pub load_offset: Option<u64>,
    /// The entry point that the debugger sees
    #[arg(long, value_name = "ADDR", value_parser = values::number, hide = true, help_heading = PLACE)]
    pub entry: Option<u64>,
    /// The system that wrote the trace: threadx, uia, qnx
    #[arg(long, value_name = "FORMAT", value_parser = values::trace_format, help_heading = PLACE)]
    pub format_in: Option<&'static dyn TraceFormat>,
    /// How long to wait for the connection, and for each reply: 2, 500ms
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::timeout, help_heading = LIVE)]
    pub timeout: Duration,
    /// How to leave it; as-found resumes what connecting halted, and is the default unless TX_TRACE_LEAVE is set
    #[arg(long, value_name = "HOW", overrides_with = "leave", help_heading = LIVE)]
    pub leave: Option<Leave>,
    /// The longest that a running target may be halted: 50ms, 2s
    #[arg(long, value_name = "TIME", overrides_with = "max_halt", value_parser = values::time, help_heading = LIVE)]
    pub max_halt: Option<Duration>,
}

impl ValueEnum for Leave {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::AsFound, Self::Running, Self::Halted]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::AsFound => PossibleValue::new("as-found").help(
                "What was halted stays halted, what our connecting halted is resumed; where that is not known it stays halted",
            ),
            Self::Running => PossibleValue::new("running").help("It is resumed"),
            Self::Halted => PossibleValue::new("halted").help("It stays halted"),
        })
    }
}

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::On, Self::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Auto => PossibleValue::new("auto")
                .help("Where the ELF has ThreadX's symbols, and the stub shows no threads of an RTOS"),
            Self::On => PossibleValue::new("on").help("Where the ELF has ThreadX's symbols, which it must have"),
            Self::Off => PossibleValue::new("off").help("Never: every byte is forwarded as it is"),
        })
    }
}

/// Which events.
#[derive(Args, Default, PartialEq, Eq)]
#[command(next_help_heading = "Filters")]
pub struct Filters {
    /// Events of these threads: names, globs or addresses
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub thread: Vec<String>,
    /// These events: names, globs, ids or ranges of ids
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true)]
    pub event: Vec<String>,
    /// Events of these classes: queue, tx_queue, tx, fx, nx, ux, user
    #[arg(long, value_name = "CLASS", allow_hyphen_values = true)]
    pub class: Vec<String>,
    /// Events about these objects: names, globs or addresses
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub object: Vec<String>,
    /// Events from these contexts: thread, isr, init
    #[arg(long, value_name = "KIND", allow_hyphen_values = true)]
    pub context: Vec<String>,
    /// Events of these cores
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub core_id: Vec<String>,
    /// Events with this argument, by its name or i1 to i4; also != < >
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    pub arg: Vec<String>,
    /// From this event on: SEQ, -N from the newest, ticks 1200t, time 1.5ms
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Up to and including this event
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The events around this one
    #[arg(long, value_name = "SEQ", allow_hyphen_values = true)]
    pub around: Option<String>,
}

/// What stamps mean, and names.
#[derive(Args)]
#[command(next_help_heading = "Clock and names")]
pub struct Clock {
    /// Ticks of the trace's clock in a second: 72000000, 72M, or a symbol that holds it
    #[arg(long, value_name = "HZ|SYMBOL", value_parser = values::rate)]
    pub hz: Option<Rate>,
    /// Which way the clock counts: up, down
    #[arg(long, value_name = "WAY", value_parser = values::direction)]
    pub direction: Option<Direction>,
    /// Ticks until the clock starts over
    #[arg(long, value_name = "TICKS", value_parser = values::period)]
    pub period: Option<u64>,
    /// Whose events the ids 441 to 448 are: those of NetX duo or classic
    #[arg(long, value_name = "STACK", default_value = "duo", value_parser = values::netx)]
    pub netx: Names,
    /// The release of QNX that wrote it: 6.4, 7.1, 8.0 (7 and 8 are not verified)
    #[arg(long, value_name = "RELEASE", value_parser = values::qnx_release)]
    pub qnx_version: Option<u16>,
    #[command(flatten)]
    pub user: UserEvents,
}

/// What the application's events mean.
#[derive(Args)]
pub struct UserEvents {
    /// What the application's events mean: our TSV, a .trxc, or a C header (repeatable)
    #[arg(long, value_name = "FILE")]
    pub events: Vec<PathBuf>,
    /// The ELF's enum that names the application's events (repeatable)
    #[arg(long, value_name = "NAME")]
    pub event_enum: Vec<String>,
}

/// How to print.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// How to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    #[command(flatten)]
    pub printing: Printing,
}

/// Where to print, and how it looks.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Printing {
    /// Write to a file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Width of the table, in columns
    #[arg(long, value_name = "N", value_parser = values::width)]
    pub width: Option<usize>,
    /// Exit with 2 where something was lost
    #[arg(long)]
    pub strict: bool,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let of = if self.has_events() { "" } else { ", of reports" };
        Some(PossibleValue::new(self.name()).help(format!("{}{of}", self.help())))
    }
}

/// When to use colour.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that has it
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Options of `events`.
#[derive(Args)]
pub struct Events {
    /// Names, globs, ids or ranges; without any, all events
    #[arg(value_name = "EVENT")]
    pub words: Vec<String>,
    /// Only the application's events
    #[arg(long)]
    pub user: bool,
    /// The program whose enums and macros name its events
    #[arg(long, value_name = "FILE")]
    pub elf: Option<PathBuf>,
    #[command(flatten)]
    pub names: UserEvents,
    /// Only of these classes
    #[arg(long, value_name = "CLASS")]
    pub class: Vec<String>,
    /// The system that wrote the trace: threadx, uia, qnx
    #[arg(long, value_name = "FORMAT", value_parser = values::trace_format)]
    pub format_in: Option<&'static dyn TraceFormat>,
    /// Whose events the ids 441 to 448 are: those of NetX duo or classic
    #[arg(long, value_name = "STACK", default_value = "duo", value_parser = values::netx)]
    pub netx: Names,
    /// How to print; tsv and trxc are of the application's events
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = events::formats())]
    pub format: events::Format,
    #[command(flatten)]
    pub printing: Printing,
}

/// Options of `dump`.
#[derive(Args)]
pub struct Dump {
    /// FILEs, recognised by their content
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub source: Source,
    /// Write to this file: .trx, the bytes from the trace's header to the end of its ring; .core, an ELF core with
    /// registers, trace, kernel objects, stacks, .data, .bss and RAM
    #[arg(short, long, value_name = "FILE.trx|FILE.core", help_heading = "Output")]
    pub output: PathBuf,
    /// More memory for the core, both ends included (repeatable)
    #[arg(long, value_name = "ADDR..ADDR", value_parser = values::range, help_heading = "Output")]
    pub range: Vec<Region>,
}

/// Options of `serve`.
#[derive(Args)]
pub struct Serve {
    /// FILEs, recognised by their content
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    /// Where debuggers connect to: :PORT of this machine, or HOST:PORT
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":3333", conflicts_with = "stdio", value_parser = values::listen)]
    pub listen: SocketAddr,
    /// Serve the debugger that started this: `(gdb) target remote | tx-trace serve --stdio ...`
    #[arg(long)]
    pub stdio: bool,
    /// End when the first debugger has disconnected
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub clock: Clock,
}

/// Options of `control`.
#[derive(Args)]
#[command(after_help = "show | on CLASS... | off CLASS... | only CLASS... | pause | resume | mark ID [I1..I4]
In GDB also: enable BUFFER SIZE [ENTRIES] | disable: the kernel's own functions.
filter and unfilter are off and on, as in the kernel's API.")]
pub struct Control {
    /// What to do, and with what: `show`, `off queue,mutex`, `mark 4096 1 2`
    #[arg(value_name = "ACTION")]
    pub words: Vec<String>,
    /// Write without asking
    #[arg(long)]
    pub yes: bool,
    /// Memory that is RAM, both ends included, where no ELF says so (repeatable)
    #[arg(long, value_name = "ADDR..ADDR", value_parser = values::range)]
    pub range: Vec<Region>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

/// Options of `bridge`.
#[derive(Args)]
pub struct Bridge {
    /// Where debuggers connect to: :PORT of this machine, or HOST:PORT
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":3334", value_parser = values::listen)]
    pub listen: SocketAddr,
    /// End when the first debugger has disconnected
    #[arg(long)]
    pub once: bool,
    /// Show ThreadX's threads to the debugger
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub threads: Mode,
    /// More memory that may be read to find them, both ends included (repeatable)
    #[arg(long, value_name = "ADDR..ADDR", value_parser = values::range)]
    pub range: Vec<Region>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub clock: Clock,
}

/// Options of `follow`.
#[derive(Args)]
pub struct Follow {
    /// Begin with the newest N: the same as the argument N
    #[arg(short = 'n', value_name = "N", value_parser = values::count, allow_hyphen_values = true, help_heading = "Following")]
    pub count: Option<u64>,
    #[command(flatten)]
    pub read: Read,
    #[command(flatten)]
    pub columns: ExtraColumns,
    /// Begin with all events that the trace holds already (N begins with the newest N)
    #[arg(long, help_heading = "Following")]
    pub from_start: bool,
    /// Halt the target at this interval to read it: for stubs that read no memory while it runs
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = "Following")]
    pub halt_every: Option<Duration>,
    /// Wait for a target that is not there yet or has disappeared, and for a trace that is not enabled yet
    #[arg(long, help_heading = "Following")]
    pub wait: bool,
    /// End with this event: exit 0 where it came, 1 where it did not (repeatable)
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true, help_heading = "Following")]
    pub until: Vec<String>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = values::time, help_heading = "Following")]
    pub limit: Option<Duration>,
    /// Print this report in place of the events, over each interval (repeatable)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = values::report, help_heading = "Following")]
    pub report: Vec<Name>,
    /// The interval of --report (1s)
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = "Following")]
    pub every: Option<Duration>,
    /// Where the run before ended, as it printed it; `now` begins
    #[arg(long, value_name = "PLACE", value_parser = values::place, hide = true)]
    pub after: Option<Place>,
}

/// Options of `demo`.
#[derive(Args)]
pub struct Demo {
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub columns: ExtraColumns,
    /// Write the target's files to DIR, under the names that the examples use: app.elf, app.core, ram.bin ...
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
}

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Args)]
pub struct Man {
    /// Whose page
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub word: Option<String>,
    /// Write the pages of the program and of all commands to DIR
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write to a file, - for standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "dir")]
    pub output: Option<PathBuf>,
}

/// Options of `gdb`.
#[derive(Args)]
pub struct Gdb {
    /// The one for a GDB without Python
    #[arg(long)]
    pub no_python: bool,
    /// Write it to a directory for your user's data, and print the lines that load it
    #[arg(long)]
    pub install: bool,
    /// The commands and their options, for the completion of GDB's command
    #[arg(long, hide = true)]
    pub commands: bool,
}
