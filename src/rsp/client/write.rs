//! Memory that is written: for `control` alone.

use super::reply;
use super::{Client, Leave};
use crate::abi::{Addr, last_address};
use crate::rsp::error::{RspError, RspErrorKind, excerpt};
use crate::rsp::packet::to_hex;

impl Client {
    /// While true, Ctrl-C has no effect: it must not come between two writes of one change.
    pub const fn hold_interrupt(&mut self, hold: bool) {
        self.link.ignore_interrupt = hold;
    }

    /// Leaves the target halted, whatever the options say: what is in its memory is not whole.
    pub const fn leave_halted(&mut self) {
        self.leave = Leave::Halted;
    }

    /// Writes all of `bytes` from `addr` on.
    ///
    /// # Errors
    /// [`RspErrorKind::Refusal`] where the stub refuses a part of it; what came before has been written then.
    pub fn write_memory(&mut self, addr: Addr, bytes: &[u8]) -> Result<(), RspError> {
        if last_address(addr, bytes.len()).is_none() {
            let packet = format!("M{addr:x},{:x}", bytes.len());
            let reply = "it passes the end of the address space".to_owned();
            return Err(self.link.error(RspErrorKind::Refusal { packet, reply }));
        }
        // The packet also holds the address and the length.
        let most = self.max_chunk.saturating_sub(16).max(4);
        for (at, part) in (addr..).step_by(most).zip(bytes.chunks(most)) {
            let mut body = format!("M{at:x},{:x}:", part.len()).into_bytes();
            body.extend(to_hex(part));
            let answer = self.link.ask(&body, &reply::is_simple)?;
            match answer.as_slice() {
                b"OK" => {}
                b"" => return Err(self.link.error(RspErrorKind::Unsupported { packet: "M".into() })),
                error => {
                    let (packet, reply) = (excerpt(&body), excerpt(error));
                    return Err(self.link.error(RspErrorKind::Refusal { packet, reply }));
                }
            }
        }
        Ok(())
    }
}
