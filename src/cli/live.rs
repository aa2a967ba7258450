//! A live target: the message when it is reached, and how it is left.

use super::diagnostics::Diagnostics;
use super::interrupt;
use crate::error::Error;
use crate::mem::remote::Remote;
use crate::rsp::{Client, LeaveOutcome};
use crate::session::{Inputs, Target};

/// Opens the source. Where it is not certain that the target will be left as it was found, a message says so now.
pub fn open(inputs: Inputs, diagnostics: &Diagnostics) -> Result<Target<'static>, Error> {
    let mut target = Target::open(inputs)?;
    if let Some(note) = target.remote_mut().map(Remote::client_mut).and_then(Client::arrive) {
        diagnostics.say(note);
    }
    Ok(target)
}

/// Opens the source, reads, leaves the target, prints: in this order, so that no target is halted while we print. In a
/// debugger the text goes back over the link, so `print` is handed the client there.
pub(super) fn run<T, R>(
    inputs: Inputs,
    diagnostics: &Diagnostics,
    read: impl FnOnce(&mut Target<'static>) -> Result<T, Error>,
    print: impl FnOnce(T, &Target<'static>, Option<&mut Client>) -> Result<R, Error>,
) -> Result<R, Error> {
    let stdio = inputs.is_stdio();
    // The target of the demo ends with the link: how it is left means nothing.
    let is_demo = inputs.elf_built_in.is_some();
    let mut guard = inputs.is_remote().then(interrupt::Guard::arm);
    let mut target = open(inputs, diagnostics)?;
    let found = read(&mut target).map_err(|error| target.with_cause(error));
    if found.is_err() {
        diagnostics.issues_of_failure(target.issues());
    }
    let mut client = target.disconnect();
    if let Some(client) = client.take_if(|client| !stdio && !client.must_stay()) {
        if is_demo {
            drop(client.leave());
        } else {
            leave(client, diagnostics);
        }
        guard = None;
    }
    let printed = found.and_then(|found| print(found, &target, client.as_mut().filter(|_| stdio)));
    match client {
        Some(client) if stdio => drop(client.leave()),
        Some(client) => leave(client, diagnostics),
        None => {}
    }
    drop(guard);
    printed
}

/// Leaves the target, and says how. A target that stays halted only as long as we are connected is kept
/// until Ctrl-C.
pub fn leave(mut client: Client, diagnostics: &Diagnostics) {
    if client.must_stay() {
        diagnostics.say(format_args!(
            "{}: connected, so that the target stays halted; Ctrl-C disconnects, and pyOCD resumes the target",
            client.name()
        ));
        client.stay();
    }
    let outcome = client.leave();
    say_halted(&outcome, diagnostics);
    say_left(&outcome, diagnostics);
}

/// Says how long a target that ran was halted.
fn say_halted(outcome: &LeaveOutcome, diagnostics: &Diagnostics) {
    if let Some(time) = outcome.halted {
        diagnostics.say(format_args!("the target was halted for {:.1} ms", time.as_secs_f64() * 1e3));
    }
}

/// Says where the state is not the requested one, or not known.
pub(super) fn say_left(outcome: &LeaveOutcome, diagnostics: &Diagnostics) {
    if let Some(sentence) = &outcome.message {
        diagnostics.say(sentence);
    }
}
