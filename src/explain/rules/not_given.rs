//! What a thread waits for and one thread alone gives, where that one gives it after most of the messages that it reads, and not after
//! others: those are the rounds to look at.

use super::super::{Case, Evidence};
use super::by_code::Givers;
use super::words::{gives, third};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::trace::many;

/// So many times more often it gives than not.
const MOST: u64 = 4;

/// Such a round, in words and as evidence.
pub(super) struct NotGiven {
    /// `; tx_done puts semaphore box after 16 of the 17 times that it asked queue done for a message in the trace; in the last of the others it
    /// sends to queue out`
    pub words: String,
    pub evidence: Evidence,
}

impl NotGiven {
    /// Of an object that a thread waits for. `givers`: all who give it.
    pub fn of(object: Addr, kind: Kind, givers: Option<&Givers>, case: &Case<'_>) -> Option<Self> {
        // Which flags of a group it sets is not compared.
        let givers = givers.filter(|givers| givers.names.len() == 1 && kind != Kind::EventFlags)?;
        let [giver] = *givers.threads.as_slice() else { return None };
        let events = case.events?;
        let messages = events.readers.of(events.stored(giver))?;
        let given = messages.given.iter().find(|given| events.is(object, given.object))?;
        let last = given.last_without.filter(|_| given.rounds >= given.without.saturating_mul(MOST))?;
        let (name, queue) = (case.label(giver), case.object(messages.queue));
        let (does, what) = (third(kind), case.object(object));
        let all = given.rounds.saturating_add(given.without);
        let instead = last.instead.map(|(seq, other)| {
            let does = events.kind(other).map_or("gives", third);
            (seq, format!("{does} {}", case.object(other)))
        });
        let then = instead
            .as_ref()
            .map_or_else(String::new, |(_, instead)| format!("; in the last of the others it {instead}"));
        let words = format!(
            "; {name} {does} {what} after {} of the {} that it asked {queue} for a message in the trace{then}",
            given.rounds,
            many(all, "time", "times"),
        );
        let text = instead.as_ref().map_or_else(
            || {
                format!(
                    "{name} asks for a message here; before it asks for the next one, it does not {} {what}",
                    gives(kind)
                )
            },
            |(_, instead)| {
                format!("{name} {instead} here; until it asks for the next message, it does not {} {what}", gives(kind))
            },
        );
        let seq = last.instead.map_or(last.from, |(seq, _)| seq);
        Some(Self { words, evidence: Evidence::event(seq, text) })
    }
}
