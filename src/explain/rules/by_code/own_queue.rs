//! A thread that waits for room in a queue which it alone reads: it waits for itself.

use super::super::super::usage::User;
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    pub(super) fn own_queues(&self) -> Vec<Finding> {
        self.stuck.waits.keys().filter_map(|thread| self.own_queue(*thread)).collect()
    }

    fn own_queue(&self, thread: Addr) -> Option<Finding> {
        let need = self.stuck.waits.get(&thread).filter(|need| need.act == Act::Takes && need.kind == Kind::Queue)?;
        let readers = self.usage.who(Act::Takes, Some(Kind::Queue), need.object, None)?;
        if readers != [User::Thread(thread)] {
            return None;
        }
        let (name, queue) = (self.case.label(thread), self.case.object(need.object));
        let state = self.case.kernel?.object(need.object)?.state(&|at| self.case.label(at));
        let others: Vec<Addr> = self.waiters(need.object).into_iter().filter(|at| *at != thread).collect();
        let behind = self.stuck.behind(&[thread]);
        let all: Vec<Addr> = others.into_iter().chain(behind).collect();
        Some(
            Finding::new(
                Code::Deadlock,
                self.case.cap(Confidence::Likely),
                format!("{name} waits for room in {queue} ({state}), which it alone reads: it waits for itself"),
            )
            .against([BY_CODE])
            .evidence([waiting(thread, need.object, self.case, self.graph), self.users(&readers, need)])
            .evidence([Evidence::memory(need.object, format!("{queue}: {state}"))])
            .explains(all.iter().filter_map(|at| waits(*at, self.case, self.graph)))
            .next(format!(
                "let {name} send to {queue} without a wait (TX_NO_WAIT), or do the work of its own messages at once"
            ))
            .affected(all)
            .threads([thread]),
        )
    }
}
