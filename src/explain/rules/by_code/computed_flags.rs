//! A thread waits for ever for an event flag that, by the code, only one thread may set, and whose code does not show which it sets; that thread
//! waits for its next request, and a flag is set that only it sets and that no code waits for: perhaps it was meant to be the other one.
//!
//! Against it: a flag may be looked at without a wait, and the request may not have been made. It is a hint.

use super::super::super::usage::{Need, Use, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The flag that is set instead, and where its giver sets flags that its code does not show.
struct Stray {
    flags: u64,
    current: u64,
    at: Addr,
    /// True where no code gets them, by the flags that it knows.
    is_unasked: bool,
}

impl ByCode<'_, '_> {
    pub(super) fn computed_flags(&self) -> Vec<Finding> {
        self.stuck.waits.iter().filter_map(|(thread, need)| self.computed(*thread, need)).collect()
    }

    fn computed(&self, thread: Addr, need: &Need) -> Option<Finding> {
        let [User::Thread(server)] = self.stuck.helpers(thread) else { return None };
        let (server, wanted) = (*server, need.wanted.filter(|wanted| wanted.is_power_of_two())?);
        self.stuck.waits.get(&server)?;
        let stray = self.stray(thread, need, server)?;
        let (name, giver, object) = (self.case.label(thread), self.case.label(server), self.case.object(need.object));
        let (place, flags) = (place_at(stray.at, self.case), stray.flags);
        let nobody = if stray.is_unasked { "for which no code waits" } else { "for which no thread waits now" };
        let behind = self.stuck.behind(&[thread]);
        let claim = format!(
            "{name} waits for {wanted:#x} of {object}, and {flags:#x} is set, {nobody}; only {giver} may set either, and \
             its code does not show which it sets in {place}"
        );
        Some(
            Finding::new(Code::WrongEventMask, self.case.cap(Confidence::Hint), claim)
                .against([BY_CODE, "the flag that is set may be looked at without a wait for it"])
                .against((!stray.is_unasked).then(|| format!("{name} may wait for it another time")))
                .evidence([
                    waiting(thread, need.object, self.case, self.graph),
                    Evidence::memory(need.object, format!("{object}: {:#x} is set", stray.current))
                        .holds(stray.current),
                    Evidence::symbol(
                        stray.at,
                        &place,
                        format!("{giver} sets flags of {object} here, which its code does not show"),
                    ),
                ])
                .explains(behind.iter().filter(|at| **at != server).filter_map(|at| waits(*at, self.case, self.graph)))
                .next(format!("compare the flags that {giver} sets in {place} with those that {name} waits for"))
                .affected(behind.into_iter().chain([server]))
                .threads([thread]),
        )
    }

    fn stray(&self, thread: Addr, need: &Need, server: Addr) -> Option<Stray> {
        let wanted = need.wanted?;
        let group = self.case.kernel?.object(need.object).filter(|_| need.kind == Kind::EventFlags)?;
        let (current, user, waiter) = (group.get("current")?, User::Thread(server), User::Thread(thread));
        let who = |act, bit| self.usage.who(act, Some(Kind::EventFlags), need.object, Some(bit));
        let sets = |one: &Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::EventFlags) && one.object == Some(need.object)
        };
        // A constant that has the flag shows that the giver knows it.
        let is_constant = |one: &Use| sets(one) && one.flags.is_some_and(|flags| u64::from(flags) & wanted != 0);
        if self.usage.site_with(user, is_constant).is_some() {
            return None;
        }
        let at = self.usage.site_with(user, |one| sets(one) && one.flags.is_none())?;
        let mut asked = self.graph.tasks.waiting(need.object).map(|task| Some(task.wait?.wanted?.flags));
        let asked = asked.try_fold(0, |all, wanted| Some(all | wanted?))?;
        let takers =
            |bit| who(Act::Takes, bit).map(|users| users.into_iter().filter(|taker| *taker != waiter).collect());
        let is_stray = |bit: &u64| {
            let is_alone = who(Act::Gives, *bit).is_some_and(|users| users == [user]);
            let is_taken = takers(*bit).is_none_or(|others: Vec<User>| !others.is_empty())
                || self.usage.gets_flag(waiter, need.object, *bit);
            current & bit & !asked != 0 && is_alone && !is_taken
        };
        let flags = (0..u32::BITS).map(|n| 1_u64 << n).filter(is_stray).fold(0, |all, bit| all | bit);
        let is_unasked = !self.usage.gets_unknown_flags(waiter, need.object);
        (flags != 0).then_some(Stray { flags, current, at, is_unasked })
    }
}
