//! Control blocks and lists that contradict themselves. A list that points to a block which does not begin with its id shows a
//! block that was overwritten: which variable it is in, what is there now, and what is in front of it say by whom. Other
//! contradictions may be a moment in the middle of a call of the kernel: they are hints, after everything else, and nothing is
//! said of them where the CPU is in such a call.

use super::super::graph::Graph;
use super::super::usage::{Use, User};
use super::super::{Case, Confidence, Evidence, Finding};
use super::corrupt_pool::{followers, in_fault, within};
use super::created_again::forgotten;
use super::other_type::OtherType;
use super::set_by::Writers;
use super::shared::{self, Shared};
use super::words::{function_at, text};
use super::wrong_context;
use super::wrong_index::WrongIndex;
use super::{arrays, block_released, counter, notified, pointer, set_by, wrong_index};
use super::{same_word, thread_block, timer_waited};
use crate::abi::{Addr, Region};
use crate::code::Code;
use crate::explain;
use crate::kernel::api::Act;
use crate::kernel::{HEAD, Kind, Object, Overwritten, Thread, is_below_zero};
use crate::session::CpuState;
use crate::sym::{ArrayMember, Symbol};
use crate::trace::{Issue, Severity};

/// Bytes of a block that are looked at.
const LOOKED: u64 = 64;
/// The most of a block's contradictions that are shown.
const SHOWN: usize = 3;
/// The most functions that are named.
const USERS: usize = 5;
/// Bytes of a queue's control block that hold its counts, on a 64-bit CPU.
const MEMBERS: u64 = 0x40;

/// The most by which a word was counted up or down.
const COUNTED: u64 = 0xFFFF;

/// How the names of the variables end in which the kernel counts what is in its lists.
const COUNTER: &str = "_created_count";
/// The word with which the kernel fills stacks.
const FILL: u64 = 0xEFEF_EFEF;

/// How the names of the kernel's variables begin.
const KERNEL: &str = "_tx_";
/// How the names of the kernel's functions begin.
const PREFIXES: [&str; 2] = ["_tx_", "_txe_"];
/// How the names of those begin in which its lists are whole: labels within the scheduler may have names of their own.
const NO_SERVICES: [&str; 2] = ["_tx_thread_schedule", "_tx_thread_shell_entry"];

/// Bytes of the smallest control block, that of a semaphore.
const SMALLEST: u64 = 28;

/// Blocks that were overwritten.
pub(super) fn find(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    let Some(kernel) = case.kernel else { return Vec::new() };
    if kernel.overwritten.is_empty() {
        // Variables of an ELF of another build are not those of the kernel: what they point to says nothing.
        if case.trust.other_build {
            return Vec::new();
        }
        let broken = damaged(case).filter(|issue| issue.severity == Severity::Lost);
        let impossible = damaged(case).filter(|issue| issue.severity != Severity::Lost && is_impossible(issue, case));
        return broken.chain(impossible).map(|issue| contradiction(issue, Confidence::Likely, case)).collect();
    }
    let broken = |block: &Overwritten| match block.found.filter(|_| was_block(block, case)) {
        Some(found) => overwritten(block, found, case),
        None => led_astray(block, case),
    };
    let is_known = |block: &&Overwritten| block.from != 0 || !case.trust.other_build;
    let is_new = |block: &&Overwritten| !block_released::is_so(block.address, true, case);
    kernel.overwritten.iter().filter(is_known).filter(is_new).map(broken).collect()
}

/// What a control block that was overwritten is called.
pub(super) fn label(block: &Overwritten, case: &Case<'_>) -> String {
    let what = block.kind.map_or("thread", |kind| kind.name());
    let by_events = case.events.and_then(|events| events.name(block.address)).map(str::to_owned);
    // Debug information names a part of a variable: `session.reporter`.
    let name = by_events.or_else(|| case.look.block(block.address)).or_else(|| block.name.clone());
    name.map_or_else(|| format!("the {what} at {:#x}", block.address), |name| format!("{what} {name}"))
}

/// The first words of what is at an address.
pub(super) fn first_words(at: Addr, case: &Case<'_>) -> Vec<u64> {
    case.words(&case.look.bytes(at, LOOKED).unwrap_or_default(), false)
}

/// Contradictions that may be of a moment.
pub(super) fn contradictions(case: &Case<'_>, _: &Graph) -> Vec<Finding> {
    if is_within_call(case) {
        return Vec::new();
    }
    let of_moment = damaged(case).filter(|issue| issue.severity != Severity::Lost);
    // An ELF of another build points to what is not a list of the kernel: this is reported once, for the whole ELF.
    let of_moment = of_moment.filter(|issue| !is_impossible(issue, case) && !case.trust.other_build);
    // What a second creation leaves in the lists is said of that.
    let is_twice = case.kernel.is_some_and(|kernel| !kernel.created_twice.is_empty());
    let of_moment = of_moment.filter(|issue| !is_twice || issue.place.address.is_some());
    // So is what a late creation leaves.
    let late = forgotten(case);
    let is_of = |issue: &&Issue, object: Addr| issue.place.address.is_some_and(|at| near(object, at));
    let of_moment = of_moment.filter(|issue| !late.iter().any(|(_, object)| is_of(issue, *object)));
    // And a callback that waited.
    let waited = timer_waited::of(case).map(|broken| broken.object);
    let of_moment = of_moment.filter(|issue| !waited.is_some_and(|object| is_of(issue, object)));
    // Behind a block that was overwritten the walk of a list ends, and the list seems to lack others.
    let ends_early = case.kernel.is_some_and(|kernel| !kernel.overwritten.is_empty());
    let is_list = |issue: &Issue| {
        let variable = issue.place.address.and_then(|at| case.look.variable(at));
        variable.is_some_and(|variable| variable.name.starts_with(KERNEL))
    };
    let of_moment = of_moment.filter(|issue| !ends_early || !is_list(issue));
    // And a mutex that an interrupt took.
    let taken: Vec<Addr> = case.events.iter().flat_map(|e| &e.wrong).filter_map(|call| call.object).collect();
    let of_moment = of_moment.filter(|issue| {
        !taken.iter().any(|object| is_of(issue, *object) && wrong_context::is_without_owner(*object, case))
    });
    // And a stack that begins where none can be.
    let of_moment = of_moment.filter(|issue| !issue.place.address.is_some_and(|at| thread_block::is_of(at, case)));
    of_moment.map(|issue| contradiction(issue, Confidence::Hint, case)).collect()
}

/// True where the kernel was in the middle of a call. One that a fault ended does not end by itself: what it left behind counts.
pub(super) fn is_within_call(case: &Case<'_>) -> bool {
    let is_over = case.cpus.is_some_and(|cpus| cpus.all.iter().any(in_fault));
    let holds = case.kernel.and_then(|kernel| kernel.preempt_disable).is_some_and(|times| times != 0);
    !is_over && (holds || within(case, &is_service).is_some())
}

/// True for a function of the kernel that may change its lists. The scheduler only looks at them.
pub(super) fn is_service(function: &str) -> bool {
    let is_of_kernel = PREFIXES.iter().any(|begin| function.starts_with(begin));
    is_of_kernel && !NO_SERVICES.iter().any(|begin| function.starts_with(begin))
}

fn damaged<'c>(case: &Case<'c>) -> impl Iterator<Item = &'c Issue> + use<'c> {
    case.kernel.into_iter().flat_map(|kernel| &kernel.issues).filter(|issue| issue.code == Code::KernelDamaged)
}

/// True for counts that no moment has: of a queue more messages than memory has words, of a pool more than its memory has.
fn is_impossible(issue: &Issue, case: &Case<'_>) -> bool {
    let at = |at: u64| {
        let object = case.kernel?.objects.iter().find(|object| near(object.address, at))?;
        let most = 1 << 30;
        match object.kind {
            // The kernel writes no other addresses to its pointers.
            Kind::Queue => {
                let counts = ["capacity", "enqueued", "available_storage"];
                let is_stray = case.kernel?.stray_pointer(object).is_some();
                Some(is_stray || counts.iter().any(|n| object.get(n).is_some_and(|n| n > most)))
            }
            // Its list of waiting threads may be that of a moment.
            Kind::BlockPool | Kind::BytePool => Some(case.kernel?.member_at(object, "available") == at),
            // The kernel writes an owner at once. Where the members are is known for certain by debug information alone.
            Kind::Mutex => {
                let is_certain = !case.kernel?.layout.is_inferred();
                let is_odd = object.owner().is_some_and(|owner| !owner.is_multiple_of(4));
                Some(is_certain && (is_odd || is_counted_by_none(object, case)))
            }
            _ => None,
        }
    };
    issue.place.address.and_then(at).unwrap_or(false)
}

/// True for a mutex that has a count and no owner, where by the code only threads take it, and the CPU is in no call of the kernel, which
/// writes both with interrupts disabled. An interrupt that takes a mutex leaves one without an owner, as does code that runs before the
/// kernel starts.
fn is_counted_by_none(mutex: &Object, case: &Case<'_>) -> bool {
    let takers = || case.usage()?.who(Act::Takes, Some(Kind::Mutex), mutex.address, None);
    let is_thread = |user: &User| matches!(user, User::Thread(_));
    let takes = |one: &Use| one.action.act == Act::Takes && one.object.is_none_or(|object| object == mutex.address);
    let is_taken_before = || case.usage().is_none_or(|usage| usage.uses_of(User::Start).iter().any(takes));
    let is_known = |cpu: &CpuState| cpu.functions.first().is_some_and(|function| function.name.is_some());
    let is_outside = || {
        let cpus = case.cpus.filter(|cpus| !cpus.all.is_empty());
        cpus.is_some_and(|cpus| cpus.all.iter().all(is_known)) && !is_within_call(case)
    };
    wrong_context::is_without_owner(mutex.address, case)
        && is_outside()
        && takers().is_some_and(|users| users.iter().all(is_thread))
        && !is_taken_before()
}

/// True for the address of a member of a control block.
fn near(block: u64, member: u64) -> bool {
    member.checked_sub(block).is_some_and(|offset| offset < MEMBERS)
}

/// True where a control block can be: aligned, and not in code.
fn can_be_block(at: Addr, case: &Case<'_>) -> bool {
    at != 0 && at.is_multiple_of(4) && case.look.function(at).is_none()
}

/// True where what is no control block was one: what follows it in the list points to it, or, of the first one, it has a name, or a
/// thread waits for it.
fn was_block(block: &Overwritten, case: &Case<'_>) -> bool {
    let is_named = || {
        let variable = case.look.variable(block.address);
        let is_registered = case.events.and_then(|events| events.name(block.address)).is_some();
        let has_room = |variable: &Symbol| variable.size == 0 || variable.size >= SMALLEST;
        is_registered || variable.filter(has_room).is_some_and(|variable| variable.address == block.address)
    };
    let is_waited = || threads(case).any(|thread| thread.suspended_on().is_some_and(|(_, at)| at == block.address));
    can_be_block(block.address, case) && !block.is_skipped && (block.from != 0 || is_named() || is_waited())
}

/// `where no timer is`, of the place that a pointer leads to.
fn where_none(block: &Overwritten, what: &str, case: &Case<'_>) -> String {
    let is = if block.found.is_some() && can_be_block(block.address, case) { "is" } else { "can be" };
    format!("where no {what} {is}")
}

/// A list points to where no control block is, or no memory: the block that points there was overwritten.
fn led_astray(block: &Overwritten, case: &Case<'_>) -> Finding {
    let what = block.kind.map_or("thread", |kind| kind.name());
    if block.from == 0 {
        return head(block, what, case);
    }
    let from =
        case.thread(block.from).map_or_else(|| case.object(block.from), |thread| format!("thread {}", thread.label()));
    let to = block.address;
    let reads = text(to, case).map_or_else(String::new, |text| format!(" (\"{text}\")"));
    let damage: Vec<&Issue> = issues_of(block.from, case).collect();
    let place = case.look.block(block.from);
    let place = place.map(|place| Evidence::symbol(block.from, &place, format!("{from} is in {place}")));
    let (claimed, doubt) = trust(block, !damage.is_empty(), case);
    Finding::new(
        explain::Code::CorruptControlBlock,
        case.cap(claimed),
        format!(
            "{from} was overwritten: its pointer to the next {what} points to {to:#x}{reads}, {}",
            where_none(block, what, case)
        ),
    )
    .against(doubt)
    .evidence([Evidence::memory(block.from, format!("{from}: its pointer to the next {what}")).holds(to)])
    .evidence(
        block.is_skipped.then(|| {
            Evidence::memory(block.from, format!("the {what} that follows in the list points back to {from}"))
        }),
    )
    .evidence(damage.iter().take(SHOWN).map(|issue| Evidence::memory(block.from, issue.message.clone())))
    .evidence(place)
    .explains(damaged(case).filter(|issue| issue.severity == Severity::Lost).map(|i| i.message.clone()))
    .next(format!("look for a write past an end next to {from}: of a stack above it, or of a buffer in front of it"))
    .threads([block.from])
}

/// What else contradicts itself in a control block.
fn issues_of<'c>(block: Addr, case: &Case<'c>) -> impl Iterator<Item = &'c Issue> + use<'c> {
    // That the list breaks there is known.
    let is_of_block = |issue: &&Issue| {
        matches!(issue.code, Code::KernelDamaged | Code::StackPointerOutside) && issue.severity != Severity::Lost
    };
    let all = case.kernel.into_iter().flat_map(|kernel| &kernel.issues).filter(is_of_block);
    all.filter(move |issue| issue.place.address.is_some_and(|at| near(block, at)))
}

/// How sure it is that a pointer was overwritten: a dump of a part of memory may lack the block that it leads to.
fn trust(block: &Overwritten, has_more: bool, case: &Case<'_>) -> (Confidence, Option<&'static str>) {
    if block.from == 0 && block.found.is_some() && can_be_block(block.address, case) {
        return (Confidence::Hint, Some("a control block that was overwritten may be there"));
    }
    let is_there = block.found.is_some() || has_more || !block.address.is_multiple_of(4) || block.address == 0;
    if is_there || case.look.function(block.address).is_some() {
        (Confidence::Likely, None)
    } else {
        (Confidence::Hint, Some("this source may lack the memory there, and the rest of the block is in order"))
    }
}

/// The variable that points to the first block of a list points to where none can be.
fn head(block: &Overwritten, what: &str, case: &Case<'_>) -> Finding {
    let name = block.kind.map_or_else(|| HEAD.to_owned(), Kind::head);
    let symbol = case.look.symbol(&name);
    let (claimed, doubt) = trust(block, false, case);
    let (confidence, mut detractors) = case.cap(claimed);
    detractors.extend(doubt.map(str::to_owned));
    let to = block.address;
    let list = block.kind.map_or_else(
        || "the head of the list of threads".to_owned(),
        |kind| format!("the head of the list of {} objects", kind.name()),
    );
    let none = where_none(block, what, case);
    let claim = match &symbol {
        Some(_) => format!("{name} was overwritten: {list} points to {to:#x}, {none}"),
        None => format!("{list} points to {to:#x}, {none}"),
    };
    let (confidence, evidence) = match &symbol {
        Some(symbol) => (confidence, vec![Evidence::memory(symbol.address, format!("{name}: {list}")).holds(to)]),
        // Where no variable is known, a search found what leads there.
        None => {
            detractors.push("no symbol shows where the list begins".to_owned());
            (Confidence::Hint, Vec::new())
        }
    };
    Finding::new(explain::Code::CorruptControlBlock, (confidence, detractors), claim)
        .evidence(evidence)
        .explains(damaged(case).filter(|issue| issue.severity == Severity::Lost).map(|i| i.message.clone()))
        .next(format!("look for a write past the end of what is in front of {name}"))
        .threads(symbol.map(|symbol| symbol.address))
}

fn overwritten(block: &Overwritten, found: u64, case: &Case<'_>) -> Finding {
    let (label, place, words) = (label(block, case), case.look.block(block.address), first_words(block.address, case));
    let same = words.iter().take_while(|word| **word == found).count();
    let reads = text(found, case).map_or_else(String::new, |text| format!(" (\"{text}\")"));
    let more = if same > 1 { format!(", and so do {} words after it", same.saturating_sub(1)) } else { String::new() };
    let mut evidence = vec![
        Evidence::memory(
            block.address,
            format!(
                "{label}: its first word is {:#x}{reads}, and not {:#x}{}{more}",
                found,
                block.id(),
                difference(found, block.id())
            ),
        )
        .holds(found),
    ];
    if let Some(place) = place {
        evidence.push(Evidence::symbol(block.address, &place, format!("{label} is in {place}")));
    }
    let overrun = pointer::text_into(block.address, case);
    let by_text = overrun.as_ref().map_or_else(String::new, |(text, _)| format!("; {text}"));
    evidence.extend(overrun.map(|(_, evidence)| evidence));
    let broken = damaged(case).filter(|issue| issue.severity == Severity::Lost);
    let within = threads(case).find(|thread| thread.holds(block.address)).map(Thread::label);
    let waiters: Vec<&Thread> =
        threads(case).filter(|thread| thread.suspended_on().is_some_and(|(_, at)| at == block.address)).collect();
    let of_waiter = |thread: &&Thread| Evidence::memory(thread.address, format!("{} waits for it", thread.label()));
    evidence.extend(waiters.iter().map(of_waiter));
    let waited = waited(&waiters);
    let stack = within.as_ref().map_or_else(String::new, |stack| format!(", in the stack of {stack},"));
    // The kernel fills the stack of a thread when it creates it.
    let fill = within.as_ref().filter(|_| found & 0xFFFF_FFFF == FILL);
    let fill =
        fill.map(|stack| format!(", which is what stacks are filled with when their threads are created ({stack})"));
    let is_on_stack = within.is_some();
    let finding = Finding::new(
        explain::Code::CorruptControlBlock,
        case.cap(Confidence::Likely),
        format!(
            "{label}{stack} was overwritten: it begins with {:#x}{reads} instead of its id{}{waited}{by_text}",
            found,
            fill.as_deref().unwrap_or_default()
        ),
    )
    .evidence(evidence)
    .explains(broken.map(|issue| issue.message.clone()))
    .next(match (within, fill) {
        (None, _) => format!("look for a write past the end of {}", writer(block.address, case)),
        (Some(stack), Some(_)) => {
            format!("compare the size that the stack of {stack} was created with and that of its memory")
        }
        (Some(stack), None) => {
            format!("it is in the stack of {stack}: it may be a variable of a function that has returned")
        }
    })
    .threads([block.address])
    .affected(waiters.iter().map(|thread| thread.address))
    .affected(followers(&words, case));
    if is_on_stack {
        return finding;
    }
    if by_text.is_empty() {
        return with_writer(finding, block.address, case);
    }
    with_what_is_in_front(finding, writers_in_front(block.address, case), block.address, case)
}

/// With who may have written over a control block.
pub(super) fn with_writer(finding: Finding, block: Addr, case: &Case<'_>) -> Finding {
    // Who is known to write to what is in front of it is the first to look at.
    let writers = writers_in_front(block, case);
    if let Some(other) = writers.is_none().then(|| OtherType::of(block, case)).flatten() {
        return other.added_to(finding);
    }
    match writers.is_none().then(|| WrongIndex::of(block, case)).flatten() {
        Some(wrong) => wrong.added_to(finding),
        None => with_what_is_in_front(finding, writers, block, case),
    }
}

/// How a word differs from the id that it was, where it was changed rather than overwritten: counted, or a bit of it.
fn difference(found: u64, id: u64) -> String {
    let by = found.abs_diff(id);
    match by {
        _ if (found ^ id).is_power_of_two() => " (one bit differs)".to_owned(),
        1..=COUNTED if found > id => format!(" ({by} more)"),
        1..=COUNTED => format!(" ({by} less)"),
        _ => String::new(),
    }
}

/// What is in front of an address that was overwritten.
struct InFront {
    /// In words.
    what: String,
    memory: Region,
    /// The variable.
    variable: String,
    /// The arrays that end there, where they are in the same variable.
    arrays: Option<String>,
    /// The same, the innermost last.
    ends: Vec<ArrayMember>,
}

fn in_front(at: Addr, case: &Case<'_>) -> Option<InFront> {
    match case.look.variable(at) {
        Some(own) if own.address < at => {
            let len = at.saturating_sub(own.address);
            let ends = case.look.arrays_before(at);
            let arrays = arrays::named(&ends);
            let what = match &arrays {
                Some(named) => format!("{named}, which ends in front of it, in {} itself", own.name),
                None => format!("the {len} bytes in front of it, in {} itself", own.name),
            };
            Some(InFront { what, memory: Region { start: own.address, len }, variable: own.name, arrays, ends })
        }
        _ => {
            let before = at.checked_sub(1).and_then(|before| case.look.variable(before))?;
            let within = case.look.arrays_before(at).into_iter();
            let within: Vec<ArrayMember> = within.filter(|array| array.name != before.name).collect();
            let end = arrays::named(&within).map_or_else(String::new, |named| format!("{named} at the end of "));
            let what = format!("{end}{}, which is in front of it", before.name);
            let memory = Region { start: before.address, len: before.size };
            Some(InFront { what, memory, variable: before.name, arrays: None, ends: Vec::new() })
        }
    }
}

/// Who wrote past its end where an address was overwritten: what is in front of it, and the functions that use that.
pub(super) fn writer(at: Addr, case: &Case<'_>) -> String {
    let Some(InFront { what, memory, .. }) = in_front(at, case) else { return "what is in front of it".to_owned() };
    let names: Vec<String> = case.functions_with(memory).into_iter().map(|at| function_at(at, case)).collect();
    let by = match names.as_slice() {
        [] => String::new(),
        all if all.len() > USERS => format!("; {} functions have its address", all.len()),
        all => format!("; {} {} its address", all.join(", "), if all.len() == 1 { "has" } else { "have" }),
    };
    let users = case.usage().filter(|_| !names.is_empty()).map(|usage| usage.users_of(memory)).unwrap_or_default();
    let users = match users.len() {
        n if n == 0 || n > USERS => String::new(),
        n => {
            let (call, them) =
                (if n == 1 { "calls" } else { "call" }, if names.len() == 1 { "it" } else { "some of them" });
            format!(", and {} {call} {them}", shared::names(&users, case))
        }
    };
    format!("{what}{by}{users}")
}

/// Who writes to the array that ends in front of an address, in the same variable.
fn writers_in_front(at: Addr, case: &Case<'_>) -> Option<Writers> {
    let InFront { memory, ends, .. } = in_front(at, case)?;
    set_by::writers(ends.last()?, memory, case)
}

/// With the array that ends in front of it, and who uses that without a lock.
fn with_what_is_in_front(finding: Finding, writers: Option<Writers>, at: Addr, case: &Case<'_>) -> Finding {
    let Some(InFront { memory, variable, arrays, .. }) = in_front(at, case) else { return finding };
    let claim = match arrays {
        Some(arrays) if arrays.starts_with("the arrays") => format!("{}; {arrays} end in front of it", finding.claim),
        Some(arrays) => format!("{}; {arrays} ends in front of it", finding.claim),
        None => finding.claim,
    };
    // Where it is known who writes to the array, or perhaps how far, others who share parts of that variable say nothing.
    let count = if writers.is_none() { counter::beyond(at, case) } else { None };
    let (count, counted) = count.unzip();
    let is_of_writers = |shared: &Shared| writers.as_ref().is_none_or(|writers| shared.is_by(&writers.callers));
    let shared = Shared::of(memory, &variable, case).filter(is_of_writers).filter(|_| count.is_none());
    let against = count.as_ref().map(|_| counter::AGAINST);
    let words = count.into_iter().chain(writers.as_ref().map(|writers| writers.words.clone()));
    let claim = words.fold(claim, |claim, words| format!("{claim}; {words}"));
    let proof = counted.into_iter().chain(writers.map(|writers| writers.evidence));
    Finding { claim, ..finding }.against(against).evidence(proof).with_shared(shared)
}

fn threads<'k>(case: &Case<'k>) -> impl Iterator<Item = &'k Thread> {
    case.kernel.into_iter().flat_map(|kernel| &kernel.threads)
}

/// Who waits for an object, behind a claim about it.
fn waited(waiters: &[&Thread]) -> String {
    let names: Vec<String> = waiters.iter().map(|thread| thread.label()).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} waits for it"),
        all => format!("; {} wait for it", all.join(", ")),
    }
}

fn contradiction(issue: &Issue, claimed: Confidence, case: &Case<'_>) -> Finding {
    let at = issue.place.address;
    let counter = at.and_then(|at| case.look.variable(at)).filter(|variable| variable.name.ends_with(COUNTER));
    let counts = at.and_then(|at| case.words(&case.look.bytes(at, 4)?, false).first().copied());
    let counter = counter.filter(|_| counts.is_none_or(is_below_zero));
    let (text, next) = match counter {
        // Nothing wrote there but the kernel.
        Some(counter) => (counter.name, "find what is deleted twice, or deleted and never created"),
        None => {
            (issue.message.clone(), "look at what is in front of it in memory: it was probably written past its end")
        }
    };
    let evidence = at.map(|at| Evidence::memory(at, text));
    let notified = at.and_then(|at| notified::writer(at, case));
    let claimed = if notified.is_some() { Confidence::Likely } else { claimed };
    // What may be of a moment needs no other explanation.
    let at_rest = at.filter(|_| claimed > Confidence::Hint && notified.is_none());
    let behind = at_rest.and_then(|at| behind(at, case));
    // Of a list, the kernel's own pointers are damaged, and not a count.
    let is_count = issue.severity != Severity::Lost;
    let owner = at_rest.and_then(|at| case.kernel?.objects.iter().map(|o| o.address).find(|block| near(*block, at)));
    let other = owner.and_then(|block| OtherType::of(block, case));
    let is_first =
        |at: &Addr| is_count && behind.is_none() && other.is_none() && case.look.arrays_before(*at).is_empty();
    let below = at_rest.filter(is_first).map(|at| WrongIndex::below(at, case)).unwrap_or_default();
    let next = match (&notified, &behind) {
        (Some(_), _) => "compare the type of its argument with that of the object",
        (None, Some(_)) => {
            "look at what is in front of it in memory, and at the indices of the array behind it: one below 0 leads there"
        }
        (None, None) => next,
    };
    let behind = behind.map(|(words, shown)| (words, shown.into_iter().collect()));
    let (words, shown) =
        notified.or(behind).map_or_else(Default::default, |(words, shown)| (format!("; {words}"), shown));
    let waiting = at.map_or_else(Vec::new, |at| waiting_for(at, case));
    let waited = waited(&waiting);
    let finding = Finding::new(
        explain::Code::CorruptControlBlock,
        case.cap(claimed),
        format!("{}{waited}{words}", issue.message),
    );
    let finding = finding
        .against((claimed == Confidence::Hint).then_some("it may be a moment in the middle of a call of the kernel"))
        .evidence(evidence)
        .evidence(shown)
        .next(next)
        .threads(at)
        .affected(waiting.iter().map(|thread| thread.address));
    let finding = at_rest.into_iter().fold(finding, |finding, at| same_word::added_to(finding, at, case));
    let finding = wrong_index::may_be(below, finding);
    other.into_iter().fold(finding, |finding, other| other.added_to(finding))
}

/// The threads that wait for the object in which an address is.
fn waiting_for<'k>(at: Addr, case: &Case<'k>) -> Vec<&'k Thread> {
    let objects = || case.kernel.into_iter().flat_map(|kernel| &kernel.objects);
    let all = objects().map(|object| object.address).filter(|address| near(*address, at));
    let Some(object) = all.max() else { return Vec::new() };
    threads(case).filter(|thread| thread.suspended_on().is_some_and(|(_, at)| at == object)).collect()
}

/// The array behind a control block, in the same variable, and who writes to it at an index that the code computes: one below 0 leads
/// into the control block. Where an array ends in front of the block, it may be either.
fn behind(block: Addr, case: &Case<'_>) -> Option<(String, Option<Evidence>)> {
    let variable = case.look.variable(block).filter(|_| case.look.arrays_before(block).is_empty())?;
    let array = case.look.array_behind(block)?;
    let memory = Region { start: variable.address, len: variable.size };
    let (writes, shown) = set_by::writers(&array, memory, case).map(|by| (by.words, by.evidence)).unzip();
    let writes = writes.map_or_else(String::new, |writes| format!("; {writes}"));
    Some((format!("the array {array} begins behind it{writes}"), shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_of_a_moment_in_a_service_of_the_kernel() {
        assert!(is_service("_tx_block_release"));
        assert!(is_service("_txe_block_release"));
        assert!(!is_service("_tx_thread_schedule"), "the idle loop changes no list");
        assert!(!is_service("release_all"));
        assert!(!is_service("PendSV_Handler"));
    }
    /// 40 litres were counted in element 24 of an array of 24, which was the id of the queue behind it.
    #[test]
    fn an_id_that_was_counted_up_was_shown_as_any_other_word() {
        assert_eq!(difference(0x5155_457D, 0x5155_4555), " (40 more)");
        assert_eq!(difference(0x5155_4550, 0x5155_4555), " (5 less)");
        assert_eq!(difference(0x5155_4557, 0x5155_4555), " (one bit differs)");
        assert_eq!(difference(0x2020_2020, 0x5155_4555), "");
        assert_eq!(difference(0, 0x5155_4555), "");
    }
}
