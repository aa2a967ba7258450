//! What a queue counts by the events of a trace, beside the room that the registry of the trace gives it (`tx_queue_create`).

use super::{Giver, Now};
use crate::abi::Addr;
use crate::trace::Trace;

/// A queue that counts more messages than it has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overcount {
    /// The messages that it has room for.
    pub room: u64,
    /// The last event before in which it counts no more than that, and what it counts.
    pub before: Option<(u64, u64)>,
    /// The first event in which it counts more, and what it counts.
    pub first: (u64, u64),
    /// How many events one after the other agree on it: each call changes the count by one at most.
    pub times: u64,
    /// The thread that had this number between these two events.
    pub from: Option<HadNumber>,
}

/// A thread that had a number in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HadNumber {
    /// The thread, as the trace stores its address.
    pub thread: Addr,
    /// The event.
    pub seq: u64,
    /// True where it read it as the time of the kernel; else it inserted it with an event of the application.
    pub is_time: bool,
    /// What was there before, to which the number was added; 0 where it took its place.
    pub added_to: u64,
}

/// An event of the application with which a trace ends: nobody else has an event since, and who inserted it has few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastInserted {
    /// The event.
    pub seq: u64,
    /// Who inserted it.
    pub by: Giver,
    /// Its words.
    pub words: [u64; 4],
}

/// So many events of who inserted it may follow.
const SINCE: u64 = 4;
/// Numbers up to this are in many events.
const SMALL: u64 = 255;
/// So many events of the application are remembered.
const INSERTED: usize = 4;

/// The numbers that threads had last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    /// The thread that read the time of the kernel last, the time, and the event.
    pub time: Option<(Addr, u64, u64)>,
    /// The last events of the application that threads inserted: the thread, the words, and the event.
    inserted: [Option<(Addr, [u64; 4], u64)>; INSERTED],
    /// Whether somebody else has an event since the last of them.
    is_other_since: bool,
}

impl Numbers {
    /// A thread inserts an event of the application.
    pub fn inserts(&mut self, thread: Addr, words: &[u64], seq: u64) {
        let mut all = [0; 4];
        all.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        self.inserted.rotate_right(1);
        self.inserted[0] = Some((thread, all, seq));
        self.is_other_since = false;
    }

    /// An event of a thread, or of none.
    pub fn event_of(&mut self, thread: Option<Addr>) {
        self.is_other_since |= self.inserted[0].is_some_and(|(last, ..)| Some(last) != thread);
    }

    /// Who had a number, or what was added to `last` to make it, after an event.
    fn had(&self, number: u64, last: u64, after: Option<u64>) -> Option<HadNumber> {
        let is_between = |seq: u64| after.is_none_or(|after| after < seq);
        let time = self.time.filter(|(_, value, read)| *value == number && is_between(*read));
        let time = time.map(|(thread, _, seq)| HadNumber { thread, seq, is_time: true, added_to: 0 });
        // Small numbers are those of flags and counters.
        let is_large = |number: &u64| *number > SMALL;
        let added = number.checked_sub(last).filter(is_large);
        let inserted = self.inserted.iter().flatten().filter(|(.., seq)| is_between(*seq)).find_map(|inserted| {
            let (thread, words, seq) = *inserted;
            let had = |added_to| Some(HadNumber { thread, seq, is_time: false, added_to });
            if is_large(&number) && words.contains(&number) {
                had(0)
            } else {
                added.filter(|added| words.contains(added)).and_then(|_| had(last))
            }
        });
        time.or(inserted)
    }
}

/// What a queue counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    last: Option<(u64, u64)>,
    /// What it counted in the last event.
    held: u64,
    pub over: Option<Overcount>,
}

impl Counted {
    /// In the next event. `room`: what the registry gives it. `numbers`: those that threads had last.
    pub fn next(&mut self, seq: u64, held: u64, room: u64, numbers: &Numbers) {
        if held <= room {
            self.last = Some((seq, held));
        } else if let Some(over) = &mut self.over {
            over.times = over.times.saturating_add(u64::from(held.abs_diff(self.held) <= 1));
        } else {
            let (after, last) = self.last.unzip();
            let from = numbers.had(held, last.unwrap_or(0), after);
            self.over = Some(Overcount { room, before: self.last, first: (seq, held), times: 1, from });
        }
        self.held = held;
    }
}

impl super::Events {
    /// True where a thread was the last that read the time of the kernel.
    #[must_use]
    pub fn read_time_last(&self, thread: Addr) -> bool {
        self.had.time.is_some_and(|(reader, ..)| self.is(thread, reader))
    }

    /// The last event of the application: of a thread that alone has an event since, or of an interrupt that has not ended.
    #[must_use]
    pub fn last_inserted(&self) -> Option<LastInserted> {
        let alone = self.had.inserted[0].filter(|_| !self.had.is_other_since);
        let by_thread = alone.map(|(thread, words, seq)| LastInserted { seq, by: Giver::Thread(thread), words });
        let by_interrupt = self.interrupts.open.last().and_then(|open| {
            let inserted = open.inserted?;
            let by = Giver::Interrupt(Some(open.number));
            Some(LastInserted { seq: inserted.seq, by, words: inserted.words })
        });
        by_thread.into_iter().chain(by_interrupt).find(|last| {
            let most = if matches!(last.by, Giver::Thread(_)) { SINCE } else { 0 };
            self.newest.saturating_sub(last.seq) <= most
        })
    }

    /// Where a queue counts more messages than it has room for.
    #[must_use]
    pub fn overcount(&self, queue: Addr) -> Option<Overcount> {
        let over = self.object(queue)?.counted.over?;
        self.created(queue).is_none_or(|created| created < over.first.0).then_some(over)
    }
}

/// The messages that a queue has room for, by the registry; `None` for others, and where a word of the event is not to be relied on.
pub(super) fn room(now: &Now<'_>, queue: Addr, trace: &Trace) -> Option<u64> {
    let object = trace.objects.at(queue).filter(|object| object.type_name == Some("queue") && !object.deleted)?;
    // The registry has the bytes of the queue, and the words of a message: ULONG, which has 32 bits here.
    let word = Some(trace.about.word.bytes()).filter(|bytes| *bytes == 4 && now.event.doubtful == 0)?;
    object.param1.checked_div(object.param2.checked_mul(u64::try_from(word).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_thread_read_became_the_count_of_a_queue() {
        let mut counted = Counted::default();
        let (none, time) = (Numbers::default(), Numbers { time: Some((0x100, 2820, 18)), ..Numbers::default() });
        [(10, 0), (14, 10)].into_iter().for_each(|(seq, held)| counted.next(seq, held, 10, &none));
        assert_eq!(counted.over, None, "it was full");
        [(20, 2820), (22, 2819)].into_iter().for_each(|(seq, held)| counted.next(seq, held, 10, &time));
        let from = Some(HadNumber { thread: 0x100, seq: 18, is_time: true, added_to: 0 });
        let over = Overcount { room: 10, before: Some((14, 10)), first: (20, 2820), times: 2, from };
        assert_eq!(counted.over, Some(over));
        counted.next(24, 77_000, 10, &none);
        assert_eq!(counted.over, Some(over), "a damaged event agrees with none");
        let mut counted = Counted::default();
        counted.next(19, 3, 10, &none);
        counted.next(20, 2820, 10, &time);
        assert_eq!(counted.over.and_then(|over| over.from), None, "it was read before the last right count");
    }

    /// The weight of a parcel was added behind the end of a list of sums, where the count of a queue was.
    #[test]
    fn a_number_that_a_thread_inserted_was_added_to_the_count_of_a_queue() {
        let found = |held| {
            let (mut counted, mut numbers) = (Counted::default(), Numbers::default());
            counted.next(10, 2, 6, &numbers);
            numbers.inserts(0x100, &[31, 1214, 0x1FBF], 18);
            counted.next(20, held, 6, &numbers);
            counted.over.and_then(|over| over.from)
        };
        let had = |added_to| Some(HadNumber { thread: 0x100, seq: 18, is_time: false, added_to });
        assert_eq!(found(1216), had(2));
        assert_eq!(found(1214), had(0));
        assert_eq!(found(1215), None);
    }
}
