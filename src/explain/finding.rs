//! What a rule finds.

use serde::Serialize;

use crate::abi::Addr;

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
    /// A control block holds what cannot be right.
    CorruptControlBlock,
    /// The CPU runs start-up code over the RAM of an older run.
    Reset,
}

impl Code {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusFault => "bus-fault",
            Self::MemFault => "mem-fault",
            Self::UsageFault => "usage-fault",
            Self::SecureFault => "secure-fault",
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
            Self::CorruptControlBlock => "corrupt-control-block",
            Self::Reset => "reset",
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
    /// The bytes of a stack.
    Stack,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Where it is from.
    pub kind: Source,
    /// The event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Where in memory.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "hex")]
    pub address: Option<Addr>,
    /// What it says. Hostile text: escape before printing.
    pub text: String,
}

impl Evidence {
    /// A word in memory.
    #[must_use]
    pub const fn memory(address: Addr, text: String) -> Self {
        Self { kind: Source::Memory, seq: None, address: Some(address), text }
    }

    /// The bytes of a stack.
    #[must_use]
    pub const fn stack(address: Addr, text: String) -> Self {
        Self { kind: Source::Stack, seq: None, address: Some(address), text }
    }

    /// An event.
    #[must_use]
    pub const fn event(seq: u64, text: String) -> Self {
        Self { kind: Source::Event, seq: Some(seq), address: None, text }
    }
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    #[serde(skip)]
    pub threads: Vec<Addr>,
    /// Threads that wait behind these: findings about them alone are symptoms of this one.
    #[serde(skip)]
    pub behind: Vec<Addr>,
}

/// A finding as a line of JSON.
#[derive(Debug, Serialize)]
pub struct FindingRow<'f> {
    r#type: &'static str,
    rank: u64,
    #[serde(flatten)]
    finding: &'f Finding,
}

impl Finding {
    /// Its line of JSON, with its place among all.
    #[must_use]
    pub const fn row(&self, rank: u64) -> FindingRow<'_> {
        FindingRow { r#type: "finding", rank, finding: self }
    }
}

fn hex<S: serde::Serializer>(address: &Option<Addr>, to: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => to.collect_str(&format_args!("{address:#x}")),
        None => to.serialize_none(),
    }
}
