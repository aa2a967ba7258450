//! The one tracker: who runs on each core, the state of each thread, the owner of each lock, interrupt depth, and what
//! of all this is unknown. It asks definitions for their effects, never for ids.

use super::addresses::ByAddress;
use super::change::{Call, Change, Frame, Lock, Span, State, Thread, ThreadNo, Told, Who};
use super::roles::{Role, Roles};
use crate::abi::Addr;
use crate::catalogue::{Catalogue, Effect};
use crate::trace::{ContextId, ContextKind, DefId, Event, Number, Trace};

mod waits;

/// One core.
#[derive(Debug, Clone)]
struct Core {
    /// Who has it below interrupts.
    running: Who,
    /// Who has it once interrupts, or initialization, are over.
    pending: Option<Who>,
    /// Ticks at which the interrupt ended that left somebody pending.
    ended: Option<i64>,
    /// True where whoever runs goes on although somebody is pending: preemption is disabled. Until when, no event tells.
    held: bool,
    frames: Vec<Frame>,
    /// Ticks of its last event; `None` before the first.
    last: Option<i64>,
    /// True where its last event was an interrupt's that never said it began.
    bare_isr: bool,
    /// Ticks at which whoever runs was last seen to.
    seen: i64,
    /// True where its last event gave the core up and did not tell to whom.
    gave_up: bool,
    /// The last call from the interrupt that is open.
    isr_call: Option<Call>,
}

impl Core {
    const fn new() -> Self {
        Self {
            running: Who::Unknown,
            pending: None,
            ended: None,
            held: false,
            frames: Vec::new(),
            last: None,
            bare_isr: false,
            seen: i64::MIN,
            gave_up: false,
            isr_call: None,
        }
    }
}

/// Follows a trace event by event.
pub struct Tracker<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What its ids mean.
    pub catalogue: &'a Catalogue,
    threads: Vec<Thread>,
    by_address: ByAddress<ThreadNo>,
    by_context: Vec<Option<ThreadNo>>,
    cores: Vec<Core>,
    spare: Core,
    locks: ByAddress<Lock>,
    roles: Roles,
    /// True where calls that may wait say for how long.
    tell_patience: bool,
}

impl<'a> Tracker<'a> {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(trace: &'a Trace, catalogue: &'a Catalogue) -> Self {
        let roles = Roles::of(catalogue);
        Self {
            trace,
            catalogue,
            threads: Vec::new(),
            by_address: ByAddress::default(),
            by_context: vec![None; trace.contexts.len()],
            cores: Vec::new(),
            spare: Core::new(),
            locks: ByAddress::default(),
            tell_patience: roles.tell_patience(),
            roles,
        }
    }

    /// What an event is for, whatever its id.
    #[must_use]
    pub fn role(&self, event: &Event) -> Option<&Role> {
        self.roles.get(event.def?)
    }

    /// What a call is for.
    #[must_use]
    pub fn role_of(&self, def: DefId) -> Option<&Role> {
        self.roles.get(def)
    }

    /// A thread.
    #[must_use]
    pub fn thread(&self, no: ThreadNo) -> Option<&Thread> {
        self.threads.get(no.index())
    }

    /// All threads that events have named so far.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadNo, &Thread)> {
        self.threads.iter().enumerate().map(|(i, t)| (ThreadNo(u32::try_from(i).unwrap_or(u32::MAX)), t))
    }

    /// True where some call tells how long its caller is ready to wait.
    #[must_use]
    pub const fn tells_patience(&self) -> bool {
        self.tell_patience
    }

    /// A lock that events have named.
    #[must_use]
    pub fn lock(&self, address: Addr) -> Option<&Lock> {
        self.locks.get(&address)
    }

    /// Number of cores that have events.
    #[must_use]
    pub fn cores(&self) -> u16 {
        u16::try_from(self.cores.len()).unwrap_or(u16::MAX)
    }

    /// The interrupts that are open on a core, the innermost last.
    #[must_use]
    pub fn frames(&self, core: u16) -> &[Frame] {
        self.cores.get(usize::from(core)).map_or(&[], |c| &c.frames)
    }

    /// The number of the interrupt that an event is in: the processor's where the processor was asked, else `own`, which
    /// the event told that began it (that of its end may be another).
    #[must_use]
    pub fn interrupt_number(&self, event: &Event, own: Option<u64>) -> Option<u64> {
        let asked = self.trace.interrupts.iter().any(|m| matches!(m.number, Number::Processor(_)));
        if asked { event.isr.map(u64::from) } else { own }
    }

    /// Who has a core below its interrupts.
    #[must_use]
    pub fn running(&self, core: u16) -> Who {
        self.cores.get(usize::from(core)).map_or(Who::Unknown, |c| c.running)
    }

    /// The same, where an interrupt that has ended already gave the core away: the switch is taken at the next event, as
    /// another interrupt may follow at once.
    #[must_use]
    pub fn holder(&self, core: u16) -> Who {
        let Some(core) = self.cores.get(usize::from(core)) else { return Who::Unknown };
        core.pending.filter(|_| core.frames.is_empty() && core.ended.is_some()).unwrap_or(core.running)
    }

    /// The name of a thread, where one is known. Hostile: escape before printing.
    #[must_use]
    pub fn name(&self, no: ThreadNo) -> Option<&str> {
        let thread = self.thread(no)?;
        let own = thread.context.and_then(|c| self.trace.contexts.get(c)).and_then(|c| c.name.as_deref());
        own.or_else(|| self.trace.objects.at(thread.address).filter(|o| o.is_thread).map(|o| o.name.as_str()))
            .filter(|n| !n.is_empty())
    }

    /// The thread at an address; it is added where it is new.
    fn thread_at(&mut self, address: Addr) -> ThreadNo {
        if let Some(no) = self.by_address.get(&address) {
            return *no;
        }
        let no = ThreadNo(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        let context = self.trace.contexts.find(ContextKind::Thread, address);
        self.threads.push(Thread {
            address,
            context,
            priority: self.trace.objects.at(address).and_then(|o| o.priority),
            state: State::Unknown,
            since: 0,
            since_seq: None,
            last_call: None,
            blocked_in: None,
        });
        self.by_address.insert(address, no);
        no
    }

    /// The thread that a context is.
    #[inline]
    fn thread_of(&mut self, id: ContextId) -> Option<ThreadNo> {
        let index = usize::try_from(id.0).ok()?;
        if let Some(Some(no)) = self.by_context.get(index) {
            return Some(*no);
        }
        let context = self.trace.contexts.get(id)?;
        if context.kind != ContextKind::Thread {
            return None;
        }
        let no = self.thread_at(context.address);
        if let Some(place) = self.by_context.get_mut(index) {
            *place = Some(no);
        }
        Some(no)
    }

    #[inline]
    fn core(&mut self, core: u16) -> &mut Core {
        let index = usize::from(core);
        if index >= self.cores.len() {
            self.add_cores(index);
        }
        // Just made long enough; the spare core is never used.
        self.cores.get_mut(index).unwrap_or(&mut self.spare)
    }

    #[cold]
    fn add_cores(&mut self, last: usize) {
        self.cores.resize(last.saturating_add(1), Core::new());
    }

    /// Who an event says is at work on its core: itself, and who is below where it is an interrupt.
    #[inline]
    fn told(&mut self, event: &Event) -> (ContextKind, Option<Who>) {
        // Nearly always it is a thread that was met before.
        if let Some(Some(no)) = usize::try_from(event.context.0).ok().and_then(|c| self.by_context.get(c)) {
            return (ContextKind::Thread, Some(Who::Thread(*no)));
        }
        let Some(context) = self.trace.contexts.get(event.context) else { return (ContextKind::Unknown, None) };
        match context.kind {
            ContextKind::Thread => (ContextKind::Thread, self.thread_of(event.context).map(Who::Thread)),
            ContextKind::Isr => {
                let below = event.interrupted.and_then(|i| match self.trace.contexts.get(i)?.kind {
                    ContextKind::Thread => self.thread_of(i).map(Who::Thread),
                    ContextKind::Idle => Some(Who::Idle),
                    _ => None,
                });
                (ContextKind::Isr, below)
            }
            ContextKind::Init => (ContextKind::Init, Some(Who::Init)),
            ContextKind::Idle => (ContextKind::Idle, Some(Who::Idle)),
            ContextKind::Unknown => (ContextKind::Unknown, None),
        }
    }

    /// Takes one event, and tells in `told` who had the core up to it and what it changes. `next` is the event after it:
    /// it shows whether a thread that gave its core to another goes on for a while.
    pub fn step(&mut self, event: &Event, next: Option<&Event>, told: &mut Told) {
        told.clear();
        let (kind, below) = self.told(event);
        let role = event.def.and_then(|d| self.roles.held(d));
        let role = role.as_deref();
        if !self.goes_on(event, kind, below, told) {
            self.arrive(event, role, kind, below, told);
        }
        let trace = self.trace;
        let words = trace.words(event);
        self.calls(event, role, words, kind, below);
        let Some((def, role)) = event.def.zip(role.filter(|r| r.acts)) else { return };
        let by = match kind {
            ContextKind::Thread => below.unwrap_or(Who::Unknown),
            ContextKind::Isr => Who::Isr,
            ContextKind::Init => Who::Init,
            _ => Who::Unknown,
        };
        self.interrupts(event, role, words, told);
        self.states(event, def, role, words, by, told);
        self.locks(role, words, by, told);
        let goes_on = next.is_some_and(|next| kind == ContextKind::Thread && self.is_still_there(event, role, next));
        self.runs(event, def, role, words, (kind, goes_on), told);
    }

    /// True where the event after one of a thread finds that thread still at work: it is its own, or of an interrupt that
    /// found it. A thread that stopped being ready is so only where it makes itself ready again, as when the kernel
    /// changes its priority.
    fn is_still_there(&self, event: &Event, role: &Role, next: &Event) -> bool {
        if !role.run || next.core != event.core || event.seq.checked_add(1) != Some(next.seq) {
            return false;
        }
        if next.context != event.context {
            return next.interrupted == Some(event.context);
        }
        let Some(def) = next.def.filter(|_| role.decides) else { return false };
        let own = self.trace.contexts.get(event.context).map(|c| c.address);
        let again = || self.catalogue[def].effects.target(Effect::Ready, self.trace.words(next)) == own;
        !role.block || (self.roles.get(def).is_some_and(|r| r.ready) && again())
    }

    /// What [`Tracker::arrive`] does where the thread that had the core goes on, as it does most of the time; false where
    /// it may be otherwise, and nothing was done.
    #[inline]
    fn goes_on(&mut self, event: &Event, kind: ContextKind, below: Option<Who>, told: &mut Told) -> bool {
        let (ContextKind::Thread, Some(who @ Who::Thread(no))) = (kind, below) else { return false };
        let core = self.core(event.core);
        if core.running != who || core.pending.is_some() || !core.frames.is_empty() {
            return false;
        }
        let last = core.last.replace(event.ticks);
        (core.bare_isr, core.gave_up, core.ended, core.isr_call) = (false, false, None, None);
        core.seen = event.ticks;
        if let Some(from) = last.filter(|from| *from <= event.ticks) {
            told.spans.push(Span { core: event.core, who, from, to: event.ticks, seq: event.seq });
        }
        if let Some(thread) = self.threads.get_mut(no.index()) {
            thread.priority = event.priority.or(thread.priority);
            if thread.state != State::Running {
                (thread.state, thread.since, thread.since_seq) = (State::Running, event.ticks, None);
            }
        }
        true
    }

    /// The time up to an event, and what its context tells of the core.
    fn arrive(&mut self, event: &Event, role: Option<&Role>, kind: ContextKind, below: Option<Who>, told: &mut Told) {
        let begins = kind == ContextKind::Thread && below.is_some_and(|below| self.tells_itself(event, below));
        let core = self.core(event.core);
        let last = core.last.replace(event.ticks);
        let is_isr = kind == ContextKind::Isr;
        // The event finds whoever had the core before still there: what is pending is still to be done.
        let stays = below == Some(core.running) && !begins;
        let predicted = match (core.frames.is_empty(), core.pending) {
            (false, _) => Who::Isr,
            // Without an event of its end the interrupt may go on, or the thread below ran in between.
            (true, _) if is_isr && stays && core.bare_isr => Who::Unknown,
            // The interrupt before left a switch to do. The thread below did not go on, unless preemption was disabled.
            (true, Some(_)) if is_isr && stays && core.ended.is_some() && !core.held => Who::Unknown,
            // Threads are made ready, and none runs before initialization is over.
            (true, Some(_)) if stays || kind == ContextKind::Init => core.running,
            // Preemption was enabled again, and no event tells when.
            (true, Some(_)) if core.held => Who::Unknown,
            (true, pending) => pending.unwrap_or(core.running),
        };
        let leaves = !is_isr;
        if leaves {
            core.frames.clear();
            core.isr_call = None;
        }
        let goes_on = stays || kind == ContextKind::Init;
        let ended = core.ended.take();
        if !goes_on
            && core.frames.is_empty()
            && let Some(next) = core.pending.take()
        {
            let at = if std::mem::take(&mut core.held) { None } else { ended.or(Some(event.ticks)) };
            self.switch(event, at, next, told);
        }
        let core = self.core(event.core);
        let (running, gave_up) = (core.running, std::mem::take(&mut core.gave_up));
        // Up to then whoever runs below interrupts was seen to.
        let seen = core.seen;
        if kind == ContextKind::Thread {
            core.seen = event.ticks;
        }
        let core = self.core(event.core);
        // What the event's own context says is certain.
        let agrees = below.is_none_or(|b| b == running);
        core.bare_isr = is_isr && core.frames.is_empty();
        let mut spans = |who, from: i64, to: i64| {
            if from <= to {
                told.spans.push(Span { core: event.core, who, from, to, seq: event.seq });
            }
        };
        match (last, below.filter(|_| !agrees)) {
            (Some(from), Some(below)) if predicted != Who::Isr => {
                // It was made ready since the one before was last seen, by an interrupt, by another core or by an event
                // that did not tell who runs next: it had the core from then on. Or the one before gave its core up, to whom it did not tell.
                let since = match below {
                    _ if gave_up => Some(from),
                    Who::Thread(no) => {
                        self.ready_since(no).filter(|at| (seen..=event.ticks).contains(at)).map(|at| at.max(from))
                    }
                    _ => None,
                };
                // The thread begins to run at this event, not before.
                match since {
                    _ if begins => spans(predicted, from, event.ticks),
                    Some(at) => {
                        spans(predicted, from, at);
                        spans(below, at, event.ticks);
                    }
                    None => spans(Who::Unknown, from, event.ticks),
                }
            }
            (Some(from), _) => {
                spans(if predicted == Who::Isr || agrees { predicted } else { Who::Unknown }, from, event.ticks)
            }
            (None, _) => {}
        }
        if let Some(below) = below.filter(|_| !agrees) {
            self.surprise(event, below, told);
        }
        // A thread that has blocked and tells itself to whom its core goes: it does not run on.
        let hands_over = running == Who::Unknown && role.is_some_and(|r| r.run && !r.ready && !r.block);
        if let Some(Who::Thread(no)) = below
            && let Some(thread) = self.threads.get_mut(no.index())
        {
            let runs_on = match (kind, thread.state) {
                (ContextKind::Thread, State::Running) => false,
                (ContextKind::Thread, State::Blocked(_)) => !hands_over,
                (ContextKind::Thread, _) => true,
                // What an interrupt says of the thread below it is as certain, where nothing else is known.
                (_, state) => state == State::Unknown,
            };
            if kind == ContextKind::Thread {
                thread.priority = event.priority.or(thread.priority);
            }
            if runs_on {
                (thread.state, thread.since, thread.since_seq) = (State::Running, event.ticks, None);
            }
        }
        if is_isr && self.core(event.core).frames.is_empty() && !role.is_some_and(|r| r.isr_enter) {
            told.change(Change::Unannounced);
        }
    }

    /// Ticks since which a thread is ready, where an event told so.
    fn ready_since(&self, no: ThreadNo) -> Option<i64> {
        let thread = self.thread(no)?;
        (thread.state == State::Ready && thread.since_seq.is_some()).then_some(thread.since)
    }

    /// The core is found with somebody else than the events so far told.
    fn surprise(&mut self, event: &Event, below: Who, told: &mut Told) {
        let at = self.tells_itself(event, below).then_some(event.ticks);
        // A thread that was made ready before the eyes of the trace has been given the core since.
        let given = matches!(below, Who::Thread(no) if self.ready_since(no).is_some());
        let core = self.core(event.core);
        (core.pending, core.held) = (None, false);
        if core.running == Who::Unknown && !given {
            core.running = below;
            if let (Who::Thread(no), Some(_)) = (below, at) {
                self.dispatched(event, at, no, told);
            }
            return;
        }
        self.switch(event, at, below, told);
    }

    /// True where the event says of its own context that it begins to run. Who decides who runs next runs already, also
    /// where it names itself.
    fn tells_itself(&self, event: &Event, own: Who) -> bool {
        let (Some(def), Who::Thread(no)) = (event.def, own) else { return false };
        if !self.roles.get(def).is_some_and(|r| r.runs && !r.decides) {
            return false;
        }
        let effects = &self.catalogue[def].effects;
        let target = effects.target(Effect::Run, self.trace.words(event));
        effects.has(Effect::Run) && target.is_none_or(|t| self.thread(no).is_some_and(|own| own.address == t))
    }

    fn interrupts(&mut self, event: &Event, role: &Role, words: &[u64], told: &mut Told) {
        if role.isr_enter {
            let number = role.isr_number.and_then(|w| words.get(w)).copied();
            let core = self.core(event.core);
            let depth = core.frames.len();
            if depth < 256 {
                core.frames.push(Frame { number, since: event.ticks, seq: event.seq });
            }
            core.bare_isr = false;
            core.isr_call = None;
            told.change(Change::Entered { number, depth });
        } else if role.isr_exit {
            let core = self.core(event.core);
            let frame = core.frames.pop();
            core.bare_isr = false;
            core.isr_call = None;
            if let Some(frame) = frame {
                told.change(Change::Exited { frame });
            }
            // Who runs now is seen at the next event: it may be of an interrupt that followed at once.
            let core = self.core(event.core);
            core.ended = Some(event.ticks);
            core.held = role.preempt_disable.and_then(|w| words.get(w)).is_some_and(|n| *n > 0);
        }
    }

    fn runs(
        &mut self,
        event: &Event,
        def: DefId,
        role: &Role,
        words: &[u64],
        (kind, goes_on): (ContextKind, bool),
        told: &mut Told,
    ) {
        if role.yields && !role.run && kind == ContextKind::Thread {
            self.core(event.core).gave_up = true;
        }
        if !role.run {
            // A thread that blocks and names no successor leaves its core to somebody unknown.
            if role.block && !role.run_named {
                let blocked = self.catalogue[def].effects.target(Effect::Block, words).map(|a| self.thread_at(a));
                let core = self.core(event.core);
                if blocked.is_some_and(|no| core.running == Who::Thread(no)) {
                    core.running = Who::Unknown;
                }
            }
            return;
        }
        let Some(target) = self.catalogue[def].effects.target(Effect::Run, words) else { return };
        let next = match target {
            // Filled in late, and not yet: after a resumption or a relinquishment somebody runs.
            0 if !role.block => {
                self.core(event.core).gave_up = !role.ready;
                return;
            }
            0 => Who::Idle,
            address => Who::Thread(self.thread_at(address)),
        };
        let core = self.core(event.core);
        if next == core.running {
            // It keeps the core for now, whoever became ready.
            core.seen = event.ticks.saturating_add(1);
        }
        let sliced = role.is_slice;
        let in_isr = matches!(kind, ContextKind::Isr | ContextKind::Init) || !self.core(event.core).frames.is_empty();
        if sliced {
            let from = self.core(event.core).running;
            told.change(Change::Sliced { from, to: next });
        }
        if in_isr {
            // Who runs already goes on behind the interrupt: there is nothing to switch.
            let core = self.core(event.core);
            core.pending = Some(next).filter(|next| *next != core.running);
        } else if goes_on {
            let core = self.core(event.core);
            core.pending = Some(next).filter(|next| *next != core.running);
            core.held = core.pending.is_some();
        } else {
            let core = self.core(event.core);
            (core.pending, core.held) = (None, false);
            self.switch(event, Some(event.ticks), next, told);
        }
    }

    /// The core goes to somebody, at these ticks where they are known.
    fn switch(&mut self, event: &Event, at: Option<i64>, next: Who, told: &mut Told) {
        let since = at.unwrap_or(event.ticks);
        let core = self.core(event.core);
        let before = std::mem::replace(&mut core.running, next);
        if before == next {
            return;
        }
        let mut preempted = None;
        if let Who::Thread(no) = before
            && let Some(thread) = self.threads.get_mut(no.index())
            && thread.state == State::Running
        {
            (thread.state, thread.since, thread.since_seq) = (State::Ready, since, Some(event.seq));
            preempted = Some(no);
        }
        told.change(Change::Switch { from: before, to: next });
        let Who::Thread(no) = next else { return };
        if let Some(thread) = preempted {
            told.change(Change::Preempted { thread, by: no });
        }
        self.dispatched(event, at, no, told);
    }

    fn dispatched(&mut self, event: &Event, at: Option<i64>, no: ThreadNo, told: &mut Told) {
        let since = at.unwrap_or(event.ticks);
        let mut ready = None;
        if let Some(thread) = self.threads.get_mut(no.index()) {
            if thread.state == State::Ready {
                ready = thread.since_seq.map(|seq| (thread.since, seq));
            }
            (thread.state, thread.since, thread.since_seq) = (State::Running, since, Some(event.seq));
        }
        told.change(Change::Dispatched { thread: no, ready, at });
    }
}
