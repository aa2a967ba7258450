//! A message with the address of a local variable: its sender goes on without waiting for an answer, and the reader may find what later
//! calls have left there. Where the reader is more urgent and waits for the message, it comes first, so that this shows only when it is
//! elsewhere.
//!
//! It needs the code of the sender, and a message of the queue, also one that was taken, with an address in the sender's stack.
//!
//! Against it: the reader may have come first each time.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::words::place_at;
use crate::abi::Addr;
use crate::kernel::{Kind, Object, Thread};

/// The most bytes of the messages of a queue that are looked at.
const MOST: u64 = 1024;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    kernel.objects.iter().filter(|object| object.kind == Kind::Queue).filter_map(|queue| finding(queue, case)).collect()
}

fn finding(queue: &Object, case: &Case<'_>) -> Option<Finding> {
    let in_stacks = in_stacks(queue, case);
    // The code is read only where a message has such an address.
    in_stacks.first()?;
    let usage = case.usage()?;
    let of = |(at, word, thread): &(Addr, u64, &Thread)| {
        Some((*at, *word, thread.address, usage.sends_local(User::Thread(thread.address), queue.address)?))
    };
    let (at, word, sender, site) = in_stacks.iter().find_map(of)?;
    let (name, label, place) = (case.label(sender), case.object(queue.address), place_at(site, case));
    let reader = by_code::only_reader(queue.address, case).map(|reader| case.label(reader));
    let reads = reader.map_or_else(|| "who reads it".to_owned(), |reader| format!("{reader}, which reads it,"));
    let claim = format!(
        "{name} sends the address of a local variable to {label} in {place}, and goes on without waiting until it was read: {reads} may \
         find there what {name} has written since"
    );
    Some(
        Finding::new(Code::CorruptControlBlock, case.cap(Confidence::Hint), claim)
            .against(["the reader may have come first each time"])
            .evidence([
                Evidence::symbol(site, &place, format!("{name} sends it here, and a path leads on without a wait for an answer")),
                Evidence::memory(at, format!("a message of {label}, which may have been taken: {word:#x}, in the stack of {name}")).holds(word),
            ])
            .next(format!("send what the reader needs in the message itself, or in a block that it releases; or let {name} wait for an answer"))
            .threads([sender]),
    )
}

/// Words of messages, also of those that were taken, that lie in the stack of a thread: where, what, and whose.
pub(super) fn in_stacks<'k>(queue: &Object, case: &Case<'k>) -> Vec<(Addr, u64, &'k Thread)> {
    let find = || {
        let kernel = case.kernel?;
        let width = kernel.layout.shape.word.bytes() as u64;
        let len = queue.get("capacity")?.checked_mul(queue.get("message_size")?)?.checked_mul(width)?.min(MOST);
        let start = queue.get("start")?;
        let words = case.words(&case.look.bytes(start, len)?, false);
        let at = |n: usize| start.checked_add(u64::try_from(n).ok()?.checked_mul(width)?);
        let holder = |word: u64| kernel.threads.iter().find(|thread| thread.holds(word));
        let held = words.into_iter().enumerate().filter_map(|(n, word)| Some((at(n)?, word, holder(word)?)));
        Some(held.collect::<Vec<_>>())
    };
    find().unwrap_or_default()
}
