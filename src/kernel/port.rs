//! What ports add to a thread's control block.

use super::layout::Type;
use crate::abi::Width;
use Type::{Pointer, Word};

/// What a port adds to a thread's control block, in bytes or as members, and to a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Additions {
    /// The names of these ports.
    pub(super) name: &'static str,
    /// After the links of the ready list: the `pthread_t` of a port to Linux.
    pub(super) pthread: bool,
    /// After that.
    pub(super) before_name: u64,
    /// After a timer's links.
    pub(super) timer: u64,
    /// Before the links of the created list.
    pub(super) before_created: u64,
    /// After them.
    pub(super) after_created: &'static [(&'static str, Type)],
}

pub(super) const PLAIN: Additions = Additions {
    name: "a port without members of its own",
    pthread: false,
    before_name: 0,
    timer: 0,
    before_created: 0,
    after_created: &[],
};

/// Not 0 where the frame that the thread saves holds floating-point registers. The 64-bit ports' headers give the member
/// the name of a function, with an underscore.
pub(super) const FLOATS: [&str; 3] = ["tx_thread_vfp_enable", "_tx_thread_fp_enable", "tx_thread_fp_enable"];

/// The ports whose layouts were measured, with the shapes that they have: pointer, `ULONG`.
pub(super) const PORTS: [(Width, Width, Additions); 6] = [
    (Width::W4, Width::W4, Additions { name: "Cortex-M and RISC-V 32", ..PLAIN }),
    (
        Width::W4,
        Width::W4,
        Additions { name: "Cortex-A, 32-bit", after_created: &[("tx_thread_vfp_enable", Word)], ..PLAIN },
    ),
    (
        Width::W4,
        Width::W4,
        Additions { name: "Linux, 32-bit", pthread: true, before_name: 24, before_created: 4, ..PLAIN },
    ),
    (Width::W8, Width::W8, Additions { name: "RISC-V 64", ..PLAIN }),
    (
        Width::W8,
        Width::W4,
        Additions { name: "Cortex-A, 64-bit", timer: 8, after_created: &[("_tx_thread_fp_enable", Word)], ..PLAIN },
    ),
    (
        Width::W8,
        Width::W4,
        Additions { name: "Linux x86-64", pthread: true, before_name: 40, timer: 8, before_created: 8, ..PLAIN },
    ),
];

/// s390x is the one Linux port with wide words that was measured; others with 8-byte words are taken to be alike.
pub(super) const LINUX_WIDE: (Width, Width, Additions) = (
    Width::W8,
    Width::W8,
    Additions { name: "Linux, 64-bit with 8-byte ULONG", pthread: true, before_name: 40, before_created: 8, ..PLAIN },
);

/// Members of any port that are used where debug information has them.
pub(super) const EVERY: [(&str, Type); 10] = [
    ("tx_thread_vfp_enable", Word),
    ("_tx_thread_fp_enable", Word),
    ("tx_thread_fp_enable", Word),
    // A thread of a module has a stack of its own, and with memory protection another for calls of the kernel.
    ("tx_thread_module_instance_ptr", Pointer),
    ("tx_thread_module_kernel_stack_start", Pointer),
    ("tx_thread_module_kernel_stack_size", Word),
    ("tx_thread_module_stack_ptr", Pointer),
    ("tx_thread_module_stack_start", Pointer),
    ("tx_thread_module_stack_size", Word),
    // SMP kernels: one bit for each core that must not run the thread (tx_thread_smp_core_exclude).
    ("tx_thread_smp_cores_excluded", Word),
];
