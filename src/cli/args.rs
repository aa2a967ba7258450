//! What was typed. Nothing is opened here, and nothing is decided.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// Reads an RTOS's event-trace buffer out of a live target, a core file or a memory dump.
#[derive(Debug, Parser)]
#[command(name = "tx-trace", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "Exit: 0 done; 1 looked, and the answer is no; 2 could not look.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The newest N events, oldest first
    Last(Read),
    /// Every event that the filters keep
    List(Read),
    /// Events in full, by sequence number; -1 is the newest
    Show(Read),
    /// What was found: source, layout, clock, kernel, and whether ELF and memory match
    Info(Read),
    /// The objects that the trace registered: threads, queues, mutexes and the rest
    Objects(Objects),
    /// The threads as they stand in memory now: what each waits for, who holds it, stacks, where it stands
    Threads(Threads),
    /// Who had the processor, and for how long
    Profile(Reports),
    /// Context switches, preemptions, suspensions, interrupts; file system and network where they take part
    Stats(Reports),
    /// How often each event was inserted, and by whom
    Services(Reports),
    /// The lowest that each thread's stack pointer was seen
    Stack(Reports),
    /// Priority inversions: who waited for whom, who ran meanwhile, how long
    Inversions(Reports),
    /// How long each thread waited, for what, and who woke it
    Blocked(Reports),
    /// From ready to running, interrupts, repeating events, spans between events
    Latency(Reports),
    /// All reports
    Report(Reports),
    /// The catalogue of events: ids, names, fields
    Events(Events),
    /// New events as they come: while the target runs, or by short halts
    Follow(Follow),
    /// The trace buffer's bytes as they lie (`dump -o FILE.trx`), or all of one stop (`dump -o FILE.core`)
    Dump(Dump),
    /// Makes a core or a dump the target of a debugger: `(gdb) target remote :3333`
    Serve(Serve),
    /// How the trace stands, and the few writes to it: show, on, off, only, pause, resume, mark
    Control(Control),
    /// Stands between a debugger and a live stub, and answers `monitor tx-trace last 50`
    Bridge(Bridge),
    /// Reads a built-in dead target, without hardware
    Demo(Demo),
    /// Prints the GDB command: `tx-trace gdb > tx_trace.py`, then `(gdb) source tx_trace.py`
    Gdb(Gdb),
}

/// Options of the commands that read a target.
#[derive(Debug, Default, ClapArgs)]
pub struct Read {
    /// N for `last` (also a time: 5ms), SEQ for `show`, and FILEs, told from their content (a file named 50 is ./50)
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

/// Options of `objects`.
#[derive(Debug, Default, ClapArgs)]
pub struct Objects {
    #[command(flatten)]
    pub read: Read,
    /// How each queue, lock, semaphore and pool was used, and its high-water mark as far as the trace shows
    #[arg(long = "use")]
    pub usage: bool,
}

/// Options of `threads`.
#[derive(Debug, Default, ClapArgs)]
pub struct Threads {
    /// FILEs, told from their content
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    /// All objects below the threads, not just what is held, waited for, full or used up
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

/// Options of the reports.
#[derive(Debug, Default, ClapArgs)]
pub struct Reports {
    #[command(flatten)]
    pub read: Read,
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
}

/// Where the bytes come from.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Source")]
pub struct Source {
    /// The program's ELF file: where the trace is, and names
    #[arg(long, value_name = "FILE")]
    pub elf: Option<PathBuf>,
    /// A GDB stub: host:port, :port, /dev/ttyX[@baud], unix:PATH, |COMMAND, stdio:; memory alone, without a halt:
    /// openocd:HOST:PORT, qmp:HOST:PORT|PATH
    #[arg(long, value_name = "ENDPOINT", allow_hyphen_values = true)]
    pub remote: Option<String>,
    /// An ELF core file
    #[arg(long, value_name = "FILE")]
    pub core: Option<PathBuf>,
    /// A memory dump, and where its first byte belongs (repeatable)
    #[arg(long, value_name = "FILE[@ADDR]")]
    pub image: Vec<OsString>,
    /// A trace buffer alone, - for standard input (repeatable: buffers of one run, oldest first)
    #[arg(long, value_name = "FILE|-", allow_hyphen_values = true)]
    pub trace: Vec<PathBuf>,
    /// The address of a symbol that the ELF does not tell (repeatable)
    #[arg(long, value_name = "NAME=ADDR")]
    pub symbol: Vec<String>,
    /// A register of the CPU that stopped, as the crash log printed it: pc=0x8001234 (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub reg: Vec<String>,
    /// A register as the debugger shows it; one that is not known here is left out
    #[arg(long, value_name = "NAME=VALUE", hide = true)]
    pub debugger_reg: Vec<String>,
    /// Where the trace begins or is described: ThreadX header, UIA logger, any buffer of a QNX ring
    #[arg(long, value_name = "ADDR")]
    pub header: Option<String>,
    /// Search all memory for a trace, whatever the symbols say
    #[arg(long)]
    pub scan: bool,
    /// The run before the last start, as far as this one has not written over it
    #[arg(long)]
    pub previous: bool,
    /// Load address minus link address of a position-independent ELF
    #[arg(long, value_name = "N")]
    pub load_offset: Option<String>,
    /// The entry point that the debugger sees
    #[arg(long, value_name = "ADDR", hide = true)]
    pub entry: Option<String>,
    /// The system that wrote the trace: threadx, uia, qnx
    #[arg(long, value_name = "FORMAT")]
    pub format_in: Option<String>,
    /// How long to wait for the connection, and for each reply
    #[arg(long, value_name = "SECONDS", default_value = "2")]
    pub timeout: String,
    /// How to leave a live target: as-found unless TX_TRACE_LEAVE says otherwise
    #[arg(long, value_name = "HOW", overrides_with = "leave")]
    pub leave: Option<Leave>,
    /// The longest that a running target may be halted: 50ms, 2s
    #[arg(long, value_name = "TIME", overrides_with = "max_halt")]
    pub max_halt: Option<String>,
}

/// How to leave a live target.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Leave {
    /// What was halted stays halted, what our connecting halted runs on; where that is not known it stays halted
    #[default]
    AsFound,
    /// It runs on
    Running,
    /// It stays halted
    Halted,
}

/// Which events.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Filters (a comma list is or; different filters are and; ! in front excludes)")]
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
    /// Up to this event, with it
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The events around this one
    #[arg(long, value_name = "SEQ", allow_hyphen_values = true)]
    pub around: Option<String>,
}

/// What stamps mean, and names.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Clock and names")]
pub struct Clock {
    /// Ticks in a second: 72000000, 72M, or a symbol that holds it
    #[arg(long, value_name = "HZ|SYMBOL")]
    pub hz: Option<String>,
    /// Which way the clock counts: up, down
    #[arg(long, value_name = "WAY")]
    pub direction: Option<String>,
    /// Ticks until the clock starts over
    #[arg(long, value_name = "TICKS")]
    pub period: Option<String>,
    /// Whose events the ids 441 to 448 are: those of NetX duo or classic
    #[arg(long, value_name = "STACK", default_value = "duo")]
    pub netx: String,
    /// The release of QNX that wrote it: 6.4, 7.1, 8.0 (7 and 8 are not verified)
    #[arg(long, value_name = "RELEASE")]
    pub qnx_version: Option<String>,
    #[command(flatten)]
    pub user: UserEvents,
}

/// What the application's events mean.
#[derive(Debug, Default, ClapArgs)]
pub struct UserEvents {
    /// What the application's events mean: our TSV, a .trxc, or a C header (repeatable)
    #[arg(long, value_name = "FILE")]
    pub events: Vec<PathBuf>,
    /// The ELF's enum that names the application's events (repeatable)
    #[arg(long, value_name = "NAME")]
    pub event_enum: Vec<String>,
}

/// How to print.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// How to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// Write to a file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Width of the table, in columns
    #[arg(long, value_name = "N")]
    pub width: Option<String>,
    /// Exit with 2 where something was lost
    #[arg(long)]
    pub strict: bool,
}

/// Output formats.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// JSON Lines
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown, of reports
    Md,
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
#[derive(Debug, ClapArgs)]
pub struct Events {
    /// Names, globs, ids or ranges; all without any
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
    #[arg(long, value_name = "FORMAT")]
    pub format_in: Option<String>,
    /// Whose events the ids 441 to 448 are: those of NetX duo or classic
    #[arg(long, value_name = "STACK", default_value = "duo")]
    pub netx: String,
    /// How to print; tsv and trxc are of the application's events
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: EventsFormat,
    /// Write to a file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Width of the table, in columns
    #[arg(long, value_name = "N")]
    pub width: Option<String>,
    /// Exit with 2 where something was lost
    #[arg(long)]
    pub strict: bool,
}

/// Formats of a list of events.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventsFormat {
    /// For people
    #[default]
    Table,
    /// JSON Lines
    Json,
    /// Comma-separated values
    Csv,
    /// Markdown
    Md,
    /// The application's events as `--events` reads them
    Tsv,
    /// The application's events as TraceX reads them
    Trxc,
}

/// Options of `dump`.
#[derive(Debug, ClapArgs)]
pub struct Dump {
    /// FILEs, told from their content
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub source: Source,
    /// Write to this file: .trx, the bytes from the trace's header to the end of its ring; .core, an ELF core with
    /// registers, trace, kernel objects, stacks, .data, .bss and RAM
    #[arg(short, long, value_name = "FILE.trx|FILE.core", help_heading = "Output")]
    pub output: PathBuf,
    /// Memory that goes into the core as well, both ends included (repeatable)
    #[arg(long, value_name = "ADDR..ADDR", help_heading = "Output")]
    pub range: Vec<String>,
}

/// Options of `serve`.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    /// FILEs, told from their content
    #[arg(value_name = "FILE")]
    pub words: Vec<OsString>,
    /// Where debuggers connect to: :PORT of this machine, or HOST:PORT
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":3333", conflicts_with = "stdio")]
    pub listen: String,
    /// Serve the debugger that started this: `(gdb) target remote | tx-trace serve --stdio ...`
    #[arg(long)]
    pub stdio: bool,
    /// End when the first debugger has gone
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub clock: Clock,
}

/// Options of `control`.
#[derive(Debug, ClapArgs)]
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
    #[arg(long, value_name = "ADDR..ADDR")]
    pub range: Vec<String>,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

/// Options of `bridge`.
#[derive(Debug, ClapArgs)]
pub struct Bridge {
    /// Where debuggers connect to: :PORT of this machine, or HOST:PORT
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":3334")]
    pub listen: String,
    /// End when the first debugger has gone
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub clock: Clock,
}

/// Options of `follow`.
#[derive(Debug, ClapArgs)]
pub struct Follow {
    #[command(flatten)]
    pub read: Read,
    /// Begin with all that is there already (N begins with the newest N)
    #[arg(long, help_heading = "Following")]
    pub from_start: bool,
    /// Halt the target for each look, so often: for stubs that read no memory while it runs
    #[arg(long, value_name = "TIME", help_heading = "Following")]
    pub halt_every: Option<String>,
    /// Wait for a target that is not there yet, or not any more, and for a trace that is not enabled yet
    #[arg(long, help_heading = "Following")]
    pub wait: bool,
    /// End with this event: exit 0 where it came, 1 where it did not (repeatable)
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true, help_heading = "Following")]
    pub until: Vec<String>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", help_heading = "Following")]
    pub limit: Option<String>,
    /// Print this report in place of the events, over each interval (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Following")]
    pub report: Vec<String>,
    /// The interval of --report (1s)
    #[arg(long, value_name = "TIME", help_heading = "Following")]
    pub every: Option<String>,
    /// Where a look before ended
    #[arg(long, value_name = "PLACE", hide = true)]
    pub after: Option<String>,
}

/// Options of `demo`.
#[derive(Debug, ClapArgs)]
pub struct Demo {
    #[command(flatten)]
    pub output: Output,
}

/// Options of `gdb`.
#[derive(Debug, ClapArgs)]
pub struct Gdb {
    /// The one for a GDB without Python
    #[arg(long)]
    pub no_python: bool,
    /// Write it to a place of its own, and print the lines that load it
    #[arg(long)]
    pub install: bool,
}

/// Parses a command line without the program's name.
///
/// # Errors
/// clap's own, help and version among them.
pub fn parse(words: &[OsString]) -> Result<Args, clap::Error> {
    let program = OsString::from("tx-trace");
    Args::try_parse_from(std::iter::once(&program).chain(words))
}

/// Parses the same, and tells the ids of what was typed behind the command.
///
/// # Errors
/// clap's own.
pub fn parse_typed(words: &[OsString]) -> Result<(Args, Vec<String>), clap::Error> {
    let program = OsString::from("tx-trace");
    let definition = Args::command();
    let matches = definition.clone().try_get_matches_from(std::iter::once(&program).chain(words))?;
    let typed = matches.subcommand().map_or_else(Vec::new, |(name, given)| {
        let known = definition.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
        let ids = known.map(|a| a.get_id().as_str());
        ids.filter(|id| given.value_source(id) == Some(ValueSource::CommandLine)).map(str::to_owned).collect()
    });
    Ok((Args::from_arg_matches(&matches)?, typed))
}

/// The options that take a value, and of those the ones whose value is a path: for option files, whose paths are
/// relative to them.
pub fn options_with_values() -> Vec<(String, bool)> {
    const PATHS: [&str; 6] = ["elf", "core", "image", "trace", "events", "output"];
    let mut list = Vec::new();
    for command in Args::command().get_subcommands() {
        for arg in command.get_arguments().filter(|a| !a.is_positional() && a.get_action().takes_values()) {
            let is_path = PATHS.contains(&arg.get_id().as_str());
            list.extend(arg.get_long().map(|l| (format!("--{l}"), is_path)));
            list.extend(arg.get_short().map(|s| (format!("-{s}"), is_path)));
        }
    }
    list.sort();
    list.dedup();
    list
}

/// The names of all commands.
pub fn commands() -> Vec<String> {
    Args::command().get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

/// The commands that read no target, with what they do.
pub fn commands_without_source() -> Vec<(String, String)> {
    Args::command()
        .get_subcommands()
        .filter(|c| c.get_arguments().all(|a| a.get_id() != "remote"))
        .map(|c| (c.get_name().to_owned(), c.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect()
}
