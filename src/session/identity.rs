//! Whether ELF and memory match, and which kernel runs.

use super::code::{self, CodeMatch, Compared};
use super::{LoadOffset, Target};
use crate::abi::{Addr, Width};
use crate::catalogue::Names;
use crate::code::Code;
use crate::elf::Elf;
use crate::error::Error;
use crate::format::{DecodeOptions, Extent};
use crate::kernel::{self, Agreement, Entries, Pointers, Program};
use crate::trace::{Issue, Trace};

/// What memory and ELF say of the program.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The kernel's version string.
    pub version: Option<String>,
    /// The enable mask.
    pub enable_bits: Option<u64>,
    /// How many thread names agree between memory and ELF.
    pub agreement: Option<Agreement>,
    /// How many thread entries are functions of the ELF.
    pub entries: Option<Entries>,
    /// How many of the kernel's pointers point to threads.
    pub pointers: Option<Pointers>,
    /// How much of the code does.
    pub code: Option<CodeMatch>,
    /// What shows by itself that the ELF is of another program, in words.
    pub another: Option<String>,
    /// Where the ELF was taken to be.
    pub load: LoadOffset,
}

impl Identity {
    /// True where code leaves open whether the ELF is that of the program.
    fn is_open(&self) -> bool {
        self.code.is_none_or(CodeMatch::leaves_open)
    }

    /// The thread names, unless code decides.
    fn names(&self) -> Option<Agreement> {
        self.agreement.filter(|_| self.is_open())
    }

    /// The thread entries, unless code decides.
    fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref().filter(|_| self.is_open())
    }

    /// The kernel's pointers, unless something else decides: names that agree are of the right ELF.
    fn pointers(&self) -> Option<Pointers> {
        self.pointers.filter(|_| self.is_open() && !self.agreement.is_some_and(Agreement::holds))
    }

    /// True where something shows that the ELF is of another build: then its addresses are those of other variables.
    pub fn is_another(&self) -> bool {
        self.code.is_some_and(CodeMatch::is_another)
            || self.is_open() && self.another.is_some()
            || self.names().is_some_and(|names| !names.holds())
            || self.entries().is_some_and(Entries::is_another)
    }

    /// The issue of a mismatch, with all that shows it: what is certain before what is not.
    pub fn issue(&self) -> Option<Issue> {
        let other = self.another.as_ref().filter(|_| self.is_open());
        let other = other.map(|why| Issue::new(Code::ElfMismatch, format!("{why}: {OTHER_BUILD}")));
        let code = self.code.and_then(CodeMatch::issue);
        let (sure, unsure) = if self.code.is_some_and(CodeMatch::is_another) { (code, None) } else { (None, code) };
        let entries = self.entries().and_then(Entries::issue);
        let (false_entries, odd_entries) =
            if self.entries().is_some_and(Entries::is_another) { (entries, None) } else { (None, entries) };
        let pointers = self.pointers().and_then(Pointers::issue);
        let all = [sure, other, self.names().and_then(Agreement::issue), false_entries, unsure, odd_entries, pointers];
        let mut all = all.into_iter().flatten();
        let mut first = all.next()?;
        // `EVIDENCE: CONCLUSION`: the conclusion is that of the strongest, the evidence is everything.
        let evidence: Vec<String> = all.filter_map(|i| Some(i.message.rsplit_once(": ")?.0.to_owned())).collect();
        if let (false, Some((own, conclusion))) = (evidence.is_empty(), first.message.rsplit_once(": ")) {
            first.message = format!("{own}, {}: {conclusion}", evidence.join(", "));
        }
        Some(self.load.doubt(first))
    }
}

/// What follows where the ELF is of another program.
const OTHER_BUILD: &str = "this ELF is of another build; names and lines from it are wrong";

impl Target<'_> {
    /// Reads what shows whether ELF and memory match. Costs reads: for `info`, not for `last`.
    pub fn identity(&mut self, trace: &Trace) -> Identity {
        let (memory, symbols) = self.parts();
        let version = kernel::version(memory, symbols);
        let enable_bits = kernel::enable_bits(memory, symbols, trace.about.endian, trace.about.word);
        let entries = self.entries(trace);
        let code = self.code_match();
        Identity { version, enable_bits, entries, code, ..self.by_memory(trace) }
    }

    /// What the memory of files shows: it costs no read of a live target, and no search of the ELF's symbols.
    pub(super) fn by_files(&mut self, trace: &Trace) -> Identity {
        let code = self.info.code.found();
        if self.is_live() {
            Identity { code, load: self.load_offset(), ..Identity::default() }
        } else {
            Identity { code, ..self.by_memory(trace) }
        }
    }

    /// What the kernel's pointers and the control blocks of its threads show.
    fn by_memory(&mut self, trace: &Trace) -> Identity {
        let agreement = self.agreement(trace);
        let is_placed = self.info.elf().is_some_and(|elf| self.info.load_offset().known(elf).is_some());
        let is_other_profile = self.info.elf().is_some_and(|elf| self.info.core.is_other_profile(elf));
        let Some(program) = self.info.kernel_program().filter(|_| is_placed) else {
            return Identity { agreement, load: self.load_offset(), ..Identity::default() };
        };
        let memory = self.memory.memory();
        let pointers = program.pointers(memory, trace);
        let order = other_order(program.elf, trace).and_then(|i| Some(i.message.rsplit_once(": ")?.0.to_owned()));
        let another = if order.is_some() {
            order
        } else if is_other_profile {
            Some("the core is of a Cortex-M, the ELF for another ARM".to_owned())
        } else if let Some((ours, there)) = self.info.other_version.get_or_init(|| program.other_version(memory)) {
            Some(format!("the kernel in memory is \"{there}\", that of the ELF \"{ours}\""))
        } else if agreement.is_some_and(Agreement::holds) {
            // Names that agree are of the right ELF.
            None
        } else {
            let threads = program.foreign_threads(memory, trace);
            threads.map(|n| format!("the control blocks of {n} threads point to nothing in this ELF"))
        };
        Identity { agreement, pointers, another, load: self.load_offset(), ..Identity::default() }
    }

    /// How much of the code in memory is the ELF's. Costs reads of a live target, and none of files.
    pub fn code_match(&mut self) -> Option<CodeMatch> {
        if let Compared::Was(found) = self.info.code {
            return found;
        }
        let found = code::compare(self.memory.memory(), self.info.elf()?, self.info.load_offset());
        self.info.code = Compared::Was(found);
        found
    }

    /// What shows that the ELF is not that of the program in memory: byte order, build id, kernel version, code, or names
    /// or entries of threads. `None` where nothing shows it; that is no proof that they match.
    pub fn mismatch(&mut self) -> Option<String> {
        self.info.elf()?;
        let code = self.code_match();
        if code.is_some_and(|c| c.build_id == Some(true)) {
            return None;
        }
        if let Some(issue) = code.filter(|c| c.is_another()).and_then(CodeMatch::issue) {
            return Some(self.load_offset().doubt(issue).message);
        }
        let loaded = self.load(Extent::Nothing, Names::default(), &DecodeOptions::default()).ok()?;
        // Code that differs in part may have been changed in memory.
        let identity = Identity { code: None, ..self.identity(&loaded.trace) };
        identity.issue().map(|issue| issue.message)
    }

    /// The kernel's version string.
    pub fn kernel_version(&mut self) -> Option<String> {
        let (memory, symbols) = self.parts();
        kernel::version(memory, symbols)
    }

    /// Why the ELF cannot be that of the program in these files: it is of another byte order, or another width.
    pub(super) fn other_machine(&mut self, trace: &Trace) -> Option<Error> {
        let (endian, width) = self.info.elf().map(|elf| (elf.endian(), elf.width()))?;
        let there = kernel::pointer_width(self.memory.memory(), trace);
        let same_width = there.is_none_or(|there| there == width);
        if endian == trace.about.endian && same_width {
            return None;
        }
        let bits = |width: Width| width.bytes().saturating_mul(8);
        let is = there.map(|there| format!("{}-bit ", bits(there))).unwrap_or_default();
        let elf = self.info.elf()?;
        let path = self.info.elf_path.display();
        Some(Error::failed(
            Code::CoreMismatch,
            format!(
                "{path} is not the program of this trace: it is {}, and the trace is of a {is}{}-endian target",
                elf.describe(),
                trace.about.endian.name()
            ),
            "give the ELF that ran on this target; without one names of threads and objects are in the trace",
        ))
    }

    /// An error with its likely cause in front: where memory and ELF do not match, addresses from it lead anywhere.
    pub fn with_cause(&mut self, error: Error) -> Error {
        let by_address = matches!(
            error.code,
            Code::NotAHeader
                | Code::HeaderDamaged
                | Code::HeaderOutsideMemory
                | Code::HeaderZero
                | Code::Unreadable
                | Code::KernelLayout
                | Code::NoThreads
        );
        let Some(why) = by_address.then(|| self.likely_mismatch()).flatten() else { return error };
        let mut caused = error.clone().hint("give the ELF of the program that ran (--elf)");
        caused.message = format!("ELF and memory do not match: {why}");
        caused.tried = std::iter::once(error.message).chain(error.tried).collect();
        caused
    }

    /// The same as [`Target::mismatch`], and code that differs in part: beside an address that leads nowhere it is enough.
    fn likely_mismatch(&mut self) -> Option<String> {
        let load = self.load_offset();
        let partly =
            |code: CodeMatch| code.issue().filter(|_| code.may_be_another()).map(|issue| load.doubt(issue).message);
        self.mismatch().or_else(|| self.code_match().and_then(partly))
    }

    fn agreement(&mut self, trace: &Trace) -> Option<Agreement> {
        self.info.kernel_program()?.names(self.memory.memory(), trace)
    }

    fn entries(&mut self, trace: &Trace) -> Option<Entries> {
        self.info.load_offset().known(self.info.elf()?)?;
        self.info.kernel_program()?.entries(self.memory.memory(), trace)
    }
}

impl super::TargetInfo {
    /// The program, to be compared with the kernel in memory.
    fn kernel_program(&self) -> Option<Program<'_>> {
        let load_offset = self.load_offset().value;
        Some(Program { elf: self.elf()?, load_offset, symbols: &self.symbols })
    }

    /// Compares these entries of threads with the ELF's functions.
    pub(super) fn compare_entries(&self, entries: impl IntoIterator<Item = Addr>) -> Option<Entries> {
        let elf = self.elf()?;
        Entries::of(elf, self.load_offset().known(elf)?, entries)
    }
}

/// The ELF of a program that cannot have written the trace.
pub(super) fn other_order(elf: &Elf, trace: &Trace) -> Option<Issue> {
    let (program, memory) = (elf.endian(), trace.about.endian);
    (program != memory).then(|| {
        Issue::new(
            Code::ElfMismatch,
            format!(
                "the ELF is {}-endian, the trace {}-endian: this ELF is of another program; names and lines from it are wrong",
                program.name(), memory.name()
            ),
        )
    })
}
