//! What goes to stderr: errors, issues and notes. A value that goes down the calls, so that a monitor line's answer goes
//! to the debugger that sent the line.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{IsTerminal, Write};

use super::Outcome;
use super::options::Color;
use super::sink::{COLUMNS, is_plain_terminal};
use crate::error::Error;
use crate::output::{self, Style, Styles, UNLIMITED};
use crate::sys;
use crate::trace::Issue;

/// Where diagnostics go.
#[derive(Default)]
pub struct Diagnostics {
    /// Kept in place of being printed on stderr.
    buffer: Option<RefCell<String>>,
    /// Whether they are coloured.
    color: Cell<Color>,
    /// What comes below an error.
    below: RefCell<Vec<Issue>>,
}

impl Diagnostics {
    /// To our stderr.
    pub(super) fn stderr() -> Self {
        Self::default()
    }

    /// Into memory.
    pub(super) fn buffer() -> Self {
        Self { buffer: Some(RefCell::default()), ..Self::default() }
    }

    /// Colours as the options say.
    pub(super) fn set_color(&self, color: Color) {
        self.color.set(color);
    }

    fn styles(&self) -> Styles {
        let wanted = match self.color.get() {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::io::stderr().is_terminal() && !is_plain_terminal(),
        };
        Styles::new(wanted && self.buffer.is_none())
    }

    /// What came into memory.
    pub(super) fn into_text(self) -> String {
        self.buffer.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Columns of a line. Only a terminal limits them: elsewhere a sentence is one line, which `grep` finds.
    fn width(&self) -> usize {
        if self.buffer.is_some() || !std::io::stderr().is_terminal() {
            return UNLIMITED;
        }
        sys::columns_of_stderr().filter(|columns| *columns >= 20).unwrap_or(COLUMNS)
    }

    /// A sentence after a word that says what it is. What the target has in it is escaped.
    fn sentence(&self, head: &str, style: Style, text: impl Display) {
        self.write_clean(&output::sentence((head, style), &text.to_string(), &self.styles(), self.width()));
    }

    /// What was done or seen.
    pub(super) fn say(&self, text: impl Display) {
        self.sentence("tx-trace", Style::Plain, text);
    }

    /// Why there is no result, or not all of it.
    pub(super) fn failed(&self, text: impl Display) {
        self.sentence("error", Style::Error, text);
    }

    /// What to do next.
    pub(super) fn hint(&self, text: impl Display) {
        self.sentence("hint", Style::Plain, text);
    }

    /// A line that is not broken, however long: a command to copy.
    pub fn line(&self, text: impl Display) {
        self.write(&format!("{}\n", output::escape(&text.to_string())));
    }

    /// A question; the answer is typed after it.
    pub(super) fn ask(&self, text: &str) {
        self.write(text);
    }

    /// The tally of issues.
    pub fn issues(&self, issues: &[Issue]) {
        let mut text = Vec::new();
        if output::write_issues(&mut text, issues, &self.styles(), self.width()).is_ok() {
            self.write_clean(&String::from_utf8_lossy(&text));
        }
    }

    /// The tally below a result: what is noted about the files, and changes nothing of it, is in `info` alone.
    pub(super) fn issues_of_result(&self, issues: &[Issue]) {
        let issues: Vec<Issue> = issues.iter().filter(|issue| !issue.is_about_source()).cloned().collect();
        self.issues(&issues);
    }

    /// Issues of a run that fails: they are printed below its error, which is the more likely cause.
    pub(super) fn issues_of_failure(&self, issues: &[Issue]) {
        self.below.borrow_mut().extend_from_slice(issues);
    }

    /// Why there is no result; gives the exit code.
    pub fn error(&self, error: &Error) -> Outcome {
        self.failed(&error.message);
        for tried in &error.tried {
            self.sentence("tried", Style::Plain, tried);
        }
        if !error.hint.is_empty() {
            self.hint(&error.hint);
        }
        self.issues(&self.below.take());
        if error.is_not_found() { Outcome::NotFound } else { Outcome::Failed }
    }

    /// Lines. Text of a target is escaped, but for the ends of lines.
    pub fn write(&self, text: &str) {
        let mut clean = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let body = line.strip_suffix('\n').unwrap_or(line);
            output::escape_into(body, &mut clean);
            clean.push_str(line.get(body.len()..).unwrap_or_default());
        }
        self.write_clean(&clean);
    }

    /// Lines that are escaped already.
    fn write_clean(&self, clean: &str) {
        match &self.buffer {
            Some(buffer) => buffer.borrow_mut().push_str(clean),
            // Nothing can be printed about a stderr that cannot be written.
            None => drop(std::io::stderr().write_all(clean.as_bytes())),
        }
    }
}
