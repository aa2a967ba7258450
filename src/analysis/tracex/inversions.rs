//! Priority inversions by the viewer's rules: one window a mutex, one start for all of them.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::contexts::Contexts;
use super::next::Step;
use super::raw::{INIT, id};

/// No priority was seen.
const UNSEEN: u32 = 0xFFFF;

/// A range of events that the viewer marks, by numbers of its list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inversion {
    /// The event that asked for a mutex last, of all mutexes.
    pub start: u64,
    /// Sequence number of that event in the trace.
    pub start_seq: u64,
    /// Where the deterministic inversion ends; 0 where there is none.
    pub end: u64,
    /// Where the other one ends; 0 where there is none.
    pub bad_end: u64,
}

/// A thread waits for a mutex whose owner is less urgent.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    mutex: usize,
    blocked: u32,
    level: u32,
    owner: u32,
}

/// An end that a later event of the blocked thread shows.
#[derive(Debug, Clone, Copy)]
struct Pending {
    blocked: u32,
    start: u64,
    is_bad: bool,
    /// Later marks of the same start replace earlier ones.
    order: u64,
}

/// Looks for them.
pub(super) struct Detector<'a> {
    contexts: &'a Contexts,
    /// By the viewer's number of an object: the last priority.
    levels: Vec<u32>,
    /// By context: the viewer's number of its object.
    objects: Vec<usize>,
    open: Vec<Window>,
    start: (u64, u64),
    pending: Vec<Pending>,
    marks: u64,
    /// By start, whether bad: order and end.
    ends: BTreeMap<(u64, bool), (u64, u64)>,
    starts: BTreeMap<u64, u64>,
    pub found: u64,
    pub bad: u64,
}

impl<'a> Detector<'a> {
    /// With the first priority of each, which another pass found.
    pub fn new(contexts: &'a Contexts, first: First) -> Self {
        Self {
            contexts,
            levels: first.levels,
            objects: first.objects,
            open: Vec::new(),
            start: (0, 0),
            pending: Vec::new(),
            marks: 0,
            ends: BTreeMap::new(),
            starts: BTreeMap::new(),
            found: 0,
            bad: 0,
        }
    }

    pub fn step(&mut self, step: &Step) {
        if step.raw.context >= INIT {
            return;
        }
        let raw = &step.raw;
        let object = step.who.and_then(|w| self.objects.get(w)).copied().unwrap_or(0);
        if let Some(level) = self.levels.get_mut(object) {
            *level = raw.second;
        }
        if !self.pending.is_empty() {
            self.arrive(raw.context, step.index);
        }
        let [mutex, _, third, _] = raw.info;
        if raw.id == id::MUTEX_GET && third != 0 && third != raw.context {
            let mutex = self.contexts.object(mutex);
            let owner = self.levels.get(self.contexts.object(third)).copied().unwrap_or(UNSEEN);
            if owner != UNSEEN && raw.second < owner && !self.open.iter().any(|w| w.mutex == mutex) {
                self.found += 1;
                let window = Window { mutex, blocked: raw.context, level: raw.second, owner: third };
                let place = self.open.partition_point(|w| w.mutex < mutex);
                self.open.insert(place, window);
                self.start = (step.index, raw.seq);
                return;
            }
        }
        if self.open.is_empty() {
            return;
        }
        if raw.id == id::MUTEX_PUT && third == 1 {
            let mutex = self.contexts.object(mutex);
            if let Some(place) = self.open.iter().position(|w| w.mutex == mutex) {
                let window = self.open.remove(place);
                self.mark(&window, step, false);
                return;
            }
        }
        let mut place = 0;
        while let Some(window) = self.open.get(place).copied() {
            if raw.context != window.owner && raw.second > window.level {
                self.open.remove(place);
                self.bad += 1;
                self.mark(&window, step, true);
            } else {
                place += 1;
            }
        }
    }

    /// The end is the next event of the blocked thread, or this one where there is none.
    fn mark(&mut self, window: &Window, step: &Step, is_bad: bool) {
        let (start, seq) = self.start;
        self.marks += 1;
        self.starts.insert(start, seq);
        self.ends.insert((start, is_bad), (self.marks, step.index));
        if window.blocked != step.raw.context {
            // Marks that this one replaces need no end any more.
            self.pending.retain(|p| p.start != start || p.is_bad != is_bad);
            self.pending.push(Pending { blocked: window.blocked, start, is_bad, order: self.marks });
        }
    }

    fn arrive(&mut self, context: u32, index: u64) {
        let ends = &mut self.ends;
        self.pending.retain(|p| {
            if p.blocked != context {
                return true;
            }
            if let Some(end) = ends.get_mut(&(p.start, p.is_bad)).filter(|(order, _)| *order == p.order) {
                end.1 = index;
            }
            false
        });
    }

    pub fn finish(self) -> Vec<Inversion> {
        let end = |start: u64, is_bad: bool| self.ends.get(&(start, is_bad)).map_or(0, |(_, end)| *end);
        self.starts
            .iter()
            .map(|(start, seq)| Inversion {
                start: *start,
                start_seq: *seq,
                end: end(*start, false),
                bad_end: end(*start, true),
            })
            .collect()
    }
}

/// The first priority of each object's events, as far as it is asked for.
pub(super) struct First {
    levels: Vec<u32>,
    objects: Vec<usize>,
    /// Those whose priority is asked for and was not seen yet.
    missing: BTreeSet<usize>,
}

impl First {
    pub fn new(contexts: &Contexts, missing: BTreeSet<usize>) -> Self {
        Self {
            levels: vec![UNSEEN; contexts.objects()],
            objects: contexts.list.iter().map(|p| contexts.object(p.address)).collect(),
            missing,
        }
    }

    /// Looks at an event; breaks where nothing is missing any more.
    pub fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if step.raw.context < INIT {
            let object = step.who.and_then(|w| self.objects.get(w)).copied().unwrap_or(0);
            if let Some(level) = self.levels.get_mut(object).filter(|l| **l == UNSEEN) {
                *level = step.raw.second;
                self.missing.remove(&object);
            }
        }
        if self.missing.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
