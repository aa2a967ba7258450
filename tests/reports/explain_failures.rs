//! `explain` over the failures that were planted in the fixture firmware (`tests/firmware/failures.c`, `resources.c`, `waits.c`, `uses.c`, `faults.c`): the cause is its first
//! finding, from a core, from the RAM, and from the trace alone where that shows it. Healthy runs have nothing above a hint.
#![cfg(all(unix, feature = "cli"))]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;

use super::support::machine::{Scratch, fixture, tx_trace};

/// RAM of the machine: its start and length.
pub const RAM: (usize, usize) = (0x2000_0000, 0x8000);

/// A row of `failures.tsv` or `resources.tsv`.
struct Way {
    name: String,
    code: String,
    names: Vec<String>,
    confidence: String,
    by_trace: String,
}

fn ways(program: &str) -> Vec<Way> {
    let text = std::fs::read_to_string(format!("tests/firmware/{program}.tsv")).unwrap();
    let row = |line: &str| {
        let [name, code, names, confidence, by_trace] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        Way {
            name: str::to_owned(name),
            code: str::to_owned(code),
            names: split(names),
            confidence: str::to_owned(confidence),
            by_trace: str::to_owned(by_trace),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

pub fn split(names: &str) -> Vec<String> {
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The names of the other build: `PICK("first", "other")`.
fn other(program: &str, name: &str) -> String {
    let source = std::fs::read_to_string(format!("tests/firmware/{program}.c")).unwrap();
    let of = |text: &str| text.split('"').nth(1).map(str::to_owned);
    source.split(&format!("PICK(\"{name}\",")).nth(1).and_then(of).unwrap_or_else(|| name.to_owned())
}

pub fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// What a core holds: its RAM as one image, and its registers as options.
pub fn parts(core: &Path) -> (Vec<u8>, Vec<String>) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(core).unwrap()).read_to_end(&mut bytes).unwrap();
    let (mut ram, mut registers) = (vec![0; RAM.1], Vec::new());
    let (headers, count) = (word(&bytes, 28), word(&bytes, 44) & 0xFFFF);
    for header in (0..count).map(|n| headers + 32 * n) {
        let (at, address, len) = (word(&bytes, header + 4), word(&bytes, header + 8), word(&bytes, header + 16));
        match word(&bytes, header) {
            1 if (RAM.0..RAM.0 + RAM.1).contains(&address) => {
                // A range of a core may end behind the RAM of the program.
                let (from, len) = (address - RAM.0, len.min(RAM.0 + RAM.1 - address));
                ram[from..from + len].copy_from_slice(&bytes[at..at + len]);
            }
            // The first note: NT_PRSTATUS, of the owner CORE.
            4 => {
                let first = at + 20 + 72;
                let names = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12"];
                let all = names.into_iter().chain(["sp", "lr", "pc", "xpsr"]).enumerate();
                registers = all.map(|(n, name)| format!("{name}={:#x}", word(&bytes, first + 4 * n))).collect();
            }
            _ => {}
        }
    }
    (ram, registers)
}

/// The rows of an answer.
fn rows(words: &[&str]) -> Vec<Value> {
    let out = tx_trace(&[&["explain", "--format", "json"], words].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of the answer for files that no test writes. Two tests ask for the same: it is made once.
pub fn rows_of_fixtures(words: &[&str]) -> Vec<Value> {
    static ANSWERS: Mutex<BTreeMap<Vec<String>, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let key: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let known = ANSWERS.lock().unwrap().get(&key).cloned();
    known.unwrap_or_else(|| {
        let rows = rows(words);
        ANSWERS.lock().unwrap().insert(key, rows.clone());
        rows
    })
}

fn findings(rows: Vec<Value>) -> Vec<Value> {
    rows.into_iter().filter(|row| row["type"] == "finding").collect()
}

/// The findings, the first first.
pub fn explain(words: &[&str]) -> Vec<Value> {
    findings(rows(words))
}

fn rank(confidence: &str) -> usize {
    ["hint", "likely", "proven"].iter().position(|name| *name == confidence).unwrap()
}

/// What is wrong with an answer; `least`: the least confidence.
fn wrong(way: &Way, names: &[String], least: &str, findings: &[Value]) -> Option<String> {
    let said = |finding: &Value| {
        format!("{} ({}): {}", finding["code"], finding["confidence"], finding["claim"].as_str().unwrap_or_default())
    };
    if way.code == "-" || least == "-" {
        return findings.iter().find(|finding| finding["confidence"] != "hint").map(said);
    }
    let Some(first) = findings.first() else { return Some("nothing".to_owned()) };
    let text = first.to_string();
    let missing: Vec<&String> = names.iter().filter(|name| !text.contains(name.as_str())).collect();
    let confidence = first["confidence"].as_str().unwrap();
    // The trace alone proves nothing; a hint is no more than a hint.
    let sure = rank(confidence) >= rank(least) && (least == "hint") == (confidence == "hint");
    (first["code"] != way.code.as_str() || !missing.is_empty() || !sure)
        .then(|| format!("{}, not said: {missing:?}", said(first)))
}

/// Each way of one build of a program, from everything that it can be known from.
fn failing(program: &str, is_other: bool) -> Vec<String> {
    let name_of = |name: &str| if is_other { other(program, name) } else { name.to_owned() };
    let prefix = format!("{}-{}", program.trim_end_matches('s'), if is_other { "other-" } else { "" });
    let scratch = Scratch::new(&prefix);
    let elf = fixture(&format!("{}.elf", prefix.trim_end_matches('-'))).display().to_string();
    let mut failing = Vec::new();
    for way in ways(program) {
        let core = fixture(&format!("{prefix}{}.core.gz", way.name));
        let (ram, registers) = parts(&core);
        let [image, trx] = ["ram.bin", "trx"].map(|kind| scratch.path(&format!("{}.{kind}", way.name)));
        std::fs::write(&image, ram).unwrap();
        let (core, trx) = (core.display().to_string(), trx.display().to_string());
        let image = format!("{}@{:#x}", image.display(), RAM.0);
        let with: Vec<&str> = registers.iter().flat_map(|pair| ["--reg", pair]).collect();
        let names: Vec<String> = way.names.iter().map(|name| name_of(name)).collect();
        // Of the other build, where it differs.
        let (first, second) = way.confidence.split_once('/').unwrap_or((&way.confidence, &way.confidence));
        let least = if is_other { second } else { first };
        let mut all = vec![
            ("core", findings(rows_of_fixtures(&[&elf, &core])), names.clone(), least),
            ("ram", explain(&[&elf, &image]), names.clone(), least),
            ("ram and registers", explain(&[&[elf.as_str(), &image], with.as_slice()].concat()), names.clone(), least),
        ];
        if way.by_trace != "-" {
            let out = tx_trace(&["dump", &elf, &core, "-o", &trx]);
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let by_trace = way.by_trace.trim_start_matches('?');
            let names = if by_trace == "=" { names } else { split(by_trace) };
            let least = match least {
                _ if way.by_trace != by_trace => "hint",
                "proven" => "likely",
                least => least,
            };
            all.push(("trace", explain(&[&trx]), names, least));
        }
        for (from, findings, names, least) in all {
            // Where the CPU is shows in its registers alone.
            if is_of_registers(&way) && from == "ram" {
                continue;
            }
            failing
                .extend(wrong(&way, &names, least, &findings).map(|why| format!("{prefix}{} {from}: {why}", way.name)));
        }
    }
    failing
}

/// True for a failure that shows in registers alone.
fn is_of_registers(way: &Way) -> bool {
    way.code == "reset"
        || [
            "queue_checked",
            "counts_checked",
            "check_failed",
            "list_circle",
            "left_masked",
            "callback_sleeps",
            "heap_shared",
            "counted_below",
            "page_local",
            "sent_twice",
        ]
        .contains(&way.name.as_str())
}

fn check(program: &str, is_other: bool) {
    let failing = failing(program, is_other);
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

#[test]
fn the_planted_failure_is_the_first_finding() {
    check("failures", false);
}

#[test]
fn another_build_with_other_names_gives_the_same_findings() {
    check("failures", true);
}

#[test]
fn the_planted_failure_of_memory_or_of_a_wait_is_the_first_finding() {
    check("resources", false);
}

#[test]
fn another_build_gives_the_same_findings_of_memory_and_waits() {
    check("resources", true);
}

#[test]
fn the_planted_failure_of_threads_that_wait_is_the_first_finding() {
    check("waits", false);
}

#[test]
fn another_build_gives_the_same_findings_of_threads_that_wait() {
    check("waits", true);
}

#[test]
fn the_planted_failure_that_only_code_explains_is_the_first_finding() {
    check("uses", false);
}

#[test]
fn another_build_gives_the_same_findings_by_its_code() {
    check("uses", true);
}

#[test]
fn the_planted_fault_is_the_first_finding() {
    check("faults", false);
}

/// It has no trace.
#[test]
fn another_build_without_a_trace_gives_the_same_findings_of_faults() {
    check("faults", true);
}

/// Nothing was found in the RAM of a program that had written down which check failed: where the CPU is only registers say.
#[test]
fn what_a_program_wrote_down_about_a_failed_check_was_not_read() {
    for (build, thread, place) in [("fault", "guard", "raise_alarm"), ("fault-other", "watch", "raise_alarm")] {
        let scratch = Scratch::new(build);
        let elf = fixture(&format!("{build}.elf")).display().to_string();
        let first = |way: &str| {
            let (ram, _) = parts(&fixture(&format!("{build}-{way}.core.gz")));
            let image = scratch.path("ram.bin");
            std::fs::write(&image, ram).unwrap();
            explain(&[&elf, &format!("{}@{:#x}", image.display(), RAM.0)]).into_iter().next()
        };
        let finding = first("queue_checked").expect("a finding");
        let claim = finding["claim"].as_str().unwrap();
        assert!(finding["code"] == "assert" && finding["confidence"] == "hint", "{finding}");
        let begin = format!("perhaps the program stopped itself in {place} (faults.c:");
        assert!(
            claim.starts_with(&begin) && claim.contains("calls assert_failed there, which does not return"),
            "{claim}"
        );
        assert!(claim.contains(thread) && claim.contains("failed says \"firmware/faults.c\", line "), "{claim}");
        let healthy = first("healthy");
        assert!(healthy.is_none_or(|finding| finding["code"] != "assert"));
    }
}

/// One waits for the end of its transfer, with the mutex in hand: nothing is wrong.
#[test]
fn a_transfer_with_a_lock_is_no_finding() {
    for (build, semaphore) in [("fault", "answered"), ("fault-other", "replied")] {
        let [elf, core] = [format!("{build}.elf"), format!("{build}-bus_locked.core.gz")]
            .map(|name| fixture(&name).display().to_string());
        let out = tx_trace(&["explain", "--all", &elf, &core]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains(&format!(" for semaphore {semaphore}")), "no thread waits for it: {text}");
        assert!(!text.contains("start something"), "{text}");
    }
}

/// A thread that waits for a time to pass with interrupts disabled: the code in front of the call has a path that restores them.
#[test]
fn interrupts_that_are_disabled_around_a_call_were_not_seen() {
    for (build, thread) in [("fault", "scale"), ("fault-other", "balance")] {
        let [elf, core] = [format!("{build}.elf"), format!("{build}-time_asked.core.gz")]
            .map(|name| fixture(&name).display().to_string());
        let all = explain(&[&elf, &core, "--reg", "icsr=0x4000000"]);
        let first = all.first().expect("a finding");
        assert_eq!((&first["code"], &first["confidence"]), (&"interrupts-masked".into(), &"hint".into()), "{first}");
        let text = first.to_string();
        assert!(text.contains(thread) && text.contains("read_scale") && text.contains("SysTick is pending"), "{text}");
        // Nothing waits that they would keep back.
        assert!(explain(&[&elf, &core, "--reg", "icsr=0"]).is_empty());
    }
}

/// On a RISC-V, too: the handler of traps stands for those of interrupts.
#[test]
fn the_code_of_a_riscv_explains_the_same_failures() {
    let elf = fixture("use-riscv.elf").display().to_string();
    let failing = |way: &Way| {
        let core = fixture(&format!("use-riscv-{}.core.gz", way.name)).display().to_string();
        let findings = explain(&[&elf, &core]);
        let is_helped = !format!("{findings:?}").contains("listener");
        let said = wrong(way, &way.names, &way.confidence, &findings);
        said.or_else(|| (!is_helped).then(|| "listener".to_owned())).map(|said| format!("{}: {said}", way.name))
    };
    // GDB stores no registers of a RISC-V. The handler of traps there may call the function that takes the semaphore.
    let is_known = |way: &&Way| !is_of_registers(way) && way.name != "holder_kept_off";
    let failing: Vec<String> = ways("uses").iter().filter(is_known).filter_map(failing).collect();
    assert!(failing.is_empty(), "{failing:#?}");
}

/// What somebody who goes on gives is no failure: the interrupt that puts `line` may come later. Of a thread that waits for a lock
/// the code says nothing where one of its users sleeps.
#[test]
fn who_can_be_helped_by_its_code_was_not_said_to_be_stuck() {
    let elf = fixture("use.elf").display().to_string();
    for way in ["healthy", "parked", "completed", "not_put", "not_released", "circle", "server_ends"] {
        let core = fixture(&format!("use-{way}.core.gz")).display().to_string();
        let findings = explain(&[&elf, &core]);
        assert!(!format!("{findings:?}").contains("listener"), "{way}: {findings:?}");
    }
}

/// The handler that the vectors of another program have for the number of an interrupt was named as its own.
#[test]
fn the_handler_of_another_build_was_named() {
    let core = fixture("failure-storm.core.gz").display().to_string();
    let claim = |elf: &str| {
        let first = explain(&[&fixture(elf).display().to_string(), &core]).into_iter().next().expect("a finding");
        assert_eq!(first["code"], "isr-storm", "{first}");
        first["claim"].as_str().unwrap().to_owned()
    };
    assert!(claim("failure.elf").contains("(IRQ 5"), "{}", claim("failure.elf"));
    let other = claim("wait.elf");
    assert!(other.starts_with("interrupt 21 comes again"), "{other}");
}

/// The parameter check refuses such a call, and it leaves no event; a kernel without the check inserts one.
#[test]
fn an_interrupt_that_asks_for_a_mutex_is_named() {
    const MUTEX_GET: usize = 52;
    let scratch = Scratch::new("wrong-context");
    let trx = scratch.path("healthy.trx");
    let [elf, core] = ["failure.elf", "failure-healthy.core.gz"].map(|name| fixture(name).display().to_string());
    let out = tx_trace(&["dump", &elf, &core, "-o", &trx.display().to_string()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut bytes = std::fs::read(&trx).unwrap();
    let first = bytes.len() - 256 * 32;
    let slot = (first..bytes.len()).step_by(32).rfind(|at| word(&bytes, at + 8) == MUTEX_GET).unwrap();
    bytes[slot..slot + 4].fill(0xFF);
    std::fs::write(&trx, bytes).unwrap();
    let findings = explain(&[&trx.display().to_string()]);
    let first = findings.first().expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"wrong-context".into(), &"likely".into()), "{first}");
    assert!(first["claim"].as_str().unwrap().contains("tx_mutex_get"), "{first}");
}
