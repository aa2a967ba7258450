//! `bridge`: connects a debugger to a live stub, and answers `monitor tx-trace`.

use std::io::{Error as IoError, Write};
use std::net::SocketAddr;

use super::diagnostics::Diagnostics;
use super::monitor::{self, Program};
use super::request::{Clock, Output, Request, Task, inputs, with_names};
use super::{Outcome, interrupt, listen, options};
use crate::bridge::{Answer, Bridge, BridgeError, End, Mode, Stub, Threads};
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::{Error, reason};
use crate::mem::Region;
use crate::mem::remote::Remote;
use crate::rsp::Endpoint;
use crate::session::{Borrowed, INTERRUPT, Inputs, RemoteInput, SourceSpec};

/// What to connect.
struct BridgeTask {
    listen: SocketAddr,
    stub: RemoteInput,
    once: bool,
    inputs: Inputs,
    clock: Clock,
    names: Names,
    threads: Mode,
    ranges: Vec<Region>,
}

/// Of what was typed: a live stub, and nothing else.
pub(super) fn request(typed: options::Bridge) -> Result<Request, Error> {
    let options::Bridge { listen, once, threads, range, source, mut clock } = typed;
    let wrong = |message: String| Err(Error::usage(Code::Usage, message));
    if source.leave.is_some() {
        return wrong("--leave: through a bridge the debugger decides how the target is left".to_owned());
    }
    let mut inputs = with_names(inputs(source, Vec::new())?, &mut clock);
    let SourceSpec::Remote(stub) = std::mem::take(&mut inputs.source) else {
        return wrong("bridge needs a live stub: give it by --remote :3333 (a core or a dump has none)".to_owned());
    };
    if !stub.endpoint.is_rsp() || stub.endpoint == Endpoint::Stdio {
        return wrong(format!("{}: bridge needs a GDB stub", stub.endpoint));
    }
    if inputs.scan {
        return wrong("--scan reads all memory, which a live target does not list".to_owned());
    }
    let names = clock.netx;
    let clock = clock.into();
    let task = BridgeTask { listen, stub, once, inputs, clock, names, threads, ranges: range };
    Ok(Request::new(task, Output::default()))
}

impl Task for BridgeTask {
    /// Serves one debugger after the other.
    fn run(self: Box<Self>, _: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let Self { listen, stub, once, inputs, clock, names, threads: mode, ranges } = *self;
        let fail = |e: IoError| {
            Error::failed(Code::Listen, format!("{listen}: {}", reason(&e)), "give another port: --listen")
        };
        // Once: what is wrong with the program is reported now, and not to every line.
        let info = inputs.describe()?;
        let threads = Threads::new(mode, info.clone(), ranges);
        let program = Program { info, clock, names };
        let bridge = Bridge::bind(listen).map_err(fail)?;
        let _attached = interrupt::Guard::arm();
        let what = format!("a bridge to {} listens", stub.endpoint);
        listen::say(&what, bridge.address().map_err(fail)?, "controls the target", diagnostics);
        if let Err(why) = threads.are_shown() {
            match mode {
                Mode::On => return Err(Error::failed(Code::NoKernelSymbol, why, "")),
                Mode::Auto | Mode::Off => {
                    diagnostics.say(format_args!("threads of ThreadX are not shown to the debugger: {why}"));
                }
            }
        }
        let stub = Stub { endpoint: stub.endpoint, timeout: stub.timeout, interrupt: Some(&**INTERRUPT) };
        let mut answer = |line: &str, memory: &mut Remote, out: &mut dyn Write| {
            monitor::run(line, &program, Borrowed::Stub(memory), out);
        };
        let answer: &mut Answer<'_> = &mut answer;
        loop {
            let mut came = |who: SocketAddr| diagnostics.say(format_args!("a debugger connected from {who}"));
            let mut say = |line: &str| diagnostics.say(line);
            let ended = bridge.serve_one(&stub, Some(&threads), answer, &mut came, &mut say);
            let sentence = match &ended {
                Ok(None | Some(End::Interrupted)) => return Ok(Outcome::Done),
                Ok(Some(End::Debugger)) => "the debugger disconnected".to_owned(),
                Ok(Some(End::Stub(why))) => format!("{} closed the connection{why}", stub.endpoint),
                Err(BridgeError::Stub(e)) => format!("{e}; the debugger was disconnected"),
                Err(BridgeError::Listen(e)) => return Err(Error::failed(Code::Listen, reason(e), "")),
            };
            diagnostics.say(sentence);
            if once {
                return Ok(if ended.is_ok() { Outcome::Done } else { Outcome::Failed });
            }
        }
    }
}
