//! Messages that a user sends without a look at whether there was room for them.

use super::unchecked::Returning;
use super::walk::{Follow, Key};
use super::{Need, Usage, Use, User};
use crate::abi::Addr;
use crate::cpu::{Call, Paths};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// `TX_SUCCESS`, `TX_QUEUE_FULL`, and one that no service returns (`tx_api.h`).
const RESULTS: [u32; 3] = [0, 0x0B, 0x1234_5678];

/// The deepest chain of calls from the function that waits to the one that sends.
const DEPTH: usize = 8;

/// A send, and whether what the function with it returns depends on its result.
#[derive(Clone, Copy)]
struct Send {
    at: Addr,
    is_returned: bool,
}

impl Usage<'_> {
    /// Where a user sends to a queue before it waits for an answer, does not wait for room for ever, and goes on in the same way whatever the
    /// call returns.
    pub fn unsent(&self, user: User, queue: Addr, answer: &Need) -> Option<Addr> {
        let follow = Follow { walker: &self.walker, succeeds: false };
        let waits = |call: &Call| {
            let takes = |one: &Use| one.action.act == Act::Takes && one.object == Some(answer.object);
            self.walker.effect(call).uses.iter().any(takes)
        };
        self.reached(user).into_iter().find_map(|key| {
            let paths = self.walker.paths(&follow, key)?;
            let asks = |call: &Call| self.sends(call, queue) && !waits(call);
            if !paths.leads_to(asks, waits) {
                return None;
            }
            let mut sends =
                paths.calls().filter(|call| asks(call)).filter_map(|call| self.ignored(key, call, queue, DEPTH));
            sends.find(|send| !send.is_returned).map(|send| send.at)
        })
    }

    fn sends(&self, call: &Call, queue: Addr) -> bool {
        let is = |one: &Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue) && one.object == Some(queue)
        };
        self.walker.effect(call).uses.iter().any(is)
    }

    /// The send that a call of a function is, or leads to, where nothing but what the function returns depends on its result.
    fn ignored(&self, key: Key, call: &Call, queue: Addr, depth: usize) -> Option<Send> {
        let follow = || Follow { walker: &self.walker, succeeds: false };
        let at = if self.walker.action(call).is_some() {
            let [_, _, wait, _] = call.arguments;
            wait.known().filter(|wait| *wait != u32::MAX)?;
            call.at
        } else {
            let inner = self.walker.effect(call).key?;
            let paths = self.walker.paths(&follow(), inner)?;
            let depth = depth.checked_sub(1)?;
            let mut sends = paths.calls().filter(|call| self.sends(call, queue));
            let send = sends.find_map(|call| self.ignored(inner, call, queue, depth))?;
            if !send.is_returned {
                return Some(send);
            }
            send.at
        };
        let with =
            |result: &u32| self.walker.storing(&Returning { follow: follow(), at: call.at, result: *result }, key);
        let all = RESULTS.iter().map(with).collect::<Option<Vec<Paths>>>()?;
        let first = all.first()?;
        let is_ignored = all.iter().all(|paths| paths.is_complete && paths.acts_the_same(first));
        let is_returned = !all.iter().all(|paths| paths.does_the_same(first));
        is_ignored.then_some(Send { at, is_returned })
    }
}
