//! Where each thread stands: its registers, from the frame that it saved or from the CPU that runs it.

use super::thread::Thread;
use super::{Kernel, Stack};
use crate::abi::{Addr, Endian};
use crate::cpu::{Architecture, Frames, Registers, SavedKind};
use crate::mem::Memory;
use crate::trace::{Issue, Severity};

/// Where a thread stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stand {
    /// Its registers, as far as they are known.
    pub registers: Option<Registers>,
    /// Its program counter.
    pub pc: Option<Addr>,
    /// How that is known, or why it is not; empty where there is nothing to say.
    pub how: String,
    /// It never ran: it stands where it will start.
    pub never_ran: bool,
}

/// What the source tells of the CPUs that stopped.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// How threads save their registers; `None` where the processor is not known.
    pub frames: Option<Frames>,
    /// The registers of the CPUs or of the system's threads, that which stopped first.
    pub cpus: Vec<Registers>,
    /// Registers that were typed, where the processor was not known by then.
    pub typed: Vec<(String, u64)>,
}

/// What a Cortex-M thread saves first has these bits.
const EXC_RETURN: u64 = 0xFFFF_FF80;
/// Number of the exception in a Cortex-M's status register.
const EXCEPTION: u64 = 0x1FF;
/// `xpsr`: Thumb state.
const THUMB: u64 = 1 << 24;

impl Kernel {
    /// Finds out where each thread stands.
    pub fn place(&mut self, memory: &mut dyn Memory, stop: &Stop) {
        let frames = stop.frames.or_else(|| {
            let inferred =
                self.looks_like_cortex_m(memory).then(|| Frames::new(Architecture::CortexM, self.layout.shape.endian));
            if inferred.is_some() {
                self.issues.push(Issue::new(
                    "cpu-inferred",
                    Severity::Inferred,
                    "the threads' stacks hold what a Cortex-M saves: the processor is taken for one",
                ));
            }
            inferred
        });
        self.processor = frames.map(|f| f.architecture);
        let mut stop = Stop { frames, ..stop.clone() };
        for (name, value) in std::mem::take(&mut stop.typed) {
            let known = frames.map(|f| f.architecture);
            if stop.cpus.is_empty() {
                stop.cpus.extend(known.map(Registers::new));
            }
            if !stop.cpus.first_mut().is_some_and(|cpu| cpu.set(&name, value)) {
                let of = known.map_or("a processor that is not known", Architecture::name);
                let message = format!("--reg {name}={value:#x} is not used: no such register of {of}");
                self.issues.push(Issue::new("reg-unused", Severity::Note, message));
            }
        }
        let mut failed = 0u64;
        let mut first = None;
        for thread in &mut self.threads {
            if thread.pthread.is_some() {
                if let Err(why) = of_system(thread, &stop) {
                    failed = failed.saturating_add(1);
                    first.get_or_insert_with(|| format!("{}: {why}", thread.label()));
                    why.clone_into(&mut thread.stand.how);
                }
                continue;
            }
            if thread.core.is_some() {
                continue;
            }
            // A system's own threads (a Linux port) are known by the stack that they are on.
            if let Some(cpu) = stop.cpus.iter().find(|c| c.sp().is_some_and(|sp| thread.stack.holds(sp))) {
                settle(thread, cpu.clone(), "registers of the core");
                continue;
            }
            let (Some(frames), Some(saved)) = (frames, thread.saved) else {
                "the processor is not known: give the ELF".clone_into(&mut thread.stand.how);
                continue;
            };
            if matches!(thread.state.map(|s| s.0), Some(1 | 2)) {
                // It returned, or was ended: what it left is not gone on with.
                "ended".clone_into(&mut thread.stand.how);
                continue;
            }
            match frames.read(memory, saved) {
                Ok(frame) => {
                    thread.stand = Stand {
                        pc: frame.registers.pc(),
                        never_ran: frame.kind == SavedKind::NeverRan,
                        how: frame
                            .remark
                            .map_or_else(|| frame.kind.name().to_owned(), |r| format!("{}; {r}", frame.kind.name())),
                        registers: Some(frame.registers),
                    };
                }
                Err(error) => {
                    thread.stand.how = error.to_string();
                    failed = failed.saturating_add(1);
                    first.get_or_insert_with(|| format!("{}: {error}", thread.label()));
                }
            }
        }
        if let Some(first) = first {
            let message = format!("where a thread stands is not known: {first}");
            self.issues.push(Issue::new("no-saved-frame", Severity::Note, message).times(failed));
        }
        let cores = self.current.len();
        for thread in self.threads.iter_mut().filter(|t| t.core.is_some() && t.pthread.is_none()) {
            run(thread, memory, &stop, cores, self.layout.shape.endian);
        }
    }

    /// Every thread that does not run, and ran, saved an `EXC_RETURN` first.
    fn looks_like_cortex_m(&self, memory: &mut dyn Memory) -> bool {
        let shape = self.layout.shape;
        let mut seen = 0u32;
        for thread in self.threads.iter().filter(|t| t.core.is_none()) {
            let Some(saved) = thread.saved.filter(|p| thread.stack.holds(*p)) else { continue };
            let word = memory.read_bytes(saved, 4).ok().and_then(|b| shape.endian.u32(&b, 0)).map(u64::from);
            if word.is_none_or(|w| w & EXC_RETURN != EXC_RETURN) {
                return false;
            }
            seen = seen.saturating_add(1);
        }
        seen > 0 && shape.pointer == crate::abi::Width::W4
    }
}

/// A thread of the Linux port is one of the system's, which is known by its thread pointer.
fn of_system(thread: &mut Thread, stop: &Stop) -> Result<(), &'static str> {
    let own = |cpu: &&Registers| cpu.thread_pointer().is_some_and(|at| thread.pthread == Some(at));
    if let Some(cpu) = stop.cpus.iter().find(own) {
        let how = cpu.lwp().map_or_else(|| "its thread of the system".to_owned(), |lwp| format!("LWP {lwp}"));
        settle(thread, cpu.clone(), &how);
        return Ok(());
    }
    if matches!(thread.state.map(|s| s.0), Some(1 | 2)) {
        "ended".clone_into(&mut thread.stand.how);
        return Ok(());
    }
    if stop.cpus.iter().any(|cpu| cpu.thread_pointer().is_some()) {
        return Err("none of the threads of the system whose registers are known is this one");
    }
    Err("which of the threads of the system it is, this source does not tell")
}

fn settle(thread: &mut Thread, registers: Registers, how: &str) {
    thread.stack.stand_at(registers.sp().filter(|sp| thread.stack.holds(*sp)));
    thread.stand = Stand { pc: registers.pc(), registers: Some(registers), how: how.to_owned(), never_ran: false };
}

/// A running thread's registers are those of its CPU; in an interrupt they are the interrupt's.
fn run(thread: &mut Thread, memory: &mut dyn Memory, stop: &Stop, cores: usize, endian: Endian) {
    let on_its_stack = stop.cpus.iter().find(|c| c.sp().is_some_and(|sp| thread.stack.holds(sp)));
    let only = stop.cpus.first().filter(|_| cores == 1);
    let Some(cpu) = on_its_stack.or(only) else {
        thread.stand.how = match stop.frames {
            Some(_) => "it runs, and its registers are not in this source (--reg pc=N --reg sp=N)",
            None => "it runs; the registers of its processor are not known here",
        }
        .to_owned();
        return;
    };
    let exception = cpu
        .get("xpsr")
        .filter(|_| cpu.architecture() == Architecture::CortexM)
        .map(|x| x & EXCEPTION)
        .filter(|n| *n != 0);
    let Some(number) = exception else {
        if on_its_stack.is_some() || cpu.sp().is_none() {
            settle(thread, cpu.clone(), "it runs");
        } else {
            thread.stand.how = format!(
                "interrupted, or in the kernel: the CPU is at {}, on another stack",
                cpu.pc().map_or("an unknown place".to_owned(), |pc| format!("{pc:#x}"))
            );
        }
        return;
    };
    let why = match cpu.get("psp") {
        None => "its own registers lie at PSP, which is not known (--reg psp=N)".to_owned(),
        Some(psp) if !thread.stack.holds(psp) => {
            format!("its own registers lie at PSP, but {psp:#x} lies outside of its stack")
        }
        Some(psp) => match hardware_frame(memory, psp, endian, &thread.stack) {
            Some(Ok(frame)) => return settle(thread, frame, &format!("interrupted by exception {number}")),
            Some(Err((pc, status))) => format!(
                "its own registers lie at PSP, but at {psp:#x} there are none of a thread: pc {pc:#010x}, xPSR {status:#010x}"
            ),
            None => format!("its own registers lie at PSP, but {psp:#x} cannot be read"),
        },
    };
    thread.stand.how = format!("interrupted by exception {number}; {why}");
}

/// What a Cortex-M pushes when an exception comes: r0 to r3, r12, lr, pc, xpsr; the last two alone where they are not
/// those of a thread.
fn hardware_frame(
    memory: &mut dyn Memory,
    at: Addr,
    endian: Endian,
    stack: &Stack,
) -> Option<Result<Registers, (u64, u64)>> {
    const NAMES: [&str; 8] = ["r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr"];
    let bytes = memory.read_bytes(at, 32).ok()?;
    let mut registers = Registers::new(Architecture::CortexM);
    for (word, name) in bytes.chunks_exact(4).zip(NAMES) {
        registers.set(name, u64::from(endian.u32(word, 0)?));
    }
    // A thread that has lost Thumb state is rarer than a slip of the hand, and both numbers tell it.
    let (pc, status) = (registers.pc()?, registers.get("xpsr")?);
    if status & THUMB == 0 || status & EXCEPTION != 0 || pc & 1 != 0 {
        return Some(Err((pc, status)));
    }
    // Without knowing whether the FPU was in use the stack pointer before it is not known; the frame's own is.
    if stack.holds(at) {
        registers.set("sp", at);
    }
    Some(Ok(registers))
}
