//! A thread waits for ever for what only one other thread gives, and that one waits for its next request: it has a path on which it
//! takes a request and does not answer it, as an early return to the top of its loop.
//!
//! The places of a resource are counted the same way: a semaphore that was created with a count is taken before something is
//! begun, and put by the thread that sees its end. Where that thread has a path without a put, each such end costs a place. An
//! interrupt may still bring it work, so that is a hint, and nothing is said where the trace shows that the waits are short.
//!
//! Against it: the path may be right, and the answer be missing for another reason.

use super::super::super::events::Events;
use super::super::super::state::Task;
use super::super::super::usage::{Leak, Need, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const OTHER_REASON: &str = "the answer may be missing for another reason";

/// A thread that did not get its answer.
struct Unanswered {
    thread: Addr,
    need: Need,
    server: Addr,
    request: Need,
    leak: Leak,
}

impl ByCode<'_, '_> {
    /// Threads that wait for an answer of one that waits for a request, as nobody can help either.
    pub(super) fn unanswered(&self) -> Vec<Finding> {
        let of = |(thread, need): (&Addr, &Need)| {
            let [User::Thread(server)] = self.stuck.helpers(*thread) else { return None };
            // The one that did not get its answer makes the requests.
            self.stuck.helpers(*server).iter().find(|user| **user == User::Thread(*thread))?;
            let one = self.without_answer(*thread, *need, *server, *self.stuck.waits.get(server)?)?;
            Some(self.unanswered_finding(&one, Code::EventNeverSet, Confidence::Likely, String::new()))
        };
        self.stuck.waits.iter().filter_map(of).collect()
    }

    /// Threads that wait for a place of a resource whose places are counted, and all are taken.
    pub(super) fn places(&self) -> Vec<Finding> {
        let own = |task: &Task| need(task, self.case, self.usage);
        let mut found: Vec<Finding> = Vec::new();
        for task in &self.graph.tasks.list {
            let is_said = found.iter().any(|finding| finding.affected.contains(&task.address));
            let is_stuck = self.stuck.waits.contains_key(&task.address);
            let wait = task.wait.filter(|wait| wait.kind == Kind::Semaphore && wait.forever && !is_said && !is_stuck);
            let of = || {
                let need = own(task).filter(|need| Some(need.object) == wait.map(|w| w.object))?;
                let (count, at) =
                    self.usage.created_with(need.object, &self.creators()).filter(|(count, _)| *count > 0)?;
                let is_long = |events: &Events| events.is_long(task.address, need.object);
                let givers = self.usage.who(need.act, Some(need.kind), need.object, None)?;
                let [User::Thread(server)] = givers.as_slice() else { return None };
                let waits = self.graph.tasks.at(*server).filter(|_| self.case.events.is_none_or(is_long))?;
                let request = own(waits)?;
                let one = self.without_answer(task.address, need, *server, request)?;
                let created = format!(" (created with {count} in {})", place_at(at, self.case));
                Some(self.unanswered_finding(&one, Code::SemaphoreLeak, Confidence::Hint, created))
            };
            found.extend(wait.and_then(|_| of()));
        }
        found
    }

    /// The functions that create semaphores.
    fn creators(&self) -> Vec<Addr> {
        let names = ["_tx_semaphore_create", "_txe_semaphore_create"];
        names.iter().filter_map(|name| Some(self.case.look.symbol(name)?.address & !1)).collect()
    }

    fn without_answer(&self, thread: Addr, need: Need, server: Addr, request: Need) -> Option<Unanswered> {
        let is_given = |need: &Need| {
            need.act == Act::Gives && matches!(need.kind, Kind::EventFlags | Kind::Semaphore | Kind::Queue)
        };
        let is_other = (need.object, need.wanted) != (request.object, request.wanted);
        // A semaphore that others take, too, is no request.
        let takers = || self.usage.who(Act::Takes, Some(Kind::Semaphore), request.object, None);
        let is_request = request.kind != Kind::Semaphore || takers().is_some_and(|all| all == [User::Thread(server)]);
        if server == thread || !is_given(&need) || !is_given(&request) || !is_other || !is_request {
            return None;
        }
        let leak = self.usage.unanswered(User::Thread(server), &request, &need)?;
        Some(Unanswered { thread, need, server, request, leak })
    }

    fn unanswered_finding(&self, one: &Unanswered, code: Code, claimed: Confidence, created: String) -> Finding {
        let Unanswered { thread, need, server, request, leak } = one;
        let (name, giver, place) = (self.case.label(*thread), self.case.label(*server), place_at(leak.at, self.case));
        let give = match need.kind {
            Kind::EventFlags => "set",
            Kind::Queue => "send",
            _ => "put",
        };
        let wanted = self.wanted(need);
        let claim = format!(
            "{name} waits for {wanted}{created}, which only {giver} {give}s; {giver} has a path on which it gets {} and does not \
             {give} it",
            self.wanted(request)
        );
        let users = [User::Thread(*server)];
        let others: Vec<Addr> = self.graph.tasks.waiting(need.object).map(|task| task.address).collect();
        let others: Vec<Addr> = others.into_iter().filter(|at| at != thread && at != server).collect();
        let behind =
            if code == Code::SemaphoreLeak { self.graph.waiters(&[*thread]) } else { self.stuck.behind(&[*thread]) };
        let behind: Vec<Addr> = others.into_iter().chain(behind).collect();
        Finding::new(code, self.case.cap(claimed), claim)
            .against([BY_CODE, OTHER_REASON])
            .evidence([waiting(*thread, need.object, self.case, self.graph), self.users(&users, need)])
            .evidence([Evidence::symbol(
                leak.at,
                &place,
                format!(
                    "{giver} gets {} here, and a path leads on from here on which it does not {give} {wanted}",
                    self.wanted(request)
                ),
            )])
            .evidence(self.site(User::Thread(*server), need))
            .evidence([waiting(*server, request.object, self.case, self.graph)])
            .explains(behind.iter().filter(|at| *at != server).filter_map(|at| waits(*at, self.case, self.graph)))
            .affected(behind.iter().copied().chain([*server]))
            .next(format!("look for the path of {giver} from {place} that does not {give} {wanted}"))
            .threads([*thread])
    }

    /// `0x2 of event flags mixer events`, `a message in queue orders`, `semaphore slots`.
    fn wanted(&self, need: &Need) -> String {
        let object = self.case.object(need.object);
        match (need.kind, need.wanted) {
            (Kind::EventFlags, Some(flags)) => format!("{flags:#x} of {object}"),
            (Kind::Queue, _) => format!("a message in {object}"),
            _ => object,
        }
    }
}
