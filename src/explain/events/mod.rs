//! What the events of a trace show beside the kernel's state: who holds a semaphore, who takes and gives, how long threads and
//! interrupts had the processor, and where memory does not show it, what each thread does at the end.

mod activity;
mod away;
mod counted;
mod deleted;
mod end;
mod interrupts;
mod late;
mod negative;
mod now;
mod objects;
mod passed_on;
mod pointers;
mod pools;
mod postures;
mod priorities;
mod refusals;
mod repeated;
mod resumes;
mod same_buffer;
mod set_back;
mod silent;
mod sleeps;
mod standstill;
mod timers;
mod tries;
mod untaken;
mod waits;
mod words;

pub use activity::{Activity, Received, WrongCall};
pub use away::{ClearedFlags, Lacking, LeftSet, SetFlags};
pub use counted::{HadNumber, Overcount};
pub use deleted::AfterDelete;
pub use interrupts::{Inserted, Interrupt, Open, Soon, Tick};
pub use negative::{NegativeWait, NegativeWaits};
pub use objects::{Given, Giver, Kept, One, TimeOuts};
pub use passed_on::{Messages, NotPassedOn};
pub use pools::{Block, Freed, Refused, SentAndFreed, Twice};
pub use postures::Postures;
pub use priorities::{Priorities, Risen};
pub use refusals::{Reader, Refusals};
pub use repeated::Repeated;
pub use same_buffer::SameBuffer;
pub use set_back::SetBack;
pub use sleeps::{Asked, Clock, Over, Slept};
pub use standstill::WithoutTimers;
pub use timers::{KeptReady, LONG, Stretch, TimerWork};
pub use tries::Inversion;
pub use untaken::{Short, Untaken};

use std::collections::{BTreeMap, BTreeSet};

use self::counted::{Counted, Numbers};
use self::deleted::Deleted;
use self::interrupts::Interrupts;
use self::now::Now;
use self::objects::Taken;
use self::passed_on::Readers;
use self::repeated::AllRepeated;
use self::resumes::Resumes;
use self::sleeps::Sleeps;
use self::tries::Tries;
use self::words::Fields;
use super::state::Task;
use crate::abi::Addr;
use crate::analysis::tracker::{Change, Consumer, Step, System, ThreadNo, ThreadState, Who, place};
use crate::analysis::{Made, Name, ReportRequest};
use crate::catalogue::{Catalogue, Role};
use crate::error::Error;
use crate::kernel::Kind;
use crate::query::{Filters, Query};
use crate::trace::{Direction, Event, Interner, Trace};

/// The most objects that are followed: a damaged trace may name any number.
const MAX_OBJECTS: usize = 1 << 12;

/// The most threads that are followed, for the same reason.
const MAX_THREADS: usize = 1 << 12;

/// The most events that are looked at, the newest ones: what explains the end of a trace is not as far from it, and the rules
/// cost more for an event than all else.
const MAX_EVENTS: u64 = 1 << 20;

/// The most calls from wrong contexts that are remembered.
const MAX_WRONG: usize = 64;

/// The state of a thread that the kernel suspends while it changes its priority, and resumes in the same call.
const CHANGES_PRIORITY: u64 = 14;

/// What the kernel calls the thread that runs its timers.
pub(super) const TIMER_THREAD: &str = "System Timer Thread";

/// What the events show.
#[derive(Debug, Default)]
pub struct Events {
    /// Numbers of objects by address, while events come.
    numbers: Interner,
    /// The objects: by these numbers while events come, by address after the last one.
    objects: Vec<(Addr, One)>,
    /// Objects that some event was about since the last gap.
    known: Vec<usize>,
    /// What each thread did, with its address: by its number while events come, by address after the last one.
    active: Vec<(Addr, Activity)>,
    tasks: Vec<Task>,
    silent: Vec<(Addr, u32)>,
    names: BTreeMap<Addr, String>,
    kinds: BTreeMap<Addr, Kind>,
    stacks: BTreeMap<Addr, (Addr, Option<u64>)>,
    /// The last event that created an object.
    created: BTreeMap<Addr, u64>,
    /// Of threads that another one terminated, who did so last, and the event.
    terminated: BTreeMap<Addr, (Addr, u64)>,
    /// The same of threads that another one suspended.
    suspended: BTreeMap<Addr, (Addr, u64)>,
    /// Calls that resume threads.
    resumes: BTreeMap<Addr, Resumes>,
    /// Calls with objects that were deleted.
    pub deleted: Deleted,
    /// What semaphores were created with.
    initial: BTreeMap<Addr, u64>,
    /// Interrupts.
    pub interrupts: Interrupts,
    /// The last event of a thread.
    pub last_of_threads: Option<u64>,
    /// The number of the last event.
    pub newest: u64,
    /// A thread that blocked again and again, and nothing made it ready: its address, how often, and the first event.
    pub blocks_on: Option<(Addr, u64, u64)>,
    /// Since the last event of the thread that runs the kernel's timers.
    pub without_timers: WithoutTimers,
    /// What that thread does.
    pub timers: TimerWork,
    /// What calls of `tx_interrupt_control` set.
    pub postures: Postures,
    /// Priorities that rise.
    pub priorities: Priorities,
    /// Sleeps.
    pub sleeps: Sleeps,
    /// The last call that set the time of the kernel back.
    pub set_back: Option<SetBack>,
    /// The numbers that threads had last.
    had: Numbers,
    /// What it was when it was last read or set.
    time: Option<u64>,
    /// Locks that are asked for and not given.
    pub tries: Tries,
    /// Requests that a thread repeats before their answer comes.
    pub repeated: AllRepeated,
    /// Calls from wrong contexts.
    pub wrong: Vec<WrongCall>,
    /// Calls with a negative time to wait.
    pub negative: NegativeWaits,
    /// What the readers of queues do with their messages.
    pub readers: Readers,
    /// Messages of several threads from the same memory.
    pub same_buffer: SameBuffer,
    /// Buffers of messages that threads pass.
    buffers: BTreeSet<Addr>,
    /// Waits for locks behind less urgent owners that are still on at the end.
    pub inversions: Vec<Inversion>,
    /// The longest of those that are over.
    pub past_inversion: Option<Inversion>,
    /// Ticks of the first event and of the last one.
    pub span: (i64, i64),
    /// The stamp of the newest event, of a clock that counts up and has 32 bits or more.
    pub stamp: Option<u64>,
    /// How many events there are.
    pub count: u64,
    /// Cores that have events.
    pub cores: u16,
    /// True where its clock runs.
    pub has_clock: bool,
    /// Ticks from one event to the next, and whether these are the same for all.
    steps: Option<(i64, bool)>,
    /// True where it has all events since it began: none was overwritten, lost or left out.
    pub is_whole: bool,
    /// How many older events are not looked at.
    pub left_out: u64,
    /// How many of these are still to come.
    skip: u64,
    /// How often events are missing.
    gaps: u64,
    /// The bits that the trace stores of an address.
    mask: u64,
    fields: Fields,
}

impl Events {
    /// Before the first event. It takes what a tracker of the whole trace finds.
    #[must_use]
    pub fn new(trace: &Trace, catalogue: &Catalogue) -> Self {
        Self::newest(trace, catalogue, MAX_EVENTS)
    }

    fn newest(trace: &Trace, catalogue: &Catalogue, most: u64) -> Self {
        let left_out = trace.len().saturating_sub(most);
        Self {
            left_out,
            skip: left_out,
            mask: trace.about.word.max(),
            has_clock: trace.clock.runs(),
            stamp: (trace.clock.direction == Direction::Up && trace.clock.mask >= u64::from(u32::MAX)).then_some(0),
            is_whole: !trace.about.wrapped && left_out == 0,
            cores: trace.about.cores,
            fields: Fields::of(catalogue),
            ..Self::default()
        }
    }

    /// Looks at all events of a trace.
    ///
    /// # Errors
    /// None that a valid trace gives.
    pub fn of(trace: &Trace, catalogue: &Catalogue) -> Result<Self, Error> {
        Self::new(trace, catalogue).over(trace, catalogue)
    }

    /// Looks at the newest events of a trace, at most so many.
    ///
    /// # Errors
    /// None that a valid trace gives.
    #[doc(hidden)]
    pub fn of_newest(trace: &Trace, catalogue: &Catalogue, most: u64) -> Result<Self, Error> {
        Self::newest(trace, catalogue, most).over(trace, catalogue)
    }

    fn over(mut self, trace: &Trace, catalogue: &Catalogue) -> Result<Self, Error> {
        let all = Query::compile(&Filters::default(), trace, catalogue)?;
        let request = ReportRequest::of(Name::Inversions);
        let (made, (inversions, _)) = Made::beside(trace, catalogue, &all, &request, &mut self)?;
        self.end(made.system(), inversions);
        Ok(self)
    }

    /// A trace of so many ticks, in which one thread did something.
    #[cfg(test)]
    pub(super) fn of_activity(thread: Addr, activity: Activity, length: i64) -> Self {
        let active = vec![(thread, activity)];
        Self { active, span: (0, length), count: 100, cores: 1, has_clock: true, mask: u64::MAX, ..Self::default() }
    }

    /// What is known of an object.
    #[must_use]
    pub fn object(&self, address: Addr) -> Option<&One> {
        find(&self.objects, address & self.mask)
    }

    /// The event flags that a thread gets again and again and leaves set, with their group, as the trace stores its address.
    pub fn left_set(&self, thread: Addr) -> Option<(Addr, LeftSet)> {
        let stored = self.stored(thread);
        let all = self.objects.iter().filter_map(|(group, one)| Some((*group, one.away.left(stored)?)));
        all.max_by_key(|(_, left)| left.times)
    }

    /// All objects, by the addresses that the trace stores.
    pub fn objects(&self) -> impl Iterator<Item = (Addr, &One)> {
        self.objects.iter().map(|(address, one)| (*address, one))
    }

    /// What a thread did.
    #[must_use]
    pub fn activity(&self, thread: Addr) -> Option<&Activity> {
        find(&self.active, thread & self.mask)
    }

    /// The threads as the last events leave them.
    pub(super) fn tasks(&self) -> Vec<Task> {
        self.tasks.clone()
    }

    /// What a thread or an object is called. Hostile text: escape before printing.
    #[must_use]
    pub fn name(&self, address: Addr) -> Option<&str> {
        self.names.get(&(address & self.mask)).map(String::as_str)
    }

    /// True where the clock of the trace goes on by the same number at each event: it counts them (`TX_TRACE_TIME_SOURCE` of ports that have no
    /// other), and shows no time.
    #[must_use]
    pub const fn counts_events(&self) -> bool {
        matches!(self.steps, Some((_, true))) && self.count >= activity::MANY_EVENTS
    }

    /// The objects that the registry of the trace names, as the trace stores their addresses.
    pub fn registered(&self) -> impl Iterator<Item = (Addr, Kind)> {
        self.kinds.iter().filter(|(at, _)| self.names.contains_key(at)).map(|(at, kind)| (*at, *kind))
    }

    /// What an object is.
    #[must_use]
    pub fn kind(&self, address: Addr) -> Option<Kind> {
        self.kinds.get(&(address & self.mask)).copied()
    }

    /// True where this is the address of a thread as the trace stores it.
    #[must_use]
    pub const fn is(&self, thread: Addr, stored: Addr) -> bool {
        thread & self.mask == stored
    }

    /// An address as the trace stores it.
    #[must_use]
    pub const fn stored(&self, address: Addr) -> Addr {
        address & self.mask
    }

    fn one(&mut self, address: Addr) -> Option<&mut One> {
        let number = match self.numbers.find(address) {
            Some(number) => number,
            None if self.objects.len() < MAX_OBJECTS => {
                self.objects.push((address, One::default()));
                self.numbers.intern(address)
            }
            None => return None,
        };
        let at = usize::try_from(number).ok()?;
        let (_, one) = self.objects.get_mut(at)?;
        if !std::mem::replace(&mut one.is_listed, true) {
            self.known.push(at);
        }
        Some(one)
    }

    fn does(&mut self, no: ThreadNo) -> Option<&mut Activity> {
        let index = Some(no.index()).filter(|index| *index < MAX_THREADS)?;
        place(&mut self.active, index).map(|(_, activity)| activity)
    }

    fn change(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        let address = |no| system.thread(no).map(|thread| thread.address);
        match *change {
            Change::Blocked { thread, by, call, .. } => {
                if by == Who::Thread(thread) {
                    self.blocks_itself(event, thread, system);
                }
                if system.name(thread) == Some(TIMER_THREAD) {
                    self.timers.blocked();
                }
                self.blocked(event, thread, call, system);
            }
            Change::Readied { thread, by, interrupt, waited, call } => {
                let (places, words) = (self.fields.of_event(event), system.trace.words(event));
                let was_ready = places.was_ready(words);
                if let Some(activity) = self.does(thread) {
                    let is_first = activity.woken.is_none() && activity.blocked.is_none() && activity.first.is_none();
                    activity.was_ready |= is_first && was_ready;
                    activity.woken = Some(event.seq);
                }
                if let Some(address) = address(thread).filter(|_| !self.resumes.is_empty()) {
                    let blocked = self.does(thread).and_then(|activity| activity.blocked);
                    let suspended = blocked.filter(|_| places.was_suspended(words));
                    self.is_resumed(address, suspended.map(|(from, ..)| event.ticks.saturating_sub(from)));
                }
                self.readied(event, thread, (by, interrupt), system);
                self.wakes(event, thread, by, system);
                self.wait_is_over(event, thread, (waited, call), system);
            }
            Change::Dispatched { thread, .. } => {
                if let Some(activity) = self.does(thread) {
                    activity.first = activity.first.or(Some(event.seq));
                    activity.dispatched = activity.dispatched.saturating_add(1);
                }
            }
            Change::Acquired { lock, thread } => {
                if let Some(activity) = self.does(thread) {
                    activity.acquired = activity.acquired.saturating_add(1);
                }
                if let Some(thread) = address(thread) {
                    self.tries.succeeds(thread, system.address(lock));
                }
            }
            Change::Entered { number: Some(number), .. } => self.interrupts.enter(number, event.seq, event.ticks),
            Change::Exited { .. } => self.interrupts.exit(event.ticks),
            _ => {}
        }
    }

    /// What the call that an event is does to its object.
    fn call(&mut self, now: &Now<'_>, role: &Role, system: &System<'_>) {
        let Now { event, words, places, .. } = *now;
        let in_interrupt = now.is_of_interrupt();
        // A call that creates a thread acts on no object.
        self.deleted.call(now, role, system);
        if let Some(object) =
            role.create.of(words).filter(|object| self.created.len() < MAX_OBJECTS || self.created.contains_key(object))
        {
            self.created.insert(object, event.seq);
            self.one(object).into_iter().for_each(|one| one.counted = Counted::default());
            self.terminated.remove(&object);
            self.suspended.remove(&object);
        }
        if in_interrupt {
            if !role.isr_enter && !role.isr_exit {
                self.interrupts.acts();
                self.interrupts.alone.take(event.seq, event.ticks);
            }
            if self.wrong.len() < MAX_WRONG {
                self.wrong.extend(WrongCall::of(now, role, system));
            }
        }
        let by = now.thread();
        for (word, all) in [(role.end_thread, &mut self.terminated), (role.suspend, &mut self.suspended)] {
            let Some(thread) = word.of(words) else { continue };
            match by.filter(|by| *by != thread) {
                Some(by) if all.len() < MAX_THREADS || all.contains_key(&thread) => {
                    all.insert(thread, (by, event.seq));
                }
                // Itself, or an interrupt.
                None => _ = all.remove(&thread),
                Some(_) => {}
            }
        }
        if !role.gives_or_takes {
            return;
        }
        let buffer = by.and(places.buffer(words)).filter(|_| self.buffers.len() < MAX_OBJECTS);
        self.buffers.extend(buffer);
        let waits = role.wait.of(words);
        let object = role.get.of(words).or(role.put.of(words)).or(role.acquire.of(words));
        if let (Some(object), Some(thread), Some(ticks)) = (object, by, waits) {
            negative::note(&mut self.negative, (thread, object), (ticks, self.mask), event.seq);
        }
        if let (Some(lock), Some(thread)) = (role.acquire.of(words), by) {
            let owner = role.owner.of(words).filter(|owner| *owner != 0 && *owner != thread);
            if let (Some(owner), Some(0)) = (owner, waits) {
                self.tries.fails(thread, lock, Some(owner), event.seq);
            }
        }
        if let (Some(lock), Some(thread), Some(owner)) = (role.release.of(words), by, role.owner.of(words))
            && owner != thread
            // The kernel itself puts the mutexes of a thread that is terminated, and a mutex that is deleted.
            && !self.terminated.contains_key(&owner)
            && self.deleted.gone(lock).is_none()
        {
            self.tries.is_refused(thread, lock, event.seq);
        }
        if let (Some(lock), Some(thread), Some(had)) = (role.release.of(words), by, role.own_count.of(words))
            && role.owner.of(words).is_none_or(|owner| owner == thread)
            && let Some(one) = self.one(lock)
        {
            one.unlock(thread, had, event.seq);
        }
        match (role.get.of(words), by) {
            (Some(object), Some(thread)) => self.get(now, (object, thread), waits, system),
            (Some(object), None) => {
                let (memory, len) = (places.memory(event, words), places.size(words));
                let number = event.isr.map(u64::from);
                if let Some(one) = self.one(object) {
                    (one.is_taken_elsewhere, one.untaken) = (true, None);
                    memory.into_iter().for_each(|at| one.pool.interrupt_asks(number, at, event.seq, event.ticks, len));
                }
            }
            (None, _) => {}
        }
        if let Some(object) = role.put.of(words) {
            let giver = match by {
                Some(thread) => Giver::Thread(thread),
                None if in_interrupt => {
                    self.interrupts.gives();
                    Giver::Interrupt(event.isr.map(u64::from))
                }
                None => Giver::Other,
            };
            self.repeated.gives(by, object, event.ticks);
            match (by, places.buffer(words), places.memory(event, words)) {
                (Some(thread), Some(_), _) => self.readers.sends(thread, object, event.seq),
                (Some(thread), None, Some(_)) => self.readers.releases(thread),
                (Some(thread), None, None) => self.readers.gives(thread, object, event.seq),
                (None, ..) => {}
            }
            self.put(now, object, giver, waits, system);
        }
    }

    fn get(&mut self, now: &Now<'_>, (object, thread): (Addr, Addr), waits: Option<u64>, system: &System<'_>) {
        let Now { event, words, places: fields, .. } = *now;
        let (memory, wanted, len) = (fields.memory(event, words), fields.wanted(words), fields.size(words));
        let (cleared, held) = (fields.cleared(words), fields.held(words));
        let (no, forever) = (system.thread_of(event.context), self.mask);
        let is_blocked =
            no.and_then(|no| system.thread(no)).is_some_and(|t| matches!(t.state, ThreadState::Blocked(_)));
        let (gaps, had, room) = (self.gaps, self.had, counted::room(now, object, system.trace));
        let blocks = no.and_then(|no| self.does(no)).map_or(0, |activity| activity.blocks);
        if fields.buffer(words).is_some() {
            self.readers.receives(thread, object, event.seq);
        }
        let activity = no.and_then(|no| self.does(no));
        if let Some((activity, to)) = activity.zip(fields.buffer(words)) {
            activity.asks(Received { queue: object, to, seq: event.seq, gaps }, held.is_some_and(|held| held > 0));
        }
        self.repeated.takes(thread, object, held.is_some_and(|held| held > 0), event.seq);
        let Some(one) = self.one(object) else { return };
        one.taker(thread);
        one.asks_in(thread, event.seq);
        held.into_iter().for_each(|held| one.finds(held, event.seq));
        held.zip(room).into_iter().for_each(|(held, room)| one.counted.next(event.seq, held, room, &had));
        // Without a wait it may have failed. Where nothing is there, the thread waits, also in a trace that has no event of that.
        if waits.is_some_and(|wait| wait != 0) && !is_blocked && held != Some(0) {
            one.take(Taken { thread, seq: event.seq, at: event.ticks, blocks });
        }
        match memory {
            Some(0) if waits == Some(0) => one.pool.refuse(thread, event.seq, event.ticks, len),
            Some(0) if waits == Some(forever) => one.pool.waits = Some((thread, event.seq)),
            None | Some(0) => {}
            Some(memory) => one.pool.allocate(memory, thread, event.seq, len),
        }
        if let Some(cleared) = cleared {
            one.away.get(thread, cleared, event.seq);
        }
        if let Some(wanted) = wanted {
            one.asked |= wanted.flags;
            one.away.read(wanted.flags);
            if one.wanted.len() < MAX_OBJECTS {
                one.wanted.insert(thread, wanted);
            }
        }
    }
}

/// What is known of an address, of a list in the order of addresses.
fn find<T>(list: &[(Addr, T)], address: Addr) -> Option<&T> {
    let at = list.binary_search_by_key(&address, |(address, _)| *address).ok()?;
    list.get(at).map(|(_, one)| one)
}

impl Consumer for Events {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        if let Some(left) = self.skip.checked_sub(1) {
            self.skip = left;
            return;
        }
        let event = step.event;
        if self.count == 0 {
            self.span.0 = event.ticks;
        }
        self.count = self.count.saturating_add(1);
        if self.count > 1 {
            let ticks = event.ticks.saturating_sub(self.span.1);
            let (known, is_same) = self.steps.unwrap_or((ticks, true));
            self.steps = Some((known, is_same && known == ticks));
        }
        self.span.1 = self.span.1.max(event.ticks);
        if self.stamp.is_some() {
            self.stamp = event.stamp.or(self.stamp);
        }
        self.newest = event.seq;
        let first = self.span.0;
        for span in step.spans {
            if let Who::Thread(no) = span.who
                && let Some(activity) = self.does(no)
            {
                let ran = span.to.saturating_sub(span.from.max(first)).max(0);
                activity.ran = activity.ran.saturating_add(ran);
                self.interrupts.ran = self.interrupts.ran.saturating_add(ran);
            }
        }
        step.changes.iter().for_each(|change| self.change(event, change, system));
        if let Some(activity) = system.thread_of(event.context).and_then(|no| self.does(no)) {
            activity.last = event.seq;
        }
        let (words, places) = (system.trace.words(event), self.fields.of_event(event));
        let now = Now { event, words, places, context: system.trace.contexts.get(event.context) };
        self.by_thread(&now, system);
        self.by_interrupt(&now, system);
        self.sleeps(&now);
        self.resume_call(&now);
        if let Some(role) = system.role(event) {
            self.pointer(&now, role, system);
            self.call(&now, role, system);
        }
        self.interrupts.after(event.ticks);
    }

    fn gap(&mut self) {
        self.is_whole = false;
        self.gaps = self.gaps.saturating_add(1);
        // Only what was learned since the last gap is looked at: a damaged trace may have many of both.
        for at in self.known.drain(..) {
            if let Some((_, one)) = self.objects.get_mut(at) {
                one.forget();
            }
        }
        self.suspended.clear();
        self.resumes.clear();
        self.deleted.forget();
        self.interrupts.forget();
        self.tries.forget();
        self.repeated.forget();
        self.readers.forget();
        self.timers.forget();
        self.postures.forget();
        self.sleeps.forget();
        self.same_buffer.forget(self.newest);
        (self.blocks_on, self.without_timers) = (None, WithoutTimers::default());
        (self.had, self.time, self.set_back) = (Numbers::default(), None, None);
    }
}
