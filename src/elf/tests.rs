#[allow(missing_docs, clippy::arithmetic_side_effects, reason = "test code")]
pub(crate) mod writer;

use super::*;
use writer::{
    GLOBAL_FUNC, GLOBAL_OBJECT, LOCAL_FUNC, LOCAL_OBJECT, SHAPES, Sect, Seg, WEAK_OBJECT, Writer, load, sect, sym,
};

/// `.text` at 0x1000 (section 1), `.bss` at 0x2000 (section 2), and the symbols given.
fn program(wide: bool, big: bool, kind: u16, machine: u16, syms: Vec<writer::Sym>) -> Writer {
    let mut w = Writer::new(wide, big, kind, machine);
    w.entry = 0x1001;
    w.segs = vec![load(0x1000, 5, vec![0xAA; 0x40]), Seg { memsz: Some(0x100), ..load(0x2000, 6, vec![]) }];
    w.sects = vec![sect(".text", 1, 6, 0x1000, vec![0xAA; 0x40]), sect(".bss", 8, 3, 0x2000, vec![])];
    w.sects[1].size = Some(0x100);
    w.syms = syms;
    w
}

fn open(w: &Writer) -> Elf {
    Elf::open(w.build()).unwrap()
}

#[test]
fn header_in_both_classes_and_orders() {
    for (wide, big) in SHAPES {
        let elf = open(&program(wide, big, 2, 20, vec![]));
        assert_eq!(elf.width(), if wide { Width::W8 } else { Width::W4 });
        assert_eq!(elf.endian(), if big { Endian::Big } else { Endian::Little });
        assert_eq!((elf.kind(), elf.entry(), elf.machine()), (ElfKind::Exec, 0x1001, Machine(20)));
        assert_eq!(elf.segments().count(), 2);
        let text = elf.section(".text").unwrap();
        assert_eq!(elf.section_name(&text), ".text");
        assert_eq!(&*elf.section_bytes(&text), &[0xAA; 0x40]);
        let bss = elf.section(".bss").unwrap();
        assert!(elf.section_bytes(&bss).is_empty());
        assert_eq!(elf.section_holding(0x20FF).map(|s| s.index), Some(2));
        assert_eq!(elf.section_holding(0x2100), None);
        assert_eq!(elf.section(".tex"), None);
        assert!(elf.damage().is_empty() && elf.is_stripped());
    }
    let described = open(&program(false, true, 2, 20, vec![])).describe();
    assert_eq!(described, "32-bit big-endian PowerPC");
}

/// Every section was compared with every segment: a file of 5 MB took minutes.
#[test]
fn as_many_segments_as_sections_took_time_squared() {
    let mut w = Writer::new(false, false, 2, 40);
    let begins = |i: u64| 0x1000_0000 + i * 16;
    w.segs = (0..60_000).map(|i| load(begins(i), 5, vec![])).collect();
    w.sects = (0..60_000).map(|i| Sect { size: Some(4), ..sect("", 8, 2, begins(i) + 8, vec![]) }).collect();
    w.segs[0].filesz = Some(8);
    w.segs[1].filesz = Some(9);
    let elf = open(&w);
    let began = std::time::Instant::now();
    let debug_only: Vec<bool> = elf.segments().map(|s| elf.is_debug_only(&s)).collect();
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(debug_only[..3], [false, true, false]);
}

#[test]
fn what_is_not_elf_is_refused_with_the_reason() {
    let good = program(false, false, 2, 40, vec![]).build();
    assert_eq!(Elf::open(b"PK\x03\x04".to_vec()).unwrap_err(), ElfError::NotElf);
    assert_eq!(Elf::open(vec![]).unwrap_err(), ElfError::NotElf);
    assert_eq!(Elf::open(b"\x7fELF".to_vec()).unwrap_err(), ElfError::Short(4));
    assert_eq!(Elf::open(good[..51].to_vec()).unwrap_err(), ElfError::Short(51));
    let mut bad = good.clone();
    bad[4] = 3;
    assert_eq!(Elf::open(bad).unwrap_err(), ElfError::Class(3));
    let mut bad = good;
    bad[5] = 0;
    assert_eq!(Elf::open(bad).unwrap_err(), ElfError::Order(0));
}

#[test]
fn one_name_many_symbols() {
    for (wide, big) in SHAPES {
        let elf = open(&program(
            wide,
            big,
            2,
            243,
            vec![
                sym("a", 0x2000, 1, LOCAL_OBJECT, 2),
                sym("a", 0x2010, 2, WEAK_OBJECT, 2),
                sym("a", 0x2020, 4, GLOBAL_OBJECT, 2),
                sym("a", 0x2030, 8, GLOBAL_OBJECT, 2),
                sym("ab", 0x2040, 1, GLOBAL_OBJECT, 2),
                sym("only_local", 0x2050, 4, LOCAL_OBJECT, 2),
                sym("undefined", 0, 4, GLOBAL_OBJECT, 0),
                sym("both", 0, 0, GLOBAL_OBJECT, 0),
                sym("both", 0x2060, 4, LOCAL_OBJECT, 2),
                sym("a_file", 0x11, 0, 0x04, 0xFFF1),
                sym("tls", 0x10, 4, 0x16, 2),
                sym("absolute", 0x8000, 0, 0x10, 0xFFF1),
            ],
        ));
        let at = |name: &str| elf.symbol(name).map(|s| (s.address, s.size));
        assert_eq!(at("a"), Some((0x2020, 4)), "global, first");
        assert_eq!(at("ab"), Some((0x2040, 1)));
        assert_eq!(at("only_local"), Some((0x2050, 4)));
        assert_eq!(at("both"), Some((0x2060, 4)), "defined before undefined");
        assert_eq!(at("absolute"), Some((0x8000, 0)));
        for none in ["undefined", "a_file", "tls", "", "b", "abs", "absolutely"] {
            assert_eq!(at(none), None, "{none}");
        }
        let many = elf.lookup_many(&["ab", "nothing", "a", "ab"]);
        let many: Vec<_> = many.into_iter().map(|s| s.map(|s| s.address)).collect();
        assert_eq!(many, [Some(0x2040), None, Some(0x2020), Some(0x2040)]);
        assert!(!elf.is_stripped());
        let names: Vec<_> = elf.symbols_with_prefix("ab").into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["ab", "absolute"]);
    }
}

#[test]
fn dynamic_symbols_serve_a_stripped_file() {
    let mut w = program(true, false, 3, 62, vec![]);
    w.dynsyms = vec![sym("exported", 0x2008, 8, GLOBAL_OBJECT, 2)];
    let elf = open(&w);
    assert!(elf.is_stripped());
    assert_eq!(elf.symbol("exported").unwrap().address, 0x2008);
    assert_eq!(elf.symbols_with_prefix("exp").len(), 1);
    assert_eq!(elf.covering(0x200F).unwrap().name, "exported");
}

#[test]
fn the_thumb_bit_is_no_part_of_an_address() {
    let syms = vec![sym("f", 0x1001, 8, GLOBAL_FUNC, 1), sym("odd", 0x2001, 1, GLOBAL_OBJECT, 2)];
    let arm = open(&program(false, false, 2, 40, syms.clone()));
    assert_eq!(arm.symbol("f").unwrap().address, 0x1000);
    assert_eq!(arm.symbol("odd").unwrap().address, 0x2001);
    assert_eq!(arm.covering(0x1000).unwrap().name, "f");
    assert_eq!(arm.covering(0x1008), None);
    let other = open(&program(false, false, 2, 62, syms));
    assert_eq!(other.symbol("f").unwrap().address, 0x1001);
}

#[test]
fn an_unlinked_object_has_no_addresses() {
    let elf = open(&program(false, false, 1, 40, vec![sym("a", 0, 4, GLOBAL_OBJECT, 2)]));
    assert_eq!(elf.kind(), ElfKind::Object);
    assert_eq!(elf.symbol("a"), None);
    assert_eq!(elf.covering(0), None);
}

#[test]
fn the_innermost_symbol_covers() {
    let elf = open(&program(
        false,
        false,
        2,
        243,
        vec![
            sym("outer", 0x1000, 0x20, GLOBAL_FUNC, 1),
            sym("inner", 0x1008, 0x4, LOCAL_FUNC, 1),
            sym("alias", 0x1008, 0x4, GLOBAL_FUNC, 1),
            sym("$x", 0x1004, 0, 0, 1),
            sym(".L1", 0x1004, 0, 0, 1),
            sym("label", 0x1030, 0, 0x10, 1),
            sym("later", 0x1038, 0, 0x10, 1),
            sym("__end", 0x2000, 0, 0x10, 2),
            sym("__StackTop", 0x1010, 0, 0x10, 0xFFF1),
            sym("var", 0x2000, 4, GLOBAL_OBJECT, 2),
        ],
    ));
    let at = |a: Addr| elf.covering(a).map(|s| (s.name, s.address));
    assert_eq!(at(0xFFF), None);
    assert_eq!(at(0x1004), Some(("outer".into(), 0x1000)));
    assert_eq!(at(0x100B), Some(("alias".into(), 0x1008)));
    assert_eq!(at(0x1010), Some(("outer".into(), 0x1000)), "past the inner one");
    assert_eq!(at(0x1020), None, "between symbols");
    assert_eq!(at(0x1037), Some(("label".into(), 0x1030)), "unsized: up to the next");
    assert_eq!(at(0x103F), Some(("later".into(), 0x1038)), "unsized: up to the end of its section");
    assert_eq!(at(0x1040), None);
    assert_eq!(at(0x2003), Some(("var".into(), 0x2000)));
    assert_eq!(at(0x2004), None);
}

#[test]
fn what_shares_a_byte() {
    let elf = open(&program(
        false,
        false,
        2,
        243,
        vec![
            sym("outer", 0x1000, 0x20, GLOBAL_FUNC, 1),
            sym("inner", 0x1008, 0x4, LOCAL_FUNC, 1),
            sym("label", 0x1030, 0, 0x10, 1),
            sym("var", 0x2000, 4, GLOBAL_OBJECT, 2),
            sym("twin", 0x2000, 8, GLOBAL_OBJECT, 2),
        ],
    ));
    let at = |a: Addr, len| elf.sharing(a, len).into_iter().map(|s| s.name).collect::<Vec<_>>().join(" ");
    for (address, len, names) in [
        (0xFFC, 4, ""),
        (0xFFC, 5, "outer"),
        (0x1008, 4, "outer inner"),
        (0x100C, 4, "outer"),
        (0x1020, 4, ""),
        (0x102C, 8, "label"),
        (0x1034, 4, "label"),
        (0x2000, 4, "var twin"),
        (0x2004, 4, "twin"),
        (0x2008, 4, ""),
        (Addr::MAX - 3, 4, ""),
    ] {
        assert_eq!(at(address, len), names, "{address:#x} {len}");
    }
}

#[test]
fn what_the_program_writes() {
    let mut w = Writer::new(false, false, 2, 40);
    w.segs = vec![load(0x1000, 5, vec![0; 0x100]), load(0x3000, 7, vec![0; 0x100])];
    w.sects = vec![
        sect(".text", 1, 6, 0x3000, vec![0; 0x40]),
        sect(".data", 1, 3, 0x3040, vec![0; 0x40]),
        sect(".tbss", 8, 0x403, 0x1000, vec![]),
        sect(".debug", 1, 0, 0x2000, vec![0; 0x40]),
    ];
    let elf = open(&w);
    for (address, len, writes) in [
        (0x1000, 4, Some(false)),
        (0x3000, 4, Some(false)),
        (0x303E, 4, Some(false)),
        (0x3040, 0x40, Some(true)),
        // After the sections of a segment that is written.
        (0x307E, 4, Some(true)),
        (0x3080, 4, Some(true)),
        (0x30FE, 4, None),
        (0x2000, 4, None),
        (Addr::MAX, 4, None),
    ] {
        assert_eq!(elf.writes(address, len), writes, "{address:#x} {len}");
    }
}

#[test]
fn notes_and_build_id() {
    for (wide, big) in SHAPES {
        let mut w = program(wide, big, 4, 40, vec![]);
        w.notes = vec![("CORE", 1, vec![1, 2, 3]), ("GNU", 3, vec![0xDE, 0xAD, 0xBE, 0xEF, 0x01])];
        let elf = open(&w);
        let notes: Vec<_> = elf.notes().map(|n| n.unwrap()).collect();
        assert_eq!(notes.len(), 2);
        assert_eq!((notes[0].name, notes[0].kind, notes[0].desc), (&b"CORE"[..], 1, &[1, 2, 3][..]));
        assert_eq!(elf.build_id(), Some(vec![0xDE, 0xAD, 0xBE, 0xEF, 0x01]));
    }
}

#[test]
fn notes_of_an_object_file_are_in_sections() {
    let mut w = Writer::new(false, false, 1, 40);
    w.notes = vec![("GNU", 3, vec![7; 20])];
    let note = w.note_bytes();
    w.notes.clear();
    w.sects = vec![sect(".note.gnu.build-id", 7, 2, 0, note)];
    assert_eq!(open(&w).build_id(), Some(vec![7; 20]));
}

#[test]
fn notes_end_after_an_error() {
    let endian = Endian::Little;
    let good = [4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, b'G', b'N', b'U', 0];
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0];
    let mut bytes = good.to_vec();
    bytes.extend(huge);
    let got: Vec<_> = Notes::new(&bytes, endian, 4, 0).collect();
    assert_eq!(got.len(), 2);
    assert_eq!(got[1], Err(NoteError::Cut { at: 16, lost: 0 }));
    // Cut short inside the second note, and cut short exactly between two.
    let got: Vec<_> = Notes::new(&good, endian, 4, 12).collect();
    assert_eq!(got[1], Err(NoteError::Cut { at: 16, lost: 12 }));
    assert_eq!(Notes::new(&[], endian, 4, 0).count(), 0);
    assert_eq!(Notes::new(&[0; 8], endian, 8, 0).count(), 0);
    assert_eq!(Notes::new(&[1; 8], endian, 8, 0).filter(Result::is_err).count(), 1);
}

#[test]
fn lying_headers_are_bounded() {
    let good = program(false, false, 2, 40, vec![sym("a", 0x2000, 4, GLOBAL_OBJECT, 2)]).build();
    let elf = Elf::open(good.clone()).unwrap();
    let shoff = u32::from_le_bytes(good[0x20..0x24].try_into().unwrap()) as usize;
    // e_phnum 65534.
    let mut bad = good.clone();
    bad[0x2C..0x2E].copy_from_slice(&[0xFE, 0xFF]);
    let lying = Elf::open(bad).unwrap();
    assert!(lying.segments().count() < 100);
    assert_eq!(lying.damage().len(), 1, "{:?}", lying.damage());
    // e_phentsize 0: the size of a program header is known.
    let mut bad = good.clone();
    bad[0x2A..0x2C].copy_from_slice(&[0, 0]);
    assert!(Elf::open(bad).unwrap().segments().eq(elf.segments()));
    // e_phoff 0: there is no table, whatever e_phnum is.
    let mut bad = good.clone();
    bad[0x1C..0x20].copy_from_slice(&[0; 4]);
    let without = Elf::open(bad).unwrap();
    assert_eq!((without.segments().count(), without.damage().len()), (0, 0));
    // e_shnum 0 and section 0 claims 4 billion.
    let mut bad = good.clone();
    bad[0x30..0x32].copy_from_slice(&[0, 0]);
    bad[shoff + 20..shoff + 24].copy_from_slice(&[0xFF; 4]);
    let lying = Elf::open(bad.clone()).unwrap();
    assert_eq!(lying.sections().count(), elf.sections().count());
    assert_eq!(lying.symbol("a").unwrap().address, 0x2000);
    // The same in a file that is large enough for more headers than any file has.
    bad.resize(11 << 20, 0);
    assert_eq!(Elf::open(bad).unwrap().sections().count(), MAX_HEADERS);
    // e_shoff past the end.
    let mut bad = good.clone();
    bad[0x20..0x24].copy_from_slice(&[0xF0, 0xFF, 0xFF, 0xFF]);
    let lying = Elf::open(bad).unwrap();
    assert_eq!((lying.sections().count(), lying.symbol("a"), lying.covering(0)), (0, None, None));
    assert!(lying.damage()[0].contains("section headers"), "{:?}", lying.damage());
    // Every header field of the symbol table in turn: huge.
    let symtab = elf.sections().find(|s| s.kind == SHT_SYMTAB).unwrap().index;
    for field in 0..10 {
        for value in [[0xFF; 4], [0; 4], [1, 0, 0, 0]] {
            let mut bad = good.clone();
            let at = shoff + 40 * symtab + 4 * field;
            bad[at..at + 4].copy_from_slice(&value);
            let lying = Elf::open(bad).unwrap();
            let _ = (lying.symbol("a"), lying.covering(0x2000), lying.symbols_with_prefix(""), lying.section(".text"));
        }
    }
    // entsize 0 is taken for the usual size; anything else is no table.
    let at = shoff + 40 * symtab + 36;
    let mut bad = good.clone();
    bad[at..at + 4].copy_from_slice(&[0; 4]);
    assert!(Elf::open(bad).unwrap().symbol("a").is_some());
    let mut bad = good.clone();
    bad[at..at + 4].copy_from_slice(&[7, 0, 0, 0]);
    assert!(Elf::open(bad).unwrap().symbol("a").is_none());
}

#[test]
fn cut_anywhere_nothing_panics() {
    for (wide, big) in SHAPES {
        let mut w = program(wide, big, 2, 40, vec![sym("a", 0x2000, 4, GLOBAL_OBJECT, 2)]);
        w.notes = vec![("GNU", 3, vec![1; 20])];
        let whole = w.build();
        for len in 0..whole.len() {
            let Ok(elf) = Elf::open(whole[..len].to_vec()) else { continue };
            let _ = (elf.symbol("a"), elf.covering(0x1000), elf.build_id(), elf.section(".bss"), elf.is_stripped());
            let _ = elf.segments().map(|s| elf.segment_bytes(&s).len()).sum::<usize>();
            assert!(!elf.damage().is_empty() || elf.sections().count() > 0);
        }
    }
}

#[test]
fn overlapping_string_tables_are_only_bytes() {
    // The names of sections and of symbols in one table, which begins inside the symbol table.
    let mut w = program(false, false, 2, 40, vec![sym("a", 0x2000, 4, GLOBAL_OBJECT, 2)]);
    w.sects.push(sect("x", 3, 0, 0, vec![b'a'; 3]));
    let bytes = w.build();
    let elf = Elf::open(bytes.clone()).unwrap();
    let strtab = elf.section(".strtab").unwrap();
    let symtab = elf.section(".symtab").unwrap();
    let shoff = u32::from_le_bytes(bytes[0x20..0x24].try_into().unwrap()) as usize;
    let mut bad = bytes;
    let at = shoff + 40 * strtab.index + 16;
    bad[at..at + 4].copy_from_slice(&(symtab.offset as u32).to_le_bytes());
    let elf = Elf::open(bad).unwrap();
    let _ = (elf.symbol("a"), elf.covering(0x2000));
}

proptest::proptest! {
    #[test]
    fn any_bytes_behind_a_magic_are_survived(
        mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 64..400),
        class in 1u8..3, order in 1u8..3,
    ) {
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4] = class;
        bytes[5] = order;
        let elf = Elf::open(bytes).unwrap();
        let _ = (elf.symbol("_tx_trace_header_ptr"), elf.covering(0x1000), elf.build_id(), elf.section(".text"));
        for s in elf.segments() {
            let _ = elf.segment_bytes(&s).len();
        }
        for s in elf.sections() {
            let _ = (elf.section_name(&s), elf.section_bytes(&s).len());
        }
    }
}

#[test]
fn what_begins_at_an_address_is_what_covers_it() {
    for (wide, big) in SHAPES {
        let elf = open(&program(
            wide,
            big,
            2,
            40,
            vec![
                sym("local", 0x1011, 8, LOCAL_FUNC, 1),
                sym("seen", 0x1011, 8, GLOBAL_FUNC, 1),
                sym("no_size", 0x1020, 0, GLOBAL_FUNC, 1),
                sym("end", 0x1040, 0, GLOBAL_FUNC, 1),
                sym("variable", 0x2010, 16, GLOBAL_OBJECT, 2),
            ],
        ));
        let asked = [0x2010, 0x1010, 0x1014, 0x1020, 0x1010, 0, 0x1040];
        let found: Vec<_> = elf.starting_at(&asked).into_iter().map(|s| s.map(|s| s.name)).collect();
        let covering: Vec<_> =
            asked.iter().map(|a| elf.covering(*a).filter(|s| s.address == *a).map(|s| s.name)).collect();
        assert_eq!(found, covering);
        let names: Vec<_> = found.iter().map(|n| n.as_deref().unwrap_or_default()).collect();
        assert_eq!(names, ["variable", "seen", "", "no_size", "seen", "", ""]);
    }
}

/// What is found in a long table, and which of several symbols, is the same as in a short one.
#[test]
fn a_long_table_is_as_a_short_one() {
    for (wide, big) in SHAPES {
        // The symbols that count are at both ends and around the middle.
        let mut syms = vec![sym("filler", 0x1030, 1, LOCAL_FUNC, 1); 66_001];
        let last = syms.len() - 1;
        for (at, symbol) in [
            (0, sym("both", 0x1001, 2, LOCAL_FUNC, 1)),
            (1, sym("once", 0x1005, 2, GLOBAL_FUNC, 1)),
            (2, sym("twice", 0x2000, 4, GLOBAL_OBJECT, 2)),
            (last / 2 - 1, sym("before", 0x1009, 2, LOCAL_FUNC, 1)),
            (last / 2, sym("middle", 0x100D, 2, LOCAL_FUNC, 1)),
            (last / 2 + 1, sym("behind", 0x1011, 2, LOCAL_FUNC, 1)),
            (last - 1, sym("twice", 0x2010, 4, GLOBAL_OBJECT, 2)),
            (last, sym("both", 0x1015, 2, GLOBAL_FUNC, 1)),
        ] {
            syms[at] = symbol;
        }
        let elf = open(&program(wide, big, 2, 40, syms));
        let names = ["both", "once", "twice", "before", "middle", "behind", "nowhere"];
        let found: Vec<_> = elf.lookup_many(&names).into_iter().map(|s| s.map(|s| s.address)).collect();
        let places = [0x1014, 0x1004, 0x2000, 0x1008, 0x100C, 0x1010];
        assert_eq!(found[..6], places.map(Some), "a global one, else the first");
        assert_eq!(found[6], None);
        let at: Vec<_> = elf.starting_at(&[0x1000, 0x1014, 0x1030, 0x2010, 0x1031]).into_iter().collect();
        let at: Vec<_> = at.iter().map(|s| s.as_ref().map(|s| s.name.as_str())).collect();
        assert_eq!(at, [Some("both"), Some("both"), Some("filler"), Some("twice"), None]);
    }
}

/// A section whose end is after all numbers was said to reach up to 18446744073709551615.
#[test]
fn an_end_that_no_file_has_was_printed() {
    let mut w = program(true, false, 2, 62, vec![]);
    let cut = |w: &Writer| open(w).cut_short();
    assert_eq!(cut(&w), None);
    w.sects[0].size = Some(u64::MAX);
    let text = cut(&w).unwrap();
    assert!(text.ends_with("1 of its sections have offsets that no file has: it is damaged"), "{text}");
    w.sects[1] = sect(".data", 1, 3, 0x2000, vec![]);
    w.sects[1].size = Some(1 << 20);
    let text = cut(&w).unwrap();
    assert!(text.contains("2 of its sections reach up to 10"), "{text}");
}
