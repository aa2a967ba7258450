//! Register values are stated here as the manuals have them.

use super::*;

fn registers(architecture: Architecture, values: &[(&str, u64)]) -> Registers {
    let mut registers = Registers::of(architecture, Origin::Read);
    assert!(values.iter().all(|(name, value)| registers.set(name, *value)), "{values:?}");
    registers
}

fn fault(architecture: Architecture, values: &[(&str, u64)]) -> Option<Fault> {
    registers(architecture, values).fault()
}

/// Names of the bits, of those of the fault that goes on, and the address.
type Said = (Vec<String>, Vec<String>, Option<(Addr, &'static str)>, Option<bool>);

fn said(fault: &Fault) -> Said {
    let names = |of: &dyn Fn(&&FaultBit) -> bool| fault.bits.iter().filter(of).map(|b| b.name.clone()).collect();
    (names(&|_| true), names(&|b| b.current == Some(true)), fault.address, fault.address_valid)
}

fn cortex_m(values: &[(&str, u64)]) -> Option<Fault> {
    fault(Architecture::CortexM, values)
}

const IN_THREAD: (&str, u64) = ("xpsr", 0x0100_0000);
const IN_HARD_FAULT: (&str, u64) = ("xpsr", 0x0100_0003);

#[test]
fn a_precise_bus_fault_that_became_a_hard_fault() {
    let values = [IN_HARD_FAULT, ("cfsr", 0x8200), ("hfsr", 0x4000_0000), ("bfar", 0xE020_0000)];
    let fault = cortex_m(&values).unwrap();
    assert_eq!((fault.name, fault.current), (Some("HardFault"), Some(true)));
    let all = ["FORCED", "PRECISERR", "BFARVALID"].map(str::to_owned).to_vec();
    assert_eq!(said(&fault), (all.clone(), all, Some((0xE020_0000, "bfar")), Some(true)));
    assert_eq!(fault.line(), "HardFault: its handler runs; FORCED, PRECISERR, BFARVALID; address 0xe0200000 (bfar)");
}

#[test]
fn bits_of_an_earlier_fault_are_no_current_fault() {
    // In a thread.
    let fault = cortex_m(&[IN_THREAD, ("cfsr", 0x8200), ("bfar", 4)]).unwrap();
    assert_eq!((fault.current, fault.bits[0].current), (Some(false), Some(false)));
    assert!(fault.line().starts_with("no fault handler runs: recorded since"), "{}", fault.line());
    // In the handler of another fault: UsageFault, with bits of a bus fault beside it.
    let fault = cortex_m(&[("xpsr", 0x0100_0006), ("cfsr", 0x0200_8200), ("hfsr", 0), ("bfar", 4)]).unwrap();
    assert_eq!(said(&fault).1, ["DIVBYZERO"]);
    // In an interrupt; shcsr shows whether it interrupted the handler of a fault.
    let in_irq = ("xpsr", 0x0100_0024);
    assert_eq!(cortex_m(&[in_irq, ("cfsr", 0x200)]).unwrap().current, None);
    assert_eq!(cortex_m(&[in_irq, ("cfsr", 0x200), ("shcsr", 0x7_0000)]).unwrap().current, Some(false));
    let fault = cortex_m(&[in_irq, ("cfsr", 0x200), ("shcsr", 2)]).unwrap();
    assert_eq!((fault.name, fault.current), (Some("BusFault"), Some(true)));
    // An NMI during a HardFault.
    assert_eq!(cortex_m(&[("xpsr", 0x0100_0002), ("cfsr", 0x200), ("shcsr", 0)]).unwrap().current, None);
    // Nothing shows what the CPU does.
    let fault = cortex_m(&[("cfsr", 0x200)]).unwrap();
    assert_eq!((fault.current, fault.bits[0].current), (None, None));
    assert!(fault.line().contains("is not known"), "{}", fault.line());
}

#[test]
fn an_address_is_shown_only_where_it_is_valid() {
    let address = |values: &[(&str, u64)]| {
        let fault = cortex_m(values).unwrap();
        (fault.address, fault.address_valid)
    };
    let (mm, bus) = (("mmfar", 0x10), ("bfar", 0x20));
    assert_eq!(address(&[("cfsr", 0x0200), mm, bus]), (None, Some(false)), "PRECISERR without BFARVALID");
    assert_eq!(address(&[("cfsr", 0x0400), mm, bus]), (None, None), "IMPRECISERR has none");
    assert_eq!(address(&[("cfsr", 0x0082), mm, bus]), (Some((0x10, "mmfar")), Some(true)));
    assert_eq!(address(&[("cfsr", 0x8200)]), (None, None), "bfar was not read");
    // Both: that of the handler that runs.
    let both = [("cfsr", 0x8282), mm, bus];
    assert_eq!(address(&[&both[..], &[("xpsr", 0x0100_0004), ("hfsr", 0)]].concat()).0, Some((0x10, "mmfar")));
    assert_eq!(address(&[&both[..], &[("xpsr", 0x0100_0005), ("hfsr", 0)]].concat()).0, Some((0x20, "bfar")));
    assert_eq!(address(&[("sfsr", 0x48), ("sfar", 0x30)]), (Some((0x30, "sfar")), Some(true)));
}

#[test]
fn no_fault_is_invented() {
    for values in [
        &[][..],
        &[IN_THREAD],
        &[IN_HARD_FAULT],
        &[IN_THREAD, ("cfsr", 0), ("hfsr", 0), ("bfar", 0xE000_ED38), ("fpccr", 0xC000_0001)],
        // A debugger halted it.
        &[IN_THREAD, ("cfsr", 0), ("hfsr", 0), ("dfsr", 1)],
    ] {
        assert_eq!(cortex_m(values), None, "{values:?}");
    }
    // What was typed is shown.
    let mut typed = registers(Architecture::CortexM, &[]);
    assert!(typed.set_from(Origin::Given, "dfsr", 2));
    assert_eq!(typed.fault().unwrap().bits[0].name, "BKPT");
    // In a handler after it cleared its bits.
    let fault = cortex_m(&[IN_HARD_FAULT, ("cfsr", 0), ("hfsr", 0)]).unwrap();
    assert_eq!(fault.line(), "HardFault: its handler runs; nothing is recorded");
    // QEMU at a breakpoint instruction without a debugger.
    let fault = cortex_m(&[IN_HARD_FAULT, ("cfsr", 0), ("hfsr", 0x4000_0000), ("dfsr", 0)]).unwrap();
    assert!(fault.bits[0].words.contains("breakpoint instruction"), "{:?}", fault.bits);
}

#[test]
fn every_bit_of_the_manual_has_words() {
    let bits = |name: &str, value| cortex_m(&[(name, value)]).map_or(0, |fault| fault.bits.len());
    let count = |name: &str, mask: u64| {
        for bit in (0..32).map(|n| 1u64 << n).filter(|bit| mask & bit != 0) {
            assert_eq!(bits(name, bit), 1, "{name} {bit:#x}");
        }
        assert_eq!(bits(name, mask), mask.count_ones() as usize, "{name}");
        assert_eq!(bits(name, !mask & 0xFFFF_FFFF), 0, "{name}");
    };
    count("cfsr", 0x031F_BFBB);
    count("hfsr", 0xC000_0002);
    count("sfsr", 0xFF);
}

#[test]
fn traps_of_a_riscv() {
    let of = |values: &[(&str, u64)]| fault(Architecture::Riscv32, values);
    let found = of(&[("mcause", 7), ("mepc", 0x8000_0100), ("mtval", 0x10), ("mstatus", 0x1800)]).unwrap();
    assert_eq!(said(&found), (vec!["cause 7".to_owned()], vec![], Some((0x10, "mtval")), Some(true)));
    assert_eq!((found.current, found.registers.len()), (None, 4));
    assert!(found.bits[0].words.starts_with("store or AMO access fault"), "{found:?}");
    assert_eq!(of(&[("mcause", 5), ("mtval", 0)]).unwrap().address, None, "mtval may be 0 always");
    assert_eq!(of(&[("mcause", 2), ("mtval", 0xFFFF)]).unwrap().address, None, "the instruction");
    // An interrupt, a call, a breakpoint, a reset.
    for none in [0x8000_0007, 11, 3, 0] {
        assert_eq!(of(&[("mcause", none)]), None, "{none:#x}");
    }
    assert!(of(&[("mcause", 0), ("mepc", 2)]).is_some());
    assert_eq!(fault(Architecture::Riscv64, &[("mcause", 1 << 63 | 7)]), None);
    assert!(fault(Architecture::Riscv64, &[("mcause", 0x8000_0007)]).is_some(), "bit 31 is no mark in 64 bits");
}

/// Of registers that were typed, those of a reset were a jump to an address that is not aligned.
#[test]
fn the_registers_of_a_reset_were_a_fault() {
    let general = "ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6";
    let reset = |sp| {
        let mut registers = registers(Architecture::Riscv32, &[]);
        for name in general.split(' ').chain(["mcause", "mepc", "mtval"]) {
            assert!(registers.set_from(Origin::Given, name, 0), "{name}");
        }
        assert!(registers.set("sp", sp) && registers.set("pc", 0x1000));
        registers
    };
    assert!(reset(0).is_at_reset() && reset(0).fault().is_none());
    assert!(!reset(0x8002_0000).is_at_reset() && reset(0x8002_0000).fault().is_some(), "it ran");
    assert!(!registers(Architecture::Riscv32, &[("mcause", 0)]).is_at_reset(), "not known");
}

#[test]
fn aborts_of_an_arm() {
    let of = |values: &[(&str, u64)]| fault(Architecture::Arm, values);
    let abort = ("cpsr", 0x17);
    let found = of(&[abort, ("dfsr", 0x805), ("dfar", 0x30), ("ifsr", 0)]).unwrap();
    assert_eq!(said(&found).2, Some((0x30, "dfar")));
    assert_eq!((found.current, found.name), (Some(true), Some("abort")));
    assert_eq!(found.bits[0].words, "data abort at a write: translation fault, first level");
    // Both kinds are recorded: which of them goes on is not known.
    let found = of(&[abort, ("dfsr", 0x805), ("dfar", 0x30), ("ifsr", 5), ("ifar", 0x40)]).unwrap();
    assert_eq!((found.bits.len(), found.bits[0].current, found.address), (2, None, None));
    assert_eq!(of(&[abort, ("dfsr", 0x1C06), ("dfar", 0x30)]).unwrap().address_valid, Some(false), "asynchronous");
    assert_eq!(of(&[abort, ("dfsr", 0x206 | 0x800), ("dfar", 0x30)]).unwrap().address, Some((0x30, "dfar")), "long");
    // A supervisor's mode, and what no abort leaves.
    assert_eq!(of(&[("cpsr", 0x13), ("dfsr", 0x805)]), None);
    assert_eq!(of(&[abort, ("dfsr", 0), ("ifsr", 0)]), None);
    assert_eq!(of(&[("dfsr", 0x805)]).unwrap().current, None);
}

#[test]
fn exceptions_of_an_aarch64() {
    let of = |values: &[(&str, u64)]| fault(Architecture::Aarch64, values);
    let found = of(&[("esr", 0x9600_0045), ("far", 0x10), ("elr", 0x4000_0000)]).unwrap();
    assert_eq!(found.bits[0].words, "data abort at a write: translation fault, level 1");
    assert_eq!((found.address, found.current), (Some((0x10, "far")), None));
    assert_eq!(of(&[("esr", 0x9600_0445), ("far", 0x10)]).unwrap().address_valid, Some(false), "FnV");
    assert_eq!(of(&[("esr", 0x0200_0000)]).unwrap().bits[0].name, "EC 0x00");
    assert_eq!((of(&[("esr", 0)]), of(&[("esr", 0x5600_0000)])), (None, None), "reset, SVC");
    let name = |cpsr| registers(Architecture::Aarch64, &[("cpsr", cpsr)]).banked_name("esr");
    assert_eq!([name(0x3C5), name(0x3CD), name(0)], ["ESR_EL1", "ESR_EL3", "ESR_EL1"].map(|n| Some(n.to_owned())));
}

fn doubt(values: &[(&str, u64)]) -> FrameDoubt {
    registers(Architecture::CortexM, values).frame_doubt(0x2000_0100)
}

#[test]
fn what_is_said_against_a_frame() {
    assert!(doubt(&[]).words().is_empty() && doubt(&[("cfsr", 0x8200), ("fpccr", 0xC000_0000)]).words().is_empty());
    assert_eq!(doubt(&[("cfsr", 0x1000)]).words(), ["STKERR: the exception frame may not have been written"]);
    assert_eq!(doubt(&[("cfsr", 0x10_0010)]).not_written, ["MSTKERR", "STKOF"]);
    assert_eq!(doubt(&[("cfsr", 0x2000)]).floats_stale, ["LSPERR"]);
    let stale = ["LSPACT: s0 to s15 in the exception frame are stale"];
    assert_eq!(doubt(&[("fpccr", 1)]).words(), stale);
    assert_eq!(doubt(&[("fpccr", 1), ("fpcar", 0x2000_0120)]).words(), stale);
    assert!(doubt(&[("fpccr", 1), ("fpcar", 0x2000_0220)]).words().is_empty(), "another frame");
}
