//! `inversions`: a thread waits for a lock that a less urgent thread has. Who had the processor meanwhile shows whether the
//! wait was as long as the owner's work, or as long as that of threads that have nothing to do with it.

#![expect(clippy::arithmetic_side_effects, reason = "counts and indices; ticks are added with saturation")]

mod ran;
mod rows;
mod waiting;
mod window;

use std::collections::BTreeMap;

use super::scope::Scope;
use super::tracker::{Call, Change, ObjectNo, Span, Step, System, ThreadNo, Wait, Who};
use super::{Changes, Making, Needs, Of};
use crate::abi::Addr;
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::report::Report;
use crate::trace::Event;
use ran::Ran;
use waiting::{Waiting, Waits};
use window::{End, Moment, Window};

/// The most waits for locks that are followed at a time.
const MAX_OPEN: usize = 1024;
/// The most inversions that are listed: of more, the longest.
const MAX_ROWS: usize = 10_000;
/// The most cycles that are listed.
const MAX_CYCLES: usize = 8;
/// The most threads whose own priority is remembered while they have inherited another.
const MAX_RAISED: usize = 4096;

/// Threads of which each waits for what the next has, and the last for what the first has.
#[derive(Debug)]
struct Cycle {
    /// The event that closed it.
    seq: u64,
    /// Ticks of that event.
    ticks: i64,
    /// When one of its threads went on.
    to: Option<Moment>,
    /// Who waits for which lock of whom.
    links: Vec<(ThreadNo, ObjectNo, ThreadNo)>,
}

/// An inversion as a period of time: for pictures. Threads and locks are addresses, as the trace stores them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inverted {
    /// Who waits.
    pub waiter: Addr,
    /// The less urgent thread that has the lock.
    pub owner: Addr,
    /// The lock.
    pub lock: Addr,
    /// Of the threads that are less urgent than the waiter, and not the owner, the one that ran longest meanwhile.
    pub culprit: Option<Addr>,
    /// For how many ticks it ran.
    pub ran: i64,
    /// For how many ticks it is not known who ran: an interrupt without an event of its end, or the thread below it.
    pub unknown: i64,
    /// Priorities of waiter and owner, where they are known.
    pub priorities: (Option<u16>, Option<u16>),
    /// Ticks and event with which it began; `None` where that was before the first event.
    pub from: Option<(i64, u64)>,
    /// Ticks and event with which it ended; `None` where it goes on.
    pub to: Option<(i64, u64)>,
}

/// Threads that wait for each other, as a period of time: for pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// Who waits for which lock of the next one, the last for one of the first.
    pub links: Vec<(Addr, Addr)>,
    /// Ticks and event that closed it.
    pub from: (i64, u64),
    /// Ticks and event with which one of them went on; `None` where none did.
    pub to: Option<(i64, u64)>,
}

/// What is counted over all inversions, listed or not.
#[derive(Debug, Default)]
struct Sums {
    inversions: u64,
    deterministic: u64,
    culprits: u64,
    ticks: i64,
    before: u64,
    earlier: u64,
}

/// Follows locks, their owners and those that wait.
#[derive(Debug, Default)]
pub(super) struct Inversions {
    waits: Waits,
    ran: Ran,
    cycles: Vec<Cycle>,
    more_cycles: u64,
    /// On several cores: those that are over, but of which some core has not shown its time yet.
    closing: Vec<Window>,
    done: Vec<Window>,
    /// Those that are still open after the last event.
    open: Vec<Window>,
    sums: Sums,
    /// Priorities that threads have of their own.
    raised: BTreeMap<ThreadNo, u16>,
    /// Ticks up to which each core has shown its time.
    shown: Vec<i64>,
    /// Times that a lock was asked for, waited for, and of these given up unjudged as priorities or the owner are not known.
    asked: u64,
    counted: u64,
    unjudged: u64,
    ownerless: u64,
    lost: u64,
    /// Waits for locks that were open where events are missing.
    cut: u64,
    several: bool,
}

const fn moment(event: &Event) -> Moment {
    Moment { ticks: event.ticks, seq: event.seq }
}

impl Making for Inversions {
    /// It follows waits for locks, and adds up who ran meanwhile.
    const NEEDS: Needs = Needs { spans: true, changes: Changes::UpToEnd, calls: true };

    fn make(of: &Of<'_>) -> Result<Self, Error> {
        Ok(Inversions { several: of.trace.about.cores > 1, ..Inversions::default() })
    }

    fn span(&mut self, span: &Span, system: &System<'_>) {
        if self.several {
            self.span_of_several(span, system);
        } else if !self.waits.is_empty() {
            self.ran.add(span.who, span.to.saturating_sub(span.from), system);
        }
    }

    fn changes(&mut self, step: &Step<'_>, scope: &Scope<'_>, system: &System<'_>) {
        step.changes.iter().for_each(|change| self.change(step.event, change, scope, system));
        if self.ran.is_full() {
            let all: Vec<ThreadNo> = self.waits.threads().collect();
            all.into_iter().for_each(|thread| self.count(thread, system));
            self.ran.clear();
        }
    }

    fn gap(&mut self) {
        self.cut += std::mem::take(&mut self.waits).len() as u64;
        self.ran.clear();
        self.raised.clear();
    }

    fn finish(mut self, scope: &Scope<'_>, system: &System<'_>) -> Vec<Report> {
        self.close_up(system);
        vec![self.report(scope, system)]
    }
}

impl Inversions {
    /// On several cores what delays an owner depends on what it does itself at that time: span by span.
    fn span_of_several(&mut self, span: &Span, system: &System<'_>) {
        let core = usize::from(span.core);
        if core >= self.shown.len() {
            self.shown.resize(core + 1, i64::MIN);
        }
        if let Some(shown) = self.shown.get_mut(core) {
            *shown = span.to;
        }
        if self.waits.is_empty() && self.closing.is_empty() {
            return;
        }
        self.waits.each_window(|window, waits| {
            let on_behalf = matches!(span.who, Who::Thread(no) if waits.is_on_behalf(window.owner, no));
            window.span(span, on_behalf, system);
        });
        for window in &mut self.closing {
            let on_behalf = matches!(span.who, Who::Thread(no) if self.waits.is_on_behalf(window.owner, no));
            window.span(span, on_behalf, system);
        }
        let shown = self.shown.iter().copied().min().unwrap_or(i64::MAX);
        let is_over = |w: &mut Window| w.to.is_none_or(|(to, _)| to.ticks <= shown);
        let over: Vec<Window> = self.closing.extract_if(.., is_over).collect();
        over.into_iter().for_each(|window| self.file(window, system.catalogue));
    }

    fn change(&mut self, event: &Event, change: &Change, scope: &Scope<'_>, system: &System<'_>) {
        match *change {
            Change::Contended { .. } => self.asked += 1,
            Change::Blocked { thread, call, .. } => self.blocks(event, thread, call, scope, system),
            Change::Acquired { lock, thread } => {
                self.asked += 1;
                self.owned(event, lock, thread, scope, system);
            }
            Change::Released { lock } => self.close_all(event, lock, End::Released, scope, system),
            Change::Deleted { object } => self.close_all(event, object, End::Deleted, scope, system),
            Change::Readied { thread, by, waited, call, .. } => {
                self.opens(event, thread);
                if let Some(waiting) = self.went_on(thread, system) {
                    let end = waited.map_or(End::GivenUp, |wait| wait.ending.into());
                    self.close(event, waiting.window, end, scope, system.catalogue);
                } else {
                    self.woken(event, thread, by, (waited, call), scope, system);
                }
            }
            Change::Ended { thread, .. } => {
                self.opens(event, thread);
                if let Some(waiting) = self.went_on(thread, system) {
                    self.close(event, waiting.window, End::Terminated, scope, system.catalogue);
                }
            }
            Change::Priority { thread } => self.priority(thread, system),
            _ => {}
        }
    }

    /// A thread blocks.
    fn blocks(&mut self, event: &Event, thread: ThreadNo, call: Option<Call>, scope: &Scope<'_>, system: &System<'_>) {
        // One that blocks again was woken, though no event says so.
        self.went_on(thread, system);
        let (Some(lock), Some(call)) = (system.lock_of(call), call) else { return };
        if self.waits.len() >= MAX_OPEN {
            self.lost += 1;
            return;
        }
        let kept = scope.keeps_wait(thread, Some(call), system);
        let counts = u64::from(scope.inside && kept);
        self.counted += counts;
        let owner = system.lock(lock).and_then(|l| l.owner);
        if owner.is_none() {
            self.ownerless += counts;
        }
        let window = owner.and_then(|owner| self.window(event, lock, thread, owner, kept, system));
        self.count_behind(thread, system);
        self.waits.insert(thread, Waiting { lock, kept, owner, window });
        self.waits.each_behind(thread, |window| {
            window.owner_waits.get_or_insert(lock);
        });
        self.settle(thread, system);
        if scope.inside {
            self.closes(event, thread);
        }
    }

    /// What is known of a window from its beginning on.
    fn settle(&mut self, waiter: ThreadNo, system: &System<'_>) {
        let owner = self.waits.get(waiter).and_then(|w| w.owner);
        let next = owner.and_then(|o| self.waits.get(o)).map(|w| w.lock);
        if let Some(window) = self.waits.window_mut(waiter) {
            window.owner_waits = window.owner_waits.or(next);
        }
        if let Some(owner) = owner {
            self.priority(owner, system);
        }
    }

    /// A thread waits no more: what it waited for and through; `None` where it did not wait.
    fn went_on(&mut self, thread: ThreadNo, system: &System<'_>) -> Option<Waiting> {
        self.waits.get(thread)?;
        self.count(thread, system);
        self.count_behind(thread, system);
        let waiting = self.waits.remove(thread);
        if self.waits.is_empty() {
            self.ran.clear();
        }
        waiting
    }

    /// Counts the time up to now in the window of a thread.
    fn count(&mut self, thread: ThreadNo, system: &System<'_>) {
        if self.several {
            return;
        }
        let Some(mut window) = self.waits.take_window(thread) else { return };
        let path = self.waits.path(window.owner);
        self.ran.since(window.counted, |share| {
            let on_behalf = matches!(share.who, Who::Thread(no) if path.contains(&no));
            window.take(&share, on_behalf, None, system);
        });
        window.counted = self.ran.now();
        self.waits.put_window(thread, window);
    }

    /// A thread begins to wait, or goes on: who waits for it, directly or through others, had others to wait for up to now.
    fn count_behind(&mut self, thread: ThreadNo, system: &System<'_>) {
        if !self.several {
            self.waits.behind(thread).into_iter().for_each(|waiter| self.count(waiter, system));
        }
    }

    /// A window, unless it is known that nothing is inverted.
    fn window(
        &mut self,
        event: &Event,
        lock: ObjectNo,
        waiter: ThreadNo,
        owner: ThreadNo,
        kept: bool,
        system: &System<'_>,
    ) -> Option<Window> {
        if waiter == owner {
            return None;
        }
        let mut window = Window::new(lock, waiter, owner, Some(moment(event)));
        window.waiter_priority = system.thread(waiter).and_then(|t| t.priority);
        window.owner_priority = self.own_priority(owner, system);
        window.kept = kept;
        window.counted = self.ran.now();
        window.begin(system);
        (window.inverts(system.catalogue) != Some(false)).then_some(window)
    }

    /// A thread's priority, without what it has inherited.
    fn own_priority(&self, thread: ThreadNo, system: &System<'_>) -> Option<u16> {
        let now = system.thread(thread).and_then(|t| t.priority);
        let own = self.raised.get(&thread).copied();
        match (now, own) {
            (Some(now), Some(own)) if system.catalogue.is_more_urgent(own, now) => Some(now),
            (now, own) => own.or(now),
        }
    }

    /// The priority of a thread that others may wait for: its own event is the one that shows it.
    fn priority(&mut self, owner: ThreadNo, system: &System<'_>) {
        let Some(now) = system.thread(owner).and_then(|t| t.priority) else { return };
        let urgent = |a, b| system.catalogue.is_more_urgent(a, b);
        let mut raised = None;
        self.waits.each_behind(owner, |window| match (window.owner_priority, window.waiter_priority) {
            (None, Some(waiter)) if urgent(waiter, now) => window.owner_priority = Some(now),
            (Some(own), Some(waiter)) if urgent(waiter, own) && !urgent(waiter, now) => {
                window.inherited = true;
                raised = Some(own);
            }
            _ => {}
        });
        if let Some(own) = raised.filter(|_| self.raised.len() < MAX_RAISED) {
            self.raised.insert(owner, own);
        }
    }

    fn close(&mut self, event: &Event, window: Option<Window>, end: End, scope: &Scope<'_>, catalogue: &Catalogue) {
        let Some(mut window) = window else { return };
        // What began before the window of the report is listed where the filters keep its end.
        window.earlier = window.from.is_some_and(|from| scope.is_before(from.ticks));
        if !scope.inside || !(scope.keeps || window.kept && !window.earlier) {
            return;
        }
        window.to = Some((moment(event), end));
        if self.several && self.closing.len() < MAX_OPEN {
            self.closing.push(window);
        } else {
            self.file(window, catalogue);
        }
    }

    /// Counts one that is over.
    fn file(&mut self, window: Window, catalogue: &Catalogue) {
        match window.inverts(catalogue) {
            Some(false) => return,
            None => {
                self.unjudged += 1;
                return;
            }
            Some(true) => {}
        }
        self.sums.add(&window, 0);
        self.done.push(window);
        if self.done.len() >= MAX_ROWS.saturating_mul(2) {
            self.thin();
        }
    }

    /// Keeps the longest.
    fn thin(&mut self) {
        self.done.sort_by_key(|w| std::cmp::Reverse(w.ticks(i64::MAX)));
        self.done.truncate(MAX_ROWS);
    }

    /// The windows of a lock are over: it was given back, or deleted.
    fn close_all(&mut self, event: &Event, lock: ObjectNo, end: End, scope: &Scope<'_>, system: &System<'_>) {
        for waiter in self.waits.of_lock(lock) {
            self.count(waiter, system);
            let window = self.waits.take_window(waiter);
            self.close(event, window, end, scope, system.catalogue);
        }
    }

    /// A lock has another owner: who waits still, waits for that one.
    fn owned(&mut self, event: &Event, lock: ObjectNo, owner: ThreadNo, scope: &Scope<'_>, system: &System<'_>) {
        self.close_all(event, lock, End::Released, scope, system);
        for waiter in self.waits.of_lock(lock) {
            let Some(kept) = self.waits.get(waiter).map(|w| w.kept).filter(|_| waiter != owner) else { continue };
            self.count_behind(waiter, system);
            let window = self.window(event, lock, waiter, owner, kept, system);
            self.waits.set_owner(waiter, owner, window);
            self.settle(waiter, system);
        }
    }

    /// A thread is woken that was not seen to wait.
    fn woken(
        &mut self,
        event: &Event,
        thread: ThreadNo,
        by: Who,
        (waited, call): (Option<Wait>, Option<Call>),
        scope: &Scope<'_>,
        system: &System<'_>,
    ) {
        if let (None, Who::Thread(owner)) = (waited, by)
            && owner != thread
            && let Some(call) = call.filter(|c| system.role_of(c.def).is_some_and(|r| r.release.is_some()))
            && let Some(lock) = call.object
            && system.lock(lock).is_none_or(|l| l.owner.is_none_or(|owner| owner == thread))
        {
            // Giving a lock back wakes only a thread that waited for it: since before the first event.
            self.counted += u64::from(scope.inside && scope.keeps);
            let mut window = Window::new(lock, thread, owner, None);
            window.waiter_priority = system.thread(thread).and_then(|t| t.priority);
            window.owner_priority = self.own_priority(owner, system);
            self.close(event, Some(window), End::Released, scope, system.catalogue);
        }
    }

    /// A thread begins to wait: where that closes a cycle, none of its threads can go on.
    fn closes(&mut self, event: &Event, thread: ThreadNo) {
        let Some(owner) = self.waits.get(thread).and_then(|w| w.owner) else { return };
        let path = self.waits.path(owner);
        if !path.contains(&thread) {
            return;
        }
        let mut links = Vec::new();
        let mut at = thread;
        while let Some((lock, owner)) = self.waits.get(at).and_then(|w| Some((w.lock, w.owner?))) {
            links.push((at, lock, owner));
            if let Some(window) = self.waits.window_mut(at) {
                window.cycle = true;
            }
            at = owner;
            if at == thread {
                break;
            }
        }
        if self.cycles.len() < MAX_CYCLES {
            self.cycles.push(Cycle { seq: event.seq, ticks: event.ticks, to: None, links });
        } else {
            self.more_cycles += 1;
        }
    }

    /// A thread goes on: the cycles that it is part of are open again.
    fn opens(&mut self, event: &Event, thread: ThreadNo) {
        let of_it = |c: &&mut Cycle| c.to.is_none() && c.links.iter().any(|(waiter, ..)| *waiter == thread);
        self.cycles.iter_mut().filter(of_it).for_each(|cycle| cycle.to = Some(moment(event)));
    }

    /// What was found as periods of time. At most so many as the report lists.
    pub(super) fn marks(&mut self, system: &System<'_>) -> (Vec<Inverted>, Vec<Circle>) {
        self.close_up(system);
        let address = |no| system.thread(no).map_or(0, |thread| thread.address);
        let pair = |moment: Moment| (moment.ticks, moment.seq);
        let inverted = |window: &Window| Inverted {
            waiter: address(window.waiter),
            owner: address(window.owner),
            lock: system.address(window.lock),
            culprit: window.worst().map(|(no, _)| address(no)),
            ran: window.worst().map_or(0, |(_, ticks)| ticks),
            unknown: window.unknown_ticks,
            priorities: (window.waiter_priority, window.owner_priority),
            from: window.from.map(pair),
            to: window.to.map(|(to, _)| pair(to)),
        };
        let circle = |cycle: &Cycle| Circle {
            links: cycle.links.iter().map(|(waiter, lock, _)| (address(*waiter), system.address(*lock))).collect(),
            from: (cycle.ticks, cycle.seq),
            to: cycle.to.map(pair),
        };
        let spans = self.done.iter().chain(&self.open).map(inverted).collect();
        (spans, self.cycles.iter().map(circle).collect())
    }

    /// At the end of the trace: what is still open.
    fn close_up(&mut self, system: &System<'_>) {
        for window in std::mem::take(&mut self.closing) {
            self.file(window, system.catalogue);
        }
        let all: Vec<ThreadNo> = self.waits.threads().collect();
        all.iter().for_each(|thread| self.count(*thread, system));
        let windows = all.into_iter().filter_map(|thread| self.waits.remove(thread)?.window);
        for window in windows.filter(|w| w.kept) {
            match window.inverts(system.catalogue) {
                Some(true) => self.open.push(window),
                Some(false) => {}
                None => self.unjudged += 1,
            }
        }
        if self.done.len() > MAX_ROWS {
            self.thin();
        }
    }
}

impl Sums {
    /// Counts an inversion; one that is open lasts up to `now`.
    fn add(&mut self, window: &Window, now: i64) {
        let one = |yes| u64::from(yes);
        self.inversions += 1;
        self.deterministic += one(window.deterministic() == Some(true));
        self.culprits += one(window.deterministic() == Some(false));
        self.before += one(window.from.is_none());
        self.earlier += one(window.earlier);
        self.ticks = self.ticks.saturating_add(window.ticks(now).unwrap_or(0));
    }
}
