//! What a function of the kernel does with an object, and whether an interrupt may call it, by its name.

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
    /// A thread is ended.
    Ends,
    /// A thread is suspended until it is resumed.
    Suspends,
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
const NAMES: [(&str, Act, Option<Kind>); 29] = [
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
    ("thread_terminate", Act::Ends, None),
    ("thread_suspend", Act::Suspends, None),
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

/// What an interrupt must not do with a service of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forbidden {
    /// Call it at all.
    Always,
    /// Call it with a time to wait: there is no thread to suspend.
    WithWait,
}

/// The services that an interrupt must not call, without the `tx_` that they begin with (ThreadX User Guide, chapter 4, "Allowed
/// From").
const NOT_IN_INTERRUPTS: [&str; 27] = [
    "block_pool_create",
    "block_pool_delete",
    "byte_allocate",
    "byte_pool_create",
    "byte_pool_delete",
    "byte_release",
    "event_flags_create",
    "event_flags_delete",
    "mutex_create",
    "mutex_delete",
    "mutex_get",
    "mutex_put",
    "queue_create",
    "queue_delete",
    "semaphore_create",
    "semaphore_delete",
    "thread_create",
    "thread_delete",
    "thread_preemption_change",
    "thread_priority_change",
    "thread_relinquish",
    "thread_reset",
    "thread_sleep",
    "thread_terminate",
    "thread_time_slice_change",
    "timer_create",
    "timer_delete",
];

/// Those that an interrupt may call with `TX_NO_WAIT`.
const WITHOUT_WAIT: [&str; 6] =
    ["block_allocate", "event_flags_get", "queue_front_send", "queue_receive", "queue_send", "semaphore_get"];

/// The service that a function of the kernel is, or is a part of that the compiler made: `tx_mutex_get` for `_txe_mutex_get` and
/// `_tx_mutex_get.part.0`.
pub fn service(function: &str) -> Option<String> {
    let stem = PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix))?;
    Some(format!("tx_{}", stem.split('.').next()?))
}

/// What an interrupt must not do with a service, by its name in the program: `tx_mutex_get`. `None` where it may call it.
pub fn in_interrupt(service: &str) -> Option<Forbidden> {
    let stem = service.strip_prefix("tx_")?;
    if NOT_IN_INTERRUPTS.contains(&stem) {
        return Some(Forbidden::Always);
    }
    WITHOUT_WAIT.contains(&stem).then_some(Forbidden::WithWait)
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
        assert_eq!(service("_txe_mutex_get"), service("_tx_mutex_get.part.0"));
        let creates = |name| action(name).is_some_and(|action| action.creates_timer);
        assert!(creates("_txe_timer_create") && !creates("_tx_thread_create") && !creates("_tx_timer_activate"));
    }

    #[test]
    fn what_an_interrupt_must_not_call() {
        let of = |name: &str| in_interrupt(&service(name).unwrap());
        assert_eq!([of("_tx_mutex_get"), of("_txe_thread_sleep")], [Some(Forbidden::Always); 2]);
        assert_eq!(of("_tx_queue_send.constprop.0"), Some(Forbidden::WithWait));
        assert_eq!([of("_tx_semaphore_put"), of("_tx_thread_resume"), of("_tx_timer_activate")], [None; 3]);
        assert_eq!((service("tx_mutex_get"), in_interrupt("mutex_get")), (None, None));
    }
}
