//! How deep the calls of a user go, by the code.

use std::collections::BTreeMap;

use super::walk::Key;
use super::{Addr, Usage, User};

/// The longest chain of calls that is followed.
const LONGEST: usize = 64;

/// The chain of calls that needs the most of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deepest {
    /// Bytes of all its frames.
    pub bytes: u64,
    /// Where its functions begin, the innermost first, each with the bytes of its frame.
    pub functions: Vec<(Addr, u64)>,
}

impl Usage<'_> {
    /// The chain of calls of a user that needs the most of its stack. `frame`: the bytes of a function's frame. A function that calls itself
    /// counts once: how often it does so is not known. What the kernel needs is not among them.
    pub fn deepest(&self, user: User, frame: &dyn Fn(Addr) -> u64) -> Deepest {
        let of = self.users.iter().filter(|(other, _)| *other == user).filter_map(|(_, summary)| summary.key);
        let (mut known, mut under_way) = (BTreeMap::new(), Vec::new());
        of.map(|key| self.below(key, frame, &mut known, &mut under_way)).max().unwrap_or_default()
    }

    fn below(
        &self,
        key: Key,
        frame: &dyn Fn(Addr) -> u64,
        known: &mut BTreeMap<Key, Deepest>,
        under_way: &mut Vec<Key>,
    ) -> Deepest {
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        if under_way.contains(&key) || under_way.len() >= LONGEST {
            return Deepest::default();
        }
        under_way.push(key);
        let called = self.walker.of_function(key);
        let all = called.functions.iter().map(|inner| self.below(*inner, frame, known, under_way));
        let mut deepest = all.max().unwrap_or_default();
        under_way.pop();
        let own = frame(key.0);
        deepest.bytes = deepest.bytes.saturating_add(own);
        deepest.functions.push((key.0, own));
        known.insert(key, deepest.clone());
        deepest
    }
}
