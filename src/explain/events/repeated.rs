//! Requests that a thread repeats after a time-out, before the answer to the first one comes. That answer ends the next wait; the repeated
//! request is taken only then, so its answer comes too late, too.

use std::collections::BTreeMap;

use crate::abi::Addr;

/// The most threads that are followed: a damaged trace may name any number.
const MAX_THREADS: usize = 64;

/// How often one thread repeated a request so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// What it waits for, and what it gives as a request, as the trace stores their addresses.
    pub answers: Addr,
    pub requests: Addr,
    /// How often.
    pub times: u64,
    /// The first and the last event in which a repeated request was taken after an answer had come.
    pub seqs: (u64, u64),
    /// Ticks: the longest wait that ended by a time-out, and the most that an answer came later.
    pub waited: i64,
    pub delay: i64,
    step: Step,
}

/// What was last seen, of what comes one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing of it.
    None,
    /// The wait ended by a time-out at that time, after so many ticks.
    TimedOut(i64, i64),
    /// The thread gave something.
    Repeated(i64, i64),
    /// It waits again.
    Waits(i64, i64),
    /// Something came, so many ticks after the time-out; nobody has taken the repeated request yet.
    Answered(i64),
}

/// All threads that did so.
#[derive(Debug, Default)]
pub struct AllRepeated(BTreeMap<Addr, Repeated>);

impl AllRepeated {
    /// Each with its thread, as the trace stores its address.
    pub fn iter(&self) -> impl Iterator<Item = (Addr, Repeated)> + '_ {
        self.0.iter().map(|(thread, repeated)| (*thread, *repeated))
    }

    /// A wait of a thread ended by a time-out.
    pub(super) fn times_out(&mut self, thread: Addr, answers: Addr, at: i64, waited: i64) {
        if self.0.len() >= MAX_THREADS && !self.0.contains_key(&thread) {
            return;
        }
        let new = Repeated { answers, requests: 0, times: 0, seqs: (0, 0), waited: 0, delay: 0, step: Step::None };
        let one = self.0.entry(thread).or_insert(new);
        if one.answers != answers {
            *one = new;
        }
        one.step = Step::TimedOut(at, waited);
    }

    /// A thread, or an interrupt, gives something.
    pub(super) fn gives(&mut self, thread: Option<Addr>, object: Addr, at: i64) {
        if let Some(one) = thread.and_then(|thread| self.0.get_mut(&thread)).filter(|one| one.answers != object) {
            one.step = match one.step {
                Step::TimedOut(until, waited) => Step::Repeated(until, waited),
                _ => Step::None,
            };
            if one.requests != object {
                (one.requests, one.times) = (object, 0);
            }
        }
        for one in self.0.values_mut().filter(|one| one.answers == object) {
            let Step::Waits(until, waited) = one.step else { continue };
            let delay = at.saturating_sub(until);
            one.step = if delay <= waited { Step::Answered(delay) } else { Step::None };
            one.waited = one.waited.max(waited);
        }
    }

    /// A thread takes something, or waits for it. `is_there`: there is some.
    pub(super) fn takes(&mut self, thread: Addr, object: Addr, is_there: bool, seq: u64) {
        if let Some(one) = self.0.get_mut(&thread).filter(|one| one.answers == object)
            && let Step::Repeated(until, waited) = one.step
        {
            one.step = Step::Waits(until, waited);
        }
        for one in self.0.values_mut().filter(|one| is_there && one.requests == object) {
            let Step::Answered(delay) = one.step else { continue };
            let first = if one.times == 0 { seq } else { one.seqs.0 };
            (one.times, one.seqs) = (one.times.saturating_add(1), (first, seq));
            (one.delay, one.step) = (one.delay.max(delay), Step::None);
        }
    }

    /// Events are missing.
    pub(super) fn forget(&mut self) {
        self.0.values_mut().for_each(|one| one.step = Step::None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: Addr = 1;
    const READER: Addr = 2;
    const ANSWERS: Addr = 3;
    const REQUESTS: Addr = 4;

    /// One round, in which the answer comes so many ticks after the time-out.
    fn round(all: &mut AllRepeated, from: i64, delay: i64) {
        all.times_out(THREAD, ANSWERS, from, 50);
        all.gives(Some(THREAD), REQUESTS, from);
        all.takes(THREAD, ANSWERS, false, 10);
        all.gives(None, ANSWERS, from.saturating_add(delay));
    }

    fn times(all: &AllRepeated) -> Vec<(Addr, u64, i64)> {
        all.iter().map(|(thread, one)| (thread, one.times, one.delay)).collect()
    }

    #[test]
    fn a_request_is_repeated_before_its_answer_comes() {
        let mut all = AllRepeated::default();
        round(&mut all, 100, 20);
        all.takes(READER, REQUESTS, true, 11);
        round(&mut all, 200, 22);
        all.takes(THREAD, ANSWERS, false, 12);
        all.takes(READER, REQUESTS, true, 13);
        assert_eq!(times(&all), [(THREAD, 2, 22)]);
        assert_eq!(
            all.iter().next().map(|(_, one)| (one.requests, one.seqs, one.waited)),
            Some((REQUESTS, (11, 13), 50))
        );
    }

    /// A sign of life that is sent in each pause, and answered at once, is no such request.
    #[test]
    fn what_is_answered_after_it_was_taken_is_in_time() {
        let mut all = AllRepeated::default();
        all.times_out(THREAD, ANSWERS, 100, 50);
        all.gives(Some(THREAD), REQUESTS, 100);
        all.takes(READER, REQUESTS, true, 9);
        all.takes(THREAD, ANSWERS, false, 10);
        all.gives(None, ANSWERS, 120);
        assert_eq!(times(&all), [(THREAD, 0, 0)]);
        round(&mut all, 200, 60);
        all.takes(READER, REQUESTS, true, 11);
        assert_eq!(times(&all), [(THREAD, 0, 0)], "long after the time-out");
        round(&mut all, 300, 20);
        all.forget();
        all.takes(READER, REQUESTS, true, 12);
        assert_eq!(times(&all), [(THREAD, 0, 0)], "events are missing");
    }
}
