//! A call that may wait, or a mutex, in an interrupt: the kernel has no thread there to suspend. Where parameters are checked
//! such a call is refused and leaves no event, so this sees only kernels that were built without the checks.
//!
//! The same in a callback of a timer: it runs in the kernel's timer thread, which then waits, and no timer and no time-out goes
//! on. Memory shows it: the timer thread waits for an object, or is in the list of those that do (the kernel resumes it with the
//! next tick that ends a time, and leaves it in the list).

use std::collections::BTreeSet;

use super::super::events::WrongCall;
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::usage::{Made, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::forbidden_call;
use super::words::{self, place_at, waiting};
use crate::abi::{Addr, Region};
use crate::kernel::api::{self, Act, Forbidden};
use crate::kernel::{Kernel, Kind, Object, Thread};
use crate::trace::many;

/// What to do instead.
pub(super) const NEXT: &str = "give a semaphore or set event flags in the interrupt, and let a thread do the rest";
/// The most events, and places in the code, that are named.
const SHOWN: usize = 3;
/// A larger count of waits is no count.
const MOST_WAITS: u64 = 1 << 16;
/// Bytes of a stack that are looked at.
const LOOKED: u64 = 1024;
/// So many timers are named where it is not known whose callback it is.
const MOST: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    in_interrupt(case, graph).into_iter().chain(in_callback(case, graph)).collect()
}

fn in_interrupt(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    let all = calls(case);
    let raises = |mutex: Addr| {
        is_without_owner(mutex, case) && inherits(mutex, case) && graph.tasks.waiting(mutex).next().is_some()
    };
    let damage = |object: Addr| if raises(object) { without_owner(object, case) } else { without_thread(object, case) };
    let damaging = all.iter().find_map(|one| Some((one, damage(one.0.object?)?)));
    let (owned, shown_damage) = damaging.unzip();
    let is_sure = |(call, _): &&(&WrongCall, _)| !events.is_of_thread(call);
    let (first, sites) = owned.or_else(|| all.iter().find(is_sure)).or_else(|| all.first())?;
    let is_doubtful = events.is_of_thread(first);
    let alike = all.iter().filter(|(call, _)| events.is_of_thread(call) == is_doubtful);
    let shown = |call: &WrongCall| Evidence::event(call.seq, format!("{} in an interrupt", call.call));
    let site = |at: &Addr| {
        let text = format!("by the code, an interrupt may call {} here", first.call);
        Evidence::symbol(*at, &place_at(*at, case), text)
    };
    let (confidence, against) = case.by_events();
    let confidence = if is_doubtful { Confidence::Hint } else { confidence };
    // A mutex that an interrupt has taken nobody gives back: those that began to wait after that wait for it.
    let is_since = |at: Addr| {
        let since = events.activity(at).and_then(|activity| activity.since);
        since.is_some_and(|(_, seq)| seq > first.seq)
    };
    let waits_for = |task: &&Task| {
        let wait = task.wait.filter(|wait| wait.forever && wait.kind == Kind::Mutex);
        wait.is_some_and(|wait| first.object.is_some_and(|object| events.is(wait.object, events.stored(object))))
            && is_since(task.address)
    };
    let behind: Vec<Addr> = graph.tasks.list.iter().filter(waits_for).map(|task| task.address).collect();
    let names: Vec<String> = behind.iter().take(SHOWN).map(|at| case.label(*at)).collect();
    let waited = match (names.as_slice(), behind.len().saturating_sub(SHOWN)) {
        ([], _) => String::new(),
        ([one], _) => format!("; {one} has waited for it since then"),
        (all, 0) => format!("; {} have waited for it since then", all.join(", ")),
        (all, more) => format!("; {} and {more} more have waited for it since then", all.join(", ")),
    };
    let both = "its buffer is that of a thread's call: an interrupt may have come while a thread inserted the event";
    Some(
        Finding::new(Code::WrongContext, (confidence, against), format!("{}{waited}", claim(first, sites, case)))
            .against(["a damaged event looks the same"])
            .against(
                (!behind.is_empty())
                    .then_some("that threads wait as the interrupt has taken it is inferred: they began after that"),
            )
            .against(is_doubtful.then_some(both))
            .evidence(alike.take(SHOWN).map(|(call, _)| shown(call)))
            .evidence(sites.iter().take(SHOWN).map(site))
            .evidence(shown_damage)
            .evidence(first.object.and_then(|object| owner_by_interrupt(object, case)))
            .damaging_memory(owned.is_some())
            .explains(behind.iter().filter_map(|at| words::waits(*at, case, graph)))
            .affected(behind)
            .next(NEXT),
    )
}

/// `exception 24 (IRQ 8, UART_Handler) calls tx_mutex_get (mutex log) in put_line (log.c:9): an interrupt cannot ..`.
fn claim(call: &WrongCall, sites: &[Addr], case: &Case<'_>) -> String {
    let who = case.interrupt(call.interrupt.map(u64::from));
    let on = call.object.map_or_else(String::new, |object| format!(" ({})", case.object(object)));
    let at = match sites {
        [only] => format!(" in {}", place_at(*only, case)),
        _ => String::new(),
    };
    let why = if is_lock_or_wait(&call.call) {
        "an interrupt cannot wait and cannot own a mutex"
    } else {
        "an interrupt must not call it"
    };
    format!("{who} calls {}{on}{at}: {why}", call.call)
}

fn without_owner(mutex: Addr, case: &Case<'_>) -> Option<Evidence> {
    let text = format!(
        "{}: it is owned by no thread, and a thread waits for it: the kernel may raise the priority of its owner, and write near \
         address 0",
        case.object(mutex)
    );
    Some(Evidence::memory(mutex, text))
}

/// Waits that an object counts and no thread knows of: where none runs, the kernel makes what a null pointer leads to wait.
fn without_thread(object: Addr, case: &Case<'_>) -> Option<Evidence> {
    let kernel = case.kernel.filter(|_| !case.trust.other_build)?;
    let counted = kernel.object(object)?.get("suspended_count")?;
    let waits = |thread: &&Thread| thread.suspended_on().is_some_and(|(_, at)| at == object);
    let said = u64::try_from(kernel.threads.iter().filter(waits).count()).ok()?;
    let text = format!(
        "{}: it counts {counted} that wait, and {} it waits for it: where an interrupt waits and no thread runs, the kernel writes near \
         address 0",
        case.object(object),
        many(said, "thread says that", "threads say that")
    );
    (said < counted && counted < MOST_WAITS).then(|| Evidence::memory(object, text))
}

/// True for what an interrupt must not call since it would wait, or since a mutex needs an owner; also of other systems.
fn is_lock_or_wait(call: &str) -> bool {
    api::in_interrupt(call) != Some(Forbidden::Always) || call.contains("mutex")
}

/// The calls that events show, with where the code makes them: those that the code of handlers can make, as far as it is known, and
/// that the registers of no CPU show.
fn calls<'c>(case: &'c Case<'_>) -> Vec<(&'c WrongCall, Vec<Addr>)> {
    let wrong = case.events.map(|events| events.wrong.as_slice()).filter(|wrong| !wrong.is_empty());
    let Some(wrong) = wrong else { return Vec::new() };
    let shown = forbidden_call::all(case);
    // Without a thread for them callbacks run in the interrupt of the tick.
    let in_tick = case.kernel.is_some_and(|kernel| timer_thread(kernel).is_none());
    let made = case.usage().and_then(|usage| usage.calls_in_interrupts(in_tick));
    let sites = |call: &WrongCall| {
        let made = made.as_ref().filter(|_| api::in_interrupt(&call.call).is_some())?;
        Some(made.iter().filter(|made| is_it(made, call, case)).map(|made| made.at).collect::<BTreeSet<Addr>>())
    };
    let all = wrong.iter().filter(|call| !shown.iter().any(|one| one.service == call.call));
    let all = all.map(|call| (call, sites(call)));
    let may_be = all.filter(|(_, sites)| sites.as_ref().is_none_or(|sites| !sites.is_empty()));
    may_be.map(|(call, sites)| (call, sites.into_iter().flatten().collect())).collect()
}

/// True where a call by the code may be that of an event.
fn is_it(made: &Made, call: &WrongCall, case: &Case<'_>) -> bool {
    let is_object = made.object.zip(call.object).is_none_or(|(made, object)| case.stored(made) == object);
    is_object && made.is_forbidden() && made.service().as_ref() == Some(&call.call)
}

/// That a mutex is owned by a thread whose code never takes it.
pub(super) fn owner_by_interrupt(mutex: Addr, case: &Case<'_>) -> Option<Evidence> {
    let object = case.kernel?.object(mutex).filter(|object| object.kind == Kind::Mutex)?;
    let owner = object.get("owner").filter(|owner| *owner != 0 && object.get("ownership_count") != Some(0))?;
    let takers = case.usage()?.who(Act::Takes, Some(Kind::Mutex), mutex, None)?;
    // Through a pointer it may call the others.
    let may_take = |user: &User| matches!(user, User::Other(_)) || *user == User::Thread(owner);
    let owner = case.thread(owner).filter(|_| !takers.iter().any(may_take))?.label();
    let text = format!(
        "{}: its owner is {owner}, whose code never takes it: an interrupt took it, or waited for it, while {owner} ran",
        case.object(mutex)
    );
    Some(Evidence::memory(mutex, text))
}

/// True for a mutex whose owner inherits the priority of those that wait.
fn inherits(mutex: Addr, case: &Case<'_>) -> bool {
    case.kernel.and_then(|kernel| kernel.object(mutex)?.get("inherit")) == Some(1)
}

/// True for a mutex that was taken while no thread ran: its owner is 0, and where a thread waits for it the kernel raises the
/// priority of that "thread".
pub(super) fn is_without_owner(mutex: Addr, case: &Case<'_>) -> bool {
    let object = case.kernel.and_then(|kernel| kernel.object(mutex)).filter(|object| object.kind == Kind::Mutex);
    object.is_some_and(|object| object.get("owner") == Some(0) && object.get("ownership_count").is_some_and(|n| n > 0))
}

/// The thread that runs the callbacks of timers: the kernel creates it with the id of a timer as its parameter.
fn timer_thread(kernel: &Kernel) -> Option<&Thread> {
    kernel.threads.iter().find(|thread| thread.parameter == Some(Kind::Timer.id()))
}

fn in_callback(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let kernel = case.kernel?;
    let thread = timer_thread(kernel)?;
    let task = graph.tasks.at(thread.address)?;
    let is_listed = |object: &&Object| object.get("suspension_list") == Some(thread.address);
    let object = task.wait.map(|wait| wait.object).or_else(|| kernel.objects.iter().find(is_listed).map(|o| o.address));
    // Only the list still says that it waits: the kernel has resumed it since.
    let is_over = task.wait.is_none() && task.does != Does::Sleeps;
    let waits = match object {
        Some(object) => waits(&case.object(object), is_over.then(|| thread.label())),
        None if task.does == Does::Sleeps => "sleeps".to_owned(),
        None => return None,
    };
    let timers = callbacks(thread, kernel, case);
    let names: Vec<String> = timers.iter().map(|timer| format!("timer {}", timer.label())).collect();
    let others: Vec<String> =
        kernel.objects.iter().filter(|object| object.kind == Kind::Timer).map(Object::label).collect();
    let (who, next) = match names.as_slice() {
        [] if (1..=MOST).contains(&others.len()) => {
            (format!("a callback of a timer ({})", others.join(" or ")), others.join(" or "))
        }
        [] => ("a callback of a timer".to_owned(), "a timer".to_owned()),
        [only] => (format!("the callback of {only}"), only.clone()),
        several => (format!("a callback ({})", several.join(", ")), several.join(", ")),
    };
    // No timer ends meanwhile: whoever sleeps, and waits for those, waits for it.
    let is_idle = is_over && task.does == Does::Suspended;
    let sleeps = graph.tasks.list.iter().filter(|task| task.does == Does::Sleeps && !is_idle);
    let mut behind: Vec<Addr> = sleeps.map(|task| task.address).collect();
    behind.push(thread.address);
    behind.extend(graph.waiters(&behind));
    Some(
        Finding::new(
            Code::WrongContext,
            case.cap(Confidence::Likely),
            format!(
                "{who} {waits}: callbacks run in {}, and while one waits no timer or time-out ends",
                thread.label()
            ),
        )
        .against((!names.is_empty()).then_some("which callback it is was found by addresses on the stack"))
        .evidence([match object {
            Some(object) if task.wait.is_some() => waiting(thread.address, object, case, graph),
            Some(object) => Evidence::memory(
                object,
                format!("{}: {} is in the list of those that wait", case.object(object), thread.label()),
            ),
            None => Evidence::memory(thread.address, format!("{}: sleeps", thread.label())),
        }])
        .evidence(timers.iter().filter_map(|timer| {
            let at = timer.get("tx_timer_internal_timeout_function")?;
            let function = case.look.function(at & !1)?;
            Some(Evidence::symbol(at & !1, &function.name, format!("the callback of timer {}", timer.label())))
        }))
        .next(format!("let the callback of {next} give a semaphore or set event flags, and a thread do the rest"))
        .threads([thread.address])
        .affected(behind),
    )
}

/// That it waits, or that it waited: then its thread, `left`, is in the list of those that do, and does something else.
fn waits(object: &str, left: Option<String>) -> String {
    match left {
        Some(thread) => format!("waited for {object}, and {thread} is still in the list of those that wait"),
        None => format!("waits for {object}"),
    }
}

/// Timers whose callbacks have left an address on the stack of the timer thread, where it is in use.
fn callbacks<'k>(thread: &Thread, kernel: &'k Kernel, case: &Case<'_>) -> Vec<&'k Object> {
    let words = || {
        let sp = thread.saved.filter(|sp| thread.holds(*sp))?;
        let len = thread.stack.end()?.checked_sub(sp)?.min(LOOKED);
        Some(case.words(&case.look.bytes(sp, len)?, true))
    };
    let words = words().unwrap_or_default();
    let is_on_stack = |timer: &&Object| {
        let callback = timer.get("tx_timer_internal_timeout_function").filter(|at| *at != 0);
        let function = callback.and_then(|at| case.look.function(at & !1));
        let code = function.map(|function| Region { start: function.address & !1, len: function.size.max(2) });
        // The address itself is that which the kernel calls: a call in it has left another.
        code.is_some_and(|code| words.iter().any(|word| Some(*word) != callback && code.contains(word & !1)))
    };
    let timers = kernel.objects.iter().filter(|object| object.kind == Kind::Timer);
    timers.filter(is_on_stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_had_waited_was_said_to_wait() {
        assert_eq!(waits("queue events", None), "waits for queue events");
        let left = waits("queue events", Some("System Timer Thread".to_owned()));
        assert!(left.starts_with("waited for queue events, and System Timer Thread is still"), "{left}");
    }
}
