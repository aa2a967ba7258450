//! New events as they come: reads a trace again and again, and returns what was inserted since the last time.
//!
//! No event is shown that may be torn, none twice, and lost events are counted as exactly as the ring shows. The
//! format reads ([`crate::format::Follow`]); this room keeps the state between two reads: the place, the numbers of
//! events and contexts, the time, and the pace.

mod interval;
mod link;
mod number;
mod pace;
mod saved;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub use interval::Interval;
pub use link::{Halts, How};
pub use pace::Pace;
pub use saved::Saved;

use crate::catalogue::{Catalogue, Names};
use crate::code::{Code, Severity};
use crate::error::Error;
use crate::format::{self, DecodeOptions, Extent, Follow, Lost};
use crate::rsp::transport::{deadline_in, remaining};
use crate::rsp::{Client, Stop};
use crate::session::{INTERRUPT, Loaded, Target};
use crate::trace::{ContextKind, Event, Issue, Known, Place, Trace};

use number::Numbers;

/// Events that are read first, to detect the clock.
const SAMPLE: u64 = 256;
/// From so many events on a clock that steps by one each time is taken for a count of events.
const COUNTED: u64 = 9;
/// The most threads without a name that are remembered as such.
const NAMELESS: usize = 256;

/// What to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// What comes from now on.
    Now,
    /// So many that are there already.
    Newest(u64),
    /// All that is there already.
    All,
}

/// What was inserted since the last read.
pub struct Update {
    /// The trace that the events are of. Its contexts keep their numbers from read to read.
    pub trace: Trace,
    /// The new events, numbered on from the ones before.
    pub events: Vec<Event>,
    /// What is missing before the first of them.
    pub gap: Option<Gap>,
    /// Names may be others than before.
    pub renamed: bool,
    /// More is there already.
    pub more: bool,
}

impl Update {
    /// Events without a gap before them.
    const fn of(trace: Trace, events: Vec<Event>) -> Self {
        Self { trace, events, gap: None, renamed: false, more: false }
    }
}

/// Something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// How many events; 0 where that is not known.
    pub lost: Lost,
    /// The trace was enabled again: the target was reset.
    pub restarted: bool,
    /// The number of the first event after it.
    pub seq: u64,
}

impl Gap {
    /// This gap and a later one as one.
    #[must_use]
    pub const fn and(self, later: &Self) -> Self {
        let lost = Lost {
            count: self.lost.count.saturating_add(later.lost.count),
            at_least: self.lost.at_least || later.lost.at_least,
        };
        Self { lost, restarted: self.restarted || later.restarted, seq: self.seq }
    }

    /// The issue that reports it.
    pub fn issue(&self) -> Issue {
        let Self { lost, restarted, seq } = *self;
        let issue = if restarted {
            Issue::new(
                Code::TraceRestarted,
                "the trace was enabled again, as after a reset: what was inserted before that and not yet shown is lost",
            )
        } else {
            let at_least = if lost.at_least { "at least " } else { "" };
            let (s, were) = if lost.count == 1 { ("", "was") } else { ("s", "were") };
            let text = format!("{at_least}{} event{s} {were} overwritten before they could be read", lost.count);
            Issue::new(Code::EventsLost, text)
        };
        issue.times(lost.count.max(1)).at(Place::seq(seq))
    }
}

/// Why a wait is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// It is time to read.
    Read,
    /// It is not time to read yet.
    Early,
    /// The target does not run any more.
    Stopped(Stop),
}

/// Follows one trace.
pub struct Follower {
    target: Target<'static>,
    names: Names,
    options: DecodeOptions,
    catalogue: Catalogue,
    cursor: Box<dyn Follow>,
    numbers: Numbers,
    how: How,
    halts: Halts,
    pace: Pace,
    /// When to read again, while that is waited for.
    next_read: Option<Instant>,
    /// How many slots after the cursor were held back by the read before.
    seen: u64,
    /// Events that wait for words that the kernel fills in late, and the cursor after them.
    held: Option<(Update, Box<dyn Follow>)>,
    /// Each event moves the clock by one.
    counts: bool,
    /// Threads that the registry does not name.
    nameless: Vec<u64>,
}

/// Lets the target run for a while, as between two reads: its trace may be enabled then.
///
/// # Errors
/// [`Error`] where the link fails, or the target ends.
pub fn let_run(target: &mut Target<'_>, how: How, pause: Duration, halts: &mut Halts) -> Result<(), Error> {
    link::start(target, how)?;
    let stop = match link::wait(target, how, pause, halts)? {
        None => link::halt(target, how)?,
        stop => stop,
    };
    match stop {
        None => Ok(()),
        Some(_) => Err(Error::failed(Code::CannotFollow, "the target stopped by itself", "let it run")),
    }
}

impl Follower {
    /// Begins to follow. What was there already, as far as `first` asks for it, comes with the follower.
    ///
    /// # Errors
    /// [`Error`] where there is no trace, or it cannot be followed.
    pub fn begin(
        mut target: Target<'static>,
        how: How,
        names: Names,
        options: DecodeOptions,
        first: First,
    ) -> Result<(Self, Update), (Box<Target<'static>>, Error)> {
        let extent = match first {
            First::Now => Extent::Newest(SAMPLE),
            First::Newest(n) => Extent::Newest(n.max(SAMPLE)),
            First::All => Extent::All,
        };
        let begun = link::start(&mut target, how).and_then(|()| target.begin(extent, names, &options));
        let (loaded, cursor) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err((Box::new(target), error)),
        };
        let Some(cursor) = cursor else {
            return Err((Box::new(target), cannot(&loaded)));
        };
        let Loaded { trace, catalogue, .. } = loaded;
        let events: Vec<Event> = trace.events().collect();
        let mut this = Self {
            target,
            names,
            options,
            catalogue,
            pace: Pace::new(cursor.capacity()),
            cursor,
            numbers: Numbers::default(),
            how,
            halts: Halts::default(),
            next_read: None,
            seen: 0,
            held: None,
            counts: counts(&events),
            nameless: Vec::new(),
        };
        this.learn(&trace, events.len() as u64);
        let shown = match first {
            First::Now => 0,
            First::Newest(n) => usize::try_from(n).unwrap_or(usize::MAX),
            First::All => usize::MAX,
        };
        let update = this.numbers.first(trace, events, shown);
        Ok((this, update))
    }

    /// Goes on from a place that was saved. The whole ring is not looked at: clock and names are.
    ///
    /// # Errors
    /// As [`Follower::begin`].
    pub fn resume(
        target: Target<'static>,
        names: Names,
        options: DecodeOptions,
        saved: &Saved,
    ) -> Result<(Self, Update), (Box<Target<'static>>, Error)> {
        let (mut this, update) = Self::begin(target, How::Held, names, options, First::Now)?;
        saved.put(this.cursor.as_mut(), &mut this.numbers);
        Ok((this, update))
    }

    /// The place that it has reached, to go on from in another run.
    pub fn save(&self) -> Saved {
        Saved::of(self.cursor.as_ref(), &self.numbers)
    }

    /// What ids mean.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Names and addresses, and the source.
    pub const fn target(&self) -> &Target<'static> {
        &self.target
    }

    /// How long the target was halted by us, without a halt that has not ended.
    pub const fn halts(&self) -> &Halts {
        &self.halts
    }

    /// Counts on from these halts.
    pub const fn add_to(&mut self, halts: Halts) {
        self.halts = halts;
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// [`Error`] where the trace cannot be read, or is another one.
    pub fn poll(&mut self) -> Result<Update, Error> {
        let mut batch = self.target.read_new(self.cursor.as_ref(), false)?;
        let has_gap = batch.lost.count > 0 || batch.restarted;
        // What was read and held back is shown first, and the gap after it.
        if let Some(update) = if has_gap { self.rest() } else { None } {
            return Ok(Update { more: true, ..update });
        }
        self.held = None;
        let mut trace = self.target.decode(&batch, &mut self.catalogue, &self.options)?;
        let renamed = self.wants_names(&trace, batch.known);
        if renamed {
            batch = self.target.read_new(self.cursor.as_ref(), true)?;
            trace = self.target.decode(&batch, &mut self.catalogue, &self.options)?;
            self.remember_nameless(&trace);
        }
        self.learn(&trace, trace.len());
        let slots = trace.about.held.saturating_sub(batch.known);
        self.pace.saw(slots, batch.lost.count > 0);
        let (known, events): (Vec<Event>, Vec<Event>) = trace.events().partition(|e| e.seq < batch.known);
        let mut lost = batch.lost;
        if self.counts && lost.at_least && !batch.restarted {
            lost = self.numbers.exactly(lost, &trace.clock, events.first());
        }
        let gap = (lost.count > 0 || batch.restarted).then_some((lost, batch.restarted));
        let update = self.numbers.number(trace, events, batch.known, known.last().copied(), gap);
        let mut update = Update { renamed: renamed || update.renamed, more: batch.more, ..update };
        let shown = self.hold_late(&mut update, batch.next, slots);
        self.numbers.advance(&update, shown);
        Ok(update)
    }

    /// Holds events back, from the first on whose words the kernel fills in late. None is held back twice, nor where the
    /// ring fills fast. `after` is the place after all of the `slots` that were read; returns how many of them stay.
    fn hold_late(&mut self, update: &mut Update, after: Box<dyn Follow>, slots: u64) -> u64 {
        let (base, seen) = (self.numbers.seq, std::mem::take(&mut self.seen));
        let fast = update.more || self.how == How::Held || slots > self.cursor.capacity() / 8;
        // Numbers go on from `base`, one for each of the `slots`.
        let slot = |e: &Event| e.seq.saturating_sub(base);
        let is_late = |e: &Event| !fast && e.doubtful != 0 && slot(e) >= seen;
        let first = update.events.iter().position(is_late);
        let late = first.and_then(|index| {
            let shown = slot(update.events.get(index)?);
            let held = slots.checked_sub(shown)?;
            Some((index, shown, held, after.back(held)?))
        });
        let Some((index, shown, held, cursor)) = late else {
            self.cursor = after;
            return slots;
        };
        let events = update.events.split_off(index);
        self.held = Some((Update::of(interval::shell(&update.trace), events), after));
        self.seen = held;
        self.cursor = cursor;
        shown
    }

    /// The events that are held back: nothing more is read.
    pub fn rest(&mut self) -> Option<Update> {
        let (update, cursor) = self.held.take()?;
        self.cursor = cursor;
        self.seen = 0;
        self.numbers.emit(&update);
        Some(update)
    }

    /// True where an event names an object that the registry, as it was read before, does not.
    fn wants_names(&self, trace: &Trace, known: u64) -> bool {
        use crate::catalogue::Effect;
        trace.events().filter(|e| e.seq >= known).any(|e| {
            let def = e.def.and_then(|d| self.catalogue.def(d));
            let makes = def.is_some_and(|d| d.effects.has(Effect::Create) || d.effects.has(Effect::Delete));
            let unregistered = trace.contexts.get(e.context).is_some_and(|c| {
                c.kind == ContextKind::Thread && c.name.is_none() && !self.nameless.contains(&c.address)
            });
            makes || unregistered
        })
    }

    fn remember_nameless(&mut self, trace: &Trace) {
        for (_, context) in trace.contexts.iter() {
            if context.kind == ContextKind::Thread
                && context.name.is_none()
                && !self.nameless.contains(&context.address)
            {
                if self.nameless.len() >= NAMELESS {
                    self.nameless.clear();
                }
                self.nameless.push(context.address);
            }
        }
    }

    /// What the stamps of many events show of the clock holds for the few of one batch.
    fn learn(&mut self, trace: &Trace, events: u64) {
        let clock = &trace.clock;
        if self.options.direction.is_none() && clock.direction_known == Known::Detected && events >= COUNTED {
            self.options.direction = Some(clock.direction);
            self.options.period = self.options.period.or(clock.period);
            self.options.hz = self.options.hz.or(clock.hz);
        }
    }

    /// Reads the whole trace again: it is another one than before, and all of it is new.
    ///
    /// # Errors
    /// [`Error`] where there is none yet.
    pub fn restart(&mut self) -> Result<Update, Error> {
        let (loaded, cursor) = self.target.begin(Extent::All, self.names, &self.options)?;
        let Some(cursor) = cursor else { return Err(cannot(&loaded)) };
        let trace = loaded.trace;
        // What damage left of the trace that was followed is not another trace: its events would be shown twice.
        if trace.issues.iter().any(|issue| issue.code == Code::HeaderMended) {
            return Err(Error::not_found(
                Code::TraceChanged,
                "the trace header was overwritten",
                "`list` shows what is left of the trace; the target needs a reset",
            ));
        }
        let events: Vec<Event> = trace.events().collect();
        let slots = trace.about.held;
        self.held = None;
        self.seen = 0;
        self.nameless.clear();
        self.cursor = cursor;
        self.pace = Pace::new(self.cursor.capacity());
        let mut update = self.numbers.number(trace, events, 0, None, Some((Lost::default(), true)));
        update.renamed = true;
        self.numbers.advance(&update, slots);
        Ok(update)
    }

    /// Reads a trace that was gone: it is there again, as it was or as another one.
    ///
    /// # Errors
    /// [`Error`] where it is not.
    pub fn again(&mut self) -> Result<Update, Error> {
        let error = match self.poll() {
            Err(error) if error.is_not_found() => error,
            other => return other,
        };
        // Where the kernel's pointer leads elsewhere now, it is another trace. A zero may be a read that failed.
        self.target.forget();
        let header = self.target.locate()?.1.header;
        let elsewhere = self.cursor.header() != header;
        if error.code == Code::TraceChanged || elsewhere { self.restart() } else { Err(error) }
    }

    /// Connects to the target again after the link was lost. The place stays, so that events lost meanwhile are counted.
    ///
    /// # Errors
    /// [`Error`] where it is not there.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        self.target.reconnect()?;
        link::start(&mut self.target, self.how)
    }

    /// Where the target is halted for each read: lets it run until the next one.
    ///
    /// # Errors
    /// [`Error`] where the link fails.
    pub fn let_run(&mut self) -> Result<(), Error> {
        link::let_run(&mut self.target, self.how, &mut self.halts)
    }

    /// Lets the target run for a while: a trace that is gone may come again.
    ///
    /// # Errors
    /// [`Error`] where the link fails, or the target ends.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Error> {
        let_run(&mut self.target, self.how, time, &mut self.halts)
    }

    /// Waits until it is time to read again, or for `most`; where the target is halted for each read it runs meanwhile.
    ///
    /// # Errors
    /// [`Error`] where the link fails.
    pub fn wait(&mut self, most: Option<Duration>) -> Result<Waited, Error> {
        let pause = match self.how {
            How::Halting(every) => every,
            How::Running | How::Held => self.pace.pause(),
        };
        let left = remaining(*self.next_read.get_or_insert_with(|| deadline_in(pause)));
        let early = most.filter(|most| *most < left);
        let stop = link::wait(&mut self.target, self.how, early.unwrap_or(left), &mut self.halts)?;
        if stop.is_none() && early.is_some() {
            return Ok(Waited::Early);
        }
        self.next_read = None;
        Ok(match stop {
            Some(stop) => Waited::Stopped(stop),
            None => match link::halt(&mut self.target, self.how)? {
                Some(stop) => Waited::Stopped(stop),
                None => Waited::Read,
            },
        })
    }

    /// Gives the client back, to leave the target: nothing more is read.
    pub fn release(&mut self) -> Option<Client> {
        self.target.disconnect()
    }
}

/// True once Ctrl-C was pressed.
pub fn interrupted() -> bool {
    INTERRUPT.load(Ordering::Relaxed)
}

/// Sleeps until the time is over or Ctrl-C is pressed.
pub fn pause(time: Duration) {
    const SLICE: Duration = Duration::from_millis(50);
    let deadline = deadline_in(time);
    while !remaining(deadline).is_zero() && !interrupted() {
        std::thread::sleep(remaining(deadline).min(SLICE));
    }
}

/// True for a clock that counts events: it shows how many are missing.
fn counts(events: &[Event]) -> bool {
    let mut steps = events.iter().skip(1);
    events.len() as u64 >= COUNTED && steps.all(|e| e.delta == Some(1))
}

fn cannot(loaded: &Loaded) -> Error {
    let format = loaded.trace.about.format;
    let can = format::ALL.iter().any(|known| known.name() == format && known.can_be_followed());
    let damage = loaded.trace.issues.iter().find(|issue| issue.severity != Severity::Note);
    let why = match damage {
        Some(issue) if can => format!("this {format} trace cannot be followed: {}", issue.message),
        None if can => format!("this {format} trace cannot be followed: where its next event comes is not known"),
        _ => format!(
            "a {format} trace cannot be followed: nothing in its buffer shows which records are complete while it is written"
        ),
    };
    Error::failed(Code::CannotFollow, why, "halt the target, and read it with `last` or `list`")
}
