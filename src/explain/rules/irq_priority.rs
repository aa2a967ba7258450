//! On a Cortex-M the kernel waits for the next thread inside of PendSV. An interrupt whose priority is not above that of PendSV
//! cannot come there: where that is SysTick, the tick stops as soon as all threads wait (Arm, Armv7-M Architecture Reference
//! Manual, B1.5.4: an exception is taken only where its priority is higher than that of the one that runs).
//!
//! An interrupt that calls the kernel must not interrupt the kernel's own critical sections: where these disable interrupts by
//! BASEPRI, its priority must not be above that. And PendSV must not interrupt it: it would switch threads inside of a handler.
//! Which interrupts call the kernel is known from the events, or from the code of their handlers; which BASEPRI the kernel uses,
//! from its code.
//!
//! Against it: the kernel's tick may come from another timer; a priority may have been changed since the events.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, FIRST};
use super::words::place_at;
use crate::abi::{Addr, Endian};
use crate::cpu::{Level, Registers};
use crate::kernel::{Under, api};
use crate::session::CpuState;
use crate::trace::many;

/// The number of PendSV.
const PENDSV: u32 = 14;
/// ICSR: SysTick is pending.
const PENDSTSET: u64 = 1 << 26;
/// Not 0 where the kernel switches no threads.
const PREEMPT_DISABLE: &str = "_tx_thread_preempt_disable";
/// The services that are named.
const SERVICES: usize = 3;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    cpus.filter_map(|cpu| {
        let idle = Some(cpu).filter(|cpu| cpu.under == Some(Under::Idle));
        let behind = idle.and_then(|cpu| held_back(&cpu.registers)).map(|registers| finding(registers, case));
        behind.or_else(|| caller(cpu, case)).or_else(|| caller_by_code(cpu, case))
    })
    .collect()
}

/// An interrupt that calls the kernel, and the kernel cannot keep it back, or PendSV interrupts it.
fn caller(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let known = case.events?.interrupts.by_number.iter().filter(|(number, one)| **number >= FIRST && one.acts > 0);
    let callers = known.filter_map(|(number, _)| Some((*number, interrupts::priority(cpu, *number)?)));
    let mut callers: Vec<(u64, u64)> = callers.collect();
    // The most urgent first.
    callers.sort_by_key(|(number, priority)| (*priority, *number));
    let level = kernel_level(case);
    let above = callers.first().filter(|(_, priority)| level.as_ref().is_some_and(|level| *priority < level.value));
    if let (Some((number, priority)), Some(level)) = (above, level) {
        return Some(above_kernel(*number, *priority, &level, case));
    }
    if let Some(found) = kernel_level(case).and_then(|level| unnumbered(cpu, &level, case)) {
        return Some(found);
    }
    let pendsv = pendsv(cpu.registers.get("shpr3")?);
    let aircr = cpu.registers.get("aircr");
    let group = |priority: u64| priority & groups(aircr);
    let (number, priority) = callers.last().filter(|(_, priority)| group(pendsv) < group(*priority))?;
    let grouped = "aircr, which may group priorities, is not known: in one group none interrupts the other";
    Some(below_pendsv(*number, *priority, pendsv, case).against(aircr.is_none().then_some(grouped)))
}

/// An interrupt that is enabled, and whose handler calls the kernel by its code, and the kernel cannot keep it back.
fn caller_by_code(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let level = kernel_level(case)?;
    let is_above = |number: &u64| {
        let is_urgent = interrupts::priority(cpu, *number).is_some_and(|priority| priority < level.value);
        *number >= FIRST && interrupts::is_enabled(cpu, *number) == Some(true) && is_urgent
    };
    let number = case.usage()?.calling_handlers().map(u64::from).find(is_above)?;
    let mut found = above_kernel(number, interrupts::priority(cpu, number)?, &level, case);
    // The kernel's count of its critical sections is left above 0 where one of them was interrupted.
    let is_left = case.kernel.and_then(|kernel| kernel.preempt_disable).is_some_and(|times| times != 0);
    let claimed = if is_left { Confidence::Likely } else { Confidence::Hint };
    (found.confidence, found.detractors) = case.cap(claimed);
    found.detractors.push("that it calls the kernel is inferred from its code: it may never take that path".to_owned());
    Some(found)
}

/// Interrupts call the kernel, of which no event shows the number, and each that is enabled is above the kernel's BASEPRI.
fn unnumbered(cpu: &CpuState, level: &KernelLevel, case: &Case<'_>) -> Option<Finding> {
    let calls = case.events.map(|events| events.interrupts.unnumbered).filter(|calls| *calls > 0)?;
    let irqs = u64::try_from(cpu.interrupts.as_ref()?.priorities.len()).ok()?;
    let is_enabled = |number: &u64| interrupts::is_enabled(cpu, *number) == Some(true);
    let enabled: Vec<u64> = (FIRST..FIRST.saturating_add(irqs)).filter(is_enabled).collect();
    let number = *enabled.first()?;
    let is_above = |number: &u64| interrupts::priority(cpu, *number).is_some_and(|priority| priority < level.value);
    if !enabled.iter().all(is_above) {
        return None;
    }
    let mut found = above_kernel(number, interrupts::priority(cpu, number)?, level, case);
    found.confidence = Confidence::Hint;
    found.evidence.push(Evidence::memory(
        0xE000_E100,
        format!(
            "{} of the chip {} enabled, none of a priority that BASEPRI masks; interrupts called the kernel {}",
            many(enabled.len() as u64, "interrupt", "interrupts"),
            if enabled.len() == 1 { "is" } else { "are" },
            many(calls, "time", "times")
        ),
    ));
    found
        .detractors
        .push("no event shows the numbers of interrupts: the tick's handler may have made these calls".to_owned());
    Some(found)
}

/// The bits of a priority by which one exception interrupts another (AIRCR.PRIGROUP).
fn groups(aircr: Option<u64>) -> u64 {
    let group = aircr.map_or(0, |aircr| aircr >> 8 & 7);
    0xFF << group.saturating_add(1) & 0xFF
}

/// What the kernel sets BASEPRI to in its critical sections.
struct KernelLevel {
    value: u64,
    /// Where its code does.
    at: Addr,
    function: String,
}

/// Functions of the kernel with critical sections.
const CRITICAL: [&str; 10] = [
    "_tx_thread_interrupt_disable",
    "_tx_thread_schedule",
    "__tx_PendSVHandler",
    "PendSV_Handler",
    "_tx_thread_system_suspend",
    "_tx_thread_system_resume",
    "_tx_semaphore_put",
    "_tx_event_flags_set",
    "_tx_queue_send",
    "_tx_thread_sleep",
];
/// The most bytes of a function that are read.
const FUNCTION: u64 = 1024;

/// True for a kernel of a Cortex-M that masks interrupts by their priority, so that some are not masked.
pub(super) fn masks_by_priority(case: &Case<'_>) -> bool {
    kernel_level(case).is_some()
}

/// What a kernel that masks interrupts by their priority writes to BASEPRI.
pub(super) fn level(case: &Case<'_>) -> Option<u64> {
    Some(kernel_level(case)?.value)
}

/// True for an interrupt that the kernel's critical sections do not keep back, by its priority; `None` where that is not known.
pub(super) fn is_above_kernel(number: u64, case: &Case<'_>) -> Option<bool> {
    let level = kernel_level(case)?;
    let mut priorities = case.cpus?.all.iter().filter_map(|cpu| interrupts::priority(cpu, number));
    priorities.next().map(|priority| priority < level.value)
}

/// By the kernel's code: the least that it writes to BASEPRI; `None` for a kernel that uses PRIMASK.
fn kernel_level(case: &Case<'_>) -> Option<KernelLevel> {
    let of = |name: &&str| {
        let symbol = case.look.symbol(name)?;
        let start = symbol.address & !1;
        let len = symbol.size.clamp(2, FUNCTION);
        let (value, offset) = basepri(&case.look.bytes(start, len)?)?;
        Some(KernelLevel { value, at: start.checked_add(offset)?, function: symbol.name })
    };
    CRITICAL.iter().filter_map(of).min_by_key(|level| level.value)
}

/// The first constant other than 0 that code writes to BASEPRI, and where it does (Armv7-M Architecture Reference Manual, A7.7: MSR,
/// MOV, LDR).
fn basepri(code: &[u8]) -> Option<(u64, u64)> {
    let half = |at: usize| Endian::Little.u16(code, at);
    (0..code.len()).step_by(2).find_map(|at| {
        let (first, second) = (half(at)?, half(at.checked_add(2)?)?);
        let register = (first & 0xFFF0 == 0xF380 && matches!(second, 0x8811 | 0x8812)).then_some(first & 0xF)?;
        let value = (1..=8_usize).find_map(|back| constant(code, at.checked_sub(back.checked_mul(2)?)?, register))?;
        (value != 0).then_some((value & 0xFF, u64::try_from(at).ok()?))
    })
}

/// What the instruction at this place sets a register to, where that is a constant.
fn constant(code: &[u8], at: usize, register: u16) -> Option<u64> {
    let half = |at: usize| Endian::Little.u16(code, at);
    let word = half(at)?;
    if register < 8 && word >> 8 == 0x20 | register {
        return Some(u64::from(word & 0xFF));
    }
    if register < 8 && word >> 8 == 0x48 | register {
        let offset = usize::from(word & 0xFF).checked_mul(4)?;
        // What is read is a multiple of 4 from the start of a function that begins at one, too.
        let place = (at.checked_add(4)? & !3).checked_add(offset)?;
        return Endian::Little.u32(code, place).map(u64::from);
    }
    let second = half(at.checked_add(2)?)?;
    (word == 0xF04F && second >> 8 == register).then_some(u64::from(second & 0xFF))
}

fn above_kernel(number: u64, priority: u64, level: &KernelLevel, case: &Case<'_>) -> Finding {
    let name = interrupts::name(case, number);
    let KernelLevel { value, at, function } = level;
    let calls = services(number, case);
    let claim = format!(
        "{name} (priority {priority:#x}) calls {}, and interrupts the kernel's critical sections: they mask only priorities from \
         {value:#x} on (BASEPRI)",
        named(&calls)
    );
    let made = |one: &Service| Evidence::symbol(one.at, &one.place, format!("by its code, it calls {} here", one.name));
    // While the kernel's count is above 0 no thread gives way: what waits, and what is not taken, follows from that.
    let held = held(case);
    let all = case.kernel.filter(|_| held.is_some()).into_iter();
    let all = all.flat_map(|kernel| {
        kernel.threads.iter().map(|thread| thread.address).chain(kernel.objects.iter().map(|object| object.address))
    });
    Finding::new(Code::IrqPriority, case.by_events(), claim)
        .against(["its priority may have been changed since those events"])
        .evidence([
            Evidence::memory(ipr(number), format!("the priority of {name}: {priority:#x}")),
            Evidence::symbol(*at, function, format!("{function} sets BASEPRI to {value:#x}")),
        ])
        .evidence(calls.iter().map(made))
        .evidence(held)
        .next(format!("give {name} a priority of {value:#x} or a higher number, or do not call the kernel in it"))
        .affected(all)
}

/// What a handler calls, by its code: `tx_queue_send in uart_handler (uart.c:9)`, `the kernel`.
pub(super) fn calls(number: u64, case: &Case<'_>) -> String {
    named(&services(number, case))
}

/// A service of the kernel that a handler calls.
struct Service {
    name: String,
    at: Addr,
    /// `uart_handler (uart.c:9)`.
    place: String,
}

/// Those of a handler, by its code.
fn services(number: u64, case: &Case<'_>) -> Vec<Service> {
    let calls = u32::try_from(number).ok().and_then(|number| Some(case.usage()?.calls_of(User::Handler(number))));
    let mut all: Vec<Service> = Vec::new();
    for made in calls.into_iter().flatten().filter(|made| api::action(&made.function).is_some()) {
        let name = made.service().filter(|name| all.len() < SERVICES && !all.iter().any(|one| one.name == *name));
        all.extend(name.map(|name| Service { name, at: made.at, place: place_at(made.at, case) }));
    }
    all
}

/// `tx_queue_send in uart_handler (uart.c:9)`, `tx_queue_send and tx_semaphore_put`, `the kernel`.
fn named(calls: &[Service]) -> String {
    match calls {
        [] => "the kernel".to_owned(),
        [one] => format!("{} in {}", one.name, one.place),
        several => several.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" and "),
    }
}

/// That the kernel's count of its critical sections is not 0.
fn held(case: &Case<'_>) -> Option<Evidence> {
    let times = case.kernel?.preempt_disable.filter(|times| *times != 0)?;
    let text = format!(
        "{PREEMPT_DISABLE} is {times}: the kernel switches no threads; an interrupt in a critical section leaves it so"
    );
    let at = case.look.symbol(PREEMPT_DISABLE)?.address;
    Some(Evidence::memory(at, text).named(PREEMPT_DISABLE))
}

fn below_pendsv(number: u64, priority: u64, pendsv: u64, case: &Case<'_>) -> Finding {
    let name = interrupts::name(case, number);
    let claim = format!(
        "PendSV (priority {pendsv:#x}) interrupts {name} (priority {priority:#x}), which calls the kernel: threads are \
         switched inside of its handler"
    );
    Finding::new(Code::IrqPriority, case.by_events(), claim)
        .against(["its priority may have been changed since those events"])
        .evidence([
            Evidence::memory(0xE000_ED20, format!("shpr3: the priority of PendSV is {pendsv:#x}")),
            Evidence::memory(ipr(number), format!("the priority of {name}: {priority:#x}")),
        ])
        .next("give PendSV the lowest priority (0xff)")
}

/// Where the interrupt controller has the priority of an interrupt.
const fn ipr(number: u64) -> Addr {
    0xE000_E400_u64.saturating_add(number.saturating_sub(FIRST))
}

/// SHPR3 and ICSR, where SysTick waits for the end of PendSV.
fn held_back(registers: &Registers) -> Option<(u64, u64)> {
    let (shpr3, icsr) = (registers.get("shpr3")?, registers.get("icsr")?);
    let is_held = icsr & PENDSTSET != 0 && registers.level() == Level::Exception(PENDSV);
    (is_held && tick(shpr3) >= pendsv(shpr3)).then_some((shpr3, icsr))
}

/// The priority of SysTick: the lower the number, the higher the priority.
const fn tick(shpr3: u64) -> u64 {
    shpr3 >> 24 & 0xFF
}

/// The priority of PendSV.
const fn pendsv(shpr3: u64) -> u64 {
    shpr3 >> 16 & 0xFF
}

fn finding((shpr3, icsr): (u64, u64), case: &Case<'_>) -> Finding {
    let (tick, pendsv) = (tick(shpr3), pendsv(shpr3));
    let claim = format!(
        "SysTick (priority {tick:#x}) cannot interrupt PendSV (priority {pendsv:#x}), in which the kernel waits while no \
         thread is ready: the tick does not come"
    );
    Finding::new(Code::IrqPriority, case.cap_of_registers(Confidence::Likely), claim)
        .against(["the kernel's tick may come from another timer than SysTick"])
        .evidence([
            Evidence::register(
                "shpr3",
                shpr3,
                format!("the priorities of SysTick ({tick:#x}) and PendSV ({pendsv:#x})"),
            ),
            Evidence::register("icsr", icsr, "PendSV is active, and SysTick is pending".to_owned()),
        ])
        .next("give PendSV the lowest priority (0xff), and SysTick a higher one (a lower number)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Architecture;

    fn held(shpr3: u64, icsr: u64) -> bool {
        let mut registers = Registers::new(Architecture::CortexM);
        for (name, value) in [("shpr3", shpr3), ("icsr", icsr), ("xpsr", 0x0100_0000 | icsr & 0x1FF)] {
            assert!(registers.set(name, value), "{name}");
        }
        held_back(&registers).is_some()
    }

    #[test]
    fn what_code_writes_to_basepri() {
        let of = |code: &[u16]| {
            let bytes: Vec<u8> = code.iter().flat_map(|half| half.to_le_bytes()).collect();
            basepri(&bytes).map(|(value, _)| value)
        };
        assert_eq!(of(&[0xF3EF, 0x8011, 0x2340, 0xF383, 0x8811]), Some(0x40), "movs r3, #0x40; msr basepri, r3");
        assert_eq!(of(&[0xF04F, 0x0120, 0xF381, 0x8811]), Some(0x20), "mov.w r1, #0x20");
        assert_eq!(of(&[0x4901, 0xF381, 0x8811, 0xBF00, 0x0030, 0]), Some(0x30), "ldr r1, [pc, #4]");
        assert_eq!(of(&[0x2300, 0xF383, 0x8811]), None, "it enables all");
        assert_eq!(of(&[0xF380, 0x8811]), None, "what is written is not known");
        assert_eq!(of(&[0x2301, 0xF383, 0x8810]), None, "PRIMASK");
    }

    #[test]
    fn the_service_that_an_urgent_interrupt_calls_was_not_named() {
        let of = |name: &str| Service { name: name.to_owned(), at: 0x100, place: "uart_handler (uart.c:9)".to_owned() };
        assert_eq!(named(&[of("tx_queue_send")]), "tx_queue_send in uart_handler (uart.c:9)");
        assert_eq!(named(&[of("tx_queue_send"), of("tx_semaphore_put")]), "tx_queue_send and tx_semaphore_put");
        assert_eq!(named(&[]), "the kernel");
    }

    #[test]
    fn priorities_are_compared_by_their_groups() {
        assert_eq!([groups(None), groups(Some(0x300)), groups(Some(0x700))], [0xFE, 0xF0, 0]);
    }

    #[test]
    fn a_tick_behind_pendsv_does_not_come() {
        assert!(held(0xFFFF_0000, 0x0400_F80E), "equal");
        assert!(held(0xFF40_0000, 0x0400_F80E), "PendSV above SysTick");
    }

    #[test]
    fn a_tick_that_is_taken_next_is_healthy() {
        assert!(!held(0x40FF_0000, 0x0400_F80E), "SysTick above PendSV");
        assert!(!held(0xFFFF_0000, 0x0000_F80E), "SysTick is not pending, and may not be used");
        assert!(!held(0xFFFF_0000, 0x0400_F80F), "inside of SysTick");
        assert!(!held(0xFFFF_0000, 0x0400_F800), "in a thread");
    }
}
