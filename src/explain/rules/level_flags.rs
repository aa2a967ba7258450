//! Event flags that a thread gets again and again without a wait, as they stay set: it asks for them with `TX_OR` or `TX_AND`, which do
//! not clear them, and nobody else does. The thread goes round its loop and keeps others from running.

use super::super::state::Task;
use super::super::usage::User;
use super::super::{Case, Evidence};
use super::by_code::user_name;
use crate::kernel::Kind;
use crate::kernel::api::Act;
use crate::trace::many;

/// So often it got them.
const AGAIN: u64 = 16;
/// The most that clear them and are named.
const FEW: usize = 2;

/// Such flags.
pub(super) struct Level {
    /// `as 0x1 of event flags state, which it got 73 times, stays set, as it does not clear it`. Hostile text.
    pub words: String,
    pub evidence: Evidence,
    /// True where by the code only threads clear them that cannot run.
    pub is_sure: bool,
}

/// The flags that keep a thread from waiting. `starved`: the threads that cannot run.
pub(super) fn of(hog: &Task, starved: &[&Task], case: &Case<'_>) -> Option<Level> {
    let events = case.events?;
    let (stored, left) = events.left_set(hog.address).filter(|(_, left)| left.times >= AGAIN)?;
    let group = case.kernel.map_or(Some(stored), |kernel| {
        kernel.objects.iter().map(|object| object.address).find(|address| events.is(*address, stored))
    })?;
    let current = case.kernel.and_then(|kernel| kernel.object(group)?.get("current"));
    if current.is_some_and(|current| current & left.flags == 0) {
        return None;
    }
    let clears = |(user, kept): (User, u64)| (kept & left.flags != left.flags).then_some(user);
    let kept = case.usage().and_then(|usage| usage.flags_kept(group)).unwrap_or_default();
    let users: Vec<User> = kept.into_iter().filter_map(clears).collect();
    let is_kept_off = |user: &User| matches!(user, User::Thread(at) if starved.iter().any(|task| task.address == *at));
    // Who gets them may clear them, too.
    let gets = case.usage().and_then(|usage| usage.who(Act::Takes, Some(Kind::EventFlags), group, Some(left.flags)));
    let is_own = |user: &User| *user == User::Thread(hog.address);
    let is_alone = gets.is_some_and(|all| all.iter().all(|user| is_own(user) || users.contains(user)));
    let is_sure = is_alone && !users.is_empty() && users.iter().all(is_kept_off);
    let by = if is_alone && (1..=FEW).contains(&users.len()) {
        let names: Vec<String> = users.iter().map(|user| user_name(*user, case)).collect();
        let clear = if names.len() == 1 { "clears" } else { "clear" };
        format!("; by the code only {} {clear} it", names.join(" and "))
    } else {
        String::new()
    };
    let (object, flags) = (case.object(group), left.flags);
    let words = format!(
        "as {flags:#x} of {object}, which it got {}, stays set, as it does not clear it{by}",
        many(left.times, "time", "times")
    );
    let text = format!("{} gets {flags:#x} of {object}, which is set, and leaves it set", case.label(hog.address));
    Some(Level { words, evidence: Evidence::event(left.seq, text), is_sure })
}
