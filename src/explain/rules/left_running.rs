//! A source without registers, as a dump of the RAM: an interrupt that came while the thread that runs was in a loop without
//! an exit, in a function that is called where an assertion fails, or in a loop that waits for a word or calls `tx_thread_relinquish`, left
//! its registers on the thread's stack. What holds of a CPU that is there is a hint.
//!
//! Against it: the thread may have gone on since. So a loop that waits counts only where others wait behind the thread, as it does
//! of a CPU.

use super::super::cpus::thread_of;
use super::super::graph::Graph;
use super::super::{Case, Confidence, Evidence, Finding};
use super::{place, stopped, yields};
use crate::abi::Addr;
use crate::session::CpuState;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    let found = cpus.left.iter().find_map(|(frame, cpu)| {
        let mut finding = stopped::at(cpu, cpus, case, graph).or_else(|| yields::finding(cpu, case, graph))?;
        finding.confidence = Confidence::Hint;
        finding.claim.push_str(", if it is still there");
        finding.evidence.insert(0, pushed(*frame, cpu)?);
        Some(finding.against(["this source has no registers: whether the thread has gone on since is not known"]))
    });
    found.into_iter().collect()
}

/// The loop in which an interrupt found a thread, in words, and what shows it.
pub(super) fn place_of(thread: Addr, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let cpus = case.cpus?;
    let own = cpus.left.iter().filter(|(_, cpu)| thread_of(cpu, case.kernel).is_some_and(|t| t.address == thread));
    let mut loops = own.filter(|(_, cpu)| stopped::at(cpu, cpus, case, graph).is_some());
    loops.find_map(|(frame, cpu)| {
        let at = place::of(&cpu.functions)?;
        Some((format!(" in {at}, if it is still there,"), pushed(*frame, cpu)?))
    })
}

/// Where the interrupt left the registers.
fn pushed(frame: Addr, cpu: &CpuState) -> Option<Evidence> {
    let pc = cpu.registers.pc()?;
    Some(Evidence::stack(frame, format!("this looks like what an interrupt pushed: pc {pc:#x}")).holds(pc))
}
