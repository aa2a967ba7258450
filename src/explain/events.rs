//! What the events of a trace show beside the kernel's state: who holds a semaphore, and who takes from a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::abi::Addr;
use crate::analysis::tracker::{Change, Consumer, Ending, Step, System, ThreadState, Tracker, Wants};
use crate::catalogue::Catalogue;
use crate::trace::{ContextKind, Trace};

/// The most objects that are followed: a damaged trace may name any number.
const MAX_OBJECTS: usize = 1 << 12;

/// The most threads that are remembered of an object.
const MAX_THREADS: usize = 64;

/// A thread that took an instance of a semaphore, or a message, by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// The event.
    pub seq: u64,
}

/// One object.
#[derive(Debug, Clone, Default)]
struct One {
    /// Who took and did not give back.
    held: Vec<Taken>,
    /// Puts by a thread that held it then.
    own_puts: u64,
    /// Who puts; `None` for an interrupt.
    putters: BTreeSet<Option<Addr>>,
    /// Every thread that takes.
    takers: BTreeSet<Addr>,
}

/// What the events show.
#[derive(Debug, Default)]
pub struct Events {
    objects: BTreeMap<Addr, One>,
    /// The bits that the trace stores of an address.
    mask: u64,
}

impl Events {
    /// Looks at all events of a trace.
    #[must_use]
    pub fn of(trace: &Trace, catalogue: &Catalogue) -> Self {
        let mut this = Self { mask: trace.about.word.max(), ..Self::default() };
        let mut tracker = Tracker::new(trace, catalogue, Wants::ALL);
        trace.visit(|event| {
            tracker.event(event, &mut this);
            ControlFlow::Continue(())
        });
        tracker.finish(&mut this);
        this
    }

    /// The only holder of a semaphore that is used as a lock: who puts takes, too, and at least one put is seen of a thread
    /// that had taken it before.
    #[must_use]
    pub fn holder(&self, semaphore: Addr) -> Option<Taken> {
        let one = self.objects.get(&(semaphore & self.mask))?;
        match one.held.as_slice() {
            [only]
                if one.own_puts > 0 && one.putters.iter().all(|by| by.is_some_and(|by| one.takers.contains(&by))) =>
            {
                Some(*only)
            }
            _ => None,
        }
    }

    /// The only thread that takes from a queue.
    #[must_use]
    pub fn reader(&self, queue: Addr) -> Option<Addr> {
        let one = self.objects.get(&(queue & self.mask))?;
        if one.takers.len() == 1 { one.takers.first().copied() } else { None }
    }

    /// True where this is the address of a thread as the trace stores it.
    #[must_use]
    pub const fn is(&self, thread: Addr, stored: Addr) -> bool {
        thread & self.mask == stored
    }

    fn object(&mut self, address: Addr) -> Option<&mut One> {
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&address) {
            return None;
        }
        Some(self.objects.entry(address).or_default())
    }

    fn take(&mut self, object: Addr, taken: Taken) {
        if let Some(one) = self.object(object).filter(|one| one.held.len() < MAX_THREADS) {
            one.held.push(taken);
        }
    }

    fn put(&mut self, object: Addr, by: Option<Addr>) {
        let Some(one) = self.object(object) else { return };
        if one.putters.len() < MAX_THREADS {
            one.putters.insert(by);
        }
        match one.held.iter().position(|taken| Some(taken.thread) == by) {
            Some(at) => {
                one.held.remove(at);
                one.own_puts = one.own_puts.saturating_add(1);
            }
            None => {
                if !one.held.is_empty() {
                    one.held.remove(0);
                }
            }
        }
    }
}

impl Consumer for Events {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let event = step.event;
        for change in step.changes {
            match *change {
                // Not taken: its caller waits for it.
                Change::Blocked { thread, call: Some(call), .. }
                    if system.thread(thread).is_some_and(|t| matches!(t.state, ThreadState::Blocked(_))) =>
                {
                    let object = call.object.map(|object| system.address(object));
                    if let Some(one) = object.and_then(|object| self.objects.get_mut(&object)) {
                        one.held.retain(|taken| taken.seq != call.seq);
                    }
                }
                // It waited before the first event: whoever put something woke it, so it takes there.
                Change::Readied { thread, waited: None, call: Some(call), .. } => {
                    let puts = system.role_of(call.def).is_some_and(|role| role.put.is_some());
                    let address = system.thread(thread).map(|t| t.address);
                    let object = call.object.filter(|_| puts).map(|object| system.address(object));
                    if let (Some(one), Some(address)) = (object.and_then(|o| self.object(o)), address)
                        && one.takers.len() < MAX_THREADS
                    {
                        one.takers.insert(address);
                    }
                }
                Change::Readied { thread, waited: Some(wait), .. } if wait.ending == Ending::Given => {
                    let Some(call) = wait.call else { continue };
                    let gets = system.role_of(call.def).is_some_and(|role| role.get.is_some());
                    let address = system.thread(thread).map(|t| t.address);
                    if let (true, Some(object), Some(thread)) = (gets, call.object, address) {
                        self.take(system.address(object), Taken { thread, seq: call.seq });
                    }
                }
                _ => {}
            }
        }
        let Some(role) = system.role(event) else { return };
        let words = system.trace.words(event);
        let context = system.trace.contexts.get(event.context);
        let by = context.filter(|c| c.kind == ContextKind::Thread).map(|c| c.address);
        if let (Some(object), Some(thread)) = (role.get.of(words), by) {
            if let Some(one) = self.object(object) {
                if one.takers.len() < MAX_THREADS {
                    one.takers.insert(thread);
                }
            }
            // Without a wait it may have failed.
            let waits = role.wait.of(words).is_some_and(|wait| wait != 0);
            let blocks = system.find_thread(thread).and_then(|no| system.thread(no));
            if waits && !blocks.is_some_and(|t| matches!(t.state, ThreadState::Blocked(_))) {
                self.take(object, Taken { thread, seq: event.seq });
            }
        }
        if let Some(object) = role.put.of(words) {
            self.put(object, by);
        }
    }

    fn gap(&mut self) {
        // Who holds what is not known any more; who reads what is.
        for one in self.objects.values_mut() {
            one.held.clear();
        }
    }
}
