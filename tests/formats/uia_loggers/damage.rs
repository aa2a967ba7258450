//! Damage in one record, one field or one text: what is beside it is still shown, and what is not sure is said.

use super::{BUFFER, RAM, at, codes, event, expected, kept, load_with, program, ram_of, rows, text};
use crate::support::uia::{Ev, Lap, Ram, Texts, queue, record, word};
use tx_trace::code::Code;
use tx_trace::format::Hints;
use tx_trace::sym::Pairs;
use tx_trace::trace::Trace;

/// Twelve events of LoggerMin, of which the first word of one is another.
fn with_word(victim: usize, change: impl Fn(u32) -> u32) -> (Lap, Trace) {
    let mut lap = Lap::new(true, false, BUFFER, 1024);
    (0..24).for_each(|i| lap.log(&Ev::new(9, 0x100 + i, 0x8001, u64::from(i) * 0x111, &[i.into(), 7])));
    let place = lap.written[victim].3;
    let old = u32::from_le_bytes(lap.mem[place..place + 4].try_into().unwrap());
    let mut damaged = lap.clone();
    damaged.mem[place..place + 4].copy_from_slice(&word(false, change(old)));
    let trace = at(&ram_of(&damaged), RAM);
    (lap, trace)
}

#[test]
fn a_false_record_of_another_type_hides_none_behind_it() {
    // Types without a length of the record before them, with lengths that end anywhere in those behind.
    for number in [0u32, 1, 4, 7, 13, 15, 31] {
        for length in [16u32, 24, 40, 60, 104, 200] {
            let (lap, trace) = with_word(5, |_| number << 27 | length << 16 | 5);
            let (got, all) = (rows(&trace), kept(&lap));
            assert_eq!(got[..5], all[..5], "type {number}, length {length}");
            assert!(got.ends_with(&all[6..]), "type {number}, length {length}: {} rows", got.len());
            assert!(codes(&trace).contains(&"chain-broken"), "type {number}, length {length}");
        }
    }
}

#[test]
fn a_length_that_is_too_long_hides_no_record_behind_it() {
    for length in [24u32, 40, 60, 104, 200] {
        let (lap, trace) = with_word(5, |old| old & !(0x7FF << 16) | length << 16);
        let (got, all) = (rows(&trace), kept(&lap));
        assert_eq!(got[..5], all[..5], "length {length}");
        assert!(got.ends_with(&all[6..]), "length {length}: {} rows", got.len());
        assert!(codes(&trace).contains(&"chain-broken"), "length {length}");
    }
}

#[test]
fn a_record_with_a_stamp_of_another_width_does_not_change_the_clock() {
    let (lap, trace) = with_word(5, |old| old & !(31 << 27) | 10 << 27);
    assert_eq!(trace.clock.mask, 0xFFFF_FFFF);
    assert!(rows(&trace).ends_with(&kept(&lap)[6..]));
}

#[test]
fn a_damaged_record_in_a_packet_costs_only_itself() {
    let mut mem = vec![0u8; 1024];
    mem[..16].copy_from_slice(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0x80, 0x35, 0xFF, 0xFF, 0, 0]);
    let (mut place, mut want, mut places) = (16, Vec::new(), Vec::new());
    for i in 0..12 {
        let e = event(1, i);
        let b = record(false, &e, 0, i);
        mem[place..place + b.len()].copy_from_slice(&b);
        places.push(place);
        want.push(expected(&e, i, 0));
        place += b.len();
    }
    mem[places[4]..places[4] + 4].fill(0xFF);
    let q = queue(false, &[48, 0, 7, BUFFER, BUFFER, BUFFER, 1024, 3, 0x8035, 0, 0, BUFFER + place as u32]);
    let trace = at(&Ram::new(RAM).put(RAM, &q).put(BUFFER, &mem), RAM);
    assert_eq!(rows(&trace), [&want[..4], &want[5..]].concat());
    assert!(codes(&trace).contains(&"chain-broken"));
}

/// Two tasks and an interrupt: the events say who runs, in words.
fn runs(steps: &[(&str, u32, u32)]) -> Trace {
    let mut t = Texts::new();
    let task = t.module("ti.sysbios.knl.", "Task");
    let hwi = t.module("ti.sysbios.family.arm.m3.", "Hwi");
    let switch = t.text("LM_switch: oldtsk: 0x%x, oldfunc: 0x%x, newtsk: 0x%x, newfunc: 0x%x");
    let begin = t.text("LM_begin: hwi: 0x%x, func: 0x%x, preThread: %d, intNum: %d, irp: 0x%x");
    let end = t.text("LD_end: hwi: 0x%x");
    let mut lap = Lap::new(false, false, BUFFER, 1024);
    for (i, (what, a, b)) in steps.iter().enumerate() {
        let stamp = 1000 + 100 * i as u64;
        lap.log(&match *what {
            "switch" => Ev::new(10, switch, task, stamp, &[*a, 0x801, *b, 0x901]),
            "begin" => Ev::new(10, begin, hwi, stamp, &[*a, 0xA01, 0, 15, 0x1234, 0, 0, 0]),
            _ => Ev::new(10, end, hwi, stamp, &[*a]),
        });
    }
    let (chars, nodes) = (RAM + 0x1000, RAM + 0x2000);
    let names = [
        ("ti_uia_loggers_LoggerStopMode_Object__table__V", RAM),
        ("xdc_runtime_Text_charTab__A", chars),
        ("xdc_runtime_Text_nodeTab__A", nodes),
    ];
    let symbols = Pairs::new(names.iter().map(|(n, a)| ((*n).to_owned(), u64::from(*a))).collect());
    let ram = ram_of(&lap).put(chars, &t.chars).put(nodes, &t.node_bytes(false));
    load_with(&ram, &symbols, &Hints::default()).unwrap().0
}

#[test]
fn events_that_contradict_each_other_in_who_runs_are_said() {
    let (a, b, c, isr) = (0x2000_8000, 0x2000_8100, 0x2000_8200, 0x2000_9000);
    let good = [
        ("switch", a, b),
        ("begin", isr, 0),
        ("begin", isr + 32, 0),
        ("end", isr + 32, 0),
        ("end", isr, 0),
        ("switch", b, c),
    ];
    assert!(!codes(&runs(&good)).contains(&"slots-incoherent"));
    // An interrupt that began before the trace ends in it.
    assert!(!codes(&runs(&[("end", isr, 0), ("switch", b, c)])).contains(&"slots-incoherent"));
    let bad: [&[(&str, u32, u32)]; 4] = [
        &[("switch", a, b), ("switch", c, a)],
        &[("switch", a, b), ("begin", isr, 0), ("begin", isr, 0)],
        &[("switch", a, b), ("end", isr, 0)],
        &[("switch", a, b), ("begin", isr, 0), ("end", isr + 32, 0)],
    ];
    for steps in bad {
        let trace = runs(steps);
        let said: Vec<_> = trace.issues.iter().filter(|i| i.code == Code::SlotsIncoherent).collect();
        assert_eq!(said.len(), 1, "{steps:?}");
        assert_eq!(said[0].place.seq, Some(steps.len() as u64 - 1), "{steps:?}");
    }
    // The switch itself says who ran.
    let trace = runs(bad[0]);
    let last = trace.events().last().unwrap();
    assert_eq!(trace.contexts.get(last.context).unwrap().address, u64::from(c));
}

#[test]
fn an_event_whose_module_lost_its_name_may_be_an_interrupt() {
    let (ram, symbols) = program();
    // The node of Hwi is the second one of the table; the first is none.
    let mut ram = ram.put(RAM + 0x2000 + 8, &[0; 4]);
    // Of the event's text an argument's name is damaged: it is that of no declared event any more.
    let text_at = ram.bytes.windows(9).position(|w| w == b"preThread").unwrap();
    ram.bytes[text_at] = b'X';
    let (trace, _) = load_with(&ram, &symbols, &Hints::default()).unwrap();
    let events: Vec<_> = trace.events().collect();
    assert_eq!(text(&trace, &events[2], "module.name"), None);
    assert_eq!(trace.contexts.get(events[2].context), None);
    assert_eq!(trace.contexts.get(events[3].context), None);
}

#[test]
fn a_damaged_size_does_not_lead_to_another_logger() {
    let mut one = Lap::new(false, false, BUFFER, 256);
    one.log(&event(10, 1));
    let mut two = Lap::new(false, false, BUFFER + 0x200, 512);
    (0..4).for_each(|i| two.log(&event(10, i)));
    let (object, list) = (RAM, RAM + 0x80);
    let ram = Ram::new(RAM)
        .put(object, &[one.object(1, list), two.object(2, list + 48)].concat())
        .put(list, &[one.descriptor(list + 48, 1, object + 36), two.descriptor(0, 2, object + 52 + 36)].concat())
        .put(RAM + 0x70, &word(false, list))
        .put(one.base, &one.mem)
        .put(two.base, &two.mem)
        .put(object + 52 + 8, &word(false, 0x80_0200));
    let names = [
        ("ti_uia_loggers_LoggerStopMode_Object__table__V", object),
        ("ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor", RAM + 0x70),
    ];
    let symbols = Pairs::new(names.iter().map(|(n, a)| ((*n).to_owned(), u64::from(*a))).collect());
    let (trace, _) = load_with(&ram, &symbols, &Hints::default()).unwrap();
    assert_eq!(rows(&trace), kept(&two));
    assert!(codes(&trace).contains(&"header-mended"));
    let others = trace.issues.iter().find(|i| i.code == Code::SeveralTraces).unwrap();
    assert_eq!(others.count, 1, "{}", others.message);
}
