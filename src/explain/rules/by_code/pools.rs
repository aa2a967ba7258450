//! Pools that are used up as one user has a path on which it keeps their memory.

use super::super::super::state::Task;
use super::super::super::usage::{Leak, Need, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{function_at, waiting, waits};
use super::super::{lost_blocks, waiting_blocks};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Pools that are used up, where one thread alone has a path that keeps memory: nobody who goes on releases memory, or memory
    /// shows that blocks are lost. Who gets no block has none to release.
    pub(super) fn pools(&self) -> Vec<Finding> {
        let is_pool = |kind| matches!(kind, Kind::BlockPool | Kind::BytePool);
        let mut all = self.waited(is_pool);
        let is_long = |task: &Task, pool| self.case.events.is_some_and(|events| events.is_long(task.address, pool));
        for task in &self.graph.tasks.list {
            let wait = task.wait.filter(|wait| wait.forever && is_pool(wait.kind) && is_long(task, wait.object));
            let wait = wait.filter(|wait| !all.iter().any(|need| need.object == wait.object));
            all.extend(wait.map(|w| Need { act: Act::Gives, kind: w.kind, object: w.object, wanted: None }));
        }
        all.iter().filter_map(|need| self.pool(need).or_else(|| self.nobody_releases(need))).collect()
    }

    /// A pool whose blocks are released by threads alone that wait for each other: one for a block, others for what that one gives.
    fn nobody_releases(&self, need: &Need) -> Option<Finding> {
        let pool = self.case.kernel?.object(need.object)?;
        let waiters = self.waiters(need.object);
        let first = *waiters.first()?;
        let others: Vec<(Addr, Need)> = self
            .stuck
            .helpers(first)
            .iter()
            .filter_map(|user| if let User::Thread(at) = user { Some((*at, *self.stuck.waits.get(at)?)) } else { None })
            .filter(|(_, other)| other.object != need.object)
            .collect();
        others.first()?;
        // Whoever goes on cannot release what is lost.
        if lost_blocks::of(pool, self.case).is_some() {
            return None;
        }
        let steps = others.iter().map(|(at, other)| {
            let object = self.case.object(other.object);
            let given = self.helping(*at).map(|all| self.given(other, &object, &all));
            format!("{} waits for {}", self.case.label(*at), given.unwrap_or(object))
        });
        let steps: Vec<String> = steps.collect();
        let claim = format!(
            "{} waits for memory of {} ({}), and no thread goes on that releases it: {}",
            self.case.label(first),
            self.case.object(need.object),
            pool.state(&|at| self.case.label(at)),
            steps.join("; ")
        );
        let behind: Vec<Addr> = waiters.iter().skip(1).copied().chain(self.stuck.behind(&waiters)).collect();
        let users = self.usage.who(Act::Gives, Some(need.kind), need.object, None);
        let waits_of = others.iter().map(|(at, other)| waiting(*at, other.object, self.case, self.graph));
        Some(
            Finding::new(Code::PoolEmpty, self.case.cap(Confidence::Likely), claim)
                .against([BY_CODE])
                .evidence([waiting(first, need.object, self.case, self.graph)])
                .evidence(waits_of)
                .evidence(users.map(|users| self.users(&users, need)))
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(behind)
                .next("give the pool enough blocks for all that are kept, or let none of them wait while it has blocks")
                .threads([first])
                .affected(others.iter().map(|(at, _)| *at))
                .with_holder(need.object, self.case),
        )
    }

    fn pool(&self, need: &Need) -> Option<Finding> {
        let pool = self.case.kernel?.object(need.object)?;
        if !waiting_blocks::of_pool(pool, self.case).is_empty() {
            return None;
        }
        let stuck = self.waiters(need.object);
        let lost = lost_blocks::of(pool, self.case);
        let releasers = self.usage.who(Act::Gives, Some(need.kind), need.object, None)?;
        let claimed = drained(!stuck.is_empty(), lost.is_some())?;
        let (user, leak) = self.keeper(need, &releasers)?;
        let (name, label) = (self.name(user), self.case.object(need.object));
        let waiters = match stuck.as_slice() {
            [] => self.graph.tasks.waiting(need.object).map(|task| task.address).collect(),
            _ => stuck.clone(),
        };
        let first = *waiters.first()?;
        let behind = self.stuck.behind(&waiters);
        let why = match &lost {
            Some(lost) if stuck.is_empty() => lost.words.clone(),
            _ => "no thread that goes on releases memory of it".to_owned(),
        };
        let claim = format!(
            "{label} is used up ({}), and {why}; {name} has a path in {} on which it does not release its memory",
            pool.state(&|at| self.case.label(at)),
            function_at(leak.function, self.case)
        );
        let all = waiters.iter().chain(&behind);
        Some(
            Finding::new(Code::PoolLeak, self.case.cap(claimed), claim)
                .against([BY_CODE, "memory that is kept on purpose looks the same"])
                .evidence([waiting(first, need.object, self.case, self.graph), self.users(&releasers, need)])
                .evidence([self.path(user, &leak, "releases it")])
                .evidence(lost.map(|lost| Evidence::memory(need.object, lost.words)))
                .explains(all.clone().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(all.copied())
                .next(format!("look for a path of {name} that does not release its memory"))
                .threads([first]),
        )
    }

    /// The only one who gets memory of a pool, also as a message, and has a path on which it keeps it; `None` where there are several.
    fn keeper(&self, need: &Need, releasers: &[User]) -> Option<(User, Leak)> {
        let takers = self.usage.who(Act::Takes, Some(need.kind), need.object, None)?;
        let queues = self.usage.queues_of(need.object);
        let readers = queues.iter().filter_map(|queue| self.usage.who(Act::Takes, Some(Kind::Queue), *queue, None));
        let mut users: Vec<User> = readers.flatten().chain(takers).chain(releasers.iter().copied()).collect();
        users.sort_unstable();
        users.dedup();
        let leak = |user: &User| {
            let direct = self.usage.leak(*user, need.kind, need.object);
            direct.or_else(|| queues.iter().find_map(|queue| self.usage.leak(*user, Kind::Queue, *queue)))
        };
        let leaks: Vec<(User, Leak)> = users.iter().filter_map(|user| Some((*user, leak(user)?))).collect();
        let [(user, leak)] = leaks.as_slice() else { return None };
        // Who waits for something else keeps the memory for that, and the wait is the cause.
        let waits_for = if let User::Thread(at) = user { self.waits_for(*at) } else { None };
        let is_other = waits_for.is_some_and(|object| object != need.object && !queues.contains(&object));
        (!is_other).then_some((*user, *leak))
    }
}

/// How sure it is that a pool is used up as memory of it is not released. `is_stuck`: nobody who goes on releases any. `is_lost`: no
/// pointer to its blocks is left, so that who goes on has none to release.
const fn drained(is_stuck: bool, is_lost: bool) -> Option<Confidence> {
    match (is_stuck, is_lost) {
        (_, true) => Some(Confidence::Likely),
        (true, false) => Some(Confidence::Hint),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that gets no block, and releases those that it gets, was taken for one that may release the blocks that are lost.
    #[test]
    fn who_gets_no_block_was_one_who_may_release_some() {
        assert_eq!(drained(false, true), Some(Confidence::Likely));
        assert_eq!(drained(true, false), Some(Confidence::Hint));
        assert_eq!(drained(false, false), None, "blocks may be in use");
    }
}
