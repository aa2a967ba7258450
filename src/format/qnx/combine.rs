//! Events of several elements are put together: over the borders of buffers, and through what other processors and
//! interrupts recorded in between.

use std::collections::HashMap;

use super::layout::ELEMENT;
use super::parse::{self, Part, RawElement};
use crate::abi::{Addr, Endian};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::trace::{Issue, Place, Severity};

/// Mark of an event whose payload lies in its element.
pub const IN_PLACE: u32 = u32::MAX;

/// Elements that lie together.
pub struct Segment {
    /// Their bytes.
    pub bytes: Bytes,
    /// Address of the first.
    pub address: Addr,
    /// Number of the first among the slots of the whole.
    pub slot: u64,
    /// True where something is missing in front of it: no event reaches over that.
    pub after_gap: bool,
    /// Elements that were counted; `None` where they must tell how many they are.
    pub count: Option<usize>,
}

/// One event, in as few words as it takes to find it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assembled {
    /// Number of the segment with its first element.
    pub segment: u32,
    /// Number of that element in it.
    pub element: u32,
    /// Its payload in the arena, or [`IN_PLACE`].
    pub payload: u32,
}

/// Payloads of more than one element.
#[derive(Debug, Default)]
pub struct Arena {
    words: Vec<u64>,
    /// Where each begins, and how many words it has.
    places: Vec<(u32, u32)>,
}

impl Arena {
    /// The words of this payload.
    #[must_use]
    pub fn get(&self, payload: u32) -> &[u64] {
        let place = usize::try_from(payload).ok().and_then(|p| self.places.get(p));
        let words = place.and_then(|(start, len)| {
            let start = usize::try_from(*start).ok()?;
            self.words.get(start..start.checked_add(usize::try_from(*len).ok()?)?)
        });
        words.unwrap_or(&[])
    }

    fn push(&mut self, words: &[u64]) -> Option<u32> {
        let number = u32::try_from(self.places.len()).ok().filter(|n| *n != IN_PLACE)?;
        self.places.push((u32::try_from(self.words.len()).ok()?, u32::try_from(words.len()).ok()?));
        self.words.extend_from_slice(words);
        Some(number)
    }
}

/// What became of the elements.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The events in the order in which they were complete.
    pub events: Vec<Assembled>,
    /// Their longer payloads.
    pub arena: Arena,
    /// What could not be used.
    pub issues: Vec<Issue>,
    /// Elements that hold something.
    pub elements: u64,
    /// True where the first elements are the end of an event whose beginning is overwritten.
    pub begins_torn: bool,
}

/// What the parts of one event share: processor, stamp, class and event.
type Key = (u8, u32, u16, u16);

struct Pending {
    segment: u32,
    element: u32,
    words: Vec<u64>,
}

#[derive(Default)]
struct Counts {
    leading: u64,
    orphans: u64,
    incomplete: u64,
    damaged: u64,
    empty: u64,
    first: [Option<Addr>; 4],
}

const ORPHAN: usize = 0;
const INCOMPLETE: usize = 1;
const DAMAGED: usize = 2;
const EMPTY: usize = 3;

impl Counts {
    fn place(&mut self, what: usize, at: Addr) {
        if let Some(place) = self.first.get_mut(what) {
            *place = place.or(Some(at));
        }
    }
}

struct Assembler {
    out: Assembly,
    pending: HashMap<Key, Pending>,
    counts: Counts,
}

/// Puts the elements of all segments together, oldest first.
#[must_use]
pub fn assemble(segments: &[Segment], endian: Endian) -> Assembly {
    let mut this = Assembler { out: Assembly::default(), pending: HashMap::new(), counts: Counts::default() };
    for (number, segment) in segments.iter().enumerate() {
        let Ok(number) = u32::try_from(number) else { break };
        if segment.after_gap {
            this.close_all();
        }
        let most = segment.count.unwrap_or(usize::MAX);
        for (element, bytes) in segment.bytes.chunks_exact(ELEMENT).take(most).enumerate() {
            let Ok((_, raw)) = parse::element(bytes, endian) else { break };
            let at = segment.address.wrapping_add((element as u64).wrapping_mul(ELEMENT as u64));
            let Ok(element) = u32::try_from(element) else { break };
            if segment.count.is_none() && (raw.is_empty() || !raw.is_sound()) {
                break;
            }
            this.element(&raw, number, element, at);
        }
    }
    this.close_all();
    this.report();
    this.out
}

impl Assembler {
    fn element(&mut self, raw: &RawElement, segment: u32, element: u32, at: Addr) {
        if raw.is_empty() {
            self.counts.empty = self.counts.empty.saturating_add(1);
            return self.counts.place(EMPTY, at);
        }
        self.out.elements = self.out.elements.saturating_add(1);
        if !raw.is_sound() {
            self.counts.damaged = self.counts.damaged.saturating_add(1);
            return self.counts.place(DAMAGED, at);
        }
        let key = (raw.cpu, raw.stamp, raw.class, raw.event);
        let words = raw.words.map(u64::from);
        match raw.part {
            Part::Simple => self.out.events.push(Assembled { segment, element, payload: IN_PLACE }),
            Part::Begin => {
                let begun = Pending { segment, element, words: words.to_vec() };
                if let Some(old) = self.pending.insert(key, begun) {
                    self.close(&old, at);
                }
            }
            Part::Continue => match self.pending.get_mut(&key) {
                Some(pending) => pending.words.extend_from_slice(&words),
                None => self.orphan(at),
            },
            Part::End => match self.pending.remove(&key) {
                Some(mut pending) => {
                    pending.words.extend_from_slice(&words);
                    self.put(&pending);
                }
                None => self.orphan(at),
            },
        }
    }

    fn put(&mut self, pending: &Pending) {
        if let Some(payload) = self.out.arena.push(&pending.words) {
            let Pending { segment, element, .. } = *pending;
            self.out.events.push(Assembled { segment, element, payload });
        }
    }

    fn orphan(&mut self, at: Addr) {
        if self.out.events.is_empty() && self.pending.is_empty() {
            self.counts.leading = self.counts.leading.saturating_add(1);
        } else {
            self.counts.orphans = self.counts.orphans.saturating_add(1);
            self.counts.place(ORPHAN, at);
        }
    }

    /// An event whose end does not come is shown as far as it goes.
    fn close(&mut self, pending: &Pending, at: Addr) {
        self.counts.incomplete = self.counts.incomplete.saturating_add(1);
        self.counts.place(INCOMPLETE, at);
        self.put(pending);
    }

    fn close_all(&mut self) {
        let mut all: Vec<Pending> = self.pending.drain().map(|(_, p)| p).collect();
        all.sort_by_key(|p| (p.segment, p.element));
        for pending in all {
            self.counts.incomplete = self.counts.incomplete.saturating_add(1);
            self.put(&pending);
        }
    }

    fn report(&mut self) {
        let Counts { leading, orphans, incomplete, damaged, empty, first } = self.counts;
        self.out.begins_torn = leading > 0;
        let mut say = |count: u64, code, severity, what: &str, place: Option<Addr>| {
            if count > 0 {
                let issue = Issue::new(code, format!("{count} {what}")).severity(severity).times(count);
                self.out.issues.push(issue.at(Place { address: place, ..Place::default() }));
            }
        };
        let [orphan, torn, broken, unused] = first;
        say(
            leading,
            Code::OrphanParts,
            Severity::Note,
            "elements at the start are the end of an event whose beginning is overwritten",
            None,
        );
        say(orphans, Code::OrphanParts, Severity::Lost, "elements belong to events whose beginning is missing", orphan);
        say(
            incomplete,
            Code::EventIncomplete,
            Severity::Lost,
            "events have no end: they are shown as far as they go",
            torn,
        );
        say(
            damaged,
            Code::EventDamaged,
            Severity::Lost,
            "elements are no events: bits are set that mean nothing",
            broken,
        );
        say(empty, Code::UnusedSlot, Severity::Lost, "slots that were counted hold no event", unused);
    }
}
