//! How waits end, as far as events prove it.

use super::{Call, Patience, ThreadNo, Tracker, Wait};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Whoever woke the thread had just acted on the object that it waited for.
    Given,
    /// The object ceased to be.
    Deleted,
    /// Somebody asked that the wait be given up.
    Aborted,
    /// The wait was bounded, and neither was the object acted on nor the wait given up by anybody.
    TimedOut,
    /// The events do not tell.
    Unknown,
}

/// How a wait ended; `waker` is the last call of whoever made the thread ready.
#[must_use]
pub fn ending(thread: ThreadNo, wait: &Wait, waker: Option<Call>, tracker: &Tracker<'_>) -> Ending {
    let object = wait.call.and_then(|c| c.object);
    if let Some(call) = waker.filter(|c| c.seq > wait.seq)
        && let Some(role) = tracker.role_of(call.def)
        && call.object.is_some()
    {
        if role.abort.is_some() {
            if call.object == tracker.thread(thread).map(|t| t.address) {
                return Ending::Aborted;
            }
        } else if call.object == object {
            return if role.delete.is_some() { Ending::Deleted } else { Ending::Given };
        }
    }
    let Some(call) = wait.call.filter(|c| c.object.is_some()) else { return Ending::Unknown };
    let Some(role) = tracker.role_of(call.def) else { return Ending::Unknown };
    if role.acquire.is_some() && object.and_then(|o| tracker.lock(o)).is_some_and(|l| l.owner == Some(thread)) {
        return Ending::Given;
    }
    // What such a call waits for is given by events of its own class: they would be there.
    let told = role.acquire.is_some() || role.get.is_some() || role.put.is_some();
    if told && call.patience == Some(Patience::Bounded) { Ending::TimedOut } else { Ending::Unknown }
}
