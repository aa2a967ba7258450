//! Where data goes: standard output, a file, or back over the link to a debugger.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

use super::interrupt;
use super::options::Color;
use super::request::Output;
use super::whole_file::{WholeFile, named};
use crate::code::Code;
use crate::error::{Error, reason};
use crate::output::{Styles, TableOptions, UNLIMITED};
use crate::rsp::Client;
use crate::sys;

/// A place for data.
pub struct Sink<'a> {
    to: To<'a>,
}

enum To<'a> {
    Stdout(StdoutLock<'static>),
    File(WholeFile),
    /// A device or a FIFO: it takes what comes, and nothing takes its name.
    Device(Device),
    Debugger(&'a mut Client),
    /// Who sent a monitor line.
    Writer(&'a mut dyn Write),
}

/// A device that is open; its errors name it.
struct Device {
    out: BufWriter<std::fs::File>,
    path: PathBuf,
}

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|e| named(&self.path, &e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| named(&self.path, &e))
    }
}

/// Columns of a terminal that does not say how many it has.
pub(super) const COLUMNS: usize = 80;

impl<'a> Sink<'a> {
    /// Opens the place that the options name. A file is written under another name and takes its own only when it is
    /// whole.
    pub fn open(output: &Output, debugger: Option<&'a mut Client>) -> Result<Self, Error> {
        let to = match (&output.path, debugger) {
            (Some(path), _) => file(path)?,
            (None, Some(client)) => To::Debugger(client),
            (None, None) if sys::stdout_was_closed() => {
                return Err(Error::failed(Code::Output, "standard output is closed", "-o FILE writes to a file"));
            }
            (None, None) => To::Stdout(io::stdout().lock()),
        };
        let sink = Self { to };
        if sink.is_terminal() && sink.styles(output).is_on() {
            interrupt::end_colours();
        }
        Ok(sink)
    }

    /// To a writer that is open already.
    pub fn over(out: &'a mut dyn Write) -> Self {
        Self { to: To::Writer(out) }
    }

    /// How a table looks that goes here.
    pub(super) fn table_options(&self, output: &Output) -> TableOptions {
        TableOptions {
            width: self.width(output),
            styles: self.styles(output),
            columns: output.columns.clone(),
            legend: self.is_terminal(),
            ..TableOptions::default()
        }
    }

    /// True for a terminal of our own.
    fn is_terminal(&self) -> bool {
        matches!(self.to, To::Stdout(_)) && io::stdout().is_terminal()
    }

    /// Columns of a table that goes here. Only a terminal limits them.
    fn width(&self, output: &Output) -> usize {
        let variable = || std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        // A debugger's command gives the width of its terminal, and prints what it gets from us.
        let for_debugger = || std::env::var_os("TX_TRACE_COLOR").is_some();
        if let Some(columns) = output.width {
            return columns;
        }
        let columns = match self.to {
            To::Stdout(_) if io::stdout().is_terminal() => sys::columns().or_else(variable),
            To::Debugger(_) => variable(),
            To::Stdout(_) if for_debugger() => variable(),
            // Where a monitor line was typed is a terminal, whose width is not known.
            To::Writer(_) => None,
            To::Stdout(_) | To::File(_) | To::Device(_) => Some(UNLIMITED),
        };
        columns.filter(|c| *c >= 20).unwrap_or(COLUMNS)
    }

    /// Whether what goes here is coloured.
    fn styles(&self, output: &Output) -> Styles {
        let on = match output.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => self.is_terminal() && !is_plain_terminal(),
        };
        Styles::new(on)
    }

    /// Everything is written: a file gets its name.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        match self.to {
            To::File(file) => Ok(file.finish()?),
            _ => Ok(self.flush()?),
        }
    }
}

/// True where the environment asks for no colours.
pub(super) fn is_plain_terminal() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) || sys::is_plain_terminal()
}

/// True for a device or a FIFO, whose reader takes what comes. Any other file is complete or not touched.
pub(super) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Opens a file to write.
fn file<'a>(path: &Path) -> Result<To<'a>, Error> {
    let fail = |e: io::Error| Error::failed(Code::Output, format!("{}: {}", path.display(), reason(&e)), "");
    if path.is_dir() {
        return Err(fail(io::Error::other("it is a directory")));
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        let why = format!("the directory {} does not exist", parent.display());
        return Err(fail(io::Error::other(why)));
    }
    if is_device(path) {
        let device = std::fs::OpenOptions::new().write(true).open(path).map_err(fail)?;
        return Ok(To::Device(Device { out: BufWriter::new(device), path: path.to_owned() }));
    }
    Ok(To::File(WholeFile::create(path).map_err(fail)?))
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::File(file) => file.write(bytes),
            To::Device(out) => out.write(bytes),
            To::Writer(out) => out.write(bytes),
            To::Debugger(client) => {
                client.console(bytes).map_err(|e| io::Error::new(io::ErrorKind::BrokenPipe, e.to_string()))?;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::File(file) => file.flush(),
            To::Device(out) => out.flush(),
            To::Writer(out) => out.flush(),
            To::Debugger(_) => Ok(()),
        }
    }
}
