//! A message that is received into less memory than it has: `tx_queue_receive` copies whole messages. Where the memory is a local
//! variable, the last words of the message lie over what the function saved on its stack, its return address with it. The code of
//! the program shows how far below the return address the variable is, the queue how long its messages are.

use super::super::address::NULL;
use super::super::events::{Giver, Messages, Received};
use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Evidence, Finding};
use super::by_code::user_name;
use super::words::{function_at, place_at};
use super::wrong_mask::giver;
use super::{frames, pool_memory};
use crate::abi::Addr;
use crate::kernel::api::Act;
use crate::kernel::{Kind, Thread};
use crate::session::Function;

/// A call that receives such a message.
pub(super) struct Message {
    /// What it does, in words: `store_note receives messages of queue notes, of 32 bytes, ...`.
    pub words: String,
    /// The queue.
    pub queue: String,
    pub evidence: Evidence,
}

/// A call of a thread that receives a message over a return address; `sp`: in the stack of the thread.
pub(super) fn over_return(sp: Addr, case: &Case<'_>) -> Option<Message> {
    over_return_of(case.kernel?.threads.iter().find(|thread| thread.holds(sp))?, case)
}

/// The same of a thread.
pub(super) fn over_return_of(thread: &Thread, case: &Case<'_>) -> Option<Message> {
    let kernel = case.kernel?;
    let usage = case.usage()?;
    let width = kernel.layout.shape.word.bytes() as u64;
    let receive: Vec<Addr> = RECEIVE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let received = usage.received(User::Thread(thread.address), &receive);
    received.into_iter().find_map(|(at, queue, below)| {
        let words = kernel.object(queue)?.get("message_size")?;
        let (size, room) = over(words, below, width, width)?;
        Some(message(at, queue, size, room, case))
    })
}

/// A call of a thread that receives a message over registers that its function saved for its caller, and not over its return address.
pub(super) fn over_saved(thread: Addr, case: &Case<'_>) -> Option<Message> {
    let (kernel, usage) = (case.kernel?, case.usage()?);
    let width = kernel.layout.shape.word.bytes() as u64;
    let receive: Vec<Addr> = RECEIVE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    usage.received(User::Thread(thread), &receive).into_iter().find_map(|(at, queue, below)| {
        let words = kernel.object(queue)?.get("message_size")?;
        let function = case.look.function(at)?.address & !1;
        let (size, room) = over(words, below, width, frames::saved(function, case)?)?;
        // That is another failure.
        if over(words, below, width, width).is_some() {
            return None;
        }
        let queue = case.object(queue);
        let words = format!(
            "{} receives messages of {queue}, of {size} bytes, into a variable that begins {room} bytes below the registers that it saved for its caller",
            function_at(at, case)
        );
        let text = format!("tx_queue_receive copies {size} bytes here, to {room} bytes below the saved registers");
        Some(Message { evidence: Evidence::symbol(at, &place_at(at, case), text), words, queue })
    })
}

/// The bytes of a message of so many words, and those that its variable has below the return address, where these are fewer.
/// `below`: where the variable is, from the stack pointer at the start of the function, under which so many bytes are `saved`: the return
/// address is the last of them.
fn over(words: u64, below: i32, width: u64, saved: u64) -> Option<(u64, u64)> {
    // A queue that was overwritten may have any size.
    let size = words.checked_mul(width).filter(|_| words <= LONGEST)?;
    let room = u64::from(below.checked_neg().and_then(|room| u32::try_from(room).ok())?).checked_sub(saved)?;
    (size > room).then_some((size, room))
}

/// What speaks against a block that is free.
pub(super) const AGAINST: &str =
    "that the thread still works on that message is inferred: by the events it has not passed it on";

/// The most senders that are named.
const SENDERS: usize = 2;
/// So far behind a pointer is what it points to.
const NEAR: u64 = 1024;
/// The functions that receive a message.
const RECEIVE: [&str; 2] = ["_tx_queue_receive", "_txe_queue_receive"];
/// The most words of a message (ThreadX User Guide, `tx_queue_create`).
const LONGEST: u64 = 16;

fn message(at: Addr, queue: Addr, size: u64, room: u64, case: &Case<'_>) -> Message {
    let queue = case.object(queue);
    let words = format!(
        "{} receives messages of {queue}, of {size} bytes, into a variable that begins {room} bytes below its return address",
        function_at(at, case)
    );
    let text = format!("tx_queue_receive copies {size} bytes here, to {room} bytes below the return address");
    Message { evidence: Evidence::symbol(at, &place_at(at, case), text), words, queue }
}

/// The last message that a thread received.
struct Last {
    queue: Addr,
    /// The event of the call.
    seq: u64,
    /// What its buffer has now.
    words: Vec<u64>,
}

impl Last {
    fn of(thread: Addr, case: &Case<'_>) -> Option<Self> {
        let (events, kernel) = (case.events?, case.kernel?);
        let Received { queue, to, seq, .. } = events.received(thread)?;
        let queue = kernel.objects.iter().find(|object| events.is(object.address, queue))?;
        let words = queue.get("message_size").filter(|words| *words <= LONGEST)?;
        let len = words.checked_mul(kernel.layout.shape.word.bytes() as u64)?;
        Some(Self { queue: queue.address, seq, words: case.words(&case.look.bytes(to, len)?, true) })
    }
}

/// That the last message which a thread received holds an address in the stack of another thread, which sends to that queue: a local
/// variable of a function that may have returned since.
pub(super) fn of_stack(thread: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let (events, kernel) = (case.events?, case.kernel?);
    let Last { queue, seq, words } = Last::of(thread, case)?;
    let sends = |other: &Thread| {
        let givers = events.object(queue).map(|one| &one.givers);
        givers.is_some_and(|all| all.keys().any(|by| matches!(by, Giver::Thread(at) if events.is(other.address, *at))))
    };
    let others = || kernel.threads.iter().filter(|other| other.address != thread && sends(other));
    let within = |word: &u64| Some((*word, others().find(|other| other.holds(*word))?));
    let (word, sender) = words.iter().find_map(within)?;
    let (name, label, by) = (case.label(thread), case.object(queue), sender.label());
    let claim = format!(
        "the message of {label} that {name} works on has the address {word:#x}, in the stack of {by}, which sends them: a local \
         variable of a function that may have returned"
    );
    Some((claim, Evidence::event(seq, format!("{name} received a message of {label} here: its buffer has {word:#x}"))))
}

/// That the last message which a thread received has the address of a block of a pool that is free, though the thread has neither released
/// it nor passed it on since: in words, and as evidence.
pub(super) fn of_free_block(thread: Addr, case: &Case<'_>, graph: &Graph) -> Option<(String, Vec<Evidence>)> {
    let events = case.events?;
    let Last { queue, seq, words } = Last::of(thread, case)?;
    let own = Giver::Thread(events.stored(thread));
    // What it has passed on it does not work on any more.
    if events.readers.of(events.stored(thread)).is_none_or(Messages::has_acted) {
        return None;
    }
    let (at, pool) = words.into_iter().find_map(|word| Some((word, pool_memory::free_block(word, case)?)))?;
    let released = events.object(pool).and_then(|one| one.pool.released(case.stored(at)));
    if released.is_some_and(|(by, when)| by == own && when > seq) {
        return None;
    }
    let (name, label, pool) = (case.label(thread), case.object(queue), case.object(pool));
    let who = match released {
        Some((by, _)) if by == own => {
            format!("{name} had released it before it received this message, so its address was sent once more")
        }
        Some((by, _)) => format!("{} released it", giver(by, case, graph)),
        None => "it was released before".to_owned(),
    };
    let claim = format!(
        "the message of {label} that {name} works on has the address {at:#x}, of a block of {pool} that is free: {who}"
    );
    let received = Evidence::event(seq, format!("{name} received a message of {label} here: its buffer has {at:#x}"));
    let release = released
        .map(|(by, seq)| Evidence::event(seq, format!("{} releases the block at {at:#x}", giver(by, case, graph))));
    Some((claim, std::iter::once(received).chain(release).collect()))
}

/// That a pointer came in the last message that a thread received, by its event: in words, and as evidence. `failed`: the address that
/// the thread accessed, near what the message has.
pub(super) fn brought(thread: Addr, failed: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let (events, kernel) = (case.events?, case.kernel?);
    let Last { queue, seq, words } = Last::of(thread, case)?;
    let is_it = |word: &&u64| **word >= NULL && failed.checked_sub(**word).is_some_and(|into| into < NEAR);
    let pointer = *words.iter().find(is_it)?;
    let label = case.object(queue);
    let givers = events.object(queue)?.givers.keys();
    let names: Vec<String> = givers
        .filter_map(|giver| match giver {
            Giver::Thread(at) => {
                let named = kernel.threads.iter().find(|thread| events.is(thread.address, *at));
                named.map(|thread| thread.label())
            }
            Giver::Interrupt(number) => Some(case.interrupt(*number)),
            Giver::Other => None,
        })
        .take(SENDERS)
        .collect();
    let by = if names.is_empty() { String::new() } else { format!(", to which {} sent", names.join(" and ")) };
    let text =
        format!("{} received a message of {label} here: its buffer has the pointer {pointer:#x}", case.label(thread));
    Some((format!("the pointer {pointer:#x} came in a message of {label}{by}"), Evidence::event(seq, text)))
}

/// The same by the program's code: the word from which a pointer was read is in a variable into which one of the functions that are on the
/// stack receives messages. `at`, `sp` and `functions`: of where the pointer was needed.
pub(super) fn brought_by_code(
    word: Addr,
    thread: &Thread,
    (at, sp): (Addr, Addr),
    functions: &[Function],
    case: &Case<'_>,
) -> Option<(String, Evidence)> {
    let (kernel, usage) = (case.kernel?, case.usage()?);
    let width = kernel.layout.shape.word.bytes() as u64;
    let len = |queue: Addr| {
        let words = kernel.object(queue)?.get("message_size").filter(|words| *words <= LONGEST)?;
        words.checked_mul(width)
    };
    let receive: Vec<Addr> = RECEIVE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    let outer = functions.iter().filter(|function| !function.is_inlined && !function.is_inferred());
    let returns: Vec<Addr> = outer.skip(1).map(|function| function.pc).collect();
    let (queue, call) = usage.received_at(word, (at, sp), &returns, &receive, &len)?;
    let senders = usage.who(Act::Gives, Some(Kind::Queue), queue, None).unwrap_or_default();
    let names: Vec<String> = senders.iter().take(SENDERS).map(|user| user_name(*user, case)).collect();
    let by = match names.as_slice() {
        [] => String::new(),
        [one] => format!(", to which {one} sends"),
        all => format!(", to which {} send", all.join(" and ")),
    };
    let (label, site) = (case.object(queue), place_at(call, case));
    let text = format!("{} receives messages of {label} here, into the variable that has {word:#x}", thread.label());
    Some((format!("it may have come in a message of {label}{by}"), Evidence::symbol(call, &site, text)))
}

impl Finding {
    /// The same with a message that is received over a return address, where nothing else is behind it.
    pub(super) fn otherwise_message(mut self, message: Option<Message>) -> Self {
        if let Some(Message { words, evidence, .. }) = message {
            self.otherwise = Some((words, vec![evidence]));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "A damaged return address" without the call that received a message over it.
    #[test]
    fn a_message_that_was_longer_than_its_variable_was_not_seen() {
        assert_eq!(over(8, -24, 4, 4), Some((32, 20)));
        assert_eq!(over(4, -24, 4, 4), None, "it fits");
        assert_eq!(over(6, -24, 4, 4), Some((24, 20)), "the last word is the return address");
        assert_eq!(over(5, -24, 4, 4), None, "it ends below the return address");
        assert_eq!(over(1000, -24, 4, 4), None, "no message is so long");
        assert_eq!(over(8, 16, 4, 4), None, "a variable of the caller");
        assert_eq!(over(4, -20, 4, 16), Some((16, 4)), "r4 to r6 and the return address are above it");
    }
}
