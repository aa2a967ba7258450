//! OpenOCD's Tcl port: `read_memory ADDRESS 32 COUNT`, each answer ended by 0x1a. The target is not halted for it,
//! where OpenOCD can read it while it runs.
//!
//! OpenOCD can give zeros for what it could not read: nothing here can tell them from zeros that are there.

use super::{Wire, fatal, in_chunks};
use crate::abi::{Addr, Endian};
use crate::mem::{Memory, ReadError, ReadErrorKind};
use crate::rsp::RspError;
use crate::rsp::error::excerpt;

/// Ends every command and every answer.
const END: u8 = 0x1a;
/// What tells how OpenOCD reads words; its words are what the target's processor would see.
const ORDER: &str = "[target current] cget -endian";

/// Memory behind OpenOCD.
pub struct OpenOcd {
    wire: Wire,
    order: Endian,
}

impl OpenOcd {
    pub(super) fn greet(mut wire: Wire) -> Result<Self, RspError> {
        let asked = wire.send(&[ORDER.as_bytes(), &[END]].concat(), ORDER.as_bytes());
        let answer = match asked.and_then(|()| wire.answer(END, ORDER.as_bytes())) {
            Ok(answer) => answer,
            Err(RspError::Stalled { .. }) if !wire.rest.is_empty() => {
                let sent = excerpt(&wire.rest);
                return Err(wire.wrong(format!(
                    "what answers is not OpenOCD's Tcl port (it sent `{sent}`); that is 6666 unless `tcl_port` says otherwise"
                )));
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&answer);
        let order = match text.trim() {
            "big" => Endian::Big,
            "little" => Endian::Little,
            _ => return Err(wire.wrong(format!("OpenOCD does not tell of its target (`{}`)", excerpt(&answer)))),
        };
        Ok(Self { wire, order })
    }

    fn words(&mut self, addr: Addr, count: usize) -> Result<Vec<u8>, ReadError> {
        let command = format!("read_memory {addr:#x} 32 {count}");
        let len = count.saturating_mul(4);
        let mut asked = command.clone().into_bytes();
        asked.push(END);
        let answer =
            self.wire.send(&asked, command.as_bytes()).and_then(|()| self.wire.answer(END, command.as_bytes()));
        let answer = answer.map_err(|e| fatal(addr, len, &e))?;
        let text = String::from_utf8_lossy(&answer);
        let word = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let words: Option<Vec<u32>> = text.split_ascii_whitespace().map(word).collect();
        match words.filter(|w| w.len() == count) {
            Some(words) => Ok(words
                .into_iter()
                .flat_map(|w| match self.order {
                    Endian::Little => w.to_le_bytes(),
                    Endian::Big => w.to_be_bytes(),
                })
                .collect()),
            None if text.contains("invalid command") => {
                let why = format!(
                    "{}: this OpenOCD has no read_memory, which came with 0.12: take a newer one, or its GDB port",
                    self.wire.name
                );
                Err(ReadError::new(addr, len, ReadErrorKind::Source(why)))
            }
            // It answers, and has no such bytes.
            None => Err(ReadError::unmapped(addr, len)),
        }
    }
}

impl Memory for OpenOcd {
    fn read(&mut self, addr: Addr, buf: &mut [u8]) -> Result<(), ReadError> {
        in_chunks(addr, buf, |addr, part| {
            // Whole words: what OpenOCD reads at once cannot be torn.
            let start = addr & !3;
            let skip = usize::try_from(addr.wrapping_sub(start)).unwrap_or(0);
            let count = skip.saturating_add(part.len()).div_ceil(4);
            let bytes = self.words(start, count)?;
            let wanted = bytes.get(skip..).and_then(|b| b.get(..part.len()));
            part.copy_from_slice(wanted.ok_or_else(|| ReadError::unmapped(addr, part.len()))?);
            Ok(())
        })
    }

    fn changes(&self) -> bool {
        true
    }
}
