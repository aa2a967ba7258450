//! Single calls of a user, with their arguments.

use super::walk::{Follow, Key};
use super::{Usage, Use, User};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Paths, Value};
use crate::kernel::Kind;
use crate::kernel::api::{self, Act};

/// A call with a time to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Where it is.
    pub at: Addr,
    /// The function of the kernel.
    pub function: String,
    /// The object.
    pub object: Addr,
    /// Its handler or callback makes it, and no function that is called; and it calls nothing but the kernel, so that nothing tells
    /// it whether it may wait.
    pub is_own: bool,
}

impl Usage<'_> {
    /// The paths of those functions of a user that do something themselves.
    fn paths_with<'u>(&'u self, user: User, is: impl Fn(&Use) -> bool + 'u) -> impl Iterator<Item = (Key, Paths)> + 'u {
        let does = move |key: &Key| self.walker.of_function(*key).own.iter().any(&is);
        let all = self.reached(user).into_iter().filter(does);
        all.filter_map(|key| {
            let follow = Follow { walker: &self.walker, succeeds: false };
            Some((key, self.walker.paths(&follow, key)?))
        })
    }

    /// The calls of the handlers of interrupts, and of the callbacks of timers, that have a time to wait other than 0.
    pub fn waiting_calls(&self, name: &dyn Fn(Addr) -> Option<String>) -> Vec<(User, Waiting)> {
        let is_short = |user: &User| matches!(user, User::Handler(_) | User::Callback(_));
        let mut all = Vec::new();
        for (user, summary) in self.users.iter().filter(|(user, _)| is_short(user)) {
            for (key, paths) in self.paths_with(*user, |one| one.object.is_some()) {
                let is_own = summary.key == Some(key) && paths.calls().all(|call| self.walker.action(call).is_some());
                let waiting = |call: &Call| {
                    let Callee::At(to) = call.to else { return None };
                    let function = name(to)?;
                    let wait = call.arguments.get(api::wait_argument(&function)?)?.known()?;
                    let object = self.walker.action(call)?.object.filter(|_| wait != 0)?;
                    Some(Waiting { at: call.at, function, object, is_own })
                };
                all.extend(paths.calls().filter_map(waiting).map(|call| (*user, call)));
            }
        }
        all.dedup();
        all
    }

    /// True where a user takes a mutex by a call of this function that may wait.
    pub fn waits_for(&self, user: User, mutex: Addr, get: Addr) -> bool {
        let is_it = move |one: &Use| {
            one.action.act == Act::Takes && one.action.kind == Some(Kind::Mutex) && one.object == Some(mutex)
        };
        let waits = |call: &Call| {
            let [_, wait, ..] = call.arguments;
            let may_wait = call.to == Callee::At(get) && wait.known().is_some_and(|ticks| ticks != 0);
            may_wait && self.walker.action(call).is_some_and(|one| is_it(&one))
        };
        self.paths_with(user, is_it).any(|(_, paths)| paths.calls().any(waits))
    }

    /// Where a user receives a message into its function's stack frame: the call, the queue, and how far from the stack pointer at
    /// the function's start.
    /// `receive`: the functions that receive one.
    pub fn received(&self, user: User, receive: &[Addr]) -> Vec<(Addr, Addr, i32)> {
        let is_it = |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(Kind::Queue);
        let into_frame = |call: &Call| {
            let is_receive = matches!(call.to, Callee::At(to) if receive.contains(&to));
            let queue = self.walker.action(call).filter(|one| is_receive && is_it(one))?.object?;
            match call.arguments {
                [_, Value::Frame(at), ..] => Some((call.at, queue, at)),
                _ => None,
            }
        };
        let all = self.paths_with(user, is_it);
        all.flat_map(|(_, paths)| paths.calls().filter_map(into_frame).collect::<Vec<_>>()).collect()
    }

    /// Where a user calls one of these functions again and again. `fits`: whether its first argument may be the one that is meant.
    pub fn calls_again(&self, user: User, functions: &[Addr], fits: fn(Value) -> bool) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let is = |call: &Call| {
            let [first, ..] = call.arguments;
            matches!(call.to, Callee::At(to) if functions.contains(&to)) && fits(first)
        };
        let call = |key: Key| {
            let paths = self.walker.paths(&follow, key)?;
            let at = paths.calls().find(|call| is(call))?.at;
            paths.repeats(is).then_some(at)
        };
        self.reached(user).into_iter().find_map(call)
    }
}
