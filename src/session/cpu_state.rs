//! What each CPU was doing when it stopped, in the names of the program: where it is and who called that, whether it can leave
//! it, and what the exception that it is in interrupted.

use super::backtrace::functions;
use super::{Function, Target};
use crate::abi::{Addr, Region};
use crate::bytes::Bytes;
use crate::cpu::{
    Architecture, Effect, LOOP, Level, Loop, POLLING, Polling, Registers, endless_loop, is_fault, polling,
    with_those_before,
};
use crate::error::Error;
use crate::kernel::{Above, Interrupted, Kernel, Stop, Thread, Under};
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::unwind::{Backtrace, Exit, Unwinder, has_lost_thumb, main_stack_at};

/// One CPU.
#[derive(Debug, Clone)]
pub struct CpuState {
    /// Its number.
    pub core: usize,
    /// Its registers.
    pub registers: Registers,
    /// What runs below any exception, by the kernel; `None` where that is not known.
    pub under: Option<Under>,
    /// The exception that it is in, in words: `exception 3 (HardFault)`.
    pub exception: Option<String>,
    /// Where it is, the innermost function first, and who called it.
    pub functions: Vec<Function>,
    /// The instruction that it is about to run.
    pub effect: Option<Effect>,
    /// The endless loop that it is in.
    pub in_loop: Option<Loop>,
    /// The loop that it is in, where that waits for words in memory to change.
    pub polling: Option<Polling>,
    /// True where its program counter is known to be no code of the program.
    pub is_outside_code: bool,
    /// What its exception interrupted; `None` where it is in none, as far as is known.
    pub interrupted: Option<Places>,
    /// Where the fault came that its registers record, of a processor that has a register for that.
    pub failed: Option<Failed>,
    /// Which interrupts have which priority and state; `None` where that was not read.
    pub interrupts: Option<Interrupts>,
    /// The fault registers that the source lacks, and that its handler has stored: their names, and where. `registers` has them.
    pub stored_faults: Vec<(&'static str, Addr)>,
}

/// Where a fault came, by the register that keeps it.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The function there.
    pub function: Function,
    /// The functions there, the innermost first, where what the trap stored of the thread is known; else empty.
    pub functions: Vec<Function>,
    /// The stack pointer there, where that is known.
    pub sp: Option<Addr>,
    /// The registers of the first callers, each where it goes on, as far as they are known.
    pub callers: Vec<Registers>,
    /// True where it is known to be no code of the program.
    pub is_outside_code: bool,
    /// Where the thread was when the trap or interrupt came within whose handler this one came.
    pub outer: Option<Box<Place>>,
    /// What the instruction there was about to do, where what the trap stored of the thread is known.
    pub effect: Option<Effect>,
    /// Where the handler stored the registers of the thread, where no register says where the trap came.
    pub stored: Option<Addr>,
}

/// Functions of a backtrace, and the registers of the first callers.
type Callers = (Vec<Function>, Vec<Registers>);

/// What an exception interrupted.
#[derive(Debug, Clone)]
pub struct Places {
    /// The number of the exception, where that is known.
    pub exception: Option<u32>,
    /// The exception in words.
    pub by: String,
    /// One place where that is certain; else those that may be it, the most likely first.
    pub all: Vec<Place>,
    /// True where the place is certain.
    pub is_certain: bool,
    /// What a reader has to know of it.
    pub remarks: Vec<String>,
}

/// A place that an exception interrupted.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where the registers are that were pushed.
    pub frame: Addr,
    /// The registers there.
    pub registers: Registers,
    /// The exception that was interrupted, in words; `None` for a thread.
    pub within: Option<String>,
    /// The functions there, the innermost first.
    pub functions: Vec<Function>,
    /// The registers of the first callers, each where it goes on, as far as they are known.
    pub callers: Vec<Registers>,
    /// What the instruction there was about to do.
    pub effect: Option<Effect>,
    /// True where its program counter is no code of the program.
    pub is_outside_code: bool,
}

/// The state of the interrupt controller of a Cortex-M, from interrupt 0 on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// A priority for each interrupt.
    pub priorities: Vec<u8>,
    /// A bit for each that is enabled, by words.
    pub enabled: Vec<u32>,
    /// A bit for each that is pending.
    pub pending: Vec<u32>,
    /// A bit for each that is active.
    pub active: Vec<u32>,
}

/// Where the interrupt controller of a Cortex-M has them (Armv7-M Architecture Reference Manual, B3.4). Reading changes nothing.
const ENABLED: (Addr, usize) = (0xE000_E100, 64);
const PENDING: (Addr, usize) = (0xE000_E200, 64);
const ACTIVE: (Addr, usize) = (0xE000_E300, 64);
const PRIORITIES: (Addr, usize) = (0xE000_E400, 240);

impl Target<'_> {
    /// What the CPUs do. `kernel`: what was read of this target before, where its kernel could be read.
    ///
    /// # Errors
    /// Where the link fails, or a register that was typed does not exist.
    pub fn cpu_states(&mut self, kernel: Option<&Kernel>) -> Result<Vec<CpuState>, Error> {
        let stop = match kernel {
            Some(kernel) => Stop { cpus: kernel.registers.clone(), ..self.stop(&mut Vec::new())? },
            None => {
                let mut stop = self.stop(&mut Vec::new())?;
                self.read_fault_registers(&mut stop)?;
                stop
            }
        };
        let mut all = stop.cpus.clone();
        let looks = |kernel: &Kernel| !kernel.interrupted.is_empty();
        // Other registers do not show where the CPU is.
        let is_nowhere = |cpu: &Registers| cpu.pc().is_none() && cpu.level() == Level::Unknown;
        let left = kernel.filter(|_| all.iter().all(is_nowhere));
        let left = left.map_or_else(Vec::new, |kernel| self.left(kernel, &stop));
        if all.is_empty() && (!left.is_empty() || kernel.is_some_and(looks)) {
            // Without registers the stacks alone show where an exception may have come.
            all.extend(stop.frames.map(|frames| Registers::new(frames.architecture)));
        }
        // On a host there are the registers of all its threads. Without an ELF it is not known how many cores there are.
        let cores = kernel.map_or(0, |kernel| kernel.cpus.len());
        if cores > 0 && cores != all.len() {
            return Ok(Vec::new());
        }
        let states = all.iter().enumerate().map(|(core, registers)| self.cpu_state(core, registers, kernel, &stop));
        let mut states: Vec<CpuState> = states.collect();
        if let Some(state) = states.first_mut().filter(|_| !left.is_empty()) {
            state.interrupted.get_or_insert_with(Places::unknown).add(left);
        }
        Ok(states)
    }

    fn cpu_state(&mut self, core: usize, registers: &Registers, kernel: Option<&Kernel>, stop: &Stop) -> CpuState {
        let cpu = kernel.and_then(|kernel| kernel.cpus.get(core));
        let under = cpu.map(|cpu| cpu.under);
        let thread = match under {
            Some(Under::Thread(at)) => kernel.and_then(|kernel| kernel.thread(at)),
            _ => None,
        };
        let mut stacks: Vec<Region> = thread.into_iter().flat_map(|t| t.stacks()).collect();
        // Before the first thread, and in the scheduler, the CPU is on a stack of its own.
        if registers.architecture() == Architecture::CortexM {
            stacks.extend(registers.sp().and_then(main_stack_at));
        }
        let (backtrace, exits) =
            self.with_unwinder(kernel, |unwinder, memory, _| unwinder.with_exits(registers, &stacks, memory));
        let functions = self.names_of(&backtrace);
        let known = kernel.and_then(|kernel| kernel.interrupted.iter().find(|found| found.core == core));
        let interrupted = match known {
            Some(found) => Some(self.places(found, stop)),
            None => self.by_exits(registers, &exits, stop),
        };
        let mut stored_faults = self.stored_faults(registers, &backtrace);
        if stored_faults.is_empty() {
            stored_faults = self.stored_trap(registers, kernel, thread, stop);
        }
        let known = self.with_stored(registers, &stored_faults);
        let used = self.used_by_handler(registers, &backtrace);
        let interrupted = interrupted.map(|mut found| {
            found.all.iter_mut().for_each(|place| self.forget_used(place, registers, &used, stop));
            found
        });
        let exception = match (cpu.map(|cpu| &cpu.above), registers.level()) {
            (Some(Above::Nothing), _) => None,
            (Some(above), _) => above.words(),
            (None, Level::Exception(number)) => {
                let name = self.symbols().exception(number);
                Some(name.map_or_else(|| format!("exception {number}"), |name| format!("exception {number} ({name})")))
            }
            (None, Level::Mode(mode)) => Some(format!("{mode} mode")),
            (None, _) => None,
        };
        CpuState {
            core,
            under,
            exception,
            functions,
            effect: self.effect(registers),
            in_loop: registers.pc().and_then(|pc| self.loop_at(registers.architecture(), pc)),
            polling: self.polling(registers),
            is_outside_code: registers.pc().is_some_and(|pc| self.is_outside(pc & !1, stop)),
            interrupted,
            failed: self.failed(&known, kernel, thread, stop),
            interrupts: self.interrupts(registers),
            registers: known,
            stored_faults,
        }
    }

    /// The instruction that failed, by the register that keeps its address. An ARM has it in the link register of the mode, until
    /// the handler calls a function.
    fn failed(
        &mut self,
        registers: &Registers,
        kernel: Option<&Kernel>,
        thread: Option<&Thread>,
        stop: &Stop,
    ) -> Option<Failed> {
        let (at, stored) = match registers.architecture() {
            Architecture::Riscv32 | Architecture::Riscv64 => match registers.get("mepc") {
                Some(at) => (at, None),
                None => {
                    let (frame, trapped) = self.stored_alone(registers, kernel?, thread?, stop)?;
                    (trapped.pc()?, Some(frame))
                }
            },
            Architecture::Aarch64 => (registers.get("elr")?, None),
            _ => return None,
        };
        let effect = thread.and_then(|thread| self.stored_by_trap(thread, stop));
        let effect =
            effect.filter(|(_, trapped)| trapped.pc() == Some(at)).and_then(|(_, trapped)| self.effect(&trapped));
        let trapped = thread.and_then(|thread| self.trapped(at, kernel?, thread, stop));
        let (sp, (functions, callers)) = trapped.map(|(sp, found)| (Some(sp), found)).unwrap_or_default();
        let nested = thread.zip(kernel).filter(|(thread, kernel)| functions.is_empty() && is_nested(thread, kernel));
        let outer = nested.and_then(|(thread, kernel)| self.outer(at, kernel, thread, stop)).map(Box::new);
        let is_outside_code = self.is_outside(at, stop);
        Some(Failed { function: self.function_at(at), functions, sp, callers, is_outside_code, outer, effect, stored })
    }

    /// What a handler stored of its thread, where the kernel counts that handler alone, and it runs on another stack: then it has stored
    /// them (`_tx_thread_context_save`).
    pub(super) fn stored_alone(
        &mut self,
        registers: &Registers,
        kernel: &Kernel,
        thread: &Thread,
        stop: &Stop,
    ) -> Option<(Addr, Registers)> {
        let is_alone = thread.core.and_then(|core| kernel.system_state.get(core)) == Some(&1);
        let is_on_other_stack = registers.sp().is_some_and(|sp| !thread.holds(sp));
        self.trap_frame(thread, stop).filter(|_| is_alone && is_on_other_stack)
    }

    /// The functions of a thread where a trap came, if its handler has stored the registers where the thread's control block says.
    fn trapped(&mut self, at: Addr, kernel: &Kernel, thread: &Thread, stop: &Stop) -> Option<(Addr, Callers)> {
        let (_, registers) = self.stored_by_trap(thread, stop).filter(|(_, registers)| registers.pc() == Some(at))?;
        Some((registers.sp()?, self.functions_of(&registers, kernel, thread)))
    }

    /// The place of a thread where the outermost trap or interrupt came, if its handler has stored the registers. `at`: where the last
    /// one came.
    fn outer(&mut self, at: Addr, kernel: &Kernel, thread: &Thread, stop: &Stop) -> Option<Place> {
        let (frame, registers) = self.stored_by_trap(thread, stop)?;
        registers.pc().filter(|pc| *pc != at && self.is_code(*pc))?;
        let (functions, callers) = self.functions_of(&registers, kernel, thread);
        Some(Place { callers, ..self.place(frame, &registers, None, functions, stop) })
    }

    /// The registers that the handler of a trap stored where a thread's control block says, and where that is.
    fn stored_by_trap(&mut self, thread: &Thread, stop: &Stop) -> Option<(Addr, Registers)> {
        let (saved, registers) = self.trap_frame(thread, stop)?;
        let is_code = registers.pc().is_some_and(|pc| stop.code.holds(pc) != Some(false));
        is_code.then_some((saved, registers))
    }

    /// The same, wherever the trap came.
    fn trap_frame(&mut self, thread: &Thread, stop: &Stop) -> Option<(Addr, Registers)> {
        let saved = thread.saved.filter(|saved| thread.holds(*saved))?;
        Some((saved, stop.frames?.trapped(self.memory.memory(), saved, &stop.code)?))
    }

    /// The functions of a thread with these registers, and the registers of the first callers.
    fn functions_of(&mut self, registers: &Registers, kernel: &Kernel, thread: &Thread) -> Callers {
        let stacks: Vec<Region> = thread.stacks().collect();
        let find = |unwinder: &Unwinder<'_>, memory: &mut dyn Memory, _: &dyn Symbols| {
            unwinder.backtrace(registers, &stacks, memory)
        };
        let backtrace = self.with_unwinder(Some(kernel), find);
        (self.names_of(&backtrace), backtrace.callers)
    }

    /// The functions of a backtrace. Reads nothing of the target.
    pub(super) fn names_of(&self, backtrace: &Backtrace) -> Vec<Function> {
        let program = self.info.program.as_ref();
        let linked = |at: Addr| program.map_or(at, |p| p.elf().width().moved_back(at, p.load_offset()));
        let addresses: Vec<Addr> = backtrace.frames.iter().map(|frame| linked(frame.address())).collect();
        let mut source = program.map(|p| p.dwarf().lines().frames(&addresses)).unwrap_or_default().into_iter();
        let of = |frame| functions(frame, source.next().unwrap_or_default(), self.symbols());
        backtrace.frames.iter().flat_map(of).collect()
    }

    fn places(&mut self, found: &Interrupted, stop: &Stop) -> Places {
        let all = found.places.iter().map(|at| {
            let functions = self.names_of(&at.backtrace);
            let callers = at.backtrace.callers.clone();
            Place { callers, ..self.place(at.frame, &at.registers, at.within.clone(), functions, stop) }
        });
        Places {
            all: all.collect(),
            exception: found.exception,
            by: found.by.clone(),
            is_certain: found.is_certain,
            remarks: found.remarks.clone(),
        }
    }

    /// Without a kernel: by the callers of the handler alone.
    fn by_exits(&mut self, registers: &Registers, exits: &[Exit], stop: &Stop) -> Option<Places> {
        let Level::Exception(number) = registers.level() else { return None };
        let exit = exits.iter().find(|exit| exit.exception.is_some_and(is_fault)).or(exits.first());
        let name = self.symbols().exception(exit.and_then(|exit| exit.exception).unwrap_or(number));
        let by = name.map_or_else(|| format!("exception {number}"), |name| format!("exception {number} ({name})"));
        let place = exit.and_then(|exit| Some((exit.frame?, &exit.registers))).map(|(frame, registers)| {
            let main = registers.sp().and_then(main_stack_at);
            let backtrace =
                self.with_unwinder(None, |unwinder, memory, _| unwinder.backtrace(registers, main.as_slice(), memory));
            let within = match registers.level() {
                Level::Exception(number) => Some(format!("exception {number}")),
                _ => None,
            };
            let functions = self.names_of(&backtrace);
            Place { callers: backtrace.callers, ..self.place(frame, registers, within, functions, stop) }
        });
        let is_certain = place.is_some();
        Some(Places { exception: Some(number), by, all: place.into_iter().collect(), is_certain, remarks: Vec::new() })
    }

    pub(super) fn place(
        &mut self,
        frame: Addr,
        registers: &Registers,
        within: Option<String>,
        functions: Vec<Function>,
        stop: &Stop,
    ) -> Place {
        let is_outside_code = registers.pc().is_some_and(|pc| self.is_outside(pc, stop));
        let known = self.with_those_before(registers).unwrap_or_else(|| registers.clone());
        // After a jump to an even address the CPU did not begin the instruction there.
        let effect = self.effect(&known).filter(|_| !is_outside_code && !has_lost_thumb(registers));
        Place { frame, within, functions, callers: Vec::new(), effect, is_outside_code, registers: registers.clone() }
    }

    /// True where the program has no code at an address: no section of code, or a constant among the code.
    fn is_outside(&self, at: Addr, stop: &Stop) -> bool {
        stop.code.holds(at) == Some(false)
            || self.symbols().function(at).is_none() && self.symbols().variable(at).is_some()
    }

    /// What the instruction at a program counter is about to do.
    fn effect(&mut self, registers: &Registers) -> Option<Effect> {
        let pc = registers.pc().filter(|pc| pc & 1 == 0 && self.is_code(*pc))?;
        let memory = self.memory.memory();
        let code = memory.read_bytes(pc, 4).or_else(|_| memory.read_bytes(pc, 2)).ok()?;
        Effect::of(registers, &code)
    }

    /// The endless loop at a program counter.
    pub(super) fn loop_at(&mut self, architecture: Architecture, pc: Addr) -> Option<Loop> {
        let pc = if architecture == Architecture::CortexM { pc & !1 } else { pc };
        if !self.is_code(pc) {
            return None;
        }
        // Instructions are found from the start of their function.
        let function = self.symbols().function(pc).map(|function| function.address & !1);
        let from = function.filter(|from| pc.checked_sub(*from).is_some_and(|before| before <= POLLING)).unwrap_or(pc);
        let before = usize::try_from(pc.checked_sub(from)?).ok()?;
        let memory = self.memory.memory();
        let lens = [LOOP, 8, 4, 2].into_iter().filter_map(|len| before.checked_add(usize::try_from(len).ok()?));
        let code = lens.into_iter().find_map(|len| memory.read_bytes(from, len).ok())?;
        endless_loop(architecture, pc, from, &code)
    }

    /// The loop at the program counter that waits for words in memory.
    pub(super) fn polling(&mut self, registers: &Registers) -> Option<Polling> {
        let (from, code) = self.code_around(registers.pc()? & !1)?;
        polling(registers, from, &code, &mut |at| self.word(at))
    }

    /// Registers that the code in front of the program counter shows. Of a live target nothing is read for it: it may be a device.
    fn with_those_before(&mut self, registers: &Registers) -> Option<Registers> {
        if self.is_live() {
            return None;
        }
        let (from, code) = self.code_around(registers.pc()? & !1)?;
        Some(with_those_before(registers, from, &code, &mut |at| self.word(at)))
    }

    /// The code of the function at an address, from its start to a little behind it.
    pub(super) fn code_around(&mut self, pc: Addr) -> Option<(Addr, Bytes)> {
        let from = self.symbols().function(pc)?.address & !1;
        let before = pc.checked_sub(from).filter(|before| *before <= POLLING)?;
        let memory = self.memory.memory();
        let lens = [64, 32, 16, 8].into_iter().filter_map(|len| usize::try_from(before.checked_add(len)?).ok());
        Some((from, lens.into_iter().find_map(|len| memory.read_bytes(from, len).ok())?))
    }

    pub(super) fn word(&mut self, at: Addr) -> Option<u32> {
        let bytes = self.memory.memory().read_bytes(at, 4).ok()?;
        Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
    }

    /// True where the program has code at an address: nothing else is read as code.
    fn is_code(&self, pc: Addr) -> bool {
        self.symbols().function(pc).is_some()
    }

    /// The interrupt controller, of what is known to be a Cortex-M.
    fn interrupts(&mut self, registers: &Registers) -> Option<Interrupts> {
        registers.get("cpuid")?;
        let memory = self.memory.memory();
        if memory.changes() {
            return None;
        }
        let mut read = memory.read_batch(&[ENABLED, PENDING, ACTIVE, PRIORITIES]).into_iter().map(Result::ok);
        let (enabled, pending) = (read.next()??, read.next()??);
        let (active, priorities) = (read.next()??, read.next()??);
        let words = |bytes: &[u8]| {
            let word = |four: &[u8]| four.try_into().map_or(0, u32::from_le_bytes);
            bytes.chunks_exact(4).map(word).collect()
        };
        Some(Interrupts {
            priorities: priorities.to_vec(),
            enabled: words(&enabled),
            pending: words(&pending),
            active: words(&active),
        })
    }
}

/// True where a trap came within the handler of another trap or interrupt: the kernel counts those of each core, and is at its start
/// where the number is a large one.
fn is_nested(thread: &Thread, kernel: &Kernel) -> bool {
    let count = thread.core.and_then(|core| kernel.system_state.get(core));
    !kernel.is_initializing() && count.is_some_and(|count| *count >= 2)
}
