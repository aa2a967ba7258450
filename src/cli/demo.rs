//! `demo`: a built-in dead target, served over RSP on loopback and read as any board would be.

use super::Outcome;
use super::plan::Output;
use crate::error::Error;

/// Runs the demo.
#[cfg(not(feature = "serve"))]
pub fn run(_: &Output) -> Result<Outcome, Error> {
    Err(Error::failed(Code::Demo, "this build has no server for the demo's target", "build with --features serve"))
}

#[cfg(feature = "serve")]
pub use served::run;

#[cfg(feature = "serve")]
mod served {
    use std::thread;
    use std::time::Duration;

    use super::{Error, Outcome, Output};
    use crate::bytes::Bytes;
    use crate::catalogue::Names;
    use crate::cli::plan::{Ask, ClockPlan, Question};
    use crate::cli::{command, message};
    use crate::code::Code;
    use crate::mem::segments::{Block, Segments};
    use crate::query::{Amount, Filters};
    use crate::rsp::{Endpoint, Leave};
    use crate::serve::Server;
    use crate::session::{Inputs, RemoteInput, SourceSpec};

    /// The firmware of `tests/firmware`, which died of a write through a bad pointer in a thread that holds two locks.
    static ELF: &[u8] = include_bytes!("../../tests/fixtures/cm3.elf");
    /// Its RAM, as it lay after the fault.
    static RAM: &[u8] = include_bytes!("../../tests/fixtures/cm3.ram.bin");
    /// Where that RAM begins.
    const RAM_AT: u64 = 0x2000_0000;
    /// How many events are shown.
    const EVENTS: u64 = 20;

    /// Serves the built-in target, and asks it what it would ask a board.
    pub fn run(output: &Output) -> Result<Outcome, Error> {
        let fail = |e: std::io::Error| Error::failed(Code::Demo, format!("no port of 127.0.0.1: {e}"), "");
        let server = Server::on_loopback().map_err(fail)?;
        let address = server.address().map_err(fail)?;
        let endpoint =
            Endpoint::parse(&address.to_string()).map_err(|e| Error::failed(Code::Demo, e.to_string(), ""))?;
        message::say(&format!(
            "tx-trace: a Cortex-M3 that died of a HardFault is served at {address}; this is\n\
             \x20   tx-trace last {EVENTS} --elf app.elf --remote {address}"
        ));
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
            clock: ClockPlan::default(),
            names: Names::default(),
        };
        let outcome = command::read(question, output)?;
        // The client has left, so the server has ended; what it says of a broken link the client has said better.
        drop(serving.join());
        Ok(outcome)
    }
}
