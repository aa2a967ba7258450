//! What goes on from one read to the next: numbers of events and contexts, and time.

use super::{Gap, Update};
use crate::format::Lost;
use crate::trace::{Clock, ContextId, Contexts, Event, Trace};

/// The most contexts that keep their numbers; more are damage.
const MAX_CONTEXTS: usize = 1 << 16;

/// Counters over all reads.
#[derive(Debug, Default)]
pub struct Numbers {
    contexts: Contexts,
    /// The number of the next slot.
    pub seq: u64,
    /// Ticks and stamp of the last event that was numbered.
    pub last: Option<(i64, Option<u64>)>,
}

impl Numbers {
    /// The newest events of the first read: the first that is shown is number 0, at 0 ticks.
    pub(super) fn first(&mut self, trace: Trace, events: Vec<Event>, shown: usize) -> Update {
        let mut events = events;
        let newest = events.last().copied();
        let skip = events.len().saturating_sub(shown);
        events.drain(..skip);
        let origin = events.first().or(newest.as_ref()).map(|e| (e.seq, e.ticks));
        if let Some((seq, ticks)) = origin {
            for event in &mut events {
                event.seq = event.seq.saturating_sub(seq);
                event.ticks = event.ticks.saturating_sub(ticks);
            }
            self.seq = events.last().map_or(0, |e| e.seq.saturating_add(1));
            self.last = events.last().map(|e| (e.ticks, e.stamp));
        }
        let mut update = Update::of(trace, events);
        self.adopt(&mut update);
        update
    }

    /// Gives events the numbers that follow those before. `known` slots lead up to them, the last of which is `before`.
    pub fn number(
        &mut self,
        trace: Trace,
        events: Vec<Event>,
        known: u64,
        before: Option<Event>,
        gap: Option<(Lost, bool)>,
    ) -> Update {
        let mut events = events;
        let base = self.seq.saturating_add(gap.map_or(0, |(lost, _)| lost.count));
        let shift = match (self.last, before, events.first()) {
            // Time counts from the first event that is shown.
            (None, _, Some(first)) => first.ticks.saturating_neg(),
            (Some((ticks, _)), Some(before), _) => ticks.saturating_sub(before.ticks),
            // After a gap: as far as the stamps show, which is less than the clock's period.
            (Some((ticks, stamp)), None, Some(first)) => {
                let step = stamp.zip(first.stamp).map_or(0, |(a, b)| trace.clock.step(a, b));
                let step = i64::try_from(step).unwrap_or(0);
                ticks.saturating_add(step).saturating_sub(first.ticks)
            }
            (_, _, None) => 0,
        };
        for event in &mut events {
            event.seq = base.saturating_add(event.seq.saturating_sub(known));
            event.ticks = event.ticks.saturating_add(shift);
        }
        self.seq = base;
        let gap = gap.map(|(lost, restarted)| Gap { lost, restarted, seq: base });
        let mut update = Update { gap, ..Update::of(trace, events) };
        self.adopt(&mut update);
        update
    }

    /// Events of so many slots were returned.
    pub(super) fn advance(&mut self, update: &Update, slots: u64) {
        self.seq = self.seq.saturating_add(slots);
        if let Some(last) = update.events.last() {
            self.last = Some((last.ticks, last.stamp));
        }
    }

    /// Events that have their numbers already were returned.
    pub(super) fn emit(&mut self, update: &Update) {
        if let Some(last) = update.events.last() {
            self.seq = last.seq.saturating_add(1);
            self.last = Some((last.ticks, last.stamp));
        }
    }

    /// How many are lost, by a clock that counts events.
    pub(super) fn exactly(&self, lost: Lost, clock: &Clock, first: Option<&Event>) -> Lost {
        let stamps = self.last.and_then(|(_, stamp)| stamp).zip(first.and_then(|e| e.stamp));
        let count = stamps.map(|(before, now)| clock.step(before, now).saturating_sub(1));
        match count.filter(|count| *count >= lost.count) {
            Some(count) => Lost { count, at_least: false },
            None => lost,
        }
    }

    /// Contexts have the numbers that they had before.
    fn adopt(&mut self, update: &mut Update) {
        if self.contexts.len() > MAX_CONTEXTS {
            self.contexts = Contexts::default();
            update.renamed = true;
        }
        let mut map: Vec<ContextId> = Vec::with_capacity(update.trace.contexts.len());
        for (_, context) in update.trace.contexts.iter() {
            let id = self.contexts.intern(context.kind, context.address);
            if let Some(own) = self.contexts.get_mut(id)
                && (context.name.is_some() || own.name.is_none())
            {
                own.name.clone_from(&context.name);
            }
            map.push(id);
        }
        let mapped = |id: ContextId| usize::try_from(id.0).ok().and_then(|i| map.get(i)).copied().unwrap_or_default();
        for event in &mut update.events {
            event.context = mapped(event.context);
            event.interrupted = event.interrupted.map(mapped);
        }
        update.trace.contexts = self.contexts.clone();
    }
}
