//! Whether a write may be made. Every rule is here, and is applied before the first byte is written.
//!
//! An address comes from an ELF, a `--symbol` or a header, and each may be wrong. A write is made only where the address is
//! aligned, belongs to what is meant and to nothing else, and is in memory that is shown to be RAM.

use super::change::{Change, Destination};
use super::owners::{self, Owner, Owners, around};
use super::plan::{Plan, sound};
use super::state::State;
use crate::abi::{Addr, Width};
use crate::code::Code;
use crate::elf::Elf;
use crate::error::Error;
use crate::format::threadx::layout::TraceLayout;
use crate::format::threadx::symbols::{CURRENT, CURRENT_THREAD, ENABLE_BITS, SIMULATED_TIME, SYSTEM_STATE, TRACE};
use crate::mem::Region;
use crate::session::Target;
use crate::sym::Symbol;

/// Why a write is refused.
struct Refusal {
    /// The rest of a sentence about the address.
    why: String,
    code: Code,
    hint: &'static str,
}

impl Refusal {
    /// The address is not that of what is meant.
    fn wrong(why: impl Into<String>) -> Self {
        let hint = "give the --elf of the program that runs, and check each --symbol";
        Self { why: why.into(), code: Code::WrongAddress, hint }
    }

    /// What would be written, or where, is no insertion of the kernel.
    fn broken(why: impl Into<String>) -> Self {
        let hint = "reset the target, or check that the ELF is that of the running program";
        Self { hint, ..Self::wrong(why) }
    }

    /// The memory cannot be written, or nothing shows that it can.
    fn not_ram(why: &str, hint: &'static str) -> Self {
        Self { why: why.to_owned(), code: Code::NotRam, hint }
    }

    fn of_symbol(name: &str, address: Addr, size: u64) -> Self {
        Self::wrong(format!("is in another variable or function, {name} ({size} bytes at {address:#x})"))
    }

    fn error(&self, what: &str, address: Addr) -> Error {
        Error::failed(self.code, format!("nothing is written: {what} at {address:#x} {}", self.why), self.hint)
    }
}

/// Writes that may be made: only [`check`] makes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked(pub(super) Vec<Change>);

impl Checked {
    /// The writes, in their order.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }
}

/// Checks every write of a plan. `ranges` is memory that the user calls RAM.
///
/// # Errors
/// [`Error`] with the first rule that a write breaks, where ELF and memory are of different programs, or where the link fails.
pub fn check(target: &mut Target<'_>, state: &State, plan: Plan, ranges: &[Region]) -> Result<Checked, Error> {
    if plan.changes.is_empty() {
        return Ok(Checked(plan.changes));
    }
    let layout = sound(state)?;
    same_program(target)?;
    let writes: Vec<Region> = plan.changes.iter().map(Change::region).collect();
    let known = KnownMemory::read(target, state, &writes, ranges)?;
    for change in &plan.changes {
        let refused = |refusal: Refusal| refusal.error(&change.destination.to_string(), change.address);
        known.allow(&layout, change).map_err(refused)?;
    }
    // What need not be written is checked as well: with a wrong address "it is so already" would be wrong.
    Ok(Checked(plan.changes.into_iter().filter(Change::is_new).collect()))
}

/// Checks what a debugger is to call: the kernel's own `_tx_trace_enable` for this buffer, or, without one,
/// `_tx_trace_disable`.
///
/// # Errors
/// As [`check`].
pub fn check_call(target: &mut Target<'_>, buffer: Option<Region>, ranges: &[Region]) -> Result<(), Error> {
    same_program(target)?;
    let Some(buffer) = buffer.filter(|b| b.len > 0) else { return Ok(()) };
    let state = State::read(target)?;
    let known = KnownMemory::read(target, &state, &[buffer], ranges)?;
    known.allow_buffer(buffer).map_err(|refusal| refusal.error("the trace's buffer", buffer.start))
}

/// Fails where the ELF is not that of the program in memory.
fn same_program(target: &mut Target<'_>) -> Result<(), Error> {
    let hint = "give the ELF of the program that runs on the target";
    match target.mismatch() {
        Some(why) => Err(Error::failed(Code::ElfMismatch, format!("nothing is written: {why}"), hint)),
        None => Ok(()),
    }
}

/// What is known of the memory that is to be written.
struct KnownMemory<'a> {
    layout: Option<TraceLayout>,
    pointer: Width,
    /// The program, and what was added to its addresses.
    elf: Option<(&'a Elf, u64)>,
    /// The kernel's variables, wherever their names come from.
    variables: Vec<Symbol>,
    /// Where control blocks begin, as the registry has them.
    registered: &'a [Addr],
    owners: Owners,
    flash: Vec<Region>,
    ranges: &'a [Region],
}

impl<'a> KnownMemory<'a> {
    fn read(
        target: &'a mut Target<'_>,
        state: &'a State,
        writes: &[Region],
        ranges: &'a [Region],
    ) -> Result<Self, Error> {
        let layout = state.sound();
        let owners = Owners::read(target, state, writes);
        let flash = owners::read_only(target)?;
        let load = target.load_offset().value;
        let elf = target.elf().map(|elf| (elf, load));
        let names = TRACE.into_iter().chain([SIMULATED_TIME, CURRENT_THREAD, SYSTEM_STATE]);
        let variables = names.filter_map(|name| target.symbols().lookup(name)).collect();
        let registered = &state.registered;
        Ok(Self { layout, pointer: state.pointer, elf, variables, registered, owners, flash, ranges })
    }

    /// The rules for a write, one after the other.
    fn allow(&self, layout: &TraceLayout, change: &Change) -> Result<(), Refusal> {
        let region = change.region();
        let width = match change.destination {
            Destination::Variable(CURRENT) => self.pointer,
            _ => layout.word,
        };
        pointer_value(layout, width, change)?;
        match change.destination {
            Destination::Variable(name) => {
                aligned(region, width)?;
                self.variable(name, region, width)?;
            }
            // Where the program put its buffer, aligned or not, the kernel writes as well.
            Destination::Slot | Destination::Copy => insertion(layout, change.destination, region)?,
        }
        self.symbols(region, |name, symbol| match change.destination {
            Destination::Variable(meant) => name == meant && symbol.start == region.start,
            // That of a trace buffer holds its header too.
            Destination::Slot | Destination::Copy => symbol.contains(layout.header),
        })?;
        free(self.owners.blocks(), region)?;
        self.mask(layout, change)?;
        self.ram(region)
    }

    /// The rules for a buffer that the kernel is to use.
    fn allow_buffer(&self, region: Region) -> Result<(), Refusal> {
        aligned(region, Width::W4)?;
        self.symbols(region, |_, symbol| region.is_within(symbol))?;
        free(self.owners.blocks(), region)?;
        free(&self.owners.stacks, region)?;
        self.ram(region)
    }

    /// A variable of the kernel: of its own size, where the ELF has it, and outside of the trace and of stacks.
    fn variable(&self, name: &str, region: Region, width: Width) -> Result<(), Refusal> {
        let own = self.elf.and_then(|(elf, _)| elf.symbol(name));
        let size = own.as_ref().map(|own| own.size).filter(|size| *size != 0).unwrap_or(region.len);
        if size != width.size() || region.len != size {
            let width = width.bytes();
            let why = format!("has {size} bytes in the ELF, and the kernel's variable has {width}");
            return Err(Refusal::wrong(why));
        }
        if let Some(address) = own.map(|own| self.at_run_time(own.address)).filter(|a| *a != region.start) {
            return Err(Refusal::wrong(format!("is not where the ELF has it, {address:#x}")));
        }
        let other = |s: &&Symbol| s.name != name && region.overlaps(Region { start: s.address, len: s.size.max(1) });
        if let Some(s) = self.variables.iter().find(other) {
            return Err(Refusal::of_symbol(&s.name, s.address, s.size));
        }
        if let Some(part) = self.layout.and_then(|l| l.part_at(region)) {
            return Err(Refusal::wrong(format!("is in the trace, in its {part}")));
        }
        free(&self.owners.stacks, region)
    }

    /// What is taken for the mask of events must not be a pointer of the kernel.
    fn mask(&self, layout: &TraceLayout, change: &Change) -> Result<(), Refusal> {
        let value = layout.endian.word(layout.word, &change.before, 0).unwrap_or(0);
        let in_trace = layout.region().contains(value);
        let is_pointer = value != 0 && (self.registered.contains(&value) || in_trace);
        let is_mask = change.destination == Destination::Variable(ENABLE_BITS);
        if is_mask && is_pointer {
            return Err(Refusal::wrong(format!("holds {value:#x}, which is a pointer of the kernel, not a mask")));
        }
        Ok(())
    }

    /// Every symbol of the ELF in this region must be one that is meant.
    fn symbols(&self, region: Region, meant: impl Fn(&str, Region) -> bool) -> Result<(), Refusal> {
        let Some((elf, _)) = self.elf else { return Ok(()) };
        for symbol in elf.sharing(self.as_linked(region.start), region.len) {
            let address = self.at_run_time(symbol.address);
            // A compiler's own label (`.L_MergedGlobals`) covers the variables that it merged.
            if !symbol.name.starts_with('.') && !meant(&symbol.name, Region { start: address, len: symbol.size }) {
                return Err(Refusal::of_symbol(&symbol.name, address, symbol.size));
            }
        }
        Ok(())
    }

    fn at_run_time(&self, linked: Addr) -> Addr {
        self.elf.map_or(linked, |(elf, load)| elf.width().moved(linked, load))
    }

    fn as_linked(&self, address: Addr) -> Addr {
        self.elf.map_or(address, |(elf, load)| elf.width().moved_back(address, load))
    }

    /// Memory that can be written: nothing says that it cannot, and something shows that it can.
    fn ram(&self, region: Region) -> Result<(), Refusal> {
        if self.flash.iter().any(|f| f.overlaps(region)) {
            return Err(Refusal::not_ram(
                "is in flash or ROM, by the stub's memory map",
                "a dump behind `serve` cannot be written; for a live target give the --elf of the program that runs",
            ));
        }
        match self.elf.and_then(|(elf, _)| elf.writes(self.as_linked(region.start), region.len)) {
            Some(true) => return Ok(()),
            Some(false) => {
                let why = "is where the ELF says that the program does not write";
                return Err(Refusal { code: Code::NotRam, ..Refusal::wrong(why) });
            }
            None => {}
        }
        let known = self.layout.iter().map(TraceLayout::region).chain(self.owners.registered.iter().map(|o| o.region));
        let shown = known.map(around).chain(self.ranges.iter().copied()).any(|ram| region.is_within(ram));
        if shown {
            return Ok(());
        }
        Err(Refusal::not_ram(
            "is in no memory that is known to be RAM",
            "give the --elf of the program that runs, or name the RAM yourself: --range FIRST..LAST",
        ))
    }
}

fn aligned(region: Region, width: Width) -> Result<(), Refusal> {
    let width = width.bytes();
    if region.start.is_multiple_of(width as u64) {
        return Ok(());
    }
    Err(Refusal::wrong(format!("is not aligned to its {width} bytes")))
}

/// Fails where one of these overlaps the region.
fn free<'o>(owners: impl IntoIterator<Item = &'o Owner>, region: Region) -> Result<(), Refusal> {
    match owners.into_iter().find(|o| o.region.overlaps(region)) {
        Some(Owner { what, region }) => {
            Err(Refusal::wrong(format!("is in {what} ({} bytes at {:#x})", region.len, region.start)))
        }
        None => Ok(()),
    }
}

/// Where the next event goes must be a slot, or 0 where nothing is inserted.
fn pointer_value(layout: &TraceLayout, width: Width, change: &Change) -> Result<(), Refusal> {
    let value = layout.endian.word(width, &change.bytes, 0).unwrap_or(u64::MAX);
    let right = match change.destination {
        Destination::Variable(CURRENT) => value == 0 || layout.slot_at(value).is_some(),
        Destination::Copy => layout.slot_at(layout.place(value)).is_some(),
        Destination::Variable(_) | Destination::Slot => true,
    };
    if right {
        return Ok(());
    }
    Err(Refusal::broken(format!("would become {value:#x}, which is not a slot of the ring")))
}

/// In the trace an insertion writes a whole slot, and the header's copy of the current pointer.
fn insertion(layout: &TraceLayout, destination: Destination, region: Region) -> Result<(), Refusal> {
    let right = match destination {
        Destination::Slot => region.len == layout.entry_size() as u64 && layout.slot_at(region.start).is_some(),
        _ => region.start == layout.current_at() && region.len == layout.word.size(),
    };
    if right { Ok(()) } else { Err(Refusal::broken("is not where the kernel inserts an event")) }
}
