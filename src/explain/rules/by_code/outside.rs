//! Mutexes whose owner is in no function that takes them, as its stack shows: it has returned from one and put the mutex less often than
//! it took it. The owner does not notice that, as it may take the mutex again; all others wait for ever.
//!
//! What is known of a stack holds only where each function that takes the mutex puts it, too.

use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::callback::is_timer_task;
use super::super::words::{function_at, holds, shows, waiting};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::explain::graph::{Edge, How};
use crate::explain::usage::User;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Mutexes that their owners have lost count of.
    pub(super) fn outside_mutexes(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for edge in self.graph.edges.iter().filter(|edge| edge.how == How::Owns && !edge.is_timed) {
            if !found.iter().any(|f| f.threads.first() == Some(&edge.holder)) {
                found.extend(self.outside_mutex(edge));
            }
        }
        found
    }

    fn outside_mutex(&self, edge: &Edge) -> Option<Finding> {
        let task = self.graph.tasks.at(edge.holder)?;
        if task.does.gone().is_some() || is_timer_task(task, self.case) || edge.waiter == edge.holder {
            return None;
        }
        let users = self.usage.who(Act::Gives, Some(Kind::Mutex), edge.object, None)?;
        self.usage.who(Act::Takes, Some(Kind::Mutex), edge.object, None)?;
        let callers = self.case.cpus?.callers(edge.holder)?;
        let user = User::Thread(edge.holder);
        let is_clear = self.usage.is_put_where_taken(&users, Kind::Mutex, edge.object);
        if !is_clear || !users.contains(&user) || self.usage.may_hold(user, edge.object, callers) {
            return None;
        }
        let (case, graph) = (self.case, self.graph);
        let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
        let count = case.kernel?.object(edge.object)?.get("ownership_count").unwrap_or(1);
        let times = if count > 1 { format!(", {count} times") } else { String::new() };
        let leak = self.usage.leak(user, Kind::Mutex, edge.object);
        let by = leak.map_or_else(String::new, |leak| format!(" ({})", function_at(leak.function, case)));
        let claim = format!(
            "{waiter} waits for {object}, which {holder} owns{times}, though {holder} is in no function that takes it: it returned from \
             one{by} and put it less often than it took it"
        );
        let functions: Vec<String> = callers.iter().map(|pc| function_at(pc.saturating_sub(1), case)).collect();
        let stack = format!("{holder}: its functions are {}", functions.join(" < "));
        let behind: Vec<Addr> = graph.waiters(&[edge.holder]);
        Some(
            Finding::new(Code::LockOwnerGone, case.cap(Confidence::Likely), claim)
                .against([BY_CODE, "that the owner does not need it is inferred from its stack"])
                .evidence([
                    waiting(edge.waiter, edge.object, case, graph),
                    holds(edge, case),
                    shows(edge.holder, stack, graph),
                ])
                .evidence(leak.map(|leak| self.path(user, &leak, "puts it")).into_iter().collect::<Vec<Evidence>>())
                .waiters(behind, edge.waiter, case, graph)
                .next(format!(
                    "look for a path of {holder} on which {object} is taken twice and put once, or not at all"
                ))
                .threads([edge.holder, edge.waiter]),
        )
    }
}
