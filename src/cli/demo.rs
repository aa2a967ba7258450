//! `demo`: a built-in dead target, served over RSP on loopback and read as any board would be.

use super::Outcome;
use super::message::Failure;
use super::plan::Output;

/// Runs the demo.
pub fn run(_output: &Output) -> Result<Outcome, Failure> {
    Err(Failure::failed("demo", "not built in", ""))
}
