//! Damaged captures through whole commands, in this process: truncated, flipped, spliced, with huge counts. No run
//! panics, takes longer or holds more memory than is stated here, and what the damage did not touch is still shown.
//!
//! `MUTATIONS=N cargo test --release --test mutations` does N a fixture; `scripts/bench mutations` does many.

#![cfg(feature = "cli")]
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::single_range_in_vec_init,
    clippy::type_complexity,
    reason = "a test, with an allocator that counts"
)]

#[path = "support/dice.rs"]
mod dice;
#[path = "support/heap.rs"]
mod heap;
#[path = "support/qnx.rs"]
#[allow(dead_code, unreachable_pub)]
mod qnx;
#[path = "support/uia.rs"]
#[allow(dead_code, unreachable_pub, clippy::precedence)]
mod uia;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dice::{Dice, damage};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Mutations of each fixture where nobody says how many; `scripts/test` says 2000.
const ROUNDS: u64 = 150;

/// The most of the processor's time for one command, in debug builds too. The slowest takes a tenth of it.
const MOST_TIME: Duration = Duration::from_secs(3);

/// The most bytes that one command holds at once, beside this many for each byte of its input.
const MOST_HEAP: usize = 24 << 20;
const HEAP_PER_BYTE: usize = 24;

/// A command that says nothing for so long, on however loaded a machine, hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Commands beside `list`, which every mutation goes through; these take turns. One line each.
const COMMANDS: &[&str] =
    &["report", "threads", "dump", "info", "objects --use", "show -1", "last 7 --width 200", "report --tracex"];

/// What of a fixture is damaged, and how it is read.
struct Fixture {
    name: &'static str,
    /// The source; `{}` is the damaged file.
    source: &'static str,
    /// The file that is damaged.
    damaged: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ThreadX,
    Uia {
        base: usize,
    },
    QnxRing,
    QnxFile,
    /// The entries lie in another file.
    Program,
}

impl Kind {
    const fn format(self) -> &'static str {
        match self {
            Self::ThreadX => "threadx",
            Self::Uia { .. } => "uia",
            Self::QnxRing | Self::QnxFile => "qnx",
            Self::Program => "elf",
        }
    }
}

const fn fixture(name: &'static str, source: &'static str, damaged: &'static str, kind: Kind) -> Fixture {
    Fixture { name, source, damaged, kind }
}

const FIXTURES: &[Fixture] = &[
    fixture("cm3.trx", "{}", "cm3.trx", Kind::ThreadX),
    fixture("be.trx", "{}", "be.trx", Kind::ThreadX),
    fixture("host-ulong64.trx", "{}", "host-ulong64.trx", Kind::ThreadX),
    fixture("cm3.ram.bin and ELF", "--elf cm3.elf {}@0x20000000", "cm3.ram.bin", Kind::ThreadX),
    fixture("cm3-straddle.ram.bin alone", "{}", "cm3-straddle.ram.bin", Kind::ThreadX),
    fixture("cm3.core and ELF", "--elf cm3.elf {}", "cm3.core", Kind::ThreadX),
    fixture("smp.core and ELF", "--elf smp.elf {}", "smp.core", Kind::ThreadX),
    fixture("be.core alone", "--scan {}", "be.core", Kind::ThreadX),
    fixture("cm3.elf, RAM whole", "--elf {} cm3.ram.bin@0x20000000", "cm3.elf", Kind::Program),
    fixture(
        "uia-stop.ram.bin and ELF",
        "--elf uia-stop.elf {}@0x20000000",
        "uia-stop.ram.bin",
        Kind::Uia { base: 0x100 },
    ),
    fixture(
        "uia-min.ram.bin",
        "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 {}@0x20000000",
        "uia-min.ram.bin",
        Kind::Uia { base: 0x20 },
    ),
    fixture("uia-stop.elf, RAM whole", "--elf {} uia-stop.ram.bin@0x20000000", "uia-stop.elf", Kind::Program),
    fixture("qnx-ring.bin", "{}", "qnx-ring.bin", Kind::QnxRing),
    fixture("qnx.kev", "{}", "qnx.kev", Kind::QnxFile),
    fixture(
        "UIA stop mode, 8 KiB",
        "--symbol ti_uia_loggers_LoggerStopMode_Object__table__V=0x20000010 \
         --symbol ti_uia_runtime_QueueDescriptor_gPtrToFirstDescriptor=0x2000008c {}@0x20000000",
        "made: stop",
        Kind::Uia { base: 0x100 },
    ),
    fixture(
        "UIA LoggerMin, 8 KiB",
        "--symbol ti_uia_loggers_LoggerMin_Module__state__V=0x20000000 {}@0x20000000",
        "made: min",
        Kind::Uia { base: 0x20 },
    ),
    fixture("QNX file, 32 KiB", "{}", "made: kev", Kind::QnxFile),
];

/// Fixtures that are hardly more than their headers: one damage in five hits what all the rest hangs on.
const SMALL: [&str; 3] = ["uia-stop.ram.bin", "uia-min.ram.bin", "qnx.kev"];

/// The bytes of a file that is damaged; captures of the usual size where the committed ones are small.
fn bytes_of(name: &str) -> Vec<u8> {
    let log = |lap: &mut uia::Lap| {
        for i in 0..1500u32 {
            let words: Vec<u32> = (0..[0, 1, 2, 4, 8][i as usize % 5]).map(|k| i + k).collect();
            let kind = if lap.minimal { 9 } else { 10 };
            let stamp = 0x1_0000_0000 + u64::from(i) * 0x111;
            lap.log(&uia::Ev::new(kind, 0x100 + 3 * (i % 50) as u16, 0x8001 + (i % 3) as u16, stamp, &words));
        }
    };
    match name {
        "made: stop" => {
            let (base, list) = (0x2000_0000, 0x2000_0090);
            let mut lap = uia::Lap::new(false, false, base + 0x100, 8192);
            log(&mut lap);
            let ram = uia::Ram::new(base).put(base + 0x10, &lap.object(1, list)).put(list - 4, &list.to_le_bytes());
            let ram = ram.put(list, &lap.descriptor(0, 1, base + 0x10 + 36)).put(lap.base, &lap.mem);
            ram.put(base + 0x2FFC, &[0; 4]).bytes
        }
        "made: min" => {
            let mut lap = uia::Lap::new(true, false, 0x2000_0020, 8192);
            log(&mut lap);
            uia::Ram::new(0x2000_0000)
                .put(0x2000_0000, &lap.state())
                .put(lap.base, &lap.mem)
                .put(0x2000_2FFC, &[0; 4])
                .bytes
        }
        "made: kev" => {
            let mut kernel = qnx::Kernel::new(4, 700);
            for i in 0..1500u32 {
                kernel.event(0, 0x2A_FFFF_5794 + u64::from(i) * 900, 4, [24, 1, 2, 5][i as usize % 4], &[1, i % 9]);
            }
            kernel.kev(2_300_571_400, "6.4.1")
        }
        file => std::fs::read(folder().join(file)).unwrap_or_else(|e| panic!("{file}: {e}")),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Runs a command on a damaged file; what it wrote, and what it had to say.
fn run(command: &str, source: &str, file: &Path, out: &Path) -> (tx_trace::cli::Outcome, String) {
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
    tx_trace::cli::overheard(words)
}

/// The events of a JSON listing: the slot, and what is the entry's own and not the registry's.
fn entries(listing: &str) -> impl Iterator<Item = (u64, String)> + '_ {
    let part = |line: &str, from: &str, to: &str| {
        let start = line.find(from)? + from.len();
        let len = line[start..].find(to)?;
        Some(line[start..start + len].to_owned())
    };
    listing.lines().filter(|l| l.starts_with(r#"{"type":"event""#)).map(move |line| {
        let slot = part(line, r#""slot":"#, ",").unwrap().parse().unwrap();
        let stamp = part(line, r#""stamp":"#, ",").unwrap();
        let id = part(line, r#""id":"#, ",").unwrap();
        (slot, format!("{stamp} {id} {}", part(line, r#""words":["#, "]").unwrap()))
    })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// Where the bytes of a slot lie in the fixture, and the places that decide where the slots lie: stated from the
/// layouts, and not by the program.
struct Places {
    slots: Box<dyn Fn(u64, &str) -> Range<usize> + Send + Sync>,
    dear: Vec<Range<usize>>,
}

fn places(kind: Kind, bytes: &[u8]) -> Places {
    match kind {
        Kind::ThreadX => {
            let little = find(bytes, b"BTXT\xFF\xFF\xFF\xFF");
            let wide = find(bytes, b"BTXT\0\0\0\0");
            let (at, big, width) = match (little, wide) {
                (Some(at), _) => (at, false, 4),
                (None, Some(at)) => (at, false, 8),
                (None, None) => (find(bytes, b"TXTB\xFF\xFF\xFF\xFF").unwrap(), true, 4),
            };
            let word = |offset: usize| {
                let b: &[u8] = &bytes[at + offset..at + offset + 4];
                let b: [u8; 4] = b.try_into().unwrap();
                (if big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }) as usize
            };
            // The second word is the base, the seventh the ring's start; two halves lie between.
            let (base, start, entry) = if width == 4 { (word(8), word(24), 32) } else { (word(16), word(48), 64) };
            let ring = at + (start.wrapping_sub(base) & 0xFFFF_FFFF);
            Places {
                slots: Box::new(move |slot, _| ring + slot as usize * entry..ring + (slot as usize + 1) * entry),
                dear: vec![at..at + 12 * width, at..ring],
            }
        }
        Kind::Uia { base } => Places {
            slots: Box::new(move |slot, own| {
                let at = base + slot as usize * 4;
                let words = own.matches("0x").count() - 1;
                // A stamp has four or eight bytes.
                let stamp = own.split(' ').next().unwrap().len() / 2 - 2;
                at..at + 8 + stamp + 4 * words
            }),
            dear: vec![0..base],
        },
        Kind::QnxRing => Places {
            slots: Box::new(|slot, own| {
                let (buffer, index) = (slot as usize / 1014, slot as usize % 1014);
                let at = buffer * 16384 + 0xA0 + index * 16;
                // Others may lie between its elements, and its rest in the next buffer.
                let elements = own.matches("0x").count().div_ceil(2);
                if elements > 1 { at..usize::MAX } else { at..at + 16 }
            }),
            dear: vec![0..0xA0, 16384..16384 + 0xA0, 32768..32768 + 0xA0],
        },
        Kind::QnxFile => {
            // The stamp of the first element, behind its header.
            let start = find(bytes, &0xFFFF_5794u32.to_le_bytes()).unwrap() - 4;
            Places {
                slots: Box::new(move |slot, own| {
                    let elements = own.matches("0x").count().div_ceil(2);
                    let at = start + slot as usize * 16;
                    if elements > 1 { at..at + 16 * (elements + 4) } else { at..at + 16 }
                }),
                dear: vec![0..start],
            }
        }
        Kind::Program => Places { slots: Box::new(|_, _| usize::MAX - 1..usize::MAX), dear: vec![0..0x100] },
    }
}

/// What was seen of one fixture.
#[derive(Default, Clone)]
struct Tally {
    rounds: u64,
    /// Entries that were not touched, and those of them that were shown: in rounds of chance, and in aimed ones.
    untouched: [u64; 2],
    shown: [u64; 2],
    none: u64,
    time: Duration,
    heap: usize,
    worst: Vec<(u64, String)>,
}

struct Task {
    fixture: &'static Fixture,
    whole: Vec<u8>,
    want: Vec<(u64, String)>,
    places: Places,
}

fn rounds() -> u64 {
    std::env::var("MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS)
}

/// One round: its seed makes it again.
fn round(task: &Task, seed: u64, others: &[&[u8]], dir: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice::of(seed);
    let mut bytes = task.whole.clone();
    // Every other round aims at the header and the registry, where a little damage costs most.
    let aimed = seed % 2 == 1;
    let done = damage(&mut bytes, others, if aimed { &task.places.dear } else { &[] }, &mut dice);
    let (file, out) = (dir.join("damaged.bin"), dir.join("out.trx"));
    std::fs::write(&file, &bytes).unwrap();
    let told = |what: &str| format!("{} seed {seed} ({}): {what}", task.fixture.name, done.what);
    let beside = COMMANDS[(seed / 2 % COMMANDS.len() as u64) as usize];
    let (mut listing, mut list_says) = (String::new(), String::new());
    for command in ["list --format json", beside] {
        let (from, before) = (heap::cpu_time(), heap::start());
        let ended = std::panic::catch_unwind(|| run(command, task.fixture.source, &file, &out));
        let (time, peak) = (heap::cpu_time() - from, heap::peak_since(before));
        tally.time = tally.time.max(time);
        tally.heap = tally.heap.max(peak);
        let Ok((outcome, said)) = ended else { return Err(told(&format!("`{command}` panicked"))) };
        if time > MOST_TIME {
            return Err(told(&format!("`{command}` took {time:?}")));
        }
        if peak > MOST_HEAP + HEAP_PER_BYTE * task.whole.len() {
            return Err(told(&format!("`{command}` held {peak} bytes at once")));
        }
        if outcome == tx_trace::cli::Outcome::Failed && !said.lines().any(|l| l.starts_with("tx-trace: ")) {
            return Err(told(&format!("`{command}` failed and says {said:?}")));
        }
        if said.chars().any(|c| c.is_control() && c != '\n') {
            return Err(told(&format!("`{command}` says raw bytes: {said:?}")));
        }
        if listing.is_empty() {
            (listing, list_says) = (std::fs::read_to_string(&out).unwrap_or_default(), said);
        }
    }
    let mut shown: HashSet<(u64, String)> = entries(&listing).collect();
    // A file's slots are counted from the first element that is left of them where damage took what tells where they begin.
    if task.fixture.kind == Kind::QnxFile {
        let places: HashMap<&str, u64> = task.want.iter().map(|(slot, own)| (own.as_str(), *slot)).collect();
        let shift = entries(&listing).find_map(|(slot, own)| places.get(own.as_str())?.checked_sub(slot));
        if let Some(shift) = shift.filter(|shift| *shift > 0 && done.hits(&task.places.dear[0])) {
            shown = shown.into_iter().map(|(slot, own)| (slot + shift, own)).collect();
        }
    }
    if shown.is_empty() {
        tally.none += 1;
    }
    tally.rounds += 1;
    let mut lost = 0;
    for (slot, own) in &task.want {
        let place = (task.places.slots)(*slot, own);
        if done.hits(&place) {
            continue;
        }
        tally.untouched[usize::from(aimed)] += 1;
        if shown.contains(&(*slot, own.clone())) {
            tally.shown[usize::from(aimed)] += 1;
        } else {
            lost += 1;
        }
    }
    if lost > 0 {
        tally.worst.push((lost, format!("{lost} lost, {}", told(list_says.lines().next().unwrap_or_default()))));
        tally.worst.sort_by(|a, b| b.cmp(a));
        tally.worst.truncate(12);
    }
    Ok(())
}

#[test]
fn damaged_captures_through_whole_commands() {
    let tasks: Arc<Vec<Task>> = Arc::new(
        FIXTURES
            .iter()
            .filter(|f| std::env::var("FIXTURE").map_or(true, |wanted| f.name.contains(&wanted)))
            .map(|fixture| {
                let whole = bytes_of(fixture.damaged);
                let path = std::env::temp_dir().join(format!("tx-trace-capture-{}", std::process::id()));
                std::fs::write(&path, &whole).unwrap();
                let out = std::env::temp_dir().join(format!("tx-trace-whole-{}", std::process::id()));
                let (_, said) = run("list --format json", fixture.source, &path, &out);
                let listing = std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("{}: {e} {said}", fixture.name));
                let _ = (std::fs::remove_file(out), std::fs::remove_file(path));
                let want: Vec<(u64, String)> = entries(&listing).collect();
                assert!(want.len() >= 10, "{}: {said}", fixture.name);
                let places = places(fixture.kind, &whole);
                if fixture.kind != Kind::Program {
                    for (slot, own) in &want {
                        let bytes = &whole[(places.slots)(*slot, own).start..];
                        let stamp = u64::from_str_radix(&own.split('"').nth(1).unwrap()[2..], 16).unwrap() as u32;
                        let there = [stamp.to_le_bytes(), stamp.to_be_bytes()]
                            .iter()
                            .any(|s| find(&bytes[..40.min(bytes.len())], s).is_some());
                        assert!(there, "{}: slot {slot} does not lie where this test says", fixture.name);
                    }
                }
                Task { fixture, whole, want, places }
            })
            .collect(),
    );
    let rounds = rounds();
    let next = Arc::new(AtomicUsize::new(0));
    let busy: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let (send, receive) = channel();
    let total = tasks.len() * rounds as usize;
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(4);
    let scratch = std::env::temp_dir().join(format!("tx-trace-mutations-{}", std::process::id()));
    for worker in 0..workers {
        let (tasks, next, busy, send) = (Arc::clone(&tasks), Arc::clone(&next), Arc::clone(&busy), send.clone());
        let dir = scratch.join(worker.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        std::thread::spawn(move || {
            let all: Vec<&[u8]> = tasks.iter().map(|t| t.whole.as_slice()).collect();
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= total {
                    return;
                }
                let (which, seed) = (job % tasks.len(), (job / tasks.len()) as u64);
                busy.lock().unwrap().insert(worker, format!("{} seed {seed}", tasks[which].fixture.name));
                let mut tally = Tally::default();
                let result = round(&tasks[which], seed, &all, &dir, &mut tally);
                if send.send((which, result.map(|()| tally))).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut tallies = vec![Tally::default(); tasks.len()];
    let mut failures = Vec::new();
    for _ in 0..total {
        match receive.recv_timeout(PATIENCE) {
            Ok((which, Ok(one))) => {
                let all = &mut tallies[which];
                all.rounds += one.rounds;
                for i in 0..2 {
                    all.untouched[i] += one.untouched[i];
                    all.shown[i] += one.shown[i];
                }
                all.none += one.none;
                all.time = all.time.max(one.time);
                all.heap = all.heap.max(one.heap);
                all.worst.extend(one.worst);
                all.worst.sort_by(|a, b| b.cmp(a));
                all.worst.truncate(12);
            }
            Ok((_, Err(failure))) => failures.push(failure),
            Err(RecvTimeoutError::Timeout) => panic!("one of these hangs: {:?}", busy.lock().unwrap()),
            Err(RecvTimeoutError::Disconnected) => panic!("a worker died: {:?}", busy.lock().unwrap()),
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    let share = |shown: u64, untouched: u64| shown as f64 * 100.0 / untouched.max(1) as f64;
    let mut formats: BTreeMap<&str, ([u64; 2], [u64; 2])> = BTreeMap::new();
    for (task, tally) in tasks.iter().zip(&tallies) {
        println!(
            "{:26} {:5} rounds: of the entries that were not touched {:.3} % are shown, {:.3} % where the damage was aimed; \
             at most {:.0?} and {} KiB",
            task.fixture.name,
            tally.rounds,
            share(tally.shown[0], tally.untouched[0]),
            share(tally.shown[1], tally.untouched[1]),
            tally.time,
            tally.heap >> 10
        );
        if std::env::var_os("WORST").is_some() {
            tally.worst.iter().for_each(|(_, worst)| println!("    {worst}"));
        }
        if SMALL.contains(&task.fixture.damaged) {
            assert!(share(tally.shown[0], tally.untouched[0]) >= 90.0, "{}", task.fixture.name);
            continue;
        }
        let sum = formats.entry(task.fixture.kind.format()).or_default();
        for i in 0..2 {
            sum.0[i] += tally.untouched[i];
            sum.1[i] += tally.shown[i];
        }
    }
    failures.truncate(10);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for (format, (untouched, shown)) in &formats {
        println!(
            "{format}: {} of {} entries that chance did not touch are shown ({:.3} %), {} of {} beside aimed damage ({:.3} %)",
            shown[0],
            untouched[0],
            share(shown[0], untouched[0]),
            shown[1],
            untouched[1],
            share(shown[1], untouched[1])
        );
    }
    for (format, (untouched, shown)) in formats {
        assert!(shown[0] * 100 >= untouched[0] * 99, "{format}: {} of {}", shown[0], untouched[0]);
    }
}
