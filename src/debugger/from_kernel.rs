//! The threads of a kernel, and the CPUs that run none of them, as a debugger's threads.

use super::Thread;
use crate::abi::{Addr, Endian};
use crate::cpu::{Architecture, Level, Origin, Registers};
use crate::kernel::{Kernel, Stacks, State, Stop, Thread as KernelThread, cpu_of};

/// How far below its stack a thread that overflowed it is still taken to be on it, in bytes.
pub(super) const OVERFLOW: u64 = 256;

/// The lowest EXC_RETURN, which leads back out of an exception.
const EXC_RETURN: Addr = 0xFFFF_FF80;

/// What stopped.
#[derive(Debug, Clone)]
pub struct Stopped {
    /// The processor; `None` where it is not known.
    pub architecture: Option<Architecture>,
    /// Its byte order.
    pub endian: Endian,
    /// The kernel's threads, those that run first, and the CPUs, or threads of an operating system, that run none of
    /// them.
    pub threads: Vec<Thread>,
}

impl Stopped {
    /// From the registers of the CPUs and the kernel's threads. `endian` is the byte order where neither gives one.
    pub fn new(stop: Stop, kernel: Option<&Kernel>, endian: Option<Endian>) -> Self {
        let Stop { frames, mut cpus, .. } = stop;
        let mut architecture = frames.map(|f| f.architecture);
        let of_kernel = kernel.map(|k| k.layout.shape.endian);
        let endian = frames.map(|f| f.endian).or(of_kernel).or(endian).unwrap_or(Endian::Little);
        let Some(kernel) = kernel else {
            return Self { architecture, endian, threads: with_cpus(Vec::new(), cpus, None, None) };
        };
        if architecture != kernel.processor && kernel.processor.is_some() {
            architecture = kernel.processor;
            cpus.iter_mut().for_each(|cpu| *cpu = cpu.as_cortex_m());
        }
        if let [cpu] = cpus.as_mut_slice() {
            complete_main_stack(cpu, kernel);
        }
        let mut order: Vec<&KernelThread> = kernel.threads.iter().collect();
        order.sort_by_key(|t| t.core.unwrap_or(usize::MAX));
        let mut threads: Vec<Thread> = order.into_iter().map(|thread| shown(thread, kernel, &cpus)).collect();
        let handler = crashes(&mut threads, kernel);
        let name = |address| kernel.label_of(address);
        let without_thread = match kernel.cpus.as_slice() {
            [cpu] => cpu.without_thread(&name),
            _ => None,
        };
        Self { architecture, endian, threads: with_cpus(threads, cpus, handler, without_thread) }
    }
}

/// One thread. That which runs has the registers of its CPU, in whatever exception that is: the debugger unwinds through
/// it.
pub(super) fn shown(thread: &KernelThread, kernel: &Kernel, cpus: &[Registers]) -> Thread {
    let core = thread.core.filter(|_| thread.pthread.is_none());
    let place = core.and_then(|core| cpu_of(core, kernel.cpus.len(), cpus.len()));
    let cpu = place.and_then(|place| cpus.get(place));
    let saved = || {
        let mut registers = thread.position.registers.clone()?;
        if let [only] = cpus {
            registers.complete_thread(only);
        }
        Some(registers)
    };
    let registers = cpu.cloned().or_else(saved);
    let extra = remarks(thread, kernel, cpu, registers.is_some());
    Thread { id: thread.address, cpu: place, name: thread.name.clone().unwrap_or_default(), extra, registers }
}

/// Where it is certain what a fault interrupted, a debugger begins there: the thread has the registers that it had before the
/// fault, and the CPU in the handler becomes a thread of its own. A fault within another exception is no thread's. Returns
/// what that CPU does, in words.
fn crashes(threads: &mut Vec<Thread>, kernel: &Kernel) -> Option<String> {
    let mut handler = None;
    for found in kernel.interrupted.iter().filter(|found| found.is_crash()) {
        let Some(place) = found.certain() else { continue };
        let own = found.thread.and_then(|at| threads.iter_mut().find(|t| t.id == at));
        match (place.in_exception(), own) {
            (None, Some(thread)) => {
                thread.registers = Some(place.registers.clone());
                thread.extra =
                    thread.extra.replace(&format!(", in {}", found.by), &format!(", interrupted by {}", found.by));
            }
            (None, None) => continue,
            (Some(_), own) => {
                let within = place.within.clone().unwrap_or_default();
                if let Some((thread, registers)) = own.zip(found.registers.clone()) {
                    thread.registers = Some(registers);
                    thread.extra =
                        thread.extra.replace(&format!(", in {}", found.by), &format!(", interrupted by {within}"));
                }
                let extra = format!("in {within}, interrupted by {}", found.by);
                threads.insert(
                    0,
                    Thread {
                        name: "CPU".to_owned(),
                        extra,
                        registers: Some(place.registers.clone()),
                        ..Thread::default()
                    },
                );
            }
        }
        handler = Some(format!("in {}", found.by));
    }
    handler
}

/// A thread in one line: what it does, its priority, and what is not known of it.
fn remarks(thread: &KernelThread, kernel: &Kernel, cpu: Option<&Registers>, known: bool) -> String {
    let mut line = doing(thread, kernel);
    let above = thread.core.and_then(|core| kernel.cpus.get(core)?.above.words());
    if let Some(above) = &above {
        line.push_str(&format!(", in {above}"));
    }
    if let Some(priority) = thread.priority {
        line.push_str(&format!(", priority {priority}"));
        if thread.inherits().is_some() {
            line.push_str(&format!(" inherited, own {}", thread.own_priority.unwrap_or_default()));
        }
    }
    if let Some(lwp) = thread.lwp() {
        line.push_str(&format!(", LWP {lwp}"));
    }
    if thread.position.never_ran {
        line.push_str(", never ran");
    }
    let how = &thread.position.how;
    if !known && thread.core.is_some() && thread.pthread.is_none() {
        line.push_str("; its registers are not in this source: --reg pc=N --reg sp=N");
    } else if let Some(why) = cpu.and_then(|cpu| doubt(thread, cpu)).filter(|_| above.is_some()) {
        line.push_str(&format!("; {why}"));
    } else if !known && !how.is_empty() && how != "ended" {
        line.push_str(&format!("; {how}"));
    }
    line
}

/// What a thread does, as a debugger lists it: `suspended on mutex bus_mutex owned by low_task`.
fn doing(thread: &KernelThread, kernel: &Kernel) -> String {
    let Some(state) = thread.state else { return "state unknown".to_owned() };
    if thread.core.is_some() && state == State::READY {
        return "running".to_owned();
    }
    let Some(wait) = &thread.waits else { return kernel.doing(thread) };
    let mut text = format!("suspended on {} {}", wait.kind.name(), wait.label());
    if let Some(by) = wait.owner.filter(|o| *o != 0) {
        text.push_str(&format!(" owned by {}", kernel.label_of(by)));
    }
    if !wait.more.is_empty() {
        text.push_str(&format!(", {}", wait.more));
    }
    text
}

/// What is wrong with the registers that a thread left at PSP when an exception came: a debugger unwinds through them
/// without a word.
fn doubt<'t>(thread: &'t KernelThread, cpu: &Registers) -> Option<&'t str> {
    cpu.get("psp").filter(|_| thread.position.pc.is_none())?;
    thread.position.how.split_once("; ").map(|(_, why)| why)
}

/// Adds the CPUs, or a system's own threads, that run none of the kernel's threads. `handler`: what a CPU does after a crash,
/// which comes first.
fn with_cpus(
    mut threads: Vec<Thread>,
    cpus: Vec<Registers>,
    handler: Option<String>,
    without_thread: Option<String>,
) -> Vec<Thread> {
    let count = cpus.len();
    let place = |r: &Registers| (r.pc(), r.sp());
    let is_shown =
        |cpu: &Registers| threads.iter().filter_map(|t| t.registers.as_ref()).any(|r| place(r) == place(cpu));
    let rest: Vec<(usize, Registers)> = cpus.into_iter().enumerate().filter(|(_, cpu)| !is_shown(cpu)).collect();
    // Where none of the kernel's threads runs, the CPU is what stopped.
    let first = threads.is_empty() || (rest.len() == count && handler.is_none());
    let at = if first { 0 } else { threads.len() };
    let others: Vec<Thread> = rest
        .into_iter()
        .map(|(index, registers)| Thread {
            id: 0,
            cpu: Some(index),
            name: match registers.lwp() {
                Some(lwp) => format!("LWP {lwp}"),
                None if count == 1 => "CPU".to_owned(),
                None => format!("CPU {index}"),
            },
            extra: handler
                .clone()
                .or_else(|| without_thread.clone())
                .unwrap_or_else(|| "its registers, as the core has them".to_owned()),
            registers: Some(registers),
        })
        .collect();
    threads.splice(at..at, others);
    threads
}

/// A Cortex-M's `sp` is `msp` or `psp`: where it is in none of the threads' stacks it is `msp`, though nothing else says
/// that this is an exception. Without `msp` GDB takes what is at `sp` for what an exception pushed, and shows a caller
/// that never was.
fn complete_main_stack(cpu: &mut Registers, kernel: &Kernel) {
    let open = cpu.architecture() == Architecture::CortexM && cpu.level() == Level::Unknown && cpu.get("msp").is_none();
    let Some(sp) = cpu.sp().filter(|_| open) else { return };
    let main = match cpu.get("psp") {
        Some(psp) => kernel.threads.iter().any(|t| t.core.is_some() && t.holds(psp) && !t.holds(sp)),
        // An EXC_RETURN, or what is in `lr` after a reset, says more than where `sp` is.
        None if cpu.lr().is_some_and(|lr| lr >= EXC_RETURN) => false,
        None => !kernel.threads.is_empty() && !kernel.threads.iter().any(|t| may_be_on(t, sp)),
    };
    if main {
        cpu.set_from(Origin::Inferred, "msp", sp);
    }
}

/// True where a stack pointer may be this thread's: in its stack, or just below it.
fn may_be_on(thread: &KernelThread, sp: Addr) -> bool {
    let below = thread.stack.start.and_then(|start| start.checked_sub(sp)).is_some_and(|bytes| bytes <= OVERFLOW);
    thread.stacks == Stacks::Unknown || thread.stack.start.is_none() || below || thread.holds(sp)
}
