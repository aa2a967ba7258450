//! Real debug servers in front of the simulated chip.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cortex_m::CortexM;
use super::machine::{Running, Scratch, free_port, wait_for};

/// The real OpenOCD. It ends when it is dropped.
pub struct OpenOcd {
    /// The address that it listens at.
    host: String,
    pub gdb_port: u16,
    pub tcl_port: u16,
    // In the order in which they go.
    child: Running,
    scratch: Scratch,
}

/// What its configuration says beside the chip's description.
#[derive(Clone, Copy, Default)]
pub struct Config<'a> {
    /// Tcl commands before the target is created.
    pub before: &'a str,
    /// Options of `target create`, as `-rtos ThreadX`.
    pub target: &'a str,
    /// Tcl commands after that, as an event of the target; `$_TARGETNAME` is its name.
    pub after: &'a str,
    /// Its Tcl port is the usual one, 6666, at an address of its own.
    pub usual_tcl_port: bool,
}

impl OpenOcd {
    pub fn start(chip: &CortexM, config: Config<'_>) -> Self {
        let (gdb_port, mut tcl_port) = (free_port(), free_port());
        let mut host = "127.0.0.1".to_owned();
        if config.usual_tcl_port {
            // Every address of 127.0.0.0/8 is this machine.
            (host, tcl_port) = (format!("127.1.{}.{}", gdb_port / 256, gdb_port % 256), 6666);
        }
        let scratch = Scratch::new(&format!("openocd-{gdb_port}"));
        let Config { before, target, after, .. } = config;
        let text = format!(
            "bindto {host}
adapter driver remote_bitbang
remote_bitbang host 127.0.0.1
remote_bitbang port {jtag_port}
transport select jtag
reset_config srst_only
gdb_port {gdb_port}
tcl_port {tcl_port}
telnet_port disabled
jtag newtap cm cpu -irlen 4 -expected-id 0x4ba00477
dap create cm.dap -chain-position cm.cpu
{before}
set _TARGETNAME cm.cpu
target create $_TARGETNAME cortex_m -dap cm.dap -ap-num 0 {target}
{after}
",
            jtag_port = chip.jtag_port(),
        );
        std::fs::write(scratch.path("openocd.cfg"), text).unwrap();
        let child = Self::run(&scratch, [gdb_port, tcl_port]);
        Self { host, gdb_port, tcl_port, child, scratch }
    }

    /// Runs it, and waits until it listens at both ports.
    fn run(scratch: &Scratch, [gdb_port, tcl_port]: [u16; 2]) -> Running {
        let log = scratch.path("openocd.log");
        let output = std::fs::File::create(&log).unwrap();
        let mut command = Command::new("openocd");
        command.arg("-f").arg(scratch.path("openocd.cfg")).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = Running(command.spawn().unwrap());
        let ready = [format!("port {gdb_port} for gdb"), format!("port {tcl_port} for tcl")];
        wait_for("OpenOCD's ports", || {
            let said = std::fs::read_to_string(&log).unwrap();
            assert!(child.0.try_wait().unwrap().is_none(), "OpenOCD has ended: {said}");
            ready.iter().all(|line| said.contains(line))
        });
        child
    }

    /// Kills it, and starts it anew with the same ports.
    pub fn restart(&mut self) {
        self.restart_after(|| {});
    }

    /// The same, with something that happens between the two.
    pub fn restart_after(&mut self, meanwhile: impl FnOnce()) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
        meanwhile();
        self.child = Self::run(&self.scratch, [self.gdb_port, self.tcl_port]);
    }

    /// The endpoint of its GDB port.
    pub fn gdb(&self) -> String {
        format!("{}:{}", self.host, self.gdb_port)
    }

    /// The endpoint of its Tcl port.
    pub fn openocd(&self) -> String {
        format!("openocd:{}:{}", self.host, self.tcl_port)
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path("openocd.log")).unwrap()
    }

    /// Its answer to a Tcl command.
    pub fn tcl(&self, command: &str) -> String {
        let mut stream = TcpStream::connect((self.host.as_str(), self.tcl_port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(format!("{command}\x1a").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 && byte != [0x1a] {
            answer.extend(byte);
        }
        String::from_utf8(answer).unwrap()
    }
}

/// The real pyOCD. It ends when it is dropped.
pub struct PyOcd {
    pub gdb_port: u16,
    log: PathBuf,
    _child: Running,
    _scratch: Scratch,
}

impl PyOcd {
    /// Its program, which `scripts/test` installs; says loudly that there is none.
    pub fn program() -> Option<PathBuf> {
        let program = std::env::var_os("TX_TRACE_TEST_PYOCD").map(PathBuf::from);
        if program.is_none() {
            println!("SKIPPED: TX_TRACE_TEST_PYOCD names no pyOCD");
            eprintln!("SKIPPED: TX_TRACE_TEST_PYOCD names no pyOCD");
        }
        program
    }

    /// `more` are options of `pyocd gdbserver`.
    pub fn start(program: &Path, chip: &CortexM, more: &[&str]) -> Self {
        let gdb_port = free_port();
        let scratch = Scratch::new(&format!("pyocd-{gdb_port}"));
        let log = scratch.path("pyocd.log");
        let output = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(program);
        command.args(["gdbserver", "--persist", "-t", "cortex_m", "-u"]);
        command.arg(format!("remote:127.0.0.1:{}", chip.remote_probe_port()));
        // A port for telnet that the system chooses; no configuration but this.
        command.args(["-p", &gdb_port.to_string(), "-T", "0", "--no-config"]).args(more);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = Running(command.spawn().unwrap());
        let ready = format!("port {gdb_port}");
        wait_for("pyOCD's port", || {
            let said = std::fs::read_to_string(&log).unwrap();
            assert!(child.0.try_wait().unwrap().is_none(), "pyOCD has ended: {said}");
            said.contains(&ready)
        });
        Self { gdb_port, log, _child: child, _scratch: scratch }
    }

    /// The endpoint of its GDB port.
    pub fn gdb(&self) -> String {
        format!("127.0.0.1:{}", self.gdb_port)
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}
