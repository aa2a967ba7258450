//! Locks that nobody has: a semaphore that was created with a count of 1 has none left, and each thread that takes and puts it waits
//! for it, also with a time-out, or is not between a call that takes it and one that puts it, as its stack shows. Waits with a
//! time-out that are tried again and again end by none of them, and the trace may be too short to hold any event of the semaphore.
//!
//! Where one of them alone may have it, and has gone on, a function of it that has a path without a put may have kept it.
//!
//! It is likely where one of their functions has a path without a put. What is known of a stack holds only where each function that
//! takes the semaphore puts it, too.

use super::super::super::{Case, Code, Confidence, Evidence, Finding};
use super::super::words::{function_at, place_at, waiting};
use super::ended::Ended;
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::explain::usage::{Leak, Need, Stack, User};
use crate::kernel::api::Act;
use crate::kernel::{Kind, Thread};

/// The functions that create a semaphore, without and with a check of the arguments.
const CREATE: [&str; 2] = ["_tx_semaphore_create", "_txe_semaphore_create"];
/// The functions that get a semaphore.
const GET: [&str; 2] = ["_tx_semaphore_get", "_txe_semaphore_get"];
/// What speaks against it where stacks do not show it.
const MAY_WAIT_FOR_ITSELF: &str = "one of those that wait may have taken it before";
/// The most functions that are named.
const MOST: usize = 3;

/// The count with which the program creates a semaphore, and where.
pub(in super::super) fn created_with(semaphore: Addr, case: &Case<'_>) -> Option<(u32, Addr)> {
    let create: Vec<Addr> = CREATE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    case.usage()?.created_with(semaphore, &create)
}

/// What the users of a lock do that nobody has.
struct Lost {
    /// Those who wait for it.
    waiters: Vec<Addr>,
    /// Those who do not wait for it, and do not have it.
    others: Vec<Addr>,
    /// What is known of those who wait: each may have taken it before.
    waiting: Waiting,
    /// The only one that may have it, by its stack.
    holder: Option<Addr>,
}

/// Whether one who waits for a lock may have it itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    /// It has not taken it.
    Free,
    /// The function in which it waits may have taken it before, and not put it.
    Again,
    /// Its stack does not show it.
    Unknown,
}

/// A semaphore with the functions of its users that have a path without a put.
struct Leaky {
    semaphore: Addr,
    leaks: Vec<Leak>,
    /// The only user with such a function.
    keeper: Option<User>,
    users: Vec<User>,
    initial: Option<(u64, Evidence)>,
    /// Where no function has such a path: a user that other code terminates.
    ended: Option<Ended>,
}

impl ByCode<'_, '_> {
    /// Semaphores that are used as locks, of which none is left and nobody has one.
    pub(super) fn lost_locks(&self) -> Vec<Finding> {
        let semaphores = self.case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
        let is_none_left = |at: Addr| self.graph.tasks.waiting(at).next().is_some() && self.usage.is_lock(at);
        let all = semaphores.filter(|object| object.kind == Kind::Semaphore && object.get("count") == Some(0));
        all.map(|object| object.address).filter(|at| is_none_left(*at)).filter_map(|at| self.lost_lock(at)).collect()
    }

    fn lost_lock(&self, semaphore: Addr) -> Option<Finding> {
        let users = self.usage.who(Act::Gives, Some(Kind::Semaphore), semaphore, None)?;
        let lost = self.lost(semaphore, &users)?;
        // Who took it last is known.
        let is_known = |at: &Addr| self.graph.wait(*at).is_some_and(|edge| !edge.is_timed);
        if lost.waiters.iter().any(is_known) {
            return None;
        }
        if let Some(holder) = lost.holder {
            return self.kept_by(holder, semaphore, &lost);
        }
        let all = self.leaks(&users, semaphore);
        let keeper = if let [(user, _)] = all.as_slice() { Some(*user) } else { None };
        let mut leaks: Vec<Leak> = all.into_iter().map(|(_, leak)| leak).collect();
        leaks.sort_unstable_by_key(|leak| (leak.function, leak.at));
        leaks.dedup();
        leaks.truncate(MOST);
        let initial = self.initial(semaphore);
        let confidence = confidence(initial.as_ref().map(|(count, _)| *count), !leaks.is_empty(), lost.waiting)?;
        let ended = if leaks.is_empty() { self.ended(&users) } else { None };
        let of = Leaky { semaphore, leaks, keeper, users, initial, ended };
        Some(self.lost_finding(&lost, of, confidence))
    }

    /// Without a trace: the only one beside those that wait that may have a semaphore has gone on, and is in no function that takes it.
    /// A function that it called before has a path without a put.
    fn kept_by(&self, holder: Addr, semaphore: Addr, lost: &Lost) -> Option<Finding> {
        let (case, cpus) = (self.case, self.case.cpus.filter(|_| self.case.events.is_none())?);
        let leaks = self.usage.keeps(User::Thread(holder), semaphore);
        let [leak] = leaks.as_slice() else { return None };
        let is_there =
            |pc: &Addr| case.look.function(*pc & !1).is_some_and(|own| own.address & !1 == leak.function & !1);
        let (call, frames) = (cpus.call(holder)?, cpus.frames(holder)?);
        let waiter = *lost.waiters.first().filter(|_| !frames.iter().any(is_there))?;
        let (object, name, function) = (case.object(semaphore), case.label(holder), function_at(leak.function, case));
        let claim = format!(
            "{} for {object}, of which none is left (count 0): by the code {name} may have it, which has gone on to {}; {function} has a path \
             on which it takes it and does not put it",
            self.waits(&lost.waiters),
            call.label()
        );
        Some(
            Finding::new(Code::SemaphoreLeak, case.cap(Confidence::Hint), claim)
                .against([BY_CODE, "the thread may have it on purpose, and put it later"])
                .against((lost.waiting != Waiting::Free).then_some(MAY_WAIT_FOR_ITSELF))
                .evidence([
                    waiting(waiter, semaphore, case, self.graph),
                    self.path(User::Thread(holder), leak, "puts it"),
                ])
                .waiters(lost.waiters.clone(), waiter, case, self.graph)
                .next(format!("look for the path of {function} on which it does not put {object}"))
                .threads([waiter]),
        )
    }

    /// `flash waits` or `flash, modem wait`.
    fn waits(&self, waiters: &[Addr]) -> String {
        let names: Vec<String> = waiters.iter().map(|at| self.case.label(*at)).collect();
        format!("{} {}", names.join(", "), if waiters.len() == 1 { "waits" } else { "wait" })
    }

    /// `None` where several of the users may have it.
    fn lost(&self, semaphore: Addr, users: &[User]) -> Option<Lost> {
        let mut lost = Lost { waiters: Vec::new(), others: Vec::new(), waiting: Waiting::Free, holder: None };
        let is_by_callers = self.usage.is_put_by_callers(users, Kind::Semaphore, semaphore);
        let is_clear = is_by_callers || self.usage.is_put_where_taken(users, Kind::Semaphore, semaphore);
        for user in users {
            let User::Thread(thread) = user else { return None };
            let waits = self.graph.tasks.at(*thread)?.wait.is_some_and(|wait| wait.object == semaphore);
            let has_it = || {
                let callers = self.case.cpus.and_then(|cpus| cpus.callers(*thread)).filter(|_| is_clear);
                callers.is_none_or(|callers| self.usage.may_hold(*user, semaphore, Stack::of_call(callers)))
            };
            match waits {
                true => {
                    lost.waiting = lost.waiting.max(self.waiting(*thread, semaphore, is_clear)?);
                    lost.waiters.push(*thread);
                }
                // It is still in the call, whose time is over.
                false if self.got_nothing(*thread, semaphore) => {
                    lost.waiting = lost.waiting.max(self.waiting(*thread, semaphore, is_clear)?);
                    lost.others.push(*thread);
                }
                false if has_it() && lost.holder.replace(*thread).is_some() => return None,
                false if lost.holder == Some(*thread) => {}
                false => lost.others.push(*thread),
            }
        }
        let is_user = |at: Addr| lost.waiters.contains(&at);
        let are_all_users = self.graph.tasks.waiting(semaphore).all(|task| is_user(task.address));
        (are_all_users && !lost.waiters.is_empty()).then_some(lost)
    }

    /// True where a thread waited for it, its time is over, and it has not come out of that call.
    fn got_nothing(&self, thread: Addr, semaphore: Addr) -> bool {
        let last = self.case.thread(thread).and_then(Thread::got_nothing);
        let is_get = |pc: &Addr| self.case.look.function(*pc & !1).is_some_and(|of| GET.contains(&of.name.as_str()));
        let frames = || self.case.cpus.and_then(|cpus| cpus.frames(thread)).unwrap_or_default();
        last.is_some_and(|(object, _)| object == semaphore) && frames().iter().any(is_get)
    }

    /// Whether a thread that waits may have it; `None` where one of its functions that called the one in which it waits may have
    /// taken it: then it waits for itself.
    fn waiting(&self, thread: Addr, semaphore: Addr, is_clear: bool) -> Option<Waiting> {
        let user = User::Thread(thread);
        let known = || {
            let cpus = self.case.cpus.filter(|_| is_clear)?;
            let (callers, own) = (cpus.callers(thread)?, cpus.call(thread)?.pc);
            let at = callers.iter().position(|pc| *pc == own)?;
            Some((own, callers.get(at.checked_add(1)?..)?))
        };
        let Some((own, outer)) = known() else { return Some(Waiting::Unknown) };
        if self.usage.may_hold(user, semaphore, Stack::of_call(outer)) {
            return None;
        }
        Some(if self.usage.may_hold(user, semaphore, Stack::of_call(&[own])) { Waiting::Again } else { Waiting::Free })
    }

    /// The count with which a semaphore was created: by the registry of the trace, or by the program's code.
    fn initial(&self, semaphore: Addr) -> Option<(u64, Evidence)> {
        let text = |count: u64| format!("{} was created with a count of {count}", self.case.object(semaphore));
        let in_trace = self.case.events.and_then(|events| events.initial(semaphore));
        let in_trace = in_trace.map(|count| (count, Evidence::memory(semaphore, text(count))));
        in_trace.or_else(|| {
            let (count, at) = created_with(semaphore, self.case)?;
            let count = u64::from(count);
            Some((count, Evidence::symbol(at, &place_at(at, self.case), text(count))))
        })
    }

    fn lost_claim(&self, lost: &Lost, of: &Leaky) -> String {
        let names = |all: &[Addr]| all.iter().map(|at| self.case.label(*at)).collect::<Vec<_>>().join(", ");
        let others = match lost.others.as_slice() {
            [] => "no other thread takes or puts it".to_owned(),
            [other] => format!("{}, which takes and puts it, too, does not have it", self.case.label(*other)),
            others => format!("{}, which take and put it, too, do not have it", names(others)),
        };
        let functions: Vec<String> = of.leaks.iter().map(|leak| self.taken_at(leak, &lost.waiters)).collect();
        let functions = functions.join(", or ");
        let path = match (of.keeper, functions.as_str()) {
            (_, "") => String::new(),
            (Some(user), _) => {
                format!("; {} has a path in {functions} on which it takes it and does not put it", self.name(user))
            }
            (None, _) => format!("; {functions} has a path on which it takes it and does not put it"),
        };
        let object = self.case.object(of.semaphore);
        let path = of.ended.as_ref().map_or(path, |ended| format!("; {}", ended.has(&object)));
        let none = if lost.waiting == Waiting::Free { "which nobody has" } else { "of which none is left" };
        format!("{} for {object}, {none} (count 0): {others}{path}", self.waits(&lost.waiters))
    }

    fn lost_finding(&self, lost: &Lost, of: Leaky, confidence: Confidence) -> Finding {
        let (semaphore, object) = (of.semaphore, self.case.object(of.semaphore));
        let paths = of.leaks.iter().map(|leak| {
            let text = format!("{object} is taken here, and a path leads on from here on which it is not put");
            Evidence::symbol(leak.at, &self.taken_at(leak, &lost.waiters), text)
        });
        let need = Need { act: Act::Gives, kind: Kind::Semaphore, object: semaphore, wanted: None };
        let stacks = lost.others.iter().map(|at| {
            let text = format!("{}: no function on its stack has taken {object}", self.case.label(*at));
            Evidence::memory(*at, text)
        });
        let next = match (of.leaks.first(), &of.ended) {
            (Some(leak), _) => {
                format!(
                    "look for a path of {} that returns without tx_semaphore_put",
                    function_at(leak.function, self.case)
                )
            }
            (None, Some(ended)) => ended.next(&object),
            (None, None) => format!("look for a path that takes {object} and returns without tx_semaphore_put"),
        };
        let stack = (!lost.others.is_empty()).then_some("that a thread does not have it is inferred from its stack");
        let behind: Vec<Addr> = self.graph.waiters(&lost.waiters);
        Finding::new(Code::SemaphoreLeak, self.case.cap(confidence), self.lost_claim(lost, &of))
            .against([BY_CODE])
            .against(stack)
            .against((lost.waiting == Waiting::Unknown).then_some(MAY_WAIT_FOR_ITSELF))
            .evidence(lost.waiters.iter().take(MOST).map(|at| waiting(*at, semaphore, self.case, self.graph)))
            .evidence([self.users(&of.users, &need)])
            .evidence(of.initial.map(|(_, evidence)| evidence))
            .evidence(stacks)
            .evidence(paths)
            .evidence(of.ended.map(|ended| ended.evidence))
            .next(next)
            .affected(lost.waiters.iter().copied().chain(behind))
            .threads(lost.waiters.iter().copied())
    }

    /// Where a function takes a semaphore, with the line where a thread waits there.
    fn taken_at(&self, leak: &Leak, waiters: &[Addr]) -> String {
        let calls = waiters.iter().filter_map(|at| self.case.cpus?.call(*at));
        let mut there = calls.filter(|call| call.pc.checked_sub(leak.at).is_some_and(|len| (1..=4).contains(&len)));
        there.next().map_or_else(|| place_at(leak.at, self.case), crate::kernel::CalledFrom::label)
    }
}

/// How sure it is that a semaphore was lost that nobody has. `initial`: the count with which it was created. `has_path`: a function
/// has a path on which it takes it and does not put it. Of several, each thread may have one and wait for another; of none, it is a
/// signal. Who may wait for itself is at most a hint.
fn confidence(initial: Option<u64>, has_path: bool, waiting: Waiting) -> Option<Confidence> {
    match (initial, has_path) {
        (Some(1), true) if waiting == Waiting::Unknown => Some(Confidence::Hint),
        (Some(1), true) => Some(Confidence::Likely),
        (Some(1), false) | (None, true) => Some(Confidence::Hint),
        (Some(count), true) if count > 1 => Some(Confidence::Hint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that wait for a lock with a time-out, which one of them did not put, were taken for a healthy system.
    #[test]
    fn a_lock_that_nobody_has_was_healthy_where_waits_have_a_time_out() {
        assert_eq!(confidence(Some(1), true, Waiting::Free), Some(Confidence::Likely));
        assert_eq!(confidence(Some(1), false, Waiting::Free), Some(Confidence::Hint), "no path shows it");
        assert_eq!(confidence(None, true, Waiting::Free), Some(Confidence::Hint));
        assert_eq!(confidence(Some(4), true, Waiting::Free), Some(Confidence::Hint), "each may have one");
        assert_eq!(confidence(Some(1), true, Waiting::Unknown), Some(Confidence::Hint), "it may wait for itself");
        assert_eq!(
            (confidence(Some(0), true, Waiting::Free), confidence(None, false, Waiting::Free)),
            (None, None),
            "a signal"
        );
    }
}
