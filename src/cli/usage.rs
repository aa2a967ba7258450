//! What clap refuses, in the words of our messages: what is wrong in one line, and one hint.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::commands::{self, COMMANDS, Row, typed};
use super::values::Wrong;
use crate::code::Code;
use crate::error::Error;
use crate::near::{did_you_mean, nearest};

/// The command among the words of a command line.
pub fn command(words: &[OsString]) -> Option<&'static Row> {
    words.iter().find_map(|word| commands::row(word.to_str()?))
}

/// The error of a command line that clap refuses.
pub fn error(error: &clap::Error, words: &[OsString]) -> Error {
    let option = without_value(&context(error, ContextKind::InvalidArg));
    let value = context(error, ContextKind::InvalidValue);
    // What a function in `values` does not take is an error of ours, which clap carries.
    if let Some(Wrong { code, why, hint }) = error.source().and_then(|e| e.downcast_ref()) {
        return Error::usage(*code, format!("{option} {value}: {why}")).hint(hint.as_str());
    }
    let usage = |message: String| Error::usage(Code::Usage, message);
    match error.kind() {
        ErrorKind::UnknownArgument => unknown_option(command(words), &option),
        ErrorKind::InvalidSubcommand => unknown_command(&context(error, ContextKind::InvalidSubcommand)),
        ErrorKind::InvalidValue if value.is_empty() => {
            let value = context(error, ContextKind::InvalidArg);
            let value = value.split_once('<').map_or("value", |(_, name)| name.trim_end_matches('>'));
            usage(format!("{option} needs a value: {option} {value}"))
        }
        ErrorKind::InvalidValue => unknown_value(&option, &value, &contexts(error, ContextKind::ValidValue)),
        ErrorKind::MissingRequiredArgument => {
            let missing = contexts(error, ContextKind::InvalidArg).join(" ").replace(['<', '>'], "");
            let name = command(words).map_or("this command", |row| row.name);
            usage(format!("{name} needs {missing}")).hint(format!("see `tx-trace help {name}`"))
        }
        ErrorKind::ArgumentConflict => {
            let prior = contexts(error, ContextKind::PriorArg).iter().map(|arg| without_value(arg)).collect::<Vec<_>>();
            match prior.as_slice() {
                [prior] if *prior != option => usage(format!("{option} and {prior} exclude each other: give one")),
                _ => usage(format!("{option} is given more than once")),
            }
        }
        ErrorKind::TooManyValues => usage(format!("{option} takes no value")),
        ErrorKind::InvalidUtf8 => usage("an option is not text (UTF-8)".to_owned()),
        ErrorKind::MissingSubcommand => usage("which command?".to_owned()).hint("`tx-trace help` lists them"),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            usage(line.strip_prefix("error: ").unwrap_or(line).to_owned())
        }
    }
}

/// What clap says of the error: one text, empty where there is none.
fn context(error: &clap::Error, kind: ContextKind) -> String {
    contexts(error, kind).into_iter().next().unwrap_or_default()
}

fn contexts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// What other programs call an option of ours.
const ELSEWHERE: [(&str, &str); 16] = [
    ("-f", "--format"),
    ("--json", "--format json"),
    ("--csv", "--format csv"),
    ("--md", "--format md"),
    ("--markdown", "--format md"),
    ("--table", "--format table"),
    ("-c", "-n N"),
    ("--count", "-n N"),
    ("--limit", "-n N"),
    ("--tail", "-n N"),
    ("-e", "--elf"),
    ("--address", "--header"),
    ("--port", "--remote :PORT"),
    ("--target", "--remote"),
    ("--no-color", "--color never"),
    ("--backtrace", "--bt"),
];

/// `--elf` of `--elf <FILE>`.
fn without_value(option: &str) -> String {
    first_word(option).to_owned()
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn unknown_option(row: Option<&Row>, option: &str) -> Error {
    let usage = |message: String| Error::usage(Code::Usage, message);
    let Some(row) = row else {
        return usage(format!("{option} is not an option that comes before the command"))
            .hint("options follow the command: tx-trace last --thread NAME; `tx-trace help` lists the commands");
    };
    let name = row.name;
    if has(row, option) {
        return usage(format!("{option} comes before the command"))
            .hint(format!("options follow the command: tx-trace {name} {option}"));
    }
    if !option.starts_with('-') {
        return usage(format!("`{option}` is one argument too many for {name}"))
            .hint(format!("see `tx-trace help {name}`"));
    }
    let error = usage(format!("{name} has no option {option}"));
    let command = row.command();
    let own: Vec<String> = row.shown(&command).map(typed).collect();
    let elsewhere = ELSEWHERE.iter().find(|(theirs, ours)| *theirs == option && has(row, first_word(ours)));
    if let Some((_, ours)) = elsewhere {
        return error.hint(did_you_mean(&[ours], ""));
    }
    let with: Vec<&str> = COMMANDS.iter().filter(|row| has(row, option)).map(|row| row.name).collect();
    if !with.is_empty() {
        return error.hint(format!("{option} is an option of {}", with.join(", ")));
    }
    let bare = option.trim_start_matches('-');
    let near = nearest(bare, own.iter().map(|own| own.trim_start_matches('-')));
    let near: Vec<&str> =
        own.iter().map(String::as_str).filter(|own| near.contains(&own.trim_start_matches('-'))).collect();
    if near.is_empty() {
        return error.hint(format!("`tx-trace help {name}` lists its options"));
    }
    error.hint(did_you_mean(&near, ""))
}

/// True where the command takes this option.
fn has(row: &Row, option: &str) -> bool {
    let command = row.command();
    row.shown(&command).any(|arg| typed(arg) == option)
}

fn unknown_command(word: &str) -> Error {
    let error = Error::usage(Code::Usage, format!("`{word}` is not a command"));
    let near = nearest(word, COMMANDS.iter().map(|row| row.name));
    if Path::new(word).exists() {
        return error.hint(format!("to read this file: tx-trace last {word}"));
    }
    error.hint(if near.is_empty() { "`tx-trace help` lists the commands".to_owned() } else { did_you_mean(&near, "") })
}

fn unknown_value(option: &str, value: &str, valid: &[String]) -> Error {
    let error = Error::usage(Code::Usage, format!("{option} {value}: not one of {}", valid.join(", ")));
    let near = nearest(value, valid.iter().map(String::as_str));
    if near.is_empty() { error } else { error.hint(did_you_mean(&near, "")) }
}
