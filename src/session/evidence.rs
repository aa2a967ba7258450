//! Everything of one stop in one ELF core: memory, registers, and what is known of the program.

use sha2::{Digest, Sha256};

use super::wanted::{Wanted, WhatWasRead};
use super::{Target, stub};
use crate::abi::{Addr, Endian, Width};
use crate::bytes::{Bytes, hex};
use crate::catalogue::Names;
use crate::code::Code;
use crate::cpu::{self, Registers};
use crate::elf::core_file::{CoreFile, MAX_PIECES};
use crate::elf::{ElfKind, Machine, SHF_ALLOC, SHF_WRITE, SymbolKind};
use crate::error::Error;
use crate::format::{self, DecodeOptions, Extent};
use crate::kernel::{self, Interrupted, Interruption, Kernel, Stop};
use crate::mem::Region;
use crate::mem::core::{AT_ENTRY, NT_386_TLS, NT_AUXV, NT_PRSTATUS};
use crate::rsp::client::MapKind;
use crate::sym::{Symbol, Symbols, evidence_notes};
use crate::trace::{Issue, Trace};

/// A core that is ready to be written.
pub struct Evidence {
    /// Header, program headers and notes.
    pub head: Vec<u8>,
    /// The memory behind them.
    pub pieces: Vec<Bytes>,
    /// What is in it, in words.
    pub said: Vec<String>,
    /// What was noticed, and what is not in it.
    pub issues: Vec<Issue>,
}

const SIGTRAP: u16 = 5;
/// A region of a stub's map beyond this is RAM by name only: OpenOCD calls everything so that is not flash.
const LARGEST_RAM: u64 = 64 << 20;
/// The most of all memory that a file holds which goes in unasked.
const LARGEST_SOURCE: u128 = 256 << 20;

/// What is known of the target before the core is made.
struct Parts<'a> {
    kernel: Option<&'a Kernel>,
    stop: &'a Stop,
    header: Option<Addr>,
    endian: Endian,
    width: Width,
    /// The application's events, as a table.
    events: &'a str,
    /// The auxiliary vector of a process.
    auxv: Option<Vec<u8>>,
}

impl Parts<'_> {
    /// What a fault interrupted, where that is certain.
    fn crash(&self) -> Option<&Interruption> {
        self.kernel?.interrupted.iter().filter(|found| found.is_crash()).find_map(Interrupted::certain)
    }

    /// The thread below it.
    fn crashed(&self) -> Option<Addr> {
        self.kernel?.interrupted.iter().find(|found| found.is_crash() && found.is_certain)?.thread
    }
}

/// What is found of the trace.
#[derive(Default)]
struct FoundTrace {
    /// It decoded: its registry names objects.
    trace: Option<Trace>,
    /// The address of its header, where no symbol gives that.
    header: Option<Addr>,
    endian: Option<Endian>,
    /// The application's events, as a table.
    events: String,
}

/// What goes into the core, and what is reported of it.
#[derive(Default)]
struct Collection {
    wanted: Wanted,
    said: Vec<String>,
    issues: Vec<Issue>,
}

impl Target<'_> {
    /// Collects the evidence. `ranges` are ranges of memory that were asked for beside what goes in anyway.
    ///
    /// # Errors
    /// [`Error`] where the source fails, or where there is nothing at all to collect.
    pub fn evidence(&mut self, ranges: &[Region]) -> Result<Evidence, Error> {
        let mut all = Collection { issues: self.issues().to_vec(), ..Collection::default() };
        let found = self.collect_trace(&mut all)?;
        let mut stop = Stop::default();
        let kernel = self.collect_kernel(found.trace.as_ref(), &mut stop, &mut all)?;
        self.collect_program(&mut all.wanted);
        self.collect_source(&mut all.wanted, &mut all.issues)?;
        let Collection { mut wanted, mut said, mut issues } = all;
        wanted.add("range", ranges.iter().copied());
        let pieces = self.read_wanted(wanted, &mut issues)?;
        let shape = kernel.as_ref().map(|k| k.layout.shape);
        let endian = shape.map(|s| s.endian).or(found.endian).unwrap_or(Endian::Little);
        let width = shape.map(|s| s.pointer).or(self.info.hints.pointer).unwrap_or(Width::W4);
        let auxv = self.auxv(endian, width)?;
        let (header, events) = (found.header, found.events.as_str());
        let parts = Parts { kernel: kernel.as_ref(), stop: &stop, header, endian, width, events, auxv };
        let file = self.core_file(&parts, &mut issues);
        let places: Vec<(Addr, u64)> = pieces.iter().map(|(at, bytes)| (*at, bytes.len() as u64)).collect();
        let total: u64 = places.iter().map(|(_, len)| len).sum();
        let head = file.head(&places).ok_or_else(|| {
            Error::failed(
                Code::Usage,
                "a part of this memory is where a core of this target has no addresses",
                "check --range",
            )
        })?;
        said.push(format!("{total} bytes of memory in {} pieces", pieces.len()));
        Ok(Evidence { head, pieces: pieces.into_iter().map(|(_, bytes)| bytes).collect(), said, issues })
    }

    /// The trace with the names of its events. That there is none is an issue.
    fn collect_trace(&mut self, all: &mut Collection) -> Result<FoundTrace, Error> {
        let mut found = FoundTrace { endian: self.info.hints.endian, ..FoundTrace::default() };
        let (format, capture) = match self.capture(Extent::All) {
            Ok(captured) => captured,
            Err(error) if error.code == Code::SourceFailed => return Err(error),
            Err(error) => {
                all.issues.push(left_out(format!("the core holds no trace: {}", error.message)));
                return Ok(found);
            }
        };
        let ranges = capture.ranges();
        all.said.push(format!("{} trace, {} bytes", format.name(), ranges.iter().map(|r| r.len).sum::<u64>()));
        all.wanted.add("trace", ranges);
        if let Some((_, located)) = &self.place {
            let place = located.location();
            found.endian = found.endian.or(place.endian);
            found.header = (!place.by_symbols).then_some(place.header);
        }
        let named = self.named(capture.as_ref(), Names::default(), &DecodeOptions::default()).ok();
        all.issues.extend(self.info.events.issues().iter().cloned());
        if let Some((trace, catalogue)) = named {
            let events = self.info.events.collect(&catalogue);
            if !events.events.is_empty() {
                found.events = events.to_tsv();
                all.said.push(format!("{} names of events", events.events.len()));
            }
            found.trace = Some(trace);
        }
        Ok(found)
    }

    /// The kernel's objects, and the registers. That there are no threads is an issue.
    fn collect_kernel(
        &mut self,
        trace: Option<&Trace>,
        stop: &mut Stop,
        all: &mut Collection,
    ) -> Result<Option<Kernel>, Error> {
        let kernel = match self.kernel_with(trace, stop) {
            Ok(kernel) => Some(kernel),
            Err(error) if error.code == Code::SourceFailed => return Err(error),
            Err(error) => {
                all.issues.push(left_out(format!("the core holds no threads: {}", error.message)));
                *stop = self.stop(&mut all.issues)?;
                self.read_fault_registers(stop)?;
                None
            }
        };
        self.ask_system_registers(stop)?;
        let interrupts = self.interrupt_state(stop);
        if !interrupts.is_empty() {
            all.said.push("fault registers, SysTick and the interrupt controller".to_owned());
        }
        all.wanted.add_if_there(interrupts);
        if let Some(kernel) = &kernel {
            all.issues.extend(kernel.issues.iter().cloned());
            for (what, region) in kernel.regions() {
                all.wanted.add(what, [region]);
            }
            all.wanted.add_if_there(kernel.name_regions());
            all.wanted.add_if_there(kernel.main_stacks());
            all.said.push(format!("{} threads with their stacks", kernel.threads.len()));
        }
        // What an overflow, and exceptions that are over, left there is evidence too.
        if stop.frames.is_some_and(|frames| frames.architecture == cpu::Architecture::CortexM) {
            all.wanted.add_if_there(self.main_stack(kernel.as_ref()));
        }
        Ok(kernel)
    }

    /// Reads what is wanted; what cannot be read is an issue.
    fn read_wanted(&mut self, wanted: Wanted, issues: &mut Vec<Issue>) -> Result<Vec<(Addr, Bytes)>, Error> {
        let WhatWasRead { pieces, missing, dropped, failed } = wanted.read(self.memory.memory(), MAX_PIECES);
        if let Some(error) = failed {
            return Err(error.explain("the memory"));
        }
        issues.extend(
            missing
                .iter()
                .map(|(what, region)| left_out(format!("{what} {region} cannot be read and is not in the core"))),
        );
        if dropped > 0 {
            issues.push(left_out(format!("{dropped} bytes are not in the core: it would have become too large")));
        }
        if pieces.is_empty() {
            return Err(Error::failed(
                Code::NothingToWrite,
                "nothing of this target can be put into a core: no trace, no threads, no variables",
                "--range ADDR..ADDR names memory",
            ));
        }
        Ok(pieces)
    }

    /// Asks for every register that the stub has and the core has a place for: a core is all that is left later.
    fn ask_system_registers(&mut self, stop: &mut Stop) -> Result<(), Error> {
        let Some((remote, frames)) = self.remote_mut().zip(stop.frames) else { return Ok(()) };
        let [cpu] = stop.cpus.as_mut_slice() else { return Ok(()) };
        let asked = stub::ask(remote.client_mut(), frames.endian, cpu, &frames.architecture.system_registers());
        asked.map_err(Error::from)
    }

    /// The auxiliary vector, by which a debugger moves a position-independent program to where it was loaded: that of the
    /// process, or where it has none, or the program was said to be elsewhere, its entry point alone.
    fn auxv(&mut self, endian: Endian, width: Width) -> Result<Option<Vec<u8>>, Error> {
        let whole = match self.remote_mut() {
            Some(remote) => remote.client_mut().auxv()?,
            None => self.info.core.auxv().map(<[u8]>::to_vec),
        };
        let moved = self.elf().filter(|elf| elf.kind() == ElfKind::Dyn && !self.load_offset().how.is_empty());
        let Some(elf) = moved else { return Ok(whole) };
        let entry = width.moved(elf.entry(), self.load_offset().value);
        let pairs = |vector: &[u8]| {
            let pair = |pair: &[u8]| endian.word(width, pair, 0).zip(endian.word(width, pair, width.bytes()));
            vector.chunks_exact(width.bytes() << 1).filter_map(pair).any(|pair| pair == (AT_ENTRY, entry))
        };
        if whole.as_deref().is_some_and(pairs) {
            return Ok(whole);
        }
        // It ends with a pair of zeros.
        let words = [AT_ENTRY, entry, 0, 0].into_iter();
        Ok(Some(words.flat_map(|word| endian.bytes(width, word)).collect()))
    }

    /// `.data`, `.bss` and whatever else the program writes; without the program, the kernel's variables.
    fn collect_program(&self, wanted: &mut Wanted) {
        let Some(elf) = self.elf() else {
            let symbols = self.known_symbols(None);
            let word = |(s, function): &(Symbol, bool)| {
                (!function).then_some(Region { start: s.address, len: s.size.clamp(8, 4096) })
            };
            wanted.add_if_there(symbols.iter().filter_map(word));
            return;
        };
        let load = self.load_offset().value;
        let writable =
            elf.sections().filter(|s| s.flags & (SHF_ALLOC | SHF_WRITE) == SHF_ALLOC | SHF_WRITE && s.size > 0);
        let region = |s: crate::elf::Section| Region { start: elf.width().moved(s.addr, load), len: s.size };
        wanted.add(".data and .bss", writable.map(region));
        for name in kernel::CONSTANTS.into_iter().chain(of_formats()) {
            wanted.add_if_there(
                elf.symbol(name)
                    .map(|s| Region { start: elf.width().moved(s.address, load), len: s.size.clamp(4, 256) }),
            );
        }
    }

    /// What the source itself says that there is: a stub's RAM, or all that a file holds.
    fn collect_source(&mut self, wanted: &mut Wanted, issues: &mut Vec<Issue>) -> Result<(), Error> {
        if let Some(remote) = self.remote_mut() {
            let map = remote.client_mut().memory_map();
            let map = map?.unwrap_or_default();
            for region in map.iter().filter(|r| r.kind == MapKind::Ram) {
                let region = Region { start: region.start, len: region.len };
                if region.len <= LARGEST_RAM {
                    wanted.add("RAM", [region]);
                } else {
                    issues.push(left_out(format!(
                        "the stub says that {} is RAM, which is not plausible: it is not in the core (--range ADDR..ADDR adds parts of it)",
                        region
                    )));
                }
            }
            return Ok(());
        }
        let there = self.memory.memory().written().unwrap_or_default();
        let total: u128 = there.iter().map(|r| u128::from(r.len)).sum();
        if total <= LARGEST_SOURCE {
            wanted.add("memory", there);
        } else {
            issues.push(left_out(format!(
                "the source holds {total} bytes of memory: only what belongs to the trace and the kernel is in the core (--range ADDR..ADDR puts more in)"
            )));
        }
        Ok(())
    }

    /// The symbols that are to be known without the program: the kernel's, and those of what is in memory.
    fn known_symbols(&self, kernel: Option<&Kernel>) -> Vec<(Symbol, bool)> {
        let load = self.load_offset().value;
        let mut all: Vec<(Symbol, bool)> = Vec::new();
        if let Some(elf) = self.elf() {
            let of = |s: crate::elf::ElfSymbol| {
                let address = elf.width().moved(s.address, load);
                (Symbol { name: s.name, address, size: s.size }, s.kind == SymbolKind::Function)
            };
            all.extend(elf.symbols_with_prefix(kernel::PREFIX).into_iter().map(of));
            all.extend(elf.symbol("SystemCoreClock").into_iter().map(of));
            all.extend(of_formats().filter_map(|name| elf.symbol(name)).map(of));
        } else if let Some(notes) = &self.info.notes {
            all.extend(notes.all().iter().cloned());
        }
        let typed =
            self.info.pairs.iter().map(|(name, address)| Symbol { name: name.clone(), address: *address, size: 0 });
        all.extend(typed.map(|s| (s, false)));
        let Some(kernel) = kernel else { return all };
        let machine = self.elf().map(|e| e.machine()).or(kernel.processor.map(|p| p.machine()));
        // On ARM bit 0 of a pointer to a function is set for Thumb code.
        let thumb = !u64::from(machine == Some(Machine::ARM));
        let symbols = &self.info.symbols;
        all.extend(kernel.code().into_iter().filter_map(|at| Some((symbols.function(at & thumb)?, true))));
        all.extend(kernel.blocks().filter_map(|at| Some((symbols.variable(at)?, false))));
        all.sort_by(|(a, _), (b, _)| (a.address, &a.name).cmp(&(b.address, &b.name)));
        all.dedup();
        all
    }

    fn core_file(&self, parts: &Parts<'_>, issues: &mut Vec<Issue>) -> CoreFile {
        let architecture = parts.kernel.and_then(|k| k.processor).or(parts.stop.frames.map(|f| f.architecture));
        let machine =
            self.elf().map(|e| e.machine()).or(self.info.core.machine()).or(architecture.map(|a| a.machine()));
        if machine.is_none() {
            issues.push(left_out("the processor is not known: debuggers will not open the core".to_owned()));
        }
        let mut notes = Vec::new();
        let mut lwps = 1u32..;
        let mut status = |registers: &Registers| {
            let lwp = lwps.next().unwrap_or_default();
            let signal = if lwp == 1 { SIGTRAP } else { 0 };
            let number = registers.lwp().unwrap_or(lwp);
            let tls = cpu::to_tls(registers, parts.endian).map(|note| ("LINUX", NT_386_TLS, note));
            let own = ("CORE", NT_PRSTATUS, cpu::to_prstatus(registers, parts.endian, number, signal));
            std::iter::once(own).chain(tls).collect::<Vec<_>>()
        };
        // A debugger begins with the first.
        let crash = parts.crash();
        notes.extend(crash.into_iter().map(|place| &place.registers).flat_map(&mut status));
        notes.extend(parts.stop.cpus.iter().flat_map(&mut status));
        let crashed = parts.crashed().filter(|_| crash.is_some_and(|place| place.in_exception().is_none()));
        let threads = parts.kernel.into_iter().flat_map(|k| &k.threads).filter(|t| Some(t.address) != crashed);
        let of_stop = |r: &Registers| parts.stop.cpus.contains(r);
        let placed = threads.filter_map(|t| t.position.registers.as_ref()).filter(|r| !of_stop(r));
        notes.extend(placed.flat_map(&mut status));
        notes.extend(parts.auxv.clone().map(|vector| ("CORE", NT_AUXV, vector)));
        if let Some(architecture) = architecture {
            notes.extend(architecture.description().map(|xml| ("GDB", 0xFF00_0000, xml)));
        }
        notes.push((
            evidence_notes::OWNER,
            evidence_notes::FACTS,
            evidence_notes::facts(&self.facts(parts, architecture)),
        ));
        notes.push((
            evidence_notes::OWNER,
            evidence_notes::SYMBOLS,
            evidence_notes::symbols(&self.known_symbols(parts.kernel)),
        ));
        // An inferred layout is left out: as debug information it would be read back as certain.
        let certain = parts.kernel.filter(|k| !k.layout.is_inferred());
        let members = certain.map(|k| k.layout.members()).unwrap_or_default();
        let exceptions = (0..=255).filter_map(|n| Some((n, self.info.symbols.exception(n)?)));
        let exceptions: Vec<(u32, String)> = exceptions.collect();
        notes.push((evidence_notes::OWNER, evidence_notes::MEMBERS, evidence_notes::members(&members, &exceptions)));
        if !parts.events.is_empty() {
            notes.push((evidence_notes::OWNER, evidence_notes::EVENTS, evidence_notes::events(parts.events)));
        }
        let elf = self.elf();
        CoreFile {
            width: parts.width,
            endian: parts.endian,
            machine: machine.unwrap_or(Machine(0)),
            flags: self.flags().unwrap_or(0),
            osabi: elf.map_or(0, |e| e.osabi()),
            notes,
        }
    }

    fn facts(&self, parts: &Parts<'_>, architecture: Option<cpu::Architecture>) -> Vec<(&'static str, String)> {
        let mut facts = vec![("source", self.info.name.clone())];
        if let Some(elf) = self.elf() {
            facts.push(("elf", elf.describe()));
            facts.extend(elf.build_id().map(|id| ("build id", hex(&id))));
            facts.push(("elf sha256", hex(&Sha256::digest(elf.bytes().as_slice()))));
            facts.push(("entry", format!("{:#x}", elf.entry())));
            facts.push(("load offset", format!("{:#x}", self.load_offset().value)));
        } else if let Some(notes) = &self.info.notes {
            for key in ["elf", "build id", "elf sha256", "entry", "load offset"] {
                facts.extend(notes.fact(key).map(|value| (key, value.to_owned())));
            }
        }
        facts.extend(architecture.map(|a| ("processor", a.name().to_owned())));
        facts.push(("cpus", parts.stop.cpus.len().to_string()));
        facts.extend(parts.crash().map(|_| ("notes before the cpus", "1".to_owned())));
        let system = parts.stop.cpus.first().map(system_registers).unwrap_or_default();
        facts.extend((!system.is_empty()).then_some(("system registers", system)));
        if let Some(frames) = &parts.stop.frames {
            facts.extend(frames.floats.map(|floats| ("frames with floats", floats.to_string())));
            facts.push(("frames of the small instruction set", frames.baseline.to_string()));
        }
        facts.extend(Some(parts.stop.code.to_text()).filter(|text| !text.is_empty()).map(|text| ("code", text)));
        facts.extend(parts.header.map(|at| ("trace header", format!("{at:#x}"))));
        facts
    }
}

/// What a core's notes have no place for: `msp=0x20007f58 psp=0x20002f00`. An exception that was inferred is not known from there.
fn system_registers(cpu: &Registers) -> String {
    let system = cpu.architecture().system_registers();
    let is_shown = |name: &&&str| **name != "ipsr" || !cpu.has_inferred_exception();
    let known = system.iter().filter(is_shown).filter_map(|name| Some(format!("{name}={:#x}", cpu.get(name)?)));
    known.collect::<Vec<_>>().join(" ")
}

/// Constants that the formats of traces read.
fn of_formats() -> impl Iterator<Item = &'static str> {
    format::ALL.iter().flat_map(|format| format.constants()).copied()
}

fn left_out(message: String) -> Issue {
    Issue::new(Code::CoreLeftOut, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Architecture;

    /// From an evidence core of a core of QEMU, the exception was known for certain.
    #[test]
    fn an_exception_that_was_inferred_was_certain_in_an_evidence_core() {
        let mut cpu = Registers::new(Architecture::CortexM);
        assert!(cpu.set("lr", 0xFFFF_FFFD) && cpu.set("psp", 0x2000_2F00));
        cpu.infer_exception(&[(3, 0x101)], 0x100);
        assert!(cpu.has_inferred_exception());
        assert_eq!(system_registers(&cpu), "psp=0x20002f00");
        assert!(cpu.set("ipsr", 3));
        assert!(system_registers(&cpu).contains("ipsr=0x3"), "one that was read");
    }
}
