//! Damage that was believed without a word: each is said now, and what it did not touch is as it was.

#![cfg(feature = "cli")]

use crate::support::qnx;
use crate::support::uia;

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

/// What a command writes of these bytes; `{}` is their file.
fn run(name: &str, bytes: &[u8], words: &str) -> (tx_trace::cli::Outcome, String) {
    let place = std::env::temp_dir().join(format!("tx-trace-silent-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let (file, out) = (place.join("capture.bin"), place.join("out"));
    std::fs::write(&file, bytes).unwrap();
    let path = file.to_str().unwrap();
    let mut words: Vec<OsString> = words.split(' ').map(|w| w.replace("{}", path).into()).collect();
    words.extend(["-o".into(), out.clone().into()]);
    let (outcome, said) = tx_trace::cli::run_captured(words);
    let text = std::fs::read_to_string(&out).unwrap_or(said);
    std::fs::remove_dir_all(place).unwrap();
    (outcome, text)
}

struct Listing {
    events: Vec<Value>,
    issues: Vec<Value>,
}

fn list(name: &str, bytes: &[u8], source: &str) -> Listing {
    let (_, text) = run(name, bytes, &format!("list --format json {source}"));
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|l| l["type"] == kind).cloned().collect();
    Listing { events: of("event"), issues: of("issue") }
}

impl Listing {
    /// Severity and count of an issue.
    fn issue(&self, code: &str) -> Option<(String, u64)> {
        let issue = self.issues.iter().find(|i| i["code"] == code)?;
        Some((issue["severity"].as_str().unwrap().to_owned(), issue["count"].as_u64().unwrap()))
    }

    fn ticks(&self) -> Vec<i64> {
        self.events.iter().map(|e| e["ticks"].as_i64().unwrap()).collect()
    }
}

/// A ring of 256 slots of 32 bytes behind a header of 48 bytes and 20 objects of 48; it has wrapped.
const RING: usize = 48 + 20 * 48;

fn threadx() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cm3.trx")).unwrap()
}

#[test]
fn a_ring_end_before_its_events_is_said_and_they_are_shown() {
    let mut bytes = threadx();
    let end = u32::from_le_bytes(bytes[28..32].try_into().unwrap());
    bytes[28..32].copy_from_slice(&(end - 5 * 32).to_le_bytes());
    let listing = list("end", &bytes, "{}");
    assert_eq!(listing.issue("header-mended"), Some(("inferred".into(), 1)));
    assert_eq!(listing.events.len(), 256);
    // A file that ends with its ring, and memory that goes on with other things, say nothing.
    assert!(list("whole", &threadx(), "{}").issues.is_empty());
    let mut more = threadx();
    more.extend([0x5A; 4096]);
    assert!(list("more", &more, "{}").issues.is_empty());
}

#[test]
fn a_page_of_zeros_in_the_ring_is_lost_and_no_event_of_info() {
    let mut bytes = threadx();
    bytes[RING + 16 * 32..RING + 48 * 32].fill(0);
    let listing = list("zeros", &bytes, "{}");
    assert_eq!(listing.issue("unused-slot"), Some(("lost".into(), 32)));
    assert_eq!(listing.events.len(), 224);
    let (_, info) = run("zeros-info", &bytes, "info --format json {}");
    let fill = "224 of 256 slots hold events (wrapped: older events are overwritten; 32 others hold none)";
    assert!(info.contains(fill), "{info}");
    assert!(info.contains(r#""events":224"#), "{info}");
    let (outcome, _) = run("zeros-strict", &bytes, "list --strict {}");
    assert_eq!(outcome, tx_trace::cli::Outcome::Failed);
}

/// A logger of 8 KiB that went around several times, and how it is read.
fn logger() -> (Vec<u8>, usize, &'static str) {
    let mut lap = uia::Lap::new(false, false, 0x2000_0100, 2048);
    for i in 0..300u32 {
        let stamp = 0x5_0000_0000 + u64::from(i) * 0x100;
        lap.log(&uia::Ev::new(10, 0x100, 0x8001, stamp, &[i, i + 1]));
    }
    let list = 0x2000_0090;
    let ram = uia::Ram::new(0x2000_0000).put(0x2000_0010, &lap.object(1, list)).put(list - 4, &list.to_le_bytes());
    let ram = ram.put(list, &lap.descriptor(0, 1, 0x2000_0034)).put(lap.base, &lap.mem);
    let source = "--symbol ti_uia_loggers_LoggerStopMode_Object__table__V=0x20000010 {}@0x20000000";
    (ram.bytes, lap.kept().len(), source)
}

#[test]
fn records_behind_a_lost_packet_length_are_found_and_the_damage_is_said() {
    let (mut bytes, kept, source) = logger();
    let whole = list("length", &bytes, source);
    assert_eq!((whole.events.len(), whole.issues.len()), (kept, 0));
    for length in [[0, 0, 0], [0, 0, 0x40]] {
        bytes[0x101..0x104].copy_from_slice(&length);
        let listing = list("no-length", &bytes, source);
        assert_eq!(listing.issue("packet-damaged"), Some(("inferred".into(), 1)), "{length:?}");
        assert_eq!(listing.events.len(), kept, "{length:?}");
    }
}

#[test]
fn a_damaged_stamp_of_64_bits_is_no_turn_of_its_clock() {
    let (mut bytes, kept, source) = logger();
    // The first record behind the packet's header: its stamp follows its first word, low word first.
    bytes[0x118..0x11C].fill(0);
    let listing = list("stamp", &bytes, source);
    assert_eq!(listing.issue("stamps-step-back"), Some(("inferred".into(), 1)));
    let ticks = listing.ticks();
    assert_eq!((ticks.len(), ticks[kept - 1]), (kept, (kept as i64 - 1) * 0x100));
    assert_eq!(ticks.windows(2).filter(|w| w[1] - w[0] != 0x100).count(), 2);
}

/// A file of a QNX kernel: an event each 900 ticks, the first in the turn 0x2A of the low word.
fn file() -> (Vec<u8>, usize) {
    let mut kernel = qnx::Kernel::new(4, 700);
    for i in 0..200u32 {
        kernel.event(0, 0x2A_4000_0000 + u64::from(i) * 900, 4, 24, &[1, i % 9]);
    }
    let bytes = kernel.kev(2_300_571_400, "6.4.1");
    let first = bytes.len() - 202 * 16;
    (bytes, first)
}

#[test]
fn a_qnx_clock_that_is_set_back_is_said() {
    let (mut bytes, first) = file();
    let listing = list("qnx", &bytes, "{}");
    assert_eq!((listing.events.len(), listing.issues.len()), (202, 0));
    let whole = listing.ticks();
    for element in 100..202 {
        let at = first + element * 16 + 4;
        let stamp = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        bytes[at..at + 4].copy_from_slice(&(stamp - 0x0800_0000).to_le_bytes());
    }
    let listing = list("qnx-back", &bytes, "{}");
    assert_eq!(listing.issue("stamps-step-back"), Some(("inferred".into(), 1)));
    assert_eq!(listing.ticks()[..100], whole[..100]);
}

#[test]
fn a_turn_of_a_qnx_clock_that_no_control_event_tells_is_said() {
    let mut kernel = qnx::Kernel::new(4, 700);
    for i in 0..20u32 {
        kernel.event(0, 0x2A_F000_0000 + u64::from(i) * 900, 4, 24, &[1, 2]);
    }
    let mut bytes = kernel.kev(2_300_571_400, "6.4.1");
    let at = bytes.len() - 5 * 16 + 4;
    bytes[at..at + 4].fill(0);
    let listing = list("qnx-turn", &bytes, "{}");
    assert_eq!(listing.issue("high-word-unknown").map(|(severity, _)| severity), Some("inferred".into()));
}

#[test]
fn zeros_that_a_qnx_file_counts_are_lost() {
    let (mut bytes, first) = file();
    bytes[first + 50 * 16..first + 60 * 16].fill(0);
    let listing = list("qnx-zeros", &bytes, "{}");
    assert_eq!(listing.issue("unused-slot"), Some(("lost".into(), 10)));
    assert_eq!(listing.events.len(), 192);
}
