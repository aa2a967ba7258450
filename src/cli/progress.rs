//! How far work of more than a second is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Work that is shorter says nothing.
const QUIET: Duration = Duration::from_secs(1);
/// How often it is said.
const OFTEN: Duration = Duration::from_millis(200);

/// One piece of work.
pub struct Progress {
    what: &'static str,
    /// All events of all passes.
    total: u64,
    begun: Instant,
    said: Option<Instant>,
    is_on: bool,
}

impl Progress {
    /// Work on so many events.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, begun: Instant::now(), said: None, is_on: std::io::stderr().is_terminal() }
    }

    /// So many are done.
    pub fn at(&mut self, done: u64) {
        let now = Instant::now();
        let is_early = now.duration_since(self.begun) < QUIET;
        if !self.is_on || is_early || self.said.is_some_and(|said| now.duration_since(said) < OFTEN) {
            return;
        }
        self.said = Some(now);
        let percent = done.saturating_mul(100).checked_div(self.total).unwrap_or(100).min(100);
        // A stderr that cannot be written says nothing.
        let _ = write!(std::io::stderr(), "\rtx-trace: {} {percent} %\x1b[K", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.said.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
