//! Which code leaves a thread with a raised preemption-threshold: a function that changes it, and on one of its paths returns without
//! changing it back, while another path does.

use super::super::usage::User;
use super::super::{Case, Evidence};
use super::words::place_at;
use crate::abi::Addr;

/// The functions of the kernel that change it, without and with a check of the arguments.
const CHANGE: [&str; 2] = ["_tx_thread_preemption_change", "_txe_thread_preemption_change"];

/// In words: `; append (journal.c:37) changes the threshold, and may return without changing it back`, and as evidence.
pub(super) fn left(thread: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let own = case.thread(thread)?;
    // Where it is that of the thread's own priority, nothing is left.
    let (_, priority) = own.threshold.zip(own.priority).filter(|(threshold, priority)| threshold < priority)?;
    let functions = CHANGE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1));
    let functions: Vec<Addr> = functions.collect();
    functions.first()?;
    let leak = case.usage()?.not_undone(User::Thread(thread), &functions, &|to| to < priority)?;
    let place = place_at(leak.at, case);
    let text =
        "it changes the preemption-threshold here, and a path leads from here to its end without changing it back";
    let evidence = Evidence::symbol(leak.at, &place, text.to_owned());
    Some((format!("; {place} changes the threshold, and may return without changing it back"), evidence))
}
