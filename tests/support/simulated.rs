//! A uniprocessor ThreadX kernel in small: threads with priorities, time slices, sleeps and waits, priority inheritance,
//! nested interrupts. It inserts the events that the real kernel inserts, and keeps an account of its own: who had the
//! processor when, by its clock and not by the events.

mod objects;
mod threads;

use std::collections::VecDeque;

use super::builder::Entry;
use super::dice::Dice;

pub const FOREVER: u64 = 0xFFFF_FFFF;
/// The System Timer Thread.
pub const TIMER: usize = 0;
const PRIORITY_CHANGE: u64 = 14;
const TICK: u64 = 1000;

/// How a run differs from others.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    pub threads: usize,
    /// The port inserts the events of an interrupt's beginning and end.
    pub announced: bool,
    pub inheritance: bool,
    /// TX_TIMER_PROCESS_IN_ISR: there is no timer thread.
    pub timers_in_isr: bool,
    /// Interrupts hit calls between their event and the suspension, and between two resumptions.
    pub interrupts_in_calls: bool,
    pub events: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Thread(usize),
    Isr,
    Idle,
}

/// Somebody had the processor.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub who: Who,
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Preempted,
    Sliced,
    Yielded,
}

/// The processor goes from one to another.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    pub at: u64,
    /// How many events were inserted before it.
    pub after: usize,
    pub from: Who,
    pub to: Who,
    /// Why the one before lost it, where it could have gone on.
    pub loss: Option<Loss>,
    /// Since when the next was ready, where somebody made it ready.
    pub readied: Option<(u64, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Given,
    TimedOut,
    Other,
}

/// A thread waited.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub thread: usize,
    /// What for; 0 where the call names no object.
    pub object: u64,
    pub state: u64,
    /// Number of the event that blocks, and its time.
    pub event: usize,
    pub from: u64,
    pub to: Option<(u64, usize, Outcome)>,
}

/// A thread waited for a mutex that a less urgent one had.
#[derive(Clone, Copy, Debug)]
pub struct Inversion {
    pub waiter: usize,
    pub owner: usize,
    pub mutex: u64,
    pub event: usize,
    pub from: u64,
    pub to: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Account {
    pub segments: Vec<Segment>,
    pub switches: Vec<Switch>,
    pub waits: Vec<Wait>,
    pub inversions: Vec<Inversion>,
    /// By thread: each stack pointer that an event carried, with the number of the event.
    pub stacks: Vec<(usize, usize, u64)>,
    /// Who waits for whose lock, at each moment that this changes.
    pub chains: Vec<(u64, Vec<Option<usize>>)>,
    /// Moment, thread, priority from then on.
    pub priorities: Vec<(u64, usize, u64)>,
    /// How often the events do not tell when a switch was done.
    pub doubts: u64,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Work(u64),
    Mark,
    Sleep(u64),
    SemGet(usize, u64),
    SemPut(usize),
    MutexGet(usize, u64),
    MutexPut,
    Send(usize, u64),
    Receive(usize, u64),
    FlagsGet(u64),
    FlagsSet(u64),
    Relinquish,
    SuspendSelf,
    ResumeOther(usize),
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub address: u64,
    /// Its own, and the one that it has now.
    pub own: u64,
    pub priority: u64,
    pub slice: u64,
    left: u64,
    state: u64,
    /// It is on its way to be suspended: the kernel has not done so yet.
    suspending: bool,
    until: Option<u64>,
    wants: u64,
    got: bool,
    ops: VecDeque<Op>,
    held: Vec<usize>,
    asks: Option<usize>,
    wait: Option<usize>,
    readied: Option<(u64, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Mutex {
    owner: Option<usize>,
    waiters: Vec<usize>,
}

pub struct Kernel {
    pub setup: Setup,
    dice: Dice,
    now: u64,
    since: u64,
    pub threads: Vec<Thread>,
    ready: Vec<VecDeque<usize>>,
    current: Option<usize>,
    execute: Option<usize>,
    depth: usize,
    /// By open interrupt: whether it has inserted an event.
    acted: Vec<bool>,
    preempt_disable: u32,
    /// How many events there were as an interrupt ended with preemption disabled.
    masked: Option<usize>,
    loss: Loss,
    next_tick: u64,
    next_irq: u64,
    semaphores: Vec<(u64, VecDeque<usize>)>,
    mutexes: Vec<Mutex>,
    queues: Vec<(u64, VecDeque<usize>, VecDeque<usize>)>,
    flags: (u64, Vec<usize>),
    expired: Vec<usize>,
    pub events: Vec<Entry>,
    pub account: Account,
}

pub const fn semaphore(i: usize) -> u64 {
    0x2000_8000 + i as u64 * 0x40
}
pub const fn mutex(i: usize) -> u64 {
    0x2000_9000 + i as u64 * 0x40
}
pub const fn queue(i: usize) -> u64 {
    0x2000_A000 + i as u64 * 0x40
}
pub const FLAGS: u64 = 0x2000_B000;
pub const STACK_SIZE: u64 = 0x1000;
pub const fn stack(thread: usize) -> u64 {
    0x2001_0000 + thread as u64 * STACK_SIZE
}

impl Kernel {
    pub fn run(setup: Setup) -> Self {
        let mut dice = Dice::of(setup.seed);
        let mut threads = Vec::new();
        for i in 0..=setup.threads {
            let own = if i == TIMER { 0 } else { 1 + dice.below(6) as u64 };
            let slice = if i != TIMER && dice.once_in(2) { 1 + dice.below(4) as u64 } else { 0 };
            threads.push(Thread {
                address: 0x2000_1000 + i as u64 * 0x100,
                own,
                priority: own,
                slice,
                left: slice,
                state: if i == TIMER { 3 } else { 0 },
                suspending: false,
                until: None,
                wants: 0,
                got: false,
                ops: VecDeque::new(),
                held: Vec::new(),
                asks: None,
                wait: None,
                readied: None,
            });
        }
        let mut kernel = Self {
            setup,
            dice,
            now: 5000,
            since: 5000,
            threads,
            ready: vec![VecDeque::new(); 8],
            current: None,
            execute: None,
            depth: 0,
            acted: Vec::new(),
            preempt_disable: 0,
            masked: None,
            loss: Loss::Preempted,
            next_tick: 5000 + TICK,
            next_irq: 5700,
            semaphores: vec![(0, VecDeque::new()); 2],
            mutexes: vec![Mutex::default(); 3],
            queues: vec![(0, VecDeque::new(), VecDeque::new()); 1],
            flags: (0, Vec::new()),
            expired: Vec::new(),
            events: Vec::new(),
            account: Account::default(),
        };
        for i in 1..=setup.threads {
            kernel.enqueue(i);
        }
        kernel.execute = kernel.highest();
        kernel.current = kernel.execute;
        kernel.main();
        kernel
    }

    // ---- The scheduler ----

    fn highest(&self) -> Option<usize> {
        self.ready.iter().find_map(|list| list.front().copied())
    }
    fn enqueue(&mut self, i: usize) {
        let p = self.threads[i].priority as usize;
        self.ready[p].push_back(i);
    }
    fn dequeue(&mut self, i: usize) {
        self.ready.iter_mut().for_each(|list| list.retain(|t| *t != i));
    }
    fn who(&self) -> Who {
        if self.depth > 0 { Who::Isr } else { self.current.map_or(Who::Idle, Who::Thread) }
    }
    /// Closes the segment of whoever had the processor up to now.
    fn settle(&mut self) {
        if self.now > self.since {
            self.account.segments.push(Segment { who: self.who(), from: self.since, to: self.now });
        }
        self.since = self.now;
    }
    fn address(&self, i: Option<usize>) -> u64 {
        i.map_or(0, |i| self.threads[i].address)
    }
    fn small(&mut self) -> u64 {
        1 + self.dice.below(8) as u64
    }

    /// Where the kernel looks whether another thread is to run.
    fn dispatch(&mut self) {
        if self.depth > 0 || self.preempt_disable > 0 || self.current == self.execute {
            return;
        }
        self.settle();
        let (from, to) = (self.who(), self.execute.map_or(Who::Idle, Who::Thread));
        // No event tells when preemption was enabled again after the interrupt.
        self.account.doubts += u64::from(self.masked == Some(self.events.len()));
        let could_go_on = self.current.is_some_and(|c| self.threads[c].state == 0);
        let mut loss = could_go_on.then_some(self.loss);
        // Whose priority is restored goes behind those that have it, too.
        if let (Some(Loss::Preempted), Some(c), Some(e)) = (loss, self.current, self.execute)
            && self.threads[e].priority >= self.threads[c].priority
        {
            loss = Some(Loss::Yielded);
        }
        self.loss = Loss::Preempted;
        let readied = self.execute.and_then(|e| self.threads[e].readied.take());
        if let Some(c) = self.current {
            self.threads[c].readied = None;
        }
        self.account.switches.push(Switch { at: self.now, after: self.events.len(), from, to, loss, readied });
        self.current = self.execute;
        if let Some(c) = self.current {
            self.threads[c].left = self.threads[c].slice;
        }
    }

    // ---- Events ----

    fn sp(&mut self) -> u64 {
        let Some(c) = self.current.filter(|_| self.depth == 0) else { return 0x2000_F000 };
        let sp = stack(c) + 0x100 + self.dice.below(0x300) as u64 * 4;
        self.account.stacks.push((c, self.events.len(), sp));
        sp
    }
    fn emit(&mut self, id: u64, info: [u64; 4]) {
        let entry = match (self.depth, self.current) {
            (0, Some(c)) => Entry::thread(self.threads[c].address, self.threads[c].priority, id, self.now, info),
            (0, None) => panic!("idle inserts nothing"),
            (_, below) => Entry::isr(self.address(below), id, self.now, info),
        };
        if let Some(acted) = self.acted.last_mut() {
            *acted = true;
        }
        self.events.push(entry);
    }

    // ---- Time and interrupts ----

    /// Time passes; interrupts may come, and after one the caller may lose the processor.
    fn spend(&mut self, ticks: u64) {
        let mut left = ticks;
        while left > 0 {
            let step = left.min(self.due().saturating_sub(self.now).max(1));
            self.now += step;
            left -= step;
            if self.now >= self.due() {
                self.interrupts();
                if self.depth == 0 && self.preempt_disable == 0 && self.current != self.execute {
                    // The rest of the work is done when the thread has the processor again.
                    if let Some(c) = self.current.filter(|_| left > 0) {
                        self.threads[c].ops.push_front(Op::Work(left));
                    }
                    self.dispatch();
                    return;
                }
            }
        }
    }
    /// Time of a call with preemption disabled.
    fn busy(&mut self, ticks: u64) {
        if self.setup.interrupts_in_calls && self.depth == 0 {
            self.preempt_disable += 1;
            self.spend(ticks);
            self.preempt_disable -= 1;
        } else {
            self.now += ticks;
        }
    }
    fn due(&self) -> u64 {
        match self.depth {
            0 => self.next_tick.min(self.next_irq),
            // Only the device interrupts the timer's interrupt.
            1 => self.next_irq,
            _ => u64::MAX,
        }
    }
    fn interrupts(&mut self) {
        // One follows another at once: no thread runs in between.
        while self.now >= self.due() {
            let is_tick = self.depth == 0 && self.now >= self.next_tick;
            self.settle();
            let switches = self.depth == 0 && self.preempt_disable == 0 && self.current != self.execute;
            self.account.doubts += u64::from(switches);
            self.depth += 1;
            self.acted.push(false);
            let number = if is_tick { 15 } else { 40 };
            if self.setup.announced {
                let sp = self.sp();
                self.emit(3, [sp, number, self.depth as u64, u64::from(self.preempt_disable)]);
                let n = self.small();
                self.spend(n);
            }
            if is_tick {
                self.tick()
            } else {
                self.device()
            }
            if self.setup.announced {
                let n = self.small();
                self.spend(n);
                let sp = self.sp();
                self.emit(4, [sp, number, self.depth as u64, u64::from(self.preempt_disable)]);
            }
            self.settle();
            self.depth -= 1;
            self.acted.pop();
            self.masked = (self.preempt_disable > 0).then_some(self.events.len());
        }
    }
    fn device(&mut self) {
        let gap = if self.dice.once_in(5) { 3 } else { 100 + self.dice.below(2500) as u64 };
        self.next_irq = u64::MAX;
        let which = self.dice.below(3);
        match self.dice.below(4) {
            0 => self.semaphore_put(which % 2),
            1 => self.flags_set(1 << which),
            2 => self.send(0, 0),
            _ => {
                let t = self.now / TICK;
                let sp = self.sp();
                self.emit(120, [t, sp, 0, 0]);
            }
        }
        self.next_irq = self.now + gap;
    }
    fn tick(&mut self) {
        self.next_tick += TICK;
        self.next_irq = self.next_irq.max(self.now + 2);
        let now = self.now;
        let due: Vec<usize> =
            (1..self.threads.len()).filter(|i| self.threads[*i].until.is_some_and(|at| at <= now)).collect();
        if !due.is_empty() {
            due.iter().for_each(|i| self.threads[*i].until = None);
            self.expired.extend(due);
            if self.setup.timers_in_isr {
                self.expire();
            } else if self.threads[TIMER].state != 0 {
                self.end_wait(TIMER, Outcome::Other);
                self.resume(TIMER);
            }
        }
        let Some(c) = self.current.filter(|c| self.threads[*c].slice > 0) else { return };
        self.threads[c].left = self.threads[c].left.saturating_sub(1);
        if self.threads[c].left > 0 {
            return;
        }
        self.gap();
        self.threads[c].left = self.threads[c].slice;
        if self.threads[c].state == 0 {
            self.rotate(c, Loss::Sliced);
        }
        let (next, sp) = (self.address(self.execute), self.sp());
        self.emit(5, [next, 1, u64::from(self.preempt_disable), sp]);
    }
    /// Time between two events of an interrupt; before its first and behind its last event there is none to be seen,
    /// unless the port inserts the events of its beginning and end.
    fn gap(&mut self) {
        if self.depth > 0 && self.acted.last() == Some(&true) {
            let n = self.small();
            self.spend(n);
        }
    }
    /// The next of the same priority is to run.
    fn rotate(&mut self, c: usize, loss: Loss) {
        let p = self.threads[c].priority as usize;
        if self.ready[p].len() > 1 && self.ready[p].front() == Some(&c) {
            self.ready[p].rotate_left(1);
            if self.execute == Some(c) {
                self.loss = loss;
            }
            self.execute = self.highest();
        }
    }
    /// Sleeps and waits whose time is over.
    fn expire(&mut self) {
        while !self.expired.is_empty() {
            self.gap();
            let i = self.expired.remove(0);
            if self.threads[i].state != 0 {
                self.forget(i);
                self.end_wait(i, Outcome::TimedOut);
                self.resume(i);
            }
        }
    }
    /// A thread waits no more in any list.
    fn forget(&mut self, i: usize) {
        self.semaphores.iter_mut().for_each(|s| s.1.retain(|t| *t != i));
        self.mutexes.iter_mut().for_each(|m| m.waiters.retain(|t| *t != i));
        for q in &mut self.queues {
            q.1.retain(|t| *t != i);
            q.2.retain(|t| *t != i);
        }
        self.flags.1.retain(|t| *t != i);
    }

    // ---- Resumption and suspension ----

    fn resume(&mut self, i: usize) {
        let was = self.threads[i].state;
        self.threads[i].until = None;
        self.threads[i].state = 0;
        if std::mem::take(&mut self.threads[i].suspending) {
            // It has not left the processor yet, and goes on.
        } else {
            self.enqueue(i);
            self.threads[i].left = self.threads[i].slice;
            if was != PRIORITY_CHANGE || self.current != Some(i) {
                self.threads[i].readied = Some((self.now, self.events.len()));
            }
            if self.execute.is_none_or(|e| self.threads[i].priority < self.threads[e].priority) {
                self.execute = Some(i);
                self.loss = Loss::Preempted;
            }
        }
        let (own, next, sp) = (self.threads[i].address, self.address(self.execute), self.sp());
        self.emit(1, [own, was, sp, next]);
    }
    /// What `_tx_thread_system_suspend` does; the caller has set the state.
    fn suspend(&mut self, i: usize) {
        self.threads[i].suspending = false;
        self.threads[i].readied = None;
        self.dequeue(i);
        if self.execute == Some(i) {
            self.execute = self.highest();
        }
        let (own, state, next, sp) =
            (self.threads[i].address, self.threads[i].state, self.address(self.execute), self.sp());
        self.emit(2, [own, state, sp, next]);
    }
    /// The running thread waits.
    fn wait(&mut self, state: u64, object: u64, limit: u64) {
        let c = self.current.unwrap();
        self.threads[c].state = state;
        self.threads[c].suspending = true;
        self.threads[c].got = false;
        let n = self.small();
        self.busy(n);
        if !self.threads[c].suspending {
            // An interrupt gave it what it waits for before it could suspend.
            self.dispatch();
            return;
        }
        if limit != 0 && limit != FOREVER {
            self.threads[c].until = Some(self.now + limit * TICK);
        }
        let wait = Wait { thread: c, object, state, event: self.events.len(), from: self.now, to: None };
        self.account.waits.push(wait);
        self.threads[c].wait = Some(self.account.waits.len() - 1);
        self.inversion_begins(c);
        self.suspend(c);
        self.dispatch();
    }
    fn end_wait(&mut self, i: usize, how: Outcome) {
        let (now, events) = (self.now, self.events.len());
        if let Some(at) = self.threads[i].wait.take() {
            self.account.waits[at].to = Some((now, events, how));
        }
        self.threads[i].asks = None;
        self.threads[i].until = None;
        for inversion in self.account.inversions.iter_mut().filter(|v| v.waiter == i && v.to.is_none()) {
            inversion.to = Some(now);
        }
        self.chains();
    }
}
