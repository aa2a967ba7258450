//! What the readers of queues do with their messages: the rounds from one message to the next in which a thread sends nothing and releases
//! nothing. A call that got no message, as after a time-out, is such a round, too: then the rounds do not match the blocks of a pool.

use std::collections::BTreeMap;

use crate::abi::Addr;

/// The most threads that are followed, and the most rounds of one that are remembered.
const MAX_THREADS: usize = 256;
const MAX_ROUNDS: usize = 256;
/// The most objects of one thread that are remembered.
const MAX_GIVEN: usize = 8;

/// A round in which a message was not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPassedOn {
    /// The event with which the thread asked for this message.
    pub from: u64,
    /// The event with which it asked for the next one.
    pub to: u64,
    /// What it did for others in between: the first event, and the object.
    pub instead: Option<(u64, Addr)>,
}

/// What a thread gives that reads messages: in how many rounds, and the last round in which it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gift {
    /// The object, as the trace stores its address.
    pub object: Addr,
    /// The rounds in which the thread gave it.
    pub rounds: u64,
    /// The rounds since the first of these in which it did not.
    pub without: u64,
    /// The last one of these.
    pub last_without: Option<Without>,
    is_given: bool,
}

/// A round in which a thread did not give something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Without {
    /// The event with which the thread asked for this message.
    pub from: u64,
    /// The first event with which it gave something to others, and the object.
    pub instead: Option<(u64, Addr)>,
}

/// The messages of a queue that a thread reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// The queue, as the trace stores its address.
    pub queue: Addr,
    /// How often the thread sent a message or released memory before it asked for the next message.
    pub passed: u64,
    /// Where it sent the last one.
    pub passed_to: Option<Addr>,
    /// The other times.
    pub others: Vec<NotPassedOn>,
    /// More of them than are remembered.
    pub is_cut: bool,
    /// The event with which it asked for the first one: what it did with an older message is not known.
    pub begun: u64,
    /// The event with which it asked for the message that it has.
    asked: u64,
    is_passed: bool,
    /// The semaphores and groups of event flags that the thread gives.
    pub given: Vec<Gift>,
    /// The queues that it sends to.
    pub sent: Vec<Gift>,
    /// The first event in this round with which it sent or gave something.
    first: Option<(u64, Addr)>,
}

/// All readers.
#[derive(Debug, Default)]
pub struct Readers(BTreeMap<Addr, Messages>);

impl Readers {
    /// A thread asks for a message.
    pub fn receives(&mut self, thread: Addr, queue: Addr, seq: u64) {
        let begins = Messages { queue, begun: seq, asked: seq, ..Messages::default() };
        let has_room = self.0.len() < MAX_THREADS;
        match self.0.get_mut(&thread) {
            Some(messages) if messages.queue == queue => messages.ends(seq),
            // What it reads from several queues is not compared.
            Some(messages) => *messages = begins,
            None if has_room => _ = self.0.insert(thread, begins),
            None => {}
        }
    }

    /// A thread sends a message to a queue.
    pub fn sends(&mut self, thread: Addr, queue: Addr, seq: u64) {
        if let Some(messages) = self.0.get_mut(&thread) {
            (messages.is_passed, messages.passed_to) = (true, Some(queue));
            note(&mut messages.sent, queue);
            messages.first = messages.first.or(Some((seq, queue)));
        }
    }

    /// A thread releases memory.
    pub fn releases(&mut self, thread: Addr) {
        self.0.get_mut(&thread).into_iter().for_each(|messages| messages.is_passed = true);
    }

    /// A thread gives something else.
    pub fn gives(&mut self, thread: Addr, object: Addr, seq: u64) {
        if let Some(messages) = self.0.get_mut(&thread) {
            messages.first = messages.first.or(Some((seq, object)));
            note(&mut messages.given, object);
        }
    }

    /// Events are missing.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// The messages of a thread. `thread`: as the trace stores its address.
    pub fn of(&self, thread: Addr) -> Option<&Messages> {
        self.0.get(&thread)
    }

    /// Each thread, as the trace stores its address, with its messages.
    pub fn all(&self) -> impl Iterator<Item = (Addr, &Messages)> {
        self.0.iter().map(|(thread, messages)| (*thread, messages))
    }
}

impl Messages {
    /// True where the thread has sent, released or given anything since it asked for the message that it has.
    #[must_use]
    pub const fn has_acted(&self) -> bool {
        self.is_passed || self.first.is_some()
    }

    fn ends(&mut self, seq: u64) {
        let (from, instead) = (std::mem::replace(&mut self.asked, seq), self.first.take());
        let without = Without { from, instead };
        for given in self.given.iter_mut().chain(&mut self.sent) {
            if std::mem::take(&mut given.is_given) {
                given.rounds = given.rounds.saturating_add(1);
            } else {
                given.without = given.without.saturating_add(1);
                given.last_without = Some(without);
            }
        }
        if std::mem::take(&mut self.is_passed) {
            self.passed = self.passed.saturating_add(1);
        } else if self.others.len() < MAX_ROUNDS {
            self.others.push(NotPassedOn { from, to: seq, instead });
        } else {
            self.is_cut = true;
        }
    }
}

/// An object is given in this round.
fn note(all: &mut Vec<Gift>, object: Addr) {
    let has_room = all.len() < MAX_GIVEN;
    match all.iter_mut().find(|given| given.object == object) {
        Some(given) => given.is_given = true,
        None if has_room => {
            all.push(Gift { object, rounds: 0, without: 0, last_without: None, is_given: true });
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_goes_from_one_message_to_the_next() {
        let mut all = Readers::default();
        all.sends(1, 9, 5);
        for (seq, does) in [(10, Some(true)), (20, None), (30, Some(false)), (40, Some(true))] {
            all.receives(1, 7, seq);
            match does {
                Some(true) => all.sends(1, 9, seq + 1),
                Some(false) => all.gives(1, 9, seq + 1),
                None => {}
            }
        }
        all.receives(1, 7, 50);
        let (_, found) = all.all().next().unwrap();
        assert_eq!((found.passed, found.passed_to), (2, Some(9)));
        let others = [(20, 30, None), (30, 40, Some((31, 9)))];
        assert_eq!(found.others, others.map(|(from, to, instead)| NotPassedOn { from, to, instead }));
        let given = found.given.first().map(|given| (given.object, given.rounds, given.without, given.last_without));
        let without = Without { from: 40, instead: Some((41, 9)) };
        assert_eq!(given, Some((9, 1, 1, Some(without))), "what it gave in one round, and not in the next one");
        all.receives(1, 8, 60);
        assert_eq!(all.all().next().map(|(_, found)| (found.queue, found.passed)), Some((8, 0)), "another queue");
    }
}
