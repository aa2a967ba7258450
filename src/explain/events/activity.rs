//! What a thread did, and calls that an interrupt may not make.

use crate::abi::Addr;

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Activity {
    /// Ticks that it had the processor.
    pub ran: i64,
    /// How often it got the processor.
    pub dispatched: u64,
    /// The first event that gave it the processor.
    pub first: Option<u64>,
    /// How often it blocked.
    pub blocks: u64,
    /// Ticks and event of the last time, and how long it had had the processor by then.
    pub blocked: Option<(i64, u64, i64)>,
    /// The longest that it had the processor between two times that it blocked.
    pub longest: i64,
    /// How often a call suspended it.
    pub suspended: u64,
    /// Ticks since which it is in its state, where an event shows that.
    pub since: Option<(i64, u64)>,
    /// The last event that ended a wait of it.
    pub woken: Option<u64>,
}

/// A call that may wait, by an interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongCall {
    /// The event.
    pub seq: u64,
    /// What is called.
    pub call: String,
    /// On what.
    pub object: Option<Addr>,
    /// The number of the interrupt, where it is known.
    pub interrupt: Option<u32>,
}
