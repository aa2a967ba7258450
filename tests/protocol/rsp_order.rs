//! Many small reads, one after the other, over a line that sends packets twice: each answer goes to its own request. On a
//! good line that costs nothing.
#![cfg(all(unix, feature = "cli"))]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::fake_stub::{RAM, Stub, byte_at, bytes_at, gdbserver, gdbstub, openocd, qemu};
use crate::support::faults::{Fault, GENTLE, Proxy, Script};
use crate::support::machine::{Qemu, fixture, gdbserver_at_the_end, installed};
use tx_trace::rsp::{Client, Endpoint, Leave, Options};
use tx_trace::session::{Inputs, RemoteInput, SourceSpec, Target};

const TIMEOUT: Duration = Duration::from_secs(2);

fn connect(port: u16) -> Option<Client> {
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    Client::connect(&endpoint, Options { timeout: TIMEOUT, ..Options::default() }).ok()
}

/// Addresses and lengths of words, shorts and bytes: often as long as the one before, sometimes the same again.
fn read(dice: &mut Dice) -> (u64, usize) {
    let len = [4, 4, 4, 8, 2, 1][dice.below(6)];
    (RAM + 4 * dice.below(64) as u64 + 0x40 * dice.below(8) as u64, len)
}

/// Reads until something fails; how many came right. None may be wrong.
fn reads(seed: u64, stub: Stub, faults: &[Fault]) -> usize {
    let handle = stub.start();
    let script = Script {
        seed,
        faults: faults.to_vec(),
        one_in: [2, 4, 8, 20][seed as usize % 4],
        timeout: TIMEOUT,
        trusting_stub: true,
    };
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, handle.port)), &script);
    let Some(mut client) = connect(proxy.address.port()) else { return 0 };
    let mut dice = Dice::of(seed);
    for done in 0..60 {
        let (addr, len) = read(&mut dice);
        let mut buf = vec![0; len];
        if client.read_memory(addr, &mut buf).is_err() {
            return done;
        }
        let log = proxy.log.lock().unwrap();
        assert_eq!(buf, bytes_at(addr, len), "seed {seed}, read {done} at {addr:#x}: {}", log.join("\n  "));
    }
    60
}

fn answers_that_come_twice_go_to_no_other_request(stub: fn() -> Stub) {
    for faults in [&[Fault::Double][..], &GENTLE] {
        let sessions: Vec<_> = (0..24).map(|seed| std::thread::spawn(move || reads(seed, stub(), faults))).collect();
        let right: usize = sessions.into_iter().map(|s| s.join().unwrap()).sum();
        println!("{faults:?}: {right} of {} reads", 24 * 60);
        assert!(right > 24 * 60 * 8 / 10, "{faults:?}: {right} reads");
    }
}

#[test]
fn answers_of_qemu_that_come_twice_go_to_no_other_request() {
    answers_that_come_twice_go_to_no_other_request(|| qemu(false));
}

#[test]
fn answers_of_gdbserver_that_come_twice_go_to_no_other_request() {
    answers_that_come_twice_go_to_no_other_request(gdbserver);
}

#[test]
fn answers_of_gdbstub_that_come_twice_go_to_no_other_request() {
    answers_that_come_twice_go_to_no_other_request(gdbstub);
}

/// QEMU was asked `qSupported` before every read that was as long as the one before.
#[test]
fn a_good_line_costs_one_packet_for_each_read() {
    for stub in [qemu(false), gdbserver(), openocd("S05")] {
        let handle = stub.start();
        let mut client = connect(handle.port).unwrap();
        let meeting = client.stats().packets();
        // Each differs from the one before.
        let addresses: Vec<u64> = (0..50).map(|i| RAM + 0x40 + 8 * i).collect();
        let distinct = addresses.windows(2).filter(|w| bytes_at(w[0], 4) != bytes_at(w[1], 4)).count();
        for addr in &addresses {
            let mut word = [0; 4];
            client.read_memory(*addr, &mut word).unwrap();
            assert_eq!(word[0], byte_at(*addr));
        }
        let repeats = (addresses.len() - 1 - distinct) as u64;
        assert!(client.stats().packets() - meeting <= 50 + repeats + 1, "{:?}", client.stats());
        assert_eq!((client.stats().count("qSupported"), client.stats().resyncs), (1, 0), "{:?}", client.stats());
        client.leave();
    }
}

/// A quarter of what `threads` asked QEMU was `qSupported` again; on gdbserver each read had a question behind it.
#[test]
fn threads_greets_a_stub_once() {
    let mut stubs = Vec::new();
    let (firmware, program) = (fixture("cm3.elf"), fixture("host.elf"));
    let qemu = installed("qemu-system-arm").then(|| Qemu::dead(&firmware));
    stubs.extend(qemu.as_ref().map(|q| (q.remote(), firmware)));
    let gdbserver = (installed("gdbserver") && cfg!(target_arch = "x86_64")).then(|| gdbserver_at_the_end(&program));
    stubs.extend(gdbserver.as_ref().map(|g| (g.remote(), program)));
    for (remote, elf) in stubs {
        let endpoint = Endpoint::parse(&remote).unwrap();
        let remote = RemoteInput { endpoint, timeout: TIMEOUT, leave: Leave::Halted, max_halt: None };
        let inputs = Inputs { elf: Some(elf), source: SourceSpec::Remote(remote), ..Inputs::default() };
        let mut session = Target::open(inputs).unwrap();
        let kernel = session.kernel(None).unwrap();
        assert!(kernel.threads.len() > 3);
        let client = session.disconnect().unwrap();
        let stats = client.stats();
        println!("{} threads: {stats:?}", kernel.threads.len());
        assert_eq!((stats.count("qSupported"), stats.resyncs), (1, 0), "{stats:?}");
        // Behind each flight, and between reads of one length in it: packets, and no round trips.
        assert!(stats.count("vMustReplyEmpty").saturating_mul(2) <= stats.reads(), "{stats:?}");
        assert!(stats.packets() <= stats.reads() + stats.count("vMustReplyEmpty") + 10, "{stats:?}");
        // From the handshake on; on QEMU there were 97, one for each pointer of the kernel's lists. In a fault handler, as on
        // QEMU, three more find the crash: of the handler's stack, and of code in front of return addresses.
        assert!(stats.round_trips <= 16, "{stats:?}");
        client.leave();
    }
}

/// As long as the memory that is read with them: what is taken for the other shows.
const REGISTERS: &str = "00112233xxxxxxxx8899aabb";

fn registers_and_memory(stub: Stub) -> (Option<Vec<Option<u8>>>, u64) {
    let handle = stub.start();
    let mut client = connect(handle.port).unwrap();
    client.want_registers();
    let before = client.stats().round_trips;
    let wanted = [(RAM + 0x80, 12), (RAM + 0x100, 12), (RAM + 0x300, 48)];
    for (read, (addr, len)) in client.read_batch(&wanted).into_iter().zip(wanted) {
        assert!(read.unwrap() == bytes_at(addr, len), "{addr:#x}");
    }
    let trips = client.stats().round_trips - before;
    (client.registers_seen(), trips)
}

/// `now:` named no function on a live target, because registers would have been a round trip of their own.
#[test]
fn registers_come_with_memory() {
    for base in [qemu(false), gdbserver(), openocd("S05")] {
        let stub = Stub { registers: REGISTERS, ..base };
        let (registers, trips) = registers_and_memory(stub.clone());
        let registers = registers.unwrap();
        assert_eq!((registers[1], registers[4], registers.len(), trips), (Some(0x11), None, 12, 1));
        let none = |stub: Stub| assert_eq!(registers_and_memory(stub).0, None);
        none(Stub { registers: "", ..stub.clone() });
        none(Stub { registers: "E01", ..stub.clone() });
        // Answers behind the handshake are lost, or are another's: memory is right, and what is no answer to `g` is none.
        for at in 4..10 {
            let seen = registers_and_memory(Stub { swallows: at, ..stub.clone() }).0;
            assert!(seen.is_none_or(|seen| seen == registers), "{at}");
            none(Stub { lies: Some((4, ["OK", "T05thread:01;", "l<target/>"][at % 3])), ..stub.clone() });
        }
        let damaged = Stub { damages: &[4, 6], cuts: &[5], ..stub.clone() };
        assert!(registers_and_memory(damaged).0.is_none_or(|seen| seen == registers));
    }
}
