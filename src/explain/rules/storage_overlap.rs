//! The storage of a queue, the memory of a pool, or the stack of a thread, that was given a size larger than its memory: it reaches
//! over the control block of another object, the stack of a thread, or a variable of the kernel, and what is put there overwrites
//! them. A control block that is a local variable is in the stack as a whole: only one that the end of a stack cuts is such a case.
//! Stacks and control blocks may be blocks of a pool: what is larger than its blocks, what its end cuts, and what the program has as
//! another variable is none. Two stacks that overlap are a rule of their own.

use std::collections::BTreeMap;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::text;
use crate::abi::{Addr, Region};
use crate::code;
use crate::kernel::{Kind, Object, PREFIX, Stacks, Thread};
use crate::sym::Symbol;
use crate::trace::Severity;

/// The largest storage that is looked at.
const LARGEST: u64 = 1 << 20;
/// The most words without a variable that are passed over.
const GAPS: usize = 4096;
/// The fewest bytes of a variable that is memory for an object. What a linker script defines is smaller.
const SMALLEST: u64 = 16;
/// The most variables that it reaches over that are looked for.
const MOST: usize = 64;
/// The most of what it reaches over that is named.
const NAMED: usize = 3;

/// Storage of one object.
struct Storage {
    of: Addr,
    name: String,
    region: Region,
    holds: Holds,
}

/// What is put into storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Messages,
    /// Blocks of at most so many bytes.
    Blocks(u64),
    Stack,
}

/// What has a control block.
#[derive(Clone, Copy)]
enum Kinded {
    Thread,
    Object,
}

/// What it reaches over: names by address.
type Victims = BTreeMap<Addr, String>;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    all(case).filter_map(|storage| finding(&storage, &victims(&storage, case), case)).collect()
}

/// True for a thread whose stack other storage reaches over: what is no fill there may be of that.
pub(super) fn is_over_stack_of(thread: Addr, case: &Case<'_>) -> bool {
    all(case).any(|storage| stacks(&storage, case).any(|(_, of)| of.address == thread))
}

fn all<'k>(case: &Case<'k>) -> impl Iterator<Item = Storage> + 'k {
    let word = case.kernel.map_or(0, |kernel| kernel.layout.shape.word.bytes() as u64);
    let kernel = case.kernel.into_iter();
    kernel.flat_map(move |kernel| {
        let objects = kernel.objects.iter().filter_map(move |object| queue(object, word).or_else(|| pool(object)));
        objects.chain(kernel.threads.iter().filter_map(stack))
    })
}

/// The storage of a queue whose members agree.
fn queue(object: &Object, word: u64) -> Option<Storage> {
    let get = |name| object.get(name).filter(|_| object.kind == Kind::Queue);
    let (start, end) = get("start").zip(get("end"))?;
    let len = get("capacity")?.checked_mul(get("message_size")?)?.checked_mul(word)?;
    let region = Region { start, len };
    let is_whole = start.checked_add(len) == Some(end) && (1..=LARGEST).contains(&len) && start != 0;
    let name = format!("the storage of queue {}", object.label());
    is_whole.then_some(Storage { of: object.address, name, region, holds: Holds::Messages })
}

/// The memory of a pool.
fn pool(object: &Object) -> Option<Storage> {
    let is_pool = matches!(object.kind, Kind::BlockPool | Kind::BytePool);
    let (start, len) = object.get("start").zip(object.get("size")).filter(|_| is_pool)?;
    let is_believed = start != 0 && (1..=LARGEST).contains(&len) && start.checked_add(len).is_some();
    let name = format!("the memory of {} {}", object.kind.name(), object.label());
    let region = Region { start, len };
    let most = object.get("block_size").unwrap_or(len);
    is_believed.then_some(Storage { of: object.address, name, region, holds: Holds::Blocks(most) })
}

fn stack(thread: &Thread) -> Option<Storage> {
    let is_used = !thread.state.is_some_and(|state| matches!(state.0, 1 | 2)) && thread.stacks == Stacks::Own;
    let region = thread.stack.region().filter(|region| is_used && region.len <= LARGEST)?;
    let name = format!("the stack of {}", thread.label());
    thread.has_whole_stack().then_some(Storage { of: thread.address, name, region, holds: Holds::Stack })
}

fn victims(storage: &Storage, case: &Case<'_>) -> Victims {
    let mut all = control_blocks(storage, case);
    all.extend(variables(storage, case));
    all.extend(stacks(storage, case).map(|(at, thread)| (at, format!("the stack of {}", thread.label()))));
    all
}

/// Stacks that begin in it, and belong to other memory.
fn stacks<'k>(storage: &Storage, case: &Case<'k>) -> impl Iterator<Item = (Addr, &'k Thread)> {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let own = threads.filter_map(|thread| Some((stack(thread)?.region, thread)));
    let hit = own.filter(|(stack, _)| storage.region.contains(stack.start) && stack.start > storage.region.start);
    let other = hit.filter(|(stack, _)| storage.holds != Holds::Stack && !storage.may_own(*stack, case));
    other.map(|(stack, thread)| (stack.start, thread))
}

impl Storage {
    /// True where a stack or a control block may be in it on purpose.
    fn may_own(&self, other: Region, case: &Case<'_>) -> bool {
        match self.holds {
            Holds::Messages => false,
            Holds::Blocks(most) => {
                other.is_within(self.region) && other.len <= most && !is_other_variable(other.start, self, case)
            }
            Holds::Stack => other.is_within(self.region),
        }
    }
}

/// True where the program has a variable that begins after the start of the storage: what is there is no part of it.
fn is_other_variable(at: Addr, storage: &Storage, case: &Case<'_>) -> bool {
    let variable = case.look.variable(at).filter(|symbol| symbol.size > 0);
    variable.is_some_and(|symbol| symbol.address > storage.region.start)
}

/// Control blocks that begin in it.
fn control_blocks(storage: &Storage, case: &Case<'_>) -> Victims {
    let Some(kernel) = case.kernel else { return Victims::new() };
    let threads = kernel.threads.iter().map(|t| (t.address, kernel.layout.thread.len, Kinded::Thread));
    let len = |kind| kernel.layout.object(kind).map_or(0, |of| of.len);
    let objects = kernel.objects.iter().map(|o| (o.address, len(o.kind), Kinded::Object));
    // One that was overwritten is in no list.
    let registered = case.events.into_iter().flat_map(crate::explain::Events::registered);
    let registered = registered.map(|(address, kind)| (address, len(kind), Kinded::Object));
    let is_hit = |(address, len, _): &(Addr, u64, Kinded)| {
        let block = Region { start: *address, len: *len };
        *address != storage.of && storage.region.contains(*address) && !storage.may_own(block, case)
    };
    let hits: BTreeMap<Addr, Kinded> =
        registered.chain(objects).chain(threads).filter(is_hit).map(|(at, _, of)| (at, of)).collect();
    let name = |at: Addr, of: Kinded| match of {
        Kinded::Thread => format!("thread {}", case.label(at)),
        Kinded::Object => case.object(at),
    };
    hits.into_iter().map(|(at, of)| (at, name(at, of))).collect()
}

/// The variable in which storage begins, where that is smaller: where it ends, and its name.
fn own_variable(storage: &Storage, case: &Case<'_>) -> Option<(Addr, Symbol)> {
    let variable = case.look.variable(storage.region.start).filter(|variable| variable.size >= SMALLEST)?;
    let end = variable.address.checked_add(variable.size)?;
    // Several variables may have one address; the symbol of another may be shorter.
    let place = case.look.place(storage.region.start);
    let is_in = place.is_some_and(|place| {
        let rest = place.strip_prefix(&variable.name).map(str::to_owned);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.', '+']))
    });
    if !is_in || case.trust.other_build {
        return None;
    }
    (storage.region.contains(end) && !variable.name.starts_with('_')).then_some((end, variable))
}

/// Variables that begin after its start: one that it begins in holds it. Where that ends before the storage does, all that follow; else
/// those of the kernel alone, as the program may have names for parts of one piece of memory.
fn variables(storage: &Storage, case: &Case<'_>) -> Victims {
    let (mut all, mut gaps) = (Victims::new(), 0);
    let own = own_variable(storage, case);
    let is_behind = |symbol: &Symbol| {
        let is_own = own.as_ref().is_some_and(|(end, _)| symbol.address >= *end && !symbol.name.starts_with('_'));
        is_own || symbol.name.starts_with(PREFIX)
    };
    let mut at = storage.region.start;
    while storage.region.contains(at) && gaps < GAPS && all.len() < MOST {
        let symbol = case.look.variable(at).filter(|symbol| symbol.size > 0);
        let end = symbol.as_ref().and_then(|symbol| symbol.address.checked_add(symbol.size)).filter(|end| *end > at);
        gaps = if end.is_some() { gaps } else { gaps.saturating_add(1) };
        if let Some(symbol) = symbol.filter(|s| s.address > storage.region.start && is_behind(s)) {
            all.insert(symbol.address, symbol.name);
        }
        let Some(next) = end.or_else(|| at.checked_add(case.width())) else { break };
        at = next;
    }
    all
}

fn finding(storage: &Storage, victims: &Victims, case: &Case<'_>) -> Option<Finding> {
    let Region { start, len } = storage.region;
    let all: Vec<&str> = victims.values().take(NAMED).map(String::as_str).collect();
    all.first()?;
    let more = match victims.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let all = all.join(", ");
    let name = &storage.name;
    let what = match storage.holds {
        Holds::Messages => "its messages overwrite",
        Holds::Blocks(_) => "its blocks overwrite",
        Holds::Stack => "what is on it overwrites",
    };
    let them = if victims.len() == 1 { "it" } else { "them" };
    let last = start.saturating_add(len.saturating_sub(1));
    let broken = case
        .kernel?
        .issues
        .iter()
        .filter(|issue| issue.code == code::Code::KernelDamaged && issue.severity == Severity::Lost);
    Some(
        Finding::new(
            Code::CorruptControlBlock,
            case.cap(Confidence::Likely),
            format!("{name} ({len} bytes from {start:#x}) reaches over {all}{more}: {what} {them}"),
        )
        .evidence([Evidence::memory(storage.of, format!("{name}: {len} bytes, from {start:#x} to {last:#x}"))])
        .evidence(own_variable(storage, case).map(|(end, variable)| {
            let text = format!("{} is the memory that it begins in, and has {} bytes", variable.name, variable.size);
            Evidence::symbol(variable.address, &variable.name, format!("{text}: it ends at {end:#x}"))
        }))
        .evidence(victims.iter().take(NAMED).filter_map(|(at, name)| begins(*at, name, storage, case)))
        .explains(broken.map(|issue| issue.message.clone()))
        .next(format!("compare the size that was given for {name} ({len} bytes) with the memory that it really has"))
        .affected(victims.keys().copied().chain(stacks(storage, case).map(|(_, thread)| thread.address))),
    )
}

/// What is there now.
fn begins(at: Addr, name: &str, storage: &Storage, case: &Case<'_>) -> Option<Evidence> {
    let into = storage.region.offset_of(at)?;
    let word = *case.words(&case.look.bytes(at, case.width())?, true).first()?;
    let reads = text(word, case).map_or_else(String::new, |text| format!(" (\"{text}\")"));
    Some(Evidence::memory(at, format!("{name} begins {into} bytes into it, and holds {word:#x}{reads}")).holds(word))
}
