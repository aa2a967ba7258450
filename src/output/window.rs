//! What is going to be shown, measured before it is: columns are as wide as they need to be.

#![allow(clippy::arithmetic_side_effects, reason = "counts events")]

use crate::trace::{ContextId, Event};

/// Who inserted an event: a context, and of an interrupt its number and the context that it interrupted, where these are
/// known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inserter {
    pub context: ContextId,
    pub isr: Option<u32>,
    pub interrupted: Option<ContextId>,
}

impl Inserter {
    pub(super) const fn of(event: &Event) -> Self {
        Self { context: event.context, isr: event.isr, interrupted: event.interrupted }
    }
}

/// The extent of the events that will be shown.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// How many there are.
    pub events: u64,
    /// Ticks of the earliest.
    pub first: i64,
    /// Ticks of the latest.
    pub last: i64,
    /// The largest distance between one event and the event before it.
    pub step: u64,
    /// The smallest sequence number.
    pub first_seq: u64,
    /// The largest sequence number.
    pub seq: u64,
    /// The largest priority or threshold.
    pub priority: u16,
    /// Others may come that are not among these.
    pub is_open: bool,
    contexts: Vec<bool>,
    interrupts: Vec<Inserter>,
    defs: Vec<bool>,
    /// The largest id without a definition.
    pub unknown: Option<u32>,
}

fn set(list: &mut Vec<bool>, index: u32) {
    let Ok(index) = usize::try_from(index) else { return };
    match list.get_mut(index) {
        Some(place) => *place = true,
        None => grow(list, index),
    }
}

#[cold]
fn grow(list: &mut Vec<bool>, index: usize) {
    /// Numbers are dense; a foreign one must not take memory.
    const MOST: usize = 1 << 20;
    if index < MOST {
        list.resize(index, false);
        list.push(true);
    }
}

fn each(list: &[bool]) -> impl Iterator<Item = u32> {
    list.iter().enumerate().filter(|(_, on)| **on).filter_map(|(i, _)| u32::try_from(i).ok())
}

impl Window {
    /// The extent of these events.
    pub fn of(events: impl Iterator<Item = Event>) -> Self {
        let mut all = Self::default();
        events.for_each(|e| all.add(&e));
        all
    }

    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        if self.events == 0 {
            (self.first, self.last, self.first_seq) = (event.ticks, event.ticks, event.seq);
        }
        self.events += 1;
        self.first = self.first.min(event.ticks);
        self.last = self.last.max(event.ticks);
        self.step = self.step.max(event.delta.unwrap_or(0).unsigned_abs());
        self.first_seq = self.first_seq.min(event.seq);
        self.seq = self.seq.max(event.seq);
        self.priority = self.priority.max(event.priority.unwrap_or(0)).max(event.threshold.unwrap_or(0));
        if event.isr.is_some() || event.interrupted.is_some() {
            self.interrupt(Inserter::of(event));
        } else {
            set(&mut self.contexts, event.context.0);
        }
        match event.def {
            Some(def) => set(&mut self.defs, def.number()),
            None => self.unknown = self.unknown.max(Some(event.id)),
        }
    }

    fn interrupt(&mut self, inserter: Inserter) {
        /// Real interrupts are few.
        const MOST: usize = 512;
        if let Err(at) = self.interrupts.binary_search(&inserter)
            && self.interrupts.len() < MOST
        {
            self.interrupts.insert(at, inserter);
        }
    }

    /// Who inserted the events.
    pub(super) fn inserters(&self) -> impl Iterator<Item = Inserter> {
        let plain = |id| Inserter { context: ContextId(id), isr: None, interrupted: None };
        each(&self.contexts).map(plain).chain(self.interrupts.iter().copied())
    }

    /// Numbers of the definitions.
    pub(super) fn defs(&self) -> impl Iterator<Item = u32> {
        each(&self.defs)
    }
}
