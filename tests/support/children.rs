//! Children of a test, and connections to those that are stubs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tx_trace::rsp::{Client, Endpoint, Leave, Options, RspError, RspErrorKind};

/// A child that does not outlive the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that says nothing.
pub fn quiet(command: &mut Command) -> Running {
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Connects once the program listens.
pub fn connect(port: u16, leave: Leave) -> Client {
    let endpoint = Endpoint::parse(&format!("127.0.0.1:{port}")).unwrap();
    let began = Instant::now();
    loop {
        match Client::connect(&endpoint, Options { leave, ..Options::default() }) {
            Ok(client) => return client,
            Err(RspError { kind: RspErrorKind::Refused, .. }) if began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}
