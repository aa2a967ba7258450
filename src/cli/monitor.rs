//! What a monitor line may ask: `monitor tx-trace last 50`, of a server or a bridge that has the target open already.
//!
//! Whoever can connect can send such a line, so what it may contain is a list of what is allowed: commands that read,
//! filters, and how to print. No source, no file and nothing that is run; what is not in the list is refused, also what
//! is added to the command line later.

use std::ffi::OsString;
use std::io::{self, Write};

use super::message;
use super::plan::{self, ClockPlan, Output, Question, Task};
use super::{Outcome, args, command, files, threads};
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::output;
use crate::session::{Borrowed, Inputs, Session, TargetInfo};

/// The commands that may be asked.
const COMMANDS: [&str; 14] = [
    "last",
    "list",
    "show",
    "info",
    "objects",
    "threads",
    "profile",
    "stats",
    "services",
    "stack",
    "inversions",
    "blocked",
    "latency",
    "report",
];

/// The options that may be given, by their ids: which events, what stamps mean, and how to print.
const OPTIONS: [&str; 24] = [
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
];

/// The longest line.
const LONGEST: usize = 4096;

/// The most bytes that one line prints.
const MOST: usize = 1 << 20;

/// What is known of the target that lines ask about.
#[derive(Default)]
pub struct Program {
    /// Its ELF, its symbols, where its trace is.
    pub info: TargetInfo,
    /// What stamps mean, where a line does not say it.
    pub clock: ClockPlan,
    /// Whose names.
    pub names: Names,
}

/// What a line asks for.
pub enum Request {
    /// What may be asked.
    Help,
    /// A question about the trace; its inputs name nothing.
    Question(Box<Question>, Output),
    /// The current state of the kernel; with all of its objects?
    Threads(bool, Output),
}

/// Understands what stands behind `tx-trace` in a monitor line. Pure.
///
/// # Errors
/// A [`Error`] that names what is not allowed.
pub fn parse(line: &str) -> Result<Request, Error> {
    let refuse = |message: String| Error::failed(Code::Monitor, message, "");
    if line.len() > LONGEST {
        return Err(refuse(format!("a monitor line has at most {LONGEST} bytes")));
    }
    if line.contains(['\0', '\n', '\r']) {
        return Err(refuse("a monitor line is one line of text".to_owned()));
    }
    let words = files::split(line).map_err(refuse)?;
    let Some(first) = words.first() else { return Ok(Request::Help) };
    if words.iter().any(|w| w == "--help" || w == "-h") || first == "help" {
        return Ok(Request::Help);
    }
    if !COMMANDS.contains(&first.as_str()) {
        return Err(refuse(format!("a monitor line cannot ask for `{first}`: it takes {}", COMMANDS.join(", "))));
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let (args, typed) = args::parse_typed(&words).map_err(|e| {
        let text = e.to_string();
        let line = text.lines().next().unwrap_or_default();
        refuse(line.strip_prefix("error: ").unwrap_or(line).to_owned())
    })?;
    if let Some(id) = typed.iter().find(|id| !OPTIONS.contains(&id.as_str())) {
        return Err(refuse(format!(
            "`--{}` is not taken from a monitor line: it takes a command, filters, and --format table or json",
            id.replace('_', "-")
        )));
    }
    let plan::Plan { task, output } = plan::plan(args)?;
    let inputs = match &task {
        Task::Read(question) => &question.inputs,
        Task::Threads(task) => &task.inputs,
        _ => return Err(refuse("a monitor line cannot ask for that".to_owned())),
    };
    if let Some(file) = inputs.files.first() {
        return Err(refuse(format!(
            "`{}` would be a file, which a monitor line does not name: the target is the one that is served",
            file.display()
        )));
    }
    if !matches!(output.format, args::Format::Table | args::Format::Json) {
        return Err(refuse("a monitor line prints --format table or json".to_owned()));
    }
    let output = Output { path: None, color: args::Color::Never, ..output };
    let all = matches!(&task, Task::Threads(task) if task.all);
    let Task::Read(mut question) = task else { return Ok(Request::Threads(all, output)) };
    // Whatever the environment added.
    question.inputs = Inputs::default();
    Ok(Request::Question(question, output))
}

/// Answers what stands behind `tx-trace` in a monitor line: data, and below it what else there is to say.
pub fn run(line: &str, program: &Program, memory: Borrowed<'_>, out: &mut dyn Write) -> Outcome {
    let mut bounded = Bounded::default();
    let mut json = false;
    let (outcome, talk) = message::overhear(|| {
        let answer = parse(line).and_then(|request| match request {
            Request::Help => Ok(help(&mut bounded)?),
            Request::Question(mut question, output) => {
                json = output.format == args::Format::Json;
                question.clock.or(&program.clock);
                if question.names == Names::default() {
                    question.names = program.names;
                }
                command::read_over(*question, Session::over(program.info.clone(), memory), &output, &mut bounded)
            }
            Request::Threads(all, output) => {
                json = output.format == args::Format::Json;
                let session = Session::over(program.info.clone(), memory);
                threads::run_over(session, all, &output, &mut bounded)
            }
        });
        match answer {
            Ok(outcome) => outcome,
            Err(_) if bounded.full => Outcome::Done,
            Err(failure) if json => {
                // Nothing can be done about a buffer that is full.
                let _ = output::write_error(&mut bounded, &failure);
                (&failure).into()
            }
            Err(failure) => message::fail(&failure),
        }
    });
    let _ = bounded.pour(out);
    // JSON holds its issues itself.
    if !json {
        let _ = out.write_all(talk.as_bytes());
    }
    if bounded.full {
        let _ = writeln!(out, "tx-trace: the rest is not shown: one line prints at most {MOST} bytes; add filters");
    }
    outcome
}

fn help(out: &mut dyn Write) -> io::Result<Outcome> {
    let options = OPTIONS.iter().filter(|o| **o != "words").map(|o| match *o {
        "usage" => "--use".to_owned(),
        other => format!("--{}", other.replace('_', "-")),
    });
    let options: Vec<String> = options.collect();
    writeln!(out, "monitor tx-trace COMMAND [N|SEQ] [FILTERS] [--format table|json]\n")?;
    wrapped(out, "commands:", COMMANDS.iter().copied())?;
    wrapped(out, "options: ", options.iter().map(String::as_str))?;
    writeln!(out, "\n`tx-trace COMMAND --help` in a shell tells what they mean.")?;
    Ok(Outcome::Done)
}

/// Words in lines of at most 80 columns behind a head.
fn wrapped<'a>(out: &mut dyn Write, head: &str, words: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let mut line = head.to_owned();
    for word in words {
        if line.len().saturating_add(word.len()) >= 79 {
            writeln!(out, "{line}")?;
            line = " ".repeat(head.len());
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

/// What a line prints, up to the most that it may.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl Bounded {
    /// Whole lines alone.
    fn pour(&self, out: &mut dyn Write) -> io::Result<()> {
        let end = match self.bytes.iter().rposition(|b| *b == b'\n') {
            Some(at) if self.full => at.saturating_add(1),
            _ => self.bytes.len(),
        };
        out.write_all(self.bytes.get(..end).unwrap_or_default())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MOST.saturating_sub(self.bytes.len());
        self.bytes.extend(bytes.iter().take(room));
        if bytes.len() > room {
            self.full = true;
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::Ask;
    use crate::query::Amount;

    fn refused(line: &str) -> String {
        match parse(line) {
            Err(failure) => {
                let told = ["monitor", "usage", "position"];
                assert!(told.contains(&failure.code.name()), "{line}: {}", failure.code);
                failure.message
            }
            Ok(_) => panic!("`{line}` was taken"),
        }
    }

    #[test]
    fn what_reads_is_taken() {
        for command in COMMANDS {
            let line = if command == "show" { "show -1" } else { command };
            let threads = command == "threads" && matches!(parse(line), Ok(Request::Threads(..)));
            assert!(threads || matches!(parse(line), Ok(Request::Question(..))), "{command}");
        }
        let Ok(Request::Question(question, output)) =
            parse(" last 5 --thread 'a b' --class queue --from 3 --to -1 --hz 72M --format json --width 120")
        else {
            panic!("a plain line")
        };
        assert_eq!(question.ask, Ask::Last(Amount::Events(5)));
        assert_eq!((output.format, output.width, output.path), (args::Format::Json, Some(120), None));
        assert!(matches!(parse("threads --all"), Ok(Request::Threads(true, _))));
        assert!(parse("objects --use").is_ok() && parse("latency --every tick --span a..b").is_ok());
        assert!(parse("last 5ms --previous --tracex").is_err_and(|f| f.message.contains("--tracex")));
    }

    #[test]
    fn no_source_no_file_and_nothing_that_runs() {
        for source in [
            "--elf app.elf",
            "--elf=app.elf",
            "--remote :3333",
            "--remote |sh",
            "--remote=|sh",
            "--core x",
            "--image x@0",
            "--trace x",
            "--trace -",
            "--symbol a=1",
            "--header 0",
            "--scan",
            "--load-offset 1",
            "--entry 1",
            "--format-in uia",
            "--timeout 1",
            "--reg r0=1",
            "--debugger-reg r0=1",
            "--leave running",
            "--events x",
            "--event-enum x",
            "-o x",
            "-ox",
            "--output x",
            "--output=-",
            "--color always",
            "--strict",
        ] {
            for command in ["last", "list", "info", "report", "objects", "threads"] {
                let line = format!("{command} {source}");
                let why = refused(&line);
                // An option that the command has nowhere is refused as that.
                let none = command == "threads" && why.contains("unexpected argument");
                assert!(why.contains("not taken from a monitor line") || none, "{line}: {why}");
            }
        }
        for word in ["x.core", "./50", "|sh", "|", "@options", "/etc/passwd", "-"] {
            assert!(refused(&format!("last {word}")).contains("would be a file"), "{word}");
        }
    }

    #[test]
    fn no_command_that_writes_listens_or_waits() {
        for command in
            ["dump", "export", "follow", "control", "serve", "bridge", "gdb", "demo", "events", "@options", "--version"]
        {
            assert!(refused(command).contains("cannot ask for"), "{command}");
            assert!(refused(&format!("{command} -o x")).contains("cannot ask for"), "{command}");
        }
        for format in ["csv", "md"] {
            assert!(refused(&format!("stats --format {format}")).contains("table or json"), "{format}");
        }
    }

    #[test]
    fn nonsense_is_one_line() {
        for line in ["last --nonsense", "last 'open", "last\nlist", "show", "last 5 6", "last --format tsv"] {
            let message = refused(line);
            assert!(!message.is_empty() && !message.contains('\n'), "{message}");
        }
        assert!(refused(&format!("last --thread {}", "x".repeat(LONGEST))).contains("at most"));
    }

    #[test]
    fn help_is_ours() {
        for line in ["", "  ", "help", "--help", "last --help", "dump --help"] {
            assert!(matches!(parse(line), Ok(Request::Help)), "{line}");
        }
        let mut out = Vec::new();
        let mut none = crate::mem::segments::Segments::default();
        assert_eq!(run("help", &Program::default(), Borrowed::Memory(&mut none), &mut out), Outcome::Done);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("inversions") && text.contains("--core-id") && !text.contains("--elf"), "{text}");
        assert!(text.lines().all(|l| l.len() <= 80));
    }

    #[test]
    fn what_is_printed_is_bounded() {
        let mut bounded = Bounded::default();
        let line = [b'x'; 1000];
        let failed = (0..2000).find(|_| bounded.write_all(&line).and_then(|()| bounded.write_all(b"\n")).is_err());
        assert!(failed.is_some() && bounded.full && bounded.bytes.len() == MOST);
        let mut out = Vec::new();
        bounded.pour(&mut out).unwrap();
        assert!(out.ends_with(b"x\n") && out.len() % 1001 == 0);
    }

    #[test]
    fn what_is_wrong_is_told_to_who_asked() {
        for (line, told) in [("last", "no symbol"), ("last --format json", "\"type\":\"error\""), ("dump", "dump")] {
            let mut out = Vec::new();
            let mut none = crate::mem::segments::Segments::default();
            let outcome = run(line, &Program::default(), Borrowed::Memory(&mut none), &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(outcome != Outcome::Done && text.contains(told), "{line}: {text}");
        }
    }
}
