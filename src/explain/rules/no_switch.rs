//! The kernel wants to run a thread, and for long no thread runs: an interrupt comes again at once, or does not end, and
//! PendSV, which switches threads on a Cortex-M, is pending, or was interrupted before it had chosen the thread. Events go on
//! to come, of more urgent interrupts: those of the tick.
//!
//! What shows it: the thread became ready, and since then many events came, none of them of a thread; or the kernel's time
//! stands still in all of them while SysTick is pending.
//!
//! Against it: nothing that a system does on purpose. A switch waits for microseconds otherwise. Where the time stands still
//! for less than two ticks, it is a hint.

use super::super::cpus::thread_of;
use super::super::events::Events;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, FIRST, PENDSTSET, Still};
use super::{place, silence, words};
use crate::cpu::Level;
use crate::kernel::{Kernel, Under};
use crate::session::CpuState;

/// So many events of interrupts alone are more than a few handlers in a row.
const FEWEST: u64 = 16;
/// So many periods of the tick have to be over.
const PERIODS: i64 = 2;
/// ICSR: PendSV is pending.
const PENDSVSET: u64 = 1 << 28;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events.filter(|events| events.has_clock && events.cores <= 1)?);
    // Where events of threads are not inserted, that none comes shows nothing.
    silence::inserts_all(case).filter(|all| *all)?;
    let number = match cpu.registers.level() {
        // A handler that is an endless loop is another rule.
        Level::Exception(number) if cpu.in_loop.is_none() => {
            Some(u64::from(number)).filter(|number| *number >= FIRST)?
        }
        _ => return None,
    };
    let kept = thread_waits(cpu, kernel, events, case).or_else(|| time_stands_still(cpu, case))?;
    let name = cpu.exception.clone().unwrap_or_else(|| interrupts::name(case, number));
    let pc = cpu.registers.pc()? & !1;
    let begins = case.look.function(pc).filter(|function| function.address & !1 == pc);
    let is_again = interrupts::is_pending(cpu, number) == Some(true);
    let (code, why) = match (&begins, is_again, &cpu.polling) {
        (Some(_), ..) | (_, true, _) => (Code::IsrStorm, "comes again and again"),
        (.., Some(_)) => (Code::IsrNeverEnds, "does not end, or comes again and again"),
        _ => (Code::IsrStorm, "comes again and again, or does not end"),
    };
    Some(
        Finding::new(code, case.cap_of_registers(kept.confidence), format!("{name} {why}: {}", kept.words))
            .against(kept.against)
            .evidence(kept.evidence)
            .evidence(
                begins.map(|_| Evidence::register("pc", pc, format!("the first instruction of the handler of {name}"))),
            )
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(format!("{}; wait for nothing in the handler", words::acknowledge(&name)))
            .affected(kernel.threads.iter().map(|thread| thread.address)),
    )
}

/// What an interrupt keeps back, for how long, and what shows it.
struct Kept {
    confidence: Confidence,
    against: Option<&'static str>,
    words: String,
    evidence: Vec<Evidence>,
}

/// The kernel's next thread is ready, and no thread runs.
fn thread_waits(cpu: &CpuState, kernel: &Kernel, events: &Events, case: &Case<'_>) -> Option<Kept> {
    let pends = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSVSET != 0);
    let next = kernel.execute.get(cpu.core).copied().and_then(|next| kernel.thread(next))?;
    // What shows no change of its state was ready before the first event.
    let oldest = (events.span.0, events.newest.saturating_add(1).saturating_sub(events.count));
    let (since, seq) = events.activity(next.address).and_then(|next| next.since).unwrap_or(oldest);
    let is_other = match thread_of(cpu, case.kernel) {
        Some(thread) => pends.is_some() && thread.address != next.address,
        None => matches!(cpu.under, Some(Under::Scheduler(_))),
    };
    let none_ran = events.last_of_threads.is_none_or(|last| last < seq);
    let count = events.newest.saturating_sub(seq);
    if !is_other || !none_ran || count < FEWEST {
        return None;
    }
    let (lasts, name) = (events.span.1.saturating_sub(since), next.label());
    let pends =
        pends.map(|icsr| Evidence::register("icsr", icsr, "PendSV, which switches threads, is pending".to_owned()));
    let shown = Evidence::event(seq, format!("{name} is ready here; {count} events follow, all of them of interrupts"));
    Some(Kept {
        confidence: Confidence::Likely,
        against: None,
        words: format!("thread {name} is ready, and no thread has run for {}", words::trace_ticks(lasts, case)),
        evidence: std::iter::once(shown).chain(pends).collect(),
    })
}

/// The tick is pending, and the calls of the interrupt read the same time of the kernel for several ticks.
fn time_stands_still(cpu: &CpuState, case: &Case<'_>) -> Option<Kept> {
    let icsr = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSTSET != 0)?;
    let still = interrupts::still(case).filter(Still::may_be_over)?;
    let none_ran = case.events?.last_of_threads.is_none_or(|last| last < still.clock.from.0);
    let is_sure = still.is_over(PERIODS);
    none_ran.then(|| Kept {
        confidence: if is_sure { Confidence::Likely } else { Confidence::Hint },
        against: (!is_sure).then_some("a burst of interrupts that lasts a little longer than a tick looks the same"),
        words: format!("the kernel has counted no tick for {}, and no thread has run", still.lasts()),
        evidence: vec![still.shows(), Evidence::register("icsr", icsr, "SysTick is pending".to_owned())],
    })
}
