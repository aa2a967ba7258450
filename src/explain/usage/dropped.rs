//! Memory that a function gets as an argument, and releases on some of its paths and not on others.

use super::walk::{Follow, Key};
use super::{Leak, Usage, Use, User, is_through_pointer};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Outcome, Paths, Program, Value, Variant};
use crate::kernel::Kind;
use crate::kernel::api::Act;

/// `TX_QUEUE_FULL` (`tx_api.h`).
const QUEUE_FULL: u32 = 0x0B;
/// Bytes of an address: the code that is followed has 32 bits.
const POINTER: u32 = 4;

/// A program in which a queue is full for one send of memory: the message stays as it is.
struct Refused<'w, 'c> {
    follow: Follow<'w, 'c>,
    at: Addr,
    mark: u32,
}

impl Variant for Refused<'_, '_> {
    fn follow(&self) -> &dyn Program {
        &self.follow
    }

    fn outcome(&self, call: &Call) -> Outcome {
        if call.at != self.at {
            return self.follow.outcome(call);
        }
        Outcome { returns: true, result: Value::Is(QUEUE_FULL), writes: Some(Value::Mark(self.mark)) }
    }
}

/// A send of memory of a pool that the queue may refuse: then it is not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWhenFull {
    /// The function with it.
    pub function: Addr,
    /// The call.
    pub at: Addr,
    pub queue: Addr,
}

impl Usage<'_> {
    /// A send of memory of a pool that does not wait for ever, behind which a path leads out of the function, or gets memory again,
    /// without releasing that memory where the queue was full. The message is the address of the memory.
    pub fn lost_when_full(&self, user: User, kind: Kind, object: Addr) -> Option<LostWhenFull> {
        let mark = u32::try_from(object).ok()?;
        let is_it =
            |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(kind) && one.object == Some(object);
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(is_it);
        let lost = |key: Key| {
            let paths = self.walker.paths(&Follow { walker: &self.walker, succeeds: true }, key)?;
            let sends = paths.calls().filter(|call| self.walker.gives_memory(call, mark));
            let mut sends = sends.filter_map(|call| Some((call.at, self.queue_that_may_refuse(call)?)));
            let (at, queue) = sends.find(|(at, _)| self.is_lost(key, *at, mark, &is_it))?;
            Some(LostWhenFull { function: key.0, at, queue })
        };
        self.reached(user).into_iter().filter(own).find_map(lost)
    }

    /// True where a path leads from a call that gets memory by a send of it that is refused out of the function, or back, and does not
    /// release it.
    fn is_lost(&self, key: Key, send: Addr, mark: u32, is_it: &dyn Fn(&Use) -> bool) -> bool {
        let follow = Follow { walker: &self.walker, succeeds: true };
        let Some(paths) = self.walker.paths(&Refused { follow, at: send, mark }, key) else { return false };
        let takes = |call: &Call| self.walker.action(call).is_some_and(|one| is_it(&one));
        let gives = |call: &Call| is_through_pointer(call) || self.walker.gives_memory(call, mark);
        let may_give = |call: &Call| call.at != send && gives(call);
        let mut gets = paths.calls().filter(|call| takes(call));
        // Who calls it may release what it returns.
        paths.is_complete
            && paths.returned() != Some(mark)
            && gets.any(|get| {
                let is_get = |call: &Call| call.at == get.at;
                paths.leads_out(is_get, may_give) && paths.leads_between(is_get, |call| call.at == send, may_give)
            })
    }

    /// The queue of a send of one address that does not wait for ever.
    fn queue_that_may_refuse(&self, call: &Call) -> Option<Addr> {
        let sends = |one: &Use| one.action.act == Act::Gives && one.action.kind == Some(Kind::Queue);
        let [queue, _, wait, _] = call.arguments;
        let is_address = self.walker.code().message_bytes(queue.known()?) == Some(POINTER);
        let queue = self.walker.action(call).filter(|one| is_address && sends(one))?.object?;
        wait.known().filter(|wait| *wait != u32::MAX).map(|_| queue)
    }

    /// Where a user stores the address of memory that it gets from a pool, other than on its stack.
    pub fn stores_memory(&self, user: User, kind: Kind, object: Addr) -> Option<Leak> {
        let mark = u32::try_from(object).ok()?;
        let is_it =
            |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(kind) && one.object == Some(object);
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(is_it);
        let stored = |key: Key| {
            let paths = self.walker.paths(&Follow { walker: &self.walker, succeeds: true }, key)?;
            let takes = |call: &Call| self.walker.action(call).is_some_and(|one| is_it(&one));
            let stores = |call: &Call| call.to == Callee::Store && call.passes.contains(&mark);
            let at = paths.calls().find(|call| stores(call))?.at;
            paths.leads_between(takes, |call| call.at == at, |_| false).then_some(Leak { function: key.0, at })
        };
        self.reached(user).into_iter().filter(own).find_map(stored)
    }

    /// A function to which a user passes memory of a pool, or of a queue's messages, and which returns on one path without
    /// releasing it, while the user does not release it behind the call.
    pub fn drops(&self, user: User, kind: Kind, object: Addr) -> Option<Leak> {
        let mark = u32::try_from(object).ok()?;
        let takes =
            |one: &Use| one.action.act == Act::Takes && one.action.kind == Some(kind) && one.object == Some(object);
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(takes);
        self.reached(user).into_iter().filter(own).find_map(|key| self.drops_in(key, mark))
    }

    fn drops_in(&self, key: Key, mark: u32) -> Option<Leak> {
        let follow = Follow { walker: &self.walker, succeeds: true };
        let paths = self.walker.paths(&follow, key)?;
        let gives = |call: &Call| is_through_pointer(call) || self.walker.gives_memory(call, mark);
        paths.calls().find_map(|call| {
            let Callee::At(to) = call.to else { return None };
            let passes = call.arguments.contains(&Value::Mark(mark));
            if !passes || self.walker.action(call).is_some() || !self.walker.releases(call, mark) {
                return None;
            }
            let behind = paths.leads_out(|one| one.at == call.at, |one| one.at != call.at && gives(one));
            let arguments = call.arguments.map(|value| match value {
                Value::Is(_) | Value::Mark(_) => value,
                _ => Value::Unknown,
            });
            let inner = self.walker.paths(&follow, (to, arguments)).filter(|inner| inner.is_complete)?;
            (behind && may_skip(&inner, &gives)).then_some(Leak { function: to, at: to })
        })
    }
}

/// True where a path leads from the start of a function to its end without a call for which `is` holds.
pub(super) fn may_skip(paths: &Paths, is: &dyn Fn(&Call) -> bool) -> bool {
    let (mut seen, mut todo) = (vec![false; paths.pieces.len()], vec![0]);
    while let Some(index) = todo.pop() {
        let Some(piece) = paths.pieces.get(index).filter(|piece| !piece.calls.iter().any(is)) else { continue };
        if piece.returns {
            return true;
        }
        for next in &piece.next {
            if let Some(seen) = seen.get_mut(*next).filter(|seen| !**seen) {
                *seen = true;
                todo.push(*next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Piece;

    /// A function that releases a frame, but not where its checksum is wrong, was taken for one that releases it.
    #[test]
    fn an_early_return_was_a_release() {
        let release = || Call {
            at: 0x120,
            to: Callee::At(0x200),
            arguments: [Value::Unknown; 4],
            passes: Vec::new(),
            passes_local: false,
        };
        let piece = |calls: Vec<Call>, next: &[usize], returns| Piece { calls, next: next.to_vec(), returns };
        let of = |pieces: Vec<Piece>| {
            let mut paths = Paths::default();
            paths.pieces = pieces;
            may_skip(&paths, &|call| call.at == 0x120)
        };
        let early = vec![piece(vec![], &[1, 2], false), piece(vec![], &[], true), piece(vec![release()], &[], true)];
        assert!(of(early));
        let always = vec![piece(vec![], &[1, 2], false), piece(vec![], &[2], false), piece(vec![release()], &[], true)];
        assert!(!of(always));
        assert!(!of(vec![piece(vec![], &[0], false)]), "it never returns");
    }
}
