//! Names of exceptions on ARM's M profile: the architecture's own, and from 16 up the handlers in the vector table.

use crate::abi::Addr;
use crate::elf::{Elf, ElfSymbol, PF_W, PF_X, PT_LOAD, SymbolKind};

/// Names that start-up files use for the vector table.
pub(super) const TABLES: [&str; 13] = [
    "__Vectors",
    "__isr_vector",
    "g_pfnVectors",
    "_vectors",
    "vector_table",
    "__vector_table",
    "__vectors",
    "_vector_table",
    "vectors",
    "isr_vector",
    "__VECTOR_TABLE",
    "__EXCEPTIONS",
    "exception_table",
];

/// The first exception that is defined by the chip and not by the architecture.
const FIRST: usize = 16;
/// One past the last: IPSR has nine bits.
const END: usize = 512;

/// The exceptions of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// Handlers of the exceptions from 16 on, where a handler serves one exception only.
    handlers: Vec<Option<String>>,
}

impl Exceptions {
    /// Of `elf`; `None` where it is not known to be for the M profile. `tables`: names of the vector table beside the
    /// usual ones.
    pub fn of(elf: &Elf, tables: &[&str]) -> Option<Self> {
        elf.is_m_profile().then(|| Self { handlers: table(elf, tables).map_or_else(Vec::new, |t| handlers(elf, &t)) })
    }

    /// Where the main stack begins by the vector table, from where it grows down; `None` where the table is not found.
    pub fn main_stack(elf: &Elf, tables: &[&str]) -> Option<Addr> {
        table(elf, tables).and_then(|table| table.first().copied()).map(Addr::from)
    }

    /// The handlers in the vector table, each with the number of its exception: as many as the size of the table's symbol says;
    /// without a size up to the first word that is no address of a function.
    pub fn entries(elf: &Elf, tables: &[&str]) -> Vec<(u32, Addr)> {
        let named = elf.lookup_many(&[&TABLES, tables].concat()).into_iter().flatten();
        let sized = named.chain(at_the_start(elf)).filter(|symbol| symbol.size >= 8);
        let sized = sized.filter_map(|s| words(elf, s.address, s.size)).find(|table| begins_well(elf, table));
        let is_function = |word: &u32| {
            let at = Addr::from(*word & !1);
            is_code(elf, *word) && elf.starting_at(&[at]).iter().flatten().any(|s| s.kind != SymbolKind::Object)
        };
        let all = match (elf.is_m_profile(), sized) {
            (false, _) => Vec::new(),
            (true, Some(table)) => table,
            (true, None) => {
                let table = table(elf, tables).unwrap_or_default();
                // Some of the architecture's exceptions are reserved, and 0.
                let goes_on = |(n, word): &(usize, u32)| *n == 0 || *n < FIRST && *word == 0 || is_function(word);
                table.into_iter().enumerate().take_while(goes_on).map(|(_, word)| word).collect()
            }
        };
        let numbered = (0..).zip(all).skip(1).filter(|(_, word)| is_code(elf, *word));
        numbered.map(|(number, word)| (number, Addr::from(word & !1))).collect()
    }

    /// The name of the exception of this number; `None` for a number that the architecture reserves.
    pub fn name(&self, number: u32) -> Option<String> {
        let number_in_table = usize::try_from(number).ok().filter(|n| *n < END)?;
        let Some(irq) = number_in_table.checked_sub(FIRST) else { return Self::own(number).map(str::to_owned) };
        Some(self.handlers.get(irq).cloned().flatten().unwrap_or_else(|| format!("irq{irq}")))
    }

    /// The architecture's name of the exception of this number.
    pub const fn own(number: u32) -> Option<&'static str> {
        Some(match number {
            2 => "NMI",
            3 => "HardFault",
            4 => "MemManage",
            5 => "BusFault",
            6 => "UsageFault",
            7 => "SecureFault",
            11 => "SVCall",
            12 => "DebugMonitor",
            14 => "PendSV",
            15 => "SysTick",
            _ => return None,
        })
    }
}

/// The symbol with which the program begins, where it is as long as a vector table, whatever its name.
fn at_the_start(elf: &Elf) -> Option<ElfSymbol> {
    let segments = elf.segments().filter(|s| s.kind == PT_LOAD && s.filesz > 0);
    let first = segments.min_by_key(|s| s.vaddr)?;
    let symbol = elf.starting_at(&[first.vaddr]).into_iter().flatten().next()?;
    let entry = words(elf, first.vaddr, 8)?.get(1).copied()?;
    let is_table = symbol.size.is_multiple_of(4) && (16 * 4..=512 * 4).contains(&symbol.size) && is_entry(elf, entry);
    is_table.then_some(symbol)
}

/// The words of the vector table, as far as the file has them.
fn table(elf: &Elf, more: &[&str]) -> Option<Vec<u32>> {
    let named = elf.lookup_many(&[&TABLES, more].concat()).into_iter().flatten();
    let named = named.filter_map(|s| words(elf, s.address, s.size)).find(|t| begins_well(elf, t));
    named.or_else(|| {
        let segments = elf.segments().filter(|s| s.kind == PT_LOAD && s.filesz > 0);
        let first = segments.min_by_key(|s| s.vaddr)?;
        words(elf, first.vaddr, 0).filter(|t| begins_well(elf, t) && t.get(1).is_some_and(|w| is_entry(elf, *w)))
    })
}

/// The words at an address: `size` bytes, or where the size is not known as many as there can be exceptions.
fn words(elf: &Elf, address: Addr, size: u64) -> Option<Vec<u32>> {
    let segment = elf
        .segments()
        .find(|s| s.kind == PT_LOAD && address.checked_sub(s.vaddr).is_some_and(|into| into < s.filesz))?;
    let into = usize::try_from(address.checked_sub(segment.vaddr)?).ok()?;
    let bytes = elf.segment_bytes(&segment);
    let rest = bytes.get(into..)?;
    let count = if size == 0 { END } else { usize::try_from(size / 4).map_or(END, |n| n.min(END)) };
    Some(rest.chunks_exact(4).take(count).map_while(|w| elf.endian().u32(w, 0)).collect())
}

/// A stack that grows down from a sound address, and a reset handler in code.
fn begins_well(elf: &Elf, table: &[u32]) -> bool {
    let [stack, reset, ..] = table else { return false };
    let stack = Addr::from(*stack);
    let writable = |s: &crate::elf::Segment| {
        let end = s.vaddr.checked_add(s.memsz);
        s.kind == PT_LOAD && s.flags & PF_W != 0 && end.is_some_and(|end| (s.vaddr..=end).contains(&stack))
    };
    // The top of RAM is often past all segments: then the RAM regions of the architecture's memory map count.
    let ram = (0x1000_0000..=0x4000_0000).contains(&stack);
    stack != 0 && stack & 3 == 0 && (ram || elf.segments().any(|s| writable(&s))) && is_code(elf, *reset)
}

/// A handler's address: odd, for Thumb, and in code.
fn is_code(elf: &Elf, word: u32) -> bool {
    let address = Addr::from(word & !1);
    word & 1 == 1
        && elf.segments().any(|s| {
            s.kind == PT_LOAD && s.flags & PF_X != 0 && address.checked_sub(s.vaddr).is_some_and(|into| into < s.memsz)
        })
}

fn is_entry(elf: &Elf, word: u32) -> bool {
    Addr::from(word) == elf.entry() | 1
}

/// The names of the handlers from exception 16 on. One that serves several exceptions names none of them.
fn handlers(elf: &Elf, table: &[u32]) -> Vec<Option<String>> {
    let own: Vec<u32> = table.iter().skip(FIRST).take_while(|w| **w == 0 || is_code(elf, **w)).copied().collect();
    let addresses: Vec<Addr> = own.iter().map(|word| Addr::from(*word & !1)).collect();
    let symbols = elf.starting_at(&addresses);
    own.iter()
        .zip(symbols)
        .map(|(word, symbol)| {
            let shared = table.iter().filter(|w| *w == word).count() > 1;
            let symbol = symbol.filter(|_| !shared && *word != 0)?;
            (symbol.kind != SymbolKind::Object && !symbol.name.is_empty()).then_some(symbol.name)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::elf::tests::writer::{GLOBAL_FUNC, GLOBAL_OBJECT, Sym, WEAK_OBJECT, Writer, load, sect, sym};

    const WEAK_FUNC: u8 = WEAK_OBJECT + 1;
    const CODE: u64 = 0x0800_0000;

    /// A Cortex-M program whose vector table is `at` bytes into its code.
    fn program(at: usize, entries: &[u32], syms: Vec<Sym>) -> Writer {
        let mut w = Writer::new(false, false, 2, 40);
        w.entry = 0x0800_0101;
        let mut code = vec![0u8; 0x400];
        for (i, word) in entries.iter().enumerate() {
            code[at + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
        }
        w.segs = vec![load(CODE, 5, code.clone()), load(0x2000_0000, 6, vec![0; 16])];
        let attributes = b"A\x16\0\0\0aeabi\0\x01\x0c\0\0\0\x057M\0\x07M".to_vec();
        w.sects = vec![sect(".text", 1, 6, CODE, code), sect(".ARM.attributes", 0x7000_0003, 0, 0, attributes)];
        w.syms = syms;
        w
    }

    fn of(w: &Writer) -> Option<Exceptions> {
        Exceptions::of(&Elf::open(w.build()).unwrap(), &[])
    }

    fn entries() -> Vec<u32> {
        let mut e = vec![0x0800_0301; 22];
        e[0] = 0x2001_0000;
        e[1] = 0x0800_0101;
        e[16] = 0x0800_0201;
        e[18] = 0x0800_0211;
        e[19] = 0x0800_0221;
        e
    }

    fn symbols() -> Vec<Sym> {
        vec![
            sym("Default_Handler", 0x0800_0301, 4, GLOBAL_FUNC, 1),
            sym("EXTI_Handler", 0x0800_0301, 4, WEAK_FUNC, 1),
            sym("WDT_Handler", 0x0800_0201, 4, GLOBAL_FUNC, 1),
            sym("rtc", 0x0800_020D, 16, GLOBAL_FUNC, 1),
        ]
    }

    fn names(e: &Exceptions) -> Vec<String> {
        (16..21).map(|n| e.name(n).unwrap()).collect()
    }

    #[test]
    fn the_architectures_own_and_the_table_at_the_start() {
        let e = of(&program(0, &entries(), symbols())).unwrap();
        assert_eq!(e.name(15).unwrap(), "SysTick");
        assert_eq!(e.name(3).unwrap(), "HardFault");
        assert_eq!([e.name(0), e.name(1), e.name(8), e.name(13), e.name(512), e.name(u32::MAX)], [const { None }; 6]);
        // Shared; not at the start of its function; without a symbol; past the table.
        assert_eq!(names(&e), ["WDT_Handler", "irq1", "irq2", "irq3", "irq4"]);
        assert_eq!(e.name(100).unwrap(), "irq84");
    }

    #[test]
    fn a_table_found_by_its_name() {
        for name in ["__Vectors", "g_pfnVectors", "_vectors", "vector_table", "__isr_vector"] {
            let mut syms = symbols();
            syms.push(sym(name, CODE + 0x40, 4 * 22, GLOBAL_OBJECT, 1));
            let e = of(&program(0x40, &entries(), syms)).unwrap();
            assert_eq!(e.name(16).unwrap(), "WDT_Handler", "{name}");
        }
    }

    /// A table that is called in a way of its own, with a gap in front of the handlers of the chip, ended at that gap.
    #[test]
    fn handlers_behind_the_gap_of_a_table_with_another_name_were_not_known() {
        let mut gap = entries();
        gap[16] = 0;
        let numbers = |syms| {
            let all = Exceptions::entries(&Elf::open(program(0, &gap, syms).build()).unwrap(), &[]);
            all.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        let mut named = symbols();
        named.push(sym("g_vectors", CODE, 4 * 20, GLOBAL_OBJECT, 1));
        assert_eq!(numbers(named), (1..16).chain(17..20).collect::<Vec<_>>());
        let mut short = symbols();
        short.push(sym("greeting", CODE, 4 * 3, GLOBAL_OBJECT, 1));
        assert!(!numbers(short).contains(&19), "no table is so short");
    }

    /// What lies behind the table was taken for handlers.
    #[test]
    fn code_behind_the_vector_table_was_a_handler() {
        let of = |w: &Writer| Exceptions::entries(&Elf::open(w.build()).unwrap(), &[]);
        let numbers = |w: &Writer| of(w).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        let mut all = entries();
        all.extend([0x0800_0303; 4]);
        let mut sized = symbols();
        sized.push(sym("vector_table", CODE, 4 * 18, GLOBAL_OBJECT, 1));
        assert_eq!(numbers(&program(0, &all, sized)).last(), Some(&17));
        // Without a size: up to the first word that is no function, though it may be odd and in code.
        let mut plain = symbols();
        plain.push(sym("Reset_Handler", 0x0800_0101, 4, GLOBAL_FUNC, 1));
        assert_eq!(numbers(&program(0, &all, plain)).last(), Some(&17), "rtc begins elsewhere");
        let mut gap = all.clone();
        gap[7] = 0;
        let mut sized = symbols();
        sized.push(sym("vector_table", CODE, 4 * 10, GLOBAL_OBJECT, 1));
        assert_eq!(numbers(&program(0, &gap, sized)), [1, 2, 3, 4, 5, 6, 8, 9]);
    }

    #[test]
    fn what_is_no_table_names_nothing() {
        let plain = |w: &Writer| of(w).unwrap().name(16).unwrap();
        // Not at a usual place; the reset handler is another; the stack is nowhere.
        assert_eq!(plain(&program(0x40, &entries(), symbols())), "irq0");
        let mut other = entries();
        other[1] = 0x0800_0105;
        assert_eq!(plain(&program(0, &other, symbols())), "irq0");
        let mut other = entries();
        other[0] = 0xE000_0000;
        assert_eq!(plain(&program(0, &other, symbols())), "irq0");
        // Stripped.
        assert_eq!(plain(&program(0, &entries(), vec![])), "irq0");
    }

    #[test]
    fn other_processors_have_no_such_names() {
        let mut w = program(0, &entries(), symbols());
        w.machine = 243;
        assert_eq!(of(&w), None);
        let mut w = program(0, &entries(), symbols());
        let attributes = w.sects.last_mut().unwrap();
        *attributes.bytes.last_mut().unwrap() = b'A';
        assert_eq!(of(&w), None);
    }
}
