//! The tick wakes the thread that runs the kernel's timers again and again, finds it ready each time, and finds that the kernel
//! has chosen it to run next. The same thread is interrupted each time, and no thread has an event: the switch of threads does
//! not happen. On a Cortex-M PendSV makes it, as the least urgent exception: an interrupt that comes back as soon as its handler
//! ends keeps it back, and so does one that does not end. For a bare trace; where registers or RAM are there, other rules say more.
//!
//! What shows which interrupt it is: it begins again soon after its end, with nothing between, and never did so before.
//!
//! Against it: a thread that masks PendSV and not the tick (BASEPRI) looks the same, and so does a count of the kernel that forbids
//! the switch. So it is a hint where no interrupt is seen to come back.

use super::super::events::{Events, KeptReady, LONG, Soon};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::{isr_storm, words};

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    finding(case, graph).into_iter().collect()
}

fn finding(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let has_registers = case.cpus.is_some_and(|cpus| cpus.all.iter().any(|cpu| cpu.registers.pc().is_some()));
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1)?;
    let kept = events.timers.kept.filter(|kept| kept.again >= LONG && kept.interrupted.is_some())?;
    if has_registers || case.kernel.is_some() || !isr_storm::find(case, graph).is_empty() {
        return None;
    }
    let timers = case.label(events.timers.thread?);
    let lasts = words::trace_ticks(events.span.1.saturating_sub(kept.from.1), case);
    let back = events.interrupts.comes_back().filter(|(_, soon)| soon.times >= kept.again);
    let name = back.map(|(number, _)| case.interrupt(Some(number)));
    let which = name.as_deref().unwrap_or("an interrupt");
    let again = match back {
        Some(_) => "comes again and again",
        None => "comes again and again, or does not end",
    };
    Some(
        Finding::new(
            Code::IsrStorm,
            // Where no interrupt shows that it comes back, other explanations fit as well.
            case.cap(if back.is_some() { Confidence::Likely } else { Confidence::Hint }),
            format!("{which} {again}: {timers} has been ready for {lasts}, and does not run"),
        )
        .against(["a thread that keeps back the switch of threads, and not the tick, looks the same"])
        .against(
            back.is_none()
                .then_some("a count of the kernel that forbids the switch (_tx_thread_preempt_disable) looks the same"),
        )
        .evidence([shows(kept, events, &timers)])
        .evidence(back.zip(name.as_ref()).map(|((_, soon), name)| comes_back(soon, name)))
        .next(words::acknowledge(name.as_deref().unwrap_or("it")))
        .affected(graph.tasks.list.iter().map(|task| task.address)),
    )
}

fn shows(kept: KeptReady, events: &Events, timers: &str) -> Evidence {
    let follow = events.newest.saturating_sub(kept.from.0);
    let text = format!(
        "{timers} is ready here; the tick woke it {} times since, and each time it was ready and the next one to run; {follow} \
         events follow, none of a thread",
        kept.again
    );
    Evidence::event(kept.from.0, text)
}

fn comes_back(soon: Soon, name: &str) -> Evidence {
    let text = format!(
        "from here on {name} began {} times soon after its end, with no other event between; of {} times before never",
        soon.times, soon.before
    );
    Evidence::event(soon.from, text)
}
