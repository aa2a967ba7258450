//! Several sources of names as one.

use std::sync::Arc;

use super::{Symbol, Symbols};
use crate::abi::Addr;

/// Asks one source after the other; the first that knows answers. What the user typed goes first.
#[derive(Clone, Default)]
pub struct Layers {
    sources: Vec<Arc<dyn Symbols>>,
}

impl Layers {
    /// No names at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `source` behind all that are there.
    #[must_use]
    pub fn then(mut self, source: impl Symbols + 'static) -> Self {
        self.sources.push(Arc::new(source));
        self
    }
}

impl Symbols for Layers {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.lookup(name))
    }

    fn covering(&self, address: Addr) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.covering(address))
    }

    fn variable(&self, address: Addr) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.variable(address))
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        self.sources.iter().find_map(|s| s.function(address))
    }

    fn exception(&self, number: u32) -> Option<String> {
        self.sources.iter().find_map(|s| s.exception(number))
    }

    fn member_offset(&self, type_name: &str, member: &str) -> Option<u64> {
        self.sources.iter().find_map(|s| s.member_offset(type_name, member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sym::NoSymbols;
    use crate::sym::pairs::Pairs;

    #[test]
    fn the_first_that_knows_answers() {
        let first = Pairs::parse(["a=1"]).unwrap();
        let second = Pairs::parse(["a=2", "b=3"]).unwrap();
        let all = Layers::new().then(NoSymbols).then(first).then(second);
        let at = |name| all.lookup(name).map(|s| s.address);
        assert_eq!((at("a"), at("b"), at("c")), (Some(1), Some(3), None));
        assert_eq!(all.covering(3).unwrap().name, "b");
        assert_eq!(all.member_offset("T", "m"), None);
    }
}
