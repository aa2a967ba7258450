//! EXPLAIN: from the state of the kernel and the last events to the likely cause of a failure. Each rule is one file in
//! `rules`; it looks at a [`Case`] and returns findings. Rules use effects, states and control blocks, never the names of an
//! application.

mod address;
mod before;
mod cpus;
mod events;
mod finding;
mod graph;
mod look;
mod numbering;
mod rules;
mod state;
mod summary;
mod trust;
mod usage;

pub use before::Before;
pub use cpus::Cpus;
pub use events::Events;
pub use finding::{Behind, Code, Confidence, Evidence, Finding, Source};
pub use look::Look;
pub use trust::Trust;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::abi::Region;
use crate::kernel::{CalledFrom, Kernel, Kind, Thread, exception};
use graph::Graph;
use rules::CHECKS;
use usage::Usage;

/// The number of the first exception that a program may announce as an interrupt.
const FIRST_NAMED: u64 = 11;

/// So many bytes behind an address that a pointer holds may be written through it.
const NEAR: u64 = 256;

/// The most findings that may be behind a null pointer.
const MOST_REASONS: usize = 2;

/// The most threads of a finding whose calls are named.
const MOST_CALLS: usize = 4;

/// The most functions that are named behind the one in which such a thread called the kernel.
const MOST_CALLERS: usize = 2;

/// What rules look at.
pub struct Case<'a> {
    /// The kernel in memory, where it was read.
    pub kernel: Option<&'a Kernel>,
    /// What the CPUs do, where registers are known.
    pub cpus: Option<&'a Cpus>,
    /// What the events show, where there is a trace.
    pub events: Option<&'a Events>,
    /// The run before, where the trace still has events of it.
    pub before: Option<&'a Before>,
    /// How far memory can be trusted.
    pub trust: Trust,
    /// Memory and names.
    pub look: &'a Look<'a>,
    /// Who uses what by the program's code, once a rule has asked.
    usage: OnceCell<Option<Usage<'a>>>,
    /// What has to be added to the numbers of interrupts in the trace, once it was looked for.
    added: OnceCell<Option<u64>>,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// The findings, the most likely cause first.
    pub findings: Vec<Finding>,
    /// What the CPUs and the threads do, in sentences. Hostile text: escape before printing.
    pub state: Vec<String>,
    /// What was checked, in order.
    pub checked: Vec<Checked>,
    /// What could not be checked, and what that would need.
    pub not_checked: Vec<String>,
    /// The kernel's state was read with the ELF of its build: the threads, and what they wait for.
    pub has_kernel: bool,
}

/// One check and what it found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What was looked at, in a few words.
    pub what: &'static str,
    /// The kinds of failures that were found there.
    pub found: Vec<Code>,
    /// Those that another finding explains.
    pub symptoms: Vec<Code>,
}

impl Explanation {
    /// Applies all rules.
    #[must_use]
    pub fn of(case: &Case<'_>) -> Self {
        let graph = Graph::of(case);
        let (mut findings, mut checked) = (Vec::new(), Vec::new());
        for check in CHECKS {
            let new = (check.find)(case, &graph);
            let codes: BTreeSet<Code> = new.iter().map(|finding| finding.code).collect();
            let found = codes.into_iter().collect();
            checked.push(Checked { what: check.what, found, symptoms: Vec::new() });
            findings.extend(new);
        }
        // Vectors that were overwritten show in interrupts: the fault of a thread has another cause.
        let is_in_interrupt = findings.iter().any(|finding: &Finding| finding.code == Code::IsrFault);
        findings.iter_mut().for_each(|finding| finding.damages_memory &= is_in_interrupt);
        // A sort that keeps the order of the rules, which have causes before symptoms.
        findings.sort_by_key(|finding| {
            let Finding { confidence, is_usual, .. } = finding;
            (*confidence == Confidence::Hint, *is_usual, finding.comes_first(), std::cmp::Reverse(*confidence))
        });
        // The first of several that say the same of the same threads has more.
        let mut said: Vec<(Code, Vec<u64>)> = Vec::new();
        findings.retain(|finding| {
            let key = (finding.code, finding.threads.clone());
            let is_new = finding.threads.is_empty() || !said.contains(&key);
            said.push(key);
            is_new
        });
        let findings = without_symptoms(findings);
        let is_shown = |code: &Code| findings.iter().any(|finding| finding.code == *code);
        for check in &mut checked {
            (check.found, check.symptoms) = check.found.iter().partition(|code| is_shown(code));
        }
        let mut findings = with_otherwise(with_reason(with_circles(findings)));
        findings.iter_mut().for_each(|finding| finding.evidence.extend(calls(finding, case)));
        for finding in &mut findings {
            finding.explains = once_each(&finding.claim, std::mem::take(&mut finding.explains));
        }
        let not_checked = not_checked(case, &findings);
        let has_kernel = case.kernel.is_some() && !case.trust.other_build;
        Self { findings, state: summary::of(case, &graph), checked, not_checked, has_kernel }
    }
}

/// Sentences in their order, without those that were said before, in the claim too, or that begin as one of those did.
fn once_each(claim: &str, all: Vec<String>) -> Vec<String> {
    let first = |text: &str| text.find(", ").map(|end| text.get(..end).unwrap_or_default().to_owned());
    let mut said: Vec<String> = Vec::new();
    for text in all {
        let goes_on = |rest: &str| rest.is_empty() || rest.starts_with([';', ':']);
        let is_known = |before: &String| text.strip_prefix(before.as_str()).is_some_and(goes_on);
        let is_claim = first(&text).is_some_and(|begins| first(claim).is_some_and(|claimed| claimed == begins));
        if !is_claim && !said.iter().any(is_known) {
            said.push(text);
        }
    }
    said
}

/// Findings about threads that an earlier one is about, or that wait behind those, are its symptoms: they are listed under it.
fn without_symptoms(all: Vec<Finding>) -> Vec<Finding> {
    let mut causes: Vec<Finding> = Vec::new();
    for finding in all {
        let explains = |cause: &&mut Finding| {
            let known = |thread| cause.threads.contains(thread) || cause.affected.contains(thread);
            if cause.damages_memory && matches!(finding.comes_first(), 2 | 3) && cause.confidence > Confidence::Hint {
                return finding.code == Code::IsrFault;
            }
            // A lock that an interrupt was to give back is part of a circle.
            let is_circle = finding.code == Code::Deadlock && cause.code == Code::WrongContext;
            let is_of_circle = is_circle && finding.threads.iter().all(&known);
            let follows = finding.code.may_be_symptom() || cause.code.damages(finding.code) || is_of_circle;
            // Messages were refused before the loop began.
            if is_refusal(&finding) && cause.code == Code::Starvation {
                return false;
            }
            // A switch of threads fails at what an overflow left of a saved stack, whichever thread is current then.
            if finding.is_in_switch && cause.code == Code::StackOverflow && cause.confidence > Confidence::Hint {
                return true;
            }
            follows && !finding.threads.is_empty() && finding.threads.iter().all(known)
        };
        match causes.iter_mut().find(explains) {
            // What the threads of a circle wait for is the circle itself.
            Some(cause)
                if cause.code == Code::Deadlock && finding.threads.iter().all(|t| cause.threads.contains(t)) => {}
            Some(cause) if finding.confidence > Confidence::Hint => cause.explains.push(finding.claim),
            Some(_) => {}
            None => causes.push(finding),
        }
    }
    causes
}

/// The owner of a lock that waits may be in a circle, which is a hint: the two are one.
fn with_circles(mut findings: Vec<Finding>) -> Vec<Finding> {
    let is_owner = |finding: &Finding| finding.code == Code::LockOwnerGone && finding.confidence > Confidence::Hint;
    let Some(owner) = findings.iter().position(is_owner) else { return findings };
    let threads = findings.get(owner).map(|finding| finding.threads.clone()).unwrap_or_default();
    if threads.is_empty() {
        return findings;
    }
    let is_circle = |finding: &Finding| {
        let is_possible = finding.code == Code::Deadlock && finding.confidence == Confidence::Hint;
        is_possible && threads.iter().all(|thread| finding.threads.contains(thread))
    };
    let Some(circle) = findings.iter().position(is_circle).filter(|at| *at > owner) else { return findings };
    let circle = findings.remove(circle);
    if let Some(owner) = findings.get_mut(owner) {
        owner.claim = format!("{}; perhaps a circle: {}", owner.claim, circle.claim);
        let new: Vec<Evidence> = circle.evidence.into_iter().filter(|one| !owner.evidence.contains(one)).collect();
        owner.evidence.extend(new);
        owner.detractors.extend(circle.detractors);
        owner.explains.extend(circle.explains);
        owner.affected.extend(circle.affected);
        owner.next = format!("{}; {}", owner.next, circle.next);
    }
    findings
}

/// True for messages that a full queue refused, at some time.
fn is_refusal(finding: &Finding) -> bool {
    finding.code == Code::QueueFull && finding.is_usual
}

/// What was found of other threads may be why a program stopped itself, and what denied memory why a variable holds a null pointer.
fn with_reason(mut findings: Vec<Finding>) -> Vec<Finding> {
    let by_code = |first: &Finding| {
        let is_fault = first.code.is_fault() || matches!(first.code, Code::Fault | Code::IsrFault);
        match first.code {
            Code::PoolEmpty => Some(Behind::SamePool),
            Code::Starvation => Some(Behind::RefusedMessages),
            _ => is_fault.then_some(Behind::Overwritten),
        }
    };
    let behind = |first: &Finding| Some((first.clone(), first.behind.or_else(|| by_code(first))?));
    let Some((first, behind)) = findings.first().and_then(behind) else { return findings };
    let (threads, runs) = (first.threads.clone(), first.runs.clone());
    let places: BTreeSet<u64> = first.evidence.iter().filter_map(|one| one.address).collect();
    let runs_in = |finding: &Finding| finding.runs.iter().any(|at| runs.contains(at));
    // What is said of the thread that stopped follows from the stop.
    // A pool is used up for all who ask for its memory.
    let is_of_others = |finding: &Finding| {
        let is_pool = finding.denies_memory && finding.confidence > Confidence::Hint;
        let is_about_others = !finding.threads.is_empty() && !finding.threads.iter().any(|at| threads.contains(at));
        !finding.is_usual && (is_about_others || is_pool)
    };
    // A pointer that leads to what failed, or a little in front of it.
    let leads_there = |to: u64| places.range(to..=to.saturating_add(NEAR)).next().is_some();
    let may_be_of = |finding: &Finding| {
        let to = finding.evidence.first().and_then(|first| first.value);
        finding.confidence > Confidence::Hint || to.is_some_and(leads_there)
    };
    let is_of_pool =
        |finding: &Finding| finding.evidence.iter().any(|one| one.address.is_some_and(|at| places.contains(&at)));
    let (is_it, most): (&dyn Fn(&Finding) -> bool, usize) = match behind {
        Behind::OtherThreads if first.confidence > Confidence::Hint => (&is_of_others, 1),
        Behind::OtherThreads => return findings,
        Behind::NoMemory => (&|finding| finding.denies_memory && !finding.is_usual, MOST_REASONS),
        Behind::SamePool => (&|finding| finding.code == Code::PoolLeak && is_of_pool(finding), 1),
        Behind::RefusedMessages => {
            (&|finding| is_refusal(finding) && finding.threads.iter().any(|at| threads.contains(at)), 1)
        }
        Behind::Overwritten => (&|finding| finding.code == Code::CorruptData && may_be_of(finding), 1),
        Behind::EarlierRun => (&|finding| !finding.is_usual && !finding.threads.is_empty(), 1),
        Behind::RefusedCall => (&|finding| finding.code == Code::WrongContext && runs_in(finding), 1),
    };
    let mut left = most;
    let (reasons, others): (Vec<Finding>, Vec<Finding>) = findings.split_off(1).into_iter().partition(|finding| {
        let is_one = left > 0 && is_it(finding);
        left = left.saturating_sub(usize::from(is_one));
        is_one
    });
    let claims: Vec<&str> = reasons.iter().map(|reason| reason.claim.as_str()).collect();
    if let Some(first) = findings.first_mut().filter(|_| !claims.is_empty()) {
        let how = if behind == Behind::SamePool { "not certain:" } else { "perhaps because" };
        first.claim = format!("{}; {how} {}", first.claim, claims.join("; "));
    }
    findings.extend(reasons.into_iter().map(|reason| Finding { is_reason: true, ..reason }));
    findings.extend(others);
    findings
}

/// The first finding with what may be behind it where nothing else was found that is.
fn with_otherwise(mut findings: Vec<Finding>) -> Vec<Finding> {
    let has_reason = findings.iter().any(|finding| finding.is_reason);
    if let Some(first) = findings.first_mut().filter(|_| !has_reason)
        && let Some((words, evidence)) = first.otherwise.take()
    {
        first.claim = format!("{}; perhaps because {words}", first.claim);
        first.evidence.extend(evidence);
        first.detractors.push("what may be behind it is inferred".to_owned());
    }
    findings
}

/// From where the threads of a finding that do not run called the kernel, as evidence.
fn calls(finding: &Finding, case: &Case<'_>) -> Option<Evidence> {
    // It affects all threads, wherever they are.
    if finding.code == Code::IrqPriority {
        return None;
    }
    let mut threads: Vec<u64> = finding.threads.iter().chain(&finding.affected).copied().collect();
    let mut seen = BTreeSet::new();
    threads.retain(|thread| seen.insert(*thread));
    // One that was interrupted in its own code called nothing.
    let is_call = |thread: u64, call: &CalledFrom| {
        let first = case.cpus.and_then(|cpus| cpus.frames(thread)?.first().copied());
        first != Some(call.pc)
    };
    let call = |thread: &u64| Some((*thread, case.cpus?.call(*thread).filter(|call| is_call(*thread, call))?));
    let all: Vec<_> = threads.iter().filter_map(call).collect();
    let (_, first) = all.first()?;
    let text = |(thread, call): &(u64, &CalledFrom)| {
        let is_own = finding.threads.contains(thread);
        let outer = case.cpus.filter(|_| is_own).map(|cpus| cpus.outer(*thread)).unwrap_or_default();
        let names: Vec<String> =
            std::iter::once(*call).chain(outer.iter().take(MOST_CALLERS)).map(CalledFrom::label).collect();
        format!("{} in {}", case.label(*thread), names.join(" < "))
    };
    let named: Vec<String> = all.iter().take(MOST_CALLS).map(text).collect();
    let more = all.len().saturating_sub(named.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let who = if all.len() == 1 { "where it called the kernel" } else { "where they called the kernel" };
    Some(Evidence::symbol(first.pc, &first.function, format!("{who}: {}{more}", named.join(", "))))
}

/// True where older events could show more: nothing else says who did it.
fn rests_on_events(finding: &Finding) -> bool {
    finding.confidence == Confidence::Likely && finding.evidence.iter().any(|evidence| evidence.kind == Source::Event)
}

/// What a case lacks.
fn not_checked(case: &Case<'_>, findings: &[Finding]) -> Vec<String> {
    let mut all = Vec::new();
    if case.kernel.is_none() {
        all.push("threads, waits and stacks: they need the RAM, and the ELF or the kernel's addresses".to_owned());
    } else if case.trust.other_build && findings.is_empty() {
        all.push("threads, waits and stacks: they need the ELF of the program that ran".to_owned());
    }
    let known = |cpu: &crate::session::CpuState| cpu.registers.pc().is_some();
    let known = case.cpus.is_some_and(|cpus| cpus.all.iter().any(known));
    if !known {
        all.push("faults, and where the CPU is: they need registers (a core, --reg, a live target)".to_owned());
    }
    if let Some(why) = case.trust.without_lines.as_ref().filter(|_| known || case.kernel.is_some()) {
        let callers = if case.trust.has_callers { "" } else { "callers of functions, and " };
        all.push(format!("{callers}source lines: {why}"));
    }
    if case.look.is_spent() {
        all.push(match case.look.is_stored() {
            true => "all memory: there is more than the 64 MiB that are read of a file".to_owned(),
            false => "all blocks of places: they would take too long over this link (a dump has them)".to_owned(),
        });
    }
    if case.trust.was_running {
        all.push("what holds only while nothing changes: it needs a target that is halted".to_owned());
    }
    if let Some(events) = case.events.filter(|events| events.left_out > 0) {
        all.push(format!("the oldest {} events: of a long trace only the newest are looked at", events.left_out));
    }
    if case.events.is_none() {
        // Who reads queues, the program's code shows, too.
        let what = if case.usage().is_some() {
            "who took semaphores: it needs"
        } else {
            "who took semaphores, and who reads queues: they need"
        };
        all.push(format!("{what} a trace"));
    } else if case.trust.has_wrapped && (case.kernel.is_none() || findings.first().is_some_and(rests_on_events)) {
        all.push("what came before the oldest event: it needs a larger trace buffer".to_owned());
    }
    all
}

impl<'a> Case<'a> {
    /// Of what was read of a target.
    #[must_use]
    pub const fn new(
        kernel: Option<&'a Kernel>,
        cpus: Option<&'a Cpus>,
        events: Option<&'a Events>,
        trust: Trust,
        look: &'a Look<'a>,
    ) -> Self {
        Self { kernel, cpus, events, before: None, trust, look, usage: OnceCell::new(), added: OnceCell::new() }
    }

    /// The same with what is left of the run before.
    #[must_use]
    pub fn after(self, before: Option<&'a Before>) -> Self {
        Self { before, ..self }
    }

    /// Who uses what by the program's code; `None` where the code is not that of the target, or not known.
    fn usage(&self) -> Option<&Usage<'a>> {
        self.usage.get_or_init(|| Usage::of(self)).as_ref()
    }

    /// The functions of the program that have an address of this memory. None where its code is not known.
    fn functions_with(&self, memory: Region) -> BTreeSet<u64> {
        self.usage().map(|usage| usage.functions_with(memory)).unwrap_or_default()
    }

    /// What a thread is called.
    fn label(&self, thread: u64) -> String {
        let by_events = || self.events.and_then(|events| events.name(thread)).map(str::to_owned);
        let named = self.thread(thread).map(Thread::label).or_else(by_events);
        named.unwrap_or_else(|| format!("the thread at {thread:#x}"))
    }

    /// The thread at an address.
    fn thread(&self, address: u64) -> Option<&Thread> {
        self.kernel.and_then(|kernel| kernel.thread(address))
    }

    /// What an object is called, with its kind: `mutex bus`.
    fn object(&self, address: u64) -> String {
        if let Some(object) = self.kernel.and_then(|kernel| kernel.object(address)) {
            return format!("{} {}", object.kind.name(), object.label());
        }
        let kind = self.events.and_then(|events| events.kind(address)).map_or("object", Kind::name);
        match self.events.and_then(|events| events.name(address)) {
            Some(name) => format!("{kind} {name}"),
            None => format!("the {kind} at {address:#x}"),
        }
    }

    /// Words in the byte order of the kernel: of its word (`ULONG`), or of an address.
    fn words(&self, bytes: &[u8], addresses: bool) -> Vec<u64> {
        let Some(shape) = self.kernel.map(|kernel| kernel.layout.shape) else { return Vec::new() };
        let width = if addresses { shape.pointer } else { shape.word };
        bytes.chunks_exact(width.bytes()).filter_map(|word| shape.endian.word(width, word, 0)).collect()
    }

    /// Bytes of an address.
    fn width(&self) -> u64 {
        self.kernel.map_or(4, |kernel| kernel.layout.shape.pointer.bytes() as u64)
    }

    /// An address as the trace stores it.
    fn stored(&self, address: u64) -> u64 {
        self.events.map_or(address, |events| events.stored(address))
    }

    /// What the exception of this number is called.
    fn exception(&self, number: u64) -> String {
        // The vectors of another build have other handlers.
        let name = self.look.interrupt(number).filter(|_| number >= FIRST_NAMED && !self.trust.other_build);
        match (u32::try_from(number), name) {
            (Ok(number), Some(name)) => exception(number, Some(&name)),
            _ => format!("interrupt {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "It explains: Mount waits for mutex vol, which Writer holds": the headline again.
    #[test]
    fn a_circle_explained_itself() {
        let sure = || (Confidence::Likely, Vec::new());
        let circle = || Finding::new(Code::Deadlock, sure(), "a circle".to_owned()).threads([1, 2]).affected([3]);
        let one = Finding::new(Code::LockOwnerGone, sure(), "one wait of it".to_owned()).threads([2, 1]);
        let other = Finding::new(Code::QueueFull, sure(), "a wait behind it".to_owned()).threads([3]);
        let found = without_symptoms(vec![circle(), one, other]);
        assert_eq!(found, [circle().explains(["a wait behind it".to_owned()])]);
    }

    /// The owner of a lock that waits was the answer, and the circle that it is in a hint behind it.
    #[test]
    fn a_circle_was_behind_the_owner_of_its_lock() {
        let of = |code, confidence, claim: &str| Finding::new(code, (confidence, Vec::new()), claim.to_owned());
        let owner = || of(Code::LockOwnerGone, Confidence::Likely, "an owner waits").threads([1, 2]);
        let circle = |threads: &[u64]| of(Code::Deadlock, Confidence::Hint, "a circle").threads(threads.to_vec());
        let found = with_circles(vec![owner(), circle(&[2, 1, 3])]);
        let claims: Vec<&str> = found.iter().map(|finding| finding.claim.as_str()).collect();
        assert_eq!(claims, ["an owner waits; perhaps a circle: a circle"]);
        assert_eq!(found.first().map(|first| first.confidence), Some(Confidence::Likely), "what is sure stays so");
        assert_eq!(with_circles(vec![owner(), circle(&[2, 3])]).len(), 2, "another circle");
    }

    /// A stack was nearly used up, a thread that checks stacks stopped the program, and only `--all` said why.
    #[test]
    fn what_a_program_stopped_itself_for_was_hidden() {
        let of = |code, confidence, claim: &str| Finding::new(code, (confidence, Vec::new()), claim.to_owned());
        let stop = || of(Code::Assert, Confidence::Likely, "the program stopped itself").threads([1]);
        let hint = |thread: u64| of(Code::StackNearOverflow, Confidence::Hint, "a stack is small").threads([thread]);
        let found = with_reason(vec![stop(), hint(1), hint(2)]);
        let claims: Vec<(&str, bool)> = found.iter().map(|one| (one.claim.as_str(), one.is_reason)).collect();
        let named = "the program stopped itself; perhaps because a stack is small";
        assert_eq!(claims, [(named, false), ("a stack is small", true), ("a stack is small", false)]);
        assert_eq!(found.get(1).map(|one| one.threads.clone()), Some(vec![2]));
        assert_eq!(with_reason(vec![stop(), hint(1)]), [stop(), hint(1)], "of the thread that stopped");
        assert_eq!(with_reason(vec![stop(), hint(2).usual(true)]), [stop(), hint(2).usual(true)]);
        assert_eq!(with_reason(vec![hint(1), hint(2)]), [hint(1), hint(2)], "no stop");
    }

    /// A fault through a null pointer was the whole answer, and `--all` had the pool that was used up.
    #[test]
    fn why_a_variable_held_a_null_pointer_was_hidden() {
        let of = |code, claim: &str| Finding::new(code, (Confidence::Hint, Vec::new()), claim.to_owned());
        let fault = |behind| of(Code::IsrFault, "a null pointer").behind(behind);
        let refused = || of(Code::WrongContext, "an interrupt allocates").denying_memory(true);
        let all = |behind| {
            vec![fault(behind), of(Code::QueueFull, "a queue is full"), refused(), of(Code::PoolEmpty, "no block")]
        };
        let claims = |found: &[Finding]| found.iter().map(|one| one.claim.clone()).collect::<Vec<_>>();
        let found = with_reason(all(Some(Behind::NoMemory)));
        let named = "a null pointer; perhaps because an interrupt allocates; no block";
        assert_eq!(claims(&found), [named, "an interrupt allocates", "no block", "a queue is full"]);
        assert_eq!(with_reason(all(None)), all(None), "another fault");
    }

    /// "Motor waits for mutex settings", twice: both of its findings were explained.
    #[test]
    fn a_symptom_was_listed_twice() {
        let all = ["b waits", "a waits", "b waits", "a waits; c, which a needs, waits", "b waits: it is full"];
        let all = all.map(str::to_owned).to_vec();
        assert_eq!(once_each("c waits, and d holds it", all), ["b waits", "a waits"]);
        let again = vec!["c waits, and d, which gave it, is suspended".to_owned()];
        assert_eq!(once_each("c waits, and d holds it", again), [""; 0], "the claim");
    }

    /// A fault was proven, and what led to it, an interrupt that took a mutex, came second.
    #[test]
    fn a_fault_hid_the_interrupt_that_took_a_mutex() {
        let of = |code, confidence| Finding::new(code, (confidence, Vec::new()), code.name().to_owned());
        let took = |damages| of(Code::WrongContext, Confidence::Likely).damaging_memory(damages);
        let fault = of(Code::IsrFault, Confidence::Proven);
        assert!(took(true).comes_first() < fault.comes_first() && took(false).comes_first() > fault.comes_first());
        let found = without_symptoms(vec![took(true), fault.clone()]);
        assert_eq!(found, [took(true).explains(["isr-fault".to_owned()])]);
        assert_eq!(without_symptoms(vec![fault, took(false)]).len(), 2);
    }

    /// A fault in PendSV was a second finding beside the stack that overflowed.
    #[test]
    fn a_fault_in_the_switch_of_threads_was_not_explained_by_an_overflow() {
        let of = |code, confidence| Finding::new(code, (confidence, Vec::new()), code.name().to_owned());
        let fault = |is_so| of(Code::IsrFault, Confidence::Proven).in_switch(is_so);
        let overflow = |confidence| of(Code::StackOverflow, confidence).threads([1]);
        let sure = overflow(Confidence::Likely);
        let explained = sure.clone().explains(["isr-fault".to_owned()]);
        assert_eq!(without_symptoms(vec![sure.clone(), fault(true)]), [explained]);
        assert_eq!(without_symptoms(vec![sure, fault(false)]).len(), 2, "in another interrupt");
        assert_eq!(without_symptoms(vec![overflow(Confidence::Hint), fault(true)]).len(), 2);
    }
}
