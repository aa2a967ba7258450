//! OpenOCD's Tcl port, asked about a target before its GDB port is opened.
//!
//! Opening the GDB port runs the target's `gdb-attach` event, which halts the target by default and may reset it.
//! After that nothing shows whether the target ran before. A question at the Tcl port changes nothing.

use std::time::{Duration, Instant};

use super::client::{Leave, Options};
use super::endpoint::Endpoint;
use super::error::{RspError, RspErrorKind, excerpt};
use super::transport::{self, Transport, deadline_in};

/// Where OpenOCD listens for Tcl unless `tcl_port` says otherwise.
const TCL_PORT: u16 = 6666;
/// Ends every command and every answer.
pub(crate) const END: u8 = 0x1a;
/// The most time that one question may take: without an answer we go on without it.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// The events that OpenOCD runs because a GDB client comes or goes.
const EVENTS: [&str; 3] = ["gdb-attach", "gdb-detach", "gdb-end"];
/// Before the name of each event in the answer.
const MARK: char = '\u{1}';

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
    /// For each GDB client OpenOCD runs these: the event, and its Tcl code with the procedures that it calls.
    events: Vec<(String, String)>,
}

impl TclPort {
    /// The Tcl port beside a GDB port. Nothing is opened yet. `None` for an endpoint that is not TCP.
    pub(super) fn beside(endpoint: &Endpoint, timeout: Duration) -> Option<Self> {
        match endpoint {
            Endpoint::Tcp { host, port } if *port != TCL_PORT => {
                Some(Self { host: host.clone(), gdb_port: *port, timeout: timeout.min(MAX_WAIT) })
            }
            _ => None,
        }
    }

    /// The endpoint that reads memory through this port, as users type it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::OpenOcd { host: self.host.clone(), port: TCL_PORT }
    }

    /// Asks for the target that OpenOCD serves at the GDB port. `None` where nothing answers, or where another program
    /// serves that GDB port.
    pub(super) fn look(&self) -> Option<Look> {
        let mut transport = transport::open(&self.endpoint(), self.timeout).ok()?;
        let answer = ask(transport.as_mut(), question(self.gdb_port).as_bytes(), deadline_in(self.timeout))?;
        Look::parse(&String::from_utf8_lossy(&answer))
    }
}

/// Asks for the state, and for the code of each event. A procedure may call another one, in braces too, so every word of
/// the code is looked up. OpenOCD's own view may be old where its polling is off, so it is asked to look (`arp_poll`).
fn question(gdb_port: u16) -> String {
    const SCRIPT: &str = r#"set answer none
foreach t [target names] {if {[$t cget -gdb-port] eq {PORT}} {
catch {$t arp_poll}
set all "[$t curstate]\n"
foreach event {EVENTS} {
set code {}
catch {set code [$t cget -event $event]}
append all "MARK$event\n"
set seen {}
while {$code ne {}} {
append all "$code\n"
set next {}
foreach word [regexp -all -inline {[A-Za-z_][A-Za-z0-9_:]*} [regsub -all -line {^[ \t]*#.*$} $code {}]] {
if {[lsearch -exact $seen $word] < 0 && [llength [info procs $word]] > 0} {
lappend seen $word
append next "[info body $word]\n"
}
}
set code $next
}
}
set answer $all
break
}}"#;
    let script = SCRIPT.replace("PORT", &gdb_port.to_string()).replace("EVENTS", &EVENTS.join(" "));
    quiet(&script.replace("MARK", &MARK.to_string()))
}

impl Look {
    fn parse(text: &str) -> Option<Self> {
        let (state, rest) = text.split_once('\n')?;
        let events = rest.split(MARK).filter_map(|event| event.split_once('\n'));
        let events = events.map(|(name, code)| (name.to_owned(), code.to_owned())).collect();
        Some(Self { state: CoreState::parse(state), events })
    }

    /// The event that resets the target, and its line, where there is one.
    fn resets(&self) -> Option<(&str, &str)> {
        self.find(is_reset)
    }

    /// The event that lets the target run, and its line, where there is one.
    fn resumes(&self) -> Option<(&str, &str)> {
        self.find(|command| words(command).any(|word| word == "resume"))
    }

    /// Fails where an event of OpenOCD's would change the target against the options.
    ///
    /// # Errors
    /// [`RspErrorKind::WouldReset`], [`RspErrorKind::WouldResume`].
    pub(super) fn allow(&self, endpoint: &Endpoint, options: &Options, port: &TclPort) -> Result<(), RspError> {
        let name = |(event, line): (&str, &str)| (event.to_owned(), excerpt(line.as_bytes()));
        let instead = format!("--remote {}", port.endpoint());
        if let Some((event, line)) = self.resets().map(name) {
            return Err(RspErrorKind::WouldReset { event, line, instead }.at(endpoint.to_string()));
        }
        let stays = match options.leave {
            Leave::Running => false,
            Leave::Halted => true,
            Leave::AsFound => self.state != CoreState::Running,
        };
        match self.resumes().map(name).filter(|_| stays) {
            Some((event, line)) => Err(RspErrorKind::WouldResume { event, line, instead }.at(endpoint.to_string())),
            None => Ok(()),
        }
    }

    fn find(&self, is_it: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
        self.events.iter().find_map(|(name, code)| {
            let mut commands = code.lines().flat_map(|line| line.split(';')).map(str::trim);
            Some((name.as_str(), commands.find(|command| !command.starts_with('#') && is_it(command))?))
        })
    }
}

/// True where a Tcl command resets a target, or may. The last of these is the register by which a Cortex-M resets itself.
fn is_reset(command: &str) -> bool {
    words(command).any(|word| {
        word == "reset"
            || word == "srst"
            || word == "soft_reset_halt"
            || word.ends_with("_reset")
            || word.eq_ignore_ascii_case("0xe000ed0c")
    })
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
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
    while answer.len() < MAX_ANSWER {
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

    fn look(code: &str) -> Look {
        Look::parse(&format!("halted\n{MARK}gdb-attach\n{MARK}gdb-end\n{code}\n")).unwrap()
    }

    #[test]
    fn an_event_that_resets_is_found() {
        for (code, line) in [
            ("\n  reset init\n", "reset init"),
            ("halt; soft_reset_halt", "soft_reset_halt"),
            ("if {1} {reset halt}", "if {1} {reset halt}"),
            ("mww 0xE000ED0C 0x05fa0004", "mww 0xE000ED0C 0x05fa0004"),
        ] {
            assert_eq!(look(code).resets(), Some(("gdb-end", line)));
        }
        for code in ["halt 1000", "# no reset here\nhalt", "reset_config none; halt"] {
            assert_eq!(look(code).resets(), None);
        }
    }

    #[test]
    fn an_event_that_resumes_is_found() {
        assert_eq!(look("halt\nresume").resumes(), Some(("gdb-end", "resume")));
        assert_eq!(look("halt 1000").resumes(), None);
    }
}
