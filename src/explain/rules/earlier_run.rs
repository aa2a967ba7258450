//! The trace buffer has events of a run before this one: the program was started again, and its RAM was kept. What went wrong is
//! in that run.
//!
//! Against it: a start that was meant, as after an update.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use crate::trace::many;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(before) = case.before else { return Vec::new() };
    let events = many(before.events, "event", "events");
    let last =
        before.last.iter().map(|last| Evidence::memory(before.buffer, format!("in the buffer of the trace: {last}")));
    let claim = format!(
        "the program was started again over the RAM of the run before: the trace buffer still has {events} of that run, \
         whose last was {}",
        before.last.last().map_or("not read", String::as_str)
    );
    let finding = Finding::new(Code::Reset, (Confidence::Hint, Vec::new()), claim)
        .against([
            "a start that is meant looks the same",
            "who inserted an event of that run was overwritten: it is inferred from priorities",
        ])
        .evidence(last)
        .usual(true)
        .next("read the chip's reset-status register, and look at that run with `tx-trace last 50 --previous`");
    vec![finding]
}
