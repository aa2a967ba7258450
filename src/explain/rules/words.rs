//! Sentences and evidence that several rules share.

use super::super::graph::{Edge, Graph, How};
use super::super::state::Wait;
use super::super::usage::time_outs;
use super::super::{Case, Evidence, Finding};
use super::by_code::Givers;
use super::callback::is_timer_thread;
use crate::abi::{Addr, Endian};
use crate::kernel::{Kind, Thread};
use crate::trace::many;

/// Why who has a semaphore is inferred.
pub(super) const NO_OWNER: &str = "a semaphore has no owner in memory: who took it is inferred from events";

/// The same of one who has it, as far as that is known.
pub(super) const fn no_owner(edge: &Edge) -> &'static str {
    match edge.how {
        How::MayHold => "a semaphore has no owner in memory: who has it is inferred from stacks and the program's code",
        _ => NO_OWNER,
    }
}

/// What a thread does with an object so that others need not wait for it any more, as the kernel's calls are named.
pub(super) const fn gives(kind: Kind) -> &'static str {
    match kind {
        Kind::Queue => "send to",
        Kind::EventFlags => "set flags of",
        Kind::Semaphore | Kind::Mutex => "put",
        _ => "release memory of",
    }
}

/// The same of one: `puts`.
pub(super) const fn third(kind: Kind) -> &'static str {
    match kind {
        Kind::Queue => "sends to",
        Kind::EventFlags => "sets flags of",
        Kind::Semaphore | Kind::Mutex => "puts",
        _ => "releases memory of",
    }
}

/// What it does with it: `puts it`.
pub(super) fn gives_it(kind: Kind, wanted: Option<u64>) -> String {
    match wanted {
        Some(wanted) => format!("sets {wanted:#x} of it"),
        None => format!("{} it", third(kind)),
    }
}

/// The characters of a word of the kernel, where all are printable.
pub(super) fn text(word: u64, case: &Case<'_>) -> Option<String> {
    let shape = case.kernel.map(|kernel| kernel.layout.shape);
    let len = shape.map_or(4, |shape| shape.word.bytes());
    let mut bytes = word.to_le_bytes().get(..len)?.to_vec();
    if shape.is_some_and(|shape| shape.endian == Endian::Big) {
        bytes.reverse();
    }
    bytes.iter().all(|b| b.is_ascii_graphic() || *b == b' ').then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// `transfer_done (0x20000040)`: what a word in memory is.
pub(super) fn place_or_address(at: Addr, case: &Case<'_>) -> String {
    case.look.place(at).map_or_else(|| format!("{at:#x}"), |name| format!("{name} ({at:#x})"))
}

/// What a thread waits for.
pub(super) fn waits(waiter: Addr, case: &Case<'_>, graph: &Graph) -> Option<String> {
    let wait = graph.tasks.at(waiter)?.wait?;
    Some(format!("{} waits for {}", case.label(waiter), case.object(wait.object)))
}

impl Finding {
    /// Adds threads that wait for those that it is about. Their waits are symptoms, but that of the thread `without`.
    pub(super) fn waiters(self, waiters: Vec<Addr>, without: Addr, case: &Case<'_>, graph: &Graph) -> Self {
        let others = waiters.iter().filter(|thread| **thread != without);
        self.explains(others.filter_map(|thread| waits(*thread, case, graph))).affected(waiters)
    }
}

/// What shows the state of a thread: its control block, or the event that put it there.
pub(super) fn shows(thread: Addr, text: String, graph: &Graph) -> Evidence {
    match graph.tasks.at(thread).and_then(|task| task.seq) {
        Some(seq) => Evidence::event(seq, text),
        None => Evidence::memory(thread, text),
    }
}

/// `512000 ticks of the trace (about 20 kernel ticks)`: how long something lasts.
pub(super) fn trace_ticks(ticks: i64, case: &Case<'_>) -> String {
    format!("{ticks} ticks of the trace{}", in_kernel_ticks(&[ticks], case))
}

/// ` (about 20 and 3 kernel ticks)`: the same durations, the longest first, where sleeps show how long a tick of the kernel is.
/// Nothing for what is shorter than one.
pub(super) fn in_kernel_ticks(lasts: &[i64], case: &Case<'_>) -> String {
    let Some(events) = case.events else { return String::new() };
    // The length is inferred: nothing lasts longer than the kernel has counted.
    let counted = super::silence::system_clock(case).filter(|_| !events.sleeps.is_time_set);
    kernel_ticks(lasts, events.sleeps.period(), counted.and_then(|ticks| i64::try_from(ticks).ok()))
}

/// The same for ticks of the kernel that last so long. `counted`: its ticks since it began.
pub(super) fn kernel_ticks(lasts: &[i64], period: Option<i64>, counted: Option<i64>) -> String {
    let Some(period) = period.filter(|period| lasts.first().is_some_and(|first| *period > 0 && first >= period)) else {
        return String::new();
    };
    let rounded = |ticks: &i64| ticks.saturating_add(period / 2).checked_div(period).unwrap_or_default();
    let known = |ticks: i64| ticks.min(counted.unwrap_or(ticks));
    let all: Vec<String> = lasts.iter().map(|ticks| known(rounded(ticks)).to_string()).collect();
    let unit = if all == ["1"] { "kernel tick" } else { "kernel ticks" };
    format!(" (about {} {unit})", all.join(" and "))
}

/// That a thread waits, and for how long where events show that.
pub(super) fn waiting(thread: Addr, object: Addr, case: &Case<'_>, graph: &Graph) -> Evidence {
    let forever = graph.tasks.at(thread).and_then(|task| task.wait).is_some_and(|wait| wait.forever);
    let without = match time_outs(object, case) {
        _ if forever => " without a time-out".to_owned(),
        Some(all) => format!(" with a time-out, as the {} before that ended so", many(all.times, "wait", "waits")),
        None => String::new(),
    };
    let for_long = case.events.and_then(|events| {
        let activity = events.activity(thread)?;
        activity.since.filter(|_| events.has_clock)?;
        Some(format!(", for {} up to the newest event", trace_ticks(events.lasts(thread), case)))
    });
    let text =
        format!("{}: waits for {}{without}{}", case.label(thread), case.object(object), for_long.unwrap_or_default());
    shows(thread, text, graph)
}

/// That somebody has something.
pub(super) fn holds(edge: &Edge, case: &Case<'_>) -> Evidence {
    let (holder, object) = (case.label(edge.holder), case.object(edge.object));
    match edge.seq {
        Some(seq) if matches!(edge.how, How::Sets(_)) => {
            Evidence::event(seq, format!("{holder} sets flags of {object} that are waited for, and no other does"))
        }
        Some(seq) if edge.how == How::Sends => {
            Evidence::event(seq, format!("{holder} sends to {object} for the last time, and no other does"))
        }
        Some(seq) if edge.how == How::Puts => {
            Evidence::event(seq, format!("{holder} puts {object} for the last time, and no other does"))
        }
        Some(seq) if edge.how == How::HasAll => Evidence::event(
            seq,
            format!("{holder} allocates the last block of {object}, and has released none of them"),
        ),
        None if edge.how == How::MayHold => Evidence::memory(
            edge.object,
            format!("by its stack, {holder} is between a call that takes {object} and one that puts it; no other is"),
        ),
        None if edge.how == How::Reads => {
            Evidence::memory(edge.object, format!("{object} is full; all events that take from it are of {holder}"))
        }
        Some(seq) if case.kernel.is_some() => {
            Evidence::event(seq, format!("{holder} takes {object}, and no event gives it back"))
        }
        Some(seq) => Evidence::event(seq, format!("{object}: {holder} has it")),
        None => Evidence::memory(edge.object, format!("{object}: its owner is {holder}")),
    }
}

/// ` (priority 4)`.
pub(super) fn priority(thread: Addr, graph: &Graph) -> String {
    let known = graph.tasks.at(thread).and_then(|task| task.priority);
    known.map_or_else(String::new, |priority| format!(" (priority {priority})"))
}

/// The function at an address, or the address.
pub(super) fn function_at(at: Addr, case: &Case<'_>) -> String {
    case.look.function(at & !1).map_or_else(|| format!("{at:#x}"), |function| function.name)
}

/// `regulate (pump.c:12)`, or as much of it as is known.
pub(super) fn place_at(at: Addr, case: &Case<'_>) -> String {
    match case.look.inlined(at).into_iter().next() {
        Some((name, Some(line))) if !case.trust.other_build => format!("{name} ({line})"),
        _ => place_of_function(at, case),
    }
}

/// The same of the function that has a symbol, also where the compiler put another one there.
pub(super) fn place_of_function(at: Addr, case: &Case<'_>) -> String {
    let name = function_at(at, case);
    match case.look.line(at).filter(|_| !case.trust.other_build) {
        Some(line) => format!("{name} ({line})"),
        None => name,
    }
}

/// The most who give something that are named.
const GIVERS: usize = 2;

/// `trap_entry or beacon`: who gives something, where these are few.
pub(super) fn few(givers: Option<&Givers>) -> Option<String> {
    givers.filter(|givers| (1..=GIVERS).contains(&givers.names.len())).map(|givers| givers.names.join(" or "))
}

/// The flags that a thread waits for and that are not set.
pub(super) fn missing(wait: &Wait, case: &Case<'_>) -> Option<u64> {
    let wanted = wait.wanted?;
    let current = || case.kernel?.object(wait.object)?.get("current");
    let missing = current().filter(|_| wanted.all).map(|current| wanted.flags & !current);
    Some(missing.filter(|missing| *missing != 0).unwrap_or(wanted.flags))
}

/// `0x1 of event flags radio, which by the code only trap_entry sets`: what a thread waits for, and who gives it where that is known.
pub(super) fn wanted(wait: &Wait, givers: Option<&Givers>, case: &Case<'_>) -> String {
    let (object, by) = (case.object(wait.object), few(givers));
    let of = match (missing(wait, case).filter(|_| wait.kind == Kind::EventFlags), wait.wanted) {
        (Some(missing), Some(wanted)) if missing != wanted.flags => {
            format!("{missing:#x} of {object} (the rest of {:#x} is set)", wanted.flags)
        }
        (Some(missing), _) => format!("{missing:#x} of {object}"),
        _ => object,
    };
    let Some(by) = by else { return of };
    match wait.kind {
        Kind::EventFlags => format!("{of}, which by the code only {by} sets"),
        Kind::Queue => format!("{of}, to which by the code only {by} sends"),
        Kind::Semaphore | Kind::Mutex => format!("{of}, which by the code only {by} puts"),
        _ => format!("{of}, whose memory by the code only {by} releases"),
    }
}

/// Who suspended a thread, where the trace shows another one: `reference suspended it, and waits for mutex bus itself`; and as evidence.
pub(super) fn suspended_by(thread: Addr, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let events = case.events?;
    let (by, seq) = events.suspended(thread)?;
    let by = graph.tasks.list.iter().find(|task| events.is(task.address, by))?;
    let (name, suspended) = (case.label(by.address), case.label(thread));
    let waits = by.wait.filter(|wait| wait.forever);
    let waits = waits.map_or_else(String::new, |wait| format!(", and waits for {} itself", case.object(wait.object)));
    let evidence = Evidence::event(seq, format!("{name} suspends {suspended} here (tx_thread_suspend)"));
    Some((format!("{name} suspended it{waits}"), evidence))
}

/// What to do about an interrupt that comes again and again. `name`: its handler's.
pub(super) fn acknowledge(name: &str) -> String {
    format!(
        "acknowledge the cause of {name} in its device before the handler ends; if the handler already does so, check the rate \
         that the device is set to"
    )
}

/// What to do about a stack that is too small.
pub(super) fn larger_stack(thread: &Thread, case: &Case<'_>) -> String {
    let name = thread.label();
    if is_timer_thread(thread, case) {
        return format!(
            "the callbacks of all timers run on the stack of {name}: make it larger (TX_TIMER_THREAD_STACK_SIZE), or do less in \
             them"
        );
    }
    format!("make the stack of {name} larger")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_trace_were_taken_for_ticks_of_the_kernel() {
        let of = |lasts: &[i64]| kernel_ticks(lasts, Some(25_000), None);
        assert_eq!(of(&[512_000]), " (about 20 kernel ticks)");
        assert_eq!(of(&[25_100]), " (about 1 kernel tick)");
        assert_eq!(of(&[512_000, 80_000]), " (about 20 and 3 kernel ticks)");
        assert_eq!(of(&[24_000]), "", "within one tick");
        assert_eq!(kernel_ticks(&[512_000], None, None), "", "it is not known");
        assert_eq!(kernel_ticks(&[512_000], Some(0), None), "");
        assert_eq!(kernel_ticks(&[i64::MAX], Some(2), None), " (about 4611686018427387903 kernel ticks)");
        // "About 540 kernel ticks" of a kernel that had counted 498.
        assert_eq!(kernel_ticks(&[540_000, 2000], Some(1000), Some(498)), " (about 498 and 2 kernel ticks)");
    }
}
