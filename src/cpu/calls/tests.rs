//! Paths of small functions in Thumb code.

use super::*;

/// The first address of the code in these tests.
const START: Addr = 0x100;
/// Functions that are called.
const GET: Addr = 0x200;
const PUT: Addr = 0x300;
const FATAL: Addr = 0x400;
const MAY_PUT: Addr = 0x500;

struct Code(Vec<u16>);

/// The same, where each call of [`GET`] gives memory.
struct Succeeds(Code);

impl Program for Succeeds {
    fn instructions(&self) -> InstructionSet {
        self.0.instructions()
    }

    fn code(&self, at: Addr) -> Option<u16> {
        self.0.code(at)
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        self.0.constant(at)
    }

    fn outcome(&self, call: &Call) -> Outcome {
        self.0.outcome(call)
    }

    fn marks_are_set(&self) -> bool {
        true
    }
}

impl Program for Code {
    fn instructions(&self) -> InstructionSet {
        InstructionSet::Thumb
    }

    fn code(&self, at: Addr) -> Option<u16> {
        self.0.get(usize::try_from(at.checked_sub(START)? / 2).ok()?).copied()
    }

    fn constant(&self, at: Addr) -> Option<u32> {
        Some(u32::from(self.code(at)?) | u32::from(self.code(at + 2)?) << 16)
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let result = if call.to == Callee::At(GET) { Value::Is(0) } else { Value::Unknown };
        let writes = (call.to == Callee::At(GET)).then_some(Value::Mark(7));
        Outcome { returns: call.to != Callee::At(FATAL), result, writes }
    }
}

/// BL from an address.
fn bl(at: Addr, to: Addr) -> [u16; 2] {
    let offset = (to as i64) - (at as i64 + 4);
    let bits = (offset >> 1) as u32;
    let sign = u32::from(offset < 0);
    let high = 0xF000 | (sign << 10) | (bits >> 11 & 0x3FF);
    // J1 and J2 are set where the distance is small.
    [high as u16, (0xF800 | (bits & 0x7FF)) as u16]
}

/// Code in which `Err` is a call.
fn code(parts: &[Result<u16, Addr>]) -> Code {
    let mut all: Vec<u16> = Vec::new();
    for part in parts {
        let at = START + 2 * all.len() as u64;
        match part {
            Ok(half) => all.push(*half),
            Err(to) => all.extend(bl(at, *to)),
        }
    }
    Code(all)
}

fn paths(code: &Code, arguments: [Value; 4]) -> Paths {
    Paths::of(code, START, START + 2 * code.0.len() as u64 - 1, arguments)
}

const NONE: [Value; 4] = [Value::Unknown; 4];

/// What is called with which first argument.
fn calls(paths: &Paths) -> Vec<(Addr, Value)> {
    let to = |call: &Call| if let Callee::At(to) = call.to { to } else { 0 };
    paths.calls().map(|call| (to(call), call.arguments[0])).collect()
}

#[test]
fn constants_in_registers_and_on_the_stack() {
    // push {r4, lr}; ldr r0, [pc, #16]; mov r4, r0; bl get; mov r0, r4; adds r0, #4; bl put; pop {r4, pc}; the word
    let parts = [Ok(0xB510), Ok(0x4804), Ok(0x4604), Err(GET), Ok(0x4620), Ok(0x3004), Err(PUT), Ok(0xBD10)];
    let mut plain = code(&parts);
    plain.0.extend([0x0040, 0x2000]);
    let found = paths(&plain, NONE);
    assert!(found.is_complete && found.returns());
    assert_eq!(calls(&found), [(GET, Value::Is(0x2000_0040)), (PUT, Value::Is(0x2000_0044))]);
    // push {r0, lr}; movw r3, #0x40; movt r3, #0x2000; str r3, [sp]; bl put; ldr r0, [sp]; bl put; pop {r1, pc}
    let by_halves = [0xB501, 0xF240, 0x0340, 0xF2C2, 0x0300, 0x9300].map(Ok);
    let rest = [Err(PUT), Ok(0x9800), Err(PUT), Ok(0xBD02)];
    let found = paths(&code(&[by_halves.as_slice(), &rest].concat()), NONE);
    assert_eq!(calls(&found)[1], (PUT, Value::Is(0x2000_0040)));
}

#[test]
fn both_ways_of_a_branch_and_the_only_one_of_a_known_one() {
    // cmp r0, #1; beq else; movs r0, #8; b end; else: movs r0, #16; end: b.w put
    let branches = code(&[Ok(0x2801), Ok(0xD001), Ok(0x2008), Ok(0xE000), Ok(0x2010), Ok(0xF000), Ok(0xB8F9)]);
    let found = calls(&paths(&branches, NONE));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&(PUT, Value::Is(8))) && found.contains(&(PUT, Value::Is(16))));
    let one = [Value::Is(1), Value::Unknown, Value::Unknown, Value::Unknown];
    assert_eq!(calls(&paths(&branches, one)), [(PUT, Value::Is(16))]);
    // cmp r1, #0; ite eq; moveq r0, #8; movne r0, #16; bl put; pop {pc}
    let block = code(&[Ok(0x2900), Ok(0xBF0C), Ok(0x2008), Ok(0x2010), Err(PUT), Ok(0xBD00)]);
    let mut found = calls(&paths(&block, NONE));
    found.sort_unstable();
    assert_eq!(found, [(PUT, Value::Is(8)), (PUT, Value::Is(16))]);
}

#[test]
fn a_loop_over_objects_ends() {
    // push {r4, lr}; movs r4, #0; again: mov r0, r4; bl put; adds r4, #8; cmp r4, #16; bne again; pop {r4, pc}
    let parts = [Ok(0xB510), Ok(0x2400), Ok(0x4620), Err(PUT), Ok(0x3408), Ok(0x2C10), Ok(0xD1F9), Ok(0xBD10)];
    assert_eq!(calls(&paths(&code(&parts), NONE)), [(PUT, Value::Is(0)), (PUT, Value::Is(8))]);
    // The same without an end: what is put is not known in the end, and the walk ends.
    let endless = [Ok(0xB510), Ok(0x2400), Ok(0x4620), Err(PUT), Ok(0x3408), Ok(0xE7FA)];
    let found = paths(&code(&endless), NONE);
    assert_eq!(calls(&found).last(), Some(&(PUT, Value::Unknown)));
    assert!(!found.returns() && found.repeats(|call| call.to == Callee::At(PUT)));
}

/// The last instruction of an IT block set the flags, and a branch behind it went only one way.
#[test]
fn an_instruction_in_an_it_block_set_the_flags() {
    // push {r4, lr}; bl get; cmp r0, #0; it eq; moveq r4, #1; bne out; bl put; out: pop {r4, pc}
    let parts = [Ok(0xB510), Err(GET), Ok(0x2800), Ok(0xBF08), Ok(0x2401), Ok(0xD101), Err(PUT), Ok(0xBD10)];
    let found = paths(&code(&parts), NONE);
    assert!(!found.leads_out(|call| call.to == Callee::At(GET), |call| call.to == Callee::At(PUT)));
}

/// A comparison of floating-point numbers left the flags of the one before.
#[test]
fn flags_of_the_floating_point_unit_were_those_of_an_older_comparison() {
    // cmp r0, #0 (with r0 = 0); vmrs APSR_nzcv, fpscr; bne out; bl put; out: bx lr
    let compares = |middle: [u16; 2]| {
        let parts = [Ok(0x2800), Ok(middle[0]), Ok(middle[1]), Ok(0xD100), Ok(0x4770), Ok(0x4770)];
        paths(&code(&parts), [Value::Is(0), Value::Unknown, Value::Unknown, Value::Unknown]).pieces.len()
    };
    assert_eq!(compares([0xEEF1, 0xFA10]), 3, "vmrs");
    assert_eq!(compares([0xFA11, 0xF102]), 3, "lsls.w");
    assert_eq!(compares([0xEA50, 0x9102]), 2, "csel leaves them");
    assert_eq!(compares([0xBF00, 0xBF00]), 2, "nop");
}

/// Memory that a function gave to its caller was said to be lost.
#[test]
fn memory_that_is_returned_was_kept() {
    // push {r0, r1, r2, lr}; add r1, sp, #4; bl get; ldr r0, [sp, #4]; pop {r0, r1, r2, pc}
    let found = paths(&code(&[Ok(0xB507), Ok(0xA901), Err(GET), Ok(0x9801), Ok(0xBD07)]), NONE);
    assert_eq!(found.returned(), None, "r0 is popped, too");
    // ...; ldr r0, [sp, #4]; subs r0, #8; add sp, #12; pop {pc}: an address in front of it
    let parts = [Ok(0xB507), Ok(0xA901), Err(GET), Ok(0x9801), Ok(0x3808), Ok(0xB003), Ok(0xBD00)];
    let found = paths(&code(&parts), NONE);
    assert_eq!(found.returned(), Some(7));
    assert_eq!(found.calls().last().map(|call| call.to), Some(Callee::Result));
}

/// A thread that waits behind a put was said to have what it took.
#[test]
fn a_call_behind_a_put_was_between_a_get_and_a_put() {
    let is = |to: Addr| move |call: &Call| call.to == Callee::At(to);
    let wait = PUT + 0x40;
    let between = |parts: &[Result<u16, Addr>]| paths(&code(parts), NONE).leads_between(is(GET), is(wait), is(PUT));
    // push {r4, lr}; bl get; bl wait; bl put; pop {r4, pc}
    assert!(between(&[Ok(0xB510), Err(GET), Err(wait), Err(PUT), Ok(0xBD10)]));
    assert!(!between(&[Ok(0xB510), Err(GET), Err(PUT), Err(wait), Ok(0xBD10)]));
    assert!(!between(&[Ok(0xB510), Err(wait), Err(GET), Err(PUT), Ok(0xBD10)]), "it is in front of the get");
}

/// "Guard uses level without semaphore spi, which pump holds there": pump reads it behind the put.
#[test]
fn an_access_behind_a_put_was_taken_for_one_with_the_lock() {
    let is = |to: Addr| move |call: &Call| call.to == Callee::At(to);
    let held = |parts: &[Result<u16, Addr>], len| {
        let code = code(parts);
        let arguments = [Value::Is(0x2000_0000), Value::Unknown, Value::Unknown, Value::Unknown];
        let last = START + 2 * code.0.len() as u64 - 1;
        let paths = Paths::accessing(&code, (START, last), arguments, Region { start: 0x2000_0000, len });
        let accesses = paths.calls().filter(|call| call.to == Callee::Access).count();
        (accesses, paths.leads_between(is(GET), |call| call.to == Callee::Access, is(PUT)))
    };
    // push {r4, lr}; mov r4, r0; bl get; bl put; ldr r3, [r4]; pop {r4, pc}
    assert_eq!(held(&[Ok(0xB510), Ok(0x4604), Err(GET), Err(PUT), Ok(0x6823), Ok(0xBD10)], 4), (1, false));
    assert_eq!(held(&[Ok(0xB510), Ok(0x4604), Err(GET), Ok(0x6823), Err(PUT), Ok(0xBD10)], 4), (1, true));
    // ldr r3, [r4, #4]: another variable.
    assert_eq!(held(&[Ok(0xB510), Ok(0x4604), Err(GET), Ok(0x6863), Err(PUT), Ok(0xBD10)], 4), (0, false));
}

/// A thread that was interrupted in a loop between a get and a put, with no call in between, was not known to have what it took.
#[test]
fn an_instruction_between_a_get_and_a_put() {
    let is = |to: Addr| move |call: &Call| call.to == Callee::At(to);
    let of = |code: &Code, at: Addr| {
        let last = START + 2 * code.0.len() as u64 - 1;
        let function = Function { program: code, first: START, last, arguments: NONE };
        function.is_between(START + at, &is(GET), &is(PUT), &is(MAY_PUT))
    };
    // push {r4, lr}; movs r4, #9; bl get; loop: subs r4, #1; bne loop; bl put; pop {r4, pc}
    let parts = [Ok(0xB510), Ok(0x2409), Err(GET), Ok(0x3C01), Ok(0xD1FD), Err(PUT), Ok(0xBD10)];
    let found = code(&parts);
    assert_eq!([2, 4, 8, 10, 12, 16].map(|at| of(&found, at)), [false, false, true, true, true, false].map(Some));
    assert_eq!(of(&found, 0x40), None, "no path leads there");
    // push {r4, lr}; bl get; bl put; movs r4, #1; bl get; movs r4, #2; bl put; pop {r4, pc}
    let twice = code(&[Ok(0xB510), Err(GET), Err(PUT), Ok(0x2401), Err(GET), Ok(0x2402), Err(PUT), Ok(0xBD10)]);
    assert_eq!([10, 16].map(|at| of(&twice, at)), [Some(false), Some(true)], "between two, and in the second");
    // push {r4, lr}; cbz r0, over; bl get; over: movs r4, #1; bl put; pop {r4, pc}
    let either = code(&[Ok(0xB510), Ok(0xB108), Err(GET), Ok(0x2401), Err(PUT), Ok(0xBD10)]);
    assert_eq!(of(&either, 8), None, "a path leads there without the get");
    // push {r4, lr}; bl get; cbz r4, over; bl put; over: movs r4, #1; pop {r4, pc}
    let early = code(&[Ok(0xB510), Err(GET), Ok(0xB10C), Err(PUT), Ok(0x2401), Ok(0xBD10)]);
    assert_eq!(of(&early, 12), None, "a path leads there behind a put");
    // push {r4, lr}; bl get; bl may_put; movs r4, #1; bl put; pop {r4, pc}
    let unknown = code(&[Ok(0xB510), Err(GET), Err(MAY_PUT), Ok(0x2401), Err(PUT), Ok(0xBD10)]);
    assert_eq!(of(&unknown, 10), None, "that call may put it");
}

#[test]
fn a_path_that_leaves_without_a_put() {
    let is = |to: Addr| move |call: &Call| call.to == Callee::At(to);
    // push {r4, lr}; bl get; cbz r4, +2 (over); pop {r4, pc}; over: bl put; pop {r4, pc}
    let leaves = paths(&code(&[Ok(0xB510), Err(GET), Ok(0xB104), Ok(0xBD10), Err(PUT), Ok(0xBD10)]), NONE);
    assert!(leaves.leads_out(is(GET), is(PUT)));
    // push {r4, lr}; bl get; cbnz r0, out; bl put; out: pop {r4, pc}: where get succeeds, it puts
    let checks = paths(&code(&[Ok(0xB510), Err(GET), Ok(0xB908), Err(PUT), Ok(0xBD10)]), NONE);
    assert!(!checks.leads_out(is(GET), is(PUT)));
    // The path that does not put ends in a function that does not return.
    let parts = [Ok(0xB510), Err(GET), Ok(0xB10C), Err(FATAL), Err(PUT), Ok(0xBD10)];
    assert!(!paths(&code(&parts), NONE).leads_out(is(GET), is(PUT)));
    // again: bl get; cbz r4, again; bl put; b again
    let round = paths(&code(&[Err(GET), Ok(0xB104), Err(PUT), Ok(0xE7FA)]), NONE);
    assert!(!round.leads_out(is(GET), is(PUT)), "cbz goes forward: to the put");
}

#[test]
fn what_a_call_writes_on_the_stack() {
    // push {r0, r1, r2, lr}; add r1, sp, #4; bl get; bl fill; ldr r0, [sp, #4]; bl put; pop
    let parts = [Ok(0xB507), Ok(0xA901), Err(GET), Err(0x500), Ok(0x9801), Err(PUT), Ok(0xBD0E)];
    assert_eq!(calls(&paths(&code(&parts), NONE))[2], (PUT, Value::Mark(7)));
    // push {r0, r1, r2, lr}; add r1, sp, #4; bl get; ldr r0, [sp, #4]; str r0, [r4]; pop: others have it
    let stores = paths(&code(&[Ok(0xB507), Ok(0xA901), Err(GET), Ok(0x9801), Ok(0x6020), Ok(0xBD0E)]), NONE);
    let stored = stores.calls().find(|call| call.to == Callee::Store).unwrap();
    assert_eq!(stored.passes, [7]);
}

#[test]
fn a_table_of_jumps() {
    // cmp r0, #1; bhi end; tbb [pc, r0]; 1, 2; movs r1, #1; end: bx lr
    let found = paths(&code(&[0x2801, 0xD803, 0xE8DF, 0xF000, 0x0201, 0x2101, 0x4770].map(Ok)), NONE);
    assert!(found.is_complete && found.returns());
    // cmp r0, #1; bhi 0x116; adr r2, 0x10c; ldr.w pc, [r2, r0, lsl #2]; nop; 0x10c: two words; 0x114: bx lr; bx lr
    let words = |entry: u16| {
        let code = vec![0x2801, 0xD808, 0xA201, 0xF852, 0xF020, 0xBF00, 0x0115, 0, entry, 0, 0x4770, 0x4770];
        paths(&Code(code), NONE)
    };
    let found = words(0x0117);
    assert!(found.is_complete && found.returns(), "a table of addresses, as GCC writes it without optimisation");
    assert!(!words(0x0116).is_complete, "that is no Thumb code");
    // tbb without a comparison
    assert!(!paths(&code(&[0xE8DF, 0xF000, 0x0201, 0x4770].map(Ok)), NONE).is_complete);
}

#[test]
fn any_code_is_survived() {
    let mut state = 7_u32;
    for _ in 0..2000 {
        let halves = (0..64).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as u16
        });
        let _ = paths(&Code(halves.collect()), [Value::Is(u32::MAX), Value::Is(0), Value::Unknown, Value::Unknown]);
    }
}

/// A loop that copies bytes: which register holds which argument at its store.
#[test]
fn a_pointer_that_a_loop_moves_on_was_no_argument() {
    // add r2, r1; mov r3, r0; push {r4, lr}; L: cmp r1, r2; bne; pop {r4, pc}; ldrb r4, [r1], #1; strb r4, [r3], #1; b L
    let code = Code(vec![0x440A, 0x4603, 0xB510, 0x4291, 0xD100, 0xBD10, 0xF811, 0x4B01, 0xF803, 0x4B01, 0xE7F7]);
    let of = |argument: usize, register| {
        let arguments = std::array::from_fn(|n| if n == argument { Value::Mark(1) } else { Value::Unknown });
        Paths::watching(&code, START, START + 21, arguments, (START + 16, register)).1
    };
    assert_eq!((of(0, 3), of(1, 3)), (Some(Value::Mark(1)), Some(Value::Unknown)), "to");
    assert_eq!((of(1, 1), of(0, 1)), (Some(Value::Mark(1)), Some(Value::Unknown)), "from");
    let nowhere = Paths::watching(&code, START, START + 21, [Value::Unknown; 4], (START + 40, 3));
    assert_eq!(nowhere.1, None, "no path leads there");
}

/// A thread that numbers its packets, and gets a new one only where it has none, was said to get one while it has one.
#[test]
fn a_number_that_is_counted_up_made_a_pointer_unknown() {
    // push {r0, r1, r2, lr}; movs r4, #0; str r4, [sp, #4]; again: ldr r0, [sp, #4]; cmp r0, #0; bne have; add r1, sp, #4; bl get;
    // adds r4, #1; have: bl fill; cmp r0, #0; bne again; bl put; movs r3, #0; str r3, [sp, #4]; b again
    let start = [Ok(0xB507), Ok(0x2400), Ok(0x9401)];
    let get = [Ok(0x9801), Ok(0x2800), Ok(0xD103), Ok(0xA901), Err(GET), Ok(0x3401)];
    let rest = [Err(0x500), Ok(0x2800), Ok(0xD1F4), Err(PUT), Ok(0x2300), Ok(0x9301), Ok(0xE7EF)];
    let code = Succeeds(code(&[&start[..], &get, &rest].concat()));
    let found = Paths::of(&code, START, START + 2 * code.0.0.len() as u64 - 1, NONE);
    let is = |to| move |call: &Call| call.to == Callee::At(to);
    assert!(found.is_complete && found.leads_to(is(GET), is(PUT)));
    assert!(!found.leads_out(is(GET), is(PUT)), "it never gets another one");
}

/// Only calls of the kernel's functions were seen to disable interrupts.
#[test]
fn instructions_that_disable_interrupts_are_part_of_paths() {
    let of = |code: &[u16]| -> Vec<Callee> { paths(&Code(code.to_vec()), NONE).calls().map(|call| call.to).collect() };
    // mrs r3, PRIMASK; cpsid i; msr PRIMASK, r3; bx lr
    let both = [Callee::Interrupts(true), Callee::Interrupts(false)];
    assert_eq!(of(&[0xF3EF, 0x8310, 0xB672, 0xF383, 0x8810, 0x4770]), both);
    // movs r3, #64; msr BASEPRI, r3; movs r3, #0; msr BASEPRI, r3; bx lr
    assert_eq!(of(&[0x2340, 0xF383, 0x8811, 0x2300, 0xF383, 0x8811, 0x4770]), both);
    assert_eq!(of(&[0xF383, 0x8808, 0x4770]), [], "msr MSP, r3");
    // cpsid i; cbz r0, to bx lr; cpsie i; bx lr
    let early = paths(&Code(vec![0xB672, 0xB100, 0xB662, 0x4770]), NONE);
    let disables = |call: &Call| call.to == Callee::Interrupts(true);
    let enables = |call: &Call| call.to == Callee::Interrupts(false);
    assert!(early.leads_out(disables, enables) && early.leads_to(disables, enables));
}

/// `s_pwm` was the variable of a loop that reads what is 16 bytes behind it.
#[test]
fn what_is_reached_from_the_address_of_another_variable_is_used() {
    // ldr r3, [pc, #4]; ldrb r2, [r3, #16]; movs r0, #0; bx lr; the word
    let found = paths(&Code(vec![0x4B01, 0x7C1A, 0x2000, 0x4770, 0x0040, 0x2000]), NONE);
    assert_eq!(found.used.into_iter().collect::<Vec<_>>(), [0x2000_0050]);
    // ldr r0, [pc, #4]; b.w put; bx lr; the word
    let passed = paths(&code(&[Ok(0x4801), Err(PUT), Ok(0x4770), Ok(0x0040), Ok(0x2000)]), NONE);
    assert!(passed.used.contains(&0x2000_0040), "it is passed: {:?}", passed.used);
}

/// A member of an element whose index is not known, one of a known element, and one through a pointer that is not known.
#[test]
fn a_store_to_an_element_of_an_array_had_no_address() {
    // ldr r3, [pc, #16]; add.w r3, r3, r0, lsl #4; movs r2, #0; str r2, [r3, #4]; ldr r1, [pc, #8]; strb r2, [r1, #1]; str r2, [r0]; bx lr;
    // .word 0x20000100
    let code =
        Code(vec![0x4B04, 0xEB03, 0x1300, 0x2200, 0x605A, 0x4902, 0x704A, 0x6002, 0x4770, 0xBF00, 0x0100, 0x2000]);
    let stored = Paths::storing(&code, START, START + 17, [Value::Unknown; 4]).stored;
    let zero = |place, bytes| Stored { place, value: Value::Is(0), bytes };
    let expected = [(START + 8, zero(Value::Near(0x2000_0104), 4)), (START + 12, zero(Value::Is(0x2000_0101), 1))];
    assert_eq!(stored, expected.into());
    assert!(paths(&code, [Value::Unknown; 4]).stored.is_empty(), "nobody asks");
}
