//! Who uses memory of the program, and which lock each holds there: by the functions that have its address, and the calls that lead to
//! them.
//!
//! Not seen: accesses through a pointer that a function was passed, and a switch to a higher preemption-threshold, which is a lock, too.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::{Follow, Key};
use super::{Usage, Use, User};
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Callee};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The functions of the kernel that disable interrupts for their caller.
const DISABLE: [&str; 2] = ["_tx_thread_interrupt_disable", "_tx_thread_interrupt_control"];

/// What keeps others from the memory meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Nothing.
    None,
    /// This mutex, or this semaphore that is used as a lock.
    Object(Addr),
    /// Interrupts are disabled.
    Interrupts,
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
        let with: Vec<Key> = self.users.iter().flat_map(|(user, _)| self.reached(*user)).collect();
        for key in with.into_iter().filter(|(at, _)| functions.contains(at)).collect::<BTreeSet<Key>>() {
            if self.passes_address(key, variable) {
                functions.remove(&key.0);
            }
        }
        let mut all = BTreeSet::new();
        // Who calls a function that no path led to is not known: it may be that of a thread which does not exist.
        let is_known = |user: &User| !matches!(user, User::Start | User::Other(_));
        for (user, summary) in self.users.iter().filter(|(user, _)| is_known(user)) {
            let Some(root) = summary.key else { continue };
            let mut walk = Walk { usage: self, functions: &functions, leads: BTreeMap::new(), seen: BTreeSet::new() };
            if !walk.leads_there(root) {
                continue;
            }
            let mut found = BTreeSet::new();
            walk.visit(root, Lock::None, &mut found);
            all.extend(found.into_iter().map(|(lock, function)| Access { user: *user, lock, function }));
        }
        all.into_iter().collect()
    }
}

impl Usage<'_> {
    /// Who calls a function that has an address of this memory, after the kernel has started.
    pub fn users_of(&self, memory: Region) -> BTreeSet<User> {
        let functions = self.functions_with(memory);
        let is_known = |user: &User| !matches!(user, User::Start | User::Other(_));
        let users = self.users.iter().map(|(user, _)| *user).filter(is_known);
        users.filter(|user| self.reached(*user).iter().any(|(at, _)| functions.contains(at))).collect()
    }

    /// True where a function may pass an address in a variable to a function that it calls.
    fn passes_address(&self, key: Key, variable: Region) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: true };
        let passes = |call: &Call| {
            call.arguments.iter().any(|value| value.known().is_some_and(|at| variable.contains(at.into())))
        };
        self.walker.paths(&follow, key).is_none_or(|paths| !paths.is_complete || paths.calls().any(passes))
    }
}

/// From one user to the functions that have the address.
struct Walk<'u, 'c> {
    usage: &'u Usage<'c>,
    functions: &'u BTreeSet<Addr>,
    /// Whether a function is one of them, or calls one.
    leads: BTreeMap<Key, bool>,
    seen: BTreeSet<(Key, Lock)>,
}

impl Walk<'_, '_> {
    fn leads_there(&mut self, key: Key) -> bool {
        if let Some(known) = self.leads.get(&key) {
            return *known;
        }
        // Functions that call each other in a circle.
        self.leads.insert(key, self.functions.contains(&key.0));
        let calls = self.usage.walker.of_function(key).functions.clone();
        let leads =
            calls.into_iter().fold(self.functions.contains(&key.0), |leads, call| self.leads_there(call) || leads);
        self.leads.insert(key, leads);
        leads
    }

    fn visit(&mut self, key: Key, lock: Lock, found: &mut BTreeSet<(Lock, Addr)>) {
        if !self.leads_there(key) || !self.seen.insert((key, lock)) {
            return;
        }
        let usage = self.usage;
        let follow = Follow { walker: &usage.walker, succeeds: true };
        let Some(paths) = usage.walker.paths(&follow, key) else { return };
        let disables = usage.walker.code().disables_interrupts(key.0) || paths.calls().any(|call| self.disables(call));
        let own = if disables { Lock::Interrupts } else { lock };
        let taken: Vec<Addr> = paths.calls().filter_map(|call| self.lock(call, Act::Takes)).collect();
        if self.functions.contains(&key.0) {
            // Where in it the memory is accessed is not known: a lock that it takes is for that.
            let held = taken.first().map_or(own, |object| if own == Lock::None { Lock::Object(*object) } else { own });
            found.insert((held, key.0));
        }
        let calls: Vec<(Addr, Addr)> = paths
            .calls()
            .filter_map(|call| if let Callee::At(to) = call.to { Some((call.at, to)) } else { None })
            .collect();
        for (at, to) in calls {
            let is_held = |object: &&Addr| {
                let is = |call: &Call, act| self.lock(call, act) == Some(**object);
                paths.leads_between(|call| is(call, Act::Takes), |call| call.at == at, |call| is(call, Act::Gives))
            };
            let held =
                taken.iter().find(is_held).filter(|_| own == Lock::None).map_or(own, |object| Lock::Object(*object));
            let keys: Vec<Key> =
                usage.walker.of_function(key).functions.iter().copied().filter(|(f, _)| *f == to).collect();
            keys.into_iter().for_each(|key| self.visit(key, held, found));
        }
    }

    fn disables(&self, call: &Call) -> bool {
        let Callee::At(to) = call.to else { return false };
        self.usage.walker.kernel_function(to).is_some_and(|name| DISABLE.contains(&name.as_str()))
    }

    /// The lock that a call takes or gives.
    fn lock(&self, call: &Call, act: Act) -> Option<Addr> {
        let Use { action, object, .. } = self.usage.walker.action(call).filter(|one| one.action.act == act)?;
        match action.kind? {
            Kind::Mutex => object,
            Kind::Semaphore => object.filter(|semaphore| self.usage.is_lock(*semaphore)),
            _ => None,
        }
    }
}
