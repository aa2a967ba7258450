//! The words for who gives what a thread waits for.

use super::super::super::Evidence;
use super::super::super::usage::{Need, Use, User};
use super::super::words::place_at;
use super::ByCode;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl ByCode<'_, '_> {
    /// `semaphore done, which only Motor puts`.
    pub(super) fn given(&self, need: &Need, object: &str, user: User) -> String {
        let is_lock = need.kind == Kind::Semaphore && self.usage.is_lock(need.object);
        let only = self.name(user);
        if self.is_through_pointer(user, need) {
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
            (Kind::Queue, Act::Takes) => format!("room in {object}, which only {only} reads"),
            (Kind::Queue, _) => format!("a message in {object}, to which only {only} sends"),
            (Kind::EventFlags, _) => {
                format!("{:#x} of {object}, which only {only} sets", need.wanted.unwrap_or_default())
            }
            (Kind::Semaphore, _) if is_lock => {
                format!("{object}, and of those that take and put it, only {only} does not wait for it")
            }
            _ => format!("{object}, which only {only} puts"),
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
