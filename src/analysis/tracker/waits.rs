//! Waits: the calls that threads block in, how that ends, and who has the locks that they wait for.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::{Call, Change, Ending, Found, Lock, ObjectNo, System, ThreadNo, ThreadState, Wait, WaitOption, Who};
use crate::catalogue::Role;
use crate::trace::Event;

impl System<'_> {
    /// Remembers the call that an event is. A mark of the application, or an unknown event, is none: whoever
    /// inserts it is back from the call before.
    #[inline]
    pub(super) fn calls(&mut self, event: &Event, role: Option<&Role>, words: &[u64], by: Who) {
        if role.is_none_or(|r| !r.is_scheduling) {
            self.called(event, role, words, by);
        }
    }

    fn called(&mut self, event: &Event, role: Option<&Role>, words: &[u64], by: Who) {
        let call = role.filter(|r| !r.is_mark).zip(event.def).map(|(role, def)| Call {
            seq: event.seq,
            def,
            object: role.object.of(words).and_then(|address| self.object_at(address)),
            wait: role.wait.of(words).map(|wait| match wait {
                0 => WaitOption::None,
                _ if Some(wait) == role.forever => WaitOption::Forever,
                _ => WaitOption::Bounded,
            }),
        });
        match by {
            Who::Isr => self.core(event.core).isr_call = call,
            Who::Thread(no) => {
                if let Some(calls) = self.calls_mut(no) {
                    calls.last = call;
                }
            }
            _ => {}
        }
    }

    /// True where a call is not the kernel's own: it may wait more than once.
    fn is_above_kernel(&self, call: &Call) -> bool {
        self.role_of(call.def).is_some_and(|r| r.is_above_kernel)
    }

    /// True where a thread that blocks after this call can do so because of it.
    fn can_block(&self, call: &Call) -> bool {
        let Some(role) = self.role_of(call.def) else { return false };
        match call.wait {
            Some(wait) => wait != WaitOption::None,
            // Who gives a lock back does not wait for it.
            None if !self.states_waits => !role.release.is_some(),
            // Of a kernel's own calls that do not say, those wait that ask for something, or that have a thread's state:
            // they sleep, or suspend their caller. What stands above a kernel may wait inside of any call.
            None => role.is_above_kernel || role.state.is_some() || role.get.is_some() || role.acquire.is_some(),
        }
    }

    /// A thread becomes ready.
    pub(super) fn ready(&mut self, event: &Event, role: &Role, words: &[u64], by: Who, found: &mut Found) {
        let Some(address) = role.target(role.ready_thread, words).filter(|a| *a != 0) else { return };
        let no = self.thread_at(address);
        let core = self.core(event.core);
        let interrupt = core.frames.last().and_then(|f| f.number);
        let isr_call = core.isr_call;
        let call = match by {
            Who::Thread(waker) => self.calls_of(waker).last,
            Who::Isr => isr_call,
            _ => None,
        };
        self.set_priority(no, role.priority.of(words).and_then(|p| u16::try_from(p).ok()), found);
        let mut waited = self.wakes(no, event);
        let lock = match waited {
            Some(wait) => self.lock_of(wait.call),
            // It waited since before the first event.
            None => self.given_back(call, no),
        };
        let acquired = lock.filter(|lock| self.handed(*lock, no));
        if let Some(wait) = &mut waited {
            wait.ending = self.ending(no, wait, call);
        }
        found.change(Change::Readied { thread: no, by, interrupt, waited, call });
        if let Some(lock) = acquired {
            found.change(Change::Acquired { lock, thread: no });
        }
    }

    /// A thread is ready from an event on; the wait that is over, where it was seen to begin.
    fn wakes(&mut self, no: ThreadNo, event: &Event) -> Option<Wait> {
        // One that has a core goes on: it was given what it asked for before it blocked.
        let runs = || self.cores.iter().any(|c| c.running == Who::Thread(no));
        let thread = self.threads.get(no.index())?;
        let is_known = match thread.state {
            ThreadState::Running => thread.since_seq().is_some() || runs(),
            ThreadState::Ready => thread.since_seq().is_some(),
            _ => false,
        };
        let mut calls = self.calls_of(no);
        // A call of the kernel waits once: what its caller waits for next is something else.
        let over = calls.blocked_in.filter(|c| !self.is_above_kernel(c)).map(|c| c.seq);
        let mut waited = None;
        if let (ThreadState::Blocked(_), Some(seq)) = (thread.state, thread.since_seq()) {
            waited = Some(Wait { call: calls.blocked_in.take(), from: thread.since, seq, ending: Ending::Unknown });
            calls.last = calls.last.filter(|c| Some(c.seq) != over);
        }
        if !is_known {
            self.set_state(no, ThreadState::Ready, event.ticks, Some(event.seq));
        }
        if let Some(place) = self.calls.get_mut(no.index()).filter(|_| waited.is_some()) {
            *place = calls;
        }
        waited
    }

    /// How a wait ended; `waker` is the last call of the one that made the thread ready.
    fn ending(&self, thread: ThreadNo, wait: &Wait, waker: Option<Call>) -> Ending {
        let object = wait.call.and_then(|c| c.object);
        if let Some(call) = waker.filter(|c| c.seq > wait.seq)
            && let Some(role) = self.role_of(call.def)
            && let Some(acted_on) = call.object
        {
            if role.abort.is_some() {
                if self.thread(thread).is_some_and(|t| t.address == self.address(acted_on)) {
                    return Ending::Aborted;
                }
            } else if call.object == object {
                return if role.delete.is_some() { Ending::Deleted } else { Ending::Given };
            }
        }
        let Some((call, object)) = wait.call.zip(object) else { return Ending::Unknown };
        let Some(role) = self.role_of(call.def) else { return Ending::Unknown };
        if role.acquire.is_some() && self.lock(object).is_some_and(|l| l.owner == Some(thread)) {
            return Ending::Given;
        }
        // What such a call waits for is given by events of its own class: they would be there.
        let shown = role.acquire.is_some() || role.get.is_some() || role.put.is_some();
        if shown && call.wait == Some(WaitOption::Bounded) { Ending::TimedOut } else { Ending::Unknown }
    }

    /// A thread stops being ready.
    pub(super) fn block(&mut self, event: &Event, role: &Role, words: &[u64], by: Who, found: &mut Found) {
        let Some(address) = role.target(role.block_thread, words).filter(|a| *a != 0) else { return };
        let no = self.thread_at(address);
        let code = role.state.of(words);
        let own = by == Who::Thread(no);
        let call = self.calls_of(no).last.filter(|c| own && self.can_block(c));
        self.set_state(no, ThreadState::Blocked(code), event.ticks, Some(event.seq));
        if found.wants.calls
            && let Some(calls) = self.calls_mut(no)
        {
            calls.blocked_in = call;
        }
        if let Some(lock) = self.lock_of(call).and_then(|lock| self.lock_mut(lock)) {
            if !lock.waiters.contains(&no) {
                lock.waiters.push(no);
            }
            // No thread waits for what it has: another took it before the first event that shows it.
            lock.owner = lock.owner.filter(|o| *o != no);
        }
        found.change(Change::Blocked { thread: no, by, code, call });
        if code.is_some_and(|c| role.is_end(c)) {
            self.ends(no, event, found);
        }
    }

    /// An event says that a thread ends.
    pub(super) fn end(&mut self, event: &Event, role: &Role, words: &[u64], found: &mut Found) {
        let Some(address) = role.target(role.end_thread, words).filter(|a| *a != 0) else { return };
        let no = self.thread_at(address);
        // One that could run also stops being ready, with an event of its own.
        let is_over = |s: ThreadState| matches!(s, ThreadState::Blocked(_) | ThreadState::Unknown);
        if self.thread(no).is_some_and(|t| is_over(t.state)) {
            self.ends(no, event, found);
        }
    }

    fn ends(&mut self, no: ThreadNo, event: &Event, found: &mut Found) {
        let Some(thread) = self.thread(no) else { return };
        let waited =
            matches!(thread.state, ThreadState::Blocked(_)) && thread.since_seq().is_some_and(|s| s != event.seq);
        self.set_state(no, ThreadState::Ended, event.ticks, Some(event.seq));
        let call = self.calls.get_mut(no.index()).and_then(|c| c.blocked_in.take()).filter(|_| waited);
        if let Some(lock) = self.lock_of(call).and_then(|lock| self.lock_mut(lock)) {
            lock.waiters.retain(|w| *w != no);
        }
        found.change(Change::Ended { thread: no, waited });
    }

    /// The lock that a call asks for.
    #[must_use]
    pub fn lock_of(&self, call: Option<Call>) -> Option<ObjectNo> {
        let call = call?;
        call.object.filter(|_| self.role_of(call.def).is_some_and(|r| r.acquire.is_some()))
    }

    /// The free lock that a thread other than this has just given back, where its event has the owner.
    fn given_back(&self, call: Option<Call>, thread: ThreadNo) -> Option<ObjectNo> {
        let call = call?;
        self.role_of(call.def).filter(|r| r.release.is_some() && r.owner.is_some())?;
        let own = self.calls_of(thread).last.is_some_and(|own| own.seq == call.seq);
        let lock = call.object.filter(|_| !own)?;
        self.lock(lock).filter(|state| state.owner.is_none()).map(|_| lock)
    }

    /// A thread that waited for a lock goes on: it has it now, unless it gave up.
    fn handed(&mut self, lock: ObjectNo, thread: ThreadNo) -> bool {
        let quiet = self.quiet_locks;
        let Some(state) = self.lock_mut(lock) else { return false };
        state.waiters.retain(|w| *w != thread);
        // Where the owner still has it, the wait was given up, by its time-out or by another thread.
        let acquires = state.owner.is_none();
        if acquires {
            state.owner = Some(thread);
        }
        // Where no thread waits for a lock any more, some systems give it back, and to others, without an event.
        if quiet && state.waiters.is_empty() {
            state.owner = None;
        }
        acquires
    }

    /// Locks that are asked for, given back and deleted.
    #[inline]
    pub(super) fn locks(&mut self, role: Option<&Role>, words: &[u64], by: Who, found: &mut Found) {
        if let Some(role) = role.filter(|r| r.locks) {
            self.change_locks(role, words, by, found);
        }
    }

    fn change_locks(&mut self, role: &Role, words: &[u64], by: Who, found: &mut Found) {
        if let Some(object) = role.delete.of(words).and_then(|address| self.object_at(address)) {
            if let Some(lock) = self.lock_mut(object) {
                *lock = Lock { is_listed: lock.is_listed, ..Lock::default() };
            }
            found.change(Change::Deleted { object });
        }
        let Who::Thread(no) = by else { return };
        if let Some(lock) = role.acquire.of(words).and_then(|address| self.object_at(address)) {
            self.asks(lock, no, role, words, found);
        }
        if let Some(lock) = role.release.of(words).and_then(|address| self.object_at(address)) {
            self.releases(lock, no, role, words, found);
        }
    }

    /// A thread asks for a lock.
    fn asks(&mut self, lock: ObjectNo, no: ThreadNo, role: &Role, words: &[u64], found: &mut Found) {
        let owner = role.owner.of(words).filter(|o| *o != 0).map(|o| self.thread_at(o));
        let quiet = self.quiet_locks;
        if lock.index() >= self.locks.len() {
            self.locks.resize(lock.index() + 1, Lock::default());
        }
        let Some(state) = self.locks.get_mut(lock.index()) else { return };
        state.is_known = true;
        if !std::mem::replace(&mut state.is_listed, true) {
            self.known_locks.push(lock);
        }
        if role.owner.is_some() {
            state.owner = owner;
        }
        match state.owner {
            Some(owner) if owner != no => found.change(Change::Contended { lock }),
            Some(_) => {}
            // It asks because another has it, or had it when the call began.
            None if quiet => {}
            None => {
                state.owner = Some(no);
                found.change(Change::Acquired { lock, thread: no });
            }
        }
    }

    /// A thread gives a lock back.
    fn releases(&mut self, lock: ObjectNo, no: ThreadNo, role: &Role, words: &[u64], found: &mut Found) {
        // A count above one is a lock that its owner took more than once.
        if role.own_count.of(words).is_some_and(|n| n > 1) {
            return;
        }
        // Only its owner gives a lock back; a kernel refuses others, but gives back itself what the dead still have.
        if role.owner.is_some() {
            let Some(owner) = role.owner.of(words).filter(|o| *o != 0).map(|o| self.thread_at(o)) else { return };
            if owner != no && self.thread(owner).is_none_or(|t| t.state != ThreadState::Ended) {
                return;
            }
        }
        if let Some(state) = self.lock_mut(lock) {
            state.owner = None;
        }
        found.change(Change::Released { lock });
    }
}
