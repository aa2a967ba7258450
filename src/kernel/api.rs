//! What a function of the kernel does with an object, by its name.

use super::Kind;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// A message, a count, memory or a mutex is taken, or event flags are asked for.
    Takes,
    /// It is given or given back, or the object is deleted: either ends waits.
    Gives,
    /// A timer, or a thread, is made to run.
    Starts,
    /// The wait of a thread is ended.
    Aborts,
    /// Event flags are cleared: those that are not kept.
    Clears,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// What.
    pub act: Act,
    /// Of which kind the object is; `None` for a thread.
    pub kind: Option<Kind>,
    /// Its first argument is memory of the pool instead of the object.
    pub by_memory: bool,
    /// It creates a timer. A thread that has ended may be deleted and created again.
    pub creates_timer: bool,
}

/// The names without what they begin with: `_tx_`, or `_txe_` where arguments are checked.
const NAMES: [(&str, Act, Option<Kind>); 27] = [
    ("semaphore_get", Act::Takes, Some(Kind::Semaphore)),
    ("semaphore_put", Act::Gives, Some(Kind::Semaphore)),
    ("semaphore_ceiling_put", Act::Gives, Some(Kind::Semaphore)),
    ("semaphore_delete", Act::Gives, Some(Kind::Semaphore)),
    ("mutex_get", Act::Takes, Some(Kind::Mutex)),
    ("mutex_put", Act::Gives, Some(Kind::Mutex)),
    ("mutex_delete", Act::Gives, Some(Kind::Mutex)),
    ("queue_receive", Act::Takes, Some(Kind::Queue)),
    ("queue_flush", Act::Takes, Some(Kind::Queue)),
    ("queue_send", Act::Gives, Some(Kind::Queue)),
    ("queue_front_send", Act::Gives, Some(Kind::Queue)),
    ("queue_delete", Act::Gives, Some(Kind::Queue)),
    ("event_flags_get", Act::Takes, Some(Kind::EventFlags)),
    ("event_flags_set", Act::Gives, Some(Kind::EventFlags)),
    ("event_flags_delete", Act::Gives, Some(Kind::EventFlags)),
    ("block_allocate", Act::Takes, Some(Kind::BlockPool)),
    ("block_release", Act::Gives, Some(Kind::BlockPool)),
    ("block_pool_delete", Act::Gives, Some(Kind::BlockPool)),
    ("byte_allocate", Act::Takes, Some(Kind::BytePool)),
    ("byte_release", Act::Gives, Some(Kind::BytePool)),
    ("byte_pool_delete", Act::Gives, Some(Kind::BytePool)),
    ("timer_activate", Act::Starts, Some(Kind::Timer)),
    ("timer_create", Act::Starts, Some(Kind::Timer)),
    ("thread_create", Act::Starts, None),
    ("thread_resume", Act::Starts, None),
    ("thread_reset", Act::Starts, None),
    ("thread_wait_abort", Act::Aborts, None),
];

/// What the names of the kernel's functions begin with: with and without a check of the arguments.
const PREFIXES: [&str; 2] = ["_tx_", "_txe_"];

/// What the function of this name does; `None` for any other.
pub fn action(name: &str) -> Option<Action> {
    let stem = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let (name, act, kind) = NAMES.into_iter().find(|(known, ..)| *known == stem)?;
    let by_memory = matches!(name, "block_release" | "byte_release");
    Some(Action { act, kind, by_memory, creates_timer: name == "timer_create" })
}

/// The names of all functions that do something.
pub fn names() -> impl Iterator<Item = String> {
    PREFIXES.iter().flat_map(|prefix| NAMES.iter().map(move |(name, ..)| format!("{prefix}{name}")))
}

/// Which argument of a function of the kernel is the time to wait, from 0 on.
pub fn wait_argument(name: &str) -> Option<usize> {
    let stem = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    match stem {
        "semaphore_get" | "mutex_get" => Some(1),
        "queue_send" | "queue_front_send" | "queue_receive" | "block_allocate" => Some(2),
        "byte_allocate" => Some(3),
        _ => None,
    }
}

/// The function that ends a wait for an object of this kind, where a time-out or another thread does.
pub fn cleanup(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Semaphore => "_tx_semaphore_cleanup",
        Kind::Mutex => "_tx_mutex_cleanup",
        Kind::Queue => "_tx_queue_cleanup",
        Kind::EventFlags => "_tx_event_flags_cleanup",
        Kind::BlockPool => "_tx_block_pool_cleanup",
        Kind::BytePool => "_tx_byte_pool_cleanup",
        Kind::Timer => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_their_names() {
        let of = |name| action(name).map(|action| (action.act, action.kind));
        assert_eq!(of("_txe_semaphore_put"), Some((Act::Gives, Some(Kind::Semaphore))));
        assert_eq!(of("_tx_queue_receive"), Some((Act::Takes, Some(Kind::Queue))));
        assert_eq!(of("_tx_thread_resume"), Some((Act::Starts, None)));
        assert_eq!([of("tx_semaphore_put"), of("_tx_semaphore_put.part.0"), of("_tx_queue_cleanup")], [None; 3]);
        assert!(action("_tx_byte_release").unwrap().by_memory);
        assert!(names().any(|name| name == "_txe_mutex_get"));
        let creates = |name| action(name).is_some_and(|action| action.creates_timer);
        assert!(creates("_txe_timer_create") && !creates("_tx_thread_create") && !creates("_tx_timer_activate"));
    }
}
