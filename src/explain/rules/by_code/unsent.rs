//! A thread sends a request to the queue of another one and waits for ever for the answer. The code that sends does not wait for
//! room for ever, and does not look at whether the message was sent. Now the queue is empty and its reader waits for the next message:
//! where the queue was full at that moment, the request was lost, and nobody will answer it.
//!
//! Against it: the reader may have got the request, and not answered it. Where its code has a path without an answer, that is said instead.
//! Where others give the answer, too, nothing is said. A reader may also answer with a later message, as of an interrupt: it is
//! likely only where the trace shows that the wait is long, threads alone send to that queue, and each path of the reader answers.

use super::super::super::events::Events;
use super::super::super::state::Task;
use super::super::super::usage::{Need, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{function_at, place_at, waiting, waits};
use super::{BY_CODE, BY_POINTER, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const MAY_BE_READ: &str = "the request may have been read, and not answered for another reason";

/// A request that may not have been sent.
struct Unsent {
    /// Where it is sent.
    at: Addr,
    /// What its thread waits for.
    answer: Need,
    queue: Addr,
    reader: Addr,
}

impl ByCode<'_, '_> {
    /// Threads that wait for the answer to a request that may have been lost.
    pub(super) fn unsent(&self) -> Vec<Finding> {
        let of = |task: &Task| Some(self.unsent_finding(task, &self.unsent_of(task)?));
        self.graph.tasks.list.iter().filter_map(of).collect()
    }

    fn unsent_of(&self, task: &Task) -> Option<Unsent> {
        task.wait.filter(|wait| wait.forever)?;
        let answer = need(task, self.case, self.usage).filter(|need| {
            need.act == Act::Gives && matches!(need.kind, Kind::Semaphore | Kind::EventFlags | Kind::Queue)
        })?;
        let givers = self.usage.may(Act::Gives, Some(answer.kind), answer.object, answer.wanted)?;
        let [User::Thread(reader)] = givers.as_slice() else { return None };
        let request = need(self.graph.tasks.at(*reader)?, self.case, self.usage)?;
        let is_request = request.act == Act::Gives && request.kind == Kind::Queue && request.object != answer.object;
        let readers = self.usage.who(Act::Takes, Some(Kind::Queue), request.object, None)?;
        if *reader == task.address || !is_request || readers != [User::Thread(*reader)] {
            return None;
        }
        if self.without_answer(task.address, answer, *reader, request).is_some() {
            return None;
        }
        let at = self.usage.unsent(User::Thread(task.address), request.object, &answer)?;
        Some(Unsent { at, answer, queue: request.object, reader: *reader })
    }

    fn unsent_finding(&self, task: &Task, one: &Unsent) -> Finding {
        let (name, reader) = (self.case.label(task.address), self.case.label(one.reader));
        let (wanted, queue) = (self.wanted(&one.answer), self.case.object(one.queue));
        let is_long = |events: &Events| events.is_long(task.address, one.answer.object);
        let senders = self.usage.who(Act::Gives, Some(Kind::Queue), one.queue, None);
        let are_threads = senders.is_some_and(|all| all.iter().all(|user| matches!(user, User::Thread(_))));
        // Whether a reader answers each request is not known where it answers through a pointer.
        let is_direct = self.usage.does(User::Thread(one.reader), Act::Gives, one.answer.kind, one.answer.object);
        let is_sure = is_direct && are_threads && self.case.events.is_some_and(is_long);
        let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let (place, function) = (place_at(one.at, self.case), function_at(one.at, self.case));
        let behind: Vec<Addr> = self.graph.waiters(&[task.address]);
        Finding::new(
            Code::EventNeverSet,
            self.case.cap(claimed),
            format!(
                "{name} waits for {wanted}, which by the code only {reader} gives; {reader} waits for the next message in {queue}, which is \
                 empty: the request may be lost, as {function} does not look at whether it was sent"
            ),
        )
        .against([if is_direct { BY_CODE } else { BY_POINTER }, MAY_BE_READ])
        .against((!is_sure).then_some("the answer may come with a later message"))
        .evidence([
            waiting(task.address, one.answer.object, self.case, self.graph),
            Evidence::symbol(
                one.at,
                &place,
                format!("{name} sends to {queue} here without waiting for room for ever, and goes on in the same way if it is full"),
            ),
            waiting(one.reader, one.queue, self.case, self.graph),
        ])
        .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
        .affected(behind.iter().copied().chain([one.reader]))
        .next(format!("check in {place} what the send returns; {name} must not wait for an answer to what was not sent"))
        .threads([task.address])
    }
}
