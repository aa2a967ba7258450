//! Nothing comes of the kernel's timers for long, though time-outs are armed: the tick does not come, or its handler does not call
//! the kernel. Where neither a register nor an event shows the tick itself, the kernel's timer wheel does: each entry that is
//! armed is looked at within one turn of the wheel (`_tx_timer_list`), by the thread that runs the timers.
//!
//! How long a tick is follows from the sleeps of the trace before, else from SysTick's reload value, which is read without an effect; its
//! control register is not (reading it clears COUNTFLAG). The trace's clock is no faster than the CPU's. By the sleeps it is likely.
//! Where a trace has neither, the average since the start bounds it, for a hint: the newest stamp of a clock that has not started over,
//! and the kernel's count of its ticks. A tick that stopped was shorter than that. It needs a trace in which the processor is idle for
//! most of the time, as a clock that stops then shows no such time, and a program that does not set the kernel's time.
//!
//! Against it: a system that stops its tick while it is idle moves its timers by itself as it wakes: where the program has the
//! kernel's calls for that, nothing is said.

use std::collections::BTreeSet;

use super::super::events::Events;
use super::super::graph::Graph;
use super::super::usage::{Store, User};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::callback::is_timer_thread;
use super::masking_code::{self, Left};
use super::no_tick::RELOAD;
use super::tick_rate::is_by_systick;
use super::words::{place_at, place_of_function};
use super::{overdue, silence};
use crate::abi::{Addr, Endian, Region};
use crate::cpu::expanded;
use crate::kernel::{Kernel, Kind, State, Thread};

/// The kernel's calls of a program that stops its tick.
const TICKLESS: [&str; 4] = ["tx_timer_get_next", "tx_time_increment", "tx_low_power_enter", "_tx_low_power_enter"];
/// The array that the wheel is.
const WHEEL: &str = "_tx_timer_list";
/// So many turns of the wheel.
const TURNS: u64 = 4;
/// The same where a thread waits for a time that began before: no entry stays for longer than one turn. A quarter of a turn is
/// added to both.
const ONE_TURN: u64 = 1;
/// So often other threads have to be made ready meanwhile: events of that are recorded.
pub(super) const READIED: u64 = 16;
/// So many ticks of the kernel show how long one is on average, and how far two measures of the time since the start may differ.
const MANY: u64 = 100;
const AGREE: u64 = 3;
/// SysTick's registers but its calibration value (Armv7-M Architecture Reference Manual, B3.3.2).
const SYSTICK: Region = Region { start: 0xE000_E010, len: 12 };
/// The bits of its reload value.
const COUNTS: u32 = 0xFF_FFFF;
/// The bits of its control register that let it count and interrupt.
const RUNS: u32 = 3;
/// What sets the kernel's count of ticks.
const TIME_SET: [&str; 2] = ["_tx_time_set", "_txe_time_set"];
/// The threads that are named.
const NAMED: usize = 3;
/// What to look at where the tick is missing.
pub(super) const NEXT: &str = "look at who stops the timer of the tick or disables its interrupt (of SysTick: SYST_CSR), and whether \
                               its handler calls _tx_timer_interrupt";

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    finding(case).or_else(|| overdue::finding(case, graph)).into_iter().collect()
}

/// True where the program has the kernel's calls for a tick that stops.
pub(super) fn is_tickless(case: &Case<'_>) -> bool {
    TICKLESS.iter().any(|name| case.look.symbol(name).is_some())
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
pub(super) fn is_timed(thread: &Thread) -> bool {
    thread.timed == Some(true) && thread.state != Some(State::READY)
}

fn finding(case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, case.events.filter(|events| events.has_clock && events.cores <= 1)?);
    let rests = |thread: &&Thread| is_timer_thread(thread, case) && thread.state.is_some_and(|state| state.0 == 3);
    let timers = kernel.threads.iter().find(rests)?;
    if is_tickless(case) || events.without_timers.readied < READIED {
        return None;
    }
    let armed = armed(kernel);
    armed.first()?;
    let slots = case.look.symbol(WHEEL)?.size.checked_div(case.width()).filter(|slots| (1..=1024).contains(slots))?;
    let Tick { cycles, by } = Tick::of(case, events)?;
    let (seq, begins) = match events.without_timers.from {
        Some((seq, ticks)) => (Some(seq), ticks),
        None => (None, events.span.0),
    };
    let lasts = u64::try_from(events.span.1.saturating_sub(begins)).ok()?;
    let ticks = lasts.checked_div(cycles)?;
    let waited =
        |thread: &Thread| is_timed(thread) && events.lasts(thread.address) >= events.span.1.saturating_sub(begins);
    let left = stopped(case);
    // An average says less: more has to be over, or a function has to be known that stops the tick.
    let is_rough = by == By::Average && left.is_none();
    let turns = if kernel.threads.iter().any(waited) && !is_rough { ONE_TURN } else { TURNS };
    if ticks < slots.saturating_mul(turns).saturating_add(slots / 4) {
        return None;
    }
    let since = format!(
        "for {lasts} ticks of the trace{} nothing woke {}, which the kernel does at least every {slots} kernel ticks; other threads \
         were made ready {} times",
        // The kernel has not counted them.
        match by {
            By::Sleeps => format!(" (of which {cycles} are a kernel tick)"),
            By::Reload | By::Code(_) => String::new(),
            By::Average => format!(" (a kernel tick was at most {cycles} of them, on average since the start)"),
        },
        timers.label(),
        events.without_timers.readied
    );
    let periods = match by {
        By::Sleeps => "kernel ticks (measured by earlier sleeps)",
        By::Reload | By::Code(_) => "periods of SysTick",
        By::Average => "kernel ticks (by their average since the start)",
    };
    let claim = format!(
        "the tick does not come, or does not reach the kernel: {} for a time to pass, and nothing woke {} for \
         {ticks} {periods}",
        waits(&armed),
        timers.label()
    );
    let claim = left.as_ref().map_or(claim.clone(), |left| format!("{claim}: {}", left.words));
    let quiet = match seq {
        Some(seq) => Evidence::event(seq, since),
        None => Evidence::memory(timers.address, since),
    };
    let has_cycles = format!("SysTick's reload value: a period has {cycles} cycles");
    let (reload, inferred) = match by {
        By::Reload => (
            Some(Evidence::memory(RELOAD, has_cycles)),
            Some("it is inferred from SysTick's reload value: another timer may give the tick"),
        ),
        By::Code(at) => (
            Some(Evidence::symbol(at, &place_at(at, case), format!("by the code, {has_cycles}"))),
            Some("it is inferred from the reload value that the code sets in SysTick: another timer may give the tick"),
        ),
        By::Sleeps | By::Average => (None, None),
    };
    let claimed = if by == By::Sleeps { Confidence::Likely } else { Confidence::Hint };
    Some(
        Finding::new(Code::NoTick, case.cap(claimed), claim)
            .against(["the program may have stopped its tick on purpose"])
            .against(inferred)
            .against((by == By::Average).then_some(
                "how long a kernel tick is, is inferred from the stamp of the newest event, and from how often threads ran",
            ))
            .evidence([quiet])
            .evidence(reload)
            .next(left.as_ref().map_or_else(|| NEXT.to_owned(), |left| left.next.clone()))
            .evidence(left.map(|left| left.evidence)),
    )
}

/// What shows how long a kernel tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Sleeps,
    /// SysTick's register.
    Reload,
    /// The code that sets this register, at this instruction.
    Code(Addr),
    /// The time since the start, and the kernel's count of its ticks: where the tick has stopped, it was shorter.
    Average,
}

/// A kernel tick.
struct Tick {
    /// Ticks of the trace.
    cycles: u64,
    by: By,
}

impl Tick {
    fn of(case: &Case<'_>, events: &Events) -> Option<Self> {
        if let Some(cycles) = events.sleeps.period().and_then(|period| u64::try_from(period).ok()) {
            return Some(Self { cycles, by: By::Sleeps });
        }
        if let Some(of_systick) = Self::of_systick(case) {
            return Some(of_systick);
        }
        if !events.sleeps.over.is_empty() || sets_time(case)? || !is_mostly_idle(case, events) {
            return None;
        }
        let ticks = silence::system_clock(case).filter(|ticks| *ticks >= MANY && !events.sleeps.is_time_set)?;
        let cycles = longer(events.stamp?, since_start(case, events)?)?.checked_div(ticks)?;
        (cycles > 0).then_some(Self { cycles, by: By::Average })
    }
}

impl Tick {
    /// A period of SysTick, by its register or by the code that sets it.
    fn of_systick(case: &Case<'_>) -> Option<Self> {
        let reload = Endian::Little.u32(&case.look.bytes(RELOAD, 4).unwrap_or_default(), 0);
        let known = match reload {
            Some(reload) => Some((reload, By::Reload)),
            None => reload_by_code(case).map(|(reload, at)| (reload, By::Code(at))),
        };
        let (cycles, by) = known.filter(|(reload, _)| *reload > 0)?;
        u64::from(cycles).checked_add(1).map(|cycles| Self { cycles, by })
    }
}

/// The cycles of a period of SysTick, where it gives the tick.
pub(super) fn period_of_systick(case: &Case<'_>) -> Option<u64> {
    Tick::of_systick(case).filter(|_| is_by_systick(case)).map(|tick| tick.cycles)
}

/// The function that may have stopped it.
pub(super) fn stopped(case: &Case<'_>) -> Option<Left> {
    left_by_one(case).or_else(|| systick_stopped(case))
}

/// The time since the start in ticks of the trace, at least, where two measures of it agree.
pub(super) fn least_since_start(case: &Case<'_>, events: &Events) -> Option<u64> {
    let (by_stamp, by_runs) = (events.stamp?, since_start(case, events)?);
    longer(by_stamp, by_runs).map(|_| by_stamp.min(by_runs))
}

/// The only value that the code of the program sets as SysTick's reload value, and where, if SysTick gives the tick.
fn reload_by_code(case: &Case<'_>) -> Option<(u32, Addr)> {
    let (value, at) = case.usage()?.only_constant(RELOAD, 4, SYSTICK).filter(|_| is_by_systick(case))?;
    Some((value & COUNTS, at))
}

/// True where the code of the program calls `tx_time_set`; `None` where its code is not known.
pub(super) fn sets_time(case: &Case<'_>) -> Option<bool> {
    let all: Vec<Addr> = TIME_SET.iter().filter_map(|name| Some(case.look.symbol(name)?.address & !1)).collect();
    Some(case.usage()?.calls_kernel(&all))
}

/// True where threads have the processor for less than half of the trace: its clock goes on while none has.
fn is_mostly_idle(case: &Case<'_>, events: &Events) -> bool {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let ran = threads.filter_map(|thread| events.activity(thread.address)).map(|activity| activity.ran);
    ran.fold(0, i64::saturating_add) < events.length() / 2
}

/// The time since the start: by the newest stamp, and by how often a thread ran. A stamp may have started over, and a thread may run
/// more often at one time than at another: they have to agree.
fn longer(by_stamp: u64, by_runs: u64) -> Option<u64> {
    let (least, most) = (by_stamp.min(by_runs), by_stamp.max(by_runs));
    (most / AGREE <= least).then_some(most)
}

/// The time since the start in ticks of the trace, by the thread that ran most often within the trace, and how often it has run in all.
fn since_start(case: &Case<'_>, events: &Events) -> Option<u64> {
    let length = u64::try_from(events.length()).ok()?;
    let of = |thread: &Thread| {
        let within = events.activity(thread.address)?.dispatched;
        Some((within, thread.run_count?))
    };
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let (within, all) = threads.filter_map(of).filter(|(within, _)| *within >= READIED).max()?;
    u64::try_from(u128::from(length).checked_mul(all.into())?.checked_div(within.into())?).ok()
}

/// The only function that a thread calls and that may stop SysTick: it writes its control register, and not what lets it both
/// count and interrupt.
fn systick_stopped(case: &Case<'_>) -> Option<Left> {
    let usage = case.usage()?;
    let stops = |value: Option<u32>| value.is_none_or(|value| value & RUNS != RUNS);
    let control = usage.stores(SYSTICK.start, SYSTICK, &|_| false).into_iter();
    let runs = |store: &Store| if store.value.is_some() { Some(!stops(store.value)) } else { runs(store.at, case) };
    let control: Vec<(Store, Option<bool>)> = control.map(|store| (store, runs(&store))).collect();
    // Where a store is known to stop it, those of which that is not known may start it again.
    let wanted = if control.iter().any(|(_, runs)| *runs == Some(false)) { Some(false) } else { None };
    let control = control.into_iter().filter(|(_, runs)| *runs == wanted).map(|(store, _)| store);
    let functions: BTreeSet<Addr> = control.map(|store| store.function).collect();
    let thread = |user: User| if let User::Thread(at) = user { Some(at) } else { None };
    let callers = |function: Addr| usage.callers_of(function).into_iter().filter_map(thread).collect::<Vec<_>>();
    let all: Vec<(Addr, Vec<Addr>)> =
        functions.into_iter().map(|at| (at, callers(at))).filter(|(_, by)| !by.is_empty()).collect();
    let [(start, by)] = all.as_slice() else { return None };
    let place = place_of_function(*start, case);
    let names: Vec<String> = by.iter().map(|thread| case.label(*thread)).collect();
    let call = if names.len() == 1 { "calls" } else { "call" };
    Some(Left {
        start: *start,
        words: format!("{place}, which {} {call}, writes SysTick's control register", names.join(" and ")),
        evidence: Evidence::symbol(*start, &place, "SysTick's control register (SYST_CSR) is written here".to_owned()),
        next: format!("look at how {place} leaves SysTick (SYST_CSR), and whether the tick comes from it"),
    })
}

/// Whether SysTick counts after a store behind an instruction that sets or clears the lowest bit of what it stores: ORR, with no AND or BIC in
/// front of it, or BIC (Armv7-M Architecture Reference Manual, A7.7: AND, BIC, ORR, STR). `None` where that is not known.
fn runs(at: Addr, case: &Case<'_>) -> Option<bool> {
    let bytes = case.look.bytes(at.checked_sub(8)?, 12)?;
    let half = |n: usize| Endian::Little.u16(&bytes, n);
    let (before, first, second, store, after) = (half(0)?, half(4)?, half(6)?, half(8)?, half(10)?);
    let stored = match store {
        0x6000..=0x67FF => store & 7,
        _ if store & 0xFFF0 == 0xF8C0 => after >> 12,
        _ => return None,
    };
    let is_of_bit = second >> 15 == 0 && second >> 8 & 0xF == stored && expanded(first, second) & 1 != 0;
    match first & 0xFBE0 {
        0xF040 if is_of_bit && first & 0xF != 0xF && !matches!(before & 0xFBE0, 0xF000 | 0xF020) => Some(true),
        0xF020 if is_of_bit => Some(false),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_the_start_counts_where_two_measures_agree() {
        assert_eq!(longer(400, 900), Some(900), "the longer makes fewer ticks of the trace's length");
        assert_eq!(longer(100, 900), None, "a stamp that has started over");
        assert_eq!(longer(900, 100), None, "a burst");
    }
}
