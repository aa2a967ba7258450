//! The target's memory and names, for what a rule asks itself: the bytes of a control block, whose variable is there.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::abi::{Addr, Region};
use crate::mem::Memory;
use crate::sym::{ArrayMember, ArrayPlace, Symbol, Symbols};

/// The most bytes of one answer.
const MOST: usize = 1024;

/// Bytes of a range of memory that are read at once.
const PAGE: u64 = 1024;
/// The most pages of a source that has its memory at hand, and of one that is asked over a link.
const PAGES: (usize, usize) = (1 << 16, 64);

/// True for bytes that are all 0: no pointer is in them. Memory that a program never used is most of what some files have.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    const ZERO: [u8; PAGE as usize] = [0; PAGE as usize];
    ZERO.get(..bytes.len()) == Some(bytes)
}

/// Them.
pub struct Look<'a> {
    memory: RefCell<&'a mut dyn Memory>,
    symbols: &'a dyn Symbols,
    pages: RefCell<Pages>,
}

/// What was read of ranges of memory.
#[derive(Default)]
struct Pages {
    /// By address and length: ranges may overlap.
    read: BTreeMap<(Addr, u64), Option<Vec<u8>>>,
    most: usize,
    /// True where a page was not read because these are all.
    are_spent: bool,
}

impl<'a> Look<'a> {
    /// Over the memory and the symbols of a target.
    #[must_use]
    pub fn new(memory: &'a mut dyn Memory, symbols: &'a dyn Symbols) -> Self {
        // A stub does not say which memory there is.
        let most = if memory.regions().is_some() { PAGES.0 } else { PAGES.1 };
        let pages = RefCell::new(Pages { most, ..Pages::default() });
        Self { memory: RefCell::new(memory), symbols, pages }
    }

    /// The bytes at an address; `None` where not all of them can be read.
    pub(super) fn bytes(&self, at: Addr, len: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len <= MOST)?;
        let mut bytes = vec![0; len];
        self.memory.try_borrow_mut().ok()?.read(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Bytes within a range of memory, which is read page by page, each once, and of a target only so many.
    pub(super) fn within(&self, range: Region, at: Addr, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut at = at;
        let end = at.checked_add(u64::try_from(len).ok().filter(|len| *len <= PAGE)?)?;
        while at < end {
            let into = at.checked_sub(range.start).filter(|into| *into < range.len)?;
            let first = into.checked_sub(into % PAGE)?;
            let page = self.page(range.start.checked_add(first)?, PAGE.min(range.len.checked_sub(first)?))?;
            let from = usize::try_from(into % PAGE).ok()?;
            let rest = page.get(from..)?;
            let part = rest.get(..rest.len().min(usize::try_from(end.checked_sub(at)?).ok()?))?;
            bytes.extend_from_slice(part);
            at = at.checked_add(u64::try_from(part.len()).ok().filter(|part| *part > 0)?)?;
        }
        Some(bytes)
    }

    fn page(&self, at: Addr, len: u64) -> Option<Vec<u8>> {
        let mut pages = self.pages.try_borrow_mut().ok()?;
        if let Some(page) = pages.read.get(&(at, len)) {
            return page.clone();
        }
        if pages.read.len() >= pages.most {
            pages.are_spent = true;
            return None;
        }
        let page = self.bytes(at, len);
        pages.read.insert((at, len), page.clone());
        page
    }

    /// True where a range of memory was not read because it would take too long.
    pub(super) fn is_spent(&self) -> bool {
        self.pages.try_borrow().is_ok_and(|pages| pages.are_spent)
    }

    /// True where all memory is at hand: reading it has no effect on a target.
    pub(super) fn is_stored(&self) -> bool {
        self.pages.try_borrow().is_ok_and(|pages| pages.most == PAGES.0)
    }

    /// The symbol of this name.
    pub(super) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.lookup(name)
    }

    /// The variable that covers an address.
    pub(super) fn variable(&self, at: Addr) -> Option<Symbol> {
        self.symbols.variable(at)
    }

    /// The variables that the program does not write.
    pub(super) fn constants(&self) -> Vec<Symbol> {
        self.symbols.constants()
    }

    /// The function that covers an address.
    pub(super) fn function(&self, at: Addr) -> Option<Symbol> {
        self.symbols.function(at)
    }

    /// True where a function begins that returns nothing, where debug information says.
    pub(super) fn returns_nothing(&self, at: Addr) -> bool {
        self.symbols.returns_nothing(at)
    }

    /// File and line at an address, where the program says them: `pump.c:12`. Hostile text.
    pub(super) fn line(&self, at: Addr) -> Option<String> {
        self.symbols.source_line(at & !1)
    }

    /// The functions at an address that the compiler put into others, the innermost first, and at last the one that they were put into,
    /// each with its file and line; not those of the compiler or the kernel, whose names begin with `_`. Empty where there are none.
    /// Hostile text.
    pub(super) fn inlined(&self, at: Addr) -> Vec<(String, Option<String>)> {
        self.symbols.inlined(at & !1).into_iter().filter(|(name, _)| !name.starts_with('_')).collect()
    }

    /// What an interrupt is called: the name of its handler, else its number.
    pub(super) fn interrupt(&self, number: u64) -> Option<String> {
        u32::try_from(number).ok().and_then(|number| self.symbols.exception(number))
    }

    /// The handlers in the program's vector table, with the numbers of their exceptions.
    pub(super) fn handlers(&self) -> Vec<(u32, Addr)> {
        self.symbols.handlers()
    }

    /// The other exceptions with the handler of this one.
    pub(super) fn others_with_handler(&self, number: u32) -> Vec<u32> {
        self.symbols.others_with_handler(number)
    }

    /// `logged.next`, or `logged+0x20`: the variable that covers an address, and what of it is there.
    pub(super) fn place(&self, at: Addr) -> Option<String> {
        place(at, self.symbols)
    }

    /// Whether the variable at an address is a pointer, or its member there; `None` where debug information does not say it.
    pub(super) fn is_pointer(&self, at: Addr) -> Option<bool> {
        self.symbols.member(at).map(|member| member.is_pointer && member.offset == 0)
    }

    /// The struct that the pointer at an address points to by its type, and those at the beginning of that; hostile text. Empty for anything
    /// else, and where debug information does not say it.
    pub(super) fn points_to(&self, at: Addr) -> Vec<String> {
        self.symbols.member(at).filter(|member| member.offset == 0).map_or_else(Vec::new, |member| member.points_to)
    }

    /// What the part of a variable at an address holds, up to the end of the word that it is in: `jr.pending is 0x1`. `word`: what is at
    /// the multiple of 4 below the address. Hostile text.
    pub(super) fn holds(&self, at: Addr, word: u32) -> Option<String> {
        let bytes = self.len_in_word(at);
        let into = u32::try_from((at & 3) << 3).ok()?;
        let unused = u32::try_from(4_u64.checked_sub(bytes)? << 3).ok()?;
        let value = word.checked_shr(into)? & u32::MAX.checked_shr(unused)?;
        Some(format!("{} is {value:#x}", self.place(at)?))
    }

    /// Bytes of the part of a variable at an address, up to the end of the word that it is in.
    pub(super) fn len_in_word(&self, at: Addr) -> u64 {
        let member = self.symbols.member(at).map(|member| member.size.saturating_sub(member.offset));
        let left = 4_u64.saturating_sub(at & 3);
        member.filter(|size| *size > 0).map_or(left, |size| size.min(left))
    }

    /// The same of a block of memory that begins at an address: `store.writes`, and not its first member.
    pub(super) fn block(&self, at: Addr) -> Option<String> {
        self.symbols.member(at).and_then(|member| member.whole).or_else(|| self.raw(at))
    }

    /// `logged+0x20`: the same of an address in memory that is not used as the program declared it, as that of a pool.
    pub(super) fn raw(&self, at: Addr) -> Option<String> {
        raw(at, self.symbols)
    }

    /// The array that begins where the structure at an address ends, within one variable.
    pub(super) fn array_behind(&self, at: Addr) -> Option<ArrayMember> {
        self.symbols.array_behind(at)
    }

    /// The arrays that an address is in: the outermost first.
    pub(super) fn arrays_at(&self, at: Addr) -> Vec<ArrayPlace> {
        self.symbols.arrays_at(at)
    }

    /// The arrays that end in front of an address, within one variable: the outermost first.
    pub(super) fn arrays_before(&self, at: Addr) -> Vec<ArrayMember> {
        self.symbols.arrays_before(at)
    }
}

/// What of which variable is at an address: its member where debug information says, else how many bytes into it.
pub(super) fn place(at: Addr, symbols: &dyn Symbols) -> Option<String> {
    let member = symbols.member(at).map(|member| with_offset(member.path, member.offset));
    member.or_else(|| raw(at, symbols))
}

fn raw(at: Addr, symbols: &dyn Symbols) -> Option<String> {
    let symbol = symbols.variable(at)?;
    let offset = at.checked_sub(symbol.address)?;
    Some(with_offset(symbol.name, offset))
}

fn with_offset(name: String, offset: u64) -> String {
    if offset == 0 { name } else { format!("{name}+{offset:#x}") }
}
