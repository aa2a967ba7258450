//! A thread waits for the number of an event flag where its mask was meant: for 6, which is 0x2 and 0x4 together, where `1 << 6` is set.
//! A flag of the number is never set, and the flag with that number is one that threads wait for, and is set.
//!
//! Against it: the flags of the number may be meant, and be rare. A number that is one flag itself says nothing. It is likely where the flag
//! with that number was set after the wait began, and the thread waits for it elsewhere by its code, else a hint.

use super::super::events::One;
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::usage::{Use, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::words::waiting;
use super::wrong_mask::giver;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The most who set a flag that are named.
const MOST: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let waits =
        |task: &Task| task.wait.filter(|wait| wait.kind == Kind::EventFlags && (wait.forever || case.kernel.is_none()));
    graph.tasks.list.iter().filter_map(|task| finding(task, &waits(task)?, case, graph)).collect()
}

/// The flag with a number that is waited for as a mask; `None` for a number that is one flag itself.
const fn flag_of(number: u64) -> Option<u64> {
    if number < 3 || number >= 32 || number.is_power_of_two() { None } else { Some(1 << number) }
}

/// The flags of a number that are not set, and that nobody sets.
fn never_set(number: u64, current: Option<u64>, wait: &Wait, one: Option<&One>, case: &Case<'_>) -> u64 {
    let is_set = |bit: u64| {
        let in_trace = one.is_some_and(|one| one.givers.values().any(|given| given.flags & bit != 0));
        let users = || case.usage()?.who(Act::Gives, Some(Kind::EventFlags), wait.object, Some(bit));
        // Memory without the code does not show it, and a trace may be too short.
        let sets = |one: &Use| {
            let is_it = one.action.act == Act::Gives && one.object == Some(wait.object);
            is_it && one.flags.is_none_or(|flags| u64::from(flags) & bit != 0)
        };
        let at_start = || case.usage().is_some_and(|usage| usage.uses_of(User::Start).iter().any(sets));
        let is_by_code = || users().is_none_or(|users| !users.is_empty()) || at_start();
        let by_code = || case.kernel.is_some() && is_by_code();
        current.is_some_and(|current| current & bit != 0) || in_trace || by_code()
    };
    (0..u32::BITS).map(|n| 1_u64 << n).filter(|bit| number & bit != 0 && !is_set(*bit)).fold(0, |all, bit| all | bit)
}

/// `vent sets`, or `vent and pump set`.
fn sets(users: &[User], case: &Case<'_>) -> String {
    let names: Vec<String> = users.iter().take(MOST).map(|user| user_name(*user, case)).collect();
    format!("{} {}", names.join(" and "), if users.len() == 1 { "sets" } else { "set" })
}

fn finding(task: &Task, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wanted = wait.wanted.filter(|wanted| wanted.all)?;
    let (number, flag) = (wanted.flags, flag_of(wanted.flags)?);
    let one = case.events.and_then(|events| events.object(wait.object));
    let current = case.kernel.and_then(|kernel| kernel.object(wait.object)?.get("current"));
    let lacks = never_set(number, current, wait, one, case);
    let takers = || case.usage()?.who(Act::Takes, Some(Kind::EventFlags), wait.object, Some(flag));
    let is_asked = one.is_some_and(|one| one.asked & flag != 0) || takers().is_some_and(|users| !users.is_empty());
    // A thread without any event waits since before the first, unless events are missing.
    let since = case.events.and_then(|events| match events.activity(task.address) {
        Some(activity) => activity.since.map(|(_, seq)| seq),
        None => (events.gaps() == 0).then_some(0),
    });
    let set = one.into_iter().flat_map(|one| &one.givers).filter(|(_, given)| given.last & flag != 0);
    let set = set.max_by_key(|(_, given)| given.seq);
    let is_there = current.map_or(set.is_some(), |current| current & flag != 0);
    if lacks == 0 || !is_asked || !is_there {
        return None;
    }
    let (name, object) = (case.label(task.address), case.object(wait.object));
    let is_since = set.zip(since).is_some_and(|((_, given), since)| given.seq > since);
    let user = User::Thread(task.address);
    let is_own = case.usage().is_some_and(|usage| usage.gets_flag(user, wait.object, flag));
    let claimed = if is_since && is_own { Confidence::Likely } else { Confidence::Hint };
    let setters = || {
        let users = case.usage()?.who(Act::Gives, Some(Kind::EventFlags), wait.object, Some(flag))?;
        (!users.is_empty()).then(|| format!(", which {} by the code", sets(&users, case)))
    };
    let by = match set.filter(|_| is_since) {
        Some((by, _)) => format!(", which {} has set since the wait began", giver(*by, case, graph)),
        None => setters().unwrap_or_default(),
    };
    let never = if case.kernel.is_some() { "no code of the program sets" } else { "nobody in the trace sets" };
    let claim = format!(
        "{name} waits for {number:#x} together of {object}, and {never} {lacks:#x}; {number} is the number of the flag {flag:#x}{by}: perhaps \
         its mask was meant"
    );
    Some(
        Finding::new(Code::WrongEventMask, case.cap(claimed), claim)
            .against([format!("{lacks:#x} may be meant, and be set rarely")])
            .evidence([waiting(task.address, wait.object, case, graph)])
            .evidence(
                current.map(|current| {
                    Evidence::memory(wait.object, format!("{object}: {current:#x} is set")).holds(current)
                }),
            )
            .evidence(set.map(|(by, given)| {
                Evidence::event(given.seq, format!("{} sets {flag:#x} of {object}", giver(*by, case, graph)))
            }))
            .waiters(graph.waiters(&[task.address]), task.address, case, graph)
            .next(format!("compare {number:#x}, for which {name} waits, with the mask {flag:#x}"))
            .threads([task.address]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_one_flag_itself_says_nothing() {
        assert_eq!((flag_of(6), flag_of(3), flag_of(31)), (Some(0x40), Some(0x8), Some(0x8000_0000)));
        assert_eq!((flag_of(4), flag_of(1), flag_of(0), flag_of(32)), (None, None, None, None));
    }
}
