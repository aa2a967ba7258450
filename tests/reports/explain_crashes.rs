//! `explain` over the crashes that were planted in the fixture firmware (`tests/firmware/crashes.c`): the cause is its first
//! finding, with function, line and thread, as far as the source shows them. A healthy target has nothing above a hint
//! wherever it is halted.
#![cfg(all(unix, feature = "cli"))]

use std::collections::HashMap;
use std::io::Read as _;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::support::children::quiet;
use super::support::dice::Dice;
use super::support::machine::{Scratch, fixture, free_port, installed, symbol, tx_trace, wait_for};

/// Each way to fail, and what names it: with the fault registers and PSP, and with the registers of a core alone.
const ALL: [(&str, &str); 14] = [
    ("wild_store", "bus-fault"),
    ("nested", "bus-fault"),
    ("in_isr", "isr-fault"),
    // Nothing could be pushed.
    ("overflow", "stack-overflow"),
    ("guard", "stack-overflow"),
    ("hollow", "bus-fault"),
    ("after_interrupt", "bus-fault"),
    ("divide", "usage-fault"),
    ("null_call", "null-call"),
    ("assert", "assert"),
    // The handler is a loop: the frame is the one that has the registers of the CPU.
    ("smashed", "bus-fault"),
    ("constant", "usage-fault"),
    // The number of this interrupt is a mode of other ARMs: it was taken for a CPSR.
    ("isr_null_call", "isr-fault"),
    // A frame has a hole where the stack ends, and the calls go on below it.
    ("recursion", "stack-overflow"),
];

fn truth(name: &str) -> HashMap<String, String> {
    let text = std::fs::read_to_string(fixture(&format!("crash-{name}.truth.tsv"))).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs.filter(|(_, value)| *value != "-").map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// `--reg NAME=VALUE` for what the firmware says of its registers.
fn registers(truth: &HashMap<String, String>, names: &[&str]) -> Vec<String> {
    let given = names.iter().filter_map(|name| {
        let value = truth.get(*name)?;
        Some(format!("{}={value}", name.strip_prefix("reg.").unwrap_or(name)))
    });
    given.flat_map(|pair| ["--reg".to_owned(), pair]).collect()
}

const OF_FAULT: [&str; 5] = ["psp", "cfsr", "hfsr", "bfar", "mmfar"];

fn explain(name: &str, kind: &str, elf: bool, more: &[String]) -> Vec<Value> {
    let elf = elf.then(|| fixture("crash.elf").display().to_string());
    let file = fixture(&format!("crash-{name}.{kind}.gz")).display().to_string();
    let words: Vec<String> = elf.into_iter().chain([file]).chain(more.iter().cloned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    findings(&[&["explain", "--format", "json"], words.as_slice()].concat())
}

fn findings(words: &[&str]) -> Vec<Value> {
    let out = tx_trace(words);
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    let rows: Vec<Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.into_iter().filter(|row| row["type"] == "finding").collect()
}

/// The claim has function, line and thread of the truth, or names no place.
fn assert_placed(name: &str, truth: &HashMap<String, String>, finding: &Value) {
    let text = finding["claim"].as_str().unwrap();
    for key in ["function", "thread"] {
        let is_of_isr = key == "thread" && matches!(name, "in_isr" | "isr_null_call");
        if let Some(value) = truth.get(key).filter(|_| !is_of_isr) {
            assert!(text.contains(value.as_str()), "{name}: no {value}: {finding}");
        }
    }
    if let Some(line) = truth.get("line") {
        assert!(finding.to_string().contains(&format!("(crashes.c:{line})")), "{name}: no line {line}: {finding}");
    }
}

#[test]
fn the_planted_crash_is_proven_where_the_registers_are_known() {
    for (name, code) in ALL {
        let truth = truth(name);
        let general: Vec<String> = truth.keys().filter(|key| key.starts_with("reg.")).cloned().collect();
        let general: Vec<&str> = general.iter().map(String::as_str).chain(OF_FAULT).collect();
        let of_core = explain(name, "core", true, &registers(&truth, &OF_FAULT));
        let of_ram = explain(name, "ram.bin", true, &registers(&truth, &general));
        for findings in [of_core, of_ram] {
            let first = findings.first().unwrap_or_else(|| panic!("{name}: nothing"));
            assert_eq!([&first["code"], &first["confidence"]], [code, "proven"], "{name}: {first}");
            if matches!(name, "null_call" | "isr_null_call") {
                assert!(first["claim"].as_str().unwrap().contains("called by call (crashes.c:"), "{first}");
                assert_eq!(first["claim"].as_str().unwrap().contains("thread victim"), name == "null_call", "{first}");
            } else if code == "stack-overflow" {
                // No frame was pushed: what looks like one is of an older exception.
                assert!(first["claim"].as_str().unwrap().contains("the stack of victim (1536 bytes)"), "{first}");
                assert!(!first.to_string().contains("filter (crashes.c:"), "{first}");
            } else {
                assert_placed(name, &truth, first);
            }
        }
    }
}

/// The handler of crashes.c has stored the fault registers in `crash_truth`.
#[test]
fn a_core_without_psp_and_fault_registers_names_the_crash_and_proves_less() {
    for (name, code) in ALL {
        let truth = truth(name);
        let findings = explain(name, "core", true, &[]);
        let first = findings.first().unwrap_or_else(|| panic!("{name}: nothing"));
        assert_eq!(first["code"], code, "{name}: {first}");
        let is_certain = name == "assert";
        assert_eq!(first["confidence"], if is_certain { "proven" } else { "likely" }, "{name}: {first}");
        let is_said = first["detractors"].to_string().contains("what the handler stored (crash_truth.cfsr)");
        assert!(is_said || !matches!(name, "overflow" | "wild_store"), "{name}: {first}");
        if !matches!(name, "null_call" | "isr_null_call" | "overflow" | "guard" | "recursion") {
            assert_placed(name, &truth, first);
        }
    }
}

/// A fetch of an instruction writes no address: the one that was read is that of the fault before.
#[test]
fn the_address_of_an_earlier_fault_was_that_of_the_last_one() {
    let given = |all: &[&str]| all.iter().flat_map(|one| ["--reg".to_owned(), (*one).to_owned()]).collect::<Vec<_>>();
    let both = explain("in_isr", "core", true, &given(&["cfsr=0x83", "mmfar=0x28", "hfsr=0x40000000"]));
    let text = both[0]["claim"].as_str().unwrap();
    let order = ["IACCVIOL", "; before it a data access that the MPU forbids (DACCVIOL), at address 0x28"]
        .map(|part| text.find(part));
    assert!(order[0].is_some() && order[0] < order[1], "{text}");
    let earlier = explain("divide", "core", true, &given(&["cfsr=0x2000082", "mmfar=0x28"]));
    assert!(!earlier[0].to_string().contains("0x28"), "of a MemManage fault that is over: {}", earlier[0]);
}

/// Whose handler stored the address of the frame, beside a fault register that says that the fault was escalated.
const RECORDED: [&str; 5] = ["wild_store", "nested", "hollow", "after_interrupt", "null_call"];

/// Without registers it is not known whether the CPU is in a fault, but by what its handler stored; without an ELF not where.
#[test]
fn ram_alone_and_a_core_without_its_elf_claim_what_can_be_known() {
    for (name, code) in ALL {
        let findings = explain(name, "ram.bin", true, &[]);
        let is_sure = |finding: &&Value| finding["confidence"] != "hint";
        let sure: Vec<&Value> = findings.iter().filter(is_sure).collect();
        // The lowest bytes of this stack show the overflow.
        let wanted: &[&str] = match name {
            "guard" | "recursion" => &["stack-overflow"],
            _ if RECORDED.contains(&name) => &[code],
            _ => &[],
        };
        assert_eq!(sure.iter().map(|f| f["code"].as_str().unwrap()).collect::<Vec<_>>(), wanted, "{name}");
        for finding in explain(name, "core", false, &[]).iter().filter(is_sure) {
            let code = finding["code"].as_str().unwrap();
            assert!(matches!(code, "fault" | "bus-fault" | "usage-fault" | "stack-overflow"), "{name}: {finding}");
        }
    }
}

/// What exceptions left on the stacks shows a fault where its instruction can only fail, or where no code is.
#[test]
fn a_fault_in_ram_alone_was_not_looked_for_in_frames_without_code_and_on_the_main_stack() {
    for (name, code) in ALL {
        // Nothing was pushed, or the instruction does not fail by itself.
        if matches!(name, "overflow" | "guard" | "recursion" | "assert") {
            continue;
        }
        let truth = truth(name);
        let findings = explain(name, "ram.bin", true, &[]);
        let first = findings.first().unwrap_or_else(|| panic!("{name}: nothing"));
        let is_recorded = RECORDED.contains(&name);
        let confidence = if is_recorded { "likely" } else { "hint" };
        assert_eq!([&first["code"], &first["confidence"]], [code, confidence], "{name}: {first}");
        let claim = first["claim"].as_str().unwrap();
        assert_eq!(claim.ends_with(", if the CPU is in a fault"), !is_recorded, "{first}");
        assert_eq!(claim.contains("thread victim"), code != "isr-fault", "{first}");
        let function = truth.get("function").or(truth.get("caller")).unwrap();
        assert!(first.to_string().contains(function.as_str()), "{name}: no {function}: {first}");
    }
}

/// A handler that saves what was pushed does so for a fault. On the stack of another thread these words may be anything.
#[test]
fn registers_that_a_handler_saved_make_a_fault_in_ram_alone_likely() {
    const RAM: usize = 0x2000_0000;
    let frame = truth("divide").get("frame").map(|at| usize::from_str_radix(&at[2..], 16).unwrap() - RAM).unwrap();
    let file = std::fs::File::open(fixture("crash-divide.ram.bin.gz")).unwrap();
    let mut ram = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut ram).unwrap();
    let neighbour = usize::try_from(symbol(&fixture("crash.elf"), "neighbour_stack")).unwrap() - RAM;
    for (to, confidence) in [(0x6000, "likely"), (neighbour + 64, "hint")] {
        let mut ram = ram.clone();
        ram.copy_within(frame..frame + 32, to);
        let scratch = Scratch::new("saved");
        let image = scratch.path("ram.bin");
        std::fs::write(&image, ram).unwrap();
        let elf = fixture("crash.elf").display().to_string();
        let image = format!("{}@{RAM:#x}", image.display());
        let found = findings(&["explain", "--format", "json", &elf, &image]);
        let first = found.first().unwrap();
        assert_eq!([&first["code"], &first["confidence"]], ["usage-fault", confidence], "{first}");
        assert_eq!(first.to_string().contains("a handler saved them"), confidence == "likely", "{first}");
    }
}

/// A handler that does not return has no use for lr. What it interrupted is on the main stack then, where no thread runs.
#[test]
fn a_fault_within_an_interrupt_of_the_idle_system_had_no_place_where_the_handler_had_used_lr() {
    const RAM: usize = 0x2000_0000;
    let truth = truth("in_isr");
    let number = |name: &str| usize::from_str_radix(&truth[name][2..], 16).unwrap();
    let mut ram = Vec::new();
    let file = std::fs::File::open(fixture("crash-in_isr.ram.bin.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_end(&mut ram).unwrap();
    let elf = fixture("crash.elf");
    let address = |name: &str| usize::try_from(symbol(&elf, name) & !1).unwrap();
    // In the first instruction of the handler of an interrupt, whose lr leads to the process stack.
    let words = [(20, 0xFFFF_FFFD), (24, address("UART_Handler")), (28, 0x0100_0015)];
    let words = words.map(|(at, word)| (number("frame") + at, word));
    for (at, word) in words.into_iter().chain([(address("_tx_thread_current_ptr"), 0)]) {
        ram[at - RAM..at - RAM + 4].copy_from_slice(&u32::try_from(word).unwrap().to_le_bytes());
    }
    let scratch = Scratch::new("idle-interrupt");
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let given = ["reg.pc", "reg.sp", "reg.xpsr", "psp", "cfsr", "hfsr", "bfar"];
    let registers = [registers(&truth, &given), vec!["--reg".to_owned(), "lr=0xe000e000".to_owned()]].concat();
    let registers: Vec<&str> = registers.iter().map(String::as_str).collect();
    let (elf, image) = (elf.display().to_string(), format!("{}@{RAM:#x}", image.display()));
    let found = findings(&[&["explain", "--format", "json", &elf, &image], registers.as_slice()].concat());
    let first = found.first().unwrap();
    assert_eq!([&first["code"], &first["confidence"]], ["isr-fault", "likely"], "{first}");
    assert!(first["claim"].as_str().unwrap().contains("HardFault in UART_Handler (port_cm3.c:"), "{first}");
}

/// `cfsr` is 0 after a breakpoint instruction, and was asked for although it was given.
#[test]
fn a_fault_register_that_is_known_was_asked_for() {
    let of = |more: &[&str]| {
        let more: Vec<String> = more.iter().flat_map(|one| ["--reg".to_owned(), (*one).to_owned()]).collect();
        explain("divide", "core", false, &more).remove(0).to_string()
    };
    let hard_fault = "xpsr=0x1000003";
    let (unknown, known) = (of(&[hard_fault]), of(&[hard_fault, "cfsr=0", "hfsr=0x40000000"]));
    assert!(unknown.contains("--reg cfsr=N --reg hfsr=N"), "{unknown}");
    assert!(!known.contains("cfsr=N") && !known.contains("hfsr=N") && known.contains("(cfsr is 0)"), "{known}");
}

/// One stop has no duration: a hint, with the variable.
#[test]
fn a_handler_of_nmi_that_waits_was_not_looked_at() {
    let findings = explain("nmi_waits", "core", true, &[]);
    let first = findings.first().unwrap();
    assert_eq!([&first["code"], &first["confidence"]], ["isr-never-ends", "hint"], "{first}");
    let claim = first["claim"].as_str().unwrap();
    let said = ["NMI", "nmi_waits (crashes.c:", "crash_truth.failure", "thread victim"];
    assert!(said.iter().all(|said| claim.contains(said)), "{claim}");
}

/// How often a healthy target is halted; `HALTS=500` for a longer run.
fn halts() -> usize {
    std::env::var("HALTS").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

#[test]
fn a_healthy_target_has_nothing_above_a_hint_wherever_it_is_halted() {
    require!(installed("qemu-system-arm"));
    for (elf, seed) in [("crash.elf", 16), ("failure.elf", 17)] {
        let port = free_port();
        let mut command = Command::new("qemu-system-arm");
        command.args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"]);
        command.args(["-device", "loader,addr=0x20010000,data=0,data-len=4", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        let _child = quiet(command.arg("-kernel").arg(fixture(elf)));
        let remote = format!("127.0.0.1:{port}");
        wait_for("QEMU", || std::net::TcpStream::connect(&remote).is_ok());
        let elf = fixture(elf).display().to_string();
        let words = ["--elf", &elf, "--remote", &remote, "--leave", "running"];
        wait_for("its threads", || tx_trace(&[&["threads"], words.as_slice()].concat()).status.success());
        let mut dice = Dice::of(seed);
        let mut hints: HashMap<String, usize> = HashMap::new();
        for halt in 0..halts() {
            std::thread::sleep(Duration::from_micros(dice.next() % 20_000));
            for finding in findings(&[&["explain", "--format", "json"], words.as_slice()].concat()) {
                assert_eq!(finding["confidence"], "hint", "{elf}, halt {halt}: {finding}");
                *hints.entry(finding["code"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        println!("{elf}: {} halts, hints {hints:?}", halts());
    }
}
