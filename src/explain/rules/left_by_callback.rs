//! A callback of a timer took a mutex and did not give it back: the thread in which the kernel runs callbacks owns it and is
//! idle. Nothing wakes that thread for the mutex: it waits for the next timer.
//!
//! A callback that gives it back on each path has waited for it: the next timer resumes the thread without the mutex, the callback
//! gives back what it does not have, and the thread becomes the owner later.
//!
//! Against it: another callback may give it back. Which callback took it is inferred: by the code of those that call
//! `tx_mutex_get`, and have the address of the mutex.

use super::super::graph::{Edge, Graph, How};
use super::super::state::Does;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_task;
use super::users::callback_uses;
use super::words::{holds, shows, waiting};
use super::writers;
use crate::abi::Addr;
use crate::kernel::api::Act;
use crate::kernel::{Kind, Object};

/// The functions of the kernel that take a mutex.
const GETS: [&str; 2] = ["_tx_mutex_get", "_txe_mutex_get"];
/// The one that does not check whether it may wait.
const UNCHECKED: &str = "_tx_mutex_get";
/// The callback of a timer.
const FUNCTION: &str = "tx_timer_internal_timeout_function";
/// So many timers are named.
const MOST: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !edge.is_timed && edge.how == How::Owns) {
        if !found.iter().any(|finding| finding.affected.contains(&edge.object)) {
            found.extend(finding(edge, case, graph));
        }
    }
    found
}

/// The timers whose callbacks may take a mutex, those that run first: by their code, as far as that is known.
fn timers<'k>(mutex: Addr, case: &Case<'k>) -> Vec<&'k Object> {
    let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
    let all: Vec<&Object> = objects.iter().filter(|object| object.kind == Kind::Timer).collect();
    let of_callbacks = |is_so: &dyn Fn(&Object) -> bool| all.iter().copied().filter(|timer| is_so(timer)).collect();
    let gets: Vec<Addr> = GETS.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let takes = |timer: &Object| {
        let callback = timer.get(FUNCTION).filter(|at| *at != 0 && !case.trust.other_build);
        callback.is_some_and(|callback| writers::calls(callback, &gets, case))
    };
    let with_it: Vec<&Object> = of_callbacks(&|timer| takes(timer) && callback_uses(timer, mutex, case));
    let takers: Vec<&Object> = if with_it.is_empty() { of_callbacks(&takes) } else { with_it };
    let users = || of_callbacks(&|timer| callback_uses(timer, mutex, case));
    if takers.is_empty() { users() } else { takers }
}

/// `the callback of timer blink`, `a callback of a timer`; and whom to look at.
fn who(timers: &[&Object]) -> (String, String) {
    let names: Vec<String> = timers.iter().take(MOST).map(|timer| timer.label()).collect();
    match names.as_slice() {
        [] => ("a callback of a timer".to_owned(), "the callbacks of timers".to_owned()),
        [only] => (format!("the callback of timer {only}"), format!("the callback of timer {only}")),
        several => {
            let all = several.join(" or ");
            (format!("a callback of a timer ({all})"), format!("the callbacks of {all}"))
        }
    }
}

/// True where the callback gives the mutex back on each path, and takes it with a call that may wait; false where a path does not
/// give it back; `None` where the code does not show it.
fn waited(timers: &[&Object], mutex: Addr, case: &Case<'_>) -> Option<bool> {
    let [timer] = timers else { return None };
    let (user, usage) = (User::Callback(timer.address), case.usage()?);
    if usage.leak(user, Kind::Mutex, mutex).is_some() {
        return Some(false);
    }
    let does = |act| usage.does(user, act, Kind::Mutex, mutex);
    let may_wait = case.look.symbol(UNCHECKED).is_some_and(|get| usage.waits_for(user, mutex, get.address & !1));
    (does(Act::Takes) && does(Act::Gives) && may_wait).then_some(true)
}

fn finding(edge: &Edge, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let task = graph.tasks.at(edge.holder).filter(|task| is_timer_task(task, case))?;
    if task.does != Does::Suspended {
        return None;
    }
    let timers = timers(edge.object, case);
    let (who, look_at) = who(&timers);
    let (holder, object, waiter) = (case.label(edge.holder), case.object(edge.object), case.label(edge.waiter));
    let asked = case.events.and_then(|events| events.object(edge.object)?.asked_in.get(&events.stored(edge.holder)));
    let (confidence, detractors) = case.cap(Confidence::Likely);
    let callbacks = timers.iter().take(MOST).filter_map(|timer| {
        let function = case.look.function(timer.get(FUNCTION)? & !1)?;
        let text = format!("the callback of timer {}, which may take it", timer.label());
        Some(Evidence::symbol(function.address & !1, &function.name, text))
    });
    let waited = waited(&timers, edge.object, case);
    let what = match waited {
        Some(true) => {
            format!("{who} waited for {object} (a callback must not wait) and did not put it when it was its own")
        }
        _ => format!("{who} took {object}, and nobody put it"),
    };
    let next = match waited {
        Some(true) => format!("let {look_at} call tx_mutex_get with TX_NO_WAIT; better let a thread use {object}"),
        Some(false) => {
            format!("look for a path of {look_at} that returns without tx_mutex_put; better let a thread use {object}")
        }
        None => format!(
            "look for a path of {look_at} that returns without tx_mutex_put, or waits for it; better let a thread use {object}"
        ),
    };
    Some(
        Finding::new(
            Code::WrongContext,
            (confidence, detractors),
            format!("{what}: {holder}, in which callbacks run, owns it and is idle; {waiter} waits for it"),
        )
        .against(["another callback may put it"])
        .against((!timers.is_empty()).then_some("which callback it is was found by the code of all"))
        .evidence([waiting(edge.waiter, edge.object, case, graph), holds(edge, case)])
        .evidence(asked.map(|seq| Evidence::event(*seq, format!("{holder} takes {object}, in a callback"))))
        .evidence([shows(edge.holder, format!("{holder}: no timer has expired"), graph)])
        .evidence(callbacks)
        .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
        .next(next)
        .threads([edge.holder, edge.waiter])
        .affected([edge.object]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Find out who suspends it", of the thread that the kernel suspends while no timer expires.
    #[test]
    fn the_idle_timer_thread_was_an_owner_that_somebody_suspends() {
        let timer = |address| Object::of_members(Kind::Timer, address, &[]);
        let (one, other) = (timer(0x100), timer(0x200));
        assert_eq!(who(&[&one]).0, "the callback of timer 0x100");
        assert_eq!(who(&[&one, &other]).0, "a callback of a timer (0x100 or 0x200)");
        assert_eq!(who(&[]).1, "the callbacks of timers");
    }
}
