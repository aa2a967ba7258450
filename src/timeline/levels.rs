//! Counters: how full objects are and how deep stacks, as far as events say it.

use super::{Counter, CounterId, Measure};
use crate::abi::Addr;
use crate::analysis::tracker::System;
use crate::catalogue::{Catalogue, Level, ObjectUse, capacity, registered_stack};
use crate::trace::{ContextKind, DefId, Event, Interner, Trace};

/// The most objects that have a counter: a damaged trace may name any number.
const MAX_COUNTERS: usize = 1 << 14;

/// Follows the levels of objects and stacks.
#[derive(Debug)]
pub(super) struct Levels {
    /// By definition.
    uses: Vec<Option<ObjectUse>>,
    /// Numbers of counters: by the address of an object; by that of a thread whose stack it is.
    objects: Interner,
    stacks: Interner,
    /// By these numbers: the counter, or none.
    by_object: Vec<Option<CounterId>>,
    by_stack: Vec<Option<CounterId>>,
    counters: Vec<Counter>,
    /// Bytes of a word, and of an address.
    word: u64,
    pointer: u64,
}

/// The word at a place of an event, unless the kernel fills it in later and may not have done so.
fn sure(event: &Event, words: &[u64], at: usize) -> Option<u64> {
    let bit = u32::try_from(at).ok().and_then(|at| 1u8.checked_shl(at)).unwrap_or(0);
    words.get(at).copied().filter(|_| event.doubtful & bit == 0)
}

/// A level that an event shows: of what, and how much.
struct Shown {
    address: Addr,
    level: Level,
    value: u64,
}

impl Levels {
    pub fn new(trace: &Trace, catalogue: &Catalogue) -> Self {
        let bytes = |width: crate::abi::Width| if width == crate::abi::Width::W4 { 4 } else { 8 };
        Self {
            uses: catalogue.object_uses(),
            objects: Interner::default(),
            stacks: Interner::default(),
            by_object: Vec::new(),
            by_stack: Vec::new(),
            counters: Vec::new(),
            word: bytes(trace.about.word),
            pointer: bytes(trace.about.pointer.unwrap_or(trace.about.word)),
        }
    }

    pub(super) fn counters(&self) -> &[Counter] {
        &self.counters
    }

    fn of(&self, def: DefId) -> Option<&ObjectUse> {
        self.uses.get(def.index())?.as_ref()
    }

    /// What an event says of its object.
    fn shown(&self, event: &Event, words: &[u64]) -> Option<Shown> {
        let act = self.of(event.def?).filter(|act| act.is_object)?;
        let address = words.get(act.object).copied().filter(|address| *address != 0)?;
        let mut all = act.levels.iter().filter(|(_, level)| *level != Level::Holds);
        let (level, value) = all.find_map(|(at, level)| Some((*level, sure(event, words, *at)?)))?;
        Some(Shown { address, level, value })
    }

    /// How much an object can hold, by an event.
    fn holds(&self, event: &Event, words: &[u64]) -> Option<u64> {
        let act = self.of(event.def?)?;
        let said = act.levels.iter().find(|(_, level)| *level == Level::Holds);
        let queue = || {
            let (size, message) = act.queue?;
            let message = sure(event, words, message)?.checked_mul(self.word)?;
            sure(event, words, size)?.checked_div(message)
        };
        said.and_then(|(at, _)| sure(event, words, *at)).or_else(queue)
    }

    /// The stack that an event's own thread uses, where its start is known: the thread, and bytes in use.
    fn stack(event: &Event, words: &[u64], system: &System<'_>) -> Option<(Addr, u64, u64)> {
        let pointer = system.role(event).filter(|role| role.stack.is_some())?.stack.of(words)?;
        let context = system.trace.contexts.get(event.context).filter(|c| c.kind == ContextKind::Thread)?;
        let (start, size) = registered_stack(system.trace.objects.at(context.address)?)?;
        let free = pointer.checked_sub(start).filter(|free| *free <= size)?;
        Some((context.address, size.saturating_sub(free), size))
    }

    /// First pass: which counters there are.
    pub(super) fn learn(&mut self, event: &Event, system: &System<'_>) {
        let words = system.trace.words(event);
        if let Some((thread, _, size)) = Self::stack(event, words, system) {
            let counter = Counter { address: thread, measure: Measure::Stack, capacity: Some(size), def: event.def };
            add(&mut self.stacks, &mut self.by_stack, &mut self.counters, counter);
        }
        let holds = self.holds(event, words);
        if let Some(Shown { address, level, .. }) = self.shown(event, words) {
            let measure = if level == Level::Free { Measure::Free } else { Measure::Filled };
            let object = system.trace.objects.at(address).filter(|o| !o.is_thread);
            let capacity = holds.or_else(|| capacity(object?, self.word, self.pointer));
            let counter = Counter { address, measure, capacity, def: event.def };
            add(&mut self.objects, &mut self.by_object, &mut self.counters, counter);
        }
        // The event of its creation, which may have no level.
        if let (Some(holds), Some(def)) = (holds, event.def)
            && let Some(address) = self.of(def).and_then(|act| words.get(act.object).copied())
            && let Some(counter) = self.find(address).and_then(|id| self.counters.get_mut(id.index()))
        {
            counter.capacity = Some(holds);
        }
    }

    /// After the first pass: what has a capacity is shown as filled.
    pub(super) fn settle(&mut self) {
        for counter in self.counters.iter_mut().filter(|c| c.measure == Measure::Free && c.capacity.is_some()) {
            counter.measure = Measure::Filled;
        }
    }

    fn find(&self, address: Addr) -> Option<CounterId> {
        *self.by_object.get(usize::try_from(self.objects.find(address)?).ok()?)?
    }

    /// Second pass: the levels that an event shows.
    pub fn each(&self, event: &Event, system: &System<'_>, mut to: impl FnMut(CounterId, u64)) {
        let words = system.trace.words(event);
        if let Some((thread, used, _)) = Self::stack(event, words, system) {
            let number = self.stacks.find(thread).and_then(|n| usize::try_from(n).ok());
            if let Some(id) = number.and_then(|n| *self.by_stack.get(n)?) {
                to(id, used);
            }
        }
        let Some(Shown { address, level, value }) = self.shown(event, words) else { return };
        let Some(id) = self.find(address) else { return };
        let Some(counter) = self.counters.get(id.index()) else { return };
        match (level, counter.measure, counter.capacity) {
            (Level::Free, Measure::Filled, Some(capacity)) => {
                // More free than it can hold: one of both is wrong.
                if let Some(used) = capacity.checked_sub(value) {
                    to(id, used);
                }
            }
            (Level::Free, Measure::Free, _) | (Level::Filled, Measure::Filled, _) => to(id, value),
            _ => {}
        }
    }
}

/// Adds a counter where it is new and there is room.
fn add(numbers: &mut Interner, places: &mut Vec<Option<CounterId>>, all: &mut Vec<Counter>, counter: Counter) {
    if numbers.find(counter.address).is_some() || all.len() >= MAX_COUNTERS {
        return;
    }
    numbers.intern(counter.address);
    places.push(u32::try_from(all.len()).ok().map(CounterId));
    all.push(counter);
}
