//! Threads start a transfer in the same function and wait there for the semaphore that an interrupt puts at its end, or for an event flag,
//! and hold no lock. The second one that starts writes over what the first one has set. One put wakes the one that waited first, and each
//! may get the answer of the other; of event flags, that of the first one may never be set.
//!
//! Against it: something else may keep them apart, as the times at which they run: a hint.

use std::collections::BTreeSet;

use super::super::super::state::Wait;
use super::super::super::usage::{Started, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::shared::names;
use super::super::words::{function_at, missing, place_at, waiting};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;

impl ByCode<'_, '_> {
    /// Threads that wait for the end of what another one may have started, too.
    pub(super) fn crossed(&self) -> Vec<Finding> {
        let is_it = |wait: &Wait| wait.kind == Kind::Semaphore || wait.kind == Kind::EventFlags && wait.forever;
        let all = self.graph.tasks.list.iter().filter_map(|task| Some((task.wait.filter(is_it)?, task.address)));
        let mut seen = BTreeSet::new();
        let mut of = |(wait, thread): (Wait, Addr)| {
            let is_new = seen.insert(wait.object);
            let started = self.usage.started(wait.kind, wait.object, &|at| self.variable(at)).filter(|_| is_new)?;
            started.threads.contains(&User::Thread(thread)).then(|| self.crossed_finding(&wait, thread, &started))
        };
        all.filter_map(&mut of).collect()
    }

    pub(super) fn variable(&self, at: Addr) -> Option<Region> {
        self.case.look.variable(at).map(|variable| Region { start: variable.address, len: variable.size })
    }

    fn crossed_finding(&self, wait: &Wait, thread: Addr, started: &Started) -> Finding {
        let (name, object) = (self.case.label(thread), self.case.object(wait.object));
        let wanted = missing(wait, self.case).map_or_else(String::new, |flags| format!("{flags:#x} of "));
        let (gives, harm) = match wait.kind {
            Kind::EventFlags => ("set", "one may write over what the other has started"),
            _ => ("put", "each may get what the other waits for"),
        };
        let is_one = started.answering.len() == 1;
        let gives = if is_one { format!("{gives}s") } else { gives.to_owned() };
        let use_it = if is_one { "uses" } else { "use" };
        let handlers = names(&started.answering.iter().copied().collect(), self.case);
        let (threads, function) = (names(&started.threads, self.case), function_at(started.function, self.case));
        let place = place_at(started.at, self.case);
        let word = self.case.look.place(started.word).unwrap_or_else(|| format!("{:#x}", started.word));
        Finding::new(
            Code::EventNeverSet,
            self.case.cap(Confidence::Hint),
            format!(
                "{name} waits for {wanted}{object}, which {handlers} {gives}; {threads} start something in {function} and wait for its end there, \
                 without a lock: {harm}"
            ),
        )
        .against([BY_CODE, "something else may keep them apart"])
        .evidence([
            waiting(thread, wait.object, self.case, self.graph),
            Evidence::symbol(started.at, &place, format!("{threads} wait for {object} here, and hold no lock")),
            Evidence::memory(
                started.word,
                format!("by the code, {function} sets {word} before, and {handlers} {use_it} the same variable"),
            ),
        ])
        .next(format!("let {function} own a mutex from before it sets {word} until the wait for {object} is over"))
        .threads([thread])
    }
}
