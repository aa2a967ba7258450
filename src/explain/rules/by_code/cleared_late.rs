//! A thread asks another one for something, then clears the event flags with which that one answers, and waits for them. An answer
//! that comes between the two is cleared: the thread waits for ever, and the one that answered waits for the next request.
//!
//! Against it: the answer may be missing for another reason, of which nothing is left: the one that answers waits for a request
//! again, and none is left for it.

use super::super::super::usage::{Need, User};
use super::super::super::{Code, Confidence, Evidence, Finding};
use super::super::words::{place_at, waiting, waits};
use super::{BY_CODE, ByCode};
use crate::abi::Addr;
use crate::kernel::Kind;

impl ByCode<'_, '_> {
    /// Threads that cleared the answer for which they wait.
    pub(super) fn cleared_late(&self) -> Vec<Finding> {
        let is_flags = |need: &Need| need.kind == Kind::EventFlags;
        let all = self.stuck.waits.iter().filter(|(_, need)| is_flags(need));
        all.filter_map(|(thread, need)| self.cleared_answer(*thread, need)).collect()
    }

    fn cleared_answer(&self, thread: Addr, need: &Need) -> Option<Finding> {
        let wanted = need.wanted?;
        let [User::Thread(answers)] = self.stuck.helpers(thread) else { return None };
        // The one that answers has done so: it waits for the next request.
        let request = self.stuck.waits.get(answers).filter(|work| work.object != need.object)?;
        let clear = self.usage.clears_answer(User::Thread(thread), (need.object, wanted), request.object)?;
        let (name, object, giver) = (self.case.label(thread), self.case.object(need.object), self.case.label(*answers));
        let (asked, place) = (self.case.object(request.object), place_at(clear, self.case));
        let behind = self.stuck.behind(&[thread]);
        let claim = format!(
            "{name} waits for {wanted:#x} of {object}, which it clears itself in {place} after its request to {asked}: an answer \
             that came before was lost; {giver}, which alone sets them, waits for the next request"
        );
        Some(
            Finding::new(Code::EventNeverSet, self.case.cap(Confidence::Likely), claim)
                .against([BY_CODE, "the answer may be missing for another reason"])
                .evidence([waiting(thread, need.object, self.case, self.graph)])
                .evidence([Evidence::symbol(clear, &place, format!("{name} clears flags of {object} here (TX_AND)"))])
                .evidence([waiting(*answers, request.object, self.case, self.graph)])
                .explains(behind.iter().filter_map(|at| waits(*at, self.case, self.graph)))
                .affected(behind)
                .next("clear the flags before the request is made, not after it")
                .threads([thread]),
        )
    }
}
