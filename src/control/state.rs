//! The state of the trace, as the kernel's variables and its header say.

use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::error::Error;
use crate::format::threadx::header::{self, detect};
use crate::format::threadx::layout::{self, TraceLayout};
use crate::format::threadx::symbols::{
    AVAILABLE_ENTRIES, CURRENT, ENABLE_BITS, HEADER, REGISTRY_START, RING_END, RING_START, TRACE,
};
use crate::mem::{Memory, Region};
use crate::session::Target;
use crate::sym::Symbols;

/// The registry's number for a thread.
const THREAD: u8 = 1;

/// The most registry entries that are read.
const MAX_OBJECTS: u64 = 4096;

/// A variable of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Where it is.
    pub address: Addr,
    /// Its width.
    pub width: Width,
    /// What it holds.
    pub value: u64,
}

/// The state of the trace.
#[derive(Debug, Clone)]
pub struct State {
    /// The kernel's variables of the trace that the program has.
    pub found: Vec<&'static str>,
    /// Those that it has not.
    pub missing: Vec<&'static str>,
    /// Why nothing is known of the kernel's variables: no symbols name them. A trace may be there all the same.
    pub unnamed: Option<&'static str>,
    /// The kernel's version string.
    pub version: Option<String>,
    /// The mask of events that are inserted.
    pub mask: Option<Variable>,
    /// Where the next event goes; 0 while nothing is inserted.
    pub current: Option<Variable>,
    /// Where the registry begins; the kernel's own `tx_trace_disable` clears it.
    pub registry_start: Option<u64>,
    /// What the kernel counts as free in the registry.
    pub available: Option<u64>,
    /// The layout that the header describes; `None` where the trace was never enabled.
    pub layout: Option<TraceLayout>,
    /// Slots that hold an event.
    pub used: Option<u64>,
    /// Registry entries in all, and without a live object.
    pub registry: Option<(u64, u64)>,
    /// Control blocks that the registry names; none where it holds their addresses cut.
    pub(super) registered: Vec<Addr>,
    /// Threads of the registry, and their stacks; none where it holds addresses cut.
    pub(super) stacks: Vec<(Addr, Region)>,
    pub(super) endian: Endian,
    pub(super) pointer: Width,
    /// A Cortex-M, whose interrupts have numbers.
    pub(super) m_profile: bool,
    /// Why the header is not sound, or where none is.
    pub wrong: Option<String>,
    /// The current pointer is where a kernel comes that inserts from 0 on.
    pub(super) ran_from_zero: bool,
}

/// Reads a word.
pub(super) fn word_at(memory: &mut dyn Memory, address: Addr, endian: Endian, width: Width) -> Result<u64, Error> {
    let bytes = memory.read_bytes(address, width.bytes()).map_err(|e| e.explain("a variable of the kernel"))?;
    endian.word(width, &bytes, 0).ok_or_else(|| {
        Error::failed(Code::Unreadable, format!("{} bytes at {address:#x} are missing", width.bytes()), "")
    })
}

/// Where the trace is, found as for reading its events; in words why it is not found.
fn place(target: &mut Target<'_>) -> Result<Result<Addr, String>, Error> {
    match target.locate() {
        Ok((_, at)) => Ok(Ok(at.header)),
        Err(error) if matches!(error.code, Code::SourceFailed | Code::Interrupted) => Err(error),
        Err(error) => Ok(Err(error.message)),
    }
}

/// Why no symbols name the kernel's variables.
fn unnamed(target: &Target<'_>) -> Option<&'static str> {
    if TRACE.into_iter().any(|name| target.symbols().lookup(name).is_some()) {
        return None;
    }
    match target.elf() {
        None => Some("no program (--elf) names the kernel's variables"),
        Some(elf) if elf.cut_short().is_some() => Some("the ELF is cut short: copy it again"),
        Some(elf) if elf.is_stripped() => Some("the ELF has no symbols: give the unstripped one"),
        Some(_) => None,
    }
}

impl State {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error`] where the kernel's variables cannot be read. A trace that is not there is a state too.
    pub fn read(target: &mut Target<'_>) -> Result<Self, Error> {
        let unnamed = unnamed(target);
        let place = unnamed.map(|_| place(target)).transpose()?;
        let mut state = Self::new(target, unnamed);
        let (memory, symbols) = target.parts();
        match place {
            None => state.read_variables(memory, symbols)?,
            Some(Err(why)) => state.wrong = Some(why),
            Some(Ok(address)) => {
                let why = format!("no trace header of ThreadX is at {address:#x}");
                state.read_header(memory, address, why)?;
                state.compare(None, None);
            }
        }
        if let Some(layout) = state.sound() {
            state.count(memory, &layout)?;
        }
        Ok(state)
    }

    /// Before memory is read.
    fn new(target: &mut Target<'_>, unnamed: Option<&'static str>) -> Self {
        let version = target.kernel_version();
        let (endian, pointer) = target.machine();
        let symbols = target.symbols();
        let (found, missing) = TRACE.into_iter().partition(|name| symbols.lookup(name).is_some());
        let stated = symbols.lookup(HEADER).and_then(|symbol| Width::from_bytes(symbol.size));
        Self {
            found,
            missing,
            unnamed,
            version,
            mask: None,
            current: None,
            registry_start: None,
            available: None,
            layout: None,
            used: None,
            registry: None,
            registered: Vec::new(),
            stacks: Vec::new(),
            endian: endian.unwrap_or(Endian::Little),
            pointer: stated.or(pointer).unwrap_or(Width::W4),
            m_profile: target.elf().is_some_and(crate::elf::Elf::is_m_profile),
            wrong: None,
            ran_from_zero: false,
        }
    }

    /// The layout, where the header's fields agree with each other and with the kernel's pointers.
    pub fn sound(&self) -> Option<TraceLayout> {
        self.layout.filter(|_| self.wrong.is_none())
    }

    fn read_variables(&mut self, memory: &mut dyn Memory, symbols: &dyn Symbols) -> Result<(), Error> {
        let (endian, pointer) = (self.endian, self.pointer);
        let Some(symbol) = symbols.lookup(HEADER) else { return Ok(()) };
        let address = word_at(memory, symbol.address, endian, pointer)?;
        if address != 0 {
            let why = format!("{HEADER} points to {address:#x}, where there is no trace header");
            self.read_header(memory, address, why)?;
        }
        let word = self.layout.map_or(Width::W4, |layout| layout.word);
        let mut read = |name: &str, usual: Width| -> Result<Option<Variable>, Error> {
            let Some(symbol) = symbols.lookup(name) else { return Ok(None) };
            let width = Width::from_bytes(symbol.size).unwrap_or(usual);
            let value = word_at(memory, symbol.address, endian, width)?;
            Ok(Some(Variable { address: symbol.address, width, value }))
        };
        self.mask = read(ENABLE_BITS, word)?;
        self.current = read(CURRENT, pointer)?;
        self.registry_start = read(REGISTRY_START, pointer)?.map(|v| v.value);
        self.available = read(AVAILABLE_ENTRIES, word)?.map(|v| v.value);
        let (start, end) = (read(RING_START, pointer)?, read(RING_END, pointer)?);
        self.compare(start, end);
        Ok(())
    }

    fn read_header(&mut self, memory: &mut dyn Memory, address: Addr, none: String) -> Result<(), Error> {
        let bytes = memory
            .read_bytes(address, layout::header_size(Width::W8))
            .or_else(|_| memory.read_bytes(address, layout::header_size(Width::W4)))
            .map_err(|e| e.explain("the trace's header"))?;
        let Some((endian, word, fields)) = detect(&bytes) else {
            self.wrong = Some(none);
            return Ok(());
        };
        if self.unnamed.is_some() {
            // Nothing else shows it.
            self.endian = endian;
        }
        // What is not sound is never written to, so nothing is repaired here.
        if !fields.is_sound(word) || fields.base != address & word.max() || endian != self.endian {
            self.wrong = Some(format!("the header at {address:#x} contradicts itself"));
        }
        self.layout = Some(TraceLayout::new(address, (endian, word), fields, None));
        Ok(())
    }

    /// Compares the kernel's pointers with the header.
    fn compare(&mut self, start: Option<Variable>, end: Option<Variable>) {
        let Some(layout) = self.sound() else { return };
        let (first, past) = (layout.ring, layout.ring_end());
        for (name, variable, wanted) in [(RING_START, start, first), (RING_END, end, past)] {
            if let Some(v) = variable.filter(|v| v.value != wanted) {
                self.wrong = Some(format!("{name} is {:#x}, the header says {wanted:#x}", v.value));
            }
        }
        let copy = layout.place(layout.fields.current);
        // A copy that leads nowhere is shown as it is stored.
        let copy = layout.slot_at(copy).map_or(layout.fields.current, |_| copy);
        let kernels = self.current.map(|v| v.value).filter(|v| *v != 0);
        for (what, place) in [("the header's current pointer", Some(copy)), (CURRENT, kernels)] {
            let Some(place) = place.filter(|p| layout.slot_at(*p).is_none()) else { continue };
            // Clearing the pointer within an insertion makes the kernel go on from 0, one entry after the other.
            self.ran_from_zero = place != 0 && place < first && place.is_multiple_of(layout.entry_size() as u64);
            let why = if self.ran_from_zero {
                "; the pointer was cleared (a pause) in the middle of an insertion, and the kernel went on from 0, writing \
                 events over what is there, often its vectors"
            } else {
                ""
            };
            self.wrong =
                Some(format!("{what} is {place:#x}, which is not a slot of the ring ({first:#x} to {past:#x}){why}"));
        }
    }

    /// Counts slots and registry entries.
    fn count(&mut self, memory: &mut dyn Memory, layout: &TraceLayout) -> Result<(), Error> {
        let copy = layout.place(layout.fields.current);
        let first = word_at(memory, copy, layout.endian, layout.word)?;
        self.used = if first == 0 { layout.slot_at(copy) } else { Some(layout.capacity) };
        let total = layout.objects.min(MAX_OBJECTS);
        let length = usize::try_from(total).ok().and_then(|total| total.checked_mul(layout.object_size()));
        let bytes = memory.read_bytes(layout.registry, length.unwrap_or(usize::MAX));
        let bytes = bytes.map_err(|e| e.explain("the registry"))?;
        let mut free = total;
        for entry in bytes.chunks_exact(layout.object_size()) {
            let Ok((_, object)) = header::entry(entry, layout.endian, layout.word, layout.name_size) else { break };
            if object.kind == 0 || object.available != 0 {
                continue;
            }
            // There are no more entries than `total`.
            free = free.saturating_sub(1);
            if layout.word == self.pointer {
                self.registered.push(object.pointer);
                let stack = Region { start: object.param1, len: object.param2 };
                self.stacks.extend((object.kind == THREAD).then_some((object.pointer, stack)));
            }
        }
        self.registry = Some((total, free));
        Ok(())
    }

    /// The kernel's current pointer and the header's copy of it where they differ and both are slots: an event is being
    /// inserted, or its insertion was cut off.
    pub(super) fn inserting(&self) -> Option<(Addr, Addr)> {
        let layout = self.sound()?;
        let copy = layout.place(layout.fields.current);
        let current = self.current?.value;
        (current != 0 && current != copy).then_some((current, copy))
    }

    /// True where events are inserted.
    pub fn is_enabled(&self) -> bool {
        self.layout.is_some() && self.current.is_some_and(|c| c.value != 0)
    }

    /// True where nothing is inserted, and only for now: what the kernel's own `tx_trace_disable` clears besides is whole.
    pub fn is_paused(&self) -> bool {
        self.layout.is_some()
            && self.current.is_some_and(|c| c.value == 0)
            && self.registry_start.is_none_or(|start| start != 0)
    }
}
