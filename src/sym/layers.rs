//! Several sources of names as one.

use std::sync::Arc;

use super::{ArrayMember, ArrayPlace, Member, Symbol, Symbols};
use crate::abi::Addr;

/// Asks one source after the other; the first that knows a name gives it. What the user typed comes first.
#[derive(Clone, Default)]
pub struct Layers {
    sources: Vec<Arc<dyn Symbols>>,
}

impl Layers {
    /// No names at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source that is asked after all others.
    #[must_use]
    pub fn then(mut self, source: Arc<dyn Symbols>) -> Self {
        self.sources.push(source);
        self
    }
}

impl Symbols for Layers {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.lookup(name))
    }

    fn variable(&self, address: Addr) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.variable(address))
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.function(address))
    }

    fn constants(&self) -> Vec<Symbol> {
        self.sources.iter().map(|s| s.constants()).find(|all| !all.is_empty()).unwrap_or_default()
    }

    fn source_line(&self, address: Addr) -> Option<String> {
        self.sources.iter().find_map(|s| s.source_line(address))
    }

    fn inlined(&self, address: Addr) -> Vec<(String, Option<String>)> {
        self.sources.iter().map(|s| s.inlined(address)).find(|all| !all.is_empty()).unwrap_or_default()
    }

    fn exception(&self, number: u32) -> Option<String> {
        self.sources.iter().find_map(|s| s.exception(number))
    }

    fn handlers(&self) -> Vec<(u32, Addr)> {
        self.sources.iter().map(|s| s.handlers()).find(|all| !all.is_empty()).unwrap_or_default()
    }

    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        self.sources.iter().find_map(|s| s.member_offset(type_name, member))
    }

    // Of the source whose variable it is: another one may have another variable there.
    fn member(&self, address: Addr) -> Option<Member> {
        self.sources.iter().find(|s| s.variable(address).is_some())?.member(address)
    }

    fn array_behind(&self, address: Addr) -> Option<ArrayMember> {
        self.sources.iter().find(|source| source.variable(address).is_some())?.array_behind(address)
    }

    fn returns_nothing(&self, address: Addr) -> bool {
        let owns = |s: &&Arc<dyn Symbols>| s.function(address).is_some();
        self.sources.iter().find(owns).is_some_and(|s| s.returns_nothing(address))
    }

    fn arrays_at(&self, address: Addr) -> Vec<ArrayPlace> {
        let owns = |s: &&Arc<dyn Symbols>| s.variable(address).is_some();
        self.sources.iter().find(owns).map(|s| s.arrays_at(address)).unwrap_or_default()
    }

    fn arrays_before(&self, address: Addr) -> Vec<ArrayMember> {
        let owns = |s: &&Arc<dyn Symbols>| address.checked_sub(1).is_some_and(|last| s.variable(last).is_some());
        self.sources.iter().find(owns).map(|s| s.arrays_before(address)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sym::{NoSymbols, Pairs};

    #[test]
    fn the_first_that_knows_answers() {
        let first = Pairs::new(vec![("a".to_owned(), 1)]);
        let second = Pairs::new(vec![("a".to_owned(), 2), ("b".to_owned(), 3)]);
        let all = Layers::new().then(Arc::new(NoSymbols)).then(Arc::new(first)).then(Arc::new(second));
        let at = |name| all.lookup(name).map(|s| s.address);
        assert_eq!((at("a"), at("b"), at("c")), (Some(1), Some(3), None));
        assert_eq!(all.variable(3).unwrap().name, "b");
        assert_eq!(all.member_offset("T", "m"), None);
    }
}
