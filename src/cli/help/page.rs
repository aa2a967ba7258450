//! The pages of `--help`, made of the table of commands.

use std::io::IsTerminal as _;

use clap::Arg;

use super::TOPICS;
use crate::cli::commands::{ABOUT, COMMANDS, Group, Row, typed};
use crate::sys;

/// Where the explanation of an option begins.
pub(super) const OPTIONS: usize = 26;
/// Where that of a command or a topic begins.
const COMMAND: usize = 14;

/// The groups of options, the most used first. The first are those of the command itself.
const HEADINGS: [&str; 8] =
    ["Options", "Following", "Source", "Filters", "Output", "Where the trace is", "Live target", "Clock and names"];

/// What a new user types first.
const FIRST: [(&str, &str); 5] = [
    ("tx-trace demo", "a built-in dead board, no hardware"),
    ("tx-trace explain app.elf app.core", "why your board died: a core or a dump"),
    ("tx-trace last 50 app.elf app.core", "its last events"),
    ("tx-trace last 50 --elf app.elf --remote :3333", "your board, live, over its GDB server"),
    ("tx-trace gdb --install >> ~/.gdbinit", "then in GDB: tx-trace last 50"),
];

/// One example of each command, with its real output.
const EXAMPLES: &str = include_str!("../../../docs/examples.md");

/// A page of at most so many columns.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) width: usize,
}

impl Page {
    /// As wide as the terminal, between 60 and 100 columns; 80 elsewhere.
    pub(super) fn new() -> Self {
        let columns = std::io::stdout().is_terminal().then(sys::columns).flatten();
        Self { text: String::new(), width: columns.unwrap_or(80).clamp(60, 100) }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// An empty line, and a heading.
    fn heading(&mut self, text: &str) {
        self.line("");
        self.line(&format!("{text}:"));
    }

    /// A text after `head`; its further lines begin at `column`.
    pub(super) fn text(&mut self, head: &str, column: usize, text: &str) {
        let mut line = format!("{head:column$}");
        let mut is_first = true;
        for word in text.split_whitespace() {
            let needed = line.chars().count().saturating_add(word.chars().count()).saturating_add(1);
            if !is_first && needed > self.width {
                self.line(&line);
                line = " ".repeat(column);
                is_first = true;
            }
            if !is_first {
                line.push(' ');
            }
            line.push_str(word);
            is_first = false;
        }
        self.line(&line);
    }

    /// A name, and what it means; on a line of its own where it is too long for the column.
    fn entry(&mut self, name: &str, column: usize, text: &str) {
        let head = format!("  {name}");
        if head.chars().count() < column {
            return self.text(&head, column, text);
        }
        self.line(&head);
        self.text("", column, text);
    }
}

/// The page of the program: how to begin, and what there is.
pub fn main() -> String {
    let mut page = Page::new();
    page.text("", 0, ABOUT);
    page.line("");
    page.line("Usage: tx-trace COMMAND [N|SEQ] [FILE...] [OPTIONS]");
    page.heading("Begin with");
    for (typed, what) in FIRST {
        page.entry(typed, 40, what);
    }
    for group in Group::ALL {
        page.heading(group.name());
        for row in COMMANDS.iter().filter(|row| row.group == group) {
            page.entry(row.name, COMMAND, row.about);
        }
    }
    page.heading("Topics, for `tx-trace help TOPIC`");
    for topic in TOPICS {
        page.entry(topic.name, COMMAND, topic.about);
    }
    page.line("");
    page.text("", 0, "`tx-trace help COMMAND` or `tx-trace COMMAND --help` lists the options of a command.");
    page.text("", 0, "Exit codes: 0 done, 1 not found, 2 error.");
    page.text
}

/// The page of a command: what it takes, the most used first, and an example.
pub fn command(row: &Row) -> String {
    let mut page = Page::new();
    page.text("", 0, &format!("{}.", row.about));
    page.line("");
    // Where there are many, each is an action of its own.
    let words = match row.words {
        [_, _, _, ..] => " ACTION".to_owned(),
        words => words.iter().map(|(name, _)| format!(" {name}")).collect(),
    };
    page.line(&format!("Usage: tx-trace {}{words} [OPTIONS]", row.name));
    if !row.words.is_empty() {
        page.line("");
    }
    for (name, text) in row.words {
        page.entry(name, OPTIONS, text);
    }
    let command = row.command();
    for heading in HEADINGS {
        let options: Vec<&Arg> = row.shown(&command).filter(|arg| under(arg) == heading).collect();
        if !options.is_empty() {
            page.heading(&title(heading));
        }
        for arg in options {
            page.entry(&name(arg), OPTIONS, &explained(row, arg));
        }
    }
    if row.group == Group::Reports {
        page.line("");
        page.line("`tx-trace help reports` explains the columns.");
    }
    if let Some(topic) = topic_of(row.name) {
        page.line("");
        page.line(&format!("More: tx-trace help {topic}"));
    }
    if let Some(example) = example(row.name) {
        page.heading("Example");
        for line in example.lines() {
            page.line(&format!("  {line}"));
        }
    }
    page.text
}

/// The group of an option.
fn under(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Options")
}

/// The heading of a group, with the topic that explains it.
fn title(heading: &str) -> String {
    let topic = match heading {
        "Source" => "sources",
        "Filters" => "filters",
        "Live target" => "endpoints",
        _ => return heading.to_owned(),
    };
    format!("{heading} (tx-trace help {topic})")
}

/// `-o, --output FILE`
fn name(arg: &Arg) -> String {
    let short = arg.get_short().filter(|_| arg.get_long().is_some()).map(|c| format!("-{c}, ")).unwrap_or_default();
    format!("{short}{}{}", typed(arg), value(arg))
}

/// ` FILE`; `[=THREAD,...]` where a value may be left out, and follows `=`.
pub fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().filter(|_| arg.get_action().takes_values());
    let is_optional = arg.is_require_equals_set() && arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    match names {
        Some(names) if is_optional => format!("[={}]", names.join(" ")),
        Some(names) => format!(" {}", names.join(" ")),
        None => String::new(),
    }
}

/// What an option means, with the words that it takes and its default.
fn explained(row: &Row, arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = row.values(arg);
    let default: Vec<String> = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    let has_default = arg.get_action().takes_values() && !default.is_empty();
    match (values.is_empty(), has_default) {
        (true, true) => text.push_str(&format!(" (default {})", default.join(","))),
        (false, true) => text.push_str(&format!(": {}; default {}", values.join(", "), default.join(","))),
        (false, false) => text.push_str(&format!(": {}", values.join(", "))),
        (true, false) => {}
    }
    text
}

/// The topic about a command that has another name.
fn topic_of(command: &str) -> Option<&'static str> {
    match command {
        "explain" => Some("findings"),
        "threads" => Some("faults"),
        "events" => Some("user-events"),
        _ => None,
    }
}

/// The example of a command: what is typed, and what is printed.
pub fn example(name: &str) -> Option<&'static str> {
    let (_, section) = EXAMPLES.split_once(&format!("\n## {name}\n"))?;
    let (_, block) = section.split_once("```")?;
    let (_, block) = block.split_once('\n')?;
    block.split_once("```").map(|(block, _)| block)
}

/// The options of a command in this group, as they are typed.
#[cfg(test)]
pub(super) fn options_under(command: &str, heading: &str) -> Vec<String> {
    let row = crate::cli::commands::row(command).unwrap();
    let command = row.command();
    row.shown(&command)
        .filter(|arg| under(arg) == heading)
        .filter_map(|arg| arg.get_long().map(|long| format!("--{long}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_of_options_is_on_the_page() {
        for row in COMMANDS {
            let command = row.command();
            for arg in row.shown(&command) {
                assert!(HEADINGS.contains(&under(arg)), "{}: {}", row.name, under(arg));
            }
        }
    }

    #[test]
    fn every_page_fits_a_terminal_and_has_an_example() {
        for row in COMMANDS {
            let page = self::command(row);
            // An example shows what comes.
            let page = page.split("\nExample:\n").next().unwrap();
            let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{}: {long:?}", row.name);
            assert!(example(row.name).is_some(), "{}: docs/examples.md has none", row.name);
        }
        assert!(main().lines().all(|line| line.chars().count() <= 80));
        let topics = COMMANDS.iter().filter_map(|row| topic_of(row.name));
        assert!(topics.into_iter().all(|topic| TOPICS.iter().any(|known| known.name == topic)));
    }
}
