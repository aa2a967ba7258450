//! Calls of `tx_thread_resume`: one of a thread that is not suspended does nothing, and is not remembered (its result says so).

use super::objects::Giver;
use super::{Events, MAX_THREADS, Now};
use crate::abi::Addr;
use crate::trace::ContextKind;

/// The kernel's numbers of states: that of a thread that is ready, and of one that a call has suspended.
pub(super) const READY: u64 = 0;
pub(super) const SUSPENDED: u64 = 3;

/// What resumed a thread, and what did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resumes {
    /// How many calls found it suspended.
    pub found: u64,
    /// The last call that found it ready, since it was made ready last: the event, and who made it.
    pub in_vain: Option<(u64, Giver)>,
    /// The most ticks for which it was suspended before it was resumed.
    pub longest: i64,
}

impl Events {
    /// The calls of `tx_thread_resume` for a thread.
    #[must_use]
    pub fn resumes(&self, thread: Addr) -> Option<&Resumes> {
        self.resumes.get(&(thread & self.mask))
    }

    pub(super) fn resume_call(&mut self, now: &Now<'_>) {
        let Some((thread, state)) = now.places.resumed(now.words) else { return };
        if self.resumes.len() >= MAX_THREADS && !self.resumes.contains_key(&thread) {
            return;
        }
        let in_interrupt = now.context.is_some_and(|context| context.kind == ContextKind::Isr);
        let by = match now.thread() {
            Some(thread) => Giver::Thread(thread),
            None if in_interrupt => Giver::Interrupt(now.event.isr.map(u64::from)),
            None => Giver::Other,
        };
        let one = self.resumes.entry(thread).or_default();
        match state {
            SUSPENDED => one.found = one.found.saturating_add(1),
            READY => one.in_vain = Some((now.event.seq, by)),
            _ => {}
        }
    }

    /// A thread is made ready. `suspended`: for how many ticks it was suspended, where it was that.
    pub(super) fn is_resumed(&mut self, thread: Addr, suspended: Option<i64>) {
        if let Some(one) = self.resumes.get_mut(&thread) {
            one.in_vain = None;
            one.longest = one.longest.max(suspended.unwrap_or(0));
        }
    }
}
