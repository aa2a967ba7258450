//! Who uses memory of the program, and which lock each holds there: by the functions that have its address, and the calls that lead to
//! them.
//!
//! A lock may be taken by a function that is called for that. Not seen: accesses through a pointer that a function was passed, and a
//! switch to a higher preemption-threshold, which is a lock, too.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::{ANY, Follow, Key};
use super::{Usage, Use, User};
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Callee, Paths, Value};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The most functions that are looked at for one user, each with the locks that are held.
const MOST: usize = 4000;
/// The most calls within each other through which an address is followed.
const DEPTH: usize = 4;
/// The functions of the kernel that disable interrupts for their caller.
const DISABLE: [&str; 2] = ["_tx_thread_interrupt_disable", "_tx_thread_interrupt_control"];

/// What keeps others from the memory meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Nothing.
    None,
    /// This mutex, or this semaphore that is used as a lock.
    Object(Addr),
    /// Interrupts are disabled, or some lock is taken, which is not known.
    Other,
}

/// As which arguments functions get an address of some memory.
struct Given {
    all: BTreeMap<Addr, [bool; 4]>,
    memory: Region,
}

impl Given {
    /// False where a function is known to get another address from this caller, as one of the C library does.
    fn may_have(&self, (at, arguments): Key) -> bool {
        let Some(given) = self.all.get(&at).filter(|given| given.contains(&true)) else { return true };
        given.iter().zip(arguments).any(|(is_given, value)| {
            let is_elsewhere = match value {
                Value::Is(at) => !self.memory.contains(at.into()),
                Value::Mark(_) => true,
                _ => false,
            };
            *is_given && !is_elsewhere
        })
    }
}

/// A use of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Who.
    pub user: User,
    /// The lock that it holds.
    pub lock: Lock,
    /// The function that has the address.
    pub function: Addr,
}

impl Usage<'_> {
    /// Who uses this memory after the kernel has started, each with the locks that it holds then. Others may, too. `variable`: of
    /// which it is a part. A function that passes an address in it to another one may do no more than that, and that one may take a lock.
    pub fn accesses(&self, memory: Region, variable: Region) -> Vec<Access> {
        let mut functions = self.functions_with(memory);
        let given = self.given(&functions, memory);
        let with: Vec<Key> = self.users.iter().flat_map(|(user, _)| self.reached(*user)).collect();
        for key in with.into_iter().filter(|(at, _)| functions.contains(at)).collect::<BTreeSet<Key>>() {
            if self.passes_address(key, variable) {
                functions.remove(&key.0);
            }
        }
        let mut all = BTreeSet::new();
        // Who calls a function that no path led to is not known: it may be that of a thread which does not exist.
        let is_known = |user: &User| !matches!(user, User::Start | User::Other(_));
        for user in self.users.iter().map(|(user, _)| *user).filter(is_known) {
            let Some(found) = self.accesses_of(user, &functions, Some(memory)) else { return Vec::new() };
            let found = found.into_iter().filter(|(_, key)| given.may_have(*key));
            all.extend(found.map(|(lock, (function, _))| Access { user, lock, function }));
        }
        all.into_iter().collect()
    }

    /// As which arguments these functions get an address of this memory, where they have none by themselves.
    fn given(&self, functions: &BTreeSet<Addr>, memory: Region) -> Given {
        let is_in = |at: &u32| memory.contains(Addr::from(*at));
        let has_none = |at: &&Addr| !self.addresses_of(**at).iter().any(is_in);
        let mut all: BTreeMap<Addr, [bool; 4]> =
            functions.iter().filter(has_none).map(|at| (*at, [false; 4])).collect();
        for (at, arguments) in self.users.iter().flat_map(|(user, _)| self.reached(*user)) {
            let Some(given) = all.get_mut(&at) else { continue };
            for (is_given, value) in given.iter_mut().zip(arguments) {
                *is_given |= value.known().as_ref().is_some_and(is_in);
            }
        }
        Given { all, memory }
    }

    /// Who comes to one of these functions, and holds no lock there.
    pub fn without_lock(&self, functions: &BTreeSet<Addr>) -> BTreeSet<User> {
        let is_known = |user: &User| !matches!(user, User::Start | User::Other(_));
        let users = self.users.iter().map(|(user, _)| *user).filter(is_known);
        let is_free = |(lock, _): &(Lock, Key)| *lock == Lock::None;
        users
            .filter(|user| self.accesses_of(*user, functions, None).is_some_and(|all| all.iter().any(is_free)))
            .collect()
    }

    /// The same of one user, by the functions that access the memory; `None` where that takes too long. `memory`: which, where that is
    /// known.
    fn accesses_of(
        &self,
        user: User,
        functions: &BTreeSet<Addr>,
        memory: Option<Region>,
    ) -> Option<BTreeSet<(Lock, Key)>> {
        let leads = self.leading(user, functions);
        let roots = self.users.iter().filter(|(other, _)| *other == user).filter_map(|(_, summary)| summary.key);
        let mut todo: Vec<(Key, Lock)> = roots.map(|key| (key, Lock::None)).collect();
        let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
        while let Some((key, lock)) = todo.pop().filter(|_| seen.len() < MOST) {
            if !leads.contains(&key) || !seen.insert((key, lock)) {
                continue;
            }
            let follow = Follow { walker: &self.walker, succeeds: true };
            let Some(paths) = self.walker.paths(&follow, key) else { continue };
            let inside = Inside::of(self, key, &paths, lock);
            if functions.contains(&key.0) {
                found.extend(inside.at_accesses(memory, key).into_iter().map(|lock| (lock, key)));
            }
            let calls = self.walker.of_function(key);
            for call in paths.calls() {
                let Callee::At(to) = call.to else { continue };
                let held = inside.at_call(call, &paths);
                todo.extend(calls.functions.iter().filter(|(at, _)| *at == to).map(|callee| (*callee, held)));
            }
        }
        todo.is_empty().then_some(found)
    }

    /// The functions of a user that are some of these, or call one.
    fn leading(&self, user: User, functions: &BTreeSet<Addr>) -> BTreeSet<Key> {
        let reached = self.reached(user);
        let mut all: BTreeSet<Key> = reached.iter().filter(|(at, _)| functions.contains(at)).copied().collect();
        loop {
            let calls = |key: &&Key| self.walker.of_function(**key).functions.iter().any(|callee| all.contains(callee));
            let more: Vec<Key> = reached.iter().filter(|key| !all.contains(key)).filter(calls).copied().collect();
            if more.is_empty() {
                return all;
            }
            all.extend(more);
        }
    }
}

impl Usage<'_> {
    /// True where one of these functions calls one of those, for a user that is known.
    pub fn calls_one(&self, callers: &BTreeSet<Addr>, functions: &BTreeSet<Addr>) -> bool {
        let keys = self.users.iter().flat_map(|(user, _)| self.reached(*user));
        let calls = |key: Key| self.walker.of_function(key).functions.iter().any(|(to, _)| functions.contains(to));
        keys.filter(|(at, _)| callers.contains(at)).any(calls)
    }

    /// Who comes to a function that has an address of this memory there, after the kernel has started.
    pub fn users_of(&self, memory: Region) -> BTreeSet<User> {
        let functions = self.functions_with(memory);
        let is_known = |user: &User| !matches!(user, User::Start | User::Other(_));
        let users = self.users.iter().map(|(user, _)| *user).filter(is_known);
        let given = self.given(&functions, memory);
        let has_it = |key: &Key| functions.contains(&key.0) && given.may_have(*key);
        users.filter(|user| self.reached(*user).iter().any(has_it)).collect()
    }

    /// True where a function may lock something: it, or what it calls, calls the kernel, disables interrupts, or calls through a pointer.
    pub fn locks(&self, function: Addr) -> bool {
        let (mut todo, mut seen) = (vec![(function & !1, [Value::Unknown; 4])], BTreeSet::new());
        while let Some(key) = todo.pop() {
            let summary = self.walker.of_function(key);
            let is_kernel = self.walker.is_of_kernel(key.0);
            if is_kernel || summary.calls_pointer || self.walker.code().disables_interrupts(key.0) {
                return true;
            }
            todo.extend(summary.functions.iter().filter(|key| seen.insert(**key)).copied());
            let follow = Follow { walker: &self.walker, succeeds: false };
            let paths = self.walker.paths(&follow, key);
            let calls_kernel = |call: &Call| matches!(call.to, Callee::At(to) if self.walker.is_of_kernel(to));
            if paths.is_none_or(|paths| paths.calls().any(calls_kernel)) {
                return true;
            }
        }
        false
    }

    /// True where a function may pass an address in a variable to a function that it calls.
    fn passes_address(&self, key: Key, variable: Region) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: true };
        let paths = self.walker.paths(&follow, key).filter(|paths| paths.is_complete);
        paths.is_none_or(|paths| paths.calls().any(|call| self.uses_address(call, variable, DEPTH)))
    }

    /// True where the function that is called may use an address in a variable that it is called with: it accesses memory there, stores the
    /// address, or passes it on. A call also leaves in the registers of arguments what the function has no parameter for.
    fn uses_address(&self, call: &Call, variable: Region, depth: usize) -> bool {
        let is_there = |value: &Value| value.known().is_some_and(|at| variable.contains(at.into()));
        let given = call.arguments.map(|value| if is_there(&value) { value } else { Value::Unknown });
        if given == ANY {
            return false;
        }
        let is_lock = |one: Use| matches!(one.action.kind, Some(Kind::Mutex | Kind::Semaphore));
        let (Callee::At(to), Some(rest)) = (call.to, depth.checked_sub(1)) else { return true };
        if self.walker.action(call).is_some_and(is_lock) {
            return false;
        }
        // An access by an index is not always seen. Who takes no lock accesses it with those that its caller has.
        if self.locks(to) {
            return true;
        }
        let follow = Follow { walker: &self.walker, succeeds: false };
        let of = |arguments| self.walker.storing(&follow, (to, arguments)).filter(|paths| paths.is_complete);
        let (Some(with), Some(without)) = (of(given), of(ANY)) else { return true };
        (&with.accesses, &with.stored) != (&without.accesses, &without.stored)
            || with.calls().any(|call| self.uses_address(call, variable, rest))
    }
}

/// The locks within one function.
struct Inside<'u, 'c> {
    usage: &'u Usage<'c>,
    /// What is held all the time.
    own: Lock,
    /// The calls that take locks: where, and which.
    taken: Vec<(Addr, Lock)>,
}

impl<'u, 'c> Inside<'u, 'c> {
    /// `lock`: what its caller holds.
    fn of(usage: &'u Usage<'c>, key: Key, paths: &Paths, lock: Lock) -> Self {
        let disables =
            usage.walker.code().disables_interrupts(key.0) || paths.calls().any(|call| disables(call, usage));
        let own = if disables { Lock::Other } else { lock };
        let taken =
            paths.calls().flat_map(|call| changes(call, usage, Act::Takes).into_iter().map(|lock| (call.at, lock)));
        Self { usage, own, taken: taken.collect() }
    }

    /// What it holds at its accesses to memory: nothing only where it holds no lock at any of them. Where they are not known, a lock that
    /// it takes is for that.
    fn at_accesses(&self, memory: Option<Region>, key: Key) -> BTreeSet<Lock> {
        let follow = Follow { walker: &self.usage.walker, succeeds: true };
        let has_own = !self.taken.is_empty() && self.own == Lock::None;
        let paths = memory.filter(|_| has_own).and_then(|at| self.usage.walker.accessing(&follow, key, at));
        let paths = paths.filter(|paths| paths.is_complete).unwrap_or_default();
        let accesses = paths.calls().filter(|call| call.to == Callee::Access);
        let mut all: BTreeSet<Lock> = accesses.map(|access| self.at_call(access, &paths)).collect();
        if all.is_empty() {
            return BTreeSet::from([self.of_function()]);
        }
        if all.len() > 1 {
            all.remove(&Lock::None);
        }
        all
    }

    /// What it holds where it accesses the memory. Where in it that is is not known: a lock that it takes is for that.
    fn of_function(&self) -> Lock {
        self.taken.first().map_or(self.own, |(_, lock)| if self.own == Lock::None { *lock } else { self.own })
    }

    /// What it holds in a call.
    fn at_call(&self, call: &Call, paths: &Paths) -> Lock {
        let is_held = |(at, lock): &&(Addr, Lock)| {
            let gives = |other: &Call| changes(other, self.usage, Act::Gives).contains(lock);
            paths.leads_between(|other| other.at == *at, |other| other.at == call.at, gives)
        };
        let taken = self.taken.iter().find(is_held).filter(|_| self.own == Lock::None);
        taken.map_or(self.own, |(_, lock)| *lock)
    }
}

/// True for a call of what disables interrupts, itself or by its instructions.
fn disables(call: &Call, usage: &Usage<'_>) -> bool {
    let Callee::At(to) = call.to else { return false };
    match usage.walker.kernel_function(to) {
        Some(name) => DISABLE.contains(&name.as_str()),
        None => usage.walker.code().disables_interrupts(to),
    }
}

/// The locks that a call takes and does not give back, or gives back and does not take.
fn changes(call: &Call, usage: &Usage<'_>, act: Act) -> Vec<Lock> {
    let effect = usage.walker.effect(call);
    let lock = |one: &Use| match (one.action.kind?, one.object) {
        (Kind::Mutex, Some(object)) => Some(Lock::Object(object)),
        (Kind::Mutex, None) => Some(Lock::Other),
        (Kind::Semaphore, Some(object)) => usage.is_lock(object).then_some(Lock::Object(object)),
        _ => None,
    };
    let of = |act: Act| effect.uses.iter().filter(move |one| one.action.act == act).filter_map(lock);
    let back: BTreeSet<Lock> = of(if act == Act::Takes { Act::Gives } else { Act::Takes }).collect();
    of(act).filter(|lock| !back.contains(lock)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Radio uses sign without mutex text": `strncpy` was called by it, too, with a block of its own.
    #[test]
    fn what_one_caller_passes_to_a_function_of_the_library_was_said_of_the_other() {
        let memory = Region { start: 0x2000_4950, len: 0x20 };
        let all = BTreeMap::from([(0x417C, [true, false, false, false])]);
        let given = Given { all, memory };
        let of = |at, first| given.may_have((at, [first, Value::Is(0x2000_4950), Value::Unknown, Value::Unknown]));
        assert!(of(0x417C, Value::Is(0x2000_4950)));
        assert!(!of(0x417C, Value::Is(0x2000_4900)) && !of(0x417C, Value::Mark(0x2000_48A0)));
        assert!(of(0x417C, Value::Unknown), "it may be that");
        assert!(of(0x250, Value::Is(0)), "a function that has the address by itself");
    }
}
