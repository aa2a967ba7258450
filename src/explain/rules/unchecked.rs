//! A thread waits for a message, or for memory, with a time-out, and its code does not look at whether it got one. By the events it did
//! not: it goes on with the message before, or with a pointer that nothing has set.
//!
//! Against it: the program may clear the message before it asks, or know by its contents that it is an old one. So it is a hint.

use super::super::graph::Graph;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::words::place_at;
use crate::abi::Addr;
use crate::kernel::Kind;
use crate::trace::many;

/// The most threads of a pool that are looked at: the code of each is followed.
const MOST: usize = 64;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let Some((events, kernel)) = case.events.zip(case.kernel) else { return Vec::new() };
    let mut found = Vec::new();
    for object in &kernel.objects {
        let Some(one) = events.object(object.address) else { continue };
        let takers = || graph.tasks.list.iter().filter(|task| one.takers.iter().any(|at| events.is(task.address, *at)));
        match object.kind {
            // Who waits then is known where one thread alone reads.
            Kind::Queue => {
                let all: Vec<Addr> = takers().map(|task| task.address).collect();
                if let (Some(time_outs), [only]) = (one.time_outs, all.as_slice()) {
                    found.extend(finding(*only, (object.kind, object.address), (time_outs.times, time_outs.seq), case));
                }
            }
            Kind::BlockPool | Kind::BytePool => {
                for task in takers().take(MOST) {
                    let refused = one.pool.refused.iter().find(|(thread, _)| events.is(task.address, **thread));
                    let times = refused.map(|(_, refused)| (refused.times, refused.last));
                    found.extend(
                        times.and_then(|times| finding(task.address, (object.kind, object.address), times, case)),
                    );
                }
            }
            _ => {}
        }
    }
    found
}

fn finding(thread: Addr, (kind, object): (Kind, Addr), (times, seq): (u64, u64), case: &Case<'_>) -> Option<Finding> {
    let at = case.usage()?.unchecked(User::Thread(thread), kind, object)?;
    let (name, label, place) = (case.label(thread), case.object(object), place_at(at, case));
    let (what, goes_on) = match kind {
        Kind::Queue => ("a message of", "it goes on with what the message before has left"),
        _ => ("memory of", "it goes on with a pointer that was not set"),
    };
    let again = many(times, "time", "times");
    let claim = format!(
        "{name} asked for {what} {label} and got none, {again}, and does not look at that in {place}: {goes_on}"
    );
    Some(
        Finding::new(Code::EventNeverSet, case.cap(Confidence::Hint), claim)
            .against(["the program may know in another way that it has none"])
            .evidence([
                Evidence::event(seq, format!("{name} gets none here, as {again} in the trace")),
                Evidence::symbol(at, &place, "whatever this call returns, the code goes on in the same way".to_owned()),
            ])
            .next(format!("look at {place}: go on only where it returns TX_SUCCESS"))
            .threads([thread]),
    )
}
