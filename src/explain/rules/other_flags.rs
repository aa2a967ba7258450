//! A thread waits for ever for event flags, and the one that sets them has set other ones since: those of another signal by mistake,
//! as a number of a bit (3) where its mask (0x8) was meant.
//!
//! Where the trace is too short, memory and the code show it: the number of the missing bit is set as a mask, and no code waits for
//! these flags. It is likely where the only one that sets them also sets the mask itself, and the program does not look at flags in
//! another way.
//!
//! Against it: who sets several signals sets others, too. So it counts only where the other flags were set already or are the number of
//! the bit, and where that one set the wanted ones before, in the trace, or sets them by its code. It is likely where they are the number
//! of the bit, and are no flag that it also sets on purpose; else a hint.

use super::super::events::{Events, Given, Giver};
use super::super::graph::Graph;
use super::super::state::{Task, Wait};
use super::super::usage::{Use, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::{givers, not_got, user_name};
use super::words::{missing, place_at, waiting};
use super::wrong_mask::giver;
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// Functions of the kernel by which a program sees flags without a wait for them.
const LOOKS: [&str; 2] = ["_tx_event_flags_info_get", "_tx_event_flags_set_notify"];
/// The numbers below are those of the first flags of a group, which are often set together.
const FEWEST: u64 = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_it = |wait: &Wait| wait.kind == Kind::EventFlags && (wait.forever || case.kernel.is_none());
    let of = |task: &Task| {
        let wait = task.wait.filter(is_it)?;
        // Others may wait for other flags of the group.
        let is_long = case
            .events
            .is_none_or(|events| events.is_long(task.address, wait.object) || events.is_long_for_it(task.address));
        let by_events = case.events.and_then(|events| finding(task, &wait, (events, is_long), case, graph));
        // A wait that is not long may be over soon.
        let by_number = || by_number(task, &wait, case, graph).filter(|_| is_long);
        match by_events {
            Some(finding) if finding.confidence > Confidence::Hint => Some(finding),
            hint => by_number().or(hint),
        }
    };
    graph.tasks.list.iter().filter_map(of).collect()
}

/// By memory and the code, as the trace may be too short: the number of the bit that is missing is set as a mask, and no code waits for
/// these flags.
fn by_number(task: &Task, wait: &Wait, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let wanted = missing(wait, case).filter(|wanted| wanted.is_power_of_two())?;
    let number = u64::from(wanted.trailing_zeros());
    let current = case.kernel?.object(wait.object)?.get("current")?;
    if number < FEWEST || current & number != number || !wait.forever {
        return None;
    }
    let usage = case.usage()?;
    let who = |act, flags| usage.who(act, Some(Kind::EventFlags), wait.object, Some(flags));
    let is_awaited = !who(Act::Takes, number)?.is_empty();
    let site = |user: User, flags: u64| {
        let sets = |one: &Use| {
            let is_it = one.action.act == Act::Gives && one.object == Some(wait.object);
            is_it && one.flags.map(u64::from) == Some(flags)
        };
        usage.site_with(user, sets)
    };
    let sites = who(Act::Gives, number)?.into_iter().filter_map(|user| Some((user, site(user, number)?)));
    let sites: Vec<(User, Addr)> = sites.collect();
    let is_never_set = who(Act::Gives, wanted)?.is_empty();
    let ([(user, at)], false, false) = (sites.as_slice(), is_awaited, is_never_set) else { return None };
    // Who sets the mask itself on another path means the same flag here, unless the program looks at flags in another way.
    let is_seen = LOOKS.iter().any(|name| case.look.symbol(name).is_some());
    let is_sure = site(*user, wanted).is_some() && !is_seen;
    let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
    let (name, who, object) = (case.label(task.address), user_name(*user, case), case.object(wait.object));
    let place = place_at(*at, case);
    let claim = format!(
        "{name} waits for {wanted:#x} of {object}, and {number:#x} is set, for which no code waits: that is the number of the \
         bit, and {wanted:#x} its mask; {who} sets {number:#x} in {place}"
    );
    Some(
        Finding::new(Code::WrongEventMask, case.cap(claimed), claim)
            .against([format!("{who} may set {number:#x} on purpose; who waits is inferred from the program's code")])
            .evidence([
                waiting(task.address, wait.object, case, graph),
                Evidence::memory(wait.object, format!("{object}: {current:#x} is set")),
                Evidence::symbol(*at, &place, format!("{who} sets {number:#x} of {object} here")),
            ])
            .waiters(graph.waiters(&[task.address]), task.address, case, graph)
            .next(format!("compare the flags with which {who} calls tx_event_flags_set on each of its paths"))
            .threads([task.address]),
    )
}

/// Flags that were set instead of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Other {
    by: Giver,
    given: Given,
    /// True for the number of the bit that is wanted.
    is_number: bool,
    /// True where it has never set them before.
    is_new: bool,
    /// True where no thread asks for any of them.
    is_unasked: bool,
}

impl Other {
    /// `wanted`: the flags that are missing. `sets`: whether the code of the giver sets them. `since`: the event with which the wait
    /// began.
    fn of(by: Giver, given: Given, wanted: u64, group: &Group, sets: bool) -> Option<Self> {
        let Group { current, asked, since } = *group;
        let is_unasked = given.last & asked == 0;
        // One flag alone is rather one of the group than a number: 2 may be the second of them, and 4 the third that a thread asks for.
        let may_be_number = !given.last.is_power_of_two() || is_unasked && given.last >= FEWEST;
        let is_number = wanted.is_power_of_two()
            && given.last != 0
            && may_be_number
            && given.last == u64::from(wanted.trailing_zeros());
        let is_new = given.before & given.last == 0;
        let is_vain = given.last != 0 && given.last & !current == 0 && is_new;
        let is_its = given.before & wanted != 0 || sets;
        // Who is more urgent than the thread that waits sets the number before the wait begins.
        let is_last = is_number && is_new;
        let is_other = (given.seq > since || is_last) && given.last & wanted == 0 && (is_number || is_vain);
        (is_its && is_other).then_some(Self { by, given, is_number, is_new, is_unasked })
    }

    /// True for a mistake that shows however long the wait lasts: a number that was never set before. One flag alone, as 4, may be of the
    /// group, if a thread asks for it.
    const fn is_plain(&self) -> bool {
        self.is_number && self.is_new && (self.is_unasked || !self.given.last.is_power_of_two())
    }
}

/// What is known of a group and of the wait for it.
struct Group {
    /// The flags that are set.
    current: u64,
    /// Those that any thread asked for.
    asked: u64,
    /// The event with which the wait began.
    since: u64,
}

/// By the events. `is_long`: the wait lasts far longer than others for the same group.
fn finding(
    task: &Task,
    wait: &Wait,
    (events, is_long): (&Events, bool),
    case: &Case<'_>,
    graph: &Graph,
) -> Option<Finding> {
    let wanted = missing(wait, case)?;
    let one = events.object(wait.object)?;
    let since = events.activity(task.address).and_then(|activity| activity.since).map_or(0, |(_, seq)| seq);
    if one.givers.values().any(|given| given.seq > since && given.last & wanted != 0) {
        return None;
    }
    let current = case.kernel.and_then(|kernel| kernel.object(wait.object)?.get("current")).unwrap_or(u64::MAX);
    let by_code = givers(wait, case, graph);
    let sets = |by: Giver| match by {
        Giver::Thread(at) => {
            by_code.as_ref().is_some_and(|all| all.threads.iter().any(|thread| events.is(*thread, at)))
        }
        _ => false,
    };
    let waited_for = graph.tasks.waiting(wait.object).filter_map(|task| task.wait?.wanted);
    let asked = waited_for.fold(one.asked, |all, wanted| all | wanted.flags);
    // The trace may be too short to show all that is asked for: the code shows the rest.
    let set = one.givers.values().fold(0, |all, given| all | given.last) & !asked;
    let asked = asked | set & !not_got(set, wait.object, case);
    let group = Group { current, asked, since };
    let of = |(by, given): (&Giver, &Given)| Other::of(*by, *given, wanted, &group, sets(*by));
    let mut all = one.givers.iter().filter_map(of);
    let (Some(other), None) = (all.next(), all.next()) else { return None };
    // Waits that have ended show how long is usual.
    let may_be_over = || !other.is_plain() || one.longest_wait == 0 || events.is_usual(task.address, wait.object);
    if !is_long && may_be_over() {
        return None;
    }
    let (name, who, object) = (case.label(task.address), giver(other.by, case, graph), case.object(wait.object));
    let set = other.given.last;
    let when = if other.given.seq > since { "since" } else { "last" };
    let instead = if other.is_number {
        format!("{who} has set {set:#x} of it {when}: that is the number of the bit, and {wanted:#x} its mask")
    } else {
        format!("{who}, which otherwise sets {wanted:#x}, has set {set:#x} of it since")
    };
    let site = site(other.by, wait, set, case, graph);
    let place = site.as_ref().and_then(|site| site.symbol.clone()).map(|place| format!(" (in {place})"));
    // Several interrupts whose numbers are not known are one here.
    let is_one = !matches!(other.by, Giver::Interrupt(None) | Giver::Other);
    let is_sure = other.is_number && other.is_new && is_one && (is_long || other.given.seq > since);
    let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
    let first = if other.is_new { ", for the first time in the trace" } else { "" };
    let claim = format!("{name} waits for {wanted:#x} of {object}, and {instead}{}", place.unwrap_or_default());
    Some(
        Finding::new(Code::WrongEventMask, case.cap(claimed), claim)
            .against([format!(
                "{who} may set {set:#x} on purpose, and what should lead to {wanted:#x} may not have come"
            )])
            .evidence([
                waiting(task.address, wait.object, case, graph),
                Evidence::event(other.given.seq, format!("{who} sets {set:#x} of {object}{first}")),
            ])
            .evidence(site)
            .waiters(graph.waiters(&[task.address]), task.address, case, graph)
            .next(format!("compare the flags with which {who} calls tx_event_flags_set on each of its paths"))
            .threads([task.address]),
    )
}

/// Where a thread sets these flags, by the function that says which, and as evidence.
fn site(by: Giver, wait: &Wait, set: u64, case: &Case<'_>, graph: &Graph) -> Option<Evidence> {
    let Giver::Thread(stored) = by else { return None };
    let thread = graph.stored(case, stored)?.address;
    let sets = |one: &Use| {
        let is_it = one.action.act == Act::Gives && one.object == Some(wait.object);
        is_it && one.flags.map(u64::from) == Some(set)
    };
    let at = case.usage()?.site_with(User::Thread(thread), sets)?;
    let text = format!("{} sets {set:#x} of {} here", case.label(thread), case.object(wait.object));
    Some(Evidence::symbol(at, &place_at(at, case), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(last: u64, before: u64, wanted: u64, current: u64) -> Option<(bool, bool)> {
        let given = Given { times: 2, seq: 9, flags: last | before, last, before };
        let other = Other::of(Giver::Thread(0x100), given, wanted, &Group { current, asked: 0x6, since: 5 }, false)?;
        Some((other.is_number, other.is_new))
    }

    /// The drive of a drum set 4 where it had set 0x10, a flag that no thread asked for: it was taken for one of the group.
    #[test]
    fn a_number_that_is_a_flag_of_its_own_was_missed() {
        let of = |asked| {
            let given = Given { times: 3, seq: 9, flags: 0x16, last: 4, before: 0x12 };
            let group = Group { current: u64::MAX, asked, since: 5 };
            Other::of(Giver::Thread(0x100), given, 0x10, &group, false)
        };
        assert!(of(0x33).is_some_and(|other| other.is_number && other.is_plain()));
        assert!(of(0x37).is_some_and(|other| !other.is_number), "a thread asks for it");
    }

    /// The driver of a latch set `3` instead of `1 << 3` on one of its paths.
    #[test]
    fn a_number_of_a_bit_is_no_mask() {
        assert_eq!(of(3, 8, 8, 3), Some((true, true)));
        assert_eq!(of(3, 8, 8, 0), Some((true, true)), "also where it sets something");
        assert_eq!(of(3, 8, 16, 0), None, "another bit is wanted");
        assert_eq!(of(2, 4, 4, 0), None, "a flag of the group");
        assert_eq!(of(3, 11, 8, 0), Some((true, false)), "flags that it sets on purpose, too");
        assert_eq!(of(3, 0, 8, 3), None, "it never set what is wanted");
    }

    #[test]
    fn flags_that_were_set_already_are_set_instead() {
        assert_eq!(of(5, 8, 8, 7), Some((false, true)));
        assert_eq!(of(5, 8, 8, 1), None, "they are news");
        assert_eq!(of(5, 13, 8, 7), None, "it sets them, too");
    }
}
