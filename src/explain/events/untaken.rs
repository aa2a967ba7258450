//! What is put into a queue or a semaphore and not taken out, and releases of memory and sets of event flags that do not help who
//! waits for some.

/// Puts without an event that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untaken {
    /// How many.
    pub puts: u64,
    /// The first event and its ticks.
    pub first: (u64, i64),
    /// The last event and its ticks.
    pub last: (u64, i64),
    /// What the object held in front of the first and of the last of them.
    pub held: (u64, u64),
}

impl Untaken {
    /// Something is put into what holds so much; `so_far`: without an event that takes.
    pub fn put(so_far: Option<Self>, held: u64, seq: u64, at: i64) -> Self {
        let first = Self { puts: 1, first: (seq, at), last: (seq, at), held: (held, held) };
        // Where it holds less, it was taken out all the same.
        let before = so_far.filter(|before| before.held.1 <= held);
        before.map_or(first, |before| Self {
            puts: before.puts.saturating_add(1),
            last: (seq, at),
            held: (before.held.0, held),
            ..before
        })
    }

    /// True where each put found the same: it is refused.
    pub const fn is_refused(&self) -> bool {
        self.held.0 == self.held.1 && self.held.0 > 0
    }

    /// True where each put found one more.
    pub const fn only_grows(&self) -> bool {
        self.held.1.saturating_sub(self.held.0) == self.puts.saturating_sub(1) && self.puts > 1
    }
}

/// Releases of memory, or sets of event flags, that do not help a thread that waits for some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// How many.
    pub times: u64,
    /// The first event and its ticks.
    pub first: (u64, i64),
    /// The last event and its ticks.
    pub last: (u64, i64),
    /// The bytes that were free at the last; 0 for event flags.
    pub free: u64,
}

impl Short {
    /// `free`: what is free then, where a thread waits for some.
    pub fn give(so_far: Option<Self>, free: Option<u64>, seq: u64, at: i64) -> Option<Self> {
        let before = so_far.unwrap_or(Self { times: 0, first: (seq, at), last: (seq, at), free: 0 });
        free.map(|free| Self { times: before.times.saturating_add(1), last: (seq, at), free, ..before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(held: &[u64]) -> Untaken {
        let put = |so_far, (n, held): (usize, &u64)| Some(Untaken::put(so_far, *held, n as u64, 0));
        held.iter().enumerate().fold(None, put).unwrap()
    }

    #[test]
    fn a_queue_that_is_full_and_a_semaphore_that_nobody_takes() {
        assert!(after(&[10, 10, 10]).is_refused());
        assert!(!after(&[0, 0, 0]).is_refused(), "a thread that waits has each at once");
        assert!(after(&[3, 4, 5]).only_grows());
        assert!(!after(&[3, 4, 4]).only_grows());
        assert_eq!(after(&[5, 6, 2, 3]).puts, 2, "it was taken in between");
    }
}
