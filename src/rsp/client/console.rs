//! Text for a debugger that has us as its child: over the link, as console packets.

use std::time::{Duration, Instant};

use super::Client;
use crate::rsp::error::RspError;
use crate::rsp::packet::{encode, to_hex};

/// Bytes of text in one packet.
const CHUNK: usize = 2048;
/// How long the debugger's user may take over a page: GDB's pager holds the link meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

impl Client {
    /// Sends text to the debugger at the other end, which prints it.
    ///
    /// # Errors
    /// When the debugger has gone.
    pub fn console(&mut self, text: &[u8]) -> Result<(), RspError> {
        let mut frames = Vec::with_capacity(text.len().saturating_mul(2).saturating_add(8));
        for part in text.chunks(CHUNK) {
            let mut body = b"O".to_vec();
            body.extend(to_hex(part));
            frames.extend(encode(&body));
        }
        let now = Instant::now();
        self.link.send_raw_until(&frames, now.checked_add(MAX_WAIT).unwrap_or(now))
    }
}
