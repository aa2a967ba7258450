//! Messages of several threads that are sent from the same memory.

use std::collections::BTreeMap;

use crate::abi::Addr;

/// The most buffers, and the most threads, that are remembered.
const MAX: usize = 1024;

/// A message that a thread sent from memory from which another thread had sent one, after the first thread was made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The queue, as the trace stores its address.
    pub queue: Addr,
    /// The memory.
    pub buffer: Addr,
    /// The other thread, as the trace stores its address, and its event.
    pub other: (Addr, u64),
    /// The event of the thread itself.
    pub seq: u64,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct SameBuffer {
    /// Who sent last from a buffer, and the event.
    last: BTreeMap<Addr, (Addr, u64)>,
    /// By thread, where its last send is one.
    by_thread: BTreeMap<Addr, Overlap>,
    /// The last event in front of the last gap: what a thread did in a gap is not known.
    gap: Option<u64>,
}

impl SameBuffer {
    /// A thread sends. `ready`: the event that made it ready, since which it has not blocked.
    pub fn sent(&mut self, thread: Addr, (queue, buffer, seq): (Addr, Addr, u64), ready: Option<u64>) {
        if self.last.len() >= MAX && !self.last.contains_key(&buffer) {
            return;
        }
        self.by_thread.remove(&thread);
        let before = self.last.insert(buffer, (thread, seq));
        let ready = ready.filter(|ready| self.gap.is_none_or(|gap| *ready > gap));
        let is_between = |other: &(Addr, u64)| other.0 != thread && ready.is_some_and(|ready| ready < other.1);
        if let Some(other) = before.filter(is_between).filter(|_| self.by_thread.len() < MAX) {
            self.by_thread.insert(thread, Overlap { queue, buffer, other, seq });
        }
    }

    /// Events are missing behind this one.
    pub fn forget(&mut self, newest: u64) {
        *self = Self { gap: Some(newest), ..Self::default() };
    }

    /// The last message of a thread, where it is one.
    pub fn of(&self, thread: Addr) -> Option<Overlap> {
        self.by_thread.get(&thread).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_another_thread_may_have_written_over() {
        let mut all = SameBuffer::default();
        all.sent(1, (0x100, 0x2000, 10), Some(5));
        all.sent(2, (0x100, 0x2000, 20), Some(15));
        assert_eq!(all.of(2), None, "it was made ready behind the other one's send");
        all.sent(2, (0x100, 0x2000, 30), Some(28));
        all.sent(1, (0x100, 0x2000, 31), Some(22));
        assert_eq!(all.of(1), Some(Overlap { queue: 0x100, buffer: 0x2000, other: (2, 30), seq: 31 }));
        all.sent(1, (0x100, 0x2000, 40), Some(35));
        assert_eq!(all.of(1), None, "its next message is its own");
        all.sent(1, (0x100, 0x3000, 50), Some(5));
        assert_eq!(all.of(1), None, "memory of its own");
        all.forget(52);
        all.sent(2, (0x100, 0x2000, 60), Some(58));
        all.sent(1, (0x100, 0x2000, 61), Some(51));
        assert_eq!(all.of(1), None, "it may have waited meanwhile");
    }
}
