//! OpenOCD's GDB port: is it that, and does its target run while it is read?

use super::Client;
use super::reply::Features;
use crate::rsp::error::RspError;

impl Client {
    /// True where OpenOCD answers. It is asked once, and only a stub that offers what OpenOCD offers.
    pub(super) fn is_openocd(&mut self) -> bool {
        if let Some(known) = self.openocd {
            return known;
        }
        if !may_be_openocd(self.features()) {
            return false;
        }
        // Without an answer it may be asked again.
        let Ok(version) = self.link.monitor("version") else { return false };
        let known = version.is_some_and(|text| text.contains("Open On-Chip Debugger"));
        self.openocd = Some(known);
        known
    }

    /// How OpenOCD sees its target: `running`, `halted`, `unknown`, `reset`.
    pub(super) fn openocd_state(&mut self) -> Result<String, RspError> {
        let state = self.link.monitor("[target current] curstate")?;
        Ok(state.unwrap_or_default().trim().to_owned())
    }

    /// Finds out whether connecting has left the target running, as OpenOCD does where its `gdb-attach` event does not
    /// halt. Its stop reply is then S00; others may say the same of a target that stands.
    pub(super) fn find_running(&mut self) {
        self.attached_running = self.stop_reason.starts_with(b"S00")
            && self.is_openocd()
            && self.openocd_state().is_ok_and(|state| state == "running");
    }
}

/// True where OpenOCD offers just this. Others do too.
pub(super) fn may_be_openocd(features: &Features) -> bool {
    features.has("qXfer:threads:read")
        && features.has("QStartNoAckMode")
        && features.has("vContSupported")
        && !features.has("QNonStop")
        && !features.has("multiprocess")
}
