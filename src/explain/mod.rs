//! EXPLAIN: from the state of the kernel and the last events to the likely cause of a failure. Each rule is one file in
//! `rules`; it looks at a [`Case`] and returns findings. Rules use effects, states and control blocks, never the names of an
//! application.

mod events;
mod finding;
mod graph;
mod rules;

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
}

/// What rules look at.
pub struct Case<'a> {
    /// The kernel in memory, where it was read.
    pub kernel: Option<&'a Kernel>,
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
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.confidence));
        let explained: Vec<Vec<u64>> = findings.iter().map(|finding| finding.behind.clone()).collect();
        let mut at = 0usize;
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
    if case.events.is_none() {
        all.push("who took semaphores, and who reads queues: they need a trace".to_owned());
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
