//! The kernel's threads as the debugger's, on a stub that knows only CPUs.

mod guard;
mod look;
mod reader;
mod resume;
mod stop_reply;
#[cfg(test)]
mod tests;
mod translator;

use crate::cpu::Architecture;
use crate::mem::Region;
use crate::mem::remote::Remote;
use crate::session::TargetInfo;
use reader::{Program, Reader, Seen};
use translator::Translator;

pub use translator::{Answered, Todo};

/// Whether a debugger gets the kernel's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Where the program has ThreadX's symbols, and the stub shows no threads of an RTOS itself.
    #[default]
    Auto,
    /// Where the program has ThreadX's symbols.
    On,
    /// Never: every byte passes as it is.
    Off,
}

/// The program whose threads a bridge shows.
pub struct Threads {
    mode: Mode,
    info: TargetInfo,
    ranges: Vec<Region>,
}

impl Threads {
    /// The threads of this program. `ranges`: memory that may be read beside the program's sections, the stub's map and the
    /// threads' stacks.
    pub const fn new(mode: Mode, info: TargetInfo, ranges: Vec<Region>) -> Self {
        Self { mode, info, ranges }
    }

    /// Why no threads are shown, in words, where the program alone shows that; `Ok(false)` where they are not wanted.
    ///
    /// # Errors
    /// The reason.
    pub fn are_shown(&self) -> Result<bool, String> {
        if self.mode == Mode::Off {
            return Ok(false);
        }
        if let Some(name) = self.info.lacks() {
            return Err(format!("no symbol {name}: give the ELF of a program with ThreadX (--elf)"));
        }
        match self.info.frames().map(|(frames, _)| frames.architecture) {
            None => Err("the registers of the program's processor are not supported".to_owned()),
            Some(Architecture::X86 | Architecture::X86_64) => {
                Err("threads of ThreadX's Linux port are threads of the system, which the stub shows".to_owned())
            }
            Some(_) => Ok(true),
        }
    }

    /// One debugger's session.
    pub(super) fn session(&self) -> Option<Session> {
        let shown = self.are_shown() == Ok(true);
        let program = Program::new(self.info.clone(), self.ranges.clone()).filter(|_| shown)?;
        Some(Session { program, seen: Seen::default(), translator: Translator::new(self.mode == Mode::On) })
    }
}

/// What is known of the threads in one debugger's session.
pub(super) struct Session {
    program: Program,
    seen: Seen,
    translator: Translator,
}

impl Session {
    /// False once every packet passes.
    pub(super) fn is_on(&self) -> bool {
        self.translator.is_on()
    }

    /// A debugger's packet, while the stub owes no answer.
    pub(super) fn request(&mut self, body: &[u8], remote: &mut Remote) -> Todo {
        let mut look = Reader { program: &mut self.program, seen: &mut self.seen, remote };
        self.translator.request(body, &mut look)
    }

    /// The stub's answer, as the debugger gets it.
    pub(super) fn reply(&mut self, to: Answered, body: &[u8], remote: &mut Remote) -> Vec<Vec<u8>> {
        let mut look = Reader { program: &mut self.program, seen: &mut self.seen, remote };
        self.translator.reply(to, body, &mut look)
    }

    /// Lines for the bridge's terminal.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.translator.take_lines()
    }
}
