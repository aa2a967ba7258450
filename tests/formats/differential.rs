//! Our decoder against another: `tracex_parser` 3.0.1 from PyPI, on generated traces and on the fixtures.
//!
//! It is compared only where it is right. What it cannot read, or reads otherwise than the kernel writes, and what is
//! therefore not generated here (`roundtrip.rs` has it all):
//!
//! * words of 8 bytes: it finds no events;
//! * rings that have not wrapped: it drops unused slots by id 0 instead of context 0, then turns what is left by the
//!   distance to the ring's end, and gives a wrong order; so too events of id 0;
//! * names of a size that is no multiple of 4: it knows no padding (TraceX neither), and reads all that follows askew;
//! * registry addresses that occur twice: it takes the first, live or not; and it names a context by any object;
//! * names that are not ASCII, or have other bytes behind their NUL than more NULs: there the kernel leaves old memory
//!   (so the names of the fixtures are not compared);
//! * ids with a core in the top byte: it takes them for ids.
//!
//! Without Python, or where the package cannot be installed, the test says so and passes.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::decode::{Seen, Source, open, seen, threadx};
use crate::support::generate::{Story, plain_clock, story};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tx_trace::catalogue::Names;
use tx_trace::format::{DecodeOptions, Extent, Hints};
use tx_trace::sym::NoSymbols;
use tx_trace::trace::ContextKind;

const VERSION: &str = "3.0.1";

/// A Python that has the package, made beside the build's other files; `None`, loudly, where there can be none.
fn python() -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tracex-parser-{VERSION}"));
    let python = venv.join("bin/python");
    let works = || {
        let out = Command::new(&python).args(["-c", "import tracex_parser.file_parser"]).output();
        out.is_ok_and(|o| o.status.success())
    };
    if works() {
        return Some(python);
    }
    // A half-made one is of no use.
    let _ = std::fs::remove_dir_all(&venv);
    let package = format!("tracex_parser=={VERSION}");
    let steps = [
        Command::new("python3").args(["-m", "venv"]).arg(&venv).output(),
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--retries", "1", "--timeout", "30", &package])
            .output(),
    ];
    if works() {
        return Some(python);
    }
    eprintln!("SKIPPED: {package} cannot be had: python3 with its venv module and a package index are needed");
    for step in steps {
        match step {
            Ok(out) => eprint!("{}", String::from_utf8_lossy(&out.stderr)),
            Err(e) => eprintln!("{e}"),
        }
    }
    None
}

/// What both say of an event. The priority word is put together again: we hand its parts out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    context: u64,
    priority: u64,
    id: u64,
    stamp: u64,
    info: Vec<u64>,
    name: Option<String>,
}

fn ours(e: &Seen) -> Said {
    let priority = match (e.kind, e.threshold, &e.interrupted) {
        (ContextKind::Thread, Some(threshold), _) => {
            0x8000_0000 | u64::from(threshold) << 16 | u64::from(e.priority.unwrap())
        }
        (ContextKind::Thread, None, _) => u64::from(e.priority.unwrap()),
        (ContextKind::Isr, _, Some((_, address))) => *address,
        _ => 0,
    };
    // The two name what is no thread in their own words.
    let name = match e.kind {
        ContextKind::Thread => e.name.clone(),
        ContextKind::Isr => Some("INTERRUPT".to_owned()),
        ContextKind::Init => Some("INITIALIZATION".to_owned()),
        ContextKind::Idle | ContextKind::Unknown => None,
    };
    Said { context: e.address, priority, id: u64::from(e.id), stamp: e.stamp.unwrap(), info: e.words.clone(), name }
}

fn theirs(python: &Path, files: &[PathBuf]) -> Vec<Vec<Said>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/differential/parse.py");
    let out = Command::new(python).arg(script).args(files).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut all = vec![Vec::new(); files.len()];
    for line in std::str::from_utf8(&out.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |i: usize| fields[i].parse::<u64>().unwrap();
        all[number(0) as usize].push(Said {
            context: number(1),
            priority: number(2),
            id: number(3),
            stamp: number(4),
            info: (5..9).map(number).collect(),
            name: serde_json::from_str(fields[9]).unwrap(),
        });
    }
    all
}

/// Makes a trace one that the other decoder can read: see the list on top.
fn readable(mut story: Story) -> Option<Story> {
    let b = &mut story.buffer;
    b.wide = false; // what is too wide is cut as it is written
    b.name_size = b.name_size.next_multiple_of(4);
    let mut known = Vec::new();
    b.objects.retain(|o| {
        let fresh = o.kind == 1 && o.pointer & 0xFFFF_FFFF != 0 && !known.contains(&(o.pointer & 0xFFFF_FFFF));
        known.push(o.pointer & 0xFFFF_FFFF);
        fresh && !o.name.is_empty() && o.name.iter().all(u8::is_ascii_lowercase)
    });
    let wrapped = story.happenings.len() >= story.capacity;
    (wrapped && b.slots.iter().all(|s| s.id != 0)).then_some(story)
}

#[test]
fn tracex_parser_reads_the_same() {
    let Some(python) = python() else { return };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("differential-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    // The threads behind odd ids are struck from the registry below.
    let strategy = story(120, false, plain_clock());
    let (mut files, mut mine) = (Vec::new(), Vec::new());
    let (mut big, mut turned, mut old, mut named) = (0, 0, 0, 0);
    while files.len() < 200 {
        let Some(story) = readable(strategy.new_tree(&mut runner).unwrap().current()) else { continue };
        let bytes = story.bytes();
        let path = dir.join(format!("{}.trx", files.len()));
        std::fs::write(&path, &bytes).unwrap();
        let events = seen(&open(&story.buffer, &bytes, Source::Scan { before: 0 }, Extent::All).unwrap());
        big += usize::from(story.buffer.big);
        turned += usize::from(story.buffer.current != 0);
        old += usize::from(story.old);
        named += events.iter().filter(|e| e.kind == ContextKind::Thread && e.name.is_some()).count();
        mine.push(events.iter().map(ours).collect::<Vec<_>>());
        files.push(path);
    }
    // What a firmware left, in both byte orders.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in ["cm3.trx", "be.trx"] {
        let path = fixtures.join(name);
        let bytes = std::fs::read(&path).unwrap();
        mine.push(bare(&bytes).iter().map(ours).collect());
        files.push(path);
    }
    println!("{} traces: {big} big-endian, {turned} turned, {old} old, {named} events with names", files.len());
    assert!(big > 50 && turned > 50 && old > 50 && named > 500, "all kinds are tried");
    let other = theirs(&python, &files);
    for ((path, mine), other) in files.iter().zip(&mine).zip(&other) {
        assert_eq!(mine.len(), other.len(), "{}", path.display());
        for (i, (m, o)) in mine.iter().zip(other).enumerate() {
            let mut o = o.clone();
            if path.starts_with(&fixtures) {
                o.name.clone_from(&m.name);
            }
            assert_eq!(*m, o, "event {i} of {} (ours, theirs)", path.display());
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn bare(bytes: &[u8]) -> Vec<Seen> {
    let found = threadx().scan(bytes, 1)[0];
    let mut memory = support::flat::Flat::new(found.base, bytes.to_vec());
    let hints = Hints { header: Some(found.base), ..Hints::default() };
    let located = threadx().locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = located.capture(&mut memory, &NoSymbols, Extent::All).unwrap();
    let catalogue = threadx().catalogue(Names::Duo);
    seen(&capture.decode(&catalogue, &DecodeOptions::default()).unwrap())
}
