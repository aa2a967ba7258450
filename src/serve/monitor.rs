//! `monitor`: what GDB passes on to the server itself.

use std::io::{self, Write};

use gdbstub::target::ext::monitor_cmd::ConsoleOutput;

use crate::mem::Memory;

/// Answers a line: what stands behind `tx-trace`, the memory, and where to write.
pub type Answer<'a> = dyn FnMut(&str, &mut dyn Memory, &mut dyn Write) + 'a;

/// What goes out in one packet.
const CHUNK: usize = 1024;

/// What every refusal says.
pub(super) const CANNOT: &str = "tx-trace: this is a post-mortem image; it cannot run.\n";

const HELP: &str = "monitor tx-trace COMMAND ...   every command that reads: monitor tx-trace help\n\
                    monitor help                   this\n";

/// Answers one line.
pub(super) fn run(line: &[u8], memory: &mut dyn Memory, answer: Option<&mut Answer<'_>>, out: ConsoleOutput<'_>) {
    let mut out = Console { out, held: 0 };
    let line = String::from_utf8_lossy(line);
    let (first, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let written = match (first, answer) {
        ("tx-trace", Some(answer)) => {
            answer(rest.trim_start(), memory, &mut out);
            Ok(())
        }
        ("" | "help", _) => out.write_all(HELP.as_bytes()),
        // Scripts of an IDE say these to whatever they connect to: an answer, and no error.
        ("reset" | "halt" | "resume" | "arm" | "flash" | "load", _) => out.write_all(CANNOT.as_bytes()),
        (other, _) => {
            let other: String = crate::output::escape(other).chars().take(80).collect();
            writeln!(out, "tx-trace: no monitor command `{other}`; `monitor help` lists them")
        }
    };
    // The console takes all there is.
    drop(written.and_then(|()| out.flush()));
}

/// A debugger's console: what is written goes out in small packets.
struct Console<'a> {
    out: ConsoleOutput<'a>,
    held: usize,
}

impl Write for Console<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.chunks(CHUNK) {
            self.out.write_raw(chunk);
            self.held = self.held.saturating_add(chunk.len());
            if self.held >= CHUNK {
                self.flush()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush();
        self.held = 0;
        Ok(())
    }
}
