//! `explain` over jumps to wrong addresses that are no calls, or calls that leave no return address (`tests/firmware/bare_cm3.c`): a
//! test writes what the exception pushed.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::explain;
use super::support::machine::{Scratch, fixture, symbol};

const RAM: u64 = 0x2000_0000;
/// Where the exception pushed its words.
const FRAME: u64 = RAM + 0xF00;
/// The lengths of a push and of a call.
const CALL: u64 = 2 + 4;

/// The first finding of a HardFault with these registers before it; `xpsr`: the Thumb bit, where it was left.
fn first(name: &str, r2: u32, r3: u32, lr: u32, pc: u32) -> Value {
    first_with(name, [r2, r3, lr, pc], &["cfsr=0x20000", "hfsr=0x40000000"])
}

/// The same with these registers of faults.
fn first_with(name: &str, [r2, r3, lr, pc]: [u32; 4], faults: &[&str]) -> Value {
    first_in(name, "bare-cm3.elf", vec![0; 0x1000], [r2, r3, lr, pc], faults)
}

/// The same of a program, with this RAM.
fn first_in(name: &str, elf: &str, mut ram: Vec<u8>, [r2, r3, lr, pc]: [u32; 4], faults: &[&str]) -> Value {
    let elf = fixture(elf);
    let words = [0x2000_0100, 0, r2, r3, 0x1234, lr, pc, 0];
    for (at, word) in (0xF00..).step_by(4).zip(words) {
        ram[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    let scratch = Scratch::new(name);
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let handler = symbol(&elf, "HardFault_Handler") & !1;
    let registers = [
        format!("pc={handler:#x}"),
        "xpsr=0x01000003".to_owned(),
        "lr=0xfffffff9".to_owned(),
        format!("sp={FRAME:#x}"),
    ];
    let registers = registers.into_iter().chain(faults.iter().map(|fault| (*fault).to_owned()));
    let mut args = vec!["--elf".to_owned(), elf.display().to_string()];
    args.extend(["--image".to_owned(), format!("{}@{RAM:#x}", image.display())]);
    args.extend(registers.flat_map(|register| ["--reg".to_owned(), register]));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    explain(&args).into_iter().next().unwrap_or_else(|| panic!("{name}: nothing"))
}

/// The bytes of a function.
fn code(elf: &str, function: &str, len: usize) -> Vec<u8> {
    let (path, bytes) = (fixture(elf), std::fs::read(fixture(elf)).unwrap());
    let file = goblin::elf::Elf::parse(&bytes).unwrap();
    let at = symbol(&path, function) & !1;
    let segment = file.program_headers.iter().find(|segment| segment.vm_range().contains(&(at as usize))).unwrap();
    let from = usize::try_from(at - segment.p_vaddr + segment.p_offset).unwrap();
    bytes[from..from + len].to_vec()
}

/// "A damaged return address, because lr does not hold one": the thread ran a routine that the program had copied into RAM, and not all
/// of it; the routine used lr for a number.
#[test]
fn the_end_of_a_function_that_was_copied_in_part_was_called_a_damaged_return_address() {
    let elf = "use.elf";
    let memory = symbol(&fixture(elf), "arena_memory");
    let into = usize::try_from(memory - RAM).unwrap();
    let found = |name: &str, copied: usize| {
        let mut ram = vec![0; 0x8000];
        ram[into..into + 0x80].fill(0xDE);
        ram[into..into + copied].copy_from_slice(&code(elf, "_tx_queue_send", copied));
        let pc = u32::try_from(memory).unwrap() + 48;
        first_in(name, elf, ram, [0, 0, 2, pc], &["cfsr=0x10000", "hfsr=0x40000000"])
    };
    let part = found("jumps-part", 48);
    assert_eq!((&part["code"], &part["confidence"]), (&"usage-fault".into(), &"proven".into()), "{part}");
    let words = "behind the first 48 bytes of arena_memory, which are a copy of _tx_queue_send; _tx_queue_send has 184, and the rest is";
    assert!(claim(&part).contains(words) && !claim(&part).contains("return address"), "{part}");
    let whole = found("jumps-whole", 100);
    assert!(claim(&whole).contains("at byte 48 of a copy of _tx_queue_send"), "{whole}");
    // Too few bytes: any function may begin so.
    let other = found("jumps-other", 8);
    assert!(!claim(&other).contains("copy"), "{other}");
}

/// Behind the call that a function begins with.
fn behind_call(function: &str) -> u32 {
    u32::try_from((symbol(&fixture("bare-cm3.elf"), function) & !1) + CALL).unwrap() | 1
}

fn claim(finding: &Value) -> &str {
    finding["claim"].as_str().unwrap()
}

#[test]
fn a_tail_call_of_an_empty_slot_was_called_a_damaged_return_address() {
    let found = first("jumps-tail", 0, 5, behind_call("close_segment"), 0);
    assert_eq!(found["code"], "null-call", "{found}");
    assert!(claim(&found).contains("by sync_volume, which close_segment"), "{found}");
    assert!(!found.to_string().contains("return address"), "{found}");
    // The register led elsewhere: the function returned, and what follows popped a wrong address.
    let found = first("jumps-return", 0x101, 5, behind_call("close_segment"), 0);
    assert_ne!(found["code"], "null-call", "{found}");
    assert!(claim(&found).contains("a damaged return address"), "{found}");
}

#[test]
fn a_jump_through_a_table_of_labels_was_called_a_damaged_return_address() {
    let found = first("jumps-label", 7, 0, behind_call("next_step"), 0);
    assert_ne!(found["code"], "null-call", "{found}");
    assert!(claim(&found).contains("a jump through a pointer, in next_step"), "{found}");
}

/// "A call through a null pointer in 0x0, called by 0x0": lr is 0 as well, so that nothing was called.
#[test]
fn a_return_from_a_ruined_stack_was_called_by_0x0() {
    let found = first("jumps-ruined", 3, 5, 0, 0);
    assert_ne!(found["code"], "null-call", "{found}");
    assert!(claim(&found).contains("a damaged return address"), "{found}");
    assert!(!claim(&found).contains("called by"), "{found}");
}

/// The same where a function had used lr for something else since: an even number is no return address.
#[test]
fn a_link_register_that_is_no_return_address_was_called_a_caller() {
    // The second is fill of a stack.
    for (lr, name) in [(0x080C_0506, "jumps-scratch"), (0xEFEF_EFEF, "jumps-fill")] {
        let found = first(name, 0x1000_0000, 0, lr, 0);
        assert_ne!(found["code"], "null-call", "{found}");
        assert!(claim(&found).contains("a damaged return address"), "{found}");
    }
}

/// "A call through a null pointer, called by 0x8322162": lr is odd, and the program has no function there.
#[test]
fn an_odd_link_register_without_a_function_was_called_a_caller() {
    let found = first("jumps-odd", 0x1000_0000, 0, 0x0832_2163, 0);
    assert_ne!(found["code"], "null-call", "{found}");
    assert!(claim(&found).contains("a damaged return address"), "{found}");
}

/// "HardFault in tx_application_define: a write of 8 bytes" (proven): a return had popped an even address in that function. The CPU
/// began no instruction there.
#[test]
fn the_instruction_at_an_even_address_was_said_to_fail() {
    let pc = u32::try_from(symbol(&fixture("bare-cm3.elf"), "close_segment") & !1).unwrap();
    for (faults, confidence) in [(&["cfsr=0x20000"][..], "proven"), (&[], "likely")] {
        let found = first_with("jumps-even", [3, 5, 0x080C_0506, pc], faults);
        assert_eq!([&found["code"], &found["confidence"]], ["usage-fault", confidence], "{found}");
        assert!(claim(&found).contains("no Thumb state"), "{found}");
        assert!(claim(&found).contains(&format!("at {pc:#x}")), "{found}");
        assert!(claim(&found).contains("a damaged return address"), "{found}");
        assert!(!found.to_string().contains("the instruction there"), "{found}");
    }
}

/// The first finding for a RISC-V in its handler of traps, by what was typed; `cause` and `mepc` are those of the trap.
fn trapped(name: &str, cause: u32, mepc: u32) -> Value {
    let elf = fixture("bare-riscv.elf");
    let handler = symbol(&elf, "trap");
    let elf = elf.display().to_string();
    let scratch = Scratch::new(name);
    let image = scratch.path("ram.bin");
    std::fs::write(&image, [0; 0x100]).unwrap();
    let image = format!("{}@0x80010000", image.display());
    let registers = [format!("pc={handler:#x}"), format!("mcause={cause}"), format!("mepc={mepc:#x}")];
    let mut args = vec!["--elf", &elf, "--image", &image];
    args.extend(registers.iter().flat_map(|register| ["--reg", register.as_str()]));
    explain(&args).into_iter().next().expect("a finding")
}

/// "Illegal instruction: look at the operands of this instruction", where a RISC-V had no code of the program.
#[test]
fn a_jump_of_a_riscv_to_text_was_called_an_illegal_instruction() {
    let found = trapped("jumps-riscv-text", 2, 0x615A_534C);
    assert!(claim(&found).contains("the program has no code there"), "{found}");
    assert!(claim(&found).contains("the bytes of the text \"LSZa\""), "{found}");
    assert!(claim(&found).contains("a call through a pointer or a damaged return address"), "{found}");
    assert!(!claim(&found).contains("illegal") && !found["next"].to_string().contains("operands"), "{found}");
    // Where nothing shows what is there, it may be code.
    let found = trapped("jumps-riscv-far", 2, 0x8F00_0000);
    assert!(claim(&found).contains("or code that is not in the ELF"), "{found}");
}
