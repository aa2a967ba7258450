//! EXPLAIN: from the state of the kernel and the last events to the likely cause of a failure. Each rule is one file in
//! `rules`; it looks at a [`Case`] and returns findings. Rules use effects, states and control blocks, never the names of an
//! application.

mod address;
mod cpus;
mod events;
mod finding;
mod graph;
mod rules;

pub use cpus::Cpus;
pub use events::Events;
pub use finding::{Code, Confidence, Evidence, Finding, Source};
pub use rules::CHECKS;

use crate::kernel::{Kernel, Thread};
use graph::Graph;

/// How far the kernel's state in memory can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trust {
    /// The target ran while it was read: what was read at different moments may contradict itself.
    pub was_running: bool,
    /// The ELF is of another build, or its code was not found in memory to compare.
    pub other_build: bool,
    /// There is no ELF: functions and lines are not known.
    pub no_elf: bool,
    /// Older events were overwritten.
    pub has_wrapped: bool,
}

/// What rules look at.
pub struct Case<'a> {
    /// The kernel in memory, where it was read.
    pub kernel: Option<&'a Kernel>,
    /// What the CPUs do, where registers are known.
    pub cpus: Option<&'a Cpus>,
    /// What the events show, where there is a trace.
    pub events: Option<&'a Events>,
    /// How far memory can be trusted.
    pub trust: Trust,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// The findings, the most likely cause first.
    pub findings: Vec<Finding>,
    /// What could not be checked, and what that would need.
    pub not_checked: Vec<String>,
}

impl Explanation {
    /// Applies all rules.
    #[must_use]
    pub fn of(case: &Case<'_>) -> Self {
        let graph = Graph::of(case);
        let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| (check.find)(case, &graph)).collect();
        // A sort that keeps the order of the rules, which have causes before symptoms.
        findings.sort_by_key(|finding| {
            let Finding { code, confidence, .. } = finding;
            (*confidence == Confidence::Hint, code.comes_first(), std::cmp::Reverse(*confidence))
        });
        let explained: Vec<Vec<u64>> = findings.iter().map(|finding| finding.behind.clone()).collect();
        let mut at = 0usize;
        // The first of several that say the same of the same threads has more.
        let mut said: Vec<(Code, Vec<u64>)> = Vec::new();
        findings.retain(|finding| {
            let key = (finding.code, finding.threads.clone());
            let is_new = finding.threads.is_empty() || !said.contains(&key);
            said.push(key);
            is_new
        });
        findings.retain(|finding| {
            let before = explained.get(..at).unwrap_or_default();
            at = at.saturating_add(1);
            !before
                .iter()
                .any(|behind| finding.threads.iter().all(|t| behind.contains(t)) && !finding.threads.is_empty())
        });
        Self { findings, not_checked: not_checked(case) }
    }
}

/// What a case lacks.
fn not_checked(case: &Case<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if case.kernel.is_none() {
        all.push("threads, waits and stacks: they need the RAM, and the ELF or the kernel's addresses".to_owned());
    }
    let known = |cpu: &crate::session::CpuState| cpu.registers.is_placed();
    if !case.cpus.is_some_and(|cpus| cpus.all.iter().any(known)) {
        all.push("faults, and where the CPU is: they need registers (a core, --reg, a live target)".to_owned());
    } else if case.trust.no_elf {
        all.push("functions and lines: they need the ELF".to_owned());
    }
    if case.trust.was_running {
        all.push("what holds only while nothing changes: it needs a target that is halted".to_owned());
    }
    if case.events.is_none() {
        all.push("who took semaphores, and who reads queues: they need a trace".to_owned());
    } else if case.trust.has_wrapped {
        all.push("what came before the oldest event: it needs a longer ring".to_owned());
    }
    all
}

impl Case<'_> {
    /// The most that a finding from memory alone may claim, and what speaks against more.
    fn cap(&self, claimed: Confidence) -> (Confidence, Vec<String>) {
        let mut against = Vec::new();
        if self.trust.was_running {
            against.push("the target ran while it was read".to_owned());
        }
        if self.trust.other_build {
            against.push("the ELF is not known to be of this build".to_owned());
        }
        if let Some(kernel) = self.kernel {
            if kernel.preempt_disable.is_some_and(|n| n != 0) {
                against.push("the kernel was in the middle of a call (_tx_thread_preempt_disable is not 0)".to_owned());
            }
            if kernel.threads.iter().any(|thread| thread.delayed_suspend) {
                against.push("a suspension is under way".to_owned());
            }
        }
        (if against.is_empty() { claimed } else { claimed.min(Confidence::Hint) }, against)
    }

    /// The most that a finding from the registers of a CPU may claim, and what speaks against more.
    fn cap_of_registers(&self, claimed: Confidence) -> (Confidence, Vec<String>) {
        let against: Vec<String> =
            self.trust.other_build.then(|| "the ELF is not known to be of this build".to_owned()).into_iter().collect();
        (if against.is_empty() { claimed } else { claimed.min(Confidence::Hint) }, against)
    }

    /// What a thread is called.
    fn label(&self, thread: u64) -> String {
        self.thread(thread).map_or_else(|| format!("the thread at {thread:#x}"), Thread::label)
    }

    /// The thread at an address.
    fn thread(&self, address: u64) -> Option<&Thread> {
        self.kernel.and_then(|kernel| kernel.thread(address))
    }

    /// What an object is called, with its kind: `mutex bus`.
    fn object(&self, address: u64) -> String {
        match self.kernel.and_then(|kernel| kernel.object(address)) {
            Some(object) => format!("{} {}", object.kind.name(), object.label()),
            None => format!("the object at {address:#x}"),
        }
    }
}
