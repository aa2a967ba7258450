//! What contradicts itself in a kernel's state: lists, priorities, stacks, and members of control blocks.

use std::collections::HashSet;

use super::layout_match::THREAD_ID;
use super::stack::MAX;
use super::walk::{Broken, Walk};
use super::{High, Kernel, Kind, Object, Stacks, Thread};
use crate::abi::Addr;
use crate::code::Code;
use crate::mem::Region;
use crate::sym::Symbols;
use crate::trace::{Issue, Place, Severity, many};

/// The fewest and the most priorities that a kernel is built with.
const FEWEST: u64 = 32;
const MOST: u64 = 1024;

/// What a list points to, where no such block is: another word is there instead of its id, or no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwritten {
    /// What it should be; `None` for a thread.
    pub kind: Option<Kind>,
    /// Where it is.
    pub address: Addr,
    /// The control block, or the list's head, that points to it.
    pub from: Addr,
    /// The word that is there instead; `None` where no memory is there.
    pub found: Option<u64>,
    /// What follows in the list points back to `from`: only the pointer there is wrong.
    pub is_skipped: bool,
    /// Its name, where the trace or a symbol has one. Hostile text: escape before printing.
    pub name: Option<String>,
}

impl Overwritten {
    /// The word that such a block begins with.
    pub const fn id(&self) -> u64 {
        match self.kind {
            Some(kind) => kind.id(),
            None => THREAD_ID,
        }
    }

    /// The control block that this shows to be damaged, and how; `None` for the head of a list.
    pub fn damage(&self) -> Option<(Addr, String)> {
        match self.found {
            Some(found) => Some((self.address, format!("its control block begins with {found:#x} instead of its id"))),
            None => (self.from != 0).then(|| {
                (self.from, format!("its pointer to the next one leads to {:#x}, where no memory is", self.address))
            }),
        }
    }
}

/// The control block at which a list breaks.
pub(super) fn overwritten(
    walk: &Walk,
    kind: Option<Kind>,
    names: &dyn Fn(Addr) -> Option<String>,
) -> Option<Overwritten> {
    match walk.broken {
        Some(Broken::Stranger(from, address, found)) => {
            let is_skipped = walk.behind == Some(from);
            Some(Overwritten { kind, address, from, found: Some(found), is_skipped, name: names(address) })
        }
        Some(Broken::Wild(from, address)) => {
            Some(Overwritten { kind, address, from, found: None, is_skipped: false, name: None })
        }
        _ => None,
    }
}

/// True where a message of so many bytes begins, and at the end of the storage, where the kernel goes back to its start.
fn begins_message(at: Addr, storage: Region, bytes: u64) -> bool {
    let offset = at.checked_sub(storage.start).filter(|offset| *offset <= storage.len);
    offset.is_some_and(|offset| offset.is_multiple_of(bytes))
}

impl Kernel {
    /// Everything that can be checked once threads and objects are resolved.
    pub(super) fn check(&mut self, symbols: &dyn Symbols) {
        self.check_cores(symbols);
        self.check_stacks();
        let list = symbols.lookup("_tx_thread_priority_list").map(|s| s.size);
        let own = list.and_then(|size| size.checked_div(self.layout.shape.pointer.size()));
        self.check_priorities(own.filter(|n| (FEWEST..=MOST).contains(n)));
        let threads = self.threads.iter().filter_map(|thread| self.stack_end(thread));
        let found: Vec<Issue> = threads.chain(self.objects.iter().filter_map(|o| self.members(o))).collect();
        self.issues.extend(found);
    }

    /// A thread that runs on two cores.
    fn check_cores(&mut self, symbols: &dyn Symbols) {
        const CURRENT: &str = "_tx_thread_current_ptr";
        let step = self.layout.shape.pointer.size();
        let mut seen = HashSet::new();
        for (core, thread) in (0u64..).zip(&self.current).filter(|(_, thread)| **thread != 0) {
            if seen.insert(*thread) {
                continue;
            }
            let name = self.thread(*thread).map_or_else(|| format!("{thread:#x}"), Thread::label);
            let issue = Issue::new(
                Code::KernelDamaged,
                format!("{CURRENT} of core {core} is {name}, as that of another core is"),
            );
            let at = symbols.lookup(CURRENT).and_then(|s| s.address.checked_add(core.checked_mul(step)?));
            self.issues.push(match at {
                Some(at) => issue.at(Place::address(at)),
                None => issue,
            });
        }
    }

    /// A stack whose end is not where its start and size put it.
    fn stack_end(&self, thread: &Thread) -> Option<Issue> {
        let Region { start, len } = thread.stack.region()?;
        let (end, last) = thread.end_of_stack()?;
        let message = format!(
            "thread {}: its stack of {len} bytes at {start:#x} ends at {last:#x}, and its control block says {end:#x}",
            thread.label()
        );
        let at =
            self.layout.thread.offset("tx_thread_stack_end").map(|offset| self.layout.address(thread.address, offset));
        (end != last).then(|| Issue::new(Code::KernelDamaged, message).at(Place::address(at.unwrap_or(thread.address))))
    }

    /// Members of an object that contradict each other.
    fn members(&self, object: &Object) -> Option<Issue> {
        let get = |name| object.get(name);
        let (member, what) = match object.kind {
            Kind::Queue => match self.stray_pointer(object) {
                Some((member, at)) => {
                    (member, format!("its tx_queue_{member} is {at:#x}, where no message of it begins"))
                }
                None => {
                    let (used, free, all) = (get("enqueued")?, get("available_storage")?, get("capacity")?);
                    let what = format!("{used} messages enqueued and room for {free} more, of {all} in all");
                    ("enqueued", (used.checked_add(free) != Some(all)).then_some(what)?)
                }
            },
            Kind::Mutex => {
                let times = get("ownership_count").filter(|n| *n > 0 && get("owner") == Some(0))?;
                ("ownership_count", format!("it is owned {times} times, by no thread"))
            }
            Kind::BlockPool => ("available", self.block_pool(object)?),
            Kind::BytePool => {
                let (free, size) = (get("available")?, get("size")?);
                let what = format!("it counts {free} bytes free, and its memory has {size}");
                ("available", (free > size).then_some(what)?)
            }
            _ => return None,
        };
        let message = format!("{} {}: {what}", object.kind.name(), object.label());
        Some(Issue::new(Code::KernelDamaged, message).at(Place::address(self.member_at(object, member))))
    }

    /// The pointer of a queue to its next message, or to where the next one goes, that leads to no message of its storage, and where it
    /// leads. `None` where its members do not show its storage.
    pub(crate) fn stray_pointer(&self, queue: &Object) -> Option<(&'static str, Addr)> {
        let get = |name| queue.get(name).filter(|_| queue.kind == Kind::Queue);
        let (start, end) = (get("start")?, get("end")?);
        let message = get("message_size")?.checked_mul(self.layout.shape.word.bytes() as u64)?;
        let len = message.checked_mul(get("capacity")?).filter(|len| *len > 0)?;
        if end.checked_sub(start) != Some(len) {
            return None;
        }
        let storage = Region { start, len };
        let stray = |name| get(name).filter(|at| !begins_message(*at, storage, message)).map(|at| (name, at));
        stray("write").or_else(|| stray("read"))
    }

    /// Counts of a block pool that its memory cannot have: each block has a pointer in front of it.
    fn block_pool(&self, pool: &Object) -> Option<String> {
        let (free, all) = (pool.get("available")?, pool.get("total")?);
        let (size, block) = (pool.get("size")?, pool.get("block_size")?);
        let step = block.checked_add(self.layout.shape.pointer.bytes() as u64)?;
        let room = size.checked_div(step)?;
        let what = format!("it counts {free} blocks free, of {all} in all, and its memory has room for {room}");
        (free > all || all > room).then_some(what)
    }

    /// The address of a member of an object.
    pub(crate) fn member_at(&self, object: &Object, member: &str) -> Addr {
        let offset = self.layout.object(object.kind).and_then(|of| of.offset(member));
        self.layout.address(object.address, offset.unwrap_or(0))
    }

    /// Priorities that this kernel cannot have, of which it has `own` where its list shows that.
    fn check_priorities(&mut self, own: Option<u64>) {
        let most = own.unwrap_or(MOST);
        let wild = |p: &Option<u32>| p.filter(|p| u64::from(*p) >= most);
        // A thread in the middle of a change has its threshold there first: all three are checked.
        let of = |t: &Thread| [t.priority, t.own_priority, t.threshold].iter().find_map(wild);
        let all: Vec<(&Thread, u32)> = self.threads.iter().filter_map(|t| Some((t, of(t)?))).collect();
        let Some((thread, value)) = all.first() else { return };
        let has =
            if own.is_some() { format!("this kernel has {most}") } else { format!("no kernel has more than {most}") };
        // An ELF of another build has the members of all threads elsewhere.
        let or = if all.len() >= self.threads.len() { ", or the ELF is that of another build" } else { "" };
        let message = format!(
            "thread {}: a priority or threshold of {value} in its control block: {has}; it was overwritten{or}",
            thread.label()
        );
        let issue = Issue::new(Code::KernelDamaged, message).at(Place::address(thread.address));
        let count = all.len() as u64;
        self.issues.push(issue.times(count));
    }

    /// Threads that are or may be of modules, whose stacks are not known.
    pub(super) fn check_modules(&mut self) {
        let of: Vec<&Thread> = self.threads.iter().filter(|t| t.stacks == Stacks::Unknown).collect();
        let Some(first) = of.first().map(|t| t.label()) else { return };
        let message = format!(
            "it is not known which stack a thread that is or may be of a module is on, its own or that for calls of the kernel, nor how much of them was used; the first is {first}"
        );
        let count = of.len() as u64;
        self.issues.push(Issue::new(Code::KernelLayoutTail, message).times(count));
    }

    /// Stacks that were used up, and stack pointers that are elsewhere.
    fn check_stacks(&mut self) {
        let filled = self.threads.iter().any(|t| matches!(t.stack.high, High::Bytes(_)));
        for thread in &mut self.threads {
            // Of a stack that begins elsewhere, what was read there says nothing: its end is further away than any stack is long.
            let ends = thread.stack.start.zip(thread.end_of_stack());
            let is_elsewhere =
                |(start, (end, _)): (Addr, (Addr, Addr))| end.checked_sub(start).is_none_or(|len| len >= MAX);
            if ends.is_some_and(is_elsewhere) {
                thread.stack.high = High::Unknown;
            }
            let (label, address) = (thread.label(), thread.address);
            let stacks = [("stack", Some(&mut thread.stack)), ("kernel stack", thread.kernel_stack.as_mut())];
            for (name, stack) in stacks.into_iter().filter_map(|(name, stack)| Some((name, stack?))) {
                if !filled && stack.high == High::Full {
                    // The kernel was built without the fill.
                    stack.high = High::Unknown;
                }
                if stack.high == High::Full {
                    let message = format!(
                        "thread {label}: the lowest bytes of its {name} ({:#x}) were written: it was used to its end, or beyond it",
                        stack.start.unwrap_or(0)
                    );
                    let issue = Issue::new(Code::StackUsedUp, message);
                    self.issues.push(issue.at(Place::address(address)));
                }
                if let Some(pointer) = stack.pointer.filter(|p| !stack.holds(*p)) {
                    let message =
                        format!("thread {label}: its saved stack pointer {pointer:#x} is outside of its {name}");
                    let issue = Issue::new(Code::StackPointerOutside, message);
                    self.issues.push(issue.at(Place::address(address)));
                }
            }
        }
    }
}

/// What is wrong with a list. `counter`: where the kernel counts its entries.
pub(super) fn of_walk(walk: &Walk, of: &str, count: Option<u64>, counter: Option<Addr>) -> Vec<Issue> {
    let mut issues = Vec::new();
    if let Some(broken) = &walk.broken {
        let mut message = broken.sentence(of);
        if walk.recovered > 0 {
            message.push_str(&format!("; its backward pointers lead to {} more", walk.recovered));
        }
        if walk.led > 0 {
            message.push_str(&format!(
                "; {} were found from other variables of the kernel, or the trace's registry",
                walk.led
            ));
        }
        if let Some(count) = count {
            message.push_str(&format!("; the kernel counts {count}, {} could be read", walk.nodes.len()));
        }
        issues.push(Issue::new(Code::KernelDamaged, message).severity(Severity::Lost));
    }
    let len = walk.nodes.len() as u64;
    if let Some(count) = count.filter(|c| *c != len && walk.broken.is_none()) {
        let message = format!("the list of {of} has {len}, the kernel counts {count}");
        // A count below zero is that of no moment.
        let issue = if count & 0xFFFF_FFFF >= 1 << 31 {
            let why = if is_below_zero(count) { "more were deleted than were created" } else { "it was overwritten" };
            let message = format!("{message}: {why}");
            let issue = Issue::new(Code::KernelDamaged, message).severity(Severity::Lost);
            Issue { place: Place { address: counter, ..issue.place }, ..issue }
        } else {
            Issue::new(Code::KernelDamaged, message)
        };
        issues.push(issue);
    }
    if walk.bad_back_links > 0 {
        let wrong = many(walk.bad_back_links as u64, "backward pointer does", "backward pointers do");
        let mut message = format!("the list of {of}: {wrong} not point to the entry before");
        if walk.recovered > 0 && walk.broken.is_none() {
            message.push_str(&format!("; {} that it skips were found backwards", walk.recovered));
        }
        issues.push(Issue::new(Code::KernelDamaged, message));
    }
    issues
}

/// So far below zero a count may be.
const FEW: u64 = 1024;

/// True for a count from which a few more were taken than it had.
pub const fn is_below_zero(count: u64) -> bool {
    count & 0xFFFF_FFFF > 0xFFFF_FFFF - FEW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_zero_was_taken_for_that_of_a_moment() {
        let of = |count| of_walk(&Walk::default(), "semaphore objects", Some(count), Some(0x2000_0010));
        let [issue] = of(0xFFFF_FFFF).try_into().unwrap();
        assert_eq!(issue.severity, Severity::Lost);
        assert!(issue.message.ends_with("more were deleted than were created"), "{}", issue.message);
        assert_eq!(issue.place.address, Some(0x2000_0010), "the counter");
        let [issue] = of(0xEFEF_EFEF).try_into().unwrap();
        assert!(issue.message.ends_with("it was overwritten"), "fill was many deletes: {}", issue.message);
        let [issue] = of(3).try_into().unwrap();
        assert_ne!(issue.severity, Severity::Lost);
    }

    /// An index of a machine's hoops was one too large, and what it wrote was where a queue goes on.
    #[test]
    fn a_pointer_of_a_queue_leads_to_a_message() {
        for word in [4, 8] {
            let storage = Region { start: 0x1000, len: 20 * 2 * word };
            let of = |at| begins_message(at, storage, 2 * word);
            assert!(of(0x1000) && of(0x1000 + 38 * word) && of(0x1000 + 40 * word), "the end is the start again");
            assert!(!of(0x1000 + word), "in a message");
            assert!(!of(0x1000 + 42 * word) && !of(0x0FF0) && !of(0xFFFE_EAA8), "elsewhere");
        }
    }
}
