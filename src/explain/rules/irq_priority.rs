//! On a Cortex-M the kernel waits for the next thread inside of PendSV. An interrupt whose priority is not above that of PendSV
//! cannot come there: where that is SysTick, the tick stops as soon as all threads wait (Arm, Armv7-M Architecture Reference
//! Manual, B1.5.4: an exception is taken only where its priority is higher than that of the one that runs).
//!
//! Against it: the kernel's tick may come from another timer.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::cpu::{Level, Registers};
use crate::kernel::Under;

/// The number of PendSV.
const PENDSV: u32 = 14;
/// ICSR: SysTick is pending.
const PENDSTSET: u64 = 1 << 26;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    let idle = cpus.filter(|cpu| cpu.under == Some(Under::Idle));
    idle.filter_map(|cpu| Some(finding(held_back(&cpu.registers)?, case))).collect()
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
    let (confidence, mut detractors) = case.cap_of_registers(Confidence::Likely);
    detractors.push("the kernel's tick may come from another timer than SysTick".to_owned());
    Finding {
        code: Code::IrqPriority,
        claim: format!(
            "SysTick (priority {tick:#x}) cannot interrupt PendSV (priority {pendsv:#x}), in which the kernel waits while no \
             thread is ready: the tick does not come"
        ),
        confidence,
        detractors,
        evidence: vec![
            Evidence::register(
                "shpr3",
                shpr3,
                format!("the priorities of SysTick ({tick:#x}) and PendSV ({pendsv:#x})"),
            ),
            Evidence::register("icsr", icsr, "PendSV is active, and SysTick is pending".to_owned()),
        ],
        explains: Vec::new(),
        next: "give PendSV the lowest priority (0xff), and SysTick a higher one (a lower number)".to_owned(),
        threads: Vec::new(),
        behind: Vec::new(),
    }
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
