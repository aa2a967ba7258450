//! Buffers of which a part is missing: words of an event, a part of the ring, the right stamps.

use super::*;

/// The missing word was taken for interrupt 0, and a switch without its task was passed over.
#[test]
fn an_interrupt_without_its_number_was_interrupt_0() {
    let (ram, symbols) = program();
    let (whole, catalogue) = load_with(&ram, &symbols, &Hints::default()).unwrap();
    let event = |name: &str| whole.events().find(|e| catalogue[e.def.unwrap()].name == name).unwrap();
    let ids = |name: &str| {
        let e = event(name);
        (e.id as u16, extra(&whole, &e, "module.id").unwrap() as u16)
    };
    let ((switch, task), (begin, hwi), (own, main)) = (ids("Task.LM_switch"), ids("Hwi.LM_begin"), ids("motor"));
    let (a, b) = (0x2000_8000, 0x2000_8100);
    let to_b = [a, 0x801, b, 0x901];
    for cut in [Ev::new(10, begin, hwi, 2000, &[]), Ev::new(10, switch, task, 2000, &to_b[..2])] {
        let mut lap = Lap::new(false, false, BUFFER, 1024);
        lap.log(&Ev::new(10, switch, task, 1000, &to_b));
        lap.log(&cut);
        lap.log(&Ev::new(10, own, main, 2100, &[]));
        lap.log(&Ev::new(10, switch, task, 3000, &[b, 0x901, a, 0x801]));
        lap.log(&Ev::new(10, own, main, 3100, &[]));
        let ram = ram.clone().put(BUFFER, &lap.mem).put(RAM, &lap.object(1, RAM + 0x40));
        let (trace, _) = load_with(&ram, &symbols, &Hints::default()).unwrap();
        let who: Vec<_> = trace.events().map(|e| trace.contexts.get(e.context).map(|c| c.address)).collect();
        let (a, b) = (Some(u64::from(a)), Some(u64::from(b)));
        assert_eq!(who, [a, None, None, b, a]);
        let issue = trace.issues.iter().find(|i| i.code == Code::EventIncomplete).unwrap();
        assert_eq!((issue.count, issue.place.seq), (1, Some(1)));
        assert!(!codes(&trace).contains(&"slots-incoherent"));
    }
}

/// The places of a ring that had not gone around were counted in the part behind its read pointer alone.
#[test]
fn records_of_a_ring_that_was_partly_read_had_other_slots() {
    let records: Vec<Vec<u8>> = (0..5).map(|i| record(false, &event(1, i), 0, i)).collect();
    let trace = at(&circular(false, 512, 256, &records), RAM);
    let slots: Vec<u64> = trace.events().map(|e| e.slot).collect();
    let starts = records.iter().scan(256, |at, r| Some(std::mem::replace(at, *at + r.len() as u64) / 4));
    assert_eq!(slots, starts.collect::<Vec<_>>());
}

/// Behind damaged stamps the sum of the ticks stayed at its limit, and all later times were wrong.
#[test]
fn ticks_behind_damaged_stamps_did_not_lead_back() {
    let mut lap = Lap::new(false, false, BUFFER, 1024);
    for stamp in [0, 1 << 62, (1 << 63) + 5, 2000, 3000] {
        lap.log(&Ev::new(10, 0x300, 0x8001, stamp, &[]));
    }
    let trace = at(&ram_of(&lap), RAM);
    let ticks: Vec<i64> = trace.events().map(|e| e.ticks).collect();
    assert_eq!((ticks[3], ticks[4]), (2000, 3000));
}

/// The write pointer behind the readable part was taken for 0, as if older records had been overwritten.
#[test]
fn a_ring_that_ends_in_unreadable_memory_was_shown_as_wrapped() {
    let records: Vec<Vec<u8>> = (0..12).map(|i| record(false, &event(1, i), 0, i)).collect();
    let whole = circular(false, 512, 64, &records);
    let all = rows(&at(&whole, RAM));
    let mem: Vec<u8> = [vec![0; 64], records.concat()].concat();
    let q = queue(false, &[44, 0, 3, BUFFER + 64, BUFFER + mem.len() as u32, BUFFER, 512, 2, 0x8034, 0, 0]);
    let cut = 64 + records[..5].iter().map(Vec::len).sum::<usize>();
    let trace = at(&Ram::new(RAM).put(RAM, &q).put(BUFFER, &mem[..cut]), RAM);
    assert!(!trace.about.wrapped && codes(&trace).contains(&"ring-unreadable"));
    assert_eq!(rows(&trace), all[..5]);
}
