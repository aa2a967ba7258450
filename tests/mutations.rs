//! Damaged captures through whole commands, in this process: truncated, flipped, spliced, with huge counts. No run
//! panics, takes longer or holds more memory than is stated here; what the damage did not touch is still shown; and
//! where any of it is shown otherwise than without the damage, an issue says that not all is well.
//!
//! `MUTATIONS=N cargo test --release --test mutations` does N a capture; `scripts/bench mutations` does many. `SEED=N`
//! does one, and leaves its file; `CAPTURE=NAME` chooses the capture, `WORST=N` shows the N worst, `SILENT=1` all that
//! are silent.

#![cfg(feature = "cli")]
#![allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::restriction,
    clippy::single_range_in_vec_init,
    clippy::type_complexity,
    reason = "a test, with an allocator that counts"
)]

#[path = "mutations/captures.rs"]
mod captures;
#[path = "mutations/damage.rs"]
mod damage;
#[path = "support/dice.rs"]
mod dice;
#[path = "support/heap.rs"]
mod heap;
#[path = "mutations/listing.rs"]
mod listing;
#[path = "mutations/places.rs"]
mod places;
#[path = "support/qnx.rs"]
#[allow(dead_code, unreachable_pub)]
mod qnx;
#[path = "mutations/round.rs"]
mod round;
#[path = "mutations/sound.rs"]
mod sound;
#[path = "mutations/tally.rs"]
mod tally;
#[path = "support/uia.rs"]
#[allow(dead_code, unreachable_pub, clippy::precedence)]
mod uia;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use captures::{CAPTURES, Capture, Kind, bytes_of};
use listing::Shown;
use round::{Task, round, run};
use tally::Tally;

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Mutations of each capture where nobody says how many; `scripts/test` says 2000.
const ROUNDS: u64 = 96;

/// A command that says nothing for so long, on however loaded a machine, hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// Lists the undamaged capture, and holds against it what is stated of it here.
fn task(capture: &'static Capture) -> Task {
    let whole = bytes_of(capture.damaged);
    let path = std::env::temp_dir().join(format!("tx-trace-capture-{}", std::process::id()));
    std::fs::write(&path, &whole).unwrap();
    let out = std::env::temp_dir().join(format!("tx-trace-whole-{}", std::process::id()));
    let (_, said) = run("list --format json", capture.source, &path, &out);
    let listing = std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("{}: {e} {said}", capture.name));
    let _ = (std::fs::remove_file(out), std::fs::remove_file(path));
    let want: Vec<Shown> = listing::events(&listing).collect();
    assert!(want.len() >= 10, "{}: {said}", capture.name);
    let stated = capture.issues.iter().map(|(code, severity, n)| ((*code).to_owned(), (*severity).to_owned(), *n));
    assert_eq!(listing::issues(&listing), stated.collect(), "{}: issues without any damage", capture.name);
    let places = places::places(capture.kind, &whole, &want);
    if capture.kind != Kind::Program {
        for (shown, place) in want.iter().zip(&places.events) {
            let stamp = u64::from_str_radix(&shown.own.split('"').nth(1).unwrap()[2..], 16).unwrap();
            // A stamp of eight bytes is stored low word first.
            let low = place.stamp.start..place.stamp.end.min(place.stamp.start + 8);
            let stored = places.word(&whole, &low);
            assert_eq!(stored, stamp, "{}: slot {} is not where this test says", capture.name, shown.slot);
        }
    }
    Task { capture, whole, want, places }
}

#[test]
fn damaged_captures_through_whole_commands() {
    let wanted = std::env::var("CAPTURE").unwrap_or_default();
    let tasks: Arc<Vec<Task>> = Arc::new(CAPTURES.iter().map(task).collect());
    let chosen: Vec<usize> = (0..tasks.len()).filter(|i| tasks[*i].capture.name.contains(&wanted)).collect();
    let seeds = variable("SEED").map_or(0..variable("MUTATIONS").unwrap_or(ROUNDS), |seed| seed..seed + 1);
    let jobs: Arc<Vec<(usize, u64)>> = Arc::new(seeds.flat_map(|s| chosen.iter().map(move |c| (*c, s))).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let busy: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let (send, receive) = channel();
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(4);
    let scratch = std::env::temp_dir().join(format!("tx-trace-mutations-{}", std::process::id()));
    for worker in 0..workers {
        let (tasks, next, busy, send) = (Arc::clone(&tasks), Arc::clone(&next), Arc::clone(&busy), send.clone());
        let (dir, jobs) = (scratch.join(worker.to_string()), Arc::clone(&jobs));
        std::fs::create_dir_all(&dir).unwrap();
        std::thread::spawn(move || {
            while let Some((which, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                busy.lock().unwrap().insert(worker, format!("{} seed {seed}", tasks[which].capture.name));
                if send.send((which, round(&tasks[which], &tasks, seed, &dir))).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut tallies = vec![Tally::default(); tasks.len()];
    let mut failures = Vec::new();
    for _ in 0..jobs.len() {
        match receive.recv_timeout(TIME_LIMIT) {
            Ok((which, Ok(seen))) => tallies[which].add(&seen),
            Ok((_, Err(failure))) => failures.push(failure),
            Err(RecvTimeoutError::Timeout) => panic!("one of these hangs: {:?}", busy.lock().unwrap()),
            Err(RecvTimeoutError::Disconnected) => panic!("a worker died: {:?}", busy.lock().unwrap()),
        }
    }
    if variable("SEED").is_some() {
        println!("left in {}", scratch.display());
    } else {
        let _ = std::fs::remove_dir_all(&scratch);
    }
    let seen: Vec<(&Capture, &Tally)> = chosen.iter().map(|i| (tasks[*i].capture, &tallies[*i])).collect();
    tally::print(&seen);
    failures.truncate(10);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    tally::judge(&seen);
}

/// The buffer's end in the header, 256 MB behind its start: the core has a few kilobytes of that, and the ELF the rest of
/// nothing.
#[test]
fn a_read_over_a_gap_between_layers_took_memory_for_all_of_it() {
    let scratch = std::env::temp_dir().join(format!("tx-trace-end-moved-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let (file, out) = (scratch.join("damaged.core"), scratch.join("out"));
    let mut core = bytes_of("smp.core");
    core[0x92A8..0x92AC].copy_from_slice(&0x1000_0000u32.to_le_bytes());
    std::fs::write(&file, &core).unwrap();
    let before = heap::start();
    run("list --format json", "smp.elf {}", &file, &out);
    let peak = heap::peak_since(before);
    std::fs::remove_dir_all(&scratch).unwrap();
    assert!(peak < 24 << 20, "{peak} bytes");
}
