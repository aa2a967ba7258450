//! Variables that keep a user from what it would give: with what they hold now, no path leads to the call. With other values one may.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::stuck::Need;
use super::walk::{Follow, Key};
use super::{Usage, Use, User};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Program, Stored, Value, Variant};

/// The most words of memory that are known of one function.
const WORDS: usize = 16;
/// The most of them that are tried to be left out.
const MOST_TRIED: usize = 2 * WORDS;
/// Values that are tried in place of what a variable holds.
const OTHERS: [u32; 2] = [0, u32::MAX];
/// The most functions, from the call to its callers, that are looked at.
const LEVELS: usize = 3;

/// Words of memory with whose values a function does not come to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The function.
    pub function: Addr,
    /// The call.
    pub at: Addr,
    /// The words, at multiples of 4, and what they hold.
    pub words: BTreeMap<Addr, u32>,
    /// What the function accesses at addresses that are constants.
    pub used: BTreeSet<Addr>,
}

impl Guard {
    /// Where the function accesses the words, each with the word.
    pub fn places(&self) -> Vec<(Addr, u32)> {
        let of = |(word, value): (&Addr, &u32)| {
            let used: Vec<Addr> = self.used.range(*word..word.saturating_add(4)).copied().collect();
            let starts = if used.is_empty() { vec![*word] } else { used };
            starts.into_iter().map(|at| (at, *value)).collect::<Vec<_>>()
        };
        self.words.iter().flat_map(of).collect()
    }
}

/// So many bytes of a word, from one of them on, as a number.
pub fn part(word: u32, into: u64, bytes: u64) -> u32 {
    let bits = |bytes: u64| u32::try_from(bytes.min(4) << 3).unwrap_or_default();
    let mask = u32::MAX.checked_shr(u32::BITS.saturating_sub(bits(bytes))).unwrap_or_default();
    word.checked_shr(bits(into)).unwrap_or_default() & mask
}

/// Memory of which some words are known.
struct Known<'w, 'c> {
    follow: Follow<'w, 'c>,
    /// The word at an address, where it is known.
    word: &'w dyn Fn(Addr) -> Option<u32>,
    /// Those that are not to be known.
    without: BTreeSet<Addr>,
    /// Those that were read.
    read: RefCell<BTreeMap<Addr, u32>>,
}

impl Variant for Known<'_, '_> {
    fn follow(&self) -> &dyn Program {
        &self.follow
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        if let Some(constant) = self.follow.constant(at) {
            return Some(constant);
        }
        let mut read = self.read.try_borrow_mut().ok().filter(|_| at & 3 == 0 && !self.without.contains(&at))?;
        if let Some(word) = read.get(&at) {
            return Some(*word);
        }
        let word = if read.len() < WORDS { (self.word)(at)? } else { return None };
        read.insert(at, word);
        Some(word)
    }
}

/// The word at an address, where it stays as it is: by the function that reads it.
pub type Word<'a> = dyn Fn(Addr, Addr) -> Option<u32> + 'a;

/// The most times that functions are followed for one object.
const WALKS: usize = 256;

/// What is looked for.
#[derive(Clone, Copy)]
struct Calls<'a> {
    is_call: &'a dyn Fn(&Call) -> bool,
    word: &'a Word<'a>,
    /// True where it does not matter what a function stores behind its last load: only this moment counts.
    is_now: bool,
    /// How often functions were followed.
    walks: &'a Cell<usize>,
}

impl Usage<'_> {
    /// What keeps each function of these users that gives what is needed from doing so; `None` where nothing keeps one of them. `word`: a
    /// word of memory that stays as it is, for a function that reads it. `is_now`: for this moment alone, so that what a function stores
    /// behind its last load does not matter.
    pub fn guards(&self, need: &Need, users: &[User], word: &Word<'_>, is_now: bool) -> Option<Vec<Guard>> {
        let gives = |one: &Use| {
            let is_wanted = one.flags.map(u64::from).zip(need.wanted).is_none_or(|(flags, wanted)| flags & wanted != 0);
            one.action.act == need.act
                && one.action.kind == Some(need.kind)
                && one.object == Some(need.object)
                && is_wanted
        };
        let reached: BTreeSet<Key> = users.iter().flat_map(|user| self.reached(*user)).collect();
        let is_call = |call: &Call| self.walker.action(call).is_some_and(|one| gives(&one));
        let givers: Vec<Key> =
            reached.iter().filter(|key| self.walker.of_function(**key).own.iter().any(gives)).copied().collect();
        let (mut all, walks) = (Vec::new(), Cell::new(0));
        for giver in givers {
            all.extend(self.guards_of(
                giver,
                &Calls { is_call: &is_call, word, is_now, walks: &walks },
                &reached,
                LEVELS,
            )?);
        }
        Some(all).filter(|all| !all.is_empty())
    }

    /// What keeps one function, or all that call it.
    fn guards_of(&self, key: Key, calls: &Calls<'_>, reached: &BTreeSet<Key>, levels: usize) -> Option<Vec<Guard>> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let paths = self.walker.paths(&follow, key).filter(|paths| paths.is_complete)?;
        let at = paths.calls().find(|call| (calls.is_call)(call))?.at;
        let used: BTreeSet<Addr> = paths.used.iter().copied().map(Addr::from).collect();
        if let Some(words) = self.kept_by(key, calls) {
            return Some(vec![Guard { function: key.0, at, words, used }]);
        }
        let levels = levels.checked_sub(1).filter(|levels| *levels > 0)?;
        let calls_it = |caller: &&Key| self.walker.of_function(**caller).functions.contains(&key);
        let callers: Vec<Key> = reached.iter().filter(calls_it).filter(|caller| **caller != key).copied().collect();
        // Who runs it by itself is kept by nothing.
        let is_root = self.users.iter().any(|(_, summary)| summary.key == Some(key));
        if callers.is_empty() || is_root {
            return None;
        }
        let is_call = |call: &Call| call.to == Callee::At(key.0);
        let mut all = Vec::new();
        for caller in callers {
            all.extend(self.guards_of(caller, &Calls { is_call: &is_call, ..*calls }, reached, levels)?);
        }
        Some(all)
    }

    /// The words that keep a function from its calls: no more than are needed for that.
    fn kept_by(&self, key: Key, calls: &Calls<'_>) -> Option<BTreeMap<Addr, u32>> {
        let word = |at: Addr| (calls.word)(key.0, at);
        let mut without = BTreeSet::new();
        let mut words = loop {
            let (read, changed) = self.known_paths(key, calls, &word, &without)?;
            match changed {
                None => break read,
                // What it changes itself in front of the call is not known there.
                Some(changed) if without.insert(changed) && without.len() < WORDS => {}
                Some(_) => return None,
            }
        };
        let mut tried = BTreeSet::new();
        // Without one of them others may be read.
        while let Some(at) = words.keys().copied().find(|at| tried.len() < MOST_TRIED && !tried.contains(at)) {
            tried.insert(at);
            without.insert(at);
            match self.known_paths(key, calls, &word, &without) {
                Some((read, None)) => words = read,
                _ => _ = without.remove(&at),
            }
        }
        Some(words).filter(|words| !words.is_empty())
    }

    /// Follows a function with all words known but these: those that it reads, and one that it changes; `None` where a path leads to one
    /// of the calls.
    fn known_paths(
        &self,
        key: Key,
        calls: &Calls<'_>,
        word: &dyn Fn(Addr) -> Option<u32>,
        without: &BTreeSet<Addr>,
    ) -> Option<(BTreeMap<Addr, u32>, Option<Addr>)> {
        calls.walks.set(calls.walks.get().saturating_add(1));
        let follow = Follow { walker: &self.walker, succeeds: false };
        let known = Known { follow, word, without: without.clone(), read: RefCell::default() };
        let paths = self.walker.storing(&known, key).filter(|paths| paths.is_complete && calls.walks.get() < WALKS)?;
        let read = known.read.into_inner();
        // For a moment, what a function stores behind the last load does not matter.
        let matters = |at: Addr, word: Addr| {
            let later = |(load, place): &(Addr, u32)| *load > at && Addr::from(*place) & !3 == word;
            !calls.is_now || paths.has_round() || paths.accesses.iter().any(later)
        };
        let changed =
            paths.stored.iter().find_map(|(at, stored)| changed(stored, &read).filter(|word| matters(*at, *word)));
        (changed.is_some() || !paths.calls().any(calls.is_call)).then_some((read, changed))
    }

    /// The variables that decide whether a function comes to the call in front of a return address, each with the word that it is in: with
    /// one of the other values that are tried it does not. `len`: bytes of the variable's part at an address.
    pub fn deciding(
        &self,
        function: Addr,
        back: Addr,
        word: &dyn Fn(Addr) -> Option<u32>,
        len: &dyn Fn(Addr) -> u64,
    ) -> Vec<(Addr, u32)> {
        let key = (function, [Value::Unknown; 4]);
        let follow = Follow { walker: &self.walker, succeeds: false };
        let Some(paths) = self.walker.paths(&follow, key).filter(|paths| paths.is_complete) else { return Vec::new() };
        let is_it = |call: &Call| back.checked_sub(call.at).is_some_and(|len| matches!(len, 2 | 4));
        let comes = |at: Addr, value: u32| {
            let follow = Follow { walker: &self.walker, succeeds: false };
            let one = |asked: Addr| (asked == at).then_some(value);
            let known = Known { follow, word: &one, without: BTreeSet::new(), read: RefCell::default() };
            let paths = self.walker.paths(&known, key);
            paths.is_none_or(|paths| !paths.is_complete || paths.calls().any(is_it))
        };
        let decides = |place: &u32| {
            let place = Addr::from(*place);
            let value = word(place & !3)?;
            let mask = u64::from(part(u32::MAX, 0, len(place)));
            let mask = u32::try_from(mask.checked_shl(u32::try_from((place & 3) << 3).ok()?)? & 0xFFFF_FFFF).ok()?;
            let with = |other: u32| value & !mask | other & mask;
            let is_so = comes(place & !3, value) && OTHERS.iter().any(|other| !comes(place & !3, with(*other)));
            is_so.then_some((place, value))
        };
        paths.used.iter().take(WORDS).filter_map(decides).collect()
    }

    /// The word of memory that a function passes as it is as the first argument of the call in front of a return address.
    pub fn passed_from(&self, function: Addr, back: Addr) -> Option<Addr> {
        /// Any number that no code passes by chance.
        const SOME: u32 = 0x5A17_C0DE;
        let key = (function, [Value::Unknown; 4]);
        let follow = || Follow { walker: &self.walker, succeeds: false };
        let used = self.walker.paths(&follow(), key).filter(|paths| paths.is_complete)?.used;
        let passes = |place: &Addr| {
            let word = |asked: Addr| (asked == *place).then_some(SOME);
            let known = Known { follow: follow(), word: &word, without: BTreeSet::new(), read: RefCell::default() };
            let is_it = |call: &&Call| back.checked_sub(call.at).is_some_and(|len| matches!(len, 2 | 4));
            let is_passed = |call: &Call| call.arguments.first().and_then(|first| first.known()) == Some(SOME);
            // On all paths: another variable may be the one.
            self.walker.paths(&known, key).is_some_and(|paths| {
                let mut calls = paths.calls().filter(is_it).peekable();
                paths.is_complete && calls.peek().is_some() && calls.all(is_passed)
            })
        };
        used.into_iter().map(Addr::from).filter(|place| place & 3 == 0).take(WORDS).find(passes)
    }

    /// True where a path may lead on from an instruction of a function, behind a call in it, to the call that a guard keeps it from.
    pub fn may_come_to(&self, guard: &Guard, from: Addr) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let word = |at: Addr| guard.words.get(&at).copied();
        let known = Known { follow, word: &word, without: BTreeSet::new(), read: RefCell::default() };
        let found = self.walker.comes_to(&known, from & !1, guard.at);
        found.is_none_or(|(paths, comes)| !paths.is_complete || comes)
    }
}

/// The word that a store changes, of those that are known.
fn changed(stored: &Stored, known: &BTreeMap<Addr, u32>) -> Option<Addr> {
    let (place, is_exact) = match stored.place {
        Value::Is(place) => (Addr::from(place), true),
        Value::Near(place) => (Addr::from(place), false),
        _ => return None,
    };
    let bytes = u64::from(stored.bytes);
    let over = known.range(place & !3..place.saturating_add(bytes));
    let is_same = |(at, word): &(&Addr, &u32)| {
        let value = stored.value.known().filter(|_| is_exact && bytes <= 4);
        let into = place.saturating_sub(**at);
        value.is_some_and(|value| part(value, 0, bytes) == part(**word, into, bytes))
    };
    over.into_iter().find(|one| !is_same(one)).map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_word() {
        assert_eq!(
            [part(0x1234_5678, 0, 4), part(0x1234_5678, 1, 1), part(0x1234_5678, 2, 2)],
            [0x1234_5678, 0x56, 0x1234]
        );
        assert_eq!((part(0x1234_5678, 0, 0), part(0x1234_5678, 4, 1)), (0, 0));
    }

    #[test]
    fn what_a_store_changes() {
        let known = BTreeMap::from([(0x100, 0x0102_0304), (0x104, 7)]);
        let of = |place, value, bytes| changed(&Stored { place, value, bytes }, &known);
        assert_eq!(of(Value::Is(0x101), Value::Is(3), 1), None, "it holds that already");
        assert_eq!(of(Value::Is(0x101), Value::Is(0x103), 1), None, "a byte of it is stored");
        assert_eq!(of(Value::Is(0x101), Value::Is(4), 1), Some(0x100));
        assert_eq!(of(Value::Is(0x104), Value::Unknown, 4), Some(0x104));
        assert_eq!(of(Value::Is(0x108), Value::Unknown, 4), None, "another word");
        assert_eq!(of(Value::Near(0x104), Value::Is(7), 4), Some(0x104), "perhaps another element");
        assert_eq!(of(Value::Frame(4), Value::Unknown, 4), None);
    }
}
