//! Event flags of a group are set that no thread waits for, while a thread waits for ever for others of the group: whoever sets
//! them may set the wrong ones, or the thread waits for the wrong ones. Memory has the flags that are set and the wanted ones;
//! who sets is seen in the trace. Flags may also be read without a wait, as those of a status are, and a rare event may be waited
//! for: it is a hint.

use super::super::events::{Giver, One};
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::words::waiting;
use crate::kernel::{Kind, Wanted};
use crate::trace::many;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    // Events do not show how long a wait for flags lasts.
    let waits =
        |task: &Task| task.wait.filter(|wait| wait.kind == Kind::EventFlags && (wait.forever || case.kernel.is_none()));
    graph.tasks.list.iter().filter_map(|task| finding(task, &waits(task)?, case, graph)).collect()
}

/// The wanted flags that are missing, and those that are set and that nobody wants; `None` where the wait is over.
const fn compare(current: u64, wanted: Wanted, asked: u64) -> Option<(u64, u64)> {
    let missing = if wanted.all || current & wanted.flags == 0 { wanted.flags & !current } else { 0 };
    let stray = current & !asked;
    if missing != 0 && stray != 0 { Some((missing, stray)) } else { None }
}

/// The flags that are set, and whether memory shows that: without it all that were ever set, where the trace has all events.
fn current(wait: &Wait, case: &Case<'_>, one: Option<&One>) -> Option<(u64, bool)> {
    match case.kernel {
        Some(kernel) => Some((kernel.object(wait.object)?.get("current")?, true)),
        None => {
            case.events.filter(|events| events.is_whole)?;
            Some((one?.givers.values().fold(0, |all, given| all | given.flags), false))
        }
    }
}

fn finding(task: &Task, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wanted = wait.wanted?;
    let one = case.events.and_then(|events| events.object(wait.object));
    let (current, is_known) = current(wait, case, one)?;
    let waited_for = graph.tasks.waiting(wait.object).filter_map(|task| task.wait?.wanted);
    let asked = waited_for.fold(one.map_or(0, |one| one.asked), |all, wanted| all | wanted.flags);
    let (missing, stray) = compare(current, wanted, asked)?;
    let stray = Some(by_code::not_got(stray, wait.object, case)).filter(|stray| *stray != 0)?;
    let givers = || one.into_iter().flat_map(|one| &one.givers);
    if givers().any(|(_, given)| given.flags & missing != 0) {
        return None;
    }
    let sets = givers().filter(|(_, given)| given.flags & stray != 0).max_by_key(|(_, given)| given.times);
    // Some of those that it waits for together are set: that the rest is missing is no matter of time alone.
    let is_half = wanted.all && current & wanted.flags != 0;
    if case.events.is_some() && sets.is_none() && !is_half {
        return None;
    }
    let (name, object) = (case.label(task.address), case.object(wait.object));
    let who = sets.map_or_else(|| "an unknown caller".to_owned(), |(by, _)| giver(*by, case, graph));
    let together = if wanted.all { " together" } else { "" };
    let set = sets.map(|(by, given)| {
        let times = many(given.times, "time", "times");
        let text = format!("{} sets {:#x}, {times} in the trace", giver(*by, case, graph), given.flags);
        Evidence::event(given.seq, text)
    });
    let claim = format!(
        "{name} waits for {:#x}{together} of {object}: {missing:#x} is not set, and {who} sets {stray:#x}, which no thread waits for",
        wanted.flags
    );
    Some(
        Finding::new(Code::WrongEventMask, case.cap(Confidence::Hint), claim)
            .against(["the flags that no thread waits for may be read without a wait, and the others may be rare"])
            .evidence(
                [waiting(task.address, wait.object, case, graph)]
                    .into_iter()
                    .chain(is_known.then(|| {
                        Evidence::memory(wait.object, format!("{object}: {current:#x} is set")).holds(current)
                    }))
                    .chain(set),
            )
            .waiters(graph.waiters(&[task.address]), task.address, case, graph)
            .next(format!("compare the flags that {who} sets with those that {name} waits for"))
            .threads([task.address]),
    )
}

/// Who sets, in words.
pub(super) fn giver(by: Giver, case: &Case<'_>, graph: &Graph) -> String {
    match by {
        Giver::Interrupt(number) => case.interrupt(number),
        Giver::Thread(stored) => case.label(graph.stored(case, stored).map_or(stored, |task| task.address)),
        Giver::Other => "an unknown caller".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver sets 0x40 instead of 0x4: `uart` waits for 0x5 together, and 0x41 is set.
    #[test]
    fn a_flag_that_nobody_wants_is_set_instead_of_the_wanted_one() {
        let wanted = Wanted { flags: 5, all: true, clears: false };
        assert_eq!(compare(0x41, wanted, 5), Some((4, 0x40)));
        assert_eq!(compare(0x45, wanted, 5), None, "the wait is about to end");
        assert_eq!(compare(0x41, wanted, 0x45), None, "somebody asks for it");
        assert_eq!(compare(0x40, Wanted { flags: 5, all: false, clears: false }, 5), Some((5, 0x40)));
        assert_eq!(compare(0x41, Wanted { flags: 5, all: false, clears: false }, 5), None, "the wait is about to end");
        assert_eq!(compare(1, wanted, 5), None, "nothing else is set");
    }
}
