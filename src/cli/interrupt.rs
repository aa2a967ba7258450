//! Ctrl-C while a target is attached: it is left as it should be left before the program ends.

#[cfg(unix)]
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use signal_hook::{consts, flag};

#[cfg(unix)]
use crate::session::INTERRUPT;

/// Asks for the end of waiting on SIGINT, SIGTERM and SIGHUP for as long as it lives; then they end the program again.
pub struct Guard {
    #[cfg(unix)]
    let_go: Arc<AtomicBool>,
}

impl Guard {
    /// Takes the signals over.
    pub fn arm() -> Self {
        #[cfg(unix)]
        {
            let let_go = Arc::new(AtomicBool::new(false));
            for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
                // The order counts: a second Ctrl-C finds the flag that the first one set, and ends the program whatever
                // the target does. A system that refuses a handler keeps its own way of ending us.
                drop(flag::register_conditional_default(signal, Arc::clone(&let_go)));
                drop(flag::register_conditional_shutdown(signal, 2, Arc::clone(&INTERRUPT)));
                drop(flag::register(signal, Arc::clone(&INTERRUPT)));
            }
            Self { let_go }
        }
        #[cfg(not(unix))]
        Self {}
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        #[cfg(unix)]
        self.let_go.store(true, Ordering::Relaxed);
    }
}
