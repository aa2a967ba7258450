//! Where a pointer was read from that led to a fault: a variable, or a block of a pool, which may have been released. The code in
//! front of the instruction shows which word it was; it counts where that word still is the pointer.
//!
//! Against it: the same value may be there by chance. Small numbers are at many places: a null pointer counts only where no branch
//! is between the load and the instruction.

use super::super::events::{Freed, Giver};
use super::super::graph::Graph;
use super::super::{Case, Evidence, Finding};
use super::corrupt_pool::blocks;
use super::jump::Way;
use super::writers;
use super::wrong_mask::giver;
use crate::abi::{Addr, Endian, Region};
use crate::cpu::{Code, Read, Registers};
use crate::kernel::{Kind, Object, PoolBlock};
use crate::session::Place;

/// The most bytes of a function in front of the instruction.
const LONGEST: u64 = 1024;
/// A smaller value is no address that somebody stored.
const SMALL: u64 = 0x100;

/// Bytes in front of a word, as far as there is memory, and from it on, that are looked at for text.
const BEFORE: [u64; 4] = [48, 32, 16, 8];
const AFTER: u64 = 16;

/// It.
pub(super) struct Pointer {
    /// In words: `sensors+0x8 (0x20000108)`.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What to look at.
    pub next: String,
}

impl Pointer {
    /// Of the instruction that failed at a place, or of the one that jumped to it.
    pub fn of_place(place: &Place, way: Option<&Way>, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let accesses = || place.effect.is_some_and(|effect| effect.address().is_some());
        let at = match way {
            Some(way) => way.site?,
            None => place.registers.pc().filter(|_| accesses())?,
        };
        Self::of(at, &place.registers, case, graph)
    }

    /// Of the instruction at an address, with the registers in front of it.
    fn of(at: Addr, registers: &Registers, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let at = at & !1;
        let from = case.look.function(at)?.address & !1;
        let len = at.checked_sub(from).filter(|len| *len <= LONGEST)?.checked_add(4)?;
        let code = pieces(from, len, case)?;
        let is_code = |word: Addr| word >= from && word.saturating_sub(from) < LONGEST.saturating_mul(8);
        let word = |word: Addr| {
            let is_safe = case.look.is_stored() || writers::is_in_ram(word) || is_code(word);
            Endian::Little.u32(&case.look.bytes(word, 4).filter(|_| is_safe)?, 0)
        };
        let read = Code { at, registers, from, code: &code, word: &word }.pointer()?;
        (read.is_near || read.value >= SMALL).then(|| Self::read_from(read, case, graph)).flatten()
    }

    /// Adds it to a fault.
    pub fn added_to(self, fault: Finding) -> Finding {
        let claim = format!("{}; the pointer was read from {}", fault.claim, self.words);
        Finding { claim, ..fault }.evidence(self.evidence).next(self.next)
    }

    fn read_from(read: Read, case: &Case<'_>, graph: &Graph) -> Option<Self> {
        let Read { place, value, .. } = read;
        let through = read.base.and_then(|base| case.look.place(base));
        let at = match through {
            Some(name) => format!("{place:#x} (in what {name} points to)"),
            None => format!("{place:#x}"),
        };
        let stack = case.kernel?.threads.iter().find(|thread| thread.holds(place));
        let (words, next) = match (in_pool(place, case, graph), stack) {
            (Some(Held { words, is_free: true }), _) => {
                (format!("{at}, {words}"), format!("look for what uses {place:#x} after its release"))
            }
            (Some(Held { words, .. }), _) => (format!("{at}, {words}"), format!("look for who writes to {place:#x}")),
            (None, Some(thread)) => (
                format!("{at}, in the stack of {}", thread.label()),
                "find out who sets this local variable, or writes past another one".to_owned(),
            ),
            (None, None) => {
                let name = case.look.place(place)?;
                let is_constant = case.cpus.is_some_and(|cpus| cpus.is_read_only(place));
                let next = if is_constant { "look at the initial value of" } else { "look for who writes to" };
                (format!("{name} ({place:#x})"), format!("{next} {name}"))
            }
        };
        let read = Evidence::memory(place, format!("the pointer {value:#x} was read from here")).holds(value);
        let evidence = std::iter::once(read).chain(text_around(place, case)).collect();
        Some(Self { words, evidence, next })
    }
}

/// The text of which a word is a part: a string that was longer than its place.
fn text_around(place: Addr, case: &Case<'_>) -> Option<Evidence> {
    let read =
        |len: u64| Some((place.checked_sub(len)?, case.look.bytes(place.checked_sub(len)?, len.checked_add(AFTER)?)?));
    let (from, bytes) = BEFORE.into_iter().find_map(read)?;
    let (before, after) = bytes.split_at_checked(usize::try_from(place.checked_sub(from)?).ok()?)?;
    let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let (front, back) = (before.iter().rev().take_while(is_text).count(), after.iter().take_while(is_text).count());
    let first = before.len().checked_sub(front)?;
    let text = bytes.get(first..before.len().checked_add(back)?).filter(|_| back >= 4 && front > 0)?;
    let start = from.checked_add(u64::try_from(first).ok()?)?;
    let within = case.look.place(start).map_or_else(String::new, |name| format!(", in {name}"));
    let text = String::from_utf8_lossy(text);
    Some(Evidence::memory(start, format!("the text around it begins here{within}: \"{text}\"")))
}

fn pieces(from: Addr, len: u64, case: &Case<'_>) -> Option<Vec<u8>> {
    let first = len.min(LONGEST);
    let mut code = case.look.bytes(from, first)?;
    if let Some(rest) = len.checked_sub(first).filter(|rest| *rest > 0) {
        code.extend(case.look.bytes(from.checked_add(first)?, rest)?);
    }
    Some(code)
}

/// A word in the memory of a pool.
struct Held {
    words: String,
    is_free: bool,
}

fn in_pool(place: Addr, case: &Case<'_>, graph: &Graph) -> Option<Held> {
    let is_there = |pool: &&Object| {
        let memory = pool.get("start").zip(pool.get("size")).map(|(start, len)| Region { start, len });
        matches!(pool.kind, Kind::BlockPool | Kind::BytePool) && memory.is_some_and(|memory| memory.contains(place))
    };
    let pool = case.kernel?.objects.iter().find(is_there)?;
    let all = blocks(pool, case)?.all;
    let index = all.partition_point(|block| block.start <= place).checked_sub(1)?;
    let block = all.get(index).filter(|block| place.saturating_sub(block.start) < block.len)?;
    Some(Held { words: words(place, block, pool, case, graph), is_free: block.is_free })
}

/// Whose memory it is. `place`: a word in the block.
fn words(place: Addr, block: &PoolBlock, pool: &Object, case: &Case<'_>, graph: &Graph) -> String {
    let which = format!("in a block of {}", case.object(pool.address));
    let memory = case.events.and_then(|events| events.object(pool.address)).map(|one| &one.pool);
    let who = |thread: Addr| giver(Giver::Thread(thread), case, graph);
    let owner = memory.and_then(|memory| memory.live.get(&case.stored(block.start)));
    let owner = owner.filter(|owner| !owner.is_doubtful);
    let freed = memory.and_then(|memory| memory.held(case.stored(place)).map(|(_, freed)| freed));
    let freed = freed.filter(|freed| owner.is_none_or(|owner| freed.seq < owner.seq));
    let before =
        |freed: Freed| format!("{} had it, and {} released it", who(freed.block.thread), giver(freed.by, case, graph));
    match (block.is_free, owner, freed) {
        (true, _, Some(freed)) => format!("{which} that is free: {}", before(freed)),
        (true, _, None) => format!("{which} that is free"),
        (false, Some(owner), Some(freed)) => {
            format!("{which} that {} has; before, {}", who(owner.thread), before(freed))
        }
        (false, Some(owner), None) => format!("{which} that {} has", who(owner.thread)),
        (false, None, _) => which,
    }
}
