//! Calls whose result a function does not look at: whatever the call returns, the same is called and stored, on the same paths.

use super::walk::{Follow, Key};
use super::{Usage, Use, User};
use crate::abi::Addr;
use crate::cpu::{Call, Outcome, Paths, Program, Value, Variant};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// `TX_SUCCESS`, `TX_QUEUE_EMPTY`, `TX_NO_MEMORY`, and one that is none of a service (`tx_api.h`).
const RESULTS: [u32; 4] = [0, 0x0A, 0x10, 0x1234_5678];

/// A program in which one call returns a value.
pub(super) struct Returning<'w, 'c> {
    pub follow: Follow<'w, 'c>,
    pub at: Addr,
    pub result: u32,
}

impl Variant for Returning<'_, '_> {
    fn follow(&self) -> &dyn Program {
        &self.follow
    }

    fn outcome(&self, call: &Call) -> Outcome {
        let outcome = self.follow.outcome(call);
        if call.at == self.at { Outcome { result: Value::Is(self.result), ..outcome } } else { outcome }
    }
}

impl Usage<'_> {
    /// Where a user takes something from an object with a time to wait, or without one, and does not look at whether it got it.
    pub fn unchecked(&self, user: User, kind: Kind, object: Addr) -> Option<Addr> {
        let follow = || Follow { walker: &self.walker, succeeds: false };
        let is_it = |call: &Call| {
            let takes = self.walker.action(call).is_some_and(|one| {
                one.action.act == Act::Takes && one.action.kind == Some(kind) && one.object == Some(object)
            });
            let [_, _, third, fourth] = call.arguments;
            // The bytes to allocate are the third argument.
            let wait = if kind == Kind::BytePool { fourth } else { third };
            takes && wait.known().is_some_and(|wait| wait != u32::MAX)
        };
        let is_taking = |one: &Use| one.action.act == Act::Takes && one.object == Some(object);
        let takes = |key: &Key| self.walker.of_function(*key).own.iter().any(is_taking);
        let of = |key: Key| {
            let paths = self.walker.paths(&follow(), key).filter(|paths| paths.is_complete)?;
            let at = paths.calls().find(|call| is_it(call))?.at;
            let with = |result: &u32| self.walker.storing(&Returning { follow: follow(), at, result: *result }, key);
            let all = RESULTS.iter().map(with).collect::<Option<Vec<Paths>>>()?;
            let first = all.first()?;
            all.iter().all(|paths| paths.is_complete && paths.does_the_same(first)).then_some(at)
        };
        self.reached(user).into_iter().filter(takes).find_map(of)
    }
}
