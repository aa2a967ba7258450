//! Stacks that were used to their end. The kernel fills a stack with 0xEF before its thread runs: where the lowest bytes are
//! something else, the stack was used up, or written by a neighbour. A stack pointer below the start, saved or in the trace,
//! proves it. Functions leave holes in their frames, so an overflow may leave some fill at the end: then the neighbour below
//! shows it, whose oldest words are no longer those that every thread begins with. Who suffers is the neighbour, who is to
//! blame is the other.

use std::collections::BTreeSet;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{below_stack, frames, jump, stack_calls, stack_released, stacks_overlap, storage_overlap, words};
use crate::abi::Addr;
use crate::cpu::Architecture;
use crate::kernel::{High, Stacks, Thread};

/// Bytes that are left where a stack is nearly full.
const NEAR: u64 = 32;

/// Bytes between two stacks that are neighbours.
const GAP: u64 = 64;
/// Bytes at the top of a stack that hold the words with which each thread begins.
const TOP: u64 = 64;
/// Bytes at the bottom that hold the words of an overflow.
const BOTTOM: u64 = 512;
/// Bytes below a stack where an overflow goes on, and the fewest return addresses there that show it.
const BELOW: u64 = 256;
const CALLS: usize = 2;
/// The byte with which the kernel fills stacks.
const FILL: u8 = 0xEF;
/// The most bytes of a mark that a program keeps at the end of a stack, and of another write there.
const MARK: usize = 16;
const WRITTEN: usize = 64;
/// The fewest bytes of fill above it.
const FEWEST: u64 = 64;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    let own = |thread: &&Thread| thread.stacks == Stacks::Own && thread.pthread.is_none();
    let threads: Vec<&Thread> = kernel.threads.iter().filter(own).collect();
    let found = threads.iter().filter_map(|thread| Some((thread, finding(thread, &threads, case)?)));
    // What was used to its end by another owner of the memory, or by the thread of another stack, is a rule of its own.
    let is_shared = |thread: &Thread| {
        stack_released::is_so(thread, case)
            || stacks_overlap::is_so(thread.address, case)
            || storage_overlap::is_over_stack_of(thread.address, case)
    };
    let all: Vec<Finding> = found.filter(|(thread, _)| !is_shared(thread)).map(|(_, found)| found).collect();
    without_those_run_over(all)
}

/// A stack that another overflowed into holds the words of that one: that it overflowed as well does not follow from them.
fn without_those_run_over(all: Vec<Finding>) -> Vec<Finding> {
    let is_over = |finding: &&Finding| finding.code == Code::StackOverflow && finding.confidence > Confidence::Hint;
    let run_over: BTreeSet<Addr> = all.iter().filter(is_over).flat_map(|finding| finding.affected.clone()).collect();
    let is_own = |finding: &Finding| {
        finding.confidence == Confidence::Proven || !finding.threads.iter().any(|thread| run_over.contains(thread))
    };
    all.into_iter().filter(is_own).collect()
}

/// What was found of one stack.
struct Found {
    code: Code,
    claimed: Confidence,
    claim: String,
    evidence: Vec<Evidence>,
    against: Option<&'static str>,
}

fn finding(thread: &Thread, all: &[&Thread], case: &Case<'_>) -> Option<Finding> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let below = neighbour(start, all);
    let left = size.saturating_sub(thread.stack.high.bytes(Some(size))?);
    let by_pointer = || saved_below(thread, start, size, left);
    let found = by_pointer()
        .filter(|found| found.claimed == Confidence::Proven)
        .or_else(|| below.and_then(|other| was_below(thread, other, case)))
        .or_else(|| below.filter(|_| left <= size / 2).and_then(|other| damaged(thread, other, all, case)))
        .or_else(|| frame_below(thread, below, case))
        .or_else(|| used_up(thread, start, size, left, case))
        .or_else(by_pointer)?;
    let is_over =
        found.code == Code::StackOverflow && !(found.claimed == Confidence::Hint && is_written_at_end(thread, case));
    let is_near = found.code == Code::StackNearOverflow;
    let calls = if is_over || is_near { stack_calls::of(thread, case) } else { None };
    let words = calls.as_ref().and_then(|calls| calls.words(if is_near { 0 } else { size / 2 }));
    let claim = words.map_or_else(|| found.claim.clone(), |words| format!("{}; {words}", found.claim));
    let other =
        below.map(|other| format!("{}, whose stack ends at {start:#x}, may have lost its oldest words", other.label()));
    let suffers = if is_over { other.or_else(|| below_stack::of(start, case)) } else { None };
    let name = thread.label();
    Some(
        Finding::new(found.code, case.cap(found.claimed), claim)
            .against(found.against)
            .evidence(found.evidence)
            .evidence(calls.map(|calls| calls.evidence))
            .explains(suffers)
            .next(if is_near {
                format!("make the stack of {name} larger: in another case it may need more")
            } else if is_over {
                format!("make the stack of {name} larger; what is below {start:#x} may be damaged")
            } else {
                format!("find out what else has the memory from {start:#x} on: another object, or DMA")
            })
            .threads([thread.address])
            .affected(below.filter(|_| is_over).map(|other| other.address)),
    )
}

/// The thread whose stack ends where another begins.
fn neighbour<'t>(start: Addr, all: &[&'t Thread]) -> Option<&'t Thread> {
    let ends = |thread: &&&Thread| {
        let end = thread.stack.start.zip(thread.stack.size).and_then(|(start, size)| start.checked_add(size));
        end.is_some_and(|end| end <= start && start.saturating_sub(end) <= GAP)
    };
    all.iter().find(ends).copied()
}

fn saved_below(thread: &Thread, start: Addr, size: u64, left: u64) -> Option<Found> {
    let saved = thread.saved.filter(|saved| *saved < start && thread.core.is_none())?;
    let below = start.saturating_sub(saved);
    let text = format!("its saved stack pointer {saved:#x} is {below} bytes below the start of its stack");
    let is_unused = left > NEAR;
    Some(Found {
        code: Code::StackOverflow,
        claimed: if is_unused { Confidence::Hint } else { Confidence::Proven },
        claim: format!("the stack of {} ({size} bytes) overflowed", thread.label()),
        evidence: vec![Evidence::stack(start, text)],
        against: is_unused.then_some("the lowest bytes of the stack still hold the fill (0xEF): the saved stack pointer may have been overwritten"),
    })
}

/// A call recorded a stack pointer that was in the stack of the neighbour below.
fn was_below(thread: &Thread, below: &Thread, case: &Case<'_>) -> Option<Found> {
    let (start, end) = (thread.stack.start?, thread.stack.end()?);
    let pointer = case.events?.activity(thread.address)?.pointer?;
    let bytes = pointer.below(start, end)?;
    let (sp, seq) = pointer.lowest;
    below.stack.holds(sp).then(|| Found {
        code: Code::StackOverflow,
        claimed: Confidence::Proven,
        claim: format!(
            "the stack of {} ({} bytes) overflowed into that of {}, which is below it",
            thread.label(),
            end.saturating_sub(start),
            below.label()
        ),
        evidence: vec![Evidence::event(
            seq,
            format!("its stack pointer was {sp:#x}, {bytes} bytes below the start {start:#x} of its stack"),
        )],
        against: None,
    })
}

/// How many of the lowest bytes of a stack are no fill, where these are few and a quarter of the stack after them is fill.
fn written(low: &[u8], size: u64) -> Option<usize> {
    let need = usize::try_from(FEWEST.max(size / 4)).unwrap_or(usize::MAX).min(low.len().saturating_sub(WRITTEN));
    let is_fill = |from: &usize| low.iter().skip(*from).take(need).all(|byte| *byte == FILL);
    (1..=WRITTEN).find(is_fill).filter(|_| need >= MARK)
}

/// True where only the lowest bytes of a stack were written, above which it was never used: a mark of the program, or a write of another
/// one. Functions leave holes in their frames, but then a return address, or what an exception pushed, is in the lowest bytes.
pub(super) fn is_written_at_end(thread: &Thread, case: &Case<'_>) -> bool {
    let is_so = || {
        let (start, size) = (thread.stack.start?, thread.stack.size?);
        let low = case.look.bytes(start, BOTTOM.min(size))?;
        let len = written(&low, size)?;
        let words = case.words(low.get(..len.next_multiple_of(8))?, true);
        let is_own =
            |(index, word): (usize, &u64)| jump::is_behind_call(*word, case) || frames::is_pushed(&words, index);
        Some(len <= MARK || !words.iter().enumerate().any(is_own))
    };
    thread.stack.high == High::Full && is_so() == Some(true)
}

fn used_up(thread: &Thread, start: Addr, size: u64, left: u64, case: &Case<'_>) -> Option<Found> {
    let name = thread.label();
    if is_written_at_end(thread, case) {
        return Some(Found {
            code: Code::StackOverflow,
            claimed: Confidence::Hint,
            claim: format!("the lowest bytes of the stack of {name} ({size} bytes) were overwritten"),
            evidence: vec![Evidence::stack(start, "the bytes above it still hold the fill (0xEF)".to_owned())],
            against: Some(
                "most of the stack was not used: another one may have written there, or the program keeps a mark there",
            ),
        });
    }
    if let Some(byte) = repeated(start, size, case).filter(|_| thread.stack.high == High::Full) {
        return Some(Found {
            code: Code::CorruptControlBlock,
            claimed: Confidence::Likely,
            claim: format!("the stack of {name} ({size} bytes) was overwritten from its first byte to its last one"),
            evidence: vec![Evidence::stack(
                start,
                format!("both of its ends hold {byte:#x}, which no call leaves there"),
            )],
            against: None,
        });
    }
    if thread.stack.high == High::Full {
        return Some(Found {
            code: Code::StackOverflow,
            claimed: Confidence::Likely,
            claim: format!("the stack of {name} ({size} bytes) was used to its end"),
            evidence: vec![Evidence::stack(start, "its lowest bytes hold no fill (0xEF) any more".to_owned())],
            against: Some("a neighbour may have written there instead"),
        });
    }
    if let Some(evidence) = went_on_below(thread, start, size, case).filter(|_| left <= NEAR) {
        return Some(Found {
            code: Code::StackOverflow,
            claimed: Confidence::Likely,
            claim: format!("the stack of {name} ({size} bytes) overflowed"),
            evidence: vec![
                evidence,
                Evidence::stack(
                    start,
                    format!("the lowest {left} bytes hold fill (0xEF): a frame may have such a hole"),
                ),
            ],
            against: Some("a stack that was there before may have left these words"),
        });
    }
    (left <= NEAR && matches!(thread.stack.high, High::Bytes(_))).then(|| Found {
        code: Code::StackNearOverflow,
        claimed: Confidence::Hint,
        claim: format!("the stack of {name} was used to {left} bytes from its end"),
        evidence: vec![Evidence::stack(start, format!("the lowest {left} bytes hold fill (0xEF)"))],
        against: None,
    })
}

/// The frame of a function that the thread called reaches below its stack.
fn frame_below(thread: &Thread, below: Option<&Thread>, case: &Case<'_>) -> Option<Found> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let evidence = frames::below(thread, start, size, case)?;
    let over = below.map_or_else(String::new, |other| format!(" into that of {}, which is below it", other.label()));
    Some(Found {
        code: Code::StackOverflow,
        claimed: Confidence::Likely,
        claim: format!("the stack of {} ({size} bytes) overflowed{over}", thread.label()),
        evidence: vec![evidence],
        against: Some("a word that only looks like a return address gives the same"),
    })
}

/// The byte that both ends of a stack are filled with: no overflow reaches the oldest words.
fn repeated(start: Addr, size: u64, case: &Case<'_>) -> Option<u8> {
    let last = start.checked_add(size)?.checked_sub(TOP)?;
    let ends = [case.look.bytes(start, TOP.min(size))?, case.look.bytes(last, TOP.min(size))?].concat();
    let first = *ends.first().filter(|byte| **byte != FILL && size > TOP)?;
    ends.iter().all(|byte| *byte == first).then_some(first)
}

/// The words at one end of a stack.
fn end_words(thread: &Thread, top: bool, case: &Case<'_>) -> Option<Vec<u64>> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let len = if top { TOP } else { BOTTOM }.min(size);
    let at = if top { start.checked_add(size)?.checked_sub(len)? } else { start };
    let bytes = case.look.bytes(at, len)?;
    Some(case.words(&bytes, true))
}

/// True for a word that may be an address in the program: neither small, nor fill, nor all ones.
fn is_code(word: u64, case: &Case<'_>) -> bool {
    case.look.function(word).is_some()
}

/// The words below the stack hold return addresses that its lowest words hold too: the same calls went on there. Pointers to
/// functions lead to where functions begin, and not after a call.
fn went_on_below(thread: &Thread, start: Addr, size: u64, case: &Case<'_>) -> Option<Evidence> {
    let kernel = case.kernel.filter(|kernel| kernel.processor == Some(Architecture::CortexM))?;
    // Other threads may make the same calls on stacks of their own.
    let ends = kernel.threads.iter().filter_map(|other| other.stack.end()).filter(|end| *end <= start);
    let below = ends.max().unwrap_or(0).max(start.checked_sub(BELOW)?).checked_add(7)? & !7;
    let len = start.checked_sub(below)?;
    let own: BTreeSet<u64> = case.words(&case.look.bytes(start, BOTTOM.min(size))?, true).into_iter().collect();
    let words = case.words(&case.look.bytes(below, len)?, true);
    let is_call = |word: &u64| own.contains(word) && word & 1 == 1 && jump::is_behind_call(*word, case);
    let shared: BTreeSet<u64> = words.into_iter().filter(is_call).collect();
    let first = shared.first().copied().filter(|_| shared.len() >= CALLS)?;
    let names: BTreeSet<String> = shared.iter().map(|word| words::function_at(*word, case)).collect();
    let names: Vec<String> = names.into_iter().take(3).collect();
    let over = case.look.raw(start.saturating_sub(4)).map_or_else(String::new, |name| format!(", in {name}"));
    let text = format!(
        "the {len} bytes below it{over} hold returns to {}, as the lowest words of the stack do: {} went on there",
        names.join(", "),
        thread.label()
    );
    Some(Evidence::stack(below, text).holds(first))
}

/// The neighbour's oldest words are not those with which all other threads begin, and some of them are of this thread.
fn damaged(thread: &Thread, below: &Thread, all: &[&Thread], case: &Case<'_>) -> Option<Found> {
    let (start, size) = (thread.stack.start?, thread.stack.size?);
    let has_run = |other: &&&Thread| other.run_count.is_none_or(|runs| runs > 0);
    let tops: Vec<(Addr, BTreeSet<u64>)> = all
        .iter()
        .filter(has_run)
        .filter_map(|other| Some((other.address, end_words(other, true, case)?.into_iter().collect())))
        .collect();
    let own = &tops.iter().find(|(address, _)| *address == below.address)?.1;
    let others: Vec<&BTreeSet<u64>> = tops.iter().filter(|(at, _)| *at != below.address).map(|(_, set)| set).collect();
    let has = |word: u64| others.iter().filter(|set| set.contains(&word)).count();
    let most = others.len().saturating_sub(others.len() / 4).max(2);
    // Where the function of every thread returns to.
    let anchor = others.iter().copied().flatten().copied().find(|word| is_code(*word, case) && has(*word) >= most)?;
    if own.contains(&anchor) {
        return None;
    }
    let low: BTreeSet<u64> = end_words(thread, false, case)?.into_iter().collect();
    let shared = own.iter().copied().find(|word| is_code(*word, case) && low.contains(word) && has(*word) == 0)?;
    let function = |word| case.look.function(word).map_or_else(|| format!("{word:#x}"), |symbol| symbol.name);
    let (name, other) = (thread.label(), below.label());
    Some(Found {
        code: Code::StackOverflow,
        claimed: Confidence::Likely,
        claim: format!("the stack of {name} ({size} bytes) overflowed into that of {other}, which is below it"),
        evidence: vec![
            Evidence::stack(
                start,
                format!(
                    "the oldest words of {other} lack the return to {}, which every other thread has",
                    function(anchor)
                ),
            )
            .named(&function(anchor)),
            Evidence::stack(
                start,
                format!("they hold a return to {}, as the lowest words of the stack of {name} do", function(shared)),
            )
            .holds(shared),
        ],
        against: Some("another write past an end may have done the same"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recursion ran through the stack below into the next one: the one between was said to have overflowed as well.
    #[test]
    fn a_stack_that_was_run_over_had_overflowed() {
        let of = |thread, below, confidence| {
            Finding::new(Code::StackOverflow, (confidence, Vec::new()), "an overflow".to_owned())
                .threads([thread])
                .affected([below])
        };
        let found = |between| without_those_run_over(vec![of(1, 2, Confidence::Likely), of(2, 3, between)]).len();
        assert_eq!((found(Confidence::Likely), found(Confidence::Proven)), (1, 2));
    }

    #[test]
    fn a_mark_at_the_end_of_a_stack_is_no_overflow() {
        let low = |mark: usize, fill: usize| {
            let mut bytes = vec![0xAD; mark];
            bytes.resize(mark.saturating_add(fill), FILL);
            bytes.resize(512, 0x11);
            bytes
        };
        assert_eq!(written(&low(4, 508), 1024), Some(4));
        assert_eq!(written(&low(4, 508), 8192), Some(4));
        let mut word = low(4, 508);
        word.splice(..4, [0xEF, 0xBE, 0xAD, 0xDE]);
        assert_eq!(written(&word, 1024), Some(4), "0xdeadbeef");
        assert_eq!(written(&low(32, 480), 1024), Some(32), "a text");
        assert_eq!(written(&low(4, 40), 1024), None, "a hole in a frame");
        assert_eq!(written(&low(200, 300), 1024), None, "far more than a mark");
        assert_eq!(written(&low(512, 0), 1024), None);
    }
}
