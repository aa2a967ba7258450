//! What the request to end does: a signal on Unix, Ctrl-C or the closing of the console on Windows.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// What follows a signal so soon is the same request once more: `timeout` sends each to its child and then to the
/// group, and a terminal to all that run in it. To end at once for that would leave a target halted.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// How many have taken the signals over.
static ATTACHED: AtomicUsize = AtomicUsize::new(0);
/// When the first signal came that was taken over, in milliseconds since `START`; 0 for none.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// What a signal sets.
static FLAG: OnceLock<&'static AtomicBool> = OnceLock::new();
/// A moment before every signal.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a signal does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Ends the waiting; the command leaves the target and ends.
    Interrupts,
    /// Ends the program at once.
    Ends,
    /// What it would do to a program without handlers.
    Default,
    /// Nothing: what the first one asked for is being done.
    Nothing,
}

/// Before any handler is installed: `flag` is what a signal sets.
pub(super) fn begin(flag: &'static AtomicBool) {
    LazyLock::force(&START);
    let _ = FLAG.set(flag);
}

/// Signals are taken over until [`detach`].
pub(super) fn attach() {
    if ATTACHED.fetch_add(1, Ordering::SeqCst) == 0 {
        FIRST.store(0, Ordering::SeqCst);
    }
}

/// Gives the signals back.
pub(super) fn detach() {
    ATTACHED.fetch_sub(1, Ordering::SeqCst);
}

/// The effect of a signal that came now; where it interrupts, the flag is set. Atomics and clock_gettime(2) only: it runs
/// in signal handlers.
pub(super) fn of_signal() -> Effect {
    let is_attached = ATTACHED.load(Ordering::SeqCst) != 0;
    let now = u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let first = if is_attached {
        FIRST.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|first| first)
    } else {
        FIRST.load(Ordering::SeqCst)
    };
    let since_first = (first != 0).then(|| Duration::from_millis(now.saturating_sub(first)));
    let effect = effect(is_attached, since_first);
    if effect == Effect::Interrupts {
        FLAG.get().into_iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
    }
    effect
}

/// `since_first`: how long after the first signal that was taken over; `None` where none was.
fn effect(is_attached: bool, since_first: Option<Duration>) -> Effect {
    match (is_attached, since_first) {
        (true, None) => Effect::Interrupts,
        (true, Some(time)) if time < SAME_REQUEST => Effect::Interrupts,
        (true, Some(_)) => Effect::Ends,
        (false, Some(time)) if time < SAME_REQUEST => Effect::Nothing,
        (false, _) => Effect::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `timeout` sends two signals. Where the target was left before the second one came, that one ended the program, and
    /// its exit status was not that of the command.
    #[test]
    fn the_second_signal_of_one_request_ended_a_program_that_had_left_its_target() {
        let after = |ms| Some(Duration::from_millis(ms));
        assert_eq!(effect(false, after(0)), Effect::Nothing);
        assert_eq!(effect(false, after(999)), Effect::Nothing);
        // A later signal counts for itself, and so does the first.
        assert_eq!(effect(false, after(1000)), Effect::Default);
        assert_eq!(effect(false, None), Effect::Default);
        assert_eq!(effect(true, None), Effect::Interrupts);
        assert_eq!(effect(true, after(999)), Effect::Interrupts);
        assert_eq!(effect(true, after(1000)), Effect::Ends);
    }
}
