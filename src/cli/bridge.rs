//! `bridge`: stands between a debugger and a live stub, and answers `monitor tx-trace`.

use std::io::Write;
use std::net::SocketAddr;

use super::message;
use super::monitor::{self, Program};
use super::plan::ClockPlan;
use super::{Outcome, interrupt, listen};
use crate::bridge::{Answer, Bridge, BridgeError, End, Stub};
use crate::catalogue::Names;
use crate::code::Code;
use crate::error::Error;
use crate::mem::remote::Remote;
use crate::rsp::Endpoint;
use crate::session::{Borrowed, INTERRUPT, Inputs, RemoteInput, SourceSpec};

/// What to stand between.
pub struct BridgeTask {
    listen: SocketAddr,
    stub: RemoteInput,
    once: bool,
    inputs: Inputs,
    clock: ClockPlan,
    names: Names,
}

impl BridgeTask {
    /// Checks that there is a live stub, and nothing else.
    pub fn new(listen: &str, once: bool, mut inputs: Inputs, clock: ClockPlan, names: Names) -> Result<Self, Error> {
        if let Some(file) = inputs.files.first() {
            return Err(Error::usage(Code::Usage, format!("bridge reads no file: what is {}?", file.display())));
        }
        let SourceSpec::Remote(stub) = std::mem::take(&mut inputs.source) else {
            return Err(Error::usage(
                Code::Usage,
                "bridge stands before a live stub: give it by --remote :3333 (a core or a dump has none)",
            ));
        };
        if !stub.endpoint.is_rsp() || stub.endpoint == Endpoint::Stdio {
            return Err(Error::usage(Code::Usage, format!("{}: a debugger's stub is wanted here", stub.endpoint)));
        }
        if inputs.scan {
            return Err(Error::usage(Code::Usage, "--scan reads all memory, which a live target does not list"));
        }
        Ok(Self { listen: listen::parse(listen)?, stub, once, inputs, clock, names })
    }
}

/// Serves one debugger after the other.
pub fn run(task: BridgeTask) -> Result<Outcome, Error> {
    let BridgeTask { listen, stub, once, inputs, clock, names } = task;
    let fail = |e: std::io::Error| Error::failed(Code::Listen, format!("{listen}: {e}"), "give another port: --listen");
    // Once: what is wrong with the program is said now, and not to every line.
    let program = Program { info: inputs.describe()?, clock, names };
    let bridge = Bridge::bind(listen).map_err(fail)?;
    let _attached = interrupt::Guard::arm();
    listen::say(
        &format!("a bridge to {} listens", stub.endpoint),
        bridge.address().map_err(fail)?,
        "controls the target",
    );
    let stub = Stub { endpoint: stub.endpoint.clone(), timeout: stub.timeout, interrupt: Some(&**INTERRUPT) };
    let mut answer = |line: &str, memory: &mut Remote, out: &mut dyn Write| {
        monitor::run(line, &program, Borrowed::Stub(memory), out);
    };
    let answer: &mut Answer<'_> = &mut answer;
    loop {
        let mut came = |who: SocketAddr| message::say(&format!("tx-trace: a debugger came from {who}"));
        let ended = bridge.serve_one(&stub, answer, &mut came);
        let sentence = match &ended {
            Ok(None | Some(End::Interrupted)) => return Ok(Outcome::Done),
            Ok(Some(End::Debugger)) => "the debugger went".to_owned(),
            Ok(Some(End::Stub(why))) => format!("{} closed the connection{why}", stub.endpoint),
            Err(BridgeError::Stub(e)) => format!("{e}; the debugger was let go"),
            Err(BridgeError::Listen(e)) => return Err(Error::failed(Code::Listen, e.to_string(), "")),
        };
        message::say(&format!("tx-trace: {sentence}"));
        if once {
            return Ok(if ended.is_ok() { Outcome::Done } else { Outcome::Failed });
        }
    }
}
