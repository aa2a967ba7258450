//! The events of a capture, decoded as they are asked for: nothing is kept but the bytes.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use super::coherence::Doubts;
use super::entry::{Codec, Entry, id, kind_of};
use super::met::Met;
use super::order::Run;
use super::survey::{Ids, is_entry};
use crate::abi::Addr;
use crate::trace::{Clock, ContextId, ContextKind, CoreClock, Event, Events, WalkState, Words};

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
    pub by_word: BTreeMap<(ContextKind, Addr), ContextId>,
    pub ids: Ids,
    /// True where slots were written over: they are passed over.
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

/// Contexts of the run before a reset, by what the priority words still tell.
#[derive(Default)]
pub(super) struct Inferred {
    /// Threads whose priority no other has.
    pub by_priority: HashMap<u16, ContextId>,
    /// ISR contexts by the thread that was interrupted.
    pub isr: ContextId,
    /// Interrupted threads.
    pub interrupted: HashMap<u64, ContextId>,
    /// Whoever it was.
    pub unknown: ContextId,
}

/// The contexts met last: nearly every event has one of them.
#[derive(Default)]
struct Recent {
    own: Met,
    interrupted: Met,
}

impl Entries {
    fn context(&self, kind: ContextKind, address: Addr) -> ContextId {
        self.by_word.get(&(kind, address)).copied().unwrap_or_default()
    }

    #[inline]
    fn step(&self, seq: u64, before: u64, now: u64) -> i64 {
        self.doubts.step(seq, self.clock.step(before, now))
    }

    /// Ticks and delta of an entry. One clock serves all cores unless each has its own.
    #[inline]
    fn time(&self, entry: &Entry, seq: u64, state: &mut WalkState) -> (i64, Option<i64>) {
        if self.codec.cores < 2
            && !self.per_core
            && let Some(only) = state.cores.first_mut()
        {
            let delta = only.seen.then(|| self.step(seq, only.stamp, entry.stamp));
            let ticks = only.ticks.saturating_add(delta.unwrap_or(0));
            *only = CoreClock { seen: true, stamp: entry.stamp, ticks };
            state.ticks = ticks;
            return (ticks, delta);
        }
        let index = if self.codec.cores > 1 { usize::from(entry.core).saturating_add(1) } else { 0 };
        if index >= state.cores.len() {
            state.cores.resize(index.saturating_add(1), CoreClock::default());
        }
        let (ticks, delta) = if self.per_core {
            let latest = state.ticks;
            let Some(own) = state.cores.get_mut(index) else { return (0, None) };
            // A core that begins later begins where the others are.
            let before = if own.seen { own.ticks } else { latest };
            let delta = own.seen.then(|| self.step(seq, own.stamp, entry.stamp));
            (before.saturating_add(delta.unwrap_or(0)), delta)
        } else {
            let Some(shared) = state.cores.first_mut() else { return (0, None) };
            let delta = shared.seen.then(|| self.step(seq, shared.stamp, entry.stamp));
            let ticks = shared.ticks.saturating_add(delta.unwrap_or(0));
            *shared = CoreClock { seen: true, stamp: entry.stamp, ticks };
            if self.codec.cores < 2 {
                state.ticks = ticks;
                return (ticks, delta);
            }
            let own = state.cores.get(index).filter(|c| c.seen).map(|c| ticks.saturating_sub(c.ticks));
            (ticks, own)
        };
        if let Some(own) = state.cores.get_mut(index) {
            *own = CoreClock { seen: true, stamp: entry.stamp, ticks };
        }
        state.ticks = state.ticks.max(ticks);
        (ticks, delta)
    }

    /// Words that are not to be relied on.
    #[inline]
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
        let mut doubt = oldest;
        for (i, word) in entry.info.iter().enumerate() {
            let bit = 1u8.checked_shl(u32::try_from(i).unwrap_or(0)).unwrap_or(0);
            if late & bit != 0 && *word == 0 {
                doubt |= bit;
            }
        }
        doubt
    }

    #[inline]
    fn event(
        &self,
        entry: &Entry,
        (seq, slot): (u64, u64),
        state: &mut WalkState,
        recent: &mut Recent,
        place: &mut Event,
    ) {
        let (ticks, delta) = self.time(entry, seq, state);
        let kind = kind_of(entry.context);
        let (mut priority, mut threshold, mut interrupted) = (None, None, None);
        let context = match kind {
            _ if self.previous.is_some() && entry.context == 0 => {
                let context;
                (context, interrupted) = self.infer(entry);
                if marks_thread(entry) {
                    (priority, threshold) = entry.priorities();
                }
                context
            }
            ContextKind::Thread => {
                (priority, threshold) = entry.priorities();
                recent.own.get(entry.context, || self.context(kind, entry.context))
            }
            ContextKind::Isr => {
                if self.stores_interrupted {
                    let what = if entry.priority == 0 { ContextKind::Idle } else { ContextKind::Thread };
                    interrupted = Some(recent.interrupted.get(entry.priority, || self.context(what, entry.priority)));
                }
                recent.own.get(entry.context, || self.context(kind, entry.context))
            }
            _ => recent.own.get(entry.context, || self.context(kind, entry.context)),
        };
        let (def, late) = self.ids.known(entry.id);
        let doubtful = self.doubtful(entry, late, seq, context);
        // Built last, and whole, so that it is written straight to where it goes.
        *place = Event {
            seq,
            slot,
            ticks,
            delta,
            stamp: Some(entry.stamp),
            core: entry.core,
            context,
            priority,
            threshold,
            interrupted,
            isr: None,
            id: entry.id,
            def,
            words: Words::four(entry.info),
            doubtful,
        };
    }

    /// Who inserted an entry of the run before a reset, and whom it interrupted: the context word was cleared, the
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
        let mut filled = 0usize;
        while let Some(run) = self.runs.get(state.place.0) {
            let start = state.place.1.saturating_mul(size);
            let rest = run.bytes.as_slice().get(start..).unwrap_or(&[]);
            if rest.len() < size {
                state.place = (state.place.0.saturating_add(1), 0);
                continue;
            }
            let mut position = state.place.1;
            self.codec.entries(rest, |entry| {
                let Some(place) = out.get_mut(filled) else { return ControlFlow::Break(()) };
                let at = position as u64;
                let own = (run.first_seq.wrapping_add(at), run.first_slot.wrapping_add(at));
                position = position.saturating_add(1);
                if entry.context == 0 && self.previous.is_none() {
                    return ControlFlow::Continue(());
                }
                if self.damaged && !is_entry(&entry, &self.ids, self.codec.cores) {
                    return ControlFlow::Continue(());
                }
                self.event(&entry, own, state, &mut recent, place);
                filled = filled.saturating_add(1);
                ControlFlow::Continue(())
            });
            state.place.1 = position;
            if filled == out.len() {
                break;
            }
        }
        filled
    }
}
