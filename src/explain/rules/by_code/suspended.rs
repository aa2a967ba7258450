//! A thread waits for what, by the code, only threads give that a call has suspended, and it is itself one of those that resume them.
//! It has resumed one before it began to wait: that one was not suspended yet, where such a call does nothing, or it suspended itself
//! again without giving.
//!
//! Nothing is said where an interrupt or a timer may resume one of them, which is how work goes on at fixed times.
//!
//! Against it: another thread may resume it later, for a work of its own: where one goes on that may, or the wait is not long, it is a
//! hint.

use super::super::super::state::{Does, Task, Wait};
use super::super::super::usage::User;
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{shows, third, waiting};
use super::{BY_CODE, ByCode, only_reader};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Threads that wait for one that is suspended.
    pub(super) fn suspended(&self) -> Vec<Finding> {
        let waits = |task: &Task| {
            let wait = task.wait.filter(|wait| wait.forever && !wait.sends)?;
            let is_gift = matches!(wait.kind, Kind::Semaphore | Kind::EventFlags | Kind::Queue);
            self.suspended_giver(task, wait).filter(|_| is_gift)
        };
        self.graph.tasks.list.iter().filter_map(waits).collect()
    }

    fn suspended_giver(&self, task: &Task, wait: Wait) -> Option<Finding> {
        let wanted = wait.wanted.map(|wanted| wanted.flags);
        let users = self.usage.who(Act::Gives, Some(wait.kind), wait.object, wanted)?;
        let [User::Thread(giver)] = users.as_slice() else { return None };
        let gone = self.graph.tasks.at(*giver).filter(|giver| giver.does == Does::Suspended)?;
        let starters = self.usage.who(Act::Starts, None, *giver, None)?;
        let are_threads = starters.iter().all(|starter| matches!(starter, User::Thread(_)));
        if !are_threads || !starters.contains(&User::Thread(task.address)) {
            return None;
        }
        // Another one that goes on may resume it for a work of its own, after which it gives.
        let is_stuck =
            |user: &User| matches!(user, User::Thread(at) if *at == task.address || self.waits_for(*at).is_some());
        let is_long = self.case.events.is_none_or(|events| events.is_long(task.address, wait.object));
        let claimed = if starters.iter().all(is_stuck) && is_long { Confidence::Likely } else { Confidence::Hint };
        let (name, object, other) =
            (self.case.label(task.address), self.case.object(wait.object), self.case.label(*giver));
        let claim = format!(
            "{name} waits for {object}, and {other}, which alone {} it by its code, is suspended; {name} itself resumes it: a resume \
             that comes before {other} suspends itself is lost",
            third(wait.kind)
        );
        let full = self.full_queues(task.address);
        let resumes: Vec<String> = starters.iter().map(|starter| self.name(*starter)).collect();
        let mut behind = self.graph.waiters(&[task.address]);
        behind.extend(self.only_given_by(*giver).filter(|at| *at != task.address));
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(claimed), claim)
                .against([BY_CODE, "it may be resumed for another reason"])
                .evidence([waiting(task.address, wait.object, self.case, self.graph)])
                .evidence([shows(gone.address, format!("{other}: is suspended"), self.graph)])
                .evidence([Evidence::memory(*giver, format!("by the code, it is resumed by {}", resumes.join(", ")))])
                .explains(full)
                .affected(behind)
                .next(format!(
                    "look at what {other} checks before it calls tx_thread_suspend, and at what tx_thread_resume returns"
                ))
                .threads([task.address, *giver]),
        )
    }

    /// Threads that wait for what, by the code, one thread alone gives.
    fn only_given_by(&self, giver: Addr) -> impl Iterator<Item = Addr> {
        let is_behind = move |task: &&Task| {
            let wait = task.wait.filter(|wait| wait.forever && !wait.sends);
            let users = wait.and_then(|wait| {
                self.usage.who(Act::Gives, Some(wait.kind), wait.object, wait.wanted.map(|wanted| wanted.flags))
            });
            users.as_deref() == Some(&[User::Thread(giver)])
        };
        self.graph.tasks.list.iter().filter(is_behind).map(|task| task.address)
    }

    /// Queues that are full, and that a thread alone reads.
    fn full_queues(&self, reader: Addr) -> Vec<String> {
        let queues = self.case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
        let is_full = |queue: &&crate::kernel::Object| {
            queue.kind == Kind::Queue && queue.get("available_storage") == Some(0) && queue.get("enqueued") > Some(0)
        };
        let own = queues.filter(is_full).filter(|queue| only_reader(queue.address, self.case) == Some(reader));
        own.map(|queue| format!("{} is full", self.case.object(queue.address))).collect()
    }
}
