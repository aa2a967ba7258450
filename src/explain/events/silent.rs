//! Threads that the registry of the trace names, and that have no event.

use super::{Events, MAX_THREADS};
use crate::abi::Addr;
use crate::analysis::tracker::System;

/// Their addresses as the trace stores them, and their priorities when they were created.
pub(super) fn of(system: &System<'_>) -> Vec<(Addr, u32)> {
    let objects = system.trace.objects.iter();
    let threads = objects.filter(|object| object.type_name == Some("thread") && !object.deleted);
    let known = threads.filter_map(|thread| Some((thread.address, u32::from(thread.priority?))));
    known.filter(|(address, _)| system.find_thread(*address).is_none()).take(MAX_THREADS).collect()
}

impl Events {
    /// Threads without an event, and the priorities that they were created with.
    #[must_use]
    pub fn silent(&self) -> &[(Addr, u32)] {
        &self.silent
    }
}
