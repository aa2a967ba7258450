//! The storage of a queue, or the stack of a thread, that was given a size larger than its memory: it reaches over the
//! control block of another object, or over a variable of the kernel, and what is put there overwrites them. A control block
//! that is a local variable is in the stack as a whole: only one that the end of a stack cuts is such a case.

use std::collections::BTreeMap;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::text;
use crate::abi::{Addr, Region};
use crate::code;
use crate::kernel::{Kind, Object, PREFIX, Stacks, Thread};
use crate::trace::Severity;

/// The largest storage that is looked at.
const LARGEST: u64 = 1 << 20;
/// The most words without a variable that are passed over.
const GAPS: usize = 4096;
/// The most of what it reaches over that is named.
const NAMED: usize = 3;

/// Storage of one object.
struct Storage {
    of: Addr,
    name: String,
    region: Region,
    is_stack: bool,
}

/// What it reaches over: names by address.
type Victims = BTreeMap<Addr, String>;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let queues = kernel.objects.iter().filter_map(|object| queue(object, case));
    let stacks = kernel.threads.iter().filter_map(stack);
    queues.chain(stacks).filter_map(|storage| finding(&storage, &victims(&storage, case), case)).collect()
}

/// The storage of a queue whose members agree.
fn queue(object: &Object, case: &Case<'_>) -> Option<Storage> {
    let get = |name| object.get(name).filter(|_| object.kind == Kind::Queue);
    let (start, end) = get("start").zip(get("end"))?;
    let word = case.kernel?.layout.shape.word.bytes() as u64;
    let len = get("capacity")?.checked_mul(get("message_size")?)?.checked_mul(word)?;
    let region = Region { start, len };
    let is_whole = start.checked_add(len) == Some(end) && (1..=LARGEST).contains(&len) && start != 0;
    let name = format!("the storage of queue {}", object.label());
    is_whole.then_some(Storage { of: object.address, name, region, is_stack: false })
}

fn stack(thread: &Thread) -> Option<Storage> {
    let is_used = !thread.state.is_some_and(|state| matches!(state.0, 1 | 2)) && thread.stacks == Stacks::Own;
    let region = thread.stack.region().filter(|region| is_used && region.len <= LARGEST)?;
    let name = format!("the stack of {}", thread.label());
    thread.has_whole_stack().then_some(Storage { of: thread.address, name, region, is_stack: true })
}

fn victims(storage: &Storage, case: &Case<'_>) -> Victims {
    let mut all = control_blocks(storage, case);
    all.extend(variables(storage, case));
    all
}

/// Control blocks that begin in it.
fn control_blocks(storage: &Storage, case: &Case<'_>) -> Victims {
    let Some(kernel) = case.kernel else { return Victims::new() };
    let threads = kernel.threads.iter().map(|t| (t.address, kernel.layout.thread.len, format!("thread {}", t.label())));
    let len = |kind| kernel.layout.object(kind).map_or(0, |of| of.len);
    let objects = kernel.objects.iter().map(|o| (o.address, len(o.kind), case.object(o.address)));
    // One that was overwritten is in no list.
    let registered = case.events.into_iter().flat_map(crate::explain::Events::registered);
    let registered = registered.map(|(address, kind)| (address, len(kind), case.object(address)));
    let is_hit = |(address, len, _): &(Addr, u64, String)| {
        let block = Region { start: *address, len: *len };
        let is_local = storage.is_stack && block.is_within(storage.region);
        *address != storage.of && storage.region.contains(*address) && !is_local
    };
    registered.chain(objects).chain(threads).filter(is_hit).map(|(address, _, name)| (address, name)).collect()
}

/// Variables of the kernel that begin after its start: one that it begins in holds it.
fn variables(storage: &Storage, case: &Case<'_>) -> Victims {
    let (mut all, mut gaps) = (Victims::new(), 0);
    let mut at = storage.region.start;
    while storage.region.contains(at) && gaps < GAPS {
        let symbol = case.look.variable(at).filter(|symbol| symbol.size > 0);
        let end = symbol.as_ref().and_then(|symbol| symbol.address.checked_add(symbol.size)).filter(|end| *end > at);
        gaps = if end.is_some() { gaps } else { gaps.saturating_add(1) };
        if let Some(symbol) = symbol.filter(|s| s.address > storage.region.start && s.name.starts_with(PREFIX)) {
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
    let what = if storage.is_stack { "what is on it overwrites them" } else { "its messages overwrite them" };
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
            format!("{name} ({len} bytes from {start:#x}) reaches over {all}{more}: {what}"),
        )
        .evidence([Evidence::memory(storage.of, format!("{name}: {len} bytes, from {start:#x} to {last:#x}"))])
        .evidence(victims.iter().take(NAMED).filter_map(|(at, name)| begins(*at, name, storage, case)))
        .explains(broken.map(|issue| issue.message.clone()))
        .next(format!("compare the size that {name} was created with ({len} bytes) with the size of its memory"))
        .affected(victims.keys().copied()),
    )
}

/// What is there now.
fn begins(at: Addr, name: &str, storage: &Storage, case: &Case<'_>) -> Option<Evidence> {
    let into = storage.region.offset_of(at)?;
    let word = *case.words(&case.look.bytes(at, case.width())?, true).first()?;
    let reads = text(word, case).map_or_else(String::new, |text| format!(" (\"{text}\")"));
    Some(Evidence::memory(at, format!("{name} begins {into} bytes into it, and holds {word:#x}{reads}")).holds(word))
}
