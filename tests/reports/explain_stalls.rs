//! `explain` over CPUs that do not go on, and interrupts that do not come (`tests/firmware/stalls.c`): what is planted is the first
//! finding of an evidence core. What only looks like it has nothing above a hint.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::{RAM, explain, parts, split};
use super::support::machine::{Scratch, fixture, symbol, tx_trace};

/// A row of `stalls.tsv`: name, code, what must be said, confidence.
fn ways() -> Vec<[String; 4]> {
    let text = std::fs::read_to_string("tests/firmware/stalls.tsv").unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap()).collect()
}

/// The names of the other build: `PICK("first", "other")`.
fn other(said: &str) -> String {
    let source = std::fs::read_to_string("tests/firmware/stalls.c").unwrap();
    let words = said.split(' ').map(|word| {
        let rest = source.split(&format!("PICK(\"{word}\",")).nth(1);
        rest.and_then(|rest| rest.split('"').nth(1)).unwrap_or(word).to_owned()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn wrong(
    [name, code, said, confidence]: &[String; 4],
    findings: &[Value],
    name_of: &dyn Fn(&str) -> String,
) -> Option<String> {
    if code == "-" {
        let never = split(said);
        let is_wrong = |finding: &&Value| {
            finding["confidence"] != "hint" || never.iter().any(|code| finding["code"] == code.as_str())
        };
        let sure = findings.iter().find(is_wrong);
        return sure.map(|finding| format!("{name}: {finding}"));
    }
    let Some(first) = findings.first() else { return Some(format!("{name}: nothing")) };
    let text = first.to_string();
    let missing: Vec<String> =
        split(said).iter().map(|said| name_of(said)).filter(|said| !text.contains(said)).collect();
    let fits = first["code"] == code.as_str() && first["confidence"] == confidence.as_str() && missing.is_empty();
    (!fits).then(|| format!("{name}: not said: {missing:?}: {first}"))
}

fn failing(prefix: &str, elf: &str, name_of: &dyn Fn(&str) -> String) -> Vec<String> {
    let elf = fixture(elf).display().to_string();
    let of = |way: &[String; 4]| {
        let core = fixture(&format!("{prefix}{}.core.gz", way[0])).display().to_string();
        wrong(way, &explain(&[&elf, &core]), name_of)
    };
    ways().iter().filter_map(of).collect()
}

#[test]
fn what_keeps_the_cpu_or_its_interrupts_is_the_first_finding() {
    let failing = failing("stall-", "stall.elf", &str::to_owned);
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

#[test]
fn another_build_stalls_with_the_same_findings() {
    let failing = failing("stall-other-", "stall-other.elf", &other);
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

/// Without registers that disable interrupts, a tick that is pending in a thread shows that they are.
#[test]
fn a_tick_that_waits_in_a_thread_is_a_hint() {
    let elf = fixture("stall.elf").display().to_string();
    let core = fixture("stall-quiet.core.gz").display().to_string();
    let registers = ["--reg", "primask=1", "--reg", "icsr=0x04000000"];
    let findings = explain(&[&[elf.as_str(), &core], registers.as_slice()].concat());
    let first = findings.first().unwrap();
    assert_eq!((&first["code"], &first["confidence"]), (&"interrupts-masked".into(), &"hint".into()), "{first}");
    assert!(first.to_string().contains("thread pump") && first.to_string().contains("SysTick is pending"), "{first}");
    let findings = explain(&[&elf, &core, "--reg", "primask=1", "--reg", "icsr=0"]);
    assert!(findings.is_empty(), "nothing waits: {findings:?}");
}

/// The tick was called kept back wherever a stop fell between the moment in which it came and that in which it was taken.
#[test]
fn a_tick_that_is_pending_in_a_thread_alone_is_no_finding() {
    let elf = fixture("stall.elf").display().to_string();
    let core = fixture("stall-just_pending.core.gz").display().to_string();
    let findings = explain(&[&elf, &core]);
    assert!(findings.iter().all(|finding| finding["code"] != "interrupts-masked"), "{findings:?}");
}

/// Nothing was said of a kernel that had not started its first thread where no loop is at the program counter, and of its RAM alone.
#[test]
fn an_initialisation_that_does_not_end_was_found_only_in_a_loop() {
    let elf = fixture("stall.elf");
    let pc = format!("pc={:#x}", symbol(&elf, "app_define"));
    let elf = elf.display().to_string();
    let core = fixture("stall-init_waits.core.gz");
    let findings = explain(&[&elf, &core.display().to_string(), "--reg", &pc]);
    let first = findings.first().expect("a finding");
    assert_eq!([&first["code"], &first["confidence"]], ["hang", "hint"], "{first}");
    assert!(first["claim"].as_str().unwrap().contains("its initialisation is in app_define (stalls.c:"), "{first}");
    let scratch = Scratch::new("not-started");
    let ram_of = |name: &str| {
        let image = scratch.path(name);
        std::fs::write(&image, parts(&fixture(&format!("stall-{name}.core.gz"))).0).unwrap();
        explain(&[&elf, &format!("{}@{:#x}", image.display(), RAM.0)])
    };
    let findings = ram_of("init_waits");
    let first = findings.first().expect("a finding");
    assert_eq!([&first["code"], &first["confidence"]], ["hang", "hint"], "{first}");
    assert!(first["claim"].as_str().unwrap().ends_with("its initialisation had not ended"), "{first}");
    assert!(first["evidence"].to_string().contains("logger is the thread that was created last"), "{first}");
    let findings = ram_of("quiet");
    assert!(findings.iter().all(|finding| finding["code"] != "hang"), "{findings:?}");
}

/// What is wrong with a kernel's critical sections is not said of an interrupt that does not call it.
#[test]
fn an_evidence_core_without_its_elf_claims_what_can_be_known() {
    for [name, code, ..] in ways() {
        let core = fixture(&format!("stall-{name}.core.gz")).display().to_string();
        for finding in explain(&[&core]).iter().filter(|finding| finding["confidence"] != "hint") {
            // Without its code it is not known whether the handler ends.
            let is_either = name == "length_0" && finding["claim"].as_str().unwrap().contains(", or does not end: ");
            let code = if is_either { "isr-storm" } else { code.as_str() };
            assert_eq!(finding["code"], code, "{name}: {finding}");
        }
    }
}

/// The findings of a dump of RAM alone. `is_interrupted`: an interrupt has come at the registers of the core, and pushed them.
fn in_ram(name: &str, is_interrupted: bool) -> Vec<Value> {
    in_ram_with(name, is_interrupted, &[])
}

/// The same with other values of registers.
fn in_ram_with(name: &str, is_interrupted: bool, others: &[(&str, u32)]) -> Vec<Value> {
    ram_of("stall.elf", &format!("stall-{name}"), is_interrupted, others)
}

/// The same of any core of a fixture.
fn ram_of(elf: &str, name: &str, is_interrupted: bool, others: &[(&str, u32)]) -> Vec<Value> {
    let (mut ram, registers) = parts(&fixture(&format!("{name}.core.gz")));
    let value = |of: &str| {
        if let Some((_, other)) = others.iter().find(|(name, _)| *name == of) {
            return *other;
        }
        let all = registers.iter().filter_map(|pair| pair.split_once("=0x"));
        all.filter(|(name, _)| *name == of).map(|(_, hex)| u32::from_str_radix(hex, 16).unwrap()).next().unwrap()
    };
    if is_interrupted {
        let sp = value("sp");
        let skipped = if sp & 4 == 0 { 0 } else { 0x200 };
        let frame = (sp as usize & !7) - 32 - RAM.0;
        for (n, name) in ["r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr"].into_iter().enumerate() {
            let word = value(name) | if name == "xpsr" { skipped | 1 << 24 } else { 0 };
            ram[frame + 4 * n..frame + 4 * n + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    let scratch = Scratch::new(&format!("left-{name}-{is_interrupted}-{}", others.first().map_or(0, |other| other.1)));
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    explain(&[&fixture(elf).display().to_string(), &format!("{}@{:#x}", image.display(), RAM.0)])
}

/// A dump of RAM showed nothing of a thread in a loop, though each tick leaves its registers on the stack.
#[test]
fn what_interrupts_left_of_a_loop_is_a_hint_without_registers() {
    let said = |finding: &Value| finding["claim"].as_str().unwrap().ends_with(", if it is still there");
    for (name, at) in [("called_handler", "Default_Handler"), ("callback_waits", "wait_transfer")] {
        let findings = in_ram(name, true);
        let first = findings.first().unwrap_or_else(|| panic!("{name}: nothing"));
        assert_eq!((&first["code"], &first["confidence"]), (&"hang".into(), &"hint".into()), "{first}");
        assert!(said(first) && first["claim"].as_str().unwrap().contains(at), "{first}");
        assert!(!in_ram(name, false).iter().any(said), "{name}");
    }
    for name in ["quiet", "masked_on", "tickless"] {
        assert!(!in_ram(name, true).iter().any(said), "{name}: it computes");
    }
}

/// The thread was named without the loop that the last interrupt found it in.
#[test]
fn a_thread_that_keeps_others_off_was_named_without_its_place_in_a_dump_of_ram() {
    let first = |others: &[(&str, u32)]| ram_of("wait.elf", "wait-silent", true, others).into_iter().next().unwrap();
    // It is in a function that begins as this one does: `push {r7}; add r7, sp, #0`. Then the loop follows.
    let endless = u32::try_from(symbol(&fixture("wait.elf"), "Default_Handler") & !1).unwrap() + 4;
    let found = first(&[("pc", endless)]);
    assert_eq!((&found["code"], &found["confidence"]), (&"starvation".into(), &"likely".into()), "{found}");
    let claim = found["claim"].as_str().unwrap();
    assert!(claim.contains(" runs in Default_Handler (") && claim.contains(", if it is still there, and "), "{found}");
    let shown = found["evidence"].as_array().unwrap();
    assert!(shown.iter().any(|one| one["kind"] == "stack" && one["value"] == format!("{endless:#010x}")), "{found}");
    // Where it computes, it may be anywhere by now.
    let found = first(&[]);
    assert!(found["claim"].as_str().unwrap().contains(" runs and does not block: "), "{found}");
}

/// A write to code and a read through a null pointer, where the chip has memory, were no fault in a dump of RAM.
#[test]
fn a_write_to_code_and_a_read_at_0_are_hints_of_a_fault() {
    // `str r4, [r3]` and `ldr r3, [r2]` of the callback, and the stack pointer in front of its fault.
    const SP: u32 = 0x2000_06F8;
    let callback = symbol(&fixture("stall.elf"), "heartbeat_expired") as u32 & !1;
    let (read, write) = (callback + 0x8, callback + 0x18);
    let at = |pc: u32, r2: u32, r3: u32| {
        in_ram_with("callback", true, &[("pc", pc), ("r2", r2), ("r3", r3), ("sp", SP)]).into_iter().next()
    };
    let first = at(write, 0, 0x1000).expect("a finding");
    assert_eq!(first["code"], "mem-fault", "{first}");
    assert!(
        first["claim"].as_str().unwrap().starts_with("a write of 4 bytes to 0x1000 (code or a constant)"),
        "{first}"
    );
    // The handler of this fault stored the address of the frame, and that the fault was escalated.
    let first = at(read, 0x28, 0).expect("a finding");
    assert_eq!((&first["code"], &first["confidence"]), (&"bus-fault".into(), &"likely".into()), "{first}");
    assert!(first["claim"].as_str().unwrap().starts_with("a read of 4 bytes at 0x28 in heartbeat_expired"), "{first}");
    assert!(at(read, 0x2000_2A88, 0).is_none(), "a read of RAM");
}

/// What less than an evidence core shows: of RAM alone, of RAM with the registers of a thread (`registers`), and of a trace alone.
/// The other ways are known by registers that these do not have.
const ELSEWHERE: [(&str, &str, &str); 37] = [
    ("isr_waits", "registers", "isr-never-ends"),
    ("isr_loops", "registers", "isr-never-ends"),
    ("isr_counts", "registers", "isr-never-ends"),
    ("jump_data", "ram", "usage-fault"),
    ("jump_data", "registers", "hang"),
    ("runs_data", "registers", "hang"),
    ("vector", "registers", "hang"),
    ("panic", "registers", "assert"),
    ("callback", "ram", "bus-fault"),
    ("callback", "registers", "bus-fault"),
    ("runs_on", "ram", "interrupts-masked"),
    ("runs_on", "registers", "interrupts-masked"),
    ("callback_waits", "registers", "hang"),
    ("called_handler", "registers", "hang"),
    ("stack_below", "ram", "stack-overflow"),
    ("stack_below", "registers", "stack-overflow"),
    ("callback_long", "ram", "starvation"),
    ("callback_long", "registers", "starvation"),
    ("callback_long", "trace", "starvation"),
    ("no_ack", "registers", "isr-storm"),
    ("init_waits", "ram", "hang"),
    ("init_waits", "registers", "hang"),
    ("nmi_stops", "registers", "hang"),
    ("smashed", "registers", "hang"),
    ("list_circle", "ram", "isr-never-ends"),
    ("list_circle", "registers", "isr-never-ends"),
    ("length_0", "ram", "isr-never-ends"),
    ("length_0", "registers", "isr-never-ends"),
    ("entry_missing", "ram", "null-call"),
    ("entry_missing", "registers", "null-call"),
    ("past_pointers", "ram", "bus-fault"),
    ("sink_closed", "ram", "null-call"),
    ("sink_closed", "registers", "null-call"),
    ("tick_lost", "ram", "no-tick"),
    ("tick_lost", "registers", "no-tick"),
    ("tick_lost", "trace", "no-tick"),
    ("stack_below", "trace", "stack-overflow"),
];

/// What is wrong with what other sources than the evidence core say of one way.
fn wrong_elsewhere(way: &[String; 4], prefix: &str, elf: &str, name_of: &dyn Fn(&str) -> String) -> Vec<String> {
    let [name, _, said, _] = way;
    let core = fixture(&format!("{prefix}{name}.core.gz"));
    let (ram, registers) = parts(&core);
    let scratch = Scratch::new(&format!("{prefix}{name}"));
    let [image, trx] = ["ram.bin", "way.trx"].map(|file| scratch.path(file));
    std::fs::write(&image, ram).unwrap();
    let (core, trx) = (core.display().to_string(), trx.display().to_string());
    let out = tx_trace(&["dump", elf, &core, "-o", &trx]);
    // Its trace is not enabled.
    let has_trace = name != "storm";
    assert_eq!(out.status.success(), has_trace, "{}", String::from_utf8_lossy(&out.stderr));
    let image = format!("{}@{:#x}", image.display(), RAM.0);
    let with: Vec<&str> = registers.iter().flat_map(|pair| ["--reg", pair]).collect();
    let sources = [
        ("ram", explain(&[elf, &image])),
        ("registers", explain(&[&[elf, &image], with.as_slice()].concat())),
        ("trace", if has_trace { explain(&[&trx]) } else { Vec::new() }),
    ];
    let names: Vec<String> = split(said).iter().map(|said| name_of(said)).collect();
    let wrong = |(source, findings): &(&str, Vec<Value>)| {
        // Which interrupt it is shows in registers alone: a test of its own has what is known without them.
        if (name.as_str(), *source) == ("tick_storm", "ram") {
            return None;
        }
        // No event of an interrupt says which one it is.
        if matches!(name.as_str(), "no_ack" | "length_0") && *source == "trace" {
            let first = findings.first().map(|first| (first["code"].as_str(), first["claim"].as_str().unwrap()));
            let fits = first.is_some_and(|(code, claim)| {
                code == Some("isr-storm") && claim.contains("System Timer Thread has been ready for")
            });
            return (!fits).then(|| format!("{prefix}{name} {source}: {first:?}"));
        }
        let known = ELSEWHERE.iter().find(|(of, from, _)| of == name && from == source);
        let Some((.., code)) = known else {
            let sure = findings.iter().find(|finding| finding["confidence"] != "hint");
            return sure.map(|finding| format!("{prefix}{name} {source}: {finding}"));
        };
        let Some(first) = findings.first() else { return Some(format!("{prefix}{name} {source}: nothing")) };
        let text = first.to_string();
        let fits = first["code"] == *code && names.iter().any(|name| text.contains(name.as_str()));
        (!fits).then(|| format!("{prefix}{name} {source}: {first}"))
    };
    sources.iter().filter_map(wrong).collect()
}

/// They were tried only from evidence cores.
#[test]
fn less_than_an_evidence_core_shows_what_can_be_known_and_claims_nothing_else() {
    let mut all = Vec::new();
    for (prefix, elf, is_other) in [("stall-", "stall.elf", false), ("stall-other-", "stall-other.elf", true)] {
        let elf = fixture(elf).display().to_string();
        let name_of = |said: &str| if is_other { other(said) } else { said.to_owned() };
        all.extend(ways().iter().flat_map(|way| wrong_elsewhere(way, prefix, &elf, &name_of)));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// "Nothing wrong found" in the RAM of a system in which interrupts kept all threads from running: no register was known.
#[test]
fn interrupts_that_keep_back_all_threads_were_not_seen_without_registers() {
    let elf = fixture("stall.elf").display().to_string();
    let scratch = Scratch::new("stall-ram");
    let found = |way: &str| {
        let (ram, _) = parts(&fixture(&format!("stall-{way}.core.gz")));
        let image = scratch.path(way);
        std::fs::write(&image, ram).unwrap();
        explain(&[&elf, &format!("{}@{:#x}", image.display(), RAM.0)])
    };
    let all = found("tick_storm");
    let first = all.first().expect("a finding");
    // It has no more events of interrupts than a handler may insert that gives much at once.
    assert_eq!((&first["code"], &first["confidence"]), (&"isr-storm".into(), &"hint".into()), "{first}");
    let claim = first["claim"].as_str().unwrap();
    assert!(claim.contains("thread System Timer Thread is ready, and no thread has run for"), "{claim}");
    // One tick that comes late, and one interrupt that takes long.
    for way in ["late_tick", "short_isr", "quiet", "just_pending"] {
        assert!(found(way).iter().all(|finding| finding["confidence"] == "hint"), "{way}");
    }
}

/// "Nothing" of a fault in a dump of RAM: a text had been written over the stack of its thread, so that no callers were found.
#[test]
fn a_fault_whose_callers_were_overwritten_was_not_seen_in_ram() {
    let before = in_ram("past_pointers", false);
    let shown = before.first().expect("a finding")["evidence"].as_array().unwrap();
    let frame = shown.iter().find(|one| one["kind"] == "stack").expect("a frame")["address"].as_str().unwrap();
    let above = usize::from_str_radix(&frame[2..], 16).unwrap() - RAM.0 + 32;
    let (mut ram, _) = parts(&fixture("stall-past_pointers.core.gz"));
    ram[above..above + 64].copy_from_slice(&b"ALMA-041".repeat(8));
    let scratch = Scratch::new("no-callers");
    let image = scratch.path("ram.bin");
    std::fs::write(&image, ram).unwrap();
    let elf = fixture("stall.elf").display().to_string();
    let findings = explain(&[&elf, &format!("{}@{:#x}", image.display(), RAM.0)]);
    let fault =
        findings.iter().find(|finding| finding["code"] == "bus-fault").unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(fault["confidence"], "likely", "{fault}");
    assert!(
        fault["claim"].as_str().unwrap().contains("a write of 4 bytes to 0x8e41d3a8 in fire (stalls.c:"),
        "{fault}"
    );
}
