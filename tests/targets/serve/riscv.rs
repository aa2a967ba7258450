//! RISC-V programs by the registers in which their calls pass floating-point numbers. GDB refuses a target that has not
//! got these. The programs are built here, byte by byte: nothing of a compiler is needed.

use super::tools::{Scratch, binary, gdb, installed, run};

/// Where the program is, and RAM behind it.
const CODE: u64 = 0x8000_0000;
const RAM: u64 = 0x8000_1000;

/// A program of sixteen times `nop`, as the gABI lays it out: header, one segment, code.
fn program(wide: bool, flags: u32) -> Vec<u8> {
    let mut out = vec![0x7F, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1];
    out.resize(16, 0);
    let put = |out: &mut Vec<u8>, value: u64, len: usize| out.extend(&value.to_le_bytes()[..len]);
    let word = if wide { 8 } else { 4 };
    let (header, entry) = if wide { (64, 56) } else { (52, 32) };
    // ET_EXEC, EM_RISCV, version; entry, program headers, no sections; flags and sizes.
    for (value, len) in [(2, 2), (243, 2), (1, 4), (CODE, word), (header, word), (0, word), (flags.into(), 4)] {
        put(&mut out, value, len);
    }
    for value in [header, entry, 1, 0, 0, 0] {
        put(&mut out, value, 2);
    }
    // PT_LOAD, readable and executable: its flags are elsewhere in the two classes.
    put(&mut out, 1, 4);
    if wide {
        put(&mut out, 5, 4);
    }
    for value in [header + entry, CODE, CODE, 64, 64] {
        put(&mut out, value, word);
    }
    if !wide {
        put(&mut out, 5, 4);
    }
    put(&mut out, 4, word);
    out.extend([0x13, 0, 0, 0].repeat(16));
    out
}

/// What GDB says of `serve` on these files, when it has the program itself.
fn look(words: &str, elf: &str) -> String {
    let mut command = gdb("gdb-multiarch");
    command.args(["-batch", "-ex", &format!("target remote | {} serve --stdio {words}", binary())]);
    command.args(["-ex", "echo [pc]", "-ex", "print/x $pc", "-ex", "echo [fa0]", "-ex", "print $fa0"]);
    command.args(["-ex", "echo [fcsr]", "-ex", "print $fcsr", "-ex", "echo [type]", "-ex", "ptype $fa0", elf]);
    let done = run(&mut command);
    format!("{}\n{}", done.out, done.err)
}

/// `e_flags`: compressed instructions, and the registers of calls.
const SOFT: u32 = 1;
const SINGLE: u32 = 3;
const DOUBLE: u32 = 5;
const QUAD: u32 = 7;

#[test]
fn gdb_refused_programs_that_use_floating_point_registers() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    let ram = scratch.path("ram.bin");
    std::fs::write(&ram, vec![0; 4096]).unwrap();
    for wide in [false, true] {
        for (flags, fa0, of) in [
            (SOFT, "void", "type = void"),
            (SINGLE, "<unavailable>", "ieee_single"),
            (DOUBLE, "<unavailable>", "double double"),
            (QUAD, "<unavailable>", "uint128"),
        ] {
            let elf = scratch.path("rv.elf");
            std::fs::write(&elf, program(wide, flags)).unwrap();
            let memory = format!("--image {ram}@{RAM:#x}");
            let said = look(&format!("{elf} {memory} --reg pc={:#x} --reg sp={:#x}", CODE + 4, RAM + 256), &elf);
            assert!(!said.contains("bfd requires"), "{wide} {flags}: {said}");
            assert!(said.contains("[pc]$1 = 0x80000004"), "{wide} {flags}: {said}");
            assert!(said.contains(&format!("[fa0]$2 = {fa0}\n")), "{wide} {flags}: {said}");
            assert!(said.contains(&format!("[fcsr]$3 = {fa0}\n")), "{wide} {flags}: {said}");
            assert!(said.split_once("[type]").is_some_and(|(_, t)| t.contains(of)), "{wide} {flags}: {said}");
        }
    }
}

/// Without the program nothing may tell: a debugger has it all the same.
#[test]
fn gdb_refused_the_program_where_only_it_knew_the_program() {
    require!(installed(&["gdb-multiarch"]));
    let scratch = Scratch::new();
    let (ram, elf, core) = (scratch.path("ram.bin"), scratch.path("rv.elf"), scratch.path("rv.core"));
    std::fs::write(&ram, vec![0; 4096]).unwrap();
    for (flags, fa0) in [(SOFT, "void"), (DOUBLE, "<unavailable>")] {
        std::fs::write(&elf, program(true, flags)).unwrap();
        let mut dump = std::process::Command::new(binary());
        dump.args(["dump", "-o", &core, &elf, "--image", &format!("{ram}@{RAM:#x}")]);
        dump.args(["--reg", "pc=0x80000004", "--reg", "sp=0x80001100"]);
        dump.env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
        let done = run(&mut dump);
        assert_eq!(done.status, Some(0), "{}", done.err);
        // A core of ours has the program's flags; a core of that core has them too.
        let again = scratch.path("again.core");
        let mut dump = std::process::Command::new(binary());
        dump.args(["dump", "-o", &again, &core]).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
        assert_eq!(run(&mut dump).status, Some(0));
        for core in [&core, &again] {
            let said = look(core, &elf);
            assert!(said.contains("[pc]$1 = 0x80000004") && !said.contains("bfd requires"), "{said}");
            assert!(said.contains(&format!("[fa0]$2 = {fa0}\n")), "{flags}: {said}");
        }
        // Nobody else has: registers of doubles are described, and not known.
        let mut bytes = std::fs::read(&core).unwrap();
        let at = bytes.windows(9).position(|w| w == b"TX-TRACE\0").unwrap();
        bytes[at..at + 8].copy_from_slice(b"TX-OTHER");
        bytes[0x30..0x34].fill(0);
        std::fs::write(&core, bytes).unwrap();
        let said = look(&core, &elf);
        assert!(said.contains("[fa0]$2 = <unavailable>") && !said.contains("bfd requires"), "{flags}: {said}");
    }
}
