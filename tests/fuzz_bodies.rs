//! The bodies of the fuzz targets on damaged fixtures, without a fuzzer: a fixed number of rounds from a fixed seed.
//!
//! `FUZZ_ROUNDS=100000 cargo test --test fuzz_bodies` looks further; `FUZZ_CORPUS=DIR` writes the seeds there, for the
//! fuzzer itself (`scripts/fuzz`).
#![cfg(feature = "cli")]
#![allow(missing_docs, clippy::restriction, reason = "a test")]

#[path = "../fuzz/src/lib.rs"]
mod bodies;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tx_trace::code::Code;

const ROUNDS: u64 = 200;

/// A round that takes longer hangs. The longest takes some milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Xorshift: the same rounds on every machine.
struct Dice(u64);

impl Dice {
    fn of(round: u64) -> Self {
        let mut dice = Self((round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// A seed with some damage: bits turned, words replaced, cut short, a part of another seed or of itself put in.
fn damaged(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut data = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(4) {
        // Headers and tables are at the start: half of the damage goes there.
        let near = if dice.below(2) == 0 { data.len().min(512) } else { data.len() };
        let at = dice.below(near);
        match dice.below(6) {
            0 => data.truncate(at),
            1 if at < data.len() => data[at] ^= 1 << dice.below(8),
            2 if at < data.len() => data[at] = dice.next() as u8,
            3 | 4 => {
                let words =
                    [0, 1, 0x7F, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, u64::MAX, u64::MAX - 7, dice.next()];
                let word = words[dice.below(words.len())].to_le_bytes();
                let (at, len) = (at & !3, [2, 4, 8][dice.below(3)]);
                for (place, byte) in data.iter_mut().skip(at).zip(&word[..len]) {
                    *place = *byte;
                }
            }
            _ => {
                let other = seeds[dice.below(seeds.len())].clone();
                let from = dice.below(other.len());
                let part = &other[from..other.len().min(from + dice.below(256))];
                let at = at.min(data.len());
                let over = if dice.below(2) == 0 { part.len() } else { 0 };
                let end = data.len().min(at + over);
                data.splice(at..end, part.iter().copied());
            }
        }
    }
    data
}

fn run(name: &'static str, body: fn(&[u8]) -> usize, seeds: Vec<Vec<u8>>) {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}.bin"));
    for (number, seed) in seeds.iter().enumerate() {
        assert!(body(seed) > 0, "{name}: seed {number} does not reach the code that it is meant for");
    }
    if let Some(corpus) = std::env::var_os("FUZZ_CORPUS") {
        let folder = Path::new(&corpus).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
    let (reported, rounds_done) = channel();
    let worker = std::thread::spawn(move || {
        for round in 0..rounds {
            let data = damaged(&seeds, &mut Dice::of(round));
            let outcome = std::panic::catch_unwind(|| body(&data)).map(|_| ()).map_err(|_| data);
            let ended = outcome.is_err();
            reported.send((round, outcome)).unwrap();
            if ended {
                return;
            }
        }
    });
    let mut last = None;
    loop {
        match rounds_done.recv_timeout(TIME_LIMIT) {
            Ok((round, Ok(()))) => last = Some(round),
            Ok((round, Err(data))) => {
                std::fs::write(&file, data).unwrap();
                panic!("{name}: round {round} failed (its input: {})", file.display());
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{name}: the round after {last:?} hangs"),
        }
    }
    worker.join().unwrap();
    assert_eq!(last, rounds.checked_sub(1), "{name}: all rounds were run");
}

fn fixtures(names: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    names.iter().map(|n| std::fs::read(folder.join(n)).unwrap_or_else(|e| panic!("{n}: {e}"))).collect()
}

#[test]
fn rsp_packet() {
    let stream = b"\x10+$qSupported:multiprocess+#c6-\x03$OK#9a%Stop:T05#00$0* #7a$b}\x03}]#bc$m20000000,40#55$E14#aa";
    let seeds = vec![stream.to_vec(), [b"\x01".as_slice(), stream, stream].concat(), b"\x05$0*~*~*~*~*~#00".to_vec()];
    run("rsp_packet", bodies::rsp_packet, seeds);
}

#[test]
fn elf() {
    run("elf", bodies::elf, fixtures(&["cm3.elf", "cm3.stripped.elf", "cm3-notrace.elf", "host.elf", "cm3.core"]));
}

#[test]
fn unwind() {
    run("unwind", bodies::unwind, fixtures(&["cm3.elf", "cm3.elf", "cm3-disabled.elf", "host.elf"]));
}

#[test]
fn core() {
    // The second is ten times as large: it comes up less often.
    run("core", bodies::core, fixtures(&["cm3.core", "cm3.core", "cm3.core", "host.core"]));
}

#[test]
fn dump() {
    let packed = {
        use std::io::Write;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(b"S1050000010 2\n20000000: 01020304 \n".repeat(50).as_slice()).unwrap();
        out.finish().unwrap()
    };
    let seeds = [
        ":020000042000DA\n:10FFF8000102030405060708090A0B0C0D0E0F1071\n:020000021000EC\n:04FFFE0001020304F5\n:00000001FF\n",
        "S00600004844521B\nS1051000010 2E7\nS315200000000102030405060708090A0B0C0D0E0F1042\nS5030001FB\nS70520000000DA\n",
        "(gdb) x/4xw\n0x20000000 <buf>:\t0x54585442\t0xffffffff\n0x20000008 <buf+8>:\t0x20000000\t0x20000030\n",
        "00000000  42 54 58 54 ff ff ff ff  00 00 00 20 30 00 00 20  |BTXT....... 0.. |\n*\n00000040\n",
        "00000000: 4254 5854 ffff ffff 0000 0020 3000 0020  BTXT....... 0.. \n00000010: 42                 B\n",
        "20000000: 54585442 ffffffff 20000000 20000030    BTXT....... 0.. \n20000010 = 54585442 FFFFFFFF\n",
    ];
    let mut seeds: Vec<Vec<u8>> = seeds.iter().map(|s| s.as_bytes().to_vec()).collect();
    seeds.push(packed);
    run("dump", bodies::dump, seeds);
}

#[test]
fn threadx() {
    run("threadx", bodies::threadx, fixtures(&["cm3.trx", "host-ulong64.trx", "cm3-straddle.ram.bin"]));
}

#[test]
fn uia() {
    run("uia", bodies::uia, fixtures(&["uia-stop.ram.bin", "uia-min.ram.bin"]));
}

#[test]
fn qnx() {
    run("qnx", bodies::qnx, fixtures(&["qnx.kev", "qnx.kev", "qnx-ring.bin"]));
}

/// What a stub says, in the form of the body's script.
fn script(leave: u8, parts: &[&str]) -> Vec<u8> {
    let mut seed = vec![leave];
    for part in parts {
        for piece in part.as_bytes().chunks(0x7F) {
            seed.push(0x80 | piece.len() as u8);
            seed.extend_from_slice(piece);
        }
    }
    seed
}

#[test]
fn client() {
    let memory = "5458544200010203040506070809aabb";
    let seeds = vec![
        script(0, &["PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+", "T05thread:01;", memory]),
        script(1, &["PacketSize=47ff;QStartNoAckMode+;qXfer:auxv:read+", "OK", "S05", memory, "E01", "", "", memory]),
        script(
            2,
            &["PacketSize=40;QStartNoAckMode+;binary-upload+", "OK", "T0506:0*,;thread:p1.1;", "b0123", "", "O4142"],
        ),
    ];
    run("client", bodies::client, seeds);
}

#[test]
fn user_events() {
    let seeds = [
        "id\tname\ti1\ti2\ti3\ti4\tlabel\n4096\tboot\tcause:hex\trest\t\t\tbooted by {cause}\n0x1001\tstep\tn:dec\t\t\t\t\nenum\tcause\t1\twatchdog\n",
        "Start\n4096, boot, BT, (255,0,0), (0,255,0), cause, rest, x, y\n5000, step, ST, (1,2,3), (4,5,6), A, B, C, D\nEnd\n",
        "#define BASE 4096\n#define EV_BOOT (BASE + 1)\nenum app { EV_A = 0x1010, EV_B, EV_C = EV_A << 1 };\n",
    ];
    run("user_events", bodies::user_events, seeds.iter().map(|s| s.as_bytes().to_vec()).collect());
}

#[test]
fn monitor_line() {
    let seeds = [
        "last 50 --thread 'sensor task' --format json",
        "list --from -1.5ms --to 12 --class tx_queue,!fx --arg timeout!=0xFFFFFFFF",
        "latency --every tick --span a..b:FIELD --hz 72M",
        "show -1 42 --width 120",
        "help",
    ];
    run("monitor_line", bodies::monitor_line, seeds.iter().map(|s| s.as_bytes().to_vec()).collect());
}

#[test]
fn command() {
    let mut seeds = Vec::new();
    for (which, name) in
        ["cm3.trx", "qnx.kev", "host-ulong64.trx", "be.trx", "cm3.ram.bin", "cm3.core", "uia-stop.ram.bin"]
            .iter()
            .enumerate()
    {
        let mut seed = fixtures(&[name]).remove(0);
        seed.insert(0, which as u8 % 6);
        seeds.push(seed);
    }
    run("command", bodies::command, seeds);
}

#[test]
fn endpoint_and_filters() {
    let seeds = [
        "localhost:3333",
        "[::1]:3333",
        "/dev/ttyUSB0@115200",
        "unix:gdb.sock",
        "|qemu-system-arm -gdb stdio",
        "openocd:localhost:6666",
        "qmp:qmp.sock",
        "ram.bin@0x2000_0000",
        "-1.5ms",
        "-1200t",
        "!sensor*,0x20000100..0x20000200,queue_[a-z]",
        "timeout!=0xFFFFFFFF",
    ];
    run("endpoint_and_filters", bodies::endpoint_and_filters, seeds.iter().map(|s| s.as_bytes().to_vec()).collect());
}

/// Found by the body of `threadx`: asked for no event, a trace without a current pointer gives one all the same.
#[test]
fn no_event_is_read_where_none_is_asked_for_and_the_pointer_is_lost() {
    use tx_trace::catalogue::Names;
    use tx_trace::format::{ALL, DecodeOptions, Extent, Hints};
    use tx_trace::mem::image::{Image, memory_of};

    let mut data = fixtures(&["cm3.trx"]).remove(0);
    let format = ALL.iter().find(|f| f.name() == "threadx").unwrap();
    let base = format.scan(&data, 1)[0].base;
    // The word of the current pointer: behind four words, two halves and three words.
    data[32..36].fill(0xFF);
    let mut memory = memory_of(&[Image::placed("trace", data, base)], tx_trace::abi::Width::W4).unwrap();
    let hints = Hints { header: Some(base), ..Hints::default() };
    let none = tx_trace::sym::NoSymbols;
    let located = format.locate(&mut memory, &none, &hints).unwrap();
    let capture = located.capture(&mut memory, &none, Extent::Nothing).unwrap();
    let trace = capture.decode(&format.catalogue(Names::Duo), &DecodeOptions::default()).unwrap();
    assert!(trace.issues.iter().any(|i| i.code == Code::CurrentPointer), "{:?}", trace.issues);
    assert_eq!((trace.len(), trace.events().count()), (0, 0));
}

/// Found by the body of `user_events`: a `#define` of what is no name in C became an event whose name, written as a
/// table, was taken for an id.
#[test]
fn a_name_that_begins_with_a_digit_was_taken_from_a_header() {
    assert_eq!(bodies::user_events(b"#define 8ASE 4096\n"), 0);
    assert_eq!(bodies::user_events(b"#define 8ASE 4096\n#define EV_A 4097\n"), 1);
}

#[test]
fn a_body_that_fails_is_reported() {
    let fails = |data: &[u8]| {
        assert!(data.len() > 3, "made to fail");
        1
    };
    let reported = std::panic::catch_unwind(|| run("made_to_fail", fails, vec![vec![0; 16]])).unwrap_err();
    assert!(reported.downcast_ref::<String>().unwrap().contains("failed (its input: "));
}
