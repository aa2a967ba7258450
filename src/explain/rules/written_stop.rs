//! Where the program wrote down that it stopped itself, of a source without registers: a variable has the name of a source file and a
//! line, and in that line the code calls a function that does not return.
//!
//! Against it: the variable may be of an earlier run, where a reset keeps memory. So it is a hint.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::words::{function_at, place_at};
use super::{message, recorded};
use crate::abi::Addr;

/// The most records that are looked at.
const MOST: usize = 4;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_known = case.cpus.is_none_or(|cpus| cpus.all.iter().any(|cpu| cpu.registers.pc().is_some()));
    if is_known || case.trust.other_build || case.trust.without_lines.is_some() {
        return Vec::new();
    }
    let records = recorded::all(MOST, case);
    if records.is_empty() {
        return Vec::new();
    }
    let Some(stops) = case.usage().map(|usage| usage.stops()) else { return Vec::new() };
    records.iter().find_map(|record| finding(record, &stops, case, graph)).into_iter().collect()
}

/// `stops`: calls of functions that do not return, and these.
fn finding(record: &recorded::Record, stops: &[(Addr, Addr)], case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let is_it = |at: Addr| case.look.line(at).is_some_and(|line| record.is_at(&line));
    let (site, stop) = stops.iter().find(|(site, _)| is_it(*site))?;
    let (place, stop) = (place_at(*site, case), function_at(*stop, case));
    let function = case.look.function(*site)?.address;
    let callers = case.usage()?.callers_of(function);
    let by: Vec<String> = callers.iter().map(|user| user_name(*user, case)).collect();
    let calls = if by.len() == 1 { "calls" } else { "call" };
    let by = if by.is_empty() { String::new() } else { format!(", which {} {calls}", by.join(" and ")) };
    let shown = record.shown(&case.look.line(*site)?, case)?;
    // What the only thread that comes there works on.
    let thread = callers.first().filter(|_| callers.len() == 1);
    let thread = thread.and_then(|user| if let User::Thread(at) = user { Some(*at) } else { None });
    let freed = thread.and_then(|thread| message::of_free_block(thread, case, graph));
    let (freed, received) = freed.map_or_else(Default::default, |(words, shown)| (format!("; {words}"), shown));
    let claim = format!(
        "perhaps the program stopped itself in {place}{by}: it calls {stop} there, which does not return, and {}{freed}",
        shown.text
    );
    Some(
        Finding::new(Code::Assert, case.cap(Confidence::Hint), claim)
            .against([
                "this source has no registers: where the CPU is is not known",
                "the record may be of an earlier run",
            ])
            .evidence([shown])
            .against((!received.is_empty()).then_some(message::AGAINST))
            .evidence(received)
            .evidence([Evidence::symbol(*site, &place, format!("{stop} is called here"))])
            .next("look at the condition in front of this call; registers show whether the CPU is there".to_owned()),
    )
}
