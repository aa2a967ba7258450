//! A callback of a timer waited for an object, and a thread that waits for the same object is not in its list of waiting threads. The
//! callbacks run in the kernel's timer thread. Where that is in the list of an object, the next timer that expires resumes it without
//! taking it out of the list: the list and its count are wrong from then on, and threads are lost from it.
//!
//! The control block of the timer thread still has the object that it waited for last.
//!
//! Against it: the list may have been broken by something else.

use super::super::graph::Graph;
use super::super::usage::{Made, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::control_blocks::is_within_call;
use super::words::{place_at, waiting};
use crate::abi::Addr;
use crate::kernel::Thread;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    of(case).map(|broken| broken.finding(case, graph)).into_iter().collect()
}

/// An object whose list is broken, for which a callback waited.
pub(super) struct Broken<'c> {
    timers: &'c Thread,
    pub object: Addr,
    /// Threads that wait for it and are not in its list.
    lost: Vec<Addr>,
}

/// That object. `None` in the middle of a call of the kernel, in which lists may be so for a moment.
pub(super) fn of<'c>(case: &Case<'c>) -> Option<Broken<'c>> {
    let kernel = case.kernel.filter(|_| !case.trust.other_build && !is_within_call(case))?;
    let timers = kernel.threads.iter().find(|thread| is_timer_thread(thread, case))?;
    let object = kernel.object(timers.suspended_last()?).filter(|_| timers.suspended_on().is_none())?;
    let lost = kernel.unlisted(object);
    (!lost.is_empty()).then_some(Broken { timers, object: object.address, lost })
}

impl Broken<'_> {
    fn finding(&self, case: &Case<'_>, graph: &Graph) -> Finding {
        let (label, timers) = (case.object(self.object), self.timers.label());
        let names: Vec<String> = self.lost.iter().map(|at| case.label(*at)).collect();
        let (names, wait, are) = match names.as_slice() {
            [one] => (one.clone(), "waits", "is"),
            all => (all.join(", "), "wait", "are"),
        };
        let by_code = self.call(case);
        let callback = match &by_code {
            Some((timer, call)) => format!(
                "the callback of {} calls {} for it with a time to wait",
                case.object(*timer),
                call.service().unwrap_or_else(|| call.function.clone())
            ),
            None => "a callback of a timer called the kernel with a time to wait".to_owned(),
        };
        let claim = format!(
            "{names} {wait} for {label} and {are} not in its list of waiting threads, and {timers} has waited for {label}: {callback}, \
             which can break the list"
        );
        let call = by_code.map(|(_, call)| {
            let place = place_at(call.at, case);
            Evidence::symbol(call.at, &place, "a callback must not wait: here it calls with a time to wait".to_owned())
        });
        Finding::new(Code::WrongContext, case.cap(Confidence::Likely), claim)
            .against(["something else may have broken the list"])
            .evidence([
                Evidence::memory(
                    self.timers.address,
                    format!("{timers}: the last object that it waited for is {label}"),
                )
                .holds(self.object),
                Evidence::memory(self.object, format!("{label}: {names} {are} not in its list")),
            ])
            .evidence(self.lost.iter().map(|at| waiting(*at, self.object, case, graph)))
            .evidence(call)
            .next("call the kernel with TX_NO_WAIT in callbacks of timers, and look at what it returns")
            .threads([self.object])
            .affected(self.lost.iter().copied().chain([self.object]))
    }

    /// The call of a callback that waits for it, by the code.
    fn call(&self, case: &Case<'_>) -> Option<(Addr, Made)> {
        let all = case.usage()?.refused_calls().into_iter();
        let of_callback = |(user, call): (User, Made)| match user {
            User::Callback(timer) if call.object == Some(self.object) => Some((timer, call)),
            _ => None,
        };
        all.filter_map(of_callback).next()
    }
}
