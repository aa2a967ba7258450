//! What several threads start in the same function, and whose end an interrupt reports to them: a transfer over a bus. Without a lock the
//! second starts its own while the first one waits.

use std::collections::BTreeSet;

use super::walk::{Follow, Key};
use super::{Need, Usage, Use, User};
use crate::abi::{Addr, Region};
use crate::cpu::Value;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// Such a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub function: Addr,
    /// Where it waits, or gives a request.
    pub at: Addr,
    /// A word that it stores before for each of these threads, in a variable that those use who answer, too.
    pub word: Addr,
    /// The threads that call it and hold no lock there.
    pub threads: BTreeSet<User>,
    /// Those who answer: the handlers that give what they wait for, or functions that no thread calls; or a thread.
    pub answering: Vec<User>,
}

/// What several threads do with an object.
#[derive(Clone, Copy)]
struct Same {
    act: Act,
    kind: Kind,
    object: Addr,
    /// Event flags of which it is one.
    flags: Option<u64>,
}

impl Usage<'_> {
    /// The only function in which threads wait for a semaphore that handlers alone put, or for event flags that these alone set, where several
    /// of them hold no lock there. `variable`: the variable that an address is in.
    pub fn started(&self, kind: Kind, object: Addr, variable: &dyn Fn(Addr) -> Option<Region>) -> Option<Started> {
        let handlers = self.who(Act::Gives, Some(kind), object, None)?;
        // Handlers may call one through a pointer.
        let is_handler = |user: &User| matches!(user, User::Handler(_) | User::Other(_));
        if handlers.is_empty() || !handlers.iter().all(is_handler) {
            return None;
        }
        let mut started =
            self.without_lock_in(Same { act: Act::Takes, kind, object, flags: None }, &handlers, variable)?;
        let is_named = |user: &User| matches!(user, User::Handler(_));
        if started.answering.iter().any(is_named) {
            started.answering.retain(is_named);
        }
        Some(started)
    }

    /// The only function in which threads give what a server waits for, where several of them hold no lock there.
    pub fn requested(
        &self,
        request: &Need,
        server: User,
        variable: &dyn Fn(Addr) -> Option<Region>,
    ) -> Option<Started> {
        let Need { act, kind, object, wanted: flags } = *request;
        self.without_lock_in(Same { act, kind, object, flags }, &[server], variable)
    }

    fn without_lock_in(
        &self,
        same: Same,
        answering: &[User],
        variable: &dyn Fn(Addr) -> Option<Region>,
    ) -> Option<Started> {
        let Same { act, kind, object, flags } = same;
        let users = self.who(act, Some(kind), object, flags)?;
        let is_flag = |one: &Use| one.flags.zip(flags).is_none_or(|(own, flags)| u64::from(own) & flags != 0);
        let is_it = |one: &Use| {
            one.action.act == act && one.action.kind == Some(kind) && one.object == Some(object) && is_flag(one)
        };
        let does = |key: &Key| self.walker.of_function(*key).own.iter().any(is_it);
        let all: BTreeSet<Key> = users.iter().flat_map(|user| self.reached(*user)).filter(does).collect();
        let functions: BTreeSet<Addr> = all.iter().map(|(function, _)| *function).collect();
        let function = functions.first().copied().filter(|_| functions.len() == 1)?;
        // Threads with the same entry share the work of one.
        if self.users.iter().filter_map(|(_, summary)| summary.key).any(|(entry, _)| entry == function) {
            return None;
        }
        let mut threads = self.without_lock(&functions);
        threads.retain(|user| matches!(user, User::Thread(_)));
        let at = self.site(*threads.first().filter(|_| threads.len() > 1)?, is_it)?;
        let words_of = |user: &User| -> BTreeSet<Addr> {
            let keys = all.intersection(&self.reached(*user)).copied().collect::<Vec<Key>>();
            keys.into_iter().flat_map(|key| self.stored_before(key, at)).collect()
        };
        let words: Vec<(User, BTreeSet<Addr>)> = threads.iter().map(|user| (*user, words_of(user))).collect();
        let stores = |word: &Addr| words.iter().filter(|(_, all)| all.contains(word)).map(|(user, _)| *user).collect();
        let users_of = |word: &Addr| -> Vec<User> {
            let Some(memory) = variable(*word) else { return Vec::new() };
            answering.iter().filter(|user| self.uses_variable(**user, memory)).copied().collect()
        };
        let all = words.iter().flat_map(|(_, all)| all);
        let mut shared = all.map(|word| (*word, stores(word), users_of(word)));
        let is_shared =
            |(_, threads, users): &(Addr, BTreeSet<User>, Vec<User>)| threads.len() > 1 && !users.is_empty();
        let (word, threads, answering) = shared.find(is_shared)?;
        Some(Started { function, at, word, threads, answering })
    }

    /// True for a handler that has an address of a variable.
    fn uses_variable(&self, user: User, variable: Region) -> bool {
        match user {
            User::Other(function) => self.functions_with(variable).contains(&function),
            user => self.users_of(variable).contains(&user),
        }
    }

    /// The words that a function stores to before it comes to an instruction.
    fn stored_before(&self, key: Key, at: Addr) -> Vec<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: true };
        let Some(paths) = self.walker.storing(&follow, key) else { return Vec::new() };
        let comes = |from: Addr| self.walker.comes_to(&follow, from, at).is_some_and(|(_, comes)| comes);
        let words = paths.stored.iter().filter_map(|(from, stored)| match stored.place {
            Value::Is(word) => Some((*from, Addr::from(word))),
            _ => None,
        });
        words.filter(|(from, _)| comes(*from)).map(|(_, word)| word).collect()
    }
}
