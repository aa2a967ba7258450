//! Blocks of a pool that are in use though no pointer to them is left in memory: nobody can release them. It looks at each word
//! of the memory that the program writes, as garbage collectors do that know no types. Words that are over do not count: stacks
//! below their pointers, messages of queues that were taken, and the trace.
//!
//! A word that looks like a pointer by chance only makes fewer blocks lost. It is not known where a part of the program's
//! memory was not saved, or is only at a target over a link.
//!
//! Against it: a device may have the address (DMA), or the program has an index in place of a pointer.

use std::collections::{BTreeMap, BTreeSet};

use super::super::look::is_zero;
use super::super::{Case, Evidence};
use super::corrupt_pool::blocks_in_use;
use crate::abi::{Addr, Region};
use crate::cpu::Registers;
use crate::kernel::{Kind, Object, PoolBlock};
use crate::trace::many;

/// The fewest blocks of a leak.
const FEWEST: usize = 3;
/// The most bytes of stacks that are looked at, of all threads together.
const STACKS: u64 = 1 << 20;
/// Bytes that are read at once.
const PIECE: u64 = 512;
/// Where the events of a trace begin and end.
const RING: [&str; 2] = ["_tx_trace_buffer_start_ptr", "_tx_trace_buffer_end_ptr"];

/// Them.
pub(super) struct Lost {
    /// In words: `7 of the 8 blocks in use have no pointer to them left in memory`.
    pub words: String,
    /// Where words that are over show who had them.
    pub evidence: Vec<Evidence>,
}

/// Memory whose words are over.
pub(super) struct Old {
    region: Region,
    /// Whose it was, in words.
    of: Option<(Addr, String)>,
}

/// Those of a pool, where they are most of the blocks in use.
pub(super) fn of(pool: &Object, case: &Case<'_>) -> Option<Lost> {
    at_least(|used| used.saturating_sub(used / 4), pool, case)
}

/// The same, where they are at least half of them: a sign of a leak only where the code has a path for it.
pub(super) fn half(pool: &Object, case: &Case<'_>) -> Option<Lost> {
    at_least(|used| used.div_ceil(2), pool, case)
}

/// The same, where they are at least a quarter: a sign only of a pool that is used up otherwise.
pub(super) fn quarter(pool: &Object, case: &Case<'_>) -> Option<Lost> {
    at_least(|used| used.div_ceil(4), pool, case)
}

/// Where they are so many of the blocks in use.
fn at_least(fewest: impl Fn(usize) -> usize, pool: &Object, case: &Case<'_>) -> Option<Lost> {
    if !case.look.is_stored() || case.trust.other_build {
        return None;
    }
    let used = blocks_in_use(pool, case)?;
    let old = old(case)?;
    let pool = Region { start: pool.get("start")?, len: pool.get("size")? };
    let mut is_known = vec![false; used.len()];
    let mut within: Vec<(usize, usize)> = Vec::new();
    let mut seen: BTreeMap<Addr, (String, Vec<usize>)> = BTreeMap::new();
    for word in case.cpus?.all.iter().flat_map(|cpu| in_registers(&cpu.registers)) {
        is_known.iter_mut().skip(holding(word, &used).unwrap_or(usize::MAX)).take(1).for_each(|known| *known = true);
    }
    each_pointer(&used, case, &mut |at, block| match find_old(at, &old) {
        // What a lost block holds may be as old as the block: it counts where a pointer leads to that one.
        None if pool.contains(at) => within.extend(holding(at, &used).map(|from| (from, block))),
        None => is_known.iter_mut().skip(block).take(1).for_each(|known| *known = true),
        Some(Old { of: Some((whose, text)), .. }) => {
            seen.entry(*whose).or_insert_with(|| (text.clone(), Vec::new())).1.push(block);
        }
        Some(_) => {}
    })?;
    reach(&mut is_known, &within);
    let is_lost = |block: usize| is_known.get(block) == Some(&false);
    let lost = is_known.iter().filter(|known| !**known).count();
    if lost < FEWEST || lost < fewest(used.len()) {
        return None;
    }
    let evidence = seen.into_iter().filter_map(|(whose, (text, mut blocks))| {
        blocks.sort_unstable();
        blocks.dedup();
        let count = blocks.into_iter().filter(|block| is_lost(*block)).count();
        (count > 0).then(|| Evidence::memory(whose, format!("{text} still {} of {count} of them", pointers(count))))
    });
    let words = if lost == used.len() {
        format!("no pointer to any of its {} in use is left in memory", many_blocks(lost))
    } else {
        format!("{lost} of its {} in use have no pointer to them left in memory", many_blocks(used.len()))
    };
    Some(Lost { words, evidence: evidence.collect() })
}

/// Each word of the memory that the program writes that leads to a block, and which one it is. `None` where a part of that memory
/// cannot be read.
pub(super) fn each_pointer(used: &[PoolBlock], case: &Case<'_>, each: &mut dyn FnMut(Addr, usize)) -> Option<()> {
    case.cpus?.written()?.into_iter().try_for_each(|region| {
        words(region, case, &mut |at, word| holding(word, used).into_iter().for_each(|block| each(at, block)))
    })
}

/// The blocks of a pool, by their first bytes, whose addresses are on the stacks of threads, which may use them.
pub(super) fn on_stacks(pool: &Object, case: &Case<'_>) -> BTreeSet<Addr> {
    // At a target each word is a packet.
    let Some(used) = blocks_in_use(pool, case).filter(|_| case.look.is_stored()) else { return BTreeSet::new() };
    let (mut all, mut left) = (BTreeSet::new(), STACKS);
    for thread in case.kernel.into_iter().flat_map(|kernel| &kernel.threads) {
        let pointer = thread.stack.pointer.filter(|sp| thread.stack.holds(*sp));
        let Some((start, end)) = pointer.zip(thread.stack.end()) else { continue };
        let region = Region { start, len: end.saturating_sub(start).min(left) };
        left = left.saturating_sub(region.len);
        // What could not be read of a stack shows no block.
        let _ = words(region, case, &mut |_, word| {
            all.extend(holding(word, &used).and_then(|block| used.get(block)).map(|block| block.start));
        });
    }
    all
}

/// Marks the blocks to which those that are known lead.
fn reach(is_known: &mut [bool], within: &[(usize, usize)]) {
    let mut by: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    within.iter().for_each(|(from, to)| by.entry(*from).or_default().push(*to));
    let mut next: Vec<usize> = (0..is_known.len()).filter(|block| is_known.get(*block) == Some(&true)).collect();
    while let Some(from) = next.pop() {
        for to in by.remove(&from).unwrap_or_default() {
            if let Some(known) = is_known.get_mut(to).filter(|known| !**known) {
                *known = true;
                next.push(to);
            }
        }
    }
}

const fn pointers(count: usize) -> &'static str {
    if count == 1 { "hold the address" } else { "hold the addresses" }
}

fn many_blocks(count: usize) -> String {
    many(u64::try_from(count).unwrap_or(u64::MAX), "block", "blocks")
}

/// What registers hold.
pub(super) fn in_registers(registers: &Registers) -> impl Iterator<Item = u64> + '_ {
    registers.architecture().registers().iter().filter_map(|register| registers.get(register.name))
}

/// The block that holds an address.
pub(super) fn holding(at: Addr, used: &[PoolBlock]) -> Option<usize> {
    let index = used.partition_point(|block| block.start <= at).checked_sub(1)?;
    let block = used.get(index)?;
    (at.checked_sub(block.start)? < block.len).then_some(index)
}

/// The word at each address of a region, also where it is not aligned: structs may be packed. Where all is 0 there is none. `None`
/// where a part of it cannot be read.
pub(super) fn words(region: Region, case: &Case<'_>, each: &mut dyn FnMut(Addr, u64)) -> Option<()> {
    let shape = case.kernel?.layout.shape;
    // The words at the last bytes that are read at once go on behind them.
    let step = PIECE.checked_sub(case.width().checked_sub(1)?)?;
    for piece in 0..region.len.div_ceil(step) {
        let into = piece.checked_mul(step)?;
        let (from, left) = (region.start.checked_add(into)?, region.len.checked_sub(into)?);
        let bytes = case.look.within(region, from, usize::try_from(left.min(PIECE)).ok()?)?;
        if is_zero(&bytes) {
            continue;
        }
        let places = (0..usize::try_from(step).ok()?).zip(from..);
        let words = places.map_while(|(n, at)| Some((at, shape.endian.word(shape.pointer, &bytes, n)?)));
        words.for_each(|(at, word)| each(at, word));
    }
    Some(())
}

/// True for a word that is not used any more. `old`: sorted by address.
pub(super) fn is_old(at: Addr, old: &[Old]) -> bool {
    find_old(at, old).is_some()
}

/// The region that begins last in front of an address. Where several overlap, as in a damaged dump, a word may be taken for one
/// that is still used.
fn find_old(at: Addr, old: &[Old]) -> Option<&Old> {
    let index = old.partition_point(|old| old.region.start <= at).checked_sub(1)?;
    old.get(index).filter(|old| old.region.contains(at))
}

/// Memory whose words are not used any more, sorted by address: `None` where the trace is not where it should be.
pub(super) fn old(case: &Case<'_>) -> Option<Vec<Old>> {
    let kernel = case.kernel?;
    let below = kernel.threads.iter().filter_map(|thread| {
        let (start, end) = (thread.stack.start?, thread.stack.end()?);
        let is_over = matches!(thread.state, Some(crate::kernel::State(1 | 2)));
        let until = if is_over { Some(end) } else { thread.stack.pointer.filter(|sp| thread.stack.holds(*sp)) };
        let text = format!("words below the stack pointer of {}", thread.label());
        Some(Old { region: Region { start, len: until?.checked_sub(start)? }, of: Some((thread.address, text)) })
    });
    let queues = kernel.objects.iter().filter(|object| object.kind == Kind::Queue && object.get("enqueued") == Some(0));
    let taken = queues.filter_map(|queue| {
        let word = kernel.layout.shape.word.bytes() as u64;
        let len = queue.get("capacity")?.checked_mul(queue.get("message_size")?)?.checked_mul(word)?;
        let text = format!("messages of {} that were taken", case.object(queue.address));
        Some(Old { region: Region { start: queue.get("start")?, len }, of: Some((queue.address, text)) })
    });
    let ring = RING.map(|name| {
        let symbol = case.look.symbol(name)?;
        case.words(&case.look.bytes(symbol.address, case.width())?, true).first().copied()
    });
    let ring = ring_of(ring)?.map(|region| Old { region, of: None });
    let mut all: Vec<Old> = below.chain(taken).chain(ring).filter(|old| old.region.len > 0).collect();
    all.sort_unstable_by_key(|old| old.region.start);
    Some(all)
}

/// The events of a trace, by where they begin and end: none of a program without a trace, and of one that has not begun it. `None`
/// where that is not as it should be.
fn ring_of(ends: [Option<Addr>; 2]) -> Option<Option<Region>> {
    match ends {
        [Some(start), Some(end)] if start < end => Some(Some(Region { start, len: end.checked_sub(start)? })),
        [None, None] | [Some(0), Some(0)] => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a program whose trace was built in and not begun no pointer was found.
    #[test]
    fn a_trace_that_was_not_begun_was_one_that_is_damaged() {
        assert_eq!(ring_of([Some(0), Some(0)]), Some(None));
        assert_eq!(ring_of([None, None]), Some(None));
        assert_eq!(ring_of([Some(0x100), Some(0x180)]), Some(Some(Region { start: 0x100, len: 0x80 })));
        assert_eq!((ring_of([Some(0x100), Some(0)]), ring_of([None, Some(0x100)])), (None, None));
    }

    #[test]
    fn a_list_is_known_by_its_first_block_and_what_is_in_a_lost_block_does_not_count() {
        let mut is_known = [true, false, false, false, false];
        reach(&mut is_known, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 3)]);
        assert_eq!(is_known, [true, true, true, false, false]);
    }

    #[test]
    fn a_pointer_into_a_block_holds_it_and_one_to_the_words_of_the_kernel_does_not() {
        let block = |at: Addr| PoolBlock { at, start: at + 4, len: 16, is_free: false };
        let used = [block(0x100), block(0x114)];
        assert_eq!(holding(0x104, &used), Some(0));
        assert_eq!(holding(0x113, &used), Some(0), "its last byte");
        assert_eq!(holding(0x114, &used), None, "the words of the kernel in front of the next");
        assert_eq!(holding(0x118, &used), Some(1));
        assert_eq!((holding(0x100, &used), holding(0x128, &used)), (None, None));
    }
}
