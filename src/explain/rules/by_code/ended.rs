//! A user of a lock whose thread other code terminates: it puts nothing then.

use super::super::super::usage::User;
use super::super::super::{Case, Evidence};
use super::super::words::place_at;
use super::ByCode;
use crate::abi::Addr;
use crate::kernel::api::Act;

/// A thread that is terminated by code.
pub(super) struct Ended {
    thread: Addr,
    /// `net terminates camera in hang_up (calls.c:41)`.
    pub words: String,
    pub evidence: Evidence,
}

impl Ended {
    /// What follows for a lock.
    pub fn has(&self, lock: &str, case: &Case<'_>) -> String {
        let name = case.label(self.thread);
        format!("{}: if {name} has {lock} at that moment, it is never put", self.words)
    }

    /// What to look at.
    pub fn next(&self, lock: &str, case: &Case<'_>) -> String {
        format!("let {} put {lock} before it is terminated, or ask it to end instead", case.label(self.thread))
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

    /// The first of these users that one other user terminates: where several do, which one did is not known.
    pub(super) fn ended(&self, users: &[User]) -> Option<Ended> {
        users.iter().find_map(|user| {
            let User::Thread(thread) = *user else { return None };
            let enders = self.usage.who(Act::Ends, None, thread, None)?;
            let mut others = enders.into_iter().filter(|ender| ender != user);
            let by = others.next().filter(|_| others.next().is_none())?;
            let at = self.usage.site(by, |one| one.action.act == Act::Ends && one.object == Some(thread))?;
            let (name, by, place) = (self.case.label(thread), self.name(by), place_at(at, self.case));
            let evidence = Evidence::symbol(at, &place, format!("{by} terminates {name} here"));
            Some(Ended { thread, words: format!("{by} terminates {name} in {place}"), evidence })
        })
    }
}
