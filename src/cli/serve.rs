//! `serve`: a core or a dump as the target of a debugger, with the kernel's threads as the debugger's.

use std::net::SocketAddr;

use super::Outcome;
use super::plan::ClockPlan;
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::session::Inputs;

/// What to serve, and to whom.
#[cfg_attr(not(feature = "serve"), allow(dead_code, reason = "without a server it is only checked"))]
pub struct ServeTask {
    /// Where debuggers connect to; the one that started us without it.
    listen: Option<SocketAddr>,
    once: bool,
    inputs: Inputs,
    clock: ClockPlan,
    names: Names,
}

impl ServeTask {
    /// Checks that nothing live is meant.
    pub fn new(
        listen: Option<&str>,
        once: bool,
        inputs: Inputs,
        clock: ClockPlan,
        names: Names,
    ) -> Result<Self, Error> {
        if inputs.is_remote() {
            return Err(Error::usage(
                Code::Usage,
                "serve takes a core or a dump; before a live stub stands `tx-trace bridge --remote ...`",
            ));
        }
        Ok(Self { listen: listen.map(super::listen::parse).transpose()?, once, inputs, clock, names })
    }
}

/// Serves.
#[cfg(not(feature = "serve"))]
pub fn run(_: ServeTask) -> Result<Outcome, Error> {
    Err(Error::usage(Code::Usage, "this build has no server: build with --features serve"))
}

#[cfg(feature = "serve")]
pub use served::run;

#[cfg(feature = "serve")]
mod served {
    use std::io::{self, Write};

    use super::{Error, Outcome, ServeTask};
    use crate::abi::{Addr, Endian};
    use crate::cli::monitor::{self, Program};
    use crate::cli::{listen, message, threads};
    use crate::code::Code;
    use crate::cpu::{Architecture, Level, Registers};
    use crate::elf::ElfKind;
    use crate::kernel::{Cpu, Kernel, State, Thread as KernelThread};
    use crate::mem::Memory;
    use crate::output;
    use crate::serve::{PostMortem, Server, Thread};
    use crate::session::{self, Inputs, Lent, Session};
    use crate::trace::Issue;

    /// Opens the files, finds the threads, and serves one debugger after the other.
    pub fn run(task: ServeTask) -> Result<Outcome, Error> {
        let ServeTask { listen, once, inputs, clock, names } = task;
        let program = program_of(&inputs);
        let mut session = Session::open(inputs)?;
        let name = session.name().to_owned();
        let mut subject = find(&mut session)?;
        let offset = session.load_offset().value;
        let floats = subject.architecture.and_then(|a| a.float_bits(session.flags()));
        message::issues(&subject.issues);
        let program = Program { inputs: program, clock, names };
        let Some((mut memory, told)) = session.into_memory() else {
            return Err(Error::usage(Code::Usage, "serve takes a core or a dump"));
        };
        let count = subject.threads.len();
        let answer = move |line: &str, memory: &mut dyn Memory, out: &mut dyn Write| {
            monitor::run(line, &program, Lent::Memory(memory, told.clone()), out);
        };
        let threads = std::mem::take(&mut subject.threads);
        let mut served = PostMortem::new(memory.as_mut(), subject.architecture, subject.endian, threads)
            .with_floats(floats)
            .loaded_at(offset)
            .answering(Box::new(answer));
        let Some(at) = listen else {
            // GDB shows what is said here among its own words.
            return match served.serve_pipe(io::stdin().lock(), io::stdout().lock()) {
                Err(e) if e.kind() != io::ErrorKind::UnexpectedEof && e.kind() != io::ErrorKind::BrokenPipe => {
                    message::say(&format!("tx-trace: the debugger's link: {e}"));
                    Ok(Outcome::Failed)
                }
                _ => Ok(Outcome::Done),
            };
        };
        let fail =
            |e: io::Error| Error::failed(Code::Listen, format!("{at}: {e}"), "give another port: --listen :3335");
        let server = Server::on(at).map_err(fail)?;
        let address = server.address().map_err(fail)?;
        let what = format!("{} with {count} threads is served", output::escape(&name));
        listen::say(&what, address, "reads this memory");
        message::say(&format!("(gdb) target remote {}", target_of(address)));
        loop {
            let ended = server.next(&mut served);
            match ended {
                Ok(_) if once => return Ok(Outcome::Done),
                Ok(_) => {}
                Err((None, e)) => return Err(Error::failed(Code::Listen, format!("{address}: {e}"), "")),
                Err((Some(from), e)) => {
                    message::say(&format!("tx-trace: {from} was let go: {e}"));
                    if once {
                        return Ok(Outcome::Failed);
                    }
                }
            }
        }
    }

    /// What a debugger on this machine types.
    fn target_of(address: std::net::SocketAddr) -> String {
        let here = address.ip().is_loopback() || address.ip().is_unspecified();
        if here && address.is_ipv4() { format!(":{}", address.port()) } else { address.to_string() }
    }

    /// What monitor lines are told of the program: all but the source.
    fn program_of(inputs: &Inputs) -> Inputs {
        let mut program = inputs.clone();
        program.source = session::SourceSpec::Files;
        // A bare file may be the program.
        let is_program =
            |path: &std::path::PathBuf| session::open_elf(path).is_ok_and(|elf| elf.kind() != ElfKind::Core);
        program.elf = program.elf.or_else(|| inputs.files.iter().find(|p| is_program(p)).cloned());
        program.files = Vec::new();
        program
    }

    /// What is served.
    struct Subject {
        architecture: Option<Architecture>,
        endian: Endian,
        threads: Vec<Thread>,
        cpus: Vec<Registers>,
        /// What the only CPU does, where it runs no thread.
        without_thread: Option<String>,
        issues: Vec<Issue>,
    }

    /// The threads: the kernel's, or those of the core where there is no kernel to be read.
    fn find(session: &mut Session<'_>) -> Result<Subject, Error> {
        let mut ignored = Vec::new();
        let stop = session.stop(&mut ignored)?;
        let frames = stop.frames;
        let mut subject = Subject {
            architecture: frames.map(|f| f.architecture),
            endian: frames.map(|f| f.endian).or_else(|| session.elf().map(|e| e.endian())).unwrap_or(Endian::Little),
            threads: Vec::new(),
            cpus: stop.cpus,
            without_thread: None,
            issues: Vec::new(),
        };
        match threads::find(session) {
            Ok(found) => {
                subject.issues = found.issues;
                subject.kernel(&found.kernel);
            }
            Err(error) => {
                subject.issues = session.issues().to_vec();
                message::say(&format!("tx-trace: no threads of a kernel: {}", error.message));
            }
        }
        subject.others();
        if subject.architecture.is_none() {
            let why = session.elf().map_or_else(
                || "the processor is not known, or its registers are not".to_owned(),
                |elf| format!("the registers of this processor ({}) are not known here", elf.machine()),
            );
            let hint = if session.elf().is_none() { " (--elf tells the processor)" } else { "" };
            message::say(&format!(
                "tx-trace: {why}: memory is served, but GDB attaches to nothing without registers{hint}"
            ));
        }
        Ok(subject)
    }

    impl Subject {
        /// Threads of the kernel, those that run first.
        fn kernel(&mut self, kernel: &Kernel) {
            if self.architecture.is_none() {
                self.endian = kernel.layout.shape.endian;
            }
            if self.architecture != kernel.processor && kernel.processor.is_some() {
                self.architecture = kernel.processor;
                self.cpus.iter_mut().for_each(|cpu| *cpu = cpu.as_cortex_m());
            }
            if let [cpu] = self.cpus.as_mut_slice() {
                complete_main_stack(cpu, kernel);
            }
            let mut order: Vec<&KernelThread> = kernel.threads.iter().collect();
            order.sort_by_key(|t| t.core.unwrap_or(usize::MAX));
            let owner = |address: Addr| kernel.thread(address).map(KernelThread::label);
            self.threads = order.into_iter().map(|t| self.shown(t, &kernel.cpus, &owner)).collect();
            let name = |address: Addr| owner(address).unwrap_or_else(|| format!("{address:#x}"));
            if let [cpu] = kernel.cpus.as_slice() {
                self.without_thread = cpu.without_thread(&name);
            }
        }

        /// One thread. That which runs has the registers of its CPU, in whatever exception that is: the debugger
        /// unwinds through it.
        fn shown(&self, thread: &KernelThread, cores: &[Cpu], owner: &dyn Fn(Addr) -> Option<String>) -> Thread {
            let cpu = thread.core.filter(|_| thread.pthread.is_none()).and_then(|core| {
                match (cores.len(), self.cpus.as_slice()) {
                    (1, [first, ..]) => Some(first),
                    (cores, cpus) if cpus.len() == cores => cpus.get(core),
                    _ => None,
                }
            });
            let saved = || {
                let mut registers = thread.stand.registers.clone()?;
                if let [only] = self.cpus.as_slice() {
                    registers.complete_thread(only);
                }
                Some(registers)
            };
            let registers = cpu.cloned().or_else(saved);
            let mut extra = doing(thread, owner);
            let above = thread.core.and_then(|core| cores.get(core)?.above.words());
            if let Some(above) = &above {
                extra.push_str(&format!(", in {above}"));
            }
            if let Some(priority) = thread.priority {
                extra.push_str(&format!(", priority {priority}"));
                if thread.inherits().is_some() {
                    extra.push_str(&format!(" inherited, own {}", thread.own_priority.unwrap_or_default()));
                }
            }
            if let Some(lwp) = thread.lwp() {
                extra.push_str(&format!(", LWP {lwp}"));
            }
            if thread.stand.never_ran {
                extra.push_str(", never ran");
            }
            if registers.is_none() && thread.core.is_some() && thread.pthread.is_none() {
                extra.push_str("; its registers are not in this source: --reg pc=N --reg sp=N");
            } else if let Some(why) = cpu.and_then(|cpu| doubt(thread, cpu)).filter(|_| above.is_some()) {
                extra.push_str(&format!("; {why}"));
            } else if registers.is_none() && !thread.stand.how.is_empty() && thread.stand.how != "ended" {
                extra.push_str(&format!("; {}", thread.stand.how));
            }
            Thread { id: thread.address, name: thread.name.clone().unwrap_or_default(), extra, registers }
        }

        /// CPUs, or a system's own threads, that no thread of the kernel stands for.
        fn others(&mut self) {
            let pc = |r: &Registers| (r.pc(), r.sp());
            let shown =
                |cpu: &Registers| self.threads.iter().filter_map(|t| t.registers.as_ref()).any(|r| pc(r) == pc(cpu));
            let rest: Vec<(usize, Registers)> =
                self.cpus.iter().cloned().enumerate().filter(|(_, cpu)| !shown(cpu)).collect();
            let none_runs = self.threads.is_empty() || rest.len() == self.cpus.len();
            let others = rest.into_iter().map(|(index, registers)| Thread {
                id: 0,
                name: match registers.lwp() {
                    Some(lwp) => format!("LWP {lwp}"),
                    None if self.cpus.len() == 1 => "CPU".to_owned(),
                    None => format!("CPU {index}"),
                },
                extra: self.without_thread.clone().unwrap_or_else(|| "its registers, as the core has them".to_owned()),
                registers: Some(registers),
            });
            let others: Vec<Thread> = others.collect();
            // Where none of the kernel's threads runs, the CPU is what stopped.
            let at = if none_runs { 0 } else { self.threads.len() };
            self.threads.splice(at..at, others);
        }
    }

    /// A Cortex-M's `sp` is `msp` or `psp`: where `psp` lies in the stack of the thread that runs and `sp` in none of its
    /// stacks, it is `msp`, though nothing else says that this is an exception.
    fn complete_main_stack(cpu: &mut Registers, kernel: &Kernel) {
        let open = cpu.level() == Level::Unknown && cpu.get("msp").is_none();
        let Some((sp, psp)) = cpu.sp().zip(cpu.get("psp")).filter(|_| open) else { return };
        if kernel.threads.iter().any(|t| t.core.is_some() && t.holds(psp) && !t.holds(sp)) {
            cpu.set("msp", sp);
        }
    }

    /// What is wrong with the registers that a thread left at PSP when an exception came: a debugger unwinds through
    /// them without a word.
    fn doubt<'t>(thread: &'t KernelThread, cpu: &Registers) -> Option<&'t str> {
        cpu.get("psp").filter(|_| thread.stand.pc.is_none())?;
        thread.stand.how.split_once("; ").map(|(_, why)| why)
    }

    /// What a thread does, as a debugger lists it: `suspended on mutex bus_mutex owned by low_task`.
    fn doing(thread: &KernelThread, owner: &dyn Fn(Addr) -> Option<String>) -> String {
        let Some(state) = thread.state else { return "state unknown".to_owned() };
        if thread.core.is_some() && state == State::READY {
            return "running".to_owned();
        }
        let Some(wait) = &thread.waits else { return thread.doing(owner) };
        let name = wait.name.clone().unwrap_or_else(|| format!("{:#x}", wait.address));
        let mut text = format!("suspended on {} {name}", wait.kind.name());
        if let Some(by) = wait.owner.filter(|o| *o != 0) {
            text.push_str(&format!(" owned by {}", owner(by).unwrap_or_else(|| format!("{by:#x}"))));
        }
        if !wait.more.is_empty() {
            text.push_str(&format!(", {}", wait.more));
        }
        text
    }
}
