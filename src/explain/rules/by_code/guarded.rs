//! A thread waits for what is given only while a variable allows it: with what the variable holds now, no path of those who give it
//! leads to their call, and only threads that cannot go on before it is given change the variable. As in a hand-shake: who makes work
//! wakes the worker where `pending` is 0, and the worker alone sets it to 0, after it was woken.
//!
//! Against it: the variable may be changed through a pointer that is read from memory. Where no code was seen to change it at all, it
//! may be what switches something off on purpose: a hint. So is a wait that may have just begun: who gives may have seen the variable
//! as it was before.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::super::state::{Does, Task};
use super::super::super::usage::{Guard, Need, Store, Stuck, User, need, part};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::callback::is_timer_task;
use super::super::static_pointers;
use super::super::words::{function_at, gives, place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::cpu::{Stored, Value};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const BY_POINTER: &str = "the variable may be changed through a pointer that was not followed";

/// What speaks against a request that was not answered.
const DEVICE: &str = "a device may not have answered";

/// The most threads that wait and are looked at.
const TASKS: usize = 32;
/// The most stores to the variables that are named.
const MOST: usize = 2;

/// Stores, each with where it stores what.
type Stores = Rc<(Vec<(Store, Stored)>, bool)>;
/// Stores that change a word, and who comes there.
type Changes = BTreeMap<Store, BTreeSet<User>>;

/// What keeps all who could give it from what a thread waits for.
struct Guarded {
    need: Need,
    guard: Guard,
    givers: Vec<User>,
    /// The stores that change the words of the guard, and which word each does.
    changes: Vec<(Addr, Changes)>,
    /// Who cannot go on before it is given.
    stuck: Stuck,
}

/// Words of variables that stay as they are while some users do not go on.
struct Fixed<'r, 'a> {
    by: &'r ByCode<'r, 'a>,
    stuck: &'r Stuck,
    givers: &'r [User],
    /// The stores by code that has an address of a variable, by its first byte.
    stores: RefCell<BTreeMap<Addr, Stores>>,
    /// Who comes to a function.
    users: RefCell<BTreeMap<Addr, Rc<BTreeSet<User>>>>,
}

impl Fixed<'_, '_> {
    fn stores(&self, variable: Region) -> Option<Stores> {
        let mut known = self.stores.try_borrow_mut().ok()?;
        let of = || Rc::new(self.by.usage.all_stores(variable));
        Some(Rc::clone(known.entry(variable.start).or_insert_with(of)))
    }

    fn users(&self, function: Addr) -> Option<Rc<BTreeSet<User>>> {
        let mut known = self.users.try_borrow_mut().ok()?;
        Some(Rc::clone(known.entry(function).or_insert_with(|| Rc::new(self.by.usage.all_callers_of(function)))))
    }

    /// The stores that change a word, but those of the function that reads it; `None` where who comes to one of them goes on, or not all
    /// could be followed.
    fn changes(&self, function: Addr, word: (Addr, u32)) -> Option<Changes> {
        let (at, value) = word;
        let variable = self.by.case.look.variable(at)?;
        let variable = Region { start: variable.address, len: variable.size };
        let end = at.checked_add(4)?;
        let changes = |stored: &Stored| match stored.place {
            Value::Is(place) => {
                let (place, bytes) = (Addr::from(place), u64::from(stored.bytes));
                let is_same =
                    |to: u32| place >= at && part(to, 0, bytes) == part(value, place.saturating_sub(at), bytes);
                place < end && at < place.saturating_add(bytes) && !stored.value.known().is_some_and(is_same)
            }
            // An element of an array, at an index that is not known.
            Value::Near(place) => variable.contains(place.into()),
            _ => false,
        };
        let stores = self.stores(variable)?;
        let (all_stores, is_whole) = &*stores;
        if !is_whole {
            return None;
        }
        let mut all = Changes::new();
        for (store, _) in all_stores.iter().filter(|(_, stored)| changes(stored)) {
            let users = self.users(store.function)?;
            // What it changes itself in front of its call is not taken for known.
            let is_own = |user: &User| store.function == function && self.givers.contains(user);
            if !users.iter().all(|user| self.is_stuck(*user) || is_own(user)) {
                return None;
            }
            if store.function != function {
                all.insert(*store, BTreeSet::clone(&users));
            }
        }
        Some(all)
    }

    fn is_stuck(&self, user: User) -> bool {
        match user {
            User::Thread(at) => self.stuck.waits.contains_key(&at) || self.by.has_ended(user),
            _ => false,
        }
    }
}

impl ByCode<'_, '_> {
    /// Threads that wait for what a variable keeps from being given.
    pub(super) fn guarded(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        let waits = self.graph.tasks.list.iter().filter(|task| task.wait.is_some());
        for task in waits.take(TASKS) {
            let is_said = found.iter().any(|f| f.threads.contains(&task.address) || f.affected.contains(&task.address));
            if !is_said && !self.stuck.waits.contains_key(&task.address) {
                found.extend(self.guarded_of(task).map(|one| {
                    let without_answer = self.without_answer_to(task.address, &one);
                    without_answer.unwrap_or_else(|| self.guarded_finding(task.address, &one))
                }));
            }
        }
        found
    }

    /// Where who changes the variable waits for what this thread gives: it made a request, and this thread has a path on which it takes what
    /// came and does not answer. That nothing more comes before the next request follows from that.
    fn without_answer_to(&self, thread: Addr, one: &Guarded) -> Option<Finding> {
        let threads = one.changes.iter().flat_map(|(_, all)| all.values().flatten());
        let asks = threads.filter_map(|user| if let User::Thread(at) = user { Some(*at) } else { None });
        let asked = asks.filter(|asks| *asks != thread).find_map(|asks| {
            let need = *one.stuck.waits.get(&asks)?;
            let givers = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
            let is_its = givers == [User::Thread(thread)];
            is_its.then(|| self.without_answer(asks, need, thread, one.need)).flatten()
        });
        let answered = self.unanswered_finding(&asked?, Code::EventNeverSet, Confidence::Hint, String::new());
        let behind = one.stuck.behind(&answered.threads);
        Some(
            answered
                .against([DEVICE])
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(behind),
        )
    }

    fn guarded_of(&self, task: &Task) -> Option<Guarded> {
        let need = need(task, self.case, self.usage).filter(|need| {
            let is_given = matches!(need.kind, Kind::Semaphore | Kind::EventFlags | Kind::Queue);
            need.act == Act::Gives && is_given
        })?;
        let mut givers = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
        // It does not give anything while it waits.
        givers.retain(|user| *user != User::Thread(task.address));
        // Who cannot go on is asked only where something may keep them.
        self.usage.guards(&need, &givers, &|_, at| self.variable_word(at), true)?;
        let stuck = Stuck::without_givers(self.case, self.graph, self.usage, &need);
        let (stores, users) = (RefCell::default(), RefCell::default());
        let fixed = Fixed { by: self, stuck: &stuck, givers: &givers, stores, users };
        let word = |function: Addr, at: Addr| {
            let word = self.variable_word(at)?;
            fixed.changes(function, (at, word)).map(|_| word)
        };
        // Each function has something that keeps it from its call; of the first of them it is said.
        let guard = self.usage.guards(&need, &givers, &word, false)?.into_iter().next()?;
        let of = |(at, word): (&Addr, &u32)| Some((*at, fixed.changes(guard.function, (*at, *word))?));
        let changes = guard.words.iter().filter_map(of).collect();
        drop(fixed);
        Some(Guarded { need, guard, givers, changes, stuck })
    }

    /// That with the variables as they are, who gives something would not do so now: `ring_put does not put it while ring.count is 0x18`, and
    /// as evidence.
    pub(super) fn kept_from(&self, need: &Need, givers: &[User]) -> Option<(String, Evidence)> {
        let is_given = need.act == Act::Gives && matches!(need.kind, Kind::Semaphore | Kind::EventFlags | Kind::Queue);
        let word = |_: Addr, at: Addr| self.variable_word(at);
        let guards = self.usage.guards(need, givers, &word, true).filter(|_| is_given)?;
        let (guard, others) = guards.split_first()?;
        if others.iter().any(|other| (other.at, &other.words) != (guard.at, &guard.words)) {
            return None;
        }
        // What it calls may change them first.
        let is_changed_before = |at: &Addr| {
            let variable = self.case.look.variable(*at);
            let memory = variable.map(|variable| Region { start: variable.address, len: variable.size });
            memory.is_none_or(|memory| self.usage.calls_what_stores(guard.function, memory))
        };
        let held: Vec<String> =
            guard.places().iter().filter_map(|(at, word)| self.case.look.holds(*at, *word)).collect();
        if !(1..=MOST).contains(&held.len()) || guard.words.keys().any(is_changed_before) {
            return None;
        }
        let (function, held) = (function_at(guard.function, self.case), held.join(" and "));
        let words = format!("{function} does not {} {} while {held}", gives(need.kind), self.case.object(need.object));
        let text = format!("by the code, no path of {function} leads here while {held}");
        Some((words, Evidence::symbol(guard.at, &place_at(guard.at, self.case), text)))
    }

    /// A word of a variable that the program writes; none of a control block or a stack.
    pub(super) fn variable_word(&self, at: Addr) -> Option<u32> {
        let kernel = self.case.kernel?;
        let word = Region { start: at, len: 4 };
        let is_within = |start: Addr, len: u64| Region { start, len }.overlaps(word);
        let len = |kind| kernel.layout.object(kind).map_or(4, |of| of.len);
        let is_of_object = kernel.objects.iter().any(|object| is_within(object.address, len(object.kind)));
        let is_of_thread = kernel.threads.iter().any(|thread| is_within(thread.address, kernel.layout.thread.len));
        let variable = self.case.look.variable(at).filter(|variable| !variable.name.starts_with("_tx"))?;
        let is_written = self.case.cpus?.writes(Region { start: variable.address, len: variable.size.max(1) });
        let bytes = self.case.look.bytes(at, 4).filter(|_| is_written && !is_of_object && !is_of_thread)?;
        kernel.layout.shape.endian.u32(&bytes, 0)
    }

    /// True where a variable of the program points to one of the words, so that it may be changed through that.
    fn is_pointed(&self, guard: &Guard) -> bool {
        let variable = |at: &Addr| self.case.look.variable(*at);
        let memory =
            guard.words.keys().filter_map(variable).map(|one| Region { start: one.address, len: one.size.max(1) });
        let kernel = self.case.kernel;
        let threads = kernel.into_iter().flat_map(|kernel| &kernel.threads).filter_map(|thread| thread.parameter);
        let timers = kernel.into_iter().flat_map(|kernel| &kernel.objects);
        let timers = timers.filter_map(|timer| timer.get("tx_timer_internal_timeout_param"));
        let parameters: Vec<Addr> = threads.chain(timers).collect();
        memory.into_iter().any(|memory| {
            let is_passed = parameters.iter().any(|parameter| memory.contains(*parameter));
            let (stores, _) = self.usage.all_stores(memory);
            // For example, a register of a device that has the address.
            let is_stored = stores.iter().any(|(_, stored)| {
                let is_local = matches!(stored.place, Value::Frame(_));
                !is_local && stored.value.known().is_some_and(|value| memory.contains(value.into()))
            });
            is_passed || is_stored || !static_pointers::into(memory, self.case).is_empty()
        })
    }

    /// True where a thread that waits changes one of the words after its wait, so that they are no switch that was set once.
    fn is_changed_again(&self, one: &Guarded) -> bool {
        let again = |store: &Store, user: &User| {
            let User::Thread(thread) = user else { return false };
            let frames = self.case.cpus.and_then(|cpus| cpus.frames(*thread)).unwrap_or_default();
            one.stuck.waits.contains_key(thread) && frames.iter().any(|pc| self.usage.may_come_to_store(*pc, store))
        };
        let all = one.changes.iter().flat_map(|(_, all)| all);
        all.into_iter().any(|(store, users)| users.iter().any(|user| again(store, user)))
    }

    /// True where a CPU is in an exception, and a handler gives it: it may be past the check now.
    fn is_in_giver(&self, one: &Guarded) -> bool {
        let in_exception = self.case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.exception.is_some()));
        in_exception && one.givers.iter().any(|user| matches!(user, User::Handler(_)))
    }

    /// True where one who gives may be past the check of the variable already.
    fn may_be_past(&self, one: &Guarded) -> bool {
        let within = |pc: &Addr| self.case.look.function(*pc).is_some_and(|f| f.address & !1 == one.guard.function);
        // A call in the function is in front of its return address.
        let is_in_call = |pc: &Addr| (*pc & !1).checked_sub(one.guard.at).is_some_and(|len| matches!(len, 2 | 4));
        let of = |user: &User| {
            let thread = match user {
                User::Thread(thread) => *thread,
                // The thread that runs callbacks may be in it.
                User::Callback(_) => {
                    let is_idle = |task: &Task| is_timer_task(task, self.case) && task.does == Does::Suspended;
                    return !self.graph.tasks.list.iter().any(is_idle);
                }
                _ => return false,
            };
            let does = self.graph.tasks.at(thread).map(|task| task.does);
            let frames = self.case.cpus.and_then(|cpus| match does {
                Some(Does::Ready | Does::Runs) => cpus.frames(thread),
                // All of them have to be known.
                _ => cpus.callers(thread),
            });
            let may = |pc: &Addr| is_in_call(pc) || within(pc) && self.usage.may_come_to(&one.guard, *pc);
            !self.has_ended(*user) && frames.is_none_or(|frames| frames.iter().any(may))
        };
        one.givers.iter().any(of)
    }

    fn guarded_finding(&self, thread: Addr, one: &Guarded) -> Finding {
        let Guarded { need, guard, givers, changes, stuck } = one;
        let changed_by: BTreeSet<User> = changes.iter().flat_map(|(_, all)| all.values().flatten()).copied().collect();
        let (name, object) = (self.case.label(thread), self.case.object(need.object));
        let what = match (need.kind, need.wanted) {
            (Kind::EventFlags, Some(flags)) => format!("{flags:#x} of {object}"),
            (Kind::Queue, _) => format!("a message in {object}"),
            _ => object,
        };
        let does = match need.kind {
            Kind::EventFlags => "sets it",
            Kind::Queue => "sends one",
            _ => "puts it",
        };
        let place = |at: Addr| self.case.look.place(at).unwrap_or_else(|| format!("{at:#x}"));
        let mut places = guard.places();
        // A part of a member is shown with the member.
        places.retain(|(at, _)| *at & 3 == 0 || self.case.look.place(*at).is_none_or(|name| !name.contains('+')));
        let held: Vec<String> = places.iter().filter_map(|(at, word)| self.case.look.holds(*at, *word)).collect();
        let held = held.join(" and ");
        let function = function_at(guard.function, self.case);
        let others: Vec<String> = changed_by.iter().map(|user| self.name(*user)).collect();
        let change = match others.as_slice() {
            [] => "no other code was found that changes that".to_owned(),
            [only] if changed_by.contains(&User::Thread(thread)) => {
                format!("besides {function} only {only} itself changes that")
            }
            [only] => format!("besides {function} only {only} changes that, and does not go on"),
            all => format!("besides {function} only {} change that, and none of them goes on", all.join(" and ")),
        };
        let is_long = self.case.events.is_some_and(|events| events.is_long(thread, need.object));
        let is_pointed = self.is_pointed(guard);
        let is_sure =
            self.is_changed_again(one) && !is_pointed && !self.is_in_giver(one) && (is_long || !self.may_be_past(one));
        let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let behind: Vec<Addr> = stuck.behind(&[thread]).into_iter().filter(|at| *at != thread).collect();
        // What the others change is what to look at.
        let is_changed = |at: Addr| changes.iter().any(|(word, all)| *word == at & !3 && !all.is_empty());
        let variable =
            places.iter().find(|(at, _)| is_changed(*at)).or_else(|| places.first()).map_or(0, |(at, _)| *at);
        let all = changes.iter().flat_map(|(word, all)| all.iter().map(move |one| (*word, one)));
        let changed = all.take(MOST).map(|(word, (store, users))| {
            let names: Vec<String> = users.iter().map(|user| self.name(*user)).collect();
            let to = store.value.map_or_else(String::new, |value| format!(" to {value:#x}"));
            // A part of the word may be another variable.
            let own = store.place.map(Addr::from).filter(|at| *at & !3 == word);
            let of_word = || places.iter().map(|(at, _)| *at).find(|at| *at & !3 == word).unwrap_or(word);
            let by = if names.is_empty() { function_at(store.function, self.case) } else { names.join(" or ") };
            let text = format!("{by} sets {}{to} here", place(own.unwrap_or_else(of_word)));
            Evidence::symbol(store.at, &place_at(store.at, self.case), text)
        });
        Finding::new(
            Code::EventNeverSet,
            self.case.cap(claimed),
            format!("{name} waits for {what}; {function} {does}, but not while {held}, and {change}"),
        )
        .against([BY_CODE, BY_POINTER])
        .evidence([waiting(thread, need.object, self.case, self.graph), self.users(givers, need)])
        .evidence([
            Evidence::symbol(
                guard.at,
                &place_at(guard.at, self.case),
                format!("by the code, no path of {function} leads here while {held}"),
            ),
            Evidence::memory(variable, held.clone()),
        ])
        .evidence(changed)
        .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
        .affected(behind.iter().copied())
        .next(match others.as_slice() {
            _ if !is_sure => {
                format!("find out who should change {}, and whether it is off on purpose", place(variable))
            }
            all => format!("look for a path of {} that waits without changing {}", all.join(" or "), place(variable)),
        })
        .threads([thread])
        // What nothing changes may be a switch, and the wait a usual one.
        .usual(changed_by.is_empty())
        .with_lost_update(self.lost_update(thread))
    }
}
