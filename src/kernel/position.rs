//! Where each thread was stopped: its registers, from the frame that it saved or from the CPU that runs it.

use super::thread::{Stacks, Thread};
use super::{Above, Kernel, State, cpus};
use crate::abi::{Addr, Endian};
use crate::code::Code;
use crate::cpu::{self, Architecture, CodeRanges, Frames, Level, Origin, Pushed, Registers, SavedError, SavedKind};
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::{Issue, Place};

/// Where a thread was stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Its registers, as far as they are known.
    pub registers: Option<Registers>,
    /// Its program counter.
    pub pc: Option<Addr>,
    /// How that is known, or why it is not; empty where there is nothing to say.
    pub how: String,
    /// It never ran: its program counter is where it will start.
    pub never_ran: bool,
    /// Of a thread that was terminated: the registers that it had then.
    pub at_end: Option<Registers>,
}

/// What the source gives of the CPUs that stopped.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// How threads save their registers; `None` where the processor is not known.
    pub frames: Option<Frames>,
    /// The processor is an ARM, and which profile it has was taken from a status word that leaves it open.
    pub profile_open: bool,
    /// Where the program's code is.
    pub code: CodeRanges,
    /// The registers of the CPUs or of the system's threads, that which stopped first.
    pub cpus: Vec<Registers>,
    /// Registers that were typed, where the processor was not known by then.
    pub typed: Vec<(String, u64)>,
}

/// How it is known where a thread is that nothing has interrupted.
pub(super) const RUNS: &str = "it runs";
/// What a Cortex-M thread saves first has these bits.
const EXC_RETURN: u64 = 0xFFFF_FF80;

impl Kernel {
    /// Finds out where each thread was stopped. What this shows of the processor goes into `stop`.
    pub fn place(&mut self, memory: &mut dyn Memory, stop: &mut Stop, symbols: &dyn Symbols) {
        self.settle_processor(memory, stop);
        self.processor = stop.frames.map(|f| f.architecture);
        self.lay_typed(stop);
        let cores = self.current.len();
        let (mut unknown, mut doubtful) = (Vec::new(), Vec::new());
        for thread in self.threads.iter_mut().filter(|t| t.core.is_none() || t.stacks == Stacks::System) {
            let known = match thread.stacks {
                Stacks::System => of_system(thread, stop),
                _ => rest(thread, memory, stop, cores),
            };
            if let Err(why) = known {
                unknown.push(format!("{}: {why}", thread.label()));
                thread.position.how = why;
            } else if thread.position.pc.is_some_and(|pc| stop.code.holds(pc) == Some(false)) {
                doubtful.push(format!("{}: {}", thread.label(), thread.position.how));
            }
        }
        for (what, of) in [("not known", unknown), ("doubtful", doubtful)] {
            if let Some(first) = of.first() {
                let message = format!("the position of a thread is {what}: {first}");
                self.issues.push(Issue::new(Code::NoSavedFrame, message).times(of.len() as u64));
            }
        }
        self.cpus = (0..cores).map(|core| self.cpu(core, stop, symbols)).collect();
        self.registers.clone_from(&stop.cpus);
        let endian = self.layout.shape.endian;
        for thread in self.threads.iter_mut().filter(|t| t.stacks != Stacks::System) {
            let Some(cpu) = thread.core.and_then(|core| self.cpus.get(core)) else { continue };
            let place = |pc| cpus::place(pc, &cpu.above, symbols);
            run(thread, memory, stop, cores, &cpu.above, endian, &place);
            let sp = thread.position.registers.as_ref().and_then(Registers::sp);
            if let Some(sp) = sp.filter(|sp| !thread.holds(*sp) && thread.stacks != Stacks::Unknown) {
                let message = format!("thread {}: its stack pointer {sp:#x} is outside of its stack", thread.label());
                let issue = Issue::new(Code::StackPointerOutside, message);
                self.issues.push(issue.at(Place::address(thread.address)));
            }
        }
    }

    /// What threads saved shows a Cortex-M, where nothing else shows the processor.
    fn settle_processor(&mut self, memory: &mut dyn Memory, stop: &mut Stop) {
        let open = stop.frames.is_none() || stop.profile_open;
        if !open || !self.looks_like_cortex_m(memory) {
            return;
        }
        stop.profile_open = false;
        stop.frames = Some(Frames::new(Architecture::CortexM, self.layout.shape.endian));
        stop.cpus.iter_mut().for_each(|cpu| *cpu = cpu.as_cortex_m());
        self.issues.push(Issue::new(
            Code::CpuInferred,
            "the threads' stacks hold what a Cortex-M saves: the processor is assumed to be one",
        ));
    }

    /// Registers that were typed before the processor was known.
    fn lay_typed(&mut self, stop: &mut Stop) {
        for (name, value) in std::mem::take(&mut stop.typed) {
            if stop.cpus.is_empty() {
                stop.cpus.extend(self.processor.map(Registers::new));
            }
            if !stop.cpus.first_mut().is_some_and(|cpu| cpu.set_from(Origin::Given, &name, value)) {
                let of = self.processor.map_or("a processor that is not known", Architecture::name);
                let message = format!("--reg {name}={value:#x} is not used: no such register of {of}");
                self.issues.push(Issue::new(Code::RegUnused, message));
            }
        }
        stop.cpus.iter_mut().for_each(Registers::complete);
    }

    /// Every thread that does not run, and ran, saved an `EXC_RETURN` first.
    fn looks_like_cortex_m(&self, memory: &mut dyn Memory) -> bool {
        let shape = self.layout.shape;
        let mut seen = false;
        for thread in self.threads.iter().filter(|t| t.core.is_none()) {
            let Some(saved) = thread.saved.filter(|p| thread.holds(*p)) else { continue };
            let word = memory.read_bytes(saved, 4).ok().and_then(|b| shape.endian.u32(&b, 0)).map(u64::from);
            if word.is_none_or(|w| w & EXC_RETURN != EXC_RETURN) {
                return false;
            }
            seen = true;
        }
        seen && shape.pointer == crate::abi::Width::W4
    }
}

/// A thread of the Linux port is one of the system's, which is known by its thread pointer.
fn of_system(thread: &mut Thread, stop: &Stop) -> Result<(), String> {
    let own = |cpu: &&Registers| cpu.thread_pointer().is_some_and(|at| thread.pthread == Some(at));
    if let Some(cpu) = stop.cpus.iter().find(own) {
        let how = cpu.lwp().map_or_else(|| "its thread of the system".to_owned(), |lwp| format!("LWP {lwp}"));
        settle(thread, cpu.clone(), &how);
        return Ok(());
    }
    if matches!(thread.state.map(|s| s.0), Some(1 | 2)) {
        "ended".clone_into(&mut thread.position.how);
        return Ok(());
    }
    if stop.cpus.iter().any(|cpu| cpu.thread_pointer().is_some()) {
        return Err("its thread of the operating system is not among those whose registers are known".to_owned());
    }
    Err("this source does not show which thread of the operating system it is".to_owned())
}

/// A thread that does not run goes on with what it saved.
///
/// # Errors
/// Where what it saved cannot be read, in words.
fn rest(thread: &mut Thread, memory: &mut dyn Memory, stop: &Stop, cores: usize) -> Result<(), String> {
    // It returned, or was ended: its saved frame is not used again.
    let ended = matches!(thread.state, Some(State::COMPLETED | State::TERMINATED));
    let frame = stop.frames.zip(thread.saved).filter(|_| thread.state != Some(State::COMPLETED));
    let mut frame = frame.map(|(frames, saved)| {
        let frames = Frames { floats: thread.floats.or(frames.floats), ..frames };
        frames.read(memory, saved, &stop.code)
    });
    if ended {
        let at_end = frame.take().and_then(Result::ok).filter(|frame| frame.kind != SavedKind::NeverRan);
        thread.position.at_end = at_end.map(|frame| frame.registers);
    }
    if let Some(Ok(frame)) = frame {
        let how = frame.kind.name();
        thread.position = Position {
            pc: frame.registers.pc(),
            never_ran: frame.kind == SavedKind::NeverRan,
            how: frame.remark.map_or_else(|| how.to_owned(), |remark| format!("{how}; {remark}")),
            registers: Some(frame.registers),
            at_end: None,
        };
        return Ok(());
    }
    // The CPU may stay on a thread's stack when it has left it, and waits there for the next.
    let hosted = cores < stop.cpus.len()
        || !matches!(frame, None | Some(Err(SavedError::NotAFrame { .. } | SavedError::Unreadable { .. })));
    let on_its_stack = |cpu: &&Registers| hosted && cpu.sp().is_some_and(|sp| thread.holds(sp));
    if let Some(cpu) = stop.cpus.iter().find(on_its_stack) {
        settle(thread, cpu.clone(), "registers of the core");
        return Ok(());
    }
    match frame {
        Some(Err(error)) => return Err(error.to_string()),
        _ if ended => "ended",
        _ => "the processor is not known (give the ELF) or not supported",
    }
    .clone_into(&mut thread.position.how);
    Ok(())
}

fn settle(thread: &mut Thread, registers: Registers, how: &str) {
    thread.set_pointer(registers.sp().filter(|sp| thread.holds(*sp)));
    thread.position =
        Position { pc: registers.pc(), registers: Some(registers), how: how.to_owned(), ..Position::default() };
}

/// A running thread's registers are those of its CPU; in an interrupt they are the interrupt's.
/// `place`: an address of code in words.
fn run(
    thread: &mut Thread,
    memory: &mut dyn Memory,
    stop: &Stop,
    cores: usize,
    above: &Above,
    endian: Endian,
    place: &dyn Fn(Addr) -> String,
) {
    let on_its_stack = stop.cpus.iter().find(|c| c.sp().is_some_and(|sp| thread.holds(sp)));
    let only = stop.cpus.first().filter(|_| cores == 1);
    // Fault registers alone are no place.
    let placed = |cpu: &&Registers| cpu.is_placed() || cpu.level() != Level::Unknown;
    let Some(cpu) = on_its_stack.or(only).filter(placed) else {
        thread.position.how = match stop.frames {
            Some(_) => "it runs, and its registers are not in this source (--reg pc=N --reg sp=N)",
            None => "it runs; the registers of its processor are not supported",
        }
        .to_owned();
        return;
    };
    let Some(by) = interrupted_by(above, cpu) else {
        // A Cortex-M in thread mode runs the thread, wherever its stack pointer has come to.
        let in_thread = cpu.architecture() == Architecture::CortexM && cpu.level() == Level::Thread;
        if on_its_stack.is_some() || in_thread || cpu.sp().is_none() || thread.stacks == Stacks::Unknown {
            settle(thread, cpu.clone(), RUNS);
        } else {
            let at = cpu.pc().map_or("an unknown place".to_owned(), place);
            thread.position.how = match above.words() {
                Some(above) => format!("interrupted: the CPU is in {above}, at {at}, on another stack"),
                None => format!("interrupted, or in the kernel: the CPU is at {at}, on another stack"),
            };
        }
        return;
    };
    match at_psp(thread, memory, stop, cpu, above, endian) {
        Ok((frame, from)) => settle(thread, frame, &format!("interrupted by {by}{from}")),
        Err(why) => thread.position.how = format!("interrupted by {by}; {why}"),
    }
}

/// The registers that an exception pushed onto the stack of a thread, and what is inferred there; else why they are not known.
fn at_psp(
    thread: &Thread,
    memory: &mut dyn Memory,
    stop: &Stop,
    cpu: &Registers,
    above: &Above,
    endian: Endian,
) -> Result<(Registers, String), String> {
    let Some(psp) = cpu.get("psp") else {
        return Err("its own registers are at PSP, which is not known (--reg psp=N)".to_owned());
    };
    if !thread.holds(psp) && thread.stacks != Stacks::Unknown {
        return Err(format!("its own registers are at PSP, but {psp:#x} is outside of its stack"));
    }
    if psp & 3 != 0 {
        return Err(format!("its own registers are at PSP, but {psp:#x} is not a multiple of 4"));
    }
    let Some(pushed) = Pushed::read(memory, psp, endian) else {
        return Err(format!("its own registers are at PSP, but {psp:#x} cannot be read"));
    };
    if let Some(why) = not_written(above, cpu, psp) {
        return Err(format!("its own registers may not be at psp={psp:#x}: {why}"));
    }
    if !pushed.is_of_thread() && !called_wrong_address(above, &pushed, stop) {
        return Err(format!(
            "its own registers are at PSP, but at {psp:#x} there are none of a thread: pc {:#010x}, xPSR {:#010x}",
            pushed.pc, pushed.xpsr
        ));
    }
    let mut frame = pushed.registers(&Registers::new(Architecture::CortexM), None);
    // It was pushed onto the thread's stack: that is where the thread's stack pointer is now.
    if thread.holds(psp) {
        frame.set_from(Origin::Inferred, "sp", psp);
    }
    let from = match above {
        Above::Unknown => format!(", as what an exception pushes is at psp={psp:#x}"),
        _ => String::new(),
    };
    Ok((frame, from))
}

/// Why what a fault pushed may not have been written, in words.
fn not_written(above: &Above, cpu: &Registers, frame: Addr) -> Option<String> {
    let doubt = above.is_fault().then(|| cpu.frame_doubt(frame)).filter(|doubt| !doubt.not_written.is_empty())?;
    doubt.words().into_iter().next()
}

/// True for a thread that has called an address without the Thumb bit. One that has lost Thumb state in another way is rarer
/// than a slip of the hand.
fn called_wrong_address(above: &Above, pushed: &Pushed, stop: &Stop) -> bool {
    let fault = matches!(above, Above::Exception(number, _) if cpu::is_fault_of_state(*number));
    fault && pushed.has_lost_thumb() && pushed.lr & 1 == 1 && stop.code.holds(pushed.lr & !1) == Some(true)
}

/// The exception of a Cortex-M that has interrupted a thread, in words; `None` where none has, as far as is known.
fn interrupted_by(above: &Above, cpu: &Registers) -> Option<String> {
    if cpu.architecture() != Architecture::CortexM {
        return None;
    }
    match above {
        Above::Exception(..) => above.words(),
        // PSP is that of a thread below an exception.
        Above::Unknown if cpu.get("psp").is_some() => Some("an exception, which one is not known".to_owned()),
        _ => None,
    }
}
