//! What the stamps show of the clock that made them: which way it counts, when it starts over, what a tick is worth.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of events, and stamps far below 2^64; ticks are added with saturation"
)]

use super::super::DecodeOptions;
use super::entry::Codec;
use super::prescan::{Mark, PreScan};
use super::steps::FEWEST;
use super::symbols::LINUX_TIME;
use crate::code::Code;
use crate::trace::{Clock, Counts, Direction, Issue, Known, Place};

/// Nanoseconds that start over each second: `clock_gettime().tv_nsec` on hosted ports.
pub(super) const SECOND_IN_NS: u64 = 1_000_000_000;
/// Ticks of the kernel in a second that projects choose.
const TICK_RATES: [u64; 3] = [10, 100, 1000];

/// So few events show little of the clock by their stamps alone.
const FEW: u64 = 8;

/// What the clock is.
pub(super) struct Found {
    pub clock: Clock,
    /// True where each core has a clock of its own.
    pub per_core: bool,
    /// What `info` says of its rate: label and sentence.
    pub rate: Option<(&'static str, String)>,
}

/// What is known of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// Nothing; most likely one to a processor.
    Any,
    /// The threads run on stacks of an operating system.
    Hosted,
    /// The program has what the port to Linux has.
    Linux,
}

/// Judges the clock. `core_clock` is the value of the target's `SystemCoreClock`.
pub(super) fn find(
    scan: &PreScan,
    codec: Codec,
    options: &DecodeOptions,
    (core_clock, port): (Option<u64>, Port),
    issues: &mut Vec<Issue>,
) -> Found {
    let runs = scan.steps.least != scan.steps.most || scan.events < 2;
    let (direction, direction_known, reason) = direction(scan, options, port);
    let counts = match scan.counts_events(direction) {
        _ if !runs => Counts::Nothing,
        Some(step) => Counts::Events(step),
        None => Counts::Time,
    };
    let (period, hz) = (options.period, options.hz);
    let mut clock = Clock { mask: codec.mask, direction, direction_known, period, hz, counts, doubts: 0, reason };
    let per_core = is_per_core(scan, direction);
    let (all, own) = scan.backward(direction);
    if period.is_none() && counts == Counts::Time {
        set_period(&mut clock, scan, if per_core { own } else { all }, port, issues);
    }
    report_doubts(scan, &clock, issues);
    if let Counts::Events(step) = counts {
        report_count(step, &mut clock, issues);
    }
    if per_core {
        issues.push(Issue::new(
            Code::ClockPerCore, format!("stamps of different cores do not follow each other ({all} steps back, {own} on the cores themselves): each core is timed by itself, and times of different cores cannot be compared"),
        ));
    }
    let mut rate = None;
    if counts == Counts::Time && clock.period.is_none() {
        if clock.hz.is_none() {
            rate = set_rate(&mut clock, scan, core_clock, issues);
        }
        if let Some(why) = stops_in_sleep(scan, codec) {
            clock.counts = Counts::AwakeTime;
            issues.push(Issue::new(Code::ClockSleeps, why));
        }
        lost_laps(scan, codec, issues);
    }
    Found { clock, per_core, rate }
}

/// Sets the period that stamps, stacks or the program show. The stamps step `backward` so many times.
fn set_period(clock: &mut Clock, scan: &PreScan, backward: u64, port: Port, issues: &mut Vec<Issue>) {
    let Some(period) = find_period(scan, clock.mask, clock.direction, backward, port) else {
        issues.extend(fall_of_few(scan, clock.mask, backward));
        return;
    };
    clock.period = Some(period.ticks());
    let why = match period {
        Period::Second => {
            clock.hz = clock.hz.or(Some(1e9));
            "no stamp reaches 10^9 and they start over there: nanoseconds that restart each second".to_owned()
        }
        // Not all hosted ports count nanoseconds (Windows counts at a rate of its own), so this gives no rate.
        Period::Hosted => "no stamp reaches 10^9 and the threads run on stacks that are not the kernel's: most likely a hosted port, whose clock is nanoseconds that restart each second (--hz 1G if so)".to_owned(),
        Period::Linux => format!(
            "no stamp reaches 10^9 and the program has {LINUX_TIME}: ThreadX's port to Linux, whose clock is nanoseconds that restart each second (--hz 1G if it has no other)",
        ),
        Period::Reload(ticks) => {
            issues.push(Issue::new(
                Code::PeriodInferred,
                format!("the clock starts over after about {ticks} ticks, as its stamps show (--period TICKS)"),
            ));
            format!(
                "it starts over {backward} times and no stamp is above {:#x}: a timer that reloads at about {ticks}",
                scan.steps.most
            )
        }
    };
    clock.reason.push_str("; ");
    clock.reason.push_str(&why);
}

/// So few events do not show where a clock starts over: the issue where one of them falls back by less than half its
/// mask, and so would be far behind the one before it.
fn fall_of_few(scan: &PreScan, mask: u64, backward: u64) -> Option<Issue> {
    let doubtful = backward > 0 && scan.events < FEWEST && scan.steps.longest()? > mask >> 1;
    doubtful.then(|| {
        let message = format!(
            "a stamp goes against the direction of the clock, and so few events do not show where it starts over: the mask, {mask:#x}, is used (read more events, or --period TICKS)"
        );
        Issue::new(Code::PeriodInferred, message)
    })
}

/// Private timers are right each for itself and jump back and forth between cores.
pub(super) fn is_per_core(scan: &PreScan, direction: Direction) -> bool {
    let (all, own) = scan.backward(direction);
    scan.cores.len() > 1 && all > own * 4 + 2
}

/// The period that the stamps show by themselves, where it is not the mask's.
pub(super) fn shown_period(scan: &PreScan, codec: Codec, direction: Direction) -> Option<u64> {
    let (_, own) = scan.backward(direction);
    Some(find_period(scan, codec.mask, direction, own, Port::Any)?.ticks())
}

fn direction(scan: &PreScan, options: &DecodeOptions, port: Port) -> (Direction, Known, String) {
    let votes = scan.own_votes();
    let (voted, decided) = votes.direction();
    match options.direction {
        Some(given) => (given, Known::Given, "given by --direction".to_owned()),
        // Few stamps, and a second begins between them: they go down as often as up.
        None if port == Port::Linux && scan.events <= FEW && scan.steps.most < SECOND_IN_NS => (
            Direction::Up,
            Known::Detected,
            format!("the program has {LINUX_TIME}: ThreadX's port to Linux, whose clock counts up"),
        ),
        None if decided => (
            voted,
            Known::Detected,
            format!("{} stamps are larger than the one before, {} are smaller", votes.up, votes.down),
        ),
        None => (Direction::Up, Known::Assumed, "too few stamps differ to show it; up is the usual".to_owned()),
    }
}

fn report_doubts(scan: &PreScan, clock: &Clock, issues: &mut Vec<Issue>) {
    if scan.events < 2 {
        return;
    }
    if !clock.runs() {
        let why = if scan.steps.most == 0 { "all time stamps are 0" } else { "all time stamps are equal" };
        issues.push(Issue::new(
            Code::ClockStopped, format!("{why}: the time source does not run, so no times are shown (Cortex-M: CYCCNT needs TRCENA in DEMCR, which a debugger sets and a product does not; ARMv8-A SMP and MISRA builds store a constant)"),
        ));
    } else if clock.direction_known == Known::Assumed {
        issues.push(Issue::new(
            Code::DirectionUnknown,
            "as many stamps go up as down, so the direction of the clock is not known: up is assumed (--direction down)",
        ));
    }
}

enum Period {
    /// Nanoseconds that restart each second, as the stamps show.
    Second,
    /// The same, but only the threads' stacks show it.
    Hosted,
    /// The same, but only the program shows it.
    Linux,
    /// Ticks of a timer that reloads.
    Reload(u64),
}

impl Period {
    const fn ticks(&self) -> u64 {
        match self {
            Self::Second | Self::Hosted | Self::Linux => SECOND_IN_NS,
            Self::Reload(ticks) => *ticks,
        }
    }
}

/// A period that is not the mask's.
fn find_period(scan: &PreScan, mask: u64, direction: Direction, backward: u64, port: Port) -> Option<Period> {
    let wide = mask >= u64::from(u32::MAX);
    let fits = wide && direction == Direction::Up && scan.steps.most < SECOND_IN_NS;
    if fits && scan.events > FEW {
        let full = scan.steps.most >= SECOND_IN_NS - (SECOND_IN_NS >> 3);
        if backward > 0 && full && scan.starts_over(direction) {
            return Some(Period::Second);
        }
        if port == Port::Hosted {
            return Some(Period::Hosted);
        }
    }
    if fits && port == Port::Linux {
        return Some(Period::Linux);
    }
    // A clock that fills its mask comes close to its end before it starts over, unless events are rarer than that.
    let reloads = backward >= 3 && scan.steps.most < mask >> 2 && scan.steps.most > 16 && scan.starts_over(direction);
    // Where pauses are long, few events come close to a second's end. No timer is known that reloads at as many ticks.
    if reloads && fits && scan.steps.most >= SECOND_IN_NS >> 1 {
        return Some(Period::Second);
    }
    reloads.then(|| Period::Reload(round_up(scan.steps.most + 1)))
}

/// The round number that a reload value most likely is: within half a percent above the largest stamp.
fn round_up(least: u64) -> u64 {
    let most = least + (least >> 8);
    let power = least.next_power_of_two();
    if power <= most {
        return power;
    }
    let units = std::iter::successors(Some(10u64), |unit| unit.checked_mul(10)).take_while(|unit| *unit <= least);
    let rounded = units.map(|unit| least.next_multiple_of(unit)).take_while(|rounded| *rounded <= most);
    rounded.last().unwrap_or(least)
}

/// Sets what a tick is worth: `SystemCoreClock`, but only where the SysTick interrupts in the trace confirm it. Gives what
/// `info` says of it.
fn set_rate(
    clock: &mut Clock,
    scan: &PreScan,
    core_clock: Option<u64>,
    issues: &mut Vec<Issue>,
) -> Option<(&'static str, String)> {
    let (idle, busy) = systick_periods(&scan.systicks);
    let usual = median(&busy).or_else(|| median(&idle));
    let rate = core_clock.filter(|rate| *rate > 0)?;
    let matches = |period: u64| {
        TICK_RATES.iter().map(|ticks| rate / ticks).any(|tick| tick > 0 && period.abs_diff(tick) <= tick / 50)
    };
    let fact = match usual {
        Some(period) if matches(period) => {
            #[allow(clippy::cast_precision_loss, reason = "no clock has 2^53 ticks in a second")]
            let hz = rate as f64;
            clock.hz = Some(hz);
            issues.push(Issue::new(
                Code::RateConfirmed,
                format!("times are by SystemCoreClock, {rate} Hz, which SysTick periods of {period} ticks confirm"),
            ));
            format!("{rate} Hz: SystemCoreClock, confirmed by SysTick periods of {period} ticks")
        }
        Some(period) => format!(
            "not known: SystemCoreClock says {rate} Hz, SysTick periods of {period} ticks do not confirm it (--hz SystemCoreClock)"
        ),
        None => format!(
            "not known: SystemCoreClock says {rate} Hz, and no SysTick interrupts in the trace confirm it (--hz SystemCoreClock)"
        ),
    };
    Some(("rate", fact))
}

/// Why the clock is taken to stop while the processor is idle: by the SysTick interrupts, or by what the kernel counted.
fn stops_in_sleep(scan: &PreScan, codec: Codec) -> Option<String> {
    let (idle, busy) = systick_periods(&scan.systicks);
    if let (Some(asleep), Some(awake)) = (median(&idle), median(&busy))
        && idle.len() >= 3
        && busy.len() >= 3
        && asleep < awake - awake / 10
    {
        return Some(format!(
            "SysTick periods have {awake} ticks while threads run and {asleep} while idle: the counter stops in sleep, so idle time is shorter here than it was"
        ));
    }
    // Old kernels do not store what an interrupt found, and several cores are not idle together.
    let shows_idle = scan.marks_threshold || scan.marks_interrupted;
    let verdict = scan.kernel_ticks.verdict(codec.mask).filter(|_| shows_idle && scan.cores.len() < 2)?;
    Some(format!(
        "sleeps and the kernel's tick count give {} ticks of the trace's clock for one of the kernel, and only {} where the processor was idle: the counter stops in sleep, so idle time is shorter here than it was",
        verdict.usual, verdict.short
    ))
}

/// A count of events has no rate, whatever was typed.
fn report_count(step: u64, clock: &mut Clock, issues: &mut Vec<Issue>) {
    clock.reason.push_str(&format!("; every step is {step}: a count of events, not a time"));
    let rate = if clock.hz.take().is_some() { "; --hz is not used" } else { "" };
    issues.push(Issue::new(
        Code::ClockCountsEvents, format!("the time stamps count events, as in ports without a time source of their own: each is {step} more than the one before, and no time is known{rate}"),
    ));
}

/// Ticks between SysTick interrupts: those that idle led up to, and the others.
fn systick_periods(marks: &[Mark]) -> (Vec<u64>, Vec<u64>) {
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for pair in marks.windows(2) {
        let [a, b] = pair else { continue };
        let period = b.elapsed.saturating_sub(a.elapsed);
        if b.value == 1 { idle.push(period) } else { busy.push(period) }
    }
    (idle, busy)
}

fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// A gap longer than the clock's period cannot be seen in the stamps, but the kernel's tick count may show it.
fn lost_laps(scan: &PreScan, codec: Codec, issues: &mut Vec<Issue>) {
    let (idle, mut periods) = systick_periods(&scan.systicks);
    periods.extend(idle);
    let Some(tick) = median(&periods).filter(|t| *t > 0) else { return };
    let (mut laps, mut place) = (0u64, None);
    for pair in scan.times.windows(2) {
        let [a, b] = pair else { continue };
        let Some(expected) = b.value.checked_sub(a.value).and_then(|t| t.checked_mul(tick)) else { continue };
        let seen = b.elapsed.saturating_sub(a.elapsed);
        if expected > seen.saturating_add(codec.mask >> 1) {
            laps += 1;
            place = place.or(Some(b.seq));
        }
    }
    if laps > 0 {
        issues.push(
            Issue::new(
                Code::GapLongerThanClock, "the kernel's tick count went further than the time stamps: a gap was longer than the clock's period, and its length is not known",
            )
            .times(laps)
            .at(Place { seq: place, ..Place::default() }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reload_values_are_round() {
        assert_eq!(round_up(249_871), 250_000);
        assert_eq!(round_up(999_200), 1_000_000);
        assert_eq!(round_up(16_777_000), 16_777_216);
        assert_eq!(round_up(65_500), 65_536);
        assert_eq!(round_up(167_990), 168_000);
        assert_eq!(round_up(17), 17);
    }
}
