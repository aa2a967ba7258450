//! What OpenOCD says of a read that failed.
//!
//! It prints its reasons into its log. Both of its ports give them to the client that asked: the Tcl port by `capture`,
//! the GDB port as console output of a monitor command.

use super::error::{RspError, RspErrorKind};

/// The most messages that are shown, and the most characters of all of them.
const MAX_LINES: usize = 4;
const MAX_CHARACTERS: usize = 200;

/// What OpenOCD prints for other reasons than the read: it polls its target now and then, and the script that asked
/// for the read repeats that it failed.
const NOT_OF_THE_READ: [&str; 3] = ["Polling target", "Examination failed", "read_memory:"];

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// These addresses cannot be read; others can.
    Address(String),
    /// The target does not answer at all.
    Target(RspError),
}

/// Makes a failure of the target's state (`[target current] curstate`) and of OpenOCD's messages.
pub(crate) fn failed(endpoint: &str, state: &str, messages: &str) -> Failed {
    let why = reason(messages);
    if why.contains("not examined") {
        let hint = "OpenOCD could not reach it when it started: check power, wiring, `reset_config` and a connect under \
                    reset, then start OpenOCD again";
        return Failed::Target(RspErrorKind::TargetLost { why, hint }.at(endpoint));
    }
    // "unknown": OpenOCD could not read the state of the processor either.
    if state.trim() == "unknown" {
        let hint = "is it powered and connected, and does its debug clock run while it sleeps?";
        return Failed::Target(RspErrorKind::TargetLost { why, hint }.at(endpoint));
    }
    Failed::Address(why)
}

/// OpenOCD's messages in one line: each once, in their order.
fn reason(messages: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in messages.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let is_new = !lines.contains(&line) && !NOT_OF_THE_READ.iter().any(|start| line.starts_with(start));
        if is_new && lines.len() < MAX_LINES {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return "no reason given".to_owned();
    }
    lines.join("; ").chars().take(MAX_CHARACTERS).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_shown_once() {
        let messages = "Invalid ACK (7) in DAP response\nJTAG-DP STICKY ERROR\nInvalid ACK (7) in DAP response\n\
                        Polling target cm.cpu failed, trying to reexamine\nJTAG-DP STICKY ERROR\n\
                        Failed to read memory at 0x20010000\nread_memory: failed to read memory\n";
        let why = "Invalid ACK (7) in DAP response; JTAG-DP STICKY ERROR; Failed to read memory at 0x20010000";
        assert_eq!(reason(messages), why);
        assert_eq!(reason("\n\n"), "no reason given");
        assert_eq!(reason("\x1b[2J"), "\\u{1b}[2J");
        assert!(reason(&"x".repeat(1 << 20)).len() <= MAX_CHARACTERS);
    }

    #[test]
    fn a_lost_target_is_not_a_bad_address() {
        assert_eq!(failed("here", "halted\n", "no power"), Failed::Address("no power".into()));
        let lost = |state, messages| match failed("here", state, messages) {
            Failed::Target(error) => error.to_string(),
            Failed::Address(why) => panic!("{why}"),
        };
        assert!(lost("unknown", "no power").contains("is it powered"));
        assert!(lost("halted", "Target not examined yet").contains("reset_config"));
    }
}
