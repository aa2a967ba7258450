//! What keeps the interrupts of a Cortex-M from coming, and whether the kernel's tick is overdue. Several rules ask this.
//!
//! One stop has no duration: that an interrupt is pending, or that interrupts are disabled, is healthy for a moment. Only the
//! clock of the trace shows that the tick should have come, and only the time in which threads ran counts: a system may stop
//! its tick while it is idle.

use super::super::events::{Clock, Tick};
use super::super::{Case, Evidence};
use super::no_tick::RELOAD;
use super::{place, silence, words};
use crate::abi::Endian;
use crate::cpu::{Architecture, Registers};
use crate::session::{CpuState, is_of_kernel};

/// The numbers of three exceptions, and of the first interrupt.
pub(super) const NMI: u64 = 2;
pub(super) const PENDSV: u64 = 14;
pub(super) const SYSTICK: u64 = 15;
pub(super) const FIRST: u64 = 16;
/// Which interrupts are enabled: NVIC_ISER0.
pub(super) const ENABLED: u64 = 0xE000_E100;
/// ICSR: SysTick is pending.
pub(super) const PENDSTSET: u64 = 1 << 26;
/// The most addresses that are named.
const NAMED: usize = 3;

/// A register that keeps interrupts from coming (Armv7-M Architecture Reference Manual, B1.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    /// All of them.
    Primask,
    /// All of them, and faults.
    Faultmask,
    /// Those whose priority has this number or a higher one.
    Basepri(u64),
}

impl Mask {
    /// Which is set.
    pub fn of(registers: &Registers) -> Option<Self> {
        let is_set = |name| registers.get(name).is_some_and(|value| value & 1 == 1);
        if registers.architecture() != Architecture::CortexM {
            return None;
        }
        match registers.get("basepri").map(|level| level & 0xFF) {
            _ if is_set("faultmask") => Some(Self::Faultmask),
            _ if is_set("primask") => Some(Self::Primask),
            Some(level) if level != 0 => Some(Self::Basepri(level)),
            _ => None,
        }
    }

    /// Its name and value.
    pub const fn register(self) -> (&'static str, u64) {
        match self {
            Self::Primask => ("primask", 1),
            Self::Faultmask => ("faultmask", 1),
            Self::Basepri(level) => ("basepri", level),
        }
    }

    /// `PRIMASK 1`, `BASEPRI 0x40`.
    pub fn words(self) -> String {
        match self {
            Self::Primask => "PRIMASK 1".to_owned(),
            Self::Faultmask => "FAULTMASK 1".to_owned(),
            Self::Basepri(level) => format!("BASEPRI {level:#x}"),
        }
    }

    /// True where it keeps an exception of this priority from coming.
    pub fn blocks(self, priority: Option<u64>) -> bool {
        match self {
            Self::Primask | Self::Faultmask => true,
            Self::Basepri(level) => priority.is_some_and(|priority| priority >= level),
        }
    }
}

fn irq(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(FIRST)?).ok()
}

fn bit(words: &[u32], irq: usize) -> Option<bool> {
    Some(words.get(irq / 32)? >> (irq % 32) & 1 == 1)
}

/// The priority of an exception: the lower the number, the more urgent.
pub(super) fn priority(cpu: &CpuState, number: u64) -> Option<u64> {
    match number {
        // It is above all others that can wait.
        NMI => Some(0),
        PENDSV => cpu.registers.get("shpr3").map(|word| word >> 16 & 0xFF),
        SYSTICK => cpu.registers.get("shpr3").map(|word| word >> 24 & 0xFF),
        _ => cpu.interrupts.as_ref()?.priorities.get(irq(number)?).map(|priority| u64::from(*priority)),
    }
}

/// Whether an exception waits to come; `None` where that is not known.
pub(super) fn is_pending(cpu: &CpuState, number: u64) -> Option<bool> {
    match number {
        SYSTICK => cpu.registers.get("icsr").map(|icsr| icsr & PENDSTSET != 0),
        _ => bit(&cpu.interrupts.as_ref()?.pending, irq(number)?),
    }
}

/// Whether the handler of an interrupt runs, or was itself interrupted.
pub(super) fn is_active(cpu: &CpuState, number: u64) -> Option<bool> {
    bit(&cpu.interrupts.as_ref()?.active, irq(number)?)
}

/// Whether an interrupt is enabled in the interrupt controller; SysTick has no bit there.
pub(super) fn is_enabled(cpu: &CpuState, number: u64) -> Option<bool> {
    bit(&cpu.interrupts.as_ref()?.enabled, irq(number)?)
}

/// What is pending and enabled, and kept back by a mask; `None` where that is not known.
pub(super) fn kept_back(cpu: &CpuState, mask: Mask) -> Option<Vec<u64>> {
    let all = waiting(cpu)?.into_iter();
    Some(all.filter(|number| mask.blocks(priority(cpu, *number))).collect())
}

/// What is pending and enabled; `None` where that is not known of the tick.
fn waiting(cpu: &CpuState) -> Option<Vec<u64>> {
    let tick = is_pending(cpu, SYSTICK)?;
    let irqs = cpu.interrupts.as_ref().map_or(0, |all| all.priorities.len());
    let last = FIRST.saturating_add(u64::try_from(irqs).unwrap_or(0));
    let waits = |number: &u64| is_pending(cpu, *number) == Some(true) && is_enabled(cpu, *number) == Some(true);
    Some(tick.then_some(SYSTICK).into_iter().chain((FIRST..last).filter(waits)).collect())
}

/// True where all registers are known that keep interrupts from coming.
pub(super) fn knows_masks(cpu: &CpuState) -> bool {
    ["primask", "basepri", "faultmask"].iter().all(|name| cpu.registers.get(name).is_some())
}

/// What is pending in a thread, and would come at once, where it is not known whether something keeps it back. A device goes on
/// while a debugger has stopped the CPU; SysTick does not.
pub(in super::super) fn not_taken(cpu: &CpuState) -> Vec<u64> {
    if knows_masks(cpu) { Vec::new() } else { waiting(cpu).unwrap_or_default() }
}

/// That the tick is pending, as evidence.
pub(super) fn tick_pending(cpu: &CpuState) -> Option<Evidence> {
    let icsr = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSTSET != 0)?;
    Some(Evidence::register("icsr", icsr, "SysTick is pending, and in a thread it would come at once".to_owned()))
}

/// The tick, where it should have come at least so many times since it came last, by the time in which threads ran.
pub(super) fn overdue(case: &Case<'_>, periods: i64) -> Option<Tick> {
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1)?;
    events.interrupts.tick().filter(|tick| tick.since >= tick.period.saturating_mul(periods))
}

/// That it is, as evidence.
pub(super) fn shows(tick: Tick, name: &str) -> Evidence {
    let Tick { period, since, seq, .. } = tick;
    let times = since.checked_div(period).unwrap_or(0);
    Evidence::event(
        seq,
        format!("the last {name}; threads ran for {since} ticks of the trace since, {times} times its period"),
    )
}

/// So many calls that read the same time are a sign that it stands still, where the length of a tick is not known.
const CALLS: u64 = 64;

/// The kernel's count of ticks, where it stands still: `tx_time_get` has given what memory still holds again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Still {
    /// What the calls gave.
    pub clock: Clock,
    /// For so many ticks of the trace.
    pub lasts: i64,
    /// So many of them are a tick of the kernel at least and at most; `None` where that is not known.
    pub period: Option<(i64, i64)>,
}

impl Still {
    /// True where at least so many ticks of the kernel should have come.
    pub fn is_over(&self, periods: i64) -> bool {
        // A period that is inferred, and not a range, may be too short.
        let twice = |shortest, longest| if shortest == longest { 2 } else { 1 };
        let least =
            |(shortest, longest): (i64, i64)| longest.saturating_mul(periods).saturating_mul(twice(shortest, longest));
        self.period.is_some_and(|period| self.lasts >= least(period))
    }

    /// True where one may have come.
    pub fn may_be_over(&self) -> bool {
        self.period.is_some_and(|(shortest, _)| self.lasts >= shortest)
    }

    /// As evidence.
    pub fn shows(&self) -> Evidence {
        let Self { clock: Clock { value, from: (seq, _), calls }, .. } = *self;
        let lasts = if self.lasts > 0 { format!(" for {}", self.lasts()) } else { String::new() };
        let text = format!("tx_time_get gives {value} from here on, {calls} times: the kernel counts no tick{lasts}");
        Evidence::event(seq, text)
    }

    /// For how long, in words.
    pub fn lasts(&self) -> String {
        format!(
            "{} ticks of the trace{}",
            self.lasts,
            words::kernel_ticks(
                &[self.lasts],
                self.period.filter(|(least, most)| least == most).map(|(least, _)| least),
                None
            )
        )
    }
}

/// SysTick may count at an eighth of the CPU's rate (SYST_CSR.CLKSOURCE is 0; on many chips).
const SLOWER: i64 = 8;

/// Where it does. A trace's clock is taken to count no faster than the CPU: then SysTick's reload value is the shortest tick.
pub(super) fn still(case: &Case<'_>) -> Option<Still> {
    let events = case.events.filter(|events| !events.sleeps.is_time_set)?;
    let clock = events.sleeps.clock.filter(|clock| clock.calls > 1)?;
    if silence::system_clock(case) != Some(clock.value) {
        return None;
    }
    let lasts = events.span.1.saturating_sub(clock.from.1);
    let is_cortex_m = |cpu: &CpuState| cpu.registers.architecture() == Architecture::CortexM;
    let has_systick = case.cpus.is_some_and(|cpus| cpus.all.iter().any(is_cortex_m));
    let reload = || Some(i64::from(Endian::Little.u32(&case.look.bytes(RELOAD, 4)?, 0)?));
    let known = events.sleeps.period().map(|period| (period, period));
    let by_reload = || {
        let shortest = reload().filter(|reload| has_systick && *reload > 0)?.checked_add(1)?;
        Some((shortest, shortest.checked_mul(SLOWER)?))
    };
    let period = known.or_else(by_reload).filter(|_| events.has_clock);
    (period.is_some() || clock.calls >= CALLS).then_some(Still { clock, lasts, period })
}

/// Functions of the kernel below all code of a thread, and of callbacks of timers.
const OUTERMOST: [&str; 2] = ["_tx_thread_shell_entry", "_tx_timer_thread_entry"];

/// True within a call of the kernel, also where that calls the application: the clock of its trace.
pub(super) fn is_in_kernel(cpu: &CpuState) -> bool {
    let names = cpu.functions.iter().filter(|function| !function.is_inferred()).filter_map(|f| f.name.as_deref());
    names.into_iter().any(|name| is_of_kernel(name) && !OUTERMOST.contains(&name))
}

/// What an exception is called, in a sentence.
pub(in super::super) fn name(case: &Case<'_>, number: u64) -> String {
    if number == SYSTICK { "SysTick".to_owned() } else { case.exception(number) }
}

/// What a polling loop waits for: `transfer_done (0x20000040)`.
pub(super) fn polled(case: &Case<'_>, cpu: &CpuState) -> Option<String> {
    let polling = cpu.polling.as_ref().filter(|polling| !polling.writes && !polling.measures)?;
    let all: Vec<String> = polling.reads.iter().take(NAMED).map(|at| words::place_or_address(*at, case)).collect();
    Some(all.join(" and "))
}

/// That it waits in a loop, as evidence.
pub(super) fn polls(case: &Case<'_>, cpu: &CpuState) -> Option<Evidence> {
    let start = cpu.polling.as_ref()?.start;
    Some(Evidence::memory(start, format!("the loop here reads {}, and nothing else ends it", polled(case, cpu)?)))
}

/// ` in wait (pump.c:12), where it waits for done (0x20000040) to change`.
pub(super) fn whereabouts(case: &Case<'_>, cpu: &CpuState) -> String {
    let at = place::in_application(&cpu.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let waits = polled(case, cpu).map_or_else(String::new, |what| format!(", where it waits for {what} to change"));
    format!("{at}{waits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SysTick that counts at an eighth of the CPU's rate has ticks eight times as long as its reload value says.
    #[test]
    fn a_slow_systick_was_taken_for_one_that_stands_still() {
        let still =
            |lasts| Still { clock: Clock { value: 7, from: (0, 0), calls: 99 }, lasts, period: Some((100, 800)) };
        assert!(!still(700).is_over(1) && still(700).may_be_over());
        assert!(still(1600).is_over(2) && !still(1599).is_over(2));
        assert!(!still(99).may_be_over());
    }

    #[test]
    fn which_mask_keeps_what_back() {
        let of = |values: &[(&str, u64)]| {
            let mut registers = Registers::new(Architecture::CortexM);
            values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
            Mask::of(&registers)
        };
        assert_eq!(of(&[("primask", 0), ("basepri", 0), ("faultmask", 0)]), None);
        assert_eq!(of(&[]), None, "not known");
        assert_eq!(of(&[("primask", 1), ("basepri", 0x40)]), Some(Mask::Primask));
        assert_eq!(of(&[("basepri", 0x40)]), Some(Mask::Basepri(0x40)));
        assert!(Mask::Basepri(0x40).blocks(Some(0x40)) && !Mask::Basepri(0x40).blocks(Some(0x20)));
        assert!(Mask::Primask.blocks(Some(0)) && !Mask::Basepri(0x40).blocks(None));
    }
}
