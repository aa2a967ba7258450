//! The table of commands. Help, what a monitor line may ask for, the completion in GDB and `docs/commands.md` are made
//! of it: a new command, or a new report, is its file and one row here.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::options::{Bridge, Control, Demo, Dump, Events, Follow, Gdb, List, Objects, Read, Reports, Serve, Threads};
use super::read::Ask;
use super::request::{self, Request};
use super::{bridge, control, demo, dump, events, follow, gdb, serve, threads};
use crate::analysis::Name;
use crate::error::Error;
use crate::output::Format;
use crate::query::Amount;

/// One command.
pub struct Row {
    /// What is typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The reports that it prints.
    pub reports: &'static [Name],
    /// What `--format` may be.
    pub formats: Formats,
    /// A monitor line may ask for it: it only reads, and it ends by itself.
    pub monitor: bool,
    /// Adds its options to the command.
    options: fn(Command) -> Command,
    /// Makes of what was typed what runs.
    request: fn(&Row, &ArgMatches) -> Result<Request, Error>,
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

/// The newest events that `last` prints without N.
const LAST: Amount = Amount::Events(20);

/// Every command, in the order of the help.
pub static COMMANDS: &[Row] = &[
    Row {
        options: options::<List>,
        ..read("last", "The newest N events, oldest first", |row, m| request::events(row, take(m)?, Ask::Last(LAST)))
    },
    Row {
        options: options::<List>,
        ..read("list", "Every event that the filters keep", |row, m| request::events(row, take(m)?, Ask::List))
    },
    read("show", "Events in full, by sequence number; -1 is the newest", |row, m| {
        request::read(row, take(m)?, Ask::Show(Vec::new()))
    }),
    Row {
        formats: Formats::Reports,
        ..read("info", "What was found: source, layout, clock, kernel, and whether ELF and memory match", |row, m| {
            request::read(row, take(m)?, Ask::Info)
        })
    },
    Row {
        reports: &[Name::Use],
        formats: Formats::Reports,
        options: options::<Objects>,
        ..read("objects", "The objects that the trace registered: threads, queues, mutexes and the rest", |row, m| {
            request::objects(row, take(m)?)
        })
    },
    Row {
        formats: Formats::Reports,
        options: options::<Threads>,
        ..read(
            "threads",
            "Current thread states, read from memory: what each waits for, who holds it, stacks, where it is",
            |row, m| threads::request(row, take(m)?),
        )
    },
    report("profile", "Who had the processor, and for how long", &[Name::Profile]),
    report(
        "stats",
        "Context switches, preemptions, suspensions, interrupts; file system and network where they take part",
        &[Name::Stats],
    ),
    report("services", "How often each event was inserted, and by whom", &[Name::Services]),
    report("stack", "The lowest that each thread's stack pointer was seen", &[Name::Stack]),
    report("inversions", "Priority inversions: who waited for whom, who ran meanwhile, how long", &[Name::Inversions]),
    report("blocked", "How long each thread waited, for what, and who woke it", &[Name::Blocked]),
    report("latency", "From ready to running, interrupts, repeating events, spans between events", &[Name::Latency]),
    report("report", "All reports", &Name::ALL),
    Row {
        formats: Formats::Reports,
        ..other("events", "The catalogue of events: ids, names, fields", options::<Events>, |_, m| {
            events::request(take(m)?)
        })
    },
    Row {
        reports: &Name::ALL,
        formats: Formats::Reports,
        ..other(
            "follow",
            "New events as they come: while the target runs, or by short halts",
            options::<Follow>,
            |_, m| follow::request(take(m)?),
        )
    },
    other(
        "dump",
        "The trace buffer's bytes, unchanged (`dump -o FILE.trx`), or all of one stop (`dump -o FILE.core`)",
        options::<Dump>,
        |_, m| dump::request(take(m)?),
    ),
    other(
        "serve",
        "Makes a core or a dump the target of a debugger: `(gdb) target remote :3333`",
        options::<Serve>,
        |_, m| serve::request(take(m)?),
    ),
    Row {
        formats: Formats::Reports,
        ..other(
            "control",
            "The state of the trace, and the few writes to it: show, on, off, only, pause, resume, mark",
            options::<Control>,
            |_, m| control::request(take(m)?),
        )
    },
    other(
        "bridge",
        "Connects a debugger to a live stub, and answers `monitor tx-trace last 50`",
        options::<Bridge>,
        |_, m| bridge::request(take(m)?),
    ),
    Row {
        formats: Formats::Events,
        ..other("demo", "Reads a built-in dead target, without hardware", options::<Demo>, |row, m| {
            demo::request(row, take(m)?)
        })
    },
    other(
        "gdb",
        "Prints the GDB command: `tx-trace gdb > tx_trace.py`, then `(gdb) source tx_trace.py`",
        options::<Gdb>,
        |_, m| gdb::request(&take(m)?),
    ),
];

/// The options that a monitor line may hold, by their ids: which events, what stamps mean, and how to print. Nothing
/// that names a source or a file. An option that is not here is refused, so one that is added later is too.
pub const MONITOR_OPTIONS: [&str; 26] = [
    // N, SEQ, or a time; not a file.
    "words",
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
    "tracex",
    "every",
    "span",
    "format",
    "width",
    "columns",
    "wide",
];

type ToRequest = fn(&Row, &ArgMatches) -> Result<Request, Error>;

/// A command that reads a target and prints events.
const fn read(name: &'static str, about: &'static str, request: ToRequest) -> Row {
    Row { monitor: true, formats: Formats::Events, ..other(name, about, options::<Read>, request) }
}

/// A command that prints reports.
const fn report(name: &'static str, about: &'static str, reports: &'static [Name]) -> Row {
    Row {
        reports,
        formats: Formats::Reports,
        options: options::<Reports>,
        ..read(name, about, |row, m| request::reports(row, take(m)?))
    }
}

const fn other(name: &'static str, about: &'static str, options: fn(Command) -> Command, request: ToRequest) -> Row {
    Row { name, about, reports: &[], formats: Formats::None, monitor: false, options, request }
}

fn options<A: Args>(command: Command) -> Command {
    A::augment_args(command)
}

/// The options of a command, of what clap has parsed.
fn take<A: Args>(matches: &ArgMatches) -> Result<A, Error> {
    A::from_arg_matches(matches).map_err(|e| Error::usage(crate::code::Code::Usage, e.to_string()))
}

impl Row {
    fn command(&self) -> Command {
        (self.options)(Command::new(self.name)).about(self.about)
    }
}

/// The whole command line.
pub fn command_line() -> Command {
    Command::new("tx-trace")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Reads an RTOS's event-trace buffer out of a live target, a core file or a memory dump")
        .after_help("Exit: 0 done; 1 not found; 2 error.")
        .max_term_width(100)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(Row::command))
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

    /// The ids of the options that were typed, and of the words behind the command.
    pub fn ids(&self) -> Vec<String> {
        let typed = |id: &&str| self.matches.value_source(id) == Some(ValueSource::CommandLine);
        let command = self.row.command();
        command.get_arguments().map(|a| a.get_id().as_str()).filter(typed).map(str::to_owned).collect()
    }

    /// What runs.
    pub fn request(&self) -> Result<Request, Error> {
        (self.row.request)(self.row, &self.matches)
    }
}

/// The command of this name.
pub fn row(name: &str) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| row.name == name)
}

/// The options of every command that take a value, with true for a path.
pub fn options_with_values() -> Vec<(String, bool)> {
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
pub fn without_source() -> impl Iterator<Item = &'static Row> {
    COMMANDS.iter().filter(|row| row.command().get_arguments().all(|a| a.get_id() != "remote"))
}

/// `--name` of every option that is shown.
fn shown(command: &Command) -> impl Iterator<Item = (&Arg, String)> {
    command.get_opts().filter(|a| !a.is_hide_set()).filter_map(|a| Some((a, format!("--{}", a.get_long()?))))
}

/// What GDB completes: a line for each command with what it does, and for each option with the values that it takes.
pub fn completion() -> String {
    let mut text = String::new();
    for row in COMMANDS {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{}\t{}", row.name, row.about);
        for (arg, option) in shown(&row.command()) {
            let values: Vec<String> = arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
            let values = if arg.get_action().takes_values() { values.join(",") } else { String::new() };
            let _ = writeln!(text, "{}\t{option}\t{values}", row.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cell(text: &str) -> String {
        text.replace('\n', " ").replace('|', "\\|")
    }

    /// An option in the page: its heading, the option with its value, and its help.
    type Entry = (String, String, String);

    /// Every option with the commands that take it, in the order of the help.
    fn options_of_all() -> Vec<(Entry, Vec<&'static str>)> {
        let mut all: Vec<(Entry, Vec<&str>)> = Vec::new();
        for row in COMMANDS {
            for (arg, option) in shown(&row.command()) {
                let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
                let value = value.map(|v| format!(" {}", v.join(" "))).unwrap_or_default();
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let heading = arg.get_help_heading().unwrap_or("Of single commands");
                let entry = (heading.to_owned(), format!("{option}{value}"), help);
                match all.iter_mut().find(|(known, _)| *known == entry) {
                    Some((_, commands)) => commands.push(row.name),
                    None => all.push((entry, vec![row.name])),
                }
            }
        }
        all
    }

    fn list(commands: &[&str]) -> String {
        commands.iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(" ")
    }

    /// `docs/commands.md`.
    fn page() -> String {
        let mut text = "# Commands\n\n<!-- Made of the table in src/cli/commands.rs: UPDATE_GOLDEN=1 cargo test --lib commands -->\n\n| command | does | `--format` | monitor line |\n|---|---|---|---|\n".to_owned();
        for row in COMMANDS {
            let formats = Format::ALL.into_iter().filter(|f| row.formats.has(*f)).map(Format::name);
            let formats: Vec<&str> = formats.collect();
            let monitor = if row.monitor { "yes" } else { "" };
            let _ = writeln!(text, "| `{}` | {} | {} | {monitor} |", row.name, cell(row.about), formats.join(" "));
        }
        text.push_str("\nA monitor line may hold the options marked with `*`.\n");
        let options = options_of_all();
        let mut headings: Vec<&str> = Vec::new();
        for ((heading, ..), _) in &options {
            if !headings.contains(&heading.as_str()) {
                headings.push(heading);
            }
        }
        for heading in headings {
            let under: Vec<_> = options.iter().filter(|((h, ..), _)| h == heading).collect();
            let most = under.iter().map(|(_, commands)| commands).max_by_key(|c| c.len()).unwrap();
            let _ = write!(text, "\n## {heading}\n\nWith {}, where nothing else is named.\n\n", list(most));
            let _ = writeln!(text, "| option | | with |\n|---|---|---|");
            for ((_, option, help), commands) in under {
                let ids = ["--use", option.split(' ').next().unwrap()];
                let id = ids[1].trim_start_matches("--").replace('-', "_");
                let listed = MONITOR_OPTIONS.contains(&id.as_str()) || ids[0] == ids[1];
                let mark = listed && commands.iter().any(|c| row(c).is_some_and(|r| r.monitor));
                let with = if commands == most { String::new() } else { list(commands) };
                let _ =
                    writeln!(text, "| `{}`{} | {} | {with} |", cell(option), if mark { " *" } else { "" }, cell(help));
            }
        }
        text
    }

    #[test]
    fn the_page_of_commands_is_made_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
        let page = page();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), page, "UPDATE_GOLDEN=1 writes docs/commands.md");
    }

    #[test]
    fn readme_lists_every_command() {
        let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
        let table = readme.split_once("## Commands").unwrap().1.split_once("\n\n`tx-trace COMMAND").unwrap().0;
        let first = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let mut listed: Vec<&str> =
            first.flat_map(|cell| cell.split("` `")).filter_map(|c| c.split([' ', '`']).next()).collect();
        let mut commands: Vec<&str> = COMMANDS.iter().map(|row| row.name).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }

    #[test]
    fn the_table_is_sound() {
        command_line().debug_assert();
        for row in COMMANDS {
            let command = row.command();
            let format = command.get_opts().find(|a| a.get_id() == "format");
            assert_eq!(format.is_some(), row.formats != Formats::None, "{}", row.name);
            assert!(!row.monitor || format.is_some(), "{}", row.name);
        }
        // Every id on the list is one that a command has.
        for id in MONITOR_OPTIONS {
            let has = |row: &Row| row.command().get_arguments().any(|a| a.get_id() == id);
            assert!(COMMANDS.iter().any(|row| row.monitor && has(row)), "{id}");
        }
    }

    #[test]
    fn each_report_has_a_command_of_its_name() {
        for name in Name::ALL.into_iter().filter(|n| *n != Name::Use) {
            assert_eq!(row(name.name()).map(|row| row.reports), Some(&[name][..]), "{}", name.name());
        }
    }
}
