//! The header of a ThreadX trace: damaged, searched for without symbols, and found by hints or by a symbol alone.

use crate::support::builder::{Buffer, Entry};
use crate::support::flat::Flat;
use crate::support::threadx::*;
use tx_trace::catalogue::Names;
use tx_trace::format::threadx::{Place, ThreadX};
use tx_trace::format::{DecodeOptions, Extent, Format, Hints, Located};
use tx_trace::sym::{Layers, Pairs};
use tx_trace::trace::Severity;

#[test]
fn a_damaged_header_is_made_whole() {
    let b = Buffer { objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
    let right = stamps(&decode(&b));
    let pointers = [
        ("_tx_trace_registry_start_ptr", b.registry()),
        ("_tx_trace_registry_end_ptr", b.ring()),
        ("_tx_trace_buffer_start_ptr", b.ring()),
        ("_tx_trace_buffer_end_ptr", b.end()),
        ("_tx_trace_buffer_current_ptr", b.current_address()),
    ];
    // Each word alone: the others, and the end of the memory, tell.
    for (offset, what) in
        [(8, "base"), (12, "registry start"), (20, "registry end"), (24, "ring start"), (28, "ring end")]
    {
        for value in [0u32, 0xFFFF_FFFF, 0xDEAD_BEEF] {
            let mut bytes = b.bytes();
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
            let t = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default());
            let t = t.unwrap_or_else(|e| panic!("{what} {value:#x}: {e}"));
            assert_eq!(stamps(&t), right, "{what} {value:#x}");
            assert_eq!(issue(&t, "header-mended").severity, Severity::Inferred);
            assert_eq!(t.objects.len(), 2, "{what} {value:#x}");
        }
    }
    // All of it, where the kernel's own pointers are known.
    let mut bytes = b.bytes();
    bytes[..48].fill(0x77);
    let t = decode_bytes(&b, bytes.clone(), &pointers, Extent::All, &DecodeOptions::default()).unwrap();
    assert_eq!(stamps(&t), right);
    let none = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default()).err().unwrap();
    assert_eq!(none.code.name(), "not-a-header");
}

/// A damaged first word hid the whole trace where no symbol led to it, and so did a damaged address.
#[test]
fn a_damaged_header_was_not_found_without_symbols() {
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let b = Buffer { wide, big, objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
        let right = stamps(&decode(&b));
        let word = if wide { 8 } else { 4 };
        // Word by word, alone and together with the first: mask, own address, registry, its end, ring, its end, current.
        for damaged in
            [vec![0], vec![2], vec![3], vec![5], vec![6], vec![0, 1], vec![0, 2], vec![0, 3], vec![0, 5], vec![0, 6]]
        {
            let mut bytes = b.bytes();
            for at in &damaged {
                bytes[at * word..(at + 1) * word].fill(0x5B);
            }
            let ram = [vec![0x11; 1000], bytes.clone()].concat();
            let found = ThreadX.scan(&ram, 4);
            let what = format!("wide {wide} big {big}: words {damaged:?}");
            assert_eq!(found.len(), 1, "{what}");
            assert_eq!((found[0].offset, found[0].base, found[0].capacity), (1000, BASE, 64), "{what}");
            assert!(ThreadX.sniff(&bytes), "{what}");
            let t = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default())
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(stamps(&t), right, "{what}");
            assert_eq!(issue(&t, "header-mended").severity, Severity::Inferred);
        }
        // Where a sound one is, a damaged copy is none.
        let mut copy = b.bytes();
        copy[..word].fill(0);
        let found = ThreadX.scan(&[copy, b.bytes()].concat(), 4);
        assert_eq!(found.iter().map(|f| f.offset).collect::<Vec<_>>(), [b.bytes().len()]);
    }
    // The marks alone are no header.
    let marks = [0xAAAA_AAAA_u32, 0xBBBB_BBBB, 0xCCCC_CCCC].map(u32::to_le_bytes).concat();
    assert_eq!(ThreadX.scan(&[vec![0; 64], marks, vec![0; 64]].concat(), 4), []);
}

/// An overrun of what is before the buffer, as long as up to the registry's start, left a dump without a trace; and so did
/// one bit of the header's own address.
#[test]
fn an_overrun_of_four_words_lost_the_trace() {
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let b = Buffer { wide, big, objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 1000));
        let word = if wide { 8 } else { 4 };
        let mut zeros = b.bytes();
        zeros[..4 * word].fill(0);
        let mut bit = b.bytes();
        bit[2 * word + if big { word - 3 } else { 2 }] ^= 1;
        for (bytes, what) in [(zeros, "zeros"), (bit, "bit")] {
            let found = ThreadX.scan(&[vec![0x11; 1000], bytes].concat(), 4);
            let found: Vec<_> = found.iter().map(|f| (f.offset, f.base, f.capacity)).collect();
            assert_eq!(found, [(1000, BASE, 64)], "wide {wide} big {big}: {what}");
        }
    }
}

/// Where the ring's end was lost, all of the memory behind it was shown as events.
#[test]
fn memory_behind_a_ring_whose_end_is_lost_was_shown_as_events() {
    let noise: Vec<u8> = (0..8000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        // Not around, around, and a pointer so near the start that few events are before it.
        for (count, mask, step) in
            [(40, 0xFFFF_FFFF, 1000), (100, 0xFFFF_FFFF, 1000), (100, 0xFFFF, 9000), (65, 0xFFFF, 40_000)]
        {
            let b = Buffer { wide, big, mask, objects: two_threads(), ..Buffer::new(BASE) };
            let mut b = b.record(64, &steady(count, 5000, step));
            // A slot that was overwritten is no end.
            if count == 100 {
                b.slots[50] = Entry::UNUSED;
            }
            let right = stamps(&decode(&b));
            let word = if wide { 8 } else { 4 };
            for end in [0u32, 0x2000_0003, 0xFFFF_FFE3] {
                let mut bytes = [b.bytes(), noise.clone()].concat();
                let end = u64::from(end);
                let field = if big { end.to_be_bytes() } else { end.to_le_bytes() };
                let field = if wide {
                    &field[..]
                } else if big {
                    &field[4..]
                } else {
                    &field[..4]
                };
                bytes[7 * word..8 * word].copy_from_slice(field);
                let what = format!("wide {wide} big {big} {count} events of {step}: end {end:#x}");
                let t = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default())
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(stamps(&t), right, "{what}");
                assert!(issue(&t, "header-mended").message.contains("ring end"), "{what}");
            }
        }
    }
}

/// A flipped bit in the mask of the time stamps made 32 bits of 16, and time ran backwards.
#[test]
fn a_damaged_time_mask_is_the_nearest_that_ports_have() {
    for (mask, damaged) in [
        (0xFFFF, 0xFFFB),
        (0xFFFF, 0x0100_FFFF),
        (0xFF_FFFF, 0xFE_7FFF),
        (0xFFFF_FFFF, 0),
        (0xFFFF_FFFF, 0xFFFF_FF00),
        (0xFFFF_FFFF, 0x1234_5678),
    ] {
        let b = Buffer { mask, objects: two_threads(), ..Buffer::new(BASE) }.record(64, &steady(100, 5000, 100));
        let right = stamps(&decode(&b));
        let mut bytes = b.bytes();
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(damaged));
        let t = decode_bytes(&b, bytes, &[], Extent::All, &DecodeOptions::default()).unwrap();
        assert_eq!(stamps(&t), right, "{damaged:#x}");
        let message = &issue(&t, "header-mended").message;
        assert!(message.contains(&format!("(used: {} bits)", mask.count_ones())), "{message}");
    }
}

#[test]
fn hints_are_enough_to_locate() {
    let b = Buffer::new(BASE).record(16, &steady(40, 0, 10));
    let hints = Hints { header: Some(BASE), ..Hints::default() };
    let located = ThreadX.locate(&mut Flat::new(BASE, b.bytes()), &Layers::new(), &hints).unwrap();
    assert_eq!(located.location().header, BASE);
}

/// A pointer that only `--symbol` names has neither size nor byte order: on a big-endian machine of 64 bits its first
/// half was read, and the trace said to be never enabled.
#[test]
fn a_symbol_without_size_leads_to_the_header_in_every_shape() {
    const VARIABLE: u64 = 0x2000_3000;
    for (big, pointer, wide) in
        [(false, 4, false), (true, 4, false), (false, 8, false), (true, 8, false), (false, 8, true), (true, 8, true)]
    {
        let b = Buffer { big, wide, ..Buffer::new(BASE) }.record(16, &steady(40, 0, 10));
        let number = |v: u64| {
            let bytes = v.to_le_bytes()[..pointer].to_vec();
            if big { bytes.into_iter().rev().collect() } else { bytes }
        };
        // Header, buffer, enable bits: as a kernel's variables are.
        let mut ram: Vec<u8> = number(BASE);
        ram.extend(number(b.current_address()));
        ram.extend(vec![0xFF; if wide { 8 } else { 4 }]);
        ram.resize((BASE - VARIABLE) as usize, 0xAA);
        ram.extend(b.bytes());
        let symbols = Pairs::new(vec![
            ("_tx_trace_header_ptr".into(), VARIABLE),
            ("_tx_trace_buffer_current_ptr".into(), VARIABLE + pointer as u64),
            ("_tx_trace_event_enable_bits".into(), VARIABLE + 2 * pointer as u64),
        ]);
        let mut memory = Flat::new(VARIABLE, ram);
        let located = Place::locate(&mut memory, &symbols, &Hints::default()).unwrap();
        let capture = located.capture(&mut memory, &symbols, Extent::All).unwrap();
        let t = capture.decode(&ThreadX.catalogue(Names::default()), &DecodeOptions::default()).unwrap();
        assert_eq!((located.at.header, t.len()), (BASE, 16), "big {big}, pointers of {pointer}, wide {wide}");
        let bits = located.kernel.enable_bits;
        // How wide a ULONG is beside long pointers is not known, and only in big-endian order does it matter.
        assert_eq!(bits, (pointer == 4 || !big).then_some(0xFFFF_FFFF), "pointers of {pointer}, wide {wide}");
        assert!(codes(&t).iter().all(|c| !c.starts_with("current")), "{:?}", t.issues);
    }
}
