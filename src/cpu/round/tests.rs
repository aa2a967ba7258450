//! Tests of the rounds of loops, on code that an assembler made.

use super::*;

/// Of code at 0x100 and of words.
fn found(code: &[u16], pc: Addr, values: &[(&str, u64)], words: &[(Addr, u32)]) -> Option<Round> {
    let mut registers = Registers::new(Architecture::CortexM);
    assert!(registers.set("pc", pc));
    values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
    let half = |at: Addr| code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 2).copied();
    let word = |at: Addr| {
        let code = || Some(u32::from(half(at)?) | u32::from(half(at.checked_add(2)?).unwrap_or_default()) << 16);
        code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
    };
    round(&registers, &word, &|at| at < 0x1000)
}

/// L: ldr r2, [r3, #4]; cmp r2, r1; bgt end; ldr r3, [r3]; cmp r3, #0; bne L; end: bx lr
const LIST: [u16; 7] = [0x685A, 0x428A, 0xDC02, 0x681B, 0x2B00, 0xD1F9, 0x4770];

#[test]
fn a_list_whose_node_points_to_itself() {
    let words = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0x2000_0020), (0x2000_0024, 2)];
    let of = |pc| found(&LIST, pc, &[("r3", 0x2000_0010), ("r1", 5), ("r2", 0), ("xpsr", 0x0100_0000)], &words);
    let round = of(0x100).unwrap();
    assert_eq!(round.reads, [(0x2000_0020, 0x2000_0020), (0x2000_0024, 2)]);
    assert_eq!((round.follows, round.writes, round.carries), (vec![0x2000_0020], Vec::new(), true));
    assert_eq!(of(0x106).map(|round| round.follows), Some(vec![0x2000_0020]), "in the middle");
    let end = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0), (0x2000_0024, 2)];
    assert_eq!(found(&LIST, 0x100, &[("r3", 0x2000_0010), ("r1", 5)], &end), None, "it ends");
}

#[test]
fn a_list_that_is_a_circle_of_two() {
    let words = [(0x2000_0010, 0x2000_0020), (0x2000_0014, 1), (0x2000_0020, 0x2000_0010), (0x2000_0024, 2)];
    let round = found(&LIST, 0x100, &[("r3", 0x2000_0010), ("r1", 5)], &words).unwrap();
    assert_eq!((round.reads.len(), round.follows), (4, vec![0x2000_0010, 0x2000_0020]));
}

#[test]
fn a_length_of_zero_never_comes_to_the_end() {
    // L: ldrb r2, [r0, #1]; adds r0, r0, r2; cmp r0, r1; bcc L; bx lr
    let code = [0x7842, 0x1880, 0x4288, 0xD3FB, 0x4770];
    let of = |word| found(&code, 0x100, &[("r0", 0x2000_0000), ("r1", 0x2000_0010)], &[(0x2000_0000, word)]);
    let round = of(0x0000_0007).unwrap();
    assert_eq!((round.reads, round.follows), (vec![(0x2000_0000, 7)], Vec::new()));
    assert_eq!(of(0x0000_2007), None, "it is 32 bytes");
}

/// A thread that looks through a list again and again until an interrupt marks an element was said to be in a circle.
#[test]
fn a_list_that_is_looked_through_again_was_a_circle() {
    // again: ldr r3, [r0]; L: ldr r2, [r3, #4]; cmp r2, #1; beq end; ldr r3, [r3]; cmp r3, #0; bne L; b again; end: bx lr
    let code = [0x6803, 0x685A, 0x2A01, 0xD003, 0x681B, 0x2B00, 0xD1F9, 0xE7F7, 0x4770];
    let node = |n: u64| 0x2000_0100 + 16 * n;
    let next = |n: u64| if n < 19 { u32::try_from(node(n + 1)).unwrap() } else { 0 };
    let nodes = (0..20).flat_map(|n| [(node(n), next(n)), (node(n) + 4, 0)]);
    let words: Vec<(Addr, u32)> = nodes.chain([(0x2000_0000, 0x2000_0100)]).collect();
    for pc in [0x100, 0x102, 0x108, 0x10E] {
        let values = [("r0", 0x2000_0000), ("r3", node(3)), ("r2", 0), ("xpsr", 0x0100_0000)];
        assert_eq!(found(&code, pc, &values, &words), None, "{pc:#x}");
    }
}

/// A function that returns to a circle is not in it, and a constant of the code that is an address is no pointer that is followed.
#[test]
fn a_loop_that_is_not_reached_yet_was_the_one_that_does_not_end() {
    // nop; then the list
    let code = [&[0xBF00][..], &LIST].concat();
    let words = [(0x2000_0020, 0x2000_0020), (0x2000_0024, 2)];
    let of = |pc| found(&code, pc, &[("r3", 0x2000_0020), ("r1", 5), ("r2", 0)], &words);
    assert_eq!(of(0x100), None);
    assert!(of(0x102).is_some());
    let in_block = [("r3", 0x2000_0020), ("r1", 5), ("r2", 0), ("xpsr", 0x0100_0800)];
    assert_eq!(found(&code, 0x102, &in_block, &words), None, "in an IT block");
    let of = |words: &[(Addr, u32)]| in_circles(words, &|_, _| true);
    assert_eq!(of(&[(0x110, 0x2000_0000), (0x2000_0000, 7)]), [] as [Addr; 0]);
    assert_eq!(of(&[(0x2000_0000, 0x2000_0010), (0x2000_0010, 0x2000_0000)]).len(), 2);
}

/// A loop that waits for memory to change looks the same in each round, too.
#[test]
fn a_loop_that_waits_was_one_that_does_not_end() {
    // L: ldr r2, [r0]; ldr r2, [r2]; cmp r2, #0; beq L; bx lr
    let code = [0x6802, 0x6812, 0x2A00, 0xD0FB, 0x4770];
    let words = [(0x2000_0000, 0x2000_0010), (0x2000_0010, 0)];
    assert_eq!(found(&code, 0x100, &[("r0", 0x2000_0000)], &words), None);
    // L: nop; b L
    assert_eq!(found(&[0xBF00, 0xE7FD], 0x100, &[], &[]), None, "a loop without a condition is a rule of its own");
}

#[test]
fn what_decides_ends_it_and_a_counter_does_not() {
    // L: str r0, [r3]; ldr r3, [r3]; cmp r3, #0; bne L
    let words = [(0x2000_0020, 0x2000_0020), (0x2000_0030, 5)];
    let values = [("r3", 0x2000_0020), ("r0", 0), ("r4", 0), ("r5", 0x2000_0030)];
    let of = |code: &[u16]| found(code, 0x100, &values, &words);
    assert_eq!(of(&[0x6018, 0x681B, 0x2B00, 0xD1FB]), None, "it writes the end of the list");
    // The same with wfi; with adds r4, #1; with a word that is counted up: ldr r1, [r5]; adds r1, #1; str r1, [r5].
    assert_eq!(of(&[0xBF30, 0x681B, 0x2B00, 0xD1FB]), None);
    assert!(of(&[0xBF00, 0x681B, 0x2B00, 0xD1FB]).is_some());
    assert!(of(&[0x3401, 0x681B, 0x2B00, 0xD1FB]).is_some());
    let counts = of(&[0x6829, 0x3101, 0x6029, 0x681B, 0x2B00, 0xD1F9]).unwrap();
    assert_eq!((counts.follows, counts.writes), (vec![0x2000_0020], vec![0x2000_0030]));
    // L: subs r4, #1; bne L, with r4 0: it takes as long as it takes.
    assert_eq!(of(&[0x3C01, 0xD1FD]), None);
}

/// The ring of a driver became shorter while its head was behind the new end.
#[test]
fn an_index_that_never_comes_to_its_end() {
    // L: ldr r2, [r3]; ldr r1, [r3, #4]; cmp r2, r1; beq end; adds r2, #1; ldr r1, [r3, #8]; cmp r2, r1; bne store; movs r2, #0;
    // store: str r2, [r3]; b L; end: bx lr
    let code = [0x681A, 0x6859, 0x428A, 0xD006, 0x3201, 0x6899, 0x428A, 0xD100, 0x2200, 0x601A, 0xE7F4, 0x4770];
    let of = |head| {
        let words = [(0x2000_0000, 3), (0x2000_0004, head), (0x2000_0008, 6)];
        found(&code, 0x108, &[("r3", 0x2000_0000), ("r2", 3)], &words)
    };
    let round = of(9).unwrap();
    assert_eq!((round.reads, round.writes), (vec![(0x2000_0004, 9), (0x2000_0008, 6)], vec![0x2000_0000]));
    assert!(!round.carries, "it begins anew where it sets the index to 0");
    assert_eq!(of(5), None, "it comes to 5");
}

/// The end of an array, which is in front of its own place, was called a circle of a list.
#[test]
fn a_pointer_into_its_own_structure_is_no_list() {
    // L: ldr r2, [r3, #16]; ldrb r1, [r0, #1]; adds r0, r0, r1; cmp r0, r2; bcc L; bx lr
    let code = [0x691A, 0x7841, 0x1840, 0x4290, 0xD3FA, 0x4770];
    let words = [(0x2000_0000, 0), (0x2000_0010, 0x2000_000C)];
    let round = found(&code, 0x100, &[("r3", 0x2000_0000), ("r0", 0x2000_0000)], &words).unwrap();
    assert_eq!(round.follows, [] as [Addr; 0]);
}

/// A wait for an interrupt's word in a function that is called, and counts, is no such loop.
#[test]
fn a_wait_that_calls_a_function_and_counts_is_none() {
    // L: bl get; ldr r1, [r5]; adds r1, #1; str r1, [r5]; cmp r0, #0; beq L; bx lr; get: push {r4, lr}; ldr r0, [r6]; pop {r4, pc}
    let code = [0xF000, 0xF806, 0x6829, 0x3101, 0x6029, 0x2800, 0xD0F8, 0x4770, 0xB510, 0x6830, 0xBD10];
    let words = [(0x2000_0000, 0), (0x2000_0030, 5), (0x2000_0FF8, 0), (0x2000_0FFC, 0)];
    let values = [("r5", 0x2000_0030), ("r6", 0x2000_0000), ("sp", 0x2000_1000), ("r4", 0), ("lr", 0x101)];
    for pc in [0x100, 0x106, 0x110, 0x112] {
        assert_eq!(found(&code, pc, &values, &words), None, "{pc:#x}");
    }
}

#[test]
fn loops_on_a_riscv() {
    // L: lw a4, 4(a5); blt a1, a4, end; lw a5, 0(a5); bnez a5, L; end: ret
    let list = [0x0047_A703, 0x00E5_C663, 0x0007_A783, 0xFE07_9AE3, 0x0000_8067];
    // L: lw a2, 0(a3); lw a1, 4(a3); beq a2, a1, end; addi a2, a2, 1; lw a1, 8(a3); bne a2, a1, store; li a2, 0;
    // store: sw a2, 0(a3); j L; end: ret
    let ring = [
        0x0006_A603,
        0x0046_A583,
        0x00B6_0E63,
        0x0016_0613,
        0x0086_A583,
        0x00B6_1463,
        0x0000_0613,
        0x00C6_A023,
        0xFE1F_F06F,
        0x0000_8067,
    ];
    let of = |code: &[u32], values: &[(&str, u64)], words: &[(Addr, u32)]| {
        let mut registers = Registers::new(Architecture::Riscv32);
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value)));
        let word = |at: Addr| {
            let code = || code.get(usize::try_from(at.checked_sub(0x100)?).ok()? / 4).copied();
            code().or_else(|| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word))
        };
        round(&registers, &word, &|at| at < 0x1000)
    };
    let words = [(0x8000_0020, 0x8000_0020), (0x8000_0024, 2)];
    let found = of(&list, &[("pc", 0x100), ("x15", 0x8000_0020), ("x11", 5), ("x14", 0)], &words);
    assert_eq!(found.map(|round| round.follows), Some(vec![0x8000_0020]));
    let words = [(0x8000_0000, 3), (0x8000_0004, 9), (0x8000_0008, 6)];
    let found = of(&ring, &[("pc", 0x100), ("x13", 0x8000_0000)], &words);
    assert_eq!(found.map(|round| round.writes), Some(vec![0x8000_0000]));
}
