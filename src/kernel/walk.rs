//! A created list, from its head round to it again: bounded, and suspicious of every pointer.

#![allow(clippy::arithmetic_side_effects, reason = "counts entries of lists that are held in memory")]

use std::collections::HashSet;

use super::layout::{Shape, Struct};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::mem::Memory;

/// The most objects of one list.
pub(super) const MAX: usize = 4096;

/// The most entries that are read in search of a list that points back to its start.
const MAX_VISITS: usize = 4 * MAX;

/// What a list is made of.
pub struct List<'a> {
    /// What a word is.
    pub shape: Shape,
    /// Where members are.
    pub of: &'a Struct,
    /// The word that each control block begins with.
    pub id: u64,
    /// Names of the members: id, next, previous.
    pub members: [&'static str; 3],
    /// Bytes of a control block that are wanted, and those without which nothing goes.
    pub len: [u64; 2],
}

/// One control block.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its address.
    pub address: Addr,
    /// Its bytes; the last of them may be missing.
    pub bytes: Bytes,
}

/// Why a list is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A pointer to where no memory is: from, to.
    Wild(Addr, Addr),
    /// A pointer to what is no such object: from, to, the word that is there instead of the id.
    Stranger(Addr, Addr, u64),
    /// It runs into itself: from, to.
    Loops(Addr, Addr),
    /// It is longer than any list.
    Long,
    /// The source failed.
    Failed(String),
}

impl Broken {
    /// In words; `list` is what it is a list of.
    pub fn sentence(&self, list: &str) -> String {
        let from = |from: &Addr| if *from == 0 { "its head".to_owned() } else { format!("the entry at {from:#x}") };
        match self {
            Self::Wild(at, to) => {
                format!("the list of {list} is broken: {} points to {to:#x}, which is not in this memory", from(at))
            }
            Self::Stranger(at, to, word) => format!(
                "the list of {list} is broken: {} points to {to:#x}, where {word:#x} is found instead of the id of such an object",
                from(at)
            ),
            Self::Loops(at, to) => {
                format!("the list of {list} is broken: {} points back to {to:#x}, which is not its head", from(at))
            }
            Self::Long => format!("the list of {list} does not end within {MAX}"),
            Self::Failed(why) => format!("the list of {list}: {why}"),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// In the order of the list; those after a break, which were found backwards, last.
    pub nodes: Vec<Node>,
    /// How many of them were found only backwards.
    pub recovered: usize,
    /// How many were found only from other pointers to entries.
    pub led: usize,
    /// Why it is not whole; `None` for a list that points back to its start.
    pub broken: Option<Broken>,
    /// Where the backward pointer of what follows the break leads.
    pub behind: Option<Addr>,
    /// Backward pointers that contradict the forward pointers.
    pub bad_back_links: usize,
    /// An entry that was put into the list again while it was in it.
    pub twice: Option<Addr>,
}

impl Walk {
    /// Closed on itself, in both directions, with the given length where one is known.
    pub(super) fn closes(&self, count: Option<u64>) -> bool {
        self.broken.is_none() && self.bad_back_links == 0 && count.is_none_or(|c| c == self.nodes.len() as u64)
    }
}

impl List<'_> {
    /// Follows the list from `head`; 0 is an empty one.
    pub(super) fn walk(&self, memory: &mut dyn Memory, head: Addr) -> Walk {
        if head == 0 { Walk::default() } else { self.walk_by(memory, head, &[]) }
    }

    /// Follows a list that is not empty. What a break keeps apart is looked for from `others` too: addresses at which
    /// there should be entries.
    pub(super) fn walk_by(&self, memory: &mut dyn Memory, head: Addr, others: &[Addr]) -> Walk {
        let mut walk = Walk::default();
        let [_, next, previous] = self.members;
        let mut seen = HashSet::new();
        walk.broken = self.one_way(memory, head, next, &mut walk.nodes, &mut seen);
        let links = |node: &Node, name| self.of.get(&node.bytes, self.shape.endian, name);
        let ring = walk.nodes.iter().zip(walk.nodes.iter().skip(1).chain(walk.nodes.first()));
        let pairs = walk.nodes.len().saturating_sub(usize::from(walk.broken.is_some()));
        let bad = ring.take(pairs).filter(|(a, b)| links(b, previous) != Some(a.address));
        let bad: Vec<(Addr, Addr)> = bad.filter_map(|(_, b)| Some((b.address, links(b, previous)?))).collect();
        walk.bad_back_links = bad.len();
        let last = walk.nodes.first().and_then(|first| links(first, previous));
        // A pointer that leads too far closes the list as well: those that it skips are found backwards.
        let starts = last.filter(|_| walk.broken.is_some() || !bad.is_empty()).map(|last| (0, last));
        // What follows the break can still be reached from the other side.
        for (entry, back) in starts.into_iter().chain(bad) {
            let mut others = Vec::new();
            let _ = self.one_way(memory, back, previous, &mut others, &mut seen);
            let ends = others.first().and_then(|n| links(n, next)).zip(others.last().and_then(|n| links(n, previous)));
            if entry == 0 && walk.broken.is_some() {
                walk.behind = others.last().map_or(Some(back), |n| links(n, previous));
            }
            // It was last, or what followed it leads to it from both sides.
            let is_twice = if back == entry { walk.nodes.len() > 1 } else { ends == Some((entry, entry)) };
            walk.twice = walk.twice.or((is_twice && entry != 0).then_some(entry));
            walk.recovered += others.len();
            others.reverse();
            walk.nodes.append(&mut others);
        }
        if walk.broken.is_some() {
            for start in others {
                if walk.nodes.len() >= MAX {
                    break;
                }
                let found = self.around(memory, *start, &mut seen);
                walk.led += found.len();
                walk.nodes.extend(found);
            }
        }
        walk
    }

    /// Follows a list whose head is not known, from entries of it. `named`: addresses at which there should be entries;
    /// `searched`: words that look like entries, which count only where a list points back to its start.
    pub fn walk_from(&self, memory: &mut dyn Memory, named: &[Addr], searched: &[Addr]) -> Walk {
        let (mut seen, mut visits) = (HashSet::new(), 0usize);
        let mut best = Walk::default();
        let closed = |walk: &Walk| !walk.nodes.is_empty() && walk.closes(None);
        for (start, certain) in named.iter().map(|a| (*a, true)).chain(searched.iter().map(|a| (*a, false))) {
            if start == 0 || seen.contains(&start) || visits > MAX_VISITS {
                continue;
            }
            let walk = self.walk_by(memory, start, &[]);
            visits += walk.nodes.len();
            seen.extend(walk.nodes.iter().map(|n| n.address));
            let good = closed(&walk) || certain;
            if good && (closed(&walk), walk.nodes.len()) > (closed(&best), best.nodes.len()) {
                best = walk;
            }
        }
        match best.nodes.first().filter(|_| !closed(&best)) {
            Some(first) => self.walk_by(memory, first.address, named),
            None => best,
        }
    }

    /// Adds entries that something names, and what hangs together with them, where the list leaves them out. Gives their
    /// number.
    pub(super) fn add_left_out(&self, memory: &mut dyn Memory, walk: &mut Walk, named: &[Addr]) -> usize {
        let mut seen: HashSet<Addr> = walk.nodes.iter().map(|n| n.address).collect();
        let mut added = 0;
        for start in named {
            if walk.nodes.len() >= MAX {
                break;
            }
            let found = self.around(memory, *start, &mut seen);
            added += found.len();
            walk.nodes.extend(found);
        }
        added
    }

    /// What hangs together with the entry at `start`, in the order of the list.
    fn around(&self, memory: &mut dyn Memory, start: Addr, seen: &mut HashSet<Addr>) -> Vec<Node> {
        let [_, next, previous] = self.members;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if start == 0 || seen.contains(&start) {
            return after;
        }
        let _ = self.one_way(memory, start, next, &mut after, seen);
        let back = after.first().and_then(|first| self.of.get(&first.bytes, self.shape.endian, previous));
        if let Some(back) = back {
            let _ = self.one_way(memory, back, previous, &mut before, seen);
        }
        before.reverse();
        before.append(&mut after);
        before
    }

    fn one_way(
        &self,
        memory: &mut dyn Memory,
        head: Addr,
        link: &'static str,
        nodes: &mut Vec<Node>,
        seen: &mut HashSet<Addr>,
    ) -> Option<Broken> {
        let (mut from, mut at) = (0, head);
        loop {
            if !seen.insert(at) {
                return (at != head).then_some(Broken::Loops(from, at));
            }
            if nodes.len() >= MAX {
                return Some(Broken::Long);
            }
            let bytes = match self.read(memory, at) {
                Ok(bytes) => bytes,
                Err(None) => return Some(Broken::Wild(from, at)),
                Err(Some(why)) => return Some(Broken::Failed(why)),
            };
            let [id, ..] = self.members;
            match self.of.get(&bytes, self.shape.endian, id) {
                Some(word) if word == self.id => {}
                word => return Some(Broken::Stranger(from, at, word.unwrap_or(0))),
            }
            let next = self.of.get(&bytes, self.shape.endian, link);
            nodes.push(Node { address: at, bytes });
            from = at;
            at = match next {
                Some(next) => next,
                None => return Some(Broken::Wild(from, 0)),
            };
        }
    }

    /// A control block; without its last members where they are outside of what memory has.
    fn read(&self, memory: &mut dyn Memory, at: Addr) -> Result<Bytes, Option<String>> {
        for len in self.len {
            let Ok(len) = usize::try_from(len) else { continue };
            match memory.read_bytes(at, len) {
                Ok(bytes) => return Ok(bytes),
                Err(e) if e.is_fatal() => return Err(Some(e.to_string())),
                Err(_) => {}
            }
        }
        Err(None)
    }
}
