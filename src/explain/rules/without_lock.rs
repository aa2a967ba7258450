//! A thread asked for a mutex in vain, went on without it, and waits for what another one, which had the mutex, takes as well: that one may
//! have got what was meant for this one. The mutex keeps them apart only where both look at what `tx_mutex_get` returns.
//!
//! Against it: the trace does not show who was meant.

use super::super::events::Events;
use super::super::state::{Task, Wait};
use super::super::usage::User;
use super::super::{Case, Evidence};
use crate::abi::Addr;
use crate::kernel::api::Act;

/// In words, and as evidence, of a thread that waits for an object.
pub(super) fn of(task: &Task, wait: &Wait, events: &Events, case: &Case<'_>) -> Option<(String, Evidence)> {
    let usage = case.usage()?;
    let takers = usage.who(Act::Takes, Some(wait.kind), wait.object, None)?;
    let takes = |thread: Addr| takers.contains(&User::Thread(thread));
    let (_, since) = events.activity(task.address)?.since?;
    let thread = events.stored(task.address);
    let threads = || case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    events.tries.failed.iter().filter(|((of, _), failed)| *of == thread && failed.seqs.1 < since).find_map(|((_, lock), failed)| {
        let owner = threads().find(|other| failed.owner.is_some_and(|owner| events.is(other.address, owner)))?;
        // For both, the mutex is around what they take.
        let lock_at = case.kernel?.objects.iter().find(|object| events.is(object.address, *lock))?.address;
        let is_within = |thread| usage.takes_within(User::Thread(thread), lock_at, (wait.kind, wait.object));
        if owner.address == task.address || ![owner.address, task.address].into_iter().all(|at| takes(at) && is_within(at)) {
            return None;
        }
        let (name, other) = (case.label(task.address), owner.label());
        let (lock, object) = (case.object(*lock), case.object(wait.object));
        let words = format!(
            "before that it had asked for {lock} in vain, as {other} had it, and it went on without it: {other} takes {object}, too, and may have \
             got what was meant for {name}"
        );
        Some((words, Evidence::event(failed.seqs.1, format!("{name} does not get {lock}, which {other} has"))))
    })
}
