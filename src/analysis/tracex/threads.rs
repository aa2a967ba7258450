//! What the viewer shows of each thread: events, time, stack, services, states.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use super::contexts::{Context, Contexts, join, widen};
use super::next::Step;
use super::raw::{INIT, ISR, id};
use crate::abi::Addr;
use crate::trace::Trace;

/// A thread as the viewer has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its control block.
    pub address: Addr,
    /// Its name in the viewer.
    pub name: String,
    /// How many entries of the same the viewer makes.
    pub copies: u64,
    /// False for one that no registry names: nothing is known of its stack, and its thresholds are not set.
    pub registered: bool,
    /// Events in its context, inserted ones included.
    pub events: u64,
    /// Suspensions in its context.
    pub suspensions: u64,
    /// Resumptions in its context.
    pub resumptions: u64,
    /// Largest and smallest number of its priority.
    pub priorities: Option<(u32, u32)>,
    /// The same of its preemption threshold, by a rule that forgets.
    pub low_threshold: Option<u32>,
    /// See `low_threshold`.
    pub high_threshold: Option<u32>,
    /// Time after events that it is next after.
    pub ticks: u64,
    /// Bytes of its stack.
    pub stack_size: u32,
    /// The least that was left of it.
    pub min_available: u32,
    /// The event that shows it, by its number in the viewer's list; 0 for none.
    pub min_event: u64,
    /// The sequence number of that event; `None` where there is none.
    pub min_seq: Option<u64>,
    /// Ids and how often, the most frequent first.
    pub services: Vec<(u32, u64)>,
    /// Numbers of events and states, where they were asked for: 99 is ready, 0 unknown, else the kernel's number.
    pub states: Vec<(u64, u32)>,
}

/// How often each id was seen, by dense number.
#[derive(Debug, Default, Clone)]
pub(super) struct Ids {
    number: Vec<u16>,
    ids: Vec<u32>,
}

impl Ids {
    /// The dense number of an id, from 0.
    pub fn of(&mut self, event: u32) -> usize {
        if self.number.is_empty() {
            self.number = vec![0; 0x1_0000];
        }
        let Some(number) = usize::try_from(event).ok().and_then(|e| self.number.get_mut(e)) else { return 0 };
        if *number == 0 {
            self.ids.push(event);
            // 65,536 ids are one more than fit; the last shares.
            *number = u16::try_from(self.ids.len()).unwrap_or(u16::MAX);
        }
        usize::from(*number).saturating_sub(1)
    }

    /// Ids and counts, the most frequent first.
    pub fn sorted(&self, counts: &[u64]) -> Vec<(u32, u64)> {
        let mut list: Vec<(u32, u64)> = self.ids.iter().copied().zip(counts.iter().copied()).collect();
        list.retain(|(_, n)| *n > 0);
        list.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        list
    }
}

/// Adds one to a counter that may not be there yet.
pub(super) fn count(counts: &mut Vec<u64>, at: usize) {
    if at >= counts.len() {
        counts.resize(at + 1, 0);
    }
    if let Some(n) = counts.get_mut(at) {
        *n += 1;
    }
}

/// No kernel registers a thread so often: further entries of a damaged registry are not followed.
const MAX_STACKS: usize = 64;

/// The stack of one entry of the registry.
#[derive(Debug, Clone, Copy, Default)]
struct Stack {
    base: u32,
    size: u32,
    /// The least that was left, and the event that shows it: its number and its sequence number.
    least: u32,
    event: u64,
    seq: Option<u64>,
}

impl Stack {
    fn new(base: u32, size: u32) -> Self {
        Self { base, size, least: size, ..Self::default() }
    }

    /// A pointer below the stack leaves nothing of it.
    fn pointer(&mut self, pointer: u32, step: &Step) {
        let left = pointer.saturating_sub(self.base);
        if pointer < self.base || left < self.least {
            (self.least, self.event, self.seq) = (left, step.index, Some(step.raw.seq));
        }
    }
}

/// What one context adds up.
#[derive(Debug, Clone, Default)]
struct Sums {
    suspensions: u64,
    resumptions: u64,
    ticks: u64,
    /// One for each entry of the registry that is a thread of this address, in the registry's order.
    stacks: Vec<Stack>,
    counts: Vec<u64>,
    states: Vec<(u64, u32)>,
    /// Lowest and highest priority of inserted events.
    levels: Option<(u32, u32)>,
    /// Most and least threshold of inserted events.
    thresholds: Option<(u32, u32)>,
}

/// Adds up for everybody.
pub(super) struct Adding {
    sums: Vec<Sums>,
    pub idle: u64,
    pub interrupt: u64,
    /// Who has the time since the last event.
    since: Option<(u32, u64)>,
    last: (u32, Option<usize>),
    with_states: bool,
    /// The first thread of the list: the viewer takes contexts that it does not know for it.
    first_thread: Option<usize>,
}

/// The viewer's word for a thread that is ready.
const READY: u32 = 99;

impl Adding {
    pub fn new(trace: &Trace, contexts: &Contexts, with_states: bool) -> Self {
        let mut sums = vec![Sums { states: vec![(0, 0)], ..Sums::default() }; contexts.list.len()];
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
        let mut first_thread = None;
        for object in trace.objects.iter().filter(|o| o.is_thread) {
            let Some(at) = contexts.at(low(object.address)) else { continue };
            first_thread = first_thread.or(Some(at));
            if let Some(sum) = sums.get_mut(at) {
                sum.stacks.push(Stack::new(low(object.param1), low(object.param2)));
            }
        }
        let first_thread = first_thread.or(contexts.unnamed.first().copied());
        Self { sums, idle: 0, interrupt: 0, since: None, last: (0, None), with_states, first_thread }
    }

    pub fn step(&mut self, step: &Step, contexts: &Contexts, number: usize) {
        if let Some((who, from)) = self.since.replace((step.next, step.ticks)) {
            self.spend(who, step.ticks.saturating_sub(from), contexts);
        }
        if self.with_states {
            self.state(step, contexts);
        }
        let Some(sum) = step.who.and_then(|w| self.sums.get_mut(w)) else { return };
        count(&mut sum.counts, number);
        match step.raw.id {
            id::SUSPEND => sum.suspensions += 1,
            id::RESUME => sum.resumptions += 1,
            _ => {}
        }
        if let Some(pointer) = stack_word(step.raw.id).and_then(|w| step.raw.info.get(w)) {
            sum.stacks.iter_mut().take(MAX_STACKS).for_each(|stack| stack.pointer(*pointer, step));
        }
        if !step.inserted {
            return;
        }
        // What an inserted event shows of its thread counts too.
        if step.who.and_then(|w| contexts.list.get(w)).is_some_and(|p| p.is_thread() && p.first.is_some()) {
            sum.levels = Some(widen(sum.levels, step.raw.second));
        }
        if let Some(threshold) = step.raw.threshold {
            let (most, least) = sum.thresholds.unwrap_or((threshold, threshold));
            sum.thresholds = Some((most.max(threshold), least.min(threshold)));
        }
    }

    fn spend(&mut self, who: u32, ticks: u64, contexts: &Contexts) {
        let sum = match who {
            0 => &mut self.idle,
            ISR => &mut self.interrupt,
            _ => {
                if self.last.0 != who {
                    self.last = (who, contexts.at(who));
                }
                let Some(sum) = self.last.1.and_then(|w| self.sums.get_mut(w)) else { return };
                &mut sum.ticks
            }
        };
        *sum = sum.saturating_add(ticks);
    }

    fn state(&mut self, step: &Step, contexts: &Contexts) {
        let raw = &step.raw;
        if !matches!(raw.id, id::RESUME | id::SUSPEND) {
            if raw.context == 0 || raw.context >= INIT {
                return;
            }
            // An inserted event is no thread's where another object is registered at its address.
            let unnamed = |p: &Context| p.unnamed.is_some() && !step.inserted;
            let who = step.who.filter(|w| contexts.list.get(*w).is_some_and(|p| p.is_thread() || unnamed(p)));
            if let Some(first) =
                who.or(self.first_thread).and_then(|w| self.sums.get_mut(w)).and_then(|s| s.states.first_mut())
                && first.1 == 0
            {
                first.1 = READY;
            }
            return;
        }
        let Some(sum) = contexts.at(raw.info[0]).and_then(|w| self.sums.get_mut(w)) else { return };
        let resumes = raw.id == id::RESUME;
        if let Some(last) = sum.states.last_mut().filter(|l| l.1 == 0) {
            last.1 = if resumes { raw.info[1] } else { READY };
        }
        sum.states.push((step.index, if resumes { READY } else { raw.info[1] }));
    }

    /// The threads in the viewer's order: the registry's, then the others.
    pub fn finish(&self, trace: &Trace, contexts: &mut Contexts, ids: &Ids) -> Vec<Thread> {
        for (context, sum) in contexts.list.iter_mut().zip(&self.sums) {
            context.levels = context.levels.into_iter().chain(sum.levels).reduce(join);
            if let Some((most, least)) = sum.thresholds {
                context.widen_threshold(most, least);
            }
        }
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
        let mut threads = Vec::new();
        // By context: how many entries of the registry were it so far.
        let mut entries = vec![0usize; contexts.list.len()];
        for (number, object) in trace.objects.iter().enumerate().filter(|(_, o)| o.is_thread) {
            let Some(at) = contexts.at(low(object.address)) else { continue };
            let mut thread = self.thread(contexts, at, ids);
            let entry = entries.get_mut(at).map_or(0, |n| std::mem::replace(n, n.saturating_add(1)));
            let stack = self.sums.get(at).and_then(|s| s.stacks.get(entry)).copied().unwrap_or_default();
            (thread.stack_size, thread.min_available) = (stack.size, stack.least);
            (thread.min_event, thread.min_seq) = (stack.event, stack.seq);
            // A search never finds a second entry of the same address.
            let first = contexts.list.get(at).and_then(|p| p.object).is_some_and(|(o, _)| o == number);
            if !first {
                thread.priorities = object.priority.map(|p| (u32::from(p & 0x3FF), u32::from(p & 0x3FF)));
                (thread.low_threshold, thread.high_threshold) = (None, None);
            }
            thread.name = name(&object.name);
            thread.registered = true;
            threads.push(thread);
        }
        for at in contexts.unnamed.clone() {
            let mut thread = self.thread(contexts, at, ids);
            thread.copies = contexts.copies(at);
            "Un-named Thread".clone_into(&mut thread.name);
            threads.push(thread);
        }
        threads
    }

    fn thread(&self, contexts: &Contexts, at: usize, ids: &Ids) -> Thread {
        let (Some(context), Some(sum)) = (contexts.list.get(at), self.sums.get(at)) else { return Thread::default() };
        Thread {
            address: u64::from(context.address),
            copies: 1,
            events: sum.counts.iter().fold(0, |n, c| n.saturating_add(*c)),
            suspensions: sum.suspensions,
            resumptions: sum.resumptions,
            priorities: context.levels,
            low_threshold: context.low_threshold,
            high_threshold: context.high_threshold,
            ticks: sum.ticks,
            services: ids.sorted(&sum.counts),
            states: if self.with_states { sum.states.clone() } else { Vec::new() },
            ..Thread::default()
        }
    }
}

/// The name as the viewer shows it.
fn name(name: &str) -> String {
    if name.starts_with(|c| (' '..='~').contains(&c)) { name.to_owned() } else { "Non-ASCII Name".to_owned() }
}

/// The word with the stack pointer, by id.
const fn stack_word(event: u32) -> Option<usize> {
    match event {
        3 | 4 | 109 => Some(0),
        12 | 22 | 30 | 31 | 40 | 51 | 61 | 62 | 82 | 101 | 120 | 125 | 127 => Some(1),
        1 | 2 | 16 | 26 | 50 | 56 | 67 | 81 | 87 | 100 | 102 | 111 | 112 | 114 | 115 | 117 => Some(2),
        17 | 21 | 57 | 83 | 88 => Some(3),
        _ => None,
    }
}
