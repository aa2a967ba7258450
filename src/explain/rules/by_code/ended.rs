//! A user of a lock whose thread other code terminates: it puts nothing then.

use super::super::super::Evidence;
use super::super::super::usage::User;
use super::super::words::place_at;
use super::ByCode;
use crate::abi::Addr;
use crate::kernel::api::Act;

/// A thread that is terminated by code, or one of several that are.
pub(super) struct Ended {
    /// `camera`, `clock or push`.
    name: String,
    /// `net terminates camera in hang_up (calls.c:41)`.
    pub words: String,
    pub evidence: Evidence,
}

impl Ended {
    /// What follows for a lock.
    pub fn has(&self, lock: &str) -> String {
        let name = &self.name;
        format!("{}: if {name} has {lock} at that moment, it is never put", self.words)
    }

    /// What to look at.
    pub fn next(&self, lock: &str) -> String {
        format!("let {} put {lock} before it is terminated, or ask it to end instead", self.name)
    }
}

impl ByCode<'_, '_> {
    /// Of the users of a lock: of the one that was terminated with it, else of all where none is known to have it.
    pub(super) fn ended_of(&self, users: &[User], culprit: Option<User>) -> Option<Ended> {
        match culprit {
            None => self.ended(users),
            Some(user) if self.was_terminated(user) => self.ended(&[user]),
            Some(_) => None,
        }
    }

    /// The one of these users that another user terminates: the one that an event shows, else any of those of which the code shows it.
    /// Where several do so, which one did is not known.
    pub(super) fn ended(&self, users: &[User]) -> Option<Ended> {
        let by_code = |user: &User| {
            let User::Thread(thread) = *user else { return None };
            let enders = self.usage.who(Act::Ends, None, thread, None)?;
            let mut others = enders.into_iter().filter(|ender| ender != user);
            let by = others.next().filter(|_| others.next().is_none())?;
            let at = self.usage.site(by, |one| one.action.act == Act::Ends && one.object == Some(thread))?;
            Some((thread, by, at))
        };
        let all: Vec<(Addr, User, Addr)> = users.iter().filter_map(by_code).collect();
        let shown =
            |(thread, ..): &&(Addr, User, Addr)| self.case.events.is_some_and(|e| e.terminated(*thread).is_some());
        let by_event: Vec<_> = all.iter().filter(shown).copied().collect();
        let all = if by_event.is_empty() { all } else { by_event };
        let (_, by, at) = *all.first()?;
        let names: Vec<String> =
            all.iter().filter(|(_, other, _)| *other == by).map(|(thread, ..)| self.case.label(*thread)).collect();
        let (name, by, place) = (names.join(" or "), self.name(by), place_at(at, self.case));
        let evidence = Evidence::symbol(at, &place, format!("{by} terminates {name} here"));
        Some(Ended { words: format!("{by} terminates {name} in {place}"), name, evidence })
    }
}
