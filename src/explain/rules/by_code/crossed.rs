//! Threads start a transfer in the same function and wait there for the semaphore that an interrupt puts at its end, and hold no lock. The
//! second one that starts writes over what the first one has set, one put wakes the one that waited first, and each may get the answer
//! of the other.
//!
//! Against it: something else may keep them apart, as the times at which they run: a hint.

use std::collections::BTreeSet;

use super::super::super::usage::{Started, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::shared::names;
use super::super::words::{function_at, place_at, waiting};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;

impl ByCode<'_, '_> {
    /// Threads that wait for the end of what another one may have started, too.
    pub(super) fn crossed(&self) -> Vec<Finding> {
        let waits = |at: Addr| self.graph.tasks.at(at)?.wait.filter(|wait| wait.kind == Kind::Semaphore);
        let all = self.graph.tasks.list.iter().filter_map(|task| Some((waits(task.address)?.object, task.address)));
        let mut seen = BTreeSet::new();
        let mut of = |(semaphore, thread): (Addr, Addr)| {
            let is_new = seen.insert(semaphore);
            let started = self.usage.started(semaphore, &|at| self.variable(at)).filter(|_| is_new)?;
            started.threads.contains(&User::Thread(thread)).then(|| self.crossed_finding(semaphore, thread, &started))
        };
        all.filter_map(&mut of).collect()
    }

    fn variable(&self, at: Addr) -> Option<Region> {
        self.case.look.variable(at).map(|variable| Region { start: variable.address, len: variable.size })
    }

    fn crossed_finding(&self, semaphore: Addr, thread: Addr, started: &Started) -> Finding {
        let (name, object) = (self.case.label(thread), self.case.object(semaphore));
        let handlers = names(&started.handlers.iter().copied().collect(), self.case);
        let (threads, function) = (names(&started.threads, self.case), function_at(started.function, self.case));
        let place = place_at(started.at, self.case);
        let word = self.case.look.place(started.word).unwrap_or_else(|| format!("{:#x}", started.word));
        Finding::new(
            Code::EventNeverSet,
            self.case.cap(Confidence::Hint),
            format!(
                "{name} waits for {object}, which {handlers} puts; {threads} start something in {function} and wait for its end there, \
                 without a lock: each may get what the other waits for"
            ),
        )
        .against([BY_CODE, "something else may keep them apart"])
        .evidence([
            waiting(thread, semaphore, self.case, self.graph),
            Evidence::symbol(started.at, &place, format!("{threads} wait for {object} here, and hold no lock")),
            Evidence::memory(
                started.word,
                format!("by the code, {function} sets {word} before, which {handlers} uses, too"),
            ),
        ])
        .next(format!("let {function} own a mutex from before it sets {word} until the wait for {object} is over"))
        .threads([thread])
    }
}
