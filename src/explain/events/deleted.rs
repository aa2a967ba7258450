//! Calls that act on an object after it was deleted.

use std::collections::BTreeMap;

use super::Now;
use crate::abi::Addr;
use crate::analysis::tracker::System;
use crate::catalogue::{Product, Role};
use crate::trace::ContextKind;

/// The most objects that are remembered.
const MAX_DELETED: usize = 1 << 12;
/// The most calls that are remembered.
const MAX_USES: usize = 16;

/// The service that links a timer into the kernel's list of those that run.
const ACTIVATE: &str = "tx_timer_activate";

/// A call of a service with an object that was deleted, and not created again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterDelete {
    /// The object, as the trace stores its address.
    pub object: Addr,
    /// The event that deleted it.
    pub deleted: u64,
    /// The thread that did, as the trace stores its address.
    pub by: Option<Addr>,
    /// The event of the call.
    pub seq: u64,
    /// The service.
    pub call: String,
    /// The thread that calls it, as the trace stores its address.
    pub thread: Option<Addr>,
    /// The number of the interrupt that calls it, where it is one whose number is known.
    pub interrupt: Option<u32>,
    /// True for an interrupt.
    pub in_interrupt: bool,
}

/// Objects that were deleted, and what was called with them since.
#[derive(Debug, Default)]
pub struct Deleted {
    gone: BTreeMap<Addr, (u64, Option<Addr>)>,
    /// The last call with each, the latest last.
    pub used: Vec<AfterDelete>,
    /// How many there are in all.
    pub times: u64,
}

impl Deleted {
    /// Notes what a call of the kernel does. Middleware checks its objects itself, and in other systems an object need not be created
    /// by a call.
    pub(super) fn call(&mut self, now: &Now<'_>, role: &Role, system: &System<'_>) {
        let Now { event, words, context, .. } = *now;
        let def = event.def.and_then(|def| system.catalogue.def(def));
        let Some(def) = def.filter(|def| def.product == Product::Tx && !role.is_scheduling) else { return };
        if let Some(object) = role.create.of(words) {
            self.gone.remove(&object);
            return;
        }
        let deleted = role.delete.of(words);
        let Some(object) = role.object.of(words).or(deleted) else { return };
        if let Some((seq, by)) = self.gone.get(&object).copied() {
            let call = def.name.as_str();
            // These link what lies there into a list of the kernel, or take it out of one. Most others do nothing with what a delete
            // leaves; that of a mutex puts it itself.
            if deleted.is_some() || call == ACTIVATE {
                self.times = self.times.saturating_add(1);
                self.used.retain(|one| one.deleted != seq);
                if self.used.len() >= MAX_USES {
                    self.used.remove(0);
                }
                self.used.push(AfterDelete {
                    object,
                    deleted: seq,
                    by,
                    seq: event.seq,
                    call: call.to_owned(),
                    thread: now.thread(),
                    interrupt: event.isr,
                    in_interrupt: context.is_some_and(|context| context.kind == ContextKind::Isr),
                });
            }
        } else if deleted.is_some() && self.gone.len() < MAX_DELETED {
            self.gone.insert(object, (event.seq, now.thread()));
        }
    }

    /// The event that deleted an object which was not created again, and the thread that did; both addresses as the trace stores them.
    pub fn gone(&self, object: Addr) -> Option<(u64, Option<Addr>)> {
        self.gone.get(&object).copied()
    }

    /// Events are missing: any of these objects may have been created again.
    pub(super) fn forget(&mut self) {
        self.gone.clear();
    }
}
