//! What the CPUs do, and what is at the addresses that matter for it.

use std::collections::BTreeMap;
use std::iter::repeat;

use super::address;
use crate::abi::{Addr, Region, join};
use crate::cpu::{Effect, Fault, Level, Size};
use crate::error::Error;
use crate::kernel::{CalledFrom, Kernel, State, Thread, Under};
use crate::mem::Memory;
use crate::session::{CpuState, Function, Place, Target, is_of_kernel};
use crate::unwind::{Backtrace, Origin};

/// The handler that a kernel built with stack checking calls where a stack was used beyond its end.
const STACK_HANDLER: &str = "_tx_thread_stack_error_handler";
/// The variable that holds the application's handler for it.
const STACK_NOTIFY: &str = "_tx_thread_application_stack_error_handler";
/// The most threads whose stacks are unwound.
const MOST_CALLS: usize = 256;

/// The CPUs of one stop.
#[derive(Debug, Clone, Default)]
pub struct Cpus {
    /// One for each CPU whose registers are known.
    pub all: Vec<CpuState>,
    /// Where the thread that runs may be, by what interrupts left on its stack at these addresses, where no register is known.
    pub(super) left: Vec<(Addr, CpuState)>,
    /// Functions that run where a stack was used beyond its end.
    pub(super) stack_handlers: Vec<Region>,
    /// Of threads that do not run: the application's function that called the kernel.
    calls: BTreeMap<Addr, CalledFrom>,
    /// And the functions that called it, the innermost first.
    outer: BTreeMap<Addr, Vec<CalledFrom>>,
    /// Of those of them whose callers are all known: where they go on once a call has returned, the innermost first.
    callers: BTreeMap<Addr, Vec<Addr>>,
    /// Of threads that do not run, the program counters of their functions, the innermost first, as far as they are known.
    frames: BTreeMap<Addr, Vec<Addr>>,
    /// What is at addresses that matter, in words.
    names: BTreeMap<Addr, String>,
    /// What is at addresses of code and constants that were accessed, in words.
    constants: BTreeMap<Addr, String>,
    /// What the source holds of memory, where it can say so.
    regions: Option<Vec<Region>>,
    /// The same, without the memory that is there a second time.
    own: Option<Vec<Region>>,
    /// What the program does not write: its code and its constants.
    read_only: Vec<Region>,
    /// What it writes, by its sections.
    writable: Vec<Region>,
    /// The program's code.
    pub(super) code: Vec<Region>,
    /// True for a program of the small instruction set.
    is_baseline: bool,
}

impl Cpus {
    /// Reads it. `kernel`: what was read of this target before, where its kernel could be read.
    ///
    /// # Errors
    /// Where the link fails, or a register that was typed does not exist.
    pub fn read(target: &mut Target<'_>, kernel: Option<&Kernel>) -> Result<Self, Error> {
        let all = target.cpu_states(kernel)?;
        let unknown = all.iter().filter(|cpu| cpu.registers.level() == Level::Unknown);
        let places =
            unknown.flat_map(|cpu| cpu.interrupted.iter().flat_map(move |found| found.all.iter().zip(repeat(cpu))));
        let in_thread = places.filter(|(place, _)| place.within.is_none() && !place.is_outside_code);
        let left = in_thread.map(|(place, cpu)| (place.frame, target.cpu_left_at(place, cpu))).collect();
        let (memory, symbols) = target.parts();
        let regions = memory.regions();
        let width = kernel.map_or(4, |kernel| kernel.layout.shape.pointer.bytes());
        let endian = kernel.map(|kernel| kernel.layout.shape.endian);
        let notify = symbols.lookup(STACK_NOTIFY).and_then(|variable| {
            let bytes = memory.read_bytes(variable.address, width).ok()?;
            endian?.word(kernel?.layout.shape.pointer, &bytes, 0)
        });
        let own = symbols.lookup(STACK_HANDLER);
        let notify = notify.filter(|at| *at != 0).and_then(|at| symbols.function(at & !1));
        let region = |start: Addr, len: u64| Region { start: start & !1, len: len.max(2) };
        let stack_handlers = own.into_iter().chain(notify).map(|symbol| region(symbol.address, symbol.size)).collect();
        let mut names = BTreeMap::new();
        for (cpu, at) in all.iter().flat_map(|cpu| addresses(cpu).into_iter().map(move |at| (cpu, at))) {
            let architecture = cpu.registers.architecture();
            let said = address::what(at, symbols, kernel, regions.as_deref(), architecture);
            names.extend(said.map(|said| (at, said)));
        }
        let Callers { calls, outer, callers, frames } = kernel.map(|kernel| calls(kernel, target)).unwrap_or_default();
        let (read_only, writable, code) = (target.read_only(), target.written(), target.code());
        let sections: Vec<Region> = code.iter().chain(&writable).copied().collect();
        let own = regions.as_ref().map(|regions| without_mirrors(target.parts().0, regions, &sections));
        let constants = constants(&all, &read_only, &mut names, target);
        Ok(Self {
            all,
            left,
            constants,
            read_only,
            writable,
            code,
            own,
            stack_handlers,
            calls,
            outer,
            callers,
            frames,
            names,
            regions,
            is_baseline: target.is_baseline(),
        })
    }

    /// Keeps what registers alone show: the functions, lines and code of an ELF of another build are wrong.
    #[must_use]
    pub fn without_program(mut self) -> Self {
        for cpu in &mut self.all {
            cpu.functions.clear();
            (cpu.effect, cpu.in_loop, cpu.polling, cpu.failed) = (None, None, None, None);
            cpu.is_outside_code = false;
            cpu.exception.iter_mut().for_each(without_handler);
            if let Some(found) = &mut cpu.interrupted {
                without_handler(&mut found.by);
                for place in &mut found.all {
                    place.functions.clear();
                    (place.effect, place.is_outside_code) = (None, false);
                    place.within.iter_mut().for_each(without_handler);
                }
            }
        }
        Self { all: self.all, regions: self.regions, own: self.own, is_baseline: self.is_baseline, ..Self::default() }
    }

    /// Of a source that has this memory.
    #[cfg(test)]
    pub(super) fn over(regions: Vec<Region>) -> Self {
        Self { own: Some(regions.clone()), regions: Some(regions), ..Self::default() }
    }

    /// What is at an address, in words; `None` where nothing is known of it.
    pub(super) fn at(&self, address: Addr) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
    }

    /// What is at an address of code or a constant that was accessed: `in .rodata: the text "CET"`. Hostile text.
    pub(super) fn constant(&self, address: Addr) -> Option<&str> {
        self.constants.get(&address).map(String::as_str)
    }

    /// The application's function from which a thread called the kernel, where its stack could be unwound.
    pub(super) fn call(&self, thread: Addr) -> Option<&CalledFrom> {
        self.calls.get(&thread)
    }

    /// The functions through which the application came to the one from which a thread called the kernel, the innermost first.
    pub(super) fn outer(&self, thread: Addr) -> &[CalledFrom] {
        self.outer.get(&thread).map(Vec::as_slice).unwrap_or_default()
    }

    /// The return addresses on the stack of a thread that waits, sleeps or is suspended, the innermost first; `None` where not all
    /// of them are known for certain.
    pub(super) fn callers(&self, thread: Addr) -> Option<&[Addr]> {
        self.callers.get(&thread).map(Vec::as_slice)
    }

    /// The program counters of the functions of a thread that does not run, the innermost first: return addresses, but for the first of
    /// one that was interrupted.
    pub(super) fn frames(&self, thread: Addr) -> Option<&[Addr]> {
        self.frames.get(&thread).map(Vec::as_slice)
    }

    /// True for an access that is refused as it is not aligned: of several registers, and of those of the FPU, on each Cortex-M, of 2
    /// and 4 bytes on those with the small instruction set alone (Armv7-M Architecture Reference Manual, A3.2.1; Armv6-M, A3.2).
    pub(super) fn refuses(&self, at: Addr, size: Size) -> bool {
        let multiple = match size.bytes {
            _ if size.is_aligned => 4,
            bytes @ (2 | 4) if self.is_baseline => bytes,
            _ => 1,
        };
        !at.is_multiple_of(multiple.into())
    }

    /// True for an address at which the program's file has code or constants.
    pub(super) fn is_read_only(&self, address: Addr) -> bool {
        self.read_only.iter().any(|region| region.contains(address))
    }

    /// True for memory of a section that the program writes.
    pub(super) fn writes(&self, memory: Region) -> bool {
        self.writable.iter().any(|section| memory.is_within(*section))
    }

    /// What the program does not write, and is not beside its code.
    pub(super) fn constants(&self) -> Vec<Region> {
        let is_code = |region: &&Region| self.code.iter().any(|code| code.overlaps(**region));
        self.read_only.iter().filter(|region| !is_code(region)).copied().collect()
    }

    /// The memory that the program may write: its sections, and what else the source has that is neither code nor constant. Parts
    /// overlap where the source has sections as well. `None` where sections are not known.
    pub(super) fn written(&self) -> Option<Vec<Region>> {
        let others = without(self.regions()?, &self.read_only);
        (!self.writable.is_empty()).then(|| self.writable.iter().copied().chain(others).collect())
    }

    /// The memory that the source has, without what is there a second time; `None` where it cannot say so.
    pub(super) fn regions(&self) -> Option<&[Region]> {
        self.own.as_deref()
    }

    /// True where the source has memory there; `None` where it cannot say so.
    pub(super) fn has(&self, address: Addr) -> Option<bool> {
        self.regions.as_ref().map(|all| all.iter().any(|region| region.contains(address)))
    }
}

/// The shortest half of a region that is compared with the other one, and the most bytes that are compared in all.
const HALF: u64 = 16 << 10;
const MOST_COMPARED: u64 = 256 << 20;
/// How much is compared at a time.
const PIECE: usize = 16 << 10;

/// Regions without their second halves where these hold what the first ones do: boards of QEMU, and some chips, have the same memory at
/// two addresses, one behind the other. What has sections of the program is no mirror.
fn without_mirrors(memory: &mut dyn Memory, regions: &[Region], sections: &[Region]) -> Vec<Region> {
    let mut left = MOST_COMPARED;
    let mut own = |mut region: Region| {
        loop {
            let half = region.len / 2;
            let second = Region { start: region.start.saturating_add(half), len: half };
            let has_section = sections.iter().any(|section| second.contains(section.start));
            let may_be = region.len.is_multiple_of(2) && half >= HALF && half <= left && !has_section;
            if !may_be {
                return region;
            }
            left = left.saturating_sub(half);
            if !are_equal(memory, region.start, second) {
                return region;
            }
            region.len = half;
        }
    };
    regions.iter().map(|region| own(*region)).collect()
}

/// True where a region holds what is at another address.
fn are_equal(memory: &mut dyn Memory, first: Addr, second: Region) -> bool {
    let mut bytes = [vec![0; PIECE], vec![0; PIECE]];
    (0..second.len).step_by(PIECE).all(|into| {
        let len = usize::try_from(second.len.saturating_sub(into)).map_or(PIECE, |len| len.min(PIECE));
        let [one, other] = &mut bytes;
        let (Some(one), Some(other)) = (one.get_mut(..len), other.get_mut(..len)) else { return false };
        let mut read =
            |start: Addr, to: &mut [u8]| start.checked_add(into).is_some_and(|at| memory.read(at, to).is_ok());
        read(first, one) && read(second.start, other) && one == other
    })
}

/// The parts of regions that none of others covers. A hostile file may have very many of both.
fn without(regions: &[Region], others: &[Region]) -> Vec<Region> {
    let end = |region: &Region| region.start.saturating_add(region.len);
    let mut spans: Vec<(Addr, Addr)> =
        others.iter().filter(|other| other.len > 0).map(|other| (other.start, end(other).saturating_sub(1))).collect();
    spans.sort_unstable();
    let spans = join(spans);
    let of = |region: &Region| {
        let first = spans.partition_point(|(_, last)| *last < region.start);
        let covering = spans.get(first..).unwrap_or_default().iter().take_while(|(start, _)| *start < end(region));
        let (mut at, mut parts) = (region.start, Vec::new());
        for (start, last) in covering {
            parts.push(Region { start: at, len: start.saturating_sub(at) });
            at = last.saturating_add(1);
        }
        parts.push(Region { start: at, len: end(region).saturating_sub(at) });
        parts.retain(|part| part.len > 0);
        parts
    };
    regions.iter().flat_map(of).collect()
}

/// What is at the addresses of code and constants that were accessed.
fn constants(
    all: &[CpuState],
    read_only: &[Region],
    names: &mut BTreeMap<Addr, String>,
    target: &mut Target<'_>,
) -> BTreeMap<Addr, String> {
    let is_constant = |at: &Addr| *at >= address::NULL && read_only.iter().any(|region| region.contains(*at));
    let accessed = all.iter().flat_map(accessed).filter(is_constant);
    let mut constants = BTreeMap::new();
    for at in accessed {
        let section = target.read_only_section(at);
        let (memory, symbols) = target.parts();
        if symbols.variable(at).is_none() && !address::is_within_function(at, symbols) {
            names.remove(&at);
        }
        constants.extend(address::constant(at, section.as_deref(), symbols, memory).map(|said| (at, said)));
    }
    constants
}

/// The addresses of data that a CPU accessed.
fn accessed(cpu: &CpuState) -> Vec<Addr> {
    let places = cpu.interrupted.iter().flat_map(|found| &found.all);
    let effects = places.map(|place| place.effect).chain([cpu.effect]);
    let effects = effects.filter_map(|effect| match effect? {
        effect @ (Effect::Read(..) | Effect::Write(..)) => effect.address(),
        _ => None,
    });
    let read = cpu.registers.fault().and_then(|fault| fault.address).map(|(at, _)| at);
    effects.chain(read).collect()
}

/// The callers of threads that do not run.
#[derive(Default)]
struct Callers {
    calls: BTreeMap<Addr, CalledFrom>,
    outer: BTreeMap<Addr, Vec<CalledFrom>>,
    callers: BTreeMap<Addr, Vec<Addr>>,
    frames: BTreeMap<Addr, Vec<Addr>>,
}

/// From where the threads that do not run called the kernel, and all of their callers.
fn calls(kernel: &Kernel, target: &mut Target<'_>) -> Callers {
    // The stack of a thread that has completed is old. That of one that was terminated is as it was then.
    let is_alive =
        |thread: &&Thread| thread.core.is_none() && thread.state.is_some_and(|state| state != State::COMPLETED);
    let kernel = &kernel.with_terminated();
    let threads: Vec<&Thread> = kernel.in_order().filter(is_alive).take(MOST_CALLS).collect();
    if threads.is_empty() || !target.has_unwind_information() {
        return Callers::default();
    }
    let unwound = target.unwind(kernel, &threads);
    let (functions, symbols) = (target.functions(kernel, &unwound), target.symbols());
    let call = |function: &Function| {
        let name = function.name.clone().filter(|_| !function.is_inferred())?;
        Some(CalledFrom { pc: function.pc, function: name, file: function.file.clone(), line: function.line })
    };
    // One that is ready may have been interrupted anywhere, and one that was terminated may have been ready.
    let is_in_kernel = |backtrace: &Backtrace| {
        let function = backtrace.frames.first().and_then(|frame| symbols.function(frame.pc & !1));
        function.is_some_and(|function| is_of_kernel(&function.name))
    };
    let is_in_call = |at: &Addr, backtrace: &Backtrace| match kernel.thread(*at).and_then(|thread| thread.state) {
        Some(State::READY) => false,
        Some(State::TERMINATED) => is_in_kernel(backtrace),
        state => state.is_some(),
    };
    let pcs = |backtrace: &Backtrace| backtrace.frames.iter().map(|frame| frame.pc).collect::<Vec<_>>();
    let sure = |backtrace: &Backtrace| {
        let sure = backtrace.frames.iter().take_while(|frame| frame.origin != Origin::Found);
        sure.map(|frame| frame.pc).collect::<Vec<_>>()
    };
    let all = || unwound.threads.iter().zip(&unwound.backtraces);
    let frames = all().map(|(thread, backtrace)| (*thread, sure(backtrace))).collect();
    let whole = all().filter(|(thread, backtrace)| backtrace.is_complete() && is_in_call(thread, backtrace));
    let callers = whole.map(|(thread, backtrace)| (*thread, pcs(backtrace))).collect();
    let (mut calls, mut outer) = (BTreeMap::new(), BTreeMap::new());
    let in_call = all().map(|(thread, backtrace)| is_in_call(thread, backtrace));
    let named = unwound.threads.iter().zip(functions.called_from).zip(&functions.all).zip(in_call);
    for ((thread, function), all) in named.filter(|(_, in_call)| *in_call).map(|(named, _)| named) {
        let Some(from) = function.as_ref().and_then(call) else { continue };
        let entry = kernel.thread(*thread).and_then(|thread| symbols.function(thread.entry? & !1));
        let entry = entry.map(|entry| Region { start: entry.address & !1, len: entry.size });
        // Behind it is the kernel.
        let is_entry = |one: &&Function| entry.is_some_and(|entry| entry.contains(one.pc.saturating_sub(1)));
        let from_here = all.iter().skip_while(|one| Some(*one) != function.as_ref());
        let end = from_here.clone().position(|one| is_entry(&one)).unwrap_or(usize::MAX);
        outer.insert(*thread, from_here.take(end.saturating_add(1)).skip(1).map_while(call).collect());
        calls.insert(*thread, from);
    }
    Callers { calls, outer, callers, frames }
}

/// The number of an interrupt without the name of its handler, which the program's vector table gives.
fn without_handler(exception: &mut String) {
    if exception.contains("IRQ")
        && let Some(end) = exception.find(" (")
    {
        exception.truncate(end);
    }
}

/// The addresses of a CPU that have to be named.
fn addresses(cpu: &CpuState) -> Vec<Addr> {
    let places = cpu.interrupted.iter().flat_map(|found| &found.all);
    let effect = |effect: Option<Effect>| match effect? {
        Effect::Jump(at) => Some(at & !1),
        Effect::Lower(_) => None,
        effect => effect.address(),
    };
    let of_places = places.flat_map(|place| [effect(place.effect), place.registers.pc(), place.registers.sp()]);
    let own = [
        cpu.registers.fault().and_then(|fault: Fault| fault.address).map(|(at, _)| at),
        effect(cpu.effect),
        cpu.registers.pc(),
        cpu.registers.get("psp"),
        cpu.failed.as_ref().map(|failed| failed.function.pc),
        effect(cpu.failed.as_ref().and_then(|failed| failed.effect)),
    ];
    own.into_iter().chain(of_places).flatten().collect()
}

/// The thread that runs below the exceptions of a CPU.
pub(super) fn thread_of<'k>(cpu: &CpuState, kernel: Option<&'k Kernel>) -> Option<&'k Thread> {
    match cpu.under? {
        Under::Thread(at) => kernel?.thread(at),
        _ => None,
    }
}

/// The place that an exception interrupted, the most likely one.
pub(super) fn first_place(cpu: &CpuState) -> Option<&Place> {
    cpu.interrupted.as_ref()?.all.first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::segments::{Block, Segments};

    /// Of the cores of QEMU's boards, in which RAM follows itself, a frame was a copy that a handler had saved.
    #[test]
    fn memory_that_follows_itself_was_looked_at_twice() {
        let region = |start, len| Region { start, len };
        let bytes: Vec<u8> = (0..1 << 16).map(|n: u32| (n ^ n >> 8) as u8).collect();
        let block = |start: u64, bytes: &[u8]| Block::whole(start, bytes.to_vec().into());
        let mut memory = Segments::new(vec![block(0x2000_0000, &bytes), block(0x2001_0000, &bytes)]);
        let both = [region(0x2000_0000, 1 << 17)];
        assert_eq!(without_mirrors(&mut memory, &both, &[]), [region(0x2000_0000, 1 << 16)]);
        assert_eq!(
            without_mirrors(&mut memory, &both, &[region(0x2001_8000, 4)]),
            both,
            "with a section of the program"
        );
        let others: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        let mut memory = Segments::new(vec![block(0x2000_0000, &bytes), block(0x2001_0000, &others)]);
        assert_eq!(without_mirrors(&mut memory, &both, &[]), both);
        assert_eq!(without_mirrors(&mut memory, &[region(0x3000_0000, 1 << 17)], &[]).len(), 1, "no memory is there");
    }

    /// A dump of all RAM, with code in it, was left out: no pointer to a block was left anywhere.
    #[test]
    fn memory_beside_code_was_not_searched() {
        let region = |start, len| Region { start, len };
        let ram = region(0x1000, 0x1000);
        let of = |others: &[Region]| without(&[ram], others);
        assert_eq!(of(&[region(0x1000, 0x400)]), [region(0x1400, 0xC00)]);
        assert_eq!(of(&[region(0x1400, 0x400)]), [region(0x1000, 0x400), region(0x1800, 0x800)]);
        assert_eq!(of(&[region(0x1F00, 0x400), region(0x1400, 0x100), region(0x1480, 0x80)]).len(), 2, "in any order");
        assert_eq!(of(&[region(0, 0x8000)]), []);
        assert_eq!(of(&[region(0x4000, 0x100), region(0x1400, 0)]), [ram]);
        let many: Vec<Region> = (0..1 << 18).map(|n| region(n << 8, 16)).collect();
        assert_eq!(without(&many, &many), [], "a file with very many parts");
    }
}
