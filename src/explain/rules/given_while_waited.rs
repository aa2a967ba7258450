//! A thread waits for what is there: a semaphore with a count, a queue with a message, event flags that are set, a block that is free.
//! The kernel never leaves it so: what is given goes to a thread that waits, and a thread that asks for what is there does not wait.
//! Where an interrupt gives it, it came within the call that began the wait, after that had looked and before it had put the thread
//! on the list: the kernel's critical sections do not keep that interrupt back, or the compiler moved code out of them.
//!
//! It is likely where the interrupt's priority is above those that the kernel masks (Cortex-M), or where the trace shows that it was
//! given after the one thread that waits had asked. Where its priority is known and not above, nothing is said.
//!
//! Against it: one of the two may have been overwritten. Nothing is said where the kernel is in the middle of a call, where the CPU is
//! in a handler or its registers are not known, nor where no interrupt gives it.

use super::super::events::{Given, Giver};
use super::super::graph::Graph;
use super::super::state::Task;
use super::super::usage::User;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code::user_name;
use super::control_blocks::{is_service, is_within_call};
use super::irq_priority::{is_above_kernel, masks_by_priority};
use super::words::{place_at, waiting};
use crate::abi::Addr;
use crate::cpu::{Architecture, Level};
use crate::kernel::api::Act;
use crate::kernel::{Kind, Object, Under, Wanted};
use crate::session::CpuState;
use crate::trace::many;

/// So many may have been given within one call.
const FEW: u64 = 2;
/// The number of PendSV.
const PENDSV: u32 = 14;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let is_quiet = !is_within_call(case)
        && case.cpus.is_some_and(|cpus| cpus.all.iter().all(is_outside))
        && case.kernel.zip(case.cpus).is_some_and(|(kernel, cpus)| cpus.all.len() >= kernel.current.len());
    let Some(kernel) = case.kernel.filter(|_| is_quiet) else { return Vec::new() };
    kernel.objects.iter().filter_map(|object| of(object, case, graph)).collect()
}

/// True for a CPU that waits for the next thread, or is in a thread and in no call of the kernel. A handler may have interrupted such a
/// call, or be in one that has given something and has not woken the thread yet.
fn is_outside(cpu: &CpuState) -> bool {
    let is_in_kernel = || cpu.functions.iter().any(|function| function.name.as_deref().is_some_and(is_service));
    let is_thread = cpu.registers.level() == Level::Thread && cpu.exception.is_none() && !cpu.functions.is_empty();
    (is_idle(cpu.registers.level(), cpu.under) || is_thread) && !is_in_kernel()
}

/// True for a CPU that waits for the next thread: a Cortex-M does so within PendSV. What is under a handler says where it returns to.
fn is_idle(level: Level, under: Option<Under>) -> bool {
    let is_handler = matches!(level, Level::Exception(number) if number != PENDSV);
    under == Some(Under::Idle) && !is_handler
}

fn of(object: &Object, case: &Case<'_>, graph: &Graph) -> Option<Finding> {
    let waiters: Vec<&Task> = graph.tasks.waiting(object.address).collect();
    let has_list = object.get("suspended_count").is_some_and(|count| count > 0);
    // It may wait for room in a queue.
    let sends = |task: &Task| case.thread(task.address).and_then(|thread| thread.waits.as_ref()?.sends) == Some(true);
    let (first, there) = waiters
        .iter()
        .filter(|task| !sends(task))
        .find_map(|task| Some((*task, there(object.kind, &|name| object.get(name), task.wait?.wanted)?)))?;
    let wanted = first.wait?.wanted;
    let giver = giver(object, wanted, case).filter(|_| has_list)?;
    let is_alone = waiters.len() == 1;
    let is_after =
        giver.seq.zip(asked(first.address, object.address, case)).is_some_and(|(given, asked)| given > asked);
    // A Cortex-M whose kernel masks all interrupts leaves none that could come in between.
    let may_come = case.kernel?.processor != Some(Architecture::CortexM) || masks_by_priority(case);
    let claimed = match giver.number.and_then(|number| is_above_kernel(number, case)) {
        Some(false) => return None,
        Some(true) => Confidence::Likely,
        None if is_after && is_alone && may_come => Confidence::Likely,
        None => Confidence::Hint,
    };
    let (name, label) = (case.label(first.address), case.object(object.address));
    let how = if claimed == Confidence::Likely {
        ", which the kernel's critical sections do not keep back, gave it"
    } else {
        " may have given it"
    };
    let claim =
        format!("{name} waits for {label}, though {there}: {}{how} within the call that began the wait", giver.name);
    let next = if may_come {
        "compare the priority of that interrupt with the one up to which the kernel's critical sections mask interrupts \
         (BASEPRI, or the threshold of the interrupt controller): one above that must not call the kernel"
    } else {
        "look at who else writes there, and whether the compiler moved code out of the kernel's critical sections"
    };
    let behind = graph.waiters(&[first.address]);
    Some(
        Finding::new(Code::IrqPriority, case.cap(claimed), claim)
            .against(["one of the two may have been overwritten", giver.against])
            .evidence([
                waiting(first.address, object.address, case, graph),
                Evidence::memory(
                    object.address,
                    format!("{label}: {there}; the kernel never leaves it so while a thread waits for it"),
                ),
            ])
            .evidence(giver.evidence)
            .next(next)
            .waiters(behind, first.address, case, graph)
            .threads([first.address]),
    )
}

/// What is there for a thread that waits; `wanted`: event flags. Of a queue that is neither full nor empty nobody waits for
/// anything.
fn there(kind: Kind, member: &dyn Fn(&str) -> Option<u64>, wanted: Option<Wanted>) -> Option<String> {
    let get = |name| member(name).filter(|count| *count > 0);
    // The next one that is given wakes the thread: no more than a few can have come within the call.
    let few = |name| get(name).filter(|count| *count <= FEW);
    match kind {
        Kind::Semaphore => few("count").map(|count| format!("its count is {count}")),
        Kind::Queue => {
            let (held, free) = few("enqueued").zip(get("available_storage"))?;
            Some(format!("it has {}, and room for {free} more", many(held, "message", "messages")))
        }
        Kind::EventFlags => {
            let (wanted, set) = wanted.zip(get("current"))?;
            let found = wanted.flags & set;
            let is_there = if wanted.all { found == wanted.flags } else { found != 0 };
            (is_there && wanted.flags != 0).then(|| format!("{found:#x} is set"))
        }
        Kind::BlockPool => few("available").map(|free| {
            format!("{} of it {} free", many(free, "block", "blocks"), if free == 1 { "is" } else { "are" })
        }),
        Kind::Mutex | Kind::BytePool | Kind::Timer => None,
    }
}

/// The newest event in which a thread asks for an object.
fn asked(thread: Addr, object: Addr, case: &Case<'_>) -> Option<u64> {
    let events = case.events?;
    let asked = &events.object(object)?.asked_in;
    asked.iter().find(|(asks, _)| events.is(thread, **asks)).map(|(_, seq)| *seq)
}

/// An interrupt that gives it.
struct FromInterrupt {
    name: String,
    /// The number of its exception.
    number: Option<u64>,
    /// The newest event in which one does.
    seq: Option<u64>,
    evidence: Vec<Evidence>,
    against: &'static str,
}

/// The interrupt that gives something, by the events or by the code.
fn giver(object: &Object, wanted: Option<Wanted>, case: &Case<'_>) -> Option<FromInterrupt> {
    let given = case.events.and_then(|events| {
        let one = events.object(object.address)?;
        // Of event flags, those that it set last.
        let is_wanted = |given: &Given| wanted.is_none_or(|wanted| given.last & wanted.flags != 0);
        let of = |(by, given): (&Giver, &Given)| match by {
            Giver::Interrupt(number) if is_wanted(given) => Some((*number, given.seq)),
            _ => None,
        };
        one.givers.iter().filter_map(of).max_by_key(|(_, seq)| *seq)
    });
    let usage = case.usage();
    let users =
        usage.and_then(|usage| usage.who(Act::Gives, Some(object.kind), object.address, wanted.map(|w| w.flags)));
    let may_be = |user: &User| matches!(user, User::Handler(_)) || given.is_some() && matches!(user, User::Other(_));
    let user = users.unwrap_or_default().into_iter().find(may_be);
    let label = case.object(object.address);
    let at = user.zip(usage).and_then(|(user, usage)| {
        usage.site(user, |one| one.action.act == Act::Gives && one.object == Some(object.address))
    });
    let place = at.map(|at| place_at(at, case));
    let site = at
        .zip(place.clone())
        .map(|(at, place)| Evidence::symbol(at, &place, format!("by its code, the interrupt gives {label} here")));
    let name = match (given, user) {
        (Some((Some(number), _)), _) => case.interrupt(Some(number)),
        (_, Some(user @ User::Handler(_))) => user_name(user, case),
        (Some(_), _) => place.map_or_else(|| "an interrupt".to_owned(), |place| format!("an interrupt (in {place})")),
        (None, _) => return None,
    };
    let event = given.map(|(_, seq)| Evidence::event(seq, format!("an interrupt gives {label}")));
    let against = "that its priority is too high is inferred";
    let added = case.added_to_interrupts();
    let number = match (given, user) {
        (Some((Some(number), _)), _) => added.map(|added| number.saturating_add(added)),
        (_, Some(User::Handler(number))) => Some(number.into()),
        _ => None,
    };
    // Where it is not known which interrupt that is, its priority may be one that the kernel keeps back.
    let is_known = given.is_some_and(|(of, _)| of.is_none() || added.is_some());
    let seq = given.filter(|_| is_known).map(|(_, seq)| seq);
    Some(FromInterrupt { name, number, seq, evidence: event.into_iter().chain(site).collect(), against })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_members(kind: Kind, members: &[(&str, u64)], wanted: Option<Wanted>) -> Option<String> {
        there(kind, &|name| members.iter().find(|(member, _)| *member == name).map(|(_, value)| *value), wanted)
    }

    #[test]
    fn a_count_that_a_thread_waits_for_was_not_seen() {
        let of = |kind, members: &[(&str, u64)]| of_members(kind, members, None);
        assert_eq!(of(Kind::Semaphore, &[("count", 1)]).as_deref(), Some("its count is 1"));
        assert_eq!(of(Kind::Semaphore, &[("count", 0)]), None);
        assert_eq!(of(Kind::Semaphore, &[("count", 3)]), None, "the next put would have woken the thread");
        let queue = of(Kind::Queue, &[("enqueued", 1), ("available_storage", 3)]);
        assert_eq!(queue.as_deref(), Some("it has 1 message, and room for 3 more"));
        assert_eq!(of(Kind::Queue, &[("enqueued", 4), ("available_storage", 0)]), None, "a thread waits to send");
        assert_eq!(of(Kind::BlockPool, &[("available", 2)]).as_deref(), Some("2 blocks of it are free"));
        assert_eq!(of(Kind::BytePool, &[("available", 64)]), None, "it may be in pieces");
    }

    #[test]
    fn what_a_handler_gave_over_the_idle_loop_was_a_fault_of_its_priority() {
        let over_idle = Some(Under::Idle);
        assert!(!is_idle(Level::Exception(21), over_idle));
        assert!(is_idle(Level::Exception(PENDSV), over_idle), "a Cortex-M waits there");
        assert!(is_idle(Level::Thread, over_idle), "a RISC-V waits there");
        assert!(!is_idle(Level::Thread, None));
    }

    #[test]
    fn flags_that_a_thread_waits_for_are_set() {
        let of = |set, flags, all| {
            let wanted = Wanted { flags, all, clears: true };
            of_members(Kind::EventFlags, &[("current", set)], Some(wanted))
        };
        assert_eq!(of(0x6, 0x2, false).as_deref(), Some("0x2 is set"));
        assert_eq!(of(0x6, 0x3, true), None, "it waits for both");
        assert_eq!(of(0x4, 0x2, false), None);
        assert_eq!(of(0x4, 0, true), None);
    }
}
