//! The link to one client: a damaged request is refused or passed over, a lost answer is sent again. gdbstub itself
//! ends the session at either.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use gdbstub::conn::{Connection, ConnectionExt};

use crate::rsp::packet::{Decoder, Kind};

/// A connection on which only whole and sound packets come through.
pub(super) struct Line {
    stream: TcpStream,
    decoder: Decoder,
    /// Bytes of sound packets that the stub has not taken yet.
    sound: VecDeque<u8>,
    /// What the stub has written and has not been sent.
    out: Vec<u8>,
    /// The last answer, as it was sent.
    last: Vec<u8>,
    /// The client wants acknowledgements.
    acks: bool,
    /// It has asked for their end.
    acks_end: bool,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            sound: VecDeque::new(),
            out: Vec::new(),
            last: Vec::new(),
            acks: true,
            acks_end: false,
        }
    }

    /// Takes in what has come; false where nothing that the stub must see is among it.
    fn sift(&mut self) -> io::Result<bool> {
        while self.sound.is_empty() {
            let token = self.decoder.next_token();
            match token.map_err(|_| io::Error::other("a packet without end"))? {
                None => return Ok(false),
                Some(Kind::Interrupt) => self.sound.push_back(3),
                Some(Kind::Packet(body)) if body.checksum_ok => {
                    // Its answer is the last one that is acknowledged: with that, or with the next packet, they end.
                    self.acks &= !self.acks_end;
                    self.acks_end |= body.data == b"QStartNoAckMode";
                    self.sound.extend(self.decoder.raw());
                }
                Some(Kind::Ack) => self.acks &= !self.acks_end,
                // Without acknowledgements nobody listens for a `-`: the client misses its answer, and asks again.
                Some(Kind::Packet(_)) if self.acks => Write::write_all(&mut self.stream, b"-")?,
                Some(Kind::Nak) if self.acks => Write::write_all(&mut self.stream, &self.last)?,
                Some(_) => {}
            }
        }
        Ok(true)
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match Read::read(&mut self.stream, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.decoder.push(bytes.get(..n).unwrap_or_default());
                Ok(())
            }
        }
    }
}

impl Connection for Line {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.out.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(start) = self.out.iter().position(|b| *b == b'$') {
            self.last = self.out.get(start..).unwrap_or_default().to_vec();
        }
        let out = std::mem::take(&mut self.out);
        Write::write_all(&mut self.stream, &out)
    }

    fn on_session_start(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)
    }
}

impl ConnectionExt for Line {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if self.sift()?
                && let Some(byte) = self.sound.pop_front()
            {
                return Ok(byte);
            }
            self.flush()?;
            self.fill()?;
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if !self.sift()? {
            self.stream.set_nonblocking(true)?;
            let filled = self.fill();
            self.stream.set_nonblocking(false)?;
            match filled {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                other => other?,
            }
            self.sift()?;
        }
        Ok(self.sound.front().copied())
    }
}
