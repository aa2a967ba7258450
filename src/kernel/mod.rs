//! The current state of the kernel, read from memory: threads, what each waits for and who holds it, stacks, and the
//! other objects, through the created lists.
//!
//! Every pointer is suspect: lists are bounded, a pointer to something else is an issue with its address, and what could
//! be read is kept.

mod ahead;
pub mod api;
mod check;
mod cpus;
mod directions;
mod entries;
mod evidence;
mod fault_report;
mod globals;
mod interrupted;
mod layout;
mod layout_match;
mod lists;
mod object;
mod pointers;
mod pools;
mod port;
mod position;
mod program;
mod registry;
mod report;
mod resolve;
mod roots;
mod running;
mod stack;
mod thread;
mod walk;

pub use check::{Overwritten, is_below_zero};
pub use cpus::{Above, Cpu, Under, exception};
pub use entries::Entries;
pub use fault_report::fault_lines;
pub use interrupted::{FoundBy, Interrupted, Interruption};
pub use layout::{Kind, Layout, Shape};
pub use layout_match::{HEAD, THREAD_ID};
pub use object::Object;
pub use pointers::Pointers;
pub use pools::{FreeList, PoolBlock, PoolBlocks, PoolDamage};
pub use position::{Position, Stop};
pub use program::{Agreement, CONSTANTS, PREFIX, Program, SYMBOLS, VECTOR_TABLES, enable_bits, pointer_width, version};
pub use registry::{registered, registered_blocks};
pub use report::{Detail, reports};
pub use roots::Root;
pub use stack::{High, Stack};
pub use thread::{CalledFrom, Stacks, State, Thread, Wait, Wanted};

use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::cpu::{Architecture, Registers};
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::Issue;
use globals::Globals;
use layout_match::{LayoutMatch, Mismatch, Sources};

/// What is known of the target before its kernel is read.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// Names and addresses.
    pub symbols: &'a dyn Symbols,
    /// Byte order, where it is known.
    pub endian: Option<Endian>,
    /// Width of an address, where it is known.
    pub pointer: Option<Width>,
    /// Names of objects that memory itself does not hold: a trace's registry.
    pub names: &'a dyn Fn(Addr) -> Option<String>,
    /// Control blocks that a trace's registry names.
    pub registered: &'a [Root],
    /// Whether stacks are measured: over a link that takes time.
    pub stacks: bool,
}

/// The objects of a kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Where members are.
    pub layout: Layout,
    /// Threads, in the order of their creation.
    pub threads: Vec<Thread>,
    /// By core: the thread that runs, 0 for none; empty where it is not known.
    pub current: Vec<Addr>,
    /// By core: the thread that is to run next.
    pub execute: Vec<Addr>,
    /// By core: interrupts that are under way, or that the kernel has not started yet.
    pub system_state: Vec<u64>,
    /// `_tx_thread_preempt_disable`: not 0 in the middle of a call of the kernel; `None` where it is not known.
    pub preempt_disable: Option<u64>,
    /// The ELF is of another build: `current`, `execute` and `system_state` are not known.
    pub other_build: bool,
    /// All other objects, by kind, in the order of their creation.
    pub objects: Vec<Object>,
    /// The processor, once it is known where the threads are.
    pub processor: Option<Architecture>,
    /// By core: what its CPU does, once it is known where the threads are.
    pub cpus: Vec<Cpu>,
    /// The registers of the CPUs or of the system's threads, once it is known where the threads are.
    pub registers: Vec<Registers>,
    /// What was interrupted by the exceptions that CPUs are in, once it is known where the threads are.
    pub interrupted: Vec<Interrupted>,
    /// The function of the start-up code that the CPU is in: the kernel is of the run before.
    pub start_up: Option<String>,
    /// Control blocks that a list points to and that do not begin as such ones do.
    pub overwritten: Vec<Overwritten>,
    /// Control blocks that were created again while they were in their list, with their kind: `None` for a thread.
    pub created_twice: Vec<(Option<Kind>, Addr)>,
    /// Objects that something names, and that are in no list of the kernel, though that closes and has as many as the kernel counts.
    pub not_created: Vec<Addr>,
    /// What went wrong.
    pub issues: Vec<Issue>,
    /// How many of the first issues are about lists that variables of the ELF point to.
    of_lists: usize,
}

/// What `_tx_thread_system_state` holds before the scheduler starts.
const INITIALIZING: u64 = 0xF0F0_F0F0;

impl Kernel {
    /// Reads the kernel's objects.
    ///
    /// # Errors
    /// [`Error`] where no list of threads can be read at all.
    pub fn read(memory: &mut dyn Memory, about: &About<'_>) -> Result<Self, Error> {
        ahead::read_ahead(memory, about);
        let globals = Globals::new(about.symbols);
        // All of memory is searched only where no variable points to the threads.
        let blind = about.symbols.lookup(HEAD).is_none();
        let searched = if blind { roots::search(memory, about.endian) } else { Vec::new() };
        let named = roots::of(about.registered, None);
        let sources = Sources { symbols: about.symbols, globals: &globals, named, searched: &searched };
        let found = layout_match::find(memory, &sources, about.endian, about.pointer);
        let found = found.map_err(|mismatch| match mismatch {
            Mismatch::None { tried, .. } if blind => no_symbol(tried),
            other => no_kernel(other),
        })?;
        let LayoutMatch { layout, walk, count, mut issues } = found;
        issues.extend(check::of_walk(&walk, "threads", count, None));
        let overwritten = check::overwritten(&walk, None, about.names).into_iter().collect();
        let created_twice = walk.twice.map(|thread| (None, thread)).into_iter().collect();
        let shape = layout.shape;
        let mut kernel = Self {
            threads: Vec::new(),
            current: globals.each_core(memory, shape, "_tx_thread_current_ptr", shape.pointer),
            execute: globals.each_core(memory, shape, "_tx_thread_execute_ptr", shape.pointer),
            system_state: globals.each_core(memory, shape, "_tx_thread_system_state", shape.word),
            preempt_disable: globals.word(memory, shape, "_tx_thread_preempt_disable", Width::W4),
            other_build: false,
            objects: Vec::new(),
            processor: None,
            cpus: Vec::new(),
            registers: Vec::new(),
            interrupted: Vec::new(),
            start_up: None,
            overwritten,
            created_twice,
            not_created: Vec::new(),
            issues,
            of_lists: 0,
            layout,
        };
        // Where it is not known which threads are a module's, those may be whose functions are not the program's.
        let loaded = globals.word(memory, shape, "_txm_module_manager_loaded_list_ptr", shape.pointer);
        // Without symbols it is not known whether some are loaded: their members follow the links of the created list,
        // and the other members are in their usual places only in a kernel without modules.
        let open = blind && kernel.layout.thread.offset("tx_thread_user_priority").is_none();
        let modules = loaded.map_or(open, |first| first != 0);
        let read = walk.nodes.iter().map(|node| Thread::read(memory, &kernel.layout, node, about, modules));
        kernel.threads = read.collect();
        kernel.check_modules();
        let mut without = Vec::new();
        for kind in Kind::ALL {
            if kernel.read_kind(memory, about, &sources, kind) {
                without.push(kind);
            }
        }
        kernel.of_lists = kernel.issues.len();
        kernel.issues.extend(blind.then(|| kernel.found_blind(&sources.named)));
        kernel.issues.extend(kernel.found_without(&without, blind));
        kernel.resolve(memory, about.names);
        kernel.check(about.symbols);
        Ok(kernel)
    }

    /// The thread at this address.
    pub fn thread(&self, address: Addr) -> Option<&Thread> {
        self.threads.iter().find(|t| t.address == address)
    }

    /// The name of the thread at an address; the address where it has none.
    pub fn label_of(&self, address: Addr) -> String {
        self.thread(address).map_or_else(|| format!("{address:#x}"), Thread::label)
    }

    /// The registers from which a thread is unwound: those of its CPU, in whatever exception that is, else those that it
    /// saved.
    pub fn registers_of(&self, thread: &Thread) -> Option<Registers> {
        let core = thread.core.filter(|_| thread.pthread.is_none());
        let cpu = core.and_then(|core| self.registers_of_core(core));
        if let Some(cpu) = cpu.filter(|cpu| !cpu.is_unknown()) {
            return Some(cpu.clone());
        }
        let mut registers = thread.position.registers.clone()?;
        if let [only] = self.registers.as_slice() {
            registers.complete_thread(only);
        }
        Some(registers)
    }

    /// The same, with threads that were terminated where they were then.
    #[must_use]
    pub fn with_terminated(&self) -> Self {
        let mut kernel = self.clone();
        for position in kernel.threads.iter_mut().map(|thread| &mut thread.position) {
            if let Some(registers) = position.at_end.take() {
                (position.pc, position.registers) = (registers.pc(), Some(registers));
            }
        }
        kernel
    }

    /// The registers of a core's CPU.
    fn registers_of_core(&self, core: usize) -> Option<&Registers> {
        self.registers.get(cpu_of(core, self.cpus.len(), self.registers.len())?)
    }

    /// The object at this address.
    pub fn object(&self, address: Addr) -> Option<&Object> {
        self.objects.iter().find(|o| o.address == address)
    }

    /// True before the scheduler has started.
    pub fn is_initializing(&self) -> bool {
        self.system_state.first().is_some_and(|s| *s & 0xFFFF_FFFF >= INITIALIZING)
    }
}

/// Which of the CPUs is a core of the kernel; `None` where that is not known.
pub const fn cpu_of(core: usize, cores: usize, cpus: usize) -> Option<usize> {
    match cores {
        // Beside a kernel of one core there may be other CPUs.
        1 if cpus > 0 => Some(0),
        _ if cores == cpus && core < cpus => Some(core),
        _ => None,
    }
}

fn has_id(memory: &mut dyn Memory, layout: &Layout, address: Addr, kind: Kind) -> bool {
    let word = layout.shape.word;
    let bytes = memory.read_bytes(address, word.bytes()).ok();
    bytes.and_then(|b| layout.shape.endian.word(word, &b, 0)) == Some(kind.id())
}

/// The option that gives the address of the list of threads without an ELF.
pub fn head_option() -> String {
    format!("--symbol {}=ADDR from the linker's map", HEAD)
}

fn no_symbol(tried: Vec<String>) -> Error {
    Error::failed(
        Code::NoKernelSymbol,
        format!("no symbol {}: the address of the kernel's threads is not known", HEAD),
        format!("give the ELF (--elf), or {}", head_option()),
    )
    .tried(tried)
}

fn no_kernel(mismatch: Mismatch) -> Error {
    const ELF: &str = "give the ELF with debug information (--elf): it gives the offsets of members";
    match mismatch {
        Mismatch::Empty => Error::not_found(
            Code::NoThreads,
            format!("the kernel has no threads: {} is 0", HEAD),
            "the target stopped before tx_kernel_enter had created any, or this memory was not read: let it run on, or make the dump again",
        ),
        Mismatch::Unreadable(why) => Error::failed(
            Code::Unreadable,
            why,
            "check that the ELF belongs to this memory, and that the dump covers the RAM",
        ),
        Mismatch::None { tried, by_elf } => Error::failed(
            Code::KernelLayout,
            "the list of threads cannot be read: no known layout fits it",
            if by_elf {
                "check that the ELF is that of the program that ran, and that the dump is placed right"
            } else {
                ELF
            },
        )
        .tried(tried),
        Mismatch::Several(names) => Error::failed(
            Code::KernelLayout,
            format!("{} match this memory: which is right is not known", names.join(" and ")),
            ELF,
        ),
    }
}
