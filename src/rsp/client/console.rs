//! Text for a debugger that started this program: over the link, as console packets.

use std::time::Duration;

use super::Client;
use crate::rsp::error::RspError;
use crate::rsp::packet::{encode, to_hex};
use crate::rsp::transport::deadline_in;

/// Bytes of text in one packet.
const CHUNK: usize = 2048;
/// How long the debugger's user may take over a page: GDB's pager holds the link meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

impl Client {
    /// Sends text to the debugger at the other end, which prints it.
    ///
    /// # Errors
    /// Where the debugger has closed the link.
    pub fn console(&mut self, text: &[u8]) -> Result<(), RspError> {
        let frame = |part: &[u8]| encode(&[b"O", to_hex(part).as_slice()].concat());
        let frames: Vec<u8> = text.chunks(CHUNK).flat_map(frame).collect();
        self.link.send_raw_until(&frames, deadline_in(MAX_WAIT))
    }
}
