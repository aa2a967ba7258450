//! The protocol itself, on threads that the test makes up.

use std::io::Read;

use tx_trace::abi::Endian;
use tx_trace::bytes::Bytes;
use tx_trace::cpu::{Architecture, Registers};
use tx_trace::debugger::{MAX_THREADS, Stopped, Thread};
use tx_trace::mem::segments::{Block, Segments};
use tx_trace::serve::PostMortem;

fn memory() -> Segments {
    Segments::new(vec![Block::whole(0x2000_0000, Bytes::from((0..=255).collect::<Vec<u8>>()))])
}

pub fn framed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |a, b| a.wrapping_add(*b));
    [b"$", body, format!("#{sum:02x}").as_bytes()].concat()
}

/// The bodies of what was answered, run lengths and escapes undone.
fn bodies(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(start) = bytes.iter().position(|b| *b == b'$') {
        let rest = &bytes[start + 1..];
        let end = rest.iter().position(|b| *b == b'#').unwrap();
        let sum = rest[..end].iter().fold(0u8, |a, b| a.wrapping_add(*b));
        assert_eq!(format!("{sum:02x}").as_bytes(), &rest[end + 1..end + 3], "checksum");
        let (mut body, mut at) = (Vec::new(), 0);
        while at < end {
            match rest[at] {
                b'}' => {
                    body.push(rest[at + 1] ^ 0x20);
                    at += 2;
                }
                b'*' => {
                    let last = *body.last().unwrap();
                    body.extend(std::iter::repeat_n(last, usize::from(rest[at + 1]) - 29));
                    at += 2;
                }
                byte => {
                    body.push(byte);
                    at += 1;
                }
            }
        }
        found.push(String::from_utf8(body).unwrap());
        bytes = &rest[end + 3..];
    }
    found
}

/// Answers to these packets, in no-ack mode.
fn ask(architecture: Option<Architecture>, endian: Endian, threads: Vec<Thread>, packets: &[&str]) -> Vec<String> {
    let mut memory = memory();
    let mut image = PostMortem::new(&mut memory, Stopped { architecture, endian, threads });
    let mut input = framed(b"QStartNoAckMode");
    input.extend(packets.iter().flat_map(|p| framed(p.as_bytes())));
    input.extend(framed(b"D"));
    let mut output = Vec::new();
    image.serve_pipe(input.as_slice(), &mut output).unwrap();
    let mut answers = bodies(&output);
    assert_eq!((answers.remove(0), answers.pop().unwrap()), ("OK".into(), "OK".into()));
    assert_eq!(answers.len(), packets.len(), "{answers:?}");
    answers
}

fn two() -> Vec<Thread> {
    let mut known = Registers::new(Architecture::CortexM);
    for (name, value) in [("r4", 0x44), ("sp", 0x2000_0080), ("pc", 0x2000_0010), ("xpsr", 0x0100_0000)] {
        assert!(known.set(name, value));
    }
    vec![
        Thread { id: 0x2000_0010, name: "runs <&\"'>".into(), extra: "running".into(), ..Thread::default() },
        Thread {
            id: 0x2000_0020,
            name: "waits\x1b[31m".into(),
            extra: "on #$}*".into(),
            registers: Some(known),
            cpu: None,
        },
    ]
}

const M: Option<Architecture> = Some(Architecture::CortexM);

#[test]
fn threads_and_their_registers() {
    let answers = ask(
        M,
        Endian::Little,
        two(),
        &[
            "?",
            "qfThreadInfo",
            "qXfer:threads:read::0,1000",
            "g",
            "Hg20000010",
            "g",
            "Hg20000020",
            "p4",
            "p5",
            "pf",
            "T20000020",
            "T30",
            "qThreadStopInfo20000010",
        ],
    );
    // The running thread is first; its position is not known, so the other one is what GDB is shown.
    assert!(answers[0].starts_with("T05thread:20000020;"), "{}", answers[0]);
    assert_eq!(answers[1], "m20000010,20000020");
    let xml = &answers[2];
    assert!(xml.contains("<thread id=\"20000010\" name=\"runs &lt;&amp;&quot;&apos;&gt;\">running</thread>"), "{xml}");
    assert!(xml.contains(">on #$}*</thread>") && !xml.contains('\x1b'), "{xml}");
    let g = &answers[3];
    assert_eq!(g.len(), 17 * 8, "sixteen and the status: nothing knows of an FPU");
    assert_eq!((&g[..8], &g[32..40], &g[104..112], &g[120..128]), ("xxxxxxxx", "44000000", "80000020", "10000020"));
    assert_eq!((&*answers[4], &*answers[5]), ("OK", &*"x".repeat(17 * 8)));
    assert_eq!((&*answers[7], &*answers[8], &*answers[9]), ("44000000", "E01", "10000020"));
    assert_eq!((&*answers[10], &*answers[11]), ("OK", "E01"));
    assert!(answers[12].starts_with("T00thread:20000010;"), "{}", answers[12]);
}

#[test]
fn registers_in_the_targets_byte_order() {
    let mut registers = Registers::new(Architecture::Arm);
    registers.set("pc", 0x1234_5678);
    let thread = Thread { id: 7, registers: Some(registers), ..Thread::default() };
    let answers = ask(Some(Architecture::Arm), Endian::Big, vec![thread], &["Hg7", "g", "pf"]);
    assert_eq!((&answers[1][120..128], &*answers[2]), ("12345678", "12345678"));
}

#[test]
fn a_group_is_described_where_one_of_it_is_known() {
    let description = |name: &str| {
        let mut registers = Registers::new(Architecture::CortexM);
        registers.set(name, 1);
        let thread = Thread { id: 7, registers: Some(registers), ..Thread::default() };
        ask(M, Endian::Little, vec![thread], &["qXfer:features:read:target.xml:0,3fff"]).remove(0)
    };
    let [plain, floats, system, half] = ["pc", "d8", "msp", "psp"].map(description);
    assert!(plain.contains("<architecture>arm</architecture>") && plain.contains("arm.m-profile"), "{plain}");
    assert!(plain.contains("name=\"xpsr\" bitsize=\"32\" regnum=\"25\""), "{plain}");
    assert!(!plain.contains("arm.vfp") && !plain.contains("m-system"), "{plain}");
    assert!(floats.contains("arm.vfp") && floats.contains("\"d15\"") && !floats.contains("m-system"), "{floats}");
    assert!(system.contains("m-system") && system.contains("\"psp\"") && !system.contains("arm.vfp"), "{system}");
    // GDB unwinds no thread at all by these where msp is not available.
    assert!(!half.contains("m-system"), "{half}");
}

#[test]
fn every_description_is_whole() {
    for architecture in Architecture::ALL {
        let xml =
            ask(Some(architecture), Endian::Little, Vec::new(), &["qXfer:features:read:target.xml:0,3fff"]).remove(0);
        assert!(xml.ends_with("</feature>\n</target>\n"), "{architecture:?}: {xml}");
        assert_eq!(xml.matches("<feature ").count(), xml.matches("</feature>").count());
    }
}

#[test]
fn memory_and_what_is_refused() {
    let packets = [
        "m20000010,4",
        "m200000fe,4",
        "m0,4",
        "m20000000,ffffffffffffffff",
        "mffffffffffffffff,2",
        "M20000000,1:ff",
        "X20000000,1:a",
        "P4=00000000",
        "G00",
        "vKill;1",
        "vFile:open:2f,0,0",
        "vRun;",
        "vAttach;1",
        "R00",
        "!",
        "Hg-1",
        "qMemoryRegionInfo:20000010",
        "qMemoryRegionInfo:0",
        "m20000000,1",
    ];
    let answers = ask(M, Endian::Little, two(), &packets);
    let wanted = [
        "10111213",
        "E0e",
        "E0e",
        "E16",
        "E16",
        "E1e",
        "E1e",
        "E1e",
        "E1e",
        "",
        "",
        "",
        "",
        "",
        "",
        "E01",
        "start:20000000;size:100;permissions:rx;",
        "start:0;size:20000000;",
        "00",
    ];
    for ((packet, answer), wanted) in packets.iter().zip(&answers).zip(wanted) {
        assert_eq!(answer, wanted, "{packet}");
    }
}

#[test]
fn nothing_runs() {
    let mut memory = memory();
    let mut image = PostMortem::new(&mut memory, Stopped { architecture: M, endian: Endian::Little, threads: two() });
    let input = [&b"QStartNoAckMode"[..], b"Hg20000020", b"vCont;s:20000020;c", b"c", b"s", b"Z0,20000010,2", b"D"];
    let input: Vec<u8> = input.iter().flat_map(|p| framed(p)).collect();
    let mut output = Vec::new();
    image.serve_pipe(input.as_slice(), &mut output).unwrap();
    let answers = bodies(&output);
    let sentence: String =
        "error: this is a post-mortem image; it cannot run.\n".bytes().map(|b| format!("{b:02x}")).collect();
    let refused = [format!("O{sentence}"), "T00thread:20000020;".to_owned()];
    let wanted: Vec<&str> =
        ["OK", "OK"].into_iter().chain(refused.iter().map(|s| &**s).cycle().take(6)).chain(["OK", "OK"]).collect();
    assert_eq!(answers, wanted);
}

/// gdbstub ended the session over these, and serve's console said "This should never happen! Please file an issue".
#[test]
fn packets_that_should_never_happen_are_answered() {
    let sentence: String =
        "error: this is a post-mortem image; it cannot run.\n".bytes().map(|b| format!("{b:02x}")).collect();
    let sentence = format!("O{sentence}");
    for refused in [
        "T0",
        "T-1",
        "Tp1.-1",
        "T",
        "Tzz",
        "T99",
        "Hg-1",
        "Hgp1.-1",
        "Hgp1",
        "Hgzz",
        "Hg",
        "H",
        "Hx1",
        "Hczz",
        "vCont;t",
        "vCont;t:20000010",
        "vCont;r20000000,20000004:20000010",
        "vCont;",
        "vCont;zz",
        "vCont;czz",
        "vCont;s:zz",
        "vCont;c;",
        "Czz",
        "Szz",
        "czz",
        "szz",
    ] {
        let answers = ask(M, Endian::Little, two(), &[refused, "m20000001,1"]);
        assert_eq!(answers, ["E01", "01"], "{refused}");
    }
    for reported in ["T20000020", "Tp1.20000020", "Hgp1.20000020", "Hc-1", "Hc0", "Hcp-1.-1", "Hc20000020"] {
        assert_eq!(ask(M, Endian::Little, two(), &[reported, "m20000001,1"]), ["OK", "01"], "{reported}");
    }
    let reported = |packets: &[&str]| {
        let mut memory = memory();
        let input: Vec<u8> =
            [&["QStartNoAckMode"], packets, &["D"]].concat().iter().flat_map(|p| framed(p.as_bytes())).collect();
        let mut output = Vec::new();
        let mut image =
            PostMortem::new(&mut memory, Stopped { architecture: M, endian: Endian::Little, threads: two() });
        image.serve_pipe(input.as_slice(), &mut output).unwrap();
        bodies(&output)
    };
    let stopped = ["OK", "OK", "OK", &sentence, "T00thread:20000020;", "01", "OK"];
    // Steps of all threads, and of none that is named, are steps of the one that is chosen.
    for step in
        ["vCont;s", "vCont;s:-1", "vCont;s:0", "vCont;S05", "vCont;s:p1.20000020;s", "vCont;c:20000010;s:20000020", "s"]
    {
        assert_eq!(reported(&["Hg20000020", "Hc-1", step, "m20000001,1"]), stopped, "{step}");
    }
    for resumed in ["c", "C05", "c20000000", "S05;20000000", "s"] {
        assert_eq!(reported(&["Hc0", "Hc20000020", resumed, "m20000001,1"]), stopped, "{resumed}");
    }
}

#[test]
fn monitor_lines_reach_who_answers_them() {
    let mut memory = memory();
    let mut heard = Vec::new();
    {
        let answer = |line: &str, memory: &mut dyn tx_trace::mem::Memory, out: &mut dyn std::io::Write| {
            let mut byte = [0];
            memory.read(0x2000_0007, &mut byte).unwrap();
            writeln!(out, "{line}:{}:{}", byte[0], "x".repeat(5000)).unwrap();
        };
        let mut image =
            PostMortem::new(&mut memory, Stopped { architecture: M, endian: Endian::Little, threads: two() })
                .answering(Box::new(answer));
        let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
        let lines = ["tx-trace  last 5", "tx-trace", "help", "xyz\x1b[m"];
        let mut input = framed(b"QStartNoAckMode");
        for line in lines {
            input.extend(framed(format!("qRcmd,{}", hex(line)).as_bytes()));
        }
        image.serve_pipe(input.as_slice().chain(&framed(b"D")[..]), &mut heard).unwrap();
    }
    let mut console = Vec::new();
    for body in bodies(&heard) {
        let Some(hex) = body.strip_prefix('O').filter(|h| *h != "K") else { continue };
        assert!(hex.len() <= 4096, "one packet holds little");
        console
            .extend(hex.as_bytes().chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()));
    }
    let console = String::from_utf8(console).unwrap();
    assert!(console.starts_with("last 5:7:xxx") && console.contains("\n:7:xxx"), "{console}");
    assert!(console.contains("monitor tx-trace COMMAND") && console.contains("no monitor command"), "{console}");
    assert!(!console.contains('\x1b'));
}

#[test]
fn threads_are_bounded_and_have_numbers_of_their_own() {
    let many: Vec<Thread> = (0..MAX_THREADS as u64 + 50)
        .map(|i| Thread { id: i / 2, name: "n".repeat(10_000), ..Thread::default() })
        .collect();
    let list = ask(M, Endian::Little, many, &["qfThreadInfo"]).remove(0);
    let mut ids: Vec<&str> = list[1..].split(',').collect();
    assert_eq!(ids.len(), MAX_THREADS);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), MAX_THREADS);
}

/// A debugger without acknowledgements switched off.
#[test]
fn acknowledged_and_sent_again() {
    let mut memory = memory();
    let mut image = PostMortem::new(&mut memory, Stopped { architecture: M, endian: Endian::Little, threads: two() });
    let mut input = b"+$m20000001,1#00".to_vec(); // a wrong checksum
    input.extend(framed(b"m20000001,1"));
    input.extend(b"-+");
    input.extend(framed(b"qfThreadInfo"));
    input.extend(b"-+");
    input.extend(framed(b"D"));
    let mut output = Vec::new();
    image.serve_pipe(input.as_slice(), &mut output).unwrap();
    assert!(output.starts_with(b"-+$01#61$01#61+"), "{}", String::from_utf8_lossy(&output));
    let list = "m20000010,20000020";
    assert_eq!(bodies(&output), ["01", "01", list, list, "OK"]);
}
