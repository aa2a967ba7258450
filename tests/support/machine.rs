//! Real targets for tests: QEMU with the fixture firmware, gdbserver with its native build; and the binary itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tx_trace::mem::Memory as _;
use tx_trace::mem::remote::Remote;
use tx_trace::rsp::Leave;

pub use super::children::{Running, connect, quiet};
pub use super::programs::{free_port, installed};
pub use super::wait::wait_for;

/// What a program wrote.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program wrote on stderr.
pub fn said(out: &Output) -> String {
    text(&out.stderr)
}

/// A committed fixture.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Runs the binary.
pub fn tx_trace(words: &[&str]) -> Output {
    command(words).stdin(Stdio::null()).output().unwrap()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tx-trace"));
    command.args(words).env_remove("TX_TRACE_ELF").env_remove("TX_TRACE_REMOTE").env_remove("COLUMNS");
    command
}

/// Runs the binary with bytes on its standard input.
pub fn tx_trace_with_input(words: &[&str], input: &[u8]) -> Output {
    let mut child = command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// A directory that goes away.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tx-trace-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// QEMU with the Cortex-M3 fixture in it.
pub struct Qemu {
    pub port: u16,
    _child: Running,
}

impl Qemu {
    /// The firmware has hit its fault, and spins there.
    pub fn dead(elf: &Path) -> Self {
        Self::dead_on("mps2-an385", elf)
    }

    /// The same on another board.
    pub fn dead_on(machine: &str, elf: &Path) -> Self {
        Self::dead_with(machine, elf, &[])
    }

    /// The same, with more options of QEMU.
    pub fn dead_with(machine: &str, elf: &Path, more: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new("qemu-system-arm");
        command.args(["-M", machine, "-display", "none", "-monitor", "none", "-serial", "none"]).args(more).arg("-gdb");
        let child = quiet(command.arg(format!("tcp:127.0.0.1:{port}")).arg("-kernel").arg(elf));
        // The firmware's last store.
        let magic = symbol(elf, "fw_fault");
        wait_for("the firmware's fault", || {
            let mut memory = Remote::new(connect(port, Leave::Running));
            let mut word = [0; 4];
            let read = memory.read(magic, &mut word).is_ok();
            memory.into_client().leave();
            read && u32::from_le_bytes(word) == 0x4441_4544
        });
        Self { port, _child: child }
    }

    pub fn remote(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Address of a symbol.
pub fn symbol(elf: &Path, name: &str) -> u64 {
    use tx_trace::sym::Symbols as _;
    let elf = tx_trace::elf::Elf::open(tx_trace::bytes::Bytes::from(std::fs::read(elf).unwrap())).unwrap();
    let symbols = tx_trace::sym::ElfSymbols::new(std::sync::Arc::new(elf), 0);
    symbols.lookup(name).unwrap_or_else(|| panic!("no symbol {name}")).address
}

/// gdbserver with the native fixture, attached where it waits at its end.
pub struct Gdbserver {
    pub port: u16,
    _server: Running,
    _process: Running,
    _scratch: Scratch,
}

impl Gdbserver {
    pub fn remote(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

pub fn gdbserver_at_the_end(elf: &Path) -> Gdbserver {
    // The fixture is data, and not executable.
    let scratch = Scratch::new(&format!("native-{}", free_port()));
    let program = scratch.path("host.elf");
    // Copied by another process: a program that another thread's child still holds open for writing cannot be run.
    assert!(Command::new("cp").arg(elf).arg(&program).status().unwrap().success());
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let process = quiet(Command::new(&program).arg("wait"));
    let pid = process.0.id();
    wait_for("the native firmware's end", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|s| s.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
    });
    let port = free_port();
    let server = quiet(Command::new("gdbserver").args(["--attach", &format!("127.0.0.1:{port}"), &pid.to_string()]));
    // gdbserver takes its first connection when it is ready.
    drop(connect(port, Leave::Halted));
    Gdbserver { port, _server: server, _process: process, _scratch: scratch }
}
