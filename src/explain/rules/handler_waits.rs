//! The handler of an interrupt, or the callback of a timer, calls a function of the kernel with a time to wait, or a handler one that
//! an interrupt must not call at all. Where parameters are checked the kernel refuses the call, which leaves no event: what it was to
//! do is never done. The code of the program shows it.
//!
//! Against it: a function that looks whether it is in an interrupt may have a path with a time for threads.

use super::super::graph::Graph;
use super::super::usage::{Made, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::{place_at, waits};
use super::{forbidden_call, timer_waited, wrong_context};
use crate::abi::{Addr, Endian};
use crate::kernel::api::{self, Act, Forbidden};

/// What the names of functions begin with that check their parameters.
const CHECKED: &str = "_txe_";
/// What to do in place of such a call of a callback.
const NEXT_OF_CALLBACK: &str = "give a semaphore or set event flags in the callback, and let a thread do the rest";
/// Bytes of a function that are looked at.
const LOOKED: u64 = 1024;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    // Somebody waits for what is refused, or is a victim of what waits; or a fault came in an interrupt.
    let waits = graph.tasks.list.iter().any(|task| task.wait.is_some_and(|wait| wait.forever));
    if !waits && !case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.exception.is_some())) {
        return Vec::new();
    }
    let Some(usage) = case.usage() else { return Vec::new() };
    let known = forbidden_call::all(case);
    // What a callback broke is said of that.
    let broken = timer_waited::of(case).map(|broken| broken.object);
    let is_known =
        |call: &Made| known.iter().any(|one| one.is_at(call.at)) || broken.is_some() && call.object == broken;
    let mut found: Vec<Finding> = Vec::new();
    for (user, call) in usage.refused_calls().into_iter().filter(|(_, call)| !is_known(call)) {
        if !call.object.is_some_and(|object| found.iter().any(|finding| finding.affected.contains(&object))) {
            found.extend(finding(user, &call, case, graph));
        }
    }
    found
}

fn finding(user: User, call: &Made, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (who, cannot) = match user {
        User::Handler(number) => (case.exception(number.into()), "an interrupt cannot wait"),
        User::Callback(timer) => (format!("the callback of {}", case.object(timer)), "a callback must not wait"),
        _ => return None,
    };
    let is_checked = call.function.starts_with(CHECKED);
    let (function, object) = (call.service()?, call.object?);
    let waiters: Vec<Addr> = graph.tasks.waiting(object).map(|task| task.address).collect();
    let gives = api::action(&call.function).is_some_and(|action| action.act == Act::Gives);
    let then = if is_checked { ", and the kernel refuses the call" } else { "" };
    // That the object is what threads wait for shows the effect; a path for threads is ruled out where nothing asks for the exception.
    // What an interrupt must not call at all has no path for threads there.
    let is_wrong = call.is_own || call.is_never_allowed();
    let is_sure = is_checked && gives && is_wrong && !waiters.is_empty() && !asks_exception(call.at, case);
    let owner = case.kernel.and_then(|kernel| kernel.object(object)?.owner()).filter(|_| gives);
    let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
    let label = case.object(object);
    let (text, claim) = if call.wait == Some(0) || call.wait.is_none() {
        let not = "which an interrupt must not call at all";
        (format!("{function}, {not}"), format!("{who} calls {function} of {label}, {not}{then}"))
    } else {
        let claim = format!("{who} calls {function} of {label} with a time to wait: {cannot}{then}");
        (format!("{function} with a time to wait"), claim)
    };
    Some(
        Finding::new(Code::WrongContext, case.cap(claimed), claim)
            .against(["that it makes this call is inferred from the program's code"])
            .evidence([Evidence::symbol(call.at, &place_at(call.at, case), text)])
            // Who takes something gives nothing to those that wait.
            .explains(waiters.iter().filter(|_| gives).filter_map(|at| waits(*at, case, graph)))
            .next(next(&function, user))
            .running(starts(user, case))
            .denying_memory(is_checked && matches!(function.as_str(), "tx_block_allocate" | "tx_byte_allocate"))
            .affected(waiters.iter().copied().filter(|_| gives).chain([object]).chain(owner)),
    )
}

/// Where the code of a callback or a handler begins.
fn starts(user: User, case: &Case<'_>) -> Option<Addr> {
    match user {
        User::Callback(timer) => {
            let timer = case.kernel?.object(timer)?;
            timer.get("tx_timer_internal_timeout_function").map(|at| at & !1)
        }
        User::Handler(number) => {
            case.look.handlers().into_iter().find(|(known, _)| *known == number).map(|(_, at)| at & !1)
        }
        _ => None,
    }
}

/// What to do in place of such a call: where an interrupt must not call it at all, a time of 0 does not help.
fn next(function: &str, user: User) -> String {
    match api::in_interrupt(function) {
        Some(Forbidden::Always) if matches!(user, User::Callback(_)) => NEXT_OF_CALLBACK.to_owned(),
        Some(Forbidden::Always) => wrong_context::NEXT.to_owned(),
        _ => format!("call {function} with TX_NO_WAIT there, and look at what it returns"),
    }
}

/// True where a function reads the number of the exception that it runs in (MRS of IPSR or xPSR: Armv7-M Architecture Reference
/// Manual, B5.2.2).
fn asks_exception(at: Addr, case: &Case<'_>) -> bool {
    let code = || {
        let symbol = case.look.function(at)?;
        case.look.bytes(symbol.address & !1, symbol.size.clamp(2, LOOKED))
    };
    // What cannot be read may do so.
    code().is_none_or(|code| {
        let half = |n: usize| Endian::Little.u16(&code, n);
        let reads =
            |n: usize| half(n) == Some(0xF3EF) && n.checked_add(2).and_then(half).is_some_and(|low| low & 0xFF < 8);
        (0..code.len()).step_by(2).any(reads)
    })
}
