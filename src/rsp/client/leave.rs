//! Leaving: how the target stood before we came, and how it stands afterwards.
//!
//! What connecting does to a target, and what it takes to let it run again, differs by stub:
//!
//! | stub | how the target stood | to let it run | to keep it halted |
//! |---|---|---|---|
//! | QEMU system before 8 | a stop reply comes unasked where connecting stopped the machine; else it stood | `D` | close |
//! | QEMU system from 8 | `info status` says why it stands; `paused` alone does not tell | `D` | close |
//! | gdbserver | it always stood: gdbserver stops it before it listens | `D` (gdbserver then ends) | close (with `--once` gdbserver ends, and a program that it started with it) |
//! | OpenOCD | `S05`: at a breakpoint; `S00`: it runs; `S02` does not tell | `monitor resume`, as `D` alone leaves it halted | close |
//! | a target that had to be stopped by 0x03 | it ran | `D` | close |
//! | others | not told | `D` | close, if the stub agrees |

use std::time::Duration;

use super::link::{Link, Wait};
use super::openocd::may_be_openocd;
use super::reply;
use super::{Client, Leave};

/// How the target stood when we came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It ran; our connecting halted it, or we did.
    Running,
    /// It stood still already.
    Halted,
    /// A debugger holds it and serves its memory to us; we change nothing.
    Held,
    /// The stub does not tell.
    Unknown,
}

/// How the target stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It runs, as far as the stub says.
    Running,
    /// It stands still.
    Halted,
    /// As the debugger has it.
    Held,
    /// Not known; the message says why.
    Unknown,
}

/// How we left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveOutcome {
    /// How the target stood when we came. Not looked into unless `--leave as-found` needs it.
    pub before: Before,
    /// How it stands now.
    pub after: After,
    /// What the user should know: that the stub does not tell how it stood, or that it may not stand as wished.
    pub message: Option<String>,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stub {
    Qemu,
    QemuUser,
    Gdbserver,
    OpenOcd,
    Other,
}

/// For the way out after an error.
pub(super) const SHORT: Duration = Duration::from_secs(1);

impl Client {
    /// Leaves the target as the options say and closes the link. `D` is answered before the link is closed: QEMU
    /// stays paused for ever if the close comes first. Never kills anything.
    pub fn leave(mut self) -> LeaveOutcome {
        self.part(None)
    }

    pub(super) fn part(&mut self, limit: Option<Duration>) -> LeaveOutcome {
        self.left = true;
        self.link.deaf = true;
        // Who has just been waited for in vain is not waited for as long again, nor is anybody after Ctrl-C.
        let hurry = self.link.broken().is_some() || self.link.interrupted();
        let limit = limit.or(hurry.then_some(SHORT));
        self.link.timeout = limit.map_or(self.link.timeout, |limit| self.link.timeout.min(limit));
        let name = self.link.name.clone();
        let fear = match self.leave {
            Leave::Halted => "how the target stands now is not known",
            Leave::AsFound | Leave::Running => "the target may stay halted",
        };
        let lost = |before, why: &str| LeaveOutcome {
            before,
            after: After::Unknown,
            message: Some(format!("{name}: {why}; {fear}")),
        };
        // Known before we let it run; a link that is broken has no more to say.
        let evidence = self.evidence();
        if self.link.broken().is_none() {
            self.stand();
        }
        if self.link.broken().is_some_and(|e| matches!(e.code(), "link-closed" | "link-failed")) {
            return lost(evidence, "the link broke before we could leave in order");
        }
        self.link.revive();
        if self.link.outstanding && self.link.features.is_some() && !self.link.resync() {
            if self.leave == Leave::Running || self.leave == Leave::AsFound && evidence == Before::Running {
                // Nobody will hear the answer, but the stub may yet wake up and read it.
                let _ = self.link.send(&[b"D"]);
            }
            return lost(evidence, "the stub does not answer, so we could not leave in order");
        }
        // A stub that offers `multiprocess` is not OpenOCD, and who else it is matters only for how the target stood.
        let known = evidence == Before::Running && self.leave != Leave::Halted && self.features().has("multiprocess");
        let stub = if evidence == Before::Held || known { Stub::Other } else { self.identify() };
        let before = match (evidence, self.leave) {
            (Before::Unknown, Leave::AsFound) => self.look(stub),
            (known, _) => known,
        };
        let stay = match self.leave {
            Leave::AsFound => before == Before::Halted,
            Leave::Running => false,
            Leave::Halted => before != Before::Held,
        };
        if stay {
            return match stub {
                Stub::Qemu | Stub::Gdbserver | Stub::OpenOcd => {
                    LeaveOutcome { before, after: After::Halted, message: None }
                }
                // pyOCD resumes when a client goes, unless it is told otherwise; qemu-user always runs on.
                Stub::QemuUser | Stub::Other => LeaveOutcome {
                    before,
                    after: After::Unknown,
                    message: Some(format!("{name}: closed while halted; whether it stays halted is up to the stub")),
                },
            };
        }
        if stub == Stub::OpenOcd && before != Before::Held && !matches!(self.link.monitor("resume"), Ok(Some(_))) {
            return lost(before, "OpenOCD did not take `monitor resume`");
        }
        match self.detach() {
            Some(answer) if answer == b"OK" => {}
            Some(answer) if answer.is_empty() => return lost(before, "the stub does not know how to detach"),
            Some(answer) => {
                return lost(before, &format!("the stub refused to detach ({})", String::from_utf8_lossy(&answer)));
            }
            None => return lost(before, "the stub did not confirm that it detached"),
        }
        let after = if before == Before::Held { After::Held } else { After::Running };
        let untold = before == Before::Unknown && self.leave == Leave::AsFound;
        let message = untold.then(|| {
            format!("{name}: the stub does not tell whether the target ran before; it runs on (--leave halted keeps it halted)")
        });
        LeaveOutcome { before, after, message }
    }

    /// Says `D`, once: whatever is sent after it would halt a QEMU that runs again. Only after an error, which says that
    /// the target stands as before, is it said again with the process's number: QEMU wants that from every client once
    /// a GDB was there, and tells by the numbers in its stop replies.
    fn detach(&mut self) -> Option<Vec<u8>> {
        let accept = |b: &[u8]| b == b"OK" || b.is_empty() || reply::is_error(b);
        let mut say = |packet: &[u8]| {
            self.link.prepare().ok()?;
            self.link.send(&[packet]).ok()?;
            self.link.parting = true;
            let answer = self.link.answer(packet, &accept, Wait::Alone).ok()?;
            // Where it is refused, the target stands.
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

    /// What connecting has shown already.
    fn evidence(&self) -> Before {
        if self.held {
            Before::Held
        } else if self.found_running || (self.stop_reason.is_empty() && self.link.unasked_stops > 0) {
            Before::Running
        } else {
            Before::Unknown
        }
    }

    fn identify(&mut self) -> Stub {
        let Some(features) = self.link.features.clone() else { return Stub::Other };
        if features.has("QProgramSignals") && features.has("qXfer:exec-file:read") {
            return Stub::Gdbserver;
        }
        // Only a stub that offers what OpenOCD offers is asked by a monitor command who it is.
        if may_be_openocd(&features) {
            return if self.is_openocd() { Stub::OpenOcd } else { Stub::Other };
        }
        if features.has("multiprocess") && features.has("vContSupported") && query(&mut self.link, "qqemu.sstepbits") {
            return if features.has("qXfer:auxv:read") { Stub::QemuUser } else { Stub::Qemu };
        }
        Stub::Other
    }

    fn look(&mut self, stub: Stub) -> Before {
        match stub {
            Stub::Gdbserver => Before::Halted,
            Stub::OpenOcd => match self.stop_reason.get(1..3) {
                Some(b"05") => Before::Halted,
                Some(b"00") => Before::Running,
                _ => Before::Unknown,
            },
            Stub::Qemu => {
                let status = self.link.monitor("info status").ok().flatten().unwrap_or_default();
                let version = self.link.monitor("info version").ok().flatten().unwrap_or_default();
                qemu_stood(&status, &version)
            }
            // It waits for a debugger at its first instruction, and runs on whichever way the debugger goes.
            Stub::QemuUser | Stub::Other => Before::Unknown,
        }
    }
}

fn query(link: &mut Link, packet: &str) -> bool {
    link.ask(packet.as_bytes(), &|b| b.is_empty() || reply::is_error(b) || b.starts_with(b"ENABLE="))
        .is_ok_and(|answer| answer.starts_with(b"ENABLE="))
}

/// How a QEMU machine stood that sent no stop reply when we came. Up to 7.2 it sends one if it ran; from 8.1 (8.0 is
/// not sure) it never does, and only a reason beside `paused` tells that something else than our coming paused it.
fn qemu_stood(status: &str, version: &str) -> Before {
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
            let _ = self.part(Some(SHORT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_tells() {
        for (status, version, stood) in [
            ("VM status: paused (prelaunch)\r\n", "7.2.22Debian", Before::Halted),
            ("VM status: paused\r\n", "7.2.22Debian", Before::Halted),
            ("VM status: paused\r\n", "9.1.0", Before::Unknown),
            ("VM status: paused\r\n", "10.0.2 (Debian)", Before::Unknown),
            ("VM status: paused (prelaunch)\r\n", "9.1.0", Before::Halted),
            ("VM status: paused (debug)\r\n", "9.1.0", Before::Halted),
            ("VM status: running\r\n", "9.1.0", Before::Running),
            ("", "", Before::Unknown),
        ] {
            assert_eq!(qemu_stood(status, version), stood, "{status:?} {version:?}");
        }
    }
}
