//! Which program answers. The protocol does not say, and how a target is left differs by program.

use super::Client;
use super::monitor::{MonitorReply, is_monitor_reply, monitor_packet};
use super::reply::{self, Features};
use crate::rsp::error::RspError;
use crate::rsp::tcl::CoreState;

/// A question that only QEMU knows, since version 0.12; no other stub answers it with `ENABLE=`.
const STEPS: &[u8] = b"qqemu.sstepbits";

/// The programs that serve a target, as far as they have to be distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stub {
    /// QEMU, a whole machine.
    Qemu,
    /// QEMU, one program of a foreign architecture.
    QemuUser,
    /// gdbserver.
    Gdbserver,
    /// OpenOCD.
    OpenOcd,
    /// pyOCD.
    PyOcd,
    /// Any other.
    Other,
}

impl Client {
    /// The program at the other end. It is asked once.
    pub(super) fn stub(&mut self) -> Stub {
        if let Some(stub) = self.stub {
            return stub;
        }
        let stub = if self.held { Stub::Other } else { self.identify() };
        // A missing answer, or one that Ctrl-C ended the wait for, does not identify the program.
        if self.link.broken().is_none() && (self.link.ignore_interrupt || !self.link.interrupted()) {
            self.stub = Some(stub);
        }
        stub
    }

    fn identify(&mut self) -> Stub {
        let Some(features) = self.link.features.clone() else { return Stub::Other };
        if features.has("QProgramSignals") && features.has("qXfer:exec-file:read") {
            return Stub::Gdbserver;
        }
        if features.has("multiprocess") {
            if !features.has("vContSupported") || !self.knows_steps() {
                return Stub::Other;
            }
            return if features.has("qXfer:auxv:read") { Stub::QemuUser } else { Stub::Qemu };
        }
        let mut monitor = |command| self.link.monitor(command).ok().and_then(MonitorReply::text).unwrap_or_default();
        if may_be_openocd(&features) && monitor("version").contains("Open On-Chip Debugger") {
            return Stub::OpenOcd;
        }
        if may_be_pyocd(&features) && is_pyocd_status(&monitor("status")) {
            return Stub::PyOcd;
        }
        Stub::Other
    }

    /// Asks what only QEMU knows, and in the same flight how its machine is.
    fn knows_steps(&mut self) -> bool {
        let is_steps = |b: &[u8]| b.starts_with(b"ENABLE=");
        let accept = |b: &[u8]| b.is_empty() || reply::is_error(b) || is_steps(b);
        let (status, version) = (monitor_packet("info status"), monitor_packet("info version"));
        let together =
            self.link.ask_together(&[(STEPS, &accept), (&status, &is_monitor_reply), (&version, &is_monitor_reply)]);
        match together {
            Ok(Some(answers)) => match answers.as_slice() {
                [(steps, _), status, version] => {
                    let text = |(answer, console): &(Vec<u8>, Vec<u8>)| {
                        MonitorReply::of(answer, console).text().unwrap_or_default()
                    };
                    self.qemu_status = Some((text(status), text(version)));
                    is_steps(steps)
                }
                _ => false,
            },
            _ => self.link.ask(STEPS, &accept).is_ok_and(|answer| is_steps(&answer)),
        }
    }

    /// True where OpenOCD answers.
    pub(super) fn is_openocd(&mut self) -> bool {
        may_be_openocd(self.features()) && self.stub() == Stub::OpenOcd
    }

    /// The state of the target, in OpenOCD's words: `running`, `halted`, `unknown`, `reset`.
    pub(super) fn openocd_curstate(&mut self) -> Result<String, RspError> {
        Ok(match self.link.monitor("[target current] curstate")? {
            MonitorReply::Done(text) => text.trim().to_owned(),
            MonitorReply::Failed(_) | MonitorReply::Unknown => String::new(),
        })
    }

    /// The same, understood; `None` where OpenOCD does not answer.
    pub(super) fn openocd_state(&mut self) -> Option<CoreState> {
        self.openocd_curstate().ok().filter(|text| !text.is_empty()).map(|text| CoreState::parse(&text))
    }
}

/// True where the features are those of OpenOCD. Other stubs may offer the same.
pub(super) fn may_be_openocd(features: &Features) -> bool {
    features.has("qXfer:threads:read")
        && features.has("QStartNoAckMode")
        && features.has("vContSupported")
        && !features.has("QNonStop")
        && !features.has("multiprocess")
}

/// True where the features are those of pyOCD. Other stubs may offer the same.
fn may_be_pyocd(features: &Features) -> bool {
    features.has("qXfer:threads:read")
        && features.has("qXfer:features:read")
        && features.has("QStartNoAckMode")
        && !features.has("vContSupported")
        && !features.has("multiprocess")
}

/// `Core 0 (Cortex-M3):  Halted`.
fn is_pyocd_status(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("Core ") && line.contains("):  "))
}
