//! One pass over the captured slots: what they show together, before any event is decoded.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events; stamps and ticks are computed with checks")]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::coherence;
use super::entry::{AT_A_TIME, Codec, Entry, PRIORITY_UNUSED, id, kind_of};
use super::ids::Ids;
use super::kernel_ticks::KernelTicks;
use super::layout::CONTEXT_ISR;
use super::order::{Ring, Votes, rough_clock};
use super::steps::{EqualSteps, Steps};
use crate::abi::Addr;
use crate::trace::{Clock, ContextId, ContextKind, Contexts, Direction, Object, ObjectTable};

/// Number of a Cortex-M's SysTick exception.
const SYSTICK: u64 = 15;
/// Set in the priority word where the threshold is stored too.
const MARKED: u64 = 0x8000_0000;
/// The most marks of time that are kept.
const MAX_MARKS: usize = 1 << 16;

/// How to read the slots.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub codec: Codec,
    pub direction: Direction,
    pub ids: &'a Ids,
    /// Slots whose context word was cleared hold events: those of the run before a reset.
    pub previous: bool,
}

/// How to look at slots.
struct Look<'a> {
    rules: Rules<'a>,
    clock: &'a Clock,
    /// Events whose stamps do not match the others.
    outliers: &'a [Range<u64>],
}

impl Look<'_> {
    #[inline]
    const fn is_used(&self, entry: &Entry) -> bool {
        entry.context != 0 || self.rules.previous
    }

    #[inline]
    fn is_event(&self, entry: &Entry) -> bool {
        self.is_used(entry) && self.rules.ids.is_entry(entry, self.rules.codec.cores)
    }
}

/// A moment that the kernel's own timer marks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// Ticks since the first event, by the mask alone.
    pub elapsed: u64,
    /// SysTick: whether it interrupted idle. Tick count: the count.
    pub value: u64,
    /// Its event.
    pub seq: u64,
}

/// Slots of one kind: how many there are, and the first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub count: u64,
    pub first: Option<u64>,
}

impl Tally {
    #[cold]
    fn add(&mut self, seq: u64) {
        self.count += 1;
        self.first = self.first.or(Some(seq));
    }
}

/// Which way the stamps of a core go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnClock {
    votes: Votes,
    /// Ticks of all its steps down, and of all its steps up.
    fallen: u64,
    risen: u64,
}

impl OwnClock {
    /// The clock of the only core.
    fn of(steps: &Steps) -> Self {
        let Some(first) = steps.first else { return Self::default() };
        let (votes, back) = (steps.votes(), steps.backs.distance);
        // What the stamps go up and down makes the way from the first to the last.
        let way = steps.last.stamp.wrapping_sub(first.stamp);
        let (fallen, risen) = match steps.direction() {
            Direction::Up => (back, back.wrapping_add(way)),
            Direction::Down => (back.wrapping_sub(way), back),
        };
        Self { votes, fallen, risen }
    }

    #[inline]
    fn add(&mut self, before: u64, stamp: u64) {
        self.votes.count(before, stamp);
        self.fallen = self.fallen.wrapping_add(before.saturating_sub(stamp));
        self.risen = self.risen.wrapping_add(stamp.saturating_sub(before));
    }
}

/// What one pass over the captured slots finds.
pub(super) struct PreScan {
    pub contexts: Contexts,
    pub events: u64,
    pub unused: Tally,
    pub damaged: Tally,
    /// Events of threads with a priority word that no kernel stores.
    pub odd: Tally,
    pub skipped_front: u64,
    /// Events behind slots that hold none, or were not read.
    pub gaps: Vec<u64>,
    /// The number behind that of the last event.
    next_seq: u64,
    /// True where stamps that do not match the others were passed over.
    pub has_outliers: bool,
    /// Those of all cores together.
    pub steps: Steps,
    /// By core, with its last stamp.
    pub cores: BTreeMap<u16, (OwnClock, u64)>,
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
    current: Option<Current>,
    /// The context word that was interrupted last.
    interrupted: Option<u64>,
}

/// The context of the event before.
#[derive(Clone, Copy)]
struct Current {
    word: u64,
    id: ContextId,
    kind: ContextKind,
}

impl PreScan {
    /// Looks at every captured slot once. The stamps of `outliers` do not match the others.
    pub fn of(ring: &Ring, rules: Rules<'_>, outliers: &[Range<u64>]) -> Self {
        let clock = rough_clock(rules.codec.mask, rules.direction);
        let look = Look { rules, clock: &clock, outliers };
        let mut this = Self::new(&clock, outliers);
        for place in ring.blocks() {
            ring.slots_of(place, &rules.codec, |seq, entries| this.slots(entries, seq, &look));
            this.steps.end_block(place);
        }
        this.leave();
        if rules.codec.cores < 2 && this.events > 0 {
            this.cores.insert(0, (OwnClock::of(&this.steps), this.steps.last.stamp));
        }
        this
    }

    fn new(clock: &Clock, outliers: &[Range<u64>]) -> Self {
        let mut contexts = Contexts::default();
        // An ISR event may name idle as what it interrupted, also where no event was inserted then.
        contexts.intern(ContextKind::Isr, CONTEXT_ISR);
        Self {
            contexts,
            events: 0,
            unused: Tally::default(),
            damaged: Tally::default(),
            odd: Tally::default(),
            skipped_front: 0,
            gaps: Vec::new(),
            next_seq: 0,
            has_outliers: !outliers.is_empty(),
            steps: Steps::new(clock),
            cores: BTreeMap::new(),
            marks_threshold: false,
            marks_interrupted: false,
            unmarked: false,
            systicks: Vec::new(),
            times: Vec::new(),
            kernel_ticks: KernelTicks::default(),
            last_of: Vec::new(),
            newest: None,
            current: None,
            interrupted: None,
        }
    }

    /// Slots that follow each other. Nearly always all of them hold events.
    #[inline]
    fn slots(&mut self, entries: &[Entry], seq: u64, look: &Look<'_>) {
        if entries.iter().all(|entry| look.is_event(entry)) && look.outliers.is_empty() {
            return self.add(entries, seq, look, true);
        }
        for (seq, entry) in (seq..).zip(entries) {
            if look.is_event(entry) {
                let timed = !coherence::holds(look.outliers, seq);
                self.add(std::slice::from_ref(entry), seq, look, timed);
            } else {
                self.leave_out(look.is_used(entry), seq);
            }
        }
    }

    /// Events of slots that follow each other. Where they are not timed, their stamps say nothing.
    fn add(&mut self, entries: &[Entry], seq: u64, look: &Look<'_>, timed: bool) {
        if seq != self.next_seq && self.events > 0 {
            self.gaps.push(seq);
        }
        self.next_seq = seq.wrapping_add(entries.len() as u64);
        self.events += entries.len() as u64;
        let mut elapsed = [0; AT_A_TIME];
        if timed {
            self.steps.add(seq, entries, look.clock, &mut elapsed);
            if look.rules.codec.cores > 1 {
                entries.iter().for_each(|entry| self.time_of_core(entry));
            }
        }
        let (mut current, mut newest, mut marked, mut unmarked) = (self.current, self.newest, 0, 0);
        for ((seq, entry), elapsed) in (seq..).zip(entries).zip(elapsed) {
            let Current { kind, .. } = match current {
                Some(current) if current.word == entry.context => current,
                _ => {
                    self.newest = newest;
                    *current.insert(self.enter(entry.context))
                }
            };
            newest = Some(seq);
            match kind {
                ContextKind::Isr => {
                    self.marks_interrupted |= entry.priority != 0;
                    if self.interrupted != Some(entry.priority) {
                        self.interrupt(entry.priority);
                    }
                }
                ContextKind::Thread => {
                    if entry.priority & PRIORITY_UNUSED != 0 {
                        self.odd.add(seq);
                    }
                    marked |= entry.priority;
                    unmarked |= !entry.priority;
                }
                _ => {}
            }
            if timed {
                match entry.id {
                    id::ISR_ENTER | id::TIME_GET => self.mark(entry, seq, elapsed),
                    _ => {}
                }
                if self.kernel_ticks.takes(kind, || look.rules.ids.known(entry.id).timed) {
                    self.kernel_ticks.event(entry, kind, elapsed);
                }
            }
        }
        self.marks_threshold |= marked & MARKED != 0;
        self.unmarked |= unmarked & MARKED != 0;
        self.newest = newest;
    }

    #[cold]
    fn leave_out(&mut self, is_used: bool, seq: u64) {
        if is_used { &mut self.damaged } else { &mut self.unused }.add(seq);
        if self.events == 0 {
            self.skipped_front += 1;
        }
    }

    /// Events of another context come.
    fn enter(&mut self, word: Addr) -> Current {
        self.leave();
        let kind = kind_of(word);
        let id = self.contexts.intern(kind, word);
        let current = Current { word, id, kind };
        self.current = Some(current);
        current
    }

    fn leave(&mut self) {
        let (Some(current), Some(newest)) = (self.current, self.newest) else { return };
        let index = usize::try_from(current.id.0).unwrap_or(usize::MAX);
        if index >= self.last_of.len() {
            self.last_of.resize(self.contexts.len().max(1), u64::MAX);
        }
        if let Some(last) = self.last_of.get_mut(index) {
            *last = newest;
        }
    }

    /// An interrupt of another context.
    fn interrupt(&mut self, word: Addr) {
        self.interrupted = Some(word);
        self.contexts.intern(interrupted_kind(word), word);
    }

    fn time_of_core(&mut self, entry: &Entry) {
        let (own, last) = self.cores.entry(entry.core).or_insert((OwnClock::default(), entry.stamp));
        own.add(std::mem::replace(last, entry.stamp), entry.stamp);
    }

    /// An event that marks the kernel's own time.
    fn mark(&mut self, entry: &Entry, seq: u64, elapsed: u64) {
        // On a Cortex-M the third word holds the exception number, whatever number the application gave.
        if entry.id == id::ISR_ENTER && entry.info[2] & 0x1FF == SYSTICK && self.systicks.len() < MAX_MARKS {
            self.systicks.push(Mark { elapsed, value: u64::from(entry.priority == 0), seq });
        }
        if entry.id == id::TIME_GET && self.times.len() < MAX_MARKS {
            self.times.push(Mark { elapsed, value: entry.info[0], seq });
        }
    }

    /// By how much nearly every stamp is more than that of the slot before, where that is the same: no time passes so
    /// evenly. One damaged stamp makes two other steps.
    pub fn counts_events(&self, direction: Direction) -> Option<u64> {
        // The first step has none before it.
        let steps = self.events.saturating_sub(2);
        let EqualSteps { same, even, .. } = self.steps.evenness;
        // A loop that is timed may insert some hundred as evenly.
        let least = if even == 1 { 8 } else { 512 };
        // A timer that reloads falls back again and again.
        let (backward, _) = self.backward(direction);
        if backward * 64 > steps {
            return None;
        }
        (steps >= least && same * 16 >= steps * 15).then_some(even)
    }

    /// True where the steps against the direction are as far as those of a clock that starts over: cores that read one
    /// clock step back a little.
    pub fn starts_over(&self, direction: Direction) -> bool {
        let (_, own) = self.backward(direction);
        let far = self.cores.values().fold(0u64, |sum, (core, _)| {
            sum.saturating_add(match direction {
                Direction::Up => core.fallen,
                Direction::Down => core.risen,
            })
        });
        let range = self.steps.most.saturating_sub(self.steps.least);
        far.checked_div(own).is_some_and(|average| average >= range / 4)
    }

    /// Steps against the direction, all cores together and each by itself.
    pub fn backward(&self, direction: Direction) -> (u64, u64) {
        let own = self.cores.values().fold(0u64, |n, (core, _)| n + core.votes.against(direction));
        (self.votes().against(direction), own)
    }

    /// True where events of interrupts name the context that they interrupted. Kernels before version 6 stored neither that nor
    /// thresholds; their registries hold no priorities.
    pub fn stores_interrupted(&self, objects: &ObjectTable) -> bool {
        self.marks_threshold
            || self.marks_interrupted
            || (!self.unmarked && objects.iter().any(|o| o.priority.is_some()))
    }

    pub fn first_stamp(&self) -> Option<u64> {
        self.steps.first.map(|first| first.stamp)
    }

    pub fn last_stamp(&self) -> Option<u64> {
        self.steps.first.map(|_| self.steps.last.stamp)
    }

    /// Which way the stamps go, one after the other.
    pub const fn votes(&self) -> Votes {
        self.steps.votes()
    }

    /// Which way they go on each core: between cores they need not follow each other.
    pub fn own_votes(&self) -> Votes {
        if self.cores.len() < 2 {
            return self.votes();
        }
        self.cores.values().fold(Votes::default(), |sum, (core, _)| sum.join(core.votes))
    }
}

/// The kind of the context that an interrupt interrupted, by its priority word.
pub(super) const fn interrupted_kind(word: u64) -> ContextKind {
    if word == 0 { ContextKind::Idle } else { ContextKind::Thread }
}

/// Threads by address, for names: of an address that was registered twice the live one.
pub(super) fn threads(objects: &ObjectTable) -> HashMap<Addr, &Object> {
    let mut threads: HashMap<Addr, &Object> = HashMap::new();
    for object in objects.iter().filter(|o| o.is_thread) {
        let place = threads.entry(object.address).or_insert(object);
        if place.deleted || !object.deleted {
            *place = object;
        }
    }
    threads
}
