//! A call that sets the time of the kernel back (`tx_time_set`), and who reads the time after it: what a thread read before is greater
//! then.

use crate::abi::Addr;

/// So often a thread that stops reads it: to compare it, and to write down when.
const FEW: u64 = 2;
/// The most threads that are remembered.
const MAX_THREADS: usize = 64;

/// The last such call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBack {
    /// Who makes it, as the trace stores its address.
    pub by: Addr,
    /// The event.
    pub seq: u64,
    /// The time that was read or set last before, and the new one.
    pub from: u64,
    pub to: u64,
    /// How often each thread has read the time since.
    readers: Vec<(Addr, u64)>,
}

impl SetBack {
    /// A thread sets the time. `last`: what was read or set last.
    pub(super) fn of(by: Option<Addr>, to: u64, last: Option<u64>, seq: u64) -> Option<Self> {
        let from = last.filter(|last| *last > to)?;
        Some(Self { by: by?, seq, from, to, readers: Vec::new() })
    }

    /// A thread reads it.
    pub(super) fn read(&mut self, thread: Addr) {
        if let Some((_, times)) = self.readers.iter_mut().find(|(other, _)| *other == thread) {
            *times = times.saturating_add(1);
        } else if self.readers.len() < MAX_THREADS {
            self.readers.push((thread, 1));
        }
    }

    /// True where a thread, as the trace stores its address, has read the time since, and not often: it has not gone on for long.
    #[must_use]
    pub fn was_just_read(&self, thread: Addr) -> bool {
        thread != self.by && self.readers.iter().any(|(other, times)| *other == thread && *times <= FEW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reads_after_the_time_was_set_back_count() {
        assert_eq!(SetBack::of(Some(1), 300, Some(200), 9), None, "it is set forward");
        assert_eq!(SetBack::of(Some(1), 300, None, 9), None, "nobody has read it");
        let mut set = SetBack::of(Some(1), 100, Some(200), 9).unwrap();
        assert!(!set.was_just_read(2));
        set.read(2);
        set.read(1);
        assert!(set.was_just_read(2) && !set.was_just_read(1), "who sets it knows");
        (0..2).for_each(|_| set.read(2));
        assert!(!set.was_just_read(2), "it went on with the new time");
    }
}
