//! Why a thread that never blocks does not wait where its loop calls the kernel: the object of a call that would wait does not exist, so
//! that the kernel's check of the arguments returns at once with an error, each time; or there is always more to take, as work comes
//! faster than the thread does it.
//!
//! Of a call that does not wait in any case nothing is said, nor of a kernel that does not check arguments, nor of a semaphore that
//! counts what is free.

use super::super::cpus::thread_of;
use super::super::state::Task;
use super::super::usage::{Made, User};
use super::super::{Case, Evidence};
use super::by_code::lost_lock::created_with;
use super::recorded::text_at;
use super::words::place_at;
use crate::abi::{Addr, Region};
use crate::kernel::api::{self, Act};
use crate::kernel::{Kind, Object};
use crate::session::CpuState;
use crate::trace::many;

/// How the names of the kernel's functions begin that check their arguments.
const CHECKED: &str = "_txe_";

/// So much is left of an object that a thread takes from, and does not keep up with.
const BACKLOG: u64 = 4;

/// So many rounds of its loop are in the trace.
const ROUNDS: u64 = 4;

/// What keeps a call from waiting.
pub(super) struct NoWait {
    /// `, as queue outbox, to which it sends in log_main (log.c:107), was deleted: that call returns at once with an error`.
    /// Hostile text.
    pub words: String,
    pub evidence: Vec<Evidence>,
    /// What speaks against it.
    pub against: &'static str,
    /// What to look at.
    pub next: String,
}

/// Of the calls in the loop of a thread, the one that does not wait.
pub(super) fn of(hog: &Task, case: &Case<'_>) -> Option<NoWait> {
    missing(hog, case).or_else(|| backlog(hog, case))
}

/// A call with an object that does not exist: no list of the kernel has it, and its id is 0.
pub(super) fn missing(hog: &Task, case: &Case<'_>) -> Option<NoWait> {
    let (usage, kernel) = (case.usage()?, case.kernel.filter(|kernel| kernel.overwritten.is_empty())?);
    let user = User::Thread(hog.address);
    let would_wait = |made: &Made| made.function.starts_with(CHECKED) && made.wait != Some(0);
    usage.calls_of(user).into_iter().filter(would_wait).find_map(|made| {
        let (at, object) = (made.at, made.object?);
        let action = api::action(&made.function)?;
        let kind = action.kind.filter(|kind| action.act == Act::Takes || *kind == Kind::Queue)?;
        let words = case.words(&case.look.bytes(object, case.width().saturating_mul(2))?, true);
        let ([0, name], None) = (words.as_slice(), kernel.object(object)) else { return None };
        if !is_in_function_of(at, hog, case) || !usage.repeats(user, action.act, kind, object) {
            return None;
        }
        let place = place_at(at, case);
        // A delete clears the id alone.
        let gone = if *name == 0 { "does not exist" } else { "was deleted" };
        let what = label(object, *name, kind, case);
        let (preposition, call) = match (action.act, kind) {
            (Act::Takes, Kind::Queue) => ("from", "receives"),
            (Act::Takes, Kind::BlockPool | Kind::BytePool) => ("from", "allocates"),
            (Act::Takes, _) => ("for", "asks"),
            _ => ("to", "sends"),
        };
        let deleted = deleted(object, case);
        let by = deleted.as_ref().map_or_else(String::new, |(by, _)| format!(" (by {by})"));
        let who = case.label(hog.address);
        let evidence = [
            Some(Evidence::symbol(at, &place, format!("{who} {call} {preposition} {what} here, again and again"))),
            Some(Evidence::memory(object, format!("{what} {gone}: its id is 0, and no list of the kernel has it"))),
            deleted.map(|(by, seq)| Evidence::event(seq, format!("{what} is deleted by {by}"))),
        ];
        Some(NoWait {
            words: format!(
                ", as {what}, {preposition} which it {call} in {place}, {gone}{by}: that call returns at once with an error"
            ),
            evidence: evidence.into_iter().flatten().collect(),
            against: "that it comes to that call is inferred from its code",
            next: format!(
                "look at what {who} does with the error of that call, and at who deletes {what} while it is in use"
            ),
        })
    })
}

/// `queue host_outbox`: a control block that was deleted still has its name.
fn label(object: Addr, name: Addr, kind: Kind, case: &Case<'_>) -> String {
    match text_at(name, case).or_else(|| case.look.block(object)) {
        Some(name) => format!("{} {name}", kind.name()),
        None => format!("the {} at {object:#x}", kind.name()),
    }
}

/// Who deleted an object, by the events, and which event that is.
fn deleted(object: Addr, case: &Case<'_>) -> Option<(String, u64)> {
    let (seq, by) = case.events?.deleted.gone(case.stored(object))?;
    Some((case.label(by?), seq))
}

/// An object that a thread takes from in its loop, and of which it took all the time, while more and more was left.
fn backlog(hog: &Task, case: &Case<'_>) -> Option<NoWait> {
    let (usage, user) = (case.usage()?, User::Thread(hog.address));
    let uses = usage.uses_of(user);
    // It puts back what it takes.
    let gives = |object: Addr| {
        uses.iter().any(|one| one.action.act == Act::Gives && one.object.is_none_or(|given| given == object))
    };
    let takes = uses.iter().filter(|one| one.action.act == Act::Takes);
    takes.filter_map(|one| one.object).filter(|object| !gives(*object)).find_map(|object| {
        let object = case.kernel?.object(object)?;
        let left = match object.kind {
            Kind::Semaphore => object.get("count"),
            Kind::Queue => object.get("enqueued"),
            _ => None,
        };
        let left = left.filter(|left| *left >= BACKLOG && is_taken(hog, object, *left, case))?;
        let counts_free = || created_with(object.address, case).is_none_or(|(count, _)| count > 0);
        if object.kind == Kind::Semaphore && counts_free()
            || !usage.repeats(user, Act::Takes, object.kind, object.address)
        {
            return None;
        }
        let label = case.object(object.address);
        let more = match object.kind {
            Kind::Queue => format!("{} in it", many(left, "message is", "messages are")),
            _ => format!("its count is {left}"),
        };
        let text = format!("{label}: {more}; {} takes from it in its loop", case.label(hog.address));
        Some(NoWait {
            words: format!(", as it does not keep up with {label} ({more})"),
            evidence: vec![Evidence::memory(object.address, text)],
            against: "more may have come than usual, for a short time",
            next: format!(
                "find out why {} needs longer for a round of its loop than {label} is given for",
                case.label(hog.address)
            ),
        })
    })
}

/// True where the thread took from an object again and again, up to the end of the trace, and there was always something to take, and
/// less than is left.
fn is_taken(hog: &Task, object: &Object, left: u64, case: &Case<'_>) -> bool {
    let of = || {
        let events = case.events?;
        let one = events.object(object.address)?;
        let newest = one.asked_in.iter().find(|(thread, _)| events.is(hog.address, **thread)).map(|(_, seq)| *seq)?;
        let found = one.found.filter(|found| found.times >= ROUNDS && (1..left).contains(&found.fewest))?;
        Some(found.seqs.1 == newest && newest > events.recent())
    };
    of() == Some(true)
}

/// True where the function with this call is one of those that the thread is in.
fn is_in_function_of(call: Addr, hog: &Task, case: &Case<'_>) -> bool {
    let Some((cpus, function)) = case.cpus.zip(case.look.function(call)) else { return false };
    let region = Region { start: function.address & !1, len: function.size };
    let runs = |cpu: &&CpuState| thread_of(cpu, case.kernel).is_some_and(|thread| thread.address == hog.address);
    let running = cpus.all.iter().filter(runs).flat_map(|cpu| cpu.functions.iter().map(|function| function.pc));
    let saved = cpus.callers(hog.address).unwrap_or_default().iter().copied();
    running.chain(saved).any(|pc| region.contains(pc & !1))
}
