//! What was typed of a live target: where it is, how long it is waited for, and how it is left.

use std::time::Duration;

use clap::ValueEnum;

use crate::cli::args::{self, Leave as Typed};
use crate::code::Code;
use crate::error::Error;
use crate::query::Position;
use crate::rsp::{Endpoint, Leave};
use crate::session::RemoteInput;

/// The shortest time that an option takes.
const SHORTEST: Duration = Duration::from_millis(1);

/// The target at `endpoint`, with the options that are typed beside it.
pub fn input(endpoint: &str, options: &args::Source) -> Result<RemoteInput, Error> {
    let timeout = timeout(&options.timeout)?;
    let endpoint = Endpoint::parse(endpoint).map_err(|e| Error::from(e))?;
    let leave = leave(&endpoint, options.leave)?;
    let max_halt = options.max_halt.as_deref().map(|text| time("--max-halt", text)).transpose()?;
    Ok(RemoteInput { endpoint, timeout, leave, max_halt })
}

/// `--timeout`: as `--for` takes it; a number alone is seconds.
pub fn timeout(text: &str) -> Result<Duration, Error> {
    let seconds = match Position::parse(text) {
        Ok(Position::Time(seconds)) => Some(seconds),
        _ => text.parse().ok(),
    };
    let seconds = seconds.filter(|t| (0.001..=3600.0).contains(t)).ok_or_else(|| {
        Error::usage(Code::Usage, format!("--timeout {text}: seconds (2, 2s, 500ms), from 0.001 to 3600"))
    })?;
    Ok(Duration::from_secs_f64(seconds))
}

/// `--leave`, or else `TX_TRACE_LEAVE`. Where memory is read without a halt there is nothing to leave.
fn leave(endpoint: &Endpoint, typed: Option<Typed>) -> Result<Leave, Error> {
    let leave = match typed {
        Some(Typed::Running | Typed::Halted) if !endpoint.is_rsp() => {
            return Err(Error::usage(
                Code::Usage,
                format!("--leave: {endpoint} only reads memory, it neither halts nor resumes"),
            ));
        }
        Some(typed) => typed,
        None => match std::env::var("TX_TRACE_LEAVE").ok().filter(|value| !value.is_empty()) {
            Some(value) => Typed::from_str(&value, false).map_err(|_| {
                Error::usage(Code::Usage, format!("TX_TRACE_LEAVE={value}: as-found, running or halted is wanted"))
            })?,
            None => Typed::AsFound,
        },
    };
    Ok(match leave {
        Typed::AsFound => Leave::AsFound,
        Typed::Running => Leave::Running,
        Typed::Halted => Leave::Halted,
    })
}

/// A time of an option: `500ms`, `1.5s`.
pub fn time(option: &str, text: &str) -> Result<Duration, Error> {
    let seconds = match Position::parse(text) {
        Ok(Position::Time(s)) if s <= 1e6 => Duration::try_from_secs_f64(s).ok(),
        _ => None,
    };
    seconds.filter(|t| *t >= SHORTEST).ok_or_else(|| {
        Error::usage(Code::Usage, format!("{option} {text}: a time such as 500ms or 2s, a millisecond at least"))
    })
}
