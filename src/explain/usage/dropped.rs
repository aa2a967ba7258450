//! Memory that a function gets as an argument, and releases on some of its paths and not on others.

use super::walk::{Follow, Key};
use super::{Leak, Usage, Use, User, is_through_pointer};
use crate::abi::Addr;
use crate::cpu::{Call, Callee, Paths, Value};
use crate::kernel::Kind;
use crate::kernel::api::Act;

impl Usage<'_> {
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
