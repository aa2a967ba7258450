//! Clients that mean no good: each ends its own session alone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::image::{CORE, Image};
use super::protocol::framed;
use super::tools::TIME_LIMIT;

fn connect(image: &Image) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", image.port)).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// A client that behaves is served.
fn behaves(image: &mut Image, after: &str) {
    let mut stream = connect(image);
    stream.write_all(&framed(b"m20000000,4")).unwrap();
    let mut answer = [0; 13];
    stream.read_exact(&mut answer).unwrap_or_else(|e| panic!("after {after}: {e}\n{}", image.said()));
    assert_eq!(&answer[..2], b"+$", "after {after}");
    stream.write_all(&framed(b"D")).unwrap();
    assert!(image.is_alive(), "after {after}");
}

/// Says something and reads what comes until the end; who is disconnected is reset.
fn say(image: &Image, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(image);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    heard
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.next() % most).map(|_| (self.next() & 0xFF) as u8).collect()
    }
}

#[test]
fn nonsense_ends_its_own_session_alone() {
    let mut image = Image::serve(&CORE);
    let giant = [b"$".to_vec(), vec![b'm'; 4 << 20]].concat();
    let hex = "41".repeat(0x1FF0);
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("half a packet", b"$m2000".to_vec()),
        ("no checksum", b"$m20000000,4#".to_vec()),
        ("noise", vec![b'x'; 1 << 20]),
        ("a giant packet", giant),
        ("nacks for ever", [&framed(b"m20000000,4")[..], &vec![b'-'; 1 << 16]].concat()),
        ("a giant number", framed(format!("m{hex},{hex}").as_bytes())),
        ("a giant read", framed(b"m20000000,7fffffffffffffff").repeat(100)),
        ("a giant monitor line", framed(format!("qRcmd,{hex}").as_bytes())),
        ("a giant window", framed(b"qXfer:threads:read::0,ffffffffffffffff")),
        ("a window behind the end", framed(b"qXfer:threads:read::ffffffffffffffff,ffffffffffffffff")),
    ] {
        let heard = say(&image, &bytes);
        assert!(heard.len() < 4 << 20, "{name}: {} bytes", heard.len());
        behaves(&mut image, name);
    }
    assert!(!image.said().contains("panicked"), "{}", image.said());
    assert!(image.says("disconnected: a packet longer than PacketSize"), "{}", image.said());
}

/// The console had gdbstub's request to file an issue with gdbstub.
#[test]
fn the_console_says_which_packet_ended_a_session() {
    let mut image = Image::serve(&CORE);
    say(&image, &framed(b"m\x1b[2J"));
    assert!(image.says("disconnected: it sent a packet that is not valid: m\\x1b[2J"), "{}", image.said());
    behaves(&mut image, "a malformed packet");
    assert!(!image.said().contains("gdbstub"), "{}", image.said());
}

/// Packets that are framed well and mean anything at all.
#[test]
fn packets_of_any_content() {
    const HEADS: &[&str] = &[
        "m",
        "M",
        "X",
        "g",
        "G",
        "p",
        "P",
        "H",
        "Hg",
        "Hc",
        "T",
        "?",
        "c",
        "s",
        "C",
        "S",
        "vCont",
        "vCont;",
        "vCont;s:",
        "vCont;r",
        "vKill",
        "vFile:",
        "vRun",
        "vFlashErase:",
        "Z0,",
        "z1,",
        "Z2,",
        "qRcmd,",
        "qXfer:features:read:",
        "qXfer:threads:read:",
        "qXfer:memory-map:read::",
        "qSupported",
        "qSupported:",
        "qThreadExtraInfo,",
        "qThreadStopInfo",
        "qMemoryRegionInfo:",
        "jThreadsInfo",
        "qC",
        "qfThreadInfo",
        "qsThreadInfo",
        "qAttached",
        "qOffsets",
        "qSymbol::",
        "QStartNoAckMode",
        "bc",
        "bs",
        "D",
        "k",
        "R",
        "!",
        "QTDP:",
        "qTStatus",
        "x",
    ];
    const ARGUMENTS: &str = "0123456789abcdefp.-1,;:=#}*$\u{0}\u{7f}ffffffffffffffff";
    let mut image = Image::serve(&CORE);
    let mut random = Random(7);
    for round in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..20 {
            let head = HEADS[random.next() as usize % HEADS.len()];
            let tail: Vec<u8> = if random.next().is_multiple_of(4) {
                random.bytes(64)
            } else {
                (0..random.next() % 24)
                    .map(|_| ARGUMENTS.as_bytes()[random.next() as usize % ARGUMENTS.len()])
                    .collect()
            };
            // A body ends at its first '#'.
            let mut body = [head.as_bytes(), &tail].concat();
            body.retain(|b| *b != b'#');
            bytes.extend(framed(&body));
            bytes.push(b'+');
        }
        say(&image, &bytes);
        assert!(image.is_alive(), "round {round}");
    }
    behaves(&mut image, "any packets");
    assert!(!image.said().contains("panicked") && !image.said().contains("gdbstub"), "{}", image.said());
    assert!(image.peak() < 200 << 10, "{} KiB", image.peak());
}

#[test]
fn a_thousand_connects() {
    let mut image = Image::serve(&CORE);
    let before = image.peak();
    let mut held = Vec::new();
    for i in 0..1000 {
        let stream = TcpStream::connect_timeout(&([127, 0, 0, 1], image.port).into(), Duration::from_secs(1));
        // A full backlog turns some away.
        match stream {
            Ok(stream) if i % 10 == 0 => held.push(stream),
            _ => {}
        }
        if held.len() > 20 {
            held.clear();
        }
    }
    drop(held);
    behaves(&mut image, "a thousand connects");
    assert!(image.peak() < before + (64 << 10), "{before} KiB, then {} KiB", image.peak());
}

/// A client that connects and says nothing, or half a packet, does not keep others out for ever.
#[test]
fn who_says_nothing_is_let_go() {
    let mut image = Image::serve(&CORE);
    let mut silent = connect(&image);
    silent.write_all(b"+$m2000").unwrap();
    behaves(&mut image, "a silent client");
    assert!(image.says("half a packet"), "{}", image.said());
}
