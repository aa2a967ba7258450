//! Messages that hold the address of a local variable of the function that sends them.

use super::walk::{Follow, Key};
use super::{Usage, Use, User, is_through_pointer};
use crate::abi::Addr;
use crate::cpu::Call;
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl Usage<'_> {
    /// Where a function of a user sends a message with an address of its own frame to a queue, and a path leads from there out of the
    /// function, or there again, on which it waits for nothing that may be an answer.
    pub fn sends_local(&self, user: User, queue: Addr) -> Option<Addr> {
        let is_send = |one: &Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue) && one.object == Some(queue)
        };
        let sends = |key: &Key| self.walker.of_function(*key).own.iter().any(is_send);
        let follow = Follow { walker: &self.walker, succeeds: false };
        self.reached(user).into_iter().filter(sends).find_map(|key| {
            let paths = self.walker.paths(&follow, key)?;
            let sends_local =
                |call: &&Call| call.passes_local && self.walker.action(call).is_some_and(|one| is_send(&one));
            let at = paths.calls().find(sends_local)?.at;
            // An answer, or a sign that the reader is done.
            let waits = |call: &Call| {
                let uses = &self.walker.effect(call).uses;
                let is_answer = |one: &Use| {
                    let answers = [Kind::Semaphore, Kind::EventFlags, Kind::Queue];
                    one.action.act == Act::Takes && one.action.kind.is_some_and(|kind| answers.contains(&kind))
                };
                is_through_pointer(call) || uses.iter().any(is_answer)
            };
            paths.leads_out(|call| call.at == at, |call| call.at != at && waits(call)).then_some(at)
        })
    }
}
