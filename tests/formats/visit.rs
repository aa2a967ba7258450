//! `Trace::visit` shows the events of `Trace::events`, in their order, and ends with its reader.

use std::ops::ControlFlow;

use tx_trace::abi::{Endian, Width};
use tx_trace::trace::{
    About, Clock, Contexts, Counts, Direction, Event, Events, Interrupts, Known, Mark, Number, ObjectTable, Trace,
    WalkState, Words,
};

/// So many events, each with its own number; every third begins an interrupt, every third ends one.
struct Numbers(u64);

impl Events for Numbers {
    fn count(&self) -> u64 {
        self.0
    }

    fn fill(&self, index: u64, _: &mut WalkState, out: &mut [Event]) -> usize {
        let left = usize::try_from(self.0 - index).unwrap();
        let many = out.len().min(left);
        for (seq, event) in (index..).zip(&mut out[..many]) {
            let def = Some(tx_trace::trace::DefId::new(u32::try_from(seq % 3).unwrap()));
            *event = Event { seq, def, words: Words::four([seq / 3 % 7 + 16, 0, 0, 0]), ..Event::default() };
        }
        many
    }
}

fn trace(events: u64) -> Trace {
    let about = About {
        format: "test",
        endian: Endian::Little,
        word: Width::W4,
        pointer: None,
        base: None,
        capacity: events,
        held: events,
        empty: 0,
        wrapped: false,
        origin: 0,
        cores: 1,
        facts: Vec::new(),
    };
    let clock = Clock {
        mask: u64::MAX,
        direction: Direction::Up,
        direction_known: Known::Given,
        period: None,
        hz: None,
        counts: Counts::Time,
        doubts: 0,
        reason: String::new(),
    };
    let mut trace =
        Trace::new(about, clock, Contexts::default(), ObjectTable::default(), Vec::new(), Box::new(Numbers(events)));
    let mark = |def, enters| Mark { def: tx_trace::trace::DefId::new(def), enters, number: Number::Chosen(0) };
    trace.interrupts = Interrupts::from([mark(0, true), mark(2, false)]);
    trace
}

fn key(event: &Event) -> (u64, Option<u32>) {
    (event.seq, event.isr)
}

#[test]
fn the_same_events_in_the_same_order() {
    for events in [0, 1, 127, 128, 129, 1000, 123_457] {
        let trace = trace(events);
        let plain: Vec<_> = trace.events().map(|e| key(&e)).collect();
        let mut visited = Vec::new();
        trace.visit(|event| {
            visited.push(key(event));
            ControlFlow::Continue(())
        });
        assert_eq!(plain.len() as u64, events);
        assert!(plain == visited, "{events}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let trace = trace(10_000_000);
    for enough in [1, 128, 129, 50_000] {
        let mut seen = 0;
        trace.visit(|event| {
            assert_eq!(event.seq, seen);
            seen += 1;
            if seen == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(seen, enough);
    }
}
