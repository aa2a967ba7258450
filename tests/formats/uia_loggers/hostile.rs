//! Memory that holds anything at all.

use super::*;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut lap = Lap::new(false, false, BUFFER, 512);
    (0..40).for_each(|i| lap.log(&event(8 + (i % 3) as u8, i)));
    for e in snapshot(&Ev::new(11, 0x777, 0x8002, 9, &[]), 5, 0x2000_0000, &[7; 100], 40) {
        lap.log(&e);
    }
    ram_of(&lap).bytes
});

fn survives(ram: &Ram, hints: &Hints) {
    if let Ok((trace, _)) = load_with(ram, &NoSymbols, hints) {
        let mut count = 0u64;
        for e in trace.events() {
            count += 1;
            drop(extras(&trace, &e));
            trace.asides(&e, |_, _| {});
            assert!(trace.words(&e).len() < 1 << 20);
        }
        assert_eq!(count, trace.len());
        assert!(count <= ram.bytes.len() as u64);
    }
    drop(uia().scan(&ram.bytes, 16));
    let _ = (uia().sniff(&ram.bytes), uia().describes(&ram.bytes));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_memory_holds_is_too_much(
        changes in prop::collection::vec((0usize..768, any::<u32>(), 0u8..3), 0..24),
        header in prop::sample::select(vec![RAM, RAM + 0x40, BUFFER]),
        cut in 0usize..800,
    ) {
        let mut bytes = GOOD.clone();
        for (at, value, how) in changes {
            let place = at % bytes.len() & !3;
            match how {
                0 => bytes[place..place + 4].copy_from_slice(&value.to_le_bytes()),
                1 => bytes[place] ^= value as u8,
                _ => bytes[place..place + 2].copy_from_slice(&half(true, value as u16)),
            }
        }
        bytes.truncate(cut.max(16));
        survives(&Ram { base: RAM, bytes }, &Hints { header: Some(header.into()), ..Hints::default() });
    }

    #[test]
    fn noise_is_no_trace_or_a_harmless_one(bytes in prop::collection::vec(any::<u8>(), 0..2048), shape in 0u32..4) {
        let kind = [3u32, 4, 7, 8][shape as usize];
        let len = bytes.len() as u32 & !3;
        let q = queue(false, &[48, 0, kind, BUFFER + (len / 2 & !3), BUFFER, BUFFER, len, 0, 0, 0, 0, BUFFER + (len / 3 & !3)]);
        let ram = Ram::new(RAM).put(RAM, &q).put(BUFFER, &bytes);
        survives(&ram, &Hints { header: Some(RAM.into()), ..Hints::default() });
    }

    #[test]
    fn what_is_logged_is_what_is_read(
        kinds in prop::collection::vec((8u8..=10, any::<u16>(), any::<u16>(), any::<u64>(), 0usize..9), 1..80),
        minimal: bool,
        big: bool,
        size in 30usize..200,
    ) {
        let mut lap = Lap::new(minimal, big, BUFFER, size * 4);
        for (kind, event, module, stamp, n) in kinds {
            // One build writes one type of record.
            let _ = kind;
            let words: Vec<u32> = (0..n).map(|i| (stamp >> i) as u32).collect();
            lap.log(&Ev::new(8, event, module, stamp, &words));
        }
        prop_assert_eq!(rows(&at(&ram_of(&lap), RAM)), kept(&lap));
    }
}

/// The end of a record that was written over looked like a record of the kinds without links.
#[test]
fn a_piece_of_an_old_record_at_the_end_of_a_lap_was_an_event() {
    let first = [6, 3, 1, 3, 8, 5, 1, 4, 5, 1, 0, 2, 1, 2, 0].map(|n| (0, 0, 0, n));
    let rest = [
        (0, 0, 9627, 5),
        (4030, 9380, 3_874_169_460_268_617_058, 8),
        (49075, 49305, 7_579_550_520_282_636_375, 1),
        (33379, 65147, 4_248_215_511_834_352_540, 5),
        (36734, 16096, 10_926_858_230_613_736_620, 7),
        (40744, 17547, 3_174_610_621_433_937_526, 8),
        (34445, 41479, 16_910_445_429_691_178_748, 6),
        (14881, 21132, 18_045_698_559_383_867_840, 6),
        (33912, 19885, 17_672_579_581_073_617_333, 5),
        (15918, 51512, 5_941_269_153_176_714_220, 4),
        (4280, 53495, 500_941_858_545_358_719, 8),
        (24293, 36083, 4_510_723_445_109_012_044, 2),
        (55943, 24409, 6_219_660_504_250_635_091, 8),
        (32148, 49591, 5_377_516_497_139_282_426, 2),
        (36865, 44727, 11_494_758_927_073_016_404, 8),
        (17662, 3617, 14_226_724_375_117_109_819, 1),
        (1740, 17338, 10_141_267_115_652_908_028, 4),
    ];
    let mut lap = Lap::new(true, false, BUFFER, 102 * 4);
    for (event, module, stamp, n) in first.into_iter().chain(rest) {
        let words: Vec<u32> = (0..n).map(|i| (u64::wrapping_shr(stamp, i)) as u32).collect();
        lap.log(&Ev::new(8, event, module, stamp, &words));
    }
    assert_eq!(rows(&at(&ram_of(&lap), RAM)), kept(&lap));
}
