//! What to open. Nothing here is open yet.

use std::path::PathBuf;
use std::time::Duration;

use super::{Borrowed, Target, TargetInfo, open};
use crate::abi::Addr;
use crate::error::Error;
use crate::format::Format;
use crate::mem::Memory;
use crate::rsp::{Endpoint, Leave};

/// Names a program and a source of memory, and opens them.
#[derive(Default, Clone)]
pub struct Inputs {
    /// The program's ELF file.
    pub elf: Option<PathBuf>,
    /// A program that is not a file: its name in messages, and its bytes.
    pub elf_built_in: Option<(&'static str, &'static [u8])>,
    /// The one to take where no other file is a program.
    pub elf_default: Option<PathBuf>,
    /// Where the memory comes from.
    pub source: SourceSpec,
    /// Files of any kind: what each is shows from its content.
    pub files: Vec<PathBuf>,
    /// Names with addresses.
    pub symbols: Vec<(String, Addr)>,
    /// Registers of the CPU that stopped.
    pub registers: GivenRegisters,
    /// Where the trace describes itself.
    pub header: Option<Addr>,
    /// Search all memory.
    pub scan: bool,
    /// Run-time address less link address; wraps.
    pub load_offset: Option<u64>,
    /// The entry point as a debugger sees it.
    pub entry: Option<Addr>,
    /// Files that say what the application's events mean.
    pub events: Vec<PathBuf>,
    /// Enumerations of the ELF that name them.
    pub event_enums: Vec<String>,
    /// Take it for a trace of this format.
    pub format: Option<&'static dyn Format>,
}

/// Registers with values, by name.
#[derive(Debug, Default, Clone)]
pub struct GivenRegisters {
    /// Each is one that the processor has: of a crash log, say.
    pub typed: Vec<(String, u64)>,
    /// What a debugger showed: of these, those that are known here are used.
    pub shown: Vec<(String, u64)>,
}

/// Where memory comes from.
#[derive(Default, Clone)]
pub enum SourceSpec {
    /// From the files beside it.
    #[default]
    Files,
    /// A stub.
    Remote(RemoteInput),
    /// An ELF core.
    Core(PathBuf),
    /// Memory dumps.
    Images(Vec<Image>),
    /// Bare trace buffers.
    Traces(Vec<TraceInput>),
}

/// A stub, and how to treat it.
#[derive(Debug, Clone)]
pub struct RemoteInput {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Bounds the connect and each reply.
    pub timeout: Duration,
    /// How to leave the target.
    pub leave: Leave,
    /// The longest that a target that ran may be halted.
    pub max_halt: Option<Duration>,
}

/// A memory dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its file.
    pub path: PathBuf,
    /// Where its first byte belongs; `None` where a trace header in it shows that.
    pub address: Option<Addr>,
}

/// A bare trace buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceInput {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl From<&str> for Inputs {
    /// One file of any kind.
    fn from(path: &str) -> Self {
        Self::new().file(path)
    }
}

impl From<PathBuf> for Inputs {
    /// One file of any kind.
    fn from(path: PathBuf) -> Self {
        Self::new().file(path)
    }
}

impl From<Vec<PathBuf>> for Inputs {
    /// Files of any kind.
    fn from(files: Vec<PathBuf>) -> Self {
        Self { files, ..Self::default() }
    }
}

impl<P: Into<PathBuf>, const N: usize> From<[P; N]> for Inputs {
    /// Files of any kind: a program and a core of it, for example.
    fn from(paths: [P; N]) -> Self {
        Self { files: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl RemoteInput {
    /// The stub at `endpoint`, with the timeout of the command line; a target that ran is left running, one that was halted is left halted.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, timeout: Duration::from_secs(2), leave: Leave::AsFound, max_halt: None }
    }
}

impl Inputs {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The program that ran.
    #[must_use]
    pub fn elf(mut self, path: impl Into<PathBuf>) -> Self {
        self.elf = Some(path.into());
        self
    }

    /// Adds a file of any kind: a program, a core, a memory dump or a trace buffer.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Memory is read through this stub.
    #[must_use]
    pub fn remote(mut self, endpoint: Endpoint) -> Self {
        self.source = SourceSpec::Remote(RemoteInput::new(endpoint));
        self
    }

    /// A symbol that no ELF has.
    #[must_use]
    pub fn symbol(mut self, name: impl Into<String>, address: Addr) -> Self {
        self.symbols.push((name.into(), address));
        self
    }

    /// The address of the trace's header.
    #[must_use]
    pub const fn header(mut self, address: Addr) -> Self {
        self.header = Some(address);
        self
    }

    /// Opens the program alone, for [`Target::over`].
    ///
    /// # Errors
    /// [`Error`] when a file cannot be used, or is a source of memory.
    pub fn describe(self) -> Result<TargetInfo, Error> {
        open::describe(self)
    }

    /// Opens the program, over memory of your own; `name` is its name in messages.
    ///
    /// # Errors
    /// As [`Inputs::describe`].
    pub fn over<'m>(self, name: &str, memory: &'m mut dyn Memory) -> Result<Target<'m>, Error> {
        Ok(Target::over(self.describe()?.named(name), Borrowed::Memory(memory)))
    }

    /// True where a stub is talked to.
    pub const fn is_remote(&self) -> bool {
        matches!(&self.source, SourceSpec::Remote(_))
    }

    /// True where a debugger is at the other end of stdin and stdout.
    pub fn is_stdio(&self) -> bool {
        matches!(&self.source, SourceSpec::Remote(r) if r.endpoint == Endpoint::Stdio)
    }
}
