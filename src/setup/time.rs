//! What a trace takes the time from, by the processor that a program was built for.

use crate::elf::{Elf, Machine};

/// `e_machine` of RISC-V.
const RISC_V: Machine = Machine(243);

/// A counter that gives an event its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// The cycle counter of a Cortex-M, in its DWT.
    Cyccnt,
    /// None: a Cortex-M without that counter.
    Count,
    /// The cycle counter of an ARMv7-A or ARMv7-R, and of an ARMv8 in their state.
    Pmccntr,
    /// The virtual count of the generic timer of an ARMv8-A.
    Cntvct,
    /// The cycle counter of a RISC-V.
    Mcycle,
    /// That of the kernel's port.
    Port,
}

impl Time {
    /// By the machine of the ELF. Counters of single cores give no common time to several.
    pub(super) fn of(elf: &Elf, has_several_cores: bool) -> Self {
        match elf.machine() {
            Machine::ARM if elf.is_m_profile() && elf.is_arm_baseline() => Self::Count,
            Machine::ARM if elf.is_m_profile() => Self::Cyccnt,
            Machine::ARM if elf.is_a_or_r_profile() && !has_several_cores => Self::Pmccntr,
            Machine::AARCH64 => Self::Cntvct,
            RISC_V if !has_several_cores => Self::Mcycle,
            _ => Self::Port,
        }
    }

    /// What it is, for people.
    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Cyccnt => "the cycle counter (DWT_CYCCNT), which most of these cores have",
            Self::Count => {
                "a count of events: this core has no cycle counter, so the order is right and times are not known. \
                 --time-source names a free-running timer of the chip"
            }
            Self::Pmccntr => "the cycle counter (PMCCNTR)",
            Self::Cntvct => "the generic timer (CNTVCT_EL0); its rate is in CNTFRQ_EL0",
            Self::Mcycle => "the cycle counter (mcycle), which machine mode may read",
            Self::Port => {
                "that of the kernel's port, which for many only counts events: `tx-trace info` tells. --time-source \
                 names a free-running timer of the chip"
            }
        }
    }

    /// The C expression that reads it; `None` leaves it to the port.
    pub(super) const fn source(self) -> Option<&'static str> {
        match self {
            Self::Cyccnt => Some("(*((volatile ULONG *) 0xE0001004UL))"),
            Self::Count => Some("(++_tx_trace_simulated_time)"),
            Self::Pmccntr => Some(
                "\\\n    ({ ULONG time_; __asm__ volatile (\"mrc p15, 0, %0, c9, c13, 0\" : \"=r\" (time_)); time_; })",
            ),
            Self::Cntvct => Some(
                "\\\n    ({ unsigned long time_; __asm__ volatile (\"mrs %0, cntvct_el0\" : \"=r\" (time_)); (ULONG) time_; })",
            ),
            Self::Mcycle => Some(
                "\\\n    ({ unsigned long time_; __asm__ volatile (\"csrr %0, mcycle\" : \"=r\" (time_)); (ULONG) time_; })",
            ),
            Self::Port => None,
        }
    }

    /// A C function that starts it.
    pub(super) const fn start(self) -> Option<&'static str> {
        match self {
            Self::Cyccnt => Some(CYCCNT),
            Self::Pmccntr => Some(PMCCNTR),
            Self::Count | Self::Cntvct | Self::Mcycle | Self::Port => None,
        }
    }

    /// The lines of a C function that write the data cache back, from `at` to `end`.
    pub(super) const fn clean(self) -> Option<&'static str> {
        match self {
            Self::Cyccnt => Some(CLEAN_M),
            Self::Pmccntr => Some(CLEAN_ARM),
            Self::Cntvct => Some(CLEAN_AARCH64),
            Self::Count | Self::Mcycle | Self::Port => None,
        }
    }

    /// True where the processor never has a data cache.
    pub(super) const fn is_without_cache(self) -> bool {
        matches!(self, Self::Count)
    }
}

const CYCCNT: &str = "\
#define DEMCR      (*((volatile ULONG *) 0xE000EDFCUL))
#define DWT_CTRL   (*((volatile ULONG *) 0xE0001000UL))
#define DWT_CYCCNT (*((volatile ULONG *) 0xE0001004UL))
#define DWT_LAR    (*((volatile ULONG *) 0xE0001FB0UL))
#define DWT_LSR    (*((volatile ULONG *) 0xE0001FB4UL))

/* DWT_CYCCNT counts once TRCENA and CYCCNTENA are set. */
static void start_time (void)
{
    DEMCR |= 0x01000000UL;                /* TRCENA */
    if ((DWT_LSR & 3UL) == 3UL)           /* a lock is there, and locked: Cortex-M7 */
        DWT_LAR = 0xC5ACCE55UL;
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1UL;                      /* CYCCNTENA */
}
";

const PMCCNTR: &str = "\
/* PMCCNTR counts every cycle once it is enabled. */
static void start_time (void)
{
    ULONG control;

    __asm__ volatile (\"mrc p15, 0, %0, c9, c12, 0\" : \"=r\" (control));   /* PMCR */
    control = (control & ~8UL) | 1UL;                                   /* not D, which divides by 64; E */
    __asm__ volatile (\"mcr p15, 0, %0, c9, c12, 0\" : : \"r\" (control));
    __asm__ volatile (\"mcr p15, 0, %0, c9, c12, 1\" : : \"r\" (0x80000000UL));   /* PMCNTENSET: C */
}
";

const CLEAN_M: &str =
    "    if ((*((volatile ULONG *) 0xE000ED14UL) & 0x10000UL) == 0)    /* CCR.DC: there is none, or it is off */
        return;
    __asm__ volatile (\"dsb\" : : : \"memory\");
    for (; at < end; at += 32)
        *((volatile ULONG *) 0xE000EF68UL) = (ULONG) at;          /* DCCMVAC */
    __asm__ volatile (\"dsb\" : : : \"memory\");
";

const CLEAN_ARM: &str = "    __asm__ volatile (\"dsb\" : : : \"memory\");
    for (; at < end; at += 32)
        __asm__ volatile (\"mcr p15, 0, %0, c7, c10, 1\" : : \"r\" (at) : \"memory\");   /* DCCMVAC */
    __asm__ volatile (\"dsb\" : : : \"memory\");
";

const CLEAN_AARCH64: &str = "    for (; at < end; at += 16)
        __asm__ volatile (\"dc cvac, %0\" : : \"r\" (at) : \"memory\");
    __asm__ volatile (\"dsb sy\" : : : \"memory\");
";
