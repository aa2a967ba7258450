//! THE MODEL: what a trace is, whatever system wrote it. Standard library only.
//!
//! A [`Trace`] keeps the captured bytes and hands events out one by one: small `Copy` values in the order in which
//! they were recorded. It holds no vector of them, so ten million events cost no more memory than their bytes.
//! A format gives it an [`Events`] source that reads its own records.

mod clock;
mod context;
mod event;
mod interner;
mod interrupt;
mod issue;
mod object;

pub use clock::{Clock, Counts, Direction, Known};
pub use context::{Context, ContextId, ContextIndex, ContextKind, Contexts};
pub use event::{DefId, Event, Extra, Words};
pub use interner::Interner;
pub use interrupt::{Interrupts, Mark, Number};
pub use issue::{Issue, Place, Severity, many};
pub use object::{Object, ObjectId, ObjectTable};

use std::ops::ControlFlow;
use std::sync::OnceLock;

use crate::abi::{Addr, Endian, Width};
use crate::code::Code;

/// A decoded trace: what is known about it, its contexts and objects, and its events.
pub struct Trace {
    /// What the trace says of itself.
    pub about: About,
    /// How stamps became ticks.
    pub clock: Clock,
    /// Every context that an event names, interned.
    pub contexts: Contexts,
    /// The object registry.
    pub objects: ObjectTable,
    /// What went wrong, or had to be inferred, while reading.
    pub issues: Vec<Issue>,
    /// The events that begin and end interrupts. Where it has some, events in between carry the interrupt's number.
    pub interrupts: Interrupts,
    /// Sequence numbers, in order, of the events before which others are missing: overwritten, damaged or not read. What
    /// the events before showed of the system may have changed. The beginning of the trace is not among them.
    pub gaps: Vec<u64>,
    source: Box<dyn Events>,
    /// The last event, once somebody looked at all.
    newest: OnceLock<Option<Event>>,
}

/// What a trace says of itself: the `trace` line of JSON, the top of `info`.
#[derive(Debug, Clone)]
pub struct About {
    /// Name of the format: `threadx`, `uia`, `qnx`.
    pub format: &'static str,
    /// Byte order of the target.
    pub endian: Endian,
    /// Width of a stored word (ThreadX `ULONG`).
    pub word: Width,
    /// Width of an address on the target where that is known to differ from the stored word.
    pub pointer: Option<Width>,
    /// Where the trace is on the target; `None` for a file that does not record it.
    pub base: Option<Addr>,
    /// Number of event slots in the buffer.
    pub capacity: u64,
    /// Number of slots of the buffer that the kernel wrote, read or not.
    pub held: u64,
    /// Slots among these that were read and hold none: something cleared them, or overwrote them.
    pub empty: u64,
    /// True once the ring has overwritten its first event.
    pub wrapped: bool,
    /// Sequence number of the event that `ticks` count from.
    pub origin: u64,
    /// Number of cores seen; 1 where the trace names none.
    pub cores: u16,
    /// Where names, layout and the rest came from: label and sentence, for `info`.
    pub facts: Vec<(&'static str, String)>,
}

/// A source of events: implemented by each format over the bytes it captured.
pub trait Events: Send + Sync {
    /// Number of its events.
    fn count(&self) -> u64;

    /// Writes events into `out` starting at the event of this index (0 is the oldest that was read), in recorded
    /// order; returns how many. `state` is the source's own memory between calls of one sequential walk.
    fn fill(&self, index: u64, state: &mut WalkState, out: &mut [Event]) -> usize;

    /// All words of an event whose payload did not fit into it.
    fn spilled(&self, event: &Event) -> &[u64] {
        let _ = event;
        &[]
    }

    /// The string of the target at an address, where it was read with the events.
    fn text(&self, address: Addr) -> Option<&str> {
        let _ = address;
        None
    }

    /// Names of the fields that events of this format have beside those of [`Event`], the same for all of them: keys of
    /// JSON, columns of CSV. A dot puts a field into an object (`module.id`); those of one object follow each other, and
    /// `context.` puts them into the event's context.
    fn extra_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Calls `each` once for every name of [`Events::extra_names`], in that order.
    fn extras(&self, event: &Event, each: &mut dyn FnMut(Extra<'_>)) {
        let _ = (event, each);
    }

    /// What of the extra fields a table shows in front of the arguments: label and text. Hostile: escape before
    /// printing.
    fn asides(&self, event: &Event, each: &mut dyn FnMut(&str, &str)) {
        let _ = (event, each);
    }
}

/// What a sequential walk carries from one event to the next: the clock of each core.
#[derive(Debug, Clone, Default)]
pub struct WalkState {
    /// Ticks and stamp of the last event on each core, by core number.
    pub cores: Vec<CoreClock>,
    /// Index of the event that comes next; a source starts over where the caller's index differs.
    pub next: u64,
    /// Ticks of the last event on any core.
    pub ticks: i64,
    /// The position of the source: number of its block, and of the record in it.
    pub place: (usize, usize),
}

/// The running clock of one core.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreClock {
    /// True once an event of this core has been seen.
    pub seen: bool,
    /// Stored stamp of its last event, masked.
    pub stamp: u64,
    /// Ticks of its last event.
    pub ticks: i64,
}

impl Trace {
    /// Puts the parts together.
    pub fn new(
        about: About,
        clock: Clock,
        contexts: Contexts,
        objects: ObjectTable,
        issues: Vec<Issue>,
        source: Box<dyn Events>,
    ) -> Self {
        Self {
            about,
            clock,
            contexts,
            objects,
            issues,
            interrupts: Interrupts::new(),
            gaps: Vec::new(),
            source,
            newest: OnceLock::new(),
        }
    }

    /// Number of events that were read.
    pub fn len(&self) -> u64 {
        self.source.count()
    }

    /// True where no event was read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events, oldest first.
    pub fn events(&self) -> Walk<'_> {
        self.walk(&self.interrupts)
    }

    /// A walk that numbers these interrupts.
    fn walk<'a>(&'a self, interrupts: &'a [Mark]) -> Walk<'a> {
        Walk {
            trace: self,
            interrupts,
            nest: interrupt::Nest::default(),
            state: WalkState::default(),
            block: vec![Event::default(); BLOCK],
            filled: 0,
            at: 0,
            index: 0,
        }
    }

    /// Shows each event, oldest first, until `each` breaks: as [`Trace::events`], and nothing is copied.
    pub fn visit(&self, each: impl FnMut(&Event) -> ControlFlow<()>) {
        self.events().show(each);
    }

    /// The same without [`Event::isr`]: to number interrupts, those that are open are followed from event to event.
    pub fn visit_unnumbered(&self, each: impl FnMut(&Event) -> ControlFlow<()>) {
        self.walk(&[]).show(each);
    }

    /// Slots that hold events and cannot be read.
    pub fn unread_slots(&self) -> u64 {
        self.issues.iter().filter(|i| i.code == Code::RingUnreadable).fold(0, |sum, i| sum.saturating_add(i.count))
    }

    /// Slots after the newest event that was read, where some cannot be read: the end of the trace is not known. All of those that cannot
    /// be read, where no event was.
    pub fn unread_at_end(&self) -> u64 {
        let unread = self.unread_slots();
        let behind = |newest: Event| self.about.held.checked_sub(newest.seq.checked_add(1)?);
        match self.newest() {
            _ if unread == 0 => 0,
            Some(newest) => behind(newest).unwrap_or(0),
            None => unread,
        }
    }

    /// The last event: the newest.
    pub fn newest(&self) -> Option<Event> {
        // Only a walk from the start gives it its ticks. Each walk to the end leaves it here.
        if let Some(newest) = self.newest.get() {
            return *newest;
        }
        self.visit(|_| ControlFlow::Continue(()));
        self.newest.get().copied().flatten()
    }

    /// The whole payload of an event.
    #[inline]
    pub fn words<'a>(&'a self, event: &'a Event) -> &'a [u64] {
        if event.words.is_spilled() { self.source.spilled(event) } else { event.words.inline() }
    }

    /// The string of the target at an address, where it was read with the events. Hostile: escape before printing.
    pub fn text(&self, address: Addr) -> Option<&str> {
        self.source.text(address)
    }

    /// Names of the fields that only this format's events have; see [`Events::extra_names`].
    pub fn extra_names(&self) -> &'static [&'static str] {
        self.source.extra_names()
    }

    /// The fields that only this format's events have, in the order of their names.
    pub fn extras(&self, event: &Event, mut each: impl FnMut(&'static str, Extra<'_>)) {
        let mut names = self.source.extra_names().iter();
        self.source.extras(event, &mut |value| {
            if let Some(name) = names.next() {
                each(name, value);
            }
        });
        // Whatever a source does, every column has its value.
        names.for_each(|name| each(name, Extra::Null));
    }

    /// What of those fields a table shows in front of the arguments.
    pub fn asides(&self, event: &Event, mut each: impl FnMut(&str, &str)) {
        self.source.asides(event, &mut each);
    }
}

/// Number of events that are decoded at a time.
const BLOCK: usize = 128;

/// A walk over the events of a trace, oldest first.
pub struct Walk<'a> {
    trace: &'a Trace,
    interrupts: &'a [Mark],
    nest: interrupt::Nest,
    state: WalkState,
    block: Vec<Event>,
    filled: usize,
    at: usize,
    index: u64,
}

impl Walk<'_> {
    /// The interrupts that the first events end and do not begin.
    fn begun(&self) -> interrupt::Nest {
        let Self { interrupts, trace: Trace { contexts, .. }, .. } = self;
        let is_isr = |e: &Event| contexts.get(e.context).is_some_and(|c| c.kind == ContextKind::Isr);
        // However large the block is, as far ahead.
        let first = self.block.get(..self.filled.min(BLOCK)).unwrap_or_default();
        interrupt::Nest::begun(first, interrupts, is_isr, |event, number| number.of(self.trace.words(event)))
    }
}

impl Walk<'_> {
    fn show(mut self, mut each: impl FnMut(&Event) -> ControlFlow<()>) {
        while self.next_block() {
            if self.block.iter().take(self.filled).try_for_each(&mut each).is_break() {
                return;
            }
        }
    }

    /// Decodes the next events; false at the end.
    fn next_block(&mut self) -> bool {
        let interrupts = self.interrupts;
        let Trace { contexts, gaps, source, newest, .. } = self.trace;
        let last = self.filled.checked_sub(1);
        self.filled = source.fill(self.index, &mut self.state, &mut self.block);
        if self.index == 0 {
            self.nest = self.begun();
        }
        self.index = self.index.saturating_add(self.filled as u64);
        self.at = 0;
        let marks = interrupt::Marks::of(interrupts);
        let numbered = if interrupts.is_empty() { 0 } else { self.filled };
        for event in self.block.iter_mut().take(numbered) {
            if self.nest.concerns(event, &marks) {
                let is_isr = contexts.get(event.context).is_some_and(|c| c.kind == ContextKind::Isr);
                if gaps.binary_search(&event.seq).is_ok() {
                    self.nest.forget();
                }
                event.isr = self.nest.step(event, is_isr, interrupts, self.trace.words(event));
            }
        }
        if self.filled == 0 && interrupts.len() == self.trace.interrupts.len() {
            // Its interrupt has its number. The block still has the events before.
            newest.get_or_init(|| self.block.get(last?).copied());
        }
        self.filled > 0
    }

    /// The next event where it is: nothing is copied.
    #[inline]
    pub fn advance(&mut self) -> Option<&Event> {
        if self.at >= self.filled && !self.next_block() {
            return None;
        }
        let at = self.at;
        self.at = self.at.saturating_add(1);
        self.block.get(at)
    }
}

impl Iterator for Walk<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        self.advance().copied()
    }
}
