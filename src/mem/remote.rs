//! Memory behind a stub.

use super::{Memory, ReadError, ReadErrorKind};
use crate::abi::Addr;
use crate::bytes::Bytes;
use crate::rsp::client::{Client, ReadFailure};
use crate::rsp::error::{RspError, RspErrorKind, excerpt};

/// The memory of a live target. Every byte that is asked for is fetched, and none besides: what the target's memory
/// does when it is read (device registers) is for the caller to know.
pub struct Remote {
    client: Client,
}

impl Remote {
    /// Reads through `client`.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client, for what is not memory.
    pub const fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The client, to leave the target by.
    pub fn into_client(self) -> Client {
        self.client
    }
}

impl Memory for Remote {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        self.client.read_memory(addr, buf).map_err(|failure| error(addr, buf.len(), failure))
    }

    fn changes(&self) -> bool {
        self.client.runs_while_read()
    }

    /// All ranges go over in one series, so that a stub behind a slow probe is waited for once.
    fn read_batch(&mut self, wanted: &[(Addr, usize)]) -> Vec<Result<Bytes, ReadError>> {
        let mut answers = Vec::with_capacity(wanted.len());
        let sane = |len: usize| len <= super::MAX_READ;
        let asked: Vec<(Addr, usize)> = wanted.iter().copied().filter(|&(_, len)| sane(len)).collect();
        let mut got = self.client.read_batch(&asked).into_iter();
        for &(addr, len) in wanted {
            let answer = if sane(len) { got.next() } else { None };
            answers.push(match answer {
                Some(Ok(bytes)) => Ok(Bytes::from(bytes)),
                Some(Err(failure)) => Err(error(addr, len, failure)),
                None => Err(ReadError::new(addr, len, ReadErrorKind::TooLong)),
            });
        }
        answers
    }
}

fn error(addr: Addr, len: usize, failure: ReadFailure) -> ReadError {
    match failure {
        // `E.` and words; two digits are a number that only the stub knows the meaning of.
        ReadFailure::Refused { addr, reply } => match reply.strip_prefix("E.").map(str::trim) {
            Some(words) if !words.is_empty() => {
                let words = excerpt(words.as_bytes());
                ReadError::new(addr, len, ReadErrorKind::Refused(words))
            }
            _ => ReadError::unmapped(addr, len),
        },
        ReadFailure::Unreadable { addr, why } => ReadError::new(addr, len, ReadErrorKind::Refused(why)),
        ReadFailure::Link(error) => failed_link(addr, len, &error),
    }
}

/// The error of a read during which the link failed, or we ended the wait.
pub(super) fn failed_link(addr: Addr, len: usize, error: &RspError) -> ReadError {
    let kind = match error.kind {
        RspErrorKind::Interrupted | RspErrorKind::HaltedTooLong { .. } => {
            ReadErrorKind::Ended { code: error.code(), why: error.to_string() }
        }
        _ => ReadErrorKind::Source(error.to_string()),
    };
    ReadError::new(addr, len, kind)
}
