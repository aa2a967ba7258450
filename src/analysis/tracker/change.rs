//! What the tracker knows and reports: threads, cores, waits, locks, and the changes that events bring.

use std::num::NonZeroU64;

use crate::abi::Addr;
use crate::trace::{ContextId, DefId, Event};

/// Dense number of a thread in a [`System`](super::System).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadNo(pub u32);

/// Dense number of an object that calls act on, in a [`System`](super::System).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectNo(pub u32);

impl ThreadNo {
    /// Its place in a vector by thread.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl ObjectNo {
    /// Its place in a vector by object.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Who has a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// A thread.
    Thread(ThreadNo),
    /// An interrupt service routine.
    Isr,
    /// Nobody: the processor waits.
    Idle,
    /// The system before its scheduler runs.
    Init,
    /// Not known.
    Unknown,
}

/// What is known of a thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// No event has shown it yet.
    Unknown,
    /// It has a core.
    Running,
    /// It could run.
    Ready,
    /// It waits; the number is the system's code for what for.
    Blocked(Option<u64>),
    /// It has ended.
    Ended,
}

/// How long a caller is ready to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOption {
    /// Not at all.
    None,
    /// Up to a time.
    Bounded,
    /// For ever.
    Forever,
}

/// A call, which may turn out to be why its caller blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its event.
    pub seq: u64,
    /// What it is.
    pub def: DefId,
    /// The object that it acts on.
    pub object: Option<ObjectNo>,
    /// How long its caller is ready to wait, where the event has that.
    pub wait: Option<WaitOption>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Whoever woke the thread had just acted on the object that it waited for.
    Given,
    /// The object was deleted.
    Deleted,
    /// Somebody aborted the wait.
    Aborted,
    /// The wait was bounded, and no call acted on the object or aborted the wait.
    TimedOut,
    /// The events do not show it.
    Unknown,
}

/// A wait that is over.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The call that blocked.
    pub call: Option<Call>,
    /// Ticks at which the thread blocked.
    pub from: i64,
    /// Event with which it blocked.
    pub seq: u64,
    /// How it ended.
    pub ending: Ending,
}

/// One thread, as far as the events so far show.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its control block, as the trace stores the address.
    pub address: Addr,
    /// The context of its own events, where it inserted any.
    pub context: Option<ContextId>,
    /// Its priority in its last event; [`Catalogue::is_more_urgent`](crate::catalogue::Catalogue::is_more_urgent) compares.
    pub priority: Option<u16>,
    /// Its state.
    pub state: ThreadState,
    /// Ticks since which it is in this state.
    pub since: i64,
    /// One more than the number of the event that put it into this state.
    pub(super) behind: Option<NonZeroU64>,
    /// True where it is among those that a gap makes unknown.
    pub(super) is_listed: bool,
}

impl Thread {
    /// Event that put it into its state; `None` where it was so before the first that shows it.
    #[must_use]
    #[inline]
    pub const fn since_seq(&self) -> Option<u64> {
        match self.behind {
            Some(behind) => Some(behind.get().wrapping_sub(1)),
            None => None,
        }
    }
}

/// The calls of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    /// The last that it made.
    pub last: Option<Call>,
    /// The one that it blocks in.
    pub blocked_in: Option<Call>,
}

/// An interrupt that has begun and not ended.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Its number, where its event has one.
    pub number: Option<u64>,
    /// Ticks at which it began.
    pub since: i64,
}

/// Who has a lock and who waits for it.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    /// True once a thread asked for it.
    pub(super) is_known: bool,
    /// True where it is among those that a gap makes unknown.
    pub(super) is_listed: bool,
    /// The owner, where that is known.
    pub owner: Option<ThreadNo>,
    /// Those that wait.
    pub waiters: Vec<ThreadNo>,
}

/// Who had a core from one moment to another. The spans of a core follow each other without overlap; two in a row may be of
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The core.
    pub core: u16,
    /// Who.
    pub who: Who,
    /// Ticks at its start.
    pub from: i64,
    /// Ticks at its end.
    pub to: i64,
}

/// What an event changes.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// A core goes from one thread to another thread, or from or to idle.
    Switch {
        /// Who had it.
        from: Who,
        /// Who has it now.
        to: Who,
    },
    /// A thread that could go on loses its core.
    Preempted {
        /// The thread.
        thread: ThreadNo,
        /// Who takes the core.
        by: ThreadNo,
    },
    /// A thread gets a core.
    Dispatched {
        /// The thread.
        thread: ThreadNo,
        /// Ticks and event since which it was ready, where that is known.
        ready: Option<(i64, u64)>,
        /// Ticks at which it got the core: the end of the interrupt that gave it the core, where the event is the first
        /// after it. `None` where no event shows when, and this one finds it running.
        at: Option<i64>,
    },
    /// A thread becomes ready.
    Readied {
        /// The thread.
        thread: ThreadNo,
        /// Who made it so.
        by: Who,
        /// The number of the interrupt that made it so.
        interrupt: Option<u64>,
        /// What it waited for, since when and how that ended; `None` where it was blocked before the first event that
        /// shows it.
        waited: Option<Wait>,
        /// The last call of the thread that made it so, or in an interrupt the interrupt's own.
        call: Option<Call>,
    },
    /// A thread ends: it neither runs nor waits any more.
    Ended {
        /// The thread.
        thread: ThreadNo,
        /// True where it waited until then.
        waited: bool,
    },
    /// A thread stops being ready.
    Blocked {
        /// The thread.
        thread: ThreadNo,
        /// Who made it so: itself, unless it was suspended.
        by: Who,
        /// The system's code of what it waits for.
        code: Option<u64>,
        /// The call that it blocks in.
        call: Option<Call>,
    },
    /// A thread's priority changed, or is known for the first time.
    Priority {
        /// The thread.
        thread: ThreadNo,
    },
    /// A time slice ends.
    Sliced {
        /// Who had the core.
        from: Who,
        /// Who has it now.
        to: Who,
    },
    /// An interrupt begins.
    Entered {
        /// Its number.
        number: Option<u64>,
        /// How many were open before it.
        depth: usize,
    },
    /// An interrupt ends.
    Exited {
        /// What began it.
        frame: Frame,
    },
    /// An interrupt acts whose beginning no event announced.
    Unannounced,
    /// A lock is taken.
    Acquired {
        /// The lock.
        lock: ObjectNo,
        /// By whom.
        thread: ThreadNo,
    },
    /// A thread asks for a lock that another has.
    Contended {
        /// The lock.
        lock: ObjectNo,
    },
    /// A lock is free again.
    Released {
        /// The lock.
        lock: ObjectNo,
    },
    /// An object is deleted.
    Deleted {
        /// The object.
        object: ObjectNo,
    },
}

/// One event with what it brings: the argument of [`Consumer::step`](super::Consumer::step).
#[derive(Debug, Clone, Copy)]
pub struct Step<'s> {
    /// The event.
    pub event: &'s Event,
    /// Who had its core up to it: one span, or two where the core changed hands in between.
    pub spans: &'s [Span],
    /// What it changes, in that order.
    pub changes: &'s [Change],
}
