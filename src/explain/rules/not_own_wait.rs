//! A thread waits for an object, and was interrupted in the middle of its own code: it has not called the kernel. A call in an interrupt
//! does that: the kernel suspends the thread that was interrupted in place of the interrupt, which cannot wait.
//!
//! Against it: another thread changed the state in the control block.

use std::collections::BTreeSet;

use super::super::graph::Graph;
use super::super::state::Task;
use super::super::usage::{Made, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::place_at;
use super::{by_code, wrong_context};
use crate::abi::Addr;
use crate::kernel::api::{self, Act};
use crate::kernel::{Kind, State, Thread};
use crate::session::is_of_kernel;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    threads.filter_map(|thread| finding(thread, graph.tasks.at(thread.address)?, case, graph)).collect()
}

/// Where a thread was interrupted that waits; `None` for one that called the kernel.
fn interrupted_at(thread: &Thread, case: &Case<'_>) -> Option<Addr> {
    let is_saved = thread.core.is_none() && !thread.position.never_ran && thread.state != Some(State::READY);
    let pc = thread.position.pc.filter(|_| is_saved)?;
    let own = case.cpus?.frames(thread.address)?.first().filter(|first| **first == pc)?;
    // That it is a function of the application is known where it is the one that would have called the kernel.
    case.cpus?.call(thread.address).filter(|call| call.pc == pc)?;
    // All threads that wait or sleep were switched away from in the same function, whatever it is called.
    let function = |pc: Addr| case.look.function(pc & !1).map(|function| function.address & !1);
    let here = function(*own)?;
    let is_halted = |other: &&Thread| {
        let is_other = other.address != thread.address && other.core.is_none() && !other.position.never_ran;
        is_other && other.state.is_some_and(|state| state == State::SLEEPS || Kind::of_state(state.0).is_some())
    };
    let threads = case.kernel?.threads.iter().filter(is_halted);
    let others: BTreeSet<Addr> = threads.filter_map(|other| function(other.position.pc?)).collect();
    let is_of_kernel = case.look.function(*own & !1).is_some_and(|function| is_of_kernel(&function.name));
    (!is_of_kernel && others.len() == 1 && !others.contains(&here)).then_some(*own)
}

fn finding(thread: &Thread, task: &Task, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wait = task.wait?;
    let at = interrupted_at(thread, case)?;
    let (name, object, place) = (thread.label(), case.object(wait.object), place_at(at & !1, case));
    let usage = case.usage();
    let takes = |call: &Made| api::action(&call.function).is_some_and(|action| action.act == Act::Takes);
    let may_wait = |call: &Made| (takes(call) || api::wait_argument(&call.function).is_some()) && call.wait != Some(0);
    let is_it = |call: &Made| call.object == Some(wait.object) && may_wait(call);
    let handlers = usage.map(|usage| usage.handlers()).unwrap_or_default();
    let calls = handlers.into_iter().filter_map(|number| {
        let user = User::Handler(number);
        Some((user, usage?.calls_of(user).into_iter().find(is_it)?))
    });
    let by: Vec<(User, Made)> = calls.collect();
    let who = match by.as_slice() {
        [(user, call)] => {
            let called = call.service().unwrap_or_else(|| call.function.clone());
            format!("; by the code {} calls {called} in {}", by_code::user_name(*user, case), place_at(call.at, case))
        }
        _ => String::new(),
    };
    let perhaps = if by.len() == 1 { "" } else { "perhaps " };
    let behind = graph.waiters(&[thread.address]);
    Some(
        Finding::new(
            Code::WrongContext,
            case.cap(if by.len() == 1 { Confidence::Likely } else { Confidence::Hint }),
            format!(
                "{name} waits for {object}, and it was interrupted in {place}, where it calls nothing: {perhaps}an interrupt called the kernel \
                 with a time to wait, and the kernel suspended {name} in its place{who}"
            ),
        )
        .against(["a write over its control block may have changed its state"])
        .evidence([
            Evidence::memory(thread.address, format!("{name}: its state says that it waits for {object}")),
            Evidence::symbol(at & !1, &place, format!("{name} goes on here, and no call of the kernel is in front of it")),
        ])
        .evidence(by.iter().map(|(user, call)| {
            let text = format!("by the code, {} may wait for {object} here", by_code::user_name(*user, case));
            Evidence::symbol(call.at, &place_at(call.at, case), text)
        }))
        .next(wrong_context::NEXT.to_owned())
        .threads([thread.address])
        .affected(behind.into_iter().chain(graph.tasks.waiting(wait.object).map(|task| task.address))),
    )
}
