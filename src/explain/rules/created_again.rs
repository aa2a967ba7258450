//! An object that was created again while it lived: a function that starts something runs a second time. The kernel clears the
//! control block, and puts it into the list of created ones again. Two entries of the list then lead to it, or it leads back to
//! itself, and the kernel counts one more than there are. What the object was for is lost: the threads that waited for it wait
//! for ever, a thread runs twice on one stack.
//!
//! Against it: no moment of a call leaves such pointers. A write over the pointers of a block would have to hit two of them.

use super::super::graph::Graph;
use super::super::{Case, Code, Confidence, Evidence, Finding};
use super::by_code;
use super::control_blocks::is_within_call;
use super::corrupt_pool::in_fault;
use super::timer_waited;
use super::words::{place_at, waiting};
use crate::abi::Addr;
use crate::kernel::{Kind, Object};

/// For so many objects who creates them is looked up in the code.
const CREATORS: usize = 3;

pub(super) fn find(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = case.kernel.into_iter().flat_map(|kernel| &kernel.created_twice);
    let twice = all.map(|(kind, address)| finding(*kind, *address, case, graph));
    let late = forgotten(case).into_iter().enumerate();
    twice.chain(late.map(|(index, (kind, at))| created_late(kind, at, index < CREATORS, case, graph))).collect()
}

/// Objects for which threads wait that they know nothing of, and that are in order otherwise.
pub(super) fn forgotten(case: &Case<'_>) -> Vec<(Kind, Addr)> {
    // A fault in the middle of a call leaves what that moment had.
    let is_fault = case.cpus.is_some_and(|cpus| cpus.all.iter().any(in_fault));
    let holds = case.kernel.and_then(|kernel| kernel.preempt_disable).is_some_and(|times| times != 0);
    let is_moment = is_fault || holds || is_within_call(case);
    let Some(kernel) = case.kernel.filter(|_| !case.trust.other_build && !is_moment) else { return Vec::new() };
    let by_callback = timer_waited::of(case).map(|broken| broken.object);
    let is_so = |object: &&Object| {
        let is_twice = kernel.created_twice.iter().any(|(_, address)| *address == object.address);
        // A thread is out of the list for a moment before it is ready: a wait that is long is no such moment.
        let is_long = |thread: &Addr| case.events.is_some_and(|events| events.is_long(*thread, object.address));
        // A call that sets event flags takes the threads out of the list while it looks at them.
        let is_listed = !matches!(object.kind, Kind::Timer | Kind::EventFlags);
        let by_callback = by_callback == Some(object.address);
        let all = if is_listed && !is_twice && !by_callback { waiters(object.address, case) } else { Vec::new() };
        if all.is_empty() {
            return false;
        }
        let unlisted = kernel.unlisted(object);
        // Those that came later are in its list.
        let counted = object.get("suspended_count").and_then(|count| usize::try_from(count).ok());
        unlisted.iter().any(is_long) && counted == all.len().checked_sub(unlisted.len())
    };
    kernel.objects.iter().filter(is_so).map(|object| (object.kind, object.address)).collect()
}

/// Threads whose own control blocks say that they wait for an object.
fn waiters(object: Addr, case: &Case<'_>) -> Vec<Addr> {
    let threads = case.kernel.into_iter().flat_map(|kernel| &kernel.threads);
    let waits = threads.filter(|thread| thread.suspended_on().is_some_and(|(_, at)| at == object));
    waits.map(|thread| thread.address).collect()
}

/// An object that was created after a thread began to wait for it: the kernel's functions without parameter checks take a control
/// block that is all 0, and the call that creates it clears the list of those that wait.
fn created_late(kind: Kind, address: Addr, with_creator: bool, case: &Case<'_>, graph: &Graph) -> Finding {
    let label = case.object(address);
    let object = case.kernel.and_then(|kernel| Some((kernel, kernel.object(address)?)));
    let waits = object.map(|(kernel, object)| kernel.unlisted(object)).unwrap_or_default();
    let names: Vec<String> = waits.iter().map(|at| case.label(*at)).collect();
    let (names, wait, are) = match names.as_slice() {
        [one] => (one.clone(), "waits", "is"),
        all => (all.join(", "), "wait", "are"),
    };
    let creation = with_creator.then(|| creation(kind, address, case)).flatten();
    let by = creation.as_ref().map_or_else(String::new, |(words, _)| format!("; {words} creates it"));
    let claim = format!(
        "{names} {wait} for {label} and {are} not in its list of waiting threads: it was created (again) after the wait began{by}"
    );
    let state = object.map_or_else(String::new, |(_, object)| format!(" ({})", object.state(&|_| String::new())));
    Finding::new(Code::CorruptControlBlock, case.cap(Confidence::Likely), claim)
        .against(["a write of zeros over its list would look the same"])
        .evidence([Evidence::memory(address, format!("{label}: {names} {are} not in its list{state}"))])
        .evidence(waits.iter().map(|at| waiting(*at, address, case, graph)))
        .evidence(creation.map(|(_, evidence)| evidence))
        .next(format!("look for the call of {}, and start the threads that use {label} after it", create(kind)))
        .threads([address])
        .affected(waits.iter().copied())
}

/// Who creates an object, by the code, and where: `sys init, in i2c_bus_init (i2c.c:12),`.
fn creation(kind: Kind, address: Addr, case: &Case<'_>) -> Option<(String, Evidence)> {
    let call = create(kind);
    let functions = ["_", "_txe"].iter().zip([call, call.strip_prefix("tx")?]);
    let functions =
        functions.filter_map(|(prefix, rest)| Some(case.look.symbol(&format!("{prefix}{rest}"))?.address & !1));
    let all = case.usage()?.creations(address, &functions.collect::<Vec<_>>());
    let (user, at, _) = *all.first().filter(|_| all.len() == 1)?;
    let place = place_at(at, case);
    let by = by_code::user_name(user, case);
    let evidence = Evidence::symbol(at, &place, format!("{by} calls {call} for it here"));
    Some((format!("{by}, in {place},"), evidence))
}

fn finding(kind: Option<Kind>, address: Addr, case: &Case<'_>, graph: &Graph) -> Finding {
    let label = match kind {
        None => format!("thread {}", case.label(address)),
        Some(_) => case.object(address),
    };
    let text = format!("{label}: the list of its kind contains it twice");
    let events = case.events.and_then(|events| events.created(address));
    let waits: Vec<Addr> = graph.tasks.waiting(address).map(|task| task.address).collect();
    let is_lost = match kind {
        None => "what it did before, and what it held, is lost".to_owned(),
        Some(Kind::Timer) => "what it was set to is lost".to_owned(),
        Some(_) => "what it held, and who waited for it, is lost".to_owned(),
    };
    let call = kind.map_or_else(|| "tx_thread_create".to_owned(), |kind| create(kind).to_owned());
    Finding::new(
        Code::CorruptControlBlock,
        case.cap(Confidence::Likely),
        format!("{label} was created again while it lived: {is_lost}"),
    )
    .evidence([Evidence::memory(address, text)])
    .evidence(events.map(|seq| Evidence::event(seq, format!("{label} is created"))))
    .next(format!("look for a second call of {call} for it; what starts it anew has to {} it first", remove(kind)))
    .threads([address])
    .affected(waits)
}

/// What has to come before it is created again.
const fn remove(kind: Option<Kind>) -> &'static str {
    match kind {
        None => "terminate and delete",
        Some(_) => "delete",
    }
}

/// The call that creates it.
const fn create(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "tx_mutex_create",
        Kind::Queue => "tx_queue_create",
        Kind::Semaphore => "tx_semaphore_create",
        Kind::EventFlags => "tx_event_flags_create",
        Kind::BlockPool => "tx_block_pool_create",
        Kind::BytePool => "tx_byte_pool_create",
        Kind::Timer => "tx_timer_create",
    }
}
