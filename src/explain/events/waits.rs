//! Threads that block, and waits that are over.

use super::objects::Taken;
use super::{CHANGES_PRIORITY, Events};
use crate::abi::Addr;
use crate::analysis::tracker::{self, Call, Ending, System, ThreadNo, ThreadState};
use crate::trace::Event;

impl Events {
    /// A thread blocks: what it asked for it does not have.
    pub(super) fn blocks(
        &mut self,
        event: &Event,
        (no, thread): (ThreadNo, Option<Addr>),
        object: Option<(Addr, u64)>,
    ) {
        if let Some((object, seq)) = object
            && let Some(number) = self.numbers.find(object)
            && let Some((_, one)) = usize::try_from(number).ok().and_then(|at| self.objects.get_mut(at))
        {
            one.held.retain(|taken| taken.seq != seq);
            if let Some(thread) = thread {
                one.pool.doubts(thread, seq);
            }
        }
        if let Some(activity) = self.does(no) {
            let before = activity.blocked.map_or(0, |(_, _, ran)| ran);
            if activity.blocked.is_some() {
                activity.longest = activity.longest.max(activity.ran.saturating_sub(before));
            }
            activity.blocks = activity.blocks.saturating_add(1);
            (activity.deleted, activity.was_ready) = (None, false);
            activity.blocked = Some((event.ticks, event.seq, activity.ran));
        }
    }

    pub(super) fn blocked(&mut self, event: &Event, thread: ThreadNo, call: Option<Call>, system: &System<'_>) {
        let state = system.thread(thread).map(|thread| thread.state);
        system.thread(thread).into_iter().for_each(|thread| self.tries.goes_on(thread.address));
        if let Some(activity) = self.does(thread).filter(|_| state == Some(ThreadState::Blocked(Some(3)))) {
            activity.suspended = activity.suspended.saturating_add(1);
        }
        let call = call.filter(|_| matches!(state, Some(ThreadState::Blocked(_))));
        let object = call.and_then(|call| Some((system.address(call.object?), call.seq)));
        if state != Some(ThreadState::Blocked(Some(CHANGES_PRIORITY))) {
            self.blocks(event, (thread, system.thread(thread).map(|thread| thread.address)), object);
        }
    }

    /// A thread is ready again. Where it waited before the first event, whoever put something woke it, so it takes there.
    pub(super) fn wait_is_over(
        &mut self,
        event: &Event,
        no: ThreadNo,
        (waited, by): (Option<tracker::Wait>, Option<Call>),
        system: &System<'_>,
    ) {
        let Some(thread) = system.thread(no).map(|thread| thread.address) else { return };
        let Some(wait) = waited else {
            let puts = by.filter(|call| system.role_of(call.def).is_some_and(|role| role.put.is_some()));
            // What a sleep ends behind is not what the thread waited for.
            let is_other = self.fields.of_event(event).waited_for_none(system.trace.words(event));
            if let Some(one) = puts.filter(|_| !is_other).and_then(|call| self.one(system.address(call.object?))) {
                one.short = None;
                one.taker(thread);
            }
            return;
        };
        let Some((call, object)) = wait.call.and_then(|call| Some((call, call.object?))) else { return };
        let gets = system.role_of(call.def).is_some_and(|role| role.get.is_some());
        let by = || system.thread_of(event.context).and_then(|no| system.thread(no)).map(|by| by.address);
        let deleted = (wait.ending == Ending::Deleted).then(|| (system.address(object), by(), event.seq));
        let is_given = wait.ending == Ending::Given;
        let blocks = self.does(no).map_or(0, |activity| {
            activity.deleted = deleted;
            activity.longest_wait = activity.longest_wait.max(event.ticks.saturating_sub(wait.from));
            activity.is_answered(call.seq, is_given);
            activity.blocks
        });
        if wait.ending == Ending::TimedOut && system.lock_of(Some(call)).is_some() {
            let owner = system.lock(object).and_then(|lock| system.thread(lock.owner?)).map(|owner| owner.address);
            self.tries.fails(thread, system.address(object), owner, event.seq);
        }
        if gets && wait.ending == Ending::TimedOut {
            let waited = event.ticks.saturating_sub(wait.from);
            self.repeated.times_out(thread, system.address(object), event.ticks, waited);
        }
        if let Some(one) = self.one(system.address(object)) {
            one.longest_wait = one.longest_wait.max(event.ticks.saturating_sub(wait.from));
            one.longest_wait_in_events = one.longest_wait_in_events.max(event.seq.saturating_sub(call.seq));
            if gets && wait.ending == Ending::TimedOut {
                one.times_out(thread, event.seq, event.ticks, event.ticks.saturating_sub(wait.from));
            }
            if gets && wait.ending == Ending::Given {
                one.short = None;
                one.away.given(thread, call.seq);
                if let Some(wanted) = one.wanted.get(&thread).copied() {
                    one.away.read(wanted.flags);
                }
                one.take(Taken { thread, seq: call.seq, at: event.ticks, blocks });
            }
        }
    }
}
