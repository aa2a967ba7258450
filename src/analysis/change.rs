//! What the tracker knows, and what it tells: threads, cores, waits, locks, and the changes that events bring.

use crate::abi::Addr;
use crate::trace::{ContextId, DefId};

/// Dense number of a thread in a [`Tracker`](super::Tracker).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadNo(pub u32);

impl ThreadNo {
    /// Its place in a vector by thread.
    #[must_use]
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
    /// The events do not tell.
    Unknown,
}

/// What is known of a thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No event has told it yet.
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
pub enum Patience {
    /// Not at all.
    None,
    /// Up to a time.
    Bounded,
    /// For ever.
    Forever,
}

/// A call that a thread made last, which may turn out to be why it blocks.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its event.
    pub seq: u64,
    /// Ticks of that event.
    pub ticks: i64,
    /// What it is.
    pub def: DefId,
    /// The object that it acts on.
    pub object: Option<Addr>,
    /// How long its caller is ready to wait, where it tells.
    pub patience: Option<Patience>,
}

/// One thread, as far as the events so far tell.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its control block, as the trace stores the address.
    pub address: Addr,
    /// The context of its own events, where it inserted any.
    pub context: Option<ContextId>,
    /// Its priority in its last event; [`Catalogue::is_more_urgent`](crate::catalogue::Catalogue::is_more_urgent) compares.
    pub priority: Option<u16>,
    /// Its state.
    pub state: State,
    /// Ticks since which it is in this state.
    pub since: i64,
    /// Event that put it into this state; `None` where it was so before the first that tells.
    pub since_seq: Option<u64>,
    /// The last call that it made.
    pub last_call: Option<Call>,
    /// The call that it blocks in.
    pub blocked_in: Option<Call>,
}

/// An interrupt that has begun and not ended.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Its number, where its event told one.
    pub number: Option<u64>,
    /// Ticks at which it began.
    pub since: i64,
    /// Event that began it.
    pub seq: u64,
}

/// Somebody had a core for a while.
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
    /// The event that ends it.
    pub seq: u64,
}

/// What an event changes. `at` is always the event that is being looked at.
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
        /// after it. `None` where no event told of it, and this one finds it running.
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
        /// What it waited for, and since when; `None` where it was blocked before the first event that tells.
        waited: Option<Wait>,
        /// The system's code of the state that it was in.
        was: Option<u64>,
        /// The last call of whoever made it so: a thread's, or in an interrupt the interrupt's own.
        call: Option<Call>,
    },
    /// A thread ends: it neither runs nor waits any more.
    Ended {
        /// The thread.
        thread: ThreadNo,
        /// What it waited for until then.
        waited: Option<Wait>,
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
    /// An interrupt acts that never said it began.
    Unannounced,
    /// A lock is taken.
    Acquired {
        /// The lock.
        lock: Addr,
        /// By whom.
        thread: ThreadNo,
    },
    /// A thread asks for a lock that another has.
    Contended {
        /// The lock.
        lock: Addr,
        /// Who asks.
        waiter: ThreadNo,
        /// Who has it.
        owner: ThreadNo,
    },
    /// A lock is free again.
    Released {
        /// The lock.
        lock: Addr,
        /// Who had it.
        thread: Option<ThreadNo>,
    },
    /// An object ceases to be.
    Deleted {
        /// The object.
        object: Addr,
    },
}

/// What the tracker tells of one event.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Who had the core up to it.
    pub spans: Vec<Span>,
    /// What it changes, in that order.
    pub changes: Vec<Change>,
}

impl Told {
    /// Makes room for the next event.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.changes.clear();
    }

    #[inline]
    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }
}

/// A wait that is over.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The call.
    pub call: Option<Call>,
    /// Ticks at which the thread blocked.
    pub from: i64,
    /// Event with which it blocked.
    pub seq: u64,
    /// The system's code of what it waited for.
    pub code: Option<u64>,
}

/// Who has a lock and who waits for it.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    /// The owner, where that is known.
    pub owner: Option<ThreadNo>,
    /// Those that wait.
    pub waiters: Vec<ThreadNo>,
}
