//! The tick of the kernel does not come: its interrupt is disabled, its timer does not count, or it is pending and not taken.
//! Which interrupt gives the tick is known from the events: it wakes the thread that runs the kernel's timers.
//!
//! Against it: systems that stop their tick while they are idle. So only the time counts in which threads ran, and what the trace
//! shows alone is a hint. Masks, a handler that does not return and PendSV's priority are rules of their own.

use super::super::cpus::thread_of;
use super::super::events::Tick;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, Mask, SYSTICK};
use super::place;
use crate::abi::Endian;
use crate::cpu::Level;
use crate::session::CpuState;

/// So many periods of the tick have to be over where it is pending, and where nothing shows that it is due.
const PENDING: i64 = 2;
const SILENT: i64 = 4;
/// Where SysTick has the value that it counts down from. Reading it changes nothing.
pub(super) const RELOAD: u64 = 0xE000_E014;
/// SysTick's control register (SYST_CSR), and two of its bits: it counts, and it gives an interrupt at 0.
pub(super) const CONTROL: u64 = 0xE000_E010;
pub(super) const ENABLE: u32 = 1;
const INTERRUPT: u32 = 2;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case)).collect()
}

/// Why it does not come.
struct Why {
    words: String,
    confidence: Confidence,
    evidence: Option<Evidence>,
    next: String,
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let thread = thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    let tick = interrupts::overdue(case, PENDING)?;
    if Mask::of(&cpu.registers).is_some_and(|mask| mask.blocks(interrupts::priority(cpu, tick.number))) {
        return None;
    }
    let why = why(cpu, tick, case)?;
    let name = interrupts::name(case, tick.number);
    let (most, mut detractors) = case.by_events();
    let (confidence, against) = case.cap_of_registers(why.confidence.min(most));
    detractors.extend(against);
    if why.confidence == Confidence::Hint {
        detractors.push("the program may have stopped its tick on purpose".to_owned());
    }
    Some(
        Finding::new(
            Code::NoTick,
            (confidence, detractors),
            format!("the tick does not come while thread {} runs: {}", thread.label(), why.words),
        )
        .evidence([interrupts::shows(tick, &name)])
        .evidence(why.evidence)
        .evidence(place::callers(&cpu.functions, CALLERS))
        .next(why.next),
    )
}

fn why(cpu: &CpuState, tick: Tick, case: &Case<'_>) -> Option<Why> {
    let name = interrupts::name(case, tick.number);
    let is_pending = interrupts::is_pending(cpu, tick.number)?;
    let confidence = if is_pending { Confidence::Likely } else { Confidence::Hint };
    if interrupts::is_enabled(cpu, tick.number) == Some(false) && (is_pending || is_over(tick)) {
        return Some(Why {
            words: format!("{name}, which gives it, is disabled in the interrupt controller"),
            confidence,
            evidence: is_pending.then(|| Evidence::memory(0xE000_E200, format!("{name} is pending"))),
            next: "find out who disables this interrupt (NVIC_ICER), and who should enable it again".to_owned(),
        });
    }
    if is_pending {
        // In a thread it would come at once: something keeps it back, which is a rule of its own.
        return None;
    }
    if !is_over(tick) {
        return None;
    }
    let (why, evidence) = still(case).filter(|_| tick.number == SYSTICK).unzip();
    let next = match why {
        Some(_) => "find out who writes to this register",
        None => "read the control register of the timer (of SysTick: SYST_CSR), and who writes to it",
    };
    Some(Why {
        words: format!("{name}, which gives it, is not even pending: {}", why.unwrap_or("its timer does not count")),
        confidence,
        evidence,
        next: next.to_owned(),
    })
}

/// Why SysTick gives no interrupt, by its registers (Armv7-M Architecture Reference Manual, B3.3.3 and B3.3.4), and the one that
/// shows it.
fn still(case: &Case<'_>) -> Option<(&'static str, Evidence)> {
    let word = |at: u64| Endian::Little.u32(&case.look.bytes(at, 4)?, 0);
    let of_control = |why, control: u32| {
        (why, Evidence::memory(CONTROL, "SysTick's control register".to_owned()).holds(control.into()))
    };
    let reload = word(RELOAD);
    // A stub may answer with zeros for registers that it does not read.
    match (word(CONTROL).filter(|control| *control != 0 || reload.is_some_and(|reload| reload != 0)), reload) {
        (Some(control), _) if control & ENABLE == 0 => {
            Some(of_control("it is switched off (SYST_CSR.ENABLE is 0)", control))
        }
        (_, Some(0)) => {
            let shows = "SysTick's reload value is 0: it does not count".to_owned();
            Some(("its timer does not count", Evidence::memory(RELOAD, shows)))
        }
        (Some(control), _) if control & INTERRUPT == 0 => {
            Some(of_control("it counts without an interrupt (SYST_CSR.TICKINT is 0)", control))
        }
        _ => None,
    }
}

/// True where it should have come several times.
const fn is_over(tick: Tick) -> bool {
    tick.since >= tick.period.saturating_mul(SILENT)
}
