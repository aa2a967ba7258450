//! A thread waits for ever for event flags that a call clears: `tx_event_flags_set` with `TX_AND` keeps those flags that it is given,
//! and clears all others of the group. Where `TX_OR` was meant, it clears what others have set.
//!
//! By the trace it counts where nobody has set the flags since; by the code only where the call keeps a few flags, as most calls
//! with `TX_AND` clear a few. A thread that clears what it then waits for looks at what comes from there on: that counts where another
//! had set it since the thread last asked for it, so that an answer was lost which came early.
//!
//! Against it: a flag may say that something is so, and be cleared on purpose while it is not. So it is a hint; an answer that was lost is
//! likely where the thread has cleared it before, and no answer was there then.

use super::super::events::{ClearedFlags, Giver, SetFlags};
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::usage::{Usage, Use, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::{givers, user_name};
use super::flags_taken::Lacks;
use super::words::{few, place_at, waiting};
use super::wrong_mask::giver;
use crate::kernel::api::Act;

/// So many flags that are kept are few.
const FEW: u32 = 8;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_long = |task: &Task, object| case.events.is_none_or(|events| events.is_long(task.address, object));
    let waits = |task: &&Task| task.wait.is_some_and(|wait| wait.forever && is_long(task, wait.object));
    let all: Vec<(&Task, Lacks)> =
        graph.tasks.list.iter().filter(waits).filter_map(|task| Some((task, Lacks::of(task, case)?))).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let usage = case.usage();
    let found = all.into_iter().filter_map(|(task, lacks)| {
        let clear = by_events(task, lacks, case, graph).or_else(|| by_code(task, lacks, usage?, case))?;
        let lost = clear.unread.zip(clear.seq).map(|(set, seq)| lost(task, lacks, (&clear, set, seq), case, graph));
        Some(lost.unwrap_or_else(|| finding(task, lacks, &clear, case, graph)))
    });
    found.collect()
}

/// What clears flags.
struct Clear {
    who: String,
    /// The flags that it keeps.
    kept: u64,
    seq: Option<u64>,
    /// What the thread itself cleared that another had set.
    unread: Option<SetFlags>,
    /// True where such a flag was never there when the thread cleared it before.
    is_sure: bool,
}

/// So often the thread cleared the flag before, and it was not set.
const USUAL: u64 = 1;

/// A thread that clears flags before it waits for them looks at what comes from there on.
fn by_events(task: &Task, lacks: Lacks, case: &Case<'_>, graph: &Graph) -> Option<Clear> {
    let events = case.events?;
    let ClearedFlags { by, kept, seq, unread, times, .. } = events.object(lacks.group)?.away.cleared(lacks.flags)?;
    let is_own = by == Giver::Thread(events.stored(task.address));
    let unread = unread.filter(|set| is_own && set.flags & lacks.flags != 0);
    if is_own && unread.is_none() {
        return None;
    }
    Some(Clear { who: giver(by, case, graph), kept, seq: Some(seq), unread, is_sure: times >= USUAL })
}

fn by_code(task: &Task, lacks: Lacks, usage: &Usage<'_>, case: &Case<'_>) -> Option<Clear> {
    let is_own = |user: User| user == User::Thread(task.address);
    let clears = |(user, kept): &(User, u64)| kept & lacks.flags != lacks.flags && is_few(*kept) && !is_own(*user);
    let (user, kept) = usage.flags_kept(lacks.group)?.into_iter().find(clears)?;
    Some(Clear { who: user_name(user, case), kept, seq: None, unread: None, is_sure: false })
}

/// Where a thread clears the flags that it waits for, by a call of its own (`TX_AND`): one that is set shortly before is lost. In words,
/// and as evidence.
pub(super) fn by_itself(task: &Task, wait: &Wait, case: &Case<'_>) -> Option<(String, Evidence)> {
    let (usage, user) = (case.usage()?, User::Thread(task.address));
    let wanted = wait.wanted?.flags;
    let clears = |one: &Use| {
        let is_it = one.action.act == Act::Clears && one.object == Some(wait.object);
        is_it && one.flags.is_some_and(|kept| u64::from(kept) & wanted != wanted)
    };
    let at = usage.site(user, clears)?;
    let (place, name, object) = (place_at(at, case), case.label(task.address), case.object(wait.object));
    let words = format!(
        "{name} clears them in {place} by tx_event_flags_set with TX_AND: what is set shortly before that is lost"
    );
    Some((words, Evidence::symbol(at, &place, format!("{name} clears flags of {object} here (TX_AND)"))))
}

/// Where a thread waits for several flags together, of which some are set: the wait that it is in clears them all (`TX_AND_CLEAR`), also a
/// flag that says that something is so. In words, and as evidence.
pub(super) fn by_get(task: &Task, wait: &Wait, case: &Case<'_>) -> Option<(String, Evidence)> {
    let asked = wait.wanted.filter(|wanted| wanted.all && wanted.clears)?;
    let set = case.kernel?.object(wait.object)?.get("current")? & asked.flags;
    let missing = asked.flags & !set;
    if set == 0 || missing == 0 {
        return None;
    }
    let (name, object) = (case.label(task.address), case.object(wait.object));
    let words = format!("each time that it gets them, it clears all of {:#x} (TX_AND_CLEAR)", asked.flags);
    Some((
        words,
        Evidence::memory(
            wait.object,
            format!("{object}: {set:#x} is set of what {name} waits for, {missing:#x} is not"),
        ),
    ))
}

/// The thread itself cleared what it waits for now, after another had set it.
fn lost(
    task: &Task,
    lacks: Lacks,
    (clear, set, seq): (&Clear, SetFlags, u64),
    case: &Case<'_>,
    graph: &Graph,
) -> Finding {
    let (name, object, by) = (case.label(task.address), case.object(lacks.group), giver(set.by, case, graph));
    // Which interrupt, the code shows where it is the only one.
    let only = || few(givers(&task.wait?, case, graph).as_ref());
    let by = Some(set.by).filter(|by| *by == Giver::Interrupt(None)).and_then(|_| only()).unwrap_or(by);
    let flags = set.flags & lacks.flags;
    let own = task.wait.and_then(|wait| by_itself(task, &wait, case));
    let place = own.as_ref().and_then(|(_, shown)| shown.symbol.clone()).map(|place| format!(" in {place}"));
    let claimed = if clear.is_sure { Confidence::Likely } else { Confidence::Hint };
    Finding::new(
        Code::EventNeverSet,
        case.cap(claimed),
        format!(
            "{name} waits for {:#x} of {object}: {by} set {flags:#x}, and {name} cleared it{} before it began to wait: what came early is lost",
            lacks.wanted.flags,
            place.unwrap_or_default(),
        ),
    )
    .against(["what was set may have been left of something that came late"])
    .evidence([
        Evidence::event(set.seq, format!("{by} sets {flags:#x}")),
        Evidence::event(seq, format!("{name} clears it (tx_event_flags_set with TX_AND), and nobody has set it since")),
        waiting(task.address, lacks.group, case, graph),
    ])
    .evidence(own.map(|(_, shown)| shown))
    .waiters(graph.waiters(&[task.address]), task.address, case, graph)
    .next(format!("let {name} clear it before it asks for what sets it"))
    .threads([task.address])
}

const fn is_few(kept: u64) -> bool {
    kept != 0 && kept.count_ones() <= FEW
}

fn finding(task: &Task, lacks: Lacks, clear: &Clear, case: &Case<'_>, graph: &Graph) -> Finding {
    let (name, object, who) = (case.label(task.address), case.object(lacks.group), &clear.who);
    let cleared = lacks.flags & !clear.kept;
    let how = if is_few(clear.kept) {
        format!("{who} calls tx_event_flags_set of {:#x} with TX_AND, which clears all others of {object}", clear.kept)
    } else {
        format!("{who} clears {cleared:#x} of {object} (tx_event_flags_set with TX_AND)")
    };
    let set = if lacks.set == 0 { String::new() } else { format!(", of which only {:#x} is set", lacks.set) };
    let all = if lacks.wanted.all { "all of " } else { "" };
    let evidence = match clear.seq {
        Some(seq) => Evidence::event(seq, format!("{who} clears {cleared:#x}, and nobody has set it since")),
        None => {
            Evidence::memory(lacks.group, format!("by the code, {who} keeps {:#x} and clears the others", clear.kept))
        }
    };
    Finding::new(
        Code::EventNeverSet,
        case.cap(Confidence::Hint),
        format!("{name} waits for {all}{:#x} of {object}{set}: {how}", lacks.wanted.flags),
    )
    .against(["a flag that says that something is so is cleared on purpose while it is not"])
    .evidence([waiting(task.address, lacks.group, case, graph), evidence])
    .waiters(graph.waiters(&[task.address]), task.address, case, graph)
    .next(if is_few(clear.kept) {
        format!("look at the call of {who}: TX_OR sets flags")
    } else {
        format!("find out who is to set {cleared:#x} again after {who} has cleared it")
    })
    .threads([task.address])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_clears_one_flag_was_taken_for_one_that_keeps_one() {
        assert!(is_few(0x2));
        assert!(!is_few(0xFFFF_FFFE));
        assert!(!is_few(0), "it clears all, on purpose");
    }
}
