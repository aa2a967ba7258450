//! `help`: what a command takes, and the topics that messages point at.

mod markdown;
pub mod page;

use std::io::Write as _;

use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task};
use super::sink::Sink;
use super::{Outcome, commands, options};
use crate::code::Code;
use crate::error::Error;
use crate::near::{did_you_mean, nearest};

/// A page that explains something which several commands share.
pub struct Topic {
    /// What is typed: `tx-trace help NAME`.
    pub name: &'static str,
    /// What it explains, in one line.
    pub about: &'static str,
    /// Its text, as it is printed.
    pub text: &'static str,
}

/// All of them, in the order of the help.
pub(super) static TOPICS: &[Topic] = &[
    topic("sources", "where the bytes come from: cores, dumps, live targets", include_str!("help/sources.txt")),
    topic("endpoints", "what --remote takes", include_str!("help/endpoints.txt")),
    topic("filters", "which events: --thread, --event and the rest; positions", include_str!("help/filters.txt")),
    topic("events", "names of events, and of those of your application", include_str!("help/events.txt")),
    topic("reports", "what the columns of each report mean", include_str!("../../docs/reports.md")),
    topic("findings", "what each finding of `explain` claims, and from what", include_str!("../../docs/explain.md")),
    topic("faults", "threads, their states, backtraces, registers and faults", include_str!("../../docs/threads.md")),
    topic(
        "issues",
        "what each code of an issue or an error means, and what to do",
        include_str!("../../docs/issues.md"),
    ),
    topic(
        "user-events",
        "names, arguments and meaning of your application's events",
        include_str!("../../docs/user-events.md"),
    ),
    topic(
        "tutorial",
        "from a ThreadX project without trace to the first `last 50`",
        include_str!("../../docs/tutorial.md"),
    ),
    topic(
        "recipes",
        "each GDB server: how to attach without reset, halt or erase",
        include_str!("../../docs/recipes.md"),
    ),
    topic("json-schema", "a JSON Schema of the lines of --format json", crate::output::JSON_SCHEMA),
    topic("exit-codes", "exit codes, and what messages begin with", include_str!("help/exit-codes.txt")),
];

const fn topic(name: &'static str, about: &'static str, text: &'static str) -> Topic {
    Topic { name, about, text }
}

impl Topic {
    /// True for a page of docs/, which begins with its title.
    fn is_page(&self) -> bool {
        self.text.starts_with("# ")
    }

    /// What is printed.
    fn page(&self) -> String {
        if self.is_page() { markdown::markdown(self.text) } else { self.text.to_owned() }
    }
}

/// What to explain.
struct Help {
    word: Option<String>,
}

/// Of what was typed.
pub(super) fn request(typed: options::Help) -> Request {
    Request::new(Help { word: typed.word }, Output::default())
}

impl Task for Help {
    fn run(self: Box<Self>, output: &Output, _: &Diagnostics) -> Result<Outcome, Error> {
        let text = match &self.word {
            None => page::main(),
            Some(word) => explain(word)?,
        };
        let mut sink = Sink::open(output, None)?;
        sink.write_all(text.as_bytes())?;
        sink.finish()?;
        Ok(Outcome::Done)
    }
}

/// The text of a topic or a command; of both where one word names both.
fn explain(word: &str) -> Result<String, Error> {
    let topic = TOPICS.iter().find(|topic| topic.name == word).map(Topic::page);
    let command = commands::row(word).map(page::command);
    match (topic, command) {
        (Some(topic), Some(command)) => Ok(format!("{topic}\n{command}")),
        (Some(text), None) | (None, Some(text)) => Ok(text),
        (None, None) => Err(unknown(word)),
    }
}

/// Neither command nor topic.
fn unknown(word: &str) -> Error {
    let error = Error::usage(Code::Usage, format!("`{word}` is neither a command nor a topic of help"));
    let known = commands::COMMANDS.iter().map(|row| row.name).chain(TOPICS.iter().map(|topic| topic.name));
    let near = nearest(word, known);
    if near.is_empty() {
        let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        return error.hint(format!("`tx-trace help` lists the commands; topics are {}", topics.join(", ")));
    }
    error.hint(did_you_mean(&near, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> &'static str {
        TOPICS.iter().find(|topic| topic.name == name).unwrap().text
    }

    #[test]
    fn topics_name_every_option_of_their_group() {
        for (topic, group) in [("filters", "Filters"), ("sources", "Source"), ("endpoints", "Live target")] {
            let missing: Vec<String> = page::options_under("last", group)
                .into_iter()
                .filter(|option| !text(topic).contains(option.as_str()))
                .collect();
            assert!(missing.is_empty(), "{topic}: {missing:?}");
        }
    }

    #[test]
    fn every_endpoint_is_a_topic_of_help() {
        use crate::rsp::Endpoint;
        let text = text("endpoints");
        // One of each kind: a new kind does not compile without its form here.
        let form = |endpoint: &Endpoint| match endpoint {
            Endpoint::Tcp { .. } => "host:port",
            Endpoint::Serial { .. } => "/dev/ttyX[@baud]",
            Endpoint::Unix(_) => "unix:PATH",
            Endpoint::Command(_) => "|COMMAND",
            Endpoint::Stdio => "stdio:",
            Endpoint::OpenOcd { .. } => "openocd:HOST:PORT",
            Endpoint::QmpTcp { .. } => "qmp:HOST:PORT",
            Endpoint::QmpUnix(_) => "qmp:PATH",
        };
        for typed in [":1", "/dev/ttyS0", "unix:a", "|a", "stdio:", "openocd::1", "qmp::1", "qmp:/a"] {
            let form = form(&Endpoint::parse(typed).unwrap());
            assert!(text.contains(form), "{form}");
        }
    }

    #[test]
    fn every_exit_code_is_a_topic_of_help() {
        for outcome in [Outcome::Done, Outcome::NotFound, Outcome::Failed] {
            let line = format!("  {}  ", outcome.code());
            assert!(text("exit-codes").lines().any(|l| l.starts_with(&line)), "{outcome:?}");
        }
    }

    #[test]
    fn topics_fit_a_terminal() {
        // Pages of docs/ are Markdown, of any width; the schema is for programs.
        for topic in TOPICS.iter().filter(|topic| !topic.is_page() && topic.name != "json-schema") {
            assert!(topic.text.lines().all(|line| line.chars().count() <= 80), "{}", topic.name);
            assert!(topic.text.ends_with('\n'), "{}", topic.name);
        }
    }
}
