//! Who the viewer thinks runs after each event, and the events that it inserts where that does not show.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

use std::ops::ControlFlow;

use super::contexts::{Contexts, Priority};
use super::raw::{ISR, Order, Raw, id, is_thread};
use crate::trace::Trace;

/// An event, its own or inserted, with the viewer's opinion of what follows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub raw: Raw,
    /// Who runs until the next event: a context word, 0 for idle.
    pub next: u32,
    pub ticks: u64,
    /// Its number in the viewer's list.
    pub index: u64,
    /// True for one that is not in the buffer.
    pub inserted: bool,
    /// The person whose context it is.
    pub who: Option<usize>,
}

/// No event.
const NONE: u32 = u32::MAX;

/// What later events decide. Empty where nothing asks, which is the usual: kernels store who comes next.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// For each event of a thread that asks, in order: who comes next.
    next: Vec<u32>,
    /// For each event: the next one of the same context. Only where an ISR asks.
    same: Vec<u32>,
    /// For each person: its first event.
    first: Vec<u32>,
}

impl Ahead {
    /// Looks at every event once, where anything asks.
    pub fn of(trace: &Trace, order: &Order, contexts: &Contexts) -> Self {
        let mut ahead = Self { first: vec![NONE; contexts.list.len()], ..Self::default() };
        if !contexts.needs.later() {
            return ahead;
        }
        let mut last = vec![NONE; contexts.list.len()];
        // The thread's event that waits for its answer: its words, and the threads that are scheduled meanwhile.
        let mut waiting: Option<Raw> = None;
        let mut scheduled: Vec<u32> = Vec::new();
        let mut count = 0u32;
        order.visit(trace, |raw| {
            let index = count;
            count += 1;
            if contexts.needs.first_of_two {
                ahead.same.push(NONE);
                if let Some(who) = contexts.who(raw) {
                    let before = last.get_mut(who).map(|l| std::mem::replace(l, index));
                    match before.and_then(|b| ahead.same.get_mut(usize::try_from(b).ok()?)) {
                        Some(place) => *place = index,
                        None => ahead.first.iter_mut().skip(who).take(1).for_each(|f| *f = index),
                    }
                }
            }
            if is_thread(raw.context) {
                if let Some(asked) = waiting.take() {
                    ahead.next.push(answer(&asked, raw.context, &scheduled));
                }
                scheduled.clear();
                waiting = Some(*raw).filter(asks);
            } else if waiting.is_some()
                && matches!(raw.id, id::RESUME | id::SUSPEND)
                && !scheduled.contains(&raw.info[0])
            {
                scheduled.push(raw.info[0]);
            }
            ControlFlow::Continue(())
        });
        ahead.next.extend(waiting.map(|asked| asked.context));
        ahead
    }
}

/// True for an event of a thread that a later one decides.
const fn asks(raw: &Raw) -> bool {
    let [_, second, _, fourth] = raw.info;
    (raw.id == id::RESUME && fourth == 0) || (raw.id == id::RELINQUISH && second == 0)
}

/// Who comes after such an event, given the next thread that inserts one.
fn answer(asked: &Raw, thread: u32, scheduled: &[u32]) -> u32 {
    let follows = if asked.id == id::RESUME { asked.info[0] == thread } else { !scheduled.contains(&thread) };
    if follows { thread } else { asked.context }
}

/// Goes through the events in the viewer's order and hands each out when all is known of it, until `each` breaks.
pub(super) fn walk(
    trace: &Trace,
    order: &Order,
    contexts: &Contexts,
    ahead: &Ahead,
    mut each: impl FnMut(&Step) -> ControlFlow<()>,
) {
    let mut pass = Pass {
        order,
        contexts,
        ahead,
        current: 0,
        nesting: 0,
        asked: 0,
        upcoming: ahead.first.clone(),
        known: vec![None; contexts.list.len()],
        inserted: 0,
    };
    let mut held: Option<Step> = None;
    let mut waiting: Option<Raw> = None;
    let mut index = 0u64;
    // What follows an event decides who is next: each is taken when the one after it is known.
    let mut take = |raw: &Raw, after: Option<&Raw>| {
        let ticks = held.as_ref().map_or(0, |b| b.ticks.saturating_add(order.step(b.raw.stamp, raw.stamp)));
        let next = pass.next(raw, index, after, held.as_mut());
        let step = Step { raw: *raw, next, ticks, index, inserted: false, who: contexts.who(raw) };
        index += 1;
        if let Some(before) = &mut held {
            pass.hand_out(before, Some(&step), &mut each)?;
        }
        let step = held.insert(step);
        if after.is_none() { pass.hand_out(step, None, &mut each) } else { ControlFlow::Continue(()) }
    };
    let mut flow = ControlFlow::Continue(());
    order.visit(trace, |raw| {
        if let Some(before) = waiting.replace(*raw) {
            flow = take(&before, Some(raw));
        }
        flow
    });
    if let Some(last) = waiting.filter(|_| flow.is_continue()) {
        let _ = take(&last, None);
    }
}

struct Pass<'a> {
    order: &'a Order,
    contexts: &'a Contexts,
    ahead: &'a Ahead,
    /// The thread that has the processor when no interrupt does.
    current: u32,
    nesting: u64,
    /// How many answers of `ahead.next` were taken.
    asked: usize,
    /// By person: its next event.
    upcoming: Vec<u32>,
    /// By person: its priority so far.
    known: Vec<Option<Priority>>,
    inserted: u64,
}

impl Pass<'_> {
    fn next(&mut self, raw: &Raw, index: u64, after: Option<&Raw>, before: Option<&mut Step>) -> u32 {
        if !self.ahead.same.is_empty()
            && let Some(who) = self.contexts.who(raw)
            && let Some(upcoming) = self.upcoming.get_mut(who)
        {
            *upcoming = usize::try_from(index).ok().and_then(|i| self.ahead.same.get(i)).copied().unwrap_or(NONE);
        }
        if !is_thread(raw.context) {
            return self.next_of_interrupt(raw, index, after, before);
        }
        self.nesting = 0;
        let [first, second, _, fourth] = raw.info;
        self.current = match raw.id {
            // A thread that suspends itself and goes on lends its priority to the owner of a mutex.
            id::SUSPEND if first == raw.context && after.is_some_and(|a| a.context == first) => raw.context,
            id::SUSPEND => fourth,
            _ if asks(raw) => {
                let answer = self.ahead.next.get(self.asked).copied();
                self.asked += 1;
                answer.unwrap_or(raw.context)
            }
            id::RESUME => fourth,
            id::RELINQUISH => second,
            _ => after.map(|a| a.context).filter(|c| is_thread(*c)).unwrap_or(raw.context),
        };
        self.current
    }

    fn next_of_interrupt(&mut self, raw: &Raw, index: u64, after: Option<&Raw>, before: Option<&mut Step>) -> u32 {
        if raw.context == ISR
            && raw.second != 0
            && raw.second != ISR
            && index > 1
            && let Some(before) = before.filter(|b| b.raw.context != ISR)
        {
            // The kernel says whom the interrupt found.
            before.next = raw.second;
            self.current = raw.second;
        }
        let [first, _, _, fourth] = raw.info;
        match raw.id {
            id::ISR_ENTER => self.nesting += 1,
            id::ISR_EXIT => self.nesting = self.nesting.saturating_sub(1),
            id::SUSPEND => self.current = fourth,
            id::TIME_SLICE => self.current = first,
            id::RESUME if fourth != 0 => self.current = fourth,
            id::RESUME => {
                let when =
                    |address| self.contexts.at(address).and_then(|p| self.upcoming.get(p)).copied().unwrap_or(NONE);
                if when(first) < when(self.current) {
                    self.current = first;
                }
            }
            _ => {}
        }
        if self.nesting > 0 {
            return raw.context;
        }
        match after {
            None => self.current,
            Some(after) if after.context == ISR && after.id != id::RESUME => {
                if after.second == 0 {
                    self.current
                } else {
                    after.second
                }
            }
            Some(after) => after.context,
        }
    }

    /// Hands out an event, and the one that is inserted after it.
    fn hand_out(
        &mut self,
        step: &mut Step,
        after: Option<&Step>,
        each: &mut impl FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        step.index = step.index.saturating_add(self.inserted);
        each(step)?;
        if let Some(after) = after.filter(|a| step.next != step.raw.context && step.next != a.raw.context) {
            self.inserted += 1;
            let gap = self.order.step(step.raw.stamp, after.raw.stamp);
            let who = if is_thread(step.next) && step.next != 0 { self.contexts.at(step.next) } else { None };
            let thread = who.and_then(|w| self.contexts.list.get(w)).filter(|p| p.is_thread());
            let known = who.and_then(|w| self.known.get(w).copied().flatten()).filter(|k| k.level != u32::MAX);
            let priority = known.or_else(|| thread.and_then(|p| p.first)).filter(|_| thread.is_some());
            each(&Step {
                raw: Raw {
                    context: step.next,
                    number: usize::MAX,
                    second: priority.map_or(0, |p| p.level),
                    threshold: priority.and_then(|p| p.threshold),
                    id: id::RUNNING,
                    info: [0; 4],
                    ..step.raw
                },
                next: step.next,
                // Cut to the 32 bits that are compared.
                ticks: step.ticks.saturating_add(if gap & 0xFFFF_FFFF > 12 { 12 } else { 0 }),
                index: step.index.saturating_add(1),
                inserted: true,
                who,
            })?;
        }
        self.learn(&step.raw);
        ControlFlow::Continue(())
    }

    fn learn(&mut self, raw: &Raw) {
        if raw.id == id::RUNNING {
            return;
        }
        if raw.id == id::THREAD_CREATE
            && let Some(known) = self.contexts.at(raw.info[0]).and_then(|p| self.known.get_mut(p))
        {
            *known = Some(Priority { level: raw.info[1], threshold: None });
        }
        // One that creates itself: its own event is looked at first.
        if let Some(known) = self.contexts.who(raw).and_then(|p| self.known.get_mut(p)) {
            *known = Some(Priority { level: raw.second, threshold: raw.threshold });
        }
    }
}
