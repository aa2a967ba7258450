//! Whether the top byte of every id is a core's number, as SMP kernels store it: judged by the ids alone.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events")]

use std::collections::{BTreeMap, HashMap};

use super::entry::{Codec, Entry, id, is_user, kind_of};
use super::ids::Ids;
use crate::trace::ContextKind;

/// The most cores that are believed without a symbol that says so.
const MOST: usize = 8;
/// Slots that are examined.
const LOOKED_AT: usize = 1 << 16;
/// Events of a core before it is believed.
const LEAST: u64 = 2;
/// Threads that are followed.
const THREADS: usize = 4096;
/// One in so many slots may hold what is of no core, or no known event.
const TOLERANCE: u64 = 8;

/// The cores that the ids name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cores {
    /// How many there are.
    pub count: u16,
    /// Events that were examined.
    pub events: u64,
    /// Of these, those whose id is not known without a core's number either.
    pub unknown: u64,
}

/// Reads ids as those of an SMP kernel; `None` where they are none. `slots` are in the order of the ring.
pub(super) fn of<'s>(slots: impl Iterator<Item = &'s [u8]>, codec: Codec, ids: &Ids) -> Option<Cores> {
    let (plain, smp) = (Codec { cores: 1, ..codec }, Codec { cores: u16::MAX, ..codec });
    let mut count = Count::default();
    for slot in slots.take(LOOKED_AT) {
        let entry = smp.read(slot);
        if entry.context != 0 {
            count.event(&entry, plain.read(slot).id, ids);
        }
    }
    count.judge()
}

#[derive(Debug, Default)]
struct Count {
    events: u64,
    /// By core: known events, and of these those of the kernel and its middleware.
    known: BTreeMap<u16, (u64, u64)>,
    /// Events of a core other than 0 whose id has no meaning as it is.
    cored: u64,
    /// Pairs of events of one thread, one after the other, on two cores although the first did not give up its core.
    jumps: u64,
    before: Option<Entry>,
    /// By thread: the core of its first event; and whether one has events on another.
    homes: HashMap<u64, u16>,
    moves: bool,
}

impl Count {
    fn event(&mut self, entry: &Entry, plain: u32, ids: &Ids) {
        self.events += 1;
        if !ids.has_meaning(entry.id) {
            self.before = None;
            return;
        }
        let (all, own) = self.known.entry(entry.core).or_default();
        *all += 1;
        *own += u64::from(!is_user(entry.id));
        self.cored += u64::from(entry.core != 0 && !ids.has_meaning(plain));
        let thread = kind_of(entry.context) == ContextKind::Thread;
        if thread && (self.homes.len() < THREADS || self.homes.contains_key(&entry.context)) {
            self.moves |= *self.homes.entry(entry.context).or_insert(entry.core) != entry.core;
        }
        let jumps = self.before.is_some_and(|before| {
            thread && before.context == entry.context && before.core != entry.core && !gives_away(before.id)
        });
        self.jumps += u64::from(jumps);
        self.before = Some(*entry);
    }

    fn judge(&self) -> Option<Cores> {
        let believed = self.known.iter().filter(|(core, (all, _))| *all >= LEAST && usize::from(**core) < MOST);
        let highest = believed.clone().map(|(core, _)| *core).max().filter(|core| *core > 0)?;
        let known: u64 = believed.clone().map(|(_, (all, _))| *all).sum();
        let own: u64 = believed.filter(|(core, _)| **core > 0).map(|(_, (_, own))| *own).sum();
        let unknown = self.events - known;
        let few = unknown * TOLERANCE <= self.events;
        // Damage hits ids one by one, and an application may have a number of its own in the top byte: either way
        // threads seem to jump from core to core. Where much is the kernel's own, it is none of these.
        let much = self.cored * TOLERANCE >= self.events && own * 4 >= self.cored;
        let stay = self.jumps * TOLERANCE <= self.cored && (own > 0 || !self.moves);
        let usual = self.cored >= LEAST && self.cored >= unknown;
        (few && usual && (much || stay)).then_some(Cores { count: highest + 1, events: self.events, unknown })
    }
}

/// True where the thread of such an event may go on with another core.
const fn gives_away(event: u32) -> bool {
    matches!(event, id::RESUME | id::SUSPEND | id::TIME_SLICE | id::RELINQUISH)
}
