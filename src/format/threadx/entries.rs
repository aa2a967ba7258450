//! The events of a capture, decoded as they are asked for: nothing is kept but the bytes.

#![expect(clippy::arithmetic_side_effects, reason = "numbers of slots that memory holds; ticks are added with checks")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::doubts::Doubts;
use super::entry::{Codec, Entry, id, kind_of};
use super::ids::Ids;
use super::order::Run;
use super::prescan;
use crate::trace::{Clock, ContextId, ContextIndex, ContextKind, CoreClock, Event, Events, WalkState, Words};

/// Events of one or several captures, oldest first.
pub(super) struct Entries {
    pub runs: Vec<Run>,
    pub codec: Codec,
    pub clock: Clock,
    /// Steps of the clock that are not what the stamps alone say.
    pub doubts: Doubts,
    /// True where each core has a clock of its own.
    pub per_core: bool,
    pub stores_interrupted: bool,
    /// The numbers of the context words.
    pub contexts: Arc<ContextIndex>,
    pub ids: Ids,
    /// True where slots were overwritten: they are passed over.
    pub damaged: bool,
    pub count: u64,
    /// Words of the oldest event that the kernel's late patches may have hit.
    pub oldest_doubt: u8,
    /// By context: its last event.
    pub last_of: Vec<u64>,
    pub newest: Option<u64>,
    /// What the cleared context words were, in the run before a reset.
    pub previous: Option<Inferred>,
}

/// Contexts of the run before a reset, by what the priority words still say.
#[derive(Default)]
pub(super) struct Inferred {
    /// Threads whose priority no other has.
    pub by_priority: HashMap<u16, ContextId>,
    /// ISR contexts by the thread that was interrupted.
    pub isr: ContextId,
    /// Interrupted threads.
    pub interrupted: HashMap<u64, ContextId>,
    /// The context where none is known.
    pub unknown: ContextId,
}

/// The words of the last events and their contexts: the next one often has the same.
#[derive(Default)]
struct Recent {
    /// By kind.
    own: [Option<(u64, ContextId)>; ContextKind::COUNT],
    interrupted: Option<(u64, ContextId)>,
}

impl Entries {
    #[inline]
    fn context(&self, word: u64, recent: &mut Recent) -> (ContextKind, ContextId) {
        let kind = kind_of(word);
        let own = recent.own.get_mut(kind as usize);
        match own {
            Some(Some((own, id))) if *own == word => (kind, *id),
            _ => {
                let id = self.contexts.find(kind, word).unwrap_or_default();
                if let Some(own) = own {
                    *own = Some((word, id));
                }
                (kind, id)
            }
        }
    }

    #[inline]
    fn interrupted(&self, word: u64, recent: &mut Recent) -> ContextId {
        match recent.interrupted {
            Some((own, id)) if own == word => id,
            _ => {
                let id = self.contexts.find(prescan::interrupted_kind(word), word).unwrap_or_default();
                recent.interrupted = Some((word, id));
                id
            }
        }
    }

    #[inline]
    fn step(&self, seq: u64, before: u64, now: u64) -> i64 {
        self.doubts.step(seq, self.clock.step(before, now))
    }

    /// Ticks and delta of an entry on a clock.
    #[inline]
    fn advance(&self, clock: &mut CoreClock, stamp: u64, seq: u64) -> (i64, Option<i64>) {
        let delta = if clock.seen { Some(self.step(seq, clock.stamp, stamp)) } else { None };
        let ticks = clock.ticks.saturating_add(delta.unwrap_or(0));
        *clock = CoreClock { seen: true, stamp, ticks };
        (ticks, delta)
    }

    /// Ticks and delta of an entry, where there are several cores. One clock serves all unless each has its own.
    fn time_of_cores(&self, entry: &Entry, seq: u64, state: &mut WalkState) -> (i64, Option<i64>) {
        let index = usize::from(entry.core) + 1;
        if index >= state.cores.len() {
            state.cores.resize(index + 1, CoreClock::default());
        }
        let latest = state.ticks;
        let (ticks, delta) = if self.per_core {
            let Some(own) = state.cores.get_mut(index) else { return (0, None) };
            if !own.seen {
                // A core that begins later begins where the others are.
                own.ticks = latest;
            }
            self.advance(own, entry.stamp, seq)
        } else {
            let Some(shared) = state.cores.first_mut() else { return (0, None) };
            let (ticks, _) = self.advance(shared, entry.stamp, seq);
            let Some(own) = state.cores.get_mut(index) else { return (ticks, None) };
            let delta = own.seen.then(|| ticks.saturating_sub(own.ticks));
            *own = CoreClock { seen: true, stamp: entry.stamp, ticks };
            (ticks, delta)
        };
        state.ticks = latest.max(ticks);
        (ticks, delta)
    }

    /// Words that are not to be relied on.
    fn doubtful(&self, entry: &Entry, late: u8, seq: u64, context: ContextId) -> u8 {
        let oldest = if seq == 0 { self.oldest_doubt } else { 0 };
        if late == 0 {
            return oldest;
        }
        if !self.clock.runs() {
            // The kernel finds the entry to fill in by its stamp: with a constant one it may fill in another.
            return oldest | late;
        }
        if matches!(entry.id, id::RESUME | id::SUSPEND | id::BLOCK_ALLOCATE | id::BYTE_ALLOCATE) {
            // Filled in before the next event is inserted.
            return oldest | if self.newest == Some(seq) { late } else { 0 };
        }
        // Filled in before the caller returns, which a later event of its thread shows. Other cores never fill in.
        let index = usize::try_from(context.0).unwrap_or(usize::MAX);
        let returned = self.last_of.get(index).is_some_and(|last| *last != seq);
        if returned && entry.core == 0 {
            return oldest;
        }
        let empty = [1, 2, 4, 8].into_iter().zip(entry.info).filter(|(_, word)| *word == 0);
        oldest | empty.fold(0, |all, (bit, _)| all | bit) & late
    }

    /// Writes an event, but for its time and place. Each field is stored where it goes: a whole event is large to copy.
    #[inline]
    fn write(&self, entry: &Entry, recent: &mut Recent, event: &mut Event) {
        (event.priority, event.threshold, event.interrupted) = (None, None, None);
        if entry.context == 0 {
            (event.context, event.interrupted) = self.infer(entry);
            if marks_thread(entry) {
                (event.priority, event.threshold) = entry.priorities();
            }
        } else {
            let (kind, context) = self.context(entry.context, recent);
            event.context = context;
            match kind {
                ContextKind::Thread => (event.priority, event.threshold) = entry.priorities(),
                ContextKind::Isr if self.stores_interrupted => {
                    event.interrupted = Some(self.interrupted(entry.priority, recent));
                }
                _ => {}
            }
        }
        let known = self.ids.known(entry.id);
        event.stamp = Some(entry.stamp);
        event.core = entry.core;
        event.isr = None;
        event.id = entry.id;
        event.def = known.def;
        event.words = Words::four(entry.info);
        event.doubtful = if known.late == 0 && event.seq != 0 {
            0
        } else {
            self.doubtful(entry, known.late, event.seq, event.context)
        };
    }

    /// The context that inserted an entry of the run before a reset, and the one that it interrupted: the context word was cleared, the
    /// priority word was not.
    fn infer(&self, entry: &Entry) -> (ContextId, Option<ContextId>) {
        let Some(previous) = &self.previous else { return (ContextId::default(), None) };
        if marks_thread(entry) {
            let known = entry.priorities().0.and_then(|p| previous.by_priority.get(&p));
            return (known.copied().unwrap_or(previous.unknown), None);
        }
        match previous.interrupted.get(&entry.priority) {
            Some(thread) => (previous.isr, Some(*thread)),
            None => (previous.unknown, None),
        }
    }
}

/// True where the priority word is one that the kernel stores for a thread.
const fn marks_thread(entry: &Entry) -> bool {
    entry.priority & 0x8000_0000 != 0 && entry.priority & super::entry::PRIORITY_UNUSED == 0
}

impl Events for Entries {
    fn count(&self) -> u64 {
        self.count
    }

    fn fill(&self, _index: u64, state: &mut WalkState, out: &mut [Event]) -> usize {
        let size = self.codec.size();
        let mut recent = Recent::default();
        let mut out = out.iter_mut();
        let wanted = out.len();
        let mut only = state.cores.first().copied().unwrap_or_default();
        let one_clock = self.codec.cores < 2 && !self.per_core;
        let is_previous = self.previous.is_some();
        while let Some(run) = self.runs.get(state.place.0).filter(|_| out.len() > 0) {
            let rest = run.bytes.as_slice().get(state.place.1 * size..).unwrap_or(&[]);
            if rest.len() < size {
                state.place = (state.place.0 + 1, 0);
                continue;
            }
            let rest = rest.get(..out.len() * size).unwrap_or(rest);
            let mut position = state.place.1;
            self.codec.entries(rest, |entries| {
                for entry in entries {
                    let at = position as u64;
                    position += 1;
                    let skipped = entry.context == 0 && !is_previous
                        || self.damaged && !self.ids.is_entry(entry, self.codec.cores);
                    if skipped {
                        continue;
                    }
                    // There is room for every slot of `rest`.
                    let Some(event) = out.next() else { return ControlFlow::Break(()) };
                    event.seq = run.first_seq + at;
                    event.slot = run.first_slot + at;
                    (event.ticks, event.delta) = if one_clock {
                        self.advance(&mut only, entry.stamp, event.seq)
                    } else {
                        self.time_of_cores(entry, event.seq, state)
                    };
                    self.write(entry, &mut recent, event);
                }
                ControlFlow::Continue(())
            });
            state.place.1 = position;
        }
        if one_clock {
            state.cores.clear();
            state.cores.push(only);
            state.ticks = only.ticks;
        }
        wanted - out.len()
    }
}
