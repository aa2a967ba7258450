use super::super::calls::{Call, Callee, Outcome, Paths};
use super::*;

/// The first address of the code in these tests.
const START: Addr = 0x8000_0100;
/// Functions that are called.
const SAVE: Addr = 0x8000_0180;
const GET: Addr = 0x8000_0200;
const PUT: Addr = 0x8000_0300;
const RV32: InstructionSet = InstructionSet::Riscv32;
const RV64: InstructionSet = InstructionSet::Riscv64;
const NONE: [Value; 4] = [Value::Unknown; 4];

/// Code of a function, and of a routine at [`SAVE`].
struct Code {
    set: InstructionSet,
    own: Vec<u16>,
    routine: Vec<u16>,
}

impl Program for Code {
    fn instructions(&self) -> InstructionSet {
        self.set
    }

    fn global_pointer(&self) -> Option<u32> {
        Some(0x8001_0800)
    }

    fn code(&self, at: Addr) -> Option<u16> {
        let of = |halves: &[u16], start: Addr| halves.get(usize::try_from(at.checked_sub(start)? / 2).ok()?).copied();
        of(&self.own, START).or_else(|| of(&self.routine, SAVE))
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        Some(u32::from(self.code(at)?) | u32::from(self.code(at + 2)?) << 16)
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let is_get = call.to == Callee::At(GET);
        let result = if is_get { Value::Is(0) } else { Value::Unknown };
        Outcome { returns: true, result, writes: is_get.then_some(Value::Mark(7)) }
    }
}

fn paths_with(set: InstructionSet, own: &[u16], routine: &[u16], arguments: [Value; 4]) -> Paths {
    let code = Code { set, own: own.to_vec(), routine: routine.to_vec() };
    Paths::of(&code, START, START + 2 * own.len() as u64 - 1, arguments)
}

fn paths(set: InstructionSet, own: &[u16]) -> Paths {
    paths_with(set, own, &[], NONE)
}

/// What is called with which first argument.
fn calls(paths: &Paths) -> Vec<(Addr, Value)> {
    let to = |call: &Call| if let Callee::At(to) = call.to { to } else { 0 };
    paths.calls().map(|call| (to(call), call.arguments[0])).collect()
}

/// Encodings as GNU as writes them, with and without "C".
#[test]
fn an_instruction_of_16_bits_is_the_one_of_32_bits() {
    let both = [
        (0x1FE0, 0x3FC1_0413, "addi s0,sp,1020"),
        (0x005C, 0x0041_0793, "addi a5,sp,4"),
        (0x5CF8, 0x07C4_A703, "lw a4,124(s1)"),
        (0x413C, 0x0405_2783, "lw a5,64(a0)"),
        (0xC2E4, 0x0496_A223, "sw s1,68(a3)"),
        (0x3C68, 0x0F84_3507, "fld fa0,248(s0)"),
        (0xA7A4, 0x0497_B427, "fsd fs1,72(a5)"),
        (0x1501, 0xFE05_0513, "addi a0,a0,-32"),
        (0x0FFD, 0x01FF_8F93, "addi t6,t6,31"),
        (0x59ED, 0xFFB0_0993, "li s3,-5"),
        (0x7141, 0xE101_0113, "addi sp,sp,-496"),
        (0x6105, 0x0201_0113, "addi sp,sp,32"),
        (0x7585, 0xFFFE_15B7, "lui a1,0xfffe1"),
        (0x6E7D, 0x0001_FE37, "lui t3,0x1f"),
        (0x8245, 0x0116_5613, "srli a2,a2,17"),
        (0x847D, 0x41F4_5413, "srai s0,s0,31"),
        (0x9AF5, 0xFFD6_F693, "andi a3,a3,-3"),
        (0x8D0D, 0x40B5_0533, "sub a0,a0,a1"),
        (0x8C25, 0x0094_4433, "xor s0,s0,s1"),
        (0x8F5D, 0x00F7_6733, "or a4,a4,a5"),
        (0x8E75, 0x00D6_7633, "and a2,a2,a3"),
        (0xD389, 0xF007_81E3, "beq a5,zero,.-254"),
        (0xECD5, 0x0A04_9E63, "bne s1,zero,.+188"),
        (0xB015, 0x825F_F06F, "j .-2012"),
        (0xAB99, 0x5560_006F, "j .+1366"),
        (0x08B6, 0x00D8_9893, "slli a7,a7,13"),
        (0x2E36, 0x1481_3E07, "fld ft8,328(sp)"),
        (0x50FE, 0x0FC1_2083, "lw ra,252(sp)"),
        (0x8782, 0x0007_8067, "jr a5"),
        (0x9002, 0x0010_0073, "ebreak"),
        (0x9282, 0x0002_80E7, "jalr t0"),
        (0x9C66, 0x019C_0C33, "add s8,s8,s9"),
        (0xB64A, 0x1321_3427, "fsd fs2,296(sp)"),
        (0xDB6E, 0x0BB1_2A23, "sw s11,180(sp)"),
    ];
    let only_32 = [
        (0x2911, 0x4140_00EF, "jal ra,.+1044"),
        (0x7234, 0x0606_2687, "flw fa3,96(a2)"),
        (0xE058, 0x00E4_2227, "fsw fa4,4(s0)"),
        (0x641A, 0x0841_2407, "flw fs0,132(sp)"),
        (0xE7D6, 0x0D51_2627, "fsw fs5,204(sp)"),
    ];
    let only_64 = [
        (0x6468, 0x0C84_3503, "ld a0,200(s0)"),
        (0xEFAC, 0x04B7_BC23, "sd a1,88(a5)"),
        (0x3A65, 0xFF9A_0A1B, "addiw s4,s4,-7"),
        (0x9D11, 0x40C5_053B, "subw a0,a0,a2"),
        (0x9CB9, 0x00E4_84BB, "addw s1,s1,a4"),
        (0x6B3E, 0x1C81_3B03, "ld s6,456(sp)"),
        (0xE706, 0x1811_3423, "sd ra,392(sp)"),
        (0x9121, 0x0285_5513, "srli a0,a0,40"),
        (0x1E86, 0x021E_9E93, "slli t4,t4,33"),
    ];
    for (half, word, text) in both {
        assert_eq!((expanded(half, false), expanded(half, true)), (Some(word), Some(word)), "{text}");
    }
    for (half, word, text) in only_32 {
        assert_eq!(expanded(half, false), Some(word), "{text}");
    }
    for (half, word, text) in only_64 {
        assert_eq!(expanded(half, true), Some(word), "{text}");
    }
    assert_eq!((expanded(0, false), expanded(0xB842, false)), (None, None), "cm.push");
}

#[test]
fn constants_in_registers_and_on_the_stack() {
    // addi sp,sp,-32; sw ra,24(sp); sw s0,16(sp); lui s0,0x20000; addi a0,s0,64; sw a0,8(sp); auipc ra,0; jalr ra,240(ra);
    // lw a0,8(sp); addi a0,a0,4; jal ra,put; lw ra,24(sp); lw s0,16(sp); addi sp,sp,32; ret
    let code = [
        0x1101, 0xCC06, 0xC822, 0x0437, 0x2000, 0x0513, 0x0404, 0xC42A, 0x0097, 0x0000, 0x80E7, 0x0F00, 0x4522, 0x0511,
        0x00EF, 0x1E40, 0x40E2, 0x4442, 0x6105, 0x8082,
    ];
    // The same with sd and ld.
    let long = [
        0x1101, 0xEC06, 0xE822, 0x0437, 0x2000, 0x0513, 0x0404, 0xE42A, 0x0097, 0x0000, 0x80E7, 0x0F00, 0x6522, 0x0511,
        0x00EF, 0x1E40, 0x60E2, 0x6442, 0x6105, 0x8082,
    ];
    for found in [paths(RV32, &code), paths(RV64, &long)] {
        assert!(found.is_complete && found.returns());
        assert_eq!(calls(&found), [(GET, Value::Is(0x2000_0040)), (PUT, Value::Is(0x2000_0044))]);
    }
}

#[test]
fn both_ways_of_a_branch_and_the_only_one_of_a_known_one() {
    // li a5,1; beq a0,a5,else; li a0,8; j end; else: li a0,16; end: auipc t1,0; jalr zero,500(t1): the tail of put
    let code = [0x4785, 0x0463, 0x00F5, 0x4521, 0xA011, 0x4541, 0x0317, 0x0000, 0x0067, 0x1F43];
    for set in [RV32, RV64] {
        let mut found = calls(&paths(set, &code));
        found.sort_unstable();
        assert_eq!(found, [(PUT, Value::Is(8)), (PUT, Value::Is(16))]);
        let one = [Value::Is(1), Value::Unknown, Value::Unknown, Value::Unknown];
        assert_eq!(calls(&paths_with(set, &code, &[], one)), [(PUT, Value::Is(16))]);
    }
    // The lower half is 1, and the number is another one.
    let wide = [Value::Wide(0x1_0000_0001), Value::Unknown, Value::Unknown, Value::Unknown];
    assert_eq!(calls(&paths_with(RV64, &code, &[], wide)), [(PUT, Value::Is(8))]);
}

#[test]
fn a_loop_over_objects_ends() {
    // addi sp,sp,-16; sw ra,8(sp); sw s0,0(sp); li s0,0; again: mv a0,s0; jal ra,put; addi s0,s0,8; li a5,16;
    // bltu s0,a5,again; lw ra,8(sp); lw s0,0(sp); addi sp,sp,16; ret
    let code = [
        0x1141, 0xC406, 0xC022, 0x4401, 0x8522, 0x00EF, 0x1F60, 0x0421, 0x47C1, 0x6BE3, 0xFEF4, 0x40A2, 0x4402, 0x0141,
        0x8082,
    ];
    assert_eq!(calls(&paths(RV32, &code)), [(PUT, Value::Is(0)), (PUT, Value::Is(8))]);
}

#[test]
fn what_a_call_writes_on_the_stack() {
    // addi sp,sp,-32; sw ra,24(sp); addi a1,sp,8; jal ra,get; bnez a0,out; lw a0,8(sp); addi a0,a0,12; jal ra,put;
    // out: lw ra,24(sp); addi sp,sp,32; ret
    let code = [0x1101, 0xCC06, 0x002C, 0x00EF, 0x0FA0, 0xE509, 0x4522, 0x0531, 0x00EF, 0x1F00, 0x40E2, 0x6105, 0x8082];
    let long = [0x1101, 0xEC06, 0x002C, 0x00EF, 0x0FA0, 0xE509, 0x6522, 0x0531, 0x00EF, 0x1F00, 0x60E2, 0x6105, 0x8082];
    for found in [paths(RV32, &code), paths(RV64, &long)] {
        assert_eq!(calls(&found), [(GET, Value::Unknown), (PUT, Value::Mark(7))]);
    }
    // The lower half alone of what is there is no pointer.
    let mut half = long;
    half[6] = 0x4522;
    assert_eq!(calls(&paths(RV64, &half))[1], (PUT, Value::Unknown));
}

#[test]
fn registers_that_a_routine_saves_and_another_restores() {
    // jal t0,save; addi a1,sp,8; jal ra,get; lw a0,8(sp); jal ra,put; jal zero,restore
    let code = [0x02EF, 0x0800, 0x002C, 0x00EF, 0x0FA0, 0x4522, 0x00EF, 0x1F40, 0x006F, 0x0800];
    // addi sp,sp,-16; sw s0,8(sp); sw ra,12(sp); jr t0; nops; lw s0,8(sp); lw ra,12(sp); addi sp,sp,16; ret
    let routine = [0x1141, 0xC422, 0xC606, 0x8282, 0x0013, 0, 0x0013, 0, 0x4422, 0x40B2, 0x0141, 0x8082];
    let found = paths_with(RV32, &code, &routine, NONE);
    assert!(found.is_complete && found.returns());
    assert_eq!(calls(&found), [(GET, Value::Unknown), (PUT, Value::Mark(7))]);
    // One that does anything else is not followed.
    assert!(!paths_with(RV32, &code, &[0x8082], NONE).is_complete);
}

/// A `switch` of a thread hid what it gives.
#[test]
fn a_table_of_jumps() {
    // li a5,2; bltu a5,a0,end; slli a0,a0,2; auipc a5,0; addi a5,a5,36; add a0,a0,a5; lw a4,0(a0); add a4,a4,a5; jr a4; end: ret;
    // li a0,1; j put; li a0,2; j put; li a0,3; j put; the three distances
    let code = [
        0x4789, 0xEB63, 0x00A7, 0x050A, 0x0797, 0x0000, 0x8793, 0x0247, 0x953E, 0x4118, 0x973E, 0x8702, 0x8082, 0x4505,
        0x006F, 0x1E40, 0x4509, 0x006F, 0x1DE0, 0x450D, 0x006F, 0x1D80, 0xFFEE, 0xFFFF, 0xFFF4, 0xFFFF, 0xFFFA, 0xFFFF,
    ];
    for set in [RV32, RV64] {
        let found = paths(set, &code);
        assert!(found.is_complete && found.returns());
        let mut all = calls(&found);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3].map(|n| (PUT, Value::Is(n))));
        // Without the comparison nothing is known of the index.
        let mut open = code;
        (open[1], open[2]) = (0x0001, 0x0001);
        assert!(!paths(set, &open).is_complete);
    }
}

#[test]
fn a_jump_to_an_address_that_is_not_known() {
    // lw a5,0(a0); jr a5: a call at the end
    let found = paths(RV32, &[0x411C, 0x8782]);
    assert!(found.is_complete && found.calls().any(|call| call.to == Callee::Unknown));
    // The same in front of code to which nothing else leads: it may be a table.
    assert!(!paths(RV32, &[0x411C, 0x8782, 0x4501, 0x8082]).is_complete);
    // ret
    assert!(calls(&paths(RV32, &[0x8082])).is_empty());
}

/// What one instruction makes of a0 and a1.
fn made(set: InstructionSet, word: u32, a: Value, b: Value) -> Value {
    let mut state = State::new(set, [a, b, Value::Unknown, Value::Unknown]);
    let code = Code { set, own: Vec::new(), routine: Vec::new() };
    let (first, second) = (u16::try_from(word & 0xFFFF).unwrap(), u16::try_from(word >> 16).unwrap());
    assert!(matches!(step(first, second, START, &mut state, &code), Flow::Next));
    state.get(10)
}

#[test]
fn numbers_have_their_upper_half() {
    let is = Value::Is;
    let minus = |n: u64| Value::Wide(n.wrapping_neg());
    // li a0,-1; lui a0,0x80000
    assert_eq!([RV32, RV64].map(|set| made(set, 0xFFF0_0513, is(0), is(0))), [is(u32::MAX), minus(1)]);
    assert_eq!([RV32, RV64].map(|set| made(set, 0x8000_0537, is(0), is(0))), [is(0x8000_0000), minus(0x8000_0000)]);
    // auipc a0,0
    assert_eq!([RV32, RV64].map(|set| made(set, 0x0000_0517, is(0), is(0))), [is(0x8000_0100); 2]);
    // add a0,a0,a1; addw a0,a0,a1
    assert_eq!(made(RV32, 0x00B5_0533, is(u32::MAX), is(1)), is(0));
    assert_eq!(made(RV64, 0x00B5_0533, is(u32::MAX), is(1)), Value::Wide(1 << 32));
    assert_eq!(made(RV64, 0x00B5_053B, is(u32::MAX), is(1)), is(0));
    assert_eq!(made(RV64, 0x00B5_053B, is(0x7FFF_FFFF), is(1)), minus(0x8000_0000));
    // srli a0,a0,1; srai a0,a0,1; srliw a0,a0,1
    assert_eq!([RV32, RV64].map(|set| made(set, 0x0015_5513, is(0x8000_0000), is(0))), [is(0x4000_0000); 2]);
    assert_eq!(made(RV64, 0x0015_5513, minus(2), is(0)), Value::Wide(u64::MAX >> 1));
    assert_eq!(made(RV32, 0x4015_5513, is(0x8000_0000), is(0)), is(0xC000_0000));
    assert_eq!(made(RV64, 0x4015_5513, is(0x8000_0000), is(0)), is(0x4000_0000));
    assert_eq!(made(RV64, 0x0015_551B, minus(2), is(0)), is(0x7FFF_FFFF));
    // slt a0,a0,a1; sltu a0,a0,a1
    assert_eq!([RV32, RV64].map(|set| made(set, 0x00B5_2533, is(u32::MAX), is(0))), [is(1), is(0)]);
    assert_eq!([RV32, RV64].map(|set| made(set, 0x00B5_3533, is(u32::MAX), is(0))), [is(0); 2]);
    // addi a0,gp,-2048
    assert_eq!(made(RV32, 0x8001_8513, is(0), is(0)), Value::Unknown, "where gp is not known");
    // div a0,a0,a1; clz a0,a0; lw a0,0(a0) of a variable
    assert_eq!(made(RV32, 0x02B5_4533, is(8), is(2)), Value::Unknown);
    assert_eq!(made(RV32, 0x6005_1513, is(8), is(2)), Value::Unknown);
    assert_eq!(made(RV32, 0x0005_2503, is(0x2000_0000), is(2)), Value::Unknown);
}

#[test]
fn variables_near_the_global_pointer() {
    // addi a0,gp,-2048; jal zero,put
    let found = paths(RV32, &[0x8513, 0x8001, 0x006F, 0x1FC0]);
    assert_eq!(calls(&found), [(PUT, Value::Is(0x8001_0000))]);
}

#[test]
fn any_code_is_survived() {
    let mut state = 7_u32;
    for n in 0..2000 {
        let halves: Vec<u16> = (0..64)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as u16
            })
            .collect();
        let arguments = [Value::Is(u32::MAX), Value::Wide(u64::MAX), Value::Frame(-8), Value::Unknown];
        let _ = paths_with(if n % 2 == 0 { RV32 } else { RV64 }, &halves, &halves, arguments);
    }
}

/// Only calls of the kernel's functions were seen to disable interrupts.
#[test]
fn instructions_that_disable_interrupts_are_part_of_paths() {
    let of = |code: &[u16]| -> Vec<Callee> { paths(RV32, code).calls().map(|call| call.to).collect() };
    let both = [Callee::Interrupts(true), Callee::Interrupts(false)];
    // csrrci a5, mstatus, 8; csrw mstatus, a5; ret
    assert_eq!(of(&[0x77F3, 0x3004, 0x9073, 0x3007, 0x8082]), both);
    // li a4, 8; csrc mstatus, a4; csrs mstatus, a4; ret
    assert_eq!(of(&[0x4721, 0x3073, 0x3007, 0x2073, 0x3007, 0x8082]), both);
    assert_eq!(of(&[0x27F3, 0x3000, 0x8082]), [], "csrr a5, mstatus");
    assert_eq!(of(&[0x77F3, 0x3044, 0x8082]), [], "csrrci a5, mie, 8");
}
