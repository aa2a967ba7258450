//! Registers beyond a `g` packet: asked for by the numbers of the stub's own description, and only where they tell
//! something. The stub here is a Cortex-M3 with the fixture's RAM, and keeps what it was asked.

#![cfg(feature = "cli")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::support::machine::{fixture, symbol, tx_trace};

const RAM: u64 = 0x2000_0000;
const CONTROL: u64 = 0xE000_E000;

/// What the stub is.
#[derive(Clone, Default)]
struct Stub {
    /// In the exception of this number.
    exception: u32,
    /// Documents of its description; none: it offers none.
    documents: Vec<(&'static str, String)>,
    /// What `p` answers.
    registers: Vec<(u32, String)>,
    /// The System Control Space; without it a read there is an error.
    control: Option<Vec<u8>>,
}

impl Stub {
    /// Where it listens, and the requests that came.
    fn start(self) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<String>>>::default());
        let (ram, keep) = (std::fs::read(fixture("cm3.ram.bin")).unwrap(), Arc::clone(&asked));
        std::thread::spawn(move || {
            let Ok((mut link, _)) = listener.accept() else { return };
            let (mut came, mut buf) = (Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = link.read(&mut buf) {
                came.extend_from_slice(&buf[..n]);
                while let Some(end) = came.iter().position(|b| *b == b'#').filter(|end| came.len() >= end + 3) {
                    let packet: Vec<u8> = came.drain(..end + 3).collect();
                    let start = packet.iter().position(|b| *b == b'$').unwrap_or(0);
                    let request = String::from_utf8_lossy(&packet[start + 1..packet.len() - 3]).into_owned();
                    let answer = self.answer(&request, &ram);
                    keep.lock().unwrap().push(request);
                    let sum = answer.bytes().fold(0u8, u8::wrapping_add);
                    if link.write_all(format!("+${answer}#{sum:02x}").as_bytes()).is_err() {
                        return;
                    }
                }
            }
        });
        (address, asked)
    }

    fn answer(&self, request: &str, ram: &[u8]) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let word = |n: u32| hex(&n.to_le_bytes());
        if request == "?" {
            return "T05".to_owned();
        }
        if request.starts_with("qSupported") {
            let offer = if self.documents.is_empty() { "" } else { ";qXfer:features:read+" };
            return format!("PacketSize=1000{offer}");
        }
        if request == "g" {
            // r0 to r12, sp, lr, pc, xpsr.
            let special = [0x2000_7F58, 0x2763, 0x2698, 0x0100_0000 | self.exception];
            return [0u32; 13].iter().chain(&special).map(|n| word(*n)).collect();
        }
        if let Some(range) = request.strip_prefix('m') {
            let (at, len) = range.split_once(',').unwrap();
            let there = self.control.as_ref().zip(u64::from_str_radix(at, 16).unwrap().checked_sub(CONTROL));
            let word = |n: &str| usize::from_str_radix(n, 16).unwrap();
            if let Some(bytes) = there.and_then(|(page, at)| page.get(at as usize..)?.get(..word(len))) {
                return hex(bytes);
            }
            let at = u64::from_str_radix(at, 16).unwrap().checked_sub(RAM).map(|at| at as usize);
            let found = at.and_then(|at| ram.get(at..at + usize::from_str_radix(len, 16).unwrap()));
            return found.map_or_else(|| "E14".to_owned(), hex);
        }
        if let Some(rest) = request.strip_prefix("qXfer:features:read:") {
            let (name, range) = rest.split_once(':').unwrap();
            let Some((_, xml)) = self.documents.iter().find(|(n, _)| *n == name) else { return "E00".to_owned() };
            let (from, len) = range.split_once(',').unwrap();
            let [from, len] = [from, len].map(|n| usize::from_str_radix(n, 16).unwrap());
            // In pieces, whatever was asked for.
            let end = (from + len.min(100)).min(xml.len());
            return format!("{}{}", if end == xml.len() { 'l' } else { 'm' }, &xml[from..end]);
        }
        if let Some(number) = request.strip_prefix('p') {
            let number = u32::from_str_radix(number, 16).unwrap();
            let found = self.registers.iter().find(|(n, _)| *n == number);
            return found.map_or_else(|| "E01".to_owned(), |(_, value)| value.clone());
        }
        if request == "D" { "OK".to_owned() } else { String::new() }
    }
}

/// As OpenOCD describes them: psp is number 18.
fn flat() -> Vec<(&'static str, String)> {
    let general: String =
        (0..16).map(|n| format!("<reg name=\"r{n}\" bitsize=\"32\" regnum=\"{n}\" type=\"int\"/>\n")).collect();
    let system = "<reg name=\"xPSR\" bitsize=\"32\" regnum=\"16\"/>\n<reg name=\"msp\" bitsize=\"32\" regnum=\"17\"/>\n\
                  <reg name=\"psp\" bitsize=\"32\" regnum=\"18\"/>\n";
    vec![(
        "target.xml",
        format!("<?xml version=\"1.0\"?>\n<target>\n<feature name=\"a\">\n{general}{system}</feature></target>"),
    )]
}

/// As QEMU describes them: a document for each part, and numbers that go on where none is given.
fn parts() -> Vec<(&'static str, String)> {
    let include = |name: &str| format!("<xi:include href=\"{name}\"/>");
    let all = include("core.xml") + &include("system.xml") + &include("target.xml");
    vec![
        ("target.xml", format!("<?xml version=\"1.0\"?><target><architecture>arm</architecture>{all}</target>")),
        (
            "core.xml",
            "<feature name=\"a\"><reg name=\"r0\" bitsize=\"32\"/><reg name=\"xpsr\" regnum=\"25\"/></feature>"
                .to_owned(),
        ),
        (
            "system.xml",
            "<feature name=\"b\"><!-- <reg name=\"no\"/> --><reg name=\"msp\"/><reg name=\"PSP\"/></feature>"
                .to_owned(),
        ),
    ]
}

/// The first row of `threads`, and what was asked.
fn threads(stub: Stub) -> (serde_json::Value, Vec<String>) {
    let (rows, asked) = all_rows(stub);
    (rows[0].clone(), asked)
}

/// The rows of `threads`, and what was asked.
fn all_rows(stub: Stub) -> (Vec<serde_json::Value>, Vec<String>) {
    let (address, asked) = stub.start();
    let elf = fixture("cm3.elf").display().to_string();
    let out = tx_trace(&["threads", "--format", "json", "--elf", &elf, "--remote", &address]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&out.stderr));
    let rows = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    let rows = rows.into_iter().filter(|l| l["type"] == "row").collect();
    let asked = asked.lock().unwrap().clone();
    (rows, asked)
}

/// Requests that are about registers.
fn of_registers(asked: &[String]) -> Vec<&str> {
    let starts = |r: &&str| ["p", "g", "qXfer:features"].iter().any(|s| r.starts_with(s));
    asked.iter().map(String::as_str).filter(starts).collect()
}

#[test]
fn registers_beyond_g_were_not_asked_for() {
    // The firmware keeps what a crash log would print.
    let at = (symbol(&fixture("cm3.elf"), "fw_fault") - RAM) as usize;
    let ram = std::fs::read(fixture("cm3.ram.bin")).unwrap();
    let word = |i: usize| u32::from_le_bytes(ram[at + 4 * i..][..4].try_into().unwrap());
    let (psp, pc) = (word(4), word(11));
    let value: String = psp.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
    for (documents, number) in [(flat(), 18), (parts(), 27)] {
        let registers = vec![(number, value.clone())];
        let (row, asked) = threads(Stub { exception: 3, documents, registers, ..Stub::default() });
        assert_eq!(row["at"]["address"], format!("{pc:#010x}"), "{row} {asked:?}");
        // One, and no other.
        let ps: Vec<&str> = of_registers(&asked).into_iter().filter(|r| r.starts_with('p')).collect();
        assert_eq!(ps, [format!("p{number:x}")], "{asked:?}");
    }
}

#[test]
fn a_stub_that_does_not_know_them_is_believed() {
    for (documents, registers, what) in [
        (vec![], vec![], "no description"),
        (
            vec![("target.xml", "<target><feature name=\"a\"><reg name=\"r0\"/></feature></target>".to_owned())],
            vec![],
            "not described",
        ),
        (flat(), vec![], "an error"),
        (flat(), vec![(18, "xxxxxxxx".to_owned())], "unavailable"),
        (flat(), vec![(18, String::new())], "not supported"),
    ] {
        let (row, asked) = threads(Stub { exception: 3, documents, registers, ..Stub::default() });
        assert!(row["at"].is_null(), "{what}: {row} {asked:?}");
        assert!(row["at_how"].as_str().unwrap().contains("--reg psp=N"), "{what}: {row}");
    }
}

#[test]
fn nothing_is_asked_that_tells_nothing() {
    // In a thread its registers are those of the CPU.
    let (_, asked) = threads(Stub { documents: flat(), ..Stub::default() });
    assert_eq!(of_registers(&asked), ["g"], "{asked:?}");
}

/// The System Control Space of a Cortex-M of this `cpuid` in a HardFault.
fn control(cpuid: u32) -> Vec<u8> {
    let mut page = vec![0; 0x1000];
    let words = [(0xD00, cpuid), (0xD04, 0x803), (0xD28, 0x8200), (0xD2C, 0x4000_0000), (0xD38, 0x1234_0000)];
    for (at, word) in words {
        page[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    page
}

#[test]
fn fault_registers_were_invented_from_what_a_stub_answers() {
    for (control, found, what) in [
        (Some(control(0x410F_C231)), true, "a Cortex-M3"),
        (None, false, "errors"),
        (Some(vec![0; 0x1000]), false, "zeros"),
        (Some(vec![0xFF; 0x1000]), false, "ones"),
        (Some(control(0)), false, "no CPUID"),
        (Some(control(0x410C_C200)), false, "a Cortex-M0, which records nothing"),
    ] {
        let (rows, asked) = all_rows(Stub { exception: 3, control, ..Stub::default() });
        let fault = rows.iter().find(|row| row["report"] == "fault");
        assert_eq!(fault.is_some(), found, "{what}: {fault:?}");
        // One flight, none of the registers that reading changes. Which interrupts are active decides nothing here: PSP is not known.
        let is_of_control = |request: &&String| request.starts_with("me000");
        let first = asked.iter().position(|request| request.starts_with("me000")).unwrap();
        let reads: Vec<&String> = asked.iter().filter(is_of_control).collect();
        let flight = ["me000ed00,3c", "me000ede4,8", "me000ef34,c"];
        assert_eq!(reads, flight, "{what}");
        assert_eq!(asked[first..first + 3], flight, "{what}: {asked:?}");
    }
}

#[test]
fn the_last_events_cost_no_read_of_fault_registers() {
    let (address, asked) = Stub { exception: 3, control: Some(control(0x410F_C231)), ..Stub::default() }.start();
    let elf = fixture("cm3.elf").display().to_string();
    assert!(tx_trace(&["last", "5", "--elf", &elf, "--remote", &address]).status.success());
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().all(|request| !request.starts_with("me000")), "{asked:?}");
}
