//! The program on a ring of ours, from every source, against golden files. The fixtures are what the builder makes: the
//! last moments of a board with two processors, whose ring has wrapped.

#![cfg(feature = "cli")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::golden::{self, run};
use crate::support::qnx::{Kernel, syspage, text};

const BASE: u64 = 0xE7DF_7000;
/// Where the second processor's clock stood when the first one's began.
const START: u64 = 0x2A_FFFF_0000;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A driver waits for a mutex that nobody gives back, the watchdog notices.
fn story() -> Kernel {
    let mut k = Kernel::new(3, 40);
    let mut time = START;
    let mut at = |step: u64| {
        time += step;
        time
    };
    let name = |pid, path: &str| [&[1, pid][..], &text(path, false)].concat();
    for (pid, path) in [(1, "proc/boot/procnto-smp-instr"), (4099, "sbin/devb-eide"), (8196, "usr/bin/watchdog")] {
        k.event(0, at(900), 4, 192, &name(pid, path));
    }
    for (pid, tid, state) in [(1, 1, 1), (1, 2, 2), (4099, 1, 5), (4099, 2, 5), (8196, 1, 5)] {
        k.event(0, at(300), 4, 24, &[pid, tid]);
        k.event(0, at(120), 4, state, &[pid, tid]);
    }
    k.event(0, at(100), 4, 320, &[&[4099, 2][..], &text("dma", false)].concat());
    for round in 0..9u32 {
        if round == 6 {
            // The driver is started again, and named again.
            k.event(0, at(700), 4, 192, &name(4099, "sbin/devb-eide"));
            k.event(0, at(100), 4, 320, &[&[4099, 2][..], &text("dma", false)].concat());
        }
        k.event(0, at(1500), 3, 1, &[14, 0xF00A_1000]);
        k.event(0, at(80), 3, 3, &[4099, 14, 0x0804_9000, 0x0805_2000]);
        k.event(0, at(350), 3, 4, &[14, 4, 1, 0, round]);
        k.event(0, at(60), 4, 2, &[4099, 2, 21, 2]);
        k.event(0, at(40), 3, 2, &[14, 1]);
        k.event(0, at(90), 4, 1, &[4099, 2, 21, 2]);
        k.event(0, at(70), 2, 14, &[3, 1]);
        k.event(0, at(30), 7, 2, &[0x1_0002, 8196]);
        k.event(0, at(50), 2, 142, &[0x1_0002, round]);
        k.event(0, at(80), 5, 6, &[4099, 0x4000_0000 + round * 4096, 0, 4096, 0, 0x101]);
        k.event_with(0, at(200), 2, 11, &[0x4000_0001, 1, 1, 0x100, round, 0], |k| {
            // The other processor records in between.
            k.event(1, START + 40_000 + u64::from(round) * 3000, 4, 1, &[1, 2]);
        });
        k.event(1, at(10), 2, 80, &[0x0806_0040, 0x8000_0001]);
        k.event(0, at(500), 2, 139, &[0xFFFF_FFFF, 4]);
    }
    k.event(0, at(2000), 2, 80, &[0x0806_0040, 0x8000_0001]);
    k.event(0, at(150), 4, 13, &[4099, 2, 21, 2]);
    k.event(0, at(90), 4, 1, &[8196, 1, 63, 1]);
    k.event(0, at(400), 6, 5000 % 1024, &[0xDEAD_0001, 3]);
    k.event(0, at(100), 6, 1023, &text("watchdog: devb-eide is stuck", false));
    k
}

/// A committed file is what the builder makes.
fn committed(name: &str, bytes: &[u8]) {
    let path = root().join("tests/fixtures").join(name);
    if golden::updating() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(std::fs::read(&path).is_ok_and(|b| b == bytes), "{name} is not what the builder makes (UPDATE_GOLDEN=1)");
}

fn fixtures() {
    // Once: a file that is being written is not to be read.
    static WRITTEN: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    WRITTEN.get_or_init(|| {
        committed("qnx-ring.bin", &story().bytes());
        committed("qnx.kev", &story().kev(2_300_571_400, "6.4.1"));
    });
}

fn check(name: &str, lines: &[String]) {
    fixtures();
    golden::check(name, lines);
}

#[test]
fn every_command_on_a_ring_and_on_a_file() {
    for (name, source) in [("qnx-ring", "qnx-ring.bin"), ("qnx-kev", "qnx.kev")] {
        check(
            name,
            &[
                format!("last 20 {source}"),
                format!("last 20 --width 120 {source}"),
                format!("last 5 --width 200 {source}"),
                format!("last 4 --format json {source}"),
                format!("list --to 8 {source}"),
                format!("list --to 3 --format csv {source}"),
                format!("show 3 -1 -4 {source}"),
                format!("info {source}"),
                format!("objects {source}"),
            ],
        );
    }
}

#[test]
fn filters_speak_the_systems_words() {
    let filters = [
        "--event thread_running",
        "--event THRUNNING --core-id 1",
        "--event __KER_SYNC_MUTEX_LOCK",
        "--event 1 --class thread",
        "--class kercall_*  --thread devb-eide:dma --to 40",
        "--context isr --to 30",
        "--object watchdog",
        "--arg pid=watchdog",
        "--arg errno=EINTR --arg vaddr=0x40001000",
        "--arg vaddr=0x40008000",
        "--event user_* --class user",
        "--event thread_nothing",
    ];
    let mut lines: Vec<String> = filters.iter().map(|f| format!("list {f} qnx-ring.bin")).collect();
    lines.push("events --format-in qnx sys_mmap --width 200".to_owned());
    lines.push("last 2 --qnx-version 8.0 qnx-ring.bin".to_owned());
    lines.push("last 2 --qnx-version 5 qnx-ring.bin".to_owned());
    lines.push("last 2 --format-in threadx qnx-ring.bin".to_owned());
    check("qnx-filters", &lines);
}

/// A core with the ring, a system page and some other memory.
fn core() -> Vec<u8> {
    let mut memory = syspage(BASE as u32, 2_300_571_400);
    memory.resize(0x1000, 0);
    memory.extend(story().bytes());
    let mut b = b"\x7fELF\x01\x01\x01".to_vec();
    b.resize(16, 0);
    for v in [4u16, 3] {
        b.extend(v.to_le_bytes());
    }
    for v in [1u32, 0, 52, 0, 0] {
        b.extend(v.to_le_bytes());
    }
    for v in [52u16, 32, 1, 0, 0, 0] {
        b.extend(v.to_le_bytes());
    }
    let len = memory.len() as u32;
    for v in [1, 0x1000, BASE as u32 - 0x1000, BASE as u32 - 0x1000, len, len, 6, 0x1000] {
        b.extend(v.to_le_bytes());
    }
    b.resize(0x1000, 0);
    b.extend(memory);
    b
}

fn same_events(a: &str, b: &str) {
    let events =
        |t: &str| t.lines().filter(|l| l.contains("\"type\":\"event\"")).map(str::to_owned).collect::<Vec<_>>();
    assert!(!events(a).is_empty());
    assert_eq!(events(a), events(b));
}

#[test]
fn a_core_a_dump_and_a_ring_say_the_same() {
    let dir = std::env::temp_dir().join(format!("tx-trace-qnx-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    fixtures();
    let ring = run("list --format json qnx-ring.bin");
    let core_file = put("core", &core());
    same_events(&run(&format!("list --format json --core {core_file}")), &ring);
    let pointer = core().len() as u64;
    let mut with_pointer = core();
    with_pointer.extend((BASE as u32 - 0x1000).to_le_bytes());
    let dump = put("dump.bin", &with_pointer[0x1000..]);
    let place = BASE - 0x1000;
    let at = place + pointer - 0x1000;
    // Found by search, by the system page through its pointer, by the page itself, by any buffer.
    for how in [
        String::new(),
        format!("--symbol _syspage_ptr={at:#x}"),
        format!("--header {place:#x} --format-in qnx"),
        format!("--header {:#x}", BASE + 2 * 16384),
    ] {
        let got = run(&format!("list --format json --image {dump}@{place:#x} {how}"));
        same_events(&got, &ring);
        assert!(got.contains("\"hz\":2300571400"), "the page tells the rate: {how}");
    }
    same_events(&run(&format!("list --format json {dump}")), &ring);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A stub that has the ring in its memory and nothing else.
fn stub() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let memory = story().bytes();
        let (mut link, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut byte = [0u8; 1];
        while link.read_exact(&mut byte).is_ok() {
            match byte[0] {
                b'$' => got.clear(),
                b'#' => {
                    link.read_exact(&mut [0; 2]).unwrap();
                    let request = String::from_utf8_lossy(&got).into_owned();
                    let answer = if let Some(range) = request.strip_prefix('m') {
                        let (at, len) = range.split_once(',').unwrap();
                        let (at, len) = (u64::from_str_radix(at, 16).unwrap(), usize::from_str_radix(len, 16).unwrap());
                        let start = at.wrapping_sub(BASE) as usize;
                        match start.checked_add(len).and_then(|end| memory.get(start..end)) {
                            Some(bytes) => bytes.iter().fold(String::new(), |all, b| all + &format!("{b:02x}")),
                            None => "E14".to_owned(),
                        }
                    } else {
                        match request.as_str() {
                            "?" => "S05",
                            "D" => "OK",
                            r if r.starts_with("qSupported") => "PacketSize=1000",
                            _ => "",
                        }
                        .to_owned()
                    };
                    let sum = answer.bytes().fold(0u8, u8::wrapping_add);
                    if link.write_all(format!("+${answer}#{sum:02x}").as_bytes()).is_err() {
                        return;
                    }
                }
                other => got.push(other),
            }
        }
    });
    port
}

#[test]
fn over_the_wire_it_is_the_same() {
    fixtures();
    let ring = run("list --format json qnx-ring.bin");
    let got = run(&format!("list --format json --remote 127.0.0.1:{} --header {:#x}", stub(), BASE + 16384));
    same_events(&got, &ring);
    let last = run("last 7 --format json qnx-ring.bin");
    let got = run(&format!("last 7 --format json --remote 127.0.0.1:{} --header {BASE:#x}", stub()));
    same_events(&got, &last);
}

#[test]
fn inside_gdb_it_is_the_same() {
    let found = Command::new("gdb").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        return eprintln!("SKIPPED: no gdb");
    }
    fixtures();
    let dir = std::env::temp_dir().join(format!("tx-trace-qnx-gdb-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let core_file = dir.join("core");
    std::fs::write(&core_file, core()).unwrap();
    let script = Path::new(&root()).join("gdb/tx_trace.py");
    let out = Command::new("gdb")
        .args(["-nx", "-batch", "-ex"])
        .arg(format!("source {}", script.display()))
        .arg("-ex")
        .arg(format!("core-file {}", core_file.display()))
        .arg("-ex")
        .arg(format!("tx-trace last 5 --format json --header {BASE:#x}"))
        .env("TX_TRACE_BIN", env!("CARGO_BIN_EXE_tx-trace"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    std::fs::remove_dir_all(&dir).unwrap();
    if !said.contains("\"type\":\"event\"") {
        assert!(wrong.contains("architecture") || wrong.contains("no core file handler"), "{said}\n{wrong}");
        return eprintln!("SKIPPED: this gdb does not open the core: {wrong}");
    }
    same_events(&said, &run("last 5 --format json qnx-ring.bin"));
}

/// Stamps of the second processor were in the future: it had run for 45 µs of a trace of 13, and a wait was as long.
#[test]
fn times_of_the_future_contradicted_each_other() {
    let ring = root().join("tests/fixtures/qnx-ring.bin");
    let rows = |command: &str| -> Vec<serde_json::Value> {
        let program = env!("CARGO_BIN_EXE_tx-trace");
        let out = Command::new(program).args([command, "--format", "json"]).arg(&ring).output().unwrap();
        String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let list = rows("list");
    let ticks = |line: &serde_json::Value| line["ticks"].as_i64();
    let span = list.iter().filter(|line| line["type"] == "event").filter_map(ticks).max().unwrap();
    let newest = list.iter().rfind(|line| line["type"] == "event").and_then(ticks).unwrap();
    assert_eq!(span, newest);
    let core = |line: &&serde_json::Value| line["report"] == "profile" && line["core"] == 1;
    let ran: i64 = rows("profile").iter().filter(core).filter_map(ticks).sum();
    assert!(ran > 0 && ran <= span, "{ran} of {span}");
    for command in ["list", "last", "blocked", "profile", "report"] {
        let doubts = rows(command).into_iter().filter(|line| line["code"] == "stamps-step-back");
        assert_eq!(doubts.map(|line| line["count"].as_u64()).collect::<Vec<_>>(), [Some(4)], "{command}");
    }
}
