//! Memory that holds a pointer to more memory, and is released without it.

use std::collections::BTreeSet;

use super::walk::{Follow, Key};
use super::{Usage, Use, User};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Value};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// A message that is released alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alone {
    /// Who does so.
    pub user: User,
    /// The call.
    pub at: Addr,
    /// The function to which others pass such a message, and which releases it together with what it points to.
    pub whole: Addr,
}

impl Usage<'_> {
    /// Where a message is released that has memory of a pool, while elsewhere another function releases such a message together with
    /// other memory; `None` where there are several places, or none.
    pub fn released_alone(&self, pool: Addr) -> Option<Alone> {
        let queues = self.queues_of(pool);
        let readers = |queue: &Addr| self.who(Act::Takes, Some(Kind::Queue), *queue, None);
        let users: BTreeSet<User> = queues.iter().filter_map(readers).flatten().collect();
        let follow = Follow { walker: &self.walker, succeeds: true };
        let (mut alone, mut whole) = (BTreeSet::new(), BTreeSet::new());
        for user in users {
            for key in self.reached(user).into_iter().filter(|key| self.takes_message(*key, &queues)) {
                let Some(paths) = self.walker.paths(&follow, key) else { continue };
                // What it points to may be released in front of it or behind it, in the same function.
                let takes = |call: &Call| self.walker.action(call).is_some_and(|one| takes_from(&one, &queues));
                let other = |call: &Call| self.releases_other(call);
                let is_only = |at: Addr| {
                    let is_it = |call: &Call| call.at == at;
                    let goes_on = paths.leads_between(is_it, takes, other) || paths.leads_out(is_it, other);
                    paths.leads_between(takes, is_it, other) && goes_on
                };
                for call in paths.calls() {
                    let Some(mark) = message(call, &queues) else { continue };
                    match self.releases_of(call, mark) {
                        Releases::It if !is_only(call.at) => {}
                        Releases::It => _ = alone.insert((user, call.at)),
                        Releases::More(function) => _ = whole.insert(function),
                        Releases::Nothing => {}
                    }
                }
            }
        }
        let sites: BTreeSet<Addr> = alone.iter().map(|(_, at)| *at).collect();
        let ((user, at), whole) = (*alone.first()?, *whole.first()?);
        (sites.len() == 1).then_some(Alone { user, at, whole })
    }

    fn takes_message(&self, key: Key, queues: &[Addr]) -> bool {
        self.walker.of_function(key).own.iter().any(|one| takes_from(one, queues))
    }

    /// True for a call that releases memory which is not known.
    fn releases_other(&self, call: &Call) -> bool {
        self.walker.effect(call).uses.iter().any(|one| one.action.by_memory && one.object.is_none())
    }

    /// What a call that gets a message does with it.
    fn releases_of(&self, call: &Call, mark: u32) -> Releases {
        let effect = self.walker.effect(call);
        let released: Vec<Option<Addr>> =
            effect.uses.iter().filter(|one| one.action.by_memory).map(|one| one.object).collect();
        if !released.contains(&Some(mark.into())) {
            return Releases::Nothing;
        }
        match call.to {
            Callee::At(_) if self.walker.action(call).is_some() => Releases::It,
            // Memory that the function has from elsewhere is no part of the message.
            Callee::At(to) if released.contains(&None) => Releases::More(to),
            _ => Releases::Nothing,
        }
    }
}

/// True for a call that takes a message from one of these queues.
fn takes_from(one: &Use, queues: &[Addr]) -> bool {
    let takes = one.action.act == Act::Takes && one.action.kind == Some(Kind::Queue);
    takes && one.object.is_some_and(|queue| queues.contains(&queue))
}

/// What a call releases.
enum Releases {
    /// The message alone.
    It,
    /// The message and other memory, by this function.
    More(Addr),
    Nothing,
}

/// The mark of a message of one of these queues that a call gets as its first argument.
fn message(call: &Call, queues: &[Addr]) -> Option<u32> {
    match call.arguments {
        [Value::Mark(mark), ..] if queues.contains(&mark.into()) => Some(mark),
        _ => None,
    }
}
