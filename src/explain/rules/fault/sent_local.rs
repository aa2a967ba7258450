//! A pointer that failed was read from a local variable, over memory whose address its thread has sent to a queue: that of a local variable
//! of a function that has returned since, as after a wait for the answer that ended without it. Who reads the messages may have written
//! there.
//!
//! Against it: the reader may have been done before.

use super::super::super::usage::User;
use super::super::super::{Evidence, Finding};
use super::super::by_code;
use super::super::local_sent::in_stacks;
use super::super::words::place_at;
use super::Look;
use crate::abi::Addr;
use crate::kernel::Kind;

/// So far from the start of a local variable a word may be a member of it.
const NEAR: u64 = 256;

impl Look<'_, '_> {
    /// Adds it. `word`: the local variable.
    pub(super) fn with_sent_local(&self, finding: Finding, word: Addr) -> Finding {
        let Some((words, evidence)) = self.sent_local(word) else { return finding };
        let claim = format!("{}; {words}", finding.claim);
        Finding { claim, ..finding }
            .against(["that the message was of that call, and that its reader wrote there, is inferred"])
            .evidence(evidence)
            .next("let the sender wait until the reader is done, or send what it needs in the message itself, or in a block of a pool")
    }

    fn sent_local(&self, word: Addr) -> Option<(String, [Evidence; 2])> {
        let (case, thread) = (self.case, self.thread.filter(|_| self.within.is_none())?);
        let is_near = |at: Addr| word.checked_sub(at).is_some_and(|into| into < NEAR);
        let queues = case.kernel?.objects.iter().filter(|object| object.kind == Kind::Queue);
        let mut sent = queues.flat_map(|queue| in_stacks(queue, case).into_iter().map(move |one| (queue.address, one)));
        let (queue, (at, value, _)) =
            sent.find(|(_, (_, value, holder))| holder.address == thread.address && is_near(*value))?;
        let site = case.usage()?.local_sites(User::Thread(thread.address), queue).into_iter().find(|site| {
            let start = case.look.function(*site).map(|function| function.address & !1);
            // It has not returned, and its local variables are its own.
            let runs = |pc: Addr| case.look.function(pc & !1).map(|function| function.address & !1) == start;
            start.is_some() && !self.functions().iter().any(|function| runs(function.pc))
        })?;
        let (name, label, place) = (thread.label(), case.object(queue), place_at(site, case));
        let reader = by_code::only_reader(queue, case).map(|reader| case.label(reader));
        let reader = reader.map_or_else(|| "who reads it".to_owned(), |reader| format!("{reader}, which reads it,"));
        let words = format!(
            "{label} had {value:#x}, an address in that stack, as a message; {name} sends the address of a local variable to it in {place}, \
             which is not among the callers: it may have returned, and {reader} may have written there"
        );
        let message = format!("a message of {label}, which may have been taken: {value:#x}, in the stack of {name}");
        let evidence = [
            Evidence::memory(at, message).holds(value),
            Evidence::symbol(site, &place, format!("{name} sends it here")),
        ];
        Some((words, evidence))
    }
}
