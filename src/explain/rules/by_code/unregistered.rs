//! A thread waits for what only a callback gives, and no variable has the address of the callback: another function was registered
//! in its place, or it was taken out. Where one function is at the same place of two elements of an array of drivers or channels,
//! it was registered for one too many.
//!
//! Nothing is said where a constant has the address, as in a table of callbacks.
//!
//! Against it: a thread that waits without a time-out may wait for work that is not set up yet: a hint. Memory outside of the variables, as the heap of the C library, may have the address: it is a hint where some has.

use std::collections::BTreeMap;

use super::super::super::state::Task;
use super::super::super::usage::{Need, Stuck, User, need, need_now};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::set_by::{SetBy, without_indices};
use super::super::words::{function_at, gives_it, third, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::{Addr, Region};
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Threads that wait for a callback which nothing calls any more.
    pub(super) fn unregistered(&self) -> Vec<Finding> {
        self.graph.tasks.list.iter().filter_map(|task| self.unregistered_giver(task)).collect()
    }

    fn unregistered_giver(&self, task: &Task) -> Option<Finding> {
        // A time-out may end the wait before the callback is registered.
        let lasts = need(task, self.case, self.usage).is_some();
        let need = need_now(task, self.case, self.usage).filter(|need| need.act == Act::Gives)?;
        let users = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
        let [User::Other(callback)] = users.as_slice() else { return None };
        let places = self.usage.pointers_to(*callback)?;
        if places.iter().any(|at| self.is_in_variable(*at)) || self.case.thread(task.address)?.run_count < Some(2) {
            return None;
        }
        let twice = self.registered_twice(*callback, &need);
        if !lasts && twice.is_none() {
            return None;
        }
        // Who waits without a time-out may wait for work that is not set up yet.
        let is_timed = task.wait.is_some_and(|wait| !wait.forever);
        let is_sure = places.is_empty() && twice.is_some() && is_timed && lasts;
        let sure = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let (name, object) = (self.case.label(task.address), self.case.object(need.object));
        let function = function_at(*callback, self.case);
        let instead = twice.as_ref().map_or_else(String::new, |twice| format!("; {}", twice.words));
        let claim = format!(
            "{name} waits for {object}; only {function} {}, and no variable has the address of that function{instead}",
            gives_it(need.kind, need.wanted)
        );
        let behind = Stuck::without_givers(self.case, self.graph, self.usage, &need).behind(&[task.address]);
        let set_by = twice.as_ref().and_then(|twice| SetBy::of(*twice.places.first()?, twice.pointer, self.case));
        let next = match &twice {
            Some(twice) => format!("look at who sets {}", twice.names),
            None => format!("look at who registers {function}, and what was registered in its place"),
        };
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(sure), claim)
                .against([BY_CODE])
                .against((!places.is_empty()).then_some("memory outside of the variables has its address"))
                .evidence([waiting(task.address, need.object, self.case, self.graph), self.users(&users, &need)])
                .evidence(self.site(User::Other(*callback), &need))
                .evidence(twice.into_iter().flat_map(|twice| twice.evidence))
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

    /// Another function that gives something of the same kind and is registered in two elements of one array.
    fn registered_twice(&self, callback: Addr, need: &Need) -> Option<Twice> {
        self.usage.others().filter(|other| *other != callback).find_map(|other| {
            let object = self.usage.uses_of(User::Other(other)).into_iter().find_map(|one| {
                let is_same = one.action.act == need.act && one.action.kind == Some(need.kind);
                one.object.filter(|object| is_same && *object != need.object)
            })?;
            let mut members: BTreeMap<String, Vec<(Addr, String)>> = BTreeMap::new();
            for at in self.usage.pointers_to(other)?.into_iter().filter(|at| self.is_in_variable(*at)) {
                let place = self.case.look.place(at)?;
                members.entry(without_indices(&place)).or_default().push((at, place));
            }
            let same = members.into_iter().find(|(member, all)| member.contains("[]") && all.len() > 1)?.1;
            let names = same.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" and ");
            let (function, object) = (function_at(other, self.case), self.case.object(object));
            let text = |name: &str| format!("{name} is {function}, which {} {object}", third(need.kind));
            Some(Twice {
                words: format!("{names} are both {function}, which {} {object}", third(need.kind)),
                evidence: same.iter().map(|(at, name)| Evidence::memory(*at, text(name))).collect(),
                places: same.iter().map(|(at, _)| *at).collect(),
                pointer: other,
                names,
            })
        })
    }
}

/// A function that is registered twice.
struct Twice {
    words: String,
    names: String,
    places: Vec<Addr>,
    pointer: Addr,
    evidence: Vec<Evidence>,
}
