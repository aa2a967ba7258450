//! What a queue counts by the events of a trace, beside the room that the registry of the trace gives it (`tx_queue_create`).

use super::Now;
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
    /// The thread that reads this number as the time of the kernel between these two events, and the event.
    pub time: Option<(Addr, u64)>,
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
    /// In the next event. `room`: what the registry gives it. `time`: what a thread read last as the time of the kernel, in which event.
    pub fn next(&mut self, seq: u64, held: u64, room: u64, time: Option<(Addr, u64, u64)>) {
        if held <= room {
            self.last = Some((seq, held));
        } else if let Some(over) = &mut self.over {
            over.times = over.times.saturating_add(u64::from(held.abs_diff(self.held) <= 1));
        } else {
            let is_between = |read: u64| self.last.is_none_or(|(before, _)| before < read);
            let time = time.filter(|(_, value, read)| *value == held && is_between(*read));
            let time = time.map(|(thread, _, read)| (thread, read));
            self.over = Some(Overcount { room, before: self.last, first: (seq, held), times: 1, time });
        }
        self.held = held;
    }
}

impl super::Events {
    /// True where a thread was the last that read the time of the kernel.
    #[must_use]
    pub fn read_time_last(&self, thread: Addr) -> bool {
        self.time_read.is_some_and(|(reader, ..)| self.is(thread, reader))
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
        let time = Some((0x100, 2820, 18));
        [(10, 0), (14, 10)].into_iter().for_each(|(seq, held)| counted.next(seq, held, 10, None));
        assert_eq!(counted.over, None, "it was full");
        [(20, 2820), (22, 2819)].into_iter().for_each(|(seq, held)| counted.next(seq, held, 10, time));
        let over = Overcount { room: 10, before: Some((14, 10)), first: (20, 2820), times: 2, time: Some((0x100, 18)) };
        assert_eq!(counted.over, Some(over));
        counted.next(24, 77_000, 10, None);
        assert_eq!(counted.over, Some(over), "a damaged event agrees with none");
        let mut counted = Counted::default();
        counted.next(19, 3, 10, None);
        counted.next(20, 2820, 10, time);
        assert_eq!(counted.over.and_then(|over| over.time), None, "it was read before the last right count");
    }
}
