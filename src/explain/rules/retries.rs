//! The thread that runs tries the same again and again, without a time to wait: it sends to a queue that is full, or asks for a mutex
//! that another one has. Only a thread that is less urgent can change that. It is ready, and does not come to run while this one runs.
//! Memory alone shows it.
//!
//! Against it: the thread may sleep between two tries, and the queue may be full for a moment only. So it is a hint.

use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::usage::{Made, Usage, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::loop_calls::NoWait;
use super::words::place_at;
use super::yields;
use crate::abi::Addr;
use crate::kernel::api::{self, Act};
use crate::kernel::{Kind, Object, State, Thread};
use crate::trace::many;

/// So many tries in the trace are more than one round of work.
const TRIES: u64 = 4;

/// What a call does not get, and who can change that.
struct Lack {
    act: Act,
    /// `sends to queue orders, which is full`.
    words: String,
    /// `takes from it`.
    help: &'static str,
    shown: Evidence,
    helpers: Vec<Addr>,
}

/// A call that is tried again and again, and the threads that alone could change what it does not get.
struct Retry<'c> {
    thread: &'c Thread,
    made: Made,
    lack: Lack,
    helpers: Vec<&'c Thread>,
}

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let runs = graph.tasks.list.iter().filter(|task| task.does == Does::Runs);
    runs.filter_map(|task| Some(Retry::of(task.address, case)?.finding(case))).collect()
}

/// The same, as the reason why a thread does not block: where the newest events of the trace show it.
pub(super) fn no_wait(task: &Task, case: &Case<'_>) -> Option<NoWait> {
    let retry = Retry::of(task.address, case).filter(|_| task.does == Does::Runs)?;
    let (shown, (help, _)) = (retry.shown(case)?, retry.help());
    Some(NoWait {
        words: format!(
            ", as it {}, again and again in {}, without a time to wait ({} alone {help})",
            retry.lack.words,
            place_at(retry.made.at, case),
            retry.helpers(),
        ),
        next: retry.next(case),
        against: "that it tries again in its loop, and does nothing else there, is inferred from its code",
        evidence: [shown].into_iter().chain(retry.evidence(case)).collect(),
    })
}

/// True where the function that begins at an address has such a call of a thread.
pub(super) fn is_in(function: Addr, thread: Addr, case: &Case<'_>) -> bool {
    let start = |at: Addr| case.look.function(at).map(|of| of.address);
    Retry::of(thread, case).is_some_and(|retry| start(retry.made.at) == Some(function))
}

/// True for a thread that is ready, and less urgent than the one that runs.
fn is_kept_off(other: &Thread, by: &Thread) -> bool {
    let least = by.threshold.into_iter().chain(by.priority).min();
    let is_less = other.priority.zip(least).is_some_and(|(other, least)| other > least);
    other.state == Some(State::READY) && is_less
}

fn lack(object: &Object, made: &Made, thread: Addr, usage: &Usage<'_>, case: &Case<'_>) -> Option<Lack> {
    let act = api::action(&made.function)?.act;
    let label = case.object(object.address);
    match (act, object.kind) {
        (Act::Gives, Kind::Queue) if object.get("available_storage") == Some(0) => {
            let all = usage.who(Act::Takes, Some(Kind::Queue), object.address, None)?.into_iter();
            let address = |user| match user {
                User::Thread(thread) => Some(thread),
                _ => None,
            };
            let full =
                format!("{label}: {} messages, and room for no more", object.get("enqueued").unwrap_or_default());
            Some(Lack {
                act,
                words: format!("sends to {label}, which is full"),
                help: "takes from it",
                shown: Evidence::memory(object.address, full),
                helpers: all.map(address).collect::<Option<_>>()?,
            })
        }
        (Act::Takes, Kind::Mutex) => {
            let owner = object.owner().filter(|owner| *owner != 0 && *owner != thread)?;
            Some(Lack {
                act,
                words: format!("asks for {label}, which another thread has"),
                help: "has it",
                shown: Evidence::memory(object.address, format!("{label}: its owner")).holds(owner),
                helpers: vec![owner],
            })
        }
        _ => None,
    }
}

fn named(thread: &Thread) -> String {
    match thread.priority {
        Some(priority) => format!("{} (priority {priority})", thread.label()),
        None => thread.label(),
    }
}

impl<'c> Retry<'c> {
    fn of(thread: Addr, case: &Case<'c>) -> Option<Self> {
        let (kernel, usage) = case.kernel.zip(case.usage())?;
        let (user, own) = (User::Thread(thread), kernel.thread(thread)?);
        let tries = usage.calls_of(user).into_iter().filter(|made| made.wait == Some(0));
        tries.filter_map(|made| Some((kernel.object(made.object?)?, made))).find_map(|(object, made)| {
            let lack = lack(object, &made, thread, usage, case)?;
            let helpers: Option<Vec<&Thread>> = lack.helpers.iter().map(|at| kernel.thread(*at)).collect();
            let helpers = helpers.filter(|all| !all.is_empty() && all.iter().all(|other| is_kept_off(other, own)))?;
            let repeats = usage.repeats(user, lack.act, object.kind, object.address);
            repeats.then_some(Self { thread: own, made, lack, helpers })
        })
    }

    /// `journal (priority 20)`.
    fn helpers(&self) -> String {
        let all: Vec<String> = self.helpers.iter().map(|helper| named(helper)).collect();
        all.join(", ")
    }

    /// What they do, and `is` or `are`: only the readers of a queue may be several.
    fn help(&self) -> (&'static str, &'static str) {
        if self.helpers.len() == 1 { (self.lack.help, "is") } else { ("take from it", "are") }
    }

    fn evidence(&self, case: &Case<'_>) -> Vec<Evidence> {
        let of = |other: &&Thread| Evidence::memory(other.address, format!("{} is ready", named(other)));
        let text = format!("{} {}, here, in a loop", self.thread.label(), self.lack.words);
        let call = Evidence::symbol(self.made.at, &place_at(self.made.at, case), text);
        [self.lack.shown.clone(), call].into_iter().chain(self.helpers.iter().map(of)).collect()
    }

    /// The last of several events of such a call that did not get it, one after the other, among the newest events.
    fn shown(&self, case: &Case<'_>) -> Option<Evidence> {
        let (events, object) = (case.events?, self.made.object?);
        let is_own = |thread| events.is(self.thread.address, thread);
        let (times, seq) = match self.lack.act {
            Act::Gives => {
                let capacity = case.kernel?.object(object)?.get("capacity")?;
                let sent =
                    events.object(object)?.sent_again.filter(|sent| sent.held >= capacity && is_own(sent.thread))?;
                (sent.times, sent.seq)
            }
            _ => {
                let is_it = |(thread, lock): (Addr, Addr)| is_own(thread) && events.is(object, lock);
                let (_, failed) = events.tries.failed.iter().find(|(key, _)| is_it(**key))?;
                (failed.times, failed.seqs.1)
            }
        };
        let is_new = seq >= events.recent();
        let (name, often) = (self.thread.label(), many(times, "time", "times"));
        let text = format!("{name} {}, here, {often} one after the other", self.lack.words);
        // One that works for long between two tries does not block for another reason.
        let blocked = events.activity(self.thread.address).and_then(|activity| activity.blocked);
        let lasts = events.span.1.saturating_sub(blocked.map_or(events.span.0, |(at, ..)| at));
        let between = i64::try_from(times).ok().and_then(|times| lasts.checked_div(times))?;
        let is_tight = events.sleeps.period().is_none_or(|period| between <= period.saturating_mul(2));
        (times >= TRIES && is_new && is_tight).then(|| Evidence::event(seq, text))
    }

    fn next(&self, case: &Case<'_>) -> String {
        let (name, place) = (self.thread.label(), place_at(self.made.at, case));
        format!(
            "give the call in {place} a time to wait, or let {name} sleep between two tries: tx_thread_sleep returns at once where its ticks are 0"
        )
    }

    fn finding(&self, case: &Case<'_>) -> Finding {
        let ((help, are), place) = (self.help(), place_at(self.made.at, case));
        let looping = case.look.function(self.made.at).map(|function| function.address);
        // It gives way there to nobody who is less urgent.
        let relinquishes = looping.is_some_and(|looping| yields::repeats(looping, case));
        let between = if relinquishes { ", and calls tx_thread_relinquish there, too" } else { "" };
        let claim = format!(
            "{} {}, again and again in {place}, without a time to wait{between}; {}, which alone {help} and {are} ready, cannot run while {} runs",
            named(self.thread),
            self.lack.words,
            self.helpers(),
            self.thread.label()
        );
        let code = if relinquishes { Code::Starvation } else { Code::Livelock };
        let (against, next) = if relinquishes {
            let wait =
                format!("give the call in {place} a time to wait: tx_thread_relinquish lets no less urgent thread run");
            ("the loop may end after some tries", wait)
        } else {
            ("it may be so for a moment only, and it may sleep between two tries", self.next(case))
        };
        Finding::new(code, case.cap(Confidence::Hint), claim)
            .against([against])
            .evidence(self.evidence(case))
            .next(next)
            .threads([self.thread.address])
            .affected(self.helpers.iter().map(|helper| helper.address))
    }
}
