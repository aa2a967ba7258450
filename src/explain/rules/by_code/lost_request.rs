//! A thread waits for ever, and for long, for what only one other thread gives. That one waits for its next request, which this thread
//! makes, and others make, too: it took this request, and went on without an answer. Where those who make requests write to the same
//! memory without a lock, one of them may have written over the request of another one.
//!
//! Against it: the request may need no answer. As another thread may make requests, too, it is a hint, and it needs a trace that shows
//! that the wait is long.

use super::super::super::state::Task;
use super::super::super::usage::{Need, Started, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::shared::names;
use super::super::words::{function_at, place_at};
use super::ByCode;

impl ByCode<'_, '_> {
    /// Threads whose request another thread took and did not answer.
    pub(super) fn lost_requests(&self) -> Vec<Finding> {
        self.graph.tasks.list.iter().filter_map(|task| self.lost_request(task)).collect()
    }

    fn lost_request(&self, task: &Task) -> Option<Finding> {
        let wait = task.wait.filter(|wait| wait.forever && !self.stuck.waits.contains_key(&task.address))?;
        self.case
            .events
            .filter(|events| events.is_long(task.address, wait.object) || events.is_long_for_it(task.address))?;
        let own = |task: &Task| need(task, self.case, self.usage);
        let who = |need: &Need| self.usage.who(need.act, Some(need.kind), need.object, need.wanted);
        let need = own(task)?;
        let [User::Thread(server)] = *who(&need)?.as_slice() else { return None };
        let request = own(self.graph.tasks.at(server)?)?;
        let asking = who(&request)?;
        if !asking.contains(&User::Thread(task.address)) || asking.len() < 2 {
            return None;
        }
        let one = self.without_answer(task.address, need, server, request)?;
        let finding = self.unanswered_finding(&one, Code::EventNeverSet, Confidence::Hint, String::new());
        let started = self.usage.requested(&request, User::Thread(server), &|at| self.variable(at));
        let started = started.filter(|started| started.threads.contains(&User::Thread(task.address)));
        Some(match started {
            Some(started) => self.with_writers(finding, &request, &started),
            None => finding,
        })
    }

    /// Adds who may have written over the request.
    fn with_writers(&self, finding: Finding, request: &Need, started: &Started) -> Finding {
        let (threads, function) = (names(&started.threads, self.case), function_at(started.function, self.case));
        let (place, asked) = (place_at(started.at, self.case), self.wanted(request));
        let word = self.case.look.place(started.word).unwrap_or_else(|| format!("{:#x}", started.word));
        let claim = format!(
            "{}; {threads} make such requests in {function}, without a lock: one may have written over that of the other",
            finding.claim
        );
        Finding { claim, ..finding }
            .against(["something else may keep those apart who make requests"])
            .evidence([
                Evidence::symbol(started.at, &place, format!("{threads} give {asked} here, and hold no lock")),
                Evidence::memory(started.word, format!("by the code, {function} sets {word} before")),
            ])
            .next(format!("let {function} own a mutex while it makes a request"))
    }
}
