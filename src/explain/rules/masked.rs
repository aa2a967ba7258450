//! A thread runs with interrupts disabled outside of the kernel: PRIMASK or FAULTMASK is 1, or BASEPRI keeps back those of its
//! priority and below, and at least one interrupt waits.
//!
//! Where these registers are not known, a tick that is pending in a thread is a sign of it: it would come at once. A stop may fall
//! between the two, so the code that the CPU came through has to disable interrupts, or the tick has to be overdue.
//!
//! Against it: a critical section of a few instructions looks the same. Above a hint only where the tick is among what waits, and
//! the trace's clock shows that it should have come twice, or where the thread waits in a loop for a word that the handler of what
//! waits may change. The kernel's own critical sections count only then. A loop without an exit is a rule of its own.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, Mask, SYSTICK, Still};
use super::{masking_code, place, runs_on, vector, words, writers};
use crate::abi::Addr;
use crate::cpu::Level;
use crate::session::CpuState;

/// So many periods of the tick have to be over.
const PERIODS: i64 = 2;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// The same of one CPU.
pub(super) fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    if cpu.in_loop.is_some() || cpu.is_outside_code {
        return None;
    }
    if runs_on::is_so(cpu, case) {
        return None;
    }
    let mask = Mask::of(&cpu.registers);
    let kept_back = match mask {
        Some(mask) => interrupts::kept_back(cpu, mask),
        None => Some(interrupts::not_taken(cpu)),
    };
    let tick = interrupts::overdue(case, PERIODS)
        .filter(|tick| kept_back.as_ref().is_some_and(|all| all.contains(&tick.number)));
    // Threads wait for ticks that do not come: a period of a few is no critical section.
    let still = interrupts::still(case)
        .filter(|still| still.is_over(PERIODS) && kept_back.as_ref().is_some_and(|all| all.contains(&SYSTICK)));
    let is_overdue = tick.is_some() || still.is_some();
    let awaited = awaited(cpu, kept_back.as_deref().unwrap_or_default(), case);
    let code = masking_code::of(case, cpu).filter(|_| mask.is_none());
    if mask.is_none() && !is_overdue && code.is_none() {
        return None;
    }
    // The kernel disables them for a moment, and then restores what its caller had.
    let asks_in_vain = || {
        let reads = case.events?.read_time_last(thread.address);
        interrupts::still(case).filter(|still| reads && (still.period.is_none() || still.may_be_over()))
    };
    let asked = if interrupts::is_in_kernel(cpu) && code.is_some() { asks_in_vain() } else { None };
    if !is_overdue && asked.is_none() && interrupts::is_in_kernel(cpu) || kept_back.as_ref().is_some_and(Vec::is_empty)
    {
        return None;
    }
    let register = mask.map(Mask::register);
    let in_vain = asked.map_or_else(String::new, |still| {
        format!("; tx_time_get returned {} each of {} times, as no tick comes", still.clock.value, still.clock.calls)
    });
    let mut evidence = shown(cpu, register, code.as_ref(), case);
    let waits = match &awaited {
        Some(Awaited { name, words, .. }) => format!("; {name}, whose handler may change {words}, is pending"),
        None => waits(kept_back.as_deref().unwrap_or_default(), is_overdue, case),
    };
    let is_sure = is_overdue || awaited.is_some() && mask.is_some();
    let by_device = awaited.as_ref().map(|_| "a device may change it too (DMA)");
    evidence.extend(awaited.map(|awaited| awaited.evidence));
    evidence.extend(still.or(asked).as_ref().map(Still::shows));
    evidence.extend(tick.map(|tick| interrupts::shows(tick, &interrupts::name(case, tick.number))));
    let (confidence, detractors) = confidence(is_sure, kept_back.is_some(), mask.is_some(), case);
    let at = interrupts::whereabouts(case, cpu);
    let by = mask.map_or_else(String::new, |mask| format!(" ({})", mask.words()));
    let left = if mask.is_some() { masking_code::left_by(thread.address, case) } else { None };
    let path = left.as_ref().map_or_else(String::new, |left| format!("; {}", left.words));
    evidence.extend(left.map(|left| left.evidence));
    Some(
        Finding::new(
            Code::InterruptsMasked,
            (confidence, detractors),
            format!("thread {} keeps interrupts disabled{by}{at}{waits}{in_vain}{path}", thread.label()),
        )
        .against(by_device)
        .evidence(evidence)
        .next(format!(
            "find the path that sets {} and does not restore it",
            register.map_or_else(|| "PRIMASK or BASEPRI".to_owned(), |(name, _)| name.to_uppercase())
        ))
        .threads([thread.address]),
    )
}

/// What shows that interrupts are disabled, and where.
fn shown(
    cpu: &CpuState,
    register: Option<(&str, u64)>,
    code: Option<&masking_code::Disabled>,
    case: &Case<'_>,
) -> Vec<Evidence> {
    let register = register
        .map(|(name, value)| Evidence::register(name, value, "interrupts are disabled".to_owned()))
        .or_else(|| interrupts::tick_pending(cpu));
    let code = code.map(|code| Evidence::symbol(code.at, &code.words, "the code here disables interrupts".to_owned()));
    let mut all: Vec<Evidence> = register.into_iter().chain(code).collect();
    all.extend(place::callers(&cpu.functions, CALLERS));
    all.extend(interrupts::polls(case, cpu));
    all
}

/// An interrupt that is kept back, while a loop waits for what its handler changes: it waits for ever.
struct Awaited {
    name: String,
    words: String,
    evidence: Evidence,
}

fn awaited(cpu: &CpuState, kept_back: &[u64], case: &Case<'_>) -> Option<Awaited> {
    let words = awaited_words(cpu, case)?;
    let by = |word: &Addr| kept_back.iter().copied().find(|number| writers::handler_has(*number, *word, case));
    // A device may end the loop as well.
    let all = words.iter().map(|word| by(word).filter(|_| writers::is_in_ram(*word))).collect::<Option<Vec<u64>>>()?;
    let (number, word) = all.first().copied().zip(words.first().copied())?;
    // One that is not kept back may end the wait.
    let mask = Mask::of(&cpu.registers);
    let is_blocked = |number: u64| mask.is_none_or(|mask| mask.blocks(interrupts::priority(cpu, number)));
    let may_end = |word: &Addr| writers::handlers_with(*word, 0, &[], case).into_iter().any(|by| !is_blocked(by));
    if words.iter().any(may_end) {
        return None;
    }
    let name = interrupts::name(case, number);
    let (_, handler) = vector::vector(number, case)?;
    let text = format!("the handler of {name} has the address of {}", words::place_or_address(word, case));
    let evidence = Evidence::symbol(handler & !1, &words::function_at(handler, case), text);
    Some(Awaited { name, words: words::place_or_address(word, case), evidence })
}

/// The words that a loop reads, where nothing else ends it: it neither writes nor counts, and no other CPU may change them.
pub(super) fn awaited_words<'c>(cpu: &'c CpuState, case: &Case<'_>) -> Option<&'c [Addr]> {
    let polling = cpu.polling.as_ref().filter(|polling| !polling.writes && !polling.counts)?;
    case.cpus.filter(|cpus| cpus.all.len() == 1).map(|_| polling.reads.as_slice())
}

/// How sure it is, and what speaks against it. `is_sure`: it lasts too long, or for ever. `waits_known`, `mask_known`: what waits,
/// and the registers.
fn confidence(is_sure: bool, waits_known: bool, mask_known: bool, case: &Case<'_>) -> (Confidence, Vec<String>) {
    let (most, mut detractors) = match is_sure {
        true => case.by_events(),
        false => (Confidence::Hint, vec!["a short critical section looks the same".to_owned()]),
    };
    if !waits_known {
        detractors.push("whether an interrupt waits is not known (--reg icsr=N)".to_owned());
    }
    let (confidence, against) = case.cap_of_registers(most);
    detractors.extend(against);
    if !mask_known {
        detractors.push("it is inferred: which register disables them is not known (--reg primask=N)".to_owned());
    }
    (confidence, detractors)
}

/// What waits, for a claim.
fn waits(kept_back: &[u64], is_overdue: bool, case: &Case<'_>) -> String {
    let names: Vec<String> = kept_back.iter().take(3).map(|number| interrupts::name(case, *number)).collect();
    match names.as_slice() {
        [] => String::new(),
        _ if is_overdue => ": the tick is overdue".to_owned(),
        [one] => format!("; {one} is pending"),
        all => format!("; {} are pending", all.join(", ")),
    }
}
