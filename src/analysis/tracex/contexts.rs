//! Who there is: the threads of the registry, those that events show beside them, and what the viewer knows of each.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::collections::{BTreeSet, HashMap};

use super::raw::{Raw, id, is_thread, low};
use crate::trace::{ContextKind, Interner, Trace};

/// A priority, and a threshold where one was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priority {
    pub level: u32,
    pub threshold: Option<u32>,
}

/// What is known of a running context's address.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    pub address: u32,
    /// The first registered object of that address, and whether it is a thread.
    pub object: Option<(usize, bool)>,
    /// Place among the threads that no registry names, by first event.
    pub unnamed: Option<usize>,
    pub events: u64,
    /// The first priority of the trace, in an event of its own or where it is created.
    pub first: Option<Priority>,
    /// Lowest and highest priority, which is the smaller number.
    pub levels: Option<(u32, u32)>,
    /// Lowest and highest preemption threshold as far as they survive.
    pub low_threshold: Option<u32>,
    pub high_threshold: Option<u32>,
}

impl Context {
    /// True where the viewer takes events in this context for a thread's.
    pub fn is_thread(&self) -> bool {
        self.object.map_or(self.unnamed.is_some(), |(_, thread)| thread)
    }

    /// A threshold, or its absence, in an event: the first is kept, and an event without one forgets the lowest.
    fn meet_threshold(&mut self, threshold: Option<u32>) {
        match (threshold, self.low_threshold) {
            (Some(_), None) => (self.low_threshold, self.high_threshold) = (threshold, threshold),
            (None, _) => self.low_threshold = None,
            (Some(_), Some(_)) => {}
        }
    }

    /// Thresholds of inserted events, all of which come after: these do widen the range.
    pub fn widen_threshold(&mut self, most: u32, least: u32) {
        match self.low_threshold {
            None => (self.low_threshold, self.high_threshold) = (Some(most), Some(least)),
            Some(low) => {
                self.low_threshold = Some(low.max(most));
                self.high_threshold = self.high_threshold.map(|high| high.min(least));
            }
        }
    }
}

/// Two ranges of priorities as one.
pub(super) fn join((a, b): (u32, u32), (low, high): (u32, u32)) -> (u32, u32) {
    (a.max(low), b.min(high))
}

/// The range of priorities with one more: the lowest is the largest number.
pub(super) fn widen(levels: Option<(u32, u32)>, level: u32) -> (u32, u32) {
    let (low, high) = levels.unwrap_or((level, level));
    (low.max(level), high.min(level))
}

/// What is needed beyond the order: whether anything asks who comes later.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Needs {
    /// A thread's event that the next event of any thread decides.
    pub next_thread: bool,
    /// An ISR's event that the first event of one of two threads decides.
    pub first_of_two: bool,
    /// A mutex is asked for that has an owner.
    pub owners: bool,
}

impl Needs {
    /// True where an event asks for what only later ones show.
    pub const fn later(&self) -> bool {
        self.next_thread || self.first_of_two
    }
}

/// Everybody.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    pub list: Vec<Context>,
    /// Numbers of contexts by address.
    by_address: Interner,
    /// By the trace's number of a context.
    by_context: Vec<Option<usize>>,
    /// First object at an address.
    objects: HashMap<u32, (usize, bool)>,
    pub object_count: usize,
    /// Threads that no registry names, in order of their first events.
    pub unnamed: Vec<usize>,
    pub needs: Needs,
    /// Addresses of threads that had a mutex when others asked for it.
    owners: BTreeSet<u32>,
}

impl Contexts {
    /// Looks at the registry.
    pub fn of(trace: &Trace) -> Self {
        let mut all = Self { object_count: trace.objects.len(), ..Self::default() };
        for (i, object) in trace.objects.iter().enumerate() {
            all.objects.entry(low(object.address)).or_insert((i, object.is_thread));
        }
        for (i, object) in trace.objects.iter().enumerate().filter(|(_, o)| o.is_thread) {
            let address = low(object.address);
            let context = all.add(address);
            let first = all.objects.get(&address).is_some_and(|(first, _)| *first == i);
            if let Some(context) = all.list.get_mut(context).filter(|_| first) {
                // Ten bits, as in events.
                context.levels = object.priority.map(|p| (u32::from(p & 0x3FF), u32::from(p & 0x3FF)));
            }
        }
        for (_, context) in trace.contexts.iter() {
            let context = (context.kind == ContextKind::Thread).then(|| all.add(low(context.address)));
            all.by_context.push(context);
        }
        all
    }

    fn add(&mut self, address: u32) -> usize {
        let place = usize::try_from(self.by_address.intern(u64::from(address))).unwrap_or(usize::MAX);
        if place == self.list.len() {
            let object = self.objects.get(&address).copied();
            self.list.push(Context { address, object, ..Context::default() });
        }
        place
    }

    /// Looks at an event.
    pub fn look(&mut self, raw: &Raw) {
        match raw.id {
            id::RESUME if raw.info[3] == 0 => {
                self.needs.next_thread |= is_thread(raw.context);
                self.needs.first_of_two |= !is_thread(raw.context);
            }
            id::RELINQUISH if raw.info[1] == 0 => self.needs.next_thread |= is_thread(raw.context),
            id::MUTEX_GET if raw.info[2] != 0 && raw.info[2] != raw.context => {
                self.needs.owners = true;
                self.owners.insert(raw.info[2]);
            }
            _ => {}
        }
        self.meet(raw);
        // A thread that creates itself: its own event is looked at first.
        if raw.id == id::THREAD_CREATE
            && let Some(context) = self.at(raw.info[0]).and_then(|p| self.list.get_mut(p))
        {
            context.first.get_or_insert(Priority { level: raw.info[1], threshold: None });
        }
    }

    fn meet(&mut self, raw: &Raw) {
        let Some(number) = self.who(raw) else { return };
        let unnamed = self.unnamed.len();
        let Some(context) = self.list.get_mut(number) else { return };
        context.events += 1;
        if context.object.is_none_or(|(_, thread)| !thread) && context.unnamed.is_none() {
            context.unnamed = Some(unnamed);
            self.unnamed.push(number);
        }
        if raw.id != id::RUNNING {
            context.first.get_or_insert(Priority { level: raw.second, threshold: raw.threshold });
        }
        context.levels = Some(widen(context.levels, raw.second));
        context.meet_threshold(raw.threshold);
    }

    /// The thread that an event's context is.
    pub fn who(&self, raw: &Raw) -> Option<usize> {
        self.by_context.get(raw.number).copied().flatten()
    }

    /// Numbers of those whose own events the trace has, or that an interrupt found.
    pub fn seen(&self) -> BTreeSet<usize> {
        self.by_context.iter().flatten().copied().collect()
    }

    /// True where `more` was looked at longer, and what later events decide is the same: then both give the same answers.
    pub fn is_settled(&self, more: &Self) -> bool {
        let first = |all: &Self| all.list.iter().map(|context| context.first).collect::<Vec<_>>();
        self.unnamed == more.unnamed && first(self) == first(more)
    }

    /// The context at an address.
    pub fn at(&self, address: u32) -> Option<usize> {
        usize::try_from(self.by_address.find(u64::from(address))?).ok()
    }

    /// The number that the viewer finds for an address among its objects: 0 for one that it does not know.
    pub fn object(&self, address: u32) -> usize {
        if let Some((number, _)) = self.objects.get(&address) {
            return *number;
        }
        let unnamed = self.at(address).and_then(|p| self.list.get(p)).and_then(|p| p.unnamed);
        unnamed.map_or(0, |n| self.object_count.saturating_add(n))
    }

    /// Numbers of the objects that had a mutex when others asked for it.
    pub fn owners(&self) -> BTreeSet<usize> {
        self.owners.iter().map(|address| self.object(*address)).collect()
    }

    /// Numbers of the objects of [`Contexts::seen`]: whoever has a mutex is among them, or has no event.
    pub fn seen_objects(&self) -> BTreeSet<usize> {
        self.seen().into_iter().filter_map(|at| self.list.get(at)).map(|p| self.object(p.address)).collect()
    }

    /// How many objects [`Contexts::object`] counts apart.
    pub fn objects(&self) -> usize {
        self.object_count.saturating_add(self.unnamed.len()).max(1)
    }

    /// How many entries the viewer adds for threads that it does not find: one, or one an event where another object
    /// is at the address.
    pub fn copies(&self, context: usize) -> u64 {
        self.list.get(context).map_or(0, |p| if p.object.is_some() { p.events } else { 1 })
    }
}
