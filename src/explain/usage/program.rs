//! The code of a program, as its memory has it.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use super::super::Case;
use super::super::look::is_zero;
use super::super::rules::static_pointers::trace;
use super::is_register;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{InstructionSet, expanded, riscv_direct};
use crate::kernel::api::{self, Action};
use crate::kernel::{Kind, Object};
use crate::sym::Symbol;

/// The most bytes of code that are read.
const MOST: u64 = 4 << 20;
/// Bytes that are read at once.
const PIECE: u64 = 1024;
/// The most regions of code.
const REGIONS: usize = 64;
/// The most bytes of memory that are searched for addresses of functions.
const MEMORY: u64 = 64 << 20;
/// The most places at which the address of one function is found.
const PLACES: usize = 64;
/// So many halves of instructions behind one half of a constant the other is looked for.
const APART: usize = 12;
/// The same of a RISC-V, whose compilers put more between them.
const APART_RISCV: u64 = 48;
/// What holds the address in its middle of the variables that RISC-V code reaches by one instruction.
const GLOBAL_POINTER: &str = "__global_pointer$";
/// What only the kernel calls: a function of the application that calls these has a part of the kernel in it, put there by the
/// linker's optimizer.
const INSIDE: [&str; 4] = [
    "_tx_thread_system_resume",
    "_tx_thread_system_ni_resume",
    "_tx_thread_system_suspend",
    "_tx_thread_system_ni_suspend",
];
/// Functions of C that write text to memory, also by their names in newlib for numbers that are integers: they keep no pointer.
const FORMATTING: [&str; 8] =
    ["sprintf", "snprintf", "vsprintf", "vsnprintf", "siprintf", "sniprintf", "vsiprintf", "vsniprintf"];
/// The function of this prefix that a program has of its own: it sets up the tick.
const BOARD: &str = "_tx_initialize_low_level";
/// What the names of the kernel's functions begin with.
const KERNEL: &str = "_tx";

/// What the global pointer of a RISC-V holds for the whole run.
pub fn global_pointer(case: &Case<'_>) -> Option<u32> {
    u32::try_from(case.look.symbol(GLOBAL_POINTER)?.address).ok()
}

/// It, and what of it is the kernel's.
pub(super) struct Code<'c> {
    pub set: InstructionSet,
    pub global_pointer: Option<u32>,
    symbol: Box<dyn Fn(Addr) -> Option<Symbol> + 'c>,
    returns_nothing: Box<dyn Fn(Addr) -> bool + 'c>,
    is_read_only: Box<dyn Fn(Addr) -> bool + 'c>,
    /// Address and bytes of each region.
    regions: Vec<(Addr, Vec<u8>)>,
    /// The same of constants that are not beside the code.
    constants: Vec<(Addr, Vec<u8>)>,
    /// The functions of the kernel that do something with objects.
    actions: BTreeMap<Addr, Action>,
    /// The bytes of a message of each queue.
    messages: BTreeMap<u32, u32>,
    /// The direct calls of those outside of the kernel.
    sites: Vec<(Addr, Action)>,
    /// The direct calls and jumps to the start of other functions, and where they lead. Those of a RISC-V alone: the table of a
    /// Cortex-M says which functions are handlers.
    edges: Vec<(Addr, Addr)>,
    /// Addresses of functions that are words in memory, or constants of the code.
    pointed: BTreeSet<Addr>,
    /// Those that are words in memory that the program writes, with the first places.
    written: BTreeMap<Addr, BTreeSet<Addr>>,
    /// Those that are constants outside of functions, once somebody has asked.
    in_tables: OnceCell<BTreeSet<Addr>>,
    /// The start of the function that `is_instruction` walked last, and how far.
    walked: Cell<(Addr, Addr)>,
}

/// The bytes of a message of each queue in memory.
fn messages(case: &Case<'_>) -> BTreeMap<u32, u32> {
    let Some(kernel) = case.kernel else { return BTreeMap::new() };
    let of = |queue: &Object| {
        let bytes = queue.get("message_size")?.checked_mul(kernel.layout.shape.word.bytes() as u64)?;
        Some((u32::try_from(queue.address).ok()?, u32::try_from(bytes).ok()?))
    };
    kernel.objects.iter().filter(|object| object.kind == Kind::Queue).filter_map(of).collect()
}

/// A function.
pub(super) struct Function {
    pub first: Addr,
    pub last: Addr,
    pub is_kernel: bool,
}

/// The most bytes of a function whose size is not known.
const UNSIZED: u64 = 256;

impl<'c> Code<'c> {
    /// `None` where it is not known, or too much.
    pub fn read(case: &Case<'c>, set: InstructionSet) -> Option<Self> {
        let (cpus, look) = (case.cpus?, case.look);
        let regions = parts(&cpus.code, case).filter(|regions| !regions.is_empty())?;
        let constants = parts(&cpus.constants(), case)?;
        let global_pointer = global_pointer(case);
        let action = |name: String| Some((case.look.symbol(&name)?.address & !1, api::action(&name)?));
        let actions = api::names().filter_map(action).collect();
        let mut code = Self {
            symbol: Box::new(|at| look.function(at)),
            returns_nothing: Box::new(|at| look.returns_nothing(at)),
            is_read_only: Box::new(|at| cpus.is_read_only(at)),
            set,
            global_pointer,
            regions,
            constants,
            actions,
            messages: messages(case),
            sites: Vec::new(),
            edges: Vec::new(),
            pointed: BTreeSet::new(),
            written: BTreeMap::new(),
            in_tables: OnceCell::new(),
            walked: Cell::default(),
        };
        let inside: Vec<Addr> = INSIDE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
        code.sites = code.calls(&inside)?;
        code.edges = code.between_functions();
        code.pointed = code.constants();
        code.written = code.in_memory(&cpus.written()?, case)?;
        code.pointed.extend(code.written.keys());
        Some(code)
    }

    /// True for a function that is known to keep no pointer that it gets.
    pub fn keeps_nothing(&self, at: Addr) -> bool {
        (self.symbol)(at).is_some_and(|symbol| FORMATTING.contains(&symbol.name.as_str()))
    }

    /// True for a function that returns nothing.
    pub fn returns_nothing(&self, function: Addr) -> bool {
        (self.returns_nothing)(function)
    }

    /// The direct calls of functions that do something with objects, outside of the kernel; `None` where a function that is not
    /// of the kernel calls what only the kernel does.
    fn calls(&self, inside: &[Addr]) -> Option<Vec<(Addr, Action)>> {
        let mut all = Vec::new();
        for at in self.places(2) {
            let call = || {
                let to = self.direct(at)?;
                let is_inside = inside.contains(&to);
                let action = self.action(to).filter(|_| !is_inside);
                ((is_inside || action.is_some()) && self.is_instruction(at)).then_some(action)
            };
            let Some(action) = call() else { continue };
            if self.function(at).is_some_and(|function| function.is_kernel) {
                continue;
            }
            all.push((at, action?));
        }
        Some(all)
    }

    /// True where code that is not the kernel's calls one of these functions of it directly.
    pub fn calls_kernel(&self, functions: &[Addr]) -> bool {
        let is_kernel = |at| self.function(at).is_some_and(|function| function.is_kernel);
        let leads = |at: &Addr| self.direct(*at).is_some_and(|to| functions.contains(&to));
        self.places(2).filter(leads).any(|at| !is_kernel(at))
    }

    /// Where the direct call or jump at an address leads.
    fn direct(&self, at: Addr) -> Option<Addr> {
        let first = self.half(at)?;
        let second = self.half(at.checked_add(2)?);
        match self.set {
            InstructionSet::Thumb => super::super::rules::target(first, second?, at.checked_add(4)?),
            set => {
                riscv_direct(set, at, first, second.unwrap_or_default(), at.checked_sub(4).and_then(|at| self.word(at)))
            }
        }
    }

    /// The direct calls and jumps of a RISC-V to the start of functions that are not of the kernel.
    fn between_functions(&self) -> Vec<(Addr, Addr)> {
        if self.set == InstructionSet::Thumb {
            return Vec::new();
        }
        let edge = |at: Addr| Some((at, self.direct(at).filter(|to| self.begins(*to))?));
        self.places(2).filter_map(edge).filter(|(at, _)| self.is_instruction(*at)).collect()
    }

    /// False for an address in the middle of an instruction of a RISC-V. Of a Cortex-M it is not known: constants are among its
    /// code. Addresses that rise are looked up in one walk of a function.
    fn is_instruction(&self, at: Addr) -> bool {
        let symbol = (self.symbol)(at).filter(|symbol| symbol.size != 0 && self.set != InstructionSet::Thumb);
        let Some(first) = symbol.map(|symbol| symbol.address) else { return true };
        let (walked, reached) = self.walked.get();
        let mut place = if walked == first && reached <= at { reached } else { first };
        while place < at {
            let Some(half) = self.half(place) else { return true };
            place = place.saturating_add(if self.set.is_wide(half) { 4 } else { 2 });
        }
        self.walked.set((first, place));
        place == at
    }

    /// Addresses of functions among the constants of the code: words, but for those of the kernel's own functions, and pairs of
    /// MOVW and MOVT (Armv7-M Architecture Reference Manual, A7.7.76 and A7.7.79), or of LUI or AUIPC and ADDI (The RISC-V
    /// Instruction Set Manual, volume I, 2.4).
    fn constants(&self) -> BTreeSet<Addr> {
        let is_kernel = |at| self.function(at).is_some_and(|function| function.is_kernel);
        // The kernel of a RISC-V has the address of the application's handler of traps.
        let is_own = |to| self.set == InstructionSet::Thumb || is_kernel(to);
        let pointer = |at: Addr, word: u32| self.pointer(word).filter(|to| !(is_kernel(at) && is_own(*to)));
        let beside = self.constants.iter().flat_map(|(start, bytes)| places(*start, bytes, 4));
        let mut all: BTreeSet<Addr> =
            self.places(4).chain(beside).filter_map(|at| pointer(at, self.word(at)?)).collect();
        for at in self.places(2) {
            match self.set {
                InstructionSet::Thumb => all.extend(self.built(at).and_then(|word| pointer(at, word))),
                _ => {
                    let added = self.added(at).into_iter().filter_map(|word| pointer(at, word));
                    all.extend(added.filter(|_| self.is_instruction(at)));
                }
            }
        }
        all
    }

    /// The constants whose upper part an instruction of a RISC-V sets: those that ADDI makes of it behind it. Those near 0, or
    /// near the global pointer, need ADDI alone.
    fn added(&self, at: Addr) -> Vec<u32> {
        let Some(first) = self.half(at) else { return Vec::new() };
        let word = || self.word(at);
        let base = match first & 3 {
            // C.LUI.
            1 if first >> 13 == 3 => {
                let sign = if first >> 12 & 1 == 1 { 0xFFFE_0000 } else { 0 };
                Some(sign | u32::from(first >> 2 & 0x1F) << 12)
            }
            3 if first & 0x7F == 0x37 => word().map(|word| word & 0xFFFF_F000),
            3 if first & 0x7F == 0x17 => {
                word().and_then(|word| Some((word & 0xFFFF_F000).wrapping_add(u32::try_from(at).ok()?)))
            }
            _ => None,
        };
        let Some(base) = base else {
            let added = self.addition(at).filter(|(from, _)| *from == 0 || *from == 3);
            let of = |(from, by): (u16, u32)| Some(by.wrapping_add(if from == 3 { self.global_pointer? } else { 0 }));
            return added.and_then(of).into_iter().collect();
        };
        let register = first >> 7 & 0x1F;
        // AUIPC and JALR are a direct call. LUI and JALR are one, too, of a function at a fixed address.
        let is_direct = first & 0x7F == 0x17;
        let jump = |at: Addr| self.word(at).filter(|word| !is_direct && word & 0x707F == 0x67).and_then(constant);
        let behind = (1..APART_RISCV).filter_map(|n| {
            let at = at.checked_add(n << 1)?;
            self.addition(at).or_else(|| jump(at))
        });
        behind.filter(|(from, _)| *from == register).map(|(_, by)| base.wrapping_add(by)).collect()
    }

    /// The register to which an instruction of a RISC-V adds a constant, and that: ADDI, C.ADDI and C.LI.
    fn addition(&self, at: Addr) -> Option<(u16, u32)> {
        let first = self.half(at)?;
        if first & 3 == 1 {
            let by = u32::from(first >> 2 & 0x1F) | if first >> 12 & 1 == 1 { 0xFFFF_FFE0 } else { 0 };
            return match first >> 13 {
                0 => Some((first >> 7 & 0x1F, by)),
                2 => Some((0, by)),
                _ => None,
            };
        }
        self.word(at).filter(|word| word & 0x707F == 0x13).and_then(constant)
    }

    /// The constant of which MOVW at an address sets the lower half, or the address of registers that MOV sets.
    fn built(&self, at: Addr) -> Option<u32> {
        let parts = |at: Addr, wanted: u16| {
            let first = self.half(at).filter(|first| first & 0xFBF0 == wanted)?;
            let second = self.half(at.checked_add(2)?).filter(|second| second >> 15 == 0)?;
            let low = u32::from(first & 0xF) << 12 | u32::from(first >> 10 & 1) << 11;
            Some((second >> 8, low | u32::from(second >> 12 & 7) << 8 | u32::from(second & 0xFF)))
        };
        // MOV of a constant that has few bits.
        let second = || self.half(at.checked_add(2)?).filter(|second| second >> 15 == 0);
        if let Some((first, second)) = self.half(at).filter(|first| first & 0xFBEF == 0xF04F).zip(second()) {
            return Some(expanded(first, second)).filter(|at| is_register(Addr::from(*at)));
        }
        let (register, low) = parts(at, 0xF240).map(|(register, low)| (register & 0xF, low))?;
        let upper = (2..APART).filter_map(|n| parts(at.checked_add(u64::try_from(n).ok()? << 1)?, 0xF2C0));
        let (_, high) = upper.map(|(register, high)| (register & 0xF, high)).find(|(other, _)| *other == register)?;
        Some(high << 16 | low)
    }

    /// The functions outside of the kernel that have an address of this memory among their constants, or make one.
    pub fn functions_with(&self, memory: Region) -> BTreeSet<Addr> {
        let is_in = |word: u32| memory.contains(Addr::from(word));
        let literals: BTreeSet<Addr> = self.places(2).filter_map(|at| self.literal(at)).collect();
        let words = literals.into_iter().filter(|at| self.word(*at).is_some_and(is_in));
        let made = self.places(2).filter(|at| match self.set {
            InstructionSet::Thumb => self.built(*at).is_some_and(is_in),
            _ => self.added(*at).into_iter().chain(self.accessed(*at)).any(is_in) && self.is_instruction(*at),
        });
        // Words in code of a RISC-V are instructions.
        let words = words.filter(|_| self.set == InstructionSet::Thumb);
        let functions = words.chain(made).filter_map(|at| self.function(at));
        functions.filter(|function| !function.is_kernel).map(|function| function.first).collect()
    }

    /// The constants of a function that may be addresses: those among its code, and those that it makes.
    pub fn constants_of(&self, first: Addr) -> BTreeSet<u32> {
        let Some(function) = self.function(first) else { return BTreeSet::new() };
        let of = |at: Addr| match self.set {
            InstructionSet::Thumb => {
                let literal = self.literal(at).and_then(|at| self.word(at));
                literal.into_iter().chain(self.built(at)).collect::<Vec<u32>>()
            }
            _ if self.is_instruction(at) => self.added(at).into_iter().chain(self.accessed(at)).collect(),
            _ => Vec::new(),
        };
        (function.first..=function.last).step_by(2).flat_map(of).collect()
    }

    /// True for a function with an instruction that disables interrupts: CPSID or MSR of BASEPRI or PRIMASK (Armv7-M Architecture
    /// Reference Manual, B5.2.1 and B5.2.3), or a write to `mstatus` of a RISC-V (The RISC-V Instruction Set Manual, volume II, 3.1.6).
    pub fn disables_interrupts(&self, first: Addr) -> bool {
        let Some(function) = self.function(first) else { return false };
        let is_it = |at: Addr| match self.set {
            InstructionSet::Thumb => {
                let second = at.checked_add(2).and_then(|at| self.half(at)).unwrap_or_default();
                let is_mask = |first: u16| first & 0xFFF0 == 0xF380 && matches!(second & 0xFFF, 0x810..=0x813);
                self.half(at).is_some_and(|first| matches!(first, 0xB671..=0xB673) || is_mask(first))
            }
            _ => {
                let is_status = |word: u32| word & 0x7F == 0x73 && word >> 20 == 0x300 && word >> 12 & 3 != 0;
                self.word(at).is_some_and(is_status) && self.is_instruction(at)
            }
        };
        (function.first..=function.last).step_by(2).any(is_it)
    }

    /// The word of the code that a load of a constant reads (Armv7-M Architecture Reference Manual, A7.7.43): an instruction may look
    /// like an address of RAM.
    fn literal(&self, at: Addr) -> Option<Addr> {
        let first = self.half(at)?;
        let base = at.checked_add(4)? & !3;
        if first >> 11 == 0b01001 {
            return base.checked_add(Addr::from(first & 0xFF) << 2);
        }
        let offset = Addr::from(self.half(at.checked_add(2)?)? & 0xFFF);
        match first {
            0xF8DF => base.checked_add(offset),
            0xF85F => base.checked_sub(offset),
            _ => None,
        }
    }

    /// The addresses that loads and stores of a RISC-V access whose upper part the instruction at an address sets, or that are near
    /// the global pointer.
    fn accessed(&self, at: Addr) -> Vec<u32> {
        let of = |at: Addr| {
            let word = self.word(at)?;
            match word & 0x7F {
                0x03 | 0x07 => constant(word),
                0x23 | 0x27 => constant(word & 0xFE00_0000 | (word >> 7 & 0x1F) << 20 | word & 0xF_8000),
                _ => None,
            }
        };
        let upper = self.word(at).and_then(|word| match word & 0x7F {
            0x37 => Some(word & 0xFFFF_F000),
            0x17 => Some((word & 0xFFFF_F000).wrapping_add(u32::try_from(at).ok()?)),
            _ => None,
        });
        let Some(upper) = upper else {
            let by_pointer = of(at).filter(|(base, _)| *base == 3);
            return by_pointer.zip(self.global_pointer).map(|((_, by), gp)| gp.wrapping_add(by)).into_iter().collect();
        };
        let register = self.half(at).map(|first| first >> 7 & 0x1F);
        // Up to the next instruction that sets the upper part of the same register.
        let sets = |first: u16| matches!(first & 0x7F, 0x37 | 0x17) && Some(first >> 7 & 0x1F) == register;
        let places = (2..APART_RISCV).map_while(|n| at.checked_add(n << 1));
        let behind = places.take_while(|at| !self.half(*at).is_some_and(sets)).filter_map(of);
        behind.filter(|(base, _)| Some(*base) == register).map(|(_, by)| upper.wrapping_add(by)).collect()
    }

    /// Addresses of functions in the memory that the program writes, with the first places of each; `None` where it cannot be read, or is
    /// too large. In small programs a number in a variable, or in an event, may be that of a service of the kernel.
    fn in_memory(&self, written: &[Region], case: &Case<'_>) -> Option<BTreeMap<Addr, BTreeSet<Addr>>> {
        if written.iter().fold(0u64, |sum, region| sum.saturating_add(region.len)) > MEMORY {
            return None;
        }
        let mut all: BTreeMap<Addr, BTreeSet<Addr>> = BTreeMap::new();
        let events = trace(case);
        let is_number =
            |at: Addr| events.is_some_and(|all| all.contains(at)) || case.look.is_pointer(at) == Some(false);
        for region in written {
            for piece in 0..region.len.div_ceil(PIECE) {
                let into = piece.checked_mul(PIECE)?;
                let bytes =
                    case.look.bytes(region.start.checked_add(into)?, PIECE.min(region.len.checked_sub(into)?))?;
                if is_zero(&bytes) {
                    continue;
                }
                // Of pointers of 64 bits the lower halves: the upper ones of addresses in the code are 0.
                let words = bytes.chunks_exact(4).filter_map(|word| Endian::Little.u32(word, 0));
                let places = (0..).map_while(|n: u64| region.start.checked_add(into)?.checked_add(n << 2));
                let pointers = places.zip(words).filter_map(|(at, word)| Some((at, self.pointer(word)?)));
                for (at, to) in pointers.filter(|(at, to)| self.action(*to).is_none() || !is_number(*at)) {
                    let places = all.entry(to).or_default();
                    if places.len() < PLACES {
                        places.insert(at);
                    }
                }
            }
        }
        Some(all)
    }

    /// The address in the code that a pointer to a function has. Of a RISC-V, where a pointer looks like any number, it is the
    /// first of one.
    pub fn pointer(&self, word: u32) -> Option<Addr> {
        let at = self.set.code_address(word).filter(|at| find(&self.regions, *at).is_some())?;
        let begins = || self.function(at).is_some_and(|function| function.first == at);
        (self.set == InstructionSet::Thumb || begins()).then_some(at)
    }

    fn places(&self, step: u64) -> impl Iterator<Item = Addr> + '_ {
        self.regions.iter().flat_map(move |(start, bytes)| places(*start, bytes, step))
    }

    /// True where a function that is not of the kernel begins.
    pub fn begins(&self, at: Addr) -> bool {
        self.function(at).is_some_and(|function| function.first == at && !function.is_kernel)
    }

    /// What the function does of which the one at an address is a part, or a copy for some arguments, that the compiler made:
    /// `_tx_semaphore_put.part.0`. Its arguments may be others.
    pub fn part_of_action(&self, at: Addr) -> Option<Action> {
        api::action((self.symbol)(at)?.name.split_once('.')?.0)
    }

    /// The name of the function of the kernel that begins at an address.
    pub fn kernel_name(&self, at: Addr) -> Option<String> {
        let symbol = (self.symbol)(at).filter(|symbol| symbol.address & !1 == at)?;
        Some(symbol.name).filter(|name| name.starts_with(KERNEL))
    }

    pub fn action(&self, at: Addr) -> Option<Action> {
        self.actions.get(&at).copied()
    }

    /// The bytes of a message of a queue.
    pub fn message_bytes(&self, queue: u32) -> Option<u32> {
        self.messages.get(&queue).copied()
    }

    pub fn function(&self, at: Addr) -> Option<Function> {
        let symbol = (self.symbol)(at)?;
        let first = symbol.address & !1;
        let len = if symbol.size == 0 { UNSIZED } else { symbol.size };
        let last = first.checked_add(len.checked_sub(1)?)?;
        Some(Function { first, last: last.max(at), is_kernel: symbol.name.starts_with(KERNEL) && symbol.name != BOARD })
    }

    pub fn half(&self, at: Addr) -> Option<u16> {
        let (bytes, into) = find(&self.regions, at)?;
        Endian::Little.u16(bytes, into)
    }

    /// The word at an address that the program does not write: within a function, or where its file says so.
    pub fn constant(&self, at: Addr) -> Option<u32> {
        let is_so = (self.is_read_only)(at) || self.function(at).is_some();
        if is_so { self.word(at) } else { None }
    }

    fn word(&self, at: Addr) -> Option<u32> {
        let (bytes, into) = find(&self.regions, at).or_else(|| find(&self.constants, at))?;
        Endian::Little.u32(bytes, into)
    }

    /// The direct calls of functions that do something with objects, outside of the kernel: where they are, and what they do.
    pub fn sites(&self) -> &[(Addr, Action)] {
        &self.sites
    }

    /// The direct calls and jumps of a RISC-V to the start of other functions.
    pub fn edges(&self) -> &[(Addr, Addr)] {
        &self.edges
    }

    /// The first places in memory that the program writes with the address of a function; `None` where a constant outside of the code has
    /// it, too.
    pub fn pointers_to(&self, function: Addr) -> Option<Vec<Addr>> {
        let is_constant = self.in_tables.get_or_init(|| self.pointers_in_tables()).contains(&function);
        let written = self.written.get(&function).into_iter().flatten().copied().collect();
        (!is_constant).then_some(written)
    }

    /// The addresses of functions among the constants outside of functions.
    fn pointers_in_tables(&self) -> BTreeSet<Addr> {
        let pointer = |at: Addr| self.word(at).and_then(|word| self.pointer(word));
        let beside = self.constants.iter().flat_map(|(start, bytes)| places(*start, bytes, 4)).filter_map(pointer);
        let tables = self.places(4).filter_map(|at| pointer(at).filter(|_| self.function(at).is_none()));
        tables.chain(beside).collect()
    }

    /// Addresses that pointers to functions may have.
    pub const fn pointed(&self) -> &BTreeSet<Addr> {
        &self.pointed
    }
}

/// The register and the constant of 12 bits of an instruction of a RISC-V.
fn constant(word: u32) -> Option<(u16, u32)> {
    Some((u16::try_from(word >> 15 & 0x1F).ok()?, (word.cast_signed() >> 20).cast_unsigned()))
}

fn find(regions: &[(Addr, Vec<u8>)], at: Addr) -> Option<(&[u8], usize)> {
    regions.iter().find_map(|(start, bytes)| {
        let into = usize::try_from(at.checked_sub(*start)?).ok()?;
        (into < bytes.len()).then_some((bytes.as_slice(), into))
    })
}

/// Addresses and bytes of regions; `None` where they are too much, or cannot be read.
fn parts(regions: &[Region], case: &Case<'_>) -> Option<Vec<(Addr, Vec<u8>)>> {
    let all = regions.iter().fold(0u64, |sum, region| sum.saturating_add(region.len));
    if all > MOST || regions.len() > REGIONS {
        return None;
    }
    regions.iter().map(|region| Some((region.start, bytes(case, region.start, region.len)?))).collect()
}

fn places(start: Addr, bytes: &[u8], step: u64) -> impl Iterator<Item = Addr> {
    let first = start.next_multiple_of(step);
    let count = (bytes.len() as u64).checked_div(step).unwrap_or_default();
    (0..count).map(move |n| first.wrapping_add(n.wrapping_mul(step)))
}

fn bytes(case: &Case<'_>, start: Addr, len: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for piece in 0..len.div_ceil(PIECE) {
        let into = piece.checked_mul(PIECE)?;
        all.extend(case.look.bytes(start.checked_add(into)?, PIECE.min(len.checked_sub(into)?))?);
    }
    Some(all)
}
