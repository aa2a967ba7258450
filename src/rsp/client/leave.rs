//! How the target was found, and how it is left.
//!
//! What connecting does to a target, and what resumes it, differs by stub:
//!
//! | stub | what shows whether the target ran before | to let it run | to keep it halted |
//! |---|---|---|---|
//! | QEMU system before 8 | a stop reply comes unasked where connecting stopped the machine | `D` | close |
//! | QEMU system from 8 | `info status` shows why it is paused; `paused` alone shows nothing | `D` | close |
//! | gdbserver | it was halted: gdbserver stops it before it listens | `D` (gdbserver then ends) | close (with `--once` gdbserver ends, and a program that it started with it) |
//! | OpenOCD | its Tcl port, asked before connecting; `S05`: it was at a breakpoint; `S00` and `S02` show nothing | `monitor resume`, as `D` alone leaves it halted | close |
//! | pyOCD | nothing: it halts the target for every client | `D` | impossible: it resumes when its last client goes |
//! | a target that had to be stopped by 0x03 | it ran | `D` | close |
//! | others | nothing | `D` | close, if the stub agrees |
//!
//! A target is left halted where nothing shows that it ran: a crashed board that is resumed loses evidence.

use std::time::Duration;

use super::monitor::{MonitorReply, monitor_packet};
use super::reply;
use super::run::Run;
use super::stub::Stub;
use super::{Client, Leave, Wait};
use crate::code::Code;
use crate::rsp::error::RspError;
use crate::rsp::tcl::CoreState;

/// How the target was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It ran; our connecting halted it, or we did, or it runs on.
    Running,
    /// It was halted already.
    Halted,
    /// A debugger holds it and serves its memory to us; we change nothing.
    Held,
    /// The stub does not show it.
    Unknown,
}

/// How the target is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It runs, as far as the stub shows.
    Running,
    /// It is halted.
    Halted,
    /// As the debugger has it.
    Held,
    /// Not known; the message says why.
    Unknown,
}

/// How we left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveOutcome {
    /// How the target was found.
    pub before: Before,
    /// How it is now.
    pub after: After,
    /// How long a target that ran was halted for us; `None` where it was not.
    pub halted: Option<Duration>,
    /// What the user should know: that the target may not be in the requested state, or that its state before is not known.
    pub message: Option<String>,
}

/// The state in which the target is to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Run,
    Halt,
}

/// How long each answer is waited for on the way out after an error.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// The same after Ctrl-C: the stub answers, and its probe may be slow.
const AFTER_CTRL_C: Duration = Duration::from_secs(3);

/// Why a target is left halted where nothing shows that it ran, what may happen to it, and how to choose.
const UNKNOWN: &str =
    "nothing shows whether it ran before; a running watchdog may reset the board; --leave running resumes it";

impl Client {
    /// Leaves the target as the options say and closes the link. `D` is answered before the link is closed: QEMU
    /// stays paused if the close comes first. Never kills anything.
    pub fn leave(mut self) -> LeaveOutcome {
        self.leave_within(None)
    }

    /// How the target was found, as far as anything shows it. The stub is asked once.
    pub fn before(&mut self) -> Before {
        if let Some(before) = self.before {
            return before;
        }
        // After Ctrl-C too: how the target is left depends on it. The next request ends with Ctrl-C.
        let ignore_interrupt = std::mem::replace(&mut self.link.ignore_interrupt, true);
        let before = self.look_back();
        self.link.ignore_interrupt = ignore_interrupt;
        // A missing answer shows nothing.
        if self.link.broken().is_none() {
            self.before = Some(before);
            self.bound_halt();
        }
        before
    }

    /// To be called once the link is open: finds out how the target was found, and from then on holds to
    /// [`Options::max_halt`](super::Options::max_halt). Returns what the user should know now: how the target will be
    /// left, where it may be left in another state.
    pub fn arrive(&mut self) -> Option<String> {
        let before = self.before();
        let is_pyocd = !self.held && !self.features().has("multiprocess") && self.stub() == Stub::PyOcd;
        if self.held || self.run == Run::Unhalted {
            return None;
        }
        let name = &self.link.name;
        if is_pyocd {
            return (self.leave != Leave::Running).then(|| {
                format!(
                    "{name}: pyOCD resumes the target when its last client disconnects; --leave halted keeps this \
                     connection open, and the target halted, until Ctrl-C"
                )
            });
        }
        (before == Before::Unknown && self.leave == Leave::AsFound)
            .then(|| format!("{name}: the target is halted, and will be left halted ({UNKNOWN})"))
    }

    /// Fails after Ctrl-C, and where the target was halted for as long as it may be: to be called before what must not be
    /// interrupted.
    ///
    /// # Errors
    /// [`RspErrorKind::Interrupted`](crate::rsp::RspErrorKind::Interrupted),
    /// [`RspErrorKind::HaltedTooLong`](crate::rsp::RspErrorKind::HaltedTooLong).
    pub fn may_go_on(&self) -> Result<(), RspError> {
        self.link.check_interrupt()
    }

    /// A target that ran, or is to run, is not halted for longer than the options allow.
    pub(super) fn bound_halt(&mut self) {
        let runs = self.evidence() == Before::Running || self.leave == Leave::Running;
        let bound = self.max_halt.filter(|_| runs && self.run == Run::Halted);
        self.link.halt_until = bound.and_then(|limit| Some((self.halted_since.checked_add(limit)?, limit)));
    }

    /// True where the target may be resumed without the loss of evidence: it ran, the user wants it to run, or it is a
    /// process under gdbserver, which stops every process that it serves.
    pub fn may_let_run(&mut self) -> bool {
        // Asked first in any case: from then on the halt is bounded.
        let before = self.before();
        self.leave == Leave::Running || before == Before::Running || self.stub() == Stub::Gdbserver
    }

    /// True where the target stays halted only as long as we stay connected, and it is to stay halted.
    pub fn must_stay(&self) -> bool {
        self.leave == Leave::Halted && self.stub == Some(Stub::PyOcd)
    }

    /// How the target was found, as far as it is known without a question.
    fn evidence(&self) -> Before {
        if self.held {
            Before::Held
        } else if self.found_running {
            Before::Running
        } else {
            self.before.unwrap_or(match self.tcl_state {
                Some(CoreState::Running) => Before::Running,
                Some(CoreState::Halted) => Before::Halted,
                Some(CoreState::Other) | None => Before::Unknown,
            })
        }
    }

    fn look_back(&mut self) -> Before {
        let evidence = self.evidence();
        // A stub that offers `multiprocess` is not OpenOCD, of which it has to be known whether it halted the target.
        if evidence == Before::Held || evidence == Before::Running && self.features().has("multiprocess") {
            return evidence;
        }
        match self.stub() {
            Stub::Gdbserver => Before::Halted,
            Stub::OpenOcd => {
                if self.openocd_state() == Some(CoreState::Running) {
                    // Its gdb-attach event does not halt.
                    self.run = Run::Unhalted;
                    return Before::Running;
                }
                match evidence {
                    Before::Unknown if self.stop_reason.get(1..3) == Some(b"05") => Before::Halted,
                    known => known,
                }
            }
            Stub::Qemu => {
                let mut ask =
                    |command| self.link.monitor(command).ok().and_then(MonitorReply::text).unwrap_or_default();
                let (status, version) =
                    self.qemu_status.take().unwrap_or_else(|| (ask("info status"), ask("info version")));
                qemu_before(&status, &version)
            }
            // qemu-user waits for a debugger at its first instruction, and runs on whichever way the debugger goes.
            Stub::QemuUser | Stub::PyOcd | Stub::Other => evidence,
        }
    }

    pub(super) fn leave_within(&mut self, limit: Option<Duration>) -> LeaveOutcome {
        let (goal, mut outcome) = self.end(limit);
        self.check_by_tcl(goal, &mut outcome);
        outcome
    }

    fn end(&mut self, limit: Option<Duration>) -> (Goal, LeaveOutcome) {
        self.left = true;
        self.link.ignore_interrupt = true;
        // A stub that has just timed out gets a shorter timeout, and so does any stub after Ctrl-C.
        let limit = limit
            .or_else(|| self.link.broken().is_some().then_some(SHORT))
            .or_else(|| self.link.interrupted().then_some(AFTER_CTRL_C));
        self.link.timeout = limit.map_or(self.link.timeout, |limit| self.link.timeout.min(limit));
        // A stop that comes unasked from here on shows nothing.
        self.found_running |= !self.asked_why && self.stop_reason.is_empty() && self.link.unasked_stops > 0;
        let goal = self.goal(self.evidence());
        // A link that is broken has no more to say.
        if self.link.broken().is_none() {
            self.halt_to_leave();
        }
        if self.link.broken().is_some_and(|e| matches!(e.code(), Code::LinkClosed | Code::LinkFailed)) {
            return (goal, self.lost(goal, "the link broke before we could detach"));
        }
        self.link.forget_error();
        if self.link.outstanding && self.link.features.is_some() && !self.link.resync() {
            if goal == Goal::Run {
                // The answer is not read, but the stub may still receive this. At `D` alone OpenOCD leaves the target halted.
                let resume = monitor_packet("resume");
                let openocd = self.stub == Some(Stub::OpenOcd) && self.run != Run::Unhalted;
                let _ = if openocd { self.link.send(&[&resume, b"D"]) } else { self.link.send(&[b"D"]) };
            }
            return (goal, self.lost(goal, "the stub does not answer, so we could not detach"));
        }
        let before = self.before();
        let goal = self.goal(before);
        let mut outcome = match goal {
            Goal::Run => self.let_run(before),
            Goal::Halt => self.keep_halted(before),
        };
        if outcome.before == Before::Running && outcome.after == After::Running && self.run != Run::Unhalted {
            outcome.halted = Some(self.halted_since.elapsed());
        }
        (goal, outcome)
    }

    fn goal(&self, before: Before) -> Goal {
        match (self.leave, before) {
            (Leave::Running, _) | (_, Before::Held) | (Leave::AsFound, Before::Running) => Goal::Run,
            (Leave::Halted, _) | (Leave::AsFound, Before::Halted | Before::Unknown) => Goal::Halt,
        }
    }

    fn outcome(&self, after: After, message: Option<String>) -> LeaveOutcome {
        let message = message.map(|text| format!("{}: {text}", self.link.name));
        LeaveOutcome { before: self.evidence(), after, halted: None, message }
    }

    fn lost(&self, goal: Goal, why: &str) -> LeaveOutcome {
        let doubt = match goal {
            Goal::Halt => "whether the target is halted now is not known",
            Goal::Run => "the target may stay halted",
        };
        self.outcome(After::Unknown, Some(format!("{why}; {doubt}")))
    }

    fn let_run(&mut self, before: Before) -> LeaveOutcome {
        // A stub that offers `multiprocess` is not OpenOCD, and for `D` it does not matter who else it is.
        let openocd = before != Before::Held && !self.features().has("multiprocess") && self.stub() == Stub::OpenOcd;
        if openocd && self.run != Run::Unhalted {
            match self.link.monitor("resume") {
                Ok(MonitorReply::Done(_)) => {}
                Ok(MonitorReply::Failed(why)) => {
                    let why = why.trim().lines().next_back().unwrap_or_default().to_owned();
                    return self.lost(Goal::Run, &format!("OpenOCD did not resume the target ({why})"));
                }
                _ => return self.lost(Goal::Run, "OpenOCD did not accept `monitor resume`"),
            }
        }
        let state = if openocd { self.openocd_state() } else { None };
        match self.detach() {
            Some(answer) if answer == b"OK" => {}
            Some(answer) if answer.is_empty() => return self.lost(Goal::Run, "the stub does not know how to detach"),
            Some(answer) => {
                let why = format!("the stub refused to detach ({})", String::from_utf8_lossy(&answer));
                return self.lost(Goal::Run, &why);
            }
            None => return self.lost(Goal::Run, "the stub did not confirm that it detached"),
        }
        match state {
            _ if before == Before::Held => self.outcome(After::Held, None),
            Some(CoreState::Halted) => {
                let why = "OpenOCD resumed the target, and shows it halted again: is there a breakpoint?";
                self.outcome(After::Halted, Some(why.into()))
            }
            _ => self.outcome(After::Running, None),
        }
    }

    fn keep_halted(&mut self, before: Before) -> LeaveOutcome {
        let unknown = self.leave == Leave::AsFound && before == Before::Unknown;
        let left_halted = || format!("the target is left halted ({UNKNOWN})");
        match self.stub() {
            Stub::Qemu | Stub::Gdbserver => self.outcome(After::Halted, unknown.then(left_halted)),
            Stub::OpenOcd => {
                let mut state = self.openocd_state();
                if state == Some(CoreState::Running) {
                    let _ = self.link.monitor("halt");
                    state = self.openocd_state();
                }
                match state {
                    Some(CoreState::Halted) => self.outcome(After::Halted, unknown.then(left_halted)),
                    Some(CoreState::Running) => {
                        self.outcome(After::Running, Some("OpenOCD did not halt the target: it runs".into()))
                    }
                    _ => {
                        self.outcome(After::Unknown, Some("OpenOCD does not show whether the target is halted".into()))
                    }
                }
            }
            Stub::PyOcd => {
                let why = "pyOCD resumes the target now, because its last client disconnects; if another client is \
                           connected, the target stays halted";
                self.outcome(After::Unknown, Some(why.into()))
            }
            Stub::QemuUser | Stub::Other if unknown => {
                let why = format!(
                    "the connection is closed, and the target is not resumed; whether it stays halted depends on the \
                     stub ({UNKNOWN})"
                );
                self.outcome(After::Unknown, Some(why))
            }
            Stub::QemuUser | Stub::Other => {
                let why = "closed while halted; whether the target stays halted depends on the stub";
                self.outcome(After::Unknown, Some(why.into()))
            }
        }
    }

    /// Where OpenOCD's Tcl port is known, it shows the target as it is once the link is closed.
    fn check_by_tcl(&mut self, goal: Goal, outcome: &mut LeaveOutcome) {
        let Some(tcl) = self.tcl.take() else { return };
        self.link.close();
        let (after, wrong) = match (tcl.look().map(|look| look.state), goal) {
            (Some(CoreState::Running), Goal::Run) => (After::Running, None),
            (Some(CoreState::Halted), Goal::Halt) => (After::Halted, None),
            (Some(CoreState::Running), Goal::Halt) => (
                After::Running,
                Some(
                    "OpenOCD shows that the target runs now; its gdb-end or gdb-detach event may resume it".to_owned(),
                ),
            ),
            (Some(CoreState::Halted), Goal::Run) => {
                let lost = outcome.after == After::Unknown;
                let hint = if lost { "--leave running resumes it" } else { "is there a breakpoint?" };
                (After::Halted, Some(format!("OpenOCD shows that the target is halted now: {hint}")))
            }
            (Some(CoreState::Other) | None, _) => return,
        };
        // What might have happened and did not needs no message.
        let doubted = outcome.after == After::Unknown;
        outcome.after = after;
        if let Some(wrong) = wrong {
            outcome.message = Some(format!("{}: {wrong}", self.link.name));
        } else if doubted {
            outcome.message = None;
        }
    }

    /// Says `D`, once: whatever is sent after it would halt a QEMU that runs again. Only after an error, which says that
    /// the target is halted as before, is it said again with the process's number: QEMU wants that from every client
    /// once a GDB was there, and shows it by the numbers in its stop replies.
    fn detach(&mut self) -> Option<Vec<u8>> {
        let mut say = |packet: &[u8]| {
            self.link.prepare().ok()?;
            self.link.send(&[packet]).ok()?;
            self.link.parting = true;
            let answer = self.link.answer(packet, &reply::is_simple, Wait::Alone).ok()?;
            // Where it is refused, the target is still halted.
            self.link.parting = !reply::is_error(&answer);
            self.link.outstanding = false;
            Some(answer)
        };
        let answer = say(b"D")?;
        match reply::process(&self.stop_reason) {
            Some(process) if reply::is_error(&answer) => say(&[&b"D;"[..], process].concat()),
            _ => Some(answer),
        }
    }
}

/// How a QEMU machine was found that sent no stop reply when we came. Up to 7.2 it sends one if it ran; from 8.1 (8.0 is
/// not sure) it never does, and only a reason beside `paused` shows that something else than our coming paused it.
fn qemu_before(status: &str, version: &str) -> Before {
    let sends_stops =
        version.split('.').next().and_then(|major| major.trim().parse::<u32>().ok()).is_some_and(|v| v < 8);
    let status = status.trim();
    if sends_stops || (status.contains('(') && status.contains("paused")) {
        Before::Halted
    } else if status.ends_with("running") {
        Before::Running
    } else {
        Before::Unknown
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.left {
            let _ = self.leave_within(Some(SHORT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_shows() {
        for (status, version, before) in [
            ("VM status: paused (prelaunch)\r\n", "7.2.22Debian", Before::Halted),
            ("VM status: paused\r\n", "7.2.22Debian", Before::Halted),
            ("VM status: paused\r\n", "9.1.0", Before::Unknown),
            ("VM status: paused\r\n", "10.0.2 (Debian)", Before::Unknown),
            ("VM status: paused (prelaunch)\r\n", "9.1.0", Before::Halted),
            ("VM status: paused (debug)\r\n", "9.1.0", Before::Halted),
            ("VM status: running\r\n", "9.1.0", Before::Running),
            ("", "", Before::Unknown),
        ] {
            assert_eq!(qemu_before(status, version), before, "{status:?} {version:?}");
        }
    }
}
