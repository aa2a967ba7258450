//! `info` on a live target reads a part of the ring, and says so: the target is halted while it is read.

#![cfg(feature = "cli")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::machine::{Scratch, fixture, tx_trace};

const BASE: u64 = 0x2000_1000;
const SLOTS: usize = 16_384;

/// A halted target with a full ring that has gone around.
fn buffer() -> Buffer {
    let mut buffer = Buffer::new(BASE);
    buffer.objects = vec![Registered::new(1, 0x2000_0100, "worker")];
    let event = |i: u64| Entry::thread(0x2000_0100, 5, 4096, i * 10, [i, 0, 0, 0]);
    buffer.record(SLOTS, &(0..SLOTS as u64 + 100).map(event).collect::<Vec<_>>())
}

/// A stub that has this memory, and how many bytes of it were read.
fn stub(memory: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    stub_of(vec![(BASE, memory)])
}

/// The same of several ranges; serves one client after the other.
fn stub_of(memory: Vec<(u64, Vec<u8>)>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, read) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&read);
    let bytes = move |request: &str| {
        let (at, len) = request.split_once(',')?;
        let (at, len) = (u64::from_str_radix(at, 16).ok()?, usize::from_str_radix(len, 16).ok()?);
        let found = memory.iter().find_map(|(base, bytes)| {
            let at = usize::try_from(at.checked_sub(*base)?).ok()?;
            bytes.get(at..at + len)
        })?;
        count.fetch_add(found.len(), Ordering::Relaxed);
        Some(found.iter().map(|b| format!("{b:02x}")).collect::<String>())
    };
    std::thread::spawn(move || {
        while let Ok((link, _)) = listener.accept() {
            serve(link, &bytes);
        }
    });
    (address, read)
}

fn serve(mut link: TcpStream, bytes: &dyn Fn(&str) -> Option<String>) {
    let (mut came, mut buf) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = link.read(&mut buf) {
        came.extend_from_slice(&buf[..n]);
        while let Some(end) = came.iter().position(|b| *b == b'#').filter(|end| came.len() >= end + 3) {
            let packet: Vec<u8> = came.drain(..end + 3).collect();
            let start = packet.iter().position(|b| *b == b'$').unwrap_or(0);
            let request = String::from_utf8_lossy(&packet[start + 1..packet.len() - 3]).into_owned();
            let answer = match request.as_str() {
                "?" => "T05".to_owned(),
                r if r.starts_with("qSupported") => "PacketSize=1000".to_owned(),
                r if r.starts_with('m') => bytes(&r[1..]).unwrap_or_else(|| "E14".to_owned()),
                _ => String::new(),
            };
            let sum = answer.bytes().fold(0u8, u8::wrapping_add);
            if link.write_all(format!("+${answer}#{sum:02x}").as_bytes()).is_err() {
                return;
            }
        }
    }
}

#[test]
fn info_read_the_whole_ring_while_the_target_stood() {
    let buffer = buffer();
    let (remote, read) = stub(buffer.bytes());
    let header = format!("{BASE:#x}");
    let words = ["info", "--remote", &remote, "--header", &header, "--leave", "halted", "--width", "400"];
    let out = tx_trace(&words);
    let (text, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{err}");
    assert!(text.contains("16384 of 16384 slots hold events (wrapped"), "{text}");
    assert!(text.contains("newest 256 events") && text.contains("`list` reads the others"), "{text}");
    assert!(text.contains("counts up"), "{text}");
    let read = read.load(Ordering::Relaxed);
    assert!(read < 400 * 32, "{read} bytes of {} were read", buffer.bytes().len());
}

#[test]
fn info_on_a_file_reads_all_of_it() {
    let scratch = Scratch::new("info-file");
    let path = scratch.path("ring.trx");
    std::fs::write(&path, buffer().bytes()).unwrap();
    let out = tx_trace(&["info", "--trace", path.to_str().unwrap(), "--width", "400"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("163830 ticks from the oldest to the newest") && !text.contains("newest 256"), "{text}");
}

/// The code of a 32-bit little-endian ELF: its address and bytes, by its first section of instructions.
fn code(elf: &[u8]) -> (u64, Vec<u8>) {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
    let (table, count) = (word(32), usize::from(u16::from_le_bytes(elf[48..50].try_into().unwrap())));
    let header = (0..count).map(|i| table + 40 * i).find(|at| word(at + 8) & 4 != 0).unwrap();
    (word(header + 12) as u64, elf[word(header + 16)..][..word(header + 20)].to_vec())
}

/// "The kernel has no threads", "the trace was not enabled": what the variables of another build's ELF hold in a live target
/// is no such fact, be it that all of its code differs, or half of it.
#[test]
fn a_live_target_under_another_builds_elf_had_no_threads_and_no_trace() {
    let elf = fixture("cm3-never.elf");
    let (at, own) = code(&std::fs::read(&elf).unwrap());
    let changed = |from: usize| {
        let mut code = own.clone();
        code[from..]
            .iter_mut()
            .enumerate()
            .for_each(|(i, byte)| *byte = byte.wrapping_mul(7).wrapping_add((i / 3) as u8));
        code
    };
    let run = |command: &str, code: Vec<u8>| {
        let (remote, _) = stub_of(vec![(at, code), (0x2000_0000, vec![0; 0x8000])]);
        let out = tx_trace(&[command, "--elf", elf.to_str().unwrap(), "--remote", &remote, "--leave", "halted"]);
        (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    for (command, wrong, what) in [
        ("threads", "the kernel has no threads", "where threads would be"),
        ("last", "was not enabled since the last start", "where a trace would be"),
        ("info", "was not enabled since the last start", "where a trace would be"),
    ] {
        let (status, said) = run(command, own.clone());
        assert!(status == 1 && said.contains(wrong) && !said.contains("another build"), "{command}: {status} {said}");
        for (from, changed_in_memory) in [(0, false), (own.len() / 2, true)] {
            let (status, said) = run(command, changed(from));
            assert!(status == 2 && said.contains("error: this ELF is of another build"), "{command}: {status} {said}");
            assert!(said.contains(what) && !said.contains(wrong), "{command}: {said}");
            assert!(said.contains("give the ELF of the program that ran"), "{command}: {said}");
            assert_eq!(said.contains("or some of its code was changed"), changed_in_memory, "{command}: {said}");
        }
    }
}
