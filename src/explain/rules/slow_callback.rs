//! Callbacks of timers take most of the time: the thread that runs them is the most urgent one as a rule, so that all others get
//! what it leaves. Usual for a callback that takes longer than the period of its timer.
//!
//! They may also take long now and then: meanwhile no time-out ends, the tick wakes the thread again and again, and no thread has an
//! event. It is likely where that came more than once, or where the CPU is in a callback.
//!
//! Likely where it is shown that they are late: the tick woke the thread though it had not come to its end since the tick before,
//! or it works for longer than the time from one tick to the next.
//!
//! Against it: a program may do its work in callbacks on purpose: a hint.

use super::super::cpus::thread_of;
use super::super::events::{Asked, Events, LONG, Stretch};
use super::super::graph::Graph;
use super::super::state::{Does, Task};
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::no_tick::RELOAD;
use super::words::{priority, shows, trace_ticks};
use super::{callback, place, starvation};
use crate::abi::{Addr, Endian};
use crate::kernel::{Kind, Object};
use crate::session::{CpuState, Function};

/// So often it must have worked: one long callback is no rule.
const TIMES: u64 = 8;
/// Hundredths of the time.
const SHARE: i64 = 50;
/// The timers and threads that are named.
const NAMED: usize = 3;
/// So many ticks without a break are no chance.
const SURE: u64 = 16;
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let by_share = || finding(case.events.filter(|events| starvation::is_enough(events))?, case, graph);
    by_share().or_else(|| long_work(case.events?, case, graph)).into_iter().collect()
}

/// The thread that runs the timers.
fn thread(events: &Events, case: &Case<'_>) -> Option<Addr> {
    let in_memory = case.kernel.and_then(|kernel| kernel.threads.iter().find(|t| callback::is_timer_thread(t, case)));
    in_memory.map(|thread| thread.address).or(events.timers.thread)
}

/// What the thread did: the share of the time, how long it works each time, and how often it was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    share: i64,
    each: i64,
    times: u64,
    late: u64,
    wakes: u64,
}

impl Work {
    fn of(events: &Events, thread: Addr) -> Option<Self> {
        let activity = events.activity(thread)?;
        let share = activity.ran.saturating_mul(100).checked_div(events.length())?;
        let each = activity.ran.checked_div(i64::try_from(activity.blocks).ok()?)?;
        let (late, wakes) = (events.timers.late, events.timers.wakes);
        let work = Self { share, each, times: activity.blocks, late, wakes };
        (share >= SHARE && activity.blocks >= TIMES).then_some(work)
    }

    /// How long a tick is at most in the clock of the trace, which is no faster than the CPU's.
    fn is_late(self, tick: Option<i64>) -> bool {
        let is_woken_at_work = self.late >= TIMES && self.late >= self.wakes / 8;
        is_woken_at_work || tick.is_some_and(|tick| self.each > tick)
    }
}

/// The cycles of the CPU from one tick to the next.
fn tick(case: &Case<'_>) -> Option<i64> {
    let reload = Endian::Little.u32(&case.look.bytes(RELOAD, 4)?, 0)?;
    (reload != 0).then(|| i64::from(reload).saturating_add(1))
}

/// The timers that come most often, with their period in ticks of the kernel.
fn most_frequent<'k>(case: &Case<'k>) -> Vec<(&'k Object, u64)> {
    let objects = case.kernel.map(|kernel| kernel.objects.as_slice()).unwrap_or_default();
    let is_active = |object: &&Object| object.get("tx_timer_internal_list_head").is_some_and(|list| list != 0);
    let timers = objects.iter().filter(|object| object.kind == Kind::Timer).filter(is_active);
    let period = |timer: &Object| timer.get("tx_timer_internal_re_initialize_ticks").filter(|ticks| *ticks > 0);
    let mut all: Vec<(&Object, u64)> = timers.filter_map(|timer| Some((timer, period(timer)?))).collect();
    all.sort_by_key(|(_, period)| *period);
    all.truncate(NAMED);
    all
}

fn finding(events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let thread = thread(events, case)?;
    let work = Work::of(events, thread)?;
    let is_late = work.is_late(tick(case));
    let behind: Vec<Addr> =
        graph.tasks.list.iter().filter(|task| task.does == Does::Ready).map(|t| t.address).collect();
    let behind: Vec<Addr> = behind.into_iter().filter(|other| *other != thread).collect();
    let (mut confidence, mut detractors) = case.by_events();
    if !is_late {
        confidence = confidence.min(Confidence::Hint);
        detractors.push("a program may do most of its work in callbacks on purpose".to_owned());
    }
    let name = case.label(thread);
    let mut evidence = vec![shows(
        thread,
        format!("{name} worked {} times, for {} on average", work.times, trace_ticks(work.each, case)),
        graph,
    )];
    if work.late >= TIMES {
        let text = format!("{} of {} times the tick woke {name} while it was still at work", work.late, work.wakes);
        evidence.push(shows(thread, text, graph));
    }
    evidence.extend(most_frequent(case).iter().map(|(timer, period)| {
        let every = if *period == 1 { "every kernel tick".to_owned() } else { format!("every {period} kernel ticks") };
        Evidence::memory(timer.address, format!("timer {} comes {every}", timer.label()))
    }));
    evidence.extend(its_cpu(thread, case).and_then(|cpu| place::callers(functions(cpu), CALLERS)));
    let names: Vec<String> = behind.iter().take(NAMED).map(|other| case.label(*other)).collect();
    let kept = match names.len() {
        0 => String::new(),
        1 => format!(": {} is ready and does not run", names.join(", ")),
        _ => format!(": {} are ready and do not run", names.join(", ")),
    };
    let claim = format!(
        "callbacks of timers take {} % of the time: {name}{} runs{}{kept}",
        work.share,
        priority(thread, graph),
        which(thread, case)
    );
    Some(
        Finding::new(Code::Starvation, (confidence, detractors), claim)
            .evidence(evidence)
            .next(
                "make the callback shorter than the period of its timer, or have it wake a thread of low priority for \
the work",
            )
            .threads([thread])
            .affected(behind),
    )
}

/// Callbacks that took long without a break.
fn long_work(events: &Events, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let thread = thread(events, case)?;
    let (long, is_at_it) = events.timers.long_work()?;
    let name = case.label(thread);
    let its_functions = its_cpu(thread, case).map(functions).unwrap_or_default();
    let in_callback = if is_at_it { which_now(thread, case) } else { None };
    let takes = long.to.1.checked_sub(long.from.1)?;
    let ((first, _), (last, _), times) = (long.from, long.to, long.wakes);
    let late = overslept(long, events, case, graph).filter(|_| is_at_it);
    let (mut confidence, mut detractors) = case.by_events();
    if long.wakes < SURE || events.timers.long < 2 && in_callback.is_none() {
        confidence = confidence.min(Confidence::Hint);
    }
    detractors.push("a program may do long work in a callback on purpose".to_owned());
    let again = match events.timers.long {
        0 | 1 => String::new(),
        more => format!("; it worked for {LONG} kernel ticks or longer {more} times"),
    };
    let work = format!(
        "{name} works from here to event {last}, for {takes} ticks of the trace: the tick wakes it {times} times{again}"
    );
    let claim = format!(
        "callbacks of timers take long: {name}{} worked for about {times} kernel ticks without a break{}; no other thread ran meanwhile, and \
         no time-out of a thread ended{}",
        priority(thread, graph),
        in_callback.map_or_else(String::new, |at| format!(",{at}")),
        late.as_ref().map_or_else(String::new, |(words, _)| format!(": {words}"))
    );
    Some(
        Finding::new(Code::Starvation, (confidence, detractors), claim)
            .evidence([Evidence::event(first, work)])
            .evidence(late.map(|(_, evidence)| evidence))
            .evidence(place::callers(its_functions, CALLERS).filter(|_| is_at_it))
            .next("let the callback wake a thread of low priority for the work")
            .threads([thread]),
    )
}

/// A thread whose sleep should have ended while the callback ran, in words.
fn overslept(long: Stretch, events: &Events, case: &Case<'_>, graph: &Graph) -> Option<(String, Evidence)> {
    let sleeps = |task: &&Task| task.does == Does::Sleeps;
    let asked = |task: &Task| Some((task.address, events.sleeps.of(events.stored(task.address))?));
    let is_short = |(_, asked): &(Addr, Asked)| asked.seq < long.from.0 && asked.ticks < long.wakes;
    let all = graph.tasks.list.iter().filter(sleeps).filter_map(asked).filter(is_short);
    let (thread, asked) = all.max_by_key(|(_, asked)| asked.seq)?;
    let (name, ticks) = (case.label(thread), asked.ticks);
    let words = format!("{name} asked for a sleep of {ticks} kernel ticks before, and still sleeps");
    Some((words, Evidence::event(asked.seq, format!("{name} asks for a sleep of {ticks} kernel ticks"))))
}

/// The CPU that runs it.
fn its_cpu<'c>(thread: Addr, case: &Case<'c>) -> Option<&'c CpuState> {
    let mut cpus = case.cpus.into_iter().flat_map(|cpus| &cpus.all);
    cpus.find(|cpu| thread_of(cpu, case.kernel).is_some_and(|found| found.address == thread))
}

/// The functions that the thread of a CPU is in; none where that is not certain.
fn functions(cpu: &CpuState) -> &[Function] {
    if cpu.exception.is_none() {
        return &cpu.functions;
    }
    let certain = cpu.interrupted.as_ref().filter(|found| found.is_certain);
    let place = certain.and_then(|found| found.all.first()).filter(|place| place.within.is_none());
    place.map(|place| place.functions.as_slice()).unwrap_or_default()
}

/// ` in scan (keys.c:5), in the callback of timer debounce`: where it is.
fn which_now(thread: Addr, case: &Case<'_>) -> Option<String> {
    let cpu = its_cpu(thread, case)?;
    let callback = callback::of(functions(cpu), thread_of(cpu, case.kernel), case);
    let at = place::of(functions(cpu)).map_or_else(String::new, |at| format!(" in {at}"));
    (!callback.is_empty()).then(|| format!("{at}{callback}"))
}

/// The same; else the timer that comes most often.
fn which(thread: Addr, case: &Case<'_>) -> String {
    if let Some(now) = which_now(thread, case) {
        return now;
    }
    match most_frequent(case).first() {
        Some((timer, 1)) => format!(" that of timer {} every kernel tick, and others", timer.label()),
        Some((timer, period)) => format!(" that of timer {} every {period} kernel ticks, and others", timer.label()),
        None => " them".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::events::Activity;
    use super::*;

    fn work(ran: i64, blocks: u64) -> Option<Work> {
        Work::of(&Events::of_activity(0x100, Activity { ran, blocks, ..Activity::default() }, 100_000), 0x100)
    }

    #[test]
    fn callbacks_that_take_half_of_the_time_are_a_hint_and_late_ones_likely() {
        assert_eq!(work(49_000, 20), None, "less than half of it");
        assert_eq!(work(90_000, 7), None, "some long ones");
        let busy = work(80_000, 20).unwrap();
        assert_eq!((busy.share, busy.each), (80, 4000));
        assert!(!busy.is_late(None) && !busy.is_late(Some(5000)));
        assert!(busy.is_late(Some(2500)), "longer than a tick");
        assert!(Work { late: 9, wakes: 40, ..busy }.is_late(None));
        assert!(!Work { late: 9, wakes: 400, ..busy }.is_late(None), "now and then");
    }
}
