//! What ran when a handler came that does not return. A program stops itself in this way on purpose, as in a watchdog's early
//! warning: then the cause is below it.

use super::super::cpus::thread_of;
use super::super::graph::{Edge, Graph, How};
use super::super::state::Task;
use super::super::{Case, Evidence};
use super::{interrupts, place, starvation, threshold, vector, words};
use crate::abi::Addr;
use crate::cpu::Level;
use crate::session::{CpuState, Place};

/// The threads that are named.
const NAMED: usize = 4;
/// The vectors that are looked at for another exception with the same handler.
const VECTORS: u64 = 48;

/// What ran.
pub(super) struct Below {
    /// `lens ran in lens_position (camera.c:116), and rtsp and motion were ready and could not run`. Hostile text.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What speaks against it.
    pub doubt: Option<&'static str>,
    pub thread: Addr,
    /// Those that could not run.
    pub ready: Vec<Addr>,
    /// True where another interrupt is between the two.
    pub is_nested: bool,
}

/// The thread below the exception that a CPU is in.
pub(super) fn of(cpu: &CpuState, case: &Case<'_>, graph: &Graph) -> Option<Below> {
    let thread = thread_of(cpu, case.kernel)?;
    let found = cpu.interrupted.as_ref();
    let place = found.and_then(|found| the_place(&found.all));
    let is_certain = place.is_some() && found.is_some_and(|found| found.is_certain);
    // Another interrupt below it may be the one that hangs.
    if let Some(within) = found.and_then(|found| found.all.iter().find_map(|place| place.within.as_deref())) {
        return Some(Below {
            words: format!("{within} ran, above thread {}", thread.label()),
            evidence: Vec::new(),
            doubt: Some("what ran is found by what looks like pushed registers (--reg psp=N)"),
            thread: thread.address,
            ready: Vec::new(),
            is_nested: true,
        });
    }
    let at = place.and_then(|place| place::in_application(&place.functions));
    let at = at.map_or_else(String::new, |at| format!(" in {at}"));
    let hog = graph.tasks.at(thread.address);
    let kept_off: Vec<&Task> = hog.map_or_else(Vec::new, |hog| {
        graph.tasks.list.iter().filter(|task| starvation::is_kept_off(task, hog)).collect()
    });
    let rank = hog.filter(|_| !kept_off.is_empty()).map_or_else(String::new, |hog| starvation::rank(hog, &kept_off));
    let by_threshold = hog.filter(|hog| kept_off.iter().any(|task| starvation::is_behind_threshold(task, hog)));
    let (left, at_code) = by_threshold.and_then(|hog| threshold::left(hog.address, case)).unzip();
    let ready: Vec<Addr> = kept_off.iter().map(|task| task.address).collect();
    let behind = match ready.as_slice() {
        [] => String::new(),
        [one] => format!(", and {} was ready and could not run", case.label(*one)),
        all => {
            let names: Vec<String> = all.iter().take(NAMED).map(|thread| case.label(*thread)).collect();
            let more = all.len().saturating_sub(NAMED);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!(", and {}{more} were ready and could not run", names.join(", "))
        }
    };
    let inverted = inverted(thread.address, &ready, case, graph).unwrap_or_default();
    let evidence = place.map(|place| {
        let pc = place.registers.pc().unwrap_or_default();
        Evidence::stack(place.frame, format!("the exception pushed its registers here: pc {pc:#x}")).holds(pc)
    });
    Some(Below {
        words: format!("{}{rank} ran{at}{behind}{inverted}{}", thread.label(), left.unwrap_or_default()),
        evidence: evidence.into_iter().chain(at_code).collect(),
        doubt: (!is_certain)
            .then_some("where the thread ran is found by what looks like pushed registers (--reg psp=N)"),
        thread: thread.address,
        ready,
        is_nested: false,
    })
}

/// `; pitch (priority 4) waits for mutex config, which recorder owns`: a thread that is more urgent than the one that ran, and that waits
/// for a lock of one that could not run.
fn inverted(ran: Addr, ready: &[Addr], case: &Case<'_>, graph: &Graph) -> Option<String> {
    let priority = |at: Addr| graph.tasks.at(at).and_then(|task| task.priority);
    let own = priority(ran)?;
    let is_urgent = |edge: &&Edge| priority(edge.waiter).is_some_and(|waiter| waiter < own);
    let mut held = graph.edges.iter().filter(|edge| edge.how == How::Owns && ready.contains(&edge.holder));
    let edge = held.find(is_urgent)?;
    Some(format!(
        "; {}{} waits for {}, which {} owns",
        case.label(edge.waiter),
        words::priority(edge.waiter, graph),
        case.object(edge.object),
        case.label(edge.holder)
    ))
}

/// The place in a thread where an exception came, where all that look like it agree.
fn the_place(all: &[Place]) -> Option<&Place> {
    let first = all.first().filter(|place| place.within.is_none())?;
    all.iter().all(|place| place.registers.pc() == first.registers.pc()).then_some(first)
}

/// True for a handler of NMI that serves no other exception: the program has it on purpose. The table that is known may be that of
/// the program's file, and another one in use.
pub(super) fn is_own_nmi(cpu: &CpuState, case: &Case<'_>) -> bool {
    let table = case.look.handlers();
    let of_file = |number: u64| table.iter().find(|(known, _)| u64::from(*known) == number).map(|(_, at)| *at);
    let in_use = |number| vector::vector(number, case).map(|(_, vector)| vector);
    let vector = |number| in_use(number).or_else(|| of_file(number)).map(|vector| vector & !1);
    let start = |at: Addr| case.look.function(at & !1).map(|function| function.address & !1);
    let is_nmi = matches!(cpu.registers.level(), Level::Exception(number) if u64::from(number) == interrupts::NMI);
    let own = vector(interrupts::NMI);
    let is_in_use = own.is_some() && cpu.functions.iter().any(|function| start(function.pc) == own);
    let handler = if is_in_use { own } else { cpu.registers.pc().and_then(start) };
    // Without a table a handler may be that of all exceptions.
    let mut others = (1..VECTORS).filter(|number| *number != interrupts::NMI);
    is_nmi && own.is_some() && handler.is_some() && !others.any(|number| vector(number) == handler)
}
