//! Nothing comes of the kernel's timers for long, though time-outs are armed: the tick does not come, or its handler does not call
//! the kernel. Where neither a register nor an event shows the tick itself, the kernel's timer wheel does: each entry that is
//! armed is looked at within one turn of the wheel (`_tx_timer_list`), by the thread that runs the timers.
//!
//! How long a tick is follows from the sleeps of the trace before, else from SysTick's reload value, which is read without an effect; its
//! control register is not (reading it clears COUNTFLAG). The trace's clock is no faster than the CPU's. By the sleeps it is likely.
//!
//! Against it: a system that stops its tick while it is idle moves its timers by itself as it wakes: where the program has the
//! kernel's calls for that, nothing is said, and what is said is a hint.

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::masking_code::{self, Left};
use super::no_tick::RELOAD;
use crate::abi::Endian;
use crate::kernel::{Kernel, Kind, State, Thread};

/// The kernel's calls of a program that stops its tick.
pub(super) const TICKLESS: [&str; 4] =
    ["tx_timer_get_next", "tx_time_increment", "tx_low_power_enter", "_tx_low_power_enter"];
/// The array that the wheel is.
const WHEEL: &str = "_tx_timer_list";
/// So many turns of the wheel.
const TURNS: u64 = 4;
/// The same where a thread waits for a time that began before: no entry stays for longer than one turn. A quarter of a turn is
/// added to both.
const ONE_TURN: u64 = 1;
/// So often other threads have to be made ready meanwhile: events of that are recorded.
pub(super) const READIED: u64 = 16;
/// The threads that are named.
const NAMED: usize = 3;

pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    finding(case).into_iter().collect()
}

/// What waits for time to pass.
pub(super) fn armed(kernel: &Kernel) -> Vec<String> {
    let threads = kernel.threads.iter().filter(|thread| is_timed(thread)).map(Thread::label);
    let timers = kernel.objects.iter().filter(|object| {
        object.kind == Kind::Timer && object.get("tx_timer_internal_list_head").is_some_and(|list| list != 0)
    });
    threads.chain(timers.map(|timer| format!("timer {}", timer.label()))).collect()
}

/// True for a thread that waits for a time to pass.
fn is_timed(thread: &Thread) -> bool {
    thread.timed == Some(true) && thread.state != Some(State::READY)
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events.filter(|events| events.has_clock && events.cores <= 1)?);
    let rests = |thread: &&Thread| is_timer_thread(thread, case) && thread.state.is_some_and(|state| state.0 == 3);
    let timers = kernel.threads.iter().find(rests)?;
    if TICKLESS.iter().any(|name| case.look.symbol(name).is_some()) || events.without_timers.readied < READIED {
        return None;
    }
    let armed = armed(kernel);
    armed.first()?;
    let slots = case.look.symbol(WHEEL)?.size.checked_div(case.width()).filter(|slots| (1..=1024).contains(slots))?;
    let (cycles, is_measured) = tick(case, events)?;
    let (seq, begins) = match events.without_timers.from {
        Some((seq, ticks)) => (Some(seq), ticks),
        None => (None, events.span.0),
    };
    let lasts = u64::try_from(events.span.1.saturating_sub(begins)).ok()?;
    let ticks = lasts.checked_div(cycles)?;
    let waited =
        |thread: &Thread| is_timed(thread) && events.lasts(thread.address) >= events.span.1.saturating_sub(begins);
    let turns = if kernel.threads.iter().any(waited) { ONE_TURN } else { TURNS };
    if ticks < slots.saturating_mul(turns).saturating_add(slots / 4) {
        return None;
    }
    let since = format!(
        "for {lasts} ticks of the trace{} nothing woke {}, which the kernel does at least every {slots} kernel ticks; other threads \
         were made ready {} times",
        // The kernel has not counted them.
        if is_measured { format!(" (of which {cycles} are a kernel tick)") } else { String::new() },
        timers.label(),
        events.without_timers.readied
    );
    let periods = if is_measured { "kernel ticks (measured by earlier sleeps)" } else { "periods of SysTick" };
    let claim = format!(
        "the tick does not come, or does not reach the kernel: {} for a time to pass, and nothing woke {} for \
         {ticks} {periods}",
        waits(&armed),
        timers.label()
    );
    let left = left_by_one(case);
    let claim = left.as_ref().map_or(claim.clone(), |left| format!("{claim}: {}", left.words));
    let next = "look at who stops the timer of the tick or disables its interrupt (of SysTick: SYST_CSR), and whether its \
                handler calls _tx_timer_interrupt";
    let quiet = match seq {
        Some(seq) => Evidence::event(seq, since),
        None => Evidence::memory(timers.address, since),
    };
    let reload = (!is_measured)
        .then(|| Evidence::memory(RELOAD, format!("SysTick's reload value: a period has {cycles} cycles")));
    let claimed = if is_measured { Confidence::Likely } else { Confidence::Hint };
    Some(
        Finding::new(Code::NoTick, case.cap(claimed), claim)
            .against(["the program may have stopped its tick on purpose"])
            .against(
                (!is_measured).then_some("it is inferred from SysTick's reload value: another timer may give the tick"),
            )
            .evidence([quiet])
            .evidence(reload)
            .next(left.as_ref().map_or_else(|| next.to_owned(), |left| left.next.clone()))
            .evidence(left.map(|left| left.evidence)),
    )
}

/// How many ticks of the trace one of the kernel is, and whether sleeps show that.
fn tick(case: &Case<'_>, events: &Events) -> Option<(u64, bool)> {
    if let Some(period) = events.sleeps.period().and_then(|period| u64::try_from(period).ok()) {
        return Some((period, true));
    }
    let reload = Endian::Little.u32(&case.look.bytes(RELOAD, 4)?, 0)?;
    u64::from(reload).checked_add(1).filter(|cycles| *cycles > 1).map(|cycles| (cycles, false))
}

/// The only function that a thread calls and that may leave interrupts disabled.
fn left_by_one(case: &Case<'_>) -> Option<Left> {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let mut all = threads.filter_map(|thread| masking_code::left_by(thread.address, case));
    let first = all.next()?;
    all.all(|other| other.start == first.start).then_some(first)
}

/// `Power, Display wait`.
pub(super) fn waits(armed: &[String]) -> String {
    let names: Vec<&str> = armed.iter().take(NAMED).map(String::as_str).collect();
    let more = armed.len().saturating_sub(names.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more} {}", names.join(", "), if armed.len() == 1 { "waits" } else { "wait" })
}
