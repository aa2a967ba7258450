use super::*;
use crate::elf::tests::writer::{GLOBAL_OBJECT, SHAPES, Sect, Seg, Writer, load, sect, sym};

fn core_of(w: &Writer) -> Core {
    Core::open(Elf::open(w.build()).unwrap()).unwrap()
}

fn refused(w: &Writer) -> String {
    Core::open(Elf::open(w.build()).unwrap()).err().unwrap().to_string()
}

fn get(core: &mut Core, addr: Addr, len: usize) -> Result<Vec<u8>, Addr> {
    core.read_bytes(addr, len).map(|b| b.to_vec()).map_err(|e| e.addr)
}

/// As GDB writes it: the note header first, its bytes last; an overlap over all; an empty segment at nonsense.
fn gdb_core(wide: bool, big: bool) -> Writer {
    let mut w = Writer::new(wide, big, 4, 40);
    w.segs = vec![
        load(0x1000, 5, vec![1; 16]),
        load(0x2000, 6, vec![2; 16]),
        Seg { memsz: Some(0), ..load(0xDEAD_BEE0, 6, vec![]) },
        load(0x0FF0, 6, vec![9; 0x1100]),
    ];
    w.notes = vec![("CORE", 1, vec![0x11; 148]), ("CORE", 1, vec![0x22; 148]), ("GDB", 0xFF00_0000, vec![0; 3])];
    w
}

#[test]
fn a_core_of_gdb_in_both_classes_and_orders() {
    for (wide, big) in SHAPES {
        let mut core = core_of(&gdb_core(wide, big));
        assert_eq!(get(&mut core, 0x0FFE, 4), Ok(vec![9, 9, 1, 1]), "the smaller segment wins");
        assert_eq!(get(&mut core, 0x200E, 4), Ok(vec![2, 2, 9, 9]));
        assert_eq!(get(&mut core, 0x20EF, 2), Err(0x20F0));
        assert_eq!(get(&mut core, 0xDEAD_BEE0, 1), Err(0xDEAD_BEE0));
        assert_eq!(core.threads().iter().map(|(d, _)| (d.len(), d[0])).collect::<Vec<_>>(), [(148, 0x11), (148, 0x22)]);
        assert_eq!(core.missing_bytes(), 0);
        assert_eq!(core.remarks(), ["segments of the core overlap by 32 bytes: the smaller one is read"]);
        assert!(core.entry().is_none() && core.mapped_files().is_empty());
    }
}

#[test]
fn a_core_of_an_older_qemu_has_physical_addresses_alone() {
    for (wide, big) in SHAPES {
        let mut w = Writer::new(wide, big, 4, 40);
        let at = |paddr, byte| Seg { paddr: Some(paddr), ..load(0, 0, vec![byte; 16]) };
        w.segs = vec![at(0, 1), at(0x2000_0000, 2), at(0x2100_0000, 3)];
        let mut core = core_of(&w);
        assert_eq!(get(&mut core, 0, 1), Ok(vec![1]));
        assert_eq!(get(&mut core, 0x2000_000F, 1), Ok(vec![2]));
        assert_eq!(core.remarks(), ["the core has no virtual addresses: physical addresses are used"]);
        // A later one has both, and a program at 0 is no such core.
        w.segs = vec![at(0, 1), load(0x2000_0000, 0, vec![2; 16])];
        assert!(core_of(&w).remarks().is_empty());
    }
}

/// Two segments of 2^63 bytes each that are not in the file were 0 bytes together, and nothing was missing.
#[test]
fn bytes_that_are_missing_were_summed_to_0() {
    let mut w = Writer::new(true, false, 4, 62);
    w.segs = vec![
        load(0x1000, 6, vec![7; 16]),
        Seg { filesz: Some(1 << 63), memsz: Some(1 << 63), ..load(0x10_0000, 6, vec![]) },
        Seg { filesz: Some(1 << 63), memsz: Some(1 << 63), ..load(0x20_0000, 6, vec![]) },
    ];
    assert!(core_of(&w).missing_bytes() >= (1 << 64) - 32);
}

#[test]
fn what_the_kernel_left_out_is_a_gap() {
    let mut w = Writer::new(true, false, 4, 62);
    w.segs = vec![
        Seg { memsz: Some(0x1000), ..load(0x40_0000, 5, vec![]) },
        Seg { memsz: Some(0x1000), ..load(0x60_0000, 6, vec![7; 0x100]) },
    ];
    let mut core = core_of(&w);
    assert_eq!(get(&mut core, 0x40_0000, 4), Err(0x40_0000));
    assert_eq!(get(&mut core, 0x60_00FF, 2), Err(0x60_0100), "no zeros behind the bytes in the file");
}

#[test]
fn a_core_cut_short_is_read_as_far_as_it_goes() {
    let mut w = Writer::new(false, false, 4, 40);
    w.segs = vec![load(0x1000, 6, vec![1; 0x100]), load(0x2000, 6, vec![2; 0x100])];
    w.notes = vec![("CORE", 1, vec![0; 148])];
    let whole = w.build();
    let header = 52 + 32 * 3;
    let cut = Elf::open(whole[..header + 0x180].to_vec()).unwrap();
    let mut core = Core::open(cut).unwrap();
    assert_eq!(core.missing_bytes(), 0x80);
    assert_eq!(get(&mut core, 0x2070, 0x10), Ok(vec![2; 0x10]));
    assert_eq!(get(&mut core, 0x2070, 0x11), Err(0x2080));
    assert_eq!(core.remarks().len(), 1, "{:?}", core.remarks());
    assert!(core.remarks()[0].contains("notes are damaged"));
    // Cut off before any memory, and at every other place.
    let none = Core::open(Elf::open(whole[..header].to_vec()).unwrap()).err().unwrap().to_string();
    assert!(none.contains("512 bytes"), "{none}");
    for len in 52..whole.len() {
        if let Ok(mut core) = Core::open(Elf::open(whole[..len].to_vec()).unwrap()) {
            let _ = (get(&mut core, 0x1000, 0x100), core.threads().len(), core.remarks().len());
        }
    }
}

#[test]
fn what_is_no_core_says_so() {
    assert!(refused(&Writer::new(false, true, 2, 20)).contains("32-bit big-endian PowerPC"));
    assert!(refused(&Writer::new(false, false, 4, 40)).contains("no PT_LOAD"));
    let mut w = Writer::new(false, false, 4, 40);
    w.segs = vec![Seg { memsz: Some(0x1000), ..load(0x1000, 5, vec![]) }];
    assert!(refused(&w).contains("all of its 1 segments are empty"));
}

#[test]
fn sizes_that_lie_are_bounded() {
    for (wide, big) in SHAPES {
        let mut w = Writer::new(wide, big, 4, 40);
        let top = if wide { u64::MAX } else { 0xFFFF_FFFF };
        w.segs = vec![
            Seg { filesz: Some(top), memsz: Some(top), ..load(0x1000, 6, vec![1; 16]) },
            Seg { offset: Some(top - 3), ..load(0x2000, 6, vec![2; 16]) },
            Seg { filesz: Some(16), ..load(top - 7, 6, vec![3; 16]) },
        ];
        let mut core = core_of(&w);
        assert_eq!(get(&mut core, 0x1000, 16), Ok(vec![1; 16]));
        assert_eq!(get(&mut core, top - 7, 8).map(|b| b.len()), Ok(8));
        assert!(get(&mut core, top - 7, 9).is_err(), "past the end of the address space");
        assert!(core.missing_bytes() > 0);
    }
}

/// A core with an auxiliary vector and the list of mapped files.
fn linux_core(wide: bool, big: bool, entry: Option<u64>, page: Vec<u8>) -> Writer {
    let mut w = Writer::new(wide, big, 4, 62);
    let (mut auxv, mut files) = (vec![], vec![]);
    for (kind, value) in [(6, 4096)].into_iter().chain(entry.map(|e| (9, e))).chain([(0, 0), (9, 1)]) {
        w.word(&mut auxv, kind);
        w.word(&mut auxv, value);
    }
    for n in [2, 4096, 0x5000_0000, 0x5000_1000, 0, 0x5000_1000, 0x5000_3000, 1] {
        w.word(&mut files, n);
    }
    files.extend(b"/bin/app\0/bin/app\0");
    w.notes = vec![("CORE", 6, auxv), ("CORE", 0x4649_4C45, files)];
    w.segs = vec![load(0x5000_0000, 4, page), load(0x5000_1000, 6, vec![0; 16])];
    w
}

fn pie(wide: bool, big: bool) -> Writer {
    let mut w = Writer::new(wide, big, 3, 62);
    w.entry = 0x1040;
    w.segs = vec![
        Seg { offset: Some(0), filesz: Some(64), ..load(0, 4, vec![]) },
        load(0x1000, 5, vec![0xCC; 0x80]),
        load(0x2000, 6, vec![0xDD; 0x10]),
    ];
    w.notes = vec![("GNU", 3, vec![0xB1; 20])];
    w.syms = vec![sym("x", 0x2000, 4, GLOBAL_OBJECT, 0xFFF1)];
    w
}

#[test]
fn the_load_offset_by_entry_point() {
    for (wide, big) in SHAPES {
        let elf = Elf::open(pie(wide, big).build()).unwrap();
        let mut core = core_of(&linux_core(wide, big, Some(0x5000_1040), vec![0; 16]));
        assert_eq!(core.entry(), Some(0x5000_1040));
        let (offset, how) = core.load_offset(&elf).unwrap();
        assert_eq!(offset, 0x5000_0000);
        assert!(how.contains("AT_ENTRY"));
        let files = core.mapped_files();
        assert_eq!(files.len(), 2);
        assert_eq!((files[1].start, files[1].end, files[1].offset), (0x5000_1000, 0x5000_3000, 4096));
        assert_eq!(files[1].path, "/bin/app");
        // Another build's entry point: no offset rather than a wrong one.
        let mut core = core_of(&linux_core(wide, big, Some(0x5000_1044), vec![0; 16]));
        assert_eq!(core.load_offset(&elf), None);
        // Loaded below where it was linked.
        let mut low = pie(wide, big);
        low.entry = 0x6000_1040;
        let mut core = core_of(&linux_core(wide, big, Some(0x5000_1040), vec![0; 16]));
        let (offset, _) = core.load_offset(&Elf::open(low.build()).unwrap()).unwrap();
        assert_eq!(offset, 0u64.wrapping_sub(0x1000_0000) & elf.width().max());
    }
}

#[test]
fn the_load_offset_by_build_id() {
    let elf = Elf::open(pie(true, false).build()).unwrap();
    // What the kernel dumps of a mapped program: the first page, with the ELF header and the notes in it.
    let mut page = pie(true, false).build();
    page.resize(4096, 0);
    let mut core = core_of(&linux_core(true, false, None, page));
    let (offset, how) = core.load_offset(&elf).unwrap();
    assert_eq!(offset, 0x5000_0000);
    assert!(how.contains("build id"));
}

#[test]
fn a_fixed_program_has_no_load_offset() {
    let mut fixed = pie(true, false);
    fixed.kind = 2;
    let elf = Elf::open(fixed.build()).unwrap();
    let mut core = core_of(&linux_core(true, false, Some(0x5000_1040), vec![0; 16]));
    assert_eq!(core.load_offset(&elf).map(|o| o.0), Some(0));
}

#[test]
fn a_core_of_another_machine_is_named() {
    let core = core_of(&linux_core(true, false, None, vec![0; 16]));
    let mut other = Writer::new(false, true, 2, 20);
    other.segs = vec![load(0x1000, 5, vec![1])];
    let text = core.disagreement(&Elf::open(other.build()).unwrap()).unwrap();
    assert!(text.starts_with("this core is of 64-bit little-endian x86-64, the ELF is 32-bit big-endian PowerPC"));
    assert!(text.contains("the emulator (qemu) itself"), "{text}");
    assert_eq!(core.disagreement(&Elf::open(pie(true, false).build()).unwrap()), None);
}

#[test]
fn only_readonly_segments_of_a_program_are_memory() {
    for (wide, big) in SHAPES {
        let elf = Elf::open(pie(wide, big).build()).unwrap();
        let mut memory = elf_readonly(&elf, 0x5000_0000);
        assert_eq!(&*memory.read_bytes(0x5000_1000, 4).unwrap(), [0xCC; 4]);
        assert!(memory.read_bytes(0x5000_2000, 4).is_err(), "initial values are not memory");
        assert!(memory.read_bytes(0x1000, 4).is_err());
    }
}

/// A RISC-V program in RAM has one segment that is writable: without its code no loop and no instruction was known.
#[test]
fn code_in_a_writable_segment_was_not_memory() {
    for (wide, big) in SHAPES {
        let mut w = Writer::new(wide, big, 2, 243);
        w.segs = vec![load(0x1000, 7, vec![7; 64])];
        let sect = |name, flags, at| Sect { size: Some(16), ..sect(name, 1, flags, at, vec![9; 16]) };
        w.sects = vec![sect(".text", 6, 0x1000), sect(".rodata", 2, 0x1010), sect(".data", 3, 0x1020)];
        let read = |w: &Writer, at| {
            let mut memory = elf_readonly(&Elf::open(w.build()).unwrap(), 0);
            memory.read_bytes(at, 4).map(|bytes| bytes.to_vec()).ok()
        };
        assert_eq!([read(&w, 0x1000), read(&w, 0x1010)], [Some(vec![9; 4]), Some(vec![9; 4])]);
        assert_eq!([read(&w, 0x1020), read(&w, 0x1030)], [None, None], "variables");
        w.sects.push(sect(".overlay", 6, 0x1008));
        assert_eq!([read(&w, 0x1000), read(&w, 0x1010)], [None, None], "sections that take turns");
    }
}

#[test]
fn lying_notes_are_bounded() {
    for (count, page) in [(u64::MAX, 1), (3, u64::MAX), (0, 0)] {
        let mut w = Writer::new(true, false, 4, 62);
        let mut files = vec![];
        for n in [count, page, 1, 2, 3] {
            w.word(&mut files, n);
        }
        w.notes = vec![("CORE", 0x4649_4C45, files), ("CORE", 6, vec![9; 15])];
        w.segs = vec![load(0x1000, 6, vec![1])];
        let core = core_of(&w);
        assert!(core.mapped_files().len() <= 1);
        assert_eq!(core.entry(), None);
    }
}

/// GDB's core of a bare-metal target: a stack segment guessed over all, 275 GB long, 1 MB on disk.
#[cfg(all(unix, target_pointer_width = "64"))]
#[test]
fn a_sparse_core_of_275_gb_is_only_windowed() {
    use std::os::unix::fs::FileExt;

    use crate::mem::map::FileMap;

    const HUGE: u64 = 275_000_000_000;
    let mut w = Writer::new(true, true, 4, 22);
    let guess = Seg { filesz: Some(HUGE), memsz: Some(HUGE), offset: Some(0x1_0000), ..load(0, 6, vec![]) };
    w.segs = vec![load(0x4000_0000, 6, vec![5; 64]), guess];
    let path = std::env::temp_dir().join(format!("tx-trace-huge-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(&w.build(), 0).unwrap();
    let Ok(()) = file.set_len(0x1_0000 + HUGE) else {
        println!("SKIPPED: the temporary directory takes no file of 275 GB");
        return;
    };
    file.write_all_at(&[6; 16], 0x1_0000 + 0x8000_0000).unwrap();
    let map = std::sync::Arc::new(FileMap::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let mut core = Core::open(Elf::open(std::sync::Arc::clone(&map)).unwrap()).unwrap();
    assert_eq!(get(&mut core, 0x4000_0000, 64), Ok(vec![5; 64]));
    assert_eq!(get(&mut core, 0x8000_0000, 16), Ok(vec![6; 16]));
    assert_eq!(core.read_bytes(0x8000_0000, 100_000_000_000).map(|b| b.len()).unwrap(), 100_000_000_000);
    assert_eq!(core.missing_bytes(), 0);
    let search = core.segments.clone().with_data(map.data_ranges()).searchable();
    let len: u64 = search.iter().map(|r| r.len).sum();
    assert!(len < 1 << 20 || map.data_ranges().len() == 1, "only {len} bytes to search");
    assert!(search.iter().any(|r| r.start <= 0x8000_0000 && 0x8000_0010 <= r.start + r.len));
}

/// `objcopy --only-keep-debug` leaves program headers whose bytes are others by now: they were read as code.
#[test]
fn segments_of_an_elf_of_debug_information_alone_are_no_memory() {
    for (wide, big) in SHAPES {
        let mut w = Writer::new(wide, big, 2, 40);
        w.segs = vec![load(0x1000, 5, vec![7; 64]), load(0x2000, 4, vec![8; 64])];
        let read = |w: &Writer, at| {
            let mut memory = elf_readonly(&Elf::open(w.build()).unwrap(), 0);
            memory.read_bytes(at, 4).map(|b| b.to_vec()).map_err(|e| e.addr)
        };
        assert_eq!([read(&w, 0x1000), read(&w, 0x2000)], [Ok(vec![7; 4]), Ok(vec![8; 4])]);
        let section = |kind, at| Sect { size: Some(64), ..sect(".text", kind, 6, at, vec![]) };
        w.sects = vec![section(8, 0x1000), section(1, 0x2000)];
        assert_eq!([read(&w, 0x1000).is_err(), read(&w, 0x2000).is_ok()], [true, true]);
        // What a program clears as it starts follows the bytes, and takes none of them away.
        w.sects = vec![section(8, 0x1040), section(1, 0x2000)];
        assert_eq!(read(&w, 0x1000), Ok(vec![7; 4]));
    }
}
