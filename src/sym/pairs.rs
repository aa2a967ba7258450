//! Names that the user told: `--symbol NAME=ADDR`.

use super::{Symbol, Symbols};
use crate::abi::Addr;
use crate::mem::image::{NumberError, parse_number};

/// Text that is no `NAME=ADDR`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// No `=`, or nothing before it.
    #[error("'{0}' is not NAME=ADDR: write _tx_trace_header_ptr=0x20000100")]
    Shape(String),
    /// The address is none.
    #[error("in '{text}': {error}")]
    Address {
        /// What was typed.
        text: String,
        /// What is wrong with its address.
        error: NumberError,
    },
    /// One name, two addresses.
    #[error("{name} is given twice, as {first:#x} and as {second:#x}")]
    Twice {
        /// The name.
        name: String,
        /// Its first address.
        first: Addr,
        /// The other one.
        second: Addr,
    },
}

/// Names and addresses as told. Run-time addresses: no load offset is added. Sizes are unknown.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    pairs: Vec<(String, Addr)>,
}

impl Pairs {
    /// Takes names whose addresses are numbers already.
    #[must_use]
    pub const fn new(pairs: Vec<(String, Addr)>) -> Self {
        Self { pairs }
    }

    /// Takes each `NAME=ADDR` (hexadecimal behind `0x`, else decimal). Spaces around either part are dropped.
    ///
    /// # Errors
    /// When one has another shape, its address is no number of 64 bits, or a name has two addresses.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, PairError> {
        let mut all = Self::default();
        for text in texts {
            // A name may hold `=` (an operator of C++), an address may not.
            let (name, addr) = text.rsplit_once('=').ok_or_else(|| PairError::Shape(text.to_owned()))?;
            let name = name.trim();
            if name.is_empty() {
                return Err(PairError::Shape(text.to_owned()));
            }
            let addr =
                parse_number(addr.trim()).map_err(|error| PairError::Address { text: text.to_owned(), error })?;
            match all.find(name) {
                Some(first) if first != addr => {
                    return Err(PairError::Twice { name: name.to_owned(), first, second: addr });
                }
                Some(_) => {}
                None => all.pairs.push((name.to_owned(), addr)),
            }
        }
        Ok(all)
    }

    fn find(&self, name: &str) -> Option<Addr> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, addr)| *addr)
    }

    /// True where nothing was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All that was told.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Addr)> + '_ {
        self.pairs.iter().map(|(name, addr)| (name.as_str(), *addr))
    }
}

impl Symbols for Pairs {
    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.find(name).map(|address| Symbol { name: name.to_owned(), address, size: 0 })
    }

    /// Without a size a name covers its own address and nothing else.
    fn covering(&self, address: Addr) -> Option<Symbol> {
        let (name, _) = self.pairs.iter().find(|(_, addr)| *addr == address)?;
        Some(Symbol { name: name.clone(), address, size: 0 })
    }

    /// What is told is not told to be a variable or a function: it is what it is asked for.
    fn variable(&self, address: Addr) -> Option<Symbol> {
        self.covering(address)
    }

    fn function(&self, address: Addr) -> Option<Symbol> {
        self.covering(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        let pairs = Pairs::parse(["a=0x20000100", " b = 16 ", "operator==1", "a=0x20000100"]).unwrap();
        let at = |name| pairs.lookup(name).map(|s| s.address);
        assert_eq!((at("a"), at("b"), at("operator="), at("c")), (Some(0x2000_0100), Some(16), Some(1), None));
        assert_eq!(pairs.covering(16).unwrap().name, "b");
        assert_eq!(pairs.covering(17), None);
        assert_eq!(pairs.iter().count(), 3);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let text = |t: &[&str]| Pairs::parse(t.iter().copied()).unwrap_err().to_string();
        assert_eq!(text(&["a"]), "'a' is not NAME=ADDR: write _tx_trace_header_ptr=0x20000100");
        assert!(text(&["=0x10"]).starts_with("'=0x10' is not NAME=ADDR"));
        assert!(text(&["a=20000100h"]).starts_with("in 'a=20000100h': '20000100h' is not a number"));
        assert!(text(&["a="]).contains("not a number"));
        assert_eq!(text(&["a=1", "a=2"]), "a is given twice, as 0x1 and as 0x2");
    }
}
