//! Who may have been the one to end a wait that no event ends: a timer that is off, whose callback calls what gives such an object or
//! holds its address; and a thread that cannot go on, which gave it in the trace, or whose code or stack holds its address. Where
//! there is no such sign, the only thread that has ended. It is inference: timers that were used once are off in healthy systems,
//! and threads end on purpose.

use super::super::Case;
use super::super::events::Giver;
use super::super::graph::Graph;
use super::super::state::{Does, Task, Wait};
use super::callback::{self, is_timer_task};
use super::users;
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// The most that are named.
const NAMED: usize = 3;

/// They are named in sentences: `timer scan (callback due), which is off`.
pub(super) fn of(waiter: Addr, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<String> {
    let timers = timers(wait, case);
    let threads = threads(waiter, wait, case, graph);
    let all: Vec<String> = timers.into_iter().chain(threads).take(NAMED).collect();
    let which = if all.len() == 1 { "the one that did" } else { "one that did" };
    (!all.is_empty()).then(|| format!("{}, may be {which}", all.join(" or ")))
}

/// Timers that are off, and whose callback gives it.
fn timers(wait: &Wait, case: &Case<'_>) -> Vec<String> {
    let Some(kernel) = case.kernel.filter(|_| !case.trust.other_build) else { return Vec::new() };
    let is_off = |timer: &&Object| timer.kind == Kind::Timer && timer.active() == Some(false);
    let off: Vec<&Object> = kernel.objects.iter().filter(is_off).collect();
    let gives = |timer: &&&Object| callback::calls(timer, &|name| is_gift(wait.kind, name), case);
    let has = |timer: &&&Object| callback::holds(timer, wait.object, case);
    let by_address: Vec<&Object> = off.iter().filter(has).copied().collect();
    let found = if by_address.is_empty() { off.iter().filter(gives).copied().collect() } else { by_address };
    let named = |timer: &Object| {
        let function = callback::function(timer).and_then(|at| case.look.function(at));
        let function = function.map_or_else(String::new, |function| format!(" (callback {})", function.name));
        format!("timer {}{function}, which is off", timer.label())
    };
    found.into_iter().map(named).collect()
}

/// True for the function of the kernel that gives an object of this kind.
fn is_gift(kind: Kind, function: &str) -> bool {
    let name = function.strip_prefix("_txe_").or_else(|| function.strip_prefix("_tx_"));
    let gifts: &[&str] = match kind {
        Kind::Semaphore => &["semaphore_put", "semaphore_ceiling_put"],
        Kind::EventFlags => &["event_flags_set"],
        Kind::Queue => &["queue_send", "queue_front_send"],
        _ => &[],
    };
    name.is_some_and(|name| gifts.contains(&name))
}

/// Threads that cannot go on.
fn threads(waiter: Addr, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Vec<String> {
    let is_gone = |task: &&Task| task.address != waiter && task.does.gone().is_some() && !is_timer_task(task, case);
    let all: Vec<&Task> = graph.tasks.list.iter().filter(is_gone).collect();
    let one = case.events.and_then(|events| events.object(wait.object));
    let gave = |task: &&&Task| {
        let is = |by: &Giver| matches!(by, Giver::Thread(thread) if case.events.is_some_and(|events| events.is(task.address, *thread)));
        one.is_some_and(|one| one.givers.keys().any(is))
    };
    let with_sign = |task: &&&Task| gave(task) || users::uses(task, wait.object, case);
    let mut found: Vec<&Task> = all.iter().filter(with_sign).copied().collect();
    if let ([only], true) = (all.as_slice(), found.is_empty())
        && only.does != Does::Suspended
    {
        found.push(only);
    }
    let named = |task: &Task| Some(format!("{}, which {}", case.label(task.address), task.does.gone()?));
    found.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_that_give() {
        assert!(is_gift(Kind::Semaphore, "_txe_semaphore_put"));
        assert!(is_gift(Kind::Queue, "_tx_queue_front_send"));
        assert!(!is_gift(Kind::Queue, "_tx_queue_receive"));
        assert!(!is_gift(Kind::Semaphore, "semaphore_put"), "a function of the program");
    }
}
