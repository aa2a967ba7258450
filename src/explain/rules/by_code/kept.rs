//! Locks of which some users go on, so that by the code they may still be put: one user has a path on which it takes the lock and
//! does not put it.
//!
//! A semaphore has no owner: all who put it take it, too, and nobody has put it for long. Waits with a time-out that are tried
//! again and again are as long as all of them together. A mutex has an owner: it goes on, and where the trace shows its puts, it
//! still owns the mutex after each of them.
//!
//! Against it: the path may be one that is never taken, and the owner may keep the lock on purpose.

use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::callback::is_timer_task;
use super::super::words::{holds, place_at, waiting};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::explain::events::Kept;
use crate::explain::graph::{Edge, How};
use crate::explain::state::{Task, Wait};
use crate::explain::usage::{Leak, Need, User, time_outs};
use crate::kernel::Kind;
use crate::kernel::api::Act;
use crate::trace::many;

/// An owner that blocked so often since it took a mutex has gone on.
const AGAIN: u64 = 4;
/// Puts in a row that leave a mutex with its owner, which has a path without a put.
const PUTS: u64 = 4;

impl ByCode<'_, '_> {
    /// Semaphores that all of their users take and put, where others than those that wait for ever still go on: they may not
    /// need it now, or wait for a time only. Nobody has put it for long, and one user has a path without a put.
    pub(super) fn kept_locks(&self) -> Vec<Finding> {
        let of = |task: &Task| {
            let wait = task.wait.filter(|wait| wait.kind == Kind::Semaphore && self.is_late(task.address, wait))?;
            let is_stuck = self.stuck.waits.contains_key(&task.address);
            let is_other = is_stuck || self.graph.wait(task.address).is_some() || !self.usage.is_lock(wait.object);
            let count = self.case.kernel?.object(wait.object)?.get("count");
            (!is_other && count == Some(0)).then_some((task.address, wait.object))
        };
        let mut all: Vec<(Addr, Addr)> = Vec::new();
        for (waiter, semaphore) in self.graph.tasks.list.iter().filter_map(of) {
            if !all.iter().any(|(_, other)| *other == semaphore) {
                all.push((waiter, semaphore));
            }
        }
        all.into_iter().filter_map(|(waiter, semaphore)| self.kept_lock(waiter, semaphore)).collect()
    }

    /// True for a long wait without a time-out, and for one with a time-out after others that ended so.
    fn is_late(&self, thread: Addr, wait: &Wait) -> bool {
        let is_long = || self.case.events.is_some_and(|events| events.is_long(thread, wait.object));
        wait.forever && is_long() || time_outs(wait.object, self.case).is_some()
    }

    fn kept_lock(&self, waiter: Addr, semaphore: Addr) -> Option<Finding> {
        let users = self.usage.who(Act::Gives, Some(Kind::Semaphore), semaphore, None)?;
        let waiters: Vec<Addr> = self.graph.tasks.waiting(semaphore).map(|task| task.address).collect();
        let mut leaks = self.leaks(&users, semaphore);
        // Who does not wait for it may have it.
        leaks.sort_by_key(|(user, _)| matches!(user, User::Thread(at) if waiters.contains(at)));
        let ((user, leak), rest) = leaks.split_first()?;
        let also = rest.iter().map(|(user, leak)| self.path(*user, leak, "puts it"));
        let need = Need { act: Act::Gives, kind: Kind::Semaphore, object: semaphore, wanted: None };
        let (name, object) = (self.name(*user), self.case.object(semaphore));
        let forever = self.graph.tasks.at(waiter).and_then(|task| task.wait).is_some_and(|wait| wait.forever);
        let again = if forever { "" } else { " with a time-out, as others did before" };
        let claim = format!(
            "{} waits for {object}{again}; {name} has a path on which it takes it and does not put it",
            self.case.label(waiter),
        );
        let time_outs = time_outs(semaphore, self.case).map(|all| {
            let waits = many(all.times, "wait", "waits");
            let text = format!("from here on {waits} for {object} ended by a time-out, and no event puts it");
            Evidence::event(all.seq, text)
        });
        Some(
            Finding::new(Code::SemaphoreLeak, self.case.cap(Confidence::Hint), claim)
                .against([BY_CODE, "another user may have it at the moment"])
                .evidence([self.path(*user, leak, "puts it"), waiting(waiter, semaphore, self.case, self.graph)])
                .evidence(time_outs)
                .evidence([self.users(&users, &need)])
                .evidence(also)
                .waiters(waiters, waiter, self.case, self.graph)
                .next(format!("look for a path of {name} that returns without tx_semaphore_put"))
                .threads([waiter]),
        )
    }

    /// Mutexes whose owner goes on with them, and has a path without a put.
    pub(super) fn kept_mutexes(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for edge in self.graph.edges.iter().filter(|edge| edge.how == How::Owns && !edge.is_timed) {
            if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
                found.extend(self.kept_mutex(edge));
            }
        }
        found
    }

    fn kept_mutex(&self, edge: &Edge) -> Option<Finding> {
        let (events, task) = (self.case.events?, self.graph.tasks.at(edge.holder)?);
        // Why an owner that cannot go on does not is the cause.
        let is_other = task.does.gone().is_some() || is_timer_task(task, self.case) || edge.waiter == edge.holder;
        let cannot_go_on = self.graph.wait(edge.holder).is_some() || self.stuck.waits.contains_key(&edge.holder);
        if is_other || cannot_go_on || !events.is_long(edge.waiter, edge.object) {
            return None;
        }
        let user = User::Thread(edge.holder);
        let leak = self.usage.leak(user, Kind::Mutex, edge.object)?;
        let kept = events.object(edge.object)?.kept.filter(|kept| events.is(edge.holder, kept.thread));
        let functions = self.usage.takes_and_gives(user, Kind::Mutex, edge.object);
        let blocks = events.activity(edge.holder).map_or(0, |activity| activity.blocks);
        // A call of which the mutex is not known may be one that keeps it on purpose.
        let who = |act| self.usage.who(act, Some(Kind::Mutex), edge.object, None);
        let knows_all = who(Act::Takes).is_some() && who(Act::Gives).is_some();
        let claimed =
            sure(kept, blocks, &functions)?.min(if knows_all { Confidence::Likely } else { Confidence::Hint });
        Some(self.kept_finding(edge, &leak, kept, claimed))
    }

    fn kept_finding(&self, edge: &Edge, leak: &Leak, kept: Option<Kept>, claimed: Confidence) -> Finding {
        let (case, graph) = (self.case, self.graph);
        let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
        let claim = format!(
            "{waiter} waits for {object}, which {holder} owns and does not give back: {holder} has a path in {} on which it takes it and does not put it",
            place_at(leak.at, case)
        );
        let puts = kept.map(|kept| {
            let times = many(kept.puts, "time", "times");
            Evidence::event(
                kept.seq,
                format!("from here on {holder} puts {object} {times}, and still owns it each time"),
            )
        });
        Finding::new(Code::LockOwnerGone, case.cap(claimed), claim)
            .against([
                BY_CODE.to_owned(),
                format!("{holder} may have {object} on purpose for as long as its work takes"),
            ])
            .evidence([waiting(edge.waiter, edge.object, case, graph), holds(edge, case)])
            .evidence(puts)
            .evidence([self.path(User::Thread(edge.holder), leak, "puts it")])
            .waiters(graph.waiters(&[edge.holder]), edge.waiter, case, graph)
            .next(format!("look for a path of {holder} that returns without tx_mutex_put"))
            .threads([edge.holder, edge.waiter])
    }
}

/// How sure it is that an owner goes on with a mutex by mistake. `blocks`: how often it blocked. `functions`: of each of its
/// functions with the mutex, whether it takes it and whether it puts it. Where one puts what another takes, a path without a put
/// may be right; where several take it, the outer one may keep it on purpose.
fn sure(kept: Option<Kept>, blocks: u64, functions: &[(bool, bool)]) -> Option<Confidence> {
    let by_others = functions.contains(&(false, true));
    match kept.filter(|kept| kept.puts >= PUTS && blocks >= AGAIN) {
        Some(_) if functions.len() == 1 && !by_others => Some(Confidence::Likely),
        None if by_others => None,
        _ => Some(Confidence::Hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner that waits for work and goes on was said to wait in vain.
    #[test]
    fn an_owner_that_keeps_a_mutex_and_gets_its_work_was_said_to_wait_for_it() {
        let kept = |puts| Some(Kept { thread: 1, level: 1, puts, raises: 0, seq: 9 });
        let (one, pair) = ([(true, true)], [(true, false), (false, true)]);
        assert_eq!(sure(kept(4), 4, &one), Some(Confidence::Likely));
        assert_eq!(sure(kept(3), 4, &one), Some(Confidence::Hint), "it may be a few calls of one round");
        assert_eq!(sure(kept(4), 3, &one), Some(Confidence::Hint), "it did not wait in between");
        assert_eq!(sure(kept(4), 4, &[(true, true); 2]), Some(Confidence::Hint), "one calls the other");
        assert_eq!(sure(kept(4), 4, &pair), Some(Confidence::Hint), "one puts what the other takes");
        assert_eq!(sure(None, 4, &pair), None);
        assert_eq!(sure(None, 4, &one), Some(Confidence::Hint));
    }
}
