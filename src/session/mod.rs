//! Memory, symbols and a format become a trace; and in words what was tried.

mod code;
mod entries;
pub mod events;
mod evidence;
mod file;
mod gather;
mod identity;
mod inputs;
mod live;
mod offset;
mod open;
mod program;
mod raw;
mod registry;
mod scan;
mod stop;
mod stub;
mod told;

pub use code::CodeMatch;
pub use entries::Entries;
pub use evidence::Evidence;
pub use identity::{Agreement, Identity};
pub use inputs::{GivenRegisters, Image, Inputs, RemoteInput, SourceSpec, TraceInput};
pub use open::open_elf;
pub use program::cut_short;
pub use raw::Raw;
pub use registry::registered;
pub use told::Told;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::elf::Elf;
use crate::error::Error;
use crate::format::{self, Capture, DecodeOptions, Extent, Format, Hints, Located, Location};
use crate::mem::Memory;
use crate::mem::cache::Cache;
use crate::mem::remote::Remote;
use crate::mem::segments::{Block, Segments};
use crate::rsp::Client;
use crate::sym::{Layers, Noted, Symbols};
use crate::trace::{Issue, Trace};

/// An open source, and where its trace lies once that was asked.
pub struct Session<'m> {
    memory: Source<'m>,
    symbols: Layers<'static>,
    elf: Option<Arc<Elf>>,
    hints: Hints,
    /// Where the trace begins was told by a file that begins with it, not by `--header`.
    header_in_file: bool,
    /// What people call the source.
    name: String,
    /// What was noticed while opening.
    issues: Vec<Issue>,
    /// Take it for a trace of this format.
    only: Option<&'static dyn Format>,
    scan: bool,
    load_offset: LoadOffset,
    place: Option<(&'static dyn Format, Box<dyn Located>)>,
    /// What the application calls its events.
    events: events::EventNames,
    /// Bare trace buffers, oldest first, where there are several.
    buffers: Vec<(String, Bytes, Addr)>,
    /// The live target, to go there again.
    link: Option<RemoteInput>,
    /// How much of the code in the memory of files is the ELF's.
    code: code::Compared,
    /// The registers that a core's notes hold.
    core: stop::CoreNotes,
    /// What a core says of the program it was taken of.
    noted: Option<Arc<Noted>>,
    /// Symbols that were typed.
    pairs: Vec<(String, Addr)>,
    /// Registers that were typed, or that a debugger showed.
    registers: GivenRegisters,
}

/// Set by a signal handler: whoever waits for a stub stops waiting, and leaves the target as it should be left.
pub static INTERRUPT: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What was added to the addresses of the ELF, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOffset {
    /// Run-time address less link address; wraps.
    pub value: u64,
    /// How it is known; empty where nothing had to be known.
    pub how: &'static str,
}

/// The memory of a session.
enum Source<'m> {
    Remote(Box<Cache<Remote>>),
    /// Memory of a live target and nothing else of it.
    Door(Box<Cache<Box<dyn Memory>>>),
    /// Somebody else's link, which stays open when the session ends.
    LentRemote(Box<Cache<&'m mut Remote>>),
    Files(Box<dyn Memory + 'm>),
}

impl Source<'_> {
    fn memory(&mut self) -> &mut dyn Memory {
        match self {
            Self::Remote(cache) => cache.as_mut(),
            Self::LentRemote(cache) => cache.as_mut(),
            Self::Door(cache) => cache.as_mut(),
            Self::Files(memory) => memory.as_mut(),
        }
    }

    /// As it is now, nothing remembered.
    fn fresh(&mut self) -> &mut dyn Memory {
        match self {
            Self::Remote(cache) => cache.inner_mut(),
            Self::LentRemote(cache) => *cache.inner_mut(),
            Self::Door(cache) => cache.inner_mut().as_mut(),
            Self::Files(memory) => memory.as_mut(),
        }
    }
}

/// A memory that somebody else has open and goes on using.
pub enum Lent<'m> {
    /// That of a live target.
    Remote(&'m mut Remote),
    /// That of a dead one, and what its files told of it.
    Memory(&'m mut dyn Memory, Told),
}

/// A trace with all that is needed to talk about it.
pub struct Loaded {
    /// The trace.
    pub trace: Trace,
    /// What its ids mean.
    pub catalogue: Catalogue,
    /// The thread that the kernel says runs now, by core: its address, 0 for none; empty where nothing tells.
    pub running: Vec<Addr>,
}

impl<'m> Session<'m> {
    /// Opens what the inputs name.
    ///
    /// # Errors
    /// [`Error`] when a file, a stub or the combination of them cannot be used.
    pub fn open(inputs: Inputs) -> Result<Self, Error> {
        open::open(inputs, None)
    }

    /// A session over a memory that is open already. The inputs name the program and where its trace is, and no source.
    /// Nothing that was read before is taken for what is there now.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn over(inputs: Inputs, memory: Lent<'m>) -> Result<Self, Error> {
        open::open(inputs, Some(memory))
    }

    /// What people call the source.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for a stub: the target may run on, and every read costs a packet.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self.memory, Source::Remote(_) | Source::LentRemote(_) | Source::Door(_))
    }

    /// Names and addresses.
    #[must_use]
    pub fn symbols(&self) -> &dyn Symbols {
        &self.symbols
    }

    /// The ELF file, where one was given.
    #[must_use]
    pub fn elf(&self) -> Option<&Elf> {
        self.elf.as_deref()
    }

    /// What was added to the ELF's addresses.
    #[must_use]
    pub const fn load_offset(&self) -> LoadOffset {
        self.load_offset
    }

    /// What the application calls its events, and how that is known.
    #[must_use]
    pub const fn event_names(&self) -> &events::EventNames {
        &self.events
    }

    /// Names of events that somebody asks for: they are looked for in the ELF too.
    pub fn ask_events(&mut self, names: Vec<String>) {
        self.events.ask(names);
    }

    /// The stub's client, for counting and for leaving.
    pub fn remote_mut(&mut self) -> Option<&mut Remote> {
        match &mut self.memory {
            Source::Remote(cache) => Some(cache.inner_mut()),
            Source::LentRemote(cache) => Some(cache.inner_mut()),
            Source::Door(_) | Source::Files(_) => None,
        }
    }

    /// The memory and the names at once.
    pub fn parts(&mut self) -> (&mut dyn Memory, &dyn Symbols) {
        (self.memory.memory(), &self.symbols)
    }

    /// What can be written: a live target of our own. Whoever was lent one only reads.
    pub fn writable(&mut self) -> Option<&mut Cache<Remote>> {
        match &mut self.memory {
            Source::Remote(cache) => Some(cache),
            Source::LentRemote(_) | Source::Door(_) | Source::Files(_) => None,
        }
    }

    /// The target's byte order and the width of its addresses, where the program tells them.
    #[must_use]
    pub const fn machine(&self) -> (Option<Endian>, Option<Width>) {
        (self.hints.endian, self.hints.pointer)
    }

    /// What was noticed while opening and locating: worth telling even where there is no trace.
    #[must_use]
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    /// Takes the stub's client out: nothing more is to be read, names stay.
    #[must_use]
    pub fn disconnect(&mut self) -> Option<Client> {
        match std::mem::replace(&mut self.memory, Source::Files(Box::new(Segments::default()))) {
            Source::Remote(cache) => Some(cache.into_inner().into_client()),
            Source::LentRemote(_) | Source::Door(_) | Source::Files(_) => None,
        }
    }

    /// Other traces in the same memory, where the source lists its memory.
    #[must_use]
    pub fn other_traces(&mut self, trace: &Trace) -> Vec<Addr> {
        if self.is_live() {
            return Vec::new();
        }
        let base = trace.about.base;
        scan::search(self).map_or_else(
            |_| Vec::new(),
            |searched| {
                let others = searched.hits.iter().filter(|h| h.address != base && h.found.events != Some(base));
                others.map(|h| h.address).collect()
            },
        )
    }

    /// Finds the trace: by option, by symbols, and in files by searching.
    ///
    /// # Errors
    /// [`Error`] with all that was tried.
    pub fn locate(&mut self) -> Result<(&'static dyn Format, &Location), Error> {
        if self.place.is_none() {
            let found = scan::find(self);
            let elf = self.elf.as_deref();
            self.place = Some(found.map_err(|error| program::blame(elf, &Identity::default(), error))?);
        }
        self.place
            .as_ref()
            .map(|(f, l)| (*f, l.location()))
            .ok_or_else(|| Error::not_found(Code::NoTrace, "no trace was found", ""))
    }

    /// Reads and decodes what `extent` asks for. May be asked again for more; what was read before is not read again.
    ///
    /// # Errors
    /// [`Error`] when there is no trace, or it cannot be read.
    pub fn load(&mut self, extent: Extent, names: Names, options: &DecodeOptions) -> Result<Loaded, Error> {
        if self.buffers.len() > 1 {
            return self.load_joined(names, options);
        }
        // What is left of another run lies anywhere in the ring.
        let extent = if options.previous { Extent::All } else { extent };
        let capture = self.capture(extent)?.1;
        let mut loaded = self.decoded(capture.as_ref(), names, options)?;
        let trace = &mut loaded.trace;
        trace.issues.extend(self.elf.as_deref().and_then(|elf| other_order(elf, trace)));
        if self.is_live() {
            trace.issues.extend(just_begun(trace));
            let running = self.read_while_running();
            loaded.trace.issues.extend(running);
        } else {
            // In a file this costs nothing; over a link `info` asks for it.
            let identity = self.by_names(trace);
            trace.issues.extend(identity.names().and_then(Agreement::issue));
            if identity.is_another() {
                program::doubt_left_over(&mut trace.issues);
            }
        }
        Ok(loaded)
    }

    /// Decodes what was captured.
    fn decoded(&mut self, capture: &dyn Capture, names: Names, options: &DecodeOptions) -> Result<Loaded, Error> {
        let (mut trace, catalogue) = self.named(capture, names, options)?;
        trace.interrupts = catalogue.interrupts(self.is_m_profile());
        Ok(Loaded { trace, catalogue, running: capture.running() })
    }

    /// Reads the buffers of one run as one trace.
    fn load_joined(&mut self, names: Names, options: &DecodeOptions) -> Result<Loaded, Error> {
        let mut buffers = Vec::new();
        let mut format: Option<&'static dyn Format> = None;
        for (name, bytes, base) in &self.buffers {
            let found = formats(self.only).find_map(|f| Some((f, f.scan(bytes, 1).first().copied()?)));
            let Some((own, found)) = found else {
                return Err(Error::failed(
                    Code::HeaderDamaged,
                    format!("{name}: its header is damaged"),
                    "leave it out",
                ));
            };
            if format.get_or_insert(own).name() != own.name() {
                return Err(Error::failed(
                    Code::Usage,
                    format!("{name} is of another format"),
                    "join buffers of one run",
                ));
            }
            let location = Location {
                header: *base,
                endian: Some(found.endian),
                pointer: None,
                how: format!("the header at the start of {name}"),
                by_symbols: false,
            };
            buffers.push((location, Segments::new(vec![Block::whole(*base, bytes.clone())])));
        }
        let format = format.ok_or_else(|| Error::not_found(Code::NoTrace, "no trace was found", ""))?;
        let capture = format.join(buffers, &self.symbols)?;
        self.decoded(capture.as_ref(), names, options)
    }

    /// Decodes with what the application calls its events. Only what was decoded tells whether the ELF has to be asked.
    fn named(
        &mut self,
        capture: &dyn Capture,
        names: Names,
        options: &DecodeOptions,
    ) -> Result<(Trace, Catalogue), Error> {
        let mut catalogue = capture.catalogue(names);
        self.events.from_files(&mut catalogue)?;
        let mut trace = capture.decode(&catalogue, options)?;
        if self.events.from_elf(self.elf.as_ref(), &trace, &mut catalogue)? {
            trace = capture.decode(&catalogue, options)?;
        }
        trace.issues.splice(0..0, self.issues.iter().chain(self.events.issues()).cloned());
        Ok((trace, catalogue))
    }

    /// Reads what `extent` asks for. Of a target that runs nothing is remembered: its pointers are of this moment.
    fn capture(&mut self, extent: Extent) -> Result<(&'static dyn Format, Box<dyn Capture>), Error> {
        if self.place.is_some() && self.memory.memory().changes() {
            self.forget();
        }
        self.locate()?;
        let Some((format, located)) = &self.place else {
            return Err(Error::not_found(Code::NoTrace, "no trace was found", ""));
        };
        match located.capture(self.memory.memory(), &self.symbols, extent) {
            // The pointer was wrong; in a file the trace may still be there.
            Err(error) if !self.is_live() && self.hints.header.is_none() && located.location().by_symbols => {
                let (format, located) = scan::instead(self, error)?;
                let capture = located.capture(self.memory.memory(), &self.symbols, extent)?;
                self.place = Some((format, located));
                Ok((format, capture))
            }
            other => Ok((*format, other?)),
        }
    }

    /// The value of a 32-bit variable (`--hz SystemCoreClock`).
    ///
    /// # Errors
    /// [`Error`] when there is no such symbol, or it cannot be read.
    pub fn variable(&mut self, name: &str) -> Result<u64, Error> {
        let symbol = self.symbols.lookup(name).ok_or_else(|| {
            Error::failed(
                Code::NoSuchSymbol,
                format!("no symbol {name}"),
                "check its spelling, or give the number itself",
            )
        })?;
        let width = Width::from_bytes(symbol.size).unwrap_or(Width::W4);
        let bytes = self.memory.memory().read_bytes(symbol.address, width.bytes()).map_err(|e| e.explain(name))?;
        // Without an ELF the trace itself tells the byte order.
        let endian = match self.hints.endian {
            Some(endian) => endian,
            None => self.load(Extent::Nothing, Names::default(), &DecodeOptions::default())?.trace.about.endian,
        };
        endian
            .word(width, &bytes, 0)
            .ok_or_else(|| Error::failed(Code::Unreadable, format!("{name} cannot be read"), ""))
    }
}

/// The ELF of a program that cannot have written the trace.
fn other_order(elf: &Elf, trace: &Trace) -> Option<Issue> {
    let (program, memory) = (elf.endian(), trace.about.endian);
    (program != memory).then(|| {
        Issue::new(
            Code::ElfMismatch, format!(
                "the ELF is {}-endian, the trace {}-endian: this ELF is of another program; names and lines from it are wrong",
                program.name(), memory.name()
            ),
        )
    })
}

/// A trace that holds only a handful of events right after connecting was probably started by our connecting.
fn just_begun(trace: &Trace) -> Option<Issue> {
    let held = trace.about.held;
    (!trace.about.wrapped && held < JUST_BEGUN).then(|| {
        Issue::new(
            Code::JustBegun, format!("the trace holds only {held} events: did attaching reset the target? Many probes do unless told otherwise (connect under reset, `monitor reset`)"),
        )
    })
}

/// Fewer events than a start of the kernel and its objects leaves behind.
const JUST_BEGUN: u64 = 16;

/// Every format, or the one that was asked for.
fn formats(only: Option<&'static dyn Format>) -> impl Iterator<Item = &'static dyn Format> {
    format::ALL.iter().copied().filter(move |f| only.is_none_or(|o| o.name() == f.name()))
}
