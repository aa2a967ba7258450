//! Messages that hold the address of a local variable of the function that sends them.

use super::unchecked::Returning;
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
        // An answer, or a sign that the reader is done.
        let waits = |call: &Call| {
            let uses = &self.walker.effect(call).uses;
            let is_answer = |one: &Use| {
                let answers = [Kind::Semaphore, Kind::EventFlags, Kind::Queue];
                one.action.act == Act::Takes && one.action.kind.is_some_and(|kind| answers.contains(&kind))
            };
            is_through_pointer(call) || uses.iter().any(is_answer)
        };
        // A message that was refused is not read.
        let leads_out = |(key, at): &(Key, Addr)| {
            let follow = Follow { walker: &self.walker, succeeds: false };
            let sent = self.walker.paths(&Returning { follow, at: *at, result: 0 }, *key);
            sent.is_some_and(|paths| paths.leads_out(|call| call.at == *at, |call| call.at != *at && waits(call)))
        };
        self.local_sends(user, queue).find(leads_out).map(|(_, at)| at)
    }

    /// Where functions of a user send messages with an address of their own frame to a queue, whether they wait for an answer or not.
    pub fn local_sites(&self, user: User, queue: Addr) -> Vec<Addr> {
        self.local_sends(user, queue).map(|(_, at)| at).collect()
    }

    fn local_sends(&self, user: User, queue: Addr) -> impl Iterator<Item = (Key, Addr)> {
        let is_send = move |one: &Use| {
            one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue) && one.object == Some(queue)
        };
        let sends = move |key: &Key| self.walker.of_function(*key).own.iter().any(is_send);
        self.reached(user).into_iter().filter(sends).filter_map(move |key| {
            let paths = self.walker.paths(&Follow { walker: &self.walker, succeeds: false }, key)?;
            let sends_local =
                |call: &&Call| call.passes_local && self.walker.action(call).is_some_and(|one| is_send(&one));
            let at = paths.calls().find(sends_local)?.at;
            Some((key, at))
        })
    }
}
