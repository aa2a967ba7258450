//! Letting the target run while connected, and stopping it: for `follow` alone.
//!
//! * All-stop: `vCont;c` (`c` where the stub has none), and nothing but 0x03 until the stop reply.
//! * Non-stop (`QNonStop:1`): the target runs, and the stub answers while it does. Stops come as notifications, each
//!   drained by `vStopped`. Before leaving, `vCont;t` and `QNonStop:0` bring back what leaving is written for.
//!
//! Threads of a process send each other signals. A stub stops a thread for each signal and drops it when the thread goes
//! on by `c`: the program would wait for it without end. So the stub is asked to pass such signals on by itself
//! (`QPassSignals`), and a thread that has stopped with one goes on by `vCont;C`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::link::{Failure, Wait};
use super::{Before, Client, reply};
use crate::rsp::error::{RspError, RspErrorKind, excerpt};
use crate::rsp::transport::deadline_in;

/// The most stops that are drained at once: one a thread.
const MAX_STOPS: usize = 4096;
/// How many signals of the program are passed on before the stop comes that we asked for.
const MAX_SIGNALS: usize = 1000;
/// SIGSTOP in GDB's numbering.
const SIGSTOP: u8 = 17;
/// The highest signal in GDB's numbering.
const LAST_SIGNAL: u8 = 0x97;

/// Whether the target runs while we are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// It is halted, as connecting left it.
    Halted,
    /// It runs, and the stub takes nothing but 0x03.
    Runs,
    /// The same, and 0x03 was sent. A second one would reach a program that has stopped already, and end it later.
    Stopping,
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
        self.prepare_for_signals()?;
        self.pending = None;
        for stopped in self.stopped_threads()? {
            if let Some(pending) = Pending::of(&stopped) {
                self.can(&pending.packet())?;
            }
        }
        // Threads that run already are not concerned.
        let runs = self.can(b"vCont;c")?;
        self.link.halt_until = None;
        Ok(runs)
    }

    /// Since when the target is halted because of us: by connecting to a target that ran, or by [`Client::halt`].
    pub fn halted_by_us(&mut self) -> Option<Instant> {
        let ours = self.before() == Before::Running || !self.how_to_run.is_empty();
        (ours && self.run == Run::Halted).then_some(self.halted_since)
    }

    /// Lets the target run. Nothing can be asked until [`Client::halt`].
    ///
    /// # Errors
    /// [`RspError`] where it cannot be sent.
    pub fn resume(&mut self) -> Result<(), RspError> {
        if self.run != Run::Halted {
            return Ok(());
        }
        if self.how_to_run.is_empty() {
            let known = self.link.ask(b"vCont?", &|b| b.is_empty() || b.starts_with(b"vCont") || reply::is_error(b))?;
            let offered = known.split(|b| *b == b';').any(|word| word == b"c");
            self.how_to_run = if offered { b"vCont;c".to_vec() } else { b"c".to_vec() };
            self.prepare_for_signals()?;
        }
        self.link.prepare()?;
        self.go_on()
    }

    /// Sends the packet by which the target runs.
    fn go_on(&mut self) -> Result<(), RspError> {
        let packet = match &self.pending {
            None => self.how_to_run.clone(),
            Some(pending) if self.how_to_run == b"c" => format!("C{:02x}", pending.signal).into_bytes(),
            // The others go on without a signal.
            Some(pending) if pending.thread.is_some() => [&pending.packet(), &b";c"[..]].concat(),
            Some(pending) => pending.packet(),
        };
        self.link.send(&[&packet])?;
        self.pending = None;
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
            Run::Halted | Run::Unhalted => Ok(None),
            Run::NonStop => self.watch_non_stop(),
            Run::Runs | Run::Stopping => loop {
                let Some(body) = self.link.unasked_until(deadline)? else { return Ok(None) };
                let Some(stop) = stop_of(&body) else { continue };
                self.stopped(&body);
                if self.pending.is_none() {
                    return Ok(Some(stop));
                }
                self.resume()?;
                // A program with a signal always pending is read all the same.
                if Instant::now() >= deadline {
                    return Ok(None);
                }
            },
        }
    }

    /// In all-stop mode the target has stopped, and the stub said so.
    fn stopped(&mut self, body: &[u8]) {
        self.link.outstanding = false;
        self.run = Run::Halted;
        self.halted_since = Instant::now();
        self.bound_halt();
        self.pending = self.goes_on(body);
    }

    /// How the thread in this stop reply goes on, unless it is to stay stopped.
    fn goes_on(&mut self, body: &[u8]) -> Option<Pending> {
        if let Some(left) = self.attach_stops.checked_sub(1)
            && matches!(stop_of(body), Some(Stop::Itself(SIGSTOP, _)))
        {
            self.attach_stops = left;
            return Some(Pending { signal: 0, thread: thread_of(body) });
        }
        Pending::of(body)
    }

    fn watch_non_stop(&mut self) -> Result<Option<Stop>, RspError> {
        self.link.drain()?;
        let Some(notices) = self.link.notices.as_mut().filter(|n| !n.is_empty()) else { return Ok(None) };
        let mut bodies = std::mem::take(notices);
        bodies.extend(self.drain_stops()?);
        let mut first = None;
        for body in bodies {
            match self.goes_on(&body) {
                Some(pending) => drop(self.can(&pending.packet())?),
                None => first = first.or_else(|| stop_of(&body)),
            }
        }
        Ok(first)
    }

    /// Before the target runs: asks a stub of processes to pass on the signals that the program is to have, without a stop
    /// for each of them.
    fn prepare_for_signals(&mut self) -> Result<(), RspError> {
        if self.features().has("QPassSignals") {
            let signals: Vec<String> =
                (1..=LAST_SIGNAL).filter(|s| is_for_program(*s)).map(|s| format!("{s:x}")).collect();
            self.can(format!("QPassSignals:{}", signals.join(";")).as_bytes())?;
            self.attach_stops = self.thread_count()?;
        }
        Ok(())
    }

    /// In non-stop mode: the stop reply of each thread that does not run.
    fn stopped_threads(&mut self) -> Result<Vec<Vec<u8>>, RspError> {
        let first = self.link.ask(b"?", &is_stop_list)?;
        if stop_of(&first).is_none() {
            return Ok(Vec::new());
        }
        let mut all = vec![first];
        all.extend(self.drain_stops()?);
        Ok(all)
    }

    /// Stops that come after a notification.
    fn drain_stops(&mut self) -> Result<Vec<Vec<u8>>, RspError> {
        let mut all = Vec::new();
        for _ in 0..MAX_STOPS {
            let answer = self.link.ask(b"vStopped", &is_stop_list)?;
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
    /// [`RspErrorKind::Runs`] where it does not stop in time.
    pub fn halt(&mut self) -> Result<Stop, RspError> {
        match self.run {
            Run::Halted | Run::NonStop | Run::Unhalted => return Ok(Stop::Asked),
            Run::Runs => self.link.send_raw(&[3])?,
            Run::Stopping => {}
        }
        self.run = Run::Stopping;
        // The target halts before its stop reply comes: OpenOCD reads all registers first.
        let mut asked = Instant::now();
        for _ in 0..MAX_SIGNALS {
            let stopped = self.link.answer(b"", &|b| reply::is_stop(b) || reply::is_gone(b), Wait::Unacknowledged);
            let body = match stopped {
                Ok(body) => body,
                Err(Failure::Fatal(error)) => return Err(self.link.fail_with(error)),
                Err(_) => break,
            };
            self.stopped(&body);
            if self.pending.is_none() {
                self.halted_since = asked;
                self.bound_halt();
                return Ok(match stop_of(&body) {
                    // SIGINT, SIGTRAP, SIGSTOP, or none: how stubs call a stop that was asked for. A breakpoint that is
                    // hit in the same moment looks alike.
                    Some(Stop::Itself(0 | 2 | 5 | SIGSTOP, _)) | None => Stop::Asked,
                    Some(stop) => stop,
                });
            }
            // A signal of the program's came first, and our interrupt is still on its way.
            asked = Instant::now();
            self.go_on()?;
            self.run = Run::Stopping;
        }
        Err(self.link.fail(RspErrorKind::Runs { timeout: self.link.timeout }))
    }

    /// Before leaving: the target is halted, and the stub is in all-stop mode.
    pub(super) fn halt_to_leave(&mut self) {
        match self.run {
            Run::Halted | Run::Unhalted => {}
            Run::Runs | Run::Stopping => drop(self.halt()),
            Run::NonStop => {
                self.run = Run::Halted;
                if !matches!(self.can(b"vCont;t"), Ok(true)) {
                    return;
                }
                drop(self.await_stops());
                drop(self.can(b"QNonStop:0"));
                self.link.notices = None;
            }
        }
        // What was halted when we came was let run by us alone.
        self.link.unasked_stops = 0;
    }

    /// After `vCont;t`: waits until each thread has reported its stop. A report that is not read now would come later and
    /// look like a stop by itself. A thread that was stopped already may report nothing.
    fn await_stops(&mut self) -> Result<(), RspError> {
        const QUIET: Duration = Duration::from_millis(200);
        let end = deadline_in(self.link.timeout.min(Duration::from_secs(2)));
        let count = self.thread_count()?;
        let mut stopped = BTreeSet::new();
        let mut quiet = end;
        while stopped.len() < count && Instant::now() < quiet {
            self.link.unasked_until(deadline_in(Duration::from_millis(20)).min(quiet))?;
            let Some(notices) = self.link.notices.as_mut().filter(|n| !n.is_empty()) else { continue };
            let mut bodies = std::mem::take(notices);
            bodies.extend(self.drain_stops()?);
            stopped.extend(bodies.iter().map(|body| thread_of(body)));
            quiet = deadline_in(QUIET).min(end);
        }
        Ok(())
    }

    /// How many threads stop each by itself: those of a process. The cores of a board stop together.
    fn thread_count(&mut self) -> Result<usize, RspError> {
        let by_themselves = self.features().has("QPassSignals");
        Ok(if by_themselves { self.thread_ids()?.len().clamp(1, MAX_STOPS) } else { 1 })
    }

    /// Says something that is answered with OK; false for another answer.
    fn can(&mut self, packet: &[u8]) -> Result<bool, RspError> {
        let answer = self.link.ask(packet, &reply::is_simple)?;
        Ok(answer == b"OK")
    }
}

/// A signal with which a thread has stopped, and which the program has not had yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    /// 0: none.
    signal: u8,
    /// As the stub writes it; `None` where its stop replies name no thread.
    thread: Option<String>,
}

impl Pending {
    /// The signal in a stop reply or a notification.
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        match stop_of(body)? {
            Stop::Itself(signal, _) if is_for_program(signal) => Some(Self { signal, thread: thread_of(body) }),
            _ => None,
        }
    }

    /// Lets the thread go on with its signal.
    fn packet(&self) -> Vec<u8> {
        let thread = self.thread.as_ref().map(|thread| format!(":{thread}")).unwrap_or_default();
        format!("vCont;C{:02x}{thread}", self.signal).into_bytes()
    }
}

/// The thread in a stop reply or a notification.
fn thread_of(body: &[u8]) -> Option<String> {
    reply::thread(without_name(body)).map(str::to_owned)
}

/// A notification without its name.
fn without_name(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"Stop:").unwrap_or(body)
}

/// What a stop reply says, also in a notification.
fn stop_of(body: &[u8]) -> Option<Stop> {
    let body = without_name(body);
    if reply::is_gone(body) {
        return Some(Stop::Ended(excerpt(body)));
    }
    let digits = body.get(1..3).filter(|_| reply::is_stop(body))?;
    let signal = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(Stop::Itself(signal, excerpt(body)))
}

/// What `?` and `vStopped` are answered with in non-stop mode.
fn is_stop_list(body: &[u8]) -> bool {
    body == b"OK" || body.is_empty() || reply::is_stop(body) || reply::is_gone(body) || reply::is_error(body)
}

/// The program itself is to have this signal: it is none of those that end it or that debuggers make.
const fn is_for_program(signal: u8) -> bool {
    // 0 none, 2 INT, 4 ILL, 5 TRAP, 6 ABRT, 7 EMT, 8 FPE, 10 BUS, 11 SEGV, 12 SYS
    !matches!(signal, 0 | 2 | 4..=8 | 10..=12 | SIGSTOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_distinguished() {
        assert_eq!(stop_of(b"T05thread:01;"), Some(Stop::Itself(5, "T05thread:01;".into())));
        assert_eq!(stop_of(b"S0b"), Some(Stop::Itself(11, "S0b".into())));
        assert_eq!(stop_of(b"W00"), Some(Stop::Ended("W00".into())));
        assert_eq!(stop_of(b"OK"), None);
        assert_eq!(stop_of(b"T"), None);
    }

    #[test]
    fn a_signal_is_for_its_thread() {
        let packet = |body: &[u8]| Pending::of(body).map(|pending| String::from_utf8(pending.packet()).unwrap());
        assert_eq!(packet(b"Stop:T0ethread:1;").as_deref(), Some("vCont;C0e:1"));
        assert_eq!(packet(b"T1f06:00*,;07:a0;thread:p1a.2b;core:0;").as_deref(), Some("vCont;C1f:p1a.2b"));
        assert_eq!(packet(b"S1e").as_deref(), Some("vCont;C1e"));
        for body in [&b"T05thread:1;"[..], b"T02thread:1;", b"S0b", b"T00thread:1;", b"W00", b"OK", b""] {
            assert_eq!(packet(body), None);
        }
    }
}
