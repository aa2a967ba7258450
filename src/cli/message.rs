//! All that goes to stderr: one clear sentence, what was tried, and what to try next.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;

use super::Outcome;
use crate::code::Code;
use crate::error::Error;
use crate::output::{self, Paint};
use crate::trace::Issue;

thread_local! {
    /// What is said while somebody listens in place of stderr.
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `work` has to say, in place of saying it on our stderr: who asked over a link does not see that.
pub fn overhear<T>(work: impl FnOnce() -> T) -> (T, String) {
    let before = HEARD.replace(Some(String::new()));
    let result = work();
    let heard = HEARD.replace(before).unwrap_or_default();
    (result, heard)
}

/// Says why, and gives the exit code.
pub fn fail(failure: &Error) -> Outcome {
    // A name of a file may hold the end of a line: what is said stays one line each.
    let line = output::escape;
    let mut text = format!("tx-trace: {}\n", line(&failure.message));
    for tried in &failure.tried {
        text.push_str(&format!("  tried: {}\n", line(tried)));
    }
    if !failure.hint.is_empty() {
        text.push_str(&format!("  try: {}\n", line(&failure.hint)));
    }
    say_raw(&text);
    failure.into()
}

/// True where the words ask for JSON on standard output. They are looked at as they are: what is wrong with them may be
/// why nothing else can be done with them.
pub fn wants_json(words: &[OsString]) -> bool {
    let is = |word: &OsString, text: &str| word.to_str() == Some(text);
    let json = words.iter().any(|w| is(w, "--format=json"))
        || words.windows(2).any(|pair| matches!(pair, [a, b] if is(a, "--format") && is(b, "json")));
    let file = |w: &OsString| w.to_str().is_some_and(|w| w.starts_with("-o") || w.starts_with("--output"));
    json && !words.iter().any(file)
}

/// A mistake in what was typed, before anything is opened; who asked for JSON gets its `error` line as well.
pub fn refuse(failure: &Error, json: bool) -> Outcome {
    if json {
        error_line(failure);
    }
    fail(failure)
}

fn error_line(error: &Error) {
    // Who does not read it is told by the exit code.
    let _ = output::write_error(&mut std::io::stdout(), error);
}

/// What clap has to say: help and version are answers, the rest is a mistake.
pub fn usage(error: &clap::Error, json: bool) -> Outcome {
    if error.use_stderr() {
        if json {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let message = first.strip_prefix("error: ").unwrap_or(first);
            error_line(&Error::usage(Code::Usage, message));
        }
        say_raw(&error.render().to_string());
        return Outcome::Failed;
    }
    // A reader that closes the pipe of `--help` has seen enough.
    let _ = std::io::stdout().write_all(error.render().to_string().as_bytes());
    Outcome::Done
}

/// The tally of issues, below what was printed.
pub fn issues(issues: &[Issue]) {
    let mut text = Vec::new();
    if output::write_issues(&mut text, issues, &Paint::default()).is_ok() {
        say_raw(&String::from_utf8_lossy(&text));
    }
}

/// A question; what is typed comes behind it.
pub fn ask(text: &str) {
    say_raw(text);
}

/// One line of talk.
pub fn say(text: &str) {
    say_raw(&format!("{text}\n"));
}

/// Target text in a sentence is escaped here, once for all of them; but the end of a line in it by who puts it there.
fn say_raw(text: &str) {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' {
            clean.push(c);
        } else {
            output::escape_into(c.encode_utf8(&mut [0; 4]), &mut clean);
        }
    }
    let said = HEARD.with_borrow_mut(|heard| heard.as_mut().map(|text| text.push_str(&clean)).is_some());
    if said {
        return;
    }
    // Nothing can be said about a stderr that cannot be written.
    let _ = std::io::stderr().write_all(clean.as_bytes());
}
