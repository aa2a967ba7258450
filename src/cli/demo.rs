//! `demo`: a built-in dead target, served over RSP on loopback and read as any board would be.

mod export;

use super::commands::Row;
use super::diagnostics::Diagnostics;
use super::request::{Output, Request, Task};
use super::{Outcome, options};
use crate::error::Error;

/// The firmware of `tests/firmware`, which died of a write through a bad pointer in a thread that holds two locks.
static ELF: &[u8] = include_bytes!("../../tests/fixtures/cm3.elf");
/// Its RAM, as it lay after the fault.
static RAM: &[u8] = include_bytes!("../../tests/fixtures/cm3.ram.bin");
/// Where that RAM begins.
const RAM_AT: u64 = 0x2000_0000;

/// The demo.
struct Demo;

/// Of what was typed.
pub(super) fn request(row: &Row, typed: options::Demo) -> Result<Request, Error> {
    let output = Output::of(row, typed.output)?.with(typed.columns);
    Ok(match typed.export {
        Some(dir) => Request::new(export::Export(dir), output),
        None => Request::new(Demo, output),
    })
}

impl Task for Demo {
    #[cfg(not(feature = "serve"))]
    fn run(self: Box<Self>, _: &Output, _: &Diagnostics) -> Result<Outcome, Error> {
        let hint = "build with --features serve";
        Err(Error::failed(crate::code::Code::Demo, "this build has no server for the demo's target", hint))
    }

    #[cfg(feature = "serve")]
    fn run(self: Box<Self>, output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        served::run(output, diagnostics)
    }
}

#[cfg(feature = "serve")]
mod served {
    use std::thread;
    use std::time::Duration;

    use super::{Diagnostics, ELF, Error, Outcome, Output, RAM, RAM_AT};
    use crate::bytes::Bytes;
    use crate::catalogue::Names;
    use crate::cli::read::{Ask, Question};
    use crate::cli::request::{Clock, Task};
    use crate::code::Code;
    use crate::error::reason;
    use crate::mem::segments::{Block, Segments};
    use crate::query::{Amount, Filters};
    use crate::rsp::{Endpoint, Leave};
    use crate::serve::Server;
    use crate::session::{Inputs, RemoteInput, SourceSpec};

    /// How many events are shown.
    const EVENTS: u64 = 20;

    /// Serves the built-in target, and asks it what it would ask a board.
    pub(super) fn run(output: &Output, diagnostics: &Diagnostics) -> Result<Outcome, Error> {
        let fail = |e: std::io::Error| Error::failed(Code::Demo, format!("no port of 127.0.0.1: {}", reason(&e)), "");
        let server = Server::on_loopback().map_err(fail)?;
        let address = server.address().map_err(fail)?;
        let endpoint =
            Endpoint::parse(&address.to_string()).map_err(|e| Error::failed(Code::Demo, e.to_string(), ""))?;
        diagnostics.say(format_args!("a Cortex-M3 that died of a HardFault is served at {address}; this is"));
        diagnostics.line(format_args!("    tx-trace last {EVENTS} --elf app.elf --remote {address}"));
        let serving = thread::spawn(move || {
            let mut memory = Segments::new(vec![Block::whole(RAM_AT, Bytes::from(RAM.to_vec()))]);
            server.serve_one(&mut memory)
        });
        let question = Question {
            ask: Ask::Last(Amount::Events(EVENTS)),
            inputs: Inputs {
                elf_built_in: Some(("app.elf", ELF)),
                source: SourceSpec::Remote(RemoteInput {
                    endpoint,
                    timeout: Duration::from_secs(2),
                    // It is dead: nothing can run on.
                    leave: Leave::Halted,
                    max_halt: None,
                }),
                ..Inputs::default()
            },
            filters: Filters::default(),
            clock: Clock::default(),
            names: Names::default(),
        };
        let outcome = Box::new(question).run(output, diagnostics)?;
        // The client has left, so the server has ended; what it says of a broken link the client has said better.
        drop(serving.join());
        diagnostics
            .say("next: `tx-trace demo --export board` writes its files, and `tx-trace explain` says why it died:");
        diagnostics.line("    tx-trace explain board/app.elf board/app.core");
        Ok(outcome)
    }
}
