//! `monitor`: commands for the server itself.

use std::io::{self, Write};

use gdbstub::target::ext::monitor_cmd::ConsoleOutput;

use crate::mem::Memory;

/// Answers a line: gets the text after `tx-trace`, the memory, and where to write.
pub type Answer<'a> = dyn FnMut(&str, &mut dyn Memory, &mut dyn Write) + 'a;

/// Bytes of text in one packet.
const CHUNK: usize = 1024;

/// The answer to every command that would change the target.
pub(super) const CANNOT: &str = "error: this is a post-mortem image; it cannot run.\n";

const HELP: &str = "monitor tx-trace COMMAND ...   every command that reads: monitor tx-trace help\n\
                    monitor help                   this\n";

/// Answers one line.
pub(super) fn run(line: &[u8], memory: &mut dyn Memory, answer: Option<&mut Answer<'_>>, out: ConsoleOutput<'_>) {
    let mut out = Console { out, room: CHUNK };
    let line = String::from_utf8_lossy(line);
    let (first, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let written = match (first, answer) {
        ("tx-trace", Some(answer)) => {
            answer(rest.trim_start(), memory, &mut out);
            Ok(())
        }
        ("" | "help", _) => out.write_all(HELP.as_bytes()),
        // Scripts of IDEs send these to every server: an answer, and no error.
        ("reset" | "halt" | "resume" | "arm" | "flash" | "load", _) => out.write_all(CANNOT.as_bytes()),
        (other, _) => {
            let other: String = crate::output::escape(other).chars().take(80).collect();
            writeln!(out, "error: no monitor command `{other}`; `monitor help` lists them")
        }
    };
    // The console takes everything.
    drop(written.and_then(|()| out.flush()));
}

/// A debugger's console, which gets text in small packets.
struct Console<'a> {
    out: ConsoleOutput<'a>,
    /// Bytes that the packet still takes.
    room: usize,
}

impl Write for Console<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.get(..self.room).unwrap_or(bytes);
        self.out.write_raw(now);
        self.room = self.room.saturating_sub(now.len());
        if self.room == 0 {
            self.flush()?;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush();
        self.room = CHUNK;
        Ok(())
    }
}
