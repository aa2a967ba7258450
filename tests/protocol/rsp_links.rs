//! The client over every kind of link: local socket, child, serial line (a pseudo terminal), stdin and stdout.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::fake_stub::{Handle, RAM, Stub, bytes_at, gdbserver, qemu};
use crate::support::wait::wait_for;
use tx_trace::rsp::transport::{self, TransportError};
use tx_trace::rsp::{After, Before, Client, Endpoint, Options, RspError};

const NO_TARGET: &[u8] = b"+$E.no target#f7";

fn copy(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static, close: Option<TcpStream>) {
    std::thread::spawn(move || {
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buf) {
            if to.write_all(&buf[..n]).is_err() || to.flush().is_err() {
                break;
            }
        }
        if let Some(stream) = close {
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
}

/// Joins a link's far end to a stub.
fn relay(stub: &Handle, reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) {
    let stream = TcpStream::connect(("127.0.0.1", stub.port)).unwrap();
    copy(reader, stream.try_clone().unwrap(), Some(stream.try_clone().unwrap()));
    copy(stream, writer, None);
}

fn use_it(endpoint: &str) -> Client {
    let mut client =
        Client::connect(&Endpoint::parse(endpoint).unwrap(), Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut buf = vec![0; 0x1234];
    client.read_memory(RAM + 1, &mut buf).unwrap();
    assert!(buf == bytes_at(RAM + 1, buf.len()));
    client
}

#[test]
fn a_local_socket() {
    let stub = gdbserver().start();
    let path = std::env::temp_dir().join(format!("tx-trace-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let port = stub.clone();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        relay(&port, stream.try_clone().unwrap(), stream);
    });
    use_it(&format!("unix:{}", path.display())).leave();
    assert!(stub.closed());
    std::fs::remove_file(&path).unwrap();
    let missing = Client::connect(&Endpoint::Unix(path), Options::default()).err().unwrap();
    assert_eq!(missing.code().name(), "cannot-open");
    assert!(missing.to_string().contains("no such file"), "{missing}");
}

#[test]
fn a_serial_line() {
    // SAFETY: plain calls on a descriptor that is checked; ptsname's buffer is copied before the next call, and no
    // other thread of this program calls it.
    let (host, path) = unsafe {
        let fd = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        assert!(fd >= 0 && libc::grantpt(fd) == 0 && libc::unlockpt(fd) == 0);
        let name = std::ffi::CStr::from_ptr(libc::ptsname(fd)).to_str().unwrap().to_owned();
        (File::from_raw_fd(fd), name)
    };
    let stub = Stub { supported: "PacketSize=400;QStartNoAckMode+", no_ack: true, ..Stub::default() }.start();
    // The relay lets its ends go when the first client has gone; the line is still to be there for the second.
    let _kept = host.try_clone().unwrap();
    relay(&stub, host.try_clone().unwrap(), host);
    let client = use_it(&format!("{path}@115200"));
    assert!(client.max_chunk() <= 0x1f0);
    client.leave();
    let odd = Client::connect(&Endpoint::parse(&format!("{path}@12345")).unwrap(), Options::default());
    assert!(odd.err().unwrap().to_string().contains("12345 is not a baud rate"));
}

#[test]
fn a_serial_line_that_is_none() {
    for (path, words) in [("/dev/null", "not a serial line"), ("/dev/no-such-tty", "no such file")] {
        let error = Client::connect(&Endpoint::parse(path).unwrap(), Options::default()).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_echo_is_no_answer() {
    let endpoint = Endpoint::parse("|cat").unwrap();
    let error = Client::connect(&endpoint, Options { timeout: Duration::from_millis(200), ..Options::default() });
    assert_eq!(error.err().unwrap().code().name(), "bad-reply");
}

/// A stub that answers its first packet with `first`, and each but the `unanswered`, counted from 0, with an error; what
/// the client says of it.
fn refused_by_a_stub_without_target(first: &'static [u8], unanswered: std::ops::Range<usize>) -> RspError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, mut buf, mut packets) = (listener.accept().unwrap().0, [0; 4096], 0);
        while let Ok(n @ 1..) = stream.read(&mut buf) {
            for _ in buf[..n].iter().filter(|&&byte| byte == b'#') {
                if !unanswered.contains(&packets) {
                    drop(stream.write_all(if packets == 0 { first } else { NO_TARGET }));
                }
                packets += 1;
            }
        }
    });
    let options = Options { timeout: Duration::from_millis(400), ..Options::default() };
    let error = Client::connect(&endpoint, options).err().unwrap();
    server.join().unwrap();
    error
}

/// "the target is halted, and will be left halted", and then "the target runs and did not stop within 2s".
#[test]
fn a_stub_that_refuses_to_say_why_the_target_is_halted_was_a_halted_target_or_one_that_runs() {
    // Each packet is answered; or the first three, which come together, with one answer, and then each.
    for (first, unanswered) in [(NO_TARGET, 0..0), (NO_TARGET, 1..3), (b"+$#00", 1..3)] {
        let error = refused_by_a_stub_without_target(first, unanswered);
        assert_eq!(error.code().name(), "error-reply", "{error}");
        assert!(error.to_string().contains("the stub refused `?` with E.no target"), "{error}");
    }
}

/// pyOCD leaves Nagle's algorithm on: each batch of answers took 42 ms, the time of a delayed acknowledgement.
#[cfg(target_os = "linux")]
#[test]
fn a_server_without_tcp_nodelay_took_42_ms_for_each_batch() {
    const BATCHES: u32 = 25;
    // The server sends its answer in three parts: with Nagle's algorithm the second waits for the first one's
    // acknowledgement.
    fn serve(mut stream: TcpStream) {
        let mut request = [0];
        while let Ok(1) = stream.read(&mut request) {
            (0..3).for_each(|_| stream.write_all(b"part").unwrap());
        }
    }
    fn ask(mut link: Box<dyn transport::Transport>) -> Duration {
        let began = Instant::now();
        for _ in 0..BATCHES {
            let deadline = Instant::now() + Duration::from_secs(10);
            link.send(b"?", deadline).unwrap();
            let mut count = 0;
            while count < 12 {
                count += link.receive(&mut [0; 64], deadline).unwrap();
            }
        }
        began.elapsed()
    }
    let most = Duration::from_millis(15) * BATCHES;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let endpoint = Endpoint::parse(&address.to_string()).unwrap();
    let took = ask(transport::open(&endpoint, Duration::from_secs(10)).unwrap());
    assert!(took < most, "{BATCHES} batches took {took:?}");
    server.join().unwrap();
    // The same where the other side connects to us.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = std::thread::spawn(move || serve(client));
    let took = ask(transport::accepted(listener.accept().unwrap().0).unwrap());
    assert!(took < most, "{BATCHES} batches took {took:?}");
    server.join().unwrap();
}

#[test]
fn a_child_that_ends_is_said_to() {
    let endpoint = Endpoint::parse("|exit 3").unwrap();
    let error = Client::connect(&endpoint, Options::default()).err().unwrap();
    assert_eq!(error.code().name(), "link-closed");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

#[test]
fn a_child_and_its_children_are_gone_after() {
    let mark = std::env::temp_dir().join(format!("tx-trace-child-{}", std::process::id()));
    let command = format!("|sleep 987 & echo $! > {}; wait", mark.display());
    let mut link = transport::open(&Endpoint::parse(&command).unwrap(), Duration::from_secs(1)).unwrap();
    let got = link.receive(&mut [0; 8], Instant::now() + Duration::from_millis(20));
    assert_eq!(got, Err(TransportError::Timeout));
    let pid = started(&mark);
    let began = Instant::now();
    drop(link);
    assert!(began.elapsed() < Duration::from_secs(2));
    wait_for("the child's child to end", || is_gone(pid.trim()));
}

/// What a command wrote into its file when it had started.
fn started(mark: &Path) -> String {
    let written = || std::fs::read_to_string(mark).ok().filter(|pids| pids.ends_with('\n'));
    wait_for("the command to start", || written().is_some());
    let pids = written().unwrap();
    std::fs::remove_file(mark).unwrap();
    pids
}

/// Ended, and perhaps not waited for by the parent that it was given.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
}

/// A command that ignored SIGTERM outlived us, and what it had started did.
#[test]
fn a_command_that_ignores_sigterm_is_killed() {
    let mark = std::env::temp_dir().join(format!("tx-trace-stubborn-{}", std::process::id()));
    // The group's leader ends or stays; what it has started ignores everything that can be ignored.
    for end in ["wait", "exit 0", "while :; do sleep 987; done"] {
        let command = format!("|trap '' TERM HUP INT PIPE; sleep 987 & echo $! $$ > {}; {end}", mark.display());
        let endpoint = Endpoint::parse(&command).unwrap();
        let mut link = transport::open(&endpoint, Duration::from_secs(1)).unwrap();
        let pids = started(&mark);
        let _ = link.receive(&mut [0; 16], Instant::now());
        let began = Instant::now();
        drop(link);
        assert!(began.elapsed() < Duration::from_secs(4), "{end}: it took {:?}", began.elapsed());
        wait_for("all of them to end", || pids.split_whitespace().all(is_gone));
    }
}

/// Runs as a child of the test below; as a test of its own it does nothing.
#[test]
fn stdio_child() {
    if std::env::var_os("TX_TRACE_TEST_STDIO").is_some() {
        let outcome = use_it("stdio:").leave();
        assert_eq!((outcome.before, outcome.after, outcome.message), (Before::Held, After::Held, None));
        std::process::exit(42);
    }
}

#[test]
fn our_own_stdin_and_stdout() {
    // What the test harness prints first is noise on the line, which the client has to live with.
    for base in [qemu(true), gdbserver()] {
        let stub = base.start();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "rsp_links::stdio_child", "--nocapture"])
            .env("TX_TRACE_TEST_STDIO", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        relay(&stub, child.stdout.take().unwrap(), child.stdin.take().unwrap());
        assert_eq!(child.wait().unwrap().code(), Some(42));
        assert_eq!(stub.requests().last().unwrap(), "D");
    }
}
