//! A thread waits for what only a callback gives, and no variable has the address of the callback: another function was registered
//! in its place, or it was taken out. If two elements of an array of drivers or channels hold the same callback, one of the two
//! registrations is probably wrong.
//!
//! Nothing is said where a constant has the address, as in a table of callbacks.
//!
//! Against it: a thread that waits without a time-out may wait for work that is not set up yet. Memory outside of the variables, as the
//! heap of the C library, may have the address. Both are hints.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::super::super::state::Task;
use super::super::super::usage::{Stuck, User, need, need_now};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::set_by::{SetBy, without_indices};
use super::super::words::{function_at, gives_it, third, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The most threads that are named.
const MOST: usize = 4;

impl ByCode<'_, '_> {
    /// Threads that wait for a callback which nothing calls any more.
    pub(super) fn unregistered(&self) -> Vec<Finding> {
        let twice = OnceCell::new();
        let find = |task| self.unregistered_giver(task, &|| twice.get_or_init(|| self.registered_twice()).as_slice());
        self.graph.tasks.list.iter().filter_map(find).take(MOST).collect()
    }

    fn unregistered_giver<'t>(&self, task: &Task, twice: &dyn Fn() -> &'t [Twice]) -> Option<Finding> {
        // A time-out may end the wait before the callback is registered.
        let lasts = need(task, self.case, self.usage).is_some();
        let need = need_now(task, self.case, self.usage).filter(|need| need.act == Act::Gives)?;
        let users = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
        let [User::Other(callback)] = users.as_slice() else { return None };
        let places = self.usage.pointers_to(*callback)?;
        if places.iter().any(|at| self.is_in_variable(*at)) || self.case.thread(task.address)?.run_count < Some(2) {
            return None;
        }
        let gives =
            |twice: &&Twice| twice.gives.iter().any(|(kind, object)| *kind == need.kind && *object != need.object);
        let twice = twice().iter().filter(|twice| twice.function != *callback).find(gives);
        if !lasts && twice.is_none() {
            return None;
        }
        // Who waits without a time-out may wait for work that is not set up yet.
        let is_timed = task.wait.is_some_and(|wait| !wait.forever);
        let is_sure = places.is_empty() && twice.is_some() && is_timed && lasts;
        let sure = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let (name, object) = (self.case.label(task.address), self.case.object(need.object));
        let function = function_at(*callback, self.case);
        let object_of = |twice: &Twice| {
            let (_, object) = twice.gives.iter().find(|(kind, object)| *kind == need.kind && *object != need.object)?;
            Some(format!(
                "{}, which {} {}",
                function_at(twice.function, self.case),
                third(need.kind),
                self.case.object(*object)
            ))
        };
        let held = twice.and_then(object_of);
        let names = twice.map_or_else(String::new, Twice::names);
        let instead = held.as_ref().map_or_else(String::new, |held| format!("; {names} are both {held}"));
        let claim = format!(
            "{name} waits for {object}; only {function} {}, and no variable has the address of that function{instead}",
            gives_it(need.kind, need.wanted)
        );
        let behind = Stuck::without_givers(self.case, self.graph, self.usage, &need).behind(&[task.address]);
        let set_by = twice.and_then(|twice| SetBy::of(twice.places.first()?.0, twice.function, self.case));
        let shown = twice.iter().flat_map(|twice| &twice.places).zip(held.iter().cycle());
        let shown = shown.map(|((at, name), held)| Evidence::memory(*at, format!("{name} is {held}")));
        let next = match twice {
            Some(_) => format!("look at who sets {names}"),
            None => format!("look at who registers {function}, and what was registered in its place"),
        };
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(sure), claim)
                .against([BY_CODE])
                .against((!places.is_empty()).then_some("memory outside of the variables has its address"))
                .evidence([waiting(task.address, need.object, self.case, self.graph), self.users(&users, &need)])
                .evidence(self.site(User::Other(*callback), &need))
                .evidence(shown)
                .evidence(set_by.map(|set| set.evidence))
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(behind)
                .next(next)
                .threads([task.address]),
        )
    }

    /// True for a place in a variable that is no stack.
    fn is_in_variable(&self, at: Addr) -> bool {
        let threads = self.case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
        let stacks = threads.filter_map(|thread| thread.stack.start.zip(thread.stack.size));
        let is_stack = stacks.into_iter().any(|(start, len)| Region { start, len }.contains(at));
        !is_stack && self.case.look.variable(at).is_some()
    }

    /// The functions that are called through pointers and whose address two elements of an array have at the same place.
    fn registered_twice(&self) -> Vec<Twice> {
        let of = |function: Addr| {
            let mut members: BTreeMap<String, Vec<(Addr, String)>> = BTreeMap::new();
            for at in self.usage.pointers_to(function)?.into_iter().filter(|at| self.is_in_variable(*at)) {
                let name = self.case.look.place(at).map(|name| (without_indices(&name), name));
                let Some((member, name)) = name.filter(|(member, _)| member.contains("[]")) else { continue };
                members.entry(member).or_default().push((at, name));
            }
            let places = members.into_values().find(|all| all.len() > 1)?;
            let uses = self.usage.uses_of(User::Other(function)).into_iter();
            let gives =
                uses.filter(|one| one.action.act == Act::Gives).filter_map(|one| Some((one.action.kind?, one.object?)));
            Some(Twice { function, places, gives: gives.collect() })
        };
        self.usage.others().filter_map(of).collect()
    }
}

/// A function that is registered twice.
struct Twice {
    function: Addr,
    /// Where, each with the name.
    places: Vec<(Addr, String)>,
    /// What it gives.
    gives: Vec<(Kind, Addr)>,
}

impl Twice {
    fn names(&self) -> String {
        self.places.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" and ")
    }
}
