//! Which program answers. The protocol does not say, and what it takes to leave a target differs by program.

use super::Client;
use super::link::{Link, MonitorReply};
use super::reply;
use crate::rsp::openocd::CoreState;

/// The programs that serve a target, as far as they have to be told apart.
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
        // An answer that did not come says nothing about who is there.
        if self.link.broken().is_none() {
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
            if features.has("vContSupported") && asks_for_steps(&mut self.link) {
                return if features.has("qXfer:auxv:read") { Stub::QemuUser } else { Stub::Qemu };
            }
            return Stub::Other;
        }
        // Only a stub that offers what OpenOCD or pyOCD offers is sent one of their commands.
        if !features.has("qXfer:threads:read") || !features.has("QStartNoAckMode") {
            return Stub::Other;
        }
        if features.has("vContSupported") && !features.has("QNonStop") {
            let version = self.link.monitor("version").ok().and_then(MonitorReply::text).unwrap_or_default();
            return if version.contains("Open On-Chip Debugger") { Stub::OpenOcd } else { Stub::Other };
        }
        if !features.has("vContSupported") && features.has("qXfer:features:read") {
            let status = self.link.monitor("status").ok().and_then(MonitorReply::text).unwrap_or_default();
            return if is_pyocd_status(&status) { Stub::PyOcd } else { Stub::Other };
        }
        Stub::Other
    }

    /// The state of the core as OpenOCD has it now; `None` where OpenOCD does not answer that.
    pub(super) fn openocd_state(&mut self) -> Option<CoreState> {
        match self.link.monitor("[target current] curstate").ok()? {
            MonitorReply::Done(text) => Some(CoreState::parse(&text)),
            MonitorReply::Failed(_) | MonitorReply::Unknown => None,
        }
    }
}

/// A question that only QEMU knows.
fn asks_for_steps(link: &mut Link) -> bool {
    link.ask(b"qqemu.sstepbits", &|b| b.is_empty() || reply::is_error(b) || b.starts_with(b"ENABLE="))
        .is_ok_and(|answer| answer.starts_with(b"ENABLE="))
}

/// `Core 0 (Cortex-M3):  Halted`.
fn is_pyocd_status(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("Core ") && line.contains("):  "))
}
