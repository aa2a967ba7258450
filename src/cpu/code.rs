//! Where a program's code is: an address elsewhere is no return address.

use crate::abi::{Addr, Region, join};
use crate::elf::{Elf, PF_X, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR};

/// The most ranges that are kept.
const MAX_RANGES: usize = 1024;

/// The ranges of memory that hold a program's code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeRanges {
    /// First and last address of each, in order; empty where they are not known.
    ranges: Vec<(Addr, Addr)>,
}

impl CodeRanges {
    /// The executable sections of a program that was loaded `offset` bytes above its own addresses; of one without
    /// sections, its executable segments.
    pub fn of(elf: &Elf, offset: u64) -> Self {
        let flags = SHF_ALLOC | SHF_EXECINSTR;
        let sections = elf.sections().filter(|s| s.flags & flags == flags).map(|s| (s.addr, s.size));
        let mut all: Vec<(Addr, u64)> = sections.filter(|(_, size)| *size > 0).collect();
        if all.is_empty() {
            let segments = elf.segments().filter(|s| s.kind == PT_LOAD && s.flags & PF_X != 0 && s.memsz > 0);
            all = segments.map(|s| (s.vaddr, s.memsz)).collect();
        }
        // What passes the end of the address space is none of the program's code.
        let moved = |(start, len): (Addr, u64)| {
            let start = elf.width().moved(start, offset);
            Some((start, Region { start, len }.last()?))
        };
        Self::new(all.into_iter().filter_map(moved).collect())
    }

    /// From first and last addresses; what overlaps or adjoins becomes one. More than can be kept is nothing known.
    fn new(mut all: Vec<(Addr, Addr)>) -> Self {
        all.sort_unstable();
        let mut ranges = join(all);
        if ranges.len() > MAX_RANGES {
            ranges.clear();
        }
        Self { ranges }
    }

    /// Whether code is at `address`; `None` where it is not known where code is.
    pub fn holds(&self, address: Addr) -> Option<bool> {
        let within = |(first, last): &(Addr, Addr)| (*first..=*last).contains(&address);
        (!self.ranges.is_empty()).then(|| self.ranges.iter().any(within))
    }

    /// As text, for a core's notes: `8000-8fff 10000-10fff`, both ends included; empty where nothing is known.
    pub fn to_text(&self) -> String {
        let one = |(first, last): &(Addr, Addr)| format!("{first:x}-{last:x}");
        self.ranges.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The reverse of [`CodeRanges::to_text`]; text that is anything else is nothing known.
    pub fn from_text(text: &str) -> Self {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let one = |part: &str| {
            let (first, last) = part.split_once('-')?;
            Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
        };
        let all: Option<Vec<_>> = text.split_whitespace().take(MAX_RANGES + 1).map(one).collect();
        Self::new(all.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::writer::{Writer, load, sect};

    #[test]
    fn code_is_what_executable_sections_hold() {
        let mut w = Writer::new(false, false, 2, 40);
        w.segs = vec![load(0x1000, 7, vec![0; 0x300])];
        w.sects = vec![
            sect(".text", 1, 6, 0x1000, vec![0; 0x100]),
            sect(".data", 1, 3, 0x1100, vec![0; 0x100]),
            sect(".ramfunc", 1, 7, 0x1200, vec![0; 0x10]),
        ];
        let code = CodeRanges::of(&Elf::open(w.build()).unwrap(), 0x4000);
        assert_eq!(code.to_text(), "5000-50ff 5200-520f");
        let holds = [0x4FFF, 0x5000, 0x50FF, 0x5100, 0x520F, 0x5210].map(|at| code.holds(at).unwrap());
        assert_eq!(holds, [false, true, true, false, true, false]);
        assert_eq!(CodeRanges::from_text(&code.to_text()), code);
        // Without sections, the executable segment; without either nothing is known.
        w.sects.clear();
        assert_eq!(CodeRanges::of(&Elf::open(w.build()).unwrap(), 0).to_text(), "1000-12ff");
        w.segs = vec![load(0x1000, 6, vec![0; 16])];
        assert_eq!(CodeRanges::of(&Elf::open(w.build()).unwrap(), 0).holds(0x1000), None);
        for text in ["", "x-y", "20-10", "10", "10-20 30"] {
            assert_eq!(CodeRanges::from_text(text).holds(0x10), None, "{text}");
        }
    }
}
