//! The frames of functions by their code, beside those that the compiler's call frame information gives: at every instruction of
//! firmware of a Cortex-M that has debug information.

use std::sync::Arc;

use crate::support::decode::fixture;
use tx_trace::cpu::CodeFrame;
use tx_trace::elf::Elf;
use tx_trace::sym::dwarf::{CallerValue, Dwarf, Values};

const FIRMWARE: [&str; 6] = ["bare-cm3", "cm3", "crash", "fault", "stall", "use"];
/// Its own instructions in assembler push registers, of which the compiler knows nothing.
const NAKED: &str = "HardFault_Handler";
/// Where the stack pointer is.
const SP: u64 = 0x2000_8000;
/// The link register: where a function has not saved it, it is still there.
const LR: u64 = 0x1234_5678;

/// What is known at one instruction: how far the frame begins above the stack pointer, and where each register was saved.
type Known = (u64, Vec<(u16, u64)>);

/// By call frame information, with this frame pointer; `None` where it needs what is not known.
fn by_table(dwarf: &Dwarf, at: u64, pointer: Option<u64>) -> Option<Known> {
    let mut values: Values = [(13, SP), (14, LR)].into();
    values.extend(pointer.map(|pointer| (7, pointer)));
    // Each word says where it is.
    let caller = dwarf.cfi().caller(at, &values, &mut |address, _| Some(address)).ok()?;
    let saved = caller.registers.iter().filter(|(register, _)| **register >= 4 && **register < 15);
    let saved = saved.filter_map(|(register, value)| match value {
        CallerValue::Known(place) if *place != LR => Some((*register, *place)),
        _ => None,
    });
    Some((caller.cfa - SP, saved.collect()))
}

#[test]
fn frames_by_code_are_those_of_call_frame_information() {
    let (mut compared, mut missing) = (0, 0);
    for name in FIRMWARE {
        let elf = Arc::new(Elf::open(std::fs::read(fixture(&format!("{name}.elf"))).unwrap()).unwrap());
        let dwarf = Dwarf::new(Arc::clone(&elf));
        for start in dwarf.cfi().addresses() {
            let function =
                elf.covering(start).filter(|function| function.address & !1 == start && function.name != NAKED);
            let Some((function, section)) = function.zip(elf.section_holding(start)) else { continue };
            let bytes = elf.section_bytes(&section);
            let from = usize::try_from(start - section.addr).unwrap();
            let Some(code) = bytes.as_slice().get(from..from + usize::try_from(function.size).unwrap()) else {
                continue;
            };
            for at in (start..start + function.size).step_by(2) {
                let by_code = CodeFrame::of(start, code, at);
                // Second halves of instructions, and constants among the code, have no frame by code.
                let Some(frame) = by_code else { continue };
                let height = u64::from(frame.height);
                let pointer = frame.pointer.map(|below| SP + height - u64::from(below));
                let Some(table) = by_table(&dwarf, at, pointer) else {
                    missing += 1;
                    continue;
                };
                let saved =
                    (4..15).filter_map(|register| Some((register, SP + height - u64::from(frame.saved(register)?))));
                assert_eq!((height, saved.collect()), table, "{name}: {} at {at:#x}", function.name);
                compared += 1;
            }
        }
    }
    println!("{compared} instructions compared, {missing} not");
    assert!(compared > 15_000 && missing < compared / 20, "{compared} {missing}");
}
