//! Waits that cannot end by the program's code: all who can give what a thread waits for wait for ever themselves, have ended, or
//! are timers that are off, or handlers whose interrupt is pending and disabled. Only a handler that gives it, or a thread that
//! goes on, could help, and no code of theirs does.
//!
//! Which failure that is: a semaphore that all of its users take and put is a lock, and one of them ended with it, or has a path
//! without a put; a pool is used up, and one thread has a path that does not release its memory, also where others that go on may
//! release some, but memory shows that the blocks are lost; threads wait for each other in a circle; who alone gave has ended. A
//! thread that gave once and ended is healthy: it is likely only where it gave in a loop.

mod circles;
mod cleared_late;
mod computed_flags;
mod crossed;
mod ended;
mod given;
mod guarded;
mod kept;
pub(super) mod lost_lock;
mod lost_request;
mod lost_update;
mod outside;
mod own_queue;
mod pools;
mod restarted;
mod ring;
mod suspended;
mod unanswered;
mod unregistered;
mod unsent;
mod unset;

use super::super::graph::Graph;
use super::super::state::{Does, Wait};
use super::super::usage::{Leak, Need, Stuck, Usage, Use, User, time_outs};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::semaphore_leak;
use super::words::{function_at, gives, missing, place_at, suspended_by, waiting, waits};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const BY_CODE: &str = "who can give it is inferred from the program's code";
/// The same of what is given through a pointer.
const BY_POINTER: &str = "that it is given through a pointer is inferred: no other call was found that can give it";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_wait = |wait: Wait| wait.forever || wait.kind == Kind::Semaphore || time_outs(wait.object, case).is_some();
    if !graph.tasks.list.iter().any(|task| task.wait.is_some_and(is_wait)) {
        return Vec::new();
    }
    let Some(usage) = case.usage() else { return Vec::new() };
    let stuck = Stuck::of(case, graph, usage);
    let code = ByCode { case, graph, usage, stuck: &stuck };
    let mut found: Vec<Finding> = Vec::new();
    let all = [
        ByCode::locks,
        ByCode::lost_locks,
        ByCode::kept_locks,
        ByCode::outside_mutexes,
        ByCode::kept_mutexes,
        ByCode::pools,
        ByCode::own_queues,
        ByCode::rings,
        ByCode::cleared_late,
        ByCode::guarded,
        ByCode::unregistered,
        ByCode::restarted,
        ByCode::unsent,
        ByCode::computed_flags,
        ByCode::unanswered,
        ByCode::places,
        ByCode::lost_requests,
        ByCode::crossed,
        ByCode::circles,
        ByCode::suspended,
        ByCode::gone,
        ByCode::unset,
    ];
    let through_pointers = Stuck::through_pointers(case, graph, usage);
    let by_pointer = ByCode { stuck: &through_pointers, ..code };
    for finding in all.iter().flat_map(|of| of(&code)).chain(by_pointer.circles()) {
        let is_said = |at: &Addr| found.iter().any(|f| f.threads.contains(at) || f.affected.contains(at));
        if finding.threads.is_empty() || !finding.threads.iter().all(is_said) {
            found.push(finding);
        }
    }
    found
}

/// Who gives what a thread waits for.
pub(super) struct Givers {
    pub names: Vec<String>,
    /// The threads among them.
    pub threads: Vec<Addr>,
    /// That these are all, and where each of the first does it.
    pub evidence: Vec<Evidence>,
}

/// The most who give something whose calls are named.
const MOST_SITES: usize = 2;

/// Who gives what a thread waits for, by the code of the program. `None` where others may.
pub(super) fn givers(wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Givers> {
    let (usage, stuck) = (case.usage()?, Stuck::default());
    let wanted = missing(wait, case);
    let need = Need { act: Act::Gives, kind: wait.kind, object: wait.object, wanted };
    let users = usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
    let code = ByCode { case, graph, usage, stuck: &stuck };
    let thread = |user: &User| if let User::Thread(at) = user { Some(*at) } else { None };
    Some(Givers {
        names: users.iter().map(|user| code.name(*user)).collect(),
        threads: users.iter().filter_map(thread).collect(),
        evidence: std::iter::once(code.users(&users, &need))
            .chain(users.iter().take(MOST_SITES).filter_map(|user| code.site(*user, &need)))
            .collect(),
    })
}

/// The only thread whose code receives from a queue; `None` where others may.
pub(super) fn only_reader(queue: Addr, case: &Case<'_>) -> Option<Addr> {
    match case.usage()?.who(Act::Takes, Some(Kind::Queue), queue, None)?.as_slice() {
        [User::Thread(only)] => Some(*only),
        _ => None,
    }
}

/// Those of some flags of a group that no code of threads, callbacks and handlers gets; all where that is not known.
pub(super) fn not_got(flags: u64, group: Addr, case: &Case<'_>) -> u64 {
    let Some(usage) = case.usage() else { return flags };
    let users = |bit| usage.who(Act::Takes, Some(Kind::EventFlags), group, Some(bit));
    let bits = (0..u32::BITS).map(|n| 1_u64 << n).filter(|bit| flags & bit != 0);
    bits.filter(|bit| users(*bit).is_none_or(|users| users.is_empty())).fold(0, |all, bit| all | bit)
}

/// What is called that runs code by itself.
pub(super) fn user_name(user: User, case: &Case<'_>) -> String {
    match user {
        User::Thread(at) => case.label(at),
        User::Callback(at) => case.object(at),
        User::Handler(number) => case.exception(number.into()),
        User::Start => "the start-up code".to_owned(),
        User::Other(at) => function_at(at, case),
    }
}

/// What is looked at.
#[derive(Clone, Copy)]
struct ByCode<'r, 'a> {
    case: &'r Case<'a>,
    graph: &'r Graph,
    usage: &'r Usage<'a>,
    stuck: &'r Stuck,
}

impl ByCode<'_, '_> {
    /// Objects of these kinds that threads wait for which cannot go on.
    fn waited(&self, is: impl Fn(Kind) -> bool) -> Vec<Need> {
        let mut all: Vec<Need> = self.stuck.waits.values().filter(|need| is(need.kind)).copied().collect();
        all.sort_unstable_by_key(|need| need.object);
        all.dedup_by_key(|need| need.object);
        all
    }

    /// Threads that wait for an object.
    fn waiters(&self, object: Addr) -> Vec<Addr> {
        let all = self.stuck.waits.iter().filter(|(_, need)| need.object == object);
        all.map(|(thread, _)| *thread).collect()
    }

    /// Those who could help a thread, but for those that wait for the same.
    fn others(&self, thread: Addr, object: Addr) -> Vec<User> {
        let wanted = self.stuck.waits.get(&thread).and_then(|need| need.wanted);
        // Who waits for other flags of the same group can give these.
        let is_same = |need: &Need| {
            let is_flag = need.wanted.zip(wanted).is_none_or(|(theirs, wanted)| theirs & wanted != 0);
            need.object == object && is_flag
        };
        let waits = |user: &User| matches!(user, User::Thread(at) if self.stuck.waits.get(at).is_some_and(is_same));
        self.stuck.helpers(thread).iter().copied().filter(|user| !waits(user)).collect()
    }

    fn waits_for(&self, thread: Addr) -> Option<Addr> {
        self.stuck.waits.get(&thread).map(|need| need.object)
    }

    /// What a user is called, and why it cannot go on.
    fn state(&self, user: User) -> (String, String) {
        let is = match user {
            User::Thread(at) => match (self.waits_for(at), self.graph.tasks.at(at).and_then(|task| task.does.gone())) {
                (Some(object), _) => format!("waits for {}", self.case.object(object)),
                (None, gone) => {
                    let by = suspended_by(at, self.case, self.graph).filter(|_| self.is_suspended(at));
                    let by = by.map_or_else(String::new, |(by, _)| format!(" ({by})"));
                    format!("{}{by}", gone.unwrap_or("does not go on"))
                }
            },
            User::Handler(_) => "is pending and disabled in the interrupt controller".to_owned(),
            _ => "is off".to_owned(),
        };
        (self.name(user), is)
    }

    fn name(&self, user: User) -> String {
        user_name(user, self.case)
    }

    /// Semaphores that all of their users take and put.
    fn locks(&self) -> Vec<Finding> {
        let all = self.waited(|kind| kind == Kind::Semaphore);
        let is_known = |need: &Need| self.waiters(need.object).iter().any(|at| self.graph.wait(*at).is_some());
        all.iter().filter(|need| !is_known(need)).filter_map(|need| self.lock(need.object)).collect()
    }

    fn lock(&self, semaphore: Addr) -> Option<Finding> {
        let users = self.usage.who(Act::Gives, Some(Kind::Semaphore), semaphore, None)?;
        let waiters = self.waiters(semaphore);
        let (first, rest) = waiters.split_first().filter(|_| self.usage.is_lock(semaphore))?;
        let others = self.others(*first, semaphore);
        // Who waits for something else may have it: that wait is the cause.
        if others.iter().any(|user| matches!(user, User::Thread(at) if self.waits_for(*at).is_some())) {
            return None;
        }
        let leaks = self.leaks(&users, semaphore);
        let of_others = || leaks.iter().find(|(user, _)| others.contains(user));
        let leak = of_others().or_else(|| leaks.first().filter(|_| leaks.len() == 1));
        let culprit = leak.map(|(user, _)| *user).or_else(|| others.first().copied().filter(|_| others.len() == 1));
        let is_gone = culprit.is_some_and(|user| others.contains(&user));
        let (object, waiter) = (self.case.object(semaphore), self.case.label(*first));
        let ended = self.ended_of(&users, culprit);
        let kept = || semaphore_leak::keeper(&users, semaphore, self.case);
        let kept = if culprit.is_none() && ended.is_none() { kept() } else { None };
        let claim = match culprit {
            Some(user) if is_gone => {
                let (name, is) = self.state(user);
                let by = ended.as_ref().map_or_else(String::new, |ended| format!(" ({})", ended.words));
                format!(
                    "{waiter} waits for {object}; of those that take and put it, {name} {is}{by}, and all others wait for it"
                )
            }
            Some(user) => format!(
                "{waiter} waits for {object}, and all that put it wait for it; {} has a path on which it takes it and does not put it",
                self.name(user)
            ),
            None if others.is_empty() => {
                let by = ended.as_ref().map_or_else(String::new, |ended| format!("; {}", ended.has(&object)));
                let path = kept.as_ref().map_or_else(String::new, |(function, _)| {
                    format!("; {function} has a path on which it takes it and does not put it")
                });
                format!("{waiter} waits for {object}, and all that take and put it wait for it{by}{path}")
            }
            None => return None,
        };
        let path = leak.map(|(user, leak)| self.path(*user, leak, "puts it"));
        let named = culprit.and_then(|user| if let User::Thread(at) = user { Some(at) } else { None });
        let threads: Vec<Addr> =
            named.into_iter().chain(named.filter(|at| at == first).is_none().then_some(*first)).collect();
        let code = if is_gone { Code::LockOwnerGone } else { Code::SemaphoreLeak };
        let next = match culprit {
            Some(user) if self.was_terminated(user) => ended.as_ref().map_or_else(
                || format!("find out who terminates {}: it does not put what it has taken", self.name(user)),
                |ended| ended.next(&object),
            ),
            Some(user) => format!("look for a path of {} that returns without tx_semaphore_put", self.name(user)),
            None => match (&ended, &kept) {
                (Some(ended), _) => ended.next(&object),
                (None, Some((function, _))) => {
                    format!("look for the path of {function} on which it does not put {object}")
                }
                (None, None) => format!("look for a path that takes {object} and returns without tx_semaphore_put"),
            },
        };
        let behind = self.stuck.behind(&waiters);
        Some(
            Finding::new(code, self.case.cap(Confidence::Likely), claim)
                .against([BY_CODE])
                .evidence([
                    waiting(*first, semaphore, self.case, self.graph),
                    self.users(
                        &users,
                        &Need { act: Act::Gives, kind: Kind::Semaphore, object: semaphore, wanted: None },
                    ),
                ])
                .evidence(culprit.filter(|_| is_gone).and_then(|user| self.gone_evidence(user)))
                .evidence(path)
                .evidence(kept.map(|(_, evidence)| evidence))
                .evidence(ended.map(|ended| ended.evidence))
                .explains(rest.iter().chain(&behind).filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(waiters.iter().chain(&behind).copied())
                .next(next)
                .threads(threads),
        )
    }

    /// Users that have a path on which they take a semaphore and do not put it.
    fn leaks(&self, users: &[User], semaphore: Addr) -> Vec<(User, Leak)> {
        let leak = |user: &User| Some((*user, self.usage.leak(*user, Kind::Semaphore, semaphore)?));
        users.iter().filter_map(leak).collect()
    }

    /// That all who give something are these.
    fn users(&self, users: &[User], need: &Need) -> Evidence {
        let names: Vec<String> = users.iter().map(|user| self.name(*user)).collect();
        let does = match (need.act, need.wanted) {
            (Act::Takes, _) => "read from it".to_owned(),
            (_, Some(wanted)) if users.iter().all(|user| self.knows_flags(*user, need)) => {
                format!("set {wanted:#x} of it")
            }
            (_, Some(wanted)) => format!("may set {wanted:#x} of it"),
            _ => format!("{} it", gives(need.kind)),
        };
        let text = match names.as_slice() {
            [] => format!("no code was found that can {does}"),
            names => format!("by the code, all that {does} are: {}", names.join(", ")),
        };
        Evidence::memory(need.object, text)
    }

    /// True where the code says which flags a user sets.
    fn knows_flags(&self, user: User, need: &Need) -> bool {
        self.usage.knows_flags(user, need.object)
    }

    /// Where a user gives something.
    fn site(&self, user: User, need: &Need) -> Option<Evidence> {
        let at = self.usage.site(user, |one| {
            let is_it = one.action.act == need.act && one.action.kind == Some(need.kind);
            let is_wanted = one.flags.zip(need.wanted).is_none_or(|(flags, wanted)| u64::from(flags) & wanted != 0);
            is_it && one.object == Some(need.object) && is_wanted
        })?;
        let what = match (need.kind, need.wanted) {
            (Kind::EventFlags, Some(_)) if !self.knows_flags(user, need) => {
                format!("sets flags of {}, and the code does not say which,", self.case.object(need.object))
            }
            (Kind::EventFlags, Some(wanted)) => format!("sets {wanted:#x} of {}", self.case.object(need.object)),
            (Kind::EventFlags, None) => format!("sets flags of {}", self.case.object(need.object)),
            (Kind::Queue, _) => format!("sends to {}", self.case.object(need.object)),
            (Kind::Semaphore | Kind::Mutex, _) => format!("puts {}", self.case.object(need.object)),
            _ => format!("releases memory of {}", self.case.object(need.object)),
        };
        Some(Evidence::symbol(at, &place_at(at, self.case), format!("{} {what} here", self.name(user))))
    }

    /// The path on which a user keeps something.
    fn path(&self, user: User, leak: &Leak, gives: &str) -> Evidence {
        let (place, name) = (place_at(leak.at, self.case), self.name(user));
        let text = format!("{name} takes it here, and a path leads on from here on which it never {gives}");
        Evidence::symbol(leak.at, &place, text)
    }

    /// The only one who could help a thread, but for those that wait for the same. Of several threads that wait for one object, the first
    /// stands for all.
    fn only(&self, thread: Addr) -> Option<User> {
        self.helping(thread)?.first().copied()
    }

    /// The same, all of them.
    fn helping(&self, thread: Addr) -> Option<Vec<User>> {
        let others = self.others(thread, self.waits_for(thread)?);
        let need = |user: &User| match user {
            User::Thread(at) => self.stuck.waits.get(at).map(|need| (need.object, need.wanted)),
            _ => None,
        };
        let first = others.first()?;
        let is_same = others.len() == 1 || need(first).is_some() && others.iter().all(|user| need(user) == need(first));
        is_same.then_some(others)
    }

    /// All who give what a thread waits for have ended or are off.
    fn gone(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for (thread, need) in &self.stuck.waits {
            let is_said = |f: &Finding| f.affected.contains(thread);
            let is_other = need.kind == Kind::Mutex || need.kind == Kind::Semaphore && self.usage.is_lock(need.object);
            if !is_other && !found.iter().any(is_said) {
                found.extend(self.gone_givers(*thread, need));
            }
        }
        found
    }

    fn gone_givers(&self, thread: Addr, need: &Need) -> Option<Finding> {
        let others = self.others(thread, need.object);
        let waits_too = |user: &User| matches!(user, User::Thread(at) if self.waits_for(*at).is_some());
        let is_pool = matches!(need.kind, Kind::BlockPool | Kind::BytePool);
        if others.is_empty() || others.iter().any(waits_too) || is_pool {
            return None;
        }
        let left = others.iter().find_map(|user| self.left(*user));
        let goes_on = |user: &User| self.usage.repeats(*user, need.act, need.kind, need.object);
        let is_sure = left.is_some() && others.iter().all(|user| self.has_ended(*user)) && others.iter().any(goes_on);
        let are_handlers = others.iter().all(|user| matches!(user, User::Handler(_)));
        let is_sure = is_sure || are_handlers;
        let (name, object) = (self.case.label(thread), self.case.object(need.object));
        let states: Vec<String> =
            others.iter().map(|user| self.state(*user)).map(|(name, is)| format!("{name} {is}")).collect();
        let does = match (need.kind, need.act) {
            (_, Act::Takes) => "read",
            (kind, _) => gives(kind),
        };
        let timed_out = others.iter().find_map(|user| self.timed_out(*user, need));
        let (after, site) = timed_out.unzip();
        let claim = format!(
            "{name} waits for {object}, and those that {does} it by their code do not: {}{}",
            states.join(", "),
            after.as_deref().unwrap_or_default()
        );
        let waiters = self.waiters(need.object);
        let behind = self.stuck.behind(&waiters);
        let first = others.first().and_then(|user| if let User::Thread(at) = user { Some(*at) } else { None });
        let code = if need.act == Act::Takes { Code::QueueFull } else { Code::EventNeverSet };
        Some(
            Finding::new(code, self.case.cap(if is_sure { Confidence::Likely } else { Confidence::Hint }), claim)
                .against([BY_CODE])
                .against((!are_handlers).then_some("they may have done all that they were to do"))
                .evidence([waiting(thread, need.object, self.case, self.graph), self.users(&others, need)])
                .evidence(left)
                .evidence(site)
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(waiters.iter().chain(&behind).copied())
                .next(if are_handlers {
                    "find out who disables this interrupt (NVIC_ICER), and who should enable it again".to_owned()
                } else {
                    format!(
                        "find out why {}: look at the paths on which its function returns or is stopped",
                        states.join(", ")
                    )
                })
                .threads(first.into_iter().chain([thread])),
        )
    }

    /// That the last wait of one who has ended was for the same object, and timed out: `, after its last wait for it timed out`.
    fn timed_out(&self, user: User, need: &Need) -> Option<(String, Evidence)> {
        let User::Thread(at) = user else { return None };
        let thread = self.case.thread(at).filter(|_| self.has_ended(user))?;
        // A thread may send to the queue that it reads, too.
        let is_it = |status: &str| need.act == Act::Takes && status != "TX_QUEUE_FULL";
        let (_, status) = thread.got_nothing().filter(|(object, status)| *object == need.object && is_it(status))?;
        let object = self.case.object(need.object);
        let takes = |one: &Use| {
            one.action.act == need.act && one.action.kind == Some(need.kind) && one.object == Some(need.object)
        };
        let place =
            self.usage.site(user, takes).map_or_else(String::new, |at| format!(" in {}", place_at(at, self.case)));
        let words = format!(", after its last wait for it{place} had timed out ({status})");
        let text = format!("{}: its last wait was for {object}, and its call returned {status}", self.name(user));
        Some((words, Evidence::memory(at, text)))
    }

    /// That a thread has ended.
    fn gone_evidence(&self, user: User) -> Option<Evidence> {
        let User::Thread(at) = user else { return None };
        let gone = self.graph.tasks.at(at)?.does.gone()?;
        Some(Evidence::memory(at, format!("{}: {gone}", self.case.label(at))))
    }

    fn is_suspended(&self, thread: Addr) -> bool {
        self.graph.tasks.at(thread).is_some_and(|task| task.does == Does::Suspended)
    }

    fn was_terminated(&self, user: User) -> bool {
        let does = |at| self.graph.tasks.at(at).map(|task| task.does);
        matches!(user, User::Thread(at) if does(at) == Some(Does::Terminated))
    }

    fn has_ended(&self, user: User) -> bool {
        let does = |at| self.graph.tasks.at(at).map(|task| task.does);
        matches!(user, User::Thread(at) if matches!(does(at), Some(Does::Completed | Does::Terminated)))
    }

    /// What is left for one who has ended: it alone takes it, and some is there.
    fn left(&self, user: User) -> Option<Evidence> {
        let has_some = |object: &&crate::kernel::Object| match object.kind {
            Kind::Queue => object.get("enqueued").is_some_and(|held| held > 0),
            Kind::Semaphore => object.get("count").is_some_and(|count| count > 0),
            _ => false,
        };
        let is_alone = |object: &&crate::kernel::Object| {
            self.usage.who(Act::Takes, Some(object.kind), object.address, None).is_some_and(|all| all == [user])
        };
        let object = self.case.kernel?.objects.iter().filter(has_some).find(is_alone)?;
        let text = format!(
            "{}: {}; {} alone takes from it",
            self.case.object(object.address),
            object.state(&|_| String::new()),
            self.name(user)
        );
        Some(Evidence::memory(object.address, text))
    }
}
