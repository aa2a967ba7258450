//! Mutexes whose owner is in no function that takes them, as its stack shows: it has returned from one and put the mutex less often than
//! it took it. The owner does not notice that, as it may take the mutex again; all others wait for ever. Or an interrupt has taken the
//! mutex while the owner ran: the kernel takes it for that thread, unless it checks parameters.
//!
//! What is known of a stack holds only where each function that takes the mutex puts it, too.

use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::callback::is_timer_task;
use super::super::words::{function_at, holds, place_at, shows, waiting};
use super::super::{message, wrong_context};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::explain::graph::{Edge, How};
use crate::explain::usage::{Stack, Use, User};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// `tx_mutex_get` with its parameters checked.
const CHECKED: &str = "_txe_mutex_get";

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
        let is_old = self.case.kernel?.not_created.contains(&edge.object);
        if is_old || task.does.gone().is_some() || is_timer_task(task, self.case) || edge.waiter == edge.holder {
            return None;
        }
        let users = self.usage.who(Act::Gives, Some(Kind::Mutex), edge.object, None)?;
        let takers = self.usage.who(Act::Takes, Some(Kind::Mutex), edge.object, None)?;
        let callers = self.case.cpus?.callers(edge.holder)?;
        let user = User::Thread(edge.holder);
        let is_clear = self.usage.is_put_where_taken(&users, Kind::Mutex, edge.object);
        if !is_clear || !users.contains(&user) || self.usage.may_hold(user, edge.object, Stack::of_call(callers)) {
            return None;
        }
        let (case, graph) = (self.case, self.graph);
        let (waiter, holder, object) = (case.label(edge.waiter), case.label(edge.holder), case.object(edge.object));
        let count = case.kernel?.object(edge.object)?.get("ownership_count").unwrap_or(1);
        let times = if count > 1 { format!(", {count} times") } else { String::new() };
        let leak = self.usage.leak(user, Kind::Mutex, edge.object);
        let by = leak.map_or_else(String::new, |leak| format!(" ({})", function_at(leak.function, case)));
        // Where parameters are checked, the kernel refuses the call of an interrupt.
        let is_checked = case.look.symbol(CHECKED).is_some();
        let interrupt = takers.iter().copied().find(|taker| matches!(taker, User::Handler(_)));
        let interrupt = interrupt.filter(|_| !is_checked && leak.is_none());
        let why = match interrupt {
            Some(interrupt) => format!(
                "the code of {} takes it, and an interrupt takes a mutex for the thread that it interrupted",
                self.name(interrupt)
            ),
            None => format!("it returned from one{by} and put it less often than it took it"),
        };
        let over = message::over_saved(edge.holder, case).filter(|_| interrupt.is_none());
        let because = over.as_ref().map_or_else(String::new, |over| format!("; {}", over.words));
        let claim = format!(
            "{waiter} waits for {object}, which {holder} owns{times}, though {holder} is in no function that takes it: {why}{because}"
        );
        let takes = |one: &Use| {
            one.action.act == Act::Takes && one.action.kind == Some(Kind::Mutex) && one.object == Some(edge.object)
        };
        let site = interrupt.and_then(|interrupt| Some((interrupt, self.usage.site(interrupt, takes)?)));
        let site = site.map(|(interrupt, at)| {
            let text = format!("{} may take {object} here, by its code", self.name(interrupt));
            Evidence::symbol(at, &place_at(at, case), text)
        });
        let (code, next) = match (interrupt, &over) {
            (Some(_), _) => (Code::WrongContext, wrong_context::NEXT.to_owned()),
            (None, Some(over)) => (
                Code::LockOwnerGone,
                format!(
                    "make the variable as long as a message of {}, or the messages shorter: its caller lost what it had in registers",
                    over.queue
                ),
            ),
            (None, None) => (
                Code::LockOwnerGone,
                format!("look for a path of {holder} on which {object} is taken twice and put once, or not at all"),
            ),
        };
        let functions: Vec<String> = callers.iter().map(|pc| function_at(pc.saturating_sub(1), case)).collect();
        let stack = format!("{holder}: its functions are {}", functions.join(" < "));
        let behind: Vec<Addr> = graph.waiters(&[edge.holder]);
        Some(
            Finding::new(code, case.cap(Confidence::Likely), claim)
                .against([BY_CODE, "that the owner does not need it is inferred from its stack"])
                .evidence([
                    waiting(edge.waiter, edge.object, case, graph),
                    holds(edge, case),
                    shows(edge.holder, stack, graph),
                ])
                .evidence(leak.filter(|_| interrupt.is_none()).map(|leak| self.path(user, &leak, "puts it")))
                .evidence(site)
                .evidence(over.map(|over| over.evidence))
                .waiters(behind, edge.waiter, case, graph)
                .next(next)
                .threads([edge.holder, edge.waiter]),
        )
    }
}
