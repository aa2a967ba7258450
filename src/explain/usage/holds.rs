//! Whether a thread may have a semaphore in hand, by its stack and its code; and with which count the program creates one.

use std::collections::BTreeSet;

use super::walk::{Follow, Key, Succeeding, Summary};
use super::{Leak, Usage, Use, User, is_through_pointer, returns_to};
use crate::abi::Addr;
use crate::cpu::{Call, Callee};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// Where a thread is.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'s> {
    /// The instruction at which it was interrupted; `None` for one that called the kernel.
    pub at: Option<Addr>,
    /// Its return addresses, the innermost first.
    pub callers: &'s [Addr],
}

impl<'s> Stack<'s> {
    /// Of a thread that called the kernel.
    pub const fn of_call(callers: &'s [Addr]) -> Self {
        Self { at: None, callers }
    }
}

impl Usage<'_> {
    /// True where each function that takes a semaphore or a mutex puts it, too, and none puts what another one took: who has returned
    /// from such a function does not have it any more, or has lost it.
    pub fn is_put_where_taken(&self, users: &[User], kind: Kind, lock: Addr) -> bool {
        let of = |user: &User| self.takes_and_gives(*user, kind, lock);
        let mut all = users.iter().flat_map(of).peekable();
        all.peek().is_some() && all.all(|(takes, gives)| takes && gives)
    }

    /// True where functions take a lock for their callers, and others put it for them: each user calls one that takes it and another one
    /// that puts it, and what takes it puts it on no path, not by a call either.
    pub fn is_put_by_callers(&self, users: &[User], kind: Kind, lock: Addr) -> bool {
        let is = |one: &Use, act| one.action.act == act && one.action.kind == Some(kind) && one.object == Some(lock);
        let puts_what_it_takes = |key: Key| {
            let all = self.walker.of_function(key);
            all.own.iter().any(|one| is(one, Act::Takes)) && all.uses.iter().any(|one| is(one, Act::Gives))
        };
        users.iter().all(|user| {
            let all = self.takes_and_gives(*user, kind, lock);
            let is_apart = all.contains(&(true, false)) && all.contains(&(false, true));
            is_apart && !self.reached(*user).into_iter().any(puts_what_it_takes)
        })
    }

    /// True where a thread with this stack is between a call that takes a lock and one that puts it, itself or for its caller; `None`
    /// where that is not known. It says so only of a lock that is put where it is taken, or by those who call what takes it.
    pub fn holds(&self, user: User, semaphore: Addr, stack: Stack<'_>) -> Option<bool> {
        let takes_for_it = |key: &Key| does(&self.walker.of_function(*key), semaphore, Act::Takes, Act::Gives);
        let takes = |key: &Key| {
            let all = self.walker.of_function(*key);
            all.own.iter().any(|one| is_it(one, semaphore, Act::Takes)) || all.functions.iter().any(takes_for_it)
        };
        let mut is_known = true;
        for key in self.reached(user).into_iter().filter(takes) {
            let at = stack.at.filter(|pc| self.walker.caller(*pc) == Some(key.0));
            let within = stack.callers.iter().filter(|pc| self.walker.is_in(**pc, key.0));
            let in_calls = within.map(|pc| self.is_after_call(key, semaphore, *pc));
            for held in at.map(|pc| self.is_at(key, semaphore, pc)).into_iter().chain(in_calls) {
                if held == Some(true) {
                    return held;
                }
                is_known &= held.is_some();
            }
        }
        is_known.then_some(false)
    }

    /// The functions of a user that take a semaphore, themselves or by a function that takes it for them, with a path on which they do not
    /// put it; on another path they do.
    pub fn keeps(&self, user: User, semaphore: Addr) -> Vec<Leak> {
        let (takes, gives) = (self.takes(semaphore), self.gives(semaphore));
        let may_give = |call: &Call| {
            let effect = self.walker.effect(call);
            is_through_pointer(call) || gives(call) || effect.uses.iter().any(gives_unknown)
        };
        let leak = |key: Key| {
            let paths = self.walker.paths(&Succeeding::of(&self.walker, semaphore), key)?;
            let at = paths.calls().find(|call| takes(call))?.at;
            let is_kept = paths.leads_out(|call| call.at == at, may_give) && paths.leads_to(&takes, &gives);
            is_kept.then_some(Leak { function: key.0, at })
        };
        // A function that is called with several arguments is one.
        let mut all: Vec<Leak> = self.reached(user).into_iter().filter_map(leak).collect();
        all.sort_unstable_by_key(|leak| (leak.function, leak.at));
        all.dedup();
        all
    }

    /// True where a function of a user that takes a semaphore may return without a put, or where that is not known.
    pub fn may_keep(&self, user: User, semaphore: Addr) -> bool {
        let (takes, gives) = (self.takes(semaphore), self.gives(semaphore));
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(|one| is_it(one, semaphore, Act::Takes));
        let may = |key: Key| match self.walker.paths(&Succeeding::of(&self.walker, semaphore), key) {
            Some(paths) if paths.is_complete => paths.leads_out(&takes, &gives),
            _ => true,
        };
        self.reached(user).into_iter().filter(own).any(may)
    }

    /// True where that is so, or not known.
    pub fn may_hold(&self, user: User, semaphore: Addr, stack: Stack<'_>) -> bool {
        self.holds(user, semaphore, stack) != Some(false)
    }

    /// True for an instruction of a function that is between a call that takes a semaphore and one that puts it.
    fn is_at(&self, key: Key, semaphore: Addr, pc: Addr) -> Option<bool> {
        let follow = Succeeding::of(&self.walker, semaphore);
        let may_give = |call: &Call| self.walker.effect(call).uses.iter().any(gives_unknown);
        self.walker.is_between(&follow, key, pc, &self.takes(semaphore), &self.gives(semaphore), &may_give)
    }

    /// True where a path leads from a call that takes a semaphore to the one with this return address, and none on it puts the
    /// semaphore; `None` where not all paths could be followed, or the call is on none.
    fn is_after_call(&self, key: Key, semaphore: Addr, pc: Addr) -> Option<bool> {
        let follow = Succeeding::of(&self.walker, semaphore);
        let paths = self.walker.paths(&follow, key).filter(|paths| paths.is_complete)?;
        let is_there = |call: &Call| returns_to(call, pc);
        let is_on_path = paths.calls().any(is_there);
        is_on_path.then(|| paths.leads_between(self.takes(semaphore), is_there, self.gives(semaphore)))
    }

    /// True for a call that takes a semaphore, and does not put it.
    fn takes(&self, semaphore: Addr) -> impl Fn(&Call) -> bool {
        move |call| does(&self.walker.effect(call), semaphore, Act::Takes, Act::Gives)
    }

    /// True for a call that puts a semaphore, and does not take it.
    fn gives(&self, semaphore: Addr) -> impl Fn(&Call) -> bool {
        move |call| does(&self.walker.effect(call), semaphore, Act::Gives, Act::Takes)
    }

    /// The count with which the program creates a semaphore, and where; `None` where it does so in several ways. `create`: the
    /// functions that do.
    pub fn created_with(&self, semaphore: Addr, create: &[Addr]) -> Option<(u32, Addr)> {
        let all: BTreeSet<(u32, Addr)> =
            self.creations(semaphore, create).into_iter().filter_map(|(_, at, count)| Some((count?, at))).collect();
        all.first().copied().filter(|_| all.len() == 1)
    }

    /// Who creates an object, where, and the third argument of that call, where it is known. `create`: the functions that do.
    pub fn creations(&self, object: Addr, create: &[Addr]) -> Vec<(User, Addr, Option<u32>)> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let creates = |call: &Call| {
            let [first, _, third, _] = call.arguments;
            let is_it = matches!(call.to, Callee::At(to) if create.contains(&to));
            (is_it && first.known().map(Addr::from) == Some(object)).then(|| (call.at, third.known()))
        };
        let users: BTreeSet<User> = self.users.iter().map(|(user, _)| *user).collect();
        let mut all = Vec::new();
        for user in users {
            for paths in self.reached(user).into_iter().filter_map(|key| self.walker.paths(&follow, key)) {
                all.extend(paths.calls().filter_map(creates).map(|(at, third)| (user, at, third)));
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// True for a put of a semaphore that is not known.
fn gives_unknown(one: &Use) -> bool {
    one.action.act == Act::Gives && one.action.kind == Some(Kind::Semaphore) && one.object.is_none()
}

fn is_it(one: &Use, semaphore: Addr, act: Act) -> bool {
    one.action.act == act && one.object == Some(semaphore)
}

/// True where a function does one thing with a semaphore, and not the other.
fn does(all: &Summary, semaphore: Addr, act: Act, other: Act) -> bool {
    let does = |act| all.uses.iter().any(|one| is_it(one, semaphore, act));
    does(act) && !does(other)
}
