//! What a rule finds.

use serde::Serialize;

use crate::abi::{Addr, Width};

/// What went wrong. The names are a contract with users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The bus refused an access.
    BusFault,
    /// The memory protection refused an access.
    MemFault,
    /// The CPU refused an instruction.
    UsageFault,
    /// A TrustZone rule refused an access.
    SecureFault,
    /// The CPU is in the handler of a fault, and nothing says of which kind.
    Fault,
    /// A function was called through a null pointer.
    NullCall,
    /// A fault inside an interrupt handler.
    IsrFault,
    /// The program stopped itself: an assertion failed.
    Assert,
    /// The CPU is in a loop that it does not leave.
    Hang,
    /// The CPU stopped itself: a fault inside the handler of a fault.
    Lockup,
    /// A stack was used beyond its end.
    StackOverflow,
    /// A stack was used nearly to its end.
    StackNearOverflow,
    /// Threads wait for each other in a circle.
    Deadlock,
    /// Threads run and repeat the same cycle without progress.
    Livelock,
    /// A thread waits for a lock whose owner is kept from running by a thread less urgent than the waiter.
    PriorityInversion,
    /// A thread is ready for long and does not run, because more urgent ones never wait.
    Starvation,
    /// Interrupts take nearly all of the CPU's time.
    IsrStorm,
    /// An interrupt handler does not return.
    IsrNeverEnds,
    /// An interrupt that calls the kernel has a priority at which the kernel cannot mask it.
    IrqPriority,
    /// Interrupts stay disabled.
    InterruptsMasked,
    /// The timer interrupt of the kernel does not arrive.
    NoTick,
    /// A queue is full and its reader waits for something else.
    QueueFull,
    /// A thread waits for something that nobody gives.
    EventNeverSet,
    /// The event flags that are set never match those that a thread waits for.
    WrongEventMask,
    /// A path took a semaphore and did not give it back.
    SemaphoreLeak,
    /// A thread has a lock and cannot give it back.
    LockOwnerGone,
    /// Memory of a pool is allocated and not released.
    PoolLeak,
    /// A thread waits for memory of a pool that has none.
    PoolEmpty,
    /// The kernel was called from where this call is not allowed.
    WrongContext,
    /// The words of the kernel in the memory of a pool were overwritten.
    CorruptPool,
    /// A control block holds what cannot be right.
    CorruptControlBlock,
    /// A variable of the application was overwritten.
    CorruptData,
    /// The CPU runs start-up code over the RAM of an older run.
    Reset,
}

impl Code {
    /// True for what another failure of the same threads may cause: waits, and threads that do not run.
    pub(super) const fn may_be_symptom(self) -> bool {
        matches!(
            self,
            Self::PriorityInversion
                | Self::Starvation
                | Self::QueueFull
                | Self::EventNeverSet
                | Self::WrongEventMask
                | Self::SemaphoreLeak
                | Self::LockOwnerGone
                | Self::PoolEmpty
        )
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusFault => "bus-fault",
            Self::MemFault => "mem-fault",
            Self::UsageFault => "usage-fault",
            Self::SecureFault => "secure-fault",
            Self::Fault => "fault",
            Self::NullCall => "null-call",
            Self::IsrFault => "isr-fault",
            Self::Assert => "assert",
            Self::Hang => "hang",
            Self::Lockup => "lockup",
            Self::StackOverflow => "stack-overflow",
            Self::StackNearOverflow => "stack-near-overflow",
            Self::Deadlock => "deadlock",
            Self::Livelock => "livelock",
            Self::PriorityInversion => "priority-inversion",
            Self::Starvation => "starvation",
            Self::IsrStorm => "isr-storm",
            Self::IsrNeverEnds => "isr-never-ends",
            Self::IrqPriority => "irq-priority",
            Self::InterruptsMasked => "interrupts-masked",
            Self::NoTick => "no-tick",
            Self::QueueFull => "queue-full",
            Self::EventNeverSet => "event-never-set",
            Self::WrongEventMask => "wrong-event-mask",
            Self::SemaphoreLeak => "semaphore-leak",
            Self::LockOwnerGone => "lock-owner-gone",
            Self::PoolLeak => "pool-leak",
            Self::PoolEmpty => "pool-empty",
            Self::WrongContext => "wrong-context",
            Self::CorruptPool => "corrupt-pool",
            Self::CorruptControlBlock => "corrupt-control-block",
            Self::CorruptData => "corrupt-data",
            Self::Reset => "reset",
        }
    }
}

impl Code {
    /// True where what this finding is about damages memory, and the other may show that of the same threads: a stack that
    /// overflowed is the cause of a control block that is damaged, and of the fault of its thread.
    pub(super) const fn damages(self, other: Self) -> bool {
        match self {
            Self::StackOverflow => {
                matches!(other.comes_first(), 2 | 3) && !matches!(other, Self::Assert) && !other.is_of_interrupts()
            }
            Self::CorruptPool => {
                other.comes_first() == 3 && !matches!(other, Self::Assert) && !other.is_of_interrupts()
            }
            // It disables interrupts for its loop.
            Self::Assert => matches!(other, Self::InterruptsMasked),
            Self::CorruptControlBlock => matches!(other, Self::CorruptControlBlock | Self::Fault) || other.is_fault(),
            _ => false,
        }
    }

    /// True for a fault of the CPU.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::BusFault | Self::MemFault | Self::UsageFault | Self::SecureFault | Self::NullCall)
    }

    const fn is_of_interrupts(self) -> bool {
        matches!(self, Self::IsrNeverEnds | Self::InterruptsMasked | Self::NoTick)
    }

    /// Which of several findings above a hint comes first, whichever is surer: what explains the others. A stack that
    /// overflowed, and memory that was overwritten, lead to faults; a CPU that stopped itself keeps all threads waiting.
    pub(super) const fn comes_first(self) -> u8 {
        match self {
            Self::Reset => 0,
            Self::StackOverflow => 1,
            Self::CorruptControlBlock | Self::CorruptPool => 2,
            Self::BusFault | Self::MemFault | Self::UsageFault | Self::SecureFault | Self::NullCall => 3,
            Self::Fault | Self::IsrFault | Self::Lockup | Self::Assert | Self::Hang => 3,
            Self::IsrNeverEnds | Self::InterruptsMasked | Self::NoTick => 3,
            _ => 4,
        }
    }
}

/// How sure a claim is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Something to look at.
    Hint,
    /// One explanation fits.
    Likely,
    /// It follows from memory or registers alone.
    Proven,
}

impl Confidence {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Likely => "likely",
            Self::Proven => "proven",
        }
    }
}

/// Where a piece of evidence is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An event of the trace.
    Event,
    /// A word in memory.
    Memory,
    /// A register of the CPU.
    Register,
    /// The bytes of a stack.
    Stack,
    /// A place in the program: a function, with file and line where the ELF has them.
    Symbol,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Where it is from.
    pub kind: Source,
    /// The event.
    pub seq: Option<u64>,
    /// Where in memory.
    pub address: Option<Addr>,
    /// The name of a register or of what is at the address. Hostile text: escape before printing.
    pub symbol: Option<String>,
    /// What is there.
    pub value: Option<u64>,
    /// What it says. Hostile text: escape before printing.
    pub text: String,
}

impl Evidence {
    const fn new(kind: Source, text: String) -> Self {
        Self { kind, seq: None, address: None, symbol: None, value: None, text }
    }

    /// A word in memory.
    #[must_use]
    pub fn memory(address: Addr, text: String) -> Self {
        Self { address: Some(address), ..Self::new(Source::Memory, text) }
    }

    /// The bytes of a stack.
    #[must_use]
    pub fn stack(address: Addr, text: String) -> Self {
        Self { address: Some(address), ..Self::new(Source::Stack, text) }
    }

    /// An event.
    #[must_use]
    pub fn event(seq: u64, text: String) -> Self {
        Self { seq: Some(seq), ..Self::new(Source::Event, text) }
    }

    /// A register of the CPU.
    #[must_use]
    pub fn register(name: &str, value: u64, text: String) -> Self {
        Self { symbol: Some(name.to_owned()), value: Some(value), ..Self::new(Source::Register, text) }
    }

    /// A place in the program.
    #[must_use]
    pub fn symbol(address: Addr, name: &str, text: String) -> Self {
        Self { address: Some(address), symbol: Some(name.to_owned()), ..Self::new(Source::Symbol, text) }
    }

    /// The same with the word that is there.
    #[must_use]
    pub const fn holds(mut self, value: u64) -> Self {
        self.value = Some(value);
        self
    }

    /// The same with the name of what is there.
    #[must_use]
    pub fn named(mut self, symbol: &str) -> Self {
        self.symbol = Some(symbol.to_owned());
        self
    }
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// In a sentence. Hostile text: escape before printing.
    pub claim: String,
    /// How sure that is.
    pub confidence: Confidence,
    /// What speaks against it.
    pub detractors: Vec<String>,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// Symptoms that it explains.
    pub explains: Vec<String>,
    /// What to look at next.
    pub next: String,
    /// The threads that it is about.
    pub threads: Vec<Addr>,
    /// Threads and objects that it affects: findings about them alone are symptoms of this one.
    pub affected: Vec<Addr>,
    /// True for a fault in the kernel's switch from one thread to another, which reads what threads saved on their stacks.
    pub is_in_switch: bool,
    /// True where a healthy system looks the same again and again: it comes after other hints.
    pub is_usual: bool,
    /// True where the kernel may write through a null pointer because of it, over vectors at address 0: the fault of an interrupt
    /// is its symptom.
    pub damages_memory: bool,
    /// True where the first finding names this one as what may be behind it.
    pub is_reason: bool,
    /// What may be behind it, where it is the first.
    pub behind: Option<Behind>,
    /// What may be behind it where nothing else was found that is: in words, and what shows it.
    pub otherwise: Option<(String, Vec<Evidence>)>,
    /// True where it keeps a caller from getting memory.
    pub denies_memory: bool,
    /// Where functions begin that run: those on the stack of a callback or a handler, or the one that a refused call is part of.
    pub runs: Vec<Addr>,
}

/// What may be behind a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The program stopped itself because of something that it noticed of other threads.
    OtherThreads,
    /// A variable holds a null pointer, as one does where a caller got no memory.
    NoMemory,
    /// A callback of a timer, or an interrupt, goes on without what the kernel refused to it.
    RefusedCall,
    /// A pool is used up, of which blocks may be lost.
    SamePool,
    /// A thread does not block, perhaps because messages for it were refused.
    RefusedMessages,
    /// A fault, perhaps because of data that were overwritten.
    Overwritten,
    /// The program was started again, perhaps by a watchdog: what was found of threads is of the run before.
    EarlierRun,
}

impl Finding {
    /// A finding without evidence. `cap`: how sure it is, and what speaks against it.
    pub(super) fn new(code: Code, cap: (Confidence, Vec<String>), claim: String) -> Self {
        let (confidence, detractors) = cap;
        Self {
            code,
            claim,
            confidence,
            detractors,
            evidence: Vec::new(),
            explains: Vec::new(),
            next: String::new(),
            threads: Vec::new(),
            affected: Vec::new(),
            is_in_switch: false,
            is_usual: false,
            damages_memory: false,
            is_reason: false,
            otherwise: None,
            behind: if matches!(code, Code::Assert) { Some(Behind::OtherThreads) } else { None },
            denies_memory: matches!(code, Code::PoolEmpty | Code::PoolLeak),
            runs: Vec::new(),
        }
    }

    /// The same with what may be behind it.
    pub(super) fn behind(mut self, what: Option<Behind>) -> Self {
        self.behind = what.or(self.behind);
        self
    }

    /// The same with where functions begin that run.
    pub(super) fn running(mut self, functions: impl IntoIterator<Item = Addr>) -> Self {
        self.runs.extend(functions);
        self
    }

    /// The same as what keeps a caller from getting memory, or not.
    pub(super) const fn denying_memory(mut self, is_so: bool) -> Self {
        self.denies_memory = is_so;
        self
    }

    /// The same as a fault in the switch of threads, or not.
    pub(super) const fn in_switch(mut self, is_so: bool) -> Self {
        self.is_in_switch = is_so;
        self
    }

    /// The same as what a healthy system shows, too, or not.
    pub(super) const fn usual(mut self, is_so: bool) -> Self {
        self.is_usual = is_so;
        self
    }

    /// The same as what may make the kernel write through a null pointer, or not.
    pub(super) const fn damaging_memory(mut self, is_so: bool) -> Self {
        self.damages_memory = is_so;
        self
    }

    /// Its place among findings above a hint, as [`Code::comes_first`].
    pub(super) const fn comes_first(&self) -> u8 {
        if self.damages_memory { 1 } else { self.code.comes_first() }
    }

    /// Adds what speaks against it.
    pub(super) fn against(mut self, reasons: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for reason in reasons.into_iter().map(Into::into) {
            if !self.detractors.contains(&reason) {
                self.detractors.push(reason);
            }
        }
        self
    }

    /// Adds what it rests on.
    pub(super) fn evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Adds symptoms that it explains.
    pub(super) fn explains(mut self, symptoms: impl IntoIterator<Item = String>) -> Self {
        self.explains.extend(symptoms);
        self
    }

    /// Says what to look at next.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// Adds threads that it is about.
    pub(super) fn threads(mut self, threads: impl IntoIterator<Item = Addr>) -> Self {
        self.threads.extend(threads);
        self
    }

    /// Adds threads and objects that it affects.
    pub(super) fn affected(mut self, affected: impl IntoIterator<Item = Addr>) -> Self {
        self.affected.extend(affected);
        self
    }

    /// Its line of JSON, with its place among all. `digits`: of an address and of a register.
    #[must_use]
    pub fn row(&self, rank: u64, digits: Width) -> FindingRow<'_> {
        let hex = |value: u64| format!("{value:#0width$x}", width = digits.bytes().saturating_mul(2).saturating_add(2));
        let row = |one: &'_ Evidence| EvidenceRow {
            kind: one.kind,
            seq: one.seq,
            address: one.address.map(hex),
            symbol: one.symbol.clone(),
            value: one.value.map(hex),
            text: one.text.clone(),
        };
        FindingRow {
            rank,
            code: self.code,
            claim: &self.claim,
            confidence: self.confidence,
            detractors: &self.detractors,
            evidence: self.evidence.iter().map(row).collect(),
            explains: &self.explains,
            next: &self.next,
        }
    }
}

/// A finding as a line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "finding")]
pub struct FindingRow<'f> {
    rank: u64,
    code: Code,
    claim: &'f str,
    confidence: Confidence,
    detractors: &'f [String],
    evidence: Vec<EvidenceRow>,
    explains: &'f [String],
    next: &'f str,
}

#[derive(Debug, Serialize)]
struct EvidenceRow {
    kind: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_overflowed_explains_damage_and_faults() {
        assert!(Code::StackOverflow.damages(Code::CorruptControlBlock));
        assert!(Code::StackOverflow.damages(Code::IsrFault));
        assert!(!Code::StackOverflow.damages(Code::Deadlock));
        assert!(!Code::StackOverflow.damages(Code::Assert), "the program stopped itself");
        assert!(Code::CorruptPool.damages(Code::BusFault));
        assert!(Code::CorruptControlBlock.damages(Code::UsageFault));
        assert!(!Code::CorruptControlBlock.damages(Code::Hang));
        assert!(!Code::BusFault.damages(Code::CorruptControlBlock));
    }
}
