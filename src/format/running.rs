//! Who runs on a processor, for formats whose events do not store it.

use crate::trace::ContextId;

/// The context of an event whose inserter is not known.
pub const NO_CONTEXT: ContextId = ContextId(u32::MAX);
/// Interrupts that interrupt each other on one processor; more are a mistake.
const MAX_DEPTH: usize = 64;

/// One processor, as far as the events until here show it.
#[derive(Debug, Default, Clone)]
pub struct Running {
    /// The thread that runs, or that was interrupted.
    pub thread: Option<ContextId>,
    /// The interrupts that are active, the outermost first.
    interrupts: Vec<ContextId>,
}

impl Running {
    /// The context that runs, and the one that it interrupted.
    pub fn now(&self) -> (Option<ContextId>, Option<ContextId>) {
        match self.interrupts.split_last() {
            Some((isr, outer)) => (Some(*isr), outer.last().copied().or(self.thread)),
            None => (self.thread, None),
        }
    }

    /// True while an interrupt is active.
    pub const fn is_interrupted(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// True while this interrupt is active.
    pub fn is_active(&self, isr: ContextId) -> bool {
        self.interrupts.contains(&isr)
    }

    /// An interrupt begins.
    pub fn enter(&mut self, isr: ContextId) {
        if self.interrupts.len() < MAX_DEPTH {
            self.interrupts.push(isr);
        }
    }

    /// The innermost interrupt ends. Without one, who runs is not known any more.
    pub fn leave(&mut self) {
        if self.interrupts.pop().is_none() {
            self.thread = None;
        }
    }

    /// This interrupt ends, and those inside it whose end was not recorded; all of them where it did not begin.
    pub fn leave_to(&mut self, isr: Option<ContextId>) {
        let at = self.interrupts.iter().rposition(|i| Some(*i) == isr);
        self.interrupts.truncate(at.unwrap_or(0));
    }

    /// No interrupt is active.
    pub fn leave_all(&mut self) {
        self.interrupts.clear();
    }
}
