//! A few sentences about the end of the trace: what runs, who waits for what, what is close to its limit, what is lost.
//! Each is a fact of another table; what is taken from events and not from memory says so.
//! What `explain` finds comes before them, and what makes all of it doubtful before that.

use std::cmp::Reverse;

use crate::abi::Addr;
use crate::analysis::tracker::{ThreadState, Who};
use crate::analysis::{LastState, Made, Place, length};
use crate::kernel::{Above, Cpu, Kernel, Under};
use crate::output::Resolve;
use crate::report::{Cell, Report};
use crate::trace::{Issue, Severity, Trace};

/// The most sentences about one subject.
const MOST: usize = 5;
/// A stack of which so much was used is named.
const FULL: u64 = 80;
/// After what only the events show.
const BY_EVENTS: &str = " (by the events)";

/// What it is made of.
pub struct Verdict<'a> {
    /// The kernel in memory, where it was read.
    pub kernel: Option<&'a Kernel>,
    /// Names for what has none of its own.
    pub names: &'a dyn Resolve,
    /// What the events show.
    pub made: &'a Made<'a>,
    /// The report of inversions.
    pub inversions: Option<&'a Report>,
    /// The report of stack pointers in events.
    pub stack: Option<&'a Report>,
}

/// The exception that another one interrupted, where that is certain.
fn nested(kernel: &Kernel, core: usize) -> Option<String> {
    let found = kernel.interrupted.iter().find(|found| found.core == core)?;
    found.certain()?.within.clone()
}

/// What a thread or an object is called.
fn label(place: &Place, names: &dyn Resolve) -> String {
    let known = place.name.clone().filter(|name| !name.is_empty());
    known.or_else(|| names.object(place.address)).unwrap_or_else(|| format!("{:#x}", place.address))
}

/// What a thread does by the events, in words. `owner`: with the owner of the lock that it waits for.
pub fn words(last: &LastState, owner: bool, names: &dyn Resolve) -> String {
    let wait = match (last.state, &last.wait) {
        (ThreadState::Unknown, _) => return "unknown".to_owned(),
        (ThreadState::Running, _) => return "runs".to_owned(),
        (ThreadState::Ready, _) => return "ready".to_owned(),
        (ThreadState::Ended, _) => return "ended".to_owned(),
        (ThreadState::Blocked(_), None) => return "blocked".to_owned(),
        (ThreadState::Blocked(_), Some(wait)) => wait,
    };
    match (&wait.object, &wait.state, &wait.call) {
        (Some(object), ..) => {
            let kind = wait.object_type.map(|kind| kind.replace('_', " ") + " ").unwrap_or_default();
            let owner = wait.owner.as_ref().filter(|_| owner).map(|owner| format!(" ({})", label(owner, names)));
            format!("{kind}{}{}", label(object, names), owner.unwrap_or_default())
        }
        (None, Some(state), _) => state.clone(),
        (None, None, Some(call)) => format!("in {call}"),
        (None, None, None) => "blocked".to_owned(),
    }
}

/// True where events show the wait for this object; those of some objects do not name it.
fn is_wait_for(last: &LastState, object: Addr) -> bool {
    last.wait.as_ref().is_some_and(|wait| wait.object.as_ref().is_none_or(|known| known.address == object))
}

/// A thread that waits for an object.
struct Waiter {
    who: String,
    /// `mutex bus_mutex`
    what: String,
    owner: Option<String>,
    /// Ticks so far, and the event that blocked it.
    since: Option<(i64, u64)>,
    by: &'static str,
}

/// What waits are sorted by.
type Order = (bool, Reverse<Option<(i64, u64)>>);

/// Waits for what another has come first, then the longest.
const fn order(has_owner: bool, since: Option<(i64, u64)>) -> Order {
    (!has_owner, Reverse(since))
}

/// Why all other sentences are doubtful.
pub(super) fn doubts(trace: &Trace) -> Vec<String> {
    let causes = trace.issues.iter().filter(|issue| issue.is_cause());
    causes.map(|issue| format!("Doubtful: {}.", issue.message)).collect()
}

impl Verdict<'_> {
    const fn trace(&self) -> &Trace {
        self.made.system().trace
    }

    /// The sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut all: Vec<String> = self.old_end().into_iter().collect();
        all.extend(match self.kernel {
            Some(kernel) if !kernel.cpus.is_empty() => self.runs(kernel),
            _ => self.ran(),
        });
        all.extend(self.waits());
        all.extend(self.open_inversions());
        all.extend(self.stacks());
        all.extend(lost(&self.trace().issues));
        all
    }

    /// That the newest events are not among those that were read.
    fn old_end(&self) -> Option<String> {
        let unread = self.trace().unread_at_end();
        let newest = self.trace().newest().filter(|_| unread > 0)?;
        let slots = if unread == 1 { "slot" } else { "slots" };
        Some(format!(
            "The newest {unread} {slots} cannot be read: events show the state at event {}, not at the end.",
            newest.seq
        ))
    }

    /// What each CPU does, from memory and registers.
    fn runs(&self, kernel: &Kernel) -> Vec<String> {
        let name = |thread: Addr| self.in_kernel(kernel, thread);
        let one = |core: usize, cpu: &Cpu| {
            let Under::Thread(thread) = cpu.under else {
                return capital(&cpu.without_thread(&name).unwrap_or_default());
            };
            let priority = kernel.thread(thread).and_then(|t| t.priority);
            let thread = format!("{}{}", name(thread), priority.map(|p| format!(", priority {p}")).unwrap_or_default());
            let place = cpu.function.as_ref().map(|f| format!("; the CPU is in {f}")).unwrap_or_default();
            match (&cpu.above, cpu.above.words()) {
                (_, Some(above)) => match nested(kernel, core) {
                    Some(by) => format!("{} came within {by}, which interrupted {thread}{place}", capital(&above)),
                    None => format!("{} interrupted {thread}{place}", capital(&above)),
                },
                (Above::Unknown, _) if self.is_in_isr(core) => {
                    format!("By the last event an interrupt or exception interrupted {thread}")
                }
                (Above::Unknown, _) => {
                    format!("Running: {thread}; without registers it is not known whether an exception interrupted it")
                }
                _ => format!("Running: {thread}{place}"),
            }
        };
        let many = kernel.cpus.len() > 1;
        let core = |n: usize| if many { format!("Core {n}: ") } else { String::new() };
        kernel.cpus.iter().enumerate().map(|(n, cpu)| format!("{}{}.", core(n), one(n, cpu))).collect()
    }

    /// The name of a thread in memory.
    fn in_kernel(&self, kernel: &Kernel, thread: Addr) -> String {
        let name = kernel.thread(thread).and_then(|t| t.name.clone());
        label(&Place { address: thread, name }, self.names)
    }

    /// True where the last event of a core is of an interrupt that has not ended.
    fn is_in_isr(&self, core: usize) -> bool {
        self.trace().unread_at_end() == 0 && u16::try_from(core).is_ok_and(|core| self.made.system().is_in_isr(core))
    }

    /// What each core did last, by its events.
    fn ran(&self) -> Vec<String> {
        let system = self.made.system();
        let one = |core: u16| {
            let holder = match system.holder(core) {
                Who::Thread(no) => label(&Place::of(no, system), self.names),
                Who::Idle => "no thread (idle)".to_owned(),
                Who::Init => "initialization".to_owned(),
                Who::Isr | Who::Unknown => return None,
            };
            let what = if system.is_in_isr(core) { "An interrupt or exception interrupted " } else { "Running: " };
            let place = if system.cores() > 1 { format!("Core {core}: ") } else { String::new() };
            Some(format!("{place}{what}{holder}{BY_EVENTS}."))
        };
        let all: Vec<String> = (0..system.cores()).filter_map(one).collect();
        if all.is_empty() { vec!["What runs at the end is not known.".to_owned()] } else { all }
    }

    /// Who waits for an object: a lock that another has first, then the longest.
    fn waits(&self) -> Vec<String> {
        let (waiters, more) = match self.kernel {
            Some(kernel) => self.in_memory(kernel),
            None => self.by_events(),
        };
        let sentence = |w: &Waiter| {
            let owner = w.owner.as_ref().map(|owner| format!(", which {owner} owns")).unwrap_or_default();
            let since = match w.since {
                None => "; since when, no event shows".to_owned(),
                Some((ticks, seq)) => match length(&self.trace().clock, ticks) {
                    Some(length) => format!(": for {length}, since event {seq}"),
                    None => format!(": since event {seq}"),
                },
            };
            format!("{} waits for {}{owner}{since}{}.", w.who, w.what, w.by)
        };
        let mut all: Vec<String> = waiters.iter().map(sentence).collect();
        if more > 0 {
            all.push(format!("{more} more {} for objects.", if more == 1 { "thread waits" } else { "threads wait" }));
        }
        all
    }

    /// From memory, with the time that events show: the first of them, and how many more there are.
    fn in_memory(&self, kernel: &Kernel) -> (Vec<Waiter>, usize) {
        let mask = self.trace().about.word.max();
        // Where the newest events are missing, the wait in memory may be a later one than the last that events show.
        let is_whole = self.trace().unread_at_end() == 0;
        let since: Vec<LastState> = self.made.last_states().filter(|last| is_whole && last.wait.is_some()).collect();
        let waiter = |thread: &crate::kernel::Thread| {
            let wait = thread.waits.as_ref()?;
            let last = since.iter().find(|last| last.thread.address == thread.address & mask);
            let name = label(&Place { address: wait.address, name: wait.name.clone() }, self.names);
            let more = if wait.more.is_empty() { String::new() } else { format!(" ({})", wait.more) };
            Some(Waiter {
                who: self.in_kernel(kernel, thread.address),
                what: format!("{} {name}{more}", wait.kind.name()),
                owner: wait.owner.map(|owner| self.in_kernel(kernel, owner)),
                since: last.filter(|last| is_wait_for(last, wait.address & mask)).and_then(|last| last.since),
                by: "",
            })
        };
        let mut waiters: Vec<Waiter> = kernel.threads.iter().filter_map(waiter).collect();
        waiters.sort_by_key(|w| order(w.owner.is_some(), w.since));
        let more = waiters.len().saturating_sub(MOST);
        waiters.truncate(MOST);
        (waiters, more)
    }

    /// From events alone. Texts are made for the first alone: a damaged trace may name any number of threads.
    fn by_events(&self) -> (Vec<Waiter>, usize) {
        let key = |last: &LastState| {
            let wait = last.wait.as_ref()?;
            wait.object.as_ref()?;
            Some(order(wait.owner.is_some(), last.since))
        };
        let mut count = 0usize;
        let mut first: Vec<(Order, LastState)> = Vec::new();
        for last in self.made.last_states() {
            let Some(key) = key(&last) else { continue };
            count = count.saturating_add(1);
            let at = first.partition_point(|(before, _)| *before <= key);
            if at < MOST {
                first.insert(at, (key, last));
                first.truncate(MOST);
            }
        }
        let waiter = |(_, last): &(Order, LastState)| Waiter {
            who: label(&last.thread, self.names),
            what: words(last, false, self.names),
            owner: last.wait.as_ref().and_then(|wait| wait.owner.as_ref()).map(|owner| label(owner, self.names)),
            since: last.since,
            by: BY_EVENTS,
        };
        (first.iter().map(waiter).collect(), count.saturating_sub(first.len()))
    }

    /// Inversions that go on.
    fn open_inversions(&self) -> Vec<String> {
        let Some(report) = self.inversions else { return Vec::new() };
        let open = report
            .rows
            .iter()
            .filter(|row| text(report, row, "ended", self.names).is_some_and(|ended| ended == "open"));
        let sentence = |row: &[Cell]| {
            let of = |column| text(report, row, column, self.names);
            let waiter = of("waiter")?;
            let priority = |column| of(column).map(|p| format!(" (priority {p})")).unwrap_or_default();
            let mut said = format!(
                "Priority inversion: {waiter}{} waits while {}{} owns {}",
                priority("waiter_priority"),
                of("owner")?,
                priority("owner_priority"),
                of("mutex")?
            );
            if let (Some(culprit), Some(Cell::Ticks(ticks))) = (of("culprit"), cell(report, row, "culprit_ticks")) {
                let time = length(&self.trace().clock, *ticks).map(|time| format!(" for {time}")).unwrap_or_default();
                said.push_str(&format!("; {culprit} ran{time} of it"));
            }
            Some(said + BY_EVENTS + ".")
        };
        let mut all: Vec<String> = open.clone().filter_map(sentence).take(MOST).collect();
        let more = open.count().saturating_sub(MOST);
        if more > 0 {
            all.push(format!("{more} more inversions are open: tx-trace inversions."));
        }
        all
    }

    /// The stacks of which much was used; the fullest where it is none.
    fn stacks(&self) -> Vec<String> {
        let (mut stacks, by) = match self.kernel {
            Some(kernel) => (high(kernel), ""),
            None => (self.lowest(), ", by the stack pointers in events"),
        };
        stacks.sort_by_key(|(_, used, size)| std::cmp::Reverse(percent(*used, *size)));
        let describe = |(name, used, size): &(String, u64, u64)| {
            format!("{name} {used} of {size} bytes ({} %)", percent(*used, *size))
        };
        let full = stacks.iter().filter(|(_, used, size)| percent(*used, *size) >= FULL);
        let names: Vec<String> = full.take(MOST).map(describe).collect();
        match stacks.first() {
            None => Vec::new(),
            Some(_) if !names.is_empty() => {
                vec![format!("Stacks that were used to {FULL} % or more: {}{by}.", names.join(", "))]
            }
            Some(first) => {
                vec![format!("No stack was used to {FULL} % or more; the fullest: {}{by}.", describe(first))]
            }
        }
    }

    /// Stacks by the pointers in events: name, bytes, size.
    fn lowest(&self) -> Vec<(String, u64, u64)> {
        let Some(report) = self.stack else { return Vec::new() };
        let number = |row: &[Cell], column| match cell(report, row, column) {
            Some(Cell::Count(n)) => Some(*n),
            _ => None,
        };
        let stack = |row: &[Cell]| {
            let (size, free) = (number(row, "size")?, number(row, "available")?);
            Some((text(report, row, "thread", self.names)?, size.saturating_sub(free), size))
        };
        report.rows.iter().filter_map(stack).collect()
    }
}

/// Stacks by their high-water marks in memory: name, bytes, size.
fn high(kernel: &Kernel) -> Vec<(String, u64, u64)> {
    let stack = |thread: &crate::kernel::Thread| {
        let size = thread.stack.size.filter(|_| thread.pthread.is_none())?;
        Some((thread.label(), thread.stack.high.bytes(Some(size))?, size))
    };
    kernel.threads.iter().filter_map(stack).collect()
}

/// A sentence begins with a capital letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part).saturating_mul(100).checked_div(whole.into()).unwrap_or(0);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// What is lost.
fn lost(issues: &[Issue]) -> Vec<String> {
    let of = |severity| issues.iter().filter(move |issue| issue.severity == severity && !issue.is_cause());
    let mut all: Vec<String> = of(Severity::Lost).take(MOST).map(|issue| format!("Lost: {}.", issue.message)).collect();
    let more = of(Severity::Lost).count().saturating_sub(MOST);
    if more > 0 {
        all.push(format!("{more} more kinds of losses: see the notes."));
    }
    let inferred = of(Severity::Inferred).count();
    if inferred > 0 {
        let what = if inferred == 1 { "1 fact is" } else { &format!("{inferred} facts are") };
        all.push(format!("{what} inferred: see the notes."));
    }
    all
}

/// A cell by the name of its column.
fn cell<'r>(report: &Report, row: &'r [Cell], name: &str) -> Option<&'r Cell> {
    report.columns.iter().zip(row).find(|(column, _)| column.name == name).map(|(_, cell)| cell)
}

/// The same as text.
fn text(report: &Report, row: &[Cell], name: &str, names: &dyn Resolve) -> Option<String> {
    match cell(report, row, name)? {
        Cell::Text(text) => Some(text.clone()),
        Cell::Word(text) => Some((*text).to_owned()),
        Cell::Named(address, name) => {
            Some(label(&Place { address: *address, name: name.as_ref().map(|name| name.0.clone()) }, names))
        }
        Cell::Count(n) => Some(n.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "No stack was used to 80 % or more": a stack of 2^62 bytes that was used to its end had 3 %.
    #[test]
    fn a_percentage_of_a_large_number_was_cut() {
        assert_eq!(percent((1 << 62) - 16, 1 << 62), 99);
        assert_eq!((percent(u64::MAX, u64::MAX), percent(u64::MAX, 1), percent(1, 0)), (100, u64::MAX, 0));
    }
}
