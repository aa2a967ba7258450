//! Two threads send messages from the same memory, as from a static variable of a function that both call, and one of them sent while the
//! other one was preparing its message: that message may be the one of the first thread. Who sent it waits for an answer that does not
//! come, as the answer goes to the other one.
//!
//! Against it: the thread may have begun its message only behind the other one's send. So it is a hint.

use super::super::graph::Graph;
use super::super::state::Task;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::wanted;
use crate::abi::Addr;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    graph.tasks.list.iter().filter_map(|task| finding(task, case, graph)).collect()
}

fn finding(task: &Task, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let events = case.events?;
    // The event of a wait for event flags does not have its time to wait.
    let wait = task.wait.filter(|wait| !wait.sends)?;
    let overlap = events.same_buffer.of(events.stored(task.address))?;
    let (_, since) = events.activity(task.address)?.since?;
    if since < overlap.seq || !events.is_long(task.address, wait.object) {
        return None;
    }
    let full = |stored: Addr| graph.stored(case, stored).map_or(stored, |task| task.address);
    let objects = || case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let queue =
        objects().map(|object| object.address).find(|at| events.is(*at, overlap.queue)).unwrap_or(overlap.queue);
    let (name, other, queue) = (case.label(task.address), case.label(full(overlap.other.0)), case.object(queue));
    // A part of an address may be that of something else.
    let is_whole = u64::from(case.stored(u64::MAX).count_ones()) >= case.width().saturating_mul(8);
    let memory = case.look.place(overlap.buffer).filter(|_| is_whole);
    let memory = memory.unwrap_or_else(|| format!("{:#x}", overlap.buffer));
    let claim = format!(
        "{name} waits for {} since it sent a message to {queue} from {memory}; {other} sent one from the same memory while {name} was ready: what \
         {name} sent may be the message of {other}",
        wanted(&wait, None, case)
    );
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against([format!("{name} may have begun its message only behind the send of {other}")])
            .evidence([
                Evidence::event(overlap.other.1, format!("{other} sends to {queue} from {memory}")),
                Evidence::event(overlap.seq, format!("{name}, which was ready before that, sends from there, too")),
            ])
            .next(format!("give each thread memory of its own for its messages, or a mutex from the writing of {memory} to the send"))
            .affected(graph.waiters(&[task.address]))
            .threads([task.address]),
    )
}
