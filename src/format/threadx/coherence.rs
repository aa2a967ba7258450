//! Which time stamps and slots do not fit the rest of a trace, and what is counted in their place.
//! A trace is cut where a step of its clock is out of the ordinary. Between two cuts lies a stretch that agrees with
//! itself. A stretch without which the stretches around it follow each other does not fit: a damaged stamp, slots of an
//! older lap or of another capture. What is left are long pauses, and steps back of the clock.

use std::ops::{ControlFlow, Range};

use super::entry::{Codec, Entry, kind_of};
use super::order::Ring;
use super::survey::{Ids, is_entry};
use crate::code::Code;
use crate::trace::{Clock, ContextKind, Direction, Issue, Place};

/// With fewer events nothing is out of the ordinary.
pub(super) const FEWEST: u64 = 8;
/// One step in so many may be larger than what is called ordinary; two at least, and so many at the most.
const EXCEPTIONS: u64 = 32;
const MOST_EXCEPTIONS: u64 = 32;
/// A step is out of the ordinary where it is so many times as long as the ordinary ones, as a power of two.
const FACTOR: u32 = 3;
/// Stretches that are kept; a trace with more cuts is not judged.
const MOST: usize = 1024;

/// Where to look: the slots in order, and the clock by which to read them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub ring: &'a Ring,
    pub codec: Codec,
    pub ids: &'a Ids,
    pub clock: &'a Clock,
    /// True for slots whose context word was cleared.
    pub previous: bool,
}

/// Events that follow each other by ordinary steps.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// Its first event, and the one behind its last.
    seqs: (u64, u64),
    /// First and last stamp.
    stamps: (u64, u64),
    /// The stamp before the last.
    last_but_one: Option<u64>,
    count: u64,
    /// Ticks from the first to the last.
    elapsed: i64,
}

/// A trace cut where a step is out of the ordinary.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    /// Mask, direction and period of the clock by which it was cut.
    clock: Option<(u64, Direction, Option<u64>)>,
    list: Vec<Stretch>,
    /// Steps from here on are out of the ordinary.
    big: u64,
    /// The largest ordinary step, as a power of two.
    usual: u64,
    backs: Backs,
}

/// What steps are ordinary.
struct Scale {
    /// Steps from here on are out of the ordinary.
    big: u64,
    /// The largest ordinary step, as a power of two.
    usual: u64,
    /// So far back goes time at the most where an interrupt comes between reading the clock and storing the event.
    nested: u64,
}

/// Small steps back that nothing explains.
#[derive(Debug, Default, Clone, Copy)]
struct Backs {
    nested: u64,
    count: u64,
    most: u64,
    first: Option<u64>,
}

impl Backs {
    /// Notes a step back. One is no surprise where an interrupt inserted its events after an event had read the clock, or
    /// where cores read it.
    fn add(&mut self, seq: u64, ticks: u64, before: Option<&Entry>, now: &Entry) {
        let explained = |before: &Entry| {
            kind_of(before.context) == ContextKind::Isr && ticks <= self.nested || before.core != now.core
        };
        if before.is_none_or(explained) {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.most = self.most.max(ticks);
        self.first = self.first.or(Some(seq));
    }

    fn join(self, other: Self) -> Self {
        Self {
            nested: self.nested.max(other.nested),
            count: self.count.saturating_add(other.count),
            most: self.most.max(other.most),
            first: self.first.into_iter().chain(other.first).min(),
        }
    }
}

/// The steps of a clock that are not what its stamps alone say.
#[derive(Debug)]
pub(super) struct Doubts {
    /// Shorter steps are believed.
    big: u64,
    /// Ticks until the clock starts over.
    range: u64,
    /// Events, in their order, with the ticks that are counted before them.
    steps: Vec<(u64, i64)>,
    strays: Vec<Stretch>,
    falls: Vec<Fall>,
    backs: Backs,
}

impl Default for Doubts {
    fn default() -> Self {
        Self {
            big: u64::MAX,
            range: u64::MAX,
            steps: Vec::new(),
            strays: Vec::new(),
            falls: Vec::new(),
            backs: Backs::default(),
        }
    }
}

/// A step back of so little is no long step, with a clock that starts over after so many ticks.
const fn little(range: u64) -> u64 {
    range >> 10
}

/// Ticks until the clock starts over.
fn range(clock: &Clock) -> u64 {
    clock.period.unwrap_or_else(|| clock.mask.saturating_add(1))
}

impl View<'_> {
    /// Every event and its number, of one core or of all.
    fn events(&self, core: Option<u16>, mut each: impl FnMut(u64, &Entry)) {
        for run in &self.ring.runs {
            let mut seq = run.first_seq;
            self.codec.entries(run.bytes.as_slice(), |entry| {
                let own = core.is_none_or(|core| entry.core == core);
                if own && (entry.context != 0 || self.previous) && is_entry(&entry, self.ids, self.codec.cores) {
                    each(seq, &entry);
                }
                seq = seq.saturating_add(1);
                ControlFlow::Continue(())
            });
        }
    }

    /// What steps are ordinary. `None` where long steps are nothing out of the ordinary.
    fn scale(&self, core: Option<u16>) -> Option<Scale> {
        let range = range(self.clock);
        let mut sizes = [0u64; 65];
        let (mut before, mut events) = (None, 0u64);
        self.events(core, |_, entry| {
            let stamp = entry.stamp;
            if let Some(before) = before {
                let step = self.clock.step(before, stamp);
                let back = range.saturating_sub(step);
                let long = if back <= little(range) { back } else { step };
                let size = u64::BITS.saturating_sub(long.leading_zeros());
                if let Some(n) = usize::try_from(size).ok().and_then(|i| sizes.get_mut(i)) {
                    *n = n.saturating_add(1);
                }
            }
            before = Some(stamp);
            events = events.saturating_add(1);
        });
        if events < FEWEST {
            return None;
        }
        let allowed = (events / EXCEPTIONS).clamp(2, MOST_EXCEPTIONS);
        let mut larger = 0u64;
        let bits = (0..=64u32).rev().zip(sizes.iter().rev()).find_map(|(bits, n)| {
            larger = larger.saturating_add(*n);
            (larger > allowed).then_some(bits)
        })?;
        let usual = 1u64.checked_shl(bits)?;
        let mut shorter = 0u64;
        let middle = (0..=64u32).zip(&sizes).find_map(|(bits, n)| {
            shorter = shorter.saturating_add(*n);
            (shorter > events / 2).then_some(bits)
        })?;
        let nested = 1u64.checked_shl(middle.saturating_add(1))?;
        let most = range >> 3;
        let big = 1u64.checked_shl(bits.saturating_add(FACTOR)).unwrap_or(u64::MAX).min(most);
        (bits > 0 && usual <= most).then_some(Scale { big, usual, nested })
    }

    /// Cuts the trace; empty where it cannot be judged.
    pub fn stretches(&self, core: Option<u16>) -> Stretches {
        let clock = Some(identity(self.clock));
        let none = Stretches { clock, ..Stretches::default() };
        let Some(Scale { big, usual, nested }) = self.scale(core) else { return none };
        let backs = Backs { nested, ..Backs::default() };
        let mut cutter = Cutter { clock: self.clock, big, list: Vec::new(), backs, before: None };
        self.events(core, |seq, entry| cutter.add(seq, entry));
        if cutter.list.len() > MOST {
            return none;
        }
        Stretches { clock, list: cutter.list, big, usual, backs: cutter.backs }
    }
}

/// What of a clock its steps hang on.
const fn identity(clock: &Clock) -> (u64, Direction, Option<u64>) {
    (clock.mask, clock.direction, clock.period)
}

/// Cuts a trace event by event.
struct Cutter<'a> {
    clock: &'a Clock,
    big: u64,
    list: Vec<Stretch>,
    backs: Backs,
    /// The last event.
    before: Option<Entry>,
}

impl Cutter<'_> {
    fn add(&mut self, seq: u64, entry: &Entry) {
        if self.list.len() > MOST {
            return;
        }
        let (clock, big) = (self.clock, self.big);
        let follows = |stamp: u64| clock.step(stamp, entry.stamp) < big;
        let before = self.before.replace(*entry);
        // A single event between two that follow each other is none of theirs.
        let alone = match self.list.as_slice() {
            [.., whole, one] => {
                let cut = clock.step(whole.stamps.1, one.stamps.0) >= big;
                cut && one.count == 1 && follows(whole.stamps.1)
            }
            _ => false,
        };
        if !alone && let Some(last) = self.list.last_mut() {
            let step = clock.step(last.stamps.1, entry.stamp);
            let back = range(clock).saturating_sub(step);
            let little = back <= little(range(clock)).min(big);
            if step < big || little {
                last.last_but_one = Some(last.stamps.1);
                last.seqs.1 = seq.saturating_add(1);
                last.stamps.1 = entry.stamp;
                last.count = last.count.saturating_add(1);
                if step < big {
                    last.elapsed = last.elapsed.saturating_add_unsigned(step);
                } else {
                    self.backs.add(seq, back, before.as_ref(), entry);
                    last.elapsed = last.elapsed.saturating_sub_unsigned(back);
                }
                return;
            }
            // Not so far back: without the event before it, this one may follow.
            if back < big
                && let Some(stamp) = last.last_but_one.filter(|stamp| follows(*stamp))
            {
                let stray = Stretch::of(last.seqs.1.saturating_sub(1), last.stamps.1);
                last.elapsed = last.elapsed.saturating_sub_unsigned(clock.step(stamp, last.stamps.1));
                last.stamps.1 = stamp;
                last.seqs.1 = last.seqs.1.saturating_sub(1);
                last.count = last.count.saturating_sub(1);
                self.list.push(stray);
            }
        }
        self.list.push(Stretch::of(seq, entry.stamp));
    }
}

impl Stretch {
    /// One event.
    const fn of(seq: u64, stamp: u64) -> Self {
        Self { seqs: (seq, seq.saturating_add(1)), stamps: (stamp, stamp), last_but_one: None, count: 1, elapsed: 0 }
    }
}

/// What is wrong with a trace's time.
#[derive(Debug, Default)]
struct Found {
    /// Stretches that do not fit, with those around them joined.
    strays: Vec<Stretch>,
    /// Stretches that follow each other, or do not.
    kept: Vec<Stretch>,
}

impl Found {
    /// The events whose stamps do not fit: ranges in their order, of which none reaches into another.
    fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (from, to) in self.strays.iter().map(|stray| stray.seqs) {
            match ranges.last_mut() {
                // A stretch was taken out, and then what lies around it.
                Some(outer) if from < outer.end => outer.end = outer.end.max(to),
                _ => ranges.push(from..to),
            }
        }
        ranges
    }
}

/// True where one of the ranges of [`Stretches::strays`] holds the event.
pub(super) fn holds(ranges: &[Range<u64>], seq: u64) -> bool {
    let at = ranges.partition_point(|range| range.end <= seq);
    ranges.get(at).is_some_and(|range| range.contains(&seq))
}

impl Stretches {
    /// True where a stretch makes a whole turn of the clock of what is a short time without it. Up to four times as long as
    /// others its events may have taken, which are not there any more.
    fn is_stray(&self, before: &Stretch, stray: &Stretch, after: &Stretch, pace: u64, clock: &Clock) -> bool {
        let range = range(clock);
        let step = clock.step(before.stamps.1, after.stamps.0);
        let back = range.saturating_sub(step);
        let taken = pace.saturating_mul(4).saturating_mul(stray.count).min(range >> 3);
        let joins = step < self.big.saturating_add(taken) || back < self.big;
        let to = clock.step(before.stamps.1, stray.stamps.0);
        let from = clock.step(stray.stamps.1, after.stamps.0);
        let turns = to.saturating_add_signed(stray.elapsed).saturating_add(from) > step;
        let short = 0u64.saturating_add_signed(stray.elapsed) <= range >> 2;
        joins && turns && short && stray.count < before.count.saturating_add(after.count)
    }

    /// Takes out what does not fit.
    fn sift(&self, clock: &Clock) -> Found {
        let mut found = Found::default();
        let sum = |value: fn(&Stretch) -> u64| self.list.iter().fold(0u64, |sum, s| sum.saturating_add(value(s)));
        let (elapsed, events) = (sum(|s| 0u64.saturating_add_signed(s.elapsed)), sum(|s| s.count));
        let usual_pace = elapsed.checked_div(events).unwrap_or(0);
        for next in &self.list {
            found.kept.push(*next);
            while let [.., before, stray, after] = found.kept.as_slice() {
                if !self.is_stray(before, stray, after, usual_pace, clock) {
                    break;
                }
                let joined = Stretch {
                    seqs: (before.seqs.0, after.seqs.1),
                    stamps: (before.stamps.0, after.stamps.1),
                    last_but_one: after.last_but_one,
                    count: before.count.saturating_add(after.count),
                    elapsed: before.elapsed.saturating_add(after.elapsed),
                };
                found.strays.push(*stray);
                let rest = found.kept.len().saturating_sub(3);
                found.kept.truncate(rest);
                found.kept.push(joined);
            }
        }
        // Where long pauses are usual, two of them may make a whole turn of the clock.
        let cuts = found.kept.len().saturating_sub(1);
        if cuts > found.strays.len() && elapsed >= range(clock) {
            return Found { strays: Vec::new(), kept: self.list.clone() };
        }
        found.strays.sort_by_key(|s| s.seqs);
        found
    }

    /// The events whose stamps do not fit: ranges in their order, of which none reaches into another.
    pub fn strays(&self, clock: &Clock) -> Vec<Range<u64>> {
        self.sift(clock).ranges()
    }

    /// The event that is the oldest by its stamp, where that is not the first: the newest is followed by the first as by any
    /// other, and one step in between is longer than all the rest.
    pub fn oldest(&self, clock: &Clock) -> Option<u64> {
        let kept = self.sift(clock).kept;
        let (first, last) = kept.first().zip(kept.last())?;
        let cuts = kept.windows(2).filter_map(|pair| match pair {
            [a, b] => Some((clock.step(a.stamps.1, b.stamps.0), b.seqs.0)),
            _ => None,
        });
        let mut cuts: Vec<(u64, u64)> = cuts.collect();
        cuts.sort_unstable();
        let (step, seq) = cuts.pop()?;
        // Not by a pause: of pauses that are longer than the clock's range the stamps show any length.
        if clock.step(last.stamps.1, first.stamps.0) > self.usual {
            return None;
        }
        let ordinary = kept.iter().fold(0u64, |sum, s| sum.saturating_add_signed(s.elapsed));
        let others = cuts.iter().fold(ordinary, |sum, (one, _)| sum.saturating_add(*one));
        let alone = kept.len() == 2 && step >= self.usual.saturating_mul(16);
        (step > others || alone).then_some(seq)
    }

    /// True where a clock may reload: a stamp lies as close to 0 as the next is far.
    pub fn reaches_zero(&self) -> bool {
        self.list.iter().any(|s| s.stamps.0.min(s.stamps.1) <= self.usual)
    }
    /// What is counted in place of steps that are not believed.
    fn doubts(self, clock: &Clock) -> Doubts {
        if self.list.is_empty() {
            return Doubts::default();
        }
        let found = self.sift(clock);
        let mut steps = strays_aside(&found, &self.list, self.big, clock);
        let falls = doubtful(&found.kept, clock);
        steps.extend(falls.iter().map(|fall| (fall.seq, 0)));
        steps.sort_unstable();
        Doubts { big: self.big, range: range(clock), steps, strays: found.strays, falls, backs: self.backs }
    }
}

/// The doubts about a trace's time: about each core's own clock, where `cores` names them. `known` is how the events of all
/// cores were cut before, by this clock or another.
pub(super) fn doubts(view: View<'_>, cores: Option<&[u16]>, known: Option<Stretches>) -> Doubts {
    match cores {
        None => {
            let same = known.filter(|stretches| stretches.clock == Some(identity(view.clock)));
            same.unwrap_or_else(|| view.stretches(None)).doubts(view.clock)
        }
        Some(cores) => {
            let own = cores.iter().map(|core| view.stretches(Some(*core)).doubts(view.clock));
            own.fold(Doubts::default(), Doubts::join)
        }
    }
}

/// Ticks to a stretch that does not fit: none. To the one behind it: as many as from what lies before it, so that all other
/// events keep their time.
fn strays_aside(found: &Found, list: &[Stretch], big: u64, clock: &Clock) -> Vec<(u64, i64)> {
    let strays = found.ranges();
    let mut steps = Vec::new();
    let mut before: Option<&Stretch> = None;
    // Ticks within the stretches since then that do not fit.
    let mut within: Option<i64> = None;
    for one in list {
        if holds(&strays, one.seqs.0) {
            steps.push((one.seqs.0, 0));
            within = Some(within.unwrap_or(0).saturating_add(one.elapsed));
            continue;
        }
        if let (Some(before), Some(within)) = (before, within.take()) {
            let step = signed(clock, before.stamps.1, one.stamps.0, big);
            steps.push((one.seqs.0, step.saturating_sub(within)));
        }
        before = Some(one);
    }
    steps
}

/// Ticks from one stamp to the next, which may lie a little before it.
fn signed(clock: &Clock, before: u64, now: u64, big: u64) -> i64 {
    let step = clock.step(before, now);
    let back = range(clock).saturating_sub(step);
    if step >= big && back <= little(range(clock)).min(big) {
        return i64::try_from(back).unwrap_or(i64::MAX).saturating_neg();
    }
    i64::try_from(step).unwrap_or(i64::MAX)
}

/// A step back that is not believed to be a whole turn of the clock.
#[derive(Debug)]
struct Fall {
    /// The event behind it.
    seq: u64,
    stamps: (u64, u64),
    /// Ticks, if the clock had gone around.
    step: u64,
}

/// Steps back that would be longer than all the rest, if the clock had gone around: once, or several times in a trace that
/// is short without them. A clock may go around between two steps, so that back is where it began is no smaller stamp;
/// that is a step back where it leads into the time of the trace itself.
fn doubtful(kept: &[Stretch], clock: &Clock) -> Vec<Fall> {
    let range = range(clock);
    let mut rest = kept.iter().fold(0u64, |sum, s| sum.saturating_add_signed(s.elapsed));
    let (mut falls, mut leaps) = (Vec::new(), Vec::new());
    for pair in kept.windows(2) {
        let [a, b] = pair else { continue };
        let stamps = (a.stamps.1, b.stamps.0);
        let step = clock.step(stamps.0, stamps.1);
        let falls_back = match clock.direction {
            Direction::Up => stamps.1 < stamps.0,
            Direction::Down => stamps.1 > stamps.0,
        };
        let fall = Fall { seq: b.seqs.0, stamps, step };
        if falls_back && step >= range >> 3 {
            falls.push(fall);
        } else if step > range >> 1 {
            leaps.push(fall);
        } else {
            rest = rest.saturating_add(step);
        }
    }
    let short = rest;
    let leads_into = |leap: &Fall| leap.step > short && range.saturating_sub(leap.step) <= short;
    let (doubted, believed): (Vec<Fall>, Vec<Fall>) = leaps.into_iter().partition(leads_into);
    rest = believed.iter().fold(rest, |sum, leap| sum.saturating_add(leap.step));
    falls.extend(doubted);
    falls.retain(|fall| fall.step > rest);
    falls.sort_by_key(|fall| fall.seq);
    falls
}

/// Events that no kernel inserts so, whatever their stamps say.
#[derive(Debug, Default)]
pub(super) struct Odd {
    /// Of threads with a priority word that no kernel stores.
    pub events: u64,
    pub first: Option<u64>,
    /// Threads that are not in a registry that has room for them.
    pub strangers: u64,
}

impl Doubts {
    /// Says what does not fit.
    pub fn tell(&self, odd: &Odd, issues: &mut Vec<Issue>) {
        self.tell_slots(odd, issues);
        if let Some(first) = self.falls.first() {
            let message = format!(
                "the time stamps fall back from {:#x} to {:#x}: a damaged stamp, or a clock that was set back or started again; as a whole turn of the clock this one interval of {} ticks would be longer than all others together; its length is not known, and 0 ticks are counted",
                first.stamps.0, first.stamps.1, first.step
            );
            let issue = Issue::new(Code::WrapDoubtful, message);
            issues.push(issue.times(self.falls.len() as u64).at(Place::seq(first.seq)));
        }
        if let Some(seq) = self.backs.first {
            let message = format!(
                "{} time stamps are smaller than the one before, by {} ticks at the most, and no interrupt explains it: the stamps were damaged, or the clock was set back a little",
                self.backs.count, self.backs.most
            );
            let issue = Issue::new(Code::StampsStepBack, message);
            issues.push(issue.times(self.backs.count).at(Place::seq(seq)));
        }
    }

    fn tell_slots(&self, odd: &Odd, issues: &mut Vec<Issue>) {
        let strays = self.strays.iter().fold(0u64, |sum, s| sum.saturating_add(s.count));
        let mut why = Vec::new();
        if let Some(first) = self.strays.first() {
            why.push(format!(
                "the time stamps of {strays} ({:#x} is the first) do not fit those around them, and no time is counted to them",
                first.stamps.0
            ));
        }
        if odd.events > 0 {
            why.push(format!("{} have priority words that no kernel stores", odd.events));
        }
        if odd.strangers > 0 {
            why.push(format!("{} threads are not in the registry, which has room for them", odd.strangers));
        }
        if why.is_empty() {
            return;
        }
        let message = format!(
            "events do not fit the rest: {}; they were written over, or are of an older lap or another capture",
            why.join("; ")
        );
        let seq = self.strays.first().map(|s| s.seqs.0).into_iter().chain(odd.first).min();
        let count = strays.saturating_add(odd.events).max(odd.strangers);
        let issue = Issue::new(Code::SlotsIncoherent, message).times(count);
        issues.push(issue.at(Place { seq, ..Place::default() }));
    }

    fn join(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self.steps.sort_unstable();
        self.strays.extend(other.strays);
        self.strays.sort_by_key(|s| s.seqs);
        self.falls.extend(other.falls);
        self.falls.sort_by_key(|f| f.seq);
        Self {
            big: self.big.min(other.big),
            range: self.range.min(other.range),
            backs: self.backs.join(other.backs),
            ..self
        }
    }

    /// How many steps are not believed.
    pub fn count(&self) -> u64 {
        (self.steps.len() as u64).saturating_add(self.backs.count)
    }

    /// Ticks of a step to an event, which its stamp alone would make `step`.
    #[inline]
    pub fn step(&self, seq: u64, step: u64) -> i64 {
        if step < self.big { i64::try_from(step).unwrap_or(i64::MAX) } else { self.unusual(seq, step) }
    }

    #[cold]
    fn unusual(&self, seq: u64, step: u64) -> i64 {
        let at = self.steps.binary_search_by_key(&seq, |(seq, _)| *seq).ok();
        if let Some((_, counted)) = at.and_then(|at| self.steps.get(at)) {
            return *counted;
        }
        let back = self.range.saturating_sub(step);
        if back <= little(self.range).min(self.big) {
            return i64::try_from(back).unwrap_or(i64::MAX).saturating_neg();
        }
        i64::try_from(step).unwrap_or(i64::MAX)
    }
}
