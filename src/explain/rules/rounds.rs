//! A loop that does not end, as in each round registers and memory hold the same, but for what decides nothing: it follows a list that
//! is a circle, moves on by 0 bytes, or its index never comes to where it ends. Its instructions are simulated to find that out, with
//! the registers and the memory of the target.
//!
//! Against it: another thread, an interrupt or a device may change what it reads, as that may end the loop. A list may be a circle
//! on purpose, and a thread look through it until an interrupt brings work: likely only where other threads are ready behind it, or
//! in an interrupt, also in one that another interrupt has interrupted. Where it follows no pointers it is a hint in a thread, and only
//! where other threads are ready behind it.

use super::super::cpus::{first_place, thread_of};
use super::super::graph::Graph;
use super::super::{Behind, Case, Code, Confidence, Evidence, Finding};
use super::heap::Suspect;
use super::set_by::{self, SetBy};
use super::words::place_or_address;
use super::{callback, fault, place};
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Architecture, Registers, Round, is_device, round};
use crate::kernel::{State, Thread};
use crate::session::{CpuState, Function, is_of_kernel};

/// The functions of a backtrace that are named, and the words.
const CALLERS: usize = 6;
const WORDS: usize = 4;
/// Those that the claim names.
const SAID: usize = 2;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let all = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    all.filter(|cpu| !fault::is_in(cpu)).filter_map(|cpu| of_cpu(cpu, case)).collect()
}

/// Of what the CPU runs, else of the thread or the interrupt that an interrupt left.
fn of_cpu(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let own = finding(cpu, (&cpu.registers, &cpu.functions), cpu.exception.as_deref(), case);
    own.or_else(|| {
        cpu.interrupted.as_ref().filter(|found| found.is_certain)?;
        let place = first_place(cpu)?;
        finding(cpu, (&place.registers, &place.functions), place.within.as_deref(), case)
    })
}

fn finding(
    cpu: &CpuState,
    (registers, functions): (&Registers, &[Function]),
    exception: Option<&str>,
    case: &Case<'_>,
) -> Option<Finding> {
    let name = functions.first()?.name.as_deref().filter(|name| !is_of_kernel(name))?;
    let is_constant = |at: Addr| case.cpus.is_some_and(|cpus| cpus.is_read_only(at));
    let found = round(registers, &|at| word(at, case), &is_constant)?;
    let thread = thread_of(cpu, case.kernel).filter(|_| exception.is_none());
    let behind = thread.map(|thread| behind(thread, case)).unwrap_or_default();
    let is_list = !found.follows.is_empty();
    // A thread may look through an array until an interrupt changes it.
    if found.reads.is_empty() && found.writes.is_empty() || !found.carries && exception.is_none() {
        return None;
    }
    if !is_list && exception.is_none() && behind.is_empty() {
        return None;
    }
    let who = match (exception, thread) {
        (Some(exception), _) => format!("the handler of {exception}"),
        (None, Some(thread)) => format!("thread {}", thread.label()),
        (None, None) => "the CPU".to_owned(),
    };
    let at = place::of(functions).unwrap_or_else(|| name.to_owned());
    // Who sets what the loop reads and leaves as it is, where it is no list.
    let set: Vec<(Addr, SetBy)> = if is_list { Vec::new() } else { set(&found, functions, case) };
    let said = set.iter().filter_map(|(at, set)| Some(set.words.as_ref()?.of(&name_of(*at, case))));
    let also: String = said.take(SAID).map(|words| format!("; {words}")).collect();
    let claim = format!("{who} is in a loop in {at} that does not end: {}{also}", why(&found, case));
    let keeps = exception.is_some() || !behind.is_empty();
    let claimed = if exception.is_some() || is_list && keeps { Confidence::Likely } else { Confidence::Hint };
    // A callback of a timer, or the handler of an interrupt.
    let is_short = exception.is_some() || thread.is_some_and(|thread| callback::is_timer_thread(thread, case));
    let ready = behind.iter().map(|thread| format!("{} is ready and does not run", thread.label()));
    let code = if exception.is_some() { Code::IsrNeverEnds } else { Code::Hang };
    Some(
        Finding::new(code, case.cap_of_registers(claimed), claim)
            .against(["another thread, an interrupt or a device may change what the loop reads"])
            .against((!set.is_empty()).then_some(set_by::AGAINST))
            .evidence(place::callers(functions, CALLERS))
            .evidence(found.reads.iter().take(WORDS).map(|(at, word)| {
                let name = case.look.place(*at).map_or_else(String::new, |name| format!("{name}: "));
                Evidence::memory(*at, format!("{name}the loop reads it in each round")).holds((*word).into())
            }))
            .evidence(found.writes.iter().take(WORDS).map(|at| {
                let name = case.look.place(*at).map_or_else(String::new, |name| format!("{name}: "));
                Evidence::memory(*at, format!("{name}the loop writes it"))
            }))
            .evidence(set.into_iter().map(|(_, set)| set.evidence))
            .explains(ready)
            .next(next(&found, case))
            .with_heap(functions, Suspect::Place, case)
            .affected(behind.iter().map(|thread| thread.address))
            .threads(thread.map(|thread| thread.address))
            .behind(is_short.then_some(Behind::RefusedCall))
            .running(
                functions.iter().filter_map(|function| case.look.function(function.pc & !1)).map(|f| f.address & !1),
            ),
    )
}

/// What sets the words that the loop reads, but for its own functions.
fn set(found: &Round, functions: &[Function], case: &Case<'_>) -> Vec<(Addr, SetBy)> {
    let start = |at: Addr| case.look.function(at & !1).map(|function| function.address & !1);
    let own: Vec<Addr> = functions.iter().filter_map(|function| start(function.pc)).collect();
    let of = |(at, word): &(Addr, u32)| Some((*at, SetBy::of(*at, (*word).into(), case)?));
    let is_other = |set: &SetBy| set.evidence.address.and_then(start).is_none_or(|at| !own.contains(&at));
    found.reads.iter().take(WORDS).filter_map(of).filter(|(_, set)| is_other(set)).collect()
}

/// A number, or an address.
fn written(word: u32) -> String {
    if word < 0x1_0000 { word.to_string() } else { format!("{word:#x}") }
}

/// A variable, or an address.
fn name_of(at: Addr, case: &Case<'_>) -> String {
    case.look.place(at).unwrap_or_else(|| format!("{at:#x}"))
}

/// What makes it go on for ever.
fn why(found: &Round, case: &Case<'_>) -> String {
    let names: Vec<String> = found.follows.iter().take(WORDS).map(|at| place_or_address(*at, case)).collect();
    let held: Vec<String> = found
        .reads
        .iter()
        .take(SAID)
        .map(|(at, word)| format!("{} = {}", name_of(*at, case), written(*word)))
        .collect();
    match (names.as_slice(), held.as_slice(), found.writes.as_slice()) {
        ([one], ..) => format!("the list that it follows is a circle: {one} points to its own element"),
        ([_, ..], ..) => {
            let more = if found.follows.len() > names.len() { ", ..." } else { "" };
            format!("the list that it follows is a circle of {}: {}{more}", found.follows.len(), names.join(", "))
        }
        ([], [_, ..], []) => {
            format!("what decides is the same in each round ({})", held.join(", "))
        }
        ([], _, [_, ..]) => {
            let writes: Vec<String> = found.writes.iter().take(SAID).map(|at| name_of(*at, case)).collect();
            let held = if held.is_empty() { String::new() } else { format!(" with {}", held.join(" and ")) };
            format!("it changes {}, and{held} it never comes to its end", writes.join(" and "))
        }
        ([], [], []) => "its registers are the same in each round".to_owned(),
    }
}

fn next(found: &Round, case: &Case<'_>) -> String {
    match (found.follows.first(), found.reads.first()) {
        (Some(at), _) => format!(
            "look for who sets {}: an element that is added to a list while it is in it, or freed while it is still in the list",
            place_or_address(*at, case)
        ),
        (None, Some((at, _))) => {
            format!("look for who sets {}, and for what the loop waits", place_or_address(*at, case))
        }
        (None, None) => "look at what should end the loop".to_owned(),
    }
}

/// Threads that are ready and cannot run before it.
fn behind<'k>(thread: &Thread, case: &Case<'k>) -> Vec<&'k Thread> {
    let is_behind = |other: &&Thread| {
        let ready = other.state == Some(State::READY) && other.core.is_none() && other.address != thread.address;
        ready && other.priority.zip(thread.priority).is_some_and(|(other, own)| other >= own)
    };
    case.kernel.into_iter().flat_map(|kernel| &kernel.threads).filter(is_behind).collect()
}

/// A word of memory that may be read without an effect on a device.
pub(super) fn word(at: Addr, case: &Case<'_>) -> Option<u32> {
    let cpus = case.cpus?;
    let known = Region { start: at, len: 4 };
    // Whatever sections a program has there.
    let is_cortex_m = case.kernel?.processor == Some(Architecture::CortexM);
    let is_refused = is_cortex_m && is_device(at);
    let is_safe = case.look.is_stored() || !is_refused && (cpus.is_read_only(at) || cpus.writes(known));
    let bytes = Some(()).filter(|()| is_safe).and_then(|()| case.look.bytes(at, 4))?;
    case.kernel?.layout.shape.endian.u32(&bytes, 0).filter(|_| case.kernel.is_some_and(is_little))
}

fn is_little(kernel: &crate::kernel::Kernel) -> bool {
    kernel.layout.shape.endian == Endian::Little
}
