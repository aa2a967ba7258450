//! The loggers of TI UIA from memory that a model of them left: every wrap, every type of record, what is damaged.

#![allow(clippy::precedence)]

mod damage;
mod hostile;
mod partial;

use std::sync::LazyLock;

use crate::support::flat::Flat;
use crate::support::uia::{Ev, Lap, Ram, Texts, half, queue, record, snapshot, word};
use proptest::prelude::*;
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::code::Code;
use tx_trace::error::Error;
use tx_trace::format::{ALL, DecodeOptions, Extent, Format, Hints};
use tx_trace::sym::{NoSymbols, Pairs, Symbols};
use tx_trace::trace::{ContextKind, Extra, Trace};

const RAM: u32 = 0x2000_0000;
const BUFFER: u32 = 0x2000_0100;

fn uia() -> &'static dyn Format {
    ALL.iter().find(|f| f.name() == "uia").copied().unwrap()
}

fn load_with(ram: &Ram, symbols: &dyn Symbols, hints: &Hints) -> Result<(Trace, Catalogue), Error> {
    let mut memory = Flat::new(ram.base.into(), ram.bytes.clone());
    let located = uia().locate(&mut memory, symbols, hints)?;
    let capture = located.capture(&mut memory, symbols, Extent::All)?;
    let catalogue = capture.catalogue(Names::Duo);
    let trace = capture.decode(&catalogue, &DecodeOptions::default())?;
    Ok((trace, catalogue))
}

fn at(ram: &Ram, header: u32) -> Trace {
    load_with(ram, &NoSymbols, &Hints { header: Some(header.into()), ..Hints::default() }).unwrap().0
}

/// What is kept of an event in a list: type, length, previous length, sequence, stamp, event, module, words.
type Row = (u64, u64, Option<u64>, Option<u64>, Option<u64>, u32, Option<u64>, Vec<u64>);

fn extras(trace: &Trace, e: &tx_trace::trace::Event) -> Vec<(&'static str, Option<u64>)> {
    let mut all = Vec::new();
    trace.extras(e, |name, value| {
        all.push((
            name,
            match value {
                Extra::Number(n) | Extra::Hex(n) => Some(n),
                Extra::Null | Extra::Text(_) => None,
            },
        ));
    });
    all
}

fn extra(trace: &Trace, e: &tx_trace::trace::Event, name: &str) -> Option<u64> {
    extras(trace, e).iter().find(|(n, _)| *n == name).unwrap().1
}

fn text(trace: &Trace, e: &tx_trace::trace::Event, name: &str) -> Option<String> {
    let mut found = None;
    trace.extras(e, |own, value| {
        if let (true, Extra::Text(t)) = (own == name, value) {
            found = Some(t.to_owned());
        }
    });
    found
}

fn rows(trace: &Trace) -> Vec<Row> {
    trace
        .events()
        .map(|e| {
            let of = |name| extra(trace, &e, name);
            (
                of("header_type").unwrap(),
                of("length").unwrap(),
                of("prev_length"),
                of("sequence"),
                e.stamp,
                e.id,
                of("module.id"),
                trace.words(&e).to_vec(),
            )
        })
        .collect()
}

fn expected(e: &Ev, sequence: u32, previous: usize) -> Row {
    let chained = e.kind >= 8;
    (
        e.kind.into(),
        e.len() as u64,
        chained.then_some(previous as u64),
        Some(u64::from(sequence) & if chained { 31 } else { 0xFFFF }),
        e.stored(),
        e.event.into(),
        Some(e.module.into()),
        e.words.iter().map(|w| u64::from(*w)).collect(),
    )
}

fn kept(lap: &Lap) -> Vec<Row> {
    lap.kept().into_iter().map(|i| &lap.written[i]).map(|(e, s, p, _)| expected(e, *s, *p)).collect()
}

fn ram_of(lap: &Lap) -> Ram {
    let ram = Ram::new(RAM).put(lap.base, &lap.mem);
    if lap.minimal {
        ram.put(RAM, &lap.state())
    } else {
        ram.put(RAM, &lap.object(1, RAM + 0x40)).put(RAM + 0x40, &lap.descriptor(0, 1, RAM + 36))
    }
}

fn codes(trace: &Trace) -> Vec<&'static str> {
    trace.issues.iter().map(|i| i.code.name()).collect()
}

/// Events of every length, one after the other.
fn event(kind: u8, i: u32) -> Ev {
    let counts = [0, 1, 2, 4, 8];
    let words: Vec<u32> = (0..counts[i as usize % 5]).map(|k| i.wrapping_mul(77) ^ k).collect();
    Ev::new(kind, 0x100 + (i as u16).wrapping_mul(3), 0x8001 + (i % 5) as u16, u64::from(i) * 0x1_0001_0000, &words)
}

#[test]
fn a_lap_that_ends_anywhere_is_put_in_order() {
    for minimal in [true, false] {
        for big in [false, true] {
            for kind in [8, 9, 10] {
                let mut seen = std::collections::HashSet::new();
                for size in (220..300).step_by(4) {
                    every_event(minimal, big, kind, size, &mut seen);
                }
                // Every word of a buffer but those that few or no records end at.
                let words: std::collections::HashSet<usize> = (60..170).step_by(4).collect();
                assert!(seen.is_superset(&words), "{:?}", words.difference(&seen));
            }
        }
    }
}

/// Reads the logger after each event.
fn every_event(minimal: bool, big: bool, kind: u8, size: usize, seen: &mut std::collections::HashSet<usize>) {
    let mut lap = Lap::new(minimal, big, BUFFER, size);
    for i in 0..60 {
        lap.log(&event(kind, i * i + i / 3 + size as u32 / 4));
        seen.insert(lap.write);
        let ram = ram_of(&lap);
        let trace = at(&ram, RAM);
        assert_eq!(rows(&trace), kept(&lap), "minimal {minimal} big {big} type {kind} after {i}");
        assert!(!codes(&trace).contains(&"chain-broken") && !codes(&trace).contains(&"sequence-gap"));
        // The packet alone tells as much, and so does a queue descriptor.
        if i % 7 == 3 {
            assert_eq!(rows(&at(&ram, BUFFER)), kept(&lap), "packet {minimal} {big} {kind} {i}");
            if !minimal {
                assert_eq!(rows(&at(&ram, RAM + 0x40)), kept(&lap));
            }
        }
    }
}

/// Records in a circular queue, from a read pointer to a write pointer; they go on over its end.
fn circular(big: bool, size: usize, start: usize, records: &[Vec<u8>]) -> Ram {
    let mut mem = vec![0u8; size];
    let mut place = start;
    for b in records.concat() {
        mem[place % size] = b;
        place += 1;
    }
    let (read, write) = (BUFFER + start as u32, BUFFER + (place % size) as u32);
    let q = queue(big, &[44, 0, 3, read, write, BUFFER, size as u32, 2, 0x8034, 0, 0]);
    Ram::new(RAM).put(RAM, &q).put(BUFFER, &mem)
}

#[test]
fn circular_queues_are_read_forward_from_the_read_pointer() {
    let events: Vec<Ev> = (0..12).map(|i| event(u8::from(i % 2 == 1), i)).collect();
    for big in [false, true] {
        let records: Vec<Vec<u8>> =
            events.iter().enumerate().map(|(i, e)| record(big, e, 0, 0xFFFA + i as u32)).collect();
        let len: usize = records.iter().map(Vec::len).sum();
        for start in (0..len + 4).step_by(4) {
            let trace = at(&circular(big, len + 4, start, &records), RAM);
            let want: Vec<Row> = events.iter().enumerate().map(|(i, e)| expected(e, 0xFFFA + i as u32, 0)).collect();
            assert_eq!(rows(&trace), want, "big {big} from {start}");
            assert_eq!(codes(&trace).iter().filter(|c| **c != "no-stamps").count(), 0, "{:?}", codes(&trace));
        }
    }
}

#[test]
fn packets_of_run_mode_are_put_in_order_of_their_numbers() {
    // Four packets of 128 bytes; the third one is being filled, numbers start over at 65536.
    let mut mem = vec![0u8; 512];
    let mut want = Vec::new();
    let mut sequence = 0;
    let order = [3usize, 0, 1, 2];
    let mut live = 0;
    for (age, slot) in order.into_iter().enumerate() {
        let at = slot * 128;
        let mut place = at + 16;
        for k in 0..4 {
            let e = event(1, age as u32 * 4 + k);
            if place + e.len() > at + 128 {
                continue;
            }
            let b = record(false, &e, 0, sequence);
            mem[place..place + b.len()].copy_from_slice(&b);
            want.push(expected(&e, sequence, 0));
            sequence += 1;
            place += b.len();
        }
        let number = (0xFFFEu16).wrapping_add(age as u16).to_be_bytes();
        let length = if slot == 2 { 0 } else { (place - at) as u32 };
        let first = (0xA000_0000 | length).to_be_bytes();
        mem[at..at + 16].copy_from_slice(&[
            first[0], first[1], first[2], first[3], number[0], number[1], 0, 0, 0, 3, 0x80, 0x35, 0xFF, 0xFF, 0, 0,
        ]);
        if slot == 2 {
            live = place;
        }
    }
    let q = queue(false, &[48, 0, 7, BUFFER, BUFFER, BUFFER, 512, 3, 0x8035, 0, 0, BUFFER + live as u32]);
    let trace = at(&Ram::new(RAM).put(RAM, &q).put(BUFFER, &mem), RAM);
    assert_eq!(rows(&trace), want);
    assert!(!codes(&trace).contains(&"sequence-gap"));
}

#[test]
fn types_without_a_public_layout_are_raw_words() {
    let mut records = Vec::new();
    for kind in (4..=7u8).chain(13..=31) {
        let mut b = Vec::new();
        b.extend(word(false, u32::from(kind) << 27 | 16 << 16 | 5));
        b.extend([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        records.push((kind, b));
    }
    let bytes: Vec<Vec<u8>> = records.iter().map(|(_, b)| b.clone()).collect();
    let ram = circular(false, 16 * records.len() + 4, 0, &bytes);
    let (trace, catalogue) =
        load_with(&ram, &NoSymbols, &Hints { header: Some(RAM.into()), ..Hints::default() }).unwrap();
    assert_eq!(trace.len() as usize, records.len());
    for (e, (kind, _)) in trace.events().zip(&records) {
        let name = &catalogue[e.def.unwrap()].name;
        assert_eq!(name.starts_with("Reserved"), *kind >= 13, "{name}");
        assert_eq!(trace.words(&e), [1, 2, 3]);
        assert_eq!(extra(&trace, &e, "header_type"), Some(u64::from(*kind)));
        assert_eq!((e.stamp, extra(&trace, &e, "module.id")), (None, None));
        assert_eq!(extra(&trace, &e, "sequence"), (*kind < 8).then_some(5));
    }
}

#[test]
fn snapshots_are_put_together_from_their_records() {
    let data: Vec<u8> = (0..200u8).collect();
    for big in [false, true] {
        for kind in [2u8, 3, 11, 12] {
            let parts = snapshot(&Ev::new(kind, 0x777, 0x8002, 9, &[]), 5, 0x2000_0000, &data, 64);
            assert_eq!(parts.len(), 4);
            let mut all = vec![event(8, 1)];
            if kind < 8 {
                all[0].kind = 0;
            }
            all.extend(parts.clone());
            // Another snapshot with the same number begins anew.
            all.extend(snapshot(&Ev::new(kind, 0x777, 0x8002, 90, &[]), 5, 0x2000_0000, &data[..40], 64));
            let ram = if kind < 8 {
                let records: Vec<Vec<u8>> = all.iter().enumerate().map(|(i, e)| record(big, e, 0, i as u32)).collect();
                circular(big, 1024, 0, &records)
            } else {
                let mut lap = Lap::new(false, big, BUFFER, 1024);
                all.iter().for_each(|e| lap.log(e));
                ram_of(&lap)
            };
            let trace = at(&ram, RAM);
            let events: Vec<_> = trace.events().collect();
            assert_eq!(events.len(), 3, "type {kind}");
            let words: Vec<u64> = parts[0].words[..6]
                .iter()
                .copied()
                .chain(parts.iter().flat_map(|p| p.words[6..].to_vec()))
                .map(u64::from)
                .collect();
            assert_eq!(trace.words(&events[1]), words, "type {kind} big {big}");
            let of = |name| extra(&trace, &events[1], name);
            assert_eq!(
                (
                    of("snapshot.id"),
                    of("snapshot.address"),
                    of("snapshot.bytes"),
                    of("snapshot.total"),
                    of("snapshot.records")
                ),
                (Some(5), Some(0x2000_0000), Some(200), Some(200), Some(4))
            );
            assert_eq!(extra(&trace, &events[2], "snapshot.bytes"), Some(40));
            assert!(codes(&trace).iter().all(|c| *c == "no-stamps"), "{:?}", codes(&trace));
        }
    }
}

/// LoggerStopMode of UIA 2.30 does not move on between the records of one snapshot.
#[test]
fn a_snapshot_that_its_logger_wrote_over_itself_shows_its_last_part() {
    let data: Vec<u8> = (0..200u8).collect();
    for (kind, head) in [(11u8, 8usize), (12, 16)] {
        let mut lap = Lap::new(false, false, BUFFER, 1024);
        (0..3).for_each(|i| lap.log(&event(8, i)));
        let parts = snapshot(&Ev::new(kind, 0x777, 0x8002, 9, &[]), 5, 0x2000_0000, &data, 64);
        let mut place = lap.write;
        for (i, part) in parts.iter().enumerate() {
            let bytes = record(false, part, lap.previous, lap.sequence);
            lap.mem[place..place + bytes.len()].copy_from_slice(&bytes);
            lap.previous = bytes.len();
            lap.sequence += 1;
            let end = place + bytes.len();
            let mark = word(false, 8 << 27 | (lap.previous as u32) << 5 | lap.sequence & 31);
            lap.mem[end..end + 4].copy_from_slice(&mark);
            lap.write = end;
            place += if i + 1 < parts.len() { head } else { 0 };
        }
        lap.log(&event(8, 4));
        let trace = at(&ram_of(&lap), RAM);
        let events: Vec<_> = trace.events().collect();
        assert_eq!(events.len(), 5, "type {kind}");
        let last: Vec<u64> = parts[3].words.iter().map(|w| u64::from(*w)).collect();
        assert_eq!(trace.words(&events[3]), last);
        assert_eq!(extra(&trace, &events[3], "sequence"), Some(6));
        let lost = trace.issues.iter().find(|i| i.code == Code::SnapshotOverwritten).unwrap();
        assert_eq!(lost.count, 3);
        assert!(!codes(&trace).contains(&"sequence-gap") && !codes(&trace).contains(&"chain-broken"));
    }
}

#[test]
fn gaps_and_drops_are_counted() {
    let mut lap = Lap::new(false, false, BUFFER, 1024);
    for i in 0..10 {
        lap.log(&event(8, i));
        if i == 3 || i == 6 {
            lap.sequence += 2;
        }
    }
    lap.dropped = 7;
    for header in [RAM, RAM + 0x40] {
        let trace = at(&ram_of(&lap), header);
        let find = |code| trace.issues.iter().find(|i| i.code.name() == code).unwrap();
        assert_eq!((find("sequence-gap").count, find("sequence-gap").place.seq), (4, Some(4)));
        assert_eq!(find("events-dropped").count, 7, "{header:#x}");
        assert_eq!(trace.len(), 10);
    }
}

#[test]
fn a_damaged_length_costs_only_what_it_hides() {
    for damage in [0u32, 3, 7, 0x7FC, 20] {
        let mut lap = Lap::new(true, false, BUFFER, 512);
        (0..12).for_each(|i| lap.log(&event(9, i)));
        let (victim, ..) = (5, ());
        let place = lap.written[victim].3;
        let old = u32::from_le_bytes(lap.mem[place..place + 4].try_into().unwrap());
        lap.mem[place..place + 4].copy_from_slice(&word(false, old & !(0x7FF << 16) | damage << 16));
        let trace = at(&ram_of(&lap), RAM);
        let got = rows(&trace);
        // All before it and all behind it.
        let all = kept(&lap);
        assert_eq!(got[..5], all[..5], "length {damage}");
        assert!(got.ends_with(&all[6..]), "length {damage}: {} rows", got.len());
        assert!(codes(&trace).contains(&"chain-broken"), "length {damage}");
    }
}

#[test]
fn a_damaged_packet_header_leaves_the_newest() {
    let mut lap = Lap::new(true, false, BUFFER, 256);
    (0..30).for_each(|i| lap.log(&event(9, i)));
    lap.mem[..4].copy_from_slice(&[0xFF; 4]);
    let trace = at(&ram_of(&lap), RAM);
    assert!(codes(&trace).contains(&"packet-damaged"));
    assert!(kept(&lap).ends_with(&rows(&trace)) && !trace.is_empty());
}

#[test]
fn loggers_are_found_by_their_symbols_and_chosen_by_header() {
    let mut one = Lap::new(false, false, BUFFER, 256);
    one.log(&event(8, 1));
    let mut two = Lap::new(false, false, BUFFER + 0x200, 512);
    (0..4).for_each(|i| two.log(&event(10, i)));
    let (object, list) = (RAM, RAM + 0x80);
    let ram = Ram::new(RAM)
        .put(object, &[one.object(1, list), two.object(2, list + 48)].concat())
        .put(list, &[one.descriptor(list + 48, 1, object + 36), two.descriptor(0, 2, object + 52 + 36)].concat())
        .put(RAM + 0x70, &word(false, list))
        .put(one.base, &one.mem)
        .put(two.base, &two.mem);
    let symbols =
        |names: &[(&str, u32)]| Pairs::new(names.iter().map(|(n, a)| ((*n).to_owned(), u64::from(*a))).collect());
    let by_objects = symbols(&[("ti_uia_loggers_LoggerStopMode_Object__table__V", object)]);
    let by_list = symbols(&[("ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor", RAM + 0x70)]);
    for names in [&by_objects, &by_list] {
        let (trace, _) = load_with(&ram, names, &Hints::default()).unwrap();
        assert_eq!(rows(&trace), kept(&two), "the larger one is taken");
        let other = trace.issues.iter().find(|i| i.code == Code::SeveralTraces).unwrap();
        assert!(other.message.contains("0x20000000") || other.message.contains("0x20000080"), "{}", other.message);
    }
    assert_eq!(rows(&at(&ram, object)), kept(&one));
    assert_eq!(rows(&at(&ram, list + 48)), kept(&two));
    // A list that leads to itself ends.
    let circle = ram.clone().put(list + 48 + 4, &word(false, list));
    assert_eq!(rows(&load_with(&circle, &by_list, &Hints::default()).unwrap().0), kept(&two));
    // Never started.
    let zero = Ram::new(RAM).put(RAM, &[0; 512]);
    let error = load_with(&zero, &by_objects, &Hints::default()).err().unwrap();
    assert_eq!((error.code.name(), error.is_not_found()), ("never-enabled", true));
    let error = load_with(&zero, &NoSymbols, &Hints::default()).err().unwrap();
    assert_eq!(error.code.name(), "no-trace-symbol");
    let error = load_with(&zero, &NoSymbols, &Hints { header: Some(RAM.into()), ..Hints::default() }).err().unwrap();
    assert_eq!(error.code.name(), "header-zero");
}

#[test]
fn a_search_finds_each_logger_once_and_places_a_dump() {
    let mut lap = Lap::new(false, false, BUFFER, 512);
    (0..40).for_each(|i| lap.log(&event(8, i)));
    let ram = ram_of(&lap);
    let found = uia().scan(&ram.bytes, 64);
    assert!(!found.is_empty());
    assert!(found.iter().all(|f| f.base == u64::from(RAM) + f.offset as u64), "{found:?}");
    assert!(uia().sniff(&lap.mem), "the packet alone");
    assert!(!uia().sniff(&ram.bytes));
    // Noise holds none.
    let noise: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(uia().scan(&noise, 64), []);
    assert_eq!(uia().scan(&[0; 4096], 64), []);
}

/// A program with texts: tasks, an interrupt, printed text.
fn program() -> (Ram, Pairs) {
    let (chars, nodes, strings) = (RAM + 0x1000, RAM + 0x2000, RAM + 0x3000);
    let mut t = Texts::new();
    let task = t.module("ti.sysbios.knl.", "Task");
    let hwi = t.module("ti.sysbios.family.arm.m3.", "Hwi");
    let main = t.module("xdc.runtime.", "Main");
    let switch = t.text("LM_switch: oldtsk: 0x%x, oldfunc: 0x%x, newtsk: 0x%x, newfunc: 0x%x");
    let begin = t.text("LM_begin: hwi: 0x%x, func: 0x%x, preThread: %d, intNum: %d, irp: 0x%x");
    let end = t.text("LD_end: hwi: 0x%x");
    let warning = t.text("WARNING: %$F%$S");
    let own = t.text("motor %d at %d mm");
    let mut lap = Lap::new(false, false, BUFFER, 1024);
    let (a, b) = (0x2000_8000, 0x2000_8100);
    lap.log(&Ev::new(10, switch, task, 1000, &[a, 0x801, b, 0x901]));
    lap.log(&Ev::new(10, own, main, 1500, &[2, 0xFFFF_FFF6]));
    lap.log(&Ev::new(10, begin, hwi, 2000, &[0x2000_9000, 0xA01, 0, 15, 0x1234, 0, 0, 0]));
    lap.log(&Ev::new(10, 0, main, 2100, &[strings, 7, strings + 0x40, 0]));
    lap.log(&Ev::new(10, end, hwi, 2200, &[0x2000_9000]));
    lap.log(&Ev::new(10, warning, main, 2300, &[strings + 0x60, 42, strings, 5, strings + 0x40, 0, 0, 0]));
    lap.log(&Ev::new(10, switch, task, 3000, &[b, 0x901, a, 0x801]));
    let ram = ram_of(&lap)
        .put(chars, &t.chars)
        .put(nodes, &t.node_bytes(false))
        .put(strings, b"retry %d of %s\0")
        .put(strings + 0x40, b"the pump\0")
        .put(strings + 0x60, b"main.c\0");
    let names = [
        ("ti_uia_loggers_LoggerStopMode_Object__table__V", RAM),
        ("xdc_runtime_Text_charTab__A", chars),
        ("xdc_runtime_Text_nodeTab__A", nodes),
    ];
    (ram, Pairs::new(names.iter().map(|(n, a)| ((*n).to_owned(), u64::from(*a))).collect()))
}

#[test]
fn names_and_texts_come_from_the_tables_of_the_program() {
    let (ram, symbols) = program();
    let (trace, catalogue) = load_with(&ram, &symbols, &Hints::default()).unwrap();
    let events: Vec<_> = trace.events().collect();
    let names: Vec<&str> = events.iter().map(|e| catalogue[e.def.unwrap()].name.as_str()).collect();
    assert_eq!(
        names,
        ["Task.LM_switch", "motor", "Hwi.LM_begin", "Log.print", "Hwi.LD_end", "Log.L_warning", "Task.LM_switch"]
    );
    assert_eq!(text(&trace, &events[0], "module.name").unwrap(), "ti.sysbios.knl.Task");
    let message = |i: usize| text(&trace, &events[i], "message").unwrap();
    assert_eq!(message(0), "LM_switch: oldtsk: 0x20008000, oldfunc: 0x801, newtsk: 0x20008100, newfunc: 0x901");
    assert_eq!(message(1), "motor 2 at -10 mm");
    assert_eq!(message(3), "retry 7 of the pump");
    assert_eq!(message(5), "WARNING: main.c:42: retry 5 of the pump");
    // Who: the switches and the interrupt tell.
    let who: Vec<_> = events.iter().map(|e| trace.contexts.get(e.context).map(|c| (c.kind, c.address))).collect();
    let (a, b) = (Some((ContextKind::Thread, 0x2000_8000)), Some((ContextKind::Thread, 0x2000_8100)));
    let isr = Some((ContextKind::Isr, 0x2000_9000));
    assert_eq!(who, [a, b, isr, isr, isr, b, b]);
    assert_eq!(events[3].interrupted.and_then(|c| trace.contexts.get(c)).map(|c| c.address), Some(0x2000_8100));
    assert_eq!(events[3].ticks, 1100);
    // Ids that the program gave are those of the declared events.
    assert_eq!(catalogue.named("Task.LM_switch").unwrap().id, events[0].id);
}

#[test]
fn texts_that_were_left_out_leave_numbers() {
    let (ram, symbols) = program();
    struct With<'a>(&'a Pairs);
    impl Symbols for With<'_> {
        fn lookup(&self, name: &str) -> Option<tx_trace::sym::Symbol> {
            if name == "xdc_runtime_Text_isLoaded__C" {
                return Some(tx_trace::sym::Symbol { name: name.into(), address: u64::from(RAM) + 0xF0, size: 2 });
            }
            self.0.lookup(name)
        }
    }
    let (trace, _) = load_with(&ram, &With(&symbols), &Hints::default()).unwrap();
    assert_eq!(trace.len(), 7);
    assert!(trace.events().all(|e| e.def.is_none() && text(&trace, &e, "module.name").is_none()));
    assert!(trace.about.facts.iter().any(|(_, t)| t.contains("isLoaded")));
}

#[test]
fn stamps_wrap_at_their_width() {
    let mut lap = Lap::new(true, false, BUFFER, 512);
    for (i, stamp) in [0xFFFF_FF00u64, 0xFFFF_FFFF, 0x10, 0x20].into_iter().enumerate() {
        lap.log(&Ev::new(9, 0x100 + i as u16, 0x8001, stamp, &[]));
    }
    let trace = at(&ram_of(&lap), RAM);
    let ticks: Vec<i64> = trace.events().map(|e| e.ticks).collect();
    assert_eq!(ticks, [0, 0xFF, 0x110, 0x120]);
    assert_eq!(trace.clock.mask, 0xFFFF_FFFF);
    let mut lap = Lap::new(true, true, BUFFER, 512);
    for (i, stamp) in [0x12_FFFF_FFFFu64, 0x13_0000_0001].into_iter().enumerate() {
        lap.log(&Ev::new(10, 0x100 + i as u16, 0x8001, stamp, &[]));
    }
    let trace = at(&ram_of(&lap), RAM);
    let events: Vec<_> = trace.events().collect();
    assert_eq!((events[1].stamp, events[1].delta), (Some(0x13_0000_0001), Some(2)));
    assert_eq!(trace.clock.mask, u64::MAX);
}
