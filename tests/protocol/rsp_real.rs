//! The client against stubs of the real world: gdbserver and QEMU. Skipped, loudly, where they are not installed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::children::{Running, connect, quiet};
use crate::support::programs::{free_port, installed};
use crate::support::wait::wait_for;
use tx_trace::mem::Memory;
use tx_trace::mem::remote::Remote;
use tx_trace::rsp::{After, Before, Client, Endpoint, Leave, Options};

/// A program for a Cortex-M3 that counts in the first word of its RAM.
fn counter() -> PathBuf {
    let halfwords = [
        0x1000, 0x2000, // stack
        0x0009, 0x0000, // reset
        0x4802, // ldr r0, [pc, #8]
        0x2100, // movs r1, #0
        0x3101, // adds r1, #1
        0x6001, // str r1, [r0]
        0xE7FC, // b to the addition
        0xBF00, // nop
        0x0000, 0x2000_u16, // 0x20000000
    ];
    let image: Vec<u8> = halfwords.iter().flat_map(|h| h.to_le_bytes()).collect();
    let path = std::env::temp_dir().join(format!("tx-trace-counter-{}-{}.bin", std::process::id(), free_port()));
    std::fs::write(&path, image).unwrap();
    path
}

fn start_qemu(port: u16, image: &PathBuf, more: &[&str]) -> Running {
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-gdb"]);
    quiet(command.arg(format!("tcp:127.0.0.1:{port}")).arg("-kernel").arg(image).args(more))
}

fn count(client: &mut Client) -> u32 {
    let mut word = [0; 4];
    client.read_memory(0x2000_0000, &mut word).unwrap();
    u32::from_le_bytes(word)
}

/// The same of a program that runs, and runs on.
fn count_in_passing(port: u16) -> u32 {
    let mut client = connect(port, Leave::AsFound);
    assert!(client.found_running());
    let count = count(&mut client);
    assert_eq!(client.leave().after, After::Running);
    count
}

#[test]
fn qemu_that_ran_runs_on_and_qemu_that_stood_stays() {
    require!(installed("qemu-system-arm"));
    let (port, image) = (free_port(), counter());
    let _qemu = start_qemu(port, &image, &[]);
    // The first connection only waits for the program to get going.
    connect(port, Leave::Running).leave();

    let mut client = connect(port, Leave::AsFound);
    assert!(client.found_running());
    let first = count(&mut client);
    assert_eq!(count(&mut client), first, "it stands while we are there");
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Running, After::Running, None));

    wait_for("the program to run on", || count_in_passing(port) != first);
    let mut client = connect(port, Leave::Halted);
    let second = count(&mut client);
    assert_eq!(client.leave().after, After::Halted);

    for _ in 0..2 {
        let mut client = connect(port, Leave::AsFound);
        assert!(!client.found_running());
        assert_eq!(count(&mut client), second, "it stood");
        let outcome = client.leave();
        assert_eq!((outcome.before, outcome.after), (Before::Halted, After::Halted));
    }

    // An error path: the client is dropped.
    drop(connect(port, Leave::Running));
    wait_for("the program to run on", || count_in_passing(port) != second);
    std::fs::remove_file(image).unwrap();
}

#[test]
fn qemu_before_its_first_instruction_and_at_its_limits() {
    require!(installed("qemu-system-arm"));
    let (port, image) = (free_port(), counter());
    let _qemu = start_qemu(port, &image, &["-S"]);
    let mut memory = Remote::new(connect(port, Leave::AsFound));
    assert!(memory.client_mut().max_chunk() <= 0x800);
    let flash = memory.read_bytes(0, 24).unwrap();
    assert_eq!(flash.as_slice(), std::fs::read(&image).unwrap());
    assert_eq!(memory.read_bytes(0x2000_0000, 0x1_0000).unwrap().len(), 0x1_0000);
    let stats = memory.client_mut().stats().clone();
    // Pieces are smaller while the link seems slow.
    let fewest = 1 + 0x1_0000_u64.div_ceil(0x7f0);
    assert!((fewest..2 * fewest).contains(&stats.reads()), "{}", stats.reads());
    assert_eq!(memory.client_mut().auxv().unwrap(), None);
    assert_eq!(memory.client_mut().offsets().unwrap(), None);
    assert!(memory.client_mut().monitor("info status").unwrap().unwrap().contains("prelaunch"));
    assert!(!memory.read_bytes(0xF000_0000, 4).is_err_and(|e| e.is_fatal()));

    // A second client is accepted by the system and never answered.
    let second = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    let brief = Options { timeout: Duration::from_millis(300), ..Options::default() };
    assert_eq!(Client::connect(&second, brief).err().unwrap().code().name(), "no-answer");

    assert_eq!(memory.into_client().leave().before, Before::Halted);
    std::fs::remove_file(image).unwrap();
}

fn word(bytes: &[u8], i: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap())
}

/// Reads the ELF header that the kernel mapped: the program headers directly follow it.
fn elf_header(client: &mut Client) -> Vec<u8> {
    let auxv = client.auxv().unwrap().expect("gdbserver has an auxiliary vector");
    let at_phdr = (0..auxv.len() / 16).find(|i| word(&auxv, 2 * i) == 3).map(|i| word(&auxv, 2 * i + 1)).unwrap();
    let mut header = vec![0; 4096];
    client.read_memory(at_phdr - 64, &mut header).unwrap();
    header
}

#[test]
fn gdbserver_is_read_and_left_as_found() {
    require!(installed("gdbserver") && cfg!(target_pointer_width = "64") && cfg!(target_endian = "little"));
    let port = free_port();
    let mut server =
        quiet(Command::new("gdbserver").arg(format!("127.0.0.1:{port}")).args(["/bin/sh", "-c", "exec sleep 5"]));
    let on_disk = std::fs::read("/bin/sh").unwrap();
    for _ in 0..2 {
        let mut client = connect(port, Leave::AsFound);
        assert!(elf_header(&mut client) == on_disk[..4096]);
        assert!(client.read_memory(8, &mut [0; 0x4000]).is_err());
        assert!(client.max_chunk() <= 0x23ff);
        assert_eq!(client.stats().count("QStartNoAckMode"), 1);
        let outcome = client.leave();
        assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Halted, After::Halted, None));
        assert!(server.0.try_wait().unwrap().is_none(), "gdbserver waits for the next client");
    }
    let outcome = connect(port, Leave::Running).leave();
    assert_eq!(outcome.after, After::Running);
}

#[test]
fn gdbserver_on_a_pipe() {
    require!(installed("gdbserver") && cfg!(target_pointer_width = "64") && cfg!(target_endian = "little"));
    let endpoint = Endpoint::parse("|gdbserver - /bin/true 2>/dev/null").unwrap();
    let mut client = Client::connect(&endpoint, Options::default()).unwrap();
    assert_eq!(&elf_header(&mut client)[..4], b"\x7fELF");
    let stats = client.stats();
    assert!(stats.round_trips < stats.packets() + 1 && stats.bytes_in > 4096);
    client.leave();
}
