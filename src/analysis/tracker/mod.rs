//! THE TRACKER: who runs on each core, the state of each thread, the owner of each lock, open interrupts, and what of all
//! this is not known. It is fed event by event and hands each one on with its spans and changes to a [`Consumer`].
//! It starts from nothing known, so it serves the end of a ring, a trace with gaps and a target that runs on alike.

mod change;
mod cores;
mod place;
mod waits;

pub use change::{
    Call, Calls, Change, Ending, Frame, Lock, ObjectNo, Span, Step, Thread, ThreadNo, ThreadState, Wait, WaitOption,
    Who,
};

pub use place::place;

use std::num::NonZeroU64;

use self::cores::Core;
use crate::abi::Addr;
use crate::catalogue::{ArgKind, Catalogue, Role, Roles};
use crate::trace::{ContextId, ContextKind, DefId, Event, Interner, Number, Trace};

/// Takes what the tracker finds: a report, a picture, a line below a list.
pub trait Consumer {
    /// One event with its spans and changes. `system` already knows them.
    fn step(&mut self, step: &Step<'_>, system: &System<'_>);

    /// Events are missing behind the last step: when what is open there ends is not known.
    fn gap(&mut self) {}
}

/// What a consumer needs of the tracker, which computes nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wants {
    /// Changes of threads, cores and interrupts. Without them there are spans alone.
    pub changes: bool,
    /// Calls, their outcomes, and locks.
    pub calls: bool,
}

impl Wants {
    /// Everything.
    pub const ALL: Self = Self { changes: true, calls: true };
}

/// What was found out about one event.
#[derive(Debug, Default)]
struct Found {
    spans: Vec<Span>,
    changes: Vec<Change>,
    wants: Wants,
}

impl Found {
    #[inline]
    fn change(&mut self, change: Change) {
        if self.wants.changes {
            self.changes.push(change);
        }
    }
}

/// Follows a trace event by event.
pub struct Tracker<'a> {
    system: System<'a>,
    found: Found,
    /// An event that cannot be understood before the next one is known.
    held: Option<Event>,
    /// Events still to come before which others are missing.
    gaps: &'a [u64],
}

impl<'a> Tracker<'a> {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(trace: &'a Trace, catalogue: &'a Catalogue, wants: Wants) -> Self {
        let wants = Wants { changes: wants.changes || wants.calls, ..wants };
        let found = Found { wants, ..Found::default() };
        Self { system: System::new(trace, catalogue), found, held: None, gaps: &trace.gaps }
    }

    /// Takes the next event. Most are handed on at once; one with which a thread gives its core away is held back until
    /// the next one shows whether that thread goes on.
    #[inline]
    pub fn event(&mut self, event: &Event, to: &mut impl Consumer) {
        if self.gaps.first().is_some_and(|at| *at <= event.seq) {
            self.gaps_up_to(event.seq, to);
        }
        if let Some(held) = &self.held {
            self.system.take(held, self.system.role(held), Some(event), &mut self.found, to);
            self.held = None;
        }
        let role = self.system.role(event);
        if role.is_some_and(|role| role.run.is_some() && self.system.must_wait(event, role)) {
            self.held = Some(*event);
        } else {
            self.system.take(event, role, None, &mut self.found, to);
        }
    }

    #[cold]
    fn gaps_up_to(&mut self, seq: u64, to: &mut impl Consumer) {
        let passed = self.gaps.partition_point(|at| *at <= seq);
        self.gaps = self.gaps.get(passed..).unwrap_or_default();
        self.gap(to);
    }

    /// Events are missing here: states, owners, waits and open interrupts are unknown until an event shows them. The time
    /// up to the next event is unknown too. [`Tracker::event`] calls it for the gaps of the trace.
    pub fn gap(&mut self, to: &mut impl Consumer) {
        self.finish(to);
        self.system.forget();
        to.gap();
    }

    /// Hands on what is held back: there is no next event, or not yet.
    pub fn finish(&mut self, to: &mut impl Consumer) {
        if let Some(held) = self.held.take() {
            self.system.take(&held, self.system.role(&held), None, &mut self.found, to);
        }
    }

    /// What is known after the events that were handed on.
    #[must_use]
    pub const fn system(&self) -> &System<'a> {
        &self.system
    }
}

/// The traced system as far as the events so far show it.
pub struct System<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What its ids mean.
    pub catalogue: &'a Catalogue,
    roles: &'a Roles,
    threads: Vec<Thread>,
    /// Threads whose state is known, or was since the last gap.
    known_threads: Vec<ThreadNo>,
    /// By thread, where calls are wanted.
    calls: Vec<Calls>,
    /// Numbers of threads by address.
    thread_numbers: Interner,
    /// By context: who inserts its events; `None` where that was not looked up yet.
    by_context: Vec<Option<Who>>,
    cores: Vec<Core>,
    /// Core, context and priority of the last event, where that is of the thread that has the core, and nothing is to be
    /// done: another event of the same brings nothing new.
    quiet: Option<(u16, ContextId, Option<u16>)>,
    /// Never used: what a lookup that cannot fail falls back to.
    spare: Core,
    /// Numbers of objects by address.
    objects: Interner,
    locks: Vec<Lock>,
    /// Those that a thread asked for since the last gap.
    known_locks: Vec<ObjectNo>,
    /// True where calls that may wait state for how long.
    states_waits: bool,
    quiet_locks: bool,
    /// True where the processor numbers its interrupts.
    asks_processor: bool,
    announced: Announced,
}

/// How far a trace shows when interrupts begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Announced {
    /// True where an event says that an interrupt begins.
    any: bool,
    /// True where an interrupt inserted events, and none of its beginning.
    bare: bool,
    /// True behind the oldest events, if these are of an interrupt: what announces it may be overwritten.
    behind_first: bool,
}

impl Announced {
    /// What is missing, in words; `None` where every interrupt that inserted events was announced.
    #[must_use]
    pub const fn missing(self) -> Option<&'static str> {
        match self {
            Self { any: false, .. } => Some("interrupts are not announced"),
            Self { bare: true, .. } => Some("some interrupts are not announced"),
            Self { any: true, bare: false, .. } => None,
        }
    }
}

/// The most objects that have a number: a damaged trace may name any number.
const MAX_OBJECTS: usize = 1 << 18;

impl<'a> System<'a> {
    fn new(trace: &'a Trace, catalogue: &'a Catalogue) -> Self {
        let roles = catalogue.roles();
        Self {
            trace,
            catalogue,
            roles,
            threads: Vec::with_capacity(trace.contexts.len()),
            known_threads: Vec::with_capacity(trace.contexts.len()),
            calls: Vec::with_capacity(trace.contexts.len()),
            thread_numbers: Interner::with_room(trace.contexts.len()),
            by_context: vec![None; trace.contexts.len()],
            cores: Vec::new(),
            quiet: None,
            spare: Core::new(),
            objects: Interner::default(),
            locks: Vec::new(),
            known_locks: Vec::new(),
            states_waits: roles.state_waits(),
            quiet_locks: catalogue.ways().quiet_locks,
            asks_processor: trace.interrupts.iter().any(|m| matches!(m.number, Number::Processor(_))),
            announced: Announced::default(),
        }
    }

    /// What an event does, whatever its id.
    #[must_use]
    #[inline]
    pub fn role(&self, event: &Event) -> Option<&'a Role> {
        self.roles.get(event.def?)
    }

    /// What a call does.
    #[must_use]
    #[inline]
    pub fn role_of(&self, def: DefId) -> Option<&'a Role> {
        self.roles.get(def)
    }

    /// A thread.
    #[must_use]
    #[inline]
    pub fn thread(&self, no: ThreadNo) -> Option<&Thread> {
        self.threads.get(no.index())
    }

    /// The calls of a thread.
    #[must_use]
    #[inline]
    pub fn calls_of(&self, no: ThreadNo) -> Calls {
        self.calls.get(no.index()).copied().unwrap_or_default()
    }

    /// The same, to change them.
    fn calls_mut(&mut self, no: ThreadNo) -> Option<&mut Calls> {
        place(&mut self.calls, no.index())
    }

    /// The number of the thread at an address, where an event named it.
    #[must_use]
    pub fn find_thread(&self, address: Addr) -> Option<ThreadNo> {
        self.thread_numbers.find(address).map(ThreadNo)
    }

    /// The thread of a context that inserted an event.
    #[must_use]
    #[inline]
    pub fn thread_of(&self, id: ContextId) -> Option<ThreadNo> {
        match self.by_context.get(usize::try_from(id.0).ok()?)? {
            Some(Who::Thread(no)) => Some(*no),
            _ => None,
        }
    }

    /// All threads that events have named so far.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadNo, &Thread)> {
        (0u32..).map(ThreadNo).zip(&self.threads)
    }

    /// The address of an object.
    #[must_use]
    #[inline]
    pub fn address(&self, object: ObjectNo) -> Addr {
        self.objects.word(object.0).unwrap_or(0)
    }

    /// The number of the object at an address, where a call named it.
    #[must_use]
    #[inline]
    pub fn find_object(&self, address: Addr) -> Option<ObjectNo> {
        self.objects.find(address).map(ObjectNo)
    }

    /// True where some call states how long its caller is ready to wait.
    #[must_use]
    pub const fn states_waits(&self) -> bool {
        self.states_waits
    }

    /// A lock that a thread asked for.
    #[must_use]
    #[inline]
    pub fn lock(&self, lock: ObjectNo) -> Option<&Lock> {
        self.locks.get(lock.index()).filter(|l| l.is_known)
    }

    /// Number of cores that have events.
    #[must_use]
    pub fn cores(&self) -> u16 {
        u16::try_from(self.cores.len()).unwrap_or(u16::MAX)
    }

    /// How far events announce interrupts.
    #[must_use]
    pub const fn announced(&self) -> Announced {
        self.announced
    }

    /// The number of the interrupt that an event is in: the processor's where the processor was asked, else `own`, which
    /// the event has that began it (that of its end may be another).
    #[must_use]
    pub fn interrupt_number(&self, event: &Event, own: Option<u64>) -> Option<u64> {
        if self.asks_processor { event.isr.map(u64::from) } else { own }
    }

    /// The name of a thread, where one is known. Hostile: escape before printing.
    #[must_use]
    pub fn name(&self, no: ThreadNo) -> Option<&str> {
        let thread = self.thread(no)?;
        let own = thread.context.and_then(|c| self.trace.contexts.get(c)).and_then(|c| c.name.as_deref());
        own.or_else(|| self.trace.objects.at(thread.address).filter(|o| o.is_thread).map(|o| o.name.as_str()))
            .filter(|n| !n.is_empty())
    }

    /// The word for a state that an event of this definition puts a thread into: of its code, else the event's own name.
    #[must_use]
    pub fn state_word(&self, def: Option<DefId>, code: Option<u64>) -> Option<String> {
        let def = self.catalogue.def(def?)?;
        let Some(code) = code else { return Some(def.name.clone()) };
        let mut fields = def.fields.iter().flatten().filter(|f| f.kind == ArgKind::State);
        let word = fields.find_map(|f| f.words.as_deref()).and_then(|e| e.word(code)).map(str::to_owned);
        Some(word.unwrap_or_else(|| format!("state {code}")))
    }

    /// The thread at an address; it is added where it is new.
    #[inline]
    fn thread_at(&mut self, address: Addr) -> ThreadNo {
        let no = ThreadNo(self.thread_numbers.intern(address));
        if no.index() >= self.threads.len() {
            self.add_thread(address);
        }
        no
    }

    #[cold]
    fn add_thread(&mut self, address: Addr) {
        self.threads.push(Thread {
            address,
            context: self.trace.contexts.find(ContextKind::Thread, address),
            priority: self.trace.objects.at(address).and_then(|o| o.priority),
            state: ThreadState::Unknown,
            since: 0,
            behind: None,
            is_listed: false,
        });
    }

    /// Puts a thread into a state, since these ticks and with this event.
    fn set_state(&mut self, no: ThreadNo, state: ThreadState, since: i64, since_seq: Option<u64>) {
        let Some(thread) = self.threads.get_mut(no.index()) else { return };
        let behind = since_seq.and_then(|seq| NonZeroU64::new(seq.wrapping_add(1)));
        (thread.state, thread.since, thread.behind) = (state, since, behind);
        if !std::mem::replace(&mut thread.is_listed, true) {
            self.known_threads.push(no);
        }
    }

    /// Forgets what may have changed while events were missing. Only what was learned since the last gap is looked at:
    /// a damaged trace may have many of both.
    fn forget(&mut self) {
        for core in &mut self.cores {
            *core = Core { last: core.last, ..Core::new() };
        }
        for no in self.known_threads.drain(..) {
            if let Some(thread) = self.threads.get_mut(no.index()) {
                (thread.state, thread.behind, thread.is_listed) = (ThreadState::Unknown, None, false);
            }
            // Who made a call ran, so its state was known.
            if let Some(calls) = self.calls.get_mut(no.index()) {
                *calls = Calls::default();
            }
        }
        for lock in self.known_locks.drain(..) {
            if let Some(lock) = self.locks.get_mut(lock.index()) {
                *lock = Lock::default();
            }
        }
        self.quiet = None;
        // The event that announces the next interrupt may be missing.
        self.announced.behind_first = false;
    }

    /// The object at an address; it is added where it is new and there is room.
    #[inline]
    fn object_at(&mut self, address: Addr) -> Option<ObjectNo> {
        if self.objects.words().len() >= MAX_OBJECTS {
            return self.find_object(address);
        }
        Some(ObjectNo(self.objects.intern(address)))
    }

    /// The lock of a number; `None` for one that no thread asked for.
    fn lock_mut(&mut self, lock: ObjectNo) -> Option<&mut Lock> {
        self.locks.get_mut(lock.index()).filter(|l| l.is_known)
    }

    /// Who inserts the events of a context.
    #[inline]
    fn who(&mut self, id: ContextId) -> Who {
        match usize::try_from(id.0).ok().and_then(|c| self.by_context.get(c)) {
            Some(Some(who)) => *who,
            _ => self.look_up(id),
        }
    }

    #[cold]
    fn look_up(&mut self, id: ContextId) -> Who {
        let Some(context) = self.trace.contexts.get(id) else { return Who::Unknown };
        let who = match context.kind {
            ContextKind::Thread => Who::Thread(self.thread_at(context.address)),
            ContextKind::Isr => Who::Isr,
            ContextKind::Init => Who::Init,
            ContextKind::Idle => Who::Idle,
            ContextKind::Unknown => Who::Unknown,
        };
        if let Some(place) = usize::try_from(id.0).ok().and_then(|c| self.by_context.get_mut(c)) {
            *place = Some(who);
        }
        who
    }

    /// Who inserted an event, and who is below: the same, or in an interrupt the one that it interrupted.
    #[inline]
    fn origin(&mut self, event: &Event) -> (Who, Option<Who>) {
        match self.who(event.context) {
            Who::Isr => {
                let below = event.interrupted.map(|i| self.who(i));
                (Who::Isr, below.filter(|b| matches!(b, Who::Thread(_) | Who::Idle)))
            }
            Who::Unknown => (Who::Unknown, None),
            who => (who, Some(who)),
        }
    }

    /// True where only the next event shows what this one does: a thread gives its core away, and may go on for a while.
    fn must_wait(&mut self, event: &Event, role: &Role) -> bool {
        let Who::Thread(own) = self.who(event.context) else { return false };
        match role.target(role.run, self.trace.words(event)) {
            Some(0) => role.block,
            Some(next) => self.thread(own).is_some_and(|own| own.address != next),
            None => false,
        }
    }

    /// Takes one event and hands it on with what it brings.
    #[inline]
    fn take(
        &mut self,
        event: &Event,
        role: Option<&Role>,
        next: Option<&Event>,
        found: &mut Found,
        to: &mut impl Consumer,
    ) {
        found.spans.clear();
        found.changes.clear();
        if !self.is_quiet(event, role, found) {
            self.step(event, role, next, found);
        }
        to.step(&Step { event, spans: &found.spans, changes: &found.changes }, self);
    }

    /// True where an event is of the thread that has its core and did the last event there, and moves nothing: all that
    /// it shows is that this thread went on. About half of all events do.
    #[inline]
    fn is_quiet(&mut self, event: &Event, role: Option<&Role>, found: &mut Found) -> bool {
        if role.is_some_and(|r| r.moves) {
            return false;
        }
        if self.quiet != Some((event.core, event.context, event.priority)) {
            return false;
        }
        let Some(core) = self.cores.get_mut(usize::from(event.core)) else { return false };
        if let Some(from) = core.last.replace(event.ticks) {
            core.span(event, core.running, from, event.ticks, found);
        }
        core.seen = event.ticks;
        let running = core.running;
        if found.wants.calls {
            let words = if role.is_some() { self.trace.words(event) } else { &[] };
            self.calls(event, role, words, running);
            self.locks(role, words, running, found);
        }
        true
    }

    /// Takes one event and adds to `found` who had the core up to it and what it changes.
    fn step(&mut self, event: &Event, role: Option<&Role>, next: Option<&Event>, found: &mut Found) {
        self.add_core(event.core);
        let (by, below) = self.origin(event);
        self.quiet = None;
        let bare = if self.is_as_known(event, below) {
            self.go_on(event, role, by, below, found)
        } else {
            self.arrive(event, role, by, below, found)
        };
        self.announced.bare |= bare && self.announced.behind_first;
        self.announced.behind_first |= !bare;
        let trace = self.trace;
        let words = if role.is_some() { trace.words(event) } else { &[] };
        if found.wants.calls {
            self.calls(event, role, words, by);
        }
        match role.filter(|r| r.moves) {
            Some(role) => self.act(event, role, words, by, next, found),
            None => {
                if found.wants.calls {
                    self.locks(role, words, by, found);
                }
                self.expect_quiet(event, by);
            }
        }
    }

    /// What an event does to threads, interrupts and objects.
    fn act(&mut self, event: &Event, role: &Role, words: &[u64], by: Who, next: Option<&Event>, found: &mut Found) {
        if role.isr_enter {
            self.enters(event, role, words, found);
        } else if role.isr_exit {
            self.exits(event, role, words, found);
        }
        if role.ready {
            self.ready(event, role, words, by, found);
        }
        if role.block {
            self.block(event, role, words, by, found);
        }
        if role.end {
            self.end(event, role, words, found);
        }
        if found.wants.calls {
            self.locks(Some(role), words, by, found);
        }
        if role.run.is_some() {
            let goes_on =
                next.is_some_and(|next| matches!(by, Who::Thread(_)) && self.is_still_there(event, role, next));
            self.runs(event, role, words, (by, goes_on), found);
        } else {
            self.gives_up(event, role, words, by);
        }
    }

    /// Sets the priority of a thread, where an event has one.
    #[inline]
    fn set_priority(&mut self, no: ThreadNo, priority: Option<u16>, found: &mut Found) {
        if let Some(thread) = self.threads.get_mut(no.index())
            && priority.is_some()
            && thread.priority != priority
        {
            thread.priority = priority;
            found.change(Change::Priority { thread: no });
        }
    }
}
