//! Running GDB and its company, every wait bounded.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::programs;
pub use super::programs::free_port;

/// The longest that one run of a tool may take on a busy machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_tx-trace")
}

pub fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The Python file of this tree.
pub fn script() -> String {
    format!("{}/gdb/tx_trace.py", env!("CARGO_MANIFEST_DIR"))
}

/// True where all of them are there; says what is missing.
pub fn installed(programs: &[&str]) -> bool {
    programs.iter().all(|program| programs::installed(program))
}

/// True where the host's fixture runs.
pub fn runs_host_fixture() -> bool {
    let runs = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    if !runs {
        eprintln!("SKIPPED: the host's fixture is for Linux on x86-64");
    }
    runs
}

/// A directory of this test alone, removed at its end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tx-trace-gdb-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A copy of a fixture that can be run.
    pub fn executable(&self, name: &str) -> String {
        self.program(name, std::fs::read(fixture(name)).unwrap())
    }

    /// A file to be run.
    pub fn program(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        // By another process: a file that is open for writing in a fork of another test cannot be run.
        let draft = self.path(&format!("{name}.draft"));
        std::fs::write(&draft, bytes).unwrap();
        assert!(Command::new("cp").args([&draft, &path]).status().unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What a run left behind.
pub struct Done {
    pub out: String,
    pub err: String,
    pub status: Option<i32>,
    pub pid: u32,
}

impl Done {
    /// What was printed between `echo <name\n` and `echo name>\n`.
    pub fn part(&self, name: &str) -> &str {
        let (begin, end) = (format!("<{name}\n"), format!("{name}>\n"));
        let text = self.out.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {}\n{}", self.out, self.err)).1;
        text.split_once(&end).unwrap_or_else(|| panic!("no end of {name} in {}\n{}", self.out, self.err)).0
    }
}

/// Runs a command to its end, or fails.
pub fn run(command: &mut Command) -> Done {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = child.id();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let (out, err) = (read(Box::new(out)), read(Box::new(err)));
    match wait(&mut child) {
        Some(status) => Done { out: out.join().unwrap(), err: err.join().unwrap(), status: status.code(), pid },
        None => panic!("{command:?} did not end: {}\n{}", out.join().unwrap(), err.join().unwrap()),
    }
}

/// The same with files of a folder in place of pipes: what a command leaves behind it may keep a pipe open.
pub fn run_to_files(command: &mut Command, folder: &Path) -> Done {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let paths = ["out", "err"].map(|name| folder.join(format!("{run}.{name}")));
    let [out, err] = paths.each_ref().map(|path| File::create(path).unwrap());
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().expect("it starts");
    let (pid, status) = (child.id(), wait(&mut child));
    let [out, err] = paths.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    match status {
        Some(status) => Done { out, err, status: status.code(), pid },
        None => panic!("{command:?} did not end: {out}\n{err}"),
    }
}

/// Waits for the end of a command; `None` where it did not end in time and was killed.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A GDB without the user's files and without the network.
pub fn gdb(program: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-nx", "-q", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]);
    command.env("TX_TRACE_BIN", binary()).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF");
    command
}

/// A GDB that runs these commands on these files after the script was loaded.
pub fn batch(program: &str, files: &[&str], commands: &[&str]) -> Done {
    let mut command = gdb(program);
    command.args(["-batch", "-ex", &format!("source {}", script())]);
    for c in commands {
        command.args(["-ex", c]);
    }
    run(command.args(files))
}

/// tx-trace in the shell, uncoloured.
pub fn shell(words: &[&str]) -> Done {
    let mut command = Command::new(binary());
    command.env_remove("TX_TRACE_REMOTE").env_remove("TX_TRACE_ELF").env_remove("COLUMNS");
    run(command.args(words))
}

/// A server that ends with the test.
pub struct Server(pub Child);

impl Server {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A Cortex-M3 machine, stopped at its reset, that GDB connects to at this port.
pub fn qemu(elf: &str) -> (Server, u16) {
    let port = free_port();
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-S", "-gdb"]);
    (Server::start(command.arg(format!("tcp:127.0.0.1:{port}")).arg("-kernel").arg(elf)), port)
}

/// The line that connects GDB, which waits for a server that is still starting.
pub fn connect(port: u16) -> String {
    format!("target remote 127.0.0.1:{port}")
}

/// Processes whose parent is this one, zombies among them.
pub fn children(of: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(')') else { continue };
        if tail.split_whitespace().nth(1) == Some(of.to_string().as_str()) {
            found.push(head.to_owned());
        }
    }
    found
}

pub fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

/// A little-endian ELF with another name for one of its sections: the table of names is written anew behind the file.
pub fn with_section_name(elf: &str, old: &str, new: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(elf).unwrap();
    // Sizes and offsets of 64-bit files and of 32-bit ones.
    let [word, headers, counts, place] = if bytes[4] == 2 { [8, 0x28, 0x3a, 24] } else { [4, 0x20, 0x2e, 16] };
    let number = |bytes: &[u8], at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte))
    };
    let headers = number(&bytes, headers, word);
    let [size, count, names] = [0, 2, 4].map(|i| number(&bytes, counts + i, 2));
    let of_names = headers + names * size + place;
    let (offset, length) = (number(&bytes, of_names, word), number(&bytes, of_names + word, word));
    let mut table = bytes[offset..offset + length].to_vec();
    let old = table.windows(old.len() + 2).position(|w| w == format!("\0{old}\0").as_bytes()).unwrap() + 1;
    table.extend_from_slice(new.as_bytes());
    table.push(0);
    let put = |bytes: &mut [u8], at: usize, size: usize, value: usize| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    for section in (0..count).map(|i| headers + i * size) {
        if number(&bytes, section, 4) == old {
            put(&mut bytes, section, 4, length);
        }
    }
    let end = bytes.len();
    put(&mut bytes, of_names, word, end);
    put(&mut bytes, of_names + word, word, table.len());
    bytes.extend(table);
    bytes
}
