//! One pass over the captured slots: what they tell together, before any is handed out.

use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Range};

use super::coherence;
use super::entry::{Codec, Entry, PRIORITY_UNUSED, id, is_user, kind_of};
use super::kernel_ticks::KernelTicks;
use super::layout::CONTEXT_ISR;
use super::met::Met;
use super::order::{Ring, Votes, rough_clock};
use crate::abi::Addr;
use crate::catalogue::Catalogue;
use crate::trace::{Clock, ContextId, ContextKind, Contexts, DefId, Direction, ObjectTable};

/// Ids below this are found by indexing.
const DENSE: usize = 2048;
/// Number of a Cortex-M's SysTick exception.
const SYSTICK: u64 = 15;
/// The most marks of time that are kept.
const MOST_MARKS: usize = 1 << 16;

/// Which ids are known, and which of their words the kernel fills in late.
pub(super) struct Ids {
    /// The definition of each id, and its words that are filled in late.
    dense: Vec<(Option<DefId>, u8)>,
    sparse: HashMap<u32, DefId>,
}

impl Ids {
    pub fn of(catalogue: &Catalogue) -> Self {
        let mut this = Self { dense: vec![(None, 0); DENSE], sparse: HashMap::new() };
        for def in catalogue.iter() {
            let Some(number) = catalogue.find(def.id) else { continue };
            let index = usize::try_from(def.id).unwrap_or(usize::MAX);
            match this.dense.get_mut(index) {
                Some(place) => *place = (Some(number), def.late),
                None => {
                    this.sparse.insert(def.id, number);
                }
            }
        }
        this
    }

    #[inline]
    pub fn def(&self, id: u32) -> Option<DefId> {
        self.known(id).0
    }

    /// The definition of an id, and which of its words the kernel fills in late.
    #[inline]
    pub fn known(&self, id: u32) -> (Option<DefId>, u8) {
        match usize::try_from(id).ok().and_then(|i| self.dense.get(i)) {
            Some(known) => *known,
            None => (self.sparse.get(&id).copied(), 0),
        }
    }

    /// True where an id is known, or one that applications choose.
    #[inline]
    pub fn has_meaning(&self, id: u32) -> bool {
        self.def(id).is_some() || is_user(id)
    }
}

/// False for memory that something else wrote over: no kernel stores such an entry. Kernels check no id, so an odd id
/// alone is no damage, and what else is in doubt is shown.
#[inline]
pub(super) fn is_entry(entry: &Entry, ids: &Ids, cores: u16) -> bool {
    entry.core < cores.max(1) && (ids.has_meaning(entry.id) || makes_sense(entry))
}

/// The same for an id that nobody knows.
fn makes_sense(entry: &Entry) -> bool {
    let filled = u64::from(entry.id) == entry.context && entry.info.iter().all(|w| *w == entry.context);
    let thread = matches!(kind_of(entry.context), ContextKind::Thread);
    !(filled || thread && entry.priority & PRIORITY_UNUSED != 0)
}

/// A moment that the kernel's own timer marks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// Ticks since the first event, by the mask alone.
    pub elapsed: u64,
    /// SysTick: whether it interrupted idle. Tick count: the count.
    pub value: u64,
    /// Where it was met.
    pub seq: u64,
}

/// What one pass over the captured slots tells.
#[derive(Default)]
pub(super) struct Survey {
    pub contexts: Contexts,
    pub events: u64,
    pub unused: u64,
    pub first_unused: Option<u64>,
    pub damaged: u64,
    pub first_damaged: Option<u64>,
    /// Events of threads with a priority word that no kernel stores.
    pub odd: u64,
    pub first_odd: Option<u64>,
    /// True where stamps that do not fit the others were passed over.
    pub strays: bool,
    pub skipped_front: u64,
    pub votes: Votes,
    /// By core: the last stamp, and how its own stamps went.
    pub cores: BTreeMap<u16, (u64, Votes)>,
    /// The same of the core whose events come just now, while they do.
    core: Option<(u16, Option<(u64, Votes)>)>,
    pub least: u64,
    pub most: u64,
    /// The last step of one slot to the next, how many were the same as the one before, and the last of these.
    step: u64,
    same: u64,
    even: u64,
    /// Ticks of all steps down, and of all steps up, each core against its own stamps.
    pub fallen: u64,
    pub risen: u64,
    /// The largest step.
    pub largest: Option<u64>,
    /// Ticks from the first event to the last, by the mask alone.
    pub elapsed: u64,
    pub marks_threshold: bool,
    pub marks_interrupted: bool,
    /// A thread's event without a threshold: an old kernel's.
    pub unmarked: bool,
    pub systicks: Vec<Mark>,
    pub times: Vec<Mark>,
    pub kernel_ticks: KernelTicks,
    /// By context: its last event.
    pub last_of: Vec<u64>,
    pub newest: Option<u64>,
    pub first_stamp: Option<u64>,
    pub last_stamp: Option<u64>,
    /// The event of that stamp.
    last_timed: Option<u64>,
}

impl Survey {
    /// Looks at every captured slot once. `previous` is for slots whose context word was cleared. The stamps of `strays` do
    /// not fit the others.
    pub fn of(
        ring: &Ring,
        codec: Codec,
        direction: Direction,
        ids: &Ids,
        previous: bool,
        strays: &[Range<u64>],
    ) -> Self {
        let mut this = Self { least: u64::MAX, strays: !strays.is_empty(), ..Self::default() };
        let clock = rough_clock(codec.mask, direction);
        // An ISR event may name idle as what it interrupted, also where no event was inserted then.
        this.contexts.intern(ContextKind::Isr, CONTEXT_ISR);
        let (mut met, mut met_interrupted) = (Met::default(), Met::default());
        for run in &ring.runs {
            let mut seq = run.first_seq;
            codec.entries(run.bytes.as_slice(), |entry| {
                this.slot(
                    &entry,
                    seq,
                    (previous, strays),
                    (ids, codec.cores),
                    &clock,
                    (&mut met, &mut met_interrupted),
                );
                seq = seq.saturating_add(1);
                ControlFlow::Continue(())
            });
        }
        this.leave_core();
        this
    }

    /// One slot. `met` are contexts that were interned before, and interrupted ones.
    #[inline]
    fn slot(
        &mut self,
        entry: &Entry,
        seq: u64,
        (previous, strays): (bool, &[Range<u64>]),
        (ids, cores): (&Ids, u16),
        clock: &Clock,
        (met, interrupted): (&mut Met, &mut Met),
    ) {
        if entry.context == 0 && !previous {
            self.unused = self.unused.saturating_add(1);
            self.first_unused = self.first_unused.or(Some(seq));
            return self.skip();
        }
        if !is_entry(entry, ids, cores) {
            self.damaged = self.damaged.saturating_add(1);
            self.first_damaged = self.first_damaged.or(Some(seq));
            return self.skip();
        }
        self.events = self.events.saturating_add(1);
        if strays.is_empty() || !coherence::holds(strays, seq) {
            self.time(entry, seq, clock);
        }
        let kind = kind_of(entry.context);
        match kind {
            ContextKind::Isr => {
                self.marks_interrupted |= entry.priority != 0;
                let what = if entry.priority == 0 { ContextKind::Idle } else { ContextKind::Thread };
                interrupted.get(entry.priority, || self.contexts.intern(what, entry.priority));
            }
            ContextKind::Thread => {
                if entry.priority & PRIORITY_UNUSED != 0 {
                    self.odd(seq);
                }
                let marked = entry.priority & 0x8000_0000 != 0;
                self.marks_threshold |= marked;
                self.unmarked |= !marked;
            }
            _ => {}
        }
        let context = met.get(entry.context, || self.contexts.intern(kind, entry.context));
        self.seen(context, seq);
    }

    fn odd(&mut self, seq: u64) {
        self.odd = self.odd.saturating_add(1);
        self.first_odd = self.first_odd.or(Some(seq));
    }

    fn skip(&mut self) {
        if self.events == 0 {
            self.skipped_front = self.skipped_front.saturating_add(1);
        }
    }

    #[inline]
    fn seen(&mut self, context: ContextId, seq: u64) {
        let index = usize::try_from(context.0).unwrap_or(usize::MAX);
        if index >= self.last_of.len() {
            // A context is interned before it is seen, so this grows with their number.
            self.last_of.resize(self.contexts.len().max(1), u64::MAX);
        }
        if let Some(place) = self.last_of.get_mut(index) {
            *place = seq;
        }
        self.newest = Some(seq);
    }

    /// Events of another core come.
    fn enter_core(&mut self, core: u16) {
        self.leave_core();
        self.core = Some((core, self.cores.get(&core).copied()));
    }

    fn leave_core(&mut self) {
        if let Some((core, Some(own))) = self.core.take() {
            self.cores.insert(core, own);
        }
    }

    #[inline]
    fn time(&mut self, entry: &Entry, seq: u64, clock: &Clock) {
        self.least = self.least.min(entry.stamp);
        self.most = self.most.max(entry.stamp);
        if let Some(before) = self.last_stamp {
            self.votes.count(before, entry.stamp);
            let step = clock.step(before, entry.stamp);
            // Slots that are left out were counted as well.
            let slots = self.last_timed.and_then(|last| seq.checked_sub(last)).unwrap_or(0);
            let same = slots.checked_mul(self.step) == Some(step) && step > 0;
            self.same = self.same.saturating_add(u64::from(same));
            if same {
                self.even = self.step;
            } else {
                self.step = step.checked_div(slots).unwrap_or(0);
            }
            self.largest = self.largest.max(Some(step));
            self.elapsed = self.elapsed.saturating_add(step);
        }
        self.first_stamp = self.first_stamp.or(Some(entry.stamp));
        self.last_stamp = Some(entry.stamp);
        self.last_timed = Some(seq);
        if self.core.as_ref().is_none_or(|(core, ..)| *core != entry.core) {
            self.enter_core(entry.core);
        }
        match &mut self.core {
            Some((_, Some((last, votes)))) => {
                votes.count(*last, entry.stamp);
                self.fallen = self.fallen.saturating_add(last.saturating_sub(entry.stamp));
                self.risen = self.risen.saturating_add(entry.stamp.saturating_sub(*last));
                *last = entry.stamp;
            }
            Some((_, first)) => *first = Some((entry.stamp, Votes::default())),
            None => {}
        }
        // On a Cortex-M the third word holds the exception number, whatever number the application gave.
        if entry.id == id::ISR_ENTER && entry.info[2] & 0x1FF == SYSTICK && self.systicks.len() < MOST_MARKS {
            let value = u64::from(entry.priority == 0);
            self.systicks.push(Mark { elapsed: self.elapsed, value, seq });
        }
        if entry.id == id::TIME_GET && self.times.len() < MOST_MARKS {
            self.times.push(Mark { elapsed: self.elapsed, value: entry.info[0], seq });
        }
        self.kernel_ticks.event(entry, self.elapsed);
    }

    /// By how much nearly every stamp is more than that of the slot before, where that is the same: no time passes so
    /// evenly. One damaged stamp makes two other steps.
    pub fn counts_events(&self, direction: Direction) -> Option<u64> {
        // The first step has none before it.
        let steps = self.events.saturating_sub(2);
        // A loop that is timed may insert some hundred as evenly.
        let least = if self.even == 1 { 8 } else { 512 };
        // A timer that reloads falls back again and again.
        let (backward, _) = self.backward(direction);
        if backward.saturating_mul(64) > steps {
            return None;
        }
        (steps >= least && self.same.saturating_mul(16) >= steps.saturating_mul(15)).then_some(self.even)
    }

    /// True where the steps against the direction are as far as those of a clock that starts over: cores that read one
    /// clock step back a little.
    pub fn starts_over(&self, direction: Direction) -> bool {
        let (_, own) = self.backward(direction);
        let far = match direction {
            Direction::Up => self.fallen,
            Direction::Down => self.risen,
        };
        let range = self.most.saturating_sub(self.least);
        far.checked_div(own).is_some_and(|average| average >= range / 4)
    }

    /// Steps against the direction, all cores together and each by itself.
    pub fn backward(&self, direction: Direction) -> (u64, u64) {
        let against = |v: &Votes| match direction {
            Direction::Up => v.down,
            Direction::Down => v.up,
        };
        let own = self.cores.values().fold(0u64, |n, (_, v)| n.saturating_add(against(v)));
        (against(&self.votes), own)
    }
}

/// Threads by address, for names: of an address that was registered twice the live one.
pub(super) fn threads(objects: &ObjectTable) -> HashMap<Addr, &crate::trace::Object> {
    let mut threads: HashMap<Addr, &crate::trace::Object> = HashMap::new();
    for object in objects.iter().filter(|o| o.is_thread) {
        let place = threads.entry(object.address).or_insert(object);
        if place.deleted || !object.deleted {
            *place = object;
        }
    }
    threads
}
