//! Which code leaves a thread with a raised preemption-threshold: a function that changes it, and on one of its paths returns without
//! changing it back, while another path does. Or one that saves the old threshold in a variable that other threads save theirs in, too:
//! it may set that of another thread, and a section that waits lets others in.

use std::collections::BTreeMap;

use super::super::usage::User;
use super::super::{Case, Evidence};
use super::words::{place_at, place_or_address};
use crate::abi::Addr;
use crate::kernel::Thread;

/// The most other threads whose code is looked at.
const MOST: usize = 32;
/// The functions of the kernel that change it, without and with a check of the arguments.
pub(super) const CHANGE: [&str; 2] = ["_tx_thread_preemption_change", "_txe_thread_preemption_change"];

/// In words, as `; append (journal.c:37) changes the threshold, and may return without changing it back`, and as evidence.
pub(super) fn left(thread: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let own = case.thread(thread)?;
    // Where it is that of the thread's own priority, nothing is left.
    let (_, priority) = own.threshold.zip(own.priority).filter(|(threshold, priority)| threshold < priority)?;
    let functions = CHANGE.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1));
    let functions: Vec<Addr> = functions.collect();
    functions.first()?;
    let leak = case.usage()?.not_undone(User::Thread(thread), &functions, &|to| to < priority);
    let Some(leak) = leak else { return shared(thread, &functions, case) };
    let place = place_at(leak.at, case);
    let text =
        "it changes the preemption-threshold here, and a path leads from here to its end without changing it back";
    let evidence = Evidence::symbol(leak.at, &place, text.to_owned());
    Some((format!("; {place} changes the threshold, and may return without changing it back"), evidence))
}

/// `; add (journal.c:41) saves the old threshold in journal.outer, as heater, host do: it may get that of another thread back`.
fn shared(thread: Addr, functions: &[Addr], case: &Case<'_>) -> Option<(String, Evidence)> {
    let (usage, kernel) = case.usage().zip(case.kernel)?;
    // What is on a stack is of that thread alone.
    let saved = |thread: Addr| -> BTreeMap<Addr, Addr> {
        let all = usage.third_arguments(User::Thread(thread), functions).into_iter();
        let variables = all.map(|(call, at)| (Addr::from(at), call));
        variables.filter(|(at, _)| case.look.variable(*at).is_some()).collect()
    };
    let own = saved(thread);
    own.first_key_value()?;
    let others = kernel.threads.iter().filter(|other| other.address != thread).take(MOST);
    let others: Vec<(&Thread, BTreeMap<Addr, Addr>)> = others.map(|other| (other, saved(other.address))).collect();
    own.iter().find_map(|(variable, call)| {
        let with = others.iter().filter(|(_, all)| all.contains_key(variable));
        let with: Vec<String> = with.map(|(other, _)| other.label()).collect();
        with.first()?;
        let (place, name) = (place_at(*call, case), place_or_address(*variable, case));
        let do_so = if with.len() == 1 { "does" } else { "do" };
        let text = format!("; {place} saves the old threshold in {name}, as {} {do_so}", with.join(", "));
        let evidence = Evidence::symbol(*call, &place, format!("it saves the old preemption-threshold in {name}"));
        Some((format!("{text}: it may get that of another thread back"), evidence))
    })
}
