//! Dumps of every kind that people have, through every source: text, compressed files, cores of QEMU, memory with several
//! traces in it; and `dump`, which writes the trace back. Real tools where they are installed.
#![cfg(all(feature = "cli", unix))]

use crate::support::machine;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::machine::{Qemu, Running, Scratch, fixture, installed, symbol, tx_trace, wait_for};
use tx_trace::rsp::{Client, Endpoint, Leave, Options};

const RAM: u64 = 0x2000_0000;

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn out(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

fn err(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn ihex(base: u64, bytes: &[u8]) -> String {
    let record = |kind: u8, offset: u16, data: &[u8]| {
        let mut all = vec![data.len() as u8, (offset >> 8) as u8, offset as u8, kind];
        all.extend(data);
        all.push(all.iter().fold(0u8, |s, b| s.wrapping_sub(*b)));
        all.iter().fold(":".to_owned(), |t, b| t + &format!("{b:02X}")) + "\n"
    };
    let mut text = String::new();
    for (i, data) in bytes.chunks(16).enumerate() {
        let at = base + 16 * i as u64;
        if i == 0 || at & 0xFFFF == 0 {
            text += &record(4, 0, &((at >> 16) as u16).to_be_bytes());
        }
        text += &record(0, at as u16, data);
    }
    text + ":00000001FF\n"
}

fn words(base: u64, bytes: &[u8]) -> String {
    bytes.chunks(16).enumerate().fold(String::new(), |mut text, (i, line)| {
        write!(text, "{:#010x}: ", base + 16 * i as u64).unwrap();
        for w in line.chunks(4) {
            write!(text, "{:08x} ", u32::from_le_bytes(w.try_into().unwrap())).unwrap();
        }
        text + "\n"
    })
}

fn ram() -> Vec<u8> {
    fs::read(fixture("cm3.ram.bin")).unwrap()
}

/// The fixture's last events, by its raw image: with `now:`, and as they are without symbols.
fn expected() -> (String, String) {
    let image = format!("{}@{RAM:#x}", text(fixture("cm3.ram.bin")));
    let with = tx_trace(&["last", "50", "--elf", &text(fixture("cm3.elf")), "--image", &image]);
    let without = tx_trace(&["last", "50", "--image", &image]);
    (out(&with), out(&without))
}

#[test]
fn text_and_compressed_files_read_as_the_raw_image() {
    let scratch = Scratch::new("dumps-kinds");
    let file = |name: &str, bytes: &[u8]| {
        fs::write(scratch.path(name), bytes).unwrap();
        text(scratch.path(name))
    };
    let (want, bare) = expected();
    let hex = file("ram.hex", ihex(RAM, &ram()).as_bytes());
    let mdw = file("mdw.log", format!("> mdw {RAM:#x} 0x2000\n{}> exit\n", words(RAM, &ram())).as_bytes());
    let elf = text(fixture("cm3.elf"));
    let elf_gz = file("cm3.elf.gz", &gzip(&fs::read(&elf).unwrap()));
    let ram_gz = file("ram.gz", &gzip(&ram()));
    let hex_gz = file("ram.hex.gz", &gzip(ihex(RAM, &ram()).as_bytes()));
    let core_gz = file("cm3.core.gz", &gzip(&fs::read(fixture("cm3.core")).unwrap()));
    let trx_gz = file("cm3.trx.gz", &gzip(&fs::read(fixture("cm3.trx")).unwrap()));
    let at = |path: &str| format!("{path}@{RAM:#x}");
    for source in [
        vec!["--elf", &elf, "--image", &hex],
        vec![&hex, &elf],
        vec![&elf, &mdw],
        vec!["--elf", &elf_gz, "--image", &at(&ram_gz)],
        vec![&elf_gz, &at(&ram_gz)],
        vec![&elf_gz, &ram_gz],
        vec![&elf_gz, &hex_gz],
        vec![&elf_gz, &core_gz],
        vec!["--elf", &elf_gz, "--core", &core_gz],
        vec!["--elf", &elf_gz, "--image", &at(&hex)],
    ] {
        let got = tx_trace(&[&["last", "50"], source.as_slice()].concat());
        assert_eq!(out(&got), want, "{source:?} {}", err(&got));
    }
    for source in [vec![hex.as_str()], vec![&mdw], vec!["--trace", &trx_gz], vec![&trx_gz]] {
        let got = tx_trace(&[&["last", "50"], source.as_slice()].concat());
        assert_eq!(out(&got), bare, "{source:?} {}", err(&got));
    }
    let piped = machine::tx_trace_with_input(&["last", "50", "--trace", "-"], &fs::read(&trx_gz).unwrap());
    assert_eq!(out(&piped), bare);
    // What was done to read it is reported.
    let info = out(&tx_trace(&["info", "--format", "json", &elf, &hex_gz]));
    let len = ihex(RAM, &ram()).len();
    assert!(info.contains(&format!("ram.hex.gz (gzip, {len} bytes unpacked) (Intel HEX) (file)")), "{info}");
    let info = out(&tx_trace(&["info", "--format", "json", &elf, &mdw]));
    assert!(info.contains("mdw.log (hex dump, little-endian words)"), "{info}");
    let said = err(&tx_trace(&["last", "1", &mdw]));
    assert!(said.contains("their byte order is not known: little-endian is assumed (--elf FILE gives it)"), "{said}");
    assert!(!err(&tx_trace(&["last", "1", &mdw, &elf])).contains("byte order"));
}

#[test]
fn words_of_a_big_endian_target_take_the_order_of_its_elf() {
    let scratch = Scratch::new("dumps-big");
    let buffer = sample(0x8000_0100, "boss");
    let swapped = Buffer { big: true, ..buffer };
    let bytes = swapped.bytes();
    let mut dump = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        write!(dump, "{:08X} = ", 0x8000_0100u64 + 16 * i as u64).unwrap();
        line.chunks(4).for_each(|w| write!(dump, "{:08X} ", u32::from_be_bytes(w.try_into().unwrap())).unwrap());
        dump += "\n";
    }
    // The smallest ELF header of a big-endian program.
    let mut elf = b"\x7fELF\x01\x02\x01".to_vec();
    elf.resize(52, 0);
    elf[17] = 2;
    elf[19] = 20;
    elf[41] = 52;
    fs::write(scratch.path("x.log"), dump).unwrap();
    fs::write(scratch.path("x.elf"), elf).unwrap();
    let got = tx_trace(&["list", &text(scratch.path("x.log")), "--elf", &text(scratch.path("x.elf"))]);
    assert!(out(&got).contains("boss"), "{} {}", out(&got), err(&got));
    assert_eq!(out(&got).lines().count(), 7, "{}", out(&got));
}

#[test]
fn a_damaged_record_is_a_gap_and_is_reported_with_its_line() {
    let scratch = Scratch::new("dumps-damaged");
    let hex = ihex(RAM, &ram());
    // A record in the ring: the first that holds a stamp of the newest events.
    let line = (0x4F8C + 9392 - 64) / 16 + 1;
    let bad: String = hex
        .lines()
        .enumerate()
        .map(|(i, l)| if i == line { l[..l.len() - 1].to_owned() + "G\n" } else { format!("{l}\n") })
        .collect();
    let path = text(scratch.path("bad.hex"));
    fs::write(&path, &bad).unwrap();
    let got = tx_trace(&["list", "--strict", &path, &text(fixture("cm3.elf"))]);
    assert!(
        err(&got).contains(&format!("1 line that no record can be read from (line {}): not used", line + 1)),
        "{}",
        err(&got)
    );
    assert!(err(&got).contains("event slots cannot be read"), "{}", err(&got));
    assert_eq!(got.status.code(), Some(2), "--strict: something is lost");
    let json = out(&tx_trace(&["last", "3", "--format", "json", &path, &text(fixture("cm3.elf"))]));
    assert!(json.contains(r#""code":"dump-damaged","severity":"lost","count":1"#), "{json}");
    // Nothing of it can be used.
    fs::write(&path, ":10000000FF\n:00000001FF\n").unwrap();
    let got = tx_trace(&["last", &path]);
    assert_eq!(got.status.code(), Some(2));
    let said = err(&got);
    assert!(said.contains("is an Intel HEX file, and nothing in it can be used"), "{said}");
    assert!(said.contains("tried: 1 line that no record can be read from (line 1): not used"), "{said}");
}

#[test]
fn damaged_compressed_files_are_used_as_far_as_they_go() {
    let scratch = Scratch::new("dumps-gzip");
    let path = text(scratch.path("ram.gz"));
    let packed = gzip(&ram());
    fs::write(&path, &packed[..packed.len() - 9]).unwrap();
    let got = tx_trace(&["last", "3", &path]);
    assert_eq!(got.status.code(), Some(0), "{}", err(&got));
    assert!(err(&got).contains("it is cut short: 32768 bytes could be unpacked"), "{}", err(&got));
    let mut bad = packed.clone();
    let at = bad.len() - 5;
    bad[at] ^= 0xFF;
    fs::write(&path, bad).unwrap();
    let got = tx_trace(&["last", "3", "--strict", &path]);
    assert_eq!(got.status.code(), Some(2));
    assert!(err(&got).contains("it is damaged"), "{}", err(&got));
    fs::write(&path, &packed[..12]).unwrap();
    let got = tx_trace(&["last", "3", &path]);
    assert_eq!(got.status.code(), Some(2));
    assert!(err(&got).contains("is compressed (gzip), and it is cut short"), "{}", err(&got));
}

#[test]
fn a_dump_that_tells_its_addresses_is_moved_only_when_reported() {
    let scratch = Scratch::new("dumps-moved");
    let path = text(scratch.path("ram.hex"));
    fs::write(&path, ihex(RAM, &ram())).unwrap();
    let elf = text(fixture("cm3.elf"));
    let got = tx_trace(&["info", "--elf", &elf, "--image", &format!("{path}@0x30000000")]);
    let said = String::from_utf8(got.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("begins at 0x20000000 by itself; it was moved to 0x30000000, as given"), "{said}");
    let got = tx_trace(&["last", "1", "--elf", &elf, "--image", &format!("{path}@{RAM:#x}")]);
    assert_eq!(err(&got), "");
}

#[test]
fn what_is_packed_otherwise_is_refused_with_what_to_do() {
    let scratch = Scratch::new("dumps-packed");
    let path = text(scratch.path("vmcore"));
    fs::write(&path, b"makedumpfile\0\0\0\0").unwrap();
    let got = tx_trace(&["last", &path]);
    assert_eq!(got.status.code(), Some(2));
    assert!(err(&got).contains("is compressed (kdump); only gzip is unpacked here"), "{}", err(&got));
    assert!(err(&got).contains("dump-guest-memory FILE"), "{}", err(&got));
    fs::write(&path, b"\xFD7zXZ\0\0\0").unwrap();
    assert!(err(&tx_trace(&["last", &path])).contains(&format!("hint: unxz -k {path}")));
}

fn sample(base: u64, thread: &str) -> Buffer {
    let mut buffer = Buffer::new(base);
    buffer.objects = vec![Registered::new(1, 0x2000_0040, thread)];
    let events: Vec<Entry> =
        (0..6).map(|i| Entry::thread(0x2000_0040, 5, 10_000 + i, 100 * i + 7, [i, 0, 0, 0])).collect();
    buffer.record(8, &events)
}

fn noise(len: usize, mut seed: u32) -> Vec<u8> {
    (0..len)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .collect()
}

#[test]
fn a_trace_anywhere_in_memory_is_found() {
    let scratch = Scratch::new("dumps-anywhere");
    let path = text(scratch.path("ram.bin"));
    for at in [0, 1, 2, 3, 5, 63, 4095, 70_001] {
        for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
            let buffer = Buffer { wide, big, ..sample(RAM + at, "worker") };
            let mut memory = noise(at as usize, 7);
            memory.extend(buffer.bytes());
            memory.extend(noise(5000, 9));
            fs::write(&path, &memory).unwrap();
            for source in [vec![path.as_str()], vec!["--image", &format!("{path}@{RAM:#x}"), "--scan"]] {
                let got = tx_trace(&[&["list"], source.as_slice()].concat());
                assert_eq!(got.status.code(), Some(0), "{at} {wide} {big} {source:?} {}", err(&got));
                assert_eq!(out(&got).matches("worker").count(), 6, "{}", out(&got));
                assert_eq!(out(&got).lines().count(), 7, "{}", out(&got));
            }
        }
    }
}

#[test]
fn several_traces_are_reported_and_one_is_chosen() {
    let scratch = Scratch::new("dumps-several");
    let path = text(scratch.path("ram.bin"));
    let (first, second) = (sample(RAM + 0x101, "first"), sample(RAM + 0x1003, "second"));
    let mut memory = noise(0x101, 7);
    memory.extend(first.bytes());
    memory.resize(0x1003, 0xAA);
    memory.extend(second.bytes());
    fs::write(&path, &memory).unwrap();
    let image = format!("{path}@{RAM:#x}");
    let got = tx_trace(&["list", "--image", &image, "--format", "json"]);
    assert!(out(&got).contains("first") && !out(&got).contains("second"), "{}", out(&got));
    assert!(out(&got).contains(r#""code":"several-traces","severity":"note","count":1"#), "{}", out(&got));
    assert!(out(&got).contains("more traces are at 0x20001003: choose one with --header ADDR"));
    for choose in [vec!["--image", image.as_str()], vec![path.as_str()]] {
        let got = tx_trace(&[&["list", "--header", "0x20001003"], choose.as_slice()].concat());
        assert!(out(&got).contains("second") && !out(&got).contains("first"), "{choose:?} {} {}", out(&got), err(&got));
        assert_eq!(got.status.code(), Some(0));
    }
    let info = out(&tx_trace(&["info", "--image", &image, "--header", "0x20001003"]));
    assert!(info.contains("other traces") && info.contains("0x20000101"), "{info}");
}

/// `now:` once said of a copy of an older trace which thread runs.
#[test]
fn now_is_not_said_of_a_copy() {
    let scratch = Scratch::new("dumps-copy");
    let path = text(scratch.path("ram.bin"));
    let mut memory = fs::read(fixture("cm3.ram.bin")).unwrap();
    let trace = symbol(&fixture("cm3.elf"), "_tx_trace_header_ptr") - RAM;
    let trace = u32::from_le_bytes(memory[trace as usize..][..4].try_into().unwrap());
    let copy = memory[(u64::from(trace) - RAM) as usize..][..9408].to_vec();
    let at = RAM + memory.len() as u64;
    memory.extend(copy);
    fs::write(&path, &memory).unwrap();
    let (elf, image) = (text(fixture("cm3.elf")), format!("{path}@{RAM:#x}"));
    for (header, says) in [(u64::from(trace), true), (at, false)] {
        let got = tx_trace(&["last", "9", "--elf", &elf, "--image", &image, "--header", &format!("{header:#x}")]);
        assert_eq!(got.status.code(), Some(0), "{}", err(&got));
        assert_eq!(out(&got).contains("now: "), says, "{header:#x} {}", out(&got));
    }
}

/// Runs `dump`; what it said.
fn dump(to: &Path, source: &[&str]) -> Output {
    let to = text(to);
    let got = tx_trace(&[&["dump", "-o", &to], source].concat());
    assert_eq!(out(&got), "", "data goes to the file alone");
    got
}

#[test]
fn dump_writes_what_lies_there_and_reads_back() {
    let scratch = Scratch::new("dumps-dump");
    let [elf, core, image] = ["cm3.elf", "cm3.core", "cm3.ram.bin"].map(|n| text(fixture(n)));
    let trx = text(fixture("cm3.trx"));
    let to = scratch.path("out.trx");
    // The application's buffer is 16 bytes longer than the ring that fits into it.
    let want = fs::read(&trx).unwrap()[..9392].to_vec();
    let list = out(&tx_trace(&["list", "--format", "json", "--trace", &trx]));
    let place = |t: &str| t.lines().filter(|l| l.contains(r#""type":"event""#)).map(str::to_owned).collect::<Vec<_>>();
    for source in
        [vec!["--elf", &elf, "--core", &core], vec![&elf, &image], vec![&image], vec!["--trace", &trx], vec![&trx]]
    {
        let _ = fs::remove_file(&to);
        let got = dump(&to, &source);
        let line = format!("tx-trace: wrote {} bytes, from 0x20004f8c on, to {}\n", want.len(), to.display());
        assert!(err(&got).ends_with(&line), "{source:?}: {}", err(&got));
        assert_eq!(fs::read(&to).unwrap(), want, "{source:?}");
        let back = out(&tx_trace(&["list", "--format", "json", "--trace", &text(&to)]));
        assert_eq!(place(&back), place(&list));
    }
    // Every shape, with bytes behind the ring, and in a copy that is not at its base.
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let buffer = Buffer { wide, big, spare: 13, ..sample(0x1000, "worker") };
        let mut memory = noise(33, 1);
        memory.extend(buffer.bytes());
        fs::write(scratch.path("ram.bin"), &memory).unwrap();
        let got = dump(&to, &["--image", &format!("{}@0x8000", text(scratch.path("ram.bin")))]);
        assert!(err(&got).contains("from 0x8021 on"), "{}", err(&got));
        assert_eq!(fs::read(&to).unwrap(), buffer.bytes()[..buffer.bytes().len() - 13]);
    }
    let left: Vec<_> = fs::read_dir(scratch.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half-written is left: {left:?}");
}

#[test]
fn dump_refuses_what_it_cannot_do_honestly() {
    let scratch = Scratch::new("dumps-refused");
    let to = scratch.path("out.trx");
    let refused = |to: &Path, source: &[&str], why: &str| {
        let got = dump(to, source);
        assert_eq!(got.status.code(), Some(2), "{}", err(&got));
        assert!(err(&got).contains(why), "{}", err(&got));
    };
    let trx = text(fixture("cm3.trx"));
    for name in ["x", "x.trx.gz", "x.corex", "-"] {
        refused(Path::new(name), &[&trx], "the ending says what is written");
    }
    // A dump that ends within the ring.
    let memory = &ram()[..0x4F8C + 5000];
    fs::write(scratch.path("cut.bin"), memory).unwrap();
    let image = format!("{}@{RAM:#x}", text(scratch.path("cut.bin")));
    refused(
        &to,
        &["--image", &image],
        "the trace is at 0x20004f8c to 0x2000743b, and 0x20006314 to 0x2000743b cannot be read",
    );
    let mut hex: Vec<String> = ihex(RAM, &ram()).lines().map(str::to_owned).collect();
    hex.remove(0x5000 / 16 + 1);
    fs::write(scratch.path("gap.hex"), hex.join("\n")).unwrap();
    refused(&to, &[&text(scratch.path("gap.hex"))], "0x20005000 to 0x2000500f cannot be read");
    assert!(!to.exists());
    // Over what is read: by its name, by a link, by another name; and the ELF.
    let input = scratch.path("in.trx");
    fs::copy(&trx, &input).unwrap();
    std::os::unix::fs::symlink(&input, scratch.path("link.trx")).unwrap();
    fs::hard_link(&input, scratch.path("hard.trx")).unwrap();
    for name in ["in.trx", "link.trx", "hard.trx", "../in.trx"] {
        let name = match name.strip_prefix("../") {
            Some(n) => scratch.path("").join("..").join(scratch.path("").file_name().unwrap()).join(n),
            None => scratch.path(name),
        };
        for source in [vec![text(&input)], vec!["--trace".into(), text(&input)]] {
            let source: Vec<&str> = source.iter().map(String::as_str).collect();
            refused(&name, &source, "which is an input; give another name");
        }
    }
    let image = format!("{}@{RAM:#x}", text(&input));
    refused(&input, &[&image], "which is an input");
    fs::copy(fixture("cm3.elf"), scratch.path("elf.trx")).unwrap();
    let elf = text(scratch.path("elf.trx"));
    refused(Path::new(&elf), &["--elf", &elf, "--core", &text(fixture("cm3.core"))], "which is an input");
    assert_eq!(fs::read(&input).unwrap(), fs::read(&trx).unwrap(), "untouched");
    refused(&scratch.path("no/such.trx"), &[&trx], "does not exist");
    // An older dump of that name is replaced, whole.
    fs::write(&to, "older").unwrap();
    assert_eq!(dump(&to, &[&trx]).status.code(), Some(0));
    assert_eq!(fs::read(&to).unwrap().len(), 9392);
    // No trace is an answer, not a failure.
    let got = dump(
        &scratch.path("never.trx"),
        &[
            "--elf",
            &text(fixture("cm3-never.elf")),
            "--image",
            &format!("{}@{RAM:#x}", text(fixture("cm3-never.ram.bin"))),
        ],
    );
    assert_eq!(got.status.code(), Some(1), "{}", err(&got));
    assert!(!scratch.path("never.trx").exists());
}

#[test]
fn hostile_files_end_in_a_sentence() {
    let scratch = Scratch::new("dumps-hostile");
    let path = text(scratch.path("x"));
    let mut cases: Vec<Vec<u8>> = vec![
        b":".to_vec(),
        b":FFFFFFFFFF\n".to_vec(),
        b":020000040000FA\n".repeat(1000),
        b"S9030000FC\n".to_vec(),
        b"S3FF\n".to_vec(),
        b"0xffffffffffffffff: 00 00 00 00\n".to_vec(),
        b"00000000  00 00  |..|\n*\nffffffff00000000\n".to_vec(),
        vec![0x1F, 0x8B, 8],
        vec![0x1F, 0x8B, 8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        gzip(b""),
        gzip(&gzip(b"0")),
        gzip(b"\x7fELF"),
    ];
    cases.push((0..20_000).map(|i| format!("{:#x}: 00\n", i * 3)).collect::<String>().into_bytes());
    cases.push(noise(100_000, 3));
    for case in cases {
        fs::write(&path, &case).unwrap();
        for source in [vec![path.as_str()], vec!["--image", &path], vec!["--core", &path], vec!["--trace", &path]] {
            let got = tx_trace(&[&["last"], source.as_slice()].concat());
            let code = got.status.code();
            assert!(matches!(code, Some(1 | 2)), "{code:?} {:?} {}", &case[..case.len().min(40)], err(&got));
            assert!(err(&got).starts_with("error: ") || err(&got).contains("\nerror: "), "{}", err(&got));
        }
    }
}

#[test]
fn csv_has_the_names_of_json() {
    let trx = text(fixture("cm3.trx"));
    let csv = out(&tx_trace(&["last", "1", "--format", "csv", &trx]));
    let head: Vec<String> = csv.lines().next().unwrap().split(',').map(str::to_owned).collect();
    let json = out(&tx_trace(&["list", "--format", "json", "--context", "isr", &trx]));
    let line = json.lines().find(|l| l.contains(r#""type":"event""#)).unwrap();
    let event: serde_json::Value = serde_json::from_str(line).unwrap();
    let mut names = Vec::new();
    for (name, value) in event.as_object().unwrap() {
        match value {
            serde_json::Value::Object(inner) => names.extend(inner.keys().map(|k| format!("{name}.{k}"))),
            _ if name == "type" => {}
            _ => names.push(name.clone()),
        }
    }
    let sorted = |mut v: Vec<String>| {
        v.sort();
        v
    };
    // Each argument has columns of its own beside those of JSON's fields.
    let (args, head): (Vec<String>, Vec<String>) = head.into_iter().partition(|name| name.starts_with("args."));
    assert_eq!(args[..4], ["args.1.name", "args.1.value", "args.1.text", "args.2.name"]);
    assert_eq!(sorted(head), sorted(names));
    // Objects too, and each line has as many fields as the head.
    let objects = out(&tx_trace(&["objects", "--format", "csv", &trx]));
    let json = out(&tx_trace(&["objects", "--format", "json", &trx]));
    let line = json.lines().find(|l| l.contains(r#""type":"object""#)).unwrap();
    let object: serde_json::Value = serde_json::from_str(line).unwrap();
    let names = object.as_object().unwrap().keys().filter(|k| *k != "type").cloned().collect();
    let head: Vec<String> = objects.lines().next().unwrap().split(',').map(str::to_owned).collect();
    assert_eq!(sorted(head), sorted(names));
}

fn client(port: u16, leave: Leave) -> Client {
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    Client::connect(&endpoint, Options { leave, ..Options::default() }).unwrap()
}

fn gdb(elf: &Path, port: u16, commands: &[String]) -> String {
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch", "-ex", "set pagination off", "-ex", "set width 0"]).arg(elf);
    gdb.args(["-ex", &format!("target remote 127.0.0.1:{port}")]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let got = gdb.output().unwrap();
    format!("{}{}", out(&got), err(&got))
}

#[test]
fn a_dump_of_a_live_target_is_what_gdb_dumps() {
    require!(installed("qemu-system-arm") && installed("gdb-multiarch"));
    let (elf, scratch) = (fixture("cm3.elf"), Scratch::new("dumps-live"));
    let qemu = Qemu::dead(&elf);
    let [ours, theirs, hex, srec, core] =
        ["ours.trx", "gdb.bin", "gdb.hex", "gdb.srec", "qemu.core"].map(|n| scratch.path(n));
    let got = dump(&ours, &["--elf", &text(&elf), "--remote", &qemu.remote()]);
    assert_eq!(got.status.code(), Some(0), "{}", err(&got));
    // How long the target was halted, and what was written.
    assert_eq!(err(&got).lines().count(), 2, "{}", err(&got));
    let range = "_tx_trace_header_ptr _tx_trace_buffer_end_ptr";
    let said = gdb(
        &elf,
        qemu.port,
        &[
            format!("dump binary memory {} {range}", theirs.display()),
            format!("dump ihex memory {} 0x20000000 0x20008000", hex.display()),
            format!("dump srec memory {} 0x20000000 0x20008000", srec.display()),
            "echo ====\\n".into(),
            "x/16384xb 0x20004000".into(),
            "echo ====\\n".into(),
            "x/8192xw 0x20000000".into(),
        ],
    );
    assert_eq!(fs::read(&ours).unwrap(), fs::read(&theirs).unwrap(), "{said}");
    // What GDB prints and writes, and QEMU's own core.
    let mut shown = said.split("====\n").skip(1);
    let [bytes, words] = ["bytes.log", "words.log"].map(|name| {
        fs::write(scratch.path(name), format!("(gdb) x/8192\n{}", shown.next().unwrap())).unwrap();
        scratch.path(name)
    });
    let mut monitor = client(qemu.port, Leave::Halted);
    monitor.monitor(&format!("dump-guest-memory {}", core.display())).unwrap();
    monitor.leave();
    wait_for("QEMU's core", || fs::metadata(&core).is_ok_and(|m| m.len() > 0x200_0000));
    let want = out(&tx_trace(&["list", "--trace", &text(&ours)]));
    // The ELF names interrupts and events of the application.
    let named = out(&tx_trace(&["list", "--elf", &text(&elf), "--trace", &text(&ours)]));
    for file in [&hex, &srec, &words, &bytes, &core] {
        let got = tx_trace(&["list", "--elf", &text(&elf), &text(file)]);
        if file != &bytes {
            assert_eq!(out(&got), named, "{file:?} {}", err(&got));
        }
        let got = tx_trace(&["list", &text(file)]);
        assert_eq!(out(&got), want, "{file:?} {}", err(&got));
    }
}

#[test]
fn a_stub_behind_a_unix_socket() {
    require!(installed("qemu-system-arm"));
    let (elf, scratch) = (fixture("cm3.elf"), Scratch::new("dumps-unix"));
    let socket = scratch.path("gdb socket");
    let _qemu = Running(
        Command::new("qemu-system-arm")
            .args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-gdb"])
            .arg(format!("unix:{},server=on,wait=off", socket.display()))
            .arg("-kernel")
            .arg(&elf)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_for("the socket", || socket.exists());
    let remote = format!("unix:{}", socket.display());
    let elf = text(&elf);
    let read = || tx_trace(&["last", "3", "--elf", &elf, "--remote", &remote]);
    let mut got = read();
    wait_for("the firmware's fault", || {
        got = read();
        out(&got).contains("APP_FAULT")
    });
    assert_eq!(got.status.code(), Some(0), "{}", err(&got));
    let to = scratch.path("out.trx");
    assert_eq!(dump(&to, &["--elf", &elf, "--remote", &remote]).status.code(), Some(0));
    assert_eq!(fs::metadata(&to).unwrap().len(), 9392);
    let gone = format!("unix:{}", PathBuf::from("no").join("such").display());
    let got = tx_trace(&["last", "--elf", &elf, "--remote", &gone]);
    assert_eq!(got.status.code(), Some(2));
    assert!(err(&got).contains("no/such"), "{}", err(&got));
}
