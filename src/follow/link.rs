//! How the target is read: while it runs, by short halts, or where a debugger holds it.

use std::time::{Duration, Instant};

use crate::code::Code;
use crate::error::Error;
use crate::mem::remote::Remote;
use crate::rsp::transport::{deadline_in, remaining};
use crate::rsp::{Before, Client, Stop};
use crate::session::Target;

/// How the target is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// While it runs.
    Running,
    /// Halted for each read, after it ran for so long.
    Halting(Duration),
    /// It is halted, and a debugger holds it.
    Held,
}

/// How long the target was halted by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Halts {
    /// How often.
    pub count: u64,
    /// The longest.
    pub longest: Duration,
    /// All of them.
    pub total: Duration,
}

impl Halts {
    /// A halt ends that began at `since`, if there was one.
    #[allow(clippy::arithmetic_side_effects, reason = "counts halts and the time that has passed")]
    pub fn end(&mut self, since: Option<Instant>) {
        if let Some(since) = since {
            let time = since.elapsed();
            self.count += 1;
            self.longest = self.longest.max(time);
            self.total += time;
        }
    }
}

/// Brings the target to a state in which it can be read.
pub(super) fn start(target: &mut Target<'_>, how: How) -> Result<(), Error> {
    if !target.is_live() {
        return Err(Error::failed(
            Code::CannotFollow,
            format!("{}: a file does not change", target.name()),
            "follow reads a live target: --remote; of a file, `list` shows all and `last` the newest",
        ));
    }
    let name = target.name().to_owned();
    let mut client = target.remote_mut().map(Remote::client_mut);
    if let Some(client) = client.as_mut().filter(|_| how != How::Held)
        && !client.may_let_run()
    {
        return Err(stays_halted(&name, client));
    }
    match (how, client) {
        (How::Running, Some(client)) => match client.run_non_stop() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::failed(
                Code::CannotFollow,
                format!("{name}: this stub reads no memory while the target runs"),
                "--halt-every 500ms halts it shortly for each look; openocd:HOST:PORT (OpenOCD's Tcl port) and qmp:HOST:PORT|PATH (QEMU) read without a halt",
            )),
            Err(error) => Err(error.into()),
        },
        (How::Halting(_), None) => Err(Error::failed(
            Code::Usage,
            format!("{name} reads memory without a halt, and cannot halt"),
            "leave --halt-every out",
        )),
        _ => Ok(()),
    }
}

/// Following lets the target run, by which evidence may be lost.
fn stays_halted(name: &str, client: &mut Client) -> Error {
    let why = match client.before() {
        Before::Halted => "the target is halted",
        _ => "the target is halted, and nothing shows whether it ran before",
    };
    Error::failed(
        Code::TargetHalted,
        format!("{name}: {why}: it is not resumed"),
        "--leave running resumes it; `last` and `list` show what the trace holds now",
    )
}

/// Where the target is halted for each read: lets it run.
pub(super) fn let_run(target: &mut Target<'_>, how: How, halts: &mut Halts) -> Result<(), Error> {
    if let (How::Halting(_), Some(client)) = (how, target.remote_mut().map(Remote::client_mut)) {
        let since = client.halted_by_us();
        client.resume()?;
        halts.end(since);
    }
    Ok(())
}

/// Where the target is halted for each read: halts it. Returns why it stopped before.
pub(super) fn halt(target: &mut Target<'_>, how: How) -> Result<Option<Stop>, Error> {
    if let (How::Halting(_), Some(client)) = (how, target.remote_mut().map(Remote::client_mut)) {
        let stop = client.halt()?;
        return Ok((stop != Stop::Asked).then_some(stop));
    }
    Ok(None)
}

/// Waits for so long, or until the target stops by itself.
pub(super) fn wait(
    target: &mut Target<'_>,
    how: How,
    pause: Duration,
    halts: &mut Halts,
) -> Result<Option<Stop>, Error> {
    const SLICE: Duration = Duration::from_millis(50);
    let_run(target, how, halts)?;
    let client = target.remote_mut().map(Remote::client_mut);
    match (how, client) {
        (How::Halting(_), Some(client)) => Ok(client.watch(deadline_in(pause))?),
        (How::Running, Some(client)) => {
            let deadline = deadline_in(pause);
            loop {
                if let Some(stop) = client.watch(deadline)? {
                    return Ok(Some(stop));
                }
                let left = remaining(deadline);
                if left.is_zero() || super::interrupted() {
                    return Ok(None);
                }
                std::thread::sleep(left.min(SLICE));
            }
        }
        _ => {
            super::pause(pause);
            Ok(None)
        }
    }
}
