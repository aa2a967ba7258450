//! What the CPUs and the threads do at this moment, for a reader to whom no rule had anything to say.

use super::cpus::thread_of;
use super::graph::Graph;
use super::rules::{interrupts, place};
use super::state::Does;
use super::{Case, Cpus};
use crate::cpu::Level;
use crate::kernel::Under;
use crate::session::CpuState;

/// The most waits that are named.
const NAMED: usize = 8;

/// In sentences.
pub(super) fn of(case: &Case<'_>, graph: &Graph) -> Vec<String> {
    let cpus: Option<&Cpus> = case.cpus;
    let cpus = cpus.into_iter().flat_map(|cpus| &cpus.all).filter_map(|cpu| of_cpu(cpu, case));
    cpus.chain(pending(case)).chain(by_events(case, graph)).chain(waits(case, graph)).collect()
}

/// Who has the processor, where only events show it.
fn by_events(case: &Case<'_>, graph: &Graph) -> Option<String> {
    let is_alone = case.kernel.is_none() && case.cpus.is_none_or(|cpus| cpus.all.is_empty());
    let events = case.events.filter(|events| is_alone && events.cores == 1)?;
    let newest = events.newest;
    let Some(runs) = graph.tasks.list.iter().find(|task| task.does == Does::Runs) else {
        let is_of_none = events.last_of_threads.is_some_and(|last| last < newest);
        return is_of_none.then(|| format!("The newest event ({newest}) is of no thread, as in an interrupt."));
    };
    let name = case.label(runs.address);
    Some(match events.last_of_threads.filter(|last| *last < newest) {
        Some(_) => {
            format!(
                "By the events, {name} has the processor; the newest event ({newest}) is of no thread, as in an interrupt."
            )
        }
        None => format!("By the events, {name} has the processor (event {newest})."),
    })
}

/// The interrupts that are pending and enabled while a thread runs. A device may have asked for one after the CPU was stopped.
fn pending(case: &Case<'_>) -> Option<String> {
    let mut cpus = case.cpus?.all.iter();
    let (cpu, None) = (cpus.next()?, cpus.next()) else { return None };
    thread_of(cpu, case.kernel).filter(|_| cpu.registers.level() == Level::Thread)?;
    let all = interrupts::not_taken(cpu).into_iter().take(NAMED);
    let names: Vec<String> = all.map(|number| interrupts::name(case, number)).collect();
    (!names.is_empty()).then(|| format!("Pending and enabled: {}.", names.join(", ")))
}

fn of_cpu(cpu: &CpuState, case: &Case<'_>) -> Option<String> {
    let at = place::of(&cpu.functions).map_or_else(String::new, |at| format!(" in {at}"));
    let is_one = case.cpus.is_none_or(|cpus| cpus.all.len() <= 1);
    let name = if is_one { "The CPU".to_owned() } else { format!("CPU {}", cpu.core) };
    let none = match (thread_of(cpu, case.kernel), cpu.under?) {
        (Some(thread), _) => {
            return Some(match &cpu.exception {
                Some(exception) => format!("{name} is in {exception}{at}, above thread {}.", thread.label()),
                None => format!("{name} runs thread {}{at}.", thread.label()),
            });
        }
        // Memory alone does not show an interrupt.
        (None, Under::Idle) if cpu.registers.pc().is_none() => {
            "no thread has it: the system is idle, or an interrupt runs".to_owned()
        }
        (None, Under::Idle) => "no thread runs, the system is idle".to_owned(),
        (None, Under::Scheduler(next)) => format!("no thread runs, {} is to run next", case.label(next)),
        _ => return None,
    };
    Some(match &cpu.exception {
        Some(exception) => format!("{name} is in {exception}{at}; {none}."),
        None => format!("{name}: {none}."),
    })
}

/// The threads that wait without a time-out, with what they wait for.
fn waits(case: &Case<'_>, graph: &Graph) -> Option<String> {
    let forever = |task: &&super::state::Task| task.wait.is_some_and(|wait| wait.forever);
    let all: Vec<String> = graph
        .tasks
        .list
        .iter()
        .filter(forever)
        .filter_map(|task| {
            let wait = task.wait?;
            let room = if wait.sends { "room in " } else { "" };
            let owner = wait.owner.map_or_else(String::new, |owner| format!(" ({} owns it)", case.label(owner)));
            Some(format!("{} for {room}{}{owner}", case.label(task.address), case.object(wait.object)))
        })
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let named = all.get(..NAMED.min(all.len()))?.join(", ");
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    (!all.is_empty()).then(|| format!("These wait without a time-out: {named}{more}."))
}
