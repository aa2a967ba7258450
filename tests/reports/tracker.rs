//! The tracker as others consume it: a picture of who had which core.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::decode::{Source, open};
use tx_trace::analysis::tracker::{Consumer, Span, Step, System, Tracker, Wants, Who};
use tx_trace::catalogue::{Catalogue, Names};
use tx_trace::format::Extent;
use tx_trace::trace::Trace;

const ALPHA: u64 = 0x2000_1000;
const BETA: u64 = 0x2000_1100;

/// Bars of a timeline: by core who had it from when to when.
#[derive(Default)]
struct Picture {
    bars: BTreeMap<u16, Vec<Span>>,
    /// By core: ticks of its first event and of its last.
    ends: BTreeMap<u16, (i64, i64)>,
}

impl Consumer for Picture {
    fn step(&mut self, step: &Step<'_>, _: &System<'_>) {
        let ticks = step.event.ticks;
        self.ends.entry(step.event.core).and_modify(|(_, to)| *to = ticks).or_insert((ticks, ticks));
        for span in step.spans {
            let bars = self.bars.entry(span.core).or_default();
            match bars.last_mut() {
                Some(bar) if bar.who == span.who && bar.to == span.from => bar.to = span.to,
                _ => bars.push(*span),
            }
        }
    }
}

fn draw(trace: &Trace) -> Picture {
    let catalogue = Catalogue::threadx(Names::Duo);
    let mut picture = Picture::default();
    let mut tracker = Tracker::new(trace, &catalogue, Wants::default());
    trace.visit(|event| {
        tracker.event(event, &mut picture);
        ControlFlow::Continue(())
    });
    tracker.finish(&mut picture);
    picture
}

fn trace_of(events: &[Entry]) -> Trace {
    let objects = vec![
        Registered { priority: Some(4), ..Registered::new(1, ALPHA, "alpha") },
        Registered { priority: Some(5), ..Registered::new(1, BETA, "beta") },
    ];
    let buffer = Buffer { objects, ..Buffer::new(0x2000_4000) }.record(events.len() + 1, events);
    open(&buffer, &buffer.bytes(), Source::Header, Extent::All).unwrap()
}

#[test]
fn the_spans_of_a_core_cover_the_trace_without_overlap() {
    let mut list = Vec::new();
    for at in (0..100_000).step_by(1000) {
        list.extend([
            Entry::thread(ALPHA, 4, 5000, at, [0; 4]),
            Entry::thread(ALPHA, 4, 2, at + 100, [ALPHA, 4, 0, if at % 3000 == 0 { 0 } else { BETA }]),
            Entry::isr(if at % 3000 == 0 { 0 } else { BETA }, 3, at + 200, [0, 15, 0, 0]),
            Entry::isr(if at % 3000 == 0 { 0 } else { BETA }, 1, at + 210, [ALPHA, 4, 0, ALPHA]),
            Entry::isr(if at % 3000 == 0 { 0 } else { BETA }, 4, at + 220, [0, 15, 0, 0]),
        ]);
    }
    let picture = draw(&trace_of(&list));
    let (bars, (from, to)) = (&picture.bars[&0], picture.ends[&0]);
    assert_eq!((bars[0].from, bars.last().unwrap().to), (from, to));
    assert!(bars.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].who != pair[1].who), "{bars:?}");
    let whos = |who: fn(&Who) -> bool| bars.iter().filter(|b| who(&b.who)).count();
    assert!(whos(|w| *w == Who::Isr) == 100 && whos(|w| *w == Who::Idle) == 34, "{bars:?}");
    assert!(whos(|w| matches!(w, Who::Thread(_))) > 100 && whos(|w| *w == Who::Unknown) == 0);
}

#[cfg(feature = "cli")]
mod alone {
    use crate::support::tools::Scratch;
    use crate::support::{damaged, golden};

    /// `profile` alone takes spans and no events; beside other reports it is shown all events.
    #[test]
    fn a_profile_alone_is_that_of_the_whole_report() {
        let scratch = Scratch::new();
        let mut seen = 0;
        for (name, source) in damaged::captures(&scratch, 8) {
            let rows = |command: &str| -> Vec<String> {
                let text = golden::data(&format!("{command} --format json {source}"));
                let is_profile = |line: &&str| line.contains("\"report\":\"profile");
                text.lines().filter(is_profile).map(str::to_owned).collect()
            };
            let alone = rows("profile");
            seen += usize::from(!alone.is_empty());
            assert_eq!(alone, rows("report"), "{name}");
        }
        assert!(seen > 40, "{seen}");
    }
}
