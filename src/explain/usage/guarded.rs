//! Variables that keep a user from what it would give: with what they hold now, no path leads to the call. With any other value one may.

use std::collections::{BTreeMap, BTreeSet};

use super::stuck::Need;
use super::walk::{Follow, Key};
use super::{Store, Usage, Use, User};
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Callee, InstructionSet, Outcome, Program, Stored, Value};

/// The most words of memory of one function that are tried.
const WORDS: usize = 32;
/// The most functions, from the call to its callers, that are looked at.
const LEVELS: usize = 3;

/// A word of memory with whose value a function does not come to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The function.
    pub function: Addr,
    /// The call.
    pub at: Addr,
    /// What the function accesses within the word.
    pub places: Vec<Addr>,
    word: Addr,
    value: u32,
}

impl Guard {
    /// What is at one of its places, up to the next one or the end of the word, as a number.
    pub fn value_at(&self, place: Addr) -> u32 {
        let end = self.word.saturating_add(4);
        let next = self.places.iter().copied().find(|other| *other > place).unwrap_or(end);
        self.value_of(place, next.saturating_sub(place))
    }
}

/// Memory where one word is known.
struct Known<'w, 'c> {
    follow: Follow<'w, 'c>,
    word: Addr,
    value: u32,
}

impl Program for Known<'_, '_> {
    fn instructions(&self) -> InstructionSet {
        self.follow.instructions()
    }

    fn global_pointer(&self) -> Option<u32> {
        self.follow.global_pointer()
    }

    fn code(&self, at: Addr) -> Option<u16> {
        self.follow.code(at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        if at == self.word { Some(self.value) } else { self.follow.constant(at) }
    }

    fn outcome(&self, call: &Call) -> Outcome {
        self.follow.outcome(call)
    }
}

impl Usage<'_> {
    /// For each function of these users that gives what is needed, the words that keep it from that: one of several is enough. `None`
    /// where nothing keeps one of them. `word`: a word of memory that the program writes.
    pub fn guards(
        &self,
        need: &Need,
        users: &[User],
        word: &dyn Fn(Addr) -> Option<u32>,
    ) -> Option<Vec<Vec<Guard>>> {
        let gives = |one: &Use| {
            let is_wanted =
                one.flags.map(u64::from).zip(need.wanted).is_none_or(|(flags, wanted)| flags & wanted != 0);
            one.action.act == need.act
                && one.action.kind == Some(need.kind)
                && one.object == Some(need.object)
                && is_wanted
        };
        let reached: BTreeSet<Key> = users.iter().flat_map(|user| self.reached(*user)).collect();
        let is_call = |call: &Call| self.walker.action(call).is_some_and(|one| gives(&one));
        let givers: Vec<Key> =
            reached.iter().filter(|key| self.walker.of_function(**key).own.iter().any(gives)).copied().collect();
        if givers.is_empty() {
            return None;
        }
        let mut all = Vec::new();
        for giver in givers {
            all.extend(self.guards_of(giver, &is_call, &reached, word, LEVELS)?);
        }
        Some(all)
    }

    /// Those of one function, or of all that call it.
    fn guards_of(
        &self,
        key: Key,
        is_call: &dyn Fn(&Call) -> bool,
        reached: &BTreeSet<Key>,
        word: &dyn Fn(Addr) -> Option<u32>,
        levels: usize,
    ) -> Option<Vec<Vec<Guard>>> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let paths = self.walker.paths(&follow, key).filter(|paths| paths.is_complete)?;
        let at = paths.calls().find(|call| is_call(call))?.at;
        let mut words: BTreeMap<Addr, Vec<Addr>> = BTreeMap::new();
        for place in paths.used.iter().copied().map(Addr::from) {
            words.entry(place & !3).or_default().push(place);
        }
        let guard = |(at_word, places): (Addr, Vec<Addr>)| {
            let guard = Guard { function: key.0, at, places, word: at_word, value: word(at_word)? };
            self.keeps_from(&guard, key, is_call).then_some(guard)
        };
        let own: Vec<Guard> = words.into_iter().take(WORDS).filter_map(guard).collect();
        if !own.is_empty() {
            return Some(vec![own]);
        }
        let levels = levels.checked_sub(1)?;
        let calls = |caller: &&Key| self.walker.of_function(**caller).functions.contains(&key);
        let callers: Vec<Key> = reached.iter().filter(calls).filter(|caller| **caller != key).copied().collect();
        // Who runs it by itself is kept by nothing.
        let is_root = self.users.iter().any(|(_, summary)| summary.key == Some(key));
        if callers.is_empty() || is_root || levels == 0 {
            return None;
        }
        let is_call = |call: &Call| call.to == Callee::At(key.0);
        let mut all = Vec::new();
        for caller in callers {
            all.extend(self.guards_of(caller, &is_call, reached, word, levels)?);
        }
        Some(all)
    }

    /// True where with the value of the word no path of a function leads to such a call, nor to a store of another value to the word.
    fn keeps_from(&self, guard: &Guard, key: Key, is_call: &dyn Fn(&Call) -> bool) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let known = Known { follow, word: guard.word, value: guard.value };
        let Some(paths) = self.walker.storing(&known, key) else { return false };
        let is_changed = paths.stored.iter().any(|(_, stored)| match stored.place {
            Value::Is(place) => guard.is_over(place.into(), stored.bytes.into()) && !guard.holds(stored, place.into()),
            Value::Near(place) => guard.is_over(place.into(), stored.bytes.into()),
            _ => false,
        });
        paths.is_complete && !is_changed && !paths.calls().any(is_call)
    }

    /// True where a path may lead on from an instruction of a function, behind a call in it, to the call that a guard keeps it from.
    pub fn may_come_to(&self, guard: &Guard, from: Addr) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let known = Known { follow, word: guard.word, value: guard.value };
        let paths = self.walker.paths(&known, (from & !1, [Value::Unknown; 4]));
        paths.is_none_or(|paths| !paths.is_complete || paths.calls().any(|call| call.at == guard.at))
    }

    /// The stores that change what a guard holds, each with who comes there, but those of the function that it keeps from its call:
    /// `None` where it is not known who comes to one.
    pub fn changes(&self, guard: &Guard, variable: Region) -> Option<BTreeMap<Store, BTreeSet<User>>> {
        let mut all = BTreeMap::new();
        for place in &guard.places {
            let is_same = |store: &Store| store.value == Some(guard.value_at(*place));
            let stores = self.stores(*place, variable, &|at| at == *place);
            for store in stores.into_iter().filter(|store| store.function != guard.function && !is_same(store)) {
                let users = self.all_callers_of(store.function);
                if users.iter().any(|user| matches!(user, User::Other(_))) {
                    return None;
                }
                all.insert(store, users);
            }
        }
        Some(all)
    }
}

impl Guard {
    /// True where a store covers some of what the function accesses.
    fn is_over(&self, place: Addr, bytes: u64) -> bool {
        self.places.iter().any(|own| own.checked_sub(place).is_some_and(|into| into < bytes))
    }

    /// True where the word holds already what is stored there.
    fn holds(&self, stored: &Stored, place: Addr) -> bool {
        let is_same = |value: u32| match stored.bytes {
            4 => value == self.value && place == self.word,
            bytes => value & mask(bytes.into()) == self.value_of(place, bytes.into()),
        };
        stored.value.known().is_some_and(is_same)
    }

    /// So many bytes of the word, at an address in it, as a number.
    fn value_of(&self, place: Addr, bytes: u64) -> u32 {
        self.value.checked_shr(bits(place.saturating_sub(self.word))).unwrap_or_default() & mask(bytes)
    }
}

/// The bits of so many bytes of a word.
fn bits(bytes: u64) -> u32 {
    u32::try_from(bytes.min(4) << 3).unwrap_or_default()
}

/// Those that are set in all of them.
fn mask(bytes: u64) -> u32 {
    u32::MAX.checked_shr(u32::BITS.saturating_sub(bits(bytes))).unwrap_or_default()
}
