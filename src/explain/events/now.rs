//! The event that is looked at.

use super::words::Places;
use crate::abi::Addr;
use crate::trace::{Context, ContextKind, Event};

/// The event that is looked at, with what each check asks of it.
#[derive(Clone, Copy)]
pub(super) struct Now<'e> {
    pub event: &'e Event,
    pub words: &'e [u64],
    pub places: Places,
    pub context: Option<&'e Context>,
}

impl Now<'_> {
    /// The thread that inserted it.
    pub fn thread(&self) -> Option<Addr> {
        self.context.filter(|context| context.kind == ContextKind::Thread).map(|context| context.address)
    }

    /// True where a handler inserted it.
    pub fn is_of_interrupt(&self) -> bool {
        self.context.is_some_and(|context| context.kind == ContextKind::Isr)
    }
}
