//! Blocks of a pool to which no pointer is left, because a message that pointed to them was released without them: one place releases only
//! the message, and another place passes such a message to a function that also releases what it points to.
//!
//! Against it: other code may release what the message points to, and the message may point to nothing on that path.

use super::super::{Case, Evidence};
use super::by_code::user_name;
use super::words::{function_at, place_at};
use crate::abi::Addr;

/// What speaks against it.
pub(super) const AGAINST: &str =
    "which path was taken is inferred from the program's code, and on it a message may point to nothing";

/// The place, in words, and what to look at.
pub(super) struct Alone {
    /// `in storage_entry (tracker.c:198), storage releases only the message; message_free also releases what a message points to`.
    pub words: String,
    pub evidence: Evidence,
    pub next: String,
}

pub(super) fn of(pool: Addr, case: &Case<'_>) -> Option<Alone> {
    let alone = case.usage()?.released_alone(pool)?;
    let (who, at, whole) = (user_name(alone.user, case), place_at(alone.at, case), function_at(alone.whole, case));
    Some(Alone {
        words: format!("in {at}, {who} releases only the message; {whole} also releases what a message points to"),
        evidence: Evidence::symbol(
            alone.at,
            &at,
            format!("{who} releases the message here, and not what it points to"),
        ),
        next: format!("look at {at}: {whole} may be meant there, in place of the release"),
    })
}
