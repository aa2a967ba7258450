//! The CPU is in start-up code, and the RAM has a kernel that ran: the program has begun again over the RAM of an older run.
//! Its registers then explain nothing of that run. Why it was reset is in a register of the chip, which no rule knows.
//!
//! Against it: a program that a debugger has started again by hand.

use std::collections::BTreeSet;

use super::super::graph::Graph;
use super::super::state::{Does, Task, Wait};
use super::super::usage::User;
use super::super::{Behind, Case, Code, Confidence, Evidence, Finding};
use super::starvation::{self, is_enough};
use super::{interrupts, place, words};
use crate::abi::{Addr, Region};
use crate::kernel::{State, Thread};
use crate::session::{CpuState, is_of_kernel};

/// The functions of a backtrace that are named, and the threads.
const CALLERS: usize = 4;
const WAITS: usize = 6;
/// The kernel's current thread.
const CURRENT: &str = "_tx_thread_current_ptr";
/// The most interrupts that are named.
const NAMED: usize = 2;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(function) = case.kernel.and_then(|kernel| kernel.start_up.as_ref()) else { return Vec::new() };
    let cpu = case.cpus.and_then(|cpus| cpus.all.first());
    let pc = cpu.and_then(|cpu| cpu.registers.pc());
    let is_new = cpu.is_some_and(|cpu| cpu.registers.is_at_reset());
    let vector = pc.filter(|_| is_new).map(|pc| format!("at {pc:#x}, where it begins: all of its registers are 0"));
    let named = || cpu.and_then(|cpu| place::of(&cpu.functions)).unwrap_or_else(|| function.clone());
    let named = || format!("in {}", named());
    let at = vector.unwrap_or_else(named);
    let loops = cpu.and_then(|cpu| waits_in_loop(cpu, case)).unwrap_or_default();
    let last = last(case);
    let by = last.map_or_else(String::new, |last| format!(", in which {} had the processor last", last.label()));
    let kept = last.and_then(|last| kept(last, case, graph));
    let mut finding = Finding::new(
            Code::Reset,
            case.cap_of_registers(Confidence::Proven),
            format!("the program has begun again (the CPU is {at}{loops}) over the RAM of the run before{by}"),
        )
        // That a watchdog may not have been served explains the reset.
        .behind(kept.is_none().then_some(Behind::EarlierRun))
        .against(["a debugger may have started it again"])
        .evidence(pc.map(|pc| Evidence::register("pc", pc, format!("the CPU is {at}, before the kernel is entered"))))
        .evidence(cpu.and_then(|cpu| place::callers(&cpu.functions, CALLERS)))
        .evidence(cpu.and_then(|cpu| interrupts::polls(case, cpu)))
        .evidence(case.kernel.and_then(|kernel| kernel.threads.first()).map(|first| {
            Evidence::memory(first.address, format!("the threads in memory are of the run before ({})", first.label()))
        }))
        .evidence(last.and_then(|last| ready(last.address, case, graph)))
        .evidence(waited(case, graph))
        .next(
            "read the chip's reset-status register: watchdog, brown-out or software; the threads and waits are those of the run before"
                .to_owned(),
        );
    finding.otherwise = kept.map(|(words, evidence)| (words, vec![evidence]));
    vec![finding]
}

/// `, where it waits for g_ms (0x20005478) to change, as the handler of SysTick does: start-up code may wait before that is enabled`.
fn waits_in_loop(cpu: &CpuState, case: &Case<'_>) -> Option<String> {
    // A counter of ticks as well: the time that it measures is that of an interrupt.
    let reads = &cpu.polling.as_ref().filter(|polling| !polling.writes)?.reads;
    let all: Vec<String> = reads.iter().take(NAMED).map(|at| words::place_or_address(*at, case)).collect();
    let what = all.join(" and ");
    let users = reads.iter().filter_map(|at| Some(case.usage()?.users_of(Region { start: *at, len: case.width() })));
    let number = |user: User| if let User::Handler(number) = user { Some(u64::from(number)) } else { None };
    let handlers: BTreeSet<u64> = users.flatten().filter_map(number).collect();
    let names: Vec<String> = handlers.iter().take(NAMED).map(|number| interrupts::name(case, *number)).collect();
    let by = if names.is_empty() {
        String::new()
    } else {
        format!(
            ", which the handler of {} may change: start-up code may wait before that is enabled",
            names.join(" or ")
        )
    };
    Some(format!(", where it waits in a loop for {what} to change{by}"))
}

/// The thread that the kernel of the run before was in when it ended.
fn last<'k>(case: &Case<'k>) -> Option<&'k Thread> {
    let symbol = case.look.symbol(CURRENT)?;
    let word = case.words(&case.look.bytes(symbol.address, case.width())?, true).first().copied()?;
    case.kernel?.thread(word)
}

/// Where a thread was in the application's code when it was interrupted last.
fn in_code(thread: &Thread, case: &Case<'_>) -> Option<String> {
    let pc = *case.cpus?.frames(thread.address)?.first().filter(|_| thread.state == Some(State::READY))?;
    let is_own = case.look.function(pc).is_some_and(|function| !is_of_kernel(&function.name));
    is_own.then(|| words::place_at(pc, case))
}

/// `logger had not blocked for 2000 ticks of the trace (when it was switched out last, it was in crc (log.c:12)), and feeder was ready and
/// could not run`: by the end of the trace, with what shows it.
fn kept(last: &Thread, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let (events, hog) = (case.events.filter(|events| is_enough(events))?, graph.tasks.at(last.address)?);
    let (since, ran) = starvation::keeps(hog, events)?;
    let at = in_code(last, case)?;
    let is_starved = |task: &&Task| starvation::is_kept_off(task, hog) && events.lasts(task.address) >= since / 2;
    let starved: Vec<String> =
        graph.tasks.list.iter().filter(is_starved).take(WAITS).map(|task| case.label(task.address)).collect();
    let were = if starved.len() == 1 { "was" } else { "were" };
    let lasts = words::trace_ticks(since, case);
    let name = last.label();
    let evidence = Evidence::memory(last.address, format!("{name} ran for {ran} ticks of the trace in that time"));
    (!starved.is_empty()).then(|| {
        let words = format!(
            "{name} had not blocked for {lasts} (when it was switched out last, it was in {at}), and {} {were} ready and could not run",
            starved.join(", ")
        );
        (words, evidence)
    })
}

/// The threads that were ready beside the one that had the processor: one of them may be the one that a watchdog missed.
fn ready(last: Addr, case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let is_other = |task: &&Task| task.does == Does::Ready && task.address != last;
    let names: Vec<String> =
        graph.tasks.list.iter().filter(is_other).take(WAITS).map(|task| case.label(task.address)).collect();
    let text =
        format!("{} had the processor then; these were ready and did not run: {}", case.label(last), names.join(", "));
    (!names.is_empty()).then(|| Evidence::memory(last, text))
}

/// The threads that waited for ever in the run before. One that did nothing in the whole trace may be the one that a watchdog missed.
fn waited(case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let waits = |task: &Task| Some((task.address, task.wait.filter(|wait| wait.forever)?));
    let is_silent = |thread: &u64| case.events.is_some_and(|events| events.activity(*thread).is_none());
    let mut all: Vec<(u64, Wait)> = graph.tasks.list.iter().filter_map(waits).collect();
    all.sort_by_key(|(thread, _)| !is_silent(thread));
    let (first, _) = all.first()?;
    let named = |(thread, wait): &(u64, Wait)| {
        let silent = if is_silent(thread) { " (it has no event in the trace)" } else { "" };
        format!("{} for {}{silent}", case.label(*thread), case.object(wait.object))
    };
    let names: Vec<String> = all.iter().take(WAITS).map(named).collect();
    Some(Evidence::memory(*first, format!("these waited without a time-out then: {}", names.join(", "))))
}
