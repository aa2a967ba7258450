//! Letting the target run while we are there, and stopping it: for `follow` alone.
//!
//! * All-stop: `vCont;c` (`c` where the stub has none), and nothing but 0x03 until the stop reply.
//! * Non-stop (`QNonStop:1`): the target runs, and the stub answers while it does. Stops come as notifications, each
//!   drained by `vStopped`. Before leaving, `vCont;t` and `QNonStop:0` bring back what leaving is written for.

use std::time::{Duration, Instant};

use super::Client;
use super::link::{Failure, Wait};
use super::reply;
use crate::rsp::error::{RspError, excerpt};
use crate::rsp::transport::deadline_in;

/// The most stops that are drained at once: one a thread.
const MOST_STOPS: usize = 4096;

/// Whether the target runs under our hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// It stands, as connecting left it.
    Stands,
    /// It runs, and the stub hears nothing but 0x03.
    Runs,
    /// It runs, and the stub answers: we asked for non-stop mode.
    NonStop,
    /// It runs, and the stub answers: connecting did not halt it.
    Unhalted,
}

/// Why a target stopped that we let run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// We asked for it.
    Asked,
    /// By itself: the number of the signal, as GDB counts them, and the stub's words.
    Itself(u8, String),
    /// The process has ended.
    Ended(String),
}

impl Client {
    /// Keeps the link open until Ctrl-C, or until the stub closes it: for a stub that resumes the target when its client
    /// goes.
    pub fn stay(&mut self) {
        let slice = Duration::from_secs(1);
        while !self.link.interrupted() && self.link.unasked_until(deadline_in(slice)).is_ok() {}
    }

    /// True where the target runs, and memory is read meanwhile.
    #[must_use]
    pub const fn runs_while_read(&self) -> bool {
        matches!(self.run, Run::NonStop | Run::Unhalted)
    }

    /// Lets the target run while the stub goes on answering; false where the stub cannot do that.
    ///
    /// # Errors
    /// [`RspError`] where the stub does not answer as it should.
    pub fn run_non_stop(&mut self) -> Result<bool, RspError> {
        if self.runs_while_read() {
            return Ok(true);
        }
        if !self.features().has("QNonStop") || !self.can(b"QNonStop:1")? {
            return Ok(false);
        }
        self.link.notices = Some(Vec::new());
        // From here on leaving has to end it.
        self.run = Run::NonStop;
        self.can(b"vCont;c")
    }

    /// Lets the target run. Nothing can be asked until [`Client::halt`].
    ///
    /// # Errors
    /// [`RspError`] where it cannot be sent.
    pub fn resume(&mut self) -> Result<(), RspError> {
        if self.run != Run::Stands {
            return Ok(());
        }
        if self.how_to_run.is_empty() {
            let known = self.link.ask(b"vCont?", &|b| b.is_empty() || b.starts_with(b"vCont") || reply::is_error(b))?;
            let offered = known.split(|b| *b == b';').any(|word| word == b"c");
            self.how_to_run = if offered { b"vCont;c".to_vec() } else { b"c".to_vec() };
        }
        let packet = std::mem::take(&mut self.how_to_run);
        let sent = self.link.prepare().and_then(|()| self.link.send(&[&packet]));
        self.how_to_run = packet;
        sent?;
        self.run = Run::Runs;
        self.link.halt_until = None;
        Ok(())
    }

    /// Waits until `deadline` for the target to stop by itself. A signal that a program is meant to have is passed on.
    ///
    /// # Errors
    /// [`RspError`] where the link fails.
    pub fn watch(&mut self, deadline: Instant) -> Result<Option<Stop>, RspError> {
        match self.run {
            Run::Stands | Run::Unhalted => Ok(None),
            Run::NonStop => self.watch_non_stop(),
            Run::Runs => loop {
                let Some(body) = self.link.unasked_until(deadline)? else { return Ok(None) };
                let Some(stop) = stop_of(&body) else { continue };
                self.link.outstanding = false;
                self.run = Run::Stands;
                let Some(signal) = passes(&stop) else { return Ok(Some(stop)) };
                let packet =
                    if self.how_to_run == b"c" { format!("C{signal:02x}") } else { format!("vCont;C{signal:02x}") };
                self.link.send(&[packet.as_bytes()])?;
                self.run = Run::Runs;
            },
        }
    }

    fn watch_non_stop(&mut self) -> Result<Option<Stop>, RspError> {
        self.link.drain()?;
        let Some(notices) = self.link.notices.as_mut().filter(|n| !n.is_empty()) else { return Ok(None) };
        let mut bodies = std::mem::take(notices);
        bodies.extend(self.drain_stops()?);
        for body in bodies {
            let Some(stop) = stop_of(&body) else { continue };
            let Some(signal) = passes(&stop) else { return Ok(Some(stop)) };
            let text = String::from_utf8_lossy(&body).into_owned();
            let thread = text.split(';').find_map(|part| Some(part.get(part.find("thread:")?..)?.to_owned()));
            let thread = thread.map(|t| t.replacen("thread", "", 1)).unwrap_or_default();
            self.can(format!("vCont;C{signal:02x}{thread}").as_bytes())?;
        }
        Ok(None)
    }

    /// Stops that come behind a notification.
    fn drain_stops(&mut self) -> Result<Vec<Vec<u8>>, RspError> {
        let mut all = Vec::new();
        for _ in 0..MOST_STOPS {
            let expected =
                |b: &[u8]| b == b"OK" || b.is_empty() || reply::is_stop(b) || reply::is_gone(b) || reply::is_error(b);
            let answer = self.link.ask(b"vStopped", &expected)?;
            if stop_of(&answer).is_none() {
                break;
            }
            all.push(answer);
        }
        Ok(all)
    }

    /// Stops the target that [`Client::resume`] let run.
    ///
    /// # Errors
    /// [`RspError::Runs`] where it does not stop in time.
    pub fn halt(&mut self) -> Result<Stop, RspError> {
        if self.run != Run::Runs {
            return Ok(Stop::Asked);
        }
        self.link.send_raw(&[3])?;
        let stopped = self.link.answer(b"", &|b| reply::is_stop(b) || reply::is_gone(b), Wait::Unacknowledged);
        let body = match stopped {
            Ok(body) => body,
            Err(Failure::Fatal(error)) => return Err(self.link.fail(error)),
            Err(_) => {
                let (endpoint, timeout) = (self.link.name.clone(), self.link.timeout);
                return Err(self.link.fail(RspError::Runs { endpoint, timeout }));
            }
        };
        self.link.outstanding = false;
        self.run = Run::Stands;
        self.halted_since = Instant::now();
        self.bound_halt();
        Ok(match stop_of(&body) {
            // SIGINT, SIGTRAP, SIGSTOP, or none: how stubs call a stop that was asked for. A breakpoint that is hit in
            // the same moment looks alike.
            Some(Stop::Itself(0 | 2 | 5 | 17, _)) | None => Stop::Asked,
            Some(stop) => stop,
        })
    }

    /// Before leaving: the target stands, and the stub is in all-stop mode.
    pub(super) fn stand(&mut self) {
        match self.run {
            Run::Stands | Run::Unhalted => {}
            Run::Runs => drop(self.halt()),
            Run::NonStop => {
                self.run = Run::Stands;
                if !matches!(self.can(b"vCont;t"), Ok(true)) {
                    return;
                }
                let deadline = deadline_in(self.link.timeout.min(Duration::from_secs(2)));
                while Instant::now() < deadline && self.link.notices.as_ref().is_some_and(Vec::is_empty) {
                    if self.link.unasked_until(deadline_in(Duration::from_millis(20)).min(deadline)).is_err() {
                        return;
                    }
                }
                drop(self.drain_stops());
                drop(self.can(b"QNonStop:0"));
                self.link.notices = None;
            }
        }
        // What stood when we came was let run by us alone.
        self.link.unasked_stops = 0;
    }

    /// Says something that is answered with OK; false for another answer.
    fn can(&mut self, packet: &[u8]) -> Result<bool, RspError> {
        let answer = self.link.ask(packet, &|b| b == b"OK" || b.is_empty() || reply::is_error(b))?;
        Ok(answer == b"OK")
    }
}

/// What a stop reply says, also in a notification.
fn stop_of(body: &[u8]) -> Option<Stop> {
    let body = body.strip_prefix(b"Stop:").unwrap_or(body);
    if reply::is_gone(body) {
        return Some(Stop::Ended(excerpt(body)));
    }
    let digits = body.get(1..3).filter(|_| reply::is_stop(body))?;
    let signal = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(Stop::Itself(signal, excerpt(body)))
}

/// The signal of a stop that the program itself is to handle: none of those that end it or that debuggers make.
fn passes(stop: &Stop) -> Option<u8> {
    match stop {
        // 0 none, 2 INT, 4 ILL, 5 TRAP, 6 ABRT, 7 EMT, 8 FPE, 10 BUS, 11 SEGV, 12 SYS, 17 STOP
        Stop::Itself(0 | 2 | 4..=8 | 10..=12 | 17, _) | Stop::Asked | Stop::Ended(_) => None,
        Stop::Itself(signal, _) => Some(*signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart() {
        assert_eq!(stop_of(b"T05thread:01;"), Some(Stop::Itself(5, "T05thread:01;".into())));
        assert_eq!(stop_of(b"Stop:T0ethread:1;").as_ref().and_then(passes), Some(14));
        assert_eq!(stop_of(b"S0b").as_ref().and_then(passes), None);
        assert_eq!(stop_of(b"W00"), Some(Stop::Ended("W00".into())));
        assert_eq!(stop_of(b"OK"), None);
        assert_eq!(stop_of(b"T"), None);
    }
}
