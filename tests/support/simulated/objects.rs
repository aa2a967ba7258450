//! What calls on semaphores, queues, event flags and mutexes do, and the account of inversions.

use super::*;

impl Kernel {
    // ---- Objects ----

    pub(super) fn semaphore_put(&mut self, s: usize) {
        let (count, waiting) = (self.semaphores[s].0, self.semaphores[s].1.len() as u64);
        let sp = self.sp();
        self.emit(88, [semaphore(s), count, waiting, sp]);
        match self.semaphores[s].1.pop_front() {
            Some(i) => {
                let n = self.small();
                self.busy(n);
                self.end_wait(i, Outcome::Given);
                self.resume(i);
                self.dispatch();
            }
            None => self.semaphores[s].0 += 1,
        }
    }
    pub(super) fn flags_set(&mut self, bits: u64) {
        let waiting = self.flags.1.len() as u64;
        self.emit(36, [FLAGS, bits, 0, waiting]);
        self.flags.0 |= bits;
        let woken: Vec<usize> =
            self.flags.1.iter().copied().filter(|i| self.threads[*i].wants & self.flags.0 != 0).collect();
        self.flags.1.retain(|i| !woken.contains(i));
        for (at, i) in woken.iter().enumerate() {
            if at > 0 {
                let n = self.small();
                self.busy(n);
            }
            self.flags.0 &= !self.threads[*i].wants;
            if self.threads[*i].state != 0 {
                self.end_wait(*i, Outcome::Given);
                self.resume(*i);
            }
        }
        self.dispatch();
    }
    pub(super) fn send(&mut self, q: usize, limit: u64) {
        let full = self.queues[q].0;
        let from = 0x2000_E000;
        self.emit(69, [queue(q), from, limit, full]);
        if let Some(i) = self.queues[q].1.pop_front() {
            self.end_wait(i, Outcome::Given);
            self.resume(i);
            self.dispatch();
        } else if full < 3 {
            self.queues[q].0 += 1;
        } else if limit > 0 {
            let c = self.current.unwrap();
            self.queues[q].2.push_back(c);
            self.wait(5, queue(q), limit);
        }
    }
    pub(super) fn receive(&mut self, q: usize, limit: u64) {
        let count = self.queues[q].0;
        self.emit(68, [queue(q), 0x2000_E100, limit, count]);
        if count > 0 {
            // A sender that waits puts its message into the place that is free now.
            match self.queues[q].2.pop_front() {
                Some(i) => {
                    self.end_wait(i, Outcome::Given);
                    self.resume(i);
                    self.dispatch();
                }
                None => self.queues[q].0 -= 1,
            }
        } else if limit > 0 {
            let c = self.current.unwrap();
            self.queues[q].1.push_back(c);
            self.wait(5, queue(q), limit);
        }
    }
    pub(super) fn priority_change(&mut self, i: usize, to: u64) {
        if self.threads[i].priority == to {
            return;
        }
        if self.threads[i].state != 0 {
            self.threads[i].priority = to;
            self.account.priorities.push((self.now, i, to));
            return;
        }
        self.threads[i].state = PRIORITY_CHANGE;
        let wait =
            Wait { thread: i, object: 0, state: PRIORITY_CHANGE, event: self.events.len(), from: self.now, to: None };
        self.account.waits.push(wait);
        let at = self.account.waits.len() - 1;
        self.preempt_disable += 1;
        self.suspend(i);
        let n = self.small();
        self.busy(n);
        self.threads[i].priority = to;
        self.account.priorities.push((self.now, i, to));
        self.account.waits[at].to = Some((self.now, self.events.len(), Outcome::Other));
        self.resume(i);
        self.preempt_disable -= 1;
    }
    pub(super) fn mutex_get(&mut self, m: usize, limit: u64) {
        let c = self.current.unwrap();
        let owner = self.mutexes[m].owner;
        self.emit(52, [mutex(m), limit, self.address(owner), u64::from(owner.is_some())]);
        let Some(owner) = owner else {
            self.mutexes[m].owner = Some(c);
            self.threads[c].held.push(m);
            return;
        };
        if limit == 0 {
            return;
        }
        self.mutexes[m].waiters.push(c);
        if self.setup.inheritance && self.threads[c].priority < self.threads[owner].priority {
            let n = self.small();
            self.busy(n);
            let to = self.threads[c].priority;
            self.priority_change(owner, to);
        }
        self.threads[c].asks = Some(m);
        self.wait(13, mutex(m), limit);
    }
    pub(super) fn mutex_put(&mut self) {
        let c = self.current.unwrap();
        let Some(m) = self.threads[c].held.pop() else { return };
        let sp = self.sp();
        self.emit(57, [mutex(m), self.threads[c].address, 1, sp]);
        // Whoever waits still for this lock waits for its next owner.
        let now = self.now;
        for v in self.account.inversions.iter_mut().filter(|v| v.mutex == mutex(m) && v.to.is_none()) {
            v.to = Some(now);
        }
        let next = (!self.mutexes[m].waiters.is_empty()).then(|| self.mutexes[m].waiters.remove(0));
        self.mutexes[m].owner = next;
        self.preempt_disable += 1;
        if self.threads[c].held.is_empty() {
            let own = self.threads[c].own;
            self.priority_change(c, own);
        }
        if let Some(i) = next {
            self.threads[i].held.push(m);
            self.end_wait(i, Outcome::Given);
            self.resume(i);
            let rest = self.mutexes[m].waiters.clone();
            rest.into_iter().for_each(|w| self.inversion_begins(w));
        }
        self.preempt_disable -= 1;
        self.dispatch();
    }
    /// Of an inversion: ticks of the owner and of whom it waits for, of interrupts, of culprits.
    pub fn shares_of(&self, v: &Inversion, end: u64) -> [i64; 3] {
        let to = v.to.unwrap_or(end);
        let mut shares = [0; 3];
        for s in self.account.segments.iter().filter(|s| s.from < to && s.to > v.from) {
            let (mut from, until) = (s.from.max(v.from), s.to.min(to));
            // A segment is cut where who waits for whom changes.
            let mut cuts: Vec<u64> =
                self.account.chains.iter().map(|c| c.0).filter(|at| (from..until).contains(at)).collect();
            cuts.push(until);
            for cut in cuts {
                let ticks = cut.saturating_sub(from) as i64;
                match s.who {
                    Who::Isr => shares[1] += ticks,
                    Who::Thread(i) if self.works_for(v.owner, i, from) => shares[0] += ticks,
                    Who::Thread(i) if self.priority_at(i, from) > self.priority_at(v.waiter, v.from) => {
                        shares[2] += ticks
                    }
                    _ => {}
                }
                from = cut.max(from);
            }
        }
        shares
    }
    pub(super) fn works_for(&self, owner: usize, thread: usize, at: u64) -> bool {
        let chain = self.account.chains.iter().rev().find(|c| c.0 <= at);
        let mut next = Some(owner);
        while let Some(i) = next.filter(|i| *i != thread) {
            next = chain.and_then(|c| c.1[i]);
        }
        next.is_some()
    }
    pub(super) fn priority_at(&self, thread: usize, at: u64) -> u64 {
        let list = self.account.priorities.iter().rev().find(|p| p.0 <= at && p.1 == thread);
        list.map_or(self.threads[thread].own, |p| p.2)
    }
    pub(super) fn inversion_begins(&mut self, waiter: usize) {
        let Some(m) = self.threads[waiter].asks else { return };
        let Some(owner) = self.mutexes[m].owner else { return };
        if self.threads[waiter].priority < self.threads[owner].own {
            let (event, from) = (self.events.len(), self.now);
            self.account.inversions.push(Inversion { waiter, owner, mutex: mutex(m), event, from, to: None });
        }
        self.chains();
    }
    pub(super) fn chains(&mut self) {
        let of = |t: &Thread| t.wait.and(t.asks).and_then(|m| self.mutexes[m].owner);
        let chain = self.threads.iter().map(of).collect();
        self.account.chains.push((self.now, chain));
    }
}
