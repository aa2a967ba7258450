//! What the tracker knows of waits: the calls that threads block in, and who has the locks that they wait for.

use super::Tracker;
use crate::abi::Addr;
use crate::analysis::change::{Call, Change, Patience, State, ThreadNo, Told, Wait, Who};
use crate::analysis::roles::Role;
use crate::catalogue::{ArgKind, Effect, Product};
use crate::trace::{ContextKind, DefId, Event};

/// The most locks that are followed: a damaged trace may name any number.
const MOST_LOCKS: usize = 1 << 16;

impl Tracker<'_> {
    /// Remembers the call that an event tells of. A mark of the application, or an event that nobody knows, is none: who
    /// inserts it is back from the call before.
    pub(super) fn calls(
        &mut self,
        event: &Event,
        role: Option<&Role>,
        words: &[u64],
        kind: ContextKind,
        below: Option<Who>,
    ) {
        if role.is_some_and(|r| r.is_scheduling) {
            return;
        }
        let word = |at: Option<usize>| at.and_then(|w| words.get(w)).copied();
        let call = role.filter(|r| !r.is_mark).zip(event.def).map(|(role, def)| Call {
            seq: event.seq,
            ticks: event.ticks,
            def,
            object: word(role.object),
            patience: word(role.wait).map(|wait| match wait {
                0 => Patience::None,
                _ if Some(wait) == role.forever => Patience::Forever,
                _ => Patience::Bounded,
            }),
        });
        match (kind, below) {
            (ContextKind::Isr, _) => self.core(event.core).isr_call = call,
            (ContextKind::Thread, Some(Who::Thread(no))) => {
                if let Some(thread) = self.threads.get_mut(no.index()) {
                    thread.last_call = call;
                }
            }
            _ => {}
        }
    }

    /// True where a call is not the kernel's own: it may wait more than once.
    fn is_above_kernel(&self, call: &Call) -> bool {
        matches!(self.catalogue[call.def].product, Product::Fx | Product::Nx | Product::Ux)
    }

    /// True where a thread that blocks after this call can do so because of it.
    fn can_block(&self, call: &Call) -> bool {
        match call.patience {
            Some(patience) => patience != Patience::None,
            // Who gives a lock back does not wait for it.
            None if !self.tell_patience => self.roles.get(call.def).is_none_or(|r| r.release.is_none()),
            // Of a kernel's own calls that do not say, those wait that ask for something, or that tell a thread's state:
            // they sleep, or suspend their caller. What stands above a kernel may wait inside of any call.
            None => {
                self.is_above_kernel(call)
                    || self
                        .roles
                        .get(call.def)
                        .is_some_and(|r| r.state.is_some() || r.get.is_some() || r.acquire.is_some())
            }
        }
    }

    /// Threads that become ready, block or end.
    pub(super) fn states(&mut self, event: &Event, def: DefId, role: &Role, words: &[u64], by: Who, told: &mut Told) {
        if !(role.ready || role.block || role.end) {
            return;
        }
        let effects = &self.catalogue[def].effects;
        let ready = if role.ready { effects.target(Effect::Ready, words) } else { None };
        let block = if role.block { effects.target(Effect::Block, words) } else { None };
        if let Some(address) = ready.filter(|a| *a != 0) {
            let no = self.thread_at(address);
            let was = role.state.and_then(|w| words.get(w)).copied();
            let interrupt = self.frames(event.core).last().and_then(|f| f.number);
            let call = match by {
                Who::Thread(waker) => self.thread(waker).and_then(|t| t.last_call),
                Who::Isr => self.core(event.core).isr_call,
                _ => None,
            };
            let mut waited = None;
            // A call of the kernel waits once: what its caller waits for next is something else.
            let over = self.thread(no).and_then(|t| t.blocked_in).filter(|c| !self.is_above_kernel(c)).map(|c| c.seq);
            let priority = role.priority.and_then(|w| words.get(w)).and_then(|p| u16::try_from(*p).ok());
            // One that has a core goes on: it was given what it asked for before it blocked.
            let runs = self.cores.iter().any(|c| c.running == Who::Thread(no));
            if let Some(thread) = self.threads.get_mut(no.index()) {
                thread.priority = priority.or(thread.priority);
                if let (State::Blocked(code), Some(seq)) = (thread.state, thread.since_seq) {
                    waited = Some(Wait { call: thread.blocked_in.take(), from: thread.since, seq, code });
                    thread.last_call = thread.last_call.filter(|c| Some(c.seq) != over);
                }
                let known = match thread.state {
                    State::Running => runs || thread.since_seq.is_some(),
                    State::Ready => thread.since_seq.is_some(),
                    _ => false,
                };
                if !known {
                    (thread.state, thread.since, thread.since_seq) = (State::Ready, event.ticks, Some(event.seq));
                }
            }
            told.change(Change::Readied { thread: no, by, interrupt, waited, was, call });
            if let Some(lock) = self.lock_of(waited.and_then(|w| w.call)) {
                self.handed(lock, no, told);
            } else if let (None, Some(lock)) = (waited, self.given_back(call, no)) {
                // It waited since before the first event.
                self.handed(lock, no, told);
            }
        }
        if let Some(address) = block.filter(|a| *a != 0) {
            let no = self.thread_at(address);
            let code = role.state.and_then(|w| words.get(w)).copied();
            let own = by == Who::Thread(no);
            let mut call = None;
            if let Some(thread) = self.threads.get_mut(no.index()) {
                call = thread.last_call.filter(|_| own);
            }
            call = call.filter(|c| self.can_block(c));
            if let Some(thread) = self.threads.get_mut(no.index()) {
                (thread.state, thread.since, thread.since_seq) = (State::Blocked(code), event.ticks, Some(event.seq));
                thread.blocked_in = call;
            }
            if let Some(state) = self.lock_of(call).and_then(|lock| self.locks.get_mut(&lock)) {
                if !state.waiters.contains(&no) {
                    state.waiters.push(no);
                }
                // Nobody waits for what he has: somebody took it before the first event that tells.
                state.owner = state.owner.filter(|o| *o != no);
            }
            told.change(Change::Blocked { thread: no, by, code, call });
            if code.is_some_and(|c| role.ended.contains(&c)) {
                self.ends(no, event, told);
            }
        }
        if role.end
            && let Some(address) = effects.target(Effect::End, words).filter(|a| *a != 0)
        {
            let no = self.thread_at(address);
            // One that could run is also told to stop being ready, once it does.
            if self.thread(no).is_some_and(|t| matches!(t.state, State::Blocked(_) | State::Unknown)) {
                self.ends(no, event, told);
            }
        }
    }

    fn ends(&mut self, no: ThreadNo, event: &Event, told: &mut Told) {
        let Some(thread) = self.threads.get_mut(no.index()) else { return };
        let mut waited = None;
        if let (State::Blocked(code), Some(seq)) = (thread.state, thread.since_seq.filter(|seq| *seq != event.seq)) {
            waited = Some(Wait { call: thread.blocked_in, from: thread.since, seq, code });
        }
        thread.blocked_in = None;
        (thread.state, thread.since, thread.since_seq) = (State::Ended, event.ticks, Some(event.seq));
        if let Some(lock) = self.lock_of(waited.and_then(|w| w.call)).and_then(|lock| self.locks.get_mut(&lock)) {
            lock.waiters.retain(|w| *w != no);
        }
        told.change(Change::Ended { thread: no, waited });
    }

    /// The lock that a call asks for.
    #[must_use]
    pub fn lock_of(&self, call: Option<Call>) -> Option<Addr> {
        let call = call?;
        call.object.filter(|_| self.roles.get(call.def).is_some_and(|r| r.acquire.is_some()))
    }

    /// The free lock that a thread other than this has just given back, where its event tells owners.
    fn given_back(&self, call: Option<Call>, thread: ThreadNo) -> Option<Addr> {
        let call = call?;
        self.roles.get(call.def).filter(|r| r.release.is_some() && r.owner.is_some())?;
        let last = |no| self.thread(no).and_then(|t| t.last_call).is_some_and(|own| own.seq == call.seq);
        let lock = call.object.filter(|_| !last(thread))?;
        self.locks.get(&lock).filter(|state| state.owner.is_none()).map(|_| lock)
    }

    /// A thread that waited for a lock goes on: it has it now, unless it gave up.
    fn handed(&mut self, lock: Addr, thread: ThreadNo, told: &mut Told) {
        let Some(state) = self.locks.get_mut(&lock) else { return };
        state.waiters.retain(|w| *w != thread);
        // The owner still has it: the wait was given up, by its time or by somebody.
        if state.owner.is_none() {
            state.owner = Some(thread);
            self.forget_quiet(lock);
            told.change(Change::Acquired { lock, thread });
        } else {
            self.forget_quiet(lock);
        }
    }

    /// Where nobody waits for a lock any more, some systems give it back, and to others, without an event.
    fn forget_quiet(&mut self, lock: Addr) {
        let quiet = self.catalogue.ways().quiet_locks;
        if let Some(state) = self.locks.get_mut(&lock).filter(|s| quiet && s.waiters.is_empty()) {
            state.owner = None;
        }
    }

    /// Locks that are asked for, given back and deleted.
    pub(super) fn locks(&mut self, role: &Role, words: &[u64], by: Who, told: &mut Told) {
        let word = |at: Option<usize>| at.and_then(|w| words.get(w)).copied();
        if let Some(object) = word(role.delete) {
            self.locks.remove(&object);
            told.change(Change::Deleted { object });
        }
        let Who::Thread(no) = by else { return };
        if let Some(lock) = word(role.acquire) {
            let owner = word(role.owner).filter(|o| *o != 0).map(|o| self.thread_at(o));
            if self.locks.len() >= MOST_LOCKS && !self.locks.contains_key(&lock) {
                return;
            }
            let state = self.locks.entry(lock).or_default();
            if role.owner.is_some() {
                state.owner = owner;
            }
            match state.owner {
                Some(owner) if owner != no => {
                    told.change(Change::Contended { lock, waiter: no, owner });
                }
                Some(_) => {}
                // It asks because somebody has it, or so it was when it looked.
                None if self.catalogue.ways().quiet_locks => {}
                None => {
                    state.owner = Some(no);
                    told.change(Change::Acquired { lock, thread: no });
                }
            }
        }
        if let Some(lock) = word(role.release) {
            // A count above one is a lock that its owner took more than once.
            if word(role.own_count).is_some_and(|n| n > 1) {
                return;
            }
            // Only its owner gives a lock back; a kernel refuses others, but gives back itself what the dead still have.
            let mut owner = None;
            if role.owner.is_some() {
                let Some(told) = word(role.owner).filter(|o| *o != 0).map(|o| self.thread_at(o)) else { return };
                if told != no && self.thread(told).is_none_or(|t| t.state != State::Ended) {
                    return;
                }
                owner = Some(told);
            }
            let had = self.locks.get_mut(&lock).and_then(|s| s.owner.take());
            told.change(Change::Released { lock, thread: owner.or(had).or(Some(no)) });
        }
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
}
