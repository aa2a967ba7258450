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
                for call in paths.calls() {
                    let Some(mark) = message(call, &queues) else { continue };
                    match self.releases_of(call, mark)? {
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
        let takes = |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(Kind::Queue);
        let of = |one: &Use| takes(one) && one.object.is_some_and(|queue| queues.contains(&queue));
        self.walker.of_function(key).own.iter().any(of)
    }

    /// What a call that gets a message does with it; `None` where that is not known.
    fn releases_of(&self, call: &Call, mark: u32) -> Option<Releases> {
        let effect = self.walker.effect(call);
        let released: Vec<Option<Addr>> =
            effect.uses.iter().filter(|one| one.action.by_memory).map(|one| one.object).collect();
        if !released.contains(&Some(mark.into())) {
            return Some(Releases::Nothing);
        }
        let Callee::At(to) = call.to else { return None };
        Some(match released.as_slice() {
            [_] if self.walker.action(call).is_some() => Releases::It,
            [_] => Releases::Nothing,
            _ => Releases::More(to),
        })
    }
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
