//! Ctrl-C while a target is attached: it is left as it should be left before the program ends.

#[cfg(unix)]
use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
#[cfg(unix)]
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use signal_hook::{SigId, consts, flag, low_level};

#[cfg(unix)]
use crate::session::INTERRUPT;

/// What follows a signal so soon is the same wish once more: `timeout` sends each to its child and then to the group, and
/// a terminal to all that run in it. To end at once for that would leave a target halted.
#[cfg(unix)]
const ONE_WISH: Duration = Duration::from_secs(1);

/// Asks for the end of waiting on SIGINT, SIGTERM and SIGHUP for as long as it lives; then they end the program again.
pub struct Guard {
    #[cfg(unix)]
    let_go: Arc<AtomicBool>,
    /// What tells the watch of a signal.
    #[cfg(unix)]
    told: Vec<SigId>,
}

impl Guard {
    /// Takes the signals over.
    pub fn arm() -> Self {
        #[cfg(unix)]
        {
            let let_go = Arc::new(AtomicBool::new(false));
            let at_once = Arc::new(AtomicBool::new(false));
            // Without a watch the second one ends the program, however soon it comes.
            let watch = watch(Arc::clone(&at_once)).ok();
            let at_once = if watch.is_some() { at_once } else { Arc::clone(&INTERRUPT) };
            let mut told = Vec::new();
            for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
                // The order counts: a later Ctrl-C finds the flag that the first one led to, and ends the program
                // whatever the target does. A system that refuses a handler keeps its own way of ending us.
                drop(flag::register_conditional_default(signal, Arc::clone(&let_go)));
                drop(flag::register_conditional_shutdown(signal, 2, Arc::clone(&at_once)));
                drop(flag::register(signal, Arc::clone(&INTERRUPT)));
                let teller = watch.as_ref().and_then(|teller| teller.try_clone().ok());
                told.extend(teller.and_then(|teller| low_level::pipe::register(signal, teller).ok()));
            }
            Self { let_go, told }
        }
        #[cfg(not(unix))]
        Self {}
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            self.let_go.store(true, Ordering::Relaxed);
            // With the last of its tellers the watch ends.
            for id in self.told.drain(..) {
                low_level::unregister(id);
            }
        }
    }
}

/// Sets the flag some time after the first signal of which it is told.
#[cfg(unix)]
fn watch(at_once: Arc<AtomicBool>) -> io::Result<UnixStream> {
    let (mut hears, tells) = UnixStream::pair()?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if matches!(hears.read(&mut [0]), Ok(1)) {
            std::thread::sleep(ONE_WISH);
            at_once.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(tells)
}
