//! Which of several places is named.

use super::chosen::{Hints, the_place};
use super::*;
use crate::cpu::{Registers, Size};
use crate::session::Places;

/// Where the instruction accesses no memory.
const HARMLESS: Addr = 0x710;

fn place(pc: Addr, xpsr: u64, effect: Option<Effect>) -> Place {
    let mut registers = Registers::new(Architecture::CortexM);
    assert!(registers.set("pc", pc) && registers.set("xpsr", xpsr));
    Place {
        frame: 0,
        registers,
        within: None,
        functions: Vec::new(),
        callers: Vec::new(),
        effect,
        is_outside_code: false,
    }
}

fn placed(all: Vec<Place>) -> Option<Addr> {
    placed_of(Registers::new(Architecture::CortexM), all, &Cpus::default())
}

fn placed_of(registers: Registers, all: Vec<Place>, cpus: &Cpus) -> Option<Addr> {
    let cpu = CpuState {
        core: 0,
        registers,
        under: None,
        exception: None,
        functions: Vec::new(),
        effect: None,
        in_loop: None,
        polling: None,
        is_outside_code: false,
        interrupted: Some(Places { exception: Some(3), by: String::new(), all, is_certain: false, remarks: vec![] }),
        failed: None,
        interrupts: None,
        stored_faults: Vec::new(),
    };
    let hints = Hints { saved: vec![(0x40, 0x2000_0400)], held: Some((0x60, "r0")), harmless: vec![HARMLESS] };
    the_place(&cpu, cpu.registers.fault().as_ref(), cpus, &hints)?.registers.pc()
}

/// A frame that a switch of threads had left was named as the place of a fault.
#[test]
fn of_places_that_differ_only_one_that_can_have_failed_is_named() {
    let switched = || place(0x720, THUMB, None);
    let stored = |pc| place(pc, THUMB, Some(Effect::Write(0xE030_0000, Size::any(4))));
    assert_eq!(placed(vec![switched(), place(0, 0, None)]), Some(0), "a call through a null pointer");
    assert_eq!(placed(vec![switched(), stored(0x200)]), Some(0x200));
    assert_eq!(placed(vec![stored(0x200), stored(0x300)]), None);
    assert_eq!(placed(vec![stored(0x200), stored(0x200)]), Some(0x200));
    assert_eq!(placed(vec![switched(), place(0x730, THUMB, None)]), None);
    assert_eq!(placed(vec![switched()]), Some(0x720), "there is no other");
}

/// A tick that came behind an instruction which enables interrupts was named as the place of a fault.
#[test]
fn where_no_memory_is_accessed_was_the_place_of_a_fault() {
    let harmless = || place(HARMLESS, THUMB, None);
    assert_eq!(placed(vec![harmless()]), None, "it may be that of an imprecise bus fault");
    assert_eq!(placed(vec![harmless(), place(0x730, THUMB, None)]), None, "what that one does is not known");
    assert_eq!(placed(vec![harmless(), place(0x740, THUMB, Some(Effect::DivideByZero))]), Some(0x740));
    let divides = || place(0x750, THUMB, Some(Effect::Divide(None)));
    assert_eq!(placed(vec![harmless(), divides()]), Some(0x750), "no other can have failed");
    assert_eq!(placed(vec![divides(), place(0x730, THUMB, None)]), None);
    let saved = Place { frame: 0x40, ..harmless() };
    assert_eq!(placed(vec![place(0x730, THUMB, None), saved]), Some(HARMLESS), "its handler saved it");
}

/// A return to no code was named, by words that an older call had left: the handler had the address of those of a division in r0.
#[test]
fn the_frame_that_a_register_has_was_not_taken() {
    let divides = || place(0x1F8, THUMB, Some(Effect::Divide(None)));
    let returned = || Place { is_outside_code: true, ..place(2, 0, None) };
    assert_eq!(placed(vec![returned(), divides()]), None, "it may be either");
    assert_eq!(placed(vec![returned(), Place { frame: 0x60, ..divides() }]), Some(0x1F8));
}

#[test]
fn room_below_the_end_of_a_stack() {
    let stack = Stack { start: Some(0x1000), size: Some(0x200), ..Stack::default() };
    let of = |effect| lowered(effect, 0x1080, &stack, false);
    assert_eq!(of(Effect::Lower(0xFDC)), Some(0xFDC), "local variables");
    assert_eq!(lowered(Effect::Write(0xFF8, Size::any(4)), 0x1060, &stack, false), Some(0xFF8), "a push");
    assert_eq!(of(Effect::Lower(0x1000)), None, "it fits");
    let store = |at| lowered(Effect::Write(at, Size::any(8)), 0x1020, &stack, false);
    assert_eq!(store(0xFFC), Some(0xFFC));
    assert_eq!((store(0xFFB), store(0x20)), (None, None), "a store through another register was taken for a push");
    assert_eq!(of(Effect::Write(0x1090, Size::any(4))), None, "a local variable");
    assert_eq!(of(Effect::Read(0xFF8, Size::any(4))), None);
    assert_eq!(
        lowered(Effect::Write(0xFF8, Size::any(4)), 0x1080, &stack, true),
        None,
        "the fault registers say what it is"
    );
    assert_eq!(lowered(Effect::Lower(0xFDC), 0xF80, &stack, false), None, "on another stack");
}

/// Words beside the frame that look like one had hidden where a fetch had failed.
#[test]
fn a_fetch_that_got_a_bus_error_was_of_no_memory_that_can_be_read() {
    let fetched = |pc| Place { is_outside_code: true, ..place(pc, THUMB, None) };
    let ram = Cpus::over(vec![crate::abi::Region { start: 0x2000_0000, len: 0x8000 }]);
    let of = |cfsr| {
        let mut registers = Registers::new(Architecture::CortexM);
        assert!(registers.set("xpsr", 5) && registers.set("cfsr", cfsr));
        placed_of(registers, vec![fetched(0x2000_2804), fetched(0x9000_0100)], &ram)
    };
    assert_eq!(of(1 << 8), Some(0x9000_0100), "IBUSERR");
    assert_eq!(of(1 << 17), None, "INVSTATE: either");
}

/// A RISC-V in a handler, whose last trap is an illegal instruction at an address; `is_outside`: no code of the program.
fn trapped(exception: Option<&str>, is_loop: bool, is_outside: bool) -> CpuState {
    let mut registers = Registers::new(Architecture::Riscv32);
    for (name, value) in [("pc", 0x8000_0782), ("mcause", 2), ("mepc", 0x615A_534C)] {
        assert!(registers.set(name, value));
    }
    let function = crate::session::Function {
        pc: 0x615A_534C,
        name: None,
        offset: None,
        file: None,
        line: None,
        is_inlined: false,
        origin: crate::unwind::Origin::Registers,
    };
    CpuState {
        core: 0,
        registers,
        under: None,
        exception: exception.map(str::to_owned),
        functions: Vec::new(),
        effect: None,
        in_loop: is_loop.then_some(crate::cpu::Loop { start: 0x8000_0782, is_masked: false }),
        polling: None,
        is_outside_code: false,
        interrupted: None,
        failed: Some(crate::session::Failed {
            sp: None,
            callers: Vec::new(),
            function,
            functions: Vec::new(),
            is_outside_code: is_outside,
            outer: None,
            effect: None,
            stored: None,
        }),
        interrupts: None,
        stored_faults: Vec::new(),
    }
}

/// "Whether the handler of the fault still runs is not known" of one that is a loop without an exit.
#[test]
fn a_handler_of_traps_that_never_ends_was_said_to_be_over_perhaps() {
    let of = |exception, is_loop| {
        let cpu = trapped(exception, is_loop, true);
        sure(&cpu, cpu.registers.fault().as_ref()).map(|sure| sure == Sure::Runs)
    };
    let handler = Some("an interrupt or exception");
    assert_eq!(of(handler, true), Some(true));
    assert_eq!(of(handler, false), Some(false), "it may return");
    assert_eq!(of(None, true), Some(false), "a thread may be idle in a loop");
    assert_eq!(of(None, false), Some(false), "its registers were typed");
}

/// "An illegal instruction: look at its operands", at an address where the program has none.
#[test]
fn a_trap_where_no_code_is_was_an_instruction_of_the_program() {
    assert!(riscv::is_fetch_outside(&trapped(None, true, true)));
    assert!(!riscv::is_fetch_outside(&trapped(None, true, false)));
    let mut load = trapped(None, true, true);
    assert!(load.registers.set("mcause", 5));
    assert!(!riscv::is_fetch_outside(&load), "a load failed");
}

#[test]
fn a_fetch_near_address_0_may_be_a_null_call() {
    let of = |mcause, mepc| {
        let mut cpu = trapped(None, true, true);
        assert!(cpu.registers.set("mcause", mcause) && cpu.registers.set("mepc", mepc));
        riscv::is_fetch_near_null(&cpu)
    };
    assert!(of(1, 0) && of(2, 0x10) && of(12, 0));
    assert!(!of(1, 0x4000_0000) && !of(7, 0) && !of(8, 0));
}

/// "Its handler is an endless loop: give mcause and mepc" of a core without them, though the handler had stored the place.
#[test]
fn what_a_handler_of_traps_stored_was_not_looked_at() {
    let of = |is_outside, effect, exception, is_loop| {
        let mut cpu = trapped(exception, is_loop, is_outside);
        cpu.registers = Registers::new(Architecture::Riscv32);
        if let Some(failed) = cpu.failed.as_mut() {
            (failed.effect, failed.stored) = (effect, Some(0x8000_7670));
        }
        sure(&cpu, None) == Some(Sure::Stored)
    };
    let handler = Some("an interrupt or exception");
    let write = |at| Some(Effect::Write(at, Size::any(1)));
    assert!(of(true, None, handler, true), "no code is there");
    assert!(of(false, write(0), handler, true), "a null pointer");
    assert!(!of(false, write(0x8000_0000), handler, true), "an interrupt may have come there");
    assert!(!of(false, None, handler, true));
    assert!(!of(true, None, None, true) && !of(true, None, handler, false), "its handler may be over");
}
