//! Packets about threads, checked before gdbstub sees them: it ends the session over some that are well formed.

use crate::debugger::ThreadList;
use crate::rsp::thread_id::Which;

/// One action of `vCont`.
struct Action {
    steps: bool,
    thread: Option<usize>,
}

impl Action {
    /// `c`, `C05`, `s:1`; no other kinds are offered.
    fn parse(text: &str) -> Option<Self> {
        let (kind, which) = match text.split_once(':') {
            Some((kind, which)) => (kind, Which::parse(which)?),
            None => (text, Which::All),
        };
        let steps = match kind.split_at_checked(1)? {
            ("c", "") => false,
            ("s", "") => true,
            ("C", signal) if is_signal(signal) => false,
            ("S", signal) if is_signal(signal) => true,
            _ => return None,
        };
        let thread = if let Which::One(id) = which { Some(id) } else { None };
        Some(Self { steps, thread })
    }
}

fn is_signal(text: &str) -> bool {
    u8::from_str_radix(text, 16).is_ok()
}

/// The one action of a `vCont` that decides which thread is reported as stopped: nothing runs. `None` for invalid ones.
pub(super) fn resume(actions: &str, threads: &ThreadList) -> Option<String> {
    let actions: Vec<Action> = actions.split(';').map(Action::parse).collect::<Option<_>>()?;
    let step = actions.iter().rev().find(|a| a.steps);
    let thread = step.map_or_else(
        || actions.iter().find_map(|a| a.thread),
        |step| Some(step.thread.unwrap_or_else(|| threads.selected())),
    );
    let kind = if step.is_some() { 's' } else { 'c' };
    Some(thread.map_or_else(|| format!("vCont;{kind}"), |id| format!("vCont;{kind}:{id:x}")))
}

/// `c`, `C`, `s` and `S` with what follows them, as a `vCont` for the thread that `Hc` chose.
pub(super) fn resume_old(packet: &str, chosen: Option<usize>, threads: &ThreadList) -> Option<String> {
    let (kind, rest) = packet.split_at_checked(1)?;
    let (signal, address) = match kind {
        "c" | "s" => ("", rest),
        _ => rest.split_once(';').unwrap_or((rest, "")),
    };
    // Nothing runs from there either.
    if !address.is_empty() && u64::from_str_radix(address, 16).is_err() {
        return None;
    }
    let thread = chosen.map(|id| format!(":{id:x}")).unwrap_or_default();
    resume(&format!("{kind}{signal}{thread}"), threads)
}
