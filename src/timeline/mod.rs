//! THE TIMELINE: who ran, waited and was ready when, as tracks with slices, instants, flows, counters, gaps and marks. One
//! model for all systems and all writers.
//!
//! [`Plan::of`] is the first pass over the events: it finds the tracks and their order, the counters and the marks.
//! [`Plan::play`] is the second: it shows each slice, instant and level to a [`Sink`], which writes it. Memory grows with
//! threads and objects, never with events.
//!
//! Times are ticks of the trace, as in [`Event::ticks`]. A slice is handed on when it is over, so slices of one track come
//! in order and do not overlap, but a long slice of one track comes after short ones of others.

mod levels;
mod plausible;
mod player;
mod tracks;

use std::io;

use crate::abi::Addr;
pub use crate::analysis::tracker::{Ending, WaitOption};
use crate::catalogue::Catalogue;
use crate::explain::Code;
use crate::trace::{Counts, DefId, Event, Trace};
pub use tracks::Plan;

/// Dense number of a track in [`Scene::tracks`], which is also its place on the screen: 0 is the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId(pub u32);

/// Dense number of a counter in [`Scene::counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterId(pub u32);

/// The number of a flow. An [`Instant`] names the flows that begin with it, a [`Slice`] the one that ends where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u64);

impl TrackId {
    /// Its place in a vector by track.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl CounterId {
    /// Its place in a vector by counter.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What a track is about. Tracks are sorted by it: interrupts first, then threads by priority, then the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrackKind {
    /// The interrupts of one core.
    Interrupts,
    /// A thread, on whichever core it runs.
    Thread,
    /// One core while no thread runs.
    Idle,
    /// One core before its scheduler runs.
    Init,
    /// One core while it is not known who has it.
    Unknown,
}

/// One track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// What it is about.
    pub kind: TrackKind,
    /// The core; 0 for a thread.
    pub core: u16,
    /// The thread's control block, as the trace stores the address; 0 for what is no thread.
    pub address: Addr,
    /// The thread's name, where the trace has one. Hostile: escape before printing.
    pub name: Option<String>,
    /// The thread's priority: of its registration, else of its last event.
    pub priority: Option<u16>,
}

/// What a counter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// How much is in an object: messages of a queue, the count of a semaphore, used blocks of a pool. It is the level
    /// that a call found, before it changed anything.
    Filled,
    /// How much is left in an object whose capacity is not known. It is the level that a call found.
    Free,
    /// Bytes of a thread's stack in use, as the stack pointer of an event shows.
    Stack,
}

/// One counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The object, or the thread whose stack it is.
    pub address: Addr,
    /// What it measures.
    pub measure: Measure,
    /// How much it can hold, where that is known.
    pub capacity: Option<u64>,
    /// The definition of the first event that has a level of this object.
    pub def: Option<DefId>,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The call that it blocks in, and its event.
    pub call: Option<(DefId, u64)>,
    /// The object of that call.
    pub object: Option<Addr>,
    /// Who had that lock when the wait began.
    pub owner: Option<TrackId>,
    /// The definition of the event that blocked, and the system's code of what for: the words of the state.
    pub state: (Option<DefId>, Option<u64>),
    /// How long the caller is ready to wait, where the event has that.
    pub option: Option<WaitOption>,
    /// Ticks at which the wait began.
    pub since: i64,
    /// Event with which it began.
    pub seq: u64,
}

/// What a slice shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A thread runs on this core.
    Running(u16),
    /// A thread would run, and an interrupt has its core.
    Interrupted(u16),
    /// A thread could run, and others do.
    Ready,
    /// A thread waits.
    Blocked(Waiting),
    /// An interrupt runs; its number, where one is known.
    Interrupt(Option<u64>),
    /// The core has nothing to do, is before its scheduler, or it is not known who has it: as the track says.
    Other,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Ticks from blocking to being ready.
    pub waited: i64,
    /// Who made the thread ready; `None` where that is not known.
    pub by: Option<TrackId>,
    /// How it ended.
    pub ending: Ending,
}

/// A period of time on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The track.
    pub track: TrackId,
    /// What it shows.
    pub state: State,
    /// Ticks at its start.
    pub from: i64,
    /// Ticks at its end.
    pub to: i64,
    /// The event that shows it begin; `None` where it began before the window, or no event says with what.
    pub begins: Option<u64>,
    /// False where it goes on: after the window, after the end of the trace, or where events are missing nobody knows
    /// for how long.
    pub is_over: bool,
    /// The flow that ends at its start: from whoever woke this thread.
    pub flow: Option<FlowId>,
    /// Of a wait that is over: how it ended.
    pub woken: Option<Woken>,
}

/// An event that the filters keep.
#[derive(Debug, Clone, Copy)]
pub struct Instant<'e> {
    /// The track of who inserted it.
    pub track: TrackId,
    /// The event, with its fields.
    pub event: &'e Event,
    /// The flows that begin with it: to the threads that it wakes.
    pub flows: &'e [FlowId],
}

/// The level of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The counter.
    pub counter: CounterId,
    /// Ticks from which on it holds.
    pub ticks: i64,
    /// Its event.
    pub seq: u64,
    /// The level; `None` where it is unknown from here on.
    pub value: Option<u64>,
}

/// Why time cannot be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Events are missing.
    Lost,
    /// The clock of the event after it is not plausible, or goes back.
    Clock,
}

/// A period of time of which something is not known. No slice is drawn across one where events are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub doubt: Doubt,
    /// Ticks of the last event before it.
    pub from: i64,
    /// Ticks of the first event after it.
    pub to: i64,
    /// The first event after it.
    pub seq: u64,
}

/// What a mark points out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointed {
    /// A thread waits for a lock that a less urgent one has.
    Inversion {
        /// The lock.
        lock: Addr,
        /// The less urgent thread that has it.
        owner: Option<TrackId>,
        /// A third thread, less urgent than the one that waits, that ran longest meanwhile.
        culprit: Option<TrackId>,
    },
    /// Threads wait for each other in a circle: each track waits for this lock of the next one's.
    Circle(Vec<(TrackId, Addr)>),
    /// A finding of `explain`: its code and its claim. Hostile: escape before printing.
    Finding(&'static str, String),
}

/// A period of time, or a moment, that a picture points out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is.
    pub what: Pointed,
    /// The track that it is about; `None` for all.
    pub track: Option<TrackId>,
    /// Ticks at its start.
    pub from: i64,
    /// Ticks at its end: the same for a moment.
    pub to: i64,
    /// The event with which it begins.
    pub seq: Option<u64>,
    /// The event with which it ends.
    pub to_seq: Option<u64>,
    /// The finding of `explain` that it belongs to, by its place among all of them: the marks of one finding have the same.
    pub finding: Option<usize>,
}

/// A finding of `explain` to be marked: what a picture needs of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Its code.
    pub code: Code,
    /// Its claim. Hostile: escape before printing.
    pub claim: String,
    /// The events that it rests on; none marks the newest event.
    pub events: Vec<u64>,
    /// The threads that it is about.
    pub threads: Vec<Addr>,
}

/// What is known before the first slice.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What its ids mean.
    pub catalogue: &'a Catalogue,
    /// The tracks, from the top.
    pub tracks: &'a [Track],
    /// The counters, by address.
    pub counters: &'a [Counter],
    /// Circles of threads and findings by their start, then inversions by theirs.
    pub marks: &'a [Mark],
    /// Ticks of the first event of the window, and of the last. Nothing is outside.
    pub window: (i64, i64),
    /// Sequence numbers of the first event of the window and of the last; `None` where it has none.
    pub events: Option<(u64, u64)>,
    /// How many instants will come.
    pub kept: u64,
}

impl Scene<'_> {
    /// A track.
    pub fn track(&self, id: TrackId) -> Option<&Track> {
        self.tracks.get(id.index())
    }

    /// Ticks in a second, where the clock of the trace counts time and its rate is known. Without it a writer writes
    /// ticks, and says so.
    pub fn hz(&self) -> Option<f64> {
        let clock = &self.trace.clock;
        clock.hz.filter(|hz| *hz > 0.0 && matches!(clock.counts, Counts::Time | Counts::AwakeTime))
    }
}

/// A writer of timelines. Each method gets one thing; a writer leaves out what it has no use for.
///
/// Each returns an error where the writer fails, which ends the pass.
pub trait Sink {
    /// Begins: tracks, counters and marks.
    ///
    /// # Errors
    /// Where the writer fails.
    fn begin(&mut self, scene: &Scene<'_>) -> io::Result<()>;

    /// A slice that is over, or cut at an edge.
    ///
    /// # Errors
    /// Where the writer fails.
    fn slice(&mut self, scene: &Scene<'_>, slice: &Slice) -> io::Result<()>;

    /// An event that the filters keep, in the order of the trace.
    ///
    /// # Errors
    /// Where the writer fails.
    fn instant(&mut self, scene: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()>;

    /// A level of a counter, in the order of the trace.
    ///
    /// # Errors
    /// Where the writer fails.
    fn level(&mut self, scene: &Scene<'_>, level: &Level) -> io::Result<()>;

    /// Time of which something is not known.
    ///
    /// # Errors
    /// Where the writer fails.
    fn gap(&mut self, scene: &Scene<'_>, gap: &Gap) -> io::Result<()>;

    /// Nothing comes any more.
    ///
    /// # Errors
    /// Where the writer fails.
    fn finish(&mut self, scene: &Scene<'_>) -> io::Result<()>;
}
