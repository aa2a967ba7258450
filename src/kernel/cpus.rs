//! What each CPU does: runs a thread, waits in the scheduler, or handles an exception above either.

use super::{Kernel, Stop};
use crate::abi::Addr;
use crate::cpu::{Architecture, Level, Registers, is_fault};
use crate::sym::{Exceptions, Symbol, Symbols};

/// The exception in which a Cortex-M switches threads, and waits for one while there is none.
const PENDSV: u32 = 14;
/// The first exception that the chip's maker chose.
const FIRST_IRQ: u32 = 16;
/// How the names of the code begin in which the kernel waits for a thread: a function, or on a Cortex-M the handler of
/// PendSV and labels in it.
const SCHEDULER: [&str; 5] =
    ["_tx_thread_schedule", "__tx_thread_schedule", "PendSV_Handler", "__tx_PendSVHandler", "__tx_ts_"];

/// What runs below any exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// The scheduler has not been started.
    Initialization,
    /// The program has begun again, and the kernel in memory is of the run before.
    StartUp,
    /// A thread runs.
    Thread(Addr),
    /// No thread runs, and none is to run.
    Idle,
    /// No thread runs yet: this one is to run next.
    Scheduler(Addr),
}

impl Under {
    /// As one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initialization => "initialization",
            Self::StartUp => "startup",
            Self::Thread(_) => "thread",
            Self::Idle => "idle",
            Self::Scheduler(_) => "scheduler",
        }
    }
}

/// What has interrupted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Above {
    /// Nothing.
    Nothing,
    /// A Cortex-M's exception: its number, what the architecture or the vector table calls it.
    Exception(u32, Option<String>),
    /// A mode of other ARMs that only an exception enters.
    Mode(&'static str),
    /// An interrupt, or an exception that the port counts as one, by the kernel's own count.
    Interrupt,
    /// It is not known whether anything has.
    Unknown,
}

impl Above {
    /// True for an exception of a Cortex-M that a fault causes.
    pub const fn is_fault(&self) -> bool {
        matches!(self, Self::Exception(number, _) if is_fault(*number))
    }

    /// In words, for a sentence; `None` where nothing is known to have interrupted it.
    pub fn words(&self) -> Option<String> {
        Some(match self {
            Self::Nothing | Self::Unknown => return None,
            Self::Exception(number, name) => exception(*number, name.as_deref()),
            Self::Mode(name) => format!("{name} mode"),
            Self::Interrupt => "an interrupt or exception".to_owned(),
        })
    }
}

/// `exception 3 (HardFault)`, `exception 36 (IRQ 20, UART0_Handler)`.
pub fn exception(number: u32, name: Option<&str>) -> String {
    let irq = number.checked_sub(FIRST_IRQ);
    match (irq, name) {
        (None, Some(name)) => format!("exception {number} ({name})"),
        (None, None) => format!("exception {number}"),
        (Some(irq), Some(name)) if name != format!("irq{irq}") => format!("exception {number} (IRQ {irq}, {name})"),
        (Some(irq), _) => format!("exception {number} (IRQ {irq})"),
    }
}

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// What runs below any exception.
    pub under: Under,
    /// What has interrupted it.
    pub above: Above,
    /// Its program counter.
    pub pc: Option<Addr>,
    /// The function that it is in; `None` too where that has the name of a handler of another exception.
    pub function: Option<String>,
}

impl Cpu {
    /// As one word.
    pub const fn state(&self) -> &'static str {
        match self.above {
            Above::Nothing => self.under.name(),
            Above::Exception(..) | Above::Mode(_) => "exception",
            Above::Interrupt => "interrupt",
            Above::Unknown => "unknown",
        }
    }

    /// True where an exception is known to have interrupted it.
    pub(super) const fn is_interrupted(&self) -> bool {
        !matches!(self.above, Above::Nothing | Above::Unknown)
    }

    /// The function that it is in, where that is not the scheduler.
    fn elsewhere(&self) -> String {
        let function = self.function.as_ref().filter(|name| !is_scheduler(name));
        function.map_or_else(String::new, |name| format!("; the CPU is in {name}"))
    }

    /// What a CPU does that runs no thread, in a sentence; `None` for one that runs a thread.
    pub fn without_thread(&self, name: &dyn Fn(Addr) -> String) -> Option<String> {
        let above = self.above.words();
        let what = match (self.under, above) {
            (Under::Thread(_), _) => return None,
            (Under::StartUp, _) => {
                let at = self.function.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
                format!(": the CPU is in start-up code{at}, and what memory holds of the kernel is of the run before")
            }
            (Under::Initialization, None) => ": the scheduler has not been started".to_owned(),
            (Under::Initialization, Some(above)) => {
                format!(": the scheduler has not been started; the CPU is in {above}")
            }
            (Under::Idle, None) if self.above == Above::Unknown => {
                let elsewhere = self.elsewhere();
                format!(": idle, or in an exception that came while idle: the status register is not known{elsewhere}")
            }
            (Under::Idle, None) => format!(" (idle){}", self.elsewhere()),
            (Under::Idle, Some(above)) => format!(": the CPU is in {above}, which came while idle"),
            (Under::Scheduler(next), None) => format!(": {} is to run next", name(next)),
            (Under::Scheduler(next), Some(above)) => {
                format!(": the CPU is in {above}, which came while the scheduler ran; {} is to run next", name(next))
            }
        };
        Some(format!("no thread runs{what}"))
    }
}

impl Kernel {
    /// What the CPU does that runs this core's threads.
    pub(super) fn cpu(&self, core: usize, stop: &Stop, symbols: &dyn Symbols) -> Cpu {
        let registers = match (self.current.len(), stop.cpus.as_slice()) {
            (cores, cpus) if cores == cpus.len() => cpus.get(core),
            // Beside a CPU of its own a kernel may have others; on a host there are the registers of all its threads.
            (1, [first, ..]) if !matches!(self.processor, Some(Architecture::X86 | Architecture::X86_64)) => {
                Some(first)
            }
            _ => None,
        };
        let thread = self.current.get(core).copied().filter(|t| *t != 0);
        let next = self.execute.get(core).copied().filter(|t| *t != 0);
        let under = match (thread, next) {
            _ if self.start_up.is_some() => Under::StartUp,
            (Some(thread), _) => Under::Thread(thread),
            (None, _) if self.is_initializing() => Under::Initialization,
            (None, Some(next)) => Under::Scheduler(next),
            (None, None) => Under::Idle,
        };
        let above = self.above(core, under, registers, symbols);
        let pc = registers.and_then(Registers::pc);
        let function = pc.and_then(|pc| function(pc, &above, symbols)).map(|s| s.name);
        Cpu { under, above, pc, function }
    }

    fn above(&self, core: usize, under: Under, registers: Option<&Registers>, symbols: &dyn Symbols) -> Above {
        let m_profile = self.processor == Some(Architecture::CortexM);
        // Ports for Cortex-M do not count interrupts.
        let counted = self.system_state.get(core).is_some_and(|n| *n != 0);
        let counted = counted && !m_profile && !self.is_initializing();
        match registers.map_or(Level::Unknown, Registers::level) {
            Level::Exception(PENDSV) if matches!(under, Under::Idle | Under::Scheduler(_)) => Above::Nothing,
            Level::Exception(number) => Above::Exception(number, exception_name(number, symbols)),
            Level::Mode(mode) => Above::Mode(mode),
            _ if counted => Above::Interrupt,
            // Of a processor that is not known it is not known either.
            Level::Unknown if matches!(self.processor, None | Some(Architecture::CortexM | Architecture::Arm)) => {
                match under {
                    // Exceptions have a stack of their own.
                    Under::Thread(thread) if self.is_on_stack_of(thread, registers) => Above::Nothing,
                    Under::Idle | Under::Scheduler(_) if is_waiting(registers, symbols) => Above::Nothing,
                    _ => Above::Unknown,
                }
            }
            _ => Above::Nothing,
        }
    }

    fn is_on_stack_of(&self, thread: Addr, registers: Option<&Registers>) -> bool {
        let sp = registers.and_then(Registers::sp);
        sp.zip(self.thread(thread)).is_some_and(|(sp, thread)| thread.holds(sp))
    }
}

/// The function at this place of a CPU; `None` where its name is that of another exception's handler.
fn function(pc: Addr, above: &Above, symbols: &dyn Symbols) -> Option<Symbol> {
    symbols.function(pc).filter(|function| !is_named_after_another(&function.name, above))
}

/// A place of a CPU for a sentence: `0x80000c56 (trap_handler+0x12)`.
pub(super) fn place(pc: Addr, above: &Above, symbols: &dyn Symbols) -> String {
    let named = function(pc, above, symbols).and_then(|f| {
        Some(match pc.checked_sub(f.address)? {
            0 => f.name,
            into => format!("{}+{into:#x}", f.name),
        })
    });
    named.map_or_else(|| format!("{pc:#x}"), |name| format!("{pc:#x} ({name})"))
}

/// True for a function or label of the scheduler.
fn is_scheduler(name: &str) -> bool {
    SCHEDULER.iter().any(|of| name.starts_with(of))
}

/// True for the name of a handler of another exception than the one that goes on: start-up files give the function that
/// handles all of them every one's name.
fn is_named_after_another(function: &str, above: &Above) -> bool {
    let Some(stem) = function.strip_suffix("_Handler").filter(|stem| stem.len() >= 3) else { return false };
    let of = (0..FIRST_IRQ).find(|n| Exceptions::own(*n).is_some_and(|name| name.starts_with(stem)));
    match above {
        Above::Exception(number, _) => of.is_some_and(|of| of != *number),
        Above::Unknown => of.is_some_and(|of| of != PENDSV),
        Above::Nothing | Above::Mode(_) | Above::Interrupt => false,
    }
}

/// True where the program counter is in the scheduler.
fn is_waiting(registers: Option<&Registers>, symbols: &dyn Symbols) -> bool {
    let at = registers.and_then(Registers::pc).and_then(|pc| symbols.function(pc));
    at.is_some_and(|function| is_scheduler(&function.name))
}

/// What the exception of this number is called: by the architecture or the vector table, never by the code at the
/// handler's address, which several may share.
pub(super) fn exception_name(number: u32, symbols: &dyn Symbols) -> Option<String> {
    let own = Exceptions::own(number).map(str::to_owned);
    own.or_else(|| symbols.exception(number)).or_else(|| Some(format!("irq{}", number.checked_sub(FIRST_IRQ)?)))
}
