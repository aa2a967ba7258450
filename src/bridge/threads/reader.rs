//! What a stopped target shows: its CPUs through the stub, its threads through the kernel's memory.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::guard::{Allowed, Guarded};
use super::look::{Begun, Forget, Listing, Look, Stopped};
use crate::abi::Addr;
use crate::cpu::{self, CodeRanges, Frames, Registers};
use crate::debugger::{ListedThread, ThreadList, runs_on, while_it_stops, without_kernel};
use crate::kernel::{Kernel, Root, Stop};
use crate::mem::cache::Cache;
use crate::mem::remote::Remote;
use crate::mem::{Memory as _, Region};
use crate::rsp::client::{Described, MapRegion};
use crate::rsp::thread_id;
use crate::session::TargetInfo;

/// A number that is larger is no CPU's: it is a process, or the address of a control block.
const LARGEST_CPU: usize = 0xFFF;
/// Code is read in pieces of so many bytes, and the most pieces that are kept at a stop.
const CODE_PIECE: u64 = 128;
const PIECE_START: Addr = !0x7F;
const MAX_CODE: usize = 512;
/// The most CPUs of a target.
const MAX_CPUS: usize = 64;
/// Bytes that are read at a saved stack pointer: the frames of most processors are smaller.
const FRAME: u64 = 288;

/// What is known of the program. It does not change in a session.
pub struct Program {
    info: TargetInfo,
    frames: Frames,
    code: CodeRanges,
    /// What may be read besides, in the user's own words.
    ranges: Vec<Region>,
}

impl Program {
    /// `None` where the processor is not known, or how its threads save their registers.
    pub fn new(info: TargetInfo, ranges: Vec<Region>) -> Option<Self> {
        let (frames, code) = info.frames()?;
        Some(Self { info, frames, code, ranges })
    }
}

/// What was seen of the target in this session.
#[derive(Default)]
pub struct Seen {
    cpus: Vec<String>,
    allowed: Option<Allowed>,
    description: Vec<Described>,
    /// The stub's `g` of each CPU at this stop.
    registers: Vec<Option<Vec<Option<u8>>>>,
    /// The threads at this stop.
    list: Option<Rc<Listing>>,
    /// Those of the last stop at which they were read.
    last: Option<Rc<Listing>>,
    /// The kernel as it was then.
    kernel: Option<Kernel>,
    /// What was read then.
    ranges: Vec<(Addr, usize)>,
    /// The CPU that the stub's packets are about.
    selected: Option<usize>,
    /// Code that was read at this stop, by the address of each piece; those that cannot be read are empty.
    code: BTreeMap<Addr, Vec<u8>>,
}

/// Reads a stopped target through the stub.
pub struct Reader<'a> {
    pub program: &'a mut Program,
    pub seen: &'a mut Seen,
    pub remote: &'a mut Remote,
}

impl Look for Reader<'_> {
    fn begin(&mut self) -> Begun {
        // The link's errors come back with the next packet of the debugger.
        let listed = self.remote.client_mut().thread_ids().unwrap_or_default();
        let number = |id: &String| thread_id::plain(id).unwrap_or(0);
        // Before all else: threads may be shown in place of those of the stub.
        if self.seen.allowed.is_none() {
            self.program.info = self.program.info.clone().at_stub(self.remote);
            if let Some((frames, code)) = self.program.info.frames() {
                (self.program.frames, self.program.code) = (frames, code);
            }
            self.seen.description = self.remote.client_mut().description().unwrap_or_default();
            let map = self.remote.client_mut().memory_map().ok().flatten().unwrap_or_default();
            let region = |region: &MapRegion| Region { start: region.start, len: region.len };
            let map: Vec<Region> = map.iter().map(region).collect();
            let Program { info, frames, ranges, .. } = &*self.program;
            self.seen.allowed = Some(Allowed::new(frames.architecture, &info.sections(), &map, ranges));
        }
        if listed.len() > MAX_CPUS || listed.iter().any(|id| number(id) > LARGEST_CPU) {
            return Begun::Threads;
        }
        self.seen.cpus = listed.into_iter().filter(|id| number(id) != 0).collect();
        Begun::Cpus(self.seen.cpus.clone())
    }

    fn stopped(&mut self, cpu: usize) -> Stopped {
        let registers = self.cpu(cpu);
        let pc = registers.as_ref().and_then(Registers::pc);
        let quick = registers.and_then(|registers| self.quick(cpu, &registers));
        let id = quick.unwrap_or_else(|| {
            let list = self.list();
            let own = list.threads.threads().iter().find(|thread| thread.cpu == Some(cpu));
            own.map_or_else(|| list.threads.stopped(), |thread| thread.id)
        });
        Stopped { id, pc }
    }

    fn list(&mut self) -> Rc<Listing> {
        if let Some(list) = &self.seen.list {
            return Rc::clone(list);
        }
        let list = Rc::new(self.read());
        self.seen.list = Some(Rc::clone(&list));
        self.seen.last = Some(Rc::clone(&list));
        list
    }

    fn remark(&self) -> Option<String> {
        self.seen.last.as_ref().and_then(|list| list.remark.clone())
    }

    fn registers(&mut self, cpu: usize) -> Option<Vec<Option<u8>>> {
        if let Some(Some(known)) = self.seen.registers.get(cpu) {
            return Some(known.clone());
        }
        self.select(cpu);
        let bytes = self.remote.client_mut().registers().ok().flatten()?;
        if self.seen.registers.len() <= cpu && cpu < MAX_CPUS {
            self.seen.registers.resize(cpu.saturating_add(1), None);
        }
        if let Some(slot) = self.seen.registers.get_mut(cpu) {
            *slot = Some(bytes.clone());
        }
        Some(bytes)
    }

    fn saved(&mut self, thread: &ListedThread) -> Option<Vec<Option<u8>>> {
        let cpu = self.registers(0)?;
        let Frames { architecture, endian, .. } = self.program.frames;
        let none = Registers::new(architecture);
        Some(cpu::to_stub(thread.registers().unwrap_or(&none), endian, &cpu))
    }

    fn described(&mut self, number: u32) -> Option<(String, usize)> {
        let register = self.seen.description.iter().find(|register| register.number == number && register.bits >= 8)?;
        // GDB's largest register has 2048 bits.
        Some((register.name.clone(), usize::try_from(register.bits.min(4096) / 8).ok()?))
    }

    fn select(&mut self, cpu: usize) {
        if self.seen.cpus.len() < 2 || self.seen.selected == Some(cpu) {
            return;
        }
        let Some(id) = self.seen.cpus.get(cpu).cloned() else { return };
        let done = self.remote.client_mut().select_thread(&id);
        self.seen.selected = done.ok().filter(|done| *done).map(|_| cpu);
    }

    fn code(&mut self, at: Addr, len: usize) -> Option<Vec<u8>> {
        let last = (Region { start: at, len: len as u64 }).last()?;
        let (first, end) = (at & PIECE_START, last & PIECE_START);
        // A large read is no look at an instruction.
        if end.abs_diff(first) > CODE_PIECE {
            return None;
        }
        let mut bytes = self.piece(first)?.to_vec();
        if end != first {
            bytes.extend_from_slice(self.piece(end)?);
        }
        let offset = usize::try_from(at.checked_sub(first)?).ok()?;
        Some(bytes.get(offset..)?.get(..len)?.to_vec())
    }

    fn forget(&mut self, what: Forget) {
        self.seen.code.clear();
        if what == Forget::Code {
            return;
        }
        self.seen.registers.clear();
        self.seen.list = None;
        match what {
            Forget::Code | Forget::Registers => {}
            Forget::Stop => self.seen.selected = None,
            Forget::All => (self.seen.selected, self.seen.kernel) = (None, None),
        }
    }
}

impl Reader<'_> {
    /// A piece of code; `None` where it is not all code of the program, or cannot be read.
    fn piece(&mut self, at: Addr) -> Option<&[u8]> {
        if self.seen.code.len() >= MAX_CODE {
            self.seen.code.clear();
        }
        if !self.seen.code.contains_key(&at) {
            let len = usize::try_from(CODE_PIECE).ok()?;
            let last = at.checked_add(CODE_PIECE)?.checked_sub(1)?;
            let is_code = [at, last].iter().all(|at| self.program.code.holds(*at) == Some(true));
            let may = is_code && self.seen.allowed.as_ref().is_some_and(|allowed| allowed.holds(at, len));
            let read = if may { self.remote.read_bytes(at, len).ok() } else { None };
            self.seen.code.insert(at, read.map(|bytes| bytes.as_slice().to_vec()).unwrap_or_default());
        }
        self.seen.code.get(&at).map(Vec::as_slice).filter(|bytes| !bytes.is_empty())
    }

    /// A CPU's registers, as far as `g` has them.
    fn cpu(&mut self, cpu: usize) -> Option<Registers> {
        let bytes = self.registers(cpu)?;
        let Frames { architecture, endian, .. } = self.program.frames;
        let mut registers = cpu::from_stub(architecture, endian, &bytes);
        registers.complete();
        Some(registers)
    }

    /// The number of what a CPU runs, where its thread is known from before, and its control block is as it was.
    fn quick(&mut self, cpu: usize, registers: &Registers) -> Option<usize> {
        let last = self.seen.last.clone()?;
        if let Some(list) = &self.seen.list {
            return list.threads.threads().iter().find(|thread| thread.cpu == Some(cpu)).map(|thread| thread.id);
        }
        let allowed = self.seen.allowed.clone()?;
        let mut kernel = self.seen.kernel.take()?;
        let core = if kernel.current.len() == 1 { 0 } else { cpu };
        let mut memory = Cache::new(Guarded::new(self.remote, allowed));
        if !kernel.refresh_running(&mut memory, self.program.info.names()) || kernel.is_initializing() {
            return None;
        }
        let runs = runs_on(&kernel, core, registers).filter(|_| core == cpu || cpu == 0);
        self.seen.kernel = Some(kernel);
        match runs {
            Some(address) => last.threads.threads().iter().find(|thread| thread.address == address).map(|t| t.id),
            None => Some(cpu.saturating_add(1)),
        }
    }

    /// All threads, with the reads that the last stop needed in one flight.
    fn read(&mut self) -> Listing {
        let count = self.seen.cpus.len().clamp(1, MAX_CPUS);
        let cpus: Vec<Registers> = (0..count).map_while(|cpu| self.cpu(cpu)).collect();
        let Program { info, frames, code, .. } = &*self.program;
        let mut stop = Stop { frames: Some(*frames), code: code.clone(), cpus: cpus.clone(), ..Stop::default() };
        let known = self.seen.kernel.as_ref().map(roots).unwrap_or_default();
        let allowed = self.seen.allowed.clone().unwrap_or_default();
        let mut memory = Cache::new(Guarded::new(self.remote, allowed));
        drop(memory.read_batch(&self.seen.ranges));
        let threads = match info.read_kernel(&mut memory, &known, &stop) {
            Ok(kernel) if kernel.is_initializing() => Err("the scheduler has not been started".to_owned()),
            Ok(kernel) if cpus.first().is_some_and(|cpu| is_starting(info, &kernel, cpu)) => {
                Err("the program is at its start, and what is in RAM was left by the run before".to_owned())
            }
            Ok(kernel) => Ok(kernel),
            Err(error) => Err(error.message),
        };
        let threads = threads.map(|mut kernel| {
            let stacks = kernel.threads.iter().filter(|thread| thread.is_sound());
            let stacks: Vec<Region> = stacks.flat_map(|thread| thread.stacks()).collect();
            stacks.iter().for_each(|stack| memory.inner_mut().allowed.add_stack(*stack));
            drop(memory.read_batch(&saved_frames(&kernel, &stacks)));
            info.place_threads(&mut kernel, &mut memory, &mut stop);
            kernel
        });
        self.seen.ranges = memory.inner_mut().ranges();
        let (architecture, endian) = (Some(frames.architecture), frames.endian);
        let (shown, remark) = match &threads {
            Ok(kernel) => (while_it_stops(kernel, &stop.cpus), damage(kernel)),
            Err(why) => {
                let why = format!("no threads: {why}");
                (without_kernel(&cpus, &why), Some(format!("the CPU is shown alone, {why}")))
            }
        };
        self.seen.kernel = threads.ok();
        Listing { threads: ThreadList::new(architecture, endian, shown), remark }
    }
}

/// True in the function at which the program begins: RAM outlives a reset.
fn is_starting(info: &TargetInfo, kernel: &Kernel, cpu: &Registers) -> bool {
    let function = |at: Addr| info.names().function(at & !1).map(|function| function.address);
    let begins = info.entry().and_then(function);
    begins.is_some() && begins == cpu.pc().and_then(function) && runs_on(kernel, 0, cpu).is_none()
}

/// The control blocks of a kernel.
fn roots(kernel: &Kernel) -> Vec<Root> {
    let threads = kernel.threads.iter().map(|thread| Root { kind: None, address: thread.address });
    threads
        .chain(kernel.objects.iter().map(|object| Root { kind: Some(object.kind), address: object.address }))
        .collect()
}

/// The frames that threads saved, in their stacks.
fn saved_frames(kernel: &Kernel, stacks: &[Region]) -> Vec<(Addr, usize)> {
    let frame = |at: Addr| {
        let stack = stacks.iter().find(|stack| stack.contains(at))?;
        let rest = stack.last()?.checked_sub(at)?.saturating_add(1);
        Some((at, usize::try_from(rest.min(FRAME)).ok()?))
    };
    kernel.threads.iter().filter(|thread| thread.core.is_none()).filter_map(|thread| frame(thread.saved?)).collect()
}

/// What is wrong with the kernel's lists, in words.
fn damage(kernel: &Kernel) -> Option<String> {
    let broken = kernel.issues.iter().find(|issue| issue.code.name().starts_with("kernel-"))?;
    Some(broken.message.clone())
}
