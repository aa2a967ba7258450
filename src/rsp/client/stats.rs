//! What went over a link, counted.

use std::collections::BTreeMap;

/// What went over the link so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests sent, by the name of the packet: `m`, `x`, `?`, `D`, `qSupported`, ... Repetitions count.
    pub sent: BTreeMap<String, u64>,
    /// Bytes sent, with frames and acknowledgements.
    pub bytes_out: u64,
    /// Bytes received, with frames and acknowledgements.
    pub bytes_in: u64,
    /// Bytes of target memory that were received in good order.
    pub memory_bytes: u64,
    /// How often a request was sent while no other was on its way: the number of latencies paid.
    pub round_trips: u64,
    /// Packets that came damaged, or were refused by the stub as damaged.
    pub damaged: u64,
    /// Packets that answered nothing (stop replies and console output not counted): late or doubled.
    pub strays: u64,
    /// How often the link was brought back into step.
    pub resyncs: u64,
}

impl Stats {
    /// Memory reads sent (`m` and `x`).
    pub fn reads(&self) -> u64 {
        ["m", "x"].map(|name| self.count(name)).iter().sum()
    }

    /// Requests sent of one kind.
    pub fn count(&self, name: &str) -> u64 {
        self.sent.get(name).copied().unwrap_or(0)
    }

    /// Requests sent of all kinds.
    pub fn packets(&self) -> u64 {
        self.sent.values().sum()
    }
}
