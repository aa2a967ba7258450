//! OpenOCD's Tcl port, asked about a target before its GDB port is opened.
//!
//! Opening the GDB port runs the target's `gdb-attach` event, which halts the target by default and may reset it.
//! After that nothing shows whether the target ran before. A question at the Tcl port changes nothing.

use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::transport::{self, Transport, deadline_in};

/// Where OpenOCD listens for Tcl unless `tcl_port` says otherwise.
pub const TCL_PORT: u16 = 6666;
/// Ends every command and every answer.
pub(crate) const END: u8 = 0x1a;
/// The most time that one question may take: without an answer we go on without it.
const PATIENCE: Duration = Duration::from_millis(500);
/// The longest answer that is read, in bytes.
const MOST: usize = 64 << 10;

/// The state of a core, in OpenOCD's words (`curstate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreState {
    /// `running`.
    Running,
    /// `halted`.
    Halted,
    /// `reset`, `debug-running`, `unknown`, or a target that was not examined.
    Other,
}

impl CoreState {
    /// Understands the answer to `curstate`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "running" => Self::Running,
            "halted" => Self::Halted,
            _ => Self::Other,
        }
    }
}

/// A Tcl port that serves the same target as a GDB port.
#[derive(Debug, Clone)]
pub struct TclPort {
    host: String,
    gdb_port: u16,
    timeout: Duration,
}

/// A target as the Tcl port shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whether the core runs.
    pub state: CoreState,
    /// The Tcl code that runs when a GDB client connects, with the procedures that it calls.
    attach: String,
}

impl TclPort {
    /// The Tcl port beside a GDB port. Nothing is opened yet. `None` for an endpoint that is not TCP.
    #[must_use]
    pub fn beside(endpoint: &Endpoint, timeout: Duration) -> Option<Self> {
        match endpoint {
            Endpoint::Tcp { host, port } if *port != TCL_PORT => {
                Some(Self { host: host.clone(), gdb_port: *port, timeout: timeout.min(PATIENCE) })
            }
            _ => None,
        }
    }

    /// The endpoint that reads memory through this port, as users type it.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::OpenOcd { host: self.host.clone(), port: TCL_PORT }
    }

    /// Asks for the target that OpenOCD serves at the GDB port. `None` where nothing answers, or where another program
    /// serves that GDB port.
    #[must_use]
    pub fn look(&self) -> Option<Look> {
        let mut transport = transport::open(&self.endpoint(), self.timeout).ok()?;
        let question = quiet(&format!(
            "set answer none; foreach t [target names] {{if {{[$t cget -gdb-port] eq {{{}}}}} {{\
             set code [$t cget -event gdb-attach]; set all $code; \
             catch {{foreach word $code {{if {{[llength [info procs $word]] > 0}} {{append all \"\\n\" [info body $word]}}}}}}; \
             set answer \"[$t curstate]\\n$all\"; break}}}}",
            self.gdb_port
        ));
        let answer = ask(transport.as_mut(), question.as_bytes(), deadline_in(self.timeout))?;
        let text = String::from_utf8_lossy(&answer);
        let (state, attach) = text.split_once('\n')?;
        Some(Look { state: CoreState::parse(state), attach: attach.to_owned() })
    }
}

impl Look {
    /// The line of the `gdb-attach` event that resets the target, where there is one.
    #[must_use]
    pub fn resets(&self) -> Option<&str> {
        self.attach.lines().flat_map(|line| line.split(';')).map(str::trim).find(|command| is_reset(command))
    }
}

/// True where a Tcl command resets a target, or may.
fn is_reset(command: &str) -> bool {
    let mut words = command.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let code = !command.starts_with('#');
    code && words.any(|word| word == "reset" || word == "srst" || word == "soft_reset_halt" || word.ends_with("_reset"))
}

/// A script that sets `answer`, as a command whose result OpenOCD answers and does not print: it prints the result of
/// any other command into its log, and while GDB lets the target run into GDB's console too.
pub(crate) fn quiet(script: &str) -> String {
    format!("apply {{{{}} {{{script}; return -code exit $answer}}}}")
}

fn ask(transport: &mut dyn Transport, question: &[u8], deadline: Instant) -> Option<Vec<u8>> {
    transport.send(&[question, &[END]].concat(), deadline).ok()?;
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    while answer.len() < MOST {
        let n = transport.receive(&mut buf, deadline).ok()?;
        answer.extend_from_slice(buf.get(..n)?);
        if answer.last() == Some(&END) {
            answer.pop();
            return Some(answer);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attach_event_that_resets_is_found() {
        let resets = |attach: &str| {
            let look = Look { state: CoreState::Running, attach: attach.to_owned() };
            look.resets().map(str::to_owned)
        };
        assert_eq!(resets("halt 1000"), None);
        assert_eq!(resets("\n  reset init\n"), Some("reset init".into()));
        assert_eq!(resets("halt; soft_reset_halt"), Some("soft_reset_halt".into()));
        assert_eq!(resets("if {1} {reset halt}"), Some("if {1} {reset halt}".into()));
        assert_eq!(resets("# no reset here\nhalt"), None);
        assert_eq!(resets("reset_config none; halt"), None);
    }
}
