//! The words for who gives what a thread waits for.

use super::super::super::Evidence;
use super::super::super::usage::{Need, Use, User};
use super::super::words::place_at;
use super::ByCode;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// `semaphore done, which only Motor puts`.
    pub(super) fn given(&self, need: &Need, object: &str, users: &[User]) -> String {
        let is_lock = need.kind == Kind::Semaphore && self.usage.is_lock(need.object);
        let names: Vec<String> = users.iter().map(|user| self.name(*user)).collect();
        let only = match names.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            all => all.concat(),
        };
        // Of several who do it.
        let (s, does) = if users.len() == 1 { ("s", "does") } else { ("", "do") };
        if users.first().is_some_and(|user| self.is_through_pointer(*user, need)) {
            let what = match (need.kind, need.act) {
                (Kind::Queue, Act::Takes) => "room in ".to_owned(),
                (Kind::Queue, _) => "a message in ".to_owned(),
                (Kind::EventFlags, _) => format!("{:#x} of ", need.wanted.unwrap_or_default()),
                _ => String::new(),
            };
            return format!("{what}{object}, which only {only} may give, through a pointer");
        }
        match (need.kind, need.act) {
            (Kind::Mutex, _) => format!("{object}, which {only} holds"),
            (Kind::Queue, Act::Takes) => format!("room in {object}, which only {only} read{s}"),
            (Kind::Queue, _) => format!("a message in {object}, to which only {only} send{s}"),
            (Kind::EventFlags, _) => {
                format!("{:#x} of {object}, which only {only} set{s}", need.wanted.unwrap_or_default())
            }
            (Kind::Semaphore, _) if is_lock => {
                format!("{object}, and of those that take and put it, only {only} {does} not wait for it")
            }
            _ => format!("{object}, which only {only} put{s}"),
        }
    }

    /// True where a user has no call that gives this object: it may only give it by a call whose object is not known.
    fn is_through_pointer(&self, user: User, need: &Need) -> bool {
        let is_it = |one: &Use| does(one, need) && one.object == Some(need.object);
        let by_memory = matches!(need.kind, Kind::Mutex | Kind::BlockPool | Kind::BytePool);
        !by_memory && self.usage.site(user, is_it).is_none() && !self.usage.does(user, need.act, need.kind, need.object)
    }

    /// Where a user gives something through a pointer.
    pub(super) fn pointer_site(&self, user: User, need: &Need) -> Option<Evidence> {
        let is_it = |one: &Use| does(one, need) && one.object.is_none();
        let at = self.usage.site(user, is_it).filter(|_| self.is_through_pointer(user, need))?;
        let text = format!(
            "{} may give {} here: which object this call gives is not known",
            self.name(user),
            self.case.object(need.object)
        );
        Some(Evidence::symbol(at, &place_at(at, self.case), text))
    }
}

/// True for a call that does what is needed, with whichever object.
fn does(one: &Use, need: &Need) -> bool {
    one.action.act == need.act && one.action.kind == Some(need.kind)
}
