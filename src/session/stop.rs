//! A stopped target beside its trace: the kernel's objects, and the registers of its CPUs.

use super::interrupted::is_number_of;
use super::registers::no_register;
use super::{Identity, Target, TargetInfo, program, stub};
use crate::abi::{Addr, Endian};
use crate::code::Code;
use crate::cpu::{self, Architecture, CodeRanges, Frames, Origin, Registers};
use crate::elf::{Elf, Machine};
use crate::error::Error;
use crate::kernel::{self, About, Kernel, Stop, Thread, registered, registered_blocks};
use crate::mem::core::Core;
use crate::mem::image;
use crate::rsp::RspError;
use crate::sym::EvidenceNotes;
use crate::trace::{Issue, Trace};

/// A core's registers, as raw notes: which registers they are depends on the processor.
#[derive(Debug, Clone, Default)]
pub struct CoreNotes {
    /// The processor, as far as the core gives it: never the profile of an ARM.
    architecture: Option<Architecture>,
    endian: Option<Endian>,
    /// Of each thread or CPU its `NT_PRSTATUS` note, and its `NT_386_TLS` note.
    threads: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The auxiliary vector of a process (`NT_AUXV`).
    auxv: Option<Vec<u8>>,
    /// Registers of the first CPU that its note has no place for, in an evidence core.
    system: Vec<(String, u64)>,
    machine: Option<Machine>,
    /// The program's `e_flags`, in an evidence core.
    flags: Option<u32>,
    /// What an evidence core says of the frames.
    frames: Option<Frames>,
    /// And of the program's code.
    code: CodeRanges,
}

/// The most notes of registers that are kept.
const MAX_NOTES: usize = 4096;
/// The longest auxiliary vector that is kept.
const MAX_AUXV: usize = 64 << 10;
/// The most registers beside those.
const MAX_SYSTEM: usize = 64;

impl CoreNotes {
    /// Takes them out of a core before its memory is all that is left of it.
    pub fn of(core: &Core, notes: Option<&EvidenceNotes>) -> Self {
        let endian = core.elf().endian();
        let fact = |key| notes.and_then(|n| n.fact(key));
        let known = fact("processor")
            .and_then(Architecture::named)
            .or_else(|| is_m_profile(core).then_some(Architecture::CortexM));
        let frames = known.map(|architecture| Frames {
            floats: fact("frames with floats").map(|f| f == "true"),
            baseline: fact("frames of the small instruction set") == Some("true"),
            ..Frames::new(architecture, endian)
        });
        // In an evidence core the threads follow the CPUs, and the place of a crash comes before them.
        let before = fact("notes before the cpus").and_then(|n| n.parse().ok()).unwrap_or(0);
        let cpus = fact("cpus").and_then(|n| n.parse().ok()).unwrap_or(MAX_NOTES).min(MAX_NOTES);
        let threads = core.threads().into_iter().map(|(desc, tls)| (desc.to_vec(), tls.map(<[u8]>::to_vec)));
        Self {
            architecture: known.or_else(|| Architecture::of(core.elf())),
            endian: Some(endian),
            threads: threads.skip(before).take(cpus).collect(),
            auxv: core.auxv_bytes().filter(|bytes| bytes.len() <= MAX_AUXV).map(<[u8]>::to_vec),
            system: fact("system registers").map(system_registers).unwrap_or_default(),
            machine: Some(core.elf().machine()),
            flags: fact("elf").map(|_| core.elf().flags()),
            frames,
            code: fact("code").map(CodeRanges::from_text).unwrap_or_default(),
        }
    }

    /// True for an evidence core that says so: only these have the program's own names for exceptions.
    pub fn is_m_profile(&self) -> bool {
        self.frames.is_some_and(|f| f.architecture == Architecture::CortexM)
    }

    /// True where the core is of a Cortex-M, and the program was built for a processor that is none.
    pub(super) fn is_other_profile(&self, elf: &Elf) -> bool {
        self.is_m_profile() && elf.is_a_or_r_profile()
    }

    /// The auxiliary vector of the process.
    pub fn auxv(&self) -> Option<&[u8]> {
        self.auxv.as_deref()
    }

    /// The processor, as far as the core gives it: never the profile of an ARM.
    pub const fn architecture(&self) -> Option<Architecture> {
        self.architecture
    }

    /// The instruction set that the core names.
    pub(super) const fn machine(&self) -> Option<Machine> {
        self.machine
    }

    fn read(&self, architecture: Architecture) -> Vec<Registers> {
        let Some(endian) = self.endian else { return Vec::new() };
        let threads = self.threads.iter();
        let registers = threads.filter_map(|(desc, tls)| cpu::from_notes(architecture, endian, desc, tls.as_deref()));
        let mut all: Vec<Registers> = registers.collect();
        if let Some(first) = all.first_mut() {
            for (name, value) in &self.system {
                first.set(name, *value);
            }
        }
        all
    }
}

impl Target<'_> {
    /// True where the program, or what a core says of it, is for a processor that numbers its exceptions.
    pub(super) fn is_m_profile(&self) -> bool {
        self.info.elf().map_or_else(|| self.info.core.is_m_profile(), |elf| elf.is_m_profile())
    }

    /// The program's `e_flags`, which name the variant of its processor; `None` where it is not known.
    pub fn flags(&self) -> Option<u32> {
        self.info.elf().map(|elf| elf.flags()).or(self.info.core.flags)
    }

    /// The kernel's current objects, and where each thread was stopped. The trace's registry gives names of objects that
    /// memory does not hold, and their addresses.
    ///
    /// # Errors
    /// [`Error`] where the list of threads cannot be read.
    pub fn kernel(&mut self, trace: Option<&Trace>) -> Result<Kernel, Error> {
        self.kernel_with(trace, &mut Stop::default())
    }

    /// The same, and the registers that were read for it.
    pub(super) fn kernel_with(&mut self, trace: Option<&Trace>, stop: &mut Stop) -> Result<Kernel, Error> {
        if !self.info.buffers.is_empty() {
            return Err(Error::failed(
                Code::NoKernelSymbol,
                "a trace buffer alone holds no threads",
                "give the memory they are in: --remote, --core, or --image FILE@ADDR",
            ));
        }
        let mut issues = Vec::new();
        *stop = self.stop(&mut issues)?;
        self.read_fault_registers(stop)?;
        let before = stop.frames.map(|f| f.architecture);
        let mut identity = Identity {
            code: self.code_match(),
            load: self.load_offset(),
            ..trace.map_or_else(Identity::default, |t| self.by_files(t))
        };
        let said = identity.issue().is_some();
        let mut kernel = self.read_kernel(&mut identity, trace, true)?;
        if let Some(issue) = self.registers_of_another(&kernel) {
            issues.push(issue);
            stop.cpus.clear();
        }
        issues.extend(self.inferred_exceptions(stop));
        // What else shows another build is an issue of the trace or of the source.
        issues.extend(identity.entries.filter(|_| !said).and_then(|entries| entries.issue()));
        // Start-up code may have set the kernel's state already. No thread runs before the kernel is initialized.
        let has_run = || kernel.threads.iter().any(|thread| thread.run_count.is_some_and(|times| times > 0));
        if (!kernel.is_initializing() || has_run())
            && let Some(function) = self.start_up(Some(&kernel), stop)
        {
            kernel.begin_again(function.name);
        }
        kernel.find_running(stop);
        kernel.place(self.memory.memory(), stop, &self.info.symbols);
        kernel.find_directions(self.memory.memory(), &self.info.symbols);
        if kernel.may_be_interrupted() {
            let found = self.with_unwinder(Some(&kernel), |unwinder, memory, symbols| {
                kernel.find_interrupted(memory, unwinder, symbols)
            });
            kernel.take_interrupted(found);
        }
        if stop.frames.map(|f| f.architecture) != before {
            // What was inferred of the processor before its threads were read.
            issues.retain(|i| i.code != Code::CpuInferred);
        }
        // Of a link that broke on the way each list would say the same, and what it holds would be missing.
        if let Some(e) = self.remote_mut().and_then(|remote| remote.client_mut().broken().cloned()) {
            return Err(Error::from(e));
        }
        kernel.issues.append(&mut issues);
        Ok(kernel)
    }

    /// The issue of a stub that gives the registers of a thread which does not run in place of the CPU's.
    fn registers_of_another(&mut self, kernel: &Kernel) -> Option<Issue> {
        let selected = self.selected_thread()?;
        let thread = kernel.threads.iter().find(|thread| is_number_of(selected, thread.address))?;
        let is_another = !kernel.current.is_empty() && !kernel.current.contains(&thread.address);
        let message = format!(
            "the stub gives the registers of thread {}, which does not run: those of the CPU are not known",
            thread.label()
        );
        is_another.then(|| Issue::new(Code::CpuInferred, message))
    }

    /// The kernel's objects alone: not where threads were stopped, nor how much of their stacks was used.
    ///
    /// # Errors
    /// As [`Target::kernel`].
    pub fn objects(&mut self, trace: &Trace) -> Result<Kernel, Error> {
        let mut identity = self.by_files(trace);
        self.read_kernel(&mut identity, Some(trace), false)
    }

    /// Reads the kernel and compares it with the ELF; `stacks` also measures how much of each stack was used.
    fn read_kernel(&mut self, identity: &mut Identity, trace: Option<&Trace>, stacks: bool) -> Result<Kernel, Error> {
        let about = About {
            symbols: &self.info.symbols,
            endian: self.info.hints.endian,
            pointer: self.info.hints.pointer,
            names: &|address| {
                trace.and_then(|t| registered(t, address)).or_else(|| variable(&self.info.symbols, address))
            },
            registered: &trace.map(registered_blocks).unwrap_or_default(),
            stacks,
        };
        let elf = self.info.elf();
        let read = Kernel::read(self.memory.memory(), &about);
        let mut kernel = read.map_err(|none| program::with_likely_cause(elf, identity, none))?;
        compare_with_elf(&mut kernel, identity, &self.info, trace);
        Ok(kernel)
    }

    /// The registers of the CPUs that stopped: from the core's notes or the stub, overridden by those that were given.
    ///
    /// # Errors
    /// Where the link fails, or a register that was typed does not exist.
    pub fn stop(&mut self, issues: &mut Vec<Issue>) -> Result<Stop, Error> {
        let mut frames = self.info.elf().and_then(Frames::of);
        let mut profile_open = false;
        if frames.is_none() && self.info.elf().is_none() {
            (frames, profile_open) = self.by_core(issues);
        }
        let code = match self.info.elf() {
            Some(elf) => CodeRanges::of(elf, self.load_offset().value),
            None => self.info.core.code.clone(),
        };
        let [m_profile, other] = [Architecture::CortexM, Architecture::Arm].map(Registers::new);
        let only = |name: &str| m_profile.clone().set(name, 0) && !other.clone().set(name, 0);
        let named = self.info.registers.typed.iter().any(|(name, _)| only(name));
        if (frames.is_none() || profile_open) && named && self.info.elf().is_none() {
            // Only a Cortex-M has these.
            profile_open = false;
            frames = Some(Frames::new(Architecture::CortexM, self.info.hints.endian.unwrap_or(Endian::Little)));
        }
        let Some(known) = frames else {
            return Ok(Stop { frames, profile_open, code, cpus: Vec::new(), typed: self.info.registers.typed.clone() });
        };
        let architecture = known.architecture;
        let mut cpus = self.info.core.read(architecture);
        if let Some(remote) = self.remote_mut() {
            let broken = |e: RspError| Error::from(e);
            cpus.extend(stub::registers(remote.client_mut(), known).map_err(broken)?);
        }
        if cpus.is_empty() {
            let mut shown = Registers::of(architecture, Origin::Read);
            for (name, value) in &self.info.registers.shown {
                shown.set(name, *value);
            }
            cpus.push(shown);
        }
        for (name, value) in &self.info.registers.typed {
            if !cpus.first_mut().is_some_and(|cpu| cpu.set_from(Origin::Given, name, *value)) {
                return Err(no_register(&[architecture], name, *value));
            }
        }
        cpus.retain(|cpu| !cpu.is_unknown());
        cpus.iter_mut().for_each(Registers::complete);
        Ok(Stop { frames, profile_open, code, cpus, typed: Vec::new() })
    }

    /// That the exception of a CPU is known by its handler alone.
    fn inferred_exceptions(&self, stop: &Stop) -> Vec<Issue> {
        let inferred = stop.cpus.iter().filter(|cpu| cpu.has_inferred_exception());
        let numbers = inferred.filter_map(|cpu| u32::try_from(cpu.get("ipsr")?).ok());
        let message = |number: u32| {
            let name = self.symbols().exception(number);
            let exception = kernel::exception(number, name.as_deref());
            let others = self.symbols().others_with_handler(number);
            let others: Vec<String> = others.iter().map(u32::to_string).collect();
            let others = match others.as_slice() {
                [] => String::new(),
                [one] => format!(", which exception {one} has as well"),
                all => format!(", which exceptions {} have as well", all.join(", ")),
            };
            format!("xpsr is not known: by the vectors in the ELF, the CPU is in the handler of {exception}{others}")
        };
        numbers.map(|number| Issue::new(Code::CpuInferred, message(number))).collect()
    }

    /// What the core itself shows of the processor, where there is no program; and whether that leaves an ARM's profile open.
    fn by_core(&self, issues: &mut Vec<Issue>) -> (Option<Frames>, bool) {
        if self.info.core.frames.is_some() {
            return (self.info.core.frames, false);
        }
        let Some((endian, architecture)) = self.info.core.endian.zip(self.info.core.architecture) else {
            return (None, false);
        };
        if architecture != Architecture::Arm {
            return (Some(Frames::new(architecture, endian)), false);
        }
        let status = self.info.core.read(architecture).first().and_then(|r| r.get("cpsr"));
        let Some(status) = status else { return (None, false) };
        let profile = cpu::profile(status);
        let architecture = profile.unwrap_or(Architecture::Arm);
        let doubt = if profile.is_none() { ", which could be that of a Cortex-M too" } else { "" };
        let message =
            format!("the core does not show which ARM it is of: by its status register {}{doubt}", architecture.name());
        issues.push(Issue::new(Code::CpuInferred, message));
        (Some(Frames::new(architecture, endian)), profile.is_none())
    }
}

/// Under the ELF of another build, by what is known before or by the threads' entries, nothing says which thread runs.
fn compare_with_elf(kernel: &mut Kernel, identity: &mut Identity, info: &TargetInfo, trace: Option<&Trace>) {
    // The entry in a control block that was overwritten says nothing of the ELF.
    let any_whole = kernel.threads.iter().any(Thread::has_whole_stack);
    let whole = kernel.threads.iter().filter(|t| !any_whole || t.has_whole_stack());
    identity.entries = info.compare_entries(whole.filter_map(|t| t.entry));
    if identity.is_another() {
        kernel.forget_running();
        kernel.rename(|address| trace.and_then(|trace| registered(trace, address)));
        kernel.fold_lists();
    }
}

/// The pairs of `msp=0x20007f58 psp=0x20002f00`.
fn system_registers(fact: &str) -> Vec<(String, u64)> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), image::parse_number(value)?))
    };
    fact.split(' ').filter_map(pair).take(MAX_SYSTEM).collect()
}

/// A core of GDB's describes its registers: those of the M profile have a name of their own.
fn is_m_profile(core: &Core) -> bool {
    const NAME: &[u8] = b"org.gnu.gdb.arm.m-profile";
    let descriptions = core.elf().notes().filter_map(Result::ok).filter(|n| n.name == b"GDB");
    descriptions.into_iter().any(|n| n.desc.windows(NAME.len()).any(|w| w == NAME))
}

/// The name of the variable that a control block is.
pub(super) fn variable(symbols: &dyn crate::sym::Symbols, address: Addr) -> Option<String> {
    let symbol = symbols.variable(address)?;
    Some(match address.checked_sub(symbol.address)? {
        0 => format!("&{}", symbol.name),
        offset => format!("&{}+{offset:#x}", symbol.name),
    })
}
