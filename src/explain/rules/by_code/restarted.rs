//! A thread waits for what only the callback of a timer gives, or interrupts besides, as a time-out of an answer that an interrupt brings.
//! Others wait for ever for that thread, and another function starts the timer again while it runs: where that comes more often than the
//! timer expires, the callback never runs.
//!
//! Against it: how often the timer is started again, memory does not show: it is a hint. Where nobody waits behind the thread, a
//! timer that is started again before it expires is a time-out that does not come, which is healthy, and nothing is said.

use super::super::super::state::Task;
use super::super::super::usage::{Stuck, User, need};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{gives_it, place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Threads that wait for a timer that others start again.
    pub(super) fn restarted(&self) -> Vec<Finding> {
        self.graph.tasks.list.iter().filter_map(|task| self.restarted_timer(task)).collect()
    }

    fn restarted_timer(&self, task: &Task) -> Option<Finding> {
        let need = need(task, self.case, self.usage).filter(|need| need.act == Act::Gives)?;
        let users = self.usage.who(need.act, Some(need.kind), need.object, need.wanted)?;
        let is_handler = |user: &&User| matches!(user, User::Handler(_));
        let (handlers, others): (Vec<&User>, Vec<&User>) = users.iter().partition(is_handler);
        let [User::Callback(timer)] = others.as_slice() else { return None };
        let besides: Vec<String> = handlers.into_iter().map(|user| self.name(*user)).collect();
        let besides = if besides.is_empty() { String::new() } else { format!("{} or ", besides.join(" or ")) };
        let runs = self.case.kernel?.object(*timer).filter(|timer| timer.active() == Some(true))?;
        let starters = self.usage.who(Act::Starts, Some(Kind::Timer), *timer, None)?;
        let is_other = |user: &&User| !matches!(user, User::Callback(_)) && **user != User::Thread(task.address);
        let starter = starters.iter().find(is_other)?;
        let is_start = |one: &super::Use| one.action.act == Act::Starts && one.object == Some(*timer);
        let site = self.usage.site(*starter, is_start)?;
        let stuck = Stuck::without_givers(self.case, self.graph, self.usage, &need);
        let behind = stuck.behind(&[task.address]);
        let is_thread = matches!(starter, User::Thread(_));
        let repeats = !is_thread || self.usage.repeats(*starter, Act::Starts, Kind::Timer, *timer);
        if behind.is_empty() || !repeats {
            return None;
        }
        let (name, object, timer_name) =
            (self.case.label(task.address), self.case.object(need.object), self.case.object(*timer));
        let (by, place) = (self.name(*starter), place_at(site, self.case));
        let ticks = runs.get("tx_timer_internal_re_initialize_ticks").filter(|ticks| *ticks > 0);
        let ticks = ticks.map_or_else(String::new, |ticks| format!(" ({ticks} ticks)"));
        let claim = format!(
            "{name} waits for {object}; only {besides}the callback of {timer_name} {}, that timer runs{ticks}, and {by} starts it again \
             ({place}): it may never expire",
            gives_it(need.kind, need.wanted)
        );
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(Confidence::Hint), claim)
                .against([BY_CODE, "how often it is started again is not known"])
                .evidence([waiting(task.address, need.object, self.case, self.graph), self.users(&users, &need)])
                .evidence([Evidence::memory(*timer, format!("{timer_name} is active{ticks}"))])
                .evidence([Evidence::symbol(site, &place, format!("{by} starts {timer_name} here"))])
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(behind)
                .next(format!("compare how often {by} comes to {place} with the ticks of {timer_name}"))
                .threads([task.address]),
        )
    }
}
