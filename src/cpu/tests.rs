//! Every layout is stated here again, from the ports and the systems that write it.

use super::notes::from_prstatus;
use super::*;
use crate::abi::{Addr, Endian};
use crate::elf::tests::writer::{Writer, sect};
use crate::mem::{Memory, ReadError};

/// One stack.
pub(super) struct Stacked {
    base: Addr,
    bytes: Vec<u8>,
}

impl Memory for Stacked {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        let start = addr.checked_sub(self.base).map(|n| n as usize);
        let bytes = start.and_then(|s| self.bytes.get(s..s + buf.len()));
        buf.copy_from_slice(bytes.ok_or_else(|| ReadError::unmapped(addr, buf.len()))?);
        Ok(())
    }
}

pub(super) const STACK: Addr = 0x2000_1000;

pub(super) fn words32(words: &[u32], endian: Endian) -> Vec<u8> {
    let bytes = |w: &u32| match endian {
        Endian::Little => w.to_le_bytes(),
        Endian::Big => w.to_be_bytes(),
    };
    words.iter().flat_map(bytes).collect()
}

pub(super) fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

pub(super) fn stacked(bytes: Vec<u8>) -> Stacked {
    Stacked { base: STACK, bytes }
}

/// Where code is.
pub(super) fn code() -> CodeRanges {
    CodeRanges::from_text("8000-8fff")
}

pub(super) fn read(architecture: Architecture, bytes: Vec<u8>) -> Result<Saved, SavedError> {
    Frames::new(architecture, Endian::Little).read(&mut stacked(bytes), STACK, &code())
}

pub(super) fn stub(architecture: Architecture, endian: Endian, bytes: &[u8]) -> Registers {
    from_stub(architecture, endian, &bytes.iter().copied().map(Some).collect::<Vec<_>>())
}

pub(super) fn values(r: &Registers, names: &[&str]) -> Vec<Option<u64>> {
    names.iter().map(|n| r.get(n)).collect()
}

pub(super) fn some(values: &[u64]) -> Vec<Option<u64>> {
    values.iter().copied().map(Some).collect()
}

/// EXC_RETURN, r4-r11, r0-r3 r12 lr pc xpsr.
pub(super) fn cortex_m(exc_return: u32, xpsr: u32) -> Vec<u32> {
    let mut words = vec![exc_return, 4, 5, 6, 7, 8, 9, 10, 11, 0xA0, 0xA1, 0xA2, 0xA3, 0xAC];
    words.extend([0x8101, 0x8200, xpsr]);
    words
}

/// `struct elf_prstatus`: signals, then four ids, then four times, then the registers.
fn prstatus(wide: bool, size: usize, words: &[u64], endian: Endian) -> Vec<u8> {
    let mut out = vec![0; size];
    let pid = if wide { 32 } else { 24 };
    out[pid..pid + 4].copy_from_slice(&words32(&[4711], endian));
    let (at, bytes) = if wide {
        (112, words64(words))
    } else {
        (72, words32(&words.iter().map(|w| *w as u32).collect::<Vec<_>>(), endian))
    };
    out[at..at + bytes.len()].copy_from_slice(&bytes);
    out
}

fn numbered(count: u64) -> Vec<u64> {
    (0x100..0x100 + count).collect()
}

#[test]
fn notes_of_every_architecture() {
    type Row = (Architecture, bool, usize, u64, &'static [(&'static str, u64)]);
    let rows: &[Row] = &[
        (Architecture::CortexM, false, 148, 18, &[("r0", 0), ("r12", 12), ("sp", 13), ("pc", 15)]),
        (Architecture::Arm, false, 148, 18, &[("r0", 0), ("lr", 14), ("pc", 15), ("cpsr", 16)]),
        (Architecture::Aarch64, true, 392, 34, &[("x0", 0), ("x30", 30), ("sp", 31), ("pc", 32), ("cpsr", 33)]),
        (Architecture::Riscv32, false, 204, 32, &[("pc", 0), ("ra", 1), ("sp", 2), ("x8", 8), ("x31", 31)]),
        (Architecture::Riscv64, true, 376, 32, &[("pc", 0), ("ra", 1), ("sp", 2), ("x31", 31)]),
        (Architecture::X86, false, 144, 17, &[("ebx", 0), ("eax", 6), ("eip", 12), ("eflags", 14), ("esp", 15)]),
        (
            Architecture::X86_64,
            true,
            336,
            27,
            &[("r15", 0), ("rax", 10), ("rdi", 14), ("rip", 16), ("eflags", 18), ("rsp", 19), ("gs", 26)],
        ),
    ];
    for (architecture, wide, size, count, expected) in rows {
        let desc = prstatus(*wide, *size, &numbered(*count), Endian::Little);
        let (lwp, registers) = from_prstatus(*architecture, Endian::Little, &desc).unwrap();
        assert_eq!(lwp, 4711);
        for (name, index) in *expected {
            assert_eq!(registers.get(name), Some(0x100 + index), "{architecture:?} {name}");
        }
        assert!(registers.pc().is_some() && registers.sp().is_some());
        let cut = &desc[..if *wide { 112 } else { 72 } + 60];
        assert!(from_prstatus(*architecture, Endian::Little, cut).is_none(), "{architecture:?}");
    }
}

/// What QEMU writes for a Cortex-M is a CPSR: `exception 499` was read from it.
#[test]
fn the_status_word_of_another_profile_is_no_xpsr() {
    for (status, xpsr) in [(0x6100_0003, Some(0x6100_0003)), (0x6000_01F3, None), (0, None)] {
        let mut words = numbered(18);
        words[16] = status;
        let desc = prstatus(false, 148, &words, Endian::Little);
        let (_, registers) = from_prstatus(Architecture::CortexM, Endian::Little, &desc).unwrap();
        assert_eq!((registers.get("xpsr"), registers.pc()), (xpsr, Some(0x10F)), "{status:#x}");
        let (_, registers) = from_prstatus(Architecture::Arm, Endian::Little, &desc).unwrap();
        let turned = registers.as_cortex_m();
        assert_eq!((turned.get("xpsr"), turned.pc(), turned.sp()), (xpsr, Some(0x10F), Some(0x10D)), "{status:#x}");
    }
}

/// `lr` shows that it is an exception where `xpsr` does not; its `sp` is `msp`.
#[test]
fn an_exc_return_in_lr_was_no_exception() {
    for (xpsr, lr, main) in [
        (None, 0xFFFF_FFFD, true),
        (None, 0xFFFF_FFF1, true),
        (None, 0xFFFF_FFE1, true),
        (None, 0xFFFF_FFBC, true),
        // Thread mode on the main stack; after a reset; other code.
        (None, 0xFFFF_FFF9, false),
        (None, 0xFFFF_FFFF, false),
        (None, 0x0000_1D93, false),
        // The status register knows better.
        (Some(0x0100_0000), 0xFFFF_FFFD, false),
        (Some(0x0100_0003), 0xFFFF_FFF9, true),
    ] {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("sp", 0x2000_7FA0) && registers.set("lr", lr));
        xpsr.map(|xpsr| registers.set("xpsr", xpsr));
        registers.complete();
        assert_eq!(registers.get("msp"), main.then_some(0x2000_7FA0), "{xpsr:x?} {lr:#x}");
        assert_eq!(registers.needed().contains(&"psp"), main, "{xpsr:x?} {lr:#x}");
    }
}

/// A BE8 target: data big-endian, registers as QEMU sends them.
#[test]
fn be8_registers_that_came_little_endian() {
    let mut words = numbered(18);
    (words[15], words[16]) = (0x4010_0114, 0x6000_0213);
    for order in [Endian::Little, Endian::Big] {
        let mut desc = prstatus(false, 148, &words, order);
        desc[24..28].copy_from_slice(&4711u32.to_be_bytes());
        let (lwp, registers) = from_prstatus(Architecture::Arm, Endian::Big, &desc).unwrap();
        assert_eq!((lwp, registers.pc(), registers.get("r0")), (4711, Some(0x4010_0114), Some(0x100)), "{order:?}");
        let g: Vec<u8> = desc[72..72 + 68].to_vec();
        assert_eq!(stub(Architecture::Arm, Endian::Big, &g).pc(), Some(0x4010_0114), "{order:?}");
    }
    // An old big-endian target (BE32) has no such bit: the given order is used.
    words[16] = 0x6000_0013;
    let desc = prstatus(false, 148, &words, Endian::Big);
    assert_eq!(from_prstatus(Architecture::Arm, Endian::Big, &desc).unwrap().1.pc(), Some(0x4010_0114));
}

#[test]
fn a_stubs_registers() {
    let words: Vec<u32> = (0x100..0x111).collect();
    let g = words32(&words, Endian::Little);
    let r = stub(Architecture::CortexM, Endian::Little, &g);
    assert_eq!(values(&r, &["r0", "sp", "pc", "xpsr"]), some(&[0x100, 0x10D, 0x10F, 0x110]));
    // Without a description: eight registers of 12 bytes and a word come before the status.
    let mut old = words32(&words[..16], Endian::Little);
    old.extend([0xEE; 8 * 12 + 4]);
    old.extend(words32(&[0x6000_0013], Endian::Little));
    assert_eq!(stub(Architecture::Arm, Endian::Little, &old).get("cpsr"), Some(0x6000_0013));
    let short = stub(Architecture::CortexM, Endian::Little, &g[..18]);
    assert_eq!((short.get("r3"), short.get("r4"), short.pc()), (Some(0x103), None, None));
    let mut wide = words64(&numbered(33));
    wide.extend(words32(&[0x3C5], Endian::Little));
    let r = stub(Architecture::Aarch64, Endian::Little, &wide);
    assert_eq!((r.get("x30"), r.pc(), r.get("cpsr")), (Some(0x11E), Some(0x120), Some(0x3C5)));
    let x86 = [words64(&numbered(17)), words32(&[0x246, 0x33], Endian::Little)].concat();
    let r = stub(Architecture::X86_64, Endian::Little, &x86);
    assert_eq!(values(&r, &["rsp", "rip", "eflags", "cs"]), some(&[0x107, 0x110, 0x246, 0x33]));
    assert_eq!(r.get("ss"), None);
}

#[test]
fn registers_take_only_what_fits() {
    let mut r = Registers::new(Architecture::CortexM);
    assert!(r.is_unknown());
    assert!(r.set("r15", 0x8000) && r.set("PSP", 1) && r.set("d0", u64::MAX));
    assert!(!r.set("r4", 1 << 32) && !r.set("r16", 1) && !r.set("", 1));
    assert_eq!((r.pc(), r.get("pc"), r.get("psp"), r.get("r4")), (Some(0x8000), Some(0x8000), Some(1), None));
    let mut x86 = Registers::new(Architecture::X86_64);
    assert!(!x86.set("st0", 1), "no place for 80 bits");
    assert!(x86.set("pc", 7) && x86.get("rip") == Some(7) && x86.lr().is_none());
}

#[test]
fn numbers_grow_and_names_are_unique() {
    for architecture in Architecture::ALL {
        let registers = architecture.registers();
        let numbers: Vec<u16> = registers.iter().filter_map(Register::number).collect();
        assert!(numbers.windows(2).all(|w| w[0] < w[1]), "{architecture:?}");
        for r in registers {
            assert_eq!(registers.iter().filter(|o| o.name == r.name).count(), 1, "{}", r.name);
            assert_eq!(r.bytes() * 8, usize::from(r.bits));
        }
        assert_eq!(Architecture::named(architecture.name()), Some(architecture));
    }
}

#[test]
fn a_program_gives_its_architecture() {
    let of = |wide, machine| Architecture::of(&Elf::open(Writer::new(wide, false, 2, machine).build()).unwrap());
    assert_eq!(of(false, 40), Some(Architecture::Arm));
    assert_eq!((of(true, 183), of(false, 3)), (Some(Architecture::Aarch64), Some(Architecture::X86)));
    assert_eq!((of(false, 243), of(true, 243)), (Some(Architecture::Riscv32), Some(Architecture::Riscv64)));
    assert_eq!((of(true, 62), of(false, 20)), (Some(Architecture::X86_64), None));
    let mut m = Writer::new(false, false, 2, 40);
    let attributes = b"A\x13\0\0\0aeabi\0\x01\x09\0\0\0\x06\x0a\x07M";
    m.sects = vec![sect(".ARM.attributes", 0x7000_0003, 0, 0, attributes.to_vec())];
    assert_eq!(Architecture::of(&Elf::open(m.build()).unwrap()), Some(Architecture::CortexM));
}

/// A name in a note or a frame that is none of the registers is left out without a word.
#[test]
fn every_name_in_a_note_is_a_register() {
    for architecture in Architecture::ALL {
        let model = architecture.model();
        let names = table::words(model.note).flatten().chain(model.roles.into_iter().flatten());
        for name in names.chain(model.aliases.iter().map(|(_, own)| *own).filter(|own| *own != "xpsr")) {
            assert!(architecture.registers().iter().any(|r| r.name == name), "{architecture:?} {name}");
        }
    }
}

#[test]
fn values_have_an_origin() {
    let mut r = Registers::of(Architecture::CortexM, Origin::Core);
    assert!(r.set("xpsr", 0x0100_0003) && r.set_from(Origin::Given, "sp", 0x2000_7F00));
    r.complete();
    let origins = ["xpsr", "sp", "msp"].map(|name| r.value(name).map(|(_, origin)| origin));
    assert_eq!(origins, [Origin::Core, Origin::Given, Origin::Inferred].map(Some));
    let saved = read(Architecture::CortexM, words32(&cortex_m(0xFFFF_FFFD, 0x6100_0000), Endian::Little)).unwrap();
    assert!(saved.registers.known().all(|(_, (_, origin))| origin == Origin::Frame));
}

/// What a crash log prints goes into `--reg`.
#[test]
fn registers_of_faults_have_names() {
    let rows = [
        (
            Architecture::CortexM,
            "cfsr hfsr dfsr mmfar bfar sfsr sfar shcsr icsr ccr fpccr fpcar vtor psp msp psplim msplim control primask \
             basepri faultmask exc_return aircr shpr1 shpr2 shpr3",
        ),
        (Architecture::Riscv32, "mcause mepc mtval mstatus mie mip mtvec"),
        (Architecture::Riscv64, "mcause mepc mtval mstatus mie mip mtvec"),
        (Architecture::Arm, "dfsr dfar ifsr ifar"),
        (Architecture::Aarch64, "esr far elr"),
    ];
    for (architecture, names) in rows {
        for name in names.split_ascii_whitespace() {
            assert!(Registers::new(architecture).set(name, 0x8200), "{architecture:?} {name}");
            assert!(architecture.system_registers().contains(&name), "{name} is in an evidence core");
        }
    }
}

/// CPUID to BFAR.
fn system_control_block(cpuid: u32) -> Stacked {
    let words = [cpuid, 0x803, 0, 0xFA05_0000, 0, 0x200, 0, 0, 0x40FF_0000, 0x7_0000, 0x8200, 0x4000_0000, 0, 4, 8];
    Stacked { base: 0xE000_ED00, bytes: words32(&words, Endian::Little) }
}

/// Whether a register is there, `cpuid` shows; zeros and ones are no Cortex-M.
#[test]
fn what_is_no_system_control_block_was_a_fault() {
    for (cpuid, cfsr, shcsr) in [
        (0x410F_C231, true, true),
        (0x410F_D213, true, true),
        (0x410C_C601, false, true),
        (0, false, false),
        (0xFFFF_FFFF, false, false),
        (0x2000_0100, false, false),
    ] {
        let mut r = Registers::new(Architecture::CortexM);
        r.read_mapped(&mut system_control_block(cpuid));
        assert_eq!((r.get("cfsr").is_some(), r.get("shcsr").is_some()), (cfsr, shcsr), "{cpuid:#x}");
    }
    // What was typed stays.
    let mut r = Registers::new(Architecture::CortexM);
    assert!(r.set("cfsr", 1));
    r.read_mapped(&mut system_control_block(0));
    assert_eq!(r.get("cfsr"), Some(1));
}

/// COUNTFLAG of SYST_CSR, S_RESET_ST and S_RETIRE_ST of DHCSR are cleared by reading them; DCRSR, STIR and others are written.
#[test]
fn no_register_is_read_that_reading_changes() {
    let ranges = Architecture::CortexM.mapped().iter().chain(&INTERRUPT_STATE);
    for (start, len) in ranges {
        let end = start + *len as u64;
        assert!(*start >= 0xE000_E000 && end <= 0xE000_F000 && start % 4 == 0 && len % 4 == 0, "{start:#x}");
        for at in [0xE000_E010, 0xE000_EDF0, 0xE000_EDF4, 0xE000_EDF8, 0xE000_EF00, 0xE000_EF50] {
            assert!(at + 4 <= *start || at >= end, "{at:#x} is in {start:#x}..{end:#x}");
        }
    }
    assert_eq!(Architecture::CortexM.mapped().len(), 3);
    assert!(Architecture::Riscv32.mapped().is_empty());
}

/// SHCSR, CFSR, HFSR, DFSR, MMFAR, BFAR; and what was typed is not read over.
#[test]
fn fault_registers_are_read_from_memory() {
    let mut memory = system_control_block(0x410F_C231);
    let mut r = Registers::new(Architecture::CortexM);
    assert!(r.set("cfsr", 0x1_0000));
    r.read_mapped(&mut memory);
    assert_eq!(values(&r, &["shcsr", "cfsr", "hfsr", "mmfar", "bfar"]), some(&[0x7_0000, 0x1_0000, 0x4000_0000, 4, 8]));
    assert_eq!((r.value("bfar"), r.value("cfsr")), (Some((8, Origin::Read)), Some((0x1_0000, Origin::Given))));
    let mut none = Registers::new(Architecture::Riscv32);
    none.read_mapped(&mut memory);
    assert!(none.is_unknown());
    assert!(
        Architecture::Riscv64.system_registers().contains(&"mcause")
            && Architecture::Arm.system_registers() == ["spsr", "dfsr", "ifsr", "dfar", "ifar"]
    );
    assert!(Architecture::X86_64.system_registers().is_empty(), "a core's notes have them");
}
