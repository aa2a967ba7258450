//! The threads of a live target that has stopped: each keeps its number, and that which runs has the registers of its CPU in
//! whatever exception that is.

use super::Thread;
use super::from_kernel::{OVERFLOW, shown};
use crate::abi::Addr;
use crate::cpu::{Architecture, Level, Registers};
use crate::kernel::{Kernel, Thread as KernelThread, cpu_of};

/// The thread that a core's CPU runs, or whose exception it handles. `None` where no thread runs, and where the CPU is in
/// thread mode on a stack that is not the thread's: the kernel's word alone is not enough.
pub fn runs_on(kernel: &Kernel, core: usize, cpu: &Registers) -> Option<Addr> {
    let thread = kernel.thread(*kernel.current.get(core)?).filter(|_| !kernel.is_initializing())?;
    // Ports for Cortex-M do not count interrupts.
    let counts = cpu.architecture() != Architecture::CortexM;
    let interrupted = match cpu.level() {
        Level::Exception(_) | Level::Mode(_) => true,
        Level::Thread | Level::Unknown => counts && kernel.system_state.get(core).is_some_and(|n| *n != 0),
    };
    (interrupted || cpu.sp().is_some_and(|sp| is_on(thread, sp))).then_some(thread.address)
}

/// True where a stack pointer is in a stack of this thread. Where it is not known which stack it uses, those that its control
/// block names count.
fn is_on(thread: &KernelThread, sp: Addr) -> bool {
    thread.holds(sp) || thread.stacks().any(|stack| stack.contains(sp))
}

/// What is known of a CPU that is on the stack of no thread: a stack may have overflowed.
fn without_stack(kernel: &Kernel, core: usize, cpu: Option<&Registers>) -> String {
    let below = |thread: &KernelThread, sp: Addr| {
        let bytes = thread.stack.start?.checked_sub(sp).filter(|bytes| (1..=OVERFLOW).contains(bytes))?;
        Some(format!("on the stack of no thread: {bytes} bytes below that of {}", thread.label()))
    };
    let current = kernel.current.get(core).and_then(|at| kernel.thread(*at));
    let found = current.zip(cpu.and_then(Registers::sp)).and_then(|(thread, sp)| below(thread, sp));
    found.unwrap_or_else(|| "on the stack of no thread".to_owned())
}

/// The kernel's threads, those that run first, and the CPUs that run none of them. `cpus`: the registers of each, in the
/// order of the stub.
pub fn while_it_stops(kernel: &Kernel, cpus: &[Registers]) -> Vec<Thread> {
    let cores = kernel.current.len();
    let place = |core| cpu_of(core, cores, cpus.len());
    let runs = |core: usize| runs_on(kernel, core, cpus.get(place(core)?)?);
    let mut threads: Vec<Thread> = kernel
        .in_order()
        .map(|thread| match thread.core {
            Some(core) if runs(core) != Some(thread.address) => {
                // It is current, and the CPU is elsewhere: what it saved before is out of date.
                let mut left = thread.clone();
                (left.core, left.position) = (None, crate::kernel::Position::default());
                "it was switched to last, and the CPU is not on its stack".clone_into(&mut left.position.how);
                shown(&left, kernel, cpus)
            }
            _ => shown(thread, kernel, cpus),
        })
        .collect();
    let taken: Vec<usize> = threads.iter().filter_map(|thread| thread.cpu).collect();
    let free = (0..cpus.len()).filter(|index| !taken.contains(index));
    let name = |address| kernel.label_of(address);
    let others: Vec<Thread> = free
        .map(|index| {
            let core = (0..cores).find(|core| place(*core) == Some(index));
            let doing = core.and_then(|core| kernel.cpus.get(core)?.without_thread(&name));
            let extra = match (doing, core) {
                (Some(doing), _) => doing,
                (None, Some(core)) => without_stack(kernel, core, cpus.get(index)),
                (None, None) => "the kernel does not run on this CPU".to_owned(),
            };
            cpu(index, cpus, extra)
        })
        .collect();
    let at = if taken.is_empty() { 0 } else { threads.len() };
    threads.splice(at..at, others);
    threads
}

/// The CPUs alone, where there is no kernel to be read: `why`, in words.
pub fn without_kernel(cpus: &[Registers], why: &str) -> Vec<Thread> {
    (0..cpus.len()).map(|index| cpu(index, cpus, why.to_owned())).collect()
}

fn cpu(index: usize, cpus: &[Registers], extra: String) -> Thread {
    let name = if cpus.len() == 1 { "CPU".to_owned() } else { format!("CPU {index}") };
    // The same number at every stop; no control block is there.
    let id = (index as u64).saturating_add(1);
    Thread { id, cpu: Some(index), name, extra, registers: cpus.get(index).cloned() }
}
