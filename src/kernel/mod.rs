//! THE KERNEL AS IT STANDS IN MEMORY NOW: threads, what each waits for and who holds it, stacks, and the other objects,
//! walked through the created lists.
//!
//! The trace tells what happened; this tells what is. Every pointer is suspect: lists are bounded, what leads astray is
//! an issue with its address, and what could be read is there.

mod ahead;
mod cpus;
mod fit;
mod globals;
mod layout;
mod lists;
mod object;
mod port;
mod report;
mod roots;
mod stack;
mod stand;
mod thread;
mod walk;

use std::collections::HashMap;

pub use cpus::{Above, Cpu, Under};
pub use fit::THREAD_ID;
pub use layout::{Kind, Layout, Shape};
pub use object::Object;
pub use report::{Breadth, reports};
pub use roots::Root;
pub use stack::{High, Stack};
pub use stand::{Stand, Stop};
pub use thread::{Stacks, State, Thread, Wait};

use crate::abi::{Addr, Endian, Width};
use crate::code::Code;
use crate::cpu::Architecture;
use crate::error::Error;
use crate::mem::Memory;
use crate::sym::Symbols;
use crate::trace::{Issue, Place};
use fit::{Fit, Misfit, Sources};
use globals::Globals;
use walk::Walk;

/// What is known of the target before its kernel is read.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// Names and addresses.
    pub symbols: &'a dyn Symbols,
    /// Byte order, where something tells.
    pub endian: Option<Endian>,
    /// Width of an address, where something tells.
    pub pointer: Option<Width>,
    /// Names of objects that memory itself does not hold: a trace's registry.
    pub names: &'a dyn Fn(Addr) -> Option<String>,
    /// Control blocks that a trace's registry names.
    pub registered: &'a [Root],
    /// Whether stacks are looked at: over a link that takes its time.
    pub stacks: bool,
}

/// The objects of a kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Where members lie.
    pub layout: Layout,
    /// Threads, in the order of their creation.
    pub threads: Vec<Thread>,
    /// By core: the thread that runs, 0 for none; empty where nothing tells.
    pub current: Vec<Addr>,
    /// By core: the thread that is to run next.
    pub execute: Vec<Addr>,
    /// By core: interrupts that are under way, or that the kernel has not started yet.
    pub system_state: Vec<u64>,
    /// The ELF is of another build: `current`, `execute` and `system_state` are not known.
    pub other_build: bool,
    /// All other objects, by kind, in the order of their creation.
    pub objects: Vec<Object>,
    /// The processor, once it is known where threads stand.
    pub processor: Option<Architecture>,
    /// By core: what its CPU does, once it is known where threads stand.
    pub cpus: Vec<Cpu>,
    /// What went wrong.
    pub issues: Vec<Issue>,
}

/// The fewest and the most priorities that a kernel is built with.
const FEWEST: u64 = 32;
const MOST: u64 = 1024;

/// What `_tx_thread_system_state` holds before the scheduler starts.
pub const INITIALIZING: u64 = 0xF0F0_F0F0;

impl Kernel {
    /// Reads the kernel's objects.
    ///
    /// # Errors
    /// [`Error`] where no list of threads can be read at all.
    pub fn read(memory: &mut dyn Memory, about: &About<'_>) -> Result<Self, Error> {
        ahead::read_ahead(memory, about);
        let globals = Globals::new(about.symbols);
        // Only where no variable tells where the threads are all of memory is searched.
        let blind = about.symbols.lookup(fit::HEAD).is_none();
        let searched = if blind { roots::search(memory, about.endian) } else { Vec::new() };
        let named = roots::of(about.registered, None);
        let sources = Sources { symbols: about.symbols, globals: &globals, named, searched: &searched };
        let fit = fit::find(memory, &sources, about.endian, about.pointer);
        let fit = fit.map_err(|misfit| match misfit {
            Misfit::None { tried, .. } if blind => no_symbol(tried),
            other => no_kernel(other),
        })?;
        let Fit { layout, walk, count, mut issues } = fit;
        issues.extend(of_walk(&walk, "threads", count));
        let shape = layout.shape;
        let mut kernel = Self {
            threads: Vec::new(),
            current: globals.each_core(memory, shape, "_tx_thread_current_ptr", shape.pointer),
            execute: globals.each_core(memory, shape, "_tx_thread_execute_ptr", shape.pointer),
            system_state: globals.each_core(memory, shape, "_tx_thread_system_state", shape.word),
            other_build: false,
            objects: Vec::new(),
            processor: None,
            cpus: Vec::new(),
            issues,
            layout,
        };
        // Where it is not known which threads are a module's, those may be whose functions are not the program's.
        let loaded = globals.word(memory, shape, "_txm_module_manager_loaded_list_ptr", shape.pointer);
        // Without symbols nothing tells whether some are loaded: their members lie behind the links of the created list,
        // and other members follow where they always do only in a kernel without modules.
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
        kernel.issues.extend(blind.then(|| kernel.found_blind(&sources.named)));
        kernel.issues.extend(kernel.found_without(&without, blind));
        kernel.resolve(memory, about.names);
        let list = about.symbols.lookup("_tx_thread_priority_list").map(|s| s.size);
        let own = list.and_then(|size| size.checked_div(shape.pointer.bytes() as u64));
        kernel.check_priorities(own.filter(|n| (FEWEST..=MOST).contains(n)));
        Ok(kernel)
    }

    /// Objects know their waiting threads, threads what they wait for: each is held against the other.
    fn resolve(&mut self, memory: &mut dyn Memory, names: &dyn Fn(Addr) -> Option<String>) {
        let by_address: HashMap<Addr, usize> = self.threads.iter().enumerate().map(|(i, t)| (t.address, i)).collect();
        for object in &mut self.objects {
            let waiting: Vec<Addr> = self.threads.iter().filter(|t| t.waits_on(object)).map(|t| t.address).collect();
            let listed = object.listed(&self.threads, &by_address);
            let mut sorted = [listed.clone(), waiting.clone()];
            sorted.iter_mut().for_each(|s| s.sort_unstable());
            let [a, b] = sorted;
            let counted = object.get("suspended_count").and_then(|n| usize::try_from(n).ok());
            if a == b && counted.is_none_or(|n| n == listed.len()) {
                object.waiting = listed;
                continue;
            }
            // Which of the two is right nobody can tell; the states of threads are what is shown.
            let message = format!(
                "{} {} at {:#x}: its list of waiting threads has {}, it counts {}, and {} threads say that they wait for it",
                object.kind.name(),
                object.name.as_deref().unwrap_or(""),
                object.address,
                listed.len(),
                counted.map_or("nothing that can be read".to_owned(), |n| n.to_string()),
                waiting.len()
            );
            self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(object.address)));
            object.waiting = waiting;
        }
        let known: HashMap<Addr, usize> = self.objects.iter().enumerate().map(|(i, o)| (o.address, i)).collect();
        for thread in &mut self.threads {
            let Some((kind, address)) = thread.suspended_on() else { continue };
            let object = known.get(&address).and_then(|i| self.objects.get(*i)).filter(|o| o.kind == kind);
            let mut wait = Wait::of(thread, kind, address, object);
            if object.is_none() {
                wait.name = names(address);
            }
            thread.waits = Some(wait);
            if object.is_none() && !has_id(memory, &self.layout, address, kind) {
                let message = format!(
                    "thread {} waits for a {} at {address:#x}, and there is none there",
                    thread.label(),
                    kind.name()
                );
                self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(thread.address)));
            }
        }
        for object in self.objects.iter().filter(|o| o.kind == Kind::Mutex) {
            let owner = object.owner().and_then(|o| by_address.get(&o)).and_then(|i| self.threads.get_mut(*i));
            if let Some(owner) = owner {
                owner.owns.push(object.address);
            } else if let Some(owner) = object.owner().filter(|o| *o != 0) {
                let message = format!(
                    "mutex {} is owned by {owner:#x}, which is none of the threads that were found",
                    object.name.as_deref().unwrap_or("without a name")
                );
                self.issues.push(Issue::new(Code::KernelDamaged, message).at(Place::address(object.address)));
            }
        }
        for (core, address) in self.current.iter().enumerate().filter(|(_, a)| **a != 0) {
            match by_address.get(address).and_then(|i| self.threads.get_mut(*i)) {
                Some(thread) => {
                    thread.core = Some(core);
                    // What it saved when it last gave the processor away is stale.
                    thread.stand_at(None);
                }
                None => {
                    let message = format!(
                        "_tx_thread_current_ptr is {address:#x}, which is none of the threads in the created list"
                    );
                    self.issues.push(Issue::new(Code::KernelDamaged, message));
                }
            }
        }
        self.check_stacks();
    }

    /// Priorities that this kernel cannot have, of which it has `own` where its list tells.
    fn check_priorities(&mut self, own: Option<u64>) {
        let most = own.unwrap_or(MOST);
        let wild = |p: &Option<u32>| p.filter(|p| u64::from(*p) >= most);
        // A thread in the middle of a change has its threshold there first: all three are looked at.
        let of = |t: &Thread| [t.priority, t.own_priority, t.threshold].iter().find_map(wild);
        let mut all = self.threads.iter().filter_map(|t| Some((t, of(t)?)));
        let Some((thread, value)) = all.next() else { return };
        let count = all.fold(1u64, |n, _| n.saturating_add(1));
        let has =
            if own.is_some() { format!("this kernel has {most}") } else { format!("no kernel has more than {most}") };
        let message = format!(
            "thread {}: a priority or threshold of {value} in its control block: {has}; it was written over, or the ELF is that of another build",
            thread.label()
        );
        let issue = Issue::new(Code::KernelDamaged, message).at(Place::address(thread.address));
        self.issues.push(issue.times(count));
    }

    /// Threads that are or may be of modules, whose stacks are not known.
    fn check_modules(&mut self) {
        let mut of = self.threads.iter().filter(|t| t.stacks == Stacks::Unknown).map(Thread::label);
        let Some(first) = of.next() else { return };
        let count = of.fold(1u64, |n, _| n.saturating_add(1));
        let message = format!(
            "it is not known which stack a thread that is or may be of a module is on, its own or that for calls of the kernel, nor how much of them was used; the first is {first}"
        );
        self.issues.push(Issue::new(Code::KernelLayoutTail, message).times(count));
    }

    /// Stacks that were used up, and stack pointers that lie elsewhere.
    fn check_stacks(&mut self) {
        let filled = self.threads.iter().any(|t| matches!(t.stack.high, High::Bytes(_)));
        for thread in &mut self.threads {
            let (label, address) = (thread.label(), thread.address);
            let stacks = [("stack", Some(&mut thread.stack)), ("kernel stack", thread.kernel_stack.as_mut())];
            for (name, stack) in stacks.into_iter().filter_map(|(name, stack)| Some((name, stack?))) {
                if !filled && stack.high == High::Full {
                    // The kernel was built without the fill.
                    stack.high = High::Unknown;
                }
                if stack.high == High::Full {
                    let message = format!(
                        "thread {label}: the lowest bytes of its {name} ({:#x}) were written: it was used to its end, or beyond it",
                        stack.start.unwrap_or(0)
                    );
                    let issue = Issue::new(Code::StackUsedUp, message);
                    self.issues.push(issue.at(Place::address(address)));
                }
                if let Some(pointer) = stack.pointer.filter(|p| !stack.holds(*p)) {
                    let message =
                        format!("thread {label}: its saved stack pointer {pointer:#x} lies outside of its {name}");
                    let issue = Issue::new(Code::StackPointerOutside, message);
                    self.issues.push(issue.at(Place::address(address)));
                }
            }
        }
    }

    /// The thread at this address.
    #[must_use]
    pub fn thread(&self, address: Addr) -> Option<&Thread> {
        self.threads.iter().find(|t| t.address == address)
    }

    /// The object at this address.
    #[must_use]
    pub fn object(&self, address: Addr) -> Option<&Object> {
        self.objects.iter().find(|o| o.address == address)
    }

    /// True before the scheduler has started.
    #[must_use]
    pub fn is_initializing(&self) -> bool {
        self.system_state.first().is_some_and(|s| *s & 0xFFFF_FFFF >= INITIALIZING)
    }
}

fn has_id(memory: &mut dyn Memory, layout: &Layout, address: Addr, kind: Kind) -> bool {
    let word = layout.shape.word;
    let bytes = memory.read_bytes(address, word.bytes()).ok();
    bytes.and_then(|b| layout.shape.endian.word(word, &b, 0)) == Some(kind.id())
}

/// What is wrong with a list.
fn of_walk(walk: &Walk, of: &str, count: Option<u64>) -> Vec<Issue> {
    let mut issues = Vec::new();
    if let Some(broken) = &walk.broken {
        let mut message = broken.sentence(of);
        if walk.rescued > 0 {
            message.push_str(&format!("; {} behind the break were found backwards", walk.rescued));
        }
        if walk.led > 0 {
            message.push_str(&format!(
                "; {} were found from other variables of the kernel, or the trace's registry",
                walk.led
            ));
        }
        if let Some(count) = count {
            message.push_str(&format!("; the kernel counts {count}, {} could be read", walk.nodes.len()));
        }
        issues.push(Issue::new(Code::KernelDamaged, message));
    }
    let len = u64::try_from(walk.nodes.len()).unwrap_or(u64::MAX);
    if let Some(count) = count.filter(|c| *c != len && walk.broken.is_none()) {
        let message = format!("the list of {of} has {len}, the kernel counts {count}");
        issues.push(Issue::new(Code::KernelDamaged, message));
    }
    if walk.crooked > 0 {
        let mut message =
            format!("the list of {of}: {} pointers back do not lead to where the list came from", walk.crooked);
        if walk.rescued > 0 && walk.broken.is_none() {
            message.push_str(&format!("; {} that it skips were found backwards", walk.rescued));
        }
        issues.push(Issue::new(Code::KernelDamaged, message));
    }
    issues
}

fn no_symbol(tried: Vec<String>) -> Error {
    Error::failed(
        Code::NoKernelSymbol,
        "no symbol _tx_thread_created_ptr: nothing tells where the kernel's threads are",
        "give the ELF (--elf), or --symbol _tx_thread_created_ptr=ADDR from the linker's map",
    )
    .tried(tried)
}

fn no_kernel(misfit: Misfit) -> Error {
    const ELF: &str = "give the ELF with debug information (--elf): it tells where members lie";
    match misfit {
        Misfit::Empty => Error::not_found(
            Code::NoThreads,
            "the kernel has no threads: _tx_thread_created_ptr is 0",
            "the target stopped before tx_kernel_enter had created any; let it run on",
        ),
        Misfit::Unreadable(why) => Error::failed(
            Code::Unreadable,
            why,
            "check that the ELF belongs to this memory, and that the dump covers the RAM",
        ),
        Misfit::None { tried, told } => Error::failed(
            Code::KernelLayout,
            "the list of threads cannot be read: it closes on itself under no layout that is known",
            if told {
                "check that the ELF is that of the program that ran, and that the dump is placed right"
            } else {
                ELF
            },
        )
        .tried(tried),
        Misfit::Several(names) => Error::failed(
            Code::KernelLayout,
            format!("{} fit this memory: which is right is not guessed", names.join(" and ")),
            ELF,
        ),
    }
}
