//! A system that is not ThreadX, measured by its effects.

use super::*;

struct List(Vec<Event>);

impl Events for List {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn fill(&self, index: u64, _: &mut WalkState, out: &mut [Event]) -> usize {
        let rest = &self.0[(index as usize).min(self.0.len())..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        n
    }
}

/// A system with a handful of events, whose fields stand elsewhere and are called differently.
fn foreign() -> Catalogue {
    let def = |id, name: &str, fields: &[(&str, ArgKind)], effects: &str| EventDef {
        fields: fields.iter().map(|(n, k)| Some(FieldDef::new(n, *k, None))).collect(),
        effects: Effects::parse(effects).unwrap(),
        ..EventDef::new(id, name.to_owned(), Product::Kernel, "core".to_owned())
    };
    let task = ("task", ArgKind::ThreadPtr);
    let mailbox = ("mailbox_ptr", ArgKind::Ptr);
    Catalogue::new(
        vec![
            def(70, "wake", &[("why", ArgKind::Dec), task], "ready:2"),
            def(71, "stop", &[task], "block:1"),
            def(72, "switch", &[("from", ArgKind::ThreadPtr), ("to", ArgKind::ThreadPtr)], "run:2"),
            def(73, "irq_in", &[("level", ArgKind::Dec), ("line", ArgKind::Dec)], "isr_enter:2"),
            def(74, "irq_out", &[("line", ArgKind::Dec)], "isr_exit:1"),
            def(75, "post", &[("enqueued", ArgKind::Dec), mailbox], "put:2"),
            def(76, "pend", &[mailbox, ("enqueued", ArgKind::Dec)], "get:1"),
        ],
        Vec::new(),
    )
}

fn foreign_trace(catalogue: &Catalogue, list: &[(Option<u64>, i64, u32, &[u64])]) -> Trace {
    let mut contexts = Contexts::default();
    let events = list.iter().enumerate().map(|(seq, (who, ticks, id, words))| {
        let kind = if who.is_some() { ContextKind::Thread } else { ContextKind::Isr };
        Event {
            seq: seq as u64,
            slot: seq as u64,
            ticks: *ticks,
            context: contexts.intern(kind, who.unwrap_or(0)),
            id: *id,
            def: catalogue.find(*id),
            words: Words::few(words).unwrap(),
            ..Event::default()
        }
    });
    let events: Vec<Event> = events.collect();
    assert!(events.iter().all(|e| e.def.is_some_and(|d| d < DefId::new(7))));
    Trace::new(
        About {
            format: "foreign",
            endian: Endian::Little,
            word: Width::W4,
            pointer: None,
            base: None,
            capacity: 64,
            held: events.len() as u64,
            empty: 0,
            wrapped: false,
            origin: 0,
            cores: 1,
            facts: Vec::new(),
        },
        Clock {
            mask: 0xFFFF_FFFF,
            direction: Direction::Up,
            direction_known: Known::Given,
            period: None,
            hz: None,
            counts: tx_trace::trace::Counts::Time,
            doubts: 0,
            reason: String::new(),
        },
        contexts,
        ObjectTable::default(),
        Vec::new(),
        Box::new(List(events)),
    )
}

#[test]
fn another_system_is_measured_by_its_effects() {
    let catalogue = foreign();
    let t = foreign_trace(
        &catalogue,
        &[
            (Some(ALPHA), 0, 76, &[QUEUE, 0]),
            (Some(ALPHA), 10, 71, &[ALPHA]),
            (Some(BETA), 20, 72, &[ALPHA, BETA]),
            (Some(BETA), 30, 75, &[3, QUEUE]),
            (None, 100, 73, &[1, 44]),
            (None, 130, 75, &[4, QUEUE]),
            (None, 140, 70, &[9, ALPHA]),
            (None, 160, 74, &[44]),
            (Some(BETA), 200, 72, &[BETA, ALPHA]),
            (Some(ALPHA), 210, 76, &[QUEUE, 5]),
        ],
    );
    let all = try_latency(&t, &catalogue, &["pend"], &["post..pend:mailbox"]).unwrap();
    assert_eq!(lines(&all[0]), [format!("{ALPHA:#x} 1 60 60 60 60 8 -"), format!("{BETA:#x} 0 - - - - - 10")]);
    assert_eq!(lines(&all[1]), ["44 1 60 60 60 60 7 0"]);
    assert_eq!(lines(&all[2]), ["pend 1 210 210 210 210 9 0"]);
    assert_eq!(lines(&all[3]), ["post..pend:mailbox 2 80 80 180 180 9 0 1"]);
    // Two threads called, and an interrupt; alpha waited from 10 to 140.
    assert_eq!(lines(&usage(&t, &catalogue)), [format!("{QUEUE:#x} mailbox 2 2 1 130 0 5 - 2 -")]);
}
