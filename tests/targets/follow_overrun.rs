//! `follow` on a target that is faster than its reader: what it shows and what it says is lost, against what the target
//! wrote.

#![cfg(all(unix, feature = "cli"))]

use std::process::Output;

use super::follow::stream::{Reported, check, stderr};
use crate::support::machine::tx_trace;
use crate::support::openocd::{Deed, OpenOcd, SLOTS, Target};

/// So many questions, then the end.
const QUESTIONS: usize = 200;

/// Follows a target that writes so many events before each question is answered, and one more of which a part is
/// written.
fn follow(events: impl Fn(usize) -> u32 + Send + 'static) -> (Reported, Output) {
    let mut ended = false;
    let stub = OpenOcd::start(
        Target::new(false),
        Box::new(move |asked, target| {
            if asked < QUESTIONS {
                (0..events(asked)).for_each(|_| target.insert());
                target.begin();
            } else if !std::mem::replace(&mut ended, true) {
                target.insert_last();
            }
            Deed::Answer
        }),
    );
    let output = tx_trace(&[
        "follow",
        "--until",
        "4097",
        "--for",
        "60s",
        "--symbol",
        "_tx_trace_header_ptr=0x20000000",
        "--format",
        "json",
        "--timeout",
        "20",
        "--remote",
        &stub.endpoint(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (check(&output, false), output)
}

/// Behind a loss the oldest events were read, which were overwritten meanwhile: nothing was shown, look after look, and
/// `--until` never fired.
#[test]
fn a_ring_that_was_always_overrun_showed_nothing() {
    for events in 1..=SLOTS / 8 {
        let (reported, _) = follow(move |_| events);
        assert!(reported.places.len() > 30, "{events} events for each question: {} are shown", reported.places.len());
    }
}

/// However fast it is, nothing torn is shown, nothing twice, and no more is said to be lost than is.
#[test]
fn a_loss_was_overstated_by_a_whole_round() {
    std::thread::scope(|scope| {
        for step in [7, 16, 31, 61, 62, 63, 64, 65, 127, 128, 129] {
            scope.spawn(move || {
                // At the same speed all the time, and in bursts.
                for every in [1, 2, 5, 11] {
                    follow(move |asked| if asked % every == 0 { step } else { 0 });
                }
            });
        }
    });
}
