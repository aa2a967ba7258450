//! What threads do: the seed decides.

use super::*;

impl Kernel {
    // ---- Threads ----

    pub(super) fn generate(&mut self, c: usize) {
        let limit = [0, FOREVER, 1 + self.dice.below(4) as u64][self.dice.below(3)];
        let length = if self.dice.once_in(4) { 3000 } else { 300 };
        let work = Op::Work(1 + self.dice.below(length) as u64);
        let mut list = match self.dice.below(16) {
            0 | 1 => vec![Op::Sleep(1 + self.dice.below(5) as u64)],
            2 => vec![Op::SemGet(self.dice.below(2), limit)],
            3 => vec![Op::SemPut(self.dice.below(2))],
            4 | 5 if self.threads[c].held.len() < 2 => {
                // In order of their numbers: no cycle.
                let least = self.threads[c].held.iter().max().map_or(0, |m| m + 1);
                if least >= self.mutexes.len() {
                    vec![Op::MutexPut]
                } else {
                    let m = least + self.dice.below(self.mutexes.len() - least);
                    vec![Op::MutexGet(m, if limit == 0 { FOREVER } else { limit }), work]
                }
            }
            4..=8 => vec![Op::MutexPut],
            9 => vec![Op::Send(0, limit)],
            10 => vec![Op::Receive(0, limit)],
            11 => vec![Op::FlagsGet(1 << self.dice.below(3))],
            12 => vec![Op::FlagsSet(self.dice.below(8) as u64)],
            13 => vec![Op::Relinquish],
            14 if self.threads[c].held.is_empty() && self.dice.once_in(2) => vec![Op::SuspendSelf],
            14 => vec![Op::ResumeOther(1 + self.dice.below(self.setup.threads))],
            _ => vec![Op::Mark],
        };
        list.push(work);
        self.threads[c].ops.extend(list);
    }
    pub(super) fn main(&mut self) {
        loop {
            let full = self.events.len() >= self.setup.events;
            let Some(c) = self.current else {
                // A sound end: nothing is left to be switched.
                if full && !self.events.is_empty() {
                    break;
                }
                self.now = self.now.max(self.due());
                self.interrupts();
                self.dispatch();
                continue;
            };
            if c == TIMER {
                self.timer_thread();
                continue;
            }
            if self.threads[c].ops.is_empty() {
                self.generate(c);
            }
            let op = self.threads[c].ops.pop_front().unwrap();
            self.perform(c, op);
            if full && self.current == Some(c) && self.current == self.execute {
                self.emit(5000, [0; 4]);
                break;
            }
        }
        self.settle();
    }
    pub(super) fn timer_thread(&mut self) {
        let n = self.small();
        self.busy(n);
        self.preempt_disable += 1;
        self.expire();
        self.threads[TIMER].state = 3;
        let wait = Wait { thread: TIMER, object: 0, state: 3, event: self.events.len(), from: self.now, to: None };
        self.account.waits.push(wait);
        self.threads[TIMER].wait = Some(self.account.waits.len() - 1);
        self.suspend(TIMER);
        self.preempt_disable -= 1;
        self.dispatch();
    }
    pub(super) fn perform(&mut self, c: usize, op: Op) {
        match op {
            Op::Work(n) => self.spend(n),
            Op::Mark => self.emit(5000, [7, 0, 0, 0]),
            Op::Sleep(n) => {
                let sp = self.sp();
                self.emit(112, [n, 0, sp, 0]);
                self.wait(4, 0, n);
            }
            Op::SemGet(s, limit) => {
                let (count, sp) = (self.semaphores[s].0, self.sp());
                self.emit(83, [semaphore(s), limit, count, sp]);
                if count > 0 {
                    self.semaphores[s].0 -= 1;
                } else if limit > 0 {
                    self.semaphores[s].1.push_back(c);
                    self.wait(6, semaphore(s), limit);
                }
            }
            Op::SemPut(s) => self.semaphore_put(s),
            Op::MutexGet(m, limit) => self.mutex_get(m, limit),
            Op::MutexPut => self.mutex_put(),
            Op::Send(q, limit) => self.send(q, limit),
            Op::Receive(q, limit) => self.receive(q, limit),
            Op::FlagsGet(bits) => {
                self.emit(32, [FLAGS, bits, self.flags.0, 1]);
                if self.flags.0 & bits == 0 {
                    self.threads[c].wants = bits;
                    self.flags.1.push(c);
                    self.wait(7, FLAGS, FOREVER);
                } else {
                    self.flags.0 &= !bits;
                }
            }
            Op::FlagsSet(bits) => self.flags_set(bits),
            Op::Relinquish => {
                self.rotate(c, Loss::Yielded);
                let (next, sp) = (self.address(self.execute), self.sp());
                self.emit(109, [sp, next, 0, 0]);
                self.dispatch();
            }
            Op::SuspendSelf => {
                let (own, sp) = (self.threads[c].address, self.sp());
                self.emit(114, [own, 0, sp, 0]);
                self.wait(3, 0, 0);
            }
            Op::ResumeOther(i) => {
                let (other, state, sp) = (self.threads[i].address, self.threads[i].state, self.sp());
                self.emit(111, [other, state, sp, 0]);
                if state == 3 {
                    self.end_wait(i, Outcome::Given);
                    self.resume(i);
                    self.dispatch();
                }
            }
        }
    }
}
