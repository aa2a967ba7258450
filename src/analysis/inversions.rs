//! `inversions`: a thread waits for a lock that a less urgent thread has. Who had the processor meanwhile tells whether the
//! wait was as long as the owner's work, or as long as that of threads that have nothing to do with it.

mod rows;
mod window;

use std::collections::{BTreeMap, HashMap};

use super::waits::{Ending, ending};
use super::{Call, Change, Seen, Span, ThreadNo, Tracker, Visitor, Who, Whole};
use crate::abi::Addr;
use crate::catalogue::Catalogue;
use crate::report::Report;
use crate::trace::Event;
use window::{End, Moment, Window};

/// The most waits for locks that are followed at a time.
const MOST_OPEN: usize = 256;
/// The most inversions that are listed: of more, the longest.
const MOST_ROWS: usize = 10_000;
/// The most cycles that are listed.
const MOST_CYCLES: usize = 8;
/// The most threads whose own priority is remembered while another is lent to them.
const MOST_RAISED: usize = 4096;

/// A thread that waits for a lock.
#[derive(Debug)]
struct Waiting {
    thread: ThreadNo,
    lock: Addr,
    kept: bool,
    /// Who has the lock, or had it last: giving back is its owner's work still.
    owner: Option<ThreadNo>,
}

/// Threads of which each waits for what the next has, and the last for what the first has.
#[derive(Debug)]
struct Cycle {
    /// The event that closed it.
    seq: u64,
    /// Who waits for which lock of whom.
    links: Vec<(ThreadNo, Addr, ThreadNo)>,
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
pub struct Inversions {
    waiting: Vec<Waiting>,
    /// Whom each of them waits for.
    owners: HashMap<ThreadNo, ThreadNo>,
    cycles: Vec<Cycle>,
    more_cycles: u64,
    /// What each of them waits through now, in the same order; a new one each time that the lock gets another owner.
    windows: Vec<Option<Window>>,
    /// Those that are over, but of which some core has not told its time yet.
    closing: Vec<Window>,
    done: Vec<Window>,
    sums: Sums,
    /// Priorities that threads have of their own.
    raised: BTreeMap<ThreadNo, u16>,
    /// What was put there last: a span after the other tells the same.
    last_raised: Option<(ThreadNo, u16)>,
    /// Ticks up to which each core has told its time.
    told: Vec<i64>,
    /// The last event that the filters keep, by context.
    last_kept: Vec<Option<u64>>,
    /// Times that a lock was asked for, and given up unjudged because priorities or the owner are not known.
    asked: u64,
    waits: u64,
    unjudged: u64,
    ownerless: u64,
    lost: u64,
    begun: Option<i64>,
    several: bool,
}

impl Inversions {
    fn blocks(&mut self, seen: &Seen<'_>, thread: ThreadNo, call: Option<Call>, tracker: &Tracker<'_>) {
        // One that blocks again was woken, though no event says so.
        if let Some(at) = self.waiting.iter().position(|w| w.thread == thread) {
            self.waiting.remove(at);
            self.windows.remove(at);
            self.relink();
        }
        let (Some(lock), Some(call)) = (tracker.lock_of(call), call) else { return };
        if self.waiting.len() >= MOST_OPEN {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        let context = tracker.thread(thread).and_then(|th| th.context).and_then(|c| usize::try_from(c.0).ok());
        let last = context.and_then(|c| self.last_kept.get(c).copied().flatten());
        let kept = seen.kept || !seen.inside || last.is_some_and(|last| last >= call.seq);
        self.waits = self.waits.saturating_add(u64::from(seen.inside && kept));
        let owner = tracker.lock(lock).and_then(|l| l.owner);
        if owner.is_none() {
            self.ownerless = self.ownerless.saturating_add(u64::from(seen.inside && kept));
        }
        let window = owner.and_then(|owner| self.window(lock, thread, owner, moment(seen.event), kept, tracker));
        self.waiting.push(Waiting { thread, lock, kept, owner });
        self.windows.push(window);
        self.relink();
        if seen.inside {
            self.closes(seen.event.seq, thread);
        }
    }

    /// A thread waits no more: what it waited through; `None` where it did not wait.
    fn went_on(&mut self, thread: ThreadNo) -> Option<Option<Window>> {
        let at = self.waiting.iter().position(|w| w.thread == thread)?;
        self.waiting.swap_remove(at);
        let window = self.windows.swap_remove(at);
        self.relink();
        Some(window)
    }

    /// A window, unless it is known that nothing is inverted.
    fn window(
        &self,
        lock: Addr,
        waiter: ThreadNo,
        owner: ThreadNo,
        from: Moment,
        kept: bool,
        tracker: &Tracker<'_>,
    ) -> Option<Window> {
        if waiter == owner {
            return None;
        }
        let mut window = Window::new(lock, waiter, owner, Some(from));
        window.waiter_priority = tracker.thread(waiter).and_then(|t| t.priority);
        window.owner_priority = self.own_priority(owner, tracker);
        window.kept = kept;
        window.begin(tracker);
        (window.inverts(tracker.catalogue) != Some(false)).then_some(window)
    }

    /// A thread's priority, without what is lent to it.
    fn own_priority(&self, thread: ThreadNo, tracker: &Tracker<'_>) -> Option<u16> {
        let now = tracker.thread(thread).and_then(|t| t.priority);
        let own = self.raised.get(&thread).copied();
        match (now, own) {
            (Some(now), Some(own)) if tracker.catalogue.is_more_urgent(own, now) => Some(now),
            (now, own) => own.or(now),
        }
    }

    fn close(&mut self, mut window: Window, end: End, seen: &Seen<'_>, tracker: &Tracker<'_>) {
        // What began before the window of the report is told where the filters keep its end.
        let earlier = window.from.is_some_and(|from| self.begun.is_none_or(|begun| from.ticks < begun));
        if !seen.inside || !(seen.kept || window.kept && !earlier) {
            return;
        }
        window.to = Some((moment(seen.event), end));
        if self.several && self.closing.len() < MOST_OPEN {
            self.closing.push(window);
        } else {
            self.file(window, tracker.catalogue);
        }
    }

    /// Counts one that is over.
    fn file(&mut self, window: Window, catalogue: &Catalogue) {
        match window.inverts(catalogue) {
            Some(false) => return,
            None => {
                self.unjudged = self.unjudged.saturating_add(1);
                return;
            }
            Some(true) => {}
        }
        let sums = &mut self.sums;
        let one = |yes| u64::from(yes);
        sums.inversions = sums.inversions.saturating_add(1);
        sums.deterministic = sums.deterministic.saturating_add(one(window.deterministic() == Some(true)));
        sums.culprits = sums.culprits.saturating_add(one(window.deterministic() == Some(false)));
        sums.before = sums.before.saturating_add(one(window.from.is_none()));
        let earlier = window.from.is_some_and(|from| self.begun.is_none_or(|begun| from.ticks < begun));
        sums.earlier = sums.earlier.saturating_add(one(earlier));
        sums.ticks = sums.ticks.saturating_add(window.ticks(0).filter(|_| window.to.is_some()).unwrap_or(0));
        self.done.push(window);
        if self.done.len() >= MOST_ROWS.saturating_mul(2) {
            self.thin();
        }
    }

    /// Keeps the longest.
    fn thin(&mut self) {
        self.done.sort_by_key(|w| std::cmp::Reverse(w.ticks(i64::MAX)));
        self.done.truncate(MOST_ROWS);
    }

    /// The windows of a lock are over: it was given back, or is no more.
    fn close_all(&mut self, lock: Addr, end: End, seen: &Seen<'_>, tracker: &Tracker<'_>) {
        let over: Vec<Window> = self
            .waiting
            .iter()
            .zip(&mut self.windows)
            .filter(|(w, _)| w.lock == lock)
            .filter_map(|(_, w)| w.take())
            .collect();
        for window in over {
            self.close(window, end, seen, tracker);
        }
    }

    /// A lock has another owner: who waits still, waits for that one.
    fn owned(&mut self, lock: Addr, owner: ThreadNo, seen: &Seen<'_>, tracker: &Tracker<'_>) {
        self.close_all(lock, End::Released, seen, tracker);
        for at in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.get_mut(at).filter(|w| w.lock == lock && w.thread != owner) else {
                continue;
            };
            waiting.owner = Some(owner);
            let (thread, kept) = (waiting.thread, waiting.kept);
            let window = self.window(lock, thread, owner, moment(seen.event), kept, tracker);
            if let Some(place) = self.windows.get_mut(at) {
                *place = window;
            }
        }
        self.relink();
    }

    fn readied(&mut self, seen: &Seen<'_>, change: &Change, tracker: &Tracker<'_>) {
        let Change::Readied { thread, by, waited, call, .. } = *change else { return };
        if let Some(window) = self.went_on(thread) {
            let Some(window) = window else { return };
            let end = match waited.map(|wait| ending(thread, &wait, call, tracker)) {
                Some(Ending::Given) => End::Released,
                Some(Ending::Deleted) => End::Deleted,
                Some(Ending::Aborted) => End::Aborted,
                Some(Ending::TimedOut) => End::Timeout,
                Some(Ending::Unknown) | None => End::GivenUp,
            };
            self.close(window, end, seen, tracker);
        } else if let (None, Who::Thread(owner)) = (waited, by)
            && owner != thread
            && let Some(call) = call.filter(|c| tracker.role_of(c.def).is_some_and(|r| r.release.is_some()))
            && let Some(lock) = call.object
            && tracker.lock(lock).is_none_or(|l| l.owner.is_none_or(|owner| owner == thread))
        {
            // Giving a lock back wakes nobody but who waited for it: since before the first event.
            self.waits = self.waits.saturating_add(u64::from(seen.inside && seen.kept));
            let mut window = Window::new(lock, thread, owner, None);
            window.waiter_priority = tracker.thread(thread).and_then(|t| t.priority);
            window.owner_priority = self.own_priority(owner, tracker);
            self.close(window, End::Released, seen, tracker);
        }
    }

    /// Notes anew whom each thread waits for.
    fn relink(&mut self) {
        self.owners = self.waiting.iter().filter_map(|w| Some((w.thread, w.owner?))).collect();
    }

    /// True where a thread works for the owner: it is the owner, or has what the owner waits for, and so on.
    fn is_on_behalf(owners: &HashMap<ThreadNo, ThreadNo>, owner: ThreadNo, thread: ThreadNo) -> bool {
        let mut at = owner;
        // A chain has no more members than there are threads that wait; in a cycle it never ends.
        for _ in 0..=owners.len() {
            if at == thread {
                return true;
            }
            let Some(next) = owners.get(&at) else { return false };
            at = *next;
        }
        false
    }

    /// A thread begins to wait: where that closes a cycle, nobody in it can go on.
    fn closes(&mut self, seq: u64, thread: ThreadNo) {
        let Some(owner) = self.owners.get(&thread).copied() else { return };
        if !Self::is_on_behalf(&self.owners, owner, thread) {
            return;
        }
        let mut links = Vec::new();
        let mut at = thread;
        while let Some(waiting) = self.waiting.iter().find(|w| w.thread == at) {
            let Some(owner) = waiting.owner else { break };
            links.push((at, waiting.lock, owner));
            at = owner;
            if at == thread {
                break;
            }
        }
        for window in self.windows.iter_mut().flatten() {
            window.cycle |= Self::is_on_behalf(&self.owners, window.owner, window.waiter);
        }
        if self.cycles.len() < MOST_CYCLES {
            self.cycles.push(Cycle { seq, links });
        } else {
            self.more_cycles = self.more_cycles.saturating_add(1);
        }
    }

    fn begin(&mut self, event: &Event) {
        self.begun.get_or_insert(event.ticks);
    }
}

const fn moment(event: &Event) -> Moment {
    Moment { ticks: event.ticks, seq: event.seq }
}

impl Visitor for Inversions {
    fn span(&mut self, span: &Span, tracker: &Tracker<'_>) {
        self.several = tracker.cores() > 1;
        let core = usize::from(span.core);
        if core >= self.told.len() {
            self.told.resize(core.saturating_add(1), i64::MIN);
        }
        if let Some(told) = self.told.get_mut(core) {
            *told = span.to;
        }
        if self.closing.is_empty() && self.windows.iter().all(Option::is_none) {
            return;
        }
        let several = self.several;
        for window in self.windows.iter_mut().flatten().chain(&mut self.closing) {
            let on_behalf = match span.who {
                Who::Thread(no) => Self::is_on_behalf(&self.owners, window.owner, no),
                _ => false,
            };
            window.span(span, on_behalf, several, tracker);
            if window.to.is_some() {
                continue;
            }
            if let Some(waiting) = self.waiting.iter().find(|w| w.thread == window.owner) {
                window.owner_waits.get_or_insert(waiting.lock);
            }
            // The owner's own event is the one to tell its priority.
            let urgent = |a, b| tracker.catalogue.is_more_urgent(a, b);
            let now = tracker.thread(window.owner).and_then(|t| t.priority);
            match (window.owner_priority, now, window.waiter_priority) {
                (None, Some(now), Some(waiter)) if urgent(waiter, now) => window.owner_priority = Some(now),
                (Some(own), Some(now), Some(waiter)) if urgent(waiter, own) && !urgent(waiter, now) => {
                    window.inherited = true;
                    let raised = Some((window.owner, own));
                    if self.last_raised != raised && self.raised.len() < MOST_RAISED {
                        self.raised.insert(window.owner, own);
                        self.last_raised = raised;
                    }
                }
                _ => {}
            }
        }
        if self.closing.is_empty() {
            return;
        }
        let told = self.told.iter().copied().min().unwrap_or(i64::MAX);
        let mut at = 0;
        while let Some(window) = self.closing.get(at) {
            if window.to.is_none_or(|(to, _)| to.ticks <= told) {
                let window = self.closing.swap_remove(at);
                self.file(window, tracker.catalogue);
            } else {
                at = at.saturating_add(1);
            }
        }
    }

    fn seen(&mut self, seen: &Seen<'_>, change: &Change, tracker: &Tracker<'_>) {
        if seen.inside {
            self.begin(seen.event);
        }
        match *change {
            Change::Contended { .. } => self.asked = self.asked.saturating_add(1),
            Change::Blocked { thread, call, .. } => self.blocks(seen, thread, call, tracker),
            Change::Acquired { lock, thread } => {
                self.asked = self.asked.saturating_add(1);
                self.owned(lock, thread, seen, tracker);
            }
            Change::Released { lock, .. } => self.close_all(lock, End::Released, seen, tracker),
            Change::Deleted { object } => self.close_all(object, End::Deleted, seen, tracker),
            Change::Readied { .. } => self.readied(seen, change, tracker),
            Change::Ended { thread, .. } => {
                if let Some(Some(window)) = self.went_on(thread) {
                    self.close(window, End::Terminated, seen, tracker);
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event, _: &Tracker<'_>) {
        self.begin(event);
        if let Ok(at) = usize::try_from(event.context.0) {
            if at >= self.last_kept.len() && at < 1 << 24 {
                self.last_kept.resize(at.saturating_add(1), None);
            }
            if let Some(place) = self.last_kept.get_mut(at) {
                *place = Some(event.seq);
            }
        }
    }

    fn finish(&mut self, whole: &Whole, tracker: &Tracker<'_>) -> Vec<Report> {
        for window in std::mem::take(&mut self.closing) {
            self.file(window, tracker.catalogue);
        }
        let (mut open, mut unjudged) = (Vec::new(), 0u64);
        for window in std::mem::take(&mut self.windows).into_iter().flatten().filter(|w| w.kept) {
            match window.inverts(tracker.catalogue) {
                Some(true) => open.push(window),
                Some(false) => {}
                None => unjudged = unjudged.saturating_add(1),
            }
        }
        self.unjudged = self.unjudged.saturating_add(unjudged);
        if self.done.len() > MOST_ROWS {
            self.thin();
        }
        vec![self.report(open, whole, tracker)]
    }
}
