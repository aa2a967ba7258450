//! What was opened: memory, and all that is known of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::code::Compared;
use super::events::EventNames;
use super::registers::Mapped;
use super::stop::CoreNotes;
use super::{GivenRegisters, Inputs, RemoteInput, offset, open};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::Bytes;
use crate::elf::{Elf, ElfKind};
use crate::error::Error;
use crate::format::{Format, Hints, Located};
use crate::mem::Memory;
use crate::mem::cache::Cache;
use crate::mem::remote::Remote;
use crate::mem::segments::Segments;
use crate::rsp::Client;
use crate::sym::{ElfSymbols, EvidenceNotes, Layers, Symbols};
use crate::trace::Issue;

/// An open target: its memory, what is known of it, and, once that was asked for, where its trace is.
pub struct Target<'m> {
    pub(super) memory: Source<'m>,
    pub(super) info: TargetInfo,
    /// What was noticed while opening and locating.
    pub(super) issues: Vec<Issue>,
    /// The trace that a search found says that it is at another address.
    pub(super) is_trace_elsewhere: bool,
    pub(super) place: Option<(&'static dyn Format, Box<dyn Located>)>,
    /// The live target, to connect to it again.
    pub(super) link: Option<RemoteInput>,
}

/// All that is known of a target except its memory: the program and its symbols, a core's notes, options.
/// Cheap to clone: files and what was read of them are shared.
#[derive(Clone, Default)]
pub struct TargetInfo {
    /// The name of the source.
    pub(super) name: String,
    /// The program's file.
    pub(super) elf_path: PathBuf,
    /// The program's ELF with its symbols.
    pub(super) program: Option<ElfSymbols>,
    /// Symbols that were typed.
    pub(super) pairs: Vec<(String, Addr)>,
    /// What an evidence core says of the program.
    pub(super) notes: Option<Arc<EvidenceNotes>>,
    /// The symbols of all of these.
    pub(super) symbols: Layers,
    /// `None` until it is known.
    pub(super) load: Option<LoadOffset>,
    pub(super) hints: Hints,
    /// Take it for a trace of this format.
    pub(super) only: Option<&'static dyn Format>,
    /// Search all memory.
    pub(super) scan: bool,
    /// Registers that were typed, or that a debugger showed.
    pub(super) registers: GivenRegisters,
    /// Those of them that are memory.
    pub(super) mapped: Vec<Mapped>,
    /// The registers that a core's notes hold.
    pub(super) core: Arc<CoreNotes>,
    /// How much of the code in the memory of files is the ELF's.
    pub(super) code: Compared,
    /// The version strings of the kernel in the ELF and in memory where they differ, once they were compared.
    pub(super) other_version: OnceLock<Option<(String, String)>>,
    /// What the application calls its events.
    pub(super) events: EventNames,
    /// Bare trace buffers, oldest first.
    pub(super) buffers: Vec<Buffer>,
    /// What was noticed in the program's files.
    pub(super) issues: Vec<Issue>,
}

/// A bare trace buffer.
#[derive(Clone)]
pub(super) struct Buffer {
    /// Its name.
    pub name: String,
    pub bytes: Bytes,
    /// The address that it claims.
    pub base: Addr,
}

/// The option that gives it.
const TYPED: &str = "--load-offset";

/// What was added to the addresses of the ELF, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOffset {
    /// Run-time address less link address; wraps.
    pub value: u64,
    /// How it is known; empty where nothing had to be known.
    pub how: &'static str,
}

impl LoadOffset {
    /// Its value; `None` where the program moves and nothing says where it was loaded.
    pub(super) fn known(self, elf: &Elf) -> Option<u64> {
        (elf.kind() != ElfKind::Dyn || !self.how.is_empty()).then_some(self.value)
    }

    /// As it was typed.
    pub(super) const fn typed(value: u64) -> Self {
        Self { value, how: TYPED }
    }

    /// What else is as likely where an ELF does not match the memory: that a wrong offset was typed. Put before the
    /// conclusion in `EVIDENCE: CONCLUSION`.
    pub(super) fn doubt(self, mut issue: Issue) -> Issue {
        if let Some((evidence, conclusion)) = issue.message.rsplit_once(": ") {
            issue.message = format!("{evidence}: {}{conclusion}", self.or_wrong());
        }
        issue
    }

    /// The words for that, empty where none was typed.
    pub fn or_wrong(self) -> String {
        let is_typed = self.how == TYPED && self.value != 0;
        if is_typed { format!("{TYPED} {:#x} is wrong, or ", self.value) } else { String::new() }
    }
}

/// The memory of a target.
pub(super) enum Source<'m> {
    /// A stub.
    Stub(Box<Cache<Remote>>),
    /// A stub that another uses too.
    BorrowedStub(Box<Cache<&'m mut Remote>>),
    /// A connection that reads memory of a live target, and nothing else.
    Backend(Box<Cache<Box<dyn Memory>>>),
    /// Memory that does not change by itself.
    Files(Box<dyn Memory + 'm>),
}

impl Source<'_> {
    pub fn memory(&mut self) -> &mut dyn Memory {
        match self {
            Self::Stub(cache) => cache.as_mut(),
            Self::BorrowedStub(cache) => cache.as_mut(),
            Self::Backend(cache) => cache.as_mut(),
            Self::Files(memory) => memory.as_mut(),
        }
    }

    /// The memory, without what was cached.
    pub fn fresh(&mut self) -> &mut dyn Memory {
        match self {
            Self::Stub(cache) => cache.inner_mut(),
            Self::BorrowedStub(cache) => *cache.inner_mut(),
            Self::Backend(cache) => cache.inner_mut().as_mut(),
            Self::Files(memory) => {
                memory.refresh();
                memory.as_mut()
            }
        }
    }

    const fn is_live(&self) -> bool {
        !matches!(self, Self::Files(_))
    }
}

/// A memory that another has open, and uses too.
pub enum Borrowed<'m> {
    /// That of a live target.
    Stub(&'m mut Remote),
    /// Any other.
    Memory(&'m mut dyn Memory),
}

impl TargetInfo {
    /// The name of the source.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The ELF file, where one was given.
    pub(super) fn elf(&self) -> Option<&Elf> {
        self.program.as_ref().map(|program| &**program.elf())
    }

    pub(super) fn load_offset(&self) -> LoadOffset {
        self.load.unwrap_or_default()
    }

    /// Makes the layers of symbols. Names that were given as options come first.
    pub(super) fn collect_symbols(&mut self) {
        let mut symbols = Layers::new();
        if !self.pairs.is_empty() {
            symbols = symbols.then(Arc::new(crate::sym::Pairs::new(self.pairs.clone())));
        }
        if let Some(program) = &self.program {
            // Unwinding and source lines need it where it is, too.
            let program = program.at(self.load_offset().value);
            symbols = symbols.then(Arc::new(program.clone()));
            self.program = Some(program);
        }
        if let Some(notes) = &self.notes {
            // Under an ELF's own: it knows more.
            symbols = symbols.then(Arc::<EvidenceNotes>::clone(notes));
        }
        self.symbols = symbols;
    }

    /// Asks a stub where the program was loaded, where nothing else says it.
    pub(super) fn ask_load_offset(&mut self, remote: Option<&mut Remote>, issues: &mut Vec<Issue>) {
        if self.load.is_none() {
            self.load = Some(offset::ask(self.elf(), remote, issues));
        }
        self.collect_symbols();
    }
}

impl<'m> Target<'m> {
    /// True where a search found the trace, and the trace says that it is at another address: that of the dump may be wrong.
    pub const fn is_trace_elsewhere(&self) -> bool {
        self.is_trace_elsewhere
    }

    /// Opens files, or whatever [`Inputs`] name.
    ///
    /// # Errors
    /// [`Error`] when a file, a stub or the combination of them cannot be used.
    pub fn open(inputs: impl Into<Inputs>) -> Result<Self, Error> {
        open::open(inputs.into())
    }

    /// A target over a memory that is open already. Nothing that was read before is used.
    pub fn over(mut info: TargetInfo, memory: Borrowed<'m>) -> Self {
        let mut issues = Vec::new();
        let memory = match memory {
            Borrowed::Stub(remote) => {
                remote.client_mut().name().clone_into(&mut info.name);
                info.ask_load_offset(Some(remote), &mut issues);
                Source::BorrowedStub(Box::new(Cache::new(remote)))
            }
            Borrowed::Memory(memory) => Source::Files(Box::new(Cache::new(memory))),
        };
        issues.extend(info.issues.iter().cloned());
        Self { memory, info, issues, is_trace_elsewhere: false, place: None, link: None }
    }

    /// The memory of files, and what is known of it; `None` for a stub.
    pub fn into_memory(self) -> Option<(Box<dyn Memory + 'm>, TargetInfo)> {
        let Source::Files(memory) = self.memory else { return None };
        Some((memory, self.info))
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// True for a stub: the target may run on, and every read costs a packet.
    pub const fn is_live(&self) -> bool {
        self.memory.is_live()
    }

    /// True for a trace buffer without the rest of the memory.
    pub const fn is_buffer(&self) -> bool {
        !self.info.buffers.is_empty()
    }

    /// Names and addresses.
    pub fn symbols(&self) -> &dyn Symbols {
        &self.info.symbols
    }

    /// The ELF file, where one was given.
    pub fn elf(&self) -> Option<&Elf> {
        self.info.elf()
    }

    /// The file of that ELF, where there is one.
    pub fn elf_file(&self) -> Option<&Path> {
        Some(self.info.elf_path.as_path()).filter(|path| self.elf().is_some() && !path.as_os_str().is_empty())
    }

    /// What was added to the ELF's addresses.
    pub fn load_offset(&self) -> LoadOffset {
        self.info.load_offset()
    }

    /// What the application calls its events, and how that is known.
    pub const fn event_names(&self) -> &EventNames {
        &self.info.events
    }

    /// Names of events that are asked for: they are looked for in the ELF too.
    pub fn ask_events(&mut self, names: Vec<String>) {
        self.info.events.ask(names);
    }

    /// The stub's client, for counting and for leaving.
    pub fn remote_mut(&mut self) -> Option<&mut Remote> {
        match &mut self.memory {
            Source::Stub(cache) => Some(cache.inner_mut()),
            Source::BorrowedStub(cache) => Some(cache.inner_mut()),
            Source::Backend(_) | Source::Files(_) => None,
        }
    }

    /// The memory and the names at once.
    pub fn parts(&mut self) -> (&mut dyn Memory, &dyn Symbols) {
        (self.memory.memory(), &self.info.symbols)
    }

    /// What can be written: a live target of our own. One that is borrowed is only read.
    pub fn writable(&mut self) -> Option<&mut Cache<Remote>> {
        match &mut self.memory {
            Source::Stub(cache) => Some(cache),
            Source::BorrowedStub(_) | Source::Backend(_) | Source::Files(_) => None,
        }
    }

    /// The target's byte order and the width of its addresses, where the program shows them.
    pub const fn machine(&self) -> (Option<Endian>, Option<Width>) {
        (self.info.hints.endian, self.info.hints.pointer)
    }

    /// What was noticed while opening and locating, also where there is no trace.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    /// Takes the stub's client out: nothing more is to be read, names stay.
    pub fn disconnect(&mut self) -> Option<Client> {
        match std::mem::replace(&mut self.memory, Source::Files(Box::new(Segments::default()))) {
            Source::Stub(cache) => Some(cache.into_inner().into_client()),
            Source::BorrowedStub(_) | Source::Backend(_) | Source::Files(_) => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test")]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use crate::mem::ReadError;
    use crate::mem::segments::Block;

    /// Counts how often each byte is read.
    struct Counted(Segments, HashMap<Addr, usize>);

    impl Memory for Counted {
        fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
            for at in (addr..).take(buf.len()) {
                *self.1.entry(at).or_default() += 1;
            }
            self.0.read(addr, buf)
        }
    }

    #[test]
    fn own_memory_was_read_twice() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let ram = std::fs::read(fixtures.join("cm3.ram.bin")).unwrap();
        let mut memory = Counted(Segments::new(vec![Block::whole(0x2000_0000, ram.into())]), HashMap::new());
        let mut target = Inputs::new().elf(fixtures.join("cm3.elf")).over("own", &mut memory).unwrap();
        target.last(50).unwrap();
        target.trace().unwrap();
        drop(target);
        assert!(memory.1.len() > 4096, "the whole buffer");
        assert_eq!(memory.1.values().max(), Some(&1));
    }
}
