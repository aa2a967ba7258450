//! What is counted in place of steps of the clock that are not believed, and what is reported of them.

#![expect(clippy::arithmetic_side_effects, reason = "counts of events; ticks are added with saturation")]

use super::coherence::{EventRange, EventRanges, Sorted, StepsBack, holds};
use super::steps::{Steps, View, little, range};
use super::tick_clock::{self, TickClock};
use crate::code::Code;
use crate::trace::{Clock, Direction, Issue, Place, many};

/// The steps of a clock that are not what its stamps alone say.
#[derive(Debug)]
pub(super) struct Doubts {
    /// Shorter steps are believed.
    big: u64,
    /// Shorter steps are believed without a look at `steps`.
    sure: u64,
    /// Ticks until the clock starts over.
    range: u64,
    /// Events, in their order, with the ticks that are counted before them.
    steps: Vec<(u64, i64)>,
    outliers: Vec<EventRange>,
    falls: Vec<Fall>,
    backs: StepsBack,
    /// Why steps go back, where the program makes the clock of ticks that it counts.
    of_ticks: Option<TickClock>,
}

impl Default for Doubts {
    fn default() -> Self {
        Self {
            big: u64::MAX,
            sure: u64::MAX,
            range: u64::MAX,
            steps: Vec::new(),
            outliers: Vec::new(),
            falls: Vec::new(),
            backs: StepsBack::default(),
            of_ticks: None,
        }
    }
}

/// A step that is not believed to be as long as the stamps say.
#[derive(Debug)]
struct Fall {
    /// The event after it.
    seq: u64,
    stamps: (u64, u64),
    /// Ticks, if the clock had gone around.
    step: u64,
    /// A jump forward to the newest event.
    newest: bool,
}

/// The doubts about a trace's time: about each core's own clock, where `cores` names them. `known` is how the events of all
/// cores were cut before, by this clock or another.
pub(super) fn find(view: View<'_>, cores: Option<&[u16]>, known: Option<EventRanges>) -> Doubts {
    let cut = |core| {
        let view = View { core, ..view };
        EventRanges::of(view, &Steps::of(view))
    };
    match cores {
        None => {
            let ranges = known.filter(|known| known.is_by(view.clock)).unwrap_or_else(|| cut(None));
            let doubts = Doubts::of(ranges, view.clock);
            let of_ticks = (doubts.backs.count > 0).then(|| tick_clock::find(view)).flatten();
            Doubts { of_ticks, ..doubts }
        }
        Some(cores) => {
            let own = cores.iter().map(|core| Doubts::of(cut(Some(*core)), view.clock));
            own.fold(Doubts::default(), Doubts::join)
        }
    }
}

/// Ticks to a range that does not match: none. To the one after it: as many as from what is before it, so that all
/// other events keep their time.
fn steps_without(sorted: &Sorted, ranges: &EventRanges, clock: &Clock) -> Vec<(u64, i64)> {
    let outliers = sorted.ranges();
    let mut steps = Vec::new();
    let mut before: Option<&EventRange> = None;
    // Ticks within the ranges since then that do not match.
    let mut within: Option<i64> = None;
    for one in &ranges.list {
        if holds(&outliers, one.seqs.0) {
            steps.push((one.seqs.0, 0));
            within = Some(within.unwrap_or(0).saturating_add(one.elapsed));
            continue;
        }
        if let (Some(before), Some(within)) = (before, within.take()) {
            let step = clock.step(before.stamps.1, one.stamps.0);
            steps.push((one.seqs.0, signed(step, range(clock), ranges.big).saturating_sub(within)));
        }
        before = Some(one);
    }
    steps
}

/// A step, which may be a small one back.
fn signed(step: u64, range: u64, big: u64) -> i64 {
    let back = range.saturating_sub(step);
    if step >= big && back <= little(range).min(big) {
        return i64::try_from(back).unwrap_or(i64::MAX).saturating_neg();
    }
    i64::try_from(step).unwrap_or(i64::MAX)
}

/// Steps back that would be longer than all the rest, if the clock had gone around: once, or several times in a trace that
/// is short without them. A clock may go around between two steps, so that back is where it began is no smaller stamp;
/// that is a step back where it leads into the time of the trace itself. So is a step of more than half the clock's range
/// to the newest event: none after it confirms its stamp.
fn doubtful(kept: &[EventRange], clock: &Clock) -> Vec<Fall> {
    let range = range(clock);
    let mut rest = kept.iter().fold(0u64, |sum, s| sum.saturating_add_signed(s.elapsed));
    let (mut falls, mut jumps) = (Vec::new(), Vec::new());
    let newest = kept.last().filter(|last| last.count == 1).map(|last| last.seqs.0);
    for pair in kept.windows(2) {
        let [a, b] = pair else { continue };
        let stamps = (a.stamps.1, b.stamps.0);
        let step = clock.step(stamps.0, stamps.1);
        let falls_back = match clock.direction {
            Direction::Up => stamps.1 < stamps.0,
            Direction::Down => stamps.1 > stamps.0,
        };
        let newest = !falls_back && newest == Some(b.seqs.0);
        let fall = Fall { seq: b.seqs.0, stamps, step, newest };
        if falls_back && step >= range >> 3 {
            falls.push(fall);
        } else if step > range >> 1 {
            jumps.push(fall);
        } else {
            rest = rest.saturating_add(step);
        }
    }
    let short = rest;
    let newest = kept.last().filter(|last| last.count == 1).map(|last| last.seqs.0);
    let leads_into =
        |jump: &Fall| jump.step > short && (range.saturating_sub(jump.step) <= short || newest == Some(jump.seq));
    let (doubted, believed): (Vec<Fall>, Vec<Fall>) = jumps.into_iter().partition(leads_into);
    rest = believed.iter().fold(rest, |sum, jump| sum.saturating_add(jump.step));
    falls.extend(doubted);
    falls.retain(|fall| fall.step > rest);
    falls.sort_by_key(|fall| fall.seq);
    falls
}

/// What a clock of ticks and a counter does, in words.
fn of_ticks(smaller: &str, TickClock { interrupt, tick }: TickClock) -> String {
    format!(
        "{smaller} smaller than the one before: the clock of this trace is made of a count of ticks and of a counter, and falls back by a tick of the kernel (about {tick} of its own) where interrupt {interrupt} begins, as that tick is not counted yet; times near it are wrong by up to a tick each, and interrupts have too large a share of the time"
    )
}

/// Events that no kernel inserts so, whatever their stamps say.
#[derive(Debug, Default)]
pub(super) struct OddEvents {
    /// Of threads with a priority word that no kernel stores.
    pub events: u64,
    pub first: Option<u64>,
    /// Threads that are not in a registry that has room for them.
    pub unregistered: u64,
}

impl Doubts {
    fn of(ranges: EventRanges, clock: &Clock) -> Self {
        if ranges.list.is_empty() {
            return Self::default();
        }
        let sorted = ranges.sort(clock);
        let mut steps = steps_without(&sorted, &ranges, clock);
        let falls = doubtful(&sorted.kept, clock);
        steps.extend(falls.iter().map(|fall| (fall.seq, 0)));
        steps.sort_unstable();
        let EventRanges { big, backs, .. } = ranges;
        Self { big, sure: big, range: range(clock), steps, outliers: sorted.outliers, falls, backs, of_ticks: None }
    }

    fn join(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self.steps.sort_unstable();
        self.outliers.extend(other.outliers);
        self.outliers.sort_by_key(|s| s.seqs);
        self.falls.extend(other.falls);
        self.falls.sort_by_key(|f| f.seq);
        Self {
            big: self.big.min(other.big),
            sure: self.sure.min(other.sure),
            range: self.range.min(other.range),
            backs: self.backs.join(other.backs),
            ..self
        }
    }

    /// How many steps are not believed.
    pub const fn count(&self) -> u64 {
        self.steps.len() as u64 + self.backs.count
    }

    /// Counts no time to the first events of buffers that another board filled: nothing shows how far they are apart.
    pub fn count_none(&mut self, breaks: &[u64]) {
        if breaks.is_empty() {
            return;
        }
        self.falls.retain(|fall| !breaks.contains(&fall.seq));
        self.steps.retain(|(seq, _)| !breaks.contains(seq));
        self.steps.extend(breaks.iter().map(|seq| (*seq, 0)));
        self.steps.sort_unstable();
        self.sure = 0;
    }

    /// Ticks of a step to an event, which its stamp alone would make `step`.
    #[inline]
    pub fn step(&self, seq: u64, step: u64) -> i64 {
        if step < self.sure { i64::try_from(step).unwrap_or(i64::MAX) } else { self.unusual(seq, step) }
    }

    #[cold]
    fn unusual(&self, seq: u64, step: u64) -> i64 {
        let at = self.steps.binary_search_by_key(&seq, |(seq, _)| *seq).ok();
        let counted = at.and_then(|at| self.steps.get(at));
        counted.map_or_else(|| signed(step, self.range, self.big), |(_, counted)| *counted)
    }

    /// Reports what does not match.
    pub fn report(&self, odd: &OddEvents, issues: &mut Vec<Issue>) {
        self.report_slots(odd, issues);
        if let Some(first) = self.falls.first() {
            let message = if first.newest {
                format!(
                    "the newest time stamp, {:#x}, is {} ticks behind the one before it, more than half the clock's range and more than all others together: a damaged stamp, or a long pause; its length is not known, and 0 ticks are counted",
                    first.stamps.1, first.step
                )
            } else {
                format!(
                    "the time stamps fall back from {:#x} to {:#x}: a damaged stamp, or a clock that was set back or started again; if the clock wrapped, this one interval of {} ticks would be longer than all others together; its length is not known, and 0 ticks are counted",
                    first.stamps.0, first.stamps.1, first.step
                )
            };
            let issue = Issue::new(Code::WrapDoubtful, message);
            issues.push(issue.times(self.falls.len() as u64).at(Place::seq(first.seq)));
        }
        if let Some(seq) = self.backs.first {
            let smaller = many(self.backs.count, "time stamp is", "time stamps are");
            let issue = match self.of_ticks {
                Some(clock) => Issue::new(Code::ClockOfTicks, of_ticks(&smaller, clock)),
                None => Issue::new(
                    Code::StampsStepBack,
                    format!(
                        "{smaller} smaller than the one before, by {} ticks at the most, and no interrupt explains it: the stamps were damaged, or the clock was set back a little",
                        self.backs.most
                    ),
                ),
            };
            issues.push(issue.times(self.backs.count).at(Place::seq(seq)));
        }
    }

    fn report_slots(&self, odd: &OddEvents, issues: &mut Vec<Issue>) {
        let outliers: u64 = self.outliers.iter().map(|s| s.count).sum();
        let mut why = Vec::new();
        if let Some(first) = self.outliers.first() {
            why.push(format!(
                "the time stamps of {outliers} ({:#x} is the first) do not match those around them, and no time is counted to them",
                first.stamps.0
            ));
        }
        if odd.events > 0 {
            why.push(format!(
                "{} that no kernel stores",
                many(odd.events, "has a priority word", "have priority words")
            ));
        }
        if odd.unregistered > 0 {
            why.push(format!(
                "{} not in the registry, which has room",
                many(odd.unregistered, "thread is", "threads are")
            ));
        }
        if why.is_empty() {
            return;
        }
        let message = format!(
            "events do not match the rest: {}; they were overwritten, or are from an earlier pass of the ring, or from another capture",
            why.join("; ")
        );
        let seq = self.outliers.first().map(|s| s.seqs.0).into_iter().chain(odd.first).min();
        let count = (outliers + odd.events).max(odd.unregistered);
        let issue = Issue::new(Code::SlotsIncoherent, message).times(count);
        issues.push(issue.at(Place { seq, ..Place::default() }));
    }
}
