//! The table of commands. Help, what a monitor line may ask for, the completion in GDB and `docs/commands.md` are made
//! of it: a new command, or a new report, is its file and one row here.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::LazyLock;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::help::TOPICS;
use super::options::{
    Bridge, Completions, Control, Demo, Dump, Events, Explain, Export, Follow, Gdb, Help, Last, List, Man, Objects,
    Reports, Serve, Setup, Threads, Timeline, Unfiltered,
};
use super::read::Ask;
use super::request::{self, Request};
use super::{
    bridge, control, demo, documents, dump, events, explain, export, follow, gdb, help, serve, setup, threads, timeline,
};
use crate::analysis::Name;
use crate::catalogue::{Catalogue, Names, Product};
use crate::error::Error;
use crate::output::{ExtraColumn, Format, SCHEMA};

/// One command.
pub struct Row {
    /// What is typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Where the help lists it.
    pub group: Group,
    /// The words that it takes, and what each means.
    pub words: &'static [Word],
    /// The reports that it prints.
    pub reports: &'static [Name],
    /// What `--format` may be.
    pub formats: Formats,
    /// A monitor line may ask for it: it only reads, and it ends by itself.
    pub monitor: bool,
    /// Options that it has from a group and refuses, by their ids: help does not show them.
    refuses: &'static [&'static str],
    /// Adds its options to the command.
    options: fn(Command) -> Command,
    /// Makes of what was typed what runs.
    request: fn(&Row, &ArgMatches) -> Result<Request, Error>,
}

/// A word of a command line as usage shows it, and what it means.
pub type Word = (&'static str, &'static str);

/// A group of commands in the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Lists of events.
    Events,
    /// What is known of the target and its kernel.
    Target,
    /// Reports.
    Reports,
    /// Targets that run.
    Live,
    /// Files, and other debuggers.
    Debuggers,
    /// Names and help.
    Help,
}

impl Group {
    /// In the order of the help.
    pub const ALL: [Self; 6] = [Self::Events, Self::Target, Self::Reports, Self::Live, Self::Debuggers, Self::Help];

    /// Its heading.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "What happened",
            Self::Target => "The target and its kernel",
            Self::Reports => "Reports",
            Self::Live => "While it runs",
            Self::Debuggers => "Files and debuggers",
            Self::Help => "Names and help",
        }
    }
}

/// What a command prints, which decides its formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// Neither events nor reports: it has no `--format`.
    None,
    /// Events.
    Events,
    /// Reports.
    Reports,
}

impl Formats {
    /// True where `--format` may be this.
    pub fn has(self, format: Format) -> bool {
        match self {
            Self::None => false,
            Self::Events => format.has_events(),
            Self::Reports => true,
        }
    }
}

const N: Word = ("[N]", "how many (20), or how long: 5ms, 1200t");
const FILES: Word = ("[FILE...]", "ELF, core, dump or trace, recognised by its content; ./50 for a file named 50");

/// Options that only `last`, `list` and `show` take.
const PREVIOUS: &[&str] = &["previous"];
/// Options that of the reports only `latency` and `report` take.
const MEASURES: &[&str] = &["previous", "every", "span"];

/// Every command, in the order of the help.
pub(super) static COMMANDS: &[Row] = &[
    Row {
        words: &[N, FILES],
        ..read("last", "The newest N events, oldest first", options::<Last>, |row, m| request::last(row, take(m)?))
    },
    read("list", "Every event that the filters keep", options::<List>, |row, m| request::list(row, take(m)?)),
    Row {
        words: &[("SEQ...", "sequence numbers; -1 is the newest"), FILES],
        ..read("show", "Events in full, by sequence number; -1 is the newest", options::<Unfiltered>, |row, m| {
            request::unfiltered(row, take(m)?, Ask::Show(Vec::new()))
        })
    },
    Row {
        group: Group::Target,
        formats: Formats::Reports,
        refuses: PREVIOUS,
        ..read(
            "info",
            "Source, layout, clock, kernel; whether ELF and memory match",
            options::<Unfiltered>,
            |row, m| request::unfiltered(row, take(m)?, Ask::Info),
        )
    },
    Row {
        group: Group::Target,
        reports: &[Name::Use],
        formats: Formats::Reports,
        refuses: PREVIOUS,
        ..read(
            "objects",
            "Threads, queues, mutexes and other objects in the trace's registry",
            options::<Objects>,
            |row, m| request::objects(row, take(m)?),
        )
    },
    Row {
        group: Group::Target,
        formats: Formats::Reports,
        refuses: PREVIOUS,
        ..read(
            "threads",
            "Current thread states, read from memory, and what each waits for",
            options::<Threads>,
            |row, m| threads::request(row, take(m)?),
        )
    },
    Row {
        group: Group::Target,
        formats: Formats::Reports,
        refuses: PREVIOUS,
        ..read("explain", "What most likely went wrong, with the evidence", options::<Explain>, |row, m| {
            explain::request(row, take(m)?)
        })
    },
    Row {
        formats: Formats::None,
        refuses: PREVIOUS,
        ..read("timeline", "Who ran when, drawn in the terminal", options::<Timeline>, |row, m| {
            timeline::request(row, take(m)?)
        })
    },
    report("profile", "Who had the processor, and for how long", &[Name::Profile]),
    report("stats", "Context switches, preemptions, suspensions, interrupts", &[Name::Stats]),
    report("services", "How often each event was inserted, and by whom", &[Name::Services]),
    report("stack", "The lowest stack pointer of each thread in the trace", &[Name::Stack]),
    report("inversions", "Priority inversions: who waited for whom, and how long", &[Name::Inversions]),
    report("blocked", "How long each thread waited, for what, and who woke it", &[Name::Blocked]),
    Row {
        refuses: PREVIOUS,
        ..report("latency", "From ready to running, interrupts, spans between events", &[Name::Latency])
    },
    Row {
        refuses: PREVIOUS,
        ..report(
            "report",
            "One document: what runs, who waits, the last events, threads, and all reports in short",
            &Name::ALL,
        )
    },
    Row {
        words: &[("[EVENT...]", "names, globs, ids or ranges of ids; without any, all events")],
        formats: Formats::Reports,
        ..other("events", "The catalogue of events: ids, names, fields", Group::Help, options::<Events>, |_, m| {
            events::request(take(m)?)
        })
    },
    Row {
        reports: &Name::ALL,
        words: &[("[N]", "begin with the newest N"), FILES],
        formats: Formats::Reports,
        refuses: &["previous", "from", "to", "around"],
        ..other("follow", "New events as they come, while the target runs", Group::Live, options::<Follow>, |_, m| {
            follow::request(take(m)?)
        })
    },
    Row {
        words: &[FILES],
        refuses: PREVIOUS,
        ..other(
            "dump",
            "Saves the trace (-o FILE.trx), or all of one stop (-o FILE.core)",
            Group::Debuggers,
            options::<Dump>,
            |_, m| dump::request(take(m)?),
        )
    },
    Row {
        words: &[FILES],
        refuses: PREVIOUS,
        ..other(
            "export",
            "A file for a viewer: -o FILE.html, .pftrace, .json, .trx",
            Group::Debuggers,
            Export::command,
            |_, m| export::request(take(m)?, m.get_many::<String>("to").into_iter().flatten()),
        )
    },
    Row {
        words: &[FILES],
        refuses: &["previous", "remote", "timeout", "leave", "max_halt"],
        ..other(
            "serve",
            "Serves a core or a dump to a debugger, as its target",
            Group::Debuggers,
            options::<Serve>,
            |_, m| serve::request(take(m)?),
        )
    },
    Row {
        words: &[
            ("show [FILE...]", "the state of the trace, and which classes of events are inserted"),
            ("on|off|only CLASS...", "which classes are inserted: control off queue,mutex"),
            ("pause | resume", "stops inserting events; goes on inserting them"),
            ("mark ID [I1..I4]", "inserts an event of your own: control mark 4096 1 2"),
            ("enable | disable", "in GDB only: calls the kernel's own functions"),
        ],
        formats: Formats::Reports,
        refuses: PREVIOUS,
        ..other(
            "control",
            "The state of the trace; which events are inserted; pause, resume",
            Group::Live,
            options::<Control>,
            |_, m| control::request(take(m)?),
        )
    },
    Row {
        refuses: &["previous", "leave", "core", "image", "trace", "scan"],
        ..other(
            "bridge",
            "ThreadX's threads and the trace, for any debugger of a live stub",
            Group::Debuggers,
            options::<Bridge>,
            |_, m| bridge::request(take(m)?),
        )
    },
    Row {
        words: &[("[ELF]", "the linked program, unstripped")],
        ..other(
            "setup",
            "The C code that enables ThreadX's event trace in a program",
            Group::Help,
            options::<Setup>,
            |_, m| setup::request(take(m)?),
        )
    },
    Row {
        formats: Formats::Events,
        ..other("demo", "Reads a built-in dead target, without hardware", Group::Help, options::<Demo>, |row, m| {
            demo::request(row, take(m)?)
        })
    },
    other("gdb", "Prints or installs the GDB command", Group::Debuggers, options::<Gdb>, |_, m| {
        gdb::request(&take(m)?)
    }),
    Row {
        words: &[("SHELL", "bash, elvish, fish, powershell or zsh")],
        ..other("completions", "Prints the completion for a shell", Group::Help, options::<Completions>, |_, m| {
            Ok(documents::completions(&take(m)?))
        })
    },
    Row {
        words: &[("[COMMAND]", "the command; without it, the page of the program")],
        ..other("man", "Prints a manual page, or writes them all", Group::Help, options::<Man>, |_, m| {
            documents::man(take(m)?)
        })
    },
    Row {
        words: &[("[COMMAND|TOPIC]", "what to explain; without it, all commands and topics")],
        ..other("help", "Explains a command or a topic", Group::Help, options::<Help>, |_, m| {
            Ok(help::request(take(m)?))
        })
    },
];

/// The options that a monitor line may hold, by their ids: which events, what stamps mean, and how to print. Nothing
/// that names a source or a file. An option that is not here is refused, so one that is added later is too.
pub(super) const MONITOR_OPTIONS: [&str; 29] = [
    // N, SEQ, or a time; not a file.
    "words",
    "count",
    "thread",
    "event",
    "class",
    "object",
    "context",
    "core_id",
    "arg",
    "from",
    "to",
    "around",
    "previous",
    "hz",
    "direction",
    "period",
    "netx",
    "qnx_version",
    "usage",
    "all",
    "bt",
    "tracex",
    "every",
    "span",
    "format",
    "width",
    "columns",
    "wide",
    "ascii",
];

type ToRequest = fn(&Row, &ArgMatches) -> Result<Request, Error>;

/// A command that reads a target and prints events.
const fn read(name: &'static str, about: &'static str, options: fn(Command) -> Command, request: ToRequest) -> Row {
    Row {
        words: &[FILES],
        monitor: true,
        formats: Formats::Events,
        ..other(name, about, Group::Events, options, request)
    }
}

/// A command that prints reports.
const fn report(name: &'static str, about: &'static str, reports: &'static [Name]) -> Row {
    Row {
        group: Group::Reports,
        reports,
        formats: Formats::Reports,
        refuses: MEASURES,
        ..read(name, about, options::<Reports>, |row, m| request::reports(row, take(m)?))
    }
}

const fn other(
    name: &'static str,
    about: &'static str,
    group: Group,
    options: fn(Command) -> Command,
    request: ToRequest,
) -> Row {
    Row {
        name,
        about,
        group,
        words: &[],
        reports: &[],
        formats: Formats::None,
        monitor: false,
        refuses: &[],
        options,
        request,
    }
}

fn options<A: Args>(command: Command) -> Command {
    A::augment_args(command)
}

/// The options of a command, of what clap has parsed.
fn take<A: Args>(matches: &ArgMatches) -> Result<A, Error> {
    A::from_arg_matches(matches).map_err(|e| Error::usage(crate::code::Code::Usage, e.to_string()))
}

impl Row {
    /// The command with its options, as clap knows it.
    pub fn command(&self) -> Command {
        (self.options)(Command::new(self.name)).about(self.about)
    }

    /// The options of its [`Row::command`] that it takes.
    pub(super) fn shown<'c>(&'c self, command: &'c Command) -> impl Iterator<Item = &'c Arg> {
        command.get_opts().filter(|arg| !arg.is_hide_set() && !self.refuses.contains(&arg.get_id().as_str()))
    }

    /// The command with the options that it takes, and what its words mean: for completions and manual pages.
    pub(super) fn documented(&self) -> Command {
        let command = self.command();
        let words: Vec<String> = self.words.iter().map(|(name, text)| format!("{name}: {text}")).collect();
        let options = self.shown(&command).map(|arg| {
            let taken = self.values(arg);
            let mut values = arg.get_possible_values();
            values.retain(|value| taken.iter().any(|name| name == value.get_name()));
            if values.is_empty() { arg.clone() } else { arg.clone().value_parser(PossibleValuesParser::new(values)) }
        });
        let positionals = command.get_positionals().map(|arg| match words.as_slice() {
            [] => arg.clone(),
            words => arg.clone().help(words.join("; ")),
        });
        Command::new(self.name).about(self.about).args(options).args(positionals)
    }

    /// The words that an option takes here; none where it takes any.
    pub(super) fn values(&self, arg: &Arg) -> Vec<String> {
        let takes = |name: &str| match Format::parse(name) {
            Some(format) if arg.get_id() == "format" => self.formats.has(format),
            _ => true,
        };
        let values = arg.get_possible_values();
        let names = values.iter().map(|value| value.get_name()).filter(|name| takes(name));
        if arg.get_action().takes_values() { names.map(str::to_owned).collect() } else { Vec::new() }
    }
}

/// An option as it is typed: `--thread`, `-n`.
pub(super) fn typed(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    }
}

/// The whole command line.
fn command_line() -> Command {
    program().subcommands(COMMANDS.iter().map(Row::command))
}

/// The same with the options that each command takes: for completions and manual pages.
pub(super) fn documented() -> Command {
    program().about(ABOUT).subcommands(COMMANDS.iter().map(Row::documented))
}

/// The same for the completion of a shell: also the words that are usual where an option takes others too.
pub(super) fn completed() -> Command {
    let command = |row: &Row| row.documented().mut_args(|arg| with_usual_words(row, arg));
    program().about(ABOUT).subcommands(COMMANDS.iter().map(command))
}

fn with_usual_words(row: &Row, arg: Arg) -> Arg {
    let words: Vec<&str> = match (row.name, arg.get_id().as_str()) {
        ("help", "word") => COMMANDS.iter().map(|row| row.name).chain(TOPICS.iter().map(|topic| topic.name)).collect(),
        ("control", "words") => vec!["show", "on", "off", "only", "pause", "resume", "mark"],
        ("export", "to") => vec!["perfetto", "chrome", "html", "trx"],
        (_, "fail_on") => vec!["proven", "likely", "hint"],
        (_, "context") => vec!["thread", "isr", "init"],
        (_, "direction") => vec!["up", "down"],
        (_, "netx") => vec!["duo", "classic"],
        (_, "format_in") => vec!["threadx", "uia", "qnx"],
        (_, "event" | "until") => kernel_events().collect(),
        (_, "columns") => ExtraColumn::ALL.map(ExtraColumn::name).to_vec(),
        (_, "report") => Name::ALL.iter().map(|name| name.name()).collect(),
        (_, "class") => vec!["queue", "semaphore", "mutex", "thread", "time", "timer", "tx", "fx", "nx", "ux", "user"],
        _ => return arg,
    };
    arg.value_parser(PossibleValuesParser::new(words))
}

/// The names of ThreadX's own events.
fn kernel_events() -> impl Iterator<Item = &'static str> {
    static EVENTS: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::threadx(Names::default()));
    EVENTS.iter().filter(|def| def.product == Product::Tx && !def.unused).map(|def| def.name.as_str())
}

/// What the program is, in one sentence.
pub(super) const ABOUT: &str =
    "tx-trace finds the event trace that an RTOS left in a target's memory, and prints what happened.";

/// What `--version` prints after the name.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let [version, commit, target] = [env!("CARGO_PKG_VERSION"), env!("TX_TRACE_COMMIT"), env!("TX_TRACE_TARGET")];
    format!("{version}\ncommit: {commit}\ntarget: {target}\nJSON schema: {SCHEMA}")
});

fn program() -> Command {
    Command::new("tx-trace")
        .version(env!("CARGO_PKG_VERSION"))
        .long_version(VERSION.as_str())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
}

/// What was typed, understood as far as clap does.
pub struct Typed {
    row: &'static Row,
    matches: ArgMatches,
}

impl Typed {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    /// clap's own, help and version among them.
    pub fn parse(words: &[OsString]) -> Result<Self, clap::Error> {
        let program = OsString::from("tx-trace");
        let mut matches = command_line().try_get_matches_from(std::iter::once(&program).chain(words))?;
        let found = matches.remove_subcommand().and_then(|(name, matches)| Some((row(&name)?, matches)));
        let Some((row, matches)) = found else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        Ok(Self { row, matches })
    }

    /// The ids of the options that were typed, and of the words after the command.
    pub fn ids(&self) -> Vec<String> {
        let typed = |id: &&str| self.matches.value_source(id) == Some(ValueSource::CommandLine);
        let command = self.row.command();
        command.get_arguments().map(|a| a.get_id().as_str()).filter(typed).map(str::to_owned).collect()
    }

    /// What runs.
    pub(super) fn request(&self) -> Result<Request, Error> {
        (self.row.request)(self.row, &self.matches)
    }
}

/// The command of this name.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.name == name)
}

/// The options of every command that take a value, with true for a path.
pub(super) fn options_with_values() -> Vec<(String, bool)> {
    const PATHS: [&str; 6] = ["elf", "core", "image", "trace", "events", "output"];
    let mut list = Vec::new();
    for command in COMMANDS.iter().map(Row::command) {
        for arg in command.get_opts().filter(|a| a.get_action().takes_values()) {
            let is_path = PATHS.contains(&arg.get_id().as_str());
            list.extend(arg.get_long().map(|l| (format!("--{l}"), is_path)));
            list.extend(arg.get_short().map(|s| (format!("-{s}"), is_path)));
        }
    }
    list.sort();
    list.dedup();
    list
}

/// The commands that read no target.
pub(super) fn without_source() -> impl Iterator<Item = &'static Row> {
    COMMANDS.iter().filter(|row| row.command().get_arguments().all(|a| a.get_id() != "remote"))
}

/// What GDB completes: a line for each command with what it does, and for each option with the values that it takes.
pub(super) fn completion() -> String {
    let mut text = String::new();
    for row in COMMANDS {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{}\t{}", row.name, row.about);
        let command = row.command();
        for arg in row.shown(&command) {
            let _ = writeln!(text, "{}\t{}\t{}", row.name, typed(arg), row.values(arg).join(","));
        }
    }
    text
}

#[cfg(test)]
mod tests;
