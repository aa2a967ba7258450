//! How the trace stands, as the kernel's variables and its header say.

use super::symbols::{ALL, AVAILABLE, BUFFER_END, BUFFER_START, CURRENT, ENABLE_BITS, HEADER, REGISTRY_START};
use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::error::Error;
use crate::format::threadx::{self, RawHeader, layout};
use crate::mem::{Memory, Region};
use crate::session::Session;
use crate::sym::Symbol;

/// The registry's number for a thread.
const THREAD: u8 = 1;

/// The most registry entries that are looked at.
const MOST_OBJECTS: u64 = 4096;

/// The header, and where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Its address, at full width.
    pub address: Addr,
    /// Its words.
    pub raw: RawHeader,
    /// Byte order.
    pub endian: Endian,
    /// Width of its words: the kernel's `ULONG`.
    pub word: Width,
    /// Its fields agree with each other and with the kernel's pointers.
    pub sound: bool,
}

impl Header {
    /// The address that a word of it means, at full width.
    pub const fn place(&self, pointer: u64) -> Addr {
        self.address.wrapping_add(self.raw.offset(pointer, self.word))
    }

    /// The address of its copy of the current pointer.
    pub const fn current_at(&self) -> Addr {
        // Behind nine words, of which the fifth is two halves.
        let offset: u64 = match self.word {
            Width::W4 => 32,
            Width::W8 => 64,
        };
        self.address.wrapping_add(offset)
    }

    /// The whole buffer: header, registry and ring.
    pub fn region(&self) -> Region {
        let end = self.ring().1.max(self.registry().1);
        Region { start: self.address, len: end.saturating_sub(self.address) }
    }

    /// The part of the buffer that shares a byte with `region`.
    pub fn part_at(&self, region: Region) -> Option<&'static str> {
        let (ring, registry) = (self.ring(), self.registry());
        let header = (self.address, self.address.saturating_add(layout::header_size(self.word) as u64));
        let parts = [("header", header), ("registry", registry), ("ring", ring)];
        let end = region.start.saturating_add(region.len);
        let shares = |(start, past): (Addr, Addr)| region.start < past && start < end;
        parts.into_iter().find(|(_, part)| shares(*part)).map(|(name, _)| name)
    }

    /// First byte of the registry, and the first behind it.
    const fn registry(&self) -> (Addr, Addr) {
        (self.place(self.raw.registry_start), self.place(self.raw.registry_end))
    }

    /// First byte of the ring, and the first behind it.
    pub const fn ring(&self) -> (Addr, Addr) {
        (self.place(self.raw.buffer_start), self.place(self.raw.buffer_end))
    }

    /// Number of slots.
    pub fn capacity(&self) -> u64 {
        let (start, end) = self.ring();
        end.wrapping_sub(start).checked_div(layout::entry_size(self.word) as u64).unwrap_or(0)
    }

    /// The number of the slot at an address in the ring.
    pub fn slot(&self, address: Addr) -> Option<u64> {
        let (start, end) = self.ring();
        let offset = address.checked_sub(start).filter(|_| address < end)?;
        let size = layout::entry_size(self.word) as u64;
        offset.is_multiple_of(size).then(|| offset.checked_div(size)).flatten()
    }
}

/// A variable of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Where it lies.
    pub address: Addr,
    /// Its width.
    pub width: Width,
    /// What it holds.
    pub value: u64,
}

/// How the trace stands.
#[derive(Debug, Clone)]
pub struct State {
    /// The kernel's variables of the trace that the program has.
    pub found: Vec<&'static str>,
    /// Those that it has not.
    pub missing: Vec<&'static str>,
    /// Why nothing is known of the kernel's variables: nobody names them. A trace may be there all the same.
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
    /// The header; `None` where the trace was never enabled.
    pub header: Option<Header>,
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
    /// Why the header is not sound.
    pub wrong: Option<String>,
    /// The current pointer lies where a kernel comes that inserts from 0 on.
    pub(super) ran_from_zero: bool,
}

/// Reads a word.
pub fn word_at(memory: &mut dyn Memory, address: Addr, endian: Endian, width: Width) -> Result<u64, Error> {
    let bytes = memory.read_bytes(address, width.bytes()).map_err(|e| e.explain("a variable of the kernel"))?;
    endian.word(width, &bytes, 0).ok_or_else(|| {
        Error::failed(Code::Unreadable, format!("{} bytes at {address:#x} are missing", width.bytes()), "")
    })
}

/// Where the trace is, as whoever reads its events finds it; in words why it is nowhere.
fn place(session: &mut Session<'_>) -> Result<Result<Addr, String>, Error> {
    match session.locate() {
        Ok((_, located)) => Ok(Ok(located.header)),
        Err(error) if matches!(error.code, Code::SourceFailed | Code::Interrupted) => Err(error),
        Err(error) => Ok(Err(error.message)),
    }
}

impl State {
    /// Looks.
    ///
    /// # Errors
    /// [`Error`] where the kernel's variables cannot be read. A trace that is not there is a state too.
    pub fn read(session: &mut Session<'_>) -> Result<Self, Error> {
        let version = session.kernel_version();
        let (endian, pointer) = session.machine();
        let unnamed = match session.elf() {
            _ if ALL.into_iter().any(|n| session.symbols().lookup(n).is_some()) => None,
            None => Some("no program (--elf) names the kernel's variables"),
            Some(elf) if elf.cut_short().is_some() => Some("the ELF is cut short: copy it anew"),
            Some(elf) if elf.is_stripped() => Some("the ELF has no symbols: give the unstripped one"),
            Some(_) => None,
        };
        let place = unnamed.map(|_| place(session)).transpose()?;
        let m_profile = session.elf().is_some_and(crate::elf::Elf::is_m_profile);
        let (memory, symbols) = session.parts();
        let found: Vec<&'static str> = ALL.into_iter().filter(|n| symbols.lookup(n).is_some()).collect();
        let missing = ALL.into_iter().filter(|n| !found.contains(n)).collect();
        let header_symbol = symbols.lookup(HEADER);
        let size = |s: &Symbol| Width::from_bytes(s.size);
        let pointer = header_symbol.as_ref().and_then(size).or(pointer).unwrap_or(Width::W4);
        let endian = endian.unwrap_or(Endian::Little);
        let mut state = Self {
            found,
            missing,
            unnamed,
            version,
            mask: None,
            current: None,
            registry_start: None,
            available: None,
            header: None,
            used: None,
            registry: None,
            registered: Vec::new(),
            stacks: Vec::new(),
            endian,
            pointer,
            m_profile,
            wrong: None,
            ran_from_zero: false,
        };
        match place {
            None => {}
            Some(Err(why)) => state.wrong = Some(why),
            Some(Ok(address)) => {
                let why = format!("no trace header of ThreadX is at {address:#x}");
                state.read_header(memory, address, why)?;
                state.compare(None, None);
                if let Some(header) = state.header.filter(|h| h.sound) {
                    state.count(memory, &header)?;
                }
            }
        }
        let Some(header_symbol) = header_symbol else { return Ok(state) };
        let address = word_at(memory, header_symbol.address, endian, pointer)?;
        if address != 0 {
            let why = format!("{HEADER} leads to {address:#x}, where no trace header is");
            state.read_header(memory, address, why)?;
        }
        let word = state.header.map_or(Width::W4, |h| h.word);
        let mut read = |name: &str, usual: Width| -> Result<Option<Variable>, Error> {
            let Some(symbol) = symbols.lookup(name) else { return Ok(None) };
            let width = Width::from_bytes(symbol.size).unwrap_or(usual);
            let value = word_at(memory, symbol.address, endian, width)?;
            Ok(Some(Variable { address: symbol.address, width, value }))
        };
        state.mask = read(ENABLE_BITS, word)?;
        state.current = read(CURRENT, pointer)?;
        state.registry_start = read(REGISTRY_START, pointer)?.map(|v| v.value);
        state.available = read(AVAILABLE, word)?.map(|v| v.value);
        let (start, end) = (read(BUFFER_START, pointer)?, read(BUFFER_END, pointer)?);
        state.compare(start, end);
        if let Some(header) = state.header.filter(|h| h.sound) {
            state.count(memory, &header)?;
        }
        Ok(state)
    }

    fn read_header(&mut self, memory: &mut dyn Memory, address: Addr, none: String) -> Result<(), Error> {
        let size = layout::header_size(Width::W8);
        let bytes = memory
            .read_bytes(address, size)
            .or_else(|_| memory.read_bytes(address, layout::header_size(Width::W4)))
            .map_err(|e| e.explain("the trace's header"))?;
        let Some((endian, word, raw)) = threadx::detect(&bytes) else {
            self.wrong = Some(none);
            return Ok(());
        };
        if self.unnamed.is_some() {
            // Nothing else tells.
            self.endian = endian;
        }
        let at_base = raw.base == address & word.max();
        let sound = raw.is_sound(word) && at_base && endian == self.endian;
        if !sound {
            self.wrong = Some(format!("the header at {address:#x} contradicts itself"));
        }
        self.header = Some(Header { address, raw, endian, word, sound });
        Ok(())
    }

    /// Holds the kernel's pointers against the header.
    fn compare(&mut self, start: Option<Variable>, end: Option<Variable>) {
        let current = self.current;
        let Some(header) = self.header.as_mut().filter(|h| h.sound) else { return };
        let (first, past) = header.ring();
        for (name, variable, wanted) in [(BUFFER_START, start, first), (BUFFER_END, end, past)] {
            if let Some(v) = variable.filter(|v| v.value != wanted) {
                header.sound = false;
                self.wrong = Some(format!("{name} is {:#x}, the header says {wanted:#x}", v.value));
            }
        }
        let copy = header.place(header.raw.current);
        let size = layout::entry_size(header.word) as u64;
        // A copy that leads nowhere is shown as it is stored.
        let stored = header.slot(copy).map_or(header.raw.current, |_| copy);
        let kernels = current.map(|v| v.value).filter(|v| *v != 0);
        for (what, place) in [("the header's current pointer", Some(stored)), (CURRENT, kernels)] {
            let Some(place) = place.filter(|p| header.slot(*p).is_none()) else { continue };
            header.sound = false;
            // Clearing the pointer within an insertion makes the kernel go on from 0, one entry after the other.
            self.ran_from_zero = place != 0 && place < first && place.is_multiple_of(size);
            let why = if self.ran_from_zero {
                "; so it stands where the pointer was cleared (a pause) in the middle of an insertion and the kernel went \
                 on from 0, writing events over what lies there, often its vectors"
            } else {
                ""
            };
            self.wrong =
                Some(format!("{what} is {place:#x}, which is no slot of the ring ({first:#x} to {past:#x}){why}"));
        }
    }

    /// Counts slots and registry entries.
    fn count(&mut self, memory: &mut dyn Memory, header: &Header) -> Result<(), Error> {
        let copy = header.place(header.raw.current);
        let first = word_at(memory, copy, header.endian, header.word)?;
        self.used = if first == 0 { header.slot(copy) } else { Some(header.capacity()) };
        let size = layout::object_size(header.word, header.raw.name_size) as u64;
        let (start, end) = header.registry();
        let total = end.saturating_sub(start).checked_div(size).unwrap_or(0).min(MOST_OBJECTS);
        let Ok(length) = usize::try_from(total.saturating_mul(size)) else { return Ok(()) };
        let bytes = memory.read_bytes(start, length).map_err(|e| e.explain("the registry"))?;
        let mut rest: &[u8] = &bytes;
        let mut live = 0_u64;
        while let Ok((next, object)) = threadx::object(rest, header.endian, header.word, header.raw.name_size) {
            if object.kind != 0 && object.available == 0 {
                live = live.saturating_add(1);
                if header.word == self.pointer {
                    self.registered.push(object.pointer);
                    let stack = Region { start: object.param1, len: object.param2 };
                    self.stacks.extend((object.kind == THREAD).then_some((object.pointer, stack)));
                }
            }
            rest = next;
        }
        self.registry = Some((total, total.saturating_sub(live)));
        Ok(())
    }

    /// The kernel's current pointer and the header's copy of it where they differ and both are slots: an event is being
    /// inserted, or its insertion was cut off.
    #[must_use]
    pub fn inserting(&self) -> Option<(Addr, Addr)> {
        let header = self.header.filter(|h| h.sound)?;
        let copy = header.place(header.raw.current);
        let current = self.current?.value;
        (current != 0 && current != copy).then_some((current, copy))
    }

    /// True where events are inserted.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.header.is_some() && self.current.is_some_and(|c| c.value != 0)
    }

    /// True where nothing is inserted, and only for now: what the kernel's own `tx_trace_disable` clears besides is whole.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.header.is_some()
            && self.current.is_some_and(|c| c.value == 0)
            && self.registry_start.is_none_or(|start| start != 0)
    }
}
