//! The main stack, on which interrupts and the start-up code run, overflowed into what is below it. It has no control block, no
//! fill and no check: the control blocks and variables directly below it are damaged first, and none of the threads is to blame.
//! The kernel keeps its top (`_tx_thread_system_stack_ptr`). It is likely where the damaged block is the last variable below that
//! top, and the memory from its end on was written.
//!
//! Against it: a write past the end of what is in front of that block. Where other stacks or objects are between the block and the
//! top, and are whole, it is none.

use std::collections::BTreeSet;

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::stack_calls::{self, is_return};
use super::{corrupt_pool, frames, large_frames, words};
use crate::abi::{Addr, Region};
use crate::code;
use crate::kernel::{Kernel, Kind, Object};

/// Where the kernel keeps the top of the main stack.
const TOP: &str = "_tx_thread_system_stack_ptr";
/// The largest main stack that is expected.
const LARGEST: u64 = 1 << 14;
/// Bytes above the block that the overflow wrote on its way.
const WAY: u64 = 32;

/// Bytes below the main stack in which the words of an overflow are looked for, and the fewest of these.
const SPILLED: u64 = 64;
const FEWEST: usize = 3;
/// The fewest of them in the stack of a thread that are addresses in the main stack.
const FEW_OWN: usize = 2;
/// Functions of the heap of a C library.
const HEAP: [&str; 3] = ["_sbrk", "_malloc_r", "malloc"];
/// The number of SysTick, and of the first interrupt.
const FIRST_THAT_RETURNS: u32 = 15;
const NEXT: &str = "make the main stack larger, and look for interrupts that interrupt each other, and handlers with large local variables";
/// Bytes from the end of the main stack on that it used last.
const DEEP: u64 = 256;
/// The longest run of the same bytes in them.
const RUN: usize = 48;

/// A damaged control block.
struct Damage {
    address: Addr,
    len: u64,
    label: String,
    text: String,
    /// What else it affects: the pool whose memory it is, and who follows what was written there.
    affected: Vec<Addr>,
}

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let Some(top) = top(kernel, case) else { return Vec::new() };
    if let Some(found) = spilled(top, kernel, case) {
        return vec![found];
    }
    // A block that was overwritten shows more than a frame that may have reached below.
    damaged(top, kernel, case).or_else(|| reaches_below(top, kernel, case)).into_iter().collect()
}

/// The last control block below the top was overwritten.
fn damaged(top: Addr, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let near = |damage: &Damage| top.checked_sub(damage.address).is_some_and(|below| below <= LARGEST);
    let mut all: Vec<Damage> = damages(kernel, case).into_iter().filter(near).collect();
    all.sort_by_key(|damage| std::cmp::Reverse(damage.address));
    let first = all.first()?;
    let end = end(first, top, case).filter(|end| is_last(*end, top, &all, kernel, case))?;
    let claimed = claimed(end, top, case)?;
    // A pool is damaged by whoever uses its memory after a release, too.
    let is_pool = all.iter().any(|damage| !damage.affected.is_empty());
    let claimed = if is_pool && !is_used(end, top, case) { Confidence::Hint } else { claimed };
    Some(finding(&all, top, end, claimed, case))
}

/// True where the words of the kernel at the end of a pool's memory are damaged, and the main stack directly above them was used to its
/// end.
pub(super) fn is_above(pool: &Object, case: &Case<'_>) -> bool {
    let is_so = || {
        let kernel = case.kernel?;
        let (top, damage) = (top(kernel, case)?, end_of_pool(pool, case)?);
        let near = top.checked_sub(damage.address).is_some_and(|below| below <= LARGEST);
        let end = end(&damage, top, case).filter(|_| near)?;
        Some(is_used(end, top, case) && is_last(end, top, &[damage], kernel, case))
    };
    is_so() == Some(true)
}

/// The words of an overflow in the variables below the main stack: return addresses, and addresses in the main stack. In one variable
/// alone they may be there on purpose.
fn spilled(top: Addr, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let end = end_of_variables(top, case)?;
    let width = kernel.layout.shape.pointer.bytes() as u64;
    let is_own = |word: Addr| (end..top).contains(&word);
    let words = |start: Addr, end: Addr| {
        let bytes = case.look.bytes(start, end.checked_sub(start)?)?;
        let places = (0..).map_while(|n: u64| start.checked_add(n.checked_mul(width)?));
        let all = places.zip(case.words(&bytes, true));
        // A pointer to a function may be behind the call with which another one ends.
        let begins =
            |word: Addr| case.look.function(word & !1).is_some_and(|function| function.address & !1 == word & !1);
        let is_back = |word: Addr| is_return(word, case) && !begins(word);
        Some(all.filter(|(_, word)| is_own(*word) || is_back(*word)).collect::<Vec<(Addr, Addr)>>())
    };
    let start = end.checked_sub(SPILLED)? & !width.checked_sub(1)?;
    let named = |(at, word): (Addr, Addr)| Some((at, word, case.look.variable(at)?.name));
    let all: Vec<(Addr, Addr, String)> =
        words(start, end)?.into_iter().filter_map(named).filter(|(.., name)| name != TOP).collect();
    let variables: BTreeSet<&String> = all.iter().map(|(.., name)| name).collect();
    let owned: BTreeSet<&String> = all.iter().filter(|(_, word, _)| is_own(*word)).map(|(.., name)| name).collect();
    // What a handler of faults keeps has such words, too, while the end of the main stack was not used. Variables of the kernel never do.
    let is_kernels = variables.iter().any(|name| name.starts_with("_tx"));
    let goes_on = || words(end, end.saturating_add(SPILLED).min(top)).is_some_and(|all| all.len() >= FEWEST);
    let is_kept = !(is_kernels || all.len() > FEWEST && goes_on());
    // Where the end of the main stack was not used, it is cleared or filled with one word.
    let above: BTreeSet<Addr> =
        case.words(&case.look.bytes(end, SPILLED.min(top.saturating_sub(end)))?, true).into_iter().collect();
    // The oldest end of a thread's stack never has addresses in the main stack. Its own calls leave return addresses there.
    let victims = || kernel.threads.iter().filter(|thread| thread.holds(end.saturating_sub(width)));
    let is_in_stack = victims().next().is_some();
    if is_in_stack && !is_alone(end, top, kernel) {
        return None;
    }
    let is_kept = if is_in_stack { all.iter().filter(|(_, word, _)| is_own(*word)).count() < FEW_OWN } else { is_kept };
    if owned.is_empty() || is_kept || all.len() < FEWEST || above.len() < FEWEST {
        return None;
    }
    let of_thread = |name: &str| {
        victims().next().map_or_else(|| name.to_owned(), |thread| format!("the stack of {}", thread.label()))
    };
    let names: Vec<String> = variables.iter().rev().take(3).map(|name| of_thread(name)).collect();
    let room = top.saturating_sub(end);
    let calls = stack_calls::of_main(Region { start, len: top.saturating_sub(start) }, room, case);
    let words = calls.as_ref().and_then(|calls| calls.words(0));
    let largest = words.map_or_else(String::new, |words| format!("; {words}"));
    let (by, handler) = deepest(case).unzip();
    let by = by.unwrap_or_default();
    let more = variables.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = |word: Addr| if is_own(word) { "an address in the main stack" } else { "a return address" };
    let shown = all.iter().rev().take(3);
    let shown = shown.map(|(at, word, name)| {
        let place = case.look.place(*at).unwrap_or_else(|| name.clone());
        Evidence::memory(*at, format!("{place} holds {}", text(*word))).holds(*word)
    });
    let over = kernel.overwritten.iter().filter_map(|block| Some(block.damage()?.0)).filter(|_| is_kernels);
    let issues = kernel.issues.iter().filter(|issue| is_kernels && issue.code == code::Code::KernelDamaged);
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap(if is_in_stack && has_heap(case) { Confidence::Hint } else { Confidence::Likely }),
            format!(
                "the main stack ({room} bytes below {top:#x}), on which interrupts run, overflowed into {}{more}: words of a stack are there{largest}{by}",
                names.join(", ")
            ),
        )
        .against(["these words are what a stack has by their values alone"])
        .evidence([Evidence::stack(top, format!("{TOP}: the main stack begins here, and grows down")).named(TOP)])
        .evidence([Evidence::memory(end, format!("the last variable below it ends here: the main stack has {room} bytes"))])
        .evidence(shown)
        .evidence(calls.map(|calls| calls.evidence))
        .evidence(handler)
        .next(NEXT)
        .threads(over)
        .threads(victims().map(|thread| thread.address))
        .affected(issues.filter_map(|issue| issue.place.address)),
    )
}

/// The handler whose calls need the most of the main stack, by the code: `; by the code the handler of IRQ 8 may need the most
/// of it, in note (gate.c:55): up to 640 bytes`; and as evidence.
fn deepest(case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let frame = |at: Addr| frames::of_any(at, case).unwrap_or(0);
    // Those of faults do not return.
    let numbers = usage.handlers().into_iter().filter(|number| *number >= FIRST_THAT_RETURNS);
    let all = numbers.map(|number| (usage.deepest(User::Handler(number), &frame), number));
    let (deepest, number) = all.max().filter(|(deepest, _)| deepest.bytes > 0)?;
    let (first, _) = *deepest.functions.last()?;
    let (name, bytes) = (user_name(User::Handler(number), case), deepest.bytes);
    let shown = Evidence::symbol(first, &words::function_at(first, case), large_frames::chain(&deepest, case));
    let own = deepest.functions.iter().rev().nth(1);
    let through = own.map_or_else(String::new, |(at, _)| format!(", in {}", words::place_at(*at, case)));
    Some((format!("; by the code the handler of {name} may need the most of it{through}: up to {bytes} bytes"), shown))
}

/// True where no stack of a thread, no object and no memory of a pool is between the last variable and the top, as where memory behind the
/// variables is given to them.
fn is_alone(end: Addr, top: Addr, kernel: &Kernel) -> bool {
    let between = |at: Addr| (end..top).contains(&at);
    let stacks = kernel.threads.iter().filter_map(|thread| thread.stack.start);
    let blocks = kernel.threads.iter().map(|thread| thread.address).chain(kernel.objects.iter().map(|o| o.address));
    let storage = kernel.objects.iter().filter_map(|object| object.get("start"));
    !stacks.chain(blocks).chain(storage).any(between)
}

/// True for a program with the heap of a C library, which may be between the last variable and the main stack.
fn has_heap(case: &Case<'_>) -> bool {
    HEAP.iter().any(|name| case.look.symbol(name).is_some())
}

/// A frame of what was called on the main stack reaches below its end.
fn reaches_below(top: Addr, kernel: &Kernel, case: &Case<'_>) -> Option<Finding> {
    let end = end_of_variables(top, case).filter(|end| is_alone(*end, top, kernel) && is_used(*end, top, case))?;
    let room = top.checked_sub(end)?;
    let stack = Region { start: end, len: room };
    let evidence = frames::of_stack(stack, "", case)?;
    let calls = stack_calls::of_main(stack, room, case).filter(|calls| calls.count >= FEWEST);
    // One word that looks like a return address shows little.
    let claimed = if calls.is_some() && !has_heap(case) { Confidence::Likely } else { Confidence::Hint };
    let words = calls.as_ref().and_then(|calls| calls.words(0));
    let largest = words.map_or_else(String::new, |words| format!("; {words}"));
    let (by, handler) = deepest(case).unzip();
    let by = by.unwrap_or_default();
    let last = end.checked_sub(4)?;
    let victim = kernel.threads.iter().find(|thread| thread.holds(last));
    let below = match victim {
        Some(thread) => format!("the stack of {}", thread.label()),
        None => case.look.variable(last)?.name,
    };
    Some(
        Finding::new(
            Code::StackOverflow,
            case.cap(claimed),
            format!("the main stack ({room} bytes below {top:#x}), on which interrupts run, overflowed into {below}{largest}{by}"),
        )
        .against(["a word that only looks like a return address gives the same"])
        .evidence([Evidence::stack(top, format!("{TOP}: the main stack begins here, and grows down")).named(TOP)])
        .evidence([Evidence::memory(end, format!("the last variable below it ends here: the main stack has {room} bytes"))])
        .evidence([evidence])
        .evidence(calls.map(|calls| calls.evidence))
        .evidence(handler)
        .next(NEXT)
        .threads(victim.map(|thread| thread.address)),
    )
}

/// Where the last variable below the top of the main stack ends; of an array that is the stack, where it begins.
fn end_of_variables(top: Addr, case: &Case<'_>) -> Option<Addr> {
    let mut at = top.checked_sub(4)?;
    if let Some(symbol) = case.look.variable(at).filter(|symbol| symbol.size > 0) {
        at = symbol.address.checked_sub(4)?;
    }
    let least = top.saturating_sub(LARGEST);
    while at >= least {
        if let Some(symbol) = case.look.variable(at).filter(|symbol| symbol.size > 0) {
            return symbol.address.checked_add(symbol.size).filter(|end| *end < top);
        }
        at = at.checked_sub(4)?;
    }
    None
}

fn top(kernel: &Kernel, case: &Case<'_>) -> Option<Addr> {
    let variable = case.look.symbol(TOP)?;
    let bytes = case.look.bytes(variable.address, kernel.layout.shape.pointer.bytes() as u64)?;
    let top = *case.words(&bytes, true).first()?;
    (top != 0 && top.is_multiple_of(8)).then_some(top)
}

/// What does not hold what it should, each once, with what shows it.
fn damages(kernel: &Kernel, case: &Case<'_>) -> Vec<Damage> {
    let thread = |address: Addr| format!("thread {}", case.label(address));
    let len = |kind: Option<Kind>| match kind {
        None => kernel.layout.thread.len,
        Some(kind) => kernel.layout.object(kind).map_or(0, |of| of.len),
    };
    let over = kernel.overwritten.iter().filter_map(|block| {
        let (address, text) = block.damage()?;
        let label = block.kind.map_or_else(|| thread(address), |_| case.object(address));
        Some(Damage { address, len: len(block.kind), label, text, affected: Vec::new() })
    });
    let mut all: Vec<Damage> = over.collect();
    let issues = kernel.issues.iter().filter(|issue| issue.code == code::Code::KernelDamaged);
    for (at, issue) in issues.filter_map(|issue| Some((issue.place.address?, issue))) {
        let threads = kernel.threads.iter().map(|t| (t.address, len(None), true));
        let objects = kernel.objects.iter().map(|o| (o.address, len(Some(o.kind)), false));
        let is_in = |(start, len, _): &(Addr, u64, bool)| Region { start: *start, len: *len }.contains(at);
        let Some((address, len, is_thread)) = threads.chain(objects).find(is_in) else { continue };
        if !all.iter().any(|damage| damage.address == address) {
            let label = if is_thread { thread(address) } else { case.object(address) };
            all.push(Damage { address, len, label, text: issue.message.clone(), affected: Vec::new() });
        }
    }
    all.extend(kernel.objects.iter().filter_map(|pool| end_of_pool(pool, case)));
    all
}

/// The words of the kernel at the end of a pool's memory, where they do not hold what they should.
fn end_of_pool(pool: &Object, case: &Case<'_>) -> Option<Damage> {
    // A block in use may have been written past its end.
    let damage =
        corrupt_pool::blocks(pool, case)?.damage.filter(|damage| damage.front.is_some_and(|front| front.is_free))?;
    let end = pool.get("start")?.checked_add(pool.get("size")?)?;
    let len = end.checked_sub(damage.at).filter(|len| *len <= WAY)?;
    let label = format!("the memory of {}", case.object(pool.address));
    let first = damage.words.first()?;
    let text = format!("{label}: where its last block begins, it holds {first:#x}");
    let follow = corrupt_pool::followers(&damage.words, case).into_iter().chain(corrupt_pool::searchers(case));
    let affected = std::iter::once(pool.address).chain(follow).collect();
    Some(Damage { address: damage.at, len, label, text, affected })
}

/// Where the variable of a block ends, or the block where it has none.
fn end(damage: &Damage, top: Addr, case: &Case<'_>) -> Option<Addr> {
    let symbol = case.look.variable(damage.address).filter(|symbol| symbol.size > 0);
    let of_symbol = symbol.and_then(|symbol| symbol.address.checked_add(symbol.size));
    of_symbol.or_else(|| damage.address.checked_add(damage.len)).filter(|end| *end <= top)
}

/// True where nothing else is between a block and the top: no variable but the stack itself, no thread's stack, no object.
fn is_last(end: Addr, top: Addr, all: &[Damage], kernel: &Kernel, case: &Case<'_>) -> bool {
    let between = |at: Addr| at >= end && at < top;
    let damaged = |at: Addr| all.iter().any(|damage| damage.address == at);
    let stacks = kernel.threads.iter().filter(|t| !damaged(t.address)).filter_map(|t| t.stack.start);
    let blocks = kernel.threads.iter().map(|t| t.address).chain(kernel.objects.iter().map(|o| o.address));
    if stacks.chain(blocks).any(between) {
        return false;
    }
    let mut at = end;
    while at < top {
        match case.look.variable(at).filter(|symbol| symbol.size > 0) {
            // An array may be kept for the stack.
            Some(symbol) => return symbol.address.checked_add(symbol.size) == Some(top),
            None => at = at.saturating_add(8),
        }
    }
    true
}

/// How sure it is: the memory of the main stack above the block was written, so it is neither cleared nor filled. Where a dump has
/// left it out, only the last bytes of the variable can show it, and these are hardly ever all the same: a hint.
fn claimed(end: Addr, top: Addr, case: &Case<'_>) -> Option<Confidence> {
    let above = case.look.bytes(end, WAY.min(top.saturating_sub(end))).filter(|bytes| !bytes.is_empty());
    if let Some(bytes) = above {
        return is_mixed(&bytes).then_some(Confidence::Likely);
    }
    let last = case.look.bytes(end.checked_sub(WAY)?, WAY)?;
    is_mixed(&last).then_some(Confidence::Hint)
}

/// True where the memory of the main stack above its end was used: no run of the same bytes is longer than a small variable.
fn is_used(end: Addr, top: Addr, case: &Case<'_>) -> bool {
    let above = case.look.bytes(end, DEEP.min(top.saturating_sub(end))).unwrap_or_default();
    !above.is_empty() && !above.windows(RUN).any(|run| run.windows(2).all(|pair| pair.first() == pair.last()))
}

/// True for bytes that are not all the same.
fn is_mixed(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair.first() != pair.last())
}

fn finding(all: &[Damage], top: Addr, end: Addr, claimed: Confidence, case: &Case<'_>) -> Finding {
    let names: Vec<&str> = all.iter().map(|damage| damage.label.as_str()).take(3).collect();
    let room = top.saturating_sub(end);
    let issues = case.kernel.into_iter().flat_map(|kernel| &kernel.issues);
    let places = issues
        .filter_map(|issue| issue.place.address)
        .filter(|at| all.iter().any(|damage| Region { start: damage.address, len: damage.len }.contains(*at)));
    Finding::new(
        Code::StackOverflow,
        case.cap(claimed),
        format!(
            "the main stack ({room} bytes below {top:#x}), on which interrupts run, overflowed into {}",
            names.join(", ")
        ),
    )
    .against(
        (claimed == Confidence::Hint).then_some("this dump lacks the memory of the main stack, or it was hardly used"),
    )
    .against(["a write past the end of what is in front of it may have done the same"])
    .evidence([Evidence::stack(top, format!("{TOP}: the main stack begins here, and grows down")).named(TOP)])
    .evidence([Evidence::memory(end, format!("the last variable below it ends here: the main stack has {room} bytes"))])
    .evidence(all.iter().take(3).map(|damage| {
        let reads = ascii(damage.address, case).map_or_else(String::new, |text| format!("; it holds \"{text}\""));
        Evidence::memory(damage.address, format!("{}{reads}", damage.text))
    }))
    .next("make the main stack larger, and look for interrupt handlers with large local variables")
    .threads(all.iter().map(|damage| damage.address))
    .affected(places)
    .affected(all.iter().flat_map(|damage| damage.affected.iter().copied()))
}

/// The text that a block begins with, where it is some.
fn ascii(at: Addr, case: &Case<'_>) -> Option<String> {
    let bytes = case.look.bytes(at, 16)?;
    let is_text = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    is_text.then(|| String::from_utf8_lossy(&bytes).into_owned())
}
