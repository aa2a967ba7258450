//! A handler of the program that, with memory as it is, does not come to an end. It is carried out up to a limit, and goes round in its
//! own code without access to a device: a list leads back to itself, or a length in what it parses is 0. Where registers are known, it is
//! the handler in which the CPU is; in a dump of the RAM any.
//!
//! Against it: it may have been stopped in the middle of its work, or the loop may count up to a limit that is far away. So it is a hint
//! where the loop writes to memory, and where more than one handler does so.

use std::collections::BTreeMap;

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::interrupts::{self, FIRST};
use super::isr_stuck::has_own_handler;
use super::rounds::{self, word};
use super::words::function_at;
use super::writers;
use crate::abi::Addr;
use crate::cpu::{Level, Run, is_device, is_of_core, run};
use crate::session::is_of_kernel;

/// So many instructions at the end of the run have to be of the loop.
const LAST: usize = 1024;
/// The most instructions of a loop, and the most of its lines that are shown.
const LOOP: usize = 256;
const LINES: usize = 8;
/// The most variables of a loop that are named.
const VARIABLES: usize = 4;
/// The most addresses that a loop accesses which does not get on.
const PLACES: usize = 32;
/// Bytes from the beginning of an element of a list to its pointer to the next one.
const ELEMENT: u64 = 256;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    if case.kernel.is_none_or(|kernel| kernel.start_up.is_some()) || case.trust.was_running {
        return Vec::new();
    }
    let known = case.cpus.into_iter().flat_map(|cpus| &cpus.all).find(|cpu| cpu.registers.pc().is_some());
    // What repeats from the registers on is another rule, and a loop without an exit.
    if known.is_some() && !rounds::find(case, graph).is_empty() {
        return Vec::new();
    }
    let is_in = |number: u64| {
        known.is_none_or(|cpu| {
            cpu.in_loop.is_none() && matches!(cpu.registers.level(), Level::Exception(of) if u64::from(of) == number)
        })
    };
    let all: Vec<Endless> = all(case).into_iter().filter(|one| is_in(one.number)).collect();
    let is_only = all.len() == 1;
    all.into_iter().map(|one| one.finding(is_only, case)).collect()
}

/// Those of the program.
fn all(case: &Case<'_>) -> Vec<Endless> {
    let handlers = case.look.handlers().into_iter().map(|(number, at)| (u64::from(number), at));
    let own = handlers.filter(|(number, _)| *number >= FIRST && has_own_handler(*number, case));
    own.filter_map(|(number, at)| Endless::of(number, at, case)).collect()
}

/// The only interrupt whose handler does not end, with what shows it.
pub(super) fn only(case: &Case<'_>) -> Option<(u64, Evidence)> {
    let [one] = <[Endless; 1]>::try_from(all(case)).ok().filter(|_| !case.trust.was_running)?;
    let text = format!("simulated from its beginning, it has not ended after {} instructions", one.run.steps);
    Some((one.number, Evidence::symbol(one.handler & !1, &function_at(one.handler, case), text)))
}

/// Where the handler of an interrupt goes round without an end, with memory as it is: ` in parse (reader.c:30)`.
pub(super) fn goes_round(number: u64, case: &Case<'_>) -> Option<String> {
    let (_, handler) = case.look.handlers().into_iter().find(|(of, _)| u64::from(*of) == number)?;
    let endless = Endless::of(number, handler, case).filter(|_| !case.trust.was_running)?;
    Some(endless.lines(case))
}

/// Such a handler.
struct Endless {
    number: u64,
    handler: Addr,
    run: Run,
    /// The instructions of the loop, from its lowest address on.
    code: Vec<Addr>,
}

impl Endless {
    fn of(number: u64, handler: Addr, case: &Case<'_>) -> Option<Self> {
        let is_kernel = |at: Addr| case.look.function(at).is_some_and(|function| is_of_kernel(&function.name));
        let run = run(handler, u32::try_from(number).ok()?, &|at| word(at, case), &is_kernel)?;
        let last = run.own.get(run.own.len().checked_sub(LAST)?..)?;
        let mut code: Vec<Addr> = last.to_vec();
        code.sort_unstable();
        code.dedup();
        let is_of_memory = !run.accessed_last.iter().any(|at| is_device(*at) && !is_of_core(*at));
        // A loop that gets on comes to other addresses, and one that counts in registers to none.
        let is_on_the_spot = (1..=PLACES).contains(&run.accessed_last.len());
        let is_loop = !run.ends && is_of_memory && is_on_the_spot && code.len() <= LOOP;
        // One instruction that branches to itself is there on purpose.
        (is_loop && code.len() > 1).then_some(Self { number, handler, run, code })
    }

    fn finding(self, is_only: bool, case: &Case<'_>) -> Finding {
        let name = interrupts::name(case, self.number);
        let lines = self.lines(case);
        let circle = self.circle(case);
        let writes = self.writes();
        let claimed = if is_only && !writes && circle.is_some() { Confidence::Likely } else { Confidence::Hint };
        let leads = circle.as_ref().map_or_else(String::new, |(words, _)| format!("; {words}"));
        let text = format!(
            "simulated from its beginning, it has not ended after {} instructions, and goes round{lines}",
            self.run.steps
        );
        Finding::new(
            Code::IsrNeverEnds,
            case.cap(claimed),
            format!("with memory as it is, the handler of {name} does not end: it goes round{lines}{leads}"),
        )
        .against(["it may have been stopped in the middle of its work, and that it came since is not known"])
        .against((!is_only).then_some("other handlers do so, too"))
        .against(writes.then_some("the loop writes to memory, and may count up to a limit that is far away"))
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
        for at in &self.code {
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
        let function = self.code.first().map(|at| function_at(*at, case)).unwrap_or_default();
        let all: Vec<String> = all.into_iter().map(named).collect();
        if all.is_empty() { format!(" in {function}") } else { format!(" in {function} ({})", all.join("; ")) }
    }

    /// The variables that the loop reads or writes.
    fn reads(&self, case: &Case<'_>) -> Vec<Evidence> {
        let in_ram = self.run.accessed_last.iter().filter(|at| writers::is_in_ram(**at));
        let named = in_ram.filter_map(|at| {
            let held = case.look.holds(*at, word(*at & !3, case)?)?;
            Some(Evidence::memory(*at, format!("{held}: the loop uses it")))
        });
        named.take(VARIABLES).collect()
    }

    /// True where the loop writes to memory of the program.
    fn writes(&self) -> bool {
        self.run.written_last > 0
    }

    /// The pointer that it reads and that leads to the element of a list in which it is itself.
    fn circle(&self, case: &Case<'_>) -> Option<(String, Evidence)> {
        let leads_back = |at: Addr| {
            let to = Addr::from(word(at & !3, case)?);
            (writers::is_in_ram(to) && to & 3 == 0 && at.checked_sub(to)? < ELEMENT).then_some((at & !3, to))
        };
        let (at, to) = self.run.accessed_last.iter().find_map(|at| leads_back(*at))?;
        let name = case.look.place(at).map_or_else(|| format!("{at:#x}"), |name| format!("{name} ({at:#x})"));
        let words = format!("the list that it follows is a circle: {name} points to its own element");
        Some((words, Evidence::memory(at, format!("{name}: it points to its own element")).holds(to)))
    }
}
