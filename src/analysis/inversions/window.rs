//! One inversion: a thread waits for a lock that a less urgent one has, and what was done with that time.

use std::cmp::Reverse;

use super::ran::Share;
use crate::analysis::tracker::{Ending, ObjectNo, Span, System, ThreadNo, Who};
use crate::catalogue::Catalogue;

/// The most culprits that are counted apart.
const MAX_CULPRITS: usize = 32;

/// How an inversion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The owner gave the lock back.
    Released,
    /// The wait was bounded, and its time was over.
    Timeout,
    /// Somebody aborted the wait.
    Aborted,
    /// The lock was deleted.
    Deleted,
    /// The waiter was terminated.
    Terminated,
    /// The waiter went on, and the events do not show why.
    GivenUp,
}

impl From<Ending> for End {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Given => Self::Released,
            Ending::Deleted => Self::Deleted,
            Ending::Aborted => Self::Aborted,
            Ending::TimedOut => Self::Timeout,
            Ending::Unknown => Self::GivenUp,
        }
    }
}

impl End {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted",
            Self::Deleted => "deleted",
            Self::Terminated => "terminated",
            Self::GivenUp => "given_up",
        }
    }
}

/// A moment of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub ticks: i64,
    pub seq: u64,
}

/// A wait for a lock that another thread has.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub lock: ObjectNo,
    pub waiter: ThreadNo,
    pub owner: ThreadNo,
    pub waiter_priority: Option<u16>,
    /// The owner's own, before it inherited the waiter's.
    pub owner_priority: Option<u16>,
    /// `None` where it began before the first event.
    pub from: Option<Moment>,
    pub to: Option<(Moment, End)>,
    /// True where the owner was seen at the waiter's priority.
    pub inherited: bool,
    pub owner_ticks: i64,
    pub isr_ticks: i64,
    pub other_ticks: i64,
    /// Of these, ticks of unknown contexts.
    pub unknown_ticks: i64,
    /// Ticks of threads of lower priority than the waiter's, other than the owner.
    pub culprits: Vec<(ThreadNo, i64)>,
    /// True where it is not known of one that ran whether it is a culprit.
    pub doubt: bool,
    /// What the owner itself waited for meanwhile: another lock.
    pub owner_waits: Option<ObjectNo>,
    /// True where the owner waits, directly or through others, for what the waiter has: no thread will give it back.
    pub cycle: bool,
    /// False where the filters keep neither the call nor the event that blocks.
    pub kept: bool,
    /// True where it began before the window of the report.
    pub earlier: bool,
    /// The moment up to which time was counted.
    pub counted: u64,
    /// Ticks up to which the owner's absence was added up, whether it is absent, and for how long it was.
    absent: (i64, bool, i64),
    /// The same sum at the end of each core's last span.
    absent_at: Vec<i64>,
}

impl Window {
    pub(super) fn new(lock: ObjectNo, waiter: ThreadNo, owner: ThreadNo, from: Option<Moment>) -> Self {
        Self {
            lock,
            waiter,
            owner,
            waiter_priority: None,
            owner_priority: None,
            from,
            to: None,
            inherited: false,
            owner_ticks: 0,
            isr_ticks: 0,
            other_ticks: 0,
            unknown_ticks: 0,
            cycle: false,
            culprits: Vec::new(),
            doubt: false,
            owner_waits: None,
            kept: true,
            earlier: false,
            counted: 0,
            absent: (from.map_or(i64::MIN, |m| m.ticks), true, 0),
            absent_at: Vec::new(),
        }
    }

    /// True where it is an inversion; `None` where priorities are not known.
    pub(super) fn inverts(&self, catalogue: &Catalogue) -> Option<bool> {
        Some(catalogue.is_more_urgent(self.waiter_priority?, self.owner_priority?))
    }

    /// How long it lasted, or has lasted by `now`.
    pub(super) fn ticks(&self, now: i64) -> Option<i64> {
        Some(self.to.map_or(now, |(to, _)| to.ticks).saturating_sub(self.from?.ticks))
    }

    /// True where only the owner, interrupts and more urgent threads delayed it; `None` where that is not known.
    pub(super) fn deterministic(&self) -> Option<bool> {
        if !self.culprits.is_empty() {
            return Some(false);
        }
        (!self.doubt && !self.cycle && self.from.is_some()).then_some(true)
    }

    /// Somebody ran on one of several cores.
    pub fn span(&mut self, span: &Span, on_behalf: bool, system: &System<'_>) {
        let Some(from) = self.from else { return };
        let until = self.to.map_or(i64::MAX, |(to, _)| to.ticks);
        let (a, z) = (span.from.max(from.ticks), span.to.min(until));
        let absent = self.absence(span, system);
        let priority = match span.who {
            Who::Thread(no) => system.thread(no).and_then(|t| t.priority),
            _ => None,
        };
        if a <= z {
            let share = Share { who: span.who, priority, ticks: z.saturating_sub(a) };
            self.take(&share, on_behalf, Some(absent), system);
        }
    }

    /// Counts the time of one that ran. `on_behalf`: the owner, or whom the owner waits for. On several cores no more than
    /// `absent` ticks, in which the owner ran nowhere, delay it.
    pub fn take(&mut self, share: &Share, on_behalf: bool, absent: Option<i64>, system: &System<'_>) {
        // Where the clock stands still nothing has a length; who runs is shown all the same.
        let runs = system.trace.clock.runs();
        let mut ticks = share.ticks;
        if ticks == 0 && runs {
            return;
        }
        let others = match share.who {
            Who::Thread(_) if on_behalf => &mut self.owner_ticks,
            Who::Isr => &mut self.isr_ticks,
            Who::Thread(no) => {
                let both = share.priority.zip(self.waiter_priority);
                let less_urgent = both.is_some_and(|(p, waiter)| system.catalogue.is_more_urgent(waiter, p));
                // In a cycle no thread would go on if the others did not run.
                if less_urgent && !self.cycle && !runs && absent.is_some() {
                    // It may have run beside the owner.
                    self.doubt = true;
                } else if less_urgent && !self.cycle {
                    // What runs beside the owner, on another core, does not delay it.
                    let guilty = ticks.min(absent.unwrap_or(i64::MAX));
                    ticks = ticks.saturating_sub(guilty);
                    if guilty > 0 || !runs {
                        self.blame(no, guilty);
                    }
                } else {
                    self.doubt |= both.is_none();
                }
                &mut self.other_ticks
            }
            Who::Unknown => {
                self.doubt = true;
                self.unknown_ticks = self.unknown_ticks.saturating_add(ticks);
                &mut self.other_ticks
            }
            Who::Idle | Who::Init => &mut self.other_ticks,
        };
        *others = others.saturating_add(ticks);
    }

    /// The culprit that ran longest, and for how many ticks.
    pub(super) fn worst(&self) -> Option<(ThreadNo, i64)> {
        self.culprits.iter().copied().max_by_key(|(no, ticks)| (*ticks, Reverse(*no)))
    }

    fn blame(&mut self, thread: ThreadNo, ticks: i64) {
        if let Some((_, sum)) = self.culprits.iter_mut().find(|(c, _)| *c == thread) {
            *sum = sum.saturating_add(ticks);
        } else if self.culprits.len() < MAX_CULPRITS {
            self.culprits.push((thread, ticks));
        }
    }

    /// For how long the owner ran nowhere since this core's span before.
    fn absence(&mut self, span: &Span, system: &System<'_>) -> i64 {
        let (upto, is, mut sum) = self.absent;
        if span.to > upto {
            if is {
                sum = sum.saturating_add(span.to.saturating_sub(upto));
            }
            let runs = (0..system.cores()).any(|core| system.holder(core) == Who::Thread(self.owner));
            self.absent = (span.to, !runs, sum);
        }
        let core = usize::from(span.core);
        if core >= self.absent_at.len() {
            self.absent_at.resize(core + 1, 0);
        }
        let before = self.absent_at.get_mut(core).map_or(sum, |at| std::mem::replace(at, sum));
        sum.saturating_sub(before)
    }

    /// Sets whether the owner runs at the start.
    pub(super) fn begin(&mut self, system: &System<'_>) {
        let runs = (0..system.cores()).any(|core| system.holder(core) == Who::Thread(self.owner));
        self.absent.1 = !runs;
    }
}
