//! A running `tx-trace serve`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::tools::{TIME_LIMIT, binary, fixture};

/// A server of its own port, which ends with the test.
pub struct Image {
    child: Child,
    pub port: u16,
    said: Arc<Mutex<String>>,
}

impl Image {
    /// Of fixtures and options.
    pub fn serve(words: &[&str]) -> Self {
        let mut child = command(words).arg("--listen").arg(":0").stdin(Stdio::null()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let port = loop {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "it ended: {}", said.lock().unwrap());
            said.lock().unwrap().push_str(&line);
            if let Some(port) = line.strip_prefix("(gdb) target remote :") {
                break port.trim().parse().unwrap();
            }
        };
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok(len @ 1..) = err.read(&mut buf) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&buf[..len]));
            }
        });
        Self { child, port, said }
    }

    /// What it said on stderr so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// True once it has said this: what it says takes its time to get here.
    pub fn says(&self, text: &str) -> bool {
        let deadline = Instant::now() + TIME_LIMIT;
        while !self.said().contains(text) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.said().contains(text)
    }

    /// The most memory that it ever had, in KiB.
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `tx-trace serve` on fixtures; other words are taken as they are.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("serve").current_dir(fixture("")).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The firmware that died of a HardFault: its program and GDB's core of it.
pub const CORE: [&str; 2] = ["cm3.elf", "cm3.core"];
/// The same, with its RAM alone.
pub const RAM: [&str; 2] = ["cm3.elf", "cm3.ram.bin@0x20000000"];
