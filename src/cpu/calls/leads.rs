//! Which calls of a function the paths of its code lead to, from other calls or from its start.

use super::{Call, Paths};

impl Paths {
    /// True where a path leads from a call for which `from` holds to the end of the function, or to another such call, without
    /// a call for which `stops` holds between them.
    pub fn leads_out(&self, from: impl Fn(&Call) -> bool, stops: impl Fn(&Call) -> bool) -> bool {
        let ends = |call: &Call| if stops(call) { Some(false) } else { from(call).then_some(true) };
        self.leads(&from, &ends, true)
    }

    /// True where a path leads from a call for which `from` holds to one for which `to` holds, without a call for which `stops`
    /// holds between them.
    pub fn leads_between(
        &self,
        from: impl Fn(&Call) -> bool,
        to: impl Fn(&Call) -> bool,
        stops: impl Fn(&Call) -> bool,
    ) -> bool {
        let ends = |call: &Call| if to(call) { Some(true) } else { stops(call).then_some(false) };
        self.leads(&from, &ends, false)
    }

    /// True where one of the paths from a call for which `from` holds leads to where `ends` says so: it ends a path, for good or
    /// not. `at_end`: whether the end of the function does for good.
    fn leads(&self, from: &dyn Fn(&Call) -> bool, ends: &dyn Fn(&Call) -> Option<bool>, at_end: bool) -> bool {
        let mut todo: Vec<(usize, usize)> = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let begins = piece.calls.iter().enumerate().filter(|(_, call)| from(call));
            todo.extend(begins.map(|(n, _)| (index, n.saturating_add(1))));
        }
        self.leads_on(todo, ends, at_end)
    }

    /// True where a path leads from the start of the function to a call for which `to` holds, without a call for which `stops` holds in
    /// front of it.
    pub fn leads_from_start(&self, to: impl Fn(&Call) -> bool, stops: impl Fn(&Call) -> bool) -> bool {
        let ends = |call: &Call| if to(call) { Some(true) } else { stops(call).then_some(false) };
        self.leads_on(vec![(0, 0)], &ends, false)
    }

    /// The same from these pieces on, each from one of its calls on.
    fn leads_on(&self, mut todo: Vec<(usize, usize)>, ends: &dyn Fn(&Call) -> Option<bool>, at_end: bool) -> bool {
        let mut seen = vec![false; self.pieces.len()];
        while let Some((index, begin)) = todo.pop() {
            let Some(piece) = self.pieces.get(index) else { continue };
            let rest = piece.calls.get(begin..).unwrap_or_default();
            match rest.iter().find_map(ends) {
                Some(true) => return true,
                Some(false) => continue,
                None if piece.returns && at_end => return true,
                None => {}
            }
            for next in &piece.next {
                if let Some(seen) = seen.get_mut(*next).filter(|seen| !**seen) {
                    *seen = true;
                    todo.push((*next, 0));
                }
            }
        }
        false
    }

    /// True where a path leads from a call for which `from` holds to one for which `to` holds.
    pub fn leads_to(&self, from: impl Fn(&Call) -> bool, to: impl Fn(&Call) -> bool) -> bool {
        self.pieces.iter().enumerate().any(|(index, piece)| {
            let begin = piece.calls.iter().position(&from);
            begin.is_some_and(|begin| {
                piece.calls.get(begin..).unwrap_or_default().iter().any(&to) || self.reaches(index, &to)
            })
        })
    }

    /// True where a call for which `to` holds is behind a piece.
    fn reaches(&self, start: usize, to: &impl Fn(&Call) -> bool) -> bool {
        let (mut seen, mut todo) = (vec![false; self.pieces.len()], vec![start]);
        while let Some(piece) = todo.pop().and_then(|index| self.pieces.get(index)) {
            for next in &piece.next {
                if self.pieces.get(*next).is_some_and(|piece| piece.calls.iter().any(to)) {
                    return true;
                }
                if let Some(seen) = seen.get_mut(*next).filter(|seen| !**seen) {
                    *seen = true;
                    todo.push(*next);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Callee, Piece, Value};

    #[test]
    fn a_path_from_the_start_leads_past_a_call() {
        let call = |at| Call {
            at,
            to: Callee::Unknown,
            arguments: [Value::Unknown; 4],
            passes: Vec::new(),
            passes_local: false,
        };
        let piece = |calls: &[u64], next: &[usize]| Piece {
            calls: calls.iter().copied().map(call).collect(),
            next: next.to_vec(),
            returns: next.is_empty(),
        };
        let leads = |pieces: Vec<Piece>| {
            let paths = Paths { pieces, ..Paths::default() };
            paths.leads_from_start(|call| call.at == 2, |call| call.at == 1)
        };
        assert!(
            leads(vec![piece(&[], &[1, 2]), piece(&[1], &[2]), piece(&[2], &[])]),
            "only one way has the other call"
        );
        assert!(!leads(vec![piece(&[1], &[1]), piece(&[2], &[])]));
        assert!(!leads(vec![piece(&[], &[])]));
    }
}
