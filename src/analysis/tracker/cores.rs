//! Who has each core: below interrupts, in them, and from when on.

use super::{Call, Change, Found, Frame, Span, System, ThreadNo, ThreadState, Who};
use crate::catalogue::Role;
use crate::trace::Event;

/// More interrupts in each other than a processor has priorities: their ends are missing.
const MAX_DEPTH: usize = 256;

/// One core.
#[derive(Debug, Clone)]
pub(super) struct Core {
    /// Who has it below interrupts.
    pub running: Who,
    /// Who has it once interrupts, or initialization, are over.
    pub pending: Option<Who>,
    /// Ticks at which the interrupt ended that left a thread pending.
    pub ended: Option<i64>,
    /// True where the running thread goes on although another is pending: preemption is disabled. No event shows until when.
    pub held: bool,
    pub frames: Vec<Frame>,
    /// Ticks of its last event; `None` before the first.
    pub last: Option<i64>,
    /// True where its last event was an interrupt's whose beginning no event announced.
    pub bare_isr: bool,
    /// Ticks at which the running thread was last seen to run.
    pub seen: i64,
    /// True where its last event gave the core up and did not name to whom.
    pub gave_up: bool,
    /// The last call from the interrupt that is open.
    pub isr_call: Option<Call>,
}

impl Core {
    pub const fn new() -> Self {
        Self {
            running: Who::Unknown,
            pending: None,
            ended: None,
            held: false,
            frames: Vec::new(),
            last: None,
            bare_isr: false,
            seen: i64::MIN,
            gave_up: false,
            isr_call: None,
        }
    }

    /// Adds who had the core, unless the clock steps back.
    #[inline]
    pub fn span(&self, event: &Event, who: Who, from: i64, to: i64, found: &mut Found) {
        if from <= to {
            found.spans.push(Span { core: event.core, who, from, to });
        }
    }
}

impl System<'_> {
    /// The interrupts that are open on a core, the innermost last.
    #[must_use]
    pub fn frames(&self, core: u16) -> &[Frame] {
        self.cores.get(usize::from(core)).map_or(&[], |c| &c.frames)
    }

    /// True where the last event of a core is of an interrupt, or of what goes on below one that has not ended.
    #[must_use]
    pub fn is_in_isr(&self, core: u16) -> bool {
        self.cores.get(usize::from(core)).is_some_and(|c| c.bare_isr || !c.frames.is_empty())
    }

    /// Who has a core below its interrupts, also where an interrupt that has ended just gave the core away: the switch is
    /// reported with the next event, as another interrupt may follow at once.
    #[must_use]
    pub fn holder(&self, core: u16) -> Who {
        let Some(core) = self.cores.get(usize::from(core)) else { return Who::Unknown };
        core.pending.filter(|_| core.frames.is_empty() && core.ended.is_some()).unwrap_or(core.running)
    }

    /// Makes room for a core.
    #[inline]
    pub(super) fn add_core(&mut self, core: u16) {
        if usize::from(core) >= self.cores.len() {
            self.cores.resize(usize::from(core) + 1, Core::new());
        }
    }

    #[inline]
    pub(super) fn core(&mut self, core: u16) -> &mut Core {
        self.cores.get_mut(usize::from(core)).unwrap_or(&mut self.spare)
    }

    /// After an event that moves nothing: whether the next of the same context brings anything new.
    #[inline]
    pub(super) fn expect_quiet(&mut self, event: &Event, by: Who) {
        let Who::Thread(no) = by else { return };
        let runs = self.thread(no).is_some_and(|t| t.state == ThreadState::Running);
        let core = self.core(event.core);
        if runs && core.running == by && core.pending.is_none() {
            self.quiet = Some((event.core, event.context, event.priority));
        }
    }

    /// True where an event finds whom the events before left on its core, and no switch is to be done. Nearly all do.
    #[inline]
    pub(super) fn is_as_known(&mut self, event: &Event, below: Option<Who>) -> bool {
        let core = self.core(event.core);
        core.pending.is_none() && below == Some(core.running)
    }

    /// The time up to an event that finds whom the events before left. True where it is of an interrupt that no event
    /// announced.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        event: &Event,
        role: Option<&Role>,
        by: Who,
        below: Option<Who>,
        found: &mut Found,
    ) -> bool {
        let is_isr = by == Who::Isr;
        let core = self.core(event.core);
        let had = match (core.frames.is_empty(), is_isr && core.bare_isr) {
            (false, _) => Who::Isr,
            // Without an event of its end the interrupt may go on, or the thread below ran in between.
            (true, true) => Who::Unknown,
            (true, false) => core.running,
        };
        if !is_isr {
            core.frames.clear();
            core.isr_call = None;
        }
        (core.ended, core.gave_up) = (None, false);
        core.bare_isr = is_isr && core.frames.is_empty();
        let bare = core.bare_isr && !role.is_some_and(|r| r.isr_enter);
        if let Some(from) = core.last.replace(event.ticks) {
            core.span(event, had, from, event.ticks, found);
        }
        if let Some(Who::Thread(no)) = below {
            let own = !is_isr;
            if own {
                core.seen = event.ticks;
                self.set_priority(no, event.priority, found);
            }
            let state = self.thread(no).map(|t| t.state);
            if state.is_some_and(|s| s == ThreadState::Unknown || own && s != ThreadState::Running) {
                self.set_state(no, ThreadState::Running, event.ticks, None);
            }
        }
        if bare {
            found.change(Change::Unannounced);
        }
        bare
    }

    /// Who had a core up to an event, by the events before alone.
    fn predicted(core: &Core, by: Who, stays: bool) -> Who {
        let is_isr = by == Who::Isr;
        match (core.frames.is_empty(), core.pending) {
            (false, _) => Who::Isr,
            // Without an event of its end the interrupt may go on, or the thread below ran in between.
            (true, _) if is_isr && stays && core.bare_isr => Who::Unknown,
            // The interrupt before left a switch to do. The thread below did not go on, unless preemption was disabled.
            (true, Some(_)) if is_isr && stays && core.ended.is_some() && !core.held => Who::Unknown,
            // Threads are made ready, and none runs before initialization is over.
            (true, Some(_)) if stays || by == Who::Init => core.running,
            // Preemption was enabled again, and no event shows when.
            (true, Some(_)) if core.held => Who::Unknown,
            (true, pending) => pending.unwrap_or(core.running),
        }
    }

    /// The time up to any other event, and what its context shows of the core. True where it is of an interrupt that no
    /// event announced.
    pub(super) fn arrive(
        &mut self,
        event: &Event,
        role: Option<&Role>,
        by: Who,
        below: Option<Who>,
        found: &mut Found,
    ) -> bool {
        let is_isr = by == Who::Isr;
        let is_thread = matches!(by, Who::Thread(_));
        let begins = is_thread && below.is_some_and(|below| self.says_it_begins(event, below));
        let core = self.core(event.core);
        let last = core.last.replace(event.ticks);
        // The thread that had the core before is still there: what is pending is still to be done.
        let stays = below == Some(core.running) && !begins;
        let predicted = Self::predicted(core, by, stays);
        if !is_isr {
            core.frames.clear();
            core.isr_call = None;
        }
        let ended = core.ended.take();
        if !stays
            && by != Who::Init
            && core.frames.is_empty()
            && let Some(next) = core.pending.take()
        {
            let at = if std::mem::take(&mut core.held) { None } else { ended.or(Some(event.ticks)) };
            self.switch(event, at, next, found);
        }
        let core = self.core(event.core);
        let running = core.running;
        // What the event's own context says is certain.
        let agrees = below.is_none_or(|b| b == running);
        core.bare_isr = is_isr && core.frames.is_empty();
        let bare = core.bare_isr && !role.is_some_and(|r| r.isr_enter);
        self.time_before(event, (predicted, last), below.filter(|_| !agrees), begins, found);
        if is_thread {
            self.core(event.core).seen = event.ticks;
        }
        if let Some(below) = below.filter(|_| !agrees) {
            self.surprise(event, below, found);
        }
        // A thread that has blocked and names itself to whom its core goes: it does not run on.
        let hands_over = running == Who::Unknown && role.is_some_and(|r| r.run.is_some() && !r.ready && !r.block);
        if let Some(Who::Thread(no)) = below {
            self.found_at_work(event, no, is_thread, hands_over, found);
        }
        if bare {
            found.change(Change::Unannounced);
        }
        bare
    }

    /// The spans up to an event; `other` is who has the core against what the events before led to expect.
    fn time_before(
        &mut self,
        event: &Event,
        (predicted, last): (Who, Option<i64>),
        other: Option<Who>,
        begins: bool,
        found: &mut Found,
    ) {
        let core = self.core(event.core);
        let gave_up = std::mem::take(&mut core.gave_up);
        let seen = core.seen;
        let Some(from) = last else { return };
        let to = event.ticks;
        let mut span = |who, from, to| self.core(event.core).span(event, who, from, to, found);
        let Some(below) = other else { return span(predicted, from, to) };
        // The thread begins to run at this event, not before; an interrupt was at work up to it.
        if predicted == Who::Isr || begins {
            return span(predicted, from, to);
        }
        // It was made ready since the one before was last seen, by an interrupt, by another core or by an event that did
        // not name who runs next: it had the core from then on. Or the one before gave its core up without naming whom to.
        let since = match below {
            _ if gave_up => Some(from),
            Who::Thread(no) => self.ready_since(no).filter(|at| (seen..=to).contains(at)).map(|at| at.max(from)),
            _ => None,
        };
        let mut span = |who, from, to| self.core(event.core).span(event, who, from, to, found);
        match since {
            Some(at) => {
                span(predicted, from, at);
                span(below, at, to);
            }
            None => span(Who::Unknown, from, to),
        }
    }

    /// An event finds a thread on its core: in its own context, or interrupted.
    fn found_at_work(&mut self, event: &Event, no: ThreadNo, own: bool, hands_over: bool, found: &mut Found) {
        if own {
            self.set_priority(no, event.priority, found);
        }
        let Some(thread) = self.thread(no) else { return };
        let runs_on = match (own, thread.state) {
            (true, ThreadState::Running) => false,
            (true, ThreadState::Blocked(_)) => !hands_over,
            (true, _) => true,
            // What an interrupt says of the thread below it is as certain, where nothing else is known.
            (false, state) => state == ThreadState::Unknown,
        };
        if runs_on {
            self.set_state(no, ThreadState::Running, event.ticks, None);
        }
    }

    /// Ticks since which a thread is ready, where an event shows it.
    fn ready_since(&self, no: ThreadNo) -> Option<i64> {
        let thread = self.thread(no)?;
        (thread.state == ThreadState::Ready && thread.since_seq().is_some()).then_some(thread.since)
    }

    /// Another has the core than the events so far showed.
    fn surprise(&mut self, event: &Event, below: Who, found: &mut Found) {
        let at = self.says_it_begins(event, below).then_some(event.ticks);
        // A thread that was made ready within the trace has been given the core since.
        let given = matches!(below, Who::Thread(no) if self.ready_since(no).is_some());
        let core = self.core(event.core);
        (core.pending, core.held) = (None, false);
        if core.running == Who::Unknown && !given {
            core.running = below;
            if let (Who::Thread(no), Some(_)) = (below, at) {
                self.dispatched(event, at, no, found);
            }
            return;
        }
        self.switch(event, at, below, found);
    }

    /// True where the event says of its own context that it begins to run. Who decides who runs next runs already, also
    /// where it names itself.
    fn says_it_begins(&self, event: &Event, own: Who) -> bool {
        let (Some(role), Who::Thread(no)) = (self.role(event), own) else { return false };
        if !role.runs || role.decides {
            return false;
        }
        let target = role.target(role.run, self.trace.words(event));
        target.is_none_or(|t| self.thread(no).is_some_and(|own| own.address == t))
    }

    /// True where the event after one of a thread finds that thread still at work: it is its own, or of an interrupt that
    /// found it. A thread that stopped being ready is so only where it makes itself ready again, as when the kernel
    /// changes its priority.
    pub(super) fn is_still_there(&self, event: &Event, role: &Role, next: &Event) -> bool {
        if next.core != event.core || event.seq.checked_add(1) != Some(next.seq) {
            return false;
        }
        if next.context != event.context {
            return next.interrupted == Some(event.context);
        }
        let Some(after) = self.role(next).filter(|_| role.decides) else { return false };
        let own = || self.trace.contexts.get(event.context).map(|c| c.address);
        !role.block || (after.ready && after.target(after.ready_thread, self.trace.words(next)) == own())
    }

    pub(super) fn enters(&mut self, event: &Event, role: &Role, words: &[u64], found: &mut Found) {
        let number = role.isr_number.of(words);
        self.announced.any = true;
        let core = self.core(event.core);
        let depth = core.frames.len();
        if depth < MAX_DEPTH {
            core.frames.push(Frame { number, since: event.ticks });
        }
        (core.bare_isr, core.isr_call) = (false, None);
        found.change(Change::Entered { number, depth });
    }

    pub(super) fn exits(&mut self, event: &Event, role: &Role, words: &[u64], found: &mut Found) {
        let core = self.core(event.core);
        (core.bare_isr, core.isr_call) = (false, None);
        // Who runs now is seen at the next event: it may be of an interrupt that followed at once.
        core.ended = Some(event.ticks);
        core.held = role.preempt_disable.of(words).is_some_and(|n| n > 0);
        if let Some(frame) = core.frames.pop() {
            found.change(Change::Exited { frame });
        }
    }

    /// An event that does not name who runs next may leave the core to an unknown thread.
    pub(super) fn gives_up(&mut self, event: &Event, role: &Role, words: &[u64], by: Who) {
        if role.yields && matches!(by, Who::Thread(_)) {
            self.core(event.core).gave_up = true;
        }
        if role.block {
            let blocked = role.target(role.block_thread, words).map(|a| self.thread_at(a));
            let core = self.core(event.core);
            if blocked.is_some_and(|no| core.running == Who::Thread(no)) {
                core.running = Who::Unknown;
            }
        }
    }

    /// An event that names who runs next.
    pub(super) fn runs(
        &mut self,
        event: &Event,
        role: &Role,
        words: &[u64],
        (by, goes_on): (Who, bool),
        found: &mut Found,
    ) {
        let Some(target) = role.target(role.run, words) else { return };
        let next = match target {
            // Filled in late, and not yet: after a resumption or a relinquishment a thread runs.
            0 if !role.block => {
                self.core(event.core).gave_up = !role.ready;
                return;
            }
            0 => Who::Idle,
            address => Who::Thread(self.thread_at(address)),
        };
        let core = self.core(event.core);
        if next == core.running {
            // It keeps the core for now, whichever thread became ready.
            core.seen = event.ticks.saturating_add(1);
        }
        if role.is_slice {
            found.change(Change::Sliced { from: core.running, to: next });
        }
        // Who runs already goes on: there is nothing to switch.
        let pending = Some(next).filter(|next| *next != core.running);
        if matches!(by, Who::Isr | Who::Init) || !core.frames.is_empty() {
            core.pending = pending;
        } else if goes_on {
            (core.pending, core.held) = (pending, pending.is_some());
        } else {
            (core.pending, core.held) = (None, false);
            self.switch(event, Some(event.ticks), next, found);
        }
    }

    /// The core goes to a thread, at these ticks where they are known.
    fn switch(&mut self, event: &Event, at: Option<i64>, next: Who, found: &mut Found) {
        let since = at.unwrap_or(event.ticks);
        let before = std::mem::replace(&mut self.core(event.core).running, next);
        if before == next {
            return;
        }
        found.change(Change::Switch { from: before, to: next });
        if let Who::Thread(no) = before
            && self.thread(no).is_some_and(|t| t.state == ThreadState::Running)
        {
            self.set_state(no, ThreadState::Ready, since, Some(event.seq));
            if let Who::Thread(by) = next {
                found.change(Change::Preempted { thread: no, by });
            }
        }
        if let Who::Thread(no) = next {
            self.dispatched(event, at, no, found);
        }
    }

    fn dispatched(&mut self, event: &Event, at: Option<i64>, no: ThreadNo, found: &mut Found) {
        let since = at.unwrap_or(event.ticks);
        let was_ready = self.thread(no).filter(|t| t.state == ThreadState::Ready);
        let ready = was_ready.and_then(|t| Some((t.since, t.since_seq()?)));
        self.set_state(no, ThreadState::Running, since, Some(event.seq));
        found.change(Change::Dispatched { thread: no, ready, at });
    }
}
