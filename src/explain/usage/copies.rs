//! Functions of the C library that write to where others have them write, as `memset`: what a call of one stores to a variable.

use std::collections::BTreeMap;

use super::super::Case;
use crate::abi::{Addr, Region};
use crate::cpu::{Call, Stored, Value};

/// The bytes of a word, and the most bytes of a variable that are looked at word by word.
const WORD: u64 = 4;
const LONGEST: u64 = 1 << 16;

/// Which argument of such a function is the number of bytes, and what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copies {
    len: usize,
    written: Written,
}

/// What such a function writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// What is elsewhere.
    Other,
    /// This argument, to each byte.
    Byte(usize),
    /// 0.
    Zero,
}

/// Such functions: those of C, and of the run-time ABI of the Arm architecture (RTABI, 4.3.4).
const COPIES: [(&str, Copies); 15] = [
    ("memcpy", Copies { len: 2, written: Written::Other }),
    ("memmove", Copies { len: 2, written: Written::Other }),
    ("memset", Copies { len: 2, written: Written::Byte(1) }),
    ("__aeabi_memcpy", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memmove", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memset", Copies { len: 1, written: Written::Byte(2) }),
    ("__aeabi_memclr", Copies { len: 1, written: Written::Zero }),
    // The same of what is aligned to 4 and 8 bytes.
    ("__aeabi_memcpy4", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memcpy8", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memmove4", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memmove8", Copies { len: 2, written: Written::Other }),
    ("__aeabi_memset4", Copies { len: 1, written: Written::Byte(2) }),
    ("__aeabi_memset8", Copies { len: 1, written: Written::Byte(2) }),
    ("__aeabi_memclr4", Copies { len: 1, written: Written::Zero }),
    ("__aeabi_memclr8", Copies { len: 1, written: Written::Zero }),
];

/// Those of a program, by their addresses.
pub(super) fn of(case: &Case<'_>) -> BTreeMap<Addr, Copies> {
    COPIES.iter().filter_map(|(name, of)| Some((case.look.symbol(name)?.address & !1, *of))).collect()
}

impl Copies {
    /// What a call writes to a variable, word by word; `None` where it is not known where, or how much.
    pub fn stores(self, call: &Call, variable: Region) -> Option<impl Iterator<Item = Stored> + use<>> {
        let argument = |n: usize| call.arguments.get(n).and_then(|value| value.known());
        self.words(argument(0)?, argument(self.len)?, &argument, variable)
    }

    fn words(
        self,
        start: u32,
        len: u32,
        argument: &dyn Fn(usize) -> Option<u32>,
        variable: Region,
    ) -> Option<impl Iterator<Item = Stored> + use<>> {
        let each = |byte: u32| Value::Is((byte & 0xFF).wrapping_mul(0x0101_0101));
        let value = match self.written {
            Written::Other => Value::Unknown,
            Written::Byte(n) => argument(n).map_or(Value::Unknown, each),
            Written::Zero => Value::Is(0),
        };
        let end = u64::from(start.checked_add(len)?);
        let before = variable.start.saturating_sub(start.into());
        // The words of the copy, of which some may lie in the variable.
        let from = u64::from(start).checked_add(before.saturating_sub(before % WORD))?;
        let len = end.min(variable.start.saturating_add(variable.len)).saturating_sub(from);
        if len > LONGEST {
            return None;
        }
        let places = (0..len.div_ceil(WORD)).map(move |n| from.saturating_add(n.saturating_mul(WORD)));
        let stored = move |at: u64| {
            let bytes = u8::try_from(end.saturating_sub(at).min(WORD)).ok()?;
            Some(Stored { place: Value::Is(u32::try_from(at).ok()?), value, bytes })
        };
        Some(places.filter_map(stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLE: Region = Region { start: 0x2000_0010, len: 8 };

    /// Where, what, and how many bytes.
    type Store = (Option<u32>, Option<u32>, u8);

    fn stores(name: &str, arguments: [u32; 3]) -> Option<Vec<Store>> {
        let (_, copies) = COPIES.iter().find(|(of, _)| *of == name).unwrap();
        let argument = |n: usize| arguments.get(n).copied();
        let words = copies.words(arguments[0], arguments[copies.len], &argument, VARIABLE)?;
        Some(words.map(|stored| (stored.place.known(), stored.value.known(), stored.bytes)).collect())
    }

    #[test]
    fn the_run_time_abi_of_arm_has_the_arguments_of_memset_the_other_way_round() {
        let both = Some(vec![(Some(0x2000_0010), Some(0xFFFF_FFFF), 4), (Some(0x2000_0014), Some(0xFFFF_FFFF), 2)]);
        assert_eq!(stores("memset", [0x2000_0010, 0xFF, 6]), both);
        assert_eq!(stores("__aeabi_memset", [0x2000_0010, 6, 0xFF]), both);
        assert_eq!(stores("memcpy", [0x2000_0010, 0x100, 4]), Some(vec![(Some(0x2000_0010), None, 4)]));
    }

    /// A length that is below 0 would be looked at word by word for a minute.
    #[test]
    fn of_a_long_copy_only_the_variable_counts() {
        let all = stores("__aeabi_memclr", [0x2000_0002, 0xDFFF_0000, 0]).unwrap();
        assert_eq!(all.iter().map(|(at, ..)| at.unwrap()).collect::<Vec<_>>(), [0x2000_000E, 0x2000_0012, 0x2000_0016]);
        assert_eq!(stores("memset", [0x2000_0002, 0, 0xFFFF_FFF0]), None, "it would end behind all memory");
        assert_eq!(stores("memset", [0x2000_0020, 0, 64]), Some(vec![]), "it is behind the variable");
        assert_eq!(stores("memset", [0x1FFF_FF00, 0, 64]), Some(vec![]), "it ends in front of it");
    }
}
