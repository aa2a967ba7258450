//! What the components of a kernel count, as data: which event feeds a counter, and how.

use std::sync::OnceLock;

use super::table::{number, rows};
use crate::report::Term;

/// A counter that an event feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The report that contains it.
    pub report: Term,
    /// What programs and people call it.
    pub term: Term,
    /// The event's name.
    pub event: &'static str,
    /// What an event adds.
    pub adds: Adds,
}

/// The reports of counters.
const REPORTS: [Term; 2] = [Term::new("filex", "FileX"), Term::new("netx", "NetX")];

/// What an event adds to a counter. Words are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adds {
    /// One.
    One,
    /// What this word holds.
    Word(usize),
    /// One where these bits of a word hold this value, or do not.
    If {
        /// The word.
        word: usize,
        /// Its bits.
        mask: u64,
        /// The value.
        value: u64,
        /// True where the value must be there, false where another.
        is: bool,
    },
}

impl Adds {
    /// What an event with these words adds; `None` where it lacks the word, or the word is `doubtful` (bit n for word
    /// n).
    pub fn of(self, words: &[u64], doubtful: u8) -> Option<u64> {
        let word = |n: usize| {
            let sound = doubtful.checked_shr(n as u32).is_none_or(|bits| bits & 1 == 0);
            words.get(n).copied().filter(|_| sound)
        };
        match self {
            Self::One => Some(1),
            Self::Word(n) => word(n),
            Self::If { word: n, mask, value, is } => Some(u64::from((word(n)? & mask == value) == is)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let place = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
        if text == "count" {
            return Some(Self::One);
        }
        if let Some(word) = text.strip_prefix("sum ") {
            return place(word).map(Self::Word);
        }
        let (left, value) = text.strip_prefix("count ")?.split_once('=')?;
        let (left, is) = left.strip_suffix('!').map_or((left, true), |l| (l, false));
        let (word, mask) = match left.split_once('&') {
            Some((word, mask)) => (word, number(mask)?),
            None => (left, u64::MAX),
        };
        Some(Self::If { word: place(word)?, mask, value: number(value)?, is })
    }
}

/// Every counter, in the order in which reports list them.
pub fn counters() -> &'static [Counter] {
    static ALL: OnceLock<Vec<Counter>> = OnceLock::new();
    ALL.get_or_init(|| rows(include_str!("counters.tsv")).filter_map(|r| read(&r)).collect())
}

fn read(row: &[&'static str]) -> Option<Counter> {
    let [report, name, title, event, how] = row else { return None };
    let report = REPORTS.into_iter().find(|r| r.name == *report)?;
    Some(Counter { report, term: Term { name, title }, event, adds: Adds::parse(how)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Catalogue, Names};

    #[test]
    fn every_row_is_read_and_its_event_is_there() {
        assert_eq!(rows(include_str!("counters.tsv")).count(), counters().len());
        let count = |report| counters().iter().filter(|c| c.report.name == report).count();
        assert_eq!((count("filex"), count("netx")), (14, 24));
        for names in [Names::Duo, Names::Classic] {
            let all = Catalogue::threadx(names);
            for c in counters() {
                let def = all.named(c.event).unwrap_or_else(|| panic!("no event {}", c.event));
                if let Adds::Word(n) = c.adds {
                    assert!(def.field(n).is_some(), "{}", c.term.name);
                }
            }
        }
    }

    #[test]
    fn what_an_event_adds() {
        let words = [1, 0xAAAA_AAAA, 30, 0x12_0000];
        assert_eq!(Adds::parse("count").unwrap().of(&words, 0xFF), Some(1));
        assert_eq!(Adds::parse("sum 3").unwrap().of(&words, 0b1011), Some(30));
        assert_eq!(Adds::parse("sum 3").unwrap().of(&words, 0b0100), None);
        assert_eq!(Adds::parse("sum 5").unwrap().of(&words, 0), None);
        assert_eq!(Adds::parse("count 2!=0xAAAAAAAA").unwrap().of(&words, 0), Some(0));
        assert_eq!(Adds::parse("count 3!=0xAAAAAAAA").unwrap().of(&words, 0), Some(1));
        assert_eq!(Adds::parse("count 4&0xFFFF=0").unwrap().of(&words, 0), Some(1));
        assert_eq!(Adds::parse("count 4&0xFFFF0000=0").unwrap().of(&words, 0), Some(0));
        assert_eq!((Adds::parse("sum 0"), Adds::parse("mean 3"), Adds::parse("count 3")), (None, None, None));
    }
}
