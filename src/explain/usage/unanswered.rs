//! What a user takes on some of its paths without giving what it gives on others: a request that it does not answer.

use std::collections::BTreeSet;

use super::stuck::Need;
use super::walk::{Follow, Key};
use super::{Leak, Usage, Use, User, is_through_pointer};
use crate::abi::Addr;
use crate::cpu::{Call, Paths};
use crate::kernel::api::Act;

impl Usage<'_> {
    /// A path of a user on which it takes `asked`, and ends or comes to the same call again without giving `answer`, which it gives
    /// on another path. Calls that do not wait are none of those that take a request: who asks whether there is more answers once.
    pub fn unanswered(&self, user: User, asked: &Need, answer: &Need) -> Option<Leak> {
        let takes = |one: &Use| is(one, Act::Takes, asked);
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(takes);
        let polls: BTreeSet<Addr> =
            self.calls_of(user).into_iter().filter(|made| made.wait == Some(0)).map(|made| made.at).collect();
        let leak = |key: Key| {
            let follow = Follow { walker: &self.walker, succeeds: true };
            let paths = self.walker.paths(&follow, key)?;
            let takes = |call: &Call| self.walker.action(call).is_some_and(|one| takes(&one));
            let gives = |call: &Call| self.walker.effect(call).uses.iter().any(|one| is(one, Act::Gives, answer));
            let sites = paths.calls().filter(|call| takes(call)).map(|call| call.at);
            let at = dropped(&paths, sites.filter(|at| !polls.contains(at)).collect(), &gives)?;
            Some(Leak { function: key.0, at })
        };
        self.reached(user).into_iter().filter(own).find_map(leak)
    }

    /// Where a user waits for an answer, and a path leads from the start of that function to the wait without a request, while another
    /// path has one.
    pub fn waits_without_request(&self, user: User, request: &Need, answer: &Need) -> Option<Addr> {
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(|one| is(one, Act::Takes, answer));
        let follow = Follow { walker: &self.walker, succeeds: true };
        self.reached(user).into_iter().filter(own).find_map(|key| {
            let paths = self.walker.paths(&follow, key)?;
            let waits = |call: &Call| self.walker.action(call).is_some_and(|one| is(&one, Act::Takes, answer));
            let asks = |call: &Call| self.walker.effect(call).uses.iter().any(|one| is(one, Act::Gives, request));
            if paths.calls().any(asks) { first_without(&paths, &waits, &asks) } else { None }
        })
    }
}

/// The first call for which `is` holds to which a path leads from the start without one for which `stops` does.
fn first_without(paths: &Paths, is: &dyn Fn(&Call) -> bool, stops: &dyn Fn(&Call) -> bool) -> Option<Addr> {
    let (mut seen, mut todo) = (BTreeSet::from([0]), vec![0]);
    while let Some(piece) = todo.pop().and_then(|index: usize| paths.pieces.get(index)) {
        match piece.calls.iter().find(|call| is(call) || stops(call)) {
            Some(call) if is(call) => return Some(call.at),
            Some(_) => {}
            None => todo.extend(piece.next.iter().copied().filter(|next| seen.insert(*next))),
        }
    }
    None
}

/// The first of these calls from which a path leads out of the function, or back to itself, without a call for which `gives` holds,
/// and another one to such a call.
fn dropped(paths: &Paths, sites: BTreeSet<Addr>, gives: &dyn Fn(&Call) -> bool) -> Option<Addr> {
    // What is called through a pointer may give it.
    let may_give = |call: &Call| is_through_pointer(call) || gives(call);
    let is_so =
        |at: &Addr| paths.leads_out(|call| call.at == *at, may_give) && paths.leads_to(|call| call.at == *at, gives);
    sites.into_iter().find(is_so)
}

/// True for a use that takes or gives what is needed.
fn is(one: &Use, act: Act, need: &Need) -> bool {
    let is_flag = one.flags.zip(need.wanted).is_none_or(|(flags, wanted)| u64::from(flags) & wanted != 0);
    one.action.act == act && one.action.kind == Some(need.kind) && one.object == Some(need.object) && is_flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Callee, Piece, Value};
    use crate::kernel::Kind;
    use crate::kernel::api::Action;

    /// Where the first path without an answer begins, of pieces with the addresses of their calls and what comes after each. The call
    /// at 0x200 gives the answer.
    fn first(takes: &[Addr], pieces: &[(&[Addr], &[usize])]) -> Option<Addr> {
        dropped(&of(pieces), takes.iter().copied().collect(), &|call| call.at == 0x200)
    }

    fn of(pieces: &[(&[Addr], &[usize])]) -> Paths {
        let call = |at: &Addr| Call {
            at: *at,
            to: Callee::At(0x1000),
            arguments: [Value::Unknown; 4],
            passes: Vec::new(),
            passes_local: false,
        };
        let piece = |(calls, next): &(&[Addr], &[usize])| Piece {
            calls: calls.iter().map(call).collect(),
            next: next.to_vec(),
            returns: false,
        };
        let mut paths = Paths::default();
        paths.pieces = pieces.iter().map(piece).collect();
        paths
    }

    #[test]
    fn a_request_without_an_answer() {
        let early = first(&[0x100], &[(&[0x100], &[0, 1]), (&[0x200], &[0])]);
        assert_eq!(early, Some(0x100), "it goes back to the top of its loop");
        assert_eq!(first(&[0x100], &[(&[0x100], &[1]), (&[0x200], &[0])]), None, "it answers each");
        assert_eq!(first(&[0x100], &[(&[0x100], &[0])]), None, "it answers none");
    }

    /// Who gives an answer was blamed, though nobody had asked.
    #[test]
    fn a_path_to_the_wait_without_a_request() {
        let without = |pieces: &[(&[Addr], &[usize])]| {
            first_without(&of(pieces), &|call| call.at == 0x100, &|call| call.at == 0x200)
        };
        assert_eq!(without(&[(&[0x80], &[1, 2]), (&[0x200], &[2]), (&[0x100], &[0])]), Some(0x100));
        assert_eq!(without(&[(&[0x80], &[1]), (&[0x200], &[2]), (&[0x100], &[0])]), None, "it always asks");
        assert_eq!(without(&[(&[0x80], &[0])]), None);
    }

    #[test]
    fn a_wait_before_the_loop_was_a_request_without_an_answer() {
        let barrier = first(&[0x80, 0x100], &[(&[0x80], &[1]), (&[0x100], &[2]), (&[0x200], &[1])]);
        assert_eq!(barrier, None);
    }

    #[test]
    fn other_flags_of_a_group_are_no_answer() {
        let sets = |flags| Use {
            action: Action { act: Act::Gives, kind: Some(Kind::EventFlags), by_memory: false, creates_timer: false },
            object: Some(0x2000_0100),
            flags,
            carries: None,
        };
        let answer = Need { act: Act::Gives, kind: Kind::EventFlags, object: 0x2000_0100, wanted: Some(2) };
        assert!(is(&sets(Some(2)), Act::Gives, &answer));
        assert!(!is(&sets(Some(1)), Act::Gives, &answer), "another flag");
        assert!(is(&sets(None), Act::Gives, &answer), "it may be that flag");
        assert!(!is(&sets(Some(2)), Act::Takes, &answer));
        assert!(!is(&sets(Some(2)), Act::Gives, &Need { object: 0x2000_0200, ..answer }), "another group");
    }
}
