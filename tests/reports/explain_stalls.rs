//! `explain` over CPUs that do not go on, and interrupts that do not come (`tests/firmware/stalls.c`): what is planted is the first
//! finding of an evidence core. What only looks like it has nothing above a hint.
#![cfg(all(unix, feature = "cli"))]

use serde_json::Value;

use super::explain_failures::{RAM, explain, parts, split};
use super::support::machine::{Scratch, fixture, symbol};

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
            assert_eq!(finding["code"], code.as_str(), "{name}: {finding}");
        }
    }
}
