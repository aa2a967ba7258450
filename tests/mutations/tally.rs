//! What the rounds of each capture add up to, as a table, and what is asked of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::captures::{Capture, SMALL};
use crate::damage::MUTATORS;
use crate::round::{Class, Seen, Verdict};

/// Of 100 damaged captures so many may show something wrong without a word.
const SILENT: u64 = 1;
/// Fewer rounds of a capture than this are judged together with those of its format.
const ENOUGH: u64 = 1000;

/// What was seen of one capture.
#[derive(Default, Clone)]
pub struct Tally {
    pub rounds: u64,
    /// Entries that were not touched, and those of them that were shown: by chance, aimed, single.
    untouched: [u64; 3],
    shown: [u64; 3],
    /// Rounds in which something of the capture was touched.
    touched: u64,
    refused: u64,
    marked: u64,
    silent: u64,
    sound: BTreeMap<&'static str, u64>,
    time: Duration,
    heap: usize,
    worst: Vec<(u64, String)>,
    quiet: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, seen: &Seen) {
        self.rounds += 1;
        let class = match seen.class {
            Class::Chance => 0,
            Class::Aimed => 1,
            Class::Single => 2,
        };
        self.untouched[class] += seen.untouched;
        self.shown[class] += seen.shown;
        self.touched += u64::from(seen.touched);
        match seen.verdict {
            Verdict::Right => {}
            Verdict::Marked => self.marked += 1,
            Verdict::Silent => {
                self.silent += 1;
                self.quiet.push(format!("{:?} {}", seen.wrong, seen.what));
            }
            Verdict::Sound(why) => *self.sound.entry(why).or_default() += 1,
            Verdict::Refused => self.refused += 1,
        }
        self.time = self.time.max(seen.time);
        self.heap = self.heap.max(seen.heap);
        let lost = seen.untouched - seen.shown;
        if lost > 0 {
            self.worst.push((lost, format!("{lost} lost, {}", seen.what)));
            self.worst.sort_by(|a, b| b.cmp(a));
            self.worst.truncate(100);
        }
    }

    /// Of the entries that were not touched, those that are shown, in percent.
    fn share(&self, class: usize) -> f64 {
        self.shown[class] as f64 * 100.0 / self.untouched[class].max(1) as f64
    }
}

/// The table of `docs/contributing.md`, and what is asked for by variables.
pub fn print(seen: &[(&Capture, &Tally)]) {
    println!("| capture | mutants | touched | refused | wrong, and said | wrong, silent | sound |");
    println!("|---|--:|--:|--:|--:|--:|---|");
    for (capture, t) in seen {
        let sound: Vec<String> = t.sound.iter().map(|(why, n)| format!("{n} {why}")).collect();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            capture.name,
            t.rounds,
            t.touched,
            t.refused,
            t.marked,
            t.silent,
            sound.join(", ")
        );
    }
    for (capture, t) in seen {
        println!(
            "{:30} of the entries that were not touched {:.3} % are shown, {:.3} % where the damage was aimed, {:.3} % of \
             single damages; at most {:.0?} and {} KiB",
            capture.name,
            t.share(0),
            t.share(1),
            t.share(2),
            t.time,
            t.heap >> 10
        );
        let worst = std::env::var("WORST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        t.worst.iter().take(worst).for_each(|(_, worst)| println!("    {worst}"));
        if std::env::var_os("SILENT").is_some() {
            t.quiet.iter().for_each(|quiet| println!("    silent: {quiet}"));
        }
    }
    for (name, _) in MUTATORS {
        let of = |t: &Tally| t.quiet.iter().filter(|q| q.contains(&format!("({name}: "))).count();
        println!("{name}: {} silent", seen.iter().map(|(_, t)| of(t)).sum::<usize>());
    }
}

/// What is asked of all rounds.
pub fn judge(seen: &[(&Capture, &Tally)]) {
    let mut formats: BTreeMap<&str, Tally> = BTreeMap::new();
    for (capture, t) in seen {
        if t.rounds >= ENOUGH {
            assert!(t.silent * 100 <= t.rounds * SILENT, "{}: {} of {} silent", capture.name, t.silent, t.rounds);
        }
        let sum = formats.entry(capture.kind.format()).or_default();
        sum.rounds += t.rounds;
        sum.silent += t.silent;
        if SMALL.contains(&capture.damaged) {
            assert!(t.share(0) >= 90.0, "{}", capture.name);
            continue;
        }
        sum.untouched[0] += t.untouched[0];
        sum.shown[0] += t.shown[0];
    }
    for (format, t) in formats {
        assert!(t.share(0) >= 99.0, "{format}: {} of {}", t.shown[0], t.untouched[0]);
        assert!(t.silent * 100 <= t.rounds * SILENT, "{format}: {} of {} silent", t.silent, t.rounds);
    }
}
