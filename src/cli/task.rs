//! What a command does: reads a source, lets it go, prints.

use std::io::Write;
use std::path::PathBuf;

use super::diagnostics::Diagnostics;
use super::monitor::Program;
use super::request::Output;
use super::sink::Sink;
use super::{Outcome, inputs_kept, live};
use crate::code::Code;
use crate::error::Error;
use crate::session::{Inputs, Target};

/// What a command does.
pub trait Task {
    /// The source that it reads.
    fn inputs(&self) -> Option<&Inputs> {
        None
    }

    /// The files that it reads: they are never overwritten.
    fn files(&self) -> Vec<PathBuf> {
        self.inputs().map(inputs_kept::files).unwrap_or_default()
    }

    /// Does it.
    ///
    /// # Errors
    /// [`Error`] where there is no result.
    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error>;

    /// Answers a monitor line out of a target that is open already.
    ///
    /// # Errors
    /// As [`Task::run`].
    fn answer(
        self: Box<Self>,
        _program: &Program,
        _session: Target<'_>,
        _output: &Output,
        _out: &mut dyn Write,
        _diagnostics: &Diagnostics,
    ) -> Result<Outcome, Error> {
        Err(Error::failed(Code::Monitor, "a monitor line cannot ask for that", ""))
    }
}

/// With what a command reads and prints.
#[derive(Clone, Copy)]
pub struct With<'w> {
    /// How to print.
    pub output: &'w Output,
    /// Where messages go.
    pub diagnostics: &'w Diagnostics,
    /// A debugger keeps the target halted.
    pub is_held: bool,
    /// A monitor line asks.
    pub is_monitor: bool,
}

/// A command that reads all that it needs, and prints once the target is let go.
pub trait Reads {
    /// What was read.
    type Found;

    /// The source that it reads.
    fn inputs(&self) -> &Inputs;

    /// Refuses what was typed, before the source is opened.
    ///
    /// # Errors
    /// Why.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Takes over what was typed for all monitor lines.
    fn adopt(&mut self, _program: &Program) {}

    /// Reads.
    ///
    /// # Errors
    /// Where the source fails, or nothing is found.
    fn read(&self, target: &mut Target<'_>, with: With<'_>) -> Result<Self::Found, Error>;

    /// Prints.
    ///
    /// # Errors
    /// Where what was typed does not fit what was read, or the writer fails.
    fn print(&self, found: Self::Found, target: &Target<'_>, sink: Sink<'_>, with: With<'_>) -> Result<Outcome, Error>;
}

impl<T: Reads> Task for T {
    fn inputs(&self) -> Option<&Inputs> {
        Some(Reads::inputs(self))
    }

    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        self.check()?;
        let inputs = Reads::inputs(&*self).clone();
        let with = With { output, diagnostics, is_held: inputs.is_stdio(), is_monitor: false };
        let read = |target: &mut Target<'static>| self.read(target, with);
        live::run(inputs, diagnostics, read, |found, target, client| {
            self.print(found, target, Sink::open(output, client)?, with)
        })
    }

    fn answer(
        mut self: Box<Self>,
        program: &Program,
        mut target: Target<'_>,
        output: &Output,
        out: &mut dyn Write,
        diagnostics: &Diagnostics,
    ) -> Result<Outcome, Error> {
        let with = With { output, diagnostics, is_held: true, is_monitor: true };
        self.adopt(program);
        let found = self.read(&mut target, with).map_err(|error| target.with_cause(error));
        let found = found.inspect_err(|_| diagnostics.issues_of_failure(target.issues()))?;
        self.print(found, &target, Sink::over(out), with)
    }
}
