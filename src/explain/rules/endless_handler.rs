//! A handler of the program that, with memory as it is, does not come to an end. It is carried out up to a limit, and loops in its own
//! code without access to a device, while the registers and the stack are the same in each round, or it follows a list that leads back to
//! itself: a length in what it parses is 0, or an element was added twice. Where registers are known, it is the handler in which the CPU
//! is; in a dump without them any, for a hint.
//!
//! Against it: it may have been stopped in the middle of its work; another interrupt or a device may change what it reads, as where it waits
//! for a flag; and a variable that it writes may end the loop. So it is likely only where the CPU is in it, it writes nothing and follows a
//! list that is a circle.

use std::collections::BTreeMap;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, FIRST};
use super::isr_stuck::has_own_handler;
use super::rounds::{self, word};
use super::words::function_at;
use super::writers;
use crate::abi::Addr;
use crate::cpu::{Endless, Level, is_device, is_of_core, run};
use crate::session::is_of_kernel;

/// The most instructions of a loop, and the most of its lines that are shown.
const LOOP: usize = 256;
const LINES: usize = 8;
/// The most handlers of a program that are carried out.
const HANDLERS: usize = 64;
/// The most variables of a loop that are named.
const VARIABLES: usize = 4;
/// The most addresses that a loop accesses which does not get on.
const PLACES: usize = 32;
/// What speaks against it where the CPU is in it, and where that is not known.
const STOPPED: &str = "it may have been stopped in the middle of its work";
const NOT_IN_IT: &str = "it may have been stopped in the middle of its work, and whether the CPU is in it is not known";
/// What speaks against a loop that only its own code would end.
pub(super) const CHANGED: &str = "another interrupt or a device may change what the loop reads";
/// Bytes from the beginning of an element of a list to its pointer to the next one.
const ELEMENT: u64 = 256;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    if case.kernel.is_none_or(|kernel| kernel.start_up.is_some()) || case.trust.was_running {
        return Vec::new();
    }
    let known = case.cpus.into_iter().flat_map(|cpus| &cpus.all).find(|cpu| cpu.registers.pc().is_some());
    let Some(cpu) = known else { return all(case).iter().map(|one| one.finding(false, case)).collect() };
    // What repeats from the registers on is another rule, and a loop without an exit.
    if cpu.in_loop.is_some() || !rounds::find(case, graph).is_empty() {
        return Vec::new();
    }
    let Level::Exception(number) = cpu.registers.level() else { return Vec::new() };
    Looping::with_number(number.into(), case).iter().map(|one| one.finding(true, case)).collect()
}

/// Those of a dump.
fn all(case: &Case<'_>) -> Vec<Looping> {
    // Over a link each word that is read takes time.
    if !case.look.is_stored() || case.trust.was_running {
        return Vec::new();
    }
    let numbers = case.look.handlers().into_iter().map(|(number, _)| u64::from(number));
    numbers.take(HANDLERS).filter_map(|number| Looping::with_number(number, case)).collect()
}

/// The only interrupt whose handler does not end, with what shows it.
pub(super) fn only(case: &Case<'_>) -> Option<(u64, Evidence)> {
    let [one] = <[Looping; 1]>::try_from(all(case)).ok()?;
    let text = format!("simulated from its beginning, it has not ended after {} instructions", one.steps);
    Some((one.number, Evidence::symbol(one.handler & !1, &function_at(one.handler, case), text)))
}

/// That the handler of an interrupt does not end with memory as it is.
pub(super) struct DoesNotEnd {
    /// Where it loops: ` in parse (reader.c:30)`.
    pub at: String,
    /// True where it writes nothing either: nothing that it does itself ends it.
    pub is_certain: bool,
}

impl DoesNotEnd {
    pub fn of(number: u64, case: &Case<'_>) -> Option<Self> {
        let looping = Looping::with_number(number, case).filter(|_| !case.trust.was_running)?;
        Some(Self { at: looping.lines(case), is_certain: looping.endless.repeats && !looping.endless.writes })
    }
}

/// Such a handler.
struct Looping {
    number: u64,
    handler: Addr,
    /// The instructions that were carried out.
    steps: usize,
    endless: Endless,
}

impl Looping {
    fn with_number(number: u64, case: &Case<'_>) -> Option<Self> {
        let own = Some(number).filter(|number| *number >= FIRST && has_own_handler(*number, case))?;
        let (_, handler) = case.look.handlers().into_iter().find(|(of, _)| u64::from(*of) == own)?;
        let is_kernel = |at: Addr| case.look.function(at).is_some_and(|function| is_of_kernel(&function.name));
        let run = run(handler, u32::try_from(number).ok()?, &|at| word(at, case), &is_kernel)?;
        let endless = run.endless?;
        let is_of_memory = !endless.accessed.iter().any(|at| is_device(*at) && !is_of_core(*at));
        // A loop that gets on comes to other addresses.
        let is_on_the_spot = (1..=PLACES).contains(&endless.accessed.len());
        // One instruction that branches to itself is there on purpose.
        let is_loop = is_of_memory && is_on_the_spot && (2..=LOOP).contains(&endless.code.len());
        let looping = Self { number, handler, steps: run.steps, endless };
        // A counter in a register may end it; hardly over a list that is a circle.
        let is_endless = is_loop && (looping.endless.repeats || looping.circle(case).is_some());
        is_endless.then_some(looping)
    }

    /// `is_in`: the CPU is in it.
    fn finding(&self, is_in: bool, case: &Case<'_>) -> Finding {
        let name = interrupts::name(case, self.number);
        let lines = self.lines(case);
        let circle = self.circle(case);
        let writes = self.endless.writes;
        let is_sure = is_in && !writes && self.endless.repeats && circle.is_some();
        let claimed = if is_sure { Confidence::Likely } else { Confidence::Hint };
        let leads = circle.as_ref().map_or_else(String::new, |(words, _)| format!("; {words}"));
        let text = format!(
            "simulated from its beginning, it has not ended after {} instructions, and loops{lines}",
            self.steps
        );
        Finding::new(
            Code::IsrNeverEnds,
            case.cap(claimed),
            format!("with memory as it is, the handler of {name} does not end: it loops{lines}{leads}"),
        )
        .against([if is_in { STOPPED } else { NOT_IN_IT }])
        .against([CHANGED])
        .against(writes.then_some("a variable that the loop writes may end it"))
        .against((!self.endless.repeats).then_some("the loop counts, and may end at a number"))
        .evidence([Evidence::symbol(self.handler & !1, &function_at(self.handler, case), text)])
        .evidence(circle.map(|(_, evidence)| evidence))
        .evidence(self.reads(case))
        .next(match &lines {
            lines if lines.is_empty() => format!("look at the loop of {name}, and at what it reads"),
            lines => format!("look at the loop{lines}, and at who changes what it reads"),
        })
    }

    /// ` in TIM0_Handler (track.c:30, 31)`.
    fn lines(&self, case: &Case<'_>) -> String {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for at in &self.endless.code {
            let Some(line) = case.look.line(*at).filter(|_| !case.trust.other_build) else { continue };
            let (file, number) = line.rsplit_once(':').unwrap_or((&line, ""));
            let numbers = all.entry(file.to_owned()).or_default();
            if !numbers.iter().any(|known| known == number) {
                numbers.push(number.to_owned());
            }
        }
        let named = |(file, mut numbers): (String, Vec<String>)| {
            numbers.sort_by_key(|number| number.parse::<u32>().unwrap_or(u32::MAX));
            numbers.truncate(LINES);
            format!("{file}:{}", numbers.join(", "))
        };
        let function = self.endless.code.first().map(|at| function_at(*at, case)).unwrap_or_default();
        let all: Vec<String> = all.into_iter().map(named).collect();
        if all.is_empty() { format!(" in {function}") } else { format!(" in {function} ({})", all.join("; ")) }
    }

    /// The variables that the loop reads or writes.
    fn reads(&self, case: &Case<'_>) -> Vec<Evidence> {
        let in_ram = self.endless.accessed.iter().filter(|at| writers::is_in_ram(**at));
        let named = in_ram.filter_map(|at| {
            let held = case.look.holds(*at, word(*at & !3, case)?)?;
            Some(Evidence::memory(*at, format!("{held}: the loop uses it")))
        });
        named.take(VARIABLES).collect()
    }

    /// The pointer that leads to the element of a list in which it is itself: the only one of those that the loop reads that leads to
    /// another word that it reads. In a ring several do.
    fn circle(&self, case: &Case<'_>) -> Option<(String, Evidence)> {
        let accessed = &self.endless.accessed;
        let leads = |at: &Addr| {
            let to = Addr::from(word(*at & !3, case)?);
            let is_read = || accessed.range(to..to.saturating_add(ELEMENT)).next().is_some();
            (writers::is_in_ram(to) && to & 3 == 0 && is_read()).then_some((*at & !3, to))
        };
        let mut pointers = accessed.iter().filter(|at| **at & 3 == 0).filter_map(leads);
        let ((at, to), None) = (pointers.next()?, pointers.next()) else { return None };
        let size = at.checked_sub(to).filter(|size| *size < ELEMENT)?;
        // All that it reads is in this element, but for what begins the list.
        let inside = accessed.range(to..to.saturating_add(ELEMENT)).count();
        if size > 0 && inside < 2 {
            return None;
        }
        let name = case.look.place(at).map_or_else(|| format!("{at:#x}"), |name| format!("{name} ({at:#x})"));
        let words = format!("the list that it follows is a circle: {name} points to its own element");
        Some((words, Evidence::memory(at, format!("{name}: it points to its own element")).holds(to)))
    }
}
