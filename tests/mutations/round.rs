//! One damaged capture through two commands: what it cost, what was shown, and whether what is wrong in it is said.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::captures::{Capture, Kind, folder};
use crate::damage::{Damage, Scene, by_chance};
use crate::dice::Dice;
use crate::heap;
use crate::listing::{self, Shown, Wrong};
use crate::places::Places;
use crate::sound;

/// The most of the processor's time for one command, in debug builds too. The slowest takes a tenth of it.
const MOST_TIME: Duration = Duration::from_secs(3);

/// The most bytes that one command holds at once, beside this many for each byte of its input.
const MOST_HEAP: usize = 24 << 20;
const HEAP_PER_BYTE: usize = 24;

/// Commands beside `list`, which every mutation goes through; these take turns. One line each.
const COMMANDS: &[&str] = &[
    "report",
    "threads",
    "dump",
    "info",
    "objects --use",
    "show -1",
    "last 7 --width 200",
    "report --tracex",
    "timeline --width 100",
    "export --to perfetto",
    "export --to chrome",
    "export --to html",
    "export --to trx",
];

/// A capture, and its undamaged listing.
pub struct Task {
    pub capture: &'static Capture,
    pub whole: Vec<u8>,
    pub want: Vec<Shown>,
    pub places: Places,
}

/// What one round found.
#[derive(Clone, Debug)]
pub struct Seen {
    pub class: Class,
    /// Entries that were not touched, and those of them that were shown.
    pub untouched: u64,
    pub shown: u64,
    /// True where the damage hit an entry, or what decides where entries are.
    pub touched: bool,
    pub verdict: Verdict,
    pub wrong: Wrong,
    pub time: Duration,
    pub heap: usize,
    /// The damage, and what was said of it.
    pub what: String,
}

/// Where the damage was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Chance,
    /// At the header and the registry, where a little damage costs most.
    Aimed,
    /// One of the single damages.
    Single,
}

/// What is to be thought of a damaged capture's listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was not touched is as in the undamaged capture.
    Right,
    /// Something differs, or events of two moments are mixed, and an issue says that not all is well.
    Marked,
    /// The same, and nothing is said.
    Silent,
    /// The same, but the damaged capture is one that could have been recorded so: the reason.
    Sound(&'static str),
    /// No event is shown, and an error says why.
    Refused,
}

/// Runs a command on a damaged file; what it wrote, and what it had to say.
pub fn run(command: &str, source: &str, file: &Path, out: &Path) -> (tx_trace::cli::Outcome, String) {
    let mut words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
    for word in source.split(' ') {
        words.push(if let Some(rest) = word.strip_prefix("{}") {
            let mut path = file.as_os_str().to_owned();
            path.push(rest);
            path
        } else if folder().join(word.split('@').next().unwrap()).is_file() {
            folder().join(word).into_os_string()
        } else {
            word.into()
        });
    }
    words.extend(["-o".into(), out.as_os_str().to_owned()]);
    let _ = std::fs::remove_file(out);
    tx_trace::cli::run_captured(words)
}

/// The damage of a seed: a quarter each by chance and aimed, half of the single kinds in turn.
fn damaged(task: &Task, all: &[Task], seed: u64) -> (Class, Damage, Vec<u8>) {
    let mut dice = Dice::of(seed);
    let mut data = task.whole.clone();
    let others: Vec<&[u8]> = all.iter().map(|t| t.whole.as_slice()).collect();
    match seed % 4 {
        0 => (Class::Chance, by_chance(&mut data, &others, &[], &mut dice), data),
        1 => (Class::Aimed, by_chance(&mut data, &others, &task.places.dear, &mut dice), data),
        single => {
            let alike: Vec<&Task> =
                all.iter().filter(|t| t.capture.kind.format() == task.capture.kind.format()).collect();
            let others: Vec<(&[u8], &Places)> = alike.iter().map(|t| (t.whole.as_slice(), &t.places)).collect();
            let mut scene = Scene { data, places: &task.places, others: &others, dice };
            let done = scene.damage((seed / 4 * 2 + single - 2) as usize);
            (Class::Single, done, scene.data)
        }
    }
}

/// One round: its seed makes it again.
pub fn round(task: &Task, all: &[Task], seed: u64, dir: &Path) -> Result<Seen, String> {
    let (class, damage, bytes) = damaged(task, all, seed);
    let (file, out) = (dir.join("damaged.bin"), dir.join("out.trx"));
    std::fs::write(&file, &bytes).unwrap();
    let what = format!("{} seed {seed} ({})", task.capture.name, damage.what);
    let beside = COMMANDS[(seed / 4 % COMMANDS.len() as u64) as usize];
    let (mut listing, mut list_says) = (String::new(), String::new());
    let (mut most_time, mut most_heap) = (Duration::ZERO, 0);
    for command in ["list --format json", beside] {
        let (from, before) = (heap::cpu_time(), heap::start());
        let ended = std::panic::catch_unwind(|| run(command, task.capture.source, &file, &out));
        let (time, peak) = (heap::cpu_time() - from, heap::peak_since(before));
        (most_time, most_heap) = (most_time.max(time), most_heap.max(peak));
        let Ok((outcome, said)) = ended else { return Err(format!("{what}: `{command}` panicked")) };
        if time > MOST_TIME {
            return Err(format!("{what}: `{command}` took {time:?}"));
        }
        if peak > MOST_HEAP + HEAP_PER_BYTE * task.whole.len() {
            return Err(format!("{what}: `{command}` held {peak} bytes at once"));
        }
        if outcome == tx_trace::cli::Outcome::Failed && !said.lines().any(|l| l.starts_with("error: ")) {
            return Err(format!("{what}: `{command}` failed and says {said:?}"));
        }
        if said.chars().any(|c| c.is_control() && c != '\n') {
            return Err(format!("{what}: `{command}` says raw bytes: {said:?}"));
        }
        if listing.is_empty() {
            (listing, list_says) = (std::fs::read_to_string(&out).unwrap_or_default(), said);
        }
    }
    let shown = shown(task, &damage, &listing);
    let untouched: Vec<&Shown> =
        task.want.iter().zip(&task.places.events).filter(|(_, p)| !damage.hits(&p.bytes)).map(|(w, _)| w).collect();
    let wrong = listing::compare(untouched.iter().copied(), &shown);
    let mixed = damage.mixed && task.places.events.iter().any(|p| damage.hits(&p.stamp));
    let judged = Judged { task, damage: &damage, bytes: &bytes, wrong, shown: &shown };
    let verdict = verdict(&judged, mixed, &listing);
    Ok(Seen {
        class,
        untouched: untouched.len() as u64,
        shown: untouched.len() as u64 - wrong.missing - wrong.words,
        touched: untouched.len() < task.want.len() || task.places.dear.iter().any(|d| damage.hits(d)),
        verdict,
        wrong,
        time: most_time,
        heap: most_heap,
        what: format!("{what}: {}", list_says.lines().next().unwrap_or_default()),
    })
}

/// The events that are shown, with the slots of the undamaged capture.
fn shown(task: &Task, damage: &Damage, listing: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = listing::events(listing).collect();
    // A file's slots are counted from the first element that is left of them where damage took what tells where they
    // begin.
    if task.capture.kind == Kind::QnxFile && damage.hits(&task.places.dear[0]) {
        let whole = |s: &Shown| task.want.iter().find(|w| w.own == s.own)?.slot.checked_sub(s.slot);
        let shift = shown.iter().find_map(whole).unwrap_or(0);
        shown.iter_mut().for_each(|s| s.slot += shift);
    }
    shown
}

/// A damaged capture, and what is shown of it.
pub struct Judged<'j> {
    pub task: &'j Task,
    pub damage: &'j Damage,
    pub bytes: &'j [u8],
    pub wrong: Wrong,
    pub shown: &'j [Shown],
}

fn verdict(judged: &Judged, mixed: bool, listing: &str) -> Verdict {
    let capture = judged.task.capture;
    if judged.shown.is_empty() && !listing.contains(r#"{"type":"trace""#) {
        return Verdict::Refused;
    }
    if judged.bytes == judged.task.whole || !(judged.wrong.any() || mixed) {
        return Verdict::Right;
    }
    let known = |code: &str, count| capture.issues.iter().any(|(c, _, n)| *c == code && *n == count);
    let said = listing::issues(listing);
    if said.iter().any(|(code, severity, count)| severity != "note" && !known(code, *count)) {
        return Verdict::Marked;
    }
    sound::reason(judged).map_or(Verdict::Silent, Verdict::Sound)
}
