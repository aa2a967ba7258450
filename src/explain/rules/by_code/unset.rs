//! A thread waits for event flags that no code of the program sets, while others of the group are set: who sets one of those may
//! set the wrong one. It is likely where the number of the flag is set in its place: 5 where `1 << 5` is waited for.
//! The start-up code may have set it alone, and other code clear it: then nobody sets it again.
//!
//! Against it: a thread may wait for a request that no code makes yet. Nothing is said of a thread that waits for the first time,
//! nor where no flag is set and no other thread waits for it.

use super::super::super::usage::{Need, Use, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// The most flags, and the most who set one, that are named.
const MOST: usize = 3;

/// The most threads behind it that are named.
const MOST_WAITERS: usize = 2;

/// A flag that is set, and those whose code sets it.
struct Set {
    flag: u64,
    setters: Vec<User>,
    /// True where no code gets it.
    is_stray: bool,
}

impl ByCode<'_, '_> {
    /// Threads that wait for flags that no code sets.
    pub(super) fn unset(&self) -> Vec<Finding> {
        let is_flags = |need: &Need| need.kind == Kind::EventFlags && need.act == Act::Gives;
        let all = self.stuck.waits.iter();
        let all = all.filter(|(thread, need)| is_flags(need) && self.stuck.helpers(**thread).is_empty());
        all.filter_map(|(thread, need)| self.unset_flags(*thread, need)).collect()
    }

    fn unset_flags(&self, thread: Addr, need: &Need) -> Option<Finding> {
        let wanted = need.wanted?;
        let (name, object) = (self.case.label(thread), self.case.object(need.object));
        let current = self.case.kernel?.object(need.object)?.get("current")?;
        let set = self.set(need.object, current);
        // A thread may wait for a request that no code makes yet: not where others of the group were set, and it ran before.
        let is_first = self.case.thread(thread)?.run_count.is_none_or(|runs| runs < 2);
        let behind = self.stuck.behind(&[thread]);
        if set.is_empty() && behind.is_empty() || is_first {
            return None;
        }
        // A number that is one flag itself may be meant as that flag, unless no code gets it.
        let number = u64::from(wanted.trailing_zeros());
        let is_stray = |set: &Set| set.flag == number && set.is_stray;
        let may_be_number = !number.is_power_of_two() || set.iter().any(is_stray);
        let is_number =
            may_be_number && set.iter().flat_map(|set| &set.setters).any(|user| self.sets_number(*user, need, wanted));
        let own = self.usage.who(need.act, Some(need.kind), need.object, Some(wanted)).unwrap_or_default();
        let is_own = own.contains(&User::Thread(thread));
        let at_start = self.site(User::Start, &Need { wanted: Some(wanted), ..*need });
        let who = match (&at_start, is_own) {
            (_, true) => "no code but its own sets",
            (Some(_), false) => "only the start-up code sets",
            (None, false) => "no code of the program sets",
        };
        let cleared = self.cleared(need.object, wanted);
        let clears = cleared.as_ref().map_or_else(String::new, |(words, _)| format!("; {words}"));
        let others: Vec<String> = behind.iter().filter_map(|at| waits(*at, self.case, self.graph)).collect();
        let only = [User::Thread(thread)];
        let direct = behind.iter().filter(|at| self.stuck.helpers(**at) == only);
        let direct: Vec<String> =
            direct.filter_map(|at| waits(*at, self.case, self.graph)).take(MOST_WAITERS).collect();
        // A flag that was set once, and cleared, is no other one.
        let is_lost = at_start.is_some() && cleared.is_some() && !is_own;
        let instead = match direct.join(", and ").as_str() {
            _ if is_lost => ", and no code sets it again".to_owned(),
            _ if !set.is_empty() => self.instead(&set),
            "" => String::new(),
            first => format!("; only {name} can go on with that for which others wait: {first}"),
        };
        let claim = format!("{name} waits for {wanted:#x} of {object}, which {who}{clears}{instead}");
        Some(
            Finding::new(
                if is_lost { Code::EventNeverSet } else { Code::WrongEventMask },
                self.case.cap(if is_number && !is_lost { Confidence::Likely } else { Confidence::Hint }),
                claim,
            )
            .against([BY_CODE])
            .against((!is_number && !is_lost).then_some("it may be a flag that is not used yet"))
            .evidence([
                waiting(thread, need.object, self.case, self.graph),
                at_start.unwrap_or_else(|| self.users(&[], need)),
            ])
            .evidence(cleared.map(|(_, shown)| shown))
            .evidence([Evidence::memory(need.object, format!("{object}: {current:#x} is set")).holds(current)])
            .evidence(set.iter().flat_map(|set| {
                set.setters.iter().filter_map(|user| self.site(*user, &Need { wanted: Some(set.flag), ..*need }))
            }))
            .explains(others)
            .affected(behind)
            .next(if is_lost {
                format!("find out who is to set {wanted:#x} again after it was cleared")
            } else {
                format!("compare the flags that are set with those that {name} waits for")
            })
            .threads([thread]),
        )
    }

    /// Who clears a flag of a group, and keeps others (`TX_AND`), and where: in words, and as evidence. `None` where several do.
    fn cleared(&self, group: Addr, flag: u64) -> Option<(String, Evidence)> {
        let kept = self.usage.flags_kept(group)?;
        let is_cleared = |kept: u64| kept & flag == 0;
        let mut users: Vec<User> = kept.iter().filter(|(_, kept)| is_cleared(*kept)).map(|(user, _)| *user).collect();
        users.dedup();
        let [user] = users.as_slice() else { return None };
        let clears = |one: &Use| {
            let is_it = one.action.act == Act::Clears && one.object == Some(group);
            is_it && one.flags.is_some_and(|kept| is_cleared(kept.into()))
        };
        let at = self.usage.site(*user, clears)?;
        let (name, place) = (self.name(*user), place_at(at, self.case));
        let text = format!("{name} clears {flag:#x} of {} here (TX_AND)", self.case.object(group));
        Some((format!("{name} clears it in {place}"), Evidence::symbol(at, &place, text)))
    }

    /// True where a user sets the number of a flag in place of the flag.
    fn sets_number(&self, user: User, need: &Need, wanted: u64) -> bool {
        let site = self.usage.site(user, |one| {
            let sets = one.action.act == Act::Gives && one.action.kind == Some(Kind::EventFlags);
            let flag = one.flags.and_then(|number| 1_u64.checked_shl(number));
            sets && one.object == Some(need.object) && flag == Some(wanted)
        });
        site.is_some()
    }

    /// `; these flags of it are set instead: 0x1 (set by ui), 0x4 (set by motor or alarm)`.
    fn instead(&self, set: &[Set]) -> String {
        let names = |set: &Set| set.setters.iter().map(|user| self.name(*user)).collect::<Vec<_>>().join(" or ");
        let all = set.iter().map(|set| format!("{:#x} (set by {})", set.flag, names(set))).collect::<Vec<_>>();
        format!("; these flags of it are set instead: {}", all.join(", "))
    }

    /// The flags that are set, but for those of which it is not known who sets them: first those that no code gets.
    fn set(&self, group: Addr, current: u64) -> Vec<Set> {
        let who = |act, bit| self.usage.who(act, Some(Kind::EventFlags), group, Some(bit));
        let bits = (0..u32::BITS).map(|n| 1_u64 << n).filter(|bit| current & bit != 0);
        let all = bits.filter_map(|flag| {
            let setters = who(Act::Gives, flag).filter(|all| !all.is_empty() && all.len() <= MOST)?;
            Some(Set { flag, setters, is_stray: who(Act::Takes, flag).is_some_and(|all| all.is_empty()) })
        });
        let mut all: Vec<Set> = all.collect();
        all.sort_by_key(|set| !set.is_stray);
        all.truncate(MOST);
        all
    }
}
