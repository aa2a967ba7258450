//! The first pass: which tracks, counters and marks there are.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;

use super::levels::Levels;
use super::player::Player;
use super::{Counter, Mark, Noted, Pointed, Scene, Sink, Track, TrackId, TrackKind};
use crate::abi::Addr;
use crate::analysis::tracker::{Consumer, Step, System, Tracker, Wants, Who};
use crate::analysis::{Circle, Inverted, Made, Name, ReportRequest};
use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::explain::Code;
use crate::query::{Filters, Query};
use crate::trace::{ContextKind, Event, Interner, Trace};

/// How often a pass says how far it is, in events.
const REPORT_EVERY: u64 = 1 << 16;

/// What a core shows beside threads.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    isr: bool,
    idle: bool,
    init: bool,
    unknown: bool,
}

/// The first pass over the events.
struct Scan<'q, 'e> {
    query: &'q Query<'q>,
    cores: Vec<Seen>,
    levels: Levels,
    /// Ticks of the first event of the window and of the last.
    window: Option<(i64, i64)>,
    events: Option<(u64, u64)>,
    kept: u64,
    /// Events whose ticks are wanted, in order, and these.
    wanted: Vec<u64>,
    found: Vec<(u64, i64)>,
    count: u64,
    each: &'e mut dyn FnMut(u64),
}

impl Scan<'_, '_> {
    fn core(&mut self, core: u16) -> Option<&mut Seen> {
        let core = usize::from(core);
        if core >= self.cores.len() {
            self.cores.resize(core.saturating_add(1), Seen::default());
        }
        self.cores.get_mut(core)
    }

    fn sees(&mut self, core: u16, who: Who) {
        let Some(seen) = self.core(core) else { return };
        match who {
            Who::Thread(_) => {}
            Who::Isr => seen.isr = true,
            Who::Idle => seen.idle = true,
            Who::Init => seen.init = true,
            Who::Unknown => seen.unknown = true,
        }
    }
}

/// Who inserts the events of a context that is no thread.
pub(super) const fn of_context(kind: ContextKind) -> Option<Who> {
    match kind {
        ContextKind::Thread => None,
        ContextKind::Isr => Some(Who::Isr),
        ContextKind::Init => Some(Who::Init),
        ContextKind::Idle => Some(Who::Idle),
        ContextKind::Unknown => Some(Who::Unknown),
    }
}

impl Consumer for Scan<'_, '_> {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let event = step.event;
        self.count = self.count.saturating_add(1);
        if self.count.is_multiple_of(REPORT_EVERY) {
            (self.each)(self.count);
        }
        for span in step.spans.iter().filter(|span| span.from < span.to) {
            self.sees(span.core, span.who);
        }
        let kind = system.trace.contexts.get(event.context).map_or(ContextKind::Unknown, |c| c.kind);
        if let Some(who) = of_context(kind) {
            self.sees(event.core, who);
        }
        if self.wanted.binary_search(&event.seq).is_ok() {
            self.found.push((event.seq, event.ticks));
        }
        self.levels.learn(event, system);
        if self.query.is_in_range(event) {
            let (from, to) = self.window.unwrap_or((event.ticks, event.ticks));
            self.window = Some((from.min(event.ticks), to.max(event.ticks)));
            self.events = Some((self.events.map_or(event.seq, |(first, _)| first), event.seq));
            self.kept = self.kept.saturating_add(u64::from(self.query.keeps(event)));
        }
    }
}

/// Tracks, counters and marks of a trace, and the window that the filters leave of it.
pub struct Plan<'a> {
    trace: &'a Trace,
    catalogue: &'a Catalogue,
    query: &'a Query<'a>,
    tracks: Vec<Track>,
    /// Numbers of threads by address.
    pub(super) threads: Interner,
    /// Their tracks, by that number.
    pub(super) by_thread: Vec<TrackId>,
    /// Tracks of what is no thread, by core: interrupts, idle, init, unknown.
    pub(super) by_core: Vec<[Option<TrackId>; 4]>,
    pub(super) levels: Levels,
    marks: Vec<Mark>,
    window: (i64, i64),
    events: Option<(u64, u64)>,
    kept: u64,
}

/// The place of somebody in [`Plan::by_core`].
const fn place(who: Who) -> Option<(usize, TrackKind)> {
    match who {
        Who::Thread(_) => None,
        Who::Isr => Some((0, TrackKind::Interrupts)),
        Who::Idle => Some((1, TrackKind::Idle)),
        Who::Init => Some((2, TrackKind::Init)),
        Who::Unknown => Some((3, TrackKind::Unknown)),
    }
}

impl<'a> Plan<'a> {
    /// The first pass. `noted` are findings to be marked; `each` is called now and then with the number of events that were
    /// looked at.
    ///
    /// # Errors
    /// None that a valid trace gives; the reports below say the same.
    pub fn of(
        trace: &'a Trace,
        catalogue: &'a Catalogue,
        query: &'a Query<'a>,
        noted: &[Noted],
        each: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let mut wanted: Vec<u64> = noted.iter().flat_map(|n| n.events.iter().copied()).collect();
        wanted.sort_unstable();
        let mut scan = Scan {
            query,
            cores: Vec::new(),
            levels: Levels::new(trace, catalogue),
            window: None,
            events: None,
            kept: 0,
            wanted,
            found: Vec::new(),
            count: 0,
            each,
        };
        // What is inverted is so whichever events are shown.
        let all = Query::compile(&Filters::default(), trace, catalogue)?;
        let request = ReportRequest::of(Name::Inversions);
        let (made, (spans, circles)) = Made::beside(trace, catalogue, &all, &request, &mut scan)?;
        let Scan { cores, mut levels, window, events, kept, mut found, .. } = scan;
        levels.settle();
        found.sort_unstable();
        let mut plan = Self {
            trace,
            catalogue,
            query,
            tracks: Vec::new(),
            threads: Interner::default(),
            by_thread: Vec::new(),
            by_core: Vec::new(),
            levels,
            marks: Vec::new(),
            window: window.unwrap_or((0, 0)),
            events,
            kept,
        };
        plan.lay_out(&cores, made.system());
        let end = plan.window.1;
        let inverted = spans.iter().filter_map(|span| plan.inverted(span, end));
        plan.marks = inverted.chain(circles.iter().map(|circle| plan.circle(circle, end))).collect();
        for (place, one) in noted.iter().enumerate() {
            plan.claim(place, one);
            plan.note(place, one, &found);
        }
        let (from, to) = plan.window;
        plan.marks.retain(|mark| mark.to >= from && mark.from <= to);
        plan.marks.iter_mut().for_each(|mark| (mark.from, mark.to) = (mark.from.max(from), mark.to.min(to)));
        plan.marks.sort_by_key(|mark| (matches!(mark.what, Pointed::Inversion { .. }), mark.from));
        Ok(plan)
    }

    /// Orders the tracks.
    fn lay_out(&mut self, cores: &[Seen], system: &System<'_>) {
        let mut tracks: Vec<Track> = Vec::new();
        for (core, seen) in (0u16..).zip(cores) {
            let kinds = [
                (seen.isr, TrackKind::Interrupts),
                (seen.idle, TrackKind::Idle),
                (seen.init, TrackKind::Init),
                (seen.unknown, TrackKind::Unknown),
            ];
            let there = kinds.into_iter().filter(|(is_there, _)| *is_there);
            tracks.extend(there.map(|(_, kind)| Track { kind, core, address: 0, name: None, priority: None }));
        }
        for (no, thread) in system.threads() {
            let registered = self.trace.objects.at(thread.address).and_then(|o| o.priority);
            tracks.push(Track {
                kind: TrackKind::Thread,
                core: 0,
                address: thread.address,
                name: system.name(no).map(str::to_owned),
                priority: registered.or(thread.priority),
            });
        }
        let urgent = |a, b| self.catalogue.is_more_urgent(a, b);
        tracks.sort_by(|a, b| {
            let by_priority = || match (a.priority, b.priority) {
                (Some(a), Some(b)) if urgent(a, b) => std::cmp::Ordering::Less,
                (Some(a), Some(b)) if urgent(b, a) => std::cmp::Ordering::Greater,
                (Some(_), Some(_)) => std::cmp::Ordering::Equal,
                (a, b) => b.is_some().cmp(&a.is_some()),
            };
            a.kind.cmp(&b.kind).then_with(by_priority).then(a.core.cmp(&b.core))
        });
        for (id, track) in (0u32..).map(TrackId).zip(&tracks) {
            if track.kind == TrackKind::Thread {
                self.threads.intern(track.address);
                self.by_thread.push(id);
                continue;
            }
            let core = usize::from(track.core);
            if core >= self.by_core.len() {
                self.by_core.resize(core.saturating_add(1), [None; 4]);
            }
            let places = [Who::Isr, Who::Idle, Who::Init, Who::Unknown].into_iter().filter_map(place);
            for (at, _) in places.filter(|(_, kind)| *kind == track.kind) {
                if let Some(place) = self.by_core.get_mut(core).and_then(|all| all.get_mut(at)) {
                    *place = Some(id);
                }
            }
        }
        self.tracks = tracks;
    }

    /// The track of a thread.
    pub fn thread(&self, address: Addr) -> Option<TrackId> {
        self.by_thread.get(usize::try_from(self.threads.find(address)?).ok()?).copied()
    }

    /// The track of whoever has a core.
    pub(super) fn track_of(&self, core: u16, who: Who, system: &System<'_>) -> Option<TrackId> {
        match (who, place(who)) {
            (Who::Thread(no), _) => self.thread(system.thread(no)?.address),
            (_, Some((at, _))) => *self.by_core.get(usize::from(core))?.get(at)?,
            _ => None,
        }
    }

    fn inverted(&self, one: &Inverted, end: i64) -> Option<Mark> {
        let what = Pointed::Inversion {
            lock: one.lock,
            owner: self.thread(one.owner),
            culprit: one.culprit.and_then(|culprit| self.thread(culprit)),
        };
        let (from, seq) = one.from?;
        Some(Mark {
            what,
            track: self.thread(one.waiter),
            from,
            to: one.to.map_or(end, |(to, _)| to),
            seq: Some(seq),
            to_seq: one.to.map(|(_, seq)| seq),
            finding: None,
        })
    }

    fn circle(&self, circle: &Circle, end: i64) -> Mark {
        let links = circle.links.iter().filter_map(|(waiter, lock)| Some((self.thread(*waiter)?, *lock))).collect();
        Mark {
            what: Pointed::Circle(links),
            track: None,
            from: circle.from.0,
            to: circle.to.map_or(end, |(ticks, _)| ticks),
            seq: Some(circle.from.1),
            to_seq: circle.to.map(|(_, seq)| seq),
            finding: None,
        }
    }

    /// What the events showed already is the same thing as a finding: the inversion of a thread that it is about, a circle
    /// of its threads.
    fn claim(&mut self, place: usize, one: &Noted) {
        let threads: BTreeSet<TrackId> = one.threads.iter().filter_map(|address| self.thread(*address)).collect();
        for mark in self.marks.iter_mut().filter(|mark| mark.finding.is_none()) {
            let is_same = match &mark.what {
                Pointed::Inversion { .. } => {
                    let has = |seq| one.events.contains(&seq);
                    one.code == Code::PriorityInversion
                        && mark.track.is_some_and(|track| threads.contains(&track))
                        && mark.seq.is_some_and(has)
                }
                Pointed::Circle(links) => {
                    let all: BTreeSet<TrackId> = links.iter().map(|(waiter, _)| *waiter).collect();
                    one.code == Code::Deadlock && mark.to_seq.is_none() && all == threads
                }
                Pointed::Finding(..) => false,
            };
            if is_same {
                mark.finding = Some(place);
            }
        }
    }

    /// Marks a finding: at each of its events, else at the newest event on each of its threads.
    fn note(&mut self, place: usize, one: &Noted, ticks: &[(u64, i64)]) {
        let what = || Pointed::Finding(one.code.name(), one.claim.clone());
        let track = one.threads.first().and_then(|address| self.thread(*address));
        let at =
            |track, from, seq| Mark { what: what(), track, from, to: from, seq, to_seq: None, finding: Some(place) };
        // Evidence may name one event several times.
        let events: BTreeSet<u64> = one.events.iter().copied().collect();
        let mut marks: Vec<Mark> = Vec::new();
        for seq in events {
            if let Ok(at_event) = ticks.binary_search_by_key(&seq, |(seq, _)| *seq)
                && let Some((_, ticks)) = ticks.get(at_event)
            {
                marks.push(at(track, *ticks, Some(seq)));
            }
        }
        if marks.is_empty() {
            marks.push(at(track, self.window.1, None));
        }
        self.marks.extend(marks);
    }

    /// What is known before the second pass.
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            trace: self.trace,
            catalogue: self.catalogue,
            tracks: &self.tracks,
            counters: self.counters(),
            marks: &self.marks,
            window: self.window,
            events: self.events,
            kept: self.kept,
        }
    }

    fn counters(&self) -> &[Counter] {
        self.levels.counters()
    }

    /// The second pass: shows everything to a writer. `each` as in [`Plan::of`].
    ///
    /// # Errors
    /// Where the writer fails.
    pub fn play(&self, sink: &mut dyn Sink, each: &mut dyn FnMut(u64)) -> io::Result<()> {
        let scene = self.scene();
        sink.begin(&scene)?;
        let mut player = Player::new(self, &scene, self.query, sink);
        let mut tracker = Tracker::new(self.trace, self.catalogue, Wants::ALL);
        let mut count = 0u64;
        self.trace.visit(|event: &Event| {
            count = count.saturating_add(1);
            if count.is_multiple_of(REPORT_EVERY) {
                each(count);
            }
            tracker.event(event, &mut player);
            if player.is_done() || self.query.is_past(event) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        tracker.finish(&mut player);
        player.finish()?;
        sink.finish(&scene)
    }
}
