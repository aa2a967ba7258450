//! A source without registers, as a dump of the RAM: an interrupt that came while the thread that runs was in a loop without
//! an exit, in a function that is called where an assertion fails, or in a loop that waits for a word, left its registers
//! on the thread's stack. What holds of a CPU that is there is a hint.
//!
//! Against it: the thread may have gone on since. So a loop that waits counts only where others wait behind the thread, as it does
//! of a CPU.

use super::super::graph::Graph;
use super::super::{Case, Confidence, Evidence, Finding};
use super::stopped;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some(cpus) = case.cpus else { return Vec::new() };
    let found = cpus.left.iter().find_map(|(frame, cpu)| {
        let pc = cpu.registers.pc()?;
        let mut finding = stopped::at(cpu, cpus, case, graph)?;
        finding.confidence = Confidence::Hint;
        finding.claim.push_str(", if it is still there");
        let text = format!("this looks like what an interrupt pushed: pc {pc:#x}");
        finding.evidence.insert(0, Evidence::stack(*frame, text).holds(pc));
        Some(finding.against(["this source has no registers: whether the thread has gone on since is not known"]))
    });
    found.into_iter().collect()
}
