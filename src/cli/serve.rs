//! `serve`: a core or a dump as the target of a debugger, with the kernel's threads as the debugger's.

use std::net::SocketAddr;

use super::Outcome;
use super::diagnostics::Diagnostics;
use super::options;
use super::read::Ask;
use super::request::{self, Clock, Output, Request, Task};
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
    clock: Clock,
    names: Names,
}

/// Of what was typed: files, and nothing live.
pub(super) fn request(typed: options::Serve) -> Result<Request, Error> {
    let options::Serve { words, listen, stdio, once, source, mut clock } = typed;
    let inputs = request::inputs(source, request::take_words("serve", &mut Ask::Info, false, words)?)?;
    if inputs.is_remote() {
        return Err(Error::usage(
            Code::Usage,
            "serve takes a core or a dump; for a live stub there is `tx-trace bridge --remote ...`",
        ));
    }
    let inputs = request::with_names(inputs, &mut clock);
    let names = clock.netx;
    let listen = (!stdio).then_some(listen);
    Ok(Request::new(ServeTask { listen, once, inputs, clock: clock.into(), names }, Output::default()))
}

impl Task for ServeTask {
    #[cfg(not(feature = "serve"))]
    fn run(self: Box<Self>, _: &Output, _: &Diagnostics) -> Result<Outcome, Error> {
        Err(Error::usage(Code::Usage, "this build has no server: build with --features serve"))
    }

    #[cfg(feature = "serve")]
    fn run(self: Box<Self>, _: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        served::run(*self, diagnostics)
    }
}

#[cfg(feature = "serve")]
mod served {
    use std::io::{self, Write};

    use super::{Code, Diagnostics, Error, Outcome, ServeTask};
    use crate::cli::monitor::{self, Program};
    use crate::cli::{listen, threads};
    use crate::debugger::Stopped;
    use crate::error::reason;
    use crate::mem::Memory;
    use crate::serve::{PostMortem, Server};
    use crate::session::{Borrowed, Target};
    use crate::trace::Issue;

    /// Opens the files, finds the threads, and serves one debugger after the other.
    pub(super) fn run(task: ServeTask, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let ServeTask { listen, once, inputs, clock, names } = task;
        let mut target = Target::open(inputs)?;
        let name = target.name().to_owned();
        let Subject { stopped, issues } = find(&mut target, diagnostics)?;
        let offset = target.load_offset().value;
        let floats = stopped.architecture.and_then(|a| a.float_bits(target.flags()));
        diagnostics.issues(&issues);
        let Some((mut memory, info)) = target.into_memory() else {
            return Err(Error::usage(Code::Usage, "serve takes a core or a dump"));
        };
        let program = Program { info, clock, names };
        let count = stopped.threads.len();
        let answer = move |line: &str, memory: &mut dyn Memory, out: &mut dyn Write| {
            monitor::run(line, &program, Borrowed::Memory(memory), out);
        };
        let mut served =
            PostMortem::new(memory.as_mut(), stopped).with_floats(floats).loaded_at(offset).answering(Box::new(answer));
        let Some(at) = listen else {
            // GDB shows what is said here among its own words.
            return match served.serve_pipe(io::stdin().lock(), io::stdout().lock()) {
                Err(e) if e.kind() != io::ErrorKind::UnexpectedEof && e.kind() != io::ErrorKind::BrokenPipe => {
                    diagnostics.failed(format_args!("the debugger's link: {}", reason(&e)));
                    Ok(Outcome::Failed)
                }
                _ => Ok(Outcome::Done),
            };
        };
        let fail = |e: io::Error| {
            Error::failed(Code::Listen, format!("{at}: {}", reason(&e)), "give another port: --listen :3335")
        };
        let server = Server::on(at).map_err(fail)?;
        let address = server.address().map_err(fail)?;
        let what = format!("{name} with {count} threads is served");
        listen::say(&what, address, "reads this memory", diagnostics);
        diagnostics.line(format_args!("(gdb) target remote {}", target_of(address)));
        loop {
            let ended = server.next(&mut served);
            match ended {
                Ok(_) if once => return Ok(Outcome::Done),
                Ok(_) => {}
                Err((None, e)) => return Err(Error::failed(Code::Listen, format!("{address}: {}", reason(&e)), "")),
                Err((Some(from), e)) => {
                    diagnostics.say(format_args!("{from} was disconnected: {}", reason(&e)));
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

    /// What is served.
    struct Subject {
        stopped: Stopped,
        issues: Vec<Issue>,
    }

    /// The threads: the kernel's, or those of the core where there is no kernel to be read.
    fn find(target: &mut Target<'_>, diagnostics: &Diagnostics) -> Result<Subject, Error> {
        let stop = target.stop(&mut Vec::new())?;
        let endian = target.elf().map(|e| e.endian());
        let (kernel, issues) = match threads::find(target) {
            Ok(found) => (Some(found.kernel), found.issues),
            Err(error) => {
                diagnostics.say(format_args!("no threads of a kernel: {}", error.message));
                (None, target.issues().to_vec())
            }
        };
        let stopped = Stopped::new(stop, kernel.as_ref(), endian);
        if stopped.architecture.is_none() {
            let why = target.elf().map_or_else(
                || "the processor is not known, or its registers are not".to_owned(),
                |elf| format!("the registers of this processor ({}) are not supported", elf.machine()),
            );
            let hint = if target.elf().is_none() { " (--elf gives the processor)" } else { "" };
            diagnostics.say(format_args!("{why}: memory is served, but GDB cannot attach without registers{hint}"));
        }
        Ok(Subject { stopped, issues })
    }
}
