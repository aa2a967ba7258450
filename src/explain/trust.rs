//! How sure a finding may be, by what it is from: memory, registers or events, and how these were read.

use super::{Case, Confidence};

/// What speaks against all that was read of memory.
const MISPLACED: &str = "by the trace, the address of the dump is wrong: what was read of memory may be something else";

/// How far the kernel's state in memory can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// The target ran while it was read: what was read at different moments may contradict itself.
    pub was_running: bool,
    /// The ELF is of another build, or its code was not found in memory to compare.
    pub other_build: bool,
    /// The kernel was not found, and the trace says that it is at another address than the one where it is in this memory.
    pub misplaced: bool,
    /// Why source lines are not known, in words; callers of functions neither, where nothing else shows them.
    pub without_lines: Option<String>,
    /// Callers are known all the same, by the code of functions.
    pub has_callers: bool,
    /// Older events were overwritten.
    pub has_wrapped: bool,
}

impl Case<'_> {
    /// The most that a finding from memory alone may claim, and what speaks against more.
    pub(super) fn cap(&self, claimed: Confidence) -> (Confidence, Vec<String>) {
        let mut against = Vec::new();
        if self.kernel.is_none() {
            // What events show is not lessened by how memory was read.
            against.push("it is inferred from events: the kernel's memory was not read".to_owned());
            return (claimed.min(Confidence::Likely), against);
        }
        let mut most = claimed;
        if self.trust.was_running {
            most = Confidence::Hint;
            against.push("the target ran while it was read".to_owned());
        }
        if self.trust.other_build {
            most = Confidence::Hint;
            against.push("the ELF is not known to be of this build".to_owned());
        }
        if let Some(kernel) = self.kernel {
            let doubts = [
                (
                    kernel.preempt_disable.is_some_and(|n| n != 0),
                    "the kernel was in the middle of a call (_tx_thread_preempt_disable is not 0)",
                ),
                (kernel.threads.iter().any(|thread| thread.delayed_suspend), "a suspension is under way"),
                (
                    kernel.issues.iter().any(|issue| issue.code == crate::code::Code::KernelLayout),
                    "the layout of control blocks is inferred: no debug information gives it",
                ),
            ];
            for (_, doubt) in doubts.iter().filter(|(is_so, _)| *is_so && claimed == Confidence::Proven) {
                most = most.min(Confidence::Likely);
                against.push((*doubt).to_owned());
            }
        }
        (claimed.min(most), against)
    }

    /// The same for what follows from events alone: how memory was read does not lessen it.
    pub(super) fn by_events(&self) -> (Confidence, Vec<String>) {
        if self.trust.was_running || self.kernel.is_none() {
            return self.cap(Confidence::Likely);
        }
        (Confidence::Likely, Vec::new())
    }

    /// The most that a finding from the registers of a CPU may claim, and what speaks against more.
    pub(super) fn cap_of_registers(&self, claimed: Confidence) -> (Confidence, Vec<String>) {
        let against = self.against_program();
        let claimed = if against.is_empty() { claimed } else { claimed.min(Confidence::Hint) };
        self.by_vector(claimed, against)
    }

    /// The same for an exception of the CPU: its registers show it whatever the ELF is. Functions are not named then.
    pub(super) fn cap_of_exception(&self, claimed: Confidence) -> (Confidence, Vec<String>) {
        let against = self.against_program();
        let most = if self.trust.misplaced { Confidence::Hint } else { Confidence::Likely };
        let claimed = if against.is_empty() { claimed } else { claimed.min(most) };
        self.by_vector(claimed, against)
    }

    /// Less sure where the exception is known by its handler alone, and a hint where that is of another program.
    fn by_vector(&self, claimed: Confidence, mut against: Vec<String>) -> (Confidence, Vec<String>) {
        if !self.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.registers.has_inferred_exception())) {
            return (claimed, against);
        }
        against.push(
            "xpsr is not known (--reg xpsr=N): the exception is inferred from the vector table in the ELF".to_owned(),
        );
        (claimed.min(if self.trust.other_build { Confidence::Hint } else { Confidence::Likely }), against)
    }

    fn against_program(&self) -> Vec<String> {
        let other = self.trust.other_build.then_some("the ELF is not known to be of this build");
        other.into_iter().chain(self.trust.misplaced.then_some(MISPLACED)).map(str::to_owned).collect()
    }
}
