//! How low the stack pointers of threads were: some calls record theirs.

use super::{Events, Now};
use crate::abi::{Addr, Region};
use crate::analysis::tracker::System;
use crate::catalogue::Role;

/// The stack pointers of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// The lowest, and its event.
    pub lowest: (Addr, u64),
    /// The highest before that.
    pub before: Option<Addr>,
    highest: Addr,
}

impl Events {
    /// The stack pointer of the thread that an event is by.
    pub(super) fn pointer(&mut self, now: &Now<'_>, role: &Role, system: &System<'_>) {
        if let Some(sp) = role.stack.of(now.words).filter(|sp| *sp != 0)
            && now.event.doubtful == 0
            && let Some(activity) = system.thread_of(now.event.context).and_then(|no| self.does(no))
        {
            Pointer::add(&mut activity.pointer, sp, now.event.seq);
        }
    }
}

impl Events {
    /// The stacks of threads, by the registry of the trace.
    pub fn stacks(&self) -> impl Iterator<Item = (Addr, Region)> {
        self.stacks
            .iter()
            .filter_map(|(thread, (start, size))| Some((*thread, Region { start: *start, len: (*size)? })))
    }
}

impl Pointer {
    fn add(seen: &mut Option<Self>, sp: Addr, seq: u64) {
        let seen = seen.get_or_insert(Self { lowest: (sp, seq), before: None, highest: sp });
        if sp < seen.lowest.0 {
            (seen.lowest, seen.before) = ((sp, seq), Some(seen.highest));
        }
        seen.highest = seen.highest.max(sp);
    }

    /// How far below a stack the lowest was, of a thread that was on that stack before: one that was created again may have had
    /// another.
    pub fn below(&self, start: Addr, end: Addr) -> Option<u64> {
        let was_on_it = self.before.is_some_and(|before| before > start && before <= end);
        start.checked_sub(self.lowest.0).filter(|below| *below > 0 && was_on_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far below 0x1000 a thread came that recorded these.
    fn below(all: &[Addr]) -> Option<u64> {
        let mut pointer = None;
        all.iter().zip(1..).for_each(|(sp, seq)| Pointer::add(&mut pointer, *sp, seq));
        pointer?.below(0x1000, 0x1200)
    }

    /// A stack pointer in the trace that was in the neighbour's stack was not looked at.
    #[test]
    fn a_stack_pointer_of_the_trace_below_the_stack() {
        assert_eq!(below(&[0x1180, 0xF80, 0x1180]), Some(0x80));
        assert_eq!(below(&[0x1180, 0x1008]), None, "it fits");
        assert_eq!(below(&[0xF80, 0x1180]), None, "it may have had another stack then");
        assert_eq!(below(&[0x1480, 0xF80]), None, "never on this stack");
        assert_eq!(below(&[0xF80]), None);
    }
}
