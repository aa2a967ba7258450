//! A thread waits for ever for what only one other thread gives, and that one waits for its next request: it has a path on which it
//! takes a request and does not answer it, as an early return to the top of its loop.
//!
//! The places of a resource are counted the same way: a semaphore that was created with a count is taken before something is
//! begun, and put by the thread that sees its end. Where that thread has a path without a put, each such end costs a place. An
//! interrupt may still bring it work: that is a hint, and it needs a trace that shows that the wait is long.
//!
//! Against it: the path may be right, as for a request that needs no answer, and the answer be missing for another reason. Where another
//! thread takes the answer, too, nothing is said. Where it may be one of several flags that was asked for, it is a hint.

use super::super::super::events::Events;
use super::super::super::state::Task;
use super::super::super::usage::{Leak, Need, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::lost_lock::created_with;
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const OTHER_REASON: &str = "that path may be for what needs no answer, and the answer be missing for another reason";

/// True where one waits for some of the flags that another one needs, or for what has no flags.
fn wants_some_of(needed: Option<u64>, wanted: Option<u64>) -> bool {
    needed.zip(wanted).is_none_or(|(needed, wanted)| needed & wanted != 0)
}

/// A thread that did not get its answer.
pub(super) struct Unanswered {
    thread: Addr,
    need: Need,
    server: Addr,
    request: Need,
    leak: Leak,
    /// Where the thread waits, to which a path of its own leads without a request.
    unasked: Option<Addr>,
}

impl ByCode<'_, '_> {
    /// Threads that wait for an answer of one that waits for a request, as nobody can help either.
    pub(super) fn unanswered(&self) -> Vec<Finding> {
        let of = |(thread, need): (&Addr, &Need)| {
            // A semaphore that was created with a count has places: one is taken before the request, and lost where nobody puts it.
            let places = created_with(need.object, self.case).filter(|(count, _)| *count > 0);
            let places = places.filter(|_| need.kind == Kind::Semaphore);
            // Who waits for a place, too, did not get it.
            let helpers = match places {
                Some(_) => self.others(*thread, need.object),
                None => self.stuck.helpers(*thread).to_vec(),
            };
            let [User::Thread(server)] = helpers.as_slice() else { return None };
            // The one that did not get its answer makes the requests.
            self.stuck.helpers(*server).iter().find(|user| **user == User::Thread(*thread))?;
            let request = *self.stuck.waits.get(server)?;
            let waits_too = |user: &User| {
                let object = if let User::Thread(at) = user { self.waits_for(*at) } else { None };
                places.is_some() && object == Some(need.object)
            };
            let is_taken = |user: &User| *user != User::Thread(*thread) && !waits_too(user);
            if self.takers(need)?.iter().any(is_taken) {
                return None;
            }
            let one = self.without_answer(*thread, *need, *server, request)?;
            let is_one_of_several = request.wanted.is_some_and(|flags| flags.count_ones() > 1);
            let one = Unanswered { unasked: one.unasked.filter(|_| places.is_none()), ..one };
            // Who also puts it may have lost a place itself.
            let putters = self.usage.who(need.act, Some(need.kind), need.object, need.wanted);
            let is_only = places.is_none() || putters.is_some_and(|all| all.len() == 1);
            let is_sure = !is_one_of_several && one.unasked.is_none() && is_only;
            let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
            Some(match places {
                Some((count, at)) => {
                    let created = format!(" (created with {count} in {})", place_at(at, self.case));
                    self.unanswered_finding(&one, Code::SemaphoreLeak, claimed, created)
                }
                None => self.unanswered_finding(&one, Code::EventNeverSet, claimed, String::new()),
            })
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
            let is_long = |events: &Events| task.wait.is_some_and(|wait| events.is_long(task.address, wait.object));
            let of = || {
                let need = own(task).filter(|need| need.kind == Kind::Semaphore && need.act == Act::Gives)?;
                let givers = self.usage.who(need.act, Some(need.kind), need.object, None)?;
                let [User::Thread(server)] = givers.as_slice() else { return None };
                let request = own(self.graph.tasks.at(*server)?)?;
                let one = self.without_answer(task.address, need, *server, request)?;
                let (count, at) = created_with(need.object, self.case).filter(|(count, _)| *count > 0)?;
                let created = format!(" (created with {count} in {})", place_at(at, self.case));
                Some(self.unanswered_finding(&one, Code::SemaphoreLeak, Confidence::Hint, created))
            };
            let is_asked = task.wait.is_some_and(|wait| wait.forever) && !is_said && !is_stuck;
            found.extend(self.case.events.filter(|events| is_asked && is_long(events)).and_then(|_| of()));
        }
        found
    }

    /// Who takes what a thread needs: of event flags, who clears them.
    fn takers(&self, need: &Need) -> Option<Vec<User>> {
        match need.wanted.filter(|_| need.kind == Kind::EventFlags) {
            Some(flags) => {
                Some(self.usage.clears_by_get(need.object, flags).into_iter().map(|(user, _)| user).collect())
            }
            None => self.usage.who(Act::Takes, Some(need.kind), need.object, None),
        }
    }

    pub(super) fn without_answer(&self, thread: Addr, need: Need, server: Addr, request: Need) -> Option<Unanswered> {
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
        let unasked = self.usage.waits_without_request(User::Thread(thread), &request, &need);
        Some(Unanswered { thread, need, server, request, leak, unasked })
    }

    pub(super) fn unanswered_finding(
        &self,
        one: &Unanswered,
        code: Code,
        claimed: Confidence,
        created: String,
    ) -> Finding {
        let Unanswered { thread, need, server, request, leak, unasked } = one;
        let (name, giver, place) = (self.case.label(*thread), self.case.label(*server), place_at(leak.at, self.case));
        let give = match need.kind {
            Kind::EventFlags => "set",
            Kind::Queue => "send",
            _ => "put",
        };
        let wanted = self.wanted(need);
        let asked = self.wanted(request);
        let not_asked = match request.kind {
            Kind::EventFlags => format!("does not set {asked}"),
            Kind::Queue => format!("sends no message to {}", self.case.object(request.object)),
            _ => format!("does not put {asked}"),
        };
        let in_vain = self.set_in_vain(need, *server);
        let alone = unasked.map_or_else(String::new, |_| {
            format!("{name} has a path to this wait on which it {not_asked}, for which {giver} waits; or ")
        });
        let all = self.usage.who(need.act, Some(need.kind), need.object, need.wanted);
        let all = all.unwrap_or_else(|| vec![User::Thread(*server)]);
        let of_these = if all.len() > 1 { " of those that do not wait for it" } else { "" };
        let claim = format!(
            "{name} waits for {wanted}{created}, which{of_these} only {giver} {give}s; {alone}{giver} has a path on which it gets {asked}, and \
             does not {give} what {name} waits for{}",
            in_vain.map_or_else(String::new, |flags| format!(
                "; by its code it sets {flags:#x}, which is set, and for which no code waits"
            ))
        );
        // Another thread may wait for another flag of the group, which somebody else sets.
        let is_for_it =
            |task: &&Task| task.wait.is_some_and(|wait| wants_some_of(need.wanted, wait.wanted.map(|w| w.flags)));
        let others = self.graph.tasks.waiting(need.object).filter(is_for_it).map(|task| task.address);
        let others: Vec<Addr> = others.filter(|at| at != thread && at != server).collect();
        let behind =
            if code == Code::SemaphoreLeak { self.graph.waiters(&[*thread]) } else { self.stuck.behind(&[*thread]) };
        let behind: Vec<Addr> = others.into_iter().chain(behind).collect();
        Finding::new(code, self.case.cap(claimed), claim)
            .against([BY_CODE, OTHER_REASON])
            .against((all.len() > 1).then_some("a thread that waits may have taken it before, and not have put it"))
            .evidence([waiting(*thread, need.object, self.case, self.graph), self.users(&all, need)])
            .evidence([Evidence::symbol(
                leak.at,
                &place,
                format!(
                    "{giver} gets {} here, and a path leads on from here on which it does not {give} {wanted}",
                    self.wanted(request)
                ),
            )])
            .evidence(unasked.map(|at| {
                let text = format!("{name} waits here, and a path leads here on which it {not_asked}");
                Evidence::symbol(at, &place_at(at, self.case), text)
            }))
            .evidence(self.site(User::Thread(*server), need))
            .evidence([waiting(*server, request.object, self.case, self.graph)])
            .explains(behind.iter().filter(|at| *at != server).filter_map(|at| waits(*at, self.case, self.graph)))
            .affected(behind.iter().copied().chain([*server]))
            .next(if unasked.is_some() {
                format!("find out whether {name} asked: which path led to its wait; then look for the path of {giver} from {place}")
            } else {
                format!("look for the path of {giver} from {place} that does not {give} {wanted}")
            })
            .threads([*thread])
    }

    /// Flags of the same group that are set, which no code waits for, and which a thread sets by its code.
    fn set_in_vain(&self, need: &Need, thread: Addr) -> Option<u64> {
        let group = self.case.kernel?.object(need.object).filter(|_| need.kind == Kind::EventFlags)?;
        let current = group.get("current")?;
        let user = User::Thread(thread);
        let who = |act, bit| self.usage.who(act, Some(Kind::EventFlags), need.object, Some(bit));
        let is_in_vain = |bit: u64| {
            let is_taken = who(Act::Takes, bit).is_none_or(|users| !users.is_empty());
            !is_taken && who(Act::Gives, bit).is_some_and(|users| users.contains(&user))
        };
        let bits = (0..u32::BITS).map(|n| 1_u64 << n).filter(|bit| current & bit != 0);
        let stray = bits.filter(|bit| is_in_vain(*bit)).fold(0, |all, bit| all | bit);
        (stray != 0 && self.usage.knows_flags(user, need.object)).then_some(stray)
    }

    /// `0x2 of event flags mixer events`, `a message in queue orders`, `semaphore slots`.
    pub(super) fn wanted(&self, need: &Need) -> String {
        let object = self.case.object(need.object);
        match (need.kind, need.wanted) {
            (Kind::EventFlags, Some(flags)) => format!("{flags:#x} of {object}"),
            (Kind::Queue, _) => format!("a message in {object}"),
            _ => object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "It explains: Panel waits for event flags", which waited for another flag of the group that a timer sets.
    #[test]
    fn a_thread_that_waits_for_another_flag_of_the_group_is_no_victim() {
        assert!(wants_some_of(Some(0b01), Some(0b11)));
        assert!(!wants_some_of(Some(0b01), Some(0b10)));
        assert!(wants_some_of(None, None), "a semaphore has no flags");
    }
}
