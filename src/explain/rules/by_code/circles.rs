//! Threads that wait for each other, by what the code says of who gives what.

use super::super::super::usage::{Need, Stack, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::{BY_CODE, BY_POINTER, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// Who else takes what was given to a thread.
struct Taken {
    words: String,
    evidence: Evidence,
    next: String,
}

impl ByCode<'_, '_> {
    /// Threads that wait for each other. Of mutexes alone, memory shows it without the code.
    pub(super) fn circles(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for start in self.stuck.waits.keys().copied() {
            let mut circle = vec![start];
            while let Some(User::Thread(next)) = circle.last().and_then(|at| self.only(*at)) {
                if next == start {
                    found.extend(self.circle(&circle));
                }
                // The circle is counted at its lowest address.
                if next <= start || circle.contains(&next) || self.waits_for(next).is_none() {
                    break;
                }
                circle.push(next);
            }
        }
        found
    }

    /// True where a thread waits for a semaphore that is used as a lock, and the functions on the stack of the only other one are between
    /// the get and the put.
    fn is_held_by_only(&self, thread: Addr, need: &Need) -> bool {
        let Some(User::Thread(holder)) = self.only(thread) else { return false };
        let callers = self.case.cpus.and_then(|cpus| cpus.callers(holder)).unwrap_or_default();
        need.kind == Kind::Semaphore
            && self.usage.is_lock(need.object)
            && self.usage.may_hold(User::Thread(holder), need.object, Stack::of_call(callers))
    }

    fn circle(&self, circle: &[Addr]) -> Option<Finding> {
        let needs: Vec<(Addr, Need)> = circle.iter().filter_map(|at| Some((*at, *self.stuck.waits.get(at)?))).collect();
        let is_pool = |kind| matches!(kind, Kind::BlockPool | Kind::BytePool);
        if needs.iter().all(|(_, need)| need.kind == Kind::Mutex) || needs.iter().any(|(_, need)| is_pool(need.kind)) {
            return None;
        }
        let steps = needs.iter().filter_map(|(at, need)| {
            let (name, object) = (self.case.label(*at), self.case.object(need.object));
            let half = self
                .half(*at, need)
                .map_or_else(String::new, |(all, set)| format!(" (it waits for all of {all:#x}, and {set:#x} is set)"));
            Some(format!("{name} waits for {}{half}", self.given(need, &object, &self.helping(*at)?)))
        });
        // With a lock it is a circle, whichever flags are enough.
        let has_lock = needs.iter().any(|(_, need)| need.kind == Kind::Mutex);
        let is_half = !has_lock && needs.iter().any(|(at, need)| self.half(*at, need).is_some());
        let evidence = needs.iter().flat_map(|(at, need)| {
            let helpers = self.usage.who(need.act, Some(need.kind), need.object, need.wanted);
            let users = helpers.filter(|_| need.kind != Kind::Mutex && need.act == Act::Gives);
            let users = users.map(|users| self.users(&users, need));
            [Some(waiting(*at, need.object, self.case, self.graph)), users].into_iter().flatten()
        });
        let pointers: Vec<Evidence> =
            needs.iter().filter_map(|(at, need)| self.pointer_site(self.only(*at)?, need)).collect();
        let behind = self.stuck.behind(circle);
        // What was given may have been taken by another one.
        let waits_too = |user: &User| matches!(user, User::Thread(at) if needs.iter().any(|(_, need)| self.waits_for(*at) == Some(need.object)));
        let is_taken = |(at, need): &(Addr, Need)| {
            let takers = self.usage.who(Act::Takes, Some(need.kind), need.object, need.wanted);
            need.act == Act::Gives
                && need.kind != Kind::Mutex
                && !self.is_held_by_only(*at, need)
                && takers
                    .is_none_or(|takers| takers.iter().any(|taker| *taker != User::Thread(*at) && !waits_too(taker)))
        };
        let is_taken = needs.iter().any(is_taken);
        let claimed = if is_half || is_taken { Confidence::Hint } else { Confidence::Likely };
        let taken = needs.iter().find_map(|(at, need)| self.taken(*at, need));
        let by_other = taken.as_ref().map_or_else(String::new, |taken| format!("; {}", taken.words));
        let kept = needs.iter().find_map(|(at, need)| self.kept_from(need, &self.helping(*at)?));
        let (by_variable, kept) = kept.unzip();
        let by_variable = by_variable.map_or_else(String::new, |words| format!("; {words}"));
        let order = "let none of them wait before it has done what the other waits for, nor while it holds a lock that the other needs";
        Some(
            Finding::new(
                Code::Deadlock,
                self.case.cap(claimed),
                format!("{}{by_other}{by_variable}", steps.collect::<Vec<_>>().join("; ")),
            )
            .evidence(kept)
            .against([BY_CODE])
            .against((!pointers.is_empty()).then_some(BY_POINTER))
            .evidence(evidence)
            .evidence(pointers)
            .evidence(taken.as_ref().map(|taken| taken.evidence.clone()))
            .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
            .against(is_half.then_some("one of these flags may have been meant to be enough (TX_OR)"))
            .next(if let Some(taken) = taken {
                taken.next
            } else if is_half {
                format!("where one of these flags is enough, wait for any of them (TX_OR); else {order}")
            } else {
                order.to_owned()
            })
            .affected(behind)
            .threads(circle.iter().copied())
            // That the flags were taken by another thread explains more.
            .usual(is_half && is_taken),
        )
    }

    /// Another thread that gets the flag for which a thread waits, and clears it: the one who sets it has done so, and waits for the
    /// next request.
    fn taken(&self, thread: Addr, need: &Need) -> Option<Taken> {
        let flags = need.wanted.filter(|_| need.kind == Kind::EventFlags && need.act == Act::Gives)?;
        let has_run = |at: Addr| self.graph.tasks.at(at).is_some_and(|other| other.runs.is_some_and(|runs| runs > 0));
        let takes = |(user, at): (User, Addr)| match user {
            User::Thread(other) if other != thread && has_run(other) => Some((user, at)),
            _ => None,
        };
        let (user, at) = self.usage.clears_by_get(need.object, flags).into_iter().find_map(takes)?;
        let (name, other, place) = (self.case.label(thread), self.name(user), place_at(at, self.case));
        Some(Taken {
            words: format!(
                "{other} gets {flags:#x}, too, and clears it: it may have taken the one that was set for {name}"
            ),
            evidence: Evidence::symbol(at, &place, format!("{other} gets it here, with a clear option")),
            next: format!("give {name} a flag of its own, or let {other} get it without a clear option"),
        })
    }

    /// The event flags that a thread needs together, and those of them that are set.
    fn half(&self, thread: Addr, need: &Need) -> Option<(u64, u64)> {
        let wait = self.graph.tasks.at(thread)?.wait.filter(|_| need.kind == Kind::EventFlags)?;
        let wanted = wait.wanted.filter(|wanted| wanted.all)?.flags;
        let set = self.case.kernel?.object(need.object)?.get("current")? & wanted;
        (set != 0).then_some((wanted, set))
    }
}
