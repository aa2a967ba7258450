//! Signals to the processes of a command that we started.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// What is sent to a group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// Nothing: it asks whether the group is there.
    Test,
    /// The request to end.
    Term,
    /// The end.
    Kill,
}

/// Sends a signal to every process of the group that `leader` leads; false where there is none any more.
pub fn signal_group(leader: u32, signal: GroupSignal) -> bool {
    let leader = i32::try_from(leader).ok().filter(|leader| *leader > 1).and_then(Pid::from_raw);
    leader.is_some_and(|group| {
        let sent = match signal {
            GroupSignal::Test => test_kill_process_group(group),
            GroupSignal::Term => kill_process_group(group, Signal::TERM),
            GroupSignal::Kill => kill_process_group(group, Signal::KILL),
        };
        sent.is_ok()
    })
}
