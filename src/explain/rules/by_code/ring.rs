//! Messages that go around: each that is sent to a queue was received from another queue of the ring, as buffers are whose
//! pointers or numbers come back when they were used. Where all queues of the ring are empty, a message that somebody dropped
//! does not come back.
//!
//! Against it: somebody may have a message in hand for long.

use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::waiting;
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::explain::state::Task;
use crate::explain::usage::{Leak, User};
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// Threads that wait for a message of a ring in which none is left.
    pub(super) fn rings(&self) -> Vec<Finding> {
        let of = |task: &Task| {
            let wait = task.wait.filter(|wait| wait.forever && wait.kind == Kind::Queue)?;
            let is_long = self.case.events.is_some_and(|events| events.is_long(task.address, wait.object));
            let ring = self.ring(wait.object).filter(|_| is_long)?;
            self.dropped(task.address, &ring)
        };
        self.graph.tasks.list.iter().filter_map(of).collect()
    }

    /// The queues that messages of a queue come from, itself first: all are empty, and nobody sends anything else to them.
    fn ring(&self, queue: Addr) -> Option<Vec<Addr>> {
        let mut ring = vec![queue];
        let mut next = 0usize;
        let mut is_closed = false;
        while let Some(queue) = ring.get(next).copied() {
            next = next.saturating_add(1);
            let object = self.case.kernel?.object(queue).filter(|object| object.kind == Kind::Queue)?;
            if object.get("enqueued") != Some(0) {
                return None;
            }
            for from in self.usage.sources(queue)? {
                is_closed |= ring.first() == Some(&from);
                if !ring.contains(&from) {
                    ring.push(from);
                }
            }
        }
        is_closed.then_some(ring)
    }

    /// A user that receives a message of a ring and has a path on which it does not send it on.
    fn dropped(&self, waiter: Addr, ring: &[Addr]) -> Option<Finding> {
        let leak = |queue: &Addr| {
            let readers = self.usage.who(Act::Takes, Some(Kind::Queue), *queue, None)?;
            let leak = |user: User| Some((user, *queue, self.usage.leak(user, Kind::Queue, *queue)?));
            readers.into_iter().find_map(leak)
        };
        let (user, from, leak): (User, Addr, Leak) = ring.iter().find_map(leak)?;
        let queue = *ring.first()?;
        let others: Vec<String> = ring.iter().skip(1).map(|queue| self.case.object(*queue)).collect();
        let around = if others.is_empty() { String::new() } else { format!(" through {}", others.join(", ")) };
        let (name, label) = (self.name(user), self.case.object(from));
        let claim = format!(
            "{} waits for {}, to which only its own messages come back{around}, and none is left; {name} has a path on which it \
             receives a message from {label} and does not send it on",
            self.case.label(waiter),
            self.case.object(queue)
        );
        let states = ring.iter().filter_map(|queue| {
            let state = self.case.kernel?.object(*queue)?.state(&|_| String::new());
            Some(Evidence::memory(*queue, format!("{}: {state}", self.case.object(*queue))))
        });
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(Confidence::Hint), claim)
                .against([BY_CODE, "somebody may still use these messages"])
                .evidence([self.path(user, &leak, "sends it on"), waiting(waiter, queue, self.case, self.graph)])
                .evidence(states)
                .next(format!("look for a path of {name} that drops a message from {label}"))
                .threads([waiter]),
        )
    }
}
