//! A stream of events of which each has its own place, in QEMU; and what `follow` reported of it.

use super::*;
use crate::support::schema::Schema;

pub const STEP: u64 = 4096;
pub const MARK: u64 = 4097;

/// What a run of `follow` reported.
#[derive(Default, Debug)]
pub struct Reported {
    /// Places in the stream of the events that were shown.
    pub places: Vec<u64>,
    /// Gaps: the count that was reported, and whether more may be missing.
    pub gaps: Vec<(u64, bool)>,
    /// How much was missing at each of them.
    pub missing: Vec<u64>,
    pub restarts: usize,
}

/// Reads JSON lines, and holds each event against what it must be. Events that follow each other without a gap in the
/// output follow each other in the stream; where there is a gap, no less is missing than was reported.
pub fn check(output: &Output, marks: bool) -> Reported {
    let mut reported = Reported::default();
    let (mut gap, mut restarted): (Option<(u64, bool)>, bool) = (None, false);
    let mut seq = None;
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    Schema::new().check_all("follow", &text);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        match line["type"].as_str().unwrap() {
            "issue" if line["code"] == "events-lost" => {
                let message = line["message"].as_str().unwrap();
                let at_least = message.starts_with("at least");
                // Two looks in a row may find nothing but that more is lost.
                let (count, before) = gap.unwrap_or((0, false));
                gap = Some((count + line["count"].as_u64().unwrap(), before || at_least));
            }
            "issue" if line["code"] == "trace-restarted" => {
                reported.restarts += 1;
                restarted = true;
            }
            "event" => {
                let words: Vec<u64> =
                    line["words"].as_array().unwrap().iter().map(|w| hex(w.as_str().unwrap())).collect();
                let n = words[0];
                if !marks && line["id"] == MARK {
                    continue;
                }
                let place = match line["id"].as_u64().unwrap() {
                    STEP => {
                        let low = |v: u64| v & 0xFFFF_FFFF;
                        assert_eq!(words[1..], [low(!n), low(n * 2_654_435_761), 0x5354_524D], "torn: {line}");
                        if marks { n / 64 * 65 + n % 64 } else { n }
                    }
                    MARK => n * 65 + 64,
                    // What enabling the trace inserts.
                    _ => continue,
                };
                assert_eq!(line["context"]["name"], "streamer", "{line}");
                let number = line["seq"].as_u64().unwrap();
                if let Some(last) = reported.places.last().copied().filter(|_| !restarted) {
                    let missing = place.checked_sub(last + 1).unwrap_or_else(|| panic!("shown twice: {line}"));
                    match gap.take() {
                        None => {
                            assert_eq!(missing, 0, "not reported: {line}");
                            assert_eq!(Some(number), seq, "numbers go on: {line}");
                        }
                        Some((count, at_least)) => {
                            assert!(missing == count || at_least && missing > count, "{count} of {missing}: {line}");
                            reported.gaps.push((count, at_least));
                            reported.missing.push(missing);
                        }
                    }
                }
                (gap, restarted) = (None, false);
                seq = Some(number + 1);
                reported.places.push(place);
            }
            _ => {}
        }
    }
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "end", "{text}");
    reported
}

pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The code of the error line.
pub fn error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    line["code"].as_str().unwrap().to_owned()
}

/// QEMU with events without end in it, so many microseconds apart.
pub struct Stream {
    pub gdb: u16,
    pub qmp: String,
    /// A second monitor, for the test.
    pub monitor: std::path::PathBuf,
    pub child: Running,
    _scratch: Scratch,
}

impl Stream {
    pub fn start(period: u32) -> Option<Self> {
        if !installed("qemu-system-arm") {
            return None;
        }
        let gdb = free_port();
        let scratch = Scratch::new(&format!("stream-{gdb}"));
        let (qmp, monitor) = (scratch.path("qmp"), scratch.path("monitor"));
        let socket = |path: &std::path::Path| format!("unix:{},server=on,wait=off", path.display());
        let child = Command::new("qemu-system-arm")
            .args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none", "-kernel"])
            .arg(fixture("cm3-stream.elf"))
            .arg("-device")
            .arg(format!("loader,addr=0x20010000,data={period},data-len=4"))
            .args(["-qmp", &socket(&qmp), "-qmp", &socket(&monitor), "-gdb", &format!("tcp:127.0.0.1:{gdb}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let this =
            Self { gdb, qmp: format!("qmp:{}", qmp.display()), monitor, child: Running(child), _scratch: scratch };
        wait_for("the stream", || this.read(&["objects"]).status.success());
        Some(this)
    }

    pub fn read(&self, words: &[&str]) -> Output {
        let elf = fixture("cm3-stream.elf");
        tx_trace(&[words, &["--elf", elf.to_str().unwrap(), "--remote", &self.qmp]].concat())
    }

    /// Over the debugger's stub.
    pub fn debug(&self, words: &[&str]) -> Output {
        let (elf, remote) = (fixture("cm3-stream.elf"), format!("127.0.0.1:{}", self.gdb));
        tx_trace(&[words, &["--elf", elf.to_str().unwrap(), "--remote", &remote]].concat())
    }

    pub fn say(&self, command: &str) {
        self.ask(command);
    }

    /// The monitor's answer to a command.
    pub fn ask(&self, command: &str) -> String {
        let mut answer = String::new();
        let mut socket = UnixStream::connect(&self.monitor).unwrap();
        let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
        lines.next().unwrap().unwrap();
        for command in ["qmp_capabilities", command] {
            socket.write_all(format!("{{\"execute\": \"{command}\"}}\n").as_bytes()).unwrap();
            // Events may come before the answer.
            answer = lines.find_map(|l| l.ok().filter(|l| l.contains("\"return\""))).unwrap();
        }
        answer
    }
}
