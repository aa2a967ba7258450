//! A target (memory, symbols, registers) and the trace in it.

mod backtrace;
mod callers;
mod code;
mod cpu_state;
pub mod events;
mod evidence;
mod faults;
mod file;
mod handler;
mod identity;
mod inputs;
mod interrupted;
mod left;
mod live;
mod live_kernel;
mod offset;
mod open;
mod placing;
mod program;
mod raw;
mod registers;
mod scan;
mod start_up;
mod stop;
mod stub;
mod target;
mod wanted;

pub use backtrace::{Function, Functions, Unwound};
pub use callers::is_of_kernel;
pub use code::CodeMatch;
pub use cpu_state::{CpuState, Failed, Interrupts, Place, Places};
pub use evidence::Evidence;
pub use identity::Identity;
pub use inputs::{GivenRegisters, Image, Inputs, RemoteInput, SourceSpec, TraceInput};
pub use interrupted::Interrupted;
pub use open::open_elf;
pub use program::cut_short;
pub use raw::Raw;
pub use target::{Borrowed, LoadOffset, Target, TargetInfo};

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use identity::other_order;
use target::Buffer;

use crate::abi::{Addr, Width};
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::format::{self, Capture, DecodeOptions, Extent, Format, Location};
use crate::mem::segments::{Block, Segments};
use crate::sym::{ElfSymbols, Symbols as _};
use crate::trace::{Issue, Trace, many};

/// Set by a signal handler: waits for a stub end, and the target is left as the options say.
pub static INTERRUPT: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// A trace with its catalogue.
pub struct Loaded {
    /// The trace.
    pub trace: Trace,
    /// What its ids mean.
    pub catalogue: Catalogue,
    /// By core the address of the thread that runs now, 0 for none; empty where that is not known.
    pub running: Vec<Addr>,
}

impl Target<'_> {
    /// Other traces in the same memory, where the source lists its memory.
    pub fn other_traces(&mut self, trace: &Trace) -> Vec<Addr> {
        if self.is_live() {
            return Vec::new();
        }
        // A file alone is found at 0.
        let base = trace.about.base.unwrap_or(0);
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
            let elf = self.info.elf();
            self.place = Some(found.map_err(|error| program::with_likely_cause(elf, &Identity::default(), error))?);
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
        if self.info.buffers.len() > 1 {
            return self.load_joined(names, options);
        }
        // What is left of another run is anywhere in the ring.
        let extent = if options.previous { Extent::All } else { extent };
        let capture = self.capture(extent)?.1;
        let mut loaded = self.decoded(capture.as_ref(), names, options)?;
        let trace = &mut loaded.trace;
        if self.is_live() {
            trace.issues.extend(self.info.elf().and_then(|elf| other_order(elf, trace)));
            trace.issues.extend(just_begun(trace));
            let running = self.read_while_running();
            loaded.trace.issues.extend(running);
        } else {
            if let Some(error) = self.other_machine(trace) {
                return Err(error);
            }
            // In a file this costs nothing; over a link `info` asks for it.
            self.by_files(trace).put_first(&mut trace.issues);
        }
        Ok(loaded)
    }

    /// Decodes what was captured.
    fn decoded(&mut self, capture: &dyn Capture, names: Names, options: &DecodeOptions) -> Result<Loaded, Error> {
        let (mut trace, catalogue) = self.named(capture, names, options)?;
        refuse_period(&trace, options.period)?;
        trace.interrupts = catalogue.interrupts(self.is_m_profile());
        Ok(Loaded { trace, catalogue, running: capture.running() })
    }

    /// Reads the buffers of one run as one trace.
    fn load_joined(&mut self, names: Names, options: &DecodeOptions) -> Result<Loaded, Error> {
        let mut buffers = Vec::new();
        let mut format: Option<&'static dyn Format> = None;
        for Buffer { name, bytes, base } in &self.info.buffers {
            let found = formats(self.info.only).find_map(|f| Some((f, f.scan(bytes, 1).first().copied()?)));
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
        let capture = format.join(buffers, &self.info.symbols)?;
        self.decoded(capture.as_ref(), names, options)
    }

    /// Decodes with the application's names of events. Only the decoded trace shows whether the ELF has to be asked.
    fn named(
        &mut self,
        capture: &dyn Capture,
        names: Names,
        options: &DecodeOptions,
    ) -> Result<(Trace, Catalogue), Error> {
        let mut catalogue = capture.catalogue(names);
        self.info.events.add_of_files(&mut catalogue)?;
        let mut trace = capture.decode(&catalogue, options)?;
        if self.info.events.add_of_elf(self.info.program.as_ref().map(ElfSymbols::elf), &trace, &mut catalogue)? {
            trace = capture.decode(&catalogue, options)?;
        }
        trace.issues.splice(0..0, self.issues.iter().chain(self.info.events.issues()).cloned());
        Ok((trace, catalogue))
    }

    /// Reads what `extent` asks for. Of a target that runs nothing is kept: its pointers are of this moment.
    fn capture(&mut self, extent: Extent) -> Result<(&'static dyn Format, Box<dyn Capture>), Error> {
        if self.place.is_some() && self.memory.memory().changes() {
            self.forget();
        }
        self.locate()?;
        let Some((format, located)) = &self.place else {
            return Err(Error::not_found(Code::NoTrace, "no trace was found", ""));
        };
        match located.capture(self.memory.memory(), &self.info.symbols, extent) {
            // The pointer was wrong; in a file the trace may still be there.
            Err(error) if !self.is_live() && self.info.hints.header.is_none() && located.location().by_symbols => {
                let (format, located) = scan::instead(self, error)?;
                let capture = located.capture(self.memory.memory(), &self.info.symbols, extent)?;
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
        let symbol = self.info.symbols.lookup(name).ok_or_else(|| {
            Error::failed(
                Code::NoSuchSymbol,
                format!("no symbol {name}"),
                "check its spelling, or give the number itself",
            )
        })?;
        let width = Width::from_bytes(symbol.size).unwrap_or(Width::W4);
        let bytes = self.memory.memory().read_bytes(symbol.address, width.bytes()).map_err(|e| e.explain(name))?;
        // Without an ELF the trace itself shows the byte order.
        let endian = match self.info.hints.endian {
            Some(endian) => endian,
            None => self.load(Extent::Nothing, Names::default(), &DecodeOptions::default())?.trace.about.endian,
        };
        endian
            .word(width, &bytes, 0)
            .ok_or_else(|| Error::failed(Code::Unreadable, format!("{name} cannot be read"), ""))
    }
}

/// Refuses a period that was typed and that the stamps go beyond.
fn refuse_period(trace: &Trace, period: Option<u64>) -> Result<(), Error> {
    /// Stamps that are looked at: where the period is wrong nearly all of them show it.
    const SOME: usize = 4096;
    let Some(period) = period else { return Ok(()) };
    let beyond =
        trace.events().take(SOME).find_map(|event| Some((event.seq, event.stamp?)).filter(|(_, at)| *at > period));
    beyond.map_or(Ok(()), |(seq, stamp)| {
        Err(Error::failed(
            Code::Clock,
            format!("--period {period}: event {seq} has the stamp {stamp}, which a clock with this period never shows"),
            "the period is the number of ticks after which the clock starts over: 65536, or the reload value and 1",
        ))
    })
}

/// A trace that holds only a handful of events right after connecting was probably started by our connecting.
fn just_begun(trace: &Trace) -> Option<Issue> {
    let held = trace.about.held;
    (!trace.about.wrapped && held < JUST_BEGUN).then(|| {
        Issue::new(
            Code::JustBegun, format!("the trace holds only {}: did attaching reset the target? Many probes do by default (connect under reset, `monitor reset`)", many(held, "event", "events")),
        )
    })
}

/// Fewer events than a start of the kernel and its objects leaves behind.
const JUST_BEGUN: u64 = 16;

/// Every format, or the one that was asked for.
fn formats(only: Option<&'static dyn Format>) -> impl Iterator<Item = &'static dyn Format> {
    format::ALL.iter().copied().filter(move |f| only.is_none_or(|o| o.name() == f.name()))
}
