//! Names with addresses that the user gives: `--symbol NAME=ADDR`.

use super::{Symbol, Symbols};
use crate::abi::Addr;

/// Names with run-time addresses: no load offset is added. Sizes are unknown.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    pairs: Vec<(String, Addr)>,
}

impl Pairs {
    /// Of several addresses of one name the first counts.
    pub const fn new(pairs: Vec<(String, Addr)>) -> Self {
        Self { pairs }
    }

    fn find(&self, wanted: impl Fn(&(String, Addr)) -> bool) -> Option<Symbol> {
        let (name, address) = self.pairs.iter().find(|pair| wanted(pair))?;
        Some(Symbol { name: name.clone(), address: *address, size: 0 })
    }
}

impl Symbols for Pairs {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.find(|(known, _)| known == name)
    }

    /// A name may be a variable or a function, so it is both. Without a size it covers its own address only.
    fn variable(&self, address: Addr) -> Option<Symbol> {
        self.find(|(_, known)| *known == address)
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        self.variable(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        let pairs = Pairs::new(vec![("a".to_owned(), 0x2000_0100), ("b".to_owned(), 16), ("a".to_owned(), 1)]);
        let at = |name| pairs.lookup(name).map(|s| s.address);
        assert_eq!((at("a"), at("b"), at("c")), (Some(0x2000_0100), Some(16), None));
        assert_eq!(pairs.variable(16).unwrap().name, "b");
        assert_eq!(pairs.function(16).unwrap().name, "b");
        assert_eq!(pairs.variable(17), None);
    }
}
