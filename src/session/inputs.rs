//! What to read, as somebody decided it: nothing here is open yet.

use std::path::PathBuf;
use std::time::Duration;

use crate::abi::Addr;
use crate::format::Format;
use crate::rsp::{Endpoint, Leave};

/// Everything that names a source.
#[derive(Default, Clone)]
pub struct Inputs {
    /// The program's ELF file.
    pub elf: Option<PathBuf>,
    /// A program that is not a file: its name for people, and its bytes.
    pub elf_built_in: Option<(&'static str, &'static [u8])>,
    /// The one to take where no other is named.
    pub elf_default: Option<PathBuf>,
    /// Where the memory comes from.
    pub source: SourceSpec,
    /// Files to be told from their content.
    pub files: Vec<PathBuf>,
    /// Names with addresses.
    pub symbols: Vec<(String, Addr)>,
    /// Registers of the CPU that stopped.
    pub registers: GivenRegisters,
    /// Where the trace describes itself.
    pub header: Option<Addr>,
    /// Search all memory.
    pub scan: bool,
    /// Load address less link address; wraps.
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
    /// What a crash log printed: each is one that the processor has.
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
    /// The longest that a target that ran may be halted for us.
    pub max_halt: Option<Duration>,
}

/// A memory dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its file.
    pub path: PathBuf,
    /// Where its first byte belongs; `None` where the trace in it must tell.
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

impl Inputs {
    /// True where a stub is talked to.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        matches!(&self.source, SourceSpec::Remote(_))
    }

    /// True where a debugger is at the other end of stdin and stdout.
    #[must_use]
    pub fn is_stdio(&self) -> bool {
        matches!(&self.source, SourceSpec::Remote(r) if r.endpoint == Endpoint::Stdio)
    }
}
