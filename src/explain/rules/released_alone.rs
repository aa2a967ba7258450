//! Blocks of a pool to which no pointer is left, as a message that points to them was released without them: one place releases it by
//! `tx_byte_release` or `tx_block_release` alone, and another one passes such a message to a function that releases what it points to, too.
//!
//! Against it: what the message points to may be released by other code, or have none on that path.

use super::super::{Case, Evidence};
use super::by_code::user_name;
use super::words::{function_at, place_at};
use crate::abi::Addr;

/// What speaks against it.
pub(super) const AGAINST: &str =
    "which path was taken is inferred from the program's code, and on it a message may point to nothing";

/// The place, in words, and what to look at.
pub(super) struct Alone {
    /// `storage releases a message in storage_entry (tracker.c:198) alone; message_free releases what it points to, too`.
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
            format!("{who} releases a message of such memory here, and nothing else"),
        ),
        next: format!("look at {at}: {whole} may be meant there, in place of the release"),
    })
}
