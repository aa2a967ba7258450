//! Who there is: the threads of the registry, those that events show beside them, and what the viewer knows of each.

use std::collections::HashMap;

use super::raw::{Order, Raw, id, is_thread};
use crate::trace::{ContextKind, Trace};

/// A priority, and a threshold where one was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priority {
    pub level: u32,
    pub threshold: Option<u32>,
}

/// What is known of an address at which somebody runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Person {
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

impl Person {
    /// True where the viewer takes events in this context for a thread's.
    pub fn is_thread(&self) -> bool {
        self.object.map_or(self.unnamed.is_some(), |(_, thread)| thread)
    }

    /// A threshold, or its error, in an event: the first is kept, and an event without one forgets the lowest.
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

/// Everybody.
#[derive(Debug, Default)]
pub(super) struct People {
    pub list: Vec<Person>,
    by_address: HashMap<u32, usize>,
    /// By the trace's number of a context.
    by_context: Vec<Option<usize>>,
    /// First object at an address.
    objects: HashMap<u32, (usize, bool)>,
    pub object_count: usize,
    /// Threads that no registry names, in order of their first events.
    pub unnamed: Vec<usize>,
    pub needs: Needs,
}

impl People {
    /// Looks at the registry and at every event once.
    pub fn of(trace: &Trace, order: &Order) -> Self {
        let mut all = Self { object_count: trace.objects.len(), ..Self::default() };
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
        for (i, object) in trace.objects.iter().enumerate() {
            all.objects.entry(low(object.address)).or_insert((i, object.is_thread));
        }
        for object in trace.objects.iter().filter(|o| o.is_thread) {
            let address = low(object.address);
            let person = all.add(address);
            let first = all
                .objects
                .get(&address)
                .is_some_and(|(i, _)| trace.objects.iter().nth(*i).is_some_and(|o| std::ptr::eq(o, object)));
            if let Some(person) = all.list.get_mut(person).filter(|_| first) {
                // Ten bits, as in events.
                person.levels = object.priority.map(|p| (u32::from(p & 0x3FF), u32::from(p & 0x3FF)));
            }
        }
        for (_, context) in trace.contexts.iter() {
            let person = (context.kind == ContextKind::Thread).then(|| all.add(low(context.address)));
            all.by_context.push(person);
        }
        for raw in order.events(trace) {
            all.look(&raw);
        }
        all
    }

    fn add(&mut self, address: u32) -> usize {
        let next = self.list.len();
        let place = *self.by_address.entry(address).or_insert(next);
        if place == next {
            let object = self.objects.get(&address).copied();
            self.list.push(Person { address, object, ..Person::default() });
        }
        place
    }

    fn look(&mut self, raw: &Raw) {
        match raw.id {
            id::RESUME if raw.info[3] == 0 => {
                self.needs.next_thread |= is_thread(raw.context);
                self.needs.first_of_two |= !is_thread(raw.context);
            }
            id::RELINQUISH if raw.info[1] == 0 => self.needs.next_thread |= is_thread(raw.context),
            id::MUTEX_GET => self.needs.owners |= raw.info[2] != 0 && raw.info[2] != raw.context,
            _ => {}
        }
        self.meet(raw);
        // A thread that creates itself: its own event is looked at first.
        if raw.id == id::THREAD_CREATE
            && let Some(person) = self.at(raw.info[0]).and_then(|p| self.list.get_mut(p))
        {
            person.first.get_or_insert(Priority { level: raw.info[1], threshold: None });
        }
    }

    fn meet(&mut self, raw: &Raw) {
        let Some(number) = self.who(raw) else { return };
        let unnamed = self.unnamed.len();
        let Some(person) = self.list.get_mut(number) else { return };
        person.events = person.events.saturating_add(1);
        if person.object.is_none_or(|(_, thread)| !thread) && person.unnamed.is_none() {
            person.unnamed = Some(unnamed);
            self.unnamed.push(number);
        }
        if raw.id != id::RUNNING {
            person.first.get_or_insert(Priority { level: raw.second, threshold: raw.threshold });
        }
        person.levels = Some(widen(person.levels, raw.second));
        person.meet_threshold(raw.threshold);
    }

    /// The thread that an event's context is.
    #[inline]
    pub fn who(&self, raw: &Raw) -> Option<usize> {
        self.by_context.get(raw.number).copied().flatten()
    }

    /// The person at an address.
    pub fn at(&self, address: u32) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// The number that the viewer finds for an address among its objects: 0 for one that it does not know.
    pub fn object(&self, address: u32) -> usize {
        if let Some((number, _)) = self.objects.get(&address) {
            return *number;
        }
        let unnamed = self.at(address).and_then(|p| self.list.get(p)).and_then(|p| p.unnamed);
        unnamed.map_or(0, |n| self.object_count.saturating_add(n))
    }

    /// How many objects [`People::object`] tells apart.
    pub fn objects(&self) -> usize {
        self.object_count.saturating_add(self.unnamed.len()).max(1)
    }

    /// How many entries the viewer adds for threads that it does not find: one, or one an event where another object
    /// lies at the address.
    pub fn copies(&self, person: usize) -> u64 {
        self.list.get(person).map_or(0, |p| if p.object.is_some() { p.events } else { 1 })
    }
}
