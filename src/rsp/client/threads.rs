//! The threads that a stub itself shows: of a board mostly its CPUs.

use super::Client;
use super::reply;
use crate::rsp::error::RspError;

/// The most packets in which a stub lists its threads.
const MAX_PACKETS: usize = 256;
/// The most threads that are taken from them.
const MAX_THREADS: usize = 4096;
/// The longest number of a thread: `p` and two numbers of 64 bits.
const MAX_ID: usize = 40;

impl Client {
    /// The numbers of the stub's threads, as it writes them (`1`, `p1.2`); empty where it lists none.
    ///
    /// # Errors
    /// Of the link only.
    pub fn thread_ids(&mut self) -> Result<Vec<String>, RspError> {
        let expected = |b: &[u8]| b.is_empty() || matches!(b, [b'm' | b'l', ..]) || reply::is_error(b);
        let mut ids: Vec<String> = Vec::new();
        let mut packet = &b"qfThreadInfo"[..];
        for _ in 0..MAX_PACKETS {
            let answer = self.link.ask(packet, &expected)?;
            let Some(threads) = answer.strip_prefix(b"m") else { break };
            for id in threads.split(|b| *b == b',').filter(|id| is_id(id)) {
                ids.push(String::from_utf8_lossy(id).into_owned());
            }
            if ids.len() >= MAX_THREADS {
                break;
            }
            packet = b"qsThreadInfo";
        }
        ids.truncate(MAX_THREADS);
        Ok(ids)
    }

    /// Chooses the stub's thread for reads of registers and memory (`Hg`); false where the stub refuses.
    ///
    /// # Errors
    /// Of the link only.
    pub fn select_thread(&mut self, id: &str) -> Result<bool, RspError> {
        let answer = self.link.ask(format!("Hg{id}").as_bytes(), &reply::is_simple)?;
        Ok(answer == b"OK")
    }

    /// Sends acknowledgements ahead of the answers of a flight, where the stub reads one packet after the other: reads are
    /// then together on their way with acknowledgements too.
    pub const fn acknowledge_ahead(&mut self) {
        self.link.ahead = true;
    }
}

/// A number goes into requests.
fn is_id(id: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b'p' | b'.' | b'-');
    !id.is_empty() && id.len() <= MAX_ID && id.iter().all(plain)
}
