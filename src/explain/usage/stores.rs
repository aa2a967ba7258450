//! Which code stores to a word of a variable, and what.
//!
//! What `memset` and the like write counts as written by the function that calls them. Not seen: stores through a pointer that was read
//! from memory.

use std::collections::BTreeSet;

use super::walk::{Follow, Key};
use super::{Usage, User};
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Callee, Stored, Value};

/// The most functions that are looked at, each as often as it is passed other addresses.
const MOST: usize = 64;
/// The same where all code of the program is.
const ALL: usize = 1024;
/// Where variables may be, on a Cortex-M or a RISC-V: addresses of 32 bits.
const ANYWHERE: Region = Region { start: 0, len: 1 << 32 };

/// A store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Store {
    /// The function with it, or that has one of the C library do it, as `memset`.
    pub function: Addr,
    /// The instruction, or the call of such a function.
    pub at: Addr,
    /// What it stores, where that is a constant.
    pub value: Option<u32>,
    /// Where to, where that is a constant.
    pub place: Option<u32>,
}

/// A call, and the function with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    function: Addr,
    at: Addr,
}

impl Site {
    fn stores(self, stored: &Stored) -> Store {
        Store { function: self.function, at: self.at, value: stored.value.known(), place: stored.place.known() }
    }
}

/// Stores of several functions.
struct Stores {
    all: Vec<(Store, Stored)>,
    /// True where each path of these functions was followed.
    is_whole: bool,
    /// True where functions were left out.
    is_cut: bool,
}

impl Usage<'_> {
    /// The stores to a word of a variable by code that runs after the kernel has started. `is_element`: true for the address of the same
    /// member of another element of an array.
    pub fn stores(&self, word: Addr, variable: Region, is_element: &dyn Fn(Addr) -> bool) -> BTreeSet<Store> {
        let is_it = |stored: &Stored| match stored.place {
            Value::Is(at) => word.checked_sub(at.into()).is_some_and(|into| into < stored.bytes.into()),
            Value::Near(at) => is_element(at.into()),
            _ => false,
        };
        let (all, _) = self.all_stores(variable);
        all.into_iter().filter(|(_, stored)| is_it(stored)).map(|(store, _)| store).collect()
    }

    /// The constant that one instruction alone stores to a register of a device, and where it is; `None` where others may store to it.
    /// `registers`: all registers of that device. A store of another size sets others as well.
    pub fn only_constant(&self, at: Addr, bytes: u32, registers: Region) -> Option<(u32, Addr)> {
        let may_be = |stored: &Stored| match stored.place {
            Value::Is(place) => at.checked_sub(place.into()).is_some_and(|into| into < stored.bytes.into()),
            Value::Near(place) => registers.contains(place.into()),
            _ => false,
        };
        let (all, is_whole) = self.all_stores(registers);
        let all = all.into_iter().filter(|_| is_whole).filter(|(_, stored)| may_be(stored));
        let constant = |(store, stored): (Store, Stored)| {
            let is_it = stored.place.known().map(Addr::from) == Some(at) && u32::from(stored.bytes) == bytes;
            Some((stored.value.known().filter(|_| is_it)?, store.at))
        };
        let all: BTreeSet<Option<(u32, Addr)>> = all.map(constant).collect();
        all.first().copied().flatten().filter(|_| all.len() == 1)
    }

    /// All stores by code that has an address of a variable, and whether all of that code could be followed.
    pub fn all_stores(&self, variable: Region) -> (Vec<(Store, Stored)>, bool) {
        let mut todo: Vec<Key> =
            self.functions_with(variable).into_iter().map(|at| (at, [Value::Unknown; 4])).collect();
        // The parameter of a thread or of a timer may be such an address.
        let roots = self.users.iter().filter_map(|(_, summary)| summary.key);
        todo.extend(roots.filter(|(_, arguments)| {
            arguments.iter().any(|value| value.known().is_some_and(|at| variable.contains(at.into())))
        }));
        self.stores_of(todo, variable)
    }

    /// The stores to an array at an index that the code computes, by code that has the address of its first element: where index 0 leads
    /// is known, so an address from which other variables are reached, too, does no harm.
    pub fn stores_at_index(&self, array: Region) -> BTreeSet<Store> {
        let functions = self.walker.code().functions_with(array);
        let todo = functions.into_iter().map(|at| (at, [Value::Unknown; 4])).collect();
        let (all, _) = self.stores_of(todo, array);
        let is_it = |stored: &Stored| matches!(stored.place, Value::Near(at) if Addr::from(at) == array.start);
        all.into_iter().filter(|(_, stored)| is_it(stored)).map(|(store, _)| store).collect()
    }

    /// The stores at an index that the code computes, by code that runs after the kernel has started; `None` where there is more code than is
    /// followed.
    pub fn indexed_stores(&self) -> Option<&[(Store, Stored)]> {
        let find = || {
            let users = self.users.iter().map(|(user, _)| *user).filter(|user| *user != User::Start);
            let todo: BTreeSet<Key> = users.flat_map(|user| self.reached(user)).collect();
            let Stores { mut all, is_cut, .. } = self.stores_in(todo.into_iter().collect(), ANYWHERE, ALL);
            all.retain(|(_, stored)| matches!(stored.place, Value::Near(_)));
            (!is_cut).then_some(all)
        };
        self.indexed.get_or_init(find).as_deref()
    }

    /// The stores of a function to memory whose address it is called with, and of those that it passes that on to.
    pub fn stores_to_argument(&self, function: Addr, memory: Region) -> Vec<Store> {
        let Ok(argument) = u32::try_from(memory.start) else { return Vec::new() };
        let key = (function, [Value::Is(argument), Value::Unknown, Value::Unknown, Value::Unknown]);
        let is_in = |stored: &Stored| stored.place.known().is_some_and(|place| memory.contains(place.into()));
        let (all, _) = self.stores_of(vec![key], memory);
        all.into_iter().filter(|(_, stored)| is_in(stored)).map(|(store, _)| store).collect()
    }

    /// The stores of functions, and of those that they pass an address in a variable, and whether all of that code could be followed.
    fn stores_of(&self, todo: Vec<Key>, variable: Region) -> (Vec<(Store, Stored)>, bool) {
        let Stores { all, is_whole, is_cut } = self.stores_in(todo, variable, MOST);
        (all, is_whole && !is_cut)
    }

    /// The same of so many functions at most.
    fn stores_in(&self, todo: Vec<Key>, variable: Region, most: usize) -> Stores {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let (mut seen, mut all, mut is_whole) = (BTreeSet::new(), Vec::new(), true);
        // Each with the call by which a function of the C library writes there.
        let mut todo: Vec<(Key, Option<Site>)> = todo.into_iter().map(|key| (key, None)).collect();
        while let Some((key, site)) = todo.pop().filter(|_| seen.len() < most) {
            if !seen.insert((key, site)) {
                continue;
            }
            let Some(paths) = self.walker.storing(&follow, key) else { continue };
            is_whole &= paths.is_complete;
            let of = |(at, stored): &(Addr, Stored)| {
                (site.unwrap_or(Site { function: key.0, at: *at }).stores(stored), *stored)
            };
            all.extend(paths.stored.iter().map(of));
            for call in paths.calls() {
                let Some(to) = passed(call, variable) else { continue };
                let Some(copies) = self.copies.get(&to.0) else {
                    todo.push((to, site));
                    continue;
                };
                let site = site.unwrap_or(Site { function: key.0, at: call.at });
                match copies.stores(call, variable) {
                    Some(stored) => all.extend(stored.map(|stored| (site.stores(&stored), stored))),
                    None => todo.push((to, Some(site))),
                }
            }
        }
        Stores { all, is_whole, is_cut: !todo.is_empty() || seen.len() >= most }
    }

    /// True where a path may lead on from an instruction of a function, behind a call in it, to a store, in that function or in one that
    /// it calls.
    pub fn may_come_to_store(&self, from: Addr, store: &Store) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let Some((paths, comes)) = self.walker.comes_to(&follow, from & !1, store.at) else { return false };
        let calls = |call: &Call| self.walker.effect(call).key.is_some_and(|key| self.leads_to(key, store.function));
        comes || paths.calls().any(calls)
    }

    /// True where a function may call another one that stores to a variable.
    pub fn calls_what_stores(&self, function: Addr, variable: Region) -> bool {
        let (stores, is_whole) = self.all_stores(variable);
        let is_in = |stored: &Stored| match stored.place {
            Value::Is(at) | Value::Near(at) => variable.contains(at.into()),
            _ => false,
        };
        let others: BTreeSet<Addr> = stores
            .iter()
            .filter(|(store, stored)| store.function != function && is_in(stored))
            .map(|(store, _)| store.function)
            .collect();
        !is_whole || others.into_iter().any(|other| self.leads_to((function, [Value::Unknown; 4]), other))
    }

    /// True for a function, and for one that calls it, also by way of others.
    fn leads_to(&self, key: Key, function: Addr) -> bool {
        let (mut todo, mut seen) = (vec![key], BTreeSet::new());
        while let Some(key) = todo.pop() {
            if key.0 == function {
                return true;
            }
            if seen.insert(key) {
                todo.extend(self.walker.of_function(key).functions.iter().copied());
            }
        }
        false
    }

    /// Who calls a function, after the kernel has started, as far as that is known.
    pub fn callers_of(&self, function: Addr) -> BTreeSet<User> {
        let mut all = self.all_callers_of(function);
        all.retain(|user| !matches!(user, User::Other(_)));
        all
    }

    /// The same, with functions of which it is not known who calls them.
    pub fn all_callers_of(&self, function: Addr) -> BTreeSet<User> {
        let users = self.users.iter().map(|(user, _)| *user).filter(|user| *user != User::Start);
        users.filter(|user| self.reached(*user).iter().any(|(at, _)| *at == function)).collect()
    }
}

/// The function that is passed an address in a variable, with that alone.
fn passed(call: &Call, variable: Region) -> Option<Key> {
    let kept = |value: Value| match value {
        Value::Is(at) | Value::Near(at) if variable.contains(at.into()) => value,
        _ => Value::Unknown,
    };
    let Callee::At(to) = call.to else { return None };
    let arguments = call.arguments.map(kept);
    (arguments != [Value::Unknown; 4]).then_some((to, arguments))
}
