//! The second pass: spans and changes of the tracker become slices, instants, flows and levels.

use std::io;

use super::plausible::PlausibleTimes;
use super::tracks::{Plan, of_context};
use super::{Doubt, FlowId, Gap, Instant, Level, Scene, Sink, Slice, State, TrackId, Waiting, Woken};
use crate::analysis::tracker::{Call, Change, Consumer, Span, Step, System, ThreadNo, ThreadState, Wait, Who};
use crate::query::Query;
use crate::trace::Event;

/// A slice that is not over.
#[derive(Debug, Clone, Copy)]
struct Open {
    state: State,
    from: i64,
    /// Ticks up to which it is known to last.
    to: i64,
    begins: Option<u64>,
    flow: Option<FlowId>,
}

/// One track.
#[derive(Debug, Clone, Copy)]
struct Line {
    open: Option<Open>,
    /// What its thread waits for, also while it still runs on.
    waits: Option<Waiting>,
    /// Ticks up to which it is drawn: slices do not overlap, also where a clock goes back.
    drawn: i64,
    /// True where it is among those that a gap ends.
    is_listed: bool,
}

/// One core.
#[derive(Debug, Clone, Default)]
struct CoreLine {
    /// The track of who had it last.
    holder: Option<TrackId>,
    /// The numbers of the interrupts that are open, and the event that began each.
    frames: Vec<(Option<u64>, u64)>,
    /// Ticks of its last event.
    last: Option<i64>,
    /// Ticks up to which spans show who had it.
    shown: i64,
}

/// Makes a picture of what the tracker finds.
pub(super) struct Player<'p, 's> {
    plan: &'p Plan<'p>,
    scene: &'p Scene<'p>,
    query: &'p Query<'p>,
    sink: &'s mut dyn Sink,
    lines: Vec<Line>,
    cores: Vec<CoreLine>,
    /// Lines that were drawn on since the last gap.
    listed: Vec<TrackId>,
    /// Ticks of the latest event, and of the last.
    end: i64,
    last: i64,
    /// True where events are missing before the next one.
    is_behind_gap: bool,
    plausible: PlausibleTimes<'p>,
    /// Ticks up to which gaps of each kind are shown: they do not overlap.
    gapped: [i64; 2],
    /// Levels since the last gap.
    levelled: Vec<bool>,
    flows: u64,
    /// Those of the event that is looked at.
    begun: Vec<FlowId>,
    /// Slices that come after its instant.
    late: Vec<Slice>,
    written: io::Result<()>,
}

impl<'p, 's> Player<'p, 's> {
    pub fn new(plan: &'p Plan<'p>, scene: &'p Scene<'p>, query: &'p Query<'p>, sink: &'s mut dyn Sink) -> Self {
        let line = Line { open: None, waits: None, drawn: i64::MIN, is_listed: false };
        Self {
            plan,
            scene,
            query,
            sink,
            lines: vec![line; scene.tracks.len()],
            cores: Vec::new(),
            listed: Vec::new(),
            end: i64::MIN,
            last: i64::MIN,
            is_behind_gap: false,
            plausible: PlausibleTimes::new(scene.trace),
            gapped: [i64::MIN; 2],
            levelled: vec![false; scene.counters.len()],
            flows: 0,
            begun: Vec::new(),
            late: Vec::new(),
            written: Ok(()),
        }
    }

    /// True where the writer has failed.
    pub(super) const fn is_done(&self) -> bool {
        self.written.is_err()
    }

    /// Ends what is open: it goes on.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.begun.clear();
        self.cut(self.end);
        self.written
    }

    /// Ends all slices here; nobody knows how they go on.
    fn cut(&mut self, at: i64) {
        for track in std::mem::take(&mut self.listed) {
            let Some(line) = self.lines.get_mut(track.index()) else { continue };
            (line.is_listed, line.waits) = (false, None);
            if let Some(open) = line.open.take() {
                let to = if is_seen(open.state) { open.to } else { at };
                self.emit(track, &open, to, false, None);
            }
        }
        self.cores.iter_mut().for_each(|core| *core = CoreLine { last: core.last, ..CoreLine::default() });
    }

    fn core(&mut self, core: u16) -> Option<&mut CoreLine> {
        let core = usize::from(core);
        if core >= self.cores.len() {
            self.cores.resize(core.saturating_add(1), CoreLine::default());
        }
        self.cores.get_mut(core)
    }

    /// A line that is drawn on.
    fn line(&mut self, track: TrackId) -> Option<&mut Line> {
        let line = self.lines.get_mut(track.index())?;
        if !std::mem::replace(&mut line.is_listed, true) {
            self.listed.push(track);
        }
        Some(line)
    }

    fn put(&mut self, written: io::Result<()>) {
        if self.written.is_ok() {
            self.written = written;
        }
    }

    /// Hands on a slice, as far as it is in the window.
    fn emit(&mut self, track: TrackId, open: &Open, to: i64, is_over: bool, woken: Option<Woken>) {
        let Some(line) = self.lines.get_mut(track.index()) else { return };
        let from = open.from.max(line.drawn);
        let to = to.max(from);
        line.drawn = to;
        let (first, last) = self.scene.window;
        let is_outside = to < first || from > last || (from < to && (to == first || from == last));
        // Of no length is what was woken and ran at once, and what the last event began.
        let is_nothing = from == to && open.flow.is_none() && woken.is_none() && is_over;
        if self.written.is_err() || is_outside || is_nothing || self.scene.events.is_none() {
            return;
        }
        let slice = Slice {
            track,
            state: open.state,
            from: from.max(first),
            to: to.min(last),
            begins: open.begins.filter(|_| from >= first),
            is_over: is_over && to <= last,
            flow: open.flow.filter(|_| from >= first),
            woken: woken.filter(|_| to <= last),
        };
        // A flow begins before it ends, also where it takes no time.
        if !self.late.is_empty() || slice.flow.is_some_and(|flow| self.begun.contains(&flow)) {
            self.late.push(slice);
            return;
        }
        let written = self.sink.slice(self.scene, &slice);
        self.put(written);
    }

    /// Hands on the slices that wait for the instant of the event.
    fn put_late(&mut self) {
        for slice in std::mem::take(&mut self.late) {
            if self.written.is_ok() {
                self.written = self.sink.slice(self.scene, &slice);
            }
        }
    }

    /// Ends the slice of a track.
    fn end(&mut self, track: TrackId, at: i64, woken: Option<Woken>) {
        let Some(open) = self.line(track).and_then(|line| line.open.take()) else { return };
        let to = if is_seen(open.state) { open.to.min(at.max(open.from)) } else { at };
        self.emit(track, &open, to, true, woken);
    }

    /// A track is in another state from here on.
    fn turn(&mut self, track: TrackId, state: State, at: i64, begins: Option<u64>, flow: Option<FlowId>) {
        self.end(track, at, None);
        if let Some(line) = self.line(track) {
            line.open = Some(Open { state, from: at, to: at, begins, flow });
        }
    }

    /// Somebody had a core.
    fn span(&mut self, span: &Span, system: &System<'_>) {
        let Some(track) = self.plan.track_of(span.core, span.who, system) else { return };
        self.holds(span.core, track, span.from, span.who);
        let frame = self.core(span.core).and_then(|core| {
            core.shown = span.to;
            core.frames.last().copied()
        });
        let (state, begins) = match span.who {
            Who::Thread(_) => (State::Running(span.core), None),
            Who::Isr => (State::Interrupt(frame.and_then(|f| f.0)), frame.map(|f| f.1)),
            _ => (State::Other, None),
        };
        let Some(line) = self.line(track) else { return };
        match &mut line.open {
            Some(open) if open.state == state && open.to == span.from => open.to = span.to,
            _ => {
                self.turn(track, state, span.from, begins, None);
                if let Some(open) = self.line(track).and_then(|line| line.open.as_mut()) {
                    open.to = span.to;
                }
            }
        }
    }

    /// A core goes to another track.
    fn holds(&mut self, core: u16, track: TrackId, at: i64, who: Who) {
        let Some(line) = self.core(core) else { return };
        let before = line.holder.replace(track).filter(|before| *before != track);
        let Some(before) = before else { return };
        let Some(line) = self.line(before) else { return };
        let Some(Open { state, .. }) = line.open else { return };
        let waits = line.waits;
        match state {
            State::Interrupt(_) | State::Other => self.end(before, at, None),
            State::Running(on) if on == core => match (waits, who) {
                // It had blocked, and ran on for a moment.
                (Some(waits), _) => self.turn(before, State::Blocked(waits), at, Some(waits.seq), None),
                (None, Who::Isr) => self.turn(before, State::Interrupted(core), at, None, None),
                (None, Who::Unknown) => self.end(before, at, None),
                (None, _) => self.turn(before, State::Ready, at, None, None),
            },
            _ => {}
        }
    }

    fn change(&mut self, event: &Event, change: &Change, system: &System<'_>) {
        match *change {
            Change::Blocked { thread, code, call, .. } => self.blocks(event, thread, code, call, system),
            Change::Readied { thread, by, waited, .. } => self.wakes(event, thread, by, waited, system),
            Change::Dispatched { thread, at, .. } => self.runs(event, thread, at, system),
            Change::Preempted { thread, .. } => {
                let Some(track) = self.plan.track_of(event.core, Who::Thread(thread), system) else { return };
                let since = system.thread(thread).filter(|t| t.state == ThreadState::Ready);
                let is_ready = self.line(track).and_then(|l| l.open).is_some_and(|o| o.state == State::Ready);
                if !is_ready {
                    self.turn(track, State::Ready, since.map_or(event.ticks, |t| t.since), Some(event.seq), None);
                }
            }
            Change::Ended { thread, .. } => {
                let Some(track) = self.plan.track_of(event.core, Who::Thread(thread), system) else { return };
                self.end(track, event.ticks, None);
                if let Some(line) = self.line(track) {
                    line.waits = None;
                }
            }
            Change::Entered { number, depth } => {
                self.end_interrupt(event, system);
                let number = system.interrupt_number(event, number);
                if let Some(core) = self.core(event.core) {
                    core.frames.truncate(depth);
                    core.frames.push((number, event.seq));
                }
            }
            Change::Exited { .. } => {
                self.end_interrupt(event, system);
                if let Some(core) = self.core(event.core) {
                    core.frames.pop();
                }
            }
            _ => {}
        }
    }

    /// One interrupt begins or ends: what follows is another, also where it has the same number.
    fn end_interrupt(&mut self, event: &Event, system: &System<'_>) {
        if let Some(track) = self.plan.track_of(event.core, Who::Isr, system) {
            self.end(track, event.ticks, None);
        }
    }

    fn blocks(&mut self, event: &Event, thread: ThreadNo, code: Option<u64>, call: Option<Call>, system: &System<'_>) {
        let Some(track) = self.plan.track_of(event.core, Who::Thread(thread), system) else { return };
        let owner = system.lock_of(call).and_then(|lock| system.lock(lock)?.owner).filter(|owner| *owner != thread);
        let waits = Waiting {
            call: call.map(|call| (call.def, call.seq)),
            object: call.and_then(|call| call.object).map(|object| system.address(object)),
            owner: owner.and_then(|owner| self.plan.track_of(event.core, Who::Thread(owner), system)),
            state: (event.def, code),
            option: call.and_then(|call| call.wait),
            since: event.ticks,
            seq: event.seq,
        };
        self.turn(track, State::Blocked(waits), event.ticks, Some(event.seq), None);
        if let Some(line) = self.line(track) {
            line.waits = Some(waits);
        }
    }

    fn wakes(&mut self, event: &Event, thread: ThreadNo, by: Who, waited: Option<Wait>, system: &System<'_>) {
        let Some(track) = self.plan.track_of(event.core, Who::Thread(thread), system) else { return };
        let waker = self.plan.track_of(event.core, by, system);
        let Some(line) = self.line(track) else { return };
        let waits = line.waits.take();
        let is_running = line.open.is_some_and(|open| matches!(open.state, State::Running(_)));
        let woken = waits.zip(waited).map(|(waits, wait)| Woken {
            waited: event.ticks.saturating_sub(waits.since),
            by: waker,
            ending: wait.ending,
        });
        let flow = (self.keeps(event)).then(|| {
            self.flows = self.flows.saturating_add(1);
            FlowId(self.flows)
        });
        self.begun.extend(flow);
        self.end(track, event.ticks, woken);
        // One that still runs, as it had not left its core yet, goes on: it was ready for no time.
        self.turn(track, State::Ready, event.ticks, Some(event.seq), flow);
        if is_running && system.thread(thread).is_some_and(|t| t.state == ThreadState::Running) {
            self.turn(track, State::Running(event.core), event.ticks, None, None);
        }
    }

    fn runs(&mut self, event: &Event, thread: ThreadNo, at: Option<i64>, system: &System<'_>) {
        let Some(track) = self.plan.track_of(event.core, Who::Thread(thread), system) else { return };
        let at = at.unwrap_or(event.ticks);
        // The spans, which are known by now, say who had it after that.
        if self.core(event.core).is_none_or(|core| core.shown > at) {
            return;
        }
        self.holds(event.core, track, at, Who::Thread(thread));
        let open = self.line(track).and_then(|line| line.open);
        if !open.is_some_and(|open| open.state == State::Running(event.core)) {
            self.turn(track, State::Running(event.core), at, Some(event.seq), None);
        }
    }

    /// True where a writer gets an event.
    fn keeps(&self, event: &Event) -> bool {
        self.query.keeps_all() || self.query.keeps(event)
    }

    /// Events are missing before this one, or its time is not plausible.
    fn gaps(&mut self, event: &Event) {
        if std::mem::take(&mut self.is_behind_gap) && self.last != i64::MIN {
            self.put_gap(Doubt::Lost, (self.last.min(event.ticks), event.ticks), event.seq);
        }
        let before = self.core(event.core).and_then(|core| core.last.replace(event.ticks));
        let doubted = self.plausible.doubted(event);
        if let Some(before) = before.filter(|before| *before > event.ticks).or(doubted) {
            self.put_gap(Doubt::Clock, (before.min(event.ticks), before.max(event.ticks)), event.seq);
        }
    }

    fn put_gap(&mut self, doubt: Doubt, (from, to): (i64, i64), seq: u64) {
        let (first, last) = self.scene.window;
        if self.written.is_ok() && self.scene.events.is_some() && to >= first && from <= last {
            let [of_lost, of_clock] = &mut self.gapped;
            let shown = if doubt == Doubt::Lost { of_lost } else { of_clock };
            let from = from.max(first).max(*shown);
            *shown = to.min(last).max(from);
            let gap = Gap { doubt, from, to: *shown, seq };
            self.written = self.sink.gap(self.scene, &gap);
        }
    }

    /// The instant and the levels of an event.
    fn point(&mut self, event: &Event, system: &System<'_>) {
        if self.written.is_err() || !self.query.is_in_range(event) {
            return;
        }
        let plan = self.plan;
        let mut levels: Vec<Level> = Vec::new();
        plan.levels.each(event, system, |counter, value| {
            levels.push(Level { counter, ticks: event.ticks, seq: event.seq, value: Some(value) });
        });
        for level in levels {
            if let Some(known) = self.levelled.get_mut(level.counter.index()) {
                *known = true;
            }
            let written = self.sink.level(self.scene, &level);
            self.put(written);
        }
        if !self.keeps(event) {
            return;
        }
        let track = match system.trace.contexts.get(event.context).map(|c| (of_context(c.kind), c.address)) {
            Some((None, thread)) => plan.thread(thread),
            Some((Some(who), _)) => plan.track_of(event.core, who, system),
            None => plan.track_of(event.core, Who::Unknown, system),
        };
        if let Some(track) = track {
            let written = self.sink.instant(self.scene, &Instant { track, event, flows: &self.begun });
            self.put(written);
        }
    }

    /// Levels are unknown from here on.
    fn forget_levels(&mut self) {
        let (first, last) = self.scene.window;
        if self.written.is_err() || self.last < first || self.last > last {
            return;
        }
        for (counter, known) in (0u32..).map(super::CounterId).zip(&mut self.levelled) {
            if std::mem::take(known) {
                let level = Level { counter, ticks: self.last, seq: 0, value: None };
                if let Err(error) = self.sink.level(self.scene, &level) {
                    self.written = Err(error);
                    return;
                }
            }
        }
    }
}

/// True for what a span shows: it is known up to the end of that span. Other states last until something changes them.
const fn is_seen(state: State) -> bool {
    matches!(state, State::Running(_) | State::Interrupt(_) | State::Other)
}

impl Consumer for Player<'_, '_> {
    fn step(&mut self, step: &Step<'_>, system: &System<'_>) {
        let event = step.event;
        self.gaps(event);
        self.begun.clear();
        for span in step.spans {
            self.span(span, system);
        }
        // Where a thread acts, the interrupts before it are over.
        let open = system.frames(event.core).len();
        for change in step.changes {
            self.change(event, change, system);
        }
        if let Some(core) = self.core(event.core) {
            core.frames.truncate(open);
        }
        self.point(event, system);
        self.put_late();
        self.last = event.ticks;
        self.end = self.end.max(event.ticks);
    }

    fn gap(&mut self) {
        self.begun.clear();
        self.cut(self.last);
        self.forget_levels();
        self.is_behind_gap = true;
    }
}
