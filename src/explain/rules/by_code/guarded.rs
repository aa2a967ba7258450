//! A thread waits for what is given only while a variable allows it: with what the variable holds now, no path of those who give it
//! leads to their call, and only threads that cannot go on before it is given change the variable. As in a hand-shake: who makes work
//! wakes the worker where `pending` is 0, and the worker alone sets it to 0, after it was woken.
//!
//! Against it: the variable may be changed through a pointer that is read from memory. Where no code was seen to change it at all, it
//! may be what switches something off on purpose: a hint. So is a wait that may have just begun: who gives may have seen the variable
//! as it was before.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::state::{Does, Task};
use super::super::super::usage::{Guard, Need, Store, Stuck, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{function_at, place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// What speaks against it.
const BY_POINTER: &str = "the variable may be changed through a pointer that was not followed";

/// The most stores to the variable that are named.
const MOST: usize = 2;

/// A variable that keeps all who could give it from what a thread waits for.
struct Guarded {
    need: Need,
    guard: Guard,
    givers: Vec<User>,
    /// The stores that change the variable, and who comes there.
    changes: BTreeMap<Store, BTreeSet<User>>,
    /// Who cannot go on before it is given.
    stuck: Stuck,
}

impl ByCode<'_, '_> {
    /// Threads that wait for what a variable keeps from being given.
    pub(super) fn guarded(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for task in &self.graph.tasks.list {
            let is_said = found.iter().any(|f| f.threads.contains(&task.address) || f.affected.contains(&task.address));
            if !is_said && !self.stuck.waits.contains_key(&task.address) {
                found.extend(self.guarded_of(task).map(|one| self.guarded_finding(task.address, &one)));
            }
        }
        found
    }

    fn guarded_of(&self, task: &Task) -> Option<Guarded> {
        let need = need(task, self.case, self.usage).filter(|need| {
            let is_given = matches!(need.kind, Kind::Semaphore | Kind::EventFlags | Kind::Queue);
            need.act == Act::Gives && is_given
        })?;
        let mut givers = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
        // It does not give anything while it waits.
        givers.retain(|user| *user != User::Thread(task.address));
        let all = self.usage.guards(&need, &givers, &|at| self.variable_word(at))?;
        let stuck = Stuck::without_givers(self.case, self.graph, self.usage, &need);
        // Each function has a variable that keeps it from its call; of the first of them it is said.
        let mut first = None;
        for alternatives in all {
            let one = alternatives.into_iter().find_map(|guard| Some((self.only_stuck_change(&guard, &stuck)?, guard)))?;
            first.get_or_insert(one);
        }
        let (changes, guard) = first?;
        Some(Guarded { need, guard, givers, changes, stuck })
    }

    /// A word of a variable that the program writes; none of a control block or a stack.
    fn variable_word(&self, at: Addr) -> Option<u32> {
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

    /// The stores that change a variable, where none of those who come there goes on.
    fn only_stuck_change(&self, guard: &Guard, stuck: &Stuck) -> Option<BTreeMap<Store, BTreeSet<User>>> {
        let variable = self.case.look.variable(*guard.places.first()?)?;
        let variable = Region { start: variable.address, len: variable.size };
        let is_stuck = |user: &User| match user {
            User::Thread(at) => stuck.waits.contains_key(at) || self.has_ended(*user),
            _ => false,
        };
        self.usage.changes(guard, variable).filter(|all| all.values().flatten().all(is_stuck))
    }

    /// True where one who gives may be past the check of the variable already.
    fn may_be_past(&self, one: &Guarded) -> bool {
        let within = |pc: &Addr| self.case.look.function(*pc).is_some_and(|f| f.address & !1 == one.guard.function);
        let of = |user: &User| {
            let User::Thread(thread) = user else { return false };
            let stands = self.graph.tasks.at(*thread).map(|task| task.does);
            let has_ended = matches!(stands, Some(Does::Completed | Does::Terminated));
            let frames = self.case.cpus.and_then(|cpus| cpus.frames(*thread));
            let may = |pc: &Addr| within(pc) && self.usage.may_come_to(&one.guard, *pc);
            !has_ended && frames.is_none_or(|frames| frames.iter().any(may))
        };
        one.givers.iter().any(of)
    }

    fn guarded_finding(&self, thread: Addr, one: &Guarded) -> Finding {
        let Guarded { need, guard, givers, changes, stuck } = one;
        let changed_by: BTreeSet<User> = changes.values().flatten().copied().collect();
        let (name, object) = (self.case.label(thread), self.case.object(need.object));
        let what = match (need.kind, need.wanted) {
            (Kind::EventFlags, Some(flags)) => format!("{flags:#x} of {object}"),
            (Kind::Queue, _) => format!("a message in {object}"),
            _ => object,
        };
        let gives = match need.kind {
            Kind::EventFlags => "sets it",
            Kind::Queue => "sends one",
            _ => "puts it",
        };
        let place = |at: Addr| self.case.look.place(at).unwrap_or_else(|| format!("{at:#x}"));
        let held = |at: &Addr| format!("{} is {:#x}", place(*at), guard.value_at(*at));
        let held = guard.places.iter().map(held).collect::<Vec<_>>().join(" and ");
        let function = function_at(guard.function, self.case);
        let others: Vec<String> = changed_by.iter().map(|user| self.name(*user)).collect();
        let change = match others.as_slice() {
            [] => "no code was found that changes that".to_owned(),
            [only] if changed_by.contains(&User::Thread(thread)) => format!("only {only} itself changes that"),
            [only] => format!("only {only} changes that, and waits for {name}"),
            all => format!("only {} change that, and none of them goes on", all.join(" and ")),
        };
        let is_long = self.case.events.is_some_and(|events| events.is_long(thread, need.object));
        let is_sure = !changed_by.is_empty() && (is_long || !self.may_be_past(one));
        let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let behind: Vec<Addr> = stuck.behind(&[thread]).into_iter().filter(|at| *at != thread).collect();
        let variable = guard.places.first().copied().unwrap_or_default();
        let changed = changes.iter().take(MOST).map(|(store, users)| {
            let names: Vec<String> = users.iter().map(|user| self.name(*user)).collect();
            let to = store.value.map_or_else(String::new, |value| format!(" to {value:#x}"));
            let text = format!("{} sets {}{to} here", names.join(" or "), place(variable));
            Evidence::symbol(store.at, &place_at(store.at, self.case), text)
        });
        Finding::new(
            Code::EventNeverSet,
            self.case.cap(claimed),
            format!("{name} waits for {what}; {function} {gives}, but not while {held}, and {change}"),
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
            [] => format!("find out who should change {}, and whether it is off on purpose", place(variable)),
            all => format!("look for a path of {} that waits without changing {}", all.join(" or "), place(variable)),
        })
        .threads([thread])
    }
}
