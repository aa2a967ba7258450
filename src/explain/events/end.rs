//! What the events leave behind after the last one: threads, waits, names and objects.

use super::{Events, MAX_THREADS, find, silent, tries};
use crate::analysis::Inverted;
use crate::analysis::tracker::{System, ThreadNo, ThreadState, WaitOption};
use crate::explain::state::{Does, Task, Wait, kind_of};
use crate::kernel::Kind;

impl Events {
    /// After the last event: what the events leave each thread doing, and the inversions of the whole trace.
    pub fn end(&mut self, system: &System<'_>, inversions: Vec<Inverted>) {
        // Without a clock nothing lasts.
        if self.has_clock {
            (self.inversions, self.past_inversion) = tries::inversions(inversions, self.span.1);
        }
        for object in system.trace.objects.iter().filter(|object| !object.deleted) {
            if !object.name.is_empty() {
                self.names.insert(object.address, object.name.clone());
            }
            let of_type = |kind: &&Kind| object.type_name.is_some_and(|name| name.replace('_', " ") == kind.name());
            if let Some(kind) = Kind::ALL.iter().find(of_type) {
                self.kinds.insert(object.address, *kind);
            }
            if object.type_name == Some("semaphore") {
                self.initial.insert(object.address, object.param1);
            }
            if object.type_name == Some("thread") && object.param1 != 0 {
                let size = Some(object.param2).filter(|size| *size != 0);
                self.stacks.insert(object.address, (object.param1, size));
            }
        }
        self.silent = silent::of(system);
        self.objects.sort_unstable_by_key(|(address, _)| *address);
        for (no, thread) in system.threads().take(MAX_THREADS) {
            if let Some(name) = system.name(no) {
                self.names.insert(thread.address, name.to_owned());
            }
            if let Some(activity) = self.does(no) {
                activity.since = thread.since_seq().map(|seq| (thread.since, seq));
            }
            if let Some((address, _)) = self.active.get_mut(no.index()) {
                *address = thread.address;
            }
            let does = match thread.state {
                ThreadState::Running => Does::Runs,
                ThreadState::Ready => Does::Ready,
                ThreadState::Ended => Does::Ended,
                ThreadState::Blocked(Some(3)) => Does::Suspended,
                ThreadState::Blocked(Some(4)) => Does::Sleeps,
                ThreadState::Blocked(_) => Does::Waits,
                ThreadState::Unknown => Does::Unknown,
            };
            let task = Task {
                address: thread.address,
                does,
                priority: thread.priority.map(u32::from),
                threshold: None,
                time_slice: None,
                wait: self.wait(no, thread.state, system),
                runs: None,
                seq: thread.since_seq(),
            };
            self.tasks.push(task);
        }
        self.active.sort_unstable_by_key(|(address, _)| *address);
    }

    fn wait(&mut self, no: ThreadNo, state: ThreadState, system: &System<'_>) -> Option<Wait> {
        let ThreadState::Blocked(code) = state else { return None };
        let call = system.calls_of(no).blocked_in?;
        let (number, role) = (call.object?, system.role_of(call.def)?);
        let kind = code.and_then(kind_of)?;
        let (object, thread) = (system.address(number), system.thread(no)?.address);
        self.kinds.entry(object).or_insert(kind);
        let owner = system.lock(number).filter(|_| kind == Kind::Mutex).and_then(|lock| lock.owner);
        let wanted = find(&self.objects, object).and_then(|one| one.wanted.get(&thread)).copied();
        Some(Wait {
            kind,
            object,
            owner: owner.and_then(|owner| system.thread(owner)).map(|owner| owner.address),
            // Calls that do not say how long they wait are those that wait for event flags.
            forever: call.wait == Some(WaitOption::Forever),
            wanted: wanted.filter(|_| kind == Kind::EventFlags),
            sends: kind == Kind::Queue && role.put.is_some(),
        })
    }
}
