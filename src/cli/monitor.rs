//! Monitor lines: `monitor tx-trace last 50`, to a server or a bridge that has the target open already.
//!
//! Anyone who can connect can send such a line, so the table of commands says which commands and options it may hold. No
//! source, no file and nothing that is run.

use std::ffi::OsString;
use std::io::{self, Write};

use super::commands::{self, COMMANDS, MONITOR_OPTIONS, Typed};
use super::diagnostics::Diagnostics;
use super::options::Color;
use super::request::{self, Clock, Output, Request};
use super::{Outcome, Refusal, option_files};
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::output::Format;
use crate::session::{Borrowed, Target, TargetInfo};

/// The longest line, in bytes.
const MAX_LINE: usize = 4096;

/// The most bytes that one line prints.
const MAX_OUTPUT: usize = 1 << 20;

/// What is known of the target that lines ask about.
#[derive(Default)]
pub struct Program {
    /// Its ELF, its symbols, where its trace is.
    pub info: TargetInfo,
    /// What stamps mean, where a line does not say it.
    pub clock: Clock,
    /// Whose names.
    pub names: Names,
}

impl Program {
    /// Gives a line what it does not say itself.
    pub(super) fn adopted(&self, clock: &mut Clock, names: &mut Names) {
        clock.or(&self.clock);
        if *names == Names::default() {
            *names = self.names;
        }
    }
}

/// Parses what follows `tx-trace` in a monitor line; `None` for help. Pure.
///
/// # Errors
/// An [`Error`] that names what is not allowed.
pub fn parse(line: &str) -> Result<Option<Request>, Error> {
    let refuse = |message: String| Error::failed(Code::Monitor, message, "");
    if line.len() > MAX_LINE {
        return Err(refuse(format!("a monitor line has at most {MAX_LINE} bytes")));
    }
    if line.contains(['\0', '\n', '\r']) {
        return Err(refuse("a monitor line is one line of text".to_owned()));
    }
    let words = option_files::split(line).map_err(refuse)?;
    let Some(first) = words.first() else { return Ok(None) };
    if words.iter().any(|w| w == "--help" || w == "-h") || first == "help" {
        return Ok(None);
    }
    if !commands::row(first).is_some_and(|row| row.monitor) {
        let names: Vec<&str> = names().collect();
        return Err(refuse(format!("a monitor line cannot ask for `{first}`: it takes {}", names.join(", "))));
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let typed = Typed::parse(&words).map_err(|e| {
        Refusal::from(e).error(&words).unwrap_or_else(|| refuse("a monitor line prints no version".to_owned()))
    })?;
    if let Some(id) = typed.ids().iter().find(|id| !MONITOR_OPTIONS.contains(&id.as_str())) {
        return Err(refuse(format!(
            "`--{}` is not allowed in a monitor line: it takes a command, filters, and --format {}",
            id.replace('_', "-"),
            request::one_of(formats())
        )));
    }
    let Request { task, output } = typed.request()?;
    if let Some(file) = task.inputs().and_then(|inputs| inputs.files.first()) {
        return Err(refuse(format!(
            "`{}` would be a file, and a monitor line names none: it reads the target that the debugger has",
            file.display()
        )));
    }
    if !output.format.is_for_monitor() {
        return Err(refuse(format!("a monitor line prints --format {}", request::one_of(formats()))));
    }
    Ok(Some(Request { task, output: Output { path: None, color: Color::Never, ..output } }))
}

/// Answers what follows `tx-trace` in a monitor line: data, and the diagnostics below it.
pub(super) fn run(line: &str, program: &Program, memory: Borrowed<'_>, out: &mut dyn Write) -> Outcome {
    let mut bounded = Bounded::default();
    let mut format = Format::default();
    let diagnostics = Diagnostics::buffer();
    let answer = parse(line).and_then(|request| match request {
        None => Ok(help(&mut bounded)?),
        Some(Request { task, output }) => {
            format = output.format;
            let target = Target::over(program.info.clone(), memory);
            task.answer(program, target, &output, &mut bounded, &diagnostics)
        }
    });
    let outcome = match answer {
        Ok(outcome) => outcome,
        Err(_) if bounded.full => Outcome::Done,
        Err(error) => {
            // Nothing can be done about a buffer that is full.
            let _ = format.write_error(&mut bounded, &error);
            diagnostics.error(&error)
        }
    };
    let _ = bounded.write_to(out);
    if !format.has_issues() {
        let _ = out.write_all(diagnostics.into_text().as_bytes());
    }
    if bounded.full {
        let _ =
            writeln!(out, "tx-trace: the rest is not shown: one line prints at most {MAX_OUTPUT} bytes; add filters");
    }
    outcome
}

/// The commands that a monitor line may ask for.
fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().filter(|row| row.monitor).map(|row| row.name)
}

/// The formats that a monitor line may ask for.
fn formats() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|f| f.is_for_monitor())
}

fn help(out: &mut dyn Write) -> io::Result<Outcome> {
    let option = |id: &&str| format!("--{}", if *id == "usage" { "use" } else { *id }.replace('_', "-"));
    let options: Vec<String> = MONITOR_OPTIONS.iter().filter(|id| **id != "words").map(option).collect();
    let formats: Vec<&str> = formats().map(Format::name).collect();
    writeln!(out, "monitor tx-trace COMMAND [N|SEQ] [FILTERS] [--format {}]\n", formats.join("|"))?;
    wrapped(out, "commands:", names())?;
    wrapped(out, "options: ", options.iter().map(String::as_str))?;
    writeln!(out, "\n`tx-trace COMMAND --help` in a shell explains them.")?;
    Ok(Outcome::Done)
}

/// Words in lines of at most 80 columns after a head.
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
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let end = match self.bytes.iter().rposition(|b| *b == b'\n') {
            Some(at) if self.full => at.saturating_add(1),
            _ => self.bytes.len(),
        };
        out.write_all(self.bytes.get(..end).unwrap_or_default())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
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

    fn refused(line: &str) -> String {
        match parse(line) {
            Err(error) => {
                let codes = [Code::Monitor, Code::Usage, Code::Position];
                assert!(codes.contains(&error.code), "{line}: {}", error.code.name());
                error.message
            }
            Ok(_) => panic!("`{line}` was taken"),
        }
    }

    #[test]
    fn what_reads_is_taken() {
        for command in names() {
            let line = if command == "show" { "show -1" } else { command };
            assert!(matches!(parse(line), Ok(Some(_))), "{command}");
        }
        let Ok(Some(Request { output, .. })) =
            parse(" last 5 --thread 'a b' --class queue --from 3 --to -1 --hz 72M --format json --width 120")
        else {
            panic!("a plain line")
        };
        assert_eq!((output.format.name(), output.width, output.path), ("json", Some(120), None));
        assert!(parse("threads --all").is_ok());
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
                let none = why.contains("has no option");
                assert!(why.contains("not allowed in a monitor line") || none, "{line}: {why}");
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
        assert!(refused(&format!("last --thread {}", "x".repeat(MAX_LINE))).contains("at most"));
    }

    /// What a line asks for is what it gets: the number of events, the filter, all objects.
    #[test]
    fn a_line_is_carried_out_as_it_was_typed() {
        let file = |name: &str| [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect();
        let inputs = crate::session::Inputs { files: vec![file("cm3.elf"), file("cm3.core")], ..Default::default() };
        let (mut memory, info) = crate::session::Target::open(inputs).unwrap().into_memory().unwrap();
        let program = Program { info, ..Program::default() };
        let mut said = |line: &str| {
            let mut out = Vec::new();
            let outcome = run(line, &program, Borrowed::Memory(memory.as_mut()), &mut out);
            assert_eq!(outcome, Outcome::Done, "{line}");
            String::from_utf8(out).unwrap()
        };
        let text = said("last 5 --class queue --format json");
        let events: Vec<&str> = text.lines().filter(|l| l.starts_with("{\"type\":\"event\"")).collect();
        assert!(events.len() == 5 && events.iter().all(|e| e.contains("\"name\":\"tx_queue_")), "{text}");
        let [some, all] = ["threads", "threads --all"].map(&mut said);
        assert!(all.lines().count() > some.lines().count(), "{some}{all}");
    }

    #[test]
    fn help_is_ours() {
        for line in ["", "  ", "help", "--help", "last --help", "dump --help"] {
            assert!(matches!(parse(line), Ok(None)), "{line}");
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
        assert!(failed.is_some() && bounded.full && bounded.bytes.len() == MAX_OUTPUT);
        let mut out = Vec::new();
        bounded.write_to(&mut out).unwrap();
        assert!(out.ends_with(b"x\n") && out.len() % 1001 == 0);
    }

    #[test]
    fn an_error_is_in_the_answer() {
        for (line, part) in [("last", "no symbol"), ("last --format json", "\"type\":\"error\""), ("dump", "dump")] {
            let mut out = Vec::new();
            let mut none = crate::mem::segments::Segments::default();
            let outcome = run(line, &Program::default(), Borrowed::Memory(&mut none), &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(outcome != Outcome::Done && text.contains(part), "{line}: {text}");
        }
    }
}
