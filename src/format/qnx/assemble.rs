//! Events of several elements are put together: over the borders of buffers, and through what other processors and
//! interrupts recorded in between.

#![expect(clippy::arithmetic_side_effects, reason = "counts the elements of buffers that it holds")]

use std::collections::HashMap;

use super::super::arena::Arena;
use super::layout::ELEMENT;
use super::parse::{self, Part, RawElement};
use crate::abi::{Addr, Endian};
use crate::bytes::Bytes;
use crate::code::Code;
use crate::trace::{Issue, Place, Severity, many};

/// Elements that are together.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Their bytes.
    pub bytes: Bytes,
    /// Address of the first.
    pub address: Addr,
    /// Number of the first among the slots of the whole.
    pub slot: u64,
    /// True where something is missing in front of it: no event reaches over that.
    pub after_gap: bool,
    /// Number of elements by the buffer's header; `None` where the elements themselves show the end.
    pub count: Option<usize>,
}

/// One event, in as few words as it takes to find it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assembled {
    /// Number of the segment with its first element.
    pub segment: u32,
    /// Number of that element in it.
    pub element: u32,
    /// Its payload in the arena, where that has more than one element.
    pub payload: Option<u32>,
}

/// The events that the elements make, and what could not be used.
#[derive(Debug, Default)]
pub(super) struct Assembly {
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
    /// Numbers of the events before which others are missing.
    pub gaps: Vec<usize>,
}

/// What the parts of one event share: processor, stamp, class and event.
type Key = (u8, u32, u16, u16);

struct Pending {
    segment: u32,
    element: u32,
    words: Vec<u64>,
}

/// Elements that share one problem: how many, and the first.
#[derive(Default)]
struct Problem {
    count: u64,
    first: Option<Addr>,
}

impl Problem {
    fn at(&mut self, address: Addr) {
        self.count += 1;
        self.first = self.first.or(Some(address));
    }
}

#[derive(Default)]
struct Problems {
    leading: u64,
    orphans: Problem,
    incomplete: Problem,
    damaged: Problem,
    empty: Problem,
}

struct Assembler {
    out: Assembly,
    pending: HashMap<Key, Pending>,
    problems: Problems,
}

/// Puts the elements of all segments together, oldest first.
pub(super) fn assemble(segments: &[Segment], endian: Endian) -> Assembly {
    let mut this = Assembler { out: Assembly::default(), pending: HashMap::new(), problems: Problems::default() };
    for (number, segment) in (0..).zip(segments) {
        if segment.after_gap {
            this.close_all();
            this.lose();
        }
        let most = segment.count.unwrap_or(usize::MAX);
        for (element, bytes) in (0..).zip(segment.bytes.chunks_exact(ELEMENT).take(most)) {
            let Ok((_, raw)) = parse::element(bytes, endian) else { break };
            let at = segment.address.wrapping_add(u64::from(element) * ELEMENT as u64);
            if segment.count.is_none() && (raw.is_empty() || !raw.is_sound()) {
                if !raw.is_empty() {
                    this.lose();
                }
                break;
            }
            this.element(&raw, number, element, at);
        }
        if segment.count.is_some_and(|count| segment.bytes.len() / ELEMENT < count) {
            this.lose();
        }
    }
    this.close_all();
    this.report();
    this.out
}

impl Assembler {
    fn element(&mut self, raw: &RawElement, segment: u32, element: u32, at: Addr) {
        if raw.is_empty() {
            self.lose();
            return self.problems.empty.at(at);
        }
        self.out.elements += 1;
        if !raw.is_sound() {
            self.lose();
            return self.problems.damaged.at(at);
        }
        let key = (raw.cpu, raw.stamp, raw.class, raw.event);
        let words = raw.words.map(u64::from);
        match raw.part {
            Part::Simple => self.out.events.push(Assembled { segment, element, payload: None }),
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
        let payload = self.out.arena.push(&pending.words);
        if payload.is_some() {
            let Pending { segment, element, .. } = *pending;
            self.out.events.push(Assembled { segment, element, payload });
        }
    }

    /// Events are missing before the next one. Nothing is known before the first anyway.
    fn lose(&mut self) {
        let next = self.out.events.len();
        if next > 0 && self.out.gaps.last() != Some(&next) {
            self.out.gaps.push(next);
        }
    }

    fn orphan(&mut self, at: Addr) {
        self.lose();
        if self.out.events.is_empty() && self.pending.is_empty() {
            self.problems.leading += 1;
        } else {
            self.problems.orphans.at(at);
        }
    }

    /// An event whose end does not come is shown as far as it goes.
    fn close(&mut self, pending: &Pending, at: Addr) {
        self.problems.incomplete.at(at);
        self.put(pending);
        self.lose();
    }

    fn close_all(&mut self) {
        let mut all: Vec<Pending> = self.pending.drain().map(|(_, p)| p).collect();
        all.sort_by_key(|p| (p.segment, p.element));
        for pending in all {
            self.problems.incomplete.count += 1;
            self.put(&pending);
        }
    }

    fn report(&mut self) {
        let Problems { leading, orphans, incomplete, damaged, empty } = std::mem::take(&mut self.problems);
        self.out.begins_torn = leading > 0;
        if leading > 0 {
            let text = many(leading, "element at the start is", "elements at the start are");
            let text = format!("{text} the end of an event whose beginning is overwritten");
            let issue = Issue::new(Code::OrphanParts, text).severity(Severity::Note);
            self.out.issues.push(issue.times(leading));
        }
        for (problem, code, one, more) in [
            (
                orphans,
                Code::OrphanParts,
                "element is a part of an event whose beginning is missing",
                "elements are parts of events whose beginning is missing",
            ),
            (
                incomplete,
                Code::EventIncomplete,
                "event has no end: it is shown as far as it goes",
                "events have no end: they are shown as far as they go",
            ),
            (
                damaged,
                Code::EventDamaged,
                "element is not an event: bits are set that mean nothing",
                "elements are not events: bits are set that mean nothing",
            ),
            (empty, Code::UnusedSlot, "slot that was counted holds no event", "slots that were counted hold no event"),
        ] {
            if problem.count > 0 {
                let issue = Issue::new(code, many(problem.count, one, more)).severity(Severity::Lost);
                let place = Place { address: problem.first, ..Place::default() };
                self.out.issues.push(issue.times(problem.count).at(place));
            }
        }
    }
}
