//! What a user takes on some of its paths without giving what it gives on others: a request that it does not answer.

use super::stuck::Need;
use super::walk::{Follow, Key};
use super::{Leak, Usage, Use, User, is_through_pointer};
use crate::cpu::Call;
use crate::kernel::api::Act;

impl Usage<'_> {
    /// A path of a user on which it takes `asked`, and ends or takes it again without giving `answer`, which it gives on another
    /// path.
    pub fn unanswered(&self, user: User, asked: &Need, answer: &Need) -> Option<Leak> {
        let takes = |one: &Use| is(one, Act::Takes, asked);
        let own = |key: &Key| self.walker.of_function(*key).own.iter().any(takes);
        let leak = |key: Key| {
            let follow = Follow { walker: &self.walker, succeeds: true };
            let paths = self.walker.paths(&follow, key)?;
            let takes = |call: &Call| self.walker.action(call).is_some_and(|one| takes(&one));
            let gives = |call: &Call| self.walker.effect(call).uses.iter().any(|one| is(one, Act::Gives, answer));
            // What is called through a pointer may give it.
            let may_give = |call: &Call| is_through_pointer(call) || gives(call);
            let at = paths.calls().find(|call| takes(call))?.at;
            let is_dropped = paths.leads_out(takes, may_give) && paths.leads_to(takes, gives);
            is_dropped.then_some(Leak { function: key.0, at })
        };
        self.reached(user).into_iter().filter(own).find_map(leak)
    }
}

/// True for a use that takes or gives what is needed.
fn is(one: &Use, act: Act, need: &Need) -> bool {
    let is_flag = one.flags.zip(need.wanted).is_none_or(|(flags, wanted)| u64::from(flags) & wanted != 0);
    one.action.act == act && one.action.kind == Some(need.kind) && one.object == Some(need.object) && is_flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kind;
    use crate::kernel::api::Action;

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
