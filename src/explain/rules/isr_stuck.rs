//! The CPU is in the handler of an interrupt that does not return: its code is a loop without an exit, it waits in a loop for a
//! word to change, or the tick after it is overdue. And without events of interrupts: one that is pending again while its handler
//! runs, or because of which a pending tick has waited for half of its period. A tick that has just become pending during a handler
//! is healthy.
//!
//! A loop that counts, or reads a clock until its time is over, ends by itself: that is not claimed.
//!
//! Against it: a handler that waits a few microseconds for its device is healthy, and one stop has no duration: a hint. PendSV, in
//! which the kernel waits for a thread, and faults are other rules; so is a handler that serves several exceptions.

use super::super::cpus::{first_place, thread_of};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, FIRST, NMI, PENDSV, SYSTICK};
use super::no_tick::RELOAD;
use super::{below_handler, place, vector, words, writers};
use crate::abi::{Addr, Endian};
use crate::cpu::{Level, Polling, is_fault};
use crate::session::CpuState;

/// SYST_CVR: the current value of SysTick. Reading it changes nothing.
const CURRENT: u64 = 0xE000_E018;
/// So many periods of the tick have to be over.
const PERIODS: i64 = 2;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    let find = |cpu| waits_for_tick(cpu, case).or_else(|| stuck(cpu, case, graph)).or_else(|| again(cpu, case));
    all.filter_map(find).collect()
}

/// The interrupt in whose own handler the CPU is.
fn interrupt(cpu: &CpuState) -> Option<u64> {
    match cpu.registers.level() {
        Level::Exception(number) if !is_fault(number) && u64::from(number) != PENDSV => Some(u64::from(number)),
        _ => None,
    }
}

/// True where the handler of this interrupt serves no other exception.
pub(super) fn has_own_handler(number: u64, case: &Case<'_>) -> bool {
    let irq = number.checked_sub(FIRST);
    let name = case.look.interrupt(number);
    number == SYSTICK || irq.is_some_and(|irq| name.is_some_and(|name| name != format!("irq{irq}")))
}

/// An interrupt in whose handler the CPU waits for a word in RAM, while the tick is pending and cannot come: the tick of the
/// kernel, or the time of a driver, stands still then. Whether the handler of the tick changes that word shows its code.
fn waits_for_tick(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let number = interrupt(cpu).filter(|number| *number != SYSTICK)?;
    let polling = cpu.polling.as_ref().filter(|polling| !polling.writes && !polling.counts)?;
    let word = polling.reads.iter().copied().find(|at| writers::is_in_ram(*at))?;
    let icsr = is_tick_pending(cpu)?;
    let (tick, own) = interrupts::priority(cpu, SYSTICK).zip(interrupts::priority(cpu, number))?;
    if tick < own || !writers::handler_has(SYSTICK, word, case) {
        return None;
    }
    let exception = cpu.exception.clone().unwrap_or_else(|| interrupts::name(case, number));
    let what = words::place_or_address(word, case);
    let at = place::of(&cpu.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let claim = format!(
        "the handler of {exception} waits{at} for {what} to change: SysTick, whose handler changes it, cannot interrupt it"
    );
    Some(
        Finding::new(Code::IsrNeverEnds, case.cap_of_registers(Confidence::Likely), claim)
            .evidence([
                Evidence::memory(polling.start, format!("the loop here reads {what}")),
                Evidence::register(
                    "icsr",
                    icsr,
                    "SysTick is pending, and its handler has the address of this word".to_owned(),
                ),
                Evidence::register(
                    "shpr3",
                    cpu.registers.get("shpr3").unwrap_or_default(),
                    format!("the priority of SysTick is {tick:#x}, that of {exception} is {own:#x}"),
                ),
            ])
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next("do not wait for time in the handler of an interrupt: let a thread do that"),
    )
}

fn stuck(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    // A default handler of NMI is an endless loop, which is another rule; one that waits for a word is the application's.
    let is_own = |number: u64| has_own_handler(number, case) || number == NMI && cpu.in_loop.is_none();
    let number = interrupt(cpu).filter(|number| is_own(*number))?;
    let behind = |tick: u64| {
        let priorities = interrupts::priority(cpu, tick).zip(interrupts::priority(cpu, number));
        priorities.is_some_and(|(tick, own)| tick >= own) && interrupts::is_pending(cpu, tick) == Some(true)
    };
    let tick = interrupts::overdue(case, PERIODS).filter(|tick| tick.number != number && behind(tick.number));
    let exception = cpu.exception.clone().unwrap_or_else(|| interrupts::name(case, number));
    let polling = cpu.polling.as_ref().filter(|polling| !polling.measures);
    let (claimed, why) = match (cpu.in_loop, polling, tick) {
        (Some(_), ..) => (Confidence::Proven, "is in a loop without an exit"),
        (None, _, Some(_)) => (Confidence::Likely, "delays the tick, which is overdue"),
        (None, Some(_), None) => (Confidence::Hint, "is in a loop"),
        (None, None, None) => return None,
    };
    let mut evidence: Vec<Evidence> = cpu
        .in_loop
        .map(|found| Evidence::memory(found.start, "the code here is a loop without an exit".to_owned()))
        .into_iter()
        .collect();
    let polls = interrupts::polls(case, cpu);
    let changed = polling.filter(|_| polls.is_some()).and_then(|found| changed_by(found, cpu, number, case));
    let in_loop = polling.filter(|_| polls.is_none());
    evidence.extend(in_loop.map(|found| Evidence::memory(found.start, "the code here is a loop".to_owned())));
    evidence.extend(polls);
    evidence.extend(place::callers(&cpu.functions, CALLERS));
    evidence.extend(tick.map(|tick| interrupts::shows(tick, &interrupts::name(case, tick.number))));
    let held = is_tick_pending(cpu).filter(|_| behind(SYSTICK));
    evidence
        .extend(held.map(|icsr| Evidence::register("icsr", icsr, "SysTick is pending and waits for it".to_owned())));
    // A watchdog's handler stops the system on purpose: the cause is in the thread below it.
    let below = cpu.in_loop.and_then(|_| below_handler::of(cpu, case, graph)).filter(|below| !below.ready.is_empty());
    let thread = thread_of(cpu, case.kernel).map(|thread| format!(", above thread {}", thread.label()));
    let before = below.as_ref().map(|below| format!("; before it, {}", below.words));
    let over = before.or(thread).unwrap_or_default();
    let also = changed.as_ref().map_or_else(String::new, |changed| format!("; {}", changed.words));
    // It waits for an interrupt that cannot come.
    let cannot_come = changed.as_ref().is_some_and(|changed| changed.cannot_come);
    let claimed = if cannot_come { claimed.max(Confidence::Likely) } else { claimed };
    evidence.extend(changed.and_then(|changed| changed.evidence));
    let doubt = below.as_ref().and_then(|below| below.doubt);
    let claimed = if doubt.is_some() { claimed.min(Confidence::Likely) } else { claimed };
    evidence.extend(below.into_iter().flat_map(|below| below.evidence));
    Some(
        Finding::new(
            Code::IsrNeverEnds,
            case.cap_of_registers(claimed),
            format!("the handler of {exception} {why}{}{over}{also}", interrupts::whereabouts(case, cpu)),
        )
        .against(cannot_come.then_some("a device may change it too (DMA)"))
        .against(
            (claimed == Confidence::Hint).then_some("a handler that waits for its device for a moment looks the same"),
        )
        .against(doubt)
        .evidence(evidence)
        .next(format!("find out what the handler of {exception} waits for: an interrupt must not wait")),
    )
}

/// Which other interrupt may change the word that a handler waits for.
struct Changed {
    words: String,
    evidence: Option<Evidence>,
    /// True where its priority keeps it from coming while the handler runs.
    cannot_come: bool,
}

/// The only interrupt whose handler has the address of what a loop in the handler of `number` reads.
fn changed_by(polling: &Polling, cpu: &CpuState, number: u64, case: &Case<'_>) -> Option<Changed> {
    let [word] = polling.reads.as_slice() else { return None };
    // Another core may change it.
    case.cpus.filter(|cpus| cpus.all.len() == 1)?;
    // Handlers that wait for it in the same function do not change it.
    let start = |pc: Addr| case.look.function(pc).map(|function| function.address & !1);
    let own: Vec<Addr> = cpu.functions.iter().filter_map(|function| start(function.pc)).collect();
    let all = writers::handlers_with(Some(*word).filter(|word| writers::is_in_ram(*word))?, number, &own, case);
    let [other] = all.as_slice() else { return None };
    let name = interrupts::name(case, *other);
    let priorities = interrupts::priority(cpu, *other).zip(interrupts::priority(cpu, number));
    let comes = match priorities {
        Some((other, own)) if other >= own => "it cannot interrupt this handler",
        Some(_) => "it can interrupt this handler",
        None => "whether it can interrupt this handler is not known",
    };
    let evidence = vector::vector(*other, case).map(|(_, handler)| {
        let text = format!("the handler of {name} has the address of {}", words::place_or_address(*word, case));
        Evidence::symbol(handler & !1, &words::function_at(handler, case), text)
    });
    let cannot_come = priorities.is_some_and(|(other, own)| other >= own);
    let words = format!("of the other interrupts, the code of {name} alone has the address of that word, and {comes}");
    Some(Changed { words, evidence, cannot_come })
}

fn is_tick_pending(cpu: &CpuState) -> Option<u64> {
    cpu.registers.get("icsr").filter(|icsr| icsr & interrupts::PENDSTSET != 0)
}

/// For how many cycles a pending SysTick has waited at least, and how many there are from one tick to the next, where it has waited
/// for half of them.
fn tick_waits(case: &Case<'_>) -> Option<(u32, u32)> {
    let word = |at| Endian::Little.u32(&case.look.bytes(at, 4)?, 0);
    waited(word(RELOAD)?, word(CURRENT)?).filter(|(waited, period)| *waited >= period / 2)
}

/// SysTick counts down from its reload value to 0, at which it becomes pending, and begins again.
fn waited(reload: u32, current: u32) -> Option<(u32, u32)> {
    let (period, left) = (reload.checked_add(1)?, if current == 0 { reload.checked_add(1)? } else { current });
    Some((period.checked_sub(left).filter(|_| reload > 0)?, period))
}

/// It is pending again while its handler runs; where a trace shows how often it comes, that is another rule.
fn again(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let number = interrupt(cpu).filter(|number| *number >= FIRST)?;
    let traced = case.events.is_some_and(|events| !events.interrupts.by_number.is_empty());
    let is_again = interrupts::is_pending(cpu, number) == Some(true);
    let above_tick = interrupts::priority(cpu, number) <= interrupts::priority(cpu, SYSTICK);
    let tick = tick_waits(case).filter(|_| above_tick && is_tick_pending(cpu).is_some());
    if traced || interrupts::is_active(cpu, number) != Some(true) || !is_again && tick.is_none() {
        return None;
    }
    let name = interrupts::name(case, number);
    let irq = number.saturating_sub(FIRST);
    let word = 0xE000_E200_u64.saturating_add((irq / 32).saturating_mul(4));
    let why =
        if is_again { "is pending again before its handler has ended" } else { "delays SysTick, which is pending" };
    let at = first_place(cpu).and_then(|found| place::of(&found.functions));
    let at = at.map_or_else(String::new, |at| format!("; the code below it is at {at}"));
    Some(
        Finding::new(
            Code::IsrStorm,
            case.cap_of_registers(Confidence::Hint),
            format!("{name} {why}: it may come without end{at}"),
        )
        .against(["a second request of its device looks the same, and how often it comes needs a trace"])
        .evidence(is_again.then(|| Evidence::memory(word, format!("{name} is pending again, and its handler runs"))))
        .evidence(tick.map(|(waited, period)| {
            Evidence::memory(
                CURRENT,
                format!("SysTick is pending for at least {waited} cycles of the {period} of a tick"),
            )
        }))
        .evidence(place::callers(&cpu.functions, CALLERS))
        .next(words::acknowledge(&name)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_had_just_become_pending_was_called_delayed_by_a_storm() {
        assert_eq!(waited(24_999, 0), Some((0, 25_000)), "it becomes pending now");
        assert_eq!(waited(24_999, 24_999), Some((1, 25_000)));
        assert_eq!(waited(24_999, 9), Some((24_991, 25_000)));
        assert_eq!(waited(0, 0), None, "SysTick does not count");
        assert_eq!(waited(99, 400), None, "the reload value was changed");
    }
}
