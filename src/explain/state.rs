//! The threads and locks of one moment: from the kernel's memory, or without it as the last events leave them. Rules see no
//! difference, except that what events show alone is inferred.

use super::Events;
use crate::abi::Addr;
use crate::kernel::{self, Kernel, Kind, State, Thread, Wanted};

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// It runs.
    Runs,
    /// It could run.
    Ready,
    /// It waits for an object.
    Waits,
    /// It sleeps for a time.
    Sleeps,
    /// It was suspended by a call, and waits for the call that resumes it.
    Suspended,
    /// Its function has returned.
    Completed,
    /// It was terminated.
    Terminated,
    /// One of both: events do not always show which.
    Ended,
    /// Something else, or not known.
    Unknown,
}

impl Does {
    /// The kernel's number of a state.
    const fn of(state: State) -> Self {
        match state.0 {
            // A thread whose priority changes is in no list for a moment, and as ready as before.
            0 | 14 => Self::Ready,
            1 => Self::Completed,
            2 => Self::Terminated,
            3 => Self::Suspended,
            4 => Self::Sleeps,
            5..=9 | 13 => Self::Waits,
            _ => Self::Unknown,
        }
    }

    /// After the name of a thread that neither runs nor will by itself; `None` for other states.
    pub const fn gone(self) -> Option<&'static str> {
        match self {
            Self::Suspended => Some("is suspended"),
            Self::Completed => Some("has completed"),
            Self::Terminated => Some("was terminated"),
            Self::Ended => Some("has ended"),
            _ => None,
        }
    }
}

/// The kind of object that a thread with this state waits for.
pub(super) const fn kind_of(state: u64) -> Option<Kind> {
    match state {
        5 => Some(Kind::Queue),
        6 => Some(Kind::Semaphore),
        7 => Some(Kind::EventFlags),
        8 => Some(Kind::BlockPool),
        9 => Some(Kind::BytePool),
        13 => Some(Kind::Mutex),
        _ => None,
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// What it is.
    pub kind: Kind,
    /// Its control block.
    pub object: Addr,
    /// The owner of a mutex.
    pub owner: Option<Addr>,
    /// True where it waits for ever; false where a time-out ends it, or that is not known.
    pub forever: bool,
    /// The event flags that it needs.
    pub wanted: Option<Wanted>,
    /// True where it waits to put something: a message into a full queue.
    pub sends: bool,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its control block.
    pub address: Addr,
    /// What it does.
    pub does: Does,
    /// The priority that it has now; a smaller number is more urgent.
    pub priority: Option<u32>,
    /// Threads of this priority and below it do not preempt it.
    pub threshold: Option<u32>,
    /// Ticks of its time slice; 0 where it has none.
    pub time_slice: Option<u64>,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// How often it was given the processor.
    pub runs: Option<u64>,
    /// The event that put it into this state, where no memory shows it.
    pub seq: Option<u64>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    /// Them.
    pub list: Vec<Task>,
}

impl Tasks {
    /// Those of the kernel's memory, else those of the events.
    pub fn of(kernel: Option<&Kernel>, events: Option<&Events>) -> Self {
        match (kernel, events) {
            (Some(kernel), _) => {
                Self { list: kernel.threads.iter().map(|thread| in_memory(thread, kernel, events)).collect() }
            }
            (None, Some(events)) => Self { list: events.tasks() },
            (None, None) => Self::default(),
        }
    }

    /// The thread at an address.
    pub fn at(&self, address: Addr) -> Option<&Task> {
        self.list.iter().find(|task| task.address == address)
    }

    /// Threads that wait for an object.
    pub fn waiting(&self, object: Addr) -> impl Iterator<Item = &Task> {
        self.list.iter().filter(move |task| task.wait.is_some_and(|wait| wait.object == object))
    }
}

/// True where a thread waits for a message in a queue that is full: such a wait is over, or a field of one of them was
/// overwritten. Its stack shows that, or its last call in the trace.
fn contradicts(wait: &kernel::Wait, thread: Addr, events: Option<&Events>) -> bool {
    let by_events = || {
        let events = events?;
        let waits = |task: &Task| events.is(thread, task.address).then_some(task.wait?);
        let last = events.tasks().iter().find_map(waits)?;
        events.is(wait.address, last.object).then_some(last.sends)
    };
    wait.sends.or_else(by_events) == Some(false)
}

fn in_memory(thread: &Thread, kernel: &Kernel, events: Option<&Events>) -> Task {
    let does = match thread.state {
        Some(State::READY | State::PRIORITY_CHANGE) if thread.core.is_some() => Does::Runs,
        Some(state) => Does::of(state),
        None => Does::Unknown,
    };
    let is_full = |wait: &kernel::Wait| {
        let queue = kernel.object(wait.address).filter(|_| wait.kind == Kind::Queue);
        queue.is_some_and(|queue| queue.get("available_storage") == Some(0))
    };
    let known = thread.waits.as_ref().filter(|wait| !is_full(wait) || !contradicts(wait, thread.address, events));
    let wait = known.map(|wait| Wait {
        kind: wait.kind,
        object: wait.address,
        owner: wait.owner,
        forever: thread.timed == Some(false),
        wanted: thread.wanted().filter(|_| wait.kind == Kind::EventFlags),
        sends: is_full(wait),
    });
    Task {
        address: thread.address,
        does,
        priority: thread.priority,
        threshold: thread.threshold,
        time_slice: thread.time_slice,
        wait,
        runs: thread.run_count,
        seq: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_changes_its_own_priority_was_not_seen_to_run() {
        assert_eq!(Does::of(State::PRIORITY_CHANGE), Does::Ready);
        assert_eq!(Does::of(State(10)), Does::Unknown, "a driver");
    }
}
