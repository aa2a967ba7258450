//! Waiting for an event, with a deadline: tests never wait for a time.

use std::time::{Duration, Instant};

/// Waits until something is so, and fails where it is not in time.
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
