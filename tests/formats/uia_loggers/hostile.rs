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
