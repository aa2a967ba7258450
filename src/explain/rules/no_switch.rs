//! The kernel wants to run a thread, and for long no thread runs: an interrupt comes again at once, or does not end, and
//! PendSV, which switches threads on a Cortex-M, is pending, or was interrupted before it had chosen the thread. Events go on
//! to come, of more urgent interrupts: those of the tick.
//!
//! What shows it: the thread became ready, and since then many events came, none of them of a thread; or the kernel's time
//! stands still in all of them while SysTick is pending. Where no thread is ready: the CPU is in an interrupt, and calls of
//! interrupts are all that the end of the trace has, equally far from each other; or, without a trace, see
//! [`unacknowledged`](super::unacknowledged).
//!
//! Against it: nothing that a system does on purpose. A switch waits for microseconds otherwise. Where the time stands still
//! for less than two ticks, it is a hint; so it is where no thread is ready, as an interrupt at a fixed rate in a system that
//! waits looks the same, halted within its handler by chance. Where all those calls get nothing, it is likely.
//!
//! Without registers it shows in the same way, and the code of the handlers may show which interrupt it is.
//!
//! The interrupts of a RISC-V come through one handler of traps: which one it is shows by the function in which the CPU is.

use super::super::cpus::thread_of;
use super::super::events::{Events, Giver, LONG, One};
use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::endless_handler::{self, CHANGED, DoesNotEnd};
use super::in_handler::{self, InHandler};
use super::interrupts::{self, FIRST, PENDSTSET, SYSTICK, Still};
use super::words::gives;
use super::{isr_storm, place, silence, unacknowledged, words};
use crate::abi::Addr;
use crate::cpu::{Architecture, Level};
use crate::kernel::{Kernel, Kind, Thread, Under};
use crate::session::CpuState;

/// So many events of interrupts alone are more than a few handlers in a row.
const FEWEST: u64 = 16;
/// So many periods of the tick have to be over.
const PERIODS: i64 = 2;
/// ICSR: PendSV is pending.
const PENDSVSET: u64 = 1 << 28;
/// Calls of interrupts in a row, where no thread is ready.
const ALONE: u64 = 64;
/// So many that get nothing are no chance.
const REFUSED: u64 = 256;
/// What speaks against the only interrupt of which there are events.
const UNSEEN: &str = "a handler below it that inserts no event may keep the CPU";
/// What is said of an interrupt of which it is not known which one it is.
const NOT_KNOWN: &str = "an interrupt comes again and again, or does not end";
/// What speaks against an interrupt that no register shows, and whose handler does not end.
const NOT_SEEN: &str = "that it is this interrupt is inferred from its code";
/// The functions of a backtrace that are named.
const CALLERS: usize = 6;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let found = case.cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| finding(cpu, case));
    found.chain(without_registers(case, graph)).collect()
}

/// The events of a trace in which those of threads would be seen.
fn events_of_all<'c>(case: &Case<'c>) -> Option<&'c Events> {
    let events = case.events.filter(|events| events.has_clock && events.cores <= 1);
    // Where events of threads are not inserted, that none comes shows nothing.
    events.filter(|_| silence::inserts_all(case) == Some(true))
}

/// The same where no register is known: no thread runs, and the one that is to run next has been ready for long.
fn without_registers(case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, events_of_all(case)?);
    let is_known = |cpu: &CpuState| cpu.registers.pc().is_some();
    if case.cpus.is_some_and(|cpus| cpus.all.iter().any(is_known)) || kernel.preempt_disable != Some(0) {
        return None;
    }
    // Events of the interrupt itself say which one it is.
    if !isr_storm::find(case, graph).is_empty() {
        return None;
    }
    let next = kernel.execute.first().and_then(|next| kernel.thread(*next))?;
    let ready = Ready::of(next, events).filter(|ready| kernel.current.first() == Some(&0) && ready.count >= ALONE)?;
    let Whose { code, name, more, against, evidence, next: acknowledge } = Whose::of(&ready, events, case);
    let (full, calls) = calls(events, case).unzip();
    // A handler that gives much at once lasts less than a tick.
    let period = events.sleeps.period().and_then(|period| period.checked_mul(PERIODS));
    // So many ticks found the thread of the timers ready and the next one to run.
    let is_kept = events.timers.kept.is_some_and(|kept| kept.again >= LONG);
    let is_sure = is_kept || ready.count >= REFUSED || period.is_some_and(|period| ready.lasts >= period);
    let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
    let claim = format!("{name}: {}{}{more}", ready.words(next, case), full.unwrap_or_default());
    Some(
        Finding::new(code, case.cap(claimed), claim)
            .against(against)
            .evidence([ready.shows(next)])
            .evidence(evidence)
            .evidence(calls)
            .next(format!("read the registers of the CPU (--reg): they say which interrupt it is; {acknowledge}"))
            .affected(kernel.threads.iter().map(|thread| thread.address)),
    )
}

/// Which interrupt keeps all threads back, where no register says it.
struct Whose {
    code: Code,
    /// `an interrupt comes again and again, or does not end`.
    name: String,
    /// `; it was in parse (reader.c:12)`, or empty.
    more: String,
    against: Vec<&'static str>,
    evidence: Vec<Evidence>,
    next: String,
}

impl Whose {
    fn of(ready: &Ready, events: &Events, case: &Case<'_>) -> Self {
        if let Some(seen) = Self::seen(ready, events, case) {
            return seen;
        }
        let left = InHandler::of(case);
        if let Some((within, end)) = left.as_ref().and_then(|left| Some((left, DoesNotEnd::of(left.number, case)?))) {
            return Self::looping(within, &end);
        }
        let alone = endless_handler::only(case).and_then(|(number, evidence)| {
            let name = interrupts::name(case, number);
            Some((InHandler { number, name, at: String::new(), evidence }, DoesNotEnd::of(number, case)?))
        });
        match (alone, left) {
            (Some((within, end)), _) => Self::perhaps_looping(&within, &end),
            (None, Some(within)) => Self::perhaps(within, case),
            (None, None) => Self::by_code(case),
        }
    }

    /// All interrupts that have begun since the thread is ready are of one number, and are many.
    fn seen(ready: &Ready, events: &Events, case: &Case<'_>) -> Option<Self> {
        let mut all = events.interrupts.by_number.iter().filter(|(_, one)| one.last() > ready.seq);
        let ((number, one), None) = (all.next()?, all.next()) else { return None };
        // Each has two events.
        let is_all = one.wakes_nobody() && one.begun >= ALONE && ready.count / 4 <= one.begun;
        let name = case.interrupt(Some(*number));
        let path = unacknowledged::path(case.added_to_interrupts()?.saturating_add(*number), false, case);
        let why = path.as_ref().map_or_else(String::new, |path| format!("; {}", path.words));
        let text = format!("{name} began {} times, the last time here, and no other interrupt did since", one.begun);
        is_all.then(|| Self {
            code: Code::IsrStorm,
            name: format!("{name} comes again and again"),
            more: why,
            against: path.iter().filter_map(|path| path.against).chain([UNSEEN]).collect(),
            evidence: std::iter::once(Evidence::event(one.last(), text))
                .chain(path.into_iter().flat_map(|path| path.evidence))
                .collect(),
            next: words::acknowledge(&name),
        })
    }

    /// Its handler does not end with memory as it is, and what an exception left says that the CPU was in it.
    fn looping(within: &InHandler, end: &DoesNotEnd) -> Self {
        let InHandler { name, at, evidence, .. } = within;
        let why = if end.is_certain { "does not end" } else { "does not end, or comes again and again" };
        let was = if at.is_empty() { String::new() } else { format!("; it was{at}") };
        Self {
            code: Code::IsrNeverEnds,
            name: format!("{name} {why}"),
            more: format!("{was}; with memory as it is, it loops{}", end.at),
            against: vec![in_handler::AGAINST, CHANGED],
            evidence: vec![evidence.clone()],
            next: format!("look at the loop{}, and at who changes what it reads", end.at),
        }
    }

    /// It is the only one whose handler does not end with memory as it is: nothing shows that the CPU is in it.
    fn perhaps_looping(within: &InHandler, end: &DoesNotEnd) -> Self {
        Self {
            code: Code::IsrNeverEnds,
            name: "an interrupt does not end, or comes again and again".to_owned(),
            more: format!("; perhaps {}: with memory as it is, its handler loops{}", within.name, end.at),
            against: vec![NOT_SEEN, CHANGED],
            evidence: vec![within.evidence.clone()],
            next: format!("look at the loop{}, and at who changes what it reads", end.at),
        }
    }

    /// What an exception left may be older.
    fn perhaps(within: InHandler, case: &Case<'_>) -> Self {
        let InHandler { number, name, at, evidence } = within;
        let path = unacknowledged::path(number, false, case);
        let why = path.as_ref().map_or_else(String::new, |path| format!(": {}", path.words));
        Self {
            code: Code::IsrStorm,
            name: NOT_KNOWN.to_owned(),
            more: format!("; perhaps {name}, which was interrupted{at}{why}"),
            against: path.iter().filter_map(|path| path.against).chain([in_handler::AGAINST]).collect(),
            evidence: std::iter::once(evidence).chain(path.into_iter().flat_map(|path| path.evidence)).collect(),
            next: words::acknowledge(&format!("it, if it is {name}")),
        }
    }

    /// The only one in whose handler a device may stay without an acknowledgement may be it.
    fn by_code(case: &Case<'_>) -> Self {
        let handlers = case.look.handlers().into_iter().map(|(number, _)| u64::from(number));
        let paths: Vec<(u64, Kept)> =
            handlers.filter_map(|number| Some((number, unacknowledged::path(number, false, case)?))).collect();
        let path = match <[_; 1]>::try_from(paths) {
            Ok([(number, path)]) => Some((interrupts::name(case, number), path)),
            Err(_) => None,
        };
        let which =
            path.as_ref().map_or_else(|| "this interrupt".to_owned(), |(name, _)| format!("it, if it is {name}"));
        let more = path.as_ref().map_or_else(String::new, |(name, path)| format!("; it may be {name}: {}", path.words));
        let against = path.iter().filter_map(|(_, path)| path.against);
        Self {
            code: Code::IsrStorm,
            name: NOT_KNOWN.to_owned(),
            more,
            against: std::iter::once("no register says in which interrupt the CPU is").chain(against).collect(),
            evidence: path.into_iter().flat_map(|(_, path)| path.evidence).collect(),
            next: words::acknowledge(&which),
        }
    }
}

/// Since when a thread is ready, where all events since then are of interrupts.
struct Ready {
    seq: u64,
    lasts: i64,
    count: u64,
}

impl Ready {
    fn of(next: &Thread, events: &Events) -> Option<Self> {
        // What shows no change of its state was ready before the first event.
        let oldest = (events.span.0, events.newest.saturating_add(1).saturating_sub(events.count));
        let since = events.activity(next.address).filter(|next| !next.was_ready).and_then(|next| next.since);
        let (since, seq) = since.unwrap_or(oldest);
        let none_ran = events.last_of_threads.is_none_or(|last| last < seq);
        let count = events.newest.saturating_sub(seq);
        let lasts = events.span.1.saturating_sub(since);
        (none_ran && count >= FEWEST).then_some(Self { seq, lasts, count })
    }

    /// `thread rx is ready, and no thread has run for 12000 ticks of the trace`.
    fn words(&self, next: &Thread, case: &Case<'_>) -> String {
        let lasts = words::trace_ticks(self.lasts, case);
        format!("thread {} is ready, and no thread has run for {lasts}", next.label())
    }

    fn shows(&self, next: &Thread) -> Evidence {
        let text = format!("{} is ready here; {} events follow, all of them of interrupts", next.label(), self.count);
        Evidence::event(self.seq, text)
    }
}

fn finding(cpu: &CpuState, case: &Case<'_>) -> Option<Finding> {
    let (kernel, events) = (case.kernel?, events_of_all(case));
    // A handler that is an endless loop is another rule.
    let (number, within) = match cpu.registers.level() {
        _ if cpu.in_loop.is_some() => return None,
        // The tick came upon it.
        Level::Exception(number) if u64::from(number) == SYSTICK => {
            let within =
                InHandler::of(case).filter(|_| cpu.interrupted.as_ref().is_some_and(|found| found.is_certain))?;
            (within.number, Some(within))
        }
        Level::Exception(number) => (Some(u64::from(number)).filter(|number| *number >= FIRST)?, None),
        _ => return of_riscv(cpu, kernel, events?, case),
    };
    let by_events = |events| {
        thread_waits(cpu, kernel, events, case)
            .or_else(|| time_stands_still(cpu, case))
            .or_else(|| calls_alone(cpu, number, events, case))
    };
    let sure = || events.and_then(|events| next_waits(cpu, kernel, events, case));
    let by_code = || unacknowledged::kept(cpu, number, case).map(|kept| kept.with(sure()));
    let of_events = events.and_then(by_events);
    let is_by_events = of_events.is_some();
    let kept = of_events.or_else(by_code)?;
    let name = cpu.exception.clone().filter(|_| within.is_none());
    let name = name.unwrap_or_else(|| interrupts::name(case, number));
    let pc = cpu.registers.pc()? & !1;
    let begins = case.look.function(pc).filter(|function| function.address & !1 == pc && within.is_none());
    let is_again = interrupts::is_pending(cpu, number) == Some(true);
    let polling = cpu.polling.as_ref().filter(|_| within.is_none());
    let endless = DoesNotEnd::of(number, case);
    let (code, why) = match (&begins, is_again, polling) {
        (Some(_), ..) => (Code::IsrStorm, "comes again and again"),
        _ if endless.as_ref().is_some_and(|end| end.is_certain) => (Code::IsrNeverEnds, "does not end"),
        _ if endless.is_some() => (Code::IsrNeverEnds, "does not end, or comes again and again"),
        // Its device may ask again while the handler does not end.
        (_, true, _) => (Code::IsrStorm, "comes again and again, or does not end"),
        (.., Some(_)) => (Code::IsrNeverEnds, "does not end, or comes again and again"),
        _ => (Code::IsrStorm, "comes again and again, or does not end"),
    };
    let (full, calls) = events.and_then(|events| calls(events, case)).unzip();
    let mut claim = format!("{name} {why}: {}{}", kept.words, full.unwrap_or_default());
    // Events show that it comes again and again, its code may show why.
    let path = if is_by_events { unacknowledged::path(number, true, case) } else { None };
    if let Some(path) = &path {
        claim.push_str("; ");
        claim.push_str(&path.words);
    }
    if let Some(end) = &endless {
        claim.push_str("; with memory as it is, it loops");
        claim.push_str(&end.at);
    }
    let is_endless = endless.is_some();
    let acknowledge = || format!("{}; wait for nothing in the handler", words::acknowledge(&name));
    let next =
        endless.map_or_else(acknowledge, |end| format!("look at the loop{}, and at who changes what it reads", end.at));
    Some(
        Finding::new(code, case.cap_of_registers(kept.confidence), claim)
            .against(kept.against)
            .against(is_endless.then_some(CHANGED))
            .evidence(kept.evidence)
            .against(path.as_ref().and_then(|path| path.against))
            .evidence(path.into_iter().flat_map(|path| path.evidence))
            .evidence(calls)
            .evidence(
                begins.map(|_| Evidence::register("pc", pc, format!("the first instruction of the handler of {name}"))),
            )
            .evidence(within.map(|within| within.evidence))
            .evidence(place::callers(&cpu.functions, CALLERS))
            .next(next)
            .affected(kernel.threads.iter().map(|thread| thread.address)),
    )
}

/// The same of a RISC-V in its handler of traps, above the scheduler.
fn of_riscv(cpu: &CpuState, kernel: &Kernel, events: &Events, case: &Case<'_>) -> Option<Finding> {
    let is_riscv = matches!(cpu.registers.architecture(), Architecture::Riscv32 | Architecture::Riscv64);
    let at = place::of(&cpu.functions).filter(|_| is_riscv && cpu.exception.is_some())?;
    let is_fault = cpu.registers.get("mcause").is_some() && cpu.registers.fault().is_some();
    let kept = thread_waits(cpu, kernel, events, case).filter(|_| !is_fault)?;
    let (full, calls) = calls(events, case).unzip();
    let claim = format!("an interrupt comes again and again, or does not end: {}", kept.words);
    let code = if cpu.polling.is_some() { Code::IsrNeverEnds } else { Code::IsrStorm };
    Some(
        Finding::new(
            code,
            case.cap_of_registers(kept.confidence),
            format!("{claim}; the CPU is in {at}{}", full.unwrap_or_default()),
        )
        .against(["the CPU may be in the handler of another interrupt at this moment"])
        .evidence(kept.evidence)
        .evidence(calls)
        .evidence(place::callers(&cpu.functions, CALLERS))
        .next(format!("{}; wait for nothing in the handler", words::acknowledge("this interrupt")))
        .affected(kernel.threads.iter().map(|thread| thread.address)),
    )
}

/// What interrupts give most often in the trace.
fn calls(events: &Events, case: &Case<'_>) -> Option<(String, Evidence)> {
    let given = |(object, one): (Addr, &One)| {
        let by_interrupts = one.givers.iter().filter(|(by, _)| matches!(by, Giver::Interrupt(_)));
        let (_, most) = by_interrupts.max_by_key(|(_, given)| given.times)?;
        Some((most.times, most.seq, object))
    };
    let (times, seq, stored) = events.objects().filter_map(given).max().filter(|(times, ..)| *times >= FEWEST)?;
    let object = case.kernel?.objects.iter().find(|object| events.is(object.address, stored))?;
    let is_full = object.kind == Kind::Queue && object.get("available_storage") == Some(0);
    let refused = if is_full { ", which is full and refuses them" } else { "" };
    let (does, label) = (gives(object.kind), case.object(object.address));
    let text = format!("interrupts {does} {label}{refused}: {times} of {} events are such calls", events.count);
    let words = if is_full { format!("; interrupts {does} {label}{refused}") } else { String::new() };
    Some((words, Evidence::event(seq, text)))
}

/// What an interrupt keeps back, for how long, and what shows it.
pub(super) struct Kept {
    pub confidence: Confidence,
    pub against: Option<&'static str>,
    pub words: String,
    pub evidence: Vec<Evidence>,
}

impl Kept {
    /// The same with a second sign.
    fn with(mut self, sign: Option<Evidence>) -> Self {
        if let Some(sign) = sign {
            self.confidence = Confidence::Likely;
            self.evidence.push(sign);
        }
        self
    }
}

/// A thread is ready that would preempt the one that was interrupted, and calls of interrupts are all that the end of the trace has.
pub(super) fn next_waits(cpu: &CpuState, kernel: &Kernel, events: &Events, case: &Case<'_>) -> Option<Evidence> {
    let in_interrupt = matches!(cpu.registers.level(), Level::Exception(number) if u64::from(number) >= FIRST);
    let next = kernel.execute.get(cpu.core).copied().and_then(|next| kernel.thread(next)).filter(|_| in_interrupt)?;
    let current = thread_of(cpu, case.kernel).filter(|current| current.address != next.address)?;
    let preempts = next.priority? < current.threshold.or(current.priority)?;
    let alone = events.interrupts.alone;
    let text = format!(
        "from here on all {} calls are of interrupts; {}, which would preempt {}, is ready and does not run",
        alone.times,
        next.label(),
        current.label()
    );
    let may_switch = kernel.preempt_disable == Some(0);
    (preempts && may_switch && alone.times >= ALONE).then(|| Evidence::event(alone.first, text))
}

/// The kernel's next thread is ready, and no thread runs.
fn thread_waits(cpu: &CpuState, kernel: &Kernel, events: &Events, case: &Case<'_>) -> Option<Kept> {
    let pends = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSVSET != 0);
    let next = kernel.execute.get(cpu.core).copied().and_then(|next| kernel.thread(next))?;
    let is_other = match thread_of(cpu, case.kernel) {
        Some(thread) => pends.is_some() && thread.address != next.address,
        None => matches!(cpu.under, Some(Under::Scheduler(_))),
    };
    let ready = Ready::of(next, events).filter(|_| is_other)?;
    let pends =
        pends.map(|icsr| Evidence::register("icsr", icsr, "PendSV, which switches threads, is pending".to_owned()));
    Some(Kept {
        confidence: Confidence::Likely,
        against: None,
        words: ready.words(next, case),
        evidence: std::iter::once(ready.shows(next)).chain(pends).collect(),
    })
}

/// No thread is ready, and one interrupt, in which the CPU is, has called the kernel again and again, each time after the same
/// time.
fn calls_alone(cpu: &CpuState, number: u64, events: &Events, case: &Case<'_>) -> Option<Kept> {
    let (alone, kernel) = (events.interrupts.alone, case.kernel?);
    let is_idle = cpu.under == Some(Under::Idle) && kernel.execute.get(cpu.core) == Some(&0);
    let apart = alone.steady().filter(|_| alone.times >= ALONE && is_idle)?;
    let refused = events.objects().find_map(|(object, one)| {
        let added = case.added_to_interrupts();
        let is_own =
            |of: &Option<u64>| of.is_none_or(|of| added.is_some_and(|added| of.saturating_add(added) == number));
        let all = one.pool.refused_interrupts.iter().filter(|(of, one)| is_own(of) && one.last >= alone.first);
        let times = all.map(|(_, one)| one.times.min(alone.times)).max()?;
        Some((object, times)).filter(|_| times >= REFUSED && times >= alone.times / 2)
    });
    let pool = refused.and_then(|(stored, _)| kernel.objects.iter().find(|object| events.is(object.address, stored)));
    let asks = pool
        .map_or_else(String::new, |pool| format!("; it asks {} for memory and gets none", case.object(pool.address)));
    let text = format!(
        "from here on all {} calls are of interrupts, {} apart, and none is of a thread",
        alone.times,
        words::trace_ticks(apart, case)
    );
    Some(Kept {
        confidence: if pool.is_some() { Confidence::Likely } else { Confidence::Hint },
        against: Some(
            "an interrupt at a fixed rate looks the same, where the CPU was halted in its handler by chance or by a breakpoint",
        ),
        words: format!("the last {} calls in the trace are of interrupts{asks}", alone.times),
        evidence: vec![Evidence::event(alone.first, text)],
    })
}

/// The tick is pending, and the calls of the interrupt read the same time of the kernel for several ticks.
fn time_stands_still(cpu: &CpuState, case: &Case<'_>) -> Option<Kept> {
    let icsr = cpu.registers.get("icsr").filter(|icsr| icsr & PENDSTSET != 0)?;
    let still = interrupts::still(case).filter(Still::may_be_over)?;
    let none_ran = case.events?.last_of_threads.is_none_or(|last| last < still.clock.from.0);
    let is_sure = still.is_over(PERIODS);
    none_ran.then(|| Kept {
        confidence: if is_sure { Confidence::Likely } else { Confidence::Hint },
        against: (!is_sure).then_some("a burst of interrupts that lasts a little longer than a tick looks the same"),
        words: format!("the kernel has counted no tick for {}, and no thread has run", still.lasts()),
        evidence: vec![still.shows(), Evidence::register("icsr", icsr, "SysTick is pending".to_owned())],
    })
}
