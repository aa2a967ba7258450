//! OpenOCD's Tcl port: `read_memory ADDRESS 32 COUNT`, each answer ended by 0x1a. The target is not halted for it,
//! where OpenOCD can read it while it runs.
//!
//! OpenOCD prints the result of each command into its log, and while GDB lets the target run into GDB's console too:
//! 75 KB in three seconds of `follow`. A command that ends with the code `exit` is answered, and not printed.

use super::{Connection, Port};
use crate::abi::{Addr, Endian};
use crate::mem::remote::failed_link;
use crate::mem::{ReadError, ReadErrorKind};
use crate::rsp::error::excerpt;
use crate::rsp::openocd::{Failed, failed};
use crate::rsp::tcl::CoreState;
use crate::rsp::tcl::{END, quiet};
use crate::rsp::{RspError, RspErrorKind};

/// Before the answer to a read that failed: then come the target's state, a line feed, and OpenOCD's messages.
const FAILED: &str = "failed ";

/// Memory behind OpenOCD.
pub struct OpenOcd {
    connection: Connection,
    order: Endian,
}

/// Asks how OpenOCD reads words; its words are what the target's processor would see.
fn ask_order() -> String {
    quiet("set answer [[target current] cget -endian]")
}

/// Reads words, or says why that failed.
fn ask_words(addr: Addr, count: usize) -> String {
    quiet(&format!(
        "set messages [capture {{set failed [catch {{read_memory {addr:#x} 32 {count}}} answer]}}]; \
         if {{$failed}} {{set answer \"{FAILED}[[target current] curstate]\\n$answer\\n$messages\"}}"
    ))
}

/// Asks; `asked` says it shortly, for the message where there is no answer.
fn ask(connection: &mut Connection, command: &str, asked: &str) -> Result<String, RspError> {
    connection.send(&[command.as_bytes(), &[END]].concat(), asked.as_bytes())?;
    let answer = connection.answer(END, asked.as_bytes())?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

impl OpenOcd {
    pub(super) fn connect(mut connection: Connection) -> Result<Self, RspError> {
        let answer = match ask(&mut connection, &ask_order(), "[target current] cget -endian") {
            Ok(answer) => answer,
            Err(RspError { kind: RspErrorKind::Stalled { .. }, .. }) if !connection.rest.is_empty() => {
                if let Some(error) = connection.gdb_server() {
                    return Err(error);
                }
                let sent = excerpt(&connection.rest);
                return Err(connection.wrong(format!(
                    "the other end is not OpenOCD's Tcl port (it sent `{sent}`); that is 6666 unless `tcl_port` says otherwise"
                )));
            }
            Err(RspError { kind: RspErrorKind::Stalled { packet, timeout, .. }, .. }) => {
                let state = "; is it OpenOCD's Tcl port (6666)? For its GDB port type `--remote :3333`";
                return Err(connection.fail(RspErrorKind::Stalled { packet, timeout, state }));
            }
            Err(error) => return Err(error),
        };
        let order = match answer.trim() {
            "big" => Endian::Big,
            "little" => Endian::Little,
            other => {
                let said = excerpt(other.as_bytes());
                return Err(connection.wrong(format!("OpenOCD reports nothing about its target (`{said}`)")));
            }
        };
        Ok(Self { connection, order })
    }

    fn words(&mut self, addr: Addr, count: usize) -> Result<Vec<u8>, ReadError> {
        let len = count << 2;
        let asked = format!("read_memory {addr:#x} 32 {count}");
        let answer =
            ask(&mut self.connection, &ask_words(addr, count), &asked).map_err(|e| failed_link(addr, len, &e))?;
        if let Some(said) = answer.strip_prefix(FAILED) {
            return Err(self.why(addr, len, said));
        }
        let word = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let words: Option<Vec<u32>> = answer.split_ascii_whitespace().map(word).collect();
        let Some(words) = words.filter(|w| w.len() == count) else {
            let (packet, reply) = (excerpt(asked.as_bytes()), excerpt(answer.as_bytes()));
            return Err(failed_link(addr, len, &self.connection.fail(RspErrorKind::BadReply { packet, reply })));
        };
        let bytes = words.into_iter().flat_map(|w| match self.order {
            Endian::Little => w.to_le_bytes(),
            Endian::Big => w.to_be_bytes(),
        });
        Ok(bytes.collect())
    }

    /// The error of a read that OpenOCD says has failed.
    fn why(&self, addr: Addr, len: usize, said: &str) -> ReadError {
        if said.contains("invalid command") {
            let why = format!(
                "{}: this OpenOCD has no read_memory, which came with 0.12: use a newer one, or its GDB port",
                self.connection.name
            );
            return ReadError::new(addr, len, ReadErrorKind::Source(why));
        }
        let (state, messages) = said.split_once('\n').unwrap_or((said, ""));
        match failed(&self.connection.name, state, messages) {
            Failed::Address(why) => ReadError::new(addr, len, ReadErrorKind::Refused(why)),
            Failed::Target(error) => failed_link(addr, len, &error),
        }
    }
}

impl Port for OpenOcd {
    /// OpenOCD's own view may be old where its polling is off, so it is asked to poll.
    fn runs(&mut self) -> Result<bool, RspError> {
        let script = quiet("catch {[target current] arp_poll}; set answer [[target current] curstate]");
        let state = ask(&mut self.connection, &script, "[target current] curstate")?;
        Ok(CoreState::parse(&state) != CoreState::Halted)
    }

    #[allow(clippy::arithmetic_side_effects, reason = "no chunk is longer than CHUNK")]
    fn bytes(&mut self, addr: Addr, len: usize) -> Result<Vec<u8>, ReadError> {
        // Whole words: what OpenOCD reads at once cannot be torn.
        let skip = (addr & 3) as usize;
        let mut bytes = self.words(addr & !3, (skip + len).div_ceil(4))?;
        bytes.drain(..skip);
        Ok(bytes)
    }
}
