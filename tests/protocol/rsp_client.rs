//! The client against stubs of every temper.

mod interrupted;

use crate::support::wait;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::fake_stub::{Handle, RAM, RAM_LEN, Stub, bytes_at, gdbserver, gdbstub, openocd, qemu};
use proptest::prelude::*;
use tx_trace::mem::remote::Remote;
use tx_trace::mem::{Memory, ReadErrorKind};
use tx_trace::rsp::client::ReadFailure;
use tx_trace::rsp::transport::{Transport, TransportError};
use tx_trace::rsp::{After, Before, Client, Endpoint, Leave, Options, RspError, RspErrorKind};

const QUICK: Duration = Duration::from_millis(700);

fn options() -> Options {
    Options { timeout: QUICK, ..Options::default() }
}

fn try_connect(stub: Stub, options: Options) -> (Handle, Result<Client, RspError>) {
    let handle = stub.start();
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{}", handle.port)).unwrap();
    let client = Client::connect(&endpoint, options);
    (handle, client)
}

fn connect(stub: Stub) -> (Handle, Client) {
    let (handle, client) = try_connect(stub, options());
    (handle, client.unwrap_or_else(|e| panic!("{e}")))
}

fn refused(stub: Stub) -> RspError {
    let began = Instant::now();
    let error = try_connect(stub, options()).1.err().expect("an error");
    assert!(began.elapsed() < QUICK * 3, "{error}: {:?}", began.elapsed());
    error
}

fn check(client: &mut Client, addr: u64, len: usize) {
    let mut buf = vec![0; len];
    client.read_memory(addr, &mut buf).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(buf == bytes_at(addr, len), "wrong bytes at {addr:#x}+{len:#x}");
}

// The stubs that exist.

#[test]
fn qemu_in_flights_acknowledged_ahead_and_within_its_limit() {
    let (stub, mut client) = connect(qemu(false));
    check(&mut client, RAM, 0x5003);
    assert!(!client.found_running());
    // Requests are smaller while it is not known how fast the link is.
    let fewest = 0x5003_u64.div_ceil(0x7f0);
    assert!((fewest..2 * fewest).contains(&client.stats().reads()), "{:?}", client.stats());
    assert_eq!(client.stats().memory_bytes, 0x5003);
    assert!(stub.log.lock().unwrap().together > 1);
    assert_eq!(client.stats().resyncs, 0);
    assert_eq!(&stub.requests()[..3], ["qSupported:hwbreak+", "?", "QStartNoAckMode"]);
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Halted, After::Halted, None));
    assert!(stub.closed());
    assert!(!stub.requests().contains(&"D".to_owned()));
}

#[test]
fn qemu_that_ran_is_recognized_by_its_unasked_stop_and_runs_on() {
    let (stub, mut client) = connect(qemu(true));
    check(&mut client, RAM + 5, 17);
    assert!(client.found_running());
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Running, After::Running, None));
    assert_eq!(stub.requests().last().unwrap(), "D");
}

#[test]
fn gdbserver_pipelined_with_run_lengths_and_never_above_its_limit() {
    let (stub, mut client) = connect(gdbserver());
    check(&mut client, RAM, RAM_LEN as usize);
    assert_eq!(client.stats().round_trips, 2, "the handshake, and one flight");
    let log = stub.log.lock().unwrap();
    assert!(!log.died);
    assert!(log.together > 1, "chunks in flight together");
    drop(log);
    assert_eq!(&stub.requests()[..3], ["qSupported:hwbreak+", "?", "QStartNoAckMode"]);
    assert_eq!(client.auxv().unwrap().unwrap(), (0..320_u32).map(|i| i as u8).collect::<Vec<_>>());
    assert_eq!(client.offsets().unwrap(), None);
    assert_eq!(client.leave().before, Before::Halted);
}

#[test]
fn openocd_gets_a_byte_first() {
    let (stub, mut client) = connect(openocd("S02"));
    assert_eq!(stub.log.lock().unwrap().first_byte, Some(b'+'));
    let mut hole = [1; 8];
    let failure = client.read_memory(0, &mut hole).unwrap_err();
    let why = "Failed to read memory at 0x0".to_owned();
    assert_eq!(failure, ReadFailure::Unreadable { addr: 0, why }, "OpenOCD answers a failed read with zeros");
}

/// OpenOCD was not identified yet, so zeros that nobody had checked were taken for memory: `list` found no trace in them, and
/// ended with 1 in place of 2.
#[test]
fn zeros_from_openocd_were_memory_where_the_link_broke_before_they_were_checked() {
    // The second flight breaks: the first has 64 chunks of 16 bytes, with a question between two of them.
    let supported = "PacketSize=28;qXfer:threads:read+;QStartNoAckMode+;vContSupported+";
    let (_, mut client) = connect(Stub { supported, closes_at: 3 + 128 + 8, ..openocd("S02") });
    let answers = client.read_batch(&[(0, 16 * 64), (RAM, 16 * 64)]);
    assert!(answers.iter().all(|answer| matches!(answer, Err(ReadFailure::Link(_)))), "{answers:?}");
}

/// OpenOCD says S00 of a core that was halted before OpenOCD came, and S02 of one that it halted for anybody.
#[test]
fn a_crashed_board_behind_openocd_was_set_running() {
    for stop in ["S00", "S02"] {
        let (stub, client) = connect(openocd(stop));
        let outcome = client.leave();
        assert_eq!((outcome.before, outcome.after), (Before::Unknown, After::Halted));
        let message = outcome.message.unwrap();
        assert!(message.contains("nothing shows whether it ran before") && message.contains("--leave running"));
        assert!(stub.closed() && !stub.requests().contains(&"D".to_owned()));
    }
}

#[test]
fn openocd_at_a_breakpoint_stays_there() {
    let (stub, client) = connect(openocd("S05"));
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after), (Before::Halted, After::Halted));
    assert!(stub.closed() && !stub.requests().contains(&"D".to_owned()));
}

#[test]
fn gdbstub_by_binary_reads() {
    let (stub, mut client) = connect(gdbstub());
    check(&mut client, RAM, 0x4321);
    assert!(stub.reads().iter().all(|r| r.starts_with('x')));
    assert_eq!(client.leave().before, Before::Unknown);
}

#[test]
fn binary_reads_that_are_offered_and_then_not_known_fall_back() {
    let (stub, mut client) = connect(Stub { binary: false, ..gdbstub() });
    check(&mut client, RAM, 0x4321);
    check(&mut client, RAM, 4);
    assert!(stub.reads().last().unwrap().starts_with('m'));
}

#[test]
fn a_stub_without_packet_size_is_asked_shyly() {
    let (stub, mut client) = connect(Stub { supported: "", dies_above: 199, ..Stub::default() });
    check(&mut client, RAM, 1000);
    assert!(!stub.log.lock().unwrap().died);
}

#[test]
fn a_stub_that_never_acknowledges() {
    for no_ack in [false, true] {
        let (_, mut client) =
            connect(Stub { mute_acks: true, no_ack, supported: "PacketSize=200;QStartNoAckMode+", ..Stub::default() });
        check(&mut client, RAM, 1000);
    }
}

// Memory.

#[test]
fn only_what_was_asked_for_is_read() {
    let (stub, mut client) = connect(gdbserver());
    let got = client.read_batch(&[(RAM + 3, 5), (RAM + 0x100, 0), (RAM + 0x1001, 0x30)]);
    assert_eq!(got[0].as_ref().unwrap(), &bytes_at(RAM + 3, 5));
    assert_eq!(got[1].as_ref().unwrap(), &Vec::<u8>::new());
    assert_eq!(got[2].as_ref().unwrap(), &bytes_at(RAM + 0x1001, 0x30));
    assert_eq!(stub.reads(), ["m20000003,5", "m20001001,30"]);
}

#[test]
fn a_hole_fails_its_own_range_and_no_other() {
    for stub in [qemu(false), gdbserver(), gdbstub()] {
        let (handle, mut client) = connect(stub);
        let end = RAM + RAM_LEN;
        let got = client.read_batch(&[(RAM, 0x900), (end - 0x1000, 0x8_0000), (RAM + 0x4000, 0x10), (0, 4)]);
        assert_eq!(got[0].as_ref().unwrap(), &bytes_at(RAM, 0x900));
        let Err(ReadFailure::Refused { addr, .. }) = &got[1] else { panic!("{:?}", got[1]) };
        assert!((end - 256..=end).contains(addr), "{addr:#x}");
        assert_eq!(got[2].as_ref().unwrap(), &bytes_at(RAM + 0x4000, 0x10));
        assert_eq!(got[3], Err(ReadFailure::Refused { addr: 0, reply: "E14".into() }));
        assert!(handle.reads().len() < 600, "the rest of a failed range is not asked for: {}", handle.reads().len());
        check(&mut client, RAM, 0x1000);
    }
}

#[test]
fn a_range_across_two_regions_is_read_in_pieces() {
    // The stub refuses what is longer than it likes with a code that does not say so.
    let (_, mut client) = connect(Stub { partial: 7, ..gdbserver() });
    check(&mut client, RAM, 300);
    let (_, mut client) = connect(Stub { partial: 1, ..qemu(false) });
    check(&mut client, RAM, 20);
}

#[test]
fn too_long_for_the_stub_is_halved() {
    for base in [qemu(false), gdbserver()] {
        let (_, mut client) = connect(Stub { e22_above: 0x180, ..base });
        check(&mut client, RAM + 1, 0x3000);
        assert!(client.max_chunk() <= 0x180);
    }
}

#[test]
fn past_the_end_of_the_address_space_nothing_is_asked() {
    let (stub, mut client) = connect(gdbserver());
    assert!(matches!(client.read_memory(u64::MAX - 3, &mut [0; 8]), Err(ReadFailure::Refused { .. })));
    assert!(stub.reads().is_empty());
    assert!(client.read_memory(u64::MAX - 3, &mut [0; 4]).is_err());
}

#[test]
fn remote_is_memory() {
    let (_, client) = connect(gdbserver());
    let mut memory = Remote::new(client);
    let mut word = [0; 4];
    memory.read(RAM + 8, &mut word).unwrap();
    assert_eq!(word.to_vec(), bytes_at(RAM + 8, 4));
    let got = memory.read_batch(&[(RAM, 16), (4, 4), (RAM, usize::MAX), (RAM + 64, 16)]);
    assert_eq!(got[0].as_ref().unwrap().as_slice(), bytes_at(RAM, 16));
    assert!(matches!(got[1].as_ref().unwrap_err().kind, ReadErrorKind::Unmapped));
    assert!(matches!(got[2].as_ref().unwrap_err().kind, ReadErrorKind::TooLong));
    assert_eq!(got[3].as_ref().unwrap().as_slice(), bytes_at(RAM + 64, 16));
    assert_eq!(memory.client_mut().stats().count("m"), 4);
    memory.into_client().leave();

    let (_, client) = connect(Stub { closes_at: 4, ..gdbserver() });
    let error = Remote::new(client).read(RAM, &mut word).unwrap_err();
    assert!(error.is_fatal() && error.to_string().contains("closed the connection"), "{error}");
}

// Stubs of bad temper.

#[test]
fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Client::connect(&Endpoint::parse(&format!(":{port}")).unwrap(), options()).err().unwrap();
    assert_eq!(error.code().name(), "connect-refused");
    assert!(error.to_string().contains(&format!("localhost:{port}")) && error.to_string().contains("stub"), "{error}");
}

#[test]
fn a_name_that_does_not_resolve() {
    let endpoint = Endpoint::parse("no-such-host.invalid:3333").unwrap();
    assert_eq!(Client::connect(&endpoint, options()).err().unwrap().code().name(), "host-unknown");
}

#[test]
fn a_side_door_is_not_this_protocol() {
    let endpoint = Endpoint::parse("openocd::6666").unwrap();
    assert_eq!(Client::connect(&endpoint, options()).err().unwrap().code().name(), "not-rsp");
}

#[test]
fn accepted_and_never_answered() {
    let error = refused(Stub { silent: true, ..Stub::default() });
    assert_eq!(error.code().name(), "no-answer");
    assert!(error.to_string().contains("another debugger"), "{error}");
}

#[test]
fn closes_at_once_or_midway() {
    let error = refused(Stub { closes_at: 1, mute_acks: true, ..Stub::default() });
    assert_eq!(error.code().name(), "link-closed");
    for base in [qemu(false), gdbserver()] {
        let (_, mut client) = connect(Stub { closes_at: 6, closes_midway: true, ..base });
        let Err(ReadFailure::Link(error)) = client.read_memory(RAM, &mut [0; 0x8000]) else { panic!("no error") };
        assert_eq!(error.code().name(), "link-closed");
        // Broken once, broken for good, and at once.
        let again = client.read_memory(RAM, &mut [0; 4]);
        assert_eq!(again, Err(ReadFailure::Link(error)));
        assert!(client.leave().message.unwrap().contains("whether the target is halted now is not known"));
    }
}

#[test]
fn never_stops_talking() {
    assert_eq!(refused(Stub { chatters_at: 1, ..Stub::default() }).code().name(), "chatter");
    for base in [qemu(false), gdbserver()] {
        let began = Instant::now();
        let (_, mut client) = connect(Stub { chatters_at: 4, ..base });
        let Err(ReadFailure::Link(error)) = client.read_memory(RAM, &mut [0; 64]) else { panic!("no error") };
        assert_eq!(error.code().name(), "chatter", "{error}");
        drop(client);
        assert!(began.elapsed() < QUICK * 6, "{:?}", began.elapsed());
    }
}

#[test]
fn a_packet_without_end() {
    assert_eq!(refused(Stub { endless_at: 1, ..Stub::default() }).code().name(), "endless-packet");
    let (_, mut client) = connect(Stub { endless_at: 4, ..gdbserver() });
    let Err(ReadFailure::Link(error)) = client.read_memory(RAM, &mut [0; 64]) else { panic!("no error") };
    assert_eq!(error.code().name(), "endless-packet", "{error}");
}

#[test]
fn not_a_stub_at_all() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"Open On-Chip Debugger\r\n> ").unwrap();
        // Until the client has gone.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = Client::connect(&Endpoint::parse(&format!(":{port}")).unwrap(), options()).err().unwrap();
    assert_eq!(error.code().name(), "not-a-stub", "{error}");
    assert!(error.to_string().contains("Open On-Chip"), "{error}");
}

#[test]
fn damaged_packets_come_again() {
    for base in [qemu(false), gdbserver(), gdbstub()] {
        let acks = !base.no_ack;
        let (stub, mut client) = connect(Stub { damages: &[1, 5, 6, 9], ..base });
        check(&mut client, RAM, 0xF000);
        // The handshake is acknowledged ahead: it is asked again, question by question.
        assert_eq!(stub.log.lock().unwrap().naks, if acks { 3 } else { 1 });
        // What comes while the link is brought into step is thrown away unseen.
        assert!((2..=4).contains(&client.stats().damaged));
    }
}

#[test]
fn damage_without_end_is_an_error() {
    assert_eq!(refused(Stub { damages_always: true, ..Stub::default() }).code().name(), "checksum");
}

#[test]
fn a_lost_end_of_a_packet_in_no_ack_mode_shifts_no_answer() {
    let (_, mut client) = connect(Stub { cuts: &[6], ..gdbserver() });
    check(&mut client, RAM, RAM_LEN as usize);
    assert!(client.stats().resyncs > 0);
}

#[test]
fn a_request_refused_as_damaged_is_sent_again() {
    let (_, mut client) = connect(Stub { naks: 4, ..qemu(false) });
    check(&mut client, RAM, 64);
    assert_eq!(client.stats().reads(), 2);
}

#[test]
fn notifications_console_and_stray_stops_in_between() {
    for base in [qemu(false), gdbserver(), gdbstub()] {
        let (_, mut client) = connect(Stub { notifications: true, console: true, stray_stops: true, ..base });
        for i in 0..20 {
            check(&mut client, RAM + i, 100 + i as usize);
        }
        check(&mut client, RAM, 0xF000);
        client.leave();
    }
}

#[test]
fn doubled_answers_are_taken_once() {
    for base in [qemu(false), gdbserver(), gdbstub(), openocd("S02")] {
        let (stub, mut client) = connect(Stub { doubles: true, ..base });
        for i in 0..50 {
            check(&mut client, RAM + 64 * i, 4);
        }
        check(&mut client, RAM, 0xF000);
        assert_eq!(client.max_chunk() % 16, 0);
        client.leave();
        assert!(stub.closed());
    }
}

#[test]
fn late_answers_are_not_taken_for_others() {
    for base in [qemu(false), gdbserver(), gdbstub()] {
        for late_at in [4, 6] {
            let late = Some((late_at, QUICK + Duration::from_millis(60)));
            // On a busy machine we may look so late ourselves that the answer is in time.
            let was_late = (0..5).any(|_| {
                let (_, mut client) = connect(Stub { late, ..base.clone() });
                check(&mut client, RAM, 4);
                check(&mut client, RAM + 0x40, 4);
                check(&mut client, RAM, 0x9000);
                client.stats().resyncs >= 1
            });
            assert!(was_late);
        }
    }
}

#[test]
fn swallowed_answers_are_asked_for_again() {
    for base in [qemu(false), gdbserver()] {
        let (_, mut client) = connect(Stub { swallows: 5, ..base });
        check(&mut client, RAM, 0x9000);
        assert!((1..50).contains(&client.stats().resyncs), "{:?}", client.stats());
    }
}

#[test]
fn stops_answering_for_good() {
    let (_, mut client) = connect(Stub { late: Some((4, Duration::from_secs(5))), ..gdbserver() });
    let began = Instant::now();
    let Err(ReadFailure::Link(error)) = client.read_memory(RAM, &mut [0; 4]) else { panic!("no error") };
    assert_eq!(error.code().name(), "stalled");
    assert!(error.to_string().contains("m20000000,4"), "{error}");
    assert!(began.elapsed() < QUICK * 2);
    drop(client);
    assert!(began.elapsed() < QUICK * 4);
}

#[test]
fn an_answer_that_is_none() {
    for (lie, base) in [("00112233445566", qemu(false)), ("zz", qemu(false)), ("001", gdbserver()), ("OK", gdbserver())]
    {
        let (_, mut client) = connect(Stub { lies: Some((4, lie)), ..base });
        check(&mut client, RAM, 4);
        check(&mut client, RAM, 4);
    }
}

#[test]
fn memory_reads_that_are_not_known() {
    let (_, mut client) = connect(Stub { no_memory: true, ..qemu(false) });
    let Err(ReadFailure::Link(error)) = client.read_memory(RAM, &mut [0; 4]) else { panic!("no error") };
    assert_eq!(error.code().name(), "unsupported");
}

#[test]
fn no_target_behind_the_stub() {
    let error = refused(Stub { stop: "W00", ..Stub::default() });
    assert_eq!(error.code().name(), "no-target");
}

#[test]
fn a_running_target_is_stopped_once_and_runs_on_after() {
    let (stub, mut client) = connect(Stub { runs: true, ..Stub::default() });
    assert!(client.found_running());
    check(&mut client, RAM, 64);
    assert_eq!(stub.log.lock().unwrap().interrupts, 1);
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after), (Before::Running, After::Running));
    assert_eq!(stub.requests().last().unwrap(), "D");
}

// Leaving.

#[test]
fn leave_halted_closes_and_leave_running_detaches() {
    for base in [qemu(true), qemu(false), gdbserver(), gdbstub(), openocd("S05")] {
        for leave in [Leave::Halted, Leave::Running] {
            let (stub, client) = try_connect(base.clone(), Options { leave, ..options() });
            let outcome = client.unwrap().leave();
            assert!(stub.closed());
            assert_eq!(stub.requests().contains(&"D".to_owned()), leave == Leave::Running);
            let (after, silent) = match leave {
                // What a close does to the target of a stub we do not know is the stub's business.
                Leave::Halted if base.binary => (After::Unknown, false),
                // This one shows the target halted whatever it is asked.
                Leave::Running if base.zeros_for_holes => (After::Halted, false),
                Leave::Running => (After::Running, true),
                _ => (After::Halted, true),
            };
            assert_eq!((outcome.after, outcome.message.is_none()), (after, silent), "{leave:?}: {:?}", outcome.message);
            assert!(!stub.requests().iter().any(|r| r.starts_with('k') || r.starts_with("vKill")));
        }
    }
}

#[test]
fn a_stub_that_cannot_detach() {
    for (detach, words) in [("", "does not know how to detach"), ("E22", "E22")] {
        let (_, client) = connect(Stub { detach, ..qemu(true) });
        let outcome = client.leave();
        assert_eq!(outcome.after, After::Unknown);
        let message = outcome.message.unwrap();
        assert!(message.contains(words) && message.contains("may stay halted"), "{message}");
    }
}

#[test]
fn after_detaching_nothing_is_said() {
    // A byte would halt QEMU again.
    let (stub, client) = connect(Stub { late: Some((4, QUICK * 2)), ..qemu(true) });
    let outcome = client.leave();
    assert_eq!(outcome.after, After::Unknown);
    assert!(outcome.message.unwrap().contains("did not confirm"));
    assert!(stub.closed());
    assert_eq!(stub.requests().last().unwrap(), "D");
}

#[test]
fn a_halted_target_is_not_let_go_when_the_stub_stalls() {
    let (stub, mut client) = connect(Stub { late: Some((4, QUICK * 8)), ..qemu(false) });
    assert!(client.read_memory(RAM, &mut [0; 4]).is_err());
    assert!(client.leave().message.is_some());
    assert!(stub.closed());
    assert!(!stub.requests().contains(&"D".to_owned()));
}

#[test]
fn a_newer_qemu_that_stood_was_set_running() {
    let monitor = &[("info status", "VM status: paused\r\n"), ("info version", "9.2.0\r\n")];
    let (stub, client) = connect(Stub { monitor, ..qemu(false) });
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after), (Before::Unknown, After::Halted));
    assert!(outcome.message.unwrap().contains("--leave running"));
    assert!(!stub.requests().contains(&"D".to_owned()));
}

/// No version up to 10 does; the question that only QEMU answers identifies it, and not what it leaves out.
#[test]
fn a_qemu_without_acknowledgements_was_taken_for_another_stub() {
    let supported = "PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+;QStartNoAckMode+";
    let (_, client) = connect(Stub { supported, no_ack: true, ..qemu(false) });
    let outcome = client.leave();
    assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Halted, After::Halted, None));
    // A stub with the same features that does not know the question is another one.
    let (_, client) = connect(Stub { supported, no_ack: true, qemu: false, ..qemu(false) });
    assert_eq!(client.leave().before, Before::Unknown);
}

/// Its second half was sent to the last address there is.
#[test]
fn a_write_past_the_end_of_the_address_space_was_sent() {
    let (stub, mut client) = connect(gdbserver());
    let error = client.write_memory(u64::MAX - 3, &[0; 8]).unwrap_err();
    assert!(matches!(error.kind, RspErrorKind::Refusal { .. }), "{error}");
    assert!(!stub.requests().iter().any(|request| request.starts_with('M')));
}

#[test]
fn dropped_on_an_error_path_it_still_leaves() {
    let (stub, client) = connect(qemu(true));
    drop(client);
    assert!(stub.closed());
    assert_eq!(stub.requests().last().unwrap(), "D");
}

#[test]
fn ctrl_c_ends_the_wait_and_the_target_runs_on() {
    let flag: &'static AtomicBool = Box::leak(Box::default());
    let slow =
        Options { timeout: Duration::from_secs(20), interrupt: Some(flag), leave: Leave::Running, max_halt: None };
    for base in [qemu(true), gdbserver()] {
        flag.store(false, Ordering::Relaxed);
        let (stub, client) = try_connect(Stub { late: Some((5, Duration::from_millis(900))), ..base }, slow);
        let mut client = client.unwrap();
        let log = stub.clone();
        let interrupted = std::thread::spawn(move || {
            wait::wait_for("the request that is answered late", || log.requests().len() >= 5);
            flag.store(true, Ordering::Relaxed);
            Instant::now()
        });
        let got = client.read_memory(RAM, &mut [0; 0xF000]);
        assert!(matches!(got, Err(ReadFailure::Link(RspError { kind: RspErrorKind::Interrupted, .. }))), "{got:?}");
        assert!(interrupted.join().unwrap().elapsed() < Duration::from_millis(600));
        drop(client);
        assert!(stub.closed());
        assert_eq!(stub.requests().last().unwrap(), "D");
    }
}
